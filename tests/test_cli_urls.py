"""URLs on the command line: inputs as from a folder, settings with the URL, refusals in one line."""

import errno
import os
from pathlib import Path

import pytest
import yaml

from memorisk.audits.classifier.evidence import write_scores
from memorisk.cli.main import main
from tests.audits.made_evidence import twin_evidence

TIMES = {"config.yaml", "log.jsonl", ".lock"}


@pytest.fixture
def served(tmp_path, monkeypatch) -> Path:
    """A folder that tests name by ``file://``, with a table of losses in it."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "served").mkdir()
    evidence = twin_evidence(sizes={"a": 8, "b": 8}, n_test=8, n_seeds=2)
    write_scores(tmp_path / "served" / "made.parquet", evidence)
    return tmp_path / "served"


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name not in TIMES}


def test_an_input_at_a_url_gives_the_run_of_the_local_file(served, tmp_path):
    for source, out in ((f"file://{served}/made.parquet", "url"), (str(served / "made.parquet"), "path")):
        assert main(["audit", "losses", source, "--fail-on", "never", "--out", str(tmp_path / out)]) == 0
    assert files(tmp_path / "url") == files(tmp_path / "path")
    settings = (tmp_path / "url" / "config.yaml").read_text()
    assert yaml.safe_load(settings)["file"] == f"file://{served}/made.parquet"
    assert str(tmp_path / "cache") not in settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "classifier", "digits", "--out", "s3://bucket/run"], "--out s3://bucket/run: run folders"),
        (["audit", "classifier", "digits", "--out", "s3://bucket/run", "--print-config"], "aws s3 sync"),
        (["audit", "classifier", "digits", "--out", "s4://host/run"], "Did you mean 's3'"),
        (["filter", "a", "b", "file:///data/kept"], "--out file:///data/kept: run folders"),
        (["report", "s3://bucket/run", "--redact"], "RUN s3://bucket/run: run folders"),
        (["report", "run", "--out", "ftp://host/report.html"], "--out ftp://host/report.html"),
        (["compare", "here", "s3://bucket/run"], "SECOND s3://bucket/run"),
        (["statement", "here", "s3://bucket/run", "--out", "x"], "RUNS s3://bucket/run"),
        (["view", "gs://bucket/runs"], "PLACES gs://bucket/runs"),
        (["watch", "ftp://host/run", "--follow"], "TRAINING ftp://host/run"),
    ],
)
def test_a_run_folder_at_a_url_is_refused_in_one_line(arguments, message, served, tmp_path, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_printed_settings_have_whole_urls(capsys):
    images = ["audit", "classifier", "s3://bucket/skin", "--image-root", "s3://bucket/all"]
    assert main([*images, "--out", "run", "--print-config"]) == 0
    settings = yaml.safe_load(capsys.readouterr().out)
    assert (settings["images"], settings["image_root"]) == ("s3://bucket/skin", "s3://bucket/all")


def test_a_message_about_a_copy_names_the_url(served, tmp_path, capsys):
    (served / "made.parquet").write_bytes(b"PAR1")
    assert main(["audit", "losses", f"file://{served}/made.parquet", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert f"file://{served}/made.parquet" in error
    assert str(tmp_path / "cache") not in error


def test_a_cache_that_may_only_be_read_is_one_line(served, tmp_path, capsys, monkeypatch):
    def read_only(path, text):
        """As the system refuses it."""
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("memorisk.runs.storage.mirror.write_text", read_only)
    assert main(["images", "check", f"file://{served}"]) == 2
    error = capsys.readouterr().err
    assert f"a copy of file://{served} cannot be written to {tmp_path / 'cache'}" in error
    assert "(Read-only file system): name another folder with --store" in error
