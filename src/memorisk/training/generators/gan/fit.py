"""One training of an unconditional GAN of the StyleGAN2 kind with adaptive augmentation.

Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN" (networks, losses, lazy regularisation) and
"Training generative adversarial networks with limited data" (augmentation); written from the papers. Everything random
derives from (seed, step), so that a killed training goes on to the same bytes on a CPU.
"""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.latents_seen import TrainedOn
from memorisk.models.generators.generators import GeneratorConfig
from memorisk.models.generators.stylegan2.networks import Discriminator, GeneratorNetwork
from memorisk.models.generators.stylegan2.spec import GanSpec
from memorisk.models.generators.stylegan2.stylegan2 import GanGenerator, gan_config, new_gan, save_gan
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.engine.checkpoint import Checkpoint
from memorisk.training.engine.devices import choose_precision, place
from memorisk.training.generators.diffusion.images import view_images
from memorisk.training.generators.evaluations import step_seconds, stretches, train_by_looks
from memorisk.training.generators.gan.loop import RECORDS, GanLoop
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.rows import check_rows, notes_on
from memorisk.training.generators.snapshots import OnSnapshot, Snapshot, TrainingLog

_CODE = 1  # part of every key: a change of what a training computes makes another


@dataclass(frozen=True, eq=False)
class GanTraining:
    """The parts of one training, checked and on the device."""

    store: ImageStore
    rows: np.ndarray
    options: GeneratorOptions
    spec: GanSpec
    networks: tuple[GeneratorNetwork, Discriminator]
    device: torch.device
    precision: str
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
    ) -> "GanTraining":
        """Check everything, build both networks and put them on the device.

        Args:
            store: The images.
            rows: To train on, [n]; an image that repeats is seen so often.
            options: How.
            validation: Rows of other images; a GAN has no held-out loss and leaves them alone.

        Raises:
            InputError: Images, rows or settings do not fit each other.
        """
        rows = np.asarray(rows, dtype=np.int64)
        held_out = np.asarray([] if validation is None else validation, dtype=np.int64)
        check_rows(store, rows, held_out, options)
        _, height, width, channels = (int(n) for n in store.images.shape)
        if height != width:
            raise InputError(f"images are stored at {height} x {width} pixels; a GAN takes squares: name a size, as 64")
        spec = options.gan_spec(height, channels)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("a GAN is trained by one process: start the command without accelerate launch or torchrun")
        device = check_device(options.device)
        precision = choose_precision(options.precision, device)
        networks = new_gan(spec, options.seed)
        for network in networks:
            place(network.train(), device)
        content = [_CODE, options.recipe(), precision, device.type, str(torch.__version__), store.images.shape[1:]]
        key = fingerprint(content, store.pixel_hashes[rows].tolist(), length=32)
        return cls(store, rows, options, spec, networks, device, precision, notes_on(store, rows), key)

    @property
    def parameters(self) -> int:
        """Of the generator."""
        return sum(parameter.numel() for parameter in self.networks[0].parameters())

    @cached_property
    def loop(self) -> GanLoop:
        """The training at its start."""
        view = view_images(self.store, "pixels", flip=self.options.flip, device=self.device)
        shown = view.shown(self.rows, self.device)
        return GanLoop(self.networks, shown, len(self.rows), self.options, self.precision)

    def run(self, checkpoint: Path, on_snapshot: OnSnapshot | None = None, progress: Progress = quiet) -> TrainingLog:
        """Train, and leave the averaged generator for `save`.

        Args:
            checkpoint: File of the state from which a killed training goes on.
            on_snapshot: Called every ``snapshot_every`` steps and at the end; a training that was killed during a call
                calls it again.
            progress: Called with ("training", steps done, steps).

        Raises:
            MemoriskError: A loss became NaN or infinite.
        """
        kept = Checkpoint(checkpoint, self.key, self.options.checkpoint_seconds)
        going = train_by_looks(self.loop, self.options, kept, lambda begin: self._look(begin, on_snapshot), progress)
        return TrainingLog(self.loop.step, self._history(), stopped=not going)

    def generator(self) -> GanGenerator:
        """With the averaged weights as they are now; it shares them with the training."""
        return GanGenerator(self.config(self.loop.step), self.loop.averaged, self.seen())

    def config(self, steps: int) -> GeneratorConfig:
        """What the generator's description says after so many steps."""
        config = GeneratorConfig(
            kind="gan",
            name="GAN of the StyleGAN2 kind",
            size=(self.spec.size, self.spec.size),
            channels=self.spec.channels,
            steps=steps,
            n_training=len(set(self.store.pixel_hashes[self.rows].tolist())),
            details={"recipe": self.options.recipe()},
        )
        return gan_config(config, self.spec, truncation=self.options.gan_truncation)

    def seen(self) -> TrainedOn:
        """The images that it was trained on."""
        return TrainedOn.of(self.store, {"training": np.unique(self.rows)})

    def save(self, folder: Path, steps: int) -> None:
        """Write the generator with its averaged weights as they are now.

        Args:
            folder: Not there yet, or left by an earlier try.
            steps: Done.
        """
        save_gan(self.loop.averaged, folder, self.config(steps), seen=self.seen())

    def seconds_a_step(self) -> float:
        """From a step without penalties and one with both; the networks are not of use afterwards."""
        loop, options, found = self.loop, self.options, []
        for step in (0, 1, 0):  # the first of all is slower than those that follow
            loop.step = min(step, options.steps - 1)
            found += step_seconds(loop, loop.step + 1, loop.records.cpu)
        _, plain, penalised = found
        return plain + max(0.0, penalised - plain) / min(options.gan_path_every, options.gan_r1_every)

    def _look(self, begin: int, on_snapshot: OnSnapshot | None) -> bool:
        """Call the caller with the mean loss since a step, and say whether to go on."""
        if on_snapshot is None:
            return True
        loop = self.loop
        loss = float(loop.records[begin : loop.step, 0].mean())
        return on_snapshot(Snapshot(loop.step, self.options.steps, self.generator(), loss, None)) is not False

    def _history(self) -> tuple[dict[str, Any], ...]:
        """A row a look: means since the one before, and the probability and r_t at its end."""
        step, rows = self.loop.step, []
        records = self.loop.records[:step].cpu()
        for begin, end in stretches(step, self.options.snapshot_every):
            part = records[begin:end]
            means = dict(zip(RECORDS, part.nanmean(dim=0).tolist(), strict=True))
            last = {name: float(part[-1, RECORDS.index(name)]) for name in ("r_t", "p")}
            known = {name: None if math.isnan(value) else value for name, value in {**means, **last}.items()}
            rows.append({"step": end, "held_out_loss": None, **known})
        return tuple(rows)
