"""Copies that are really there: edited photos found by all 14 measures, and BUSI's near-duplicates, also unknown ones.

    python recipes/real_duplicates.py DATA [--out docs/results/real_duplicates.md]

DATA holds ``imagededup_pairs`` (originals with exact, flipped, resized, turned and grey copies, and two broken files),
``busi_ultrasound``, and as sets without copies of other people ``ham10000_224`` (one image a lesion) and
``nih_cxr14_64`` (patients by file name). Features are those of SqueezeNet 1.1 (ImageNet) and of plain pixels.
Names of images are printed, no image is.
"""

import argparse
from pathlib import Path

import numpy as np

from memorisk.images.copies.duplicates import details, thumbnail
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.scores.distances import MEASURES, FittedMeasure, fit_measure, nearest, pairwise
from memorisk.training.features.matrix import Features, load_features

KNOWN, LEAST = 0.95, 0.75
LIMITS = (0.6, LEAST, 0.9)
NETWORK = "squeezenet1_1_caffe@{data}/weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"
SOURCES = {"SqueezeNet": NETWORK, "pixels, 32 x 32": "pixels:32"}


def fit(name: str, references: np.ndarray) -> FittedMeasure:
    """A measure fitted on references, dice and matching on their medians."""
    return fit_measure(name, references, binarise="median" if name in ("dice", "matching") else None)


def stored(folder: Path, size: int, pattern: str | None = None) -> ImageStore:
    """Images of a folder, broken ones left out and listed."""
    options = ImageOptions(size=size, group_from=pattern, skip_unreadable=True)
    return build_store(load_manifest(folder, options), options)


def edited(data: Path) -> list[str]:
    """Every copy in the folder of edited photos: is its original the nearest, nearer than two originals ever are?"""
    store = stored(data / "imagededup_pairs" / "tests", 224)
    names = np.array([Path(name).stem for name in store.manifest.images])
    of = np.array([name[:12] for name in names])
    original = np.array(["base_images" in name for name in store.manifest.images])
    copies = np.flatnonzero(~original & np.isin(of, of[original]))
    lines = [
        f"{original.sum()} originals, {len(copies)} other files of them: "
        f"{', '.join(sorted({name[12:].strip('_') or 'exact' for name in names[copies]}))}. Left out as broken: "
        f"{', '.join(sorted(Path(name).name for name in store.skipped['image']))}.",
        "",
        "| features | measure | original is nearest | and nearer than two originals are |",
        "|---|---|---|---|",
    ]
    for label, source in SOURCES.items():
        values = load_features(store, source.format(data=data)).values
        for name in MEASURES:
            measure = fit(name, values[original])
            found = nearest(values[copies], values[original], measure)
            right = of[original][found.indices[:, 0]] == of[copies]
            apart = pairwise(values[original], values[original], measure)
            near = right & (found.distances[:, 0] < apart[~np.eye(len(apart), dtype=bool)].min())
            lost = sorted(set(names[copies][~near]))
            lines.append(
                f"| {label} | {name} | {right.sum()} of {len(copies)} | {near.sum()}{' (not: ' if lost else ''}"
                f"{', '.join(lost)}{')' if lost else ''} |"
            )
    return lines


def correlated(store: ImageStore) -> np.ndarray:
    """[n, n] correlation of the images' fine details (`images.copies.duplicates`), -1 on the diagonal."""
    fine = details(np.stack([thumbnail(image) for image in store.images]))
    similar = fine @ fine.T
    np.fill_diagonal(similar, -1)
    return similar


def mutual(features: Features, name: str) -> list[tuple[int, int, float]]:
    """Pairs that are each other's nearest neighbour, nearest first."""
    measure = fit(name, features.values)
    rows = np.arange(len(features))
    found = nearest(features.values, features.values, measure, exclude_same=(rows, rows))
    to, distance = found.indices[:, 0], found.distances[:, 0]
    pairs = [(int(a), int(to[a]), float(distance[a])) for a in rows if a < to[a] and to[to[a]] == a]
    return sorted(pairs, key=lambda pair: pair[2])


def busi(data: Path) -> list[str]:
    """Near-duplicates of BUSI: the pixel check's by every measure, and pairs that the pixel check does not list."""
    store = stored(data / "busi_ultrasound", 256)
    similar = correlated(store)
    members = np.flatnonzero(similar.max(axis=1) >= KNOWN)
    features = load_features(store, NETWORK.format(data=data))
    rows = np.arange(len(features))
    lines = [
        f"{(similar >= KNOWN).sum() // 2} pairs of {len(store.images)} images have details of thumbnails that "
        f"correlate by {KNOWN} or more; {len(members)} images are in one. Images of these whose nearest "
        "neighbour is such a partner, by SqueezeNet features:",
        "",
        "| measure | partner is nearest |",
        "|---|---|",
    ]
    for name in MEASURES:
        found = nearest(features.values, features.values, fit(name, features.values), exclude_same=(rows, rows))
        hit = similar[members, found.indices[members, 0]] >= KNOWN
        lines.append(f"| {name} | {hit.sum()} of {len(members)} |")
    labels = store.manifest.labels
    new = [pair for pair in rule(store, data)[0] if LEAST <= similar[pair[0], pair[1]] < KNOWN]
    lines += [
        "",
        f"Not listed by that check: {len(new)} pairs that are each other's nearest neighbour (seuclidean) and whose "
        f"details correlate {LEAST} to {KNOWN}, nearest first; "
        f"{sum(labels[a] != labels[b] for a, b, _ in new)} with labels that contradict each other.",
        "",
        "| image | image | distance | details | labels |",
        "|---|---|---|---|---|",
    ]
    for a, b, distance in new:
        one, other = (Path(features.ids[row]).stem for row in (a, b))
        word = "**contradict**" if labels[a] != labels[b] else "agree"
        lines.append(f"| {one} | {other} | {distance:.1f} | {similar[a, b]:.3f} | {word} |")
    return [*lines, "", *false_alarms(data)]


def rule(store: ImageStore, data: Path) -> tuple[list[tuple[int, int, float]], np.ndarray]:
    """Mutual neighbours by standardised SqueezeNet features, and the correlation of all details."""
    return mutual(load_features(store, NETWORK.format(data=data)), "seuclidean"), correlated(store)


def false_alarms(data: Path) -> list[str]:
    """The same rule on images of different lesions or patients: how many pairs would it call copies?"""
    lines = [
        "The same rule where nobody is copied, at three limits: pairs of different lesions or patients.",
        "",
        f"| set | images | mutual neighbours | {' | '.join(f'details from {limit}' for limit in LIMITS)} |",
        "|---|---|---|" + "---|" * len(LIMITS),
    ]
    for label, folder, size, pattern in (
        ("HAM10000, one image a lesion", "ham10000_224", 224, None),
        ("NIH chest X-rays, by patient", "nih_cxr14_64/NIH1000", 64, r"(\d{8})_\d{3}"),
    ):
        store = stored(data / folder, size, pattern)
        pairs, similar = rule(store, data)
        groups = store.manifest.groups
        found = np.array([similar[a, b] for a, b, _ in pairs if groups[a] != groups[b]])
        counts = " | ".join(str((found >= limit).sum()) for limit in LIMITS)
        lines.append(f"| {label} | {len(groups)} | {len(found)} | {counts} |")
    return lines


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    page = [
        "# Copies that are really there",
        "",
        f"`python recipes/real_duplicates.py DATA`. {__doc__.splitlines()[0]}",
        "",
    ]
    page += ["## Original and edited photos", "", *edited(given.data), "", "## BUSI", "", *busi(given.data), ""]
    print("\n".join(page))
    if given.out:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
