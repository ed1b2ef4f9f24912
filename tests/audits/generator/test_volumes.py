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
from memorisk.training.engine.user_training import RowDataset
from memorisk.training.generators.options import TrainGeneratorOptions

nib = pytest.importorskip("nibabel")
RECIPES = Path(__file__).resolve().parents[3] / "recipes"

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


def test_an_own_training_receives_volumes_and_is_scored_on_three_axes(volumes: Path, tmp_path: Path) -> None:
    """The recipe of the docs, whose network refuses anything but [b, 1, d, h, w]."""
    result = audit_generator(
        volumes,
        out=tmp_path / "run",
        frames="volume",
        size=8,
        one_image_per_patient=True,
        train="own_volumes:train",
        python_path=(RECIPES,),
        train_settings={"steps": "3", "batch_size": "4", "width": "8"},
        models=2,
        levels=2,
        draws=1,
        processes=1,
    )
    assert isinstance(result, Result)
    assert result.status in ("fail", "undecided")
    assert np.isfinite(pd.read_parquet(tmp_path / "run" / "scores.parquet")["loss"]).all()


def test_a_dataset_of_volumes_has_a_channel(volumes: Path) -> None:
    voxels = np.arange(2 * 8 * 9 * 10, dtype=np.uint8).reshape(2, 8, 9, 10)
    dataset = RowDataset(voxels, np.array([1]))
    assert dataset[0].shape == (1, 10, 8, 9)
    assert dataset[0][0, 3, 2, 1] == voxels[1, 2, 1, 3]


@pytest.mark.parametrize(
    "settings", [{"kind": "dit"}, {"kind": "unet"}, {"kind": "gan"}, {"target": Path("net.safetensors")}]
)
def test_other_generators_of_volumes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="twins of volumes are trained by your own function"):
        GeneratorAuditOptions(frames="volume", size=8, **settings).validate()


@pytest.mark.parametrize("options", OF_SLICES, ids=lambda options: options.__name__)
def test_commands_that_take_slices_refuse_volumes_by_name(options: type[ImageOptions]) -> None:
    settings = options(frames="volume", size=8)
    with pytest.raises(
        InputError, match=r"this command takes slices .* images check, audit synthetic and audit generator"
    ):
        ImageOptions.validate(settings)
