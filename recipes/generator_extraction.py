"""Does an extraction find what a generator remembers, and nothing where it remembers little? Digits, tiny generators.

    python recipes/generator_extraction.py [--seeds 20] [--whole 2] [--rows FILE]

Patients are pairs of digits of one class. Each seed draws training and test patients anew, trains a generator by the
recipe of each world, and extracts from it as ``audit generator --extract`` does: images drawn, and audited with the
test patients as the null. The page counts the verdicts, and patients of whom an image was drawn within ten grey levels
(root mean square), which is known here without any detector. ``--whole`` runs the whole audit for the first seeds, with
two twins by the recipe of the generator. The second look is limited to so many images as `SECOND_LOOK` says.
"""

import argparse
import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.comparison import second_look
from memorisk.audits.generator.extraction import extract
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import draw_parts
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.generator.trainings import twin_recipe
from memorisk.audits.run_images import DRAWN
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import no_progress
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.training.generators.twin_jobs import CHECKPOINTS, LOSSES, WEIGHTS, TwinJob, run_twin

TEST = 60
"""Number of test patients."""
DRAWN_IMAGES, NEAR, SECOND_LOOK = 200, 10.0, 40
"""Number of images drawn, distance of a copy in grey levels, and number of images of the second look."""


@dataclass(frozen=True)
class World:
    """A training of a generator."""

    patients: int
    steps: int
    repeated: int = 0
    """Number of patients whose images are repeated."""
    times: int = 1


WORLDS = {
    "overfitted: 40 images of 20 patients, 4,000 steps": World(20, 4000),
    "plain: 1,200 images of 600 patients, 1,500 steps": World(600, 1500),
    "planted: the same, the images of ten patients repeated 64 times": World(600, 1500, 10, 64),
}
HEADINGS = {
    "status": ("fails [95 %]", "undecided", "passes"),
    "drawn": "patients drawn",
    "drawn_test": "test patients drawn",
    "listed": "patients listed",
    "cliques": "cliques",
}
"""Headings of the columns; of the last four the median over seeds, with the range."""
INTRODUCTION = f"""# Does an extraction find what a generator remembers?

Output of `recipes/generator_extraction.py`. Patients are two digits of one class. Each seed draws {TEST} test patients
and the training patients anew, trains a `tiny` generator, draws {DRAWN_IMAGES} images from it as `--extract` does, and
audits them with the default detector against the test patients; the second look is limited to {SECOND_LOOK} images.
A patient counts as drawn where an image of theirs and a draw differ by less than {NEAR:g} of 255 grey levels (root mean
square), which is known here without any detector; numbers are medians over seeds, with the range.
"""


def main() -> None:
    """Train, extract and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--whole", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--rows", type=Path, help="file that keeps the row of each training, from which a run continues"
    )
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    before = chosen.rows.read_text(encoding="utf-8") if chosen.rows and chosen.rows.is_file() else ""
    rows = [json.loads(line) for line in before.splitlines()]
    done = {(row["world"], row["seed"]) for row in rows}
    tasks = [(name, seed) for seed in range(chosen.seeds) for name in WORLDS if (name, seed) not in done]
    with ProcessPoolExecutor(chosen.processes) as pool:
        for future in as_completed([pool.submit(extracted, *task, task[1] < chosen.whole) for task in tasks]):
            rows.append(future.result())
            print(rows[-1], flush=True)
            if chosen.rows:
                with chosen.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    if chosen.out:
        chosen.out.write_text(page(rows), encoding="utf-8")


def extracted(name: str, seed: int, whole: bool) -> dict[str, Any]:
    """Train a generator of a world and extract from it.

    Args:
        name: Name of the world.
        seed: Random seed of patients, training and draws.
        whole: Whether to run the whole audit.
    """
    second_look.MOST_IMAGES = SECOND_LOOK
    world = WORLDS[name]
    with TemporaryDirectory() as folder:
        root = Path(folder)
        repeated = write_digits(root / "images", world, seed)
        options = GeneratorAuditOptions(
            target=root / "target", splits="given-random", models=2, steps=world.steps, group_from=r"(p\d+)_",
            device="cpu", extract=DRAWN_IMAGES, split_seed=seed, processes=1, store=root / "store",
        )  # fmt: skip
        store = build_store(load_manifest(root / "images", options), options)
        parts = draw_parts(store.manifest, [], options, seed)
        weights = train(root / "run", store, parts.rows("canary"), repeated, options, world, seed)
        options = replace(options, target=weights)
        outcome = extract(RunFolder(root / "run"), store, parts, options, no_progress).numbers
        row: dict[str, Any] = {
            "world": name,
            "seed": seed,
            "status": outcome.status,
            "codes": list(outcome.codes),
            "drawn": patients_drawn(root / "run" / DRAWN, store, parts.rows("canary")),
            "drawn_test": patients_drawn(root / "run" / DRAWN, store, parts.rows("test")),
            "repeated": patients_drawn(root / "run" / DRAWN, store, rows_of(store, repeated)) if repeated else None,
            "listed": outcome.n_listed_patients,
            "cliques": outcome.cliques.n_cliques,
        }
        if whole and not repeated:
            settings = {
                field: getattr(options, field) for field in ("target", "splits", "models", "steps", "group_from")
            }
            result = audit_generator(root / "images", out=root / "whole", **settings, device="cpu", processes=1)
            target = result.summary["target"]["attacks"]
            row["whole"] = result.status
            row["auc"] = {attack: [round(of[k], 2) for k in ("auc", "low")] for attack, of in target.items()}
    return row


def write_digits(folder: Path, world: World, seed: int) -> list[str]:
    """Write two digits of one class per patient into folders of a given split; return the ids that are repeated."""
    digits, rng = load_digits(), np.random.default_rng([41, seed])
    pixels = np.clip(digits.images * 16, 0, 255).round().astype(np.uint8)
    pairs = []
    for label in range(10):
        own = rng.permutation(np.flatnonzero(digits.target == label))
        pairs += [own[i : i + 2] for i in range(0, len(own) - 1, 2)]
    order = rng.permutation(len(pairs))
    for part, numbers in (("train", order[: world.patients]), ("test", order[-TEST:])):
        (folder / part).mkdir(parents=True)
        for number in numbers:
            for i, row in enumerate(pairs[number]):
                Image.fromarray(pixels[row]).save(folder / part / f"p{number}_{i}.png")
    return [f"p{number}" for number in order[: world.repeated]]


def train(
    folder: Path,
    store: ImageStore,
    rows: np.ndarray,
    repeated: list[str],
    options: GeneratorAuditOptions,
    world: World,
    seed: int,
) -> Path:
    """Train a generator; return the file of its weights."""
    for name in (LOSSES, WEIGHTS, CHECKPOINTS):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = np.repeat(rows, np.where(np.isin(rows, rows_of(store, repeated)), world.times, 1))
    parts = draw_parts(store.manifest, [], options, seed)
    recipe = twin_recipe(Plan("balanced", parts, [], None, rows, rows), options)
    batch = min(64, len(seen))
    recipe = replace(recipe, batch_size=batch)
    job = TwinJob(out=folder, store=store, rows=seen, slots=len(seen), recipe=recipe, seed=1000 + seed)
    run_twin(job)
    return job.weights_file


def rows_of(store: ImageStore, patients: list[str]) -> np.ndarray:
    """Return the rows of some patients."""
    return np.flatnonzero(np.isin(store.manifest.groups.astype(str), patients))


def patients_drawn(folder: Path, store: ImageStore, rows: np.ndarray) -> int:
    """Count the patients among some rows of whom an image was drawn within `NEAR` grey levels."""
    drawn = np.stack([np.asarray(Image.open(file), dtype=np.float64) for file in sorted(folder.glob("*.png"))])
    own = np.asarray(store.images[rows], dtype=np.float64)[..., 0]
    distance = np.sqrt(np.square(own[:, None] - drawn[None]).mean(axis=(2, 3))).min(axis=1)
    return len(set(store.manifest.groups[rows[distance < NEAR]].astype(str).tolist()))


def page(rows: list[dict[str, Any]]) -> str:
    """Lay out the page.

    Args:
        rows: Rows of `extracted`.
    """
    headings = ["training", "seeds"]
    for heading in HEADINGS.values():
        headings += [heading] if isinstance(heading, str) else heading
    lines = [INTRODUCTION, f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for name in WORLDS:
        of = [row for row in rows if row["world"] == name]
        if not of:
            continue
        status = Counter(row["status"] for row in of)
        fails = clopper_pearson(status["fail"], len(of))
        share = f"{status['fail']} of {len(of)} [{100 * fails.low:.0f} %, {100 * fails.high:.0f} %]"
        numbers = [median(of, key) for key, heading in HEADINGS.items() if isinstance(heading, str)]
        cells = [name, len(of), share, status["undecided"], status["pass"], *numbers]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    if repeated := [row["repeated"] for row in rows if row.get("repeated") is not None]:
        lines += ["", f"Repeated patients drawn, of ten: {', '.join(map(str, repeated))} (one number per seed)."]
    if whole := [row for row in rows if "whole" in row]:
        lines += ["", "Whole audits with two twins by the recipe of the generator:", ""]
        lines += [
            f"- seed {row['seed']}, {row['world']}: {row['whole']}; AUC [lower limit] {row['auc']}" for row in whole
        ]
    return "\n".join(lines) + "\n"


def median(rows: list[dict[str, Any]], key: str) -> str:
    """Return the median of a number over seeds, with its range."""
    values = np.array([row[key] or 0 for row in rows], dtype=np.float64)
    return f"{np.median(values):g} ({values.min():g} to {values.max():g})"


if __name__ == "__main__":
    main()
