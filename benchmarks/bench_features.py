"""What features cost beside the forward passes alone.

    python benchmarks/bench_features.py [--net resnet18] [--side 64] [--images 2560] [--pairs 10] [--threads 1]

`training.features.matrix.load_features` from an image store (memory map of uint8, nothing of it computed before:
read, converted, normalised, through the network, hashed, written with a journal, looked through) against the barest
loop: the same network and batches, on normalised float tensors that lie in memory, nothing kept but a list of outputs.
Both sides read the network from the same file of random weights; its hash is remembered from the warm-up, as it is
between any two calls. Pairs take turns, each with its share of the images, and which side goes first alternates.
Limit: 1.1 times, as the median of paired ratios of wall times; the same of processor times beside it, which other work
on the machine disturbs less. With ``--given 224`` images are resized on the way, which the barest loop has done
before; that is not judged. Writes ``benchmarks/results/features.json``.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from intervals import median_interval
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.network_parts import trunk_output
from memorisk.models.weight_files import save_weights
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.engine.devices import place
from memorisk.training.engine.predict import batch_of_size
from memorisk.training.features.matrix import load_features

RESULT, LIMIT = Path(__file__).parent / "results" / "features.json", 1.1


class Sides:
    """Extraction and the barest loop over the same images.

    Args:
        net: A network of timm.
        given: Pixels a side that it gets.
        folder: Where its weights are written.
    """

    def __init__(self, net: str, given: int, folder: Path) -> None:
        self.net, self.given, self.spec = net, given, model_spec(net)
        self.file = folder / "weights.safetensors"
        save_weights(self.file, create_model(net, num_classes=2, image_size=given, seed=0))
        time.sleep(2.1)  # the hash of a file that was touched just now is not remembered
        self.kept: list[np.ndarray] = []

    def tensors(self, store: ImageStore) -> list[torch.Tensor]:
        """Batches as the network wants them."""
        batches = []
        for rows in np.array_split(store.images, np.arange(*self.steps(len(store.images)))):
            x = torch.from_numpy(np.array(rows)).movedim(-1, 1).float() / 255
            x = F.interpolate(x, (self.given, self.given), mode="bilinear", antialias=True)
            x = (x - torch.tensor(self.spec.mean)[:, None, None]) / torch.tensor(self.spec.std)[:, None, None]
            batches.append(x.contiguous(memory_format=torch.channels_last))
        return batches

    def steps(self, n: int) -> tuple[int, int, int]:
        """Where batches begin, but for the first."""
        size = batch_of_size(self.given, self.given)
        return size, n, size

    def plain(self, batches: list[torch.Tensor]) -> np.ndarray:
        """The barest loop."""
        model = create_model(self.net, num_classes=2, image_size=self.given, weights=self.file, seed=0).eval()
        place(model, torch.device("cpu"))
        with torch.inference_mode():
            return torch.cat([trunk_output(model, x) for x in batches]).numpy()

    def extraction(self, store: ImageStore) -> np.ndarray:
        """Ours."""
        return load_features(store, f"{self.net}@{self.file}", size=self.given, device="cpu").values


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds by the wall and of the processor, [2], and what was computed."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return np.array([time.perf_counter() - wall, time.process_time() - processor]), found


def one_pair(sides: Sides, number: int, images: np.ndarray, folder: Path) -> tuple[np.ndarray, float]:
    """Ratios [2] of one share of the images, and the largest difference of features over their largest value."""
    source = folder / f"{number}.npz"
    np.savez(source, images=images, labels=np.arange(len(images)) % 2)
    options = ImageOptions(store=folder / "cache")
    store = build_store(load_manifest(source, options), options, processes=1)
    batches = sides.tensors(store)
    work = [("extraction", lambda: sides.extraction(store)), ("plain", lambda: sides.plain(batches))]
    took, values = {}, {}
    for name, side in work if number % 2 else work[::-1]:
        took[name], values[name] = timed(side)
    print(f"extraction {took['extraction'][0]:.2f} s, forward passes {took['plain'][0]:.2f} s", flush=True)
    off = float(np.abs(values["extraction"] - values["plain"]).max() / np.abs(values["plain"]).max())
    return took["extraction"] / took["plain"], off


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--given", type=int, default=None)
    parser.add_argument("--images", type=int, default=2560)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    given = asked.given or asked.side
    images = np.random.default_rng(0).integers(0, 256, (asked.images, asked.side, asked.side, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides = Sides(asked.net, given, folder)
        one_pair(sides, asked.pairs, images[:64], folder)  # warms up
        shares = np.array_split(images, asked.pairs)
        pairs, off = zip(*(one_pair(sides, k, share, folder) for k, share in enumerate(shares)), strict=True)
    found = {"network": asked.net, "stored_side": asked.side, "given_side": given, "images": asked.images}
    found |= {"threads": asked.threads, "pairs": asked.pairs, "largest_difference": max(off)}
    for what, ratios in zip(("wall", "processor"), np.transpose(pairs), strict=True):
        median = median_interval(ratios)
        found[what] = dict(zip(("ratio_median", "ratio_low", "ratio_high"), median, strict=True))
        found[what]["ratios"] = ratios.tolist()
        print(f"{asked.net}, {what}: median {median[0]:.3f} ({median[1]:.3f} to {median[2]:.3f}), limit {LIMIT}")
    judged, held = given == asked.side, bool(found["wall"]["ratio_median"] <= LIMIT)
    found |= {"limit": LIMIT, "judged": judged, "held": held, "machine": machine(), "versions": versions()}
    write_json(asked.out, found)
    if judged and not held:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    main()
