"""Where looks are logged besides: TensorBoard or MLflow, into a folder, and nowhere else.

Nothing is sent anywhere (`audits.tracker_libraries`); MLflow's store is a folder.
"""

import math
from pathlib import Path
from typing import Any, Protocol

from memorisk.audits.tracker_libraries import mlflow_client, summary_writer
from memorisk.audits.watch.looks import Look
from memorisk.audits.watch.options import WatchOptions
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, write_json

CURVES = (
    "share",
    "share_low",
    "share_high",
    "share_floor",
    "p_value",
    "listed",
    "ahead",
    "train_nearest",
    "held_nearest",
    "fid",
    "fid_same_number",
    "fid_held_out",
    "held_out_loss",
)
"""What is logged of a look; no id of a patient is."""
_MLFLOW_RUN = "mlflow.json"


class Tracker(Protocol):
    """Something that keeps curves."""

    def log(self, look: Look) -> None:
        """Add a look."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


def open_trackers(options: WatchOptions, folder: Path | None) -> list[Tracker]:
    """The trackers that were asked for.

    Args:
        options: With their names and folder.
        folder: Of the watch.

    Raises:
        MissingExtraError: A library is not installed.
        InputError: There is no folder to log to.
    """
    if not options.log:
        return []
    place = options.log_to or (None if folder is None else folder / "tracking")
    if place is None:
        raise InputError("log needs a folder: name it with log_to, or give the watch an out folder")
    kinds = {"tensorboard": TensorBoard, "mlflow": Mlflow}
    return [kinds[name](place / name if len(options.log) > 1 else place) for name in dict.fromkeys(options.log)]


def curves_of(look: Look) -> dict[str, float]:
    """The numbers of a look that there are, by the name of their curve."""
    found = {f"memorization/{name}": float(getattr(look, name)) for name in CURVES}
    return {name: value for name, value in found.items() if math.isfinite(value)}


class TensorBoard:
    """Event files of TensorBoard.

    Args:
        folder: Where they are written.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.writer = summary_writer(folder)

    def log(self, look: Look) -> None:
        """Add a point to every curve."""
        for name, value in curves_of(look).items():
            self.writer.add_scalar(name, value, look.step)
        self.writer.flush()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class Mlflow:
    """A run of MLflow in a store of files.

    Args:
        folder: Where the store is; a watch that goes on continues its run there.

    Raises:
        MissingExtraError: MLflow is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.client: Any = mlflow_client(folder)
        self.run = self._opened(folder / _MLFLOW_RUN)

    def _opened(self, note: Path) -> str:
        """The id of the run of this folder, or of a new one."""
        if note.is_file():
            return str(read_json(note)["run"])
        found = self.client.get_experiment_by_name("memorisk watch")
        experiment = found.experiment_id if found else self.client.create_experiment("memorisk watch")
        run = self.client.create_run(experiment, run_name="memorization").info.run_id
        write_json(note, {"run": run})
        return str(run)

    def log(self, look: Look) -> None:
        """Add a point to every curve."""
        for name, value in curves_of(look).items():
            self.client.log_metric(self.run, name, value, step=look.step)

    def close(self) -> None:
        """Say that the run is over; a watch that goes on adds to it all the same."""
        self.client.set_terminated(self.run)
