"""The drawn images of an evaluation: by a sampler, or from a folder of each step.

A sampler is a user's function, a generator of memorisk, or a pipeline of diffusers. Whatever draws, the random
numbers of the training are left as they were, so that a watched training gives the weights of an unwatched one.

Folders of images are those that a user's own training left, as ``step-1000`` or ``samples_2000``.
"""

import inspect
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.audits.comparison.sets import decode_alike
from memorisk.audits.run_images import TRAIN
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real_images import RealImages
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import Generator
from memorisk.models.settings import SamplingOptions
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.workload import Progress
from memorisk.training.generators.draws import draw, image_seed, plan_draws

Sample = Callable[[int, int], Any]
"""Called with (number of images, seed); gives uint8 images [n, H, W] or [n, H, W, C]."""


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the global random numbers of Python, NumPy and PyTorch (all devices) afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (the user's, to be given back)
    with torch.random.fork_rng(enabled=True):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def sample_generator(generator: Generator, how: SamplingOptions | None = None, device: str = "auto") -> Sample:
    """Draw images of a generator, of classes and conditions in the proportions of its training.

    Args:
        generator: Generator of memorisk.
        how: Sampling settings of a diffusion model.
        device: cpu, cuda, or auto.
    """

    def sample(n: int, seed: int) -> np.ndarray:
        """Draw by the plan of `memorisk generate` for this seed."""
        config = generator.config
        balance = "classes" if config.conditioned_on == "class" and not sum(config.class_counts) else "training"
        return draw(generator, plan_draws(generator, n, seed=seed, balance=balance), how, device)

    return sample


def sample_pipeline(
    pipeline: Any,
    *,
    classes: Sequence[int] | int | None = None,
    prompts: Sequence[str] | None = None,
    batch: int = 16,
    **call: Any,
) -> Sample:
    """Draw images of a pipeline of diffusers, each from a seed of its own.

    Args:
        pipeline: Any ``DiffusionPipeline`` that gives ``images``; one for classes (``class_labels``, as
            ``DiTPipeline``), for prompts, or for neither.
        classes: Number of classes, or the labels to go round, for a pipeline that takes ``class_labels``.
        prompts: Prompts to use in turn, for a pipeline that takes ``prompt``.
        batch: Number of images per call.
        **call: Arguments of every call, as ``num_inference_steps=50``.

    Raises:
        InputError: Classes or prompts are missing, or are given to a pipeline that takes none.
    """
    takes = set(inspect.signature(pipeline.__call__).parameters)
    labels = list(range(classes)) if isinstance(classes, int) else None if classes is None else list(classes)
    for name, arguments, parameter in (("classes", labels, "class_labels"), ("prompts", prompts, "prompt")):
        if bool(arguments) != (parameter in takes):
            does = "takes" if parameter in takes else "does not take"
            raise InputError(f"{type(pipeline).__name__} {does} {parameter}: {'give' if parameter in takes else 'leave out'} {name}")  # fmt: skip  # noqa: E501

    def sample(n: int, seed: int) -> np.ndarray:
        """Draw batch by batch."""
        batches = []
        for begin in range(0, n, batch):
            numbers = range(begin, min(begin + batch, n))
            seeds = [torch.Generator().manual_seed(image_seed(seed, i)) for i in numbers]
            arguments: dict[str, Any] = {"batch_size": len(numbers)}
            if labels:
                arguments = {"class_labels": [labels[i % len(labels)] for i in numbers]}
            elif prompts:
                arguments = {"prompt": [prompts[i % len(prompts)] for i in numbers]}
            batches.append(_pixels(pipeline(**arguments, generator=seeds, output_type="np", **call)))
        return np.concatenate(batches)

    return sample


def _pixels(output: Any) -> np.ndarray:
    """Return the pixels of what a pipeline gives, uint8 [n, H, W, C].

    Raises:
        InputError: It gives no images.
    """
    images = np.asarray(getattr(output, "images", None))
    if images.ndim not in (3, 4) or images.dtype.kind != "f":
        raise InputError(f"the pipeline gives no images but {one_line(type(output).__name__, 60)}")
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)


SYNTHETIC = "drawn"
_STEP = re.compile(r"(?:.*[^0-9])?(\d{1,15})")


@dataclass(frozen=True)
class ImageFolder:
    """The images of a step."""

    folder: Path
    step: int


def image_folders(folder: Path) -> list[ImageFolder]:
    """Return the folders inside whose names end in a number, by that number.

    Raises:
        InputError: Two have one number.
    """
    folders = [
        ImageFolder(place, step)
        for place in sorted(folder.iterdir())
        if place.is_dir() and (step := folder_step(place.name)) is not None
    ]
    folders.sort(key=lambda one: one.step)
    for one, other in pairwise(folders):
        if one.step == other.step:
            names = f"{one_line(one.folder.name, 60)} and {one_line(other.folder.name, 60)}"
            raise InputError(f"{names} are both of step {one.step}: rename or move one of them")
    return folders


def folder_step(name: str) -> int | None:
    """Return the step of a folder of this name, or None where the name has no step."""
    match = None if name.startswith(".") else _STEP.fullmatch(name)
    return None if match is None else int(match[1])


def read_image_folder(
    place: ImageFolder, real: RealImages, options: WatchOptions, progress: Progress, *, fewest: int = 1
) -> ImageStore | None:
    """Read ``options.images`` images of a folder, evenly over its order, decoded as the real ones are.

    Args:
        place: The folder.
        real: Real images to compare them with.
        options: Settings for reading images.
        progress: Called with (stage, done, total).
        fewest: Smallest number of images of a complete folder; one with fewer is still being written and gives None.

    Raises:
        InputError: They cannot be read, or differ from the real ones in size.
    """
    try:
        manifest = load_manifest(place.folder, options.of_synthetic())
        if manifest.n < fewest:
            return None
        rows = np.linspace(0, manifest.n - 1, min(manifest.n, options.images)).round().astype(np.int64)
        how = options.of_synthetic()
        sets = {TRAIN: real.train, SYNTHETIC: manifest.subset(rows)}
        return decode_alike(sets, {TRAIN: how, SYNTHETIC: how}, progress)[SYNTHETIC]
    except InputError:
        if fewest > 1:  # an image is half written
            return None
        raise
