"""Several sources as one manifest: ``celeba:A,nih-cxr-lt:B,table.csv``, each read by its own rules.

LCMem (paper 004) trains on several data sets at once. The data set's name is put before ids and groups, so that
patient 17 of one and celebrity 17 of another stay two people; the column ``dataset`` names each image's data set, and
code that draws pairs by data set uses it. A person in two of the sources under two names is not recognised, except by a
study in both, which is a doubt; two names of one collection of images are refused.
"""

import os
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd

from memorisk.images.identity import IdDoubt
from memorisk.images.manifest import BUILTIN, RESERVED, Manifest, shared_study_doubts
from memorisk.runs.errors import InputError, listed, one_line

_SAME_PEOPLE = (("chestxray14", "nih-cxr-lt"),)
"""Data sets of the same patients, whose equal numbers would differ by the data set's name."""


def join_manifests(manifests: list[Manifest]) -> Manifest:
    """Join several manifests to one.

    Args:
        manifests: Manifests with roots of their own; one without a column ``dataset`` is called by its name.

    Returns:
        Joined manifest with rows in the order given. ``image`` and ``group`` are ``<data set>/<as it was>``, also where
        nothing would collide, so that adding a source renames no id; ``path`` is relative to the folder above all
        roots; a column that a source lacks is empty there.

    Raises:
        InputError: Two have a data set of one name, have the same patients, or lie on different drives.
    """
    tables = [_with_name(manifest) for manifest in manifests]
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
    stacked = _stacked(tables)
    counts = [f"{len(t):,} of {one_line(m.name)}" for t, m in zip(tables, manifests, strict=True)]
    note = (
        f"Data sets: {', '.join(counts)}. Ids and groups have the data set's name before them: one id in two sources "
        "is two people."
    )
    joined = Manifest(
        table=stacked,
        root=root,
        name="+".join(manifest.name for manifest in manifests),
        notes=(note, *(f"{m.name}: {text}" for m in manifests for text in m.notes)),
        skipped=_skipped(manifests),
        id_doubts=tuple(
            replace(doubt, ids=tuple(f"{m.name}: {names}" for names in doubt.ids))
            for m in manifests
            for doubt in m.id_doubts
        )
        + _doubts_across([replace(m, table=t) for m, t in zip(manifests, tables, strict=True)]),
    )
    joined.validate()
    return joined


def _doubts_across(manifests: list[Manifest]) -> tuple[IdDoubt, ...]:
    """Doubt the ids of studies that lie in several sources, once each."""
    pairs = combinations(manifests, 2)
    return tuple(dict.fromkeys(doubt for pair in pairs for doubt in shared_study_doubts(*pair)))


def _with_name(manifest: Manifest) -> pd.DataFrame:
    """Return a manifest's table with its data set's name before ids and groups."""
    table = manifest.table.copy()
    names = table["dataset"].tolist() if "dataset" in table else [""] * len(table)
    table["dataset"] = [name or manifest.name for name in names]
    for column in ("image", "group"):
        table[column] = [f"{name}/{value}" for name, value in zip(table["dataset"], table[column], strict=True)]
    return table


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Stack the tables one below the other, our columns first, as text where a source lacks them."""
    table = pd.concat(tables, ignore_index=True)
    own = [column for column in RESERVED if column in table]
    for column in own:
        if column != "frame":
            table[column] = [value if isinstance(value, str) else "" for value in table[column]]
    if "frame" in table:
        table["frame"] = pd.array([None if pd.isna(v) else int(v) for v in table["frame"]], dtype="Int64")
    return table.reindex(columns=[*own, *[c for c in table.columns if c not in RESERVED]])


def _common_root(manifests: list[Manifest]) -> Path | None:
    """Return the folder above the roots of all.

    Raises:
        InputError: The roots have no folder in common.
    """
    roots = [str(_real(manifest.root)) for manifest in manifests if manifest.root is not None]
    try:
        return Path(os.path.commonpath(roots)) if roots else None
    except ValueError:
        raise InputError("the sources lie on different drives; put them below one folder") from None


def _real(root: Path) -> Path:
    return Path(os.path.realpath(root))


def _skipped(manifests: list[Manifest]) -> pd.DataFrame:
    """List what was left out of each manifest, with the manifest's name."""
    parts = [m.skipped.assign(path=[f"{m.name}/{path}" for path in m.skipped["path"]]) for m in manifests]
    return pd.concat(parts, ignore_index=True)
