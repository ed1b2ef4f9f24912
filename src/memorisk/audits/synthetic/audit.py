"""Is anybody copied in a set of synthetic images? ``memorisk audit synthetic``.

METHODS section 5: real images ask the synthetic set for their nearest image, and training patients are ranked among
patients whom the generator never saw; known copies, hidden in the set, say what would have been found.

Features are kept by content and plants come from the seed, so that the same command goes on where a killed one stopped;
those of the training images are an atlas that the audit of another set finds again.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from memorisk.audits.file_listing import FILES, write_listing
from memorisk.audits.generated.image_sets import Source
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.analysis import analyse_synthetic
from memorisk.audits.synthetic.comparing import compare, compare_pixels
from memorisk.audits.synthetic.evidence import SyntheticEvidence, View
from memorisk.audits.synthetic.hidden import draw_plants, hide, no_plants
from memorisk.audits.synthetic.knowledge import detector_notes
from memorisk.audits.synthetic.measuring import (
    can_plant,
    fit_similarity,
    measure_features,
    open_detectors,
    shown_names,
)
from memorisk.audits.synthetic.options import SyntheticOptions, synthetic_options
from memorisk.audits.synthetic.page import synthetic_page
from memorisk.audits.synthetic.pairing import Pairing, read_pairing
from memorisk.audits.synthetic.pictures import Pictures, pair_pictures
from memorisk.audits.synthetic.plan import SyntheticPlan, describe_sets
from memorisk.audits.synthetic.reviewing import NOTHING, Review, read_review, write_review
from memorisk.audits.synthetic.sets import HELD_OUT, SYNTHETIC, TRAIN, Sets, decode, read_manifests
from memorisk.audits.synthetic.spreads import logit_spread
from memorisk.images.copies.planting import KINDS
from memorisk.images.manifest import Manifest
from memorisk.images.overlap import named_sources, refuse_overlap
from memorisk.images.store import ImageStore
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.devices import check_device
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_table, write_text
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.folder import RunFolder, check_out, open_run
from memorisk.runs.progress import Progress, quiet
from memorisk.scores.similarity import HeadSimilarity
from memorisk.training.detectors.pair_detectors import PairDetector
from memorisk.training.engine.workplace import open_workplace

REPORT = "report.html"
MANIFESTS: Mapping[str, str] = {TRAIN: "training", SYNTHETIC: "synthetic", HELD_OUT: "held_out"}


def audit_synthetic(
    train: Source,
    synthetic: Source,
    *,
    out: str | Path,
    held_out: Source | None = None,
    progress: Progress = quiet,
    dry_run: bool = False,
    **settings: Any,
) -> Result | SyntheticPlan:
    """Audit whether synthetic images copy the patients that their generator was trained on.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, arrays, a manifest or a store.
        synthetic: The images it made, all that are to be released.
        out: The run folder: new, empty, or one of the same audit to write again.
        held_out: Images of patients that it never saw, a random part of the same data; None for distances only.
        progress: Called with (stage, done, total).
        dry_run: Decode the images, count, and return what could be said, without features or distances.
        **settings: Any field of `SyntheticOptions`.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: The disk is full; features that are done are kept.

    Example:
        >>> result = audit_synthetic("train/", "synthetic/", held_out="test/", out="runs/s")  # doctest: +SKIP
        >>> result.per_group.query("listed")  # doctest: +SKIP
    """
    options = synthetic_options(settings | ({} if held_out is None else {"held_out": _name(held_out)}))
    folder = Path(out)
    given = {"TRAIN": train, "SYNTHETIC": synthetic, "the held-out images": held_out}
    refuse_overlap(folder, named_sources(given))
    if not dry_run:
        check_out(folder, {}, identity=[])
        options.reach_cluster()
    names = Pseudonyms.from_options(options)
    found = read_manifests(train, synthetic, held_out, options, progress)
    sets = decode(found, options, progress)
    detectors = open_detectors(options, sets)
    for detector in detectors:
        detector_notes(detector, sets)
    pairing, review = read_pairing(options.paired, sets, options.seed), read_review(options.review, sets, names)
    if dry_run:
        return describe_sets(sets, options, review)
    config = {"train": _name(train), "synthetic": _name(synthetic), "out": str(folder), **asdict(options)}
    device = str(check_device(options.device))
    with open_workplace(options, options.store, folder, device=device) as workplace:
        working = tuple(detector.working_at(workplace) for detector in detectors)
        evidence = gather(sets, options, progress, detectors=working, pairing=pairing, review=review)
    names = names.knowing(config, "train")
    with open_run(folder, names.settings(config | {"run": _identity(evidence, options)}), identity=["run"]) as run:
        _log_start(run, evidence)
        _write_manifests(run, sets, names)
        progress("testing", 0, 0)
        result = analyse_synthetic(evidence, options, names)
        write_listing(run.path, {TRAIN: sets.train, SYNTHETIC: sets.synthetic, HELD_OUT: sets.held}, names)
        result.save(run.path, beside=(FILES,))
        asked = write_review(run.path, result.tables["review"])
        wanted = options.gallery and not options.redact
        pictures = pair_pictures(sets, result, names) if wanted else None
        write_report(run.path / REPORT, result, pictures=pictures, redact=options.redact)
        run.log("finished", status=result.status, review=None if asked is None else asked.name)
    return result


def gather(
    sets: Sets,
    options: SyntheticOptions,
    progress: Progress,
    *,
    detectors: tuple[PairDetector, ...] = (),
    pairing: Pairing | None = None,
    review: Review = NOTHING,
) -> SyntheticEvidence:
    """Hide the plants, compute features and all distances.

    Args:
        sets: The images.
        options: What compares them.
        progress: Called with (stage, done, total).
        detectors: Opened already; none to open what the options name.
        pairing: Who was generated from whom.
        review: What a person said of pairs.

    Raises:
        InputError: Features or the measure cannot be had.
    """
    detectors = detectors or open_detectors(options, sets)
    plants = no_plants(sets.train)
    if can_plant(options):
        progress("hiding known copies", 0, 0)
        plants = draw_plants(sets.train, sets.synthetic, options.plants, options.seed, options.kinds)
    hidden, device = hide(sets.synthetic, plants, options.seed), str(check_device(options.device))
    views = []
    for name, detector in zip(shown_names(detectors), detectors, strict=True):
        features = measure_features(detector, sets, hidden, options, progress)
        similarity = fit_similarity(detector, features, sets)
        distances = compare(features, similarity, sets, plants, progress, review=review, device=device)
        spread = logit_spread(similarity, features, sets) if isinstance(similarity, HeadSimilarity) else None
        views.append(View(name, features, similarity, distances, spread))
    copies = compare_pixels(sets, progress, review, plants)
    return SyntheticEvidence(sets, plants, tuple(views), copies, pairing, review)


def write_report(path: Path, result: Result, *, pictures: Pictures | None, redact: bool) -> None:
    """Render the report of a synthetic audit.

    Args:
        path: The file.
        result: Of `analyse_synthetic`.
        pictures: Pairs side by side; None for none.
        redact: Leave out ids and pictures.
    """
    write_text(path, render_page(synthetic_page(result, pictures, redact=redact)))


def _name(source: Source) -> str:
    """How a source is called in ``config.yaml``."""
    if isinstance(source, ImageStore):
        return source.manifest.name
    return source.name if isinstance(source, Manifest) else str(source)


def _identity(evidence: SyntheticEvidence, options: SyntheticOptions) -> dict[str, Any]:
    """What makes this run this run; a review of it may change."""
    sets, pairing = evidence.sets, evidence.pairing
    features = [
        {k: getattr(described, k) for k in ("encoder", "weights_fingerprint", "preprocessing", "precision")}
        for described in (view.features.described for view in evidence.views)
    ]
    measures = [view.measure for view in evidence.views]
    alone = len(features) == 1
    return {
        "audit": "synthetic",
        "training": sets.train.data_hash,
        "synthetic": sets.synthetic.data_hash,
        "held_out": None if sets.held is None else sets.held.data_hash,
        "features": features[0] if alone else features,
        "measure": measures[0] if alone else measures,
        "paired": None if pairing is None else fingerprint(pairing.synthetic, pairing.train),
        "plants": evidence.plants.n,
        "seed": options.seed,
        "level": options.level,
        "recall": options.recall,
        "pseudonymise": options.pseudonymise,
        **({} if options.kinds == tuple(KINDS) else {"plant_kinds": list(options.kinds)}),
    }


def _log_start(run: RunFolder, evidence: SyntheticEvidence) -> None:
    """What was computed, and what the atlas had already."""
    tables = {view.name: view.features for view in evidence.views}
    run.log(
        "started",
        versions=versions(),
        machine=machine(),
        features_computed=sum(found.computed for found in tables.values()),
        atlas={
            name: {"vectors": len(found.train), "dimension": found.train.shape[1], "computed": found.atlas_computed}
            for name, found in tables.items()
        },
    )


def _write_manifests(run: RunFolder, sets: Sets, names: Pseudonyms) -> None:
    """Who was compared, a file a set."""
    inner = run.subfolder("manifests")
    for what, store in ((TRAIN, sets.train), (SYNTHETIC, sets.synthetic), (HELD_OUT, sets.held)):
        path = inner / f"{MANIFESTS[what]}.parquet"
        if store is None:
            path.unlink(missing_ok=True)
        else:
            write_table(path, names.table(store.manifest.table))
