"""Settings that name the parts of a comparison: training, synthetic and new images, and their saved features."""

from pathlib import Path
from typing import ClassVar, Protocol

from memorisk.images.options import ImageOptions, image_options, of_synthetic_images
from memorisk.runs.errors import InputError


class PartOptions(ImageOptions):
    """How training, synthetic and new images are found and read, for the settings of a command to derive from."""

    NEW: ClassVar[str] = "held_out"
    """Setting that names the images of people whom the generator never saw; with ``_split`` a part of TRAIN."""
    train_split: str | None

    @property
    def new_split(self) -> str | None:
        """Return the given split of TRAIN that the generator never saw; None where it is a source of its own."""
        return getattr(self, f"{self.NEW}_split")

    @property
    def trained_on(self) -> str:
        """Return the given split that the generator was trained on; it counts only together with `new_split`."""
        return self.train_split or "train"

    def of_real(self) -> ImageOptions:
        """Return how training and new images are read."""
        return image_options(self)

    def of_synthetic(self) -> ImageOptions:
        """Return how synthetic images are read: as the real ones, but without their columns and patterns."""
        return of_synthetic_images(self)

    def validate(self) -> None:
        """Check how images are read, that each part is named once and none is sampled, and that two splits differ.

        Raises:
            InputError: A part is named twice, a split is missing or named for both parts, or a sample is given.
        """
        ImageOptions.validate(self)
        split = f"{self.NEW}_split"
        if self.sample is not None:
            raise InputError("sample draws from one set of images, and several are compared here: name smaller sets")
        if self.new_split is None:
            if self.train_split is not None:
                raise InputError(f"train_split goes with {split}: name the part of TRAIN that the generator never saw")
            return
        if getattr(self, self.NEW, None) is not None:
            raise InputError(f"{self.NEW} and {split} both name the same part: give one of them")
        if self.new_split == self.trained_on:
            raise InputError(f"{split} and train_split are both {self.trained_on!r}; name two parts of TRAIN")


class _FeatureFiles(Protocol):
    """Settings that name files with features of synthetic and held-out images."""

    @property
    def synthetic_features(self) -> Path | None: ...
    @property
    def held_out_features(self) -> Path | None: ...
    @property
    def held_out_split(self) -> str | None: ...


def check_saved_features(options: _FeatureFiles, *, saved: bool, held_out: bool) -> None:
    """Require files of features for all sets, or for none.

    Args:
        options: Settings that name the files in addition to that of TRAIN.
        saved: Whether features of TRAIN lie in a file; with a split it holds both parts.
        held_out: Whether there are held-out images.

    Raises:
        InputError: A file is missing, or is given without that of TRAIN.
    """
    beside = {"synthetic_features": options.synthetic_features, "held_out_features": options.held_out_features}
    if not saved:
        if names := [name for name, path in beside.items() if path is not None]:
            raise InputError(f"{names[0]} belongs to a file of features of TRAIN: name that with features")
        return
    if options.synthetic_features is None:
        raise InputError("features of TRAIN are saved ones: name those of SYNTHETIC with synthetic_features")
    if held_out and options.held_out_split is None and options.held_out_features is None:
        raise InputError("features of TRAIN are saved ones: name those of the held-out images with held_out_features")
