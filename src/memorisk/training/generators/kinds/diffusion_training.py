"""One training of a diffusion transformer (Peebles and Xie 2023; paper 003, section 3.5).

The loss is that of `training.generators.losses`, the optimiser AdamW at a constant rate. The weights that draw are an
exponential moving average (diffusers' EMAModel: decay min(ema, (1 + t) / (10 + t)) at step t). The condition of a row
is dropped at random. Latents are the mean of the posterior, computed once; the reference code draws from the posterior
at every step. Everything random derives from (seed, step), so that a killed training continues to the same bytes.

`DiffusionLoop` holds the live tensors of a training and updates the network; `DiffusionTraining` checks, runs and
saves.
"""

from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import whole_autoencoder
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.folder import DiTGenerator, save_dit
from memorisk.models.generators.dit.network import DiTSpec, new_dit, spec_of
from memorisk.models.generators.dit.weights import open_dit
from memorisk.models.generators.generators import Generator
from memorisk.models.hub import quiet
from memorisk.models.provenance import TrainingRecord
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.engine.devices import open_accelerator, place, process_rows
from memorisk.training.engine.loop import Checkpoint
from memorisk.training.generators.batches import ImageView, RowImages, StepPlan, draw_noise, view_images
from memorisk.training.generators.inputs import (
    Conditioning,
    InitialWeights,
    build_conditioning,
    limit_held_out,
    notes_on_training_rows,
)
from memorisk.training.generators.losses import TIMES, DiffusionLoss, HeldOut, RowConditions, new_scheduler
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.snapshots import GeneratorLoop, GeneratorTraining, OnSnapshot


class ConditionSource(Protocol):
    """Conditions of the rows of a batch."""

    def __call__(self, slots: torch.Tensor, drop: torch.Tensor) -> torch.Tensor | None:
        """Return labels [b] or vectors [b, k] on the device, those in ``drop`` without a condition.

        None is for a network that takes no condition at all.
        """
        ...


class DiffusionLoop(GeneratorLoop):
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
        with quiet("diffusers"):
            from diffusers.training_utils import EMAModel
        super().__init__()
        self.images, self.conditions, self.loss, self.plan = images, conditions, loss, plan
        self.accelerator, self.share, self.options = accelerator, share, options
        self.device = next(network.parameters()).device
        self.averaged = deepcopy(network).requires_grad_(False).eval()
        """The network with the averaged weights."""
        self.parameters = list(network.parameters())
        self.ema = EMAModel(self.parameters, decay=options.ema, foreach=True)
        self.ema.shadow_params = list(self.averaged.parameters())
        lr, decay = options.learning_rate, options.weight_decay
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=decay, fused=True)
        self.losses = torch.zeros((options.steps, 1), dtype=torch.float64, device=self.device)
        self.looks = torch.full((-(-options.steps // options.snapshot_every), 2), torch.nan, dtype=torch.float64)
        """Figures of each look: mean training loss since the one before, and held-out loss."""
        self.network = accelerator.prepare(network.train())
        self.scaler, self.writes = accelerator.scaler, accelerator.is_main_process
        tensors = {f"network.{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"averaged.{name}": value for name, value in self.averaged.state_dict().items()}
        self.state = {**tensors, "step_losses": self.losses, "looks": self.looks}

    @property
    def remedy(self) -> str:
        """Advice against losses that are not finite."""
        return f"lower the learning rate ({self.options.learning_rate:g}), take a warmup"

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore a state, bit for bit; arguments and errors as for `GeneratorLoop`."""
        super().load(checkpoint)
        self.ema.optimization_step = self.step

    def inputs(self, steps: range) -> Iterator[tuple[Any, ...]]:
        """Yield images, noise, times and conditions of each step, of this process's share of the batch."""
        slots, draws = [self.plan.slots(step) for step in steps], [self.plan.draw(step) for step in steps]
        flips = [draw.flip[self.share] for draw in draws] if self.options.flip else None
        batches = self.images.batches([chosen[self.share] for chosen in slots], flips)
        for x, chosen, draw in zip(batches, slots, draws, strict=True):
            labels = self.conditions(chosen[self.share], draw.drop[self.share])
            noise = draw_noise(draw.seed, (len(chosen), *x.shape[1:]), self.device)[self.share]
            yield x, noise, draw.times[self.share].to(self.device), labels

    def _update(self, inputs: tuple[Any, ...]) -> None:
        """Make one update of the weights and of their average."""
        x, noise, times, labels = inputs
        x_t = self.loss.noised(x, noise, times)
        output = self.network(x_t, timestep=times, class_labels=labels, return_dict=False)[0]
        loss = self.loss(output, x, x_t, noise, times).mean()
        self.optimizer.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        rate, warmup = self.options.learning_rate, self.options.warmup
        for group in self.optimizer.param_groups:
            group["lr"] = rate * min(1.0, (self.step + 1) / warmup) if warmup else rate
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.options.clip)
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.ema.step(self.parameters)
        own_loss = loss.detach()
        several = self.accelerator.num_processes > 1
        self.losses[self.step] = self.accelerator.reduce(own_loss, "mean") if several else own_loss


class DiffusionTraining(GeneratorTraining[DiffusionLoop]):
    """A training of a diffusion model, checked and on its device.

    Args:
        store: The images with their manifest.
        rows: Rows to train on, [n]; an image that repeats is seen so often.
        options: Settings of the training.
        validation: Rows that measure only; of more than 512 a random 512.
        conditions: Conditions of the training images, for a generator that is conditioned on a vector.
        slots: Number of places in a pass over the images, where a twin has more of them.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: Images, rows, labels, conditions or settings do not fit each other, or weights were trained on
            validation patients.
        MissingExtraError: diffusers or accelerate is not installed.
    """

    def __init__(
        self,
        store: ImageStore,
        rows: np.ndarray,
        options: GeneratorOptions,
        *,
        validation: np.ndarray | None = None,
        conditions: Conditions | None = None,
        slots: int = 0,
        progress: Progress = no_progress,
    ) -> None:
        super().__init__(store, rows, options, validation)
        self.conditions, self.slots = conditions, max(slots, len(self.rows))
        self.measured, limits = limit_held_out(self.validation, options.seed)
        self.told = build_conditioning(store, self.rows, self.measured, options, conditions)
        self.accelerator = open_accelerator(self.device, self.precision)
        processes = self.accelerator.num_processes
        self.device = self.accelerator.device if processes > 1 else self.device
        process_rows(options.images_a_step, processes, 0)
        self.beginning = InitialWeights.of(options)
        self.beginning.refuse_known(store, {"validation": self.validation})
        view = view_images(store, options.latent, flip=options.flip, device=self.device, progress=progress)
        self.view, encoder = view, view.encoder
        self.network, self.spec, start = _network(view, self.told, options)
        place(self.network, self.device)
        self.vae = None if encoder is None else whole_autoencoder(options.latent.partition(":")[2])
        self.scheduler = new_scheduler(learn_sigma=self.spec.learn_sigma, schedule=options.noise_schedule)
        notes = (*notes_on_training_rows(store, self.rows), *limits, *(() if encoder is None else encoder.notes))
        self.notes = (*notes, *self.beginning.notes, *(() if conditions is None else conditions.notes))
        content = [options.recipe(), start, self.precision, self.device.type, processes, str(torch.__version__)]
        pixels = [store.pixel_hashes[of].tolist() for of in (self.rows, self.validation)]
        identity = None if encoder is None else encoder.identity
        condition_content = [self.told.classes, self.told.labels, self.told.vectors, identity]
        began = [] if self.beginning.seen is None else [self.beginning.seen.identity]
        began += [self.slots] if self.slots > len(self.rows) else []
        self.key = fingerprint(content, store.images.shape[1:], pixels, *condition_content, *began, length=32)

    @property
    def saved_networks(self) -> tuple[Any, ...]:
        """Return the network that draws, and the autoencoder that is saved with it."""
        return (self.network,) if self.vae is None else (self.network, self.vae)

    def begin(self) -> DiffusionLoop:
        """Open the loop of the training at its start."""
        options, processes = self.options, self.accelerator
        drop = options.drop_condition if self.told.conditioned_on != "none" else 0.0
        return DiffusionLoop(
            self.network,
            processes,
            self.view.shown(self.rows, self.device),
            RowConditions(self.told, self.spec, self.device),
            DiffusionLoss(self.scheduler, self.device),
            StepPlan(options.seed, len(self.rows), options.images_a_step, drop=drop, times=TIMES, slots=self.slots),
            process_rows(options.images_a_step, processes.num_processes, processes.process_index),
            options,
        )

    @property
    def described(self) -> dict[str, Any]:
        """Return what the configuration says of this kind."""
        conditioning, encoder = self.told, self.view.encoder
        return {
            "kind": "dit",
            "name": f"DiT {self.options.network}",
            "conditioned_on": conditioning.conditioned_on,
            "classes": conditioning.classes,
            "class_counts": conditioning.counts,
            "condition_dim": 0 if conditioning.vectors is None else int(conditioning.vectors.shape[1]),
            "conditioning": conditioning.conditioning,
            "latent": "pixels" if encoder is None else encoder.name,
        }

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
        """Write the generator with its present averaged weights; arguments as for `GeneratorTraining`."""
        parts = {"scheduler": self.scheduler, "vae": self.vae, "conditions": self.conditions}
        records = {"seen": self.seen(), "vae_seen": self._vae_seen}
        save_dit(self.loop.averaged, folder, self.config(steps), **parts, **records)

    @property
    def _vae_seen(self) -> TrainingRecord | None:
        return None if self.view.encoder is None else self.view.encoder.seen

    @cached_property
    def _held_out(self) -> HeldOut:
        """Validation images with their noise."""
        options, images = self.options, self.view.shown(self.measured, self.device)
        return HeldOut.of(images, self.told, self.spec, drop=options.drop_condition, seed=options.seed)

    def look(self, begin: int, on_snapshot: OnSnapshot | None) -> bool:
        """Look by the first process, whose decision all of them follow."""
        processes = self.accelerator
        going = processes.is_main_process and super().look(begin, on_snapshot)
        if processes.num_processes == 1:
            return going
        vote = torch.tensor(float(going), device=self.device)
        return bool(processes.reduce(vote, "sum") > 0)

    def held_out_loss(self, begin: int, loss: float) -> float | None:
        """Compute the loss of the averaged weights on the validation images, and note both losses."""
        loop, options = self.loop, self.options
        held_out = self._held_out.loss(loop.averaged, loop.loss, options.images_a_step)
        noted = [loss, torch.nan if held_out is None else held_out]
        loop.looks[begin // options.snapshot_every] = torch.tensor(noted, dtype=torch.float64)
        return held_out

    def figures(self, begin: int, end: int) -> dict[str, float]:
        """Return the losses that the look after these steps noted."""
        loss, held_out = self.loop.looks[begin // self.options.snapshot_every].tolist()
        return {"loss": loss, "held_out_loss": held_out}


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
