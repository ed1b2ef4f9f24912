"""The scores that a detector left, with the pairs they are of: what every table of the benchmark is made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from memorisk.statistics.pairs.decisions import sensitivity_threshold
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.contenders import Contender
from memorisk.studies.pairs.division import TEST, VALIDATION, Division
from memorisk.studies.pairs.pairing import KINDS, PartPairs
from memorisk.studies.pairs.reid_cell import ALL_PAIRS, SCORES, reid_pairs
from memorisk.studies.unique_features.results import Arrays

FORMS = ("corrected", "paper")


class Listed(NamedTuple):
    """Pairs as the statistics take them."""

    score: np.ndarray
    """[N]."""
    positive: np.ndarray
    """[N]."""
    first: np.ndarray
    """[N] identity."""
    second: np.ndarray
    """[N] identity."""
    weight: np.ndarray
    """[N]; ones in the paper's form."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One part of one data set, scored by one detector."""

    pairs: PartPairs
    """Who is in which pair."""
    scores: dict[str, np.ndarray]
    """[P] by kind of pair."""

    def listed(self, form: str) -> Listed:
        """Positive and negative pairs, patient-weighted ("corrected") or each alike ("paper").

        Args:
            form: Of METHODS section 4.
        """
        kinds = (KINDS[0], KINDS[1] if form == "corrected" else KINDS[2])
        ends = [self.pairs.identities(kind) for kind in kinds]
        n = len(self.pairs.weight)
        weight = np.tile(self.pairs.weight, 2) if form == "corrected" else np.ones(2 * n)
        return Listed(
            np.concatenate([self.scores[kind] for kind in kinds]),
            np.repeat([True, False], n),
            np.concatenate([first for first, _ in ends]),
            np.concatenate([second for _, second in ends]),
            weight,
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """A detector with all that it found."""

    cell: Cell
    test: dict[str, Scored]
    """By data set."""
    validation: dict[str, Scored]
    """By data set."""
    at_half: float
    """Score at which the probability is one half; NaN without a head."""

    @property
    def name(self) -> str:
        """Of the detector."""
        return self.cell.name

    @property
    def contender(self) -> Contender:
        """The detector."""
        return self.cell.contender

    @property
    def division(self) -> Division:
        """Who is where."""
        return self.cell.division

    @cached_property
    def all_pairs(self) -> Arrays:
        """What was found among all pairs."""
        return self.cell.read(ALL_PAIRS)

    @property
    def why_no_pairs(self) -> str:
        """Why nothing was compared one against all; empty where it was."""
        return str(self.all_pairs["why_not"])

    def calibrated(self, dataset: str) -> float:
        """The threshold that keeps the sensitivity on the data set's validation patients; the others' mean without any.

        Args:
            dataset: Its name.
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
        """[n] score of each test image with the closest one of another patient, and [n] its patient.

        Args:
            dataset: Its name.
        """
        rows = self.division.rows(TEST, dataset)
        found = self.all_pairs[f"{self.division.names.index(dataset)}/closest"]
        return found, self.division.groups[rows].astype(str)


def read_reid(cells: Sequence[Cell]) -> list[Measured]:
    """The finished detectors, in their order.

    Args:
        cells: All of a run.
    """
    done = [cell for cell in cells if cell.done]
    if not done:
        return []
    parts = {part: reid_pairs(done[0], part) for part in (TEST, VALIDATION)}
    found = []
    for cell in done:
        scores, names = cell.read(SCORES), cell.division.names
        read = {
            part: {
                p.dataset: Scored(p, {kind: scores[f"{part}/{names.index(p.dataset)}/{kind}"] for kind in KINDS})
                for p in listed
            }
            for part, listed in parts.items()
        }
        at_half = cell.described.get("at_half")
        found.append(Measured(cell, read[TEST], read[VALIDATION], float("nan") if at_half is None else float(at_half)))
    return found


def pooled(parts: Sequence[Listed]) -> Listed:
    """Pairs of several data sets as one: micro-averaged.

    Args:
        parts: At least one.
    """
    return Listed(*(np.concatenate(column) for column in zip(*parts, strict=True)))
