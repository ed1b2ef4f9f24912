"""What memorisk reads back from the disk of its own: run folders, score tables, settings."""

import contextlib
import io
import shutil
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tests.fuzz.folders import made, of_file, of_folder
from tests.fuzz.target import Target

for _module in (
    "audits.classifier.comparison", "audits.classifier.evidence", "audits.filter.run",
    "studies.generators.config", "audits.classifier.losses", "audits.rendering", "audits.synthetic.run",
    "studies.unique_features.config", "cli.main", "cli.program", "report.page",
):  # fmt: skip
    import_module(f"memorisk.{_module}")  # now, while imports are instrumented, and once for all turns

_QUICK = {"models": 2, "epochs": 1, "processes": 1, "fail_on": "never"}


# Run folders


def classifier_run(folder: Path) -> Path:
    """A finished audit of a classifier on digits."""
    import memorisk

    memorisk.audit_classifier("digits", out=folder / "run", **_QUICK, sample=120, discard_weights=True)
    for heavy in ("logits", "checkpoints", "weights"):
        shutil.rmtree(folder / "run" / heavy, ignore_errors=True)
    return folder / "run"


def synthetic_run(folder: Path) -> Path:
    """A finished audit of synthetic digits."""
    import memorisk
    from tests.audits.synthetic.making import write_sets

    sets = write_sets(folder, copied=5)
    out = folder / "run"
    memorisk.audit_synthetic(sets["train"], sets["set"], out=out, held_out=sets["held"], detector="pixels")
    return out


def filter_run(folder: Path) -> Path:
    """A finished filter of digits."""
    import memorisk
    from tests.audits.filter.making import OF, write_folders

    sets = write_folders(folder)
    memorisk.filter_synthetic(sets["train"], sets["set"], folder / "run", calibration=sets["new"], **OF)
    return folder / "run"


_RESULT = ("verdict.json", "summary.json", "config.yaml")
_TABLES = ("per_class.parquet", "per_group.parquet", "per_image.parquet", "attacks.parquet")


def ask_render(folder: Path) -> None:
    """The report again, or redacted."""
    from memorisk.audits.rendering import render_again

    render_again(folder, redact=(folder / "verdict.json").stat().st_size % 2 == 1)  # a second or more each


def ask_compare(folder: Path) -> None:
    """The comparison with itself, its page too."""
    from memorisk.audits.classifier.comparison import compare

    compare(folder, made(classifier_run)).save(folder.parent / "compared")


def ask_resume(folder: Path) -> None:
    """The out folder of a command that is given again."""
    from memorisk.runs.folder import check_out_folder, open_run

    config = yaml.safe_load((made(_config_folder) / "config.yaml").read_text())
    check_out_folder(folder, config, identity=["run"])
    with open_run(folder, config, identity=["run"]):
        pass


def ask_losses(file: Path) -> None:
    """A table of losses as evidence."""
    from memorisk.audits.classifier.evidence import evidence_from_table
    from memorisk.audits.classifier.losses import read_scores, with_losses

    evidence_from_table(with_losses(read_scores(file)))


def losses_files(folder: Path) -> list[Path]:
    """Score tables with losses and with logits."""
    table = pd.read_parquet(made(classifier_run) / "scores.parquet")
    table = table[table["image"].isin(table["image"].unique()[::4])]
    table.to_parquet(folder / "a.parquet")
    table.to_csv(folder / "a.csv", index=False)
    rng = np.random.default_rng(0)
    logits = table.drop(columns=[c for c in ("loss", "margin", "correct") if c in table])
    names = sorted(set(table["label"]))
    logits.assign(**{f"logit:{c}": rng.normal(size=len(logits)) for c in names}).to_csv(folder / "b.csv", index=False)
    return [folder / "a.parquet", folder / "a.csv", folder / "b.csv"]


# Settings


def settings_files(folder: Path) -> list[Path]:
    """Settings of several commands, as --print-config writes them, and whole studies."""
    recipes = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.yaml"))
    files = []
    for k, recipe in enumerate(recipes):
        if recipe.stat().st_size < 4000:
            (folder / f"{k}.yaml").write_bytes(recipe.read_bytes())
            files.append(folder / f"{k}.yaml")
    plain = {"images": "digits", "models": 4, "epochs": 3, "lr": "3e-4", "holdout": 0.2, "arms": ["matched"]}
    (folder / "plain.yaml").write_text(yaml.safe_dump(plain))
    return [*files, folder / "plain.yaml"]


def ask_settings(file: Path) -> None:
    """The file as settings of every command and as every study."""
    from memorisk.cli.main import main
    from memorisk.cli.settings import read_yaml
    from memorisk.runs.errors import MemoriskError
    from memorisk.studies.generators.config import read_generators
    from memorisk.studies.unique_features.config import read_unique

    config = read_yaml(file, flags=False)
    for read in (read_generators, read_unique):
        with contextlib.suppress(MemoriskError):  # it is another command's file
            read(config)
    commands = (("audit", "classifier", "digits"), ("filter", "s"), ("train", "generator", "digits"))
    command = commands[len(file.read_bytes()) % len(commands)]  # it takes a fifth of a second
    said = _said(main, [*command, "--out", str(file.parent / "out"), "--config", str(file), "--print-config"])
    assert "unexpected" not in said, said
    assert not (file.parent / "out").exists()


def _said(main: Callable[[list[str]], int], arguments: list[str]) -> str:
    """What a command writes to standard error."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(arguments)
    assert code in (0, 1, 2), (code, err.getvalue())
    return err.getvalue()


def own_targets() -> Sequence[Target]:
    """Every file of memorisk's own."""
    runs = (
        ("report", "a classifier's run: memorisk report", classifier_run, (*_RESULT, *_TABLES), ask_render),
        ("compare", "a run: memorisk compare", classifier_run, (*_RESULT, _TABLES[0], "scores.parquet"), ask_compare),
        ("report synthetic", "a run of audit synthetic", synthetic_run, (*_RESULT, _TABLES[2]), ask_render),
        ("report filter", "a run of filter", filter_run, (*_RESULT, _TABLES[2]), ask_render),
        ("config", "config.yaml of a run to go on with", _config_folder, ("config.yaml",), ask_resume),
    )
    files = (
        ("losses", "score tables, CSV and Parquet", (".parquet", ".csv"), losses_files, ask_losses),
        ("settings", "YAML of commands and studies", (".yaml",), settings_files, ask_settings),
    )
    return (*(of_folder(*one) for one in runs), *(of_file(*one) for one in files))


def _config_folder(folder: Path) -> Path:
    """A run folder of which only the settings are asked."""
    (folder / "run").mkdir()
    (folder / "run" / "config.yaml").write_text(
        yaml.safe_dump({"images": "digits", "models": 4, "run": {"data_hash": "0", "deep": {"n": [1, 2.5, None]}}})
    )
    return folder / "run"
