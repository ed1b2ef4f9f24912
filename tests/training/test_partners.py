"""Groups without a partner are divided: everybody is scored, both twins hold the same, the null holds its level."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from memorisk.statistics.nulls import sign_flip_p_values
from memorisk.training.order import batch_order
from memorisk.training.twins import TwinDesign, never_paired, placebo_design, twin_design

NONE = np.empty(0, dtype=np.intp)


def population(seed: int, n_groups: int = 41, most: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Patients with random labels A, B, C and random numbers of images: hardly two hold the same."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n_groups)
    groups = np.array([f"p{g:03d}" for g in np.repeat(np.arange(n_groups), sizes)], dtype=object)
    labels = rng.choice(np.array(["A", "B", "C"], dtype=object), len(groups), p=[0.6, 0.3, 0.1])
    return labels, groups


def holdings(labels: np.ndarray, groups: np.ndarray) -> dict[str, tuple]:
    """What each group holds: its labels, equally often."""
    return {g: tuple(sorted(Counter(labels[groups == g]).items())) for g in sorted(set(groups))}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(2, 60))
def test_everybody_is_in_one_twin(drawn, seed, n_groups):
    labels, groups = population(drawn, n_groups)
    rows = np.arange(len(labels))
    design = twin_design(labels, groups, rows, NONE, seed=seed)
    for own in (design.rows_a, design.rows_b):
        assert len(np.unique(own)) == len(own)
    assert design.slots == max(len(design.rows_a), len(design.rows_b))
    assert (design.sign == np.isin(rows, design.rows_a).astype(int) - np.isin(rows, design.rows_b)).all()
    assert (design.sign != 0).all()
    assert all(len(set(design.sign[groups == g])) == 1 for g in set(groups))  # whole patients


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_both_twins_hold_the_same_and_slots_the_same_label(drawn, seed):
    """To within the two groups that are decided last, of at most five images each."""
    labels, groups = population(drawn, 60, most=5)
    design = twin_design(labels, groups, np.arange(len(labels)), NONE, seed=seed)
    n = min(len(design.rows_a), len(design.rows_b))
    assert max(len(design.rows_a), len(design.rows_b)) - n <= 10
    for label in "ABC":
        assert abs((labels[design.rows_a] == label).sum() - (labels[design.rows_b] == label).sum()) <= 10
    assert (labels[design.rows_a[:n]] == labels[design.rows_b[:n]]).mean() > 0.75


def test_where_all_have_partners_the_design_is_the_one_of_before():
    labels = np.repeat(np.array(["a", "b"], dtype=object), 24)
    groups = np.array([f"g{i // 2:02d}" for i in range(48)], dtype=object)
    for seed in range(20):
        old, new = (
            twin_design(labels, groups, np.arange(48), NONE, seed=seed, unmatched=unmatched)
            for unmatched in ("shared", "divided")
        )
        assert (old.rows_a == new.rows_a).all()
        assert (old.rows_b == new.rows_b).all()
        assert new.slots == len(new.rows_a)


def test_who_had_no_partner_has_one_now():
    """400 images of 100 patients, any of the findings A, B, C each: most patients hold what nobody else does."""
    rng = np.random.default_rng(0)
    labels = np.array(["|".join(c for c in "ABC" if rng.random() < 0.5) or "none" for _ in range(400)], dtype=object)
    groups = np.array([f"p{i // 4}" for i in range(400)], dtype=object)
    alone = {}
    for unmatched in ("shared", "divided"):
        designs = [twin_design(labels, groups, np.arange(400), NONE, seed=s, unmatched=unmatched) for s in range(8)]
        alone[unmatched] = len(never_paired(designs, np.arange(400)))
    assert alone["shared"] > 200
    assert alone["divided"] == 0


def test_whoever_has_no_partner_is_in_each_twin_equally_often():
    labels, groups = population(1, 25)
    rows = np.arange(len(labels))
    n = 600
    signs = np.array([twin_design(labels, groups, rows, NONE, seed=s).sign for s in range(n)])
    for group in sorted(set(groups)):  # each a binomial of n fair coins; 1e-6 a side for 25 of them
        heads = (signs[:, groups == group][:, 0] > 0).sum()
        assert stats.binom.ppf(1e-6, n, 0.5) <= heads <= stats.binom.isf(1e-6, n, 0.5)


def test_a_group_that_is_the_only_one_is_shared():
    labels, groups = np.array(["a", "b"], dtype=object), np.array(["p", "p"], dtype=object)
    design = twin_design(labels, groups, np.arange(2), NONE, seed=1)
    assert not design.sign.any()
    assert (design.rows_a == design.rows_b).all()


def test_decoys_of_a_placebo_are_as_many_patients_where_nobody_holds_the_same():
    labels, groups = population(5, 120)
    part = np.array([int(g[1:]) % 4 for g in groups])
    canaries, train = np.flatnonzero(part == 0), np.flatnonzero(part > 0)
    design = placebo_design(labels, groups, canaries, train, seed=1, balanced=False)
    swapped = np.concatenate([np.setdiff1d(design.rows_a, design.rows_b), np.setdiff1d(design.rows_b, design.rows_a)])
    assert len(set(groups[swapped])) == len(set(groups[canaries]))
    assert len(swapped) == pytest.approx(len(canaries), rel=0.15)
    assert not set(swapped) & set(canaries)


def test_an_empty_slot_holds_an_image_of_its_own_twin_and_nothing_else_moves():
    n, slots = 90, 100
    drawn = []
    for epoch in range(400):
        full, short = batch_order(3, epoch, slots), batch_order(3, epoch, n, slots)
        stays = full < n
        assert (full[stays] == short[stays]).all()
        assert sorted(short[stays].tolist()) == list(range(n))
        drawn.append(short[~stays].numpy())
    filled = np.bincount(np.concatenate(drawn), minlength=n)
    assert stats.chisquare(filled).pvalue > 1e-4  # no image is trained on more than another
    assert (batch_order(3, 0, n, n) == batch_order(3, 0, n)).all()


def _gap(design: TwinDesign, labels: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Loss gaps of models that memorize nobody and yet are not blind to who is in them, [N].

    Each learns how frequent a class is among its images (``-log`` of the share) and fits everything better the more
    images it has (``0.5 log n``, as a loss of 1 nat does that falls with the root of their number).
    """
    losses = []
    for rows in (design.rows_a, design.rows_b):
        count = Counter(labels[rows])
        share = np.array([np.log((count[c] + 1) / (len(rows) + 3)) for c in labels])
        losses.append(-share - 0.5 * np.log(len(rows)) + noise * rng.normal(size=len(labels)))
    return losses[1] - losses[0]


def _beside_the_next(labels: np.ndarray, groups: np.ndarray, rows: np.ndarray, seed: int) -> TwinDesign:
    """Each group beside the next one by number of images, a fair coin a pair: what looks as if it were enough."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(groups[rows]))
    ordered = sorted(names, key=lambda g: -(groups == g).sum())
    sign = np.zeros(len(labels), dtype=np.int8)
    for first, second in zip(ordered[0::2], ordered[1::2], strict=False):
        coin = 1 if rng.random() < 0.5 else -1
        sign[groups == first], sign[groups == second] = coin, -coin
    return TwinDesign(seed, np.flatnonzero(sign > 0), np.flatnonzero(sign < 0), sign)


def _small_p_values(audits: int, noise: float, who: str, design: Callable[..., TwinDesign]) -> int:
    """In how many simulated audits one patient has p of at most 0.05, nobody memorized.

    Patients have 1 to 6 images of random classes, one has 20.
    """
    seeds, small = 5, 0
    for audit in range(audits):
        rng = np.random.default_rng([audit, 77])
        labels, groups = population(audit, 60)
        more = rng.choice(np.array(["A", "B", "C"], dtype=object), 20)
        labels, groups = np.concatenate([labels, more]), np.concatenate([groups, ["p000"] * len(more)]).astype(object)
        canary = np.array([int(g[1:]) < 40 for g in groups])  # sizes and labels are random: so is the test part
        rows = np.flatnonzero(canary)
        designs = [design(labels, groups, rows, seed=100 * audit + s) for s in range(seeds)]
        gap = np.stack([_gap(d, labels, rng, noise) for d in designs])
        sign = np.stack([d.sign for d in designs])
        own_labels = labels[groups == "p000"] if who == "the largest" else labels[canary]
        label = rng.choice(sorted(set(own_labels) & set(labels[~canary])))
        own, test = canary & (labels == label), ~canary & (labels == label)
        found = sign_flip_p_values(gap[:, own], sign[:, own], groups[own], gap[:, test], groups[test])
        chosen = found.unit == "p000" if who == "the largest" else rng.permutation(len(found.unit)) == 0
        small += bool(found.p_value[chosen][0] <= 0.05)
    return small


@pytest.mark.parametrize(("noise", "who"), [(0.05, "anybody"), (0.4, "anybody"), (0.05, "the largest")])
def test_the_null_holds_its_level_for_whoever_had_no_partner(noise, who):
    """One patient of each audit, so that p-values are independent: at most a binomial's share of them is small."""
    audits = 160
    small = _small_p_values(
        audits, noise, who, lambda one, two, rows, seed: twin_design(one, two, rows, NONE, seed=seed)
    )
    assert small <= stats.binom.isf(1e-4, audits, 0.05)


def test_a_coin_alone_does_not_hold_it():
    """What the largest patient brings goes where the patient goes, and looks like memorization of the patient."""
    audits = 100
    small = _small_p_values(audits, 0.05, "the largest", _beside_the_next)
    assert small > stats.binom.isf(1e-4, audits, 0.05)
