"""What the benchmarks of pairs take, a detector each: passes, features, listed pairs and searches over all pairs."""

import numpy as np

from memorisk.runs.cost import Cost
from memorisk.studies.pairs.cells import Cell
from memorisk.studies.pairs.copies_cell import PAIRS, copies_parts, copy_pairs, sampled_rows
from memorisk.studies.pairs.division import TEST, VALIDATION
from memorisk.studies.pairs.judges import MOST_PIXELS
from memorisk.studies.pairs.options import BenchCopiesOptions
from memorisk.studies.pairs.pairing import KINDS
from memorisk.studies.pairs.reid_cell import ALL_PAIRS, SCORES, reid_pairs
from memorisk.training.detectors.lcmem.augmentations import FAMILIES
from memorisk.training.features.cost import WITHOUT_NETWORK, features_cost


def reid_cost(cell: Cell) -> Cost:
    """Of a detector's results that are missing in the benchmark of re-identification.

    Args:
        cell: The detector.

    Returns:
        Its features; the listed pairs; of each data set n^2 pairs for the closest image of another patient, and for the
        histogram n^2 by a measure, n (n - 1) / 2 by a head.
    """
    parts = {part: reid_pairs(cell, part) for part in (VALIDATION, TEST)}
    pairs = 0
    if SCORES in cell.missing:
        pairs += sum(len(KINDS) * len(some.weight) for listed in parts.values() for some in listed)
    if ALL_PAIRS in cell.missing:
        pairs += _searched(cell, {some.dataset for some in parts[TEST]})
    return _features(cell) + Cost(pairs=pairs)


def copies_cost(cell: Cell, options: BenchCopiesOptions) -> Cost:
    """Of a detector's results that are missing in the benchmark of copies.

    Copies are embedded once where two have the same pixels, so that passes are a bound.

    Args:
        cell: The detector.
        options: Of the benchmark.
    """
    d = cell.division
    copied = sum(len(sampled_rows(cell, name)) for name in d.names)
    made = copied * sum(len(FAMILIES[name]) for name in copies_parts(options) if name in set(cell.missing) - {PAIRS})
    pairs = made
    if PAIRS in cell.missing:
        both = [some for part in (VALIDATION, TEST) for some in copy_pairs(cell, part).values()]
        pairs += sum(len(some.negative) + len(some.positive) for some in both)
    asked = made if _has_network(cell) else 0
    return _features(cell) + Cost(images_passed=asked, pairs=pairs, at_most=("images_passed",) if asked else ())


def _searched(cell: Cell, known: set[str]) -> int:
    """Pairs of one against all in the data sets' test images; ``known`` are those with two images of a patient."""
    pairs, contender = 0, cell.contender
    for name in cell.division.names:
        n = len(cell.division.rows(TEST, name))
        if contender.pixel is not None:
            d = int(np.prod(cell.store.images.shape[1:]))
            if contender.pixel == "ssim" or n * d > MOST_PIXELS:
                return pairs
        pairs += n * n
        if name in known:
            pairs += n * (n - 1) // 2 if contender.has_head else n * n
    return pairs


def _features(cell: Cell) -> Cost:
    """Of all images, once."""
    found = cell.contender.detector
    if found is None:
        return Cost()
    return features_cost(found.source, [cell.store.pixel_hashes], cell.store.images.shape, found.detector)


def _has_network(cell: Cell) -> bool:
    """Whether images go through a network, and not only their pixels through arithmetic."""
    found = cell.contender.detector
    return found is not None and found.source.kind not in WITHOUT_NETWORK
