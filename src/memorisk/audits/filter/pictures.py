"""Pairs of images for the report of a filter or of a synthesis, only at the user's request."""

from memorisk.audits.comparison.pictures import MAX_PICTURES, Pair, PairPicture, ShownPairs
from memorisk.audits.run_images import Parts
from memorisk.report.columns import column_texts
from memorisk.report.result import Result


def closest_pairs(result: Result, parts: Parts) -> dict[Pair, PairPicture]:
    """Return pictures of the pair that exposes each patient most, the closest first, by the ids in the report.

    Args:
        result: Result whose tables name the pairs.
        parts: Images of the training and of the synthetic part.
    """
    patients = result.per_group.head(MAX_PICTURES)
    pairs = zip(column_texts(patients, "training_image"), column_texts(patients, "synthetic_image"), strict=True)
    return ShownPairs(parts).pictures(pairs)
