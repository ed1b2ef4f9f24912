"""What a detector's folder keeps of its training beside the detector: its state until it ends, its history after."""

from pathlib import Path
from typing import Any, TypeVar

from memorisk.models.detectors.detectors import load_detector
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json

CHECKPOINT, HISTORY = "checkpoint.safetensors", "history.json"
Kind = TypeVar("Kind")


def read_finished(folder: Path, key: str, kind: type[Kind]) -> tuple[Kind, dict[str, Any]]:
    """The detector that an earlier call left, and its history: ``key, history, notes``.

    Args:
        folder: Of the detector.
        key: Of the training that is asked for.
        kind: Class of its detector.

    Raises:
        InputError: It is another detector.
    """
    try:
        found = read_json(folder / HISTORY)
    except (OSError, ValueError):
        found = {}
    detector = load_detector(folder) if found.get("key") == key else None
    if not isinstance(detector, kind):
        raise InputError(
            f"{one_line(folder)} holds a detector that was trained otherwise, or on other images: name another folder, "
            "or delete that one"
        )
    return detector, found
