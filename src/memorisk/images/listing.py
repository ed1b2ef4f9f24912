"""The listing of a set: every file that was read, by the SHA-256 of its bytes, and every file that was not, with why.

A release is bytes. An audit looks at resized pixels, and so its result says nothing of a file that it did not open, nor
of one that was exchanged since. The listing ties the two: the bytes behind every image, and a hash of the pixels that
were decoded from them at full resolution, by which a set that was written anew from these pixels is known again.
"""

import numpy as np
import pandas as pd

from memorisk.images.building import ROWS
from memorisk.images.store import ImageStore
from memorisk.runs.files import read_table

COLUMNS = ("path", "bytes", "sha256", "pixels", "label", "reason")
"""``path`` below the set's folder; ``bytes`` and ``sha256`` of the file; ``pixels``, a hash of the decoded image;
``label``; ``reason``, why it was not read (then ``bytes``, ``sha256`` and ``pixels`` say nothing)."""


def list_files(store: ImageStore) -> pd.DataFrame:
    """List the files of a set, a row an image and a row a file that was not read.

    Args:
        store: As `build_store` gave it, with all of its rows.

    Returns:
        `COLUMNS`, in the order of the manifest, files that were not read last; no row for images in memory.
    """
    manifest, rows = store.manifest, store.folder / ROWS
    if manifest.root is None or not rows.is_file():  # built-in images, and arrays in memory
        return _table([])
    found = read_table(rows)
    found = found[found["reason"].to_numpy(dtype=object) == ""]
    if len(found) != manifest.n:
        raise ValueError("a listing is of a whole store, before rows are taken from it")
    paths = manifest.table["path"].astype(str).tolist()
    sizes = {path: (manifest.root / path).stat().st_size for path in set(paths)}
    read = zip(paths, found["sha256"].tolist(), found["decoded"].tolist(), manifest.labels.tolist(), strict=True)
    unread = [*_pairs(store.skipped), *_pairs(manifest.skipped)]
    return _table(
        [
            *((path, sizes[path], sha256, pixels, label, "") for path, sha256, pixels, label in read),
            *((path, 0, "", "", "", reason) for path, reason in dict(unread).items()),
        ]
    )


def read_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Rows of images that were read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) == ""))


def unread_rows(listing: pd.DataFrame) -> pd.DataFrame:
    """Rows of files that were not read."""
    return listing.take(np.flatnonzero(listing["reason"].to_numpy(dtype=object) != ""))


def _pairs(skipped: pd.DataFrame) -> list[tuple[str, str]]:
    return [(str(path), str(why)) for path, why in zip(skipped["path"], skipped["reason"], strict=True)]


def _table(rows: list[tuple]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    return table.astype({"bytes": np.int64})
