"""Cells: the result of one run of one architecture on one data set, and conditions for comparing cells.

Only scored images count (seen by one model of the seed and not by the other); frequency is the class's share of all
images of the data set (paper 000, section 4; METHODS section 1, "Rarity").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from memorisk.audits.classifier.evidence import SCORES, WHOLE, evidence_from_table
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.rendering import load_result
from memorisk.report.columns import column_numbers, column_texts, rows
from memorisk.runs.errors import InputError, one_line
from memorisk.statistics.rank_tests import MannWhitney, mann_whitney

RARE_BELOW = 0.05
"""Share of the images below which a class is rare (paper 000, A.11)."""
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Cell:
    """Scores and frequencies of one run: one architecture on one data set.

    Attributes:
        architecture: Name of the architecture.
        dataset: Name of the data set.
        design: Design of the run: "balanced", "matched" or "paper".
        seeds: Ids of the seeds, [S].
        m: Score sigma_s D_s of each scored image, [S, I]; NaN where the seed did not score it.
        image: Ids of the images, [I].
        label: Class of each image, [I] (an image with several findings is an item for each).
        group: Patient of each image, [I].
        classes: Table with one row per class: ``label, frequency, n, n_groups, mean``; n counts scored images, and mean
            is over them, of the seed-averaged M (algorithm 1 of the paper); NaN where there are none.
    """

    architecture: str
    dataset: str
    design: str
    seeds: NDArray
    m: NDArray[np.float64]
    image: NDArray
    label: NDArray
    group: NDArray
    classes: pd.DataFrame

    @property
    def frequency(self) -> NDArray[np.float64]:
        """Return the frequency of each image's class, [I]."""
        of_label = dict(
            zip(column_texts(self.classes, "label"), column_numbers(self.classes, "frequency"), strict=True)
        )
        return np.array([of_label[name] for name in self.label], dtype=np.float64)

    @property
    def rare_scored(self) -> bool:
        """Return whether a class below 5 % has a scored image: only then does the cell say anything of rarity."""
        return bool((column_numbers(self.scored, "frequency") < RARE_BELOW).any())

    @property
    def scored(self) -> pd.DataFrame:
        """Return the classes with a scored image."""
        return rows(self.classes, column_numbers(self.classes, "n") > 0)


def make_cell(
    architecture: str,
    dataset: str,
    *,
    frequency: Mapping[str, float],
    m: ArrayLike,
    image: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    seeds: ArrayLike | None = None,
    design: str = "balanced",
) -> Cell:
    """Make a cell from arrays; images that no seed scored are left out.

    Args:
        architecture: Name of the architecture.
        dataset: Name of the data set.
        frequency: Share of all images of the data set by class, above 0.
        m: Score M of each seed and image, [S, I]; NaN where not scored.
        image: Ids of the images, [I].
        label: Class of each image, [I], each with a frequency.
        group: Patient of each image, [I].
        seeds: Ids of the seeds, [S]; 0, 1, ... if not given.
        design: Design by which the models were trained.

    Raises:
        InputError: Shapes do not fit, a class has no frequency, or no image is scored.
    """
    table = np.asarray(m, dtype=np.float64)
    columns = [np.asarray(c).astype(str) for c in (image, label, group)]
    if table.ndim != 2 or any(c.shape != table.shape[1:] for c in columns):
        raise InputError(f"m {table.shape} must be [seeds, images], and image, label and group one entry per image")
    ids = np.arange(len(table)) if seeds is None else np.asarray(seeds)
    for name in np.unique(columns[1]):
        if not 0 < frequency.get(str(name), 0.0) <= 1:
            raise InputError(f"class {one_line(name, 60)!r} has no frequency in (0, 1]: give its share of all images")
    scored = np.isfinite(table)
    keep = scored.any(axis=0)
    if not keep.any():
        raise InputError(f"no image of {architecture} on {dataset} is scored: there is nothing to relate to frequency")
    table, (images, labels, groups) = table[:, keep], (c[keep] for c in columns)
    classes = _classes(frequency, np.nanmean(table, axis=0), labels, groups)
    return Cell(architecture, dataset, design, ids, table, images, labels, groups, classes)


def _classes(frequency: Mapping[str, float], mean: NDArray, label: NDArray, group: NDArray) -> pd.DataFrame:
    records = []
    for name, share in sorted(frequency.items()):
        own = label == str(name)
        records.append(
            {
                "label": str(name),
                "frequency": float(share),
                "n": int(own.sum()),
                "n_groups": len(np.unique(group[own])),
                "mean": float(mean[own].mean()) if own.any() else NAN,
            }
        )
    return pd.DataFrame(records)


def cell_from_run(folder: str | Path, *, architecture: str | None = None, dataset: str | None = None) -> Cell:
    """Read the cell of a finished run folder.

    Args:
        folder: Folder of ``audit classifier`` or ``audit losses``, any design.
        architecture: Name of the architecture; the run's model if not given.
        dataset: Name of the data set; the run's if not given.

    Raises:
        InputError: The folder holds no finished run, or its tables do not belong together.
    """
    path = Path(folder)
    result = load_result(path)
    evidence = evidence_from_table(read_scores(path / SCORES))
    evidence = evidence.select(evidence.items.label != WHOLE)
    if not {"label", "frequency"} <= set(result.per_class.columns):
        raise InputError(
            f"{one_line(path)} is not an audit of a classifier: its result has no classes with a frequency"
        )
    shares = column_numbers(result.per_class, "frequency").tolist()
    frequency = dict(zip(column_texts(result.per_class, "label"), shares, strict=True))
    frequency.pop(WHOLE, None)
    sign, items = evidence.sign, evidence.items
    missing = sorted(set(items.label.astype(str)) - set(frequency))
    if missing:
        raise InputError(
            f"{one_line(path)}: class {one_line(missing[0], 60)!r} of the scores is not in the result; "
            "issue the run's command again"
        )
    return make_cell(
        architecture or str(result.summary.get("model") or path.name),
        dataset or str(result.summary.get("dataset") or path.name),
        frequency=frequency,
        m=np.where(sign != 0, sign * evidence.gap, np.nan),
        image=items.image,
        label=items.label,
        group=items.group,
        seeds=evidence.seeds,
        design=str(result.summary.get("design") or evidence.design),  # classes too small look like a shared part
    )


def rare_against_common(cell: Cell) -> MannWhitney:
    """Compare the class means of rare and common classes by Mann-Whitney, rare classes first."""
    frequency, mean = (column_numbers(cell.scored, c) for c in ("frequency", "mean"))
    return mann_whitney(mean[frequency < RARE_BELOW], mean[frequency >= RARE_BELOW])


def limit_or_nan(limit: float) -> float:
    """Return a limit, NaN where there is none."""
    return limit if np.isfinite(limit) else NAN


def missing_ranks_reason(ranks: MannWhitney) -> list[str]:
    """Return why Mann-Whitney has no result or no interval; empty if it has both."""
    if np.isnan(ranks.u):
        side = "rare (below 5 %)" if not ranks.n_first else "common (5 % or more)"
        return [f"no {side} class is scored: nothing to compare"]
    if np.isinf(ranks.low):
        return [f"{ranks.n_first} rare and {ranks.n_second} common classes: too few for a 95 % interval of the shift"]
    return []


def distinct_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells as a list, one per architecture and data set.

    Raises:
        InputError: The list of cells is empty, or has two of the same names.
    """
    every = list(cells)
    if not every:
        raise InputError("no cells: give at least one finished run")
    pairs = set()
    for cell in every:
        if (cell.architecture, cell.dataset) in pairs:
            raise InputError(
                f"two runs of {one_line(cell.architecture, 60)} on {one_line(cell.dataset, 60)}: give one for each, or "
                "name them apart (architecture=, dataset=)"
            )
        pairs.add((cell.architecture, cell.dataset))
    return every


def check_same_classes(cells: Sequence[Cell]) -> None:
    """Refuse runs of one data set that differ in its classes or their frequencies.

    Raises:
        InputError: The runs differ in them.
    """
    first = cells[0].classes
    for cell in cells[1:]:
        agree = column_texts(cell.classes, "label") == column_texts(first, "label")
        if not agree or not np.array_equal(
            column_numbers(cell.classes, "frequency"), column_numbers(first, "frequency")
        ):
            raise InputError(
                f"{cells[0].architecture} and {cell.architecture} on {cell.dataset} are of different images: their "
                "classes or frequencies differ; run both on the same data, or name the data sets apart (dataset=)"
            )
