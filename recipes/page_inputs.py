"""What the YAML files of the site's pages are cut down to, and what the pages' Python takes for granted."""

from typing import Any

FEATURE_CODE = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.random((50, 64, 64, 1))
weights = rng.normal(size=(64 * 64, 3)) / 64
def f(images):
    return images.reshape(len(images), -1) @ weights
"""
INFLUENCE_CODE = """
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))
images = np.random.default_rng(0).integers(0, 255, (40, 8, 8, 1), dtype=np.uint8)
labels, ids = np.arange(40) % 2, [f"i{k}" for k in range(40)]
losses = [1.0 / (k + 1) for k in range(30)]
states, lr = [model.state_dict()] * 30, 0.1
def normalise(x):
    return x.float() / 255
"""
LATENTS_CODE = """
import numpy as np
from memorisk.images.options import ImageOptions
np.savez("mine.npz", latents=np.zeros((4, 4, 8, 8), np.float32), image=["a", "b", "c", "d"])
"""
LCMEM_CODE = """
import numpy as np
rng = np.random.default_rng(0)
a, b = rng.integers(0, 255, (2, 4, 32, 32, 1), dtype=np.uint8)
images, z = a, rng.normal(size=(4, 1, 32, 32)).astype(np.float32)
"""
GENERATOR_CODE = """
def look(snapshot):
    print(snapshot.step, snapshot.loss)
"""
ROWS_CODE = """
import numpy as np
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.training.generators.options import GeneratorOptions
how = ImageOptions(size=32)
store = build_store(load_manifest("scans/", how), how)
rows, others = np.arange(40), np.arange(40, 60)
"""
FIT = "from memorisk.training.generators.fit import"


def short_study(file: dict[str, Any]) -> dict[str, Any]:
    """One small architecture in place of five, for one epoch, on the images that are here."""
    images = {"images": "scans", "size": 32, "group_from": r"^(\d+)_"}
    sets = {
        name: images | {k: v for k, v in given.items() if k not in ("images", "head", "sample")}
        for name, given in file["datasets"].items()
    }
    return file | {
        "seeds": file["seeds"][:2],
        "settings": file["settings"] | {"size": 32, "epochs": 1},
        "architectures": {name: {"model": "small_cnn"} for name in [*file["architectures"]][:2]},
        "datasets": sets,
        "defences": {
            name: given | {"regime": ["full", "dp-full"], "epsilon": [8]} for name, given in file["defences"].items()
        },
        "explain": file["explain"] | {"features": ["before"], "feature_weights": None},
    }


def short_generators(file: dict[str, Any]) -> dict[str, Any]:
    """The same arms and keys, with few steps, images and seeds."""
    sets = {name: given | {"images": "scans", "group_from": r"^(\d+)_"} for name, given in file["datasets"].items()}
    arms = {}
    for name, given in file["arms"].items():
        short = given | {"generator": given["generator"] | {"steps": 4}}
        if "snapshots" in short:
            short |= {"snapshots": [2, 4]}
        if isinstance(short.get("training_images"), list):
            short |= {"training_images": [40, 60]}
        elif "training_images" in short:
            short |= {"training_images": 60}
        if "duplicates" in short:
            short |= {"duplicates": short["duplicates"] | {"levels": [1, 4], "patients": 6}}
        arms[name] = short | ({"seeds": [0]} if "seeds" in short else {})
    settings = file["settings"] | {"quality": "pixels:8", "images": 20, "detectors": ["pixels:32"], "sampling_steps": 2}
    return file | {"settings": settings, "datasets": sets, "arms": arms, "classifiers": {"conditioning_epochs": 1}}


def short_unique(file: dict[str, Any]) -> dict[str, Any]:
    """Few canaries, references and epochs, on the digits."""
    few = {"random": 2, "runs": 2, "highest": 1, "lowest": 1, "references": 3, "latent": 0, "profiled": 0}
    one = next(iter(file["datasets"].values())) | {"images": "digits", "probes": "digits", "sample": 300}
    settings = file["settings"] | few | {"n_controls": 19, "epochs": 2, "n_probes": 50}
    return file | {
        "settings": settings,
        "datasets": {"Digits": one | {"networks": ["mlp1"], "regularisers": ["dropout"]}},
    }
