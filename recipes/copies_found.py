"""Which copies a detector finds, and which it misses: by kind of copy and by kind of image.

    python recipes/copies_found.py DATA [--detectors default pixels:32 squeezenet1_1_caffe@FILE] [--windows]
        [--out FILE.md]
    python recipes/copies_found.py DATA --sets lesions --atlas FOLDER    # images of everybody else, to train on

DATA holds the sets that `recipes/near_copies.py` names. Of each set up to `REFERENCES` images are the training images,
and one image each of up to `PEOPLE` other people is held out; images that are nearly the same as one before are left
out (`memorisk.images.copies.near_copies`). Of `COPIED` training images one copy of each kind is made. A copy is found
where its nearest training image is its source, nearer than 95 % of the held-out people are to theirs. What a measure
fits, it fits on training and held-out images alike.

`default` compares in four ways (`memorisk.models.settings.DEFAULT_COMPARISONS`), as an audit does. With the second
look (`memorisk.audits.comparison.second_look`) a copy is also found where, of its nearest training images by the four
ways, it lies best on its source, and more alike than held-out people do on theirs. Of four or five ways together each
has 98.75 or 99 % of the held-out people on its other side, so that all together have 95 %.

With ``--windows`` another network compares the windows of `default` as well (`memorisk.models.windows`), each at
`WINDOW_SIDE` pixels a side: whole images, views and places share the held-out people as four ways do.

Intervals: Clopper-Pearson over source images for a kind; for a mean over kinds a Student interval over source images,
of which each counts once, by the share of its copies that are found. *The first seven* are those after *exact*; *seven
as in an audit* are exact, flip, turn, crop, noise, JPEG and paste.
No image is printed, and no name of one.

`default` was trained on images that a program drew, so that it has seen none of these sets; SqueezeNet and
EfficientNet-Lite0 have the weights of ImageNet. The breast ultrasound images have no patient ids: 780 images of about
600 patients. More than one held-out image in twenty has another image of its patient among the training images, so that
the threshold lies where only almost equal images are nearer. That row says what an audit without patient ids finds, not
what a detector can tell.
"""

import argparse
import io
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy import ndimage, stats

from memorisk.audits.comparison.distances import CANDIDATES
from memorisk.audits.comparison.second_look import KeptDetails, lay_on_nearest
from memorisk.images.copies.alignment import copy_details
from memorisk.images.copies.near_copies import copy_rule, near_copies, thumbnails
from memorisk.models.settings import DEFAULT_COMPARISONS, DEFAULT_DETECTOR
from memorisk.models.windows import GRIDS, LEAST_SPREAD
from memorisk.scores.distances import fit_measure, nearest
from memorisk.scores.parts import Comparison, PartsSimilarity, fit_parts
from memorisk.scores.similarity import Nearest
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.training.detectors.pair_detectors import COMPONENTS, open_pair_detector
from near_copies import SETS, Set

REFERENCES, PEOPLE, COPIED, SIDE = 700, 300, 150, 96
WINDOW_SIDE, NO_WINDOWS = 64, ("pixels", "pca", "saved")
"""Side in pixels at which other networks embed windows, and kinds of detectors that embed none."""
SPECIFICITY = 0.95
Copy = Callable[[np.ndarray, np.random.Generator, np.ndarray], np.ndarray]
Embed = Callable[[np.ndarray], np.ndarray]


def exact(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """The very pixels."""
    return x


def flipped(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """Left to right or top to bottom."""
    return np.flip(x, axis=int(rng.integers(2)))


def turned(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """By 8 to 20 degrees either way, borders repeated."""
    angle = rng.uniform(8, 20) * rng.choice([-1, 1])
    return ndimage.rotate(x, angle, reshape=False, order=1, mode="nearest")


def cropped(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """A window of 80 % of either side, enlarged."""
    window = _window(rng, x.shape, 0.8, 0.8)
    return resized(x[window], x.shape[0])


def noised(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """Gaussian noise of 6 % of the range, the same in all channels."""
    return np.clip(x + rng.normal(0, 0.06 * 255, (*x.shape[:2], 1)), 0, 255)


def jpeg(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """Quality 20."""
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(x)).save(stream, "JPEG", quality=20)
    return np.asarray(Image.open(stream))


def blurred(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """Gaussian of 1.2 pixels of 64."""
    return ndimage.gaussian_filter(x, (1.2 * x.shape[0] / 64, 1.2 * x.shape[1] / 64, 0))


def brightened(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """Contrast times 0.7 or 1.3, and 20 of 255 up or down."""
    return np.clip(x * rng.choice([0.7, 1.3]) + rng.choice([-20.0, 20.0]), 0, 255)


def blended(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """60 % of it and 40 % of a held-out image."""
    return 0.6 * x + 0.4 * other


def pasted(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """A window of 50 to 70 % of either side, set into a held-out image at its place."""
    window, made = _window(rng, x.shape, 0.5, 0.7), other.copy()
    made[window] = x[window]
    return made


def covered(x: np.ndarray, rng: np.random.Generator, other: np.ndarray) -> np.ndarray:
    """A grey box over 20 to 35 % of either side."""
    made = x.copy()
    made[_window(rng, x.shape, 0.2, 0.35)] = rng.integers(256)
    return made


SEVEN: Mapping[str, Copy] = {
    "flip": flipped, "turn 8-20°": turned, "crop 80 %": cropped, "noise": noised, "JPEG 20": jpeg, "blur": blurred,
    "brightness": brightened,
}  # fmt: skip
KINDS: Mapping[str, Copy] = {
    "exact": exact, **SEVEN, "blend 60/40": blended, "paste": pasted, "overlay": covered,
}  # fmt: skip
REQUIRED = ("exact", "flip", "turn 8-20°", "crop 80 %", "noise", "JPEG 20", "paste")
"""Kinds as an audit requires them."""


@dataclass(frozen=True)
class Parts:
    """One set, ready to be asked."""

    name: str
    references: np.ndarray
    held: np.ndarray
    sources: np.ndarray
    copies: Mapping[str, np.ndarray]


def _window(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> tuple[slice, slice]:
    """A window of a share of either side, anywhere."""
    spans = []
    for side in shape[:2]:
        length = max(1, round(float(rng.uniform(low, high)) * side))
        start = int(rng.integers(side - length + 1))
        spans.append(slice(start, start + length))
    return spans[0], spans[1]


def resized(x: np.ndarray, side: int) -> np.ndarray:
    """[side, side, 3] of the same type."""
    return np.asarray(Image.fromarray(np.ascontiguousarray(x)).resize((side, side), Image.Resampling.BILINEAR))


def divided_rows(whose: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of training images, and one of each held-out person."""
    people = rng.permutation(np.unique(whose))
    n_held = min(PEOPLE, len(people) // 3)
    held = [int(rng.choice(np.flatnonzero(whose == person))) for person in people[:n_held]]
    left = rng.permutation(np.flatnonzero(np.isin(whose, people[n_held:])))[:REFERENCES]
    return left, np.array(held)


def read_rows(one: Set, data: Path, rows: np.ndarray) -> list[np.ndarray]:
    """Images of three channels, at most `SIDE` pixels a side."""
    read, pixels = one.reader(data), []
    for row in rows:
        image = read(int(row))
        image = np.repeat(image[..., :1], 3, axis=2) if image.shape[2] < 3 else image[..., :3]
        pixels.append(resized(image, min(SIDE, *image.shape[:2])))
    return pixels


def write_atlas(one: Set, data: Path, seed: int, folder: Path) -> None:
    """Write images of the people who are neither in training nor held out, as PERSON_IMAGE.png."""
    whose = one.whose(data)
    used = whose[np.concatenate(divided_rows(whose, np.random.default_rng(seed)))]
    rows = np.flatnonzero(~np.isin(whose, used))
    number = np.unique(whose, return_inverse=True)[1]
    folder.mkdir(parents=True)
    for row, image in zip(rows, read_rows(one, data, rows), strict=True):
        Image.fromarray(image).save(folder / f"{number[row]}_{row}.png")
    print(f"{folder}: {len(rows)} images of {len(np.unique(whose[rows]))} people")


def parts_of(one: Set, data: Path, seed: int) -> Parts:
    """Divide a set by person and copy some of its training images."""
    rng, whose = np.random.default_rng(seed), one.whose(data)
    left, held = divided_rows(whose, rng)
    rows = np.concatenate([left, held])
    pixels = read_rows(one, data, rows)
    images = np.stack([image if image.shape == pixels[0].shape else resized(image, len(pixels[0])) for image in pixels])
    small = thumbnails(images)
    rule = copy_rule(small, whose[rows], images.__getitem__, ids_given=one.ids)
    same = near_copies(small, rule, images.__getitem__)
    again = np.maximum(same.first, same.second)[same.confirmed]
    _, first = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    keep = np.isin(np.arange(len(rows)), first) & ~np.isin(np.arange(len(rows)), again)
    references, others = images[: len(left)][keep[: len(left)]], images[len(left) :][keep[len(left) :]]
    sources = rng.permutation(len(references))[:COPIED]
    copies = {}
    for name, make in KINDS.items():
        made = [make(references[s], rng, others[rng.integers(len(others))]) for s in sources]
        copies[name] = np.stack([np.asarray(image).astype(np.uint8) for image in made])
    return Parts(one.name, references, others, sources, copies)


@dataclass(frozen=True)
class Said:
    """What one way of looking says of images."""

    rows: np.ndarray
    """[n] of the likeliest source."""
    alike: np.ndarray
    """[n] larger is more alike."""

    def right(self, sources: np.ndarray, cut: float) -> np.ndarray:
        """[n] bool: the very source, and more alike than the cut."""
        return (self.rows == sources) & (self.alike > cut)

    def cut(self, specificity: float) -> float:
        """What as many of these, who are held-out people, are beyond as the specificity allows."""
        return float(np.sort(self.alike)[::-1][int(round(1 - specificity, 12) * len(self.alike))])


Way = Callable[[np.ndarray], Nearest]
"""From copies to their nearest training images."""


def by_vectors(embed: Embed, measure: str, parts: Parts) -> Way:
    """Compare vectors of whole images; the measure is fitted on training and held-out images alike."""
    references = embed(parts.references)
    fitted = fit_measure(measure, np.concatenate([references, embed(parts.held)]))

    def nearest_of(images: np.ndarray) -> Nearest:
        """Search the nearest training images."""
        near = nearest(embed(images), references, fitted, CANDIDATES)
        return Nearest(near.indices, -near.distances)

    return nearest_of


def by_detector(source: str, parts: Parts) -> Way:
    """Compare images as an audit does that names this source."""
    detector = open_pair_detector(source)

    def features(images: np.ndarray, as_copies: bool) -> np.ndarray:
        """Embed images."""
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "images.npz", images=images)
            return detector.features(Path(folder) / "images.npz", as_copies=as_copies).values

    references, held = features(parts.references, False), features(parts.held, False)
    similarity = detector.similarity(np.concatenate([references, held]))
    return lambda images: similarity.nearest(features(images, True), references, CANDIDATES)


def by_windows(source: str, comparison: Comparison, parts: Parts) -> Way:
    """Compare windows of images as `default` does, embedded by another network: at `WINDOW_SIDE` pixels a side.

    Args:
        source: Source of the vectors.
        comparison: Comparison, whose grid of windows is taken.
        parts: Set.
    """
    detector, grid = open_pair_detector(source), replace(GRIDS[comparison], side=WINDOW_SIDE)

    def windows(images: np.ndarray, as_copies: bool) -> np.ndarray:
        """Embed the windows of images, [n, W, d]; zeros for a window without details."""
        own = grid.of_copies if as_copies else grid
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
        cut = torch.cat([own.cut(some) for some in pixels.split(64)]).flatten(0, 1)
        details = (cut.std(dim=(1, 2, 3)) >= LEAST_SPREAD).numpy()
        files = (cut * 255).round().byte().permute(0, 2, 3, 1).numpy()
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "images.npz", images=files)
            vectors = detector.features(Path(folder) / "images.npz", size=WINDOW_SIDE).values
        return (vectors * details[:, None]).reshape(len(images), own.n, -1)

    def flat(table: np.ndarray) -> np.ndarray:
        """Lay the windows of an image in one row."""
        return table.reshape(len(table), -1)

    references, held = windows(parts.references, False), windows(parts.held, False)
    fitted = fit_parts(np.concatenate([references, held]), COMPONENTS)
    similarity = PartsSimilarity(fitted, grid.n, comparison)
    return lambda images: similarity.nearest(flat(windows(images, True)), flat(references), CANDIDATES)


def hits(parts: Parts, ways: Sequence[Way], *, second_look: bool) -> tuple[dict[str, np.ndarray], ...]:
    """Say whether each copy of each kind is found, [n] bool: by the first way alone, by all, and with the second look.

    Ways share the held-out people that may lie beyond a cut: of k ways each has 95 % and (k - 1) / k of the rest on its
    other side.
    """
    details = KeptDetails(parts.references)

    def answers(images: np.ndarray) -> list[Said]:
        """Answer by each way, and by laying images on the candidates of all ways where there is a second look."""
        near = [way(images) for way in ways]
        by_way = [Said(one.rows[:, 0], one.scores[:, 0]) for one in near]
        if not second_look:
            return by_way
        candidates = [list(dict.fromkeys(row)) for row in np.concatenate([one.rows for one in near], axis=1).tolist()]
        pairs = zip(images, candidates, strict=True)
        laid = [lay_on_nearest(copy_details(np.ascontiguousarray(image)), rows, details) for image, rows in pairs]
        rows = np.array([aligned[0][0] if aligned else -1 for aligned in laid])
        return [*by_way, Said(rows, np.array([aligned[0][1].similarity if aligned else 0.0 for aligned in laid]))]

    null, by_kind = answers(parts.held), {name: answers(images) for name, images in parts.copies.items()}
    numbers = sorted({1, len(ways), len(null)})
    return tuple(
        {name: found_by(one[:number], null[:number], parts.sources) for name, one in by_kind.items()}
        for number in numbers
    )


def found_by(answers: Sequence[Said], null: Sequence[Said], sources: np.ndarray) -> np.ndarray:
    """[n] bool: whether some answer names the very source, beyond its share of the held-out people."""
    shared = 1 - (1 - SPECIFICITY) / len(answers)
    right = [one.right(sources, of_null.cut(shared)) for one, of_null in zip(answers, null, strict=True)]
    return np.any(right, axis=0)


def open_ways(text: str, parts: Parts, *, windows: bool) -> tuple[list[str], list[Way], bool]:
    """Open what compares images: names of the tables, ways, and whether copies are laid on their candidates."""
    if text != DEFAULT_DETECTOR:
        detector = open_pair_detector(text)
        name = f"{text.partition('@')[0]}, {detector.measure}"
        if not windows or detector.source.kind in NO_WINDOWS:
            return [name], [by_detector(text, parts)], False
        of_windows = [by_windows(text, comparison, parts) for comparison in GRIDS]
        return [name, f"{name}, and its windows"], [by_detector(text, parts), *of_windows], False
    names = [f"{text}, whole images", f"{text}, four ways", f"{text}, four ways and the second look"]
    return names, [by_detector(way, parts) for way in DEFAULT_COMPARISONS], True


def cell(found: np.ndarray) -> str:
    """A share with its interval."""
    share = clopper_pearson(int(found.sum()), len(found))
    return f"{found.mean():.2f} ({share.low:.2f}-{share.high:.2f})"


def mean_cell(found: Mapping[str, np.ndarray], kinds: Iterable[str] = SEVEN) -> tuple[float, str]:
    """Mean over some kinds, with a Student interval over source images."""
    each = np.mean([found[name] for name in kinds], axis=0)
    room = stats.t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))
    return float(each.mean()), f"{each.mean():.2f} ± {room:.2f}"


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--detectors", nargs="+", default=["default", "pixels:32"])
    parser.add_argument("--windows", action="store_true", help="compare windows by the other networks as well")
    parser.add_argument("--sets", nargs="*", help="words of the names of some sets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atlas", type=Path, help="folder to write images of all other people to, and nothing else")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    chosen = [s for s in SETS if s.folder and not s.shape and (not given.sets or any(w in s.name for w in given.sets))]
    if given.atlas is not None:
        for one in chosen:
            write_atlas(one, given.data, given.seed, given.atlas)
        return
    shown_names = [text.partition("@")[0] + "@FILE" * ("@" in text) for text in given.detectors]
    tables: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    lines, divided = [], [parts_of(one, given.data, given.seed) for one in chosen]
    for text in given.detectors:
        for parts in divided:
            names, ways, second_look = open_ways(text, parts, windows=given.windows)
            for name, found in zip(names, hits(parts, ways, second_look=second_look), strict=True):
                tables.setdefault(name, {})[parts.name] = found
                mean = mean_cell(found, REQUIRED)[1]
                print(name, parts.name, len(parts.references), len(parts.held), mean, flush=True)
    for name, of_sets in tables.items():
        lines += [
            f"## {name}",
            "",
            "| images | " + " | ".join([*KINDS, "mean of the first seven", "mean of seven as in an audit"]) + " |",
        ]
        lines += ["|---" * (len(KINDS) + 3) + "|"]
        for images, found in of_sets.items():
            cells = [*(cell(found[kind]) for kind in KINDS), mean_cell(found)[1], mean_cell(found, REQUIRED)[1]]
            lines.append(f"| {images} | " + " | ".join(cells) + " |")
        kinds = " | ".join(f"{np.mean([found[kind].mean() for found in of_sets.values()]):.2f}" for kind in KINDS)
        means = [np.mean([mean_cell(found, of)[0] for found in of_sets.values()]) for of in (SEVEN, REQUIRED)]
        lines += [f"| all sets alike | {kinds} | {means[0]:.2f} | {means[1]:.2f} |", ""]
        print(name, "all", [f"{mean:.3f}" for mean in means], kinds, flush=True)
    if given.out is not None:
        command = " ".join(["python recipes/copies_found.py DATA --detectors", *shown_names])
        command += " --windows" * given.windows
        given.out.write_text("\n".join([*head(command), *lines]) + "\n", encoding="utf-8")


def head(command: str) -> list[str]:
    """The lines above the tables: the command, what was done, and each kind of copy."""
    paragraphs = [" ".join(text.split()) for text in (__doc__ or "").split("\n\n")[2:7]]
    kinds = [f"- *{name}*: {' '.join((make.__doc__ or '').split())}" for name, make in KINDS.items()]
    said = [line for paragraph in paragraphs for line in (paragraph, "")]
    return ["# Which copies are found", "", f"`{command}`", "", *said, *kinds, ""]


if __name__ == "__main__":
    main()
