"""Every pair that a person should look at, and why: rows of ``review.csv`` and edges of the clusters."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.evidence import SyntheticEvidence, View
from memorisk.audits.synthetic.findings import DetectorFindings, Findings
from memorisk.audits.synthetic.pairing import PairedFindings
from memorisk.audits.synthetic.reviewing import ANSWERS, COLUMNS, DISMISS, pair_keys
from memorisk.audits.synthetic.verdict import AHEAD_LEVEL
from memorisk.images.copies.near_copies import thumbnails
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.reversed_queries import units_ahead

SAME, NEARLY, AHEAD = "same pixels", "nearly the same pixels", "nearer than every held-out one"
SINGLED = "singled out by"


@dataclass(frozen=True)
class Flag:
    """A reason to look at a pair."""

    synthetic: int
    """Row."""
    train: int
    """Row."""
    reason: str
    """Who found it, and how."""
    score: float
    """By whom found it, larger = more alike."""


def flag_pairs(evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...]) -> list[Flag]:
    """All flags, those singled out first, then those of the lists; dismissed pairs are not among them.

    Args:
        evidence: Of the images.
        found: What the distances say.
        paired: Of each detector; none where nobody was paired.
    """
    return [
        *_singled(evidence, found),
        *_listed(evidence, found),
        *_ahead(evidence, found),
        *_pixels(evidence),
        *_paired(evidence, found, paired),
    ]


def singled_pairs(view: View, one: DetectorFindings) -> pd.DataFrame:
    """A row a pair of rows that a detector singles out, the one that chance explains least first.

    Columns ``synthetic``, ``train``, ``distance``, ``other_distance`` (to the next real image of anybody else; NaN
    where the synthetic image is nearer to another one), ``lead`` and ``expected``, the training patients whom chance
    brings as far.
    """
    d, singled = view.distances, one.singled
    assert singled is not None
    made, real = np.flatnonzero(singled.images), np.flatnonzero(singled.train)
    lead = np.where(d.nearest[d.standing_nearest[real]] == real, singled.image_lead[d.standing_nearest[real]], 0.0)
    table = pd.DataFrame(
        {
            "synthetic": np.concatenate([made, d.standing_nearest[real]]),
            "train": np.concatenate([d.nearest[made], real]),
            "distance": np.concatenate([d.synthetic[made], d.standing[real]]),
            "lead": np.concatenate([singled.image_lead[made], lead]),
        }
    ).drop_duplicates(["synthetic", "train"])
    other = np.minimum(d.second, d.synthetic_held)[table["synthetic"].to_numpy()]
    own = d.nearest[table["synthetic"].to_numpy()] == table["train"].to_numpy()
    expected = singled.expected(table["distance"].to_numpy(), table["lead"].to_numpy(), d.logits)
    table = table.assign(other_distance=np.where(own, other, np.nan), expected=expected)
    return table.sort_values(["expected", "synthetic", "train"], kind="stable").reset_index(drop=True)


def _singled(evidence: SyntheticEvidence, found: Findings) -> Iterator[Flag]:
    for view, one in zip(evidence.views, found.by, strict=True):
        if one.singled is not None:
            for row in singled_pairs(view, one).to_dict("records"):
                reason = f"{SINGLED} {view.name}"
                yield Flag(int(row["synthetic"]), int(row["train"]), reason, -float(row["distance"]))


def _listed(evidence: SyntheticEvidence, found: Findings) -> Iterator[Flag]:
    for view, one in zip(evidence.views, found.by, strict=True):
        if one.exposed is not None:
            for real, made, distance in zip(
                one.exposed.image, one.exposed.synthetic, one.exposed.distance, strict=True
            ):
                yield Flag(int(made), int(real), f"listed by {view.name}", -float(distance))


def _ahead(evidence: SyntheticEvidence, found: Findings) -> Iterator[Flag]:
    if not found.p_ahead <= AHEAD_LEVEL:
        return
    d = evidence.views[found.ahead_by].distances
    at = np.searchsorted(found.unit, found.patients)
    least = group_values(d.standing, found.patients)[at]
    assert found.asked is not None
    ahead = units_ahead(d.standing, d.held, found.patients, found.asked.counted)[at]
    for row in np.flatnonzero((d.standing <= least) & ahead):
        yield Flag(int(d.standing_nearest[row]), int(row), AHEAD, -float(d.standing[row]))


def _pixels(evidence: SyntheticEvidence) -> Iterator[Flag]:
    copies = evidence.copies
    for made in np.flatnonzero((copies.identical >= 0) & ~copies.in_both):
        yield Flag(int(made), int(copies.identical[made]), SAME, 1.0)
    near = copies.near_train
    for made, real, similarity in zip(near.first, near.second, near.similarity, strict=True):
        yield Flag(int(made), int(real), NEARLY, float(similarity))


def _paired(evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...]) -> Iterator[Flag]:
    """Memorized pairs; where MemRate is no larger than on held-out images, those of listed patients alone."""
    pairing, listed = evidence.pairing, np.isin(found.patients, found.unit[found.listed])
    if pairing is None:
        return
    for view, said in zip(evidence.views, paired, strict=True):
        by_chance = said.excess is not None and said.excess.low <= 0
        for at in np.flatnonzero(said.memorized & (listed[pairing.train] | (not by_chance))):
            reason = f"paired, above the threshold of {view.name}"
            yield Flag(int(pairing.synthetic[at]), int(pairing.train[at]), reason, float(said.score[at]))


def review_table(flags: list[Flag], evidence: SyntheticEvidence, found: Findings, names: Pseudonyms) -> pd.DataFrame:
    """A row a pair: who found it, and what a person said of it; judged pairs are there whether found or not.

    Pairs that are singled out come first, and the most alike ones of each part (`PixelCopies.alike`) before others.

    Args:
        flags: Of `flag_pairs`.
        evidence: For the images and the review.
        found: For the patients and the judged pairs.
        names: Replaces ids, or leaves them.
    """
    sets, review = evidence.sets, evidence.review
    pairs: dict[tuple[int, int], list[Flag]] = {}
    for flag in flags:
        pairs.setdefault((flag.synthetic, flag.train), []).append(flag)
    for pair in (*found.pixels.confirmed, *found.pixels.dismissed):
        pairs.setdefault(pair, [])
    made, real = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    contents = list(zip(sets.synthetic.pixel_hashes[made], sets.train.pixel_hashes[real], strict=True))
    said = [review.judged.get(content) for content in contents]
    table = pd.DataFrame(
        {
            "synthetic_image": names.names(sets.synthetic.manifest.images[made]),
            "training_image": names.names(sets.train.manifest.images[real]),
            "patient": names.names(found.patients[real]),
            "found_by": ["; ".join(dict.fromkeys(flag.reason for flag in why)) for why in pairs.values()],
            "score": np.array([why[0].score if why else np.nan for why in pairs.values()], dtype=np.float64),
            "pair": pair_keys(contents, names),
            **{name: ["" if one is None else getattr(one, name) for one in said] for name in ANSWERS},
        },
        columns=list(COLUMNS),
    )
    singled = [any(flag.reason.startswith(SINGLED) for flag in why) for why in pairs.values()]
    table = table.assign(
        dismissed=table["verdict"].to_numpy() == DISMISS,
        others=~np.array(singled, dtype=bool),
        unlike=-evidence.copies.alike(made, thumbnails(sets.train.images[real])),
    )
    order = ["dismissed", "others", "unlike", *(["synthetic_image", "training_image"] if names.key is not None else [])]
    return table.sort_values(order, kind="stable").reset_index(drop=True).loc[:, list(COLUMNS)]
