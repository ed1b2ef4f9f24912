"""ROC curves of membership attacks: all thresholds, AUC and TPR at a low FPR with intervals over groups and trainings.

Higher score = more likely a member. Ties count one half: the curve crosses them on the diagonal, and the AUC is the
share of (member, non-member) pairs in the right order. METHODS section 1, "Attacks"; paper 000, section A.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import MIN_SEEDS
from memorisk.statistics.jackknife import (
    JackknifeInterval,
    Trainings,
    counting_bound,
    jackknife,
    jackknife_variance,
    smallest_level,
    t_quantile,
    unavailable,
)
from memorisk.statistics.placements import GroupDeletedAuc, check_sides, group_deleted_auc, mid_ranks

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class RocCurve:
    """The curve at every distinct threshold, from "none accused" to "all accused"."""

    fpr: FloatArray
    """[P], share of non-members with score >= threshold."""
    tpr: FloatArray
    """[P], share of members with score >= threshold."""
    threshold: FloatArray
    """[P], falling, from infinity."""
    n_members: int
    """Number of scored members."""
    n_non_members: int
    """Number of scored non-members."""


@dataclass(frozen=True)
class TprAtFpr:
    """A true-positive rate at a low false-positive rate, counted in groups, or why there is none."""

    tpr: float
    """Mean over seeds; NaN when not measurable."""
    low: float
    """Lower limit; 0 where too few non-members surely bound the false-positive rate."""
    high: float
    """Upper limit of the rate."""
    fpr: float
    """The requested false-positive rate; the attained one is at most that."""
    n_members: int
    """Groups of members scored, in the seed that has fewest."""
    n_non_members: int
    """Groups of non-members scored, in the seed that has fewest."""
    needed: int
    """Groups of non-members needed for ``tpr``: 10 / fpr, so that about ten lie above the threshold."""
    note: str
    """Empty, or "not measurable: ..."."""
    p_at_most: float
    """One-sided p of "the rate is at most the ``value`` asked about"; 1 without one."""


@dataclass(frozen=True)
class ControlCheck:
    """Verdict of the control on the attacks of the same table."""

    passed: bool
    """Whether the control's AUC interval contains 0.5."""
    message: str
    """One sentence for the report."""


def roc_curve(members: ArrayLike, non_members: ArrayLike) -> RocCurve:
    """The ROC curve over all thresholds, equal to scikit-learn's without dropped points.

    Args:
        members: [m] scores.
        non_members: [n] scores.

    Returns:
        The curve, P = distinct scores + 1.

    Raises:
        InputError: A side is empty or has a NaN.

    Example:
        >>> curve = roc_curve([0.9, 0.8], [0.7, 0.3])
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0])
    """
    member, non_member = check_sides(members, non_members)
    values, index = np.unique(np.concatenate([member, non_member]), return_inverse=True)
    true = np.bincount(index[: len(member)], minlength=len(values))[::-1]
    false = np.bincount(index[len(member) :], minlength=len(values))[::-1]
    return RocCurve(
        fpr=np.concatenate([[0.0], np.cumsum(false) / len(non_member)]),
        tpr=np.concatenate([[0.0], np.cumsum(true) / len(member)]),
        threshold=np.concatenate([[np.inf], values[::-1]]),
        n_members=len(member),
        n_non_members=len(non_member),
    )


def auc(members: ArrayLike, non_members: ArrayLike) -> float:
    """Area under the curve, ``P(member > non-member) + P(tie) / 2``, from placements.

    Args:
        members: [m] scores.
        non_members: [n] scores.

    Raises:
        InputError: A side is empty or has a NaN.

    Example:
        >>> round(auc([0.9, 0.8, 0.4], [0.7, 0.3]), 3)
        0.833
    """
    member, non_member = check_sides(members, non_members)
    m, n = len(member), len(non_member)
    ranks = mid_ranks(np.concatenate([member, non_member]))
    return float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))


def log_roc_points(curve: RocCurve, cells: int = 100) -> tuple[FloatArray, FloatArray]:
    """A few hundred points of the curve that look like it on a logarithmic FPR axis.

    The axis from 1/n to 1 is cut into cells of equal logarithmic width. Of every cell the first and last points of the
    curve are kept, and its edge is added where the curve crosses the cell on a diagonal; so no step is moved by more
    than a cell. The TPR at FPR 0 is drawn from 1/(2n), half a non-member, since a logarithmic axis has no 0.

    Args:
        curve: Curve from ``roc_curve``.
        cells: Number of cells.

    Returns:
        FPR and TPR, at most 3 ``cells`` + 4 points.
    """
    smallest_fpr = 1.0 / curve.n_non_members
    edges = np.logspace(np.log10(smallest_fpr), 0.0, cells + 1)
    positive = curve.fpr > 0
    fpr, tpr = curve.fpr[positive], curve.tpr[positive]
    at_zero = float(curve.tpr[~positive].max())
    cell = np.clip(np.searchsorted(edges, fpr * (1 + 1e-12), side="right") - 1, 0, cells)
    first = np.flatnonzero(np.r_[True, cell[1:] != cell[:-1]])
    last = np.r_[first[1:] - 1, len(cell) - 1]
    keep = np.union1d(first, last)
    crossed = np.setdiff1d(np.arange(1, cells), cell)  # empty cells: their left edge, where the curve passes through
    x = np.concatenate([[smallest_fpr / 2, smallest_fpr], fpr[keep], edges[crossed]])
    y = np.concatenate([[at_zero, at_zero], tpr[keep], np.interp(edges[crossed], np.r_[0.0, fpr], np.r_[at_zero, tpr])])
    order = np.lexsort((y, x))
    return x[order], y[order]


def tpr_at_fpr(
    score: ArrayLike,
    role: ArrayLike,
    group: ArrayLike,
    fpr: float,
    *,
    seed: ArrayLike | None = None,
    value: float | None = None,
    level: float = 0.95,
) -> TprAtFpr:
    """Mean over attacked models of the largest TPR among thresholds whose FPR is at most ``fpr``, with an interval.

    Counted in groups: a patient's score is the mean over the images that have a role, so that a patient with sixty
    images is one. Nothing is interpolated: a threshold within a tie would have to be drawn by lot. The estimate needs
    10/fpr groups of non-members in every seed, the limits do not.

    The limits need no shape of the curve. With U the true FPR of the threshold that the (k + 1)-th largest of n
    non-members sets, ``P(U > fpr) = P(Bin(n, fpr) <= k)``. The lower limit is that of the TPR at the largest k where
    this is at most a quarter of 1 - ``level``, the upper limit that at the smallest k where the reverse holds; another
    quarter each goes to the limits of that TPR: Clopper-Pearson of ``n* = z^2 p (1 - p) / sum_i t_i^2 v_i`` trials
    (Korn and Graubard 1998), v_i over groups and trainings as of an AUC (``jackknife.py``). Simulated coverage: 0.97
    to 1 (``tests/statistics/test_roc.py``).

    Args:
        score: [T, N], higher = more likely a member, for T attacked models.
        role: [T, N], 1 member, 0 non-member, anything else left out for that model.
        group: [N], any sortable ids.
        fpr: False-positive rate, in (0, 1).
        seed: [T], seed of each attacked model, as in ``seed_auc_jackknife``.
        value: A rate to test "at most that" of; none if not given.
        level: Confidence level of the limits.

    Raises:
        InputError: ``fpr`` outside (0, 1), shapes differ, or an image with a role has a NaN score.
    """
    if not 0 < fpr < 1:
        raise InputError(f"a false-positive rate lies between 0 and 1, got {fpr}")
    members, others, of_seed = _by_group(score, role, group, seed)
    needed = int(np.ceil(10 / fpr - 1e-9))
    if not members:
        return TprAtFpr(float("nan"), 0.0, 1.0, fpr, 0, 0, needed, "not measurable: a side is empty", 1.0)
    m, n = (min(int((~np.isnan(row)).sum()) for row in side) for side in (members, others))
    sizes, quarter = [int((~np.isnan(o)).sum()) for o in others], (1 - level) / 4
    tpr, note = float("nan"), f"not measurable: {n:,} non-members, at least {needed:,} needed"
    if n >= needed:
        allowed = [int(np.floor(fpr * size + 1e-9)) for size in sizes]
        rates = [_accused(*side).mean() for side in zip(members, others, allowed, strict=True)]
        tpr, note = float(np.mean(rates)), ""

    def low(tail: float) -> float:
        allowed = [int(k) - 1 for k in scipy.stats.binom.ppf(tail, sizes, fpr)]
        return _rate_limit(members, others, allowed, of_seed, tail, -1)

    most = [int(k) for k in scipy.stats.binom.ppf(1 - quarter, sizes, fpr)]
    high = _rate_limit(members, others, most, of_seed, quarter, 1)
    p = 1.0 if value is None else smallest_level(lambda tail: low(tail / 2) > value)
    return TprAtFpr(tpr, low(quarter), high, fpr, m, n, needed, note, p)


def _by_group(
    score: ArrayLike, role: ArrayLike, group: ArrayLike, seed: ArrayLike | None
) -> tuple[list[FloatArray], list[FloatArray], NDArray[np.generic]]:
    """Average the scores of each group's members and of its non-members, for models with both sides.

    Returns:
        Means of members and of non-members, [G] per model (NaN: none), and the seed of each of these models.
    """
    scores, roles, index, n_groups = _checked(score, role, group)
    of_seed = _seeds(seed, len(scores))
    members, others, models = [], [], []
    for t, (s, r) in enumerate(zip(scores, roles, strict=True)):
        if (r == 1).any() and (r == 0).any():
            check_sides(s[r == 1], s[r == 0])
            models.append(t)
            for side, rows in ((1, members), (0, others)):
                own = index[r == side]
                count = np.bincount(own, minlength=n_groups)
                total = np.bincount(own, s[r == side], n_groups)
                rows.append(np.divide(total, count, out=np.full(n_groups, np.nan), where=count > 0))
    return members, others, of_seed[models]


def _seeds(seed: ArrayLike | None, n_models: int) -> NDArray[np.generic]:
    """Return the seed of each attacked model, [T]: one of its own where none are given.

    Raises:
        InputError: The number of seeds is not that of the models.
    """
    of_seed = np.arange(n_models) if seed is None else np.asarray(seed)
    if of_seed.shape != (n_models,):
        raise InputError(f"every attacked model needs a seed: {n_models} models, {of_seed.size} seeds")
    return of_seed


def _seed_means(values: FloatArray, seed: NDArray[np.generic]) -> FloatArray:
    """Average the rows [T, ...] of the attacked models of each seed: [S, ...]."""
    return np.stack([values[seed == one].mean(axis=0) for one in dict.fromkeys(seed.tolist())])


def _checked(
    score: ArrayLike, role: ArrayLike, group: ArrayLike
) -> tuple[FloatArray, NDArray[np.generic], NDArray[np.intp], int]:
    """Scores and roles [S, N] and the number of each image's group [N], of G groups."""
    scores, roles = np.asarray(score, dtype=np.float64), np.asarray(role)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    if scores.ndim != 2 or scores.shape != roles.shape or index.shape != scores.shape[1:]:
        raise InputError(
            f"score and role must be [seeds, images], group [images]; got {scores.shape}, {roles.shape}, {index.shape}"
        )
    return scores, roles, index, len(ids)


def _accused(members: FloatArray, others: FloatArray, allowed: int, *, ties: bool = False) -> NDArray[np.bool_]:
    """Return which members lie above the (allowed + 1)-th largest non-member, as at most ``allowed`` others do.

    With ``ties`` those at it, too.
    """
    values, others = members[~np.isnan(members)], others[~np.isnan(others)]
    place = len(others) - allowed - 1
    if place < 0:
        return np.ones(len(values), dtype=bool)
    threshold = np.partition(others, place)[place]
    return values >= threshold if ties else values > threshold


def _rate_limit(
    members: list[FloatArray],
    others: list[FloatArray],
    allowed: list[int],
    seed: NDArray[np.generic],
    tail: float,
    side: int,
) -> float:
    """One limit of the mean over models of the TPR at the thresholds of ``_accused``; side -1: the lower limit."""
    if min(allowed) < 0:
        return 0.0
    each = [_accused(m, o, k, ties=side > 0) for m, o, k in zip(members, others, allowed, strict=True)]
    rates = np.array([row.mean() for row in each])
    rate, trials = float(rates.mean()), float(min(len(row) for row in each))
    if len(each) > 1 and 0 < rate < 1:
        deleted = np.repeat(rates[:, None], len(members[0]), axis=1)  # [T, G]
        for t, row in enumerate(each):
            own = ~np.isnan(members[t])
            deleted[t, own] = (row.sum() - row) / max(len(row) - 1, 1)
        deleted = _seed_means(deleted[:, ~np.isnan(np.stack(members)).all(axis=0)], seed)
        rates = _seed_means(rates, seed)
        kind = np.zeros(deleted.shape[1], dtype=np.intp)
        spread = jackknife(
            rate, deleted.mean(axis=0), kind, scale="logit", trainings=_trainings(rates, deleted, kind)
        ).spread
        variance = sum(t_quantile(1 - tail, df) ** 2 * v for v, df in spread.parts) if spread else 0.0
        if variance > 0:
            trials = min(float(scipy.special.ndtri(tail) ** 2 * rate * (1 - rate) / variance), float(deleted.shape[1]))
    return counting_bound(rate, trials, 1 - 2 * tail)[0 if side < 0 else 1]


def auc_jackknife(
    member_score: ArrayLike,
    member_group: ArrayLike,
    non_score: ArrayLike,
    non_group: ArrayLike,
    *,
    level: float = 0.95,
) -> JackknifeInterval:
    """AUC with a delete-one-group interval on the logit scale (``jackknife.py``); a group may be on both sides.

    At an AUC of 0 or 1, or where all scores are tied, nothing varies: the limits are then Clopper-Pearson's on as many
    disjoint pairs of groups as the smaller side has groups.

    Args:
        member_score: [m].
        member_group: [m], any sortable ids.
        non_score: [n].
        non_group: [n].
        level: Confidence level of the interval.

    Raises:
        InputError: A side is empty or has a NaN, or groups and scores differ in length.
    """
    member, non_member = check_sides(member_score, non_score)
    groups = np.concatenate([np.asarray(member_group), np.asarray(non_group)])
    if len(groups) != len(member) + len(non_member):
        raise InputError(f"every score needs a group: {len(member) + len(non_member)} scores, {len(groups)} groups")
    role = np.concatenate([np.ones(len(member), dtype=np.int8), np.zeros(len(non_member), dtype=np.int8)])
    return seed_auc_jackknife(np.concatenate([member, non_member])[None], role[None], groups, level=level)


@dataclass(frozen=True)
class PartLeftOut:
    """Mean AUC of an attack without a part of the trainings."""

    auc: float
    """Mean over the other seeds; NaN where it cannot be computed."""
    deleted: FloatArray
    """[G], without each group as well, in the order of the sorted groups."""


def part_left_out(score: ArrayLike, role: ArrayLike, group: ArrayLike, *, seed: ArrayLike | None = None) -> PartLeftOut:
    """Average the AUC of the trainings that are left, for ``seed_auc_jackknife``.

    Args:
        score: [T, N], scored without the part.
        role: [T, N], as in ``seed_auc_jackknife``.
        group: [N], the same ids as in the interval.
        seed: [T], as in ``seed_auc_jackknife``.
    """
    scores, roles, index, n_groups = _checked(score, role, group)
    aucs, of_seed = _model_aucs(scores, roles, index, n_groups, _seeds(seed, len(scores)))
    usable = [auc.pairs >= 2 for auc in aucs]
    if not any(usable):
        return PartLeftOut(float("nan"), np.full(n_groups, np.nan))
    aucs, of_seed = [auc for auc, use in zip(aucs, usable, strict=True) if use], of_seed[usable]
    deleted = _seed_means(np.stack([auc.deleted for auc in aucs]), of_seed)
    return PartLeftOut(float(_seed_means(np.array([auc.auc for auc in aucs]), of_seed).mean()), deleted.mean(axis=0))


def _model_aucs(
    scores: FloatArray,
    roles: NDArray[np.generic],
    index: NDArray[np.intp],
    n_groups: int,
    seed: NDArray[np.generic],
) -> tuple[list[GroupDeletedAuc], NDArray[np.generic]]:
    """Compute the AUC of every attacked model with both sides, and return the seed of each."""
    both = [bool((role == 1).any() and (role == 0).any()) for role in roles]
    sides = [(s, r) for s, r, use in zip(scores, roles, both, strict=True) if use]
    return [group_deleted_auc(s, r, index, n_groups) for s, r in sides], seed[both]


def seed_auc_jackknife(
    score: ArrayLike,
    role: ArrayLike,
    group: ArrayLike,
    *,
    seed: ArrayLike | None = None,
    without: Sequence[PartLeftOut] = (),
    level: float = 0.95,
) -> JackknifeInterval:
    """Mean over seeds of the AUC, with an interval over groups and trainings (``jackknife.py``).

    The AUCs of a seed's attacked models are averaged first. Where both twins are attacked, each patient is a member for
    one of them and a non-member for the other, so that how hard an image is cancels: the interval of the loss
    difference is 0.4 times as wide as with one twin (60 patients, 16 to 32 models; ``docs/results/verdict_small.md``).

    Each group is deleted from all seeds at once, so that its seeds count as one unit. From three seeds on each seed is
    a training, and a unit, too: the interval then speaks of other patients and of other trainings by the same recipe.
    Below, of these models (``conditional``).

    The variance over trainings is that of the seeds' AUCs, divided by their number. Scores that take references from
    the other seeds' models share them, so that their AUCs vary together; ``without`` has the mean AUC with each part of
    the trainings left out, as targets and as references. Each variance holds noise that the groups' own variance holds
    already; of what lies beyond it the larger counts (``_trainings``). Simulated coverage of all attacks: 0.86 to 1
    (``docs/results/attack_coverage.md``).

    Args:
        score: [T, N], from ``scores.twin_attacks.attack_scores`` or LiRA / RMIA, for T attacked models.
        role: [T, N], 1 member, 0 non-member, anything else left out for that model.
        group: [N], any sortable ids.
        seed: [T], seed of each attacked model; twins have the same one. A seed of its own for each where none are
            given.
        without: [B], without each of B equal parts of the trainings; not used where one cannot be computed.
        level: Confidence level of the interval.

    Returns:
        The interval. Models with fewer than two groups on a side are left out; where that leaves none, the AUC of the
        others with the limits 0 and 1; without any, NaN and the reason.

    Raises:
        InputError: Shapes differ, or an image with a role has a NaN score.
    """
    scores, roles, index, n_groups = _checked(score, role, group)
    models, of_seed = _model_aucs(scores, roles, index, n_groups, _seeds(seed, len(scores)))
    if not models:
        return unavailable("no members or no non-members were scored")
    enough = np.array([model.pairs >= 2 for model in models])
    used = enough if enough.any() else ~enough
    models, of_seed = [model for model, use in zip(models, used, strict=True) if use], of_seed[used]
    aucs = _seed_means(np.array([model.auc for model in models]), of_seed)
    estimate, n_seeds = float(aucs.mean()), len(aucs)
    members = np.sum([model.members for model in models], axis=0)
    others = np.sum([model.non_members for model in models], axis=0)
    present = (members > 0) | (others > 0)
    if not enough.any():
        reason = "fewer than two groups of members or of non-members: the whole range"
        return JackknifeInterval(estimate, 0.0, 1.0, float("nan"), int(present.sum()), n_seeds, reason)
    each = _seed_means(np.stack([model.deleted for model in models])[:, present], of_seed)  # [S, G]
    kind = np.where(others > 0, np.where(members > 0, 2, 0), 1)[present]
    pairs = min(model.pairs for model in models)
    trainings = _trainings(aucs, each, kind, without, present)
    return jackknife(
        estimate,
        each.mean(axis=0),
        kind,
        scale="logit",
        n_seeds=n_seeds,
        pairs=pairs,
        trainings=trainings,
        level=level,
    )


def _trainings(
    aucs: FloatArray,
    deleted: FloatArray,
    kind: NDArray[np.intp],
    without: Sequence[PartLeftOut] = (),
    present: NDArray[np.bool_] | None = None,
) -> Trainings | None:
    """Estimate how the mean of S AUCs varies with the trainings; None below three.

    By the law of total variance the groups' variance, of given trainings, and the variance over trainings of all that
    the groups share add up. The variance of the seeds' AUCs and that by deletion of parts each hold the groups' noise
    in every training, too: the first once, the second up to twice, since it counts the noise that a target shares with
    a reference for both of them (Efron and Stein 1981: a jackknife variance is too large by such products). What the
    groups contribute to each is measured by the jackknife over groups, and taken away.

    Args:
        aucs: [S].
        deleted: [S, G], without each group.
        kind: [G].
        without: [B], without each part of the trainings.
        present: [all groups] which of them are the G.
    """
    n_seeds = len(aucs)
    if n_seeds < MIN_SEEDS:
        return None
    variance, df = float(aucs.var(ddof=1)) / n_seeds, n_seeds - 1
    within = float(np.mean([jackknife_variance(d, kind)[0] for d in deleted]))
    error = max((within - jackknife_variance(deleted.mean(axis=0), kind)[0]) / df, 0.0)
    part_aucs = np.array([part.auc for part in without])
    parts = len(part_aucs)
    if parts >= MIN_SEEDS and np.isfinite(part_aucs).all():
        rows = np.stack([part.deleted for part in without])[:, slice(None) if present is None else present]
        of_groups = sum(jackknife_variance(row, kind)[0] for row in rows - rows.mean(axis=0))
        beyond = (float(np.square(part_aucs - part_aucs.mean()).sum()) - of_groups) * (parts - 1) / parts
        if beyond > variance - error:
            variance, df = max(beyond, 0.0) + error, parts - 1
    return Trainings(variance, error, df)


def reject_if_control_fails(control: JackknifeInterval) -> ControlCheck:
    """Decide whether the independent-loss control invalidates the attacks: its AUC interval must contain 0.5.

    Args:
        control: AUC interval of the control (``scores.twin_attacks``, ``independent_loss``).
    """
    if np.isnan(control.estimate):
        return ControlCheck(
            False, f"The control could not be measured ({control.method}), so the attacks are unchecked."
        )
    limits = f"{control.estimate:.3f} ({control.low:.3f} to {control.high:.3f})"
    if control.contains(0.5):
        return ControlCheck(True, f"The control's AUC is {limits}, which contains 0.5.")
    return ControlCheck(
        False,
        f"The control's AUC is {limits}, which does not contain 0.5: members and non-members differ before training, "
        f"and the attacks' AUCs measure that difference too.",
    )
