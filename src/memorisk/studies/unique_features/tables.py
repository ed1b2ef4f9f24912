"""Tables 1 to 3 of paper 002 in its layout, the corrected numbers, and the results of its further sections.

A row of "ours" is an arm: a network on a data set under a regulariser. The unit is the model. Canaries of an arm
share its references, so that their single findings are not independent; the test of all canaries together is one
test. ``COLUMNS`` defines how the corrected numbers are shown, on the page and in Markdown alike.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from memorisk.report.blocks import Column, estimate, number, words
from memorisk.report.columns import booleans, column_numbers, largest_first
from memorisk.report.columns import rows as chosen
from memorisk.statistics.intervals import clopper_pearson
from memorisk.statistics.memorization.mark_contrasts import contrast, excess_over_references, mean_limits, positive_mean
from memorisk.studies.engine.tables import StudyTable, TableLayout
from memorisk.studies.unique_features.config import LEVEL, PLAIN
from memorisk.studies.unique_features.plan import (
    INFLUENCE,
    RANDOM,
    REFERENCE,
    Arm,
    arm_columns,
    network_words,
    regulariser_words,
)
from memorisk.studies.unique_features.results import StudyAnswers
from memorisk.studies.unique_features.section_tables import (
    epoch_table,
    influence_table,
    latent_table,
    seed_table,
    self_influence_table,
    setup_table,
)

_NETWORK = Column(source="network", heading="Network", row_heading=True)
_ARM = (words("dataset", "Data set"), _NETWORK)
_REGULARISER = (*_ARM, words("regulariser", "Regulariser"))

_TEST = (
    estimate("m", "M, canaries less references [95 %]"),
    number("p", "p of all canaries together", "probability"),
    number("found", "Found alone", "count"),
    number("below_all", "Below all references", "count"),
    number("n_canaries", "of canaries", "count"),
    estimate("found_share", "Share found [95 %]", "percent", "found_low", "found_high"),
    number("n_references", "References", "count"),
    number("accuracy", "Accuracy", "percent"),
)
_PUBLISHED = (
    estimate("m_paper", "Mean M as published [95 %]", "power"),
    number("m_paper_references", "Same, references", "power"),
    number("m_positive", "Mean of M > 0", "power"),
    number("n_positive", "of", "count"),
    number("m_positive_references", "Same, references", "power"),
    number("welch_share", "Welch test significant", "percent"),
    number("welch_references", "Same, references", "percent"),
)
_CHANGE = (
    estimate("change", "M less M without regulariser [95 %]"),
    number("same", "Mark as probed", "percent"),
    number("mirrored", "Mirrored", "percent"),
)

COLUMNS: Mapping[str, Sequence[Column]] = {
    "table_1": (
        *_ARM,
        estimate("m_w", "Mean M_w [95 %]"),
        number("m_w_references", "Same, references"),
        estimate("excess", "Difference [95 %]"),
        number("found", "Found alone", "count"),
        number("n_found", "of canaries", "count"),
        estimate("found_share", "Share [95 %]", "percent", "found_low", "found_high"),
        number("n_models", "Models", "count"),
        number("sd_redraws", "s.d. over redraws"),
        number("n_canaries", "Canaries", "count"),
        number("n_references", "References", "count"),
    ),
    "table_2": (*_ARM, *_TEST),
    "table_3": (*_REGULARISER, *_CHANGE[:1], *_TEST, *_CHANGE[1:]),
    "seeds": (
        *_ARM,
        words("score", "Score"),
        estimate("share", "Share that is the image's [95 %]", "decimal"),
        number("range", "Mean range over trainings", "power"),
        number("sd_seed", "s.d. over trainings", "power"),
        number("sd_redraws", "s.d. over redraws", "power"),
        number("n_images", "Canaries", "count"),
        number("n_runs", "Trainings of each", "count"),
    ),
    "epochs": (
        *_ARM,
        number("epoch", "Epoch", "count"),
        estimate("m", "M, canaries less references [95 %]"),
        estimate("m_paper", "M as published [95 %]", "power"),
        number("m_paper_references", "Same, references", "power"),
        number("validation", "Validation loss"),
        number("n_models", "Models", "count"),
        number("n_references", "References", "count"),
    ),
    "before_after": (
        *_ARM,
        words("image", "Image"),
        words("chosen", "Chosen for"),
        number("before", "Before", "power"),
        number("after", "With the mark", "power"),
        number("retrained", "Retrained without", "power"),
        number("place", "Place", "percent"),
        number("agreement", "Agreement", "short"),
    ),
    "latents": (
        *_ARM,
        number("latent", "Latent", "count"),
        number("n_latents", "of", "count"),
        number("mark", "Excited by the mark", "percent"),
        number("without", "Same, models with a control", "percent"),
        estimate("excess", "Difference [95 %]"),
        number("random", "By a random patch", "percent"),
        number("n_models", "Images", "count"),
        number("n_chosen", "Images it was chosen on", "count"),
        number("paper_latent", "The paper's latent", "count"),
        estimate("paper_excess", "Its difference [95 %]"),
    ),
    "influence": (
        *_REGULARISER,
        words("score", "Score"),
        estimate("r", "Pearson's r [95 %]"),
        number("p", "p", "probability"),
        estimate("apart", "Highest less lowest [95 %]", "power"),
        number("n_canaries", "Canaries", "count"),
    ),
    "networks": (
        *_REGULARISER,
        number("n_images", "Images", "count"),
        number("n_validation", "Validation", "count"),
        number("left_out", "Left out", "count"),
        number("n_probes", "Probes", "count"),
        number("probes_left_out", "Probes left out", "count"),
        number("n_controls", "Controls", "count"),
        number("trainings", "Trainings", "count"),
        number("epochs", "Best epoch, median", "count"),
        number("accuracy", "Accuracy", "percent"),
        number("majority", "Majority", "percent"),
        number("lr", "Learning rate", "text"),
        number("batch_size", "Batch", "count"),
        words("augment", "Augmentation"),
        number("transparent", "Opacity 0", "power"),
    ),
}
"""Columns of each table, by its name."""

_PUBLISHED_TITLE = "The paper's statistics, of the canary models and of models that never saw the mark."
LAYOUT = TableLayout(
    columns=COLUMNS,
    again={
        "table_2": (_PUBLISHED_TITLE, (*_ARM, *_PUBLISHED)),
        "table_3": (_PUBLISHED_TITLE, (*_REGULARISER, *_PUBLISHED)),
    },
)


TOP_WHITE, TOP = 5, 3
_STAR_NOTE = "A star marks p < 0.05 as the paper has it in bold: {}."
LEAST_REFERENCES = 19
"""Number of references with which one model alone can be found at 5 %."""


def unique_tables(reading: StudyAnswers) -> list[StudyTable]:
    """Return every table of the study from what is finished; an empty one says why.

    Args:
        reading: Result of `read_answers`.
    """
    return [
        _table_1(reading),
        _table_2(reading),
        _table_3(reading),
        seed_table(reading),
        epoch_table(reading),
        self_influence_table(reading),
        latent_table(reading),
        influence_table(reading),
        setup_table(reading),
    ]


def _table_1(reading: StudyAnswers) -> StudyTable:
    paper, ours = [], []
    for arm in reading.arms(RANDOM):
        rows = reading.rows(arm, RANDOM)
        first = largest_first(chosen(rows, column_numbers(rows, "run") == 0), "m_w")
        for row in first.head(TOP_WHITE).to_dict("records"):
            paper.append(
                {
                    "IMAGE ID": str(row["image"]), "D_t": arm.dataset, "MODEL": network_words(arm.network),
                    "Average(P(y|x_u))": _two_digits(row["p_mark"]), "Average(P(y|x_r))": _two_digits(row["p_random"]),
                    "M_w": _two_digits(row["m_w"]) + _star(row["p_white_paper"]),
                }
            )  # fmt: skip
        ours.append(arm_columns(arm) | _white_row(reading, arm, rows))
    note = (
        "M_w is positive or negative whether or not the model saw the mark: the table also has M_w of the references, "
        "models trained alike without the mark, on the very same images. The marked image itself is left out of the "
        "mean. The unit is the canary, its trainings averaged; those found alone, by rank among the references, are "
        "counted in each canary's first training, with 19 references or more. The five largest are a selection. "
        + _STAR_NOTE.format("one-tailed t-test over the images of the label")
    )
    why = "" if ours else "no network trains canaries at random"
    return StudyTable("table_1", "M_w, white box", pd.DataFrame(paper), pd.DataFrame(ours), note, why)


def _white_row(reading: StudyAnswers, arm: Arm, rows: pd.DataFrame) -> dict[str, object]:
    """Compare all canaries of an arm with its references; the unit is the canary, its trainings averaged."""
    own = _canary_means(rows, "m_w")
    columns: dict[str, object] = {"n_canaries": len(own), "n_models": len(rows), "m_w": float(own.mean())}
    limits = mean_limits(own)
    columns |= {
        "m_w_low": limits.low,
        "m_w_high": limits.high,
        "sd_redraws": float(column_numbers(rows, "m_w_sd").mean()),
    }
    reference_scores = _reference_scores(reading, arm)
    if reference_scores is None:
        return columns
    excess = excess_over_references(own, reference_scores)
    columns |= {"m_w_references": float(reference_scores.mean()), "excess": excess.estimate, "excess_low": excess.low}
    columns |= {"excess_high": excess.high, "n_references": len(reference_scores)}
    return columns | _share(chosen(rows, column_numbers(rows, "run") == 0), "white_found")


def _canary_means(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Compute the mean over the trainings of each canary, [canaries]."""
    index, values = column_numbers(rows, "index"), column_numbers(rows, column)
    return np.array([values[index == i].mean() for i in np.unique(index)])


def _share(rows: pd.DataFrame, column: str) -> dict[str, object]:
    """Estimate the share of models found alone; empty with too few references to find any."""
    answers = [value for value in rows[column] if value is not None and value == value] if column in rows else []
    if not answers:
        return {}
    share = clopper_pearson(sum(bool(value) for value in answers), len(answers))
    return {
        "found": share.successes, "n_found": share.trials, "found_share": share.estimate, "found_low": share.low,
        "found_high": share.high,
    }  # fmt: skip


def _reference_scores(reading: StudyAnswers, arm: Arm) -> np.ndarray | None:
    """Return the M_w that each reference has on the canary's images, [R, canaries]."""
    references, canaries = reading.of(arm, REFERENCE), reading.of(arm, RANDOM)
    if not references or not canaries:
        return None
    slots = {c.training.index: c.arrays["white_slots"] for c in canaries}
    means = [r.arrays["white"].mean(axis=0, dtype=np.float64) for r in references]
    return np.array([[mean[slots[index]].mean() for index in sorted(slots)] for mean in means])


def _table_2(reading: StudyAnswers) -> StudyTable:
    paper, averages, ours = [], [], []
    arms = [arm for arm in reading.arms(INFLUENCE) if arm.regulariser == PLAIN]
    for arm in arms:
        rows = largest_first(reading.rows(arm, INFLUENCE), "m_paper")
        labels = {"D_t": arm.dataset, "MODEL": network_words(arm.network)}
        paper += [
            {"ID": str(r["image"]), **labels, "M": _two_significant_digits(r["m_paper"]) + _star(r["p_welch"])}
            for r in rows.head(TOP).to_dict("records")
        ]
        averages.append(
            {"ID": "AVG.", **labels, "M": _two_significant_digits(positive_mean(column_numbers(rows, "m_paper")))}
        )
        ours.append(arm_columns(arm) | arm_row(reading, arm))
    note = (
        "The paper averages over canaries with M > 0: models that never saw the mark have such an average, too, which "
        "the table also has. Its Welch test takes probes for replicates"
        f" ({_STAR_NOTE.format('that test').removesuffix('.')}); the share of the references that it calls "
        "significant is its rate of false alarms. In the corrected test the canary models are compared with "
        "references, models trained alike without the mark: M is how many times (natural logarithm) more they answer "
        "to the mark than to its controls, less the same of the references. The test is one-sided: a model "
        "that answers to the mark less than every reference may remember it as well; these are counted, too."
    )
    why = "" if ours else "no network trains canaries of the highest and lowest self-influence"
    frame = pd.DataFrame([*paper, *averages])
    return StudyTable("table_2", "M, black box, by self-influence", frame, pd.DataFrame(ours), note, why)


def arm_row(reading: StudyAnswers, arm: Arm) -> dict[str, object]:
    """Compute the row of all canaries of an arm chosen by self-influence, in the corrected and in the paper's form."""
    rows, references = reading.rows(arm, INFLUENCE), reading.rows(arm, REFERENCE)
    m = column_numbers(rows, "m_paper")
    limits = mean_limits(m)
    row: dict[str, object] = {
        "n_canaries": len(rows), "n_references": len(references), **_share(rows, "found"),
        "m_paper": limits.estimate, "m_paper_low": limits.low, "m_paper_high": limits.high,
        "m_positive": positive_mean(m), "n_positive": int((m > 0).sum()),
        "welch_share": float((column_numbers(rows, "p_welch") <= LEVEL).mean()),
        "accuracy": float(column_numbers(rows, "accuracy").mean()),
        "epochs": float(np.median(column_numbers(rows, "best_epoch"))),
        "same": float(column_numbers(rows, "same").mean()), "mirrored": float(column_numbers(rows, "mirrored").mean()),
    }  # fmt: skip
    group = reading.group(arm, INFLUENCE)
    if group is not None:
        row["below_all"] = (
            int(booleans(rows, "below_all").sum()) if len(references) >= LEAST_REFERENCES else float("nan")
        )
        row |= {"m": group.m, "m_low": group.low, "m_high": group.high, "p": group.p_references}
        reference_m = column_numbers(references, "m_paper")
        row |= {"m_paper_references": float(reference_m.mean()), "m_positive_references": positive_mean(reference_m)}
        row |= {"welch_references": float((column_numbers(references, "p_welch") <= LEVEL).mean())}
    return row


def _table_3(reading: StudyAnswers) -> StudyTable:
    paper, ours = [], []
    for arm in [arm for arm in reading.arms(INFLUENCE) if arm.regulariser != PLAIN]:
        rows = reading.rows(arm, INFLUENCE)
        labels = {"D_t": arm.dataset, "MODEL": network_words(arm.network), "REGULARISATION": regulariser_words(arm)}
        paper.append({**labels, "M": _two_significant_digits(positive_mean(column_numbers(rows, "m_paper")))})
        ours.append(arm_columns(arm) | arm_row(reading, arm) | _regulariser_difference(reading, arm))
    note = (
        "Each regulariser has references of its own, trained with it and without the mark. The difference to no "
        "regulariser is of M; its limits are over models. “Same” is the share of the epochs in which the canary showed "
        "the very pixels of the mark that the probes show: augmentation changes them, and a model that remembers "
        "other forms of the mark is tested with one."
    )
    why = "" if ours else "no network is trained with regularisers"
    return StudyTable("table_3", "Regularisers", pd.DataFrame(paper), pd.DataFrame(ours), note, why)


def _regulariser_difference(reading: StudyAnswers, arm: Arm) -> dict[str, float]:
    """Compute M under the regulariser less M without: a difference of differences, each with references of its own."""
    plain = Arm(arm.dataset, arm.network)
    groups = [[a.t for a in reading.of(one, role)] for one in (arm, plain) for role in (INFLUENCE, REFERENCE)]
    if any(len(group) < 2 for group in groups):
        return {}
    # Each group enters the difference with a mean of its own: four independent groups.
    difference = contrast(groups, (1.0, -1.0, -1.0, 1.0))
    return {"change": difference.estimate, "change_low": difference.low, "change_high": difference.high}


def _star(p: float) -> str:
    """Return the mark of a result that the paper prints bold."""
    return "*" if p < LEVEL else ""


def _two_digits(value: float) -> str:
    """Format a number as table 1 prints it: ".11"."""
    return f"{value:.2f}".replace("0.", ".", 1) if np.isfinite(value) else "n/a"


def _two_significant_digits(value: float) -> str:
    """Format a number as tables 2 and 3 print it, with two digits that count: ".0038"."""
    if not np.isfinite(value):
        return "n/a"
    return f"{value:.2g}".replace("0.", ".", 1) if "e" not in f"{value:.2g}" else f"{value:.5f}".replace("0.", ".", 1)
