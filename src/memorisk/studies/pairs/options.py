"""The settings of ``memorisk bench reid`` and ``bench copies``: dataclasses for Python, shell and YAML at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memorisk.images.alterations.families import FAMILIES
from memorisk.images.alterations.options import CopiedFamilies
from memorisk.images.options import ImageOptions
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.options import Device, Precision, Threads, Words, grouped
from memorisk.runs.settings import check_between, check_counts, check_seeds


@grouped(
    "comparison",
    essential="detectors baselines reference splits protocol device",
    design="splits validation_share split_seed leave_out_seen seed protocol",
)
@dataclass(frozen=True, kw_only=True)
class PairBenchOptions(ImageOptions, ClusterOptions):
    """Settings of both benchmarks."""

    detectors: Words = ("mse", "ncc", "ssim")
    """Detectors: default (comes with memorisk), folders, mse, ncc, ssim, random, or features (resnet50@FILE, ...);
    append =LABEL to name one."""
    baselines: Literal["none", "table2"] = "none"
    """table2: add all baselines of the paper's table 2. Those without weights are listed with what to provide."""
    download: bool = False
    """Download the weights of the baselines that are published by name."""
    reference: str | None = None
    """Name of the detector that all others are compared with; by default the first one."""

    splits: Literal["auto", "given", "redraw"] = "auto"
    """Validation and test patients: the given split, drawn by patient (redraw), or auto: given where there is one."""
    validation_share: float = 0.3
    """Share of patients unknown to every detector that are drawn for validation; the others test."""
    split_seed: int = 0
    """Random seed for drawn splits."""
    leave_out_seen: bool = False
    """Drop test patients that a detector was trained or selected on from a given split, instead of refusing it."""
    seed: int = 0
    """Random seed for pairs and copies."""

    protocol: Literal["paper", "corrected"] = "corrected"
    """Rank by patients with equal weight (corrected) or by pairs (paper); the tables show both."""
    measure: str = "auto"
    """Distance between encoders' features: cosine (auto), or another by SciPy's name."""

    network_size: int | None = None
    """Side in pixels of the networks' input; by default the size that each was trained at."""
    precision: Precision = "auto"
    device: Device = "auto"
    threads: Threads = 1

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        ImageOptions.validate(self)
        self.check_cluster()
        if not self.detectors and self.baselines == "none":
            raise InputError("no detectors are named; give --detectors mse ncc, a detector's folder, or a network@FILE")
        if len(set(self.detectors)) < len(self.detectors):
            raise InputError(f"detectors are {one_line(self.detectors, 120)}; give each once")
        check_between(self, "validation_share")
        check_counts(self, threads=1, network_size=1)
        check_seeds(self, "seed", "split_seed")


@grouped("statistics", essential="sensitivity")
@dataclass(frozen=True, kw_only=True)
class BenchReidOptions(PairBenchOptions):
    """Settings that `memorisk bench reid` takes."""

    sensitivity: float = 0.99
    """Sensitivity at which specificity is reported, and of the threshold calibrated on validation patients."""
    copies: Path | None = None
    """Finished run of `bench copies` with the same detectors, for figure 1."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        super().validate()
        if not 0.5 <= self.sensitivity < 1:
            raise InputError(f"sensitivity is {self.sensitivity}; it must be at least 0.5 and below 1")


@grouped("design", essential="families")
@dataclass(frozen=True, kw_only=True)
class BenchCopiesOptions(PairBenchOptions):
    """Settings that `memorisk bench copies` takes."""

    detectors: Words = (DEFAULT_DETECTOR, "mse", "ncc", "ssim")
    """Detectors: default (comes with memorisk), folders, mse, ncc, ssim, random, or features (resnet50@FILE, ...);
    append =LABEL to name one."""
    test_images: int = 1000
    """Random images of each data set to copy; 0 for all."""
    families: CopiedFamilies = ()
    no_identities: Literal["own", "mean"] = "own"
    """Threshold of a data set without patient ids: from pairs of its own images (own), or the mean of the others, as
    published (mean), which guarantees no specificity."""
    reid: Path | None = None
    """Finished run of `bench reid` with the same detectors, for figure 1."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        super().validate()
        if self.test_images < 0:
            raise InputError(f"test_images is {self.test_images}; give a whole number, 0 for all")
        self.chosen_families()

    def chosen_families(self) -> tuple[str, ...]:
        """Return the families, in the table's order.

        Raises:
            InputError: A family is unknown or given twice.
        """
        for name in self.families:
            if name not in FAMILIES:
                raise unknown_name("family", name, FAMILIES)
        if len(set(self.families)) < len(self.families):
            raise InputError(f"families are {one_line(self.families, 120)}; give each once")
        return tuple(name for name in FAMILIES if not self.families or name in self.families)


Options = BenchReidOptions | BenchCopiesOptions
