"""Images of the classifier report: the most memorized ones, and one per patient of its first screen."""

import numpy as np

from memorisk.audits.classifier.pages.result_view import ResultView
from memorisk.audits.run_images import CLASSIFIED, Parts
from memorisk.report.result import Result

MOST_THUMBNAILS = 12
"""Number of images with the largest M."""


def thumbnails(result: Result, parts: Parts) -> dict[str, np.ndarray]:
    """Return the pixels [h, w, c] of images by the id that the report shows: the largest M, and the first patients.

    Args:
        result: Result of the audit.
        parts: Images of the part `CLASSIFIED`.
    """
    largest = result.per_image.dropna(subset=["M"]).sort_values(["M", "image"], ascending=[False, True])["image"]
    first = ResultView.of(result, redact=False).first_images().values()
    chosen, images = dict.fromkeys([*map(str, largest.head(MOST_THUMBNAILS)), *first]), parts(CLASSIFIED)
    return {image: images.pixels_of(image) for image in chosen}
