"""Table 4 of paper 004: what LCMem's backbone, loss, augmentation and latents are each worth for re-identification.

    python recipes/lcmem_ablation.py IMAGES --encoder autoencoder:FOLDER [--group-from RULE] [--runs RUNS]
    python recipes/lcmem_ablation.py DATA --small [--runs RUNS] [--out docs/results/lcmem_ablation.md]

IMAGES come with a split of patients (``splits`` given, as `recipes/lcmem_training.py` makes one). Each row is a
training of `memorisk train detector`; all are then asked the same pairs by `memorisk bench reid`. Not run at the
paper's size, whose data sets and autoencoder were not at hand. A run that is there already is read, not repeated.

`--small` is the same table at a size for two cores: the chest X-rays of DATA/nih_cxr14_64, small networks for the
paper's, each row trained three times, each third of the patients the test part once, and an autoencoder for each third
that never saw it.

The paper's alpha is the share of the binary cross-entropy; SWN, normalisation by the sample, has the probability of its
appendix (0.01). Its single-stage augmentation is some of what stage 2 does, one image of a pair always and the other in
half of the pairs, as there. "Latent: no" is the same network over pixels.
"""

import argparse
from pathlib import Path
from typing import Any

from lcmem_training import averaged, divided, shown, tables
from memorisk.images.options import ImageOptions
from memorisk.runs.files import write_text
from memorisk.studies.pairs.reid import benchmark_reid
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.training.autoencoders.command import train_autoencoder
from memorisk.training.detectors.command import train_detector

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
"""In the order of the paper; settings of `memorisk.training.detectors.options.LatentOptions`."""
REFERENCE = "alpha 0.8, SWN"
"""What the other rows are compared with."""


def settings_of(name: str, **given: Any) -> dict[str, Any]:
    """A row's settings.

    Args:
        name: Of `ROWS`.
        **given: Of all rows: the encoder of the latents, epochs, batch.
    """
    return {"kind": "lcmem", "stages": 1, "sample_normalisation": 0.0, **given, **ROWS[name]}


def ablation(images: Path, runs: Path, reading: dict[str, Any], **given: Any) -> PairBenchmark:
    """Train every row and compare them.

    Args:
        images: Where they are.
        runs: Of the runs.
        reading: How images are read.
        **given: As for `settings_of`; ``networks`` has what stands for the paper's backbones.
    """
    networks, folders = given.pop("networks", {}), []
    for place, name in enumerate(ROWS):
        out = runs / f"row-{place:02d}"
        own = settings_of(name, **given)
        own["backbone"] = networks.get(own["backbone"], own["backbone"])
        train_detector(images, out=out, splits="given", **reading, **own)
        folders.append(f"{out / 'detector'}={name}")
        print(name, flush=True)
    return benchmark_reid(images, out=runs / "reid", splits="given", **reading, detectors=folders, reference=REFERENCE)


FOLDS, SIZE = 3, 64
SMALL: dict[str, Any] = {
    "networks": {"resnet101@none": "small_resnet@none", "convnext_tiny@none": "small_cnn@none"},
    "epochs": 60, "patience": 30, "batch_size": 64, "lr": 1e-3,
    "stage2_epochs": 40, "stage2_patience": 15, "stage2_batch_size": 64, "stage2_lr": 1e-3,
}  # fmt: skip


def small(data: Path, runs: Path) -> str:
    """Run the table on chest X-rays with small networks.

    Args:
        data: Folder with ``nih_cxr14_64``.
        runs: Of the runs.

    Returns:
        The page.
    """
    root, found = data / "nih_cxr14_64" / "NIH1000", []
    options = ImageOptions(group_from=r"(\d{8})_")
    for fold in range(FOLDS):
        table = divided(root, options, FOLDS, fold, runs / f"nih{fold}.csv")
        reading = {"size": SIZE, "channels": 1, "image_root": root}
        train_autoencoder(table, out=runs / f"autoencoder{fold}", splits="given", epochs=30, **reading)
        encoder = f"autoencoder:{runs / f'autoencoder{fold}' / 'autoencoder'}"
        found.append(ablation(table, runs / f"fold{fold}", reading, encoder=encoder, **SMALL))
    main, apart = ([tables(fold, name) for fold in found] for name in ("table_2", "differences"))
    lines = ["| row of table 4 | AUC | better than the reference by |", "|---|---|---|"]
    for name in ROWS:
        cells = [shown(averaged(main, "auc", detector=name))]
        cells.append("the reference" if name == REFERENCE else shown(averaged(apart, "difference", first=name)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    how = ", ".join(f"{key} {value}" for key, value in SMALL.items() if key != "networks")
    instead = ", ".join(f"{own} for {paper}" for paper, own in SMALL["networks"].items())
    return "\n".join(
        [
            "# Table 4 of LCMem, small", "",
            f"By `recipes/lcmem_ablation.py DATA --small`: re-identification of NIH chest X-rays at {SIZE} pixels, "
            f"{FOLDS} trainings of each row, each tested on a third of the patients whom neither it nor its "
            f"autoencoder saw. Networks: {instead}, from random weights; {how}. alpha is the share of the binary "
            "cross-entropy. Mean over the trainings, 95 % intervals over patients, paired for differences.", "",
            *lines, "",
        ]
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, metavar="IMAGES")
    parser.add_argument("--encoder", default="pixels")
    parser.add_argument("--group-from")
    parser.add_argument("--runs", type=Path, default=Path("runs/lcmem-ablation"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results/lcmem_ablation.md"))
    asked = parser.parse_args()
    if asked.small:
        write_text(asked.out, small(asked.images, asked.runs))
    else:
        ablation(asked.images, asked.runs, {"group_from": asked.group_from}, encoder=asked.encoder)
