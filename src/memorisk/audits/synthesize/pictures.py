"""The closest pairs for the report, only when the user asked: rejected images are drawn once more, and not written."""

from dataclasses import replace

import numpy as np

from memorisk.audits.filter.pictures import closest_pairs
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthesize.drawn import StoredForm, store_of_drawn
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthetic.pictures import MOST, Pair
from memorisk.models.generators.generators import Generator
from memorisk.report.frames import rows, texts
from memorisk.report.result import Result
from memorisk.training.generators.drawing.drawing import draw


def rejected_pairs(
    result: Result,
    ledger: Ledger,
    sets: FilterSets,
    form: StoredForm,
    generator: Generator,
    names: Pseudonyms,
    options: SynthesizeOptions,
    device: str,
) -> dict[Pair, np.ndarray]:
    """Pictures of the pair that exposes each patient most, the closest first, by the ids that the report shows.

    Args:
        result: Its tables say which pairs.
        ledger: For seeds and conditions.
        sets: For the training images.
        form: In which images were compared.
        generator: Which draws them again.
        names: As the tables have them.
        options: How it draws.
        device: Where.
    """
    shown = set(texts(result.per_group.head(MOST), "synthetic_image"))
    plan = ledger.plan
    chosen = rows(plan, [str(image) in shown for image in plan["image"]]).reset_index(drop=True)
    if not len(chosen):
        return {}
    pixels = form.pixels(draw(generator, chosen, options.sampling(), device))
    again = store_of_drawn(sets.train, pixels, chosen["image"].tolist(), chosen["class"].tolist(), "drawn images")
    return closest_pairs(replace(sets, synthetic=again), result, names)
