"""A synthetic set without copies, drawn until it is full: ``memorisk synthesize``.

Generate, screen against the whole training set, reject, draw again; a ledger of everything; the kept set audited, which
decides the verdict. Paper 004, section 3.4; METHODS section 4, "Use" and "Guarantee".

Every block of images is written when it is screened, the kept set has its name only when it is whole, and
``synthesize.json`` is written last: after a kill at any point, the same command continues and ends at the same bytes.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.audits.compared_images import training_labels
from memorisk.audits.comparison.features import feature_identity
from memorisk.audits.comparison.sets import Source, source_name
from memorisk.audits.filter.choice import refuse_unaffordable
from memorisk.audits.filter.final_audit import audit_kept
from memorisk.audits.filter.result import KEPT, FinalAudit
from memorisk.audits.filter.run import kept_sha256
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.runner import REPORT, Audit, run_audit
from memorisk.audits.synthesize.analysis import (
    REJECTED,
    LoopEvidence,
    analyse_loop,
    bound_copies,
    drawn_image_names,
    filter_evidence,
    kept_table,
    rejected_pairs,
    undrawn_evidence,
)
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.loop import Loop, read_loop
from memorisk.audits.synthesize.loop_quality import table_three_row
from memorisk.audits.synthesize.options import SynthesizeOptions, synthesize_options
from memorisk.audits.synthesize.page import loop_page
from memorisk.audits.synthesize.plan import SynthesizePlan, describe_loop
from memorisk.audits.synthesize.rounds import LoopFolders, run_rounds
from memorisk.audits.synthesize.table_three import COMPLETION_FILE
from memorisk.audits.synthesize.verdict import is_hopeless, rejection_words
from memorisk.images.alterations.plants import planted_kinds
from memorisk.images.clean_set import CLEAN_MANIFEST as LABEL_TABLE
from memorisk.images.clean_set import manifest_bytes
from memorisk.models.generators.generators import Generator, load_generator
from memorisk.report.page import render_page
from memorisk.report.quantities import opening
from memorisk.report.result import Result, refuse_changed
from memorisk.report.verdict_forms import refuse_other_form, verdict_form
from memorisk.runs.environment import check_device
from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, MemoriskError, one_line
from memorisk.runs.files import fsync_folder, write_bytes, write_json, write_table, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.tables import write_csv
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.features.compute_backend import ComputeBackend, open_compute_backend
from memorisk.training.generators.draws import image_name

MANIFEST, LEDGER = "manifest", "ledger"
_ROUNDS, _BUILDING, _OLD = "rounds", ".kept.building", ".kept.old"


@takes_settings(SynthesizeOptions)
def synthesize(
    train: Source,
    out: str | Path,
    *,
    generator: str | Path | Generator,
    calibration: Source | None = None,
    progress: Progress = no_progress,
    dry_run: bool = False,
    **settings: Any,
) -> Result | SynthesizePlan:
    """Draw images until the requested number pass the detectors, and audit what was kept.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, file of
            arrays, a manifest or a store; or a DataFrame, arrays or a data set of torch or of Hugging Face.
        out: The folder for the kept set, the ledger and the report: new, empty, or one of the same loop to continue.
        generator: A folder of ``memorisk train generator``, ``module:function``, or what `load_generator` gave.
        calibration: Real images of people that neither the generator nor a detector has seen; the held-out people of
            the audit.
        progress: Called with (stage, done, total).
        dry_run: Draw one batch, calibrate, count, and return what could be promised; nothing is written.
        **settings: Any field of `SynthesizeOptions`.

    Returns:
        The result, which is also saved in ``out``, with the status of the audit, whose run is ``out/audit``; or the
        plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: The disk is full, or the generator failed; what is done is kept.

    Example:
        >>> result = synthesize("train/", "out/", generator="g/", detector="d/", calibration="new/")  # doctest: +SKIP
        >>> result.verdict["n_kept"], result.verdict["copies"]["share"]  # doctest: +SKIP
    """
    calibration_name = {} if calibration is None else {"calibration": source_name(calibration)}
    generator_name = str(generator) if isinstance(generator, str | Path) else generator.config.name
    options = synthesize_options(settings | calibration_name | {"generator": generator_name})
    named = isinstance(generator, str | Path)
    opened = load_generator(generator, python_path=options.python_path) if named else generator
    sources = {"TRAIN": train, "the calibration images": calibration}
    audit = LoopAudit(Path(out), options, {"train": source_name(train)}, sources, dry_run, generator=opened)
    return run_audit(audit, progress)


@dataclass
class LoopAudit(Audit[Loop, Loop, Result]):
    """Drawing of a set that passes the detectors, with the audit of what it keeps."""

    kind = "synthesize"
    options: SynthesizeOptions
    generator: Generator = field(kw_only=True)

    @property
    def places(self) -> Mapping[str, Any]:
        """Return the sources, of which manifests have a place, too."""
        return self.sources

    def read(self, names: Pseudonyms, progress: Progress) -> Loop:
        """Read the images, and open detectors and the generator's draws."""
        train, calibration = self.sources.values()
        return read_loop(train, self.generator, calibration, self.options, progress)

    def workplace(self, progress: Progress) -> AbstractContextManager[ComputeBackend]:
        """Open this machine or the cluster, for a dry run, too, which calibrates there."""
        self.options.reach_cluster()
        return open_compute_backend(
            self.options, self.options.store, self.out, device=str(check_device(self.options.device))
        )

    def plan(self, inputs: Loop, place: ComputeBackend, progress: Progress) -> SynthesizePlan:
        """Calibrate, and return what could be promised."""
        return describe_loop(inputs.calibrated_at(place, progress))

    def collect(self, inputs: Loop, place: ComputeBackend, progress: Progress) -> Loop:
        """Compute the thresholds; passes and searches are at the workplace."""
        loop = inputs.calibrated_at(place, progress)
        if loop.calibrated.choice is not None:
            refuse_unaffordable(loop.calibrated.choice, loop.calibrated.opened)
        return loop

    def identity(self, evidence: Loop) -> dict[str, Any]:
        """Return generator, images, features and settings."""
        return _identity(evidence)

    def finished(self, run: RunFolder) -> Result | None:
        """Return a finished loop: its kept images may be in use and are not drawn again; a lost report is written."""
        if not (run / COMPLETION_FILE).is_file():
            return None
        _clear(run)
        refuse_changed(run.path, "draw again into a new --out")
        result = Result.load(run.path)
        refuse_other_form(one_line(run.path), self.kind, verdict_form(result.verdict))
        if not (run / REPORT).is_file():
            write_text(run / REPORT, render_page(loop_page(result, redact=result.redacted)))
        return result

    def write(self, run: RunFolder, evidence: Loop, names: Pseudonyms, progress: Progress) -> Result:
        """Draw, judge, audit, write."""
        with _disk_errors(self.out):
            return _loop(run, evidence, names, progress)


@contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    """Say of a full disk that it is full, and where; of a torn array NumPy counts numbers, and gives no errno.

    Raises:
        MemoriskError: No space is left.
    """
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK_CODES or (error.errno is None and " requested and " in str(error)):
            what = f"images and tables in {one_line(out)}"
            raise MemoriskError(f"no space left on the disk for {what}: free some; {RESUME_HINT}") from None
        raise


def _loop(run: RunFolder, loop: Loop, names: Pseudonyms, progress: Progress) -> Result:
    """Draw, judge, audit, write; the file that says that all is there is the last."""
    options, seal, evidence = loop.options, None, undrawn_evidence(loop)
    if loop.calibrated.choice is not None:
        ledger = _draw(run, loop, progress)
        filtered, row = filter_evidence(loop, ledger), table_three_row(loop, ledger, progress)
        _put_in_place(run, loop, ledger)
        seal = {"folder": KEPT, "sha256": kept_sha256(run.path)}  # before it is audited: a change since then shows
        filtered = replace(filtered, audited=_audit(run, loop, ledger, progress))
        evidence = LoopEvidence(loop, filtered, ledger, bound_copies(ledger, options), row)
    result = analyse_loop(evidence, names)
    result.save(run.path)
    _write_tables(run, result)
    pictures = None
    if options.gallery and not options.redact and evidence.ledger is not None:
        pictures = rejected_pairs(loop, evidence.ledger, result, drawn_image_names(evidence, names))
    write_text(run / REPORT, render_page(loop_page(result, pictures, redact=options.redact)))
    write_json(run / COMPLETION_FILE, result.verdict | {"kept": seal}, recorded=True)
    _clear(run)
    return result


def _draw(run: RunFolder, loop: Loop, progress: Progress) -> Ledger:
    """Draw, screen and draw again."""
    rejected, new = run.subfolder(REJECTED) if loop.options.keep_rejected else None, loop.calibrated.new
    progress(opening(describe_loop(loop, timed=False)), 0, 0)
    places = LoopFolders(run.subfolder(_ROUNDS), _kept_folder(run), rejected)
    if new is not None and is_hopeless(new):
        run.log("warned", what=rejection_words(new, "patients"))
    return run_rounds(loop, places, progress)


def _kept_folder(run: RunFolder) -> Path:
    """Open the folder of kept images, under a name of its own until all of them are there."""
    if (run / KEPT).is_dir() and not (run / _BUILDING).exists():
        (run / KEPT).rename(run / _BUILDING)  # killed after it was named, before the run was finished
    return run.subfolder(_BUILDING)


def _put_in_place(run: RunFolder, loop: Loop, ledger: Ledger) -> None:
    """Write the labels of training classes next to the images (`images.clean_set`), and give the folder its name."""
    images = ledger.plan.iloc[ledger.kept]
    if len(images):
        labels = training_labels(images["class"].tolist(), loop.sets.train.manifest.labels.tolist())
        write_bytes(run / _BUILDING / LABEL_TABLE, manifest_bytes(_kept_files(images), labels))
    (run / _BUILDING).rename(run / KEPT)
    fsync_folder(run.path)


def _clear(run: RunFolder) -> None:
    """Remove what a killed loop continues from: the run is finished."""
    shutil.rmtree(run / _ROUNDS, ignore_errors=True)


def _audit(run: RunFolder, loop: Loop, ledger: Ledger, progress: Progress) -> FinalAudit | None:
    """Audit the kept set; None where nothing was kept."""
    images, sets = ledger.plan.iloc[ledger.kept], loop.sets
    if not len(images):
        return None
    train_images = set(map(str, sets.train.manifest.images))
    pairs = zip(_kept_files(images), map(str, images["source"]), strict=True)
    sources = {file: source for file, source in pairs if source in train_images}
    return audit_kept(run.path, sets, loop.options, loop.auditors, progress, sources)


def _kept_files(images: pd.DataFrame) -> list[str]:
    """Name the files of kept images."""
    return [f"{image_name(int(number))}.png" for number in images["number"]]


def _write_tables(run: RunFolder, result: Result) -> None:
    """Write the ledger and the manifest of the kept set, as Parquet and as CSV."""
    images = kept_table(result)
    for name, table in ((LEDGER, result.per_image), (MANIFEST, images)):
        write_table(run / f"{name}.parquet", table, recorded=True)
        write_csv(run / f"{name}.csv", table)


def _identity(loop: Loop) -> dict[str, Any]:
    """Return the settings and inputs that a later command may not change in a run folder."""
    options, calibrated = loop.options, loop.calibrated
    batch = {"threads": options.threads} if loop.device == "cpu" else {"batch": options.batch}
    how = {name: value for name, value in asdict(options.sampling()).items() if name != "batch"}
    calibration = loop.sets.calibration
    return {
        "generator": loop.generator.source,
        "training": loop.train.data_hash,
        "calibration": None if calibration is None else calibration.data_hash,
        "images": options.images,
        "balance": options.balance,
        "paired": options.paired,
        "most_tries": options.most_tries,
        "keep_rejected": options.keep_rejected,
        "sampling": how,
        **batch,
        "device": loop.device.partition(":")[0],
        "detectors": [detector.name for detector in loop.detectors],
        "features": [feature_identity(one.train.described) for one in calibrated.opened],
        "families": [family.words for family in (calibrated.choice or loop.candidates).families],
        "miss_rate": options.miss_rate,
        "confidence": options.confidence,
        "threshold": list(options.threshold),
        "thresholds": [float(value) for value in loop.thresholds],
        "auditors": list(loop.auditors),
        "plant_kinds": list(planted_kinds(options.plant_kinds)),
        "quality": loop.quality.name,
        "seed": options.seed,
        "pseudonymise": options.pseudonymise,
        **({} if loop.sets.others is None else {"further_parts": loop.sets.others.data_hash}),
    }
