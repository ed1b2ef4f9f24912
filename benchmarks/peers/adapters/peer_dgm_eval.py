"""dgm-eval by formula, written anew: AuthPct, C_T and the overfitting percentage of FLS, on its float32.

Source: layer6ai-labs/dgm-eval, dgm_eval/metrics/authpct.py, ct.py, fls.py. Reduction to 64 components and the three
cells of C_T are in the inputs, since k-means depends on its seed. FLS there asks for a GPU; here it runs on a CPU.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import mannwhitneyu

Arrays = dict[str, np.ndarray]
SETS = ("honest", "copies", "drawn_together")


def distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[n, m] in float32, by products."""
    x, y = x.astype(np.float32), y.astype(np.float32)
    squared = np.square(x).sum(1)[:, None] + np.square(y).sum(1)[None] - 2 * x @ y.T
    return np.sqrt(np.maximum(squared, 0))


def authpct(data: Arrays) -> Callable[[], Arrays]:
    """Percentage of a set's images farther from their nearest training image than that is from its nearest other."""
    train = data["train"]

    def run() -> Arrays:
        """Of all sets."""
        own = distances(train, train)
        np.fill_diagonal(own, np.inf)
        shares = []
        for name in SETS:
            far = distances(train, data[name])
            shares.append(100 * np.mean(own.min(axis=0)[far.argmin(axis=0)] < far.min(axis=0)))
        return {"values": np.array(shares)}

    return run


def c_t(data: Arrays) -> Callable[[], Arrays]:
    """Mann-Whitney z of each cell with the continuity correction, weighted by the test images' share."""
    train, test = data["reduced.train"], data["reduced.test"]
    cells, test_cells = data["cell.train"], data["cell.test"]

    def run() -> Arrays:
        """Of all sets."""
        values = []
        for name in SETS:
            own, own_cells = data[f"reduced.{name}"], data[f"cell.{name}"]
            total, weight = 0.0, 0.0
            for cell in np.unique(cells):
                q, p, t = own[own_cells == cell], test[test_cells == cell], train[cells == cell]
                if len(q) <= 20:
                    continue
                near_q, near_p = (np.linalg.norm(side[:, None] - t[None], axis=2).min(axis=1) for side in (q, p))
                m, n = len(q), len(p)
                u = mannwhitneyu(near_q, near_p, alternative="less").statistic
                total += n * (u - (m * n / 2 - 0.5)) / np.sqrt(m * n * (m + n + 1) / 12)
                weight += n
            values.append(total / weight if weight else np.nan)
        return {"values": np.array(values)}

    return run


def fls_overfit(data: Arrays) -> Callable[[], Arrays]:
    """Percentage of a set's Gaussians, fitted to the training images, that fit these better than test images, - 50."""

    def run() -> Arrays:
        """Of all sets."""
        return {"values": np.array([_overfit(data["train"], data["test"], data[name]) for name in SETS])}

    return run


def _overfit(*sets: np.ndarray) -> float:
    together = np.concatenate(sets).astype(np.float32)
    mean, spread = together.mean(axis=0), together.std(axis=0, ddof=1)
    kept = spread > 0
    train, test, own = (torch.from_numpy((x[:, kept] - mean[kept]) / spread[kept]).float() for x in sets)
    d = train.shape[1]
    log_variance = torch.zeros(len(own), requires_grad=True)
    optimiser = torch.optim.Adam([log_variance], lr=0.5)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones=[50], gamma=0.1)
    squared = torch.cdist(train, own).square()
    for _ in range(100):
        optimiser.zero_grad()
        (-torch.logsumexp(_log_densities(squared, log_variance, d), dim=1).mean()).backward()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            log_variance.clamp_(-100, 20)
    n = min(len(train), len(test))
    with torch.no_grad():
        fit = [
            torch.logsumexp(_log_densities(torch.cdist(side[:n], own).square(), log_variance, d), dim=0)
            for side in (train, test)
        ]
    return 100 * float((fit[0] > fit[1]).float().mean()) - 50


def _log_densities(squared: torch.Tensor, log_variance: torch.Tensor, d: int) -> torch.Tensor:
    return -0.5 * squared / torch.exp(log_variance) - d / 2 * log_variance


CASES = {"authpct": authpct, "c_t": c_t, "fls_overfit": fls_overfit}
