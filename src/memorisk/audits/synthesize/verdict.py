"""What may be said of a set that a loop made, and what calibration says of a threshold before anything is drawn.

* ``pass``: every place is filled, a guarantee stands behind the threshold, and the auditor, if there is one, found
  nothing.
* ``undecided``: the filter cannot say (`audits.filter.verdict`), places stayed empty, the auditor cannot say, or
  detectors that compare point by point chose alone.
* ``fail``: nothing was kept, or the auditor found training patients in what was.

The gate that stops a pipeline is the filter's, ``no-guarantee`` or, where nothing was kept, ``nothing-kept``.

The acceptance forecast: a threshold that rejects (nearly) every new person's real image, copied or not, is
hopeless.
"""

from typing import Any

from memorisk.audits.filter.verdict import BETTER_DETECTOR, FEWER_COPIES, HIGHER_THRESHOLD, filter_verdict, weakness
from memorisk.audits.synthesize.options import NEARER_LEVEL, SynthesizeOptions
from memorisk.audits.synthesize.result import LoopNumbers
from memorisk.report.earlier_verdicts import FORMS
from memorisk.runs.errors import plural
from memorisk.statistics.intervals import Proportion

NEARLY_ALL = 0.9
"""A threshold is hopeless where it rejects at least this share of new people: the lower 95 % limit of the share."""


def is_hopeless(share: Proportion | None) -> bool:
    """Return whether (nearly) everybody would be rejected, so that few images or none will pass."""
    return share is not None and share.low >= NEARLY_ALL


def rejection_words(share: Proportion, units: str) -> str:
    """Word the share in a sentence.

    Args:
        share: Of new people.
        units: What new people are called.
    """
    low, high = 100 * share.low, 100 * share.high
    return f"the threshold rejects {low:.0f} to {high:.0f} % of new {units}, who cannot be copied"


def loop_verdict(numbers: LoopNumbers, options: SynthesizeOptions) -> dict[str, Any]:
    """Decide the status, with reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Of `analysis.loop_numbers`.
        options: What was asked for.
    """
    of_filter = filter_verdict(numbers.filter, options, audited=True)
    status = of_filter["status"]
    why = [] if status == "pass" else list(of_filter["why"])
    deciding = list(of_filter["what_would_decide"])
    bad, doubts = _audit_failures(numbers), _doubts(numbers)
    if bad:
        status = "fail"
    elif doubts and status == "pass":
        status = "undecided"
    why = [*(reason for reason, _ in bad), *why, *(reason for reason, _ in doubts)]
    deciding = list(dict.fromkeys([*deciding, *(way for _, way in (*bad, *doubts))]))
    first = {"schema": FORMS["synthesize"], "audit": "synthesize", "status": status, "gate": of_filter["gate"]}
    return (
        first
        | {"why": why or _passed(numbers), "what_would_decide": deciding, "exposed": of_filter["exposed"]}
        | numbers.in_verdict()
    )


def _passed(numbers: LoopNumbers) -> list[str]:
    """List what a pass rests on: the guarantee, and which copies the auditor would have noticed."""
    audit = numbers.audited
    return [str(numbers.filter.promise.guarantee), *([] if audit is None else [f"the audit: {audit.why[0]}"])]


def _audit_failures(numbers: LoopNumbers) -> list[tuple[str, str]]:
    """List what the auditor found, and what would help."""
    audit = numbers.audited
    if audit is None or audit.clean:
        return []
    way = "another threshold (a smaller --miss-rate, more families) or detector; a generator that memorizes less"
    found = []
    if audit.n_listed:
        n = plural(audit.n_listed, "training patient", "training patients")
        found.append((f"the auditor lists {n} as nearer to the kept set than held-out ones are", way))
    if (p := audit.nearer.p_value) <= NEARER_LEVEL:
        found.append(
            (f"taken together, training patients are nearer to the kept set than held-out ones (p = {p:.2g})", way)
        )
    if not found:
        found.append((f"the audit of the kept set failed: {'; '.join(audit.why)}", way))
    return found


def _hopeless(numbers: LoopNumbers) -> str:
    """Say why further tries are useless, where they are."""
    real = numbers.filter.real_rejected
    if not numbers.hopeless or real is None:
        return ""
    again = "; no place was tried again, since not one image passed" if numbers.gave_up else ""
    return f": {rejection_words(real, numbers.filter.units)}{again}"


def _way(numbers: LoopNumbers) -> str:
    """Say what would fill places."""
    if not numbers.hopeless:
        kept = numbers.filter.sets.n_kept_images
        return f"{FEWER_COPIES}, or a larger --most-tries" if kept else "a larger --most-tries"
    return HIGHER_THRESHOLD if numbers.filter.promise.threshold_by == "user" else BETTER_DETECTOR


def _doubts(numbers: LoopNumbers) -> list[tuple[str, str]]:
    """List what keeps a pass away besides the filter's own doubts."""
    found = []
    if n := numbers.n_empty:
        told = plural(n, "place stayed empty", "places stayed empty")
        tries = plural(1 if numbers.gave_up else numbers.most_tries, "try", "tries")
        found.append((f"{told} after {tries}{_hopeless(numbers)}", _way(numbers)))
    found += [(doubt, "TRAIN as the generator had it") for doubt in numbers.doubts]
    audit, promise = numbers.audited, numbers.filter.promise
    if audit is None and promise.weak_features and numbers.filter.sets.n_kept_images:
        found.append(
            (
                f"{weakness(promise)[0]}; and no auditor looked at the set",
                "an --auditor with --held-out images, or a detector that was trained to find copies",
            )
        )
    if audit is not None and audit.clean and audit.status == "undecided":
        found.append(
            (
                f"the auditor lists nobody, but its audit is undecided: {'; '.join(audit.why)}",
                "what the report in the folder audit names",
            )
        )
    return found
