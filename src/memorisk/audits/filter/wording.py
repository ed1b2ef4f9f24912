"""The fixed wording of the filter's report, apart from the layout, so that a checker of its claims reads one file."""

from collections.abc import Mapping

from memorisk.audits.comparison.terms import Terms
from memorisk.audits.filter.result import Exclusions, ExposedPatients, FilterNumbers, Promise
from memorisk.audits.synthetic import wording as audited
from memorisk.report.blocks import Text
from memorisk.report.columns import count, percent
from memorisk.report.statements.statement import run_headline
from memorisk.runs.errors import plural

SCORE, PIXELS, NO_SCORE = "score", "same pixels", "no score"
OTHER_PIXELS = "same pixels, further part"
UNREADABLE, NOT_FILTERED = "unreadable", "not filtered"
REASONS: dict[str, str] = {
    SCORE: "A training image scores as high as the threshold or higher.",
    PIXELS: "It has the very pixels of a training image, as it is, mirrored or turned.",
    OTHER_PIXELS: "It has the very pixels of an image in a further part of TRAIN, as it is, mirrored or turned.",
    NO_SCORE: "Its features are not finite, or the measure is undefined for them.",
    UNREADABLE: "It could not be read, so that nothing is known of it.",
    NOT_FILTERED: "There is no threshold.",
}
"""Why an image is not kept."""

NO_THRESHOLD = "Nothing was kept: the guarantee needs more people"
NOTHING_KEPT = "Nothing was kept: all {n} images were left out"
KEPT = "{left} left out, {kept} kept: {verdict}"
SENTENCES = {
    "pass": "Share nothing but the folder “kept”. ",
    "fail": "",
    "undecided": "Do not share the folder “kept” yet. ",
}
"""Advice on the kept images, by status; the sentence of their audit follows."""
NOTHING_TO_SHARE = "Every synthetic image was rejected, so there is nothing to share."
MORE_PEOPLE = (
    "The requested guarantee needs images of more people whom neither the generator nor a detector has seen. "
    "Without them there is no threshold, and no image is kept."
)
AUDITED = (
    "The kept set was audited as “memorisk audit synthetic” audits any set: that is the verdict. Training {units} were "
    "ranked among the calibration {units}, and copies of every kind were planted. Its report is {folder}/report.html."
)
NO_PROMISE = "The threshold comes with no promise: {why}."
GUARANTEE = (
    "One random positive pair of each calibration {unit} was drawn for each family, and its score taken by each "
    "detector. A detector's threshold is the smallest that its families ask for; an image is rejected when its best "
    "score over all training images reaches the threshold of any detector. Rejecting more than the pair itself "
    "only lowers the miss rate."
)
SHARED = (
    "{detectors} and {families} are calibrated on the same people, so that each threshold is made with a share of "
    "1 - {confidence:g}: of {shared}, each gets {each:.3g}. The promise then holds for all of them at once."
)
FAMILY_COSTS = (
    "New {units} have no copies, so that those that a threshold leaves out are false alarms. Copies of a family "
    "that is not promised may pass the filter unnoticed: the audit of the kept set alone looks for them."
)
USER = (
    "The threshold was given. How many calibration pairs lie below it is shown; the intervals are for one family and "
    "detector, and hold if the threshold was chosen without looking at these pairs."
)
COST = (
    "Every synthetic image is compared with the whole training set, so that its chance to be rejected grows with that "
    "set. Real images of {units} {whom} the generator never saw cannot be copied: those that are rejected are false "
    "alarms."
)
REAL = (
    "Of new {units}, one random real image each, {share} would be rejected [{low}, {high}], {n} {units}. So large a "
    "share of rejected synthetic images need not be copies. The same {units} set the threshold, by other pairs of "
    "images."
)
DIVERSITY = (
    "IRS: how many training images are the nearest one of some synthetic image, as an estimate of the share of the "
    "training set that the images reach. Real images of new {units}, one each, are the reference. The score grows "
    "with the number of images: compare the last column, where each set has as many, drawn at random."
)
EXPOSED = (
    "A rejected image points at the {unit} of its nearest training image. An image with the very pixels of a training "
    "image, as it is, mirrored or turned by quarters, exposes its {unit}, and counts as singling out. Of the others, "
    "singled out means that no image of another {unit} reaches the threshold. Where others reach it as well, the image "
    "may be common rather than copied."
)
EXPOSED_TABLE = "Training {units} at {whom} rejected images point, the closest pair first."
BY_PIXELS = "{n} by an image with the very pixels of a training image"
BY_SCORE = "{n} by an image that reaches the threshold for this {unit} and for no other"
SIMILAR = "Images that reach the threshold for several {units} are nearest to {n} more, who may only look alike."
WHOLE_SET = "A score alone shows no copy: an audit of the whole set tells who is copied (memorisk audit synthetic)."
NEW_PATIENTS = (
    "The same threshold rejects {share} [{low}, {high}] of {units} {whom} the generator never saw: these are false "
    "alarms"
)
NEW_PATIENTS_UNKNOWN = "How many false alarms the threshold gives is not known"
SCORES = (
    "How far the best match of each image lies below an image and itself (0 is the same vector). The triangle is the "
    "threshold: what lies left of it is rejected. Pairs of the calibration that lie right of it are misses."
)
UNREAD = (
    "Nothing is known of these: they are rejected, not kept. A file that has changed since, or that another program "
    "can read, was still not looked at."
)

LEFT_OUT = {
    "in_training": "named among the training {units}",
    "same_pixels": "with an image that is a training image, pixel by pixel",
    "nearly_same": "with an image that is nearly a training image, as it is or mirrored",
    "known": "on whom a detector was trained or chosen",
}
"""Reasons why an identity does not calibrate; "nearly_same" in runs of before 2026-11-23, where likeness excluded."""
LOOK_ALIKE = (
    "{alike}: they stay in. As given there are {given:,} identities; with look-alikes counted as one person, and "
    "without those who look like training images, {one:,}. The more cautious threshold of both is used"
)


OWN_COPIES = (
    "A generator's own copies are another distribution than those of the families: of copies that are stronger, "
    "changed in other ways, or put together from several patients, nothing is promised."
)
NO_PROOF = "That an image was rejected does not show that it is a copy; that it was kept does not show that it is none."
ONLY_KEPT = "The rest of this folder names training images and people. Only the folder “kept” is meant to be shared."
NO_PATIENTS = (
    "No patients are known: every image counts as an identity. If people have several images, the guarantee fails more "
    "often than stated."
)


def n_equal_pixels(rejected: Mapping[str, int]) -> int:
    """Return the number of images that were rejected for the pixels of a real image, of TRAIN or a further part of it.

    Args:
        rejected: Number of rejected images by reason; a run of an earlier version lacks later reasons.
    """
    return sum(rejected.get(reason, 0) for reason in (PIXELS, OTHER_PIXELS))


def promised_kinds(promise: Promise) -> str:
    """Name the families of a guarantee, for a headline."""
    kinds = ["JPEG" if kind == "jpeg" else kind for kind in promise.kinds]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def unpromised_words(promise: Promise) -> str:
    """Name, in a sentence, the kinds of copies that the guarantee does not cover."""
    return f"The guarantee does not cover other kinds of copies ({', '.join(promise.not_promised)})."


def conclusion(status: str, numbers: FilterNumbers) -> tuple[str, str]:
    """Return the headline and the sentence that conclude a run.

    Args:
        status: Status of the verdict.
        numbers: Numbers behind the verdict.
    """
    sets, audit, verdict = numbers.sets, numbers.audited, run_headline(status, "synthetic")
    if not sets.filtered:
        return NO_THRESHOLD, MORE_PEOPLE
    if not sets.n_kept_images:
        return NOTHING_KEPT.format(n=count(sets.n_synthetic_images)), NOTHING_TO_SHARE
    rejected = plural(sets.n_rejected_images, "image", "images")
    headline = KEPT.format(left=rejected, kept=count(sets.n_kept_images), verdict=verdict[:1].lower() + verdict[1:])
    certain = status == "fail" and audit is not None and audit.certain
    sentence = audited.CERTAIN if certain else audited.SENTENCES[status]
    return headline, SENTENCES[status] + numbers.terms.fill(sentence)


def exposed_words(numbers: FilterNumbers) -> str:
    """Say who is exposed by rejected images, with the false alarms on new people; empty where no patient is near."""
    terms, exposed, real = numbers.terms, numbers.exposed, numbers.real_rejected
    if not exposed.n_identical_patients and not exposed.n_by_score_patients:
        return ""
    beside = terms.fill(NEW_PATIENTS_UNKNOWN)
    if real is not None:
        share, low, high = (percent(value) for value in (real.estimate, real.low, real.high))
        beside = terms.fill(NEW_PATIENTS, share=share, low=low, high=high)
    ways = ((BY_PIXELS, exposed.n_identical_patients), (BY_SCORE, exposed.n_singled_patients))
    by = ", ".join(terms.fill(way, n=count(n)) for way, n in ways if n)
    whom = f"{terms.counted(exposed.n_exposed_patients)}: {by}" if by else "nobody for certain"
    sentences = [f"The rejected images {'expose' if exposed.n_identical_patients or not by else 'point at'} {whom}."]
    if n := exposed.n_pointed_patients:
        sentences.append(terms.fill(SIMILAR, n=count(n)))
    return " ".join([*sentences, WHOLE_SET, f"{beside}."])


def exposed_as(exposed: ExposedPatients) -> str:
    """Name the patients that rejected images point to: exposed only where pixels show it; scores prove nothing."""
    by_score_alone = exposed.n_singled_patients and not exposed.n_identical_patients
    return "singled out" if by_score_alone else "exposed"


def excluded_words(exclusions: Exclusions, terms: Terms) -> list[str]:
    """Say who does not calibrate, by reason, who was counted once, and who looks alike, each in one clause.

    Args:
        exclusions: Counts of excluded identities.
        terms: Names of a group.
    """
    excluded, alike = exclusions.left_out, exclusions.look_alikes
    clauses = [
        f"{terms.counted(n)} left out, {terms.fill(why)}"
        for key, why in LEFT_OUT.items()
        if (n := getattr(excluded, key))
    ]
    if n := exclusions.n_merged_patients:
        clauses.append(f"{terms.counted(n)} taken for another one: they share an image, under several names")
    counts = (alike.of_others, "another one"), (alike.of_training, "a training image")
    if like := [f"{n:,} look like {whom}" for n, whom in counts if n]:
        clauses.append(LOOK_ALIKE.format(alike=" and ".join(like), given=alike.as_given, one=alike.as_one))
    return clauses


def limitations(numbers: FilterNumbers) -> list[Text]:
    """List what does not follow from a filter.

    Args:
        numbers: Numbers of the verdict.
    """
    texts: list[Text] = [
        OWN_COPIES,
        "The guarantee is of one copy of a new person. Of many copies made by "
        f"{promised_kinds(numbers.promise)}, some are kept: with a miss rate of "
        f"{100 * numbers.promise.miss_rate:.4g} % up to that share of them.",
        NO_PROOF,
        "Text burnt into the pixels was not looked at, and goes along as it is.",
        "What the generator itself gives away, if it is released, is another question; further images of it have to be "
        "filtered as well.",
        ONLY_KEPT,
    ]
    if not numbers.patients_known:
        texts.append(NO_PATIENTS)
    return [numbers.terms.fill(text) if isinstance(text, str) and "{" in text else text for text in texts]
