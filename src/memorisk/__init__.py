"""memorisk: what an image model, or a set of generated images, remembers of the people in its training data.

Public names are loaded when they are first used, so that ``import memorisk`` (and ``memorisk --help``) stay quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "assess_quality": "memorisk.audits.quality.quality",
    "audit_classifier": "memorisk.audits.classifier",
    "audit_defences": "memorisk.audits.defence",
    "audit_feature": "memorisk.audits.feature",
    "audit_losses": "memorisk.audits.losses",
    "audit_synthetic": "memorisk.audits.synthetic.audit",
    "benchmark_copies": "memorisk.audits.reid.copies",
    "benchmark_detectors": "memorisk.audits.detectors.benchmark",
    "benchmark_reid": "memorisk.audits.reid.reid",
    "compare": "memorisk.audits.compare",
    "check_images": "memorisk.images.checks",
    "create_model": "memorisk.models.zoo",
    "explain": "memorisk.audits.explain",
    "filter_synthetic": "memorisk.audits.filter.filtering",
    "gate": "memorisk.audits.release.gate",
    "generate": "memorisk.training.generating",
    "kept_run": "memorisk.runs.kept",
    "load_detector": "memorisk.models.detectors",
    "load_features": "memorisk.training.feature_matrix",
    "load_generator": "memorisk.models.generators",
    "load_latents": "memorisk.training.latent_store",
    "load_manifest": "memorisk.images.sources",
    "local_source": "memorisk.runs.mirror",
    "MemorizationWatch": "memorisk.audits.watch.watching",
    "measure_quality": "memorisk.audits.quality.measuring",
    "read_latents": "memorisk.training.latent_store",
    "release": "memorisk.audits.release.exporting",
    "Result": "memorisk.report.result",
    "save_dataset": "memorisk.images.source_objects",
    "study_generators": "memorisk.audits.generators.study",
    "study_rare_distinctive": "memorisk.audits.study",
    "study_unique_features": "memorisk.audits.unique.study",
    "synthesize": "memorisk.audits.synthesize.synthesizing",
    "track": "memorisk.audits.release.tracking",
    "train_autoencoder": "memorisk.training.autoencoder",
    "train_classifier": "memorisk.training.classifier",
    "train_detector": "memorisk.training.detector",
    "train_generator": "memorisk.training.generator",
    "watch_training": "memorisk.audits.watch.running",
    "watch_within": "memorisk.audits.watch.within",
    "write_statement": "memorisk.audits.release.stating",
}

__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name from the room that holds it; a function takes data sets in Python as sources, too."""
    if name in _PUBLIC:
        taking = import_module("memorisk.images.source_objects").taking_datasets
        return taking(getattr(import_module(_PUBLIC[name]), name))
    raise AttributeError(f"module 'memorisk' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
