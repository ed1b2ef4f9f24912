"""The most self-influential images, in a table and on a page: where mislabelled, damaged and marked ones gather.

Paper 002, 2.4. `influence_page` lays out the page.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.classifier.explanations.influence_page import TABLE, influence_page
from memorisk.report.page import render_page
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_table, write_text
from memorisk.runs.folder import check_out_folder
from memorisk.scores.influence import SelfInfluence

PAGE = "influence.html"


def influence_view(
    found: SelfInfluence,
    images: Sequence[str],
    labels: Sequence[str],
    *,
    out: str | Path,
    pixels: np.ndarray | None = None,
    most: int = 48,
) -> pd.DataFrame:
    """Write a table of all images by self-influence, and a page of the most influential ones.

    Args:
        found: Result of `memorisk.scores.influence.self_influence`.
        images: Ids of the images, [N].
        labels: Classes of the images, [N].
        out: A new or empty folder.
        pixels: Stored images, [N, H, W, C], to show pictures of those on the page; None for none.
        most: Images on the page.

    Returns:
        A row for each image, the most influential first: ``image, label, self_influence, share, rank_in_class``.

    Raises:
        InputError: Lengths differ, or the folder holds other files.
    """
    n = len(found.values)
    if len(images) != n or len(labels) != n or (pixels is not None and len(pixels) != n):
        raise InputError(f"self-influence is of {n:,} images: give as many ids, labels and pixels")
    if not most >= 1:
        raise InputError(f"most is {most}; it must be at least 1")
    folder = Path(out)
    check_out_folder(folder, {}, identity=[])
    order = found.top(n)
    table = pd.DataFrame({"image": [str(v) for v in images], "label": [str(v) for v in labels]})
    table["self_influence"] = found.values
    table["share"] = found.values / max(float(found.values.sum()), np.finfo(float).tiny)
    table["rank_in_class"] = table.groupby("label")["self_influence"].rank(ascending=False, method="first").astype(int)
    table = table.iloc[order].reset_index(drop=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_table(folder / TABLE, table)
    pictures = None if pixels is None else [np.asarray(pixels[row]) for row in order[:most]]
    write_text(folder / PAGE, render_page(influence_page(found, table, pictures, most=most)))
    return table
