"""Settings and names: refused in one line before anything is read."""

from functools import partial
from pathlib import Path

import pytest

from memorisk.runs.errors import InputError
from memorisk.runs.settings import settings_of
from memorisk.scores.distances import PAPER_MEASURES
from memorisk.studies.detectors.cells import grid, read_backbone
from memorisk.studies.detectors.options import BenchDetectorsOptions

bench_options = partial(settings_of, BenchDetectorsOptions)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"measure": "all"}, "Did you mean 'measures'"),
        ({"measures": ("euclidian",)}, "Did you mean 'euclidean'"),
        ({"measures": ("whitened",)}, "unknown measure of paper 003"),
        ({"losses": ("tripplet",)}, "Did you mean 'triplet'"),
        ({"strengths": ("strongest",)}, "Did you mean 'strong'"),
        ({"backbones": ()}, "give one or more"),
        ({"seeds": (1, 1)}, "each once"),
        ({"shares": (0.5, 0.2, 0.2, 0.2)}, "add up to 1"),
        ({"shares": (0.5, 0.5)}, r"shares is \(0.5, 0.5\); give a list of 4"),
        ({"specificity": 1.0}, "between 0 and 1"),
        ({"percent": 0}, "between 0 and 100"),
        ({"domain": "none"}, "unknown domain"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"threads": 0}, "threads is 0"),
        ({"network_size": 0}, "network_size is 0"),
        ({"seeds": (-1,)}, "seed is -1"),
        ({"split_seed": 1 << 32}, "whole number from 0"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        bench_options(settings)


def test_one_value_stands_for_a_list_and_all_for_every_measure() -> None:
    options = bench_options({"backbones": "pixels", "seeds": 3, "measures": "all", "strengths": "weak"})
    assert options.backbones == ("pixels",)
    assert options.seeds == (3,)
    assert options.chosen_measures == PAPER_MEASURES
    assert options.strength == "weak"
    assert bench_options({"measures": ("euclidean", "cosine")}).chosen_measures == (
        "cosine",
        "euclidean",
    )


def test_a_training_has_the_benchmarks_settings() -> None:
    options = bench_options({"epochs": 7, "lr": 0.5, "protocol": "paper", "threads": 2, "temperature": 0.2})
    found = options.training("resnet50@none", "infonce", 4)
    assert (found.backbone, found.loss, found.seed) == ("resnet50@none", "infonce", 4)
    assert (found.epochs, found.lr, found.protocol, found.threads, found.temperature) == (7, 0.5, "paper", 2, 0.2)


def test_trainings_default_to_what_train_detector_does() -> None:
    from memorisk.training.detectors.options import DetectorOptions

    own = bench_options({}).training("resnet50@none", "infonce", 0)
    assert own == DetectorOptions(backbone="resnet50@none", loss="infonce")


def test_weights_are_named_for_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a=b.safetensors"
    file.touch()
    assert read_backbone(f"resnet50@{file}").name == "resnet50, a=b"
    assert read_backbone(f"resnet50@{file}=RadImageNet").detector("triplet") == "resnet50 (RadImageNet, Triplet)"
    assert read_backbone("timm:resnet50@none").name == "resnet50, random"
    assert read_backbone("pca:4:8").detector("none") == "pca:4:8 (untrained)"


def test_features_that_are_computed_already_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "features.npz"
    file.touch()
    with pytest.raises(InputError, match="computed already"):
        read_backbone(str(file))


def test_what_is_not_trained_stands_once() -> None:
    backbones = [read_backbone(text) for text in ("pixels", "pca:4", "small_cnn@none")]
    names = [cell.name for cell in grid(backbones, ("none", "triplet"), (0, 1))]
    assert names == [
        "pixels (untrained), seed 0",
        "pca:4 (untrained), seed 0",
        "small_cnn (random, untrained), seed 0",
        "small_cnn (random, untrained), seed 1",
        "small_cnn (random, Triplet), seed 0",
        "small_cnn (random, Triplet), seed 1",
    ]
