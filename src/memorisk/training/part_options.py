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
        if self.splits not in ("redraw", "given"):
            raise unknown_name("splits", self.splits, ("redraw", "given"))
        if not 0 <= self.split_seed < _SEEDS:
            raise InputError(f"split_seed is {self.split_seed}; it must lie between 0 and {_SEEDS - 1}")
        shares = (self.validation_share, self.test_share)
        if min(shares) <= 0 or sum(shares) >= 1:
            raise InputError(
                f"validation_share is {shares[0]} and test_share {shares[1]}; both must be above 0 and leave images to "
                "train on"
            )
