"""Closest pairs as pictures, only where the user chose them: a training image, the generated one, their difference."""

import numpy as np

from memorisk.audits.synthetic.pictures import SIDE, side_by_side
from memorisk.report.blocks import Block, Gallery, Heading, Name, Thumbnail
from memorisk.report.formats import power
from memorisk.report.thumbnails import data_uri
from memorisk.studies.generators.reading import Read, Reading

MOST = 6
"""Pairs a generator and detector."""


def pair_gallery(reading: Reading) -> list[Block]:
    """The closest pairs of each generator, the first seed of each.

    Args:
        reading: What was measured.
    """
    found: list[Block] = []
    seen: set[tuple[object, ...]] = set()
    for read in reading.last:
        key = (read.cell.data.name, read.cell.arm.name, read.cell.size, read.detector)
        items = [] if key in seen else _pairs(read)
        seen.add(key)
        if items:
            said = "Training image, generated image, size of their difference."
            found += [Heading([Name(f"{read.cell.name}, by {read.detector}")]), Gallery(items=items, caption=said)]
    return found


def _pairs(read: Read) -> list[Thumbnail]:
    own, cell = read.found, read.cell
    place = {int(row): i for i, row in enumerate(own["shown"])}
    order = np.argsort(own["synthetic_distance"], kind="stable")[: min(MOST, cell.options.closest)]
    items = []
    for made in order.tolist():
        row = cell.training.rows[own["synthetic_nearest"][made]]
        picture = side_by_side(np.asarray(cell.data.store.images[row]), own["shown_pixels"][place[made]])
        caption = [f"distance {power(own['synthetic_distance'][made])}"]
        items.append(Thumbnail(data_uri=data_uri(picture, side=SIDE), caption=caption,
                               alternative="A training image and the generated image nearest to it"))  # fmt: skip
    return items
