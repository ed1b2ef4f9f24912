"""Result of a benchmark before it is laid out: its numbers, its findings in sentences, columns of its tables.

The sentences are for the terminal, the page and Markdown alike. Columns hold estimates with their limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from memorisk.images.alterations.families import FAMILIES
from memorisk.report.blocks import Column, estimate, number, words
from memorisk.report.columns import decimal, is_missing, percent
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.studies.engine.study import FinishedStudy
from memorisk.studies.engine.tables import StudyTable
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.division import TEST, VALIDATION, Division, part_pairs
from memorisk.studies.pairs.options import Options
from memorisk.studies.pairs.plan import BenchmarkSetup


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PairBenchmark(FinishedStudy):
    """Numbers of a benchmark."""

    kind: str
    """Kind of the benchmark: "reid" or "copies"."""
    source: str
    """Short name of the images."""
    options: Options
    """Options of the benchmark."""
    reference: str
    """Name of the detector that all others are compared with."""
    board: pd.DataFrame
    """Leaderboard with one row per detector, the best first (`frames`)."""
    figures: dict[str, pd.DataFrame]
    """Numbers of the figures that are in no table, by name."""
    columns: Mapping[str, Sequence[Column]]
    """Columns of the tables."""
    missing: dict[str, str]
    """Baselines of the paper that are not at hand, and what to give to have them."""
    division: Division
    """Division of the patients."""


def setup_tables(ready: BenchmarkSetup) -> list[StudyTable]:
    """Tabulate the parts, what was run, and which baselines are missing.

    Args:
        ready: Benchmark before anything is computed.
    """
    return [_parts_table(ready), _detector_table(ready.cells), _missing_table(ready.missing)]


def _parts_table(ready: BenchmarkSetup) -> StudyTable:
    d, rows = ready.division, []
    for part in (VALIDATION, TEST):
        pairs = {p.dataset: p for p in part_pairs(d, part, d.names, seed=ready.options.seed)}
        for name in d.names:
            row: dict[str, object] = {"dataset": name, "part": part, "images": len(d.rows(part, name))}
            row |= {"patients": d.patients(part, name), "repeated": d.repeated(part, name), "pairs": 0}
            if name in pairs:
                listed_pairs = pairs[name]
                row |= {
                    "pairs": len(listed_pairs.weight),
                    "largest": listed_pairs.largest_share,
                    "identical": listed_pairs.identical,
                }
            rows.append(row)
    note = (
        "Validation patients make the thresholds, test patients are judged. Positive pairs grow with the square of a "
        "patient's images: the last columns say how much of them the eight patients with most images own."
    )
    return StudyTable("parts", "Who is asked", pd.DataFrame(), pd.DataFrame(rows), note)


def _detector_table(cells: Sequence[Cell]) -> StudyTable:
    rows = []
    for cell in cells:
        row: dict[str, object] = {"detector": cell.name, "state": "measured" if cell.done else "not run"}
        row |= {"compares": cell.contender.compares}
        if cell.done:
            description = cell.described
            row |= {name: description.get(name) for name in ("dimension", "weights", "preprocessing")}
            row["notes"] = " ".join(description.get("notes") or [])
        elif cell.failure:
            row |= {"state": "failed", "notes": cell.failure}
        rows.append(row)
    note = "A detector that failed is tried again by the same command."
    return StudyTable("detectors", "Detectors", pd.DataFrame(), pd.DataFrame(rows), note)


def _missing_table(missing: Mapping[str, str]) -> StudyTable:
    rows = [{"detector": name, "give": give} for name, give in missing.items()]
    why = "" if rows else "no requested baseline is missing"
    return StudyTable("missing", "Baselines that are not at hand", pd.DataFrame(), pd.DataFrame(rows), "", why)


def failures(cells: Sequence[Cell]) -> dict[str, str]:
    """Return why detectors are not there, by name."""
    return {cell.name: cell.failure or "not run" for cell in cells if not cell.done}


_DIFFERENCE = ("difference", "difference_low", "difference_high")


def findings(result: PairBenchmark) -> list[str]:
    """Describe the findings: the best detector, which ones differ from the reference, what is missing.

    Args:
        result: Benchmark with at least one detector.
    """
    return [
        *(_reid(result) if result.kind == "reid" else _copies(result)),
        *_reference_words(result),
        *_missing_words(result),
    ]


def _reid(result: PairBenchmark) -> list[str]:
    rows = result.board.to_dict("records")
    first, suffix = rows[0], "_paper" if result.options.protocol == "paper" else ""
    what = "AUC" if len(result.division.names) == 1 else "macro-averaged AUC"
    place = _first_place(rows, f"auc{suffix}", "has the largest", "have the same")
    leader = f"{place} {what}, {_auc(first, f'auc{suffix}')}"
    at = f" {first['at']}" if first["at"] and not suffix else ""
    sentences = [f"{leader}; the specificity{at} of {first['detector']} is {_share(first, f'specificity{suffix}')}."]
    if not is_missing(first["auc_paper"]):
        sentences.append(
            f"Counted as papers do, every pair alike, its AUC is {decimal(first['auc_paper'])}; every patient alike it "
            f"is {decimal(first['auc'])}."
        )
    return sentences


def _copies(result: PairBenchmark) -> list[str]:
    rows = result.board.to_dict("records")
    leader = _first_place(rows, "recall", "recognises most", "recognise as many")
    return [
        f"{leader} of the strongest copies, {_share(rows[0], 'recall')}, at the threshold above which half of the "
        "validation pairs of two patients lie."
    ]


def _first_place(rows: list[dict], column: str, alone: str, tied: str) -> str:
    """Name the leading detector, or all that nothing separates, followed by the words for one or for several."""
    equal = [str(row["detector"]) for row in rows if row[column] == rows[0][column]]
    if len(equal) < 2 or len(rows) < 2:
        return f"{rows[0]['detector']} {alone}"
    return f"Nothing separates {', '.join(equal)}: they {tied}"


def _reference_words(result: PairBenchmark) -> list[str]:
    """Name the detectors that an interval without 0 distinguishes from the reference."""
    better, worse, open_ = [], [], []
    for row in result.board.to_dict("records"):
        values = [row.get(name) for name in _DIFFERENCE]
        if row["detector"] == result.reference or any(is_missing(v) for v in values):
            continue
        low, high = float(str(values[1])), float(str(values[2]))
        (better if low > 0 else worse if high < 0 else open_).append(str(row["detector"]))
    sentences = []
    for names, what in ((better, "better than"), (worse, "worse than"), (open_, "not distinguishable from")):
        if names:
            sentences.append(f"By paired intervals over patients {what} {result.reference}: {', '.join(names)}.")
    return sentences


def _missing_words(result: PairBenchmark) -> list[str]:
    if not result.missing:
        return []
    return [f"Not at hand and not measured: {', '.join(result.missing)}; the table below says what to give."]


def _auc(row: dict, name: str) -> str:
    return f"{decimal(row[name])} (95 %: {decimal(row[f'{name}_low'])} to {decimal(row[f'{name}_high'])})"


def _share(row: dict, name: str) -> str:
    if is_missing(row.get(name)):
        return "not measurable"
    if is_missing(row.get(f"{name}_low")):
        return percent(row[name])
    return f"{percent(row[name])} (95 %: {percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"


MACRO = "Macro average"


def limits(name: str, interval: JackknifeInterval) -> dict[str, float]:
    """Return an estimate with its limits as columns.

    Args:
        name: Name of the estimate's column.
        interval: Interval of the estimate, with NaN where it is not known.
    """
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _family(name: str) -> str:
    """Format a family as a heading."""
    return name.upper() if name == "jpeg" else name.capitalize()


DETECTOR = words("detector", "Detector", row=True)
SET = words("dataset", "Data set")
_SETUP: Mapping[str, Sequence[Column]] = {
    "parts": (
        words("dataset", "Data set", row=True),
        words("part", "Part"),
        number("images", "Images", "count"),
        number("patients", "Patients", "count"),
        number("repeated", "With two or more images", "count"),
        number("pairs", "Positive pairs", "count"),
        number("largest", "Of the eight with most", "percent"),
        number("identical", "Identical pairs left out", "count"),
    ),
    "detectors": (
        DETECTOR,
        words("state", "State"),
        number("dimension", "Numbers an image", "count"),
        words("compares", "Compares by", wide=True),
        words("weights", "Weights"),
        words("preprocessing", "Images", wide=True),
        words("notes", "Notes", wide=True),
    ),
    "missing": (words("detector", "Method", row=True), words("give", "What to give to have it", wide=True)),
    "figure_1": (
        DETECTOR,
        estimate("auc", "Re-identification: AUC [95 %]", "decimal"),
        estimate("recall", "Copies: recall at the strongest [95 %]", "percent"),
        number("dimension", "Numbers an image", "count"),
    ),
}  # fmt: skip
REID_COLUMNS: Mapping[str, Sequence[Column]] = {
    **_SETUP,
    "leaderboard": (
        DETECTOR,
        estimate("auc", "AUC [95 %]", "decimal"),
        estimate("specificity", "Specificity [95 %]", "percent"),
        estimate("auc_paper", "AUC, every pair alike", "decimal"),
        number("specificity_paper", "Specificity, every pair alike", "percent"),
        estimate("difference", "AUC less the reference's [95 %]", "decimal"),
        number("dimension", "Numbers an image", "count"),
    ),
    "table_2": (
        words("section", "Section"),
        DETECTOR,
        SET,
        estimate("auc", "AUC [95 %]", "decimal"),
        estimate("specificity", "Specificity [95 %]", "percent"),
        words("at", "which is", wide=True),
        estimate("auc_paper", "AUC, every pair alike [95 %]", "decimal"),
        number("specificity_paper", "Specificity, every pair alike", "percent"),
        number("n_identities", "Patients", "count"),
        number("n_pairs", "Positive pairs", "count"),
    ),
    "differences": (
        words("first", "Detector", row=True),
        words("second", "less the reference"),
        SET,
        estimate("difference", "Difference of AUC [95 %]", "decimal"),
        estimate("difference_paper", "Every pair alike [95 %]", "decimal"),
        number("n_identities", "Patients", "count"),
    ),
    "table_4": (
        DETECTOR,
        words("backbone", "Backbone"),
        words("augmentation", "Augmentation", wide=True),
        words("bce_share", "α"),
        words("latent", "Latent"),
        words("form", "Pairs count"),
        estimate("accuracy", "Accuracy [95 %]", "percent"),
        estimate("f1", "F1 [95 %]", "percent"),
        estimate("precision", "Precision [95 %]", "percent"),
        estimate("recall", "Recall [95 %]", "percent"),
        estimate("auc", "AUC [95 %]", "decimal"),
        number("n_pairs", "Pairs", "count"),
    ),
    "false_matches": (
        DETECTOR,
        SET,
        words("at", "Threshold"),
        number("threshold", "Score", "short"),
        estimate("sensitivity", "Positive pairs found [95 %]", "percent"),
        number("n_matched", "Images matched", "count"),
        number("n_images", "of", "count"),
        estimate("matched", "Images matched, patients alike [95 %]", "percent"),
        number("n_patients", "Patients", "count"),
    ),
}  # fmt: skip
COPIES_COLUMNS: Mapping[str, Sequence[Column]] = {
    **_SETUP,
    "leaderboard": (
        DETECTOR,
        estimate("recall", "Recall of the strongest copies [95 %]", "percent"),
        estimate("recall_95", "at the threshold of 95 % recall [95 %]", "percent"),
        number("recall_paper", "Every image alike", "percent"),
        estimate("difference", "less the reference's [95 %]", "percent"),
        number("adjusted", "p, Holm", "probability"),
        estimate("specificity", "New pairs distinguished [95 %]", "percent"),
    ),
    "figure_4": (
        DETECTOR,
        words("rule", "Threshold"),
        SET,
        estimate("recall", "Recall at the strongest [95 %]", "percent"),
        number("recall_paper", "Every image alike", "percent"),
        number("n_identities", "Patients", "count"),
        number("n_images", "Images", "count"),
    ),
    "strongest": (
        DETECTOR,
        words("rule", "Threshold"),
        *(estimate(family, f"{_family(family)} [95 %]", "percent") for family in FAMILIES),
    ),
    "differences": (
        words("first", "Detector", row=True),
        words("second", "less the reference"),
        words("rule", "Threshold"),
        words("family", "Copies by"),
        estimate("difference", "Difference of recall [95 %]", "percent"),
        number("p", "p", "probability"),
        number("adjusted", "p, Holm", "probability"),
        number("n_discordant", "Patients who decide", "count"),
        number("n_identities", "of", "count"),
    ),
    "thresholds": (
        DETECTOR,
        SET,
        words("rule", "Rule"),
        number("threshold", "Score", "short"),
        words("made_from", "Made from", wide=True),
        estimate("specificity", "New test pairs distinguished [95 %]", "percent"),
        estimate("sensitivity", "Test pairs of one patient found [95 %]", "percent"),
    ),
}  # fmt: skip
