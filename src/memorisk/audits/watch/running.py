"""``memorisk watch``: looks at what a training has left so far, and again while it goes on.

Of a run of ``memorisk train generator`` the generators that it kept are drawn from; of anybody else's training the
images are looked at that it left in a folder a step.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memorisk.audits.watch.cost import watch_cost
from memorisk.audits.watch.deciding import held_out_needed
from memorisk.audits.watch.left_behind import open_left
from memorisk.audits.watch.looks import Look, LookBook
from memorisk.audits.watch.options import WatchOptions, watch_options
from memorisk.audits.watch.quality import NO_FID
from memorisk.audits.watch.real import Images
from memorisk.audits.watch.trainings import is_over, losses_of
from memorisk.audits.watch.verdict import verdict_of
from memorisk.audits.watch.watching import MemorizationWatch
from memorisk.runs.cost import Cost
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import write_json
from memorisk.runs.progress import Progress, quiet
from memorisk.training.generators.snapshots import STOP


@dataclass(frozen=True)
class Watched:
    """What was seen of a training."""

    folder: Path
    """With ``looks.parquet``, ``watch.jsonl``, ``listed.parquet`` and ``report.html``."""
    looks: tuple[Look, ...]
    """By step."""
    stop: Look | None
    """The first look at which the rule says stop; None where none does."""
    notes: tuple[str, ...]
    """What must be said, a sentence each."""
    headline: str = ""
    """What may be said after these looks; empty without a look."""
    rule: str = ""
    """The rule and, of ``auto``, why it took that one, in a sentence."""


@dataclass(frozen=True)
class WatchPlan:
    """What would be looked at."""

    steps: tuple[int, ...]
    """That there are now."""
    looks: int | None
    """Planned; None where it is not known."""
    images: int
    """A look."""
    patients: dict[str, int]
    """Training and held-out ones."""
    rule: str
    """What stops."""
    why: str
    """The rule and, of ``auto``, why it took that one, in a sentence."""
    error: float
    """Of a false stop at the first look."""
    needed: int
    """Held-out patients that the rule needs."""
    detector: str
    """What compares images."""
    notes: tuple[str, ...]
    """What must be said."""
    cost: Cost
    """Of what there is to look at now and was not looked at yet; of a training that is followed all planned looks."""


def watch_training(
    run: str | Path,
    *,
    train: Images | None = None,
    held_out: Images | None = None,
    out: str | Path | None = None,
    follow: bool = False,
    stop: bool = False,
    poll: float = 5.0,
    on_look: Callable[[Look], None] | None = None,
    progress: Progress = quiet,
    **settings: Any,
) -> Watched:
    """Look at everything that a training has left, and with ``follow`` at what it goes on to leave.

    Args:
        run: The folder of a run of ``memorisk train generator``, or a folder with a folder of images for each step.
        train: The images that it is trained on; of a run those that it names.
        held_out: Of patients whom it does not see; of a run its validation images.
        out: Folder for what is seen; of a run ``watch`` in it.
        follow: Go on until there is a ``training.json`` in ``run``.
        stop: Write ``stop.json`` when the rule says so: into a run, whose training then ends at its next look; else
            into ``out``, where one's own training may look for it.
        poll: Seconds between two visits.
        on_look: Called with every look.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`.

    Raises:
        InputError: Bad input or settings, or nothing to look at; nothing was written.
    """
    place, options = _folder(run), watch_options(settings)
    kind = open_left(place, train, held_out, out, options, progress)
    if not follow and not kind.waiting():
        raise InputError(kind.nothing)
    settings = {field.name: getattr(kind.options, field.name) for field in fields(WatchOptions)}
    opened = MemorizationWatch(kind.train, kind.held_out, out=kind.out, stop=stop, progress=progress, **settings)
    kind.check(opened.real)
    with opened as watch:
        while True:
            over = is_over(place)
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
        watch.book.note_losses(losses_of(place))
        watch.report()
        headline = verdict_of(watch)[1] if watch.looks else ""
        return Watched(kind.out, watch.looks, watch.stopped_at, watch.notes, headline, watch.rule)


def plan_watch(
    run: str | Path,
    *,
    train: Images | None = None,
    held_out: Images | None = None,
    out: str | Path | None = None,
    follow: bool = False,
    progress: Progress = quiet,
    **settings: Any,
) -> WatchPlan:
    """What `watch_training` would look at; nothing is drawn.

    Args:
        run: As there.
        train: Likewise.
        held_out: Likewise.
        out: Likewise.
        follow: Likewise.
        progress: Likewise.
        **settings: Likewise.

    Raises:
        InputError: As `watch_training`.
    """
    kind = open_left(_folder(run), train, held_out, out, watch_options(settings), progress)
    given = {field.name: getattr(kind.options, field.name) for field in fields(WatchOptions)}
    given |= {"quality": NO_FID, "log": (), "log_to": None}
    watch = MemorizationWatch(kind.train, kind.held_out, stop=False, progress=progress, **given)
    kind.check(watch.real)
    steps, had = tuple(kind.waiting()), {look.step for look in LookBook(kind.out)}
    looks = [kind.images(step) for step in steps if step not in had]
    if follow:
        planned = watch.options.looks
        looks = None if planned is None else [watch.options.images] * max(len(looks), planned - len(had))
    stored = kind.decoded + watch.real.decoded
    stored += 0 if kind.kind or not looks else sum(looks) * watch.real.train.images[:1].nbytes
    cost = watch_cost(watch, looks, kind=kind.kind, quality=kind.options.quality, bound=follow, decoded=stored)
    return plan_of(watch, cost, steps)


def plan_of(watch: MemorizationWatch, cost: Cost, steps: tuple[int, ...] = ()) -> WatchPlan:
    """What a watch would do.

    Args:
        watch: Without a look.
        cost: Of what is still to be looked at.
        steps: There is something to look at of.
    """
    return WatchPlan(
        steps,
        watch.options.looks,
        watch.options.images,
        {"training": watch.real.n_train, "held out": watch.real.n_held},
        watch.options.stop_on,
        watch.rule,
        watch.shared.of_look(1),
        held_out_needed(watch.options, watch.shared),
        watch.real.detector.name,
        watch.notes,
        cost,
    )


def _folder(run: str | Path) -> Path:
    """The folder to watch.

    Raises:
        InputError: There is none.
    """
    if not Path(run).is_dir():
        raise InputError(f"there is no folder {one_line(run)} of a training to watch")
    return Path(run)


def _ask_to_stop(folder: Path, look: Look, watch: MemorizationWatch) -> None:
    """Leave the file that ends a training, once."""
    if not (folder / STOP).exists():
        reason = f"memorisk watch, {watch.options.stop_on}: {look.words}"
        write_json(folder / STOP, {"reason": reason, "step": look.step})
