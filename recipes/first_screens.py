"""How many words does a reader meet before the first scroll of a report, and is there something to see?

    python recipes/first_screens.py [--runs runs/first-screens] [--out docs/results/first_screens.md] [--pictures DIR]

One run of each kind on the built-in digits, as class folders with four images per patient, and sets of them with hidden
copies. Each report is opened in a headless Chromium at the size of a desk screen and of a phone, in both colour
schemes, and measured: the words in sight before the first scroll, the place of the first picture, and whether the page
or a table is wider than its place. Runs that are there are kept; `--pictures` keeps screenshots. A few minutes on two
cores; needs Chromium.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "recipes")]
from tests.report.chromium import Chromium, find_chromium  # noqa: E402

from stand_ins import STUDY  # noqa: E402

SCREENS = {"desk": (1280, 900), "phone": (390, 844)}
N_TRAIN, N_HELD, N_NEW, N_COPIES = 400, 300, 200, 12
PER_PATIENT = 4
LIMIT, OFFICER_LIMIT = 110, 200
"""Largest number of words before the first scroll, of a report and of the officer's page."""

LONG_CLASSES = (
    "bullous pemphigoid, mucous membrane type",
    "epidermolysis bullosa acquisita, classic",
    "pigmented_benign_keratosis_of_the_scalp_",
    "squamous cell carcinoma in situ (Bowen's)",
)
EXPORT = (
    "import torch; from torch import nn; torch.manual_seed(0); net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 8), "
    "nn.ReLU(), nn.Linear(8, 3)); torch.onnx.export(net.eval(), (torch.zeros(2, 1, 32, 32),), 'net.onnx', dynamo=True, "
    "dynamic_shapes=({0: torch.export.Dim('n', min=1, max=4096)},), verbose=False)"
)
GENERATORS = """
settings: {detectors: ["pixels:8"], quality: none, images: 60, sampling_steps: 5, closest: 2}
generator: {kind: dit, network: tiny/4, conditioned_on: none, batch_size: 16, lr: 2e-3}
datasets:
  digits: {images: TRAIN, group_from: '^(\\d+)_', held_out: 0.3}
arms:
  few images: {training_images: 20, generator: {steps: 150}, snapshots: [50, 150]}
  many images: {training_images: 200, generator: {steps: 150}, snapshots: [50, 150]}
"""
PEOPLE = "--group-from ^(\\d+)_"
AUDIT = f"audit classifier DATA {PEOPLE} --models 16 --fail-on never"
SETS = f"{PEOPLE} --detector pixels"
COMMANDS: dict[str, tuple[str, str]] = {
    "classifier": (f"{AUDIT} --out classifier", "classifier/report.html"),
    "defended": (f"{AUDIT} --epochs 4 --out defended", ""),
    "passed": (f"audit classifier DATA {PEOPLE} --models 24 --epochs 2 --out passed", "passed/report.html"),
    "redacted": ("report passed --redact", "passed/report-redacted.html"),
    "long names": ("audit classifier LONG/images.csv --models 16 --fail-on never --out long", "long/report.html"),
    "synthetic": (f"audit synthetic TRAIN SET --held-out HELD {SETS} --out synthetic", "synthetic/report.html"),
    "filter": (f"filter TRAIN SET filter --calibration HELD {SETS}", "filter/report.html"),
    "twins": (
        f"audit generator TRAIN {PEOPLE} --models 4 --steps 300 --fail-on never --out twins",
        "twins/report.html",
    ),
    "generator": (f"train generator TRAIN {PEOPLE} --steps 20 --snapshot-every 10 --out generator", ""),
    "synthesize": (
        f"synthesize TRAIN synthesize --generator generator --calibration HELD {SETS} --images 20 --sampling-steps 5",
        "synthesize/report.html",
    ),
    "quality": (f"quality TRAIN SET --held-out HELD {PEOPLE} --features pixels:8 --out quality", "quality/report.html"),
    "watch": (f"watch STEPS --train TRAIN --held-out HELD {PEOPLE} --detector pixels --out watch", "watch/report.html"),
    "feature": (
        "audit feature net.onnx --mark text:AB --probes HELD --size 32 --normalise none --n-controls 30 --out feature",
        "feature/report.html",
    ),
    "explain": ("explain classifier", "classifier/explain/explain.html"),
    "compare": ("compare classifier defended --out compare", "compare/report.html"),
    "check": (f"images check DATA {PEOPLE} --out check", "check/report.html"),
    "study": ("study rare-distinctive --config study.yaml --out study", "study/report.html"),
    "detectors": (
        f"bench detectors DATA {PEOPLE} --backbones default pixels --losses none --specificity 0.9 --out detectors",
        "detectors/report.html",
    ),
    "copies": (
        f"bench copies DATA {PEOPLE} --detectors default mse ncc pixels:4 --test-images 60 --out copies",
        "copies/report.html",
    ),
    "canaries": (
        f"study unique-features --config {ROOT / 'recipes/unique-features-digits.yaml'} --out canaries",
        "canaries/report.html",
    ),
    "generators": ("study generators --config generators.yaml --out generators", "generators/report.html"),
    "officer": ("statement synthetic --out statement --page officer.html", "officer.html"),
}
"""Command of each run, and its page; empty for a run that another one needs."""


def inputs(folder: Path) -> None:
    """Write the digits as class folders, as sets, and as the steps of a training."""
    digits = load_digits()
    pixels, labels = (digits.images * 15.9).astype(np.uint8), digits.target
    rng = np.random.default_rng(0)
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    seen: dict[int, int] = {}
    for image, label in zip(pixels[:900], labels[:900] % 4, strict=True):
        n = seen[label] = seen.get(int(label), 0) + 1
        save(image, folder / "DATA" / f"digit {label}" / f"{100 * label + n // PER_PATIENT:04}_{n % PER_PATIENT}.png")
    ends = np.cumsum([N_TRAIN, N_HELD, N_NEW])
    parts = dict(zip(("TRAIN", "HELD", "SET"), np.split(pixels, ends)[:3], strict=True))
    copies = np.minimum(parts["TRAIN"][: 2 * N_COPIES : 2], 252) + rng.integers(0, 3, (N_COPIES, 8, 8), dtype=np.uint8)
    parts["SET"] = np.concatenate([parts["SET"], copies])
    for start, (name, images) in zip((1000, 3000, 5000), parts.items(), strict=True):
        for k, image in enumerate(images):
            save(image, folder / name / f"{start + k:04}_0.png")
    for step, n in ((100, 0), (200, 4), (300, N_COPIES)):
        drawn = np.concatenate([parts["SET"][: 60 - n], copies[:n]])
        for k, image in enumerate(drawn):
            save(image, folder / "STEPS" / f"step-{step}" / f"{k:03}.png")
    write_long_names(folder / "LONG", pixels[:900], labels[:900] % len(LONG_CLASSES))
    (folder / "study.yaml").write_text(STUDY)
    (folder / "generators.yaml").write_text(GENERATORS)
    subprocess.run([sys.executable, "-c", EXPORT], cwd=folder, check=True, capture_output=True)


def write_long_names(folder: Path, pixels: np.ndarray, labels: np.ndarray) -> None:
    """Write images of classes with names of 40 characters, and of patients with unique ids as DICOM has them."""
    lines, seen = ["path,label,patient"], [0] * len(LONG_CLASSES)
    for image, label in zip(pixels, labels.tolist(), strict=True):
        n = seen[label] = seen[label] + 1
        patient = f"1.2.840.113619.2.55.3.2831164355.{label}.{1000 + n // PER_PATIENT}.{n // PER_PATIENT:06}"
        save(image, folder / f"{patient}_{n % PER_PATIENT}.png")
        lines.append(f'{patient}_{n % PER_PATIENT}.png,"{LONG_CLASSES[label]}",{patient}')
    (folder / "images.csv").write_text("\n".join(lines) + "\n")


def save(image: np.ndarray, file: Path) -> None:
    """Write an image as a PNG."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(file)


def make_runs(folder: Path, names: Sequence[str]) -> None:
    """Run the commands whose runs are not there yet."""
    if not (folder / "study.yaml").exists():
        inputs(folder)
    environment = os.environ | {"MEMORISK_CACHE": str((folder / "cache").resolve())}
    for name in names:
        command, page = COMMANDS[name]
        target = folder / (page or name)
        if target.exists():
            continue
        run = [sys.executable, "-m", "memorisk", *command.split(" ")]
        done = subprocess.run(run, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not target.exists():
            raise SystemExit(f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def measured(folder: Path, names: Sequence[str], pictures: Path | None) -> list[str]:
    """Open each page on each screen; return the lines of the table."""
    heads = [f"{what}, {screen}" for screen in SCREENS for what in ("words", "first picture at", "cut")]
    lines = [f"| page | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    with Chromium(str(find_chromium())) as browser:
        for name in names:
            if not COMMANDS[name][1]:
                continue
            cells = []
            for screen, (width, height) in SCREENS.items():
                for dark in (True, False):
                    browser.open(folder / COMMANDS[name][1], width=width, height=height, dark=dark)
                    if pictures is not None:
                        pictures.mkdir(parents=True, exist_ok=True)
                        scheme = "dark" if dark else "light"
                        browser.screenshot(pictures / f"{name}-{screen}-{scheme}.png", whole=False)
                sight = browser.in_sight()
                cut = "page" if sight["wider"] else str(sight["cut"])
                first = f"{sight['first']} px" if sight["first"] < height else f"**{sight['first']} px**"
                cells += [f"{sight['words']}", first, cut]
            lines.append(f"| {name} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


PAGE = """# What is in sight before the first scroll?

Output of `recipes/first_screens.py`: reports of the built-in digits in a headless Chromium, at {sizes} pixels. Words:
all that contain a letter, in text and in drawings. First picture: its upper edge, bold where it lies below
the first screen. Cut: tables of the whole page that are wider than their place, or "page" where the page itself is. The
limit is {limit} words, {officer} for the officer's page. On a desk screen the answer fills the first screen, so that
contents and sections lie below it. The words of long names count, of which the middle is cut out. A pass shows the
patients that the models remember most; where it is redacted, its figures are larger.

{table}
"""


def main() -> None:
    """Make the runs, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/first-screens"))
    parser.add_argument("--names", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    make_runs(options.runs, options.names)
    lines = measured(options.runs, options.names, options.pictures)
    if options.out:
        sizes = " and ".join(f"{width} x {height}" for width, height in SCREENS.values())
        text = PAGE.format(sizes=sizes, limit=LIMIT, officer=OFFICER_LIMIT, table="\n".join(lines))
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
