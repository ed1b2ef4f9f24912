"""From which similarity on two images are copies, on real sets: thresholds, what they find, and what chance finds.

    python recipes/near_copies.py DATA [--out docs/results/near_copies.md]

DATA holds ``eye_oct``, ``nih_cxr14_64``, ``ham10000_224``, ``busi_ultrasound``, ``cifar10_jpg`` and
``fashion_mnist_png``. Some are asked again under a field that all images share, black outside, beside smooth noise in
such fields (`guarantee_simulation.made_images`). No image is printed, and no name of one.
"""

import argparse
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter

from guarantee_simulation import field, made_images
from memorisk.images.copies.details import fit_whitening
from memorisk.images.copies.duplicates import closest_between_groups, details, thumbnail
from memorisk.images.copies.near_copies import copy_rule, near_copies, near_copies_between
from memorisk.images.readers.registry import read_image
from memorisk.statistics.copies.pairs_of_people import EXPECTED_PAIRS, chance_threshold, pairs_of_people, tail_depth

EARLIER = 0.95  # correlation of details alone that counted until 2026-11-23
COPIED, SPLITS, N_MADE = 200, 8, 1000
Vectors = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Set:
    """Where images lie and how their names tell whose they are."""

    name: str
    folder: str = ""
    """Empty: made images."""
    ending: str = ""
    ids: bool = False
    every: int = 1
    shape: str = ""
    """Of the field that all images lie under (`guarantee_simulation.field`)."""

    def files(self, data: Path) -> list[Path]:
        """Its images."""
        found = sorted((data / self.folder).rglob(f"*{self.ending}"))
        return [f for f in found if "_mask" not in f.name][:: self.every]

    def whose(self, data: Path) -> np.ndarray:
        """The person of each image, or its number where nobody says."""
        if not self.folder:
            return np.arange(N_MADE).astype(str)
        return np.array([f.name.split("_")[0] if self.ids else str(k) for k, f in enumerate(self.files(data))])

    def reader(self, data: Path) -> Callable[[int], np.ndarray]:
        """What reads an image by its number: pixels of one to three channels, black outside the field."""
        if not self.folder:
            return made_images(self.shape, N_MADE).__getitem__
        files = self.files(data)

        def read(row: int) -> np.ndarray:
            """Its pixels."""
            image = read_image(files[row])[..., :3]
            return image * covered(self.shape, image.shape[:2])[..., None] if self.shape else image

        return read


def covered(shape: str, size: tuple[int, ...]) -> np.ndarray:
    """The field at a size [height, width]."""
    mask = Image.fromarray(field(shape)).resize((size[1], size[0]), Image.Resampling.NEAREST)
    return np.asarray(mask).astype(np.uint8)


SETS = (
    Set("eye scans (OCT)", "eye_oct", ".jpg", True),
    Set("chest X-rays, 64 px", "nih_cxr14_64/NIH1000", ".png", True),
    Set("skin lesions", "ham10000_224/images", ".jpg", False),
    Set("breast ultrasound", "busi_ultrasound", ".png", False),
    Set("CIFAR-10", "cifar10_jpg/train", ".jpg", False, 3),
    Set("Fashion-MNIST", "fashion_mnist_png", ".png", False, 10),
    Set("eye scans, round field", "eye_oct", ".jpg", True, shape="round"),
    Set("chest X-rays, border", "nih_cxr14_64/NIH1000", ".png", True, shape="border"),
    Set("skin lesions, fan", "ham10000_224/images", ".jpg", False, shape="fan"),
    Set("CIFAR-10, round field", "cifar10_jpg/train", ".jpg", False, 3, shape="round"),
    *(Set(f"made, {shape}", shape=shape) for shape in ("round", "fan", "border")),
)


def jpeg(picture: Image.Image) -> Image.Image:
    """At quality 50."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=50)
    return Image.open(stream)


def noised(picture: Image.Image) -> Image.Image:
    """By 12 of 255."""
    pixels = np.asarray(picture).astype(float)
    noise = np.random.default_rng(0).normal(0, 12, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def cropped(picture: Image.Image) -> Image.Image:
    """By 1 % a side."""
    x, y = (max(1, round(side / 100)) for side in picture.size)
    return picture.crop((x, y, picture.width - x, picture.height - y))


COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "jpeg": jpeg,
    "half size": lambda p: p.resize((p.width // 2, p.height // 2), Image.Resampling.BILINEAR),
    "blurred": lambda p: p.filter(ImageFilter.GaussianBlur(1)),
    "noised": noised,
    "contrast": lambda p: ImageEnhance.Contrast(p).enhance(1.4),
    "cropped": cropped,
}


def spread_alone(small: np.ndarray) -> Vectors:
    """METHODS section 6: each pixel's own mean and spread."""
    rest = details(small)
    mean, spread = rest.mean(axis=0), rest.std(axis=0)
    spread = np.maximum(spread, 0.1 * np.median(spread[spread > 0]))

    def vectors(thumbnails: np.ndarray) -> np.ndarray:
        """Of length 1."""
        found = (details(thumbnails) - mean) / spread
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    return vectors


def thresholds_of(vectors: np.ndarray, who: np.ndarray, expected: Sequence[float]) -> list[float]:
    """Where so many chance pairs are expected; beyond 1 without."""
    who = np.unique(who, return_inverse=True)[1]
    n = int(who.max()) + 1
    closest = closest_between_groups(vectors, who, (tail_depth(n) + 1) * max(2, -((-len(who) // n) ** 2)))
    pairs = pairs_of_people(who[closest.first], who[closest.second], closest.similarity)
    return [chance_threshold(pairs, n, expected=one).similarity or 2.0 for one in expected]


def of_set(data: Path, one: Set) -> tuple[list[str], list[str], list[str]]:
    """A row of each table."""
    whose, read = one.whose(data), one.reader(data)
    contents = np.array([hash(read(row).tobytes()) for row in range(len(whose))])
    small = np.stack([thumbnail(read(row)) for row in range(len(whose))])
    rule = copy_rule(small, whose, read, ids_given=one.ids)
    found = near_copies(small, rule, read)
    apart = whose[found.first] != whose[found.second]
    plain = np.triu(details(small) @ details(small).T, 1)
    earlier = (plain >= EARLIER) & (whose[:, None] != whose)
    sure = apart & found.confirmed
    equal = contents[found.first[sure]] == contents[found.second[sure]]
    first = [
        one.name, f"{len(whose):,}", f"{len(set(whose)):,}{'' if one.ids else ' (no ids)'}", f"{earlier.sum():,}",
        f"{rule.chance.similarity or 1:.3f}", f"{rule.chance.rate:.1e}", f"{apart.sum():,}", f"{sure.sum():,}",
        f"{equal.sum():,}",
    ]  # fmt: skip
    return first, _copies(one, rule, small, whose, read), _halves(one, small, whose, contents)


def _copies(one: Set, rule, small: np.ndarray, whose: np.ndarray, read: Callable[[int], np.ndarray]) -> list[str]:
    """Share of copies of each kind that are found and confirmed, and found by the spread of each pixel alone."""
    rows = np.sort(np.random.default_rng(0).permutation(len(small))[:COPIED])
    alone = spread_alone(small)
    (cut,), said = thresholds_of(alone(small), whose, [EXPECTED_PAIRS]), []
    for change in COPIES.values():
        copies = [_changed(read(row), change) for row in rows]
        of_copies = np.stack([thumbnail(image) for image in copies])
        _, pairs = near_copies_between(of_copies, small[rows], rule, copies.__getitem__, lambda k: read(rows[k]))
        own = sum(a == b for a, b in pairs.pairs) / len(rows)
        by_spread = ((alone(of_copies) * alone(small[rows])).sum(axis=1) >= cut).mean()
        said.append(f"{own:.0%} ({by_spread:.0%})")
    return [one.name, *said]


def _changed(image: np.ndarray, change: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    made = np.asarray(change(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)))
    return made if made.ndim == 3 else made[..., None]


def _halves(one: Set, small: np.ndarray, whose: np.ndarray, contents: np.ndarray) -> list[str]:
    """Pairs of different people of one half of the people from the threshold of the other half on, mean over halves."""
    counted = {expected: [0, 0.0] for expected in (1.0, 0.1, EXPECTED_PAIRS)}
    names = np.unique(whose)
    for seed in range(SPLITS):
        mine = np.isin(whose, np.random.default_rng(seed).permutation(names)[: len(names) // 2])
        for learn, ask in ((mine, ~mine), (~mine, mine)):
            whitening = [fit_whitening(small[half]) for half in (learn, ask)]
            seen = whitening[0].vectors(small[learn])
            closest = closest_between_groups(whitening[1].vectors(small[ask]), whose[ask], 4 * int(ask.sum()))
            same = contents[ask][closest.first] == contents[ask][closest.second]
            cuts = thresholds_of(seen, whose[learn], list(counted))
            for cut, sums in zip(cuts, counted.values(), strict=True):
                sums[0] += 1
                sums[1] += float((closest.similarity[~same] >= cut).sum())
    return [one.name, *(f"{total / n:.2f}" for n, total in counted.values())]


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def main() -> None:
    """Print the page, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = list(zip(*map(partial(of_set, given.data), SETS), strict=True))
    page = [
        "# Near copies", "",
        f"`python recipes/near_copies.py DATA`. {str(__doc__).splitlines()[0]}", "",
        "## Thresholds", "",
        f"*Until 2026-11-23*: pairs of different ids whose details correlate by {EARLIER}. *Rate*: how often two "
        "different people would be called one, at most. *Equal*: of the confirmed pairs those with equal pixels.", "",
        *table(["set", "images", "people", "until 2026-11-23", "threshold", "rate", "alike", "confirmed", "equal"],
               list(found[0])), "",
        "## Copies that are found and confirmed", "",
        f"Of {COPIED} random images each. In brackets: thumbnails less the mean and spread of each pixel alone (the "
        "form of METHODS), at the threshold found for them in the same way, not confirmed.", "",
        *table(["set", *COPIES], list(found[1])), "",
        "## Chance", "",
        "Pairs of different ids in one half of the people at the threshold learned from the other half, without equal "
        f"pixels; mean of {2 * SPLITS}. Ultrasounds hold several scans of a person without saying so.", "",
        *table(["set", "expected 1", "expected 0.1", "expected 0.01"], list(found[2])), "",
    ]  # fmt: skip
    print("\n".join(page))
    if given.out:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
