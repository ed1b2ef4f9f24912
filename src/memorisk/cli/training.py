"""``memorisk train`` and ``memorisk study``: arguments, handed on. Loads nothing heavy until a command runs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from memorisk.audits.watch.options import WatchSettings
from memorisk.cli.commands import COMMANDS
from memorisk.cli.settings import (
    AS_JSON,
    CLUSTER,
    DRY_RUN,
    EXECUTOR,
    FLAT,
    IMAGES,
    PRINT_CONFIG,
    RESUMED_FOLDER,
    SWITCH,
    TABLES_ONLY,
    UNLABELLED_IMAGES,
    print_settings,
    read_yaml,
    set_function_folder,
    settings_as_keywords,
    with_executor,
    with_progress_bar,
)
from memorisk.images.sources.places import refuse_nowhere
from memorisk.report.kinds import load_part
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.options import Precision
from memorisk.training.autoencoders.options import TrainAutoencoderOptions
from memorisk.training.detectors.command_options import TrainDetectorOptions
from memorisk.training.engine.options import TrainClassifierOptions
from memorisk.training.generators.options import TrainGeneratorOptions

train_app = App(name="train", help=COMMANDS["train"][1])
study_app = App(name="study", help=COMMANDS["study"][1])
STUDY_FILE = Annotated[Path, Parameter(name="--config")]
_TRAIN_AUTOENCODER = TrainAutoencoderOptions()
_TRAIN_CLASSIFIER = TrainClassifierOptions()
_TRAIN_DETECTOR = TrainDetectorOptions()
_TRAIN_GENERATOR = TrainGeneratorOptions()
_OF_TRAINING = Parameter(parse=False)


@dataclass(frozen=True, kw_only=True)
class _Watching(WatchSettings):
    """Settings of a watch within a training, without the flags that the training has itself."""

    every: Annotated[int, _OF_TRAINING] = 1000
    device: Annotated[str, _OF_TRAINING] = "auto"
    precision: Annotated[Precision, _OF_TRAINING] = "auto"


_WATCHING = _Watching()


@train_app.command(name="classifier")
def train_classifier(
    images: IMAGES,
    *,
    out: RESUMED_FOLDER,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[TrainClassifierOptions, FLAT] = _TRAIN_CLASSIFIER,
) -> int:
    """Train the classifier that is to be released, by one or several regimes, and measure it on unseen images."""
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.training import show_trained
    from memorisk.training.classifiers.command import train_classifier as run

    return _shown(run, show_trained, images, out, options, as_json=json)


@train_app.command(name="detector")
def train_detector(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[TrainDetectorOptions, FLAT] = _TRAIN_DETECTOR,
) -> int:
    """Train a detector on images, and measure it on patients who had no part in it.

    It detects copies (docs/detectors-training.md) or, with --kind lcmem, patients and copies (docs/lcmem.md). IMAGES
    may be latents, as latents:FILE. The detector is written to the folder `detector` in the run folder.
    """
    if print_config:
        options.validate()
        return print_settings({"images": images, "out": str(out), **options.complete()})
    from memorisk.cli.show.training import show_detector_plan, show_trained_detector
    from memorisk.training.detectors.command import plan_detector
    from memorisk.training.detectors.command import train_detector as run

    if dry_run:
        return _shown(plan_detector, show_detector_plan, images, out, options, as_json=json)
    return _shown(run, show_trained_detector, images, out, options, as_json=json)


@train_app.command(name="autoencoder")
def train_autoencoder(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[TrainAutoencoderOptions, FLAT] = _TRAIN_AUTOENCODER,
) -> int:
    """Train a small autoencoder on images, for latents, and measure it on patients who had no part in it.

    docs/latents.md says what it is for, and what was measured. The autoencoder is written to the folder `autoencoder`
    in the run folder, in the format of diffusers.
    """
    if print_config:
        return print_settings({"images": images, "out": str(out), **asdict(options)})
    from memorisk.cli.show.generators import show_autoencoder, show_autoencoder_plan
    from memorisk.training.autoencoders.command import plan_autoencoder
    from memorisk.training.autoencoders.command import train_autoencoder as run

    if dry_run:
        return _shown(plan_autoencoder, show_autoencoder_plan, images, out, options, as_json=json)
    return _shown(run, show_autoencoder, images, out, options, as_json=json)


@train_app.command(name="generator")
def train_generator(
    images: UNLABELLED_IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    watch: SWITCH = False,
    watching: Annotated[_Watching, Parameter(name="watching", negative_bool="")] = _WATCHING,
    options: Annotated[TrainGeneratorOptions, FLAT] = _TRAIN_GENERATOR,
) -> int:
    """Train a generator of images: a diffusion transformer, or a GAN of the StyleGAN2 kind (docs/generators.md).

    Labels, where there are any, are its classes. The generator is written to the folder `generator` in the run folder.
    `audit synthetic` audits what it draws (`generate`).

    Parameters
    ----------
    watch
        Watch for memorization at every snapshot, in OUT/watch, with the validation images as held-out images. End the
        training when the rule of --watching.stop-on says so (docs/watch.md).
    watching
        Setting of the watch, as in --watching.images 500; the same as of `watch`.
    """
    if print_config:
        named = {name: value for name, value in asdict(watching).items() if name not in _Watching.__annotations__}
        settings = {"watch": watch, "watching": named} if watch else {}
        return print_settings({"images": images, "out": str(out), **settings, **asdict(options)})
    from memorisk.cli.show.generators import show_generator
    from memorisk.training.engine.devices import is_main
    from memorisk.training.generators.command import train_generator as run

    keywords, watching = settings_as_keywords(options), _of_training(watching, options)
    if dry_run:
        return _plan_generator(images, out, keywords, watching if watch else None, as_json=json)
    looks = None
    if not watch:
        trained = with_progress_bar(run, images, out=out, **keywords)
    else:
        from memorisk.audits.watch.run import watch_within

        with with_progress_bar(watch_within, images, out=out, watching=watching, **keywords) as looks:
            trained = with_progress_bar(run, images, out=out, on_snapshot=looks, **keywords)
            looks.report()
    if is_main():
        show_generator(trained, as_json=json)
        if looks is not None and not json:
            from memorisk.cli.show.generators import show_watch_within

            show_watch_within(looks)
    return 0


def _of_training(watching: _Watching, options: TrainGeneratorOptions) -> _Watching:
    """Return the settings of a watch, on the device and in the precision of its training."""
    return replace(watching, device=options.device, precision=options.precision)


def _shown(
    run: Callable[..., Any], show: Callable[..., None], images: str, out: Path, options: object, *, as_json: bool
) -> int:
    """Train, or plan a training, and show what came of it."""
    show(with_progress_bar(run, images, out=out, **settings_as_keywords(options)), as_json=as_json)
    return 0


def _plan_generator(
    images: str, out: Path, keywords: dict[str, Any], watching: WatchSettings | None, *, as_json: bool
) -> int:
    """Say what a training would take and, where it is watched, what the watch could conclude."""
    from memorisk.cli.show.generators import show_generator_plan
    from memorisk.training.generators.command import plan_generator

    plan, planned = with_progress_bar(plan_generator, images, out=out, **keywords), None
    if watching is not None:
        from memorisk.audits.watch.run import plan_within

        planned = with_progress_bar(plan_within, images, out=out, watching=watching, **keywords)
    show_generator_plan(plan, as_json=as_json, watch=planned)
    if planned is not None and not as_json:
        from memorisk.cli.show.runs import show_plan

        show_plan(planned, as_json=False, before="watch, ")
    return 0


class StudyKind(NamedTuple):
    """A study of a file: its words, and where its parts are (``package.module:name``)."""

    name: str
    help: str
    file: str
    """Description of its file."""
    read: str
    """Function that checks its file and loads nothing heavy."""
    run: str
    plan: str
    show_plan: str
    takes_functions: bool = False
    """Whether its file may name functions, which are found in the file's folder."""


STUDIES = (
    StudyKind(
        "rare-distinctive",
        'Paper 000, "Rare, Distinctive, Memorized": tables 1 to 11, figures 1 to 8.\n\n'
        "The exit code is 3 if a cell failed, or would be refused in a dry run.",
        "YAML file with architectures, data sets and seeds (docs/study.md).",
        "memorisk.studies.rare_distinctive.config:read_study",
        "memorisk.studies.rare_distinctive.study:study_rare_distinctive",
        "memorisk.studies.rare_distinctive.plan:plan_study",
        "memorisk.cli.show.training:show_study_plan",
        takes_functions=True,
    ),
    StudyKind(
        "unique-features",
        'Paper 002, "Unintended memorisation of unique features": tables 1 to 3, figures 3 to 6.',
        "YAML file with data sets, probes, networks and canaries (docs/unique-features.md).",
        "memorisk.studies.unique_features.config:read_unique",
        "memorisk.studies.unique_features.study:study_unique_features",
        "memorisk.studies.unique_features.study:plan_unique",
        "memorisk.cli.show.training:show_unique_features_plan",
    ),
    StudyKind(
        "generators",
        "Return what generators memorize, by kind, training-set size, copies and epochs (paper 003; table 3 of paper "
        "004).",
        "YAML file with data sets and generators (docs/study-generators.md).",
        "memorisk.studies.generators.config:read_generators",
        "memorisk.studies.generators.study:study_generators",
        "memorisk.studies.generators.study:plan_generators",
        "memorisk.cli.show.generators:show_generators_plan",
    ),
)


def _refuse_missing_sets(config: Mapping[str, Any]) -> None:
    """Refuse a study none of whose images are there, before anything heavy is loaded; cells of single sets may fail.

    Raises:
        InputError: No data set has all its files and folders.
    """
    datasets, refusals = config.get("datasets"), list[InputError]()
    values = list(datasets.values()) if isinstance(datasets, dict) else []
    for dataset in values:
        sources = [dataset.get(key) for key in ("images", "probes")] if isinstance(dataset, dict) else []
        try:
            for source in sources:
                if isinstance(source, str):
                    refuse_nowhere(source)
        except InputError as error:
            refusals.append(error)
    if refusals and len(refusals) == len(values):
        raise refusals[0]


def _add_study(kind: StudyKind) -> None:
    """Add the command of a study."""

    def command(
        *,
        out: RESUMED_FOLDER,
        file: STUDY_FILE,
        dry_run: DRY_RUN = False,
        tables_only: TABLES_ONLY = False,
        executor: EXECUTOR = None,
        cluster: CLUSTER = None,
    ) -> int:
        from memorisk.studies.engine.study_file import underscored

        config = with_executor(underscored(read_yaml(file, flags=False)), executor, cluster)
        if kind.takes_functions and isinstance(settings := config.setdefault("settings", {}), dict):
            set_function_folder(settings, "python_path", file)
        if not tables_only:
            _refuse_missing_sets(config)
        load_part(kind.read)(config)
        if dry_run:
            plan = with_progress_bar(load_part(kind.plan), config, out=out)
            load_part(kind.show_plan)(plan)
            return MemoriskError.exit_code if plan.problems else 0
        from memorisk.cli.show.training import show_study

        result = with_progress_bar(load_part(kind.run), config, out=out, tables_only=tables_only)
        show_study(result, out)
        return 0 if result.complete else MemoriskError.exit_code

    command.__doc__ = f"{kind.help}\n\nParameters\n----------\nfile\n    {kind.file}\n"
    study_app.command(command, name=kind.name)


for _kind in STUDIES:
    _add_study(_kind)
