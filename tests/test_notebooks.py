"""The notebooks of the site: each runs from top to bottom in a real kernel and tells what the committed one tells."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
RECIPE = runpy.run_path(str(ROOT / "recipes" / "notebooks.py"))
VERDICT = re.compile(
    r"Not ready for release|Could not be decided|Passed|No copying of the kinds|No memorization was shown"
    r"|Memorization was shown"
)
TOLD = {
    "classifier": ["Not ready for release"],
    "generator": ["Not ready for release"],
    "mending": ["Not ready for release", "Not ready for release", "Passed"],
    "own_training": ["Not ready for release", "Memorization was shown", "No memorization was shown"],
    "synthetic_set": ["Not ready for release", "No copying of the kinds"],
}
"""The verdicts of each notebook, in their order."""
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(notebook: Any) -> list[Any]:
    """The cells with code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: Any) -> Iterator[str]:
    """What every output says: a table or a verdict as HTML, else its text."""
    for output in (output for cell in cells(notebook) for output in cell.outputs):
        data = output.get("data", {})
        yield output.get("text") or data.get("text/html") or data.get("text/plain", "")


def tells(notebook: Any, name: str) -> None:
    """Assert that a notebook tells its verdicts."""
    found = [verdict for text in texts(notebook) for verdict in VERDICT.findall(text)]
    assert len(found) == len(TOLD[name]), found
    assert all(re.fullmatch(told, verdict) for told, verdict in zip(TOLD[name], found, strict=True)), found


def test_each_notebook_is_known() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(TOLD)


@each
def test_a_committed_notebook_was_run_from_top_to_bottom_and_names_no_place(path: Path) -> None:
    written = path.read_text("utf-8")
    notebook = nbformat.reads(written, as_version=4)
    nbformat.validate(notebook)
    code = cells(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []
    assert [said for text in texts(notebook) for said in re.findall(r"(?<![\w.<)])/[\w.-]+/[\w./-]*", text)] == []
    assert len(written) < 300_000
    assert written == nbformat.writes(RECIPE["tidied"](notebook)) + "\n"
    tells(notebook, path.stem)


def shown(notebook: Any) -> list[list[str]]:
    """Media types of each output but texts, which have lines of progress on a slow machine."""
    return [sorted(output.data) for cell in cells(notebook) for output in cell.outputs if "data" in output]


@pytest.mark.thorough
@each
def test_a_notebook_runs_anew_and_tells_the_same(path: Path, tmp_path: Path) -> None:
    if path.stem == "own_training":
        pytest.importorskip("lightning")
        pytest.importorskip("transformers")
    fresh = RECIPE["run"](nbformat.read(path, as_version=4), tmp_path)
    tells(fresh, path.stem)
    assert shown(fresh) == shown(nbformat.read(path, as_version=4))


PROGRESS = """
import time
from memorisk.cli.show import common
from memorisk.runs.workload import no_progress

common.NOTEBOOK_SECONDS = 0.02
done = []

def work(progress=no_progress):
    progress("training", 2, 8)
    time.sleep(0.5)
    progress("scoring", 1, 1)
    time.sleep(0.5)
    if done:
        raise ValueError("as a user's error")

common.showing_progress(work)()
common.showing_progress(work)(progress=lambda *stage: done.append(stage))
"""


def test_progress_is_one_line_below_the_cell_that_moves_and_is_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_client.manager import start_new_kernel

    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    seen: list[dict[str, Any]] = []
    try:
        reply = client.execute_interactive(PROGRESS, output_hook=seen.append, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert (reply["content"]["status"], reply["content"].get("evalue")) == ("error", "as a user's error")
    shown = [message for message in seen if "display" in message["msg_type"]]
    assert [m["msg_type"] for m in shown] == ["display_data"] + ["update_display_data"] * (len(shown) - 1)
    assert len({m["content"]["transient"]["display_id"] for m in shown}) == 1
    lines = [m["content"]["data"]["text/plain"] for m in shown]
    assert lines[:2] == ["", "training 2/8"]
    assert "scoring 1/1" in lines
    assert lines[-1] == ""
    assert [m for m in seen if m["msg_type"] == "stream"] == []
