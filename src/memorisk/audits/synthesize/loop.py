"""A loop before it draws: its inputs, read and checked, and the thresholds that calibration gives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from memorisk.audits.comparison.features import encode
from memorisk.audits.comparison.sets import Source
from memorisk.audits.filter.choice import Candidates, Choice, choose_thresholds, count_candidates
from memorisk.audits.filter.decisions import real_share
from memorisk.audits.filter.final_audit import auditor_names, plan_audit
from memorisk.audits.filter.screening import Matches, ScreeningDetector, matches_of, open_detectors, open_screening
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.pseudonyms import draw_seed
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.sets import RealSets, read_real
from memorisk.audits.synthetic.run import SyntheticPlan
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.generators import Generator
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.intervals.shares import Proportion
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.compute_backend import ComputeBackend
from memorisk.training.features.matrix import Features
from memorisk.training.generators.draws import plan_draws
from memorisk.training.generators.generation import check_drawing


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Detectors at work, with their thresholds; empty where identities are missing."""

    opened: Sequence[ScreeningDetector] = ()
    choice: Choice | None = None
    """Families that are promised, thresholds, and the cost of each candidate; None where identities are missing."""
    real: tuple[Matches, ...] = ()
    """Matches of the calibration images, by detector."""
    new: Proportion | None = None
    """Share of new people whose real image the thresholds reject; None where it is not known."""


@dataclass(frozen=True, eq=False)
class Loop:
    """Everything that a loop works with: its inputs, and what calibration made of them."""

    options: SynthesizeOptions
    generator: Generator
    plan: pd.DataFrame
    """The first attempt at every place: `training.generators.draws.plan_draws`."""
    real: RealSets
    detectors: Sequence[PairDetector]
    """Detectors that choose."""
    candidates: Candidates
    """Kinds of copies, and how many identities there are and are needed, of each."""
    auditors: tuple[str, ...]
    """Names of the detectors that audit the kept set."""
    audit: SyntheticPlan
    """Plan of that audit, as if every place were filled."""
    auditor: PairDetector | None
    """Detector that audits, where the user named one."""
    quality: PairDetector
    """Detector whose features measure quality."""
    device: str
    """Device of the generator."""
    calibrated: Calibrated = Calibrated()

    @property
    def sets(self) -> FilterSets:
        """Return the real images as a filter compares them."""
        return self.real.filter

    @property
    def train(self) -> ImageStore:
        """Return the training images."""
        return self.real.filter.train

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Return the threshold of each detector; none where identities are missing."""
        return () if self.calibrated.choice is None else self.calibrated.choice.thresholds

    def quality_features(
        self, store: ImageStore, detector: PairDetector | None = None, progress: Progress = no_progress
    ) -> Features:
        """Return the features by which quality is measured; components are fitted on the training images.

        Args:
            store: The images.
            detector: Another detector than that of quality.
            progress: Called with (stage, done, total).

        Raises:
            InputError: Features are not available.
        """
        return encode(detector or self.quality, store, self.train, self.options, progress, sized=False)

    def calibrated_at(self, workplace: ComputeBackend, progress: Progress) -> "Loop":
        """Return the loop with its thresholds; passes and searches are at a workplace.

        Args:
            workplace: Place where the detectors work.
            progress: Called with (stage, done, total).
        """
        detectors = [detector.working_at(workplace) for detector in self.detectors]
        loop = replace(self, detectors=detectors, quality=self.quality.working_at(workplace))
        return replace(loop, calibrated=_calibrate(loop, progress))


def read_loop(
    train: Source, generator: Generator, calibration: Source | None, options: SynthesizeOptions, progress: Progress
) -> Loop:
    """Read, and refuse, everything that can be refused before anything is drawn.

    Args:
        train: Images that the generator was trained on.
        generator: Generator that draws.
        calibration: Images of new people.
        options: Settings of the loop.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An input or a setting is refused.
    """
    detectors = open_detectors(options)
    auditors = auditor_names(options, detectors)
    auditor = None if options.auditor is None else open_pair_detector(options.auditor)
    quality = open_pair_detector(options.quality) if options.quality else auditor or detectors[0]
    if quality.source.kind == "saved":
        raise InputError(f"quality {quality.name} holds saved features, of other images: name what computed them")
    device = str(check_device(options.device))
    plan = plan_draws(
        generator, options.images, seed=options.seed, balance=options.balance, paired=options.paired,
        secret=draw_seed(options, options.seed) if options.pseudonymise else None,
    )  # fmt: skip
    check_drawing(generator, plan, options, device)
    real = read_real(train, calibration, generator, detectors, options, progress)
    audit = plan_loop_audit(real, len(plan), options, auditors, progress)
    candidates = count_candidates(real.filter, len(detectors), options)
    return Loop(options, generator, plan, real, detectors, candidates, auditors, audit, auditor, quality, device)


def plan_loop_audit(
    real: RealSets, places: int, options: SynthesizeOptions, auditors: tuple[str, ...], progress: Progress
) -> SyntheticPlan:
    """Plan the audit of the kept set as if every place held another image.

    Args:
        real: The real images.
        places: Number of places to be filled.
        options: Settings of the loop.
        auditors: Names of detectors.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An auditor knows training patients and not calibration ones, or parts cannot be compared.
    """
    train, names = real.filter.train, [f"kept {i}" for i in range(places)]
    blank = np.broadcast_to(np.uint8(0), (places, *train.images.shape[1:]))
    store = store_of_pixels(blank, train, "kept images", ids=names, hashes=np.array(names, dtype=object))
    return plan_audit(real.filter, store, options, auditors, progress)


def _calibrate(loop: Loop, progress: Progress) -> Calibrated:
    """Compute thresholds as a filter does; none, and nothing is computed, where there can be no guarantee."""
    options, sets = loop.options, loop.sets
    if not options.threshold and not loop.candidates.enough:
        return Calibrated()
    opened = open_screening(loop.detectors, sets, options, progress)
    choice = choose_thresholds(opened, sets, loop.candidates, options, progress)
    undrawn = tuple(replace(cost, synthetic=None) for cost in choice.costs)  # the sets hold one blank image for all
    choice = replace(choice, costs=undrawn)
    if not choice.thresholds:
        return Calibrated(opened, choice)
    real = matches_of(sets.calibration, opened, choice.thresholds, progress)
    return Calibrated(opened, choice, real, real_share(real, choice.thresholds, sets, options.seed)[0])
