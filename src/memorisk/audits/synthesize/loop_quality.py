"""FID, IRS and MemRate of a loop's images before and after it: the row of table 3 that a run keeps.

Every figure is given with its value on real images of new people, and all figures of a row are of as many images, drawn
at random from what there is, since FID and IRS depend on their number. MemRate is the share that a detector takes for
the same identity (P > 0.5, or the calibrated threshold where it gives no probability): with the training image that an
image was conditioned on, or, of a generator without pairs, with any training image. MemRate is missing for a detector
without probabilities at a threshold that the user gave: nothing says that such a score means one identity.
"""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.loop import Loop
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthesize.result import Limits, TableThreeRow
from memorisk.audits.synthesize.table_three import OF_LOOP
from memorisk.images.store import ImageStore
from memorisk.runs.environment import check_device
from memorisk.runs.workload import Progress
from memorisk.scores.similarity import Similarity
from memorisk.statistics.copies.memorization_rate import MemorizationRate, memorization_rate
from memorisk.statistics.quality.figures import QualityFigure
from memorisk.statistics.quality.frechet import frechet_distance
from memorisk.statistics.quality.retrieval_score import RetrievalScore, irs_of
from memorisk.training.detectors.pair_detectors import PairDetector

CONDITION_NAMES = {"none": "unconditional", "class": "class", "vector": "condition"}

_STREAM = 79  # keeps these draws apart from others of the same seed

_MIN_IMAGES = 2

_NO_RATE = (
    "MemRate is empty: {name} gives no probability, and its threshold was given, not calibrated, so that nothing says "
    "which images are of one identity"
)


@dataclass(frozen=True, eq=False)
class MemRateDetector:
    """Detector that MemRate is computed by."""

    name: str
    """Name of the detector in a report."""
    similarity: Similarity
    """Similarity of two images; larger is more alike."""
    threshold: float
    """Threshold above which a score is a match."""
    words: str
    """Description of the detector."""
    detector: PairDetector
    """Detector that computes the features."""
    of_features: bool
    """Whether these are the features by which quality is measured; else it is the first detector that chose."""

    def scores(
        self, some: np.ndarray, base: np.ndarray, beside: np.ndarray | None, options: SynthesizeOptions
    ) -> np.ndarray:
        """Return the scores of images, [n], each with the training image in its row, or the most similar one."""
        if beside is not None:
            return self.similarity.scores(some, base[beside])
        return self.similarity.nearest(some, base, device=str(check_device(options.device))).scores[:, 0]


def table_three_row(loop: Loop, ledger: Ledger, progress: Progress) -> TableThreeRow | None:
    """Return a row of table 3; None where fewer than two images were kept.

    Args:
        loop: Loop with its thresholds.
        ledger: Ledger of the loop.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
    """
    train, reference, config = loop.train, loop.sets.calibration, loop.generator.config
    if len(ledger.kept) < _MIN_IMAGES:
        return None
    of_train = loop.quality_features(train, progress=progress)
    values = {"before": ledger.quality[ledger.first], "kept": ledger.quality[ledger.kept]}
    group = {what: np.arange(len(some)) for what, some in values.items()}
    if reference is not None:
        values["reference"] = np.asarray(loop.quality_features(reference, progress=progress).values)
        group["reference"] = reference.manifest.groups.astype(str)
    good = {what: np.isfinite(some).all(axis=1) for what, some in values.items()}
    values = {what: some[good[what]] for what, some in values.items()}
    group = {what: some[good[what]] for what, some in group.items()}
    n = min(len(some) for some in values.values())
    if n < _MIN_IMAGES:
        return None
    base = np.asarray(of_train.values)
    by = loop.quality.similarity(base)
    figures = _figures(loop, values, group, base, by, n, progress)
    judge = _memrate_detector(loop, by)
    paired = bool(np.isfinite(ledger.of_source).any())
    rates = {} if judge is None else _memrates(loop, judge, ledger, base, paired=paired)
    return TableThreeRow(
        generator=config.name,
        conditioning=config.conditioning or CONDITION_NAMES[config.conditioned_on],
        n=n,
        n_training=len(base),
        features=of_train.described.encoder,
        distance=by.words,
        figures=figures | {"MemRate": rates},
        memorized_by="" if judge is None else judge.name,
        memorized_at="" if judge is None else judge.words,
        no_rate=_NO_RATE.format(name=loop.calibrated.opened[0].name) if judge is None else "",
        paired=paired,
    )


def _figures(
    loop: Loop,
    values: dict[str, np.ndarray],
    group: dict[str, np.ndarray],
    base: np.ndarray,
    by: Similarity,
    n: int,
    progress: Progress,
) -> dict[str, dict[str, Limits]]:
    """Return FID and IRS of each set, from an equal number of images, drawn at random."""
    rng, whose = np.random.default_rng([_STREAM, loop.options.seed]), loop.train.manifest.groups.astype(str)
    device = str(check_device(loop.options.device))
    chosen = {what: np.sort(rng.permutation(len(some))[:n]) for what, some in values.items()}
    figures: dict[str, dict[str, Limits]] = {"FID": {}, "IRS": {}}
    for what, rows in chosen.items():
        progress(f"quality, {what}", 0, 0)
        some = values[what][rows]
        fid = frechet_distance(base, some, whose, group[what][rows])
        figures["FID"][what] = _limits(fid)
        nearest = by.nearest(some, base, device=device).rows[:, 0]
        figures["IRS"][what] = _limits(irs_of(nearest, len(base)))
    return figures


def _memrate_detector(loop: Loop, by: Similarity) -> MemRateDetector | None:
    """Choose the auditor if it gives probabilities and its features are there, else the first detector that chose.

    None where that one gives no probabilities and its threshold is not calibrated.
    """
    half, auditor, first = "P above 0.5", loop.auditor, loop.calibrated.opened[0]
    if auditor is not None and auditor.head is not None and by.at_half == by.at_half:
        return MemRateDetector(auditor.name, by, by.at_half, half, auditor, of_features=True)
    if first.similarity.at_half == first.similarity.at_half:
        return MemRateDetector(
            first.name, first.similarity, first.similarity.at_half, half, first.detector, of_features=False
        )
    if loop.options.threshold:
        return None
    threshold = float(np.nextafter(loop.thresholds[0], -np.inf))
    return MemRateDetector(first.name, first.similarity, threshold, OF_LOOP, first.detector, of_features=False)


def _memrates(
    loop: Loop, judge: MemRateDetector, ledger: Ledger, base: np.ndarray, *, paired: bool
) -> dict[str, Limits]:
    """Return the MemRate of the first draws, of the kept images, and of real images of new people."""
    options, train, reference = loop.options, loop.train, loop.sets.calibration
    place = {str(image): row for row, image in enumerate(train.manifest.images)}
    source = np.array([place.get(str(image), -1) for image in ledger.plan["source"]], dtype=np.int64)
    patients, rates = train.manifest.groups.astype(str), {}
    for what, rows in (("before", ledger.first), ("kept", ledger.kept)):
        rows = rows[source[rows] >= 0] if paired else rows
        if judge.of_features:
            score = judge.scores(ledger.quality[rows], base, source[rows] if paired else None, options)
        else:
            score = ledger.of_source[0][rows] if paired else ledger.score(0)[rows]
        rates[what] = _limits(memorization_rate(score > judge.threshold, patients[source[rows]] if paired else None))
    if reference is not None:
        ours = base if judge.of_features else loop.calibrated.opened[0].train.values
        values = loop.quality_features(reference, judge.detector).values
        beside = _beside(train, reference, options.seed) if paired else None
        score = judge.scores(np.asarray(values), ours, beside, options)
        rates["reference"] = _limits(memorization_rate(score > judge.threshold, reference.manifest.groups.astype(str)))
    return rates


def _beside(train: ImageStore, reference: ImageStore, seed: int) -> np.ndarray:
    """Return a random training image for each real image of a new person, [M], of its class where there is one."""
    rng = np.random.default_rng([_STREAM, seed, 1])
    labels, theirs = train.manifest.labels, reference.manifest.labels
    rows = rng.integers(len(labels), size=len(theirs))
    for label in sorted(set(theirs) & set(labels)):
        mine = np.flatnonzero(theirs == label)
        rows[mine] = rng.choice(np.flatnonzero(labels == label), size=len(mine))
    return rows


def _limits(estimate: MemorizationRate | RetrievalScore | QualityFigure) -> Limits:
    return Limits(estimate=estimate.estimate, low=estimate.low, high=estimate.high)
