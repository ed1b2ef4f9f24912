"""Do the intervals of attacks cover when other patients and other trainings count? METHODS section 6, "Attacks".

    python recipes/attack_coverage.py [--repeats 200] [--out docs/results/attack_coverage.md]

Twins on patients of one or three images, halved anew per seed, and a test part; the loss of a seen image is lower by a
gap. Worlds: nobody is memorized; everybody a little, every training alike; trainings that differ in how much they
memorize (by a factor exp(N(0, 0.7^2))), a little and much, the gap also differing between patients. The truth of a cell
is the mean AUC over its own audits, each of which draws patients and trainings anew.
"""

import argparse
from pathlib import Path

import numpy as np

from memorisk.audits.classifier.evidence import Evidence, Items, stack_evidence
from memorisk.audits.classifier.tables.attacks import ALL, paper_attacks, reference_attacks, without_trainings
from memorisk.statistics.roc import seed_auc_jackknife

SEEDS = (4, 8)
SIZES = ((60, 12, 3), (400, 70, 1))
WORLDS = {
    "nobody": (0.0, 0.0, False),
    "everybody, trainings alike": (0.25, 0.0, False),
    "everybody, trainings differ": (0.25, 0.7, False),
    "much, patients and trainings differ": (0.9, 0.7, True),
}
LEFT_OUT = ("confidence_ratio", "independent_loss")  # the first is M again, the second the control


def audited(rng: np.random.Generator, world: str, n_seeds: int, canaries: int, test: int, images: int) -> Evidence:
    """Score tables of one audit; ``world`` is one of WORLDS."""
    mean, spread, uneven = WORLDS[world]
    n = canaries + test
    group = np.repeat(np.arange(n), images)
    canary = group < canaries
    named = np.array([f"g{g:04d}" for g in group], dtype=object)
    image = np.array([f"{i:05d}" for i in range(len(group))], dtype=object)
    label = np.full(len(group), "a", dtype=object)
    items = Items(image, label, named, np.where(canary, "canary", "test").astype(object))
    difficulty = rng.normal(0, 0.8, n)[group] + rng.normal(0, 0.4, len(group))
    of_patient = (rng.exponential(1, n) if uneven else np.ones(n))[group]
    halves = []
    for _ in range(n_seeds):
        in_a = np.zeros(n, dtype=bool)
        in_a[rng.permutation(canaries)[: canaries // 2]] = True
        common = rng.normal(0, 0.15, len(group))
        pair = []
        for member in (in_a[group] & canary, canary & ~in_a[group]):
            gap = mean * np.exp(rng.normal(0, spread)) * of_patient * np.exp(rng.normal(0, 0.3, len(group)))
            noise = common + rng.normal(0, 0.15, len(group)) + rng.normal(0, 0.3)
            loss = np.maximum(np.exp(difficulty + noise - np.where(member, gap, 0)), 1e-4)
            margin = -loss - np.log(-np.expm1(-loss))
            pair.append({"loss": loss, "margin": margin, "correct": loss < np.log(2), "member": member})
        halves.append((pair[0], pair[1]))
    return stack_evidence(items, "balanced", list(range(n_seeds)), halves)


def simulate(world: str, n_seeds: int, size: tuple[int, int, int], repeats: int) -> dict[str, np.ndarray]:
    """AUC and limits ``[repeats, 3]`` of every attack."""
    rng = np.random.default_rng([list(WORLDS).index(world), n_seeds, *size])
    found: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(repeats):
        evidence = audited(rng, world, n_seeds, *size)
        left = without_trainings(evidence, {ALL: evidence.items.whole})
        for attack in (*paper_attacks(evidence), *reference_attacks(evidence)):
            if attack.name not in LEFT_OUT:
                without = left.get((attack.name, ALL), ())
                scores = attack.score, attack.role, evidence.items.group
                new = seed_auc_jackknife(*scores, seed=attack.seed, without=without)
                found.setdefault(attack.name, []).append((new.estimate, new.low, new.high))
    return {name: np.array(rows) for name, rows in found.items()}


def cell(rows: np.ndarray) -> str:
    """Mean AUC; share of the intervals that hold it, and of those wholly above and below."""
    auc, low, high = rows.T
    truth = auc.mean()
    above, below = (low > truth).mean(), (high < truth).mean()
    return f"{truth:.2f}: **{1 - above - below:.0%}** ({above:.1%} + {below:.1%})"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    lines = [
        "# Do the intervals of attacks cover other trainings?",
        "",
        f"`python recipes/attack_coverage.py --repeats {args.repeats}`. A cell: the mean AUC of {args.repeats} audits,",
        "each with new patients and new trainings; **how many 95 % intervals over patients and trainings hold it**,",
        "and how many lie wholly above + below it.",
        f"Two s.d. of a share of 95 %: {2 * np.sqrt(0.0475 / args.repeats):.1%}.",
        "",
        "An audit fails by a lower limit and passes by an upper one, so that what lies above is a false alarm and what",
        "lies below a false pass, where the AUC is at the gate.",
        "",
    ]
    for world in WORLDS:
        lines += [f"## {world[0].upper()}{world[1:]}", ""]
        for size in SIZES:
            columns = {n: simulate(world, n, size, args.repeats) for n in SEEDS}
            names = list(dict.fromkeys(name for found in columns.values() for name in found))
            images = f"of {size[2]} images" if size[2] > 1 else "of one image"
            lines += [
                f"{size[0]} canary and {size[1]} test patients {images}:",
                "",
                "| attack | " + " | ".join(f"{n} seeds" for n in SEEDS) + " |",
                "|---|" + "---|" * len(SEEDS),
                *(
                    f"| `{n}` | " + " | ".join(cell(c[n]) if n in c else "" for c in columns.values()) + " |"
                    for n in names
                ),
                "",
            ]
    text = "\n".join(lines).rstrip() + "\n"
    if args.out:
        args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
