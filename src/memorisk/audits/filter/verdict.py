"""The verdict of a run that keeps images: that of the audit of the kept set, not of a promise about families.

Where there was nothing to audit, the verdict is undecided: calibration identities are missing, so that there is no
threshold, or every image was rejected. A loop may have doubts of its own, of which the audit cannot know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from memorisk.audits.comparison.terms import TrainingUnread
from memorisk.audits.filter import reasons as why
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import FilterNumbers
from memorisk.audits.filter.wording import excluded_words, exposed_words, n_equal_pixels
from memorisk.report.verdict_forms import FORMS
from memorisk.statistics.verdicts.reasons import Reason, verdict_reasons

HIGHER_THRESHOLD = "a higher --threshold, or one with a guarantee"
FEWER_COPIES = "a generator that gives fewer copies"
BETTER_DETECTOR = "a detector that tells copies from other images better, or fewer and weaker --families"
SAME_AUDIT = (
    "these are options of memorisk audit synthetic: give it the folder kept, the calibration images as --held-out, and "
    "the settings in audit/config.yaml"
)
_HALF = 0.5  # real images found in TRAIN more often than this, and than synthetic ones, are hardly of new people
_SPARES = 0.5  # a threshold that surely rejects fewer new people than this does not take everybody for a copy


def kept_verdict(
    kind: Literal["filter", "synthesize"],
    numbers: FilterNumbers,
    options: ScreeningOptions,
    doubts: Sequence[Reason] = (),
) -> dict[str, Any]:
    """Decide the status, with reasons and what would decide it.

    Args:
        kind: Kind of the run.
        numbers: Numbers of `analysis.numbers_of`.
        options: Settings of the run.
        doubts: Doubts that the audit cannot have.
    """
    audit = numbers.audited
    reasons: Sequence[Reason | Mapping[str, Any]]
    if audit is None:
        reasons = _not_audited(numbers)
        status, ways, own = "undecided", _ways_to_a_set(numbers), list[Reason]()
    else:
        status, reasons, own = audit.status, audit.reasons, [*doubts, *_known_people(numbers)]
        ways = [*audit.what_would_decide, *([SAME_AUDIT] if status != "pass" else [])]
    own += [] if _audit_doubts_ids(numbers) else numbers.ids.reasons
    if own and status != "fail":
        reasons = [*own, *(reasons if status == "undecided" else [])]
        status, ways = "undecided", [*(doubt.remedy for doubt in own), *ways]
    return {
        "schema": FORMS[kind],
        "audit": kind,
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        **verdict_reasons(reasons),
        "what_would_decide": list(dict.fromkeys(ways)),
        "exposed": exposed_words(numbers),
    }


def _audit_doubts_ids(numbers: FilterNumbers) -> bool:
    """Return whether the reasons of the audit hold every doubt about who is who, as those of an undecided one do."""
    audit = numbers.audited
    return (
        audit is not None
        and audit.status == "undecided"
        and set(numbers.ids.id_doubt_codes) <= set(audit.id_doubt_codes)
    )


def _not_audited(numbers: FilterNumbers) -> list[Reason]:
    """Return why the run has no kept set to audit."""
    if numbers.sets.filtered:
        ways = tuple(_ways_where_nothing_passed(numbers))
        return [why.AllRejected(n_images=numbers.sets.n_synthetic_images, ways_out=ways)]
    promise, units = numbers.promise, numbers.terms.names
    families: dict[tuple[int, int], list[str]] = {}
    for lack in promise.lacking:
        if lack.missing:
            families.setdefault((lack.needed, lack.identities), []).append(lack.family)
    missing = [
        why.IdentitiesMissing(
            families=tuple(names),
            n_needed=needed,
            n_present=identities,
            n_shared=promise.shared_by,
            miss_rate=promise.miss_rate,
            confidence=promise.confidence,
            units=units,
        )
        for (needed, identities), names in families.items()
    ]
    excluded = excluded_words(numbers.calibration.exclusions, numbers.terms)
    return [*missing, *(why.CalibrationExcluded(excluded=words) for words in excluded)]


def _ways_to_a_set(numbers: FilterNumbers) -> list[str]:
    """List what would give a kept set."""
    return _ways_where_missing(numbers) if not numbers.sets.filtered else _ways_where_nothing_passed(numbers)


def _ways_where_nothing_passed(numbers: FilterNumbers) -> list[str]:
    """Say what would let images pass: another generator first if the threshold spares new people, alone for copies."""
    real = numbers.real_rejected
    if n_equal_pixels(numbers.sets.rejected) == numbers.sets.n_synthetic_images:
        return [FEWER_COPIES]
    other = HIGHER_THRESHOLD if numbers.promise.threshold_by == "user" else BETTER_DETECTOR
    if real is None:
        return [other, FEWER_COPIES]
    return [FEWER_COPIES, other] if real.high < _SPARES else [other]


def promise_doubts(numbers: FilterNumbers) -> list[Reason]:
    """List the reasons why a threshold promises nothing."""
    units, promise = numbers.terms.names, numbers.promise
    if not numbers.sets.filtered:
        return []
    if promise.threshold_by == "user":
        return [why.ThresholdGiven()]
    unread = numbers.sets.n_train_unread
    return [
        *([] if numbers.patients_known else [why.UnknownCalibration(n_without=numbers.n_without_patient)]),
        *(why.DetectorMayKnow(detector=name, units=units) for name in promise.unseen),
        *numbers.ids.reasons,
        *_known_people(numbers),
        *([TrainingUnread(n_files=unread)] if unread else []),
    ]


def _known_people(numbers: FilterNumbers) -> list[Reason]:
    """Doubt calibration people who resemble TRAIN more than the synthetic images do."""
    real, synthetic = numbers.real_rejected, numbers.synthetic_rejected
    if real is None or synthetic is None or real.low <= max(_HALF, synthetic.high):
        return []
    return [
        why.KnownPeople(rejected_share=real.estimate, synthetic_share=synthetic.estimate, units=numbers.terms.names)
    ]


def _ways_where_missing(numbers: FilterNumbers) -> list[str]:
    """List what would give a threshold where identities are missing."""
    promise, calibration, terms = numbers.promise, numbers.calibration, numbers.terms
    new = f"{terms.whom} neither the generator nor a detector has seen"
    ways = [f"{promise.n_missing_patients:,} more calibration {terms.units} {new}"]
    if not calibration.calibration_given:
        needed = max(lack.needed for lack in promise.lacking)
        ways = [f"--calibration with {needed:,} {terms.units} or more {new}"]
    alike = calibration.exclusions.look_alikes
    if alike.as_one < alike.as_given:
        ways.append("calibration images of people who look neither alike nor like training images")
    fewer = "fewer --families, or " if len(promise.families) > 1 else ""
    return [*ways, f"{fewer}a larger --miss-rate", "a --threshold of your own, without a guarantee"]
