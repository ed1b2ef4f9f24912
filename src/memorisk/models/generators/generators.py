"""Generators of images: the interface, for every kind, and the folder on the disk.

A generator is a diffusion transformer (`memorisk.models.generators.dit.folder`), a GAN
(`memorisk.models.generators.stylegan2_generator`) or a user's own function. Every image has a seed of its own, and
nothing else is random: image by image or in one batch, the same seed and the same condition give the same image on
the same machine.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.provenance import SeenImages
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.runs.errors import CONTENT_ERRORS, InputError, MemoriskError, one_line, plural
from memorisk.runs.files import read_json, write_json
from memorisk.runs.user_code.functions import load_named

DESCRIPTION = "generator.json"
GENERATOR_KINDS = ("dit", "gan", "function")
CONDITION_KINDS = ("none", "class", "vector")
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Draw:
    """Images to be drawn, one row each."""

    seeds: np.ndarray
    """Seed of each image, [n] int64, from 0."""
    labels: np.ndarray | None = None
    """Class of each image, [n] int64, for a generator conditioned on the class."""
    conditions: np.ndarray | None = None
    """Condition of each image, [n, k] float32, for a generator conditioned on a vector."""

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, chosen: slice | np.ndarray) -> "Draw":
        """Select some of the images."""
        return Draw(
            self.seeds[chosen],
            None if self.labels is None else self.labels[chosen],
            None if self.conditions is None else self.conditions[chosen],
        )


class Generator(Protocol):
    """Generator of images."""

    @property
    def config(self) -> GeneratorConfig:
        """Return the configuration."""
        ...

    @property
    def source(self) -> str:
        """Return the fingerprint of its weights."""
        ...

    @property
    def conditions(self) -> np.ndarray | None:
        """Return conditions of its training images, [N, k] float32, for a generator of vectors that keeps them."""
        ...

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Draw images.

        Args:
            draw: Seeds and conditions of the images.
            how: Options of the sampling.
            device: Device: cpu, cuda, or auto.

        Returns:
            Pixels of the images, [n, H, W, C] uint8.

        Raises:
            InputError: The draw does not fit this generator's conditions.
        """
        ...

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return which images of a store it was trained or chosen on; None where that is not known."""
        ...


def check_draw(config: GeneratorConfig, draw: Draw) -> Draw:
    """Return a draw in the form that a generator of this kind takes.

    Args:
        config: Configuration of the generator.
        draw: Requested draw.

    Raises:
        InputError: Seeds are not valid, or labels or conditions are missing, too many or of the wrong shape.
    """
    seeds = np.asarray(draw.seeds)
    if seeds.ndim != 1 or seeds.dtype.kind not in "iu" or (len(seeds) and int(seeds.min()) < 0):
        raise InputError(f"seeds are {seeds.dtype} of shape {seeds.shape}: give whole numbers from 0, one an image")
    by_conditioning = {"class": draw.labels, "vector": draw.conditions}
    for name, value in by_conditioning.items():
        if (value is not None) != (config.conditioned_on == name):
            inputs = {"none": "nothing", "class": "labels", "vector": "conditions"}[config.conditioned_on]
            raise InputError(
                f"{one_line(config.name, 60)} is conditioned on {inputs}: give a Draw with that and no more"
            )
    labels, conditions = draw.labels, draw.conditions
    if labels is not None:
        labels = np.asarray(labels)
        outside = labels.dtype.kind not in "iu" or bool(((labels < 0) | (labels >= len(config.classes))).any())
        if labels.shape != seeds.shape or outside:
            raise InputError(f"labels must be one an image, whole numbers from 0 to {len(config.classes) - 1}")
        labels = labels.astype(np.int64)
    if conditions is not None:
        conditions = np.asarray(conditions, dtype=np.float32)
        if conditions.shape != (len(seeds), config.condition_dim) or not np.isfinite(conditions).all():
            raise InputError(
                f"conditions are of shape {conditions.shape}; {(len(seeds), config.condition_dim)} finite numbers are "
                "needed"
            )
    return Draw(seeds.astype(np.int64), labels, conditions)


def save_description(folder: Path, config: GeneratorConfig) -> None:
    """Write ``generator.json`` as the last of its files: it makes a folder that of a generator."""
    write_json(folder / DESCRIPTION, {"format": _FORMAT, **asdict(config)}, recorded=True)


def read_description(folder: Path) -> GeneratorConfig:
    """Read the description in a generator's folder.

    Raises:
        InputError: The description is missing, damaged or of another form.
    """
    file = folder / DESCRIPTION
    if not file.is_file():
        inside = " (its folder `generator` may be meant)" if (folder / "generator" / DESCRIPTION).is_file() else ""
        raise InputError(f"{one_line(folder)} holds no generator: there is no {DESCRIPTION} in it{inside}")
    try:
        description = read_json(file)
        if description.pop("format") != _FORMAT:
            raise ValueError("another format")
        for name in ("size", "classes", "class_counts"):
            description[name] = tuple(description.get(name, ()))
        config = GeneratorConfig(**description)
        sizes = [*config.size, config.channels, config.condition_dim + 1]
        good = len(config.size) == 2 and all(isinstance(n, int) and n > 0 for n in sizes)
        good &= isinstance(config.details, dict) and isinstance(config.name, str) and isinstance(config.latent, str)
        if not good or config.kind not in GENERATOR_KINDS or config.conditioned_on not in CONDITION_KINDS:
            raise ValueError(f"kind {config.kind}, size {config.size}, conditioned on {config.conditioned_on}")
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(file)} is not a description of a generator: {one_line(error, 120)}") from None
    return config


def load_generator(text: str | Path, *, python_path: Sequence[str | Path] = ()) -> Generator:
    """Open a generator by its folder, or a user's own function.

    Args:
        text: Folder that ``memorisk train generator`` wrote (the run's or its ``generator``), or ``module:function``.
            The function is called as ``function(seeds, labels)``, seeds [n] int64 and labels [n] int64 or None, and
            returns uint8 images [n, H, W] or [n, H, W, C]; it may carry ``classes``, a list of names. Its only source
            of randomness must be the seeds.
        python_path: Folders in which the module of a function is searched, after everything installed.

    Raises:
        InputError: The folder or function does not exist, or it does not return images.
    """
    folder = Path(text)
    if not folder.is_dir() and ":" in str(text):
        return _of_function(str(text), python_path)
    if not folder.is_dir():
        raise InputError(f"folder {one_line(text)} of a generator does not exist; a function is named module:function")
    if not (folder / DESCRIPTION).is_file() and (folder / "generator" / DESCRIPTION).is_file():
        folder = folder / "generator"
    config = read_description(folder)
    if config.kind == "dit":
        from memorisk.models.generators.dit.folder import load_dit

        generator: Any = load_dit(folder, config)  # pyright takes no cached_property for a protocol's property
        return generator
    if config.kind == "gan":
        from memorisk.models.generators.stylegan2_generator import load_gan

        return load_gan(folder, config)
    raise InputError(f"{one_line(folder)} describes a user's function, which is named module:function instead")


@dataclass(frozen=True, eq=False)
class FunctionGenerator:
    """A user's function that draws images."""

    config: GeneratorConfig
    source: str
    call: Callable[[np.ndarray, np.ndarray | None], Any]

    @property
    def conditions(self) -> np.ndarray | None:
        """Return None: a function takes classes at most."""
        return None

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Draw as `Generator.sample`, ``how.batch`` images per call; the function knows its device.

        Raises:
            InputError: The settings are only for a diffusion model, or the function returns something other than
            images.
            MemoriskError: The function failed.
        """
        how = how or SamplingOptions()
        how.refuse_diffusion(self.config.name)
        checked, batch = check_draw(self.config, draw), how.batch
        parts = [checked.rows(slice(begin, begin + batch)) for begin in range(0, len(checked), batch)]
        shape = (*self.config.size, self.config.channels)
        blocks = [_query(self.call, part, self.config.name) for part in parts]
        if any(images.shape[1:] != shape for images in blocks):
            raise InputError(f"{one_line(self.config.name, 60)} gives images of several sizes or channels: give one")
        return np.concatenate(blocks) if blocks else np.zeros((0, *shape), dtype=np.uint8)

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return None: the training images are unknown."""
        return None


def _of_function(text: str, python_path: Sequence[str | Path]) -> FunctionGenerator:
    """Open a user's function; one image that it draws shows size and channels."""
    from memorisk.runs.user_code.functions import source_fingerprint

    call = load_named(text, "the generator", python_path)
    classes = tuple(str(name) for name in getattr(call, "classes", ()))
    one = Draw(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64) if classes else None)
    try:
        image = _query(call, one, text)
    except MemoriskError as error:  # before anything is written
        raise InputError(str(error)) from None
    config = GeneratorConfig(
        kind="function",
        name=text,
        size=(int(image.shape[1]), int(image.shape[2])),
        channels=int(image.shape[3]),
        conditioned_on="class" if classes else "none",
        classes=classes,
    )
    return FunctionGenerator(config, f"{text} {source_fingerprint(call)}", call)


def _query(call: Callable[[np.ndarray, np.ndarray | None], Any], part: Draw, name: str) -> np.ndarray:
    """Return the images that a user's function draws, [n, H, W, C].

    Raises:
        InputError: The function returns something else.
        MemoriskError: The function fails; the message names it as the user's own.
    """
    try:
        answer = call(part.seeds, part.labels)
    except (MemoriskError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # the function is the user's: anything may go wrong in it
        seeds = ", ".join(map(str, part.seeds[:2].tolist())) + (", ..." if len(part) > 2 else "")
        request = f"{plural(len(part), 'seed', 'seeds')} ({seeds})"
        raise MemoriskError(
            f"your own function {one_line(name, 60)} failed for {request}{_place(error)}: {type(error).__name__}: "
            f"{one_line(error, 120)}; mend it and give the same command again"
        ) from error
    return _checked(answer, len(part), name)


def _place(error: BaseException) -> str:
    """Describe where a call failed: in the called file, whichever library that file called; empty without its file."""
    inside = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in inside if frame.filename == inside[0].filename]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def _checked(answer: Any, n: int, name: str) -> np.ndarray:
    """Return a function's answer as images, [n, H, W, C].

    Raises:
        InputError: The answer is something else.
    """
    try:
        images = np.asarray(answer)
    except ValueError as error:  # NumPy has no array of rows of several shapes
        raise InputError(
            f"{one_line(name, 60)} gave no array for {n} seeds ({one_line(error, 120)}): images of one size are needed"
        ) from None
    images = images[..., None] if images.ndim == 3 else images
    if images.dtype != np.uint8 or images.ndim != 4 or len(images) != n or images.shape[3] not in (1, 3):
        raise InputError(
            f"{one_line(name, 60)} gave {images.dtype}, shape {np.shape(answer)} for {n} seeds; uint8 images [n, H, W] "
            "or [n, H, W, C] with 1 or 3 channels are needed"
        )
    return images
