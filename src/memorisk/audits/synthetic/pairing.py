"""Paired mode (paper 004, section 3.2): each synthetic image beside the training image that it was conditioned on.

MemRate is the share of these pairs that a detector calls one identity: P > 0.5 by a head, elsewhere a score that misses
at most 5 % of the planted copies (`statistics.pairs.guarantee`, one plant of each source). Its value on real images
nobody generated stands beside it: each held-out image with a random one of the training images that were conditioned
on, of its own class where both have one. What a detector calls identical there is its false alarms, of which MemRate
holds as many.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.audits.synthetic.comparing import Distances
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.measuring import FeatureTables
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.columns import read_described
from memorisk.images.store import ImageStore
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, several
from memorisk.scores.similarity import Similarity
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.memorization_rate import MemorizationRate, memorization_rate, rate_difference
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.guarantee import MissGuarantee, miss_guarantee

MISS_RATE = 0.05
"""Of planted copies, where a detector has no probabilities."""
_STREAM = 59  # keeps these draws apart from others of the same seed


@dataclass(frozen=True, eq=False)
class Pairing:
    """Who was generated from whom, and who stands beside them."""

    synthetic: np.ndarray
    """[P] row of the synthetic image."""
    train: np.ndarray
    """[P] row of the training image that it was conditioned on."""
    unpaired: int
    """Synthetic images of which that was not said."""
    held: np.ndarray
    """[K] row of a held-out image; none without held-out images."""
    beside: np.ndarray
    """[K] row of the training image that it is compared with."""


@dataclass(frozen=True, eq=False)
class PairedFindings:
    """What one detector says of the pairs."""

    score: np.ndarray
    """[P] larger = more alike."""
    threshold: float
    """Above it a pair counts as memorized; NaN where there is none."""
    calibrated: MissGuarantee | None
    """What the threshold promises; None of a head, whose probability is its own threshold."""
    memorized: np.ndarray
    """[P]."""
    rate: MemorizationRate | None
    """MemRate over training patients; None without a threshold."""
    held_rate: MemorizationRate | None
    """The same on held-out images, over held-out patients."""
    excess: JackknifeInterval | None
    """MemRate less that; None without held-out images."""


def read_pairing(named: str | None, sets: Sets, seed: int) -> Pairing | None:
    """Who was generated from whom.

    Args:
        named: A column of the synthetic images' table with ids of training images, or a table of pairs; None for none.
        sets: The images.
        seed: Of the training images that stand beside the held-out ones.

    Raises:
        InputError: There is neither such a column nor such a file, an image is unknown or paired twice, or no image is
            paired.
    """
    if named is None:
        return None
    made = sets.synthetic.manifest
    column = next((name for name in (named, f"user_{named}") if name in made.table), None)
    source = {}
    if column is not None:
        source = dict(zip(made.images, (str(value) for value in made.table[column].fillna("")), strict=True))
    elif Path(named).is_file():
        source = _read_file(Path(named), sets)
    else:
        known = listed([str(name) for name in made.table.columns], 12)
        raise InputError(f"paired {one_line(named, 60)!r} is neither a column of SYNTHETIC (it has {known}) nor a file")
    place = _places(sets.train)
    rows = [row for row, image in enumerate(made.images) if source.get(image, "")]
    unknown = sorted({source[made.images[row]] for row in rows} - set(place))
    if unknown:
        raise InputError(
            f"paired {one_line(named, 60)!r} names {several(len(unknown), 'training image', 'training images')} that "
            f"TRAIN does not have ({listed(unknown)}): give their ids as in TRAIN"
        )
    if not rows:
        raise InputError(f"paired {one_line(named, 60)!r} names a training image for none of the synthetic ones")
    train = np.array([place[source[made.images[row]]] for row in rows], dtype=np.int64)
    held, beside = _beside(sets, train, seed)
    return Pairing(np.array(rows, dtype=np.int64), train, made.n - len(rows), held, beside)


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
    """What one detector says of the pairs.

    Args:
        pairing: The pairs.
        found: Its features.
        similarity: What compares them.
        distances: Of its plants.
        plants: For their sources.
        sets: For the patients.
        seed: Of the plant drawn from each source.
        dismissed: [P] pairs that a person dismissed: they are not memorized.
    """
    patients = sets.train.manifest.groups.astype(str)
    score = similarity.scores(found.synthetic[pairing.synthetic], found.train[pairing.train])
    threshold, calibrated = float(similarity.at_half), None
    if np.isnan(threshold) and plants.n:
        source = patients[plants.source]
        calibrated = miss_guarantee(-distances.plant_source[one_per_group(source, seed=seed)], miss_rate=MISS_RATE)
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


def _beside(sets: Sets, train: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every held-out image with a random training image that was conditioned on, of its class where both have one."""
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
    """The training image of each synthetic one, from a table of pairs.

    Raises:
        InputError: It is no such table, names a synthetic image that is not there, or one twice.
    """
    table = read_described(path)
    for name in ("synthetic_image", "training_image"):
        if name not in table:
            raise InputError(f"{one_line(path)}: a table of pairs needs the columns synthetic_image and training_image")
    made = [str(value) for value in table["synthetic_image"]]
    twice = [image for image, n in Counter(made).items() if n > 1]
    if twice:
        raise InputError(f"{one_line(path)}: {several(len(twice), 'image is', 'images are')} paired twice "
                         f"({listed(twice)})")  # fmt: skip
    place = _places(sets.synthetic)
    unread = {str(value) for value in sets.synthetic.skipped["image"]}
    unknown = sorted(image for image in made if image not in place and image not in unread)
    if unknown:
        raise InputError(
            f"{one_line(path)}: {several(len(unknown), 'image is', 'images are')} not in SYNTHETIC ({listed(unknown)})"
        )
    images = sets.synthetic.manifest.images
    return {
        images[place[image]]: str(real)
        for image, real in zip(made, table["training_image"], strict=True)
        if image in place
    }


def _places(store: ImageStore) -> dict[str, int]:
    """Rows by the path of the file, where it is one image's own, and by id."""
    paths = store.manifest.table["path"].astype(str).tolist()
    found = {path: row for row, path in enumerate(paths)} if len(set(paths)) == len(paths) else {}
    return found | {str(image): row for row, image in enumerate(store.manifest.images)}
