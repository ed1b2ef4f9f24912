"""Settings of ``memorisk synthesize``: those of a filter, the generator, and how often an image is tried.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorisk.audits.filter.options import ScreeningOptions
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError
from memorisk.runs.options import Balance, Paired, grouped
from memorisk.runs.settings import check_counts, settings_of
from memorisk.runs.user_code.functions import FunctionOptions


@grouped(
    "generator",
    essential="generator images balance",
    comparison="quality",
    where="threads",
)
@dataclass(frozen=True, kw_only=True)
class SynthesizeOptions(ScreeningOptions, SamplingOptions, FunctionOptions):
    """Options of `memorisk synthesize`."""

    generator: str = ""
    """Generator: a folder of `train generator`, or your own function as module:function (docs/generate.md)."""
    images: int = 1000
    """Number of images that must pass."""
    balance: Balance = "classes"
    paired: Paired = False
    most_tries: int = 20
    """Most draws for one image; its place stays empty if all are rejected."""
    keep_rejected: bool = False
    """Also write the rejected images. They may show training patients and are personal data."""
    threads: int = 1
    """CPU threads. The last bits of an image may depend on it."""

    quality: str | None = None
    """Features for FID and IRS (docs/features.md); by default those of --auditor, otherwise of the first detector."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ScreeningOptions.validate(self)
        SamplingOptions.validate(self)
        if not self.generator:
            raise InputError("no generator is given: name what draws the images, a folder that train generator wrote")
        check_counts(self, images=1, most_tries=1, threads=1)


def synthesize_options(settings: Mapping[str, Any]) -> SynthesizeOptions:
    """Return options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(SynthesizeOptions, settings)
