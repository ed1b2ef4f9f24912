"""Words of captions: what is left out, what a lift is, and which words are surely remembered."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from memorisk.audits.generator.words import (
    RARER,
    ShorterCaption,
    caption_words,
    shorter_captions,
    word_lifts,
    word_table,
)
from memorisk.models.generators.noise_attacks import CLID_SHARES
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.models.generators.released import open_released
from memorisk.statistics.verdicts.levels import SUBGROUP_LEVEL
from tests.models.small_text_to_image import text_to_image_folder

PATIENTS = 24
"""Patients of each side."""


def sides(n: int = PATIENTS) -> tuple[np.ndarray, np.ndarray]:
    """Patients and sides of one image per patient."""
    return np.array([f"p{i}" for i in range(2 * n)]), np.arange(2 * n) >= n


def test_words_are_left_out_by_name_and_rare_ones_together() -> None:
    groups, test = sides(5)
    captions = [f"Lung, clear. seen {chr(97 + i)} lung" for i in range(10)]
    shorter = shorter_captions(captions, groups, test)
    first = [(one.word, one.text) for one in shorter if one.item == 0]
    assert first == [
        ("lung", "clear. seen a"), ("clear", "Lung, seen a lung"), ("seen", "Lung, clear. a lung"),
        (RARER, "Lung, clear. seen lung"),
    ]  # fmt: skip
    assert len(shorter) == 40
    four = shorter_captions(captions[1:], groups[1:], test[1:])  # four patients are left on one side
    assert {one.word for one in four} == {RARER}
    same = np.array(["one"] * 5 + ["two"] * 5)  # images of one patient count once
    assert {one.word for one in shorter_captions(captions, same, test)} == {RARER}
    assert caption_words("... ___ [**2012**]") == [("...", "..."), ("___", "___"), ("[**2012**]", "[**2012**]")]


def test_a_lift_is_the_loss_without_the_word_less_that_with_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    released = open_released(text_to_image_folder(tmp_path / "sd"), "unet")
    assert released.captions is not None
    x, ids = torch.randn(2, 4, 4, 4, generator=torch.Generator().manual_seed(0)), np.array(["a", "b"])
    images: Any = SimpleNamespace(batches=lambda blocks: [x[block] for block in blocks])
    target: Any = SimpleNamespace(generator=released, ids=ids, images=images, pairs=2)
    captions = ["opacity left", "lung " * 30]
    shorter = [
        ShorterCaption(0, "left", "opacity"),
        ShorterCaption(1, "last", ("lung " * 29).strip()),  # the cut caption never had it
        ShorterCaption(0, "opacity", "left"),
    ]
    lifts = word_lifts(target, captions, shorter)
    times = sorted({released.denoiser.nearest_time(share) for share in CLID_SHARES})

    def loss(text: str) -> float:
        tokens = released.captions.tokens([text])  # pyright: ignore[reportOptionalMemberAccess]
        return float(noise_losses(released.denoiser, x[:1], ["a"], times, 2, None, tokens).mean())

    assert lifts[0] == pytest.approx(loss("opacity") - loss("opacity left"), abs=1e-6)
    assert lifts[2] == pytest.approx(loss("left") - loss("opacity left"), abs=1e-6)
    assert abs(lifts[0]) > 1e-5
    assert np.isnan(lifts[1])


def simulated(rng: np.random.Generator, remembered: float = 0.0, words: int = 6) -> Any:
    """Lifts of words that describe every image, one of them remembered; classes differ in lift and in number."""
    groups, test = sides()
    labels = np.where(rng.random(len(groups)) < np.where(test, 0.7, 0.3), "mass", "normal")
    shorter, lifts = [], []
    for item in range(len(groups)):
        for word in range(words):
            shorter.append(ShorterCaption(item, f"w{word}", ""))
            lift = 0.01 * word + (0.05 if labels[item] == "mass" else 0.0) + 0.02 * rng.standard_exponential()
            lifts.append(lift + (remembered if word == 2 and not test[item] else 0.0))
    return word_table(shorter, np.array(lifts), groups, labels, test)


def test_a_word_that_training_lifts_is_the_one_that_is_found() -> None:
    table = simulated(np.random.default_rng(0), remembered=0.04)
    assert table["word"].iloc[0] == "w2"
    assert (table["adjusted"] <= SUBGROUP_LEVEL).tolist() == [True] + [False] * 5
    first = table.iloc[0]
    assert first["low"] < 0.04 < first["high"]
    assert (first["n_train_patients"], first["n_test_patients"]) == (PATIENTS, PATIENTS)
    assert first["noticeable"] < 0.04


def test_words_that_describe_are_no_memory() -> None:
    """Family-wise: over 60 audits without memory, whose test images have other classes, at most a few call any word."""
    called = sum(
        bool((simulated(np.random.default_rng(seed))["adjusted"] <= SUBGROUP_LEVEL).any()) for seed in range(1, 61)
    )
    assert called <= 5  # 2.5 % of 60 is 1.5; more than 5 happen in 4 of 1,000 cases


def test_words_of_too_few_patients_and_without_a_lift_have_no_row() -> None:
    groups, test = sides(6)
    shorter = [ShorterCaption(item, "word", "") for item in range(12)]
    lifts = np.arange(12.0)
    assert len(word_table(shorter, lifts, groups, np.full(12, "a"), test)) == 1
    lifts[[0, 1]] = np.nan
    assert len(word_table(shorter, lifts, groups, np.full(12, "a"), test)) == 0
    assert len(word_table([], np.empty(0), groups, np.full(12, "a"), test)) == 0


def test_two_images_of_a_patient_are_one_unit() -> None:
    groups, test = sides(6)
    shorter = [ShorterCaption(item, "word", "") for item in range(24)]
    lifts = np.random.default_rng(0).normal(size=12)
    twice = word_table(shorter, np.tile(lifts, 2), np.tile(groups, 2), np.full(24, "a"), np.tile(test, 2))
    once = word_table(shorter[:12], lifts, groups, np.full(12, "a"), test)
    assert twice.equals(once)
