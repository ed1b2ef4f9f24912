"""The published rules for finding copies beside the corrected ones, on one set of embeddings.

    python recipes/published_defects.py DATA [--out docs/results/published_defects.md]

HAM10000 images in DATA (one a lesion) are split into training, validation and others; a detector (SqueezeNet 1.1 from
ImageNet, 128 numbers, InfoNCE) is trained on the first. All images and a copy of each are embedded once; what the two
columns differ by are rules. Mixtures that copied nobody, and planted copies left in the list:
``synthetic_null.py``.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.models.copy_detectors import load_detector
from memorisk.runs.errors import InputError
from memorisk.scores.distances import MEASURES, FittedMeasure, fit_measure, nearest, pairwise
from memorisk.scores.distances.published_code import published_neighbours
from memorisk.statistics.copies.calibration import equal_pools, percentile_threshold
from memorisk.statistics.copies.copy_detection import (
    PoolDetection,
    Queries,
    corrected_pools,
    false_flags,
    published_pools,
)
from memorisk.statistics.intervals.shares import Proportion
from memorisk.training.detectors.contrastive.augmentations import augmented_copies
from memorisk.training.detectors.contrastive.fit import fit_detector
from memorisk.training.detectors.options import DetectorOptions

NETWORK = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"
PARTS = (0.5, 0.25, 0.25)  # of the lesions: training, validation, other lesions
TAU, IMAGES, SIDE, LR = 5.0, 1600, 64, 3e-4
SIGNED = ("braycurtis", "canberra", "jensenshannon")

MEASURES_TEXT = """\
Copies of validation images asked among validation images. Published: tau is the 5th percentile of training images
asked among validation images, images as they come; of cosine and correlation the *largest* distance is taken for the
most similar image, covariance and variances are fitted to whatever stands in a call. Corrected: the smallest distance,
parameters fitted once, a threshold from half of the other lesions at 95 % specificity *per lesion*, the other half as
false flags, as many references in both pools, and the source itself must be the nearest. Signed: as SciPy computes the
measure of negative numbers, for which it is not defined; shift: less the smallest training value. Shares of lesions,
their Clopper-Pearson intervals and number."""
REFITTED_TEXT = """\
The distance of one and the same pair of images."""
POOLS_TEXT = """\
Euclidean distance; nobody here has an image among the references, so that 5 % is due everywhere. More references are
nearer without any copy."""
OTHERS_TEXT = """\
Generators that saw no image individually (mixtures with spread 0.8, 1.0, 1.1), the usual direction with unmatched and
matched pools, and planted copies left in the list: [synthetic_null.md](synthetic_null.md)."""


@dataclass(frozen=True)
class Embedded:
    """Some images: features, of their copies, too, and whose they are."""

    values: np.ndarray
    copies: np.ndarray
    groups: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> "Embedded":
        """Some of them."""
        return Embedded(self.values[rows], self.copies[rows], self.groups[rows])


def embed(data: Path, strength: str, epochs: int, seed: int, folder: Path) -> list[Embedded]:
    """Training, validation and other lesions: embeddings by a detector trained on the first, and of a copy of each."""
    options = ImageOptions(size=SIDE)
    store = build_store(load_manifest(data / "ham10000_224", options), options)
    order = np.random.default_rng(seed).permutation(len(store.images))[:IMAGES]
    parts = np.split(order, np.cumsum(np.rint(np.array(PARTS[:-1]) * IMAGES).astype(int)))
    groups = np.asarray(store.manifest.groups)
    how = DetectorOptions(
        backbone=NETWORK.format(data=data), augment=strength, epochs=epochs, lr=LR, frozen_epochs=1,
        network_size=SIDE, seed=seed,
    )  # fmt: skip
    fit_detector(store, parts[0], parts[1], groups, how, folder)
    detector = load_detector(folder)
    found = []
    for rows in parts:
        copies = augmented_copies(store.images, rows, strength, seed=seed + 1)
        pair = [np.asarray(detector.embed(pixels), dtype=np.float64) for pixels in (store.images[rows], copies)]
        found.append(Embedded(pair[0], pair[1], groups[rows]))
    return found


def published(name: str, train: Embedded, validation: Embedded, others: Embedded) -> tuple[PoolDetection, Proportion]:
    """The paper's validation ratio at the paper's tau, and how many other lesions the same tau flags."""

    def ask(queries: np.ndarray, groups: np.ndarray, pool: Embedded, own: bool) -> Queries:
        """Queries as the published code answers them; the source is right where it is the chosen row."""
        found = published_neighbours(name, queries, pool.values)
        right = found.indices == np.arange(len(queries)) if own else None
        return Queries(found.scores, groups, len(pool.values), right)

    baseline = ask(train.values, train.groups, validation, own=False)
    _, pool = published_pools(
        ask(train.copies, train.groups, train, own=True),
        ask(validation.copies, validation.groups, validation, own=True),
        baseline,
        percent=TAU,
    )
    stranger = ask(others.values, others.groups, validation, own=False)
    return pool, false_flags(stranger.distance, stranger.group, pool.threshold)


def corrected(measure: FittedMeasure, train: Embedded, validation: Embedded, others: Embedded) -> PoolDetection:
    """Each pool's own null, as many references in both, the smallest distance, the right source."""

    def ask(queries: np.ndarray, groups: np.ndarray, pool: Embedded, own: bool) -> Queries:
        """Queries with the nearest row by the definition."""
        found = nearest(queries, pool.values, measure)
        right = found.indices[:, 0] == np.arange(len(queries)) if own else None
        return Queries(found.distances[:, 0], groups, len(pool.values), right)

    kept, also = equal_pools(train.groups, validation.groups)
    train, validation = train[kept], validation[also]
    _, pool = corrected_pools(
        ask(train.copies, train.groups, train, own=True),
        ask(others.values, others.groups, train, own=False),
        ask(validation.copies, validation.groups, validation, own=True),
        ask(others.values, others.groups, validation, own=False),
    )
    return pool


def share(found: Proportion) -> str:
    """A share with its interval and units."""
    return f"{100 * found.estimate:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f}; {found.trials})"


def settings_of(name: str) -> dict[str, dict[str, str]]:
    """How the corrected form of a measure is fitted; where negative numbers can be met in two ways, both."""
    if name in SIGNED:
        return {f"{name}, {domain}": {"domain": domain} for domain in ("signed", "shift")}
    return {name: {"binarise": "median"} if name in ("dice", "matching") else {}}


def measures_table(parts: list[Embedded]) -> list[str]:
    """Every measure by both rules."""
    train, validation, others = parts
    lines = [
        "| measure | published: copies recognised | other lesions flagged | corrected: copies recognised "
        "| by the right image | other lesions flagged |",
        "|---|---|---|---|---|---|",
    ]
    for name in MEASURES:
        try:
            pool, flagged = published(name, *parts)
            left = f"{share(pool.detection.recognised)} | {share(flagged)}"
        except InputError as error:
            left = f"{error} | "
        for label, settings in settings_of(name).items():
            now = corrected(fit_measure(name, train.values, **settings), train, validation, others)
            lines.append(
                f"| {label} | {left} | {share(now.detection.recognised)} | {share(now.detection.right)} "
                f"| {share(now.false_flags)} |"
            )
            left = " | "
    return lines


def refitted_table(parts: list[Embedded]) -> list[str]:
    """How far the distance of the same pair moves with what else is asked."""
    train, validation, others = parts
    pair = validation.copies[:1], validation.values[:1]
    lines = [
        "| the first validation image's copy, asked together with | refitted at each call: mahalanobis | seuclidean "
        "| fitted once: mahalanobis | seuclidean |",
        "|---|---|---|---|---|",
    ]
    once = {name: fit_measure(name, train.values) for name in ("mahalanobis", "seuclidean")}
    for label, queries in (
        ("all validation copies", validation.copies),
        ("the same and other lesions' images", np.concatenate([validation.copies, others.values])),
        ("training copies", np.concatenate([pair[0], train.copies])),
    ):
        together = np.concatenate([queries, validation.values])
        again = [pairwise(*pair, fit_measure(name, together))[0, 0] for name in once]
        fixed = [pairwise(*pair, measure)[0, 0] for measure in once.values()]
        lines.append(f"| {label} | {' | '.join(f'{value:.2f}' for value in again + fixed)} |")
    return lines


def pools_table(parts: list[Embedded], seed: int) -> list[str]:
    """Nobody is copied: other lesions' images at a tau from as many and from fewer references."""
    train, validation, others = parts
    measure = fit_measure("euclidean", train.values)
    half = np.random.default_rng(seed).permutation(np.unique(others.groups))
    made, asked = (others[np.isin(others.groups, part)] for part in np.array_split(half, 2))
    lines = ["| tau from other lesions among | asked among | references | images below tau |", "|---|---|---|---|"]
    small = validation.values[: len(validation.values) // 4]
    for label, first in (("validation images", validation.values), ("a quarter of them", small)):
        tau = percentile_threshold(nearest(made.values, first, measure).distances[:, 0], TAU)
        for other, second in (
            ("a quarter of them", small),
            ("validation images", validation.values),
            ("training images", train.values),
        ):
            below = tau.flags(nearest(asked.values, second, measure).distances[:, 0])
            lines.append(
                f"| {label} | {other} | {len(first)}, {len(second)} | {100 * below.mean():.1f} % of {len(below)} |"
            )
    return lines


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--strength", default="weak", choices=("weak", "strong"))
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        parts = embed(given.data, given.strength, given.epochs, given.seed, Path(name) / "detector")
    sizes = ", ".join(f"{len(part.values)}" for part in parts)
    page = [
        "# Published rules beside corrected ones",
        "",
        f"`python recipes/published_defects.py DATA --strength {given.strength} --epochs {given.epochs}`: "
        f"a detector trained on HAM10000 at {SIDE} px (training, validation, others: {sizes} lesions), "
        f"and a {given.strength}ly augmented copy of each image.",
        "",
        "## Every measure by both rules",
        "",
        MEASURES_TEXT,
        "",
        *measures_table(parts),
        "",
        "## A covariance fitted anew at each call",
        "",
        REFITTED_TEXT,
        "",
        *refitted_table(parts),
        "",
        "## Pools of unequal size",
        "",
        POOLS_TEXT,
        "",
        *pools_table(parts, given.seed),
        "",
        OTHERS_TEXT,
        "",
    ]
    print("\n".join(page))
    if given.out:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
