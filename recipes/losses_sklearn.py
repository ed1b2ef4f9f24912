"""Write a table of losses for `memorisk audit losses`, from scikit-learn models: the example of docs/losses.md.

Usage: python recipes/losses_sklearn.py losses.parquet
"""

import sys

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

SEEDS = range(8)


def halve(labels: np.ndarray, canary: np.ndarray, seed: int) -> np.ndarray:
    """Pair the canaries within their class and give one of each pair to model A, by a fair coin. [n] bool."""
    rng = np.random.default_rng(seed)
    in_a = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(canary & (labels == label)))
        for first, second in zip(rows[0::2], rows[1::2], strict=False):
            in_a[rng.choice([first, second])] = True
    return in_a


def main(out: str) -> None:
    """Train eight twin pairs on the digits and write their losses."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    test = np.zeros(len(y), dtype=bool)
    for label in range(10):  # a random 15 % of each class is seen by no model
        rows = np.random.default_rng(label).permutation(np.flatnonzero(y == label))
        test[rows[: round(0.15 * len(rows))]] = True
        if (len(rows) - test[rows].sum()) % 2:  # an odd canary would have no partner
            test[rows[test[rows].sum()]] = True
    rows = []
    for seed in SEEDS:
        in_a = halve(y, ~test, seed)
        for role, member in (("A", in_a), ("B", ~test & ~in_a)):
            model = LogisticRegression(max_iter=2000).fit(x[member], y[member])
            p = model.predict_proba(x)[np.arange(len(y)), y]
            rows.append(
                pd.DataFrame(
                    {
                        "image": [f"digit-{i:04d}" for i in range(len(y))],
                        "label": y.astype(str),
                        "split": np.where(test, "test", "canary"),
                        "seed": seed,
                        "role": role,
                        "member": member,
                        "loss": -np.log(np.maximum(p, np.finfo(float).tiny)),
                    }
                )
            )
    pd.concat(rows).to_parquet(out, index=False)
    print(f"{out}: {len(rows)} models, {len(y)} images")


if __name__ == "__main__":
    main(sys.argv[1])
