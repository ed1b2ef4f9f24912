"""What an image of a diffusion transformer costs beside diffusers' own pipeline.

    python benchmarks/bench_generators.py --part sampling [--pairs 7] [--threads 1]

`DiTGenerator.sample` against `diffusers.DiTPipeline`: the same network, autoencoder, labels, seeds, DDIM steps and
guidance, latents of 4 x 32 x 32 (as of images of 256 px), 1,000 classes; the pipeline draws its images as one batch,
ours are the same to the byte whatever stands beside them. The autoencoder is a small one that keeps the size, and
both sides end in uint8 arrays. Pairs take turns, and which side goes first alternates; images may differ by one grey
level (roundings in another order). Limit: 1.05 times, as the median of paired ratios of wall times in every case; the
same of processor times beside it, which other work on the machine disturbs less. Writes
``benchmarks/results/generators_sampling.json``.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch

from intervals import median_interval
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.dit.folder import DiTGenerator
from memorisk.models.generators.dit.network import DiTSpec, new_dit
from memorisk.models.generators.generators import Draw
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

RESULT, LIMIT = Path(__file__).parent / "results" / "generators_sampling.json", 1.05
SIDE, CHANNELS, CLASSES = 32, 4, 1000
CASES = (("tiny/4", 16, 20), ("tiny/2", 4, 10), ("small/2", 2, 10))
"""Network, images and steps."""


@dataclass(frozen=True)
class Sides:
    """Both ways to draw the same images."""

    generator: DiTGenerator
    pipeline: Any
    images: int
    how: SamplingOptions

    def ours(self, first: int) -> np.ndarray:
        """[n, H, W, 3] uint8."""
        seeds = np.arange(first, first + self.images)
        return self.generator.sample(Draw(seeds, seeds % CLASSES), self.how, device="cpu")

    def theirs(self, first: int) -> np.ndarray:
        """[n, H, W, 3] uint8."""
        seeds = range(first, first + self.images)
        found = self.pipeline(
            [seed % CLASSES for seed in seeds],
            guidance_scale=self.how.guidance,
            generator=[torch.Generator().manual_seed(seed) for seed in seeds],
            num_inference_steps=self.how.sampling_steps,
            output_type="np",
        )
        return (found.images * 255).round().astype(np.uint8)


def build(size: str, images: int, steps: int, guidance: float) -> Sides:
    """One network, its weights random in every tensor."""
    spec = DiTSpec.named(size, side=SIDE, channels=CHANNELS, conditioned_on="class", classes=CLASSES, learn_sigma=True)
    network = new_dit(spec, 0).eval().requires_grad_(False)
    with seeded(0), torch.no_grad():
        for value in network.parameters():
            value.normal_(std=0.04)
        shape = {"in_channels": 3, "out_channels": 3, "latent_channels": CHANNELS, "sample_size": SIDE}
        vae = diffusers.AutoencoderKL(**shape, block_out_channels=(8,), norm_num_groups=4).eval().requires_grad_(False)
    config = GeneratorConfig(
        kind="dit",
        name=size,
        size=(SIDE, SIDE),
        channels=3,
        conditioned_on="class",
        classes=tuple(str(k) for k in range(CLASSES)),
        latent="autoencoder",
    )
    scheduler = diffusers.DDIMScheduler(clip_sample=False)
    pipeline = diffusers.DiTPipeline(network, vae, scheduler)
    pipeline.set_progress_bar_config(disable=True)
    how = SamplingOptions(sampling_steps=steps, guidance=guidance)
    return Sides(DiTGenerator(network, config, scheduler, vae), pipeline, images, how)


def timed(work: Callable[[int], np.ndarray], first: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds by the wall and of the processor, [2], and the images."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work(first)
    return np.array([time.perf_counter() - wall, time.process_time() - processor]), found


def one_case(size: str, images: int, steps: int, guidance: float, pairs: int) -> dict[str, Any]:
    """Paired ratios of one network at one guidance."""
    sides = build(size, images, steps, guidance)
    ratios, seconds, off = [], [], 0
    for number in range(-1, pairs):  # the first warms up
        first = (number + 1) * images
        work = [("ours", sides.ours), ("theirs", sides.theirs)]
        found = {name: timed(side, first) for name, side in (work if number % 2 else work[::-1])}
        off = max(off, int(np.abs(found["ours"][1].astype(int) - found["theirs"][1]).max()))
        if number >= 0:
            ratios.append(found["ours"][0] / found["theirs"][0])
            seconds.append([found["ours"][0][0], found["theirs"][0][0]])
    case: dict[str, Any] = {"network": size, "guidance": guidance, "images": images, "steps": steps}
    case |= {"largest_difference": off, "seconds": dict(zip(("ours", "theirs"), np.median(seconds, 0), strict=True))}
    for what, values in zip(("wall", "processor"), np.transpose(ratios), strict=True):
        median = median_interval(values)
        case[what] = dict(zip(("ratio_median", "ratio_low", "ratio_high"), median, strict=True))
        case[what]["ratios"] = values.tolist()
        said = f"median {median[0]:.3f} ({median[1]:.3f} to {median[2]:.3f})"
        print(f"{size}, guidance {guidance:g}, {what}: {said}, limit {LIMIT}", flush=True)
    return case


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beside", default="", help="what else ran on the machine, for the result")
    parser.add_argument("--out", type=Path, default=RESULT)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    cases = [one_case(*case, guidance, asked.pairs) for case in CASES for guidance in (1.0, 4.0)]
    held = all(case["wall"]["ratio_median"] <= LIMIT and case["largest_difference"] <= 1 for case in cases)
    found = {"cases": cases, "threads": asked.threads, "pairs": asked.pairs, "limit": LIMIT, "held": held}
    found |= {"beside": asked.beside, "machine": machine(), "versions": versions()}
    write_json(asked.out, found)
    if not held:
        sys.exit("the limit is not held")


if __name__ == "__main__":
    main()
