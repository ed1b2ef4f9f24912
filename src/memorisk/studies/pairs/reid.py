"""``memorisk bench reid``: which detector tells that two images are of one patient?

Paper 004, sections 4, 4.1, 4.4 and 4.5 (tables 2 and 4, figures 1 and 6), with pairs, weights and intervals as
METHODS section 4 corrects them. A detector leaves its scores (`cells`), the same command resumes where a killed one
stopped, and further detectors add only their own scores. A detector that fails is listed while the others finish.

The tables have the paper's layout, then the corrected numbers, and false matches one against all. As printed, every
pair counts alike and intervals are not given, though eight patients may own most of the pairs. Corrected, every
patient counts once: pairs are weighted by 1 / pairs of the patient, negatives are drawn by patient, and intervals
are over patients.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.models.lcmem import LatentConfig
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.auc import pair_auc, pair_auc_difference
from memorisk.statistics.pairs.decisions import identity_share, pair_decisions, sensitivity_threshold
from memorisk.statistics.pairs.specificity import specificity_at_sensitivity
from memorisk.studies.engine.number_texts import digits_text
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.tables import StudyTable, fill_table
from memorisk.studies.pairs.benchmark import PairNumbers, PairStudy, plan_pairs, run_benchmark
from memorisk.studies.pairs.cells import REID_PARTS, reid_pairs, run_reid
from memorisk.studies.pairs.detectors import section_place
from memorisk.studies.pairs.division import TEST
from memorisk.studies.pairs.options import BenchReidOptions
from memorisk.studies.pairs.plan import PairBenchPlan, reid_cost
from memorisk.studies.pairs.results import LAYOUTS, MACRO, PairBenchmark, macro_row, overall, ranked
from memorisk.studies.pairs.scores import FORMS, PairScores, ReidScores, pool_sets, read_reid

_SUFFIX = {"corrected": "", "paper": "_paper"}
_DESIGN = ("backbone", "augmentation", "bce_share", "latent")
_STAGE_TWO = "Rotate, Flip, Blur, Noise, Brightness, Contrast, JPEG"
_FORM_WORDS = {"corrected": "every patient alike", "paper": "every pair alike"}


def table_2(measured: Sequence[ReidScores], sensitivity: float) -> StudyTable:
    """Tabulate AUC and specificity of every detector on every data set, and their macro averages.

    Args:
        measured: Finished detectors of the benchmark.
        sensitivity: Sensitivity at which the specificity is read.
    """
    by_section = sorted(measured, key=lambda m: section_place(m.contender.section))
    ours = pd.DataFrame([row for m in by_section for row in _rows_of(m, sensitivity)])
    return fill_table(LAYOUTS["reid"], "table_2", ours, paper=_table_2_paper(ours))


def _rows_of(m: ReidScores, sensitivity: float) -> list[dict[str, object]]:
    """Return one row per data set, and the macro average where there are several."""
    rows: list[dict[str, object]] = []
    aucs: dict[str, list[JackknifeInterval]] = {form: [] for form in FORMS}
    specificities: list[JackknifeInterval] = []
    labels: dict[str, object] = {"section": m.contender.section, "detector": m.name}
    for dataset, some in m.test.items():
        row: dict[str, object] = {**labels, "dataset": dataset}
        for form in FORMS:
            listed = some.listed(form)
            aucs[form].append(pair_auc(*listed[:4], weights=listed.weight).interval)
            row |= limits(f"auc{_SUFFIX[form]}", aucs[form][-1])
        corrected = some.listed("corrected")
        at = specificity_at_sensitivity(*corrected[:4], weights=corrected.weight, sensitivity=sensitivity)
        specificities.append(at.interval)
        row |= limits("specificity", at.interval) | {
            "specificity_paper": _paper_specificity(some.listed("paper"), sensitivity)
        }
        row |= {"at": at.name.removeprefix("specificity "), "sensitivity_low": at.sensitivity_low}
        rows.append(row | {"n_identities": some.pairs.n_identities, "n_pairs": len(some.pairs.weight)})
    if len(rows) > 1:
        each = {f"auc{_SUFFIX[form]}": of_form for form, of_form in aucs.items()} | {"specificity": specificities}
        macro = macro_row(rows, each, "specificity_paper", "n_identities", "n_pairs")
        rows.append({**labels, **macro, "at": "", "sensitivity_low": np.nan})
    return rows


def _paper_specificity(listed: PairScores, sensitivity: float) -> float:
    """Compute the share of negatives below the score that this share of positive pairs reaches, of any patients."""
    threshold = sensitivity_threshold(listed.score[listed.positive], sensitivity=sensitivity)
    return float((listed.score[~listed.positive] < threshold).mean())


def _table_2_paper(ours: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's layout: one row per method, two columns per data set."""
    rows: dict[str, dict[str, str]] = {}
    for r in ours.to_dict("records"):
        row = rows.setdefault(str(r["detector"]), {"Method": str(r["detector"]), "Section": str(r["section"])})
        short = "Macro Avg." if r["dataset"] == MACRO else str(r["dataset"])
        row |= {
            f"{short} AUC": digits_text(r["auc_paper"], 3),
            f"{short} Specificity": digits_text(r["specificity_paper"], 3),
        }
    return pd.DataFrame(list(rows.values()))


def differences(measured: Sequence[ReidScores], reference: str) -> StudyTable:
    """Tabulate the AUC of every detector less that of the reference, on the same pairs.

    Args:
        measured: Finished detectors of the benchmark.
        reference: Name of the detector that the others are compared with.
    """
    base = next((m for m in measured if m.name == reference), None)
    rows = [row for m in measured if base is not None and m is not base for row in _comparison_rows(m, base)]
    why = LAYOUTS["reid"].sentences["no_reference"] if base is None else ""
    return fill_table(LAYOUTS["reid"], "differences", rows, why_empty=why)


def _comparison_rows(m: ReidScores, base: ReidScores) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    every: dict[str, list[JackknifeInterval]] = {form: [] for form in FORMS}
    for dataset, some in m.test.items():
        row: dict[str, object] = {"first": m.name, "second": base.name, "dataset": dataset}
        for form in FORMS:
            a, b = some.listed(form), base.test[dataset].listed(form)
            apart = pair_auc_difference(a.score, b.score, *a[1:4], weights=a.weight)
            every[form].append(apart.interval)
            row |= limits(f"difference{_SUFFIX[form]}", apart.interval)
        rows.append({**row, "n_identities": some.pairs.n_identities})
    if len(rows) > 1:
        each = {f"difference{_SUFFIX[form]}": of_form for form, of_form in every.items()}
        rows.append({"first": m.name, "second": base.name, **macro_row(rows, each, "", "n_identities")})
    return rows


def table_4(measured: Sequence[ReidScores]) -> StudyTable:
    """Tabulate decisions at a probability of one half, all data sets together, for detectors that give one.

    Args:
        measured: Finished detectors of the benchmark.
    """
    ours, paper = [], []
    for m in (m for m in measured if np.isfinite(m.at_half)):
        for form in FORMS:
            every = pool_sets([some.listed(form) for some in m.test.values()])
            decisions = pair_decisions(every.score >= m.at_half, *every[1:4], weight=every.weight)
            auc = pair_auc(*every[:4], weights=every.weight).interval
            each = {name: getattr(decisions, name) for name in ("accuracy", "f1", "precision", "recall")} | {"auc": auc}
            row: dict[str, object] = {"detector": m.name, **_design(m), "form": _FORM_WORDS[form]}
            row["n_pairs"] = len(every.score)
            for name, interval in each.items():
                row |= limits(name, interval)
            ours.append(row)
            if form == "paper":
                numbers = [digits_text(interval.estimate, 4) for interval in each.values()]
                paper.append((m.name, *_design(m).values(), *numbers))
    return fill_table(LAYOUTS["reid"], "table_4", ours, paper=paper)


def _design(m: ReidScores) -> dict[str, str]:
    """Describe how the rows of the paper's ablation differ, by the detector's folder; empty where it does not say."""
    detector = m.contender.detector.detector if m.contender.detector is not None else None
    config = None if detector is None else detector.config
    if not isinstance(config, LatentConfig):
        return dict.fromkeys(_DESIGN, "")
    sees = _STAGE_TWO if config.stage == 2 else ""
    own = "SWN" if float(config.recipe.get("sample_normalisation") or 0) > 0 else ""
    share = config.recipe.get("bce_share")
    return {
        "backbone": config.backbone,
        "augmentation": ", ".join(part for part in (sees, own) if part),
        "bce_share": "" if share is None else f"{share:g}",
        "latent": "No" if config.encoder.startswith("pixels") else "Yes",
    }


def false_matches(measured: Sequence[ReidScores], sensitivity: float) -> StudyTable:
    """Count the test images for which an image of another patient of the data set is called the same patient.

    Args:
        measured: Finished detectors of the benchmark.
        sensitivity: Sensitivity that the calibrated threshold keeps on validation patients.
    """
    rows = []
    for m in measured:
        for dataset in m.division.names if not m.why_no_pairs else ():
            closest, groups = m.closest(dataset)
            at = {f"{100 * sensitivity:g} % of validation pairs": m.calibrated(dataset), "P = 0.5": m.at_half}
            for what, threshold in at.items():
                if not np.isfinite(threshold):
                    continue
                hit = closest >= threshold
                row = {"detector": m.name, "dataset": dataset, "at": what, "threshold": threshold}
                if dataset in m.test:
                    same = m.test[dataset]
                    sensitivity_share = identity_share(
                        same.scores["positive"] >= threshold, same.pairs.identities("positive")[0]
                    )
                    row |= limits("sensitivity", sensitivity_share)
                row |= {
                    "n_matched": int(hit.sum()),
                    "n_images": len(hit),
                    **limits("matched", identity_share(hit, groups)),
                }
                rows.append(row | {"n_patients": len(np.unique(groups))})
    unpaired = [m for m in measured if m.why_no_pairs]
    note = [f"Not of {', '.join(m.name for m in unpaired)}: {unpaired[0].why_no_pairs}."] if unpaired else []
    return fill_table(LAYOUTS["reid"], "false_matches", rows, note=note)


def figure_6_frame(measured: Sequence[ReidScores]) -> pd.DataFrame:
    """Return the numbers of figure 6: all pairs of one patient and of two patients by score, one row per bin.

    Args:
        measured: Finished detectors of the benchmark.
    """
    rows = []
    for m in measured:
        for place, dataset in enumerate(m.division.names):
            if m.why_no_pairs or f"{place}/edges" not in m.all_pairs:
                continue
            edges = m.all_pairs[f"{place}/edges"]
            different = m.all_pairs[f"{place}/different"].copy()
            below = int(m.all_pairs[f"{place}/n_different"]) - int(different.sum())
            for i, (same, other) in enumerate(zip(m.all_pairs[f"{place}/same"], different, strict=True)):
                row = {"detector": m.name, "dataset": dataset, "from": edges[i], "to": edges[i + 1]}
                rows.append(row | {"same": int(same), "different": int(other), "different_below": 0 if i else below})
    return pd.DataFrame(rows)


@takes_settings(BenchReidOptions)
def benchmark_reid(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, tables_only: bool = False, **settings: Any
) -> PairBenchmark:
    """Benchmark detectors at re-identification on your images, or resume it, and lay out its tables and figures.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed, patients are. A column ``dataset``
            divides them into several data sets.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchReidOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """
    study = ReidStudy(images, out, settings_of(BenchReidOptions, settings))
    return run_benchmark(study, progress, tables_only=tables_only)


def plan_reid(
    images: str | Path, *, out: str | Path, progress: Progress = no_progress, **settings: Any
) -> PairBenchPlan:
    """Plan `benchmark_reid`; nothing is computed or written but the store of decoded images.

    Args:
        images: Images, as for `benchmark_reid`.
        out: Folder of the run, as for `benchmark_reid`.
        progress: Function that is called with (stage, done, total).
        **settings: Settings by name, as for `benchmark_reid`.

    Raises:
        InputError: As `benchmark_reid`.
    """
    return plan_pairs(ReidStudy(images, out, settings_of(BenchReidOptions, settings)), progress)


def _board(
    measured: Sequence[ReidScores], main: StudyTable, apart: StudyTable, options: BenchReidOptions
) -> pd.DataFrame:
    """Return one row per detector: its macro average, or its only data set."""
    by = {str(r["first"]): r for r in overall(apart.ours).to_dict("records")}
    dimension = {m.name: m.cell.described.get("dimension") for m in measured}
    records = []
    for row in overall(main.ours).to_dict("records"):
        name = str(row["detector"])
        columns = {str(k): v for k, v in row.items() if k not in ("dataset", "sensitivity_low")}
        beside = {str(k): v for k, v in by.get(name, {}).items() if str(k).startswith("difference")}
        records.append({**columns, **beside, "dimension": dimension[name]})
    return ranked(records, "auc_paper" if options.protocol == "paper" else "auc")


class ReidStudy(PairStudy):
    """Benchmark of re-identification."""

    kind, other = "reid", "copies"
    parts = staticmethod(lambda options: REID_PARTS)
    measure, cost = staticmethod(run_reid), staticmethod(reid_cost)

    def check(self, progress: Progress) -> None:
        """Refuse images without a pair of one patient."""
        if not reid_pairs(self.cells[0], TEST):
            raise InputError(
                f"{one_line(self.store.manifest.name)}: no test patient has two different images, so that "
                "re-identification has nothing to test. Name the patient of each image (group_column, group_from), or "
                "run bench copies"
            )

    def numbers(self) -> PairNumbers:
        """Compute every number from what is finished."""
        measured, sensitivity = read_reid(self.cells), self.options.sensitivity
        main, apart = table_2(measured, sensitivity), differences(measured, self.reference)
        tables = [main, apart, table_4(measured), false_matches(measured, sensitivity)]
        board = _board(measured, main, apart, self.options)
        return PairNumbers(board, tables, {"figure_6": figure_6_frame(measured)})
