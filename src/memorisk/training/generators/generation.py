"""``memorisk generate``: a set of images from a generator, each of which can be made again alone.

The run folder holds ``images/`` (PNG), ``manifest.csv`` and ``manifest.parquet`` (``image, path, label, seed, source,
attempt, sha256``) and, written last, ``generate.json``. After a kill at any point, the same command continues.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.plain_png import encode_png
from memorisk.images.sources.overlap import path_sources, refuse_overlap
from memorisk.models.generators.generators import Generator, load_generator
from memorisk.models.settings import DIFFUSION_KINDS, SamplingOptions
from memorisk.runs.environment import check_device, machine, versions
from memorisk.runs.errors import InputError, listed, one_line, plural
from memorisk.runs.files import json_value, write_json
from memorisk.runs.folder import CONFIG, check_out_folder, open_run, read_config
from memorisk.runs.settings import settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.engine.devices import limited_threads
from memorisk.training.generators.draws import (
    DRAWN_LIST,
    IMAGES,
    conditions_of,
    draw,
    draw_of,
    image_name,
    parse_name,
    plan_draws,
    read_drawn_hashes,
    set_attempts,
    set_table,
    write_images,
    write_tables,
)
from memorisk.training.generators.options import GenerateOptions

SUMMARY = "generate.json"
STAGE = "drawing images"
_NOT_OF_THE_SET = ("images", "batch", "device", "threads", "python_path")  # that make no other set


@dataclass(frozen=True, eq=False)
class GeneratedSet:
    """A set of images on the disk."""

    folder: Path
    """Folder of the run."""
    table: pd.DataFrame
    """Table of the images: ``image, path, label, seed, source, attempt, sha256`` of each."""
    summary: dict[str, Any]
    """Contents of ``generate.json``."""


@dataclass(frozen=True)
class GeneratePlan:
    """Plan of the drawing of a set."""

    generator: str
    """Name of the generator."""
    images: int
    """Number of images to be drawn."""
    classes: dict[str, int]
    """Number of images of each class; empty without classes."""
    sources: int
    """Number of training images whose conditions take part; 0 without conditions."""
    size: tuple[int, int, int]
    """Height, width and channels of an image."""
    first_batch: int
    """Number of images drawn to measure the time."""
    seconds: float
    """Time for all of them, estimated from the first batch."""
    bytes: int
    """Size on the disk, estimated from the same batch."""
    cost: Cost
    """Cost of drawing; a GAN passes once per image, a diffusion model in each step, a user's function is unknown."""


@takes_settings(GenerateOptions)
def generate(
    generator: str | Path | Generator,
    out: str | Path,
    *,
    progress: Progress = no_progress,
    **settings: Any,
) -> GeneratedSet:
    """Draw a set of images.

    Args:
        generator: Generator to sample from: a folder of ``memorisk train generator``, a user's ``module:function``, or
            the result of `load_generator`.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `GenerateOptions`; ``images`` is their number.

    Returns:
        Set that was drawn, which is on the disk.

    Raises:
        InputError: Bad input or settings, or a folder of other images; nothing was written.
        MemoriskError: The generator failed; what is done is kept.

    Examples:
        >>> made = memorisk.generate("generator", "synthetic", images=1000)  # doctest: +SKIP
    """
    options, folder = settings_of(GenerateOptions, settings), Path(out)
    source, device, plan, wanted = _opened(generator, folder, options)
    identity = _identity(source, options, plan, device)
    named = str(generator) if isinstance(generator, str | Path) else source.config.name
    config = {"generator": named, "out": str(folder), **options.settings_of(source.config.kind), "run": identity}
    check_out_folder(folder, config, identity=["run"])
    check_drawing(source, plan, options, device)
    with limited_threads(options.threads), open_run(folder, config, identity=["run"]) as run:
        run.subfolder(IMAGES)
        chosen = plan.iloc[np.flatnonzero(wanted)]
        hashes = read_drawn_hashes(folder, chosen["image"].tolist())
        done = wanted & plan["image"].isin(hashes).to_numpy()
        if not (done == wanted).all():
            (folder / SUMMARY).unlink(missing_ok=True)
        run.log("started", versions=versions(), machine=machine(), there=int(done.sum()))
        for rows in _blocks(wanted & ~done, options.batch, whole=device != "cpu"):
            progress(STAGE, len(hashes), len(chosen))
            images = draw(source, plan.iloc[rows], options.sampling(), device)
            own = wanted[rows]
            hashes |= write_images(folder, plan["image"].iloc[rows[own]].tolist(), images[own])
        progress(STAGE, len(chosen), len(chosen))
        table = set_table(chosen, hashes)
        write_tables(folder, table)
        summary = _summary(source, table, identity)
        write_json(folder / SUMMARY, summary)
        (folder / DRAWN_LIST).unlink(missing_ok=True)
        run.log("finished", images=len(table))
    return GeneratedSet(folder, table, json_value(summary))


def plan_generate(generator: str | Path | Generator, out: str | Path, **settings: Any) -> GeneratePlan:
    """Plan `generate` by its first batch; nothing is written. Arguments and errors as there."""
    options, folder = settings_of(GenerateOptions, settings), Path(out)
    source, device, plan, wanted = _opened(generator, folder, options)
    check_out_folder(folder, {"run": _identity(source, options, plan, device)}, identity=["run"])
    check_drawing(source, plan, options, device)
    chosen = plan.iloc[np.flatnonzero(wanted)]
    first = chosen.iloc[: options.batch]
    begun = time.perf_counter()
    with limited_threads(options.threads):
        images = draw(source, first, options.sampling(), device)
    sizes = [len(encode_png(image)) for image in images]
    share = len(chosen) / len(first)
    return GeneratePlan(
        generator=source.config.name,
        images=len(chosen),
        classes=_classes(chosen["class"].tolist()),
        sources=len(set(chosen["condition"].tolist()) - {-1}),
        size=(*source.config.size, source.config.channels),
        first_batch=len(first),
        seconds=(time.perf_counter() - begun) * share,
        bytes=round(sum(sizes) * share),
        cost=drawing_cost(source, options.sampling(), len(chosen)),
    )


def drawing_cost(generator: Generator, how: SamplingOptions, images: int) -> Cost:
    """Count the cost of drawing images.

    Guidance runs a diffusion model twice per step. Decoding latents is not counted.

    Args:
        generator: Generator to sample from; the passes of a user's function are unknown.
        how: Settings with steps and guidance.
        images: Number of images.
    """
    return kind_cost(generator.config.kind, how, images)


def kind_cost(kind: str, how: SamplingOptions, images: int) -> Cost:
    """Count the same cost for a generator of which only the kind is known.

    Args:
        kind: Kind of the generator (`GeneratorConfig.kind`).
        how: Settings with steps and guidance.
        images: Number of images.
    """
    steps = how.sampling_steps * (1 if how.guidance == 1 else 2) if kind in DIFFUSION_KINDS else 1
    return Cost(images_drawn=images, images_passed=None if kind == "function" else images * steps)


def _refuse_among_training_images(generator: str | Path | Generator, folder: Path) -> None:
    """Refuse to draw into the images that a run's generator was trained on: they would count as patients'.

    Raises:
        InputError: The folder lies among them.
    """
    if isinstance(generator, str | Path) and (Path(generator) / CONFIG).is_file():
        images = read_config(Path(generator)).get("images")
        refuse_overlap(folder, path_sources({"the generator's training images": images}))


def _opened(
    generator: str | Path | Generator, folder: Path, options: GenerateOptions
) -> tuple[Generator, str, pd.DataFrame, np.ndarray]:
    """Return the generator, its device, the plan of the set, and which of its images are wanted.

    Raises:
        InputError: The folder, the generator or the settings are refused.
    """
    _refuse_among_training_images(generator, folder)
    check_out_folder(folder, {}, identity=[])
    device = str(check_device(options.device))
    source = _open_generator(generator, options)
    return source, device, *_planned(source, options)


def _open_generator(generator: str | Path | Generator, options: GenerateOptions) -> Generator:
    named = isinstance(generator, str | Path)
    return load_generator(generator, python_path=options.python_path) if named else generator


def _planned(generator: Generator, options: GenerateOptions) -> tuple[pd.DataFrame, np.ndarray]:
    """Plan the whole set, and mark which of its images are to be made, [n].

    Raises:
        InputError: The number of images is not given, or a requested image is not in the set.
    """
    attempts = dict(sorted(parse_name(image) for image in options.only))
    if len(attempts) < len(options.only):
        raise InputError("only names an image at two attempts: make one of them at a time")
    plan = plan_draws(
        generator,
        _number(generator, options, attempts),
        seed=options.seed,
        balance=options.balance,
        paired=options.paired,
    )
    if not attempts:
        return plan, np.ones(len(plan), dtype=bool)
    if max(attempts) >= len(plan):
        size = plural(len(plan), "image", "images")
        raise InputError(
            f"only names {image_name(max(attempts))}, and the last of a set of {size} is {image_name(len(plan) - 1)}: "
            "give images as for the set that it belongs to"
        )
    attempt = plan["attempt"].to_numpy(dtype=np.int64, copy=True)
    attempt[list(attempts)] = list(attempts.values())
    return set_attempts(plan, attempt, options.seed), plan["number"].isin(attempts).to_numpy()


def _number(generator: Generator, options: GenerateOptions, attempts: dict[int, int]) -> int:
    """Return the number of images of the set.

    Raises:
        InputError: The number is not given.
    """
    if options.images is not None:
        return options.images
    sources = conditions_of(generator) if options.paired else None
    if sources is not None:
        return len(sources)
    if attempts and options.balance == "classes" and not options.paired:
        return max(attempts) + 1  # with any length of the set, these images are the same
    if options.paired:
        return 1  # which the plan refuses in its own words
    raise InputError("images is not given: say how many to make")


def _identity(generator: Generator, options: GenerateOptions, plan: pd.DataFrame, device: str) -> dict[str, Any]:
    """Return the values that a continued folder must share: all that decide a pixel, and which images they are."""
    settings = options.settings_of(generator.config.kind)
    of_the_set = {key: value for key, value in settings.items() if key not in _NOT_OF_THE_SET}
    where = {"threads": options.threads} if device == "cpu" else {"batch": options.batch}
    return {
        "command": "generate",
        "generator": generator.config.name,
        "generator_source": generator.source,
        "images": len(plan),
        **of_the_set,
        "device": device.partition(":")[0],
        **where,
    }


def check_drawing(generator: Generator, plan: pd.DataFrame, options: SamplingOptions, device: str) -> None:
    """Check the generator's settings by a draw; of a user's function draw two images together and one of them alone.

    Args:
        generator: Generator to sample from.
        plan: Rows of the plan of a set.
        options: Sampling settings.
        device: Device to draw on.

    Raises:
        InputError: The generator refuses them, or the function's draws do not depend on the seeds alone.
    """
    generator.sample(draw_of(generator, plan.iloc[:0]), options.sampling(), device=device)
    if generator.config.kind != "function":
        return
    first = plan.iloc[:2]
    if not np.array_equal(draw(generator, first)[-1:], draw(generator, first.iloc[-1:])):
        raise InputError(
            f"{one_line(generator.config.name, 60)} draws another image of the same seed alone than with another: "
            "let it draw from a generator of random numbers of its own for each seed, or no image could be made again"
        )


def _blocks(todo: np.ndarray, batch: int, *, whole: bool) -> Iterator[np.ndarray]:
    """Yield rows of the plan that are drawn together.

    Args:
        todo: Whether each image is needed, [n].
        batch: Number of images of a block; the blocks do not depend on the needed images.
        whole: Whether a block is drawn whole if one image is needed: on a GPU its last bits depend on the others.
    """
    for begin in range(0, len(todo), batch):
        rows = np.arange(begin, min(begin + batch, len(todo)))
        needed = todo[rows]
        if needed.any():
            yield rows if whole else rows[needed]


def _summary(generator: Generator, table: pd.DataFrame, identity: dict[str, Any]) -> dict[str, Any]:
    """Make the contents of ``generate.json``."""
    hashes, notes = table["sha256"].to_numpy(dtype=str), []
    distinct = np.unique(hashes, return_index=True)[1]
    if len(distinct) < len(table):
        twice = np.delete(table["image"].to_numpy(dtype=object), distinct).tolist()
        subject = plural(len(twice), "image equals an earlier one", "images equal earlier ones")
        notes.append(f"{subject} of the set in every pixel ({listed(twice)}).")
    return {
        "format": 1,
        "generator": asdict(generator.config),
        "source": generator.source,
        "run": identity,
        "images": len(table),
        "distinct_images": len(distinct),
        "classes": _classes(table["label"].tolist()),
        "notes": notes,
        "versions": versions(),
    }


def _classes(names: Sequence[str]) -> dict[str, int]:
    """Count the images of each class, by name; empty without classes."""
    return dict(sorted(Counter(name for name in names if name).items()))
