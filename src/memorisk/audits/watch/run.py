"""``memorisk watch``: evaluations of what a training has left so far and leaves later, and what they take.

For a run of ``memorisk train generator`` the watch draws from the generators that it saved. For any other training it
evaluates the images that the training left, one folder per step. A watch from within ``memorisk train generator``
evaluates the training's own snapshots, in its process.

A watch takes features of the real images once, and at every evaluation images drawn, passed and compared.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from memorisk.audits.comparison.features import UNDEFINED
from memorisk.audits.watch.evaluations import EvaluationLog
from memorisk.audits.watch.loss_gaps import n_passes
from memorisk.audits.watch.measurements import NO_FID
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.options import AUTO, WatchOptions, WatchSettings, watch_options
from memorisk.audits.watch.real_images import Images
from memorisk.audits.watch.result import Evaluation, WatchResult
from memorisk.audits.watch.training_outputs import (
    WATCH,
    TrainingOutputs,
    held_out_losses,
    is_training_over,
    open_outputs,
    plan_evaluations,
    training_images,
)
from memorisk.audits.watch.verdict import held_out_needed
from memorisk.images.sources.overlap import refuse_overlap
from memorisk.models.encoders.feature_sources import parse_source
from memorisk.models.settings import DIFFUSION_KINDS
from memorisk.report.quantities import Quantity, opening
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_json
from memorisk.runs.settings import fields_of, settings_of, takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.features.extraction import features_cost, passes_per_image
from memorisk.training.generators.generation import kind_cost
from memorisk.training.generators.options import TrainGeneratorOptions
from memorisk.training.generators.snapshots import STOP


def watch_cost(
    watch: MemorizationWatch, looks: Sequence[int] | None, *, kind: str, quality: str, bound: bool, decoded: int = 0
) -> Cost:
    """Count the work of looks that are still to come.

    Args:
        watch: Watch with the real images.
        looks: Number of images of each look; None where the number of looks is unknown.
        kind: Kind of the generator that draws them; empty where they lie in folders.
        quality: Features that FID is computed from.
        bound: Whether the training may end before the last of them.
        decoded: Bytes of images that are stored for it.

    Returns:
        Drawn images with the same pixels go through a detector's network once, and those of which the measure knows no
        distance are not compared: bounds.
    """
    real, n = watch.real, None if looks is None else sum(looks)
    stores = (real.train, real.held)
    cost = features_cost(
        real.detector.source, [s.pixel_hashes for s in stores], real.train.images.shape, real.detector.detector
    )
    passes = passes_per_image(real.detector.source)
    if quality not in (AUTO, NO_FID):
        source = parse_source(quality)
        passes += passes_per_image(source)
        cost += features_cost(source, [s.pixel_hashes for s in stores], real.train.images.shape)
    cost += Cost(bytes_images=decoded)
    if n is None:
        return cost + Cost(images_drawn=None if kind else 0, images_passed=None, pairs=None)
    drawn = kind_cost(kind, watch.options.sampling(), n) if kind else Cost()
    if kind in DIFFUSION_KINDS and looks:
        drawn += Cost(images_passed=len(looks) * n_passes(real, watch.options))
    loose = ["pairs"] if passes or real.detector.measure in UNDEFINED else []
    loose += ["images_passed"] if passes else []
    if bound:
        loose = ["images_drawn", "images_passed", "pairs"]
    compared = n * (len(real.train.images) + len(real.held.images))
    return cost + drawn + Cost(images_passed=passes * n, pairs=compared, at_most=tuple(loose))


@dataclass(frozen=True)
class WatchPlan:
    """Plan of the looks of a watch."""

    steps: Annotated[tuple[int, ...], Quantity("steps to be looked at now")]
    """Steps that there are now."""
    looks: Annotated[int | None, Quantity("looks planned", opening=2)]
    """Number of planned looks; None where it is not known."""
    images: Annotated[int, Quantity("images a look")]
    """Number of images per look."""
    patients: Annotated[dict[str, int], Quantity("patients", opening=1)]
    """Number of training and of held-out patients."""
    rule: Annotated[str, Quantity("stops on")]
    """Name of the stopping rule."""
    why: Annotated[str, Quantity("rule", opening=3)]
    """Sentence that names the rule and, where ``auto`` chose it, says why."""
    error: Annotated[float, Quantity("error of the first look", "probability")]
    """Probability of a false stop at the first look."""
    needed: Annotated[int, Quantity("held-out patients needed")]
    """Number of held-out patients that the rule needs."""
    detector: Annotated[str, Quantity("compared by")]
    """Name of the detector that compares images."""
    notes: Annotated[tuple[str, ...], Quantity("note")]
    """Notes for the user."""
    cost: Annotated[Cost, Quantity("work", opening=2)]
    """Cost of the looks that are possible now and not yet done; for a training that is followed, of all planned
    looks."""


@takes_settings(WatchOptions)
def watch_training(
    run: str | Path,
    *,
    train: Images | None = None,
    held_out: Images | None = None,
    out: str | Path | None = None,
    follow: bool = False,
    stop: bool = False,
    poll: float = 5.0,
    on_look: Callable[[Evaluation], None] | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> WatchResult:
    """Look at everything that a training has left, and with ``follow`` at what it leaves later.

    Args:
        run: The folder of a run of ``memorisk train generator``, or a folder with a folder of images for each step.
        train: Images that the generator is trained on; for a run those that it names.
        held_out: Images of patients that the training does not see; for a run its validation images.
        out: Folder for what is seen; for a run ``watch`` in it.
        follow: Continue until there is a ``training.json`` in ``run``.
        stop: Write ``stop.json`` when the rule says so: into a run, whose training then ends at its next look; else
            into ``out``, where one's own training may look for it.
        poll: Seconds between two visits.
        on_look: Called with every look.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`.

    Raises:
        InputError: Bad input or settings, or nothing to look at; nothing was written.
    """
    options, place = watch_options(settings), _folder(run)
    kind = open_outputs(place, train, held_out, out, options, progress)
    if not follow and not kind.waiting():
        raise InputError(kind.nothing)
    settings = fields_of(WatchOptions, kind.options)
    opened = MemorizationWatch(kind.train, kind.held_out, out=kind.out, stop=stop, progress=progress, **settings)
    kind.check(opened.real)
    progress(opening(_plan_of(kind, opened, follow=follow)), 0, 0)
    with opened as watch:
        while True:
            over = is_training_over(place)
            for look in kind.look(watch, follow and not over):
                progress(f"step {look.step:,}", len(watch.book), kind.options.looks or 0)
                if stop and not over and watch.stopped_at is not None:
                    _ask_to_stop(kind.stop_in, watch.stopped_at, watch)
                watch.report()
                if on_look is not None:
                    on_look(look)
            if over or not follow:
                break
            time.sleep(poll)
        watch.book.note_losses(held_out_losses(place))
        watch.report()
        return watch.result()


def plan_watch(
    run: str | Path,
    *,
    train: Images | None = None,
    held_out: Images | None = None,
    out: str | Path | None = None,
    follow: bool = False,
    progress: Progress = no_progress,
    **settings: Any,
) -> WatchPlan:
    """Plan what `watch_training` would look at; nothing is drawn.

    Args:
        run: Folder of a training, as `watch_training` takes it.
        train: Images that the generator is trained on.
        held_out: Images of patients that the training does not see.
        out: Folder for what is seen.
        follow: Plan all looks of a training that continues.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`.

    Raises:
        InputError: As `watch_training`.
    """
    kind = open_outputs(_folder(run), train, held_out, out, watch_options(settings), progress)
    options = fields_of(WatchOptions, kind.options)
    options |= {"quality": NO_FID, "log": (), "log_to": None}
    watch = MemorizationWatch(kind.train, kind.held_out, stop=False, progress=progress, **options)
    kind.check(watch.real)
    return _plan_of(kind, watch, follow=follow)


def _plan_of(kind: TrainingOutputs, watch: MemorizationWatch, *, follow: bool) -> WatchPlan:
    """Build the plan of the looks at what a training has left.

    Args:
        kind: Outputs of the training.
        watch: Watch without a look.
        follow: Plan all looks of a training that continues.
    """
    steps, had = tuple(kind.waiting()), {look.step for look in EvaluationLog(kind.out)}
    waiting, planned = [step for step in steps if step not in had], watch.options.looks
    if not follow:
        looks = [kind.images(step) for step in waiting]
    else:  # a folder of a step may be half written
        looks = None if planned is None else [watch.options.images] * max(len(waiting), planned - len(had))
    stored = kind.decoded + watch.real.decoded
    stored += 0 if kind.kind or not looks else sum(looks) * watch.real.train.images[:1].nbytes
    cost = watch_cost(watch, looks, kind=kind.kind, quality=kind.options.quality, bound=follow, decoded=stored)
    return build_plan(watch, cost, steps)


def build_plan(watch: MemorizationWatch, cost: Cost, steps: tuple[int, ...] = ()) -> WatchPlan:
    """Build the plan of a watch.

    Args:
        watch: Watch without a look.
        cost: Cost of the looks that are still to come.
        steps: Steps at which there is something to look at.
    """
    return WatchPlan(
        steps,
        watch.options.looks,
        watch.options.images,
        {"training": watch.real.n_train, "held out": watch.real.n_held},
        watch.options.stop_on,
        watch.rule,
        watch.shared.of_look(1),
        held_out_needed(watch.options, watch.shared.of_look(1)),
        watch.real.detector.name,
        watch.notes,
        cost,
    )


def _folder(run: str | Path) -> Path:
    """Return the folder to watch.

    Raises:
        InputError: The folder does not exist.
    """
    if not Path(run).is_dir():
        raise InputError(f"there is no folder {one_line(run)} of a training to watch")
    return Path(run)


def _ask_to_stop(folder: Path, look: Evaluation, watch: MemorizationWatch) -> None:
    """Leave the file that ends a training, once."""
    if not (folder / STOP).exists():
        reason = f"memorisk watch, {watch.options.stop_on}: {look.words}"
        write_json(folder / STOP, {"reason": reason, "step": look.step})


@takes_settings(TrainGeneratorOptions)
def watch_within(
    images: str | Path,
    *,
    out: str | Path,
    watching: WatchSettings | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> MemorizationWatch:
    """Make the ``on_snapshot`` of `memorisk.train_generator` that watches a training and, by the rule, ends it.

    It looks at the training images and, as held-out ones, at the validation part; never at the test part.

    Args:
        images: Images of the training, as `train_generator` takes them.
        out: Run folder of the training; the looks are in ``watch`` in it.
        watching: Settings of the watch; the looks are planned by the training's steps.
        progress: Called with (stage, done, total).
        **settings: Settings of the training.

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
    progress: Progress = no_progress,
    **settings: Any,
) -> WatchPlan:
    """Plan what `watch_within` would look at, and by which rule it would end the training; nothing is written.

    Args:
        images: Images of the training, as `watch_within` takes them.
        out: Run folder of the training.
        watching: Settings of the watch.
        progress: Called with (stage, done, total).
        **settings: Settings of the training.

    Raises:
        InputError: As `watch_within`.
    """
    without_quality = replace(watching or WatchSettings(), quality=NO_FID, log=(), log_to=None)
    watch = _opened(images, out, without_quality, progress, settings, planning=True)
    n_looks = max(0, (watch.options.looks or 0) - len(EvaluationLog(Path(out) / WATCH)))
    kind = settings_of(TrainGeneratorOptions, settings).kind
    quality = (watching or WatchSettings()).quality
    looks = [watch.options.images] * n_looks
    return build_plan(watch, watch_cost(watch, looks, kind=kind, quality=quality, bound=True))


def _opened(
    images: str | Path, out: str | Path, watching: WatchSettings | None, progress: Progress, settings: dict[str, Any],
    *, planning: bool = False,
) -> MemorizationWatch:  # fmt: skip
    """Open the watch, without a folder where it is only planned."""
    options = settings_of(TrainGeneratorOptions, settings)
    refuse_overlap(out, {"IMAGES": images})
    if watching is not None and watching.log_to is not None:
        refuse_overlap(watching.log_to, {"IMAGES": images}, called="log_to")
    if watching is not None and options.kind == "gan":
        watching.refuse_diffusion("a GAN")  # not at its first look, in the middle of the training
    parts, _ = training_images(str(images), options, progress)
    of_user = watching or WatchSettings()
    of_watch = WatchOptions(**fields_of(WatchSettings, of_user))
    of_watch = plan_evaluations(of_watch, parts.looks, parts.every)
    every = fields_of(WatchOptions, of_watch) | {"store": options.store}
    folder = None if planning else Path(out) / WATCH
    return MemorizationWatch(parts.train, parts.validation, out=folder, stop=True, progress=progress, **every)
