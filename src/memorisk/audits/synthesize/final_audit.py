"""The kept set, audited by a detector that took no part in choosing it: METHODS section 5, and one test of it all."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.synthesize.ledger import store_of_drawn, store_of_hashes
from memorisk.audits.synthesize.options import NEARER_LEVEL, SynthesizeOptions
from memorisk.audits.synthesize.result import FinalAudit
from memorisk.audits.synthetic.result import SyntheticSummary
from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
from memorisk.images.options import ImageOptions
from memorisk.images.store import ImageStore
from memorisk.models.provenance import WEIGHTS
from memorisk.report.columns import column_numbers, column_texts, rows
from memorisk.report.numbers import from_json
from memorisk.report.options import ReportOptions
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.files import file_fingerprint
from memorisk.runs.workload import Cost, Progress
from memorisk.statistics.copies.set_memorization import nearness_test
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

AUDIT = "audit"


def open_auditor(options: SynthesizeOptions, detectors: list[PairDetector]) -> PairDetector | None:
    """Open the auditor, or None where none is asked for.

    Raises:
        InputError: There is no such detector, or it chooses the images itself.
    """
    if options.auditor is None:
        return None
    auditor = open_pair_detector(options.auditor)
    if auditor.source.kind == "saved":
        raise InputError(f"auditor {auditor.name} holds saved features, of other images: name what computed them")
    for detector in detectors:
        if _detector_identity(auditor) == _detector_identity(detector):
            raise InputError(
                f"--auditor {auditor.name} is --detector {detector.name}, which chooses the images itself: give one of "
                "the two another detector"
            )
    return auditor


def _detector_identity(detector: PairDetector) -> Any:
    """Return what identifies a detector, whatever its folder is called."""
    if detector.source.kind == "detector":
        return file_fingerprint(detector.source.folder / WEIGHTS)
    return detector.source


def audit_kept(
    out: Path, train: ImageStore, kept: ImageStore, held: ImageStore, options: SynthesizeOptions, progress: Progress
) -> FinalAudit:
    """Audit the kept set into a folder of its own.

    Args:
        out: The run folder.
        train: Training images.
        kept: The images that passed; a column ``source`` names what they were conditioned on.
        held: Held-out images.
        options: The auditor, and what of people a report shows.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The auditor knows training patients and not held-out ones, or its features cannot be had.
    """
    paired = "source" if any(kept.manifest.table["source"].tolist()) else None
    how = _settings(options)
    result = audit_synthetic(train, kept, held_out=held, out=out / AUDIT, progress=progress, paired=paired, **how)
    assert isinstance(result, Result)
    return summarise_audit(result)


def check_audit(train: ImageStore, held: ImageStore, options: SynthesizeOptions, progress: Progress) -> None:
    """Refuse, before anything is drawn, what the audit would refuse.

    Args:
        train: Training images.
        held: Held-out images.
        options: The auditor.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The auditor knows training patients and not held-out ones, or parts that cannot be compared.
    """
    nothing = store_of_drawn(train, np.zeros((1, *train.images.shape[1:]), np.uint8), ["nothing"], [""], "nothing")
    audit_synthetic(train, nothing, held_out=held, out=AUDIT, progress=progress, dry_run=True, **_settings(options))


def audit_cost(train: ImageStore, held: ImageStore, n: int, options: SynthesizeOptions) -> Cost:
    """Count the work of auditing so many kept images, all different; the run folder holds their pixels meanwhile.

    Args:
        train: Training images.
        held: Held-out images.
        n: Kept images.
        options: The auditor.
    """
    blank, names = np.broadcast_to(np.uint8(0), (n, *train.images.shape[1:])), [f"kept {i}" for i in range(n)]
    some = store_of_hashes(train, blank, np.array(names, dtype=object), names, [""] * n, "kept images")
    plan = audit_synthetic(train, some, held_out=held, out=AUDIT, dry_run=True, **_settings(options))
    assert isinstance(plan, SyntheticPlan)
    return replace(plan.cost, bytes_images=0)


def _settings(options: SynthesizeOptions) -> dict[str, Any]:
    """Return the settings of the audit."""
    shared = {
        f.name: getattr(options, f.name) for kind in (ImageOptions, ReportOptions, ClusterOptions) for f in fields(kind)
    }
    more = ("seed", "device", "precision", "one_image_per_patient", "plant_kinds")
    return shared | {name: getattr(options, name) for name in more} | {"detector": (str(options.auditor),)}


def summarise_audit(result: Result) -> FinalAudit:
    """Summarise what an audit with held-out images says of its set."""
    numbers, real = from_json(SyntheticSummary, result.summary).numbers, result.tables["real_images"]
    part = np.array(column_texts(real, "part"))
    sides = [rows(real, part == name) for name in ("training", "held out")]
    distance = [column_numbers(side, "distance") for side in sides]
    group = [np.array(column_texts(side, "group")) for side in sides]
    n_listed = 0 if numbers.listing is None else numbers.listing.n_listed_patients
    nearer = nearness_test(*distance, *group)
    return FinalAudit(
        auditor=numbers.comparison.detectors[0],
        status=result.status,
        why=tuple(result.why),
        n_listed=n_listed,
        n_certain=numbers.pixels.n_certain_patients,
        nearer=nearer,
        clean=result.status != "fail" and not n_listed and nearer.p_value > NEARER_LEVEL,
        folder=AUDIT,
    )
