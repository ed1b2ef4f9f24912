"""Patients of five images beside patients of one: an honest training goes on, and a copying one is stopped."""

import numpy as np
import pytest
from scipy import stats

from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.verdict import watch_verdict
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.memorized_share import memorized_share
from memorisk.statistics.copies.reversed_queries import reversed_queries
from memorisk.statistics.multiple_testing.stopping import ErrorSpending

M, N, EACH, DRAWN, LOOKS = 40, 60, 5, 200, 1


def split(digits, seed):
    """Images of training patients, of held-out ones, and of nobody."""
    images = digits[np.random.default_rng(seed).permutation(len(digits))]
    return images[: M * EACH], images[M * EACH : M * EACH + N], images[M * EACH + N :]


def watch_of(train, held, seed=0, out=None, **settings):
    """Five images a training patient, one a held-out one."""
    groups = [f"t{i // EACH}" for i in range(M * EACH)]
    given = {"quality": "none", "looks": LOOKS, "images": DRAWN, "stop_on": "test", "detector": "pixels", "seed": seed}
    return MemorizationWatch(
        train, held, out=out, train_groups=groups, held_out_groups=[f"h{i}" for i in range(N)], **(given | settings)
    )


def test_an_honest_training_goes_on_and_a_copying_one_is_stopped(digits):
    """The share of stopped trainings keeps its level; by all images most of them would be stopped."""
    stopped, by_all, error = [], [], ErrorSpending(0.05, LOOKS).of_look(1)
    for seed in range(30):
        train, held, others = split(digits, seed)
        stopped.append(not watch_of(train, held, seed).look(1, others[:DRAWN]).go_on)
        flat = [part.reshape(len(part), -1) / 255 for part in (train, held, others[:DRAWN])]
        d = [np.sqrt(((part[:, None] - flat[2]) ** 2).sum(-1)).min(1) for part in flat[:2]]
        least = group_values(d[0], np.repeat(np.arange(M), EACH))
        by_all.append(memorized_share(least, d[1]).p_value <= error)
    assert sum(stopped) <= stats.binom.ppf(0.999, len(stopped), 0.05)
    assert np.mean(by_all) > 0.5
    for seed in range(5):
        train, held, others = split(digits, seed)
        copies = np.concatenate([train[: DRAWN // 2] ^ 1, others[: DRAWN // 2]])
        assert not watch_of(train, held, seed).look(1, copies).go_on


def test_it_is_said_with_the_numbers_and_the_way_out(digits, tmp_path):
    train, held, others = split(digits, 0)
    watch = watch_of(train, held, out=tmp_path / "w")
    look = watch.look(1, others[:DRAWN])
    said = next(note for note in watch.notes if "one image, drawn by lot" in note)
    assert "5.0 images on average and held-out patients 1.0" in said
    assert "Give held-out patients with as many images" in said
    page = watch.report().read_text()
    assert "Every patient counts by one image" in page
    assert page.count("5.0 images on average") == 1
    assert "every patient by one image" in watch_verdict(watch.result()).reasons[0].text
    rows = watch.real.counted.train
    assert len(rows) == M
    assert look.train_least == pytest.approx(min(distance(train[row], others[:DRAWN]) for row in rows))
    alike = MemorizationWatch(train, held, detector="pixels", quality="none", looks=LOOKS, images=DRAWN, stop_on="test")
    assert not alike.real.counted.one_each
    assert alike.warnings == ()


def distance(image, others):
    """To the nearest of them, in the unit of the detector."""
    flat = [part.reshape(len(part), -1).astype(float) / 255 for part in (image[None], others)]
    return np.sqrt(((flat[0] - flat[1]) ** 2).sum(1)).min()


def test_the_list_looks_at_all_images(digits):
    train, held, others = split(digits, 1)
    watch = watch_of(train, held, level=0.9)
    watch.look(1, np.concatenate([train[:100], others[: DRAWN - 100]]))
    assert (
        watch.looks[0].shortest_list
        == reversed_queries(
            np.zeros(M * EACH), np.ones(N), np.repeat(np.arange(M), EACH), np.arange(N) + M, q=0.9
        ).shortest_list
    )
