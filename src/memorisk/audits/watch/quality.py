"""How like the training images the drawn ones are at a look: FID, beside what real images have at that number."""

import math
from typing import Any

from memorisk.audits.quality.measuring import measure_quality
from memorisk.audits.watch.options import AUTO, WatchOptions
from memorisk.audits.watch.real import RealImages
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress, quiet
from memorisk.training.features.matrix import Features, load_features

NO_FID = "none"
_NUMBERS = ("fid", "fid_low", "fid_high", "fid_same_number", "fid_held_out")


class LookQuality:
    """FID of each look; the features of the real images are computed once.

    Args:
        real: The real images.
        options: What it is computed of.
        progress: Called with (stage, done, total).

    Raises:
        InputError: There is no such source of features, or it is a file of features or fitted.
    """

    def __init__(self, real: RealImages, options: WatchOptions, progress: Progress) -> None:
        self.real, self.options = real, options
        self.own: tuple[Features, Features] | None = None
        if options.quality not in (AUTO, NO_FID):
            train, held = (self._features(store, True, progress) for store in (real.train, real.held))
            self.own = train, held

    def __call__(self, drawn: ImageStore, features: Features) -> dict[str, Any]:
        """The fields of a look; NaN where there is no figure.

        Args:
            drawn: The drawn images.
            features: Theirs, by the detector.
        """
        nothing = dict.fromkeys(_NUMBERS, math.nan) | {"fid_name": ""}
        if self.options.quality == NO_FID:
            return nothing
        train, held = self.own or (self.real.train_features, self.real.held_features)
        made = features if self.own is None else self._features(drawn, False, quiet)
        try:
            found = measure_quality(train, made, held, figures=("FID",), seed=self.options.seed).of("FID")
        except InputError:  # features that are not finite, or one image: a training goes on all the same
            return nothing
        values = (found[name] for name in ("estimate", "low", "high", "same_number", "reference"))
        return dict(zip(_NUMBERS, values, strict=True)) | {"fid_name": str(found["name"])}

    def _features(self, store: ImageStore, cache: bool, progress: Progress) -> Features:
        """By the source that was named."""
        options = self.options
        if options.quality.startswith("pca:") or options.quality.endswith((".npy", ".npz", ".parquet")):
            raise InputError(
                f"quality {one_line(options.quality, 60)} is fitted or saved: name a network, or pixels:32"
            )
        how = {"device": options.device, "precision": options.precision, "cache": cache, "progress": progress}
        return load_features(store, options.quality, **how)
