"""Items of data sets that are Python objects: the image, the label and the columns that each holds.

An image of torchvision's folders of files is the file's own bytes, as if the user had named the folder. An image of any
other data set is the image in an item, as PNG: an image of Pillow (by the rules of ``images.readers.raster``), an array
``[h, w]`` or ``[h, w, c]`` or a tensor ``[c, h, w]``, of 8 bits, of 16 bits where it is grey, or of floats from 0 to 1
(255 times their value, rounded). The single values of an item with keys (a patient's number, a split, an age) become
columns as those of a table do. A key that should name the person of an image but holds anything else is refused, never
skipped.
"""

import copy
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

import numpy as np
from PIL import Image

from memorisk.images.columns import USUAL_NAMES, pick, plain_name, text
from memorisk.images.layouts.arrays import array_labels
from memorisk.images.readers.raster import pixels
from memorisk.images.readers.registry import ReadOptions
from memorisk.runs.errors import InputError, one_line

_TRANSFORMS = ("transform", "transforms", "target_transform")
_IMAGES, _LABELS = ("image", "img"), ("label", "labels")


@dataclass(frozen=True)
class Item:
    """Item of a data set, with the parts of it that are read."""

    image: dict[str, Any]
    """Bytes of the image (``bytes``) and name of its file (``path``)."""
    label: Any = None
    columns: dict[str, str] = field(default_factory=dict)
    """Other keys of single values in the item, as text."""
    unread: tuple[str, ...] = ()
    """Names of the other contents of the item, which are not read."""


def plain_items(dataset: Any, source: str) -> tuple[Any, str]:
    """Return a data set without its transforms, where its items are images then; and a phrase that notes it."""
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        inner, note = plain_items(dataset.dataset, source)
        return _with(dataset, dataset=inner), note
    if isinstance(getattr(dataset, "datasets", None), (list, tuple)):
        inner = [plain_items(part, source) for part in dataset.datasets]
        return _with(dataset, datasets=[part for part, _ in inner]), next((note for _, note in inner if note), "")
    set_ones = {name: None for name in _TRANSFORMS if getattr(dataset, name, None) is not None}
    if not set_ones:
        return dataset, ""
    plain = _with(dataset, **set_ones)
    try:
        read_item(plain, 0, source)
    except Exception:  # without its transforms the data set fails, or its items are not images
        return dataset, ", as its transform gives it"
    return plain, ", without its transform"


def _with(dataset: Any, /, **attributes: Any) -> Any:
    """Return a shallow copy with other attributes; the user's own object stays as it is."""
    copied = copy.copy(dataset)
    for name, value in attributes.items():
        setattr(copied, name, value)
    return copied


def class_names(dataset: Any) -> list[str] | None:
    """Return the names of the classes that a data set gives, or those of the data set that it is a part of."""
    for holder in (dataset, getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or ())[:1]):
        classes = getattr(holder, "classes", None)
        if isinstance(classes, (list, tuple)) and all(isinstance(name, str) for name in classes):
            return list(classes)
    return None


def read_item(dataset: Any, row: int, source: str) -> Item:
    """Read an item's image, label and columns.

    Raises:
        InputError: The item holds no image, or a key that names its person does not hold a single value.
    """
    try:
        file = _own_file(dataset, row)
        if file is not None:
            return Item({"bytes": file[0].read_bytes(), "path": file[1]}, file[2])
        item = dataset[row]
    except Exception as error:  # the class may be the user's own and raise anything
        raise InputError(
            f"{source}: item {row} cannot be read ({one_line(error or type(error).__name__, 160)})"
        ) from error
    if isinstance(item, Mapping):
        return _mapping_item(item, f"{source}: item {row}")
    several = item if isinstance(item, (tuple, list)) else (item,)
    image, label = several[0] if several else None, several[1] if len(several) > 1 else None
    more = len(several) - 2
    unread = (f"the last {more} of the {len(several)} values of an item",) if more > 0 else ()
    return Item(_image(image, f"{source}: item {row}"), label, unread=unread)


def _mapping_item(item: Mapping[Any, Any], source: str) -> Item:
    """Read an item with keys.

    Raises:
        InputError: The same errors as `read_item`.
    """
    image = next((key for key in _IMAGES if key in item), None)
    others = [key for key in item if key != image]
    label = next((key for key in _LABELS if key in item), pick(others, "label", None, source))
    columns, unread = {}, []
    for key in others:
        if key == label:
            continue
        value = _single(item[key])
        if value is not None:
            columns[str(key)] = value
        elif plain_name(key) in USUAL_NAMES["group"]:
            raise InputError(
                f"{source}: its {one_line(key, 60)} is {one_line(repr(item[key]), 60)}, no single value that says "
                "whose it is; give groups as a value for each image"
            )
        else:
            unread.append(one_line(key, 60))
    encoded = _image(None if image is None else item[image], source)
    return Item(encoded, None if label is None else item.get(label), columns, tuple(unread))


def _single(value: Any) -> str | None:
    """Return a single value as text; None for anything else."""
    if type(value).__module__.startswith(("numpy", "torch", "monai")) and hasattr(value, "item"):
        value = value.item() if np.prod(value.shape) == 1 else [value]
    if value is None or isinstance(value, (str, bytes, int, float)):
        return text(value)
    return str(value) if isinstance(value, (date, UUID, PurePath)) else None


def _image(image: Any, source: str) -> dict[str, Any]:
    return {"bytes": _png(image, source), "path": None}


def _own_file(dataset: Any, row: int) -> tuple[Path, str, int] | None:
    """Return the file, its name below the root, and the class of an item of torchvision's folders."""
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        return _own_file(dataset.dataset, int(dataset.indices[row]))
    if isinstance(getattr(dataset, "datasets", None), (list, tuple)):
        for part in dataset.datasets:
            if row < len(part):
                return _own_file(part, row)
            row -= len(part)
    folder = sys.modules.get("torchvision.datasets.folder")
    if folder is None or not isinstance(dataset, folder.DatasetFolder) or dataset.loader is not folder.default_loader:
        return None
    if type(dataset).__getitem__ is not folder.DatasetFolder.__getitem__:  # its items differ from the folder's files
        return None
    path, target = dataset.samples[row]
    return Path(path), os.path.relpath(path, dataset.root).replace(os.sep, "/"), target


def item_label(value: Any, classes: list[str] | None, row: int, source: str) -> str:
    """Return a label as text: a number, and each 1 in a row of 0 and 1, by the name of its class, else as a number.

    Raises:
        InputError: The label is neither of these.
    """
    if value is None or isinstance(value, str):
        return value or ""
    try:
        array = np.asarray(value)
        if array.size == 1 and array.dtype.kind in "iu" and classes is not None:
            number = int(array.item())
            return classes[number] if 0 <= number < len(classes) else str(number)
        if array.dtype.kind in "biuf" and array.ndim < 2:
            names = classes if classes is not None and len(classes) == array.size else None
            return array_labels(array.reshape(1, -1), Path(source), names)[0]
    except (TypeError, ValueError, InputError):
        pass
    raise InputError(
        f"{source}: the label of item {row} is {one_line(repr(value), 80)}, neither a number, nor a name, nor a row of "
        "0 and 1; give labels as a value for each image"
    )


def _png(image: Any, source: str) -> bytes:
    """Return an image as the bytes of a PNG file.

    Raises:
        InputError: The value is not an image.
    """
    if isinstance(image, Image.Image):
        if 0 in image.size:
            raise InputError(f"{source} is an image of {image.width} x {image.height}, without a pixel")
        depth = 16 if image.mode.startswith("I") or image.mode == "F" else 8
        array = pixels(image, ReadOptions(depth=depth, window="full"), source)
    else:
        array = _array(image, source)
    if array.dtype == np.uint16 and array.shape[2] > 1:
        raise InputError(f"{source} is a colour image of 16 bits, which PNG cannot be written of here; give 8 bits")
    buffer = io.BytesIO()
    mode = array[..., 0] if array.shape[2] == 1 else array
    Image.fromarray(np.ascontiguousarray(mode)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def _array(image: Any, source: str) -> np.ndarray:
    """Return the pixels ``[h, w, c]`` uint8 or uint16 of an array or tensor.

    Raises:
        InputError: Its shape or values are not those of an image.
    """
    is_tensor = type(image).__module__.startswith(("torch", "monai"))
    try:
        array = np.asarray(image.detach().cpu().numpy() if is_tensor else image)
    except Exception:  # the object may be of any type
        array = np.empty(0, object)
    if array.ndim == 2:
        array = array[..., None]
    channels_first = array.ndim == 3 and array.shape[0] in (1, 3, 4) and (is_tensor or array.shape[2] not in (1, 3, 4))
    array: Any = np.moveaxis(array, 0, -1) if channels_first else array
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or array.dtype.kind not in "buif" or not array.size:
        what = f"an array of shape {array.shape}" if array.size else f"of type {type(image).__name__}"
        raise InputError(
            f"{source} is {what}, no image; give an image of Pillow, [h, w], [h, w, c] or a tensor [c, h, w]"
        )
    low, high = array.min(), array.max()
    if array.dtype.kind == "f":
        if not (low >= 0 and high <= 1):
            raise InputError(
                f"{source} has values from {low:.3g} to {high:.3g}, floats of images are from 0 to 1; leave out what "
                "normalises them"
            )
        return np.rint(array.astype(np.float64) * 255).astype(np.uint8)
    if array.dtype.kind == "b":
        return array.astype(np.uint8) * 255
    if low < 0 or high > 65535 or (high > 255 and array.dtype == np.uint8):
        raise InputError(
            f"{source} has values from {low} to {high}, those of images are 0 to 255, or to 65,535 of grey"
        )
    return array.astype(
        np.uint8 if array.dtype == np.uint8 or (high <= 255 and array.dtype != np.uint16) else np.uint16
    )
