"""Scores that a detector left, with their pairs and copies; every table is made from them.

A copy is recognised where its score with its source is at least the threshold. One rule makes the threshold of
every detector, on validation patients of the data set: half of the pairs of two patients lie below it (figures 4
and 5 of paper 004), or 95 % of the pairs of one patient lie at or above it (its text). A data set without pairs of
one patient takes the mean threshold of the others, on the raw scale of the scores, as the paper does. Where no other
data set has such pairs either, or where the options require it, the data set's own pairs of two images make the
first threshold; the second does not exist there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from memorisk.statistics.pairs.decisions import sensitivity_threshold, specificity_threshold
from memorisk.studies.engine.cells import Arrays
from memorisk.studies.pairs.cells import ALL_PAIRS, PAIRS, SCORES, Cell, CopyPairs, copy_pairs, reid_pairs, sampled_rows
from memorisk.studies.pairs.detectors import BenchmarkDetector
from memorisk.studies.pairs.division import KINDS, TEST, VALIDATION, Division, PartPairs
from memorisk.studies.pairs.options import BenchCopiesOptions

FORMS = ("corrected", "paper")


class PairScores(NamedTuple):
    """Pairs as the statistics take them."""

    score: np.ndarray
    """Score of each pair, [N]."""
    positive: np.ndarray
    """Whether each pair is of one patient, [N]."""
    first: np.ndarray
    """Identity of the first image of each pair, [N]."""
    second: np.ndarray
    """Identity of the second image of each pair, [N]."""
    weight: np.ndarray
    """Weight of each pair, [N]; ones in the paper's form."""


@dataclass(frozen=True, eq=False)
class PartScores:
    """One part of one data set, scored by one detector."""

    pairs: PartPairs
    """Pairs of the part."""
    scores: dict[str, np.ndarray]
    """Scores by kind of pair, [P] each."""

    def listed(self, form: str) -> PairScores:
        """Return positive and negative pairs, patient-weighted ("corrected") or each alike ("paper").

        Args:
            form: Form of METHODS section 4: "corrected" or "paper".
        """
        kinds = (KINDS[0], KINDS[1] if form == "corrected" else KINDS[2])
        ends = [self.pairs.identities(kind) for kind in kinds]
        n = len(self.pairs.weight)
        weight = np.tile(self.pairs.weight, 2) if form == "corrected" else np.ones(2 * n)
        return PairScores(
            np.concatenate([self.scores[kind] for kind in kinds]),
            np.repeat([True, False], n),
            np.concatenate([first for first, _ in ends]),
            np.concatenate([second for _, second in ends]),
            weight,
        )


@dataclass(frozen=True, eq=False)
class DetectorScores:
    """Results of one detector."""

    cell: Cell
    """Finished cell of the detector."""

    @property
    def name(self) -> str:
        """Name the detector."""
        return self.cell.name

    @property
    def contender(self) -> BenchmarkDetector:
        """Return the detector that was measured."""
        return self.cell.contender


@dataclass(frozen=True, eq=False)
class ReidScores(DetectorScores):
    """Results of one detector in the benchmark of re-identification."""

    test: dict[str, PartScores]
    """Scores on test patients, by data set."""
    validation: dict[str, PartScores]
    """Scores on validation patients, by data set."""
    at_half: float
    """Score at which the probability is one half; NaN without a head."""

    @property
    def division(self) -> Division:
        """Return the division of patients."""
        return self.cell.division

    @cached_property
    def all_pairs(self) -> Arrays:
        """Return the results over all pairs."""
        return self.cell.read(ALL_PAIRS)

    @property
    def why_no_pairs(self) -> str:
        """Return why nothing was compared one against all; empty where it was."""
        return str(self.all_pairs["why_not"])

    def calibrated(self, dataset: str) -> float:
        """Return the threshold that keeps the sensitivity on the data set's validation patients.

        A data set without such patients takes the mean of the other thresholds.

        Args:
            dataset: Name of the data set.
        """
        own = {
            name: sensitivity_threshold(
                some.scores["positive"], some.pairs.weight, sensitivity=getattr(self.cell.options, "sensitivity", 0.99)
            )
            for name, some in self.validation.items()
        }
        if dataset in own:
            return own[dataset]
        return float(np.mean(list(own.values()))) if own else float("nan")

    def closest(self, dataset: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the score of each test image with the closest one of another patient, [n], and its patient, [n].

        Args:
            dataset: Name of the data set.
        """
        rows = self.division.rows(TEST, dataset)
        scores = self.all_pairs[f"{self.division.names.index(dataset)}/closest"]
        return scores, self.division.groups[rows].astype(str)


def read_reid(cells: Sequence[Cell]) -> list[ReidScores]:
    """Return the finished detectors, in their order.

    Args:
        cells: All cells of a run.
    """
    done = [cell for cell in cells if cell.done]
    if not done:
        return []
    parts = {part: reid_pairs(done[0], part) for part in (TEST, VALIDATION)}
    measured = []
    for cell in done:
        scores, names = cell.read(SCORES), cell.division.names
        read = {
            part: {
                p.dataset: PartScores(p, {kind: scores[f"{part}/{names.index(p.dataset)}/{kind}"] for kind in KINDS})
                for p in listed
            }
            for part, listed in parts.items()
        }
        at_half = cell.described.get("at_half")
        measured.append(
            ReidScores(cell, read[TEST], read[VALIDATION], float("nan") if at_half is None else float(at_half))
        )
    return measured


def pool_sets(parts: Sequence[PairScores]) -> PairScores:
    """Combine pairs of several data sets into one set: micro-averaged.

    Args:
        parts: Pairs of each data set, at least one.
    """
    return PairScores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


SPECIFICITY, RECALL = 0.5, 0.95
RULE_WORDS = {"specificity": "50 % specificity", "recall": "95 % recall"}
RULES = tuple(RULE_WORDS)
OWN, MEAN, IMAGES = "its validation patients", "mean of the other data sets", "pairs of two of its images"


@dataclass(frozen=True)
class Threshold:
    """Threshold of a decision about pairs."""

    value: float
    """Value of the threshold; NaN where there is none."""
    made_from: str
    """Data that it is made from, in words."""


@dataclass(frozen=True, eq=False)
class CopyScores:
    """Copies of one data set by one family."""

    strengths: np.ndarray
    """Strengths of the copies from the weakest to the strongest, [s]."""
    scores: np.ndarray
    """Scores of the copies, [s, n]; NaN where a copy has none and is not recognised."""

    def hits(self, threshold: float) -> np.ndarray:
        """Return which copies are recognised, [s, n]."""
        return self.scores >= threshold


@dataclass(frozen=True, eq=False)
class CopiesScores(DetectorScores):
    """Results of one detector in the benchmark of copies."""

    pairs: dict[str, dict[str, CopyPairs]]
    """Pairs by part and data set."""
    groups: dict[str, np.ndarray]
    """Patient of each copied image by data set, [n] each."""
    families: tuple[str, ...]
    """Families of the copies."""

    @property
    def datasets(self) -> list[str]:
        """Return the names of the data sets."""
        return list(self.groups)

    @cached_property
    def _scores(self) -> Arrays:
        return self.cell.read(PAIRS)

    def scores(self, part: str, dataset: str, kind: str) -> np.ndarray:
        """Return the scores of pairs, [P]; an empty array where there are none.

        Args:
            part: "validation" or "test".
            dataset: Name of the data set.
            kind: "negative" or "positive".
        """
        return self._scores.get(f"{part}/{self.cell.division.names.index(dataset)}/{kind}", np.empty(0))

    @cached_property
    def cuts(self) -> dict[str, dict[str, Threshold]]:
        """Return the thresholds, by rule and data set."""
        return {rule: self._cuts(rule) for rule in RULES}

    def _cuts(self, rule: str) -> dict[str, Threshold]:
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

    def _cut(self, rule: str, dataset: str, own: dict[str, float]) -> Threshold:
        if dataset in own:
            return Threshold(own[dataset], OWN)
        negative = self.scores(VALIDATION, dataset, "negative")
        of_images = cast(BenchCopiesOptions, self.cell.options).no_identities == "own" or not own
        if rule == "specificity" and len(negative) and of_images:
            return Threshold(specificity_threshold(negative, specificity=SPECIFICITY), IMAGES)
        if own:
            return Threshold(float(np.mean(list(own.values()))), MEAN)
        return Threshold(float("nan"), "no patient of the validation part has two images")

    @cached_property
    def copies(self) -> dict[tuple[str, str], CopyScores]:
        """Return the scores of the copies by family and data set."""
        by_family = {}
        for family in self.families:
            arrays = self.cell.read(family)
            for dataset in self.datasets:
                scores = arrays[str(self.cell.division.names.index(dataset))]
                by_family[family, dataset] = CopyScores(arrays["strengths"], scores)
        return by_family

    def hits(self, rule: str, family: str, dataset: str, strength: int = -1) -> np.ndarray:
        """Return which copies of a data set are recognised, [n].

        Args:
            rule: "specificity" or "recall".
            family: Family of the copies.
            dataset: Name of the data set.
            strength: Place of the strength; the strongest by default.
        """
        return self.copies[family, dataset].hits(self.cuts[rule][dataset].value)[strength]

    def strongest(self, rule: str, dataset: str) -> np.ndarray:
        """Return the share of the families whose strongest copy of each image is recognised, [n]."""
        return np.mean([self.hits(rule, family, dataset) for family in self.families], axis=0)


def read_copies(cells: Sequence[Cell], families: tuple[str, ...]) -> list[CopiesScores]:
    """Return the finished detectors, in their order.

    Args:
        cells: All cells of a run.
        families: Families of the copies.
    """
    done = [cell for cell in cells if cell.done]
    if not done:
        return []
    first = done[0]
    pairs = {part: copy_pairs(first, part) for part in (VALIDATION, TEST)}
    groups = {name: first.division.groups[sampled_rows(first, name)].astype(str) for name in first.division.names}
    return [CopiesScores(cell, pairs, groups, families) for cell in done]
