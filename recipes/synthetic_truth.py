"""Does the audit of a synthetic set keep what its report claims? Sets of real images with hidden copies, as the truth.

    python recipes/synthetic_truth.py DATA [--detector SOURCE ...] [--splits 40] [--clean 200]
        [--out docs/results/synthetic_truth.md]

The patients of a data set are split at random into training, held out and others. The "synthetic set" is all images of
the others, who are nobody's copies, and one copy each of as many random training patients as the report speaks of, of
a random one of the seven kinds. The audit hides plants of its own besides. Its claims are then held to what is known:
copies found at the cut, patients without a copy found at it, and patients without a copy on the list. As many sets as
``--clean`` says have no copy; counted is how many of them fail by distance. The second look is not taken.

`default` compares in four ways (`memorisk.models.settings.DEFAULT_COMPARISONS`), as an audit does. The audit's own
parts are called on features that are computed once for all splits.
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

from memorisk.audits.comparison.distances import Distances, PixelCopies, measure_distances
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
from memorisk.models.settings import DEFAULT_COMPARISONS, DEFAULT_DETECTOR
from memorisk.runs.workload import no_progress
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, SINGLED_OUT_LEVEL
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

SIDE, VOXELS, LEVEL = 64, 32, 0.992
UNDER_TWO_IDS = ("ISIC_0030835", "ISIC_0031799")
"""Photographs of lesions that HAM10000 holds under another id as well (ISIC_0027820, ISIC_0029130: the same diagnosis,
age, sex and site, and nearly the same picture): left out, since their copies would count as of somebody not copied."""
CLAIMS = ("noticed", "chance", "list", "fails")
STRENGTHS = {
    "rotated": {"mildest": 5, "strongest": 20, "stronger": 30},
    "noised": {"mildest": 0.02, "strongest": 0.10, "stronger": 0.15},
    "jpeg": {"mildest": 70, "strongest": 10, "stronger": 5},
    "cropped": {"mildest": 0.95, "strongest": 0.75, "stronger": 0.65},
    "pasted": {"mildest": 0.7, "strongest": 0.5, "stronger": 0.4},
}
"""Degrees, deviation of the noise, quality, and shares of either side; the first two are the limits of a kind."""
PER_STRENGTH = 4
"""Number of copies of each kind and strength in a split."""
_ARRAYS = ("pixels", "kind", "parameter", "source", "base", "required")
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
STRENGTHS_TEXT = """Noticed at one strength, in percent with exact intervals at 95 %: the mildest and the strongest that
are planted, and a stronger one that is planted nowhere. A report claims the share over all planted strengths, which is
an average: of the strongest copies fewer are noticed, of stronger ones fewer still. A pass says nothing of the
latter. By `default` a pasted region is noticed where it holds one of sixteen windows of 35 % of the side: of regions of
50 % about half do, of 40 % a tenth. The second look, which is not taken here, confirms most crops and pastes of the
planted strengths (`copies_found.md`)."""
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
    n_plants: int
    """Number of plants as the audit draws them; those after them have one strength each."""


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
        return Split(Sets(train, others, held, 0, 0, frozenset(), ()), rows, options, NOBODY, NOBODY, 0)
    drawn = draw_plants(train, others, world.plants, seed)
    plants = joined(drawn, plants_of_strengths(train, others, rng))
    patients = rng.permutation(np.unique(train.manifest.groups.astype(str)))
    n_copied = max(1, math.ceil(world.copied * len(patients)))
    return Split(
        Sets(train, others, held, 0, 0, frozenset(), ()), rows, options, plants,
        copies_of(train, others, patients[:n_copied], rng), drawn.n,
    )  # fmt: skip


def plants_of_strengths(train: ImageStore, others: ImageStore, rng: np.random.Generator) -> Plants:
    """Copy `PER_STRENGTH` random training images at each strength of each kind that has strengths."""
    pixels, kind, source = [], [], []
    for name in planted_kinds((), of_volumes=is_volume(train.images.shape)):
        for words, value in STRENGTHS.get(name, {}).items():
            one = replace(ALL_KINDS[name], limits=(value, value))
            for row in rng.choice(len(train.images), PER_STRENGTH, replace=False):
                base = np.asarray(others.images[int(rng.integers(len(others.images)))])
                copy = plant_copy(one, np.asarray(train.images[int(row)]), base, rng)
                if copy is not None:
                    pixels, kind, source = [*pixels, copy.pixels], [*kind, f"{name}, {words}"], [*source, row]
    words, empty = np.array(kind, dtype=object), np.full(len(kind), "", dtype=object)
    rows, none = np.array(source), np.full(len(kind), -1)
    return Plants(np.stack(pixels), words, empty, rows, none, np.zeros(len(kind), bool), len(kind))


def joined(first: Plants, second: Plants) -> Plants:
    """Return the plants of two drawings, of which the first has the required ones."""
    parts = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _ARRAYS}
    return replace(first, **parts)


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


@dataclass(frozen=True, eq=False)
class Way:
    """One way to compare, with the features of all images."""

    detector: PairDetector
    as_sources: np.ndarray
    """[N, d] features of the images of the world."""
    as_copies: np.ndarray
    """[N, e] features of the same images as copies of others."""
    hidden: np.ndarray
    """[P, e] features of the plants and copies of all splits."""

    @property
    def by_parts(self) -> bool:
        """Whether parts of images are compared."""
        return self.detector.source.by_parts


def ways_of(source: str, world: World, hidden: np.ndarray) -> list[Way]:
    """Compute the features of the world and of hidden copies by each way of a detector.

    Args:
        source: Detector; the default one compares in four ways.
        world: Data set.
        hidden: Pixels of plants and copies of all splits, [P, H, W, C].
    """
    ways = []
    for name in DEFAULT_COMPARISONS if source == DEFAULT_DETECTOR else [source]:
        detector = open_pair_detector(name)
        copies = store_of(hidden, world.store)
        ways.append(Way(detector, *(
            np.asarray(detector.features(store, as_copies=as_copies).values)
            for store, as_copies in ((world.store, False), (world.store, True), (copies, True))
        )))  # fmt: skip
    return ways


def audited(source: str, world: World, splits: Sequence[Split], clean: int) -> dict[str, np.ndarray]:
    """What the report claims, and what is true, [splits] each; and of sets without copies whether they fail."""
    hidden = [pixels for one in splits for pixels in (one.plants.pixels, one.copies.pixels)]
    ways, at, rows = ways_of(source, world, np.concatenate(hidden)), 0, []
    for one in splits:
        ends = at + one.plants.n, at + one.plants.n + one.copies.n
        rows.append(held_to_truth(ways, one, slice(at, ends[0]), slice(*ends)))
        at = ends[1]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: np.array([row.get(name, math.nan) for row in rows], dtype=float) for name in names}
    fails = [fails_without_copies(ways, split(world, 1000 + seed, copied=False)) for seed in range(clean)]
    return columns | {"fails": np.array(fails)}


def distances_of(way: Way, one: Split, sets: Sets, plants: np.ndarray, copies: np.ndarray) -> Distances:
    """Compare the images of a split in one way.

    Args:
        way: Way to compare.
        one: Split.
        sets: Its sets, with the copies among the synthetic images.
        plants: Features of the plants.
        copies: Features of the copies.
    """
    train, held, others = (
        values[rows] for values, rows in zip((way.as_sources, way.as_sources, way.as_copies), one.rows, strict=True)
    )
    tables = FeatureTables(train, held, np.concatenate([others, copies]), plants, None, False, (), 0, 0)  # pyright: ignore
    similarity = way.detector.similarity(np.concatenate([train, held]))
    return measure_distances(tables, similarity, sets, one.plants, no_progress, compares_real=not way.by_parts)


def fails_without_copies(ways: Sequence[Way], one: Split) -> bool:
    """Whether a set of other patients fails by distance."""
    distances = [distances_of(way, one, one.sets, way.hidden[:0], way.hidden[:0]) for way in ways]
    pixels = _no_pixels(*(len(rows) for rows in one.rows), 0)
    findings = compute_findings(one.sets, distances, pixels, one.plants, one.options)
    return bool(findings.n_listed_at_verdict or findings.p_ahead <= AHEAD_LEVEL)


def held_to_truth(ways: Sequence[Way], one: Split, plants: slice, copies: slice) -> dict[str, float]:
    """One audit's claims and the truth.

    Args:
        ways: Ways to compare.
        one: Split.
        plants: Rows of its plants among the hidden images.
        copies: Rows of its copies among them.
    """
    hidden = store_of(one.copies.pixels, one.sets.train)
    sets = replace(one.sets, synthetic=stack_stores([one.sets.synthetic, hidden]))
    distances = [distances_of(way, one, sets, way.hidden[plants], way.hidden[copies]) for way in ways]
    n_others, n = len(one.sets.synthetic.images), len(sets.synthetic.images)
    pixels = _no_pixels(len(one.rows[0]), len(one.rows[1]), n, one.plants.n)
    findings = compute_findings(sets, distances, pixels, one.plants, one.options)
    assert findings.queries is not None
    assert findings.power is not None
    groups = sets.train.manifest.groups.astype(str)
    copied = np.isin(findings.unit, groups[one.copies.source])
    by_chance = False
    for way, found in zip(distances, findings.by, strict=True):
        assert found.singled is not None
        of_copied = np.isin(groups[way.nearest[:n_others]], findings.unit[copied])
        by_chance |= bool((found.singled.images[:n_others] & ~of_copied).any())
    shares = {f"noticed {kind}": float(share.successes) for kind, share in findings.also.items()}
    shares |= {f"tried {kind}": float(share.trials) for kind, share in findings.also.items()}
    for kind, claimed in findings.power.kinds.items():
        of_kind = one.copies.kind == kind
        shares[f"claimed {kind}"] = claimed.estimate
        shares[f"true {kind}"] = findings.singled[n_others:][of_kind].mean() if of_kind.any() else math.nan
    return shares | {
        "train": len(findings.unit),
        "held": findings.queries.n_held,
        "images": n_others,
        "copied": int(copied.sum()),
        "claimed": findings.power.recall.estimate,
        "lower": findings.power.recall.low,
        "true": float(findings.singled[n_others:].mean()),
        "chance": float(by_chance),
        "listed": int(findings.listed.sum()),
        "wrong": float((findings.listed & ~copied).sum() / max(1, findings.listed.sum())),
        "flagged": float(findings.exposing[:n_others].mean()),
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


def strengths_row(name: str, detector: str, columns: dict[str, np.ndarray]) -> dict[str, str]:
    """Noticed of each kind at each strength, over all splits, in percent."""
    cells = {}
    for kind, strengths in STRENGTHS.items():
        shares = []
        for words in strengths:
            counts = [columns.get(f"{what} {kind}, {words}", np.zeros(0)) for what in ("noticed", "tried")]
            noticed, tried = (int(np.nansum(count)) for count in counts)
            if tried:
                share = clopper_pearson(noticed, tried, 0.95)
                shares.append(f"{100 * share.estimate:.0f} ({100 * share.low:.0f} to {100 * share.high:.0f})")
        cells[kind] = "; ".join(shares) or "none of volumes"
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
    rows, kinds, strengths = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for world in worlds(given.data, Path(name)):
            if given.sets and not any(word in world.name for word in given.sets):
                continue
            splits = [split(world, seed) for seed in range(given.splits)]
            own = list(sources.values())[: 1 if is_volume(world.store.shape) else None]  # pixels:16 takes no volumes
            for text in given.detector or own:
                label = next((label for label, source in sources.items() if source == text), text)
                columns = audited(text, world, splits, given.clean)
                rows.append(row_of(world.name, label, columns))
                kinds.append(kinds_row(world.name, label, columns))
                strengths.append(strengths_row(world.name, label, columns))
                print(rows[-1], kinds[-1], strengths[-1], flush=True)
    ends = "; ".join(f"{kind} {', '.join(f'{value:g}' for value in at.values())}" for kind, at in STRENGTHS.items())
    lines = [*table(rows), "", KINDS_TEXT, "", *table(kinds), "", f"{STRENGTHS_TEXT} Strengths: {ends}.", "",
             *table(strengths)]  # fmt: skip
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
