"""LeakPro by formula: what its repository publishes (leakpro/attacks/mia_attacks/lira.py, rmia.py), written anew.

Its loop over images is kept, since that is how it computes. Not kept is how it draws RMIA's population, half of the
attack's own images, among them members of the target: the population is given here, and nobody of it was trained on.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import norm

Arrays = dict[str, np.ndarray]
EPSILON, TINY = 1e-6, 1e-30


def lira(data: Arrays, online: bool, fixed: bool) -> Callable[[], Arrays]:
    """Means per image; spreads of all references of a side (``fixed``) or, from 64 models on, of each image."""
    target, phi, saw = data["phi"][0], data["phi"][1:], data["member"][1:]

    def run() -> Arrays:
        """Image after image."""
        s_in, s_out = np.std(phi[saw]), np.std(phi[~saw])
        alone = not fixed and len(phi) >= 64
        score = np.zeros(len(target))
        for i, value in enumerate(target):
            out = phi[~saw[:, i], i]
            spread_out = np.std(out) if alone else s_out
            if online:
                seen = phi[saw[:, i], i]
                spread_in = np.std(seen) if alone else s_in
                score[i] = norm.logpdf(value, np.mean(seen), spread_in + TINY)
                score[i] -= norm.logpdf(value, np.mean(out), spread_out + TINY)
            else:
                score[i] = norm.logcdf(value, np.mean(out), spread_out + TINY)
        return {"score": score}

    return run


def rmia(data: Arrays, online: bool) -> Callable[[], Arrays]:
    """Shares of the population beyond gamma = 2, of probabilities at temperature 1 (its default is 2)."""
    p, saw, population, gamma, a = data["p"], data["member"][1:], data["population_p"], 2.0, 0.33

    def run() -> Arrays:
        """Image after image."""
        if online:
            p_x, p_z = p[1:].mean(axis=0), population[1:].mean(axis=0)
        else:
            p_x = 0.5 * ((a + 1) * np.nanmean(np.where(saw, np.nan, p[1:]), axis=0) + 1 - a)
            p_z = 0.5 * ((a + 1) * population[1:].mean(axis=0) + 1 - a)
        ratio_x, ratio_z = p[0] / (p_x + EPSILON), population[0] / (p_z + EPSILON)
        return {"score": np.array([np.mean(one / ratio_z > gamma) for one in ratio_x])}

    return run


CASES = {
    "lira_online": partial(lira, online=True, fixed=False),
    "lira_online_fixed": partial(lira, online=True, fixed=True),
    "lira_offline": partial(lira, online=False, fixed=False),
    "rmia_online": partial(rmia, online=True),
    "rmia_offline": partial(rmia, online=False),
}
