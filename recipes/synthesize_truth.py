"""Is what the loop gives free of training patients? Generators that copy, screened, audited by who took no part.

    python recipes/synthesize_truth.py DATA [--runs runs/synthesize-truth] [--out docs/results/synthesize_truth.md]

Two real sets at 32 pixels. A detector of copies is trained on some lesions of HAM10000, and chooses in both sets: no
chest X-ray trained it, and none of the skin images that are used later. The people of each set are divided at random
into those that a generator copies, calibration people and strangers. Two generators draw: one that copies a
training image in 3 of 10 draws and else shows a stranger, so that the truth is known, and a diffusion transformer that
was trained for long on few images. `memorisk synthesize` fills a set from each; SqueezeNet, with ImageNet's
weights, audits it. Beside it the same loop with a threshold that nothing reaches. What is done already is read again.
"""

import argparse
import itertools
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from filter_truth import table
from memorisk.audits.comparison.sets import select_rows
from memorisk.audits.filter.calibration import draw_pairs
from memorisk.audits.filter.families import parse_families
from memorisk.audits.synthesize.run import synthesize
from memorisk.images.copies.near_copies import near_copies, rule_of_stores, thumbnails
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.splits import merge_linked
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.generators import Draw, Generator, check_draw
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.report.result import Result
from memorisk.runs.files import read_table, write_text
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.exchangeability.image_numbers import image_counts
from memorisk.training.detectors.command import train_detector
from memorisk.training.generators.fit import fit_generator
from memorisk.training.generators.options import GeneratorOptions

SIZE, CHANNELS, SEED = 32, 3, 0
FAMILIES = ("blur:1", "contrast:1.3", "jpeg:10", "noise:0.1")
"""What the guarantee is about, and what the first generator's copies are."""
COPYING = 0.3
"""Share of the draws of the first generator that are copies."""
DETECTOR: dict[str, Any] = {
    "kind": "lcmem", "encoder": "pixels", "backbone": "small_cnn@none", "sample_normalisation": 1.0,
    "stage1_augment": "mild", "epochs": 60, "patience": 30, "batch_size": 64, "lr": 1e-3,
    "stage2_epochs": 40, "stage2_patience": 15, "stage2_batch_size": 64, "stage2_lr": 1e-3,
}  # fmt: skip
DIT = GeneratorOptions(network="tiny/4", conditioned_on="none", lr=2e-3, noise_schedule="cosine", ema=0.999)
AUDITOR = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"
MIXED, TRAINED = "copies 3 of 10", "DiT of these people alone"
NOTHING = ("1e9",)
"""A threshold that no score reaches."""
TEXT = f"""Two real sets at {SIZE} x {SIZE} pixels. What chooses is a detector of
copies (LCMem on pixels, {DETECTOR["backbone"]}, from random weights) trained on 30% of the lesions of HAM10000 and on
nobody else: none of them is used again, and it never saw a chest X-ray. Everybody else is divided at random into people
whom the generator copies (HAM10000: 100 with an image each; NIH: 60 patients with at most two), calibration people, who
are the audit's held-out people, too, and strangers; nearly identical images are of one identity. The guarantee is about
{", ".join(FAMILIES)}, chosen after looking at how many calibration identities single families reject; nothing
else was chosen by its result.

*copies 3 of 10*: draws that are, with probability {COPYING}, a copy of a training image of one of those families, its
strength drawn from the family, and else a stranger's image, so that the truth is known. *DiT of these people alone*: a
diffusion transformer ({DIT.network}, batches of {DIT.images_a_step}) trained on nobody else. What audits is
SqueezeNet with ImageNet's weights, which took no part in choosing. *Nothing is screened* is the same loop with a
threshold that no score reaches.

*New people rejected*: of the calibration identities, by the threshold. *Patients flagged*: listed by the audit
(Benjamini-Hochberg at 5% among the held-out people), of all training patients. *D, p*: are training patients as a whole
nearer to the kept set than held-out people are? One-sided two-sample test of Kolmogorov and Smirnov, exact; units are
the patients of both columns. What must hold with screening: nobody flagged, p > 0.01."""


@dataclass(frozen=True)
class Setting:
    """A set of images, and how its people are divided: shares of them, or numbers."""

    name: str
    folder: str
    detector: float
    """Share of the people on whom the detector is trained."""
    train: int
    """People whom a generator is trained on."""
    each: int
    """Their images, at most."""
    calibration: float
    miss_rate: float
    read: dict[str, Any] = field(default_factory=dict)


SETTINGS = (
    Setting("HAM10000", "ham10000_224", 0.30, 100, 1, 0.50, 0.05),
    Setting("NIH", "nih_cxr14_64/NIH1000", 0.0, 60, 2, 0.60, 0.10, {"group_from": r"^(\d+)_"}),
)


@dataclass(frozen=True)
class People:
    """The images of a set, by what their people are for."""

    setting: Setting
    data: Path

    @cached_property
    def store(self) -> ImageStore:
        """All images."""
        options = ImageOptions(size=SIZE, channels=CHANNELS, **self.setting.read)
        return build_store(load_manifest(self.data / self.setting.folder, options), options)

    @cached_property
    def identities(self) -> np.ndarray:
        """[N] whose each image is; those with nearly the same image are one."""
        small, groups = thumbnails(self.store.images), self.store.manifest.groups.astype(str)
        alike = near_copies(small, rule_of_stores(self.store, small=[small]), self.store.images.__getitem__)
        return merge_linked(groups, [(groups[a], groups[b]) for a, b in alike.pairs]).astype(str)

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """Of each part."""
        setting, names = self.setting, np.unique(self.identities)
        order = np.random.default_rng(SEED).permutation(names)
        sizes = {
            "detector": round(setting.detector * len(names)),
            "train": setting.train,
            "calibration": round(setting.calibration * len(names)),
        }
        ends = [*np.cumsum([0, *sizes.values()]).tolist(), len(names)]
        parts = zip((*sizes, "strangers"), itertools.pairwise(ends), strict=True)
        rows = {n: np.flatnonzero(np.isin(self.identities, order[low:high])) for n, (low, high) in parts}
        owner = self.identities[rows["train"]]
        place = np.array([int((owner[:i] == name).sum()) for i, name in enumerate(owner)])
        return rows | {"train": rows["train"][place < setting.each]}

    def part(self, name: str) -> ImageStore:
        """The images of a part."""
        return select_rows(self.store, self.rows[name])


@dataclass(eq=False)
class Mixed:
    """A generator that copies training images now and then, and else shows strangers: the truth is known."""

    train: ImageStore
    strangers: ImageStore
    source: str = "mixed"
    conditions = None

    @property
    def config(self) -> GeneratorConfig:
        """Of its images."""
        return GeneratorConfig(kind="function", name="mixed", size=(SIZE, SIZE), channels=CHANNELS)

    @cached_property
    def bank(self) -> np.ndarray:
        """Copies of an image of every training patient, several of each family, their strengths drawn from it."""
        drawn = [
            draw_pairs(family, self.train, seed).copies for family in parse_families(FAMILIES) for seed in range(5)
        ]
        return np.concatenate([np.asarray(copies.images) for copies in drawn if copies is not None])

    def copies(self, seeds: np.ndarray) -> np.ndarray:
        """[n] whether a draw is a copy."""
        return np.array([np.random.default_rng([SEED, seed]).random() < COPYING for seed in seeds.tolist()], dtype=bool)

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Each from its seed: a weakly changed copy, or a stranger's image."""
        seeds = check_draw(self.config, draw).seeds
        found = np.zeros((len(seeds), *self.train.images.shape[1:]), dtype=np.uint8)
        for place, (seed, copied) in enumerate(zip(seeds.tolist(), self.copies(seeds).tolist(), strict=True)):
            rng = np.random.default_rng([SEED + 1, int(seed)])
            found[place] = rng.choice(self.bank) if copied else rng.choice(self.strangers.images)
        return found

    def seen_parts(self, store: ImageStore) -> None:
        """Nobody is asked: the parts are those of one division."""


def trained_on_skin(people: People, folder: Path) -> Path:
    """The detector: its folder."""
    rows, n = people.rows["detector"], len(people.rows["detector"])
    order = np.random.default_rng([SEED, 2]).permutation(n) / n
    split = np.where(order < 0.7, "train", np.where(order < 0.9, "val", "test"))
    table = people.store.manifest.table.iloc[rows].loc[:, ["image", "path"]]
    table = table.assign(group=people.identities[rows], split=split)
    file, root = folder / "detector.csv", people.data / people.setting.folder
    write_text(file, table.to_csv(index=False))
    read = {"image_root": root, "size": SIZE, "channels": CHANNELS, "splits": "given"}
    train_detector(file, out=folder / "detector", **read, **DETECTOR)
    return folder / "detector" / "detector"


def overfitted(people: People, folder: Path, steps: int) -> Generator:
    """The diffusion transformer."""
    options = GeneratorOptions(**{**vars(DIT), "steps": steps})
    store, rows = people.store, people.rows
    validation = rows["strangers"][:256]
    return fit_generator(store, rows["train"], options, folder, validation=validation).generator


def looped(
    people: People, generator: Generator, detector: Path, out: Path, images: int, threshold: tuple[str, ...] = ()
) -> Result:
    """One loop."""
    how = {"sampler": "ddim", "sampling_steps": 25, "seed": SEED, "images": images}
    found = synthesize(
        people.part("train"), out, generator=generator, calibration=people.part("calibration"),
        detector=(str(detector),), auditor=AUDITOR.format(data=people.data),
        miss_rate=people.setting.miss_rate, threshold=threshold, one_image_per_patient=True, families=FAMILIES, **how,
    )  # fmt: skip
    assert isinstance(found, Result)
    return found


def row_of(
    people: People, name: str, generator: Generator, result: Result, out: Path, screened: bool
) -> dict[str, str]:
    """What one loop came to."""
    v, ledger = result.verdict, result.per_image
    kept = ledger["kept"].to_numpy(dtype=bool) if "kept" in ledger else np.zeros(0, dtype=bool)
    row = {
        "set": people.setting.name,
        "generator": name,
        "loop": f"miss rate {people.setting.miss_rate:.0%}" if screened else "nothing is screened",
        "drawn": f"{len(ledger):,}",
        "kept": f"{int(kept.sum()):,}",
        "new people rejected": _share(v["real_rejected"]) if screened and v.get("real_rejected") else "-",
        "copies drawn": "-",
        "of these kept": "-",
    }
    if isinstance(generator, Mixed):
        copies = generator.copies(ledger["seed"].to_numpy(dtype=np.int64))
        row |= {"copies drawn": f"{int(copies.sum()):,}", "of these kept": f"{int((copies & kept).sum()):,}"}
    audited = v["audited"]
    if audited is None:
        return row | dict.fromkeys(("patients flagged", "held-out", "nearer: D", "p"), "-")
    real = read_table(out / "audit" / "tables" / "real_images.parquet")
    sides = [real[real["part"] == part] for part in ("training", "held out")]
    counted = image_counts(*(side["group"] for side in sides))  # numbers of images that differ would bring W nearer
    train, held = (
        group_values(side["distance"].to_numpy()[rows], side["group"].to_numpy()[rows])
        for side, rows in zip(sides, (counted.train, counted.held), strict=True)
    )
    near: Any = stats.ks_2samp(train, held, alternative="greater")
    return row | {
        "patients flagged": f"{audited['n_listed']} of {len(train)}",
        "held-out": f"{len(held)}",
        "nearer: D": f"{near.statistic:.3f}",
        "p": f"{near.pvalue:.2g}",
    }


def _share(found: dict[str, Any]) -> str:
    """A share with its interval."""
    return f"{found['successes']} of {found['trials']} ({found['low']:.0%} to {found['high']:.0%})"


def measured(data: Path, runs: Path, steps: int, images: int, only: str | None) -> list[dict[str, str]]:
    """Every loop of both sets, a row each."""
    sets = [People(setting, data) for setting in SETTINGS]
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    detector = trained_on_skin(sets[0], runs)
    rows = []
    for people in (people for people in sets if only in (None, people.setting.name)):
        folder = runs / people.setting.name
        folder.mkdir(mode=0o700, exist_ok=True)
        made: dict[str, Generator] = {
            MIXED: Mixed(people.part("train"), people.part("strangers")),
            TRAINED: overfitted(people, folder / "generator", steps),
        }
        for (name, generator), screened in itertools.product(made.items(), (True, False)):
            out = folder / f"{'screened' if screened else 'all'}-{list(made).index(name)}"
            result = looped(people, generator, detector, out, images, () if screened else NOTHING)
            rows.append(row_of(people, name, generator, result, out, screened))
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/synthesize-truth"))
    parser.add_argument("--steps", type=int, default=8000, help="of the diffusion transformer")
    parser.add_argument("--images", type=int, default=500, help="that are to pass")
    parser.add_argument("--only", choices=[setting.name for setting in SETTINGS], help="one of the sets")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = measured(given.data, given.runs, given.steps, given.images, given.only)
    command = f"python recipes/synthesize_truth.py DATA --steps {given.steps} --images {given.images}"
    page = ["# The loop, audited by a detector that took no part", "", f"`{command}`. {TEXT}", "", *table(rows), ""]
    print("\n".join(page))
    if given.out:
        write_text(given.out, "\n".join(page))


if __name__ == "__main__":
    main()
