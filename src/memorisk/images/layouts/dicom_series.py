"""Series of DICOM slices as volumes: which files belong to one volume, and in which order.

The slices of a series lie one above the other along the normal of their plane, the cross product of the directions of a
row and of a column (Image Orientation Patient); the place of a slice is its Image Position Patient along that normal.
Where headers lack these, Instance Number orders the slices. A file of several frames is a volume by itself. A series
that is not one stack of slices is left out and listed with the reason.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from memorisk.images.layouts.draft import Draft
from memorisk.images.volumes import volume_member, volumes_note
from memorisk.runs.errors import listed, plural

GEOMETRY = ("Columns", "NumberOfFrames", "InstanceNumber", "ImagePositionPatient", "ImageOrientationPatient")
"""Tags from which the order of slices is computed."""
_SAME_MM = 1e-3  # places of slices that differ by less are one place
_SAME_DIRECTION = 1e-3  # cosines that differ by less are one direction


@dataclass(frozen=True)
class SliceHeader:
    """What the header of a file says of the place of its slice."""

    n_frames: int
    shape: tuple[int, int]
    orientation: tuple[float, ...]
    """Direction of a row and of a column, [6]; empty where the header has none."""
    place: float | None
    """Place along the normal, millimetres; None where the header has none."""
    number: int | None
    """Instance Number, which numbers the slices of a series."""

    @classmethod
    def of(cls, header: Any) -> "SliceHeader":
        """Read the place of a slice from a DICOM header; elements without a meaning count as absent."""
        position, orientation = _numbers(header, "ImagePositionPatient"), _numbers(header, "ImageOrientationPatient")
        place = None
        if len(position) == 3 and len(orientation) == 6:
            place = float(np.dot(position, np.cross(orientation[:3], orientation[3:])))
        rows, columns, frames, number = (
            (_numbers(header, keyword) or [default])[0]
            for keyword, default in (("Rows", 0), ("Columns", 0), ("NumberOfFrames", 1), ("InstanceNumber", None))
        )
        shape = (int(rows or 0), int(columns or 0))
        return cls(int(frames or 1), shape, tuple(orientation), place, None if number is None else int(number))


def join_series(draft: Draft, rows: Sequence[dict[str, str]], headers: Sequence[SliceHeader]) -> list[dict[str, str]]:
    """Make one row of each series, and note in the draft what was joined and what was left out.

    Args:
        draft: Draft of the source.
        rows: Row of each file, with path, group, label and SeriesInstanceUID.
        headers: Place of the slice of each file.

    Returns:
        Rows of the volumes, in the order of their first files.
    """
    series: dict[str, list[int]] = {}
    for i, (row, header) in enumerate(zip(rows, headers, strict=True)):
        name = row["SeriesInstanceUID"] if header.n_frames == 1 else ""
        series.setdefault(name or f"{row['path']}\0", []).append(i)
    in_folder = Counter(_folder(row["path"]) for row in rows)
    volumes, left_out = [], Counter[str]()
    for files in series.values():
        reason = _why_no_volume([rows[i] for i in files], [headers[i] for i in files])
        if reason:
            left_out[reason] += 1
            draft.skip(rows[files[0]]["path"], f"{reason} ({plural(len(files), 'file', 'files')})")
        else:
            volumes.append(_joined(rows, _ordered(files, headers), in_folder))
    if volumes:
        draft.notes.append(volumes_note(len(volumes), "DICOM series", "DICOM series"))
    if left_out:
        reasons = [f"{n:,} {reason}" for reason, n in left_out.most_common()]
        draft.notes.append(f"{left_out.total():,} DICOM series left out: {listed(reasons, 8)}.")
    return volumes


def _why_no_volume(rows: Sequence[dict[str, str]], headers: Sequence[SliceHeader]) -> str:
    """Return why files are not one volume; empty where they are."""
    if headers[0].n_frames > 1:
        return ""
    if len(rows) == 1:
        return "a single slice, where volumes are read"
    if any(len({row[what] for row in rows}) > 1 for what in ("group", "label")):
        return "slices of several patients or labels in one series"
    directions = [header.orientation for header in headers]
    alike = all(
        len(one) == len(directions[0]) and np.allclose(one, directions[0], atol=_SAME_DIRECTION) for one in directions
    )
    if not alike or len({header.shape for header in headers}) > 1:
        return "slices of several sizes or directions in one series"
    places = _places(headers)
    if places is None:
        return "slices without a place in one series"
    return "several slices at one place in one series" if (np.diff(np.sort(places)) < _SAME_MM).any() else ""


def _places(headers: Sequence[SliceHeader]) -> list[float] | None:
    """Return the place of each slice along the normal, or else its number; None where both are missing."""
    places = [header.place for header in headers]
    if None in places:
        places = [header.number for header in headers]
    numbers = [float(place) for place in places if place is not None]
    return numbers if len(numbers) == len(headers) else None


def _ordered(files: list[int], headers: Sequence[SliceHeader]) -> list[int]:
    """Return files in the order of their slices."""
    places = _places([headers[i] for i in files])
    return files if places is None else [files[at] for at in np.argsort(places, kind="stable")]


def _joined(rows: Sequence[dict[str, str]], files: list[int], in_folder: Counter[str]) -> dict[str, str]:
    """Return the row of a volume: that of its first slice, named by its folder where nothing else lies in it."""
    first, *others = (rows[i]["path"] for i in files)
    folder = _folder(first)
    alone = folder and len(others) + 1 == in_folder[folder] > 1 and {_folder(other) for other in others} == {folder}
    relative = [os.path.relpath(other, folder or ".") for other in others]
    return {**rows[files[0]], "image": folder if alone else first, "member": volume_member(relative)}


def _folder(path: str) -> str:
    folder = str(PurePosixPath(path).parent)
    return "" if folder == "." else folder


def _numbers(header: Any, keyword: str) -> list[float]:
    """Return the numbers of an element; none where it is absent or holds something else."""
    try:
        value = header.get(keyword)
        values = [value] if value is None or isinstance(value, str | int | float) else list(value)
        numbers = [float(one) for one in values if one not in (None, "")]
    except (TypeError, ValueError, AttributeError):
        return []
    return numbers if np.isfinite(numbers).all() else []
