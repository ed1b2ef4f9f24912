"""Features that the user brings: one row per image, in an array or a table.

``.npy`` [N, d]; ``.npz`` with one array [N, d], or ``features``, and, to match by id, ``image``; ``.parquet`` with
numeric columns and, to match by id, a column ``image``. Without ids rows are those of the run's images in their order.
"""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.manifest import listed
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_array, read_table

SUFFIXES = (".npy", ".npz", ".parquet")
IMAGE, FEATURES = "image", "features"


def is_feature_file(name: str) -> bool:
    """Whether a name of features is that of a file: by its suffix, so that a missing file is refused as such."""
    return name.lower().endswith(SUFFIXES)


def read_features(path: str | Path, images: np.ndarray) -> np.ndarray:
    """Features of these images from a file.

    Args:
        path: ``.npy``, ``.npz`` or ``.parquet``; nothing in it is executed.
        images: [N] ids of the run's images, in their order.

    Returns:
        [N, d] float, rows in the order of ``images``.

    Raises:
        InputError: The file is missing, damaged or of another shape, or lacks images or names one twice.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no feature file {one_line(path)}")
    try:
        ids, values = _read(file)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"features {one_line(path)} cannot be read: {one_line(error, 120)}") from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"features {one_line(path)} are {values.dtype} of shape {values.shape}; needed are numbers, a row an image"
        )
    if ids is None:
        if len(values) != len(images):
            raise InputError(
                f"features {one_line(path)} have {len(values):,} rows for {len(images):,} images: give one row per "
                "image in the run's order, or a column 'image'"
            )
        return values
    return values[_places(file, ids, images)]


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
        with np.load(file, allow_pickle=False) as archive:
            names = [n for n in archive.files if n != IMAGE]
            if FEATURES not in names and len(names) != 1:
                raise ValueError(f"it holds {listed(names)}; one array is needed, or one called features")
            values = archive[FEATURES if FEATURES in names else names[0]]
            return (archive[IMAGE].astype(str) if IMAGE in archive.files else None), values
    table = read_table(file)
    ids = table.pop(IMAGE).astype(str).to_numpy() if IMAGE in table else None
    text = [str(c) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    if text:
        raise ValueError(f"column {listed(text)} holds no numbers; leave it out (ids belong in a column 'image')")
    return ids, table.to_numpy(dtype=np.float64)
