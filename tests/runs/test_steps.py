"""How far trainings are: counted in this process, in a real pool of processes, and on a real cluster."""

from pathlib import Path

import pytest

from memorisk.runs.executors.placement import Placement
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.steps import StepCount, StepFiles, metered, open_meter, written_steps
from tests.runs.clusters import dask_cluster
from tests.runs.step_jobs import IMAGES, LOSS, STEPS, half_until_seen


class Reports:
    """What was reported; a file is made once all jobs are seen half-way."""

    def __init__(self, seen: Path, half: int) -> None:
        self.all: list[tuple[int, int, float | None, int]] = []
        self.seen, self.half = seen, half

    def __call__(self, done: int, total: int) -> None:
        assert isinstance(done, StepCount)
        self.all.append((int(done), done.images, done.loss, total))
        if int(done) >= self.half:
            self.seen.touch()


def run_half_way(folder: Path, **how: object) -> list[tuple[int, int, float | None, int]]:
    """Two jobs, of which each waits for the other to be seen; everything that was reported."""
    files = [folder / "a.steps", folder / "b.steps"]
    reports = Reports(folder / "seen", 2 * STEPS)
    counted = StepFiles(dict.fromkeys([*files, folder / "done-before"], STEPS), reports)
    counted.end(folder / "done-before")
    with counted.followed():
        jobs = [(str(file), str(reports.seen)) for file in files]
        run_jobs(half_until_seen, jobs, on_done=lambda outcome: counted.end(files[outcome.index]), **how)  # type: ignore[arg-type]
    assert not list(folder.glob("*.steps")) + list(folder.glob(".*"))  # nothing is left behind
    return reports.all


def check(reported: list[tuple[int, int, float | None, int]]) -> None:
    """One job was done before; two go from none to half to all."""
    assert reported[0] == (STEPS, 0, None, 3 * STEPS)
    assert (2 * STEPS, 2 * IMAGES, LOSS, 3 * STEPS) in reported  # both half-way
    assert reported[-1][0] == reported[-1][3] == 3 * STEPS
    done = [one[0] for one in reported]
    assert done == sorted(done)


def test_processes_beside_this_one_are_followed_by_step(tmp_path: Path) -> None:
    check(run_half_way(tmp_path, processes=2))


@pytest.mark.thorough
def test_machines_of_a_cluster_are_followed_by_step(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with dask_cluster(2, "--nthreads", "1") as cluster:
        check(run_half_way(tmp_path, place=Placement("dask", cluster.address, folders=(tmp_path,))))


def test_a_meter_counts_trainings_one_after_another(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "seen", 99)
    assert open_meter() is None
    with metered(reports, total=8) as meter:
        for first in (0, 1):  # the second goes on from a checkpoint
            with written_steps(tmp_path / "a.steps"):  # a meter is open: no file is written
                assert open_meter() is meter
                meter.begin(first, 4)
                meter.step(2, 5, lambda: 0.5)
                meter.end()
    assert not list(tmp_path.glob("*.steps"))
    assert [one[0] for one in reports.all] == sorted(one[0] for one in reports.all)
    assert reports.all[-1][:2] == (8, 10)
    assert open_meter() is None


def test_a_sum_keeps_what_is_known() -> None:
    count = 3 + StepCount(4, images=10, loss=0.5) + 1
    assert (count, count.images, count.loss) == (8, 10, 0.5)
