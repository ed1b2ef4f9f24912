"""The detector `default`, which comes with memorisk: its training on procedural images, and its folder.

    python recipes/default_detector.py train WORK [--steps N] [--seed S] [--start FOLDER]
    python recipes/default_detector.py write WORK [--card FIGURES.md] [--out FOLDER]

``train`` learns to find copies of people that formulas made (`procedural_people.py`): of each
step's `FAMILIES` x `MEMBERS` people two views are embedded, and InfoNCE asks for each which of the others is its copy
(both ways; temperature `TEMPERATURE`). AdamW, the rate warmed up and then lowered along a cosine; the weights that are
kept are the moving average. Most steps see views of 48 pixels, the last share sees 64. WORK holds the pictures that
people are made of, the checkpoint and the log; killed at any step, the same command goes on from the last checkpoint.
The same seed gives the same weights on the same machine. The log ends with the fingerprint of the kept weights.
``--start`` takes the first weights from a detector, such as the one before: version 1 had 1,800 steps of seed 0;
version 2 has 4,000 more of seed 1, and its people may be dark, low in contrast or grainy
(``docs/results/default_detector_log.jsonl`` has both).

``write`` makes of WORK's last checkpoint the folder of the detector, by default that of the package, which the wheel
brings; never by hand. FIGURES is what was measured, for the model card.
"""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.copy_detectors import Detector, DetectorNetwork, load_detector, new_network, published_sentence
from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER
from memorisk.models.encoders.networks import Trunk
from memorisk.models.provenance import COLUMNS, DetectorConfig, copy_tensors
from memorisk.models.settings import COPY_DETECTOR, DEFAULT_DETECTOR
from memorisk.runs.environment import versions
from memorisk.runs.files import atomic_path, write_text
from procedural_people import draw_copies, draw_people
from procedural_pictures import procedural_images

BACKBONE, SIZE = "copy_resnet", 64
PREPROCESSING = Preprocessing((SIZE, SIZE), 3, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
PUBLISHED = {
    "version": "2",
    "licence": "Apache-2.0",
    "data": "images that a program drew: no image of any person was in its training",
}
CARD, CARD_MODE = "MODEL_CARD.md", 0o644

FAMILIES, MEMBERS, BACKGROUNDS = 16, 8, 2
SIDES, LAST_SHARE = (48, 64), 0.1
STEPS, TEMPERATURE, RATE, DECAY, WARM, AVERAGE = 1800, 0.07, 2e-3, 0.02, 100, 0.998
PICTURES, CHECKPOINT, LOG = "pictures.npy", "checkpoint.pt", "log.jsonl"
EVERY, LOGGED = 100, 25
DIMENSION = 128


class Steps(torch.utils.data.Dataset):
    """Views and copies of each step, decided by (seed, step)."""

    def __init__(self, pictures: Path, first: int, steps: int, seed: int) -> None:
        self.pictures, self.first, self.steps, self.seed = pictures, first, steps, seed

    def __len__(self) -> int:
        return self.steps - self.first

    def __getitem__(self, i: int) -> torch.Tensor:
        torch.set_num_threads(1)
        step = self.first + i
        pictures = torch.from_numpy(np.load(self.pictures, mmap_mode="c"))
        drawn = np.random.SeedSequence(self.seed, spawn_key=(step,)).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(drawn >> np.uint64(1)))
        people = self.people(pictures, generator)
        inside, others = (part.flatten(0, 1) for part in people.split([MEMBERS, BACKGROUNDS], dim=1))
        side = SIDES[step >= (1 - LAST_SHARE) * self.steps]
        return torch.cat(draw_copies(inside, others, side, generator))

    def people(self, pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """[FAMILIES, MEMBERS + BACKGROUNDS, 3, 80, 80]; the last of each family are what others are blended with."""
        drawn = draw_people(pictures, FAMILIES, MEMBERS + BACKGROUNDS, generator)
        return drawn.unflatten(0, (FAMILIES, MEMBERS + BACKGROUNDS))


def new_detector(seed: int) -> DetectorNetwork:
    """An untrained network."""
    bare = create_model(BACKBONE, num_classes=2, image_size=SIZE, weights="none", seed=seed)
    return new_network(Trunk(bare), PREPROCESSING, DIMENSION, seed)


def train(
    work: Path,
    steps: int,
    seed: int,
    pictures: int,
    start: Path | None = None,
    views: Callable[[Path, int, int, int], torch.utils.data.Dataset] = Steps,
) -> None:
    """Train from the last checkpoint on; ``work`` holds all.

    Args:
        work: Folder of the training.
        steps: How many in all.
        seed: Of the first weights and of all draws.
        pictures: How many people are made of.
        start: Folder of the detector whose weights are the first ones; ``None`` draws them.
        views: Called with the file of pictures, the first step, steps and seed; `Steps` or what is like it.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    work.mkdir(parents=True, exist_ok=True)
    if not (work / PICTURES).is_file():
        with atomic_path(work / PICTURES) as temporary, temporary.open("wb") as file:
            np.save(file, procedural_images(pictures, seed=seed))
    network = new_detector(seed).to(memory_format=torch.channels_last).train()
    live = network.tensors()
    settings = recipe(steps, seed, pictures)
    if start is not None:
        earlier = load_detector(start)
        assert isinstance(earlier, Detector)
        for name, tensor in earlier.network.tensors().items():
            live[name].data.copy_(tensor)
        settings |= {"start": weights_fingerprint(live)}
    average = {name: t.detach().clone() for name, t in live.items()}
    optimizer = torch.optim.AdamW(network.trained(), lr=RATE, weight_decay=DECAY, betas=(0.9, 0.98))
    done, spent = 0, 0.0
    if (work / CHECKPOINT).is_file():
        state = torch.load(work / CHECKPOINT, weights_only=True)
        if state["settings"] != settings:
            raise SystemExit(f"{work} holds another training: name another folder")
        done, spent = state["step"], state["seconds"]
        for name, tensor in live.items():
            tensor.data.copy_(state["network"][name])
            average[name].copy_(state["average"][name])
        optimizer.load_state_dict(state["optimizer"])
    write_log(work / LOG, [line for line in read_log(work / LOG) if line["step"] <= done and "weights" not in line])
    begun, hits = time.monotonic(), []
    loader = torch.utils.data.DataLoader(views(work / PICTURES, done, steps, seed), batch_size=None, num_workers=1)
    for step, drawn in enumerate(loader, start=done):
        rate = RATE * min(1, (step + 1) / WARM) * (0.01 + 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, hit = contrast(network(drawn.contiguous(memory_format=torch.channels_last)))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(network.trained()), 1.0)
        optimizer.step()
        hits.append(hit)
        keep = min(AVERAGE, (step + 1) / (step + 10))
        for name, tensor in live.items():
            average[name].lerp_(tensor.detach(), 1 - keep)
        seconds = spent + time.monotonic() - begun
        if (step + 1) % LOGGED == 0:
            line = {"step": step + 1, "loss": round(loss.item(), 4), "first": round(float(np.mean(hits[-LOGGED:])), 4)}
            write_log(work / LOG, [*read_log(work / LOG), line | {"rate": rate, "seconds": round(seconds)}])
        if (step + 1) % EVERY == 0 or step + 1 == steps:
            tensors = {name: t.detach() for name, t in live.items()}
            state = {"settings": settings, "step": step + 1, "seconds": seconds, "network": tensors}
            with atomic_path(work / CHECKPOINT) as temporary:
                torch.save(state | {"average": average, "optimizer": optimizer.state_dict()}, temporary)
    write_log(work / LOG, [*read_log(work / LOG), {"step": steps, "weights": weights_fingerprint(average)}])


def read_log(file: Path) -> list[dict[str, Any]]:
    """Read the lines of a log; none where there is no file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def write_log(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the lines of a log, whole or not at all."""
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))


def weights_fingerprint(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of tensors: of each, in the order of their names, the name, the shape and the bytes."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {list(tensors[name].shape)}".encode())
        found.update(tensors[name].detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def contrast(embeddings: torch.Tensor) -> tuple[torch.Tensor, float]:
    """InfoNCE of n views and their n copies [2 n, d], and the share of copies whose nearest view is their own."""
    views, copies = F.normalize(embeddings, dim=1).chunk(2)
    alike = views @ copies.T / TEMPERATURE
    own = torch.arange(len(alike))
    loss = (F.cross_entropy(alike, own) + F.cross_entropy(alike.T, own)) / 2
    return loss, float((alike.argmax(0) == own).float().mean())


def recipe(steps: int, seed: int, pictures: int) -> dict[str, Any]:
    """Every setting of a training."""
    return {
        "steps": steps,
        "seed": seed,
        "pictures": pictures,
        "families": FAMILIES,
        "members": MEMBERS,
        "backgrounds": BACKGROUNDS,
        "sides": list(SIDES),
        "last_share": LAST_SHARE,
        "temperature": TEMPERATURE,
        "rate": RATE,
        "decay": DECAY,
        "average": AVERAGE,
    }


def write_detector(
    tensors: Mapping[str, torch.Tensor], recipe: Mapping[str, Any], figures: str, folder: Path
) -> Detector:
    """Write the folder, and read it again.

    Args:
        tensors: Of the network, by name.
        recipe: Settings of the training, for ``detector.json``.
        figures: What was measured, in Markdown.
        folder: Where it shall stand.
    """
    import pandas as pd

    network = new_detector(0)
    copy_tensors(network.tensors(), tensors, folder)
    config = DetectorConfig(
        kind=COPY_DETECTOR,
        backbone=BACKBONE,
        weights="random",
        weights_fingerprint="",
        preprocessing=PREPROCESSING,
        stored=(SIZE, SIZE, 3),
        depth=8,
        dimension=network.projection.out_features,
        measure="whitened",
        loss="infonce",
        protocol="corrected",
        recipe=recipe,
        departures=(),
        best_epoch=1,
        data_hash="",
        groups_given=True,
        versions=versions(),
        published=PUBLISHED,
    )
    nobody = pd.DataFrame({name: pd.Series(dtype=str) for name in COLUMNS})
    Detector(network.eval(), config, nobody).save(folder)
    write_text(folder / CARD, card(config, sum(t.numel() for t in network.trained()), figures))
    folder.chmod(0o755)  # private by default, as what is trained on people must be
    for file in folder.iterdir():
        file.chmod(CARD_MODE)
    found = load_detector(folder)
    assert isinstance(found, Detector)
    return found


def card(config: DetectorConfig, parameters: int, figures: str) -> str:
    """The model card.

    Args:
        config: Of the detector.
        parameters: Of its network.
        figures: What was measured, in Markdown.
    """
    published = config.published
    return f"""# The copy detector `{DEFAULT_DETECTOR}` of memorisk

{published_sentence(f"`{DEFAULT_DETECTOR}`", published)}

| | |
|---|---|
| version | {published["version"]} |
| licence | {published["licence"]}, as memorisk |
| trained on | {published["data"]} |
| network | `{config.backbone}`, {parameters:,} parameters; {SIZE} x {SIZE} pixels to {config.dimension} numbers |
| compared by | {config.measure} |
| written by | `recipes/default_detector.py` |

## What it is for

It gives an image and an altered copy of it nearly the same numbers, a mirrored or quarter-turned copy the same to
rounding, and other images different ones. It is the detector of
`memorisk audit synthetic`, `filter`, `watch`, `synthesize` and `bench copies` where no other is named.

    memorisk.load_detector("default").nearest(queries, references)

It is made for copies. Whether two images show one patient it tells less surely; LCMem is made for that.
A detector that is trained on images of your kind (`memorisk train detector --backbone default`) may find more.

## What was measured

{figures.strip()}

## Whom it has seen

Nobody: `seen.parquet` has no row. All images of an audit are new to it.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    training = verbs.add_parser("train")
    training.add_argument("work", type=Path)
    training.add_argument("--steps", type=int, default=STEPS)
    training.add_argument("--seed", type=int, default=0)
    training.add_argument("--pictures", type=int, default=8000)
    training.add_argument("--start", type=Path, help="folder of the detector whose weights are the first ones")
    writing = verbs.add_parser("write")
    writing.add_argument("work", type=Path)
    writing.add_argument("--card", type=Path)
    writing.add_argument("--out", type=Path, default=DEFAULT_DETECTOR_FOLDER)
    given = parser.parse_args()
    if given.verb == "train":
        train(given.work, given.steps, given.seed, given.pictures, given.start)
    else:
        last = torch.load(given.work / CHECKPOINT, weights_only=True)
        said = "Nothing yet." if given.card is None else given.card.read_text(encoding="utf-8")
        made = write_detector(last["average"], last["settings"] | {"step": last["step"]}, said, given.out)
        print(f"{given.out}: {made.config.backbone}, {made.config.published['version']}, step {last['step']}")
