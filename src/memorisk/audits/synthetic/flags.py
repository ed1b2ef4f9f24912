"""Pairs that a person should look at, and the reasons; and clusters of copies.

Flags are rows of ``review.csv`` and edges of the clusters.

A cluster holds synthetic images that expose one patient, or are nearly the same image: all images that are flagged
with one patient before any other, and their equals; or images of which every two are nearly the same or equal.
Chains join no patients: an image that exposes two patients is in the cluster of the first, and A like B and B like C
does not put A into a cluster with C (complete linkage, `statistics.pairs.identity_pairs.cliques`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from memorisk.audits.comparison.evidence import DetectorView, PairedFindings, SyntheticEvidence
from memorisk.audits.comparison.review import pair_keys
from memorisk.audits.comparison.review_files import ANSWERS, COLUMNS, DISMISS
from memorisk.audits.comparison.second_look import SecondLook
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.findings import DetectorFindings, Findings
from memorisk.images.copies.near_copies import thumbnails
from memorisk.statistics.copies.calibration import group_values
from memorisk.statistics.copies.reversed_queries import preceding_units
from memorisk.statistics.pairs.identity_pairs import cliques
from memorisk.statistics.verdicts.levels import AHEAD_LEVEL

SAME_PIXELS, NEAR_PIXELS, AHEAD_OF_HELD_OUT = "same pixels", "nearly the same pixels", "nearer than every held-out one"
IN_COLOURS = "alike in colours"
SINGLED = "singled out by"
ALIGNED = "confirmed by alignment"
CHANGED = "judged before an image was changed"
_ALIKE_DECIMALS = 5  # sums in float32 round beyond; equal pixels are equally alike on any processor


@dataclass(frozen=True)
class Flag:
    """Reason to look at a pair."""

    synthetic: int
    """Row of the synthetic image."""
    train: int
    """Row of the training image."""
    reason: str
    """Rule and detector that found the pair, in words."""
    score: float
    """Score by the rule that found the pair, larger = more alike."""
    ahead: bool = False
    """Whether the pair comes before others in the review: it is singled out, or confirmed by alignment."""


def flag_pairs(evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...]) -> list[Flag]:
    """Return all flags, those singled out first, then those of the lists; without dismissed pairs.

    Args:
        evidence: Evidence of the images.
        found: Findings from the distances.
        paired: Findings of each detector on the pairs; none where no image was paired.
    """
    return [
        *_singled(evidence, found),
        *_listed(evidence, found),
        *_ahead(evidence, found),
        *_pixels(evidence),
        *_paired(evidence, found, paired),
    ]


def aligned_flags(look: SecondLook | None) -> list[Flag]:
    """Return the flags of the pairs that the second look confirms, the most similar first."""
    confirmed = [] if look is None else look.confirmed
    return [Flag(pair.synthetic, pair.train, ALIGNED, pair.alignment.similarity, ahead=True) for pair in confirmed]


def singled_pairs(view: DetectorView, one: DetectorFindings) -> pd.DataFrame:
    """Return one row per pair of rows that a detector singles out, the one that chance explains least first.

    Columns ``synthetic``, ``train``, ``distance``, ``other_distance`` (to the next real image of any other person; NaN
    where the synthetic image is nearer to another one), ``lead`` and ``expected``, the number of training patients that
    chance brings as far.
    """
    d, singled = view.distances, one.singled
    assert singled is not None
    synthetic, real = np.flatnonzero(singled.images), np.flatnonzero(singled.train)
    lead = np.where(d.nearest[d.standing_nearest[real]] == real, singled.image_lead[d.standing_nearest[real]], 0.0)
    table = pd.DataFrame(
        {
            "synthetic": np.concatenate([synthetic, d.standing_nearest[real]]),
            "train": np.concatenate([d.nearest[synthetic], real]),
            "distance": np.concatenate([d.synthetic[synthetic], d.standing[real]]),
            "lead": np.concatenate([singled.image_lead[synthetic], lead]),
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
                yield Flag(int(row["synthetic"]), int(row["train"]), reason, -float(row["distance"]), ahead=True)


def _listed(evidence: SyntheticEvidence, found: Findings) -> Iterator[Flag]:
    for view, one in zip(evidence.views, found.by, strict=True):
        if one.exposed is not None:
            for real, image, distance in zip(
                one.exposed.image, one.exposed.synthetic, one.exposed.distance, strict=True
            ):
                yield Flag(int(image), int(real), f"listed by {view.name}", -float(distance))


def _ahead(evidence: SyntheticEvidence, found: Findings) -> Iterator[Flag]:
    if not found.p_ahead <= AHEAD_LEVEL:
        return
    d = evidence.views[found.ahead_by].distances
    at = np.searchsorted(found.unit, found.patients)
    least = group_values(d.standing, found.patients)[at]
    assert found.queries is not None
    ahead = preceding_units(d.standing, d.held, found.patients, found.queries.counted)[at]
    for row in np.flatnonzero((d.standing <= least) & ahead):
        yield Flag(int(d.standing_nearest[row]), int(row), AHEAD_OF_HELD_OUT, -float(d.standing[row]))


def _pixels(evidence: SyntheticEvidence) -> Iterator[Flag]:
    copies = evidence.copies
    for image in np.flatnonzero((copies.identical >= 0) & ~copies.in_both):
        yield Flag(int(image), int(copies.identical[image]), SAME_PIXELS, 1.0)
    near = copies.near_train
    for image, real, similarity in zip(near.first, near.second, near.similarity, strict=True):
        yield Flag(int(image), int(real), NEAR_PIXELS, float(similarity))
    for (image, real), similarity in copies.colours.alike.items():
        if (image, real) not in copies.dismissed:
            yield Flag(image, real, IN_COLOURS, similarity)


def _paired(evidence: SyntheticEvidence, found: Findings, paired: tuple[PairedFindings, ...]) -> Iterator[Flag]:
    """Yield memorized pairs; those of listed patients alone where MemRate does not exceed that on held-out images."""
    pairing, listed = evidence.pairing, np.isin(found.patients, found.unit[found.listed])
    if pairing is None:
        return
    for view, findings in zip(evidence.views, paired, strict=True):
        by_chance = findings.excess is not None and findings.excess.low <= 0
        for at in np.flatnonzero(findings.memorized & (listed[pairing.train] | (not by_chance))):
            reason = f"paired, above the threshold of {view.name}"
            yield Flag(int(pairing.synthetic[at]), int(pairing.train[at]), reason, float(findings.score[at]))


def review_table(
    flags: list[Flag],
    evidence: SyntheticEvidence,
    found: Findings,
    names: Pseudonyms,
    look: SecondLook | None = None,
) -> pd.DataFrame:
    """Return one row per pair, found or judged: the rules that found it, its alignment and a person's judgement.

    Pairs that are singled out, confirmed by alignment or in need of a new judgement come first, and the most alike ones
    of each part (`PixelCopies.alike`) before others. The column ``changed`` holds a person's verdict on a pair before
    one of its images was changed.

    Args:
        flags: Flags of `flag_pairs` and of `aligned_flags`.
        evidence: Evidence with the images and the review.
        found: Findings with the patients and the judged pairs.
        names: Pseudonyms that replace ids, or leave them.
        look: Outcome of the second look; None where there was none.
    """
    sets, review = evidence.sets, evidence.review
    pairs: dict[tuple[int, int], list[Flag]] = {}
    for flag in flags:
        pairs.setdefault((flag.synthetic, flag.train), []).append(flag)
    changed = {(pair.synthetic, pair.train): pair.verdict for pair in review.changed}
    for pair in (*evidence.confirmed, *evidence.dismissed, *changed):
        pairs.setdefault(pair, [])
    synthetic, real = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    contents = list(zip(sets.synthetic.pixel_hashes[synthetic], sets.train.pixel_hashes[real], strict=True))
    judgements = [review.judged.get(content) for content in contents]
    aligned = {} if look is None else {(one.synthetic, one.train): one.alignment.words for one in look.confirmed}
    table = pd.DataFrame(
        {
            "synthetic_image": names.names(sets.synthetic.manifest.images[synthetic]),
            "training_image": names.names(sets.train.manifest.images[real]),
            "patient": names.names(found.patients[real]),
            "found_by": [
                "; ".join(dict.fromkeys([flag.reason for flag in own] + [CHANGED] * (pair in changed)))
                for pair, own in pairs.items()
            ],
            "score": np.array([own[0].score if own else np.nan for own in pairs.values()], dtype=np.float64),
            "alignment": [aligned.get(pair, "") for pair in pairs],
            "pair": pair_keys(contents, names),
            **{name: ["" if one is None else getattr(one, name) for one in judgements] for name in ANSWERS},
            "changed": [changed.get(pair, "") for pair in pairs],
        },
        columns=[*COLUMNS, "changed"],
    )
    singled = [pair in changed or any(flag.ahead for flag in own) for pair, own in pairs.items()]
    table = table.assign(
        dismissed=table["verdict"].to_numpy() == DISMISS,
        others=~np.array(singled, dtype=bool),
        unlike=-evidence.copies.alike(synthetic, thumbnails(sets.train.images[real])).round(_ALIKE_DECIMALS),
    )
    order = ["dismissed", "others", "unlike", *(["synthetic_image", "training_image"] if names.key is not None else [])]
    return table.sort_values(order, kind="stable").reset_index(drop=True).loc[:, [*COLUMNS, "changed"]]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of two synthetic images or more; those that expose a patient come first, then the largest."""

    images: tuple[np.ndarray, ...]
    """Rows of the synthetic images of each."""
    patients: tuple[np.ndarray, ...]
    """Patients that the images of each cluster expose."""
    cluster: np.ndarray
    """Number of each image's cluster, from 1, [S]; 0 for none."""


def copy_clusters(
    exposing: Iterable[tuple[int, str]], hashes: np.ndarray, alike: Iterable[tuple[int, int]], blank: np.ndarray
) -> Clusters:
    """Group images that copy the same patients together.

    Args:
        exposing: Row of a synthetic image, and a patient that it exposes; the first of an image counts.
        hashes: Hashes of the pixels of the synthetic images, [S].
        alike: Pairs of rows of synthetic images that are nearly the same.
        blank: Whether each image has one value only, [S]: such an image is like none of the others.

    Returns:
        The clusters.
    """
    n, pairs = len(hashes), list(exposing)
    _, first, content = np.unique(hashes.astype(str), return_index=True, return_inverse=True)
    whom: dict[int, str] = {}
    for image, patient in pairs:
        whom.setdefault(int(first[content[image]]) if not blank[image] else image, patient)
    links = [(int(first[content[a]]), int(first[content[b]])) for a, b in alike]
    free = [(a, b) for a, b in links if a != b and a not in whom and b not in whom]
    clique = cliques(n, *(np.array(free, dtype=np.intp).reshape(-1, 2).T))
    names: dict[str | int, int] = {}
    component = np.array(
        [
            names.setdefault(whom[at] if at in whom else int(clique[at]), len(names))
            for at in (int(row if blank[row] else first[content[row]]) for row in range(n))
        ],
        dtype=np.int64,
    )
    members = np.bincount(component, minlength=len(names))
    exposed: dict[int, set[str]] = {}
    for image, patient in pairs:
        exposed.setdefault(int(component[image]), set()).add(patient)
    ranked = sorted(np.flatnonzero(members >= 2).tolist(), key=lambda c: (c not in exposed, -members[c], c))
    number = np.zeros(len(members), dtype=np.int64)
    number[ranked] = np.arange(1, len(ranked) + 1)
    return Clusters(
        images=tuple(np.flatnonzero(component == c) for c in ranked),
        patients=tuple(np.array(sorted(exposed.get(c, ())), dtype=object) for c in ranked),
        cluster=number[component],
    )
