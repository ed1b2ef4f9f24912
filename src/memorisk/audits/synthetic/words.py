"""The fixed wording of the synthetic report: verdicts, what the numbers rest on, what was not looked at."""

from memorisk.report.blocks import Kind, Text

HEADLINES: dict[str, tuple[Kind, str]] = {
    "pass": ("pass", "No copying of the kinds that were tried was found"),
    "fail": ("fail", "The synthetic images expose training {units}"),
    "undecided": ("undecided", "Could not be decided"),
}
SENTENCES = {
    "pass": "No training {unit} lies nearer to the synthetic images than {units} whom the generator never saw, and known "
    "copies, hidden in the set, would have been found with the probability below.",
    "fail": "Do not release the set as it is: it holds a training {unit}'s image, or is nearer to training {units} than "
    "chance and likeness explain. The images concerned are listed below.",
    "undecided": "This is not a pass: what was given does not settle whether training {units} are copied.",
}
LISTED = (
    "Listed means: nearer to the synthetic images than {units} whom the generator never saw are, by more than chance. A "
    "copy is one reason. A generator that fits a small training set closely is nearer to all of it without copying "
    "anybody; look at the pairs."
)
REVERSED = (
    "The comparison that counts. Every real {unit} asks the synthetic set for its nearest image, training and held-out "
    "ones the same set, so that it does not matter how varied the synthetic images are. Without copies the two outlines "
    "agree; copied {units} stand out at the left."
)
USUAL = (
    "The usual picture (paper 003, figure 3), which only describes. Generated images left of held-out ones may be copies; "
    "they may also merely vary less than real images do. Planted copies show where copies of these kinds lie."
)
NEARER = (
    "These columns describe single images. “Nearer than new {units}” is the share of held-out {units}' images that lie "
    "at least as near to the training images: small values are common where a generator varies less than the data. The "
    "second-neighbour ratio is near 0 where one training {unit} is singled out, near 1 where several are as near. “p if "
    "it were a copy” is the p-value that the nearest training {unit} would have by this image alone."
)
POWER = (
    "Copies of random training images were hidden in the set under no name; features and distances were computed for "
    "all images alike. The p-values and the list then use the other images only, and the plants are read at the cut that "
    "a list of {copied} copied {units} has."
)
PUBLISHED = {
    "wasserstein": (
        "Wasserstein-1, generated and held-out",
        "that two sets of distances differ, not in which way or why",
    ),
    "c_t": (
        "C_T of Meehan and others, one cell",
        "copies from a generator that varies less than the data; well below 0 for either",
    ),
    "authentic": (
        "Authentic share (Alaa and others)",
        "the same; its value for held-out {units} is what no copying at all looks like",
    ),
}
NOT_LOOKED_AT: tuple[str, ...] = (
    "Copies of other kinds than those planted: of a part of an image smaller than those, in another style, of another "
    "examination of the same patient, or put together from several patients.",
    "Text burnt into images, names in file names, and other data that are released with them.",
    "Further images of the same generator: the audit speaks of these images, and of others only as far as they were drawn "
    "in the same way.",
    "What the generator itself gives away, if it is released: an audit of its images does not cover its weights.",
    "Whether the images are good for anything.",
)


def assumptions(units: str, unit: str, groups_given: bool) -> list[Text]:
    """What the p-values rest on."""
    told: list[Text] = [
        f"Training and held-out {units} are a random split of one data set, made by {unit}. If the held-out ones come from "
        "another hospital, year or device, p-values compare hospitals.",
        "Neither part chose the generator's checkpoint or its settings. Held-out images that did are a little nearer to "
        "the set, which hides copies.",
        "The detector was trained on neither part, or on both alike. One that knows the training images sees them "
        "otherwise.",
        "What was fitted for the comparison (components, variances) was fitted on training and held-out images together.",
        f"A {unit} with several images is compared with held-out ones at as many images.",
    ]
    if not groups_given:
        told.append(
            "No patients were given with some of the images, so that every image stands for itself: a patient with "
            "several images may be on both sides, and then p-values are too large. Name patients with --group-from or "
            "--group-column."
        )
    return told
