"""The fixed wording of the synthetic report: verdicts, the basis of the numbers, what was not looked at.

The wording is apart from the layout, so that a reader who checks the claims of the report reads one file.
"""

from collections.abc import Mapping

from memorisk.audits.comparison.terms import Terms
from memorisk.report.blocks import Kind, Text
from memorisk.report.statements.statement import run_headline
from memorisk.report.texts import read_texts

_TEXTS = read_texts("memorisk.audits.synthetic")

HEADLINES: dict[str, tuple[Kind, str]] = {
    "pass": ("pass", run_headline("pass", "synthetic")),
    "fail": ("fail", run_headline("fail")),
    "undecided": ("undecided", run_headline("undecided")),
}
SENTENCES: Mapping[str, str] = _TEXTS["sentences"]
CERTAIN = "Do not release the set: it holds {of_one}. The pairs are shown below."
"""Headline of a failure that pixels or a person settled."""
LISTED: str = _TEXTS["listed"]
SINGLED: str = _TEXTS["singled"]
ALIGNED: str = _TEXTS["aligned"]
NO_ALIGNMENT_CUT: str = _TEXTS["no_alignment_cut"]
ALIGNED_APART: str = _TEXTS["aligned_apart"]
AHEAD: str = _TEXTS["ahead"]
NOBODY: str = _TEXTS["nobody"]
REVERSED: str = _TEXTS["reversed"]
USUAL: str = _TEXTS["usual"]
NEARER: str = _TEXTS["nearer"]
RATIO: str = _TEXTS["ratio"]
ITSELF = "An image and itself have P = {p}; of the pairs of two {units} {share} reach that."
BLIND: str = _TEXTS["blind"]
LARGEST_BOUND = 0.5
"""Upper limit of the share of copies from which on it says nothing of a set."""
UNBOUNDED: str = _TEXTS["unbounded"]
POWER: str = _TEXTS["power"]
ALSO_TRIED: str = _TEXTS["also_tried"]
NO_POWER: Mapping[str, str] = _TEXTS["no_power"]
WEAK: str = _TEXTS["weak"]
SHORT_LISTS: str = _TEXTS["short_lists"]
PIXELS: str = _TEXTS["pixels"]
REST: str = _TEXTS["rest"]
SHARED: str = _TEXTS["shared"]
PARTS_LIST_NOBODY: str = _TEXTS["parts_list_nobody"]
ABOVE_HALF: str = _TEXTS["above_half"]
SPREAD: str = _TEXTS["spread"]
PAIRED: str = _TEXTS["paired"]
NOT_LARGER: str = _TEXTS["not_larger"]
NO_THRESHOLD = "none: no probability, and no planted copies to read one from"
CLUSTERS: str = _TEXTS["clusters"]
CONFIRMS_NO_PLANT: str = _TEXTS["confirms_no_plant"]
OTHER_CLUSTERS: str = _TEXTS["other_clusters"]
REVIEW: str = _TEXTS["review"]
CHANGED: str = _TEXTS["changed"]
DISMISSED: str = _TEXTS["dismissed"]
CONFIRMED = "These pairs are copies for certain, whatever the statistics say."
PUBLISHED: Mapping[str, list[str]] = _TEXTS["published"]
NOT_LOOKED_AT: tuple[str, ...] = tuple(_TEXTS["not_looked_at"])


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
            "No patients were given with some of the images, so that every image stands for itself: a patient with "
            "several images may be on both sides, and then p-values are too large. Name patients with --group-from or "
            "--group-column."
        )
    return sentences
