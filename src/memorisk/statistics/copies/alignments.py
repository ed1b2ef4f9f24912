"""Strength from which on an alignment is a copy and not chance: the cuts of the second look.

The second look lays images on one another (`images.copies.alignment`) and keeps for each image how alike it is to its
few nearest images in the other set, in windows of several sizes: a *strength* for each size, on Fisher's scale. Where
no person is copied, a synthetic image is as similar to its nearest training images as a held-out person's image is to
them, if the generator's images look like those of new people; and as similar as it is to its nearest held-out images,
whatever they look like. The null has hence two parts: the strengths of each held-out person on training images, and
those of random synthetic images on held-out images, the *control*.

Each size of windows has its own cut, at an equal share of the chance. The strength of a whole image and that of a small
window are spread differently by chance: under one cut for all, a region that was pasted pixel by pixel would have to
reach what whole images of different people reach (eye scans: 22 of 30 pasted copies were beyond one cut for all, 28 of
30 beyond the cut of a size). For each size:

1. *Copies under two ids.* Images that lie on the other set as copies do are apart at the top. They are left out by
   the rule of near copies (`statistics.copies.pairs_of_people.outlying_pairs`): values of which an exponential, fitted
   to the larger half with its largest fifth counted and not measured, expects fewer than 1e-4 of what is expected
   beyond the cut. Where more than a fifth of that half are apart, nothing is left out, and the cut lies beyond them.
2. *Cut.* The largest tenth of what is left is the tail. `tail_cut` gives the value beyond which ``chance`` images in
   the whole run are expected, with the exact predictive probability of an exponential tail.
3. *Two parts.* The larger of two cuts counts: of both parts together, and of what of the control is left alone. Many
   held-out people would else hide the wider tail of a few synthetic images: of 20 images with a tail twice as wide as
   that of 200 held-out people 0.18 were beyond the cut of both, where 0.01 are stated; beyond the larger cut 0.01 are.
   A control of too few images has no cut. The cut of both is then that of ``trials (n_held + n_control) / n_control``
   images, since the share of the control beyond a value is at most the share of both, times that.

Real tails fall faster than exponential ones, so that the cut errs to the safe side; `recipes/alignment.py` counts
false matches of people who had no part in the cut.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.pairs_of_people import EXPECTED_PAIRS, outlying_pairs
from memorisk.statistics.copies.singled_out import TailCut, tail_cut

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SizeCut:
    """Strength in windows of one size beyond which an aligned pair counts as a copy."""

    tail: TailCut
    """Tail and cut, on Fisher's scale."""
    apart: int
    """Number of images that lie apart from all others: they are taken for copies, and are not part of the tail."""


@dataclass(frozen=True)
class AlignmentCut:
    """Strengths beyond which an aligned pair counts as a copy."""

    sizes: tuple[SizeCut, ...]
    """A cut for each size of windows."""

    @property
    def values(self) -> FloatArray:
        """Cuts of the sizes, [W]; inf for sizes in which these people allow none."""
        return np.array([size.tail.cut for size in self.sizes])

    @property
    def apart(self) -> int:
        """Return the images that lie apart, of the size in which they are most."""
        return max(size.apart for size in self.sizes)

    @property
    def chance(self) -> float:
        """Return the largest expected number of images of the run beyond any cut where no person is copied."""
        return sum(size.tail.chance for size in self.sizes)

    def confirmed(self, strengths: ArrayLike) -> NDArray[np.bool_]:
        """Return whether alignments are beyond the cut of any size, [...].

        Args:
            strengths: Strengths of each alignment, [..., W].
        """
        return np.asarray((np.asarray(strengths, dtype=np.float64) > self.values).any(axis=-1))


def alignment_cut(held: ArrayLike, control: ArrayLike, trials: float, chance: float = EXPECTED_PAIRS) -> AlignmentCut:
    """Compute the strengths beyond which fewer than ``chance`` images of the run are expected without copied people.

    Args:
        held: Largest strengths of each held-out person's image with its nearest training images, [n, W], a column for
            each size of windows.
        control: Largest strengths of random synthetic images with their nearest held-out images, [m, W].
        trials: Number of images of the run, each of which may be beyond a cut by chance.
        chance: Expected number of them, shared equally among the sizes.

    Raises:
        InputError: A strength is not finite, the parts differ in their sizes, or trials or chance are not positive.

    Source:
        METHODS section 6, "Near copies"; the module docstring has the steps.

    Example:
        >>> held = 0.2 - 0.05 * np.log(1 - np.arange(200) / 200)
        >>> cut = alignment_cut(held[:, None], held[::2, None], trials=1000)
        >>> cut.apart, cut.values.round(2)
        (0, array([0.99]))
    """
    parts = [np.asarray(part, dtype=np.float64) for part in (held, control)]
    if any(part.ndim != 2 or not np.isfinite(part).all() for part in parts) or parts[0].shape[1] != parts[1].shape[1]:
        raise InputError("strengths of alignments are finite numbers, a column for each size of windows")
    share = chance / parts[0].shape[1]
    columns = zip(parts[0].T, parts[1].T, strict=True)
    return AlignmentCut(tuple(_size_cut(people, images, trials, share) for people, images in columns))


def _size_cut(held: FloatArray, control: FloatArray, trials: float, chance: float) -> SizeCut:
    z, own = np.sort(np.concatenate([held, control]))[::-1], np.sort(control)[::-1]
    apart = outlying_pairs(z[: len(z) // 2 + 1], chance * len(z) / trials) if trials > 0 and len(z) else 0
    rest = z[apart:]
    alone = tail_cut(own[own <= rest[:1]], trials, chance)
    if not alone.n_tail:
        return SizeCut(tail_cut(rest, trials * max(1, len(z)) / max(1, len(own)), chance), apart)
    return SizeCut(max(tail_cut(rest, trials, chance), alone, key=lambda tail: tail.cut), apart)
