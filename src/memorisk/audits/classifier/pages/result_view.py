"""Counts, words and subsets that the pages of the classifier report read from a result, in one place for all pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import WHOLE
from memorisk.audits.classifier.pages.wording import GATES, flagged_statement
from memorisk.audits.classifier.result import TRAINED_ELSEWHERE, ClassifierSummary, ClassifierVerdict
from memorisk.report.blocks import Block, Callout, Inline, Name, Paragraph, Steps, Text
from memorisk.report.columns import booleans, column_numbers, column_texts, count, distinct_scored, largest_first, rows
from memorisk.report.first_screen import BOXES
from memorisk.report.flagged import classes_with_room
from memorisk.report.kinds import kind_of
from memorisk.report.result import Result
from memorisk.report.result import redact as redact_result
from memorisk.runs.errors import plural
from memorisk.statistics.intervals.means import MIN_SEEDS
from memorisk.statistics.verdicts.levels import VERDICT_CORRECTION, VERDICT_LEVEL
from memorisk.statistics.verdicts.scales import LossScale
from memorisk.statistics.verdicts.tiers import INSUFFICIENT

MOST_LISTED = 12
MOST_SHOWN = 6
"""Number of patients with pictures on the first screen of the report."""


@dataclass(frozen=True)
class ResultView:
    """A result with its numbers, and the counts that the page reads from its tables.

    Attributes:
        result: Result, without ids where they are to be left out.
        summary: Numbers of the result, with ids left out as in the result.
        verdict: Verdict of the result.
        redacted: Whether ids are left out.
        images_scored: Images with an M.
        groups_scored: Groups with an M.
        flagged_total: Flagged groups; one flagged in several classes counts once.
        flagged_again: Groups flagged in more than one class, once in each of which the table of classes counts them.
    """

    result: Result
    summary: ClassifierSummary
    verdict: ClassifierVerdict
    redacted: bool
    images_scored: int
    groups_scored: int
    flagged_total: int
    flagged_again: int

    @classmethod
    def of(cls, result: Result, *, redact: bool) -> "ResultView":
        """Count with the ids, then leave them out where that is requested."""
        visible = redact_result(result) if redact else result
        flagged = rows(result.per_group, booleans(result.per_group, "flagged"))
        return cls(
            result=visible,
            summary=ClassifierSummary.read(visible.summary),
            verdict=ClassifierVerdict.read(visible.verdict),
            redacted=redact,
            images_scored=distinct_scored(result.per_image, "image"),
            groups_scored=distinct_scored(result.per_group, "group"),
            flagged_total=distinct_scored(flagged, "group"),
            flagged_again=int((flagged["group"].value_counts() > 1).sum()) if "group" in flagged else 0,
        )

    @property
    def unit(self) -> str:
        """Name of a group in the singular."""
        return self.summary.units.one

    @property
    def units(self) -> str:
        """Name of groups in the plural."""
        return self.summary.units.many

    @property
    def scale(self) -> LossScale:
        """Scale of the losses."""
        return self.summary.units.loss_scale

    @property
    def takes_placebo(self) -> bool:
        """Return whether such an audit can add a placebo, which divides its images anew; losses come without images."""
        elsewhere = self.summary.models.model == TRAINED_ELSEWHERE
        return not elsewhere and "placebo" in kind_of(self.verdict.audit).settings()

    @property
    def gate_words(self) -> str:
        """Gate of the audit in words; empty for an unknown one."""
        scale = self.scale
        return GATES.get(self.verdict.gate, "").format(unit=self.unit, high=scale.high, moderate=scale.moderate)

    @property
    def status(self) -> str:
        """The status: pass, fail, or undecided for anything else."""
        return self.result.status if self.result.status in BOXES else "undecided"

    @property
    def per_class(self) -> pd.DataFrame:
        """Table of the classes, highest mean first."""
        return largest_first(self.result.per_class, "mean")

    @property
    def findings(self) -> pd.DataFrame:
        """Table of the classes without the row of all findings together."""
        return rows(self.per_class, [label != WHOLE for label in column_texts(self.per_class, "label")])

    @property
    def verdict_flagged(self) -> int:
        """Number of groups on the verdict's own list; in older runs, on the list that is shown.

        Where another list is shown, a group that is on the verdict's own in two classes counts twice: only its
        counts are kept.
        """
        table = self.result.per_class
        if "verdict_flagged" not in table or not self.list_setting:
            return self.flagged_total
        return int(np.nansum(column_numbers(table, "verdict_flagged")))

    @property
    def list_setting(self) -> str:
        """Level and correction of the list that is shown, in words; empty where they are the verdict's own."""
        level, correction = self.summary.list_level, self.summary.correction
        words_of = [f"at level {level:g}"] if level not in (None, VERDICT_LEVEL) else []
        words_of += [f"with correction {correction}"] if correction not in ("", VERDICT_CORRECTION) else []
        return " ".join(words_of)

    @property
    def several_classes(self) -> str:
        """Say how many of the flagged the table of classes counts more than once; empty where it counts each once."""
        n = self.flagged_again
        return f"{count(n)} of them in more than one class" if n else ""

    def two_lists(self) -> str:
        """Say that the list that is shown is not the verdict's, with both counts; empty where it is."""
        if not self.list_setting:
            return ""
        listed, own = (self._counted(n) for n in (self.flagged_total, self.verdict_flagged))
        return (
            f"The list that is shown, {self.list_setting}, holds {listed}; the verdict rests on a "
            f"list of its own, at level {VERDICT_LEVEL:g} with correction {VERDICT_CORRECTION}, which holds {own}."
        )

    def _counted(self, n: int) -> str:
        return f"{count(n)} {self.unit if n == 1 else self.units}"

    @property
    def no_p_values(self) -> bool:
        """Return whether no group has a p-value."""
        return len(self.result.per_group) > 0 and bool(np.isnan(column_numbers(self.result.per_group, "p_value")).all())

    def flag_statement(self) -> str:
        """Word what a flag means, with this audit's numbers."""
        q = self.verdict.level if self.summary.list_level is None else self.summary.list_level
        level = "q" if q is None else f"{100 * q:g} %"
        half = "" if self.summary.design == "paper" else "/2"
        n_images = f"|T|+|C|{half}" if self.summary.images_each is None else count(self.summary.images_each)
        return flagged_statement(level, f"{n_images} images")

    def classes_above_gate(self) -> int:
        """Count the classes whose lower limit lies above the gate."""
        limit = (self.scale.gates | {"never": self.scale.high}).get(self.verdict.gate)
        few = len(self.verdict.seeds) < MIN_SEEDS
        table = self.result.per_class
        low = column_numbers(table, "excess_low" if "excess_low" in table else "low")
        enough = np.array([tier != INSUFFICIENT for tier in column_texts(table, "tier")], dtype=bool)
        return 0 if limit is None or few else int((low[enough] > limit).sum())

    def untestable(self) -> pd.DataFrame:
        """Select the classes in which no single group could have been flagged."""
        table = self.result.per_class
        return rows(table, ~classes_with_room(table))

    def flagged_groups(self) -> pd.DataFrame:
        """Select the flagged groups, largest M first, numbered."""
        table = largest_first(rows(self.result.per_group, booleans(self.result.per_group, "flagged")), "M")
        return table.assign(place=np.arange(1, len(table) + 1))

    def first_groups(self) -> pd.DataFrame:
        """Select the groups of the first screen: flagged ones or, where none is flagged, those with the largest M."""
        if len(flagged := self.flagged_groups()):
            return flagged.head(MOST_SHOWN)
        table = self.result.per_group
        return largest_first(rows(table, ~np.isnan(column_numbers(table, "M"))), "M").head(MOST_SHOWN)

    def first_images(self) -> dict[tuple[str, str], str]:
        """Choose the image with the largest M of each of the first groups, by class and patient."""
        groups, images = self.first_groups(), largest_first(self.result.per_image, "M")
        if not {"label", "group", "image"} <= set(images):
            return {}
        first: dict[tuple[str, str], str] = {}
        for label, group, image in zip(*(column_texts(images, c) for c in ("label", "group", "image")), strict=True):
            first.setdefault((label, group), image)
        patients = zip(column_texts(groups, "label"), column_texts(groups, "group"), strict=True)
        return {patient: first[patient] for patient in patients if patient in first}

    def top_images(self, n: int) -> pd.DataFrame:
        """Select the n images with the largest M."""
        table = self.result.per_image
        return largest_first(rows(table, ~np.isnan(column_numbers(table, "M"))), "M").head(n)

    def tier_note(self) -> str:
        """Count the classes by tier, in words."""
        tiers = column_texts(self.result.per_class, "tier")
        order = ("HIGH", "MODERATE", "LOW", "insufficient evidence")
        return ", ".join(f"{tiers.count(t)} {t}" for t in order if t in tiers)

    def seed_note(self) -> str:
        """Count the seeds of the models, in words."""
        seeds = self.summary.models.seeds
        return plural(len(seeds), "seed", "seeds") if seeds else ""

    def no_p_value_callout(self) -> Callout:
        """Say that the audit has no p-values, and why."""
        blocks: list[Block] = [
            Paragraph(
                f"No {self.unit} could be flagged or cleared. The means of the classes and the attacks remain valid."
            )
        ]
        if reasons := dict.fromkeys(reason for reason in column_texts(self.result.per_class, "why_not") if reason):
            blocks.append(Steps([Name(reason) for reason in reasons]))
        return Callout("warning", "No p-values are given, since what they rest on does not hold", blocks)


def listed(names: Sequence[str], most: int = MOST_LISTED) -> list[Inline]:
    """Join names by commas, the rest counted."""
    pieces: list[Inline] = []
    for i, name in enumerate(names[:most]):
        pieces += [", ", Name(name)] if i else [Name(name)]
    return [*pieces, f" and {len(names) - most} more"] if len(names) > most else pieces


def settings(values: Mapping[str, Any], before: str = "") -> list[tuple[Text, Text]]:
    """Flatten nested settings to rows of a definition list, names joined by dots; long lists are counted."""
    rows: list[tuple[Text, Text]] = []
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            rows += settings(value, f"{name}.")
        else:
            rows.append((Name(name), Name(_setting(value))))
    return rows


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(v) for v in value) if len(value) <= 20 else f"{len(value)} values"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "not set" if value is None else str(value)
