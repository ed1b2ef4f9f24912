"""The settings of ``memorisk generate``: a frozen dataclass for Python, the command line and YAML at once."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from memorisk.models.generators.sampling_options import SamplingOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.functions import FunctionOptions

_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(SamplingOptions, FunctionOptions):
    """Everything that `memorisk generate` can be told."""

    images: int | None = None
    """How many to make; with --paired one to each training image if not given."""

    seed: int = 0
    """Of the set: each image's own seed follows from it and the image's number."""

    balance: Literal["classes", "training"] = "classes"
    """As many images of every class, or as the training images are divided among the classes."""

    paired: bool = False
    """An image to each training image's condition, of a generator that learned from pseudo-conditions."""

    only: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    """Make only these images of the set, by id (synthetic-000017), the same to the byte; into another OUT."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; the last bits of an image may depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        SamplingOptions.validate(self)
        if self.images is not None and self.images < 1:
            raise InputError(f"images is {self.images}; it must be a whole number of at least 1")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")
        if self.balance not in ("classes", "training"):
            raise unknown_name("balance", self.balance, ("classes", "training"))
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        if len(set(self.only)) < len(self.only):
            raise InputError("only names an image twice: name each once")
