"""The cache folder: decoded images, copies of what URLs name, and runs that are kept at a URL while they are made."""

import os
import sys
from pathlib import Path

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.storage.urls import url_of


def cache_folder(store: Path | None) -> Path:
    """The folder of decoded images: the one given, else $MEMORISK_CACHE, else memorisk in the user's cache folder.

    Created with mode 0700, since decoded images are personal data.

    Raises:
        InputError: It cannot be created, or is a URL.
    """
    folder = Path(store) if store is not None else _default_cache()
    if (url := url_of(folder, refuse_unknown=True)) is not None:
        raise InputError(
            f"store {url}: decoded images are read in place, which a URL does not allow; name a folder of this machine"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = one_line(error.strerror or error, 120)
        raise InputError(
            f"the folder for decoded images {one_line(folder)} cannot be made ({reason}): name another with --store"
        ) from None
    return folder


def _default_cache() -> Path:
    named = os.environ.get("MEMORISK_CACHE")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "memorisk"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "memorisk"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memorisk"
