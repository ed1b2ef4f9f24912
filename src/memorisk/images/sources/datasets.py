"""Data sets that are Python objects: of the ``datasets`` library, of torchvision, or of any class.

``save_dataset`` writes one into the cache folder, as Parquet in the layout of the Hugging Face hub, and returns the
folder. Every public function of ``memorisk`` does so itself with a data set given as a source. Afterwards
it is a source like any other (``images.layouts.shards``): it is decoded into a store by the same rules, a finished
run can be opened again, and the same pixels have the same hashes as in a folder of files.

The pixels of a ``datasets`` data set are the files' own bytes. Those of any other data set are the images that
``dataset_items`` finds in its items, without its ``transform`` where that leaves images: an audit needs the pixels, not
the random changes of training.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from memorisk.images.columns import USUAL_NAMES, plain_name, texts
from memorisk.images.layouts.cached_tables import save_table
from memorisk.images.options import ImageOptions
from memorisk.images.readers.shards import NOTE
from memorisk.images.sources.dataset_items import Item, class_names, item_label, plain_items, read_item
from memorisk.images.sources.in_memory import are_arrays, array_items, is_array
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.runs.files import file_fingerprint, fingerprint, fsync_folder
from memorisk.runs.storage.locations import cache_folder

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
T = TypeVar("T")
ImageSource = str | Path | pd.DataFrame | tuple[Any, ...] | np.ndarray | Any
"""Sources that public functions take: a path or name, a table, arrays ``(X, y, groups)``, or a data set."""
SOURCES = frozenset(("images", "source", "train", "synthetic", "held_out", "calibration"))
"""Names of the parameters that take sources."""
STUDY_SOURCES = frozenset(("images", "probes"))
"""Names of the settings of a study's data set that take sources."""
_SPLIT = re.compile(r"\w+")
_ROWS = 64  # rows in a row group
_REPEATED_ITEMS = 8  # items that are read twice and compared


def save_dataset(
    dataset: Any,
    *,
    groups: str | Sequence[Any] | np.ndarray | None = None,
    labels: Sequence[Any] | np.ndarray | None = None,
    store: str | Path | None = None,
) -> Path:
    """Write a data set that is a Python object to a folder that memorisk can read.

    Args:
        dataset: Data set: a table of pandas with a column of files (``path``, ``file`` and the like); arrays
            ``(X, y, groups)`` or ``X`` alone; ``datasets.Dataset`` or ``DatasetDict``; a data set of torchvision,
            MedMNIST, MONAI or any other class with ``len()`` and items by number, each an image, ``(image, label)`` or
            ``{"image": ..., "label": ...}``; or a dictionary of these by split.
        groups: Groups of the images: the name of a column (for items that are dictionaries, of a key), or a value for
            each image, [n]. Columns of a ``datasets`` data set, and keys of items that hold single values, are kept: a
            column of a usual name (``patient_id``) is found by itself, and ``group_column`` chooses another later.
        labels: Labels of the images, [n]; by default the items' own. Numbers are named by the data set's ``classes``.
        store: Folder of the cache, as the setting of that name.

    Returns:
        Folder of Parquet files, named by its content: the same data set is written once. It holds the images, as a
        store does: personal data, readable by their owner alone. For a table of files the function returns a table; the
        files stay where they are.

    Raises:
        InputError: An item holds no image, or a different one at a second reading; the number of values differs from
            that of images; the data set is a stream; images are at addresses instead of in files.

    Example:
        >>> folder = save_dataset(CIFAR10("data"), groups=patients)  # doctest: +SKIP
        >>> memorisk.audit_classifier(folder, out="runs/cifar")  # doctest: +SKIP
    """
    if isinstance(dataset, pd.DataFrame):
        if labels is not None or groups is not None:
            raise InputError("a table names labels and groups by its columns: give them as columns of it")
        return save_table(dataset, store=None if store is None else Path(store))
    if are_arrays(dataset):
        dataset, own_groups = array_items(dataset)
        groups = own_groups if groups is None else groups
    _refuse_other(dataset)
    parts = dict(dataset) if isinstance(dataset, Mapping) else {"": dataset}
    strange = [split for split in parts if isinstance(dataset, Mapping) and not _SPLIT.fullmatch(str(split))]
    if strange:
        raise InputError(f"{one_line(repr(strange[0]), 60)} is not a name of a split; use letters, digits and _")
    if len(parts) > 1 and (labels is not None or not isinstance(groups, (str, type(None)))):
        raise InputError("labels and groups are a value for each image of one data set; save each split by itself")
    cache = cache_folder(None if store is None else Path(store))
    place, building = cache / "datasets", None
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".writing-", dir=place))
        return _saved(dataset, parts, place, building, groups, labels)
    except OSError as error:
        raise InputError(
            f"{_message_name(dataset)} cannot be written into the folder for decoded images {one_line(cache)} "
            f"({one_line(error.strerror or error, 120)}): name another with --store, or by MEMORISK_CACHE"
        ) from None
    finally:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)


def _saved(dataset: Any, parts: Mapping[str, Any], place: Path, building: Path, groups: Any, labels: Any) -> Path:
    """Write a data set's parts to a temporary folder, move it to its place, and return that folder."""
    names = []
    for split, part in parts.items():
        names.append(f"{split}-00000-of-00001.parquet" if split else "data.parquet")
        _write(building / names[-1], part, groups, labels)
    key = fingerprint([[name, file_fingerprint(building / name)] for name in names], length=32)
    folder = place / key / (_name(dataset) if not isinstance(dataset, dict) else "dataset")
    if not folder.is_dir():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        building.replace(folder)
        fsync_folder(folder.parent)
    return folder


def is_dataset(value: Any, *, as_source: bool = False) -> bool:
    """Return whether a value is a data set that `save_dataset` accepts.

    Args:
        value: Value of any type.
        as_source: Whether the value is given as a source: then an object of any class with a length and items is one.

    Returns:
        True for data sets of ``datasets`` and of PyTorch, and for a dictionary of them.
    """
    if isinstance(value, pd.DataFrame) or (isinstance(value, tuple) and are_arrays(value)):
        return True
    if isinstance(value, dict):
        return bool(value) and all(is_dataset(part, as_source=as_source) for part in value.values())
    if _is_hugging(value):
        return True
    torch_data = sys.modules.get("torch.utils.data")  # unless it is imported, such an object cannot exist
    return (torch_data is not None and isinstance(value, torch_data.Dataset)) or (as_source and _has_items(value))


def taking_datasets(function: T) -> T:
    """Wrap a function so that it takes data sets as sources: each argument that is one is saved first.

    Anything but a function is returned as it is, and so is `save_dataset`, which takes nothing else.
    """
    if not isfunction(function) or function is save_dataset:
        return function
    parameters = signature(function).parameters
    names = list(parameters)
    own_arrays = {name for name, p in parameters.items() if np.ndarray in get_args(p.annotation)}

    @wraps(function)
    def taking(*values: Any, **named: Any) -> Any:
        """Call the function with folders."""
        store = named.get("store")
        store = next((v.store for v in (*values, *named.values()) if isinstance(v, ImageOptions)), store)
        store = store if isinstance(store, (str, Path)) and "://" not in str(store) else None
        table_settings = {name: named.get(name) for name in ("image_root", "path_column", "image_column")}

        def saved(name: str, value: Any) -> Any:
            """Return a data set's folder; any other value as it is."""
            if name == "config":
                return with_saved_images(value)
            if isinstance(value, pd.DataFrame) and name in SOURCES:
                return save_table(value, store=None if store is None else Path(store), **table_settings)
            arrays = name in SOURCES - own_arrays and is_array(value)
            return save_dataset(value, store=store) if arrays or is_dataset(value, as_source=name in SOURCES) else value

        positional = [saved(name, v) for name, v in zip(names, values, strict=False)] + list(values[len(names) :])
        return function(*positional, **{name: saved(name, v) for name, v in named.items()})

    return taking  # type: ignore[return-value]


def with_saved_images(config: Any) -> Any:
    """Return a study's settings with a path in place of each object that a data set of it names as its images.

    Args:
        config: Settings as the study takes them; anything else is returned as it is.

    Raises:
        InputError: The same errors as `save_dataset`.
    """
    sets = config.get("datasets") if isinstance(config, Mapping) else None
    if not isinstance(sets, Mapping):
        return config
    shared = config.get("settings")
    return {**config, "datasets": {name: _saved_set(one, shared) for name, one in sets.items()}}


def _saved_set(values: Any, shared: Any) -> Any:
    """Return the settings of a study's data set, its objects saved where its own settings or the study's say."""
    if not isinstance(values, Mapping):
        return values
    settings = {**(shared if isinstance(shared, Mapping) else {}), **values}
    reading = {name: settings.get(name) for name in ("image_root", "path_column", "image_column")}
    store = settings.get("store")
    store = Path(store) if isinstance(store, (str, Path)) and "://" not in str(store) else None

    def saved(value: Any) -> Any:
        """Return the path of an object's images as text; a value that is neither path nor data set unchanged."""
        if isinstance(value, pd.DataFrame):
            return str(save_table(value, store=store, **reading))
        if is_array(value) or is_dataset(value, as_source=True):
            return str(save_dataset(value, store=store))
        return str(value) if isinstance(value, Path) else value

    return {name: saved(value) if name in STUDY_SOURCES else value for name, value in values.items()}


def _has_items(value: Any) -> bool:
    """Return whether a value has a class of the user's own with ``len()`` and items, not an array, table or model."""
    kind = type(value)
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and kind.__module__.partition(".")[0] not in ("builtins", "collections", "memorisk", "numpy", "pandas", "torch")
        and not isinstance(value, (str, bytes, os.PathLike, Mapping))
        and not any(hasattr(value, name) for name in ("shape", "__array__", "forward"))
    )


def _refuse_other(value: Any) -> None:
    """Refuse a value that is not a data set; a path is a source as it is.

    Raises:
        InputError: The value is a path, or has no items and is not a stream.
    """
    if isinstance(value, (str, bytes, os.PathLike)):
        raise InputError(
            f"{one_line(repr(value), 80)} is a path, which is a source as it is; save_dataset is for data sets that "
            "are Python objects"
        )
    if not any(hasattr(value, name) for name in ("__getitem__", "__iter__")):
        raise InputError(f"{_message_name(value)} is not a data set; give an object with len() and items by number")


def _is_hugging(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "datasets" and hasattr(value, "features")


def _name(dataset: Any) -> str:
    """Name a data set for reports."""
    base = dataset
    while not _is_hugging(base) and hasattr(base, "dataset"):  # a subset of another
        base = base.dataset
    own_name = getattr(getattr(base, "info", None), "dataset_name", None)
    name = own_name if isinstance(own_name, str) and own_name else type(base).__name__
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:60] or "dataset"


def _message_name(dataset: Any) -> str:
    """Return a data set's name in messages."""
    return one_line(_name(dataset), 60)


def _write(path: Path, dataset: Any, groups: Any, labels: Any) -> None:
    """Write one data set as one Parquet file.

    Raises:
        InputError: The same errors as `save_dataset`.
    """
    source = _message_name(dataset)
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise InputError(
            f"{source} is a stream, whose images cannot be counted or read again; write it as files, or make a "
            "data set of it that has a length"
        )
    n = len(dataset)
    if not n:
        raise InputError(f"{source}: no images")
    by_role = {"label": labels, "group": None if isinstance(groups, str) else groups}
    columns = {role: _given_values(values, n, role, source) for role, values in by_role.items() if values is not None}
    key = groups if isinstance(groups, str) else None
    tables = (
        _hugging_tables(dataset, columns, key, source)
        if _is_hugging(dataset)
        else _item_tables(dataset, columns, key, source)
    )
    first = next(tables)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
    path.chmod(0o600)


def _given_values(values: Any, n: int, role: str, source: str) -> list[str]:
    column = texts(np.asarray(values).ravel() if not isinstance(values, (list, tuple)) else values)
    if len(column) != n:
        raise InputError(f"{source}: {len(column):,} {role}s are given, for {n:,} images")
    return column


def _hugging_tables(dataset: Any, columns: dict[str, list[str]], key: str | None, source: str) -> Iterator[pa.Table]:
    """Yield the rows of a ``datasets`` data set, its images as the bytes of their files."""
    import datasets

    images = [name for name, feature in dataset.features.items() if isinstance(feature, datasets.Image)]
    if key is not None and key not in dataset.features:
        raise InputError(f"{source}: no column {one_line(key, 60)} among {one_line(', '.join(dataset.features), 200)}")
    if not images:
        raise InputError(
            f"{source}: no column of images among {listed(list(dataset.features), 12)}; cast one by "
            "dataset.cast_column(name, datasets.Image())"
        )
    for name in images:
        dataset = dataset.cast_column(name, datasets.Image(decode=False))
    schema = dataset.features.arrow_schema
    columns_kept = [
        f.name
        for f in schema
        if f.name in images
        or plain_name(f.name) in USUAL_NAMES["group"]
        or not (pa.types.is_struct(f.type) or pa.types.is_binary(f.type))
    ]
    replaced = {*columns, *(["group"] if key is not None else [])}  # a column of such a name has another meaning
    columns_kept = [name for name in columns_kept if plain_name(name) not in replaced or name == key]
    dataset = dataset.select_columns(columns_kept).with_format("arrow")
    schema = dataset.features.arrow_schema
    for first in range(0, len(dataset), _ROWS):
        try:
            table = dataset[first : first + _ROWS].cast(schema)
        except Exception as error:  # its file is gone or damaged
            raise InputError(f"{source}: rows from {first} on cannot be read ({one_line(error, 160)})") from None
        for name in images:
            rows = [_with_bytes(value, source) for value in table.column(name).to_pylist()]
            table = table.set_column(table.schema.get_field_index(name), pa.field(name, IMAGE), pa.array(rows, IMAGE))
        for role, values in columns.items():
            table = table.append_column(role, pa.array(values[first : first + _ROWS], pa.string()))
        if key is not None and plain_name(key) != "group":
            table = table.append_column("group", pa.array(texts(table.column(key).to_pylist()), pa.string()))
        yield table.replace_schema_metadata(schema.metadata)


def _with_bytes(value: Any, source: str) -> dict[str, Any] | None:
    """Return an image of the library with its file's content.

    Raises:
        InputError: The image is at an address, or its file cannot be read.
    """
    if value is None or value["bytes"] is not None or not value["path"]:
        return value
    path = value["path"]
    if "://" in path:
        raise InputError(
            f"{source}: the image {one_line(path, 120)} is not in a file of this machine; download it first"
        )
    try:
        return {"bytes": Path(path).read_bytes(), "path": os.path.basename(path)}  # noqa: PTH119
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: {one_line(path, 120)}: {one_line(error, 120)}") from None


def _item_tables(dataset: Any, columns: dict[str, list[str]], key: str | None, source: str) -> Iterator[pa.Table]:
    """Yield the items of any other data set, their keys of single values as columns."""
    plain, note = plain_items(dataset, source)
    n = len(plain)
    classes = class_names(dataset)
    spread = np.unique(np.linspace(0, n - 1, min(n, _REPEATED_ITEMS)).astype(int)).tolist()
    columns_kept: list[str] | None = None
    metadata: dict[bytes, str] = {}
    for first in range(0, n, _ROWS):
        rows = range(first, min(first + _ROWS, n))
        items = [read_item(plain, row, source) for row in rows]
        for row in set(rows) & set(spread):
            if read_item(plain, row, source).image != items[row - first].image:
                raise InputError(
                    f"{source}: item {row} is another image when it is read again: give the data set without "
                    "random transforms"
                )
        if columns_kept is None:
            columns_kept = list(dict.fromkeys(name for item in items for name in item.columns))
            unread = list(dict.fromkeys(what for item in items for what in item.unread))
            more = f"; not read: {listed(unread, 8)}" if unread else ""
            metadata = {NOTE: f"Written from {source}, a data set in Python{note}{more}."}
        _refuse_late_keys(items, columns_kept, first, source)
        of = {role: values[first : rows.stop] for role, values in columns.items()}
        if key is not None:
            of["group"] = [
                _group_of_item(item, key, f"{source}: item {row}") for row, item in zip(rows, items, strict=True)
            ]
        if "label" not in of:
            of["label"] = [item_label(i.label, classes, row, source) for row, i in zip(rows, items, strict=True)]
        others = {name: [i.columns.get(name, "") for i in items] for name in columns_kept if plain_name(name) not in of}
        texts_of = {name: pa.array(values, pa.string()) for name, values in (of | others).items()}
        table = {"image": pa.array([item.image for item in items], IMAGE), **texts_of}
        yield pa.table(table).replace_schema_metadata(metadata)


def _refuse_late_keys(items: list[Item], columns_kept: list[str], first: int, source: str) -> None:
    """Refuse a key of the group or the split that only later items have, since the first rows are written already."""
    for row, item in enumerate(items, first):
        for name in item.columns:
            if name not in columns_kept and plain_name(name) in (*USUAL_NAMES["group"], *USUAL_NAMES["split"]):
                raise InputError(
                    f"{source}: item {row} has {one_line(name, 60)}, which items before it lack; give every item the "
                    "same keys, or groups as a value for each image"
                )


def _group_of_item(item: Item, key: str, source: str) -> str:
    """Return the group of an item, under a key."""
    if key not in item.columns:
        raise InputError(f"{source} has no {one_line(key, 60)}; give groups as a value for each image")
    return item.columns[key]
