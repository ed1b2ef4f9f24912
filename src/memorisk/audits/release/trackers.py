"""Where a finished run is logged: MLflow, TensorBoard, Weights & Biases offline. Each knows a run that it has."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from memorisk.audits.release.records import Record
from memorisk.audits.tracker_libraries import SERVER, mlflow_client, summary_writer, wandb_offline
from memorisk.runs.errors import InputError, MemoriskError, one_line, unknown_name
from memorisk.runs.files import fsync_folder
from memorisk.runs.lock import folder_lock

EXPERIMENT = "memorisk"
TRACKERS = ("mlflow", "tensorboard", "wandb")
_KEY, _WHOLE = "memorisk.run", "memorisk.whole"
_AT_ONCE = 100


class Tracker(Protocol):
    """Something that keeps runs."""

    def log(self, record: Record, report: Path | None) -> bool:
        """Keep a run, with its report where one is given; False where it is there already."""
        ...


def check_place(place: str) -> tuple[str, str]:
    """Kind and place of a tracker.

    Args:
        place: ``mlflow:FOLDER``, ``mlflow:https://HOST``, ``tensorboard:FOLDER`` or ``wandb:FOLDER``.

    Raises:
        InputError: No such kind, or no place for it.
    """
    kind, _, where = place.partition(":")
    if kind not in TRACKERS:
        raise unknown_name("tracker", kind, TRACKERS)
    if not where:
        raise InputError(f"--to {one_line(kind)} names no place: {kind}:FOLDER")
    if "://" in where and (kind != "mlflow" or not SERVER.match(where)):
        only = "is only kept in a folder" if kind != "mlflow" else "takes a folder, http(s):// or sqlite:///"
        raise InputError(f"--to {one_line(place, 120)}: {kind} {only}")
    if "://" not in where and Path(where).exists() and not Path(where).is_dir():
        raise InputError(f"--to {one_line(place, 120)} is a file: name a folder")
    return kind, where


def open_tracker(place: str) -> Tracker:
    """A tracker by its kind and place.

    Args:
        place: As for `check_place`.

    Raises:
        InputError: Likewise.
    """
    kind, where = check_place(place)
    return {"mlflow": Mlflow, "tensorboard": TensorBoard, "wandb": Wandb}[kind](where)


class Mlflow:
    """A store of MLflow: a folder, a database file, or a server that the user names."""

    def __init__(self, place: str) -> None:
        self.place, self.client = place, mlflow_client(place)

    def log(self, record: Record, report: Path | None) -> bool:
        """Keep a run; what a killed command left of it is removed first.

        Raises:
            MemoriskError: The store does not answer, or does not take it.
        """
        from mlflow.exceptions import MlflowException

        try:
            return self._logged(record, report)
        except MlflowException as error:
            raise MemoriskError(
                f"MLflow at {one_line(self.place, 120)} did not take the run ({one_line(error, 120)}); the same "
                "command goes on"
            ) from None

    def _logged(self, record: Record, report: Path | None) -> bool:
        from mlflow.entities import Metric, Param, RunTag

        client = self.client
        found = client.get_experiment_by_name(EXPERIMENT)
        experiment = found.experiment_id if found else client.create_experiment(EXPERIMENT)
        for run in client.search_runs([experiment], f"tags.`{_KEY}` = '{record.sha256}'"):
            if run.data.tags.get(_WHOLE) == "yes":
                return False
            client.delete_run(run.info.run_id)
        tags = {_KEY: record.sha256, "verdict": record.status or "none", "gate": record.gate, "kind": record.kind}
        run = client.create_run(experiment, run_name=record.name, tags=tags).info.run_id
        metrics = [Metric(name, value, 0, 0) for name, value in record.figures.items()]
        params = [Param(name, str(value)) for name, value in record.settings.items()]
        for begin in range(0, max(len(metrics), len(params)), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            client.log_batch(run, metrics=metrics[part], params=params[part])
        if report is not None:
            client.log_artifact(run, str(report))
        client.log_batch(run, tags=[RunTag(_WHOLE, "yes")])
        client.set_terminated(run)
        return True


class TensorBoard:
    """Event files of TensorBoard, a folder a run."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def log(self, record: Record, report: Path | None) -> bool:
        """Keep a run; its folder has its name only when it is whole."""
        with _new_folder(self.folder, record.name) as place:
            if place is None:
                return False
            writer = summary_writer(place)
            for name, value in record.figures.items():
                writer.add_scalar(name, value, 0)
            writer.add_text("verdict", f"{record.kind}: {record.status or 'none'}", 0)
            writer.add_text("settings", "\n\n".join(f"{k}: {v}" for k, v in record.settings.items()), 0)
            writer.close()
            for number, file in enumerate(sorted(place.glob("events.out.tfevents.*"))):
                file.rename(place / f"events.out.tfevents.{number:010}")  # its own name holds that of the host
            if report is not None:
                shutil.copyfile(report, place / report.name)
        return True


class Wandb:
    """Runs of Weights & Biases that stay in a folder; ``wandb sync`` is the user's own act."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def log(self, record: Record, report: Path | None) -> bool:
        """Keep a run; its folder has its name only when it is whole."""
        with _new_folder(self.folder, record.name) as place:
            if place is None:
                return False
            with wandb_offline(place, name=record.name, key=record.sha256[:32], config=record.settings) as run:
                run.log(dict(record.figures))
                run.summary.update({"verdict": record.status or "none", "gate": record.gate, "kind": record.kind})
            if report is not None:
                shutil.copyfile(report, place / report.name)
        return True


@contextmanager
def _new_folder(above: Path, name: str) -> Iterator[Path | None]:
    """A folder that gets its name at the end; None where it has it already."""
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder_lock(above, name=".memorisk.lock", wait=True):
        final, building = above / name, above / f".{name}.building"
        if final.is_dir():
            yield None
            return
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700)
        try:
            yield building
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        building.rename(final)
        fsync_folder(above)
