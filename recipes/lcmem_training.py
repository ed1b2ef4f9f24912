"""LCMem trained on small sets: what it is good for on patients and lesions who had no part in it.

    python recipes/lcmem_training.py DATA [--runs runs/lcmem-training] [--out docs/results/lcmem_training.md]

DATA holds ``nih_cxr14_64`` (1,000 chest X-rays at 64 pixels, patients by file name), ``ham10000_224`` (2,861
dermatoscopic images, each of its own lesion) and ``weights_squeezenet_imagenet``. The patients of NIH are divided in
three parts: each is the test part of one training, the others train and choose the epoch. Of HAM10000 a third is the
test part; nobody has two images there, so that LCMem learns by augmentation alone, in either stage. So the detectors
of chest X-rays are asked about copies of skin, too. Re-identification and copies are measured as `memorisk bench reid`
and `bench copies` do; the three parts of NIH are averaged, each with its interval over patients. A run that is there
already is read, not repeated.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.files import write_text
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.pairs.auc import macro_average
from memorisk.studies.pairs.copies import benchmark_copies
from memorisk.studies.pairs.reid import benchmark_reid
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.training.detectors.command import train_detector

FOLDS = 3
VALIDATION = 0.2
"""Of the patients who are not in the test part."""
TRAINING: dict[str, Any] = {
    "kind": "lcmem", "encoder": "pixels", "backbone": "small_cnn@none", "sample_normalisation": 1.0,
    "stage1_augment": "mild", "epochs": 60, "patience": 30, "batch_size": 64, "lr": 1e-3,
    "stage2_epochs": 40, "stage2_patience": 15, "stage2_batch_size": 64, "stage2_lr": 1e-3,
}  # fmt: skip
STAGE1, LCMEM, SQUEEZENET = "stage 1", "LCMem", "SqueezeNet"
BELOW = ("MSE", "NCC", "SSIM", "Random")
"""What the trained detectors are to beat."""


def divided(images: Path, options: ImageOptions, folds: int, fold: int, file: Path) -> Path:
    """A table of a set of images with the split of one fold, patients with many images dealt out evenly.

    Args:
        images: Where they are.
        options: How they are read.
        folds: How many parts.
        fold: Which one is the test part.
        file: The table.
    """
    manifest = load_manifest(images, options)
    names, index, count = np.unique(manifest.groups.astype(str), return_inverse=True, return_counts=True)
    rng = np.random.default_rng(0)
    part = np.empty(len(names), dtype=int)
    part[np.lexsort((rng.random(len(names)), -count))] = np.arange(len(names)) % folds
    split = np.where(part == fold, "test", "train").astype(object)
    others = rng.permutation(np.flatnonzero(part != fold))
    split[others[: round(VALIDATION * len(others))]] = "val"
    table = manifest.table.loc[:, ["image", "path", "group"]].assign(split=split[index])
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, table.to_csv(index=False))
    return file


def run_fold(
    table: Path, root: Path, out: Path, given: dict[str, Any], weights: Path, elsewhere: tuple[Path, Path] | None
) -> dict[str, Any]:
    """Train both stages on one division, and benchmark them.

    Args:
        table: Of `divided`.
        root: Folder of the images.
        out: Of the runs.
        given: How images are read.
        weights: SqueezeNet's.
        elsewhere: Table and folder of other images that copies are made of, in grey.
    """
    read = {**given, "image_root": root, "splits": "given"}
    trained = train_detector(table, out=out / "training", **read, **TRAINING)
    own = (f"{out / 'training' / 'stage1'}={STAGE1}", f"{out / 'training' / 'detector'}={LCMEM}")
    detectors = (
        *own, "mse", "ncc", "ssim", "squeezenet1_1_caffe@none=Random", f"squeezenet1_1_caffe@{weights}={SQUEEZENET}",
    )  # fmt: skip
    asked = {**read, "detectors": detectors, "network_size": given["size"]}
    found: dict[str, Any] = {"training": trained.summary}
    if trained.summary["groups_given"]:
        found["reid"] = {
            name: benchmark_reid(table, out=out / f"reid-{name.replace(' ', '')}", **asked, reference=name)
            for name in (STAGE1, LCMEM)
        }
    found["copies"] = benchmark_copies(table, out=out / "copies", **asked, reference=STAGE1, test_images=500)
    if elsewhere is not None:
        other = {**read, "image_root": elsewhere[1], "detectors": own, "reference": STAGE1, "test_images": 500}
        found["elsewhere"] = benchmark_copies(elsewhere[0], out=out / "copies-elsewhere", **other)
    return found


def tables(found: PairBenchmark, name: str) -> pd.DataFrame:
    """A table of a benchmark, the corrected form."""
    return next(table.ours for table in found.tables if table.name == name)


def interval(row: Any, name: str) -> JackknifeInterval:
    """The columns of an estimate as an interval again."""
    low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
    n = int(row["n_identities"])
    return JackknifeInterval(float(row[name]), low, high, float("nan"), n, 1, "as tabled")


def averaged(frames: Sequence[pd.DataFrame], name: str, **which: str) -> JackknifeInterval:
    """Mean over the folds of what stands in the row with these values."""
    every = []
    for frame in frames:
        chosen = np.logical_and.reduce([(frame[column] == value).to_numpy() for column, value in which.items()])
        every.append(interval(frame.loc[chosen].iloc[0], name))
    return every[0] if len(every) == 1 else macro_average(every)


def shown(found: JackknifeInterval, scale: float = 1.0, form: str = ".3f") -> str:
    """An estimate with its limits."""
    return f"{scale * found.estimate:{form}} ({scale * found.low:{form}} to {scale * found.high:{form}})"


def reid_lines(folds: Sequence[dict[str, Any]]) -> list[str]:
    """AUC of every detector, and what the trained ones are better by."""
    main = [tables(fold["reid"][LCMEM], "table_2") for fold in folds]
    apart = {name: [tables(fold["reid"][name], "differences") for fold in folds] for name in (STAGE1, LCMEM)}
    lines = ["| detector | AUC | stage 1 is better by | LCMem is better by |", "|---|---|---|---|"]
    for detector in main[0]["detector"].tolist():
        cells = [shown(averaged(main, "auc", detector=detector))]
        for name in (STAGE1, LCMEM):
            less = None if name == detector else averaged(apart[name], "difference", first=detector)
            cells.append("" if less is None else shown(_turned(less)))
        lines.append(f"| {detector} | {' | '.join(cells)} |")
    return lines


def _turned(less: JackknifeInterval) -> JackknifeInterval:
    """The difference the other way round."""
    return JackknifeInterval(-less.estimate, -less.high, -less.low, less.df, less.n_groups, 1, less.method)


def copies_lines(folds: Sequence[dict[str, Any]]) -> list[str]:
    """Recall of the strongest copies at 50 % specificity, and what stage 2 adds to stage 1."""
    frames = [tables(fold["copies"], "figure_4") for fold in folds]
    apart = [tables(fold["copies"], "differences") for fold in folds]
    rule = frames[0]["rule"].iloc[0]
    lines = ["| detector | recall of the strongest copies, % |", "|---|---|"]
    for detector in dict.fromkeys(frames[0]["detector"].tolist()):
        lines.append(f"| {detector} | {shown(averaged(frames, 'recall', detector=detector, rule=rule), 100, '.1f')} |")
    lines += ["", "| copies | stage 2 less stage 1, points |", "|---|---|"]
    own = apart[0].loc[(apart[0]["first"] == LCMEM) & (apart[0]["rule"] == rule), "family"]
    for family in own.tolist():
        gain = averaged(apart, "difference", first=LCMEM, rule=rule, family=family)
        lines.append(f"| {family} | {shown(gain, 100, '+.1f')} |")
    return lines


def elsewhere_lines(folds: Sequence[dict[str, Any]]) -> list[str]:
    """Copies of other images by the detectors of each training: the same images for all, so that each stands alone."""
    lines = ["| training | stage 1, % | LCMem, % | stage 2 less stage 1, points |", "|---|---|---|---|"]
    for number, fold in enumerate(folds, 1):
        recall, apart = ([tables(fold["elsewhere"], name)] for name in ("figure_4", "differences"))
        rule = recall[0]["rule"].iloc[0]
        each = [shown(averaged(recall, "recall", detector=d, rule=rule), 100, ".1f") for d in (STAGE1, LCMEM)]
        family = apart[0]["family"].iloc[0]
        gain = shown(averaged(apart, "difference", first=LCMEM, rule=rule, family=family), 100, "+.1f")
        lines.append(f"| {number} | {' | '.join(each)} | {gain} |")
    return lines


def history_line(fold: dict[str, Any]) -> str:
    """Who was in which part, and which epochs were kept."""
    summary = fold["training"]
    parts = ", ".join(f"{name} {p['images']:,} images of {p['patients']:,}" for name, p in summary["parts"].items())
    best = ", ".join(f"{name} {epoch}" for name, epoch in summary["best_epoch"].items())
    return f"- {parts}; best epochs: {best}"


def page(nih: Sequence[dict[str, Any]], ham: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown."""
    how = ", ".join(f"{name} {value}" for name, value in TRAINING.items() if name != "kind")
    return "\n".join(
        [
            "# LCMem on small sets",
            "",
            f"By `recipes/lcmem_training.py`, on two CPU cores, both from random weights: {how}. Everything else as in "
            "docs/lcmem.md. Intervals (95 %) are over patients, each counting one, and paired for differences.",
            "",
            f"## NIH chest X-rays, 64 pixels, {len(nih)} trainings, each tested on a third of the patients",
            "",
            *(history_line(fold) for fold in nih),
            "",
            "Re-identification: pairs of two images of a patient against as many of two patients. Random is an "
            "untrained SqueezeNet, SqueezeNet has its ImageNet weights; both are compared by the cosine.",
            "",
            *reid_lines(nih),
            "",
            "Copies, thresholds at 50 % specificity on validation patients:",
            "",
            *copies_lines(nih),
            "",
            "## HAM10000, 64 pixels, every image its own lesion",
            "",
            "Strongest copies of 500 skin images in grey, which the detectors of the chest X-rays never met:",
            "",
            *elsewhere_lines(nih),
            "",
            "Trained on HAM10000 itself, in colour. Nobody has two images there, so that stage 1 learns by "
            "augmentation already and leaves nothing for stage 2 to find at this threshold:",
            "",
            *(history_line(fold) for fold in ham),
            "",
            *copies_lines(ham),
            "",
        ]
    )


def main() -> None:
    """Train or read everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/lcmem-training"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/lcmem_training.md"))
    parser.add_argument("--only", help="one run, to have several side by side: nih0, nih1, nih2 or ham0")
    given = parser.parse_args()
    weights = given.data / "weights_squeezenet_imagenet" / "squeezenet11_features_derived_oihw.npz"
    xrays, skin = given.data / "nih_cxr14_64" / "NIH1000", given.data / "ham10000_224" / "images"
    sets = {
        "nih": (xrays, {"size": 64, "channels": 1}, ImageOptions(group_from=r"(\d{8})_"), range(FOLDS)),
        "ham": (skin, {"size": 64}, ImageOptions(), range(1)),
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for name, (root, read, options, folds) in sets.items():
        for fold in folds:
            if given.only and given.only != f"{name}{fold}":
                continue
            table = divided(root, options, FOLDS, fold, given.runs / f"{name}{fold}.csv")
            other = None
            if name == "nih":
                other = divided(skin, ImageOptions(), FOLDS, 0, given.runs / f"elsewhere{fold}.csv"), skin
            made = run_fold(table, root, given.runs / f"{name}{fold}", read, weights, other)
            found.setdefault(name, []).append(made)
    if not given.only:
        write_text(given.out, page(found["nih"], found["ham"]))


if __name__ == "__main__":
    main()
