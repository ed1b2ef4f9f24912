"""``memorisk audit synthetic``, ``audit feature``, ``images mark``, ``explain``, ``watch``: arguments, handed on.

`classifiers` holds the audits of classifiers. Loads nothing heavy until a command runs.
"""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from memorisk.audits.feature.options import FeatureOptions, MarkOptions
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.watch.options import WatchOptions
from memorisk.cli.settings import (
    AS_JSON,
    DRAWN_IMAGES,
    DRY_RUN,
    FLAT,
    IMAGES,
    PRINT_CONFIG,
    REWRITTEN_FOLDER,
    SWITCH,
    TRAINED_ON,
    note_redacted,
    print_settings,
    run_command,
    settings_as_keywords,
    with_progress_bar,
)
from memorisk.report.kinds import RunKind, kind_of, load_part
from memorisk.runs.options import Device


def explain(
    run: Path,
    *,
    features: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("before",),
    feature_weights: str | None = None,
    feature_size: int | None = None,
    probes: SWITCH = False,
    probe_seed: int | None = None,
    images: str | None = None,
    device: Device = "auto",
    out: Path | None = None,
    json: AS_JSON = False,
) -> int:
    """Examine a finished classifier audit: are memorized images atypical, and which layers encode the memorization?

    Parameters
    ----------
    run
        Run folder of `audit classifier`.
    features
        Feature spaces: names of networks, files (.npy, .npz, .parquet) with a row per image, or "before", the run's own
        network before fine-tuning.
    feature_weights
        Weights of the named networks: a file (for one network), "default" (downloads) or "none" (random).
    feature_size
        Side in pixels of the named networks' input; by default the size that each was trained at.
    probes
        Probe every layer of one of the run's models for M, and compare it with its twin.
    probe_seed
        Seed whose models are probed; by default the run's first.
    images
        The run's images, if they have moved.
    out
        Folder to write; by default explain in the run folder.
    """
    from memorisk.audits.classifier.explanations.run import FOLDER
    from memorisk.audits.classifier.explanations.run import explain as look
    from memorisk.cli.show.classifiers import show_explanation

    explanation = with_progress_bar(
        look,
        run,
        features=features,
        feature_weights=feature_weights,
        feature_size=feature_size,
        probes=probes,
        probe_seed=probe_seed,
        images=images,
        device=device,
        out=out,
    )
    show_explanation(explanation, out if out is not None else run / FOLDER, as_json=json)
    return 0


_FEATURE, _MARK = FeatureOptions(), MarkOptions()


def feature(
    *models: str,
    out: REWRITTEN_FOLDER,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[FeatureOptions, FLAT] = _FEATURE,
) -> int:
    """Audit whether a model remembers a mark, such as a name, that it may have seen once.

    Parameters
    ----------
    models
        Model: module:function, an ONNX file, or NAME@WEIGHTS. Give several models (other seeds) if they share
        the mark.
    """
    sources = {"models": list(models)}
    return run_command(kind_of("feature"), sources, out, options, json=json, print_config=print_config)


def mark(
    image: Path,
    *,
    out: Path,
    size: int | None = None,
    seed: int = 0,
    arrays: Path | None = None,
    options: Annotated[MarkOptions, FLAT] = _MARK,
) -> int:
    """Burn a mark into an image and show it beside its controls.

    Parameters
    ----------
    image
        Image file to mark.
    out
        PNG file to write: the image with the mark, then with each control.
    size
        Side in pixels to which the image is resized first, as for the model.
    seed
        Random seed for the controls.
    arrays
        Also write the mark and all its controls to this NPZ file, for a model that cannot be moved (docs/feature.md).
    """
    from memorisk.audits.feature.marks import preview

    print(preview(image, out, options, size=size, seed=seed, arrays=arrays))  # noqa: T201 (the command's answer)
    return 0


_SYNTHETIC = SyntheticOptions()


def synthetic(
    train: Annotated[str, TRAINED_ON],
    synthetic: DRAWN_IMAGES,
    *,
    out: REWRITTEN_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[SyntheticOptions, FLAT] = _SYNTHETIC,
) -> int:
    """Audit whether synthetic images copy patients of their generator's training data.

    SYNTHETIC holds all images that are to be released.
    """
    kind, sources = kind_of("synthetic"), {"train": train, "synthetic": synthetic}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)


_WATCH = WatchOptions()
_SOURCES = {"images": IMAGES, "train": Annotated[str, TRAINED_ON], "synthetic": DRAWN_IMAGES}
"""Types of the sources that audits have in common, with their help."""


def watch(
    training: str,
    *,
    train: str | None = None,
    held_out: str | None = None,
    out: Path | None = None,
    follow: SWITCH = False,
    stop: SWITCH = False,
    poll: float = 5.0,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[WatchOptions, FLAT] = _WATCH,
) -> int:
    """Evaluate a generator during or after training: does it begin to memorize?

    docs/watch.md explains figures and rules. The exit code is 1 if the rule of --stop-on says stop, or if
    a drawn image is a training image.

    Parameters
    ----------
    training
        Run of `train generator`, or the folder of your own training with a folder of images per step, such as
        step-1000.
    train
        Images that the generator is trained on; by default those of the run.
    held_out
        Images of patients unseen by the generator; by default the validation images of the run.
    out
        Folder for evaluations and report: new, empty, or that of the same watch, which is resumed; by default `watch`
        in the run.
    follow
        Keep watching until TRAINING holds a training.json.
    stop
        Write stop.json when the rule of --stop-on says so: into a run, which ends at its next evaluation, otherwise
        into OUT.
    poll
        Seconds between two checks for new images with --follow.
    """
    keywords = {"train": train, "held_out": held_out, "out": out}
    if print_config:
        return print_settings({"training": training, **keywords, **asdict(options)})
    from memorisk.audits.watch.run import plan_watch, watch_training
    from memorisk.cli.show.generators import show_evaluation
    from memorisk.cli.show.runs import show_outcome, show_plan

    keywords |= settings_as_keywords(options)
    if dry_run:
        show_plan(with_progress_bar(plan_watch, training, follow=follow, **keywords), as_json=json)
        return 0
    how = {"follow": follow, "stop": stop, "poll": poll, "on_look": None if json or not follow else show_evaluation}
    result = with_progress_bar(watch_training, training, **how, **keywords)
    show_outcome(result, "watch", result.folder, as_json=json)
    if options.redact and result.folder is not None:
        note_redacted(result.folder / "report.html")
    return 0 if result.shown is None else 1


def command_of(kind: RunKind) -> Callable[..., int]:
    """Make the command of an audit that has no line in `COMMANDS`, from the signature of its Python function.

    Args:
        kind: Kind of the audit.
    """
    function = load_part(kind.function)
    own, options = inspect.signature(function).parameters, load_part(kind.options)()
    sources = [name for name, one in own.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    dry = {"dry_run": (DRY_RUN, False)} if "dry_run" in own else {}
    settings = {"out": (REWRITTEN_FOLDER, inspect.Parameter.empty), **dry, "print_config": (PRINT_CONFIG, False),
                "json": (AS_JSON, False), "options": (Annotated[type(options), FLAT], options)}  # fmt: skip

    def command(*given: str, out: Path, options: Any = options, **named: bool) -> int:
        """Run the audit."""
        named = {"json": False, "print_config": False, **dict.fromkeys(dry, False), **named}
        return run_command(kind, dict(zip(sources, given, strict=True)), out, options, **named)

    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_SOURCES.get(name, str))
        for name in sources
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
        for name, (hint, default) in settings.items()
    ]
    command.__doc__ = (function.__doc__ or "").partition("\n\n")[0]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
