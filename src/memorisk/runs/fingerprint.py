"""Fingerprints: the same content gives the same short hexadecimal name on any machine.

They name stores, jobs and data sets, so that a re-issued command finds what is done already.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.files import plain

_CHUNK = 1 << 20


def fingerprint(*values: Any, length: int = 16) -> str:
    """Hash values that JSON can hold (and NumPy arrays, by type, shape and bytes) to ``length`` hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=32)
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"array {value.dtype.str} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(json.dumps(plain(value), sort_keys=True).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:length]


def file_fingerprint(path: str | Path, *, length: int = 32) -> str:
    """Hash a file's bytes, a megabyte at a time."""
    digest = hashlib.blake2b(digest_size=32)
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:length]
