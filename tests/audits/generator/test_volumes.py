"""The audit of a generator of volumes, and the commands that take slices alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.feature.options import FeatureOptions
from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.quality.options import QualityOptions
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.watch.options import WatchOptions
from memorisk.images.options import ImageOptions
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.studies.detectors.options import BenchDetectorsOptions
from memorisk.studies.pairs.options import PairBenchOptions
from memorisk.training.autoencoders.options import TrainAutoencoderOptions
from memorisk.training.detectors.command_options import DetectorSettings
from memorisk.training.engine.options import TrainClassifierOptions
from memorisk.training.generators.options import TrainGeneratorOptions

nib = pytest.importorskip("nibabel")

OF_SLICES = (
    ClassifierOptions, FeatureOptions, FilterOptions, QualityOptions, SynthesizeOptions, WatchOptions,
    BenchDetectorsOptions, PairBenchOptions, TrainAutoencoderOptions, DetectorSettings, TrainClassifierOptions,
    TrainGeneratorOptions,
)  # fmt: skip


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("volumes"), np.random.default_rng(0)
    for number in range(24):
        values = rng.integers(0, 200, (9, 10, 11)).astype(np.uint8)
        nib.save(nib.Nifti1Image(values, np.eye(4)), folder / f"P{number:02d}.nii.gz")
    return folder


def test_twins_of_volumes_are_trained_and_judged(volumes: Path, tmp_path: Path) -> None:
    result = audit_generator(
        volumes,
        out=tmp_path / "run",
        frames="volume",
        size=8,
        one_image_per_patient=True,
        steps=3,
        models=2,
        levels=2,
        draws=1,
        processes=1,
    )
    assert isinstance(result, Result)
    assert result.status in ("fail", "undecided")
    assert len(result.per_image) == 24
    assert np.isfinite(pd.read_parquet(tmp_path / "run" / "scores.parquet")["loss"]).all()
    assert "data:image/png" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    "settings", [{"kind": "dit"}, {"kind": "unet"}, {"train": "mine:train"}, {"target": Path("net.safetensors")}]
)
def test_other_generators_of_volumes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="twins of volumes are of kind tiny"):
        GeneratorAuditOptions(frames="volume", size=8, **settings).validate()


@pytest.mark.parametrize("options", OF_SLICES, ids=lambda options: options.__name__)
def test_commands_that_take_slices_refuse_volumes_by_name(options: type[ImageOptions]) -> None:
    settings = options(frames="volume", size=8)
    with pytest.raises(
        InputError, match=r"this command takes slices .* images check, audit synthetic and audit generator"
    ):
        ImageOptions.validate(settings)
