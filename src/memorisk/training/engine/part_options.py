"""How images are divided into training, validation and test parts by patient: the settings that commands share."""

from dataclasses import dataclass
from typing import Literal

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, unknown_name

_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class PartOptions(ImageOptions):
    """Which images train, choose and measure."""

    splits: Literal["redraw", "given"] = "redraw"
    """Training, validation and test images: drawn by patient, or the given split (train, validation, test)."""

    split_seed: int = 0
    """Seed of the split."""

    validation_share: float = 0.15
    """Share of the images that choose the epoch."""

    test_share: float = 0.15
    """Share of the images that choose nothing: the figures to be reported are theirs."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        check_parts(self.splits, self.split_seed, self.validation_share, self.test_share)


def check_parts(splits: str, split_seed: int, validation_share: float, test_share: float) -> None:
    """Check how images are divided.

    Raises:
        InputError: A value is outside what its field allows.
    """
    if splits not in ("redraw", "given"):
        raise unknown_name("splits", splits, ("redraw", "given"))
    if not 0 <= split_seed < _SEEDS:
        raise InputError(f"split_seed is {split_seed}; it must lie between 0 and {_SEEDS - 1}")
    if min(validation_share, test_share) <= 0 or validation_share + test_share >= 1:
        raise InputError(
            f"validation_share is {validation_share} and test_share {test_share}; both must be above 0 and leave "
            "images to train on"
        )
