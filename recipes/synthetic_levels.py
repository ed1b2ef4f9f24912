"""How often does chance list or single out a person of an honest set of images? The level of ``default``.

    python recipes/synthetic_levels.py DATA [--audits 200] [--out docs/results/synthetic_levels.md]

Real sets, one image per person; images of two ids with equal pixels count once. Two thirds of the people are training
and held-out people, 5 to 3, drawn anew in each audit. The generator mixes two images of the other people, so that it
knows neither part; each audit has mixtures of its own. All pairs of images are compared once in the four ways of
``default``, and each audit looks its distances up. Everything after the distances is the audit's own code. A set
fails by distance where somebody is listed, or more people lie nearer than every held-out one than chance explains.
Pixels and the second look have nulls of their own (`near_copies.md`, `alignment.md`).
"""

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from copies_found import read_rows
from memorisk.audits.comparison.distances import measure_distances
from memorisk.audits.comparison.features import FeatureTables
from memorisk.audits.comparison.plants import Plants
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.synthetic import findings
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.images.pixels import hash_pixels
from memorisk.models.settings import DEFAULT_COMPARISONS, DEFAULT_DETECTOR
from memorisk.runs.workload import no_progress
from memorisk.scores.similarity import Nearest
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL, PREREQUISITE_LEVEL
from memorisk.training.detectors.pair_detectors import open_pair_detector
from near_copies import SETS, Set
from verdict_truth_sets import pixel_copies, simulated_store

NAMES = ("eye scans (OCT)", "skin lesions", "CIFAR-10", "Fashion-MNIST")
PEOPLE, SET = 900, 100
"""People at most, and mixtures in each set."""
LARGEST_WEIGHT = 0.6
"""Of one of two images in a mixture."""
_COPIES = 64  # searched at a time
_ALONE = tuple(f"singled out by {way} alone" for way in DEFAULT_COMPARISONS)
_COUNTS = ("fails", "listed", "singled out", "parts not alike", *_ALONE)


@dataclass(frozen=True, eq=False)
class KnownScores:
    """Scores of pairs that are known: the features of an image are its row."""

    table: np.ndarray
    """[people + mixtures, people] scores of copies with sources."""
    words, at_half = "known scores", float("nan")

    @property
    def reversed(self) -> "KnownScores":
        """Return the scores of sources as queries."""
        return KnownScores(self.table.T)

    def nearest(
        self, queries: np.ndarray, references: np.ndarray, k: int = 1, *, exclude_same: Any = None, device: str = "cpu"
    ) -> Nearest:
        """Search as `memorisk.scores.similarity.Similarity` does."""
        scores = self.table[np.ix_(queries[:, 0], references[:, 0])]
        if exclude_same is not None:
            scores = np.where(np.asarray(exclude_same[0])[:, None] == np.asarray(exclude_same[1]), -np.inf, scores)
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(scores, rows, 1)
        return Nearest(np.where(np.isfinite(best), rows, -1), best)


@dataclass(frozen=True, eq=False)
class Pool:
    """Images of people, then mixtures of other people, compared once."""

    n_people: int
    tables: dict[str, np.ndarray]
    """[people + mixtures, people] scores of copies with sources, by each way."""


def pool_of(one: Set, data: Path, n_audits: int, seed: int) -> Pool:
    """Read the images of a set, mix those of a third of its people, and compare all pairs.

    Args:
        one: Set of images.
        data: Folder of the sets.
        n_audits: Number of sets of mixtures.
        seed: Of the people, their images and the mixtures.
    """
    rng, whose = np.random.default_rng([71, seed]), one.whose(data)
    people = rng.permutation(np.unique(whose))[:PEOPLE]
    rows = np.array([rng.choice(np.flatnonzero(whose == person)) for person in people])
    pixels = np.stack(read_rows(one, data, rows))
    pixels = pixels[np.sort(np.unique([hash_pixels(image) for image in pixels], return_index=True)[1])]
    n = 2 * len(pixels) // 3
    pairs = np.stack([rng.choice(np.arange(n, len(pixels)), 2, replace=False) for _ in range(n_audits * SET)])
    weight = rng.uniform(1 - LARGEST_WEIGHT, LARGEST_WEIGHT, (len(pairs), 1, 1, 1))
    mixed = weight * pixels[pairs[:, 0]] + (1 - weight) * pixels[pairs[:, 1]]
    images = np.concatenate([pixels[:n], np.rint(mixed).astype(np.uint8)])
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "images.npz", images=images)
        return Pool(n, {way: all_scores(way, Path(folder) / "images.npz", n) for way in DEFAULT_COMPARISONS})


def all_scores(way: str, images: Path, n_people: int) -> np.ndarray:
    """[n, n_people] scores of every image as a copy with every person's as its source; fitted on the people's."""
    detector = open_pair_detector(way)
    vectors = detector.features(images).values
    people = vectors[:n_people]
    similarity = detector.similarity(people)
    scores = np.empty((len(vectors), n_people))
    for start in range(0, len(vectors), _COPIES):
        ranked = similarity.nearest(vectors[start : start + _COPIES], people, n_people)
        np.put_along_axis(scores[start : start + _COPIES], ranked.rows, ranked.scores, axis=1)
    return scores


def audited(pool: Pool, number: int, seed: int) -> Counter[str]:
    """Audit one split of the people and one set of mixtures."""
    rng = np.random.default_rng([73, seed, number])
    train, held = np.split(rng.permutation(pool.n_people), [5 * pool.n_people // 8])
    made = pool.n_people + SET * number + np.arange(SET)
    train_store, made_store, held_store = (
        simulated_store(name, np.arange(len(rows))) for name, rows in (("train", train), ("made", made), ("held", held))
    )
    sets, nothing = Sets(train_store, made_store, held_store, 0, 0, frozenset(), ()), np.empty(0, np.int64)
    words, required = nothing.astype(object), nothing.astype(bool)
    plants = Plants(np.empty((0, 1, 1, 1), np.uint8), words, words, nothing, nothing, required, 0)
    described: Any = SimpleNamespace(encoder="", state="no network")
    train, held, made, nothing = (rows[:, None] for rows in (train, held, made, nothing))
    tables = FeatureTables(train, held, made, nothing, described, False, (), 0, 0)
    distances = []
    for way in DEFAULT_COMPARISONS:
        scores: Any = KnownScores(pool.tables[way])
        by_parts = way != DEFAULT_DETECTOR
        one = measure_distances(tables, scores, sets, plants, no_progress, compares_real=not by_parts)
        distances.append(replace(one, of_parts=by_parts))
    options = SyntheticOptions(seed=number, one_image_per_patient=True)
    every = findings.compute_findings(sets, distances, pixel_copies(np.full(SET, -1), plants), plants, options)
    counts = Counter({
        "fails": int(bool(every.n_listed_at_verdict or every.p_ahead <= AHEAD_LEVEL)),
        "listed": int(every.listed.any()),
        "singled out": int(every.singled.any()),
        "parts not alike": int(every.unlike is not None and every.unlike.p_value <= PREREQUISITE_LEVEL),
    })  # fmt: skip
    for name, one in zip(_ALONE, every.by, strict=True):
        assert one.singled is not None
        counts[name] = int(one.singled.images.any() or one.singled.train.any())
    return counts


def main() -> None:
    """Count, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    findings.literature_statistics = lambda *_: None  # pyright: ignore (figures of the literature, which no level reads)
    lines = [f"| set | people | audits | {' | '.join(_COUNTS)} |", "|---|" + "--:|" * (2 + len(_COUNTS))]
    for one in (each for each in SETS if each.name in given.names):
        pool, total = pool_of(one, given.data, given.audits, given.seed), Counter[str]()
        for number in range(given.audits):
            total.update(audited(pool, number, given.seed))
        shares = [clopper_pearson(total[name], given.audits, 0.95) for name in _COUNTS]
        cells = (f"{s.estimate:.1%} ({s.low:.1%} to {s.high:.1%})" for s in shares)
        lines.append(f"| {one.name} | {pool.n_people} | {given.audits} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    page = ["# How often does chance list or single out a person?", "", *str(__doc__).splitlines()[2:], "",
            "In brackets: exact intervals at 95 %.", "", *lines, ""]  # fmt: skip
    if given.out:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
