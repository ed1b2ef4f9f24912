"""Tables 4 and 11 of paper 000: what the regimes of training remember, are good for, and promise."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.audits.classifier.explanations.rarity import Cell
from memorisk.report.frames import largest_first, numbers, texts
from memorisk.studies.rare_distinctive.parts import StudyDefence, StudyReading, StudyTable
from memorisk.studies.rare_distinctive.text import plain, regime_name, signed

NO_DEFENCE = "no comparison of regimes is finished (defences)"
_NOTE = (
    "The paper's accuracies look like those on members, and so are these in its layout; ours are on images that no "
    "model saw, against always answering the commonest class, and follow one class instead of each regime's worst, "
    "beside the epsilon promised and what canaries prove of it."
)
_FULL_NOTE = (
    "As table 4; the worst class is the largest of several means and differs from regime to regime, so that comparing "
    "worst with worst flatters the defence: ours follow the first regime's worst class, with intervals."
)


def table_4(reading: StudyReading) -> StudyTable:
    """The worst class by regime; of each private regime the smallest epsilon, as printed."""
    headings = ["Dataset", "Regime", "Acc. %", "Worst-class M(x)"]
    printed = []
    for found in reading.defences:
        for row in found.table.to_dict("records"):
            if row["regime"] in strictest(texts(found.table, "regime")):
                accuracy = _accuracy(found, str(row["regime"]))
                label, m = _worst(found.cells[str(row["regime"])])
                worst = f"{label} {signed(m)}"
                values = (found.dataset, regime_name(str(row["regime"]), short=True), accuracy, worst)
                printed.append(dict(zip(headings, values, strict=True)))
    title = "Mitigation: accuracy and the most memorized class"
    return _table("table_4", title, headings, printed, _NOTE, reading, {})


def table_11(reading: StudyReading) -> StudyTable:
    """Every regime; the classes under each (figure 3a) are ``extra["by_regime"]``."""
    headings = ["Dataset", "Regime", "Acc. %", "Mean M(x)", "Worst class", "M(x)"]
    printed = []
    for found in reading.defences:
        for row in found.table.to_dict("records"):
            name = str(row["regime"])
            label, m = _worst(found.cells[name])
            mean = float(np.nanmean(found.cells[name].m, axis=0).mean())
            values = (_accuracy(found, name), signed(mean), label, signed(m))
            printed.append(dict(zip(headings, (found.dataset, regime_name(name), *values), strict=True)))
    classes = [_by_regime(found) for found in reading.defences]
    extra = {"by_regime": pd.concat(classes, ignore_index=True)} if classes else {}
    return _table("table_11", "Mitigation, every regime", headings, printed, _FULL_NOTE, reading, extra)


def strictest(regimes: Sequence[str]) -> list[str]:
    """Regimes without a budget, and of each private one that with the smallest: what table 4 prints."""
    kept: dict[str, str] = {}
    for regime in regimes:
        kind = next((k for k in ("dp-lora", "dp-full") if regime.startswith(f"{k}-")), regime)
        if kind not in kept or (kind != regime and _epsilon(regime, kind) < _epsilon(kept[kind], kind)):
            kept[kind] = regime
    return list(kept.values())


def _epsilon(regime: str, kind: str) -> float:
    return float(regime[len(kind) + 1 :])


def _worst(cell: Cell) -> tuple[str, float]:
    """The class with the largest mean M over its images (algorithm 1 of the paper), and that mean."""
    top = largest_first(cell.scored, "mean").head(1)
    return texts(top, "label")[0], float(numbers(top, "mean")[0])


def _accuracy(found: StudyDefence, regime: str) -> str:
    return plain(100 * found.accuracy_members[regime], 1)


def _table(
    name: str,
    title: str,
    headings: list[str],
    printed: list[dict[str, str]],
    note: str,
    reading: StudyReading,
    extra: dict[str, pd.DataFrame],
) -> StudyTable:
    each = [
        found.table.assign(
            dataset=found.dataset, accuracy_members=[found.accuracy_members[r] for r in texts(found.table, "regime")]
        )
        for found in reading.defences
    ]
    ours = pd.concat(each, ignore_index=True) if each else pd.DataFrame()
    why = "" if each else NO_DEFENCE
    return StudyTable(name, title, pd.DataFrame(printed, columns=pd.Index(headings)), ours, note, why, (), extra)


def _by_regime(found: StudyDefence) -> pd.DataFrame:
    columns = ["label", "frequency", "mean", "low", "high", "tier", "n_groups_scored"]
    each = [
        result.per_class.reindex(columns=columns).assign(dataset=found.dataset, regime=regime)
        for regime, result in found.results.items()
    ]
    return pd.concat(each, ignore_index=True)
