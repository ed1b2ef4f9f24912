"""``memorisk track``: finished runs of any kind, logged where the user keeps experiments, each once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memorisk.audits.release.records import record_of
from memorisk.audits.release.trackers import check_place, open_tracker
from memorisk.images.overlap import named_sources, refuse_overlap
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.folder import read_config


@dataclass(frozen=True)
class Tracked:
    """A run in a tracker."""

    run: str
    """Its folder, as it was named."""
    to: str
    name: str
    """What it is called there."""
    figures: int
    """Numbers that were logged."""
    new: bool
    """False where it was there already."""


def _refuse_inside(where: str, folder: Path) -> None:
    """Refuse a folder for logs inside any folder that the run read: a set to be released would be another one then.

    Raises:
        InputError: It lies in one.
    """
    target = Path(where).resolve()
    for text in _texts(read_config(folder)):
        place = Path(text)
        try:
            inside = place.is_dir() and target.is_relative_to(place.resolve())
        except (OSError, ValueError):  # no path
            continue
        if inside:
            raise InputError(
                f"--to {one_line(where)} lies inside {one_line(text)}, which the run read: name a folder outside of it"
            )


def _texts(value: Any) -> Iterator[str]:
    """Every text in some settings."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str) and value:
        yield value


def track(
    runs: str | Path | Sequence[str | Path], *, to: str | Sequence[str], with_report: bool = False
) -> list[Tracked]:
    """Log finished runs: verdict, figures with their limits, settings; no id, no path, no image.

    Args:
        runs: Folders of finished runs of any kind.
        to: ``mlflow:FOLDER``, ``mlflow:https://HOST`` (a server that is named), ``tensorboard:FOLDER``,
            ``wandb:FOLDER`` (offline); one or several.
        with_report: Log ``report.html``, too, which may show images and ids.

    Returns:
        A row a run and tracker.

    Raises:
        InputError: A run is unfinished or changed, or a tracker cannot be had; then nothing was logged.
        MissingExtraError: A library is not installed.

    Example:
        >>> track("runs/synthetic", to="mlflow:mlruns")[0].new  # doctest: +SKIP
        True
    """
    folders = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    places = [to] if isinstance(to, str) else list(dict.fromkeys(to))
    if not folders or not places:
        raise InputError("name a finished run, and with --to where it is logged")
    kept_in = [where for _, where in map(check_place, places) if "://" not in where]
    records = [record_of(folder) for folder in folders]
    for folder, record in zip(folders, records, strict=True):
        if with_report and record.report is None:
            raise InputError(f"{one_line(folder)} holds no report.html: leave --with-report out")
        for where in kept_in:
            refuse_overlap(where, named_sources({f"the run {one_line(folder)}": folder}), called="--to")
            _refuse_inside(where, folder)
    found = []
    for place in places:
        tracker = open_tracker(place)
        for folder, record in zip(folders, records, strict=True):
            new = tracker.log(record, record.report if with_report else None)
            found.append(Tracked(str(folder), place, record.name, len(record.figures), new))
    return found
