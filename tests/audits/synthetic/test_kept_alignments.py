"""A killed second look goes on: what was aligned is not aligned again, and the run's files are those of one in one."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memorisk.audits.comparison import kept_alignments, second_look
from memorisk.audits.comparison.kept_alignments import ALIGNMENTS
from memorisk.audits.synthetic import analysis
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.runs.checksums import record_of
from memorisk.runs.files import write_text
from tests.audits.synthetic.making import laid_once, write_sets

LOOKED = 12


@pytest.fixture(scope="module")
def lay() -> Callable[..., Any]:
    """Alignment of an image, once for all tests."""
    return laid_once()


@pytest.fixture
def aligned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lay: Callable[..., Any]) -> list[int]:
    """Small sets in a folder of their own, a real second look of few images, and a 1 for each image that is laid."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(second_look, "MOST_IMAGES", LOOKED)
    monkeypatch.setattr(analysis, "look_again", second_look.look_again)
    write_sets(tmp_path, 3, noise=6)
    laid: list[int] = []

    def counted(*given):
        """Lay it, and count."""
        laid.append(1)
        return lay(*given)

    monkeypatch.setattr(second_look, "_lay", counted)
    return laid


def run(progress=lambda *_: None, seed: int = 0) -> Path:
    audit_synthetic(
        "train.npz", "set.npz", out="run", held_out="held.npz", detector="pixels", plants=2, seed=seed, gallery=False,
        progress=progress,
    )  # fmt: skip
    return Path("run")


def files(folder: Path) -> dict[str, bytes]:
    """All files but the log and the lock, which hold times."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: content for name, content in found.items() if name not in ("log.jsonl", ".lock")}


def killed_at(name: str):
    """Progress that ends the command where a stage begins."""

    def progress(stage: str, *_: int) -> None:
        """Raise there."""
        if stage.startswith(name):
            raise KeyboardInterrupt

    return progress


@pytest.mark.thorough
def test_a_killed_second_look_goes_on_to_the_same_bytes(aligned) -> None:
    whole, once = files(run()), len(aligned)
    assert once > 3 * LOOKED
    assert ALIGNMENTS not in whole
    Path("run").rename("before")
    aligned.clear()
    with pytest.raises(KeyboardInterrupt):
        run(killed_at("laying a control"))
    assert len(aligned) == LOOKED
    kept = Path("run") / ALIGNMENTS
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with pytest.raises(KeyboardInterrupt):
        run(killed_at("laying planted"))
    assert len(aligned) == 3 * LOOKED
    assert files(run()) == whole
    assert len(aligned) == once
    events = [json.loads(line) for line in (Path("run") / "log.jsonl").read_text().splitlines()]
    assert [event["alignments"] for event in events if event["event"] == "goes on"] == [LOOKED, 3 * LOOKED]


def test_alignments_are_written_while_the_second_look_goes_on(aligned, monkeypatch) -> None:
    monkeypatch.setattr(kept_alignments, "SAVED_EVERY", 0.0)
    seen = []

    def progress(stage: str, *_: int) -> None:
        """Look at the file, as a kill would leave it."""
        if stage.startswith("laying"):
            file = Path("run") / ALIGNMENTS
            seen.append(len(json.loads(file.read_text())) if file.exists() else 0)

    run(progress)
    assert seen[: 2 * LOOKED] == list(range(2 * LOOKED))


def test_alignments_of_other_images_and_damaged_ones_are_made_again(aligned) -> None:
    whole, once = files(run()), len(aligned)
    kept = Path("run") / ALIGNMENTS
    with pytest.raises(KeyboardInterrupt):
        run(killed_at("laying planted"))
    known = json.loads(kept.read_text())
    known["of other images"] = known.pop(next(iter(known)))
    write_text(kept, json.dumps(known), recorded=True)
    aligned.clear()
    assert files(run()) == whole
    assert len(aligned) == once - 3 * LOOKED + 1
    assert not record_of(kept).exists()
    with pytest.raises(KeyboardInterrupt):
        run(killed_at("laying planted"))
    kept.write_text(kept.read_text().replace("0.9", "0.8", 1))  # valid JSON, and another similarity
    aligned.clear()
    assert files(run()) == whole
    assert len(aligned) == once
