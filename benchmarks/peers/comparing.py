"""How far two answers agree, by what kind of answer it is; names of the figures are those in the results file."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from memorisk.images.copies.duplicates import details
from memorisk.statistics.intervals.shares import clopper_pearson
from memorisk.statistics.roc import auc

Arrays = dict[str, np.ndarray]


def scores(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Membership scores [N], higher = member."""
    a, b, member = theirs["score"], ours["score"], data["member"][0]
    found: dict[str, Any] = {
        "n": len(a),
        "largest_difference": _largest(a, b),
        "rank_correlation": float(spearmanr(a, b).statistic),
        "auc": {"peer": auc(a[member], a[~member]), "memorisk": auc(b[member], b[~member])},
        "distinct": {"peer": len(np.unique(a)), "memorisk": len(np.unique(b))},
    }
    found["auc_difference"] = found["auc"]["peer"] - found["auc"]["memorisk"]
    if explained is not None:
        found["largest_difference_by_their_definition"] = _largest(a, explained)
    return found


def attack(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Scores, and the AUC that either side states itself."""
    found = scores(theirs, ours, data, explained)
    found["auc"] = {"peer": float(theirs["auc"]), "memorisk": float(ours["auc"])}
    found["auc_difference"] = found["auc"]["peer"] - found["auc"]["memorisk"]
    return found


def positive(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Scores that are above 0: differences as shares of ours."""
    a, b = theirs["score"], ours["score"]
    return {
        "n": len(a),
        "largest_relative_difference": float(np.abs(a / b - 1).max()),
        "rank_correlation": float(spearmanr(a, b).statistic),
    }


def values(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """A few figures."""
    a, b = theirs["values"], ours["values"]
    found = {"n": len(a), "values": {"peer": a.tolist(), "memorisk": b.tolist()}, "largest_difference": _largest(a, b)}
    if explained is not None:
        found["largest_difference_by_their_definition"] = _largest(a, explained)
    return found


def beside(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Figures that are not the same, side by side."""
    a, b = theirs["values"], ours["values"]
    return {"n": len(a), "values": {"peer": a.tolist(), "memorisk": b.tolist()}}


def neighbours(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Rows and distances [N, k]; of queries that are references, how many have a distance of exactly 0."""
    rows, far = theirs["rows"], theirs["distances"].astype(np.float64)
    same = ours["distances"][:, 0] == 0
    return {
        "n": len(rows),
        "same_nearest": float((rows[:, 0] == ours["rows"][:, 0]).mean()),
        "same_of_all": float((rows == ours["rows"]).mean()),
        "largest_difference": _largest(far, ours["distances"]),
        "copies": int(same.sum()),
        "copies_at_distance_0": {"peer": int((far[same, 0] == 0).sum()), "memorisk": int(same.sum())},
    }


def pairs(theirs: Arrays, ours: Arrays, data: Arrays, explained: np.ndarray | None) -> dict[str, Any]:
    """Listed pairs of two sets of images with known copies."""
    found: dict[str, Any] = {"n": sum(len(data[f"{part}.kind"]) for part in _PARTS), "sets": {}}
    for part in _PARTS:
        found["sets"][part] = {
            side: _listed(answer, part, data) for side, answer in (("peer", theirs), ("memorisk", ours))
        }
        if f"{part}.features" in theirs:
            a, b = theirs[f"{part}.features"], ours[f"{part}.features"]
            found["sets"][part]["largest_relative_difference_of_features"] = float(
                np.abs(a - b).max() / np.abs(b).max()
            )
    return found


_PARTS = ("ham10000", "nih")


def _listed(answer: Arrays, part: str, data: Arrays) -> dict[str, Any]:
    source, kind = data[f"{part}.source"], data[f"{part}.kind"]
    listed = set(zip(answer[f"{part}.first"].tolist(), answer[f"{part}.second"].tolist(), strict=True))
    kinds = {}
    for name in dict.fromkeys(kind[kind != "original"].tolist()):
        rows = np.flatnonzero(kind == name)
        share = clopper_pearson(sum((int(source[row]), int(row)) in listed for row in rows), len(rows))
        kinds[name] = {"found": share.successes, "of": share.trials, "low": share.low, "high": share.high}
    different = ~np.equal.outer(source, source) & np.triu(np.ones((len(kind), len(kind)), dtype=bool), 1)
    alike = _similarity(answer, part)
    copies = np.flatnonzero(kind != "original")
    pasted = kind[copies] == "pasted"  # shows two people
    original = np.equal.outer(kind == "original", kind == "original") & (kind == "original")[:, None]
    others = alike[different & original]
    return {
        "kinds": kinds,
        "false_pairs": sum(bool(different[a, b] and original[a, b]) for a, b in listed),
        "pairs_of_different_people": int((different & original).sum()),
        "auc": auc(alike[source[copies][~pasted], copies[~pasted]], others),
    }


def _similarity(answer: Arrays, part: str) -> np.ndarray:
    """[n, n] of what the method compares images by."""
    if f"{part}.bits" in answer:
        bits = 2 * answer[f"{part}.bits"].astype(np.float64) - 1
        return bits @ bits.T
    if f"{part}.thumbnails" in answer:
        vectors = details(answer[f"{part}.thumbnails"])
        return vectors @ vectors.T
    vectors = answer[f"{part}.features"]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.asarray(a, dtype=np.float64) - b).max())


KINDS: dict[str, Callable[[Arrays, Arrays, Arrays, np.ndarray | None], dict[str, Any]]] = {
    one.__name__: one for one in (scores, attack, positive, values, beside, neighbours, pairs)
}
"""By name."""
