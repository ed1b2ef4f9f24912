"""Provenance: the images and patients of a detector, encoder or generator's training, and a detector's folder.

A detector's folder, of any kind, holds ``weights.safetensors``, ``detector.json`` (its training, and the preparation of
pixels) and ``seen.parquet``: hashes of the images and patients that it was trained and chosen on. They decide whether
an audit may use it (METHODS section 5: a detector must have been trained on neither the training nor the held-out
images of the generator, or on both alike). The file holds no id, path or pixel; the hashes of patients are keyed by
the data set, but short ids can be tried one by one, so treat a detector as confidential as its training data.

Folders of encoders and generators hold the same hashes. An autoencoder that was trained on some of the images renders
these better than others, and a detector on top of it knows them as if it had been trained on them itself (METHODS
section 5). A network that began with the weights of another may repeat the images of that one: their record is kept
together with its own.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from memorisk.images.store import ImageStore
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.settings import COPY_DETECTOR, DEFAULT_DETECTOR, DETECTOR_KINDS
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint, json_value, read_json, read_table, write_json, write_table

CONFIG, WEIGHTS, SEEN = "detector.json", "weights.safetensors", "seen.parquet"
COLUMNS = ("part", "pixel_hash", "group_hash")
"""Columns of ``seen.parquet``."""
_LISTED = 3


PUBLISHED = {"version", "licence", "data"}
"""Entries of the description of a published detector."""
ORIGIN, EARLIER = "origin.json", "earlier"


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """Configuration of a detector in ``detector.json``."""

    kind: str
    """Kind of the detector, one of `DETECTOR_KINDS`."""
    backbone: str
    """Name of the network in `memorisk.models.classifiers.specs` or timm."""
    weights: str
    """Name of the initial weights: a file's name, a tag, or that they were random."""
    weights_fingerprint: str
    """Fingerprint of these weights."""
    preprocessing: Preprocessing
    """Preprocessing of its input."""
    stored: tuple[int, int, int]
    """Height, width and channels that its training images were stored in: hashes of other sizes do not compare."""
    depth: int
    """Bits per pixel of its training images."""
    dimension: int
    """Length of an embedding."""
    measure: str
    """Distance that its loss is about, by its name in `memorisk.scores.distances`."""
    loss: str
    """Loss of its training: "triplet" or "infonce"; for the Siamese kinds "bce", "ntxent" or "bce + ntxent"."""
    protocol: str
    """Protocol of its training: "paper" or "corrected"."""
    recipe: Mapping[str, Any]
    """Every setting of its training, seeds among them."""
    departures: tuple[str, ...]
    """Departures of the training from METHODS, one sentence each: the published code's own ways."""
    best_epoch: int
    """Epoch of these weights; 0 for a detector that was not trained."""
    data_hash: str
    """Hash of the store it was trained from."""
    groups_given: bool
    """Whether the patient of each image was known."""
    versions: Mapping[str, str]
    """Versions of the libraries."""
    published: Mapping[str, str] = field(default_factory=dict)
    """Entries ``version``, ``licence`` and ``data`` (its training data, in words) of a detector that is published with
    memorisk; empty for one that a user trained."""
    earlier: bool = False
    """Whether the detector that it began with has seen images; the folder ``earlier`` has their record."""


@dataclass(frozen=True)
class SeenImages:
    """Images of a set that a detector has seen."""

    part: np.ndarray
    """Part of each image, [N] of str: "training", "validation" (chose its epoch), or "" for images and patients it
    never met."""
    pixels_compared: bool
    """Whether images could be compared by their pixels, or none were seen; else only their patients' ids were
    compared."""
    missing: frozenset[str] | None = None
    """Hashes of training images which the set does not hold, nor, where pixels do not compare, another image of their
    patients; None where that is not known."""
    unknown: tuple[str, ...] = ()
    """Names of weights that it began with, whose training data is unknown."""


def match_seen(config: DetectorConfig, seen: pd.DataFrame, store: ImageStore) -> SeenImages:
    """Return which images of a store a detector met.

    Args:
        config: Configuration of the detector.
        seen: Table with ``part, pixel_hash, group_hash`` of each image that it was trained or chosen on.
        store: Store of the images.
    """
    alike = tuple(store.images.shape[1:]) == config.stored
    alike &= store.images.dtype.itemsize * 8 == config.depth
    alike |= seen.empty
    groups = group_hashes(store.manifest.groups, config.data_hash)
    part = np.full(len(groups), "", dtype=object)
    for name in ("validation", "training"):  # an image that was both counts as trained on
        part_rows = seen.loc[seen["part"] == name]
        met = np.isin(groups, part_rows["group_hash"].tolist())
        if alike:
            met |= np.isin(store.pixel_hashes.astype(str), part_rows["pixel_hash"].tolist())
        part[met] = name
    return SeenImages(part, alike)


def save_detector(
    folder: str | Path,
    tensors: Mapping[str, torch.Tensor],
    seen: pd.DataFrame,
    config: DetectorConfig,
    earlier: "TrainingRecord | None" = None,
) -> None:
    """Write weights, hashes and configuration to a folder, private and atomic, the configuration last.

    Args:
        folder: Folder to write to; it is made if it is missing.
        tensors: Tensors of the network, by name.
        seen: Table of seen images, as for `match_seen`.
        config: Configuration of the detector.
        earlier: Record of the detector that it began with.
    """
    target = Path(folder)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    if earlier is not None:
        (target / EARLIER).mkdir(mode=0o700, exist_ok=True)
        earlier.save(target / EARLIER)
    save_weights(target / WEIGHTS, tensors)
    write_table(target / SEEN, seen, recorded=True)
    write_json(target / CONFIG, {"format": 1, **json_value(asdict(config))}, recorded=True)


def group_hashes(groups: np.ndarray, key: str) -> np.ndarray:
    """Return hashes of patients' ids, [N], keyed so that two data sets do not share them.

    Args:
        groups: Ids of the patients, [N] str.
        key: Key of the data set.
    """
    names, index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    return np.array([fingerprint(key, name, length=32) for name in names], dtype=object)[index]


def seen_table(groups: np.ndarray, hashes: np.ndarray, data_hash: str, rows: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Tabulate ``part, pixel_hash, group_hash`` of each image of a training or a choice.

    Args:
        groups: Ids of the patients, [N], as in the manifest.
        hashes: Hashes of the pixels, [N].
        data_hash: Key of the patients' hashes.
        rows: Rows of each part, "training" and "validation".
    """
    of_groups, of_pixels = group_hashes(groups, data_hash), hashes.astype(str)
    parts = [pd.DataFrame(dict(zip(COLUMNS, (n, of_pixels[r], of_groups[r]), strict=True))) for n, r in rows.items()]
    return pd.concat(parts, ignore_index=True)


def read_seen(folder: Path) -> pd.DataFrame:
    """Read ``part, pixel_hash, group_hash`` of each image that a detector was trained or chosen on.

    Raises:
        InputError: The file is missing or damaged.
    """
    try:
        return read_table(folder / SEEN).loc[:, list(COLUMNS)]
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(folder / SEEN)} cannot be read: {one_line(error, 120)}") from None


def read_config(folder: Path) -> DetectorConfig:
    """Read ``detector.json``; a Siamese detector has a `memorisk.models.lcmem.LatentConfig`.

    Raises:
        InputError: The file is missing, or of another kind or form.
    """
    file = folder / CONFIG
    if not file.is_file():
        why = f"there is no {CONFIG} in it" if folder.is_dir() else "the folder does not exist"
        raise InputError(
            f"{one_line(folder)} holds no detector: {why}. A folder of `memorisk train detector` holds one, and "
            f"`{DEFAULT_DETECTOR}` is the one that comes with memorisk"
        )
    try:
        description = read_json(file)
        kind = description["kind"]
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(file)} is not a description of a detector: {one_line(error, 120)}") from None
    if kind not in DETECTOR_KINDS:
        raise unknown_name("kind of detector", kind, DETECTOR_KINDS)
    form = _form(kind)
    names = [one.name for one in fields(form) if one.name in description]
    must = [one.name for one in fields(form) if one.default is one.default_factory is MISSING]
    absent = [name for name in must if name not in description]
    if absent or description.get("format") != 1:
        what = f"it lacks {', '.join(absent)}" if absent else f"its format is {description.get('format')}"
        raise InputError(f"{one_line(file)} is not of this version of memorisk: {what}")
    how = description["preprocessing"]
    try:
        preprocessing = Preprocessing(tuple(how["size"]), how["channels"], tuple(how["mean"]), tuple(how["std"]))
        values: dict[str, Any] = {name: tuple(v) if isinstance(v := description[name], list) else v for name in names}
        values["preprocessing"] = preprocessing
        config = form(**values)
        if config.published and (lacking := PUBLISHED - set(config.published)):
            raise ValueError(f"published lacks {', '.join(sorted(lacking))}")
        return config
    except CONTENT_ERRORS as error:
        raise InputError(f"{one_line(file)} is damaged: {one_line(error, 120)}") from None


def _form(kind: str) -> type[DetectorConfig]:
    """Return the class of a kind's configuration."""
    if kind == COPY_DETECTOR:
        return DetectorConfig
    from memorisk.models.lcmem import LatentConfig

    return LatentConfig


def copy_tensors(own: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Copy tensors into a network's if every one is there, fits and is finite.

    Args:
        own: Live tensors of the network by name.
        tensors: Tensors of the file by name.
        folder: Folder of the file, for the message.

    Raises:
        InputError: The tensors do not.
    """
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} is unknown" for name in tensors if name not in own]
    both = [name for name in own if name in tensors]
    wrong += [
        f"{n} is {list(tensors[n].shape)}, not {list(own[n].shape)}" for n in both if tensors[n].shape != own[n].shape
    ]
    wrong += [f"{n} is not finite" for n in both if not torch.isfinite(tensors[n]).all()]
    if wrong:
        more = f"; {len(wrong)} in all" if len(wrong) > _LISTED else ""
        raise InputError(f"{one_line(folder / WEIGHTS)} does not fit its {CONFIG}: {'; '.join(wrong[:_LISTED])}{more}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """Record of the images that a network was trained and chosen on.

    Attributes:
        table: Table with ``part, pixel_hash, group_hash`` of each; the hashes of patients are keyed by ``data_hash``.
        data_hash: Hash of the store that they came from.
        stored: Height, width and channels that they were stored in: hashes of other sizes do not compare.
        depth: Bits per pixel of them.
        groups_given: Whether patients are known: names of files, used in their place, occur anywhere and do not
            compare.
        earlier: Record of the weights that it began with, where that is known.
        unknown: Name of weights at its beginning whose training data is unknown; "" where there are none.
    """

    table: pd.DataFrame
    data_hash: str
    stored: tuple[int, int, int]
    depth: int
    groups_given: bool = True
    earlier: "TrainingRecord | None" = None
    unknown: str = ""

    @classmethod
    def of(
        cls,
        store: ImageStore,
        rows: dict[str, np.ndarray],
        *,
        earlier: "TrainingRecord | None" = None,
        unknown: str = "",
    ) -> "TrainingRecord":
        """Record a training.

        Args:
            store: Store of its images.
            rows: Rows of each part, "training" and "validation".
            earlier: Record of the weights that it began with.
            unknown: Name of weights at its beginning whose training data is unknown.
        """
        table = seen_table(store.manifest.groups, store.pixel_hashes, store.data_hash, rows)
        _, height, width, channels = (int(n) for n in store.images.shape)
        depth = store.images.dtype.itemsize * 8
        has_groups = store.manifest.groups_given
        return cls(table, store.data_hash, (height, width, channels), depth, has_groups, earlier, unknown)

    @property
    def n_training(self) -> int:
        """Count the different images of its training and of earlier ones; one image in two sizes counts twice."""
        return len(self._trained_hashes())

    @property
    def identity(self) -> str:
        """Return the fingerprint of the images, here and earlier."""
        before = "" if self.earlier is None else self.earlier.identity
        return fingerprint(self.table.to_numpy().tolist(), self.stored, self.depth, self.unknown, before, length=32)

    def parts(self, store: ImageStore) -> SeenImages:
        """Return which images of a store, or whose patients' other images, were among them, here or earlier.

        Args:
            store: Store of the images.
        """
        groups, hashes = group_hashes(store.manifest.groups, self.data_hash), store.pixel_hashes.astype(str)
        alike = tuple(store.images.shape[1:]) == self.stored and store.images.dtype.itemsize * 8 == self.depth
        by_group = self.groups_given and store.manifest.groups_given
        part = np.full(len(groups), "", dtype=object)
        for name in ("validation", "training"):  # an image that was both counts as trained on
            part_rows = self.table.loc[self.table["part"] == name]
            met = np.isin(groups, part_rows["group_hash"].tolist()) & by_group
            met |= np.isin(hashes, part_rows["pixel_hash"].tolist()) & alike
            part[met] = name
        trained = self.table.loc[self.table["part"] == "training"]
        present = trained["pixel_hash"].isin(hashes) if alike else trained["group_hash"].isin(groups)
        missing = frozenset(trained["pixel_hash"][~present]) if alike or by_group else None
        own = SeenImages(part, alike, missing, (self.unknown,) if self.unknown else ())
        if self.earlier is None:
            return own
        before = self.earlier.parts(store)
        both = None if missing is None or before.missing is None else missing | before.missing
        return replace(join_seen(own, self.earlier, store), missing=both, unknown=(*before.unknown, *own.unknown))

    def save(self, folder: Path) -> None:
        """Write the record to an existing folder, private and atomic, the description last."""
        write_table(folder / SEEN, self.table, recorded=True)
        if self.earlier is not None:
            (folder / EARLIER).mkdir(mode=0o700, exist_ok=True)
            self.earlier.save(folder / EARLIER)
        origin = {"format": 1, "data_hash": self.data_hash, "stored": self.stored, "depth": self.depth}
        origin |= {"groups_given": self.groups_given, EARLIER: self.earlier is not None, "unknown": self.unknown}
        write_json(folder / ORIGIN, origin, recorded=True)

    def _trained_hashes(self) -> set[tuple[tuple[int, ...], int, str]]:
        """Return hashes of the images that were trained on, here and earlier, with their size."""
        own = self.table.loc[self.table["part"] == "training", "pixel_hash"].tolist()
        before = set() if self.earlier is None else self.earlier._trained_hashes()
        return before | {(self.stored, self.depth, value) for value in own}


def join_seen(own: SeenImages, other: TrainingRecord | None, store: ImageStore) -> SeenImages:
    """Join the images that a network has seen with those of the encoder below it.

    Args:
        own: Images that the network has seen.
        other: Record of the encoder; None where that is not known or there is none.
        store: Store of the images that `own` describes.
    """
    if other is None:
        return own
    its = other.parts(store)
    part = np.where((own.part == "") | (its.part == "training"), its.part, own.part).astype(object)
    return replace(own, part=part, pixels_compared=own.pixels_compared and its.pixels_compared)


def read_training_record(folder: Path) -> TrainingRecord | None:
    """Read the record that `TrainingRecord.save` wrote; None in a folder of another origin.

    Raises:
        InputError: The record is damaged.
    """
    if not (folder / ORIGIN).is_file():
        return None
    try:
        origin = read_json(folder / ORIGIN)
        height, width, channels = (int(n) for n in origin["stored"])
        table = read_table(folder / SEEN).loc[:, list(COLUMNS)]
        earlier = read_training_record(folder / EARLIER) if origin.get(EARLIER, False) else None
        if earlier is None and origin.get(EARLIER, False):
            raise ValueError(f"{EARLIER}/{ORIGIN}, of what it began with, is missing")
        has_groups, unknown = bool(origin.get("groups_given", True)), one_line(origin.get("unknown", ""), 80)
        size, depth = (height, width, channels), int(origin["depth"])
        return TrainingRecord(table, str(origin["data_hash"]), size, depth, has_groups, earlier, unknown)
    except CONTENT_ERRORS as error:
        raise InputError(f"what {one_line(folder)} was trained on cannot be read: {one_line(error, 120)}") from None
