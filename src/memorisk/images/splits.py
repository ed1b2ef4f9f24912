"""Random splits by group: each class's share met within one group, and every group equally likely to land in each part.

METHODS section 1 ("Splits", and the prerequisite that T, C and E come from one random group split). The test part is
the null of the canaries, so a part must not attract large groups, rare labels or early rows: each group's probability
of landing in a part is that part's share, whatever the group holds. Greedy splitters, which place the largest group
first, do not have this. Here the split is drawn by *dependent rounding*, the cube method of balanced sampling (Deville
and Tillé, Biometrika 91, 2004): every group starts with the shares as its probabilities; these are moved at random, up
or down without drift, in directions that leave every class's number of images in every part as it is, until groups are
decided.

Why a share is met within the images of the class's largest group, when every group holds one class: a walk that keeps
the class's images in three parts ends with at most two undecided groups, which have one part in common; they can be
decided with exactly their chances so that never both land there (or never neither, if the chances ask for it), and
then no part is off by more than one of the two. The landing minimises the expected excess over all laws with these
chances, hence finds 0. With several labels a group there is no such theorem (a split that good need not exist):
groups are then moved while that helps, and `share_table` says what was reached.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from memorisk.images.decoding.rounding import Rounding, draw_rounding
from memorisk.runs.errors import InputError, one_line

PARTS = ("train", "canary", "test")
NOT_AUDITABLE = "not auditable"
_STREAM = 21  # keeps the random stream of splits apart from those of pairing and training


def split_by_group(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    seed: int,
    linked: Iterable[tuple[str, str]] | None = None,
) -> np.ndarray:
    """Draw the training, canary and test parts (T, C, E) at random, by group, stratified by class.

    For class c with n_c images, of which the largest group has g_c, part p gets f_p n_c images within g_c. Each group
    lands in part p with probability f_p; groups with the same labels are exchangeable. The result depends on the ids
    and the seed, not on the order of the rows.

    Args:
        labels: [N] label of each image; several labels joined by "|".
        groups: [N] group of each image; a group is never divided.
        fractions: Shares of T, C and E; they add up to 1. ``balanced`` has (0, 0.85, 0.15).
        seed: Decides the split.
        linked: Pairs of groups to keep together, such as groups that share an identical image.

    Returns: [N] "train", "canary" or "test"; "not auditable" for images of a class too small to split
        (`small_classes`), which join training only. The other images of their groups are "train", whatever the
        shares.

    Raises:
        InputError: Shares that do not add up to 1, arrays of different length, no images, or a linked group that is
            not there.
    """
    shares = _checked_shares(fractions)
    units = _units(labels, groups, linked)
    small = _small(units, shares)
    forced = units.images[:, small].sum(axis=1) > 0
    part_of_unit = np.zeros(units.n, dtype=np.intp)
    used = np.flatnonzero(shares > 0)
    rng = np.random.default_rng([_STREAM, seed])
    for rows, classes in _blocks(units.images, forced):
        problem = Rounding(units.images[np.ix_(rows, classes)], units.composition[rows], shares[used])
        part_of_unit[rows] = used[draw_rounding(problem, rng)]
    if shares[1] == shares[2] and rng.random() < 0.5:  # a coin makes the laws of C and E the same, repairs included
        part_of_unit = np.array([0, 2, 1])[part_of_unit]
    parts = np.array(PARTS, dtype=object)[part_of_unit[units.of_image]]
    parts[units.label_of_image[:, small].sum(axis=1) > 0] = NOT_AUDITABLE
    return parts


def small_classes(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    linked: Iterable[tuple[str, str]] | None = None,
) -> list[str]:
    """Classes too small to split: fewer groups than give every part one, that is fewer than 1 / (the smallest share).

    Their groups join training only. A class that this leaves with too few groups is too small as well, and so on.
    """
    units = _units(labels, groups, linked)
    return [units.classes[c] for c in _small(units, _checked_shares(fractions))]


def merge_linked(groups: Sequence[str] | np.ndarray, linked: Iterable[tuple[str, str]] | None) -> np.ndarray:
    """Give groups that belong together one name, the first of theirs in alphabetical order.

    Args:
        groups: [N] group of each image.
        linked: Pairs of groups.

    Returns:
        [N] the merged group of each image.

    Raises:
        InputError: A linked group that no image has.
    """
    names, of_image = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    place = {name: i for i, name in enumerate(names)}
    edges = []
    for pair in linked or ():
        for name in pair:
            if str(name) not in place:
                raise InputError(f"linked group {one_line(name)!r} is no image's group: link groups of the manifest")
        edges.append((place[str(pair[0])], place[str(pair[1])]))
    if not edges:
        return names[of_image].astype(object)
    start, end = np.array(edges).T
    graph = coo_array((np.ones(len(edges)), (start, end)), shape=(len(names), len(names)))
    _, component = connected_components(graph, directed=False)
    first = np.unique(component, return_index=True)[1]  # names are sorted, so the first occurrence is the first name
    return names[first[component[of_image]]].astype(object)


def share_table(
    labels: Sequence[str] | np.ndarray,
    groups: Sequence[str] | np.ndarray,
    parts: np.ndarray,
    *,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
) -> pd.DataFrame:
    """What a split gave each class.

    Returns: A row a class: ``label, images, groups, largest_group, train, canary, test`` (images in each part; those
        that are "not auditable" count as training), ``*_groups`` and ``off`` (the largest |images in a part - its
        share|). The share is met within one group where ``off <= largest_group``.
    """
    shares = _checked_shares(fractions)
    units = _units(labels, groups, None)
    code = np.array([PARTS.index(p) if p in PARTS else 0 for p in np.asarray(parts, dtype=str)])
    part_of_unit = np.zeros(units.n, dtype=np.intp)
    part_of_unit[units.of_image] = code
    one_hot = np.eye(len(PARTS), dtype=np.int64)[part_of_unit]
    images = units.images.T @ one_hot  # [classes, parts]
    counts = (units.images > 0).astype(np.int64).T @ one_hot
    total = units.images.sum(axis=0)
    table = pd.DataFrame({"label": units.classes, "images": total, "groups": (units.images > 0).sum(axis=0)})
    table["largest_group"] = units.images.max(axis=0)
    for p, part in enumerate(PARTS):
        table[part] = images[:, p]
    for p, part in enumerate(PARTS):
        table[f"{part}_groups"] = counts[:, p]
    table["off"] = np.abs(images - total[:, None] * shares).max(axis=1)
    return table


@dataclass(frozen=True)
class _Units:
    """Groups (merged where linked), in the order of their names.

    Attributes:
        classes: [C] sorted labels.
        of_image: [N] unit of each image.
        images: [U, C] images of the class in the unit.
        label_of_image: [N, C] whether the image has the label.
        composition: [U] a number for each multiset of (joined) labels.
    """

    classes: list[str]
    of_image: np.ndarray
    images: np.ndarray
    label_of_image: np.ndarray
    composition: np.ndarray

    @property
    def n(self) -> int:
        return len(self.images)


def _units(labels: Sequence[str] | np.ndarray, groups: Sequence[str] | np.ndarray, linked) -> _Units:
    text = np.asarray(labels, dtype=str)
    if len(text) != len(groups):
        raise InputError(f"{len(text)} labels but {len(groups)} groups: a split needs one of each for every image")
    if not len(text):
        raise InputError("there are no images to split")
    whole, whole_of_image = np.unique(text, return_inverse=True)
    _, of_image = np.unique(merge_linked(groups, linked).astype(str), return_inverse=True)
    classes = sorted({label for joined in whole for label in joined.split("|")})
    place = {label: c for c, label in enumerate(classes)}
    of_whole = np.zeros((len(whole), len(classes)), dtype=bool)
    for row, joined in enumerate(whole):
        of_whole[row, [place[label] for label in joined.split("|")]] = True
    label_of_image = of_whole[whole_of_image]
    images = np.zeros((int(of_image.max()) + 1, len(classes)), dtype=np.int64)
    np.add.at(images, of_image, label_of_image)
    held: list[Counter] = [Counter() for _ in images]
    for unit, joined in zip(of_image, whole_of_image, strict=True):
        held[unit][int(joined)] += 1
    kinds = [tuple(sorted(counter.items())) for counter in held]
    number = {kind: i for i, kind in enumerate(sorted(set(kinds)))}
    composition = np.array([number[kind] for kind in kinds])
    return _Units(classes, of_image, images, label_of_image, composition)


def _small(units: _Units, shares: np.ndarray) -> np.ndarray:
    """Class numbers that are too small to split, to the fixed point."""
    needed = 1 / shares[shares > 0].min()
    small = np.zeros(len(units.classes), dtype=bool)
    while True:
        free = units.images[:, small].sum(axis=1) == 0
        now = small | ((units.images[free] > 0).sum(axis=0) < needed - 1e-9)
        if (now == small).all():
            return np.flatnonzero(small)
        small = now


def _blocks(images: np.ndarray, forced: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Units and classes that can be split apart from the others: (units, classes) with no label in two blocks."""
    free = np.flatnonzero(~forced)
    n_classes = images.shape[1]
    unit, label = np.nonzero(images[free])
    shape = (n_classes + len(free), n_classes + len(free))
    graph = coo_array((np.ones(len(unit)), (label, unit + n_classes)), shape=shape)
    _, component = connected_components(graph, directed=False)
    of_class, of_unit = component[:n_classes], component[n_classes:]
    return [(free[of_unit == b], np.flatnonzero(of_class == b)) for b in np.unique(of_unit)]


def _checked_shares(fractions: tuple[float, float, float]) -> np.ndarray:
    shares = np.asarray(fractions, dtype=float)
    if shares.shape != (3,) or not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
        raise InputError(
            f"fractions {tuple(fractions)} are not shares of training, canary and test: give three that add up to 1"
        )
    return shares / shares.sum()
