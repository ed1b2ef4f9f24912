"""The file of ``memorisk study generators``: data sets and generators, checked before anything is run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from memorisk.images.options import ImageOptions
from memorisk.models.encoders.feature_sources import parse_source, refuse_missing_sources
from memorisk.models.settings import SamplingOptions
from memorisk.report.options import ReportOptions
from memorisk.runs.environment import check_device_name
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.executors.placement import ClusterOptions
from memorisk.runs.settings import check_between, check_counts, check_types, setting_names, settings_of
from memorisk.studies.engine.study_file import (
    check_keys,
    read_image_set,
    read_names,
    read_section,
    reading_study,
    refuse_value,
)
from memorisk.training.generators.options import GeneratorOptions, PseudoOptions

ALL, NO_QUALITY = "all", "none"
STUDY_KEYS = ("settings", "generator", "classifiers", "datasets", "arms")
SET_KEYS = ("images", "splits", "split_seed", "held_out")
KIND_NAMES = {"dit": "DiT", "gan": "StyleGAN2"}
"""Names of the kinds of generators in tables, by the setting `kind`."""
ARM_KEYS = ("datasets", "generator", "training_images", "duplicates", "snapshots", "seeds", "images")
STUDY_SETTINGS = ("seed", "snapshot_every", "device", "threads", "checkpoint_seconds", "keep_snapshots")
"""Settings of a training that the study sets itself."""


@dataclass(frozen=True, kw_only=True)
class GeneratorsOptions(SamplingOptions, ReportOptions, ClusterOptions):
    """Settings of the whole study."""

    gallery: bool = False
    """Whether the page shows the closest pairs, which are images of patients; pages of studies are written to be
    shared."""
    detectors: tuple[str, ...] = ("pixels:32",)
    """Detectors that compare images: their folders, or sources of features."""
    quality: str = ""
    """Features of FID, KID, MiFID, precision and recall, density and coverage; the first detector's if not given,
    "none" for no such figures."""
    images: int = 1000
    """Number of images that are drawn at each reading; 0 for as many as the generator was trained on."""
    nominal: float = 0.05
    """Share of new patients that count as near: the rate of a generator that memorized nothing."""
    q: float = 0.1
    """Level of the list of patients who are nearer than chance explains."""
    closest: int = 10
    """Number of closest pairs that are listed."""
    strengths: tuple[str, ...] = ("weak", "strong")
    """Augmented copies of training images that are compared with generated ones (figure 3)."""
    seed: int = 0
    """Random seed of the images that are drawn for measurements."""
    device: str = "auto"
    """Device: cpu, cuda, or auto, which takes a GPU when there is one."""
    threads: int = 1
    """Number of threads of native code."""
    keep_generators: bool = False
    """Whether every trained generator is kept in the folder."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        self.check_cluster()
        self.sampling().validate()
        check_counts(self, images=0, closest=0, seed=0, threads=1)
        check_between(self, "nominal", "q", example="0.05")
        if not self.detectors:
            raise InputError("no detector: name one at least, as in detectors: [pixels:32]")
        for one in self.strengths:
            if one not in ("weak", "strong"):
                raise unknown_name("strength of copies", one, ("weak", "strong"))
        check_device_name(self.device)

    @property
    def quality_source(self) -> str:
        """Return the source of the features for quality."""
        return self.quality or self.detectors[0]


@dataclass(frozen=True)
class GeneratorSet:
    """One data set of the study.

    Attributes:
        images: Source of the images, as for `audit classifier`.
        reading: Options for reading the images.
        splits: "redraw" draws the held-out part by patient; "given" takes the training part of the given split, and
            holds its validation and test parts out.
        split_seed: Random seed of the draw.
        held_out: Share of the images that no generator is trained on.
    """

    images: str
    reading: ImageOptions
    splits: Literal["redraw", "given"] = "redraw"
    split_seed: int = 0
    held_out: float = 0.3


@dataclass(frozen=True)
class Duplicates:
    """Repetitions of some training patients' images.

    Attributes:
        levels: Numbers of copies, ascending, each above 1; images of all other patients occur once.
        patients: Number of patients of each level, or, below 1, their share of the training patients.
    """

    levels: tuple[int, ...]
    patients: float

    def count(self, n_patients: int) -> int:
        """Return how many patients each level has."""
        return int(self.patients) if self.patients >= 1 else max(1, round(self.patients * n_patients))


@dataclass(frozen=True)
class Arm:
    """A generator and what it is trained on, as the file asks for it.

    Attributes:
        name: Name of the arm in the study.
        datasets: Names of the data sets that the generator is trained on.
        generator: Settings of its training.
        sizes: Numbers of training images; `ALL` for all that are not held out.
        duplicates: Repeated images, if any.
        snapshots: Steps at which it is read, ascending; the last is the end of the training.
        seeds: Random seeds of training sets and trainings.
        images: Number of images drawn at each reading; 0 for as many as the generator was trained on.
    """

    name: str
    datasets: tuple[str, ...]
    generator: Mapping[str, Any]
    sizes: tuple[int | str, ...]
    duplicates: Duplicates | None
    snapshots: tuple[int, ...]
    seeds: tuple[int, ...]
    images: int

    def training(self, seed: int, options: GeneratorsOptions) -> GeneratorOptions:
        """Return the checked settings of one training.

        Args:
            seed: Random seed of the training.
            options: Settings of the study.

        Raises:
            InputError: A value is not allowed.
        """
        own = {"steps": self.snapshots[-1], "snapshot_every": math.gcd(*self.snapshots), "seed": seed}
        machine = {"device": options.device, "threads": options.threads}
        checked = GeneratorOptions(**{**self.generator, **own, **machine})
        checked.validate()
        return checked

    @property
    def conditioning(self) -> str:
        """Return the pseudo-conditions of the generator; empty where it has none."""
        return str(self.generator.get("conditioning") or "")

    @property
    def kind(self) -> str:
        """Name the kind of the generator in words."""
        return KIND_NAMES[str(self.generator.get("kind", "dit"))]


@dataclass(frozen=True)
class GeneratorsStudy:
    """The study as its file asks for it, checked.

    Attributes:
        options: Settings of all data sets.
        datasets: Data sets by name.
        arms: Generators in the order of the file.
        classifiers: Settings of the classifiers that make pseudo-conditions.
    """

    options: GeneratorsOptions
    datasets: Mapping[str, GeneratorSet]
    arms: tuple[Arm, ...]
    classifiers: Mapping[str, Any]


@reading_study()
def read_generators(config: Mapping[str, Any]) -> GeneratorsStudy:
    """Check a study's file: every name, every setting.

    Args:
        config: ``settings``, ``generator`` (settings that all arms share), ``classifiers`` (of pseudo-conditions),
            ``datasets`` and ``arms``.

    Raises:
        InputError: A key, setting or name is unknown, or something is missing.
    """
    check_keys("the study", config, STUDY_KEYS)
    settings = config.get("settings") or {}
    check_keys("settings", settings, setting_names(GeneratorsOptions))
    options = settings_of(GeneratorsOptions, settings)
    sources = sorted({*options.detectors, options.quality_source} - {NO_QUALITY})
    refuse_missing_sources(sources)
    for source in sources:
        if not Path(source).exists():  # the folder of a detector is read with its weights
            parse_source(source)
    datasets = {name: _read_set(name, one) for name, one in read_section(config, "datasets").items()}
    shared = config.get("generator") or {}
    check_keys("generator", shared, setting_names(GeneratorOptions))
    arms = tuple(
        _read_arm(name, one, shared, tuple(datasets), options) for name, one in read_section(config, "arms").items()
    )
    classifiers = config.get("classifiers") or {}
    check_keys("classifiers", classifiers, [n for n in setting_names(PseudoOptions) if n not in STUDY_SETTINGS])
    PseudoOptions(**classifiers).validate()
    return GeneratorsStudy(options, datasets, arms, classifiers)


def _read_set(name: str, values: Any) -> GeneratorSet:
    """Read one data set.

    Raises:
        InputError: Something is missing, unknown or not allowed.
    """
    title = one_line(name, 60)
    options = read_image_set(title, values, SET_KEYS, ("images",))
    dataset = GeneratorSet(values["images"], options, **{k: v for k, v in values.items() if k in SET_KEYS[1:]})
    if dataset.splits not in ("redraw", "given"):
        raise unknown_name(f"splits of {title}", dataset.splits, ("redraw", "given"))
    title = f"data set {title}"
    share = isinstance(dataset.held_out, float) and 0 < dataset.held_out < 1
    refuse_value(share, title, "held_out", dataset.held_out, "it must lie between 0 and 1")
    refuse_value(
        _is_whole(dataset.split_seed, 0), title, "split_seed", dataset.split_seed, "give a whole number from 0"
    )
    return dataset


def _read_arm(
    name: str, values: Any, shared: Mapping[str, Any], datasets: tuple[str, ...], options: GeneratorsOptions
) -> Arm:
    """Read one generator.

    Raises:
        InputError: Something is missing, unknown or not allowed.
    """
    title = f"arm {one_line(name, 60)}"
    check_keys(title, values, ARM_KEYS)
    own = values.get("generator") or {}
    check_keys(f"generator of {title}", own, setting_names(GeneratorOptions))
    generator = {**shared, **own}
    for key in STUDY_SETTINGS:
        if key in generator:
            raise InputError(f"{title}: {key} is set by the study: leave it out of generator, give seeds and snapshots")
    on = read_names(f"{title}: datasets", values["datasets"]) if "datasets" in values else datasets
    for one in on:
        if one not in datasets:
            raise unknown_name(f"data set of {title}", one, datasets)
    sizes, seeds = _as_list(values.get("training_images", ALL)), _as_list(values.get("seeds", 0))
    good = sizes and all(size == ALL or _is_whole(size, 2) for size in sizes)
    refuse_value(good, title, "training_images", sizes, "give numbers from 2 up, or all")
    good = seeds and len(set(map(str, seeds))) == len(seeds) and all(_is_whole(seed, 0) for seed in seeds)
    refuse_value(good, title, "seeds", seeds, "give different whole numbers from 0, as in [0, 1]")
    images = values.get("images", options.images)
    refuse_value(_is_whole(images, 0), title, "images", images, "give a whole number from 0")
    steps = _snapshots(title, values.get("snapshots"), generator.pop("steps", None))
    copies = _duplicates(title, values.get("duplicates"))
    arm = Arm(name, tuple(on), generator, tuple(dict.fromkeys(sizes)), copies, steps, tuple(seeds), images)
    try:
        arm.training(seeds[0], options)
    except InputError as error:
        raise InputError(f"{title}: {error}") from None
    return arm


def _snapshots(title: str, requested: Any, steps: Any) -> tuple[int, ...]:
    """Return the steps at which a generator is measured.

    Raises:
        InputError: No step is given, or some lie beyond the end of the training.
    """
    listed: list[Any] = list(requested) if isinstance(requested, list | tuple) else []
    last: Any = listed[-1] if listed and steps is None else steps
    if not _is_whole(last, 1):
        raise InputError(f"{title}: the generator needs steps, a whole number of at least 1")
    many: Any = 1 if requested is None else requested
    if not listed and _is_whole(many, 1):
        listed = [round(last * (i + 1) / many) for i in range(many)]
    good = listed and all(_is_whole(step, 1) and step <= last for step in listed)
    refuse_value(good, title, "snapshots", requested, f"give steps up to {last:,}, or how many evenly spaced ones")
    return tuple(sorted({*listed, last}))


def _duplicates(title: str, values: Any) -> Duplicates | None:
    """Read which images are repeated.

    Raises:
        InputError: Levels or patients are not possible.
    """
    if values is None:
        return None
    check_keys(f"duplicates of {title}", values, ("levels", "patients"))
    levels, patients = _as_list(values.get("levels", ())), values.get("patients", 0)
    good = levels and all(_is_whole(level, 1) for level in levels) and max(levels) >= 2
    refuse_value(good, title, "levels", levels, "give numbers of copies, as in [1, 4, 16, 64]")
    share, hint = isinstance(patients, float) and 0 < patients < 1, "give how many patients each level of copies has"
    refuse_value(share or _is_whole(patients, 1), title, "patients", patients, f"{hint}, or their share, as in 0.05")
    return Duplicates(tuple(sorted({level for level in levels if level > 1})), patients)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 62


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
