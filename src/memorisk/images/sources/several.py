"""Several data sets as one: ``celeba:A,nih-cxr-lt:B,table.csv``, the sources by commas, each read by its own rules.

LCMem (paper 004) trains on several data sets at once. Ids and groups get the data set's name before them, so that
patient 17 of one and celebrity 17 of another stay two people; the column ``dataset`` says whose each image is, and
what draws pairs by data set goes by it. Who is in two of the sources under two names is not known; two names of one
collection of images are refused.
"""

import os
from pathlib import Path

import pandas as pd

from memorisk.images.manifest import BUILTIN, RESERVED, Manifest
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

_SAME_PEOPLE = (("chestxray14", "nih-cxr-lt"),)
"""Data sets of the same patients, whose numbers would be told apart by the data set's name."""


def several_sources(source: str) -> list[str]:
    """The parts of a source that names several; the whole where it names one.

    A comma that belongs to a path needs that path to exist; then the whole is one source, as a caller has checked.
    """
    parts = [part.strip() for part in source.split(",")]
    return parts if len(parts) > 1 and all(parts) else [source]


def join_manifests(manifests: list[Manifest]) -> Manifest:
    """One manifest of several.

    Args:
        manifests: Each with its own root; one without a column ``dataset`` is called by its name.

    Returns:
        Rows in the order given. ``image`` and ``group`` are ``<data set>/<as it was>``, also where nothing would
        collide, so that adding a source renames nobody; ``path`` is relative to the folder above all roots; a column
        that a source lacks is empty there.

    Raises:
        InputError: Two have a data set of one name, are of the same patients, or lie on different drives.
    """
    tables = [_named(manifest) for manifest in manifests]
    names = [list(dict.fromkeys(table["dataset"])) for table in tables]
    flat = [name for part in names for name in part]
    twice = sorted({name for name in flat if flat.count(name) > 1})
    if twice:
        raise InputError(
            f"two of the sources hold a data set called {listed([one_line(t, 60) for t in twice])}; give each folder a "
            "name of its own, or a table with a column dataset"
        )
    for pair in _SAME_PEOPLE:
        if set(pair) <= set(flat):
            raise InputError(
                f"{' and '.join(pair)} are images of the same patients under one numbering; give one of them"
            )
    root = _common_root(manifests)
    for table, manifest in zip(tables, manifests, strict=True):
        if manifest.root is not None and root is not None:
            above = os.path.relpath(_real(manifest.root), root)
            table["path"] = [
                path if path.startswith(BUILTIN) else os.path.normpath(os.path.join(above, path)).replace(os.sep, "/")  # noqa: PTH118
                for path in table["path"]
            ]
    table = _stacked(tables)
    counts = [f"{len(t):,} of {one_line(m.name)}" for t, m in zip(tables, manifests, strict=True)]
    note = (
        f"Data sets: {', '.join(counts)}. Ids and groups have the data set's name before them: one id in two sources "
        "is two people."
    )
    joined = Manifest(
        table=table,
        root=root,
        name="+".join(manifest.name for manifest in manifests),
        notes=(note, *(f"{m.name}: {said}" for m in manifests for said in m.notes)),
        skipped=_skipped(manifests),
    )
    joined.validate()
    return joined


def _named(manifest: Manifest) -> pd.DataFrame:
    """A manifest's table with its data set's name before ids and groups."""
    table = manifest.table.copy()
    given = table["dataset"].tolist() if "dataset" in table else [""] * len(table)
    table["dataset"] = [name or manifest.name for name in given]
    for column in ("image", "group"):
        table[column] = [f"{name}/{value}" for name, value in zip(table["dataset"], table[column], strict=True)]
    return table


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables one below the other, our columns first, as text where a source lacks them."""
    table = pd.concat(tables, ignore_index=True)
    own = [column for column in RESERVED if column in table]
    for column in own:
        if column != "frame":
            table[column] = [value if isinstance(value, str) else "" for value in table[column]]
    if "frame" in table:
        table["frame"] = pd.array([None if pd.isna(v) else int(v) for v in table["frame"]], dtype="Int64")
    return table.reindex(columns=[*own, *[c for c in table.columns if c not in RESERVED]])


def _common_root(manifests: list[Manifest]) -> Path | None:
    """The folder above the roots of all.

    Raises:
        InputError: There is none.
    """
    roots = [str(_real(manifest.root)) for manifest in manifests if manifest.root is not None]
    try:
        return Path(os.path.commonpath(roots)) if roots else None
    except ValueError:
        raise InputError("the sources lie on different drives; put them below one folder") from None


def _real(root: Path) -> Path:
    return Path(os.path.realpath(root))


def _skipped(manifests: list[Manifest]) -> pd.DataFrame:
    """What was left out of each, with its name."""
    parts = [m.skipped.assign(path=[f"{m.name}/{path}" for path in m.skipped["path"]]) for m in manifests]
    return pd.concat(parts, ignore_index=True)
