"""Peak memory of an audit at 1x, 4x and 16x the images.

    python benchmarks/bench_memory.py

Each size runs in a process of its own: random 28 x 28 images in ten classes, four models of one epoch, in that
process. A thread samples the process's private memory (RssAnon: without the memory-mapped store, which the system
may drop at any time). Stated is the growth of the peak in bytes per image and, beside it, the score table's own
bytes per image (the matrices of ``audits.evidence``). Writes ``benchmarks/results/memory.json``.
"""

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

BASE, STEPS, MODELS = 2_500, (1, 4, 16), 4
RESULT = Path(__file__).parent / "results" / "memory.json"


def private_bytes() -> int:
    """Private resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell a process's private memory")


class Peak:
    """The highest private memory while a block runs, looked at every 5 ms by a thread."""

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
            self.highest = max(self.highest, private_bytes())

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
    from memorisk.audits.classifier import audit_classifier

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


def main() -> None:
    """Measure every size and write the growth."""
    rows = []
    for step in STEPS:
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, __file__, str(BASE * step), name]
            rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(f"{rows[-1]['images']:>7,} images: peak {rows[-1]['peak_bytes'] / 2**20:,.0f} MiB")
    grown = rows[-1]["peak_bytes"] - rows[0]["peak_bytes"]
    per_image = grown / (rows[-1]["images"] - rows[0]["images"])
    table = MODELS * (8 + 8 + 1 + 1)
    print(
        f"{per_image:,.0f} bytes per image; the score table of {MODELS} models itself {table}; pixels of an image 784"
    )
    write_json(
        RESULT,
        {
            "sizes": rows,
            "bytes_per_image": per_image,
            "score_table_bytes_per_image": table,
            "models": MODELS,
            "machine": machine(),
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        audit(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
