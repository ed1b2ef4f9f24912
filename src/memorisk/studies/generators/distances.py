"""Figure 3 of paper 003: how near generated, copied and held-out images lie to the training images.

The paper reads memorization from generated images that lie nearer to the training images than held-out images do. That
generators which copied nobody do so, too, is known (14 % flagged at 5 %, `recipes/synthetic_null.py`), so these
figures describe; who is exposed is asked the other way round.
"""

from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.statistics.copies.reversed_queries import exposures
from memorisk.statistics.quality.wasserstein import WassersteinDistance, wasserstein_distance
from memorisk.studies.generators.reading import Read, Reading, named_columns

SYNTHETIC, HELD_OUT = "generated", "held out"
COPIES = {"weak": "weak copies", "strong": "strong copies"}


def pools(read: Read) -> dict[str, np.ndarray]:
    """Distances to the nearest training image, by what asked.

    Args:
        read: At the end of a training.
    """
    found = {SYNTHETIC: read.found["synthetic_distance"]}
    found |= {words: read.found[name] for name, words in COPIES.items() if name in read.found}
    return found | {HELD_OUT: read.found["held_train"]}


def distance_rows(reading: Reading) -> pd.DataFrame:
    """Each pool beside the held-out images: W1, the shift, and the second-neighbour ratio of generated images.

    Args:
        reading: What was measured.
    """
    found = []
    for read in reading.last:
        groups = {SYNTHETIC: None} | dict.fromkeys(COPIES.values(), read.cell.training.groups)
        drawn = pools(read)
        held = drawn.pop(HELD_OUT)
        for name, values in drawn.items():
            apart = wasserstein_distance(values, held, groups[name], read.held_groups)
            found.append({**_named(read), "pool": name, "median": float(np.median(values)),
                          "held_median": float(np.median(held)), **_limits(apart)})  # fmt: skip
    return pd.DataFrame(found)


def closest_rows(reading: Reading, names: Pseudonyms) -> pd.DataFrame:
    """The closest pairs of generated and training images, the closest first.

    Args:
        reading: What was measured.
        names: In place of ids.
    """
    found = []
    for read in reading.last:
        own, images = read.found, read.cell.data.store.manifest.images
        order = np.argsort(own["synthetic_distance"], kind="stable")[: read.cell.options.closest]
        train = read.cell.training.rows[own["synthetic_nearest"][order]]
        ids, patients = names.names(images[train]), names.names(read.cell.data.groups[train])
        for place, (image, who, made) in enumerate(zip(ids, patients, order, strict=True), start=1):
            found.append(
                {
                    **_named(read), "place": place, "image": str(image), "patient": str(who),
                    "synthetic": int(made), "synthetic_seed": int(own["seeds"][made]),
                    "distance": float(own["synthetic_distance"][made]),
                    "second": float(own["synthetic_second"][made]),
                }
            )  # fmt: skip
    return pd.DataFrame(found)


def source_rows(reading: Reading, names: Pseudonyms) -> pd.DataFrame:
    """Every listed training patient with the generated image that realises the distance: who was memorized, and where.

    Args:
        reading: What was measured.
        names: In place of ids.
    """
    found = []
    for read in reading.last:
        own, images = read.found, read.cell.data.store.manifest.images
        training = read.cell.training
        told = exposures(read.asked, own["train_distance"], own["train_nearest"], training.groups)
        p = dict(zip(read.asked.unit.tolist(), read.asked.p_value.tolist(), strict=True))
        rows = training.rows[told.image]
        ids, patients = names.names(images[rows]), names.names(told.unit)
        for i in range(len(rows)):
            found.append(
                {
                    **_named(read), "image": str(ids[i]), "patient": str(patients[i]),
                    "copies": int(training.copies[told.image[i]]), "distance": float(told.distance[i]),
                    "p": p[told.unit[i]], "synthetic": int(told.synthetic[i]),
                    "synthetic_seed": int(own["seeds"][told.synthetic[i]]),
                }
            )  # fmt: skip
    return pd.DataFrame(found)


def _named(read: Read) -> dict[str, Any]:
    return {**named_columns(read.cell), "detector": read.detector, "step": read.step}


def _limits(apart: WassersteinDistance) -> dict[str, Any]:
    return {
        "w1": apart.estimate, "w1_low": apart.low, "w1_high": apart.high, "w1_chance": apart.chance,
        "shift": apart.shift, "shift_low": apart.shift_low, "shift_high": apart.shift_high,
        "n_units": apart.n_first, "n_held": apart.n_second,
    }  # fmt: skip
