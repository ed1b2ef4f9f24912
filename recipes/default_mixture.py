"""Would the detector `default` find more copies, had real images been in its training?

    python recipes/default_mixture.py DATA WORK [--left-out OCT lesions X-rays] [--steps 300]
        [--out docs/results/default_mixture.md]

From the shipped weights on, two trainings take the same number of steps of `recipes/default_detector.py`: one with
people that formulas made, as all of its training, and one in which half of the families are real people, eight images
of one set each, of every set that DATA holds but the one that is left out. Then `recipes/copies_found.py` counts, on
the set that neither has seen, which copies both find, by distance alone. WORK holds the trainings; killed, the same
command goes on.

Intervals: Student over source images of the paired difference of the shares of their seven copies that are found.
No image is printed, and no name of one.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats

import default_detector
from copies_found import SEVEN, by_vectors, hits, mean_cell, parts_of, read_rows, resized
from memorisk.models.copy_detectors import Detector, load_detector
from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER
from near_copies import SETS, Set

PICTURES, MOST, SIDE = 1000, 1000, 80


class Mixed(default_detector.Steps):
    """Steps of which every second family is of real people.

    Args:
        pictures: File of pictures.
        first: Number of the first step.
        steps: In all.
        seed: Of all draws.
        real: uint8 [n, 80, 80, 3] of each set.
    """

    def __init__(self, pictures: Path, first: int, steps: int, seed: int, real: list[np.ndarray]) -> None:
        super().__init__(pictures, first, steps, seed)
        self.real = real

    def people(self, pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Families, half of them real."""
        drawn = super().people(pictures, generator)
        for family in range(0, len(drawn), 2):
            images = self.real[int(torch.randint(len(self.real), (1,), generator=generator))]
            rows = torch.randperm(len(images), generator=generator)[: drawn.shape[1]]
            drawn[family] = torch.from_numpy(images[rows.numpy()]).permute(0, 3, 1, 2).float() / 255
        return drawn


def one_image_each(one: Set, data: Path) -> np.ndarray:
    """[n, 80, 80, 3] of up to `MOST` people."""
    whose, rng = one.whose(data), np.random.default_rng(81)
    people = rng.permutation(np.unique(whose))[:MOST]
    rows = np.array([rng.choice(np.flatnonzero(whose == person)) for person in people])
    return np.stack([resized(image, SIDE) for image in read_rows(one, data, rows)])


def trained(work: Path, steps: int, seed: int, real: list[np.ndarray] | None) -> Detector:
    """The detector after these steps."""
    how = default_detector.Steps if real is None else partial(Mixed, real=real)
    default_detector.train(work, steps, seed, PICTURES, DEFAULT_DETECTOR_FOLDER, how)
    last = torch.load(work / default_detector.CHECKPOINT, weights_only=True)
    return default_detector.write_detector(last["average"], last["settings"], "", work / "detector")


def row_of(one: Set, data: Path, seed: int, detectors: dict[str, Detector]) -> str:
    """What each finds on one set, and the difference of the last two."""
    parts = parts_of(one, data, seed)
    ways = [by_vectors(d.embed, d.config.measure, parts) for d in detectors.values()]
    found = [hits(parts, [way], second_look=False)[0] for way in ways]
    procedural, mixed = (np.mean([said[kind] for kind in SEVEN], axis=0) for said in found[-2:])
    more = mixed - procedural
    room = stats.t.ppf(0.975, len(more) - 1) * more.std(ddof=1) / np.sqrt(len(more))
    cells = [mean_cell(said)[1] for said in found]
    difference = f"{more.mean():+.3f} ({more.mean() - room:+.3f} to {more.mean() + room:+.3f})"
    return f"| {' | '.join([one.name, *cells, difference])} |"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--left-out", nargs="+", default=["OCT", "lesions", "X-rays"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    chosen = [one for one in SETS if one.folder and not one.shape]
    shipped = load_detector("default")
    assert isinstance(shipped, Detector)
    procedural = trained(given.work / "procedural", given.steps, given.seed, None)
    rows = []
    for word in given.left_out:
        (left,) = (one for one in chosen if word in one.name)
        real = [one_image_each(one, given.data) for one in chosen if one is not left]
        mixed = trained(given.work / f"without-{word}", given.steps, given.seed, real)
        rows.append(row_of(left, given.data, given.seed, {"shipped": shipped, "made": procedural, "mixed": mixed}))
        print(rows[-1], flush=True)
    heads = ["left out", "shipped", f"{given.steps} more steps, made people", "half of them real", "more by real ones"]
    named = f"--left-out {' '.join(given.left_out)} --steps {given.steps}"
    text = [" ".join(text.split()) for text in (__doc__ or "").split("\n\n")[2:4]]
    page = [
        "# Made people, and a mixture with real ones", "",
        f"`python recipes/default_mixture.py DATA WORK {named}`", "", text[0], "", text[1], "",
        f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *rows, "",
    ]  # fmt: skip
    if given.out is not None:
        given.out.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
