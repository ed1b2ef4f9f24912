"""Do attacks find members of a generator that saw none of them? Others of another source, and of the same.

    python recipes/generator_trap.py DATA [--steps 1000] [--models 6] [--out docs/results/generator_trap.md]

DATA is a folder with `nih_cxr14_64` (chest X-rays, PATIENT_NUMBER.png) and `eye_oct` (PERSON_...jpg). A small network
is trained on the X-rays of 100 patients. The members of the audit are 100 other patients, whom it never saw; the others
are 64 people with eye scans, or 64 further X-ray patients. Every attack that "finds" members compares sources.
"""

import argparse
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.classifier.attack_numbers import AttackNumbers
from memorisk.audits.classifier.result import ClassifierSummary
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import draw_parts, make_generator_plan
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.generator.trainings import twin_recipe
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.training.generators.twins.jobs import run_twin
from memorisk.training.generators.twins.recipes import CHECKPOINTS, LOSSES, WEIGHTS, TwinJob

SIDE, MEMBERS, OTHERS = 16, 100, 64
PAGE = """# Do attacks find members of a generator that saw none of them?

Output of `recipes/generator_trap.py --steps {steps} --models {models}`: X-rays of {members} patients as members
({side} px), a `tiny` generator of {steps} steps on X-rays of {members} other patients, {models} twins. The generator
saw neither side, so that each AUC other than 0.5 tells the sources apart, and no membership.

| AUC [95 %] | others: {others} people with eye scans | others: {others} X-ray patients |
|---|---|---|
{rows}
"""


def main() -> None:
    """Train the generator, audit it against both kinds of others and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rays = by_patient(chosen.data / "nih_cxr14_64", r"(\d{8})_\d+\.png")
    eyes = by_patient(chosen.data / "eye_oct", r"(\d+)_.*\.jpg")
    patients = np.random.default_rng(0).permutation(sorted(rays)).tolist()
    members, trained, others = np.split(np.array(patients), [MEMBERS, 2 * MEMBERS])
    people = np.random.default_rng(1).permutation(sorted(eyes))[:OTHERS]
    with TemporaryDirectory() as place:
        folder = Path(place)
        weights = train(folder, {name: rays[name] for name in trained}, chosen.steps)
        columns: list[dict[str, AttackNumbers]] = []
        for name, files in (("eyes", eyes), ("rays", rays)):
            unseen = people if name == "eyes" else others[:OTHERS]
            sides = {"train": {p: rays[p] for p in members}, "test": {p: files[p] for p in unseen}}
            table = written(folder / f"{name}.csv", sides)
            settings: dict[str, Any] = {
                "size": SIDE, "channels": 1, "models": chosen.models, "steps": chosen.steps, "seeds": None,
                "processes": chosen.processes, "splits": "given-random",
            }  # fmt: skip
            result = audit_generator(table, out=folder / name, target=weights, **settings)
            target = ClassifierSummary.read(result.summary).target
            assert target is not None
            columns.append({**target.attacks, **{f"control: {k}": v for k, v in target.controls.items()}})
    rows = [f"| {name} | {' | '.join(shown(column[name]) for column in columns)} |" for name in columns[0]]
    text = PAGE.format(
        steps=chosen.steps, models=chosen.models, members=MEMBERS, others=OTHERS, side=SIDE, rows="\n".join(rows)
    )
    sys.stdout.write(text)
    if chosen.out:
        chosen.out.write_text(text, encoding="utf-8")


def by_patient(folder: Path, pattern: str) -> dict[str, list[Path]]:
    """Return the files of each patient, by the first group of the pattern of their names."""
    files: dict[str, list[Path]] = {}
    for path in sorted({path.name: path for path in folder.rglob("*.*")}.values()):  # some files are there twice
        if match := re.fullmatch(pattern, path.name):
            files.setdefault(match[1], []).append(path)
    return files


def written(path: Path, sides: dict[str, dict[str, list[Path]]]) -> Path:
    """Write a table of images with their patients and parts."""
    rows = [
        {"image": str(file.resolve()), "group": patient, "split": split}
        for split, patients in sides.items()
        for patient, files in patients.items()
        for file in files
    ]
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def train(folder: Path, patients: dict[str, list[Path]], steps: int) -> Path:
    """Train a small network on the images of these patients, and return the file of its weights."""
    options = GeneratorAuditOptions(size=SIDE, channels=1, models=2, steps=steps, splits="given-random")
    store = build_store(load_manifest(str(written(folder / "trained.csv", {"train": patients})), options), options)
    halves = load_manifest(str(folder / "trained.csv"), GeneratorAuditOptions(size=SIDE, channels=1))
    plan = make_generator_plan(
        halves, draw_parts(halves, [], GeneratorAuditOptions(models=2), 0), GeneratorAuditOptions(models=2)
    )
    for name in (LOSSES, WEIGHTS, CHECKPOINTS):
        (folder / "own" / name).mkdir(mode=0o700, parents=True)
    rows = np.arange(len(store.images))
    job = TwinJob(
        out=folder / "own", store=store, rows=rows, slots=len(rows), recipe=twin_recipe(plan.twins, options), seed=1
    )
    run_twin(job)
    return job.weights_file


def shown(numbers: AttackNumbers) -> str:
    """Write an AUC with its limits."""
    auc = numbers.auc
    return f"{auc.estimate:.2f} [{auc.low:.2f}, {auc.high:.2f}]"


if __name__ == "__main__":
    main()
