"""The files of a set that is to be released, compared with those that an audit read."""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from memorisk.images.containers.checking import surplus
from memorisk.images.decoding.decoding import hash_pixels, one_channel
from memorisk.images.exports.clean_manifest import MANIFEST, read_manifest_bytes
from memorisk.images.exports.clean_set import clean_names, encode_png
from memorisk.images.readers.registry import read_image
from memorisk.report.differences import differences
from memorisk.report.statements.statement import Released
from memorisk.runs.checksums import file_sha256, list_folder, listing_sha256
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.progress import Progress, quiet

_ORDER = "its images stand in an order of their own: memorisk release keeps that of the audited ones"


@dataclass(frozen=True)
class SetFiles:
    """Files below a folder, or one file.

    Attributes:
        root: The folder, or the file.
        listing: SHA-256 of each by its name below the folder; of a file by the empty name.
    """

    root: Path
    listing: Mapping[str, str]

    @classmethod
    def of(cls, path: Path, audited: Sequence[str]) -> "SetFiles":
        """List what lies at a path now.

        Args:
            path: A folder; a file of images; or a table, which stands for the files that were audited beside it.
            audited: Names of the files that an audit read.
        """
        if path.is_dir():
            return cls(path, list_folder(path))
        names = dict.fromkeys(audited)
        if list(names) == [path.name] or not any((path.parent / name).is_file() for name in names):
            return cls(path, {"": file_sha256(path)})
        return cls(path.parent, {name: file_sha256(path.parent / name) for name in names})

    @property
    def is_file(self) -> bool:
        """Whether it is one file."""
        return set(self.listing) == {""}

    def difference(self, audited: pd.DataFrame, *, depth: int, hidden: bool, progress: Progress = quiet) -> str | None:
        """Name the first differences from what an audit read; None for the same bytes, or a clean export of them.

        Args:
            audited: Rows of the audit's listing that were read.
            depth: Bits at which the audit decoded.
            hidden: The audit hid the names of files.
            progress: Called with (stage, done, total).
        """
        known = dict(zip(audited["path"], audited["sha256"], strict=True))
        labels = dict(zip(audited["path"], audited["label"], strict=True))
        if self.is_file:
            return differences(known, {next(iter(known)): self.listing[""]} if len(known) == 1 else self.listing)
        table = self._labels(known)
        found = {name: sha256 for name, sha256 in self.listing.items() if table is None or name != MANIFEST}
        if hidden:
            return self._hidden_difference(audited, found, table, depth, progress)
        problem = differences(known, found)
        if problem is None and table is not None and any(labels[name] != label for name, label in table.items()):
            return f"{MANIFEST} gives other labels than the audit saw"
        if problem is None or table is None or not _is_named_anew(table):
            return problem
        return self._not_exported(audited, table, depth, progress)

    def surplus(self, *, depth: int, progress: Progress = quiet) -> list[tuple[str, str]]:
        """Name the files that hold more than an image, with what they hold.

        Args:
            depth: Bits at which the audit decoded.
            progress: Called with (stage, done, total).
        """
        names = [name for name in self.listing if name != MANIFEST or self._labels({}) is None]
        found = []
        for number, name in enumerate(names, 1):
            if (more := surplus(self.root / name, depth=depth)) is not None:
                found.append((name or self.root.name, more))
            progress("looking for what files hold besides images", number, len(names))
        return found

    def released(self) -> Released:
        """Describe the files for a statement."""
        form = "file" if self.is_file else "folder"
        size = sum((self.root / name).stat().st_size for name in self.listing)
        sha256 = self.listing[""] if self.is_file else listing_sha256(self.listing)
        return Released(
            what="images", form=form, listing=dict(self.listing), sha256=sha256, files=len(self.listing), bytes=size,
            audits=(),
        )  # fmt: skip

    def _labels(self, known: Mapping[str, str]) -> dict[str, str] | None:
        """Labels of a clean set's table by file, in the order of names, which says nothing.

        None where there is no such table, or the audit read the file as an image.
        """
        if MANIFEST not in self.listing or MANIFEST in known:
            return None
        labels = read_manifest_bytes((self.root / MANIFEST).read_bytes())
        files = sorted(self.listing.keys() - {MANIFEST}, key=os.fsencode)
        return labels if labels is not None and list(labels) == files else None

    def _hidden_difference(
        self,
        audited: pd.DataFrame,
        found: Mapping[str, str],
        table: Mapping[str, str] | None,
        depth: int,
        progress: Progress,
    ) -> str | None:
        """Name the first difference from an audit that hid the names of files: contents and labels are compared.

        Names that cannot be compared must be those of a clean set, which say nothing.
        """
        labelled = table is not None and any(table.values())
        wanted = Counter(zip(audited["sha256"], audited["label"] if labelled else [""] * len(audited), strict=True))
        left = [name for name, sha256 in found.items() if not _taken(wanted, (sha256, (table or {}).get(name, "")))]
        if not left and not wanted.total():
            if not _is_named_anew(sorted(found)):
                return "its file names, which the run hid, cannot be compared: memorisk release gives neutral ones"
            return None if [found[name] for name in sorted(found)] == audited["sha256"].tolist() else _ORDER
        if table is not None and _is_named_anew(table):
            return self._not_exported(audited, table, depth, progress)
        if left:
            return f"{one_line(left[0], 80)} is not among the files that were audited, or was changed"
        return f"{wanted.total():,} of the files that were audited are missing"

    def _not_exported(
        self, audited: pd.DataFrame, table: Mapping[str, str], depth: int, progress: Progress
    ) -> str | None:
        """Name the first way in which this is no clean export of the audited pixels; None for one.

        A PNG file of given pixels has room for anything: in chunks about their display, in how they are compressed. So
        each file must have the very bytes that ``memorisk release`` writes, in the same order.
        """
        labelled = any(table.values())
        known = audited["label"] if labelled else [""] * len(audited)
        rows = list(zip(audited["pixels"], known, strict=True))
        wanted, found = Counter(rows), []
        for number, (name, label) in enumerate(table.items(), 1):
            try:
                image = read_image(self.root / name, depth=depth)
                found.append((hash_pixels(image), label))
                if not _taken(wanted, found[-1]):
                    return f"{one_line(name, 80)} is not an image that was audited, or has another label"
                written = encode_png(one_channel(image))
            except InputError as error:
                return str(error)
            if hashlib.sha256(written).hexdigest() != self.listing[name]:  # not read again: it may have been exchanged
                return (
                    f"{one_line(name, 80)} has the pixels that were audited, but other bytes than memorisk release "
                    "writes here, which may hold more: write the set anew with it, here and at the audit's --depth"
                )
            progress("comparing pixels with those that were audited", number, len(table))
        if left := wanted.total():
            return f"{left:,} of the images that were audited are missing"
        by_path = [rows[k] for k in sorted(range(len(rows)), key=audited["path"].tolist().__getitem__)]
        if found not in (rows, by_path):
            return (
                "its images stand in an order of their own: memorisk release keeps that of the images that were audited"
            )
        return None


def _is_named_anew(names: Collection[str]) -> bool:
    """Whether files have the names that a clean set has, which say nothing."""
    return list(names) == clean_names(len(names))


def _taken(wanted: Counter[tuple[str, str]], one: tuple[str, str]) -> bool:
    """Take one away from what is wanted, if it is."""
    if not wanted[one]:
        return False
    wanted[one] -= 1
    return True
