"""One training of a diffusion transformer (Peebles and Xie 2023; paper 003, section 3.5).

The loss is that of `training.generators.losses`, the optimiser AdamW at a constant rate. The weights that draw are an
exponential moving average (diffusers' EMAModel: decay min(ema, (1 + t) / (10 + t)) at step t). The condition of a row
is dropped at random. Latents are the mean of the posterior, computed once; the reference code draws from the posterior
at every step. Everything random derives from (seed, step), so that a killed training continues to the same bytes.

`DiffusionLoop` holds the live tensors of a training and updates the network; `DiffusionTraining` checks, runs and
saves.
"""

import math
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import quiet_diffusers, whole_autoencoder
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.folder import DiTGenerator, open_dit, save_dit
from memorisk.models.generators.dit.network import DiTSpec, new_dit, spec_of
from memorisk.models.generators.generators import Generator
from memorisk.models.provenance import TrainingRecord
from memorisk.models.settings import GeneratorConfig
from memorisk.runs.environment import check_device
from memorisk.runs.errors import MemoriskError
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import choose_precision, open_accelerator, place, process_rows
from memorisk.training.engine.loop import Checkpoint, TrainingState, load_checkpoint, save_checkpoint
from memorisk.training.generators.batches import ImageView, RowImages, StepPlan, draw_noise, view_images
from memorisk.training.generators.inputs import (
    Conditioning,
    InitialWeights,
    build_conditioning,
    check_rows,
    limit_held_out,
    notes_on_training_rows,
)
from memorisk.training.generators.losses import TIMES, DiffusionLoss, HeldOut, RowConditions, new_scheduler
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.snapshots import (
    OnSnapshot,
    Snapshot,
    TrainingLog,
    evaluation_intervals,
    step_seconds,
    train_with_evaluations,
)

_AT_ONCE = 100  # steps whose batches are requested together, and after which their losses are checked


class ConditionSource(Protocol):
    """Conditions of the rows of a batch."""

    def __call__(self, slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor:
        """Return labels [b] or vectors [b, k] on the device, those in ``drop`` without a condition."""
        ...


class DiffusionLoop:
    """A training between two updates.

    Args:
        network: Network on its device; trained in place.
        accelerator: Accelerator, an `accelerate.Accelerator`.
        images: Images of the training rows.
        conditions: Conditions of the training rows.
        loss: Loss of the training.
        plan: Plan of the images in each step.
        share: Rows of a batch that this process takes.
        options: Settings of the training.
    """

    def __init__(
        self,
        network: Any,
        accelerator: Any,
        images: RowImages,
        conditions: ConditionSource,
        loss: DiffusionLoss,
        plan: StepPlan,
        share: slice,
        options: GeneratorOptions,
    ) -> None:
        with quiet_diffusers():
            from diffusers.training_utils import EMAModel
        self.images, self.told, self.loss, self.plan = images, conditions, loss, plan
        self.accelerator, self.share, self.options = accelerator, share, options
        self.device = next(network.parameters()).device
        self.averaged = deepcopy(network).requires_grad_(False).eval()
        """The network with the averaged weights."""
        self.parameters = list(network.parameters())
        self.ema = EMAModel(self.parameters, decay=options.ema, foreach=True)
        self.ema.shadow_params = list(self.averaged.parameters())
        lr, decay = options.learning_rate, options.weight_decay
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=decay, fused=True)
        self.losses = torch.zeros(options.steps, dtype=torch.float64, device=self.device)
        """Loss of each step so far."""
        self.looks = torch.full((-(-options.steps // options.snapshot_every), 2), torch.nan, dtype=torch.float64)
        """Figures of each look: mean training loss since the one before, and held-out loss."""
        self.step = 0
        """Number of steps done."""
        self.network = accelerator.prepare(network.train())
        self._written = time.monotonic()
        tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        self._state: dict[str, torch.Tensor] = {**tensors, "step_losses": self.losses, "looks": self.looks}

    def until(self, end: int, checkpoint: Checkpoint | None = None) -> Iterator[int]:
        """Train, and yield the number of steps done after each.

        Args:
            end: Number of steps after which it returns.
            checkpoint: File in which the state is kept meanwhile.

        Raises:
            MemoriskError: The loss became NaN or infinite.
        """
        while self.step < end:
            begin, stop = self.step, min(end, self.step + _AT_ONCE)
            slots = [self.plan.slots(step) for step in range(begin, stop)]
            draws = [self.plan.draw(step) for step in range(begin, stop)]
            flips = [draw.flip[self.share] for draw in draws] if self.options.flip else None
            batches = self.images.batches([chosen[self.share] for chosen in slots], flips)
            for x, chosen, draw in zip(batches, slots, draws, strict=True):
                labels = self.told(chosen[self.share], draw.drop[self.share])
                noise = draw_noise(draw.seed, (len(chosen), *x.shape[1:]), self.device)[self.share]
                self._update(x, noise, draw.times[self.share].to(self.device), labels)
                due = checkpoint is not None and time.monotonic() - self._written >= checkpoint.seconds
                if checkpoint is not None and due and self.step < end:  # at the end the caller's look comes first
                    self.check(begin)
                    self.save(checkpoint)
                yield self.step
            self.check(begin)

    def check(self, begin: int) -> None:
        """Refuse losses that are not finite.

        Args:
            begin: First step to check.

        Raises:
            MemoriskError: A loss is not finite.
        """
        recent = self.losses[begin : self.step].cpu().numpy()
        wrong = np.flatnonzero(~np.isfinite(recent))
        if len(wrong):
            lr = self.options.learning_rate
            became = f"the loss became {recent[wrong[0]]} in step {begin + wrong[0] + 1:,}"
            raise MemoriskError(f"{became}: lower the learning rate ({lr:g}), take a warmup, or use fp32")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write the state, by the first process.

        Args:
            checkpoint: File to write.
        """
        if self.accelerator.is_main_process:
            done = TrainingState(self.step, np.zeros((0, 1)))
            save_checkpoint(checkpoint, self._state, self.optimizer, done, self.accelerator.scaler)
        self._written = time.monotonic()

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore a state, bit for bit.

        Args:
            checkpoint: File that `save` wrote.

        Raises:
            InputError: The file cannot be read, or is of another training.
        """
        self.step = load_checkpoint(checkpoint, self._state, self.optimizer, self.accelerator.scaler).epoch
        self.ema.optimization_step = self.step

    def _update(self, x: torch.Tensor, noise: torch.Tensor, times: torch.Tensor, labels: torch.Tensor) -> None:
        """Make one update of the weights and of their average."""
        x_t = self.loss.noised(x, noise, times)
        output = self.network(x_t, timestep=times, class_labels=labels, return_dict=False)[0]
        loss = self.loss(output, x, x_t, noise, times).mean()
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        rate, warmup, scaler = self.options.learning_rate, self.options.warmup, self.accelerator.scaler
        for group in self.optimizer.param_groups:
            group["lr"] = rate * min(1.0, (self.step + 1) / warmup) if warmup else rate
        if scaler is not None:
            scaler.unscale_(self.optimizer)
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.options.clip)
        if scaler is not None:
            scaler.step(self.optimizer)
            scaler.update()
        else:
            self.optimizer.step()
        self.ema.step(self.parameters)
        own_loss = loss.detach()
        self.losses[self.step] = (
            self.accelerator.reduce(own_loss, "mean") if self.accelerator.num_processes > 1 else own_loss
        )
        self.step += 1


_NO_VALIDATION = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class DiffusionTraining:
    """The parts of one training of a diffusion model, checked and on the device."""

    store: ImageStore
    rows: np.ndarray
    validation: np.ndarray
    measured: np.ndarray
    options: GeneratorOptions
    told: Conditioning
    conditions: Conditions | None
    view: ImageView
    spec: DiTSpec
    network: Any
    vae: Any | None
    scheduler: Any
    accelerator: Any
    device: torch.device
    precision: str
    beginning: InitialWeights
    notes: tuple[str, ...]
    key: str

    @classmethod
    def build(
        cls,
        store: ImageStore,
        rows: np.ndarray,
        options: GeneratorOptions,
        *,
        validation: np.ndarray | None = None,
        conditions: Conditions | None = None,
        progress: Progress = no_progress,
    ) -> "DiffusionTraining":
        """Check everything, build the network and put it on the device.

        Args:
            store: The images with their manifest.
            rows: Rows to train on, [n]; an image that repeats is seen so often.
            options: Settings of the training.
            validation: Rows that measure only; of more than 512 a random 512.
            conditions: Conditions of the training images, for a generator that is conditioned on a vector.
            progress: Function called with (stage, done, total).

        Raises:
            InputError: Images, rows, labels, conditions or settings do not fit each other, or weights were trained on
                validation patients.
            MissingExtraError: diffusers or accelerate is not installed.
        """
        rows = np.asarray(rows, dtype=np.int64)
        held_out = np.asarray(_NO_VALIDATION if validation is None else validation, dtype=np.int64)
        check_rows(store, rows, held_out, options)
        measured, limits = limit_held_out(held_out, options.seed)
        conditioning = build_conditioning(store, rows, measured, options, conditions)
        device = check_device(options.device)
        precision = choose_precision(options.precision, device)
        accelerator = open_accelerator(device, precision)
        device = accelerator.device if accelerator.num_processes > 1 else device
        process_rows(options.images_a_step, accelerator.num_processes, 0)
        beginning = InitialWeights.of(options)
        beginning.refuse_known(store, {"validation": held_out})
        view = view_images(store, options.latent, flip=options.flip, device=device, progress=progress)
        network, spec, start = _network(view, conditioning, options)
        place(network, device)
        notes = (*notes_on_training_rows(store, rows), *limits, *(() if view.encoder is None else view.encoder.notes))
        notes += (*beginning.notes, *(() if conditions is None else conditions.notes))
        content = [options.recipe(), start, precision, device.type, accelerator.num_processes, str(torch.__version__)]
        pixels = [store.pixel_hashes[of].tolist() for of in (rows, held_out)]
        encoder = None if view.encoder is None else view.encoder.identity
        condition_content = [conditioning.classes, conditioning.labels, conditioning.vectors, encoder]
        began = [] if beginning.seen is None else [beginning.seen.identity]
        key = fingerprint(content, store.images.shape[1:], pixels, *condition_content, *began, length=32)
        return cls(
            store=store,
            rows=rows,
            validation=held_out,
            measured=measured,
            options=options,
            told=conditioning,
            conditions=conditions,
            view=view,
            spec=spec,
            network=network,
            vae=None if view.encoder is None else whole_autoencoder(options.latent.partition(":")[2]),
            scheduler=new_scheduler(learn_sigma=spec.learn_sigma, schedule=options.noise_schedule),
            accelerator=accelerator,
            device=device,
            precision=precision,
            beginning=beginning,
            notes=notes,
            key=key,
        )

    @property
    def parameters(self) -> int:
        """Count the weights of the network."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def loop(self) -> DiffusionLoop:
        """Loop of the training at its start."""
        options, processes = self.options, self.accelerator
        drop = options.drop_condition if self.told.conditioned_on != "none" else 0.0
        return DiffusionLoop(
            self.network,
            processes,
            self.view.shown(self.rows, self.device),
            RowConditions(self.told, self.spec, self.device),
            DiffusionLoss(self.scheduler, self.device),
            StepPlan(options.seed, len(self.rows), options.images_a_step, drop=drop, times=TIMES),
            process_rows(options.images_a_step, processes.num_processes, processes.process_index),
            options,
        )

    def run(
        self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = no_progress
    ) -> TrainingLog:
        """Train, and leave the averaged weights for `save`.

        Args:
            checkpoint: File of the state from which a killed training continues.
            on_snapshot: Function called every ``snapshot_every`` steps and at the end; a training that was killed
                during a call calls it again.
            progress: Function called with ("training", steps done, steps).

        Raises:
            MemoriskError: The loss became NaN or infinite.
        """
        resume = Checkpoint(checkpoint, self.key, self.options.checkpoint_seconds)
        going = train_with_evaluations(
            self.loop, self.options, resume, lambda begin: self._agreed(self._look(begin, on_snapshot)), progress
        )
        return TrainingLog(self.loop.step, self._history(), stopped=not going)

    def config(self, steps: int) -> GeneratorConfig:
        """Describe the generator after so many steps."""
        _, height, width, channels = (int(n) for n in self.store.images.shape)
        conditioning, encoder = self.told, self.view.encoder
        return GeneratorConfig(
            kind="dit",
            name=f"DiT {self.options.network}",
            size=(height, width),
            channels=channels,
            conditioned_on=conditioning.conditioned_on,
            classes=conditioning.classes,
            class_counts=conditioning.counts,
            condition_dim=0 if conditioning.vectors is None else int(conditioning.vectors.shape[1]),
            conditioning=conditioning.conditioning,
            latent="pixels" if encoder is None else encoder.name,
            steps=steps,
            n_training=len(set(self.store.pixel_hashes[self.rows].tolist())),
            details={"recipe": self.options.recipe()},
        )

    def seen(self) -> TrainingRecord:
        """Return the record of the images that trained it, and of those that measured it."""
        rows, began = {"training": np.unique(self.rows), "validation": self.validation}, self.beginning
        return TrainingRecord.of(self.store, rows, earlier=began.seen, unknown=began.unknown)

    def generator(self) -> Generator:
        """Open the generator with its present averaged weights; it shares them with the training."""
        config, averaged = self.config(self.loop.step), self.loop.averaged
        generator: Any = DiTGenerator(
            averaged, config, self.scheduler, self.vae, self.conditions, self.seen(), self._vae_seen
        )
        return generator

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its present averaged weights.

        Args:
            folder: Folder to write, created if missing; an incomplete one is written again.
            steps: Number of steps done.
        """
        parts = {"scheduler": self.scheduler, "vae": self.vae, "conditions": self.conditions}
        records = {"seen": self.seen(), "vae_seen": self._vae_seen}
        save_dit(self.loop.averaged, folder, self.config(steps), **parts, **records)

    def seconds_a_step(self) -> float:
        """Measure the seconds of the second of two steps; the network is useless afterwards."""
        return step_seconds(self.loop, min(2, self.options.steps), self.loop.losses.cpu)[-1]

    @property
    def _vae_seen(self) -> TrainingRecord | None:
        return None if self.view.encoder is None else self.view.encoder.seen

    @cached_property
    def _held_out(self) -> HeldOut:
        """Validation images with their noise."""
        options, images = self.options, self.view.shown(self.measured, self.device)
        return HeldOut.of(images, self.told, self.spec, drop=options.drop_condition, seed=options.seed)

    def _look(self, begin: int, on_snapshot: OnSnapshot | None) -> bool:
        """Note the losses since a step, call ``on_snapshot``, and return whether to continue; by the first process."""
        loop, options = self.loop, self.options
        if not self.accelerator.is_main_process:
            return True
        loss = float(loop.losses[begin : loop.step].mean())
        held_out = self._held_out.loss(loop.averaged, loop.loss, options.images_a_step)
        noted = [loss, torch.nan if held_out is None else held_out]
        loop.looks[begin // options.snapshot_every] = torch.tensor(noted, dtype=torch.float64)
        if on_snapshot is None:
            return True
        going = on_snapshot(Snapshot(loop.step, options.steps, self.generator(), loss, held_out)) is not False
        loop.averaged.to(self.device)  # the caller may have moved it to another device
        return going

    def _agreed(self, going: bool) -> bool:
        """Broadcast the decision of the first process to all of them."""
        if self.accelerator.num_processes == 1:
            return going
        vote = torch.tensor(float(going and self.accelerator.is_main_process), device=self.device)
        return bool(self.accelerator.reduce(vote, "sum") > 0)

    def _history(self) -> tuple[dict[str, Any], ...]:
        """Return one row per look."""
        loop = self.loop
        looks = zip(evaluation_intervals(loop.step, self.options.snapshot_every), loop.looks.tolist(), strict=False)
        return tuple(
            {"step": end, "loss": loss, "held_out_loss": None if math.isnan(held_out) else held_out}
            for (_, end), (loss, held_out) in looks
        )


def _network(view: ImageView, conditioning: Conditioning, options: GeneratorOptions) -> tuple[Any, DiTSpec, str]:
    """Open the network that is trained, with its specification and the identity of its initial weights."""
    channels, side, _ = view.shape
    conditions = {
        "conditioned_on": conditioning.conditioned_on,
        "classes": len(conditioning.classes),
        "condition_dim": 0 if conditioning.vectors is None else int(conditioning.vectors.shape[1]),
    }
    wanted = options.learn_sigma
    if options.weights is None:
        spec = DiTSpec.named(options.network, side=side, channels=channels, learn_sigma=bool(wanted), **conditions)
        return new_dit(spec, options.seed), spec, "random"
    shape = {"side": side, "channels": channels, "size": options.network, "seed": options.seed}
    network = open_dit(options.weights, **shape, learn_sigma=wanted, **conditions)
    start = [[name, fingerprint(t.numpy())] for name, t in network.state_dict().items()]
    return network, spec_of(network), fingerprint(start, length=32)
