"""The verdict of a loop, that of the audit of its kept set; what calibration forecasts before anything is drawn.

A pass needs TRAIN to be all that the generator has seen: the audit cannot know of images that TRAIN lacks.

The acceptance forecast: a threshold that rejects (nearly) every new person's real image, copied or not, is hopeless.
"""

from typing import Any

from memorisk.audits.filter.verdict import BETTER_DETECTOR, FEWER_COPIES, HIGHER_THRESHOLD, kept_verdict
from memorisk.audits.filter.wording import n_equal_pixels
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.result import LoopNumbers
from memorisk.runs.errors import plural
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.verdicts.reasons import Reason, Words

NEARLY_ALL = 0.9
"""A threshold is hopeless where it rejects at least this share of new people: the lower 95 % limit of the share."""


class TrainedOnMore(Reason, code="trained-on-more"):
    """Generator that was trained on images that TRAIN does not hold."""

    doubt: str
    """Number of images that TRAIN lacks, in words."""
    text = Words("{doubt}")
    plain = Words("the generator was trained on images that were not given, so that copies of them are not found")
    remedy = Words("TRAIN as the generator had it")


def is_hopeless(share: Proportion | None) -> bool:
    """Return whether (nearly) everybody would be rejected, so that few images or none will pass."""
    return share is not None and share.low >= NEARLY_ALL


def rejection_words(share: Proportion, units: str) -> str:
    """Word the share in a sentence.

    Args:
        share: Share of new people who are rejected.
        units: Name of new people.
    """
    low, high = 100 * share.low, 100 * share.high
    return f"the threshold rejects {low:.0f} to {high:.0f} % of new {units}, who cannot be copied"


def loop_verdict(numbers: LoopNumbers, options: SynthesizeOptions) -> dict[str, Any]:
    """Decide the status, with reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Numbers of `analysis.loop_numbers`.
        options: Options of the run.
    """
    doubts = [TrainedOnMore(doubt=doubt) for doubt in numbers.doubts]
    verdict = kept_verdict("synthesize", numbers.filter, options, doubts)
    if numbers.n_empty and numbers.filter.nothing_kept:
        verdict["what_would_decide"] = list(dict.fromkeys([*verdict["what_would_decide"], _way(numbers)]))
    return verdict | numbers.in_verdict()


def empty_places(numbers: LoopNumbers) -> str:
    """Say how many places stayed empty, why further tries are useless where they are, and what would fill places.

    Args:
        numbers: Numbers of a loop with such places.
    """
    tries = plural(1 if numbers.gave_up else numbers.most_tries, "try", "tries")
    return (
        f"Of {plural(numbers.n_asked, 'place', 'places')}, {numbers.n_empty:,} stayed empty after {tries}"
        f"{_hopeless(numbers)}. What would fill them: {_way(numbers)}."
    )


def _hopeless(numbers: LoopNumbers) -> str:
    """Say why further tries are useless, where they are."""
    real = numbers.filter.real_rejected
    if not numbers.hopeless or real is None:
        return ""
    again = "; no place was tried again, since not one image passed" if numbers.gave_up else ""
    return f": {rejection_words(real, numbers.filter.units)}{again}"


def _way(numbers: LoopNumbers) -> str:
    """Say what would fill places."""
    sets = numbers.filter.sets
    if n_equal_pixels(sets.rejected) == sets.n_synthetic_images:
        return FEWER_COPIES
    if not numbers.hopeless:
        return f"{FEWER_COPIES}, or a larger --most-tries" if sets.n_kept_images else "a larger --most-tries"
    return HIGHER_THRESHOLD if numbers.filter.promise.threshold_by == "user" else BETTER_DETECTOR
