"""Table 4 of paper 004: what LCMem's backbone, loss, augmentation and latents are each worth for re-identification.

    python recipes/lcmem_ablation.py IMAGES --encoder autoencoder:FOLDER [--group-from RULE] [--runs RUNS]

IMAGES come with a split of patients (``splits`` given, as `recipes/lcmem_training.py` makes one). Each row is a
training of `memorisk train detector`; all are then asked the same pairs by `memorisk bench reid`. Not run at the
paper's size, whose data sets and autoencoder were not at hand. A run that is there already is read, not repeated.

The paper's alpha is the share of the binary cross-entropy; SWN, normalisation by the sample, has the probability of its
appendix (0.01). Its single-stage augmentation is some of what stage 2 does, one image of a pair always and the other in
half of the pairs, as there. "Latent: no" is the same network over pixels.
"""

import argparse
from pathlib import Path
from typing import Any

from memorisk.audits.reid.reid import benchmark_reid
from memorisk.training.detector import train_detector

RESNET, CONVNEXT = {"backbone": "resnet101@none"}, {"backbone": "convnext_tiny@none"}
SWN = 0.01
ROWS: dict[str, dict[str, Any]] = {
    "ResNet-101, pixels": {**RESNET, "bce_share": 1.0, "encoder": "pixels"},
    "ResNet-101": {**RESNET, "bce_share": 1.0},
    "ConvNeXt-Tiny": {**CONVNEXT, "bce_share": 1.0},
    "Rotate, flip, blur, noise, SWN": {
        **CONVNEXT, "bce_share": 1.0, "stage1_augment": "rotate,flip,blur,noise", "sample_normalisation": SWN,
    },
    "Blur, noise, SWN": {
        **CONVNEXT, "bce_share": 1.0, "stage1_augment": "blur,noise", "sample_normalisation": SWN,
    },
    "Noise": {**CONVNEXT, "bce_share": 1.0, "stage1_augment": "noise"},
    "alpha 0.8": {**CONVNEXT, "bce_share": 0.8},
    "alpha 0.5": {**CONVNEXT, "bce_share": 0.5},
    "alpha 0.8, SWN": {**CONVNEXT, "bce_share": 0.8, "sample_normalisation": SWN},
    "alpha 0.8, SWN, then all": {**CONVNEXT, "bce_share": 0.8, "sample_normalisation": SWN, "stages": 2},
}  # fmt: skip
"""In the order of the paper; settings of `memorisk.training.lcmem_options.LatentOptions`."""


def settings_of(name: str, **given: Any) -> dict[str, Any]:
    """A row's settings.

    Args:
        name: Of `ROWS`.
        **given: Of all rows: the encoder of the latents, epochs, batch.
    """
    return {"kind": "lcmem", "stages": 1, "sample_normalisation": 0.0, **given, **ROWS[name]}


def ablation(images: Path, runs: Path, reading: dict[str, Any], **given: Any) -> None:
    """Train every row and compare them.

    Args:
        images: Where they are.
        runs: Of the runs.
        reading: How images are read.
        **given: As for `settings_of`.
    """
    folders = []
    for place, name in enumerate(ROWS):
        out = runs / f"row-{place:02d}"
        train_detector(images, out=out, splits="given", **reading, **settings_of(name, **given))
        folders.append(f"{out / 'detector'}={name}")
    benchmark_reid(images, out=runs / "reid", splits="given", **reading, detectors=folders, reference=list(ROWS)[-2])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--encoder", default="pixels")
    parser.add_argument("--group-from")
    parser.add_argument("--runs", type=Path, default=Path("runs/lcmem-ablation"))
    asked = parser.parse_args()
    ablation(asked.images, asked.runs, {"group_from": asked.group_from}, encoder=asked.encoder)
