"""Commands on twins of models, ``compare``, ``report`` and ``images check``: arguments, handed on.

Twins: ``memorisk audit classifier``, ``audit losses``, ``audit generator``, ``audit patient``. The module loads
nothing heavy until a command runs.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from memorisk.audits.arms import compared_in
from memorisk.audits.classifier.options import WORKER_MODULES, ClassifierOptions, LossesOptions
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.image_set.options import CheckOptions
from memorisk.cli.settings import (
    AS_JSON,
    DRY_RUN,
    FLAT,
    IMAGES,
    PRINT_CONFIG,
    RESUMED_FOLDER,
    SWITCH,
    audit_exit_code,
    note_redacted,
    print_settings,
    run_command,
    settings_as_keywords,
    with_progress_bar,
)
from memorisk.report.kinds import kind_of
from memorisk.runs.options import Device

_CLASSIFIER, _LOSSES, _CHECK = ClassifierOptions(), LossesOptions(), CheckOptions()
_GENERATOR = GeneratorAuditOptions()


def classifier(
    images: IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[ClassifierOptions, FLAT] = _CLASSIFIER,
) -> int:
    """Train twin models on your images and report which patients they expose."""
    if options.processes != 1 and not (dry_run or print_config):
        from memorisk.runs.executors.pool import prepare_workers

        prepare_workers(*WORKER_MODULES)  # they import PyTorch while this process does
    if not print_config and (options.names_several or compared_in(out) is not None):
        return _arms(images, out, settings_as_keywords(options), dry_run=dry_run, as_json=json)
    kind, sources = kind_of("classifier"), {"images": images}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)


def _arms(images: str, out: Path, settings: dict[str, Any], *, dry_run: bool, as_json: bool) -> int:
    """Audit several regimes or networks side by side; 0 only where each of them passed."""
    from memorisk.audits.classifier.retraining.defences import audit_defences, plan_defences
    from memorisk.cli.show.classifiers import show_defences
    from memorisk.cli.show.runs import show_plan

    if dry_run:
        for plan in with_progress_bar(plan_defences, images, out=out, **settings).values():
            show_plan(plan, as_json=as_json)
        return 0
    comparison = with_progress_bar(audit_defences, images, out=out, **settings)
    show_defences(comparison, out, as_json=as_json)
    return 0 if settings["fail_on"] == "never" or comparison.passed else 1


def losses(
    file: Path,
    *,
    out: Path,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[LossesOptions, FLAT] = _LOSSES,
) -> int:
    """Audit models trained elsewhere, in any framework, from their per-image losses.

    Parameters
    ----------
    file
        Parquet or CSV table with a row per image and model (docs/losses.md).
    out
        Run folder: new or empty.
    """
    if print_config:
        return print_settings({"file": str(file), "out": str(out), **asdict(options)})
    from memorisk.audits.classifier.losses import audit_losses
    from memorisk.cli.show.runs import show_outcome

    result = audit_losses(file, out=out, **settings_as_keywords(options))
    show_outcome(result, "losses", out, as_json=json)
    return audit_exit_code(result.status, out / "report.html", fail_on=options.fail_on, redact=options.redact)


def generator(
    images: IMAGES,
    *,
    out: RESUMED_FOLDER,
    dry_run: DRY_RUN = False,
    print_config: PRINT_CONFIG = False,
    json: AS_JSON = False,
    options: Annotated[GeneratorAuditOptions, FLAT] = _GENERATOR,
) -> int:
    """Train twins of a generator on your images and report which patients it remembers."""
    kind, sources = kind_of("generator"), {"images": images}
    return run_command(kind, sources, out, options, json=json, print_config=print_config, dry_run=dry_run)


def patient(
    run: Path,
    patient: str,
    *,
    target: Path | None = None,
    images: str | None = None,
    out: Path | None = None,
    device: Device = "auto",
    pseudonym_key: Path | None = None,
    json: AS_JSON = False,
) -> int:
    """Answer for one patient: what does a finished audit of twin models say of them?

    A consent is withdrawn, or a person asks. Nothing is trained; the exit code is 0 whatever the answer.

    Parameters
    ----------
    run
        Run folder of audit classifier, audit losses or audit generator.
    patient
        Id of the patient, as the images' table has it.
    target
        Weights of the released model: its losses on the patient's images, and those of models that never saw them.
    images
        Present place of the images, which a target answers; by default the place that the run names.
    out
        File for the answer as a page.
    pseudonym_key
        Key of a pseudonymised run; by default the key in the user's configuration folder.
    """
    from memorisk.audits.classifier.patient import audit_patient
    from memorisk.audits.rendering import refuse_no_page
    from memorisk.cli.show.classifiers import show_patient_answer

    if out is not None:
        refuse_no_page(out)
    answer = with_progress_bar(
        audit_patient, run, patient, target=target, images=images, device=device, pseudonym_key=pseudonym_key
    )
    if out is not None:
        answer.save(out)
    show_patient_answer(answer, out, as_json=json)
    return 0


def check(
    images: IMAGES,
    *,
    out: Path | None = None,
    mend: Path | None = None,
    json: AS_JSON = False,
    options: Annotated[CheckOptions, FLAT] = _CHECK,
) -> int:
    """List unreadable, empty, duplicated and leaking images; count classes and groups.

    With --out a page shows copies side by side. The exit code is 1 if something was found that would spoil an audit.

    Parameters
    ----------
    out
        Run folder for the page and its tables: new, empty, or that of an earlier check. Without it nothing is written.
    mend
        New CSV file for a table of the images that the next command takes: ids that differ by their form alone are
        one id, and images that cannot be used are left out.
    """
    from memorisk.audits.image_set.run import check_set
    from memorisk.cli.show.classifiers import show_check, show_mending

    checked = with_progress_bar(check_set, images, options, out=out, mended=mend)
    show_check(checked.check, out, as_json=json, redact=options.redact)
    if out is not None and options.redact:
        note_redacted(out / "report.html")
    if mend is not None and checked.mending is not None and not json:
        show_mending(checked.mending, mend, redact=options.redact)
    return 0 if checked.check.ok else 1


def compare(first: Path, second: Path, *, out: Path | None = None, json: AS_JSON = False) -> int:
    """Compare two runs, before and after a defence or a removal, with intervals.

    Parameters
    ----------
    first
        Run folder of the first run (before).
    second
        Run folder of the second run (after).
    out
        Folder for the tables, per class and per patient.
    """
    from memorisk.audits.classifier.comparison import check_folder
    from memorisk.audits.classifier.comparison import compare as run
    from memorisk.cli.show.classifiers import show_comparison

    if out is not None:
        check_folder(out)
    comparison = run(first, second)
    if out is not None:
        comparison.save(out)
    show_comparison(comparison, out, as_json=json)
    return 0


def report(run: Path, *, redact: SWITCH = False, gallery: SWITCH = False, out: Path | None = None) -> int:
    """Render the report of a finished run again.

    Parameters
    ----------
    run
        Run folder of a finished run.
    redact
        Leave images and ids out of the report.
    gallery
        Show images in the report, read from where the run read them.
    out
        File to write; by default the run's own report.html.
    """
    from memorisk.audits.rendering import render_again

    written = render_again(run, redact=redact, gallery=gallery, out=out)
    print(written)  # noqa: T201 (the command's answer)
    if redact:
        note_redacted(written)
    return 0
