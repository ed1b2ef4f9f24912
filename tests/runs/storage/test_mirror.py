"""Images at URLs, by real servers on loopback: the same manifest, kept up to date, nothing that leaves the copy."""

import os
import sys
from pathlib import Path

import fsspec.config
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.cli.main import main
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.folder import check_out_folder
from memorisk.runs.storage import filesystem
from memorisk.runs.storage.locations import name_origins, redact_urls, url_of
from memorisk.runs.storage.mirror import local_source
from tests.runs.servers import PASSWORD, USER, FtpServer, web_server


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(filesystem, "WAITS", (0.01, 0.05))
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": PASSWORD, "timeout": 5})
    monkeypatch.setenv("FSSPEC_FTP_PASSWORD", PASSWORD)


@pytest.fixture
def skin(tmp_path) -> Path:
    """Two classes of three images, one in a hidden folder."""
    rng = np.random.default_rng(0)
    for name in ("mole/p1 a.png", "mole/p2.png", "naevus/é.png", ".hidden/x.png"):
        path = tmp_path / "served" / "skin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "served" / "skin"


@pytest.fixture
def ftp(tmp_path):
    (tmp_path / "served").mkdir(exist_ok=True)
    server = FtpServer(tmp_path / "served")
    yield server
    server.stop()


def images(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_url_is_known_in_text_and_in_a_path_and_nothing_secret_stands_in_it():
    assert url_of("s3://bucket/a//b/") == "s3://bucket/a/b" == url_of(Path("s3://bucket/a/b"))
    assert url_of(Path("file:///data/x")) == "file:///data/x"
    assert url_of("abfs://box@account.dfs.core.windows.net/x") == "abfs://box@account.dfs.core.windows.net/x"
    for path in ("data/x", Path("data"), "ham10000:/data/ham", "C:/images", "digits", "pkg.module:function"):
        assert url_of(path) is None
    with pytest.raises(InputError, match=r"unknown protocol 's4'.*Did you mean 's3'"):
        url_of(Path("s4://bucket/run"), refuse_unknown=True)
    assert name_origins({"out": Path("s3://b/r"), "n": 3})["out"] == "s3://b/r"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://me:hunter22@host/x",
        "s3://AKIAHUNTER22@bucket/x",
        "https://hunter22@host/x",
        "https://host/x?sig=hunter22",
        "simplecache::ftp://me:hunter22@host/x",
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_repeated(url, tmp_path, capsys):
    for command in (["images", "check", url], ["audit", "losses", "x.csv", "--out", url]):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert "hunter22" not in told.lower()
        assert told.count("\n") == 1
    assert not (tmp_path / "cache").exists() or not any((tmp_path / "cache").rglob("*"))


def test_secrets_of_the_environment_are_not_shown(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    said = redact_urls(f"403 for https://u:p@h/x?X-Amz-Signature=abc with wJalrXUtnFEMI and {PASSWORD}")
    assert said == "403 for https://***@h/x?*** with *** and ***"


@pytest.mark.parametrize("kind", ["file", "ftp", "http"])
def test_the_manifest_and_the_store_are_those_of_the_folder(kind, skin, ftp, tmp_path):
    expected = build_store(load_manifest(skin), ImageOptions())
    with web_server(skin.parent) as (web, _):
        url = {"file": f"file://{skin.parent}", "ftp": ftp.url, "http": web}[kind] + "/skin"
        found = build_store(load_manifest(url), ImageOptions())
    pd.testing.assert_frame_equal(found.manifest.table, expected.manifest.table)
    assert found.manifest.name == expected.manifest.name
    assert (found.data_hash, found.key) == (expected.data_hash, expected.key)
    copied = [p for p in (tmp_path / "cache" / "mirrors").rglob("*") if p.suffix != ".lock"]
    assert not [p for p in copied if p.stat().st_mode & 0o077]
    assert PASSWORD.encode() not in b"".join(p.read_bytes() for p in copied if p.is_file())


def test_a_table_brings_the_images_beside_it_and_image_root_what_it_names(skin, ftp):
    names = ["mole/p2.png", "naevus/é.png"]
    pd.DataFrame({"image": names, "label": ["a", "b"]}).to_csv(skin / "t.csv", index=False)
    beside = load_manifest(f"{ftp.url}/skin/t.csv")
    skin.joinpath("t.csv").rename(skin.parent / "t.csv")
    apart = load_manifest(f"{ftp.url}/t.csv", ImageOptions(image_root=Path(f"{ftp.url}/skin")))
    assert beside.images.tolist() == apart.images.tolist() == names
    assert [p.name for p in (local_source(f"{ftp.url}/t.csv")).parent.iterdir()] == ["t.csv"]


def test_only_what_changed_comes_again_and_what_is_gone_goes(skin):
    with web_server(skin.parent) as (web, asked):
        copy = local_source(f"{web}/skin")
        assert images(copy) == ["mole/p1 a.png", "mole/p2.png", "naevus/é.png"]
        asked.clear()
        local_source(f"{web}/skin")
        assert not [path for path in asked if path.endswith(".png")]
        Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(skin / "mole" / "p2.png")
        (skin / "naevus" / "é.png").unlink()
        assert local_source(f"{web}/skin") == copy
        assert [path for path in asked if path.endswith(".png")] == ["/skin/mole/p2.png"]
    assert images(copy) == ["mole/p1 a.png", "mole/p2.png"]
    assert (copy / "mole" / "p2.png").read_bytes() == (skin / "mole" / "p2.png").read_bytes()


def test_a_copy_that_was_changed_here_is_brought_over_again(skin):
    copy = local_source(f"file://{skin}")
    (copy / "mole" / "p2.png").write_bytes(b"not an image")
    (copy / "mole" / "more.png").write_bytes(b"nor this")
    local_source(f"file://{skin}")
    assert images(copy) == ["mole/p1 a.png", "mole/p2.png", "naevus/é.png"]
    assert (copy / "mole" / "p2.png").read_bytes() == (skin / "mole" / "p2.png").read_bytes()


@pytest.mark.parametrize("kind", ["ftp", "http"])
def test_a_transfer_that_is_cut_is_made_again_and_one_that_stays_cut_goes_on_later(kind, skin, ftp):
    with web_server(skin.parent, cuts=2) as (web, _):
        ftp.cuts = 2
        copy = local_source((ftp.url if kind == "ftp" else web) + "/skin")
        assert (copy / "mole" / "p2.png").read_bytes() == (skin / "mole" / "p2.png").read_bytes()
    (skin / "mole" / "p3.png").write_bytes(b"3")
    if kind == "ftp":
        ftp.cuts = 1000
        with pytest.raises(MemoriskError, match="the same command resumes") as caught:
            local_source(f"{ftp.url}/skin")
        assert PASSWORD not in str(caught.value)
        assert "p3.png" not in [p.name for p in copy.rglob("*")]
        ftp.cuts = 0
        assert (local_source(f"{ftp.url}/skin") / "mole" / "p3.png").read_bytes() == b"3"


def test_a_server_that_is_gone_or_refuses_is_one_line(skin, ftp, monkeypatch, capsys):
    url = f"{ftp.url}/skin"
    ftp.stop()
    assert main(["images", "check", url]) == 3
    assert "cannot be" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    ftp.start()
    monkeypatch.setitem(fsspec.config.conf, "ftp", {"username": USER, "password": "wrong", "timeout": 5})
    assert main(["images", "check", url]) == 2
    assert "credentials are read from the environment" in (said := capsys.readouterr().err)
    assert "wrong" not in said


@pytest.mark.parametrize("name", ["../../evil.png", "a\tb.png", "deep/../../../evil.png"])
def test_names_that_lead_out_of_the_copy_are_refused(name, skin, ftp, tmp_path):
    ftp.lies = [name]
    with pytest.raises(InputError, match="lead out of the folder or hold control characters"):
        load_manifest(f"{ftp.url}/skin")
    assert not [p for p in tmp_path.rglob("*evil*") if "served" not in p.parts]


def test_links_and_names_with_control_characters_are_refused(skin, tmp_path):
    (tmp_path / "secret").mkdir()
    (skin / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="symbolic links"):
        load_manifest(f"file://{skin}")
    (skin / "out").unlink()
    os.close(os.open(skin / "a\nb.png", os.O_CREAT))
    with pytest.raises(InputError, match=r"control characters \('a\\\\nb.png'\)"):
        load_manifest(f"file://{skin}")


def test_what_cannot_be_is_said_before_anything_is_written(skin, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for arguments, said in (
        (["images", "check", "s3://bucket/x"], "python -m pip install s3fs"),
        (["images", "check", f"file://{tmp_path}/none"], "there is nothing of that name"),
        (["images", "check", str(skin), "--store", "s3://bucket/x"], "name a folder of this machine"),
        (["images", "check", "s4://bucket/x"], "s4"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(InputError, match="run folders and output files are local"):
        check_out_folder(Path("s3://bucket/run"), {}, identity=[])
    assert not Path("s3:").exists()
