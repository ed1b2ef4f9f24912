"""From what was measured to a `Result`: tables, numbers, verdict.

Tables: ``per_image`` a synthetic image, ``per_group`` a training patient, ``per_class`` counts where labels are on both
sides; ``tables/`` holds ``plants``, ``kinds`` (found by kind), ``exposures``, ``pairs`` (by pixels), ``real_images``
(what p-values are made of) and ``held_out``.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.comparing import Distances, PixelCopies
from memorisk.audits.synthetic.findings import Findings, find
from memorisk.audits.synthetic.hidden import Plants
from memorisk.audits.synthetic.knowledge import UNSEEN
from memorisk.audits.synthetic.measuring import FeatureTables
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.sets import Sets
from memorisk.audits.synthetic.tables import SyntheticTables
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.planting import KINDS
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.statistics.reversed_queries import held_out_needed


@dataclass(frozen=True, eq=False)
class SyntheticEvidence:
    """What was measured of the images."""

    sets: Sets
    plants: Plants
    features: FeatureTables
    measure: str
    """In words, with what was fitted."""
    distances: Distances
    copies: PixelCopies


def analyse_synthetic(evidence: SyntheticEvidence, options: SyntheticOptions, names: Pseudonyms) -> Result:
    """Statistics, verdict and tables.

    Args:
        evidence: Of the images.
        options: Levels, and what a pass needs.
        names: Replaces ids, or leaves them.
    """
    found = find(evidence.sets, evidence.distances, evidence.copies, evidence.plants, options)
    numbers = numbers_of(evidence, found, options)
    tables = SyntheticTables(evidence.sets, evidence.plants, evidence.distances, evidence.copies, found, names)
    held = {} if found.asked is None else {"held_out": tables.held_out(), "exposures": tables.exposures()}
    planted = {"plants": tables.plants(), "kinds": tables.kinds()} if evidence.plants.n else {}
    return Result(
        per_image=tables.per_image(),
        per_group=tables.per_group(),
        per_class=tables.per_class() if numbers["labels_given"] else pd.DataFrame(),
        summary=_summary(evidence, found, numbers, options),
        verdict=synthetic_verdict(numbers, options),
        tables={"real_images": tables.real_images(), "pairs": tables.pairs()} | held | planted,
    )


def numbers_of(evidence: SyntheticEvidence, found: Findings, options: SyntheticOptions) -> dict[str, Any]:
    """The numbers behind the verdict, in JSON's own types but for NaN."""
    sets, asked, power = evidence.sets, found.asked, found.power
    train, given = sets.train.manifest, sets.synthetic.manifest.labels
    return {
        "units": "patients" if train.groups_given else "images",
        "labels_given": bool((train.labels != "").all() and (given != "").all()),
        "notes": list(sets.notes),
        "n_train_images": len(found.patients),
        "n_train_patients": len(np.unique(found.patients)),
        "n_synthetic": len(sets.synthetic.images),
        "n_held_images": None if asked is None else len(found.held_patients),
        "n_held_patients": None if asked is None else asked.n_held,
        "n_held_shared_images": sets.shared_images,
        "n_held_shared_patients": sets.shared_patients,
        "level": options.level,
        "n_listed": None if asked is None else asked.listed.n_rejected,
        "n_exposing": None if found.exposed is None else len(found.exposed.images),
        "shortest_list": None if asked is None else asked.shortest_list,
        "n_ahead": None if asked is None else asked.ahead,
        "p_ahead": None if asked is None else asked.p_ahead,
        "copied": found.copied,
        "held_out_needed": found.needed,
        "n_reachable": None if asked is None else int((asked.floor <= found.cut * (1 + 1e-12)).sum()),
        "plants_read_at": None if asked is None else found.read_at,
        "cut": None if asked is None else found.cut,
        "recall": None if power is None else asdict(power.recall),
        "recall_by_kind": None
        if power is None
        else {kind: asdict(power.kinds[kind]) for kind in KINDS if kind in power.kinds},
        "promise": None if power is None else power.promise,
        "copies_bound": None if found.bound is None else found.bound.upper,
        "n_found_at_cut": None if found.bound is None else found.bound.found,
        "n_certain_copies": found.pixels.certain,
        "n_certain_patients": found.pixels.certain_patients,
        "n_shared_pixels": found.pixels.in_both,
        "n_held_copies": found.pixels.held,
        "n_near_train": found.pixels.near_train,
        "n_near_held": None if asked is None else found.pixels.near_held,
        "near_p": None if np.isnan(found.pixels.near_p) else found.pixels.near_p,
        "unlike": None if found.unlike is None else asdict(found.unlike),
        "patients_known": sets.groups_given or options.one_image_per_patient,
        "detector_unseen": UNSEEN in evidence.features.notes,
        "n_synthetic_unread": len(sets.synthetic.skipped) + len(sets.synthetic.manifest.skipped),
        "n_synthetic_distinct": len(np.unique(sets.synthetic.pixel_hashes.astype(str))),
        "n_plants": evidence.plants.n,
        "saved_features": evidence.features.described.state == "saved",
        "weak_features": evidence.features.weak,
        "features": evidence.features.described.encoder,
        "measure": evidence.measure,
        "data_hash": {
            "training": sets.train.data_hash,
            "synthetic": sets.synthetic.data_hash,
            "held_out": None if sets.held is None else sets.held.data_hash,
        },
    }


def _summary(
    evidence: SyntheticEvidence, found: Findings, numbers: dict[str, Any], options: SyntheticOptions
) -> dict[str, Any]:
    published, sets = found.published, evidence.sets
    c_t, gap = published.c_t, published.wasserstein
    return {
        "audit": "synthetic",
        "names": {
            "training": sets.train.manifest.name,
            "synthetic": sets.synthetic.manifest.name,
            "held_out": None if sets.held is None else sets.held.manifest.name,
        },
        "groups_given": sets.groups_given,
        "shape": list(sets.train.images.shape[1:]),
        "numbers": numbers,
        "features": evidence.features.described.as_json() | {"notes": list(evidence.features.notes)},
        "feature_sentence": evidence.features.described.sentence,
        "plants_asked": evidence.plants.asked,
        "sizes": None if found.asked is None else {"most_images": int(found.asked.n_images.max())},
        "lists": [] if found.asked is None else _lists(found, options),
        "wasserstein": None if gap is None else asdict(gap),
        "c_t": None if c_t is None else {"c_t": c_t.c_t, "p": c_t.p_value},
        "authentic": asdict(published.authentic),
        "settings": {
            name: getattr(options, name)
            for name in ("level", "copied", "recall", "plants", "seed", "fail_on", "resize")
        },
        "pseudonymised": options.pseudonymise,
        "versions": versions(),
    }


def _lists(found: Findings, options: SyntheticOptions) -> list[dict[str, Any]]:
    """How many held-out patients a list of so many copied ones needs, for some lengths around what is possible."""
    assert found.asked is not None
    n = len(found.asked.unit)
    lengths = {1, found.copied, *(max(1, round(n * share)) for share in (0.01, 0.05, 0.1, 0.2))}
    if found.asked.testable:
        lengths.add(found.asked.shortest_list)
    return [
        {
            "copied": length,
            "share": length / n,
            "possible": found.asked.shortest_list <= length,
            "held_out_needed": held_out_needed(n, length, options.level),
        }
        for length in sorted(lengths)
        if length <= n
    ]
