"""Does the verdict of a classifier's audit say what is true? Simulated audits of known truth.

    python recipes/verdict_truth.py [--repeats 200] [--cells NAME ...] [--go-on] [--out docs/results/verdict_truth.md]
    python recipes/verdict_truth.py --more-models [--out docs/results/verdict_more_models.md]
    python recipes/verdict_truth.py --small --repeats 20 [--out docs/results/verdict_small.md]
    python recipes/verdict_truth.py --levels --repeats 4000 --first 100000 [--out docs/results/verdict_levels.md]
    python recipes/verdict_truth.py --offsets

Tables of loss gaps are drawn for worlds in which it is known who is remembered, and judged by the audit's own analysis
(class tests, noticeable gap, attacks, verdict). 1,000 patients, 85 % of them scored and 15 %
unseen, in two classes unless said otherwise. Trainings differ by noise that is heavy-tailed (t, 3 degrees of freedom)
and of another size for each image (log-normal, 0.7), in the median 0.1 nats a seed; a remembered patient's gap has the
spread over seeds that was measured on real ones.

`--go-on` keeps the rows that the page has: the table takes hours, and a row needs to be counted again only after a
change of the verdict.

`--more-models` goes on with audits that failed, as the same command with a larger `--models` does: does a flag that
chance made go away, and does one that memorization made stay?

`--small` shows what few patients in few classes can ever pass with, and with how many models.

`--levels` counts how often the verdict's list flags anyone where no one is remembered: the list decides whether such an
audit fails, and takes a hundredth of an audit's time.

`--offsets` compares what may be added to the standard error of studentized gaps.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.classifier.analysis import PER_CLASS, class_findings, design_checks, verdict_table
from memorisk.audits.classifier.evidence import Context, Evidence, Items, margin_of_loss
from memorisk.audits.classifier.look_alikes import equal_losses
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.reasons import look_alike_reasons
from memorisk.audits.classifier.tables.attacks import (
    ALL,
    attack_rows,
    attacks_for_verdict,
    paper_attacks,
    reference_attacks,
)
from memorisk.audits.classifier.tables.classes import audit_class, gaps_elsewhere, is_asymmetric
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.memorization.sign_flips import gap_statistic
from memorisk.statistics.multiple_testing.families import family_lists
from memorisk.statistics.verdicts.attack_verdict import attack_findings
from memorisk.statistics.verdicts.check_reasons import check_reasons
from memorisk.statistics.verdicts.levels import NOTICE, VERDICT_CORRECTION, VERDICT_LEVEL
from memorisk.statistics.verdicts.noticeable_gap import gap_profiles
from memorisk.statistics.verdicts.units import GROUP_NAMES
from memorisk.statistics.verdicts.verdict import FAIL, PASS, UNDECIDED, Decision, decide


@dataclass(frozen=True)
class World:
    """Who is remembered, and how noisy trainings are."""

    n_models: int = 16
    n_planted: int = 0
    gap: float = 0.0
    """Of each planted patient, in nats."""
    shared: float = 0.0
    """Gap of many, in nats, without spread."""
    share: float = 0.0
    """How many have it."""
    n_classes: int = 2
    n_patients: int = 1000
    most_images: int = 1
    """A patient has from one to so many images; one of them is remembered."""
    album: str = ""
    """Instead of that: a key of `ALBUMS`."""
    every_image: bool = False
    """Whether each image of a planted patient is remembered by the gap, not one of them."""
    mixed: bool = False
    """Whether the class of each image is drawn anew, so that the images of a patient are of many classes."""
    variation: float | None = None
    """Coefficient of variation over trainings of a planted gap; that of real ones if not stated."""
    noisy: float = 0.0
    """Share of patients with `NOISY_TIMES` the noise."""
    among: str = ""
    """Who is planted: `"many"` for patients with ten or more images, `"noisy"` for those with more noise, `"noisiest"`
    for the tenth with the largest gaps, empty for anybody."""
    noise: float = 0.1
    tails: float = 3.0
    """Degrees of freedom of the noise."""
    spread: float = 0.7
    """Of the noise's size over images, as the deviation of its logarithm."""
    duplicates: float = 0.0
    """Share of unseen patients whose images are also a remembered patient's."""
    drift: float = 0.0
    """In the `paper` design: what the candidate gains on every image, seen or not."""
    design: str = "balanced"
    unseen: int = 0
    """Unseen patients of each class; 0: 15 % of all."""
    remembering: int = 0
    """Seeds that remember a planted patient, by ``gap`` in each; 0: all, with the measured spread."""
    halves: str = "fresh"
    """Or "fixed", "two" draws, "shared" by pairs of seeds, "repeated": each training twice."""
    composition: float = 0.5
    """Share of the noise's variance that depends on the halves."""
    test_spread: float = 1.0
    """Spread of unseen patients' gaps over that of scored ones."""
    exchanged_rows: float = 0.0
    """Share of the rows of patients and seeds in which the table exchanges the roles."""
    exchanged_seeds: int = 0
    """Seeds in which the table exchanges the roles."""
    diverged: int = 0
    """Models whose losses are those of guessing, with twenty times the noise."""
    decimals: int = 0
    """Digits to which losses are rounded; 0: none."""
    clipped: float = 0.0
    """Share of the losses that are clipped to a largest value."""
    half_precision: bool = False
    """Whether losses come from probabilities of 16 bits."""
    two_ids: bool = False
    """Whether the first planted patient's images are also another canary's: one person under two ids."""


def drawn_halves(world: World, n_seeds: int) -> np.ndarray:
    """Number of the draw of halves of each seed."""
    ways = {"fresh": n_seeds, "fixed": 1, "two": 2}
    if world.halves in ways:
        return np.arange(n_seeds) % ways[world.halves]
    return np.arange(n_seeds) // 2  # shared by pairs of seeds, repeated or not


def file_under_two_ids(
    losses: tuple[np.ndarray, np.ndarray], sign: np.ndarray, gap: np.ndarray, patients: list[int], images: np.ndarray
) -> None:
    """Give two canaries one image, which a model answers better where it saw either.

    Args:
        losses: [S, N] of model A and of model B, without gaps for the first image; changed in place.
        sign: [S, patients] +1 where A sees the patient, -1 where B does.
        gap: [S] of the person.
        patients: The two ids.
        images: [2] their images.
    """
    for own, loss in zip((1, -1), losses, strict=True):
        saw = (sign[:, patients] == own).any(axis=1)
        loss[:, images] = (loss[:, images[0]] - np.where(saw, gap, 0.0))[:, None]


NOISY_TIMES = 4.0
ALBUMS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "1 or 60": lambda rng, n: np.where(rng.random(n) < 0.05, 60, 1),
    "1 to 200": lambda rng, n: np.floor(np.exp(rng.uniform(0, np.log(201), n))).astype(int),
    "as in NIH": lambda rng, n: np.minimum(rng.pareto(1.05, n) + 1, 66).astype(int),
    "40 to 66": lambda rng, n: rng.integers(40, 67, n),
}
"""Images of each patient: one in twenty has 60; evenly many of each order of magnitude; half have one, and one in ten
has ten or more; everyone has many."""


def plantable(world: World, scored: np.ndarray, more: np.ndarray, sizes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Patients among whom somebody is remembered.

    Args:
        world: Who is remembered.
        scored: [m] patients who are scored.
        more: [n] whether a patient has more noise.
        sizes: [n] number of images.
        size: [n] root mean square of the patient's gaps.
    """
    if world.among == "many":
        return scored[sizes[scored] >= 10]
    if world.among == "noisy":
        return scored[more[scored]]
    if world.among == "noisiest":
        return scored[size[scored] >= np.quantile(size[scored], 0.9)]
    return scored


@dataclass(frozen=True)
class Patients:
    """Patients of a world, and the images of each."""

    label: np.ndarray
    """[n] class."""
    unseen: np.ndarray
    """[n] whether the patient is in the test part."""
    noisy: np.ndarray
    """[n] whether the patient has `NOISY_TIMES` the noise."""
    sizes: np.ndarray
    """[n] number of images."""

    @classmethod
    def drawn(cls, world: World, rng: np.random.Generator, other: np.random.Generator) -> "Patients":
        """Draw album sizes and noisy patients; ``other`` draws what worlds of before did not have."""
        n = world.n_patients
        of_class = np.arange(n) // world.n_classes
        unseen = of_class < world.unseen if world.unseen else of_class % 20 < 3
        sizes = rng.integers(1, world.most_images + 1, n)
        if world.album:
            sizes = ALBUMS[world.album](other, n)
        return cls(np.arange(n) % world.n_classes, unseen, other.random(n) < world.noisy, sizes)

    @property
    def of_image(self) -> np.ndarray:
        """[images] patient of each image."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def first(self) -> np.ndarray:
        """[n] first image of each patient."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def scored(self) -> np.ndarray:
        """Patients who are not in the test part."""
        return np.flatnonzero(~self.unseen)


def drawn_trainings(
    world: World, patients: Patients, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the noise of trainings and the halves.

    Returns:
        [images] size of each image's noise, [S, images] difference of the twins' losses by noise, and [S, n] +1 where
        model A sees a patient, -1 where B does.
    """
    of_image, n_seeds = patients.of_image, world.n_models // 2
    size = world.noise * np.exp(world.spread * rng.standard_normal(len(of_image)))
    size[patients.unseen[of_image]] *= world.test_spread
    size *= np.where(patients.noisy, NOISY_TIMES, 1.0)[of_image]
    difference = size * rng.standard_t(world.tails, (n_seeds, len(of_image)))
    scored, sign = patients.scored, np.zeros((n_seeds, world.n_patients))
    for row in sign:
        coin = rng.permuted(np.resize([1.0, -1.0], len(scored)))
        row[scored] = coin if world.design != "paper" else 1.0
    half_of = drawn_halves(world, n_seeds)
    if world.halves != "fresh":
        sign, own = sign[half_of], difference
        shared = size * rng.standard_t(world.tails, (n_seeds, len(of_image)))[half_of]
        difference = np.sqrt(world.composition) * shared + np.sqrt(1 - world.composition) * own
    if world.halves == "repeated":
        difference = difference[2 * half_of]
    return size, difference, sign


def drawn_memory(
    world: World, patients: Patients, difference: np.ndarray, rng: np.random.Generator, other: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw who is remembered: the planted patients, and [S, n] the gap of each patient's remembered image."""
    n_seeds, scored = len(difference), patients.scored
    remembered = np.zeros((n_seeds, world.n_patients))
    squares = np.bincount(patients.of_image, np.square(difference).mean(axis=0))
    among = plantable(world, scored, patients.noisy, patients.sizes, np.sqrt(squares / patients.sizes))
    planted = rng.choice(among, world.n_planted, replace=False)
    if world.n_planted:
        profiles = gap_profiles(world.gap, *rng.random((2, world.n_planted, n_seeds)))
        if world.variation is not None:
            shape = world.variation**-2
            profiles = other.gamma(shape, world.gap / shape, profiles.shape)
        remembered[:, planted] = profiles.T
    if world.remembering:
        some = np.argsort(rng.random((n_seeds, world.n_planted)), axis=0) < world.remembering
        remembered[:, planted] = np.where(some, world.gap, 0.0)
    remembered[:, scored[rng.random(len(scored)) < world.share]] += world.shared
    return planted, remembered


def draw(world: World, seed: int) -> Evidence:
    """A score table of this world."""
    rng, other = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    patients = Patients.drawn(world, rng, other)
    unseen, of_image = patients.unseen, patients.of_image
    size, difference, sign = drawn_trainings(world, patients, rng)
    planted, remembered = drawn_memory(world, patients, difference, rng, other)
    effect = np.where(unseen, 0.0, sign * remembered)
    copies = np.flatnonzero(unseen)[rng.random(int(unseen.sum())) < world.duplicates]
    if len(planted) and len(copies):  # the model that saw the patient answers the copy as well
        effect[:, copies] = effect[:, rng.choice(planted, len(copies))]
    place = patients.first + (rng.random(world.n_patients) * patients.sizes).astype(int)
    if world.every_image:
        place, effect = np.arange(len(of_image)), effect[:, of_image]
    level, noise = rng.gamma(2.0, 0.4, len(of_image)), difference + world.drift
    losses = level - noise / 2, level + noise / 2
    if world.two_ids:
        twin = next(i for i in patients.scored if patients.label[i] == patients.label[planted[0]] and i not in planted)
        ids = [planted[0], twin]
        effect[:, ids] = 0.0
        file_under_two_ids(losses, sign, remembered[:, planted[0]], ids, place[ids])
    for own, loss in zip((1, -1), losses, strict=True):
        loss[:, place] -= np.maximum(own * effect, 0)  # a model answers better what it saw
    loss_a, loss_b = measured(world, losses, size, rng)
    exchanged = rng.random(sign.shape) < world.exchanged_rows
    exchanged[: world.exchanged_seeds] = True
    side = np.where(exchanged, -sign, sign)[:, of_image]
    label = other.integers(0, world.n_classes, len(of_image)) if world.mixed else patients.label[of_image]
    items = Items(
        np.array([f"i{i}" for i in range(len(of_image))], dtype=object),
        np.array([f"c{i}" for i in label], dtype=object),
        np.array([f"p{i}" for i in of_image], dtype=object),
        np.where(unseen[of_image], "test", "canary").astype(object),
    )
    margins = margin_of_loss(loss_a), margin_of_loss(loss_b)
    correct = np.broadcast_to(level < 1.2, noise.shape)
    seeds = np.arange(len(noise))
    return Evidence(
        items, seeds, world.design, loss_a, loss_b, *margins, correct, correct, member_a=side > 0, member_b=side < 0
    )


def measured(
    world: World, losses: tuple[np.ndarray, np.ndarray], size: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Losses as a table holds them: above zero, of diverged models, with the digits of their numbers."""
    loss_a, loss_b = losses
    lift = np.maximum(1e-3 - np.minimum(loss_a.min(axis=0), loss_b.min(axis=0)), 0)
    loss_a, loss_b = loss_a + lift, loss_b + lift
    if world.diverged:
        loss_a[: world.diverged] = np.abs(np.log(2) + 20 * size * rng.standard_t(world.tails, len(size)))
    if world.clipped:
        ceiling = np.quantile(np.concatenate([loss_a, loss_b]), 1 - world.clipped)
        loss_a, loss_b = np.minimum(loss_a, ceiling), np.minimum(loss_b, ceiling)
    if world.half_precision:
        least = float(np.finfo(np.float16).smallest_subnormal)  # a table of infinite losses is refused
        halves = (np.exp(-loss).astype(np.float16).astype(float) for loss in (loss_a, loss_b))
        loss_a, loss_b = (-np.log(np.maximum(probability, least)) for probability in halves)
    if world.decimals:
        loss_a, loss_b = loss_a.round(world.decimals), loss_b.round(world.decimals)
    return loss_a, loss_b


def judged(
    evidence: Evidence, options: AnalysisOptions, *, context: Context | None = None, advise: bool = False
) -> tuple[Decision, float]:
    """The verdict, and the largest noticeable gap.

    Attacks are left out where the classes fail already: they could add a reason, but change nothing.

    Args:
        evidence: Score table.
        options: Settings of the analysis.
        context: What the scores do not say; that of a classifier where it is not given.
        advise: Whether the number of models of a pass is computed.
    """
    context = context or Context(design=evidence.design)
    units = replace(GROUP_NAMES, scale=context.scale)
    checks = design_checks(evidence, context)
    findings = class_findings(evidence, options, context, checks, advise=advise)
    checks += [f.lists.uneven for f in findings if f.lists.uneven is not None]
    doubts = check_reasons(checks, units)
    table = pd.DataFrame([f.row for f in findings], columns=pd.Index(PER_CLASS))
    rule = {
        "notice": options.notice,
        "units": units,
        "n_seeds": len(evidence.seeds),
        "flips": not is_asymmetric(evidence),
    }
    decision = decide(verdict_table(table), **rule, findings=doubts)
    if decision.status != FAIL and not any(check.voids for check in checks):
        scored = [*paper_attacks(evidence), *reference_attacks(evidence)]
        rows = attack_rows(evidence, scored, {ALL: evidence.items.whole}, options.attack_gate)
        tried, n_groups = attacks_for_verdict(rows, None, True, {}), len(np.unique(evidence.items.group.astype(str)))
        found = attack_findings(tried, options.attack_gate, units, n_groups)
        found += look_alike_reasons(equal_losses(evidence), units)
        decision = decide(verdict_table(table), **rule, findings=[*doubts, *found])
    return decision, float(table["noticeable_gap"].max())


NOBODY = World()
CELLS: dict[str, World] = {
    "nobody, 8 models": World(8),
    "nobody": NOBODY,
    "nobody, 24 models": World(24),
    "1 at 2 nats, 8 models": World(8, 1, 2.0),
    "5 at 2 nats, 8 models": World(8, 5, 2.0),
    "1 at 4 nats, 8 models": World(8, 1, 4.0),
    **{
        f"{n} at {gap:g} nats": World(16, n, gap)
        for n, gap in (
            (1, 0.5),
            (1, 1.0),
            (1, 2.0),
            (1, 4.0),
            (3, 1.0),
            (3, 2.0),
            (5, 0.5),
            (5, 2.0),
            (10, 1.0),
            (10, 2.0),
        )
    },
    "1 at 1 nat, 24 models": World(24, 1, 1.0),
    "1 at 2 nats, 24 models": World(24, 1, 2.0),
    "everybody by 0.06": World(shared=0.06, share=1.0),
    "half by 0.25": World(shared=0.25, share=0.5),
    "everybody by 0.4": World(shared=0.4, share=1.0),
    "twice the noise: nobody": World(noise=0.2),
    "twice the noise: 1 at 2 nats": World(n_planted=1, gap=2.0, noise=0.2),
    "heavy tails: nobody": World(tails=2.2),
    "heavy tails: 1 at 2 nats": World(n_planted=1, gap=2.0, tails=2.2),
    "unequal noise: nobody": World(spread=1.2),
    "unequal noise: 1 at 2 nats": World(n_planted=1, gap=2.0, spread=1.2),
    "300 of 1 to 20 images, 20 models: nobody": World(20, n_patients=300, most_images=20),
    "300 of 1 to 20 images, 20 models: 1 at 2 nats": World(20, 1, 2.0, n_patients=300, most_images=20),
    "12 classes, 22 models: nobody": World(22, n_classes=12),
    "12 classes, 22 models: 1 at 2 nats": World(22, 1, 2.0, n_classes=12),
    "20 models, 400 of 1 or 60 images: nobody": World(20, n_patients=400, album="1 or 60"),
    **{
        f"20 models, 400 of 1 or 60 images: 1 of 60 at {gap:g} nats": World(
            20, 1, gap, n_patients=400, album="1 or 60", among="many"
        )
        for gap in (2.0, 4.0)
    },
    "22 models, 1,056 as in NIH: nobody": World(22, n_patients=1056, album="as in NIH"),
    "22 models, 1,056 as in NIH: 1 at 2 nats": World(22, 1, 2.0, n_patients=1056, album="as in NIH"),
    "22 models, 1,056 as in NIH: 1 of 10 or more at 2 nats": World(
        22, 1, 2.0, n_patients=1056, album="as in NIH", among="many"
    ),
    "20 models, 300 of 1 to 200 images: nobody": World(20, n_patients=300, album="1 to 200"),
    "20 models, 300 of 1 to 200 images: 1 at 2 nats": World(20, 1, 2.0, n_patients=300, album="1 to 200"),
    "20 models, 300 of 1 to 200 images: 1 of 10 or more at 2 nats": World(
        20, 1, 2.0, n_patients=300, album="1 to 200", among="many"
    ),
    "20 models, 100 of 40 to 66 images: nobody": World(20, n_patients=100, album="40 to 66"),
    "20 models, 100 of 40 to 66 images: 1 at 0.2 nats in each": World(
        20, 1, 0.2, n_patients=100, album="40 to 66", every_image=True
    ),
    "22 models, 1,056 as in NIH: 1 of 10 or more at 0.5 nats in each": World(
        22, 1, 0.5, n_patients=1056, album="as in NIH", among="many", every_image=True
    ),
    **{
        f"20 models, 300 of 1 to 20 images of any of ten classes: {name}": World(
            20, n, gap, n_patients=300, most_images=20, n_classes=10, mixed=True, among="many", every_image=True
        )
        for name, n, gap in (("nobody", 0, 0.0), ("1 of 10 or more at 0.2 nats in each", 1, 0.2))
    },
    "300 of 1 to 20 images: 6 of 12 seeds remember 1 of 10 or more by 0.8 nats in each": World(
        24, 1, 0.8, n_patients=300, most_images=20, among="many", every_image=True, remembering=6
    ),
    "1 of the noisiest tenth at 2 nats": World(16, 1, 2.0, among="noisiest"),
    **{
        f"a tenth with {NOISY_TIMES:g} times the noise{models}: {name}": World(
            n_models, n, 2.0 * n, noisy=0.1, among=who
        )
        for models, n_models in (("", 16), (", 24 models", 24))
        for name, n, who in (("nobody", 0, ""), ("1 of them at 2 nats", 1, "noisy"), ("1 at 2 nats", 1, ""))
    },
    **{
        f"1 at 2 nats that vary by {variation:g}{models}": World(n_models, 1, 2.0, variation=variation)
        for variation in (1.0, 1.25)
        for models, n_models in (("", 16), (", 24 models", 24))
    },
    "copies in the test part: 3 at 2 nats": World(n_planted=3, gap=2.0, duplicates=0.03),
    "copies in the test part: 10 at 4 nats": World(n_planted=10, gap=4.0, duplicates=0.03),
    "one patient under two ids: 1 at 2 nats": World(n_planted=1, gap=2.0, two_ids=True),
    "one patient under two ids: 1 at 4 nats, 24 models": World(24, 1, 4.0, two_ids=True),
    "paper, better by 0.4 everywhere: nobody": World(8, drift=0.4, design="paper"),
    "paper: 1 at 4 nats": World(8, 1, 4.0, design="paper"),
    "paper: everybody by 0.5": World(8, shared=0.5, share=1.0, design="paper"),
    "4 of 8 seeds remember 1 at 4 nats": World(n_planted=1, gap=4.0, remembering=4),
    "2 of 8 seeds remember 1 at 8 nats": World(n_planted=1, gap=8.0, remembering=2),
    "3 of 8 seeds remember 1 at 8 nats": World(n_planted=1, gap=8.0, remembering=3),
    "6 of 12 seeds remember 1 at 4 nats": World(24, 1, 4.0, remembering=6),
    "heavy tails: 4 of 8 seeds remember 1 at 4 nats": World(n_planted=1, gap=4.0, remembering=4, tails=2.2),
    **{f"halves {halves}: nobody": World(halves=halves) for halves in ("fixed", "two", "shared", "repeated")},
    **{f"test gaps spread {ratio:g}: nobody": World(test_spread=ratio) for ratio in (0.5, 0.7, 0.85, 1.4, 2.0)},
    "test gaps spread 2: 1 at 2 nats": World(n_planted=1, gap=2.0, test_spread=2.0),
    "roles exchanged in a tenth of rows: 1 at 4 nats": World(n_planted=1, gap=4.0, exchanged_rows=0.1),
    "roles exchanged in 2 of 8 seeds: 1 at 4 nats": World(n_planted=1, gap=4.0, exchanged_seeds=2),
    **{f"{d} decimals: nobody": World(decimals=d) for d in (2, 4, 6)},
    **{
        f"{d} decimals: 4 of 8 seeds remember 1 at 4 nats": World(n_planted=1, gap=4.0, remembering=4, decimals=d)
        for d in (2, 4, 6)
    },
    "losses clipped at their largest 1 %: 1 at 4 nats": World(
        n_models=24, n_patients=600, n_planted=1, gap=4.0, clipped=0.01
    ),
    "float16: nobody": World(half_precision=True),
    "float16: 4 of 8 seeds remember 1 at 4 nats": World(n_planted=1, gap=4.0, remembering=4, half_precision=True),
    **{f"{n} unseen patients a class: nobody": World(20, n_patients=200, unseen=n) for n in (5, 10, 15)},
    **{
        f"{n} unseen patients a class: 3 of 10 seeds remember 1 at 4 nats": World(
            20, 1, 4.0, n_patients=200, unseen=n, remembering=3
        )
        for n in (5, 10, 15)
    },
    "1 diverged model: nobody": World(diverged=1),
    "1 diverged model: 1 at 4 nats": World(n_planted=1, gap=4.0, diverged=1),
    "1 seed: 1 at 4 nats": World(2, 1, 4.0),
    "3 seeds: 1 at 4 nats": World(6, 1, 4.0),
}
"""16 models, 1,000 patients and 2 classes unless said otherwise."""
_LEVELS = (
    "nobody",
    "nobody, 24 models",
    "twice the noise: nobody",
    "unequal noise: nobody",
    *(name for name in CELLS if "unseen patients a class: nobody" in name),
    "1 diverged model: nobody",
)
_FEW_PASSES = (
    "1 at 2 nats",
    "heavy tails: 1 at 2 nats",
    "1 of the noisiest tenth at 2 nats",
    *(name for name in CELLS if "unseen patients a class: 3 of" in name),
)
MORE = dict.fromkeys(_LEVELS, 3) | dict.fromkeys(_FEW_PASSES, 5)
"""Factor of the number of audits: 200 audits do not tell a level of 10 % from 14 %, 600 do; an upper limit of 5 % of
passes takes a thousand where 3 % pass."""


@dataclass(frozen=True)
class Counted:
    """Verdicts of one cell."""

    status: dict[str, int]
    gaps: list[float]
    """The noticeable gap of each audit; NaN where no class could be tested."""
    wrong: int
    """Passes though a patient with a gap of the audit's noticeable one or more was there."""


def audited(world: World, seed: int) -> tuple[str, float]:
    """Status and noticeable gap of one simulated audit."""
    decision, noticeable = judged(draw(world, seed), AnalysisOptions())
    return decision.status, noticeable


def count(world: World, repeats: int, *, first: int = 0, each: Callable[..., Iterable] = map) -> Counted:
    """Judge fresh tables of a world.

    Args:
        world: Who is remembered.
        repeats: Audits.
        first: Seed of the first; each has the next.
        each: What runs them: ``map``, or that of an executor.
    """
    verdicts = list(each(partial(audited, world), range(first, first + repeats)))
    status = {s: sum(own == s for own, _ in verdicts) for s in (PASS, FAIL, UNDECIDED)}
    wrong = sum(own == PASS and world.n_planted > 0 and world.gap >= gap for own, gap in verdicts)
    return Counted(status, [gap for _, gap in verdicts], int(wrong))


def row(name: str, world: World, found: Counted) -> str:
    """A line of the table: shares with the limit that matters."""
    n = sum(found.status.values())
    shown = [f"{100 * found.status[s] / n:.1f}" for s in ("pass", "fail", "undecided")]
    bound = ""
    if world.n_planted and (world.gap >= NOTICE or world.every_image):
        bound = f"pass at most {100 * clopper_pearson(found.status['pass'], n).high:.1f}"
    elif not world.n_planted and not world.share:
        bound = f"fail at most {100 * clopper_pearson(found.status['fail'], n).high:.1f}"
    middle = float(np.nanmedian(found.gaps))
    noticed = "none" if np.isinf(middle) else f"{middle:.2g}"
    return f"| {name} | {n} | {' | '.join(shown)} | {bound} | {noticed} | {found.wrong} |"


_HEADINGS = (
    "world", "audits", "pass %", "fail %", "undecided %", "95 % limit", "noticeable gap, median",
    "passed, a patient of at least the noticeable gap there",
)  # fmt: skip
HEAD = [f"| {' | '.join(_HEADINGS)} |", "|---" * len(_HEADINGS) + "|"]


def offsets(repeats: int) -> list[str]:
    """Power at one and two nats of a patient among 425 of a class beside 75 unseen, 16 models, by what is added."""
    worlds = ((5.0, 0.0), (3.0, 0.7), (2.5, 1.0), (4.0, 1.5))  # degrees of freedom, spread of the noise's size
    rules = {
        "the mean (no studentization)": None,
        "0.15": lambda e: 0.15,
        "median error": lambda e: np.median(e),
        "75th percentile": lambda e: np.quantile(e, 0.75),
        "90th percentile": lambda e: np.quantile(e, 0.9),
        "larger of 0.15 and 75th percentile": lambda e: max(0.15, np.quantile(e, 0.75)),
        "larger of 0.15 and median": lambda e: max(0.15, np.median(e)),
        "0.15 and median (used)": lambda e: 0.15 + np.median(e),
        "twice the median": lambda e: 2 * np.median(e),
    }
    seeds, flips = 8, np.where((np.arange(256)[:, None] >> np.arange(8)) & 1, -1.0, 1.0)
    power: dict[str, list[list[float]]] = {name: [[], []] for name in rules}
    for tails, spread in worlds:
        for noise in (0.1, 0.3, 0.6):
            rng = np.random.default_rng(3)
            for _ in range(repeats):
                one, other = (
                    noise * np.exp(spread * rng.standard_normal(n)) * rng.standard_t(tails, (seeds, n))
                    for n in (75, 60)
                )
                error = np.sqrt((one**2).mean(0) / seeds)
                for i, gap in enumerate((1.0, 2.0)):
                    planted = other + gap_profiles(gap, *rng.random((2, 60, seeds))).T
                    for name, rule in rules.items():
                        null, own = flips @ one, flips @ planted
                        if rule is not None:
                            added = float(rule(error))
                            null, own = (
                                gap_statistic(sums, of, added, 1.0) for sums, of in ((null, one), (own, planted))
                            )
                        ordered = np.sort(null.ravel())
                        hits = (own >= own[0]).sum(0) + len(ordered) - np.searchsorted(ordered, own[0])
                        power[name][i].append(float((hits / (76 * 256) <= 0.05 / 425).mean()))
    lines = ["| added to the standard error | found at 1 nat | at 2 nats |", "|---|---|---|"]
    return lines + [f"| {name} | {np.mean(a):.2f} | {np.mean(b):.2f} |" for name, (a, b) in power.items()]


MODELS, LATER = 16, (24, 32)
"""Of the audits of `--more-models`, and with how many those that failed go on."""
GOES_ON = {"nobody": 3.0, "1 at 1 nats": 0.3, "1 at 2 nats": 0.3}
"""Their worlds, and times as many audits: few fail where nobody is remembered."""
MORE_PAGE = """# Do more models tell a chance flag from memorization?

Output of `recipes/verdict_truth.py --more-models --repeats {repeats}`: the simulated audits of
[verdict_truth.md](verdict_truth.md) with {models} models. Those that failed were issued again with more models, which
keep the trainings that are there.

{table}
"""


def gone_on(world: World, seed: int) -> list[str]:
    """Statuses of one audit with `MODELS` and, where it fails, with each of `LATER`, which keep its trainings."""
    evidence, options = draw(replace(world, n_models=max(LATER)), seed), AnalysisOptions()
    told: list[str] = []
    for n in (MODELS, *LATER):
        told.append(judged(evidence.of_seeds(np.arange(n // 2)), options)[0].status)
        if told[0] != FAIL:
            break
    return told


def more_models(repeats: int, first: int, each: Callable[..., Iterable]) -> list[str]:
    """What audits that failed say with more models: a row a world.

    Args:
        repeats: Audits, times `GOES_ON` of the world.
        first: Seed of the first.
        each: What runs them.
    """
    heads = [f"still fails with {n}" for n in LATER]
    lines = [
        f"| world | audits | fails with {MODELS} models | {' | '.join(heads)} |",
        "|---" * (3 + len(LATER)) + "|",
    ]
    for name, times in GOES_ON.items():
        seeds = range(first, first + round(times * repeats))
        failed = [told for told in each(partial(gone_on, CELLS[name]), seeds) if told[0] == FAIL]
        still = [str(sum(told[i] == FAIL for told in failed)) for i in range(1, 1 + len(LATER))]
        lines.append(f"| {name} | {len(seeds)} | {len(failed)} | {' | '.join(still)} |")
        print(lines[-1], flush=True)
    return lines


SMALL = {f"{n} patients, {c} classes": World(n_patients=n, n_classes=c) for c in (3, 2) for n in (60, 100, 200, 500)}
"""Honest worlds of `--small`."""
SMALL_MODELS = (8, 16, 24, 32)
SMALL_PAGE = """# What can a small hospital show?

Output of `recipes/verdict_truth.py --small --repeats {repeats} --first {first}`: simulated audits in which nobody is
remembered, each patient with one image, 85 % scored, 15 % unseen, the noise of trainings as in
[verdict_truth.md](verdict_truth.md). A cell holds the share of audits that pass, with its 95 % interval, and the median
of the noticeable gap in nats. An audit with more models keeps the trainings of the one with fewer. What kept a pass
away: chance flags (at most one audit in ten, whatever the models), classes or uneven gaps (one patient would not have
been noticed), attacks (the interval of an AUC contains 0.6).

{table}

The price of a column is its number of trainings: 32 models take twice as long as 16. A run with 16 models goes on with
32 and trains 16 more. Not every honest audit can pass, whatever the models: chance flags a patient in up to one audit
of ten.
"""


_OF_ATTACKS = ("attack-open", "attacks-not-comparable", "no-attack")


def kept_away(evidence: Evidence, options: AnalysisOptions) -> tuple[str, float]:
    """Return what keeps a pass away from an audit, empty for a pass, and its noticeable gap."""
    decision, gap = judged(evidence, options)
    if decision.status == PASS:
        return "", gap
    if decision.status == FAIL:
        return "flags", gap
    return ("attacks" if all(one.code in _OF_ATTACKS for one in decision.reasons) else "classes"), gap


def small_audits(world: World, seed: int) -> list[tuple[str, float]]:
    """Judge one world with each of `SMALL_MODELS`."""
    evidence = draw(replace(world, n_models=max(SMALL_MODELS)), seed)
    return [kept_away(evidence.of_seeds(np.arange(n // 2)), AnalysisOptions()) for n in SMALL_MODELS]


def small_sets(repeats: int, first: int, names: Sequence[str], each: Callable[..., Iterable]) -> list[str]:
    """Tabulate `--small`, one row per world.

    Args:
        repeats: Number of audits of each world.
        first: Seed of the first.
        names: Worlds, by their names in `SMALL`.
        each: What runs them.
    """
    heads = [f"{n} models" for n in SMALL_MODELS]
    lines = [f"| world | audits | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for name in names:
        found = list(each(partial(small_audits, SMALL[name]), range(first, first + repeats)))
        cells = []
        for of_number in zip(*found, strict=True):
            kept = Counter(reason for reason, _ in of_number)
            share, gap = clopper_pearson(kept[""], repeats), float(np.median([gap for _, gap in of_number]))
            noticed = f"{gap:.2g} nats" if np.isfinite(gap) else "none"
            rest = ", ".join(f"{reason} {n}" for reason, n in sorted(kept.items()) if reason)
            limits = f"{100 * share.low:.0f} to {100 * share.high:.0f}"
            cells.append(f"{100 * kept[''] / repeats:.0f} % ({limits}), {noticed}{f'; {rest}' if rest else ''}")
        lines.append(f"| {name} | {repeats} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


LEVELS = {
    name: world
    for name, world in CELLS.items()
    if not world.n_planted and not world.share and world.halves == "fresh" and world.design != "paper"
    if world.test_spread == 1 and not world.decimals and not world.half_precision
}
"""Worlds of `--levels`: those without memory, in which nothing keeps lists away; rounding changes no list."""
SLOWER = 4
"""Divisor of the number of tables in worlds of more than two classes, 16 models or one image a patient."""
LEVELS_PAGE = """# How many audits fail by chance?

Output of `recipes/verdict_truth.py --levels --repeats {repeats} --first {first}`: tables of loss gaps of the worlds of
[verdict_truth.md](verdict_truth.md) in which no one is remembered. An audit of such a world fails where the verdict's
list has anyone, which at most one in ten may. In the whole audits of [verdict_truth.md](verdict_truth.md) nothing else
made one fail; they are too few to tell a level of 10 % from 14 %. The worlds share seeds, so that their rows go up and
down together.{missing}

{table}
"""


def lists_anyone(world: World, seed: int) -> bool:
    """Whether the verdict's list of a table has anyone."""
    evidence = draw(world, seed)
    elsewhere = gaps_elsewhere(evidence)
    classes = [
        audit_class(evidence, label, prerequisite_p=np.nan, blocked=None, elsewhere=elsewhere.get(label))
        for label in sorted(set(evidence.items.label))
    ]
    p_values = [of_class.groups["p_value"].to_numpy(float) for of_class in classes]
    lists = family_lists(p_values, [of_class.floor for of_class in classes], VERDICT_LEVEL, VERDICT_CORRECTION)
    return any(of_class.n_rejected for of_class in lists.rejections)


def level_row(name: str, repeats: int, first: int, each: Callable[..., Iterable]) -> str:
    """Count the tables of a world with a list, as a line of the table of `--levels`.

    Args:
        name: World, by its name in `LEVELS`.
        repeats: Number of tables; `SLOWER` times fewer of a slow world.
        first: Seed of the first.
        each: What runs them.
    """
    world = LEVELS[name]
    is_fast = world.n_models <= MODELS and world.n_classes == 2 and world.most_images == 1 and not world.album
    n = repeats if is_fast else repeats // SLOWER
    listed = sum(each(partial(lists_anyone, world), range(first, first + n)))
    share = clopper_pearson(listed, n)
    return f"| {name} | {n} | {100 * listed / n:.1f} | {100 * share.low:.1f} to {100 * share.high:.1f} |"


LEVELS_HEAD = ["| world | tables | with a list % | 95 % interval |", "|---|--:|--:|---|"]


PAGE = """# Does the verdict say what is true?

Output of `recipes/verdict_truth.py --repeats {repeats}`: simulated audits of 1,000 patients (85 % scored, 15 % unseen)
with 16 models and two classes unless said otherwise, in which it is known who is remembered. Noise of trainings: t with
3 degrees of freedom, of another size for each image (log-normal, 0.7), 0.1 nats in the median; twice the noise: 0.2;
heavy tails: 2.2 degrees of freedom; unequal noise: log-normal, 1.2. Attacks count, as in every audit: they find who is
remembered a little, as everybody by 0.06 nats. The rule, its 90 % for a pass among it, was chosen on other seeds.

Where a patient has 2 nats or more, which a pass must notice, the limit is the upper 95 % one of passes; where nobody is
remembered, of failures. The sentence of a pass speaks of gaps that vary over trainings as those of real patients do
(coefficient of variation 0.71 at 2 nats); in the two worlds "that vary by 1" and "by 1.25" they vary more.{missing}

{table}
"""
MISSING = " {n} of {of} worlds are counted so far; `--go-on` counts the others."


def kept_rows(page: Path | None) -> dict[str, str]:
    """Return the rows of a page by their world; none where there is no page yet."""
    lines = page.read_text(encoding="utf-8").splitlines() if page and page.exists() else []
    named = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    return {name: line for name, line in named.items() if name in CELLS}


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="seed of the first audit")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    parser.add_argument("--go-on", action="store_true", help="keep the rows of the page, and count the others")
    parser.add_argument("--more-models", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--sets", nargs="*", default=list(SMALL), help="worlds of --small")
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    if options.offsets:
        text = "\n".join([*offsets(max(options.repeats // 10, 1)), ""])
    elif options.small:
        with ProcessPoolExecutor(options.processes) as pool:
            table = "\n".join(small_sets(options.repeats, options.first, options.sets, pool.map))
        text = SMALL_PAGE.format(repeats=options.repeats, first=options.first, table=table)
    elif options.levels:
        rows = kept_rows(options.out) if options.go_on else {}
        with ProcessPoolExecutor(options.processes) as pool:
            each = partial(pool.map, chunksize=16)
            for name in LEVELS:
                if name in options.cells and name not in rows:
                    rows[name] = level_row(name, options.repeats, options.first, each)
                    print(rows[name], flush=True)
                table = "\n".join([*LEVELS_HEAD, *(rows[own] for own in LEVELS if own in rows)])
                missing = MISSING.format(n=len(rows), of=len(LEVELS)) if len(rows) < len(LEVELS) else ""
                head = {"repeats": options.repeats, "first": options.first}
                text = LEVELS_PAGE.format(table=table, missing=missing, **head)
                if options.out:
                    options.out.write_text(text, encoding="utf-8")
    elif options.more_models:
        with ProcessPoolExecutor(options.processes) as pool:
            each = partial(pool.map, chunksize=4)
            table = "\n".join(more_models(options.repeats, options.first, each))
        text = MORE_PAGE.format(repeats=options.repeats, models=MODELS, table=table)
    else:
        rows = kept_rows(options.out) if options.go_on else {}
        with ProcessPoolExecutor(options.processes) as pool:
            for name in options.cells:
                if name not in rows:
                    each = partial(pool.map, chunksize=4)
                    repeats = options.repeats * MORE.get(name, 1)
                    rows[name] = row(name, CELLS[name], count(CELLS[name], repeats, first=options.first, each=each))
                    print(rows[name], flush=True)
                lines = [*HEAD, *(rows[own] for own in CELLS if own in rows)]
                missing = MISSING.format(n=len(rows), of=len(CELLS)) if len(rows) < len(CELLS) else ""
                text = PAGE.format(repeats=options.repeats, table="\n".join(lines), missing=missing)
                if options.out:
                    options.out.write_text(text, encoding="utf-8")
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    elif options.offsets:
        print(text)


if __name__ == "__main__":
    main()
