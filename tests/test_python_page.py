"""The examples of the page on Python that need no data of the reader's run as they stand."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "python.md"


@pytest.mark.filterwarnings("ignore:not tested")
def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    shown = PAGE.read_text(encoding="utf-8").partition("<!-- runs in")[2]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", shown, re.DOTALL):
        exec(block, names)
    told = capsys.readouterr().out
    assert "4 trainings" in told
    assert str(Path("run") / "report.html") in told
    assert "no such folder: the file or folder does not exist" in told
    assert names["found"] == 1
