"""The scores that a detector left of copies, its thresholds, and which copies it recognises.

A copy is recognised where its score with its source is at least the threshold. One rule makes the threshold of every
detector, on validation patients of the data set: half of the pairs of two patients lie below it (figures 4 and 5 of
paper 004), or 95 % of the pairs of one patient lie at or above it (its text). A data set without pairs of one patient
takes the mean threshold of the others, on the raw scale of the scores, as the paper does; where no other has any
either, or where that is asked for, its own pairs of two images make the first threshold. Of the second there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from memorisk.statistics.pairs.decisions import sensitivity_threshold, specificity_threshold
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.contenders import Contender
from memorisk.studies.pairs.copies_cell import PAIRS, CopyPairs, copy_pairs, sampled_rows
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.figures import RULE_WORDS
from memorisk.studies.pairs.options import BenchCopiesOptions
from memorisk.studies.unique_features.results import Arrays

SPECIFICITY, RECALL = 0.5, 0.95
RULES = tuple(RULE_WORDS)
OWN, MEAN, IMAGES = "its validation patients", "mean of the other data sets", "pairs of two of its images"


@dataclass(frozen=True)
class Cut:
    """A threshold."""

    value: float
    """NaN where there is none."""
    made_from: str
    """In words."""


@dataclass(frozen=True, eq=False)
class Recognised:
    """Copies of one data set by one family."""

    strengths: np.ndarray
    """[s] from the weakest to the strongest."""
    scores: np.ndarray
    """[s, n]; NaN where a copy has none, which is then not recognised."""

    def hits(self, threshold: float) -> np.ndarray:
        """[s, n] which copies are recognised."""
        return self.scores >= threshold


@dataclass(frozen=True, eq=False)
class CopiesMeasured:
    """A detector with all that it found."""

    cell: Cell
    pairs: dict[str, dict[str, CopyPairs]]
    """By part and data set."""
    groups: dict[str, np.ndarray]
    """[n] patient of each copied image, by data set."""
    families: tuple[str, ...]
    """Of the copies."""

    @property
    def name(self) -> str:
        """Of the detector."""
        return self.cell.name

    @property
    def contender(self) -> Contender:
        """The detector."""
        return self.cell.contender

    @property
    def datasets(self) -> list[str]:
        """Names."""
        return list(self.groups)

    @cached_property
    def _scores(self) -> Arrays:
        return self.cell.read(PAIRS)

    def scores(self, part: str, dataset: str, kind: str) -> np.ndarray:
        """[P] scores of pairs; none where there are none.

        Args:
            part: "validation" or "test".
            dataset: Its name.
            kind: "negative" or "positive".
        """
        return self._scores.get(f"{part}/{self.cell.division.names.index(dataset)}/{kind}", np.empty(0))

    @cached_property
    def cuts(self) -> dict[str, dict[str, Cut]]:
        """The thresholds, by rule and data set."""
        return {rule: self._cuts(rule) for rule in RULES}

    def _cuts(self, rule: str) -> dict[str, Cut]:
        own = {}
        for dataset, pairs in self.pairs[VALIDATION].items():
            if not len(pairs.positive):
                continue
            if rule == "specificity":
                negative = self.scores(VALIDATION, dataset, "negative")
                own[dataset] = specificity_threshold(negative, specificity=SPECIFICITY)
            else:
                positive = self.scores(VALIDATION, dataset, "positive")
                own[dataset] = sensitivity_threshold(positive, pairs.weight, sensitivity=RECALL)
        return {dataset: self._cut(rule, dataset, own) for dataset in self.datasets}

    def _cut(self, rule: str, dataset: str, own: dict[str, float]) -> Cut:
        if dataset in own:
            return Cut(own[dataset], OWN)
        negative = self.scores(VALIDATION, dataset, "negative")
        of_images = cast(BenchCopiesOptions, self.cell.options).no_identities == "own" or not own
        if rule == "specificity" and len(negative) and of_images:
            return Cut(specificity_threshold(negative, specificity=SPECIFICITY), IMAGES)
        if own:
            return Cut(float(np.mean(list(own.values()))), MEAN)
        return Cut(float("nan"), "no patient of the validation part has two images")

    @cached_property
    def copies(self) -> dict[tuple[str, str], Recognised]:
        """Scores of the copies by family and data set."""
        found = {}
        for family in self.families:
            arrays = self.cell.read(family)
            for dataset in self.datasets:
                scores = arrays[str(self.cell.division.names.index(dataset))]
                found[family, dataset] = Recognised(arrays["strengths"], scores)
        return found

    def hits(self, rule: str, family: str, dataset: str, strength: int = -1) -> np.ndarray:
        """[n] which copies of a data set are recognised.

        Args:
            rule: "specificity" or "recall".
            family: Of the copies.
            dataset: Its name.
            strength: Place of the strength; the strongest by default.
        """
        return self.copies[family, dataset].hits(self.cuts[rule][dataset].value)[strength]

    def strongest(self, rule: str, dataset: str) -> np.ndarray:
        """[n] share of the families whose strongest copy of each image is recognised."""
        return np.mean([self.hits(rule, family, dataset) for family in self.families], axis=0)


def read_copies(cells: Sequence[Cell], families: tuple[str, ...]) -> list[CopiesMeasured]:
    """The finished detectors, in their order.

    Args:
        cells: All of a run.
        families: Of the copies.
    """
    done = [cell for cell in cells if cell.done]
    if not done:
        return []
    first = done[0]
    pairs = {part: copy_pairs(first, part) for part in (VALIDATION, TEST)}
    groups = {name: first.division.groups[sampled_rows(first, name)].astype(str) for name in first.division.names}
    return [CopiesMeasured(cell, pairs, groups, families) for cell in done]
