"""Dry run of a study: its cost and its failures, before anything is trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.retraining.defences import plan_defences
from memorisk.audits.classifier.run import audit_classifier
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.studies.engine.runner import named_progress
from memorisk.studies.rare_distinctive.config import read_study
from memorisk.studies.rare_distinctive.study import check_part, study_parts


@dataclass(frozen=True)
class StudyPlan:
    """Plan of a study's parts.

    Attributes:
        parts: Plans of each part by its name: a cell has one, a comparison of regimes one for each regime.
        refused: Reasons why other parts would fail, by their name.
    """

    parts: dict[str, list[DryRun]]
    problems: dict[str, str]

    @property
    def trainings(self) -> int:
        """Count the models that would be trained."""
        return self.cost.trainings or 0

    @property
    def cost(self) -> Cost:
        """Sum the costs of all parts that would not be refused; images that several parts share are counted in each."""
        return total([plan.cost for plans in self.parts.values() for plan in plans])

    @property
    def seconds(self) -> float:
        """Estimate the seconds of training, of the parts whose time is known."""
        return sum(plan.seconds or 0.0 for plans in self.parts.values() for plan in plans)

    @property
    def untimed(self) -> list[str]:
        """Return the parts whose time is not known beforehand."""
        return [name for name, plans in self.parts.items() if any(plan.seconds is None for plan in plans)]


def plan_study(config: Mapping[str, Any], *, out: str | Path, progress: Progress = no_progress) -> StudyPlan:
    """Plan every part as its audit would: images decoded, parts drawn, settings refused, two steps timed.

    Args:
        config: File of the study, as `study_rare_distinctive` takes it.
        out: Folder of the study; nothing is written there.
        progress: Function that is called with (stage, done, total).

    Returns:
        Plans of the parts, and the reasons why other parts would be refused.
    """
    parts: dict[str, list[DryRun]] = {}
    problems: dict[str, str] = {}
    for part in study_parts(Path(out), read_study(config)):
        how = {"out": out, "progress": named_progress(progress, part.name), **part.settings}
        try:
            check_part(part.name, part.folder, part.settings, unfinished=True)
            if part.defence:
                parts[part.name] = list(plan_defences(part.images, **how).values())
            else:
                parts[part.name] = [cast(DryRun, audit_classifier(part.images, dry_run=True, **how))]
        except InputError as error:
            problems[part.name] = one_line(error, 300)
    return StudyPlan(parts, problems)
