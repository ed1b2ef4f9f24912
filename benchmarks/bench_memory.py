"""Peak memory of an audit at 1x, 4x and 16x the images.

    python benchmarks/bench_memory.py                    # audit classifier
    python benchmarks/bench_memory.py --part synthetic   # audit synthetic, of 12,500, 50,000 and 200,000 images

Each size runs in a process of its own. A thread samples the private memory of it and of its children (RssAnon: without
the memory-mapped store and features, which the system may drop at any time). Stated is the growth of the peak in bytes
per image. Writes its part of ``benchmarks/results/memory.json``.

``classifier``: random 28 x 28 images in ten classes, four models of one epoch; beside the growth the score table's own
bytes per image (the matrices of ``audits.classifier.evidence``).

``synthetic``: two of scikit-learn's digits over each other, 28 x 28, one of them turned and moved, with noise, so that
no two are alike; the default features (pixels), 2,000 training and 500 held-out images, whatever the size of the set.
Beside the growth the bytes of an image, of its features, and the peak of every stage, so that a stage that grows is
seen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

BASE, STEPS, MODELS = 2_500, (1, 4, 16), 4
SYNTHETIC, TRAIN, HELD_OUT, SIDE = 12_500, 2_000, 500, 28
RESULT = Path(__file__).parent / "results" / "memory.json"


def private_bytes() -> int:
    """Private resident memory of this process and of those it started."""
    return sum(_private_bytes(process) for process in ("self", *_descendants(os.getpid())))


def _private_bytes(process: int | str) -> int:
    """Of one process; 0 of one that has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _descendants(process: int) -> list[int]:
    """Children, theirs, and so on."""
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(child) for child in file.read_text().split()]
        except OSError:
            continue
    return found + [further for child in found for further in _descendants(child)]


class Peak:
    """The highest private memory while a block runs, of each of its stages, looked at every 5 ms by a thread."""

    def __init__(self) -> None:
        self.stage, self.stages = "start", {}

    def progress(self, stage: str, done: int, total: int) -> None:
        """What the audit is at."""
        self.stage = stage

    def __enter__(self) -> "Peak":
        self.before = self.highest = private_bytes()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            now = private_bytes()
            self.highest = max(self.highest, now)
            self.stages[self.stage] = max(self.stages.get(self.stage, 0), now)

    @property
    def growth(self) -> int:
        """Bytes above what was held when the block began."""
        return self.highest - self.before


def audit(images: int, folder: Path) -> None:
    """Child process: run one audit and print its peak."""
    rng = np.random.default_rng(0)
    labels = np.arange(images) % 10
    pixels = rng.integers(0, 256, (images, 28, 28, 1), dtype=np.uint8)
    np.savez(folder / "set.npz", images=pixels, labels=labels.astype(str))
    del pixels
    from memorisk.audits.classifier.run import audit_classifier

    with Peak() as peak:
        audit_classifier(
            folder / "set.npz",
            out=folder / "run",
            store=folder / "store",
            models=MODELS,
            epochs=1,
            processes=1,
            discard_weights=True,
        )
    print(json.dumps({"images": images, "peak_bytes": peak.highest}))


def write_digits(path: Path, n: int, seed: int) -> None:
    """Write [n, SIDE, SIDE] uint8, a few at a time: two digits over each other, with noise."""
    from sklearn.datasets import load_digits

    digits = (
        np.pad(np.kron(load_digits(return_X_y=True)[0].reshape(-1, 8, 8), np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))
        * 8
    )  # [1797, 28, 28]
    rng = np.random.default_rng(seed)
    images = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, SIDE, SIDE))
    for first in range(0, n, 1000):
        last = min(first + 1000, n)
        each = [digits[rng.integers(len(digits), size=last - first)] for _ in range(2)]
        shift = rng.integers(-6, 7, (last - first, 2))
        turned = np.stack([np.roll(np.rot90(d, 1), tuple(s), (0, 1)) for d, s in zip(each[1], shift, strict=True)])
        share = rng.uniform(0.3, 0.7, (last - first, 1, 1))
        mixed = share * each[0] + (1 - share) * turned
        images[first:last] = (2 * mixed * 15 / 16 + rng.uniform(0, 15, mixed.shape)).clip(0, 255).astype(np.uint8)
    images.flush()


def audit_set(images: int, folder: Path) -> None:
    """Child process: audit a synthetic set of so many images and print the peaks."""
    for seed, (name, n) in enumerate({"train": TRAIN, "held": HELD_OUT, "synthetic": images}.items()):
        write_digits(folder / f"{name}.npy", n, seed)
    from memorisk.audits.synthetic.run import audit_synthetic

    begun = time.perf_counter()
    with Peak() as peak:
        audit_synthetic(
            folder / "train.npy",
            folder / "synthetic.npy",
            held_out=folder / "held.npy",
            out=folder / "run",
            store=folder / "store",
            detector="pixels",
            one_image_per_patient=True,
            progress=peak.progress,
        )
    print(
        json.dumps(
            {
                "images": images,
                "before_bytes": peak.before,
                "peak_bytes": peak.highest,
                "seconds": time.perf_counter() - begun,
                "stages": peak.stages,
            }
        )
    )


def measure(part: str, sizes: list[int]) -> list[dict[str, Any]]:
    """Every size in a process of its own."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, __file__, "--part", part, "--child", str(size), name]
            rows.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
        print(f"{rows[-1]['images']:>7,} images: peak {rows[-1]['peak_bytes'] / 2**20:,.0f} MiB", flush=True)
    return rows


def growth(rows: list[dict[str, Any]]) -> float:
    """Bytes of the peak per image, from the smallest size to the largest."""
    grown = rows[-1]["peak_bytes"] - rows[0]["peak_bytes"]
    return grown / (rows[-1]["images"] - rows[0]["images"])


def main() -> None:
    """Measure every size and write the growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("classifier", "synthetic"), default="classifier")
    parser.add_argument("--sizes", type=int, nargs="*", help="images, ascending")
    parser.add_argument("--child", nargs=2, metavar=("IMAGES", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        (audit if given.part == "classifier" else audit_set)(int(given.child[0]), Path(given.child[1]))
        return
    base = BASE if given.part == "classifier" else SYNTHETIC
    rows = measure(given.part, given.sizes or [base * step for step in STEPS])
    found = {"sizes": rows, "bytes_per_image": growth(rows), "machine": machine(), "versions": versions()}
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if given.part == "classifier":
        table = MODELS * (8 + 8 + 1 + 1)
        result |= found | {"score_table_bytes_per_image": table, "models": MODELS}
        print(f"{growth(rows):,.0f} bytes per image; the score table of {MODELS} models itself {table}; pixels 784")
    else:
        sets = {"train": TRAIN, "held_out": HELD_OUT, "pixels_bytes_per_image": SIDE**2}
        result["synthetic"] = found | sets | {"features_bytes_per_image": 4 * SIDE**2}
        print(f"{growth(rows):,.0f} bytes per image; its pixels {SIDE**2}, its features {4 * SIDE**2}")
    write_json(RESULT, result)


if __name__ == "__main__":
    main()
