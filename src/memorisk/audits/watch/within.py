"""A watch from within ``memorisk train generator``: it looks at the training's own snapshots, in its process."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from memorisk.audits.watch.cost import watch_cost
from memorisk.audits.watch.left_behind import WATCH, planned
from memorisk.audits.watch.looks import LookBook
from memorisk.audits.watch.options import WatchOptions, WatchSettings
from memorisk.audits.watch.quality import NO_FID
from memorisk.audits.watch.running import WatchPlan, plan_of
from memorisk.audits.watch.trainings import training_images
from memorisk.audits.watch.watching import MemorizationWatch
from memorisk.images.overlap import refuse_overlap
from memorisk.runs.progress import Progress, quiet
from memorisk.runs.settings import settings_of
from memorisk.training.generators.options import TrainGeneratorOptions


def watch_within(
    images: str | Path,
    *,
    out: str | Path,
    watching: WatchSettings | None = None,
    progress: Progress = quiet,
    **settings: Any,
) -> MemorizationWatch:
    """What `memorisk.train_generator` takes as ``on_snapshot`` to be watched and, where the rule says so, ended.

    It looks at the training images and, as held-out ones, at the validation part; never at the test part.

    Args:
        images: As for `train_generator`.
        out: Its run folder; the looks are in ``watch`` in it.
        watching: What is looked at and how; the looks are planned by the training's steps.
        progress: Called with (stage, done, total).
        **settings: Of the training.

    Raises:
        InputError: Bad input or settings, or too few validation patients for the rule; nothing was written.

    Example:
        >>> watch = watch_within("scans/", out="runs/g", steps=20_000)  # doctest: +SKIP
        >>> memorisk.train_generator("scans/", out="runs/g", steps=20_000, on_snapshot=watch)  # doctest: +SKIP
    """
    return _opened(images, out, watching, progress, settings)


def plan_within(
    images: str | Path,
    *,
    out: str | Path,
    watching: WatchSettings | None = None,
    progress: Progress = quiet,
    **settings: Any,
) -> WatchPlan:
    """What `watch_within` would look at, and by which rule it would end the training; nothing is drawn or written.

    Args:
        images: As there.
        out: Likewise.
        watching: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `watch_within`.
    """
    given = replace(watching or WatchSettings(), quality=NO_FID, log=(), log_to=None)
    watch = _opened(images, out, given, progress, settings, planning=True)
    left = max(0, (watch.options.looks or 0) - len(LookBook(Path(out) / WATCH)))
    kind = settings_of(TrainGeneratorOptions, settings).kind
    quality = (watching or WatchSettings()).quality
    looks = [watch.options.images] * left
    return plan_of(watch, watch_cost(watch, looks, kind=kind, quality=quality, bound=True))


def _opened(
    images: str | Path, out: str | Path, watching: WatchSettings | None, progress: Progress, settings: dict[str, Any],
    *, planning: bool = False,
) -> MemorizationWatch:  # fmt: skip
    """The watch, without a folder where it is but planned."""
    options = settings_of(TrainGeneratorOptions, settings)
    refuse_overlap(out, {"IMAGES": images})
    if watching is not None and watching.log_to is not None:
        refuse_overlap(watching.log_to, {"IMAGES": images}, called="log_to")
    if watching is not None and options.kind == "gan":
        watching.refuse_diffusion("a GAN")  # not at its first look, in the middle of the training
    parts, _ = training_images(str(images), options, progress)
    given = watching or WatchSettings()
    of_watch = WatchOptions(**{field.name: getattr(given, field.name) for field in fields(WatchSettings)})
    of_watch = planned(of_watch, parts.looks, parts.every)
    every = {field.name: getattr(of_watch, field.name) for field in fields(WatchOptions)} | {"store": options.store}
    folder = None if planning else Path(out) / WATCH
    return MemorizationWatch(parts.train, parts.validation, out=folder, stop=True, progress=progress, **every)
