"""Folders that ``memorisk report`` cannot render are told apart, with what to do instead."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from memorisk.audits import rendering
from memorisk.audits.rendering import load_result, render_again
from memorisk.cli.main import main
from memorisk.runs.checksums import SEAL
from memorisk.runs.errors import InputError
from tests.audits.classifier_results import make_result


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"benchmark": "reid"}, "is a run of bench reid, not of an audit: .*--tables-only"),
        ({"benchmark": "copies"}, "is a run of bench copies, not of an audit: .*--tables-only"),
        ({"train": "autoencoder"}, "is a run of train autoencoder, not of an audit: .*--encoder autoencoder:"),
        ({"train": "detector"}, "is a run of train detector, not of an audit"),
    ],
)
def test_runs_of_other_commands_are_named(tmp_path: Path, made: dict[str, Any], words: str) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"run": made}))
    with pytest.raises(InputError, match=words):
        render_again(tmp_path, redact=False)
    assert [file.name for file in tmp_path.iterdir()] == ["config.yaml"]


def test_a_run_of_an_earlier_version_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(folder: Path) -> Any:
        """A synthetic audit without any number."""
        return type("Old", (), {"verdict": {"audit": "synthetic"}})()

    def page(result: Any, *, redact: bool) -> Any:
        """What a new number of the page asks for."""
        return result.verdict["n_new"]

    monkeypatch.setattr(rendering, "load_result", load)
    monkeypatch.setattr("memorisk.audits.synthetic.page.synthetic_page", page)
    with pytest.raises(InputError, match="lacks 'n_new': an earlier version of memorisk wrote it; issue the run's"):
        render_again(tmp_path, redact=True)


def test_a_value_of_another_kind_is_said_to_be_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (TypeError("list indices"), RecursionError(), AttributeError("no attribute"), ZeroDivisionError()):

        def load(folder: Path, error: Exception = error) -> Any:
            """As the files lead to it."""
            raise error

        monkeypatch.setattr(rendering, "load_result", load)
        with pytest.raises(InputError, match=rf"cannot be read back \({type(error).__name__}.*command again") as found:
            render_again(tmp_path)
        assert found.value.__cause__ is error


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A run with a further table, that was finished."""
    make_result().replace(tables={"more": pd.DataFrame({"n": [1]})}).save(tmp_path / "run")
    (tmp_path / "run" / "config.yaml").write_text("images: digits\n")
    return tmp_path / "run"


def test_a_run_that_was_changed_since_is_never_shown(sealed: Path, tmp_path: Path) -> None:
    shown = render_again(sealed, out=tmp_path / "page.html").read_bytes()
    for name in ("per_image.parquet", "verdict.json", "tables/more.parquet"):
        before = (sealed / name).read_bytes()
        (sealed / name).write_bytes(before.replace(b'"fail"', b'"pass"') if name == "verdict.json" else before + b" ")
        with pytest.raises(
            InputError, match=f"run: {name} is not what the run wrote: .* issue the run's command again"
        ):
            render_again(sealed)
        (sealed / name).write_bytes(before)
    shutil.copy(sealed / "tables" / "more.parquet", sealed / "tables" / "other.parquet")
    with pytest.raises(InputError, match=r"tables/other\.parquet is not what the run wrote"):
        load_result(sealed)
    (sealed / "tables" / "other.parquet").unlink()
    seal = (sealed / SEAL).read_bytes()
    for left in (b"", seal[: seal.index(b"\n") + 1], b"\xff\x00\n"):  # cut short, or overwritten
        (sealed / SEAL).write_bytes(left)
        with pytest.raises(InputError, match="is not what the run wrote"):
            load_result(sealed)
    (sealed / SEAL).unlink()  # of an earlier memorisk: shown as ever
    assert render_again(sealed, out=tmp_path / "page.html").read_bytes() == shown


@pytest.mark.parametrize("redact", [False, True])
def test_a_run_that_may_only_be_read_is_rendered_elsewhere(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], redact: bool
) -> None:
    def read_only(path: Path, text: str) -> None:
        """As the system refuses it."""
        if path.parent == sealed:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        path.write_text(text, encoding="utf-8")

    monkeypatch.setattr(rendering, "write_text", read_only)
    report = ["report", str(sealed), *(["--redact"] if redact else [])]
    assert main(report) == 2
    assert "cannot be written (Read-only file system): name another file with --out FILE" in capsys.readouterr().err
    assert main([*report, "--out", str(tmp_path / "page.html")]) == 0
