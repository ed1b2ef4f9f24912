"""Whom an encoder of latents has seen: hashes of the images and patients that it was trained and chosen on.

An autoencoder that was trained on some of the images renders these better than others, and a detector on top of it is
as little a stranger to them as if it had been trained on them itself (METHODS section 5).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.store import ImageStore
from memorisk.models.detectors import SEEN, Seen, group_hashes
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, read_table, write_json, write_table

ORIGIN = "origin.json"
_COLUMNS = ["part", "pixel_hash", "group_hash"]


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The images that something was trained and chosen on.

    Attributes:
        table: ``part, pixel_hash, group_hash`` of each; the hashes of patients are keyed by ``data_hash``.
        data_hash: Of the store that they came from.
        stored: Height, width and channels that they were stored in: hashes of other sizes do not compare.
        depth: Bits a pixel of them.
    """

    table: pd.DataFrame
    data_hash: str
    stored: tuple[int, int, int]
    depth: int

    @classmethod
    def of(cls, store: ImageStore, rows: dict[str, np.ndarray]) -> "TrainedOn":
        """What is kept of a training.

        Args:
            store: Its images.
            rows: Of each part, "training" and "validation".
        """
        groups = group_hashes(store.manifest.groups, store.data_hash)
        hashes = store.pixel_hashes.astype(str)
        parts = [pd.DataFrame(dict(zip(_COLUMNS, (n, hashes[r], groups[r]), strict=True))) for n, r in rows.items()]
        _, height, width, channels = (int(n) for n in store.images.shape)
        depth = store.images.dtype.itemsize * 8
        return cls(pd.concat(parts, ignore_index=True), store.data_hash, (height, width, channels), depth)

    def parts(self, store: ImageStore) -> Seen:
        """Which images of a store, or other images of whose patients, were among them.

        Args:
            store: The images.
        """
        alike = tuple(store.images.shape[1:]) == self.stored and store.images.dtype.itemsize * 8 == self.depth
        groups = group_hashes(store.manifest.groups, self.data_hash)
        part = np.full(len(groups), "", dtype=object)
        for name in ("validation", "training"):  # an image that was both counts as trained on
            known = self.table.loc[self.table["part"] == name]
            met = np.isin(groups, known["group_hash"].tolist())
            if alike:
                met |= np.isin(store.pixel_hashes.astype(str), known["pixel_hash"].tolist())
            part[met] = name
        return Seen(part, alike)

    def save(self, folder: Path) -> None:
        """Write it to a folder that is there, private and atomic, the description last."""
        write_table(folder / SEEN, self.table)
        origin = {"format": 1, "data_hash": self.data_hash, "stored": self.stored, "depth": self.depth}
        write_json(folder / ORIGIN, origin)


def joined(own: Seen, other: TrainedOn | None, store: ImageStore) -> Seen:
    """Whom a network has seen together with the encoder that it stands on.

    Args:
        own: Of the network.
        other: Of the encoder; None where that is not known or there is none.
        store: The images that `own` is about.
    """
    if other is None:
        return own
    its = other.parts(store)
    part = np.where((own.part == "") | (its.part == "training"), its.part, own.part).astype(object)
    return Seen(part, own.pixels_compared and its.pixels_compared)


def read_trained_on(folder: Path) -> TrainedOn | None:
    """What `TrainedOn.save` left, or None in a folder of another origin.

    Raises:
        InputError: It is damaged.
    """
    if not (folder / ORIGIN).is_file():
        return None
    try:
        origin = read_json(folder / ORIGIN)
        height, width, channels = (int(n) for n in origin["stored"])
        table = read_table(folder / SEEN).loc[:, _COLUMNS]
        return TrainedOn(table, str(origin["data_hash"]), (height, width, channels), int(origin["depth"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"what {one_line(folder)} was trained on cannot be read: {one_line(error, 120)}") from None
