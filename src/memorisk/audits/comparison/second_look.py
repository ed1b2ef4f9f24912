"""The second look: synthetic images are laid on training images, and the details that coincide are compared.

The second look takes synthetic images of flagged pairs (`audits.synthetic.flags`), then those nearest to a training
one, up to `MOST_IMAGES`. Each is laid on its flagged training images and on its `CANDIDATES` nearest by each detector.
The alignment is refined for flagged images, for the `REFINED` on which the image lies best in any position, and for the
`REFINED` on which it lies best unmoved. A pair is confirmed beyond a cut of `statistics.copies.alignments`, in windows
of any size: fewer than `EXPECTED_PAIRS` synthetic images of the whole set are expected there if no one was copied.

Volumes are laid on volumes (`images.copies.alignment`), with the same null and cuts.

Pixels whose details are mostly the same in all real people, as along the edge of a round field, are left out of the
training and held-out images: they would align with anybody's.

The null has two parts of up to `MOST_IMAGES` images each: one image of each held-out person, laid on its nearest
training images, shows how alike two people are; random synthetic images, laid on their nearest *held-out* images, show
how alike this generator's images (smooth, of few kinds) are to people that it never saw. The report shows how many
images of the second part are beyond a cut. Confirmed pairs are a doubt and fail no set.

Planted copies are looked at in the same way. One that is confirmed with the right person, and that would have been
looked at, counts as noticed: a copy like it would have kept a pass away. Nothing is looked at without held-out images.
Pairs that a person dismissed are not looked at.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from memorisk.audits.comparison.distances import Candidates
from memorisk.audits.comparison.evidence import Pair, SyntheticEvidence
from memorisk.audits.comparison.kept_alignments import KeptAlignments
from memorisk.audits.synthetic.result import WindowCut
from memorisk.images.copies.alignment import (
    LARGEST_CORRELATION,
    WINDOWS,
    Alignment,
    CopyDetails,
    Pose,
    SourceDetails,
    best_alignment,
    copy_details,
    find_pose,
    refine,
    shared_pixels,
    source_details,
    unmoved_pose,
)
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.images.volumes import is_volume
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.alignments import AlignmentCut, alignment_cut
from memorisk.statistics.copies.calibration import one_per_group
from memorisk.statistics.copies.planted_copies import plant_power
from memorisk.statistics.intervals.shares import Proportion

MOST_IMAGES = 200
"""Largest number of synthetic images, and of images of either part of the null: the cost is bounded for any set."""
REFINED = 4
"""Number of candidates that are refined from each kind of start, which costs more than finding a pose."""
_MOST_FLAGGED = 3  # flagged training images of one synthetic image
_KEPT_BYTES = 50_000_000  # of details in memory


@dataclass(frozen=True)
class AlignedPair:
    """A synthetic image and the training image that it lies on best."""

    synthetic: int
    train: int
    alignment: Alignment
    confirmed: bool
    """Whether its strength in windows of some size is beyond the cut."""


@dataclass(frozen=True, eq=False)
class SecondLook:
    """Outcome of the second look."""

    cut: AlignmentCut
    """Cuts from the null: both parts, and the second alone."""
    null: np.ndarray
    """Largest strengths of one image of each held-out person with its candidates, [people, W]."""
    control: np.ndarray
    """Largest strengths of random synthetic images with their held-out candidates, [images, W]."""
    pairs: tuple[AlignedPair, ...]
    """Confirmed pairs of each image with details that was looked at, or else its best pair; the most similar first."""
    n_images: int
    """Number of synthetic images that were looked at."""
    n_left: int
    """Number of synthetic images of flagged pairs that were not looked at: those beyond `MOST_IMAGES`."""
    plants: np.ndarray
    """Whether a planted copy would have been looked at and is confirmed with the right person, [P]."""
    kinds: dict[str, Proportion]
    """Share of all plants of each required kind that is confirmed, over sources; empty without plants."""
    dimensions: int = 2
    """Number of dimensions of a window: 3 for volumes."""

    @property
    def windows(self) -> tuple[WindowCut, ...]:
        """Return for each size of windows the correlation of details from which on a pair is confirmed."""
        most = math.atanh(LARGEST_CORRELATION)
        root = self.dimensions / 2  # the strength has the root of the share of the image that a window covers
        reached = [(share, strength / share**root) for share, strength in zip(WINDOWS, self.cut.values, strict=True)]
        return tuple(WindowCut(share, math.tanh(z) if z < most else None) for share, z in reached)

    @property
    def looked(self) -> bool:
        """Return whether a pair could be confirmed, in windows of some size."""
        return any(window.correlation is not None for window in self.windows)

    @property
    def n_control_beyond(self) -> int:
        """Return the number of synthetic images that lie on a held-out image as confirmed pairs do."""
        return int(self.cut.confirmed(self.control).sum())

    @property
    def confirmed(self) -> list[AlignedPair]:
        """Return the pairs beyond the cut."""
        return [pair for pair in self.pairs if pair.confirmed]


def look_again(
    evidence: SyntheticEvidence,
    flagged: Iterable[Pair],
    seed: int,
    progress: Progress = no_progress,
    alignments: KeptAlignments | None = None,
) -> SecondLook | None:
    """Lay synthetic images on training images.

    Args:
        evidence: Evidence of the images.
        flagged: Rows of the pairs to look at, the most urgent first.
        seed: Seed of the draw of images for the null.
        progress: Called with (stage, done, total).
        alignments: Alignments of before, with which a killed audit resumes; None to start anew.

    Returns:
        Outcome of the second look; None without synthetic images, without held-out images, or where distances were
        computed without candidates.
    """
    made_images, held_store = evidence.sets.synthetic.images, evidence.sets.held
    few = [view.distances.candidates for view in evidence.views]
    candidates = [each for each in few if each is not None]
    if not len(made_images) or held_store is None or len(candidates) < len(few):
        return None
    alignments = alignments or KeptAlignments()
    dismissed = evidence.copies.dismissed
    by_image = _asked(flagged, dismissed)
    looked = dict(list(by_image.items())[:MOST_IMAGES])
    orders = [np.argsort(view.distances.synthetic, kind="stable") for view in evidence.views]
    for image in np.stack(orders, axis=1).ravel().tolist():
        if len(looked) < MOST_IMAGES:
            looked.setdefault(image, [])
    rng = np.random.default_rng([67, seed])
    people = rng.permutation(one_per_group(held_store.manifest.groups.astype(str), seed=seed))[:MOST_IMAGES]
    shared = _shared_pixels(evidence.sets.train, held_store, people, seed)
    train, held = KeptDetails(evidence.sets.train.images, shared), KeptDetails(held_store.images, shared)
    null = _largest(
        held_store.images, people, [c.held for c in candidates], train, progress, alignments, "held-out images"
    )
    some = rng.permutation(len(made_images))[:MOST_IMAGES]
    control = _largest(
        made_images, some, [c.synthetic_held for c in candidates], held, progress, alignments, "a control"
    )
    trials = len(made_images) + sum(map(len, looked.values()))
    cut = alignment_cut(null, control, trials)
    pairs = []
    for number, (image, flags) in enumerate(looked.items()):
        progress("laying pairs on one another", number, len(looked))
        near = [row for row in _union(each.synthetic[image] for each in candidates) if (image, row) not in dismissed]
        aligned = alignments(("pairs", image, near, flags), partial(_lay, made_images[image], near, train, flags))
        beyond = [pair for pair in aligned if cut.confirmed(pair[1].strengths)] or aligned[:1]
        pairs += [AlignedPair(image, row, how, bool(cut.confirmed(how.strengths))) for row, how in beyond]
    pairs.sort(key=lambda pair: (-pair.alignment.similarity, pair.synthetic, pair.train))
    near = _as_near(evidence, MOST_IMAGES - min(len(by_image), MOST_IMAGES))
    plants, kinds = _plants(evidence, candidates, train, cut, near, seed, progress, alignments)
    n_left = max(0, len(by_image) - MOST_IMAGES)
    dimensions = 3 if is_volume(made_images.shape) else 2
    return SecondLook(cut, null, control, tuple(pairs), len(looked), n_left, plants, kinds, dimensions)


def _shared_pixels(train: ImageStore, held: ImageStore, held_people: np.ndarray, seed: int) -> np.ndarray:
    """Find the pixels that all real people share, from up to `MOST_IMAGES` people of either part.

    Args:
        train: Training images.
        held: Held-out images.
        held_people: Rows of one image of each of some held-out people.
        seed: Seed of the training people that are drawn.
    """
    rng = np.random.default_rng([67, seed, 1])
    train_people = rng.permutation(one_per_group(train.manifest.groups.astype(str), seed=seed))[:MOST_IMAGES]
    parts = ((train.images, train_people), (held.images, held_people))
    return shared_pixels(np.asarray(images[row]) for images, rows in parts for row in rows.tolist())


class KeptDetails:
    """Details of images, computed at their first use, and some of them kept.

    Args:
        images: Images [h, w, c] or volumes [H, W, D], n of them.
        shared: Pixels that all people share, which are left out (`shared_pixels`); None to leave none out.
    """

    def __init__(self, images: Sequence[np.ndarray] | np.ndarray, shared: np.ndarray | None = None) -> None:
        self.images, self.shared, self.kept = images, shared, dict[int, SourceDetails]()

    def __call__(self, row: int) -> SourceDetails:
        """Return the details of one image."""
        if row not in self.kept:
            details = source_details(np.asarray(self.images[row]), self.shared)
            if (len(self.kept) + 1) * details.nbytes > _KEPT_BYTES:
                self.kept.pop(next(iter(self.kept)))
            self.kept[row] = details
        return self.kept[row]


def _asked(flagged: Iterable[Pair], dismissed: frozenset[Pair]) -> dict[int, list[int]]:
    """Return the training images of each synthetic image, in the order of the flags."""
    by_image: dict[int, list[int]] = {}
    for image, real in flagged:
        if (image, real) not in dismissed:
            rows = by_image.setdefault(image, [])
            if real not in rows and len(rows) < _MOST_FLAGGED:
                rows.append(real)
    return by_image


def _union(rows: Iterable[np.ndarray]) -> list[int]:
    """Return rows in order, each once, without places that hold none."""
    return list(dict.fromkeys(int(row) for some in rows for row in some if row >= 0))


def lay_on_nearest(
    copy: CopyDetails, near: Sequence[int], details: KeptDetails, flagged: Sequence[int] = ()
) -> list[tuple[int, Alignment]]:
    """Align an image with flagged images and with the best of those that are near.

    Args:
        copy: Details of the image that may be a copy.
        near: Rows of its nearest images, of which the `REFINED` are refined that lie best in any pose, and the
            `REFINED` that lie best unmoved.
        details: Details of the images that the rows count.
        flagged: Rows of images that are refined whatever their pose.

    Returns:
        Rows and alignments, the most similar first.
    """
    rows = dict.fromkeys([*flagged, *near])
    tried: list[tuple[int, Pose]] = []
    for start in (find_pose, unmoved_pose):
        poses = {row: pose for row in rows if (pose := start(copy, details(row))) is not None}
        best = sorted((row for row in near if row in poses), key=lambda row: (-poses[row].agreement, row))[:REFINED]
        tried += [(row, poses[row]) for row in dict.fromkeys([*flagged, *best]) if row in poses]
    laid: dict[int, Alignment] = {}
    for row, pose in tried:
        best_of_row = best_alignment((laid.get(row), refine(copy, details(row), pose)))
        if best_of_row is not None:
            laid[row] = best_of_row
    return sorted(laid.items(), key=lambda pair: (-pair[1].similarity, pair[0]))


def largest_strengths(aligned: Sequence[tuple[int, Alignment]]) -> np.ndarray:
    """Return the largest strengths over one image's alignments, [W], in windows of each size; 0 where none exist."""
    return np.max([how.strengths for _, how in aligned] or [np.zeros(len(WINDOWS))], axis=0)


def _lay(
    image: np.ndarray, near: Sequence[int], details: KeptDetails, flagged: Sequence[int] = ()
) -> list[tuple[int, Alignment]]:
    """Do what `lay_on_nearest` does, for pixels [h, w, c] or voxels [H, W, D]."""
    return lay_on_nearest(copy_details(np.asarray(image)), near, details, flagged)


def _largest(
    images: Sequence[np.ndarray] | np.ndarray,
    rows: np.ndarray,
    few: Sequence[np.ndarray],
    details: KeptDetails,
    progress: Progress,
    kept: KeptAlignments,
    what: str,
) -> np.ndarray:
    """Return the largest strengths of each of some images with its candidates, [n, W]; 0 for images without details."""
    largest = np.zeros((len(rows), len(WINDOWS)))
    for number, row in enumerate(rows.tolist()):
        progress(f"laying {what} on their nearest", number, len(rows))
        near = _union(each[row] for each in few)
        aligned = kept((what, row, near), partial(_lay, images[row], near, details))
        largest[number] = largest_strengths(aligned)
    return largest


def _plants(
    evidence: SyntheticEvidence,
    candidates: Sequence[Candidates],
    train: KeptDetails,
    cut: AlignmentCut,
    looked: np.ndarray,
    seed: int,
    progress: Progress,
    kept: KeptAlignments,
) -> tuple[np.ndarray, dict[str, Proportion]]:
    """Return which of the plants that would be looked at are confirmed with the right person, [P]."""
    plants, patients = evidence.plants, evidence.sets.train.manifest.groups.astype(str)
    confirmed = np.zeros(plants.n, bool)
    for number, at in enumerate(np.flatnonzero(looked).tolist()):
        progress("laying planted copies on their candidates", number, int(looked.sum()))
        near = _union(each.plants[at] for each in candidates)
        copy = plants.pixels[at]
        aligned = kept(("planted copies", hash_pixels(copy), near), partial(_lay, copy, near, train))
        whose = patients[[row for row, how in aligned if cut.confirmed(how.strengths)]]
        confirmed[at] = patients[plants.source[at]] in whose
    required = plants.required
    sources, kinds = patients[plants.source[required]], plants.kind[required].tolist()
    return confirmed, plant_power(confirmed[required], sources, kinds=kinds, seed=seed).kinds


def _as_near(evidence: SyntheticEvidence, places: int) -> np.ndarray:
    """Return whether a plant is as near as the images that are looked at for being near, [P].

    Images are taken in turn by each detector, the nearest first, each once. A copy like the plant would take a place
    among them. Flagged images have taken their places before: a copy beyond those that are left would not be looked
    at, and counts as not noticed.

    Args:
        evidence: Evidence of the images.
        places: Number of images that are looked at in addition to flagged ones.
    """
    distances = [view.distances for view in evidence.views]
    in_turn = np.stack([np.argsort(d.synthetic, kind="stable") for d in distances], axis=1).ravel()
    new = np.zeros(len(in_turn), bool)
    new[np.unique(in_turn, return_index=True)[1]] = True
    rounds = int((np.cumsum(new) < places).sum()) // len(distances)
    if not rounds:
        return np.zeros(evidence.plants.n, bool)
    if rounds == len(evidence.sets.synthetic.images):
        return np.ones(evidence.plants.n, bool)
    return np.any([d.plants <= np.partition(d.synthetic, rounds - 1)[rounds - 1] for d in distances], axis=0)
