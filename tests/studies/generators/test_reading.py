"""What a reading says of who has how many images."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from memorisk.statistics.copies.memorized_share import memorized_share
from memorisk.studies.generators.results import _read_evaluation

TRAIN, HELD, EACH = 60, 80, 5
"""Training patients have one image, since a generator is trained on some images; held-out ones have all of theirs."""


def honest(seed: int) -> tuple[Any, dict[str, np.ndarray]]:
    """A generator that knows nobody, and its distances."""
    rng = np.random.default_rng(seed)
    held = np.repeat([f"h{i}" for i in range(HELD)], EACH)
    groups = np.concatenate([[f"t{i}" for i in range(TRAIN)], held])
    data = SimpleNamespace(groups=groups, held_out=np.arange(TRAIN, len(groups)))
    options = SimpleNamespace(nominal=0.05, q=0.1, seed=seed)
    cell = SimpleNamespace(training=SimpleNamespace(groups=groups[:TRAIN]), data=data, options=options)
    return cell, {"0.train_distance": rng.random(TRAIN), "0.held_distance": rng.random(len(held))}


def test_patients_of_a_subset_of_images_are_compared_by_as_many() -> None:
    """By all images, held-out patients look nearer, and a memory would be hidden behind their number of images."""
    all_images, as_many, attained = [], [], 0.0
    for seed in range(60):
        cell, found = honest(seed)
        read = _read_evaluation(cell, 1, 0, "pixels", found)
        attained = read.share.attained
        as_many.append(read.share.estimate)
        given = (found["0.train_distance"], found["0.held_distance"], cell.training.groups)
        all_images.append(memorized_share(*given, cell.data.groups[cell.data.held_out], nominal=0.05).estimate)
        assert (read.share.n_train, read.share.n_held) == (TRAIN, HELD)
        assert "Training patients have 1.0 images on average and held-out patients 5.0" in read.counted
    noise = np.std(as_many) / np.sqrt(len(as_many))
    assert abs(np.mean(as_many) - attained) < 3 * noise
    assert np.mean(all_images) < attained / 3
