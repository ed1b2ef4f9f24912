"""Twins: two models that differ in which canaries they saw, and in nothing else.

METHODS section 1, "Twins, precisely".

In each seed the canary groups are paired within class and group size, and one fair coin a pair sends one group to
model A and its partner to model B. The training rows of A and B are *slots* of equal number: slot j of B holds the
partner of what slot j of A holds, or the very same image. Since the order of batches depends on slots only, A and B
see the same batches but for the partners. The published form (paper 000, section 3) instead trains a candidate on T
+ C and an independent on T.

``balanced`` is ``matched`` with no shared images: every canary is in one twin of each pair.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_PAIRING, _PLACEBO = 11, 12  # keep the random streams of pairing and of decoys apart


@dataclass(frozen=True)
class TwinDesign:
    """Which images the two models of one seed are trained on.

    Attributes:
        seed: The seed of the pairing, of the initialisation and of the batch order.
        rows_a: [n_a] image rows of model A (``paper``: the candidate), in slot order.
        rows_b: [n_b] the same of model B (``paper``: the independent).
        sign: [N] +1 where only A saw the image, -1 where only B did, 0 elsewhere.
    """

    seed: int
    rows_a: np.ndarray
    rows_b: np.ndarray
    sign: np.ndarray

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
) -> TwinDesign:
    """Halve the canaries anew for one seed: ``matched``, or with no shared images ``balanced``.

    Groups are partners when they hold the same labels equally often. A group without a partner in this seed joins both
    twins and has sign 0.

    Args:
        labels: [N] label of every image.
        groups: [N] group of every image.
        canaries: Rows that are to be in one twin each.
        shared: Rows that both twins see.
        seed: Decides the pairs and the coins.

    Returns:
        The design; ``rows_a`` and ``rows_b`` have the same length.
    """
    rng = np.random.default_rng([_PAIRING, seed])
    sign = np.zeros(len(labels), dtype=np.int8)
    slots_a, slots_b = [np.sort(shared)], [np.sort(shared)]
    for bucket in _partners(labels, groups, canaries).values():
        order = rng.permutation(len(bucket))
        for first, second in zip(order[0::2], order[1::2], strict=False):  # an odd one out is left over
            pair = (bucket[first], bucket[second])
            in_a, in_b = pair if rng.random() < 0.5 else pair[::-1]
            slots_a.append(in_a)
            slots_b.append(in_b)
            sign[in_a], sign[in_b] = 1, -1
        if len(bucket) % 2:
            alone = bucket[order[-1]]
            slots_a.append(alone)
            slots_b.append(alone)
    return TwinDesign(seed, np.concatenate(slots_a), np.concatenate(slots_b), sign)


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
) -> TwinDesign:
    """Twins in which neither saw a canary: decoys out of T fill the canaries' slots.

    For ``matched`` the decoys have the classes and group sizes of C, as far as T holds such groups; the rest of T is
    shared. For ``balanced`` all of T are decoys. The signs are those that ``twin_design`` would have drawn for C, so
    the whole pipeline runs on images of which nothing can have been memorized. (Twins without canaries at all would
    be one model
    twice: a test that cannot fail.)

    Args:
        labels: [N] label of every image.
        groups: [N] group of every image.
        canaries: Rows that the pipeline scores and that nobody trains on.
        train: Rows to train on.
        seed: Decides decoys, pairs and coins.
        balanced: Every training image is a decoy.
    """
    decoys = train if balanced else _decoys(labels, groups, canaries, train, np.random.default_rng([_PLACEBO, seed]))
    shared = np.setdiff1d(train, decoys)
    trained = twin_design(labels, groups, decoys, shared, seed=seed)
    drawn = twin_design(labels, groups, canaries, np.empty(0, dtype=np.intp), seed=seed)
    return TwinDesign(seed, trained.rows_a, trained.rows_b, drawn.sign.copy())


def never_paired(designs: Sequence[TwinDesign], canaries: np.ndarray) -> np.ndarray:
    """Canary rows that had a partner in no seed: nothing can be said of them, and the report lists them."""
    scored = np.any([d.sign[canaries] != 0 for d in designs], axis=0)
    return canaries[~scored]


def _partners(
    labels: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray, rows: np.ndarray
) -> dict[tuple, list[np.ndarray]]:
    """Groups that may stand in for each other: the same labels, equally often; rows aligned by label within a group."""
    members: dict[str, list[int]] = defaultdict(list)
    for row in np.sort(rows):
        members[str(groups[row])].append(int(row))
    buckets: dict[tuple, list[np.ndarray]] = defaultdict(list)
    for group in sorted(members):
        aligned = sorted(members[group], key=lambda r: (labels[r], r))
        composition = tuple(sorted(Counter(labels[r] for r in aligned).items()))
        buckets[composition].append(np.array(aligned, dtype=np.intp))
    return {key: buckets[key] for key in sorted(buckets)}


def _decoys(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    canaries: np.ndarray,
    train: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    wanted = _partners(labels, groups, canaries)
    offered = _partners(labels, groups, train)
    chosen = [np.empty(0, dtype=np.intp)]
    for composition, bucket in wanted.items():
        stock = offered.get(composition, [])
        take = rng.permutation(len(stock))[: len(bucket)]
        chosen.extend(stock[i] for i in take)
    return np.concatenate(chosen)
