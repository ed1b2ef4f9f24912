"""Pairs of images for the report, only at the user's request: the choice of pairs, and pictures side by side."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.comparison.pictures import (
    MAX_PICTURES,
    Pair,
    PairPicture,
    ShownPairs,
    at_a_glance,
    laid_on_one_another,
)
from memorisk.audits.run_images import Parts
from memorisk.audits.synthetic.result import Listing, SyntheticSummary, matrices
from memorisk.images.copies.near_copies import MIRRORED
from memorisk.report.columns import booleans, column_texts, rows
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of pairs, by the part of the report that shows them; each pair once."""

    exposed: dict[Pair, PairPicture]
    """Pictures of the patients that are listed or suspect."""
    equal: dict[Pair, PairPicture]
    """Pictures of further pairs with equal pixels; with the exposed ones that have them, at most `MAX_PICTURES`."""
    near: dict[Pair, PairPicture]
    """Pictures of pairs with nearly equal pixels, perhaps mirrored."""
    closest: dict[Pair, PairPicture]
    """Pictures of the closest pairs by features that have no equal pixels."""
    paired: dict[Pair, PairPicture]
    """Pictures of pairs of an image and its source that a detector takes for one patient."""
    aligned: dict[tuple[str, str, str], PairPicture]
    """Pictures of the most similar pairs that alignment confirms, laid on one another, by their ids and the transform;
    the report shows these in addition to the others."""
    singled: frozenset[str] = frozenset()
    """Ids of the synthetic images that are singled out."""

    @property
    def gravest(self) -> dict[Pair, PairPicture]:
        """Pairs of the first screen: laid on one another, equal, of listed patients, nearly equal, singled out.

        Without any of these the closest ones: next to a copy, a pair that is only the closest would look like one.
        """
        laid = {(real, synthetic): picture for (real, synthetic, _), picture in self.aligned.items()}
        singled = {pair: picture for pair, picture in self.closest.items() if pair[1] in self.singled}
        return at_a_glance((laid | self.equal | self.exposed | self.near | singled) or self.closest)


def pair_pictures(result: Result, parts: Parts) -> Pictures:
    """Draw the pairs that the report names first, side by side, each in the first place that needs it.

    Args:
        result: Result whose tables name the pairs.
        parts: Images of the training and of the synthetic part.
    """
    pairs, table = result.tables["pairs"], result.per_image
    listing = from_json(SyntheticSummary, result.summary).numbers.listing
    training = np.array([part == "training" for part in column_texts(pairs, "part")], dtype=bool)
    same = booleans(pairs, "identical")
    turned = np.array([how == MIRRORED for how in column_texts(pairs, "orientation")], dtype=bool)
    nearest = table.sort_values(["distance", "image"], kind="stable")
    mirrored = {
        *_ids(rows(pairs, training & turned), "real_image", "image"),
        *_ids(rows(table, booleans(table, "mirrored")), "similar_image", "image"),
    }
    equal = _ids(rows(pairs, training & same), "real_image", "image")
    near = _ids(rows(pairs, training & ~same), "real_image", "image")
    copied = {image for _, image in equal}
    closest = [pair for pair in _ids(nearest, "nearest_image", "image") if pair[1] not in copied]
    exposed = _ids(suspects(result, listing), "training_image", "synthetic_image")[:MAX_PICTURES]
    more = MAX_PICTURES - len({*exposed} & {*equal})
    exposed_pairs = {*exposed}
    equal = [pair for pair in equal if pair not in exposed_pairs][:more]
    near = [pair for pair in near if pair not in exposed_pairs][:MAX_PICTURES]
    closest = [pair for pair in closest if pair not in exposed_pairs | {*near}][:MAX_PICTURES]
    paired = [
        pair for pair in dict.fromkeys(_memorized(result)) if pair not in exposed_pairs | {*near, *closest, *equal}
    ]
    mirrored -= {*_ids(rows(pairs, same & ~turned), "real_image", "image")}
    pair_images = ShownPairs(parts)
    pictures = (
        pair_images.pictures(chosen, mirrored) for chosen in (exposed, equal, near, closest, paired[:MAX_PICTURES])
    )
    singled = result.tables.get("singled_out")  # held-out images made it
    images = frozenset() if singled is None else frozenset(column_texts(singled, "image"))
    return Pictures(*pictures, aligned=_aligned(pair_images, result), singled=images)


def _memorized(result: Result) -> list[Pair]:
    """Return pairs of an image and its source that any detector takes for one patient, most alike first."""
    if "paired" not in result.tables:
        return []
    table = result.tables["paired"]
    chosen = rows(table, booleans(table, "memorized")).sort_values("score", ascending=False, kind="stable")
    return _ids(chosen, "training_image", "image")


def suspects(result: Result, listing: Listing | None) -> pd.DataFrame:
    """Return the listed patients; if none is listed, those nearer than every held-out one, if too many for chance."""
    listed = booleans(result.per_group, "listed")
    if not listed.any() and listing is not None and listing.p_ahead <= AHEAD_LEVEL:
        listed = booleans(result.per_group, "ahead")
    return rows(result.per_group, listed).sort_values(["p_value", "distance", "group"], kind="stable")


def _ids(table: pd.DataFrame, real: str, synthetic: str) -> list[Pair]:
    """Return the pairs of a table, in its order."""
    return list(zip(column_texts(table, real), column_texts(table, synthetic), strict=True))


def _aligned(shown: ShownPairs, result: Result) -> dict[tuple[str, str, str], PairPicture]:
    """Return the pictures of the most similar pairs that alignment confirms."""
    if "alignments" not in result.tables:
        return {}
    table = result.tables["alignments"]
    table = rows(table, booleans(table, "confirmed")).sort_values("similarity", ascending=False, kind="stable")
    pictures = {}
    table = table.head(MAX_PICTURES)
    pairs = _ids(table, "training_image", "image")
    for pair, words, matrix in zip(pairs, column_texts(table, "alignment"), matrices(table), strict=True):
        pictures[*pair, words] = laid_on_one_another(*shown.laid(pair, matrix))
    return pictures
