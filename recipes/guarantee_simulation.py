"""Does the filter's guarantee hold, and do the intervals of re-identification cover? (METHODS section 4).

    python recipes/guarantee_simulation.py [--repeats 1000] [--out docs/results/guarantee_simulation.md]

Scores of positive pairs have identity effects: some people are hard to recognise, for every detector. A calibration
draws identities and their pairs, sets a threshold by each rule, and fails where the true miss rate, known in closed
form, exceeds alpha.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special, stats

from memorisk.statistics.calibration import one_per_group
from memorisk.statistics.guarantee import miss_guarantee
from memorisk.statistics.identity_pairs import Pairs, negative_pairs, positive_pairs
from memorisk.statistics.jackknife import jackknife
from memorisk.statistics.pair_auc import deleted_pair_auc, pair_auc, pair_design
from memorisk.statistics.proportions import clopper_pearson

DELTA, DETECTORS = 0.05, 5
SHARE = 0.6  # of a pair's variance that is its identity's, half of it common to all detectors
STEP = 0.5
CASES = ((0.01, 299), (0.01, 1000), (0.05, 59), (0.05, 200), (0.1, 29), (0.1, 120))
RULES = ("one random pair each", "best of 5, delta / 5 each", "best of 5, not shared", "pairs as units", "quantile")
IMAGES, SPREADS = 8, (0.6, 0.35)

LEVELS_TEXT = """\
Share of calibrations whose true miss rate exceeds alpha; promised: 5 %. "One random pair each" and "best of 5, delta /
5 each" are `miss_guarantee`; "exact" is what the first must give for continuous scores, P(Bin(n, alpha) <= k). The
best of five is the one that rejects least at its threshold, chosen on the same identities: the choice that hurts most.
"Pairs as units" takes the same order statistic over all pairs, "quantile" the alpha-quantile of one pair each. A dash:
too few identities, no number is given."""
COVERAGE_TEXT = """\
Coverage of nominal 95 % intervals for the AUC of a pair score, identities' spreads unequal, most with one image, one
with thirty; one negative for each positive pair; every identity counts one. DeLong's interval takes pairs as units.
METHODS' jackknife uses t with G - 1 degrees of freedom, the next Satterthwaite's; `pair_auc` counts one identity more
that the score does not know. Brackets: mean width."""


@dataclass(frozen=True)
class World:
    """How many pairs identities have, and whether scores come in steps."""

    name: str
    pairs: Callable[[np.random.Generator, int], np.ndarray]
    steps: bool = False


def alike(rng: np.random.Generator, n: int) -> np.ndarray:
    """Ten pairs each."""
    return np.full(n, 10)


def unequal(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two to forty images an identity, all their pairs: a few identities own most."""
    images = np.minimum(1 + rng.zipf(1.8, n), 40)
    return images * (images - 1) // 2


WORLDS = (
    World("10 pairs each", alike),
    World("few identities own most pairs", unequal),
    World("the same, scores in steps", unequal, steps=True),
)


def calibrate(world: World, alpha: float, n: int, seed: int) -> dict[str, float]:
    """True miss rates of the thresholds that each rule takes from n identities; NaN where it gives none."""
    rng = np.random.default_rng([seed, n])
    identity = np.repeat(np.arange(n), world.pairs(rng, n))
    own, common = rng.standard_normal((DETECTORS, n)), rng.standard_normal(n)
    effect = math.sqrt(SHARE / 2) * (own + common)
    score = effect[:, identity] + math.sqrt(1 - SHARE) * rng.standard_normal((DETECTORS, len(identity)))
    score = np.round(score / STEP) * STEP if world.steps else score
    one = score[:, one_per_group(identity, seed=seed)]
    shared = [miss_guarantee(s, miss_rate=alpha, confidence=1 - DELTA, detectors=DETECTORS) for s in one]
    single = [miss_guarantee(s, miss_rate=alpha, confidence=1 - DELTA) for s in one]
    thresholds = (
        single[0].threshold,
        max(found.threshold for found in shared),
        max(found.threshold for found in single),
        miss_guarantee(score[0], miss_rate=alpha, confidence=1 - DELTA).threshold,
        float(np.quantile(one[0], alpha)),
    )
    below = STEP / 2 if world.steps else 0.0  # a rounded score is below t where the score is below t - STEP / 2
    missed = [float(special.ndtr(t - below)) if math.isfinite(t) else math.nan for t in thresholds]
    return dict(zip(RULES, missed, strict=True))


def failures(world: World, alpha: float, n: int, repeats: int) -> dict[str, int | None]:
    """Calibrations whose true miss rate exceeds alpha, by rule; None where there are too few identities."""
    table = [calibrate(world, alpha, n, seed) for seed in range(repeats)]
    found: dict[str, int | None] = {}
    for rule in RULES:
        missed = np.array([row[rule] for row in table])
        found[rule] = None if np.isnan(missed).any() else int((missed > alpha).sum())
    return found


def allowed(repeats: int) -> float:
    """The largest share of failures that chance explains, delta + 2 sqrt(delta (1 - delta) / repeats)."""
    return DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / repeats)


def levels(world: World, repeats: int) -> list[str]:
    """Failures of each rule by alpha and number of identities."""
    lines = [f"| alpha | identities | exact | {' | '.join(RULES)} |", "|---|---|---|" + "---|" * len(RULES)]
    for alpha, n in CASES:
        k = miss_guarantee(np.zeros(n), miss_rate=alpha, confidence=1 - DELTA).misses_allowed
        exact = f"{100 * stats.binom.cdf(k, n, alpha):.1f} %"
        cells = [percent(count, repeats) for count in failures(world, alpha, n, repeats).values()]
        lines.append(f"| {100 * alpha:g} % | {n:,} | {exact} | {' | '.join(cells)} |")
    return lines


def patients(rng: np.random.Generator, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Identities of images and their embeddings: each identity a point, its images about it."""
    images = np.where(rng.random(n) < 0.4, 1 + np.minimum(rng.zipf(1.7, n), 12), 1)
    images[:2] = (30, 2)
    identity = np.repeat(np.arange(n), images)
    sd = spread * np.exp(0.4 * rng.standard_normal(n))
    noise = sd[identity, None] * rng.standard_normal((len(identity), IMAGES))
    return identity, rng.standard_normal((n, IMAGES))[identity] + noise


def true_auc(spread: float, n: int = 2_000_000) -> float:
    """AUC of a random pair of a random identity against a random pair of two."""
    rng = np.random.default_rng(99)
    sd = spread * np.exp(0.4 * rng.standard_normal((3, n)))
    positive = -2 * sd[0] ** 2 * rng.chisquare(IMAGES, size=n)
    negative = -(2 + sd[1] ** 2 + sd[2] ** 2) * rng.chisquare(IMAGES, size=n)
    return float((stats.rankdata(np.concatenate([positive, negative]))[:n].mean() - (n + 1) / 2) / n)


def intervals(n: int, spread: float, seed: int) -> list[tuple[float, float]]:
    """Limits of the four intervals for one draw of n patients."""
    identity, x = patients(np.random.default_rng([seed, n]), n, spread)
    pairs = positive_pairs(identity)
    others = negative_pairs(identity, pairs, seed=seed)
    both = Pairs(np.concatenate([pairs.first, others.first]), np.concatenate([pairs.second, others.second]))
    score = -np.square(x[both.first] - x[both.second]).sum(1)
    positive = np.arange(len(both)) < len(pairs)
    first, second = identity[both.first], identity[both.second]
    used = pair_auc(score, positive, first, second).interval
    design = pair_design(positive, first, second)
    auc, deleted = deleted_pair_auc(score, design)
    kinds = jackknife(auc, deleted, design.has_positive.astype(np.intp), scale="logit")
    plain = used if auc == 1 else kinds
    return [
        delong(score[positive], score[~positive]),
        methods(auc, deleted),
        (plain.low, plain.high),
        (used.low, used.high),
    ]


def methods(auc: float, deleted: np.ndarray) -> tuple[float, float]:
    """METHODS' interval: delete-one-identity jackknife on the logit, t with G - 1."""
    g = len(deleted)
    se = math.sqrt((g - 1) / g * float(np.square(deleted - deleted.mean()).sum()))
    return logit_limits(auc, float(stats.t.ppf(0.975, g - 1)) * se)


def delong(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float]:
    """Pairs as units: DeLong's variance on the logit."""
    m, n = len(positive), len(negative)
    rank = stats.rankdata(np.concatenate([positive, negative]))
    over = (rank[:m] - stats.rankdata(positive)) / n
    under = 1 - (rank[m:] - stats.rankdata(negative)) / m
    return logit_limits(float(over.mean()), 1.96 * math.sqrt(over.var(ddof=1) / m + under.var(ddof=1) / n))


def logit_limits(auc: float, half: float) -> tuple[float, float]:
    """Limits on the logit carried back; the point itself at 1."""
    if not 0 < auc < 1:
        return auc, auc
    centre, width = special.logit(auc), half / (auc * (1 - auc))
    return float(special.expit(centre - width)), float(special.expit(centre + width))


def coverage(repeats: int) -> list[str]:
    """Coverage and width of the intervals by AUC and number of patients."""
    names = ("DeLong, pairs as units", "METHODS, t with G - 1", "Satterthwaite", "`pair_auc`")
    lines = [f"| AUC | identities | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for spread in SPREADS:
        truth = true_auc(spread)
        for n in (12, 24, 80, 300):
            table = np.array([intervals(n, spread, seed) for seed in range(repeats)])  # [repeats, 4, 2]
            covers = ((table[..., 0] <= truth) & (truth <= table[..., 1])).sum(0)
            width = (table[..., 1] - table[..., 0]).mean(0)
            cells = [f"{percent(int(c), repeats)} [{w:.3f}]" for c, w in zip(covers, width, strict=True)]
            lines.append(f"| {truth:.3f} | {n} | {' | '.join(cells)} |")
    return lines


def percent(count: int | None, total: int) -> str:
    """A share with its exact 95 % interval, or a dash."""
    if count is None:
        return "-"
    found = clopper_pearson(count, total)
    return f"{100 * found.estimate:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f}) %"


def page(repeats: int) -> list[str]:
    """All tables."""
    head = [
        "# Does the filter's guarantee hold?",
        "",
        f"Output of `recipes/guarantee_simulation.py --repeats {repeats}`; brackets are exact 95 % intervals. The",
        f"confidence is 95 % (delta 5 %). With {repeats:,} calibrations a rule keeps its promise where at most",
        f"{100 * allowed(repeats):.2f} % fail: delta + 2 sqrt(delta (1 - delta) / {repeats}).",
        "",
        "## Calibrations that fail",
        "",
        LEVELS_TEXT,
        "",
    ]
    for world in WORLDS:
        head += [f"### {world.name[0].upper()}{world.name[1:]}", "", *levels(world, repeats), ""]
    fewer = max(2, repeats // 2)
    return [*head, f"## Intervals of re-identification ({fewer} draws)", "", COVERAGE_TEXT, "", *coverage(fewer), ""]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(page(options.repeats))
    print(text) if options.out is None else options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
