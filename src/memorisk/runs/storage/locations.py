"""Locations of files: URLs, the private copies of what they name, and the cache folder of this machine.

A URL ends up in settings, reports and messages, so that nothing secret may stand in it. One that holds a password,
a key or a signed query is refused, and messages show it without what may be secret. Credentials come from the
environment alone: what the storage's own library reads (``AWS_ACCESS_KEY_ID``, ``GOOGLE_APPLICATION_CREDENTIALS``,
...), or fsspec's ``FSSPEC_<PROTOCOL>_<SETTING>`` (``FSSPEC_FTP_USERNAME``, ``FSSPEC_FTP_PASSWORD``).

A private copy knows its URL, so that settings and messages name what the user named. The cache folder holds decoded
images, copies of what URLs name, and runs that are kept at a URL while they are made.
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
"""Protocols, and the library that fsspec needs for each; Python has the others."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)(.*)", re.DOTALL)
_CHAIN = re.compile(r"[A-Za-z0-9+.-]+::.*:/", re.DOTALL)
_USER = re.compile(r"([A-Za-z0-9+.-]+)(:/+)([^\s/]*)@")
_OF_STORAGE = frozenset(("abfs", "abfss", "az"))  # CONTAINER@ACCOUNT names no user
_MAY_NAME = frozenset(("sftp", "ssh", "ftp", "smb", *_OF_STORAGE))  # a name without a password is no secret
_SECRET_NAMES = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL|SIGNATURE|ACCESS_KEY|ACCOUNT_KEY|_SAS")


def url_of(place: object, *, refuse_unknown: bool = False) -> str | None:
    """The URL that a place is, whole and without anything secret; None for a path.

    A ``Path`` has one slash where a URL has two: ``Path("s3://bucket/x")`` is known by ``s3:/``. Text needs both.

    Args:
        place: What the user named.
        refuse_unknown: Of a place to write to: an unknown protocol is an error and no folder's name.

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


def path_of(url: str) -> Path | None:
    """The folder of this machine that a ``file://`` URL names; None for other protocols.

    Args:
        url: As :func:`url_of` gives it.
    """
    protocol, _, rest = url.partition("://")
    return Path(rest) if protocol == "file" else None


def _refuse_secrets(protocol: str, rest: str) -> None:
    """Refuse what would keep a secret in settings, reports and messages.

    Raises:
        InputError: There is a password or a query, a chain, or a character that no URL holds.
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
            f"{url}: what stands after ? or # may be a key, and would be kept in settings and reports; leave it out"
        )
    if not rest.isprintable() or ".." in rest.split("/"):
        raise InputError(f"{url}: a URL holds no control characters and no '..'")


def redact_urls(text: object) -> str:
    """Any text on one line, without what may be secret: users of URLs, their queries, secrets of the environment."""
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
    """A file's URL below a folder's, as messages show it."""
    return f"{url.rstrip('/')}/{one_line(name, 120)}"


def refuse_names(names: Iterable[str], url: str) -> None:
    """Refuse names of files that would lead out of a local copy, or that no local file can have.

    Raises:
        InputError: There is such a name; the first are listed.
    """
    bad = [name for name in names if not _is_plain(name)]
    if bad:
        listed = ", ".join(repr(one_line(name.encode("utf-8", "backslashreplace").decode(), 60)) for name in bad[:3])
        raise InputError(
            f"{url} holds {len(bad):,} {'name' if len(bad) == 1 else 'names'} that lead out of the folder or hold "
            f"control characters ({listed}): rename them there; nothing was brought over"
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


TREE, ORIGIN = "tree", "origin.txt"
"""A copy lies in ``KEY/tree/NAME``, its URL in ``KEY/origin.txt``."""


def origin_of(text: str) -> str:
    """A path in a private copy as the URL that it is a copy of; other text as it is."""
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
    """Settings as the user named them: copies are their URLs again, and URLs that a `Path` has shortened are whole."""
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
    folder = os.environ.get("MEMORISK_CACHE")
    if folder:
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "memorisk"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home() / "AppData" / "Local"))) / "memorisk"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memorisk"
