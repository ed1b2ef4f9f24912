"""A synthetic set without what a detector takes for copies, with a guarantee: ``memorisk filter``.

METHODS section 4, "Use" and "Guarantee": every synthetic image against the whole training set, rejected from a
threshold on that misses no more than a stated share of copies, with a stated confidence.

Features are kept by content and pairs come from the seed, so that the same command goes on where a killed one stopped;
the kept set has its name only when it is whole, and ``filter.json`` is written last.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from memorisk.audits.file_listing import FILES, write_listing
from memorisk.audits.filter.analysis import FilterEvidence, analyse_filter
from memorisk.audits.filter.calibrating import calibrate, counted_guarantees, guaranteed_thresholds
from memorisk.audits.filter.cost import diversity, real_share, synthetic_share
from memorisk.audits.filter.deciding import decide
from memorisk.audits.filter.families import Family, parse_families
from memorisk.audits.filter.kept import KEPT, KeptRows, kept_sha256, remove_kept, write_kept
from memorisk.audits.filter.measuring import open_all, open_detectors
from memorisk.audits.filter.options import FilterOptions, filter_options
from memorisk.audits.filter.page import filter_page
from memorisk.audits.filter.pictures import closest_pairs
from memorisk.audits.filter.plan import FilterPlan, describe_sets
from memorisk.audits.filter.screening import screen
from memorisk.audits.filter.sets import CALIBRATION, SYNTHETIC, TRAIN, FilterSets, decode, read_manifests
from memorisk.audits.generated.image_sets import Source
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.manifest import Manifest
from memorisk.images.overlap import refuse_overlap
from memorisk.images.store import ImageStore
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.devices import check_device
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import RunFolder, check_out, open_run
from memorisk.runs.formats.csv_tables import write_csv
from memorisk.runs.progress import Progress, quiet
from memorisk.statistics.pairs.guarantee import MissGuarantee
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.engine.workplace import open_workplace

REPORT, FINISHED = "report.html", "filter.json"
MANIFEST = "manifest"


def filter_synthetic(
    train: Source,
    synthetic: str | Path | Manifest,
    out: str | Path,
    *,
    calibration: Source | None = None,
    progress: Progress = quiet,
    dry_run: bool = False,
    **settings: Any,
) -> Result | FilterPlan:
    """Write the synthetic images that no detector takes for a copy of a training image, with a guarantee or not at all.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, arrays, a manifest or a store.
        synthetic: The images it made: a folder, a table, .npy or .npz, or their manifest.
        out: The folder for the kept set and the report: new, empty, or one of the same filter to write again.
        calibration: Real images of people whom neither the generator nor a detector has seen.
        progress: Called with (stage, done, total).
        dry_run: Decode the images, count, and return what could be promised, without features.
        **settings: Any field of `FilterOptions`; ``detector`` is needed.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: The disk is full, or synthetic images changed meanwhile; features that are done are kept.

    Example:
        >>> result = filter_synthetic("train/", "made/", "out/", detector="d/", calibration="new/")  # doctest: +SKIP
        >>> result.verdict["guarantee"], result.verdict["n_kept"]  # doctest: +SKIP
    """
    options = filter_options(settings | ({} if calibration is None else {"calibration": source_name(calibration)}))
    families, detectors = parse_families(options.families), open_detectors(options)
    folder = Path(out)
    refuse_overlap(folder, {"TRAIN": train, "SYNTHETIC": synthetic, "the calibration images": calibration})
    if not dry_run:
        check_out(folder, {}, identity=[])
        options.reach_cluster()
    names = Pseudonyms.from_options(options)
    found = read_manifests(train, synthetic, calibration, options, progress)
    sets = decode(found, detectors, options, progress)
    counted = counted_guarantees(sets, families, len(detectors), options)
    if dry_run:
        return describe_sets(sets, detectors, families, counted)
    with open_workplace(options, options.store, folder, device=str(check_device(options.device))) as workplace:
        working = [detector.working_at(workplace) for detector in detectors]
        evidence = gather(sets, working, families, counted, options, progress)
    config = {"train": source_name(train), "synthetic": source_name(synthetic), "out": str(folder), **asdict(options)}
    names = names.knowing(config, "train")
    with open_run(folder, names.settings(config | {"run": _identity(evidence, options)}), identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        result = _write(run, evidence, options, names, progress)
        run.log("finished", status=result.status)
    return result


def gather(
    sets: FilterSets,
    detectors: list[PairDetector],
    families: tuple[Family, ...],
    counted: list[MissGuarantee],
    options: FilterOptions,
    progress: Progress,
) -> FilterEvidence:
    """Thresholds, scores, decisions and cost; nothing is computed where there can be no threshold.

    Args:
        sets: The images.
        detectors: What compares them.
        families: What the guarantee is about.
        counted: Whether there are enough identities for it.
        options: What was asked for.
        progress: Called with (stage, done, total).

    Raises:
        InputError: Features cannot be had.
    """
    if not options.threshold and not all(found.kept for found in counted):
        return FilterEvidence(sets, detectors, families, counted, decide(sets, None))
    opened = open_all(detectors, sets, options, progress)
    calibrated = calibrate(opened, sets, families, options, progress)
    if options.threshold:
        pairs = zip(options.thresholds, opened, strict=True)
        thresholds = [o.similarity.at_half if value is None else value for value, o in pairs]
    else:
        thresholds = guaranteed_thresholds(calibrated, len(opened))
    screened = screen(opened, sets, thresholds, options, progress)
    decision = decide(sets, screened)
    real, rejected = real_share(screened, sets, options.seed)
    spread = diversity(screened, decision.of_readable(len(sets.synthetic.images)), sets, options.seed)
    made = synthetic_share(screened)
    return FilterEvidence(
        sets, detectors, families, counted, decision, opened, calibrated, screened, made, real, rejected, spread
    )


def _write(
    run: RunFolder,
    evidence: FilterEvidence,
    options: FilterOptions,
    names: Pseudonyms,
    progress: Progress,
) -> Result:
    """Tables, report, kept set, and last the file that says that all of it is there."""
    (run / FINISHED).unlink(missing_ok=True)
    result = analyse_filter(evidence, options, names)
    sets = evidence.sets
    write_listing(run.path, {TRAIN: sets.train, SYNTHETIC: sets.synthetic, CALIBRATION: sets.calibration}, names)
    result.save(run.path, beside=(FILES,))
    _write_manifest(run, evidence, result, names)
    pictures = closest_pairs(evidence.sets, result, names) if options.gallery and not options.redact else None
    write_text(run / REPORT, render_page(filter_page(result, pictures, redact=options.redact)))
    written = _keep(run, evidence, options, names, progress)
    write_json(run / FINISHED, result.verdict | {"kept": written})
    return result


def _keep(
    run: RunFolder, evidence: FilterEvidence, options: FilterOptions, names: Pseudonyms, progress: Progress
) -> dict[str, Any] | None:
    """Write the kept set and say what it is, or see to it that there is none."""
    if evidence.screened is None:
        remove_kept(run.path)
        return None
    write_kept(run.path, evidence.sets, evidence.decision, options.of_synthetic(), names, progress)
    return {"folder": KEPT, "sha256": kept_sha256(run.path)}


def _write_manifest(run: RunFolder, evidence: FilterEvidence, result: Result, names: Pseudonyms) -> None:
    """Write a row a synthetic image, with its file in the kept set, as Parquet and as CSV."""
    files = KeptRows.of(evidence.sets, evidence.decision, names).files
    known = dict(zip(names.names(evidence.sets.asked.images), files, strict=True))
    table = result.per_image.assign(file=[known.get(image, "") for image in result.per_image["image"]])
    write_table(run / f"{MANIFEST}.parquet", table)
    write_csv(run / f"{MANIFEST}.csv", table)


def source_name(source: Source) -> str:
    """How a source is called in ``config.yaml``."""
    if isinstance(source, ImageStore):
        return source.manifest.name
    return source.name if isinstance(source, Manifest) else str(source)


def _identity(evidence: FilterEvidence, options: FilterOptions) -> dict[str, Any]:
    """What makes this run this run."""
    sets = evidence.sets
    features = [
        {k: getattr(o.train.described, k) for k in ("encoder", "weights_fingerprint", "preprocessing", "precision")}
        for o in evidence.opened
    ]
    return {
        "audit": "filter",
        "training": sets.train.data_hash,
        "synthetic": sets.synthetic.data_hash,
        "unreadable": len(sets.unread),
        "calibration": None if sets.calibration is None else sets.calibration.data_hash,
        "detectors": [detector.name for detector in evidence.detectors],
        "features": features,
        "families": [family.words for family in evidence.families],
        "miss_rate": options.miss_rate,
        "confidence": options.confidence,
        "threshold": list(options.threshold),
        "seed": options.seed,
        "pseudonymise": options.pseudonymise,
    }
