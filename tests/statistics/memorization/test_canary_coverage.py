"""Differences of canary models and references, over many simulated studies: limits cover, nothing is found in nothing.

Tolerances are three standard deviations of the simulation itself. Welch's limits with Satterthwaite's freedom stand
beside, and limits that forget what canaries share.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.mark_contrasts import MeanLimits, contrast, excess_over_references, mean_limits
from tests.thorough import thorough

STUDIES, LEVEL = 2000, 0.95
SIGNS = (1.0, -1.0, -1.0, 1.0)
LABELS = 10


def slack(share: float) -> float:
    """Three standard deviations of a share counted over the simulated studies."""
    return 3 * np.sqrt(share * (1 - share) / STUDIES)


def counted(found: list[MeanLimits], truth: float) -> tuple[float, float]:
    """Shares of limits that hold the truth, and that lie above it."""
    return (
        float(np.mean([f.low <= truth <= f.high for f in found])),
        float(np.mean([f.low > truth for f in found])),
    )


def assert_covers(found: list[MeanLimits], truth: float) -> None:
    held, above = counted(found, truth)
    assert held >= LEVEL - slack(LEVEL)
    assert above <= (1 - LEVEL) / 2 + slack((1 - LEVEL) / 2)


def welch(groups: list[np.ndarray], signs: tuple[float, ...]) -> MeanLimits:
    """Satterthwaite's degrees of freedom, estimated."""
    parts = [s**2 * x.var(ddof=1) / len(x) for s, x in zip(signs, groups, strict=True)]
    df = sum(parts) ** 2 / sum(p**2 / (len(x) - 1) for p, x in zip(parts, groups, strict=True))
    estimate = sum(s * x.mean() for s, x in zip(signs, groups, strict=True))
    half = np.sqrt(sum(parts)) * stats.t.ppf(0.5 + LEVEL / 2, df)
    return MeanLimits(estimate, estimate - half, estimate + half, 0, 0)


def four_groups(sizes: tuple[int, ...], sds: tuple[float, ...], means: tuple[float, ...], seed: int):
    """Canaries and references under a regulariser, canaries and references without, of every study."""
    rng = np.random.default_rng(seed)
    own = list(zip(means, sds, sizes, strict=True))
    return [[rng.normal(*group) for group in own] for _ in range(STUDIES)]


@pytest.mark.parametrize("means", [(0.0, 0.0, 0.0, 0.0), thorough((0.7, 0.1, 0.2, -0.1))])
@pytest.mark.parametrize(
    ("sizes", "sds"),
    [
        thorough((30, 20, 30, 20), (1, 1, 1, 1)),
        ((30, 20, 30, 20), (3, 1, 0.5, 1)),
        thorough((10, 20, 10, 20), (1, 0.3, 0.5, 0.3)),
        ((30, 2, 30, 2), (1, 1, 1, 0.2)),
    ],
)
def test_a_difference_of_differences_covers_and_finds_nothing_in_nothing(sizes, sds, means):
    studies = four_groups(sizes, sds, means, seed=0)
    found = [contrast(groups, SIGNS) for groups in studies]
    assert_covers(found, float(np.dot(SIGNS, means)))


@pytest.mark.thorough
def test_limits_of_the_study_are_hardly_wider_than_welchs():
    studies = four_groups((30, 20, 30, 20), (1, 1, 1, 1), (0, 0, 0, 0), seed=1)
    own = np.mean([f.high - f.low for f in (contrast(g, SIGNS) for g in studies)])
    theirs = np.mean([f.high - f.low for f in (welch(g, SIGNS) for g in studies)])
    assert 1 < own / theirs < 1.05


def test_with_two_references_welchs_limits_do_not_cover():
    studies = four_groups((30, 2, 30, 2), (1, 1, 1, 0.2), (0, 0, 0, 0), seed=2)
    held, _ = counted([welch(groups, SIGNS) for groups in studies], 0.0)
    assert held < LEVEL - 2 * slack(LEVEL)


def test_regularised_and_plain_canaries_on_the_same_images_are_covered_at_least():
    """What an image adds under both regularisers cancels in the difference, not in the spread."""
    rng, found = np.random.default_rng(3), []
    for _ in range(STUDIES):
        image = rng.normal(0, 1, 10)
        own, plain = image + rng.normal(0.3, 1, 10), image + rng.normal(0, 1, 10)
        found.append(contrast([own, rng.normal(0, 1, 20), plain, rng.normal(0, 1, 20)], SIGNS))
    assert_covers(found, 0.3)


def white_box(n: int, references: int, effect: Callable[[np.random.Generator, int], np.ndarray], seed: int):
    """Scores of canaries and of the references in their places: by label, by model, and by both; of every study."""
    rng = np.random.default_rng(seed)
    for _ in range(STUDIES):
        label, by_label = rng.integers(LABELS, size=n), rng.normal(0, 2, LABELS)
        own = by_label[label] + effect(rng, n) + rng.normal(0, 1, n) + rng.normal(0, 0.5, n)
        by_both = rng.normal(0, 0.5, (references, LABELS))
        yield own, by_label[label] + rng.normal(0, 1, (references, 1)) + by_both[:, label]


EFFECTS = {
    "nothing": (0.0, lambda rng, n: np.zeros(n)),
    "alike": (0.4, lambda rng, n: rng.normal(0.4, 0.5, n)),
    "skewed": (0.4, lambda rng, n: rng.exponential(0.4, n)),
}


@pytest.mark.parametrize("effect", [thorough("nothing"), thorough("alike"), "skewed"])
@pytest.mark.parametrize(
    ("n", "references"), [thorough(100, 20), thorough(20, 20), (100, 3), thorough(100, 2), thorough(10, 5)]
)
def test_canaries_over_shared_references_are_covered(n, references, effect):
    truth, drawn = EFFECTS[effect]
    assert_covers([excess_over_references(*study) for study in white_box(n, references, drawn, seed=4)], truth)


def test_references_that_all_canaries_share_must_not_be_forgotten():
    studies = list(white_box(100, 20, EFFECTS["nothing"][1], seed=5))
    forgotten = [mean_limits(own - theirs.mean(axis=0)) for own, theirs in studies]
    held, above = counted(forgotten, 0.0)
    assert held < LEVEL - 2 * slack(LEVEL)
    assert above > 0.05


def test_two_shared_references_under_welch_find_too_much():
    studies = white_box(100, 2, EFFECTS["nothing"][1], seed=6)
    found = [welch([own - t.mean(axis=0), t.mean(axis=1) - t.mean()], (1.0, -1.0)) for own, t in studies]
    held, above = counted(found, 0.0)
    assert held < LEVEL - 2 * slack(LEVEL)
    assert above > 2 * (1 - LEVEL) / 2


def test_excess_is_the_mean_over_canaries_of_what_lies_above_the_references():
    own, theirs = next(white_box(7, 4, EFFECTS["alike"][1], seed=7))
    found = excess_over_references(own, theirs)
    by_hand = [own[i] - np.mean([theirs[r, i] for r in range(4)]) for i in range(7)]
    assert found.estimate == pytest.approx(np.mean(by_hand))
    spread = [theirs[r].mean() for r in range(4)]
    half = np.hypot(stats.sem(by_hand) * stats.t.ppf(0.975, 6), stats.sem(spread) * stats.t.ppf(0.975, 3))
    assert (found.low, found.high) == pytest.approx((found.estimate - half, found.estimate + half))
    assert (found.n, found.n_other) == (7, 4)
    assert np.isnan(excess_over_references(own, theirs[:1]).low)
    assert np.isnan(excess_over_references(own[:1], theirs[:, :1]).low)
    with pytest.raises(InputError, match="references, n"):
        excess_over_references(own, theirs[:, :3])
