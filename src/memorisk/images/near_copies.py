"""Which images are nearly the same, of one set or of two: candidates by thumbnails, confirmed as they are stored.

1. `copy_rule` learns from real images what they share (`whitening`), from which similarity of thumbnails on fewer than
   0.01 pairs of different people are expected in the whole set (`statistics.chance_pairs`), and from which correlation
   of fine details on a candidate is confirmed (`fine_details`).
2. `near_copies` finds the pairs of one set, `near_between` those of two, all pairs, exactly, in bounded memory.

What is promised: among all pairs of different people of the set that the rule was learned from, fewer than
`chance.expected` are expected to be confirmed by chance. Nothing is promised of a pair that is not confirmed (a turned,
cropped or redrawn copy is none), and nothing about who is in an image: whoever must know that two ids are two people
asks their records. Nobody should be dropped for looking like somebody.

**Without ids of people every image counts as its own person.** Several images of one person then raise the threshold,
and fewer copies are called; where they are most of the tail, none are.

**Groups are never chained.** `copy_groups` joins by complete linkage: two images are in one group only if the pair
itself was found, so that A like B and B like C puts A and C together only if A is like C.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from memorisk.images.duplicates import SIDE, closest_apart, near_pairs, thumbnail
from memorisk.images.fine_details import NULL, FineRule, Read, fine_rule, laid_thumbnails
from memorisk.images.whitening import Whitening, fit_whitening
from memorisk.runs.progress import Counted
from memorisk.runs.scratch import scratch_array
from memorisk.statistics.chance_pairs import ChanceThreshold, chance_threshold, pairs_of_people, tail_depth

LIMIT = 20_000
"""Longest list of pairs: each is compared as stored, and 200 a second are."""
_CLOSEST = 1_000_000
"""Longest list of pairs of images in which the most alike pairs of people are looked for: 20 MB."""


@dataclass(frozen=True, eq=False)
class CopyRule:
    """What counts as nearly the same."""

    whitening: Whitening
    """What images of the set share."""
    chance: ChanceThreshold
    """Of thumbnails."""
    fine: FineRule
    """Of images as they are stored."""
    laid: str
    """How a copy may lie: "upright", "mirrored" too, or "turned" by quarters and flipped (`laid_thumbnails`)."""
    ids_given: bool
    """Whether it is known whose images these are; else each counts as its own person's."""

    @property
    def words(self) -> str:
        """What counts, and what was assumed, in plain sentences."""
        said = [self.chance.words]
        if self.chance.similarity is not None:
            said.append(
                "Images are stored no finer than a thumbnail, so that thumbnails alone confirm a pair."
                if self.fine.threshold is None
                else f"A pair is confirmed where fine details correlate above {self.fine.threshold:.2f} at "
                f"{self.fine.side} x {self.fine.side} pixels, as {self.fine.level:.1%} of pairs of different people do "
                f"that look most alike ({self.fine.n_pairs} such pairs)."
            )
        if not self.ids_given:
            said.append(
                "It is not said whose images these are, so that each counts as its own person's: several images of "
                "one person raise the threshold."
            )
        return " ".join(said)


@dataclass(frozen=True, eq=False)
class NearCopies:
    """Pairs of images that look alike, most alike first."""

    first: np.ndarray
    """[P] row of one; of one set the smaller one."""
    second: np.ndarray
    """[P] row of the other."""
    similarity: np.ndarray
    """[P] of thumbnails."""
    fine: np.ndarray
    """[P] correlation of fine details; NaN where images are stored no finer than a thumbnail."""
    confirmed: np.ndarray
    """[P] whether they are the same as stored, too."""
    found: int
    """Pairs that look alike; more than P where the list was cut at `LIMIT`."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Rows of the confirmed pairs."""
        return list(zip(self.first[self.confirmed].tolist(), self.second[self.confirmed].tolist(), strict=True))


NO_PAIRS = NearCopies(
    np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32), np.empty(0), np.empty(0, bool), 0
)


@dataclass(frozen=True)
class BestMatches:
    """For each image of one set, its most similar image of the other."""

    row: np.ndarray
    """[n] row in the other set, the first of equals; -1 where that is empty."""
    similarity: np.ndarray
    """[n] of thumbnails, the larger of the image as it is and mirrored; 0 where an image has no details."""
    mirrored: np.ndarray
    """[n] whether it was larger mirrored."""


def thumbnails(images: np.ndarray | Sequence[np.ndarray], *, progress: Counted | None = None) -> np.ndarray:
    """[n, 32, 32] uint8 of images [n, H, W, C] (`duplicates.thumbnail`), read one by one; many are on the disk."""
    made = scratch_array((len(images), SIDE, SIDE), np.uint8)
    for row in range(len(images)):
        made[row] = thumbnail(np.asarray(images[row]))
        if progress is not None and (row + 1) % 256 == 0:
            progress(row + 1, len(images))
    return made


def copy_rule(
    small: np.ndarray,
    people: np.ndarray,
    read: Read,
    *,
    laid: str = "upright",
    ids_given: bool = True,
    progress: Counted | None = None,
) -> CopyRule:
    """Learn from real images what counts as nearly the same.

    Args:
        small: [n, 32, 32] thumbnails; one of each set of identical images, for they say nothing of different people.
        people: [n] whose image it is.
        read: Reads an image by its row.
        laid: How a copy may lie.
        ids_given: Whether ``people`` are people; else they name images.
        progress: Called with the rows compared and their number.
    """
    whitening = fit_whitening(small)
    vectors = whitening.table(small)
    n_people, lively = max(1, len(np.unique(people))), np.flatnonzero(vectors.any(axis=1))
    closest = closest_apart(
        vectors[lively],
        people[lively],
        min(_CLOSEST, (tail_depth(n_people) + 1) * max(2, ceil(len(small) / n_people) ** 2)),
        laid=[whitening.table(other[lively]) for other in laid_thumbnails(small, laid)],
        progress=progress,
    )
    who = np.unique(people[lively], return_inverse=True)[1]
    one, other = who[closest.first], who[closest.second]
    chance = chance_threshold(pairs_of_people(one, other, closest.similarity), len(np.unique(who)))
    null: list[tuple[int, int]] = []
    if chance.similarity is not None:
        below = closest.similarity < chance.similarity
        null = [(int(lively[closest.first[k]]), int(lively[closest.second[k]])) for k in _one_each(one, other, below)]
    return CopyRule(whitening, chance, fine_rule(null, read, laid), laid, ids_given)


def near_copies(
    small: np.ndarray, rule: CopyRule, read: Read, *, limit: int = LIMIT, progress: Counted | None = None
) -> NearCopies:
    """All pairs of one set that are nearly the same.

    Args:
        small: [n, 32, 32] thumbnails.
        rule: What counts.
        read: Reads an image by its row.
        limit: Longest list, the most alike pairs.
        progress: Called with the rows compared and their number.
    """
    if rule.chance.similarity is None:
        return NO_PAIRS
    laid = [rule.whitening.table(other) for other in laid_thumbnails(small, rule.laid)]
    pairs = near_pairs(
        rule.whitening.table(small), threshold=rule.chance.similarity, laid=laid, limit=limit, progress=progress
    )
    found = NearCopies(pairs.first, pairs.second, pairs.similarity, np.empty(0), np.empty(0, bool), pairs.found)
    return _confirmed(found, rule, read, read)


def near_between(
    first: np.ndarray,
    second: np.ndarray,
    rule: CopyRule,
    read_first: Read,
    read_second: Read,
    *,
    block: int = 1024,
    limit: int = LIMIT,
) -> NearCopies:
    """All pairs of an image of one set and one of another that are nearly the same.

    Args:
        first: [n, 32, 32] thumbnails.
        second: [m, 32, 32].
        rule: What counts.
        read_first: Reads an image of the first set by its row.
        read_second: Of the second.
        block: Rows at a time.
        limit: Longest list, the most alike pairs.
    """
    if rule.chance.similarity is None:
        return NO_PAIRS
    kept, found = [np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.float32)], 0
    for i in range(0, len(first), block):
        one = rule.whitening.vectors(first[i : i + block])
        for j in range(0, len(second), block):
            other = np.asarray(second[j : j + block])
            similarity = np.max(
                [one @ rule.whitening.vectors(at).T for at in (other, *laid_thumbnails(other, rule.laid))], axis=0
            )
            rows, columns = np.nonzero(similarity >= rule.chance.similarity)
            found += len(rows)
            new = (rows + i, columns + j, np.minimum(similarity[rows, columns], 1.0))
            kept = [np.concatenate(both) for both in zip(kept, new, strict=True)]
            order = np.lexsort((kept[1], kept[0], -kept[2]))[:limit]
            kept = [values[order] for values in kept]
    pairs = NearCopies(kept[0], kept[1], kept[2], np.empty(0), np.empty(0, bool), found)
    return _confirmed(pairs, rule, read_first, read_second)


def copy_groups(n: int, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Groups in which every two images are a found pair: complete linkage, greedily, the most alike pairs first.

    A pair joins the groups of its two images if all pairs between them were found; else they stay apart.

    Args:
        n: Images.
        pairs: Rows, most alike first.

    Returns:
        [n] smallest row of the group of each image; its own where it is alone.
    """
    given = list(pairs)
    found = {frozenset(pair) for pair in given}
    members: dict[int, list[int]] = {}
    of = np.arange(n)
    for a, b in given:
        one, other = sorted((int(of[a]), int(of[b])))
        ours, theirs = members.get(one, [one]), members.get(other, [other])
        if one != other and all(frozenset((x, y)) in found for x in ours for y in theirs):
            members[one] = ours + theirs
            of[theirs] = one
    return of


def best_matches(
    first: np.ndarray,
    second: np.ndarray,
    whitening: Whitening,
    *,
    block: int = 1024,
    progress: Counted | None = None,
) -> tuple[BestMatches, BestMatches]:
    """The most similar image of the other set, both ways, in one pass over all pairs.

    Args:
        first: [n, 32, 32] thumbnails.
        second: [m, 32, 32].
        whitening: What images share.
        block: Rows at a time.
        progress: Called with the rows of the first set that are done and their number.

    Returns:
        For the first set among the second, and for the second among the first. Memory: vectors of the second set,
        thumbnails and three blocks.
    """
    ours, theirs = _nothing(len(first)), _nothing(len(second))
    others = whitening.table(second)
    for i in range(0, len(first), block):
        one = whitening.vectors(first[i : i + block])
        flipped = whitening.vectors(first[i : i + block, :, ::-1])
        for j in range(0, len(second), block):
            other = np.asarray(others[j : j + block]).T
            plain, turned = one @ other, flipped @ other
            mirrored = turned > plain
            similarity = np.minimum(np.where(mirrored, turned, plain), 1.0)
            _take(ours, slice(i, i + block), j, similarity, mirrored)
            _take(theirs, slice(j, j + block), i, similarity.T, mirrored.T)
        if progress is not None:
            progress(min(i + block, len(first)), len(first))
    return ours, theirs


def _one_each(one: np.ndarray, other: np.ndarray, chosen: np.ndarray) -> list[int]:
    """Places of the first `fine_details.NULL` chosen pairs in which each person is once."""
    seen: set[int] = set()
    found: list[int] = []
    for k in np.flatnonzero(chosen):
        if one[k] not in seen and other[k] not in seen:
            seen |= {int(one[k]), int(other[k])}
            found.append(int(k))
            if len(found) == NULL:
                break
    return found


def _confirmed(pairs: NearCopies, rule: CopyRule, one: Read, other: Read) -> NearCopies:
    """Pairs with their fine details."""
    if rule.fine.threshold is None:
        return replace(pairs, fine=np.full(len(pairs.first), np.nan), confirmed=np.ones(len(pairs.first), bool))
    order = np.lexsort((pairs.second, pairs.first))
    rows = list(zip(pairs.first[order].tolist(), pairs.second[order].tolist(), strict=True))
    fine = np.empty(len(order))
    fine[order] = rule.fine.similarity(rows, one, other, rule.laid)
    return replace(pairs, fine=fine, confirmed=fine > rule.fine.threshold)


def _nothing(n: int) -> BestMatches:
    return BestMatches(np.full(n, -1, dtype=np.intp), np.full(n, -1.0, dtype=np.float32), np.zeros(n, dtype=bool))


def _take(best: BestMatches, rows: slice, start: int, similarity: np.ndarray, mirrored: np.ndarray) -> None:
    """Keep what a block [n, m] has that is better than before."""
    column = similarity.argmax(axis=1)
    at = np.arange(len(column))
    found = similarity[at, column]
    better = found > best.similarity[rows]
    best.row[rows] = np.where(better, column + start, best.row[rows])
    best.mirrored[rows] = np.where(better, mirrored[at, column], best.mirrored[rows])
    best.similarity[rows] = np.where(better, found, best.similarity[rows])
