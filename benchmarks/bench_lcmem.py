"""How long LCMem trains on one core: images a second of a training step, by backbone and size of the latent.

    python benchmarks/bench_lcmem.py [--pairs 64] [--steps 3]

A step embeds two images a pair, forms the joint loss and goes back (`pair_loss`); one thread. The *processor's* time is
counted, since other processes may run beside it. Prints and writes (``benchmarks/results/lcmem_training.json``) the
median of the steps, the first of which is left out, and the seconds of an epoch of 712 pairs (NIH's 264 patients, 70 %
to train on). No target: it says what a laptop can train.
"""

import argparse
import time

import numpy as np
import torch

from memorisk.models.lcmem import FORMS, by_sample, latent_trunk, new_branch
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.detectors.metric_losses import pair_loss

CASES = (
    ("small_cnn", (1, 64, 64)),
    ("small_cnn", (1, 32, 32)),
    ("test_convnext", (1, 64, 64)),
    ("convnext_atto", (1, 64, 64)),
    ("convnext_atto", (1, 32, 32)),
    ("convnext_atto", (4, 16, 16)),
    ("resnet18", (1, 64, 64)),
    ("convnext_tiny", (1, 64, 64)),
    ("convnext_tiny", (4, 16, 16)),
)
PAIRS_AN_EPOCH = 712


def seconds(name: str, shape: tuple[int, int, int], pairs: int, steps: int) -> tuple[float, int]:
    """Of a step, and the parameters."""
    branch = new_branch(latent_trunk(name, "none", shape, 0), shape, FORMS["lcmem"], 512, 0)
    branch.to(memory_format=torch.channels_last)
    branch.train()
    z = by_sample(torch.randn(2 * pairs, *shape, generator=torch.Generator().manual_seed(0)))
    positive, identity = torch.arange(pairs) < pairs // 2, torch.arange(pairs).repeat(2)
    found = []
    for _ in range(steps + 1):
        begun = time.process_time()
        u = branch.features(z.contiguous(memory_format=torch.channels_last))
        pair_loss(u, branch.logits(u[:pairs], u[pairs:]), positive, identity).backward()
        found.append(time.process_time() - begun)
    return float(np.median(found[1:])), sum(p.numel() for p in branch.trained())


def main() -> None:
    """Time every case and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, shape in CASES:
        each, parameters = seconds(name, shape, given.pairs, given.steps)
        speed = 2 * given.pairs / each
        row = {"backbone": name, "latent": list(shape), "parameters": parameters, "images_per_second": speed}
        rows.append(row | {"seconds_an_epoch": 2 * PAIRS_AN_EPOCH / speed})
        print(f"{name:16} {'x'.join(map(str, shape)):10} {speed:8.0f} images/s, {rows[-1]['seconds_an_epoch']:.1f} s")
    found = {"pairs": given.pairs, "steps": given.steps, "pairs_an_epoch": PAIRS_AN_EPOCH, "rows": rows}
    write_json("benchmarks/results/lcmem_training.json", found | {"machine": machine(), "versions": versions()})


if __name__ == "__main__":
    main()
