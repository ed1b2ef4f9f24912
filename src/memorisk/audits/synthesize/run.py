"""A synthetic set without copies, drawn until it is full: ``memorisk synthesize``.

Generate, screen against the whole training set, reject, draw again; a ledger of everything; the kept set audited, which
decides the verdict. Paper 004, section 3.4; METHODS section 4, "Use" and "Guarantee".

Every block of images is written when it is screened, the kept set has its name only when it is whole, and
``synthesize.json`` is written last: after a kill at any point, the same command continues and ends at the same bytes.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.audits.comparison.sets import Source, source_name
from memorisk.audits.filter.analysis import FilterEvidence
from memorisk.audits.filter.choice import (
    Candidates,
    Choice,
    choose_thresholds,
    count_candidates,
    refuse_unaffordable,
)
from memorisk.audits.filter.decisions import Decision, real_share
from memorisk.audits.filter.final_audit import audit_kept, auditor_names
from memorisk.audits.filter.result import KEPT, FinalAudit
from memorisk.audits.filter.run import kept_sha256
from memorisk.audits.filter.screening import (
    Matches,
    Screening,
    ScreeningDetector,
    matches,
    open_detectors,
    open_screening,
)
from memorisk.audits.filter.sets import FilterSets
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
)
from memorisk.audits.synthesize.ledger import Ledger
from memorisk.audits.synthesize.loop_quality import table_three_row
from memorisk.audits.synthesize.options import SynthesizeOptions, synthesize_options
from memorisk.audits.synthesize.page import loop_page
from memorisk.audits.synthesize.plan import SynthesizePlan, describe_loop, plan_loop_audit
from memorisk.audits.synthesize.rounds import DrawScreening, LoopFolders, run_rounds
from memorisk.audits.synthesize.sets import RealSets, read_real
from memorisk.audits.synthesize.table_three import COMPLETION_FILE
from memorisk.audits.synthesize.verdict import is_hopeless, rejection_words
from memorisk.audits.synthetic.run import SyntheticPlan
from memorisk.images.alterations.plants import planted_kinds
from memorisk.images.clean_set import CLEAN_MANIFEST as LABEL_TABLE
from memorisk.images.clean_set import manifest_bytes
from memorisk.images.copies.near_copies import SamePixels
from memorisk.images.store import ImageStore, store_of_pixels
from memorisk.models.generators.generators import Generator, load_generator
from memorisk.report.earlier_verdicts import refuse_other_form, verdict_form
from memorisk.report.page import render_page
from memorisk.report.result import Result, refuse_changed
from memorisk.runs.environment import check_device
from memorisk.runs.errors import FULL_DISK_CODES, RESUME_HINT, InputError, MemoriskError, one_line
from memorisk.runs.files import fsync_folder, write_bytes, write_json, write_table, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.tables import write_csv
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.intervals import Proportion
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector
from memorisk.training.features.compute_backend import ComputeBackend, open_compute_backend
from memorisk.training.generators.draws import image_name, plan_draws
from memorisk.training.generators.generation import check_drawing

MANIFEST, LEDGER = "manifest", "ledger"
_ROUNDS, _BUILDING, _OLD = "rounds", ".kept.building", ".kept.old"


@dataclass(frozen=True, eq=False)
class _LoopInputs:
    """Inputs of a command, read and opened."""

    options: SynthesizeOptions
    generator: Generator
    plan: pd.DataFrame
    real: RealSets
    detectors: list[PairDetector]
    candidates: Candidates
    auditors: tuple[str, ...]
    """Names of the detectors that audit the kept set."""
    audit: SyntheticPlan
    """Plan of that audit, as if every place were filled."""
    auditor: PairDetector | None
    """The one that was named."""
    quality: PairDetector
    device: str


@dataclass(frozen=True, eq=False)
class _Calibration:
    """The detectors at work, with their thresholds."""

    opened: Sequence[ScreeningDetector] = ()
    choice: Choice | None = None
    """Families that are promised, and the cost of each candidate; None where identities are missing."""
    thresholds: Sequence[float] = ()
    beside: tuple[Matches, ...] = ()
    """Matches of the calibration images, by detector."""
    new: Proportion | None = None
    """Share of new people that the thresholds reject."""


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
class LoopAudit(Audit[_LoopInputs, tuple[_LoopInputs, _Calibration], Result]):
    """Drawing of a set that passes the detectors, with the audit of what it keeps."""

    kind = "synthesize"
    options: SynthesizeOptions
    generator: Generator = field(kw_only=True)

    @property
    def places(self) -> Mapping[str, Any]:
        """Return the sources, of which manifests have a place, too."""
        return self.sources

    def read(self, names: Pseudonyms, progress: Progress) -> _LoopInputs:
        """Read the images, and open detectors and the generator's draws."""
        train, calibration = self.sources.values()
        return _read_inputs(train, self.generator, calibration, self.options, progress)

    def workplace(self, progress: Progress) -> AbstractContextManager[ComputeBackend]:
        """Open this machine or the cluster, for a dry run, too, which calibrates there."""
        self.options.reach_cluster()
        return open_compute_backend(
            self.options, self.options.store, self.out, device=str(check_device(self.options.device))
        )

    def plan(self, inputs: _LoopInputs, place: ComputeBackend, progress: Progress) -> SynthesizePlan:
        """Calibrate, and return what could be promised."""
        inputs = _working_at(place, inputs)
        calibration = _calibrate(inputs, progress)
        costs = () if calibration.choice is None else calibration.choice.costs
        return describe_loop(
            inputs.generator, inputs.plan, inputs.real, inputs.detectors, inputs.candidates, costs, calibration.new,
            inputs.options, inputs.device, inputs.auditor, inputs.quality, inputs.audit,
        )  # fmt: skip

    def collect(
        self, inputs: _LoopInputs, place: ComputeBackend, progress: Progress
    ) -> tuple[_LoopInputs, _Calibration]:
        """Compute the thresholds; passes and searches are at the workplace."""
        working = _working_at(place, inputs)
        calibration = _calibrate(working, progress)
        if calibration.choice is not None:
            refuse_unaffordable(calibration.choice, calibration.opened)
        return working, calibration

    def identity(self, evidence: tuple[_LoopInputs, _Calibration]) -> dict[str, Any]:
        """Return generator, images, features and settings."""
        return _identity(*evidence)

    def finished(self, run: RunFolder) -> Result | None:
        """Return a finished loop: its kept images may be in use and are not drawn again."""
        if not (run / COMPLETION_FILE).is_file():
            return None
        _clear(run)
        refuse_changed(run.path, "draw again into a new --out")
        result = Result.load(run.path)
        refuse_other_form(one_line(run.path), self.kind, verdict_form(result.verdict))
        return result

    def write(
        self, run: RunFolder, evidence: tuple[_LoopInputs, _Calibration], names: Pseudonyms, progress: Progress
    ) -> Result:
        """Draw, judge, audit, write."""
        with _disk_errors(self.out):
            return _loop(run, *evidence, names, progress)


def _working_at(workplace: ComputeBackend, inputs: _LoopInputs) -> _LoopInputs:
    """Return the inputs with the detectors' passes and searches at another workplace."""
    detectors = [detector.working_at(workplace) for detector in inputs.detectors]
    return replace(inputs, detectors=detectors, quality=inputs.quality.working_at(workplace))


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


def _read_inputs(
    train: Source,
    generator: Generator,
    calibration: Source | None,
    options: SynthesizeOptions,
    progress: Progress,
) -> _LoopInputs:
    """Read, and refuse, everything that can be refused before anything is drawn.

    Raises:
        InputError: It is.
    """
    detectors = open_detectors(options)
    auditors = auditor_names(options, detectors)
    auditor = None if options.auditor is None else open_pair_detector(options.auditor)
    quality = open_pair_detector(options.quality) if options.quality else auditor or detectors[0]
    if quality.source.kind == "saved":
        raise InputError(f"quality {quality.name} holds saved features, of other images: name what computed them")
    device = str(check_device(options.device))
    plan = plan_draws(generator, options.images, seed=options.seed, balance=options.balance, paired=options.paired)
    check_drawing(generator, plan, options, device)
    real = read_real(train, calibration, generator, detectors, options, progress)
    audit = plan_loop_audit(real, len(plan), options, auditors, progress)
    candidates = count_candidates(real.filter, len(detectors), options)
    return _LoopInputs(options, generator, plan, real, detectors, candidates, auditors, audit, auditor, quality, device)


def _calibrate(inputs: _LoopInputs, progress: Progress) -> _Calibration:
    """Compute thresholds as a filter does; none, and nothing is computed, where there can be no guarantee."""
    options, sets = inputs.options, inputs.real.filter
    if not options.threshold and not inputs.candidates.enough:
        return _Calibration()
    opened = open_screening(inputs.detectors, sets, options, progress)
    choice, thresholds = choose_thresholds(opened, sets, inputs.candidates, options, progress)
    undrawn = tuple(replace(cost, synthetic=None) for cost in choice.costs)  # the sets hold one blank image for all
    choice = replace(choice, costs=undrawn)
    if not thresholds:
        return _Calibration(opened, choice)
    calibration = sets.calibration
    beside = () if calibration is None else matches(opened, calibration, sets, thresholds, options, progress)
    return _Calibration(
        opened, choice, thresholds, beside, new_patient_rejection(thresholds, beside, sets, options.seed)
    )


def _loop(run: RunFolder, inputs: _LoopInputs, limits: _Calibration, names: Pseudonyms, progress: Progress) -> Result:
    """Draw, judge, audit, write; the file that says that all is there is the last."""
    options, real = inputs.options, inputs.real
    seal = None
    evidence = LoopEvidence(inputs.generator.config, inputs.generator.source, real.doubts, _empty_evidence(inputs))
    if limits.choice is not None:
        ledger = _draw(run, inputs, limits, progress)
        filtered = filter_evidence(
            ledger, real.filter, inputs.detectors, limits.choice, limits.opened, limits.thresholds, limits.beside,
            options.seed,
        )  # fmt: skip
        row = table_three_row(
            ledger, real.filter.train, real.filter.calibration, inputs.generator.config, limits.opened,
            limits.thresholds, inputs.auditor, inputs.quality, options, progress,
        )  # fmt: skip
        _put_in_place(run, ledger)
        seal = {"folder": KEPT, "sha256": kept_sha256(run.path)}  # before it is audited: a change since then shows
        filtered = replace(filtered, audited=_audit(run, inputs, ledger, progress))
        copies = bound_copies(ledger, options)
        evidence = replace(evidence, filtered=filtered, ledger=ledger, copies=copies, table_three=row)
    result = analyse_loop(evidence, options, names)
    result.save(run.path)
    _write_tables(run, result)
    pictures = None
    if options.gallery and not options.redact and evidence.ledger is not None:
        drawn_names = drawn_image_names(evidence, names)
        pictures = rejected_pairs(
            result, evidence.ledger, real.filter, real.form, inputs.generator, drawn_names, options, inputs.device
        )
    write_text(run / REPORT, render_page(loop_page(result, pictures, redact=options.redact)))
    write_json(run / COMPLETION_FILE, result.verdict | {"kept": seal}, recorded=True)
    _clear(run)
    return result


def _empty_evidence(inputs: _LoopInputs) -> FilterEvidence:
    """Return the evidence of a loop that may not begin, since identities are missing."""
    sets, n = inputs.real.filter, np.empty(0, dtype=np.int64)
    pixels = np.zeros((0, *sets.train.images.shape[1:]), np.uint8)
    none = store_of_pixels(pixels, sets.train, "drawn images")
    sets = replace(sets, synthetic=none, asked=none.manifest)
    candidates, nothing = inputs.candidates, Decision(n, np.empty(0, dtype=object))
    return FilterEvidence(sets, inputs.detectors, candidates.families, candidates.counted, nothing)


def _draw(run: RunFolder, inputs: _LoopInputs, calibration: _Calibration, progress: Progress) -> Ledger:
    """Draw, screen and draw again."""
    options, real = inputs.options, inputs.real
    rejected = run.subfolder(REJECTED) if options.keep_rejected else None
    places = LoopFolders(run.subfolder(_ROUNDS), _kept_folder(run), rejected)
    screen = DrawScreening(calibration.opened, real.filter, calibration.thresholds, real.form, inputs.quality, options)
    if calibration.new is not None and is_hopeless(calibration.new):
        run.log("warned", what=rejection_words(calibration.new, "patients"))
    return run_rounds(inputs.generator, inputs.plan, screen, places, inputs.device, calibration.new, progress)


def _kept_folder(run: RunFolder) -> Path:
    """Open the folder of kept images, under a name of its own until all of them are there."""
    if (run / KEPT).is_dir() and not (run / _BUILDING).exists():
        (run / KEPT).rename(run / _BUILDING)  # killed after it was named, before the run was finished
    return run.subfolder(_BUILDING)


def _put_in_place(run: RunFolder, ledger: Ledger) -> None:
    """Write the labels next to the kept images (`images.clean_set`), and give the folder its name."""
    images = ledger.plan.iloc[ledger.kept]
    if len(images):
        write_bytes(run / _BUILDING / LABEL_TABLE, manifest_bytes(_kept_files(images), images["class"].tolist()))
    (run / _BUILDING).rename(run / KEPT)
    fsync_folder(run.path)


def _clear(run: RunFolder) -> None:
    """Remove what a killed loop continues from: the run is finished."""
    shutil.rmtree(run / _ROUNDS, ignore_errors=True)


def _audit(run: RunFolder, inputs: _LoopInputs, ledger: Ledger, progress: Progress) -> FinalAudit | None:
    """Audit the kept set; None where nothing was kept."""
    images, sets = ledger.plan.iloc[ledger.kept], inputs.real.filter
    if not len(images):
        return None
    train_images = set(map(str, sets.train.manifest.images))
    pairs = zip(_kept_files(images), map(str, images["source"]), strict=True)
    sources = {file: source for file, source in pairs if source in train_images}
    return audit_kept(run.path, sets.train, sets.calibration, inputs.options, inputs.auditors, progress, sources)


def _kept_files(images: pd.DataFrame) -> list[str]:
    """Name the files of kept images."""
    return [f"{image_name(int(number))}.png" for number in images["number"]]


def _write_tables(run: RunFolder, result: Result) -> None:
    """Write the ledger and the manifest of the kept set, as Parquet and as CSV."""
    images = kept_table(result)
    for name, table in ((LEDGER, result.per_image), (MANIFEST, images)):
        write_table(run / f"{name}.parquet", table, recorded=True)
        write_csv(run / f"{name}.csv", table)


def _identity(inputs: _LoopInputs, calibration: _Calibration) -> dict[str, Any]:
    """Return the settings and inputs that a later command may not change in a run folder."""
    options, real = inputs.options, inputs.real
    features = [
        {k: getattr(o.train.described, k) for k in ("encoder", "weights_fingerprint", "preprocessing", "precision")}
        for o in calibration.opened
    ]
    batch = {"threads": options.threads} if inputs.device == "cpu" else {"batch": options.batch}
    how = {name: value for name, value in asdict(options.sampling()).items() if name != "batch"}
    stores: Mapping[str, ImageStore | None] = {
        "training": real.filter.train, "calibration": real.filter.calibration
    }  # fmt: skip
    return {
        "generator": inputs.generator.source,
        **{name: None if store is None else store.data_hash for name, store in stores.items()},
        "images": options.images,
        "balance": options.balance,
        "paired": options.paired,
        "most_tries": options.most_tries,
        "keep_rejected": options.keep_rejected,
        "sampling": how,
        **batch,
        "device": inputs.device.partition(":")[0],
        "detectors": [detector.name for detector in inputs.detectors],
        "features": features,
        "families": [
            family.words
            for family in (inputs.candidates if calibration.choice is None else calibration.choice).families
        ],
        "miss_rate": options.miss_rate,
        "confidence": options.confidence,
        "threshold": list(options.threshold),
        "thresholds": [float(value) for value in calibration.thresholds],
        "auditors": list(inputs.auditors),
        "plant_kinds": list(planted_kinds(options.plant_kinds)),
        "quality": inputs.quality.name,
        "seed": options.seed,
        "pseudonymise": options.pseudonymise,
    }


def new_patient_rejection(
    thresholds: Sequence[float], matches: tuple[Matches, ...], sets: FilterSets, seed: int
) -> Proportion | None:
    """Return the share of new patients whose real image would be rejected, as `audits.filter.decisions.real_share`.

    Args:
        thresholds: Threshold of each detector.
        matches: Matches of the calibration images, by detector; none without them.
        sets: Sets that give the patients.
        seed: Seed from which the image of each patient is drawn.

    Returns:
        Share with its interval; None without calibration images.
    """
    if not matches:
        return None
    nothing = SamePixels(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return real_share(Screening(tuple(thresholds), (), matches, nothing), sets, seed)[0]
