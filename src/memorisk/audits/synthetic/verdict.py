"""Verdict on a synthetic set: it copies patients, it passes, or it is not decided; with the remedies that decide.

* ``fail``: a training patient is listed, at METHODS' fixed level whatever ``--level`` shows; or more of them lie nearer
  to the set than every held-out patient than a random split explains (``p_ahead`` at most 5 %); or more of them have a
  nearly identical synthetic image than held-out patients do (p at most 1 %); or a synthetic image has the very pixels
  of a training image that no held-out one shares, or of an image in a further part of TRAIN; or a person confirmed a
  pair as a copy. Pairs that a person dismissed count nowhere else and are listed first in every verdict. They prevent a
  pass where their pixels are identical, or where more patients had a nearly identical image before the dismissals than
  held-out patients let expect.
* ``pass``: none of these; no image is singled out (`statistics.copies.singled_out`) or confirmed by the second look;
  one copy of a planted kind (``--plant-kinds``) would have been either, or seen by its pixels, with probability at
  least ``--recall``, for every kind by the lower end of its own interval; and nothing that the comparison rests on is
  in doubt: pairs, patients, the detector, the held-out images, the set itself.
* ``undecided``: everything else, above all a set without held-out images; also what would fail by p-values between
  training and held-out images that lie apart.

METHODS section 6, second form: a pass is about what would have been noticed, so that it is about one copy (L = 1). With
the forty plants of each kind that are the default, 38 must be noticed; a set with one copy of such a kind then passes
with probability at most 3.5 %, whatever the detector (the largest of P(Bin(40, r) >= 38) (1 - r) over r).
"""

from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf
from typing import Any

from memorisk.audits.comparison.plants import missed_kinds, mostly_missed
from memorisk.audits.comparison.terms import TrainingUnread
from memorisk.audits.synthetic import reasons as why
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.result import PixelPairs, Reading, SetCounts, SyntheticNumbers
from memorisk.audits.synthetic.wording import LARGEST_BOUND
from memorisk.report.verdict_forms import FORMS
from memorisk.statistics.copies.planted_copies import plants_needed
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.verdicts.check_reasons import check_reasons
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, NEAR_DOUBT_LEVEL, NEAR_LEVEL, PREREQUISITE_LEVEL
from memorisk.statistics.verdicts.reasons import Reason, verdict_reasons
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way, Ways


def synthetic_verdict(numbers: SyntheticNumbers, options: SyntheticOptions) -> dict[str, Any]:
    """Decide the status, with reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Numbers of `analysis.numbers_of`.
        options: Settings with the requirements of a pass.
    """
    ids, unlike = numbers.reading.ids.reasons, _unlike(numbers)
    status, reasons = "fail", _failures(numbers)
    apart = isinstance(unlike, why.PartsApart)
    open_reasons = _lifting(reasons)
    if reasons and apart and not numbers.pixels.n_certain:
        status, open_reasons = "undecided", [unlike, *ids]
        reasons = [unlike, *reasons, *ids]
    elif reasons and apart:  # copies are copies; a list against another kind of images says nothing
        reasons, open_reasons = [*_failures(numbers, by_distance=False), unlike], [*open_reasons, unlike]
    elif not reasons and numbers.sets.held is None:
        pixels = numbers.pixels
        doubts = (*_dismissed_copies(pixels), *_changed_copies(pixels), *_near_pairs(numbers), *ids)
        status, reasons = "undecided", [why.NoHeldOut(units=numbers.terms.names), *doubts]
        open_reasons = reasons
    elif not reasons:
        reasons = open_reasons = _doubts(numbers, options)
        status = "undecided" if reasons else "pass"
        reasons = reasons or _passed(numbers)
    deciding = [reason.remedy for reason in open_reasons]
    judged, failed = _judged(numbers.pixels), status == "fail"  # dismissals do not justify a failure
    if failed:
        reasons = [*reasons, *_aligned(numbers)]
        deciding = [*deciding, *_left_after_failure(numbers, options, deciding)]
    reasons = [*reasons, *judged] if failed else [*judged, *reasons]
    reasons = [*reasons, *_subgroups(numbers)]
    if numbers.one_image_each:
        reasons.append(why.OneImageEach(note=numbers.one_image_each))
    return {
        "schema": FORMS["synthetic"],
        "audit": "synthetic",
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        **verdict_reasons(reasons),
        "what_would_decide": deciding,
        **numbers.in_verdict(),
    }


def _failures(numbers: SyntheticNumbers, *, by_distance: bool = True) -> list[Reason]:
    """List the reasons to fail, without those by distance to held-out images where these are of another kind."""
    pixels, listing, units = numbers.pixels, numbers.listing, numbers.terms.names
    reasons: list[Reason] = []
    if n := pixels.n_confirmed_pairs:
        reasons.append(why.ConfirmedPairs(n_pairs=n))
    if n := pixels.n_certain_images:
        shared, whole = numbers.sets.held is not None, numbers.sets.n_synthetic_images
        reasons.append(why.SamePixels(n_images=n, n_synthetic=whole, compared_with_held_out=shared))
    if n := pixels.n_other_images:
        reasons.append(why.OtherPartPixels(n_images=n, by_part=pixels.other_copies))
    if listing is not None and by_distance:
        if n := listing.n_listed_at_verdict:
            reasons.append(why.ListedPatients(n_patients=n, units=units))
        if listing.p_ahead <= AHEAD_LEVEL:
            reasons.append(why.NearerThanHeldOut(n_patients=listing.n_ahead_patients, p=listing.p_ahead, units=units))
    if pixels.near_p is not None and pixels.near_p <= NEAR_LEVEL:
        reasons.append(_near(why.TooManyNearlyIdentical, numbers))
    return reasons


def _lifting(failures: Sequence[Reason]) -> list[Reason]:
    """Return the reasons whose remedies lift a failure: those of certain copies, where there are any."""
    certain = [reason for reason in failures if isinstance(reason, why.CertainCopy)]
    return list({reason.remedy: reason for reason in certain}.values()) or list(failures[:1])


def _left_after_failure(numbers: SyntheticNumbers, options: SyntheticOptions, known: Sequence[str]) -> Iterator[str]:
    """Yield remedies of the doubts that would remain if nothing failed: a mended set meets the same doubts.

    Doubts of pairs and of single images are not among them, because they may go with what failed.
    """
    if numbers.sets.held is None:
        held_out = why.NoHeldOut(units=numbers.terms.names).remedy
        yield f"{held_out}: without them also a set without copies could not be decided"
        return
    for doubt in (*_little_power(numbers, options), *_comparison(numbers), *_parts(numbers)):
        if doubt.remedy not in known:
            yield f"{doubt.remedy}: also a set without copies could not be decided, because {doubt.plain}"


def _judged(pixels: PixelPairs) -> Iterator[Reason]:
    """Yield the decisions of a person, whatever the verdict; they come first, or after the reasons to fail."""
    if n := pixels.n_dismissed_pairs:
        yield why.DismissedPairs(
            n_pairs=n,
            n_identical=pixels.n_dismissed_identical_pairs,
            n_near=pixels.n_dismissed_near_pairs,
            n_more_listed=pixels.n_dismissed_patients,
        )
    if n := pixels.n_changed_pairs:
        yield why.ChangedPairs(n_pairs=n)


def _subgroups(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Yield the subgroups that are copied more than others, whatever the status."""
    for one in numbers.subgroups:
        yield why.SubgroupCopiedMore(
            column=one.column,
            level=one.level,
            n_patients=one.n_patients,
            n_copied=one.n_copied_patients,
            difference_share=one.difference_share,
            low_share=one.low_share,
            high_share=one.high_share,
            adjusted_p=one.adjusted_p,
            within_class=one.within_class,
            units=numbers.terms.names,
        )


def _doubts(numbers: SyntheticNumbers, options: SyntheticOptions) -> list[Reason]:
    """List why the set cannot pass."""
    pixels, reading = numbers.pixels, numbers.reading
    return [
        *_singled_out(numbers),
        *_aligned(numbers),
        *_dismissed_copies(pixels),
        *_changed_copies(pixels),
        *_little_power(numbers, options),
        *_near_pairs(numbers),
        *_memorized_pairs(numbers),
        *_held_out_copies(numbers),
        *_comparison(numbers),
        *_not_looked_at(reading, numbers.sets.n_synthetic_images),
        *_colours(numbers),
        *(why.OtherForm(n_images=n, form=form) for form, n in reading.n_other_forms.items()),
        *_another_kind(numbers),
        *_parts(numbers),
    ]


def _comparison(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Yield doubts about the people of the comparison: another kind, unknown patients, a detector that knows them."""
    reading = numbers.reading
    if (unlike := _unlike(numbers)) is not None:
        yield unlike
    if not reading.patients_known:
        yield why.NoPatientIds(n_without=reading.n_without_patient)
    yield from reading.ids.reasons
    if reading.detector_unseen:
        yield why.DetectorUnknown()


def _parts(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Yield doubts about files that were not read, and about checks that could not look."""
    reading = numbers.reading
    if n := reading.n_train_unread:  # their copies would not be found
        yield TrainingUnread(n_files=n)
    elif n := reading.n_train_blank:
        yield why.TrainingBlank(n_images=n)
    if n := reading.n_train_hiding:
        yield why.TrainingTransparent(n_images=n)
    frames = reading.n_synthetic_frames_left, reading.n_train_frames_left
    if any(frames):
        yield why.FramesLeft(n_synthetic=frames[0], n_training=frames[1], of=reading.frames_left_of)
    yield from check_reasons(numbers.checks, numbers.terms.names)


def _changed_copies(pixels: PixelPairs) -> Iterator[Reason]:
    if n := pixels.n_changed_copies:
        yield why.ChangedCopies(n_pairs=n)


def _dismissed_copies(pixels: PixelPairs) -> Iterator[Reason]:
    """Doubt dismissed pairs with identical pixels, and more nearly identical ones than held-out patients let expect.

    A few look-alikes may be dismissed. Of many, a judgement of each does not explain why training patients alone have
    them.
    """
    if n := pixels.n_dismissed_identical_pairs:
        yield why.DismissedIdentical(n_pairs=n)
    p = pixels.dismissed_near_p
    if p is not None and p <= NEAR_DOUBT_LEVEL:
        yield why.DismissedNear(n_pairs=pixels.n_dismissed_near_pairs, p=p)


def _singled_out(numbers: SyntheticNumbers) -> Iterator[Reason]:
    listing = numbers.listing
    if listing is not None and (n := listing.n_singled_images):
        yield why.SingledOut(n_images=n, n_patients=listing.n_singled_patients, units=numbers.terms.names)


def _aligned(numbers: SyntheticNumbers) -> Iterator[Reason]:
    aligned = numbers.aligned
    if aligned is not None and aligned.n_pairs:
        yield why.SecondLook(
            n_images=aligned.n_confirmed_images,
            n_patients=aligned.n_confirmed_patients,
            n_control_beyond=aligned.n_control_beyond,
            n_control_images=aligned.n_control_images,
            units=numbers.terms.names,
        )


def _little_power(numbers: SyntheticNumbers, options: SyntheticOptions) -> Iterator[Reason]:
    power, compared, units = numbers.power, numbers.comparison, numbers.terms.names
    by_kind, planted = power.recall_by_kind, power.plant_kinds
    if power.recall is None or by_kind is None:
        yield why.NothingPlanted(saved_features=compared.saved_features, n_asked=options.plants)
    elif missed_kinds(by_kind, planted, options.recall) or any(kind not in by_kind for kind in planted):
        needed = power.held_out_patients_for_kinds
        ways = ways_to_power(
            by_kind, planted, options, numbers.sets, weak=compared.weak_features, held_out_needed=needed
        )
        yield why.PlantsMissed(
            by_kind=by_kind,
            planted=tuple(planted),
            recall=options.recall,
            promise=str(power.promise),
            units=units,
            ways=(ways,),
        )


def ways_to_power(
    by_kind: Mapping[str, Proportion],
    planted: Sequence[str],
    options: SyntheticOptions,
    sets: SetCounts,
    *,
    weak: bool = False,
    held_out_needed: int | None = None,
) -> Ways:
    """Find what would let planted copies be noticed as a pass needs it; each remedy is for all kinds that lack it.

    Args:
        by_kind: Share of each kind of which a copy could be made that is noticed.
        planted: Names of the kinds that the settings request.
        options: Settings with the requirements of a pass.
        sets: Numbers of patients.
        weak: Whether all features are weak.
        held_out_needed: Number of held-out patients at which the kinds would be noticed; None where none suffices.
    """
    missed = missed_kinds(by_kind, planted, options.recall)
    unmade = [kind for kind in planted if kind not in by_kind]
    fine = tuple(kind for kind in planted if kind not in (*missed, *unmade))
    remedies = list[Remedy]()
    if not unmade:  # of a kind that no training image can be copied in, nothing is ever known
        remedies += [*_more_plants([by_kind[kind] for kind in missed], options, sets.n_train_patients)]
        remedies += [Remedy(way=Way.OWN_DETECTOR)] * weak
        if sets.held is not None:
            present = sets.held.n_held_patients
            most = present + sets.n_train_patients if options.held_out_split is not None else inf
            needed = inf if held_out_needed is None else held_out_needed
            remedies.append(Remedy(way=Way.HELD_OUT, needed=needed, present=present, most=most))
        if not weak and not any(remedy.feasible for remedy in remedies if remedy.way is Way.PLANTS):
            remedies.append(Remedy(way=Way.TRAINED_DETECTOR))
    claims = []
    least = 0.0 if unmade else floor(100 * min(by_kind[kind].low for kind in planted)) / 100
    if least > 0:
        claims.append(SmallerClaim(claim=Claim.RECALL, value=least))
    if fine:
        left_out = tuple(kind for kind in planted if kind not in fine)
        claims.append(SmallerClaim(claim=Claim.KINDS, kinds=fine, left_out=left_out))
    return Ways(tuple(remedies), tuple(claims))


def _more_plants(missed: Sequence[Proportion], options: SyntheticOptions, patients: int) -> Iterator[Remedy]:
    """Find how many plants show the recall; none where fewer could be made than the settings request."""
    if any(noticed.trials < options.plants for noticed in missed):
        return
    needed = [plants_needed(noticed, options.recall, patients) for noticed in missed]
    number = inf if None in needed else max(n for n in needed if n is not None)
    yield Remedy(way=Way.PLANTS, needed=number, present=options.plants, most=patients)


def _near(kind: type[why.NearlyIdentical], numbers: SyntheticNumbers) -> why.NearlyIdentical:
    """Count the patients with a nearly identical synthetic image."""
    pixels = numbers.pixels
    return kind(
        n_training=pixels.n_near_train_patients,
        n_held_out=pixels.n_near_held_patients,
        p=pixels.near_p,
        units=numbers.terms.names,
    )


def _near_pairs(numbers: SyntheticNumbers) -> Iterator[Reason]:
    pixels, p = numbers.pixels, numbers.pixels.near_p
    if pixels.n_near_train_patients and not (pixels.n_near_held_patients and (p is None or p > NEAR_DOUBT_LEVEL)):
        yield _near(why.NearlyIdentical, numbers)


def _held_out_copies(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Doubt held-out people that the set copies or resembles."""
    pixels, units = numbers.pixels, numbers.terms.names
    if n := pixels.n_held_images:
        yield why.HeldOutPixels(n_images=n)
    if n := pixels.n_near_held_patients:
        yield why.NearHeldOut(n_patients=n, units=units)


def _memorized_pairs(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Doubt a set in which more pairs of an image and its source are alike than chance makes of held-out images."""
    for one in () if numbers.paired is None else numbers.paired.rates:
        rate, held, excess = one.rate, one.held, one.excess
        if rate is not None and held is not None and excess is not None and excess.low > 0:
            yield why.LikeTheirSource(rate=rate.estimate, held_out_rate=held.estimate, least_difference=excess.low)
            return


def _unlike(numbers: SyntheticNumbers) -> why.PartsApart | why.PartsTogether | None:
    test, units = numbers.unlike, numbers.terms.names
    if test is None or test.p_value > PREREQUISITE_LEVEL:
        return None
    by = f" by {numbers.unlike_by}" if numbers.comparison.n_detectors > 1 else ""
    if test.together:
        return why.PartsTogether(
            p=test.p_value, by=by, across=test.across, across_expected=test.across_expected, units=units
        )
    return why.PartsApart(p=test.p_value, by=by, share=test.share, expected=test.expected, units=units)


def _not_looked_at(reading: Reading, n_synthetic: int) -> Iterator[Reason]:
    """Doubt a set with images that were not read or show next to nothing, or of one image again and again."""
    distinct = reading.n_synthetic_distinct
    if n := reading.n_synthetic_unread:
        yield why.SyntheticUnread(n_files=n)
    elif n := reading.n_synthetic_blank:
        yield why.SyntheticBlank(n_images=n)
    elif 2 * distinct < n_synthetic:
        yield why.SyntheticRepeated(n_images=n_synthetic, n_different=distinct)


def _colours(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Doubt a set whose colours hold training images, or have no match in grey real images."""
    if n := numbers.reading.n_synthetic_hiding:
        yield why.HiddenInColours(n_images=n, units=numbers.terms.names)
    if n := numbers.reading.n_synthetic_coloured:
        yield why.SyntheticColoured(n_images=n)


def _another_kind(numbers: SyntheticNumbers) -> Iterator[Reason]:
    """Doubt a set of which most lies far off."""
    n, n_synthetic = numbers.reading.n_synthetic_far, numbers.sets.n_synthetic_images
    if n is not None and 2 * n > n_synthetic:
        by = f" by {numbers.reading.far_by}" if numbers.comparison.n_detectors > 1 else ""
        yield why.OtherKind(n_images=n, n_synthetic=n_synthetic, by=by, units=numbers.terms.names)


def _passed(numbers: SyntheticNumbers) -> list[Reason]:
    """List the evidence that a pass rests on."""
    power, units = numbers.power, numbers.terms.names
    reasons: list[Reason] = [
        why.KindsCovered(kinds=tuple(power.plant_kinds), also=power.also_tried),
        why.NoneListed(units=units),
        why.NoneSingledOut(),
        why.CopiesNoticed(promise=str(power.promise)),
    ]
    if (bound := power.copies_bound_share) is not None and bound < LARGEST_BOUND:
        reasons.append(why.CopiesAtMost(share=bound))
    if numbers.reading.train_cropped:
        reasons.append(why.EdgesCropped())
    if mostly_missed(power.also_tried):
        reasons.append(why.OtherKindsMissed(also=power.also_tried))
    return reasons
