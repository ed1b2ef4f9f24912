"""The verdict of a run that keeps images: that of the audit of the kept set. A promise about families is no audit.

Where there was nothing to audit, the verdict is undecided: calibration identities are missing, so that there is no
threshold, or every image was rejected. A loop may have doubts of its own, of which the audit cannot know.
"""

from collections.abc import Sequence
from typing import Any, Literal

from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import FilterNumbers
from memorisk.audits.filter.wording import PIXELS, excluded_words, exposed_words
from memorisk.audits.generated.terms import Terms, missing_patients, unread_training
from memorisk.report.earlier_verdicts import FORMS
from memorisk.runs.errors import plural

Doubt = tuple[str, str]
"""A reason, and what would settle it."""
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
    doubts: Sequence[Doubt] = (),
) -> dict[str, Any]:
    """Decide the status, with reasons and what would decide it.

    Args:
        kind: Of the run.
        numbers: Of `analysis.numbers_of`.
        options: Settings of the run.
        doubts: Doubts that the audit cannot have.
    """
    audit = numbers.audited
    status, why, ways = ("undecided", *_not_audited(numbers)) if audit is None else (
        audit.status, list(audit.why), list(audit.what_would_decide)
    )  # fmt: skip
    if audit is not None and status != "pass":
        ways.append(SAME_AUDIT)
    own = [*doubts, *_known_people(numbers)] if audit is not None else []
    doubts = [*own, *([] if _audit_doubts_ids(numbers) else numbers.ids.reasons)]
    if doubts and status != "fail":
        why = [*(reason for reason, _ in doubts), *(why if status == "undecided" else [])]
        status, ways = "undecided", [*(way for _, way in doubts), *ways]
    return {
        "schema": FORMS[kind],
        "audit": kind,
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        "why": why,
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


def _not_audited(numbers: FilterNumbers) -> tuple[list[str], list[str]]:
    """Say why there is no kept set to audit, and what would give one."""
    if not numbers.sets.filtered:
        return _missing(numbers, numbers.terms)
    why = f"every one of the {numbers.sets.n_synthetic_images:,} synthetic images is rejected: no set is there to audit"
    return [why], _ways_where_nothing_passed(numbers)


def _ways_where_nothing_passed(numbers: FilterNumbers) -> list[str]:
    """Say what would let images pass: another generator first if the threshold spares new people, alone for copies."""
    real = numbers.real_rejected
    if numbers.sets.rejected.get(PIXELS) == numbers.sets.n_synthetic_images:
        return [FEWER_COPIES]
    other = HIGHER_THRESHOLD if numbers.promise.threshold_by == "user" else BETTER_DETECTOR
    if real is None:
        return [other, FEWER_COPIES]
    return [FEWER_COPIES, other] if real.high < _SPARES else [other]


def promise_doubts(numbers: FilterNumbers) -> list[str]:
    """List the reasons why a threshold promises nothing."""
    if not numbers.sets.filtered:
        return []
    terms, promise, found = numbers.terms, numbers.promise, list[str]()
    if promise.threshold_by == "user":
        return ["the threshold was given and not calibrated"]
    if not numbers.patients_known:
        missing = missing_patients(numbers.n_without_patient)
        found.append(f"{missing}: every calibration image without one counts as another person")
    found += [f"whether {name} was trained on calibration {terms.units} cannot be checked" for name in promise.unseen]
    found += [reason for reason, _ in (*numbers.ids.reasons, *_known_people(numbers))]
    if n := numbers.sets.n_train_unread:
        found.append(unread_training(n)[0])
    return found


def _known_people(numbers: FilterNumbers) -> list[Doubt]:
    """Doubt calibration people who resemble TRAIN more than the synthetic images do: they are the audit's null, too."""
    real, made, terms = numbers.real_rejected, numbers.synthetic_rejected, numbers.terms
    if real is None or made is None or real.low <= max(_HALF, made.high):
        return []
    return [
        (
            f"{100 * real.estimate:.0f} % of the calibration {terms.units} would be rejected, and "
            f"{100 * made.estimate:.0f} % of the synthetic images: either TRAIN holds images of these {terms.units}, "
            "or the detector takes similar images for copies",
            f"calibration images of {terms.units} of {terms.whom} TRAIN holds nothing; or a detector that tells "
            "copies from similar images",
        )
    ]


def _missing(numbers: FilterNumbers, terms: Terms) -> tuple[list[str], list[str]]:
    """Say how many identities are missing: once for all families that lack as many."""
    promise, calibration = numbers.promise, numbers.calibration
    target = f"a miss rate of {promise.miss_rate:.4g} with {100 * promise.confidence:.4g} % confidence"
    shared = f", shared by {promise.shared_by} detectors and families" if promise.shared_by > 1 else ""
    families: dict[tuple[int, int], list[str]] = {}
    for lack in promise.lacking:
        if lack.missing:
            families.setdefault((lack.needed, lack.identities), []).append(lack.family)
    why = [
        f"{target}{shared} needs {needed:,} new identities with a pair{' each' if len(names) > 1 else ''} of "
        f"{', '.join(names)}; {plural(identities, 'identity is', 'identities are')} there, so {needed - identities:,} "
        "are missing: no threshold is set, and nothing is kept"
        for (needed, identities), names in families.items()
    ]
    why += [told.removesuffix(".") for told in excluded_words(calibration.exclusions, terms)]
    n = promise.n_missing_patients
    ways = [f"{n:,} more calibration {terms.units} {terms.whom} neither the generator nor a detector has seen"]
    if not calibration.calibration_given:
        ways = [
            f"--calibration with {max(lack.needed for lack in promise.lacking):,} {terms.units} or more "
            f"{terms.whom} neither the generator nor a detector has seen"
        ]
    alike = calibration.exclusions.look_alikes
    if alike.as_one < alike.as_given:
        ways.append("calibration images of people who look neither alike nor like training images")
    fewer = "fewer --families, or " if len(promise.families) > 1 else ""
    ways += [f"{fewer}a larger --miss-rate", "a --threshold of your own, without a guarantee"]
    return why, ways
