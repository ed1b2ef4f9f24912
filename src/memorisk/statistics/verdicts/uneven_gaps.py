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

**Null.** The working model orders patients and carries no level. If nobody is memorized, the coins of twins make
the gaps of a patient symmetric, so that the score of the patient's exchanged gaps, -g, is a draw of the same
distribution. The scores of all exchanged scored patients and of all unseen patients are the controls, and each cut is
`statistics.copies.tails.tail_cut` on them. A remembered patient adds no large value to the controls, since exchanged
gaps are negative. The independent units are patients. The probability that anybody lies beyond a cut is shared by
three looks (`_SHARES`): a quarter, half, and half of the exchanged gaps, which finds patients whose roles are
exchanged in most seeds. Half takes little, since it has power to spare (simulated, `recipes/verdict_truth.py`).

**Power.** Share of simulated patients beyond a cut: controls to whose gaps a constant is added in half or in a
quarter of the seeds, so that their mean gap is what a pass must notice.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.statistics.copies.tails import CHANCE, TAIL, tail_cut
from memorisk.statistics.memorization.sign_flips import typical_error
from memorisk.statistics.randomization import FloatArray, IntArray
from memorisk.statistics.verdicts.noticeable_gap import N_DRAWS

_SHARES = (0.7, 0.15, 0.15)
"""Shares of the probability of a false notice: of a quarter of the seeds, of half, and of half exchanged."""
_NOISIEST = 0.99
"""Quantile of the images' noise above which an image's own noise is not believed."""
_BODY = 0.95
"""Quantile of the standardized gaps from which their tail is a Pareto distribution."""
_SMALLEST_P = 1e-300

TIED, FEW = "tied-losses", "few-patients"
"""Reasons for which the check could not look."""


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
    """Which patients of a class have gaps that are larger in several seeds than chance explains."""

    uneven: NDArray[np.bool_]
    """`[U]` whether each scored patient, by sorted id, lies beyond a cut, with a gap above the offset s0."""
    largest: FloatArray
    """`[U]` largest absolute gap of each scored patient in any seed, in nats."""
    powers: tuple[UnevenPower, ...] = ()
    """Power for half of the seeds, then for a quarter; empty where the check could not look."""
    reason: str = ""
    """`TIED` or `FEW` where the check could not look; else empty."""


def uneven_gaps(
    own: ArrayLike,
    unit: ArrayLike,
    unseen: ArrayLike,
    unseen_unit: ArrayLike,
    *,
    chance: float = CHANCE,
    notice: float = 2.0,
    flip: bool = True,
    seed: int = 0,
) -> UnevenGaps:
    """Find the scored patients of a class whose gaps are too large in several seeds.

    Args:
        own: `[S, I]` gaps of the class's scored images, signed by membership; NaN where a seed did not score one.
        unit: `[I]` patient of each scored image.
        unseen: `[S, J]` loss gaps of the class's unseen images.
        unseen_unit: `[J]` patient of each unseen image.
        chance: Probability that any patient lies beyond a cut where nobody is memorized.
        notice: Mean gap of the simulated patients over all seeds, in nats.
        flip: Whether exchanged gaps are controls; False in the `paper` design, whose roles are not symmetric.
        seed: Seed of the simulated patients.
    """
    gaps, tests = np.asarray(own, dtype=np.float64).T, np.asarray(unseen, dtype=np.float64).T  # [I, S], [J, S]
    units, of_unit = np.unique(np.asarray(unit), return_inverse=True)
    _, of_test = np.unique(np.asarray(unseen_unit), return_inverse=True)
    largest, nobody = np.zeros(len(units)), np.zeros(len(units), dtype=bool)
    if not len(gaps) or not len(tests):
        return UnevenGaps(nobody, largest, reason=FEW)
    np.maximum.at(largest, of_unit, np.nanmax(np.abs(gaps), axis=1))
    if unmeasured_noise(tests) > TAIL:
        return UnevenGaps(nobody, largest, reason=TIED)
    n_seeds, least = len(gaps[0]), min(2, len(gaps[0]))
    half, quarter = max(n_seeds // 2, least), max(-(-n_seeds // 4), least)
    sides = [(quarter, gaps), (half, gaps), *([(half, -gaps)] if flip else [])]
    looks = [
        _look(k, side, of_unit, tests, of_test, chance=share * chance, flip=flip)
        for (k, side), share in zip(sides, _SHARES, strict=False)
    ]
    if any(math.isinf(look.cut) for look in looks):
        return UnevenGaps(nobody, largest, reason=FEW)
    beyond = [look.of_patients(side, of_unit) > look.cut for look, (_, side) in zip(looks, sides, strict=True)]
    rows, of_row = tests, of_test
    if flip:
        rows, of_row = np.concatenate([tests, -gaps]), np.concatenate([of_test, of_unit + int(of_test.max()) + 1])
    powers = tuple(_power(looks[:2], rows, of_row, k, notice * n_seeds / k, seed) for k in (half, quarter))
    return UnevenGaps(np.any(beyond, axis=0) & (largest > looks[0].offset), largest, powers)


def unmeasured_noise(gaps: FloatArray) -> float:
    """Compute the share of images with a gap of exactly 0 in at least half of the seeds.

    Losses with enough digits are never equal. Where they are, rounding or saturation hides how much trainings differ.

    Args:
        gaps: `[J, S]` gaps of unseen images.
    """
    return float((np.mean(gaps == 0, axis=1) >= 0.5).mean()) if len(gaps) else 1.0


@dataclass(frozen=True)
class _Look:
    """The working model of a class's gaps, with the cut, for the k-th largest gap."""

    k: int
    offset: float
    """Offset of the noise of an image, in nats."""
    most_noise: float
    """Largest noise of an image that is believed, in nats."""
    of_seed: FloatArray
    """`[S]` noise of each seed over that of all."""
    body: FloatArray
    """Sorted absolute standardized gaps that are explained by chance."""
    index: float
    """Index of their Pareto tail, which starts at the quantile `_BODY`."""
    cut: float = math.inf

    @classmethod
    def fitted(cls, k: int, own: FloatArray, unseen: FloatArray, *, flip: bool) -> "_Look":
        """Fit the model to the gaps `[I, S]` and `[J, S]`, of scored images to the negative ones where these count."""
        gaps = np.concatenate([own, unseen])
        most = float(np.quantile(_noise(gaps, k), _NOISIEST, method="lower"))
        look = cls(k, typical_error(np.nan_to_num(gaps).T), most, np.ones(gaps.shape[1]), np.ones(1), math.inf)
        large = np.nanquantile(np.abs(look.standardized(gaps)), 1 - TAIL, axis=0)
        if (large > 0).all():
            look = replace(look, of_seed=large / np.exp(np.mean(np.log(large))))
        chance = look.standardized(unseen).ravel()
        if flip:
            scored = look.standardized(own).ravel()
            chance = np.concatenate([chance, scored[scored < 0]])
        body = np.sort(np.abs(chance))
        beyond = body[body > np.quantile(body, _BODY)] / max(np.quantile(body, _BODY), _SMALLEST_P)
        return replace(look, body=body, index=1 / float(np.mean(np.log(beyond))) if len(beyond) else math.inf)

    def standardized(self, gaps: FloatArray) -> FloatArray:
        """Divide gaps `[I, S]` by the noise of their image and seed."""
        noise = np.minimum(_noise(gaps, self.k), self.most_noise) + self.offset
        return gaps / noise[:, None] / self.of_seed

    def reached(self, value: FloatArray) -> FloatArray:
        """Compute the probability q that a standardized gap reaches these positive values, of any shape."""
        start = max(float(np.quantile(self.body, _BODY)), _SMALLEST_P)
        inside = 1 - np.searchsorted(self.body, np.minimum(value, start), side="left") / len(self.body)
        beyond = np.maximum(value / start, 1.0) ** -self.index
        return 0.5 * inside * beyond

    def of_images(self, gaps: FloatArray) -> FloatArray:
        """Compute the score `[I]` of each image."""
        n_seeds = (~np.isnan(gaps)).sum(axis=1)
        x = -np.sort(np.nan_to_num(-self.standardized(gaps), nan=np.inf), axis=1)[:, self.k - 1]
        p = scipy.special.betainc(self.k, np.maximum(n_seeds - self.k + 1, 1), self.reached(np.maximum(x, 0.0)))
        return np.where(x > 0, -np.log(np.maximum(p, _SMALLEST_P)), 0.0)

    def of_patients(self, gaps: FloatArray, unit: IntArray) -> FloatArray:
        """Compute the score `[U]` of each patient: the largest of the images' less the log of their number."""
        score = np.full(int(unit.max()) + 1, -np.inf)
        np.maximum.at(score, unit, self.of_images(gaps))
        return score - np.log(np.bincount(unit))


def _look(
    k: int,
    own: FloatArray,
    of_unit: IntArray,
    unseen: FloatArray,
    of_test: IntArray,
    *,
    chance: float,
    flip: bool,
) -> _Look:
    """Fit the working model for k seeds, and compute its cut from the controls."""
    look = _Look.fitted(k, own, unseen, flip=flip)
    controls = look.of_patients(unseen, of_test)
    if flip:
        controls = np.concatenate([controls, look.of_patients(-own, of_unit)])
    return replace(look, cut=tail_cut(controls, int(of_unit.max()) + 1, chance).cut)


def _noise(gaps: FloatArray, k: int) -> FloatArray:
    """Compute the mean of all but the k largest of each image's absolute gaps: `[I, S]` to `[I]`."""
    sizes = np.sort(np.abs(gaps), axis=1)  # NaN last
    n = np.maximum(np.sum(~np.isnan(gaps), axis=1) - k, 1)
    smaller = np.arange(gaps.shape[1]) < n[:, None]
    return np.where(smaller, np.nan_to_num(sizes), 0.0).sum(axis=1) / n


def _power(looks: list[_Look], rows: FloatArray, of_row: IntArray, k: int, gap: float, seed: int) -> UnevenPower:
    """Compute the power for patients with this gap in k seeds and none in the others.

    A simulated patient is a control with random signs; one image has the gap.
    """
    rng, n_seeds = np.random.default_rng([seed, 29]), rows.shape[1]
    share = 1 / np.bincount(of_row)[of_row]  # each patient alike, then each image
    row = rng.choice(len(rows), size=N_DRAWS, p=share / share.sum())
    noise = rows[row] * rng.choice([-1.0, 1.0], size=(N_DRAWS, n_seeds))
    remembered = np.argsort(rng.random((N_DRAWS, n_seeds)), axis=1) < k
    gaps = noise + np.where(remembered, gap, 0.0)
    noticed = np.any([look.of_images(gaps) > look.cut - np.log(share[row]) for look in looks], axis=0)
    return UnevenPower(k, gap, float(noticed.mean()))
