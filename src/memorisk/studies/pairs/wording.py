"""A benchmark in a few sentences, for the terminal, the page and Markdown alike."""

from memorisk.report.formats import decimal, is_missing, percent
from memorisk.studies.pairs.results import PairBenchmark

_DIFFERENCE = ("difference", "difference_low", "difference_high")


def findings(found: PairBenchmark) -> list[str]:
    """What came of it: the best detector, who differs from the reference, what is not there.

    Args:
        found: With a detector at least.
    """
    return [*(_reid(found) if found.kind == "reid" else _copies(found)), *_compared(found), *_absent(found)]


def _reid(found: PairBenchmark) -> list[str]:
    rows = found.board.to_dict("records")
    first, suffix = rows[0], "_paper" if found.options.protocol == "paper" else ""
    what = "AUC" if len(found.division.names) == 1 else "macro-averaged AUC"
    told = f"{_first(rows, f'auc{suffix}', 'has the largest', 'have the same')} {what}, {_auc(first, f'auc{suffix}')}"
    at = f" {first['at']}" if first["at"] and not suffix else ""
    said = [f"{told}; the specificity{at} of {first['detector']} is {_share(first, f'specificity{suffix}')}."]
    if not is_missing(first["auc_paper"]):
        said.append(
            f"Counted as papers do, every pair alike, its AUC is {decimal(first['auc_paper'])}; every patient alike it "
            f"is {decimal(first['auc'])}."
        )
    return said


def _copies(found: PairBenchmark) -> list[str]:
    rows = found.board.to_dict("records")
    told = _first(rows, "recall", "recognises most", "recognise as many")
    return [
        f"{told} of the strongest copies, {_share(rows[0], 'recall')}, at the threshold above which half of the "
        "validation pairs of two patients lie."
    ]


def _first(rows: list[dict], column: str, alone: str, tied: str) -> str:
    """Who stands first, or all whom nothing separates, with what is said of one and of several."""
    equal = [str(row["detector"]) for row in rows if row[column] == rows[0][column]]
    if len(equal) < 2 or len(rows) < 2:
        return f"{rows[0]['detector']} {alone}"
    return f"Nothing separates {', '.join(equal)}: they {tied}"


def _compared(found: PairBenchmark) -> list[str]:
    """Who is told from the reference by an interval without 0."""
    better, worse, open_ = [], [], []
    for row in found.board.to_dict("records"):
        values = [row.get(name) for name in _DIFFERENCE]
        if row["detector"] == found.reference or any(is_missing(v) for v in values):
            continue
        low, high = float(str(values[1])), float(str(values[2]))
        (better if low > 0 else worse if high < 0 else open_).append(str(row["detector"]))
    said = []
    for names, what in ((better, "better than"), (worse, "worse than"), (open_, "not told apart from")):
        if names:
            said.append(f"By paired intervals over patients {what} {found.reference}: {', '.join(names)}.")
    return said


def _absent(found: PairBenchmark) -> list[str]:
    if not found.missing:
        return []
    return [f"Not at hand and not measured: {', '.join(found.missing)}; the table below says what to give."]


def _auc(row: dict, name: str) -> str:
    return f"{decimal(row[name])} (95 %: {decimal(row[f'{name}_low'])} to {decimal(row[f'{name}_high'])})"


def _share(row: dict, name: str) -> str:
    if is_missing(row.get(name)):
        return "not measurable"
    if is_missing(row.get(f"{name}_low")):
        return percent(row[name])
    return f"{percent(row[name])} (95 %: {percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"
