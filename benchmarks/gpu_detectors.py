"""The grid of paper 003 on a GPU: its five networks at 224 px, untrained and trained by both losses, all 14 measures.

    python benchmarks/gpu_detectors.py ../shared/data [--epochs 20] [--out runs/gpu-detectors] [--device cuda]
    python benchmarks/gpu_detectors.py --small            # the same code on a CPU, on the digits, in a minute

Networks are timm's with random weights (SqueezeNet has those of ImageNet, from DATA), images HAM10000's. Prints and
writes (``benchmarks/results/gpu_detectors.json``, not with --small): device, the leaderboard, what failed, hours of
the grid, and for each network the images a second of a triplet training beside those of the bare network: forward,
backward and AdamW on one batch that lies on the card, the same precision, as many images.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.studies.detectors.benchmark import benchmark_detectors
from memorisk.training.detectors.contrastive.fit import fit_detector
from memorisk.training.detectors.contrastive.inputs import build_initial_detector
from memorisk.training.detectors.options import DetectorOptions
from memorisk.training.engine.devices import autocast, choose_precision

HERE = Path(__file__).parent
NETWORKS = ("resnet50", "densenet121", "inception_v3", "vit_base_patch32_clip_224", "vit_base_patch14_reg4_dinov2")
SQUEEZENET = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz=ImageNet"
STEPS, BATCH = 30, 64


def training(store: ImageStore, how: DetectorOptions, folder: Path) -> float:
    """Images (copies counted) a second of a short training, its look for copies and the writing included."""
    rows = np.arange(len(store.images))
    few = max(2, len(rows) // 20)
    begun = time.perf_counter()
    fit_detector(store, rows[few:], rows[:few], store.manifest.groups, how, folder)
    return 2 * (len(rows) - few) * how.epochs / (time.perf_counter() - begun)


def bare(store: ImageStore, how: DetectorOptions, device: str) -> float:
    """Images a second of the network alone: forward, backward and step on a batch that is there already."""
    start = build_initial_detector(store, how)
    network, sees = start.network.to(device).train(), start.config.preprocessing
    where = torch.device(device)
    x = torch.randn(2 * how.images_a_step, sees.channels, *sees.size, device=where).to(
        memory_format=torch.channels_last
    )
    adamw, begun = torch.optim.AdamW(network.parameters(), lr=1e-4), 0.0
    for step in range(STEPS + 3):
        if step == 3:
            wait(device)
            begun = time.perf_counter()
        adamw.zero_grad()
        with autocast(where, choose_precision(how.precision, where)):
            loss = network(x).square().mean()
        loss.backward()
        adamw.step()
    wait(device)
    return STEPS * len(x) / (time.perf_counter() - begun)


def wait(device: str) -> None:
    """Until the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.data is None and not given.small:
        parser.error("name the folder with the image sets, or --small")
    device = "cpu" if given.small else given.device
    images = "digits" if given.small else str(given.data / "ham10000_224")
    size, epochs = (16, 1) if given.small else (224, given.epochs)
    names = ["small_cnn@none"] if given.small else [f"{name}@none" for name in NETWORKS]
    pretrained = [] if given.small else [SQUEEZENET.format(data=given.data)]
    grid: dict[str, Any] = {"device": device, "epochs": epochs, "batch_size": BATCH, "frozen_epochs": 0}
    grid |= {"network_size": size}
    options = ImageOptions(size=size)
    with tempfile.TemporaryDirectory() as temporary:
        out = given.out or Path(temporary)
        store = build_store(load_manifest(images, options), options)
        speed = []
        for name in names:
            how = DetectorOptions(backbone=name, loss="triplet", **(grid | {"epochs": 2}))
            trained, alone = training(store, how, out / "speed" / name), bare(store, how, device)
            speed.append({"network": name, "trained": trained, "bare": alone, "share": trained / alone})
            print(speed[-1], flush=True)
        begun = time.perf_counter()
        found = benchmark_detectors(
            images, out=out / "grid", backbones=(*names, *pretrained, "pixels:16"), size=size,
            losses=("none", "triplet", "infonce"), **grid,
        )  # fmt: skip
        hours = (time.perf_counter() - begun) / 3600
    board = found.board.rows
    print(board.to_string(), f"\n{len(found.detectors)} detectors in {hours:.2f} hours; failed: {found.failed}")
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    result = {
        "device": name, "machine": machine(), "versions": versions(), "speed": speed, "hours": hours,
        "detectors": len(found.detectors), "failed": found.failed, "leaderboard": board.to_dict("records"),
    }  # fmt: skip
    if not given.small:
        write_json(HERE / "results" / "gpu_detectors.json", result)


if __name__ == "__main__":
    main()
