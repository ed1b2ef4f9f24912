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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.generators import Draw
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import read_json, write_json
from memorisk.statistics.quality.frechet import frechet_distance
from memorisk.training.generators.kinds.gan_training import GanTraining
from memorisk.training.generators.options import GeneratorOptions
from memorisk.training.generators.snapshots import Snapshot

RESULT = Path(__file__).parent / "results" / "gan_learning.json"
COMPONENTS, EVERY, BATCH = 32, 50, 16


@dataclass(frozen=True, eq=False)
class Parts:
    """Images to learn from, and those of other patients."""

    store: ImageStore
    groups: np.ndarray
    """[N] of all images, str."""
    rows: np.ndarray
    """[n] to learn from."""
    others: np.ndarray
    """[m] of a quarter of the patients."""

    @classmethod
    def of(cls, store: ImageStore) -> "Parts":
        """Divide a store by patient."""
        groups = np.asarray(store.manifest.groups, dtype=str)
        names = np.unique(groups)
        held = np.isin(groups, np.random.default_rng(0).choice(names, len(names) // 4, replace=False))
        return cls(store, groups, np.flatnonzero(~held), np.flatnonzero(held))


class Distance:
    """FID to the images of other patients, on principal components of the training images' pixels."""

    def __init__(self, parts: Parts) -> None:
        pixels = parts.store.images.reshape(len(parts.store.images), -1) / 255.0
        self.middle = pixels[parts.rows].mean(axis=0)
        self.axes = np.linalg.svd(pixels[parts.rows] - self.middle, full_matrices=False)[2][:COMPONENTS].T
        self.others, self.groups = (pixels[parts.others] - self.middle) @ self.axes, parts.groups[parts.others]

    def __call__(self, images: np.ndarray, patients: np.ndarray | None = None) -> dict[str, Any]:
        """The distance of images [n, H, W, C], with its interval."""
        features = (images.reshape(len(images), -1) / 255.0 - self.middle) @ self.axes
        found = frechet_distance(self.others, features, self.groups, patients)
        return {"fid": found.estimate, "low": found.low, "high": found.high}


class Looks:
    """What is measured before the first step and at every look, kept in a file from which a killed run goes on."""

    def __init__(self, training: GanTraining, distance: Distance, n: int, file: Path) -> None:
        self.training, self.distance, self.draw, self.file = training, distance, Draw(np.arange(n)), file
        self.found = read_json(file) if file.is_file() else []
        if not self.found:
            images = training.generator().sample(self.draw, device="cpu")
            self.found.append({"step": 0, **distance(images)})
        self.last = time.process_time()

    def __call__(self, snapshot: Snapshot) -> None:
        """Note the distance and what the steps since the last look cost."""
        begun, loop = time.process_time(), self.training.loop
        images = snapshot.generator.sample(self.draw, device="cpu")
        drawn = time.process_time()
        recent = loop.records[snapshot.step - EVERY : snapshot.step]
        self.found.append(
            {
                "step": snapshot.step,
                **self.distance(images),
                "r_t": loop.adaptive.r_t,
                "p": loop.adaptive.p,
                "path_length": float(recent[:, 3].nanmean()),
                "processor_seconds_a_step": (begun - self.last) / EVERY,
                "processor_seconds_an_image": (drawn - begun) / len(images),
            }
        )
        write_json(self.file, self.found)
        print(self.found[-1], flush=True)
        self.last = time.process_time()


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
    parts = Parts.of(build_store(load_manifest(given.images, how), how))
    options = GeneratorOptions(
        kind="gan",
        steps=given.steps,
        batch_size=BATCH,
        snapshot_every=EVERY,
        device="cpu",
        checkpoint_seconds=60,
        gan_augment_images=50_000,
    )
    training = GanTraining(parts.store, parts.rows, options)
    looks = Looks(training, Distance(parts), len(parts.others), given.work / "looks.json")
    training.run(given.work / "checkpoint.safetensors", looks)
    write_json(RESULT, _result(parts, looks, given.size))


def _result(parts: Parts, looks: Looks, size: int) -> dict[str, Any]:
    """Everything that is committed."""
    distance, training = looks.distance, looks.training
    few = np.sort(np.random.default_rng(1).choice(parts.rows, len(parts.others), replace=False))
    return {
        "images": len(parts.rows),
        "patients": len(set(parts.groups[parts.rows].tolist())),
        "other_images": len(parts.others),
        "other_patients": len(set(parts.groups[parts.others].tolist())),
        "size": size,
        "batch_size": BATCH,
        "parameters": training.parameters,
        "recipe": training.options.recipe(),
        "features": f"pixels, {COMPONENTS} principal components of the training images",
        "training_images_in_their_place": distance(parts.store.images[few], parts.groups[few]),
        "looks": looks.found,
        "machine": machine(),
        "versions": versions(),
    }


if __name__ == "__main__":
    main()
