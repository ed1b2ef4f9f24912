"""The closest pairs for the report, only when the user asked: a training image, a synthetic one, their difference."""

import numpy as np

from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.pictures import MOST, Pair, side_by_side
from memorisk.report.frames import texts
from memorisk.report.result import Result


def closest_pairs(sets: FilterSets, result: Result, names: Pseudonyms) -> dict[Pair, np.ndarray]:
    """Pictures of the pair that exposes each patient most, the closest first, by the ids that the report shows.

    Args:
        sets: The pixels.
        result: Its tables say which pairs.
        names: As the tables have them.
    """
    train = {str(name): row for row, name in enumerate(names.names(sets.train.manifest.images))}
    made = {str(name): row for row, name in enumerate(names.names(sets.synthetic.manifest.images))}
    shown = result.per_group.head(MOST)
    pairs = zip(texts(shown, "training_image"), texts(shown, "synthetic_image"), strict=True)
    return {
        pair: side_by_side(
            np.asarray(sets.train.images[train[pair[0]]]), np.asarray(sets.synthetic.images[made[pair[1]]])
        )
        for pair in pairs
    }
