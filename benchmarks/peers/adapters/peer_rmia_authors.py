"""RMIA as ML Privacy Meter's repository has it, and PrivacyGuard's after it, by formula, written anew in NumPy.

Sources: privacytrustlab/ml_privacy_meter, modules/mia/attacks/rmia.py; facebookresearch/PrivacyGuard,
attacks/rmia_attack.py and lira_attack.py. RMIA offline: of the reference probabilities of an image, zero where the
reference saw it, the R / 2 largest are averaged, which leaves the references that did not see it; of a population
image, which no reference saw, the same R / 2 largest are averaged, not all R.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm

Arrays = dict[str, np.ndarray]


def largest(p: np.ndarray, saw: np.ndarray) -> np.ndarray:
    """[N] mean of the largest half of [N, R] probabilities, those of references that saw the image set to 0."""
    return np.sort(p * ~saw, axis=1)[:, -(p.shape[1] // 2) :].mean(axis=1)


def rmia(data: Arrays) -> Callable[[], Arrays]:
    """With a = 0.3, gamma = 1 and the whole array of ratios."""
    a = 0.3
    p, saw = np.ascontiguousarray(data["p"][1:].T), np.ascontiguousarray(data["member"][1:].T)
    population = np.ascontiguousarray(data["population_p"][1:].T)

    def run() -> Arrays:
        """N x Z ratios."""
        p_x = (1 + a) / 2 * largest(p, saw) + (1 - a) / 2
        p_z = (1 + a) / 2 * largest(population, np.zeros_like(population, dtype=bool)) + (1 - a) / 2
        ratios = (data["p"][0] / p_x)[:, None] / (data["population_p"][0] / p_z)
        return {"score": np.average(ratios > 1.0, axis=1)}

    return run


def lira(data: Arrays) -> Callable[[], Arrays]:
    """PrivacyGuard's online LiRA from means and deviations per image, these as pandas gives them (ddof 1)."""
    phi, saw = data["phi"][1:], data["member"][1:]

    def run() -> Arrays:
        """Both densities."""
        seen, unseen = np.where(saw, phi, np.nan), np.where(saw, np.nan, phi)
        score = norm.logpdf(data["phi"][0], np.nanmean(seen, axis=0), np.nanstd(seen, axis=0, ddof=1))
        score -= norm.logpdf(data["phi"][0], np.nanmean(unseen, axis=0), np.nanstd(unseen, axis=0, ddof=1))
        return {"score": score}

    return run


CASES = {"rmia_offline": rmia, "lira_online": lira}
