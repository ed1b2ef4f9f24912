"""Runs whose files hold anything: a statement, or one line; and never a pass that the run did not end with."""

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorisk.audits.release.statement import make_statement
from memorisk.audits.release.tracking import record_of
from memorisk.audits.rendering import load_result
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.errors import InputError
from tests.fuzz.packing import ODD, places

FILES = ("feature/verdict.json", "feature/summary.json", "quality/quality.json", "watch/watch.jsonl")


def changed(data: st.DataObject, content: Any) -> str:
    """JSON with something else at one or two places."""
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from(list(places(content))))
        if data.draw(st.booleans()):
            holder[key] = data.draw(st.sampled_from(ODD))
        else:
            del holder[key]
        if not content:
            break
    return json.dumps(content)


def status_of(folder: Path) -> str:
    """Of the statement of a run; a refusal is one printable line."""
    line = ""
    try:
        statement = make_statement(folder)
    except InputError as refusal:
        statement, line = None, str(refusal)
    if statement is None:
        assert line.isprintable()
        return ""
    statement.as_json()
    return statement.verdict.status


@pytest.mark.thorough
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_file_of_a_run_is_stated_or_refused(runs: Path, data: st.DataObject) -> None:
    kind, _, name = data.draw(st.sampled_from(FILES)).partition("/")
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / kind
        shutil.copytree(runs / "runs" / kind, folder)
        before = status_of(folder)
        assert before
        lines = (folder / name).read_text("utf-8").splitlines() if name.endswith("l") else [(folder / name).read_text()]
        text = "\n".join([*lines[:-1], changed(data, json.loads(lines[-1]))])
        (folder / name).write_text(text)
        sealed = (folder / SEAL).is_file()
        if sealed and name in sealed_files(folder):
            assert status_of(folder) == ""  # it is not what the run wrote
            with pytest.raises(InputError, match="is not what the run wrote"):
                load_result(folder)
            write_seal(folder, sealed_files(folder))
        assert status_of(folder) in (before, "undecided", "fail", "")
        with contextlib.suppress(InputError):
            record_of(folder)


@pytest.mark.parametrize("line", ["x", "[" * 5000, "{}", "[1]", '{"look": NaN}'])
def test_looks_that_are_damaged(runs: Path, tmp_path: Path, line: str) -> None:
    shutil.copytree(runs / "runs/watch", tmp_path / "watch")
    (tmp_path / "watch/watch.jsonl").write_text(f"{line}\n")
    assert status_of(tmp_path / "watch") == ""


@pytest.mark.parametrize(
    "line", ["0" * 64 + "  " + "x" * 400, "0" * 64 + "  a\0b", "0" * 64 + "  ../run", "", "\udcff"]
)
def test_a_seal_of_names_that_no_disk_holds(runs: Path, tmp_path: Path, line: str) -> None:
    shutil.copytree(runs / "runs/feature", tmp_path / "run")
    (tmp_path / "run" / SEAL).write_bytes(f"{line}\n".encode("utf-8", "surrogateescape"))
    assert status_of(tmp_path / "run") == ""
    with pytest.raises(InputError):
        load_result(tmp_path / "run")
