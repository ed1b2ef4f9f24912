"""Dry run of a study: its cost and its failures, before anything is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memorisk.audits.classifier.dry_run import DryRun
from memorisk.audits.classifier.retraining.defences import plan_defences
from memorisk.audits.classifier.run import audit_classifier
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.studies.engine.runner import named_progress
from memorisk.studies.rare_distinctive.config import StudyConfig
from memorisk.studies.rare_distinctive.results import DEFENCES, part_name
from memorisk.studies.rare_distinctive.study import check_part, study_parts_in


@dataclass(frozen=True)
class StudyPlan:
    """Plan of a study's parts.

    Attributes:
        parts: Plans of each part by its name: a cell has one, a comparison of regimes one for each regime.
        refused: Reasons why other parts would fail, by their name.
    """

    parts: dict[str, list[DryRun]]
    refused: dict[str, str]

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


def plan_study(study: StudyConfig, *, out: str | Path, progress: Progress = no_progress) -> StudyPlan:
    """Plan every part as its audit would: images decoded, parts drawn, settings refused, two steps timed.

    Args:
        study: Study that `read_study` returned.
        out: Folder of the study; nothing is written there.
        progress: Function that is called with (stage, done, total).

    Returns:
        Plans of the parts, and the reasons why other parts would be refused.
    """
    begun = {name: (folder, settings) for name, folder, settings in study_parts_in(Path(out), study)}
    parts: dict[str, list[DryRun]] = {}
    refused: dict[str, str] = {}

    def attempt(name: str, plan: Callable[[], list[DryRun]]) -> None:
        """Plan a part, or note why it would be refused."""
        try:
            check_part(name, *begun[name], unfinished=True)
            parts[name] = plan()
        except InputError as error:
            refused[name] = one_line(error, 300)

    for (architecture, dataset), (images, settings) in study.cells.items():
        name = part_name(dataset, architecture)
        attempt(name, lambda i=images, s=settings, n=name: [_plan(i, s, Path(out), named_progress(progress, n))])
    for dataset, (images, settings) in study.defences.items():
        name = part_name(dataset, DEFENCES)
        attempt(
            name,
            lambda i=images, s=settings, n=name: list(
                plan_defences(i, out=out, progress=named_progress(progress, n), **s).values()
            ),
        )
    return StudyPlan(parts, refused)


def _plan(images: str, settings: dict, out: Path, progress: Progress) -> DryRun:
    dry_run = audit_classifier(images, out=out, dry_run=True, progress=progress, **settings)
    assert isinstance(dry_run, DryRun)
    return dry_run
