"""Tables 1 to 3 of paper 002 in its layout, the corrected numbers beside, and what its sections say in words.

A row of "ours" is an arm: a network on a data set under a regulariser. The unit is the model. Canaries of an arm share
its references, so that their single findings are not independent; the test of all canaries together is one test.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from memorisk.report.frames import largest_first, numbers, truths
from memorisk.report.frames import rows as chosen
from memorisk.statistics.privacy.canary_groups import contrast, excess_over_references, mean_limits, positive_mean
from memorisk.statistics.proportions import clopper_pearson
from memorisk.studies.rare_distinctive.parts import StudyTable
from memorisk.studies.unique_features.columns import COLUMNS, PUBLISHED, PUBLISHED_TITLE
from memorisk.studies.unique_features.config import LEVEL, PLAIN
from memorisk.studies.unique_features.names import arm_columns, network_words, regulariser_words
from memorisk.studies.unique_features.plan import INFLUENCE, RANDOM, REFERENCE, Arm
from memorisk.studies.unique_features.reading import Reading
from memorisk.studies.unique_features.studies import (
    before_after,
    by_epoch,
    by_influence,
    by_seed,
    latents,
    what_was_run,
)

TOP_WHITE, TOP = 5, 3
_STARRED = "A star marks p < 0.05 as the paper has it in bold: {}."
ENOUGH = 19
"""References with which one model alone can be found at 5 %."""


def unique_tables(reading: Reading) -> list[StudyTable]:
    """Every table of the study from what is finished; an empty one says why.

    Args:
        reading: Of `read_answers`.
    """
    return [
        _table_1(reading),
        _table_2(reading),
        _table_3(reading),
        by_seed(reading),
        by_epoch(reading),
        before_after(reading),
        latents(reading),
        by_influence(reading),
        what_was_run(reading),
    ]


def heading(table: StudyTable) -> str:
    """As in "Table 3. Regularisers", and the title alone of what the paper says in words."""
    number = table.name.removeprefix("table_")
    return f"Table {number}. {table.title}" if number != table.name else table.title


def tables_text(tables: list[StudyTable], markdown: Callable[..., str]) -> str:
    """All tables as Markdown.

    Args:
        tables: Of `unique_tables`.
        markdown: Of ``studies.rare_distinctive.text``.
    """
    blocks = []
    for table in tables:
        blocks.append(f"## {heading(table)}")
        if table.why_empty:
            blocks.append(f"Empty: {table.why_empty}.")
        else:
            if len(table.paper.columns):
                blocks += ["As the paper prints it:", markdown(table.paper)]
                blocks.append("Corrected, intervals are 95 %:")
            blocks.append(markdown(table.ours, COLUMNS[table.name]))
            if table.name in PUBLISHED:
                blocks += [PUBLISHED_TITLE, markdown(table.ours, PUBLISHED[table.name])]
        blocks.append(table.note)
        blocks += [f"- {line}" for line in table.missing]
    return "\n\n".join(blocks) + "\n"


def _table_1(reading: Reading) -> StudyTable:
    paper, ours = [], []
    for arm in reading.arms(RANDOM):
        rows = reading.rows(arm, RANDOM)
        first = largest_first(chosen(rows, numbers(rows, "run") == 0), "m_w")
        for row in first.head(TOP_WHITE).to_dict("records"):
            paper.append(
                {
                    "IMAGE ID": str(row["image"]), "D_t": arm.dataset, "MODEL": network_words(arm.network),
                    "Average(P(y|x_u))": _two(row["p_mark"]), "Average(P(y|x_r))": _two(row["p_random"]),
                    "M_w": _two(row["m_w"]) + _star(row["p_white_paper"]),
                }
            )  # fmt: skip
        ours.append(arm_columns(arm) | _white_row(reading, arm, rows))
    note = (
        "M_w is positive or negative whether or not the model saw the mark: beside it stands M_w of the references, "
        "models trained alike without the mark, on the very same images. The marked image itself is left out of the "
        "mean. The unit is the canary, its trainings averaged; those found alone, by rank among the references, are "
        "counted in each canary's first training, with 19 references or more. The five largest are a selection. "
        + _STARRED.format("one-tailed t-test over the images of the label")
    )
    why = "" if ours else "no network trains canaries at random"
    return StudyTable("table_1", "M_w, white box", pd.DataFrame(paper), pd.DataFrame(ours), note, why)


def _white_row(reading: Reading, arm: Arm, rows: pd.DataFrame) -> dict[str, object]:
    """All canaries of an arm against its references; the unit is the canary, its trainings averaged."""
    own = _by_canary(rows, "m_w")
    found: dict[str, object] = {"n_canaries": len(own), "n_models": len(rows), "m_w": float(own.mean())}
    limits = mean_limits(own)
    found |= {"m_w_low": limits.low, "m_w_high": limits.high, "sd_redraws": float(numbers(rows, "m_w_sd").mean())}
    theirs = _white_of_references(reading, arm)
    if theirs is None:
        return found
    excess = excess_over_references(own, theirs)
    found |= {"m_w_references": float(theirs.mean()), "excess": excess.estimate, "excess_low": excess.low}
    found |= {"excess_high": excess.high, "n_references": len(theirs)}
    return found | _share(chosen(rows, numbers(rows, "run") == 0), "white_found")


def _by_canary(rows: pd.DataFrame, column: str) -> np.ndarray:
    """[canaries] mean over the trainings of each."""
    index, values = numbers(rows, "index"), numbers(rows, column)
    return np.array([values[index == i].mean() for i in np.unique(index)])


def _share(rows: pd.DataFrame, column: str) -> dict[str, object]:
    """How many models are found alone; nothing where there are too few references to find any."""
    told = [value for value in rows[column] if value is not None and value == value] if column in rows else []
    if not told:
        return {}
    share = clopper_pearson(sum(bool(value) for value in told), len(told))
    return {
        "found": share.successes, "n_found": share.trials, "found_share": share.estimate, "found_low": share.low,
        "found_high": share.high,
    }  # fmt: skip


def _white_of_references(reading: Reading, arm: Arm) -> np.ndarray | None:
    """[R, canaries] M_w that each reference has on the canary's images."""
    references, canaries = reading.of(arm, REFERENCE), reading.of(arm, RANDOM)
    if not references or not canaries:
        return None
    slots = {c.training.index: c.found["white_slots"] for c in canaries}
    means = [r.found["white"].mean(axis=0, dtype=np.float64) for r in references]
    return np.array([[mean[slots[index]].mean() for index in sorted(slots)] for mean in means])


def _table_2(reading: Reading) -> StudyTable:
    paper, averages, ours = [], [], []
    arms = [arm for arm in reading.arms(INFLUENCE) if arm.regulariser == PLAIN]
    for arm in arms:
        rows = largest_first(reading.rows(arm, INFLUENCE), "m_paper")
        named = {"D_t": arm.dataset, "MODEL": network_words(arm.network)}
        paper += [
            {"ID": str(r["image"]), **named, "M": _small(r["m_paper"]) + _star(r["p_welch"])}
            for r in rows.head(TOP).to_dict("records")
        ]
        averages.append({"ID": "AVG.", **named, "M": _small(positive_mean(numbers(rows, "m_paper")))})
        ours.append(arm_columns(arm) | arm_row(reading, arm))
    note = (
        "The paper averages over canaries with M > 0: models that never saw the mark have such an average, too, which "
        "stands beside. Its Welch test takes probes for replicates"
        f" ({_STARRED.format('that test').removesuffix('.')}); the share of the references that it calls "
        "significant is its rate of false alarms. In the corrected test the canary models are compared with "
        "references, models trained alike without the mark: M is how many times (natural logarithm) more they answer "
        "to the mark than to its controls, less the same of the references. The test is one-sided: a model "
        "that answers to the mark less than every reference may remember it as well; these are counted, too."
    )
    why = "" if ours else "no network trains canaries of the highest and lowest self-influence"
    frame = pd.DataFrame([*paper, *averages])
    return StudyTable("table_2", "M, black box, by self-influence", frame, pd.DataFrame(ours), note, why)


def arm_row(reading: Reading, arm: Arm) -> dict[str, object]:
    """All canaries of an arm that were chosen by self-influence, in the corrected and in the paper's form."""
    rows, references = reading.rows(arm, INFLUENCE), reading.rows(arm, REFERENCE)
    m = numbers(rows, "m_paper")
    limits = mean_limits(m)
    row: dict[str, object] = {
        "n_canaries": len(rows), "n_references": len(references), **_share(rows, "found"),
        "m_paper": limits.estimate, "m_paper_low": limits.low, "m_paper_high": limits.high,
        "m_positive": positive_mean(m), "n_positive": int((m > 0).sum()),
        "welch_share": float((numbers(rows, "p_welch") <= LEVEL).mean()),
        "accuracy": float(numbers(rows, "accuracy").mean()), "epochs": float(np.median(numbers(rows, "best_epoch"))),
        "same": float(numbers(rows, "same").mean()), "mirrored": float(numbers(rows, "mirrored").mean()),
    }  # fmt: skip
    group = reading.group(arm, INFLUENCE)
    if group is not None:
        row["below_all"] = int(truths(rows, "below_all").sum()) if len(references) >= ENOUGH else float("nan")
        row |= {"m": group.m, "m_low": group.low, "m_high": group.high, "p": group.p_references}
        theirs = numbers(references, "m_paper")
        row |= {"m_paper_references": float(theirs.mean()), "m_positive_references": positive_mean(theirs)}
        row |= {"welch_references": float((numbers(references, "p_welch") <= LEVEL).mean())}
    return row


def _table_3(reading: Reading) -> StudyTable:
    paper, ours = [], []
    for arm in [arm for arm in reading.arms(INFLUENCE) if arm.regulariser != PLAIN]:
        rows = reading.rows(arm, INFLUENCE)
        named = {"D_t": arm.dataset, "MODEL": network_words(arm.network), "REGULARISATION": regulariser_words(arm)}
        paper.append({**named, "M": _small(positive_mean(numbers(rows, "m_paper")))})
        ours.append(arm_columns(arm) | arm_row(reading, arm) | _against_plain(reading, arm))
    note = (
        "Each regulariser has references of its own, trained with it and without the mark. The difference to no "
        "regulariser is of M; its limits are over models. “Same” is the share of the epochs in which the canary showed "
        "the very pixels of the mark that the probes show: augmentation changes them, and a model that remembers "
        "other forms of the mark is asked about one."
    )
    why = "" if ours else "no network is trained with regularisers"
    return StudyTable("table_3", "Regularisers", pd.DataFrame(paper), pd.DataFrame(ours), note, why)


def _against_plain(reading: Reading, arm: Arm) -> dict[str, float]:
    """M under the regulariser less M without: a difference of differences, each with references of its own."""
    plain = Arm(arm.dataset, arm.network)
    groups = [[a.t for a in reading.of(one, role)] for one in (arm, plain) for role in (INFLUENCE, REFERENCE)]
    if any(len(group) < 2 for group in groups):
        return {}
    # Each group enters the difference with a mean of its own: four independent groups.
    found = contrast(groups, (1.0, -1.0, -1.0, 1.0))
    return {"change": found.estimate, "change_low": found.low, "change_high": found.high}


def _star(p: float) -> str:
    """What marks a result that the paper prints bold."""
    return "*" if p < LEVEL else ""


def _two(value: float) -> str:
    """A number as table 1 prints it: ".11"."""
    return f"{value:.2f}".replace("0.", ".", 1) if np.isfinite(value) else "n/a"


def _small(value: float) -> str:
    """A number as tables 2 and 3 print it, with two digits that count: ".0038"."""
    if not np.isfinite(value):
        return "n/a"
    return f"{value:.2g}".replace("0.", ".", 1) if "e" not in f"{value:.2g}" else f"{value:.5f}".replace("0.", ".", 1)
