"""Does the verdict of a generator's audit say what is true? Simulated losses by noise level, of known truth.

    python recipes/generator_worlds.py [--repeats 100] [--worlds NAME ...] [--go-on] [--out PAGE]

Tables of denoising losses [pairs, levels, images] are drawn for worlds in which it is known who is remembered. The
weights of the audit (`scores.noise_errors`) join their levels, and its own analysis judges them, as `verdict_truth.py`
does for classifiers. 1,000 patients of one image, 85 % scored and 15 % unseen, one class, 40 models. At ten levels
twins differ by noise of another size for each level and image; half of its variance is shared by the levels of an
image.
"""

import argparse
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.evidence import Context, Evidence, Items
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.scores.noise_errors import joined_losses, level_weights
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.verdicts.noticeable_gap import gap_profiles
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from memorisk.statistics.verdicts.verdict import FAIL, PASS, UNDECIDED
from verdict_truth import judged

PATIENTS = 1000
"""Number of patients, each with one image."""
LEVELS = 10
"""Number of noise levels."""
SIZES = np.geomspace(0.002, 0.2, LEVELS)
"""Size of the noise of trainings at each level, in units of the loss: levels of much noise differ little."""
PROFILES = {
    "alike": np.ones(LEVELS),
    "two levels": np.isin(np.arange(LEVELS), (3, 4)).astype(float),
    "disagree": np.where(np.arange(LEVELS) < 3, -0.5, 1.0),
}
"""Size of a gap at each level, in that of the noise there: where levels disagree, the model that saw the image is worse
at three of them."""


@dataclass(frozen=True)
class GeneratorWorld:
    """World of a generator: who is remembered, and how noisy trainings are."""

    n_planted: int = 0
    """Number of remembered patients."""
    gap: float = 0.0
    """Gap of each of them, in standard deviations of unseen gaps (SD)."""
    shared: float = 0.0
    """Gap of all patients, in SD, without spread over trainings."""
    profile: str = "alike"
    """Key of `PROFILES`."""
    spread: float = 0.32
    """Deviation of the logarithm of the noise's size over images, as measured on digits."""
    tails: float = 30.0
    """Degrees of freedom of the noise."""
    hard: float = 0.0
    """Share of the images that are harder: their loss and their noise are `HARDER` times as large."""
    n_models: int = 40
    noisiest: bool = False
    """Whether the remembered patients are of the tenth with the largest gaps."""


HARDER = 3.0
WIDE = {"spread": NOISE_ERROR.spread, "tails": NOISE_ERROR.tails}
"""Noise that plans assume."""
WORLDS = {
    "nobody": GeneratorWorld(),
    "1 at 2 SD": GeneratorWorld(1, 2.0),
    "1 of the noisiest tenth at 2 SD": GeneratorWorld(1, 2.0, noisiest=True),
    "at two of ten levels: 1 at 2 SD": GeneratorWorld(1, 2.0, profile="two levels"),
    "levels disagree: 1 at 2 SD": GeneratorWorld(1, 2.0, profile="disagree"),
    "a tenth is harder: nobody": GeneratorWorld(hard=0.1),
    "a tenth is harder: 1 at 2 SD": GeneratorWorld(1, 2.0, hard=0.1),
    "noise as plans assume, 64 models: nobody": GeneratorWorld(n_models=64, **WIDE),
    "noise as plans assume, 64 models: 1 at 2 SD": GeneratorWorld(1, 2.0, n_models=64, **WIDE),
    "heavy tails (3 degrees of freedom), 64 models: nobody": GeneratorWorld(n_models=64, tails=3.0),
    "heavy tails (3 degrees of freedom), 64 models: 1 at 2 SD": GeneratorWorld(1, 2.0, n_models=64, tails=3.0),
    "24 models: nobody": GeneratorWorld(n_models=24),
    "24 models: 1 at 2 SD": GeneratorWorld(1, 2.0, n_models=24),
    "everybody by 0.2 SD": GeneratorWorld(shared=0.2),
    "everybody by 0.6 SD": GeneratorWorld(shared=0.6),
}
COLUMNS = ("world", "audits", "pass %", "fail %", "undecided %", "95 % limit", "noticeable gap, SD, median")
PAGE = """# Does the verdict on a generator say what is true?

Output of `recipes/generator_worlds.py --repeats {repeats}`: simulated audits of 1,000 patients of one image (85 %
scored, 15 % unseen) with 40 models, unless the world says otherwise, in which it is known who is remembered. The losses
are those of ten noise levels, joined by the weights of the audit. The noise of trainings is nearly normal, as on
digits, of another size for each image (log-normal, 0.32) and each level (from 1 to 100); half of its variance is shared
by the levels of an image. A remembered patient's gap has the spread over trainings that was measured
on classifiers. Where levels disagree, the model that saw the image is worse at three of them.

Where a patient has 2 SD or more, which a pass must notice, the limit is the upper 95 % limit of passes; where no
patient is remembered, that of failures.

| {columns} |
{rule}
{rows}
"""


def draw(world: GeneratorWorld, seed: int) -> Evidence:
    """Draw the score table of an audit.

    Args:
        world: Who is remembered, and how noisy trainings are.
        seed: Random seed.
    """
    rng = np.random.default_rng([73, seed])
    n, n_seeds = PATIENTS, world.n_models // 2
    unseen = np.arange(n) % 20 < 3
    scored = np.flatnonzero(~unseen)
    hard = np.where(rng.random(n) < world.hard, HARDER, 1.0)
    size = hard * np.exp(world.spread * rng.standard_normal(n))
    shared = rng.standard_t(world.tails, (n_seeds, 1, n))
    own = rng.standard_t(world.tails, (n_seeds, LEVELS, n))
    difference = SIZES[:, None] * size * (shared + own) / np.sqrt(2)
    difficulty = hard * rng.gamma(4.0, 1.0, n)
    middle = 5 * SIZES[:, None] * difficulty
    sign = np.zeros((n_seeds, n))
    for row in sign:
        row[scored] = rng.permuted(np.resize([1.0, -1.0], len(scored)))
    losses = np.stack([middle - difference / 2, middle + difference / 2])  # [2, S, L, n]
    weights = level_weights(*losses, unseen)
    remembered = np.where(unseen, 0.0, world.shared) * np.ones((n_seeds, 1))
    if world.n_planted:
        sizes = np.sqrt(np.square(joined_losses(difference, weights)).mean(axis=0))[scored]
        among = scored[sizes >= np.quantile(sizes, 0.9)] if world.noisiest else scored
        planted = rng.choice(among, world.n_planted, replace=False)
        remembered[:, planted] += gap_profiles(world.gap, *rng.random((2, world.n_planted, n_seeds))).T
    profile = PROFILES[world.profile] * SIZES
    effect = profile[:, None] / (weights @ profile) * (sign * remembered)[:, None]  # [S, L, n]
    saw = sign[:, None]
    losses += np.stack([np.where(saw > 0, -effect, 0), np.where(saw < 0, effect, 0)])  # in the model that saw the image
    losses += np.maximum(-losses.min(axis=(0, 1)), 0)  # errors are squares
    loss_a, loss_b = joined_losses(losses, weights)
    items = Items(
        np.array([f"i{i}" for i in range(n)], dtype=object),
        np.full(n, "image", dtype=object),
        np.array([f"p{i}" for i in range(n)], dtype=object),
        np.where(unseen, "test", "canary").astype(object),
    )
    unknown = np.zeros(loss_a.shape, dtype=bool)
    seeds = np.arange(n_seeds)
    return Evidence(
        items,
        seeds,
        "balanced",
        loss_a,
        loss_b,
        -loss_a,
        -loss_b,
        unknown,
        unknown,
        member_a=sign > 0,
        member_b=sign < 0,
        scale=NOISE_ERROR.name,
    )


def audited(world: GeneratorWorld, seed: int) -> tuple[str, float]:
    """Return the status and the noticeable gap of one simulated audit."""
    evidence = draw(world, seed)
    context = Context(design=evidence.design, scale=NOISE_ERROR.name, audit="generator")
    decision, gap = judged(evidence, AnalysisOptions(notice=NOISE_ERROR.notice), context=context)
    return decision.status, gap


def row(name: str, outcomes: list[tuple[str, float]]) -> str:
    """Write a world's line: shares of the verdicts with the limit that matters.

    Args:
        name: Key of `WORLDS`.
        outcomes: Status and noticeable gap of each audit.
    """
    world, n, counts = WORLDS[name], len(outcomes), Counter(status for status, _ in outcomes)
    shares = " | ".join(f"{100 * counts[status] / n:.1f}" for status in (PASS, FAIL, UNDECIDED))
    limit = ""
    if world.n_planted and world.gap >= NOISE_ERROR.notice:
        limit = f"pass at most {100 * clopper_pearson(counts[PASS], n).high:.1f}"
    elif not world.n_planted and not world.shared:
        limit = f"fail at most {100 * clopper_pearson(counts[FAIL], n).high:.1f}"
    gap = float(np.nanmedian([gap for _, gap in outcomes]))
    return f"| {name} | {n} | {shares} | {limit} | {'none' if np.isinf(gap) else f'{gap:.2g}'} |"


def main() -> None:
    """Judge fresh tables of each world and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--go-on", action="store_true", help="keep the rows of the page, and count the others")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    page = chosen.out.read_text(encoding="utf-8") if chosen.go_on and chosen.out and chosen.out.exists() else ""
    rows = {name: line for line in page.splitlines() if (name := line.split(" | ")[0].removeprefix("| ")) in WORLDS}
    with ProcessPoolExecutor(chosen.processes) as pool:
        for name in chosen.worlds:
            if name in rows:
                continue
            rows[name] = row(name, list(pool.map(partial(audited, WORLDS[name]), range(chosen.repeats), chunksize=4)))
            print(rows[name], flush=True)
            if chosen.out:
                lines = "\n".join(rows[name] for name in WORLDS if name in rows)
                rule = "|---" * len(COLUMNS) + "|"
                text = PAGE.format(repeats=chosen.repeats, columns=" | ".join(COLUMNS), rule=rule, rows=lines)
                chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
