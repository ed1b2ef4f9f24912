"""The file of ``memorisk study unique-features``: data sets, networks, canaries, checked before anything is run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memorisk.audits.feature.marks import choose_mark
from memorisk.audits.feature.options import TEXT, MarkOptions
from memorisk.images.alterations.mark_controls import CONTROL_KINDS
from memorisk.images.options import ImageOptions
from memorisk.models.classifiers.specs import UNIQUE_NETWORKS, model_spec
from memorisk.runs.environment import check_device_name
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_between, check_counts, check_names, check_types, setting_names, settings_of
from memorisk.studies.engine.study_file import (
    StudyProtocol,
    check_keys,
    read_image_set,
    read_names,
    read_protocol,
    read_section,
    reading_study,
    refuse_value,
)
from memorisk.training.engine.options import TrainOptions

PLAIN = "none"
REGULARISERS = ("dropout", "augmentation", "dropout+augmentation", "batch_norm")
"""Regularisers of table 3, in its order; ``+`` may join any of ``dropout``, ``augmentation`` and ``batch_norm``."""
_PARTS = ("dropout", "augmentation", "batch_norm")
LEVEL = 0.05
"""Level of a test of one canary; intervals hold 1 - LEVEL."""
STUDIES = ("networks", "random", "regularised", "characterised")
STUDY_KEYS = ("protocol", "settings", "training", "datasets")
AUGMENT = {1: "contrast,shift1", 3: "contrast,hflip"}
"""Augmentation by channels (paper 002, A.4): contrast and 27 x 27 crops for grey sets of 28 px, contrast and flips for
CIFAR-10."""
TRAINING: dict[str, dict[str, Any]] = {
    "mlp1": {"lr": 3e-4, "batch_size": 128},
    "cnn1": {"lr": 3e-4, "batch_size": 128},
    "cnn2": {"lr": 3e-4, "batch_size": 512},
    "densenet100": {
        "lr": 0.1, "batch_size": 64, "optimizer": "nesterov", "weight_decay": 1e-4, "schedule": "step", "epochs": 300,
    },
}  # fmt: skip
"""Training settings of each network (A.3; DenseNet as Huang et al. 2018 trained it on CIFAR)."""


@dataclass(frozen=True, kw_only=True)
class UniqueOptions(MarkOptions, ClusterOptions):
    """Settings of the whole study."""

    mark: str = "A"
    """Mark, as for `audit feature`."""
    n_controls: int = 99
    """Number of controls, as for `audit feature`."""
    random: int = 100
    """Number of canaries drawn at random (table 1, figures 3a to 6)."""
    runs: int = 5
    """Number of trainings of each of them, with other seeds (B.2)."""
    shown_runs: int = 30
    """Number of random canaries in figure 3a."""
    highest: int = 15
    """Number of canaries of the highest self-influence (tables 2 and 3)."""
    lowest: int = 15
    """Number of canaries of the lowest self-influence."""
    references: int = 20
    """Number of models trained alike without the mark, for each network and regulariser."""
    latent: int = 100
    """Number of canaries of models that start alike, for the latent that only the mark excites (A.6)."""
    influenced: int = 5
    """Number of images of the highest, and of the lowest, self-influence that are trained on again marked (section
    3.3)."""
    profiled: int = 10
    """Number of models, and of references, for which M is computed after every epoch (figure 3c)."""
    redraws: int = 3
    """Number of redraws of the random patches (B.1)."""
    n_probes: int = 1000
    """Number of probes of each data set."""
    validation: float = 0.1
    """Share of the training images that decide when to stop."""
    epochs: int = 500
    """Largest number of epochs of a training; networks that have their own in the file take those."""
    patience: int = 10
    """Epochs without a lower validation loss after which a training ends, unless its rate falls by plan."""
    seed: int = 0
    """Random seed of everything that is drawn."""
    device: str = "auto"
    """Device: cpu, cuda, or auto, which takes a GPU when there is one."""
    processes: int = 0
    """Number of trainings at the same time on a CPU; 0 for one per core."""
    keep_weights: bool = False
    """Whether the weights of every model are kept in the folder."""
    redact: bool = False
    """Whether the page leaves out the mark, which may name a person, and the gallery."""
    gallery: bool = False
    """Whether the page shows the canaries of tables 1 and 2: images of the training data."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        self.check_cluster()
        check_counts(self, n_controls=1, random=0, runs=1, shown_runs=1, highest=0, lowest=0, references=0, latent=0)
        check_counts(self, profiled=0, influenced=0, redraws=1, n_probes=2, epochs=1, patience=1, seed=0, processes=0)
        check_counts(self, mark_scale=1)
        check_between(self, "validation", example="0.1")
        if not (self.random or self.highest or self.lowest or self.latent):
            raise InputError("no canary is requested: give random, highest, lowest or latent")
        if not 0 < self.opacity <= 1:
            raise InputError(f"opacity is {self.opacity}; it must lie above 0, where nothing is burnt in, and up to 1")
        if not isinstance(self.mark, str) or not self.mark:
            raise InputError("no mark: name a letter, text:..., pattern:SEED or an image file")
        if self.font is not None and not self.mark.startswith(TEXT) and self.controls in CONTROL_KINDS:
            raise InputError(f"font is for text, and mark is {one_line(self.mark, 40)}: name text:..., or no font")
        check_device_name(self.device)


@dataclass(frozen=True)
class UniqueSet:
    """One data set of the study.

    Attributes:
        images: Source of the training images, as for `audit classifier`.
        probes: Source of the probe images, which no model was trained on.
        reading: Options for reading the training images.
        augment: Augmentation that the regulariser "augmentation" uses; None for that of `AUGMENT`.
        networks: Names of the networks trained here, by study: ``networks`` (table 2), ``random`` (table 1, figures 3a
            to 6), ``regularised`` (table 3), ``characterised`` (figures 3b, 3c; self-influence before and after).
        regularisers: Regularisers of table 3.
    """

    images: str
    probes: str
    reading: ImageOptions
    augment: str | None = None
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    regularisers: tuple[str, ...] = REGULARISERS

    def asks(self, study: str) -> tuple[str, ...]:
        """Return the networks of a study."""
        return self.networks.get(study, ())


@dataclass(frozen=True)
class UniqueStudy:
    """The study as its file asks for it, checked.

    Attributes:
        protocol: Protocol of the study: "corrected" (every model has a seed of its own) or "paper" (one seed for all
            models of a run, no references).
        options: Settings of all data sets.
        datasets: Data sets by name.
        training: Settings by network that differ from `TRAINING`.
    """

    protocol: StudyProtocol
    options: UniqueOptions
    datasets: Mapping[str, UniqueSet]
    training: Mapping[str, Mapping[str, Any]]


@reading_study()
def read_unique(config: Mapping[str, Any]) -> UniqueStudy:
    """Check a study's file: every name, every setting.

    Raises:
        InputError: A key, setting or name is unknown, or something is missing.
    """
    protocol = read_protocol(config, STUDY_KEYS)
    values = config.get("settings") or {}
    check_keys("settings", values, setting_names(UniqueOptions))
    options = settings_of(UniqueOptions, values)
    choose_mark(options, options.where)
    if protocol == "paper":
        options = replace(options, references=0)
    training = read_section(config, "training", needed=False)
    sets = read_section(config, "datasets")
    datasets = {name: _read_set(name, settings) for name, settings in sets.items()}
    study = UniqueStudy(protocol, options, datasets, training)
    for one in datasets.values():
        network = next((one.asks(which)[0] for which in STUDIES if one.asks(which)), None)
        if one.augment is not None and network is not None:
            train_options(study, network, "augmentation", 1, one.augment)
    for name in training:
        model_spec(name)
        train_options(study, name, PLAIN, 1, None)
    if not any(one.asks(which) for one in datasets.values() for which in STUDIES):
        raise InputError(f"no data set names a network: give one of {', '.join(STUDIES)}, as in networks: [mlp1]")
    return study


def train_options(
    study: UniqueStudy, network: str, regulariser: str, channels: int, augment: str | None
) -> TrainOptions:
    """Return the training options of a network under a regulariser.

    Args:
        study: Study with its settings.
        network: Plain name of the network.
        regulariser: `PLAIN`, or some of ``dropout``, ``augmentation``, ``batch_norm`` joined by ``+``.
        channels: Number of channels of the images.
        augment: The data set's own augmentation, if it has one.

    Raises:
        InputError: A setting is unknown or not allowed.
    """
    spec = model_spec(network)
    values: dict[str, Any] = {"epochs": study.options.epochs, "lr": spec.lr, "schedule": "constant"}
    values |= {"normalise": "dataset", **TRAINING.get(network, {}), **study.training.get(network, {})}
    allowed = [name for name in setting_names(TrainOptions) if name not in ("regime", "epsilon", "head", "augment")]
    check_names(f"training setting of {network}", values, allowed)
    if "augmentation" in regulariser.split("+"):
        values["augment"] = augment or AUGMENT[channels]
    return TrainOptions(**values)


def patience_of(study: UniqueStudy, options: TrainOptions) -> int:
    """Return the epochs without a lower validation loss after which a training ends.

    The number is that of all epochs where the rate is yet to fall. Ten epochs at DenseNet's first learning rate, 0.1,
    end
    its training long before that falls, at half and at three quarters of 300 epochs (Huang et al. 2018). The weights
    kept
    are those of the best validation epoch either way.

    Args:
        study: Study that sets the patience.
        options: Options of the training.
    """
    return options.epochs or study.options.epochs if options.schedule in ("step", "cosine") else study.options.patience


def network_name(network: str, regulariser: str) -> str:
    """Return the name of a network with its dropout and batch normalisation."""
    parts = regulariser.split("+")
    end = "".join(f"_{short}" for part, short in (("dropout", "dropout"), ("batch_norm", "bn")) if part in parts)
    return network + end


def _read_set(name: str, values: Any) -> UniqueSet:
    """Read one data set.

    Raises:
        InputError: Something is missing, unknown or not allowed.
    """
    title = one_line(name, 60)
    keys = ["images", "probes", "augment", "regularisers", *STUDIES]
    options = read_image_set(title, values, keys, ("images", "probes"))
    networks = {which: _names(f"{title}: {which}", values.get(which)) for which in STUDIES}
    for which, chosen in networks.items():
        for network in chosen:
            model_spec(network)
            plain = network.partition("_")[0]
            if plain in UNIQUE_NETWORKS and network != plain:
                raise InputError(
                    f"{title}: {which} names {network}; name {plain}, regularisers are named in regularisers"
                )
    regularisers = _names(f"{title}: regularisers", values.get("regularisers")) or REGULARISERS
    for one in regularisers if networks["regularised"] else ():
        for part in one.split("+"):
            if part not in _PARTS:
                raise unknown_name(f"regulariser of {title}", part, _PARTS)
        for network in networks["regularised"]:
            if network_name(network, one) != network and network not in UNIQUE_NETWORKS:
                raise InputError(f"{title}: {one} exists for {', '.join(UNIQUE_NETWORKS)}, not for {network}")
    augment = values.get("augment")
    hint = "give names joined by commas, as in contrast,hflip"
    refuse_value(augment is None or isinstance(augment, str), title, "augment", augment, hint)
    return UniqueSet(values["images"], values["probes"], options, augment, networks, regularisers)


def _names(title: str, value: Any) -> tuple[str, ...]:
    return () if value is None or value == [] else read_names(title, value)
