"""What may be said of the kept set: it comes with a guarantee, or it does not, and what would change that.

* ``pass``: images are kept, a guarantee stands behind the threshold, and what compared them was made to find copies.
* ``undecided``: no threshold, hence nothing is kept, since calibration identities are missing; or images are kept, but
  the guarantee is none: the user gave the threshold, or what the guarantee rests on is not known; or it stands, but
  images were compared point by point alone, which misses whole kinds of copies.
* ``fail``: there is a threshold, and every image is rejected.

The gate that stops a pipeline is ``no-guarantee``; where there is a threshold and nothing was kept it is
``nothing-kept``, and where a guarantee stands behind a weak detector ``weak-detector``.
"""

from typing import Any

from memorisk.audits.filter import wording
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import FilterNumbers, Promise
from memorisk.audits.filter.wording import excluded_words, exposed_words
from memorisk.audits.generated.terms import Terms, missing_patients, unread_training
from memorisk.report.blocks import Kind
from memorisk.report.earlier_verdicts import FORMS
from memorisk.runs.errors import plural

NO_GUARANTEE, NOTHING_KEPT, WEAK_DETECTOR = "no-guarantee", "nothing-kept", "weak-detector"
HIGHER_THRESHOLD = "a higher --threshold, or one with a guarantee"
FEWER_COPIES = "a generator that gives fewer copies"
BETTER_DETECTOR = "a detector that tells copies from other images better, or fewer and weaker --families"
_HALF = 0.5  # real images found in TRAIN more often than this, and than synthetic ones, are hardly of new people
_SPARES = 0.5  # a threshold that surely rejects fewer new people than this does not take everybody for a copy


def filter_verdict(numbers: FilterNumbers, options: ScreeningOptions, *, audited: bool = False) -> dict[str, Any]:
    """Decide the status, with reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Of `analysis.numbers_of`.
        options: What was asked for.
        audited: Whether somebody else asks what passed a weak detector.
    """
    terms, sets, promise = numbers.terms, numbers.sets, numbers.promise
    why, deciding = _doubts(numbers, terms)
    status = "undecided" if why else "pass"
    gate = NO_GUARANTEE
    if status == "pass" and sets.n_kept_images and promise.weak_features and not audited:
        status, gate, (reason, way) = "undecided", WEAK_DETECTOR, weakness(promise)
        why, deciding = [reason], [way]
    if numbers.nothing_kept:
        status, why = "fail", [f"every one of the {sets.n_synthetic_images:,} synthetic images is rejected", *why]
        deciding, gate = [*_ways_where_nothing_passed(numbers), *deciding], NOTHING_KEPT
    return {
        "schema": FORMS["filter"],
        "audit": "filter",
        "status": status,
        "gate": "never" if options.fail_on == "never" else gate,
        "why": why or [promise.guarantee],
        "what_would_decide": deciding,
        "exposed": exposed_words(numbers),
        **numbers.in_verdict(),
    }


def weakness(promise: Promise) -> tuple[str, str]:
    """Say why a weak detector does not clear a set, and what would."""
    return (
        f"images were compared only point by point ({'; '.join(promise.detectors)}): copies that are cropped or "
        "turned, or mirrored and changed, go unnoticed",
        "a detector that was trained to find copies, or an audit of the kept set: memorisk audit synthetic with "
        "--held-out images",
    )


def is_weak_alone(status: str, numbers: FilterNumbers) -> bool:
    """Say whether a guarantee stands, and all that keeps a filter's verdict from a pass is its weak detector."""
    kept, promise = numbers.sets.n_kept_images, numbers.promise
    doubts, _ = _doubts(numbers, numbers.terms)
    return bool(status == "undecided" and kept and promise.guarantee and promise.weak_features and not doubts)


def conclusion(status: str, numbers: FilterNumbers) -> tuple[Kind, str, str]:
    """Return the kind of box, the headline and the sentence that conclude a filter.

    Args:
        status: Of the verdict.
        numbers: Behind it.
    """
    kind, headline = wording.HEADLINES[status]
    if status != "undecided" or not numbers.sets.filtered:
        return kind, headline, wording.SENTENCES[status]
    if is_weak_alone(status, numbers):
        return kind, wording.WEAKLY, wording.KEPT_WEAKLY
    return kind, wording.UNGUARANTEED, wording.KEPT_SO


def _ways_where_nothing_passed(numbers: FilterNumbers) -> list[str]:
    """Say what would let images pass: first another generator, where the threshold spares new people."""
    real = numbers.real_rejected
    other = HIGHER_THRESHOLD if numbers.promise.threshold_by == "user" else BETTER_DETECTOR
    if real is None:
        return [other, FEWER_COPIES]
    return [FEWER_COPIES, other] if real.high < _SPARES else [other]


def _doubts(numbers: FilterNumbers, terms: Terms) -> tuple[list[str], list[str]]:
    """List why there is no guarantee, and what would give one."""
    if not numbers.sets.filtered:
        return _missing(numbers, terms)
    found, promise = [], numbers.promise
    if promise.threshold_by == "user":
        found.append(
            (
                "the threshold was given and not calibrated, so there is no guarantee",
                "leave --threshold out, and give --calibration images of people whom nobody has seen",
            )
        )
    elif not numbers.patients_known:
        found.append(
            (
                f"{missing_patients(numbers.n_without_patient)}: the guarantee counts every calibration image without "
                "one as another person",
                "--group-from or --group-column; or --one-image-per-patient, where nobody has two images",
            )
        )
    for name in promise.unseen if promise.threshold_by == "guarantee" else ():
        found.append(
            (
                f"whether {name} was trained on calibration {terms.units} cannot be checked",
                "images as the detector's were stored, or patient ids; or --calibration-unseen, where it was not",
            )
        )
    real, made = numbers.real_rejected, numbers.synthetic_rejected
    if real is not None and made is not None and real.low > max(_HALF, made.high):
        found.append(
            (
                f"{100 * real.estimate:.0f} % of the calibration {terms.units} would be rejected, and "
                f"{100 * made.estimate:.0f} % of the synthetic images: either TRAIN holds images of these "
                f"{terms.units}, or the detector takes similar images for copies",
                f"calibration images of {terms.units} of {terms.whom} TRAIN holds nothing; or a detector that tells "
                "copies from similar images",
            )
        )
    if n := numbers.sets.n_train_unread:
        found.append(unread_training(n))
    return [why for why, _ in found], [way for _, way in found]


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
    ways += ["fewer --families, or a larger --miss-rate", "a --threshold of your own, without a guarantee"]
    return why, ways
