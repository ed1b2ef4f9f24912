"""Settings of ``memorisk synthesize``: what draws, what screens, how often an image is tried, who audits the result.

The same class is the command line, the YAML file and the Python keywords.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.audits.filter.options import ScreeningOptions, plain_settings
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import FunctionOptions, settings_of

BALANCES = ("classes", "training")
NEARER_LEVEL = 0.01
"""The kept set is nearer to training patients than to held-out ones where the one-sided test says so at this level."""


@dataclass(frozen=True, kw_only=True)
class SynthesizeOptions(ScreeningOptions, SamplingOptions, FunctionOptions):
    """Everything that `memorisk synthesize` can be told."""

    generator: str = ""
    """What draws images: a folder of `train generator`, or your own function as module:function (docs/generate.md)."""
    images: int = 1000
    """How many images are to pass."""
    balance: Literal["classes", "training"] = "classes"
    """As many images of every class, or as the training images are divided among the classes."""
    paired: bool = False
    """An image to each training image's condition, of a generator that learned from pseudo-conditions."""
    most_tries: int = 20
    """How often an image may be drawn; its place stays empty if it is rejected each time."""
    keep_rejected: bool = False
    """Write the rejected images, too. They may show training patients: personal data."""
    threads: int = 1
    """Threads on a CPU; the last bits of an image may depend on it."""

    auditor: str | None = None
    """Audit the kept set by this detector, which took no part in choosing it; needs held-out images."""
    held_out: str | None = None
    """Real images of patients whom neither the generator nor a detector has seen, other ones than calibrate: for the
    audit, and as the reference of quality."""
    held_out_split: str | None = None
    """Take the held-out images from TRAIN instead: this given split of it, such as test."""
    plant_kinds: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    """The kinds of copies that the audit of the kept set is about; all seven if not given."""
    quality: str | None = None
    """Features for FID and IRS (docs/features.md); the auditor's if not given, else those of the first detector."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ScreeningOptions.validate(self)
        SamplingOptions.validate(self)
        if not self.generator:
            raise InputError("no generator is given: what draws the images, as in generator FOLDER")
        if self.balance not in BALANCES:
            raise unknown_name("balance", self.balance, BALANCES)
        for name in ("images", "most_tries", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number of at least 1")
        if self.held_out is not None and self.held_out_split is not None:
            raise InputError("held_out and held_out_split both say which images are held out: give one of them")
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
        """Whether there are held-out images."""
        return self.held_out is not None or self.held_out_split is not None

    def _check_train_split(self) -> None:
        if self.train_split is not None and self.calibration_split is None and self.held_out_split is None:
            raise InputError("train_split goes with calibration_split or held_out_split: name another part of TRAIN")


def synthesize_options(settings: Mapping[str, Any]) -> SynthesizeOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    given = plain_settings(settings)
    for name in ("held_out", "auditor", "quality"):
        if isinstance(given.get(name), Path):
            given[name] = str(given[name])
    if "plant_kinds" in given:
        kinds = given["plant_kinds"] or ()
        given["plant_kinds"] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    return settings_of(SynthesizeOptions, given)
