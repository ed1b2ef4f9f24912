"""From which similarity on an alignment is a copy and not chance: the cut of the second look.

The second look lays images on one another (`images.copies.alignment`) and keeps for each image the most similar of its
few nearest images in the other set. Where nobody is copied, a synthetic image is as similar to its nearest training
images as a held-out person's image is to them, if the generator's images look like those of new people; and as similar
as it is to its nearest held-out images, whatever they look like. The null has hence two parts: one similarity of each
held-out person on training images, and those of random synthetic images on held-out images, the *control*, on Fisher's
scale ``z = atanh(similarity)``.

1. *Copies under two ids.* Images that lie on the other set as copies do stand apart at the top. They are left out by
   the rule of near copies (`statistics.copies.tails.outlying_pairs`): values of which an exponential, fitted to the
   larger half with its largest fifth counted and not measured, expects fewer than 1e-4 of what is expected beyond the
   cut.
   Where more than a fifth of that half stand apart, nothing is left out, and the cut lies beyond them.
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
from numpy.typing import ArrayLike

from memorisk.runs.errors import InputError
from memorisk.statistics.copies.tails import EXPECTED_PAIRS, TailCut, outlying_pairs, tail_cut

_LARGEST = 1 - 1e-6


@dataclass(frozen=True)
class AlignmentCut:
    """Similarity beyond which an aligned pair counts as a copy."""

    tail: TailCut
    """On the scale ``atanh(similarity)``."""
    apart: int
    """Images that stand apart from all others: they are taken for copies, and are no part of the tail."""

    @property
    def similarity(self) -> float | None:
        """The cut as a similarity; None where these people allow none."""
        return float(np.tanh(self.tail.cut)) if np.isfinite(self.tail.cut) and self.tail.cut < 10 else None

    def confirmed(self, similarity: ArrayLike) -> np.ndarray:
        """[...] whether alignments of these similarities are beyond the cut."""
        cut = self.similarity
        values = np.asarray(similarity, dtype=np.float64)
        return np.zeros(values.shape, bool) if cut is None else values > cut


def alignment_cut(held: ArrayLike, control: ArrayLike, trials: float, chance: float = EXPECTED_PAIRS) -> AlignmentCut:
    """Compute the similarity beyond which fewer than ``chance`` images of the run are expected where nobody is copied.

    Args:
        held: [n] largest similarity of each held-out person's image with its nearest training images; between 0 and 1.
        control: [m] likewise of random synthetic images with their nearest held-out images.
        trials: Images of the run, each of which may be beyond the cut by chance.
        chance: Expected number of them.

    Raises:
        InputError: A similarity is not between 0 and 1, or trials or chance are not positive.

    Source:
        METHODS section 6, "Near copies"; the module docstring has the steps.

    Example:
        >>> held = np.tanh(0.2 - 0.05 * np.log(1 - np.arange(200) / 200))
        >>> found = alignment_cut(held, held[::2], trials=1000)
        >>> found.apart, round(found.similarity, 2)
        (0, 0.76)
    """
    parts = [np.asarray(part, dtype=np.float64) for part in (held, control)]
    if any(part.ndim != 1 or not ((part >= 0) & (part <= 1)).all() for part in parts):
        raise InputError("similarities of alignments lie between 0 and 1, one for each image")
    z, own = (np.sort(np.arctanh(np.minimum(part, _LARGEST)))[::-1] for part in (np.concatenate(parts), parts[1]))
    apart = outlying_pairs(z[: len(z) // 2 + 1], chance * len(z) / trials) if trials > 0 and len(z) else 0
    rest = z[apart:]
    alone = tail_cut(own[own <= rest[:1]], trials, chance)
    if not alone.n_tail:
        return AlignmentCut(tail_cut(rest, trials * max(1, len(z)) / max(1, len(own)), chance), apart)
    return AlignmentCut(max(tail_cut(rest, trials, chance), alone, key=lambda tail: tail.cut), apart)
