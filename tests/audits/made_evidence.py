"""Score tables with known truth, for the tests of everything after training."""

import numpy as np

from memorisk.audits.classifier.evidence import Evidence, Items, stack_evidence


def twin_evidence(
    *,
    sizes: dict[str, int],
    n_test: int = 20,
    n_seeds: int = 8,
    planted: dict[str, float] | None = None,
    group_size: int = 1,
    shared: int = 0,
    spread: bool = False,
    seed: int = 0,
) -> Evidence:
    """Twins whose loss of a seen image is lower by an exponential amount with the class's planted mean.

    With `spread` the patients of one number in all classes are one patient. Every image has its own difficulty, every
    seed its own noise; A and B of a seed share half of it.
    """
    rng = np.random.default_rng(seed)
    planted = planted or {}
    image, label, group, split = [], [], [], []
    for name, n in sizes.items():
        for part, count in (("canary", n), ("test", n_test), ("train", shared)):
            for g in range(count):
                for i in range(group_size):
                    image.append(f"{name}-{part}-{g}-{i}")
                    label.append(name)
                    group.append(f"{part}-{g}" if spread else f"{name}-{part}-{g}")
                    split.append(part)
    items = Items(*(np.array(v, dtype=object) for v in (image, label, group, split)))
    groups, unit = np.unique(items.group.astype(str), return_inverse=True)
    canary = items.split == "canary"
    difficulty = rng.gamma(2.0, 0.4, len(items))
    effect = np.array([planted.get(name, 0.0) for name in items.label]) * rng.exponential(1.0, len(items))
    halves = []
    for _ in range(n_seeds):
        coin = rng.permuted(np.resize([1, -1], len(groups)))[unit]
        common = rng.normal(0, 0.2, len(items))
        half = []
        for side in (1, -1):
            member = np.where(canary, coin == side, items.split == "train")
            noise = common + rng.normal(0, 0.2, len(items))
            loss = np.maximum(difficulty * np.exp(noise) - np.where(member, effect, 0.0), 1e-4)
            margin = -loss - np.log(-np.expm1(-loss))
            half.append({"loss": loss, "margin": margin, "correct": loss < np.log(2), "member": member})
        halves.append((half[0], half[1]))
    return stack_evidence(items, "matched" if shared else "balanced", list(range(n_seeds)), halves)
