"""Contrasts of subgroups: the least-squares effect given the class, an exact null, intervals that cover, power."""

from collections.abc import Callable
from itertools import combinations, permutations, product

import numpy as np
import pytest
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.subgroups import (
    adjusted_contrasts,
    noticeable_difference,
    noticeable_share,
    share_contrasts,
    subgroup_contrasts,
)
from memorisk.statistics.verdicts.levels import POWER, SUBGROUP_LEVEL


def _patients(rng: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw noise, levels and classes: the rare class is common in the rare level."""
    rare = rng.random(n) < 0.15
    level = np.where(rng.random(n) < np.where(rare, 0.6, 0.1), "s", "t")
    return 0.1 * rng.standard_t(3, n) / np.sqrt(8), level, np.where(rare, "rare", "common")


def test_the_difference_is_the_least_squares_effect_of_the_level_given_the_class() -> None:
    rng = np.random.default_rng(0)
    y, level, label = _patients(rng)
    y = y + (label == "rare") * 2 + (level == "s") * 0.3
    classes = np.unique(label)
    design = np.column_stack([level == "s", *[label == one for one in classes]]).astype(float)
    effect = np.linalg.lstsq(design, y, rcond=None)[0][0]
    contrast = subgroup_contrasts(y, level, label, draws=1)[0]
    assert contrast.level == "s"
    assert contrast.difference.estimate == pytest.approx(effect, abs=1e-12)


def test_the_standard_error_is_welchs_in_one_class() -> None:
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(0, 3, 12), rng.normal(1, 1, 30)])
    contrast = subgroup_contrasts(y, ["a"] * 12 + ["b"] * 30, ["x"] * 42, draws=1)[0]
    var = y[:12].var(ddof=1) / 12, y[12:].var(ddof=1) / 30
    assert contrast.standard_error == pytest.approx(np.sqrt(sum(var)))
    assert contrast.difference.df == pytest.approx(sum(var) ** 2 / (var[0] ** 2 / 11 + var[1] ** 2 / 29))


def test_the_interval_is_the_wider_of_welchs_and_of_permutations_without_the_difference() -> None:
    """One of twelve lies far above the others: the level's own spread says little, and the lower limit lies lower."""
    rng = np.random.default_rng(5)
    y = np.concatenate([rng.normal(0.2, 0.1, 12), rng.normal(0, 0.1, 80), [3.0, 3.2, 2.9, 3.1]])
    level, inside = np.array(["a"] * 12 + ["b"] * 84), np.arange(96) < 12
    difference = subgroup_contrasts(y, level, ["x"] * 96)[0].difference
    welch = scipy.stats.ttest_ind(y[:12], y[12:], equal_var=False).confidence_interval(0.95)
    error = np.sqrt(y[:12].var(ddof=1) / 12 + y[12:].var(ddof=1) / 84)
    aligned, draws = y - difference.estimate * inside, []
    for _ in range(20_000):
        z = rng.permutation(aligned)
        own = np.sqrt(z[:12].var(ddof=1) / 12 + z[12:].var(ddof=1) / 84)
        draws.append((z[:12].mean() - z[12:].mean()) / own)
    low, high = difference.estimate - np.quantile(draws, [0.975, 0.025]) * error
    assert low > welch.low, "else the test does not show which limit is taken"
    assert high > welch.high
    assert difference.low == pytest.approx(welch.low)
    assert difference.high == pytest.approx(high, rel=0.1)


@pytest.mark.parametrize("size", [12, 34, 200])
def test_the_interval_covers_where_few_of_all_patients_are_remembered_strongly(size: int) -> None:
    rng, covered, welch = np.random.default_rng(size), [], []
    for draw in range(200):
        y = 0.1 * rng.standard_t(3, (8, 400)).mean(axis=0) + 3 * (rng.random(400) < 0.05)
        level, label = np.where(rng.permutation(400) < size, "in", "out"), np.where(np.arange(400) % 2, "x", "y")
        contrast = subgroup_contrasts(y, level, label, draws=199, seed=draw)[0]
        half = contrast.standard_error * scipy.special.stdtrit(contrast.difference.df, 0.975)
        covered.append(contrast.difference.low <= 0 <= contrast.difference.high)
        welch.append(abs(contrast.difference.estimate) <= half)
    assert np.sum(covered) >= scipy.stats.binom.ppf(0.001, 200, 0.95)
    if size < 100:
        assert np.mean(welch) < 0.9


def test_the_p_value_is_the_larger_of_all_permutations_and_of_welchs_t() -> None:
    y, level = np.array([0.3, 1.7, 0.9, 2.0, -0.4]), np.array(list("aabbb"))
    arrangements = np.array(list(permutations(range(5))))

    def studentized(values: np.ndarray) -> float:
        contrast = subgroup_contrasts(values, level, ["x"] * 5, draws=1)[0]
        return contrast.difference.estimate / contrast.standard_error

    exact = np.mean([studentized(y[list(one)]) >= studentized(y) - 1e-9 for one in arrangements])
    welch = scipy.stats.ttest_ind(y[:2], y[2:], equal_var=False, alternative="greater").pvalue
    assert exact > welch, "else the permutations decide nothing here"
    drawn = subgroup_contrasts(y, level, ["x"] * 5, draws=4999)[0].p
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4999))
    y = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0, *np.linspace(-1, 1, 30)])
    skewed = subgroup_contrasts(y, ["a"] * 6 + ["b"] * 30, ["x"] * 36, draws=499)[0]
    welch = scipy.stats.ttest_ind(y[:6], y[6:], equal_var=False, alternative="greater").pvalue
    assert skewed.p >= welch - 1e-12


NULLS: dict[str, Callable[[np.random.Generator, np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "no effect": lambda rng, y, level, label: y,
    "a class that is remembered": lambda rng, y, level, label: y + (label == "rare") * (rng.random(len(y)) < 0.3) * 2,
    "a level with three times the noise": lambda rng, y, level, label: y * np.where(level == "s", 3, 1),
}


@pytest.mark.parametrize("world", NULLS)
def test_no_level_is_called_higher_more_often_than_the_level_says(world: str) -> None:
    rng, n_audits = np.random.default_rng(2), 300
    called = covered = 0
    for draw in range(n_audits):
        y, level, label = _patients(rng)
        y = NULLS[world](rng, y, level, label)
        contrasts = adjusted_contrasts([subgroup_contrasts(y, level, label, draws=199, seed=draw)])[0]
        called += any(contrast.is_higher for contrast in contrasts)
        covered += contrasts[0].difference.low <= 0 <= contrasts[0].difference.high
    assert called <= 0.05 * n_audits + 2.33 * np.sqrt(0.05 * 0.95 * n_audits)
    assert covered >= 0.95 * n_audits - 2.33 * np.sqrt(0.05 * 0.95 * n_audits)


def test_a_noticeable_difference_is_found_as_often_as_it_says() -> None:
    rng, n_audits = np.random.default_rng(3), 200
    size = 0.1 / np.sqrt(8) * np.sqrt(3)  # standard deviation of the noise
    effect = noticeable_difference(size * np.sqrt(1 / 40 + 1 / 360), 40, 2)
    found = 0
    for draw in range(n_audits):
        y = rng.normal(0, size, 400)
        level = np.repeat(["s", "t"], [40, 360])
        contrasts = subgroup_contrasts(y + effect * (level == "s"), level, ["x"] * 400, draws=499, seed=draw)
        found += adjusted_contrasts([contrasts])[0][0].is_higher
    assert found / n_audits == pytest.approx(POWER, abs=3 * np.sqrt(POWER * (1 - POWER) / n_audits))


def test_a_level_that_is_a_whole_class_is_compared_with_no_patient() -> None:
    contrasts = subgroup_contrasts(np.arange(20.0), ["a"] * 10 + ["b"] * 10, ["x"] * 10 + ["y"] * 10)
    assert [contrast.n_compared for contrast in contrasts] == [0, 0]
    assert np.isnan([contrast.p for contrast in contrasts]).all()
    assert np.isnan(adjusted_contrasts([contrasts])[0][0].noticeable)


def test_patients_without_a_level_are_in_no_comparison() -> None:
    y, level = np.arange(12.0), np.array(["a", "b", ""] * 4)
    known = level != ""
    with_them, without = (
        subgroup_contrasts(y[rows], level[rows], np.array(["x"] * 12)[rows], draws=50)
        for rows in (np.ones(12, dtype=bool), known)
    )
    assert with_them == without


def test_equal_values_give_no_test() -> None:
    contrast = subgroup_contrasts(np.zeros(20), list("ab") * 10, ["x"] * 20, draws=20)[0]
    assert contrast.difference.estimate == 0
    assert np.isnan(contrast.p)


def test_the_seed_decides_the_permutations() -> None:
    rng = np.random.default_rng(5)
    y, level, label = _patients(rng)
    p = [subgroup_contrasts(y, level, label, draws=99, seed=seed)[0].p for seed in (1, 1, 2, 3, 4)]
    assert p[0] == p[1]
    assert len(set(p)) > 1


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        subgroup_contrasts([1.0, np.nan], ["a", "b"], ["x", "x"])
    with pytest.raises(InputError, match="shapes"):
        subgroup_contrasts([1.0, 2.0], ["a"], ["x", "x"])
    with pytest.raises(InputError, match="draws"):
        subgroup_contrasts([1.0, 2.0], ["a", "b"], ["x", "x"], draws=0)


def test_a_share_in_one_class_has_fishers_p_and_newcombes_interval() -> None:
    level = ["a"] * 20 + ["b"] * 50
    inside, rest = share_contrasts([1] * 5 + [0] * 15 + [1] * 3 + [0] * 47, level, ["x"] * 70)
    fisher = scipy.stats.fisher_exact([[5, 15], [3, 47]], alternative="greater").pvalue
    assert inside.p == pytest.approx(fisher)
    assert rest.p == pytest.approx(scipy.stats.fisher_exact([[3, 47], [5, 15]], alternative="greater").pvalue)
    wilson = [scipy.stats.binomtest(k, n).proportion_ci(method="wilson") for k, n in ((5, 20), (3, 50))]
    difference = inside.difference
    assert difference.estimate == pytest.approx(5 / 20 - 3 / 50)
    assert difference.low == pytest.approx(0.19 - np.hypot(0.25 - wilson[0].low, wilson[1].high - 0.06))
    assert difference.high == pytest.approx(0.19 + np.hypot(wilson[0].high - 0.25, 0.06 - wilson[1].low))


def test_a_share_in_several_classes_has_the_p_of_all_permutations_within_them() -> None:
    y, level = np.array([1, 0, 1, 0, 0, 1, 1, 0, 0]), np.array(list("aabbbabab"))
    label = np.array(list("xxxxxyyyy"))
    own = share_contrasts(y, level, label)[0]
    effects = []
    for chosen in product(combinations(range(5), 2), combinations(range(5, 9), 2)):
        inside = np.isin(np.arange(9), np.ravel(chosen))
        design = np.column_stack([inside, label == "x", label == "y"]).astype(float)
        effects.append(np.linalg.lstsq(design, y.astype(float), rcond=None)[0][0])
    assert own.p == pytest.approx(np.mean(np.array(effects) >= own.difference.estimate - 1e-9))


SHARES: dict[str, tuple[float, float]] = {"2 % in each class": (0.02, 0.02), "a class that is copied": (0.15, 0.01)}
"""Shares of the rare class and of the common one."""


@pytest.mark.parametrize("world", SHARES)
def test_no_level_of_rare_copies_is_called_higher_more_often_than_the_level_says(world: str) -> None:
    rng, n_audits = np.random.default_rng(6), 400
    called = covered = 0
    for _ in range(n_audits):
        _, level, label = _patients(rng)
        copied = rng.random(len(level)) < np.where(label == "rare", *SHARES[world])
        contrasts = share_contrasts(copied, level, label)
        called += min(contrast.p for contrast in contrasts) <= SUBGROUP_LEVEL / len(contrasts)
        covered += contrasts[0].difference.low <= 0 <= contrasts[0].difference.high
    assert called <= 0.05 * n_audits + 2.33 * np.sqrt(0.05 * 0.95 * n_audits)
    assert covered >= 0.95 * n_audits - 2.33 * np.sqrt(0.05 * 0.95 * n_audits)


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_a_noticeable_share_is_found_as_often_as_it_says(shares: tuple[float, float]) -> None:
    rng, n_audits = np.random.default_rng(7), 300
    _, level, label = _patients(rng, 500)
    base, inside = np.where(label == "rare", *shares), level == "s"
    n_rest = [int((~inside & (label == one)).sum()) for one in ("rare", "common")]
    expected = share_contrasts(np.zeros(500), level, label)[0]
    weight = np.array([(inside & (label == one)).sum() * n for one, n in zip(("rare", "common"), n_rest, strict=True)])
    weight = weight / [(label == one).sum() for one in ("rare", "common")]
    share = float(weight @ np.array(shares) / weight.sum())
    effect = noticeable_share(*(round(n) for n in expected.sides), share, 2) - share
    found = 0
    for _ in range(n_audits):
        contrast = share_contrasts(rng.random(500) < base + effect * inside, level, label)[0]
        found += contrast.p <= SUBGROUP_LEVEL / 2
    assert found / n_audits == pytest.approx(POWER, abs=3 * np.sqrt(POWER * (1 - POWER) / n_audits))


def test_where_all_or_none_are_copied_there_is_a_test_and_a_noticeable_share() -> None:
    level = ["a"] * 12 + ["b"] * 60
    (apart, _), (none, _) = (
        adjusted_contrasts([share_contrasts(copied, level, ["x"] * 72)])[0]
        for copied in ([1] * 12 + [0] * 60, [0] * 72)
    )
    assert apart.is_higher
    assert apart.difference.low > 0.6
    assert (none.difference.estimate, none.p) == (0, 1)
    assert 0.2 < none.noticeable < 0.6
    assert none.difference.high > 0.1


def test_a_share_of_a_level_that_is_too_small_to_be_noticed_has_no_number() -> None:
    assert np.isnan(noticeable_share(2, 3, 0.0, 1))
    assert np.isnan(share_contrasts([0, 1], ["a", "b"], ["x", "y"])[0].noticeable_among(2))


def test_a_share_of_other_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="neither 0 nor 1"):
        share_contrasts([0.5, 1.0], ["a", "b"], ["x", "x"])
