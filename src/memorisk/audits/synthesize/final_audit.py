"""The kept set, audited by a detector that took no part in choosing it: METHODS section 5, and one test of it all."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.classifier.options import ReportOptions
from memorisk.audits.synthesize.drawn import store_of_drawn, store_of_hashes
from memorisk.audits.synthesize.options import SynthesizeOptions
from memorisk.audits.synthetic.audit import audit_synthetic
from memorisk.audits.synthetic.plan import SyntheticPlan
from memorisk.images.options import ImageOptions
from memorisk.images.store import ImageStore
from memorisk.models.detectors.detectors import WEIGHTS
from memorisk.report.frames import numbers, rows, texts
from memorisk.report.result import Result
from memorisk.runs.cost import Cost
from memorisk.runs.errors import InputError
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.fingerprint import file_fingerprint
from memorisk.runs.progress import Progress
from memorisk.statistics.copies.nearer_set import NearerSet, nearer_set
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

AUDIT = "audit"
NEARER_LEVEL = 0.01
"""The kept set is nearer to training patients than to held-out ones where the one-sided test says so at this level."""


@dataclass(frozen=True)
class Audited:
    """What the auditor found."""

    auditor: str
    """As a report shows it."""
    status: str
    """Of the audit: pass, fail or undecided."""
    why: tuple[str, ...]
    """Its reasons."""
    n_listed: int
    """Training patients that it lists."""
    n_certain: int
    """Of whom an image was copied for certain: by its pixels, or a person's word."""
    nearer: NearerSet
    """All training patients against all held-out ones."""

    @property
    def clean(self) -> bool:
        """Whether nobody is flagged, and the set is no nearer to training patients as a whole."""
        return self.status != "fail" and not self.n_listed and self.nearer.p_value > NEARER_LEVEL

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self) | {"clean": self.clean, "folder": AUDIT}


def open_auditor(options: SynthesizeOptions, detectors: list[PairDetector]) -> PairDetector | None:
    """The auditor, or None where none is asked for.

    Raises:
        InputError: There is no such detector, or it chooses the images itself.
    """
    if options.auditor is None:
        return None
    auditor = open_pair_detector(options.auditor)
    if auditor.source.kind == "saved":
        raise InputError(f"auditor {auditor.name} holds saved features, of other images: name what computed them")
    for detector in detectors:
        if _identity(auditor) == _identity(detector):
            raise InputError(
                f"--auditor {auditor.name} is --detector {detector.name}, which chooses the images itself: give one of "
                "the two another detector"
            )
    return auditor


def _identity(detector: PairDetector) -> Any:
    """What makes two detectors one, whatever their folders are called."""
    if detector.source.kind == "detector":
        return file_fingerprint(Path(detector.source.name) / WEIGHTS)
    return detector.source


def audit_kept(
    out: Path, train: ImageStore, kept: ImageStore, held: ImageStore, options: SynthesizeOptions, progress: Progress
) -> Audited:
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
    return said_by(result)


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
    """Of the audit of so many kept images, all of them different; their pixels lie in the run folder while it lasts.

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
    """What the audit is told."""
    shared = {
        f.name: getattr(options, f.name) for kind in (ImageOptions, ReportOptions, ClusterOptions) for f in fields(kind)
    }
    more = ("seed", "device", "precision", "one_image_per_patient", "plant_kinds")
    return shared | {name: getattr(options, name) for name in more} | {"detector": (str(options.auditor),)}


def said_by(result: Result) -> Audited:
    """What an audit with held-out images says of its set."""
    v, real = result.verdict, result.tables["real_images"]
    part = np.array(texts(real, "part"))
    sides = [rows(real, part == name) for name in ("training", "held out")]
    distance = [numbers(side, "distance") for side in sides]
    group = [np.array(texts(side, "group")) for side in sides]
    return Audited(
        auditor=str(v["detectors"][0]),
        status=result.status,
        why=tuple(str(why) for why in v["why"]),
        n_listed=int(v["n_listed"] or 0),
        n_certain=int(v["n_certain_patients"]),
        nearer=nearer_set(*distance, *group),
    )
