"""Tables 1 to 11 of paper 000 from finished runs, in the paper's layout, the corrected numbers beside.

`class_tables` and `intervention_tables` have one builder a table; `results` reads the disk once for all of them.
What is not there leaves a table empty with the reason, never an error. The numbers of the figures are in the
tables' ``extra``, so that a figure cannot differ from its table. ``COLUMNS`` says how the corrected numbers are
shown, on the page and in Markdown alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from memorisk.audits.classifier.memorization_table import utility_numbers
from memorisk.report.blocks import Column
from memorisk.studies.engine.tables import StudyTable, TableLayout
from memorisk.studies.rare_distinctive.class_tables import table_1, table_5, table_8, table_9, table_10
from memorisk.studies.rare_distinctive.intervention_tables import table_2, table_3, table_4, table_6, table_7, table_11
from memorisk.studies.rare_distinctive.results import DEFENCES, StudyReading, StudyRuns, read_runs


def _text(source: str, heading: str, *, wide: bool = False) -> Column:
    return Column(source=source, heading=heading, wide=wide)


def _number(source: str, heading: str, kind: str = "decimal", *, missing: str = "") -> Column:
    return Column(source=source, heading=heading, format=kind, missing=missing)


def _limits(source: str, heading: str, low: str = "", high: str = "", *, missing: str = "") -> Column:
    ends = (low or f"{source}_low", high or f"{source}_high")
    return Column(source=source, heading=heading, format="decimal", interval=ends, missing=missing)


def _row(source: str, heading: str) -> Column:
    """The column that names the row."""
    return Column(source=source, heading=heading, row_heading=True)


_DATASET, _MODEL = _text("dataset", "Data set"), _text("architecture", "Model")
_MODEL_ROW, _CLASS = _row("architecture", "Model"), _row("label", "Class")
_REASON = _text("why", "Why not more", wide=True)

_RARITY = (
    *(_MODEL_ROW, _DATASET, _text("design", "Design")),
    _limits("paper_rho", "Rho over images, mean over seeds [95 %]", "rho_low", "rho_high"),
    *(_number("paper_sd", "s.d. over seeds (paper)"), _number("paper_p", "p as the paper", "probability")),
    *(_number("image_p", "p over classes", "probability"), _number("image_smallest_p", "smallest p", "probability")),
    _limits("class_rho", "Rho of class means [95 %]", "class_low", "class_high"),
    *(_number("class_p", "p", "probability"), _number("class_smallest_p", "smallest p", "probability")),
    _limits("mw_shift", "Rare less common class means [95 %]", "mw_low", "mw_high"),
    *(_number("mw_p_two_sided", "p", "probability"), _number("mw_smallest_p", "smallest one-sided p", "probability")),
    *(_number("n_images", "Images", "count"), _number("n_groups", "Patients", "count")),
    *(_number("n_classes", "Classes", "count"), _number("n_rare", "Rare", "count")),
    *(_number("n_seeds", "Seeds", "count"), _REASON),
)
_OVER_CELLS = (
    *(_row("statistic", "Statistic"), _text("form", "Form"), _text("scope", "Over")),
    _limits("estimate", "Estimate [95 %]", "low", "high"),
    *(_number("p_one_sided", "p, one-sided", "probability"), _number("p_two_sided", "p, two-sided", "probability")),
    _number("smallest_one_sided", "smallest one-sided", "probability"),
    _number("smallest_two_sided", "smallest two-sided", "probability"),
    *(_number("n_units", "Units", "count"), _text("unit", "Unit"), _REASON),
)
_ATYPICALITY = (
    *(_DATASET, _MODEL_ROW, _text("features", "Features"), _text("metric", "Metric")),
    _limits("rho_residual", "Pairwise rho, within classes [95 %]", "low_residual", "high_residual"),
    *(_number("p", "p", "probability"), _number("smallest_p", "smallest p", "probability")),
    _limits("rho", "Pairwise rho, raw [95 %]", "low", "high"),
    _limits("paper_rho_residual", "Centroid rho, within classes [95 %]"),
    _number("paper_p_residual", "p as the paper", "probability"),
    *(_limits("paper_rho", "Centroid rho, raw [95 %]"), _number("paper_p", "p as the paper", "probability")),
    *(_number("n", "Images", "count"), _number("n_groups", "Patients", "count")),
)
_INTERVENTION = (
    *(_DATASET, _MODEL, _CLASS, _text("intervention", "Intervention")),
    *(_number("before", "Mean M before"), _number("after", "After")),
    _limits("difference", "Difference [95 %]", "low", "high"),
    _limits("noise", "Retraining alone [95 %]"),
    _limits("excess", "Difference less retraining [95 %]"),
    *(_text("reading", "Reading", wide=True), _text("basis", "Basis, as stated")),
    *(_number("n_groups", "Patients", "count"), _number("n_seeds", "Seeds", "count")),
)
_INTERVENTION_IN_FULL = (
    *_INTERVENTION[:4],
    *(Column(source="targeted", heading="Changed", format="yes_no"), _number("frequency", "Share", "percent")),
    *_INTERVENTION[4:9],
    _limits("paired_dz", "Paired d_z [95 %]"),
    _limits("paper_cohens_d", "Cohen's d (paper) [95 %]"),
    _number("paper_percent", "Percent (paper)"),
    *(_limits("auc_before", "AUC of M before [95 %]"), _limits("auc_after", "AUC of M after [95 %]")),
    _limits("recall_difference", "Change of recall [95 %]", "recall_low", "recall_high"),
    *(_number("images_changed", "Images changed", "percent"), _number("pixels_changed", "Pixels changed", "percent")),
    *_INTERVENTION[10:],
)
_DEFENCE = (
    *(_DATASET, _row("regime", "Regime")),
    *(_limits("accuracy", "Accuracy, unseen [95 %]"), _number("majority", "Majority class")),
    _limits("gain", "Gain over it [95 %]"),
    _text("reference_class", "Class followed"),
    *(_limits("reference_m", "its mean M [95 %]"), _limits("change", "Change from the first regime [95 %]")),
    _number("epsilon", "Epsilon promised, image added or removed"),
    _number("replace_one_epsilon", "Image replaced"),
    _number("per_patient_epsilon", "All images of a patient"),
    *(_number("bound", "Proved, image replaced: at least"), _number("bound_largest", "Most the pairs could prove")),
    *(_number("bound_pairs", "Pairs", "count"), _number("n_test_groups", "Patients in the test part", "count")),
)
_DEFENCE_IN_FULL = (
    *_DEFENCE[:5],
    _limits("balanced", "Balanced accuracy [95 %]"),
    _number("accuracy_members", "Accuracy on members (paper)"),
    _limits("mean_m", "Mean M [95 %]"),
    *(_text("worst_class", "Worst class"), _limits("worst_m", "its mean M [95 %]")),
    *_DEFENCE[5:8],
    *(_number("change_percent", "Percent (paper)"), _number("flagged", "Flagged", "count"), _text("status", "Verdict")),
    *_DEFENCE[8:],
)
_CLASSES = (
    *(_DATASET, _MODEL, _CLASS, _number("frequency", "Share", "percent")),
    *(_limits("mean", "Mean M [95 %]", "low", "high"), _text("tier", "Tier")),
    *(_number("flagged", "Flagged", "count", missing="not tested"), _number("n_scored", "Images scored", "count")),
    *(_number("n_groups_scored", "Patients scored", "count"), _number("n_test_groups", "in the test part", "count")),
    _text("why_not", "Why not tested", wide=True),
)
_ATTACKS = (
    *(_DATASET, _MODEL, _CLASS, _number("frequency", "Share", "percent")),
    _limits("auc", "AUC of the loss difference [95 %]", "low", "high", missing="not measurable"),
    _limits("mean", "Mean M [95 %]", "mean_low", "mean_high"),
    *(_number("best_auc", "Best AUC (optimistic)", missing="not measurable"), _text("best_attack", "Attack")),
    *(_number("n_members", "Members", "count"), _number("n_non_members", "Non-members", "count")),
    *(_number("n_groups", "Patients", "count"), _REASON),
)
_AGREEMENT = (
    *(_DATASET, _MODEL_ROW, _text("form", "M comes from, attack")),
    _limits("difference", "Attack success, M > 0.3 less M ≤ 0.1 [95 %]"),
    *(_number("success_high", "M > 0.3", "percent"), _number("success_low", "M ≤ 0.1", "percent")),
    _limits("spearman", "Spearman's rho [95 %]"),
    *(_number("n_high", "Image-seed pairs, M > 0.3", "count"), _number("n_low", "M ≤ 0.1", "count")),
)
_DATASETS = (
    *(
        _row("dataset", "Data set"),
        _number("n_images", "Images", "count"),
        _number("n_groups", "Patients", "count", missing="not given"),
    ),
    *(_number("images_per_patient", "Images per patient"), _number("most_images", "Most of one", "count")),
    *(_number("n_classes", "Classes", "count"), _number("not_auditable", "Too small to audit", "count")),
    *(_number("imbalance", "Imbalance, 1 to"), _text("rarest", "Rarest class")),
    *(_number("rarest_share", "its share", "percent"), _number("rarest_groups", "its patients", "count")),
    *(_text("design", "Design"), _number("n_train", "Training", "count"), _number("n_canary", "Canaries", "count")),
    *(_number("n_test", "Test", "count"), _number("n_scored", "Images scored", "count")),
    *(_number("n_groups_scored", "Patients scored", "count"), _number("scored_share", "of all images", "percent")),
)
_RECIPES = (
    *(_MODEL_ROW, _text("model", "Network"), _text("weights", "Weights"), _text("epochs", "Epochs")),
    *(_text("lr", "Learning rate"), _text("optimizer", "Optimiser"), _text("schedule", "Schedule")),
    *(_text("batch_size", "Batch"), _text("weight_decay", "Weight decay"), _text("augment", "Augmentation")),
    *(_text("normalise", "Pixels scaled by"), _text("size", "Pixels a side"), _text("precision", "Arithmetic")),
    *(_text("regime", "Regime"), _text("device", "Device"), _text("datasets", "On", wide=True)),
)
_LAYERS = (
    *(_DATASET, _MODEL, _number("number", "No.", "count"), _row("layer", "Layer")),
    *(_limits("high", "High M [95 %]"), _limits("low", "Low M [95 %]"), _limits("difference", "Difference [95 %]")),
    _number("n_groups", "Patients", "count"),
)
_PROBES = (
    *(_DATASET, _MODEL, _number("number", "No.", "count"), _row("layer", "Layer"), _text("kind", "Probe")),
    *(_limits("auroc", "AUROC [95 %]", "low", "high"), _number("fold_mean", "Mean over folds (paper)")),
    *(_number("shuffled", "Labels shuffled"), _limits("ceiling", "Ceiling, AUROC of the true M [95 %]")),
    *(_number("n", "Images", "count"), _number("n_groups", "Patients", "count")),
)
_BY_REGIME = (
    *(_DATASET, _text("regime", "Regime"), _CLASS, _number("frequency", "Share", "percent")),
    *(_limits("mean", "Mean M [95 %]", "low", "high"), _text("tier", "Tier")),
    _number("n_groups_scored", "Patients scored", "count"),
)

COLUMNS: Mapping[str, Sequence[Column]] = MappingProxyType(
    {
        "table_1": _RARITY,
        "table_2": _ATYPICALITY,
        "table_3": _INTERVENTION,
        "table_4": _DEFENCE,
        "table_5": _CLASSES,
        "table_6": _INTERVENTION_IN_FULL,
        "table_7": _ATYPICALITY,
        "table_8": _ATTACKS,
        "table_9": _DATASETS,
        "table_10": _RECIPES,
        "table_11": _DEFENCE_IN_FULL,
        "across": _OVER_CELLS,
        "agreement": _AGREEMENT,
        "layers": _LAYERS,
        "probes": _PROBES,
        "by_regime": _BY_REGIME,
    }
)
"""By table, and by the name of what else belongs to one (``StudyTable.extra``)."""

LAYOUT = TableLayout(
    columns=COLUMNS,
    extra={
        "across": "Over cells",
        "agreement": "M against attack success",
        "layers": "Distance of the twins by layer",
        "probes": "Probes by layer",
        "by_regime": "Classes under each regime",
    },
    with_figures=frozenset({"layers", "by_regime", "agreement"}),
    note="What differs. ",
    empty_columns=True,
)


def study_tables(runs: StudyRuns, *, draws: int = 9999, seed: int = 0) -> list[StudyTable]:
    """Every table of the paper from what is finished.

    Args:
        runs: Finished parts of a study. A part that cannot be read is left out and told in the tables' ``missing``.
        draws: Random permutations behind the p-values of table 1, where not all are visited.
        seed: Of those.

    Returns:
        Tables 1 to 11 in their order; an empty one says why.
    """
    reading = read_runs(runs)
    found = [
        table_1(reading, draws=draws, seed=seed),
        table_2(reading),
        table_3(reading),
        table_4(reading),
        table_5(reading),
        table_6(reading),
        table_7(reading),
        table_8(reading),
        table_9(reading),
        table_10(reading),
        table_11(reading),
    ]
    doubts = _untrained_cells(reading)
    return [_add_unread_parts(_add_untrained_cells(table, doubts), reading.unread) for table in found]


def _untrained_cells(reading: StudyReading) -> tuple[str, ...]:
    """The cells whose models learned nothing that can be told from guessing: what they remember says little."""
    lines = []
    for cell in reading.cells:
        utility = cell.result.summary.get("utility") or {}
        if utility.get("beats_guessing") is False:
            lines.append(
                f"{cell.dataset}, {cell.architecture}: its models are not surely better than guessing on unseen images "
                f"({utility_numbers(utility)}), so that these numbers say little"
            )
    return tuple(lines)


def _add_untrained_cells(table: StudyTable, doubts: tuple[str, ...]) -> StudyTable:
    """Tell them below the tables of what models remember; set-up and defences have accuracies of their own."""
    if table.name in ("table_4", "table_9", "table_10", "table_11"):
        return table
    return replace(table, missing=(*table.missing, *doubts))


def _add_unread_parts(table: StudyTable, unread: Mapping[str, str]) -> StudyTable:
    """Also tell the parts that failed or cannot be read, where the table would show them."""
    of_defences = table.name in ("table_4", "table_11")
    lines = [f"{name}: {why}" for name, why in unread.items() if name.endswith(f", {DEFENCES}") == of_defences]
    return replace(table, missing=(*table.missing, *lines))
