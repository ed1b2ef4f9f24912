"""Steps of a diffusion transformer's training here and in the plain loop of diffusers' own training examples.

    python benchmarks/bench_generators.py --part training --pairs 10

The plain loop is that of diffusers' ``examples/unconditional_image_generation``: a DataLoader over images in memory,
noise and times of torch, ``DDPMScheduler.add_noise``, mean squared error, ``accelerator.backward``, a gradient clipped
to 1, AdamW, ``EMAModel.step``; the same network, batch and settings, and its own defaults where it has them. Ours
draws from (seed, step), drops conditions, and looks at its losses. The two take turns, a block of steps each. Claim:
the median of the ratios of their times is at most 1.05. Times are the processor's with --cpu-time, for a machine
that is not idle.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from intervals import median_interval
from memorisk.images.store import ImageStore
from memorisk.models.generators.dit.network import new_dit
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.engine.devices import keep_freed_memory, limited_threads
from memorisk.training.generators.kinds.diffusion_training import DiffusionTraining
from memorisk.training.generators.options import GeneratorOptions

LIMIT = 1.05
FILE = Path(__file__).parent / "results" / "generators_training.json"


def store_of(n: int, side: int, folder: Path) -> ImageStore:
    """Random grey images of two classes; a step takes as long on these as on others."""
    import pandas as pd

    from memorisk.images.manifest import Manifest

    images = np.random.default_rng(0).integers(0, 256, (n, side, side, 1), dtype=np.uint8)
    ids = [str(i) for i in range(n)]
    table = pd.DataFrame(
        {"image": ids, "path": ids, "label": ["ab"[i % 2] for i in range(n)], "group": ids}, dtype=object
    )
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    hashes = np.array([f"{i:032x}" for i in range(n)], dtype=object)
    return ImageStore(images, Manifest(table, None, "random"), "random", folder, nothing, hashes)


def plain_loop(training: DiffusionTraining, options: GeneratorOptions) -> Iterator[float]:
    """The loop of diffusers' examples; each step is run when the next number is asked for."""
    from accelerate import Accelerator
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
    from diffusers.training_utils import EMAModel

    accelerator = Accelerator(cpu=training.device.type == "cpu", mixed_precision="no")
    network = new_dit(training.spec, options.seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    average = EMAModel(network.parameters(), decay=options.ema)
    scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="linear")
    pixels = torch.from_numpy(training.store.images[training.rows].astype(np.float32)).permute(0, 3, 1, 2) / 127.5 - 1
    labels = torch.from_numpy(np.asarray(training.told.labels))
    data = torch.utils.data.TensorDataset(pixels.contiguous(), labels)
    loader = torch.utils.data.DataLoader(data, batch_size=options.images_a_step, shuffle=True, drop_last=True)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    average.to(accelerator.device)
    while True:
        for x, told in loader:
            with accelerator.accumulate(network):
                noise = torch.randn(x.shape, device=x.device)
                times = torch.randint(0, 1000, (len(x),), device=x.device)
                found = network(scheduler.add_noise(x, noise, times), timestep=times, class_labels=told).sample
                loss = F.mse_loss(found.float(), noise)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            average.step(network.parameters())
            yield loss.detach().item()


def seconds(advance: Callable[[], Any], steps: int, clock: Callable[[], float]) -> float:
    """Of so many steps."""
    begun = clock()
    for _ in range(steps):
        advance()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - begun


def main() -> None:
    """Time both, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="tiny/4")
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10, help="of a block")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of the processor")
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    clock = time.process_time if given.cpu_time else time.perf_counter
    options = GeneratorOptions(
        network=given.network,
        batch_size=given.batch,
        steps=(given.pairs + 1) * given.steps + 1,
        device=given.device,
        precision="fp32",
    )
    keep_freed_memory()
    with limited_threads(1):
        training = DiffusionTraining(store_of(200, given.side, Path("unused")), np.arange(200), options)
        ours, plain = training.loop.until(options.steps), plain_loop(training, options)
        ratios, times = [], []
        for pair in range(given.pairs + 1):
            both = [
                seconds(lambda one=one: next(one), given.steps, clock) for one in ((ours, plain)[:: 1 - 2 * (pair % 2)])
            ]
            mine, theirs = both[:: 1 - 2 * (pair % 2)]
            if pair:  # the first warms up
                ratios.append(mine / theirs)
                times.append((mine / given.steps, theirs / given.steps))
    median, low, high = median_interval(ratios)
    summary = {
        "settings": {name: value for name, value in vars(given).items() if name != "out"},
        "parameters": training.parameters,
        "ratio": {"median": median, "low": low, "high": high, "limit": LIMIT, "met": median <= LIMIT},
        "seconds_a_step": {
            "ours": float(np.median([a for a, _ in times])),
            "plain": float(np.median([b for _, b in times])),
        },
        "ratios": ratios,
        "versions": versions(),
        "machine": machine(),
    }
    write_json(given.out, summary)
    print(json.dumps({name: summary[name] for name in ("ratio", "seconds_a_step")}, indent=2))


if __name__ == "__main__":
    main()
