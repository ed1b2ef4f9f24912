"""LCMem on a GPU: latents a second by an autoencoder of Stable Diffusion 2's shape, images a second of stage 1.

    python benchmarks/gpu_lcmem.py [--images 2048] [--latents 16384] [--epochs 3] [--rounds 3] [--device cuda]
    python benchmarks/gpu_lcmem.py --small            # the same code on a CPU, with miniature networks, in a minute

Two rates, each beside that of the bare network on one batch that lies on the card, in the same precision:

- latents: ``load_latents`` of random images of 512 px in colour, without the cache, by an AutoencoderKL of Stable
  Diffusion 2's shape with random weights (latents 4 x 64 x 64); bare: its encoder alone.
- stage 1: ``fit_lcmem`` of a ConvNeXt-Tiny on random latents of that shape, four images an identity, 512 pairs a step,
  by as many pairs an epoch as training images; the look at the validation images after each epoch and the writing are
  included. An image is counted each time the network sees it, two a pair. Bare: forward, loss, backward and Adam.

Weights and images are random, since neither changes what a step takes. Prints also the hours that 100 epochs would take
of the 119,534 images that paper 004 has of MIMIC-CXR. Median and interval over rounds; the first round is left out.
Writes ``benchmarks/results/gpu_lcmem.json`` with the device's name (not with --small).
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from intervals import median_interval
from memorisk.images.manifest import Manifest
from memorisk.images.pixels import hash_pixels
from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import autoencoder_class
from memorisk.models.latents import open_latents
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.autoencoders.latent_store import Latents, load_latents, read_latents
from memorisk.training.detectors.lcmem.fit import fit_lcmem
from memorisk.training.detectors.lcmem.inputs import build_initial_network
from memorisk.training.detectors.metric_losses import pair_loss
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.engine.devices import autocast, choose_precision

RESULT = Path(__file__).parent / "results" / "gpu_lcmem.json"
SD2 = {"channels": (128, 256, 512, 512), "groups": 32, "layers": 2, "side": 512}
TINY = {"channels": (4, 4, 8, 8), "groups": 2, "layers": 1, "side": 64}
EACH, STEPS, MIMIC, EPOCHS = 4, 20, 119_534, 100


def autoencoder(folder: Path, shape: dict[str, Any]) -> str:
    """An AutoencoderKL with random weights in a folder; its name as an encoder."""
    blocks = len(shape["channels"])
    autoencoder_class("this benchmark")(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=shape["side"],
        block_out_channels=shape["channels"], norm_num_groups=shape["groups"], layers_per_block=shape["layers"],
        down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
    ).save_pretrained(folder)  # fmt: skip
    return f"autoencoder:{folder}"


def stored(folder: Path, n: int, side: int) -> ImageStore:
    """Random images in colour."""
    images = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    ids = [f"image{i}" for i in range(n)]
    columns = {"image": ids, "path": ids, "label": [""] * n, "group": ids}
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    (folder / "stores" / "random").mkdir(parents=True)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    manifest = Manifest(pd.DataFrame(columns, dtype=object), None, "random")
    return ImageStore(images, manifest, "random", folder / "stores" / "random", nothing, hashes)


def given(folder: Path, n: int, side: int) -> Latents:
    """Random latents, four images an identity."""
    values = np.random.default_rng(1).standard_normal((n, 4, side, side), dtype=np.float32)
    who = np.arange(n) // EACH
    np.savez(folder / "latents.npz", latents=values, image=np.arange(n).astype(str), group=who.astype(str))
    return read_latents(folder / "latents.npz")


def rate(run: Callable[[], Any], images: int, device: torch.device) -> float:
    """Images a second of one call, to the end of what it started on the device."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
    return images / (time.perf_counter() - start)


def encoding(folder: Path, shape: dict[str, Any], n: int, device: torch.device) -> dict[str, Callable[[], float]]:
    """Rates of latents, ours and of the bare encoder."""
    store = stored(folder, n, shape["side"])
    encoder = open_latents(autoencoder(folder / "autoencoder", shape), (shape["side"], shape["side"], 3))
    module, precision = encoder.load().to(device), choose_precision("auto", device)
    x = torch.rand(min(n, 16), 3, shape["side"], shape["side"], device=device)

    def bare() -> None:
        """The encoder alone, as often as needed to have as many images."""
        with torch.inference_mode(), autocast(device, precision):
            for _ in range(-(-n // len(x))):
                module(x)

    return {
        "ours": lambda: rate(lambda: load_latents(store, encoder, device=device, cache=False), n, device),
        "bare": lambda: rate(bare, -(-n // len(x)) * len(x), device),
    }


def training(
    folder: Path, latents: Latents, how: LatentOptions, device: torch.device
) -> dict[str, Callable[[], float]]:
    """Rates of stage 1, ours and of the bare network."""
    n, number = len(latents), iter(range(1000))
    cut = n // EACH * 19 // 20 * EACH
    parts = np.arange(cut), np.arange(cut, n)
    b = how.batch_size or 2
    chosen = replace(how, pairs=cut // b * b).filled()
    branch = build_initial_network(latents, chosen).branch.to(device).train()
    adam = torch.optim.Adam(list(branch.trained()), lr=1e-4)
    precision = choose_precision("auto", device)
    z = torch.randn(2 * b, *latents.values.shape[1:], device=device)
    same = torch.arange(b, device=device) < b // 2
    who = torch.cat([torch.arange(b, device=device), torch.where(same, 0, b) + torch.arange(b, device=device)])

    def bare() -> None:
        """Steps on one batch."""
        for _ in range(STEPS):
            adam.zero_grad()
            with autocast(device, precision):
                u = branch.features(z)
            u = u.float()
            loss = pair_loss(u, branch.logits(u[:b], u[b:]), same, who, bce_share=0.8, temperature=0.07)
            loss.backward()
            adam.step()

    def ours() -> None:
        """A training from the start."""
        fit_lcmem(latents, *parts, latents.groups, chosen, folder / f"run{next(number)}")

    seen = 2 * (cut // b) * b * (chosen.epochs or 1)
    return {"ours": lambda: rate(ours, seen, device), "bare": lambda: rate(bare, 2 * b * STEPS, device)}


def measured(rates: dict[str, Callable[[], float]], rounds: int) -> dict[str, Any]:
    """Both rates over the rounds, in an order that turns, and ours as a share of the bare network's."""
    found: dict[str, list[float]] = {name: [] for name in rates}
    for number in range(rounds + 1):
        for name in list(rates) if number % 2 else list(rates)[::-1]:
            value = rates[name]()
            if number:
                found[name].append(value)
    told = dict(zip(("share_median", "share_low", "share_high"),
                    median_interval(np.divide(found["ours"], found["bare"])), strict=True))  # fmt: skip
    return told | {f"{name}_images_per_second": float(np.median(values)) for name, values in found.items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int)
    parser.add_argument("--latents", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    small = asked.small
    if not small and asked.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU; --small runs the same code on a CPU")
    device, shape = torch.device("cpu" if small else asked.device), TINY if small else SD2
    images, many = asked.images or (24 if small else 2048), asked.latents or (160 if small else 16_384)
    rounds = asked.rounds or (1 if small else 3)
    how = LatentOptions(
        encoder="latents", stages=1, epochs=asked.epochs or (1 if small else 3), patience=1000, device=str(device),
        backbone="small_cnn@none" if small else "convnext_tiny@none", batch_size=16 if small else 512,
        checkpoint_seconds=1e6,
    )  # fmt: skip
    rows = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows["latents"] = measured(encoding(folder, shape, images, device), rounds)
        latents = given(folder, many, shape["side"] // 8)
        rows["stage1"] = measured(training(folder, latents, how, device), rounds)
    for name, row in rows.items():
        print(f"{name}: {row['ours_images_per_second']:,.0f} images/s, {row['share_median']:.1%} of the bare network")
    if small:
        print("the same code; rates on a CPU mean nothing")
        return
    hours = 2 * EPOCHS * MIMIC / rows["stage1"]["ours_images_per_second"] / 3600
    print(f"{EPOCHS} epochs of {MIMIC:,} images: {hours:.2f} hours")
    found = {"device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU", "rows": rows, "rounds": rounds}
    found |= {"images": images, "latents": many, "hours_of_100_epochs_of_mimic": hours}
    write_json(RESULT, found | {"machine": machine(), "versions": versions()})


if __name__ == "__main__":
    main()
