"""The fixed wording of the page of quality: what each figure is, what its interval is about, what it cannot say."""

from collections.abc import Mapping
from typing import Any

from memorisk.runs.errors import several

MEANING: dict[str, str] = {
    "FID": "Distance of the means and covariances of the features; 0 where they are equal. Lower is better. It falls "
    "with the number of images, so that figures at different numbers do not compare.",
    "KID": "Distance of the distributions by a cubic kernel, over all pairs; about 0 for images of one distribution, "
    "and negative half of the time there. Lower is better. Its mean does not depend on the number of images, where "
    "each patient has one.",
    "MiFID": "FID, divided by the mean distance of a synthetic image to the nearest training image where that is below "
    "0.1. The threshold is that of a competition, for Inception features. It is no test of copying: one copied "
    "patient among thousands does not move it.",
    "precision": "Share of the synthetic images that lie among the training images (k = 3): are they realistic?",
    "recall": "Share of the training images that lie among the synthetic ones (k = 3): is everything there?",
    "density": "Mean number of neighbourhoods of training images about a synthetic one, over k (k = 5); 1 where the "
    "two are alike, above 1 where synthetic images crowd where training images are densest.",
    "coverage": "Share of the training images with a synthetic image in their neighbourhood (k = 5).",
    "IRS": "Share of the training images within reach: as many as an even draw would need for so many different "
    "nearest neighbours. 1 where more cannot be excluded.",
}
"""Of each figure, in the order of the table."""

NOT_PRIVACY = (
    "These figures say nothing about privacy. Copies of the training images have the best figures there are: FID and "
    "KID near 0, precision, recall and coverage near 1. Whether patients are copied is the question of memorisk audit "
    "synthetic."
)
COMPARE = (
    "Compare the column “as many synthetic” with the column “held-out real”: both are measured against the same "
    "training images, at the same number. A perfect generator, one that draws new patients from the population, would "
    "be near “held-out real”. Better than that is no improvement: it means nearer to the training images than new "
    "patients are."
)
NO_REFERENCE = (
    "No held-out images were given. What a perfect generator would get at these numbers of images is not known, and "
    "the figures stand alone. Name held-out images with --held-out or --held-out-split."
)
INTERVAL = (
    "An interval is about this figure at these numbers of images: what other images of the same generator, and other "
    "patients of the same population, would give on average. Units are patients on the real side and single images on "
    "the synthetic one. It is not about the figure that ever more images would approach, nor about what another "
    "training of the generator would give."
)
TRANSFER = (
    "Two networks a seed, by the same recipe: one trained on synthetic images, one on as many real ones. Both are "
    "asked about the same held-out patients. Intervals are over patients and trainings."
)
ONE_TRAINING = (
    "With one training of each, the interval speaks of these two networks only; --classifier-seeds trains more."
)
WEAK = (
    "Pixels and their components judge shapes and greys and little else: such figures rank sets of one kind of image, "
    "and do not compare with published ones, which are of a network. Name one with --features (docs/features.md)."
)
RANDOM = "The network has random weights: its figures are for trying the command out."
CLUSTERED = (
    "Several images of one patient lie near each other, so that the neighbourhoods about them are small: precision, "
    "recall, density and coverage are lower than with one image a patient, for the reference as for the synthetic set."
)


def transfer_warnings(row: Mapping[str, Any]) -> list[str]:
    """What must be known before classifiers trained on synthetic and on real images are compared.

    Args:
        row: Of the table of `memorisk.audits.quality.transfer.run_transfer`; all its rows say the same.
    """
    told = []
    for arm in ("synthetic", "real"):
        if missing := row[f"missing_{arm}"]:
            told.append(
                f"No {arm} image that was trained on has the label {missing}: these networks never learned it, and "
                "their AUC of that label is none of what they learned."
            )
        if n := int(row[f"one_answer_{arm}"]):
            networks = several(row["n_trainings"], "network", "networks")
            told.append(
                f"Of the {networks} trained on {arm} images {n:,} gave every held-out image the same class: a balanced "
                "accuracy of guessing, whatever the images are worth, and without an interval where all networks do "
                "so. Train longer (--classifier-epochs) or name another network."
            )
    return told
