"""What an audit found: tables, a summary and a verdict, which a folder gives back exactly as they were.

DESIGN, "What flows". Every audit fills the same four tables where they apply; a later one adds its own under
``tables``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import pandas as pd

from memorisk.report.text_columns import from_storable, to_storable
from memorisk.runs.checksums import SEAL, changed_files, sealed_files, write_seal
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import plain, read_json, read_table, write_json, write_table

CORE_TABLES = ("per_image", "per_group", "per_class", "attacks")
EXTRA_FOLDER = "tables"
_CORE_FILES = (*(f"{name}.parquet" for name in CORE_TABLES), "summary.json", "verdict.json")
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What one audit found, independent of how the page or the command line show it.

    ``summary`` and ``verdict`` are kept in JSON's own types from the start (NaN becomes None, arrays become lists), so
    that what is loaded equals what was saved.

    Raises:
        ValueError: If a table cannot be stored as it is: repeated or unnamed columns, a named index, or a column of
            objects other than text.
    """

    per_image: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per image (and label, for multi-label sets)."""
    per_group: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per group: patient, lesion, video."""
    per_class: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per class."""
    attacks: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per attack and class."""
    summary: dict[str, Any] = field(default_factory=dict)
    """What was asked and how it was done: design, counts, seeds, settings, versions, curves of the figures."""
    verdict: dict[str, Any] = field(default_factory=dict)
    """What a pipeline acts on: status, gate, why, what would decide it."""
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables of one audit, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", plain(self.summary))
        object.__setattr__(self, "verdict", plain(self.verdict))
        for name in self.tables:
            if not _TABLE_NAME.fullmatch(name) or name in CORE_TABLES:
                raise ValueError(
                    f"table name {name!r}: use lower-case letters, digits and _, and none of {CORE_TABLES}"
                )
        for name, table in self.all_tables().items():
            to_storable(table, name)  # a table that could not be stored is refused before hours of work hang on it

    def __repr__(self) -> str:
        """What it says, not its tables."""
        why = self.verdict.get("why") or []
        return f"Result({self.status}, {len(self.per_class)} classes: {'; '.join(map(str, why))})"

    @property
    def status(self) -> str:
        """``pass``, ``fail`` or ``undecided``; a result without a verdict is undecided."""
        return str(self.verdict.get("status") or "undecided")

    def all_tables(self) -> dict[str, pd.DataFrame]:
        """The core tables and the further ones, by name."""
        return {name: getattr(self, name) for name in CORE_TABLES} | dict(self.tables)

    def replace(self, **changes: Any) -> "Result":
        """A copy with some fields changed."""
        return Result(**({f.name: getattr(self, f.name) for f in fields(self)} | changes))

    def save(self, folder: str | Path, *, beside: Sequence[str] = ()) -> None:
        """Write the result into a folder (made private when it is new).

        Each file is replaced atomically. The verdict is taken away first and written last, so that a folder with a
        verdict is whole: whoever is killed in between leaves no verdict that speaks of other tables. After it comes
        ``result.sha256``, the checksums of all of them, by which a statement knows that nothing was changed since.

        Args:
            folder: Where ``per_*.parquet``, ``attacks.parquet``, ``summary.json`` and ``verdict.json`` go.
            beside: Names of files that lie there already and are part of the result: the score table.
        """
        target = Path(folder)
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (SEAL, "verdict.json"):
            (target / name).unlink(missing_ok=True)
        for name in CORE_TABLES:
            write_table(target / f"{name}.parquet", to_storable(getattr(self, name), name))
        self._save_extra(target / EXTRA_FOLDER)
        write_json(target / "summary.json", self.summary)
        write_json(target / "verdict.json", self.verdict)
        write_seal(target, [*_CORE_FILES, *(f"{EXTRA_FOLDER}/{name}.parquet" for name in self.tables), *beside])

    def _save_extra(self, folder: Path) -> None:
        """Write the further tables and take away those of an earlier save."""
        if self.tables:
            folder.mkdir(mode=0o700, exist_ok=True)
        for name, table in self.tables.items():
            write_table(folder / f"{name}.parquet", to_storable(table, name))
        for stale in folder.glob("*.parquet") if folder.is_dir() else ():
            if stale.stem not in self.tables:
                stale.unlink()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a result that :meth:`save` wrote: the same dtypes, missing values and text.

        Raises:
            InputError: If the folder holds no finished result.
        """
        source = Path(folder)
        absent = [n for n in ("verdict.json", "summary.json") if not (source / n).is_file()]
        absent += [f"{n}.parquet" for n in CORE_TABLES if not (source / f"{n}.parquet").is_file()]
        if absent:
            raise InputError(
                f"{one_line(source)} holds no finished run ({', '.join(absent)} missing): issue the run's command again"
            )
        core = {n: _read(source / f"{n}.parquet") for n in CORE_TABLES}
        extra = {p.stem: _read(p) for p in sorted((source / EXTRA_FOLDER).glob("*.parquet"))}
        summary: Mapping[str, Any] = read_json(source / "summary.json")
        verdict: Mapping[str, Any] = read_json(source / "verdict.json")
        return cls(**core, tables=extra, summary=dict(summary), verdict=dict(verdict))


def refuse_changed(folder: Path, cure: str = "issue the run's command again") -> None:
    """Refuse a saved result of which a file was changed, taken away or added since; without a seal nothing is known.

    Args:
        folder: Where :meth:`Result.save` wrote it.
        cure: What to do instead of restoring the file.

    Raises:
        InputError: A file is not what the seal says; it is named.
    """
    if not (folder / SEAL).is_file():
        return
    there = {f"{EXTRA_FOLDER}/{path.name}" for path in (folder / EXTRA_FOLDER).glob("*.parquet")}
    unsealed = ({*_CORE_FILES} | there) - sealed_files(folder).keys()
    if odd := sorted({*changed_files(folder)} | unsealed):
        raise InputError(
            f"{one_line(folder)}: {one_line(odd[0] or SEAL, 80)} is not what the run wrote: it was changed or damaged "
            f"since; restore it, or {cure}"
        )


def _read(path: Path) -> pd.DataFrame:
    """One table of a saved result."""
    return from_storable(read_table(path))
