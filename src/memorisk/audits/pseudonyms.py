"""Keyed hashes in place of ids and paths, everywhere a run writes (``--pseudonymise``).

HMAC-SHA256 of the id under a secret key. The key stays outside the run folder (by default in the user's configuration
folder), so that whoever gets the folder cannot recompute the pseudonyms, and the same id keeps its pseudonym from
run to run.
"""

import os
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.evidence import Evidence, Items
from memorisk.audits.options import ReportOptions
from memorisk.report.redaction import pseudonyms
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import open_to_others, write_bytes
from memorisk.runs.hidden_paths import HIDDEN, is_hidden, note_hidden, user_folder
from memorisk.runs.origins import as_named

KEPT_COLUMNS = ("label", "split", "part")  # every other column of a manifest may hold an id, a name or a path
HASHED_COLUMNS = ("image", "group", "training_group")
SHORTEST_KEY = 16  # bytes


_SOURCES = ("images", "synthetic", "held_out", "calibration", "file", "generator", "out", "image_root", "labels_csv",
            "store", "pseudonym_key", "review", "target")  # fmt: skip
"""Settings that are paths, also without a separator in them."""


@dataclass(frozen=True)
class Pseudonyms:
    """Replaces ids, or leaves them as they are where there is no key."""

    key: bytes | None

    @classmethod
    def from_options(cls, options: ReportOptions) -> "Pseudonyms":
        """The key of these options; made on first use where none is named.

        Raises:
            InputError: The key cannot be read, can be guessed, or may be read by other users.
        """
        if not options.pseudonymise:
            return cls(None)
        path = options.pseudonym_key or _own_key()
        try:
            key, shared = path.read_bytes(), open_to_others(path)
        except OSError as error:
            raise InputError(f"the pseudonym key {one_line(path)} cannot be read: {error.strerror}") from None
        if shared:  # whoever reads it can recompute the pseudonym of anybody they suspect
            raise InputError(
                f"the pseudonym key {one_line(path)} may be read or replaced by other users of this machine: make it "
                f"yours alone (chmod 600 {one_line(path)}), or make a new key if somebody may have read it"
            )
        if len(key) < SHORTEST_KEY:
            raise InputError(
                f"the pseudonym key {one_line(path)} holds {len(key)} bytes; at least {SHORTEST_KEY} are needed"
            )
        return cls(key)

    def names(self, values: Iterable[str]) -> np.ndarray:
        """The pseudonyms of many ids, object array."""
        ids = [str(v) for v in values]
        if self.key is None:
            return np.array(ids, dtype=object)
        known = pseudonyms(ids, self.key)
        return np.array([known[i] for i in ids], dtype=object)

    def source(self, name: str) -> str:
        """The pseudonym of a data set, whose name is that of its folder or file; empty and built-in ones stay."""
        return name if self.key is None or name in ("", "digits") else self._hidden(name)

    def settings(self, config: Mapping[str, Any], *sources: str) -> dict[str, Any]:
        """Put hashes in place of the paths in a run's settings, also where its identity repeats them.

        Args:
            config: As for `memorisk.runs.folder.open_run`.
            *sources: Further names of settings that are a source of images, whatever they look like.
        """
        if self.key is None:
            return dict(config)
        found: dict[str, str] = {}
        named = as_named({name: value for name, value in config.items() if name != "run"})
        hidden = {name: self._without_paths(name, value, (*_SOURCES, *sources), found) for name, value in named.items()}
        note_hidden({hashed: path for path, hashed in found.items()})
        return hidden | ({"run": _replaced(config["run"], found)} if "run" in config else {})

    def _hidden(self, path: str) -> str:
        return f"{HIDDEN}{self.names([path])[0]}"

    def _without_paths(self, name: str, value: Any, sources: Collection[str], found: dict[str, str]) -> Any:
        if isinstance(value, Mapping):
            return {key: self._without_paths(str(key), inner, sources, found) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._without_paths(name, inner, sources, found) for inner in value]
        if not isinstance(value, str) or not _is_path(name, value, sources):
            return value
        return found.setdefault(value, self._hidden(value))

    def evidence(self, evidence: Evidence) -> Evidence:
        """The same evidence under pseudonyms."""
        if self.key is None:
            return evidence
        items = evidence.items
        order = np.argsort(self.names(items.image).astype(str), kind="stable")
        shuffled = evidence.select(order)
        items = shuffled.items
        return replace(
            shuffled, items=Items(self.names(items.image), items.label, self.names(items.group), items.split)
        )

    def result(self, result: Result) -> Result:
        """The same result under pseudonyms, rows sorted by them: the old order would tell the order of the ids."""
        if self.key is None:
            return result
        changed = {}
        for name in ("per_image", "per_group"):
            table = getattr(result, name)
            ids = [c for c in HASHED_COLUMNS if c in table]
            hidden = table.assign(**{c: self.names(table[c]) for c in ids})
            changed[name] = hidden.sort_values(["label", ids[0]], kind="stable").reset_index(drop=True)
        return result.replace(**changed)

    def table(self, table: pd.DataFrame) -> pd.DataFrame:
        """A manifest under pseudonyms: ids hashed, and every column that could hold one left out."""
        if self.key is None:
            return table
        kept = {c: table[c] for c in KEPT_COLUMNS if c in table}
        hashed = {c: self.names(table[c]) for c in HASHED_COLUMNS if c in table}
        return pd.DataFrame(hashed | kept).sort_values("image", kind="stable").reset_index(drop=True)


def _replaced(value: Any, found: Mapping[str, str]) -> Any:
    """The same value, hashes in place of paths wherever they stand in its texts."""
    if isinstance(value, Mapping):
        return {key: _replaced(inner, found) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(inner, found) for inner in value]
    if isinstance(value, str):
        for path in sorted(found, key=len, reverse=True):
            value = found[path] if value == path else value.replace(path, found[path]) if "/" in path else value
    return value


def _is_path(name: str, value: str, sources: Collection[str]) -> bool:
    """Whether a setting is a path: a source of images, or text with a separator that is no pattern."""
    named = value != "digits" if name in sources else not name.endswith("_from") and ("/" in value or os.sep in value)
    return named and not is_hidden(value)


def _own_key() -> Path:
    """The key in the user's configuration folder, made on first use."""
    path = user_folder() / "pseudonym.key"
    if not path.exists():
        user_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path, secrets.token_bytes(32))
    return path
