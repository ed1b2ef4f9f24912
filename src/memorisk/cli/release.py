"""``memorisk statement``, ``gate``, ``release``, ``track``: arguments, handed on. Nothing heavy is loaded before."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.cli.settings import AS_JSON, FLAT, PATHS, SWITCH, with_progress_bar
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.options import ImageOptions
from memorisk.report.kinds import KINDS
from memorisk.runs.errors import UsageError, listed

_IMAGES = ImageOptions()
_STATED = listed([kind.command for kind in KINDS.own.values() if kind.statement], len(KINDS.own))
"""Commands whose runs a statement is made of; packages with further kinds are searched only by the command itself."""


def statement(
    *runs: Annotated[Path, Parameter(help=f"Folders of finished runs of {_STATED}.")],
    out: Path | None = None,
    weights: PATHS = (),
    images: PATHS = (),
    sign: Path | None = None,
    passphrase: str | None = None,
    page: Path | None = None,
    json: AS_JSON = False,
) -> int:
    """Write a privacy statement and a section for a model card, from finished runs.

    The worst verdict of the runs is the statement's. The exit code is 0 only if it is a pass. --json prints the
    statement without its signature.

    Parameters
    ----------
    out
        Folder for privacy-statement.json and model-card.md: new, empty, or one with these files, which are replaced.
        Not needed for --page alone.
    weights
        Files of weights to be released, as memorisk release writes them; refused if none of the runs audited them.
    images
        Folders of images to be released, as memorisk release writes them; refused if none of the runs audited them.
    sign
        Sign the statement with this Ed25519 private key (docs/signing.md).
    passphrase
        Where the passphrase of an encrypted key is: env:NAME (an environment variable) or file:PATH (the first line of
        a file).
    page
        HTML file for one printed side in plain words, for a data-protection officer, with an appendix.
    """
    from memorisk.audits.release.statement import write_officer_page, write_statement
    from memorisk.cli.show.release import show_statement

    if out is not None:
        files = with_progress_bar(
            write_statement, runs, out=out, weights=weights, images=images, sign=sign, passphrase=passphrase, page=page
        )
        contents, folder = files.statement, files.folder
    elif page is not None and sign is None:
        contents, folder = with_progress_bar(write_officer_page, runs, page, weights=weights, images=images), None
    else:
        raise UsageError("no folder for the statement: add --out FOLDER, or give --page FILE.html alone for the page")
    show_statement(contents, folder, page, as_json=json)
    return 0 if contents.verdict.status == "pass" else 1


def gate(
    source: Path,
    *,
    weights: PATHS = (),
    images: PATHS = (),
    require: Literal["pass", "not-fail"] = "pass",
    kinds: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = tuple(PLANT_KINDS),
    key: PATHS = (),
    require_signature: SWITCH = False,
    json: AS_JSON = False,
) -> int:
    """Allow a release only if its statement passes and covers the released files.

    Exit codes: 0, the release is allowed; 1, it is not, and one line says what to do; 2, bad input.

    Parameters
    ----------
    source
        A privacy-statement.json, its folder, or the folder of a finished run.
    weights
        Files of weights to be released.
    images
        Folders of images to be released, with all that is in them.
    require
        Verdict required: pass, or not-fail, which also allows undecided.
    kinds
        Kinds of copies that a pass of a generated set must be about. A pass of an audit that did not plant all of them
        is refused.
    key
        Trusted public keys. One of them must have signed the statement (docs/signing.md).
    require_signature
        Refuse a statement without a verified signature, even if no key is given.
    """
    import json as writer
    from dataclasses import asdict

    from memorisk.audits.release.gate import gate as ask

    decision = ask(
        source,
        weights=weights,
        images=images,
        require=require,
        kinds=kinds,
        key=key,
        require_signature=require_signature,
    )
    if json:
        _say(writer.dumps(asdict(decision), indent=2, ensure_ascii=False))
    else:
        _say(f"{'may be released' if decision.passed else 'may not be released'}: {decision.line}")
        for note in decision.notes:
            _say(f"note: {note}")
    return 0 if decision.passed else 1


def release(
    source: str,
    out: Path,
    *,
    without: Path | None = None,
    json: AS_JSON = False,
    options: Annotated[ImageOptions, FLAT] = _IMAGES,
) -> int:
    """Write what an audit compared, and nothing else: images at its size, channels and depth, or the tensors that ran.

    Finer patterns, text, previews, further frames and other files stay behind. OUT needs no audit of its own:
    `statement RUN --images OUT` (for weights --weights OUT) accepts it as what was audited, and nothing else.

    Parameters
    ----------
    source
        Folder of a finished audit, which knows its set or weights and its settings; or images, read with the settings
        of their audit.
    out
        New or empty folder for images, or a new file for weights.
    without
        Folder of an audit of SOURCE, or its review.csv. Images of pairs that were not dismissed stay behind. OUT is
        then another set than the audited one. It needs an audit of its own, by another detector: the same one
        overlooks again what it overlooked.
    """
    from dataclasses import asdict

    from memorisk.audits.release.export import release as write
    from memorisk.cli.show.release import show_export

    settings, default = asdict(options), asdict(_IMAGES)
    changed = {name: value for name, value in settings.items() if value != default[name]}
    show_export(with_progress_bar(write, source, out, without=without, **changed), as_json=json)
    return 0


def track(
    *runs: Path,
    to: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)],
    with_report: SWITCH = False,
    json: AS_JSON = False,
) -> int:
    """Log finished runs to MLflow, TensorBoard or Weights & Biases (offline), without ids.

    Verdict, figures and settings are logged. A run that is logged already is not logged twice.

    Parameters
    ----------
    runs
        Folders of finished runs of any kind.
    to
        Where to log, one or several: mlflow:FOLDER, mlflow:http://HOST (a server of yours), tensorboard:FOLDER,
        wandb:FOLDER.
    with_report
        Also log report.html as an artifact. It may show images and ids.
    """
    from memorisk.audits.release.tracking import track as log
    from memorisk.cli.show.release import show_tracking

    logged: Any = log(runs, to=to, with_report=with_report)
    show_tracking(logged, as_json=json)
    return 0


def _say(line: str) -> None:
    """Print a line on standard output, whatever its characters."""
    sys.stdout.write(
        line.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8") + "\n"
    )
