"""The detector `default`: images a second, memory, and a search of copies beside one by pixels.

    python benchmarks/bench_default.py [--images 20000] [--pairs 5] [--threads 2] [--small]

Images are of people that formulas made (`memorisk.training.detectors.contrastive.views.draw_people`), 64 pixels a side.

*Embedding*: `Detector.embed` on the CPU, in images a second. Limit: 300 at two threads, as the lower end of the
interval of the median of ``--pairs`` runs.
*Memory*: peak of a process that embeds, above one that only loads the detector, at 2,000 images and at four times as
many, less the images themselves. Limit: the second at most 1.1 times the first plus the vectors.
*Search*: both sides embedded and the nearest reference of every query, over the same by pixels of 32 a side and
Euclidean distances: ``--images`` queries and as many references, as the median of two runs in turn. Limit: 2, against
the search that visits every pair, as pixels' search did when the limit was set; against today's, which leaves out most
pairs by sketches, the ratio is told.

Writes ``benchmarks/results/default.json``.
"""

import argparse
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F

from intervals import median_interval
from memorisk.images.procedural import procedural_images
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.distances import fit_measure, nearest
from memorisk.scores.distances.bounds import Form
from memorisk.training.detectors.contrastive.views import draw_people

RESULT, SIDE, PIXELS = Path(__file__).parent / "results" / "default.json", 64, 32
EVERY_PAIR = "pixels, every pair"
PER_SECOND, GROWTH, TIMES = 300, 1.1, 2.0
FEW = 2000


def people(n: int, seed: int = 0) -> np.ndarray:
    """[n, 64, 64, 3] uint8."""
    pictures = torch.from_numpy(procedural_images(200, seed=seed))
    made, generator = np.empty((n, SIDE, SIDE, 3), np.uint8), torch.Generator().manual_seed(seed)
    for first in range(0, n, 128):
        drawn = F.interpolate(draw_people(pictures, 16, 8, generator), (SIDE, SIDE), mode="bilinear", antialias=True)
        made[first : first + 128] = (drawn[: n - first] * 255).round().permute(0, 2, 3, 1).byte().numpy()
    return made


def detector() -> Detector:
    """The one that comes with memorisk."""
    found = load_detector("default")
    assert isinstance(found, Detector)
    return found


def as_pixels(images: np.ndarray) -> np.ndarray:
    """[n, 3072] float32."""
    parts = np.array_split(images, max(1, len(images) // 512))
    small = [F.interpolate(torch.from_numpy(x).permute(0, 3, 1, 2).float(), PIXELS, mode="area") for x in parts]
    return torch.cat(small).flatten(1).numpy()


def search_seconds(by: str, queries: np.ndarray, references: np.ndarray) -> float:
    """Of one search, embedding included."""
    started = time.perf_counter()
    embed, measure = (detector().embed, "whitened") if by == "default" else (as_pixels, "euclidean")
    asked, known = embed(queries), embed(references)
    with patch.object(Form, "with_sketches", _every_pair) if by == EVERY_PAIR else nullcontext():
        nearest(asked, known, fit_measure(measure, known))
    return time.perf_counter() - started


def _every_pair(form: Form, *_: object) -> Form:
    """A form without sketches."""
    return form


def peak(n: int) -> int:
    """Bytes at most in a process that embeds n images made of noise, less these; 0 images: that only loads."""
    return int(subprocess.run([sys.executable, __file__, "--peak", str(n)], check=True, capture_output=True).stdout)


def peak_here(n: int) -> int:
    """Likewise of this process."""
    torch.set_num_threads(2)
    images = np.random.default_rng(0).integers(0, 256, (max(n, 1), SIDE, SIDE, 3), dtype=np.uint8)
    detector().embed(images)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - images.nbytes


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="a run that takes seconds and is not judged")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peak is not None:
        print(peak_here(asked.peak))
        return
    torch.set_num_threads(asked.threads)
    n, few = (256, 64) if asked.small else (asked.images, FEW)
    queries, references, ours = people(n), people(n, seed=1), detector()
    ours.embed(queries[:64])
    rates = []
    for _ in range(asked.pairs):
        started = time.perf_counter()
        ours.embed(queries[:few])
        rates.append(min(few, n) / (time.perf_counter() - started))
    median = median_interval(rates)
    bare, first, second = peak(0), peak(few), peak(4 * few)
    vectors = 3 * few * ours.config.dimension * 4
    took = {by: [] for by in ("pixels", EVERY_PAIR, "default")}
    for by in (*took, *took):
        took[by].append(search_seconds(by, queries, references))
    ratios = {by: float(np.median(took["default"]) / np.median(took[by])) for by in ("pixels", EVERY_PAIR)}
    held = {
        "embedding": bool(median[1] >= PER_SECOND),
        "memory": second <= GROWTH * first + vectors,
        "search": ratios[EVERY_PAIR] <= TIMES,
    }
    found = {
        "version": ours.config.published["version"], "images": n, "threads": asked.threads,
        "images_per_second": dict(zip(("median", "low", "high"), median, strict=True)) | {"of": few, "runs": rates},
        "peak_bytes": {"loaded": bare, str(few): first, str(4 * few): second},
        "search_seconds": took, "search_ratios": ratios,
        "limits": {"images_per_second": PER_SECOND, "growth": GROWTH, "search_ratio": TIMES},
        "judged": not asked.small, "held": held, "machine": machine(), "versions": versions(),
    }  # fmt: skip
    write_json(asked.out, found)
    print(f"embedding: {median[0]:.0f} ({median[1]:.0f} to {median[2]:.0f}) images/s, limit {PER_SECOND}")
    print(f"memory: {first - bare:,} bytes at {few:,} images, {second - bare:,} at {4 * few:,}")
    print(f"search: {ratios[EVERY_PAIR]:.2f} times {EVERY_PAIR}, limit {TIMES:g}; {ratios['pixels']:.2f} times pixels")
    if not asked.small and not all(held.values()):
        sys.exit("a limit is not held")


if __name__ == "__main__":
    main()
