"""Who may be a patient's partner so that nobody looks memorized? Simulated audits of models that memorize nobody.

    python recipes/twins_null.py [--audits 300] [--out docs/results/twins_null.md]

60 patients have one to six images of random classes, and one has twenty more; two thirds of them are canaries of five
twin pairs. The models learn how frequent a class is among their images, and fit everything a little better the more
images they have. Whoever brings images to its side then has a gap, though nobody is memorized, unless both sides hold
the same (docs/twins.md).
"""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.sign_flips import sign_flip_p_values
from memorisk.training.classifiers.twins import TwinDesign, twin_design

LEVEL, SEEDS, PATIENTS, LARGEST = 0.05, 5, 60, 20
NONE = np.empty(0, dtype=np.intp)
Design = Callable[..., TwinDesign]


def population(seed: int, n_groups: int = 41, most: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Patients with random labels A, B, C and random numbers of images: hardly two hold the same."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n_groups)
    groups = np.array([f"p{g:03d}" for g in np.repeat(np.arange(n_groups), sizes)], dtype=object)
    labels = rng.choice(np.array(["A", "B", "C"], dtype=object), len(groups), p=[0.6, 0.3, 0.1])
    return labels, groups


def losses_gap(design: TwinDesign, labels: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Loss gaps of models that memorize nobody and yet are not blind to who is in them, [N].

    Each learns how frequent a class is among its images (``-log`` of the share) and fits everything better the more
    images it has (``0.5 log n``, as a loss of 1 nat does that falls with the root of their number).
    """
    losses = []
    for rows in (design.rows_a, design.rows_b):
        count = Counter(labels[rows])
        share = np.array([np.log((count[c] + 1) / (len(rows) + 3)) for c in labels])
        losses.append(-share - 0.5 * np.log(len(rows)) + noise * rng.normal(size=len(labels)))
    return losses[1] - losses[0]


def nearest(labels: np.ndarray, groups: np.ndarray, rows: np.ndarray, seed: int) -> TwinDesign:
    """Each group beside the next one by number of images, a fair coin a pair: what looks as if it were enough."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(np.unique(groups[rows]))
    ordered = sorted(names, key=lambda g: -(groups == g).sum())
    sign = np.zeros(len(labels), dtype=np.int8)
    for first, second in zip(ordered[0::2], ordered[1::2], strict=False):
        coin = 1 if rng.random() < 0.5 else -1
        sign[groups == first], sign[groups == second] = coin, -coin
    return TwinDesign(seed, np.flatnonzero(sign > 0), np.flatnonzero(sign < 0), sign)


def by_rule(unmatched: str, labels: np.ndarray, groups: np.ndarray, rows: np.ndarray, seed: int) -> TwinDesign:
    """As an audit does, by what it does with whoever has no partner."""
    return twin_design(labels, groups, rows, NONE, seed=seed, unmatched=unmatched)


RULES: dict[str, Design] = {
    "the same labels, equally often; others are not scored (runs of before)": partial(by_rule, "shared"),
    "the next by number of images, a coin each": nearest,
    "divided so that both sides hold the same": partial(by_rule, "divided"),
}


@dataclass(frozen=True)
class Level:
    """Shares of p-values of at most ``LEVEL``, counted."""

    audits: int
    small: int
    """One patient of each audit, at random: independent counts."""
    largest: int
    """The patient with most images."""
    largest_scored: int
    share: float
    """Of the canaries' images that are scored."""


@dataclass(frozen=True)
class Audit:
    """A simulated audit of models that memorize nobody."""

    labels: np.ndarray
    groups: np.ndarray
    gap: np.ndarray
    """[S, N] nats."""
    sign: np.ndarray
    test: np.ndarray
    """[N] whether an image is of the test part."""

    @property
    def scored(self) -> np.ndarray:
        """[N] whether one twin saw an image and the other did not, in a seed at least."""
        return ~self.test & (self.sign != 0).any(axis=0)

    def small(self, label: str, who: str | None, rng: np.random.Generator) -> bool | None:
        """Whether the p-value of a patient of a class (a random one if none is named) is small; None if it has none."""
        own, test = self.scored & (self.labels == label), self.test & (self.labels == label)
        if not own.any():
            return None
        found = sign_flip_p_values(
            self.gap[:, own], self.sign[:, own], self.groups[own], self.gap[:, test], self.groups[test]
        )
        chosen = np.flatnonzero(found.unit == who) if who else rng.permutation(len(found.unit))[:1]
        return bool(found.p_value[chosen[0]] <= LEVEL) if len(chosen) else None

    def a_label(self, of: np.ndarray, rng: np.random.Generator) -> str:
        """A random class that some images have and the test part has, too."""
        return str(rng.choice(sorted(set(self.labels[of]) & set(self.labels[self.test]))))


def simulated(design: Design, seed: int, noise: float, rng: np.random.Generator) -> Audit:
    """Draw the patients, divide them, and let models learn."""
    labels, groups = population(seed, PATIENTS)
    more = rng.choice(np.array(["A", "B", "C"], dtype=object), LARGEST)
    labels, groups = np.concatenate([labels, more]), np.concatenate([groups, ["p000"] * len(more)]).astype(object)
    canary = np.array([int(g[1:]) < 2 * PATIENTS // 3 for g in groups])  # sizes and labels are random: so is this
    designs = [design(labels, groups, np.flatnonzero(canary), seed=100 * seed + s) for s in range(SEEDS)]
    gap = np.stack([losses_gap(d, labels, rng, noise) for d in designs])
    return Audit(labels, groups, gap, np.stack([d.sign for d in designs]), ~canary)


def measure(design: Design, audits: int, noise: float) -> Level:
    """Count small p-values where nobody is memorized."""
    anybody, largest, share = [], [], []
    for seed in range(audits):
        rng = np.random.default_rng([seed, 77])
        audit = simulated(design, seed, noise, rng)
        anybody.append(audit.small(audit.a_label(audit.scored, rng), None, rng))
        largest.append(audit.small(audit.a_label(audit.groups == "p000", rng), "p000", rng))
        share.append(audit.scored.sum() / (~audit.test).sum())
    of_largest = [found for found in largest if found is not None]
    return Level(audits, sum(map(bool, anybody)), sum(of_largest), len(of_largest), float(np.mean(share)))


def share_of(count: int, n: int) -> str:
    """Percent with its interval."""
    if not n:
        return "never scored"
    found = clopper_pearson(count, n)
    return f"{100 * count / n:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=300)
    parser.add_argument("--noise", type=float, nargs="*", default=[0.05, 0.4], help="of a loss, in nats")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    lines = [
        "# Who is a partner", "",
        f"`python recipes/twins_null.py --audits {options.audits}`: how often a patient has p of at most {LEVEL:g} "
        f"though nobody is memorized ({PATIENTS} patients, {SEEDS} twin pairs; docs/twins.md). One patient of each "
        f"audit at random, and the one with {LARGEST} images more than the others' one to six.", "",
        "| who is a partner | noise, nats | images scored | a random patient | the largest patient |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, design in RULES.items():
        for noise in options.noise:
            found = measure(design, options.audits, noise)
            rest = f"{share_of(found.small, found.audits)} | {share_of(found.largest, found.largest_scored)}"
            lines.append(f"| {name} | {noise:g} | {found.share:.0%} | {rest} |")
            print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
