"""Analysis of measurements to a `Result`: tables, numbers, verdict; and pictures of the closest pairs.

Tables: ``per_image`` a synthetic image (the manifest), ``per_group`` an exposed training patient, ``per_class``
counts before and after; ``tables/`` holds ``scores`` (a synthetic image and a detector), ``real_images`` (a
calibration image and a detector), ``calibration`` (the pairs behind the thresholds), ``guarantees``, ``detectors``,
``diversity``.

Pictures are made only when the user requests them: a training image, a synthetic one, their difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from memorisk.audits.comparison.compared import labels_note
from memorisk.audits.comparison.pictures import MAX_PICTURES, Pair, PairPicture, side_by_side
from memorisk.audits.filter.calibration import CalibratedThreshold
from memorisk.audits.filter.decisions import Decision, Diversity, exposed_patients
from memorisk.audits.filter.families import Family, not_promised
from memorisk.audits.filter.options import FilterOptions, ScreeningOptions
from memorisk.audits.filter.result import (
    Calibration,
    DetectorSummary,
    FamilyCost,
    FamilyCount,
    FilterNumbers,
    FilterSummary,
    FinalAudit,
    Fingerprints,
    Promise,
    ScreenedSets,
    ScreeningSettings,
    ScreeningSetup,
    SetNames,
)
from memorisk.audits.filter.screening import Screening, ScreeningDetector, detector_names
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.tables import FilterTables
from memorisk.audits.filter.verdict import kept_verdict, promise_doubts
from memorisk.audits.filter.wording import REASONS
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.identity import DoubtedIds
from memorisk.report.columns import column_texts
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.statistics.intervals import Proportion
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.training.detectors.pair_detectors import PairDetector


@dataclass(frozen=True, eq=False)
class FilterEvidence:
    """Measurements of the images; without a threshold nothing is measured."""

    sets: FilterSets
    detectors: Sequence[PairDetector]
    families: Sequence[Family]
    counted: Sequence[MissGuarantee]
    """Guarantee of each family, with the number of identities that there are and that it needs."""
    decision: Decision
    opened: Sequence[ScreeningDetector] = ()
    calibrated: Sequence[CalibratedThreshold] = ()
    screened: Screening | None = None
    synthetic: Proportion | None = None
    """Share of the synthetic images that the detectors reject."""
    real: Proportion | None = None
    """Share of new patients whose real image would be rejected."""
    real_rejected: np.ndarray | None = None
    """Whether each calibration image would be rejected, [M]."""
    diversity: Sequence[Diversity] = ()
    audited: FinalAudit | None = None
    """Audit of the kept set; None where nothing was kept."""
    costs: Sequence[FamilyCost] = ()
    """Costs of the families that were tried."""

    @property
    def missing(self) -> int:
        """Number of identities that are missing for the guarantee, in the family that lacks most."""
        return max((guarantee.missing for guarantee in self.counted), default=0)


def analyse_filter(evidence: FilterEvidence, options: FilterOptions, names: Pseudonyms) -> Result:
    """Compute numbers, verdict and tables.

    Args:
        evidence: Thresholds, scores and decisions of the images.
        options: Options of the run.
        names: Pseudonyms, which replace ids or leave them.
    """
    tables = FilterTables(evidence, names)
    numbers = numbers_of(evidence, options)
    further = {"guarantees": tables.guarantees(), "calibration": tables.calibration()}
    if evidence.screened is not None:
        further |= {"scores": tables.scores(), "real_images": tables.real_images()}
        further |= {"detectors": tables.detectors(), "diversity": tables.diversity()}
    result = Result(
        per_image=tables.per_image(),
        per_group=tables.per_group(),
        per_class=tables.per_class(),
        summary=to_json(_summary(evidence, numbers, options, names)),
        verdict=kept_verdict("filter", numbers, options) | numbers.in_verdict(),
        tables=further,
    )
    return names.without_paths(result)


def numbers_of(evidence: FilterEvidence, options: ScreeningOptions) -> FilterNumbers:
    """Return the numbers behind the verdict."""
    sets, decision, screened = evidence.sets, evidence.decision, evidence.screened
    groups = sets.train.manifest.groups.astype(str)
    calibration = sets.calibration
    extra = len(sets.unread) - int((decision.place < 0).sum())  # files that have no row
    by_reason = {reason: int((decision.reason == reason).sum()) for reason in REASONS}
    by_reason["unreadable"] += extra
    numbers = FilterNumbers(
        units="patients" if sets.groups_given else "images",
        sets=ScreenedSets(
            n_train_images=len(groups),
            n_train_patients=len(np.unique(groups)),
            n_train_unread=sets.unread_training,
            n_synthetic_images=len(decision.reason) + extra,
            n_kept_images=int(decision.kept.sum()),
            n_rejected_images=len(decision.reason) + extra - int(decision.kept.sum()),
            rejected=by_reason,
            filtered=screened is not None,
        ),
        calibration=Calibration(
            n_calibration_images=0 if calibration is None else len(calibration.images),
            n_calibration_patients=0
            if calibration is None
            else len(np.unique(calibration.manifest.groups.astype(str))),
            exclusions=sets.exclusions,
            calibration_given=options.calibration is not None or options.calibration_split is not None,
        ),
        promise=Promise(
            miss_rate=options.miss_rate,
            confidence=options.confidence,
            shared_by=evidence.counted[0].detectors,
            families=tuple(family.words for family in evidence.families),
            kinds=tuple(family.name for family in evidence.families),
            not_promised=tuple(not_promised(evidence.families)),
            costs=tuple(evidence.costs),
            n_missing_patients=evidence.missing,
            lacking=tuple(
                FamilyCount(
                    family=family.name,
                    identities=guarantee.n_identities,
                    needed=guarantee.needed,
                    missing=guarantee.missing,
                )
                for family, guarantee in zip(evidence.families, evidence.counted, strict=True)
            ),
            threshold_by="user" if options.threshold else "guarantee" if screened is not None else None,
            detectors=tuple(detector_names(evidence.detectors)),
            thresholds=() if screened is None else tuple(screened.thresholds),
            guarantee=guarantee_words(evidence, options),
            unseen=tuple(sets.unseen),
        ),
        patients_known=(sets.groups_given and not sets.n_without_group) or options.one_image_per_patient,
        n_without_patient=sets.n_without_group if sets.groups_given else 0,
        patients_by_word=options.one_image_per_patient and not sets.groups_given,
        ids=DoubtedIds.of(sets.id_doubts),
        exposed=exposed_patients(screened, groups),
        synthetic_rejected=evidence.synthetic,
        real_rejected=evidence.real,
        audited=evidence.audited,
        notes=(*sets.notes, *labels_note(sets.asked.labels.tolist(), sets.train.manifest.labels.tolist())),
        data_hash=Fingerprints(
            training=sets.train.data_hash,
            synthetic=sets.synthetic.data_hash,
            calibration=None if calibration is None else calibration.data_hash,
        ),
    )
    doubts = promise_doubts(numbers)
    promise = (
        replace(numbers.promise, guarantee=None, doubts=tuple(doubt.text for doubt in doubts))
        if doubts
        else numbers.promise
    )
    return replace(numbers, promise=promise)


def guarantee_words(evidence: FilterEvidence, options: ScreeningOptions) -> str | None:
    """Return the guarantee in METHODS' words, of all families together; None without a guarantee."""
    if options.threshold or evidence.missing or evidence.screened is None:
        return None
    return families_words(evidence.families, evidence.counted)


def families_words(families: Sequence[Family], counted: Sequence[MissGuarantee]) -> str:
    """Return the guarantee of some families in METHODS' words.

    Args:
        families: Families that the guarantee covers.
        counted: Guarantee of each family, with its number of identities.
    """
    names = [family.words for family in families]
    joined = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return min(counted, key=lambda found: found.n_identities).words(joined)


def _summary(
    evidence: FilterEvidence, numbers: FilterNumbers, options: FilterOptions, hidden: Pseudonyms
) -> FilterSummary:
    sets = evidence.sets
    return FilterSummary(
        names=set_names(sets, hidden.source(sets.asked.name), hidden),
        shape=sets.train.images.shape[1:],
        numbers=numbers,
        setup=ScreeningSetup(
            features=described_detectors(evidence.opened),
            settings=ScreeningSettings(**{f.name: getattr(options, f.name) for f in fields(ScreeningSettings)}),
            pseudonymised=options.pseudonymise,
            versions=versions(),
        ),
    )


def set_names(sets: FilterSets, synthetic: str, hidden: Pseudonyms) -> SetNames:
    """Name the sets as a report may.

    Args:
        sets: The images.
        synthetic: Name of the synthetic set in the report.
        hidden: Pseudonyms, which replace the names of the real sets or leave them.
    """
    calibration = "" if sets.calibration is None else hidden.source(sets.calibration.manifest.name)
    return SetNames(training=hidden.source(sets.train.manifest.name), synthetic=synthetic, calibration=calibration)


def described_detectors(opened: Sequence[ScreeningDetector]) -> tuple[DetectorSummary, ...]:
    """Describe each detector as a report does."""
    return tuple(
        DetectorSummary(
            detector=one.name,
            sentence=one.train.described.sentence,
            compares=one.similarity.words,
            at_half=one.similarity.at_half,
            top=one.top,
            notes=_notes(one),
        )
        for one in opened
    )


def _notes(opened: ScreeningDetector) -> tuple[str, ...]:
    """Return the encoder's notes; those of its checks name images, which are refused or rejected."""
    features = opened.train
    of_images = set(features.checks.sentences(features.ids, features.values.shape[1]))
    return tuple(note for note in features.described.notes if note not in of_images)


def closest_pairs(sets: FilterSets, result: Result, names: Pseudonyms) -> dict[Pair, PairPicture]:
    """Return pictures of the pair that exposes each patient most, the closest first, by the ids in the report.

    Args:
        sets: Sets that hold the pixels.
        result: Result whose tables name the pairs.
        names: Pseudonyms that the tables were written with.
    """
    train = {str(name): row for row, name in enumerate(names.names(sets.train.manifest.images))}
    synthetic = {str(name): row for row, name in enumerate(names.names(sets.synthetic.manifest.images))}
    patients = result.per_group.head(MAX_PICTURES)
    pairs = zip(column_texts(patients, "training_image"), column_texts(patients, "synthetic_image"), strict=True)
    return {
        pair: side_by_side(
            np.asarray(sets.train.images[train[pair[0]]]), np.asarray(sets.synthetic.images[synthetic[pair[1]]])
        )
        for pair in pairs
    }
