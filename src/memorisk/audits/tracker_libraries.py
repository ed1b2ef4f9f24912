"""MLflow, TensorBoard and Weights & Biases, opened so that nothing is sent anywhere that the user did not name.

Telemetry is switched off before a library is loaded. A store is a folder; MLflow may be a server, where its address is
named; Weights & Biases is only ever opened offline.
"""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.processes import environment_variables

SERVER = re.compile(r"(https?|sqlite)://")
_TELEMETRY_OFF = {
    "WANDB_MODE": "offline",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
    "WANDB_CONSOLE": "off",
}


def mlflow_client(place: str | Path) -> Any:
    """Open a client of an MLflow store.

    Args:
        place: A folder, which is made; or ``http(s)://...`` or ``sqlite:///...``.

    Raises:
        MissingExtraError: MLflow is not installed.
        InputError: It cannot open such a store.
    """
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE"):
        os.environ.setdefault(name, "true")
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise MissingExtraError("mlflow-skinny", "tracking", "logging to MLflow") from None
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its own seven take minutes
    address = str(place)
    if address.startswith("sqlite:") and importlib.util.find_spec("sqlalchemy") is None:
        raise InputError(
            "MLflow keeps a database only where all of it is installed (pip install mlflow): name a folder"
        )
    if not SERVER.match(address):
        folder = Path(place)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = folder.resolve().as_uri()
    try:
        return MlflowClient(tracking_uri=address, registry_uri=address)
    except Exception as error:  # a store whose library is missing, in MLflow's many words
        raise InputError(f"MLflow cannot open {one_line(place, 120)}: {one_line(error, 160)}") from None


def mlflow_experiment(client: Any, name: str) -> str:
    """Return the id of an experiment in an MLflow store; a new name makes a new experiment.

    Args:
        client: Client that `mlflow_client` returns.
        name: Name of the experiment.
    """
    experiment = client.get_experiment_by_name(name)
    return str(experiment.experiment_id if experiment else client.create_experiment(name))


def summary_writer(folder: Path) -> Any:
    """Open a writer of event files of TensorBoard.

    Args:
        folder: Folder for the event files; it is made.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError("tensorboard", "tracking", "logging to TensorBoard") from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SummaryWriter(str(folder))


@contextmanager
def wandb_offline(folder: Path, *, name: str, key: str, config: Mapping[str, Any]) -> Iterator[Any]:
    """Open a run of Weights & Biases that stays in a folder; the user uploads it with ``wandb sync FOLDER``.

    Nothing is recorded of the machine, the user, the program, git or the environment, and nothing outside ``folder`` is
    written.

    Args:
        folder: New folder; it holds ``offline-run-TIME-KEY`` afterwards.
        name: Name of the run.
        key: Id of the run: the same when it is logged once more.
        config: Settings of the run.

    Raises:
        MissingExtraError: The library is not installed.
    """
    own = folder / ".wandb-own"
    environment = _TELEMETRY_OFF | {
        f"WANDB_{what}_DIR": str(own / what.lower()) for what in ("CACHE", "CONFIG", "DATA")
    }
    with environment_variables(environment):
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise MissingExtraError("wandb", "wandb", "logging to Weights & Biases") from None
        for place in ("cache", "config", "data"):
            (own / place).mkdir(mode=0o700, parents=True, exist_ok=True)
        unsaid = dict.fromkeys(("host", "username", "email", "program"), "")
        settings = wandb.Settings(
            mode="offline", console="off", silent=True, save_code=False, disable_code=True, disable_git=True,
            disable_job_creation=True, x_disable_meta=True, x_disable_stats=True, x_disable_machine_info=True,
            x_save_requirements=False, **unsaid,
        )  # fmt: skip
        run = wandb.init(
            project="memorisk", name=name, id=key, dir=str(folder), config=dict(config), settings=settings,
            mode="offline", reinit="create_new",
        )  # fmt: skip
        try:
            yield run
        finally:
            run.finish()
            wandb.teardown()
            _keep_record(folder, own)


def _keep_record(folder: Path, own: Path) -> None:
    """Keep only the record of the run of what the library wrote: logs hold paths of this machine."""
    for run_folder in (folder / "wandb").glob("offline-run-*"):
        target = folder / run_folder.name
        target.mkdir(mode=0o700)
        for record in run_folder.glob("*.wandb"):
            record.replace(target / record.name)
    for rest in (folder / "wandb", own):
        shutil.rmtree(rest, ignore_errors=True)
