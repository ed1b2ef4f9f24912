"""Twins: two models that differ in which canaries they saw, and in nothing else.

METHODS section 1, "Twins, precisely".

In each seed canary groups that hold the same labels equally often are paired, and one fair coin a pair sends one group
to model A and its partner to model B. The training rows of A and B are *slots*: slot j of B holds the partner of what
slot j of A holds, or the very same image. Since the order of batches depends on slots only, A and B see the same
batches but for the partners. The published form (paper 000, section 3) instead trains a candidate on T + C and an
independent on T.

METHODS leaves groups without such a partner out: of 400 images with random labels 272. Nobody needs to be, but a coin
alone is not enough: what a group holds more than its partner, images or images of a class, goes where the group goes,
and a model that learns nothing but how frequent classes are then shows a gap for it (a patient of 20 images beside one
of 6: p below 0.05 in 17 to 39 %). So groups without a partner, and as many pairs as are needed to weigh them up, are
divided at random such that each falls to either side with chance 1/2 and both sides hold the same of each label, as
nearly as can be (``statistics.memorization.halving``): whoever else is on a group's side, its labels and its size are
not. ``tests/training/test_partners.py`` shows the level.

One side may then hold a few images more. Such slots come last; where they are empty, the twin with fewer images has
another of its own there, drawn anew in each epoch (``training.engine.order``).

``balanced`` is ``matched`` with no shared images: every canary is in one twin of each pair.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memorisk.statistics.memorization.halving import halve

Pair = tuple[np.ndarray, np.ndarray]
Unmatched = Literal["divided", "shared"]
"""What becomes of groups without a partner: in runs made before both twins saw them, and nothing is known of them."""

ENOUGH = 8
"""Images to weigh the largest group without a partner up with, for each of its own."""

_PAIRING, _PLACEBO = 11, 12  # keep the random streams of pairing and of decoys apart


@dataclass(frozen=True)
class TwinDesign:
    """Which images the two models of one seed are trained on.

    Attributes:
        seed: The seed of the pairing, of the initialisation and of the batch order.
        rows_a: [n_a] image rows of model A (``paper``: the candidate), in slot order.
        rows_b: [n_b] the same of model B (``paper``: the independent).
        sign: [N] +1 where only A saw the image, -1 where only B did, 0 elsewhere.
        slots: Slots of either twin, the longer one's rows; None where each model has its own (``paper``).
    """

    seed: int
    rows_a: np.ndarray
    rows_b: np.ndarray
    sign: np.ndarray
    slots: int | None = None

    def __post_init__(self) -> None:
        """Hold the arrays still."""
        for array in (self.rows_a, self.rows_b, self.sign):
            array.setflags(write=False)


def twin_design(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    canaries: np.ndarray,
    shared: np.ndarray,
    *,
    seed: int,
    unmatched: Unmatched = "divided",
) -> TwinDesign:
    """Halve the canaries anew for one seed: ``matched``, or with no shared images ``balanced``.

    A group that is shared joins both twins and has sign 0; so does a group that is the only one.

    Args:
        labels: [N] label of every image; several findings joined by "|".
        groups: [N] group of every image.
        canaries: Rows that are to be in one twin each.
        shared: Rows that both twins see.
        seed: Decides the pairs and the coins.
        unmatched: What becomes of groups without a partner.

    Returns:
        The design. One of ``rows_a`` and ``rows_b`` may be shorter where groups were divided.
    """
    rng = np.random.default_rng([_PAIRING, seed])
    pairs: list[Pair] = []
    left: list[np.ndarray] = []
    buckets = _alike(labels, groups, canaries)
    for bucket in buckets.values():
        order = rng.permutation(len(bucket))
        for first, second in zip(order[0::2], order[1::2], strict=False):  # an odd one out is left over
            pair = (bucket[first], bucket[second])
            pairs.append(pair if rng.random() < 0.5 else pair[::-1])
        if len(bucket) % 2 and unmatched == "divided" and sum(map(len, buckets.values())) > 1:
            left.append(bucket[order[-1]])
        elif len(bucket) % 2:
            pairs.append((bucket[order[-1]],) * 2)
    beside = [(np.sort(shared),) * 2, *pairs]  # what stands in A beside what in B
    if left:
        pairs, left = _loosened(pairs, left, rng)
        side = np.repeat(halve(_held(labels, left), rng), [len(rows) for rows in left])
        divided = np.concatenate(left)
        beside = [beside[0], *pairs, *_aligned(labels, divided[side > 0], divided[side < 0])]
    sign = np.zeros(len(labels), dtype=np.int8)
    rows_a, rows_b = (np.concatenate(rows) for rows in zip(*beside, strict=True))
    sign[rows_a] += 1
    sign[rows_b] -= 1
    return TwinDesign(seed, rows_a, rows_b, sign, slots=max(len(rows_a), len(rows_b)))


def paper_design(n_images: int, canaries: np.ndarray, train: np.ndarray, *, seed: int) -> TwinDesign:
    """The published design: A, the candidate, on T + C; B, the independent, on T (paper 000, algorithm 1)."""
    sign = np.zeros(n_images, dtype=np.int8)
    sign[canaries] = 1
    train = np.sort(train)
    return TwinDesign(seed, np.concatenate([train, np.sort(canaries)]), train, sign)


def placebo_design(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    canaries: np.ndarray,
    train: np.ndarray,
    *,
    seed: int,
    balanced: bool,
    unmatched: Unmatched = "divided",
) -> TwinDesign:
    """Twins in which neither saw a canary: decoys out of T fill the canaries' slots.

    For ``matched`` the decoys have the classes and group sizes of C, as far as T holds such groups, else the nearest;
    the rest of T is shared. For ``balanced`` all of T are decoys. The signs are those that ``twin_design`` would have
    drawn for C, so the whole pipeline runs on images of which nothing can have been memorized. (Twins without canaries
    at all would be one model twice: a test that cannot fail.)

    Args:
        labels: [N] label of every image.
        groups: [N] group of every image.
        canaries: Rows that the pipeline scores and that nobody trains on.
        train: Rows to train on.
        seed: Decides decoys, pairs and coins.
        balanced: Every training image is a decoy.
        unmatched: What becomes of groups without a partner.
    """
    rng = np.random.default_rng([_PLACEBO, seed])
    decoys = train if balanced else _decoys(labels, groups, canaries, train, rng, unmatched)
    shared = np.setdiff1d(train, decoys)
    trained = twin_design(labels, groups, decoys, shared, seed=seed, unmatched=unmatched)
    drawn = twin_design(labels, groups, canaries, np.empty(0, dtype=np.intp), seed=seed, unmatched=unmatched)
    return TwinDesign(seed, trained.rows_a, trained.rows_b, drawn.sign.copy(), trained.slots)


def never_paired(designs: Sequence[TwinDesign], canaries: np.ndarray) -> np.ndarray:
    """Canary rows that had a partner in no seed: nothing can be said of them, and the report lists them."""
    scored = np.any([d.sign[canaries] != 0 for d in designs], axis=0)
    return canaries[~scored]


def _alike(
    labels: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray, rows: np.ndarray
) -> dict[tuple, list[np.ndarray]]:
    """Groups with the same labels, equally often; rows aligned by label within a group."""
    members: dict[str, list[int]] = defaultdict(list)
    for row in np.sort(rows):
        members[str(groups[row])].append(int(row))
    buckets: dict[tuple, list[np.ndarray]] = defaultdict(list)
    for group in sorted(members):
        aligned = sorted(members[group], key=lambda r: (labels[r], r))
        composition = tuple(sorted(Counter(labels[r] for r in aligned).items()))
        buckets[composition].append(np.array(aligned, dtype=np.intp))
    return {key: buckets[key] for key in sorted(buckets)}


def _loosened(
    pairs: list[Pair], left: list[np.ndarray], rng: np.random.Generator
) -> tuple[list[Pair], list[np.ndarray]]:
    """Break pairs at random until there is enough beside the groups that have none: pairs, groups to be divided.

    Enough is `ENOUGH` times as many images as the largest of them has.
    """
    missing = ENOUGH * max(map(len, left)) - sum(map(len, left))
    order = rng.permutation(len(pairs))
    held = np.cumsum([len(pairs[i][0]) + len(pairs[i][1]) for i in order])
    broken = order[: np.searchsorted(held, missing) + 1] if missing > 0 else order[:0]
    kept = np.setdiff1d(order, broken)
    return [pairs[i] for i in kept], [*left, *(group for i in broken for group in pairs[i])]


def _aligned(labels: Sequence[str] | np.ndarray, in_a: np.ndarray, in_b: np.ndarray) -> list[Pair]:
    """Rows of A beside rows of B with the same label, the others at the end."""
    of_a, of_b = (np.array([str(labels[row]) for row in rows], dtype=object) for rows in (in_a, in_b))
    found, rest = [], []
    for label in sorted({*of_a, *of_b}):
        own_a, own_b = in_a[of_a == label], in_b[of_b == label]
        k = min(len(own_a), len(own_b))
        found.append((own_a[:k], own_b[:k]))
        rest.append((own_a[k:], own_b[k:]))
    return [*found, *rest]


def _held(labels: Sequence[str] | np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """How many images each group has and how many of each finding, [groups, 1 + findings]."""
    counts = [Counter(f for row in rows for f in str(labels[row]).split("|")) for rows in groups]
    names = sorted(set().union(*counts))
    return np.array([[len(rows), *(c[f] for f in names)] for rows, c in zip(groups, counts, strict=True)])


def _decoys(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    canaries: np.ndarray,
    train: np.ndarray,
    rng: np.random.Generator,
    unmatched: Unmatched,
) -> np.ndarray:
    offered = _alike(labels, groups, train)
    chosen, wanting = [np.empty(0, dtype=np.intp)], []
    for composition, bucket in _alike(labels, groups, canaries).items():
        stock = offered.get(composition, [])
        take = set(rng.permutation(len(stock))[: len(bucket)].tolist())
        chosen.extend(stock[i] for i in sorted(take))
        offered[composition] = [group for i, group in enumerate(stock) if i not in take]
        wanting += bucket[len(take) :]
    if unmatched == "divided":
        spare = [group for stock in offered.values() for group in stock]
        chosen += _nearest_of(labels, wanting, [spare[i] for i in rng.permutation(len(spare))])
    return np.concatenate(chosen)


def _nearest_of(
    labels: Sequence[str] | np.ndarray, wanting: list[np.ndarray], spare: list[np.ndarray]
) -> list[np.ndarray]:
    """For each group in turn the nearest that is there still: by number of images, then by labels."""
    held = _held(labels, [*wanting, *spare])
    there, found = np.ones(len(spare), dtype=bool), []
    for w in range(min(len(wanting), len(spare))):
        others = np.flatnonzero(there)
        off = np.abs(held[len(wanting) + others] - held[w])
        nearest = others[np.lexsort((off.sum(axis=1), off[:, 0]))[0]]
        there[nearest] = False
        found.append(spare[nearest])
    return found
