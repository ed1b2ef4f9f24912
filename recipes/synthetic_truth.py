"""Does the audit of a synthetic set keep what its report claims? Sets of real images with hidden copies, as the truth.

    python recipes/synthetic_truth.py DATA [--detector SOURCE ...] [--splits 40] [--clean 200]
        [--out docs/results/synthetic_truth.md]

The patients of a data set are split at random into training, held out and others. The "synthetic set" is all images of
the others, who are nobody's copies, and one copy each of as many random training patients as the report speaks of, of
a random one of the seven kinds. The audit hides plants of its own besides. Its claims are then held to what is known:
copies found at the cut, patients without a copy found at it, and patients without a copy on the list. As many sets as
``--clean`` says have no copy; counted is how many of them fail by distance. The second look is not taken.

The audit's own parts are called on features that are computed once for all splits.
"""

import argparse
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from memorisk.audits.comparison.distances import PixelCopies, measure_distances
from memorisk.audits.comparison.features import FeatureTables
from memorisk.audits.comparison.plants import Plants, draw_plants
from memorisk.audits.comparison.sets import Sets, select_rows, stack_stores
from memorisk.audits.synthetic.findings import compute_findings
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS, planted_kinds
from memorisk.images.copies.near_copies import NO_PAIRS, BestMatches
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import hash_pixels
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.images.volumes import is_volume
from memorisk.runs.workload import no_progress
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, SINGLED_OUT_LEVEL
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

SIDE, VOXELS, LEVEL = 64, 32, 0.992
UNDER_TWO_IDS = ("ISIC_0030835", "ISIC_0031799")
"""Photographs of lesions that HAM10000 holds under another id as well (ISIC_0027820, ISIC_0029130: the same diagnosis,
age, sex and site, and nearly the same picture): left out, since their copies would count as of somebody not copied."""
CLAIMS = ("noticed", "chance", "list", "fails")
NETWORK = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"
TEXT = f"""Real images at {SIDE} px, and volumes of {VOXELS} voxels a side, stand for a synthetic set, so that the
truth is known: images of other patients, and copies of some training patients hidden among them, of seven kinds (of
volumes six), drawn anew in every split. *Noticed* is a copy that is singled out; claimed is the share of the audit's
own plants that would be, R its lower limit (the share of so few copies varies by itself).
*By chance* is the share of audits with another image singled out for a patient without a
copy; claimed is at most {100 * SINGLED_OUT_LEVEL:.0f} %.
*Wrongly listed* is the share of a list (none where it is empty) without a copy; claimed is at most 10 %. *Flagged
images* are those of other patients that are said to expose somebody. *Fails, nobody copied*: sets without any copy
that fail by distance (somebody is listed, or more patients lie nearer than every held-out one than chance explains);
claimed is at most 10 %. Two photographs of HAM10000 that show a lesion of another id once more are left out. Intervals
are of {100 * LEVEL:.1f} %, over splits (t); a claim holds where its difference from the truth may be 0, or the share of
a list at most 10 %."""


KINDS_TEXT = """Noticed by kind in percent: claimed, and the truth less it. A kind has few copies in a split."""
FAILS = 0.1


@dataclass(frozen=True)
class World:
    """A data set and how it is split."""

    name: str
    store: ImageStore
    train: float
    """Share of the patients."""
    held: float
    """Share of the patients; the rest are others."""
    copied: float
    """Share of the training patients who are copied."""
    plants: int
    """Of each kind."""


@dataclass(frozen=True, eq=False)
class Split:
    """One audit: who is where, and what is hidden."""

    sets: Sets
    rows: tuple[np.ndarray, ...]
    """Rows of the training, held-out and other images."""
    options: SyntheticOptions
    plants: Plants
    copies: Plants
    """The truth."""


_NONE = np.empty(0, np.int64)
NOBODY = Plants(
    np.empty((0, SIDE, SIDE, 3), np.uint8), _NONE.astype(object), _NONE.astype(object), _NONE, _NONE,
    _NONE.astype(bool), 0,
)  # fmt: skip


def worlds(data: Path, store: Path) -> list[World]:
    """Real sets: three of images, one of volumes."""

    def read(folder: str, **how: Any) -> ImageStore:
        """Images at one size."""
        options = ImageOptions(**({"size": SIDE, "channels": 3} | how), store=store)
        return build_store(load_manifest(data / folder, options), options)

    ham, nih = read("ham10000_224"), read("nih_cxr14_64/NIH1000", group_from=r"(\d{8})_\d+")
    busi = read("busi_ultrasound/Dataset_BUSI_with_GT")
    again = [image.rsplit("/", 1)[-1].split(".")[0] in UNDER_TWO_IDS for image in ham.manifest.images]
    ham = select_rows(ham, np.flatnonzero(~np.array(again)))
    distinct = np.unique(busi.pixel_hashes.astype(str), return_index=True)[1]
    masks = np.array(["_mask" in image for image in busi.manifest.images])
    busi = select_rows(busi, np.array([row for row in np.sort(distinct) if not masks[row]]))
    mri = read("mri_hippocampus/images", frames="volume", size=VOXELS, channels="auto")
    return [
        World("HAM10000, a lesion each", ham, 0.35, 0.30, 0.05, 20),
        World("NIH chest X-rays, by patient", nih, 0.45, 0.35, 0.20, 8),
        World("BUSI ultrasound, an image each", busi, 0.40, 0.35, 0.10, 15),
        World("MRI hippocampus, a volume each", mri, 0.45, 0.35, 0.20, 8),
    ]


def split(world: World, seed: int, *, copied: bool = True) -> Split:
    """Training, held-out and other patients, and copies of some of the first, or neither copies nor plants."""
    rng = np.random.default_rng([61, seed])
    groups = world.store.manifest.groups.astype(str)
    order = rng.permutation(np.unique(groups))
    ends = [round(world.train * len(order)), round((world.train + world.held) * len(order))]
    rows = tuple(np.flatnonzero(np.isin(groups, part)) for part in np.split(order, ends))
    train, held, others = (select_rows(world.store, part) for part in rows)
    options = SyntheticOptions(plants=world.plants, seed=seed)
    if not copied:
        return Split(Sets(train, others, held, 0, 0, frozenset(), ()), rows, options, NOBODY, NOBODY)
    plants = draw_plants(train, others, world.plants, seed)
    patients = rng.permutation(np.unique(train.manifest.groups.astype(str)))
    n_copied = max(1, math.ceil(world.copied * len(patients)))
    return Split(
        Sets(train, others, held, 0, 0, frozenset(), ()), rows, options, plants,
        copies_of(train, others, patients[:n_copied], rng),
    )  # fmt: skip


def copies_of(train: ImageStore, others: ImageStore, patients: np.ndarray, rng: np.random.Generator) -> Plants:
    """A copy of a random image of each of these patients, of a random kind."""
    groups = train.manifest.groups.astype(str)
    kinds = [ALL_KINDS[name] for name in planted_kinds((), of_volumes=is_volume(train.images.shape))]
    pixels, kind, source = [], [], []
    for patient in patients:
        row = int(rng.choice(np.flatnonzero(groups == patient)))
        one = kinds[int(rng.integers(len(kinds)))]
        base = np.asarray(others.images[int(rng.integers(len(others.images)))])
        copy = plant_copy(one, np.asarray(train.images[row]), base, rng)
        if copy is not None:
            pixels, kind, source = [*pixels, copy.pixels], [*kind, one.name], [*source, row]
    empty = np.full(len(kind), "", dtype=object)
    none = np.full(len(kind), -1)
    names, required = np.array(kind, dtype=object), np.ones(len(kind), dtype=bool)
    return Plants(np.stack(pixels), names, empty, np.array(source), none, required, len(patients))


def store_of(pixels: np.ndarray, beside: ImageStore) -> ImageStore:
    """Images in memory, whose features are kept where those of others are."""
    names = [str(row) for row in range(len(pixels))]
    table = pd.DataFrame({"image": names, "path": "", "label": "", "group": names}, dtype=object)
    hashes = np.array([hash_pixels(image) for image in pixels], dtype=object)
    return replace(beside, images=pixels, manifest=Manifest(table, None, "copies"), pixel_hashes=hashes)


def audited(detector: PairDetector, world: World, splits: Sequence[Split], clean: int) -> dict[str, np.ndarray]:
    """What the report claims, and what is true, [splits] each; and of sets without copies whether they fail."""
    real = detector.features(world.store).values
    made = np.concatenate([pixels for one in splits for pixels in (one.plants.pixels, one.copies.pixels)])
    hidden, at, rows = detector.features(store_of(made, world.store)).values, 0, []
    for one in splits:
        plants, copies = hidden[at : at + one.plants.n], hidden[at + one.plants.n : at + one.plants.n + one.copies.n]
        at += one.plants.n + one.copies.n
        train, held, others = (real[part] for part in one.rows)
        unsaid = FeatureTables(train, held, np.concatenate([others, copies]), plants, None, False, (), 0, 0)  # pyright: ignore
        rows.append(held_to_truth(unsaid, detector, one))
    found = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    fails = [fails_without_copies(real, detector, split(world, 1000 + seed, copied=False)) for seed in range(clean)]
    return found | {"fails": np.array(fails)}


def fails_without_copies(real: np.ndarray, detector: PairDetector, one: Split) -> bool:
    """Whether a set of other patients fails by distance."""
    train, held, others = (real[part] for part in one.rows)
    tables = FeatureTables(train, held, others, real[:0], None, False, (), 0, 0)  # pyright: ignore
    distances = measure_distances(
        tables, detector.similarity(np.concatenate([train, held])), one.sets, one.plants, no_progress
    )
    pixels = _no_pixels(len(train), len(held), len(others), 0)
    said = compute_findings(one.sets, [distances], pixels, one.plants, one.options)
    return bool(said.n_listed_at_verdict or said.p_ahead <= AHEAD_LEVEL)


def held_to_truth(found: FeatureTables, detector: PairDetector, one: Split) -> dict[str, float]:
    """One audit's claims and the truth."""
    beside = store_of(one.copies.pixels, one.sets.train)
    sets = replace(one.sets, synthetic=stack_stores([one.sets.synthetic, beside]))
    similarity = detector.similarity(np.concatenate([found.train, found.held]))
    distances = measure_distances(found, similarity, sets, one.plants, no_progress)
    n_others, n = len(one.sets.synthetic.images), len(sets.synthetic.images)
    said = compute_findings(
        sets, [distances], _no_pixels(len(found.train), len(found.held), n, one.plants.n), one.plants, one.options
    )
    assert said.asked is not None
    assert said.power is not None
    groups = sets.train.manifest.groups.astype(str)
    copied = np.isin(said.unit, groups[one.copies.source])
    assert said.by[0].singled is not None
    by_chance = said.by[0].singled.images[:n_others] & ~np.isin(groups[distances.nearest[:n_others]], said.unit[copied])
    kinds = {}
    for kind, claimed in said.power.kinds.items():
        of_kind = one.copies.kind == kind
        kinds[f"claimed {kind}"] = claimed.estimate
        kinds[f"true {kind}"] = said.singled[n_others:][of_kind].mean() if of_kind.any() else math.nan
    return kinds | {
        "train": len(said.unit),
        "held": said.asked.n_held,
        "images": n_others,
        "copied": int(copied.sum()),
        "claimed": said.power.recall.estimate,
        "lower": said.power.recall.low,
        "true": float(said.singled[n_others:].mean()),
        "chance": float(by_chance.any()),
        "listed": int(said.listed.sum()),
        "wrong": float((said.listed & ~copied).sum() / max(1, said.listed.sum())),
        "flagged": float(said.exposing[:n_others].mean()),
    }


def _no_pixels(n_train: int, n_held: int, n: int, n_plants: int) -> PixelCopies:
    """Only the features are on trial."""
    none = np.full(n, -1)
    far = BestMatches(none + 1, np.zeros(n, np.float32), none > 0)
    thumbnails, plants = np.empty((0, 32, 32), np.uint8), np.zeros(n_plants, bool)
    return PixelCopies(none, none, none > 0, none, far, NO_PAIRS, NO_PAIRS, thumbnails, plants=plants)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and limits by t over splits."""
    n = len(values)
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return float(values.mean()), float(values.mean()) - half, float(values.mean()) + half


def row_of(name: str, detector: str, found: dict[str, np.ndarray]) -> dict[str, str]:
    """A data set and detector, as a row of the table."""

    def shown(values: np.ndarray, digits: int = 1) -> str:
        """Mean and limits in percent."""
        mean, low, high = (100 * value for value in interval(values))
        return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    recall = interval(found["true"] - found["claimed"])
    least = stats.binom.ppf(0.996, len(found["chance"]), SINGLED_OUT_LEVEL)  # audits that may have another singled out
    wrong = interval(found["wrong"])
    fails = clopper_pearson(int(found["fails"].sum()), len(found["fails"]))
    holds = (
        recall[1] <= 0 <= recall[2],
        found["chance"].sum() <= least,
        wrong[1] <= SyntheticOptions().level,
        fails.low <= FAILS,
    )
    return {
        "set": name,
        "detector": detector,
        "training, held out; other images, copies": f"{found['train'][0]:,.0f}, {found['held'][0]:,.0f}; "
        f"{found['images'].mean():,.0f}, {found['copied'].mean():.0f}",
        "noticed, claimed %": f"{100 * found['claimed'].mean():.1f}",
        "noticed, true less claimed": shown(found["true"] - found["claimed"]),
        "true at least R": f"{int((found['true'] >= found['lower']).sum())} of {len(found['true'])}",
        "by chance": f"{int(found['chance'].sum())} of {len(found['chance'])}",
        "wrongly listed %": shown(found["wrong"]),
        "audits with a list": f"{int((found['listed'] > 0).sum())}",
        "flagged images %": shown(found["flagged"], 2),
        "fails, nobody copied": f"{fails.successes} of {fails.trials} "
        f"({100 * fails.low:.1f} to {100 * fails.high:.1f} %)",
        "claims that hold": " ".join(what for what, held in zip(CLAIMS, holds, strict=True) if held) or "none",
    }


def kinds_row(name: str, detector: str, found: dict[str, np.ndarray]) -> dict[str, str]:
    """Noticed of each kind: claimed, and the truth less it, in percent."""
    cells = {}
    for kind in PLANT_KINDS:
        if f"claimed {kind}" not in found:
            cells[kind] = "none of volumes"
            continue
        claimed, true = found[f"claimed {kind}"], found[f"true {kind}"]
        there = np.isfinite(true)
        mean, low, high = (100 * value for value in interval((true - claimed)[there]))
        cells[kind] = f"{100 * claimed.mean():.0f}; {mean:.0f} ({low:.0f} to {high:.0f})"
    return {"set": name, "detector": detector, **cells}


def table(rows: Sequence[dict[str, str]]) -> list[str]:
    """Lines of Markdown."""
    heads = list(rows[0])
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row.values())} |" for row in rows)]


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--detector", action="append", help="default: default, pixels:16 and SqueezeNet; of volumes default"
    )
    parser.add_argument("--sets", nargs="*", help="words of the names of some sets")
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--clean", type=int, default=200, help="sets without a copy")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sources = {
        "default": "default",
        "pixels, 16 x 16": "pixels:16",
        "SqueezeNet, cosine": NETWORK.format(data=given.data),
    }
    rows, kinds = [], []
    with tempfile.TemporaryDirectory() as name:
        for world in worlds(given.data, Path(name)):
            if given.sets and not any(word in world.name for word in given.sets):
                continue
            splits = [split(world, seed) for seed in range(given.splits)]
            own = (
                [sources["default"]] if is_volume(world.store.shape) else sources.values()
            )  # pixels:16 takes no volumes
            for text in given.detector or own:
                detector = open_pair_detector(text)
                label = next((label for label, source in sources.items() if source == text), detector.name)
                found = audited(detector, world, splits, given.clean)
                rows.append(row_of(world.name, label, found))
                kinds.append(kinds_row(world.name, label, found))
                print(rows[-1], kinds[-1], flush=True)
    lines = [*table(rows), "", KINDS_TEXT, "", *table(kinds)]
    named = "".join(f" --detector {Path(text).name}" for text in given.detector or [])
    page = "\n".join([
        "# What the audit of a synthetic set claims, and what is true", "",
        f"`python recipes/synthetic_truth.py DATA{named} --splits {given.splits} --clean {given.clean}`", "", TEXT, "",
        *lines, "",
    ])  # fmt: skip
    print(page)
    if given.out:
        given.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
