"""Recipe by which twins of a generator are trained and scored, and one training as a job: its settings, its files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.unet import UNetFolder
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import MemoriskError, one_line
from memorisk.runs.files import fingerprint
from memorisk.training.generators.kinds.unet_training import captions_of
from memorisk.training.generators.kinds.user_training import OwnRecipe
from memorisk.training.generators.options import GanSettings

LOSSES, WEIGHTS, CHECKPOINTS = "losses", "weights", "checkpoints"


@dataclass(frozen=True, kw_only=True)
class TwinRecipe:
    """Settings by which every twin of an audit is trained and scored.

    Attributes:
        kind: Kind of the generator, one of `TWIN_KINDS`.
        network: Size of a diffusion transformer or U-Net; of a folder's U-Net the fingerprint of its configuration.
        latent: Space in which it draws.
        noise_schedule: Noise schedule of a diffusion transformer, or of a U-Net of a named size.
        steps: Number of training steps.
        batch_size: Number of images per step.
        lr: Learning rate.
        ema: Decay of the averaged weights of a diffusion transformer or U-Net.
        flip: Whether half of the images of a step are mirrored.
        levels: Number of noise levels at which an image is scored; of a GAN the number of its `GAN_LOSSES`.
        draws: Number of antithetic pairs of noise at each level; of a GAN the number of images that it draws.
        gan: Settings that only a GAN has.
    """

    kind: str
    network: str
    latent: str
    noise_schedule: str
    steps: int
    batch_size: int
    lr: float
    ema: float
    flip: bool
    levels: int
    draws: int
    gan: GanSettings | None = None


@dataclass(frozen=True, kw_only=True)
class TwinJob:
    """Settings and data of one training; the process that runs it receives this alone.

    Attributes:
        out: The run folder.
        store: The images with their manifest.
        rows: Rows of the images to train on, in slot order; a row may repeat.
        slots: Number of places in a pass over the images.
        recipe: Settings of training and scores.
        seed: Random seed of initialisation, order, times and noise, the same for both twins of a pair.
        device: Device to train on.
        threads: Number of threads of native code.
        keep_weights: Whether the trained weights are kept in the run folder.
        checkpoint_seconds: Least time between two writes of a training's state.
        encoder: Identity of the autoencoder whose latents are learned, weights included; None for pixels.
        python_path: Folders in which the user's module is searched, after everything installed.
        unet: Configuration of a folder's U-Net; None for one of a named size, and for other kinds.
        caption_column: Column of the captions, for a U-Net that is conditioned on them.
        kept_order: Order in which the losses of images lie in their file, [N]; by default that of the images.
        negatives: Whether the user's function receives the negatives of the images, as a control.
        beside: Rows of test images with which each image enters the critic of a GAN; empty for other kinds.
    """

    out: Path
    store: ImageStore
    rows: np.ndarray
    slots: int
    recipe: TwinRecipe | OwnRecipe
    seed: int
    device: str = "cpu"
    threads: int = 1
    keep_weights: bool = True
    checkpoint_seconds: float = 30.0
    encoder: Mapping[str, Any] | None = None
    python_path: tuple[Path, ...] = ()
    unet: UNetFolder | None = None
    caption_column: str | None = None
    kept_order: np.ndarray | None = None
    negatives: bool = False
    beside: tuple[int, ...] = ()

    @cached_property
    def key(self) -> str:
        """Name of the job's files: the same training has the same name."""
        pixels = self.store.pixel_hashes[self.rows].tolist()
        names = self.store.manifest.images.tolist()  # the noise of an image is that of its id
        content: list[Any] = [asdict(self.recipe), self.seed, self.threads, self.slots]
        content += [] if self.encoder is None else [dict(self.encoder)]
        content += [self.store.manifest.labels.tolist()] if self.unet is not None and self.unet.classes else []
        content += [] if self.caption_column is None else [captions_of(self.store.manifest, self.caption_column)]
        content += ["negatives"] if self.negatives else []
        content += [self.store.pixel_hashes[list(self.beside)].tolist()] if self.beside else []
        order = [] if self.kept_order is None else [self.kept_order]
        return f"{self.seed}-{fingerprint(content, self.rows, pixels, names, *order)}"

    @property
    def losses_file(self) -> Path:
        """Return the file of the losses of all images, float64 [L, N], in the order in which they are kept."""
        return self.out / LOSSES / f"{self.key}.npy"

    @property
    def levels_file(self) -> Path:
        """Return the file of the levels of the losses, float64 [L], which the user's training alone leaves."""
        return self.out / LOSSES / f"{self.key}-levels.npy"

    @property
    def weights_file(self) -> Path:
        """Return the file of the trained weights."""
        return self.out / WEIGHTS / f"{self.key}.safetensors"

    @property
    def checkpoint_file(self) -> Path:
        """Return the file of the state from which a killed training continues."""
        return self.out / CHECKPOINTS / f"{self.key}.safetensors"

    @property
    def steps_file(self) -> Path:
        """Return the file in which a job in another process notes its steps."""
        return self.out / CHECKPOINTS / f"{self.key}.steps"

    @property
    def checkpoint_folder(self) -> Path:
        """Return the folder in which the user's function may keep the state of a training."""
        return self.out / CHECKPOINTS / self.key

    @property
    def done(self) -> bool:
        """Return whether the job has run, and its files are as it wrote them."""
        files = [self.losses_file, *([self.levels_file] if isinstance(self.recipe, OwnRecipe) else [])]
        files += [self.weights_file] if self.weights_file.is_file() else []
        return all(is_intact(file) for file in files)


def built_in(job: TwinJob) -> TwinRecipe:
    """Return the recipe of a job whose training is built in."""
    assert isinstance(job.recipe, TwinRecipe)
    return job.recipe


def damaged(file: Path) -> MemoriskError:
    """Return the error of a file of a training that cannot be read."""
    return MemoriskError(f"{one_line(file)} is damaged: remove it, and the same command trains that twin again")
