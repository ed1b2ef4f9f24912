"""``memorisk audit feature`` and ``memorisk images mark``: arguments, handed on. Loads nothing heavy until they run."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from memorisk.audits.feature.options import FeatureOptions, MarkOptions
from memorisk.cli.settings import AS_JSON, FLAT, note_redacted, print_settings

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
    from memorisk.cli.show.common import progress_bar
    from memorisk.cli.show.feature import show_feature

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
    from memorisk.audits.feature.mark_preview import preview

    print(preview(image, out, options, size=size, shown=n_shown, seed=seed, arrays=arrays))  # noqa: T201 (the command's answer)
    return 0
