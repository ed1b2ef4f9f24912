"""Every distance of the audit, in six passes of the exact search, and the pairs that are equal or nearly so in pixels.

The direction that counts is from real images to the set (METHODS section 5); the other one describes. A distance is
minus what a detector calls likeness: that of a measure, or minus the logit of a head, which may be below 0.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from memorisk.audits.image_sets import is_blank
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.measuring import FeatureTables
from memorisk.audits.synthetic.reviewing import NOTHING, Review
from memorisk.audits.synthetic.sets import Sets
from memorisk.images.duplicates import NEAR
from memorisk.images.near_copies import BestMatches, best_matches, thumbnails
from memorisk.images.orientations import same_pixels
from memorisk.runs.progress import Progress
from memorisk.scores.similarity import Similarity
from memorisk.statistics.image_counts import counted_images

FloatArray = np.ndarray


@dataclass(frozen=True, eq=False)
class Distances:
    """Nearest neighbours between the sets; plants never count as part of the synthetic set."""

    train: FloatArray
    """[N] of each training image to the synthetic set."""
    train_nearest: np.ndarray
    """[N] the synthetic image."""
    standing: FloatArray
    """[N] the same without pairs that a person dismissed; as far as any where none is left."""
    standing_nearest: np.ndarray
    """[N] the synthetic image."""
    held: FloatArray
    """[M] of each held-out image to the synthetic set."""
    held_nearest: np.ndarray
    """[M] the synthetic image."""
    synthetic: FloatArray
    """[S] of each synthetic image to the training images."""
    nearest: np.ndarray
    """[S] the training image."""
    second: FloatArray
    """[S] to the nearest training image of another patient."""
    plants: FloatArray
    """[P] of each plant to the training images."""
    plant_source: FloatArray
    """[P] to the nearest image of its source's patient: what that patient's distance to the set would be with it."""
    held_to_train: FloatArray
    """[M] of each held-out image to the training images."""
    held_to_train_nearest: np.ndarray
    """[M] the training image."""
    among_train: FloatArray
    """[N] of each training image to those of other patients."""
    among_real: np.ndarray
    """[R] place among ``among_rows`` of the nearest image of another patient; empty without held-out images."""
    among_rows: np.ndarray
    """[R] of training images, then held-out ones, those that count: all, or one a patient where their numbers are not
    alike (`memorisk.statistics.image_counts`), since whoever has more images is more often the nearest."""


@dataclass(frozen=True, eq=False)
class PixelCopies:
    """Synthetic images whose pixels are those of real ones, or nearly; whatever the features say."""

    identical: np.ndarray
    """[S] row of the first training image with the same pixels, as it is, mirrored or turned by quarters; -1 for none;
    blank images are no copies."""
    orientation: np.ndarray
    """[S] place in `memorisk.images.orientations.ORIENTATIONS`: what is done to the synthetic image to give the
    training image, or, where there is none, the held-out one; -1 where neither is."""
    in_both: np.ndarray
    """[S] whether these pixels are a held-out image's, too, so that they are nobody's for certain."""
    identical_held: np.ndarray
    """[S] likewise of a held-out image, and no training image's; -1 for none."""
    of_set: BestMatches
    """[S] most similar training image."""
    of_train: BestMatches
    """[N] most similar synthetic image."""
    of_held: BestMatches
    """[M] likewise."""
    thumbnails: np.ndarray
    """[S, 32, 32] of the synthetic images."""
    dismissed_identical: frozenset[tuple[int, int]] = frozenset()
    """Rows of the synthetic and training images of dismissed pairs with equal pixels that no held-out image has."""
    dismissed_near: frozenset[tuple[int, int]] = frozenset()
    """Of the other dismissed pairs those that are nearly identical."""


def compare(
    found: FeatureTables,
    similarity: Similarity,
    sets: Sets,
    plants: Plants,
    progress: Progress,
    *,
    review: Review = NOTHING,
    device: str = "cpu",
) -> Distances:
    """Nearest neighbours in all directions that the audit needs.

    Args:
        found: Features.
        similarity: What compares them, fitted on the real ones.
        sets: For the patients.
        plants: For their sources.
        progress: Called with (stage, done, total).
        review: What a person said of pairs.
        device: Where to search; the distances are the same.

    Raises:
        InputError: The measure does not take some rows, or the device is not there.
    """
    patients = sets.train.manifest.groups.astype(str)

    def ask(queries: np.ndarray, references: np.ndarray, stage: int, exclude=None) -> tuple[np.ndarray, np.ndarray]:
        """Distance and row of the nearest reference."""
        progress("comparing", stage, 6)
        return _nearest(similarity, queries, references, exclude, device)

    n = len(found.train)
    train, train_nearest = ask(found.train, found.synthetic, 0)  # tables one by one: together they would be copied
    held, held_nearest = ask(found.held, found.synthetic, 0)
    held_to_train, held_to_train_nearest = ask(found.held, found.train, 1)
    synthetic, ours = ask(found.synthetic, found.train, 1)
    plants_to_train, _ = ask(found.plants, found.train, 1)
    second, _ = ask(found.synthetic, found.train, 2, exclude=(patients[ours], patients))
    among, _ = ask(found.train, found.train, 3, exclude=(patients, patients))
    among_real = among_rows = np.empty(0, dtype=np.int64)
    if sets.held is not None:
        real_images = np.concatenate([found.train, found.held])
        theirs = np.char.add("held out: ", sets.held.manifest.groups.astype(str))
        counted = counted_images(patients, theirs)
        among_rows = np.concatenate([counted.train, n + counted.held])
        everybody, real_images = np.concatenate([patients, theirs])[among_rows], real_images[among_rows]
        _, among_real = ask(real_images, real_images, 4, exclude=(everybody, everybody))
    standing, standing_nearest = _standing(found, similarity, sets, review, train, train_nearest)
    progress("comparing", 5, 6)
    return Distances(
        train=train,
        train_nearest=train_nearest,
        standing=standing,
        standing_nearest=standing_nearest,
        held=held,
        held_nearest=held_nearest,
        synthetic=synthetic,
        nearest=ours,
        second=second,
        plants=plants_to_train,
        plant_source=_to_source(found, similarity, plants, patients),
        held_to_train=held_to_train,
        held_to_train_nearest=held_to_train_nearest,
        among_train=among,
        among_real=among_real,
        among_rows=among_rows,
    )


def _standing(
    found: FeatureTables,
    similarity: Similarity,
    sets: Sets,
    review: Review,
    distance: FloatArray,
    nearest: np.ndarray,
) -> tuple[FloatArray, np.ndarray]:
    """Distance and row of the nearest synthetic image of each training image when dismissed pairs are left out."""
    standing, at = distance.copy(), nearest.copy()
    for row, left in review.left_of(sets):
        standing[row] = distance.max()
        if len(left):
            d, place = _nearest(similarity, found.train[row : row + 1], found.synthetic[left], None, "cpu")
            standing[row], at[row] = d[0], left[place[0]]
    return standing, at


def _nearest(
    similarity: Similarity, queries: np.ndarray, references: np.ndarray, exclude, device: str
) -> tuple[FloatArray, np.ndarray]:
    """Distance and row of the nearest reference."""
    if not len(queries):
        return np.empty(0), np.empty(0, dtype=np.int64)
    found = similarity.nearest(queries, references, exclude_same=exclude, device=device)
    return -found.scores[:, 0], found.rows[:, 0]


def compare_pixels(sets: Sets, progress: Progress, review: Review = NOTHING) -> PixelCopies:
    """Synthetic images with the pixels of a real one, and for every image the most similar one of the other side.

    Args:
        sets: The images.
        progress: Called with (stage, done, total).
        review: Pairs that a person dismissed are no copies; the next similar image takes their place.
    """
    made = [
        np.empty((0, 32, 32), dtype=np.uint8)
        if store is None
        else thumbnails(store.images, progress=partial(progress, f"looking at {what} images"))
        for what, store in (("training", sets.train), ("synthetic", sets.synthetic), ("held-out", sets.held))
    ]
    counted = partial(progress, "looking for near copies")
    of_train, of_set = best_matches(made[0], made[1], progress=counted)
    of_held, _ = best_matches(made[2], made[1])
    for row, left in review.left_of(sets):
        again, _ = best_matches(made[0][row : row + 1], made[1][left])
        of_train.row[row] = left[again.row[0]] if len(left) else of_train.row[row]
        of_train.similarity[row], of_train.mirrored[row] = again.similarity[0], again.mirrored[0]
    same = same_pixels(sets.synthetic, sets.train)
    of_training, copied = same.row, sets.train.pixel_hashes[same.row]  # the last one's hash where there is none
    same_held = None if sets.held is None else same_pixels(sets.synthetic, sets.held)
    held = np.full_like(of_training, -1) if same_held is None else same_held.row
    orientation = same.orientation if same_held is None else np.where(
        of_training >= 0, same.orientation, same_held.orientation
    )  # fmt: skip
    for rows in (of_training, held):
        some = np.flatnonzero(rows >= 0)
        rows[some[is_blank(sets.synthetic, some)]] = -1
    shared = (held >= 0) | np.array([value in sets.shared_hashes for value in copied], dtype=bool)
    in_both, of_held_out = shared & (of_training >= 0), np.where(of_training >= 0, -1, held)
    certain = (of_training >= 0) & ~in_both
    hashes = sets.synthetic.pixel_hashes
    of_training[[pair in review.dismissed for pair in zip(hashes, copied, strict=True)]] = -1
    pairs = review.pairs(sets, review.dismissed)
    equal = frozenset((s, r) for s, r in pairs if certain[s] and copied[s] == sets.train.pixel_hashes[r])
    alike = frozenset(
        (s, r) for s, r in pairs if near(best_matches(made[0][r : r + 1], made[1][s : s + 1])[0])[0]
    )  # fmt: skip
    return PixelCopies(
        of_training, orientation, in_both & (of_training >= 0), of_held_out, of_set, of_train, of_held,
        made[1], equal, alike - equal,
    )  # fmt: skip


def near(matches: BestMatches) -> np.ndarray:
    """[n] whether an image has a near copy on the other side."""
    return matches.similarity >= NEAR


def _to_source(found: FeatureTables, similarity: Similarity, plants: Plants, patients: np.ndarray) -> FloatArray:
    """[P] distance of each plant to the nearest image of the patient whose image it copies."""
    least = []
    for i, row in enumerate(plants.source):
        images = found.train[patients == patients[row]]
        least.append(-similarity.scores(np.repeat(found.plants[i : i + 1], len(images), axis=0), images).max())
    return np.array(least, dtype=np.float64)
