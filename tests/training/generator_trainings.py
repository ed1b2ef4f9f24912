"""Small trainings of generators, for several tests."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.training.generators.options import GeneratorOptions
from tests.training.small_detectors import scans

QUICK = GeneratorOptions(
    network="tiny/8", steps=7, batch_size=8, lr=1e-3, snapshot_every=3, device="cpu", checkpoint_seconds=0
)


def labelled(root: Path, n: int = 40) -> ImageStore:
    """Blotchy grey images at 16 pixels, two of each patient; of each five two are "b", two "a", one has no label."""
    store = scans(root, n=n)
    labels = np.array([("b", "b", "a", "a", "")[i % 5] for i in range(n)], dtype=object)
    return replace(store, manifest=replace(store.manifest, table=store.manifest.table.assign(label=labels)))


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
