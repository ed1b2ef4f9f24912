"""``memorisk quality``: figures of a set of synthetic images in any feature spaces, compared with held-out ones.

Quality says nothing about privacy: a set of copies has the best figures there are. `memorisk.statistics.quality`
defines the figures and the meaning of their intervals; this module decodes, computes features, and
writes. Features and trainings are kept, so that the same command continues where a killed one stopped.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from memorisk.audits.comparison.features import feature_identity
from memorisk.audits.comparison.options import check_saved_features
from memorisk.audits.comparison.sets import (
    Sets,
    Source,
    decode_sets,
    read_manifests,
    source_name,
)
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.quality.figures import QualityTable, measure_quality
from memorisk.audits.quality.options import AUTO, QualityOptions, quality_options
from memorisk.audits.quality.page import quality_page
from memorisk.audits.quality.result import Quality, QualityNumbers
from memorisk.audits.quality.transfer import (
    FOLDER,
    TransferData,
    check_transfer,
    prepare_transfer,
    run_transfer,
    transfer_cost,
)
from memorisk.audits.runner import REPORT, run_audit
from memorisk.audits.set_audit import SetAudit
from memorisk.images.identity import DoubtedIds
from memorisk.models.encoders.feature_sources import FeatureSource, parse_source
from memorisk.report.page import render_page
from memorisk.report.quantities import Quantity
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.settings import takes_settings
from memorisk.runs.workload import Cost, Progress, no_progress, total
from memorisk.training.features.compute_backend import ComputeBackend
from memorisk.training.features.extraction import features_cost
from memorisk.training.features.matrix import Features, load_features

AUTO_SIDE = 32
SUMMARY, TABLES = "quality.json", "tables"


@dataclass(frozen=True)
class QualityPlan:
    """Work that a command would do.

    Attributes:
        images: Number of images in each set.
        patients: Numbers of training and of held-out patients.
        left_out: Held-out patients left out since an image of theirs is a training image.
        features: Names of the encoders that compute features.
        figures: Names of the figures that would be measured.
        n_reference: Number of images that the reference would be measured on.
        cost: Cost of features of every image, and of trainings of classifiers with their predictions.
        notes: Assumptions and omissions, one sentence for each.
    """

    images: Annotated[dict[str, int], Quantity("images", opening=1)]
    patients: Annotated[dict[str, int], Quantity("patients")]
    left_out: Annotated[int, Quantity("held-out patients left out, with a training image")]
    features: Annotated[tuple[str, ...], Quantity("features")]
    figures: Annotated[tuple[str, ...], Quantity("figure")]
    n_reference: Annotated[int, Quantity("held-out images as a reference", opening=3)]
    cost: Annotated[Cost, Quantity("work", opening=2)]
    notes: Annotated[tuple[str, ...], Quantity("note")]


@takes_settings(QualityOptions)
def assess_quality(
    train: Source,
    synthetic: Source,
    *,
    out: str | Path,
    held_out: Source | None = None,
    progress: Progress = no_progress,
    dry_run: bool = False,
    **settings: Any,
) -> Quality | QualityPlan:
    """Measure how good synthetic images are, in comparison with held-out real images.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, file of
            arrays, a manifest or a store; or a DataFrame, arrays or a data set of torch or of Hugging Face.
        synthetic: The images that the generator made.
        out: The run folder: new, empty, or this command's to write again.
        held_out: Images of patients that it never saw; None for figures without a reference.
        progress: Called with (stage, done, total).
        dry_run: Whether only to decode the images and count, without features or trainings.
        **settings: Any field of `QualityOptions`.

    Returns:
        The figures, also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: A training failed or the disk is full; what is done is kept.

    Example:
        >>> found = assess_quality("train/", "synthetic/", held_out="test/", out="runs/q")  # doctest: +SKIP
        >>> found.figures[["name", "estimate", "low", "high", "reference"]]  # doctest: +SKIP
    """
    options = quality_options(settings | ({} if held_out is None else {"held_out": source_name(held_out)}))
    sources = {"TRAIN": train, "SYNTHETIC": synthetic, "the held-out images": held_out}
    inputs = {"train": source_name(train), "synthetic": source_name(synthetic)}
    return run_audit(QualityAudit(Path(out), options, inputs, sources, dry_run), progress)


@dataclass(frozen=True, eq=False)
class _QualityInputs:
    """Sets of images and encoders to compare, read and checked."""

    sets: Sets
    spaces: list[FeatureSource]
    """Feature spaces of the figures."""
    transfer: TransferData | None
    """Images for classifiers; None where none are trained."""


@dataclass(frozen=True, eq=False)
class _QualityEvidence(_QualityInputs):
    """The same with the figures in each feature space, and features of the training images there."""

    tables: list[tuple[QualityTable, Features]]


class QualityAudit(SetAudit[_QualityInputs, _QualityEvidence, Quality]):
    """Figures of quality of a set of synthetic images."""

    kind = "quality"
    options: QualityOptions

    def read(self, names: Pseudonyms, progress: Progress) -> _QualityInputs:
        """Decode the images, and refuse feature spaces and classifiers that do not fit them."""
        options, (train, synthetic, held_out) = self.options, self.sources.values()
        held_out = options.held_out if held_out is None else held_out
        sets = decode_sets(read_manifests(train, synthetic, held_out, options, progress), progress)
        spaces = _sources(options, sets)
        transfer = None
        if options.classifier is not None:
            transfer = prepare_transfer(sets, options.seed)
            check_transfer(transfer, options)
        return _QualityInputs(sets, spaces, transfer)

    def plan(self, inputs: _QualityInputs, place: ComputeBackend, progress: Progress) -> QualityPlan:
        """Count images, and the work of features and trainings."""
        return _plan(inputs.sets, inputs.spaces, inputs.transfer, self.options)

    def open_with(self, inputs: _QualityInputs, place: ComputeBackend, progress: Progress) -> QualityPlan:
        """Return the whole plan, since it computes no features."""
        return self.plan(inputs, place, progress)

    def collect(self, inputs: _QualityInputs, place: ComputeBackend, progress: Progress) -> _QualityEvidence:
        """Compute features and figures."""
        tables = [_measure(space, inputs.sets, self.options, place, progress) for space in inputs.spaces]
        return _QualityEvidence(inputs.sets, inputs.spaces, inputs.transfer, tables)

    def identity(self, evidence: _QualityEvidence) -> dict[str, Any]:
        """Return the images, the features and the settings of figures and trainings."""
        options, sets = self.options, evidence.sets
        return {
            "training": sets.train.data_hash,
            "synthetic": sets.synthetic.data_hash,
            "held_out": None if sets.held is None else sets.held.data_hash,
            "features": [feature_identity(features.described) for _, features in evidence.tables],
            "figures": list(options.figures),
            "seed": options.seed,
            "level": options.level,
            "classifier": [options.classifier, options.classifier_epochs, options.classifier_seeds],
            "pseudonymise": options.pseudonymise,
        }

    def write(self, run: RunFolder, evidence: _QualityEvidence, names: Pseudonyms, progress: Progress) -> Quality:
        """Train the classifiers, if any, and write tables, the page and, last, the summary."""
        quality = _finish(run, evidence.sets, evidence.tables, evidence.transfer, self.options, progress)
        quality = _under_pseudonyms(quality, names)
        _write(run, quality)
        return quality


def _under_pseudonyms(found: Quality, names: Pseudonyms) -> Quality:
    """Hide the paths of feature files; notes name files and columns, and are left out."""
    if names.key is None:
        return found
    figures = found.figures.assign(features=[names.words(str(name)) for name in found.figures["features"]])
    return replace(found, figures=figures, described=names.words(found.described), notes=())


def _sources(options: QualityOptions, sets: Sets) -> list[FeatureSource]:
    """List the feature spaces, with ``auto`` settled.

    Raises:
        InputError: No such source exists, or files of features are given for some of the sets only.
    """
    side = max(sets.train.images.shape[1:3])
    default = f"pixels:{AUTO_SIDE}" if side > AUTO_SIDE else "pixels"
    sources = [parse_source(default if text == AUTO else text) for text in options.features]
    saved = [source for source in sources if source.kind == "saved"]
    if saved and len(sources) > 1:
        raise InputError("a file of features is used alone: leave the other features out")
    check_saved_features(options, saved=bool(saved), held_out=sets.held is not None)
    return sources


def _measure(
    source: FeatureSource, sets: Sets, options: QualityOptions, workplace: ComputeBackend, progress: Progress
) -> tuple[QualityTable, Features]:
    """Compute the figures in one feature space, and the training images' features."""
    if source.kind == "saved":
        train = load_features(sets.train, source)
        synthetic = load_features(sets.synthetic, Path(str(options.synthetic_features)))
        held = None
        if sets.held is not None:
            held = load_features(sets.held, options.held_out_features or Path(source.name))
    else:
        # what is fitted is fitted on both real parts, so that neither is nearer to it
        load = partial(
            load_features,
            source=source,
            reference=sets.real if source.kind == "pca" and source.weights is None else None,
            size=options.input_size,
            normalise=options.normalise,
            device=options.device,
            precision=options.precision,
            work=workplace.features,
            progress=progress,
        )
        train, synthetic = load(sets.train), load(sets.synthetic)
        held = None if sets.held is None else load(sets.held)
    progress(f"measuring in {source.shown}", 0, 0)
    table = measure_quality(train, synthetic, held, figures=options.figures, seed=options.seed, level=options.level)
    return table, train


def _finish(
    run: RunFolder,
    sets: Sets,
    tables: list[tuple[QualityTable, Features]],
    transfer: TransferData | None,
    options: QualityOptions,
    progress: Progress,
) -> Quality:
    """Train the classifiers, if any, and put everything together."""
    notes = list(sets.notes)
    compared = None
    if transfer is not None:
        compared = run_transfer(transfer, options, run.subfolder(FOLDER), progress)
    if sets.shared_patients:
        notes.append(f"{sets.shared_patients:,} held-out patients have an image that is a training image: left out.")
    for _, features in tables:
        notes += [note for note in features.described.notes if note not in _image_checks(features)]
    return Quality(
        figures=pd.concat([table.table for table, _ in tables], ignore_index=True),
        transfer=compared,
        described={table.features: features.described.sentence for table, features in tables},
        numbers=_numbers(sets),
        notes=tuple(dict.fromkeys(notes)),
        folder=run.path,
    )


def _image_checks(features: Features) -> set[str]:
    """Return the findings of feature checks in single images, by their ids."""
    return set(features.checks.sentences(features.ids, features.values.shape[1]))


def _numbers(sets: Sets) -> QualityNumbers:
    held = sets.held
    return QualityNumbers(
        training_images=len(sets.train.images),
        training_patients=len(set(sets.train.manifest.groups)),
        synthetic_images=len(sets.synthetic.images),
        held_out_images=0 if held is None else len(held.images),
        held_out_patients=0 if held is None else len(set(held.manifest.groups)),
        patients_given=int(sets.groups_given),
        ids=DoubtedIds.of(sets.id_doubts),
    )


def _write(run: RunFolder, found: Quality) -> None:
    """Write tables first, then the page, and last the summary, which says that the run is whole."""
    remove_recorded(run / SUMMARY)
    folder = run.subfolder(TABLES)
    write_table(folder / "quality.parquet", found.figures, recorded=True)
    if found.transfer is not None:
        write_table(folder / "train_on_synthetic.parquet", found.transfer, recorded=True)
    write_text(run / REPORT, render_page(quality_page(found)))
    write_json(run / SUMMARY, found.as_json(), recorded=True)


def _plan(
    sets: Sets, sources: list[FeatureSource], transfer: TransferData | None, options: QualityOptions
) -> QualityPlan:
    n = _numbers(sets)
    return QualityPlan(
        images={
            "training": n.training_images,
            "synthetic": n.synthetic_images,
            "held out": n.held_out_images,
        },
        patients={"training": n.training_patients, "held out": n.held_out_patients},
        left_out=sets.shared_patients,
        features=tuple(source.shown for source in sources),
        figures=options.figures,
        n_reference=min(n.held_out_images, n.synthetic_images),
        cost=quality_cost(sets, sources, transfer, options),
        notes=(*sets.notes, *(doubt.without_ids.words for doubt in sets.id_doubts)),
    )


def quality_cost(
    sets: Sets, sources: list[FeatureSource], transfer: TransferData | None, options: QualityOptions
) -> Cost:
    """Count the work: features of all sets in every space, and classifiers where the options request them."""
    stores = [store for store in (sets.train, sets.synthetic, sets.held) if store is not None]
    hashes = [store.pixel_hashes for store in stores]
    features = total([features_cost(source, hashes, sets.train.images.shape) for source in sources])
    trained = Cost() if transfer is None else transfer_cost(transfer, options)
    return features + trained + Cost(pairs=None, bytes_images=sum(store.images.nbytes for store in stores))
