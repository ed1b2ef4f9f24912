"""Twins: two models that differ only in the canaries that they saw.

METHODS section 1, "Twins, precisely".

In each seed canary groups that hold the same labels equally often are paired, and one fair coin per pair sends one
group to model A and its partner to model B. The training rows of A and B are *slots*: slot j of B holds the partner of
the image in slot j of A, or the very same image. Since the order of batches depends on slots only, A and B see the same
batches except for the partners. The published form (paper 000, section 3) instead trains a candidate on T + C and an
independent on T.

METHODS leaves groups without such a partner out: of 400 images with random labels 272. No group needs to be left out,
but a coin alone is not enough. The surplus of a group over its partner, images or images of a class, goes where the
group goes, and a model that learns only how frequent classes are then shows a gap for it (a patient of 20 images paired
with one of 6: p below 0.05 in 17 to 39 %). So groups without a partner, and as many pairs as are needed to balance
them, are divided at random such that each falls to either side with chance 1/2 and both sides hold the same of each
label, as nearly as possible (`statistics.randomization.halves.halve`). The other groups on a group's side vary; the
labels and the size of the side do not. ``tests/training/classifiers/test_partners.py`` shows the level.

One side may then hold a few images more. Such slots come last; where they are empty, the twin with fewer images has
another of its own there, drawn anew in each epoch (`training.engine.optimization.batch_order`).

The design ``balanced`` is ``matched`` with no shared images: every canary is in one twin of each pair.

Label-noise canaries bound epsilon from below (METHODS section 1, "Empirical lower bound on epsilon"). A pair is two
images of different groups and the *same* class, both given the *same* wrong label, drawn uniformly from the other
classes. A fair coin decides which of the two the target is trained on.

Class and wrong label are shared for a reason. The bound is valid for any pairs, since only the coin is random in its
proof; but the auditor compares two losses, and any difference between them without training is noise to the auditor.
With class and label shared, and first and second drawn at random, the members are exchangeable before the coin falls:
neither is the likelier guess, and the target's labels, slot by slot, do not depend on the coins: class counts reveal
nothing.

Each group gives at most one canary, so each coin concerns other patients. Its other images stay where the caller has
them; leave them out of `rows` and of the shared rows where the claim is per patient.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memorisk.runs.errors import InputError
from memorisk.statistics.randomization.halves import halve

Pair = tuple[np.ndarray, np.ndarray]
Unmatched = Literal["divided", "shared"]
"""Treatment of groups without a partner: "divided", or "shared" (in both twins, without a result) to compare with."""

COUNTERWEIGHT = 8
"""Number of images to balance the largest group without a partner, for each image of that group."""

_PAIRING, _PLACEBO = 11, 12  # keep the random streams of pairing and of decoys apart


@dataclass(frozen=True)
class TwinDesign:
    """Training rows of the two models of one seed.

    Attributes:
        seed: Random seed of the pairing, of the initialisation and of the batch order.
        rows_a: Image rows of model A (``paper``: the candidate), [n_a], in slot order.
        rows_b: Image rows of model B (``paper``: the independent), [n_b], in slot order.
        sign: Sign of each image, [N]: +1 where only A saw the image, -1 where only B did, 0 elsewhere.
        slots: Number of slots of either twin, the longer one's rows; None where each model has its own (``paper``).
    """

    seed: int
    rows_a: np.ndarray
    rows_b: np.ndarray
    sign: np.ndarray
    slots: int | None = None

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
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
        labels: Label of every image, [N]; several findings joined by "|".
        groups: Group of every image, [N].
        canaries: Rows that are to be in one twin each.
        shared: Rows that both twins see.
        seed: Random seed that decides the pairs and the coins.
        unmatched: Treatment of groups without a partner.

    Returns:
        Design of the twins. One of ``rows_a`` and ``rows_b`` may be shorter where groups were divided.
    """
    rng = np.random.default_rng([_PAIRING, seed])
    pairs: list[Pair] = []
    unpaired: list[np.ndarray] = []
    buckets = groups_of_equal_labels(labels, groups, canaries)
    for bucket in buckets.values():
        order = rng.permutation(len(bucket))
        for first, second in zip(order[0::2], order[1::2], strict=False):  # an odd one out is left over
            pair = (bucket[first], bucket[second])
            pairs.append(pair if rng.random() < 0.5 else pair[::-1])
        if len(bucket) % 2 and unmatched == "divided" and sum(map(len, buckets.values())) > 1:
            unpaired.append(bucket[order[-1]])
        elif len(bucket) % 2:
            pairs.append((bucket[order[-1]],) * 2)
    beside = [(np.sort(shared),) * 2, *pairs]  # rows of A, and the rows of B in the same slots
    if unpaired:
        pairs, unpaired = _break_pairs(pairs, unpaired, rng)
        side = np.repeat(halve(_group_counts(labels, unpaired), rng), [len(rows) for rows in unpaired])
        divided = np.concatenate(unpaired)
        beside = [beside[0], *pairs, *_align_rows(labels, divided[side > 0], divided[side < 0])]
    sign = np.zeros(len(labels), dtype=np.int8)
    rows_a, rows_b = (np.concatenate(rows) for rows in zip(*beside, strict=True))
    sign[rows_a] += 1
    sign[rows_b] -= 1
    return TwinDesign(seed, rows_a, rows_b, sign, slots=max(len(rows_a), len(rows_b)))


def paper_design(n_images: int, canaries: np.ndarray, train: np.ndarray, *, seed: int) -> TwinDesign:
    """Build the published design: A, the candidate, on T + C; B, the independent, on T (paper 000, algorithm 1)."""
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
    """Build twins in which neither saw a canary: decoys out of T fill the canaries' slots.

    For ``matched`` the decoys have the classes and group sizes of C, as far as T holds such groups, else the nearest;
    the rest of T is shared. For ``balanced`` all of T are decoys. The signs are those that ``twin_design`` would have
    drawn for C, so the whole pipeline runs on images that no model can have memorized. (Twins without canaries
    at all would be one model twice: a test that cannot fail.)

    Args:
        labels: Label of every image, [N].
        groups: Group of every image, [N].
        canaries: Rows that the pipeline scores and that no model trains on.
        train: Rows to train on.
        seed: Random seed that decides decoys, pairs and coins.
        balanced: Whether every training image is a decoy.
        unmatched: Treatment of groups without a partner.
    """
    rng = np.random.default_rng([_PLACEBO, seed])
    decoys = train if balanced else _decoys(labels, groups, canaries, train, rng, unmatched)
    shared = np.setdiff1d(train, decoys)
    trained = twin_design(labels, groups, decoys, shared, seed=seed, unmatched=unmatched)
    drawn = twin_design(labels, groups, canaries, np.empty(0, dtype=np.intp), seed=seed, unmatched=unmatched)
    return TwinDesign(seed, trained.rows_a, trained.rows_b, drawn.sign.copy(), trained.slots)


def groups_of_equal_labels(
    labels: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray, rows: np.ndarray
) -> dict[tuple, list[np.ndarray]]:
    """Collect groups with the same labels, equally often; rows aligned by label within a group.

    Args:
        labels: Label of every image, [N]; several findings joined by "|".
        groups: Group of every image, [N].
        rows: Rows of the images that are collected.

    Returns:
        Rows of each group, by the labels that the group has and how often.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for row in np.sort(rows):
        members[str(groups[row])].append(int(row))
    buckets: dict[tuple, list[np.ndarray]] = defaultdict(list)
    for group in sorted(members):
        aligned = sorted(members[group], key=lambda r: (labels[r], r))
        composition = tuple(sorted(Counter(labels[r] for r in aligned).items()))
        buckets[composition].append(np.array(aligned, dtype=np.intp))
    return {key: buckets[key] for key in sorted(buckets)}


def _break_pairs(
    pairs: list[Pair], unpaired: list[np.ndarray], rng: np.random.Generator
) -> tuple[list[Pair], list[np.ndarray]]:
    """Break pairs at random until enough groups can be divided with those without a partner.

    Enough is `COUNTERWEIGHT` times as many images as the largest of them has. The first result holds the pairs that are
    kept, the second the groups to be divided.
    """
    missing = COUNTERWEIGHT * max(map(len, unpaired)) - sum(map(len, unpaired))
    order = rng.permutation(len(pairs))
    held = np.cumsum([len(pairs[i][0]) + len(pairs[i][1]) for i in order])
    broken = order[: np.searchsorted(held, missing) + 1] if missing > 0 else order[:0]
    whole = np.setdiff1d(order, broken)
    return [pairs[i] for i in whole], [*unpaired, *(group for i in broken for group in pairs[i])]


def _align_rows(labels: Sequence[str] | np.ndarray, in_a: np.ndarray, in_b: np.ndarray) -> list[Pair]:
    """Align rows of A with rows of B of the same label, the others at the end."""
    of_a, of_b = (np.array([str(labels[row]) for row in rows], dtype=object) for rows in (in_a, in_b))
    aligned, rest = [], []
    for label in sorted({*of_a, *of_b}):
        own_a, own_b = in_a[of_a == label], in_b[of_b == label]
        k = min(len(own_a), len(own_b))
        aligned.append((own_a[:k], own_b[:k]))
        rest.append((own_a[k:], own_b[k:]))
    return [*aligned, *rest]


def _group_counts(labels: Sequence[str] | np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Count the images of each group, and those with each finding, [groups, 1 + findings]."""
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
    offered = groups_of_equal_labels(labels, groups, train)
    chosen, wanting = [np.empty(0, dtype=np.intp)], []
    for composition, bucket in groups_of_equal_labels(labels, groups, canaries).items():
        stock = offered.get(composition, [])
        take = set(rng.permutation(len(stock))[: len(bucket)].tolist())
        chosen.extend(stock[i] for i in sorted(take))
        offered[composition] = [group for i, group in enumerate(stock) if i not in take]
        wanting += bucket[len(take) :]
    if unmatched == "divided":
        spare = [group for stock in offered.values() for group in stock]
        chosen += _nearest_groups(labels, wanting, [spare[i] for i in rng.permutation(len(spare))])
    return np.concatenate(chosen)


def _nearest_groups(
    labels: Sequence[str] | np.ndarray, wanting: list[np.ndarray], spare: list[np.ndarray]
) -> list[np.ndarray]:
    """Match each group in turn to the nearest remaining group: by number of images, then by labels."""
    held = _group_counts(labels, [*wanting, *spare])
    there, partners = np.ones(len(spare), dtype=bool), []
    for w in range(min(len(wanting), len(spare))):
        others = np.flatnonzero(there)
        off = np.abs(held[len(wanting) + others] - held[w])
        nearest = others[np.lexsort((off.sum(axis=1), off[:, 0]))[0]]
        there[nearest] = False
        partners.append(spare[nearest])
    return partners


_CANARY_PAIRING, _CANARY_COINS = 21, 22  # keep the random streams of pairs and of coins apart


@dataclass(frozen=True)
class CanaryPairs:
    """Pairs of images with a wrong label, and the coins that choose between them."""

    first: np.ndarray
    """Image row of each pair's first member, [n]."""
    second: np.ndarray
    """Image row of the second member, [n]."""
    label: np.ndarray
    """Wrong class number, of both members, [n]."""
    coin: np.ndarray
    """Whether the target is trained on the first member, [n] bool."""

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for array in (self.first, self.second, self.label, self.coin):
            array.setflags(write=False)

    @property
    def members(self) -> np.ndarray:
        """Image of each pair that the target is trained on, [n]."""
        return np.where(self.coin, self.first, self.second)

    def training_rows(self, shared: np.ndarray) -> np.ndarray:
        """Return rows of the target in slot order: the shared ones, ascending, then one of each pair, [n_shared + n].

        Raises:
            InputError: A canary is among the shared rows.
        """
        shared = np.sort(np.asarray(shared))
        both = np.intersect1d(shared, np.concatenate([self.first, self.second]))
        if len(both):
            raise InputError(
                f"{len(both)} canaries, row {both[0]} among them, are also shared rows; "
                "leave canaries out of them: their coin decides who is trained on"
            )
        return np.concatenate([shared, self.members])

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """Return class numbers of all images with the canaries' wrong labels in place, [N]; both members have them."""
        wrong = np.array(labels)
        wrong[self.first] = self.label
        wrong[self.second] = self.label
        return wrong


def label_noise_pairs(
    labels: Sequence[int] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    rows: np.ndarray,
    n_pairs: int,
    n_classes: int,
    seed: int,
) -> CanaryPairs:
    """Draw pairs of canaries, their wrong labels and their coins.

    One image of each group among `rows` is drawn, images are paired at random within class, and `n_pairs` of the pairs
    are kept at random; an unpaired image of a class is not used.

    Args:
        labels: True class number of every image, [N], from 0 to n_classes - 1.
        groups: Group of every image, [N].
        rows: Rows of images that may become canaries.
        n_pairs: Number of pairs to draw; the bound needs 200 or more to be informative.
        n_classes: Number of classes, 2 or more.
        seed: Random seed that decides pairs, wrong labels and, in a stream of their own, coins.

    Returns:
        Pairs of canaries, in random order.

    Raises:
        InputError: Fewer pairs are possible than wanted, labels lie outside the classes, or classes are fewer than two.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon": "Canaries: label noise, r >= 200".
    """
    rows, true = np.unique(np.asarray(rows, dtype=np.intp)), np.asarray(labels)
    if n_classes < 2:
        raise InputError(f"n_classes is {n_classes}; a wrong label needs 2 classes or more")
    if len(rows) and (true[rows].min() < 0 or true[rows].max() >= n_classes):
        raise InputError(f"labels of the canaries must be class numbers from 0 to {n_classes - 1}")
    rng = np.random.default_rng([_CANARY_PAIRING, seed])
    pairs = _pairs_within_class(true, np.asarray(groups), rows, rng)
    if not 1 <= n_pairs <= len(pairs):
        raise InputError(
            f"{n_pairs} pairs of canaries are wanted; these {len(rows)} images make {len(pairs)} pairs of one class "
            "and different groups; ask for 1 to as many, or offer more images"
        )
    chosen = pairs[rng.permutation(len(pairs))[:n_pairs]]
    wrong = (true[chosen[:, 0]] + rng.integers(1, n_classes, n_pairs)) % n_classes
    coin = np.random.default_rng([_CANARY_COINS, seed]).random(n_pairs) < 0.5
    return CanaryPairs(chosen[:, 0].copy(), chosen[:, 1].copy(), wrong, coin)


def _pairs_within_class(
    labels: np.ndarray, groups: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Make all pairs of one random image per group, [pairs, 2]."""
    shuffled = rng.permutation(rows)
    _, one = np.unique(groups[shuffled].astype(str), return_index=True)  # the first of each group in random order
    offered = shuffled[np.sort(one)]
    pairs = [np.empty((0, 2), dtype=np.intp)]
    for label in np.unique(labels[offered]):
        of_class = offered[labels[offered] == label]
        pairs.append(of_class[: len(of_class) // 2 * 2].reshape(-1, 2))
    return np.concatenate(pairs)
