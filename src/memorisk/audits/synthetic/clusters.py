"""Clusters of copies: synthetic images that expose one patient, or are nearly the same image.

A cluster is all images that are flagged with one patient before any other, and their equals; or images of which every
two are nearly the same or equal. Chains join nobody: an image that exposes two patients is in the cluster of the first,
and A like B and B like C does not put A beside C (complete linkage, `statistics.pairs.identity_pairs.cliques`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from memorisk.statistics.pairs.identity_pairs import cliques


@dataclass(frozen=True, eq=False)
class Clusters:
    """Those with two synthetic images or more, who expose somebody first, then the largest."""

    images: tuple[np.ndarray, ...]
    """Rows of the synthetic images of each."""
    patients: tuple[np.ndarray, ...]
    """Patients whom they expose."""
    cluster: np.ndarray
    """[S] number of an image's cluster, from 1; 0 for none."""


def copy_clusters(
    exposing: Iterable[tuple[int, str]], hashes: np.ndarray, alike: Iterable[tuple[int, int]], blank: np.ndarray
) -> Clusters:
    """Who is copied by which images together.

    Args:
        exposing: Synthetic image by row, and a patient whom it exposes; the first of an image counts.
        hashes: [S] of the pixels of the synthetic images.
        alike: Rows of synthetic images that are nearly the same.
        blank: [S] whether an image has one value only: it is like no other.

    Returns:
        The clusters.
    """
    n, pairs = len(hashes), list(exposing)
    _, first, content = np.unique(hashes.astype(str), return_index=True, return_inverse=True)
    whom: dict[int, str] = {}
    for image, patient in pairs:
        whom.setdefault(int(first[content[image]]) if not blank[image] else image, patient)
    links = [(int(first[content[a]]), int(first[content[b]])) for a, b in alike]
    free = [(a, b) for a, b in links if a != b and a not in whom and b not in whom]
    clique = cliques(n, *(np.array(free, dtype=np.intp).reshape(-1, 2).T))
    names: dict[str | int, int] = {}
    component = np.array(
        [
            names.setdefault(whom[at] if at in whom else int(clique[at]), len(names))
            for at in (int(row if blank[row] else first[content[row]]) for row in range(n))
        ],
        dtype=np.int64,
    )
    members = np.bincount(component, minlength=len(names))
    exposed: dict[int, set[str]] = {}
    for image, patient in pairs:
        exposed.setdefault(int(component[image]), set()).add(patient)
    ranked = sorted(np.flatnonzero(members >= 2).tolist(), key=lambda c: (c not in exposed, -members[c], c))
    number = np.zeros(len(members), dtype=np.int64)
    number[ranked] = np.arange(1, len(ranked) + 1)
    return Clusters(
        images=tuple(np.flatnonzero(component == c) for c in ranked),
        patients=tuple(np.array(sorted(exposed.get(c, ())), dtype=object) for c in ranked),
        cluster=number[component],
    )
