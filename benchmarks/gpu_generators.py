"""Generators on a GPU: steps of training a second, and 10,000 drawn images audited end to end, with times per stage.

    python benchmarks/gpu_generators.py [--images 10000] [--steps 50] [--batch 64] [--device cuda]
    python benchmarks/gpu_generators.py --small       # the same code on a CPU, with tiny networks, in a minute or two

- training: DiT-B/2 and DiT-XL/2 with random weights on 3 x 32 x 32 numbers, which are as many tokens (256) as a latent
  of an image of 256 pixels has: forward, loss, backward, AdamW and the average, in bf16 where the card has it. Each
  beside the bare network's forward and backward on one batch that lies on the card.
- audit: a B/2 is trained for --steps, draws --images images by DPM-Solver++ in 20 steps, and `audit_synthetic` compares
  them with its training and test images, planted copies included: seconds of each stage, decoding and the report among
  them.

Images are random blotches, 2,000 patients with one each: neither their content nor the weights change what a step
takes. Writes ``benchmarks/results/gpu_generators.json`` with the device's name (not with --small).
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.runs.environment import check_device, machine, versions
from memorisk.runs.files import read_table, write_json

RESULT = Path(__file__).parent / "results" / "gpu_generators.json"
SIDE = 32


def blotches(n: int, folder: Path) -> Path:
    """Images of three channels as PNG, a patient each."""
    from PIL import Image

    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(n):
        coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(np.kron(coarse, np.ones((SIDE // 4, SIDE // 4, 1), dtype=np.uint8))).save(
            folder / f"{i:06}.png"
        )
    return folder


def waited(device: torch.device) -> float:
    """The time when the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def training_rate(images: Path, network: str, batch: int, steps: int, device: str) -> dict[str, Any]:
    """Steps a second, here and of the bare network."""
    from memorisk.images.options import ImageOptions
    from memorisk.images.sources.registry import load_manifest
    from memorisk.images.store import build_store
    from memorisk.training.engine.devices import autocast
    from memorisk.training.generators.diffusion_training import DiffusionTraining
    from memorisk.training.generators.options import GeneratorOptions

    store = build_store(load_manifest(images, ImageOptions()), ImageOptions())
    options = GeneratorOptions(network=network, batch_size=batch, steps=2 * steps, device=device)
    training = DiffusionTraining.build(store, np.arange(len(store.images)), options)
    for _ in training.loop.until(steps):  # warms up
        pass
    begun = waited(training.device)
    for _ in training.loop.until(2 * steps):
        pass
    ours = (waited(training.device) - begun) / steps
    network_ = training.network
    x = torch.randn((batch, 3, SIDE, SIDE), device=training.device)
    t, told = torch.zeros(batch, dtype=torch.int64, device=training.device), torch.zeros_like(x[:, 0, 0, 0]).long()
    begun = waited(training.device)
    for _ in range(steps):
        with autocast(training.device, training.precision):
            found = network_(x, timestep=t, class_labels=told, return_dict=False)[0]
        found.float().square().mean().backward()
        network_.zero_grad(set_to_none=True)
    bare = (waited(training.device) - begun) / steps
    return {
        "parameters": training.parameters,
        "precision": training.precision,
        "batch": batch,
        "steps_per_second": 1 / ours,
        "images_per_second": batch / ours,
        "bare_network_steps_per_second": 1 / bare,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if training.device.type == "cuda" else None,
    }


def audited(images: Path, root: Path, network: str, n: int, batch: int, steps: int, device: str) -> dict[str, Any]:
    """Seconds of each stage from training images to a report on what was drawn."""
    import memorisk

    seconds, where = {}, check_device(device)
    begun = waited(where)

    def stage(name: str) -> None:
        """Note the time since the last one."""
        nonlocal begun
        now = waited(where)
        seconds[name], begun = now - begun, now

    memorisk.train_generator(
        images, out=root / "run", network=network, steps=steps, batch_size=batch, device=device, lr=1e-3
    )
    stage("train")
    memorisk.generate(
        root / "run", root / "drawn", images=n, device=device, sampler="dpm-solver", sampling_steps=20, batch=256
    )
    stage("draw")
    table = read_table(root / "run" / "manifest.parquet")
    for part in ("training", "test"):
        (root / part).mkdir()
        for path in table.loc[table["split"] == part, "path"]:
            os.link(images / path, root / part / Path(path).name)
    stage("divide")
    memorisk.audit_synthetic(
        root / "training",
        root / "drawn" / "images",
        held_out=str(root / "test"),
        out=root / "audit",
        detector="pixels:32",
        device=device,
        fail_on="never",
    )
    stage("audit")
    return {"images": n, "network": network, "training_images": len(table), "seconds": seconds}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--patients", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    networks = ("B/2", "XL/2")
    if given.small:
        networks, given.images, given.patients, given.steps, given.batch = ("tiny/8", "small/8"), 40, 60, 4, 8
        given.device = "cpu"
    found: dict[str, Any] = {"training": {}}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["MEMORISK_CACHE"] = str(root / "cache")
        images = blotches(given.patients, root / "images")
        for network in networks:
            found["training"][network] = training_rate(images, network, given.batch, given.steps, given.device)
            if given.device != "cpu":
                torch.cuda.empty_cache()
        found["audit"] = audited(images, root, networks[0], given.images, given.batch, given.steps, given.device)
    print(json.dumps(found, indent=2))
    if not given.small:
        gpu = torch.cuda.get_device_name()
        write_json(RESULT, {**found, "gpu": gpu, "versions": versions(), "machine": machine()})


if __name__ == "__main__":
    main()
