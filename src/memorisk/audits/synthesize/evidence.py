"""What a loop found: what its filter says of everything drawn, what the kept images bound, what an auditor says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memorisk.audits.filter.analysis import FilterEvidence
from memorisk.audits.filter.calibrating import Calibrated
from memorisk.audits.filter.cost import diversity_of, real_share
from memorisk.audits.filter.deciding import Decision
from memorisk.audits.filter.families import Family
from memorisk.audits.filter.measuring import Opened
from memorisk.audits.filter.screening import Matches, screen
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.synthesize.drawn import store_of_hashes
from memorisk.audits.synthesize.final_audit import Audited
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.models.generators.generators import GeneratorConfig
from memorisk.runs.progress import Progress
from memorisk.statistics.copies.regenerated_copies import RegeneratedCopies, regenerated_copies
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.statistics.proportions import clopper_pearson
from memorisk.training.detectors.pair_detectors import PairDetector


@dataclass(frozen=True, eq=False)
class LoopEvidence:
    """Everything that a report speaks of."""

    config: GeneratorConfig
    """Of the generator."""
    source: str
    """What identifies its weights."""
    doubts: tuple[str, ...]
    """Of `sets.RealSets`."""
    filtered: FilterEvidence
    """Everything drawn, as a filter judged it."""
    ledger: Ledger | None = None
    """None where there is no threshold, and nothing was drawn."""
    copies: RegeneratedCopies | None = None
    """What drawing again does to the guarantee."""
    audited: Audited | None = None
    """None without an auditor, or nothing to audit."""
    auditor: str | None = None
    """What was named to audit the kept set, whether it had anything to look at or not."""
    table_three: dict[str, Any] | None = None
    """A row of the paper's table 3."""


def real_matches(opened: Sequence[Opened], sets: FilterSets, thresholds: Sequence[float], options: SynthesizeOptions,
                 progress: Progress) -> tuple[Matches, ...]:  # fmt: skip
    """What the detectors say of the calibration images, each beside the training images; nothing without them."""
    if sets.calibration is None:
        return ()
    asked = replace(sets, synthetic=sets.calibration, asked=sets.calibration.manifest, calibration=None)
    return screen(opened, asked, thresholds, options, progress).synthetic


def filter_of(
    ledger: Ledger,
    sets: FilterSets,
    detectors: Sequence[PairDetector],
    families: Sequence[Family],
    counted: Sequence[MissGuarantee],
    opened: Sequence[Opened],
    calibrated: Sequence[Calibrated],
    thresholds: Sequence[float],
    real: tuple[Matches, ...],
    seed: int,
) -> FilterEvidence:
    """Everything drawn, as evidence of a filter; "before" are the first draws of every place.

    Args:
        ledger: Of the loop.
        sets: The real images.
        detectors: As they were named.
        families: What the guarantee is about.
        counted: Identities for it.
        opened: The detectors at work.
        calibrated: Their thresholds, family by family.
        thresholds: Of each detector.
        real: Of `real_matches`.
        seed: Of images drawn for comparisons.
    """
    plan, reason, train = ledger.plan, ledger.reason, sets.train
    no_pixels = np.broadcast_to(np.zeros(1, np.uint8), (len(plan), *train.images.shape[1:]))
    drawn = store_of_hashes(
        train, no_pixels, ledger.hashes, plan["image"].tolist(), plan["class"].tolist(), "drawn images"
    )
    sets = replace(sets, synthetic=drawn, asked=drawn.manifest)
    screened = ledger.screened(thresholds, real)
    share, rejected = real_share(screened, sets, seed)
    first = np.any(screened.reaches(screened.synthetic), axis=0)[ledger.first]
    return FilterEvidence(
        sets,
        detectors,
        families,
        counted,
        Decision(np.arange(len(plan)), reason),
        opened,
        calibrated,
        screened,
        clopper_pearson(int(first.sum()), len(first)),
        share,
        rejected,
        diversity_of(screened, {"first draws": ledger.first, "kept": ledger.kept}, sets, seed),
    )


def copies_of(ledger: Ledger, options: SynthesizeOptions) -> RegeneratedCopies:
    """The bound on copies among the kept images; the units are places."""
    number = ledger.plan["number"].to_numpy()
    rejected = np.bincount(number[ledger.reason != ""], minlength=ledger.n_asked)
    filled = np.isin(np.arange(ledger.n_asked), number[ledger.kept])
    return regenerated_copies(rejected, filled, miss_rate=options.miss_rate, tries=options.most_tries)
