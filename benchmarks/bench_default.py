"""The detector `default`: images a second, memory, and a search of copies beside one by pixels.

    python benchmarks/bench_default.py [--images 20000] [--pairs 5] [--threads 2] [--small]

Images are of people that formulas made (`draw_people` of `recipes/procedural_people.py`), 64 pixels a side.

*Embedding*: `Detector.embed` on the CPU, in images a second. Limit: 300 at two threads, as the lower end of the
interval of the median of ``--pairs`` runs.
*Memory*: peak of a process that embeds, above one that only loads the detector, at 2,000 images and at four times as
many, less the images themselves. Limit: the second at most 1.1 times the first plus the vectors.
*Search*: both sides embedded and the nearest reference of every query, over the same by pixels of 32 a side and
Euclidean distances: ``--images`` queries and as many references, as the median of two runs in turn. Limit: 2, against
the search that visits every pair, as pixels' search did when the limit was set; against today's, which leaves out most
pairs by sketches, the ratio is told.
*Parts*: the four ways in which ``audit synthetic`` compares, over whole images alone. Embedding: as many training as
synthetic images. Limit: 6. Search: ``--images`` training and as many synthetic images, no held-out ones, over the four
searches of whole images that an audit made before there were parts. Limit: 4.

Writes ``benchmarks/results/default.json``.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F

from intervals import median_interval
from memorisk.audits.comparison.distances import CANDIDATES, measure_distances
from memorisk.audits.comparison.features import FITTED_IMAGES, FeatureTables
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.models.settings import DEFAULT_COMPARISONS, DEFAULT_DETECTOR
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.runs.workload import no_progress
from memorisk.scores.distances import fit_measure, nearest
from memorisk.scores.distances.bounds import Form
from memorisk.scores.similarity import Similarity
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

sys.path.append(str(Path(__file__).parents[1] / "recipes"))
from procedural_people import draw_people
from procedural_pictures import procedural_images

RESULT, SIDE, PIXELS = Path(__file__).parent / "results" / "default.json", 64, 32
EVERY_PAIR = "pixels, every pair"
PER_SECOND, GROWTH, TIMES, EMBEDDED_TIMES, SEARCHED_TIMES = 300, 1.1, 2.0, 6.0, 4.0
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


def parts_seconds(train: np.ndarray, made: np.ndarray, few: int) -> dict[str, dict[str, float]]:
    """Measure the seconds of embedding ``few`` images of both sets, and of all searches, by each way.

    Args:
        train: Training images.
        made: As many synthetic images.
        few: Images of each set that are embedded on the clock; the others are embedded as well.
    """
    groups = np.arange(len(train)).astype(str)
    stores = (SimpleNamespace(manifest=SimpleNamespace(groups=groups), pixel_hashes=name + groups) for name in "ab")
    sets: Any = SimpleNamespace(**dict(zip(("train", "synthetic"), stores, strict=True)), held=None)
    took: dict[str, dict[str, float]] = {"embedding": {}, "search": {}}
    for way in DEFAULT_COMPARISONS:
        pair_detector = open_pair_detector(way)
        embedded(pair_detector, train[:64], False)
        started = time.perf_counter()
        first = embedded(pair_detector, train[:few], False), embedded(pair_detector, made[:few], True)
        took["embedding"][way] = time.perf_counter() - started
        ours = np.concatenate([first[0], embedded(pair_detector, train[few:], False)])
        theirs = np.concatenate([first[1], embedded(pair_detector, made[few:], True)])
        similarity = pair_detector.similarity(ours[:: max(1, len(ours) // FITTED_IMAGES)])
        tables: Any = FeatureTables(ours, ours[:0], theirs, theirs[:0], None, False, (), 0, 0)  # pyright: ignore
        if way == DEFAULT_DETECTOR:
            took["search"]["before there were parts"] = searches_before(similarity, ours, theirs, groups)
        started = time.perf_counter()
        nothing: Any = SimpleNamespace(source=np.empty(0, np.int64))
        measure_distances(
            tables, similarity, sets, nothing, no_progress, compares_real=not pair_detector.source.by_parts
        )
        took["search"][way] = time.perf_counter() - started
    return took


def embedded(pair_detector: PairDetector, images: np.ndarray, as_copies: bool) -> np.ndarray:
    """Features as an audit computes them, from a file and never from the cache."""
    if not len(images):
        return np.empty((0, 0), np.float32)
    with tempfile.TemporaryDirectory() as folder, patch.dict("os.environ", MEMORISK_CACHE=folder):
        np.savez(Path(folder) / "images.npz", images=images)
        return np.array(pair_detector.features(Path(folder) / "images.npz", as_copies=as_copies).values)


def searches_before(similarity: Similarity, train: np.ndarray, made: np.ndarray, groups: np.ndarray) -> float:
    """Measure the seconds of the searches of whole images that an audit made before there were parts."""
    started = time.perf_counter()
    nearest_rows = similarity.nearest(made, train, CANDIDATES).rows[:, 0]
    similarity.nearest(train, made)
    similarity.nearest(made, train, exclude_same=(groups[nearest_rows], groups))
    similarity.nearest(train, train, exclude_same=(groups, groups))
    return time.perf_counter() - started


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
    parts = parts_seconds(references, queries, few // 4)
    whole = parts["embedding"][DEFAULT_DETECTOR], parts["search"].pop("before there were parts")
    parts_ratios = {
        name: sum(parts[name].values()) / seconds for name, seconds in zip(("embedding", "search"), whole, strict=True)
    }
    held = {
        "parts, embedding": parts_ratios["embedding"] <= EMBEDDED_TIMES,
        "parts, search": parts_ratios["search"] <= SEARCHED_TIMES,
        "embedding": bool(median[1] >= PER_SECOND),
        "memory": second <= GROWTH * first + vectors,
        "search": ratios[EVERY_PAIR] <= TIMES,
    }
    found = {
        "version": ours.config.published["version"], "images": n, "threads": asked.threads,
        "images_per_second": dict(zip(("median", "low", "high"), median, strict=True)) | {"of": few, "runs": rates},
        "peak_bytes": {"loaded": bare, str(few): first, str(4 * few): second},
        "search_seconds": took, "search_ratios": ratios,
        "parts_seconds": parts | {"search_before": whole[1]}, "parts_ratios": parts_ratios,
        "limits": {"images_per_second": PER_SECOND, "growth": GROWTH, "search_ratio": TIMES,
                   "parts_embedding_ratio": EMBEDDED_TIMES, "parts_search_ratio": SEARCHED_TIMES},
        "judged": not asked.small, "held": held, "machine": machine(), "versions": versions(),
    }  # fmt: skip
    write_json(asked.out, found)
    print(f"embedding: {median[0]:.0f} ({median[1]:.0f} to {median[2]:.0f}) images/s, limit {PER_SECOND}")
    print(f"memory: {first - bare:,} bytes at {few:,} images, {second - bare:,} at {4 * few:,}")
    print(f"search: {ratios[EVERY_PAIR]:.2f} times {EVERY_PAIR}, limit {TIMES:g}; {ratios['pixels']:.2f} times pixels")
    print(
        f"parts: embedding {parts_ratios['embedding']:.2f} times whole images, limit {EMBEDDED_TIMES:g}; "
        f"search {parts_ratios['search']:.2f} times, limit {SEARCHED_TIMES:g}"
    )
    if not asked.small and not all(held.values()):
        sys.exit("a limit is not held")


if __name__ == "__main__":
    main()
