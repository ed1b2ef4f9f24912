"""Tables of the detectors: what each says, what each says of the pairs, and how their logits are spread."""

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.evidence import SyntheticEvidence, View, probability
from memorisk.audits.synthetic.findings import Findings
from memorisk.audits.synthetic.pairing import PairedFindings
from memorisk.statistics.copies.calibration import group_values


def detector_table(evidence: SyntheticEvidence, found: Findings) -> pd.DataFrame:
    """A row a detector: its list, its test of the set as a whole, the copies that it finds alone.

    Of a head also the patients with a pair of P > 0.5, training and held out: the latter are its false alarms.
    """
    rows = []
    for view, one in zip(evidence.views, found.by, strict=True):
        recall = None if one.power is None else one.power.recall
        asked = one.asked
        rows.append(
            {
                "detector": view.name,
                "features": view.features.described.encoder,
                "measure": view.measure,
                "listed": np.nan if asked is None else float(asked.listed.n_rejected),
                "ahead": np.nan if asked is None else float(asked.ahead),
                "p_ahead": np.nan if asked is None else asked.p_ahead,
                "singled_out": np.nan if one.singled is None else float(one.singled.images.sum()),
                "singled_below": np.nan if one.singled is None else _distance(view, one.singled.near.cut),
                "singled_lead": np.nan if one.singled is None else one.singled.lead.cut,
                "parts_p": np.nan if one.unlike is None else one.unlike.p_value,
                "found": np.nan if recall is None else recall.estimate,
                "low": np.nan if recall is None else recall.low,
                "high": np.nan if recall is None else recall.high,
                "above_half": _above_half(view, view.distances.standing, found.patients),
                "above_half_held": _above_half(view, view.distances.held, found.held_patients),
            }
        )
    return pd.DataFrame(rows)


def _distance(view: View, closeness: float) -> float:
    """The distance that has this closeness; below it somebody is singled out."""
    return -closeness if view.has_head else float(np.exp(-closeness))


def _above_half(view: View, distance: np.ndarray, patients: np.ndarray) -> float:
    """Share of patients with a synthetic image of P > 0.5; NaN without a head, or patients."""
    if not view.has_head or not len(distance):
        return np.nan
    return float((probability(view, group_values(distance, patients)) > 0.5).mean())


def paired_table(
    evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...], names: Pseudonyms
) -> pd.DataFrame:
    """A row a detector and pair: a synthetic image, the training image it was conditioned on, how alike they are."""
    pairing, sets = evidence.pairing, evidence.sets
    assert pairing is not None
    parts = []
    for view, said in zip(evidence.views, paired, strict=True):
        table = pd.DataFrame(
            {
                "detector": np.array([view.name] * len(said.score), dtype=object),
                "image": names.names(sets.synthetic.manifest.images[pairing.synthetic]),
                "training_image": names.names(sets.train.manifest.images[pairing.train]),
                "group": names.names(found.patients[pairing.train]),
                "score": said.score,
                "probability": probability(view, -said.score),
                "memorized": said.memorized,
            }
        )
        parts.append(table if names.key is None else table.sort_values(["image"], kind="stable"))
    return pd.concat(parts, ignore_index=True)


def spread_table(evidence: SyntheticEvidence) -> pd.DataFrame:
    """A row a detector with a head, kind of pair and bin of the logit: the pairs in it."""
    rows = [
        (view.name, kind, float(low), float(high), int(n))
        for view in evidence.views
        if view.spread is not None
        for kind, counts in view.spread.counts.items()
        for low, high, n in zip(view.spread.edges[:-1], view.spread.edges[1:], counts, strict=True)
    ]
    return pd.DataFrame(rows, columns=["detector", "kind", "low", "high", "pairs"])
