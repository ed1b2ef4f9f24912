"""memorisk's side of every case, in the form of an adapter: the same inputs, prepared and then called in the time.

`EXPLAINED` holds, for cases where a peer follows another convention, memorisk's result with that one changed: what
then still differs is what the convention does not explain.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import norm

from memorisk.images.duplicates import NEAR, near_pairs
from memorisk.images.near_copies import thumbnails
from memorisk.scores.attacks import attack_scores
from memorisk.scores.distances import fit_measure, nearest
from memorisk.scores.influence import self_influence
from memorisk.scores.lira import References, lira_scores, twin_references
from memorisk.scores.rmia import rmia_scores
from memorisk.statistics.copy_tests import authenticity, copying_z, data_copying
from memorisk.statistics.quality_frechet import frechet_distance
from memorisk.statistics.quality_kernel import subset_kernel_distance
from memorisk.statistics.quality_manifold import precision_recall
from memorisk.statistics.reversed_queries import reversed_queries
from memorisk.statistics.roc import auc

Arrays = dict[str, np.ndarray]
Call = Callable[[], Arrays]
Prepare = Callable[[Arrays], Call]
SETS = ("honest", "copies", "drawn_together")


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
        return {"score": score}

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


def influence(data: Arrays) -> Call:
    """TracInCP, copy of the network and self-check included."""
    from networks import checkpoints, cnn2

    model, states = cnn2(), checkpoints(data)
    images, labels, rates = data["images"], data["labels"], data["lrs"].tolist()
    return lambda: {"score": self_influence(model, images, labels, states, rates).values}


def search(data: Arrays, measure: str) -> Call:
    """The ten nearest of every query."""
    queries, references = data["queries"], data["references"]
    nearest(queries[:64], references[:64], fit_measure(measure, references[:64]), 10, threads=1)  # compiles

    def run() -> Arrays:
        """Exact."""
        found = nearest(queries, references, fit_measure(measure, references), 10, threads=1)
        return {"rows": found.indices, "distances": found.distances}

    return run


def fid(data: Arrays) -> Call:
    """With its interval."""
    return lambda: {"values": np.array([frechet_distance(data["real"], data["synthetic"]).estimate])}


def kid(data: Arrays) -> Call:
    """The published form over subsets."""

    def run() -> Arrays:
        """Mean and deviation."""
        found = subset_kernel_distance(data["real"], data["synthetic"], subsets=20, size=len(data["real"]) // 2)
        return {"values": np.array([found.mean, found.deviation])}

    return run


def prc(data: Arrays) -> Call:
    """Figures alone, as the peer."""

    def run() -> Arrays:
        """Precision and recall."""
        found = precision_recall(data["real"], data["synthetic"], intervals=False)
        return {"values": np.array([found.precision.estimate, found.recall.estimate])}

    return run


def _near(queries: np.ndarray, references: np.ndarray, *, own: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(queries))
    same = (rows, rows) if own else None
    measure = fit_measure("euclidean", references)
    found = nearest(queries, references, measure, exclude_same=same, threads=1)
    return found.distances[:, 0], found.indices[:, 0]


def authentic(data: Arrays) -> Call:
    """Percentage of each set."""
    train = data["train"]

    def run() -> Arrays:
        """By the definition of the text."""
        own = _near(train, train, own=True)[0]
        found = [authenticity(*_near(data[name], train), own).share for name in SETS]
        return {"values": np.array([100 * one.estimate for one in found])}

    return run


def c_t(data: Arrays) -> Call:
    """Distances to the training images of the cell, and the statistic."""
    return lambda: {"values": np.array([_c_t(data, name) for name in SETS])}


def _by_cell(data: Arrays, name: str) -> np.ndarray:
    found = np.empty(len(data[f"cell.{name}"]))
    for cell in np.unique(data["cell.train"]):
        rows = data[f"cell.{name}"] == cell
        if rows.any():
            found[rows] = _near(data[f"reduced.{name}"][rows], data["reduced.train"][data["cell.train"] == cell])[0]
    return found


def _c_t(data: Arrays, name: str) -> float:
    given = (_by_cell(data, name), _by_cell(data, "test"), data[f"cell.{name}"], data["cell.test"])
    return data_copying(*given, least=21).c_t


def ahead(data: Arrays) -> Call:
    """The question memorisk asks instead: are training images nearer to the set than every held-out one is?"""

    def run() -> Arrays:
        """The p-value of each set as a whole, from the distances of real images to it."""
        found = []
        for name in SETS:
            train, held = (_near(data[side], data[name])[0] for side in ("train", "test"))
            found.append(reversed_queries(train, held).p_ahead)
        return {"values": np.array(found)}

    return run


def duplicates(data: Arrays, turned: bool) -> Call:
    """Thumbnails and all pairs from 0.95."""

    def run() -> Arrays:
        """Both sets."""
        found: Arrays = {}
        for part in ("ham10000", "nih"):
            small = thumbnails(data[f"{part}.images"])
            pairs = near_pairs(small, threshold=NEAR, turned=turned)
            found |= {f"{part}.first": pairs.first, f"{part}.second": pairs.second, f"{part}.score": pairs.similarity}
            found[f"{part}.thumbnails"] = small
        return found

    return run


def features(data: Arrays) -> Call:
    """The SqueezeNet of memorisk on the same weights, and the pairs with a cosine of 0.9 or more."""
    import torch

    from memorisk.models.zoo import create_model
    from memorisk.scores.distances import pairwise

    name = f"squeezenet1_1_caffe@{data['weights']}"
    model = create_model(name, num_classes=2, in_chans=3, image_size=224, seed=0).eval()
    mean = torch.tensor([123.68, 116.779, 103.939]).view(1, 3, 1, 1)

    def run() -> Arrays:
        """Both sets, 32 images at a time."""
        found: Arrays = {}
        for part in ("ham10000", "nih"):
            x, vectors = data[f"{part}.images"], []
            with torch.no_grad():
                for start in range(0, len(x), 32):
                    batch = torch.from_numpy(x[start : start + 32]).permute(0, 3, 1, 2).float() - mean
                    vectors.append(model.forward_features(batch).mean(dim=(2, 3)).numpy())
            values = np.concatenate(vectors)
            cosine = 1 - pairwise(values, values, fit_measure("cosine", values))
            first, second = np.nonzero(np.triu(cosine >= 0.9, 1))
            found |= {f"{part}.first": first, f"{part}.second": second, f"{part}.score": cosine[first, second]}
            found[f"{part}.features"] = values
        return found

    return run


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
    "influence": influence,
    "squared_euclidean": partial(search, measure="sqeuclidean"),
    "cosine": partial(search, measure="cosine"),
    "fid": fid,
    "kid": kid,
    "precision_recall": prc,
    "authenticity": authentic,
    "c_t": c_t,
    "ahead": ahead,
    "near_pairs": partial(duplicates, turned=False),
    "near_pairs_turned": partial(duplicates, turned=True),
    "features": features,
}


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


def continuous(data: Arrays) -> np.ndarray:
    """C_T with the continuity correction of half a rank in every cell."""
    found = []
    for name in SETS:
        own, test = _by_cell(data, name), _by_cell(data, "test")
        z, weight = [], []
        for cell in np.unique(data["cell.train"]):
            q, p = own[data[f"cell.{name}"] == cell], test[data["cell.test"] == cell]
            if len(q) > 20:
                m, n = len(q), len(p)
                z.append(copying_z(q, p) + 0.5 / np.sqrt(m * n * (m + n + 1) / 12))
                weight.append(n)
        found.append(np.average(z, weights=weight) if z else np.nan)
    return np.array(found)


EXPLAINED: dict[str, Callable[[Arrays], np.ndarray]] = {
    "pooled_by_number": pooled_by_number,
    "two_sided": two_sided,
    "unbiased": unbiased,
    "largest_half": largest_half,
    "continuous": continuous,
}
"""Results by one convention of a peer's."""
