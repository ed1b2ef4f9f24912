"""Settings of ``memorisk synthesize``: what draws, what screens, how often an image is tried, who audits the result.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.generated.options import refuse_two_held_out
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError
from memorisk.runs.options import Balance, HeldOutSplit, Paired, PlantKinds, grouped
from memorisk.runs.settings import check_counts, settings_of
from memorisk.runs.user_functions import FunctionOptions

NEARER_LEVEL = 0.01
"""The kept set is nearer to training patients than to held-out ones where the one-sided test says so at this level."""


@grouped(
    "generator",
    essential="generator images balance auditor held_out",
    comparison="auditor quality",
    images="held_out",
    where="threads",
)
@dataclass(frozen=True, kw_only=True)
class SynthesizeOptions(ScreeningOptions, SamplingOptions, FunctionOptions):
    """Everything that `memorisk synthesize` can be told."""

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

    auditor: str | None = None
    """Audit the kept set with this detector, which took no part in selecting it. Needs held-out images."""
    held_out: str | None = None
    """Real images of patients unseen by the generator and by every detector, and not used for calibration: for the
    audit, and as reference for quality."""
    held_out_split: HeldOutSplit = None
    plant_kinds: PlantKinds = ()
    quality: str | None = None
    """Features for FID and IRS (docs/features.md); by default the auditor's, otherwise those of the first detector."""

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
        refuse_two_held_out(self)
        if self.held_out_split is not None and self.held_out_split in (self.trained_on, self.calibration_split):
            raise InputError(
                f"held_out_split {self.held_out_split!r} is used for something else: name a part of its own"
            )
        if self.auditor is not None and not self.audited_by_held_out:
            raise InputError("an auditor ranks training patients among held-out ones: give held_out or held_out_split")
        if self.plant_kinds and self.auditor is None:
            raise InputError("plant_kinds says what the audit of the kept set is about, and no auditor is given")
        if self.plant_kinds:
            from memorisk.images.alterations.plants import planted_kinds  # numpy, which --help does without

            planted_kinds(self.plant_kinds)

    @property
    def audited_by_held_out(self) -> bool:
        """Return whether there are held-out images."""
        return self.held_out is not None or self.held_out_split is not None

    def _check_train_split(self) -> None:
        if self.train_split is not None and self.calibration_split is None and self.held_out_split is None:
            raise InputError("train_split goes with calibration_split or held_out_split: name another part of TRAIN")


def synthesize_options(settings: Mapping[str, Any]) -> SynthesizeOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(SynthesizeOptions, settings)
