"""The pixels that the audit of a generated set compared: ``compared.parquet`` in its run folder.

A release is bytes, and an audit looks at pixels of one size, with so many channels and bits. The listing has a hash of
these pixels for each image, in the order of the set, and why each file that was not read was not. A statement accepts
only files that hold these pixels and nothing else (`memorisk.audits.release.released_images`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from memorisk.images.pixel_form import PixelForm
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.files import read_table, write_table

COMPARED = "compared.parquet"
_COLUMNS = ("pixels", "label", "height", "width", "channels", "bits", "reason")


def training_labels(labels: Iterable[str], known: Iterable[str]) -> list[str]:
    """Leave empty the labels that no training image has.

    A label is free text: whole images fit into those of a table. The names of the training classes are the only labels
    that an audit has seen besides those of the set itself.

    Args:
        labels: Label of each generated image.
        known: Labels of training images.
    """
    classes = set(known)
    return [label if label in classes else "" for label in labels]


def labels_note(labels: Sequence[str], known: Iterable[str]) -> list[str]:
    """Note how many labels a set that is written leaves out.

    Args:
        labels: Label of each generated image, as for `training_labels`.
        known: Labels of training images, as for `training_labels`.
    """
    n_left = sum(label != own for label, own in zip(labels, training_labels(labels, known), strict=True))
    if not n_left:
        return []
    images = plural(n_left, "image has a label", "images have labels")
    return [f"{images} that no training image has: what is written leaves such labels out."]


@dataclass(frozen=True)
class ComparedImages:
    """The images of a set as an audit compared them.

    Attributes:
        pixels: Hash of the pixels of each image, in the order of the set.
        labels: Label of each, empty without one, and where no training image has it (`training_labels`).
        form: Size, channels and depth of all of them; None where no image was read.
        unread: Reason for each file that was not read.
    """

    pixels: tuple[str, ...]
    labels: tuple[str, ...]
    form: PixelForm | None
    unread: tuple[str, ...]

    @classmethod
    def of(cls, store: ImageStore, train: ImageStore) -> Self:
        """List the images of a store, which were compared with training images."""
        return cls(
            pixels=tuple(store.pixel_hashes.tolist()),
            labels=tuple(training_labels(store.manifest.labels.tolist(), train.manifest.labels.tolist())),
            form=PixelForm.of_array(store.images[0]) if len(store.images) else None,
            unread=tuple(map(str, store.skipped["reason"].tolist() + store.manifest.skipped["reason"].tolist())),
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the listing of a run.

        Args:
            folder: The run folder.

        Raises:
            InputError: An earlier memorisk wrote the run, without a listing.
        """
        if not (folder / COMPARED).is_file():
            raise InputError(
                f"{one_line(folder)} has no {COMPARED}: an earlier memorisk wrote it; issue the run's command again"
            )
        table = read_table(folder / COMPARED)
        read = table["reason"].to_numpy(dtype=object) == ""
        rows, unread = table.take(np.flatnonzero(read)), table.take(np.flatnonzero(~read))
        form = PixelForm(*(rows[name].tolist()[0] for name in _COLUMNS[2:6])) if len(rows) else None
        return cls(
            tuple(rows["pixels"].tolist()), tuple(rows["label"].tolist()), form, tuple(unread["reason"].tolist())
        )

    def write(self, folder: Path) -> None:
        """Write the listing into a run folder."""
        form = self.form or PixelForm(0, 0, 0, 0)
        shape = (form.height, form.width, form.channels, form.bits)
        read = [(*row, *shape, "") for row in zip(self.pixels, self.labels, strict=True)]
        unread = [("", "", 0, 0, 0, 0, reason) for reason in self.unread]
        table = pd.DataFrame([*read, *unread], columns=list(_COLUMNS), dtype=object)
        write_table(folder / COMPARED, table.astype(dict.fromkeys(_COLUMNS[2:6], np.int64)))
