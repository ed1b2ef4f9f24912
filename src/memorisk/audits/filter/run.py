"""A synthetic set without what a detector takes for copies, with a guarantee, and audited: ``memorisk filter``.

METHODS section 4, "Use" and "Guarantee": every synthetic image is compared with the whole training set, and
rejected from a threshold on that misses no more than a stated share of copies, with a stated confidence.

Features are kept by content and pairs come from the seed, so that the same command continues where a killed one
stopped. The kept set has its name only when it is whole, and ``filter.json`` is written last.

The kept set is PNG files of the decoded pixels and a table of labels, no more (`images.clean_set`). The
pixels are checked to be those that were compared. Each image gets a number for a name, in the order of the ids that
the run shows; ``manifest`` of the run says which image that is. The audit of that folder decides the verdict
(`audits.filter.final_audit`).

The dry run (``--dry-run``) says what a filter would compare and could promise, what its audit would take, and what
would keep a pass away, before any feature is computed.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from memorisk.audits.compared_images import training_labels
from memorisk.audits.comparison.features import display_names, feature_identity
from memorisk.audits.comparison.pictures import closest_pairs
from memorisk.audits.comparison.sets import Source, source_name
from memorisk.audits.comparison.terms import Terms
from memorisk.audits.filter.analysis import FilterEvidence, analyse_filter
from memorisk.audits.filter.choice import (
    Candidates,
    Choice,
    choose_families,
    choose_thresholds,
    count_candidates,
    refuse_unaffordable,
    why_unaffordable,
)
from memorisk.audits.filter.decisions import Decision, decide_kept
from memorisk.audits.filter.final_audit import audit_kept, auditor_names, plan_audit
from memorisk.audits.filter.options import FilterOptions, filter_options
from memorisk.audits.filter.page import cost_table, filter_page
from memorisk.audits.filter.result import KEPT, Exclusions, FamilyCost, FamilyCount
from memorisk.audits.filter.screening import open_detectors, open_screening, screen
from memorisk.audits.filter.sets import FilterSets, decode_sets, open_manifests
from memorisk.audits.filter.wording import excluded_words
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.run_images import SYNTHETIC, TRAIN, parts_of, write_manifests
from memorisk.audits.runner import REPORT, run_audit
from memorisk.audits.set_audit import SetAudit
from memorisk.audits.synthetic.run import SyntheticPlan
from memorisk.images.alterations.plants import planted_kinds
from memorisk.images.clean_set import clean_names, write_clean_set
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import PixelRule
from memorisk.images.store import ImageStore, manifest_sources
from memorisk.images.store_writer import process_count
from memorisk.report.blocks import Table
from memorisk.report.numbers import INLINE
from memorisk.report.page import render_page
from memorisk.report.quantities import Quantity
from memorisk.report.result import Result
from memorisk.runs.checksums import files_below, listed_checksum, remove_recorded
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.tables import write_csv
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.features.compute_backend import ComputeBackend
from memorisk.training.features.extraction import dimension, features_cost, passes_per_image


class CalibrationPlan:
    """Words and tables on the calibration that a plan counts."""

    exclusions: Exclusions
    detectors: tuple[str, ...]
    costs: tuple[FamilyCost, ...]

    @property
    def excluded(self) -> Annotated[list[str], Quantity("calibration")]:
        """Name the identities that do not calibrate, or look alike."""
        return excluded_words(self.exclusions, Terms("patients"))

    @property
    def unaffordable(self) -> Annotated[str, Quantity("no promise")]:
        """Say why no family can be promised; empty where one can, or none was tried."""
        return why_unaffordable(self.costs, self.detectors)

    @property
    def tables(self) -> list[Table]:
        """Show what the threshold of each family leaves out."""
        return [cost_table(self.costs)] if self.costs else []


@dataclass(frozen=True)
class FilterPlan(CalibrationPlan):
    """Plan of a command.

    Attributes:
        images: Number of images in each set; of synthetic ones, those that could be read.
        unreadable: Number of synthetic images that could not be read, and will be rejected.
        patients: Number of training and of calibration patients, or of images where no patients are given.
        exclusions: Calibration identities that are not new, are counted once, or look alike.
        detectors: Names of the detectors that compare images.
        families: Families of copies that can be promised: identities there are, needed and missing for the guarantee.
        costs: Cost of each family that was tried: its threshold, what this leaves out of new people and of the
            synthetic images, and whether it is promised; none where identities are missing or a threshold was given.
        missing: Number of identities that are missing for the guarantee; 0 where it can be given.
        audited_by: Detectors of the audit of the kept set.
        lacking: Reasons why that audit cannot pass, whatever is kept.
        cost: Passes, bytes and pairs, with those of the audit, as if every image were kept. An image that reaches the
            threshold is compared with all training images once more, so that the number of pairs is only a bound.
        notes: Sentences on what was assumed or left out.
    """

    images: Annotated[dict[str, int], Quantity("images", opening=1)]
    unreadable: Annotated[int, Quantity("unreadable synthetic images, rejected")]
    patients: Annotated[dict[str, int], Quantity("patients")]
    exclusions: Annotated[Exclusions, INLINE]
    detectors: Annotated[tuple[str, ...], Quantity("detector")]
    families: Annotated[tuple[FamilyCount, ...], Quantity("copies")]
    costs: tuple[FamilyCost, ...]
    missing: Annotated[int, Quantity("identities missing for the guarantee", opening=3)]
    audited_by: Annotated[str, Quantity("kept images audited by")]
    lacking: Annotated[tuple[str, ...], Quantity("no pass", opening=4)]
    cost: Annotated[Cost, Quantity("work", opening=2)]
    notes: Annotated[tuple[str, ...], Quantity("note")]


def describe_sets(
    sets: FilterSets,
    detectors: Sequence[PairDetector],
    candidates: Candidates,
    audit: SyntheticPlan,
    costs: tuple[FamilyCost, ...] = (),
) -> FilterPlan:
    """Count what there is and say whether the guarantee can be given.

    Args:
        sets: Sets, decoded.
        detectors: Detectors that compare images.
        candidates: Kinds of copies, and how many identities there are and are needed, of each.
        audit: Plan of the audit of the kept set.
        costs: Cost of each family's threshold.
    """
    families, counted = candidates.families, candidates.counted
    stores = {"training": sets.train, "synthetic": sets.synthetic, "calibration": sets.calibration}
    n = {what: 0 if store is None else len(store.images) for what, store in stores.items()}
    return FilterPlan(
        images=n,
        unreadable=len(sets.unread),
        patients={
            what: 0 if store is None else len(np.unique(store.manifest.groups.astype(str)))
            for what, store in stores.items()
            if what != "synthetic"
        },
        exclusions=sets.exclusions,
        detectors=display_names(detectors),
        families=tuple(
            FamilyCount(family=f.words, identities=c.n_identities, needed=c.needed, missing=c.missing)
            for f, c in zip(families, counted, strict=True)
        ),
        costs=costs,
        missing=max((guarantee.missing for guarantee in counted), default=0),
        audited_by=audit.features,
        lacking=audit.lacking,
        cost=total([*(_cost_of(detector, sets, candidates.n_copies) for detector in detectors), audit.cost])
        + Cost(bytes_images=sets.decoded),
        notes=sets.notes,
    )


def _cost_of(detector: PairDetector, sets: FilterSets, copies: int) -> Cost:
    """Count the work of one detector: features of all images and calibrating copies, and its comparisons."""
    stores = [store for store in (sets.train, sets.synthetic, sets.calibration) if store is not None]
    asking = sum(len(store.images) for store in stores[1:])
    return encoding_cost(detector, stores, sets.train, copies) + Cost(
        pairs=3 * asking * len(sets.train.images),  # best matches for the choice and the decision, and other matches
        at_most=("images_passed", "pairs"),
    )


def encoding_cost(detector: PairDetector, stores: Sequence[ImageStore | None], train: ImageStore, more: int) -> Cost:
    """Count the features of images that there are, and of so many that are made.

    Args:
        detector: Detector that computes the features.
        stores: Images that there are.
        train: Training images, which have the form of all.
        more: Number of images that are made.
    """
    shape, hashes = train.images.shape, [store.pixel_hashes for store in stores if store is not None]
    d = dimension(detector.source, shape, detector.detector)
    return features_cost(detector.source, hashes, shape, detector.detector) + Cost(
        images_passed=passes_per_image(detector.source) * more,
        bytes_features=None if d is None else _FLOAT32 * d * more,
    )


_FLOAT32 = 4  # bytes
_UNFINISHED = (".kept.building", ".kept.old")


@dataclass(frozen=True)
class KeptRows:
    """The kept images in the order in which they are written."""

    rows: np.ndarray
    """Rows of the kept images among all synthetic images."""
    files: np.ndarray
    """File name of every synthetic image, [N], empty for those that are not kept."""

    @classmethod
    def of(cls, sets: FilterSets, decision: Decision, names: Pseudonyms) -> "KeptRows":
        """Number the kept images by the ids that the run shows, which tell nothing of hidden ones."""
        rows = np.flatnonzero(decision.kept)
        rows = rows[np.argsort(names.names(sets.candidates.images[rows]).astype(str), kind="stable")]
        files = np.full(sets.candidates.n, "", dtype=object)
        files[rows] = clean_names(len(rows))
        return cls(rows, files)


def write_kept(
    out: Path, sets: FilterSets, decision: Decision, options: ImageOptions, names: Pseudonyms, progress: Progress
) -> None:
    """Write the kept images to ``out/kept``, replacing what an earlier run left there.

    Args:
        out: The run folder, held by this process.
        sets: The images.
        decision: Decision on which images are kept.
        options: Options by which the synthetic images were read.
        names: Pseudonyms of the ids that the run shows.
        progress: Called with (stage, done, total).

    Raises:
        MemoriskError: No space is left, or an image is not what it was when it was decoded.
        InputError: A file cannot be read, or has colours of 16 bits.
    """
    rows = KeptRows.of(sets, decision, names).rows
    sources = manifest_sources(sets.candidates.subset(rows))
    write_clean_set(
        out / KEPT,
        sources,
        training_labels(sets.candidates.labels[rows].tolist(), sets.train.manifest.labels.tolist()),
        PixelRule.of(options),
        audited=sets.synthetic.pixel_hashes[decision.place[rows]].tolist(),
        processes=process_count(None, sources),
        progress=partial(progress, "writing kept images"),
    )


def kept_sha256(out: Path) -> str:
    """Compute what identifies the kept set as it was written: a statement of the run compares the folder with it.

    Args:
        out: The run folder.
    """
    return listed_checksum(out / KEPT, files_below(out / KEPT)).sha256


def remove_kept(out: Path) -> None:
    """Remove a kept set and what is left of unfinished ones."""
    for name in (KEPT, *_UNFINISHED):
        shutil.rmtree(out / name, ignore_errors=True)


COMPLETION_FILE, MANIFEST = "filter.json", "manifest"


@takes_settings(FilterOptions)
def filter_synthetic(
    train: Source,
    synthetic: str | Path | Manifest,
    out: str | Path,
    *,
    calibration: Source | None = None,
    progress: Progress = no_progress,
    dry_run: bool = False,
    **settings: Any,
) -> Result | FilterPlan:
    """Write the synthetic images that no detector takes for a copy of a training image, and audit what was written.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, file of
            arrays, a manifest or a store; or a DataFrame, arrays or a data set of torch or of Hugging Face.
        synthetic: The images it made: a folder, a table, .npy or .npz, or their manifest.
        out: The folder for the kept set and the report: new, empty, or one of the same filter to write again.
        calibration: Real images of people that neither the generator nor a detector has seen; the held-out people of
            the audit.
        progress: Called with (stage, done, total).
        dry_run: Return what could be promised and what that costs; nothing is written but features in the cache, which
            the run uses later.
        **settings: Any field of `FilterOptions`.

    Returns:
        The result, which is also saved in ``out``, with the status of the audit, whose run is ``out/audit``; or the
        plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: The disk is full, or synthetic images changed meanwhile; features that are done are kept.

    Example:
        >>> result = filter_synthetic("train/", "made/", "out/", detector="d/", calibration="new/")  # doctest: +SKIP
        >>> result.status, result.verdict["guarantee"], result.verdict["n_kept"]  # doctest: +SKIP
    """
    options = filter_options(settings | ({} if calibration is None else {"calibration": source_name(calibration)}))
    sources = {"TRAIN": train, "SYNTHETIC": synthetic, "the calibration images": calibration}
    named_sources = {"train": source_name(train), "synthetic": source_name(synthetic)}
    return run_audit(FilterAudit(Path(out), options, named_sources, sources, dry_run), progress)


@dataclass(frozen=True, eq=False)
class _FilterInputs:
    """Images, what compares them, and the audit of what will be kept."""

    sets: FilterSets
    detectors: list[PairDetector]
    candidates: Candidates
    audit: SyntheticPlan


class FilterAudit(SetAudit[_FilterInputs, FilterEvidence, Result]):
    """Filter of a set of generated images, with the audit of what it keeps."""

    kind = "filter"
    options: FilterOptions

    @property
    def places(self) -> Mapping[str, Any]:
        """Return the sources, of which manifests have a place, too."""
        return self.sources

    def read(self, names: Pseudonyms, progress: Progress) -> _FilterInputs:
        """Decode the images, count the identities, and plan the audit of the kept set."""
        options, (train, synthetic, calibration) = self.options, self.sources.values()
        detectors = open_detectors(options)
        self.auditors = auditor_names(options, detectors)
        opened = open_manifests(train, synthetic, calibration, options, progress)
        sets = decode_sets(opened, detectors, progress, calibration_unseen=options.calibration_unseen)
        candidates = count_candidates(sets, len(detectors), options)
        audit = plan_audit(sets, sets.synthetic, options, self.auditors, progress)
        return _FilterInputs(sets, detectors, candidates, audit)

    def plan(self, inputs: _FilterInputs, place: ComputeBackend, progress: Progress) -> FilterPlan:
        """Compute what could be promised and what that costs."""
        sets, detectors, candidates, options = inputs.sets, inputs.detectors, inputs.candidates, self.options
        costs = ()
        if candidates.enough and not options.threshold:
            opened = open_screening(detectors, sets, options, progress)
            costs = choose_families(opened, sets, candidates, options, progress).costs
        return describe_sets(sets, detectors, candidates, inputs.audit, costs)

    def open_with(self, inputs: _FilterInputs, place: ComputeBackend, progress: Progress) -> FilterPlan:
        """Return the plan without the thresholds, which take as long as the filter."""
        return describe_sets(inputs.sets, inputs.detectors, inputs.candidates, inputs.audit)

    def collect(self, inputs: _FilterInputs, place: ComputeBackend, progress: Progress) -> FilterEvidence:
        """Compute thresholds, scores and decisions."""
        working = [detector.working_at(place) for detector in inputs.detectors]
        return gather_evidence(inputs.sets, working, inputs.candidates, self.options, progress)

    def identity(self, evidence: FilterEvidence) -> dict[str, Any]:
        """Return images, features and settings."""
        sets, options = evidence.sets, self.options
        return {
            "training": sets.train.data_hash,
            "synthetic": sets.synthetic.data_hash,
            "unreadable": len(sets.unread),
            "calibration": None if sets.calibration is None else sets.calibration.data_hash,
            "detectors": [detector.name for detector in evidence.detectors],
            "features": [feature_identity(one.train.described) for one in evidence.opened],
            "families": [family.words for family in evidence.choice.families],
            "miss_rate": options.miss_rate,
            "confidence": options.confidence,
            "threshold": list(options.threshold),
            "auditors": list(self.auditors),
            "plant_kinds": list(planted_kinds(options.plant_kinds)),
            "seed": options.seed,
            "pseudonymise": options.pseudonymise,
            **({} if sets.others is None else {"further_parts": sets.others.data_hash}),
        }

    def write(self, run: RunFolder, evidence: FilterEvidence, names: Pseudonyms, progress: Progress) -> Result:
        """Write the kept set, its audit, tables and report, and last the file that says that all of it is there."""
        remove_recorded(run / COMPLETION_FILE)
        sets, options = evidence.sets, self.options
        written = _write_kept_set(run, evidence, options, names, progress)
        if evidence.decision.kept.any():
            audited = audit_kept(run.path, sets, options, self.auditors, progress)
            evidence = replace(evidence, audited=audited)
        result = analyse_filter(evidence, options, names)
        result.save(run.path)
        _write_manifest(run, evidence, result, names)
        stores = {TRAIN: sets.train, SYNTHETIC: sets.synthetic}
        write_manifests(run, stores, names)
        parts = parts_of(stores, names)
        pictures = closest_pairs(result, parts) if options.gallery and not options.redact else None
        write_text(run / REPORT, render_page(filter_page(result, pictures, redact=options.redact)))
        write_json(run / COMPLETION_FILE, result.verdict | {"kept": written}, recorded=True)
        return result


def gather_evidence(
    sets: FilterSets,
    detectors: list[PairDetector],
    candidates: Candidates,
    options: FilterOptions,
    progress: Progress,
) -> FilterEvidence:
    """Compute thresholds, scores, decisions and cost; nothing where there can be no threshold.

    Args:
        sets: The images.
        detectors: Detectors that compare the images.
        candidates: Families that the guarantee can cover, and whether there are enough identities for them.
        options: Options of the run.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features are not available.
    """
    if not options.threshold and not candidates.enough:
        choice = Choice(candidates.families, candidates.counted)
        return FilterEvidence(sets, detectors, choice, decide_kept(sets, None))
    opened = open_screening(detectors, sets, options, progress)
    choice = choose_thresholds(opened, sets, candidates, options, progress)
    refuse_unaffordable(choice, opened)
    screened = screen(opened, sets, choice.thresholds, progress)
    decision, n = decide_kept(sets, screened), len(sets.synthetic.images)
    chosen = {"before": np.arange(n), "kept": np.flatnonzero(decision.of_readable(n))}
    evidence = FilterEvidence(sets, detectors, choice, decision)
    return evidence.with_screening(opened, screened, chosen, options.seed)


def _write_kept_set(
    run: RunFolder, evidence: FilterEvidence, options: FilterOptions, names: Pseudonyms, progress: Progress
) -> dict[str, Any] | None:
    """Write the kept set and return its record, or remove the kept set of an earlier run."""
    if evidence.screened is None:
        remove_kept(run.path)
        return None
    write_kept(run.path, evidence.sets, evidence.decision, options.of_synthetic(), names, progress)
    return {"folder": KEPT, "sha256": kept_sha256(run.path)}


def _write_manifest(run: RunFolder, evidence: FilterEvidence, result: Result, names: Pseudonyms) -> None:
    """Write a row for each synthetic image, with its file in the kept set, as Parquet and as CSV."""
    files = KeptRows.of(evidence.sets, evidence.decision, names).files
    file_of = dict(zip(names.names(evidence.sets.candidates.images), files, strict=True))
    table = result.per_image.assign(file=[file_of.get(image, "") for image in result.per_image["image"]])
    write_table(run / f"{MANIFEST}.parquet", table, recorded=True)
    write_csv(run / f"{MANIFEST}.csv", table)
