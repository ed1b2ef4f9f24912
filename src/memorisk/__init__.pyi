"""memorisk: what an image model, or a set of generated images, remembers of the people in its training data.

Written by `recipes/signatures.py` from the functions themselves; a test holds them equal.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from numpy import ndarray
from torch import device

from memorisk.audits.classifier.comparison import compare as compare
from memorisk.audits.classifier.explanations.result import Explanation
from memorisk.audits.classifier.patient_answer import PatientAnswer
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.result import DefenceResult
from memorisk.audits.filter.run import FilterPlan
from memorisk.audits.quality.figures import measure_quality as measure_quality
from memorisk.audits.quality.result import Quality
from memorisk.audits.quality.run import QualityPlan
from memorisk.audits.release.export import Export
from memorisk.audits.release.gate import GateDecision
from memorisk.audits.release.statement import write_statement as write_statement
from memorisk.audits.release.tracking import track as track
from memorisk.audits.synthesize.plan import SynthesizePlan
from memorisk.audits.synthetic.run import SyntheticPlan
from memorisk.audits.watch.memorization_watch import MemorizationWatch as _MemorizationWatch
from memorisk.audits.watch.options import WatchSettings
from memorisk.audits.watch.result import Evaluation, WatchResult
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.set_check.check import ImageCheck
from memorisk.images.sources.datasets import ImageSource
from memorisk.images.sources.datasets import save_dataset as save_dataset
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import create_model as create_model
from memorisk.models.copy_detectors import load_detector as load_detector
from memorisk.models.encoders.feature_sources import FeatureSource
from memorisk.models.encoders.networks import PixelPca
from memorisk.models.generators.generators import Generator
from memorisk.models.generators.generators import load_generator as load_generator
from memorisk.models.latents import LatentEncoder
from memorisk.report.result import Result as Result
from memorisk.runs.errors import InputError as InputError
from memorisk.runs.errors import MemoriskError as MemoriskError
from memorisk.runs.workload import no_progress as no_progress
from memorisk.studies.detectors.results import Benchmark
from memorisk.studies.generators.study import study_generators as study_generators
from memorisk.studies.pairs.results import PairBenchmark
from memorisk.studies.rare_distinctive.study import study_rare_distinctive as study_rare_distinctive
from memorisk.studies.unique_features.study import study_unique_features as study_unique_features
from memorisk.training.autoencoders.latent_store import Latents
from memorisk.training.autoencoders.latent_store import read_latents as read_latents
from memorisk.training.classifiers.command import TrainedClassifiers
from memorisk.training.features.compute_backend import FeatureWork
from memorisk.training.features.matrix import Features
from memorisk.training.generators.command import TrainedGenerator
from memorisk.training.generators.generation import GeneratedSet
from memorisk.training.generators.snapshots import Snapshot
from memorisk.training.run import Trained

__version__: str
__all__ = [
    "__version__",
    "assess_quality",
    "audit_classifier",
    "audit_defences",
    "audit_feature",
    "audit_generator",
    "audit_losses",
    "audit_patient",
    "audit_synthetic",
    "benchmark_copies",
    "benchmark_detectors",
    "benchmark_reid",
    "compare",
    "check_images",
    "create_model",
    "explain",
    "filter_synthetic",
    "InputError",
    "gate",
    "generate",
    "load_detector",
    "load_features",
    "load_generator",
    "load_latents",
    "load_manifest",
    "local_source",
    "MemorizationWatch",
    "measure_quality",
    "read_latents",
    "MemoriskError",
    "no_progress",
    "release",
    "Result",
    "save_dataset",
    "study_generators",
    "study_rare_distinctive",
    "study_unique_features",
    "synthesize",
    "track",
    "train_autoencoder",
    "train_classifier",
    "train_detector",
    "train_generator",
    "watch_training",
    "watch_within",
    "write_statement",
]

@overload
def assess_quality(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest | ImageStore,
    *,
    out: str | Path,
    held_out: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    held_out_split: str | None = None,
    train_split: str | None = None,
    features: str | Sequence[str] = ("auto",),
    synthetic_features: str | Path | None = None,
    held_out_features: str | Path | None = None,
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    figures: str | Sequence[str] = ("FID", "KID", "MiFID", "precision", "recall", "density", "coverage", "IRS"),
    level: float = 0.95,
    seed: int = 0,
    classifier: str | None = None,
    classifier_weights: str | None = None,
    classifier_epochs: int | None = None,
    classifier_seeds: int = 3,
    batch_size: int = 64,
    threads: int = 1,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> Quality:
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

@overload
def assess_quality(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest | ImageStore,
    *,
    out: str | Path,
    held_out: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    held_out_split: str | None = None,
    train_split: str | None = None,
    features: str | Sequence[str] = ("auto",),
    synthetic_features: str | Path | None = None,
    held_out_features: str | Path | None = None,
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    figures: str | Sequence[str] = ("FID", "KID", "MiFID", "precision", "recall", "density", "coverage", "IRS"),
    level: float = 0.95,
    seed: int = 0,
    classifier: str | None = None,
    classifier_weights: str | None = None,
    classifier_epochs: int | None = None,
    classifier_seeds: int = 3,
    batch_size: int = 64,
    threads: int = 1,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> QualityPlan: ...
@overload
def audit_classifier(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    model: str | Sequence[str] = ("auto",),
    weights: str | None = None,
    target: str | Path | None = None,
    target_classes: str | None = None,
    protocol: Literal["corrected", "paper"] = "corrected",
    design: Literal["balanced", "matched", "paper"] | None = None,
    placebo: int = 0,
    score_augmentations: int = 0,
    intervene: str | None = None,
    classes: str | Sequence[str] | None = None,
    canary_pairs: int = 0,
    models: int | None = None,
    seeds: int | Sequence[int] | None = None,
    splits: Literal["redraw", "given", "given-random"] = "redraw",
    split_seed: int = 0,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    discard_weights: bool = False,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    epochs: int | None = None,
    batch_size: int = 64,
    lr: float | None = None,
    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam",
    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine",
    weight_decay: float = 0.0,
    class_weights: bool = False,
    augment: str | None = None,
    head: Literal["single", "binary", "multi", "first"] = "single",
    normalise: Literal["dataset", "model", "none"] | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    regime: Literal["full", "lora", "dp-lora", "dp-full"] | Sequence[Literal["full", "lora", "dp-lora", "dp-full"]] = (
        "full",
    ),
    epsilon: float | Sequence[float] = (),
    delta: float = 1e-05,
    clip: float = 1.0,
    lora_rank: int = 8,
    lora_alpha: float = 16.0,
    train: str | Callable[..., Any] | None = None,
    train_settings: dict[str, str] | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
) -> Result:
    """Audit what a classifier of this recipe memorizes of these images.

    Trains K = 2S twin models (``models``, ``design``), scores every canary by the loss gap of the twins, and writes the
    run folder ``out``: scores, tables, ``verdict.json`` and ``report.html``. Method: METHODS section 1; paper 000,
    section 3.

    Args:
        images: Folder, CSV or Parquet manifest, npz, npy, HDF5, DICOM tree, or "digits"; or in Python a DataFrame with
            a column of files, arrays ``(X, y, groups)``, or a data set of torch or of Hugging Face.
        out: The run folder: new, empty, or a run of the same audit to continue.
        progress: Called with (stage, done, total); by default a bar in a terminal, a line in a notebook or a log.
            ``memorisk.no_progress`` is silent.
        dry_run: Decode the images, plan, and return the plan without training.
        **settings: Any field of ``ClassifierOptions``.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MemoriskError: A training failed; what is done is kept.

    Example:
        >>> result = audit_classifier("digits", out="runs/demo", models=16)  # doctest: +SKIP
        >>> result.verdict["status"]  # doctest: +SKIP
        'fail'
    """

@overload
def audit_classifier(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    model: str | Sequence[str] = ("auto",),
    weights: str | None = None,
    target: str | Path | None = None,
    target_classes: str | None = None,
    protocol: Literal["corrected", "paper"] = "corrected",
    design: Literal["balanced", "matched", "paper"] | None = None,
    placebo: int = 0,
    score_augmentations: int = 0,
    intervene: str | None = None,
    classes: str | Sequence[str] | None = None,
    canary_pairs: int = 0,
    models: int | None = None,
    seeds: int | Sequence[int] | None = None,
    splits: Literal["redraw", "given", "given-random"] = "redraw",
    split_seed: int = 0,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    discard_weights: bool = False,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    epochs: int | None = None,
    batch_size: int = 64,
    lr: float | None = None,
    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam",
    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine",
    weight_decay: float = 0.0,
    class_weights: bool = False,
    augment: str | None = None,
    head: Literal["single", "binary", "multi", "first"] = "single",
    normalise: Literal["dataset", "model", "none"] | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    regime: Literal["full", "lora", "dp-lora", "dp-full"] | Sequence[Literal["full", "lora", "dp-lora", "dp-full"]] = (
        "full",
    ),
    epsilon: float | Sequence[float] = (),
    delta: float = 1e-05,
    clip: float = 1.0,
    lora_rank: int = 8,
    lora_alpha: float = 16.0,
    train: str | Callable[..., Any] | None = None,
    train_settings: dict[str, str] | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
) -> DryRun: ...
def audit_defences(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    model: str | Sequence[str] = ("auto",),
    weights: str | None = None,
    target: str | Path | None = None,
    target_classes: str | None = None,
    protocol: Literal["corrected", "paper"] = "corrected",
    design: Literal["balanced", "matched", "paper"] | None = None,
    placebo: int = 0,
    score_augmentations: int = 0,
    intervene: str | None = None,
    classes: str | Sequence[str] | None = None,
    canary_pairs: int = 0,
    models: int | None = None,
    seeds: int | Sequence[int] | None = None,
    splits: Literal["redraw", "given", "given-random"] = "redraw",
    split_seed: int = 0,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    discard_weights: bool = False,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    epochs: int | None = None,
    batch_size: int = 64,
    lr: float | None = None,
    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam",
    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine",
    weight_decay: float = 0.0,
    class_weights: bool = False,
    augment: str | None = None,
    head: Literal["single", "binary", "multi", "first"] = "single",
    normalise: Literal["dataset", "model", "none"] | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    regime: Literal["full", "lora", "dp-lora", "dp-full"] | Sequence[Literal["full", "lora", "dp-lora", "dp-full"]] = (
        "full",
    ),
    epsilon: float | Sequence[float] = (),
    delta: float = 1e-05,
    clip: float = 1.0,
    lora_rank: int = 8,
    lora_alpha: float = 16.0,
    train: str | Callable[..., Any] | None = None,
    train_settings: dict[str, str] | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
) -> DefenceResult:
    """Audit a classifier under each regime, or each of several networks, and compare.

    Args:
        images: Images, as for `memorisk.audit_classifier`.
        out: Folder for one run folder per regime or network, the table, and ``report.html``. Those that an earlier
            command left there are in the table, too.
        progress: Called with (stage, done, total).
        **settings: Any field of ``ClassifierOptions``; ``regime`` and ``epsilon``, or ``model``, name several.

    Returns:
        The table, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MemoriskError: A training failed; what is done is kept.
    """

def audit_feature(
    models: str | Sequence[str],
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    probes: str | None = None,
    n_probes: int = 1000,
    references: str | Sequence[str] = (),
    normalise: str = "",
    output: Literal["auto", "logits", "probabilities"] = "auto",
    num_classes: int | None = None,
    level: float = 0.05,
    gate: float = 2.0,
    redraws: int = 3,
    white_box: str | None = None,
    device: str = "auto",
    threads: int = 1,
    seed: int = 0,
    redact: bool = False,
    fail_on: Literal["remembered", "never"] = "remembered",
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    mark: str = "",
    place: str = "top-left",
    mark_scale: int = 1,
    opacity: float = 1.0,
    text_height: int = 12,
    font: str | Path | None = None,
    text_background: bool = False,
    controls: str = "matched",
    n_controls: int = 199,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
) -> Result:
    """Audit whether models remember a mark.

    Args:
        models: A model or several that share the mark: ``module:function``, an ONNX file, or NAME@WEIGHTS, a
            network of timm or of memorisk with its weights.
        out: The run folder: new, empty, or one of the same audit to write again.
        progress: Called with (stage, done, total).
        **settings: Any field of `FeatureOptions`.

    Returns:
        The result, which is also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.

    Example:
        >>> audit_feature("net.onnx", mark="A", probes="probes/", normalise="0.13/0.31", out="runs/a")  # doctest: +SKIP
    """

@overload
def audit_generator(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    kind: Literal["tiny", "dit", "unet", "gan"] = "tiny",
    network: str | None = None,
    latent: str = "pixels",
    caption_column: str | None = None,
    caption_words: bool = False,
    noise_schedule: Literal["linear", "cosine"] = "linear",
    steps: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    ema: float = 0.9999,
    flip: bool = False,
    target: str | Path | None = None,
    lora: str | Path | None = None,
    guidance: float = 1.0,
    extract: int | None = None,
    dose: int | Sequence[int] = (),
    levels: int = 10,
    draws: int = 8,
    models: int | None = None,
    seeds: int | Sequence[int] | None = None,
    splits: Literal["redraw", "given", "given-random"] = "redraw",
    split_seed: int = 0,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    discard_weights: bool = False,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    train: str | Callable[..., Any] | None = None,
    train_settings: dict[str, str] | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
    gan_style: int = 64,
    gan_mapping_layers: int = 2,
    gan_channels: int = 1024,
    gan_channels_max: int = 64,
    gan_r1: float | None = None,
    gan_path: float = 2.0,
    gan_style_mixing: float = 0.9,
    gan_augment: Literal["ada", "fixed", "none"] = "ada",
    gan_augmentations: str = "bgc",
    gan_augment_p: float = 0.0,
    gan_augment_images: int = 500000,
    gan_ema_images: int = 10000,
    gan_truncation: float = 1.0,
) -> Result:
    """Audit what a generator of this recipe remembers of these images, by twins on halves of the patients.

    Trains K = 2S twins that differ in their patients alone, scores every image by the errors of its denoising on noise
    that all twins share, and writes the run folder ``out``: scores, tables, ``verdict.json`` and ``report.html``. A gap
    counts standard deviations of the gaps of images that no twin saw. Method: METHODS section 7.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are classes, where the images have any.
        out: The run folder: new, empty, or a run of the same audit to continue.
        progress: Called with (stage, done, total).
        dry_run: Decode the images, plan, and return the plan without training.
        **settings: Any field of `GeneratorAuditOptions`.

    Returns:
        The result, which is also saved in ``out``; or the plan.

    Raises:
        InputError: Bad input or settings; nothing was written to ``out``.
        MissingExtraError: A library that the kind of generator needs is not installed.
        MemoriskError: A training failed; what is done is kept.

    Example:
        >>> result = audit_generator("digits", out="runs/generator")  # doctest: +SKIP
        >>> result.verdict["status"]  # doctest: +SKIP
        'fail'
    """

@overload
def audit_generator(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    kind: Literal["tiny", "dit", "unet", "gan"] = "tiny",
    network: str | None = None,
    latent: str = "pixels",
    caption_column: str | None = None,
    caption_words: bool = False,
    noise_schedule: Literal["linear", "cosine"] = "linear",
    steps: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    ema: float = 0.9999,
    flip: bool = False,
    target: str | Path | None = None,
    lora: str | Path | None = None,
    guidance: float = 1.0,
    extract: int | None = None,
    dose: int | Sequence[int] = (),
    levels: int = 10,
    draws: int = 8,
    models: int | None = None,
    seeds: int | Sequence[int] | None = None,
    splits: Literal["redraw", "given", "given-random"] = "redraw",
    split_seed: int = 0,
    device: str = "auto",
    processes: int | None = None,
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    discard_weights: bool = False,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    train: str | Callable[..., Any] | None = None,
    train_settings: dict[str, str] | None = None,
    python_path: str | Path | Sequence[str | Path] = (),
    gan_style: int = 64,
    gan_mapping_layers: int = 2,
    gan_channels: int = 1024,
    gan_channels_max: int = 64,
    gan_r1: float | None = None,
    gan_path: float = 2.0,
    gan_style_mixing: float = 0.9,
    gan_augment: Literal["ada", "fixed", "none"] = "ada",
    gan_augmentations: str = "bgc",
    gan_augment_p: float = 0.0,
    gan_augment_images: int = 500000,
    gan_ema_images: int = 10000,
    gan_truncation: float = 1.0,
) -> DryRun: ...
def audit_losses(
    file: str | Path,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    of: Literal["classifier", "generator"] = "classifier",
    random_split: bool = True,
    level: float = 0.1,
    correction: Literal["bh", "by", "bh-within"] = "bh",
    fail_on: Literal["high", "moderate", "never"] = "high",
    notice: float = 2.0,
    attack_gate: float = 0.6,
    one_image_per_patient: bool = False,
    by: str | Sequence[str] = (),
    review: str | Path | None = None,
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
) -> Result:
    """Run everything after training on a table of losses.

    Args:
        file: Parquet or CSV with a row per image and model.
        out: The run folder.
        progress: Called with (stage, done, total).
        **settings: Any field of ``LossesOptions``.

    Returns:
        The result, saved in ``out``.

    Raises:
        InputError: The table or a setting is not as it must be; nothing was written.
    """

def audit_patient(
    run: str | Path,
    patient: str,
    *,
    target: str | Path | None = None,
    images: ImageSource | None = None,
    device: str = "auto",
    pseudonym_key: str | Path | None = None,
    progress: Callable[[str, int, int], None] = ...,
) -> PatientAnswer:
    """Read what a finished classifier audit says of one patient.

    Args:
        run: Run folder of `audit classifier`, `audit losses` or `audit generator`.
        patient: Id of the patient, or of one image where each image counts as a patient; of a pseudonymised run the
            pseudonym, or the id where the key is at hand.
        target: Released weights, whose losses on the patient's images are computed.
        images: Present place of the images; by default the place that the run names. They are needed with a target.
        device: Device that the target runs on.
        pseudonym_key: Key of a pseudonymised run; by default the user's own.
        progress: Called with (stage, done, total).

    Raises:
        InputError: The folder holds no finished run of these kinds, the run has no such patient, or the target does not
            fit its network.

    Example:
        >>> answer = audit_patient("runs/demo", "patient-17")  # doctest: +SKIP
        >>> answer.flagged, answer.classes[0].p  # doctest: +SKIP
        (False, 0.41)
    """

@overload
def audit_synthetic(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest | ImageStore,
    *,
    out: str | Path,
    held_out: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    held_out_split: str | None = None,
    train_split: str | None = None,
    one_image_per_patient: bool = False,
    detector: str | Sequence[str] = (),
    features: str = "default",
    synthetic_features: str | Path | None = None,
    held_out_features: str | Path | None = None,
    measure: str = "auto",
    domain: Literal["signed", "shift", "softplus"] | None = None,
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    paired: str | None = None,
    review: str | Path | None = None,
    plants: int = 40,
    plant_kinds: str | Sequence[str] = (),
    seed: int = 0,
    by: str | Sequence[str] = (),
    level: float = 0.1,
    recall: float = 0.8,
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> Result:
    """Audit whether synthetic images copy the patients that their generator was trained on.

    Args:
        train: The images that the generator was trained on: folder, table, DICOM tree, file of
            arrays, a manifest or a store; or a DataFrame, arrays or a data set of torch or of Hugging Face.
        synthetic: The images that the generator made, all that are to be released.
        out: The run folder: new, empty, or one of the same audit to write again.
        held_out: Images of patients that it never saw, a random part of the same data; None for distances only.
        progress: Called with (stage, done, total).
        dry_run: Whether only to decode and count the images and to return the plan, without features or distances.
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

@overload
def audit_synthetic(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest | ImageStore,
    *,
    out: str | Path,
    held_out: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    held_out_split: str | None = None,
    train_split: str | None = None,
    one_image_per_patient: bool = False,
    detector: str | Sequence[str] = (),
    features: str = "default",
    synthetic_features: str | Path | None = None,
    held_out_features: str | Path | None = None,
    measure: str = "auto",
    domain: Literal["signed", "shift", "softplus"] | None = None,
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    paired: str | None = None,
    review: str | Path | None = None,
    plants: int = 40,
    plant_kinds: str | Sequence[str] = (),
    seed: int = 0,
    by: str | Sequence[str] = (),
    level: float = 0.1,
    recall: float = 0.8,
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> SyntheticPlan: ...
def benchmark_copies(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    tables_only: bool = False,
    detectors: str | Sequence[str] = ("default", "mse", "ncc", "ssim"),
    test_images: int = 1000,
    families: str | Sequence[str] = (),
    no_identities: Literal["own", "mean"] = "own",
    reid: str | Path | None = None,
    baselines: Literal["none", "table2"] = "none",
    download: bool = False,
    reference: str | None = None,
    splits: Literal["auto", "given", "redraw"] = "auto",
    validation_share: float = 0.3,
    split_seed: int = 0,
    leave_out_seen: bool = False,
    seed: int = 0,
    protocol: Literal["paper", "corrected"] = "corrected",
    measure: str = "auto",
    network_size: int | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    threads: int = 1,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> PairBenchmark:
    """Benchmark detectors at recognising augmented copies of your images, or resume it, and lay out its tables.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed. A column ``dataset`` divides them into
            several data sets.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchCopiesOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """

def benchmark_detectors(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    tables_only: bool = False,
    backbones: str | Sequence[str] = ("pixels", "pca:16"),
    losses: str | Sequence[str] = ("none",),
    measures: str | Sequence[str] = ("all",),
    seeds: int | Sequence[int] = (0,),
    strengths: Literal["weak", "strong"] | Sequence[Literal["weak", "strong"]] = ("weak", "strong"),
    shares: tuple[float, float, float, float] = (0.5, 0.15, 0.15, 0.2),
    split_seed: int = 0,
    specificity: float = 0.95,
    percent: float = 5.0,
    domain: Literal["shift", "softplus", "signed"] = "shift",
    protocol: Literal["paper", "corrected"] = "corrected",
    augment: Literal["weak", "strong"] = "weak",
    epochs: int = 100,
    lr: float = 0.0001,
    batch_size: int | None = None,
    frozen_epochs: int = 5,
    margin: float = 0.05,
    temperature: float = 0.5,
    network_size: int | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    processes: int = 1,
    threads: int = 1,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> Benchmark:
    """Benchmark copy detectors on your images, or resume it, and lay out its leaderboard, tables and figures.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchDetectorsOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a name or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """

def benchmark_reid(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    tables_only: bool = False,
    sensitivity: float = 0.99,
    copies: str | Path | None = None,
    detectors: str | Sequence[str] = ("mse", "ncc", "ssim"),
    baselines: Literal["none", "table2"] = "none",
    download: bool = False,
    reference: str | None = None,
    splits: Literal["auto", "given", "redraw"] = "auto",
    validation_share: float = 0.3,
    split_seed: int = 0,
    leave_out_seen: bool = False,
    seed: int = 0,
    protocol: Literal["paper", "corrected"] = "corrected",
    measure: str = "auto",
    network_size: int | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    threads: int = 1,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> PairBenchmark:
    """Benchmark detectors at re-identification on your images, or resume it, and lay out its tables and figures.

    Args:
        images: Images as for `memorisk.audit_classifier`; labels are not needed, patients are. A column ``dataset``
            divides them into several data sets.
        out: Folder of the run: a new one, an empty one, or this benchmark's to resume it.
        progress: Function that is called with (stage, done, total).
        tables_only: Compute nothing; lay out what is finished.
        **settings: Settings by name: any field of `BenchReidOptions`.

    Returns:
        Benchmark with its numbers; its tables are also in ``out/tables``, its page in ``out/report.html``.

    Raises:
        InputError: A setting, a detector or the images are refused; nothing was written.
        MemoriskError: The run broke; what is done is kept.
    """

def check_images(
    source: ImageSource | Manifest,
    options: ImageOptions | None = None,
    *,
    turned: bool = False,
    near: float | None = None,
    fractions: tuple[float, float, float] = (0.7, 0.15, 0.15),
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
) -> ImageCheck:
    """Read every image once and compare all pairs.

    Args:
        source: Source as `load_manifest` takes it, or a manifest.
        options: Options of finding and reading; ``size`` plays no part, since pixels are compared as they are.
        turned: Whether quarter turns and flips are found as well.
        near: Least correlation of thumbnails of near copies; None learns it from the set.
        fractions: Shares of the split that classes must be large enough for.
        processes: Number of processes that decode; by default the number of cores that this process may use.
        progress: Function called with the number of images done and the number of all.
        **settings: Values of fields of ``ImageOptions``, in place of those of ``options``.

    Returns:
        Result of the check.

    Raises:
        InputError: The source cannot be read, or a setting does not exist.
    """

def explain(
    run: str | Path,
    *,
    features: Sequence[str | Path] = ("before",),
    feature_weights: str | Path | None = None,
    probes: bool = False,
    feature_size: int | None = None,
    out: str | Path | None = None,
    images: ImageSource | None = None,
    probe_seed: int | None = None,
    device: str = "auto",
    permutations: int = 9999,
    progress: Callable[[str, int, int], None] = ...,
) -> Explanation:
    """Look into a finished classifier audit: atypicality of its images against M, and probes of its layers.

    Args:
        run: The run folder.
        features: Feature spaces: names of networks, files (.npy, .npz, .parquet), or "before", the run's own network
            before it was fine-tuned.
        feature_weights: Weights of the named networks: a file (of one network), "default" to download, "none".
        probes: Probe the layers of one of the run's models, too.
        feature_size: Pixels a side that named networks get; by default what they were trained at.
        out: Folder to write to; ``explain`` inside the run folder if not given.
        images: Present place of the run's images, if they have moved.
        probe_seed: The seed whose models are probed; the run's first if not given.
        device: "cpu", "cuda" or "auto".
        permutations: Random permutations behind each p-value.
        progress: Called with (stage, done, total).

    Returns:
        Explanation, which is also saved.

    Raises:
        InputError: Bad input, a run that is not finished or whose images have changed, features that cannot be
            computed, or weights that are gone; nothing was written.
    """

@overload
def filter_synthetic(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest,
    out: str | Path,
    *,
    calibration: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    detector: str | Sequence[str] = ("default",),
    measure: str = "auto",
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    calibration_split: str | None = None,
    train_split: str | None = None,
    calibration_unseen: bool = False,
    one_image_per_patient: bool = False,
    families: str | Sequence[str] = (),
    miss_rate: float = 0.05,
    confidence: float = 0.95,
    threshold: str | Sequence[str] = (),
    seed: int = 0,
    auditor: str | None = None,
    plant_kinds: str | Sequence[str] = (),
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> Result:
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

@overload
def filter_synthetic(
    train: ImageSource | Manifest | ImageStore,
    synthetic: ImageSource | Manifest,
    out: str | Path,
    *,
    calibration: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    detector: str | Sequence[str] = ("default",),
    measure: str = "auto",
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    calibration_split: str | None = None,
    train_split: str | None = None,
    calibration_unseen: bool = False,
    one_image_per_patient: bool = False,
    families: str | Sequence[str] = (),
    miss_rate: float = 0.05,
    confidence: float = 0.95,
    threshold: str | Sequence[str] = (),
    seed: int = 0,
    auditor: str | None = None,
    plant_kinds: str | Sequence[str] = (),
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
) -> FilterPlan: ...
def gate(
    source: ImageSource,
    *,
    weights: Sequence[str | Path] = (),
    images: Sequence[str | Path] = (),
    require: str = "pass",
    kinds: Sequence[str] = ("exact", "flipped", "rotated", "noised", "jpeg", "cropped", "pasted"),
    key: Sequence[str | Path] = (),
    require_signature: bool = False,
) -> GateDecision:
    """Ask whether files may be released under a statement.

    Args:
        source: ``privacy-statement.json``, a folder that holds it, or the folder of a finished run.
        weights: Files of weights that are to be released.
        images: Folders or files of images that are to be released.
        require: ``pass``, or ``not-fail``, which lets through what could not be decided.
        kinds: Kinds of copies that a pass of a generated set must be about: those that are named here and that its
            audit did not plant stop the release.
        key: Public keys that are trusted: one of them must have signed the statement.
        require_signature: Refuse a statement whose signature is not verified, also where no key is given.

    Returns:
        Answer; a statement that is broken or changed, or that no trusted key signed, does not pass.

    Raises:
        InputError: Nothing is named for release, something named does not exist, the source is not a statement, or a
            rule of another form gave a verdict in it.

    Example:
        >>> gate("release/privacy-statement.json", weights=["model.safetensors"]).passed  # doctest: +SKIP
        True
    """

def generate(
    generator: str | Path | Generator,
    out: str | Path,
    *,
    progress: Callable[[str, int, int], None] = ...,
    images: int | None = None,
    seed: int = 0,
    balance: Literal["classes", "training"] = "classes",
    paired: bool = False,
    only: str | Sequence[str] = (),
    device: str = "auto",
    threads: int = 1,
    sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim",
    sampling_steps: int = 50,
    guidance: float = 1.0,
    batch: int = 64,
    python_path: str | Path | Sequence[str | Path] = (),
) -> GeneratedSet:
    """Draw a set of images.

    Args:
        generator: Generator to sample from: a folder of ``memorisk train generator``, a user's ``module:function``, or
            the result of `load_generator`.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `GenerateOptions`; ``images`` is their number.

    Returns:
        Set that was drawn, which is on the disk.

    Raises:
        InputError: Bad input or settings, or a folder of other images; nothing was written.
        MemoriskError: The generator failed; what is done is kept.

    Examples:
        >>> made = memorisk.generate("generator", "synthetic", images=1000)  # doctest: +SKIP
    """

def load_features(
    images: ImageSource | Manifest | ImageStore,
    source: ImageSource | FeatureSource | PixelPca,
    *,
    options: ImageOptions | None = None,
    reference: ImageStore | PixelPca | ndarray | list[int] | None = None,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    device: str | device = "auto",
    precision: str = "auto",
    batch: int | None = None,
    cache: bool = True,
    processes: int | None = None,
    work: FeatureWork | None = None,
    progress: Callable[[str, int, int], None] = ...,
) -> Features:
    """Compute the features of images, or read them from the cache.

    Args:
        images: Source of the images: a folder, table, DICOM tree or file of arrays; a manifest; or a store.
        source: Source of features (`memorisk.models.encoders.feature_sources`), or a PCA that was fitted.
        options: Settings that find, read and store the images; not with a store. ``size`` there is the stored side.
        reference: Images that ``pca:K`` is fitted on.
        size: Side of a network's input in pixels; by default that of its training, for memorisk's own the store's.
        normalise: Mean and deviation of a network's input where they are not the published ones, as "0.13/0.31".
        seed: Random seed of random weights.
        device: Device to compute on; "auto" is a GPU where the machine has one.
        precision: Arithmetic: "fp32", on a GPU also "bf16" and "fp16"; "auto" is bf16 there. PCA and pixels
            are always float64.
        batch: Number of images per batch; features do not depend on it.
        cache: Whether features are looked for and kept in the cache folder that also holds the image stores.
        processes: Number of processes that decode images.
        work: Workers of a cluster that compute the features of networks; None for this process, which computes those of
            volumes in any case.
        progress: Function called with (stage, done, total).

    Returns:
        Features of the images, rows in the order of the images.

    Raises:
        InputError: The images or the source are refused, or the features are constant.
        MemoriskError: The disk is full; what is done is kept.
    """

def load_latents(
    images: ImageSource | Manifest | ImageStore,
    encoder: LatentEncoder | str,
    *,
    options: ImageOptions | None = None,
    device: str | device = "auto",
    precision: str = "auto",
    batch: int | None = None,
    cache: bool = True,
    progress: Callable[[str, int, int], None] = ...,
) -> Latents:
    """Compute the latents of images, or read them from the cache.

    Args:
        images: Source of the images, as for `memorisk.training.features.matrix.load_features`.
        encoder: Encoder that computes the latents, or its name.
        options: Settings that find, read and store the images; not with a store.
        device: Device to compute on; "auto" is a GPU where the machine has one.
        precision: Arithmetic of the encoder, as for `load_features`; pixels are float32 throughout.
        batch: Number of images per batch.
        cache: Whether latents are looked for and kept in the cache folder that also holds the image stores.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: The images or the encoder are refused, or a latent is not finite.
        MemoriskError: The disk is full; what is done is kept.
    """

def load_manifest(source: ImageSource, options: ImageOptions | None = None) -> Manifest:
    """Return the manifest of a source; no pixel is decoded.

    Args:
        source: Name of a source: ``"digits"`` (built in; a folder of that name is ``"./digits"``), a folder (class
            folders, DICOM tree, NIfTI volumes, a set that ``memorisk generate`` made), a CSV, TSV or Parquet table,
            arrays (npz in MedMNIST's layout or plain, npy, HDF5, idx), or a published data set as ``NAME:FOLDER``
            (``images.published.registry``); or several of these by commas (``images.sources.joined``); each also at a
            URL (``s3://BUCKET/FOLDER``). A path that exists is a path, colon and comma or not.
        options: Options by which images are found, labelled, grouped and sampled.

    Returns:
        Checked manifest; ``notes`` list what was guessed, ``skipped`` what was left out.

    Raises:
        InputError: The source does not exist, it holds no images, or a row cannot be trusted (duplicate ids, paths that
            leave the folder, a group without information, files that are missing).
        MissingExtraError: DICOM or NIfTI is read without the extra ``medical``.
    """

def local_source(source: ImageSource, store: Path | None = None, *, whole_folder: bool = False) -> Path:
    """Return a local file or folder with the content of a source.

    Args:
        source: A path, returned as it is, or a URL, whose copy is made or brought up to date.
        store: The cache folder (`cache_folder`).
        whole_folder: Whether to copy, for the URL of a file, all files of its folder, such as the images of a table.

    Raises:
        InputError: The URL names nothing or holds a password, or a file name leads out of the copy.
        MemoriskError: The storage does not answer, or the disk is full; files that were fetched stay.
    """

class MemorizationWatch(_MemorizationWatch):
    """Looks at a training and keeps what it saw.

    Args:
        train: The images that the generator is trained on: a source as for `memorisk.load_manifest`, an `ImageStore`,
            or an array [N, H, W, C].
        held_out: Real images of patients that the training does not see. They choose where it stops, so that the audit
            of what comes out of it needs others.
        out: Folder for the looks, new, empty, or one of this watch; None: they are only returned.
        stop: Whether ``go_on`` may become False; otherwise looks are only noted.
        train_groups: Patients of the training images, [N], where these are an array.
        held_out_groups: Patients of the held-out images, [M], where these are an array.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`, as ``detector``, ``images``, ``every``, ``looks``, ``stop_on``. Where
            ``stop_on`` is left to it and held-out patients are too few for any rule, a warning says so.

    Raises:
        InputError: Bad input or settings, too few held-out patients for the rule that is to stop, or ``out`` holds
            something else or lies inside or around the images; nothing was written.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real = rng.integers(0, 256, (300, 8, 8, 1), dtype=np.uint8)
        >>> watch = MemorizationWatch(real[:150], real[150:], images=150, quality="none", looks=2)
        >>> watch.look(1, sample=lambda n, seed: real[:n]).share > 0.9  # a generator that gives its training images
        True
    """
    def __init__(
        self,
        train: ImageSource | Manifest | ImageStore | ndarray,
        held_out: ImageSource | Manifest | ImageStore | ndarray | None = None,
        *,
        out: str | Path | None = None,
        stop: bool = True,
        train_groups: Any = None,
        held_out_groups: Any = None,
        progress: Callable[[str, int, int], None] = ...,
        held_out_split: str | None = None,
        train_split: str | None = None,
        layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
        image_root: str | Path | None = None,
        follow_links: bool = False,
        image_column: str | None = None,
        path_column: str | None = None,
        label_column: str | None = None,
        group_column: str | None = None,
        split_column: str | None = None,
        dataset_column: str | None = None,
        labels_csv: str | Path | None = None,
        drop_label: str | Sequence[str] = (),
        label_from: str | None = None,
        group_from: str | None = None,
        dicom_group: str = "PatientID",
        frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
        frame_step: int = 1,
        slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
        depth: Literal[8, 16] = 8,
        window: Literal["declared", "percentile", "full"] = "declared",
        size: int | None = None,
        resize: Literal["squash", "crop", "pad"] = "squash",
        channels: Literal["auto", 1, 3] = "auto",
        max_pixels: int = 100000000,
        skip_missing: bool = False,
        skip_unreadable: bool = False,
        sample: int | None = None,
        sample_seed: int = 0,
        store: str | Path | None = None,
        detector: str = "default",
        measure: str = "auto",
        domain: Literal["signed", "shift", "softplus"] | None = None,
        input_size: int | None = None,
        normalise: str | None = None,
        precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
        device: str = "auto",
        images: int = 200,
        every: int = 1000,
        looks: int | None = None,
        nominal: float = 0.05,
        level: float = 0.1,
        stop_on: Literal["auto", "share", "test", "listed", "never"] = "auto",
        error: float = 0.05,
        patience: int = 1,
        quality: str = "auto",
        seed: int = 0,
        log: Literal["tensorboard", "mlflow"] | Sequence[Literal["tensorboard", "mlflow"]] = (),
        log_to: str | Path | None = None,
        redact: bool = False,
        sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim",
        sampling_steps: int = 50,
        guidance: float = 1.0,
        batch: int = 64,
    ) -> None: ...

def release(
    source: ImageSource,
    out: str | Path,
    *,
    without: str | Path | None = None,
    progress: Callable[[str, int, int], None] = ...,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
) -> Export:
    """Write a set of images, or the weights of an audited network, anew with nothing in it but pixels or tensors.

    Args:
        source: Folder of a finished audit, whose set or weights are written as it looked at them; or images as for
            `memorisk.load_manifest`.
        out: A new or empty folder for images; a new file for weights.
        without: Folder of an audit of this set, or its review.csv: the synthetic images of pairs that were not
            dismissed stay behind. What is written is another set than the audited one. It needs an audit of its own, by
            another detector: the same one overlooks again what it overlooked.
        progress: Called with (stage, done, total).
        **settings: Any field of `ImageOptions` that says how images are read; use those of the audit. A run has its
            own.

    Raises:
        InputError: The source cannot be read or written, or holds other images than a run compared, ``out`` exists, or
            ``without`` names no image of the source, or all.
        MemoriskError: The disk is full.

    Example:
        >>> release("runs/set", "clean").images  # doctest: +SKIP
        1000
    """

@overload
def synthesize(
    train: ImageSource | Manifest | ImageStore,
    out: str | Path,
    *,
    generator: str | Path | Generator,
    calibration: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[False] = False,
    images: int = 1000,
    balance: Literal["classes", "training"] = "classes",
    paired: bool = False,
    most_tries: int = 20,
    keep_rejected: bool = False,
    threads: int = 1,
    quality: str | None = None,
    detector: str | Sequence[str] = ("default",),
    measure: str = "auto",
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    calibration_split: str | None = None,
    train_split: str | None = None,
    calibration_unseen: bool = False,
    one_image_per_patient: bool = False,
    families: str | Sequence[str] = (),
    miss_rate: float = 0.05,
    confidence: float = 0.95,
    threshold: str | Sequence[str] = (),
    seed: int = 0,
    auditor: str | None = None,
    plant_kinds: str | Sequence[str] = (),
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim",
    sampling_steps: int = 50,
    guidance: float = 1.0,
    batch: int = 64,
    python_path: str | Path | Sequence[str | Path] = (),
) -> Result:
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

@overload
def synthesize(
    train: ImageSource | Manifest | ImageStore,
    out: str | Path,
    *,
    generator: str | Path | Generator,
    calibration: ImageSource | Manifest | ImageStore | None = None,
    progress: Callable[[str, int, int], None] = ...,
    dry_run: Literal[True],
    images: int = 1000,
    balance: Literal["classes", "training"] = "classes",
    paired: bool = False,
    most_tries: int = 20,
    keep_rejected: bool = False,
    threads: int = 1,
    quality: str | None = None,
    detector: str | Sequence[str] = ("default",),
    measure: str = "auto",
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    calibration_split: str | None = None,
    train_split: str | None = None,
    calibration_unseen: bool = False,
    one_image_per_patient: bool = False,
    families: str | Sequence[str] = (),
    miss_rate: float = 0.05,
    confidence: float = 0.95,
    threshold: str | Sequence[str] = (),
    seed: int = 0,
    auditor: str | None = None,
    plant_kinds: str | Sequence[str] = (),
    fail_on: Literal["copied", "never"] = "copied",
    gallery: bool = True,
    redact: bool = False,
    pseudonymise: bool = False,
    pseudonym_key: str | Path | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    executor: Literal["local", "dask"] = "local",
    cluster: str | None = None,
    job_memory: str | None = None,
    worker_silence: float | None = None,
    sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim",
    sampling_steps: int = 50,
    guidance: float = 1.0,
    batch: int = 64,
    python_path: str | Path | Sequence[str | Path] = (),
) -> SynthesizePlan: ...
def train_autoencoder(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    splits: Literal["redraw", "given"] = "redraw",
    split_seed: int = 0,
    validation_share: float = 0.15,
    test_share: float = 0.15,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    downsampling: Literal[4, 8] = 4,
    latent_channels: int = 4,
    block_channels: int | Sequence[int] = (),
    kl_weight: float = 1e-06,
    epochs: int = 25,
    patience: int = 10,
    lr: float = 0.002,
    batch_size: int = 4,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    seed: int = 0,
    device: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
) -> Trained:
    """Train an autoencoder, and measure it on patients who had no part in it.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainAutoencoderOptions`.

    Returns:
        Result of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: diffusers is not installed.
        MemoriskError: The training failed; what is done is kept.
    """

def train_classifier(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    model: str = "auto",
    weights: str | None = None,
    seed: int = 0,
    splits: Literal["redraw", "given"] = "redraw",
    split_seed: int = 0,
    held_out: float = 0.15,
    device: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    epochs: int | None = None,
    batch_size: int = 64,
    lr: float | None = None,
    optimizer: Literal["adam", "adamw", "sgd", "nesterov"] = "adam",
    schedule: Literal["cosine", "constant", "step", "exponential"] = "cosine",
    weight_decay: float = 0.0,
    class_weights: bool = False,
    augment: str | None = None,
    head: Literal["single", "binary", "multi", "first"] = "single",
    normalise: Literal["dataset", "model", "none"] | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    regime: Literal["full", "lora", "dp-lora", "dp-full"] | Sequence[Literal["full", "lora", "dp-lora", "dp-full"]] = (
        "full",
    ),
    epsilon: float | Sequence[float] = (),
    delta: float = 1e-05,
    clip: float = 1.0,
    lora_rank: int = 8,
    lora_alpha: float = 16.0,
) -> TrainedClassifiers:
    """Train one classifier per regime, and measure each on images that none of them saw.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainClassifierOptions`; ``regime`` and ``epsilon`` may name several.

    Returns:
        Classifiers that were trained, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MemoriskError: A training failed; what is done is kept.
    """

def train_detector(
    images: ImageSource,
    *,
    out: str | Path,
    progress: Callable[[str, int, int], None] = ...,
    splits: Literal["redraw", "given"] = "redraw",
    split_seed: int = 0,
    validation_share: float = 0.15,
    test_share: float = 0.15,
    kind: Literal["copy", "lcmem", "siamese", "siamese-ntxent"] = "copy",
    backbone: str | None = None,
    encoder: str | None = None,
    loss: Literal["triplet", "infonce"] | None = None,
    protocol: Literal["paper", "corrected"] = "corrected",
    augment: Literal["weak", "strong"] | None = None,
    stages: Literal[1, 2] | None = None,
    epochs: int | None = None,
    patience: int | None = None,
    lr: float | None = None,
    batch_size: int | None = None,
    stage2_epochs: int | None = None,
    stage2_patience: int | None = None,
    stage2_lr: float | None = None,
    stage2_batch_size: int | None = None,
    pairs: int | None = None,
    identities: Literal["use", "ignore"] | None = None,
    bce_share: float | None = None,
    frozen_epochs: int | None = None,
    margin: float | None = None,
    temperature: float | None = None,
    dimension: int | None = None,
    sample_normalisation: float | None = None,
    stage1_augment: str | None = None,
    same_dataset: float | None = None,
    weight_decay: float | None = None,
    network_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    seed: int = 0,
    device: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = 30.0,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
) -> Trained:
    """Train a detector, and measure it on patients who had no part in it.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are not needed.
        out: The run folder: new, empty, or a run of the same command to continue.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainDetectorOptions`.

    Returns:
        Result of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: kornia or pytorch-metric-learning is not installed.
        MemoriskError: The training failed; what is done is kept.
    """

def train_generator(
    images: ImageSource,
    *,
    out: str | Path,
    on_snapshot: Callable[[Snapshot], bool | None] | None = None,
    progress: Callable[[str, int, int], None] = ...,
    splits: Literal["redraw", "given"] = "redraw",
    split_seed: int = 0,
    validation_share: float = 0.15,
    test_share: float = 0.15,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = 60.0,
    kind: Literal["dit", "gan"] = "dit",
    network: str = "tiny/4",
    weights: str | None = None,
    latent: str = "pixels",
    conditioned_on: Literal["auto", "none", "class", "vector"] = "auto",
    conditioning: Literal["label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label"] | None = None,
    drop_condition: float = 0.1,
    learn_sigma: bool | None = None,
    noise_schedule: Literal["linear", "cosine"] = "linear",
    steps: int = 10000,
    batch_size: int | None = None,
    lr: float | None = None,
    warmup: int = 0,
    weight_decay: float = 0.0,
    clip: float = 1.0,
    ema: float = 0.9999,
    flip: bool = False,
    snapshot_every: int = 1000,
    keep_snapshots: bool = False,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    gan_style: int = 64,
    gan_mapping_layers: int = 2,
    gan_channels: int = 1024,
    gan_channels_max: int = 64,
    gan_r1: float | None = None,
    gan_path: float = 2.0,
    gan_style_mixing: float = 0.9,
    gan_augment: Literal["ada", "fixed", "none"] = "ada",
    gan_augmentations: str = "bgc",
    gan_augment_p: float = 0.0,
    gan_augment_images: int = 500000,
    gan_ema_images: int = 10000,
    gan_truncation: float = 1.0,
    conditioning_protocol: Literal["corrected", "paper"] = "corrected",
    conditioning_network: str = "small_cnn",
    conditioning_weights: str | None = None,
    conditioning_epochs: int | None = None,
    conditioning_noise: float = 0.1,
) -> TrainedGenerator:
    """Train a generator of images.

    Args:
        images: Source of the images, as for `memorisk.audit_classifier`; labels are classes, where the images have any.
        out: The run folder: new, empty, or a run of the same command to continue.
        on_snapshot: Function called at every look with a `memorisk.training.generators.snapshots.Snapshot`; False ends
            the training there.
        progress: Function called with (stage, done, total).
        **settings: Any field of `TrainGeneratorOptions`.

    Returns:
        Generator and summary of the training, also saved in ``out``.

    Raises:
        InputError: Bad input or settings; nothing was written.
        MissingExtraError: diffusers or accelerate is not installed.
        MemoriskError: The training failed; what is done is kept.
    """

def watch_training(
    run: str | Path,
    *,
    train: ImageSource | Manifest | ImageStore | ndarray | None = None,
    held_out: ImageSource | Manifest | ImageStore | ndarray | None = None,
    out: str | Path | None = None,
    follow: bool = False,
    stop: bool = False,
    poll: float = 5.0,
    on_look: Callable[[Evaluation], None] | None = None,
    progress: Callable[[str, int, int], None] = ...,
    held_out_split: str | None = None,
    train_split: str | None = None,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    detector: str = "default",
    measure: str = "auto",
    domain: Literal["signed", "shift", "softplus"] | None = None,
    input_size: int | None = None,
    normalise: str | None = None,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    device: str = "auto",
    images: int = 200,
    every: int = 1000,
    looks: int | None = None,
    nominal: float = 0.05,
    level: float = 0.1,
    stop_on: Literal["auto", "share", "test", "listed", "never"] = "auto",
    error: float = 0.05,
    patience: int = 1,
    quality: str = "auto",
    seed: int = 0,
    log: Literal["tensorboard", "mlflow"] | Sequence[Literal["tensorboard", "mlflow"]] = (),
    log_to: str | Path | None = None,
    redact: bool = False,
    sampler: Literal["ddim", "dpm-solver", "ddpm"] = "ddim",
    sampling_steps: int = 50,
    guidance: float = 1.0,
    batch: int = 64,
) -> WatchResult:
    """Look at everything that a training has left, and with ``follow`` at what it leaves later.

    Args:
        run: The folder of a run of ``memorisk train generator``, or a folder with a folder of images for each step.
        train: Images that the generator is trained on; for a run those that it names.
        held_out: Images of patients that the training does not see; for a run its validation images.
        out: Folder for what is seen; for a run ``watch`` in it.
        follow: Continue until there is a ``training.json`` in ``run``.
        stop: Write ``stop.json`` when the rule says so: into a run, whose training then ends at its next look; else
            into ``out``, where one's own training may look for it.
        poll: Seconds between two visits.
        on_look: Called with every look.
        progress: Called with (stage, done, total).
        **settings: Any field of `WatchOptions`.

    Raises:
        InputError: Bad input or settings, or nothing to look at; nothing was written.
    """

def watch_within(
    images: ImageSource,
    *,
    out: str | Path,
    watching: WatchSettings | None = None,
    progress: Callable[[str, int, int], None] = ...,
    splits: Literal["redraw", "given"] = "redraw",
    split_seed: int = 0,
    validation_share: float = 0.15,
    test_share: float = 0.15,
    layout: Literal["auto", "folder", "dicom", "nifti", "table", "arrays", "shards"] = "auto",
    image_root: str | Path | None = None,
    follow_links: bool = False,
    image_column: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    dataset_column: str | None = None,
    labels_csv: str | Path | None = None,
    drop_label: str | Sequence[str] = (),
    label_from: str | None = None,
    group_from: str | None = None,
    dicom_group: str = "PatientID",
    frames: Literal["auto", "first", "middle", "all", "volume"] = "auto",
    frame_step: int = 1,
    slice_plane: Literal["axial", "coronal", "sagittal"] = "axial",
    depth: Literal[8, 16] = 8,
    window: Literal["declared", "percentile", "full"] = "declared",
    size: int | None = None,
    resize: Literal["squash", "crop", "pad"] = "squash",
    channels: Literal["auto", 1, 3] = "auto",
    max_pixels: int = 100000000,
    skip_missing: bool = False,
    skip_unreadable: bool = False,
    sample: int | None = None,
    sample_seed: int = 0,
    store: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int = 1,
    checkpoint_seconds: float = 60.0,
    kind: Literal["dit", "gan"] = "dit",
    network: str = "tiny/4",
    weights: str | None = None,
    latent: str = "pixels",
    conditioned_on: Literal["auto", "none", "class", "vector"] = "auto",
    conditioning: Literal["label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label"] | None = None,
    drop_condition: float = 0.1,
    learn_sigma: bool | None = None,
    noise_schedule: Literal["linear", "cosine"] = "linear",
    steps: int = 10000,
    batch_size: int | None = None,
    lr: float | None = None,
    warmup: int = 0,
    weight_decay: float = 0.0,
    clip: float = 1.0,
    ema: float = 0.9999,
    flip: bool = False,
    snapshot_every: int = 1000,
    keep_snapshots: bool = False,
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto",
    gan_style: int = 64,
    gan_mapping_layers: int = 2,
    gan_channels: int = 1024,
    gan_channels_max: int = 64,
    gan_r1: float | None = None,
    gan_path: float = 2.0,
    gan_style_mixing: float = 0.9,
    gan_augment: Literal["ada", "fixed", "none"] = "ada",
    gan_augmentations: str = "bgc",
    gan_augment_p: float = 0.0,
    gan_augment_images: int = 500000,
    gan_ema_images: int = 10000,
    gan_truncation: float = 1.0,
    conditioning_protocol: Literal["corrected", "paper"] = "corrected",
    conditioning_network: str = "small_cnn",
    conditioning_weights: str | None = None,
    conditioning_epochs: int | None = None,
    conditioning_noise: float = 0.1,
) -> MemorizationWatch:
    """Make the ``on_snapshot`` of `memorisk.train_generator` that watches a training and, by the rule, ends it.

    It looks at the training images and, as held-out ones, at the validation part; never at the test part.

    Args:
        images: Images of the training, as `train_generator` takes them.
        out: Run folder of the training; the looks are in ``watch`` in it.
        watching: Settings of the watch; the looks are planned by the training's steps.
        progress: Called with (stage, done, total).
        **settings: Settings of the training.

    Raises:
        InputError: Bad input or settings, or too few validation patients for the rule; nothing was written.

    Example:
        >>> watch = watch_within("scans/", out="runs/g", steps=20_000)  # doctest: +SKIP
        >>> memorisk.train_generator("scans/", out="runs/g", steps=20_000, on_snapshot=watch)  # doctest: +SKIP
    """
