"""Label-noise canaries in pairs: what a training is audited with.

METHODS section 1, "Empirical lower bound on epsilon".

A pair is two images of different groups and the *same* class, both given the *same* wrong label, drawn uniformly from
the other classes. A fair coin decides which of the two the target is trained on.

Why the same class and the same wrong label. The bound is valid for any pairs, since only the coin is random in its
proof; but the auditor compares two losses, and whatever makes them differ without training is noise to him. With class
and label shared, and first and second drawn at random, the members are exchangeable before the coin falls: neither is
the likelier guess, and the target's labels, slot by slot, do not depend on the coins: class counts give nothing away.

A group gives at most one canary, so each coin concerns other patients. Its other images stay where the caller has them;
leave them out of `rows` and of the shared rows where the claim is per patient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.runs.errors import InputError

_PAIRING, _COINS = 21, 22  # keep the random streams of pairs and of coins apart


@dataclass(frozen=True)
class CanaryPairs:
    """Pairs of images with a wrong label, and the coins."""

    first: np.ndarray
    """Image row of each pair's first member, [n]."""
    second: np.ndarray
    """Image row of the second member, [n]."""
    label: np.ndarray
    """Wrong class number, of both members, [n]."""
    coin: np.ndarray
    """True where the target is trained on the first member, [n]."""

    def __post_init__(self) -> None:
        """Hold the arrays still."""
        for array in (self.first, self.second, self.label, self.coin):
            array.setflags(write=False)

    @property
    def members(self) -> np.ndarray:
        """The image of each pair that the target is trained on, [n]."""
        return np.where(self.coin, self.first, self.second)

    def training_rows(self, shared: np.ndarray) -> np.ndarray:
        """Rows of the target in slot order: the shared ones, ascending, then one member of each pair, [n_shared + n].

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
        """Class numbers of all images with the canaries' wrong labels in place, [N]; members and others alike."""
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
    are kept at random; an odd one out of a class is not used.

    Args:
        labels: True class number of every image, [N], from 0 to n_classes - 1.
        groups: Group of every image, [N].
        rows: Images that may become canaries.
        n_pairs: Pairs wanted; the bound needs 200 or more to say something.
        n_classes: Classes, 2 or more.
        seed: Decides pairs, wrong labels and, in a stream of their own, coins.

    Returns:
        The pairs, in random order.

    Raises:
        InputError: Fewer pairs can be made than wanted, labels outside the classes, or fewer than two classes.

    Source:
        METHODS section 1, "Empirical lower bound on epsilon": "Canaries: label noise, r >= 200".
    """
    rows, true = np.unique(np.asarray(rows, dtype=np.intp)), np.asarray(labels)
    if n_classes < 2:
        raise InputError(f"n_classes is {n_classes}; a wrong label needs 2 classes or more")
    if len(rows) and (true[rows].min() < 0 or true[rows].max() >= n_classes):
        raise InputError(f"labels of the canaries must be class numbers from 0 to {n_classes - 1}")
    rng = np.random.default_rng([_PAIRING, seed])
    pairs = _pairs_within_class(true, np.asarray(groups), rows, rng)
    if not 1 <= n_pairs <= len(pairs):
        raise InputError(
            f"{n_pairs} pairs of canaries are wanted; these {len(rows)} images make {len(pairs)} pairs of one class "
            "and different groups; ask for 1 to as many, or offer more images"
        )
    chosen = pairs[rng.permutation(len(pairs))[:n_pairs]]
    wrong = (true[chosen[:, 0]] + rng.integers(1, n_classes, n_pairs)) % n_classes
    coin = np.random.default_rng([_COINS, seed]).random(n_pairs) < 0.5
    return CanaryPairs(chosen[:, 0].copy(), chosen[:, 1].copy(), wrong, coin)


def _pairs_within_class(
    labels: np.ndarray, groups: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """All pairs that can be made of one random image a group, [pairs, 2]."""
    shuffled = rng.permutation(rows)
    _, one = np.unique(groups[shuffled].astype(str), return_index=True)  # the first of each group in random order
    offered = shuffled[np.sort(one)]
    pairs = [np.empty((0, 2), dtype=np.intp)]
    for label in np.unique(labels[offered]):
        of_class = offered[labels[offered] == label]
        pairs.append(of_class[: len(of_class) // 2 * 2].reshape(-1, 2))
    return np.concatenate(pairs)
