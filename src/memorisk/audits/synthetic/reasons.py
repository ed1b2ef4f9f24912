"""Reasons of the audit of a synthetic set: copies, doubts about the basis of the comparison, support of a pass."""

from collections.abc import Mapping

from memorisk.audits.comparison.other_forms import INVERTED
from memorisk.audits.comparison.plants import counted, kinds_words, mostly_missed, recall_doubt
from memorisk.audits.comparison.sets import MIN_GREY_LEVELS, part_counts
from memorisk.audits.comparison.terms import missing_patients
from memorisk.audits.subgroups import SubgroupReason
from memorisk.audits.synthetic.options import FAR_SHARE, SyntheticOptions
from memorisk.runs.errors import plural
from memorisk.statistics.copies.planted_copies import BOUND_LEVEL
from memorisk.statistics.copies.singled_out import MIN_HELD_OUT
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.verdicts.levels import SINGLED_OUT_LEVEL, VERDICT_LEVEL
from memorisk.statistics.verdicts.reasons import FAIL, LIMIT, SUPPORT, Number, Reason, Words

_WITHOUT = "memorisk release SET CLEAN --without RUN"
"""Command that writes a set without the images of pairs that no person dismissed."""
_LOOK = "a judgement of these pairs (memorisk view RUN, or review.csv and --review)"


class CopyReason(Reason, bears_on=FAIL):
    """Failure of a set; a person who dismisses its pairs lifts it."""

    remedy = Words(f"{_LOOK}; pairs that are dismissed count as no copies")


class CertainCopy(CopyReason):
    """Copy that does not depend on chance: by its pixels, or by the word of a person."""

    remedy = Words(
        f"the set drawn anew; or without the images of these pairs ({_WITHOUT}), audited by another detector "
        "(--detector): this one overlooks again what it overlooked here"
    )


class ConfirmedPairs(CertainCopy, code="confirmed-pairs"):
    """Pairs that a person confirmed as copies."""

    n_pairs: int
    text = Words("a person confirmed {n_pairs:pair|pairs} as a copy of a training image")
    plain = Words("a person confirmed {n_pairs:pair as a copy|pairs as copies}")


class SamePixels(CertainCopy, code="same-pixels"):
    """Synthetic images with the very pixels of a training image."""

    n_images: int
    n_synthetic: int
    compared_with_held_out: bool
    plain = Words("{n_images:generated image is a training image|generated images are training images}")

    @Words
    def text(self) -> str:
        have = plural(self.n_images, "synthetic image has", "synthetic images have")
        shared = ", and of no held-out one" if self.compared_with_held_out else ""
        whole = "; that is the whole set: is it made of the training images themselves?"
        return (
            f"{have} the very pixels of a training image, as it is, mirrored or turned{shared}"
            f"{whole if self.n_images == self.n_synthetic else ''}"
        )


class OtherPartPixels(CertainCopy, code="other-part-pixels"):
    """Synthetic images with the very pixels of an image in a further part of TRAIN, as validation images are."""

    n_images: int
    by_part: Mapping[str, int]
    """Number of these images by the part of TRAIN."""
    text = Words(
        "{n_images:synthetic image has|synthetic images have} the very pixels of an image in a further part of TRAIN, "
        "as it is, mirrored or turned ({parts})"
    )
    plain = Words(
        "{n_images:generated image is an image|generated images are images} of a person in the data who is neither in "
        "the training nor in the held-out part"
    )
    remedy = Words(
        "the set without the images that have the pixels of a further part of TRAIN (“Every pair”, "
        "tables/pairs.parquet), audited again"
    )

    @property
    def parts(self) -> str:
        """Number of images by part, in words."""
        return part_counts(self.by_part)


class ListedPatients(CopyReason, code="listed-patients"):
    """Training patients on the verdict's list."""

    n_patients: int
    text = Words(
        "{n_patients:training {one} is|training {many} are} listed as nearer to the set than held-out {many} are; at "
        f"most {100 * VERDICT_LEVEL:.0f} % of a list are expected to be there by chance"
    )
    plain = Words("{n_patients:training {one} is|training {many} are} nearer to the set than chance explains")


class NearerThanHeldOut(CopyReason, code="nearer-than-every-held-out"):
    """Training patients nearer to the set than every held-out one."""

    n_patients: int
    p: float
    text = Words(
        "{n_patients:training {one} lies|training {many} lie} nearer to the set than every held-out one; a random "
        "split has so many with probability {p:p}"
    )
    plain = Words(
        "{n_patients:training {one} lies|training {many} lie} nearer to the set than every held-out one, more than "
        "chance explains"
    )


class NearlyIdentical(Reason, code="nearly-identical"):
    """Patients with a nearly identical synthetic image, and held-out ones for comparison."""

    n_training: int
    n_held_out: int | None
    p: float | None
    remedy = Words(_LOOK)

    @Words
    def text(self) -> str:
        ours, held, units = self.n_training, self.n_held_out, self.units
        training = plural(ours, f"training {units.one}", f"training {units.many}")
        if held is None:
            return f"{training} {'has' if ours == 1 else 'have'} a nearly identical synthetic image (“Closest pairs”)"
        by_chance = "" if self.p is None else f" (p {Number(self.p):p})"
        return (
            f"{training} and {plural(held, f'held-out {units.one}', f'held-out {units.many}')} have a nearly identical "
            f"synthetic image, as it is or mirrored{by_chance}; the pairs are listed under “Closest pairs”"
        )

    plain = Words("{n_training:training {one} has|training {many} have} a nearly identical generated image")


class TooManyNearlyIdentical(CopyReason, NearlyIdentical, code="too-many-nearly-identical"):
    """More training patients with a nearly identical synthetic image than chance explains."""


class NoHeldOut(Reason, code="no-held-out"):
    """Set that is audited without held-out images."""

    text = Words(
        "no held-out images were given: distances alone cannot tell a copy from an image that is like many patients"
    )
    plain = Words("there were no images of new people to compare with, without which copies and chance look alike")
    remedy = Words(
        f"--held-out with {MIN_HELD_OUT:,} {{many}} or more {{whom}} the generator never saw, a random part of the "
        "same data"
    )


class DismissedPairs(Reason, code="dismissed-pairs", bears_on=LIMIT):
    """Pairs that a person dismissed; they do not count as copies."""

    n_pairs: int
    n_identical: int
    n_near: int
    n_more_listed: int
    """Number of further patients who would be listed without the dismissals."""
    plain = Words(
        "a person dismissed {n_pairs:pair, which does not count as a copy|pairs, which do not count as copies}"
    )

    @Words
    def text(self) -> str:
        alike = {"pixel-identical": self.n_identical, "nearly identical": self.n_near}
        parts = ", ".join(f"{m:,} {'is' if m == 1 else 'are'} {what}" for what, m in alike.items() if m)
        listed = f", without which {self.n_more_listed:,} more would be listed" if self.n_more_listed else ""
        return (
            f"{plural(self.n_pairs, 'pair was', 'pairs were')} dismissed by a person and not counted as copies{listed}"
            f"{f' (of these {parts})' if parts else ''}; the page lists by whom and why under “Pairs that a person "
            f"judged”"
        )


class ChangedPairs(Reason, code="changed-pairs", bears_on=LIMIT):
    """Judged pairs of which an image was changed since."""

    n_pairs: int
    text = Words(
        "{n_pairs:pair that was judged is|pairs that were judged are} of images that were changed since: these "
        "judgements do not count, and review.csv asks about the pairs anew, by name"
    )
    plain = Words("{n_pairs:judgement does|judgements do} not count, since the images were changed")


class SubgroupCopiedMore(SubgroupReason, code="subgroup-copied-more", bears_on=LIMIT):
    """Level of a column whose patients are surely copied more than the others of the same class."""

    n_copied: int
    """Number of its patients with a flagged pair that no person dismissed."""
    difference_share: float
    low_share: float
    high_share: float
    within_class: bool
    text = Words(
        "generated images are flagged as copies of {n_copied:,} of {n_patients:,} training {subgroup}, a share that is "
        "{difference_share:100} percentage points above that of the other {many}{of_the_same_class} ({low_share:100} "
        "to {high_share:100}, p {adjusted_p:p} after correction)"
    )
    plain = Words(
        "generated images are flagged as copies of {many} with {subgroup_value} more often than of others"
        "{with_the_same_class}"
    )
    remedy = Words(
        f"{_LOOK}; more {{many}} with {{subgroup_value}} in the generator's training, or a defence (docs/defences.md)"
    )

    @property
    def of_the_same_class(self) -> str:
        """Words for the class within which levels are compared; empty without classes."""
        return " of the same class" if self.within_class else ""

    @property
    def with_the_same_class(self) -> str:
        """The same in plain words."""
        return " with the same diagnosis or class" if self.within_class else ""


class OneImageEach(Reason, code="one-image-each", bears_on=LIMIT):
    """Comparison of patients by one image each."""

    note: str
    text = Words("{note} The list of patients compares each with held-out ones at as many images as they have")
    plain = Words("most counts compare people by one image of each")


class ChangedCopies(Reason, code="changed-copies"):
    """Confirmed copies that were changed since: a changed copy can be a copy still."""

    n_pairs: int
    text = Words(
        "{n_pairs:pair|pairs} that a person confirmed as a copy {n_pairs:|has|have} other pixels now under the same "
        "names"
    )
    plain = Words("{n_pairs:confirmed copy was|confirmed copies were} changed since, and can be copies still")
    remedy = Words("these pairs, judged anew in review.csv (--review); or the set without these images")


class DismissedIdentical(Reason, code="dismissed-identical"):
    """Pairs with identical pixels that a person dismissed."""

    n_pairs: int
    text = Words(
        "{n_pairs:pair|pairs} with identical pixels {n_pairs:|was|were} dismissed by a person: a set with the very "
        "pixels of a training image does not pass"
    )
    plain = Words("a person dismissed {n_pairs:training image|training images} in the set, point for point")
    remedy = Words(f"the set without these images ({_WITHOUT}, the pairs confirmed)")


class DismissedNear(Reason, code="dismissed-near"):
    """More dismissed pairs that are nearly identical than held-out patients let expect."""

    n_pairs: int
    p: float
    text = Words(
        "{n_pairs:nearly identical pair was|nearly identical pairs were} dismissed by a person, and a random split "
        "gives training patients so many more such images than held-out patients with probability {p:p}: dismissals do "
        "not explain this"
    )
    plain = Words(
        "a person dismissed {n_pairs:nearly identical pair|nearly identical pairs}, more than new people let expect"
    )
    remedy = Words(
        f"the set without these images ({_WITHOUT}, the pairs confirmed); or held-out images of the kind that looks "
        "alike, which then have such pairs, too"
    )


class SingledOut(Reason, code="singled-out"):
    """Images nearer to one patient than chance explains: too few for a list, and no pass."""

    n_images: int
    n_patients: int
    text = Words(
        "{n_images:synthetic image is|synthetic images are} singled out: nearer to "
        "{n_patients:training {one}|training {many}} than chance explains; of sets without copies at most "
        f"{100 * SINGLED_OUT_LEVEL:.0f} % have such an image (the pairs head review.csv)"
    )
    plain = Words("{n_images:generated image points at one person|generated images each point at one person}")
    remedy = Words(f"{_LOOK}; or the set without these images ({_WITHOUT})")


class SecondLook(Reason, code="second-look"):
    """Images that the second look confirms as lying on a training image.

    They fail no set by themselves: that the cut keeps its level was counted on few kinds of images
    (``recipes/alignment.py``).
    """

    n_images: int
    n_patients: int
    n_control_beyond: int
    """Number of synthetic images that lie as well on a held-out image."""
    n_control_images: int
    plain = Words(
        "{n_images:generated image lies|generated images lie} on an image of "
        "{n_patients:training {one}|training {many}}"
    )
    remedy = Words(_LOOK)

    @Words
    def text(self) -> str:
        n, beside, units = self.n_images, self.n_control_beyond, self.units
        as_well = (
            f"; but {beside:,} of {self.n_control_images:,} synthetic images {'lies' if beside == 1 else 'lie'} as "
            f"well on a held-out image: the generator may have seen these {units.many}, or its images be alike to "
            "anybody's"
        )
        return (
            f"{plural(n, 'synthetic image lies', 'synthetic images lie')} on an image of "
            f"{plural(self.n_patients, f'training {units.one}', f'training {units.many}')}, as it is, turned, "
            f"mirrored, cropped or in part, more alike than chance lets expect (“Second look”){as_well * bool(beside)}"
        )


class NothingPlanted(Reason, code="nothing-planted"):
    """Set without planted copies."""

    saved_features: bool
    n_asked: int
    """Number of copies of each kind that the settings request."""
    plain = Words("no copies were hidden on purpose, so that it is not known what would have been found")
    remedy = Words(
        f"--detector with features that can be computed of new images, and --plants {SyntheticOptions.plants}"
    )

    @Words
    def text(self) -> str:
        because = "no training image could be copied" if self.n_asked else "the settings request none"
        because = "features were computed elsewhere" if self.saved_features else because
        return f"no copies were planted ({because}), so that it is not known what would have been found"


class PlantsMissed(Reason, code="plants-missed"):
    """Planted copies of required kinds that are not noticed as often as a pass needs."""

    by_kind: Mapping[str, Proportion]
    """Share noticed, by kind."""
    planted: tuple[str, ...]
    recall: float
    promise: str
    """Promise of what would have been noticed, in words."""
    plain = Words("too few of the copies that were hidden on purpose were noticed")

    @Words
    def text(self) -> str:
        return f"{recall_doubt(self.by_kind, self.planted, self.recall)}; {self.promise}"


class NearHeldOut(Reason, code="held-out-nearly-identical"):
    """Held-out people that the set resembles: the generator saw them, or the two parts were exchanged."""

    n_patients: int
    text = Words(
        "{n_patients:held-out {one} has|held-out {many} have} a nearly identical synthetic image: the generator may "
        "have been trained on them, or TRAIN and the held-out images be exchanged"
    )
    plain = Words(
        "{n_patients:held-out {one} has|held-out {many} have} a nearly identical generated image, though nothing "
        "should have been trained on them"
    )
    remedy = Words("held-out images of people {whom} the generator never saw, and TRAIN as it was trained on")


class LikeTheirSource(Reason, code="like-their-source"):
    """More pairs of an image and its source that are alike than chance makes of held-out images."""

    rate: float
    held_out_rate: float
    least_difference: float
    text = Words(
        "MemRate is {rate:%} where held-out images give {held_out_rate:%} (difference {least_difference:%} or more): "
        "images are taken for what they were generated from"
    )
    plain = Words(
        "{rate:100} in 100 generated images are taken for the image they were generated from, and {held_out_rate:100} "
        "in 100 would be by chance"
    )
    remedy = Words(_LOOK)


class PartsTogether(Reason, code="parts-not-apart"):
    """Held-out people who may be training people under other ids."""

    p: float
    by: str
    across: float
    across_expected: float
    text = Words(
        "training and held-out images are not alike{by} (p {p:p}): images that are much nearer to one {one} than to "
        "the next are so across the two parts, {across:%} of these leads where a random split has {across_expected:%}; "
        "held-out {many} may be training {many} under other ids, and copies of these are near both"
    )
    plain = Words("the held-out {many} may be training {many} under other names")
    remedy = Words("held-out images of people {whom} the generator never saw, whatever their ids")


class PartsApart(Reason, code="parts-not-alike"):
    """Held-out images of another kind than the training images."""

    p: float
    by: str
    share: float
    expected: float
    text = Words(
        "training and held-out images are not alike{by} (p {p:p}): {share:%} of nearest neighbours lie in the same "
        "part, by a random split {expected:%} would; p-values then compare two data sets, or patients of several "
        "images hide under several names"
    )
    plain = Words("training and held-out images are not alike, so that they cannot be compared")
    remedy = Words("held-out images that are a random part, by patient, of the data that the generator was trained on")


class NoPatientIds(Reason, code="no-patient-ids"):
    """Real images without a patient id."""

    n_without: int
    text = Words("{missing}: a patient with images in training and held out hides copies")
    plain = Words("it is not known whose each image is, so that copies may have stayed hidden")
    remedy = Words("--group-from or --group-column; or --one-image-per-patient, where no patient has two images")

    @property
    def missing(self) -> str:
        """Number of images without an id, in words."""
        return missing_patients(self.n_without)


class DetectorUnknown(Reason, code="detector-unknown"):
    """Detector whose training data cannot be compared with the sets."""

    text = Words(
        "whom the detector was trained on cannot be seen: its images were stored at another size, and patients are not "
        "given; one that knows the held-out images hides copies"
    )
    plain = Words(
        "it is not known on whom the detector was trained, and one that knows the held-out images hides copies"
    )
    remedy = Words("--size as in the detector's training, or patient ids there and here")


class SyntheticUnread(Reason, code="synthetic-unread"):
    """Files of the set that were not read."""

    n_files: int
    text = Words(
        "{n_files:file or image|files or images} of the synthetic set {n_files:|was|were} not read, and not compared"
    )
    plain = Words("{n_files:file|files} of the set could not be read")
    remedy = Words("a synthetic set of images that can be read, without other files")


class SyntheticBlank(Reason, code="synthetic-blank"):
    """Synthetic images that show next to nothing."""

    n_images: int
    text = Words(
        f"{{n_images:synthetic image shows|synthetic images show}} next to nothing (fewer than {MIN_GREY_LEVELS} grey "
        "levels of 256): what the files hold was not seen, as under transparency, or in 16-bit files of values to 255"
    )
    plain = Words("{n_images:generated image shows|generated images show} next to nothing")
    remedy = Words(
        "the set without these images, or with files that show what they hold (memorisk images check names them)"
    )


class SyntheticColoured(Reason, code="synthetic-coloured"):
    """Synthetic images of more colour than all real ones have, which are grey."""

    n_images: int
    text = Words(
        "{n_images:synthetic image has|synthetic images have} colour, and all real images are grey: a whole training "
        "image can lie in colours, and no real image shows which colours are usual"
    )
    plain = Words("{n_images:generated image has|generated images have} colour, though all real images are grey")
    remedy = Words("--channels 1, which compares grey images and lets memorisk release write them so")


class HiddenInColours(Reason, code="hidden-in-colours"):
    """Synthetic images that hold a training image in single channels or in differences of two."""

    n_images: int
    text = Words(
        "{n_images:synthetic image shows|synthetic images show} a training image in a single channel, or in the "
        "difference of two, more alike than two {many} are (“alike in colours” in review.csv)"
    )
    plain = Words("{n_images:generated image holds|generated images hold} a training image in the colours")
    remedy = Words(f"the set without these images ({_WITHOUT}); or --channels 1, where colour is not needed")


class OtherForm(Reason, code="synthetic-of-another-form"):
    """Synthetic images nearly identical to training images in another form than that of the audit."""

    n_images: int
    form: str
    """Rule of resizing, or `memorisk.audits.comparison.other_forms.INVERTED`."""
    text = Words(
        "{n_images:synthetic image is|synthetic images are} nearly identical to training images {how}: the generator "
        "may have seen them so, and this audit compared them in another form"
    )
    plain = Words(
        "{n_images:generated image is|generated images are} nearly identical to training images in a form in which "
        "they were not compared"
    )

    @property
    def how(self) -> str:
        """Form in words."""
        return "with inverted greys" if self.form == INVERTED else f"which --resize {self.form} brings to size"

    @Words
    def remedy(self) -> str:
        if self.form == INVERTED:
            return "training and held-out images as the generator saw them, with these greys"
        return f"--resize {self.form}, by which training and held-out images are compared as the generator saw them"


class SyntheticRepeated(Reason, code="synthetic-repeated"):
    """Set of few different images."""

    n_images: int
    n_different: int
    text = Words("of {n_images:,} synthetic images {n_different:,} are different: an export that went wrong?")
    plain = Words("of {n_images:,} generated images {n_different:,} are different")
    remedy = Words("the images that are to be released, each once")


class OtherKind(Reason, code="synthetic-far-off"):
    """Set of which most lies far off.

    Planted copies are made of training images as they are stored: they say nothing of copies that are inverted, framed
    or windowed as the whole set is.
    """

    n_images: int
    n_synthetic: int
    by: str
    text = Words(
        "{n_images:,} of {n_synthetic:,} synthetic images lie farther from the training images{by} than "
        f"{100 * FAR_SHARE:.0f} % of held-out {{many}} do: images of another kind, or prepared in another way "
        f"(inverted, "
        "framed, another window or size), as no planted copy is"
    )
    plain = Words("most generated images are of another kind than the training images, or prepared in another way")
    remedy = Words(
        "the generator's images, prepared as the training images are; or a detector trained on how they differ "
        "(--detector)"
    )


class TrainingBlank(Reason, code="training-blank"):
    """Training images that show next to nothing."""

    n_images: int
    text = Words(
        f"{{n_images:training image shows|training images show}} next to nothing (fewer than {MIN_GREY_LEVELS} grey "
        "levels of 256): copies of what the generator was trained on are not found"
    )
    plain = Words("{n_images:training image shows|training images show} next to nothing, so that copies are not found")
    remedy = Words(
        "training images as the generator saw them, or without these files if nothing was trained on them (memorisk "
        "images check names them)"
    )


class TrainingTransparent(Reason, code="training-transparent"):
    """Training images with a picture under or in transparent pixels, which training may have seen and the audit not."""

    n_images: int
    text = Words(
        "{n_images:training image holds|training images hold} a picture under or in transparent pixels, which were "
        "compared on black: copies of what lies there are not found, and a training that leaves transparency out saw it"
    )
    plain = Words(
        "{n_images:training image has|training images have} transparent parts with a picture that was not compared"
    )
    remedy = Words("training images without transparency, as the generator saw them")


_WAYS_TO_READ = {
    "files": "--frames all, which reads every one, or files of one image each",
    "nifti": "--frames volume, which compares whole volumes",
    "series": "files of one volume each",
}
"""Remedy for frames that were not read, by what they are left out of."""


class FramesLeft(Reason, code="frames-unread"):
    """Files with further pages, frames or slices that were not read."""

    n_synthetic: int
    n_training: int
    of: str = "files"
    """Kind of what the frames are left out of, as `memorisk.audits.comparison.sets.LeftOf`."""
    plain = Words("some files hold several images, of which only the first were read")

    @Words
    def remedy(self) -> str:
        return _WAYS_TO_READ.get(self.of, _WAYS_TO_READ["files"])

    @Words
    def text(self) -> str:
        parts = (("synthetic", self.n_synthetic), ("training", self.n_training))
        files = " and ".join(f"{n:,} of {part} files" for part, n in parts if n)
        return f"further pages, frames or slices were not read and not compared, {files}"


class HeldOutPixels(Reason, code="held-out-pixels"):
    """Synthetic images with the very pixels of a held-out image."""

    n_images: int
    text = Words(
        "{n_images:synthetic image has|synthetic images have} the very pixels of a held-out image: the generator saw "
        "it, or images as simple as these coincide"
    )
    plain = Words(
        "{n_images:generated image is|generated images are}, point for point, an image of a person who should not "
        "have been in the training"
    )
    remedy = Words(
        "held-out images that the generator cannot have seen; or the set without these images (“Every pair”, "
        "tables/pairs.parquet)"
    )


class KindsCovered(Reason, code="kinds-covered", bears_on=SUPPORT):
    """Pass: kinds of copies that it covers."""

    kinds: tuple[str, ...]
    also: Mapping[str, Proportion]
    """Shares of the further kinds that were tried that are noticed."""
    plain = Words("this pass is about {n_kinds:kind|kinds} of copies")

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return len(self.kinds)

    @Words
    def text(self) -> str:
        return f"this pass is about {kinds_words(self.kinds, self.also)}"


class NoneListed(Reason, code="none-listed", bears_on=SUPPORT):
    """Pass: no training patient is listed."""

    text = Words("no training {one} is listed as nearer to the set than held-out {many} are")
    plain = Words("no training {one} is nearer to the set than chance explains")


class NoneSingledOut(Reason, code="none-singled-out", bears_on=SUPPORT):
    """Pass: no image is singled out."""

    text = Words("no image is singled out")
    plain = Words("no generated image points at one person")


class CopiesNoticed(Reason, code="copies-noticed", bears_on=SUPPORT):
    """Pass: probability with which a copy would have been noticed."""

    promise: str
    text = Words("{promise}")
    plain = Words("a copy of one of these kinds would have been noticed nearly always")


class CopiesAtMost(Reason, code="copies-at-most", bears_on=SUPPORT):
    """Pass: largest share of the set that is copies."""

    share: float
    confidence: float = BOUND_LEVEL
    plain = Words("at most {in_1000} in 1,000 images of the set are copies of these kinds")

    @property
    def in_1000(self) -> str:
        """Share as a count out of a thousand."""
        return f"{1000 * self.share:.0f}"

    @Words
    def text(self) -> str:
        return (
            f"at most {100 * self.share:.1f} % of the set are copies of images in TRAIN, of the planted kinds in "
            f"whatever mixture, with {100 * self.confidence:.0f} % confidence, if its images were drawn independently"
        )


class OtherKindsMissed(Reason, code="other-kinds-missed", bears_on=LIMIT):
    """Pass: further kinds of copies that were tried and mostly missed."""

    also: Mapping[str, Proportion]
    plain = Words("copies of other kinds may be in the set unseen")

    @Words
    def text(self) -> str:
        each = ", ".join(f"{kind} ({counted(of)} noticed)" for kind, of in mostly_missed(self.also).items())
        return f"copies of other kinds may be in the set unseen; of those tried, these were mostly missed: {each}"


class EdgesCropped(Reason, code="edges-cropped", bears_on=LIMIT):
    """Pass: training images of which only the centre was compared."""

    text = Words(
        "of training images that are not square only the centre was compared (--resize crop): copies of what lies "
        "outside it are not found, if the generator saw that"
    )
    plain = Words("only the centre of some training images was compared")
