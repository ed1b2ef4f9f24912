"""One training as a job: train on some rows, keep the weights, leave the logits of every image in a file.

The file of logits is written last and marks the job as done; a job whose file exists is not run again. A job that was
killed continues from its last checkpoint.
"""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.models.network_parts import head_module
from memorisk.models.weight_files import save_weights
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.errors import MemoriskError, UserCodeError
from memorisk.runs.files import fingerprint, put_in_order, read_array, write_array
from memorisk.runs.steps import written_steps
from memorisk.runs.user_code.functions import load_named, source_fingerprint
from memorisk.training.classifiers.fit import FitLog, check_fit, fit
from memorisk.training.classifiers.linear_heads import new_head, refuse_augmentation
from memorisk.training.classifiers.private import fit_private, privacy_of, refuse_private
from memorisk.training.classifiers.regimes import Note, merge_adapters, prepare_regime
from memorisk.training.classifiers.user_training import (
    CALL_FORM,
    CLASSES,
    function_arguments,
    user_model_logits,
)
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.engine.loop import OnEpoch
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import predict_augmented, predict_logits
from memorisk.training.engine.user_training import (
    count_training,
    guarded,
    load_function,
    names_parameter,
)

LOGITS, WEIGHTS, CHECKPOINTS = "logits", "weights", "checkpoints"


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """Settings and data of one training; the process that runs it receives this alone.

    Attributes:
        out: The run folder.
        images: File of the store's array, [N, H, W, C].
        rows: Rows of the images to train on, in slot order.
        slots: Number of places in an epoch, where these are more than rows.
        targets: Targets of all images, [N] or [N, k].
        n_outputs: Number of logits.
        model: Name of the network.
        weights: Pre-trained weights, as ``create_model`` takes them.
        options: Settings of the training, with nothing left open.
        normalisation: Scaling of the pixels, the same for every model of an audit.
        seed: Random seed of initialisation, order, dropout and augmentation.
        device: Device to train on.
        threads: Number of threads of native code.
        own: The user's training function, ``module:function``.
        own_settings: Settings passed to that function.
        python_path: Folders in which the user's module is looked for, after everything installed.
        own_source: Fingerprint of the file that holds the function; a model trained by an older text is trained again.
        val_rows: Rows of images that the user's function may stop or choose on.
        keep_weights: Whether the trained weights are kept in the run folder.
        checkpoint_seconds: Least time between two writes of a training's state.
        secret_noise: Seed of a private training's noise, where no other person may be able to draw it again.
        score_augmentations: Number of passes over augmented images whose logits are kept in addition to the plain pass.
        kept_order: Order in which the logits of images lie in their files, [N]; by default that of the images.
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
    python_path: tuple[Path, ...] = ()
    own_source: str = ""
    val_rows: np.ndarray | None = None
    keep_weights: bool = True
    checkpoint_seconds: float = 30.0
    secret_noise: int | None = None
    score_augmentations: int = 0
    slots: int | None = None
    kept_order: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Read the user's function once, where the job is made; its text is part of the job's name."""
        if self.own and not self.own_source:
            source = source_fingerprint(load_named(self.own, "--train", self.python_path))
            object.__setattr__(self, "own_source", source)

    @property
    def key(self) -> str:
        """Name of the job's files: the same training has the same name."""
        training = {
            "model": self.model,
            "weights": self.weights,
            "options": asdict(self.options),
            "normalisation": None if self.normalisation is None else asdict(self.normalisation),
            "seed": self.seed,
            "threads": self.threads,
            "own": self.own,
            "own_settings": self.own_settings,
            "own_source": self.own_source,
        }
        if self.n_slots > len(self.rows):
            training["slots"] = self.n_slots
        val = np.empty(0, dtype=np.int64) if self.val_rows is None else self.val_rows
        order = [] if self.kept_order is None else [self.kept_order]
        return f"{self.seed}-{fingerprint(training, self.rows, self.targets, val, *order)}"

    @property
    def n_slots(self) -> int:
        """Number of places in an epoch."""
        return max(self.slots or 0, len(self.rows))

    @property
    def noise_seed(self) -> int:
        """Derive the seed of a private training's noise: twins have other rows, and so other noise."""
        return int(fingerprint("noise", self.key), 16) if self.secret_noise is None else self.secret_noise

    @property
    def logits_file(self) -> Path:
        """Return the file of the logits of all images, float32 [N, n_outputs], in the order in which they are kept."""
        return self.out / LOGITS / f"{self.key}.npy"

    @property
    def augmented_file(self) -> Path:
        """Return the file of the logits of augmented passes, float32 [score_augmentations, N, n_outputs], as kept."""
        return self.out / LOGITS / f"{self.key}-augmented-{self.score_augmentations}.npy"

    @property
    def weights_file(self) -> Path:
        """Return the file of the trained weights."""
        return self.out / WEIGHTS / f"{self.key}.safetensors"

    @property
    def steps_file(self) -> Path:
        """Return the file in which a job in another process notes its steps."""
        return self.out / CHECKPOINTS / f"{self.key}.steps"

    @property
    def done(self) -> bool:
        """Return whether the job has run, and its files are as it wrote them."""
        files = [self.logits_file, *([self.augmented_file] if self.score_augmentations else [])]
        files += [self.weights_file] if self.weights_file.is_file() else []
        return all(is_intact(file) for file in files)


@dataclass(frozen=True)
class JobLog:
    """Log of a job.

    Attributes:
        key: Name of the job's files.
        loss: Mean training loss of the last epoch; None for the user's own training.
        seconds: Wall time of the training; 0 when it was done before.
        resumed_from: Number of epochs taken from a checkpoint.
        privacy: Noise, clipping and sampling of a private training.
        notes: Sentences on the changes that the regime made to the network.
    """

    key: str
    loss: float | None
    seconds: float
    resumed_from: int
    privacy: dict[str, float] | None = None
    notes: tuple[str, ...] = ()


def run_training(job: TrainJob) -> JobLog:
    """Run one training and leave its logits (and weights) in the run folder.

    Raises:
        InputError: The network or the user's function does not fit the images.
        UserCodeError: The user's function failed.
        MemoriskError: The loss became NaN.
    """
    if job.done:
        return JobLog(job.key, None, 0.0, 0)
    if job.device == "cpu":
        keep_freed_memory()
    with limited_threads(job.threads), written_steps(job.steps_file):
        return _run_user_training(job) if job.own else _build_training(job)


def warm_up(number: int) -> None:
    """Load the kernels of a step and allocate its memory, once in a process.

    Args:
        number: Number of the worker; any.
    """
    torch.set_num_threads(1)
    keep_freed_memory()
    images = np.zeros((64, 8, 8, 1), dtype=np.uint8)
    model = create_model("small_cnn", num_classes=2, in_chans=1, image_size=8, seed=number)
    options = resolve_options(TrainOptions(epochs=2), model_spec("small_cnn"))
    fit(model, images, np.arange(64) % 2, np.arange(64), options, seed=number)
    predict_logits(model, images, None, options, "cpu")


def check_job(job: TrainJob) -> None:
    """Refuse, before anything is written, jobs that the training would refuse at its start.

    Raises:
        InputError: The weights do not match the network, the network does not take the images, an augmentation is
            unknown or changes no pixel, or the user's function does not accept its arguments.
    """
    images = read_array(job.images, mmap=True)
    if job.own is not None:
        load_function(job.own, CALL_FORM, job.own_settings, job.python_path, job.own_source)
        return
    if model_spec(job.model).frozen_trunk and job.options.one_regime == "full":
        refuse_augmentation(job.options)
    network = build_network(job, images)
    if job.options.private:
        refuse_private(network, job.n_slots, job.options)
    check_fit(network, images, job.targets, job.rows, job.options, device=job.device, normalisation=job.normalisation)


def _build_training(job: TrainJob) -> JobLog:
    images = read_array(job.images, mmap=True)
    notes: list[str] = []
    model = build_network(job, images, on_note=notes.append)
    checkpoint = job.out / CHECKPOINTS / f"{job.key}.safetensors"
    log = train_network(job, model, images, noise_seed=job.noise_seed, checkpoint=checkpoint)
    merge_adapters(model)
    logits = predict_logits(model, images, None, job.options, job.device, normalisation=job.normalisation)
    if job.score_augmentations:
        augmented = put_in_order(augmented_logits(job, model, images), job.kept_order, axis=1)
        write_array(job.augmented_file, augmented, recorded=True)
    save_result(job, model, logits)
    remove_recorded(checkpoint)
    privacy = asdict(privacy_of(job.n_slots, job.options)) if job.options.private else None
    return JobLog(job.key, log.losses[-1], log.seconds, log.resumed_from, privacy, tuple(notes))


def train_network(
    job: TrainJob,
    model: nn.Module,
    images: np.ndarray,
    *,
    noise_seed: int,
    checkpoint: Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> FitLog:
    """Train the job's network in place, privately where its regime says so.

    Args:
        job: The training.
        model: Network from `build_network`.
        images: Array of the store, [N, H, W, C].
        noise_seed: Random seed of a private training's noise.
        checkpoint: File in which the state is kept.
        on_epoch: Function called after each epoch, as for `fit`.
    """
    arguments: dict[str, Any] = {
        "seed": job.seed,
        "slots": job.n_slots,
        "device": job.device,
        "checkpoint": checkpoint,
        "checkpoint_seconds": job.checkpoint_seconds,
        "on_epoch": on_epoch,
        "normalisation": job.normalisation,
    }
    if job.options.private:
        return fit_private(model, images, job.targets, job.rows, job.options, noise_seed=noise_seed, **arguments)
    return fit(model, images, job.targets, job.rows, job.options, **arguments)


def _run_user_training(job: TrainJob) -> JobLog:
    """Run the user's own function (METHODS section 1; shared slots are impossible, the report says so)."""
    assert job.own is not None
    begun = time.perf_counter()
    function = load_function(job.own, CALL_FORM, job.own_settings, job.python_path, job.own_source)
    images = read_array(job.images, mmap=True)
    val = np.empty(0, dtype=np.intp) if job.val_rows is None else job.val_rows
    with guarded(job.own):
        with seeded(job.seed):  # a function that seeds nothing still makes twins that start alike
            positional, named = function_arguments(function, images, job.targets, np.sort(job.rows), val)
            if names_parameter(function, CLASSES):
                named[CLASSES] = job.n_outputs
            model = function(*positional, **named, seed=job.seed, device=job.device, **job.own_settings)
            if not isinstance(model, nn.Module):
                raise UserCodeError(
                    f"{job.own} returned {type(model).__name__}; it must return a torch.nn.Module giving logits"
                )
            logits = user_model_logits(model, images, job.device)
        _refuse_logits(job, logits)
    save_result(job, model, logits)
    count_training()
    return JobLog(job.key, None, time.perf_counter() - begun, 0)


def augmented_logits(job: TrainJob, model: nn.Module, images: np.ndarray) -> np.ndarray:
    """Compute the logits of the job's augmented passes, float32 [score_augmentations, N, n_outputs].

    Args:
        job: Job of the training, with the number of passes.
        model: The trained network.
        images: Array of the store, [N, H, W, C].
    """
    return predict_augmented(
        model, images, job.options, job.device, passes=job.score_augmentations, normalisation=job.normalisation
    )


def build_network(job: TrainJob, images: np.ndarray, on_note: Note | None = None) -> nn.Module:
    """Build the job's network before training, prepared by its regime; a frozen trunk gets `fit_heads`' head."""
    model = create_model(
        job.model,
        num_classes=job.n_outputs,
        in_chans=images.shape[-1],
        image_size=images.shape[1],
        weights=job.weights,
        seed=job.seed,
    )
    if model_spec(job.model).frozen_trunk:
        head = head_module(model)
        head.load_state_dict(new_head(head.in_features, job.n_outputs, job.seed).state_dict())
    pretrained = job.weights not in (None, "none")
    prepare_regime(model, job.options, seed=job.seed, pretrained=pretrained, on_note=on_note)
    return model


def save_result(job: TrainJob, model: nn.Module | None, logits: np.ndarray) -> None:
    """Write weights, then logits: the logits mark the job as done.

    Raises:
        MemoriskError: Logits are not finite, or of another shape than images and classes require.
    """
    _refuse_logits(job, logits)
    if job.keep_weights and model is not None:
        save_weights(job.weights_file, model)
    write_array(job.logits_file, put_in_order(logits.astype(np.float32), job.kept_order, axis=0), recorded=True)


def _refuse_logits(job: TrainJob, logits: np.ndarray) -> None:
    """Refuse logits that are not finite, or of another shape.

    Raises:
        MemoriskError: The logits are not finite, or of another shape.
    """
    if logits.shape != (len(job.targets), job.n_outputs):
        raise MemoriskError(
            f"the model gives logits of shape {logits.shape}; {(len(job.targets), job.n_outputs)} are needed"
        )
    if not np.isfinite(logits).all():
        raise MemoriskError("the trained model gives logits that are NaN or infinite: lower the learning rate")
