"""Whom an encoder of latents or a generator has seen: hashes of the images and patients it was trained and chosen on.

An autoencoder that was trained on some of the images renders these better than others, and a detector on top of it is
as little a stranger to them as if it had been trained on them itself (METHODS section 5). A network that began with the
weights of another may repeat whom that one saw: what those were trained on is kept beside its own.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.store import ImageStore
from memorisk.models.detectors.folder import SEEN, Seen, group_hashes
from memorisk.runs.damaged import ASTRAY
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_json, read_table, write_json, write_table
from memorisk.runs.fingerprint import fingerprint

ORIGIN, EARLIER = "origin.json", "earlier"
_COLUMNS = ["part", "pixel_hash", "group_hash"]


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The images that something was trained and chosen on.

    Attributes:
        table: ``part, pixel_hash, group_hash`` of each; the hashes of patients are keyed by ``data_hash``.
        data_hash: Of the store that they came from.
        stored: Height, width and channels that they were stored in: hashes of other sizes do not compare.
        depth: Bits a pixel of them.
        groups_given: Whether patients are: names of files, which stand in for them, occur anywhere and do not compare.
        earlier: What the weights that it began with were trained on, where that is known.
        unknown: Name of weights at its beginning of which that is not known; "" where there are none.
    """

    table: pd.DataFrame
    data_hash: str
    stored: tuple[int, int, int]
    depth: int
    groups_given: bool = True
    earlier: "TrainedOn | None" = None
    unknown: str = ""

    @classmethod
    def of(
        cls,
        store: ImageStore,
        rows: dict[str, np.ndarray],
        *,
        earlier: "TrainedOn | None" = None,
        unknown: str = "",
    ) -> "TrainedOn":
        """What is kept of a training.

        Args:
            store: Its images.
            rows: Of each part, "training" and "validation".
            earlier: As the attribute.
            unknown: Likewise.
        """
        groups = group_hashes(store.manifest.groups, store.data_hash)
        hashes = store.pixel_hashes.astype(str)
        parts = [pd.DataFrame(dict(zip(_COLUMNS, (n, hashes[r], groups[r]), strict=True))) for n, r in rows.items()]
        _, height, width, channels = (int(n) for n in store.images.shape)
        depth = store.images.dtype.itemsize * 8
        table = pd.concat(parts, ignore_index=True)
        given = store.manifest.groups_given
        return cls(table, store.data_hash, (height, width, channels), depth, given, earlier, unknown)

    @property
    def n_training(self) -> int:
        """Different images that it or what it began with was trained on; one of two sizes counts twice."""
        return len(self._trained_hashes())

    @property
    def identity(self) -> str:
        """Fingerprint of the images, here and earlier."""
        before = "" if self.earlier is None else self.earlier.identity
        return fingerprint(self.table.to_numpy().tolist(), self.stored, self.depth, self.unknown, before, length=32)

    def parts(self, store: ImageStore) -> Seen:
        """Which images of a store, or other images of whose patients, were among them, here or earlier.

        Args:
            store: The images.
        """
        groups, hashes = group_hashes(store.manifest.groups, self.data_hash), store.pixel_hashes.astype(str)
        alike = tuple(store.images.shape[1:]) == self.stored and store.images.dtype.itemsize * 8 == self.depth
        by_group = self.groups_given and store.manifest.groups_given
        part = np.full(len(groups), "", dtype=object)
        for name in ("validation", "training"):  # an image that was both counts as trained on
            known = self.table.loc[self.table["part"] == name]
            met = np.isin(groups, known["group_hash"].tolist()) & by_group
            met |= np.isin(hashes, known["pixel_hash"].tolist()) & alike
            part[met] = name
        trained = self.table.loc[self.table["part"] == "training"]
        there = trained["pixel_hash"].isin(hashes) if alike else trained["group_hash"].isin(groups)
        missing = frozenset(trained["pixel_hash"][~there]) if alike or by_group else None
        own = Seen(part, alike, missing, (self.unknown,) if self.unknown else ())
        if self.earlier is None:
            return own
        before = self.earlier.parts(store)
        both = None if missing is None or before.missing is None else missing | before.missing
        return replace(joined(own, self.earlier, store), missing=both, unknown=(*before.unknown, *own.unknown))

    def save(self, folder: Path) -> None:
        """Write it to a folder that is there, private and atomic, the description last."""
        write_table(folder / SEEN, self.table)
        if self.earlier is not None:
            (folder / EARLIER).mkdir(mode=0o700, exist_ok=True)
            self.earlier.save(folder / EARLIER)
        origin = {"format": 1, "data_hash": self.data_hash, "stored": self.stored, "depth": self.depth}
        origin |= {"groups_given": self.groups_given, EARLIER: self.earlier is not None, "unknown": self.unknown}
        write_json(folder / ORIGIN, origin)

    def _trained_hashes(self) -> set[tuple[tuple[int, ...], int, str]]:
        """Hashes of the images that were trained on, here and earlier, with the size they are of."""
        mine = self.table.loc[self.table["part"] == "training", "pixel_hash"].tolist()
        before = set() if self.earlier is None else self.earlier._trained_hashes()
        return before | {(self.stored, self.depth, value) for value in mine}


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
    return replace(own, part=part, pixels_compared=own.pixels_compared and its.pixels_compared)


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
        earlier = read_trained_on(folder / EARLIER) if origin.get(EARLIER, False) else None
        if earlier is None and origin.get(EARLIER, False):
            raise ValueError(f"{EARLIER}/{ORIGIN}, of what it began with, is missing")
        given, unknown = bool(origin.get("groups_given", True)), one_line(origin.get("unknown", ""), 80)
        size, depth = (height, width, channels), int(origin["depth"])
        return TrainedOn(table, str(origin["data_hash"]), size, depth, given, earlier, unknown)
    except ASTRAY as error:
        raise InputError(f"what {one_line(folder)} was trained on cannot be read: {one_line(error, 120)}") from None
