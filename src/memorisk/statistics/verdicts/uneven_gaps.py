"""Uneven gaps: patients that some trainings remember, or whose role was another than the table says.

A list ranks the mean gap over seeds by its standard error over seeds. A patient with 4 nats in half of the trainings
has a mean of 2 nats and an error that is larger still; a patient whose roles were exchanged in some seeds has gaps
that cancel. Neither is listed, and neither should pass. What both have in common are several gaps of one patient that
are each too large.

**Score.** The gap of image i in seed s, signed by membership, is divided by the noise of the image in its other seeds:

    e_is = g_is / (f_s (min(c_i, C) + s0)),

with c_i the mean of the S - k smallest |g_is| of the image, C the 99th percentile of c over images (an image whose
gaps are all large is not taken for a noisy one), s0 the offset of studentized gaps (`sign_flips.typical_error`) and
f_s the noise of the seed over that of all seeds. A working model takes all e for draws of one symmetric distribution
with a Pareto tail, independent over seeds. The k-th largest e of an image, x, has the score

    u_i = -log P(Bin(S, q(x)) >= k),   q(x) = P(e >= x),

once for half of the seeds and once for a quarter of them, at least two. The score of a patient with n images is the
largest of theirs less log n.

**Many images.** A gap on each image of a patient may be too small to be seen in any. The images of a patient, of
a class and of all, are therefore looked at once more as one: their standardized sums (`_Albums`) are rows of a further
class, whose patients share the cuts with all others. The noise of a sum is believed however large it is.

**Null.** The working model orders patients and carries no level. If no patient is memorized, the coins of twins make
the gaps of a patient symmetric, so that the score of the patient's exchanged gaps, -g, is a draw of the same
distribution. The scores of all exchanged scored patients and of all unseen patients are the controls, and each cut is
`statistics.copies.singled_out.tail_cut` on them. A remembered patient adds no large value to the controls, since
exchanged gaps are negative. The independent units are patients. Scores are free of a class's scale, and each patient is
compared with its own exchange, so that the controls of all classes share one cut: twelve classes of 80 patients have
the tail of a thousand. Three looks (`_SHARES`) share the probability that any patient lies beyond a cut: a quarter,
half, and half of the exchanged gaps, which finds patients whose roles are exchanged in most seeds. Half takes little,
since it has power to spare (simulated, `recipes/verdict_truth.py`).

**Level.** Scores of noise fall more slowly than the exponential tail of a cut where the noise of images is very
unequal, so that a cut is passed more often than its level says (simulated: 5 to 19 % of audits at 5 %). Where power
allows, the level is therefore halved as long as each class notices `CERTAIN` of its simulated patients.

**Power.** Share of simulated patients beyond a cut: controls to whose gaps a constant is added in half or in a
quarter of the seeds, so that their mean gap is what a pass must notice. One image has the gap, so that sums of images
have no power that a pass rests on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from memorisk.statistics.copies.singled_out import TAIL, tail_cut
from memorisk.statistics.memorization.sign_flips import scaled_gaps, typical_error
from memorisk.statistics.randomization.sign_flips import FloatArray, IntArray
from memorisk.statistics.verdicts.levels import NOTICE, PASS_POWER, POWER, SINGLED_OUT_LEVEL
from memorisk.statistics.verdicts.noticeable_gap import GAPS, MAX_SEEDS, N_DRAWS

_SHARES = (0.7, 0.15, 0.15)
"""Shares of the probability of a false notice: of a quarter of the seeds, of half, and of half exchanged; the
last is not looked at where roles are not symmetric."""
_HALVINGS = 5
"""Number of times that the level may be halved."""
CERTAIN = 0.995
"""Power that each class keeps where the level is halved.

At the power of 0.95 that the wrong passes of METHODS suggest, the level gives away the patients that a smaller gap in
as many seeds leaves: one with 4 nats in 3 of 10 seeds, a mean of 1.2 nats, passes 4 to 7 % of audits of small classes,
here 1.5 to 3 %. Honest audits have 1 to 2 % more doubts (200 audits each, `recipes/verdict_truth.py`)."""
_NOISIEST = 0.99
"""Quantile of the images' noise above which an image's own noise is not believed."""
_BODY = 0.95
"""Quantile of the standardized gaps from which their tail is a Pareto distribution."""
_OFFSET_OF_SUMS = 0.5
"""Share of the offset of one image that sums over images have.

Of 1, 0.5, 0.25 and 0.1 the largest with which 0.6 nats in each of 12 images, in half of 12 seeds, are noticed (40 of 40
audits, 27 with 1; the noise of an image 0.1 nats in the median, as in `recipes/verdict_truth.py`)."""
_SMALLEST_P = 1e-300

TIED, FEW = "tied-losses", "few-patients"
"""Reasons for which the check could not look."""


@dataclass(frozen=True)
class ClassGaps:
    """Gaps of a class's images in S seeds."""

    own: FloatArray
    """`[S, I]` gaps of the scored images, signed by membership, in nats; NaN where a seed did not score one."""
    group: NDArray
    """`[I]` patient of each scored image."""
    unseen: FloatArray
    """`[S, J]` loss of model B less that of model A of the unseen images, in nats."""
    unseen_group: NDArray
    """`[J]` patient of each unseen image."""

    def of_seeds(self, drawn: IntArray, rng: np.random.Generator) -> "ClassGaps":
        """Take the gaps of some seeds, each perhaps more than once, with a random sign for each patient and seed."""

        def signed(gaps: FloatArray, group: NDArray) -> FloatArray:
            """Give the gaps of a patient in a seed one random sign."""
            unit = np.unique(np.asarray(group), return_inverse=True)[1]
            return gaps[drawn] * rng.choice([-1.0, 1.0], (len(drawn), int(unit.max(initial=0)) + 1))[:, unit]

        return replace(self, own=signed(self.own, self.group), unseen=signed(self.unseen, self.unseen_group))


@dataclass(frozen=True)
class UnevenPower:
    """Power to notice a patient that some of the trainings remember."""

    n_seeds: int
    """Number of seeds that remember the patient."""
    gap: float
    """Gap in each of them, in nats."""
    power: float
    """Probability of noticing the patient."""


@dataclass(frozen=True)
class UnevenGaps:
    """Patients of a class with gaps that are larger in several seeds than chance explains."""

    uneven: NDArray[np.bool_]
    """`[U]` whether each scored patient, by sorted id, lies beyond a cut, with a gap above the offset s0."""
    largest: FloatArray
    """`[U]` largest absolute gap of each scored patient in any seed, in nats."""
    powers: tuple[UnevenPower, ...] = ()
    """Power for half of the seeds, then for a quarter; empty where the check could not look."""
    reason: str = ""
    """`TIED` or `FEW` where the check could not look; else empty."""

    @property
    def is_powerful(self) -> bool:
        """Return whether a patient remembered by half of the trainings, and one by a quarter, would be noticed."""
        if not self.powers:
            return False
        half, quarter = self.powers
        return half.power >= PASS_POWER and quarter.power >= POWER


def uneven_gaps(
    classes: Sequence[ClassGaps],
    *,
    chance: float = SINGLED_OUT_LEVEL,
    notice: float = NOTICE,
    flip: bool = True,
    seed: int = 0,
) -> list[UnevenGaps]:
    """Find the scored patients whose gaps are too large in several seeds, in all classes of an audit.

    Args:
        classes: Gaps of each class, in the same seeds.
        chance: Probability that any patient of any class lies beyond a cut where no patient is memorized.
        notice: Mean gap of the simulated patients over all seeds, in nats.
        flip: Whether exchanged gaps are controls; False in the `paper` design, whose roles are not symmetric.
        seed: Seed of the simulated patients.

    Returns:
        Outcome of each class, in their order.
    """
    rows = [_Rows.of(gaps) for gaps in classes]
    looked = [i for i, row in enumerate(rows) if not row.reason]
    albums = _Albums.of([classes[i] for i in looked], flip=flip)
    outcomes = _look_at([rows[i] for i in looked], albums, chance, notice, flip, seed) if looked else []
    of_class = dict(zip(looked, outcomes, strict=True))
    return [of_class.get(i, row.blind(row.reason)) for i, row in enumerate(rows)]


def uneven_seeds_needed(
    classes: Sequence[ClassGaps], *, notice: float = NOTICE, flip: bool = True, seed: int = 0
) -> int | None:
    """Compute the number of seeds with which a patient that some trainings remember is noticed in every class.

    The noise of more seeds is drawn from that of the audit's own, with random signs for each patient, as it is where
    no patient is memorized.

    Args:
        classes: Gaps of each class, in the same seeds.
        notice: Mean gap of the simulated patients over all seeds, in nats.
        flip: Whether exchanged gaps are controls.
        seed: Seed of the draws.

    Returns:
        A number larger than the audit's; None where `MAX_SEEDS` are too few.
    """
    own = len(classes[0].own)
    for n_seeds in range(own + 1, MAX_SEEDS + 1):  # power does not always rise with it: drawn seeds repeat
        rng = np.random.default_rng([seed, 31])
        drawn = rng.integers(0, own, n_seeds)
        outcomes = uneven_gaps([gaps.of_seeds(drawn, rng) for gaps in classes], notice=notice, flip=flip, seed=seed)
        if all(outcome.is_powerful for outcome in outcomes):
            return n_seeds
    return None


def uneven_gap_noticed(classes: Sequence[ClassGaps], *, above: float, flip: bool = True, seed: int = 0) -> float | None:
    """Compute the mean gap from which on a patient that some trainings remember is noticed in every class.

    Args:
        classes: Gaps of each class, in the same seeds.
        above: Gap that is too small, in nats.
        flip: Whether exchanged gaps are controls.
        seed: Seed of the simulated patients.

    Returns:
        First of `GAPS` that is noticed; None where no gap is.
    """
    for gap in GAPS[above < GAPS]:
        if all(one.is_powerful for one in uneven_gaps(classes, notice=float(gap), flip=flip, seed=seed)):
            return float(gap)
    return None


def unmeasured_noise(gaps: FloatArray) -> float:
    """Compute the share of images with a gap of exactly 0 in at least half of the seeds.

    Losses with enough digits are never equal. Where they are, rounding or saturation hides how much trainings differ.

    Args:
        gaps: `[J, S]` gaps of unseen images.
    """
    return float((np.mean(gaps == 0, axis=1) >= 0.5).mean()) if len(gaps) else 1.0


@dataclass(frozen=True)
class _Rows:
    """Gaps of a class, one row per image, with the number of the patient of each row."""

    own: FloatArray
    """`[I, S]` of scored images."""
    unit: IntArray
    unseen: FloatArray
    """`[J, S]` of unseen images."""
    unseen_unit: IntArray
    offset: float
    """Offset of the noise of an image, in nats."""
    is_capped: bool = True
    """Whether an image with far more noise than the others is not believed to have it. The noise of sums grows with
    the number and the correlation of the images, so that the largest albums may be the only ones of their kind."""

    @classmethod
    def of(cls, gaps: ClassGaps) -> "_Rows":
        """Number the patients of a class by their sorted ids."""
        own, unseen = (np.asarray(part, dtype=np.float64).T for part in (gaps.own, gaps.unseen))
        units = (np.unique(np.asarray(ids), return_inverse=True)[1] for ids in (gaps.group, gaps.unseen_group))
        offset = typical_error(np.nan_to_num(np.concatenate([own, unseen])).T)
        return cls(own, next(units), unseen, next(units), offset)

    @property
    def reason(self) -> str:
        """`FEW` or `TIED` where the class cannot be looked at."""
        if not len(self.own) or not len(self.unseen):
            return FEW
        return TIED if unmeasured_noise(self.unseen) > TAIL else ""

    @property
    def n_units(self) -> int:
        """Number of scored patients."""
        return int(self.unit.max(initial=-1)) + 1

    @property
    def largest(self) -> FloatArray:
        """Largest absolute gap of each scored patient, `[U]`."""
        largest = np.zeros(self.n_units)
        np.fmax.at(largest, self.unit, np.fmax.reduce(np.abs(self.own), axis=1, initial=0.0))
        return largest

    @property
    def exchanged(self) -> "_Rows":
        """The class with the roles of all scored images exchanged."""
        return replace(self, own=-self.own)

    def controls(self, *, flip: bool) -> tuple[FloatArray, IntArray]:
        """Return the gaps of the images of all controls, and the patient of each."""
        if not flip:
            return self.unseen, self.unseen_unit
        unit = np.concatenate([self.unseen_unit, self.unit + int(self.unseen_unit.max(initial=-1)) + 1])
        return np.concatenate([self.unseen, -self.own]), unit

    def blind(self, reason: str) -> UnevenGaps:
        """Return the outcome of a class that was not looked at."""
        return UnevenGaps(np.zeros(self.n_units, dtype=bool), self.largest, reason=reason)


@dataclass(frozen=True)
class _Albums:
    """Sums over images of each patient, as rows of a further class: over the images of a class, and over all.

    A row is `x_s = c sum_i D_si / (size_i + offset) / sqrt(n)` over n images, with size_i the root mean square of the
    gaps of image i and the offset of its class (`sign_flips.scaled_gaps`). c is the median of size_i + offset, so that
    x is in nats. Independent images leave x the noise of one image, and a gap of g nats in each is one of about
    sqrt(n) g. A patient has one row for each class with several of the images, and one for the images of all classes
    where there are several classes.
    """

    rows: _Rows
    home: list[tuple[int, int]]
    """Class in which the sum over the images of a scored patient is the largest, and the position of the patient."""

    @classmethod
    def of(cls, classes: Sequence[ClassGaps], *, flip: bool) -> "_Albums | None":
        """Add up the gaps of these classes; None where no scored patient has several images, or without controls."""
        sums: dict[tuple[bool, str], list[tuple[FloatArray, int, tuple[int, int]]]] = {}
        sizes, offsets = [np.empty(0)], [np.empty(0)]
        for k, gaps in enumerate(classes):
            both = np.concatenate([gaps.own, gaps.unseen], axis=1)
            offset = typical_error(np.nan_to_num(both))
            scaled = np.where(np.isnan(both), np.nan, scaled_gaps(np.nan_to_num(both), offset))
            sizes.append(np.sqrt(np.mean(np.nan_to_num(both) ** 2, axis=0)) + offset)
            offsets.append(np.full(both.shape[1], offset))
            n_own = gaps.own.shape[1]
            for is_unseen, values, group in (
                (False, scaled[:, :n_own], gaps.group),
                (True, scaled[:, n_own:], gaps.unseen_group),
            ):
                names, unit, n = np.unique(np.asarray(group), return_inverse=True, return_counts=True)
                total, has_gap = _sums(values, unit, len(n))
                for at, name in enumerate(names.astype(str)):
                    row = np.where(has_gap[:, at], total[:, at], np.nan)
                    sums.setdefault((is_unseen, name), []).append((row, int(n[at]), (k, at)))
        scale = float(np.median(np.concatenate(sizes))) if len(classes) else 1.0
        rows: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        units: tuple[list[int], list[int]] = ([], [])
        homes = []
        for (is_unseen, _), parts in sums.items():
            albums = [(row, n) for row, n, _ in parts if n > 1]
            if len(parts) > 1:
                every = np.array([row for row, _, _ in parts])
                total = np.where(np.isnan(every).all(axis=0), np.nan, np.nan_to_num(every).sum(axis=0))
                albums.append((total, sum(n for _, n, _ in parts)))
            if not albums:
                continue
            side = int(is_unseen)
            number = units[side][-1] + 1 if units[side] else 0
            rows[side].extend(scale * row / np.sqrt(n) for row, n in albums)
            units[side].extend([number] * len(albums))
            if not is_unseen:
                homes.append(max(parts, key=lambda part: float(np.max(np.abs(np.nan_to_num(part[0])))))[2])
        if not homes or not (flip or rows[1]):
            return None
        n_seeds, offset = len(classes[0].own), _OFFSET_OF_SUMS * float(np.mean(np.concatenate(offsets)))
        own, unseen = (np.array(part).reshape(len(part), n_seeds) for part in rows)
        return cls(_Rows(own, np.array(units[0]), unseen, np.array(units[1], dtype=np.int64), offset, False), homes)


def _sums(values: FloatArray, unit: IntArray, n_units: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Add up the gaps `[S, I]` of each unit, without those that are missing, and say where there are any: `[S, U]`."""
    shape = len(values), n_units
    total = np.array([np.bincount(unit, np.nan_to_num(row), n_units) for row in values], dtype=np.float64)
    has_gap = np.array([np.bincount(unit, ~np.isnan(row), n_units) > 0 for row in values])
    return total.reshape(shape), has_gap.reshape(shape)


def _look_at(
    classes: list[_Rows], albums: _Albums | None, chance: float, notice: float, flip: bool, seed: int
) -> list[UnevenGaps]:
    """Look at classes whose noise is measured, at the smallest level that leaves them their power."""
    n_seeds = classes[0].own.shape[1]
    least = min(2, n_seeds)
    half, quarter = max(n_seeds // 2, least), max(-(-n_seeds // 4), least)
    every = [*classes, *([] if albums is None else [albums.rows])]
    sides = [(quarter, every), (half, every), *([(half, [rows.exchanged for rows in every])] if flip else [])]
    looks = [_Look.fitted(k, side, flip=flip) for k, side in sides]
    planted = [
        [_planted_scores(looks[:2], i, rows, k, notice * n_seeds / k, flip=flip, seed=seed) for k in (half, quarter)]
        for i, rows in enumerate(classes)
    ]
    cuts, powers = _cuts_and_powers(looks, planted, chance)
    if any(map(math.isinf, cuts)):
        return [rows.blind(FEW) for rows in classes]
    for halvings in range(1, _HALVINGS + 1):
        fewer = _cuts_and_powers(looks, planted, chance / 2**halvings)
        if min(min(of_class) for of_class in fewer[1]) < CERTAIN:
            break
        cuts, powers = fewer
    beyond = [
        np.any([look.scores[i] > cut for look, cut in zip(looks, cuts, strict=True)], axis=0)
        & (rows.largest > rows.offset)
        for i, rows in enumerate(every)
    ]
    if albums is not None:
        for k, patient in (albums.home[album] for album in np.flatnonzero(beyond[-1])):
            beyond[k][patient] = True
    gaps = [notice * n_seeds / k for k in (half, quarter)]
    return [
        UnevenGaps(uneven, rows.largest, tuple(map(UnevenPower, (half, quarter), gaps, of_class)))
        for rows, uneven, of_class in zip(classes, beyond, powers, strict=False)  # albums come last
    ]


def _cuts_and_powers(
    looks: "list[_Look]", planted: list[list[FloatArray]], chance: float
) -> tuple[list[float], list[list[float]]]:
    """Compute the cut of each look at a level, and for each class the power for half and for a quarter of the seeds."""
    cuts = [
        tail_cut(look.controls, sum(map(len, look.scores)), share * chance).cut
        for look, share in zip(looks, _SHARES, strict=False)
    ]
    return cuts, [[float((scores > cuts[: len(scores.T)]).any(axis=1).mean()) for scores in own] for own in planted]


@dataclass(frozen=True)
class _Look:
    """The working model of the gaps of all classes for the k-th largest gap, with the scores of their patients."""

    k: int
    offsets: list[float]
    """Offset of the noise of an image in each class (`_Rows.offset`), in nats."""
    most_noise: list[float]
    """Largest noise of an image that is believed in each class, in nats."""
    of_seed: FloatArray
    """`[S]` noise of each seed over that of all."""
    body: FloatArray
    """Sorted absolute standardized gaps that are explained by chance."""
    index: float = math.inf
    """Index of their Pareto tail, which starts at the quantile `_BODY`."""
    scores: list[FloatArray] = field(default_factory=list)
    """`[U]` scores of the patients of each class."""
    controls: FloatArray = field(default_factory=lambda: np.empty(0))
    """Scores of the controls of all classes."""

    @classmethod
    def fitted(cls, k: int, classes: list[_Rows], *, flip: bool) -> "_Look":
        """Fit the model, to the negative gaps of scored images where these count, and score patients and controls."""
        every = [np.concatenate([rows.own, rows.unseen]) for rows in classes]
        most = [
            float(np.quantile(_noise(gaps, k), _NOISIEST, method="lower")) if rows.is_capped else math.inf
            for gaps, rows in zip(every, classes, strict=True)
        ]
        look = cls(k, [rows.offset for rows in classes], most, np.ones(every[0].shape[1]), np.ones(1))
        scaled = np.concatenate([look.standardized(gaps, i) for i, gaps in enumerate(every)])
        large = np.nanquantile(np.abs(scaled), 1 - TAIL, axis=0)
        if (large > 0).all():
            look = replace(look, of_seed=large / np.exp(np.mean(np.log(large))))
        chance = np.concatenate([look.standardized(rows.unseen, i).ravel() for i, rows in enumerate(classes)])
        if flip:
            scored = np.concatenate([look.standardized(rows.own, i).ravel() for i, rows in enumerate(classes)])
            chance = np.concatenate([chance, scored[scored < 0]])
        body = np.sort(np.abs(chance))
        start = max(float(np.quantile(body, _BODY)), _SMALLEST_P)
        beyond = body[body > start] / start
        look = replace(look, body=body, index=1 / float(np.mean(np.log(beyond))) if len(beyond) else math.inf)
        return replace(
            look,
            scores=[look.of_patients(rows.own, rows.unit, i) for i, rows in enumerate(classes)],
            controls=np.concatenate([look.of_patients(*rows.controls(flip=flip), i) for i, rows in enumerate(classes)]),
        )

    def standardized(self, gaps: FloatArray, of_class: int) -> FloatArray:
        """Divide gaps `[I, S]` of a class by the noise of their image and seed."""
        noise = np.minimum(_noise(gaps, self.k), self.most_noise[of_class]) + self.offsets[of_class]
        return gaps / noise[:, None] / self.of_seed

    def reached(self, value: FloatArray) -> FloatArray:
        """Compute the probability q that a standardized gap reaches these positive values, of any shape."""
        start = max(float(np.quantile(self.body, _BODY)), _SMALLEST_P)
        inside = 1 - np.searchsorted(self.body, np.minimum(value, start), side="left") / len(self.body)
        beyond = np.maximum(value / start, 1.0) ** -self.index
        return 0.5 * inside * beyond

    def of_images(self, gaps: FloatArray, of_class: int) -> FloatArray:
        """Compute the score `[I]` of each image of a class."""
        n_seeds = (~np.isnan(gaps)).sum(axis=1)
        x = -np.sort(np.nan_to_num(-self.standardized(gaps, of_class), nan=np.inf), axis=1)[:, self.k - 1]
        p = scipy.special.betainc(self.k, np.maximum(n_seeds - self.k + 1, 1), self.reached(np.maximum(x, 0.0)))
        return np.where(x > 0, -np.log(np.maximum(p, _SMALLEST_P)), 0.0)

    def of_patients(self, gaps: FloatArray, unit: IntArray, of_class: int) -> FloatArray:
        """Compute the score `[U]` of each patient: the largest of the images' less the log of their number."""
        score = np.full(int(unit.max()) + 1, -np.inf)
        np.maximum.at(score, unit, self.of_images(gaps, of_class))
        return score - np.log(np.bincount(unit))


def _noise(gaps: FloatArray, k: int) -> FloatArray:
    """Compute the mean of all but the k largest of each image's absolute gaps: `[I, S]` to `[I]`."""
    sizes = np.sort(np.abs(gaps), axis=1)  # NaN last
    n = np.maximum(np.sum(~np.isnan(gaps), axis=1) - k, 1)
    smaller = np.arange(gaps.shape[1]) < n[:, None]
    return np.where(smaller, np.nan_to_num(sizes), 0.0).sum(axis=1) / n


def _planted_scores(
    looks: list[_Look], of_class: int, rows: _Rows, k: int, gap: float, *, flip: bool, seed: int
) -> FloatArray:
    """Score simulated patients of a class with this gap in k seeds and none in the others: `[N_DRAWS, looks]`.

    A simulated patient is a control with random signs; one image has the gap.
    """
    controls, unit = rows.controls(flip=flip)
    rng, n_seeds = np.random.default_rng([seed, 29]), controls.shape[1]
    share = 1 / np.bincount(unit)[unit]  # each patient alike, then each image
    row = rng.choice(len(controls), size=N_DRAWS, p=share / share.sum())
    noise = controls[row] * rng.choice([-1.0, 1.0], size=(N_DRAWS, n_seeds))
    remembered = np.argsort(rng.random((N_DRAWS, n_seeds)), axis=1) < k
    gaps = noise + np.where(remembered, gap, 0.0)
    return np.stack([look.of_images(gaps, of_class) + np.log(share[row]) for look in looks], axis=1)
