"""Features that the user brings: one row per image, in an array or a table.

``.npy`` [N, d]; ``.npz`` with one array [N, d], or ``features``, and, to match by id, ``image``; ``.parquet`` with
numeric columns and, to match by id, a column ``image``. Without ids rows are those of the images in their order.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.manifest import listed
from memorisk.runs.damaged import NO_ARRAYS
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_array, read_table, sound_characters
from memorisk.runs.formats.bounds import check_arrays

SUFFIXES = (".npy", ".npz", ".parquet")
IMAGE, FEATURES, GROUP = "image", "features", "group"


@dataclass(frozen=True)
class SavedFeatures:
    """Features from a file, in the order of the images they were asked for.

    Attributes:
        values: [N, d] numbers, of the type they are saved in.
        by_id: Whether rows were matched by id; else the file has none, and rows were taken in their order.
        left_over: Rows of the file that belong to none of the images.
    """

    values: np.ndarray
    by_id: bool
    left_over: int


def is_feature_file(name: str) -> bool:
    """Whether a name of features is that of a file: by its suffix, so that a missing file is refused as such."""
    return name.lower().endswith(SUFFIXES)


def read_features(path: str | Path, images: np.ndarray) -> np.ndarray:
    """Features of a run's images from a file: the values of `read_saved`."""
    return read_saved(path, images, order="the run's order").values


def read_saved(path: str | Path, images: np.ndarray, *, order: str = "the order of the images") -> SavedFeatures:
    """Features of these images from a file.

    Args:
        path: ``.npy``, ``.npz`` or ``.parquet``; nothing in it is executed.
        images: [N] ids of the images, in their order.
        order: What this order is called where a file without ids does not fit it.

    Returns:
        [N, d] numbers, rows in the order of ``images``; a ``.npy`` file stays on the disk.

    Raises:
        InputError: The file is missing, damaged or of another shape, or lacks images or names one twice.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no feature file {one_line(path)}")
    try:
        ids, values = _read(file)
    except NO_ARRAYS as error:
        raise InputError(f"features {one_line(path)} cannot be read: {one_line(error, 120)}") from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"features {one_line(path)} are {values.dtype} of shape {values.shape}; needed are numbers, a row an image"
        )
    if ids is None:
        if len(values) != len(images):
            raise InputError(
                f"features {one_line(path)} have {len(values):,} rows for {len(images):,} images: give one row per "
                f"image in {order}, or a column 'image'"
            )
        return SavedFeatures(values, by_id=False, left_over=0)
    if len(ids) != len(values):
        raise InputError(f"features {one_line(path)} have {len(values):,} rows and {len(ids):,} ids")
    return SavedFeatures(values[_places(file, ids, images)], by_id=True, left_over=len(ids) - len(images))


def _places(file: Path, ids: np.ndarray, images: np.ndarray) -> np.ndarray:
    index = pd.Index(ids)
    if not index.is_unique:
        raise InputError(f"features {one_line(file)} name {one_line(index[index.duplicated()][0], 60)!r} twice")
    place = index.get_indexer(pd.Index(images.astype(str)))
    missing = images[place < 0]
    if len(missing):
        raise InputError(f"features {one_line(file)} lack {len(missing):,} images: {listed([str(m) for m in missing])}")
    return place


def _read(file: Path) -> tuple[np.ndarray | None, np.ndarray]:
    """Ids (or None) and values."""
    if file.suffix.lower() == ".npy":
        return None, read_array(file, mmap=True)
    if file.suffix.lower() == ".npz":
        check_arrays(file)
        with np.load(file, allow_pickle=False) as archive:
            names = [n for n in archive.files if n not in (IMAGE, GROUP)]
            if FEATURES not in names and len(names) != 1:
                raise ValueError(f"it holds {listed(names)}; one array is needed, or one called features")
            values = archive[FEATURES if FEATURES in names else names[0]]
            ids = archive[IMAGE] if IMAGE in archive.files else None
            if not isinstance(values, np.ndarray) or not isinstance(ids, np.ndarray | None):
                raise ValueError("a member of it is no array")
            return (None if ids is None else sound_characters(ids).astype(str)), values
    table = read_table(file)
    ids = table.pop(IMAGE).astype(str).to_numpy() if IMAGE in table else None
    text = [str(c) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    if text:
        raise ValueError(f"column {listed(text)} holds no numbers; leave it out (ids belong in a column 'image')")
    return ids, table.to_numpy(dtype=np.float64)
