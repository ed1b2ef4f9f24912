"""A run of ``memorisk train generator``, finished or not: its images by part, and the generators that it has kept.

Watching looks at the validation part as the held-out one, and never at the test part: what chooses the step at which a
training stops has no place in the audit of what came out of it (METHODS section 5).
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

from memorisk.audits.generated.image_sets import select_rows
from memorisk.images.overlap import refuse_generated_within
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.generators import DESCRIPTION, read_description
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json
from memorisk.runs.folder import CONFIG, read_config
from memorisk.runs.progress import Progress
from memorisk.runs.settings import settings_of
from memorisk.training.detectors.contrastive.parts import Division, divide
from memorisk.training.generators.command import SUMMARY
from memorisk.training.generators.fit import GENERATOR, HISTORY
from memorisk.training.generators.options import TrainGeneratorOptions
from memorisk.training.generators.snapshots import SNAPSHOTS


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """The images of a training that a watch may look at."""

    train: ImageStore
    """What it learns from."""
    validation: ImageStore
    """Of patients it does not see."""
    steps: int
    """Planned."""
    every: int
    """Steps between two looks."""
    decoded: int
    """Bytes of all images of the training, test part and all, as they are stored."""

    @property
    def looks(self) -> int:
        """That are planned."""
        return -(-self.steps // self.every)


@dataclass(frozen=True)
class KeptGenerator:
    """A generator of a run, complete on the disk."""

    folder: Path
    step: int


def is_training(folder: Path) -> bool:
    """Whether a folder is a run of ``memorisk train generator``."""
    if not (folder / CONFIG).is_file():
        return False
    config = read_config(folder)
    return {"images", "snapshot_every", "network"} <= set(config)


def images_of_run(folder: Path, progress: Progress) -> TrainingImages:
    """The training and validation images of a run, read as it read them.

    Args:
        folder: Of the run.
        progress: Called with (stage, done, total).

    Raises:
        InputError: They cannot be read, or are no longer what they were.
    """
    config = read_config(folder)
    found = training_images(str(config["images"]), saved_settings(config), progress)
    was = (config.get("run") or {}).get("data_hash")
    if was != found[1]:
        raise InputError(
            f"{one_line(config['images'])} holds other images than {one_line(folder)} was trained on: put them back, "
            "or name the training and held-out images with train and held_out"
        )
    return found[0]


def training_images(
    images: str, options: TrainGeneratorOptions, progress: Progress
) -> tuple[TrainingImages, str]:  # fmt: skip
    """The parts that ``memorisk train generator`` would train on and measure by, and the hash of all its images.

    Args:
        images: As for that command.
        options: Its settings.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The images cannot be read or divided.
    """
    progress("reading the manifest", 0, 0)
    manifest = load_manifest(images, options)
    refuse_generated_within(images, manifest)
    store = build_store(manifest, options, progress=partial(progress, "decoding images"))
    parts = divide(store.manifest, store.pixel_hashes, options)
    named = _named(store, parts)
    train, validation = (select_rows(named, parts.rows[name]) for name in ("training", "validation"))
    steps, every = options.steps, options.snapshot_every
    return TrainingImages(train, validation, steps, every, store.images.nbytes), store.data_hash


def saved_settings(config: dict[str, Any]) -> TrainGeneratorOptions:
    """The settings in a run's ``config.yaml``: paths are paths again, lists are tuples.

    Raises:
        InputError: A value is not allowed.
    """
    hints = get_type_hints(TrainGeneratorOptions)
    settings: dict[str, Any] = {}
    for field in fields(TrainGeneratorOptions):
        if field.name in config:
            value = config[field.name]
            if isinstance(value, str) and Path in get_args(hints[field.name]):
                value = Path(value)
            settings[field.name] = tuple(value) if isinstance(value, list) else value
    return settings_of(TrainGeneratorOptions, settings)


def kept_generators(folder: Path) -> list[KeptGenerator]:
    """The generators of a run by step: its snapshots, and the last one when it is over."""
    places = [*sorted((folder / SNAPSHOTS).glob("step-*")), folder / GENERATOR]
    found = [KeptGenerator(place, read_description(place).steps) for place in places if (place / DESCRIPTION).is_file()]
    return sorted(found, key=lambda kept: kept.step)


def is_over(folder: Path) -> bool:
    """Whether a training is done: its ``training.json`` is there."""
    return (folder / SUMMARY).is_file()


def losses_of(folder: Path) -> dict[int, float]:
    """Held-out losses by step that a run has written down; nothing while it runs, or where it measured none."""
    try:
        history = read_json(folder / HISTORY)["history"]
        return {int(row["step"]): float(row["held_out_loss"]) for row in history if row["held_out_loss"] is not None}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _named(store: ImageStore, parts: Division) -> ImageStore:
    """The store with the patients of its division, where patients are given."""
    if not store.manifest.groups_given:
        return store
    table = store.manifest.table.assign(group=parts.groups.astype(object))
    return replace(store, manifest=replace(store.manifest, table=table))
