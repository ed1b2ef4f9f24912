"""What the second look confirms: new people by chance, planted copies of every kind, and how far transforms are off.

    python recipes/alignment.py DATA [--out docs/results/alignment.md]

DATA holds ``eye_oct``, ``nih_cxr14_64``, ``busi_ultrasound`` and ``ham10000_224``. The people of each set are split at
random into training, held-out and new ones. New people stand for a set without copies, as they are and changed as a
generator's images may be (`GENERATORS`); images of theirs that are training images under another id are left out. The
cut comes from held-out people on training images and from this set on held-out images, as in an audit. No image is
printed, and no name of one.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import cos, radians, sin
from pathlib import Path
from time import perf_counter

import cv2
import numpy as np
from PIL import Image
from scipy import ndimage

from memorisk.audits.comparison.distances import CANDIDATES
from memorisk.audits.comparison.second_look import MOST_IMAGES, REFINED, KeptDetails, largest_strengths, lay_on_nearest
from memorisk.images.alterations.planting import _cast, _sampled, plant_copy
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.copies.alignment import WINDOWS, Alignment, copy_details
from memorisk.images.readers.registry import read_image
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.scores.distances import FittedMeasure, fit_measure, nearest
from memorisk.statistics.copies.alignments import AlignmentCut, alignment_cut
from memorisk.statistics.intervals.shares import clopper_pearson

SETS = (
    ("eye scans (OCT)", "eye_oct", ".jpg", 1, True),
    ("chest X-rays", "nih_cxr14_64/NIH1000", ".png", 1, True),
    ("breast ultrasound", "busi_ultrasound", ".png", 1, False),
    ("skin lesions", "ham10000_224/images", ".jpg", 3, False),
)
"""Name, folder, ending, channels, and whether file names tell whose an image is."""
SIDES, SPLITS, COPIES, LOOKED = (64, 96), 1, 20, 1000
"""LOOKED: images of the run that a cut is for; as many as a set to be released has."""
AS_THEY_ARE = "as they are"
GENERATORS: Mapping[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    AS_THEY_ARE: lambda image, _: image,
    "blurred": lambda image, _: blurred(image),
    "noised": lambda image, rng: _cast(image + rng.normal(0, 12, image.shape), image.dtype),
    "of half the contrast": lambda image, _: _cast(0.5 * image + 0.5 * image.mean(), image.dtype),
}
"""What a generator's images of new people look like."""
MORE = {
    "cropped to 80 %": "a window of 80 % of either side, anywhere, enlarged to the whole",
    "blended": "60 % of the image and 40 % of one of a new person",
    "overlaid": "a bar of one value over 30 x 60 % of the image",
    "turned": "by a quarter turn",
    "blurred": "a Gaussian of 2 % of the side",
}
Laid = list[tuple[int, Alignment]]
"""Rows of sources and alignments."""
Truth = np.ndarray | None
"""[3, 3] from the copy's pixels to the source's."""


def stored(data: Path, folder: str, ending: str, channels: int, ids: bool, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [n, side, side, channels] and the person of each."""
    files = [file for file in sorted((data / folder).rglob(f"*{ending}")) if "_mask" not in file.name]
    pixels = []
    for file in files:
        image = read_image(file)[..., :channels]
        picture = Image.fromarray(image if channels == 3 else image[..., 0])
        pixels.append(np.asarray(picture.resize((side, side), Image.Resampling.BOX)).reshape(side, side, channels))
    return np.stack(pixels), np.array([f.name.split("_")[0] if ids else str(k) for k, f in enumerate(files)])


def copied(kind: str, image: np.ndarray, base: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Truth] | None:
    """A copy and its true transform; None where the kind leaves the image as it is."""
    height, width = image.shape[:2]
    if kind in PLANT_KINDS and kind != "cropped":
        made = plant_copy(PLANT_KINDS[kind], image, base, rng)
        return None if made is None else (made.pixels, planted_truth(kind, made.parameter, height, width))
    if kind in ("cropped", "cropped to 80 %"):
        share = 0.8 if kind != "cropped" else float(rng.uniform(0.75, 0.95))
        top, left = (float(rng.uniform(0, (1 - share) * side)) + share / 2 - 0.5 for side in (height, width))
        rows, columns = np.meshgrid(top + share * np.arange(height), left + share * np.arange(width), indexing="ij")
        return _sampled(image, rows, columns), np.array([[share, 0, left], [0, share, top], [0, 0, 1]])
    if kind == "blended":
        return _cast(0.6 * image.astype(float) + 0.4 * base, image.dtype), np.eye(3)
    if kind == "overlaid":
        made, rows, columns = image.copy(), round(0.3 * height), round(0.6 * width)
        top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
        made[top : top + rows, left : left + columns] = int(rng.integers(256))
        return made, np.eye(3)
    if kind == "turned":
        return np.ascontiguousarray(np.rot90(image)), np.array([[0, -1, width - 1], [1, 0, 0], [0, 0, 1.0]])
    return blurred(image), np.eye(3)


def planted_truth(kind: str, parameter: str, height: int, width: int) -> np.ndarray:
    """The transform of a planted kind, from its parameter in words."""
    if kind == "flipped":
        sideways = parameter == "left to right"
        return np.array([[-1, 0, width - 1], [0, 1, 0], [0, 0, 1.0]]) if sideways else np.array(
            [[1, 0, 0], [0, -1, height - 1], [0, 0, 1.0]]
        )  # fmt: skip
    if kind == "rotated":
        a, centre = radians(float(parameter.split()[0])), np.array([(width - 1) / 2, (height - 1) / 2])
        linear = np.array([[cos(a), -sin(a)], [sin(a), cos(a)]])
        return np.vstack([np.c_[linear, centre - linear @ centre], [0, 0, 1]])
    return np.eye(3)


def blurred(image: np.ndarray) -> np.ndarray:
    """By a Gaussian of 2 % of the side."""
    sigma = 0.02 * max(image.shape[:2])
    return _cast(ndimage.gaussian_filter(image.astype(float), (sigma, sigma, 0)), image.dtype)


def corner_error(found: np.ndarray, true: np.ndarray, side: int) -> float:
    """Mean distance between where two transforms put the corners, in pixels."""
    corners = np.array([[x, y, 1] for x in (0, side - 1) for y in (0, side - 1)]).T
    return float(np.linalg.norm((found @ corners)[:2] - (true @ corners)[:2], axis=0).mean())


@dataclass
class Counts:
    """Of one set at one side, over splits."""

    false: dict[str, list[bool]] = field(default_factory=dict)
    confirmed: dict[str, list[bool]] = field(default_factory=dict)
    listed: dict[str, list[bool]] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    cuts: dict[str, list[AlignmentCut]] = field(default_factory=dict)
    null: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def people_of(rng: np.random.Generator, who: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of training (half), and one image each of held-out and of new people (a quarter each)."""
    people = rng.permutation(np.unique(who))
    half, rest = len(people) // 2, (3 * len(people)) // 4
    yield np.flatnonzero(np.isin(who, people[:half]))
    for part in (people[half:rest], people[rest:]):
        yield np.array([rng.choice(np.flatnonzero(who == person)) for person in part[:MOST_IMAGES]])


@dataclass(frozen=True, eq=False)
class Sources:
    """Images that others are laid on."""

    images: np.ndarray
    vectors: np.ndarray
    measure: FittedMeasure
    details: KeptDetails

    def near(self, vectors: np.ndarray) -> np.ndarray:
        """[n, CANDIDATES] rows of the nearest."""
        return nearest(vectors, self.vectors, self.measure, CANDIDATES).indices

    def best(self, images: np.ndarray, vectors: np.ndarray) -> list[tuple[Laid, np.ndarray, float]]:
        """Alignments of each image, the most similar first, all rows, and seconds."""
        looked = []
        for image, rows in zip(images, self.near(vectors), strict=True):
            started = perf_counter()
            aligned = lay_on_nearest(copy_details(image), rows.tolist(), self.details)
            looked.append((aligned, rows, perf_counter() - started))
        return looked


def strengths(looked: list[tuple[Laid, np.ndarray, float]]) -> np.ndarray:
    """[n, W] largest ones of each image."""
    return np.array([largest_strengths(aligned) for aligned, _, _ in looked])


def count(images: np.ndarray, who: np.ndarray, side: int, detector: Detector) -> Counts:
    """Split, cut, and count."""
    found, vectors = Counts(), detector.embed(images)
    for seed in range(SPLITS):
        rng = np.random.default_rng([71, seed])
        train, held, new = people_of(rng, who)
        trained = {images[row].tobytes() for row in train}
        new = np.array([row for row in new if images[row].tobytes() not in trained])  # the same image under another id
        measure = fit_measure(detector.compared_by, vectors[np.r_[train, held]])
        known, unseen = (Sources(images[r], vectors[r], measure, KeptDetails(images[r])) for r in (train, held))
        null = known.best(images[held], vectors[held])
        found.null.append(len(held))
        found.seconds += [taken for *_, taken in null]
        for name, change in GENERATORS.items():
            made = np.stack([change(image, rng) for image in images[new]])
            theirs = detector.embed(made)
            cut = alignment_cut(strengths(null), strengths(unseen.best(made, theirs)), LOOKED)
            found.cuts.setdefault(name, []).append(cut)
            said = cut.confirmed(strengths(known.best(made, theirs)))
            found.false.setdefault(name, []).extend(said.tolist())
        _count_copies(found, images, (train, new), found.cuts[AS_THEY_ARE][-1], known, detector, rng, side)
    return found


def _count_copies(
    found: Counts,
    images: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray],
    cut: AlignmentCut,
    known: Sources,
    detector: Detector,
    rng: np.random.Generator,
    side: int,
) -> None:
    """Count copies of random training images by kind."""
    for kind in (*PLANT_KINDS, *MORE):
        drawn = [(int(rng.integers(len(rows[0]))), int(rng.choice(rows[1]))) for _ in range(COPIES)]
        made = [(source, copied(kind, known.images[source], images[base], rng)) for source, base in drawn]
        kept = [(source, *one) for source, one in made if one is not None]
        pixels = np.stack([image for _, image, _ in kept])
        looked = known.best(pixels, detector.embed(pixels))
        for (source, _, truth), (aligned, near, _) in zip(kept, looked, strict=True):
            confirmed = [(row, how) for row, how in aligned if cut.confirmed(how.strengths)]
            row, how = confirmed[0] if confirmed else (-1, None)
            same = [r for r in near.tolist() if np.array_equal(known.images[r], known.images[source])]
            right = row in same
            found.listed.setdefault(kind, []).append(bool(same))
            found.confirmed.setdefault(kind, []).append(right)
            found.wrong[kind] = found.wrong.get(kind, 0) + int(how is not None and not right)
            if right and how is not None and truth is not None:
                found.errors.setdefault(kind, []).append(corner_error(how.matrix, truth, side))


def share(hits: list[bool]) -> str:
    """A share with its Clopper-Pearson interval."""
    found = clopper_pearson(sum(hits), len(hits))
    return f"{found.successes} of {found.trials} ({100 * found.low:.1f} to {100 * found.high:.1f} %)"


def report(data: Path) -> str:
    """The page."""
    cv2.setNumThreads(1)
    detector = load_detector("default")
    assert isinstance(detector, Detector)
    results = {}
    for name, folder, ending, channels, ids in SETS:
        for side in SIDES:
            results[name, side] = count(*stored(data, folder, ending, channels, ids, side), side, detector)
            print(name, side, flush=True)
    lines = [
        "# The second look", "", f"`python recipes/alignment.py DATA`. {str(__doc__).splitlines()[0]}", "",
        f"Half of the people are training people, a quarter each held out and new (at most {MOST_IMAGES} of each, one "
        f"image each), one split. Every image is laid on its {CANDIDATES} nearest training images by `default`, and "
        f"the {REFINED} that it lies on best, and the {REFINED} that it lies on best unmoved, are refined. *Cut*: "
        f"correlation of details in windows of {', '.join(f'{w:.0%}' for w in WINDOWS)} of the side. Fewer than 0.01 "
        f"of {LOOKED:,} images of new people are expected beyond it. Intervals are of 95 % (Clopper-Pearson).", "",
        "## People who had no part in the cut", "",
        f"| set | side | held out | {' | '.join(f'{name}: cut, confirmed' for name in GENERATORS)} | ms an image |",
        "|---|--:|--:|" + "--:|" * (len(GENERATORS) + 1),
    ]  # fmt: skip
    for (name, side), one in results.items():
        cells = []
        for kind in GENERATORS:
            cuts = ", ".join(
                "/".join(f"{r:.3f}" for r in np.tanh(cut.values / WINDOWS)) + f" ({cut.apart} apart)" * bool(cut.apart)
                for cut in one.cuts[kind]
            )
            cells.append(f"{cuts}; {share(one.false[kind])}")
        held = ", ".join(map(str, one.null))
        lines.append(f"| {name} | {side} | {held} | {' | '.join(cells)} | {1000 * np.median(one.seconds):.0f} |")
    for kind in GENERATORS:
        hits = [hit for one in results.values() for hit in one.false[kind]]
        lines.append(f"\nOf all sets, {kind}: {share(hits)} confirmed; {len(hits) * 0.01 / LOOKED:.3f} expected.")
    lines += [
        "", "*Apart* are images that lie on the other set as copies do, or nearly: they have no part in the cut. More "
        "than a fifth of the larger half cannot be told from a tail: then the cut is beyond all copies.",
        "", "## Copies of training images", "",
        f"{COPIES} of each kind. Confirmed: beyond the cut, on the very source. Error: of the corners under "
        "the found transform, in pixels, median and 90th percentile of those confirmed. *Listed*: the source is among "
        "the candidates.",
    ]  # fmt: skip
    for (name, side), one in results.items():
        lines += [
            "", f"### {name[0].upper()}{name[1:]}, {side} px", "",
            "| kind | listed | confirmed | on another image | error |", "|---|--:|--:|--:|--:|",
        ]  # fmt: skip
        for kind, hits in one.confirmed.items():
            error = one.errors.get(kind)
            off = "" if not error else f"{np.median(error):.2f}, {np.quantile(error, 0.9):.2f}"
            listed = f"{sum(one.listed[kind])} of {len(hits)}"
            lines.append(f"| {kind} | {listed} | {share(hits)} | {one.wrong[kind]} | {off} |")
    lines += ["", "The seven kinds of `memorisk.images.alterations.plants`, and:", ""]
    lines += [f"* {kind}: {what}" for kind, what in MORE.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/results/alignment.md"))
    options = parser.parse_args()
    options.out.write_text(report(options.data), encoding="utf-8")


if __name__ == "__main__":
    main()
