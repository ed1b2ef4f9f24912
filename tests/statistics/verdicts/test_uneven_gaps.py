"""Patients whose gaps are large in some seeds only, or of both signs, are noticed; chance is not."""

import numpy as np
import pytest
from scipy import stats

from memorisk.statistics.verdicts.uneven_gaps import (
    CERTAIN,
    FEW,
    TIED,
    ClassGaps,
    UnevenGaps,
    uneven_gap_noticed,
    uneven_gaps,
    uneven_seeds_needed,
)
from tests.thorough import thorough

SCORED, UNSEEN, SEEDS = 300, 100, 8


def gaps(seed: int, tails: float = 5.0, spread: float = 0.7, n_images: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Gaps `[S, I]` of scored and `[S, J]` of unseen images where nobody is memorized, in nats."""
    rng, n = np.random.default_rng(seed), n_images * (SCORED + UNSEEN)
    draws = rng.normal(size=(SEEDS, n)) if np.isinf(tails) else rng.standard_t(tails, (SEEDS, n))
    noise = 0.1 * np.exp(spread * rng.normal(size=n)) * draws
    return noise[:, : n_images * SCORED], noise[:, n_images * SCORED :]


def looked(scored: np.ndarray, unseen: np.ndarray, n_images: int = 1, **options: float) -> UnevenGaps:
    """The check of one class whose patients have equally many images."""
    return uneven_gaps([of_class(scored, unseen, n_images)], **options)[0]


def of_class(scored: np.ndarray, unseen: np.ndarray, n_images: int = 1) -> ClassGaps:
    """Gaps of a class whose patients have equally many images."""
    own, other = (np.arange(gap.shape[1]) // n_images for gap in (scored, unseen))
    return ClassGaps(scored, own, unseen, other)


@pytest.mark.parametrize(
    "planted",
    [2 * [8.0] + 6 * [0.0], 4 * [4.0] + 4 * [0.0], [4.0, -4.0] * 4, 6 * [4.0] + 2 * [-4.0], 7 * [-4.0] + [4.0]],
    ids=["2 seeds", "4 seeds", "exchanged in 4", "exchanged in 2", "exchanged in 7"],
)
def test_a_gap_of_some_seeds_or_of_both_signs_is_noticed(planted: list[float]) -> None:
    noticed = 0
    for seed in range(10):
        scored, unseen = gaps(seed)
        scored[:, 7] += planted
        noticed += looked(scored, unseen).uneven[7]
    assert noticed >= 9


def test_one_image_of_many_is_noticed() -> None:
    scored, unseen = gaps(3, n_images=10)
    scored[:4, 70] += 5.0
    found = looked(scored, unseen, n_images=10)
    assert np.flatnonzero(found.uneven).tolist() == [7]
    assert found.largest[7] == pytest.approx(np.abs(scored[:, 70:80]).max())


def test_an_album_that_half_of_the_trainings_remember_is_noticed() -> None:
    """0.6 nats in each of 12 images, in six of 12 seeds: no more than the noise of single images."""
    noticed, by_chance = 0, 0
    for seed in range(6):
        rng = np.random.default_rng([8, seed])
        unit = np.repeat(np.arange(250), np.append(12, rng.integers(1, 13, 249)))
        gap = 0.1 * np.exp(0.7 * rng.standard_normal(len(unit))) * rng.standard_t(3, (12, len(unit)))
        for memory in (0.0, 0.6):
            remembered = gap + np.outer(memory * (np.arange(12) < 6), unit == 0)
            parts = [  # half of the images of a patient are in each of two classes
                ClassGaps(remembered[:, own], unit[own], gap[:, other], unit[other])
                for of_part in (np.arange(len(unit)) % 2 == part for part in (0, 1))
                for own, other in [(of_part & (unit < 200), of_part & (unit >= 200))]
            ]
            listed = {
                u
                for part, outcome in zip(parts, uneven_gaps(parts), strict=True)
                for u in np.unique(part.group)[outcome.uneven]
            }
            if memory:
                noticed += listed == {0}
            else:
                by_chance += len(listed)
    assert (noticed, by_chance) == (6, 0)


def test_memory_of_half_of_the_trainings_in_one_class_is_noticed_beside_images_elsewhere() -> None:
    rng = np.random.default_rng(9)
    unit, label = np.repeat(np.arange(250), 40), np.tile(np.arange(5), 2000)
    gap = 0.1 * np.exp(0.7 * rng.standard_normal(len(unit))) * rng.standard_t(3, (12, len(unit)))
    gap[:6, (unit == 3) & (label == 2)] += 0.8
    parts = [
        ClassGaps(gap[:, own], unit[own], gap[:, other], unit[other])
        for own, other in (((label == k) & (unit < 200), (label == k) & (unit >= 200)) for k in range(5))
    ]
    noticed = [np.flatnonzero(outcome.uneven).tolist() for outcome in uneven_gaps(parts)]
    assert noticed == [[], [], [3], [], []]


@pytest.mark.parametrize(("size", "shared"), [(200, 0.5), thorough(500, 0.3)])
def test_the_noise_of_the_one_large_album_is_believed(size: int, shared: float) -> None:
    """Its images are correlated, so that its sum varies far more than those of patients with 1 to 7 images."""
    noticed = 0
    for seed in range(20):
        rng = np.random.default_rng([10, seed])
        sizes = np.append(size, rng.integers(1, 8, 149))
        unit = np.repeat(np.arange(150), sizes)
        own, common = rng.standard_t(3, (12, len(unit))), rng.standard_t(3, (12, 150))[:, unit]
        noise = 0.1 * np.exp(0.7 * rng.standard_normal(len(unit)))
        gap, scored = noise * (np.sqrt(1 - shared) * own + np.sqrt(shared) * common), unit < 120
        outcome = uneven_gaps([ClassGaps(gap[:, scored], unit[scored], gap[:, ~scored], unit[~scored])])[0]
        noticed += outcome.uneven[0]
    assert noticed <= 2


def test_albums_without_controls_are_left_out() -> None:
    """The paper design has no exchanged gaps as controls, and here each unseen patient has one image."""
    scored, unseen = gaps(3, n_images=2)
    single = unseen[:, ::2]
    own = np.arange(scored.shape[1]) // 2
    outcome = uneven_gaps([ClassGaps(scored, own, single, np.arange(single.shape[1]))], flip=False)[0]
    assert (outcome.reason, outcome.uneven.any()) == ("", False)


@pytest.mark.parametrize(
    ("tails", "spread"), [(5.0, 0.7), thorough(np.inf, 0.0), thorough(3.0, 0.7), thorough(2.2, 0.5)]
)
def test_chance_is_noticed_no_more_often_than_stated(tails: float, spread: float) -> None:
    repeats = 100
    noticed = sum(looked(*gaps(1000 + seed, tails, spread)).uneven.any() for seed in range(repeats))
    assert noticed <= stats.binom.ppf(0.999, repeats, 0.05)


def test_the_power_is_that_of_planted_patients() -> None:
    powers, noticed = [], []
    for seed in range(30):
        scored, unseen = gaps(seed, tails=3.0)
        powers.append(looked(scored, unseen, notice=1.0).powers[0].power)
        scored[:4, 7] += 2.0
        noticed.append(looked(scored, unseen, notice=1.0).uneven[7])
    assert stats.binomtest(int(np.sum(noticed)), len(noticed), float(np.mean(powers))).pvalue > 0.001


def test_many_small_classes_have_the_power_of_one_large_one() -> None:
    """A cut of its own left a class of 40 patients the tail of 40, and a power near zero."""
    scored, unseen = gaps(5)
    parts = [of_class(scored[:, i::10], unseen[:, i::10]) for i in range(10)]
    outcomes = uneven_gaps(parts)
    assert min(power.power for outcome in outcomes for power in outcome.powers) >= CERTAIN
    assert not any(outcome.uneven.any() for outcome in outcomes)
    parts[3].own[:4, 2] += 4.0
    noticed = [np.flatnonzero(outcome.uneven).tolist() for outcome in uneven_gaps(parts)]
    assert noticed == [[2] if i == 3 else [] for i in range(10)]


def test_a_class_that_cannot_be_looked_at_leaves_the_others_their_look() -> None:
    scored, unseen = gaps(6)
    scored[:4, 7] += 4.0
    tied = of_class(*((1e-5 * gap).round(4) for gap in gaps(4)))
    outcomes = uneven_gaps([tied, of_class(scored, unseen), of_class(scored[:, :5], unseen[:, :0])])
    assert [outcome.reason for outcome in outcomes] == [TIED, "", FEW]
    assert np.flatnonzero(outcomes[1].uneven).tolist() == [7]


def test_the_level_is_lowered_where_power_allows_it() -> None:
    """Scores of noise fall more slowly than the tail of a cut, so that a level of 5 % would be exceeded."""
    noticed = sum(looked(*gaps(2000 + seed, tails=3.0, spread=0.7)).uneven.any() for seed in range(100))
    assert noticed <= stats.binom.ppf(0.999, 100, 0.05 / 2)


def test_halves_and_quarters_of_the_seeds() -> None:
    half, quarter = looked(*gaps(0)).powers
    assert (half.n_seeds, half.gap, quarter.n_seeds, quarter.gap) == (4, 4.0, 2, 8.0)


def test_missing_seeds_do_not_count() -> None:
    scored, unseen = gaps(3)
    scored[:4, 0] += 4.0
    scored[5:, 0] = np.nan
    assert looked(scored, unseen).uneven[0]


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_rounding_hides_nothing_or_the_check_could_not_look(decimals: int) -> None:
    """Zero gaps once made the cut infinite, and nothing was noticed."""
    for scale in (1.0, 1e-4):
        scored, unseen = (scale * gap for gap in gaps(4))
        scored[:4, 7] += 4.0
        found = looked(scored.round(decimals), unseen.round(decimals))
        assert found.reason == TIED or found.uneven[7]
    assert looked(*(1e-4 * gap for gap in gaps(4))).reason == ""
    assert looked(*((1e-5 * gap).round(4) for gap in gaps(4))).reason == TIED


def test_small_differences_are_no_memory() -> None:
    scored, unseen = (1e-4 * gap for gap in gaps(4))
    scored[:4, 7] += 0.05
    assert not looked(scored, unseen).uneven.any()


def test_too_few_patients_are_no_look() -> None:
    scored, unseen = gaps(3)
    assert looked(scored[:, :3], unseen[:, :3]).reason == FEW
    assert looked(scored[:, :0], unseen).reason == looked(scored, unseen[:, :0]).reason == FEW
    few = looked(scored, unseen[:, :9])  # exchanged gaps of scored patients are controls, too
    assert (few.reason, few.powers[0].power > 0.9) == ("", True)


def test_the_seeds_that_give_power_are_found_from_the_noise_of_fewer() -> None:
    """Of noise that hides 2 nats in eight seeds; none would show a hundredth of that."""
    scored, unseen = (3 * part for part in gaps(0, tails=3.0))
    weak = of_class(scored, unseen)
    assert not uneven_gaps([weak])[0].is_powerful
    needed = uneven_seeds_needed([weak])
    assert needed is not None
    assert SEEDS < needed <= 32
    rng = np.random.default_rng(1)
    anew = [3 * np.concatenate([gaps(seed, tails=3.0)[part] for seed in range(4)])[:needed] for part in (0, 1)]
    signed = of_class(*(part * rng.choice([-1.0, 1.0], part.shape) for part in anew))
    assert uneven_gaps([signed])[0].is_powerful
    assert uneven_seeds_needed([weak], notice=0.02) is None


def test_the_gap_that_is_noticed_with_these_seeds() -> None:
    weak = of_class(*(20 * part for part in gaps(0, tails=3.0)))
    assert uneven_seeds_needed([weak]) is None
    noticed = uneven_gap_noticed([weak], above=2.0)
    assert noticed is not None
    assert noticed > 2
    assert uneven_gaps([weak], notice=noticed)[0].is_powerful
    assert uneven_gap_noticed([weak], above=16.0) is None
