"""How names and lists of them are worded in messages."""

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from memorisk.runs.errors import one_line


def listed(values: Sequence[object] | np.ndarray, shown: int = 5) -> str:
    """The first few of many values on one printable line: ``a, b, c and 12 more``."""
    head = ", ".join(one_line(v, 120) for v in values[:shown])
    return head if len(values) <= shown else f"{head} and {len(values) - shown:,} more"


def file_and_image(path: str, image: str, limit: int = 100) -> str:
    """An image's file, and its id where the file is called otherwise: of many images in one file, which."""
    said = one_line(path, limit)
    return said if image in (path, PurePath(path).name, PurePath(path).stem) else f"{said}, image {one_line(image, 60)}"
