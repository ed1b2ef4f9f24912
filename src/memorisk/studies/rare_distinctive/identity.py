"""May a study go on in a folder? What its cells were run with is compared before anything is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.finished_run import saved_options
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import plain
from memorisk.runs.folder import CONFIG, read_config
from memorisk.runs.hidden_paths import is_hidden

VERDICT = "verdict.json"
_REPORTED = "gallery redact pseudonym_key fail_on level correction notice attack_gate"
_ADDED = "seeds models placebo intervene classes canary_pairs regime epsilon target target_classes"
_RUN = "device processes checkpoint_seconds discard_weights store follow_links max_pixels image_root protocol"
_WHERE = "executor cluster job_memory worker_silence python_path"
FREE = frozenset(f"{_REPORTED} {_ADDED} {_RUN} {_WHERE}".split())
"""Settings that a later command may change in a cell, or that the cell's own folder settles."""


def check_part(name: str, folder: Path, settings: dict[str, Any], *, unfinished: bool = False) -> None:
    """Refuse settings that would make another audit of a cell that is finished.

    One that never finished has nothing to lose: its own audit refuses them then, and the other cells finish.

    Args:
        name: Of the part, for the line.
        folder: Of a cell, or of a comparison of regimes (a folder a regime).
        settings: That are asked for now.
        unfinished: Of cells that were only begun, too: what a plan should tell.

    Raises:
        InputError: A setting that makes the cell differs, or seeds that it has are left out.
    """
    for inner in _audits(folder):
        if not (unfinished or (inner / VERDICT).is_file()):
            continue
        before = saved_options(read_config(inner))
        now = saved_options(settings)
        for field in vars(before):
            was, asked = plain(getattr(before, field)), plain(getattr(now, field))
            if field not in FREE and was != asked and not is_hidden(was):
                raise InputError(
                    f"{name} was run with {field} = {one_line(was, 40)}, now asked: {one_line(asked, 40)}; give the "
                    f"same settings, name another --out, or remove {one_line(inner)}"
                )
        _check_seeds(name, inner, before, now)


def _audits(folder: Path) -> Iterator[Path]:
    """The folder, and those of regimes in it, that hold an audit."""
    for inner in (folder, *(sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else ())):
        if (inner / CONFIG).is_file() and "images" in read_config(inner) and not (inner / "defence.json").is_file():
            yield inner


def _check_seeds(name: str, folder: Path, before: ClassifierOptions, now: ClassifierOptions) -> None:
    if not (folder / VERDICT).is_file():
        return
    gone = [seed for seed in before.chosen_seeds if seed not in now.chosen_seeds]
    if gone:
        raise InputError(
            f"{name} holds the result of {len(before.chosen_seeds)} seeds, of which {len(gone)} would be left out: "
            "seeds may be added, not taken away; name another --out for fewer"
        )
