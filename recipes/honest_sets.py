"""Can an honest set pass, and does one with a single copy in it pass? Whole audits of real images, nothing named.

    python recipes/honest_sets.py DATA WORK [--audits 10] [--copies 4] [--fitted 3] [--names NAME ...]
        [--out docs/results/honest_sets.md]

Real sets at 64 pixels or less, one image per person, divided anew in each audit: 700 training people, 300 held-out
people (fewer where a set has fewer than 1,200, in this proportion), and others. The generated set has 300 images and
copies no person: in turn *mixtures* of two images of other people, and *draws* from a Gaussian on the principal
components of other people's images. In the sets with a copy, one mixture is replaced by a crop, a paste or a mirrored
image of a training person, as the audit plants them, each in turn. *Fitted draws* come from the same Gaussian of the
training images: a generator that copies no image, but whose components hold what a single person has alone.
``memorisk audit synthetic`` has no option but the folders and "one image per patient". WORK keeps each verdict: after a
kill the same command continues.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from copies_found import read_rows, resized
from memorisk import audit_synthetic
from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.pixels import hash_pixels
from memorisk.statistics.intervals.shares import clopper_pearson
from near_copies import SETS, Set

NAMES = ("eye scans (OCT)", "chest X-rays, 64 px", "skin lesions", "CIFAR-10", "Fashion-MNIST", "made, round")
TRAIN, HELD, OTHERS, SET = 700, 300, 200, 300
SIDE = 64
LARGEST_WEIGHT = 0.6
"""Of one of two images in a mixture."""
COMPONENTS = 100
COPIED = ("cropped", "pasted", "flipped")
MIXTURES, DRAWS, FITTED = "mixtures", "draws", "fitted draws"
KINDS = tuple(PLANT_KINDS)


def people_of(one: Set, data: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide the people of a set: images of training, held-out and other people, [n, h, w, C] uint8."""
    whose = one.whose(data)
    people = rng.permutation(np.unique(whose))[: TRAIN + HELD + 3 * OTHERS]
    rows = np.array([rng.choice(np.flatnonzero(whose == person)) for person in people])
    pixels = np.stack([resized(image, min(SIDE, *image.shape[:2])) for image in read_rows(one, data, rows)])
    pixels = pixels[np.sort(np.unique([hash_pixels(image) for image in pixels], return_index=True)[1])]
    scale = min(1.0, len(pixels) / (TRAIN + HELD + OTHERS))
    ends = [round(scale * TRAIN), round(scale * (TRAIN + HELD))]
    train, held, others = np.split(pixels, ends)
    return train, held, others


def mixtures(others: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Mix two images of other people, `SET` times."""
    pairs = np.stack([rng.choice(len(others), 2, replace=False) for _ in range(SET)])
    weight = rng.uniform(1 - LARGEST_WEIGHT, LARGEST_WEIGHT, (SET, 1, 1, 1))
    return np.rint(weight * others[pairs[:, 0]] + (1 - weight) * others[pairs[:, 1]]).astype(np.uint8)


def draws(people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw `SET` images from a Gaussian on the first principal components of some people's images."""
    flat = people.reshape(len(people), -1).astype(float)
    _, size, directions = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    k = min(COMPONENTS, len(size) - 1)
    made = flat.mean(axis=0) + rng.standard_normal((SET, k)) * (size[:k] / np.sqrt(len(flat) - 1)) @ directions[:k]
    return np.rint(made.clip(0, 255)).astype(np.uint8).reshape(SET, *people.shape[1:])


def write_images(folder: Path, images: np.ndarray) -> Path:
    """Write images as PNG files."""
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:04d}.png")
    return folder


def audited(one: Set, data: Path, what: str, number: int) -> dict[str, Any]:
    """Audit one set, and return what its verdict.json holds."""
    rng = np.random.default_rng([79, number])
    train, held, others = people_of(one, data, rng)
    fitted_to = {DRAWS: others, FITTED: train}
    made = draws(fitted_to[what], rng) if what in fitted_to else mixtures(others, rng)
    if what in PLANT_KINDS:
        copy = plant_copy(PLANT_KINDS[what], train[rng.integers(len(train))], made[0], rng)
        assert copy is not None
        made[0] = copy.pixels
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folders = [write_images(folder / part, x) for part, x in (("train", train), ("set", made), ("held", held))]
        audit_synthetic(
            folders[0], folders[1], held_out=folders[2], one_image_per_patient=True, seed=number, out=folder / "run"
        )
        numbers = json.loads((folder / "run" / "verdict.json").read_text())
    return {"what": what, "numbers": numbers}


def decided(one: Set, data: Path, what: str, number: int, work: Path) -> dict[str, Any]:
    """Read what an audit decided, or audit."""
    path = work / f"{one.name} {what} {number}.json"
    if not path.is_file():
        path.with_suffix(".part").write_text(json.dumps(audited(one, data, what, number)), encoding="utf-8")
        path.with_suffix(".part").rename(path)
    return json.loads(path.read_text(encoding="utf-8"))


def audits_of(audits: int, copies: int, fitted: int) -> Iterator[tuple[str, int]]:
    """Name what is generated and the number of its division."""
    yield from (((MIXTURES, DRAWS)[number % 2], number) for number in range(audits))
    yield from ((COPIED[number % len(COPIED)], audits + number) for number in range(copies))
    yield from ((FITTED, 2 * number + 1) for number in range(fitted))


def row_of(one: Set, results: list[dict[str, Any]]) -> str:
    """Make a row of the table."""
    honest = [r for r in results if r["what"] in (MIXTURES, DRAWS)]
    verdicts, n = Counter(r["numbers"]["status"] for r in honest), len(honest)
    passed, failed = (clopper_pearson(verdicts[name], n, 0.95) for name in ("pass", "fail"))
    by_kind = {kind: [r["numbers"]["recall_by_kind"][kind] for r in honest] for kind in KINDS}
    shares = {kind: sum(x["successes"] for x in k) / sum(x["trials"] for x in k) for kind, k in by_kind.items()}
    noticed = ", ".join(f"{kind} {value:.1%}" for kind, value in shares.items())
    copies = [r for r in results if r["what"] in PLANT_KINDS]
    through = [r["what"] for r in copies if r["numbers"]["status"] == "pass"]
    numbers = honest[0]["numbers"]
    sizes = f"{numbers['n_train_patients']}, {numbers['n_held_patients']}"
    shown = (f"{s.successes} of {n} ({s.low:.0%} to {s.high:.0%})" for s in (passed, failed))
    passes = " ".join([f"{len(through)} of {len(copies)}", *through])
    fitted = Counter(r["numbers"]["status"] for r in results if r["what"] == FITTED)
    return (
        f"| {one.name} | {sizes} | {' | '.join(shown)} | {noticed} | {passes} | {fitted['pass']} of {fitted.total()} |"
    )


def main() -> None:
    """Audit, one division of every set after the other, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--audits", type=int, default=10)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--fitted", type=int, default=3)
    parser.add_argument("--names", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sets = [one for one in SETS if one.name in options.names]
    results: dict[str, list[dict[str, Any]]] = {one.name: [] for one in sets}
    for what, number in audits_of(options.audits, options.copies, options.fitted):
        for one in sets:
            results[one.name].append(decided(one, options.data, what, number, options.work))
            print(one.name, what, number, results[one.name][-1]["numbers"]["status"], flush=True)
    heads = ("set", "training, held-out people", "pass", "fail", "planted copies noticed", "passes with one copy in it")
    heads = (*heads, "fitted draws that pass")
    lines = [
        f"| {' | '.join(heads)} |",
        "|---|--:|--:|--:|---|---|---|",
        *(row_of(one, results[one.name]) for one in sets),
    ]
    page = ["# Can an honest set pass?", "", *str(__doc__).splitlines()[2:], "", *lines, ""]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
