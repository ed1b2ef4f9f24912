"""Pixels for the report's gallery: the most memorized images, only when the user asked for pictures."""

import numpy as np

from memorisk.audits.classifier.plan import Plan
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.store import ImageStore
from memorisk.report.result import Result

MOST = 12


def thumbnails(store: ImageStore, plan: Plan, result: Result, names: Pseudonyms) -> dict[str, np.ndarray]:
    """Pixels [h, w, c] of the images with the largest M, by the id that the report shows."""
    top = result.per_image.dropna(subset=["M"]).sort_values(["M", "image"], ascending=[False, True])["image"].head(MOST)
    row = dict(zip(names.names(store.manifest.images), range(store.manifest.n), strict=True))
    return {str(image): np.array(store.images[row[image]]) for image in top}
