"""One training of the study: a network, an image with the mark or none, and all queries of the model.

A job leaves one file of arrays (`studies.engine.cells`) and is done when that file is there; a killed job resumes from
its checkpoint. On a GPU, trainings run at the same time: one stack for many, each stopped early by its own validation
loss. A network with running statistics, dropout or augmentation is trained alone, as on a CPU.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.images.alterations.marks import Mark, burn_stored
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.checksums import is_intact, refuse_damaged, remove_recorded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import fingerprint, read_array
from memorisk.scores.influence import self_influence
from memorisk.scores.memorization import cross_entropy
from memorisk.studies.engine.cells import Arrays, write_result
from memorisk.studies.unique_features.measures import measure, normalised_mark_check
from memorisk.training.classifiers.early_stopping import fit_early, fit_early_stacked
from memorisk.training.classifiers.mark_variants import mark_variants
from memorisk.training.classifiers.stacked import stacking_obstacle
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.engine.loop import EarlyStoppingLog
from memorisk.training.engine.optimization import learning_rate
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation
from memorisk.training.engine.predict import predict_logits

RESULTS, STATES, CHECKPOINTS, WEIGHTS = "results", "states", "checkpoints", "weights"
N_CHECKPOINTS, SHARE_OF_REDUCTION = 10, 0.95
"""Settings of TracInCP: ten checkpoints over the epochs that cover 95 % of the loss reduction (paper 002, A.5)."""
PROFILE_CONTROLS = 19
"""Number of controls of the mark that serve to compute M after every epoch."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryJob:
    """Settings and data of one training; any process can run it.

    Attributes:
        out: Folder of the study.
        images: File of the store's images, [N, H, W, C].
        probes: File of the probes' images.
        labels: Class number of each image, [N].
        n_classes: Number of classes.
        rows: Rows of the images to train on, in slot order.
        validation: Rows of the images that decide when the training stops.
        network: Full name of the network, regularisers included.
        options: Settings of the training.
        patience: Number of epochs without a lower validation loss after which the training stops early.
        normalisation: Scaling of the pixels.
        seed: Random seed of initialisation, order, dropout and augmentation.
        mark: Mark that is burnt into an image.
        controls: Controls of the mark.
        redraws: Number of redraws of the random patches.
        draw_seed: Random seed of the random patches: the same for every model.
        canary: Slot of the image that carries the mark; None for a model without it.
        burnt: Control that the canary carries in the mark's place, for models that saw another mark; None for the mark.
        profile: Whether M is computed after every epoch.
        latent: Whether the excitation of the latents before the last layer is measured.
        influence: "" for none, "all" for the self-influence of every training image, "canary" for the canary's alone.
        device: Device that trains.
        threads: Number of threads of native code.
        keep_weights: Whether the model is kept.
        data: Hashes of images and probes, so that another data set is another job.
    """

    out: Path
    images: Path
    probes: Path
    labels: np.ndarray
    n_classes: int
    rows: np.ndarray
    validation: np.ndarray
    network: str
    options: TrainOptions
    patience: int
    normalisation: Normalisation
    seed: int
    mark: Mark
    controls: list[Mark]
    redraws: int
    draw_seed: int
    canary: int | None = None
    burnt: Mark | None = None
    profile: bool = False
    latent: bool = False
    influence: str = ""
    device: str = "cpu"
    threads: int = 1
    keep_weights: bool = False
    data: tuple[str, str] = ("", "")
    _key: list[str] = field(default_factory=list, repr=False)

    @property
    def key(self) -> str:
        """Return the name of the job's files: the same training and the same queries give the same name."""
        if not self._key:
            settings = {
                "network": self.network, "options": asdict(self.options), "patience": self.patience, "seed": self.seed,
                "normalisation": asdict(self.normalisation), "canary": self.canary, "redraws": self.redraws,
                "draw_seed": self.draw_seed, "profile": self.profile, "latent": self.latent, "threads": self.threads,
                "influence": self.influence, "data": self.data, "place": [m.place for m in (self.mark, *self.controls)],
            }  # fmt: skip
            marks = [self.mark, *self.controls, *([] if self.burnt is None else [self.burnt])]
            drawn = [array for mark in marks for array in (mark.values, mark.alpha)]
            self._key.append(fingerprint(settings, self.rows, self.validation, self.labels, *drawn))
        return self._key[0]

    @property
    def carried(self) -> Mark:
        """Return the mark or control that the canary carries."""
        return self.mark if self.burnt is None else self.burnt

    @property
    def result_file(self) -> Path:
        """Return the file of the answers."""
        return self.out / RESULTS / f"{self.key}.npz"

    @property
    def done(self) -> bool:
        """Return whether the job has run."""
        return is_intact(self.result_file)

    @property
    def states(self) -> Path:
        """Return the folder of the weights after each epoch, which exists while the training lasts."""
        return self.out / STATES / self.key

    @property
    def checkpoint(self) -> Path:
        """Return the file of the training's state, which exists while the training lasts."""
        return self.out / CHECKPOINTS / f"{self.key}.safetensors"

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the images as the model is trained on them, and those without the mark."""
        clean = read_array(self.images, mmap=True)
        if self.canary is None:
            return clean, clean
        images = np.array(clean)
        row = self.rows[self.canary]
        images[row] = burn_stored(images[row : row + 1], self.carried)[0]
        return images, clean

    def model(self) -> nn.Module:
        """Build the network before training."""
        images = read_array(self.images, mmap=True)
        sized = {"num_classes": self.n_classes, "in_chans": images.shape[3], "image_size": images.shape[1]}
        return create_model(self.network, **sized, seed=self.seed)


def run_canary(job: CanaryJob) -> str:
    """Train, query the model, and leave its answers in the study's folder; return the job's key.

    Raises:
        InputError: The network does not fit the images.
        MemoriskError: The loss became NaN.
    """
    if job.done:
        return job.key
    if job.device == "cpu":
        keep_freed_memory()
    with limited_threads(job.threads):
        images, clean = job.pixels()
        normalised_mark_check(job, images)
        model = job.model()
        initial = initial_loss(job, model, images) if job.influence else float("nan")
        log = fit_early(
            model, images, job.labels, job.rows, job.validation, job.options, seed=job.seed, patience=job.patience,
            device=job.device, normalisation=job.normalisation, checkpoint=job.checkpoint,
            on_epoch=weight_keeper(job),
        )  # fmt: skip
        write_answers(job, model, log, images, clean, initial)
    return job.key


def weight_keeper(job: CanaryJob) -> Callable[[int, nn.Module], None] | None:
    """Return a function that keeps the weights of each epoch, for the self-influence and for M by epoch; else None."""
    if not (job.influence or job.profile):
        return None

    def keep(epoch: int, model: nn.Module) -> None:
        """Save the weights of this epoch."""
        job.states.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_weights(_state_file(job, epoch), model)

    return keep


def write_answers(
    job: CanaryJob, model: nn.Module, log: EarlyStoppingLog, images: np.ndarray, clean: np.ndarray, initial: float
) -> None:
    """Query a trained model and write its answers.

    Args:
        job: Job of the training.
        model: Trained model with the weights of the best epoch.
        log: Log of the training.
        images: Pixels of the images as the model was trained on them.
        clean: Pixels of the images without the mark.
        initial: Loss before the first step; NaN where nothing needs it.
    """
    logits = predict_logits(model, images, job.validation, job.options, job.device, normalisation=job.normalisation)
    arrays: Arrays = {
        "best_epoch": np.array(log.best_epoch),
        "losses": np.array(log.losses),
        "validation": np.array(log.validation),
        "accuracy": np.array(np.mean(logits.argmax(1) == job.labels[job.validation])),
    }
    arrays |= measure(job, model, clean)
    if job.profile:
        arrays |= _profile(job, len(log.losses))
    if job.influence:
        arrays |= _influence(job, log, images, initial)
    if job.canary is not None:
        arrays |= _variants(job, log, clean, images)
    if job.keep_weights:
        (job.out / WEIGHTS).mkdir(mode=0o700, exist_ok=True)
        save_weights(job.out / WEIGHTS / f"{job.key}.safetensors", model)
    write_result(job.result_file, arrays)
    remove_recorded(job.checkpoint)
    shutil.rmtree(job.states, ignore_errors=True)


def initial_loss(job: CanaryJob, model: nn.Module, images: np.ndarray) -> float:
    """Compute the mean training loss before the first step."""
    logits = predict_logits(model, images, job.rows, job.options, job.device, normalisation=job.normalisation)
    return float(cross_entropy(logits, job.labels[job.rows]).mean())


def influence_epochs(initial: float, losses: np.ndarray) -> np.ndarray:
    """Return the epochs (1, 2, ...) of TracInCP's checkpoints.

    They are evenly spaced over the epochs that cover 95 % of the loss reduction.

    Args:
        initial: Mean loss before the first step.
        losses: Mean loss of each epoch.
    """
    reduction = initial - losses.min()
    reached = np.flatnonzero(initial - losses >= SHARE_OF_REDUCTION * reduction)
    last = int(reached[0]) + 1 if len(reached) else len(losses)
    return np.unique(np.rint(np.linspace(1, last, N_CHECKPOINTS)).astype(int))


def _influence(job: CanaryJob, log: EarlyStoppingLog, images: np.ndarray, initial: float) -> Arrays:
    """Compute TracInCP of every training image, or of the canary."""
    epochs = influence_epochs(initial, np.array(log.losses))
    assert job.options.lr is not None
    assert job.options.epochs is not None
    rates = [learning_rate(job.options.schedule, job.options.lr, int(e) - 1, job.options.epochs) for e in epochs]
    rows = job.rows if job.influence == "all" else job.rows[[job.canary or 0]]
    mean, std = (torch.tensor(v)[:, None, None] for v in (job.normalisation.mean, job.normalisation.std))
    influence = self_influence(
        job.model(),
        images[rows],
        job.labels[rows],
        [_state_file(job, int(e)) for e in epochs],
        rates,
        prepare=lambda x: (x - mean.to(x)) / std.to(x),
        batch_size=256,
        device=job.device,
    )
    return {"influence": influence.values, "influence_epochs": epochs}


def _profile(job: CanaryJob, epochs: int) -> Arrays:
    """Compute M after every epoch, in both forms."""
    from safetensors.torch import load_file

    controls = job.controls[:PROFILE_CONTROLS]
    model, few = job.model(), replace(job, controls=controls, redraws=1, latent=False, profile=False)
    rows: list[Mapping[str, np.ndarray]] = []
    for epoch in range(1, epochs + 1):
        refuse_damaged(_state_file(job, epoch))
        model.load_state_dict(load_file(_state_file(job, epoch)))
        rows.append(measure(few, model.to(job.device).eval(), None))
    return {
        "profile_m": np.array([row["mean_mark"] - row["mean_random"][0] for row in rows]),
        "profile_t": np.array([row["statistic"] - row["controls"].mean() for row in rows]),
    }


def _variants(job: CanaryJob, log: EarlyStoppingLog, clean: np.ndarray, images: np.ndarray) -> Arrays:
    """Record the forms that augmentation gave the mark, epoch by epoch up to the one whose weights were taken."""
    assert job.canary is not None
    row = job.rows[job.canary]
    variants = mark_variants(
        clean, job.rows, job.canary, images[row], job.options, seed=job.seed, epochs=log.best_epoch,
        normalisation=job.normalisation, place=job.carried.corner(*images.shape[1:3]), shape=job.carried.shape,
    )  # fmt: skip
    return {
        "variant_same": variants.same, "variant_kept": variants.kept, "variant_rows": variants.row_shift,
        "variant_columns": variants.column_shift, "variant_mirrored": variants.mirrored,
    }  # fmt: skip


def _state_file(job: CanaryJob, epoch: int) -> Path:
    return job.states / f"{epoch:04d}.safetensors"


STACK = 32
"""Largest number of networks in a stack."""


def run_on_gpu(jobs: Sequence[CanaryJob], on_done: Callable[[CanaryJob, MemoriskError | None], None]) -> None:
    """Run jobs; those of one network and data set run together where that is possible.

    Args:
        jobs: Jobs that are not done yet.
        on_done: Function that is called with each job as it ends, and with its error; the other jobs continue.
    """
    for group in stacks(jobs, STACK):
        if len(group) > 1:
            try:
                run_together(group)
            except MemoriskError:  # one network failed: each runs by itself, so that the others are not lost
                pass
            else:
                for job in group:
                    on_done(job, None)
                continue
        for job in group:
            try:
                run_canary(job)
            except MemoriskError as error:  # InputError is one
                on_done(job, error)
            else:
                on_done(job, None)


def stacks(jobs: Sequence[CanaryJob], most: int = STACK) -> list[list[CanaryJob]]:
    """Group jobs that can be trained as one, in the order of the first of each group; other jobs are alone.

    Args:
        jobs: Jobs to group.
        most: Largest number of networks in a stack.
    """
    by_key: dict[str, list[list[CanaryJob]]] = {}
    order: list[list[CanaryJob]] = []
    able: dict[str, bool] = {}
    for job in jobs:
        key = repr((job.network, asdict(job.options), job.data, job.images, len(job.rows), job.patience, job.device))
        if key not in able:
            able[key] = not stacking_obstacle(job.model(), job.options)
        open_ones = by_key.setdefault(key, [])
        if able[key] and open_ones and len(open_ones[-1]) < most:
            open_ones[-1].append(job)
            continue
        open_ones.append([job])
        order.append(open_ones[-1])
    return order


def run_together(jobs: Sequence[CanaryJob]) -> None:
    """Train a stack and leave the answers of each.

    Raises:
        InputError: The jobs do not belong together.
        MemoriskError: A loss became NaN.
    """
    first = jobs[0]
    if any(not np.array_equal(job.rows, first.rows) or job.images != first.images for job in jobs):
        raise InputError("a stack trains on one data set and its rows")
    clean = read_array(first.images, mmap=True)
    images, labels, rows = with_canaries(jobs, clean)
    models, initial = [job.model() for job in jobs], []
    for job, model in zip(jobs, models, strict=True):
        own = job.pixels()[0]
        normalised_mark_check(job, own)
        initial.append(initial_loss(job, model, own) if job.influence else float("nan"))
    keep = [weight_keeper(job) for job in jobs]

    def on_epoch(epoch: int, going: Mapping[int, nn.Module]) -> None:
        """Pass the models that still train to the function of each."""
        for place, model in going.items():
            each = keep[place]
            if each is not None:
                each(epoch, model)

    logs = fit_early_stacked(
        models, images, labels, rows, first.validation, first.options, seeds=[job.seed for job in jobs],
        patience=first.patience, device=first.device, normalisation=first.normalisation,
        on_epoch=on_epoch if any(keep) else None,
    )  # fmt: skip
    for job, model, log, begun in zip(jobs, models, logs, initial, strict=True):
        write_answers(job, model.to(job.device), log, job.pixels()[0], clean, begun)


def with_canaries(jobs: Sequence[CanaryJob], clean: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return images followed by each job's marked image, their labels, and each job's rows.

    Args:
        jobs: Jobs of one data set.
        clean: Pixels of the images without marks, [N, H, W, C].

    Returns:
        Pixels [N + canaries, H, W, C], labels [N + canaries] and a row index for each job.
    """
    extra, labels, rows = [], [], []
    for job in jobs:
        own = job.rows.copy()
        if job.canary is not None:
            row = own[job.canary]
            extra.append(burn_stored(clean[row : row + 1], job.carried))
            labels.append(job.labels[row])
            own[job.canary] = len(clean) + len(extra) - 1
        rows.append(own)
    images = np.concatenate([clean, *extra]) if extra else np.asarray(clean)
    return images, np.concatenate([jobs[0].labels, np.array(labels, dtype=np.int64)]), rows
