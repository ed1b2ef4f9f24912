"""From what was measured to a `Result`: tables, numbers, verdict.

Tables: ``per_image`` a synthetic image, ``per_group`` a training patient, ``per_class`` counts where labels are on both
sides; ``tables/`` holds ``detectors``, ``plants``, ``kinds`` (noticed by kind), ``exposures``, ``singled_out`` (pairs
nearer than chance explains), ``pairs`` (by pixels), ``review`` (pairs to look at, and what was said of them),
``clusters``, ``paired`` (who was generated from whom), ``spread`` (pairs by logit), ``real_images`` (what p-values are
made of), ``held_out`` and ``unread``; of several detectors also ``images_by_detector`` and ``kinds_by_detector``.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.generated.evidence import PairedFindings, SyntheticEvidence, compare_pairs
from memorisk.audits.generated.knowledge import UNKNOWN_TRAINING
from memorisk.audits.generated.plants import kinds_promise, missed_kinds
from memorisk.audits.generated.sets import is_blank, is_nearly_blank, n_unread
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.findings import Findings, compute_findings, held_out_for_kinds
from memorisk.audits.synthetic.flags import Clusters, Flag, copy_clusters, flag_pairs, review_table
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.pixel_counts import LiteratureStatistics
from memorisk.audits.synthetic.tables import SyntheticTables, detector_table, paired_table, spread_table
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.copies.near_copies import NO_PAIRS, near_copies
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.statistics.copies.reversed_queries import held_out_needed
from memorisk.statistics.copies.tails import copies_for_power


def analyse_synthetic(evidence: SyntheticEvidence, options: SyntheticOptions, names: Pseudonyms) -> Result:
    """Statistics, verdict and tables.

    Args:
        evidence: Of the images.
        options: Levels, and what a pass needs.
        names: Replaces ids, or leaves them.
    """
    distances = [view.distances for view in evidence.views]
    found = compute_findings(evidence.sets, distances, evidence.copies, evidence.plants, options, evidence.review)
    paired = _paired(evidence, found, options)
    flags = flag_pairs(evidence, found, paired)
    clusters = _clusters(flags, evidence, found)
    numbers = numbers_of(evidence, found, options) | _paired_numbers(evidence, paired)
    numbers["n_clusters"] = len(clusters.images)
    made = SyntheticTables(evidence, found, names)
    tables = {
        "detectors": detector_table(evidence, found),
        "real_images": made.real_images(),
        "pairs": made.pairs(),
        "review": review_table(flags, evidence, found, names),
        "clusters": made.clusters(clusters),
    }
    if found.asked is not None:
        tables |= {"held_out": made.held_out(), "exposures": made.exposures(), "singled_out": made.singled_out()}
    if evidence.plants.n:
        tables |= {"plants": made.plants(), "kinds": made.kinds()}
    if len(evidence.views) > 1:
        tables |= {"images_by_detector": made.images_by_detector()}
        tables |= {"kinds_by_detector": made.kinds_by_detector()} if evidence.plants.n else {}
    if paired:
        tables["paired"] = paired_table(evidence, found, paired, names)
    if any(view.has_head for view in evidence.views):
        tables["spread"] = spread_table(evidence)
    if len(unread := made.unread()):
        tables["unread"] = unread
    result = Result(
        per_image=made.per_image(clusters),
        per_group=made.per_group(),
        per_class=made.per_class() if numbers["labels_given"] else pd.DataFrame(),
        summary=_summary(evidence, found, numbers, options, names),
        verdict=synthetic_verdict(numbers, options),
        tables=tables,
    )
    return names.without_paths(result)


def _paired(evidence: SyntheticEvidence, found: Findings, options: SyntheticOptions) -> tuple[PairedFindings, ...]:
    """Ask each detector about the pairs; return nothing where nobody was paired."""
    pairing = evidence.pairing
    if pairing is None:
        return ()
    left_out = set(found.pixels.dismissed)
    dismissed = np.array([pair in left_out for pair in zip(pairing.synthetic, pairing.train, strict=True)], dtype=bool)
    return tuple(
        compare_pairs(
            pairing, view.features, view.similarity, view.distances, evidence.plants, evidence.sets, options.seed,
            dismissed,
        )
        for view in evidence.views
    )  # fmt: skip


def _clusters(flags: list[Flag], evidence: SyntheticEvidence, found: Findings) -> Clusters:
    """Find who is copied by which images together."""
    store, rule = evidence.sets.synthetic, evidence.copies.rule
    pairs = [(flag.synthetic, flag.train) for flag in flags] + found.pixels.confirmed
    first = np.unique(store.pixel_hashes.astype(str), return_index=True)[1]
    alike = NO_PAIRS
    if rule is not None:
        alike = near_copies(evidence.copies.thumbnails[first], rule, lambda row: store.images[first[row]])
    return copy_clusters(
        ((made, str(found.patients[real])) for made, real in pairs),
        store.pixel_hashes,
        [(int(first[a]), int(first[b])) for a, b in alike.pairs],
        is_blank(store, np.arange(len(store.images))),
    )


def _paired_numbers(evidence: SyntheticEvidence, paired: tuple[PairedFindings, ...]) -> dict[str, Any]:
    """MemRate of each detector, beside its value on held-out images."""
    if evidence.pairing is None:
        return {"paired": None}
    return {
        "paired": {
            "n_pairs": len(evidence.pairing.train),
            "n_unpaired": evidence.pairing.unpaired,
            "rates": [
                {
                    "detector": view.name,
                    "threshold": said.threshold,
                    "probability": view.has_head,
                    "n_memorized": int(said.memorized.sum()),
                    "rate": None if said.rate is None else asdict(said.rate),
                    "held": None if said.held_rate is None else asdict(said.held_rate),
                    "excess": None if said.excess is None else asdict(said.excess),
                    "promise": None
                    if said.calibrated is None
                    else said.calibrated.words("an equal mixture of the planted kinds"),
                }
                for view, said in zip(evidence.views, paired, strict=True)
            ],
        }
    }


def numbers_of(evidence: SyntheticEvidence, found: Findings, options: SyntheticOptions) -> dict[str, Any]:
    """The numbers behind the verdict, in JSON's own types but for NaN."""
    sets, asked, power, views = evidence.sets, found.asked, found.power, evidence.views
    by_kind = (
        None if power is None else {kind: asdict(power.kinds[kind]) for kind in PLANT_KINDS if kind in power.kinds}
    )
    missed = missed_kinds(by_kind or {}, options.kinds, options.recall)
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
        "n_listed": None if asked is None else int(found.listed.sum()),
        "n_listed_at_verdict": None if asked is None else found.n_listed_at_verdict,
        "n_singled": None if asked is None else int(found.singled.sum()),
        "n_singled_patients": None if asked is None else len(found.singled_patients),
        "n_exposing": None if asked is None else int(found.exposing.sum()),
        "shortest_list": None if asked is None else asked.shortest_list,
        "n_ahead": None if asked is None else asked.ahead,
        "p_ahead": None if asked is None else found.p_ahead,
        "one_image_each": "" if asked is None else asked.counted.words,
        "recall": None if power is None else asdict(power.recall),
        "recall_by_kind": by_kind,
        "fewest_copied": None
        if power is None
        else copies_for_power(min(share.low for share in power.kinds.values()), options.recall),
        "held_out_for_kinds": held_out_for_kinds(found, evidence.copies, evidence.plants, missed, options)
        if power is not None and missed
        else None,
        "plant_kinds": list(options.kinds),
        "promise": None if power is None else kinds_promise(power, options.recall),
        "copies_bound": None if found.bound is None else found.bound.upper,
        **_of_pixels(evidence, found),
        "unlike": None if found.unlike is None else asdict(found.unlike) | {"together": found.unlike.together},
        "unlike_by": views[found.unlike_by].name,
        "patients_known": sets.groups_given or options.one_image_per_patient,
        "patients_by_word": options.one_image_per_patient and not sets.groups_given,
        "detector_unseen": any(UNKNOWN_TRAINING in view.features.notes for view in views),
        "n_synthetic_unread": n_unread(sets.synthetic),
        "n_synthetic_blank": int(is_nearly_blank(sets.synthetic).sum()),
        "n_synthetic_far": found.far,
        "far_by": views[found.far_by].name,
        "n_train_unread": n_unread(sets.train),
        "n_train_blank": int(is_nearly_blank(sets.train).sum()),
        "n_train_frames_left": sets.frames_left[0],
        "n_synthetic_frames_left": sets.frames_left[1],
        "n_synthetic_distinct": len(np.unique(sets.synthetic.pixel_hashes.astype(str))),
        "n_plants": evidence.plants.n,
        "saved_features": any(view.features.described.state == "saved" for view in views),
        "weak_features": all(view.features.weak for view in views),
        "n_detectors": len(views),
        "detectors": [view.name for view in views],
        "features": " and ".join(dict.fromkeys(view.features.described.encoder for view in views)),
        "measure": " and ".join(dict.fromkeys(view.measure for view in views)),
        "data_hash": {
            "training": sets.train.data_hash,
            "synthetic": sets.synthetic.data_hash,
            "held_out": None if sets.held is None else sets.held.data_hash,
        },
    }


def _of_pixels(evidence: SyntheticEvidence, found: Findings) -> dict[str, Any]:
    """The numbers of pairs with equal or nearly equal pixels, and of what a person said of them."""
    return {
        "n_confirmed": len(found.pixels.confirmed),
        "n_dismissed": len(found.pixels.dismissed),
        "n_dismissed_identical": len(found.pixels.dismissed_identical),
        "n_dismissed_identical_images": len({made for made, _ in found.pixels.dismissed_identical}),
        "n_dismissed_near": found.pixels.dismissed_near,
        "n_dismissed_patients": found.n_dismissed_patients,
        "n_review_changed": evidence.review.changed,
        "n_certain_copies": found.pixels.certain,
        "n_certain_patients": found.pixels.certain_patients,
        "n_shared_pixels": found.pixels.in_both,
        "n_held_copies": found.pixels.held,
        "n_near_train": found.pixels.near_train,
        "n_near_held": None if found.asked is None else found.pixels.near_held,
        "near_rule": None if evidence.copies.rule is None else evidence.copies.rule.words,
        "near_threshold": None if evidence.copies.rule is None else evidence.copies.rule.chance.similarity,
        "near_p": None if np.isnan(found.pixels.near_p) else found.pixels.near_p,
    }


def _summary(
    evidence: SyntheticEvidence,
    found: Findings,
    numbers: dict[str, Any],
    options: SyntheticOptions,
    names: Pseudonyms,
) -> dict[str, Any]:
    sets = evidence.sets
    return {
        "audit": "synthetic",
        "names": {
            "training": names.source(sets.train.manifest.name),
            "synthetic": names.source(sets.synthetic.manifest.name),
            "held_out": None if sets.held is None else names.source(sets.held.manifest.name),
        },
        "groups_given": sets.groups_given,
        "shape": list(sets.train.images.shape[1:]),
        "numbers": numbers,
        "detectors": [
            {
                "name": view.name,
                "features": view.features.described.as_json() | {"notes": list(view.features.notes)},
                "sentence": view.features.described.sentence,
                "measure": view.measure,
                "head": view.has_head,
                "itself": None if view.spread is None else view.spread.itself,
                "above_itself": None if view.spread is None else view.spread.above_itself,
                "published": _published(one.published),
            }
            for view, one in zip(evidence.views, found.by, strict=True)
        ],
        "plants_asked": evidence.plants.asked,
        "sizes": None if found.asked is None else {"most_images": int(found.asked.n_images.max())},
        "lists": [] if found.asked is None else _lists(found, options),
        "settings": {
            name: getattr(options, name) for name in ("level", "recall", "plants", "seed", "fail_on", "resize")
        },
        "pseudonymised": options.pseudonymise,
        "versions": versions(),
    }


def _published(found: LiteratureStatistics) -> dict[str, Any]:
    """The statistics of the literature."""
    c_t, gap = found.c_t, found.wasserstein
    return {
        "wasserstein": None if gap is None else asdict(gap),
        "c_t": None if c_t is None else {"c_t": c_t.c_t, "p": c_t.p_value},
        "authentic": asdict(found.authentic),
    }


def _lists(found: Findings, options: SyntheticOptions) -> list[dict[str, Any]]:
    """Count the held-out patients that a list of so many copied ones needs, for lengths around what is possible."""
    assert found.asked is not None
    n = len(found.asked.unit)
    lengths = {1, *(max(1, round(n * share)) for share in (0.01, 0.05, 0.1, 0.2))}
    if found.asked.testable:
        lengths.add(found.asked.shortest_list)
    return [
        {
            "copied": length,
            "share": length / n,
            "possible": found.asked.shortest_list <= length,
            "held_out_needed": held_out_needed(n, length, options.shared_level),
        }
        for length in sorted(lengths)
        if length <= n
    ]
