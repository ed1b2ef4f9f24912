"""The log of all evaluations of a training, and the trackers that show them.

``looks.parquet`` holds one row per evaluation and is a table that a killed training finds again. ``watch.jsonl``
holds the same as lines for programs that follow it, ``listed.parquet`` the patients that each evaluation listed. The
first is written last: its rows are complete.

Trackers are TensorBoard or MLflow, which log into a folder and nowhere else. Nothing is sent anywhere
(`audits.tracker_libraries`); MLflow's store is a folder.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from memorisk.audits.tracker_libraries import mlflow_client, mlflow_experiment, summary_writer
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.result import Evaluation, evaluation_table
from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.files import json_value, read_json, read_table, write_json, write_table, write_text

EVALUATIONS_FILE, LINES_FILE, LISTED_FILE = "looks.parquet", "watch.jsonl", "listed.parquet"
LISTED_COLUMNS = ("step", "patient", "image", "drawn", "distance", "p_value")


def read_evaluations(table: pd.DataFrame) -> list[Evaluation]:
    """Read looks from their table.

    Args:
        table: One row per look.

    Raises:
        KeyError: A column is missing.
    """
    columns = [table[f.name].tolist() for f in fields(Evaluation)]
    return [Evaluation(*row) for row in zip(*columns, strict=True)]


class EvaluationLog:
    """All looks at one training.

    Args:
        folder: Folder that they are written to; None for no files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.looks: list[Evaluation] = []
        self.listed = pd.DataFrame({name: [] for name in LISTED_COLUMNS}, dtype=object)
        self.read()

    def __iter__(self) -> Iterator[Evaluation]:
        """Iterate over the looks by step."""
        return iter(self.looks)

    def __len__(self) -> int:
        return len(self.looks)

    def read(self) -> None:
        """Read the log of the folder, where another process may have looked meanwhile.

        Raises:
            InputError: It cannot be read.
        """
        if self.folder is None or not (self.folder / EVALUATIONS_FILE).is_file():
            return
        try:
            refuse_damaged(self.folder / LINES_FILE)
            self.looks = read_evaluations(read_table(self.folder / EVALUATIONS_FILE))
            listed = read_table(self.folder / LISTED_FILE).reindex(columns=list(LISTED_COLUMNS))
        except CONTENT_ERRORS as error:
            raise InputError(
                f"the looks in {one_line(self.folder)} cannot be read ({one_line(error, 100)}): delete that folder, or "
                "choose another"
            ) from None
        of_a_look = np.isin(listed["step"].to_numpy(), [look.step for look in self.looks])
        self.listed = listed.iloc[np.flatnonzero(of_a_look)].reset_index(drop=True)

    def look_at(self, step: int, weights: str) -> Evaluation | None:
        """Return the look at these weights after so many steps; None without such a look."""
        return next((look for look in self.looks if (look.step, look.weights) == (step, weights)), None)

    def next_number(self) -> int:
        """Number the next look; looks that another training overtook spent their error, too, and count."""
        return 1 + max((look.number for look in self.looks), default=0)

    def before(self, step: int) -> list[Evaluation]:
        """Return the looks before a step."""
        return [look for look in self.looks if look.step < step]

    def add(self, look: Evaluation, listed: pd.DataFrame) -> None:
        """Write a look; those at the same or a later step, of weights that are no longer, leave the book.

        Args:
            look: The look.
            listed: Patients that it listed, with `LISTED_COLUMNS`.
        """
        self.looks = [*self.before(look.step), look]
        earlier = self.listed.iloc[np.flatnonzero(self.listed["step"] < look.step)]
        self.listed = pd.concat([earlier, listed], ignore_index=True) if len(earlier) else listed.reset_index(drop=True)
        self._write()

    def note_losses(self, losses: Mapping[int, float]) -> None:
        """Fill in held-out losses that were not known at the time of the looks.

        Args:
            losses: Held-out losses by step.
        """
        missing = [look for look in self.looks if math.isnan(look.held_out_loss) and look.step in losses]
        if missing:
            with_loss = {look.step: replace(look, held_out_loss=losses[look.step]) for look in missing}
            self.looks = [with_loss.get(look.step, look) for look in self.looks]
            self._write()

    def table(self) -> pd.DataFrame:
        """Return a table with a row for each look."""
        return evaluation_table(self.looks)

    def lines(self) -> list[dict[str, Any]]:
        """Return the looks as JSON has them, each with its listed patients."""
        return [
            json_value(asdict(look) | {"patients": self.listed["patient"][self.listed["step"] == look.step].tolist()})
            for look in self.looks
        ]

    def _write(self) -> None:
        """Write all files, that of the looks last."""
        if self.folder is None:
            return
        write_table(self.folder / LISTED_FILE, self.listed, recorded=True)
        write_text(self.folder / LINES_FILE, "".join(json.dumps(line) + "\n" for line in self.lines()), recorded=True)
        write_table(self.folder / EVALUATIONS_FILE, self.table(), recorded=True)


CURVES = (
    "same_pixels",
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
    "loss_auc",
    "loss_auc_low",
    "loss_auc_high",
)
"""Numbers of a look that are logged; ids of patients are not."""
_MLFLOW_RUN = "mlflow.json"


class Tracker(Protocol):
    """Something that keeps curves. A finished run needs none: a function of `audits.release.tracking` logs it."""

    def log(self, look: Evaluation) -> None:
        """Add a look."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


def open_trackers(options: WatchOptions, folder: Path | None) -> list[Tracker]:
    """Open the requested trackers.

    Args:
        options: Settings with their names and folder.
        folder: Folder of the watch.

    Raises:
        MissingExtraError: A library is not installed.
        InputError: No folder to log to is named.
    """
    if not options.log:
        return []
    place = options.log_to or (None if folder is None else folder / "tracking")
    if place is None:
        raise InputError("log needs a folder: name it with log_to, or give the watch an out folder")
    kinds = {"tensorboard": TensorBoard, "mlflow": Mlflow}
    return [kinds[name](place / name if len(options.log) > 1 else place) for name in dict.fromkeys(options.log)]


def curves_of(look: Evaluation) -> dict[str, float]:
    """Return the numbers of a look, without missing ones, by the name of their curve."""
    curves = {f"memorization/{name}": float(getattr(look, name)) for name in CURVES}
    return {name: value for name, value in curves.items() if math.isfinite(value)}


class TensorBoard:
    """Event files of TensorBoard.

    Args:
        folder: Folder that they are written to.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.writer = summary_writer(folder)

    def log(self, look: Evaluation) -> None:
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
        folder: Folder of the store; a resumed watch continues its run there.

    Raises:
        MissingExtraError: MLflow is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.client: Any = mlflow_client(folder)
        self.run = self._opened(folder / _MLFLOW_RUN)

    def _opened(self, note: Path) -> str:
        """Return the id of the run of this folder, or of a new one."""
        if note.is_file():
            return str(read_json(note)["run"])
        experiment = mlflow_experiment(self.client, "memorisk watch")
        run = self.client.create_run(experiment, run_name="memorization").info.run_id
        write_json(note, {"run": run})
        return str(run)

    def log(self, look: Evaluation) -> None:
        """Add a point to every curve."""
        for name, value in curves_of(look).items():
            self.client.log_metric(self.run, name, value, step=look.step)

    def close(self) -> None:
        """Mark the run as finished; a resumed watch adds to it all the same."""
        self.client.set_terminated(self.run)
