"""The folder of the detector `default`, which comes with memorisk: written from trained weights, never by hand.

    python recipes/default_detector.py WEIGHTS [--recipe RECIPE.json] [--card FIGURES.md] [--out FOLDER]

WEIGHTS are tensors by the names of `memorisk.models.copy_detectors.DetectorNetwork` over `copy_resnet`. RECIPE holds
the settings of their training, FIGURES what was measured, for the model card. FOLDER is by default that of the package,
which the wheel brings.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.copy_detectors import Detector, load_detector, new_network, published_sentence
from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER
from memorisk.models.encoders.networks import Trunk
from memorisk.models.provenance import COLUMNS, DetectorConfig, copy_tensors
from memorisk.models.settings import COPY_DETECTOR, DEFAULT_DETECTOR
from memorisk.models.weight_files import read_state_dict
from memorisk.runs.environment import versions
from memorisk.runs.files import read_json, write_text

BACKBONE, SIZE = "copy_resnet", 64
PUBLISHED = {
    "version": "0 (not yet trained)",
    "licence": "Apache-2.0",
    "data": "images that a program drew: no image of any person was in its training",
}
CARD, CARD_MODE = "MODEL_CARD.md", 0o644


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

    preprocessing = Preprocessing((SIZE, SIZE), 3, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    bare = create_model(BACKBONE, num_classes=2, image_size=SIZE, weights="none", seed=0)
    network = new_network(Trunk(bare), preprocessing, len(tensors["projection.weight"]), 0)
    copy_tensors(network.tensors(), tensors, folder)
    config = DetectorConfig(
        kind=COPY_DETECTOR,
        backbone=BACKBONE,
        weights="random",
        weights_fingerprint="",
        preprocessing=preprocessing,
        stored=(SIZE, SIZE, 3),
        depth=8,
        dimension=network.projection.out_features,
        measure="cosine",
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

It gives an image and an altered copy of it nearly the same numbers, and other images different ones: the detector of
`memorisk audit synthetic`, `filter`, `watch`, `synthesize` and `bench copies` where no other is named.

    memorisk.load_detector("default").nearest(queries, references)

It knows copies, not people: it does not tell whether two images show one patient, and is not made to.
A detector that is trained on images of your kind (`memorisk train detector --backbone default`) may find more.

## What was measured

{figures.strip()}

## Whom it has seen

Nobody: `seen.parquet` has no row. All images of an audit are new to it.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--recipe", type=Path)
    parser.add_argument("--card", type=Path)
    parser.add_argument("--out", type=Path, default=DEFAULT_DETECTOR_FOLDER)
    given = parser.parse_args()
    settings = {} if given.recipe is None else read_json(given.recipe)
    said = "Nothing yet." if given.card is None else given.card.read_text(encoding="utf-8")
    made = write_detector(read_state_dict(given.weights), settings, said, given.out)
    print(f"{given.out}: {made.config.backbone}, {made.config.published['version']}")
