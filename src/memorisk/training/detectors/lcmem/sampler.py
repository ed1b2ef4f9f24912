"""Pairs on which a Siamese detector is trained (METHODS section 4, "Pairs for training").

A batch is half positive pairs, half negative ones. Two protocols:

=====================  =============================================  =========================================
                       corrected                                      paper
=====================  =============================================  =========================================
positives              identities in turn, each as often as any       all pairs of all identities, each pair as
                       other: of one with 60 images as many pairs     often as any other: patients with many
                       as of one with two                             images are most of them
first of a negative    a random image of a random identity            a random image
second of a negative   a random image of a random other identity,     a random image of any other identity of
                       in nine of ten pairs of the same data set      all data sets
=====================  =============================================  =========================================

A positive is two *different* files of one identity; files with the same pixels count as one. An image that is alone in
its identity forms a positive by two augmentations of the one file (`PairBatch.copied`) where a data set has no
identities at all, and in any data set where the caller requests it; else it occurs in negatives only. Identical images
are never a negative pair, whatever their identities.

**Data sets.** Each gives a share of the pairs proportional to the square root of its identities that have a positive,
so that one a hundredth the size gives a tenth of the pairs: small data sets are oversampled. Negatives begin in the
same shares, so that the data set does not reveal the answer.

**Batch.** Batches are as large as requested, but at most twice the identities with a positive: more would hold every
identity several times. An epoch has whole batches only, as many as come nearest to the requested pairs; none has less
than two pairs. Every draw derives from (seed, epoch), a batch is a part of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from memorisk.runs.errors import InputError

Protocol = Literal["paper", "corrected"]
_STREAM = 4005
_TRIES = 64
_OVERSAMPLING = 0.5


@dataclass(frozen=True)
class PairBatch:
    """Pairs of rows, positives first."""

    first: np.ndarray
    """Rows of the first images, [b]."""
    second: np.ndarray
    """Rows of the second images, [b]; the same as ``first`` where ``copied``."""
    positive: np.ndarray
    """Whether each pair is positive, [b] bool."""
    copied: np.ndarray
    """Whether each pair is two augmentations of one file, [b] bool."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class _Identities:
    """The identities of one data set, each with its different files."""

    rows: np.ndarray
    """Rows of the files, those of an identity next to each other."""
    start: np.ndarray
    """Place in ``rows`` where each identity begins, [G]."""
    count: np.ndarray
    """Number of different files of each identity, [G]."""
    able: np.ndarray
    """Numbers of the identities that have a positive."""


class PairSampler:
    """Sampler of the pairs of each epoch.

    Args:
        rows: Rows of the training images, [n].
        identity: Identity of each image, [n], as text or whole numbers.
        pixels: Hash of the pixels of each image, [n].
        dataset: Data set of each image, [n], or None for one.
        protocol: Protocol of the draws, as in the table above.
        copies: Whether identities of one file have positives by augmentation in every data set.
        same_dataset: Share of the negatives within one data set; ``paper`` does not control it.
        seed: Random seed of all draws.

    Raises:
        InputError: The images are of one identity, or none has a positive.
    """

    def __init__(
        self,
        rows: np.ndarray,
        identity: np.ndarray,
        pixels: np.ndarray,
        dataset: np.ndarray | None = None,
        *,
        protocol: Protocol = "corrected",
        copies: bool = False,
        same_dataset: float = 0.9,
        seed: int = 0,
    ) -> None:
        self.rows, self.identity, self.protocol = rows, identity, protocol
        self.copies, self.same_dataset, self.seed = copies, same_dataset, seed
        n = len(rows)
        names = np.zeros(n, dtype=np.int64) if dataset is None else np.asarray(dataset, dtype=str)
        if not (len(identity) == len(pixels) == len(names) == n):
            raise InputError(f"{n} rows need as many identities, pixel hashes and data sets")
        self._set_of = np.unique(names, return_inverse=True)[1]
        self._code, self._pixel = (
            np.unique(np.asarray(values, dtype=str), return_inverse=True)[1] for values in (identity, pixels)
        )
        sets = range(int(self._set_of.max(initial=-1)) + 1)
        self._sets = tuple(self._identities(np.flatnonzero(self._set_of == s)) for s in sets)
        if len(np.unique(self._code)) < 2:
            raise InputError("all training images are of one identity: at least two are needed to tell them apart")
        if not self.n_able:
            raise InputError(
                "no identity has two different training images: name whose each image is (--group-from), or train "
                "without identities (--identities ignore)"
            )

    def _identities(self, places: np.ndarray) -> _Identities:
        """Collect the identities among some images of one data set; images with the same pixels once."""
        order = places[np.lexsort((self._pixel[places], self._code[places]))]
        again = (self._code[order][1:] == self._code[order][:-1]) & (self._pixel[order][1:] == self._pixel[order][:-1])
        order = order[np.concatenate([[True], ~again])]
        _, start, count = np.unique(self._code[order], return_index=True, return_counts=True)
        several = np.flatnonzero(count > 1)
        alone = self.copies or not len(several)
        return _Identities(order, start, count, np.arange(len(count)) if alone else several)

    @property
    def n_able(self) -> int:
        """Number of identities that have a positive pair."""
        return sum(len(one.able) for one in self._sets)

    @property
    def copies_needed(self) -> bool:
        """Return whether some positive pairs are two augmentations of one file."""
        return any(one.count[one.able].min(initial=2) < 2 for one in self._sets)

    def batch_size(self, asked: int) -> int:
        """Return the pairs per batch: as requested, even, at most twice the identities with a positive, at least 2."""
        return max(2, min(asked, 2 * self.n_able) // 2 * 2)

    def plan(self, pairs: int, batch: int) -> tuple[int, int]:
        """Return the batches of an epoch, and the pairs of each: as many as come nearest to the request.

        Args:
            pairs: Number of pairs in an epoch.
            batch: Number of pairs per batch.
        """
        size = self.batch_size(batch)
        return max(1, round(pairs / size)), size

    def batches(self, epoch: int, n: int, size: int) -> list[PairBatch]:
        """Draw the batches of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
            n: Number of batches.
            size: Number of pairs of each batch, even.

        Returns:
            Batches, each half positive, half negative; rows are those of ``rows``.
        """
        half = max(1, n * size // 2)
        rng = np.random.default_rng([_STREAM, self.seed, epoch])
        quota = self._quota(half)
        return list(self._batches(self._positives(rng, quota), self._negatives(rng, quota), n))

    def _batches(
        self, positives: tuple[np.ndarray, np.ndarray], negatives: tuple[np.ndarray, np.ndarray], n: int
    ) -> Iterator[PairBatch]:
        for chosen, others in zip(
            np.array_split(np.arange(len(positives[0])), n),
            np.array_split(np.arange(len(negatives[0])), n),
            strict=True,
        ):
            first = np.concatenate([positives[0][chosen], negatives[0][others]])
            second = np.concatenate([positives[1][chosen], negatives[1][others]])
            positive = np.arange(len(first)) < len(chosen)
            yield PairBatch(self.rows[first], self.rows[second], positive, first == second)

    def _quota(self, half: int) -> np.ndarray:
        """Return the number of positives of each data set, [sets]."""
        share = np.array([float(len(one.able)) for one in self._sets]) ** _OVERSAMPLING
        exact = half * share / share.sum()
        quota = np.floor(exact).astype(np.int64)
        quota[np.argsort(quota - exact, kind="stable")[: half - quota.sum()]] += 1
        return quota

    def _positives(self, rng: np.random.Generator, quota: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw places of the two images of each positive, data sets mixed evenly over the epoch."""
        first, second, when = [], [], []
        for one, n in zip(self._sets, quota.tolist(), strict=True):
            chosen = self._turns(rng, one, n)
            count = one.count[chosen]
            a = rng.integers(count)
            b = rng.integers(np.maximum(count - 1, 1))
            b = np.where(count > 1, b + (b >= a), a)
            first.append(one.rows[one.start[chosen] + a])
            second.append(one.rows[one.start[chosen] + b])
            when.append((np.arange(n) + rng.random(n)) / max(n, 1))
        order = np.argsort(np.concatenate(when), kind="stable")
        return np.concatenate(first)[order], np.concatenate(second)[order]

    def _turns(self, rng: np.random.Generator, one: _Identities, n: int) -> np.ndarray:
        """Draw [n] identities of a data set: in turn, or by their number of pairs."""
        if self.protocol == "paper":
            pairs = one.count[one.able] * (one.count[one.able] - 1) / 2
            weight = np.maximum(pairs, 1.0)
            return rng.choice(one.able, n, p=weight / weight.sum())
        rounds = -(-n // max(1, len(one.able)))
        return np.concatenate([rng.permutation(one.able) for _ in range(rounds)] or [one.able[:0]])[:n]

    def _negatives(self, rng: np.random.Generator, quota: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw places of the two images of each negative; pairs that are not allowed are drawn again, then left out."""
        home = np.repeat(np.arange(len(self._sets)), quota)
        rng.shuffle(home)
        first, second = np.empty(len(home), np.int64), np.empty(len(home), np.int64)
        open_places = np.arange(len(home))
        for _ in range(_TRIES):
            first[open_places] = self._somebody(rng, home[open_places])
            second[open_places] = self._somebody(rng, self._away(rng, home[open_places]))
            a, b = first[open_places], second[open_places]
            open_places = open_places[(self._code[a] == self._code[b]) | (self._pixel[a] == self._pixel[b])]
            if not len(open_places):
                break
        allowed = np.setdiff1d(np.arange(len(home)), open_places)
        return first[allowed], second[allowed]

    def _away(self, rng: np.random.Generator, home: np.ndarray) -> np.ndarray:
        """Draw the data set of the second images, [n]."""
        n_sets, sizes = len(self._sets), np.bincount(self._set_of)
        if n_sets == 1:
            return home
        if self.protocol == "paper":
            return rng.choice(n_sets, len(home), p=sizes / sizes.sum())
        stays = rng.random(len(home)) < self.same_dataset
        alone = np.array([len(one.count) < 2 for one in self._sets])
        other = (home + 1 + rng.integers(n_sets - 1, size=len(home))) % n_sets
        return np.where(stays & ~alone[home], home, other)

    def _somebody(self, rng: np.random.Generator, sets: np.ndarray) -> np.ndarray:
        """Draw places of one image each, [n]: of a random identity of the data set, or any of its images."""
        places = np.empty(len(sets), np.int64)
        for number, one in enumerate(self._sets):
            here = np.flatnonzero(sets == number)
            if self.protocol == "paper":
                places[here] = one.rows[rng.integers(len(one.rows), size=len(here))]
            else:
                chosen = rng.integers(len(one.count), size=len(here))
                places[here] = one.rows[one.start[chosen] + rng.integers(one.count[chosen])]
        return places
