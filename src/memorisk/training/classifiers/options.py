"""The settings of ``memorisk train``: frozen dataclasses for Python, the command line and YAML at once."""

from dataclasses import dataclass
from typing import Literal

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.training.engine.options import TrainOptions


@dataclass(frozen=True, kw_only=True)
class TrainClassifierOptions(ImageOptions, TrainOptions):
    """Everything that `memorisk train classifier` can be told."""

    model: str = "auto"
    """Network: any name of timm, one of the paper's, a small net; auto is small_cnn below 64 px, resnet50 above."""

    weights: str | None = None
    """Pre-trained weights: a file, "default" or a tag to download by name; none if not given."""

    seed: int = 0
    """Seed of initialisation, order, augmentation and sampled slots. The noise of dp regimes is never from a seed."""

    splits: Literal["redraw", "given"] = "redraw"
    """Training and test images: drawn by group and class, or the given split (other parts than these two unused)."""

    split_seed: int = 0
    """Seed of the split."""

    held_out: float = 0.15
    """Share of the images that no model sees, to measure what it is good for."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads of each training on a CPU; results depend on it."""

    checkpoint_seconds: float = 30.0
    """Least time between two writes of a training's state, from which a killed training goes on."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        if self.splits not in ("redraw", "given"):
            raise unknown_name("splits", self.splits, ("redraw", "given"))
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out is {self.held_out}; it must lie between 0 and 1, as in 0.15")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        for name in ("seed", "split_seed"):
            if not 0 <= getattr(self, name) < 1 << 32:
                raise InputError(f"{name} is {getattr(self, name)}; it must lie between 0 and {(1 << 32) - 1}")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise InputError(f"checkpoint_seconds is {self.checkpoint_seconds}; it must be 0 or more")
