"""A misspelt detector is refused before any image is decoded: a set takes minutes to decode."""

from pathlib import Path

import pytest

from memorisk.cli.main import main


def test_a_misspelt_detector_is_refused_before_images_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")  # decoding it fails by itself
    monkeypatch.chdir(tmp_path)
    command = ["audit", "synthetic", "train", "made", "--out", "run", "--store", str(tmp_path / "store")]
    assert main([*command, "--detector", "defualt"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "defualt" in said
    assert "default" in said
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "run").exists()
