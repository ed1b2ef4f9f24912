"""What the scores of an audit of a generator cost next to the network's forward passes alone.

    python benchmarks/bench_noise_losses.py [--pairs 10] [--threads 1]

`noise_losses` of images (hashed noise of each image, noised at ten levels, through the network, squared errors averaged
over draws) against the barest loop: the same network on as many noised images that lie in memory, in batches of the
same size, both in seconds of the processor, which other work on the machine disturbs less. Networks are the three kinds
that twins have: the perceptron of ``tiny`` on 8 x 8 pixels, a U-Net of diffusers and a diffusion transformer on 32 x
32. Pairs take turns, and the side that begins alternates. Limit: forward passes per second at least 0.9 times those of
the loop, as the median of paired ratios. Memory: growth of the peak from 500 to 8,000 images of 8 x 8, each in a
process of its own, which holds the images as a memory map. Writes ``benchmarks/results/noise_losses.json``.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from intervals import median_interval
from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.dit.network import DiTSpec, new_dit
from memorisk.models.generators.noise_losses import noise_losses, rows_per_pass
from memorisk.models.generators.perceptron import linear_schedule, new_perceptron
from memorisk.models.generators.unet import build_unet, size_config
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

RESULT, LIMIT, PAIRS = Path(__file__).parent / "results" / "noise_losses.json", 0.9, 8
N_IMAGES = {"perceptron": 200, "U-Net": 4, "DiT": 4}
"""Number of images of one measurement of each network, with 16 draws at ten levels each."""
MEMORY = (500, 8000)


def networks() -> dict[str, tuple[Denoiser, tuple[int, int, int]]]:
    """The denoiser of each kind of twin, and the shape of its images."""
    small, large = (1, 8, 8), (1, 32, 32)
    dit = new_dit(DiTSpec.named("small/4", side=32, channels=1), seed=0).eval()
    unet = build_unet(size_config("tiny", large), "U-Net tiny").eval()
    return {
        "perceptron": (Denoiser(new_perceptron(64, 0).eval(), linear_schedule()), small),
        "U-Net": (Denoiser(unet, linear_schedule()), large),
        "DiT": (Denoiser(dit, linear_schedule(), null=torch.zeros(1, dtype=torch.int64)), large),
    }


def images_of(n: int, shape: tuple[int, int, int]) -> tuple[torch.Tensor, list[str]]:
    """Random images and their ids."""
    return torch.rand((n, *shape), generator=torch.Generator().manual_seed(0)) * 2 - 1, [f"{i:06}" for i in range(n)]


def plain(denoiser: Denoiser, shape: tuple[int, int, int], n: int) -> float:
    """Seconds of n forward passes in batches of the same size."""
    block = rows_per_pass(None, shape)
    x, t = torch.randn(block, *shape), torch.full((block,), 100, dtype=torch.int64)
    condition = () if denoiser.null is None else (denoiser.null.expand(block, *denoiser.null.shape[1:]),)
    begun = time.process_time()
    with torch.inference_mode():
        for first in range(0, n, block):
            size = min(block, n - first)
            denoiser.network(x[:size], t[:size], *(part[:size] for part in condition))
    return time.process_time() - begun


def scored(denoiser: Denoiser, shape: tuple[int, int, int], n: int) -> float:
    """Seconds of the losses of n images."""
    images, ids = images_of(n, shape)
    begun = time.process_time()
    noise_losses(denoiser, images, ids, levels(denoiser), PAIRS)
    return time.process_time() - begun


def rates(name: str, denoiser: Denoiser, shape: tuple[int, int, int], n_pairs: int) -> dict[str, Any]:
    """Ratio of forward passes per second over the loop's, with its interval."""
    n = N_IMAGES[name]
    passes = n * 2 * PAIRS * len(levels(denoiser))
    ratios, ours = [], []
    for turn in range(n_pairs + 1):
        sides = [lambda: scored(denoiser, shape, n), lambda: plain(denoiser, shape, passes)]
        first = sides[turn % 2]()
        second = sides[1 - turn % 2]()
        scores, loop = (first, second) if turn % 2 == 0 else (second, first)
        if turn:  # the first pair warms up
            ratios.append(loop / scores)
            ours.append(passes / scores)
    median, low, high = median_interval(ratios)
    print(f"{name}: {np.median(ours):,.0f} passes/s, {median:.3f} ({low:.3f} to {high:.3f}) of the loop's", flush=True)
    interval = {"ratio_median": median, "ratio_low": low, "ratio_high": high, "ratios": ratios}
    return {"shape": shape, "passes_per_second": float(np.median(ours)), **interval}


def peak_of(n: int) -> float:
    """Peak memory in MiB of a process that scores n images of 8 x 8 from a memory map."""
    command = [sys.executable, __file__, "--peak-of", str(n)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def score_from_disk(n: int) -> None:
    """Score n images from a memory map, and print the peak memory in MiB."""
    denoiser, shape = networks()["perceptron"]
    images, ids = images_of(n, shape)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        np.save(file, images.numpy())
        del images
        noise_losses(denoiser, np.load(file, mmap_mode="r"), ids, levels(denoiser), PAIRS)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak-of", type=int)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.peak_of:
        score_from_disk(options.peak_of)
        return
    kinds = {name: rates(name, *network, options.pairs) for name, network in networks().items()}
    peaks = {str(n): peak_of(n) for n in MEMORY}
    print("peak memory: " + ", ".join(f"{peak:.0f} MiB at {n} images" for n, peak in peaks.items()))
    held = all(kind["ratio_median"] >= LIMIT for kind in kinds.values())
    result = {"limit": LIMIT, "held": held, "kinds": kinds, "peak_mib": peaks, "threads": options.threads}
    write_json(options.out, result | {"machine": machine(), "versions": versions()})
    if not held:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    main()
