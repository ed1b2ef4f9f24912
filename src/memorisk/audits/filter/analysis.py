"""Analysis of measurements to a `Result`: tables, numbers, verdict; and pictures of the closest pairs.

Tables: ``per_image`` a synthetic image (the manifest), ``per_group`` an exposed training patient, ``per_class``
counts before and after; ``tables/`` holds ``scores`` (a synthetic image and a detector), ``real_images`` (a
calibration image and a detector), ``calibration`` (the pairs behind the thresholds), ``guarantees``, ``detectors``,
``diversity``.

Pictures are made only when the user requests them: a training image, a synthetic one, their difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memorisk.audits.compared_images import labels_note
from memorisk.audits.comparison.features import display_names, notes_without_images
from memorisk.audits.comparison.sets import images_by_part, n_unread
from memorisk.audits.filter import result as results
from memorisk.audits.filter.choice import Choice
from memorisk.audits.filter.decisions import (
    Decision,
    Diversity,
    diversity,
    exposed_patients,
    real_share,
    synthetic_share,
)
from memorisk.audits.filter.families import Family, not_promised
from memorisk.audits.filter.options import FilterOptions, ScreeningOptions
from memorisk.audits.filter.screening import Screening, ScreeningDetector
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.filter.tables import FilterTables
from memorisk.audits.filter.verdict import kept_verdict, promise_doubts
from memorisk.audits.filter.wording import REASONS
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.report.numbers import to_json
from memorisk.report.result import Result
from memorisk.runs.environment import versions
from memorisk.runs.settings import fields_of
from memorisk.statistics.intervals.shares import Proportion
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.training.detectors.pair_detectors import PairDetector


@dataclass(frozen=True, eq=False)
class FilterEvidence:
    """Measurements of the images; without a threshold nothing is measured."""

    sets: FilterSets
    detectors: Sequence[PairDetector]
    choice: Choice
    """Families of the guarantee, with their thresholds and costs."""
    decision: Decision
    opened: Sequence[ScreeningDetector] = ()
    screened: Screening | None = None
    synthetic: Proportion | None = None
    """Share of the synthetic images that the detectors reject."""
    real: Proportion | None = None
    """Share of new patients whose real image would be rejected."""
    real_rejected: np.ndarray | None = None
    """Whether each calibration image would be rejected, [M]."""
    diversity: Sequence[Diversity] = ()
    audited: results.FinalAudit | None = None
    """Audit of the kept set; None where nothing was kept."""

    def with_screening(
        self, opened: Sequence[ScreeningDetector], screened: Screening, chosen: Mapping[str, np.ndarray], seed: int
    ) -> "FilterEvidence":
        """Return the evidence with the scores of all images, and what they cost.

        Args:
            opened: Detectors that screened.
            screened: Scores of all images.
            chosen: Rows of synthetic images whose diversity is measured, by name; the share that is rejected is counted
                among the first.
            seed: Seed from which images are drawn for comparisons.
        """
        before = next(iter(chosen.values()))
        real, rejected = real_share(screened.real, screened.thresholds, self.sets, seed)
        return replace(
            self,
            opened=opened,
            screened=screened,
            synthetic=synthetic_share(screened, before),
            real=real,
            real_rejected=rejected,
            diversity=diversity(screened, chosen, self.sets, seed),
        )


def analyse_filter(evidence: FilterEvidence, options: FilterOptions, names: Pseudonyms) -> Result:
    """Compute numbers, verdict and tables.

    Args:
        evidence: Thresholds, scores and decisions of the images.
        options: Options of the run.
        names: Pseudonyms, which replace ids or leave them.
    """
    tables = FilterTables(evidence, names)
    numbers = numbers_of(evidence, options)
    result = Result(
        per_image=tables.per_image(),
        per_group=tables.per_group(),
        per_class=tables.per_class(),
        summary=to_json(_summary(evidence, numbers, options, names)),
        verdict=kept_verdict("filter", numbers, options) | numbers.in_verdict(),
        tables=tables.further(),
    )
    return names.without_paths(result)


def numbers_of(evidence: FilterEvidence, options: ScreeningOptions) -> results.FilterNumbers:
    """Return the numbers behind the verdict."""
    sets, decision, screened = evidence.sets, evidence.decision, evidence.screened
    groups = sets.train.manifest.groups.astype(str)
    calibration = sets.calibration
    extra = len(sets.unread) - int((decision.place < 0).sum())  # files that have no row
    by_reason = {reason: int((decision.reason == reason).sum()) for reason in REASONS}
    by_reason["unreadable"] += extra
    numbers = results.FilterNumbers(
        units="patients" if sets.groups_given else "images",
        sets=results.ScreenedSets(
            n_train_images=len(groups),
            n_train_patients=len(np.unique(groups)),
            n_train_unread=n_unread(sets.train),
            n_synthetic_images=len(decision.reason) + extra,
            n_kept_images=int(decision.kept.sum()),
            n_rejected_images=len(decision.reason) + extra - int(decision.kept.sum()),
            rejected=by_reason,
            filtered=screened is not None,
            other_parts={} if sets.others is None else images_by_part(sets.others.manifest),
        ),
        calibration=results.Calibration(
            n_calibration_images=0 if calibration is None else len(calibration.images),
            n_calibration_patients=0
            if calibration is None
            else len(np.unique(calibration.manifest.groups.astype(str))),
            exclusions=sets.exclusions,
            calibration_given=options.calibration is not None or options.calibration_split is not None,
        ),
        promise=results.Promise(
            miss_rate=options.miss_rate,
            confidence=options.confidence,
            shared_by=evidence.choice.counted[0].detectors,
            families=tuple(family.words for family in evidence.choice.families),
            kinds=tuple(family.name for family in evidence.choice.families),
            not_promised=tuple(not_promised(evidence.choice.families)),
            costs=evidence.choice.costs,
            n_missing_patients=evidence.choice.missing,
            lacking=tuple(
                results.FamilyCount(
                    family=family.name,
                    identities=guarantee.n_identities,
                    needed=guarantee.needed,
                    missing=guarantee.missing,
                )
                for family, guarantee in zip(evidence.choice.families, evidence.choice.counted, strict=True)
            ),
            threshold_by="user" if options.threshold else "guarantee" if screened is not None else None,
            detectors=display_names(evidence.detectors),
            thresholds=() if screened is None else tuple(screened.thresholds),
            guarantee=guarantee_words(evidence, options),
            unseen=tuple(sets.unseen),
        ),
        **sets.knowledge(one_image_per_patient=options.one_image_per_patient),
        exposed=exposed_patients(screened, groups),
        synthetic_rejected=evidence.synthetic,
        real_rejected=evidence.real,
        audited=evidence.audited,
        notes=(*sets.notes, *labels_note(sets.candidates.labels.tolist(), sets.train.manifest.labels.tolist())),
        data_hash=results.Fingerprints(
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
    if options.threshold or evidence.choice.missing or evidence.screened is None:
        return None
    return families_words(evidence.choice.families, evidence.choice.counted)


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
    evidence: FilterEvidence, numbers: results.FilterNumbers, options: FilterOptions, hidden: Pseudonyms
) -> results.FilterSummary:
    sets = evidence.sets
    return results.FilterSummary(
        names=set_names(sets, hidden.source(sets.candidates.name), hidden),
        shape=sets.train.images.shape[1:],
        numbers=numbers,
        setup=results.ScreeningSetup(
            features=described_detectors(evidence.opened),
            settings=results.ScreeningSettings(**fields_of(results.ScreeningSettings, options)),
            pseudonymised=options.pseudonymise,
            versions=versions(),
        ),
    )


def set_names(sets: FilterSets, synthetic: str, hidden: Pseudonyms) -> results.SetNames:
    """Name the sets as a report may.

    Args:
        sets: The images.
        synthetic: Name of the synthetic set in the report.
        hidden: Pseudonyms, which replace the names of the real sets or leave them.
    """
    calibration = "" if sets.calibration is None else hidden.source(sets.calibration.manifest.name)
    return results.SetNames(
        training=hidden.source(sets.train.manifest.name), synthetic=synthetic, calibration=calibration
    )


def described_detectors(opened: Sequence[ScreeningDetector]) -> tuple[results.DetectorSummary, ...]:
    """Describe each detector as a report does."""
    return tuple(
        results.DetectorSummary(
            detector=one.name,
            sentence=one.train.described.sentence,
            compares=one.similarity.words,
            at_half=one.similarity.at_half,
            top=one.top,
            notes=notes_without_images(one.train),
        )
        for one in opened
    )
