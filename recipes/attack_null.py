"""How often does an attack's interval leave out 0.5 though nobody is memorized? METHODS section 1, "Attacks".

    python recipes/attack_null.py [--repeats 200] [--out docs/results/attack_null.md]

Canaries of one image a patient, halved anew per seed between the twins, and half as many test images; the loss has
each image's own difficulty and noise of its own in every model, and nothing of who was trained on. Three worlds: images
alone; models that differ in how sure they are of everything (a shift of all losses); models that also favour one of
two classes, as models do that have learned nothing yet.
"""

import argparse
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.evidence import Evidence, Items, stack_evidence
from memorisk.audits.classifier.tables.attacks import AttackScores, paper_attacks, reference_attacks
from memorisk.scores.twin_attacks import MEMBER, NEITHER, NON_MEMBER, gaussian_likelihood_ratio
from memorisk.statistics.roc import seed_auc_jackknife

SEEDS = (2, 3, 5, 8, 16)
CANARIES = (100, 400)
WORLDS = ("noise", "shift", "classes")
HEADINGS = {
    "noise": "Images alone",
    "shift": "Models differ in how sure they are",
    "classes": "Models also favour a class",
}
A_FIRST = "gaussian, A first"
BASE, NOISE, SHIFT = 3.0, 0.3, 0.5


def nothing_memorized(rng: np.random.Generator, world: str, n_seeds: int, canaries: int) -> Evidence:
    """Score tables of twins that remember nothing; ``world`` is one of WORLDS."""
    n = canaries + canaries // 2
    canary, label = np.arange(n) < canaries, np.arange(n) % 2
    image = np.array([f"{i:04d}" for i in range(n)], dtype=object)
    split = np.where(canary, "canary", "test").astype(object)
    items = Items(image, label.astype(str).astype(object), image, split)
    difficulty = rng.gamma(2.0, 0.4, n)
    halves = []
    for _ in range(n_seeds):
        in_a = np.zeros(n, dtype=bool)
        for c in (0, 1):
            own = np.flatnonzero(canary & (label == c))
            in_a[rng.permutation(own)[: len(own) // 2]] = True
        common = rng.normal(0, NOISE, n)
        pair = []
        for member in (in_a, canary & ~in_a):
            shift = SHIFT * rng.standard_normal() * (world != "noise")
            favour = SHIFT * rng.standard_normal() * (world == "classes") * (2 * label - 1)
            loss = np.maximum(BASE + difficulty + common + rng.normal(0, NOISE, n) + shift + favour, 1e-4)
            margin = -loss - np.log(-np.expm1(-loss))
            pair.append({"loss": loss, "margin": margin, "correct": loss < np.log(2), "member": member})
        halves.append((pair[0], pair[1]))
    return stack_evidence(items, "balanced", list(range(n_seeds)), halves)


def a_first(evidence: Evidence) -> AttackScores:
    """The Gaussian likelihood ratio with model A as the target of test images in every seed."""
    b_saw, test = evidence.sign < 0, evidence.items.split == "test"
    score = gaussian_likelihood_ratio(
        np.where(b_saw, evidence.loss_b, evidence.loss_a), np.where(b_saw, evidence.loss_a, evidence.loss_b)
    )
    role = np.where(evidence.sign > 0, MEMBER, np.where(test, NON_MEMBER, NEITHER)).astype(np.int8)
    return AttackScores(A_FIRST, score, role, evidence.seeds)


def simulate(world: str, n_seeds: int, canaries: int, repeats: int) -> dict[str, np.ndarray]:
    """AUC and limits `[repeats, 3]` of every attack."""
    rng = np.random.default_rng([WORLDS.index(world), n_seeds, canaries])
    found: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(repeats):
        evidence = nothing_memorized(rng, world, n_seeds, canaries)
        for attack in (*paper_attacks(evidence), *reference_attacks(evidence), a_first(evidence)):
            interval = seed_auc_jackknife(attack.score, attack.role, evidence.items.group, seed=attack.seed)
            found.setdefault(attack.name, []).append((interval.estimate, interval.low, interval.high))
    return {name: np.array(rows) for name, rows in found.items()}


def cell(rows: np.ndarray) -> str:
    """Mean AUC and standard deviation, then how often the interval leaves out 0.5."""
    auc, low, high = rows.T
    outside = float(((low > 0.5) | (high < 0.5)).mean())
    return f"{auc.mean():.3f} ({auc.std(ddof=1):.3f}), {outside:.1%}"


def table(world: str, canaries: int, repeats: int) -> list[str]:
    """One row per attack, one column per number of seeds."""
    columns = {n: simulate(world, n, canaries, repeats) for n in SEEDS}
    names = list(dict.fromkeys(name for found in columns.values() for name in found))
    lines = [
        f"## {HEADINGS[world]}: {canaries} canaries, {canaries // 2} test images",
        "",
        "| attack | " + " | ".join(f"{n} seeds" for n in SEEDS) + " |",
        "|---|" + "---|" * len(SEEDS),
    ]
    for name in names:
        cells = [cell(columns[n][name]) if name in columns[n] else "" for n in SEEDS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    two_sd = 2 * np.sqrt(0.05 * 0.95 / args.repeats)
    lines = [
        "# Do attacks find anybody where nobody is memorized?",
        "",
        f"`python recipes/attack_null.py --repeats {args.repeats}`: canaries of one image a patient and half as many",
        "test images; losses of each image's own difficulty, of noise, and of what a model does to all images, nothing",
        f"of who was trained on. The mean AUC over {args.repeats} audits (its standard deviation), then the share of",
        "audits whose 95 % interval leaves out 0.5 (nominal 5 %; two s.d. "
        f"{max(0.05 - two_sd, 0):.1%} to {0.05 + two_sd:.1%}).",
        "",
        f"`{A_FIRST}` is what the Gaussian likelihood ratio must not do: test images with A as the target in every",
        "seed, members with A or B by each seed's coin. Where models differ, its mean is right and its interval far",
        "too short: members and test images then differ by what the models do to everybody. memorisk gives test images",
        "the coins of members.",
        "",
    ]
    for world in WORLDS:
        for canaries in CANARIES:
            lines += table(world, canaries, args.repeats)
    text = "\n".join(lines).rstrip() + "\n"
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
