r"""Whether a GAN learns from a thousand images on one core, and what a step and an image cost.

    python benchmarks/gan_learning.py FOLDER --group-from '^(\d+)_' [--steps 400] [--size 32] [--work FOLDER]

A GAN with the default widths on three quarters of the patients; before the first step and every 50 steps its averaged
generator draws as many images as there are of the other patients, and FID to these is computed on the 32 largest
principal components of the training images' pixels. Beside it stands that of so many training images. Times are of
the process on one core, which other work on the machine disturbs less than wall time. It goes on where it was killed
(``--work``). Writes ``benchmarks/results/gan_learning.json``.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.options import ImageOptions
from memorisk.images.sources import load_manifest
from memorisk.images.store import build_store
from memorisk.models.generators import Draw
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import read_json, write_json
from memorisk.statistics.quality_frechet import frechet_distance
from memorisk.training.gan_fit import GanTraining
from memorisk.training.generator_options import GeneratorOptions
from memorisk.training.generator_snapshots import Snapshot

RESULT = Path(__file__).parent / "results" / "gan_learning.json"
COMPONENTS, EVERY, BATCH = 32, 50, 16


def main() -> None:
    """Train, look, write."""
    parser = argparse.ArgumentParser(description="Whether a GAN learns from a thousand images on one core.")
    parser.add_argument("images", type=Path)
    parser.add_argument("--group-from")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "memorisk-gan-learning")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.work.mkdir(mode=0o700, parents=True, exist_ok=True)
    how = ImageOptions(size=given.size, group_from=given.group_from, store=given.work / "store")
    store = build_store(load_manifest(given.images, how), how)
    groups = np.asarray(store.manifest.groups, dtype=str)
    names = np.unique(groups)
    held = np.isin(groups, np.random.default_rng(0).choice(names, len(names) // 4, replace=False))
    rows, others = np.flatnonzero(~held), np.flatnonzero(held)
    options = GeneratorOptions(
        kind="gan",
        steps=given.steps,
        batch_size=BATCH,
        snapshot_every=EVERY,
        device="cpu",
        checkpoint_seconds=60,
        gan_augment_images=50_000,
    )
    training = GanTraining.build(store, rows, options)
    flat = store.images.reshape(len(store.images), -1) / 255.0
    middle = flat[rows].mean(axis=0)
    axes = np.linalg.svd(flat[rows] - middle, full_matrices=False)[2][:COMPONENTS].T

    def distance(images: np.ndarray, patients: np.ndarray | None = None) -> dict[str, Any]:
        """FID to the images of other patients."""
        features = (images.reshape(len(images), -1) / 255.0 - middle) @ axes
        found = frechet_distance((flat[others] - middle) @ axes, features, groups[others], patients)
        return {"fid": found.estimate, "low": found.low, "high": found.high}

    few = np.sort(np.random.default_rng(1).choice(rows, len(others), replace=False))
    draw, seen_at = Draw(np.arange(len(others))), given.work / "looks.json"
    looks = read_json(seen_at) if seen_at.is_file() else []
    if not looks:
        looks.append({"step": 0, **distance(training.generator().sample(draw, device="cpu"))})
    last = [time.process_time()]

    def look(snapshot: Snapshot) -> None:
        """Note the distance and what the steps since the last look cost."""
        begun = time.process_time()
        images = snapshot.generator.sample(draw, device="cpu")
        drawn = time.process_time()
        recent = training.loop.records[snapshot.step - EVERY : snapshot.step]
        looks.append(
            {
                "step": snapshot.step,
                **distance(images),
                "r_t": training.loop.adaptive.r_t,
                "p": training.loop.adaptive.p,
                "path_length": float(recent[:, 3].nanmean()),
                "processor_seconds_a_step": (begun - last[0]) / EVERY,
                "processor_seconds_an_image": (drawn - begun) / len(images),
            }
        )
        write_json(seen_at, looks)
        print(looks[-1], flush=True)
        last[0] = time.process_time()

    training.run(given.work / "checkpoint.safetensors", look)
    result = {
        "images": len(rows),
        "patients": len(set(groups[rows].tolist())),
        "other_images": len(others),
        "other_patients": len(set(groups[others].tolist())),
        "size": given.size,
        "batch_size": BATCH,
        "parameters": training.parameters,
        "recipe": options.recipe(),
        "features": f"pixels, {COMPONENTS} principal components of the training images",
        "training_images_in_their_place": distance(store.images[few], groups[few]),
        "looks": looks,
        "machine": machine(),
        "versions": versions(),
    }
    write_json(RESULT, result)


if __name__ == "__main__":
    main()
