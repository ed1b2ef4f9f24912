"""A mark as arrays, for a model that cannot be moved: burnt in by the snippet of docs/feature.md."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.feature.marks import write_mark_arrays
from memorisk.audits.feature.run import audit_feature
from memorisk.images.alterations.mark_controls import make_controls
from memorisk.images.alterations.marks import burn, letter, text_mark
from memorisk.runs.errors import InputError
from tests.commands import answer, refusal

DOCS = Path(__file__).resolve().parents[3] / "docs" / "feature.md"


def snippet() -> str:
    return next(b for b in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S) if "marks.npz" in b)


def test_the_snippet_of_the_documentation_burns_what_we_burn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(text: str):
        return text_mark(text, height=12, place="bottom-right").at(0.5)

    mark = drawn("DOE")
    marks = [mark, *make_controls(mark, 5, render=drawn)]
    assert len({m.shape for m in marks}) > 1  # names of the same length are not of the same width
    write_mark_arrays(tmp_path / "marks.npz", marks, 40, 60)
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).random((3, 40, 60, 3), dtype=np.float32)
    asked = []
    exec(snippet(), {"x": x, "f": lambda y: asked.append(y) or np.full((3, 2), 0.5)})
    assert len(asked) == 2 + len(marks)
    assert (asked[0] == x).all()
    assert (asked[1] == x).all()  # a second time: are answers repeatable?
    for given, mark in zip(asked[2:], marks, strict=True):
        assert given == pytest.approx(burn(x, mark), abs=1e-6)


def test_answers_saved_by_the_snippet_are_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = [letter("A"), *make_controls(letter("A"), 30)]
    write_mark_arrays(tmp_path / "marks.npz", marks, 16, 16)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(256, 3))
    x = rng.random((20, 16, 16, 1), dtype=np.float32)
    exec(snippet(), {"x": x, "f": lambda y: y.reshape(len(y), -1) @ weights})
    found = audit_feature("outputs.npz", out=tmp_path / "run")
    assert found.verdict["n_controls"] == 30
    assert 0 < found.verdict["p_value"] <= 1


def test_the_command_writes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, out, arrays = tmp_path / "x.png", tmp_path / "seen.png", tmp_path / "marks.npz"
    Image.fromarray(np.zeros((32, 32), np.uint8)).save(image)
    given = ("images", "mark", image, "--mark", "E", "--n-controls", 40, "--out", out, "--arrays", arrays)
    assert answer(capsys, *given)[0] == 0
    with np.load(arrays) as found:
        assert found["alpha"].shape == (41, 5, 5)
        assert found["size"].tolist() == [32, 32]
        assert (found["values"][0] == letter("E").values).all()
    out.unlink()
    assert "is there already" in refusal(capsys, *given)
    assert not out.exists()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"name an \.npz file"):
        write_mark_arrays(tmp_path / "marks.txt", [letter("A")], 8, 8)
    with pytest.raises(InputError, match="there is no folder"):
        write_mark_arrays(tmp_path / "none" / "marks.npz", [letter("A")], 8, 8)
    with pytest.raises(InputError, match="does not fit"):
        write_mark_arrays(tmp_path / "marks.npz", [letter("A")], 4, 4)
    assert not list(tmp_path.iterdir())
