"""Tables 1 to 4 of paper 003 in its layout, the corrected numbers beside, and what its sections compare in words.

Published numbers are detection ratios of validation copies at one tau; their t-tests take the measures for replicates,
which are readings of one embedding. Corrected ones are shares of test patients' copies that are recognised as what they
are copies of, by the measure that validation patients chose, compared copy by copy over patients, Holm-adjusted over
the comparisons of a table.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.report.blocks import Column
from memorisk.report.frames import texts
from memorisk.statistics.copies.paired_detectors import DetectorComparison
from memorisk.studies.detectors.backbones import LOSS_NAMES, NO_TRAINING
from memorisk.studies.detectors.columns import COLUMNS
from memorisk.studies.detectors.detectors import Detector
from memorisk.studies.detectors.leaderboard import named, paired, share
from memorisk.studies.rare_distinctive.parts import StudyTable

TOP = 10
"""Rows of table 1 as the paper prints it."""
Pair = tuple[Detector, Detector]


def paper_tables(found: Sequence[Detector], strength: str) -> list[StudyTable]:
    """Tables 1 to 4, and trained detectors beside their untrained backbones.

    Args:
        found: The detectors.
        strength: Of the copies.
    """
    able = [d for d in found if d.chosen(strength)]
    return [
        _table_1(able, strength),
        _table_2(able, strength),
        _table_3(able, strength),
        _table_4(able, strength),
        _trained(able, strength),
    ]


def _table_1(found: list[Detector], strength: str) -> StudyTable:
    rows = []
    for d in found:
        values = d.published_values(strength)
        best = max(values, key=lambda m: values[m]) if values else ""
        measure = d.chosen(strength)
        row = {**named(d), "published": values.get(best, np.nan), "published_measure": best}
        if best:
            row |= share("new_flagged", d.published_flags(best, strength, "validation"))
        row |= {"measure": measure, "validation": d.share(measure, strength, "validation")}
        row |= share("detected", d.rate(measure, strength, "test"))
        row |= share("flagged", d.false_flags(measure, strength, "test"))
        if best in d.measures(strength):
            row["published_on_test"] = d.share(best, strength, "test")
        rows.append(row | {"n_patients": d.rate(measure, strength, "test").trials, "n_seeds": d.n_seeds})
    ours = pd.DataFrame(sorted(rows, key=lambda r: -np.nan_to_num(r["published"], nan=-1.0)))
    paper = [
        {
            "Model": r["model"], "Pretraining": r["pretraining"] or "–", "Loss": r["loss"],
            "Val. Detection": _four(r["published"]), "Metric": r["published_measure"],
        }
        for r in ours.to_dict("records") if r["published_measure"]
    ]  # fmt: skip
    note = (
        "As printed: of each detector the largest detection ratio over all measures, on the very copies on which it "
        "was found to be the largest, whatever the threshold flags beside copies; how many new patients it flags "
        "stands beside. Corrected: the measure is chosen on validation patients (the first where several detect as "
        "many) and judged on test patients, whose copies count where the nearest reference is their source."
    )
    return StudyTable("table_1", "Best combinations for each network", pd.DataFrame(paper[:TOP]), ours, note,
                      "" if rows else "no detector was measured")  # fmt: skip


def _table_2(found: list[Detector], strength: str) -> StudyTable:
    pairs = [
        pair for pair in combinations(found, 2)
        if pair[0].backbone.model == pair[1].backbone.model and pair[0].loss == pair[1].loss
    ]  # fmt: skip
    tests = paired(pairs, strength)
    ours = pd.DataFrame([_compared(p, t, strength) for p, t in zip(pairs, tests, strict=True)])
    paper = [
        {
            "Model": a.backbone.model, "Loss": LOSS_NAMES[a.loss],
            "Pretraining": f"{a.backbone.pretraining} vs {b.backbone.pretraining}",
            "p-value": _p(t_test(a, b, strength)),
        }
        for a, b in pairs
    ]  # fmt: skip
    note = _T_TESTS + " Difference: the first pre-training less the second, of test patients' copies."
    why = "" if pairs else "no backbone was given with two kinds of weights"
    return StudyTable("table_2", "Pre-trainings compared", pd.DataFrame(paper), ours, note, why)


def _table_3(found: list[Detector], strength: str) -> StudyTable:
    by = {(d.backbone.name, d.loss): d for d in found}
    both = [name for name, loss in by if loss == "triplet" and (name, "infonce") in by]
    pairs = [(by[name, "triplet"], by[name, "infonce"]) for name in both]
    tests = paired(pairs, strength)
    ours = pd.DataFrame([_compared(p, t, strength) for p, t in zip(pairs, tests, strict=True)])
    paper = [
        {
            "Model": a.backbone.model, "Pretrain": a.backbone.pretraining, "p-value": _p(t_test(a, b, strength)),
            "Triplet Mean": _four(mean(a, strength)), "InfoNCE Mean": _four(mean(b, strength)),
        }
        for a, b in pairs
    ]  # fmt: skip
    note = _T_TESTS + " Difference: triplet less InfoNCE, of test patients' copies."
    why = "" if pairs else "no backbone was trained with both losses"
    return StudyTable("table_3", "Comparison of Triplet and InfoNCE", pd.DataFrame(paper), ours, note, why)


def _table_4(found: list[Detector], strength: str) -> StudyTable:
    published = _best_of_model(found, lambda d: mean(d, strength))
    ours_best = _best_of_model(found, lambda d: d.share(d.chosen(strength), strength, "validation"))
    pairs = list(combinations(ours_best, 2))
    tests = paired(pairs, strength)
    ours = pd.DataFrame([_compared(p, t, strength) for p, t in zip(pairs, tests, strict=True)])
    paper = [
        {
            "Model 1": a.name, "Model 2": b.name, "p-value": _p(t_test(a, b, strength)),
            "Model 1 Mean": _four(mean(a, strength)), "Model 2 Mean": _four(mean(b, strength)),
        }
        for a, b in combinations(published, 2)
    ]  # fmt: skip
    note = _T_TESTS + (
        " Of each architecture the paper takes the pre-training and loss with the largest mean on the copies that it "
        "then compares; corrected, validation patients choose them, the first of equals, and test patients compare."
    )
    why = "" if pairs else "fewer than two architectures were measured"
    return StudyTable("table_4", "Pairwise comparison of network architectures", pd.DataFrame(paper), ours, note, why)


def _trained(found: list[Detector], strength: str) -> StudyTable:
    plain = {d.backbone.name: d for d in found if d.loss == NO_TRAINING}
    pairs = [(d, plain[d.backbone.name]) for d in found if d.loss != NO_TRAINING and d.backbone.name in plain]
    tests = paired(pairs, strength)
    ours = pd.DataFrame([_compared(p, t, strength) for p, t in zip(pairs, tests, strict=True)])
    note = (
        "Not in the paper, which has no untrained detector. Difference: trained less untrained, of test patients' "
        "copies, each by its own measure. Train copies stand beside: what a detector finds more of there it learned of "
        "these patients."
    )
    why = "" if pairs else "no backbone was measured both trained and untrained"
    return StudyTable("trained", "Trained or not", pd.DataFrame(), ours, note, why)


_T_TESTS = (
    "The paper's p-value is Student's t-test with the measures as replicates (means over them beside): they are "
    "readings of one embedding, and the p-value says how measures scatter, not what another patient would show. "
    "Corrected: exact sign-flip test over patients of who finds which copy, Holm-adjusted over the rows of the table."
)


def t_test(one: Detector, other: Detector, strength: str) -> float:
    """Paper 003's p-value: Student's t-test of published detection ratios, a value a measure; NaN below two each."""
    values = [list(d.published_values(strength).values()) for d in (one, other)]
    if min(len(v) for v in values) < 2 or not any(np.ptp(v) for v in values):
        return float("nan")
    return float(np.asarray(stats.ttest_ind(*values))[1])


def mean(d: Detector, strength: str) -> float:
    """Paper 003's mean of a detector: published detection ratios over the measures; NaN without any."""
    values = list(d.published_values(strength).values())
    return float(np.mean(values)) if values else float("nan")


def _best_of_model(found: list[Detector], score: Callable[[Detector], float]) -> list[Detector]:
    """Of each architecture the detector with the largest score; those without a score are left out."""
    best: dict[str, Detector] = {}
    for d in found:
        value = score(d)
        if np.isfinite(value) and (d.backbone.model not in best or value > score(best[d.backbone.model])):
            best[d.backbone.model] = d
    return list(best.values())


def _compared(pair: Pair, test: DetectorComparison, strength: str) -> dict[str, object]:
    """A row of a comparison: both detectors, the difference on test patients' copies, and the paper's numbers."""
    a, b = pair
    hits = test.hits
    found: dict[str, object] = {"model": a.backbone.model, "pretraining": a.backbone.pretraining}
    found |= {"loss": LOSS_NAMES[a.loss], "first": a.name, "second": b.name}
    for which, d in (("first", a), ("second", b)):
        measure = d.chosen(strength)
        found |= {f"{which}_measure": measure, f"{which}_detected": d.share(measure, strength, "test")}
        found |= {f"{which}_train": d.share(measure, strength, "train"), f"{which}_mean": mean(d, strength)}
    found |= {
        "difference": hits.difference.estimate, "difference_low": hits.difference.low,
        "difference_high": hits.difference.high, "p": hits.p_value, "adjusted": test.adjusted,
        "n_discordant": hits.n_discordant, "n_patients": hits.difference.n_groups, "p_paper": t_test(a, b, strength),
    }  # fmt: skip
    return found


def heading(table: StudyTable) -> str:
    """As in "Table 3. Comparison of Triplet and InfoNCE", and the title alone of what the paper has no number for."""
    number = table.name.removeprefix("table_")
    return f"Table {number}. {table.title}" if number != table.name else table.title


def shown_columns(table: StudyTable) -> list[Column]:
    """The columns of the corrected numbers that hold something."""
    return [c for c in COLUMNS[table.name] if told(table.ours, c.source)]


def told(frame: pd.DataFrame, column: str) -> bool:
    """Whether any row has something there."""
    return column in frame and any(texts(frame, column))


def _four(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) and np.isfinite(value) else "n/a"


def _p(value: float) -> str:
    """A p-value as the paper prints it."""
    if not np.isfinite(value):
        return "n/a"
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"
