"""Do the intervals of FID, KID, MiFID, precision, recall, density and coverage cover?

    python recipes/quality_simulation.py [--repeats 200] [--out docs/results/quality_simulation.md]

Features are drawn: patients with one image or several, a generator that is perfect, shifted, too narrow, or both, light
and heavy tails, and few images beside many features. An interval is about the figure at these numbers of images, so
that it is right where it holds the mean of the figure over all draws.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.quality.figures import QualityFigure, check_samples
from memorisk.statistics.quality.frechet import frechet, frechet_distance, frechet_figure
from memorisk.statistics.quality.kernel import kernel_distance
from memorisk.statistics.quality.manifold import density_coverage, precision_recall
from memorisk.statistics.quality.memorization_informed import mifid_figure

FIGURES = ("FID", "KID", "MiFID", "precision", "recall", "density", "coverage")
BOOTSTRAPS = 60
TEXT = """\
Coverage of nominal 95 % intervals: the share of draws whose interval holds the mean of the figure over all draws
(brackets: Clopper-Pearson). Width: of the median interval, in standard deviations of the figure; 3.9 is that of a
normal figure whose variance is known. Skewed figures and few units need more. "No interval": share of draws without
one. The last row of each table is what must not be done: percentiles of a bootstrap of images, for FID."""


@dataclass(frozen=True)
class World:
    """What is drawn."""

    name: str
    dimension: int
    patients: int
    images: int
    """Of each patient."""
    synthetic: int
    shift: float = 0.0
    scale: float = 1.0
    heavy: bool = False

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features of real and synthetic images, and patients of the real ones."""
        d = self.dimension
        spread = np.sqrt((1.0 + np.arange(d)) ** -1 * d / np.sum((1.0 + np.arange(d)) ** -1))
        patient = np.repeat(np.arange(self.patients), self.images)
        own = math.sqrt(0.6) if self.images > 1 else 1.0
        real = own * self._noise(rng, self.patients)[patient]
        if self.images > 1:
            real = real + math.sqrt(0.4) * self._noise(rng, len(patient))
        synthetic = self._noise(rng, self.synthetic) * self.scale + self.shift
        return real * spread + 2, synthetic * spread + 2, patient

    def _noise(self, rng: np.random.Generator, n: int) -> np.ndarray:
        shape = (n, self.dimension)
        return rng.standard_t(6, shape) * math.sqrt(2 / 3) if self.heavy else rng.standard_normal(shape)


WORLDS = (
    World("A perfect generator", 16, 200, 1, 200),
    World("Shifted and narrow", 16, 200, 1, 200, 0.3, 0.8),
    World("Shifted and narrow, 4 images a patient", 16, 50, 4, 200, 0.3, 0.8),
    World("Shifted and narrow, 10 patients with 10 images", 16, 10, 10, 100, 0.3, 0.8),
    World("Fewer images than features", 64, 60, 1, 60, 0.2, 0.9),
    World("Heavy tails, much too narrow", 32, 300, 1, 300, 0.3, 0.7, heavy=True),
)


def figures(world: World, seed: int) -> list[QualityFigure]:
    """All figures of one draw; MiFID with its penalty in force."""
    real, synthetic, patient = world.draw(np.random.default_rng([seed, world.dimension]))
    samples = check_samples(real, synthetic, patient)
    distance = frechet(samples)
    manifold = precision_recall(real, synthetic, patient, seed=seed)
    balls = density_coverage(real, synthetic, patient, seed=seed)
    return [
        frechet_figure(samples, distance),
        kernel_distance(real, synthetic, patient),
        mifid_figure(samples, distance, threshold=1.0).figure,
        manifold.precision,
        manifold.recall,
        balls.density,
        balls.coverage,
    ]


def bootstrap(world: World, seed: int) -> tuple[float, float]:
    """Percentiles of FID over images drawn again: biased, since a bootstrap sample repeats images."""
    rng = np.random.default_rng([seed, world.dimension])
    real, synthetic, _ = world.draw(rng)
    drawn = [
        frechet_distance(real[rng.integers(0, len(real), len(real))],
                         synthetic[rng.integers(0, len(synthetic), len(synthetic))]).estimate
        for _ in range(BOOTSTRAPS)
    ]  # fmt: skip
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def table(world: World, repeats: int) -> list[str]:
    """A row a figure."""
    found = [figures(world, seed) for seed in range(repeats)]
    again = [bootstrap(world, seed) for seed in range(repeats)]
    lines = ["| figure | mean | deviation | coverage | width | no interval |", "|---|---|---|---|---|---|"]
    for i, name in enumerate(FIGURES):
        estimate = np.array([row[i].estimate for row in found])
        limits = np.array([(row[i].low, row[i].high) for row in found])
        lines.append(row_of(name, estimate, limits))
    lines.append(row_of("FID, bootstrap", np.array([row[0].estimate for row in found]), np.array(again)))
    return lines


def row_of(name: str, estimate: np.ndarray, limits: np.ndarray) -> str:
    """Coverage and width of one figure's intervals."""
    mean, deviation = estimate.mean(), estimate.std()
    has = ~np.isnan(limits).any(axis=1)
    low, high = limits[has].T
    covered = clopper_pearson(int(((low <= mean) & (mean <= high)).sum()), int(has.sum()))
    said = f"{100 * covered.estimate:.1f} ({100 * covered.low:.1f} to {100 * covered.high:.1f}) %"
    width = np.median(high - low) / deviation
    return f"| {name} | {mean:.4g} | {deviation:.3g} | {said} | {width:.1f} | {100 * (~has).mean():.0f} % |"


def page(repeats: int) -> str:
    """The results as Markdown."""
    lines = [
        "# Do the intervals of quality cover?",
        "",
        f"Output of `recipes/quality_simulation.py --repeats {repeats}`.",
        "",
        TEXT,
    ]
    for world in WORLDS:
        n = world.patients * world.images
        lines += ["", f"## {world.name}", "", f"{n:,} real images of {world.patients:,} patients, {world.synthetic:,} "
                  f"synthetic ones, {world.dimension} features.", "", *table(world, repeats)]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the simulation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    text = page(arguments.repeats)
    if arguments.out is None:
        print(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
