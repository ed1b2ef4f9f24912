"""Read a classifier audit's Result for its pages: counts, words and subsets, each in one place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier import words
from memorisk.audits.classifier.coverage import singly_tested, units_of
from memorisk.audits.classifier.evidence import WHOLE
from memorisk.report.blocks import Block, Callout, Inline, Name, Paragraph, Steps, Text
from memorisk.report.formats import count
from memorisk.report.frames import largest_first, numbers, rows, texts, truths
from memorisk.report.redaction import redact as redact_result
from memorisk.report.result import Result
from memorisk.statistics.intervals import MIN_SEEDS
from memorisk.statistics.verdicts.tiers import HIGH_ABOVE, INSUFFICIENT, MODERATE_FROM
from memorisk.statistics.verdicts.verdict import VERDICT_CORRECTION, VERDICT_LEVEL

GATE_LIMITS = {"high": HIGH_ABOVE, "moderate": MODERATE_FROM, "never": HIGH_ABOVE}
MOST_LISTED = 12


@dataclass(frozen=True)
class Reading:
    """The counts and names that the page reads from a result.

    Attributes:
        result: Without ids where they are to be left out.
        redacted: Whether they are.
        images_scored: Images with an M.
        groups_scored: Groups with an M.
        flagged_total: Flagged groups; one flagged under several findings counts once.
        unit: Name of a group in the singular.
        units: Name of groups in the plural.
    """

    result: Result
    redacted: bool
    images_scored: int
    groups_scored: int
    flagged_total: int
    unit: str
    units: str

    @classmethod
    def of(cls, result: Result, *, redact: bool) -> "Reading":
        """Count with the ids, then leave them out where that is asked for."""
        units = units_of(result.summary)
        return cls(
            result=redact_result(result) if redact else result,
            redacted=redact,
            images_scored=_distinct(result.per_image, "image"),
            groups_scored=_distinct(result.per_group, "group"),
            flagged_total=_distinct(rows(result.per_group, truths(result.per_group, "flagged")), "group"),
            unit=units.one,
            units=units.many,
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The result's summary."""
        return self.result.summary

    @property
    def verdict(self) -> dict[str, Any]:
        """The result's verdict."""
        return self.result.verdict

    @property
    def status(self) -> str:
        """The status: pass, fail, or undecided for anything else."""
        return self.result.status if self.result.status in words.HEADLINES else "undecided"

    @property
    def why(self) -> list[str]:
        """The reasons for the status."""
        return as_list(self.verdict.get("why"))

    @property
    def per_class(self) -> pd.DataFrame:
        """Table of the classes, highest mean first."""
        return largest_first(self.result.per_class, "mean")

    @property
    def findings(self) -> pd.DataFrame:
        """Table of the classes without the row of all findings together."""
        return rows(self.per_class, [label != WHOLE for label in texts(self.per_class, "label")])

    @property
    def verdict_flagged(self) -> int:
        """Number of groups on the verdict's own list; in older runs, on the list that is shown."""
        table = self.result.per_class
        return int(np.nansum(numbers(table, "verdict_flagged"))) if "verdict_flagged" in table else self.flagged_total

    @property
    def list_setting(self) -> str:
        """Level and correction of the list that is shown, in words; empty where they are the verdict's own."""
        level, correction = number(self.summary.get("level_q")), self.summary.get("correction")
        words_of = [f"at level {level:g}"] if level not in (None, VERDICT_LEVEL) else []
        words_of += [f"with correction {correction}"] if correction not in (None, VERDICT_CORRECTION) else []
        return " ".join(words_of)

    def two_lists(self) -> str:
        """Say that the list that is shown is not the verdict's, with both counts; empty where it is."""
        if not self.list_setting:
            return ""
        shown, own = (self._counted(n) for n in (self.flagged_total, self.verdict_flagged))
        return (
            f"The list that is shown was asked for {self.list_setting} and holds {shown}; the verdict rests on a "
            f"list of its own, at level {VERDICT_LEVEL:g} with correction {VERDICT_CORRECTION}, which holds {own}."
        )

    def _counted(self, n: int) -> str:
        return f"{count(n)} {self.unit if n == 1 else self.units}"

    @property
    def no_p_values(self) -> bool:
        """Whether no group has a p-value."""
        return len(self.result.per_group) > 0 and bool(np.isnan(numbers(self.result.per_group, "p_value")).all())

    @property
    def trained_on(self) -> float | None:
        """Number of images each audited model was trained on: |T| + |C|/2, in the paper's design |T| + |C|."""
        stated = number(self.summary.get("n_trained_on"))
        train, canary = (number(self.summary.get(k)) for k in ("n_train", "n_canary"))
        if stated is not None or train is None or canary is None:
            return stated
        return train + (canary if self.summary.get("design") == "paper" else canary / 2)

    def flag_statement(self) -> str:
        """Word what a flag means, with this audit's numbers."""
        q = number(self.summary.get("level_q", self.verdict.get("level")))
        level = "q" if q is None else f"{100 * q:g} %"
        half = "" if self.summary.get("design") == "paper" else "/2"
        made = f"|T|+|C|{half}" if self.trained_on is None else count(self.trained_on)
        return words.flagged_statement(level, f"{made} images")

    def classes_above_gate(self) -> int:
        """Count the classes whose lower limit lies above the gate."""
        limit = GATE_LIMITS.get(str(self.verdict.get("gate")))
        few = len(self.verdict.get("seeds") or ()) < MIN_SEEDS
        table = self.result.per_class
        low = numbers(table, "excess_low" if "excess_low" in table else "low")
        enough = np.array([tier != INSUFFICIENT for tier in texts(table, "tier")], dtype=bool)
        return 0 if limit is None or few else int((low[enough] > limit).sum())

    def untestable(self) -> pd.DataFrame:
        """Select the classes in which no single group could have been flagged."""
        table = self.result.per_class
        return rows(table, ~singly_tested(table))

    def flagged_groups(self) -> pd.DataFrame:
        """Select the flagged groups, largest M first, numbered."""
        table = largest_first(rows(self.result.per_group, truths(self.result.per_group, "flagged")), "M")
        return table.assign(place=np.arange(1, len(table) + 1))

    def top_images(self, n: int) -> pd.DataFrame:
        """Select the n images with the largest M."""
        table = self.result.per_image
        return largest_first(rows(table, ~np.isnan(numbers(table, "M"))), "M").head(n)

    def tier_note(self) -> str:
        """Count the classes by tier, in words."""
        tiers = texts(self.result.per_class, "tier")
        order = ("HIGH", "MODERATE", "LOW", "insufficient evidence")
        return ", ".join(f"{tiers.count(t)} {t}" for t in order if t in tiers)

    def seed_note(self) -> str:
        """Count the seeds of the models, in words."""
        seeds = self.summary.get("seeds")
        return f"from {len(seeds)} seeds" if isinstance(seeds, list) else ""

    def no_p_value_callout(self) -> Callout:
        """Say that there are no p-values, and why."""
        blocks: list[Block] = [
            Paragraph(
                f"No {self.unit} could be flagged or cleared. The means of the classes and the attacks still stand."
            )
        ]
        if reasons := self.prerequisite_messages():
            blocks.append(Steps([Name(r) for r in reasons]))
        return Callout("warning", "No p-values are given, since what they rest on does not hold", blocks)

    def prerequisite_messages(self) -> list[str]:
        """List what the checks of the prerequisites said, if they failed."""
        found = self.summary.get("prerequisites")
        messages = as_list(found) if isinstance(found, list) else []
        messages = messages or [v for v in texts(self.result.per_class, "why_not") if v]
        return list(dict.fromkeys(messages))


def number(value: Any) -> float | None:
    """Read a count from a number or from a list of what is counted; None for anything else."""
    if isinstance(value, list):
        return float(len(value))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_list(value: Any) -> list[str]:
    """Read texts from a list, from one text, or from nothing."""
    if value is None or value == "":
        return []
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]


def listed(names: Sequence[str], most: int = MOST_LISTED) -> list[Inline]:
    """Join names by commas, the rest counted."""
    pieces: list[Inline] = []
    for i, name in enumerate(names[:most]):
        pieces += [", ", Name(name)] if i else [Name(name)]
    return [*pieces, f" and {len(names) - most} more"] if len(names) > most else pieces


def settings(values: Any, before: str = "") -> list[tuple[Text, Text]]:
    """Flatten nested settings to rows of a definition list, names joined by dots; long lists are counted."""
    if not isinstance(values, dict):
        return [(before or "value", Name(_setting(values)))]
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


def _distinct(table: pd.DataFrame, column: str) -> int:
    """Count the different ids that have an M; rows where there are no ids."""
    scored = rows(table, ~np.isnan(numbers(table, "M")))
    return len(set(texts(scored, column))) if column in scored else len(scored)
