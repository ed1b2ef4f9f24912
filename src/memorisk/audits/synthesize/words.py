"""The fixed wording of the loop's report, apart from the layout, so that a checker of its claims reads one file."""

from typing import Any

from memorisk.audits.synthetic.words import Terms
from memorisk.report.blocks import Kind, Text

HEADLINES: dict[str, tuple[Kind, str]] = {
    "pass": ("pass", "Made and filtered, with a guarantee"),
    "fail": ("fail", "Not to be shared"),
    "undecided": ("undecided", "Could not be decided"),
}
NOTHING: tuple[Kind, str] = ("fail", "Nothing was kept")
NOTHING_KEPT = "Every image that was drawn was rejected, so that there is nothing to share; why stands below."
SENTENCES = {
    "pass": "The folder “kept” holds as many images as were asked for, none of which a detector takes for a copy. What "
    "that promises, and what it does not, stands below.",
    "fail": "The images should not be shared as they are; why stands below.",
    "undecided": "What was made does not come with all that was asked for; what is missing stands below.",
}
LOOP = (
    "Every place was filled by drawing an image, comparing it with all training images, and, where it was rejected, "
    "drawing it again from another seed: of the same class or condition, up to {tries}."
)
LOOP_WITH_GAPS = (
    "For every place an image was drawn, compared with all training images, and, where it was rejected, drawn again "
    "from another seed: of the same class or condition, up to {tries}. Of {asked} places, {empty} stayed empty."
)
GAVE_UP = "Not one of the first draws passed, and {why}: no place was tried again."
SELECTED = (
    "Each kept image was screened once, at a threshold that was fixed before the first was drawn, so that the promise "
    "above holds for each drawing: a copy made by {kinds}, as the calibration's, passes with a probability of at most "
    "{miss}. Drawing again gives a place further chances to be filled by a copy that passes. Over all places, kept "
    "copies that are made so are at most {odds} times the rejected images, on average over runs; with {rejected} "
    "rejected and {kept} kept, and the chance in the number of rejections counted in, that is at most {high} of the "
    "kept images (95 %, by {places} places). A place that only ever gives such copies is worse off: in {tries} it is "
    "filled by one with a probability of up to {place}. Places that took many tries are listed in the ledger; look at "
    "them. Of copies that are made in other ways nothing is promised, however many images were rejected."
)
UNBOUNDED = (
    "No guarantee stands behind the threshold, so that nothing bounds how many copies passed, and every further try "
    "of a place is another chance for one."
)
UNKNOWN = (
    "Images that the generator was trained on are missing from TRAIN, or could not be read: copies of these pass, "
    "whatever the threshold, so that nothing bounds how many copies are kept."
)
PAIR = (
    "The generator drew each image from the condition of one training image. That pair is among those compared, and "
    "{n} of the rejected images reached the threshold with the very image that they were conditioned on."
)
AUDITED = (
    "The kept set was audited by a detector that took no part in choosing it: training {units} were ranked among "
    "{held} held-out ones. The full report lies in the folder audit."
)
NEARER = (
    "All {train} training {units} together against the held-out ones: are they nearer to the kept set? One-sided "
    "two-sample test of Kolmogorov and Smirnov, p = {p}. Single p-values cannot be tested against a uniform "
    "distribution, since all of them share the held-out {units}."
)
NOT_AUDITED = "No auditor was named: nobody but the detectors that chose the images has looked at them."
NOTHING_TO_AUDIT = "Nothing was kept, so the auditor {auditor} had nothing to look at."
TABLE_THREE = (
    "Before: the first draw of every place, which is the generator without the loop. Kept: after the loop. Reference: "
    "real images of new people. A rate of memorization is to be read beside what the detector says of new people."
)


def is_bounded(numbers: dict[str, Any]) -> bool:
    """Whether something bounds the copies among the kept images: a guarantee, and all training images are known.

    Args:
        numbers: Of the verdict.
    """
    known = not numbers["doubts"] and not numbers["n_train_unread"]
    return bool(numbers["guarantee"] and numbers["n_kept"] and known)


def times(n: int) -> str:
    """How often, in a sentence."""
    return "once" if n == 1 else f"{n:,} times"


def not_said(terms: Terms, numbers: dict[str, Any]) -> list[Text]:
    """What the loop does not say.

    Args:
        terms: What a group is called.
        numbers: Of the verdict.
    """
    said: list[Text] = [
        "The generator's own copies are another distribution than those of the families: of copies that are stronger, "
        "changed in other ways, or put together from several patients, nothing is promised.",
        "That an image was rejected does not show that it is a copy; that it was kept does not show that it is none.",
        "The generator itself remembers what it remembers. If it is released, anybody can draw from it what was "
        "rejected here.",
        "What is rejected is missing from the set: images that look like training images without copying them are "
        "drawn again as well, and the set moves away from the training images.",
        "The rest of this folder names training images and people. Only the folder “kept” is meant to be shared.",
    ]
    if not numbers["patients_known"]:
        said.append(
            "No patients are known: every image counts as an identity. If people have several images, the "
            "guarantee fails more often than stated."
        )
    return said
