"""The pairs of paper 004, section 4: all positive ones of a part's patients, and one negative of the data set for each.

Two images with the same pixels are left out of the positives: everything recognises them. Negatives are drawn twice:
a random other patient (corrected), and a random other image, by which patients with many images come more often, as
the paper draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, pair_weights, positive_pairs
from memorisk.studies.pairs.division import Division

KINDS = ("positive", "negative", "negative_paper")


@dataclass(frozen=True, eq=False)
class PartPairs:
    """Pairs of one part of one data set, by rows of the store."""

    dataset: str
    """Its name."""
    pairs: dict[str, Pairs]
    """"positive", "negative" (a random other patient), "negative_paper" (a random other image): [P] each."""
    groups: np.ndarray
    """[N] patient of every image."""
    weight: np.ndarray
    """[P] 1 / pairs of the patient; of a negative, of the positive that it stands beside."""
    identical: int
    """Pairs of identical images that are left out."""

    def identities(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Patients of the first and second images of a kind of pairs."""
        found = self.pairs[kind]
        return self.groups[found.first].astype(str), self.groups[found.second].astype(str)

    @property
    def n_identities(self) -> int:
        """Patients with a positive pair."""
        return len(np.unique(self.identities("positive")[0]))

    @property
    def largest_share(self) -> float:
        """Of the positive pairs, the share of the eight patients that own most; NaN without pairs."""
        _, count = np.unique(self.identities("positive")[0], return_counts=True)
        return float(np.sort(count)[-8:].sum() / count.sum()) if len(count) else float("nan")


def part_pairs(division: Division, part: str, datasets: Sequence[str], *, seed: int) -> list[PartPairs]:
    """The pairs of a part, a data set at a time; one without positive pairs or with one patient only is left out.

    Args:
        division: Who is where.
        part: "validation" or "test".
        datasets: In this order.
        seed: Of the negatives.
    """
    found = []
    for place, dataset in enumerate(datasets):
        rows = division.rows(part, dataset)
        groups = division.groups[rows].astype(str)
        every = positive_pairs(groups)
        same = division.pixels[rows[every.first]] == division.pixels[rows[every.second]]
        positive = Pairs(every.first[~same], every.second[~same])
        if not len(positive) or len(np.unique(groups)) < 2:
            continue
        draw = int(np.random.SeedSequence([seed, place, part == "test"]).generate_state(1)[0])
        local = {
            "positive": positive,
            "negative": negative_pairs(groups, positive, seed=draw),
            "negative_paper": negative_pairs(groups, positive, partner="image", seed=draw),
        }
        pairs = {kind: Pairs(rows[p.first], rows[p.second]) for kind, p in local.items()}
        weight = pair_weights(groups[positive.first])
        found.append(PartPairs(dataset, pairs, division.groups, weight, int(same.sum())))
    return found
