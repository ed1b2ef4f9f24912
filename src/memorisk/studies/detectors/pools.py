"""Division of patients into parts, pools of references of one size, and augmented copies.

Patients are divided at random into five parts, each patient equally likely in each place, however many images there
are:

=================  ====================================================================================================
``train``          detectors are trained on them and measures fitted on them
``validation``     choose the epoch of a training and the measure of a detector
``test``           chose nothing; corrected detection is judged on their copies
``null``           have no image in any pool: new patients for the train and validation pools
``test_null``      have no image in any pool: new patients for the test pool
=================  ====================================================================================================

The two nulls are different patients, so that the threshold at which a measure was chosen and the one at which it is
judged share no patient.

Augmented copies of the parts' images are pictures of patients, changed a little. They are made once per run, the same
for every detector. They are in the run folder, readable by its owner alone, only while detectors are computed from
them; the same seed makes the same copies again.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore
from memorisk.runs.arrays import reserve_array
from memorisk.runs.checksums import is_intact
from memorisk.runs.errors import InputError
from memorisk.runs.files import atomic_path, read_array, read_table, write_table
from memorisk.runs.workload import Progress
from memorisk.statistics.copies.calibration import equal_pools, identities_needed
from memorisk.training.detectors.contrastive.augmentations import blank_rows

POOLS = ("train", "validation", "test")
NULLS = {"train": "null", "validation": "null", "test": "test_null"}
"""Name of the part that is the null of each pool."""
PARTS = (*POOLS, "null", "test_null")


@dataclass(frozen=True, eq=False)
class Parts:
    """Division of a set of images.

    Attributes:
        part: Part of each image, [N], of `PARTS`; empty for images that are left out.
        groups: Patient of each image, [N]; those with an identical image are merged.
        pools: Rows of the references of each pool, equally many in each; their copies are its queries.
        pixels: Code of each image's pixels, [N]: the same for identical images.
    """

    part: np.ndarray
    groups: np.ndarray
    pools: dict[str, np.ndarray]
    pixels: np.ndarray

    def rows(self, *parts: str) -> np.ndarray:
        """Return the rows of some parts, in the order of the images."""
        return np.flatnonzero(np.isin(self.part, parts))

    def patients(self, *parts: str) -> int:
        """Count the patients of some parts."""
        return len(np.unique(self.groups[self.rows(*parts)].astype(str)))

    @property
    def copied(self) -> np.ndarray:
        """Return the rows of the images to copy: all of the train, validation and test parts."""
        return self.rows(*POOLS)

    def same_image(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return whether rows hold the same image, pixel for pixel."""
        return self.pixels[one] == self.pixels[other]

    def table(self, images: np.ndarray) -> pd.DataFrame:
        """Return one row per image: its id, patient, part, and whether it is a reference of its pool."""
        reference = np.zeros(len(self.part), dtype=bool)
        for rows in self.pools.values():
            reference[rows] = True
        columns = {"image": images, "patient": self.groups, "part": self.part}
        return pd.DataFrame(columns, dtype=object).assign(reference=reference, pixels=self.pixels)


def divide(store: ImageStore, shares: Sequence[float], *, seed: int, specificity: float) -> Parts:
    """Divide the patients of a store; images of one grey level are left out, since their copies cannot be recognised.

    Args:
        store: Store of the images.
        shares: Shares of the patients: train, validation, test, both nulls together.
        seed: Random seed of the division and of the choice of references.
        specificity: Specificity of the thresholds that the nulls have to make, from half of their patients each.

    Raises:
        InputError: There are too few patients for a part or for a threshold.
    """
    groups = merge_linked(store.manifest.groups, linked_groups(store.pixel_hashes, store.manifest.groups))
    blank = blank_rows(store.images, np.arange(len(groups)))
    names = np.unique(np.delete(groups, blank).astype(str))
    ends = np.rint(np.cumsum([*shares[:3], shares[3] / 2]) * len(names)).astype(int)
    place = np.searchsorted(ends, np.arange(len(names)), side="right")
    part_of_group = np.empty(len(names), dtype=object)
    part_of_group[np.random.default_rng(seed).permutation(len(names))] = np.array(PARTS, dtype=object)[place]
    part = np.full(len(groups), "", dtype=object)
    not_blank = np.setdiff1d(np.arange(len(groups)), blank)
    part[not_blank] = part_of_group[np.searchsorted(names, groups[not_blank].astype(str))]
    _refuse_few({name: int((part_of_group == name).sum()) for name in PARTS}, len(names), specificity)
    rows = {name: np.flatnonzero(part == name) for name in POOLS}
    smallest = min(rows.values(), key=len)
    pools = {
        name: mine[equal_pools(groups[mine].astype(str), groups[smallest].astype(str), seed=seed)[0]]
        for name, mine in rows.items()
    }
    return Parts(part, groups, pools, pd.factorize(np.asarray(store.pixel_hashes, dtype=object))[0])


def _refuse_few(patients: dict[str, int], total: int, specificity: float) -> None:
    """Refuse parts with too few patients for any result.

    Raises:
        InputError: There are such parts.
    """
    needed = identities_needed(specificity)
    for name in ("null", "test_null"):
        n_threshold = (patients[name] + 1) // 2
        if n_threshold < needed:
            raise InputError(
                f"the shares leave {patients[name]} of {total:,} patients for the null of a pool, half of which make "
                f"its threshold; specificity {specificity:g} needs {2 * needed} of them: give the null (the last of "
                "shares) a larger share, or lower specificity"
            )
    for name in POOLS:
        if patients[name] < 2:
            raise InputError(
                f"the shares leave {patients[name]} of {total:,} patients for the {name} part, and two are needed"
            )


COPIES = "copies"
_IMAGES, _ROWS = "images.npy", "rows.parquet"


@dataclass(frozen=True)
class CopyRows:
    """Folder with the copies of one strength.

    Attributes:
        folder: Folder with ``images.npy`` [n, H, W, C] and ``rows.parquet``.
    """

    folder: Path

    @property
    def done(self) -> bool:
        """Return whether the copies are all there."""
        return is_intact(self.folder / _ROWS) and is_intact(self.folder / _IMAGES)

    def store(self, manifest: Manifest) -> ImageStore:
        """Return the copies as a store, in the order of the rows they are copies of.

        Args:
            manifest: Manifest of all images.
        """
        rows = read_table(self.folder / _ROWS)
        images = read_array(self.folder / _IMAGES, mmap=True)
        nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
        hashes, of = rows["pixel_hash"].to_numpy(dtype=object), rows["row"].to_numpy()
        return ImageStore(images, manifest.subset(of), self.folder.name, self.folder, nothing, hashes)


def make_copies(
    out: Path, store: ImageStore, rows: np.ndarray, strength: str, *, seed: int, progress: Progress
) -> CopyRows:
    """Make copies of some images at one strength, or return those that were made before.

    Args:
        out: Folder of the run.
        store: Store of the images.
        rows: Rows of the images to copy.
        strength: "weak" or "strong".
        seed: Random seed of the copies.
        progress: Function that is called with (stage, done, total).

    Raises:
        InputError: An image cannot be copied.
        MissingExtraError: kornia is not installed.
    """
    from memorisk.training.detectors.contrastive.augmentations import augmented_copies

    copies = CopyRows(out / COPIES / strength)
    if copies.done:
        return copies
    copies.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic_path(copies.folder / _IMAGES, recorded=True) as temporary:
        reserve_array(temporary, (len(rows), *store.images.shape[1:]), store.images.dtype)
        images = np.load(temporary, mmap_mode="r+", allow_pickle=False)
        report_progress = partial(progress, f"making {strength} copies")
        augmented_copies(store.images, rows, strength, seed=seed, out=images, progress=report_progress)
        hashes = [hash_pixels(image) for image in images]
        images.flush()
    table = pd.DataFrame({"row": rows, "pixel_hash": np.array(hashes, dtype=object)})
    write_table(copies.folder / _ROWS, table, recorded=True)
    return copies


def remove_copies(out: Path) -> None:
    """Remove the copies of a run; their measurements stay."""
    shutil.rmtree(out / COPIES, ignore_errors=True)
