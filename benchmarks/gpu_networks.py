"""Stages of ``gpu_quarter.py``: generators, stacks of small networks, and LCMem's autoencoder and training."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import memorisk
from gpu_common import Run, blotches, seconds, wait, write_images
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import hash_pixels
from memorisk.images.published.digits import digits_manifest
from memorisk.images.readers.digits import read_digit
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.autoencoder import autoencoder_class
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.latents import open_latents
from memorisk.runs.files import read_table
from memorisk.training.autoencoders.latent_store import Latents, load_latents, read_latents
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.stacked import fit_stacked
from memorisk.training.detectors.lcmem.fit import fit_lcmem
from memorisk.training.detectors.lcmem.inputs import build_initial_network
from memorisk.training.detectors.metric_losses import pair_loss
from memorisk.training.detectors.options import LatentOptions
from memorisk.training.engine.devices import autocast, choose_precision
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.generators.kinds.diffusion_training import DiffusionTraining
from memorisk.training.generators.options import GeneratorOptions

SIDE, PER_PERSON, LCMEM_STEPS = 32, 4, 20
SD2 = {"channels": (128, 256, 512, 512), "groups": 32, "layers": 2, "side": 512}
TINY = {"channels": (4, 8), "groups": 2, "layers": 1, "side": 32}


def generators(run: Run) -> None:
    """Steps a second of DiT-B/2 and XL/2 with 256 tokens, and of the bare network; drawn images audited."""
    patients, batch, steps, drawn = (30, 4, 2, 20) if run.small else (2000, 64, 20, 1000)
    networks = ("tiny/8", "small/8") if run.small else ("B/2", "XL/2")
    images = write_images(blotches(patients, SIDE), run.folder / "images")
    lines = []
    for network in networks:
        rates = generator_rates(images, network, batch, steps, run.device)
        lines.append(f"{network} {rates['steps_per_second']:.2f} steps/s, bare {rates['bare_steps_per_second']:.2f}")
        run.note("; ".join(lines), **{network.replace("/", "_"): rates})
        if not run.small:
            torch.cuda.empty_cache()
    took = audited_generator(run, images, networks[0], drawn, batch, steps)
    run.note(f"{'; '.join(lines)}; {drawn} images " + ", ".join(f"{k} {v:.0f} s" for k, v in took.items()), audit=took)


def generator_rates(images: Path, network: str, batch: int, steps: int, device: torch.device) -> dict[str, Any]:
    """Steps a second of the training, and of the network's forward and backward pass alone."""
    store = build_store(load_manifest(images, ImageOptions()), ImageOptions())
    options = GeneratorOptions(network=network, batch_size=batch, steps=2 * steps, device=device.type)
    training = DiffusionTraining(store, np.arange(len(store.images)), options)

    def until(step: int) -> None:
        for _ in training.loop.until(step):
            pass

    until(steps)  # warms up
    ours = steps / seconds(lambda: until(2 * steps), device)
    module = training.network
    x = torch.randn((batch, 3, SIDE, SIDE), device=device)
    zeros = torch.zeros(batch, dtype=torch.int64, device=device)

    def bare() -> None:
        for _ in range(steps):
            with autocast(device, training.precision):
                answer = module(x, timestep=zeros, class_labels=zeros, return_dict=False)[0]
            answer.float().square().mean().backward()
            module.zero_grad(set_to_none=True)

    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    rates = {"parameters": training.parameters, "precision": training.precision, "batch": batch, "peak_bytes": peak}
    return rates | {"steps_per_second": ours, "bare_steps_per_second": steps / seconds(bare, device)}


def audited_generator(run: Run, images: Path, network: str, n: int, batch: int, steps: int) -> dict[str, float]:
    """Seconds of each part from training images to a report on what was drawn."""
    device, root, took = run.device.type, run.folder, {}
    few: dict[str, Any] = {"plants": 5} if run.small else {}

    def timed(name: str, function: Callable[[], Any]) -> None:
        took[name] = seconds(function, run.device)

    options: dict[str, Any] = {"network": network, "steps": steps, "batch_size": batch, "lr": 1e-3, "device": device}
    timed("trained", lambda: memorisk.train_generator(images, out=root / "run", **options))
    drawing: dict[str, Any] = {"sampler": "dpm-solver", "sampling_steps": 2 if run.small else 20, "batch": 256}
    timed("drawn", lambda: memorisk.generate(root / "run", root / "drawn", images=n, device=device, **drawing))
    table = read_table(root / "run" / "manifest.parquet")
    for part in ("training", "test"):
        (root / part).mkdir()
        for path in table.loc[table["split"] == part, "path"]:
            os.link(images / path, root / part / Path(path).name)
    made, held = root / "drawn" / "images", str(root / "test")
    audit: dict[str, Any] = {"held_out": held, "out": root / "audit", "detector": "pixels:32", "device": device, **few}
    timed("audited", lambda: memorisk.audit_synthetic(root / "training", made, **audit))
    return took


def stacks(run: Run) -> None:
    """Small networks on the digits: 8, 32 and 128 as one stack, over one after another, of which four are taken."""
    manifest = digits_manifest()
    images = np.stack([read_digit(int(frame)) for frame in manifest.table["frame"]])
    targets = np.unique(manifest.labels.astype(str), return_inverse=True)[1].astype(np.int64)
    options = resolve_options(TrainOptions(epochs=1 if run.small else 30, precision="fp32"), model_spec("small_cnn"))

    def network(seed: int) -> torch.nn.Module:
        return create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=seed)

    rows = [np.random.default_rng(seed).permutation(len(images))[:524] for seed in range(128)]
    one = lambda seed: fit(network(seed), images, targets, rows[seed], options, seed=seed, device=run.device)  # noqa: E731
    alone = float(np.mean([seconds(lambda seed=seed: one(seed), run.device) for seed in range(5)][1:]))
    lines = []
    for n in (2,) if run.small else (8, 32, 128):
        models, seeds = [network(seed) for seed in range(n)], list(range(n))
        stack = lambda: fit_stacked(models, images, targets, rows[:n], options, seeds=seeds, device=run.device)  # noqa: B023, E731
        together = seconds(stack, run.device)
        lines.append(f"{n}: {alone * n / together:.1f} times")
        run.note(
            f"as fast as one after another, {', '.join(lines)}", **{f"stack_{n}": {"seconds": together, "alone": alone}}
        )


def lcmem(run: Run) -> None:
    """Latents a second at 512 px, and images a second of stage 1 (ConvNeXt-Tiny), and of the bare networks."""
    shape, images, many = (TINY, 6, 160) if run.small else (SD2, 512, 4096)
    device = run.device
    rates = encoding(run.folder, shape, images, device)
    run.note(f"latents {rates['ours']:.0f} images/s, bare {rates['bare']:.0f}", latents=rates)
    latents = random_latents(run.folder, many, shape["side"] // (2 ** (len(shape["channels"]) - 1)))
    how = LatentOptions(
        encoder="latents", stages=1, epochs=1 if run.small else 3, patience=1000, device=device.type,
        backbone="small_cnn@none" if run.small else "convnext_tiny@none", batch_size=8 if run.small else 512,
        checkpoint_seconds=1e6,
    )  # fmt: skip
    rates = first_stage(run.folder, latents, how, device)
    line = f"{run.results['line']}; stage 1 {rates['ours']:.0f} images/s, bare {rates['bare']:.0f}"
    run.note(line, stage1=rates)


def encoding(folder: Path, shape: dict[str, Any], n: int, device: torch.device) -> dict[str, float]:
    """Images a second of `load_latents` without its cache, by random weights, and of the encoder alone."""
    blocks, side = len(shape["channels"]), shape["side"]
    autoencoder_class("this benchmark")(
        in_channels=3, out_channels=3, latent_channels=4, sample_size=side, block_out_channels=shape["channels"],
        norm_num_groups=shape["groups"], layers_per_block=shape["layers"],
        down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
    ).save_pretrained(folder / "autoencoder")  # fmt: skip
    store = random_store(folder, n, side)
    encoder = open_latents(f"autoencoder:{folder / 'autoencoder'}", (side, side, 3))
    module, precision = encoder.load().to(device), choose_precision("auto", device)
    x = torch.rand(min(n, 16), 3, side, side, device=device)

    def bare() -> None:
        with torch.inference_mode(), autocast(device, precision):
            for _ in range(n // len(x)):
                module(x)

    def ours() -> None:
        load_latents(store, encoder, device=device, cache=False)

    bare()  # warms up
    return {"ours": n / seconds(ours, device), "bare": n // len(x) * len(x) / seconds(bare, device)}


def random_store(folder: Path, n: int, side: int) -> ImageStore:
    """Random images in colour, as an image store has them."""
    images = np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    ids = [f"image{i}" for i in range(n)]
    columns = {"image": ids, "path": ids, "label": [""] * n, "group": ids}
    hashes = np.array([hash_pixels(image) for image in images], dtype=object)
    place = folder / "stores" / "random"
    place.mkdir(parents=True)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []}, dtype=object)
    manifest = Manifest(pd.DataFrame(columns, dtype=object), None, "random")
    return ImageStore(images, manifest, "random", place, nothing, hashes)


def random_latents(folder: Path, n: int, side: int) -> Latents:
    """Random latents, four images an identity."""
    values = np.random.default_rng(1).standard_normal((n, 4, side, side), dtype=np.float32)
    people = np.arange(n) // PER_PERSON
    np.savez(folder / "latents.npz", latents=values, image=np.arange(n).astype(str), group=people.astype(str))
    return read_latents(folder / "latents.npz")


def first_stage(folder: Path, latents: Latents, how: LatentOptions, device: torch.device) -> dict[str, float]:
    """Images a second of a training of stage 1, each counted when the network sees it, and of steps on one batch."""
    n, b = len(latents), how.batch_size or 2
    cut = n // PER_PERSON * 19 // 20 * PER_PERSON
    chosen = replace(how, pairs=cut // b * b).filled()
    branch = build_initial_network(latents, chosen).branch.to(device).train()
    adam, precision = torch.optim.Adam(list(branch.trained()), lr=1e-4), choose_precision("auto", device)
    z, first = torch.randn(2 * b, *latents.values.shape[1:], device=device), torch.arange(b, device=device)
    same = first < b // 2
    people = torch.cat([first, torch.where(same, 0, b) + first])

    def bare(steps: int) -> None:
        for _ in range(steps):
            adam.zero_grad()
            with autocast(device, precision):
                u = branch.features(z)
            u = u.float()
            loss = pair_loss(u, branch.logits(u[:b], u[b:]), same, people, bce_share=0.8, temperature=0.07)
            loss.backward()
            adam.step()

    bare(1)  # warms up
    alone = 2 * b * LCMEM_STEPS / seconds(lambda: bare(LCMEM_STEPS), device)
    begun = wait(device)
    fit_lcmem(latents, np.arange(cut), np.arange(cut, n), latents.groups, chosen, folder / "lcmem")
    took = time.perf_counter() - begun
    return {"ours": 2 * (cut // b) * b * (chosen.epochs or 1) / took, "bare": alone}
