"""One training as a job: train on some rows, keep the weights, leave the logits of every image in a file.

The file of logits is written last and marks the job as done; a job whose file is there is not run again. A job that was
killed goes on from its last checkpoint.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from memorisk.models.zoo import create_model, model_spec
from memorisk.runs.errors import InputError, MemoriskError, one_line, unknown_name
from memorisk.runs.files import atomic_path, read_array, write_array
from memorisk.runs.fingerprint import fingerprint
from memorisk.training.fit import fit, rehearse
from memorisk.training.frozen import refuse_augmentation
from memorisk.training.options import TrainOptions
from memorisk.training.pixels import Normalisation
from memorisk.training.predict import predict_batch_size, predict_logits

LOGITS, WEIGHTS, CHECKPOINTS = "logits", "weights", "checkpoints"


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """Everything one training needs; sent to whichever process runs it.

    Attributes:
        out: The run folder.
        images: The store's array, [N, H, W, C].
        rows: Image rows to train on, in slot order.
        targets: [N] or [N, k] targets of all images.
        n_outputs: Number of logits.
        model: Name of the network.
        weights: Pre-trained weights, as ``create_model`` takes them.
        options: The training's settings, with nothing left open.
        normalisation: How pixels are scaled, the same for every model of an audit.
        seed: Of initialisation, order, dropout and augmentation.
        device: Where to train.
        threads: Threads of native code.
        own: The user's training function, ``module:function``.
        own_settings: Settings handed to it.
        val_rows: Images that the user's function may stop or choose on.
        keep_weights: Keep the trained weights in the run folder.
        checkpoint_seconds: Least time between two writes of a training's state.
    """

    out: Path
    images: Path
    rows: np.ndarray
    targets: np.ndarray
    n_outputs: int
    model: str
    weights: str | None
    options: TrainOptions
    normalisation: Normalisation | None
    seed: int
    device: str = "cpu"
    threads: int = 1
    own: str | None = None
    own_settings: dict[str, str] = field(default_factory=dict)
    val_rows: np.ndarray | None = None
    keep_weights: bool = True
    checkpoint_seconds: float = 30.0

    @property
    def key(self) -> str:
        """Names the job's files: the same training, the same name."""
        training = {
            "model": self.model,
            "weights": self.weights,
            "options": asdict(self.options),
            "normalisation": None if self.normalisation is None else asdict(self.normalisation),
            "seed": self.seed,
            "threads": self.threads,
            "own": self.own,
            "own_settings": self.own_settings,
        }
        val = np.empty(0, dtype=np.int64) if self.val_rows is None else self.val_rows
        return f"{self.seed}-{fingerprint(training, self.rows, self.targets, val)}"

    @property
    def logits_file(self) -> Path:
        """Where the logits of all images end up, float32 [N, n_outputs]."""
        return self.out / LOGITS / f"{self.key}.npy"

    @property
    def done(self) -> bool:
        """Whether the job has run."""
        return self.logits_file.is_file()


@dataclass(frozen=True)
class JobLog:
    """What a job reports back.

    Attributes:
        key: The job.
        loss: Mean training loss of the last epoch; None for the user's own training.
        seconds: Wall time of the training; 0 when it was done before.
        resumed_from: Epochs taken from a checkpoint.
    """

    key: str
    loss: float | None
    seconds: float
    resumed_from: int


def run_training(job: TrainJob) -> JobLog:
    """Run one training and leave its logits (and weights) in the run folder.

    Raises:
        InputError: The network or the user's function does not fit the images.
        MemoriskError: The loss became NaN, or the user's function failed.
    """
    if job.done:
        return JobLog(job.key, None, 0.0, 0)
    before = torch.get_num_threads()
    torch.set_num_threads(job.threads)
    try:
        return _own_training(job) if job.own else _training(job)
    finally:
        torch.set_num_threads(before)


def check_job(job: TrainJob) -> None:
    """Refuse, before anything is written, what the training would refuse at its start.

    Raises:
        InputError: The weights do not match the network, the network does not take the images, an augmentation is
            unknown or changes no pixel, or the user's function does not take what it is given.
    """
    images = read_array(job.images, mmap=True)
    if job.own is not None:
        given = {"seed": job.seed, "device": job.device}
        function = load_function(job.own)
        _check_settings(function, dict(job.own_settings), given | dict.fromkeys(_validation_names(function)))
        return
    if model_spec(job.model).frozen_trunk:
        refuse_augmentation(job.options)
    network = build_network(job, images)
    rehearse(network, images, job.targets, job.rows, job.options, device=job.device, normalisation=job.normalisation)


def _training(job: TrainJob) -> JobLog:
    images = read_array(job.images, mmap=True)
    model = build_network(job, images)
    checkpoint = job.out / CHECKPOINTS / f"{job.key}.safetensors"
    log = fit(
        model,
        images,
        job.targets,
        job.rows,
        job.options,
        seed=job.seed,
        device=job.device,
        checkpoint=checkpoint,
        checkpoint_seconds=job.checkpoint_seconds,
        normalisation=job.normalisation,
    )
    logits = predict_logits(model, images, None, job.options, job.device, normalisation=job.normalisation)
    keep_result(job, model, logits)
    checkpoint.unlink(missing_ok=True)
    return JobLog(job.key, log.losses[-1], log.seconds, log.resumed_from)


def build_network(job: TrainJob, images: np.ndarray) -> nn.Module:
    """The job's network before training."""
    return create_model(
        job.model,
        num_classes=job.n_outputs,
        in_chans=images.shape[-1],
        image_size=images.shape[1],
        weights=job.weights,
        seed=job.seed,
    )


def keep_result(job: TrainJob, model: nn.Module | None, logits: np.ndarray) -> None:
    """Write weights, then logits: the logits mark the job as done.

    Raises:
        MemoriskError: Logits that are not finite, or of another shape than the images and classes ask for.
    """
    if logits.shape != (len(job.targets), job.n_outputs):
        raise MemoriskError(
            f"the model gives logits of shape {logits.shape}; {(len(job.targets), job.n_outputs)} are needed"
        )
    if not np.isfinite(logits).all():
        raise MemoriskError("the trained model gives logits that are NaN or infinite: lower the learning rate")
    if job.keep_weights and model is not None:
        tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
        with atomic_path(job.out / WEIGHTS / f"{job.key}.safetensors") as temporary:
            save_file(_unshared(tensors), temporary)
    write_array(job.logits_file, logits.astype(np.float32))


def _unshared(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Safetensors refuses tensors that share memory (tied weights): each name gets its own copy."""
    seen: set[int] = set()
    unshared = {}
    for name, tensor in tensors.items():
        unshared[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return unshared


def load_function(name: str) -> Callable[..., Any]:
    """Import the user's training function, ``module:function``.

    Raises:
        InputError: There is no such module or function.
    """
    module_name, _, function_name = name.partition(":")
    if not function_name or not module_name:
        raise InputError(f"--train {one_line(name, 80)} is not of the form module:function")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"--train {one_line(name, 80)}: {one_line(error)}; start memorisk where the module can be imported, or set "
            "PYTHONPATH"
        ) from None
    except Exception as error:  # the module is the user's: anything may go wrong in it
        raise InputError(
            f"--train {one_line(name, 80)}: importing {one_line(module_name, 80)} failed with "
            f"{type(error).__name__}: {one_line(error)}"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        public = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise unknown_name(f"function in {module_name}", function_name, public)
    return function


def _own_training(job: TrainJob) -> JobLog:
    """Run the user's own function (METHODS section 1; shared slots are impossible, the report says so)."""
    assert job.own is not None
    function = load_function(job.own)
    images = read_array(job.images, mmap=True)
    val = np.empty(0, dtype=np.intp) if job.val_rows is None else job.val_rows
    settings: dict[str, Any] = dict(job.own_settings)
    rows = np.sort(job.rows)
    arguments: dict[str, Any] = {"seed": job.seed, "device": job.device}
    if _wants_dataset(function):
        given: tuple[Any, ...] = (RowDataset(images, job.targets, rows),)
        arguments |= {"val_dataset": RowDataset(images, job.targets, val)}
    else:
        given = (np.ascontiguousarray(images[rows]), job.targets[rows])
        arguments |= {"val_images": np.ascontiguousarray(images[val]), "val_labels": job.targets[val]}
    _check_settings(function, settings, arguments)
    try:
        model = function(*given, **arguments, **settings)
    except InputError:
        raise
    except Exception as error:
        raise MemoriskError(f"{job.own} failed with {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise MemoriskError(
            f"{job.own} returned {type(model).__name__}; it must return a torch.nn.Module giving logits"
        )
    logits = own_logits(model, images, job.device)
    keep_result(job, model, logits)
    return JobLog(job.key, None, 0.0, 0)


def _wants_dataset(function: Callable[..., Any]) -> bool:
    return next(iter(_parameters(function)), "") == "dataset"


def _validation_names(function: Callable[..., Any]) -> tuple[str, ...]:
    return ("val_dataset",) if _wants_dataset(function) else ("val_images", "val_labels")


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of the user's function.

    Raises:
        InputError: It cannot be asked for them, as some functions written in C.
    """
    try:
        return inspect.signature(function).parameters
    except (ValueError, TypeError):
        name = one_line(getattr(function, "__name__", function), 80)
        raise InputError(f"--train: {name} is no Python function with named parameters") from None


def _check_settings(function: Callable[..., Any], settings: dict[str, Any], arguments: dict[str, Any]) -> None:
    parameters = _parameters(function)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in [*arguments, *settings]:
        if name not in parameters:
            raise unknown_name("argument of the training function", name, parameters)


class RowDataset(torch.utils.data.Dataset):
    """Some rows of a store as (uint8 or uint16 tensor [c, h, w], label), for functions that take a ``dataset``."""

    def __init__(self, images: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> None:
        self.images, self.targets, self.rows = images, targets, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        row = self.rows[index]
        return torch.from_numpy(np.ascontiguousarray(self.images[row].transpose(2, 0, 1))), self.targets[row]


def own_logits(model: nn.Module, images: np.ndarray, device: str) -> np.ndarray:
    """Logits of a user's module, asked as ``module(x)`` with x float32 [n, c, h, w] in [0, 1], evaluation mode."""
    top = float(np.iinfo(images.dtype).max)
    size = predict_batch_size(images)
    model.to(device).eval()
    parts = []
    with torch.inference_mode():
        for start in range(0, len(images), size):
            batch = torch.from_numpy(images[start : start + size].astype(np.float32) / top).permute(0, 3, 1, 2)
            parts.append(model(batch.to(device)).float().cpu().numpy())
    return np.concatenate(parts)
