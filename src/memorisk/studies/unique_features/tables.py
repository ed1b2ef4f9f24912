"""Tables 1 to 3 of paper 002 in its layout, the corrected numbers, and the results of its further sections.

A row of "ours" is an arm: a network on a data set under a regulariser. The unit is the model. Canaries of an arm
share its references, so that their single findings are not independent; the test of all canaries together is one
test. ``study.yaml`` defines how the corrected numbers are shown, on the page and in Markdown alike.
"""

import numpy as np
import pandas as pd

from memorisk.report.columns import booleans, column_numbers, largest_first
from memorisk.report.columns import rows as chosen
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.mark_contrasts import contrast, excess_over_references, mean_limits, positive_mean
from memorisk.studies.engine.rows import limits
from memorisk.studies.engine.tables import StudyTable, fill_table
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
from memorisk.studies.unique_features.results import LAYOUT, StudyAnswers
from memorisk.studies.unique_features.section_tables import (
    epoch_table,
    influence_table,
    latent_table,
    seed_table,
    self_influence_table,
    setup_table,
)

TOP_WHITE, TOP = 5, 3
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
        paper += [
            (
                str(row["image"]),
                arm.dataset,
                network_words(arm.network),
                _two_digits(row["p_mark"]),
                _two_digits(row["p_random"]),
                _two_digits(row["m_w"]) + _star(row["p_white_paper"]),
            )
            for row in first.head(TOP_WHITE).to_dict("records")
        ]
        ours.append(arm_columns(arm) | _white_row(reading, arm, rows))
    return fill_table(LAYOUT, "table_1", ours, paper=paper)


def _white_row(reading: StudyAnswers, arm: Arm, rows: pd.DataFrame) -> dict[str, object]:
    """Compare all canaries of an arm with its references; the unit is the canary, its trainings averaged."""
    own = _canary_means(rows, "m_w")
    columns: dict[str, object] = {"n_canaries": len(own), "n_models": len(rows)}
    columns |= limits("m_w", mean_limits(own)) | {"sd_redraws": float(column_numbers(rows, "m_w_sd").mean())}
    reference_scores = _reference_scores(reading, arm)
    if reference_scores is None:
        return columns
    excess = excess_over_references(own, reference_scores)
    columns |= {"m_w_references": float(reference_scores.mean()), **limits("excess", excess)}
    columns["n_references"] = len(reference_scores)
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
        labels = (arm.dataset, network_words(arm.network))
        paper += [
            (str(r["image"]), *labels, _two_significant_digits(r["m_paper"]) + _star(r["p_welch"]))
            for r in rows.head(TOP).to_dict("records")
        ]
        averages.append(("AVG.", *labels, _two_significant_digits(positive_mean(column_numbers(rows, "m_paper")))))
        ours.append(arm_columns(arm) | arm_row(reading, arm))
    return fill_table(LAYOUT, "table_2", ours, paper=[*paper, *averages])


def arm_row(reading: StudyAnswers, arm: Arm) -> dict[str, object]:
    """Compute the row of all canaries of an arm chosen by self-influence, in the corrected and in the paper's form."""
    rows, references = reading.rows(arm, INFLUENCE), reading.rows(arm, REFERENCE)
    m = column_numbers(rows, "m_paper")
    row: dict[str, object] = {
        "n_canaries": len(rows), "n_references": len(references), **_share(rows, "found"),
        **limits("m_paper", mean_limits(m)),
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
        mean = _two_significant_digits(positive_mean(column_numbers(rows, "m_paper")))
        paper.append((arm.dataset, network_words(arm.network), regulariser_words(arm), mean))
        ours.append(arm_columns(arm) | arm_row(reading, arm) | _regulariser_difference(reading, arm))
    return fill_table(LAYOUT, "table_3", ours, paper=paper)


def _regulariser_difference(reading: StudyAnswers, arm: Arm) -> dict[str, float]:
    """Compute M under the regulariser less M without: a difference of differences, each with references of its own."""
    plain = Arm(arm.dataset, arm.network)
    groups = [[a.t for a in reading.of(one, role)] for one in (arm, plain) for role in (INFLUENCE, REFERENCE)]
    if any(len(group) < 2 for group in groups):
        return {}
    # Each group enters the difference with a mean of its own: four independent groups.
    return limits("change", contrast(groups, (1.0, -1.0, -1.0, 1.0)))


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
