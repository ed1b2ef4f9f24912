"""Settings of pseudo-conditions: what makes them. They hold for Python, the command line and YAML at once."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import check_types

CONDITIONINGS = ("label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label")
"""Paper 004, table 3, in its order."""
FOLDS = 5
_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class PseudoOptions:
    """How a training image gets a vector of its own."""

    conditioning_protocol: Literal["corrected", "paper"] = "corrected"
    """Whose prediction an image's condition is: corrected is the classifier that saw none of its patient's images,
    paper the first fold's for every image, four fifths of which it was trained on."""

    conditioning_network: str = "small_cnn"
    """The five classifiers: any network of `train classifier`."""

    conditioning_weights: str | None = None
    """What they start from: a file, "default" or a tag to download by name; random if not given."""

    conditioning_epochs: int | None = None
    """Of their training; by default the architecture's (30)."""

    conditioning_noise: float = 0.1
    """Standard deviation of what label-noise adds to a label of 0 and 1; the paper does not give its own."""

    seed: int = 0
    """Of the folds, the classifiers and the noise."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 60.0
    """Least time between two writes of a classifier's state, from which a killed training goes on."""

    @classmethod
    def of(cls, options: Any) -> "PseudoOptions":
        """These settings of those of a command that has them, or some of them."""
        names = (field.name for field in fields(PseudoOptions))
        found = PseudoOptions(**{name: getattr(options, name) for name in names if hasattr(options, name)})
        found.validate()
        return found

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.conditioning_protocol not in ("corrected", "paper"):
            raise unknown_name("conditioning_protocol", self.conditioning_protocol, ("corrected", "paper"))
        if self.conditioning_epochs is not None and self.conditioning_epochs < 1:
            raise InputError(
                f"conditioning_epochs is {self.conditioning_epochs}; it must be a whole number of at least 1"
            )
        if not 0 < self.conditioning_noise < float("inf"):
            raise InputError(f"conditioning_noise is {self.conditioning_noise}; it must be above 0")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise InputError(f"checkpoint_seconds is {self.checkpoint_seconds}; it must be 0 or more")
