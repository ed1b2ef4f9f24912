"""Keyed hashes in place of ids and paths (``--pseudonymise``).

HMAC-SHA256 of the id under a secret key, everywhere a run writes. The key stays outside the run folder (by default in
the user's configuration folder), so that a person who gets the folder cannot recompute the pseudonyms, and the same id
keeps its pseudonym from run to run.

What a run shows of each patient must not tell who they are either. A draw by the seed of the settings alone could be
repeated by anybody who has the list of files: `draw_seed` makes it depend on the key. Rows in the order of the files
would be numbered by it: `Pseudonyms.order` gives another.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence, Items
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import PIXEL_HASH
from memorisk.report.options import PseudonymOptions
from memorisk.report.result import Result, pseudonyms
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import has_shared_permissions, write_bytes
from memorisk.runs.folder import HIDDEN_PREFIX, is_hidden, record_hidden_paths, user_folder
from memorisk.runs.storage.locations import name_origins

KEPT_COLUMNS = ("label", "split", "part")  # every other column of a manifest may hold an id, a name or a path
HASHED_COLUMNS = ("image", "group", "training_group", PIXEL_HASH)
"""Columns that a run keeps as hashes by its key; the pixels of a known image would give their plain hash away."""
SHORTEST_KEY = 16  # bytes


_SOURCES = ("images", "synthetic", "held_out", "calibration", "file", "generator", "out", "image_root", "labels_csv",
            "store", "pseudonym_key", "review", "target")  # fmt: skip
"""Settings that are paths, also without a separator in them."""
_SEPARATOR = "/"  # also of URLs; memorisk runs where paths have it
_SEED_BYTES = 8  # more than anybody can try; one bit less is used, so that 64-bit integers hold a seed


@dataclass(frozen=True)
class Pseudonyms:
    """Pseudonyms, which replace ids, or leave them as they are without a key."""

    key: bytes | None
    paths: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Hash by path, of the run at hand."""

    @classmethod
    def from_options(cls, options: PseudonymOptions) -> "Pseudonyms":
        """Return the key of these options; made on first use where none is named.

        Raises:
            InputError: The key cannot be read, can be guessed, or may be read by other users.
        """
        if not options.pseudonymise:
            return cls(None)
        path = options.pseudonym_key or _own_key()
        try:
            key, shared = path.read_bytes(), has_shared_permissions(path)
        except OSError as error:
            raise InputError(f"the pseudonym key {one_line(path)} cannot be read: {error.strerror}") from None
        if shared:  # a person who reads it can recompute the pseudonym of anybody they suspect
            raise InputError(
                f"the pseudonym key {one_line(path)} may be read or replaced by other users of this machine: make it "
                f"yours alone (chmod 600 {one_line(path)}), or make a new key if others may have read it"
            )
        if len(key) < SHORTEST_KEY:
            raise InputError(
                f"the pseudonym key {one_line(path)} holds {len(key)} bytes; at least {SHORTEST_KEY} are needed"
            )
        return cls(key)

    def names(self, values: Iterable[str]) -> np.ndarray:
        """Return the pseudonyms of many ids, as an object array."""
        ids = [str(v) for v in values]
        if self.key is None:
            return np.array(ids, dtype=object)
        hashes = pseudonyms(ids, self.key)
        return np.array([hashes[i] for i in ids], dtype=object)

    @property
    def identity(self) -> dict[str, str]:
        """Return what a later command may not change in a run folder: the key, by a hash that does not tell it."""
        return {} if self.key is None else {"key_hash": str(self.names(["\0key"])[0])}  # no id has a NUL

    def order(self, values: Iterable[str]) -> np.ndarray | None:
        """Return the order of ids by their pseudonyms, as indices; None without a key, where the order is kept."""
        return None if self.key is None else np.argsort(self.names(values).astype(str), kind="stable")

    def ordered(self, table: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """Sort the rows of a table by pseudonyms, where there are some: the old order would tell the order of the ids.

        Args:
            table: Table under pseudonyms.
            *columns: Columns to sort by.
        """
        if self.key is None:
            return table
        return table.sort_values(list(columns), kind="stable").reset_index(drop=True)

    def source(self, name: str) -> str:
        """Return the pseudonym of a data set, named after its folder or file; empty and built-in names stay."""
        return name if self.key is None or name in ("", "digits") else self._hidden(name)

    def knowing(self, config: Mapping[str, Any], *sources: str) -> Self:
        """Return pseudonyms with a hash for each path in a run's settings, and note for this user which path it is.

        Args:
            config: Settings of the run, as `memorisk.runs.folder.open_run` takes them.
            *sources: Further names of settings that are a source of images, whatever they look like.
        """
        if self.key is None:
            return self
        named = name_origins({name: value for name, value in config.items() if name != "run"})
        paths = {path: self._hidden(path) for path in _paths(named, "", (*_SOURCES, *sources))}
        record_hidden_paths({hashed: path for path, hashed in paths.items()})
        return replace(self, paths=paths)

    def settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a run with hashes in place of known paths, also where its identity has them."""
        return _replace_paths(name_origins(config), self.paths) if self.paths else dict(config)

    def words(self, value: Any) -> Any:
        """Return a value of JSON's types with hashes in place of the paths that are known, also within texts."""
        return _replace_paths(value, self.paths) if self.paths else value

    def without_paths(self, result: Result) -> Result:
        """Return the result with hashes in place of known paths in its summary and verdict."""
        summary, verdict = self.words(result.summary), self.words(result.verdict)
        return result.replace(summary=summary, verdict=verdict) if self.paths else result

    def _hidden(self, path: str) -> str:
        return f"{HIDDEN_PREFIX}{self.names([path])[0]}"

    def evidence(self, evidence: Evidence) -> Evidence:
        """Return the evidence under pseudonyms."""
        if (order := self.order(evidence.items.image)) is None:
            return evidence
        shuffled = evidence.select(order)
        items = shuffled.items
        return replace(
            shuffled, items=Items(self.names(items.image), items.label, self.names(items.group), items.split)
        )

    def result(self, result: Result) -> Result:
        """Return the result under pseudonyms, rows sorted by them: the old order would tell the order of the ids."""
        if self.key is None:
            return result
        changed = {name: self._rows(getattr(result, name)) for name in ("per_image", "per_group")}
        tables = {name: self._rows(table) for name, table in result.tables.items()}
        return self.without_paths(result.replace(**changed, tables=tables))

    def _rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of a result under pseudonyms, sorted by them within a class or pair; without ids as it is."""
        ids = [c for c in HASHED_COLUMNS if c in table]
        if not ids:
            return table
        hidden = table.assign(**{c: self.names(table[c]) for c in ids})
        within = [c for c in ("label", "pair") if c in table]
        return hidden.sort_values([*within, ids[0]], kind="stable").reset_index(drop=True)

    def manifest(self, manifest: Manifest) -> Manifest:
        """Return a manifest as a run folder keeps it: under pseudonyms without the ids in doubt."""
        if self.key is None:
            return manifest
        doubts = tuple(doubt.without_ids for doubt in manifest.id_doubts)
        return replace(manifest, table=self.table(manifest.table), id_doubts=doubts)

    def table(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a manifest under pseudonyms: ids hashed, and every column that could hold one left out."""
        if self.key is None:
            return table
        columns = {c: table[c] for c in KEPT_COLUMNS if c in table}
        hashed = {c: self.names(table[c]) for c in HASHED_COLUMNS if c in table}
        return pd.DataFrame(hashed | columns).sort_values("image", kind="stable").reset_index(drop=True)


def draw_seed(options: PseudonymOptions, seed: int) -> int:
    """Return the seed of a draw that a run shows by patient; with a pseudonym key, only who has the key repeats it.

    A seed made so is secret. It seeds draws alone, and is never a name of a file or a value of a table.

    Args:
        options: Options of the run.
        seed: Seed of the run's settings, which everybody may know.

    Returns:
        The seed itself where ids stay as they are; else one derived from key and seed.

    Raises:
        InputError: The same errors as `Pseudonyms.from_options`.
    """
    key = Pseudonyms.from_options(options).key
    if key is None:
        return seed
    # pseudonyms are the first bytes of such hashes: the last ones stay secret, whatever an id looks like
    digest = hmac.new(key, f"seed {seed}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[-_SEED_BYTES:]) >> 1


def _paths(value: Any, name: str, sources: Collection[str]) -> Iterator[str]:
    """Yield every path in some settings: sources of images, and texts that name something on the disk or at a URL."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths(inner, str(key), sources)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _paths(inner, name, sources)
    elif (
        isinstance(value, str)
        and value not in ("", "digits")
        and not is_hidden(value)
        and (name in sources or _is_place(value))
    ):
        yield value


def _is_place(text: str) -> bool:
    """Return whether a text is or names a place, as ``NAME@FILE`` and ``detector:FOLDER`` do; ``0.5/0.25`` is none."""
    for part in (text, *re.split(r"[@,]|^\w+:", text)):
        if _SEPARATOR not in part.strip("/."):
            continue
        try:
            if "://" in part or Path(part).is_absolute() or Path(part).exists():
                return True
        except OSError:  # too long to be a name
            continue
    return False


def _replace_paths(value: Any, paths: Mapping[str, str]) -> Any:
    """Replace paths in a value by hashes: as a whole, and inside other texts where they have a separator."""
    if isinstance(value, Mapping):
        return {key: _replace_paths(inner, paths) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_paths(inner, paths) for inner in value]
    if not isinstance(value, str) or value in paths:
        return paths.get(value, value) if isinstance(value, str) else value
    for path in sorted((path for path in paths if _SEPARATOR in path), key=len, reverse=True):
        value = value.replace(path, paths[path])
    return value


def _own_key() -> Path:
    """Return the key in the user's configuration folder, made on first use."""
    path = user_folder() / "pseudonym.key"
    if not path.exists():
        user_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(path, secrets.token_bytes(32))
    return path
