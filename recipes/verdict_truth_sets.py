"""Is the verdict on a synthetic set true? Simulated audits with known truth: METHODS section 6, "Synthetic".

    python recipes/verdict_truth_sets.py [--repeats 200] [--rows nobody "1 noised" ...] [--kept FOLDER]
        [--out docs/results/verdict_truth_sets.md]

Patients are points of a mixture of five Gaussians, an image each or one to five, split at random into 1,000 training
and 200 held-out ones; the generator is the mixture itself, fitted to the training part, or narrower. Copies take the
place of drawn images. Everything after the features is the audit's own code: distances, list, plants, cuts, verdict,
and what a person said of pairs. Audits that are counted in a folder (--kept) are not made again.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.distances import Distances, PixelCopies, measure_distances
from memorisk.audits.comparison.evidence import SyntheticEvidence
from memorisk.audits.comparison.features import FeatureTables
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.review import NO_REVIEW, Review
from memorisk.audits.comparison.review_files import CONFIRM, DISMISS, Judgement
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic import findings
from memorisk.audits.synthetic.analysis import numbers_of
from memorisk.audits.synthetic.findings import compute_findings
from memorisk.audits.synthetic.flags import singled_pairs
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.result import NEAR_COPIES, SECOND_LOOK
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.copies.near_copies import NO_PAIRS, BestMatches
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.runs.workload import no_progress
from memorisk.scores.similarity import Nearest
from memorisk.statistics.intervals.shares import clopper_pearson

COMPONENTS, PLANTED = 5, 40
JUDGED = 50
"""Audits of a row in which a person judges pairs, the first ones."""
SETTINGS = {"plants": PLANTED, "plant_kinds": ("exact", "noised", "rotated"), "one_image_per_patient": True}
MOVED = {"exact": 0.0, "noised": 0.2, "rotated": 0.3}
"""How far a copy of each kind lies from its source, in standard deviations of every feature."""
BLENDS = {"blended": 0.85, "blended more": 0.7}
"""Share of the source in copies as no plant is, the rest being a drawn image: as far as noised ones, and farther."""


@dataclass(frozen=True)
class World:
    """What is true in a row of the table."""

    copies: int = 0
    kind: str = "noised"
    """Of MOVED or BLENDS."""
    fitted: bool = False
    """Whether the generator is fitted to the training part; else it is the mixture that patients come from."""
    spread: float = 1.0
    """Of the generator, in that of its components."""
    dimensions: int = 64
    n_train: int = 1000
    n_held: int = 200
    n_synthetic: int = 500
    most_images: int = 1
    """Images a patient, one to so many."""
    same_people: float = 0.0
    """Share of the held-out patients who are training patients under other ids, each by another image; copies are of
    these first."""
    narrow_held: float = 1.0
    """Spread of the held-out patients, in that of the training patients."""
    inverted: bool = False
    """Whether the whole set, copies and all, stands with its sign exchanged, as an export in negative would."""


ROWS = {
    "nobody": World(),
    "nobody, fitted": World(fitted=True),
    "nobody, narrow generator (0.5)": World(spread=0.5),
    "nobody, narrow generator (0.5), beside 800": World(spread=0.5, n_held=800),
    "nobody, wide generator (1.2)": World(spread=1.2),
    "nobody, 16 features": World(dimensions=16),
    "nobody, 1 to 5 images a patient": World(most_images=5),
    "nobody, 300 beside 100": World(n_train=300, n_held=100, n_synthetic=300),
    **{f"{n} {kind}": World(n, kind) for n in (1, 10) for kind in ("noised", "rotated", "blended")},
    "3 noised": World(3),
    "1 exact": World(1, "exact"),
    "1 blended more": World(1, "blended more"),
    "1 noised, narrow generator (0.5)": World(1, spread=0.5),
    "10 noised, 16 features": World(10, dimensions=16),
    "1 noised, 1 to 5 images a patient": World(1, most_images=5),
    "1 noised, 300 beside 100": World(1, n_train=300, n_held=100, n_synthetic=300),
    "nobody, held-out people are training people": World(same_people=1.0),
    "nobody, 10 % of held-out people are": World(same_people=0.1),
    "10 noised, held-out people are training people": World(10, same_people=1.0),
    "10 noised, 10 % of held-out people are": World(10, same_people=0.1),
    "10 noised, held-out people of another hospital": World(10, narrow_held=0.8),
    "10 noised, the whole set inverted": World(10, inverted=True),
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """One simulated set."""

    features: FeatureTables
    sets: Sets
    plants: Plants
    copies: frozenset[int]
    """Rows of the synthetic images that copy somebody."""
    equal: np.ndarray
    """[S] row of the training image that an image is, -1 for none."""


class Euclidean:
    """Euclidean distance by one matrix product, the neighbours' own distances computed directly."""

    words, at_half = "euclidean", float("nan")

    @property
    def reversed(self) -> "Euclidean":
        """Itself: roles do not count."""
        return self

    def scores(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """[n] minus the distance of each row to the row beside it."""
        return -np.sqrt(np.square(first - second).sum(1))

    def nearest(
        self, queries: np.ndarray, references: np.ndarray, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """As `memorisk.scores.similarity.Similarity`."""
        n, k = len(queries), min(k, len(references))
        apart = np.square(references).sum(1) - 2 * queries @ references.T  # less each query's length: it ranks nothing
        if exclude_same is not None:
            ids = np.unique(np.concatenate([np.asarray(part) for part in exclude_same]), return_inverse=True)[1]
            apart[ids[:n, None] == ids[n:]] = np.inf
        rows = apart.argmin(1)[:, None] if k == 1 else np.argpartition(apart, k - 1, axis=1)[:, :k]
        distance = np.sqrt(np.square(queries[:, None] - references[rows]).sum(2))
        distance[~np.isfinite(np.take_along_axis(apart, rows, 1))] = np.inf
        order = np.argsort(distance, axis=1, kind="stable")
        rows, distance = np.take_along_axis(rows, order, 1), np.take_along_axis(distance, order, 1)
        return Nearest(np.where(np.isfinite(distance), rows, -1), -distance)


def draw(world: World, seed: int, n_plants: int = PLANTED) -> Drawn:
    """A set of that world.

    Args:
        world: What is true.
        seed: Of everything random.
        n_plants: Planted copies of each kind.
    """
    rng, d = np.random.default_rng([61, seed]), world.dimensions
    centres, scales = 2 * rng.normal(size=(COMPONENTS, d)), np.exp(0.4 * rng.normal(size=(COMPONENTS, d)))
    weights = rng.dirichlet(np.full(COMPONENTS, 3.0))
    of_train, of_held = (rng.integers(1, world.most_images + 1, n) for n in (world.n_train, world.n_held))

    def people(n: int, spread: float = 1.0) -> np.ndarray:
        """A point each of the mixture."""
        part = rng.choice(COMPONENTS, size=n, p=weights)
        return centres[part] + spread * scales[part] * rng.standard_normal((n, d))

    def images(of: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Images around their patients, 0.3 of the components' spread away; a patient of one image is that image."""
        several = counts.max() > 1 or world.same_people > 0
        return np.repeat(of, counts, axis=0) + several * 0.3 * rng.standard_normal((counts.sum(), d))

    train_people, held_people = people(world.n_train), people(world.n_held, world.narrow_held)
    known = round(world.same_people * world.n_held)
    held_people[:known] = train_people[:known]
    train, held = images(train_people, of_train), images(held_people, of_held)
    if world.fitted:
        part = np.square(train[:, None] - centres).sum(2).argmin(1)
        for c in range(COMPONENTS):
            if (part == c).sum() > 1:
                centres[c], scales[c] = train[part == c].mean(0), train[part == c].std(0)
        weights = np.bincount(part, minlength=COMPONENTS) / len(part)
    made, sd = people(world.n_synthetic, world.spread), train.std(0)
    first = np.r_[0, np.cumsum(of_train)[:-1]]
    sources = first[: world.copies] if known else first[rng.permutation(world.n_train)[: world.copies]]
    where = rng.permutation(world.n_synthetic)[: world.copies]
    made[where] = copied(train[sources], made[where], world.kind, sd, rng)
    made *= -1 if world.inverted else 1
    equal = np.full(world.n_synthetic, -1)
    equal[where[: len(sources)]] = sources if world.kind == "exact" else -1
    planted = [first[rng.permutation(world.n_train)[:n_plants]] for _ in MOVED]
    plants = [copied(train[rows], train[rows], kind, sd, rng) for kind, rows in zip(MOVED, planted, strict=True)]
    described = SimpleNamespace(encoder="simulated", state="no network")
    tables = (part.astype(np.float64) for part in (train, held, made, np.concatenate(plants)))
    kind = np.repeat(list(MOVED), n_plants).astype(object)
    nothing = np.empty((len(kind), 1, 1, 1), np.uint8)
    return Drawn(
        features=FeatureTables(*tables, described, False, (), 0, 0),  # type: ignore[arg-type]
        sets=Sets(
            simulated_store("train", np.repeat([f"t{i}" for i in range(world.n_train)], of_train)),
            simulated_store("made", np.array([f"s{i}" for i in range(world.n_synthetic)])),
            simulated_store("held", np.repeat([f"h{i}" for i in range(world.n_held)], of_held)),
            0, 0, frozenset(), (),
        ),
        plants=Plants(nothing, kind, kind, np.concatenate(planted), np.full(len(kind), -1), kind != "", n_plants),
        copies=frozenset(where.tolist()),
        equal=equal,
    )  # fmt: skip


def copied(source: np.ndarray, other: np.ndarray, kind: str, sd: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Copies of some images in one way."""
    if kind in BLENDS:
        return BLENDS[kind] * source + (1 - BLENDS[kind]) * other
    return source + MOVED[kind] * sd * rng.standard_normal(source.shape)


def simulated_store(name: str, groups: np.ndarray) -> ImageStore:
    """A store of which only ids and contents matter; its images show something, black and white."""
    ids = np.array([f"{name} {i}" for i in range(len(groups))], dtype=object)
    table = pd.DataFrame({"image": ids, "path": ids, "label": "", "group": groups}, dtype=object)
    nothing = pd.DataFrame({"image": [], "path": [], "reason": []})
    pixels = np.tile(np.array([0, 255], np.uint8).reshape(1, 1, 2, 1), (len(ids), 1, 1, 1))
    store = ImageStore(pixels, Manifest(table, None, name), name, Path(name), nothing, ids)
    vars(store)["data_hash"] = name
    return store


def audited(
    drawn: Drawn, options: SyntheticOptions, seed: int, review: Review = NO_REVIEW
) -> tuple[dict[str, Any], Any]:
    """Verdict of the audit, and the evidence with what was found."""
    sets, plants, real = drawn.sets, drawn.plants, Euclidean()
    distances = measure_distances(drawn.features, real, sets, plants, no_progress, review=review)  # type: ignore[arg-type]
    copies = pixel_copies(drawn.equal, plants, frozenset(review.pairs(sets, review.dismissed)))
    features = SimpleNamespace(notes=(), described=drawn.features.described, weak=False)
    view = SimpleNamespace(name="simulated", features=features, measure="euclidean", distances=distances)
    evidence = SyntheticEvidence(sets, plants, (view,), copies, None, review)  # type: ignore[arg-type]
    found = compute_findings(sets, [distances], copies, plants, replace(options, seed=seed), review)
    numbers = numbers_of(evidence, found, options)
    seen = tuple(check for check in numbers.checks if check.name not in (NEAR_COPIES, SECOND_LOOK))  # without pixels
    return synthetic_verdict(replace(numbers, checks=seen), options), SimpleNamespace(view=view, found=found)


def pixel_copies(equal: np.ndarray, plants: Plants, dismissed: frozenset[tuple[int, int]] = frozenset()) -> PixelCopies:
    """Pairs by pixels of images that have none.

    Args:
        equal: [S] row of the training image that an image is, -1 for none.
        plants: Of which exact ones show.
        dismissed: Pairs that a person dismissed.
    """
    nowhere, none = np.full(len(equal), -1), np.zeros(len(equal), bool)
    far = BestMatches(np.zeros(len(equal), np.intp), np.zeros(len(equal), np.float32), none)
    thumbnails = np.empty((0, 32, 32), np.uint8)
    exact = plants.kind == "exact"
    return PixelCopies(equal, nowhere, none, nowhere, far, NO_PAIRS, NO_PAIRS, thumbnails, dismissed, plants=exact)


def by_methods(d: Distances, plants: Plants) -> bool:
    """Whether METHODS' rule as written singles anybody out: nearer than every held-out patient, and within plants."""
    held = d.held.min()
    found = d.plant_source <= np.quantile(d.held, 0.05)
    ratio, plant_ratio = d.synthetic / d.second, d.plant_source / d.plant_other
    held_ratio = (d.synthetic_held / d.synthetic_held_second).min()
    near = far = -np.inf
    for kind in MOVED:
        mine = found & (plants.kind == kind)
        if mine.any():
            near, far = (max(a, np.quantile(b[mine], 0.95)) for a, b in ((near, d.plant_source), (far, plant_ratio)))
    return bool(((d.synthetic < held) & (d.synthetic <= near)).any() or ((ratio < held_ratio) & (ratio <= far)).any())


def one(world: World, seed: int, options: SyntheticOptions) -> Counter[str]:
    """One audit of a world; where pairs would decide it, a person who knows the truth judges them and it runs again."""
    drawn = draw(world, seed)
    verdict, seen = audited(drawn, options, seed)
    counts = Counter({verdict["status"]: 1, "singled": int(verdict["n_singled"] > 0)})
    counts["by METHODS"] = int(by_methods(seen.view.distances, drawn.plants))
    counts["power"] = int(verdict["fewest_copied"] == 1)
    counts["unlike"] = int(any(one["code"] in ("parts-not-alike", "parts-not-apart") for one in verdict["reasons"]))
    if seed < JUDGED and verdict["status"] == "undecided" and verdict["n_singled"]:
        counts["judged"] = 1
        judged = {}
        for pair in singled_pairs(seen.view, seen.found.by[0]).to_dict("records"):
            made, real = int(pair["synthetic"]), int(pair["train"])
            contents = (str(drawn.sets.synthetic.pixel_hashes[made]), str(drawn.sets.train.pixel_hashes[real]))
            judged[contents] = Judgement(CONFIRM if made in drawn.copies else DISMISS, "somebody", "looked")
        again = audited(drawn, options, seed, Review(judged))[0]["status"]
        counts[f"judged, then {again}"] = 1
    return counts


def row(name: str, repeats: int, kept: Path | None = None) -> Counter[str]:
    """All audits of a world; with a folder, those that are counted there are not made again."""
    options, file = synthetic_options(SETTINGS), None if kept is None else kept / f"{name}.json"
    findings.literature_statistics = lambda *_: None  # pyright: ignore (figures of the literature, which no verdict reads)
    total = Counter(json.loads(file.read_text()) if file and file.is_file() else {})
    for seed in range(total["audits"], repeats):
        total.update(one(ROWS[name], seed, options))
        total["audits"] += 1
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(total))
    return total


def table(counts: dict[str, Counter[str]]) -> list[str]:
    """The table, a row a world."""
    columns = ("pass", "undecided", "fail", "singled", "power", "by METHODS", "unlike")
    lines = [
        "| what is true | audits | pass (95 % upper limit) | undecided | fail | somebody singled out "
        "| one copy surely noticed | METHODS' rule singles out | parts not alike | after the pairs were judged |",
        "|" + "---|" * 10,
    ]
    for name, of in counts.items():
        shown = [f"{100 * of[column] / of['audits']:.1f} %" for column in columns]
        limit = clopper_pearson(of["pass"], of["audits"], 0.9).high  # one-sided at 95 %
        shown[0] += f" ({100 * limit:.1f})"
        after = [f"{what} {n}" for what in ("pass", "fail", "undecided") if (n := of[f"judged, then {what}"])]
        lines.append(f"| {name} | {of['audits']} | {' | '.join(shown)} | {', '.join(after) or '-'} |")
    return lines


TEXT = """\
# Is the verdict on a synthetic set true?

`python recipes/verdict_truth_sets.py`: 1,000 training and 200 held-out patients, 500 images,
64 features but where the row says otherwise; 40 planted copies of each of three kinds (exact, which pixels show; noised
by 0.2 and turned by 0.3 of the features' spread); `--recall 0.8`. Blended copies (0.85 of the source, as far from it as
noised ones; "more": 0.7, farther than any plant, of which a pass says nothing) are planted nowhere.

No row with copies of the planted kinds, or as near, passes in more than 1.5 % (upper limit), and no row without copies
fails in more than 5.5 %. One copy farther than all plants passes in most audits: a pass says nothing of these. METHODS'
rule finds the copies too, but singles somebody out in a third of honest narrow sets and in most where the detector is
weak: wherever a planted kind lies as far as the nearest held-out patient. Where the audits of the narrow generator were
undecided they asked for a trained detector, 400 or 800 held-out patients, or fewer kinds: beside 800 they decide.
A generator a fifth wider than the patients is mostly undecided, since most of its images lie farther than nine in ten
held-out patients; so is a set that is inverted as a whole, whose copies no planted one is like.

A pass with a copy present is the error that harms patients, a fail with none a false alarm. "METHODS' rule" is section
6 as written: nearer than every held-out patient and within the plants. In the last column a person who knows the truth
judged the pairs where the first {judged} audits were undecided with somebody singled out, and the audit was run again.

{table}
"""


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    counts = {}
    for name in given.rows:
        counts[name] = row(name, given.repeats, given.kept)
        print(table({name: counts[name]})[-1], flush=True)
    if given.out:
        given.out.write_text(TEXT.format(judged=JUDGED, table="\n".join(table(counts))))


if __name__ == "__main__":
    main()
