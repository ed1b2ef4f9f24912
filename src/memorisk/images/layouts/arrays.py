"""Arrays of images with labels and groups: npz (MedMNIST's layout too), npy, HDF5 and the idx files of MNIST.

Arrays are found by their names: ``train_images, train_labels, val_images, ...`` (MedMNIST) or ``x_train, y_train,
...`` give the split; otherwise ``images`` (``x``, ``data``), ``labels`` (``y``, ``targets``) and ``groups``
(``patients``), or those that ``image_column``, ``label_column``, ``group_column`` and ``split_column`` name. An .npy
file ``..images..npy`` has its labels in ``..labels..npy``, an idx file in its usual partner. Labels ``[n]`` or ``[n,
1]`` are taken as text; ``[n, L]`` of 0 and 1 are several findings, joined by ``|`` (``none`` where a row has no 1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.columns import joined_names, texts
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.draft_steps import finish_draft, refuse_unused
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.arrays import NO_ARRAYS, array_shapes, image_axes, open_rows, whole_array
from memorisk.images.readers.registry import decoding, file_format
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

_IMAGES = ("images", "image", "x", "data", "imgs", "pixels", "arr_0")
_LABELS = ("labels", "label", "y", "targets", "target", "classes", "arr_1")
_GROUPS = ("groups", "group", "patients", "patient", "patient_ids", "patient_id", "subjects", "subject", "lesions")
_IDS = ("ids", "image_ids", "image_id", "names", "filenames", "files")
_SPLITS = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class Part:
    """Arrays that belong together, by name: images, and labels, groups, ids and splits where the file has them."""

    split: str
    images: str
    labels: str | None = None
    groups: str | None = None
    ids: str | None = None
    splits: str | None = None


def load_arrays(path: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a file of arrays.

    Raises:
        InputError: The file has no array of images, arrays of different lengths, or pickled objects, or
            :func:`memorisk.images.layouts.draft_steps.finish_draft` refuses it.
    """
    draft = Draft(table=pd.DataFrame(), root=path.parent, name=path.stem.removesuffix(".npy"))
    refuse_unused(options, path.name, allowed=("image_column", "label_column", "group_column", "split_column"))
    with decoding(path):
        shapes = {name: shape for name, (shape, _) in array_shapes(path).items()}
        parts = _parts(path, shapes, options)
        tables = [_part_table(path, part, shapes, options) for part in parts]
    draft.table = pd.concat(tables, ignore_index=True)
    if len(parts) == 1 and not parts[0].split and parts[0].splits is None:
        draft.table = draft.table.drop(columns="split")
    if "group" in draft.table:
        draft.group_from = "array of groups"
        draft.group_fallback = "name another with group_column, or give a table with ids and groups as labels_csv"
    arrays = [f"{one_line(p.images, 60)} with labels {one_line(p.labels or 'absent', 60)}" for p in parts if p.images]
    if arrays:
        draft.notes.append(f"Arrays: {'; '.join(arrays)}.")
    return finish_draft(draft, options)


def _parts(path: Path, shapes: dict[str, tuple[int, ...]], options: ImageOptions) -> list[Part]:
    """Return the arrays that are images, labels, groups and ids.

    Raises:
        InputError: A named array does not exist, or no array looks like images.
    """
    named = (options.image_column, options.label_column, options.group_column, options.split_column)
    if options.labels_csv is not None:
        named = (None, None, None, None)  # these options name columns of the joined table
    if list(shapes) == [""]:
        if named[3] is not None:
            raise InputError(
                f"{one_line(path.name)} holds one array, and split_column names another: give an npz or HDF5 file that "
                "has it, or a table as labels_csv"
            )
        return [Part(split="", images="")]
    for name in named:
        if name is not None and name not in shapes:
            raise unknown_name(f"array in {one_line(path.name)}:", name, [one_line(key, 60) for key in shapes])
    if named == (None, None, None, None):
        parts = [part for split, spellings in _SPLITS.items() if (part := _split_part(split, spellings, shapes))]
        if parts:
            return parts
    images = named[0] or _first(_IMAGES, shapes) or _only_images(shapes)
    if not shapes:
        raise InputError(f"{one_line(path.name)}: {NO_ARRAYS}")
    if images is None:
        arrays = [f"{name} {shape}" for name, shape in shapes.items()]
        raise InputError(
            f"{one_line(path.name)}: no array of images among {listed(arrays, 8)}; name one with image_column"
        )
    return [
        Part(
            split="",
            images=images,
            labels=named[1] or _first(_LABELS, shapes),
            groups=named[2] or _first(_GROUPS, shapes),
            ids=_first(_IDS, shapes),
            splits=named[3],
        )
    ]


def _split_part(split: str, spellings: tuple[str, ...], shapes: dict[str, tuple[int, ...]]) -> Part | None:
    """Return the arrays of one split: ``train_images`` or ``images_train``, with the arrays that belong to them."""

    def of(kinds: tuple[str, ...]) -> str | None:
        """Return the first array whose name is one of these kinds."""
        names = [n for s in spellings for k in kinds for n in (f"{s}_{k}", f"{k}_{s}", f"{s}/{k}")]
        return _first(tuple(names), shapes)

    images = of(_IMAGES)
    if images is None:
        return None
    return Part(split=split, images=images, labels=of(_LABELS), groups=of(_GROUPS), ids=of(_IDS))


def _first(names: tuple[str, ...], shapes: dict[str, tuple[int, ...]]) -> str | None:
    """Return the first of some names that exists, whatever its case."""
    by_lower_case: dict[str, str] = {}
    for name in shapes:
        by_lower_case.setdefault(name.lower(), name)
    return next((by_lower_case[name] for name in names if name in by_lower_case), None)


def _only_images(shapes: dict[str, tuple[int, ...]]) -> str | None:
    """Return the only array with the dimensions of images, if there is just one."""
    candidates = [name for name, shape in shapes.items() if len(shape) in (3, 4) and min(shape) > 0]
    return candidates[0] if len(candidates) == 1 else None


def _part_table(path: Path, part: Part, shapes: dict[str, tuple[int, ...]], options: ImageOptions) -> pd.DataFrame:
    """Return the rows of one array of images."""
    image_axes(open_rows(path, part.images or None), path)
    n = shapes[part.images][0]
    width = len(str(max(n - 1, 0)))
    prefix = f"{part.split}/" if part.split else ""
    table = pd.DataFrame({"image": [f"{prefix}{i:0{width}d}" for i in range(n)]}, dtype=object)
    table["path"] = path.name
    table["member"] = part.images
    table["frame"] = pd.array(range(n), dtype="Int64")
    of_images = None if part.splits is None else _column(path, part.splits, shapes, n, single=True)
    table["split"] = part.split if of_images is None else texts(of_images.ravel())
    if part.ids is not None:
        table["image"] = [prefix + v for v in texts(_column(path, part.ids, shapes, n, single=True).ravel())]
    if options.labels_csv is None and options.label_from is None:
        labels = _column(path, part.labels, shapes, n) if part.labels else _beside(path, ("labels", "y"), n)
        if labels is not None:
            table["label"] = array_labels(labels, path)
    if options.group_from is None:
        groups = (
            _column(path, part.groups, shapes, n, single=True)
            if part.groups
            else _beside(path, ("groups", "patients"), n)
        )
        if groups is not None:
            table["group"] = texts(groups.ravel())
    return table


def _column(path: Path, name: str, shapes: dict[str, tuple[int, ...]], n: int, *, single: bool = False) -> np.ndarray:
    """Read an array with a value (or, unless it is ``single``, a row) for each image.

    Raises:
        InputError: The array has another length.
    """
    shape = shapes[name]
    if not shape or shape[0] != n or (single and math.prod(shape) != n):
        raise InputError(f"{one_line(path.name)}: the array {one_line(name)} has shape {shape}, for {n:,} images")
    return whole_array(path, name or None)


def _beside(path: Path, kinds: tuple[str, ...], n: int) -> np.ndarray | None:
    """Return the array of a partner file of .npy and idx files, or None.

    Raises:
        InputError: The array has another length.
    """
    file_type = file_format(path)
    if file_type is None or file_type.name not in ("npy", "idx", "idx, gzipped"):
        return None
    for kind in kinds:
        for image_word in ("images", "x", "X"):
            name = path.name.replace(image_word, kind, 1).replace("idx3", "idx1")
            partner = path.with_name(name)
            if name != path.name and partner.is_file() and file_format(partner) is not None:
                shape = open_rows(partner, None).shape
                if not shape or shape[0] != n:
                    held = f"{shape[0]:,} values" if shape else "a single value"
                    raise InputError(f"{one_line(name)}: has {held}, for {n:,} images in {one_line(path.name)}")
                return whole_array(partner, None)
    return None


def array_labels(values: np.ndarray, path: Path, names: Sequence[str] | None = None) -> list[str]:
    """Return labels as text: ``[n]`` or ``[n, 1]`` one each, ``[n, L]`` of 0 and 1 the names of the ones.

    Several names are joined by ``|``.

    Args:
        values: Labels of the images, ``[n]``, ``[n, 1]`` or ``[n, L]``.
        path: Path of their file, for messages.
        names: Names of the L columns; by default their positions.

    Raises:
        InputError: The labels have another shape, or several columns have values other than 0 and 1.
    """
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
        return texts(values.ravel())
    if values.ndim != 2 or not np.isin(values, (0, 1)).all():
        raise InputError(
            f"{one_line(path.name)}: labels of shape {values.shape} are neither one for each image nor columns of "
            "0 and 1"
        )
    return [joined_names(row, names) for row in values]
