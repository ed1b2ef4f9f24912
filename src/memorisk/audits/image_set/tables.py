"""Findings of a check as tables of a run folder: sets of copies first, then each kind of finding.

``tables/sets.parquet`` has one row per image in a set of copies, the gravest set first: ``set`` (its number, from 1),
``kind`` ("bytes", "pixels" or "near"), ``across`` (which of group, split and label differ within it), ``similarity``
(of the two least alike images whose pair was confirmed; 1 where pixels are equal), ``image, path, label, group,
split``.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.set_check.check import ROLES, ImageCheck, crossed_roles, described_images
from memorisk.statistics.pairs.identity_pairs import cliques

NEAR = "near"
COLUMNS = ("set", "kind", "across", "similarity", "image", "path", "label", "group", "split")
FOUND = (
    "unreadable", "not_read", "empty", "few_levels", "duplicates", "near", "crossing_groups", "classes", "groups",
    "splits", "split_copies", "sizes", "frames_left",
)  # fmt: skip
"""Tables of `ImageCheck` that a run folder holds under their names."""


def copy_sets(check: ImageCheck, manifest: Manifest) -> pd.DataFrame:
    """Join equal images and near copies to sets, in each of which every two images were found to be a pair.

    Args:
        check: Findings of the check.
        manifest: Images that were checked.

    Returns:
        Table with `COLUMNS`; sets across groups, splits and labels first, then those across fewer, then the most alike.
    """
    described = described_images(manifest)
    place = {image: row for row, image in enumerate(described["image"])}
    sets = sorted(_sets(check, place), key=lambda one: (*_gravity(described.iloc[one[0]]), -one[2], one[0][0]))
    parts = [
        described.iloc[rows].assign(
            set=number, kind=kind, across=crossed_roles(described.iloc[rows]), similarity=similarity
        )
        for number, (rows, kind, similarity) in enumerate(sets, start=1)
    ]
    joined = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return joined.reindex(columns=list(COLUMNS))


def _gravity(rows: pd.DataFrame) -> tuple[bool, bool, bool]:
    """Order sets: those of two patients first, then of two splits, then of two labels."""
    across = crossed_roles(rows).split(", ")
    return "group" not in across, "split" not in across, "label" not in across


def _sets(check: ImageCheck, place: dict[str, int]) -> Iterator[tuple[list[int], str, float]]:
    """Yield the rows of each set, its kind and the similarity of the two that are least alike."""
    equal: dict[int, tuple[list[int], str]] = {}  # by the first image of its kind, which represents all of them
    for _, rows in check.duplicates.groupby("copy", sort=True):
        members = [place[image] for image in rows["image"]]
        equal[members[0]] = members, str(rows["kind"].iloc[0])
    sure = check.near.loc[check.near["confirmed"].astype(bool)]
    first, second = ([place[image] for image in sure[f"image_{side}"]] for side in "ab")
    nodes = sorted({*equal, *first, *second})
    number = {row: n for n, row in enumerate(nodes)}
    clique = cliques(len(nodes), [number[row] for row in first], [number[row] for row in second])
    similarity = {
        frozenset(pair): value for *pair, value in zip(first, second, sure["similarity"].tolist(), strict=True)
    }
    for one in range(int(clique.max()) + 1 if len(nodes) else 0):
        members = [nodes[n] for n in np.flatnonzero(clique == one)]
        rows = [row for member in members for row in equal.get(member, ([member], ""))[0]]
        if len(members) > 1:
            pairs = (frozenset((a, b)) for i, a in enumerate(members) for b in members[:i])
            yield rows, NEAR, float(min(similarity[pair] for pair in pairs))
        elif len(rows) > 1:
            yield rows, equal[members[0]][1], 1.0


__all__ = ["COLUMNS", "FOUND", "NEAR", "ROLES", "copy_sets"]
