"""The measures compared under each loss (figures 2 and 4 of paper 003), and where a measure is not defined."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.scores.distances.registry import MEASURES
from memorisk.statistics.copies.detector_places import compare_pairs, mean_share
from memorisk.studies.detectors.backbones import LOSS_NAMES, LOSSES
from memorisk.studies.detectors.detectors import Detector, Pick
from memorisk.studies.rare_distinctive.parts import StudyTable


def measure_tables(found: Sequence[Detector], strength: str) -> list[StudyTable]:
    """A table a loss, a row a measure: the mean over the detectors of that loss, published and corrected.

    Args:
        found: The detectors.
        strength: Of the copies.
    """
    tables = []
    for loss in LOSSES:
        rows = _of_loss([d for d in found if d.loss == loss and d.chosen(strength)], strength)
        if rows:
            title = f"Measures, {LOSS_NAMES[loss]}"
            tables.append(StudyTable(f"measures_{loss}", title, pd.DataFrame(), pd.DataFrame(rows), _note()))
    return tables


def _note() -> str:
    return (
        "Means over the detectors of a loss. The paper's interval is of the spread between networks, with the degrees "
        "of freedom of all measures together; limits on test are over patients, for these detectors. The chosen "
        "measure is the one that detects most copies of validation patients, the first where several detect as many; "
        "the others are compared with it copy by copy on test patients, Holm-adjusted within the loss."
    )


def fitted_table(found: Sequence[Detector], strength: str) -> StudyTable:
    """How the corrected measures were fitted: domain, binarisation, shrinkage; a row for each way."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for m in (m for d in found for m in d.measured if m.strength == strength and m.pools):
        way = re.sub(r"[\d.e+-]+", "", m.words)  # whatever the numbers are
        row = rows.setdefault((m.measure, way), {"measure": m.measure, "n": 0, "words": m.words})
        row["n"] = int(str(row["n"])) + 1
    ours = pd.DataFrame([rows[key] for key in sorted(rows)])
    note = "Fitted once on training images, for each detector, and frozen; numbers are those of the first detector."
    return StudyTable("fitted", "Measures as they were fitted", pd.DataFrame(), ours, note,
                      "" if rows else "no detector was measured")  # fmt: skip


def refused_table(found: Sequence[Detector], strength: str) -> StudyTable:
    """Measures that are not defined for some detector's features, and why."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for m in (m for d in found for m in d.measured if m.strength == strength):
        for form, why in (("corrected", "" if m.pools else m.words), ("as published", m.published_refused)):
            if why:
                first = {"measure": m.measure, "form": form, "n": 0, "detector": m.job.cell.name, "why": why}
                row = rows.setdefault((form, m.measure), first)
                row["n"] = int(str(row["n"])) + 1
    ours = pd.DataFrame([rows[key] for key in sorted(rows)])
    note = "A measure without a form is left out of that form's means and of what it may choose from."
    return StudyTable("refused", "Measures that are not defined", pd.DataFrame(), ours, note,
                      "" if rows else "every measure is defined for every detector, in both forms")  # fmt: skip


def _of_loss(found: list[Detector], strength: str) -> list[dict[str, object]]:
    """The measures under one loss, in the order of their detection on test."""
    if not found:
        return []
    named = [m for m in MEASURES if any(d.of(m, strength) for d in found)]
    every = [value for d in found for value in d.published_values(strength).values()]
    rows = [_row(found, m, strength, len(every)) for m in named]
    able = [m for m in named if any(m in d.measures(strength) for d in found)]
    chosen = max(able, key=lambda m: _mean(found, m, strength, "validation"))
    hits: dict[str, np.ndarray] = {}
    pairs = []
    for m in able:
        both = [d for d in found if {m, chosen} <= set(d.measures(strength))]
        if m != chosen and both:
            hits |= {m: _stack(both, m, strength), f"{chosen} beside {m}": _stack(both, chosen, strength)}
            pairs.append((m, f"{chosen} beside {m}"))
    tests = {t.first: t for t in compare_pairs(pairs, hits, _source(found, strength))}
    for row in rows:
        if (test := tests.get(str(row["measure"]))) is not None:
            d = test.hits.difference
            row |= {"difference": d.estimate, "difference_low": d.low, "difference_high": d.high}
            row |= {"p": test.hits.p_value, "adjusted": test.adjusted}
        row["chosen"] = row["measure"] == chosen
    return sorted(rows, key=lambda r: -np.nan_to_num(float(str(r.get("detected", np.nan))), nan=-1.0))


def _row(found: list[Detector], measure: str, strength: str, n_values: int) -> dict[str, object]:
    row: dict[str, object] = {"measure": measure}
    row |= _published(found, measure, strength, n_values)
    able = [d for d in found if measure in d.measures(strength)]
    row["n_detectors"] = len(able)
    if not able:
        return row
    limits = mean_share(_stack(able, measure, strength), _source(able, strength))
    row |= {"detected": limits.estimate, "detected_low": limits.low, "detected_high": limits.high}
    row |= {"n_patients": limits.n_groups, "validation": _mean(able, measure, strength, "validation")}
    row["nearest"] = float(_stack(able, measure, strength, lambda p: p.nearest_is_source).mean())
    row["flagged"] = float(np.mean([d.false_flags(measure, strength, "test").estimate for d in able]))
    return row


def _published(found: list[Detector], measure: str, strength: str, n_values: int) -> dict[str, float]:
    """Mean over networks with the published interval: standard error times t with all values' degrees of freedom."""
    values = [v for d in found if np.isfinite(v := d.published(measure, strength, "validation"))]
    if not values:
        return {}
    row = {"published": float(np.mean(values))}
    flags = [d.published_flags(measure, strength, "validation").estimate for d in found]
    row["new_flagged"] = float(np.nanmean(flags)) if np.isfinite(flags).any() else float("nan")
    if len(values) > 1:
        half = float(stats.sem(values) * stats.t.ppf(0.975, n_values - 1))
        row |= {"published_low": row["published"] - half, "published_high": row["published"] + half}
    return row


def _mean(found: Sequence[Detector], measure: str, strength: str, pool: str) -> float:
    able = [d for d in found if measure in d.measures(strength)]
    return float(np.mean([d.share(measure, strength, pool) for d in able])) if able else float("nan")


def _stack(found: Sequence[Detector], measure: str, strength: str, pick: Pick = lambda p: p.detected) -> np.ndarray:
    """[R, n] hits of several detectors, each as often as the others."""
    hits = [d.hits(measure, strength, "test", pick) for d in found]
    n = int(np.lcm.reduce([len(h) for h in hits]))
    return np.concatenate([np.tile(h, (n // len(h), 1)) for h in hits])


def _source(found: Sequence[Detector], strength: str) -> np.ndarray:
    first = found[0]
    return first.of(first.chosen(strength), strength)[0].pools["test"].source
