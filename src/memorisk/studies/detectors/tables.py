"""Tables 1 to 4 of paper 003 in its layout, the corrected numbers, and the comparisons of its sections.

Published numbers are detection ratios of validation copies at one tau; their t-tests take the measures for
replicates, which are readings of one embedding. Corrected numbers are shares of test patients' copies that are
recognised as copies of their source, by the measure that validation patients chose. They are compared copy by copy
over patients, Holm-adjusted over the comparisons of a table. Further tables compare the measures under each loss
(figures 2 and 4 of paper 003), and list where a measure is not defined.
"""

import re
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import scipy

from memorisk.scores.distances.measures import MEASURES
from memorisk.statistics.copies.detector_comparison import DetectorComparison, compare_pairs
from memorisk.statistics.copies.detector_ranks import mean_share
from memorisk.studies.detectors.cells import LOSS_NAMES
from memorisk.studies.detectors.detection import Detector, HitSelector
from memorisk.studies.detectors.options import LOSSES, NO_TRAINING
from memorisk.studies.detectors.results import LAYOUT, detector_columns, paired_tests, share_columns
from memorisk.studies.engine.number_texts import digits_text
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.tables import StudyTable, fill_table

TOP = 10
"""Number of rows of table 1 that the paper prints."""
Pair = tuple[Detector, Detector]


def paper_tables(measured: Sequence[Detector], strength: str) -> list[StudyTable]:
    """Return tables 1 to 4, and the comparison of trained detectors with their untrained backbones.

    Args:
        measured: Detectors of the benchmark.
        strength: Strength of the copies.
    """
    able = [d for d in measured if d.chosen(strength)]
    return [
        _table_1(able, strength),
        _table_2(able, strength),
        _table_3(able, strength),
        _table_4(able, strength),
        _training_table(able, strength),
    ]


def _table_1(measured: list[Detector], strength: str) -> StudyTable:
    rows = []
    for d in measured:
        values = d.published_values(strength)
        best = max(values, key=lambda m: values[m]) if values else ""
        measure = d.chosen(strength)
        row = {**detector_columns(d), "published": values.get(best, np.nan), "published_measure": best}
        if best:
            row |= share_columns("new_flagged", d.published_flags(best, strength, "validation"))
        row |= {"measure": measure, "validation": d.share(measure, strength, "validation")}
        row |= share_columns("detected", d.rate(measure, strength, "test"))
        row |= share_columns("flagged", d.false_flags(measure, strength, "test"))
        if best in d.measures(strength):
            row["published_on_test"] = d.share(best, strength, "test")
        rows.append(row | {"n_patients": d.rate(measure, strength, "test").trials, "n_seeds": d.n_seeds})
    rows.sort(key=lambda r: -np.nan_to_num(r["published"], nan=-1.0))
    paper = [
        (r["model"], r["pretraining"] or "–", r["loss"], digits_text(r["published"], 4), r["published_measure"])
        for r in rows
        if r["published_measure"]
    ]
    return fill_table(LAYOUT, "table_1", rows, paper=paper[:TOP])


def _comparison_table(
    name: str, pairs: Sequence[Pair], strength: str, paper: Sequence[Sequence[str]] = ()
) -> StudyTable:
    """Tabulate pairs of detectors, tested on the same copies."""
    tests = paired_tests(pairs, strength)
    rows = [_comparison_row(pair, test, strength) for pair, test in zip(pairs, tests, strict=True)]
    return fill_table(LAYOUT, name, rows, paper=paper)


def _table_2(measured: list[Detector], strength: str) -> StudyTable:
    """Compare the kinds of weights of each architecture under each loss."""
    same = [(a, b) for a, b in combinations(measured, 2) if a.backbone.model == b.backbone.model and a.loss == b.loss]
    paper = [
        (
            a.backbone.model,
            LOSS_NAMES[a.loss],
            f"{a.backbone.pretraining} vs {b.backbone.pretraining}",
            _p_text(t_test(a, b, strength)),
        )
        for a, b in same
    ]
    return _comparison_table("table_2", same, strength, paper)


def _table_3(measured: list[Detector], strength: str) -> StudyTable:
    """Compare triplet and InfoNCE, backbone by backbone."""
    by = {(d.backbone.name, d.loss): d for d in measured}
    both = [name for name, loss in by if loss == "triplet" and (name, "infonce") in by]
    pairs = [(by[name, "triplet"], by[name, "infonce"]) for name in both]
    paper = [(a.backbone.model, a.backbone.pretraining, *_paper_numbers(a, b, strength)) for a, b in pairs]
    return _comparison_table("table_3", pairs, strength, paper)


def _table_4(measured: list[Detector], strength: str) -> StudyTable:
    """Compare architectures: each by the detector that the paper takes, and by that of validation patients."""
    published = _best_of_model(measured, lambda d: published_mean(d, strength))
    ours_best = _best_of_model(measured, lambda d: d.share(d.chosen(strength), strength, "validation"))
    paper = [(a.name, b.name, *_paper_numbers(a, b, strength)) for a, b in combinations(published, 2)]
    return _comparison_table("table_4", list(combinations(ours_best, 2)), strength, paper)


def _training_table(measured: list[Detector], strength: str) -> StudyTable:
    """Compare each trained detector with its untrained backbone."""
    plain = {d.backbone.name: d for d in measured if d.loss == NO_TRAINING}
    pairs = [(d, plain[d.backbone.name]) for d in measured if d.loss != NO_TRAINING and d.backbone.name in plain]
    return _comparison_table("trained", pairs, strength)


def _paper_numbers(one: Detector, other: Detector, strength: str) -> tuple[str, ...]:
    """Return the paper's p-value and the mean of each detector, as it prints them."""
    means = [digits_text(published_mean(d, strength), 4) for d in (one, other)]
    return _p_text(t_test(one, other, strength)), *means


def t_test(one: Detector, other: Detector, strength: str) -> float:
    """Compute paper 003's p-value: Student's t-test of published detection ratios by measure; NaN below two each."""
    values = [list(d.published_values(strength).values()) for d in (one, other)]
    if min(len(v) for v in values) < 2 or not any(np.ptp(v) for v in values):
        return float("nan")
    return float(np.asarray(scipy.stats.ttest_ind(*values))[1])


def published_mean(d: Detector, strength: str) -> float:
    """Compute paper 003's mean of a detector: published detection ratios over the measures; NaN without any."""
    values = list(d.published_values(strength).values())
    return float(np.mean(values)) if values else float("nan")


def _best_of_model(measured: list[Detector], score: Callable[[Detector], float]) -> list[Detector]:
    """Select the detector with the largest score of each architecture; those without a score are left out."""
    best: dict[str, Detector] = {}
    for d in measured:
        value = score(d)
        if np.isfinite(value) and (d.backbone.model not in best or value > score(best[d.backbone.model])):
            best[d.backbone.model] = d
    return list(best.values())


def _comparison_row(pair: Pair, test: DetectorComparison, strength: str) -> dict[str, object]:
    """Return the row of a comparison: both detectors, the difference on test copies, and the paper's numbers."""
    a, b = pair
    hits = test.hits
    row: dict[str, object] = {"model": a.backbone.model, "pretraining": a.backbone.pretraining}
    row |= {"loss": LOSS_NAMES[a.loss], "first": a.name, "second": b.name}
    for which, d in (("first", a), ("second", b)):
        measure = d.chosen(strength)
        row |= {f"{which}_measure": measure, f"{which}_detected": d.share(measure, strength, "test")}
        row |= {f"{which}_train": d.share(measure, strength, "train"), f"{which}_mean": published_mean(d, strength)}
    row |= limits("difference", hits.difference) | {"p": hits.p_value, "adjusted": test.adjusted}
    row |= {"n_discordant": hits.n_discordant, "n_patients": hits.difference.n_groups}
    return row | {"p_paper": t_test(a, b, strength)}


def _p_text(value: float) -> str:
    """Format a p-value as the paper prints it."""
    if not np.isfinite(value):
        return "n/a"
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"


def measure_tables(measured: Sequence[Detector], strength: str) -> list[StudyTable]:
    """Return one table per loss, one row per measure.

    A row has the mean over the detectors of that loss, published and corrected.

    Args:
        measured: Detectors of the benchmark.
        strength: Strength of the copies.
    """
    able = [d for d in measured if d.chosen(strength)]
    by_loss = {loss: _loss_rows([d for d in able if d.loss == loss], strength) for loss in LOSSES}
    return [fill_table(LAYOUT, f"measures_{loss}", rows) for loss, rows in by_loss.items() if rows]


def fitted_table(measured: Sequence[Detector], strength: str) -> StudyTable:
    """Tabulate the fit of the corrected measures: domain, binarisation, shrinkage; one row for each way."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for m in (m for d in measured for m in d.measured if m.strength == strength and m.pools):
        way = re.sub(r"[\d.e+-]+", "", m.words)  # whatever the numbers are
        row = rows.setdefault((m.measure, way), {"measure": m.measure, "n": 0, "words": m.words})
        row["n"] = int(str(row["n"])) + 1
    return fill_table(LAYOUT, "fitted", [rows[key] for key in sorted(rows)])


def refused_table(measured: Sequence[Detector], strength: str) -> StudyTable:
    """Tabulate measures that are not defined for some detector's features, and the reasons."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for m in (m for d in measured for m in d.measured if m.strength == strength):
        for form, why in (("corrected", "" if m.pools else m.words), ("as published", m.published_refused)):
            if why:
                first = {"measure": m.measure, "form": form, "n": 0, "detector": m.job.cell.name, "why": why}
                row = rows.setdefault((form, m.measure), first)
                row["n"] = int(str(row["n"])) + 1
    return fill_table(LAYOUT, "refused", [rows[key] for key in sorted(rows)])


def _loss_rows(measured: list[Detector], strength: str) -> list[dict[str, object]]:
    """Return the measures under one loss, in the order of their detection on test."""
    if not measured:
        return []
    measures = [m for m in MEASURES if any(d.of(m, strength) for d in measured)]
    every = [value for d in measured for value in d.published_values(strength).values()]
    rows = [_row(measured, m, strength, len(every)) for m in measures]
    able = [m for m in measures if any(m in d.measures(strength) for d in measured)]
    chosen = max(able, key=lambda m: _mean(measured, m, strength, "validation"))
    hits: dict[str, np.ndarray] = {}
    pairs = []
    for m in able:
        both = [d for d in measured if {m, chosen} <= set(d.measures(strength))]
        if m != chosen and both:
            hits |= {m: _stack(both, m, strength), f"{chosen} beside {m}": _stack(both, chosen, strength)}
            pairs.append((m, f"{chosen} beside {m}"))
    tests = {t.first: t for t in compare_pairs(pairs, hits, _source(measured, strength))}
    for row in rows:
        if (test := tests.get(str(row["measure"]))) is not None:
            row |= limits("difference", test.hits.difference) | {"p": test.hits.p_value, "adjusted": test.adjusted}
        row["chosen"] = row["measure"] == chosen
    return sorted(rows, key=lambda r: -np.nan_to_num(float(str(r.get("detected", np.nan))), nan=-1.0))


def _row(measured: list[Detector], measure: str, strength: str, n_values: int) -> dict[str, object]:
    row: dict[str, object] = {"measure": measure}
    row |= _published(measured, measure, strength, n_values)
    able = [d for d in measured if measure in d.measures(strength)]
    row["n_detectors"] = len(able)
    if not able:
        return row
    detected = mean_share(_stack(able, measure, strength), _source(able, strength))
    row |= limits("detected", detected)
    row |= {"n_patients": detected.n_groups, "validation": _mean(able, measure, strength, "validation")}
    row["nearest"] = float(_stack(able, measure, strength, lambda p: p.nearest_is_source).mean())
    row["flagged"] = float(np.mean([d.false_flags(measure, strength, "test").estimate for d in able]))
    return row


def _published(measured: list[Detector], measure: str, strength: str, n_values: int) -> dict[str, float]:
    """Compute the mean over networks with the published interval: standard error times t with all values' d.o.f."""
    values = [v for d in measured if np.isfinite(v := d.published(measure, strength, "validation"))]
    if not values:
        return {}
    row = {"published": float(np.mean(values))}
    flags = [d.published_flags(measure, strength, "validation").estimate for d in measured]
    row["new_flagged"] = float(np.nanmean(flags)) if np.isfinite(flags).any() else float("nan")
    if len(values) > 1:
        half = float(scipy.stats.sem(values) * scipy.stats.t.ppf(0.975, n_values - 1))
        row |= {"published_low": row["published"] - half, "published_high": row["published"] + half}
    return row


def _mean(measured: Sequence[Detector], measure: str, strength: str, pool: str) -> float:
    able = [d for d in measured if measure in d.measures(strength)]
    return float(np.mean([d.share(measure, strength, pool) for d in able])) if able else float("nan")


def _stack(
    measured: Sequence[Detector], measure: str, strength: str, pick: HitSelector = lambda p: p.detected
) -> np.ndarray:
    """Return the hits of several detectors, [R, n], each as often as the others."""
    hits = [d.hits(measure, strength, "test", pick) for d in measured]
    n = int(np.lcm.reduce([len(h) for h in hits]))
    return np.concatenate([np.tile(h, (n // len(h), 1)) for h in hits])


def _source(measured: Sequence[Detector], strength: str) -> np.ndarray:
    first = measured[0]
    return first.of(first.chosen(strength), strength)[0].pools["test"].source
