"""Answers of every model of the study as one table, and the test of each canary against its references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from memorisk.report.columns import column_texts, rows
from memorisk.statistics.memorization.mark_rank import MarkRank, rank_mark, rank_p
from memorisk.studies.engine.cells import Arrays, read_result
from memorisk.studies.engine.layout import read_layout
from memorisk.studies.unique_features.config import LEVEL
from memorisk.studies.unique_features.dataset import SetData
from memorisk.studies.unique_features.plan import BASE, REFERENCE, REPEAT, Arm, Training

LAYOUT = read_layout(__package__, "study")
"""Schemas of the tables and the page."""


@dataclass(frozen=True, eq=False)
class TrainingAnswers:
    """Finished training with its answers."""

    training: Training
    """Training that is finished."""
    arrays: Arrays
    """Answers of its model."""

    @property
    def t(self) -> float:
        """Return the mean log KL of the mark less the mean of its controls."""
        return float(self.arrays["statistic"] - self.arrays["controls"].mean())

    @property
    def marked(self) -> bool:
        """Return whether an image carried the mark, not a control."""
        return self.training.job.canary is not None and self.training.job.burnt is None


@dataclass(frozen=True, eq=False)
class StudyAnswers:
    """Answers that tables and figures are made of.

    Attributes:
        models: Table with one row per model (`model_rows`).
        answers: Answers of every finished training, in the study's order.
        sets: Data sets by name.
        references: Whether the study has references.
    """

    models: pd.DataFrame
    answers: list[TrainingAnswers]
    sets: dict[str, SetData]
    references: bool

    def of(self, arm: Arm, *roles: str) -> list[TrainingAnswers]:
        """Return the finished trainings of an arm, for some roles."""
        return [a for a in self.answers if a.training.arm == arm and a.training.role in roles]

    def rows(self, arm: Arm, *roles: str) -> pd.DataFrame:
        """Return the rows of `models` of an arm, for some roles."""
        names = [column_texts(self.models, column) for column in ("dataset", "network", "regulariser", "role")]
        key_of_arm = (arm.dataset, arm.network, arm.regulariser)
        return rows(self.models, [key[:3] == key_of_arm and key[3] in roles for key in zip(*names, strict=True)])

    def arms(self, *roles: str) -> list[Arm]:
        """Return the arms that have a finished training for some roles, in the study's order."""
        return list(dict.fromkeys(a.training.arm for a in self.answers if a.training.role in roles))

    def group(self, arm: Arm, *roles: str) -> MarkRank | None:
        """Rank all canary models of an arm together against its references; None where there are none of either."""
        own, references = [a for a in self.of(arm, *roles) if a.marked], self.of(arm, REFERENCE)
        if not own or not references:
            return None
        return _rank_mark(own, references)


def read_answers(trainings: Sequence[Training], sets: dict[str, SetData]) -> StudyAnswers:
    """Read the answers of the finished trainings.

    Args:
        trainings: All trainings of the study.
        sets: Data sets of the study.
    """
    answers = [TrainingAnswers(t, read_result(t.job.result_file)) for t in trainings if t.job.done]
    by_arm: dict[Arm, list[TrainingAnswers]] = {}
    ranking: dict[Arm, Arrays] = {}
    for answer in answers:
        arm = answer.training.arm
        if answer.training.role == REFERENCE:
            by_arm.setdefault(arm, []).append(answer)
        if answer.training.role == BASE:
            ranking[Arm(arm.dataset, arm.network)] = answer.arrays
    table = [
        _row(answer, by_arm.get(answer.training.arm, []), ranking, sets)
        for answer in answers
        if answer.training.role not in (BASE, REPEAT)
    ]
    return StudyAnswers(pd.DataFrame(table), answers, sets, bool(by_arm))


def _row(
    answer: TrainingAnswers, references: list[TrainingAnswers], ranking: dict[Arm, Arrays], sets: dict[str, SetData]
) -> dict[str, Any]:
    training, arrays = answer.training, answer.arrays
    arm, job = training.arm, training.job
    random = arrays["mean_random"]
    m_paper = float(arrays["mean_mark"]) - random
    row: dict[str, Any] = {
        "dataset": arm.dataset,
        "network": arm.network,
        "regulariser": arm.regulariser,
        "role": training.role,
        "index": training.index,
        "run": training.run,
        "chosen": training.chosen,
        "image": -1,
        "label": "",
        "seed": job.seed,
        "best_epoch": int(arrays["best_epoch"]),
        "epochs": len(arrays["losses"]),
        "accuracy": float(arrays["accuracy"]),
        "m_paper": float(m_paper.mean()),
        "m_paper_sd": float(m_paper.std(ddof=1)) if len(m_paper) > 1 else float("nan"),
        "p_welch": float(arrays["welch"][0]),
        "t": answer.t,
        "p_controls": rank_p(float(arrays["statistic"]), arrays["controls"]),
        "transparent": float(arrays["transparent"]),
    }
    if not answer.marked:
        return row
    assert job.canary is not None
    data, slot = sets[arm.dataset], job.canary
    image = int(job.rows[slot])
    row |= {"image": image, "label": data.classes[data.labels[image]]}
    ranked = ranking.get(Arm(arm.dataset, arm.network))
    row["self_influence"] = float("nan") if ranked is None else float(ranked["influence"][slot])
    row |= _white_box_score(arrays, references)
    row |= {
        "same": float(np.mean(arrays["variant_same"])),
        "kept": float(np.mean(arrays["variant_kept"])),
        "mirrored": float(np.mean(arrays["variant_mirrored"])),
    }
    if references:
        rank = _rank_mark([answer], references)
        row |= {"m": rank.m, "p_references": rank.p_references, "p_centred": rank.p_centred}
        row |= {"p": rank.p, "method": rank.method}
        row["below_all"] = bool(rank.p_references >= 1.0)
    else:
        row |= {"p": row["p_controls"], "method": "controls"}
    row["found"] = bool(row["p"] <= LEVEL) if row["method"] == "references" else None
    return row


def _rank_mark(own: list[TrainingAnswers], references: list[TrainingAnswers]) -> MarkRank:
    return rank_mark(
        [float(a.arrays["statistic"]) for a in own],
        [a.arrays["controls"] for a in own],
        [float(r.arrays["statistic"]) for r in references],
        [r.arrays["controls"] for r in references],
        level=LEVEL,
    )


def _white_box_score(arrays: Arrays, references: list[TrainingAnswers]) -> dict[str, Any]:
    """Compute M_w, and its rank among the M_w of models without the mark on the very same images.

    The paper prints M_w bold where p < 0.05 and does not name the test. The test here is that of its M, one-tailed, of
    the first redraw, paired by image since both probabilities are of one image.
    """
    logs = arrays["white"].astype(np.float64)
    if not logs.size:
        return {}
    by_draw = logs.mean(axis=1)
    m_w = float(by_draw.mean())
    row = {
        "m_w": m_w,
        "m_w_sd": float(by_draw.std(ddof=1)) if len(by_draw) > 1 else float("nan"),
        "p_mark": float(arrays["white_mark"].mean()),
        "p_random": float(arrays["white_random"].mean()),
        "p_white_paper": float(np.asarray(scipy.stats.ttest_1samp(logs[0], 0.0, alternative="greater"))[1])
        if logs.shape[1] > 1
        else 1.0,
        "n_white": logs.shape[1],
    }
    if references:  # a reference has a score for every training image, slot j in column j
        reference_scores = np.array(
            [r.arrays["white"][:, arrays["white_slots"]].mean(dtype=np.float64) for r in references]
        )
        row |= {"m_w_references": float(reference_scores.mean()), "p_white": rank_p(m_w, reference_scores)}
        row["white_found"] = bool(row["p_white"] <= LEVEL) if 1 / (1 + len(reference_scores)) <= LEVEL else None
        row["m_w_excess"] = m_w - row["m_w_references"]
    return row
