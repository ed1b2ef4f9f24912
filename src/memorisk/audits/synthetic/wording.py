"""The fixed wording of the synthetic report: verdicts, the basis of the numbers, what was not looked at.

The wording is apart from the layout, so that a reader who checks the claims of the report reads one file.
"""

from memorisk.audits.comparison.terms import Terms
from memorisk.report.blocks import Text
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, share_words

SAME_IDENTITY, TWO_IDENTITIES, SET_TO_TRAINING = "same identity", "two identities", "synthetic, training"
"""Kinds of pairs whose logits are counted."""

SENTENCES = {
    "pass": "No training {unit} lies nearer to the synthetic images than chance explains.",
    "fail": "Do not release the set: training {units} lie nearer to it than {units} {whom} the generator never saw.",
    "undecided": "This is not a pass: the data given cannot show whether training {units} are copied.",
}
NO_IDS = "No patient ids were given: each image counts as a patient (--group-from, --group-column)."
TO_JUDGE = "{pairs} to look at: memorisk view {run}, or fill {run}/review.csv; then the same with --review {run}"
MORE = {
    "pass": "The {units} {whom} the generator never saw show what chance does. The report lists the kinds of copies "
    "that were tried and how likely one would have been noticed.",
    "fail": f"Chance makes them lie so near in at most {share_words(AHEAD_LEVEL, 'sets')} without copies. Either "
    "images were copied, or the generator fits a small training set closely.",
}
"""Second sentence of the verdict, by status."""
CERTAIN = "Do not release the set: it holds {of_one}."
"""Headline of a failure that pixels or a person settled."""
OF_FURTHER_PART = "Do not release the set: it holds an image of a person in the data."
"""Headline of a failure by the pixels of images in further parts of TRAIN alone."""
LISTED = (
    "Listed means: nearer to the synthetic images than {units} {whom} the generator never saw, by more than chance "
    "explains. A copy is one reason. A generator that fits a small training set closely comes nearer to all of it "
    "without copying anybody; look at the pairs."
)
SINGLED = (
    "Singled out means: nearer than chance explains for any of so many training {units}, by the distance itself or by "
    "how much nearer than to the next real {unit}. The chance is computed from a tail fitted to the nearest tenth of "
    "the held-out {units}. One such pair keeps a pass away, and fails no set by itself: look at it, and judge it in "
    "review.csv."
)
ALIGNED = (
    "Synthetic images were laid on their nearest training images: mirrored or not, turned, scaled and shifted, so "
    "that the details agree best, in the whole or in a part. Blur, brightness and contrast count little. A pair is "
    "confirmed above the correlations that {expected} of the {n} synthetic images are expected to reach by chance. "
    "Chance is what held-out {units} show, laid on training images, and synthetic images, laid on held-out ones."
)
NO_ALIGNMENT_CUT = (
    "No pair can be confirmed: too few images tell how alike two different {units} can be, or different {units} are as "
    "alike as copies."
)
ALIGNED_APART = (
    "{n} of these lie on the other set as copies do: the same people may have other ids there, or the generator have "
    "seen the held-out {units}. They are no part of what chance is computed from."
)
AHEAD = (
    "Of a random split about {expected} training {units} would be in this table by chance. The others are here for "
    "another reason, of which a copy is one. Which these are, the audit cannot tell one by one: too few {units} are "
    "held out."
)
NOBODY = (
    "No held-out images were given. How near a synthetic image lies to a training image says nothing by itself: other "
    "images may be as alike. No {unit} can be listed or cleared."
)
REVERSED = (
    "The comparison that counts. Every real {unit} asks the synthetic set for its nearest image, training and held-out "
    "ones the same set, so that it does not matter how varied the synthetic images are. Without copies the two "
    "outlines agree; copied {units} lie apart at the left."
)
USUAL = (
    "The usual picture (paper 003, figure 3), which only describes. Generated images left of held-out ones may be "
    "copies; they may also merely vary less than real images do. Planted copies show where copies of their kinds lie; "
    "the farthest images are drawn at the right edge."
)
NEARER = (
    "These columns describe single images. “Nearer than new {units}” is the share of held-out {units} (of their "
    "images, each {unit} counting alike) that lie at least as near to the training images: small values are "
    "common where a generator varies less than the data. “p if it were a copy” is the p-value that the nearest "
    "training {unit} would have by this image alone."
)
RATIO = (
    "The second-neighbour ratio is near 0 where one training {unit} is singled out, near 1 where several are as near."
)
ITSELF = "An image and itself have P = {p}; of the pairs of two {units} {share} reach that."
BLIND = (
    "This detector takes many pairs of different images for more alike than an image and itself, so that an exact "
    "copy is not what it finds first. Copies that pixels show are looked for besides; trust the planted copies "
    "above."
)
LARGEST_BOUND = 0.5
"""Upper limit of the share of copies from which on it says nothing of a set."""
UNBOUNDED = (
    "How large the share of copies in the set can be is not bounded: too few copies of the kind noticed least would "
    "have been found."
)
POWER = (
    "Copies of random training images were added to the set without a mark; features and distances were computed for "
    "all images alike. Everything else uses the other images only, and a plant counts as noticed where it would have "
    "been singled out by the cuts that held-out {units} gave, has the very pixels of a training image, or is confirmed "
    "by the second look."
)
ALSO_TRIED = (
    "Copies of other kinds were added as well, a quarter as many of each, and count as noticed by the same rules. They "
    "decide nothing: a pass is not about them. A kind that is mostly missed here may be in the set unseen. A kind "
    "without {units} could be made of no training image."
)
NO_POWER = {
    "held_out": "Without held-out images no image can be singled out, so that it is not known how many copies would "
    "have been noticed.",
    "saved": "The features were computed elsewhere, so that no known copies could be added to the images: what "
    "would have been noticed is not known, and the audit cannot pass.",
    "none": "No known copies were added to the set: what would have been found is not known, and the audit cannot "
    "pass.",
}
WEAK = (
    "Pixels compare images point by point: a copy that is turned, cropped, or mirrored and changed lies far from its "
    "source. What is not found by them may still be there. Name a detector trained to find copies, or an encoder, with "
    "--detector."
)
SHORT_LISTS = (
    "A p-value is at least 1 / ({n_held} + 1), however near a copy is. A list of few copied {units} needs many "
    "held-out ones."
)
PIXELS = (
    "Besides the features, thumbnails of 32 x 32 were compared, as they are and mirrored, less what all real images "
    "share, and the most alike pairs again as they are stored."
)
REST = (
    "{n} synthetic images expose them. To release the set without these is not enough: a second copy, a little farther "
    "from its source, may remain. Audit the rest again."
)
SHARED = (
    "{n} of these share the level of the list: each lists at {level}, and the list holds all that they list. "
    "Of all listed together, no more are expected to be there by chance than with one detector. All detectors "
    "share the chance of being singled out, and a planted copy is noticed if any of them notices it."
)
PARTS_LIST_NOBODY = (
    "Windows and details single out images and list no person: a generator that is fitted to few images draws from "
    "what these span, so that their details lie nearer to the set though it copies none of them."
)
ABOVE_HALF = (
    "P > 0.5 is what the detector itself calls the same {unit}. Held-out {units} with such an image are its false "
    "alarms, since the generator never saw them; the list above rests on the comparison of the two, not on this "
    "threshold."
)
SPREAD = (
    "Every pair once (paper 004, figure 6): pairs of real images of one {unit}, of two {units}, and of a "
    "synthetic and a training image. The second is the null of the third; what lies far beyond the ends is drawn "
    "in the last bins."
)
PAIRED = (
    "MemRate is the share that the detector takes for the same {unit}. A held-out image, compared with a random "
    "training image of its class, shows how often it does so without any copy: MemRate holds as many false alarms."
)
NOT_LARGER = (
    " is not larger than chance makes it on held-out images: either no image that was conditioned on was copied, or "
    "the pairing is wrong, or the detector is blind to such copies. Of these pairs review.csv lists only those of "
    "listed {units}."
)
NO_THRESHOLD = "none: no probability, and no planted copies to read one from"
CLUSTERS = (
    "Synthetic images that are flagged with the same training {unit}, with those whose details are nearly the same."
)
CONFIRMS_NO_PLANT = "It confirms no planted copy here, of any kind. It therefore shows nothing about the set."
OTHER_CLUSTERS = (
    "Further {clusters} of synthetic images repeat one another, and are flagged with no training image "
    "(tables/clusters.parquet): repetition alone copies no person."
)
REVIEW = (
    "{n} of the pairs above {are} listed in review.csv in the run folder. A reviewer writes confirm or "
    "dismiss in the column verdict, and name and reason in the next columns. Every later audit with --review and the "
    "run folder counts confirmed pairs as copies and leaves dismissed ones out, whatever the names and the order of "
    "the images. A pair of which an image was changed is listed anew."
)
CHANGED = (
    "A person judged these pairs before an image of them was changed. The earlier judgements do not count. The pairs "
    "are listed in review.csv, to be judged anew."
)
DISMISSED = (
    "These pairs count as no copies anywhere above. Instead of each the next image was looked at, so that a "
    "second copy of the same patient is not hidden by it."
)
CONFIRMED = "These pairs are copies for certain, whatever the statistics say."
PUBLISHED = {
    "wasserstein": (
        "Wasserstein-1, generated and held-out",
        "in which way two sets of distances differ, or why",
    ),
    "c_t": (
        "C_T of Meehan and others, one cell",
        "copies from a generator that varies less than the data: well below 0 for either",
    ),
    "authentic": (
        "Authentic share (Alaa and others)",
        "the same; its value for held-out {units} is what no copying at all looks like",
    ),
}
NOT_LOOKED_AT: tuple[str, ...] = (
    "Copies of other kinds than those planted: of a smaller part of an image, in another style, of another examination "
    "of the same patient, or put together from several patients.",
    "Images that are hidden in the pixels: in their lowest bits, cropped or turned in colours alone, or in other "
    "mixtures of the channels than luma, one channel and the difference of two.",
    "Text burnt into images, names in file names, and other data that are released with them.",
    "Further images of the same generator: the audit speaks of these images, and of others only as far as they were "
    "drawn in the same way.",
    "What the generator itself gives away, if it is released: an audit of its images does not cover its weights.",
    "Whether the images are good for anything.",
)


def assumptions(terms: Terms, groups_given: bool) -> list[Text]:
    """List the assumptions of the p-values.

    Args:
        terms: Words for a group.
        groups_given: Whether patients are known on both sides.
    """
    sentences: list[Text] = [
        terms.fill(
            "Training and held-out {units} are a random split of one data set, made by {unit}. If the held-out ones "
            "come from another hospital, year or device, p-values compare hospitals."
        ),
        "Neither part chose the generator's checkpoint or its settings. Held-out images that did are a little nearer "
        "to the set, which hides copies.",
        "The detector was trained on neither part, or on both alike. One that knows the training images sees them "
        "otherwise.",
        "What was fitted for the comparison (components, variances) was fitted on training and held-out images "
        "together.",
    ]
    if terms.units == "patients":
        sentences.append("A patient with several images is compared with held-out patients at as many images.")
    if not groups_given:
        sentences.append(
            "No patients were given with some of the images, so that each image counts as a patient: one with "
            "several images may be on both sides, and then p-values are too large. Name patients with --group-from or "
            "--group-column."
        )
    return sentences
