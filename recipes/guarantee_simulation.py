"""Does the filter's guarantee hold, and do the intervals of re-identification cover? (METHODS section 4).

    python recipes/guarantee_simulation.py [--repeats 1000] [--out docs/results/guarantee_simulation.md]
    python recipes/guarantee_simulation.py --images DATA [--repeats 1000] [--out docs/results/guarantee_images.md]

Scores of positive pairs have identity effects: some people are hard to recognise, for every detector. A calibration
draws identities and their pairs, sets a threshold by each rule, and fails where the true miss rate, known in closed
form, exceeds alpha. On images the scores are those of copies of real and made images, computed once, and calibrations
are drawn from them.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import special, stats
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from memorisk.audits.comparison.sets import select_rows
from memorisk.audits.filter.calibration import draw_pairs
from memorisk.audits.filter.families import REIDENTIFICATION, Family, parse_families
from memorisk.audits.filter.sets import likeness, look_alikes
from memorisk.images.copies.near_copies import thumbnails
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.runs.workload import no_progress
from memorisk.statistics.copies.calibration import identities_needed, misses_allowed, one_per_group
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.jackknife import jackknife
from memorisk.statistics.pairs.auc import deleted_pair_auc, pair_auc, pair_design
from memorisk.statistics.pairs.guarantee import miss_guarantee
from memorisk.statistics.pairs.identity_pairs import Pairs, negative_pairs, positive_pairs

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


SIDE, IDENTITIES, ALPHA = 64, 120, 0.1
TRAINED = 0.25  # of the identities; calibrations are drawn from the others
MADE = 1000
EARLIER, GIVEN, CAUTIOUS = "until 2026-11-23", "as given", "the more cautious"
EARLIER_NEAR, EARLIER_SHADING = 0.95, 2.0
REAL: dict[str, tuple[str, dict[str, str]]] = {
    "HAM10000": ("ham10000_224", {}),
    "NIH": ("nih_cxr14_64/NIH1000", {"group_from": r"^(\d+)_"}),
    "BUSI": ("busi_ultrasound/Dataset_BUSI_with_GT", {}),
    "OCT": ("eye_oct", {"group_from": r"^(\d+)_"}),
}
FAMILY_NAMES = ("copies", "flipped", "cropped")
IMAGES_TEXT = f"""\
A quarter of the identities of each set trains. Of the others {IDENTITIES} are drawn for a calibration, with return, so
that each is a new draw from people like these; one random image of each is copied by the family, and its score is minus
the Euclidean distance of {SIDE} x {SIDE} pixels to its copy. A calibration is broken where more than
{100 * ALPHA:g} % of the copies of all these people, each counting one, lie below its threshold. Each family is asked
for alone, so that it has the whole 5 %. NIH and OCT name patients; in the others every image is an identity, as the
filter is given it. "Round" and "fan" lay such a field over the images, black outside. Made images: smooth noise of
unlike sharpness, contrast and brightness in a field (or within a black border) that all share.

Three rules. *{EARLIER}*: whoever has an image nearly a training image is left out, and people with nearly equal images
are one, chains included (details of thumbnails correlate by {EARLIER_NEAR}). *{GIVEN}*: nobody is left out.
*{CAUTIOUS}*, the filter's: the lower threshold of "{GIVEN}" and of look-alikes as one person, by today's
`images.copies.duplicates`; none where either reading has fewer than
{identities_needed(1 - ALPHA, 1 - DELTA)} identities.
Without a threshold nothing is promised and nothing broken."""


@dataclass(frozen=True, eq=False)
class People:
    """Who may be drawn, with the scores of their copies."""

    score: np.ndarray
    """[F, P] of pairs, a row a family."""
    owner: np.ndarray
    """[P] whose pair it is, rising."""
    earlier: np.ndarray
    """[G, G] whether two are nearly the same by the earlier rule."""
    earlier_known: np.ndarray
    """[G] or nearly a training image."""
    unit: np.ndarray
    """[G] of the second reading, which is one of all people here."""

    def broken(self, repeats: int) -> dict[str, list[tuple[int, int]]]:
        """Of each rule and family: calibrations that are broken, and those with a threshold."""
        n_people = self.owner[-1] + 1
        count = np.bincount(self.owner)
        start = np.cumsum(count) - count
        weight = 1 / (n_people * count[self.owner])
        order = np.argsort(self.score, axis=1)
        ranked = np.take_along_axis(self.score, order, axis=1)
        below = np.hstack([np.zeros((len(self.score), 1)), np.cumsum(weight[order], axis=1)])
        found = {rule: np.full((repeats, len(self.score)), np.nan) for rule in (EARLIER, GIVEN, CAUTIOUS)}
        for repeat in range(repeats):
            rng = np.random.default_rng([repeat, 7])
            drawn = rng.integers(n_people, size=IDENTITIES)
            score = self.score[:, start[drawn] + rng.integers(count[drawn])]
            units = self.unit[drawn]
            new = np.flatnonzero(units >= 0)
            as_one = new[one_per_group(units[new], seed=repeat)]
            tau = {EARLIER: threshold(score[:, self.those_left(drawn)]), GIVEN: threshold(score)}
            tau[CAUTIOUS] = np.minimum(tau[GIVEN], threshold(score[:, as_one]))
            for rule, values in tau.items():
                at = [np.searchsorted(row, value) for row, value in zip(ranked, values, strict=True)]
                missed = below[np.arange(len(at)), at]
                found[rule][repeat] = np.where(np.isfinite(values), missed, np.nan)
        more = ALPHA * (1 + 1e-9)  # shares are sums of weights
        return {
            rule: list(zip((rates > more).sum(0).tolist(), np.isfinite(rates).sum(0).tolist(), strict=True))
            for rule, rates in found.items()
        }

    def those_left(self, drawn: np.ndarray) -> np.ndarray:
        """Places of who calibrates by the earlier rule; one who is drawn twice stands for two unlike people."""
        near = self.earlier[np.ix_(drawn, drawn)]
        component = connected_components(csr_array(near), directed=False)[1]
        known = np.isin(component, component[self.earlier_known[drawn]])
        first = np.unique(component, return_index=True)[1]
        return first[~known[first]]


def threshold(score: np.ndarray) -> np.ndarray:
    """[F] `miss_guarantee` of each row; -inf where there are too few."""
    k = misses_allowed(score.shape[1], ALPHA, 1 - DELTA)
    return np.full(len(score), -np.inf) if k < 0 else np.partition(score, k, axis=1)[:, k]


def people_of(store: ImageStore, families: Sequence[Family], seed: int = 0) -> Iterator[tuple[list[str], People]]:
    """The people of a set that do not train, by copies, and those with two images by re-identification."""
    names, owner = np.unique(store.manifest.groups.astype(str), return_inverse=True)
    trains = np.random.default_rng(seed).random(len(names)) < TRAINED
    train, rest = (select_rows(store, np.flatnonzero(trains[owner] == side)) for side in (True, False))
    names, owner = np.unique(rest.manifest.groups.astype(str), return_inverse=True)
    one_by_one = rest.manifest.table.assign(group=[f"{i:06}" for i in range(len(owner))])
    alone = replace(rest, manifest=replace(rest.manifest, table=one_by_one))
    flat = rest.images[:].reshape(len(owner), -1).astype(np.float32)
    score = []
    for family in families:
        copies = draw_pairs(family, alone, seed).copies
        assert copies is not None
        score.append(-np.linalg.norm(flat - copies.images[:].reshape(flat.shape), axis=1))
    first = earlier_details(rest)
    near = np.maximum(first @ earlier_details(train).T, earlier_details(rest, mirrored=True) @ earlier_details(train).T)
    near_others = csr_array((first @ first.T >= EARLIER_NEAR).astype(np.int64))
    member = csr_array((np.ones(len(owner), np.int64), (owner, np.arange(len(owner)))))
    earlier = (member @ near_others @ member.T).toarray() > 0
    np.fill_diagonal(earlier, False)
    known = np.isin(np.arange(len(names)), owner[near.max(axis=1) >= EARLIER_NEAR])
    alike = look_alikes(names, likeness(train, rest, no_progress))
    unit = np.array([alike.unit[name] for name in names])
    by_owner = np.argsort(owner, kind="stable")
    yield [f.name for f in families], People(np.array(score)[:, by_owner], owner[by_owner], earlier, known, unit)
    pairs = positive_pairs(owner)
    if len(pairs):
        by_owner = np.argsort(owner[pairs.first], kind="stable")
        one, other = pairs.first[by_owner], pairs.second[by_owner]
        able, of_pair = np.unique(owner[one], return_inverse=True)
        distance = np.linalg.norm(flat[one] - flat[other], axis=1)
        yield (
            [REIDENTIFICATION],
            People(-distance[None], of_pair, earlier[np.ix_(able, able)], known[able], unit[able]),
        )


def earlier_details(store: ImageStore, *, mirrored: bool = False) -> np.ndarray:
    """[n, 1024] details of thumbnails as they were compared until 2026-11-23, of mean 0 and length 1."""
    greys = thumbnails(store.images)[:, :, :: -1 if mirrored else 1].astype(np.float32)
    rest = greys - gaussian_filter(greys, (0, EARLIER_SHADING, EARLIER_SHADING), mode="reflect")
    rest = rest.reshape(len(rest), -1)
    rest -= rest.mean(axis=1, keepdims=True)
    return rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-9)


def field(name: str) -> np.ndarray:
    """[SIDE, SIDE] where something is seen: of a fundus camera, an ultrasound probe, or a scan inside a border."""
    y, x = np.mgrid[:SIDE, :SIDE] / (SIDE - 1)
    if name == "round":
        return np.hypot(x - 0.5, y - 0.5) < 0.48
    if name == "fan":
        return (np.abs(np.arctan2(x - 0.5, y + 0.15)) < 0.6) & (np.hypot(x - 0.5, y + 0.15) < 1.1) & (y > 0.08)
    return (np.abs(x - 0.5) < 0.4) & (np.abs(y - 0.5) < 0.4)


def made_images(name: str, n: int, seed: int = 0) -> np.ndarray:
    """[n, SIDE, SIDE, 1] smooth noise in a field, of unlike sharpness, contrast and brightness."""
    rng = np.random.default_rng([seed, 3])
    found = np.zeros((n, SIDE, SIDE, 1), np.uint8)
    for image in found:
        noise = gaussian_filter(rng.standard_normal((SIDE, SIDE)), rng.uniform(1.5, 4.0))
        grey = rng.uniform(40, 220) + rng.uniform(2, 20) * noise / noise.std()
        image[..., 0] = np.where(field(name), np.clip(grey, 0, 255), 0)
    return found


def image_sets(data: Path | None, n_made: int, folder: Path) -> Iterator[tuple[str, ImageStore]]:
    """Made sets, and real ones without and with a field."""
    for name in ("round", "fan", "border"):
        file = folder / f"{name}.npy"
        np.save(file, made_images(name, n_made))
        options = ImageOptions(store=folder)
        yield f"made, {name}", build_store(load_manifest(file, options), options)
    for name, (place, settings) in REAL.items() if data is not None else ():
        options = ImageOptions(size=SIDE, channels=1, store=folder, **settings)
        store = build_store(load_manifest(data / place, options), options)
        images = np.asarray(store.images[:])
        yield name, replace(store, images=images)
        for shape in ("round", "fan"):
            yield f"{name}, {shape}", replace(store, images=images * field(shape)[..., None])


def images_page(data: Path | None, repeats: int, n_made: int = MADE) -> list[str]:
    """Broken calibrations by set, family and rule."""
    families = parse_families(FAMILY_NAMES)
    names = [*(family.name for family in families), REIDENTIFICATION]
    cells: dict[str, dict[str, dict[str, tuple[int, int]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, store in image_sets(data, n_made, Path(folder)):
            for kinds, people in people_of(store, families):
                for rule, counts in people.broken(repeats).items():
                    cells.setdefault(rule, {}).setdefault(title, {}).update(zip(kinds, counts, strict=True))
    k = misses_allowed(IDENTITIES, ALPHA, 1 - DELTA)
    lines = [
        "# Does the filter's guarantee hold on images?",
        "",
        f"Output of `recipes/guarantee_simulation.py --images DATA --repeats {repeats}`. {IMAGES_TEXT}",
        "",
        f"Promised: at most 5 % broken; of continuous scores {100 * stats.binom.cdf(k, IDENTITIES, ALPHA):.1f} %, "
        f"P(Bin({IDENTITIES}, {ALPHA:g}) <= {k}). A rule keeps its promise where at most "
        f"{100 * allowed(repeats):.2f} % of {repeats:,} are.",
        "",
    ]
    for rule, sets in cells.items():
        worst = max(broken for row in sets.values() for broken, _ in row.values())
        lines += [f"## {rule[0].upper()}{rule[1:]}", ""]
        lines += [
            f"Broken calibrations, %; at worst {100 * worst / repeats:.1f}. In brackets: the share with a threshold."
        ]
        lines += ["", f"| set | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        for title, row in sets.items():
            shown = [share_broken(*row[name], repeats) if name in row else "" for name in names]
            lines.append(f"| {title} | {' | '.join(shown)} |")
        lines.append("")
    return lines


def share_broken(broken: int, with_threshold: int, repeats: int) -> str:
    """A cell."""
    told = "" if with_threshold == repeats else f" ({100 * with_threshold / repeats:.0f})"
    return f"{100 * broken / repeats:.1f}{told}"


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--images", type=Path, metavar="DATA", help="on images instead; the folder of the real sets")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = page(options.repeats) if options.images is None else images_page(options.images, options.repeats)
    text = "\n".join(lines)
    print(text) if options.out is None else options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
