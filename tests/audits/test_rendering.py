"""Folders that ``memorisk report`` cannot render are told apart, with what to do instead."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from memorisk.audits import rendering
from memorisk.audits.rendering import render_again
from memorisk.runs.errors import InputError


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"benchmark": "reid"}, "is a run of bench reid, not of an audit: .*--tables-only"),
        ({"benchmark": "copies"}, "is a run of bench copies, not of an audit: .*--tables-only"),
        ({"latent_channels": 4}, "is a run of train autoencoder, not of an audit: .*--encoder autoencoder:"),
        ({"backbone": "x", "protocol": "corrected"}, "is a run of train detector, not of an audit"),
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
    monkeypatch.setattr(rendering, "synthetic_page", page)
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
