"""What a study shows at its start: its cells, their work, and which of them cannot run."""

from pathlib import Path

from memorisk.report.blocks import Page
from memorisk.runs.workload import Cost, Opening
from memorisk.studies.engine.runner import named_progress
from memorisk.studies.engine.study import CellsPlan, FinishedStudy, Study, StudyReport, run_study


class Small(Study[FinishedStudy]):
    """A study without tables."""

    def __init__(self, out: Path, plan: CellsPlan) -> None:
        self.out, self.plan, self.clusters = out, plan, []
        self.settings, self.identity = {}, {"study": "small"}

    def cells_plan(self) -> CellsPlan:
        """Return the plan as it was given."""
        return self.plan

    def run(self, run, progress) -> None:
        """Report a stage."""
        progress("measuring", 0, 1)

    def read(self) -> FinishedStudy:
        """Return no tables."""
        return FinishedStudy(tables=[], failed={})

    def report(self, result: FinishedStudy) -> StudyReport:
        """Return an empty page."""
        return StudyReport(page=Page(title="small", lead=[], sections=[]))


def stages(tmp_path: Path, plan: CellsPlan, *, tables_only: bool = False) -> list[str]:
    """The stages that a run reports."""
    reported: list[str] = []
    run_study(Small(tmp_path / "run", plan), lambda stage, *_: reported.append(stage), tables_only=tables_only)
    return reported


def test_a_study_shows_its_cells_and_work_before_the_first_and_not_where_all_are_finished(tmp_path: Path) -> None:
    plan = CellsPlan(n_cells=3, n_finished=1, cost=Cost(trainings=2), problems=("b: too few images",))
    first, *rest = stages(tmp_path, plan)
    assert isinstance(first, Opening)
    assert first.splitlines() == [
        "cells: 3, of which 1 is finished",
        "work: 2 trainings; an estimate of the time appears while it runs",
        "will fail: b: too few images",
    ]
    assert rest[0] == "measuring"
    done = CellsPlan(n_cells=3, n_finished=3, cost=Cost())
    assert not any(isinstance(stage, Opening) for stage in stages(tmp_path, done))
    assert not any(isinstance(stage, Opening) for stage in stages(tmp_path, plan, tables_only=True))


def test_where_only_cells_know_their_work_the_plan_refers_to_them(tmp_path: Path) -> None:
    first = stages(tmp_path, CellsPlan(n_cells=2, n_finished=0, cost=None))[0]
    assert first.splitlines() == ["cells: 2", "work: each cell states its own when it begins"]


def test_the_opening_of_a_part_stays_an_opening_with_its_name() -> None:
    reported: list[str] = []
    named = named_progress(lambda stage, *_: reported.append(stage), "digits")
    named(Opening("models: 2"), 0, 0)
    named("training", 0, 1)
    assert reported == ["digits: models: 2", "digits: training"]
    assert [isinstance(stage, Opening) for stage in reported] == [True, False]
