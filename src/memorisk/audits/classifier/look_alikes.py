"""Images of different patients that are the same or nearly so: perhaps one person under two ids.

Such a person is in both halves of the models: the model that left one id out saw the other, and the gap by which a
patient is recognised shrinks. In the test part the null holds a person who was trained on. No rule tells whether two
ids are one person, so that the pairs are a doubt, which only records can settle. Images with equal pixels raise no
doubt: their patients are merged before anything is drawn.

Where images are known, near copies are searched for by `images.copies.near_copies`. Of losses alone only equal ones
tell: two images with the same loss under every model, which no other image has under most of them.
"""

from functools import partial

import numpy as np
import pandas as pd

from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.reasons import PAIR_TABLE
from memorisk.audits.classifier.result import LookAlikes
from memorisk.images.copies.near_copies import RULE_IMAGES, near_copies, rule_of_stores, thumbnails
from memorisk.images.store import ImageStore
from memorisk.runs.workload import Progress

TABLE = PAIR_TABLE
COLUMNS = ("pair", "image", "group", "part", "similarity")
LOSSES_ALONE = (
    "Whether one person has two ids: of losses alone only images with equal losses show it, and other images of one "
    "person do not."
)
"""Limit of a table of losses. Correlated residuals of two images over models do not test it: of 32 models 9 pairs of
10 with a correlation of 0.99 would be seen where noise is normal and 2 of 10 where its tails are heavy, of 16 models
none, and of pairs that only memory connects none (400 images, at 0.01 expected false pairs)."""
_UNSCORED = ("train", "val")  # pairs within these parts change no comparison


def alike_images(store: ImageStore, groups: np.ndarray, part: np.ndarray, progress: Progress) -> LookAlikes:
    """Search for near copies among the images of different patients.

    Args:
        store: Images.
        groups: Patient of each image, [N], those that share an identical image merged.
        part: Part of each image, [N]; a pair without a canary and without a test image does not count.
        progress: Called with (stage, done, total).
    """
    small = thumbnails(store.images)
    rule = rule_of_stores(store, small=[small], progress=partial(progress, "learning how alike two people are"))
    pairs = near_copies(
        small, rule, store.images.__getitem__, progress=partial(progress, "looking for near copies across patients")
    )
    first, second = pairs.first[pairs.confirmed], pairs.second[pairs.confirmed]
    matters = (groups[first] != groups[second]) & ~(np.isin(part[first], _UNSCORED) & np.isin(part[second], _UNSCORED))
    table = _pair_table(
        store.manifest.images, groups, part, first[matters], second[matters], pairs.similarity[pairs.confirmed][matters]
    )
    return LookAlikes(table, "nearly the same", rule.chance.why)


def searched_pairs(store: ImageStore, alike: LookAlikes) -> int:
    """Count the pairs of images that `alike_images` compares: to learn the rule, and to search where there is one.

    Args:
        store: Images.
        alike: Result of the search.
    """
    n, n_rule = len(store.images), min(RULE_IMAGES, len(set(store.pixel_hashes.tolist())))
    return n_rule * (n_rule - 1) // 2 + (0 if alike.why_not else n * (n - 1) // 2)


def equal_losses(evidence: Evidence) -> LookAlikes:
    """Search for images of different patients that have the same loss under every model.

    Saturated and rounded losses are often the same. A pair counts where its losses differ between most of the models,
    and under most of them no image has its loss but those that are the same throughout.

    Args:
        evidence: Losses of S twin pairs and I items.
    """
    items, losses = evidence.items, np.concatenate([evidence.loss_a, evidence.loss_b])
    holders = np.stack([np.unique(row, return_inverse=True)[1] for row in losses])  # [2S, I] number of each value
    shared = np.stack([np.bincount(row)[row] for row in holders])  # [2S, I] items that have it
    _, kind, size = np.unique(holders, axis=1, return_inverse=True, return_counts=True)
    kind = kind.ravel()
    distinct = 1 + (np.diff(np.sort(losses, axis=0), axis=0) > 0).sum(axis=0)  # [I] a saturated image has one loss
    alone = (shared == size[kind]).mean(axis=0) > 0.5
    telling = (size[kind] > 1) & (distinct > len(losses) / 2) & alone
    rows = np.flatnonzero(telling)
    ordered = rows[np.lexsort((items.group[rows].astype(str), kind[rows]))]
    first, second = ordered[:-1], ordered[1:]
    alike = (kind[first] == kind[second]) & (items.group[first] != items.group[second])
    matters = alike & ~((items.split[first] == "train") & (items.split[second] == "train"))
    first, second = first[matters], second[matters]
    return LookAlikes(
        _pair_table(items.image, items.group, items.split, first, second, np.ones(len(first))),
        "the same by their losses under every model",
    )


def _pair_table(
    images: np.ndarray, groups: np.ndarray, part: np.ndarray, first: np.ndarray, second: np.ndarray, alike: np.ndarray
) -> pd.DataFrame:
    """Tabulate pairs, the most alike first: two rows per pair, one per image."""
    order = np.argsort(-alike, kind="stable")
    rows = np.stack([first[order], second[order]], axis=1).ravel()
    columns = {"image": images[rows], "group": groups[rows], "part": part[rows]}
    table = pd.DataFrame({name: values.astype(str).astype(object) for name, values in columns.items()})
    table.insert(0, "pair", np.repeat(np.arange(1, len(order) + 1), 2))
    return table.assign(similarity=np.repeat(alike[order].astype(np.float64), 2))
