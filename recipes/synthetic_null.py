"""Which test of a synthetic set keeps its level? The tables behind METHODS section 5 and issue "Copy detectors", 2.

    python recipes/synthetic_null.py [--repeats 200] [--out docs/results/synthetic_null.md]

Nobody is copied unless planted. Patients' images are points of a mixture of five Gaussians in 16 dimensions, split at
random into a training part, a held-out part and other patients. The generator is a mixture fitted to the training part
(or to the other patients), its components' spread multiplied by 0.8, 1.0 or 1.1.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import betabinom, norm
from sklearn.mixture import GaussianMixture

from memorisk.statistics.copies.calibration import Threshold, equal_pools, percentile_threshold, specificity_threshold
from memorisk.statistics.copies.copy_tests import authenticity, copying_z
from memorisk.statistics.copies.planted_copies import copies_bound, plant_power, planted_p_values
from memorisk.statistics.copies.reversed_queries import ReversedQueries, reversed_queries
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.nulls import candidate_p_values
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg

LEVEL, Q = 0.05, 0.1
SPREADS = (0.8, 1.0, 1.1)
DIMENSIONS, COMPONENTS = 16, 5
PLANT_NOISE = 0.5
MAIN, SMALL = (2000, 399), (1000, 399)  # training and held-out patients

LEVELS_TEXT = """\
Columns: section 5, patients ask the set; the same for a generator that knows other patients only; the usual direction
(METHODS: 16.6 % at spread 0.8, reversed 4.7 to 5.4 %); paper 003's threshold from training images asked among
held-out ones, with all training images as references of the synthetic ones, and with as many as are held out. The
second column is exact; the first may exceed it by what a fit takes from its sample (below). The last three move
with the spread and the numbers of references alone."""
DIMENSIONS_TEXT = """\
Why figures for the usual direction differ from METHODS' 16.6 %: they depend on the features, not on anybody's copy."""
LISTS_TEXT = f"""\
Audits that list anyone at q = {Q} (Benjamini-Hochberg, over training patients and over synthetic images), and the
published statistics: one-cell C_T, authenticity."""
FIT_TEXT = """\
Share of training patients with p at most 5 % less the share of other patients asked about the same set: what METHODS'
"exact whatever the generator's spread" leaves out. The p-value is exact for a set made without either part; a set
fitted to the training part is a little nearer to it, the more parameters and the fewer patients, without a copy of
anybody. In brackets: audits that list anyone."""
PLANTS_TEXT = """\
A plant is a noised copy of a random training image. A false flag is a listed patient without a plant (METHODS: in
96 % of audits with 100 plants left in). Found: share of plants at the cut, frozen without them, of a list of as many
patients."""
SHORTEST_TEXT = """\
Audits that list anyone; after the comma, audits whose `p_ahead` (training patients nearer than every held-out one) is
at most 5 %. METHODS gives no condition: a list has `n_train / (q (n_held + 1))` patients or none."""
BOUND_TEXT = """\
METHODS: "zero found among S: at most 3/(S R) of the set". Read at p <= 0.05 while "found" means "listed", it promises
what it cannot keep; counted at the plants' own cut, it holds, and is wider."""
SIZES_TEXT = """\
The generator knows other patients only, so nobody may be nearer. METHODS compares the smallest distance of a patient
with that of others whatever their numbers of images."""
THRESHOLD_TEXT = """\
A calibration fails when new patients stay without a flagged image less often than nominal."""


@dataclass
class World:
    """A mixture to draw patients from."""

    rng: np.random.Generator
    centres: np.ndarray
    scales: np.ndarray

    def draw(self, n: int) -> np.ndarray:
        """Images of n patients, one each."""
        part = self.rng.integers(COMPONENTS, size=n)
        return self.centres[part] + self.scales[part] * self.rng.standard_normal((n, self.centres.shape[1]))


def world(seed: int, dimensions: int = DIMENSIONS) -> World:
    """A new mixture."""
    rng = np.random.default_rng(seed)
    shape = (COMPONENTS, dimensions)
    return World(rng, 2 * rng.standard_normal(shape), np.exp(0.4 * rng.standard_normal(shape)))


def generate(world: World, images: np.ndarray, n: int, spread: float, kind: str = "5 diagonal") -> np.ndarray:
    """Synthetic images of a mixture fitted to these images."""
    components, shape = int(kind.split()[0]), "diag" if "diagonal" in kind else "full"
    fitted = GaussianMixture(components, covariance_type=shape, reg_covar=1e-3, random_state=0).fit(images)
    part = world.rng.choice(components, p=fitted.weights_ / fitted.weights_.sum(), size=n)
    noise = world.rng.standard_normal((n, images.shape[1]))
    if shape == "diag":
        moved = np.sqrt(fitted.covariances_)[part] * noise
    else:
        moved = np.einsum("nij,nj->ni", np.linalg.cholesky(fitted.covariances_)[part], noise)
    return fitted.means_[part] + spread * moved


def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances: their order is all that matters here."""
    return cdist(a, b, "sqeuclidean")


def image_p_values(distance: np.ndarray, held_distance: np.ndarray) -> np.ndarray:
    """Rank of each image among the held-out ones, the nearest first: each image is its own patient."""
    return candidate_p_values(-distance, -held_distance)


def band(n_train: int, n_held: int, repeats: int) -> tuple[float, float]:
    """Two standard deviations about the exact level, of the mean over audits of exchangeable patients' shares.

    A training patient is flagged when fewer than c = level (n_held + 1) held-out patients are as near: the number
    flagged is beta-binomial(n_train, c, n_held + 1 - c).
    """
    c = int(LEVEL * (n_held + 1) + 1e-9)
    sd = betabinom.std(n_train, c, n_held + 1 - c) / n_train / np.sqrt(repeats)
    return c / (n_held + 1) - 2 * sd, c / (n_held + 1) + 2 * sd


def directions(repeats: int, n_train: int, n_held: int) -> list[str]:
    """Share at 5 % of each test, by spread of the generator; how many audits list anyone; the published statistics."""
    names = ["reversed", "reversed, generator of other patients", "synthetic -> train against held-out -> train"]
    names += ["paper's pools, unmatched", "paper's pools, matched"]
    more = ["reversed", "synthetic -> train", "C_T rejects at 5 %", "authenticity", "of held-out patients"]
    first = [f"| spread | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    second = [f"| spread | {' | '.join(more)} |", "|---|" + "---|" * len(more)]
    for spread in SPREADS:
        rows = []
        for repeat in range(repeats):
            here = world(repeat)
            train, held, other = here.draw(n_train), here.draw(n_held), here.draw(n_train)
            rows.append(audit(here, train, held, other, spread))
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(repeats)
        cells = [f"{100 * m:.2f} ± {200 * e:.2f} %" for m, e in zip(mean[:5], error[:5], strict=True)]
        first.append(f"| {spread} | {' | '.join(cells)} |")
        shares = [percent(round(m * repeats), repeats) for m in mean[5:8]]
        second.append(f"| {spread} | {' | '.join(shares)} | {mean[8]:.2f} | {mean[9]:.2f} |")
    return [*first, "", LISTS_TEXT, "", *second]


def audit(here: World, train: np.ndarray, held: np.ndarray, other: np.ndarray, spread: float) -> list[float]:
    """One set through every test."""
    synthetic = generate(here, train, len(train), spread)
    between, new = squared(synthetic, train), squared(held, train)
    to_train, to_new = between.min(1), new.min(1)
    asked = reversed_queries(between.min(0), squared(held, synthetic).min(1), q=Q)
    apart = generate(here, other, len(train), spread)
    apart_p = reversed_queries(squared(train, apart).min(1), squared(held, apart).min(1)).p_value
    usual_p = image_p_values(to_train, to_new)
    tau = percentile_threshold(new.min(0), 100 * LEVEL)  # training images asked among held-out ones
    rows, _ = equal_pools(np.arange(len(train)), np.arange(len(held)), seed=0)
    inside = squared(train, train)
    np.fill_diagonal(inside, np.inf)
    real = authenticity(to_train, between.argmin(1), inside.min(1), to_new, new.argmin(1))
    return [
        np.mean(asked.p_value <= LEVEL),
        np.mean(apart_p <= LEVEL),
        np.mean(usual_p <= LEVEL),
        tau.flags(to_train).mean(),
        tau.flags(between[:, rows].min(1)).mean(),
        asked.listed.n_rejected > 0,
        benjamini_hochberg(usual_p, Q).n_rejected > 0,
        copying_z(to_train, to_new) < norm.ppf(LEVEL),
        real.share.estimate,
        real.of_new.estimate,
    ]


def dimensions(repeats: int) -> list[str]:
    """The usual direction and the reversed one at spread 0.8, by the dimension of the features."""
    lines = ["| dimensions | synthetic -> train against held-out -> train | reversed |", "|---|---|---|"]
    for size in (4, 16, 64):
        rows = []
        for repeat in range(repeats):
            here = world(repeat, size)
            train, held = here.draw(SMALL[0]), here.draw(SMALL[1])
            synthetic = generate(here, train, SMALL[0], 0.8)
            between = squared(synthetic, train)
            usual = image_p_values(between.min(1), squared(held, train).min(1))
            asked = image_p_values(between.min(0), squared(held, synthetic).min(1))
            rows.append([np.mean(usual <= LEVEL), np.mean(asked <= LEVEL)])
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(repeats)
        cells = [f"{100 * m:.2f} ± {200 * e:.2f} %" for m, e in zip(mean, error, strict=True)]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return lines


def fits(repeats: int, n_held: int) -> list[str]:
    """What the fit to a finite sample adds to the reversed test: training less other patients, same set, same null."""
    sizes = (250, 1000, 4000)
    heads = " | ".join(f"{n:,} training patients" for n in sizes)
    lines = [f"| mixture | {heads} |", "|---|" + "---|" * len(sizes)]
    for kind in ("5 diagonal", "5 full", "40 diagonal"):
        cells = []
        for n in sizes:
            excess, listed = [], 0
            for repeat in range(repeats):
                here = world(repeat)
                train, held, other = here.draw(n), here.draw(n_held), here.draw(n)
                synthetic = generate(here, train, n, 1.0, kind)
                h = squared(held, synthetic).min(1)
                found = reversed_queries(squared(train, synthetic).min(1), h, q=Q)
                new = image_p_values(squared(other, synthetic).min(1), h)
                excess.append(np.mean(found.p_value <= LEVEL) - np.mean(new <= LEVEL))
                listed += found.listed.n_rejected > 0
            error = np.std(excess, ddof=1) / np.sqrt(repeats)
            cells.append(f"{100 * np.mean(excess):+.2f} ± {200 * error:.2f} points ({100 * listed / repeats:.0f} %)")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def plants(here: World, train: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noised copies of n training images: who and what."""
    chosen = here.rng.permutation(len(train))[:n]
    return chosen, train[chosen] + PLANT_NOISE * here.rng.standard_normal((n, DIMENSIONS))


def planting(repeats: int, n_train: int, n_held: int) -> list[str]:
    """Audits that name a patient without a copy, plants left in the list or taken out."""
    lines = ["| plants | left in: audits with a false flag | false flags an audit | taken out: audits with one | "
             "plants found blind, at the cut of a list as long |", "|---|---|---|---|---|"]  # fmt: skip
    for n_plants in (20, 50, 100, 200):
        left, number, out, recall = 0, 0, 0, []
        for repeat in range(repeats):
            here = world(repeat)
            train, held = here.draw(n_train), here.draw(n_held)
            synthetic = generate(here, train, n_train, 1.0)
            chosen, copies = plants(here, train, n_plants)
            w, h = squared(train, synthetic).min(1), squared(held, synthetic).min(1)
            blind = reversed_queries(w, h, q=Q)
            with_w, with_h = squared(train, copies).min(1), squared(held, copies).min(1)
            both = reversed_queries(np.minimum(w, with_w), np.minimum(h, with_h), q=Q)
            false = np.setdiff1d(both.flagged, chosen)
            left, number, out = left + bool(len(false)), number + len(false), out + bool(len(blind.flagged))
            distance = np.square(train[chosen] - copies).sum(1)
            p = planted_p_values(distance, np.ones(n_plants, dtype=int), h)
            recall.append(plant_power(p <= list_cut(blind, n_plants), chosen).recall.estimate)
        shown = [percent(left, repeats), f"{number / repeats:.1f}", percent(out, repeats)]
        lines.append(f"| {n_plants} | {' | '.join(shown)} | {np.mean(recall):.2f} |")
    return lines


def list_cut(found: ReversedQueries, copied: int) -> float:
    """The p-value at which a patient is listed in a list of so many, or of those that are listed, but for rounding."""
    return found.listed.q * max(copied, found.listed.n_rejected) / found.listed.m * (1 + 1e-12)


def lists(repeats: int, n_train: int) -> list[str]:
    """Audits that list somebody, and audits with p_ahead at most 5 %, by the number of copied patients."""
    copied = (0, 1, 5, 20, 50, 100)
    lines = [f"| held out | shortest list | {' | '.join(f'{n} copied' for n in copied)} |", "|---" * 8 + "|"]
    for n_held in (99, 199, 399, 999):
        cells, shortest = [], 0
        for n in copied:
            listed = ahead = 0
            for repeat in range(repeats):
                here = world(repeat)
                train, held = here.draw(n_train), here.draw(n_held)
                synthetic = np.concatenate([generate(here, train, n_train - n, 1.0), plants(here, train, n)[1]])
                found = reversed_queries(squared(train, synthetic).min(1), squared(held, synthetic).min(1), q=Q)
                listed, ahead = listed + bool(found.listed.n_rejected), ahead + (found.p_ahead <= LEVEL)
                shortest = found.shortest_list
            cells.append(f"{100 * listed / repeats:.0f}, {100 * ahead / repeats:.0f} %")
        lines.append(f"| {n_held} | {shortest} | {' | '.join(cells)} |")
    return lines


def bounds(repeats: int, n_train: int, n_held: int) -> list[str]:
    """How often the bound on the share of copies holds where 1 % of the set are noised copies."""
    truth, n_plants = 0.01, 200
    held_up: dict[str, list[bool]] = {"list empty, R at p <= 0.05, 3 / (S R)": [], "counted at p <= 0.05": []}
    held_up["counted at the cut of the shortest list"] = []
    size: dict[str, list[float]] = {name: [] for name in held_up}
    for repeat in range(repeats):
        here = world(repeat)
        train, held = here.draw(n_train), here.draw(n_held)
        copies = plants(here, train, here.rng.binomial(n_train, truth))[1]
        synthetic = np.concatenate([generate(here, train, n_train - len(copies), 1.0), copies])
        between, h = squared(train, synthetic), squared(held, synthetic).min(1)
        found = reversed_queries(between.min(1), h, q=Q)
        chosen, planted = plants(here, train, n_plants)
        distance = np.square(train[chosen] - planted).sum(1)
        p = planted_p_values(distance, np.ones(n_plants, dtype=int), h)
        p_set = planted_p_values(between.min(0), np.ones(n_train, dtype=int), h)
        cuts = (LEVEL, list_cut(found, found.shortest_list))
        uppers = []
        for cut in cuts:
            recall = plant_power(p <= cut, chosen).recall
            uppers.append(copies_bound(int((p_set <= cut * (1 + 1e-12)).sum()), n_train, recall).upper)
        if not found.listed.n_rejected:
            uppers.insert(0, 3 / (n_train * plant_power(p <= LEVEL, chosen).recall.low))
        for name, upper in zip(list(held_up)[-len(uppers) :], uppers, strict=True):
            held_up[name].append(upper >= truth)
            size[name].append(upper)
    lines = ["| reading | audits | mean bound | holds |", "|---|---|---|---|"]
    for name, found in held_up.items():
        lines.append(
            f"| {name} | {len(found)} | {100 * np.mean(size[name]):.2f} % | {percent(sum(found), len(found))} |"
        )
    return lines


def sizes_table(repeats: int) -> list[str]:
    """Share of p at most 5 % by the patient's images, compared at any and at matched sizes."""
    edges = ((1, 1), (2, 3), (4, 8), (9, 30))
    heads = " | ".join(f"{a} to {b} images" if a < b else "1 image" for a, b in edges)
    lines = [f"| compared | all | {heads} |", "|---" * 6 + "|"]
    for sizes in ("any", "matched"):
        table = []
        for repeat in range(repeats):
            here = world(repeat)
            count = np.minimum(here.rng.zipf(1.8, 399), 30)
            group = np.repeat(np.arange(399), count)
            images = here.draw(399)[group] + 0.7 * here.rng.standard_normal((len(group), DIMENSIONS))
            kept = group < 300
            synthetic = generate(here, here.draw(1000), 1000, 1.0)  # of other patients: an exact null
            w = squared(images, synthetic).min(1)
            found = reversed_queries(w[kept], w[~kept], group[kept], group[~kept], sizes=sizes)
            table.append(np.stack([found.n_images, found.p_value <= LEVEL], axis=1))
        flat = np.concatenate(table)
        cells = [flat[(flat[:, 0] >= a) & (flat[:, 0] <= b), 1].mean() for a, b in edges]
        lines.append(f"| {sizes} | {' | '.join(f'{100 * c:.1f} %' for c in [flat[:, 1].mean(), *cells])} |")
    return lines


def calibrations(repeats: int) -> list[str]:
    """How often a 95 % specificity threshold keeps less, over images and over patients."""
    lines = ["| threshold | units | calibrations that fail | mean specificity |", "|---|---|---|---|"]
    rng = np.random.default_rng(0)
    names: dict[str, list[float]] = {}
    for _ in range(10 * repeats):
        patients = np.repeat(np.arange(100), 10)
        draw = rng.standard_normal(100)[patients] + rng.standard_normal(1000)
        fresh = rng.standard_normal((2000, 1)) + rng.standard_normal((2000, 10))
        cuts: dict[str, Threshold] = {
            "5th percentile | images": percentile_threshold(draw, 5),
            "order statistic, 95 % confidence | images": specificity_threshold(draw, confidence=0.95),
            "order statistic, on average | patients": specificity_threshold(draw, patients),
            "order statistic, 95 % confidence | patients": specificity_threshold(draw, patients, confidence=0.95),
        }
        for name, cut in cuts.items():
            names.setdefault(name, []).append(1 - cut.flags(fresh.min(1)).mean())
    for name, kept in names.items():
        lines.append(f"| {name} | {percent(int(np.sum(np.array(kept) < 0.95)), len(kept))} | {np.mean(kept):.3f} |")
    return lines


def percent(count: int, total: int) -> str:
    """A share with its exact 95 % interval."""
    found = clopper_pearson(count, total)
    return f"{100 * found.estimate:.0f} ({100 * found.low:.0f} to {100 * found.high:.0f}) %"


def page(n: int) -> list[str]:
    """All tables, in the order of the questions."""
    (low, high), half = band(*MAIN, n), max(2, n // 2)
    small = f"{SMALL[0]:,} training and {SMALL[1]} held-out patients"
    main = f"{MAIN[0]:,} training and {MAIN[1]} held-out patients, {MAIN[0]:,} synthetic images"
    sections = (
        (f"Levels at 5 % ({n} audits; {main})", LEVELS_TEXT, directions(n, *MAIN)),
        (f"By the dimension of the features (spread 0.8, {half} audits, {small})", DIMENSIONS_TEXT, dimensions(half)),
        (f"What a fit takes from its sample (spread 1.0, {half} audits, 199 held-out)", FIT_TEXT, fits(half, 199)),
        (f"Plants left in, or taken out blind ({n} audits, {small}, q = {Q})", PLANTS_TEXT, planting(n, *SMALL)),
        (
            f"How few copied patients can be listed ({half} audits a cell, {SMALL[0]:,} training patients, q = {Q})",
            SHORTEST_TEXT,
            lists(half, SMALL[0]),
        ),
        (f"Does the bound hold? ({n} audits, {small}; truth 1 %, nominal 95 %)", BOUND_TEXT, bounds(n, *SMALL)),
        (
            f"Patients of unequal numbers of images ({n} audits, 300 training and 99 held-out patients)",
            SIZES_TEXT,
            sizes_table(n),
        ),
        (
            f"Thresholds over images and over patients ({10 * n} calibrations of 100 patients, 10 images each, 95 %)",
            THRESHOLD_TEXT,
            calibrations(n),
        ),
    )
    head = [
        "# Which test of a synthetic set keeps its level?",
        "",
        f"Output of `recipes/synthetic_null.py --repeats {n}`. Nobody is copied unless planted. ± is twice the",
        "standard error over audits (repetitions), brackets are exact 95 % intervals. Distances are Euclidean, one",
        f"image a patient unless said otherwise. With {n} audits of exchangeable patients, 5 % ± two standard",
        f"deviations of the first table is {100 * low:.2f} to {100 * high:.2f} %.",
        "",
    ]
    return head + [line for title, text, table in sections for line in (f"## {title}", "", text, "", *table, "")]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(page(options.repeats))
    print(text) if options.out is None else options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
