"""What a training leaves behind to look at: the generators of a run, or folders of images of somebody's own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from memorisk.audits.generated.generator_knowledge import refuse_known
from memorisk.audits.watch.drawing import of_generator
from memorisk.audits.watch.image_folders import image_folders, read_folder, step_of
from memorisk.audits.watch.looks import Look
from memorisk.audits.watch.options import WatchOptions
from memorisk.audits.watch.real import Images, RealImages
from memorisk.audits.watch.trainings import images_of_run, is_training, kept_generators, losses_of
from memorisk.audits.watch.watching import MemorizationWatch
from memorisk.images.options import ImageOptions
from memorisk.images.overlap import named_sources, refuse_overlap
from memorisk.images.sources.registry import load_manifest
from memorisk.models.generators.generators import load_generator
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.folder import read_config
from memorisk.runs.progress import Progress

WATCH = "watch"
Waiting = Callable[[], list[int]]
"""Steps there is something of."""
LookAt = Callable[[MemorizationWatch, bool], Iterator[Look]]
"""Looks at all that is complete, each once; the second says whether more may come."""


@dataclass(frozen=True, eq=False)
class LeftBehind:
    """What a training leaves, and how it is looked at."""

    train: Images
    held_out: Images | None
    out: Path
    stop_in: Path
    options: WatchOptions
    waiting: Waiting
    """What there is now."""
    look: LookAt
    """At it."""
    nothing: str
    """What is said where there is nothing."""
    images: Callable[[int], int]
    """Of a step that there is something of: how many are looked at."""
    check: Callable[[RealImages], None] = lambda real: None
    """Refuses held-out images that are none to what is left; before anything is written."""
    kind: str = ""
    """Of the generators that are left; empty where images are."""
    decoded: int = 0
    """Bytes of images that were decoded to find its own."""


def open_left(
    place: Path, train: Images | None, held_out: Images | None, out: str | Path | None, options: WatchOptions,
    progress: Progress,
) -> LeftBehind:  # fmt: skip
    """Which kind of folder it is, and how it is looked at.

    Args:
        place: Of the training.
        train: As for `watch_training`.
        held_out: Likewise.
        out: Likewise.
        options: Likewise.
        progress: Likewise.

    Raises:
        InputError: It is neither, its images are not named, or ``out`` or ``log_to`` lies inside or around them.
    """
    if out is not None or options.log_to is not None:
        of_run = read_config(place)["images"] if train is None and is_training(place) else train
        given = named_sources({"the training images": of_run, "the held-out images": held_out})
        for folder, called in ((out, "OUT"), (options.log_to, "log_to")):
            if folder is not None:
                refuse_overlap(folder, given, called=called)
    if is_training(place):
        return _run(place, train, held_out, out, options, progress)
    if train is None or out is None:
        raise InputError(
            f"{one_line(place)} is no run of train generator. For a folder with a folder of images for each step name "
            "the training images with train, held-out ones with held_out, and out"
        )
    _refuse_among_steps(place, out)
    if options.log_to is not None:
        _refuse_among_steps(place, options.log_to, called="log_to")
    return LeftBehind(train, held_out, Path(out), Path(out), options, *_folders(place, options, progress))


def _run(
    place: Path, train: Images | None, held_out: Images | None, out: str | Path | None, options: WatchOptions,
    progress: Progress,
) -> LeftBehind:  # fmt: skip
    """A run of ``memorisk train generator``."""
    given, decoded = train is not None, 0
    if train is None and held_out is None:
        _refuse_image_settings(options)
        parts = images_of_run(place, progress)
        train, held_out, decoded = parts.train, parts.validation, parts.decoded
        options = planned(options, parts.looks, parts.every)
    elif train is None or (held_out is None and options.held_out_split is None):
        raise InputError("train and held_out go together: name both, or neither, and the run's own images are read")

    def waiting() -> list[int]:
        """Steps of the generators that are kept."""
        return sorted({kept.step for kept in kept_generators(place)})

    seen: set[Path] = set()

    def look(watch: MemorizationWatch, more: bool) -> Iterator[Look]:
        """At each of them, once."""
        for kept in kept_generators(place):
            if kept.folder not in seen:
                generator = load_generator(kept.folder)
                watch.know(generator)
                sample = of_generator(generator, options.sampling(), options.device)
                loss = losses_of(place).get(kept.step)
                seen.add(kept.folder)
                yield watch.look(kept.step, sample, held_out_loss=loss, weights=generator.source)

    def check(real: RealImages) -> None:
        """Its own validation part it knows as such; of others it must know nobody."""
        for kept in kept_generators(place)[-1:] if given else ():
            refuse_known(load_generator(kept.folder), real.held, "the held-out images")

    folder = place / WATCH if out is None else Path(out)
    nothing = (
        f"{one_line(place)} has kept no generator yet: follow it (follow), train with keep_snapshots, or watch it from "
        "within (train generator --watch)"
    )
    kind = str(read_config(place).get("kind", ""))
    return LeftBehind(
        train, held_out, folder, place, options, waiting, look, nothing, lambda step: options.images, check, kind,
        decoded,
    )  # fmt: skip


def _folders(
    place: Path, options: WatchOptions, progress: Progress
) -> tuple[Waiting, LookAt, str, Callable[[int], int]]:
    """Folders of images."""
    seen: set[Path] = set()

    def waiting() -> list[int]:
        """Their steps."""
        return [one.step for one in image_folders(place)]

    def look(watch: MemorizationWatch, more: bool) -> Iterator[Look]:
        """At each that is complete, once: it has the images of a look, or is not the last."""
        found = image_folders(place)
        for i, one in enumerate(found):
            fewest = options.images if more and i == len(found) - 1 else 1
            if one.folder in seen:
                continue
            if (store := read_folder(one, watch.real, options, progress, fewest=fewest)) is not None:
                seen.add(one.folder)
                yield watch.look(one.step, store, weights=fingerprint(store.pixel_hashes.tolist()))

    def images(step: int) -> int:
        """That are looked at of a folder, as it is now."""
        folder = next(one.folder for one in image_folders(place) if one.step == step)
        return min(options.images, load_manifest(folder, options.of_synthetic()).n)

    nothing = f"{one_line(place)} holds no folder whose name ends in the number of a step, as step-1000"
    return waiting, look, nothing, images


def planned(options: WatchOptions, looks: int, every: int) -> WatchOptions:
    """Settings of a watch for a training whose looks are known, where nobody said how many.

    Args:
        options: As given.
        looks: Planned.
        every: Steps between two.
    """
    return replace(options, every=every, looks=options.looks or looks)


def _refuse_among_steps(place: Path, out: str | Path, *, called: str = "OUT") -> None:
    """Refuse a folder for looks inside the drawn images of a step, around them, or where a step's would lie.

    Args:
        place: With a folder for each step.
        out: For the looks, or for logs.
        called: What it is called.

    Raises:
        InputError: It is one.
    """
    steps = {f"the images of step {one.step}": one.folder for one in image_folders(place)}
    refuse_overlap(out, named_sources(steps), called=called)
    target, root = Path(out).resolve(), place.resolve()
    within = target.relative_to(root).parts if target.is_relative_to(root) else ()
    if within and step_of(within[0]) is not None:
        raise InputError(
            f"{called} {one_line(str(out))} lies in a folder whose name ends in a number, which a watch takes for the "
            f"images of step {step_of(within[0])}: name another"
        )


def _refuse_image_settings(options: WatchOptions) -> None:
    """Refuse settings of how images are read where the run says how.

    Raises:
        InputError: One is given.
    """
    for field in (*fields(ImageOptions), *(f for f in fields(WatchOptions) if f.name.endswith("_split"))):
        if field.name != "store" and getattr(options, field.name) != field.default:
            raise InputError(f"{field.name} says how images are read, and a run has its own way: leave it out")
