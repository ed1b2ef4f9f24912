"""Measurements of the images: distances by every detector, conditioned pairs, logits, and pixel copies.

**Paired mode** (paper 004, section 3.2): each synthetic image is compared with the training image that it was
conditioned on. MemRate is the share of these pairs that a detector calls one identity: P > 0.5 by a head, elsewhere
a score that misses at most 5 % of the planted copies (`statistics.pairs.guarantee`, one plant of each source). The
report also shows its value on real images that no generator made: each held-out image with a random one of the
training images that were conditioned on, of its own class where both have one. The pairs that a detector calls
identical there are its false alarms, of which MemRate holds as many.

**Logit histograms** (paper 004, figure 6): pairs of images of one patient, of two patients, and of a synthetic and
a training image, counted exactly (`memorisk.scores.pairs`). The pairs of two patients are the null of the last.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy

from memorisk.audits.comparison.distances import Distances, PixelCopies
from memorisk.audits.comparison.features import FeatureTables
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.review import Review
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.comparison.terms import SAME_IDENTITY, SET_TO_TRAINING, TWO_IDENTITIES
from memorisk.images.columns import read_described
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.scores import pairs
from memorisk.scores.pairs import Head
from memorisk.scores.similarity import HeadSimilarity, MeasureSimilarity, Similarity
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.memorization_rate import MemorizationRate, memorization_rate, rate_difference
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.guarantee import MissGuarantee, miss_guarantee

MISS_RATE = 0.05
"""Share of planted copies that may be missed, where a detector has no probabilities."""
Pair = tuple[int, int]
"""Rows of a synthetic and a training image."""
_STREAM = 59  # keeps these draws apart from others of the same seed


@dataclass(frozen=True, eq=False)
class Pairing:
    """Synthetic images with the training images that they were generated from, and held-out images as a reference."""

    synthetic: np.ndarray
    """Row of the synthetic image, [P]."""
    train: np.ndarray
    """Row of the training image that it was conditioned on, [P]."""
    unpaired: int
    """Number of synthetic images without a named training image."""
    held: np.ndarray
    """Row of a held-out image, [K]; empty without held-out images."""
    beside: np.ndarray
    """Row of the training image that it is compared with, [K]."""


@dataclass(frozen=True, eq=False)
class PairedFindings:
    """Findings of one detector about the pairs."""

    score: np.ndarray
    """Score of each pair, [P]; larger = more alike."""
    threshold: float
    """Score above which a pair counts as memorized; NaN where there is none."""
    calibrated: MissGuarantee | None
    """Guarantee of the threshold; None for a head, whose probability is its own threshold."""
    memorized: np.ndarray
    """Whether each pair counts as memorized, [P]."""
    rate: MemorizationRate | None
    """MemRate over training patients; None without a threshold."""
    held_rate: MemorizationRate | None
    """MemRate on held-out images, over held-out patients."""
    excess: JackknifeInterval | None
    """MemRate less that on held-out images; None without held-out images."""


def read_pairing(named: str | None, sets: Sets, seed: int) -> Pairing | None:
    """Read which synthetic image was generated from which training image.

    Args:
        named: Column of the synthetic images' table with ids of training images, or a table of pairs; None for neither.
        sets: The images of the audit.
        seed: Seed of the draw of training images that held-out ones are compared with.

    Raises:
        InputError: There is neither such a column nor such a file, an image is unknown or paired twice, or no image is
            paired.
    """
    if named is None:
        return None
    manifest = sets.synthetic.manifest
    column = next((name for name in (named, f"user_{named}") if name in manifest.table), None)
    source = {}
    if column is not None:
        source = dict(zip(manifest.images, (str(value) for value in manifest.table[column].fillna("")), strict=True))
    elif Path(named).is_file():
        source = _read_file(Path(named), sets)
    else:
        columns = listed([str(name) for name in manifest.table.columns], 12)
        raise InputError(
            f"paired {one_line(named, 60)!r} is neither a column of SYNTHETIC (it has {columns}) nor a file"
        )
    place = _places(sets.train)
    rows = [row for row, image in enumerate(manifest.images) if source.get(image, "")]
    unknown = sorted({source[manifest.images[row]] for row in rows} - set(place))
    if unknown:
        raise InputError(
            f"paired {one_line(named, 60)!r} names {plural(len(unknown), 'training image', 'training images')} that "
            f"TRAIN does not have ({listed(unknown)}): give their ids as in TRAIN"
        )
    if not rows:
        raise InputError(f"paired {one_line(named, 60)!r} names a training image for none of the synthetic ones")
    train = np.array([place[source[manifest.images[row]]] for row in rows], dtype=np.int64)
    held, beside = _reference_pairs(sets, train, seed)
    return Pairing(np.array(rows, dtype=np.int64), train, manifest.n - len(rows), held, beside)


def compare_pairs(
    pairing: Pairing,
    found: FeatureTables,
    similarity: Similarity,
    distances: Distances,
    plants: Plants,
    sets: Sets,
    seed: int,
    dismissed: np.ndarray,
) -> PairedFindings:
    """Compare the pairs by one detector.

    Args:
        pairing: Pairs to compare.
        found: Features of the detector.
        similarity: Similarity that compares the features.
        distances: Distances of its plants.
        plants: Planted copies with their sources.
        sets: Images with their patients.
        seed: Seed of the draw of one plant from each source.
        dismissed: Whether a person dismissed each pair, [P]: such pairs are not memorized.
    """
    patients = sets.train.manifest.groups.astype(str)
    score = similarity.scores(found.synthetic[pairing.synthetic], found.train[pairing.train])
    threshold, calibrated = float(similarity.at_half), None
    if np.isnan(threshold) and plants.n_required:
        source, distance = patients[plants.source[plants.required]], distances.plant_source[plants.required]
        calibrated = miss_guarantee(-distance[one_per_group(source, seed=seed)], miss_rate=MISS_RATE)
        threshold = float(np.nextafter(calibrated.threshold, -np.inf)) if calibrated.kept else np.nan
    if np.isnan(threshold):
        return PairedFindings(score, threshold, calibrated, np.zeros(len(score), bool), None, None, None)
    memorized = (score > threshold) & ~dismissed
    rate, held_rate = memorization_rate(memorized, patients[pairing.train]), None
    if len(pairing.held):
        assert sets.held is not None
        beside = similarity.scores(found.held[pairing.held], found.train[pairing.beside])
        theirs = sets.held.manifest.groups.astype(str)[pairing.held]
        held_rate = memorization_rate(beside > threshold, theirs)
    excess = None if held_rate is None else rate_difference(rate, held_rate)
    return PairedFindings(score, threshold, calibrated, memorized, rate, held_rate, excess)


def _reference_pairs(sets: Sets, train: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair every held-out image with a random training image that was conditioned on, of its class if both have one."""
    none = np.empty(0, dtype=np.int64)
    if sets.held is None:
        return none, none
    rng, conditioned = np.random.default_rng([_STREAM, seed]), np.unique(train)
    labels, theirs = sets.train.manifest.labels[conditioned], sets.held.manifest.labels
    held, beside = [], []
    by_class = bool((labels != "").all() and (theirs != "").all())
    for label in sorted(set(theirs)) if by_class else [None]:
        mine = np.flatnonzero(theirs == label) if by_class else np.arange(len(theirs))
        pool = conditioned[labels == label] if by_class else conditioned
        if len(pool):
            turns = -(-len(mine) // len(pool))
            drawn = np.concatenate([rng.permutation(pool) for _ in range(turns)])[: len(mine)]
            held, beside = [*held, mine], [*beside, drawn]
    return np.concatenate([none, *held]), np.concatenate([none, *beside])


def _read_file(path: Path, sets: Sets) -> dict[str, str]:
    """Read the training image of each synthetic one from a table of pairs.

    Raises:
        InputError: The file does not hold such a table, or names a synthetic image that is not there, or one twice.
    """
    table = read_described(path)
    for name in ("synthetic_image", "training_image"):
        if name not in table:
            raise InputError(f"{one_line(path)}: a table of pairs needs the columns synthetic_image and training_image")
    synthetic_images = [str(value) for value in table["synthetic_image"]]
    twice = [image for image, n in Counter(synthetic_images).items() if n > 1]
    if twice:
        raise InputError(f"{one_line(path)}: {plural(len(twice), 'image is', 'images are')} paired twice "
                         f"({listed(twice)})")  # fmt: skip
    place = _places(sets.synthetic)
    unread = {str(value) for value in sets.synthetic.skipped["image"]}
    unknown = sorted(image for image in synthetic_images if image not in place and image not in unread)
    if unknown:
        raise InputError(
            f"{one_line(path)}: {plural(len(unknown), 'image is', 'images are')} not in SYNTHETIC ({listed(unknown)})"
        )
    images = sets.synthetic.manifest.images
    return {
        images[place[image]]: str(real)
        for image, real in zip(synthetic_images, table["training_image"], strict=True)
        if image in place
    }


def _places(store: ImageStore) -> dict[str, int]:
    """Return rows by the path of the file, where it is one image's own, and by id."""
    paths = store.manifest.table["path"].astype(str).tolist()
    rows = {path: row for row, path in enumerate(paths)} if len(set(paths)) == len(paths) else {}
    return rows | {str(image): row for row, image in enumerate(store.manifest.images)}


BINS = 48
_SAMPLE = 4096  # pairs that the ends of the bins are read from


@dataclass(frozen=True, eq=False)
class LogitHistogram:
    """Numbers of pairs by their logit."""

    edges: np.ndarray
    """Edges of the bins, [b + 1]; logits beyond them are counted in the outermost bins."""
    counts: dict[str, np.ndarray]
    """Counts by kind of pair, [b]; without pairs of one patient where no patient has two images."""
    itself: float
    """Logit of an image and itself."""
    above_itself: int
    """Number of pairs of two patients that reach it, from which the detector cannot tell an exact copy."""


def logit_histogram(similarity: HeadSimilarity, found: FeatureTables, sets: Sets) -> LogitHistogram:
    """Count the pairs of real images, training and held out alike, and those of the set with the training images.

    Args:
        similarity: Similarity of the detector, whose search looks at all pairs.
        found: Features of the detector.
        sets: Images with their patients.
    """
    real = np.concatenate([found.train, found.held])
    names = [sets.train.manifest.groups.astype(str)]
    if sets.held is not None:
        names.append(np.char.add("held out: ", sets.held.manifest.groups.astype(str)))
    groups = np.concatenate(names)
    head, search = similarity.head, similarity.search
    edges = _edges(head, real, found.synthetic)
    wide = np.array([-np.inf, *edges[1:-1], np.inf])
    between = search.survey(real, None, head, edges=wide, threshold=head.bias, limit=0, exclude_same=groups)
    beside = search.survey(found.synthetic, found.train, head, edges=wide).counts
    assert between.counts is not None
    assert between.pairs is not None
    assert beside is not None
    counts = {TWO_IDENTITIES: between.counts, SET_TO_TRAINING: beside}
    if len(np.unique(groups)) < len(groups):
        everything = search.survey(real, None, head, edges=wide).counts
        assert everything is not None
        counts[SAME_IDENTITY] = everything - between.counts
    return LogitHistogram(edges, counts, head.bias, between.pairs.count)


def _edges(head: Head, real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """Return bins between a low and a high logit of random pairs, with the logit 0 on an edge."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(len(real), size=(2, _SAMPLE))
    synthetic_rows, beside = rng.integers(len(synthetic), size=_SAMPLE), rng.integers(len(real), size=_SAMPLE)
    logits = [
        pairs.rowwise(real[one], real[other], head.weight, head.bias),
        pairs.rowwise(synthetic[synthetic_rows], real[beside], head.weight, head.bias),
    ]
    low = min(float(np.quantile(np.concatenate(logits), 0.001)), -1.0)
    high = max(head.bias, float(np.max(np.concatenate(logits))), 1.0)
    step = (high - low) / BINS
    return step * np.arange(np.floor(low / step), np.ceil(high / step) + 1)


@dataclass(frozen=True, eq=False)
class DetectorView:
    """The sets as one detector sees them."""

    name: str
    """Name of the detector in the report."""
    features: FeatureTables
    similarity: Similarity
    distances: Distances
    spread: LogitHistogram | None
    """Histogram of the logits; None without a head."""

    @property
    def has_head(self) -> bool:
        """Return whether the detector gives probabilities."""
        return self.spread is not None

    @property
    def measure(self) -> str:
        """Return the distance in words, with the fitted quantities."""
        if isinstance(self.similarity, MeasureSimilarity):
            return self.similarity.measure.plain_words
        return self.similarity.words if self.distances.of_parts else f"minus the {self.similarity.words}"


@dataclass(frozen=True, eq=False)
class SyntheticEvidence:
    """Sets, plants and findings of all detectors."""

    sets: Sets
    plants: Plants
    views: tuple[DetectorView, ...]
    copies: PixelCopies
    pairing: Pairing | None
    """Training image that each synthetic image was generated from; None where the user named none."""
    review: Review

    @cached_property
    def confirmed(self) -> list[Pair]:
        """Pairs that a person confirmed as copies."""
        return self.review.pairs(self.sets, self.review.confirmed)

    @cached_property
    def dismissed(self) -> list[Pair]:
        """Pairs that a person dismissed, which count nowhere else."""
        return sorted(self.copies.dismissed)


def probability(view: DetectorView, distance: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + exp(distance))`` of a head's distances, minus logits; NaN without a head."""
    return scipy.special.expit(-distance) if view.has_head else np.full(len(distance), np.nan)
