"""Clusters of copies: synthetic images that expose one patient, or are nearly the same image.

Connected components of a graph: synthetic images and training patients are its nodes; an edge joins an image with each
patient whom it exposes, and two images with equal or nearly equal pixels.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from memorisk.images.duplicates import near_pairs


@dataclass(frozen=True, eq=False)
class Clusters:
    """Components with two synthetic images or more, those that expose somebody first, then the largest."""

    images: tuple[np.ndarray, ...]
    """Rows of the synthetic images of each."""
    patients: tuple[np.ndarray, ...]
    """Patients whom they expose."""
    cluster: np.ndarray
    """[S] number of an image's cluster, from 1; 0 for none."""


def copy_clusters(
    exposing: Iterable[tuple[int, str]], hashes: np.ndarray, thumbnails: np.ndarray, blank: np.ndarray
) -> Clusters:
    """Who is copied by which images together.

    Args:
        exposing: Synthetic image by row, and a patient whom it exposes.
        hashes: [S] of the pixels of the synthetic images.
        thumbnails: [S, 32, 32] of them.
        blank: [S] whether an image has one value only: it is like no other.

    Returns:
        The clusters.
    """
    n = len(hashes)
    pairs = sorted(set(exposing))
    patients = sorted({patient for _, patient in pairs})
    place = {patient: n + i for i, patient in enumerate(patients)}
    _, first, content = np.unique(hashes.astype(str), return_index=True, return_inverse=True)
    alike = near_pairs(thumbnails[first])
    edges = [(image, place[patient]) for image, patient in pairs]
    edges += zip(first[alike.first].tolist(), first[alike.second].tolist(), strict=True)
    edges += [(row, int(first[content[row]])) for row in np.flatnonzero(~blank)]
    node = np.array(edges, dtype=np.int64).reshape(-1, 2)
    size = n + len(patients)
    graph = coo_array((np.ones(len(node), np.int8), (node[:, 0], node[:, 1])), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    members = np.bincount(component[:n], minlength=component.max(initial=0) + 1)
    exposed = np.bincount(component[n:], minlength=len(members))
    ranked = sorted(np.flatnonzero(members >= 2).tolist(), key=lambda c: (exposed[c] == 0, -members[c], c))
    number = np.zeros(len(members), dtype=np.int64)
    number[ranked] = np.arange(1, len(ranked) + 1)
    return Clusters(
        images=tuple(np.flatnonzero(component[:n] == c) for c in ranked),
        patients=tuple(np.array(patients, dtype=object)[component[n:] == c] for c in ranked),
        cluster=number[component[:n]],
    )
