"""Options refuse what cannot be, and leave to the architecture what is left open."""

from dataclasses import fields
from typing import Any

import pytest

from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.errors import InputError
from memorisk.training.engine.options import TrainOptions, resolve_options


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("optimizer", "adamm", "Did you mean 'adam'"),
        ("schedule", "cosin", "Did you mean 'cosine'"),
        ("head", "multiple", "Did you mean 'multi'"),
        ("normalise", "datasets", "Did you mean 'dataset'"),
        ("precision", "float32", "unknown precision"),
        ("class_weights", "false", "true or false"),
        ("epochs", 0, "at least 1"),
        ("epochs", 1.5, "whole number"),
        ("epochs", True, "whole number"),
        ("batch_size", 1, "at least 2"),
        ("lr", 0.0, "above 0"),
        ("lr", float("nan"), "above 0"),
        ("lr", float("inf"), "above 0"),
        ("weight_decay", -1e-4, "0 or more"),
    ],
)
def test_wrong_values_are_refused_in_one_line(field: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        TrainOptions(**{field: value})
    assert "\n" not in str(caught.value)


def test_open_settings_come_from_the_architecture() -> None:
    medsam = resolve_options(TrainOptions(), model_spec("medsam"))
    assert (medsam.epochs, medsam.lr, medsam.normalise) == (50, 5e-5, "model")
    small = resolve_options(TrainOptions(epochs=3), model_spec("small_cnn"))
    assert (small.epochs, small.lr, small.normalise) == (3, 1e-3, "dataset")
    assert resolve_options(TrainOptions(lr=1.0), model_spec("resnet50")).lr == 1.0


def test_defaults_are_the_papers() -> None:
    paper = resolve_options(TrainOptions(), model_spec("resnet50"))
    assert (paper.optimizer, paper.schedule, paper.batch_size, paper.epochs, paper.lr) == (
        "adam",
        "cosine",
        64,
        30,
        1e-4,
    )


def test_augmentations_are_a_list_of_names() -> None:
    assert TrainOptions(augment=" hflip, crop ,").augmentations == ("hflip", "crop")
    assert TrainOptions().augmentations == ()


def test_every_field_has_a_default() -> None:
    assert {f.name for f in fields(TrainOptions)} >= {"epochs", "lr", "head", "normalise", "precision", "augment"}
    TrainOptions()
