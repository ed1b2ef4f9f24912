"""The listing of a set: every file that was read, by the SHA-256 of its bytes, and every file that was not, with why.

A release is bytes. An audit looks at resized pixels, and so its result says nothing of a file that it did not open, nor
of one that was exchanged since. The listing ties the two: the bytes behind every image, and a hash of the pixels that
were decoded from them at full resolution, by which a set that was written anew from these pixels is known again.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.images.manifest import BUILTIN, Manifest

COLUMNS = ("path", "bytes", "sha256", "pixels", "label", "reason")
"""``path`` below the set's folder; ``bytes`` and ``sha256`` of the file; ``pixels``, a hash of the decoded image;
``label``; ``reason``, why it was not read (then the columns before it say nothing)."""


def empty_listing() -> pd.DataFrame:
    """Make the listing of images that lie in no file."""
    return _table([])


def list_files(
    manifest: Manifest, sha256: Sequence[str], pixels: Sequence[str], unreadable: pd.DataFrame
) -> pd.DataFrame:
    """List the files of a set, a row an image and a row a file that was not read.

    Args:
        manifest: Images that were read, [n].
        sha256: [n] of the file of each, when it was decoded.
        pixels: [n] hash of each image as it was decoded.
        unreadable: Images that could not be decoded: ``path, reason``.

    Returns:
        `COLUMNS`, in the order of the manifest, files that were not read last; built-in images have no row.
    """
    if manifest.root is None:
        return empty_listing()
    paths = manifest.table["path"].astype(str).tolist()
    sizes = {path: (manifest.root / path).stat().st_size for path in set(paths) if not path.startswith(BUILTIN)}
    read = [row for row in zip(paths, sha256, pixels, manifest.labels.tolist(), strict=True) if row[0] in sizes]
    skipped = pd.concat([unreadable[["path", "reason"]], manifest.skipped[["path", "reason"]]])
    unread = dict(zip(skipped["path"].astype(str), skipped["reason"].astype(str), strict=True))
    return _table(
        [
            *((path, sizes[path], content, image, label, "") for path, content, image, label in read),
            *((path, 0, "", "", "", reason) for path, reason in unread.items()),
        ]
    )


def read_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Take the rows of images that were read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) == ""))


def unread_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Take the rows of files that were not read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) != ""))


def _table(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object).astype({"bytes": np.int64})
