"""From measurements to a `Result`: tables, numbers, verdict.

Tables: ``per_image`` has one row per synthetic image, ``per_group`` one per training patient, ``per_class`` counts
where both sides have labels; ``tables/`` holds ``detectors``, ``plants``, ``kinds`` (noticed by kind), ``exposures``,
``singled_out`` (pairs nearer than chance explains), ``pairs`` (by pixels), ``review`` (pairs to look at, and a person's
judgements of them), ``clusters``, ``subgroups`` (of training patients, by ``by``), ``paired`` (synthetic images and
their sources), ``spread`` (pairs by logit), ``real_images`` (the basis of p-values), ``held_out`` and ``unread``; of
several detectors also ``images_by_detector`` and ``kinds_by_detector``.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from memorisk.audits.comparison.evidence import PairedFindings, SyntheticEvidence, compare_pairs
from memorisk.audits.comparison.kept_alignments import KeptAlignments
from memorisk.audits.comparison.knowledge import UNKNOWN_TRAINING
from memorisk.audits.comparison.plants import kinds_promise, missed_kinds
from memorisk.audits.comparison.review_files import undismissed
from memorisk.audits.comparison.second_look import SecondLook, look_again
from memorisk.audits.comparison.sets import Sets, images_by_part, is_blank, is_nearly_blank, n_unread
from memorisk.audits.pseudonyms import Pseudonyms, draw_seed
from memorisk.audits.subgroups import SUBGROUPS
from memorisk.audits.synthetic import result as results
from memorisk.audits.synthetic.checks import blind_checks
from memorisk.audits.synthetic.findings import (
    Findings,
    compute_findings,
    held_out_for_kinds,
    listing_detectors,
    with_alignments,
)
from memorisk.audits.synthetic.flags import Clusters, Flag, aligned_flags, copy_clusters, flag_pairs, review_table
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.subgroups import more_copied, subgroup_table, training_subgroups
from memorisk.audits.synthetic.tables import SyntheticTables, detector_table, paired_table, spread_table
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.alterations.plants import ALL_KINDS
from memorisk.images.copies.near_copies import NO_PAIRS, near_copies
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.runs.settings import fields_of
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.copies.reversed_queries import ReversedQueries, held_out_needed
from memorisk.statistics.copies.singled_out import copies_for_power
from memorisk.statistics.verdicts.checks import Check


def analyse_synthetic(
    evidence: SyntheticEvidence,
    options: SyntheticOptions,
    names: Pseudonyms,
    progress: Progress = no_progress,
    kept: KeptAlignments | None = None,
) -> Result:
    """Compute statistics, take a second look at pairs, and make verdict and tables.

    Args:
        evidence: Evidence of the images.
        options: Settings with the levels and the requirements of a pass.
        names: Pseudonyms that replace ids, or leave them.
        progress: Called with (stage, done, total) of the second look.
        kept: Alignments of before, with which a killed audit resumes; None to start anew.
    """
    distances = [view.distances for view in evidence.views]
    findings = compute_findings(evidence.sets, distances, evidence.copies, evidence.plants, options, evidence.review)
    paired = _paired(evidence, options)
    flags = flag_pairs(evidence, findings, paired)
    pairs = ((flag.synthetic, flag.train) for flag in flags)
    look = look_again(evidence, pairs, draw_seed(options, options.seed), progress, kept)
    if look is not None:
        images = [pair.synthetic for pair in look.confirmed]
        findings = with_alignments(findings, images, look.plants, evidence.plants, options.seed)
    flags = [*aligned_flags(look), *flags]
    clusters = _clusters(flags, evidence, findings)
    numbers = numbers_of(evidence, findings, options, paired, len(clusters.images), look)
    builder = SyntheticTables(evidence, findings, names)
    tables = {
        "detectors": detector_table(evidence, findings),
        "real_images": builder.real_images(),
        "pairs": builder.pairs(),
        "review": review_table(flags, evidence, findings, names, look),
        "clusters": builder.clusters(clusters),
    }
    train = evidence.sets.train.manifest
    if columns := training_subgroups(train, options.by):
        flagged = undismissed(tables["review"])["patient"]
        copied = findings.unit[np.isin(names.names(findings.unit), flagged)]
        tables[SUBGROUPS] = subgroup_table(train, columns, copied.tolist())
        numbers = replace(numbers, subgroups=more_copied(tables[SUBGROUPS]))
    if findings.queries is not None:
        tables |= {
            "held_out": builder.held_out(),
            "exposures": builder.exposures(),
            "singled_out": builder.singled_out(),
        }
    if evidence.plants.n:
        tables |= {"plants": builder.plants(), "kinds": builder.kinds(options.kinds)}
    if look is not None:
        tables["alignments"] = builder.alignments(look)
    if len(evidence.views) > 1:
        tables |= {"images_by_detector": builder.images_by_detector()}
        tables |= {"kinds_by_detector": builder.kinds_by_detector(options.kinds)} if evidence.plants.n else {}
    if paired:
        tables["paired"] = paired_table(evidence, findings, paired, names)
    if any(view.has_head for view in evidence.views):
        tables["spread"] = spread_table(evidence)
    if len(unread := builder.unread()):
        tables["unread"] = unread
    result = Result(
        per_image=builder.per_image(clusters),
        per_group=builder.per_group(),
        per_class=builder.per_class() if numbers.labels_given else pd.DataFrame(),
        summary=to_json(_summary(evidence, findings, numbers, options, names)),
        verdict=synthetic_verdict(numbers, options),
        tables=tables,
    )
    return names.without_paths(result)


def _paired(evidence: SyntheticEvidence, options: SyntheticOptions) -> tuple[PairedFindings, ...]:
    """Compare the pairs by each detector; return nothing where no image was paired."""
    pairing = evidence.pairing
    if pairing is None:
        return ()
    left_out = set(evidence.dismissed)
    dismissed = np.array([pair in left_out for pair in zip(pairing.synthetic, pairing.train, strict=True)], dtype=bool)
    return tuple(
        compare_pairs(
            pairing, view.features, view.similarity, view.distances, evidence.plants, evidence.sets, options.seed,
            dismissed,
        )
        for view in evidence.views
    )  # fmt: skip


def _clusters(flags: list[Flag], evidence: SyntheticEvidence, found: Findings) -> Clusters:
    """Find the clusters of images that copy the same patients."""
    store, rule = evidence.sets.synthetic, evidence.copies.rule
    pairs = [(flag.synthetic, flag.train) for flag in flags] + evidence.confirmed
    first = np.unique(store.pixel_hashes.astype(str), return_index=True)[1]
    alike = NO_PAIRS
    if rule is not None:
        alike = near_copies(evidence.copies.thumbnails[first], rule, lambda row: store.images[first[row]])
    return copy_clusters(
        ((image, str(found.patients[real])) for image, real in pairs),
        store.pixel_hashes,
        [(int(first[a]), int(first[b])) for a, b in alike.pairs],
        is_blank(store, np.arange(len(store.images))),
    )


def _paired_numbers(evidence: SyntheticEvidence, paired: tuple[PairedFindings, ...]) -> results.Paired | None:
    """Return MemRate of each detector, with its value on held-out images."""
    if evidence.pairing is None:
        return None
    return results.Paired(
        n_pairs=len(evidence.pairing.train),
        n_unpaired_images=evidence.pairing.unpaired,
        rates=tuple(
            results.DetectorRate(
                detector=view.name,
                threshold=pairs.threshold,
                probability=view.has_head,
                n_memorized_pairs=int(pairs.memorized.sum()),
                rate=pairs.rate,
                held=pairs.held_rate,
                excess=pairs.excess,
                promise=None
                if pairs.calibrated is None
                else pairs.calibrated.words("an equal mixture of the planted kinds"),
            )
            for view, pairs in zip(evidence.views, paired, strict=True)
        ),
    )


def numbers_of(
    evidence: SyntheticEvidence,
    found: Findings,
    options: SyntheticOptions,
    paired: tuple[PairedFindings, ...] = (),
    n_clusters: int = 0,
    look: SecondLook | None = None,
) -> results.SyntheticNumbers:
    """Return the numbers behind the verdict."""
    sets, queries, checks = evidence.sets, found.queries, blind_checks(evidence, found, paired, look)
    train, labels, unlike = sets.train.manifest, sets.synthetic.manifest.labels, found.unlike
    return results.SyntheticNumbers(
        units="patients" if train.groups_given else "images",
        labels_given=bool((train.labels != "").all() and (labels != "").all()),
        notes=tuple(sets.notes),
        sets=_set_counts(sets, found),
        level=options.level,
        listing=None if queries is None else _listing(found, queries, checks),
        one_image_each="" if queries is None else queries.counted.words,
        power=_power(evidence, found, options),
        pixels=found.pixels,
        unlike=None if unlike is None else results.PartsTest(**asdict(unlike), together=unlike.together),
        unlike_by=evidence.views[found.unlike_by].name,
        reading=_reading(evidence, found, options),
        comparison=_comparison(evidence),
        data_hash=results.Fingerprints(
            training=sets.train.data_hash,
            synthetic=sets.synthetic.data_hash,
            held_out=None if sets.held is None else sets.held.data_hash,
        ),
        paired=_paired_numbers(evidence, paired),
        n_clusters=n_clusters,
        aligned=None if look is None else _aligned_pairs(look, found),
        checks=checks,
    )


def _set_counts(sets: Sets, found: Findings) -> results.SetCounts:
    held, queries = None, found.queries
    if queries is not None:
        held = results.HeldOutCounts(n_held_images=len(found.held_patients), n_held_patients=queries.n_held)
    return results.SetCounts(
        n_train_images=len(found.patients),
        n_train_patients=len(found.unit),
        n_synthetic_images=len(sets.synthetic.images),
        held=held,
        n_held_shared_images=sets.shared_images,
        n_held_shared_patients=sets.shared_patients,
        other_parts={} if sets.others is None else images_by_part(sets.others.manifest),
    )


def _listing(found: Findings, queries: ReversedQueries, checks: Sequence[Check]) -> results.Listing:
    """Count the patients who are listed or nearer than every held-out one, and the images that are singled out."""
    blind = results.SINGLED_OUT in {check.name for check in checks}
    return results.Listing(
        n_listed_patients=found.n_listed,
        n_listed_at_verdict=found.n_listed_at_verdict,
        n_singled_images=None if blind else int(found.singled.sum()),
        n_singled_patients=len(found.singled_patients),
        n_exposing_images=int(found.exposing.sum()),
        shortest_list_patients=queries.shortest_list,
        n_ahead_patients=queries.ahead,
        p_ahead=found.p_ahead,
    )


def _reading(evidence: SyntheticEvidence, found: Findings, options: SyntheticOptions) -> results.Reading:
    """Count what was read and what was not, and say what is known of the people."""
    sets, views = evidence.sets, evidence.views
    return results.Reading(
        **sets.knowledge(one_image_per_patient=options.one_image_per_patient),
        detector_unseen=any(UNKNOWN_TRAINING in view.features.notes for view in views),
        n_synthetic_unread=n_unread(sets.synthetic),
        n_synthetic_blank=int(is_nearly_blank(sets.synthetic).sum()),
        n_synthetic_far=found.far,
        far_by=views[found.far_by].name,
        n_train_unread=n_unread(sets.train),
        n_train_blank=int(is_nearly_blank(sets.train).sum()),
        n_train_hiding=sets.train_hiding,
        n_train_frames_left=sets.frames_left[0],
        n_synthetic_frames_left=sets.frames_left[1],
        frames_left_of=sets.left_of,
        n_synthetic_distinct=len(np.unique(sets.synthetic.pixel_hashes.astype(str))),
        n_synthetic_coloured=evidence.copies.colours.n_unlike_real,
        n_synthetic_hiding=len({image for image, _ in evidence.copies.colours.alike}),
        train_cropped=options.resize == "crop" and "pad" in sets.forms,  # that form needs images which are not square
        n_other_forms=dict(evidence.copies.other_forms),
    )


def _comparison(evidence: SyntheticEvidence) -> results.Comparison:
    """Describe the detectors that compared the images."""
    views = evidence.views
    return results.Comparison(
        n_plants=evidence.plants.n_required,
        saved_features=any(view.features.described.state == "saved" for view in views),
        weak_features=all(view.features.weak for view in views),
        n_detectors=len(views),
        n_listing=len(listing_detectors([view.distances for view in views])),
        detectors=tuple(view.name for view in views),
        features="; ".join(dict.fromkeys(view.features.described.encoder for view in views)),
        measure="; ".join(dict.fromkeys(view.measure for view in views)),
    )


def _aligned_pairs(look: SecondLook, found: Findings) -> results.AlignedPairs:
    """Count the pairs that the second look confirms."""
    confirmed = look.confirmed
    return results.AlignedPairs(
        n_images=look.n_images,
        n_left=look.n_left,
        n_pairs=len(confirmed),
        n_confirmed_images=len({pair.synthetic for pair in confirmed}),
        n_confirmed_patients=len({found.patients[pair.train] for pair in confirmed}),
        windows=look.windows,
        expected=look.cut.chance,
        n_null_people=len(look.null),
        n_apart=look.cut.apart,
        n_control_images=len(look.control),
        n_control_beyond=look.n_control_beyond,
        plants={kind: look.kinds[kind] for kind in ALL_KINDS if kind in look.kinds},
    )


def _power(evidence: SyntheticEvidence, found: Findings, options: SyntheticOptions) -> results.Power:
    """Count the planted copies that were noticed."""
    power, bound = found.power, None if found.bound is None else found.bound.upper
    also = {kind: found.also[kind] for kind in ALL_KINDS if kind in found.also}
    if power is None:
        return results.Power(
            recall=None, recall_by_kind=None, fewest_copied_patients=None, plant_kinds=options.kinds, promise=None,
            copies_bound_share=bound, also_tried=also,
        )  # fmt: skip
    by_kind = {kind: power.kinds[kind] for kind in ALL_KINDS if kind in power.kinds}
    missed = missed_kinds(by_kind, options.kinds, options.recall)
    return results.Power(
        recall=power.recall,
        recall_by_kind=by_kind,
        fewest_copied_patients=copies_for_power(min(share.low for share in by_kind.values()), options.recall),
        held_out_patients_for_kinds=held_out_for_kinds(found, evidence.copies, evidence.plants, missed, options)
        if missed
        else None,
        plant_kinds=options.kinds,
        promise=kinds_promise(power, options.recall, len(np.unique(found.patients))),
        copies_bound_share=bound,
        also_tried=also,
    )


def _summary(
    evidence: SyntheticEvidence,
    found: Findings,
    numbers: results.SyntheticNumbers,
    options: SyntheticOptions,
    names: Pseudonyms,
) -> results.SyntheticSummary:
    sets = evidence.sets
    return results.SyntheticSummary(
        names=results.SetNames(
            training=names.source(sets.train.manifest.name),
            synthetic=names.source(sets.synthetic.manifest.name),
            held_out=None if sets.held is None else names.source(sets.held.manifest.name),
        ),
        groups_given=sets.groups_given,
        shape=sets.train.images.shape[1:],
        numbers=numbers,
        detectors=tuple(
            results.DetectorSummary(
                name=view.name,
                features=replace(view.features.described, notes=view.features.notes),
                sentence=view.features.described.sentence,
                measure=view.measure,
                head=view.has_head,
                itself=None if view.spread is None else view.spread.itself,
                above_itself_pairs=None if view.spread is None else view.spread.above_itself,
                published=one.published,
            )
            for view, one in zip(evidence.views, found.by, strict=True)
        ),
        plants_asked=evidence.plants.per_kind,
        sizes=None if found.queries is None else results.Sizes(most_images=int(found.queries.n_images.max())),
        lists=() if found.queries is None else _lists(found.queries, options),
        settings=results.SyntheticSettings(**fields_of(results.SyntheticSettings, options)),
        pseudonymised=options.pseudonymise,
        versions=versions(),
    )


def _lists(queries: ReversedQueries, options: SyntheticOptions) -> tuple[results.PossibleList, ...]:
    """Count the held-out patients that a list of so many copied ones needs, for lengths around what is possible."""
    n = len(queries.unit)
    lengths = {1, *(max(1, round(n * share)) for share in (0.01, 0.05, 0.1, 0.2))}
    if queries.testable:
        lengths.add(queries.shortest_list)
    return tuple(
        results.PossibleList(
            copied_patients=length,
            share=length / n,
            possible=queries.shortest_list <= length,
            held_out_patients_needed=held_out_needed(n, length, options.shared_level),
        )
        for length in sorted(lengths)
        if length <= n
    )
