"""Locations of files: URLs, the private copies of what they name, and the cache folder of this machine.

A URL is kept in settings, reports and messages. A URL with a password, a key or a signed query is therefore refused,
and messages leave out what may be secret. Credentials come from the environment alone: what the library of the storage
reads (``AWS_ACCESS_KEY_ID``, ``GOOGLE_APPLICATION_CREDENTIALS``, ...), or fsspec's ``FSSPEC_<PROTOCOL>_<SETTING>``
(``FSSPEC_FTP_USERNAME``, ``FSSPEC_FTP_PASSWORD``).

A private copy records its URL, so that settings and messages name what the user named. The cache folder holds decoded
images and the copies of URLs.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memorisk.runs.errors import InputError, one_line, unknown_name

LIBRARIES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
    "smb": "smbprotocol",
    "webhdfs": "requests",
    "hf": "huggingface_hub",
    **dict.fromkeys(("ftp", "file", "memory"), ""),
}
"""Library that fsspec needs for each protocol; empty where Python alone suffices."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)(.*)", re.DOTALL)
_CHAIN = re.compile(r"[A-Za-z0-9+.-]+::.*:/", re.DOTALL)
_USER = re.compile(r"([A-Za-z0-9+.-]+)(:/+)([^\s/]*)@")
_OF_STORAGE = frozenset(("abfs", "abfss", "az"))  # CONTAINER@ACCOUNT names no user
_MAY_NAME = frozenset(("sftp", "ssh", "ftp", "smb", *_OF_STORAGE))  # a name without a password is not secret
_SECRET_NAMES = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL|SIGNATURE|ACCESS_KEY|ACCOUNT_KEY|_SAS")
TREE, ORIGIN = "tree", "origin.txt"
"""Folder of a copy (``KEY/tree/NAME``), and file with its URL (``KEY/origin.txt``)."""


def url_of(place: object, *, refuse_unknown: bool = False) -> str | None:
    """Return the normalised URL of a place, without secrets; None for a path.

    A ``Path`` has one slash where a URL has two: ``Path("s3://bucket/x")`` is recognised by ``s3:/``. Text needs both.

    Args:
        place: Path or URL from the user.
        refuse_unknown: Refuse an unknown protocol; a place to write to is then not taken for a folder of that name.

    Raises:
        InputError: The URL holds a password, a query or a chain of protocols, or names nothing; or the protocol is
            unknown.
    """
    text = str(place)
    if _CHAIN.match(text):
        raise InputError(f"{redact_urls(text)}: chained protocols (::) are not read; name the files themselves")
    match = _URL.match(text)
    if match is None or (isinstance(place, str) and len(match[2]) < 2):
        return None
    protocol, rest = match[1].lower(), re.sub("/+", "/", match[3])
    if protocol not in LIBRARIES:
        if refuse_unknown and not Path(f"{match[1]}:").exists():
            raise unknown_name("protocol", match[1], LIBRARIES)
        return None
    _refuse_secrets(protocol, rest)
    rest = rest.strip("/")
    if not rest and protocol not in ("file", "memory"):
        raise InputError(f"{protocol}:// names no place: give {protocol}://PLACE/FOLDER")
    return f"{protocol}:///{rest}" if protocol == "file" else f"{protocol}://{rest}"


def refuse_run_at_url(name: str, place: object) -> None:
    """Refuse a URL as a place that memorisk writes to, or as the folder of a run.

    Args:
        name: Name of the argument, for the message.
        place: Path or URL from the user.

    Raises:
        InputError: The place is a URL.
    """
    if (url := url_of(place, refuse_unknown=True)) is not None:
        raise InputError(
            f"{name} {url}: run folders and output files are local; name a local path, and copy it there afterwards, "
            "or from there before, with fsspec, rclone or aws s3 sync"
        )


def path_of(url: str) -> Path | None:
    """Return the local folder that a ``file://`` URL names; None for other protocols.

    Args:
        url: URL from :func:`url_of`.
    """
    protocol, _, rest = url.partition("://")
    return Path(rest) if protocol == "file" else None


def _refuse_secrets(protocol: str, rest: str) -> None:
    """Refuse a URL that would leave a secret in settings, reports and messages.

    Raises:
        InputError: The URL holds a password, a query, a chain of protocols, or a character that URLs do not hold.
    """
    user, at, _ = rest.partition("/")[0].rpartition("@")
    url = redact_urls(f"{protocol}://{rest}")
    if at and (":" in user or protocol not in _MAY_NAME):
        raise InputError(
            f"{url}: a URL with a password or key would be kept in settings and reports; leave it out and give it "
            "by the environment (docs/storage.md)"
        )
    if "::" in rest:
        raise InputError(f"{url}: chained protocols (::) are not read; name the files themselves")
    if protocol in ("http", "https", "s3", "s3a", *_OF_STORAGE) and re.search(r"[?#]", rest):
        raise InputError(
            f"{url}: the part after ? or # may be a key, which settings and reports would contain; leave it out"
        )
    if not rest.isprintable() or ".." in rest.split("/"):
        raise InputError(f"{url}: a URL holds no control characters and no '..'")


def redact_urls(text: object) -> str:
    """Return a text on one line, without users and queries of URLs and without secrets of the environment."""
    redacted = str(text)
    redacted = _USER.sub(
        lambda m: m[0] if m[1].lower() in _MAY_NAME and ":" not in m[3] else f"{m[1]}{m[2]}***@", redacted
    )
    redacted = re.sub(r"(:/+[^\s?#]*)[?#][^\s'\")]*", r"\1?***", redacted)
    for name, value in os.environ.items():
        if _SECRET_NAMES.search(name.upper()) and len(value) >= 6:
            redacted = redacted.replace(value, "***")
    return one_line(redacted)


def child_url(url: str, name: str) -> str:
    """Return the URL of a file below a folder, for messages."""
    return f"{url.rstrip('/')}/{one_line(name, 120)}"


def refuse_names(names: Iterable[str], url: str) -> None:
    """Refuse file names that would lead out of a local copy, or that no local file can have.

    Raises:
        InputError: One or more names are refused; the message lists the first.
    """
    bad = [name for name in names if not _is_plain(name)]
    if bad:
        listed = ", ".join(repr(one_line(name.encode("utf-8", "backslashreplace").decode(), 60)) for name in bad[:3])
        raise InputError(
            f"{url} holds {len(bad):,} {'name' if len(bad) == 1 else 'names'} that lead out of the folder or hold "
            f"control characters ({listed}): rename them there; nothing was fetched"
        )


def _is_plain(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    return all(part not in ("", ".", "..") and len(part.encode()) <= 250 for part in parts) and not any(
        unicodedata.category(c) == "Cc" for c in name
    )


def origin_of(text: str) -> str:
    """Return the URL of a path in a private copy; other text as it is."""
    if f"/{TREE}/" not in text:
        return text
    head, at, rest = text.partition(":")  # as in detector:FOLDER
    if at and not head.startswith("/") and "/" not in head:
        return f"{head}:{origin_of(rest)}"
    for above in (Path(text), *Path(text).parents):
        record = above.parent.parent / ORIGIN
        if above.parent.name == TREE and record.is_file():
            below = Path(text).relative_to(above).as_posix()
            url = record.read_text(encoding="utf-8").strip()
            return url if below == "." else f"{url.rstrip('/')}/{below}"
    return text


def name_origins(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with URLs in place of private copies, and with the second slash that a `Path` drops."""
    return {name: _origin_of_value(value) for name, value in settings.items()}


def _origin_of_value(value: Any) -> Any:
    if isinstance(value, Path):
        return url_of(value) or origin_of(str(value))
    if isinstance(value, str):
        return origin_of(value)
    if isinstance(value, Mapping):
        return name_origins(value)
    return [_origin_of_value(v) for v in value] if isinstance(value, (list, tuple)) else value


def cache_folder(store: Path | None) -> Path:
    """Return the cache folder: ``store``, else $MEMORISK_CACHE, else memorisk in the user's cache folder.

    It is created with mode 0700, since decoded images are personal data.

    Raises:
        InputError: The folder cannot be created, or is a URL.
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
    folder = os.environ.get("MEMORISK_CACHE")
    if folder:
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "memorisk"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "memorisk"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memorisk"
