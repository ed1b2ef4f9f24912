"""Self-influence without a gradient per image, against captum's TracInCP and torch.func's per-image gradients.

    python benchmarks/bench_influence.py [--images 10000] [--rounds 5] [--threads 1] [--device cuda]
    python benchmarks/bench_influence.py --small      # the same code in seconds, its numbers mean nothing

CNN-2 of paper 002 (32 x 32 x 3, float32; without padding, as the study trains it, and with the same size kept), random
images, one checkpoint: every side's cost is proportional to the number of
checkpoints. Each round takes images / rounds images through `self_influence` (its
copy of the network, its self-check and the scaling of integers included), the first of these through `vmap(grad)` and
fewer still through captum, which are slow, and compares seconds per image. captum runs as it comes (batches of one
image) and in its other mode (``sample_wise_grads_per_batch``, batches of 8). `bare_pass` is the forward pass and the
gradients of all layers' outputs alone, on tensors in memory: what no exact way can do without. Peak private memory is
taken in processes of their own, over a mapped file of a fifth of the images and of all. Prints and writes
(``benchmarks/results/influence.json``) the medians of the paired ratios with intervals, and the largest relative
difference of the values. At least 20 times captum and 5 times vmap are asked for.

On a GPU every side has the network there and full float32 products, the peers their images, too; batches are larger,
the peers get more images, the clock waits for the card, and the peak is of the card's memory
(``benchmarks/results/influence_gpu.json``).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

from bench_memory import Peak
from intervals import median_interval
from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.scores.influence import self_influence

CLASSES, LR = 10, 0.1
LIMITS = {"captum": 20.0, "captum_sample_wise": 20.0, "vmap": 5.0}
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Sizes:
    """How much each side is given."""

    images: int
    rounds: int
    batch: int
    vmap: int
    captum: int
    device: str


CPU = Sizes(10_000, 5, 32, 128, 96, "cpu")
GPU = Sizes(50_000, 5, 512, 2048, 512, "cuda")
SMALL = Sizes(40, 2, 8, 8, 8, "cpu")


def cnn2(same: bool) -> nn.Module:
    """CNN-2 of paper 002, A.3, which names no padding: none, as the study trains it, or the same size kept."""
    if not same:
        return create_model("cnn2", num_classes=CLASSES, in_chans=3, image_size=32, seed=0)  # 1.7 million weights
    with seeded(0):  # 4.3 million
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, CLASSES),
        )  # fmt: skip


def by_vmap(model: nn.Module, x: torch.Tensor, y: torch.Tensor, chunk: int) -> np.ndarray:
    """The plain way with torch.func: all gradients of a chunk of images, squared and summed."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(own: dict[str, torch.Tensor], image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, own, (image[None],)), label[None])

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))
    found = []
    for start in range(0, len(x), chunk):
        per_image = gradients(weights, x[start : start + chunk], y[start : start + chunk])
        found.append(sum(g.flatten(1).square().sum(dim=1) for g in per_image.values()))
    return LR * torch.cat(found).cpu().numpy()


def by_captum(model: nn.Module, x: torch.Tensor, y: torch.Tensor, *, sample_wise: bool) -> np.ndarray:
    """TracInCP of captum over all layers."""
    from captum.influence import TracInCP
    from torch.utils.data import TensorDataset

    loss = nn.CrossEntropyLoss(reduction="sum" if sample_wise else "none")
    peer = TracInCP(
        model, TensorDataset(x, y), ["last"], lambda _model, _name: LR, loss_fn=loss,
        batch_size=8 if sample_wise else 1, sample_wise_grads_per_batch=sample_wise,
    )  # fmt: skip
    return peer.self_influence().cpu().numpy()


def bare_pass(model: nn.Module, x: torch.Tensor, y: torch.Tensor, chunk: int) -> np.ndarray:
    """Forward and the gradients of every layer's output, and nothing from them; the values are no values."""
    model.to(memory_format=torch.channels_last)
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    for start in range(0, len(x), chunk):
        batch = x[start : start + chunk].contiguous(memory_format=torch.channels_last)
        logits = model(batch)
        torch.autograd.grad(F.cross_entropy(logits, y[start : start + chunk], reduction="sum"), [first.bias])
    model.to(memory_format=torch.contiguous_format)
    return np.empty(len(x))


def timed(function: Callable[[], np.ndarray], device: str) -> tuple[float, np.ndarray]:
    """Seconds per image, and the values."""
    wait(device)
    start = time.perf_counter()
    values = function()
    wait(device)
    return (time.perf_counter() - start) / len(values), values


def wait(device: str) -> None:
    """Until the card has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def peak(images: int, threads: int, device: str, batch: int) -> int:
    """Peak memory of a pass over this many images in a mapped file, in a process of its own: private, or the card's."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "images.npy"
        pixels = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(images, 32, 32, 3))
        rng = np.random.default_rng(0)
        for start in range(0, images, 1000):
            pixels[start : start + 1000] = rng.integers(0, 256, pixels[start : start + 1000].shape, dtype=np.uint8)
        pixels.flush()
        command = [sys.executable, __file__, "--child", str(file), "--threads", str(threads)]
        command += ["--device", device, "--batch-size", str(batch)]
        return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def child(file: str, device: str, batch: int) -> None:
    """One pass over a mapped file; prints the peak."""
    images = np.load(file, mmap_mode="r")
    with Peak() as peak:
        model = cnn2(same=False)
        labels, states = np.arange(len(images)) % CLASSES, [model.state_dict()]
        self_influence(model, images, labels, states, [LR], batch_size=batch, device=device)
    print(json.dumps(peak.highest if device == "cpu" else torch.cuda.max_memory_allocated()))


def measure(same: bool, sizes: Sizes) -> dict:
    """The rounds on one network: seconds per image of every side, ratios to ours, largest difference of values."""
    model = cnn2(same).eval().to(sizes.device)
    rng = np.random.default_rng(0)
    own, device, batch = sizes.images // sizes.rounds, sizes.device, sizes.batch
    sides = {
        "vmap": (sizes.vmap, lambda m, x, y: by_vmap(m, x, y, batch)),
        "captum": (sizes.captum, lambda m, x, y: by_captum(m, x, y, sample_wise=False)),
        "captum_sample_wise": (sizes.captum, lambda m, x, y: by_captum(m, x, y, sample_wise=True)),
    }
    apart = dict.fromkeys(sides, 0.0)
    sides["bare_pass"] = (sizes.vmap, lambda m, x, y: bare_pass(m, x, y, batch))
    seconds: dict[str, list[float]] = {name: [] for name in ("self_influence", *sides)}
    for number in range(-1, sizes.rounds):  # the first warms up
        n = own if number >= 0 else 2 * batch
        pixels = rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
        labels = np.arange(n) % CLASSES
        states = [model.state_dict()]
        ours, found = timed(
            lambda p=pixels, t=labels, s=states: (
                self_influence(model, p, t, s, [LR], batch_size=batch, device=device).values
            ),
            device,
        )
        x = torch.from_numpy(pixels[: max(sizes.vmap, sizes.captum)]).permute(0, 3, 1, 2).contiguous().to(device)
        x, y = x.float() / 255, torch.from_numpy(labels).to(device)
        line = [f"{1e3 * ours:.2f} ms an image"]
        for name, (count, peer) in sides.items():
            k = min(count, n)
            spent, values = timed(lambda f=peer, k=k, x=x, y=y: f(model, x[:k], y[:k]), device)
            if name in apart:
                apart[name] = max(apart[name], float(np.abs(values / found[:k] - 1).max()))
            if number >= 0:
                seconds[name].append(spent)
            line.append(f"{name} {spent / ours:.1f}")
        if number >= 0:
            seconds["self_influence"].append(ours)
        print(", ".join(line), flush=True)
    result: dict = {"largest_relative_difference": apart, "images_per_round": {"self_influence": own}}
    for name, (count, _) in sides.items():
        ratio = median_interval(np.divide(seconds[name], seconds["self_influence"]))
        result[name] = dict(zip(("ratio_median", "ratio_low", "ratio_high"), ratio, strict=True))
        if name in LIMITS:
            result[name]["limit"] = LIMITS[name]
        result["images_per_round"][name] = min(count, own)
    result["milliseconds_per_image"] = {name: 1e3 * float(np.median(s)) for name, s in seconds.items()}
    return result


def main() -> None:
    """Measure every side in turn and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--batch-size", dest="batch", type=int)
    parser.add_argument("--vmap-images", dest="vmap", type=int)
    parser.add_argument("--captum-images", dest="captum", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU was found: leave --device out")
    torch.set_num_threads(given.threads)
    if given.child:
        child(given.child, given.device, given.batch)
        return
    warnings.filterwarnings("ignore", category=UserWarning, module="captum")
    own = {name: value for name in ("images", "rounds", "batch", "vmap", "captum") if (value := getattr(given, name))}
    sizes = replace(SMALL if given.small else CPU if given.device == "cpu" else GPU, device=given.device, **own)
    if given.device != "cpu":  # as self_influence computes
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
    found: dict = {"network": "CNN-2", "threads": given.threads, **asdict(sizes)}
    for name, same in (("no_padding", False), ("same_padding", True)):
        print(name)
        found[name] = measure(same, sizes)
    few, all_ = sizes.images // 5, sizes.images
    peaks = {n: peak(n, given.threads, sizes.device, sizes.batch) for n in (few, all_)}
    found["peak_private_bytes" if given.device == "cpu" else "peak_card_bytes"] = {str(n): b for n, b in peaks.items()}
    found["bytes_per_image"] = (peaks[all_] - peaks[few]) / (all_ - few)
    print(json.dumps(found, indent=1))
    if given.small:
        return
    card = {} if given.device == "cpu" else {"card": torch.cuda.get_device_name()}
    file = RESULTS / ("influence.json" if given.device == "cpu" else "influence_gpu.json")
    write_json(file, found | card | {"machine": machine(), "versions": versions()})


if __name__ == "__main__":
    main()
