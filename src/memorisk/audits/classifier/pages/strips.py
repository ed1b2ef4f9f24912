"""Losses of single images by all models of a run, for the strips of its report and of its viewer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from memorisk.audits.classifier.evidence import SCORES
from memorisk.report.figures.glance import strip_plot, strip_words
from memorisk.runs.checksums import refuse_damaged
from memorisk.statistics.verdicts.scales import LossScale


@dataclass(frozen=True, eq=False)
class Strip:
    """Losses of an image in a class, by models that saw it and by models that did not."""

    members: np.ndarray
    others: np.ndarray
    top: float
    """Loss at the right end of the strip."""
    start: float = 0.0
    """Loss at the left end."""

    @property
    def svg(self) -> str:
        """Return the strip as a drawing."""
        return strip_plot(self.members, self.others, self.top, self.start)

    @property
    def words(self) -> str:
        """Return the strip in words."""
        return strip_words(self.members, self.others)


def read_strips(folder: Path | None, images: Sequence[str], scale: LossScale) -> Mapping[tuple[str, str], Strip]:
    """Read the losses of some images; other rows of the score table are not kept.

    Strips of images that are shown together have one length. Those of answers begin at 0. An error has no such end, and
    differs far more between images than between models: its strip begins at the smallest of the image.

    Args:
        folder: Run folder; None where the result was not saved.
        images: Ids of the images.
        scale: Scale of the losses.

    Returns:
        Strips by class and image; none without a score table.
    """
    path = None if folder is None else folder / SCORES
    if path is None or not path.is_file() or not images:
        return {}
    refuse_damaged(path)
    table = pq.read_table(
        path, columns=["image", "label", "member", "loss"], filters=[("image", "in", list(images))]
    ).to_pandas()
    if not len(table):
        return {}
    strips = {}
    for (label, image), rows in table.groupby(["label", "image"], sort=False):
        loss, member = rows["loss"].to_numpy(dtype=np.float64), rows["member"].to_numpy(dtype=bool)
        start = 0.0 if scale.of_answers else float(loss.min())
        strips[str(label), str(image)] = Strip(loss[member], loss[~member], float(loss.max()), start)
    length = max(strip.top - strip.start for strip in strips.values())
    return {key: replace(strip, top=strip.start + length) for key, strip in strips.items()}
