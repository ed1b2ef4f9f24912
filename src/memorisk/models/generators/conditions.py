"""Pseudo-conditions (paper 004, sections 3.4 and 4.3): vectors of training images, which a generator learns from.

They are personal data as the images are: each row holds information on one image, and names it.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.runs.errors import ARRAY_ERRORS, InputError, one_line
from memorisk.runs.files import atomic_path, check_characters
from memorisk.runs.size_limits import check_arrays

CONDITIONS = "conditions.npz"
_TEXTS = ("images", "labels", "notes")


@dataclass(frozen=True, eq=False)
class Conditions:
    """Conditions of a generator's training images, one row each."""

    values: np.ndarray
    """Values of the conditions, [N, k] float32."""
    images: np.ndarray
    """Ids of the images in the set that the conditions were made from, [N] str."""
    labels: np.ndarray
    """Classes of the images, [N] str; empty text where there are none."""
    conditioning: str
    """Kind of the conditions, as ``prediction-label``."""
    notes: tuple[str, ...] = ()
    """Sentences on how they were made."""

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.values, dtype=np.float32)
        images, labels = (np.array([str(v) for v in column], dtype=str) for column in (self.images, self.labels))
        if values.ndim != 2 or len(values) != len(images) or len(values) != len(labels):
            raise InputError(
                f"conditions are of shape {values.shape} for {len(images)} images and {len(labels)} labels: give a row "
                "of numbers and a label to each image"
            )
        if not np.isfinite(values).all():
            raise InputError("conditions are not finite: every number of them must be")
        for name, value in (("values", values), ("images", images), ("labels", labels)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dimension(self) -> int:
        """Return how many numbers a condition has."""
        return int(self.values.shape[1])

    def rows(self, chosen: np.ndarray) -> "Conditions":
        """Return the conditions of some images, in this order; an image may repeat."""
        return Conditions(self.values[chosen], self.images[chosen], self.labels[chosen], self.conditioning, self.notes)

    def save(self, folder: Path) -> None:
        """Write ``conditions.npz`` to an existing folder, private and atomic, the same bytes each time."""
        parts = {
            "values": self.values,
            "images": self.images,
            "labels": self.labels,
            "conditioning": np.array(self.conditioning),
            "notes": np.array(self.notes, dtype=str),
        }
        with atomic_path(folder / CONDITIONS) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, array in parts.items():
                stamp = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                with archive.open(stamp, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> "Conditions":
        """Read what `save` wrote to a folder.

        Raises:
            InputError: The file is missing or damaged.
        """
        file = folder / CONDITIONS
        try:
            check_arrays(file)
            with np.load(file, allow_pickle=False) as arrays:
                texts = {name: check_characters(arrays[name]) for name in _TEXTS}
                notes = tuple(str(note) for note in texts["notes"].tolist())
                return cls(arrays["values"], texts["images"], texts["labels"], str(arrays["conditioning"]), notes)
        except FileNotFoundError:
            raise InputError(f"{one_line(folder)} holds no conditions: there is no {CONDITIONS} in it") from None
        except ARRAY_ERRORS as error:
            raise InputError(f"{one_line(file)} is not a table of conditions: {one_line(error, 120)}") from None
