"""URLs on the command line: the same files as in a folder here, settings that name the URL, refusals in one line."""

import errno
import os
from pathlib import Path

import pytest
import yaml

from memorisk.audits.classifier.evidence import write_scores
from memorisk.cli.main import main
from memorisk.runs.storage import bookkeeping
from tests.audits.made_evidence import twin_evidence

TIMES = {"config.yaml", "log.jsonl"}  # they name the folder, and when


@pytest.fixture
def served(tmp_path, monkeypatch) -> Path:
    """A folder that is named by ``file://``, with a table of losses in it."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(bookkeeping, "_SETTLE_SECONDS", 0.0)
    (tmp_path / "served").mkdir()
    evidence = twin_evidence(sizes={"a": 8, "b": 8}, n_test=8, n_seeds=2)
    write_scores(tmp_path / "served" / "made.parquet", evidence)
    return tmp_path / "served"


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")}


def test_a_run_at_a_url_is_the_run_in_a_folder(served, tmp_path, capsys):
    url = f"file://{served}"
    losses = [*("audit", "losses"), f"{url}/made.parquet", "--fail-on", "never"]
    assert main([*losses, "--out", str(tmp_path / "here")]) == 0
    assert main([*losses, "--out", f"{url}/there"]) == 0
    assert f"Kept at {url}/there" in capsys.readouterr().err
    here, there = files(tmp_path / "here"), files(served / "there")
    assert {n: b for n, b in here.items() if n not in TIMES} == {n: b for n, b in there.items() if n not in TIMES}
    settings = yaml.safe_load(there["config.yaml"])
    assert (settings["file"], settings["out"]) == (f"{url}/made.parquet", f"{url}/there")
    assert str(tmp_path / "cache") not in there["config.yaml"].decode()
    assert not [p for p in (served / "there", *(served / "there").rglob("*")) if p.stat().st_mode & 0o077]

    assert main(["report", f"{url}/there", "--redact"]) == 0
    assert (served / "there" / "report-redacted.html").is_file()

    write_scores(served / "made.parquet", twin_evidence(sizes={"a": 8, "b": 8}, n_test=8, n_seeds=2, seed=1))
    before = files(served / "there")
    capsys.readouterr()
    assert main([*losses, "--out", f"{url}/there"]) == 2  # other losses: refused, nothing changed
    told = capsys.readouterr().err
    assert f"--out {url}/there holds a run" in told
    assert str(tmp_path / "cache") not in told
    assert files(served / "there") == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", "classifier", "digits", "--out", "https://host/run"], "can only be read"),
        (["audit", "classifier", "digits", "--out", "s4://host/run"], "Did you mean 's3'"),
        (["audit", "classifier", "file:///data/a", "--out", "file:///data/a/run"], "lie in one another"),
        (["train", "classifier", "file:///data/a/b", "--out", "file:///data/a"], "lie in one another"),
        (["report", "digits", "--out", "ftp://host/report.html"], "writes files of this machine only"),
        (["watch", "ftp://host/run", "--follow"], "looks at a folder of this machine"),
    ],
)
def test_what_a_url_cannot_be_is_one_line(arguments, said, served, tmp_path, capsys):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_printed_settings_have_whole_urls_and_nothing_is_asked_of_them(capsys):
    images = ["audit", "classifier", "s3://bucket/skin", "--image-root", "s3://bucket/all"]
    assert main([*images, "--out", "s3://bucket/runs/skin", "--print-config"]) == 0
    settings = yaml.safe_load(capsys.readouterr().out)
    assert settings["out"] == "s3://bucket/runs/skin"
    assert settings["image_root"] == "s3://bucket/all"


def test_a_message_about_a_copy_names_the_url(served, tmp_path, capsys):
    url = f"file://{served}"
    for name in ("one", "two"):
        assert main(["audit", "losses", f"{url}/made.parquet", "--fail-on", "never", "--out", f"{url}/{name}"]) == 0
    (served / "two" / "summary.json").unlink()
    (served / "two" / ".memorisk-files.json").unlink()  # as a copy made by other means, that lacks a file
    capsys.readouterr()
    assert main(["compare", f"{url}/one", f"{url}/two"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"memorisk: {url}/two: summary.json is not what the run wrote")
    (served / "begun").mkdir()
    (served / "begun" / bookkeeping.CLAIM).write_text("{}")
    assert main(["compare", f"{url}/one", f"{url}/begun"]) == 2
    assert f"{url}/begun holds no finished run (it is being made, or was cut short)" in capsys.readouterr().err
    assert main(["report", f"{url}/begun", "--redact"]) == 2
    assert f"{url}/begun holds no finished run (it is being made, or was cut short)" in capsys.readouterr().err
    assert [p.name for p in (served / "begun").iterdir()] == [bookkeeping.CLAIM]


def test_a_cache_that_may_only_be_read_is_one_line(served, tmp_path, capsys, monkeypatch):
    def read_only(path, text):
        """As the system refuses it."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("memorisk.runs.storage.mirror.write_text", read_only)
    assert main(["images", "check", f"file://{served}"]) == 2
    told = capsys.readouterr().err
    assert f"a copy of file://{served} cannot be written to {tmp_path / 'cache'}" in told
    assert "(Read-only file system): name another folder with --store" in told
