"""One training of a diffusion transformer (Peebles and Xie 2023; paper 003, section 3.5).

The loss is that of `training.generators.diffusion.loss`, the optimiser AdamW at a constant rate, the weights that draw
are an exponential moving average (diffusers' EMAModel: decay min(ema, (1 + t) / (10 + t)) at step t). Conditions are
dropped once a row, by a draw of ours. Latents are the mean of the posterior, computed once; the reference code draws
from the posterior at every step. Everything random derives from (seed, step), so that a killed training goes on to the
same bytes.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.autoencoders import whole_autoencoder
from memorisk.models.autoencoders.latents_seen import TrainedOn
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.dit.dit import DiTGenerator, DiTSpec, new_dit, open_dit, save_dit, spec_of
from memorisk.models.generators.generators import Generator, GeneratorConfig
from memorisk.runs.devices import check_device
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.engine.checkpoint import Checkpoint
from memorisk.training.engine.devices import choose_precision, place
from memorisk.training.generators.diffusion.conditions import RowConditions
from memorisk.training.generators.diffusion.held_out import HeldOut
from memorisk.training.generators.diffusion.images import ImageView, view_images
from memorisk.training.generators.diffusion.loop import DiffusionLoop
from memorisk.training.generators.diffusion.loss import TIMES, DiffusionLoss, new_scheduler
from memorisk.training.generators.diffusion.steps import StepPlan
from memorisk.training.generators.evaluations import step_seconds, stretches, train_by_looks
from memorisk.training.generators.initial_weights import Beginning
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.processes import open_accelerator, share_of
from memorisk.training.generators.rows import Told, check_rows, chosen_held_out, notes_on, told_of
from memorisk.training.generators.snapshots import OnSnapshot, Snapshot, TrainingLog

_NO_VALIDATION = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class DiffusionTraining:
    """The parts of one training, checked and on the device."""

    store: ImageStore
    rows: np.ndarray
    validation: np.ndarray
    measured: np.ndarray
    options: GeneratorOptions
    told: Told
    conditions: Conditions | None
    view: ImageView
    spec: DiTSpec
    network: Any
    vae: Any | None
    scheduler: Any
    accelerator: Any
    device: torch.device
    precision: str
    beginning: Beginning
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
        progress: Progress = quiet,
    ) -> "DiffusionTraining":
        """Check everything, build the network and put it on the device.

        Args:
            store: The images.
            rows: To train on, [n]; an image that repeats is seen so often.
            options: How.
            validation: Rows that measure only; of more than 512 a random 512.
            conditions: Of the training images, for a generator that is conditioned on a vector.
            progress: Called with (stage, done, total).

        Raises:
            InputError: Images, rows, labels, conditions or settings do not fit each other, or weights were trained on
                validation patients.
            MissingExtraError: diffusers or accelerate is not there.
        """
        rows = np.asarray(rows, dtype=np.int64)
        held_out = np.asarray(_NO_VALIDATION if validation is None else validation, dtype=np.int64)
        check_rows(store, rows, held_out, options)
        measured, said = chosen_held_out(held_out, options.seed)
        told = told_of(store, rows, measured, options, conditions)
        device = check_device(options.device)
        precision = choose_precision(options.precision, device)
        accelerator = open_accelerator(device, precision)
        device = accelerator.device if accelerator.num_processes > 1 else device
        share_of(options.images_a_step, accelerator.num_processes, 0)
        beginning = Beginning.of(options)
        beginning.refuse_known(store, {"validation": held_out})
        view = view_images(store, options.latent, flip=options.flip, device=device, progress=progress)
        network, spec, start = _network(view, told, options)
        place(network, device)
        notes = (*notes_on(store, rows), *said, *(() if view.encoder is None else view.encoder.notes))
        notes += (*beginning.notes, *(() if conditions is None else conditions.notes))
        content = [options.recipe(), start, precision, device.type, accelerator.num_processes, str(torch.__version__)]
        pixels = [store.pixel_hashes[of].tolist() for of in (rows, held_out)]
        encoder = None if view.encoder is None else view.encoder.identity
        told_content = [told.classes, told.labels, told.vectors, encoder]
        began = [] if beginning.seen is None else [beginning.seen.identity]
        key = fingerprint(content, store.images.shape[1:], pixels, *told_content, *began, length=32)
        return cls(
            store=store,
            rows=rows,
            validation=held_out,
            measured=measured,
            options=options,
            told=told,
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
        """Of the network."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @cached_property
    def loop(self) -> DiffusionLoop:
        """The training at its start."""
        options, processes = self.options, self.accelerator
        drop = options.drop_condition if self.told.conditioned_on != "none" else 0.0
        return DiffusionLoop(
            self.network,
            processes,
            self.view.shown(self.rows, self.device),
            RowConditions(self.told, self.spec, self.device),
            DiffusionLoss(self.scheduler, self.device),
            StepPlan(options.seed, len(self.rows), options.images_a_step, drop=drop, times=TIMES),
            share_of(options.images_a_step, processes.num_processes, processes.process_index),
            options,
        )

    def run(self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = quiet) -> TrainingLog:
        """Train, and leave the averaged weights for `save`.

        Args:
            checkpoint: File of the state from which a killed training goes on.
            on_snapshot: Called every ``snapshot_every`` steps and at the end; a training that was killed during a call
                calls it again.
            progress: Called with ("training", steps done, steps).

        Raises:
            MemoriskError: The loss became NaN or infinite.
        """
        kept = Checkpoint(checkpoint, self.key, self.options.checkpoint_seconds)
        going = train_by_looks(
            self.loop, self.options, kept, lambda begin: self._agreed(self._look(begin, on_snapshot)), progress
        )
        return TrainingLog(self.loop.step, self._history(), stopped=not going)

    def config(self, steps: int) -> GeneratorConfig:
        """What the generator's description says after so many steps."""
        _, height, width, channels = (int(n) for n in self.store.images.shape)
        told, encoder = self.told, self.view.encoder
        return GeneratorConfig(
            kind="dit",
            name=f"DiT {self.options.network}",
            size=(height, width),
            channels=channels,
            conditioned_on=told.conditioned_on,
            classes=told.classes,
            class_counts=told.counts,
            condition_dim=0 if told.vectors is None else int(told.vectors.shape[1]),
            conditioning=told.conditioning,
            latent="pixels" if encoder is None else encoder.name,
            steps=steps,
            n_training=len(set(self.store.pixel_hashes[self.rows].tolist())),
            details={"recipe": self.options.recipe()},
        )

    def seen(self) -> TrainedOn:
        """The images that it was trained on, and those that measured it."""
        rows, began = {"training": np.unique(self.rows), "validation": self.validation}, self.beginning
        return TrainedOn.of(self.store, rows, earlier=began.seen, unknown=began.unknown)

    def generator(self) -> Generator:
        """With the averaged weights as they are now; it shares them with the training."""
        config, averaged = self.config(self.loop.step), self.loop.averaged
        found: Any = DiTGenerator(
            averaged, config, self.scheduler, self.vae, self.conditions, self.seen(), self._vae_seen
        )
        return found

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its averaged weights as they are now.

        Args:
            folder: Made if it is not there; one that was begun is written again.
            steps: Done.
        """
        parts = {"scheduler": self.scheduler, "vae": self.vae, "conditions": self.conditions}
        seen = {"seen": self.seen(), "vae_seen": self._vae_seen}
        save_dit(self.loop.averaged, folder, self.config(steps), **parts, **seen)

    def seconds_a_step(self) -> float:
        """From the second of two steps; the network is not of use afterwards."""
        return step_seconds(self.loop, min(2, self.options.steps), self.loop.losses.cpu)[-1]

    @property
    def _vae_seen(self) -> TrainedOn | None:
        return None if self.view.encoder is None else self.view.encoder.seen

    @cached_property
    def _held_out(self) -> HeldOut:
        """The validation images with their noise."""
        options, images = self.options, self.view.shown(self.measured, self.device)
        return HeldOut.of(images, self.told, self.spec, drop=options.drop_condition, seed=options.seed)

    def _look(self, begin: int, on_snapshot: OnSnapshot | None) -> bool:
        """Note the losses since a step, call the caller, and say whether to go on; by the first process."""
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
        loop.averaged.to(self.device)  # who drew may have taken it elsewhere
        return going

    def _agreed(self, going: bool) -> bool:
        """What the first process says, to all of them."""
        if self.accelerator.num_processes == 1:
            return going
        said = torch.tensor(float(going and self.accelerator.is_main_process), device=self.device)
        return bool(self.accelerator.reduce(said, "sum") > 0)

    def _history(self) -> tuple[dict[str, Any], ...]:
        """A row a look."""
        loop = self.loop
        looks = zip(stretches(loop.step, self.options.snapshot_every), loop.looks.tolist(), strict=False)
        return tuple(
            {"step": end, "loss": loss, "held_out_loss": None if math.isnan(held_out) else held_out}
            for (_, end), (loss, held_out) in looks
        )


def _network(view: ImageView, told: Told, options: GeneratorOptions) -> tuple[Any, DiTSpec, str]:
    """What is trained, what it is, and what identifies what it starts from."""
    channels, side, _ = view.shape
    told_of_it = {
        "conditioned_on": told.conditioned_on,
        "classes": len(told.classes),
        "condition_dim": 0 if told.vectors is None else int(told.vectors.shape[1]),
    }
    wanted = options.learn_sigma
    if options.weights is None:
        spec = DiTSpec.named(options.network, side=side, channels=channels, learn_sigma=bool(wanted), **told_of_it)
        return new_dit(spec, options.seed), spec, "random"
    shape = {"side": side, "channels": channels, "size": options.network, "seed": options.seed}
    network = open_dit(options.weights, **shape, learn_sigma=wanted, **told_of_it)
    start = [[name, fingerprint(t.numpy())] for name, t in network.state_dict().items()]
    return network, spec_of(network), fingerprint(start, length=32)
