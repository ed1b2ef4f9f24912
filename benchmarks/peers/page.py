"""``docs/results/peers.md`` from ``benchmarks/results/peers.json``: every number on it is from there."""

from pathlib import Path
from typing import Any

from registry import CASES, PEERS

from memorisk.runs.files import write_text

PAGE = Path(__file__).parents[2] / "docs" / "results" / "peers.md"
SETS = {"ham10000": "HAM10000", "nih": "NIH chest X-rays"}
THREE = ("honest", "with copies", "drawn together")
INTRODUCTION = """# memorisk beside other projects

`python benchmarks/peers/run.py all --data DATA`, results in `benchmarks/results/peers.json`.

Each project runs in an environment of its own with pinned versions; both sides get the same file of arrays and one
thread, and answer in turn. "Times as fast" is the median of the paired ratios (seconds of the processor, the peer's
over memorisk's) with its interval: of the order statistics, or the range where pairs are too few for 95 %. Below 1, the
peer is faster. It is the time of the figure alone: models are trained, features made and references asked before it.
Formulas stand for projects that the package index does not hold, written anew in NumPy in the way the project computes;
their times say nothing of the project's own.

Inputs: membership, small networks on scikit-learn's digits, a tenth of the labels wrong; influence, CNN-2 with random
weights at two checkpoints; quality and memorization, SqueezeNet features of HAM10000; copies, images of HAM10000 (one a
lesion) and of NIH chest X-rays (one a patient) with planted copies of seven kinds; neighbours, clustered vectors."""


def write_page(results: dict[str, Any]) -> None:
    """The page of all peers that have results."""
    parts = [INTRODUCTION, _who(results), _agreement(results), _notes(results)]
    parts += [part for part in (_failed(results), _copies(results), _sets(results), _versions(results)) if part]
    write_text(PAGE, "\n\n".join(parts) + "\n")
    PAGE.chmod(0o644)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _who(results: dict[str, Any]) -> str:
    words = {"package": "installed", "formula": "by formula"}
    rows = [[peer.title, words[peer.how], peer.where] for peer in PEERS.values()]
    return "## Who\n\n" + _table(["project", "how", "what was found"], rows)


def _agreement(results: dict[str, Any]) -> str:
    rows = []
    for peer in results.values():
        for row in peer["cases"]:
            ratio = row["processor_ratio"]
            times = f"{_number(ratio['median'])} ({_number(ratio['low'])} to {_number(ratio['high'])}; {row['pairs']})"
            if row["kind"] == "beside":
                times = "not compared"
            n = f"{row['agreement']['n']:,}"
            rows.append([peer["title"], row["title"], n, _WORDS[row["kind"]](row["agreement"]), times])
    head = ["project", "figure", "n", "agreement with memorisk", "memorisk is times as fast (pairs)"]
    return "## Agreement and time\n\n" + _table(head, rows)


def _scores(found: dict[str, Any]) -> str:
    said = [
        f"largest difference {_small(found['largest_difference'])}",
        f"rank correlation {_correlation(found['rank_correlation'])}",
        f"AUC {found['auc']['peer']:.4f} against {found['auc']['memorisk']:.4f}",
    ]
    if found["distinct"]["peer"] != found["distinct"]["memorisk"]:
        said.append(f"{found['distinct']['peer']:,} different scores against {found['distinct']['memorisk']:,}")
    return "; ".join([*said, *_explained(found)])


def _positive(found: dict[str, Any]) -> str:
    return (
        f"largest relative difference {_small(found['largest_relative_difference'])}; "
        f"rank correlation {_correlation(found['rank_correlation'])}"
    )


def _values(found: dict[str, Any]) -> str:
    sides = [", ".join(_number(value) for value in found["values"][side]) for side in ("peer", "memorisk")]
    said = f"{sides[0]} against {sides[1]}; largest difference {_small(found['largest_difference'])}"
    return "; ".join([said, *_explained(found)])


def _explained(found: dict[str, Any]) -> list[str]:
    if "largest_difference_by_their_definition" not in found:
        return []
    return [f"by their definition {_small(found['largest_difference_by_their_definition'])}"]


def _neighbours(found: dict[str, Any]) -> str:
    zero = found["copies_at_distance_0"]
    return (
        f"the same nearest {found['same_nearest']:.2%}, the same ten in order {found['same_of_all']:.2%}; largest "
        f"difference {_small(found['largest_difference'])}; queries that are a reference and have distance 0: "
        f"{zero['peer']:,} against {zero['memorisk']:,} of {found['copies']:,}"
    )


def _pairs(found: dict[str, Any]) -> str:
    said = []
    for part, title in SETS.items():
        one = found["sets"][part]
        said.append(f"{title}: AUC {one['peer']['auc']:.3f} against {one['memorisk']['auc']:.3f}")
        if "largest_relative_difference_of_features" in one:
            said.append(f"features differ by {_small(one['largest_relative_difference_of_features'])}")
    return "; ".join(said)


def _beside(found: dict[str, Any]) -> str:
    return "another figure: see below"


_WORDS = {
    "scores": _scores,
    "attack": _scores,
    "positive": _positive,
    "values": _values,
    "beside": _beside,
    "neighbours": _neighbours,
    "pairs": _pairs,
}


def _notes(results: dict[str, Any]) -> str:
    shown = {(name, row["case"]) for name, peer in results.items() for row in peer["cases"]}
    lines = [
        f"* **{PEERS[case.peer].title}**, {case.title}: {case.note}"
        for case in CASES
        if case.note and (case.peer, case.case) in shown
    ]
    return (
        '## Whose definition, and defects\n\n"By their definition" above is memorisk\'s own parts put together in the '
        "other way: what then remains is rounding.\n\n" + "\n".join(lines)
    )


def _failed(results: dict[str, Any]) -> str:
    """Cases without a result, and what a case that failed said."""
    measured = {(name, row["case"]) for name, peer in results.items() for row in peer["cases"]}
    said = {(name, one["case"]): one["error"] for name, peer in results.items() for one in peer["failed"]}
    rows = [
        f"* {PEERS[case.peer].title}, {case.title}: "
        + (said.get((case.peer, case.case)) or said.get((case.peer, "all")) or f"`run.py {case.peer}` was not finished")
        for case in CASES
        if (case.peer, case.case) not in measured
    ]
    return "## Not measured here\n\n" + "\n".join(rows) if rows else ""


def _copies(results: dict[str, Any]) -> str:
    cases = results.get("imagededup", {"cases": []})["cases"]
    if not cases:
        return ""
    parts = [
        "## Planted copies, found by either\n\nAt the thresholds that either has by default. False pairs are pairs of "
        "images of different lesions or patients, none of them planted. AUC: planted copies (less pasted ones, which "
        "show two people) against these pairs, by what the method compares. The results file holds every share's "
        "Clopper-Pearson interval."
    ]
    for part, title in SETS.items():
        rows: dict[str, list[str]] = {}
        for row in cases:
            name = row["title"].partition("; ")[0]
            sides = row["agreement"]["sets"][part]
            shown = {"peer": f"imagededup, {name.partition(':')[0]}", "memorisk": f"memorisk, {_OURS[row['case']]}"}
            for side, label in shown.items():
                one = sides[side]
                kinds = [f"{kind['found']} of {kind['of']}" for kind in one["kinds"].values()]
                false = f"{one['false_pairs']:,} of {one['pairs_of_different_people']:,}"
                rows.setdefault(label, [label, *kinds, false, f"{one['auc']:.3f}"])
        kinds = list(cases[0]["agreement"]["sets"][part]["peer"]["kinds"])
        parts.append(f"{title}:\n\n" + _table(["method", *kinds, "false pairs", "AUC"], [*rows.values()]))
    return "\n\n".join(parts)


_OURS = {
    "phash": "details",
    "dhash": "details",
    "ahash": "details",
    "whash": "details, turned and flipped as well",
    "cnn": "SqueezeNet, cosine from 0.9",
}


def _sets(results: dict[str, Any]) -> str:
    cases = results.get("dgm-eval", {"cases": []})["cases"]
    if not cases:
        return ""
    rows = []
    for row in cases:
        name, _, own = row["title"].partition("; memorisk: ")
        rows.append([f"dgm-eval: {name}", *(_number(value) for value in row["agreement"]["values"]["peer"])])
        rows.append([f"memorisk: {own or name}", *(_number(value) for value in row["agreement"]["values"]["memorisk"])])
    return (
        "## What the memorization metrics say of three sets\n\nHonest: other real images of the same source. "
        "With copies: the same with a tenth replaced by training images, half of these exact. Drawn together: "
        "the honest ones, a fifth nearer to the training images' mean, nobody copied. AuthPct falls and C_T "
        "is negative where a set is near the training images, FLS is positive where it fits them better than "
        "test images; memorisk's p is small where training images are nearer to the set than held-out "
        "ones.\n\n" + _table(["figure", *THREE], rows)
    )


def _versions(results: dict[str, Any]) -> str:
    rows = []
    for peer in results.values():
        if peer["cases"]:
            told = peer["cases"][0]["versions"]
            sides = [", ".join(f"{name} {version}" for name, version in told[side].items()) for side in told]
            rows.append([peer["title"], *sides, f"{peer['machine']['cores']} cores, one used by each"])
    return "## Versions\n\n" + _table(["project", "its environment", "memorisk's", "machine"], rows)


def _number(value: float) -> str:
    if value != value:
        return "not defined"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _small(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.3g}"


def _correlation(value: float) -> str:
    return "1" if value > 1 - 1e-12 else f"{value:.6f}".rstrip("0")
