"""Images from the store against decoding files in every epoch, and building the store with two processes against one.

    python benchmarks/bench_store.py ../shared/data [--quick] [--device cuda]

Pass: every image once, in random order, in batches of 64 on the device, without training. Ours reads the store's memory
map, on one thread, as jobs run. The peer: torchvision's ``ImageFolder`` in a ``DataLoader`` with two workers, kept
alive between passes; its first pass, which starts them, is not timed. Both sides give the same tensors, which is
checked: the stored integers (``PILToTensor`` on the peer's side), and, beside that and not judged, floats in [0, 1] as
`fit` sees them (`PixelSource` against ``ToTensor``, which converts in the workers).

Build: HAM10000's 2,861 files at hand listed nine times over (25,749 images, about the size of ISIC 2019), resized to
64 px, each time in a fresh process and an empty folder: starting the workers counts. Beside it, not judged, the 2,861
alone, where starting them weighs most.

The two sides of a pair alternate, and so does their order. Printed are the median over pairs of the ratio of times
and its 95 % interval from order statistics, which holds whatever the distribution. Writes
``benchmarks/results/store.json``; exits with 1 where a median misses its limit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torchvision
from torch.utils.data import DataLoader

from intervals import median_interval
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.store import build_store
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.engine.devices import keep_freed_memory
from memorisk.training.engine.pixels import Normalisation, PixelSource

PASS_LIMIT, BUILD_LIMIT = 5.0, 1.7
"""Issue 2, "Speed": a pass at least 5x faster, a build at least 1.7x faster with two processes on two cores."""
BATCH = 64


def manifest_of(files: list[Path], times: int = 1) -> Manifest:
    """The files as they are, ``times`` over under other ids."""
    paths = [str(file.resolve()) for file in files] * times
    ids = [str(i) for i in range(len(paths))]
    labels = [Path(path).parent.name for path in paths]
    return Manifest(pd.DataFrame({"image": ids, "path": paths, "label": labels, "group": ids}), None, "benchmark")


def store_batches(images: np.ndarray, order: np.ndarray, device: torch.device, floats: bool) -> Iterator[torch.Tensor]:
    """Batches [b, C, H, W] of the memory map, in the order given."""
    if floats:
        plain = Normalisation((0.0,) * images.shape[3], (1.0,) * images.shape[3])
        source = PixelSource(images, order, device=device, dtype=torch.float32, normalisation=plain)
        yield from source.batches(torch.arange(len(order)).split(BATCH))
    else:
        for start in range(0, len(order), BATCH):
            rows = np.take(images, order[start : start + BATCH], axis=0)
            yield torch.from_numpy(rows).to(device).movedim(-1, 1)


def folder_pass(dataset: torchvision.datasets.ImageFolder, device: torch.device) -> Callable[[int], int]:
    """One pass over the files."""
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
    )
    return lambda seed: count((batch.to(device, non_blocking=True) for batch, _ in loader), device)


def count(batches: Iterable[torch.Tensor], device: torch.device) -> int:
    """Images in all batches, when the device has them."""
    seen = sum(len(batch) for batch in batches)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return seen


def pass_ratios(root: Path, cache: Path, pairs: int, device: torch.device, *, floats: bool) -> dict[str, Any]:
    """Times of passes over one set, and how often faster the store is."""
    transform = torchvision.transforms.ToTensor() if floats else torchvision.transforms.PILToTensor()
    dataset = torchvision.datasets.ImageFolder(str(root), transform=transform)
    n = len(dataset)
    manifest = manifest_of([Path(path) for path, _ in dataset.samples])
    images = build_store(manifest, ImageOptions(store=cache, channels=3)).images  # ImageFolder gives three
    some = np.linspace(0, n - 1, 5).astype(int)
    (ours,) = store_batches(images, some, device, floats)
    if not torch.allclose(ours.cpu(), torch.stack([dataset[row][0] for row in some]), atol=1e-6):
        sys.exit("the store and ImageFolder give different pixels: nothing to compare")

    def store_pass(seed: int) -> int:
        order = np.random.default_rng(seed).permutation(n)
        return count(store_batches(images, order, device, floats), device)

    sides = {"folder": folder_pass(dataset, device), "store": store_pass}
    for run in sides.values():
        run(0)
    return {"images": n, "shape": list(images.shape[1:]), **alternate(sides, pairs, n)}


def build_ratios(files: list[Path], times: int, folder: Path, pairs: int) -> dict[str, Any]:
    """Times of builds with one and with two processes, each in a process of its own."""
    manifest = manifest_of(files, times)
    manifest.save(folder / "manifest.parquet")

    def build(processes: int) -> Callable[[int], int]:
        def run(seed: int) -> int:
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                command = [
                    sys.executable,
                    __file__,
                    "--one-build",
                    str(folder / "manifest.parquet"),
                    cache,
                    str(processes),
                ]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                result = json.loads(done.stdout)
                seconds.append(result["seconds"])
            return result["images"]

        return run

    seconds: list[float] = []
    sides = {"one": build(1), "two": build(2)}
    sides["two"](0)  # files into the page cache
    return {"images": manifest.n, "size": 64, **alternate(sides, pairs, manifest.n, lambda: seconds[-1])}


def one_build(manifest: str, cache: str, processes: str) -> None:
    """What the timed process does; prints its time without imports."""
    loaded = Manifest.load(manifest, None)
    start = time.perf_counter()
    store = build_store(loaded, ImageOptions(store=Path(cache), size=64), processes=int(processes))
    print(json.dumps({"seconds": time.perf_counter() - start, "images": len(store.images)}))


def alternate(
    sides: dict[str, Callable[[int], int]],
    pairs: int,
    n: int,
    clock: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """Run two sides in alternating order; the ratio of their times, with the interval of its median.

    Args:
        sides: The slower and the faster, each giving the number of images it saw.
        pairs: Repeats.
        n: Images each must see.
        clock: Seconds of the run just ended, where not all of it counts.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(pairs):
        for name in list(sides)[:: 1 if pair % 2 == 0 else -1]:
            start = time.perf_counter()
            if sides[name](pair) != n:
                sys.exit(f"{name} saw another number of images than {n}")
            times[name].append(clock() if clock else time.perf_counter() - start)
    slow, fast = (np.array(of) for of in times.values())
    ratio, low, high = (round(value, 3) for value in median_interval(slow / fast))
    seconds = {name: round(float(np.median(of)), 4) for name, of in times.items()}
    return {"pairs": pairs, "seconds": seconds, "ratio": ratio, "low": low, "high": high}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path, help="folder with fashion_mnist_png and ham10000_224")
    parser.add_argument("--quick", action="store_true", help="few repeats, to see that it runs; no file is written")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    keep_freed_memory()  # as every job does; the loader's workers inherit it
    passes, builds = (3, 1) if arguments.quick else (15, 7)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        ham = arguments.data / "ham10000_224"
        files = sorted((ham / "images").glob("*.jpg"))
        sets = {"fashion_mnist_png": arguments.data / "fashion_mnist_png" / "train", "ham10000_jpeg": ham}
        found = {
            f"pass_{name}{'_floats' if floats else ''}": pass_ratios(root, cache, passes, device, floats=floats)
            for name, root in sets.items()
            for floats in (False, True)
        }
        found |= {
            "build": build_ratios(files, 9, Path(folder), builds),
            "build_small": build_ratios(files, 1, Path(folder), builds),
        }
    limits = {"pass_fashion_mnist_png": PASS_LIMIT, "pass_ham10000_jpeg": PASS_LIMIT, "build": BUILD_LIMIT}
    for name, row in found.items():
        limit = f"at least {limits[name]}x" if name in limits else "not judged"
        print(f"{name}: {row['ratio']:.2f}x [{row['low']}, {row['high']}], {limit}; median seconds {row['seconds']}")
    missed = [name for name, limit in limits.items() if found[name]["ratio"] < limit]
    libraries = {**versions(), "torchvision": torchvision.__version__}
    if not arguments.quick:
        name = "store.json" if device.type == "cpu" else f"store_{device.type}.json"
        load = [round(value, 2) for value in os.getloadavg()]
        result = {"machine": machine(), "load": load, "versions": libraries, "limits": limits, "results": found}
        write_json(Path(__file__).parent / "results" / name, {**result, "passed": not missed})
    if missed:
        sys.exit(f"below the limit: {', '.join(missed)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one-build"]:
        one_build(*sys.argv[2:])
    else:
        main()
