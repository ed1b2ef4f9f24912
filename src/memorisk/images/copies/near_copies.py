"""Images that are nearly the same, in one set or across two, and images with the very pixels of another one.

1. `copy_rule` learns three things from real images: what all of them share (`fit_whitening`); the least similarity of
   thumbnails at which fewer than 0.01 pairs of different people are expected in the whole set
   (`statistics.copies.pairs_of_people`); the least correlation of fine details that confirms a candidate
   (`fine_rule`).
2. `near_copies` finds the pairs of one set, `near_copies_between` those of two: all pairs, exactly, in bounded
   memory. Candidates come from thumbnails and are confirmed as stored.
3. `same_pixels` finds images with the pixels of another one, as it is, mirrored or turned: the person in one is
   also in the other.

The guarantee: among all pairs of different people of the set from which the rule was learned, fewer than
`chance.expected` are expected to be confirmed by chance. It does not cover pairs that are not confirmed (a turned,
cropped or redrawn copy is not found), and it does not identify the person in an image: only records show that two ids
are two people. Do not drop a person who merely looks like another.

**Without ids of people every image counts as its own person.** Several images of one person then raise the
threshold, so that fewer copies are found; where such pairs are most of the tail, none are.

The guarantee covers pairs: if A is like B and B is like C, nothing follows for A and C. To join pairs to groups
use `statistics.pairs.identity_pairs.cliques`, in which every two images are a pair, and not connected components.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from memorisk.images.copies.details import (
    NULL_PAIRS,
    FineRule,
    PixelReader,
    Whitening,
    fine_rule,
    fit_whitening,
    other_positions,
)
from memorisk.images.copies.duplicates import SIDE, closest_between_groups, near_pairs, thumbnail
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.images.volumes import is_volume
from memorisk.runs.arrays import scratch_array
from memorisk.runs.workload import CountProgress
from memorisk.statistics.copies.pairs_of_people import ChanceThreshold, chance_threshold, pairs_of_people, tail_depth

MAX_PAIRS = 20_000
"""Length of the longest list of pairs; each is compared as stored, at about 200 pairs a second."""
RULE_IMAGES = 20_000
"""Largest number of images from which a rule is learned; a search over all their pairs takes five seconds on a core."""
_ROUNDING = 1e-4  # products of vectors of length 1 in float32 are wrong by less
_MAX_CLOSEST_PAIRS = 1_000_000
"""Length of the longest list of pairs of images that is searched for the most similar pairs of people: 20 MB."""
ORIENTATIONS = (
    "as it is",
    "turned by 90 degrees",
    "turned by 180 degrees",
    "turned by 270 degrees",
    "mirrored",
    "mirrored, turned by 90 degrees",
    "mirrored, turned by 180 degrees",
    "mirrored, turned by 270 degrees",
    "turned over",
    "turned over, turned by 90 degrees",
    "turned over, turned by 180 degrees",
    "turned over, turned by 270 degrees",
    "turned over, mirrored",
    "turned over, mirrored, turned by 90 degrees",
    "turned over, mirrored, turned by 180 degrees",
    "turned over, mirrored, turned by 270 degrees",
)
"""Names of the four quarter turns, counterclockwise, of an image and of its mirror image (left to right); of a volume
also with its slices in reverse order, "turned over"."""
MIRRORED = ORIENTATIONS[4]


@dataclass(frozen=True, eq=False)
class CopyRule:
    """Rule by which two images are nearly the same: thresholds of thumbnails and of fine details."""

    whitening: Whitening
    """Whitening transform, by the mean and spread that all images of the set share, applied to thumbnails."""
    chance: ChanceThreshold
    """Threshold of thumbnails."""
    fine: FineRule
    """Threshold of fine details, at the stored resolution."""
    laid: str
    """Positions of a copy: "upright", "mirrored" (and upright), or "turned" by quarters and flipped
    (`other_positions`)."""
    ids_given: bool
    """Whether ids of people were given; else each image counts as its own person."""

    @property
    def not_looked_for(self) -> tuple[str, ...]:
        """Name the positions in which copies were not searched for, and the option to do so; empty if all were."""
        poses = {"upright": "mirrored or turned", "mirrored": "turned"}.get(self.laid)
        return () if poses is None else (f"Copies that are {poses} were not looked for (--turned).",)

    @property
    def words(self) -> str:
        """Return the rule and its assumptions, in plain sentences."""
        sentences = [self.chance.words]
        if self.chance.similarity is not None:
            sentences.append(
                (
                    "Thumbnails"
                    if self.chance.given
                    else "Images are stored no finer than a thumbnail, so that thumbnails"
                )
                + " alone confirm a pair."
                if self.fine.threshold is None
                else f"A pair is confirmed where fine details correlate above {self.fine.threshold:.2f} at "
                f"{self.fine.side} x {self.fine.side} pixels, as {self.fine.level:.1%} of pairs of different people do "
                f"that look most alike ({self.fine.n_pairs} such pairs)."
            )
        if not self.ids_given:
            sentences.append(
                "The source does not tell whose images these are, so that each counts as its own person's: several "
                "images of one person raise the threshold."
            )
        return " ".join(sentences)


@dataclass(frozen=True, eq=False)
class NearCopies:
    """Pairs of images whose thumbnails are nearly the same, the most similar first."""

    first: np.ndarray
    """Row of the first image, [P]; within one set the smaller row."""
    second: np.ndarray
    """Row of the second image, [P]."""
    similarity: np.ndarray
    """Correlation of the thumbnails, [P]."""
    fine: np.ndarray
    """Correlation of fine details, [P]; NaN where images are stored no finer than a thumbnail."""
    confirmed: np.ndarray
    """Whether the fine details confirm the pair, [P]."""
    laid: np.ndarray
    """Whether the images are more similar mirrored, or in another position of the rule, than as they are, [P]."""
    n_pairs: int
    """Number of pairs of thumbnails; larger than P where the list was cut at `MAX_PAIRS`."""

    def only(self, mask: np.ndarray) -> "NearCopies":
        """Select some of the pairs.

        Args:
            mask: Mask of the pairs to keep, [P] bool.
        """
        columns = ("first", "second", "similarity", "fine", "confirmed", "laid")
        return NearCopies(**{name: getattr(self, name)[mask] for name in columns}, n_pairs=int(mask.sum()))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the rows of the confirmed pairs."""
        return list(zip(self.first[self.confirmed].tolist(), self.second[self.confirmed].tolist(), strict=True))


NO_PAIRS = NearCopies(
    np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32), np.empty(0), np.empty(0, bool),
    np.empty(0, bool), 0,
)  # fmt: skip


@dataclass(frozen=True)
class BestMatches:
    """Most similar image of another set, for each image of a set."""

    row: np.ndarray
    """Row in the other set, the first of equals, [n]; -1 where that set is empty."""
    similarity: np.ndarray
    """Correlation of thumbnails, the largest over the positions of the rule, [n]; 0 where an image has no details."""
    laid: np.ndarray
    """Whether the similarity is larger mirrored, or in another position of the rule, than as the image is, [n]."""


def thumbnails(images: np.ndarray | Sequence[np.ndarray], *, progress: CountProgress | None = None) -> np.ndarray:
    """Make thumbnails [n, 32, 32] uint8 of images [n, H, W, C] (`duplicates.thumbnail`), read one by one.

    Args:
        images: Array or sequence of images; it may lie on the disk.
        progress: Function called with the number of images done and the number of all.
    """
    small = scratch_array((len(images), SIDE, SIDE), np.uint8)
    for row in range(len(images)):
        small[row] = thumbnail(np.asarray(images[row]))
        if progress is not None and (row + 1) % 256 == 0:
            progress(row + 1, len(images))
    return small


def copy_rule(
    small: np.ndarray,
    people: np.ndarray,
    read: PixelReader,
    *,
    laid: str = "upright",
    ids_given: bool = True,
    compared_with: int | None = None,
    progress: CountProgress | None = None,
) -> CopyRule:
    """Learn from real images the rule by which two images are nearly the same.

    Args:
        small: Thumbnails [n, 32, 32], one of each set of identical images, which do not show how similar different
            people are.
        people: Id of the person in each image, [n].
        read: Function that reads an image by its row.
        laid: Positions of a copy, as in `CopyRule`.
        ids_given: Whether ``people`` are ids of people; else they are ids of images.
        compared_with: Number of images that are compared with all these people; None where these are compared with
            each other.
        progress: Function called with the number of rows compared and the number of all.

    Source:
        METHODS section 6, "Near copies".
    """
    whitening = fit_whitening(small)
    names, who = np.unique(people, return_inverse=True)
    n_people = len(names)
    compared = n_people * (n_people - 1) // 2 if compared_with is None else n_people * compared_with
    chosen = np.random.default_rng(0).permutation(n_people)[
        : max(1, n_people * RULE_IMAGES // max(RULE_IMAGES, len(small)))
    ]
    vectors = whitening.table(small)
    rows = np.flatnonzero(np.isin(who, chosen) & vectors.any(axis=1))
    who = np.unique(who[rows], return_inverse=True)[1]
    n_seen = len(np.unique(who))
    closest = closest_between_groups(
        vectors[rows],
        who,
        min(_MAX_CLOSEST_PAIRS, (tail_depth(n_seen) + 1) * max(2, ceil(len(rows) / max(1, n_seen)) ** 2)),
        laid=[whitening.table(other) for other in other_positions(small[rows], laid)],
        progress=progress,
    )
    one, other = who[closest.first], who[closest.second]
    chance = chance_threshold(pairs_of_people(one, other, closest.similarity), n_seen, compared=compared)
    null: list[tuple[int, int]] = []
    if chance.similarity is not None:
        below = closest.similarity < chance.similarity
        null = [(int(rows[closest.first[k]]), int(rows[closest.second[k]])) for k in _disjoint_pairs(one, other, below)]
    return CopyRule(whitening, chance, fine_rule(null, read, laid), laid, ids_given)


def rule_of_stores(
    *stores: ImageStore,
    small: Sequence[np.ndarray],
    laid: str = "mirrored",
    compared_with: int | None = None,
    progress: CountProgress | None = None,
) -> CopyRule:
    """Learn the rule from the real images of several stores together; ids of different stores are different people.

    Args:
        stores: Stores of images, of one shape or of several.
        small: Thumbnails of each store, [n, 32, 32].
        laid: Positions of a copy, as in `CopyRule`.
        compared_with: Number of images that are compared with all these people; None where these are compared with
            each other.
        progress: Function called with the number of rows compared and the number of all.
    """
    place = [(store, row) for store in stores for row in range(len(store.images))]
    hashes = np.concatenate([store.pixel_hashes.astype(str) for store in stores])
    names = [np.char.add(f"{i}: ", store.manifest.groups.astype(str)) for i, store in enumerate(stores)]
    rows = np.sort(np.unique(hashes, return_index=True)[1])
    return copy_rule(
        np.concatenate(small)[rows],
        np.concatenate(names)[rows],
        lambda row: np.asarray(place[rows[row]][0].images[place[rows[row]][1]]),
        laid=laid,
        ids_given=all(store.manifest.groups_given for store in stores),
        compared_with=compared_with,
        progress=progress,
    )


def near_copies(
    small: np.ndarray,
    rule: CopyRule,
    read: PixelReader,
    *,
    progress: CountProgress | None = None,
) -> NearCopies:
    """Find all pairs of one set that are nearly the same.

    Args:
        small: Thumbnails, [n, 32, 32].
        rule: Rule that was learned; without a threshold the function finds no pair.
        read: Function that reads an image by its row.
        progress: Function called with the number of rows compared and the number of all.

    Returns:
        Pairs, at most `MAX_PAIRS`, the most similar first, with their fine details.
    """
    if rule.chance.similarity is None:
        return NO_PAIRS
    vectors = rule.whitening.table(small)
    laid = [rule.whitening.table(other) for other in other_positions(small, rule.laid)]
    pairs = near_pairs(vectors, threshold=rule.chance.similarity, laid=laid, limit=MAX_PAIRS, progress=progress)
    plain = np.einsum("pk,pk->p", vectors[pairs.first], vectors[pairs.second])
    other = pairs.similarity > np.minimum(plain, 1.0) + _ROUNDING
    return _confirmed(pairs.first, pairs.second, pairs.similarity, other, pairs.n_pairs, rule, read, read)


def near_copies_between(
    first: np.ndarray,
    second: np.ndarray,
    rule: CopyRule,
    read_first: PixelReader,
    read_second: PixelReader,
    *,
    block: int = 1024,
    progress: CountProgress | None = None,
) -> tuple[BestMatches, NearCopies]:
    """Find each image's most similar image of another set, and all pairs that are nearly the same, in one pass.

    Memory: vectors of the second set in each position (one kilobyte per image, on the disk where there are many),
    thumbnails and three blocks.

    Args:
        first: Thumbnails of the first set, [n, 32, 32].
        second: Thumbnails of the second set, [m, 32, 32].
        rule: Rule that was learned; without a threshold the function finds no pair.
        read_first: Function that reads an image of the first set by its row.
        read_second: Function that reads an image of the second set by its row.
        block: Number of rows that are compared at a time.
        progress: Function called with the number of rows of the first set that are done and the number of all.

    Returns:
        The most similar image for each image of the first set, and the pairs, at most `MAX_PAIRS`, the most similar
        first.
    """
    best = BestMatches(np.full(len(first), -1), np.full(len(first), -1.0, np.float32), np.zeros(len(first), bool))
    tables = [rule.whitening.table(laid) for laid in (second, *other_positions(second, rule.laid))]
    listed, n_pairs = [np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32), np.empty(0, bool)], 0
    for i in range(0, len(first), block):
        one = rule.whitening.vectors(first[i : i + block])
        at = np.arange(len(one))
        for j in range(0, len(second), block):
            similarity = one @ np.asarray(tables[0][j : j + block]).T
            laid = np.zeros(similarity.shape, bool)
            for table in tables[1:]:
                other = one @ np.asarray(table[j : j + block]).T
                laid |= other > similarity
                np.maximum(similarity, other, out=similarity)
            np.minimum(similarity, 1.0, out=similarity)
            column = similarity.argmax(axis=1)
            better = at[similarity[at, column] > best.similarity[i : i + block]]
            best.row[i + better] = column[better] + j
            best.similarity[i + better] = similarity[better, column[better]]
            best.laid[i + better] = laid[better, column[better]]
            if rule.chance.similarity is not None:
                rows, columns = np.nonzero(similarity >= rule.chance.similarity)
                n_pairs += len(rows)
                new = (rows + i, columns + j, similarity[rows, columns], laid[rows, columns])
                listed = [np.concatenate(both) for both in zip(listed, new, strict=True)]
                order = np.lexsort((listed[1], listed[0], -listed[2]))[:MAX_PAIRS]
                listed = [values[order] for values in listed]
        if progress is not None:
            progress(min(i + block, len(first)), len(first))
    rows, columns, alike, turned = listed
    return best, _confirmed(rows, columns, alike, turned, n_pairs, rule, read_first, read_second)


def _disjoint_pairs(one: np.ndarray, other: np.ndarray, chosen: np.ndarray) -> list[int]:
    """List the first `NULL_PAIRS` chosen pairs in which no person occurs twice."""
    used: set[int] = set()
    disjoint: list[int] = []
    for k in np.flatnonzero(chosen):
        if one[k] not in used and other[k] not in used:
            used |= {int(one[k]), int(other[k])}
            disjoint.append(int(k))
            if len(disjoint) == NULL_PAIRS:
                break
    return disjoint


def _confirmed(
    first: np.ndarray,
    second: np.ndarray,
    similarity: np.ndarray,
    laid: np.ndarray,
    n_pairs: int,
    rule: CopyRule,
    one: PixelReader,
    other: PixelReader,
) -> NearCopies:
    """Add the fine details of each pair, and whether they confirm it."""
    if rule.fine.threshold is None:
        alone = np.full(len(first), np.nan)
        return NearCopies(first, second, similarity, alone, np.ones(len(first), bool), laid, n_pairs)
    order = np.lexsort((second, first))
    rows = list(zip(first[order].tolist(), second[order].tolist(), strict=True))
    fine = np.empty(len(order))
    fine[order] = rule.fine.similarity(rows, one, other, rule.laid)
    return NearCopies(first, second, similarity, fine, fine > rule.fine.threshold, laid, n_pairs)


@dataclass(frozen=True, eq=False)
class SamePixels:
    """Images that have the pixels of an image of another store."""

    row: np.ndarray
    """Row of the first other image with the same pixels, in the first orientation that has one, [n]; -1 for none."""
    orientation: np.ndarray
    """Index in `ORIENTATIONS` of the turn that makes the other image of this one, [n]; -1 for none."""


def orientations(image: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the eight orientations of an image, or the sixteen of a volume that keep its slices axial.

    Args:
        image: Pixels of the image, [h, w, c].

    Yields:
        Pixels of the image, [h, w, c] or [w, h, c], in the order of `ORIENTATIONS`.
    """
    for stack in (image, image[..., ::-1])[: 1 + is_volume(image.shape)]:
        for side in (stack, stack[:, ::-1]):
            for turns in range(4):
                yield np.rot90(side, turns)


def same_pixels(store: ImageStore, others: ImageStore) -> SamePixels:
    """Return which images of a store are an image of another store, pixel by pixel, mirrored or turned or neither.

    The function compares hashes: one of each other image, up to eight of each image. A quarter turn of an image that is
    not square equals only images of the turned shape, and all images of a store have one shape.

    Args:
        store: Store of the images to look up, [n].
        others: Store of the images that they may equal.
    """
    first = {value: row for row, value in reversed(list(enumerate(others.pixel_hashes)))}
    shape, matches = others.images.shape[1:3], np.full((2, len(store.images)), -1, dtype=np.int64)
    for row, pixel_hash in enumerate(store.pixel_hashes):
        if pixel_hash in first:
            matches[:, row] = first[pixel_hash], 0
            continue
        for place, image in enumerate(orientations(np.asarray(store.images[row]))):
            if place and image.shape[:2] == shape and (other := first.get(hash_pixels(image))) is not None:
                matches[:, row] = other, place
                break
    return SamePixels(*matches)
