"""The audit of the kept set: ``memorisk audit synthetic`` of ``OUT/kept``, in ``OUT/audit``. Its verdict is the run's.

The people who calibrate are its held-out patients. The threshold is one number, an order statistic over all of them,
and images are rejected for being near training images alone: that moves the kept set away from training patients, and
towards no other person, so that the ranks of training patients among the calibration people keep their level
(`tests/audits/filter/test_final_audit.py` counts it; people of their own would cost half of both samples).

What a detector overlooked when it chose, it overlooks again when it audits. So a detector that took no part audits;
where ``default`` chose, by whole images, its windows and the details of thumbnails took none.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from memorisk.audits.comparison.sets import manifest_of, read_source
from memorisk.audits.filter.options import ScreeningOptions
from memorisk.audits.filter.result import AUDIT, KEPT, FinalAudit
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.audits.synthetic.result import SyntheticSummary
from memorisk.audits.synthetic.run import SyntheticPlan, audit_parts
from memorisk.images.options import ImageOptions
from memorisk.images.store import ImageStore
from memorisk.models.provenance import WEIGHTS
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.report.numbers import from_json
from memorisk.report.options import ReportOptions
from memorisk.report.result import Result
from memorisk.runs.checksums import SEAL, file_sha256
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import file_fingerprint
from memorisk.runs.settings import fields_of
from memorisk.runs.workload import Cost, Progress, no_progress
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

_SHARED = ("seed", "device", "precision", "one_image_per_patient", "plant_kinds")


def auditor_names(options: ScreeningOptions, choosing: list[PairDetector]) -> tuple[str, ...]:
    """Name the detectors of the audit.

    Args:
        options: Options, which may name a detector for the audit.
        choosing: The detectors that choose the images.

    Raises:
        InputError: The one that is named does not exist, holds saved features, or chooses the images itself.
    """
    if options.auditor is None:
        return (DEFAULT_DETECTOR,)
    identities = [_identity(detector) for detector in choosing]
    auditor = open_pair_detector(options.auditor)
    if auditor.source.kind == "saved":
        raise InputError(f"auditor {auditor.name} holds saved features, of other images: name what computed them")
    if (own := _identity(auditor)) in identities:
        raise InputError(
            f"--auditor {auditor.name} is --detector {choosing[identities.index(own)].name}, which chooses the images "
            "itself: give one of the two another detector"
        )
    return (options.auditor,)


def _identity(detector: PairDetector) -> Any:
    """Return what identifies a detector, whatever its folder is called."""
    if detector.source.kind == "detector":
        return file_fingerprint(detector.source.folder / WEIGHTS)
    return detector.source


def plan_audit(
    sets: FilterSets,
    candidates: ImageStore,
    options: ScreeningOptions,
    auditors: tuple[str, ...],
    progress: Progress = no_progress,
) -> SyntheticPlan:
    """Plan the audit as if all candidates were kept, and refuse what the audit would refuse.

    Args:
        sets: Images of real people.
        candidates: Images of which some are kept.
        options: Options by which images are read.
        auditors: Names of detectors.
        progress: Called with (stage, done, total).

    Raises:
        InputError: An auditor knows training patients and not new ones, or the parts cannot be compared.
    """
    settings = synthetic_options(audit_settings(options, int(sets.train.images.shape[3]), auditors))
    plan = audit_parts(
        sets.train, candidates, sets.calibration, sets.others, out=Path(AUDIT), options=settings, progress=progress,
        dry_run=True,
    )  # fmt: skip
    assert isinstance(plan, SyntheticPlan)
    at_most = ("images_passed", "bytes_images", "bytes_features", "pairs")
    counted = (sets.train, sets.calibration, sets.others)  # by the plan of the run that chooses
    more = (plan.cost.bytes_images or 0) - sum(store.images.nbytes for store in counted if store is not None)
    return replace(plan, cost=replace(plan.cost, bytes_images=more) + Cost(at_most=at_most))


def audit_kept(
    out: Path,
    sets: FilterSets,
    options: ScreeningOptions,
    auditors: tuple[str, ...],
    progress: Progress,
    sources: Mapping[str, str] | None = None,
) -> FinalAudit:
    """Audit the folder of kept images as it lies on the disk.

    Args:
        out: The run folder.
        sets: Images of real people.
        options: Options by which images are read, and which say what a report shows of people.
        auditors: Names of detectors.
        progress: Called with (stage, done, total).
        sources: Training image from whose condition each kept image was drawn, by the name of its file.

    Raises:
        InputError: Features are not available.
    """
    settings = synthetic_options(audit_settings(options, int(sets.train.images.shape[3]), auditors))
    source = read_source(out / KEPT, settings.of_synthetic())
    if sources:
        manifest = manifest_of(source)
        table = manifest.table.assign(source=[sources.get(image, "") for image in manifest.images])
        source, settings = replace(manifest, table=table), replace(settings, paired="source")
    result = audit_parts(
        sets.train, source, sets.calibration, sets.others, out=out / AUDIT, options=settings, progress=progress
    )
    assert isinstance(result, Result)
    return summarise_audit(result, file_sha256(out / AUDIT / SEAL))


def audit_settings(options: Any, channels: int, auditors: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of the audit: generated images are brought to the form of the training images.

    Args:
        options: Options of the run: those of images, reports and clusters, and any of `_SHARED` that it has.
        channels: Number of channels of the training images.
        auditors: Names of detectors.
    """
    shared = fields_of(ImageOptions, options) | fields_of(ReportOptions, options) | fields_of(ClusterOptions, options)
    named = {name: getattr(options, name) for name in _SHARED if hasattr(options, name)}
    return shared | named | {"detector": auditors, "channels": channels}


def summarise_audit(result: Result, sha256: str) -> FinalAudit:
    """Summarise what the audit says of the kept set.

    Args:
        result: Result of the audit.
        sha256: Checksum of the list of the audit's files.
    """
    numbers = from_json(SyntheticSummary, result.summary).numbers
    listing, aligned = numbers.listing, numbers.aligned
    return FinalAudit(
        detectors=numbers.comparison.detectors,
        status=result.status,
        reasons=tuple(result.reasons),
        what_would_decide=tuple(result.what_would_decide),
        id_doubt_codes=numbers.reading.ids.id_doubt_codes,
        n_listed_patients=None if listing is None else listing.n_listed_patients,
        n_singled_images=None if listing is None else listing.n_singled_images,
        n_confirmed_images=None if aligned is None or aligned.blind else aligned.n_confirmed_images,
        n_certain_patients=numbers.pixels.n_certain_patients,
        certain=bool(numbers.pixels.n_certain),
        folder=AUDIT,
        sha256=sha256,
    )
