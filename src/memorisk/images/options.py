"""Settings for finding, reading and resizing images: one frozen dataclass for Python, the command line and YAML.

The line below each field is its help on the command line.
"""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from memorisk.images.pixel_form import LEAST_VOXELS
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.options import grouped
from memorisk.runs.settings import check_counts, check_types
from memorisk.runs.storage.locations import url_of

Layout = Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"]
Frames = Literal["auto", "first", "middle", "all", "volume"]
Plane = Literal["axial", "coronal", "sagittal"]
Window = Literal["declared", "percentile", "full"]
Resize = Literal["squash", "crop", "pad"]

MAX_PIXELS = 100_000_000  # per frame; the largest mammograms have about 30 million, a decoded frame here takes 0.3 GB
_OF_REAL_IMAGES = (
    "image_root",
    "image_column",
    "path_column",
    "label_column",
    "drop_label",
    "group_column",
    "split_column",
    "dataset_column",
    "labels_csv",
    "label_from",
    "group_from",
)
"""Settings that name real images; a synthetic image has no person and takes part by its pixels alone."""


@grouped("images", essential="layout image_root image_column label_column group_column group_from size")
@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Options of finding, grouping, labelling, reading and resizing images. Checked by :meth:`validate` where used."""

    VOLUMES: ClassVar[bool] = False
    """Whether a command whose settings derive from these takes volumes."""

    layout: Layout = "auto"
    """Kind of source; auto detects it. Required where more than a tenth of a folder's images are of another kind."""
    image_root: Path | None = None
    """Folder that the paths in a table are relative to; by default the table's folder."""
    follow_links: bool = False
    """Follow symbolic links that lead out of the folder."""

    image_column: str | None = None
    """Column (or array, in npz and HDF5) with the image ids; by default found by its usual names."""
    path_column: str | None = None
    """Column with the file of each image, where it differs from the image column."""
    label_column: str | None = None
    """Column, array or DICOM tag with the label; several 0/1 columns as A,B,C."""
    group_column: str | None = None
    """Column or array with the patient, lesion or video; name the image column to make each image its own group."""
    split_column: str | None = None
    """Column or array with the given split: train, val, test."""
    dataset_column: str | None = None
    """Column with the data set that each image comes from."""
    labels_csv: Path | None = None
    """CSV or Parquet table with labels, matched to files by path, name, name without suffix or SOP instance UID."""
    drop_label: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = ()
    """Labels that say nothing, as - or unknown: images that have no other are left out and counted."""
    label_from: str | None = None
    """Regular expression that finds the label in a file's path below the source; its first group is the label."""
    group_from: str | None = None
    """Regular expression that finds the patient or other group in a file's name (its path, if it has a slash)."""
    dicom_group: str = "PatientID"
    """DICOM tag (keyword) that identifies the patient or other group."""

    frames: Frames = "auto"
    """Frames used of a stack; auto: the middle one of DICOM and NIfTI, the first page of TIFF and GIF; volume: all
    slices of a NIfTI file or DICOM series as one image."""
    frame_step: int = 1
    """Use every n-th frame with --frames all, counted so that the middle one is included."""
    slice_plane: Plane = "axial"
    """Plane in which NIfTI volumes are sliced, after rotation to the nearest standard orientation."""

    depth: Literal[8, 16] = 8
    """Bits per pixel of decoded images; 16 keeps the grey levels of deeper sources."""
    window: Window = "declared"
    """Grey window of deep sources: as the file declares it, percentiles 0.5 to 99.5, or the full range."""
    size: int | None = None
    """Resize every image to this side in pixels. Required when images differ in size."""
    resize: Resize = "squash"
    """Rule that makes images square: squash, crop the centre, or pad with black."""
    channels: Literal["auto", 1, 3] = "auto"
    """Colour channels; auto: 1 if every image is grey, otherwise 3."""
    max_pixels: int = MAX_PIXELS
    """Most pixels that a frame may declare. Larger ones are refused before they are decoded."""

    skip_missing: bool = False
    """Skip and count the rows of a table whose file is missing."""
    skip_unreadable: bool = False
    """Skip and count images that cannot be read."""
    sample: int | None = None
    """Use a random sample of this many images, stratified by first-listed label, after skipping."""
    sample_seed: int = 0
    """Random seed for --sample."""
    store: Path | None = None
    """Folder that keeps decoded images for later runs."""

    def validate(self) -> None:
        """Check every value; a run calls this once, at its edge.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.store is not None and (url := url_of(self.store, refuse_unknown=True)) is not None:
            raise InputError(f"store {url}: decoded images are read in place; name a folder of this machine")
        check_counts(self, frame_step=1, max_pixels=1, size=1, sample=1, sample_seed=0)
        if self.size is not None and self.size**2 > self.max_pixels:
            raise InputError(f"size is {self.size}; its square may be at most max_pixels ({self.max_pixels:,})")
        if self.frames == "volume":
            self._check_volumes()
        for field in ("group_from", "label_from"):
            pattern = getattr(self, field)
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise InputError(f"{field} '{one_line(pattern, 100)}' is not a regular expression: {error}") from None
        if self.group_from is not None and self.group_column is not None:
            raise InputError("group_from and group_column both say what a group is; give one of them")
        if self.label_from is not None and self.label_column is not None:
            raise InputError("label_from and label_column both say what the label is; give one of them")

    def _check_volumes(self) -> None:
        """Refuse what volumes do not have, and commands that take slices alone."""
        if type(self) is not ImageOptions and not self.VOLUMES:
            raise InputError(
                "frames volume: this command takes slices (frames auto, first, middle or all); volumes are read by "
                "images check, audit synthetic and audit generator"
            )
        if self.size is not None and self.size < LEAST_VOXELS:
            raise InputError(f"frames volume: size is {self.size}; a volume has at least {LEAST_VOXELS} voxels a side")
        for name in ("slice_plane", "resize", "channels"):
            if getattr(self, name) != getattr(ImageOptions, name):
                raise InputError(f"frames volume: {name} {getattr(self, name)} is for slices; leave it out")


def image_options(settings: ImageOptions) -> ImageOptions:
    """Select the image options from the settings of a command that inherits them."""
    return ImageOptions(**{f.name: getattr(settings, f.name) for f in fields(ImageOptions)})


def of_synthetic_images(settings: ImageOptions) -> ImageOptions:
    """Return the options of synthetic images that match these of real ones, without their columns and patterns."""
    free = {f.name: f.default for f in fields(ImageOptions) if f.name in _OF_REAL_IMAGES}
    return replace(image_options(settings), layout="auto", dicom_group="SOPInstanceUID", **free)
