"""``memorisk audit synthetic``, ``audit feature``, ``images mark``, ``explain``, ``watch``: arguments, handed on.

`main` holds the audits of classifiers. Loads nothing heavy until a command runs.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.feature.options import FeatureOptions, MarkOptions
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.watch.options import WatchOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings


def explain(
    run: Path,
    *,
    features: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ("before",),
    feature_weights: str | None = None,
    feature_size: int | None = None,
    probes: Annotated[bool, Parameter(negative="")] = False,
    probe_seed: int | None = None,
    images: str | None = None,
    device: str = "auto",
    out: Path | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Look into a finished classifier audit: are its memorized images atypical, and where in the network is it?

    Parameters
    ----------
    run
        Run folder of `audit classifier`.
    features
        Feature spaces: names of networks, files (.npy, .npz, .parquet) with a row per image, or "before": the run's own
        network before it was fine-tuned.
    feature_weights
        Weights of the named networks: a file (of one), "default" to download them, "none" for random ones.
    feature_size
        Pixels a side that the named networks get; by default what they were trained at.
    probes
        Probe every layer of one of the run's models for M, and compare it with its twin.
    probe_seed
        Seed whose models are probed; the run's first if not given.
    images
        Where the run's images are now, if they have moved.
    device
        cpu, cuda, or auto: a GPU when there is one.
    out
        Folder to write; explain inside the run folder if not given.
    json
        Print what was found as JSON.
    """
    from memorisk.audits.classifier.explanations.run import FOLDER
    from memorisk.audits.classifier.explanations.run import explain as look
    from memorisk.cli.show.common import progress_bar, show_explanation

    with progress_bar() as progress:
        found = look(
            run,
            features=features,
            feature_weights=feature_weights,
            feature_size=feature_size,
            probes=probes,
            probe_seed=probe_seed,
            images=images,
            device=device,
            out=out,
            progress=progress,
        )
    show_explanation(found, out if out is not None else run / FOLDER, as_json=json)
    return 0


_FEATURE, _MARK = FeatureOptions(), MarkOptions()


def feature(
    *models: str,
    out: Path,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[FeatureOptions, FLAT] = _FEATURE,
) -> int:
    """Audit whether a model remembers a mark, such as a patient's name, that it may have seen once.

    Parameters
    ----------
    models
        module:function, an ONNX or .pt2 file, or NAME@WEIGHTS; several where they share the mark (other seeds).
    out
        Run folder: new, empty, or this audit to write again.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"models": list(models), "out": str(out), **asdict(options)})
    from memorisk.audits.feature.run import audit_feature
    from memorisk.cli.show.audits import show_feature
    from memorisk.cli.show.common import progress_bar

    with progress_bar() as progress:
        settings = {f.name: getattr(options, f.name) for f in fields(options)}
        result = audit_feature(models, out=out, progress=progress, **settings)
    show_feature(result, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or result.status == "pass" else 1


def mark(
    image: Path,
    *,
    out: Path,
    size: int | None = None,
    n_shown: int = 11,
    seed: int = 0,
    arrays: Path | None = None,
    options: Annotated[MarkOptions, FLAT] = _MARK,
) -> int:
    """Burn a mark into an image and show it beside its controls, before a model is asked.

    Parameters
    ----------
    image
        An image file.
    out
        PNG file to write: the image with the mark, then with each control.
    size
        Side in pixels that the image is resized to first, as for the model.
    n_shown
        Controls shown.
    seed
        Of the controls.
    arrays
        NPZ file to write, too: the mark and all its controls, for a model that cannot be moved (docs/feature.md).
    """
    from memorisk.audits.feature.marks import preview

    print(preview(image, out, options, size=size, shown=n_shown, seed=seed, arrays=arrays))  # noqa: T201 (the command's answer)
    return 0


_SYNTHETIC = SyntheticOptions()


def synthetic(
    train: str,
    synthetic: str,
    *,
    out: Path,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    print_config: Annotated[bool, Parameter(negative="")] = False,
    json: AS_JSON = False,
    options: Annotated[SyntheticOptions, FLAT] = _SYNTHETIC,
) -> int:
    """Audit whether synthetic images copy the patients that their generator was trained on.

    Parameters
    ----------
    train
        The images that the generator was trained on: as for `audit classifier`.
    synthetic
        The images that it made, all that are to be released.
    out
        Run folder: new, empty, or this audit to write again.
    dry_run
        Print what would be compared and could be said, compute no features.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print the verdict as JSON.
    """
    if print_config:
        return print_settings({"train": train, "synthetic": synthetic, "out": str(out), **asdict(options)})
    from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
    from memorisk.cli.show.audits import show_synthetic, show_synthetic_plan
    from memorisk.cli.show.common import progress_bar

    settings = {f.name: getattr(options, f.name) for f in fields(options)}
    with progress_bar() as progress:
        found = audit_synthetic(train, synthetic, out=out, progress=progress, dry_run=dry_run, **settings)
    if isinstance(found, SyntheticPlan):
        show_synthetic_plan(found, as_json=json)
        return 0
    show_synthetic(found, out, as_json=json)
    if options.redact:
        note_redacted(out / "report.html")
    return 0 if options.fail_on == "never" or found.status == "pass" else 1


SWITCH = Annotated[bool, Parameter(negative="")]
_WATCH = WatchOptions()


def watch(
    training: str,
    *,
    train: str | None = None,
    held_out: str | None = None,
    out: Path | None = None,
    follow: SWITCH = False,
    stop: SWITCH = False,
    poll: float = 5.0,
    dry_run: SWITCH = False,
    print_config: SWITCH = False,
    json: AS_JSON = False,
    options: Annotated[WatchOptions, FLAT] = _WATCH,
) -> int:
    """Look at a generator in training, or afterwards: does it begin to memorize?

    Figures, rules and what they mean are in docs/watch.md. The exit code is 1 where the rule of --stop-on says stop.

    Parameters
    ----------
    training
        A run of `train generator`, or the folder of your own training with a folder of images for each step, as
        step-1000.
    train
        The images it is trained on, as for `audit classifier`; of a run its own.
    held_out
        Images of patients whom it does not see; of a run its validation images.
    out
        Folder for looks and report: new, empty, or this watch to go on with; of a run `watch` in it.
    follow
        Go on looking until TRAINING holds a training.json.
    stop
        Write stop.json when the rule says so: into a run, which then ends at its next look, else into OUT.
    poll
        Seconds between two visits with --follow.
    dry_run
        Print what would be looked at, draw nothing.
    print_config
        Print the settings as YAML for --config, run nothing.
    json
        Print all looks as JSON.
    """
    given = {"train": train, "held_out": held_out, "out": out}
    if print_config:
        return print_settings({"training": training, **given, **asdict(options)})
    from memorisk.audits.watch.run import plan_watch, watch_training
    from memorisk.cli.show.audits import show_evaluation, show_watch, show_watch_plan
    from memorisk.cli.show.common import progress_bar

    given |= {field.name: getattr(options, field.name) for field in fields(options)}
    if dry_run:
        with progress_bar() as progress:
            plan = plan_watch(training, follow=follow, progress=progress, **given)
        show_watch_plan(plan, as_json=json)
        return 0
    how = {"follow": follow, "stop": stop, "poll": poll, "on_look": None if json or not follow else show_evaluation}
    with progress_bar() as progress:
        found = watch_training(training, progress=progress, **how, **given)
    show_watch(found, as_json=json)
    if options.redact and found.folder is not None:
        note_redacted(found.folder / "report.html")
    return 0 if found.stop is None else 1
