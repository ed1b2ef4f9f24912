"""What the study's file may say."""

import copy
from typing import Any

import pytest

from memorisk.runs.errors import InputError
from memorisk.studies.generators.config import ALL, Duplicates, read_generators
from tests.studies.generators.conftest import CONFIG


def changed(**parts: Any) -> dict[str, Any]:
    """The configuration with other settings of one arm (``arm``), data set (``dataset``), or other parts."""
    config = copy.deepcopy(CONFIG)
    config["arms"]["copier"] |= parts.pop("arm", {})
    config["datasets"]["Digits"] |= parts.pop("dataset", {})
    config["settings"] |= parts.pop("settings", {})
    return config | parts


def test_a_file_is_read_as_it_stands() -> None:
    study = read_generators(CONFIG)
    copier, repeated, other = study.arms
    assert copier.sizes == (60, ALL)
    assert (copier.snapshots, repeated.snapshots) == ((20, 40), (40,))
    assert repeated.duplicates == Duplicates((4, 16), 20)
    assert [arm.kind for arm in study.arms] == ["DiT", "DiT", "StyleGAN2"]
    settings = copier.training(7, study.options)
    assert (settings.steps, settings.snapshot_every, settings.seed, settings.batch_size) == (40, 20, 7, 4)
    assert other.datasets == ("Digits",)


@pytest.mark.parametrize(
    ("snapshots", "steps", "found"),
    [([5, 20], None, (5, 20)), ([5], 20, (5, 20)), (4, 20, (5, 10, 15, 20)), (None, 20, (20,)), (3, 2, (1, 2))],
)
def test_snapshots_are_steps_or_how_many(snapshots: Any, steps: int | None, found: tuple[int, ...]) -> None:
    generator = {"steps": steps} if steps else {}
    config = changed(arm={"snapshots": snapshots}, generator=generator)
    config["arms"] = {"copier": config["arms"]["copier"]}
    arm = read_generators(config).arms[0]
    assert arm.snapshots == found
    every = arm.training(0, read_generators(config).options).snapshot_every
    assert all(step % every == 0 for step in found)


@pytest.mark.parametrize(("patients", "n", "count"), [(20, 100, 20), (0.1, 100, 10), (0.001, 100, 1)])
def test_patients_of_a_level_are_a_number_or_a_share(patients: float, n: int, count: int) -> None:
    assert Duplicates((4,), patients).count(n) == count


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "needs datasets"),
        ({**CONFIG, "arms": None}, "needs arms"),
        ({**CONFIG, "cells": {}}, "cells"),
        (changed(settings={"detector": ["pixels:8"]}), "detector"),
        (changed(settings={"detectors": []}), "detectors"),
        (changed(settings={"detectors": ["pixels:x"]}), "pixels:x"),
        (changed(settings={"quality": "pixels:x"}), "pixels:x"),
        (changed(settings={"nominal": 0.0}), "nominal is 0.0"),
        (changed(settings={"images": -1}), "images is -1"),
        (changed(settings={"strengths": ["medium"]}), "medium"),
        (changed(settings={"gallery": "no"}), "gallery"),
        (changed(settings={"sampler": "euler"}), "euler"),
        (changed(settings={"device": "gpu"}), "device"),
        (changed(dataset={"images": ""}), "names no images"),
        (changed(dataset={"held_out": 1.0}), "held_out is 1.0"),
        (changed(dataset={"splits": "mine"}), "mine"),
        (changed(dataset={"pictures": 3}), "pictures"),
        (changed(arm={"images": "many"}), "images is many"),
        (changed(arm={"datasets": ["Letters"]}), "Letters"),
        (changed(arm={"training_images": [0]}), "training_images"),
        (changed(arm={"training_images": "some"}), "training_images"),
        (changed(arm={"seeds": [0, 0]}), "different whole numbers"),
        (changed(arm={"snapshots": [80]}), "snapshots is"),
        (changed(arm={"snapshots": 0}), "snapshots is 0"),
        (changed(arm={"duplicates": {"levels": [1], "patients": 3}}), "levels"),
        (changed(arm={"duplicates": {"levels": [4], "patients": 1.5}}), "patients is 1.5"),
        (changed(arm={"duplicates": {"copies": [4]}}), "copies"),
        (changed(arm={"generator": {"seed": 3}}), "seed is set by the study"),
        (changed(arm={"generator": {"layers": 3}}), "layers"),
        (changed(arm={"generator": {"lr": -1.0}}), "lr is -1.0"),
        (changed(arm={"generator": {"kind": "vae"}}), "vae"),
        (changed(generator={"batch_size": 4}), "needs steps"),
        (changed(classifiers={"epochs": 3}), "epochs"),
        (changed(classifiers={"conditioning_noise": 0.0}), "conditioning_noise"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(config: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read_generators(config)
    assert "\n" not in str(caught.value)
