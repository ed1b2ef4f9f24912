"""Does the plan of a classifier's audit state the noticeable gap that the report then states?

    python recipes/plan_gap.py DATA RUNS [--models 16] [--epochs 10] [--sets NAME ...] [--out docs/results/plan_gap.md]

DATA holds ``pneumoniamnist_imbalanced``, ``nih_cxr14_64``, ``eye_oct``, ``busi_ultrasound``, ``ham10000_224``,
``fashion_mnist_png`` and ``cifar10_jpg``; the digits are built in. Each set is audited at 32 pixels or fewer with the
small CNN, in a folder of RUNS that a later call goes on with; the plan rehearses the same patients and twins.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import memorisk
from memorisk.audits.classifier.finished_run import open_finished
from memorisk.audits.classifier.planning.rehearsal import GAP_RANGE, PILOT, measured_rehearsal, rehearse
from memorisk.report.result import Result

ALONE: dict[str, Any] = {"one_image_per_patient": True}
GREY: dict[str, Any] = {"size": 32, "channels": 1}
HAM: dict[str, Any] = {"image_column": "image_id", "label_column": "dx", "group_column": "lesion_id", "size": 32}
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("", ALONE),
    "pneumonia": ("pneumoniamnist_imbalanced/data/pneumoniamnist.npz", {"sample": 1000, **ALONE}),
    "chest X-rays": ("nih_cxr14_64/NIH1000", {"group_from": r"^(\d+)_", **GREY}),
    "eye OCT": ("eye_oct", GREY),
    "breast ultrasound": ("busi_ultrasound/Dataset_BUSI_with_GT", {**GREY, **ALONE}),
    "skin lesions": ("ham10000_224/HAM10000_metadata.csv", {**HAM, "skip_missing": True, "sample": 1500}),
    "fashion": ("fashion_mnist_png/train", {"sample": 1000, **ALONE}),
    "objects": ("cifar10_jpg/train", {"sample": 1000, **ALONE}),
}
PAGE = """# Does the plan state the gap that the report states?

Output of `recipes/plan_gap.py --models {models} --epochs {epochs}`: the noticeable gap in nats of the plan, before any
training and by the noise of the first {pilot} models, and that of the report of the same audit, on eight sets (small
CNN, at most 32 pixels). Before any training nobody knows how much trainings will differ: the plan assumes one noise for
all sets, and states a range. The median difference of twins' losses for an image was 0.015 to 0.25 nats on these sets,
for rare classes two to fourteen times that of frequent ones of the same set, so that no assumption could agree on all
of them. A run states the gap anew after its first {pilot} models (`classifier/planning/rehearsal.py`). The last column
takes other models for the first {pilot}: seeds 3 and 4, and 5 and 6.

{table}

Gaps are read off a grid with steps of 19 %, so that 0.71, 0.84, 1, 1.2 and 1.4 are neighbours; inf: none up to 16 nats.
"""
HEADINGS = ("set", "plan", "range", "by the first models", "report", "plan / report", "by the first models / report",
            "by other models / report")  # fmt: skip


def eyes(data: Path, runs: Path) -> Path:
    """Write the table of the eye scans whose label is known, with the patients."""
    with (data / "eye_oct" / "OCT.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["DME"] in ("0", "1")]
    table = runs / "eyes.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("image", "label", "group"))
        for row in rows:
            image = (data / "eye_oct" / f"{row['Name']}.jpg").resolve()
            if image.is_file():
                writer.writerow((image, row["DME"], row["Name"].split("_")[0]))
    return table


def compared(name: str, data: Path, runs: Path, models: int, epochs: int) -> str:
    """Audit a set, rehearse its plan, and return the row of the table."""
    source, settings = SETS[name]
    images: str | Path = data / source if source else "digits"
    if source == "eye_oct":
        images = eyes(data, runs)
    if source.startswith("ham"):
        settings = {**settings, "image_root": str(data / "ham10000_224" / "images")}
    settings = {"model": "small_cnn", "models": models, "epochs": epochs, "processes": 1, **settings}
    folder = runs / name.replace(" ", "-")
    result = memorisk.audit_classifier(str(images), out=folder, progress=memorisk.no_progress, **settings)
    assert isinstance(result, Result)
    finished = open_finished(folder)
    planned = rehearse(finished.plan, finished.options).gap
    reported = float(result.per_class["noticeable_gap"].max())
    first, *others = (
        measured_rehearsal(finished.plan, finished.options, finished.evidence.of_seeds(np.arange(PILOT) + begin)).gap
        for begin in (0, 2, 4)
    )
    low, high = (planned * share for share in GAP_RANGE)
    cells = [
        name,
        f"{planned:.2g}",
        f"{low:.2g} to {high:.2g}",
        f"{first:.2g}",
        f"{reported:.2g}",
        f"{planned / reported:.2f}",
        f"{first / reported:.2f}",
        ", ".join(f"{gap / reported:.2f}" for gap in others),
    ]
    return f"| {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    options.runs.mkdir(parents=True, exist_ok=True)
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    for name in options.sets:
        lines.append(compared(name, options.data, options.runs, options.models, options.epochs))
        print(lines[-1], flush=True)
    if options.out:
        text = PAGE.format(models=options.models, epochs=options.epochs, pilot=2 * PILOT, table="\n".join(lines))
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
