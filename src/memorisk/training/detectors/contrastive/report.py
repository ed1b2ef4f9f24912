"""What a detector's training was good for: copies found by the backbone alone, by the untrained start, and trained.

The epoch was chosen on the validation part, so that its figures flatter; the test part chose nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.devices import check_device
from memorisk.runs.progress import Progress
from memorisk.training.detectors.contrastive.augmentations import augmented_copies, blank_rows
from memorisk.training.detectors.contrastive.fit import FittedDetector
from memorisk.training.detectors.contrastive.options import STRENGTH_NAMES, DetectorOptions
from memorisk.training.detectors.contrastive.retrieval import compared, embed, found_sources, retrieval
from memorisk.training.detectors.contrastive.start import untrained

_BLOCK = 256

Embed = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(images [N, H, W, C], rows [n]) -> embeddings [n, d]."""


DETECTORS = 3
"""That are measured: the bare backbone, the untrained network, the trained one."""


def measure_training(
    store: ImageStore,
    parts: dict[str, np.ndarray],
    groups: np.ndarray,
    fitted: FittedDetector,
    options: DetectorOptions,
    progress: Progress,
) -> dict[str, Any]:
    """Retrieval on each part by strength, of three detectors, with paired differences.

    Args:
        store: The images.
        parts: Rows of "validation" and "test".
        groups: [N] whose each image is.
        fitted: The trained detector.
        options: Of its training.
        progress: Called with (stage, done, total).

    Returns:
        ``{part: {strength: {"backbone", "untrained", "trained", "trained_less_untrained", "trained_less_backbone"}}}``;
        of the validation part only the strength that chose the epoch.
    """
    start, device = untrained(store, options), check_device(options.device)
    networks = {"backbone": start.network.trunk, "untrained": start.network, "trained": fitted.detector.network}
    ask = {name: _asker(network, start.config.preprocessing, device) for name, network in networks.items()}
    wanted = [("validation", options.augment), *(("test", strength) for strength in STRENGTH_NAMES)]
    found: dict[str, Any] = {"validation": {}, "test": {}}
    for done, (part, strength) in enumerate(wanted):
        progress("looking for copies", done, len(wanted))
        rows = np.setdiff1d(parts[part], blank_rows(store.images, parts[part]))
        hits = _hits(ask, store, rows, strength, options)
        found[part][strength] = _figures(hits, groups[rows].astype(str), options.seed)
    progress("looking for copies", len(wanted), len(wanted))
    return found


def _asker(network: nn.Module, preprocessing: Preprocessing, device: Any) -> Embed:
    return partial(embed, network, preprocessing=preprocessing, device=device)


def _hits(
    ask: dict[str, Embed], store: ImageStore, rows: np.ndarray, strength: str, options: DetectorOptions
) -> dict[str, np.ndarray]:
    """Which copies each detector finds, [n] bool; copies are made a block at a time."""
    copies: dict[str, list[np.ndarray]] = {name: [] for name in ask}
    for begin in range(0, len(rows), _BLOCK):
        some = augmented_copies(store.images, rows[begin : begin + _BLOCK], strength, seed=options.seed)
        for name, of in ask.items():
            copies[name].append(of(some, np.arange(len(some))))
    hashes = store.pixel_hashes[rows]
    return {
        name: found_sources(np.concatenate(copies[name]), of(store.images, rows), options.measure, hashes)
        for name, of in ask.items()
    }


def _figures(hits: dict[str, np.ndarray], groups: np.ndarray, seed: int) -> dict[str, Any]:
    """Shares of each detector, and what the trained one has before the others."""
    found: dict[str, Any] = {name: retrieval(hit, groups, seed).as_json() for name, hit in hits.items()}
    for other in ("untrained", "backbone"):
        found[f"trained_less_{other}"] = compared(hits["trained"], hits[other], groups)
    return found
