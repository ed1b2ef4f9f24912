"""What may be said of a synthetic set: it copies patients, it passes, or it could not be decided; what would decide it.

* ``fail``: a training patient is listed, at METHODS' fixed level whatever ``--level`` shows; or more of them lie nearer
  to the set than every held-out patient than a random split explains (``p_ahead`` at most 5 %); or more of them have a
  nearly identical synthetic image than held-out patients do (p at most 1 %); or a synthetic image has the very pixels
  of a training image that no held-out one shares; or a person confirmed a pair as a copy. Pairs that a person dismissed
  count nowhere else and are listed first in every verdict. They prevent a pass where their pixels are identical, or
  where more patients had a nearly identical image before the dismissals than held-out patients let expect.
* ``pass``: none of these; no image is singled out (`memorisk.statistics.copies.tails`) or confirmed by the second look;
  one copy of a planted kind (``--plant-kinds``) would have been either, or seen by its pixels, with probability at
  least ``--recall``, for every kind by the lower end of its own interval; and there is no doubt of what the comparison
  rests on: pairs, patients, the detector, the held-out images, the set itself.
* ``undecided``: everything else, above all a set without held-out images; also what would fail by p-values between
  training and held-out images that lie apart.

METHODS section 6, second form: a pass is about what would have been noticed, so that it is about one copy (L = 1). With
the forty plants of each kind that are the default, 38 must be noticed; a set with one copy of such a kind then passes
with probability at most 3.5 %, whatever the detector (the largest of P(Bin(40, r) >= 38) (1 - r) over r).
"""

from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf
from typing import Any

from memorisk.audits.generated.plants import counted, kinds_words, missed_kinds, mostly_missed, recall_doubt
from memorisk.audits.generated.sets import MIN_GREY_LEVELS
from memorisk.audits.generated.terms import Terms, missing_patients, p_words, share, unread_training
from memorisk.audits.synthetic.options import FAR_SHARE, VERDICT_LEVEL, SyntheticOptions
from memorisk.audits.synthetic.result import (
    AlignedPairs,
    Listing,
    Paired,
    PixelPairs,
    Reading,
    SetCounts,
    SyntheticNumbers,
)
from memorisk.audits.synthetic.wording import LARGEST_BOUND
from memorisk.report.earlier_verdicts import FORMS
from memorisk.runs.errors import plural
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL, plants_needed
from memorisk.statistics.copies.tails import CHANCE, MIN_HELD_OUT
from memorisk.statistics.intervals import Proportion
from memorisk.statistics.verdicts.check_wording import findings
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way, Ways, alternatives

AHEAD_LEVEL = 0.05
"""At or below this p the training patients nearer than every held-out one are too many for chance."""
NEAR_LEVEL = 0.01
"""The same for patients with a nearly identical synthetic image, who are compared with held-out ones besides."""
DOUBT_LEVEL = 0.05
"""Up to here they are a doubt, and where no held-out patient has such an image they are one at any p."""
UNLIKE_LEVEL = 0.01
"""At or below this p, in either direction, training and held-out images are no random split."""
NO_HELD_OUT = (
    "no held-out images were given: distances alone cannot tell a copy from an image that is like many patients"
)
_WITHOUT = "memorisk release SET CLEAN --without RUN"
"""What writes a set without the images of pairs that nobody dismissed."""
NO_PATIENTS = "{missing}: a patient with images in training and held out hides copies"


def synthetic_verdict(numbers: SyntheticNumbers, options: SyntheticOptions) -> dict[str, Any]:
    """Decide the status, with reasons, what would decide it, and the numbers that a pipeline may act on.

    Args:
        numbers: Of `analysis.numbers_of`.
        options: What a pass needs.
    """
    terms, ids = numbers.terms, numbers.reading.ids.reasons
    status, why, deciding = "fail", _failures(numbers, terms), [_after_failure(numbers)]
    unlike = _unlike(numbers, terms)
    apart = numbers.unlike is not None and not numbers.unlike.together
    if why and unlike is not None and apart and not numbers.pixels.n_certain:
        status = "undecided"
        why, deciding = [unlike[0], *why, *(doubt for doubt, _ in ids)], [unlike[1], *(way for _, way in ids)]
    elif why and unlike is not None and apart:  # copies are copies; a list beside another kind of images says nothing
        why, deciding = [*_failures(numbers, terms, by_distance=False), unlike[0]], [*deciding, unlike[1]]
    elif not why and numbers.sets.held is None:
        status, why, deciding = "undecided", [NO_HELD_OUT], [_give_held_out(terms)]
        pixels = numbers.pixels
        for doubt in (*_dismissed_copies(pixels), _changed_copies(pixels), _near_pairs(pixels, terms), *ids):
            if doubt is not None:
                why, deciding = [*why, doubt[0]], [*deciding, doubt[1]]
    elif not why:
        why, deciding = _doubts(numbers, options, terms)
        status = "undecided" if why else "pass"
        why = why or _passed(numbers, terms)
    if status == "fail":
        why = [*why, *([aligned[0]] if (aligned := _aligned(numbers.aligned, terms)) else [])]
        deciding = [*deciding, *_left_after_failure(numbers, options, terms, deciding)]
    judged, failed = _review_words(numbers.pixels), status == "fail"  # dismissals are no reason to fail
    return {
        "schema": FORMS["synthetic"],
        "audit": "synthetic",
        "status": status,
        "gate": "never" if options.fail_on == "never" else "copied",
        "why": [*(why if failed else []), *judged, *([] if failed else why), *_one_image_each(numbers.one_image_each)],
        "what_would_decide": deciding,
        **numbers.in_verdict(),
    }


def _failures(numbers: SyntheticNumbers, terms: Terms, *, by_distance: bool = True) -> list[str]:
    """List the reasons to fail, without those by distance to held-out images where these are of another kind."""
    said, pixels = list[str](), numbers.pixels
    if n := pixels.n_confirmed_pairs:
        said.append(f"a person confirmed {plural(n, 'pair', 'pairs')} as a copy of a training image")
    if n := pixels.n_certain_images:
        are = "image has" if n == 1 else "images have"
        shared = "" if numbers.sets.held is None else ", and of no held-out one"
        said.append(f"{n:,} synthetic {are} the very pixels of a training image, as it is, mirrored or turned{shared}")
        if n == numbers.sets.n_synthetic_images:
            said.append("that is the whole set: is it made of the training images themselves?")
    if numbers.listing is not None and by_distance:
        said += _listed(numbers.listing, terms)
    if pixels.near_p is not None and pixels.near_p <= NEAR_LEVEL:
        said.append(_near_words(pixels, terms))
    return said


def _listed(listing: Listing, terms: Terms) -> list[str]:
    """List the reasons to fail by distance."""
    said = []
    if n := listing.n_listed_at_verdict:
        are = f"{terms.counted(n, 'training')} {'is' if n == 1 else 'are'}"
        said.append(
            f"{are} listed as nearer to the set than held-out {terms.units} are; at most {share(VERDICT_LEVEL)} of "
            "a list are expected to be there by chance"
        )
    if listing.p_ahead <= AHEAD_LEVEL:
        n = listing.n_ahead_patients
        who = f"{terms.counted(n, 'training')} {'lies' if n == 1 else 'lie'}"
        by_chance = f"a random split has so many with probability {p_words(listing.p_ahead)}"
        said.append(f"{who} nearer to the set than every held-out one; {by_chance}")
    return said


def _after_failure(numbers: SyntheticNumbers) -> str:
    """Say what can be done about a failure, and how often a set without copies fails."""
    if numbers.pixels.n_certain:
        return (
            f"the set drawn anew; or without the images of these pairs ({_WITHOUT}), audited by another detector "
            "(--detector): this one overlooks again what it overlooked here"
        )
    return (
        f"these pairs, looked at (--gallery), and judged in review.csv (--review): about {share(AHEAD_LEVEL)} of sets "
        "without any copy fail by chance, and pairs that are dismissed count as no copies"
    )


def _left_after_failure(
    numbers: SyntheticNumbers, options: SyntheticOptions, terms: Terms, said: list[str]
) -> Iterator[str]:
    """Say what would keep the set undecided if nothing of it failed: a mended set meets the same doubts.

    Doubts of pairs and of single images are not among them, because they may go with what failed.
    """
    if numbers.sets.held is None:
        yield f"{_give_held_out(terms)}: without them also a set without copies could not be decided"
        return
    reading = numbers.reading
    for doubt in (
        _little_power(numbers, options, terms),
        _unlike(numbers, terms),
        _unknown_patients(reading),
        *reading.ids.reasons,
        _unseen_detector(reading),
        _train_unread(reading),
        _frames_left(reading),
        *_blind(numbers, terms),
    ):
        if doubt is not None and doubt[1] not in said:
            why, way = doubt
            yield f"{way}: also a set without copies could not be decided, because {why.partition(';')[0]}"


def _review_words(pixels: PixelPairs) -> list[str]:
    """Say what a person decided, whatever the verdict; it stands first, or after the reasons to fail."""
    said = []
    if n := pixels.n_dismissed_pairs:
        alike = {
            "pixel-identical": pixels.n_dismissed_identical_pairs,
            "nearly identical": pixels.n_dismissed_near_pairs,
        }
        told = ", ".join(f"{m:,} {'is' if m == 1 else 'are'} {what}" for what, m in alike.items() if m)
        patients = f", without which {m:,} more would be listed" if (m := pixels.n_dismissed_patients) else ""
        said.append(
            f"{plural(n, 'pair was', 'pairs were')} dismissed by a person and counted as no copies"
            f"{patients}{f' (of these {told})' if told else ''}; who and why stands under “Pairs that a person judged”"
        )
    if n := pixels.n_changed_pairs:
        said.append(
            f"{plural(n, 'pair that was judged is', 'pairs that were judged are')} of images that were changed since: "
            "these judgements do not count, and review.csv asks about the pairs anew, by name"
        )
    return said


def _one_image_each(said: str) -> list[str]:
    """Say that patients count by one image each; it stands after the reasons, and is none itself."""
    return (
        [f"{said} The list of patients compares each with held-out ones at as many images as they have"] if said else []
    )


def _near_words(pixels: PixelPairs, terms: Terms) -> str:
    """Say how many patients have a nearly identical synthetic image."""
    ours, held = pixels.n_near_train_patients, pixels.n_near_held_patients
    have = "has" if ours == 1 and held is None else "have"
    if held is None:
        return f"{terms.counted(ours, 'training')} {have} a nearly identical synthetic image (“Closest pairs”)"
    by_chance = f" (p {p_words(pixels.near_p)})" if pixels.near_p is not None else ""
    return (
        f"{terms.counted(ours, 'training')} and {terms.counted(held, 'held-out')} {have} a nearly identical synthetic "
        f"image, as it is or mirrored{by_chance}; the pairs are listed under “Closest pairs”"
    )


def _give_held_out(terms: Terms) -> str:
    return (
        f"--held-out with {MIN_HELD_OUT:,} {terms.units} or more {terms.whom} the generator never saw, a random "
        "part of the same data"
    )


def _doubts(numbers: SyntheticNumbers, options: SyntheticOptions, terms: Terms) -> tuple[list[str], list[str]]:
    """List why it cannot pass, and what would decide it."""
    pixels, reading = numbers.pixels, numbers.reading
    found = [
        _singled_out(numbers.listing, terms),
        _aligned(numbers.aligned, terms),
        *_dismissed_copies(pixels),
        _changed_copies(pixels),
        _little_power(numbers, options, terms),
        _near_pairs(pixels, terms),
        _memorized_pairs(numbers.paired),
        _seen_held_out(pixels),
        _near_held_out(pixels, terms),
        _unlike(numbers, terms),
        _unknown_patients(reading),
        *reading.ids.reasons,
        _unseen_detector(reading),
        _not_looked_at(reading, numbers.sets.n_synthetic_images),
        _another_kind(numbers, terms),
        _train_unread(reading),
        _frames_left(reading),
        *_blind(numbers, terms),
    ]
    doubts = [doubt for doubt in found if doubt is not None]
    return [why for why, _ in doubts], [way for _, way in doubts]


def _blind(numbers: SyntheticNumbers, terms: Terms) -> list[tuple[str, str]]:
    """Doubt checks that could not look."""
    return [(found.why, found.what_would_decide) for found in findings(numbers.checks, terms.names)]


def _changed_copies(pixels: PixelPairs) -> tuple[str, str] | None:
    """Doubt a set with confirmed copies that were changed since: a changed copy can be a copy still."""
    n = pixels.n_changed_copies
    if not n:
        return None
    return (
        f"{plural(n, 'pair', 'pairs')} that a person confirmed as a copy {'has' if n == 1 else 'have'} other pixels "
        "now under the same names",
        "these pairs, judged anew in review.csv (--review); or the set without these images",
    )


def _dismissed_copies(pixels: PixelPairs) -> Iterator[tuple[str, str]]:
    """Doubt dismissed pairs with identical pixels, and more nearly identical ones than held-out patients let expect.

    A few look-alikes may be dismissed. Of many, a judgement of each does not explain why training patients alone have
    them.
    """
    if n := pixels.n_dismissed_identical_pairs:
        yield (
            f"{plural(n, 'pair', 'pairs')} with identical pixels {'was' if n == 1 else 'were'} dismissed by a person: "
            "a set with the very pixels of a training image does not pass",
            f"the set without these images ({_WITHOUT}, the pairs confirmed)",
        )
    p = pixels.dismissed_near_p
    if p is not None and p <= DOUBT_LEVEL:
        n = pixels.n_dismissed_near_pairs
        yield (
            f"{plural(n, 'nearly identical pair was', 'nearly identical pairs were')} dismissed by a person, and a "
            f"random split gives training patients so many more such images than held-out patients with probability "
            f"{p_words(p)}: dismissals do not explain this",
            f"the set without these images ({_WITHOUT}, the pairs confirmed); or held-out images of the kind that "
            "looks alike, which then have such pairs, too",
        )


def _singled_out(listing: Listing | None, terms: Terms) -> tuple[str, str] | None:
    """Doubt a set with images nearer to somebody than chance explains: too few for a list, and no pass."""
    if listing is None or not (n := listing.n_singled_images):
        return None
    are = "image is" if n == 1 else "images are"
    return (
        f"{n:,} synthetic {are} singled out: nearer to {terms.counted(listing.n_singled_patients, 'training')} than "
        f"chance explains; of sets without copies at most {share(CHANCE)} have such an image (the pairs head "
        "review.csv)",
        "these pairs, looked at (--gallery), and judged in review.csv (--review); or the set without these images "
        f"({_WITHOUT})",
    )


def _aligned(aligned: AlignedPairs | None, terms: Terms) -> tuple[str, str] | None:
    """Doubt a set with pairs that the second look confirms.

    They fail no set by themselves: that the cut keeps its level was counted on few kinds of images
    (``recipes/alignment.py``).
    """
    if aligned is None or not aligned.n_pairs:
        return None
    n, beside = aligned.n_confirmed_images, aligned.n_control_beyond
    as_well = ""
    if beside:
        as_well = (
            f"; but {beside:,} of {aligned.n_control_images:,} synthetic images {'lies' if beside == 1 else 'lie'} as "
            f"well on a held-out image: the generator may have seen these {terms.units}, or its images be alike to "
            "anybody's"
        )
    return (
        f"{n:,} synthetic {'image lies' if n == 1 else 'images lie'} on an image of "
        f"{terms.counted(aligned.n_confirmed_patients, 'training')}, as it is, turned, mirrored, cropped or in part, "
        f"more alike than chance lets expect (“Second look”){as_well}",
        "these pairs, looked at (--gallery), and judged in review.csv (--review)",
    )


def _little_power(numbers: SyntheticNumbers, options: SyntheticOptions, terms: Terms) -> tuple[str, str] | None:
    power, compared = numbers.power, numbers.comparison
    if power.recall is None or power.recall_by_kind is None:
        why = "no training image could be copied" if options.plants else "none were asked for"
        why = "features were computed elsewhere" if compared.saved_features else why
        return (
            f"no copies were planted ({why}), so that nothing is known of what would have been found",
            f"--detector with features that can be computed of new images, and --plants {SyntheticOptions.plants}",
        )
    by_kind, planted = power.recall_by_kind, power.plant_kinds
    why = recall_doubt(by_kind, planted, options.recall)
    if why is None:
        return None
    ways = ways_to_power(
        by_kind,
        planted,
        options,
        numbers.sets,
        weak=compared.weak_features,
        held_out_needed=power.held_out_patients_for_kinds,
    )
    return f"{why}; {power.promise}", alternatives(ways, terms.names)


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
        by_kind: Share noticed of each kind of which a copy could be made.
        planted: Kinds that were asked for.
        options: What a pass needs.
        sets: Numbers of patients.
        weak: Whether all features are weak.
        held_out_needed: Number of held-out patients with whom the kinds would be noticed; None where none suffices.
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
    """Find how many plants show the recall; none where fewer could be made than were asked for."""
    if any(noticed.trials < options.plants for noticed in missed):
        return
    needed = [plants_needed(noticed, options.recall, patients) for noticed in missed]
    number = inf if None in needed else max(n for n in needed if n is not None)
    yield Remedy(way=Way.PLANTS, needed=number, present=options.plants, most=patients)


def _near_pairs(pixels: PixelPairs, terms: Terms) -> tuple[str, str] | None:
    some, p = pixels.n_near_train_patients > 0, pixels.near_p
    if not some or (pixels.n_near_held_patients and (p is None or p > DOUBT_LEVEL)):
        return None
    return _near_words(pixels, terms), "these pairs, looked at (--gallery), and judged in review.csv (--review)"


def _near_held_out(pixels: PixelPairs, terms: Terms) -> tuple[str, str] | None:
    """Doubt held-out people whom the set resembles: the generator saw them, or the two parts were exchanged."""
    if not (n := pixels.n_near_held_patients):
        return None
    return (
        f"{terms.counted(n, 'held-out')} {'has' if n == 1 else 'have'} a nearly identical synthetic image: the "
        "generator may have been trained on them, or TRAIN and the held-out images be exchanged",
        f"held-out images of people {terms.whom} the generator never saw, and TRAIN as it was trained on",
    )


def _memorized_pairs(paired: Paired | None) -> tuple[str, str] | None:
    """Doubt a set in which more pairs of an image and its source are alike than chance makes of held-out images."""
    for said in () if paired is None else paired.rates:
        rate, held, excess = said.rate, said.held, said.excess
        if rate is not None and held is not None and excess is not None and excess.low > 0:
            return (
                f"MemRate is {share(rate.estimate)} where held-out images give {share(held.estimate)} "
                f"(difference {share(excess.low)} or more): images are taken for what they were generated from",
                "these pairs, looked at (--gallery), and judged in review.csv (--review)",
            )
    return None


def _unlike(numbers: SyntheticNumbers, terms: Terms) -> tuple[str, str] | None:
    test = numbers.unlike
    if test is None or test.p_value > UNLIKE_LEVEL:
        return None
    by = f" by {numbers.unlike_by}" if numbers.comparison.n_detectors > 1 else ""
    told = f"training and held-out images are not alike{by} (p {p_words(test.p_value)})"
    if test.together:
        return (
            f"{told}: images that are much nearer to one {terms.unit} than to the next are so across the two parts, "
            f"{share(test.across)} of these leads where a random split has {share(test.across_expected)}; "
            f"held-out {terms.units} may be training {terms.units} under other ids, and copies of these are near both",
            f"held-out images of people {terms.whom} the generator never saw, whatever their ids",
        )
    return (
        f"{told}: {share(test.share)} of nearest neighbours lie in the same part, by a random split "
        f"{share(test.expected)} would; p-values then compare two data sets, or patients of several images "
        "hide under several names",
        "held-out images that are a random part, by patient, of the data that the generator was trained on",
    )


def _unknown_patients(reading: Reading) -> tuple[str, str] | None:
    if reading.patients_known:
        return None
    return (
        NO_PATIENTS.format(missing=missing_patients(reading.n_without_patient)),
        "--group-from or --group-column; or --one-image-per-patient, where nobody has two images",
    )


def _unseen_detector(reading: Reading) -> tuple[str, str] | None:
    if not reading.detector_unseen:
        return None
    return (
        "whom the detector was trained on cannot be seen: its images were stored at another size, and patients are not "
        "given; one that knows the held-out images hides copies",
        "--size as in the detector's training, or patient ids there and here",
    )


def _not_looked_at(reading: Reading, n_synthetic: int) -> tuple[str, str] | None:
    """Doubt a set with images that were not read or show next to nothing, or of one image again and again."""
    distinct = reading.n_synthetic_distinct
    if n := reading.n_synthetic_unread:
        return (
            f"{plural(n, 'file or image', 'files or images')} of the synthetic set {'was' if n == 1 else 'were'} not "
            "read, and nothing is said of them",
            "a synthetic set of images that can be read, without other files",
        )
    if n := reading.n_synthetic_blank:
        return (
            f"{plural(n, 'synthetic image shows', 'synthetic images show')} next to nothing (fewer than "
            f"{MIN_GREY_LEVELS} "
            "grey levels of 256): what the files hold was not seen, as under transparency, or in 16-bit files of "
            "values to 255",
            "the set without these images, or with files that show what they hold (memorisk images check names them)",
        )
    if 2 * distinct < n_synthetic:
        return (
            f"of {n_synthetic:,} synthetic images {distinct:,} are different: an export that went wrong?",
            "the images that are to be released, each once",
        )
    return None


def _another_kind(numbers: SyntheticNumbers, terms: Terms) -> tuple[str, str] | None:
    """Doubt a set of which most lies far off.

    Planted copies are made of training images as they are stored: they say nothing of copies that are inverted, framed
    or windowed as the whole set is.
    """
    n, n_synthetic = numbers.reading.n_synthetic_far, numbers.sets.n_synthetic_images
    if n is None or 2 * n <= n_synthetic:
        return None
    by = f" by {numbers.reading.far_by}" if numbers.comparison.n_detectors > 1 else ""
    return (
        f"{n:,} of {n_synthetic:,} synthetic images lie farther from the training images{by} than "
        f"{share(FAR_SHARE)} of held-out {terms.units} do: images of another kind, or prepared in another way "
        "(inverted, framed, another window or size), as no planted copy is",
        "the generator's images, prepared as the training images are; or a detector trained on how they differ "
        "(--detector)",
    )


def _train_unread(reading: Reading) -> tuple[str, str] | None:
    """Doubt training images that were not read: their copies would not be found."""
    if n := reading.n_train_unread:
        return unread_training(n)
    if n := reading.n_train_blank:
        return (
            f"{plural(n, 'training image shows', 'training images show')} next to nothing (fewer than "
            f"{MIN_GREY_LEVELS} grey levels of 256): copies of what the generator was trained on are not found",
            "training images as the generator saw them, or without these files if nothing was trained on them "
            "(memorisk images check names them)",
        )
    return None


def _frames_left(reading: Reading) -> tuple[str, str] | None:
    """Doubt files with further pages, frames or slices that were not read."""
    parts = (("synthetic", reading.n_synthetic_frames_left), ("training", reading.n_train_frames_left))
    if not (said := [f"{n:,} of {part} files" for part, n in parts if n]):
        return None
    return (
        f"further pages, frames or slices were not read, {' and '.join(said)}: nothing is said of them",
        "--frames all, which reads every one, or files of one image each",
    )


def _seen_held_out(pixels: PixelPairs) -> tuple[str, str] | None:
    if not (n := pixels.n_held_images):
        return None
    have = "image has" if n == 1 else "images have"
    return (
        f"{n:,} synthetic {have} the very pixels of a held-out image: the generator saw it, or images as simple as "
        "these coincide",
        "held-out images that the generator cannot have seen; or the set without these images (“Every pair”, "
        "tables/pairs.parquet)",
    )


def _passed(numbers: SyntheticNumbers, terms: Terms) -> list[str]:
    """Say what a pass rests on."""
    power = numbers.power
    told = [
        f"this pass is about {kinds_words(power.plant_kinds, power.also_tried)}",
        f"no training {terms.unit} is listed as nearer to the set than held-out {terms.units} are",
        "no image is singled out",
        str(power.promise),
    ]
    if (bound := power.copies_bound_share) is not None and bound < LARGEST_BOUND:
        told.append(
            f"at most {100 * bound:.1f} % of the set are copies of images in TRAIN, of the planted "
            f"kinds in whatever mixture, with {share(BOUND_LEVEL)} confidence, if its images were drawn independently"
        )
    if missed := mostly_missed(power.also_tried):
        each = ", ".join(f"{kind} ({counted(of)} noticed)" for kind, of in missed.items())
        told.append(f"copies of other kinds may be in the set unseen; of those tried, these were mostly missed: {each}")
    return told
