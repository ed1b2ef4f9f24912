"""Memory of layer-wise probes of a ViT-B/16 at 224 px, above the model's own.

    python benchmarks/bench_probes.py [--images N]

Random weights, random images in a memory-mapped store, one forward pass for all twelve blocks, patch mean and CLS token
each; then both probes of one layer with the model still there (those of one layer end before the next begin). Each
number of images runs in a process of its own; a thread samples the process's private memory (RssAnon: without the
memory-mapped store and activations, which the system may drop at any time). Stated is the peak above the memory with
the model loaded, for at most 64 and for N images with the activations in memory, and for at most 256 with them on the
disk; what they take is 24 x 768 x 4 bytes an image. From the growth per image follows the peak at the paper's 1,503
images, which must stay below 2 GB; with --images 1503 it is measured. Writes ``benchmarks/results/probes.json``.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench_memory import Peak
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

IMAGES, PAPER, LIMIT = 256, 1503, 2_000_000_000
SIDE, LAYERS, WIDTH = 224, 24, 768
RESULT = Path(__file__).parent / "results" / "probes.json"


def extract(images: int, folder: Path, on_disk: bool) -> None:
    """Child process: one pass, and its peak above the model."""
    from memorisk.models.classifiers.zoo import create_model
    from memorisk.statistics.memorization.probes import PROBE_KINDS, permuted_within_class, probe, probe_folds
    from memorisk.training.features.activations import extract_activations

    path = folder / "images.npy"
    store = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(images, SIDE, SIDE, 3))
    rng = np.random.default_rng(0)
    for row in range(images):
        store[row] = rng.integers(0, 256, store.shape[1:], dtype=np.uint8)
    store.flush()
    del store
    model = create_model("vit_base_patch16_224", num_classes=7, seed=0)
    with Peak() as peak:
        started = time.perf_counter()
        read_only = np.load(path, mmap_mode="r")
        found = extract_activations(model, read_only, np.arange(images), folder=folder if on_disk else None)
        seconds = time.perf_counter() - started
        nothing = np.zeros(images)
        high = permuted_within_class(np.arange(images) % 2 == 0, nothing)
        fold = probe_folds(high, nothing, np.arange(images))
        last = np.asarray(found.layers["blocks.11"], dtype=np.float64)
        aurocs = {kind: probe(last, high, np.arange(images), fold, kind=kind).auroc.estimate for kind in PROBE_KINDS}
    assert len(found.layers) == LAYERS
    assert all(np.isfinite(layer).all() for layer in found.layers.values())
    assert all(0 < auroc < 1 for auroc in aurocs.values())
    print(
        json.dumps(
            {
                "images": images,
                "activations": "disk" if on_disk else "memory",
                "model_bytes": peak.before,
                "peak_above_model_bytes": peak.growth,
                "seconds_of_the_pass": seconds,
            }
        )
    )


def main(images: int) -> None:
    """Measure, extrapolate, write."""
    rows = []
    fewer = min(64, images // 4)
    for n, where in ((fewer, "memory"), (images, "memory"), (min(256, images), "disk")):
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, __file__, "child", str(n), name, where]
            rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(
            f"{n:>5} images, activations in {where}: {rows[-1]['peak_above_model_bytes'] / 1e6:,.0f} MB above the model"
        )
    small, large, _ = (row["peak_above_model_bytes"] for row in rows)
    kept = LAYERS * WIDTH * 4
    grown = (large - small) / (images - fewer)
    at_paper = large + max(grown, kept) * max(PAPER - images, 0)
    print(f"peak grew by {grown / 1e3:,.0f} kB an image (allocator's noise included); activations {kept / 1e3:,.0f} kB")
    print(f"{PAPER:,} images: {at_paper / 1e6:,.0f} MB above the model; limit {LIMIT / 1e6:,.0f} MB")
    write_json(
        RESULT,
        {
            "model": "vit_base_patch16_224, random weights, 224 px",
            "measured": rows,
            "grown_bytes_per_image": grown,
            "activations_bytes_per_image": kept,
            "images_of_the_paper": PAPER,
            "bytes_above_model_at_the_papers_images": at_paper,
            "measured_at_the_papers_images": images == PAPER,
            "limit_bytes": LIMIT,
            "held": bool(at_paper < LIMIT),
            "machine": machine(),
            "versions": versions(),
        },
    )
    if at_paper >= LIMIT:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        extract(int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "disk")
    elif sys.argv[1:2] == ["--images"] and len(sys.argv) == 3 and int(sys.argv[2]) >= 8:
        main(int(sys.argv[2]))
    elif len(sys.argv) == 1:
        main(IMAGES)
    else:
        sys.exit("usage: bench_probes.py [--images N], N at least 8")
