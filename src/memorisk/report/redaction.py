"""Leaving identities out of a result, and standing in for them.

DESIGN, "Run folder": ``--pseudonymise`` replaces ids by keyed hashes everywhere, ``--redact`` leaves out images and
ids.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Any

from memorisk.report.result import Result

ID_COLUMNS = ("image", "group", "path")
REDACTED = "[redacted]"
REDACTED_PAGE = (
    "Ids and images were left out of this file. The folder that it was written for still holds them, in tables, models "
    "and pictures: pass on this file alone."
)
"""How a redacted page closes."""
_SHORTEST_SEARCHED = 4
_HEX_DIGITS = 16


def new_key() -> bytes:
    """A fresh secret key of 32 bytes for :func:`pseudonyms`. Whoever has it and the ids can undo the replacement."""
    return secrets.token_bytes(32)


def pseudonyms(ids: Iterable[str], key: bytes) -> dict[str, str]:
    """Replace ids by keyed hashes: the first 16 hexadecimal digits of HMAC-SHA256(key, id).

    A plain hash would not do: whoever suspects a patient number could hash it and look. The same key gives the same
    pseudonym in every run, so that runs can still be compared patient by patient.

    Args:
        ids: Any ids, repeated or not.
        key: At least 16 secret bytes.

    Returns:
        Pseudonym by id.

    Raises:
        ValueError: If the key is too short, or two ids meet in one pseudonym.
    """
    if len(key) < 16:
        raise ValueError(f"a key of {len(key)} bytes can be guessed; at least 16, as from new_key()")
    encoded = {i: i.encode("utf-8", errors="surrogatepass") for i in dict.fromkeys(ids)}
    out = {i: hmac.new(key, e, hashlib.sha256).hexdigest()[:_HEX_DIGITS] for i, e in encoded.items()}
    if len(set(out.values())) < len(out):
        raise ValueError("two ids share one pseudonym; use another key")
    return out


def redact(result: Result) -> Result:
    """The result without ids: their columns are gone, and ids named in messages, notes and lists are blanked.

    Ids shorter than four characters are not searched for in running text, where they would match ordinary numbers;
    lists that hold nothing but ids are replaced by their length whatever the ids look like.
    """
    known = _known_ids(result)
    long_ids = sorted((i for i in known if len(i) >= _SHORTEST_SEARCHED), key=len, reverse=True)
    tables = {n: t.drop(columns=[c for c in ID_COLUMNS if c in t]) for n, t in result.all_tables().items()}
    core = {n: tables.pop(n) for n in ("per_image", "per_group", "per_class", "attacks")}
    return result.replace(
        **core,
        tables=tables,
        summary=_clean(result.summary, known, long_ids),
        verdict=_clean(result.verdict, known, long_ids),
    )


def _known_ids(result: Result) -> set[str]:
    """Every id that a table names, but for those that are also the name of a class."""
    tables = result.all_tables().values()
    classes = {str(v) for t in tables if "label" in t for v in t["label"].dropna()}
    classes |= {str(v) for v in result.summary.get("not_auditable") or ()}
    columns = [t[c].dropna() for t in tables for c in ID_COLUMNS if c in t]
    return {str(v) for column in columns for v in column} - classes - {""}


def _clean(value: Any, known: set[str], long_ids: list[str]) -> Any:
    """The same structure with ids taken out of its keys, lists and texts."""
    if isinstance(value, dict):
        if any(k in known for k in value):
            return len(value)
        return {k: len(v) if _lists_ids(k, v, known) else _clean(v, known, long_ids) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v, known, long_ids) for v in value]
    if isinstance(value, str):
        for i in long_ids:
            if i in value:
                value = re.sub(rf"(?<!\w){re.escape(i)}(?!\w)", REDACTED, value)
    return value


def _lists_ids(key: str, value: Any, known: set[str]) -> bool:
    """Whether a field is a list of ids: by what it holds, or by a name that says so."""
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        return False
    return key.endswith(("groups", "images")) or all(v in known for v in value)
