"""Outputs of a training to evaluate: the generators of a run, or folders of images of a user's own training.

A run of ``memorisk train generator``, finished or not, has its images by part and the generators that it has saved.
A watch takes the validation part as the held-out one, and never the test part: what chooses the step at which a
training stops has no place in the audit of what came out of it (METHODS section 5).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

from memorisk.audits.comparison.knowledge import refuse_known
from memorisk.audits.comparison.sets import select_rows
from memorisk.audits.watch.drawn_images import folder_step, image_folders, read_image_folder, sample_generator
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real_images import Images, RealImages
from memorisk.audits.watch.result import Evaluation
from memorisk.images.options import ImageOptions
from memorisk.images.sources.overlap import path_sources, refuse_generated_within, refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore
from memorisk.models.generators.generators import DESCRIPTION, load_generator, read_description
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint, read_json
from memorisk.runs.folder import CONFIG, read_config
from memorisk.runs.settings import settings_of, written_settings
from memorisk.runs.workload import Progress
from memorisk.training.engine.data import Division
from memorisk.training.generators.fit import GENERATOR, HISTORY
from memorisk.training.generators.options import TrainGeneratorOptions
from memorisk.training.generators.snapshots import SNAPSHOTS
from memorisk.training.run import SUMMARY, open_parts


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """The images of a training that a watch may look at."""

    train: ImageStore
    """Images that the training learns from."""
    validation: ImageStore
    """Images of patients that the training does not see."""
    steps: int
    """Planned number of steps."""
    every: int
    """Steps between two looks."""
    decoded: int
    """Bytes of all images of the training, test part and all, as they are stored."""

    @property
    def looks(self) -> int:
        """Planned number of looks."""
        return -(-self.steps // self.every)


@dataclass(frozen=True)
class SavedGenerator:
    """A generator of a run, complete on the disk."""

    folder: Path
    step: int


def is_training_run(folder: Path) -> bool:
    """Return whether a folder is a run of ``memorisk train generator``."""
    if not (folder / CONFIG).is_file():
        return False
    config = read_config(folder)
    return {"images", "snapshot_every", "network"} <= set(config)


def read_run_images(folder: Path, progress: Progress) -> TrainingImages:
    """Read the training and validation images of a run as it read them.

    Args:
        folder: Folder of the run.
        progress: Called with (stage, done, total).

    Raises:
        InputError: They cannot be read, or are no longer what they were.
    """
    config = read_config(folder)
    options = settings_of(TrainGeneratorOptions, written_settings(TrainGeneratorOptions, config))
    images = training_images(str(config["images"]), options, progress)
    was = (config.get("run") or {}).get("data_hash")
    if was != images[1]:
        raise InputError(
            f"{one_line(config['images'])} holds other images than {one_line(folder)} was trained on: put them back, "
            "or name the training and held-out images with train and held_out"
        )
    return images[0]


def training_images(
    images: str, options: TrainGeneratorOptions, progress: Progress
) -> tuple[TrainingImages, str]:  # fmt: skip
    """Return the parts that ``memorisk train generator`` would use, and the hash of all its images.

    Args:
        images: Images, as for that command.
        options: Settings of that command.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The images cannot be read or divided.
    """
    store, parts = open_parts(images, options, progress, partial(refuse_generated_within, images))
    named = _with_patients(store, parts)
    train, validation = (select_rows(named, parts.rows[name]) for name in ("training", "validation"))
    steps, every = options.steps, options.snapshot_every
    return TrainingImages(train, validation, steps, every, store.images.nbytes), store.data_hash


def saved_generators(folder: Path) -> list[SavedGenerator]:
    """Return the generators of a run by step: its snapshots, and the last generator when the run is over."""
    places = [*sorted((folder / SNAPSHOTS).glob("step-*")), folder / GENERATOR]
    generators = [
        SavedGenerator(place, read_description(place).steps) for place in places if (place / DESCRIPTION).is_file()
    ]
    return sorted(generators, key=lambda kept: kept.step)


def is_training_over(folder: Path) -> bool:
    """Return whether a training is done: its ``training.json`` is there."""
    return (folder / SUMMARY).is_file()


def held_out_losses(folder: Path) -> dict[int, float]:
    """Return held-out losses by step that a run has written; nothing while it runs, or where it measured none."""
    try:
        history = read_json(folder / HISTORY)["history"]
        return {int(row["step"]): float(row["held_out_loss"]) for row in history if row["held_out_loss"] is not None}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _with_patients(store: ImageStore, parts: Division) -> ImageStore:
    """Return the store with the patients of its division, where patients are given."""
    if not store.manifest.groups_given:
        return store
    table = store.manifest.table.assign(group=parts.groups.astype(object))
    return replace(store, manifest=replace(store.manifest, table=table))


WATCH = "watch"
WaitingSteps = Callable[[], list[int]]
"""Steps there is something of."""
StepEvaluation = Callable[[MemorizationWatch, bool], Iterator[Evaluation]]
"""Looks at all that is complete, each once; the second says whether more may come."""


@dataclass(frozen=True, eq=False)
class TrainingOutputs:
    """Outputs of a training, and the way to look at them."""

    train: Images
    held_out: Images | None
    out: Path
    stop_in: Path
    options: WatchOptions
    waiting: WaitingSteps
    """Lists the steps that there are now."""
    look: StepEvaluation
    """Evaluates the steps that there are."""
    nothing: str
    """Message for an empty folder."""
    images: Callable[[int], int]
    """Number of images that a look at a step uses."""
    check: Callable[[RealImages], None] = lambda real: None
    """Refuses held-out images that are none to what is left; before anything is written."""
    kind: str = ""
    """Kind of the generators in the folder; empty for folders of images."""
    decoded: int = 0
    """Bytes of images that were decoded to find its own."""


def open_outputs(
    place: Path, train: Images | None, held_out: Images | None, out: str | Path | None, options: WatchOptions,
    progress: Progress,
) -> TrainingOutputs:  # fmt: skip
    """Find which kind of folder it is, and how it is looked at.

    Args:
        place: Folder of the training.
        train: Training images, as for `watch_training`.
        held_out: Held-out images, as for `watch_training`.
        out: Folder for the looks, as for `watch_training`.
        options: Settings of the watch.
        progress: Called with (stage, done, total).

    Raises:
        InputError: It is neither, its images are not named, or ``out`` or ``log_to`` lies inside or around them.
    """
    if out is not None or options.log_to is not None:
        of_run = read_config(place)["images"] if train is None and is_training_run(place) else train
        sources = path_sources({"the training images": of_run, "the held-out images": held_out})
        for folder, called in ((out, "OUT"), (options.log_to, "log_to")):
            if folder is not None:
                refuse_overlap(folder, sources, called=called)
    if is_training_run(place):
        return _run_outputs(place, train, held_out, out, options, progress)
    if train is None or out is None:
        raise InputError(
            f"{one_line(place)} is no run of train generator. For a folder with a folder of images for each step name "
            "the training images with train, held-out ones with held_out, and out"
        )
    _refuse_among_steps(place, out)
    if options.log_to is not None:
        _refuse_among_steps(place, options.log_to, called="log_to")
    return TrainingOutputs(train, held_out, Path(out), Path(out), options, *_folder_outputs(place, options, progress))


def _run_outputs(
    place: Path, train: Images | None, held_out: Images | None, out: str | Path | None, options: WatchOptions,
    progress: Progress,
) -> TrainingOutputs:  # fmt: skip
    """Open the outputs of a run of ``memorisk train generator``."""
    own_images, decoded = train is not None, 0
    if train is None and held_out is None:
        _refuse_image_settings(options)
        parts = read_run_images(place, progress)
        train, held_out, decoded = parts.train, parts.validation, parts.decoded
        options = plan_evaluations(options, parts.looks, parts.every)
    elif train is None or (held_out is None and options.held_out_split is None):
        raise InputError("train and held_out go together: name both, or neither, and the run's own images are read")

    def waiting() -> list[int]:
        """List the steps of the generators that are kept."""
        return sorted({saved.step for saved in saved_generators(place)})

    done: set[Path] = set()

    def look(watch: MemorizationWatch, more: bool) -> Iterator[Evaluation]:
        """Look at each kept generator, once."""
        for saved in saved_generators(place):
            if saved.folder not in done:
                generator = load_generator(saved.folder)
                watch.know(generator)
                sample = sample_generator(generator, options.sampling(), options.device)
                loss = held_out_losses(place).get(saved.step)
                done.add(saved.folder)
                weights = generator.source
                yield watch.look(saved.step, sample, held_out_loss=loss, weights=weights, network=generator)

    def check(real: RealImages) -> None:
        """Refuse a generator that knows held-out patients; its own validation part does not count as known."""
        for saved in saved_generators(place)[-1:] if own_images else ():
            refuse_known(load_generator(saved.folder), real.held, "the held-out images")

    folder = place / WATCH if out is None else Path(out)
    nothing = (
        f"{one_line(place)} has kept no generator yet: follow it (follow), train with keep_snapshots, or watch it from "
        "within (train generator --watch)"
    )
    kind = str(read_config(place).get("kind", ""))
    return TrainingOutputs(
        train, held_out, folder, place, options, waiting, look, nothing, lambda step: options.images, check, kind,
        decoded,
    )  # fmt: skip


def _folder_outputs(
    place: Path, options: WatchOptions, progress: Progress
) -> tuple[WaitingSteps, StepEvaluation, str, Callable[[int], int]]:
    """Open the outputs in folders of images."""
    done: set[Path] = set()

    def waiting() -> list[int]:
        """List the steps of the folders."""
        return [one.step for one in image_folders(place)]

    def look(watch: MemorizationWatch, more: bool) -> Iterator[Evaluation]:
        """Look at each complete folder, once: one with the images of a look, or one that is not the last."""
        folders = image_folders(place)
        for i, one in enumerate(folders):
            fewest = options.images if more and i == len(folders) - 1 else 1
            if one.folder in done:
                continue
            if (store := read_image_folder(one, watch.real, options, progress, fewest=fewest)) is not None:
                done.add(one.folder)
                yield watch.look(one.step, store, weights=fingerprint(store.pixel_hashes.tolist()))

    def images(step: int) -> int:
        """Count the images of a folder, as it is now, that are looked at."""
        folder = next(one.folder for one in image_folders(place) if one.step == step)
        return min(options.images, load_manifest(folder, options.of_synthetic()).n)

    nothing = f"{one_line(place)} holds no folder whose name ends in the number of a step, as step-1000"
    return waiting, look, nothing, images


def plan_evaluations(options: WatchOptions, looks: int, every: int) -> WatchOptions:
    """Choose the settings of a watch for a training whose looks are known, where the user did not set their number.

    Args:
        options: Settings as given.
        looks: Planned number of looks.
        every: Number of steps between two looks.
    """
    return replace(options, every=every, looks=options.looks or looks)


def _refuse_among_steps(place: Path, out: str | Path, *, called: str = "OUT") -> None:
    """Refuse a folder for looks inside the drawn images of a step, around them, or where a step's would lie.

    Args:
        place: Folder with one folder per step.
        out: Folder for the looks, or for logs.
        called: Name of ``out`` in the message.

    Raises:
        InputError: The folder is one of these.
    """
    steps = {f"the images of step {one.step}": one.folder for one in image_folders(place)}
    refuse_overlap(out, path_sources(steps), called=called)
    target, root = Path(out).resolve(), place.resolve()
    within = target.relative_to(root).parts if target.is_relative_to(root) else ()
    if within and folder_step(within[0]) is not None:
        raise InputError(
            f"{called} {one_line(str(out))} lies in a folder whose name ends in a number, which a watch takes for the "
            f"images of step {folder_step(within[0])}: name another"
        )


def _refuse_image_settings(options: WatchOptions) -> None:
    """Refuse settings of how images are read where the run says how.

    Raises:
        InputError: One is given.
    """
    for field in (*fields(ImageOptions), *(f for f in fields(WatchOptions) if f.name.endswith("_split"))):
        if field.name != "store" and getattr(options, field.name) != field.default:
            raise InputError(f"{field.name} says how images are read, and a run has its own way: leave it out")
