"""The settings of ``memorisk train autoencoder``. docs/latents.md shows the effect of the defaults on a small set."""

from dataclasses import dataclass
from math import gcd, log2
from typing import Any, Literal

from memorisk.runs.errors import InputError
from memorisk.runs.options import CheckpointSeconds, Device, Precision, Threads, grouped
from memorisk.runs.settings import check_counts, check_finite, check_seeds, check_types
from memorisk.training.engine.options import PartOptions, TrainOptions

_WIDTHS = (8, 16, 32, 32)
_MOST_GROUPS = 32


@grouped("training", essential="downsampling latent_channels block_channels epochs patience lr batch_size device")
@dataclass(frozen=True, kw_only=True)
class AutoencoderOptions:
    """Settings of one training of an autoencoder."""

    downsampling: Literal[4, 8] = 4
    """Factor from the side of an image to the side of its latent: 64 pixels become 16 (4) or 8 (8)."""

    latent_channels: int = 4
    """Channels of the latent."""

    block_channels: tuple[int, ...] = ()
    """Width of each block; repeat it for each of the 3 blocks (4 with --downsampling 8). By default 8, 16, 32 (and 32),
    which a CPU can train; on a GPU use 64, 128, 256 or more."""

    kl_weight: float = 1e-6
    """Weight of the KL divergence per latent number, relative to the mean absolute error per pixel."""

    epochs: int = 25
    """Most epochs; the weights of the best one are kept. More epochs reconstruct more detail."""

    patience: int = 10
    """Stop after this many epochs without a smaller error on the validation images."""

    lr: float = 2e-3
    """Initial learning rate, annealed to 0 (cosine)."""

    batch_size: int = 4
    """Images per step."""

    precision: Precision = "auto"

    seed: int = 0
    """Random seed for initial weights, order and noise."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 30.0

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        check_counts(self, latent_channels=1, epochs=1, patience=1, batch_size=2, threads=1)
        check_finite(self, "lr")
        check_finite(self, "kl_weight", "checkpoint_seconds", zero=True)
        check_seeds(self, "seed")
        self._check_blocks()

    def _check_blocks(self) -> None:
        """Check the widths of the blocks."""
        try:
            object.__setattr__(self, "block_channels", tuple(self.block_channels))
            good = all(isinstance(width, int) and width > 0 for width in self.block_channels)
        except TypeError:
            good = False
        blocks = self.blocks
        if not good or (self.block_channels and len(self.block_channels) != blocks):
            raise InputError(
                f"block_channels is {self.block_channels}; needed are {blocks} whole numbers of at least 1 for a "
                f"downsampling of {self.downsampling}, as in {' '.join(map(str, _WIDTHS[:blocks]))}"
            )

    @property
    def blocks(self) -> int:
        """Number of blocks of the encoder, each but the last halving the side."""
        return int(log2(self.downsampling)) + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of channels of each block, filled in."""
        return self.block_channels or _WIDTHS[: self.blocks]

    def architecture(self, side: int, channels: int) -> dict[str, Any]:
        """Build the configuration of `diffusers.AutoencoderKL`; without attention it takes images of other sizes, too.

        Args:
            side: Side of the images, in pixels.
            channels: Number of channels of the images.
        """
        common = gcd(*self.widths)
        most = max(1, min(_MOST_GROUPS, common // 2))
        return {
            "in_channels": channels,
            "out_channels": channels,
            "down_block_types": ["DownEncoderBlock2D"] * self.blocks,
            "up_block_types": ["UpDecoderBlock2D"] * self.blocks,
            "block_out_channels": list(self.widths),
            "layers_per_block": 1,
            "latent_channels": self.latent_channels,
            "norm_num_groups": next(n for n in range(most, 0, -1) if common % n == 0),
            "sample_size": side,
            "mid_block_add_attention": False,
        }

    @property
    def steps(self) -> TrainOptions:
        """Return the settings that the loop of epochs needs."""
        return TrainOptions(
            epochs=self.epochs,
            lr=self.lr,
            batch_size=self.batch_size,
            optimizer="adam",
            schedule="cosine",
            precision=self.precision,
        )


@dataclass(frozen=True, kw_only=True)
class TrainAutoencoderOptions(PartOptions, AutoencoderOptions):
    """All settings of ``memorisk train autoencoder``."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        AutoencoderOptions.validate(self)
