"""memorisk's side of the cases about membership: LiRA, RMIA and the loss."""

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.special
from scipy.stats import norm

from memorisk.scores.lira import References, lira_scores, twin_references
from memorisk.scores.rmia import rmia_scores
from memorisk.scores.twin_attacks import attack_scores
from memorisk.statistics.roc import auc

Arrays = dict[str, np.ndarray]
Call = Callable[[], Arrays]
Prepare = Callable[[Arrays], Call]


def twins(data: Arrays, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The statistic phi, or p, of both models of every pair and which saw the image; the target's pair first."""
    values = data[name]
    a, b = np.concatenate([values[:1], values[1::2]]), np.concatenate([values[:1], values[2::2]])
    sign = np.where(np.concatenate([data["member"][:1], data["member"][1::2]]), 1, -1).astype(np.int8)
    return a, b, sign


def lira(data: Arrays, mode: str = "online", centre: str = "mean", variance: str = "per_example") -> Call:
    """References from the pairs, and scores."""
    a, b, sign = twins(data, "phi")

    def run() -> Arrays:
        """As the audit does."""
        refs = twin_references(a, b, sign, 0)
        score = lira_scores(
            a[0], refs.refs_in, refs.refs_out, mode=mode, centre=centre, variance=variance, allow_small=True
        )
        return {"score": scipy.special.log_ndtr(score) if mode == "offline" else score}  # peers keep probabilities

    return run


def lira_probability(data: Arrays) -> Call:
    """Offline, not as a logarithm."""
    call = lira(data, mode="offline")
    return lambda: {"score": np.exp(call()["score"])}


def rmia(data: Arrays, mode: str, gamma: float, a: float = 0.3) -> Call:
    """References from the pairs, and scores; all references are OUT for the population."""
    first, second, sign = twins(data, "p")
    population = data["population_p"]

    def run() -> Arrays:
        """As the audit does."""
        refs = twin_references(first, second, sign, 0)
        score = rmia_scores(
            first[0], refs.refs_in, refs.refs_out, population[0], population[1:], gamma=gamma, mode=mode, offline_a=a
        )
        return {"score": score}

    return run


def loss_threshold(data: Arrays) -> Call:
    """The score of the loss alone, and its AUC."""
    loss, member = -np.log(data["p"][0]), data["member"][0]
    sign = np.where(member, 1, -1)[None]
    held_out = np.zeros(len(loss), dtype=bool)

    def run() -> Arrays:
        """With its non-members: the twin's canaries."""
        score = attack_scores("loss_threshold", loss[None], loss[None], sign, held_out).score[0]
        return {"score": score, "auc": np.array(auc(score[member], score[~member]))}

    return run


def references(data: Arrays, name: str) -> References:
    """Of the pairs."""
    return twin_references(*twins(data, name), 0)


def pooled_by_number(data: Arrays) -> np.ndarray:
    """LiRA with the pooled variance divided by the number of references, not by their degrees of freedom."""
    refs, target = references(data, "phi"), data["phi"][0]
    score = np.zeros(len(target))
    for side, sign in ((refs.refs_in, 1), (refs.refs_out, -1)):
        centre = side.mean(axis=0)
        score += sign * norm.logpdf(target, centre, np.sqrt(np.square(side - centre).mean()))
    return score


def two_sided(data: Arrays) -> np.ndarray:
    """Minus the logarithm of the OUT density, which also calls images members whose phi is unusually low."""
    out = references(data, "phi").refs_out
    return -norm.logpdf(data["phi"][0], out.mean(axis=0), out.std(axis=0))


def unbiased(data: Arrays) -> np.ndarray:
    """LiRA with deviations per image of ddof 1."""
    refs, target = references(data, "phi"), data["phi"][0]
    sides = [norm.logpdf(target, s.mean(axis=0), s.std(axis=0, ddof=1)) for s in (refs.refs_in, refs.refs_out)]
    return sides[0] - sides[1]


def largest_half(data: Arrays) -> np.ndarray:
    """RMIA with only the largest half of the references of every population image."""
    refs, population = references(data, "p"), data["population_p"]
    largest = np.sort(population[1:], axis=0)[len(population) // 2 :]
    return rmia_scores(data["p"][0], None, refs.refs_out, population[0], largest, mode="offline")


CASES: dict[str, Prepare] = {
    "lira_online": lira,
    "lira_online_median": partial(lira, centre="median"),
    "lira_online_pooled": partial(lira, variance="pooled_residual"),
    "lira_online_global": partial(lira, variance="global"),
    "lira_offline": partial(lira, mode="offline"),
    "lira_offline_probability": lira_probability,
    "rmia_online_2": partial(rmia, mode="online", gamma=2.0),
    "rmia_offline_2": partial(rmia, mode="offline", gamma=2.0, a=0.33),
    "rmia_offline_1": partial(rmia, mode="offline", gamma=1.0),
    "loss_threshold": loss_threshold,
}
EXPLAINED: dict[str, Callable[[Arrays], np.ndarray]] = {
    one.__name__: one for one in (pooled_by_number, two_sided, unbiased, largest_half)
}
