"""The settings of ``memorisk bench reid`` and ``bench copies``: dataclasses for Python, shell and YAML at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_types, settings_of

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
SPLITS = ("auto", "given", "redraw")
BASELINES = ("none", "table2")
PROTOCOLS = ("paper", "corrected")
_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class PairBenchOptions(ImageOptions, ClusterOptions):
    """What both benchmarks can be told."""

    detectors: Several = ("mse", "ncc", "ssim")
    """Folders of detectors, mse, ncc, ssim, random, or sources of features (resnet50@FILE, ...); =LABEL names one."""
    baselines: Literal["none", "table2"] = "none"
    """table2: all baselines of the paper's table 2; those without weights at hand are listed with what to give."""
    download: bool = False
    """Fetch the weights of those baselines that are published by name."""
    reference: str | None = None
    """Name of the detector that all others are compared with; the first one if not given."""

    splits: Literal["auto", "given", "redraw"] = "auto"
    """Validation and test patients: by the given split, drawn by patient, or (auto) given where there is a split."""
    validation_share: float = 0.3
    """Of the patients whom no detector knows, where validation patients are drawn; the others are the test."""
    split_seed: int = 0
    """Of that draw."""
    leave_out_seen: bool = False
    """Leave test patients whom a detector was trained or chosen on out of a given split, instead of refusing."""
    seed: int = 0
    """Of the pairs and of the copies."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """Which numbers the leaderboard shows: every patient counts one, or (paper) every pair; the other stands beside."""
    measure: str = "auto"
    """Distance of encoders' features: cosine, or another by SciPy's name."""

    network_size: int | None = None
    """Pixels a side that networks get; by default what each was trained at."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of networks; auto is bf16 on a GPU that has it, fp32 elsewhere."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""
    threads: int = 1
    """Threads of networks on a CPU; results depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        check_types(self)
        self.check_cluster()
        if not self.detectors and self.baselines == "none":
            raise InputError("no detectors are named; give --detectors mse ncc, a detector's folder, or a network@FILE")
        if len(set(self.detectors)) < len(self.detectors):
            raise InputError(f"detectors are {one_line(self.detectors, 120)}; give each once")
        choices = (("baselines", BASELINES), ("splits", SPLITS), ("protocol", PROTOCOLS))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        if not 0 < self.validation_share < 1:
            raise InputError(f"validation_share is {self.validation_share}; it must lie between 0 and 1")
        for name, least in (("threads", 1), ("network_size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; it must be a whole number of at least {least}")
        for name in ("seed", "split_seed"):
            if not 0 <= getattr(self, name) < _SEEDS:
                raise InputError(f"{name} is {getattr(self, name)}; it must be a whole number from 0 to {_SEEDS - 1}")


@dataclass(frozen=True, kw_only=True)
class BenchReidOptions(PairBenchOptions):
    """Everything that `memorisk bench reid` can be told."""

    sensitivity: float = 0.99
    """At which the specificity is read, and which the calibrated threshold has on validation patients."""
    copies: Path | None = None
    """A finished run of `bench copies` of the same detectors, for figure 1."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        super().validate()
        if not 0.5 <= self.sensitivity < 1:
            raise InputError(f"sensitivity is {self.sensitivity}; it must be at least 0.5 and below 1")


@dataclass(frozen=True, kw_only=True)
class BenchCopiesOptions(PairBenchOptions):
    """Everything that `memorisk bench copies` can be told."""

    test_images: int = 1000
    """Images of each data set that copies are made of, drawn at random; 0 for all."""
    families: Several = ()
    """Of the copies: blur, noise, rotation, brightness, darkening, contrast, jpeg; all if not given."""
    no_identities: Literal["own", "mean"] = "own"
    """Threshold of a data set without identities: from pairs of two of its images (own), or the others' mean, as
    published, which keeps no specificity."""
    reid: Path | None = None
    """A finished run of `bench reid` of the same detectors, for figure 1."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        super().validate()
        if self.no_identities not in ("mean", "own"):
            raise unknown_name("no_identities", self.no_identities, ("mean", "own"))
        if self.test_images < 0:
            raise InputError(f"test_images is {self.test_images}; give a whole number, 0 for all")
        self.chosen_families()

    def chosen_families(self) -> tuple[str, ...]:
        """The families, in the table's order.

        Raises:
            InputError: One is unknown or stands twice.
        """
        from memorisk.training.detectors.lcmem.augmentations import FAMILIES

        for name in self.families:
            if name not in FAMILIES:
                raise unknown_name("family", name, FAMILIES)
        if len(set(self.families)) < len(self.families):
            raise InputError(f"families are {one_line(self.families, 120)}; give each once")
        return tuple(name for name in FAMILIES if not self.families or name in self.families)


Options = BenchReidOptions | BenchCopiesOptions


def reid_options(settings: dict[str, Any]) -> BenchReidOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(BenchReidOptions, _as_lists(settings, "detectors") | _paths(settings, "copies"))


def copies_options(settings: dict[str, Any]) -> BenchCopiesOptions:
    """Options from keyword names, with a "did you mean" for one that does not exist.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    return settings_of(BenchCopiesOptions, _as_lists(settings, "detectors", "families") | _paths(settings, "reid"))


def _as_lists(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    """The settings, one text alone as a list of one."""
    given = dict(settings)
    for name in names:
        if name in given:
            value = given[name]
            given[name] = (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))
    return given


def _paths(settings: dict[str, Any], name: str) -> dict[str, Any]:
    """A folder given as text, as a path."""
    return {name: Path(settings[name])} if settings.get(name) is not None else {}
