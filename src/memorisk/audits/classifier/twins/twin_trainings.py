"""Run the trainings of an audit of twins, of any kind of model: where they run, and the steps of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memorisk.audits.classifier.options import TwinOptions
from memorisk.runs.environment import available_cores, check_device
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.executors.worker import OnOutcome, Outcome
from memorisk.runs.folder import RunFolder
from memorisk.runs.steps import StepFiles, metered
from memorisk.runs.workload import CountProgress

if TYPE_CHECKING:  # a classifier's audit does without the networks that draw
    from memorisk.training.classifiers.jobs import TrainJob
    from memorisk.training.generators.twins.recipes import TwinJob

Job = TypeVar("Job", "TrainJob", "TwinJob")


def training_device(options: TwinOptions) -> str:
    """Return the device that the options name, or else the one that is available."""
    return str(check_device(options.device))


def training_processes(options: TwinOptions) -> int:
    """Count the trainings that run side by side here: one on a GPU or with a cluster, else one per core."""
    if options.executor != "local" or training_device(options).startswith("cuda"):
        return 1
    most = options.processes or max(1, available_cores() // options.threads)
    return min(most, 2 * len(options.chosen_seeds))


def run_trainings(
    run: RunFolder,
    pairs: Sequence[Sequence[Job]],
    train: Callable[[Job], object],
    options: TwinOptions,
    progress: CountProgress,
    *,
    steps: Callable[[Job], int],
    images: Path,
    trained: Callable[[], None] = lambda: None,
    jointly: Callable[[Sequence[Job], OnOutcome], bool] = lambda jobs, on_done: False,
) -> None:
    """Run what is not done yet: in processes on a CPU, one by one on a GPU, on a cluster on request.

    Args:
        run: Run folder.
        pairs: Trainings of each seed.
        train: Function that runs one training, and returns its log as a dataclass.
        options: Options of the audit.
        progress: Called with the steps that are done and all steps.
        steps: Function that counts the steps of a training.
        images: Folder of the images that the trainings read.
        trained: Called after each training.
        jointly: Function that runs all as one computation and calls its second argument after each; it returns False,
            having done nothing, where they should run one by one.

    Raises:
        InputError: A training was given bad input, or the cluster cannot take the trainings.
        MemoriskError: Some trainings failed; the others are kept.
    """
    every = [job for pair in pairs for job in pair]
    todo = [job for job in every if not job.done]
    before = {job.steps_file for job in every if job.done}
    counts = {job.steps_file: steps(job) for job in every}
    files = StepFiles(counts, progress)
    files.end(*before)
    if not todo:
        return
    first, processes = todo[0], training_processes(options)
    place = options.placement(run.path, images, gpus=int(first.device.startswith("cuda")))
    place = replace(place, files=first.python_path)
    done = sum(counts[file] for file in before)
    raised: list[Exception] = []

    def report(now: int, n: int) -> None:
        """Report steps; an error of the caller's function is not a failure of the training that it counts."""
        try:
            progress(done + now, n + done)
        except Exception as error:
            raised.append(error)
            raise

    def log(outcome: Outcome) -> None:
        """Log a finished training."""
        if raised:
            raise raised[0]
        if outcome.error is None:
            run.log("trained", **asdict(outcome.value))
            trained()

    def count(outcome: Outcome) -> None:
        """Log a finished training of another process and count it."""
        log(outcome)
        files.end(todo[outcome.index].steps_file)

    if not place.remote:
        with metered(report, sum(counts.values()) - done):
            if jointly(todo, log):
                return
            if processes <= 1 or len(todo) <= 1:
                run_jobs(train, todo, threads=first.threads, on_done=log)
                return
    with files.followed():
        run_jobs(train, todo, processes=processes, threads=first.threads, on_done=count, place=place)
