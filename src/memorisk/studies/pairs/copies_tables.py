"""Recall of augmented copies: figures 4 and 5 of paper 004 with intervals, thresholds, and paired differences.

Every patient counts one: a share is the mean over patients of each one's own share of recognised copies; papers count
every image alike, which stands beside. Intervals are over patients, with the thresholds as validation made them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from memorisk.statistics.copies.paired_detectors import paired_hits
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.multiple import holm
from memorisk.statistics.pairs.auc import macro_average
from memorisk.statistics.pairs.decisions import identity_difference, identity_share
from memorisk.studies.pairs.copies_reading import RULES, CopiesMeasured
from memorisk.studies.pairs.division import TEST
from memorisk.studies.pairs.figures import RULE_WORDS
from memorisk.studies.pairs.frames import MACRO, limits
from memorisk.studies.rare_distinctive.parts import StudyTable

ALL = "all, strongest"


def figure_4_table(found: Sequence[CopiesMeasured]) -> StudyTable:
    """Share of the strongest copies that are recognised, mean over families, of every data set and macro-averaged.

    Args:
        found: The detectors.
    """
    rows = []
    for m in found:
        for rule in RULES:
            made, intervals = [], []
            for dataset in m.datasets:
                if np.isnan(m.cuts[rule][dataset].value):
                    continue
                share = m.strongest(rule, dataset)
                intervals.append(identity_share(share, m.groups[dataset]))
                row: dict[str, object] = {"detector": m.name, "rule": RULE_WORDS[rule], "dataset": dataset}
                made.append({**row, **limits("recall", intervals[-1]), **_counts(share, m.groups[dataset])})
            rows += _with_macro(made, {"recall": intervals}, len(m.datasets))
    note = (
        "The threshold of every detector comes from validation patients by one rule. At 50 % specificity half of the "
        "pairs of two patients count as copies: the rule compares detectors and is no filter. Families are averaged "
        "within an image, images within a patient, patients within a data set."
    )
    why = "" if rows else "no detector was measured"
    return StudyTable("figure_4", "Strongest copies", pd.DataFrame(), pd.DataFrame(rows), note, why)


def recall_frame(found: Sequence[CopiesMeasured]) -> pd.DataFrame:
    """Recall of every family at every strength: a row for each detector, threshold and data set, and macro-averaged.

    Args:
        found: The detectors.
    """
    rows = []
    for m in found:
        for rule in RULES:
            for family in m.families:
                for place, strength in enumerate(m.copies[family, m.datasets[0]].strengths):
                    rows += _recalls(m, rule, family, place, float(strength))
    return pd.DataFrame(rows)


def _recalls(m: CopiesMeasured, rule: str, family: str, place: int, strength: float) -> list[dict[str, object]]:
    made, intervals = [], []
    for dataset in m.datasets:
        if np.isnan(m.cuts[rule][dataset].value):
            continue
        hit = m.hits(rule, family, dataset, place)
        undefined = int(np.isnan(m.copies[family, dataset].scores[place]).sum())
        intervals.append(identity_share(hit, m.groups[dataset]))
        row: dict[str, object] = {"detector": m.name, "rule": RULE_WORDS[rule], "dataset": dataset}
        row |= {"family": family, "strength": strength, **limits("recall", intervals[-1])}
        made.append({**row, **_counts(hit, m.groups[dataset]), "n_undefined": undefined})
    return _with_macro(made, {"recall": intervals}, len(m.datasets))


def overall(frame: pd.DataFrame, datasets: int) -> pd.DataFrame:
    """The rows of the macro average; where there is one data set, its rows.

    Args:
        frame: With a column ``dataset``.
        datasets: How many there are.
    """
    if not len(frame) or datasets < 2:
        return frame
    return frame.take(np.flatnonzero(frame["dataset"] == MACRO).tolist())


def strongest_table(figure_5: pd.DataFrame) -> StudyTable:
    """Recall of the strongest copies of each family: a row a detector and threshold, a column a family.

    Args:
        figure_5: Of `recall_frame`, `overall`.
    """
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for told in figure_5.to_dict("records"):  # from the weakest to the strongest: the last one stays
        row = rows.setdefault((told["detector"], told["rule"]), {"detector": told["detector"], "rule": told["rule"]})
        family = str(told["family"])
        names = ("recall", "recall_low", "recall_high")
        row |= {name.replace("recall", family): told[name] for name in names}
    ours = pd.DataFrame(list(rows.values()))
    note = "The strongest of each family; every strength is in tables/recall.parquet and in figure 5."
    why = "" if rows else "no detector was measured"
    return StudyTable("strongest", "Strongest copies by family", pd.DataFrame(), ours, note, why)


def thresholds_table(found: Sequence[CopiesMeasured]) -> StudyTable:
    """Thresholds, what they are made from, and what they do to pairs of test patients.

    Args:
        found: The detectors.
    """
    rows = []
    for m in found:
        for rule in RULES:
            for dataset in m.datasets:
                cut = m.cuts[rule][dataset]
                row: dict[str, object] = {"detector": m.name, "dataset": dataset, "rule": RULE_WORDS[rule]}
                row |= {"threshold": cut.value, "made_from": cut.made_from}
                if dataset in m.pairs[TEST] and np.isfinite(cut.value):
                    pairs, groups = m.pairs[TEST][dataset], m.cell.division.groups
                    below = m.scores(TEST, dataset, "negative") < cut.value
                    row |= limits("specificity", identity_share(below, groups[pairs.negative.first].astype(str)))
                    if len(pairs.positive):
                        over = m.scores(TEST, dataset, "positive") >= cut.value
                        row |= limits("sensitivity", identity_share(over, groups[pairs.positive.first].astype(str)))
                rows.append(row)
    note = (
        "The last columns say what a threshold does to pairs of test patients, who did not make it. A mean of other "
        "data sets' thresholds (--no-identities mean), on the raw scale of the scores as the paper takes it, keeps no "
        "specificity: where it is far from the others', recall does not compare."
    )
    why = "" if rows else "no detector was measured"
    return StudyTable("thresholds", "Thresholds", pd.DataFrame(), pd.DataFrame(rows), note, why)


def differences_table(found: Sequence[CopiesMeasured], reference: str) -> StudyTable:
    """Recall of every detector less that of the reference, on the same strongest copies.

    Args:
        found: The detectors.
        reference: Name of the one that the others are compared with.
    """
    base = next((m for m in found if m.name == reference), None)
    rows: list[dict[str, object]] = []
    if base is not None:
        kinds = [(rule, families) for families in ((ALL,), base.families) for rule in RULES]
        rows = [row for rule, families in kinds for row in _all_compared(found, base, rule, families)]
    note = (
        "Difference: macro average, every patient alike, with a paired interval over patients. p: exact sign-flip test "
        "over patients of who recognises how many of their copies; Holm-adjusted over the detectors, and over "
        "detectors and families."
    )
    why = "" if rows else ("the reference was not measured" if base is None else "only one detector was measured")
    return StudyTable("differences", "Less the reference", pd.DataFrame(), pd.DataFrame(rows), note, why)


def _all_compared(
    found: Sequence[CopiesMeasured], base: CopiesMeasured, rule: str, families: Sequence[str]
) -> list[dict[str, object]]:
    """Every other detector by every family, Holm-adjusted over them."""
    some = [_compared(m, base, rule, family) for m in found if m is not base for family in families]
    some = [row for row in some if row]
    adjusted = holm([float(str(row["p"])) for row in some]) if some else []
    return [{**row, "adjusted": float(p)} for row, p in zip(some, adjusted, strict=True)]


def _compared(m: CopiesMeasured, base: CopiesMeasured, rule: str, family: str) -> dict[str, object]:
    """A row; empty where a threshold is missing."""
    apart, first, second, groups = [], [], [], []
    for place, dataset in enumerate(m.datasets):
        if any(np.isnan(one.cuts[rule][dataset].value) for one in (m, base)):
            continue
        own = m.groups[dataset]
        families = m.families if family == ALL else (family,)
        a, b = (np.stack([one.hits(rule, f, dataset) for f in families]) for one in (m, base))  # [families, n]
        apart.append(identity_difference(a.mean(axis=0), b.mean(axis=0), own))
        named = np.char.add(f"{place} ", own)
        for each, into in ((a.ravel(), first), (b.ravel(), second), (np.tile(named, len(families)), groups)):
            into.append(each)
    if not apart:
        return {}
    test = paired_hits(*(np.concatenate(each) for each in (first, second, groups)))
    row: dict[str, object] = {"first": m.name, "second": base.name, "rule": RULE_WORDS[rule], "family": family}
    row |= limits("difference", apart[0] if len(apart) == 1 else macro_average(apart))
    n = len(np.unique(np.concatenate(groups)))
    return row | {"p": test.p_value, "n_discordant": test.n_discordant, "n_identities": n}


def _counts(hit: np.ndarray, groups: np.ndarray) -> dict[str, object]:
    """The share as papers count it, every image alike, and how many there are."""
    return {"recall_paper": float(hit.mean()), "n_images": len(hit), "n_identities": len(np.unique(groups))}


def _with_macro(
    made: list[dict[str, object]], intervals: dict[str, list[JackknifeInterval]], datasets: int
) -> list[dict[str, object]]:
    """The rows and, where there are several data sets, their macro average; none where a data set has no threshold."""
    if datasets < 2 or len(made) < datasets:
        return made
    macro: dict[str, object] = {**made[0], "dataset": MACRO}
    for name, each in intervals.items():
        macro |= limits(name, macro_average(each))
    macro["recall_paper"] = float(np.mean([float(str(row["recall_paper"])) for row in made]))
    for name in ("n_images", "n_identities"):
        macro[name] = sum(int(str(row[name])) for row in made)
    return [*made, macro]
