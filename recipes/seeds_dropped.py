"""Would fewer trainings have passed what the whole audit fails? Real images, with patients under wrong labels.

    python recipes/seeds_dropped.py DATA [--runs runs/seeds-dropped] [--models 24] [--out docs/results/seeds_dropped.md]

DATA holds ``eye_oct``, ``nih_cxr14_64`` and ``ham10000_224``. In each set a few patients of the common class get the
label of a rarer one, and `memorisk audit classifier` audits it. Then trainings are left out at random, and what is left
is judged as an audit of so many trainings would have been: classes, lists, noticeable gap and attacks. A run that was
ended goes on with the same command.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.evidence import SCORES, Context, Evidence, evidence_from_table
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.statistics.intervals.shares import clopper_pearson

STATUSES = ("pass", "fail", "undecided")
Row = tuple[str, str, str]
"""Image, label and patient."""


def eye(data: Path) -> Iterator[Row]:
    """OCT scans: macular edema or none."""
    with (data / "eye_oct" / "OCT.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield f"eye_oct/{row['Name']}.jpg", "edema" if row["DME"] == "1" else "none", row["Name"].split("_")[0]


def chest(data: Path) -> Iterator[Row]:
    """Chest X-rays: normal or not."""
    for path in sorted((data / "nih_cxr14_64" / "NIH1000").rglob("*.png")):
        yield str(path.relative_to(data)), path.parent.name[2:], path.name.split("_")[0]


def skin(data: Path) -> Iterator[Row]:
    """Skin lesions, one image each, of seven kinds."""
    with (data / "ham10000_224" / "HAM10000_metadata.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            path = Path("ham10000_224", "images", f"{row['image_id']}.jpg")
            if (data / path).exists():
                yield str(path), row["dx"], row["lesion_id"]


@dataclass(frozen=True)
class Set:
    """A set of images and who of it gets a wrong label."""

    name: str
    rows: Callable[[Path], Iterator[Row]]
    common: str
    rare: str
    wrong: int
    """Patients of the common class who get the rare one's label."""


SETTINGS = ("--size", "32", "--model", "small_cnn")
EPOCHS = (6, 20)
"""A short training, which remembers few, and a long one."""
SETS = {
    "eye_oct": Set("OCT scans of eyes", eye, "none", "edema", 6),
    "nih": Set("chest X-rays (NIH)", chest, "normal", "abnormal", 6),
    "ham10000": Set("skin lesions (HAM10000)", skin, "nv", "df", 4),
}


def manifest(one: Set, data: Path, path: Path) -> list[str]:
    """Write the table of images with the wrong labels; return the patients who have them."""
    table = pd.DataFrame(list(one.rows(data)), columns=["image", "label", "patient"])
    own = table.groupby("patient")["label"].agg(set)
    patients = sorted(own.index[[labels == {one.common} for labels in own]])
    wrong = [str(p) for p in np.random.default_rng(0).choice(patients, one.wrong, replace=False)]
    table.loc[table["patient"].isin(wrong), "label"] = one.rare
    table.to_csv(path, index=False)
    return wrong


def audited(one: Set, epochs: int, data: Path, folder: Path, models: int) -> tuple[list[str], Evidence, dict]:
    """Issue the whole audit: who has a wrong label, its score table and its verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "images.csv"
    wrong = manifest(one, data, table)
    run = folder / "run"
    command = [
        *(sys.executable, "-m", "memorisk", "audit", "classifier", str(table), "--image-root", str(data)),
        *("--image-column", "image", "--label-column", "label", "--group-column", "patient", *SETTINGS),
        *(
            "--epochs",
            str(epochs),
            "--models",
            str(models),
            "--fail-on",
            "never",
            "--discard-weights",
            "--out",
            str(run),
        ),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    verdict = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    return wrong, evidence_from_table(pd.read_parquet(run / SCORES)), verdict


def listed(evidence: Evidence, kept: Sequence[int]) -> tuple[str, list[str]]:
    """The verdict of some of the trainings, and whom it lists."""
    found = analyse(evidence.of_seeds(np.array(kept)), AnalysisOptions(), Context(design=evidence.design))
    return found.status, sorted(set(found.per_group.loc[found.per_group["flagged"], "group"].astype(str)))


def subsets(n: int, size: int, most: int) -> list[tuple[int, ...]]:
    """Up to so many different subsets of n seeds."""
    if comb(n, size) <= most:
        return list(combinations(range(n), size))
    rng, found = np.random.default_rng([n, size]), set()
    while len(found) < most:
        found.add(tuple(sorted(rng.choice(n, size, replace=False).tolist())))
    return sorted(found)


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/seeds-dropped"))
    parser.add_argument("--models", type=int, default=24)
    parser.add_argument("--subsets", type=int, default=20, help="of each size")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    sizes = range(4, options.models // 2)
    whole = [
        [
            "set",
            "epochs",
            "patients with a wrong label",
            "listed, of these",
            "listed besides",
            "verdict of all trainings",
        ]
    ]
    less = [["set", "epochs", "subsets", *(str(2 * size) for size in sizes), "passed", "upper limit, %"]]
    for name, epochs in product(options.sets, EPOCHS):
        one, folder = SETS[name], options.runs / f"{name}-{epochs}"
        wrong, evidence, verdict = audited(one, epochs, options.data, folder, options.models)
        status, names = listed(evidence, range(len(evidence.seeds)))
        assert status == verdict["status"], (status, verdict["status"])
        right = len(set(names) & set(wrong))
        first = [one.name, str(epochs)]
        whole.append([*first, str(len(wrong)), str(right), str(len(names) - right), status])
        counted, row = Counter(), []
        with ProcessPoolExecutor(options.processes) as pool:
            for size in sizes:
                kept = subsets(len(evidence.seeds), size, options.subsets)
                found = Counter(own for own, _ in pool.map(partial(listed, evidence), kept))
                row.append("/".join(str(found[s]) for s in STATUSES))
                counted += found
        n, passed = sum(counted.values()), counted["pass"]
        less.append([*first, str(n), *row, str(passed), f"{100 * clopper_pearson(passed, n).high:.1f}"])
        print(whole[-1], less[-1], flush=True)
    lines = [
        "# Would fewer trainings have passed?", "",
        f"`python recipes/seeds_dropped.py DATA --models {options.models}`: real images, a few patients of the common "
        "class under the label of a rarer one, audited by the command line (small CNN at 32 px).", "",
        *markdown(whole), "",
        f"Trainings left out at random, up to {options.subsets} subsets of each size: passes/fails/undecided by number "
        "of models, and the upper 95 % limit of passes. The subsets of one audit share trainings, so that the limit "
        "counts them for more than they are.", "",
        *markdown(less), "",
    ]  # fmt: skip
    text = "\n".join(lines)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


def markdown(rows: list[list[str]]) -> list[str]:
    """A table whose first row are the headings."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return [f"| {' | '.join(line)} |" for line in lines]


if __name__ == "__main__":
    main()
