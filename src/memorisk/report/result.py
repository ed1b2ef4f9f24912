"""The result of an audit: tables, a summary and a verdict, saved and read back exactly; and results without ids.

DESIGN, "What flows". Every audit fills the same four tables where they apply; each audit adds further ones under
``tables``.

Tables may hold any file name. Parquet holds UTF-8 only, while the name of a file may hold bytes that are not:
Python shows those as lone surrogates. Such a column is stored with backslash escapes, and the table's own metadata
record that; every other column is stored as it is, so that any Parquet reader shows the usual names. The same metadata
restore the dtype that a text column had.

DESIGN, "Run folder": ``--pseudonymise`` replaces ids by keyed hashes everywhere, ``--redact`` leaves out images and
ids.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from memorisk.runs.checksums import SEAL, changed_files, sealed_files, write_seal
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import json_value, read_json, read_table, write_json, write_table
from memorisk.runs.folder import CONFIG, read_config

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KEY = "memorisk_columns"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\\\|\\u(d[89a-f][0-9a-f]{2})")


def escape(text: str) -> str:
    """Write backslashes twice and lone surrogates as backslash, u and four digits; :func:`unescape` undoes it."""
    return _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", text.replace("\\", "\\\\"))


def unescape(text: str) -> str:
    """Return the text that :func:`escape` was given."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", text)


def to_storable(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a copy of the table that Parquet can hold, with the columns' true names and dtypes in its metadata.

    Args:
        table: Table with text columns (``object`` or ``str``) and columns of NumPy's or pandas' plain types.
        name: Name of the table, for messages.

    Raises:
        ValueError: Columns repeat or are not named by text, the index carries a name or text, or a column of objects
            holds something other than text and missing values.
    """
    if not all(isinstance(c, str) for c in table.columns) or not table.columns.is_unique:
        raise ValueError(f"table {name!r}: columns must be named by text, each once; got {list(table.columns)}")
    if table.index.name is not None or not (len(table) == 0 or pd.api.types.is_integer_dtype(table.index)):
        raise ValueError(f"table {name!r}: its index is not stored; make it a column with reset_index()")
    stored: dict[str, pd.Series] = {}
    described: list[dict[str, Any]] = []
    for column, values in table.items():
        column = str(column)
        series, description = _storable_column(values.reset_index(drop=True), f"{name}.{column}")
        stored[escape(column)] = series
        described.append({"name": column, **description})
    out = pd.DataFrame(stored, index=pd.RangeIndex(len(table)))
    out.attrs[_KEY] = {"columns": described, "names": str(table.columns.dtype)}
    return out


def from_storable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table that :func:`to_storable` was given; a table written by another program is returned as it is."""
    recorded = table.attrs.get(_KEY)
    if recorded is None or len(recorded["columns"]) != len(table.columns):
        return table
    parts = [_restored_column(table.iloc[:, i], d) for i, d in enumerate(recorded["columns"])]
    out = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=pd.RangeIndex(len(table)))
    out.columns = pd.Index([d["name"] for d in recorded["columns"]], dtype=recorded["names"])
    return out


def _storable_column(series: pd.Series, where: str) -> tuple[pd.Series, dict[str, Any]]:
    """Return the column as Parquet holds it, and the record needed to undo that."""
    if series.dtype != object:
        return series, {"dtype": str(series.dtype)}
    missing = series.isna().to_numpy()
    values = series.to_numpy()
    odd = next((v for v in values[~missing] if not isinstance(v, str)), None)
    if odd is not None:
        raise ValueError(
            f"column {where}: objects must be text, got {type(odd).__name__}; give the column a plain dtype"
        )
    escaped = any(_SURROGATE.search(v) for v in values[~missing])
    absent = "none" if any(v is None for v in values[missing]) else "nan"
    text = [None if m else (escape(v) if escaped else v) for v, m in zip(values, missing, strict=True)]
    return pd.Series(text, dtype=object), {"dtype": "object", "escaped": escaped, "missing": absent}


def _restored_column(series: pd.Series, description: dict[str, Any]) -> pd.Series:
    """Return the column with its own dtype again."""
    if description["dtype"] != "object":
        return series if str(series.dtype) == description["dtype"] else series.astype(description["dtype"])
    absent = None if description["missing"] == "none" else np.nan
    missing = series.isna().to_numpy()
    text = [
        absent if m else (unescape(v) if description["escaped"] else v) for v, m in zip(series, missing, strict=True)
    ]
    values = np.empty(len(text), dtype=object)
    values[:] = text
    return pd.Series(values, dtype=object)


CORE_TABLES = ("per_image", "per_group", "per_class", "attacks")
EXTRA_FOLDER = "tables"
_MOST_REASONS = 3
_CORE_FILES = (*(f"{name}.parquet" for name in CORE_TABLES), "summary.json", "verdict.json")
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Result of one audit, independent of how the page or the command line show it.

    ``summary`` and ``verdict`` are kept in JSON's own types from the start (NaN becomes None, arrays become lists), so
    that a loaded result equals the saved one.

    Raises:
        ValueError: A table cannot be stored as it is: repeated or unnamed columns, a named index, or a column of
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
    """Data on question and method: design, counts, seeds, settings, versions, curves of the figures."""
    verdict: dict[str, Any] = field(default_factory=dict)
    """Verdict for a pipeline: status, gate, reasons, and what would decide it."""
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables of one audit, by name."""
    folder: Path | None = None
    """Run folder where the result was saved or from which it was read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", json_value(self.summary))
        object.__setattr__(self, "verdict", json_value(self.verdict))
        for name in self.tables:
            if not _TABLE_NAME.fullmatch(name) or name in CORE_TABLES:
                raise ValueError(
                    f"table name {name!r}: use lower-case letters, digits and _, and none of {CORE_TABLES}"
                )
        for name, table in self.all_tables().items():
            to_storable(table, name)  # a table that cannot be stored is refused before hours of work depend on it

    def __repr__(self) -> str:
        """Show the verdict and the number of classes or images, without the tables."""
        counted = ((len(self.per_class), "classes"), (len(self.per_image), "images"))
        size = "".join([f", {n:,} {what}" for n, what in counted if n][:1])
        why = (redact(self) if self.redacted else self).why
        more = f"; and {len(why) - _MOST_REASONS} more in .why" if len(why) > _MOST_REASONS else ""
        return f"Result({self.status}{size}: {'; '.join(why[:_MOST_REASONS])}{more})"

    def _repr_html_(self) -> str:
        """Show verdict, reasons and classes in a notebook."""
        from memorisk.report.looks import result_html

        return result_html(self)

    @property
    def report_path(self) -> Path | None:
        """Return the path of the report in the run folder; None where it has none."""
        path = None if self.folder is None else self.folder / "report.html"
        return path if path is not None and path.is_file() else None

    @property
    def redacted(self) -> bool:
        """Return whether the run was made with ``--redact``: it then shows neither ids nor images."""
        if self.folder is None or not (self.folder / CONFIG).is_file():
            return False
        return bool(read_config(self.folder).get("redact"))

    def flagged(self) -> pd.DataFrame:
        """List what the audit flags, worst first, with the files where they are known.

        For a classifier all scored images of a flagged patient are listed: ``p_value`` is the image's own,
        ``group_p_value`` the patient's. ``image`` is the id; for arrays it is the row as text. ``path`` opens the
        file and is empty for arrays. A `UserWarning` names classes that were not tested. More:
        `memorisk.report.looks.flagged_images`.

        Raises:
            InputError: The audit flags nothing of its kind.
        """
        from memorisk.report.looks import flagged_images

        return flagged_images(self)

    def patients(self) -> pd.DataFrame:
        """List every scored patient of a classifier audit: mean M, attack AUC with limits, levels of ``by``.

        ``auc`` is that of the patient's losses under models that saw the images against models that did not, with its
        exact ``auc_p``, Holm's ``auc_adjusted``, and limits that hold for all patients together. The patient with the
        largest one is the first.

        Raises:
            InputError: The result is not of a classifier.
        """
        if "patients" not in self.tables:
            raise InputError("this result scores no patients: only audit classifier and audit losses do")
        return self.tables["patients"].copy()

    def show(self, patient: str, *, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
        """Show the images of a patient, with matplotlib, as `memorisk.report.looks.show_patient` does.

        Raises:
            InputError: The result has no patient of that id, the run hides ids or images, or the images are gone.
        """
        from memorisk.report.looks import show_patient

        return show_patient(self, patient, axes=axes)

    def plot_classes(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mean memorization of each class with its interval.

        Raises:
            InputError: The result is not of a classifier.
        """
        from memorisk.report.looks import plot_classes

        return plot_classes(self, ax)

    def plot_roc(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the ROC curve of each attack.

        Raises:
            InputError: The result is not of a classifier.
        """
        from memorisk.report.looks import plot_roc

        return plot_roc(self, ax)

    def plot_distances(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how near a synthetic set comes to training and to held-out patients.

        Raises:
            InputError: The result is not of a synthetic set.
        """
        from memorisk.report.looks import plot_distances

        return plot_distances(self, ax)

    @property
    def status(self) -> str:
        """Return ``pass``, ``fail`` or ``undecided``; a result without a verdict is undecided."""
        return str(self.verdict.get("status") or "undecided")

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """Return the reasons of the verdict as data: code, bearing, gravity, fields, and their sentences."""
        return list(self.verdict.get("reasons") or ())

    @property
    def why(self) -> list[str]:
        """Return the reasons of the verdict, one sentence each."""
        return [str(reason) for reason in self.verdict.get("why") or ()]

    @property
    def what_would_decide(self) -> list[str]:
        """Return what would decide the verdict, or what can be done about a failure."""
        return [str(way) for way in self.verdict.get("what_would_decide") or ()]

    def all_tables(self) -> dict[str, pd.DataFrame]:
        """Return the core tables and the further ones, by name."""
        return {name: getattr(self, name) for name in CORE_TABLES} | dict(self.tables)

    def replace(self, **changes: Any) -> "Result":
        """Return a copy with some fields changed."""
        return Result(**({f.name: getattr(self, f.name) for f in fields(self)} | changes))

    def save(self, folder: str | Path, *, beside: Sequence[str] = ()) -> None:
        """Write the result into a folder (made private when it is new).

        Each file is replaced atomically. The verdict is removed first and written last, so that a folder with a
        verdict is complete: a program that is killed in between leaves no verdict for other tables. After it comes
        ``result.sha256``, the checksums of all of them, by which a statement knows that nothing was changed since.

        Args:
            folder: Folder for ``per_*.parquet``, ``attacks.parquet``, ``summary.json`` and ``verdict.json``.
            beside: Names of existing files in the folder that are part of the result: the score table.
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
        object.__setattr__(self, "folder", target)
        write_seal(target, [*_CORE_FILES, *(f"{EXTRA_FOLDER}/{name}.parquet" for name in self.tables), *beside])

    def _save_extra(self, folder: Path) -> None:
        """Write the further tables and remove those of an earlier save."""
        if self.tables:
            folder.mkdir(mode=0o700, exist_ok=True)
        for name, table in self.tables.items():
            write_table(folder / f"{name}.parquet", to_storable(table, name))
        for stale in folder.glob("*.parquet") if folder.is_dir() else ():
            if stale.stem not in self.tables:
                stale.unlink()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a result that :meth:`save` wrote, with the same dtypes, missing values and text.

        Raises:
            InputError: The folder holds no finished result.
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
        return cls(**core, tables=extra, summary=dict(summary), verdict=dict(verdict), folder=source)


def refuse_changed(folder: Path, cure: str = "issue the run's command again") -> None:
    """Refuse a saved result of which a file was changed, removed or added since; a result without a seal passes.

    Args:
        folder: Folder where :meth:`Result.save` wrote it.
        cure: Remedy to suggest in place of restoring the file.

    Raises:
        InputError: A file differs from the seal; the message names it.
    """
    if not (folder / SEAL).is_file():
        return
    extra = {f"{EXTRA_FOLDER}/{path.name}" for path in (folder / EXTRA_FOLDER).glob("*.parquet")}
    unsealed = ({*_CORE_FILES} | extra) - sealed_files(folder).keys()
    if odd := sorted({*changed_files(folder)} | unsealed):
        raise InputError(
            f"{one_line(folder)}: {one_line(odd[0] or SEAL, 80)} is not what the run wrote: it was changed or damaged "
            f"since; restore it, or {cure}"
        )


def _read(path: Path) -> pd.DataFrame:
    """Read one table of a saved result."""
    return from_storable(read_table(path))


ID_COLUMNS = ("image", "group", "path")
REDACTED = "[redacted]"
REDACTED_PAGE = (
    "Ids and images were left out of this file. The folder that it was written for still holds them, in tables, models "
    "and pictures: pass on this file alone."
)
"""Closing text of a redacted page."""
_SHORTEST_SEARCHED = 4
_PARTS = frozenset(("training", "train", "val", "test", "synthetic", "held_out", "calibration", "canary"))
"""Names of parts of a set, which are keys of our records; a patient of such a name does not make them lists of ids."""
_HEX_DIGITS = 16


def pseudonyms(ids: Iterable[str], key: bytes) -> dict[str, str]:
    """Replace ids by keyed hashes: the first 16 hexadecimal digits of HMAC-SHA256(key, id).

    A plain hash would not do: a person who suspects a patient number could hash it and look. The same key gives the
    same pseudonym in every run, so that runs can still be compared patient by patient.

    Args:
        ids: Ids to replace, repeated or not.
        key: Secret key of at least 16 bytes.

    Returns:
        Pseudonym of each id, by id.

    Raises:
        ValueError: The key is too short, or two ids have the same pseudonym.
    """
    if len(key) < 16:
        raise ValueError(f"a key of {len(key)} bytes can be guessed; at least 16")
    encoded = {i: i.encode("utf-8", errors="surrogatepass") for i in dict.fromkeys(ids)}
    out = {i: hmac.new(key, e, hashlib.sha256).hexdigest()[:_HEX_DIGITS] for i, e in encoded.items()}
    if len(set(out.values())) < len(out):
        raise ValueError("two ids share one pseudonym; use another key")
    return out


def redact(result: Result) -> Result:
    """Return the result without ids: their columns are removed, and ids in messages, notes and lists are blanked.

    Ids shorter than four characters are not searched for in running text, where they would match ordinary numbers;
    lists that hold only ids are replaced by their length, whatever the ids look like.
    """
    ids = _known_ids(result)
    long_ids = sorted((i for i in ids if len(i) >= _SHORTEST_SEARCHED), key=len, reverse=True)
    tables = {n: t.drop(columns=[c for c in ID_COLUMNS if c in t]) for n, t in result.all_tables().items()}
    core = {n: tables.pop(n) for n in ("per_image", "per_group", "per_class", "attacks")}
    return result.replace(
        **core,
        tables=tables,
        summary=_clean(result.summary, ids, long_ids),
        verdict=_clean(result.verdict, ids, long_ids),
    )


def _known_ids(result: Result) -> set[str]:
    """Return every id that a table names, but for those that are also the name of a class."""
    tables = result.all_tables().values()
    classes = {str(v) for t in tables if "label" in t for v in t["label"].dropna()}
    classes |= {str(v) for v in result.summary.get("not_auditable") or ()}
    columns = [t[c].dropna() for t in tables for c in ID_COLUMNS if c in t]
    return {str(v) for column in columns for v in column} - classes - {""}


def _clean(value: Any, ids: set[str], long_ids: list[str]) -> Any:
    """Return the same structure with ids removed from its keys, lists and texts."""
    if isinstance(value, dict):
        if any(k in ids and k not in _PARTS for k in value):
            return len(value)
        return {k: len(v) if _lists_ids(k, v, ids) else _clean(v, ids, long_ids) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v, ids, long_ids) for v in value]
    if isinstance(value, str):
        for i in long_ids:
            if i in value:
                value = re.sub(rf"(?<!\w){re.escape(i)}(?!\w)", REDACTED, value)
    return value


def _lists_ids(key: str, value: Any, ids: set[str]) -> bool:
    """Return whether a field is a list of ids, by its values or by its name."""
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        return False
    return key.endswith(("groups", "images")) or all(v in ids for v in value)
