"""Pictures of reports for the pages of the site: of the built-in digits, nobody's images, by a real Chromium.

Usage: python recipes/site_pictures.py [--runs runs/pictures] [--first-screens runs/first-screens]
                                       [--docs docs/pictures] [--names NAME ...]

Runs the demo and an audit of a synthetic set of digits in which sixty training images are hidden, and one run of each
further kind (`recipes/first_screens.py`, whose runs are kept). Opens their reports and keeps parts of them as small PNG
files. A few minutes on two cores; needs Chromium.
"""

import argparse
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from recipes.first_screens import COMMANDS, make_runs  # noqa: E402
from tests.report.chromium import Chromium, find_chromium  # noqa: E402

WIDTH = 1200
ABOVE = 100
"""Number of lines above the answer of a report, which fills the rest of a first screen."""
MOST_BYTES = 150_000
PARTS = {
    "classifier": {
        "verdict": ("main .lead", 900),
        "classes": ("#classes", 1060),
        "null": ("#null", 580),
        "attacks": ("#attacks", 680),
    },
    "generator": {"verdict": ("main .lead", 900), "dose": ("#dose", 700)},
    "synthetic": {"verdict": ("main .lead", 900), "power": ("#power", 900), "exposed": ("#exposed", 560)},
}
"""What is kept of each report: the first element that a selector finds, and at most so many lines of it."""
FIRST_SCREENS = (
    "filter",
    "synthesize",
    "quality",
    "watch",
    "feature",
    "explain",
    "compare",
    "check",
    "study",
    "detectors",
    "copies",
    "canaries",
    "generators",
    "officer",
)
"""Runs of `recipes/first_screens.py` whose first screens are shown, each as NAME-verdict."""
MOST_LINES = 720
"""Largest number of lines of a first screen, in pixels."""
BOX = "const b = document.querySelector({!r}).getBoundingClientRect(); [b.left, b.top, b.right, b.bottom]"


def sets(folder: Path) -> None:
    """Digits as training, held-out and synthetic images; sixty of these are training images with a little noise."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = (load_digits().images * 15.9).astype(np.uint8)
    rng = np.random.default_rng(0)
    shuffled = pixels[rng.permutation(len(pixels))]
    copies = np.minimum(shuffled[:60], 252) + rng.integers(0, 3, (60, 8, 8), dtype=np.uint8)
    named = {
        "train": shuffled[:500],
        "held-out": shuffled[500:900],
        "synthetic": np.concatenate([shuffled[900:1240], copies]),
    }
    for name, images in named.items():
        np.save(folder / f"{name}.npy", images)


def commands(folder: Path) -> dict[str, list[str]]:
    """The audits whose reports are shown."""
    train, held, synthetic = (str(folder / f"{name}.npy") for name in ("train", "held-out", "synthetic"))
    return {
        "classifier": ["classifier", "digits", "--models", "16", "--fail-on", "never"],
        "generator": ["generator", "digits", "--dose", "4", "16", "64", "--fail-on", "never"],
        "synthetic": [
            "synthetic",
            train,
            synthetic,
            "--held-out",
            held,
            "--one-image-per-patient",
            "--features",
            "pixels:8",
        ],
    }


def kept(picture: Image.Image, box: list[float], path: Path, most: int) -> None:
    """A part of a page as a small file: few colours, at most so many lines of pixels."""
    left, top, right, bottom = (round(v) for v in box)
    part = picture.crop((left - 8, top - 8, right + 8, min(bottom + 8, top + most)))
    file = BytesIO()
    part.convert("RGB").quantize(96).save(file, "PNG", optimize=True)
    if len(file.getvalue()) > MOST_BYTES:
        raise SystemExit(f"{path} would have {len(file.getvalue()):,} bytes")
    path.write_bytes(file.getvalue())
    print(path, part.size, f"{len(file.getvalue()):,} bytes")


def pictures_of(
    browser: Chromium, name: str, page: Path, parts: dict[str, tuple[str, int]], places: tuple[Path, Path]
) -> None:
    """Keep parts of a report.

    Args:
        browser: Browser that draws it.
        name: Name of the report, with which the names of its pictures begin.
        page: Path of the report.
        parts: Selector and largest number of lines of each part.
        places: Folder for the picture of the whole page, and folder of the parts.
    """
    browser.open(page, width=WIDTH, height=parts["verdict"][1] + ABOVE)
    whole = places[0] / f"{name}.png"
    browser.screenshot(whole)
    for part, (selector, most) in parts.items():
        box = browser.evaluate("{" + BOX.format(selector) + "}")
        kept(Image.open(whole), box, places[1] / f"{name}-{part}.png", most)


def main() -> None:
    """Make the runs, and pictures of their reports."""
    parser = argparse.ArgumentParser(description="Pictures of reports, of the built-in digits.")
    parser.add_argument("--runs", type=Path, default=Path("runs/pictures"))
    parser.add_argument("--first-screens", type=Path, default=Path("runs/first-screens"))
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--names", nargs="*", default=[*PARTS, *FIRST_SCREENS], choices=[*PARTS, *FIRST_SCREENS])
    options = parser.parse_args()
    sets(options.runs)
    options.docs.mkdir(parents=True, exist_ok=True)
    places = options.runs, options.docs
    first_screens = [name for name in FIRST_SCREENS if name in options.names]
    if first_screens:
        options.first_screens.mkdir(parents=True, exist_ok=True)
        make_runs(options.first_screens, list(COMMANDS))
    with Chromium(str(find_chromium())) as browser:
        for name, words in commands(options.runs).items():
            if name not in options.names:
                continue
            run = options.runs / name
            command = [sys.executable, "-m", "memorisk", "audit", *words, "--out", str(run)]
            done = subprocess.run(command, check=False)
            if done.returncode not in (0, 1):
                raise SystemExit(done.returncode)
            pictures_of(browser, name, run / "report.html", PARTS[name], places)
        for name in first_screens:
            parts = {"verdict": ("main .lead", MOST_LINES)}
            pictures_of(browser, name, options.first_screens / COMMANDS[name][1], parts, places)


if __name__ == "__main__":
    main()
