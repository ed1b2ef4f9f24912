"""The folder of a detector, of whatever kind: what its files say, and whom it has seen.

It holds ``weights.safetensors``, ``detector.json`` (how it was made, and how pixels reach it) and ``seen.parquet``:
hashes of the images and patients that it was trained and chosen on, which say whether an audit may use it (METHODS
section 5: a detector must have been trained on neither the training nor the held-out images of the generator, or on
both alike). No id, no path, no pixel is in it; the hashes of patients are keyed by the data set, but short ids can be
tried one by one, so treat a detector as confidential as its training data.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from memorisk.images.store import ImageStore
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.detectors.kinds import COPY, KINDS
from memorisk.runs.damaged import ASTRAY
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import atomic_path, plain, read_json, read_table, write_json, write_table
from memorisk.runs.fingerprint import fingerprint

CONFIG, WEIGHTS, SEEN = "detector.json", "weights.safetensors", "seen.parquet"
_LISTED = 3


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """What ``detector.json`` says."""

    kind: str
    """One of `KINDS`."""
    backbone: str
    """The network, as `memorisk.models.classifiers.specs` or timm names it."""
    weights: str
    """What it started from, named for what it is: a file's name, a tag, or that it was random."""
    weights_fingerprint: str
    """Of these weights."""
    preprocessing: Preprocessing
    """Of its input."""
    stored: tuple[int, int, int]
    """Height, width and channels that its training images were stored in: hashes of other sizes do not compare."""
    depth: int
    """Bits a pixel of them."""
    dimension: int
    """Numbers of an embedding."""
    measure: str
    """The distance that its loss is about, by its name in `memorisk.scores.distances`."""
    loss: str
    """"triplet" or "infonce"; of the Siamese kinds "bce", "ntxent" or "bce + ntxent"."""
    protocol: str
    """"paper" or "corrected"."""
    recipe: Mapping[str, Any]
    """Every setting of its training, seeds among them."""
    departures: tuple[str, ...]
    """Where the training is not as METHODS has it, a sentence each: the published code's own ways."""
    best_epoch: int
    """Whose weights these are; 0 for a detector that was not trained."""
    data_hash: str
    """Of the store it was trained from."""
    groups_given: bool
    """Whether it was known whose each image is."""
    versions: Mapping[str, str]
    """Of the libraries."""


@dataclass(frozen=True)
class Seen:
    """Which images of a set a detector has seen."""

    part: np.ndarray
    """[N] of str: "training", "validation" (chose its epoch), or "" for images and patients that it never met."""
    pixels_compared: bool
    """Whether images could be compared by their pixels; else only their patients' ids were."""
    missing: frozenset[str] | None = None
    """Hashes of training images which the set does not hold, nor, where pixels do not compare, another image of their
    patients; None where that is not known."""
    unknown: tuple[str, ...] = ()
    """Names of weights that it began with, of which nobody knows what they were trained on."""


def seen_parts(config: DetectorConfig, seen: pd.DataFrame, store: ImageStore) -> Seen:
    """Which images of a store a detector met.

    Args:
        config: Of the detector.
        seen: ``part, pixel_hash, group_hash`` of each image that it was trained or chosen on.
        store: The images.
    """
    alike = tuple(store.images.shape[1:]) == config.stored
    alike &= store.images.dtype.itemsize * 8 == config.depth
    groups = group_hashes(store.manifest.groups, config.data_hash)
    part = np.full(len(groups), "", dtype=object)
    for name in ("validation", "training"):  # an image that was both counts as trained on
        known = seen.loc[seen["part"] == name]
        met = np.isin(groups, known["group_hash"].tolist())
        if alike:
            met |= np.isin(store.pixel_hashes.astype(str), known["pixel_hash"].tolist())
        part[met] = name
    return Seen(part, alike)


def save_detector(
    folder: str | Path, tensors: Mapping[str, torch.Tensor], seen: pd.DataFrame, config: DetectorConfig
) -> None:
    """Write weights, hashes and configuration to a folder, private and atomic, the configuration last.

    Args:
        folder: Made if it is not there.
        tensors: Of the network, by name.
        seen: As for `seen_parts`.
        config: Of the detector.
    """
    target = Path(folder)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain_tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with atomic_path(target / WEIGHTS) as temporary:
        save_file(plain_tensors, temporary)
    write_table(target / SEEN, seen)
    write_json(target / CONFIG, {"format": 1, **plain(asdict(config))})


def group_hashes(groups: np.ndarray, key: str) -> np.ndarray:
    """[N] hashes of patients' ids, keyed so that two data sets do not share them.

    Args:
        groups: [N] str.
        key: Of the data set.
    """
    names, index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    return np.array([fingerprint(key, name, length=32) for name in names], dtype=object)[index]


def read_seen(folder: Path) -> pd.DataFrame:
    """``part, pixel_hash, group_hash`` of each image that a detector was trained or chosen on.

    Raises:
        InputError: The file is missing or damaged.
    """
    try:
        return read_table(folder / SEEN).loc[:, ["part", "pixel_hash", "group_hash"]]
    except ASTRAY as error:
        raise InputError(f"{one_line(folder / SEEN)} cannot be read: {one_line(error, 120)}") from None


def read_config(folder: Path) -> DetectorConfig:
    """What ``detector.json`` says; of a Siamese detector a `memorisk.models.detectors.lcmem.LatentConfig`.

    Raises:
        InputError: There is none, or it is of another kind or form.
    """
    file = folder / CONFIG
    if not file.is_file():
        raise InputError(f"{one_line(folder)} holds no detector: there is no {CONFIG} in it")
    try:
        found = read_json(file)
        kind = found["kind"]
    except ASTRAY as error:
        raise InputError(f"{one_line(file)} is no description of a detector: {one_line(error, 120)}") from None
    if kind not in KINDS:
        raise unknown_name("kind of detector", kind, KINDS)
    form = _form(kind)
    names = [field.name for field in fields(form)]
    absent = [name for name in names if name not in found]
    if absent or found.get("format") != 1:
        what = f"it lacks {', '.join(absent)}" if absent else f"its format is {found.get('format')}"
        raise InputError(f"{one_line(file)} is not of this version of memorisk: {what}")
    how = found["preprocessing"]
    try:
        preprocessing = Preprocessing(tuple(how["size"]), how["channels"], tuple(how["mean"]), tuple(how["std"]))
        given: dict[str, Any] = {name: tuple(v) if isinstance(v := found[name], list) else v for name in names}
        given["preprocessing"] = preprocessing
        return form(**given)
    except ASTRAY as error:
        raise InputError(f"{one_line(file)} is damaged: {one_line(error, 120)}") from None


def _form(kind: str) -> type[DetectorConfig]:
    """What the configuration of a kind holds."""
    if kind == COPY:
        return DetectorConfig
    from memorisk.models.detectors.lcmem import LatentConfig

    return LatentConfig


def put_tensors(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Copy tensors into a network's if every one is there, fits and is finite.

    Args:
        wanted: The live tensors by name.
        found: What a file holds.
        folder: Of the file, for the message.

    Raises:
        InputError: They do not.
    """
    wrong = [f"{name} is missing" for name in wanted if name not in found]
    wrong += [f"{name} is unknown" for name in found if name not in wanted]
    both = [name for name in wanted if name in found]
    wrong += [
        f"{n} is {list(found[n].shape)}, not {list(wanted[n].shape)}" for n in both if found[n].shape != wanted[n].shape
    ]
    wrong += [f"{n} is not finite" for n in both if not torch.isfinite(found[n]).all()]
    if wrong:
        more = f"; {len(wrong)} in all" if len(wrong) > _LISTED else ""
        raise InputError(f"{one_line(folder / WEIGHTS)} does not fit its {CONFIG}: {'; '.join(wrong[:_LISTED])}{more}")
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(found[name])
