"""The settings of how images are found, read and resized: one frozen dataclass for Python, the command line and YAML.

The line below each field is its help on the command line.
"""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, get_args

from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.settings import check_types
from memorisk.runs.storage.locations import url_of

Layout = Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"]
Frames = Literal["auto", "first", "middle", "all"]
Plane = Literal["axial", "coronal", "sagittal"]
Window = Literal["declared", "percentile", "full"]
Resize = Literal["squash", "crop", "pad"]

MAX_PIXELS = 100_000_000  # per frame; the largest mammograms have about 30 million, a decoded frame here takes 0.3 GB


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """How images are found, grouped, labelled, read and resized. Checked by :meth:`validate` where they are used."""

    layout: Layout = "auto"
    """What the source is; auto looks at its content. A folder of mixed kinds needs this said."""
    image_root: Path | None = None
    """Folder that the paths of a table are relative to; the table's own folder if not given."""
    follow_links: bool = False
    """Accept symbolic links that lead out of the folder."""

    image_column: str | None = None
    """Column (or array, in npz and HDF5) that names the images; guessed from usual names if not given."""
    path_column: str | None = None
    """Column with the file of each image, where that is not the image column."""
    label_column: str | None = None
    """Column (or array, or for DICOM a tag) with the label; several 0/1 columns as A,B,C."""
    group_column: str | None = None
    """Column (or array) with the patient, lesion or video; name the image column to make each image its own group."""
    split_column: str | None = None
    """Column (or array) with the given split: train, val, test."""
    dataset_column: str | None = None
    """Column that names the data set each image comes from."""
    labels_csv: Path | None = None
    """CSV or Parquet joined to the files by path, file name, name without suffix or SOP instance uid."""
    label_from: str | None = None
    """Regular expression for the label, searched in the path below the source; its first group is the label."""
    group_from: str | None = None
    """Regular expression for the group, searched in the file name (in the path if it holds a slash)."""
    dicom_group: str = "PatientID"
    """DICOM tag (keyword) that tells whose image it is."""

    frames: Frames = "auto"
    """Frames of stacks: auto is the middle one of DICOM and NIfTI, the first page of TIFF and GIF."""
    frame_step: int = 1
    """With --frames all: take every n-th frame, counted so that the middle one is among them."""
    slice_plane: Plane = "axial"
    """Plane of the slices cut from NIfTI volumes, after turning them to the nearest standard orientation."""

    depth: Literal[8, 16] = 8
    """Bits per pixel of the store; 16 keeps the greys of deeper sources."""
    window: Window = "declared"
    """Greys of deep sources: the window the file declares, percentiles (0.5 to 99.5), or the full range."""
    size: int | None = None
    """Side in pixels that every image is resized to; needed where the images differ in size."""
    resize: Resize = "squash"
    """How: squash to the square, crop the middle square, or pad with black."""
    channels: Literal["auto", 1, 3] = "auto"
    """Colour channels; auto keeps one where every image is grey, else three."""
    max_pixels: int = MAX_PIXELS
    """Largest number of pixels a frame may declare; refused before anything is decoded."""

    skip_missing: bool = False
    """Go on without the rows of a table whose file is absent, and count them."""
    skip_unreadable: bool = False
    """Go on without images that cannot be read, and count them."""
    sample: int | None = None
    """Use a random sample of this many images, stratified by first-listed label, drawn after what is left out."""
    sample_seed: int = 0
    """Decides which images a sample holds."""
    store: Path | None = None
    """Folder where decoded images are kept for later runs."""

    def validate(self) -> None:
        """Check every value; a run calls this once, at its edge.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        choices = {"layout": Layout, "frames": Frames, "slice_plane": Plane, "window": Window, "resize": Resize}
        for field, allowed in choices.items():
            if getattr(self, field) not in get_args(allowed):
                raise unknown_name(field, getattr(self, field), get_args(allowed))
        if self.store is not None and (url := url_of(self.store, refuse_unknown=True)) is not None:
            raise InputError(f"store {url}: decoded images are read in place; name a folder of this machine")
        if self.depth not in (8, 16):
            raise InputError(f"depth is {self.depth!r}; allowed are 8 and 16")
        if self.channels not in ("auto", 1, 3):
            raise InputError(f"channels is {self.channels!r}; allowed are auto, 1 and 3")
        for field in ("frame_step", "max_pixels", "size", "sample"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InputError(f"{field} is {value}; give a whole number of at least 1")
        if self.sample_seed < 0:
            raise InputError(f"sample_seed is {self.sample_seed}; give a whole number of at least 0")
        if self.size is not None and self.size**2 > self.max_pixels:
            raise InputError(f"size is {self.size}; its square may be at most max_pixels ({self.max_pixels:,})")
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


_OF_REAL_IMAGES = (
    "image_root",
    "image_column",
    "path_column",
    "label_column",
    "group_column",
    "split_column",
    "dataset_column",
    "labels_csv",
    "label_from",
    "group_from",
)
"""Settings of how real images are named; a synthetic image is nobody's and takes part by its pixels."""


def image_options(settings: ImageOptions) -> ImageOptions:
    """Of the settings of a command that inherits these, how images are read, and nothing else."""
    return ImageOptions(**{f.name: getattr(settings, f.name) for f in fields(ImageOptions)})


def of_synthetic_images(settings: ImageOptions) -> ImageOptions:
    """How synthetic images are read where real ones are read so: alike, but without their columns and patterns."""
    free = {f.name: f.default for f in fields(ImageOptions) if f.name in _OF_REAL_IMAGES}
    return replace(image_options(settings), layout="auto", dicom_group="SOPInstanceUID", **free)
