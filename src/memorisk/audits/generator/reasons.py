"""Reasons of an audit of a generator for images that were drawn from it (`extraction`), and the names of its tables."""

from collections.abc import Mapping

from memorisk.audits.comparison.sets import part_counts
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, SUPPORT, Reason, Words

EXTRACTED, CLIQUES = "extracted", "cliques"
"""Names of the tables: pairs that the audit of the draws flags, and cliques of draws."""
WORDS = "caption_words"
"""Name of the table of words of captions (`words`)."""
FEWEST_PATIENTS = 5
"""Least number of patients on either side who have a word of its own row there."""


class PatientsDrawn(Reason, code="patients-drawn", bears_on=FAIL):
    """Draws from the given generator that copy patients of its training."""

    n_drawn: int
    n_certain: int
    """Number of patients with an image that was drawn pixel by pixel."""
    n_listed: int
    """Number of patients that the audit of the draws lists."""
    n_confirmed: int
    """Number of draws that its second look confirms as copies."""
    plain = Words("the generator draws copies of images of people in its training data")

    @Words
    def text(self) -> str:
        counts = {
            f"{self.units.count(self.n_certain)} with the very pixels of an image": self.n_certain,
            f"{self.units.count(self.n_listed)} listed": self.n_listed,
            f"{self.n_confirmed:,} draws that a second look confirms": self.n_confirmed,
        }
        details = "; ".join(words for words, n in counts.items() if n) or "they lie nearer to them than test images do"
        return f"images drawn from the given generator copy its training images ({details}; {self.n_drawn:,} drawn)"


class OtherPartDrawn(Reason, code="other-part-drawn", bears_on=FAIL):
    """Draws from the given generator with the very pixels of an image in a further part of the images."""

    n_drawn: int
    n_images: int
    by_part: Mapping[str, int]
    """Number of these draws by the part."""
    text = Words(
        "{n_images:image|images} of {n_drawn:,} drawn from the given generator {n_images:|has|have} the very pixels of "
        "an image in a further part of the images, as it is, mirrored or turned ({parts})"
    )
    plain = Words(
        "the generator draws images of people in the data who are neither in its training nor in its test part"
    )

    @property
    def parts(self) -> str:
        """Number of draws by part, in words."""
        return part_counts(self.by_part)


class DrawsUndecided(Reason, code="draws-undecided"):
    """Draws from the given generator of which the audit of copies is undecided, or fails without a random split."""

    n_drawn: int
    because: str
    """Sentence of the audit's first reason."""
    way: str
    text = Words("whether {n_drawn:,} images drawn from the given generator copy a {one} is undecided: {because}")
    plain = Words("whether the generator draws copies of images of people is not known")
    remedy = Words("{way}")


class NoPatientDrawn(Reason, code="no-patient-drawn", bears_on=SUPPORT):
    """Draws from the given generator whose audit of copies passes."""

    n_drawn: int
    promise: str
    """Power for planted copies, in words."""
    text = Words("none of {n_drawn:,} images drawn from the given generator copies a {one} ({promise})")
    plain = Words("none of the images that were drawn from the generator is a copy of an image of a person")


class RareDraws(Reason, code="rare-draws", bears_on=LIMIT):
    """Limit of an extraction: what the generator draws too rarely to be among the draws."""

    n_drawn: int
    least_share: float
    """Share of the generator's draws."""
    n_sampling_steps: int
    plain = Words("an image that the generator draws very rarely may not have been drawn here")

    @Words
    def text(self) -> str:
        return (
            f"an image that makes up less than {100 * self.least_share:.2g} % of what the given generator draws may "
            f"not be among {self.n_drawn:,} draws (DDPM, {self.n_sampling_steps} steps, no guidance)"
        )
