"""The tables of the long-tailed chest X-ray benchmark (Holste et al. 2022), for NIH-CXR-LT and MIMIC-CXR-LT.

``<name>_single-label_train.csv``, ``_balanced-val.csv``, ``_balanced-test.csv`` and ``_test.csv``: a row an image, a
column of 0 and 1 for each class, exactly one of them 1. The small balanced test part is also counted as test.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from memorisk.images.published.layout import column_texts, read_columns
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError

_PARTS = {"train": "train", "balanced-val": "val", "balanced-test": "test", "test": "test"}
_FOLDERS = ("", "LongTailCXR", "labels")


def lt_tables(folder: Path, name: str) -> dict[str, Path]:
    """The tables of a benchmark by part, in the folder or in ``LongTailCXR`` or ``labels`` below it."""
    found = {}
    for part in _PARTS:
        places = (folder / below / f"{name}_single-label_{part}.csv" for below in _FOLDERS)
        if (place := next((place for place in places if place.is_file()), None)) is not None:
            found[part] = place
    return found


def read_lt(tables: dict[str, Path], key: str, classes: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The images of the tables, each once.

    Args:
        tables: By part, from :func:`lt_tables`.
        key: The column that names the image.
        classes: The columns of 0 and 1.

    Returns:
        The rows (columns of the tables without the classes, and ``label``, ``split``, ``part``), and notes. An image
        that is both in balanced-test and in test is one row; its ``part`` names both.

    Raises:
        InputError: A table lacks a column, a row has not exactly one class, or an image is in two splits.
    """
    rows = pd.concat([_read(path, part, key, classes) for part, path in tables.items()], ignore_index=True)
    images, parts = column_texts(rows, key), rows["part"].tolist()
    kinds = list(zip(rows["split"].tolist(), rows["label"].tolist(), strict=True))
    first: dict[str, int] = {}
    torn, listing = [], {}
    for row, (image, part) in enumerate(zip(images, parts, strict=True)):
        at = first.setdefault(image, row)
        listing.setdefault(image, {})[part] = None
        if kinds[at] != kinds[row]:
            torn.append(image)
    if torn:
        raise InputError(f"{len(torn):,} images are in two splits or classes ({listed(torn, 3)}); get the tables anew")
    once = rows.iloc[list(first.values())].reset_index(drop=True)
    once["part"] = ["|".join(listing[image]) for image in first]
    absent = [part for part in _PARTS if part not in tables]
    notes = ["Split: the parts of the benchmark; balanced-val is val, balanced-test and test are test."]
    notes += [f"The tables of {', '.join(absent)} are not in the folder; their images are left out."] if absent else []
    return once, notes


def _read(path: Path, part: str, key: str, classes: Sequence[str]) -> pd.DataFrame:
    """One table, its classes as a label.

    Raises:
        InputError: It lacks a column, or a row has not exactly one class.
    """
    table = read_columns(path, (key, *classes))
    marks = zip(*(column_texts(table, name) for name in classes), strict=True)
    ones = [[name for name, mark in zip(classes, row, strict=True) if mark in ("1", "1.0")] for row in marks]
    wrong = [image for image, found in zip(column_texts(table, key), ones, strict=True) if len(found) != 1]
    if wrong:
        raise InputError(f"{path.name}: {len(wrong):,} images have not exactly one class ({listed(wrong, 3)})")
    ours = [c for c in table.columns if c in ("label", "split", "part")]
    if ours:
        raise InputError(f"{path.name}: has a column {listed(ours)}, which the official table has not")
    table = table.drop(columns=[c for c in table.columns if c in classes or str(c).startswith("Unnamed")])
    return table.assign(label=[found[0] for found in ones], split=_PARTS[part], part=part)
