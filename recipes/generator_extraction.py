"""Do extraction and twins find what a generator remembers, and nothing where it remembers little? Tiny generators.

    python recipes/generator_extraction.py [--seeds 20] [--twins 20] [--rows FILE] [--out PAGE]

Patients are pairs of digits of one class. Each seed draws training and test patients anew, trains a generator by the
recipe of each world, and extracts from it as ``audit generator --extract`` does: images drawn, and audited with the
test patients as the null. The page counts the verdicts, and patients of whom an image was drawn within ten grey levels
(root mean square), which is known here without any detector. ``--twins`` audits the recipe of the first seeds by
twins, on the same training and test patients. The second look is limited to so many images as `SECOND_LOOK` says.
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
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.recipes import CHECKPOINTS, LOSSES, WEIGHTS, TwinJob

TEST = 60
"""Number of test patients."""
DRAWN_IMAGES, NEAR, SECOND_LOOK, TWINS = 200, 10.0, 40, 8
"""Number of images drawn, distance of a copy in grey levels, number of images of the second look, and of twins."""


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
    "short: 1,200 images of 600 patients, 60 steps": World(600, 60),
    "planted: as plain, the images of ten patients repeated 64 times": World(600, 1500, 10, 64),
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
square), which is known here without any detector; numbers are medians over seeds, with the range. An audit of draws
that copy no one fails in up to one of twenty cases by its level.
"""
TWIN_HEADINGS = ("training", "seeds", "fails [95 %]", "undecided", "passes", "mean M, SD", "patients flagged")
TWIN_INTRODUCTION = f"""
## Do twins find it?

Audits of the same recipes and patients by {TWINS} twins, each trained on half of the training patients, without a file.
So few twins cannot pass: undecided is what an audit says that finds nothing.
"""


def main() -> None:
    """Train, extract and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--twins", type=int, default=0)
    parser.add_argument("--worlds", nargs="*", choices=[name.split(":")[0] for name in WORLDS])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--rows", type=Path, help="file that keeps the row of each training, from which a run continues"
    )
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    before = chosen.rows.read_text(encoding="utf-8") if chosen.rows and chosen.rows.is_file() else ""
    rows = [json.loads(line) for line in before.splitlines()]
    done = {(row["by"], row["world"], row["seed"]) for row in rows}
    worlds = [name for name in WORLDS if not chosen.worlds or name.split(":")[0] in chosen.worlds]
    ways = {"extraction": (extracted, chosen.seeds), "twins": (audited, chosen.twins)}
    tasks = [(by, name, seed) for by, (_, n) in ways.items() for seed in range(n) for name in worlds]
    with ProcessPoolExecutor(chosen.processes) as pool:
        waiting = [pool.submit(ways[by][0], name, seed) for by, name, seed in tasks if (by, name, seed) not in done]
        for future in as_completed(waiting):
            rows.append(future.result())
            print(rows[-1], flush=True)
            if chosen.rows:
                with chosen.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    if chosen.out:
        chosen.out.write_text(page(rows), encoding="utf-8")


def audited(name: str, seed: int) -> dict[str, Any]:
    """Audit the recipe of a world by twins.

    Args:
        name: Name of the world.
        seed: Random seed of patients.
    """
    world = WORLDS[name]
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_digits(root / "images", world, seed)
        result = audit_generator(
            root / "images", out=root / "run", splits="given-random", models=TWINS, steps=world.steps,
            group_from=r"(p\d+)_", device="cpu", processes=1,
        )  # fmt: skip
        numbers = {key: float(result.per_class[key].iloc[0]) for key in ("mean", "flagged")}
    return {"by": "twins", "world": name, "seed": seed, "status": result.status, **numbers}


def extracted(name: str, seed: int) -> dict[str, Any]:
    """Train a generator of a world and extract from it.

    Args:
        name: Name of the world.
        seed: Random seed of patients, training and draws.
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
        return {
            "by": "extraction",
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
    extractions, twins = ([row for row in rows if row["by"] == by] for by in ("extraction", "twins"))
    keys = [key for key, heading in HEADINGS.items() if isinstance(heading, str)]
    lines = [INTRODUCTION, *table(headings, extractions, keys)]
    if repeated := [row["repeated"] for row in extractions if row["repeated"] is not None]:
        lines += ["", f"Repeated patients drawn, of ten: {', '.join(map(str, repeated))} (one number per seed)."]
    if twins:
        lines += [TWIN_INTRODUCTION, *table(list(TWIN_HEADINGS), twins, ["mean", "flagged"])]
    return "\n".join(lines) + "\n"


def table(headings: list[str], rows: list[dict[str, Any]], keys: list[str]) -> list[str]:
    """Return the lines of a table: verdicts by world, and medians of some numbers.

    Args:
        headings: Headings of the columns.
        rows: One row per training or audit.
        keys: Numbers whose median over seeds is a column.
    """
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for name in WORLDS:
        of = [row for row in rows if row["world"] == name]
        if not of:
            continue
        status = Counter(row["status"] for row in of)
        fails = clopper_pearson(status["fail"], len(of))
        share = f"{status['fail']} of {len(of)} [{100 * fails.low:.0f} %, {100 * fails.high:.0f} %]"
        cells = [name, len(of), share, status["undecided"], status["pass"], *(median(of, key) for key in keys)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def median(rows: list[dict[str, Any]], key: str) -> str:
    """Return the median of a number over seeds, with its range."""
    values = np.array([row[key] or 0 for row in rows], dtype=np.float64)
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"


if __name__ == "__main__":
    main()
