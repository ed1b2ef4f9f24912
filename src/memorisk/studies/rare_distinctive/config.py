"""The file of the study of paper 000: every name and every setting is checked before anything is run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memorisk.audits.classifier.explanations.result import BEFORE
from memorisk.audits.classifier.explanations.spaces import check_features
from memorisk.audits.classifier.options import PAPER_SEEDS, ClassifierOptions, saved_options
from memorisk.models.classifiers.specs import model_spec
from memorisk.runs.environment import check_device_name
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint
from memorisk.runs.settings import check_names, setting_names
from memorisk.studies.engine.study_file import check_keys, read_protocol, read_section

STUDY_KEYS = ("protocol", "seeds", "settings", "architectures", "datasets", "defences", "explain")
DATASET_KEYS = ("images", "bases", "skip", "seeds")
DEFENCE_KEYS = ("architecture",)
EXPLAIN_KEYS = ("features", "feature_weights", "feature_size", "probes")


@dataclass(frozen=True)
class StudyConfig:
    """A study as its file describes it, checked.

    Attributes:
        protocol: Protocol of the study: "paper" or "corrected".
        cells: Source of images and settings of the audit, by architecture and data set.
        defences: Source of images and settings of the comparison of regimes, by data set.
        explain: Arguments of `memorisk.explain` for each cell; empty for none.
        bases: The user's reading of what makes a class distinctive, by data set and class.
    """

    protocol: str
    cells: dict[tuple[str, str], tuple[str, dict[str, Any]]]
    defences: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    explain: dict[str, Any] = field(default_factory=dict)
    bases: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def pictured(self) -> frozenset[str]:
        """Return the data sets of which figure 7 shows images: their settings have a gallery and do not redact."""
        return frozenset(d for (_, d), (_, s) in self.cells.items() if s["gallery"] and not s["redact"])


def read_study(config: Mapping[str, Any]) -> StudyConfig:
    """Check a study's file: every name, every setting, before anything is run.

    Raises:
        InputError: A key, setting or name is unknown, or something is missing.
    """
    protocol = read_protocol(config, STUDY_KEYS)
    architectures, datasets = (read_section(config, name) for name in ("architectures", "datasets"))
    for what in (architectures, datasets):
        _check_distinct_folders(what)
    if not isinstance(config.get("settings") or {}, Mapping):
        raise InputError(f"settings needs settings by name, not {one_line(config['settings'], 60)}")
    cells, bases = {}, {}
    for dataset, dataset_settings in datasets.items():
        if "images" not in dataset_settings:
            raise InputError(f"data set {one_line(dataset, 60)} names no images: a folder, a table, ham10000:FOLDER")
        _check_images(dataset, dataset_settings["images"])
        if not isinstance(dataset_settings.get("skip") or (), list | tuple) or not isinstance(
            dataset_settings.get("bases") or {}, Mapping
        ):
            raise InputError(f"{one_line(dataset, 60)}: skip is a list, as in [CNN], and bases are texts by class")
        for name in dataset_settings.get("skip") or ():
            if name not in architectures:
                raise unknown_name(f"architecture to skip on {dataset}", name, list(architectures))
        bases |= {(dataset, str(label)): str(basis) for label, basis in (dataset_settings.get("bases") or {}).items()}
        for architecture, of_architecture in architectures.items():
            if architecture not in (dataset_settings.get("skip") or ()):
                settings = _settings(config, protocol, dataset, dataset_settings, of_architecture)
                cells[architecture, dataset] = (str(dataset_settings["images"]), settings)
    if not cells:
        raise InputError("every architecture is skipped on every data set: nothing is left of the study")
    defences = {}
    for dataset, defence_settings in read_section(config, "defences", needed=False).items():
        if dataset not in datasets:
            raise unknown_name("data set of the defences", dataset, list(datasets))
        if defence_settings.get("architecture") not in architectures:
            asks = str(defence_settings.get("architecture"))
            raise unknown_name(f"architecture of the defence on {dataset}", asks, list(architectures))
        base = {k: v for k, v in datasets[dataset].items() if k not in ("intervene", "classes")}
        of_architecture = architectures[defence_settings["architecture"]]
        more = {k: v for k, v in defence_settings.items() if k not in DEFENCE_KEYS}
        defences[dataset] = (
            str(base["images"]),
            _settings(config, protocol, dataset, base, of_architecture | more),
        )
    explain_settings = config.get("explain") or {}
    check_keys("explain", explain_settings, EXPLAIN_KEYS)
    _check_explain(explain_settings, cells)
    return StudyConfig(protocol, cells, defences, dict(explain_settings), bases)


def _check_images(dataset: str, images: Any) -> None:
    """Refuse images that are neither a path nor a name; a public function has made a name of those in memory.

    Raises:
        InputError: The images are something else.
    """
    if not isinstance(images, str | Path | int) or isinstance(images, bool):  # YAML reads a folder 2024 as a number
        what = "empty" if images is None else f"an object of type {one_line(type(images).__name__, 60)}"
        raise InputError(
            f"data set {one_line(dataset, 60)}: images is {what}; give a path, a published data set, a table of pandas "
            "with a column of files, arrays (X, y, groups) or a data set of torch or of Hugging Face"
        )


def _check_explain(options: Mapping[str, Any], cells: dict[tuple[str, str], tuple[str, dict[str, Any]]]) -> None:
    """Refuse at once what `memorisk.explain` would refuse after the first cell was trained.

    Raises:
        InputError: Features cannot be computed, or probes need models that will not be kept or have no second seed.
    """
    if not options:
        return
    if not isinstance(options.get("probes", False), bool):
        raise InputError(
            f"explain: probes is {one_line(repr(options['probes']), 40)}; give true or false, without quotes"
        )
    features = options.get("features")
    check_features(
        (BEFORE,) if features is None else features, options.get("feature_weights"), options.get("feature_size")
    )
    for (architecture, dataset), (_, settings) in cells.items():
        name = f"{one_line(dataset, 60)}, {one_line(architecture, 60)}"
        if options.get("probes") and settings["discard_weights"]:
            raise InputError(f"explain: probes need the models of {name}: leave discard_weights out")
        if options.get("probes") and len(settings["seeds"]) < 2:
            raise InputError(f"explain: probes need two seeds at least, {name} has {len(settings['seeds'])}")


def _settings(
    config: Mapping[str, Any],
    protocol: str,
    dataset: str,
    of_dataset: Mapping[str, Any],
    of_architecture: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the checked settings of one audit: the study's, then the data set's, then the architecture's."""
    own = {k: v for k, v in of_dataset.items() if k not in DATASET_KEYS}
    seeds = of_dataset.get("seeds") or config.get("seeds") or PAPER_SEEDS
    if not isinstance(seeds, list | tuple) or not all(isinstance(s, int) and not isinstance(s, bool) for s in seeds):
        raise InputError(f"seeds is {one_line(seeds, 60)}; it must be a list of whole numbers, as in [123, 456]")
    if protocol == "corrected" and not of_dataset.get("seeds"):
        # the same starts on every data set would be one draw of starts and not several
        apart = int(fingerprint(dataset), 16)
        seeds = [(int(seed) + apart) % (1 << 32) for seed in seeds]
    merged = {
        "checkpoint_seconds": 0.0,  # a killed study loses at most the epoch in hand
        "gallery": False,  # pages of studies are written to be shared
        "protocol": protocol,
        **(config.get("settings") or {}),
        **own,
        **of_architecture,
        "seeds": tuple(int(s) for s in seeds),
    }
    names = setting_names(ClassifierOptions)
    check_names(f"setting of {one_line(dataset, 60)}", merged, names)
    options = saved_options(merged)
    check_device_name(options.device)
    for network in () if options.train else options.model:
        if network != "auto":
            model_spec(network)
    return {name: getattr(options, name) for name in names}


def _check_distinct_folders(names: Mapping[str, Any]) -> None:
    by_folder: dict[str, str] = {}
    for name in names:
        other = by_folder.setdefault(slug(name).lower(), name)
        if other != name:
            raise InputError(f"{one_line(other, 60)} and {one_line(name, 60)} would share a folder: rename one of them")


def slug(name: str) -> str:
    """Return a name as a folder: letters, digits, dot, dash and underscore."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or fingerprint(name)
