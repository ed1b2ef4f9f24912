"""The settings of ``memorisk train autoencoder``. docs/latents.md has what the defaults do on a small data set."""

from dataclasses import dataclass
from math import gcd, log2
from typing import Any, Literal

from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import check_types
from memorisk.training.engine.options import PRECISIONS, PartOptions, TrainOptions

DOWNSAMPLING = (4, 8)
_WIDTHS = (8, 16, 32, 32)
_MOST_GROUPS = 32
_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class AutoencoderOptions:
    """How one autoencoder is trained."""

    downsampling: Literal[4, 8] = 4
    """Pixels a side that become one number of the latent: 64 pixels become 16 (4) or 8 (8)."""

    latent_channels: int = 4
    """Channels of the latent."""

    block_channels: tuple[int, ...] = ()
    """Width of each block, one more than there are halvings; name it once for each. By default 8, 16, 32, and for a
    downsampling of 8 once more 32, which a CPU can train; on a GPU take 64, 128, 256 or more."""

    kl_weight: float = 1e-6
    """Of the divergence from a normal posterior, a number of the latent, beside the mean absolute error of a pixel."""

    epochs: int = 25
    """Most passes over the training images; the weights of the best one are kept. More of them render more."""

    patience: int = 10
    """Epochs without a smaller error on the validation images after which it ends."""

    lr: float = 2e-3
    """Learning rate at the start; it falls to 0 as a cosine."""

    batch_size: int = 4
    """Images a step."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Figures are always in fp32."""

    seed: int = 0
    """Of the weights, the order and the noise."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of the training's state, from which a killed one goes on."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.downsampling not in DOWNSAMPLING:
            raise InputError(f"downsampling is {self.downsampling}; it must be 4 or 8")
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", self.precision, PRECISIONS)
        for name, least in (("latent_channels", 1), ("epochs", 1), ("patience", 1), ("batch_size", 2), ("threads", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number of at least {least}")
        if not 0 < self.lr < float("inf"):
            raise InputError(f"lr is {self.lr}; it must be above 0")
        for name in ("kl_weight", "checkpoint_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")
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
        """Blocks of the encoder, each but the last halving the side."""
        return int(log2(self.downsampling)) + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """The channels of each block, filled in."""
        return self.block_channels or _WIDTHS[: self.blocks]

    def architecture(self, side: int, channels: int) -> dict[str, Any]:
        """What `diffusers.AutoencoderKL` is built from; no attention, so that it takes images of other sizes, too.

        Args:
            side: Pixels of the images.
            channels: Of the images.
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
        """What the loop of epochs needs of these settings."""
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
    """Everything that `memorisk train autoencoder` can be told."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        AutoencoderOptions.validate(self)
