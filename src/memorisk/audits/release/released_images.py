"""A folder of images that is to be released, held against the pixels that an audit compared.

The folder must be what ``memorisk release`` writes of the audited set: every file has the only bytes that its pixels
have (`memorisk.images.plain_png`), these pixels are those that the audit compared at its size, channels and depth, with
the same labels in the same order, and there is nothing else. So no file is searched for what it might hide.
"""

import hashlib
import os
from pathlib import Path

from memorisk.audits.compared_images import ComparedImages
from memorisk.images.clean_set import CLEAN_MANIFEST, clean_names, read_manifest_bytes
from memorisk.images.pixel_form import PixelForm
from memorisk.images.pixels import hash_pixels, one_channel
from memorisk.images.plain_png import decode_png, encode_png
from memorisk.report.statements.statement import Released
from memorisk.runs.checksums import files_below, listing_sha256
from memorisk.runs.errors import InputError, one_line, plural
from memorisk.runs.workload import Progress, no_progress

_WRITE = "memorisk release writes what was audited"


def read_released(folder: Path, compared: ComparedImages, progress: Progress = no_progress) -> Released:
    """Check that a folder holds the audited images as ``memorisk release`` writes them, and nothing else.

    Args:
        folder: The folder.
        compared: Images that the audit compared.
        progress: Called with (stage, done, total).

    Raises:
        InputError: It holds anything else; the message names the first file that is in the way.
    """
    names = set(files_below(folder)) if folder.is_dir() else {folder.name}
    table = (folder / CLEAN_MANIFEST).read_bytes() if CLEAN_MANIFEST in names else b""
    labels = _labels(table, names, compared)
    audited_labels = compared.labels if any(labels.values()) else ("",) * len(compared.labels)
    audited = list(zip(compared.pixels, audited_labels, strict=True))
    listing, n_bytes = {CLEAN_MANIFEST: hashlib.sha256(table).hexdigest()}, len(table)
    for place, (name, label) in enumerate(labels.items()):
        data = (folder / name).read_bytes()  # once: its checksum is that of the bytes that are looked at
        image = (_hash_of_pixels(name, data, compared), label)
        if place >= len(audited) or image != audited[place]:
            if place < len(audited) and image[0] == audited[place][0]:
                raise InputError(f"{name} has a label that was not audited, or that no training image has: {_WRITE}")
            raise InputError(f"{name} is not the image that was audited in this place: {_WRITE}")
        listing[name], n_bytes = hashlib.sha256(data).hexdigest(), n_bytes + len(data)
        progress("comparing pixels with those that were audited", place + 1, len(labels))
    if n_missing := len(audited) - len(labels):
        raise InputError(plural(n_missing, "image that was audited is missing", "images that were audited are missing"))
    return Released(
        what="images", form="folder", listing=listing, sha256=listing_sha256(listing), files=len(listing),
        bytes=n_bytes, pixels=compared.form, audits=(),
    )  # fmt: skip


def _labels(table: bytes, files: set[str], compared: ComparedImages) -> dict[str, str]:
    """Read the label of each image, from a table that says no more.

    Raises:
        InputError: A file is none of a clean set, or the table is not as ``memorisk release`` writes it.
    """
    labels = read_manifest_bytes(table)
    names = clean_names(len(labels) if labels else len(files) - 1)
    audited = "" if compared.form is None else f"; the audit compared {compared.form.words}"
    if odd := sorted(files - {*names, CLEAN_MANIFEST}, key=os.fsencode):
        more = f" and {plural(len(odd) - 1, 'more file', 'more files')}" if len(odd) > 1 else ""
        verb = "are" if more else "is"
        raise InputError(f"{one_line(odd[0], 80)}{more} {verb} not among the files of a release{audited}: {_WRITE}")
    if labels is None or list(labels) != names:
        raise InputError(f"{CLEAN_MANIFEST} is not there, or not as of a release{audited}: {_WRITE}")
    if missing := sorted({*names} - files):
        raise InputError(f"{missing[0]} is missing, which {CLEAN_MANIFEST} lists")
    return labels


def _hash_of_pixels(name: str, data: bytes, compared: ComparedImages) -> str:
    """Hash the pixels of a file that holds nothing else.

    Raises:
        InputError: It holds something else, or pixels of another form.
    """
    declared, audited = PixelForm.of_png(data), compared.form
    if declared is not None and audited is not None and not audited.covers(declared):
        raise InputError(
            f"{name} holds {declared.words}, and the audit compared {audited.words}: {_WRITE}, or audit these"
        )
    image = decode_png(data)
    if image is None or encode_png(one_channel(image)) != data:
        raise InputError(f"{name} has other bytes than memorisk release writes for its pixels: {_WRITE}")
    return hash_pixels(image)
