"""Small images of patients, a small detector with a head, and one run of each benchmark that tests only look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.latents import open_latents
from memorisk.models.lcmem import FORMS, LatentConfig, LatentDetector, latent_trunk, new_branch
from memorisk.models.provenance import group_hashes
from memorisk.studies.pairs.copies import benchmark_copies
from memorisk.studies.pairs.reid import benchmark_reid
from memorisk.studies.pairs.results import PairBenchmark
from tests.drawings import whole_drawings

SIDE = 16
GROUPS = {"group_from": r"(p\d+)_"}


def patients(root: Path, each: Sequence[int], *, seed: int = 0, noise: int = 60) -> Path:
    """Images of patients, so many of each, named PATIENT_IMAGE: one picture a patient, and noise of its own."""
    root.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for patient, n in enumerate(each):
        own = rng.integers(100, 145, (SIDE, SIDE))
        for image in range(n):
            pixels = np.clip(own + rng.integers(-noise, noise + 1, (SIDE, SIDE)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / f"p{patient:03}_{image}.png")
    return root


def two_sets(root: Path) -> Path:
    """A table of two data sets: one with identities, whose ids the other one, without, uses again."""
    first, second = patients(root / "a", [3, 2, 4, 1] * 6), patients(root / "b", [1] * 24, seed=1)
    rows = [
        {"image": f"{folder.name}/{p.name}", "group": p.name[:4], "dataset": name}
        for folder, name in ((first, "chest"), (second, "skin"))
        for p in sorted(folder.iterdir())
    ]
    pd.DataFrame(rows).to_csv(root / "table.csv", index=False)
    return root / "table.csv"


def stored(source: Path, **options: Any) -> ImageStore:
    """The store of a source."""
    told = ImageOptions(**options)
    return build_store(load_manifest(source, told), told)


def small_detector(
    folder: Path,
    store: ImageStore,
    parts: Mapping[str, np.ndarray] | None = None,
    *,
    kind: str = "siamese",
    seed: int = 0,
) -> Path:
    """A Siamese detector over pixels that was never trained, said to have met some rows of a store.

    Its head is fit to be asked: the more features differ, the less alike.
    """
    encoder = open_latents("pixels", store.images.shape[1:])  # pyright: ignore[reportArgumentType]
    shape, form = encoder.latent_shape, FORMS[kind]
    branch = new_branch(latent_trunk("small_cnn", "none", shape, seed), shape, form, 8, seed)
    if branch.head is not None:
        branch.head.weight.data.copy_(-branch.head.weight.data.abs() * 40)
        branch.head.bias.data.fill_(1.0)
    rows = [(name, row) for name, chosen in (parts or {}).items() for row in chosen]
    groups = group_hashes(store.manifest.groups, store.data_hash)
    seen = pd.DataFrame(
        {
            "part": [name for name, _ in rows],
            "pixel_hash": [store.pixel_hashes[row] for _, row in rows],
            "group_hash": [groups[row] for _, row in rows],
        },
        dtype=object,
    )
    height, width, channels = (int(n) for n in store.images.shape[1:])
    config = LatentConfig(
        kind=kind, backbone="small_cnn", weights="random", weights_fingerprint="", preprocessing=encoder.preprocessing,
        stored=(height, width, channels), depth=8, dimension=8, measure=form.measure, loss="bce", protocol="corrected",
        recipe={"bce_share": 0.8, "sample_normalisation": 0.01},
        departures=(), best_epoch=0, data_hash=store.data_hash, groups_given=store.manifest.groups_given,
        versions={}, encoder=encoder.name, latent_shape=shape, stage=1, calibration={},
    )  # fmt: skip
    LatentDetector(branch.eval(), encoder, config, seen).save(folder)
    return folder


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 24 patients, four of whom have one image, one many."""
    return patients(tmp_path_factory.mktemp("people") / "images", [12, 2, 3, 4, 2, 1] * 4)


@pytest.fixture(scope="session")
def headed(tmp_path_factory: pytest.TempPathFactory, people: Path) -> Path:
    """A detector with a head that knows nobody."""
    return small_detector(tmp_path_factory.mktemp("detector") / "siamese", stored(people, **GROUPS))


@pytest.fixture(scope="session")
def identified(tmp_path_factory: pytest.TempPathFactory, people: Path, headed: Path) -> tuple[Path, PairBenchmark]:
    """Folder and result of a benchmark of re-identification."""
    out = tmp_path_factory.mktemp("bench") / "reid"
    with whole_drawings():
        return out, benchmark_reid(people, out=out, **settings(headed))


@pytest.fixture(scope="session")
def copied(
    tmp_path_factory: pytest.TempPathFactory, people: Path, headed: Path, identified: tuple[Path, PairBenchmark]
) -> tuple[Path, PairBenchmark]:
    """Folder and result of a benchmark of copies."""
    out = tmp_path_factory.mktemp("bench") / "copies"
    told = settings(headed) | {"families": ("blur", "darkening"), "test_images": 20, "reid": identified[0]}
    with whole_drawings():
        return out, benchmark_copies(people, out=out, **told)


def settings(headed: Path) -> dict[str, Any]:
    """Of the two runs."""
    return {**GROUPS, "detectors": ("mse", "ncc", "ssim", f"{headed}=Siamese", "pixels:4=Small")}
