"""Tables 1 to 11 of paper 000 from finished runs, in the paper's layout, with the corrected numbers.

`class_tables` and `intervention_tables` have one builder per table; `results` reads the disk once for all of them.
Missing parts leave a table empty with the reason, never an error. The numbers of the figures are in the tables'
``extra``, so that a figure cannot differ from its table. ``COLUMNS`` defines how the corrected numbers are shown, on
the page and in Markdown alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.report.blocks import Column, estimate, number, words
from memorisk.studies.engine.tables import StudyTable, TableLayout
from memorisk.studies.rare_distinctive.class_tables import table_1, table_5, table_8, table_9, table_10
from memorisk.studies.rare_distinctive.intervention_tables import table_2, table_3, table_4, table_6, table_7, table_11
from memorisk.studies.rare_distinctive.results import DEFENCES, StudyReading, StudyRuns, read_runs

_DATASET, _MODEL = words("dataset", "Data set"), words("architecture", "Model")
_MODEL_ROW, _CLASS = words("architecture", "Model", row=True), words("label", "Class", row=True)
_REASON = words("why", "Why not more", wide=True)

_RARITY = (
    *(_MODEL_ROW, _DATASET, words("design", "Design")),
    estimate("paper_rho", "Rho over images, mean over seeds [95 %]", "decimal", "rho_low", "rho_high"),
    *(number("paper_sd", "s.d. over seeds (paper)"), number("paper_p", "p as the paper", "probability")),
    *(number("image_p", "p over classes", "probability"), number("image_smallest_p", "smallest p", "probability")),
    estimate("class_rho", "Rho of class means [95 %]", "decimal", "class_low", "class_high"),
    *(number("class_p", "p", "probability"), number("class_smallest_p", "smallest p", "probability")),
    estimate("mw_shift", "Rare less common class means [95 %]", "decimal", "mw_low", "mw_high"),
    *(number("mw_p_two_sided", "p", "probability"), number("mw_smallest_p", "smallest one-sided p", "probability")),
    *(number("n_images", "Images", "count"), number("n_groups", "Patients", "count")),
    *(number("n_classes", "Classes", "count"), number("n_rare", "Rare", "count")),
    *(number("n_seeds", "Seeds", "count"), _REASON),
)
_OVER_CELLS = (
    *(words("statistic", "Statistic", row=True), words("form", "Form"), words("scope", "Over")),
    estimate("estimate", "Estimate [95 %]", "decimal", "low", "high"),
    *(number("p_one_sided", "p, one-sided", "probability"), number("p_two_sided", "p, two-sided", "probability")),
    number("smallest_one_sided", "smallest one-sided", "probability"),
    number("smallest_two_sided", "smallest two-sided", "probability"),
    *(number("n_units", "Units", "count"), words("unit", "Unit"), _REASON),
)
_ATYPICALITY = (
    *(_DATASET, _MODEL_ROW, words("features", "Features"), words("metric", "Metric")),
    estimate("rho_residual", "Pairwise rho, within classes [95 %]", "decimal", "low_residual", "high_residual"),
    *(number("p", "p", "probability"), number("smallest_p", "smallest p", "probability")),
    estimate("rho", "Pairwise rho, raw [95 %]", "decimal", "low", "high"),
    estimate("paper_rho_residual", "Centroid rho, within classes [95 %]"),
    number("paper_p_residual", "p as the paper", "probability"),
    *(estimate("paper_rho", "Centroid rho, raw [95 %]"), number("paper_p", "p as the paper", "probability")),
    *(number("n", "Images", "count"), number("n_groups", "Patients", "count")),
)
_INTERVENTION = (
    *(_DATASET, _MODEL, _CLASS, words("intervention", "Intervention")),
    *(number("before", "Mean M before"), number("after", "After")),
    estimate("difference", "Difference [95 %]", "decimal", "low", "high"),
    estimate("noise", "Retraining alone [95 %]"),
    estimate("excess", "Difference less retraining [95 %]"),
    *(words("reading", "Reading", wide=True), words("basis", "Basis, as stated")),
    *(number("n_groups", "Patients", "count"), number("n_seeds", "Seeds", "count")),
)
_INTERVENTION_IN_FULL = (
    *_INTERVENTION[:4],
    *(Column(source="targeted", heading="Changed", format="yes_no"), number("frequency", "Share", "percent")),
    *_INTERVENTION[4:9],
    estimate("paired_dz", "Paired d_z [95 %]"),
    estimate("paper_cohens_d", "Cohen's d (paper) [95 %]"),
    number("paper_percent", "Percent (paper)"),
    *(estimate("auc_before", "AUC of M before [95 %]"), estimate("auc_after", "AUC of M after [95 %]")),
    estimate("recall_difference", "Change of recall [95 %]", "decimal", "recall_low", "recall_high"),
    *(number("images_changed", "Images changed", "percent"), number("pixels_changed", "Pixels changed", "percent")),
    *_INTERVENTION[10:],
)
_DEFENCE = (
    *(_DATASET, words("regime", "Regime", row=True)),
    *(estimate("accuracy", "Accuracy, unseen [95 %]"), number("majority", "Majority class")),
    estimate("gain", "Gain over it [95 %]"),
    words("reference_class", "Class followed"),
    *(estimate("reference_m", "its mean M [95 %]"), estimate("change", "Change from the first regime [95 %]")),
    number("epsilon", "Epsilon promised, image added or removed"),
    number("replace_one_epsilon", "Image replaced"),
    number("per_patient_epsilon", "All images of a patient"),
    *(number("bound", "Proved, image replaced: at least"), number("bound_largest", "Most the pairs could prove")),
    *(number("bound_pairs", "Pairs", "count"), number("n_test_groups", "Patients in the test part", "count")),
)
_DEFENCE_IN_FULL = (
    *_DEFENCE[:5],
    estimate("balanced", "Balanced accuracy [95 %]"),
    number("accuracy_members", "Accuracy on members (paper)"),
    estimate("mean_m", "Mean M [95 %]"),
    *(words("worst_class", "Worst class"), estimate("worst_m", "its mean M [95 %]")),
    *_DEFENCE[5:8],
    *(number("change_percent", "Percent (paper)"), number("flagged", "Flagged", "count"), words("status", "Verdict")),
    *_DEFENCE[8:],
)
_CLASSES = (
    *(_DATASET, _MODEL, _CLASS, number("frequency", "Share", "percent")),
    *(estimate("mean", "Mean M [95 %]", "decimal", "low", "high"), words("tier", "Tier")),
    *(number("flagged", "Flagged", "count", missing="not tested"), number("n_scored", "Images scored", "count")),
    *(number("n_groups_scored", "Patients scored", "count"), number("n_test_groups", "in the test part", "count")),
    words("why_not", "Why not tested", wide=True),
)
_ATTACKS = (
    *(_DATASET, _MODEL, _CLASS, number("frequency", "Share", "percent")),
    estimate("auc", "AUC of the loss difference [95 %]", "decimal", "low", "high", missing="not measurable"),
    estimate("mean", "Mean M [95 %]", "decimal", "mean_low", "mean_high"),
    *(number("best_auc", "Best AUC (optimistic)", missing="not measurable"), words("best_attack", "Attack")),
    *(number("n_members", "Members", "count"), number("n_non_members", "Non-members", "count")),
    *(number("n_groups", "Patients", "count"), _REASON),
)
_AGREEMENT = (
    *(_DATASET, _MODEL_ROW, words("form", "M comes from, attack")),
    estimate("difference", "Attack success, M > 0.3 less M ≤ 0.1 [95 %]"),
    *(number("success_high", "M > 0.3", "percent"), number("success_low", "M ≤ 0.1", "percent")),
    estimate("spearman", "Spearman's rho [95 %]"),
    *(number("n_high", "Image-seed pairs, M > 0.3", "count"), number("n_low", "M ≤ 0.1", "count")),
)
_DATASETS = (
    *(
        words("dataset", "Data set", row=True),
        number("n_images", "Images", "count"),
        number("n_groups", "Patients", "count", missing="not given"),
    ),
    *(number("images_per_patient", "Images per patient"), number("most_images", "Most of one", "count")),
    *(number("n_classes", "Classes", "count"), number("not_auditable", "Too small to audit", "count")),
    *(number("imbalance", "Imbalance, 1 to"), words("rarest", "Rarest class")),
    *(number("rarest_share", "its share", "percent"), number("rarest_groups", "its patients", "count")),
    *(words("design", "Design"), number("n_train", "Training", "count"), number("n_canary", "Canaries", "count")),
    *(number("n_test", "Test", "count"), number("n_scored", "Images scored", "count")),
    *(number("n_groups_scored", "Patients scored", "count"), number("scored_share", "of all images", "percent")),
)
_RECIPES = (
    *(_MODEL_ROW, words("model", "Network"), words("weights", "Weights"), words("epochs", "Epochs")),
    *(words("lr", "Learning rate"), words("optimizer", "Optimiser"), words("schedule", "Schedule")),
    *(words("batch_size", "Batch"), words("weight_decay", "Weight decay"), words("augment", "Augmentation")),
    *(words("normalise", "Pixels scaled by"), words("size", "Pixels a side"), words("precision", "Arithmetic")),
    *(words("regime", "Regime"), words("device", "Device"), words("datasets", "On", wide=True)),
)
_LAYERS = (
    *(_DATASET, _MODEL, number("number", "No.", "count"), words("layer", "Layer", row=True)),
    *(estimate("high", "High M [95 %]"), estimate("low", "Low M [95 %]"), estimate("difference", "Difference [95 %]")),
    number("n_groups", "Patients", "count"),
)
_PROBES = (
    *(_DATASET, _MODEL, number("number", "No.", "count"), words("layer", "Layer", row=True), words("kind", "Probe")),
    *(estimate("auroc", "AUROC [95 %]", "decimal", "low", "high"), number("fold_mean", "Mean over folds (paper)")),
    *(number("shuffled", "Labels shuffled"), estimate("ceiling", "Ceiling, AUROC of the true M [95 %]")),
    *(number("n", "Images", "count"), number("n_groups", "Patients", "count")),
)
_BY_REGIME = (
    *(_DATASET, words("regime", "Regime"), _CLASS, number("frequency", "Share", "percent")),
    *(estimate("mean", "Mean M [95 %]", "decimal", "low", "high"), words("tier", "Tier")),
    number("n_groups_scored", "Patients scored", "count"),
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
"""Columns by table, and by the name of the further frames of a table (``StudyTable.extra``)."""

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
    """Return every table of the paper from what is finished.

    Args:
        runs: Finished parts of a study. A part that cannot be read is left out and listed in the tables' ``missing``.
        draws: Number of random permutations behind the p-values of table 1, where not all are visited.
        seed: Random seed of the permutations.

    Returns:
        Tables 1 to 11 in their order; an empty one gives the reason.
    """
    reading = read_runs(runs)
    tables = [
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
    return [_add_unread_parts(_add_untrained_cells(table, doubts), reading.unread) for table in tables]


def _untrained_cells(reading: StudyReading) -> tuple[str, ...]:
    """List the cells whose models are not surely better than guessing: what they remember means little."""
    lines = []
    for cell in reading.cells:
        utility = ClassifierSummary.read(cell.result.summary).utility
        if utility is not None and utility.beats_guessing is False:
            lines.append(
                f"{cell.dataset}, {cell.architecture}: its models are not surely better than guessing on unseen images "
                f"({utility.words}), so that these numbers say little"
            )
    return tuple(lines)


def _add_untrained_cells(table: StudyTable, doubts: tuple[str, ...]) -> StudyTable:
    """List them below the tables of what models remember; set-up and defences have accuracies of their own."""
    if table.name in ("table_4", "table_9", "table_10", "table_11"):
        return table
    return replace(table, missing=(*table.missing, *doubts))


def _add_unread_parts(table: StudyTable, unread: Mapping[str, str]) -> StudyTable:
    """List the parts that failed or cannot be read, where the table would show them."""
    of_defences = table.name in ("table_4", "table_11")
    lines = [f"{name}: {why}" for name, why in unread.items() if name.endswith(f", {DEFENCES}") == of_defences]
    return replace(table, missing=(*table.missing, *lines))
