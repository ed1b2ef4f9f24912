"""memorisk: what an image model, or a set of generated images, remembers of the people in its training data.

Public names are loaded when they are first used, so that ``import memorisk`` (and ``memorisk --help``) stay quick.
"""

from importlib import import_module
from types import FunctionType
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "assess_quality": "memorisk.audits.quality.run",
    "audit_classifier": "memorisk.audits.classifier.run",
    "audit_defences": "memorisk.audits.classifier.retraining.defences",
    "audit_feature": "memorisk.audits.feature.run",
    "audit_generator": "memorisk.audits.generator.run",
    "audit_losses": "memorisk.audits.classifier.losses",
    "audit_patient": "memorisk.audits.classifier.patient",
    "audit_synthetic": "memorisk.audits.synthetic.run",
    "benchmark_copies": "memorisk.studies.pairs.copies",
    "benchmark_detectors": "memorisk.studies.detectors.benchmark",
    "benchmark_reid": "memorisk.studies.pairs.reid",
    "compare": "memorisk.audits.classifier.comparison",
    "check_images": "memorisk.images.set_check.check",
    "create_model": "memorisk.models.classifiers.zoo",
    "explain": "memorisk.audits.classifier.explanations.run",
    "filter_synthetic": "memorisk.audits.filter.run",
    "InputError": "memorisk.runs.errors",
    "gate": "memorisk.audits.release.gate",
    "generate": "memorisk.training.generators.generation",
    "load_detector": "memorisk.models.copy_detectors",
    "load_features": "memorisk.training.features.matrix",
    "load_generator": "memorisk.models.generators.generators",
    "load_latents": "memorisk.training.autoencoders.latent_store",
    "load_manifest": "memorisk.images.sources.registry",
    "local_source": "memorisk.runs.storage.mirror",
    "MemorizationWatch": "memorisk.audits.watch.memorization_watch",
    "measure_quality": "memorisk.audits.quality.figures",
    "read_latents": "memorisk.training.autoencoders.latent_store",
    "MemoriskError": "memorisk.runs.errors",
    "no_progress": "memorisk.runs.workload",
    "release": "memorisk.audits.release.export",
    "Result": "memorisk.report.result",
    "save_dataset": "memorisk.images.sources.datasets",
    "study_generators": "memorisk.studies.generators.study",
    "study_rare_distinctive": "memorisk.studies.rare_distinctive.study",
    "study_unique_features": "memorisk.studies.unique_features.study",
    "synthesize": "memorisk.audits.synthesize.run",
    "track": "memorisk.audits.release.tracking",
    "train_autoencoder": "memorisk.training.autoencoders.command",
    "train_classifier": "memorisk.training.classifiers.command",
    "train_detector": "memorisk.training.detectors.command",
    "train_generator": "memorisk.training.generators.command",
    "watch_training": "memorisk.audits.watch.run",
    "watch_within": "memorisk.audits.watch.run",
    "write_statement": "memorisk.audits.release.statement",
}

__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a public name from the room that holds it.

    A function takes data sets in Python as sources, too, and shows how far it is; any other name is given as it is.
    """
    if name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
        if not isinstance(value, FunctionType) or name == "no_progress":
            return value
        return _with_progress(value)
    if not name.startswith("_"):
        kinds = import_module("memorisk.report.kinds")
        for kind in kinds.KINDS.more.values():  # audits of other packages
            if kind.function.endswith(f":{name}"):
                return _with_progress(kinds.load_part(kind.function))
    raise AttributeError(f"module 'memorisk' has no attribute {name!r}")


def _with_progress(function: Any) -> Any:
    """Return a function that takes data sets in Python as sources, too, and shows how far it is."""
    function = import_module("memorisk.images.sources.datasets").taking_datasets(function)
    return import_module("memorisk.cli.show.common").showing_progress(function)


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
