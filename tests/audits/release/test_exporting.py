"""What `memorisk release` says of what stays behind, and where it does not write."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.release.export import release
from memorisk.images.options import ImageOptions
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.commands import answer, refusal

FRAMES = {"a.png": "PNG", "b.gif": "GIF", "c.tif": "TIFF", "d.webp": "WEBP", "e.jpg": "MPO"}


def pictures(n: int) -> list[Image.Image]:
    """Different colour images."""
    pixels = np.random.default_rng(0).integers(0, 256, (n, 24, 24, 3), dtype=np.uint8)
    return [Image.fromarray(image) for image in pixels]


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A folder of files of three frames each, and of files of one."""
    folder, (first, *others) = tmp_path / "set", pictures(3)
    folder.mkdir()
    for name, kind in FRAMES.items():
        first.save(folder / name, format=kind, save_all=True, append_images=others)
    first.save(folder / "one.png")
    first.save(folder / "one.jpg")
    return folder


def test_help_says_when_a_statement_is_about_the_export(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(capsys, "release", "--help")
    said = " ".join(out.split())
    assert "`statement --images OUT` (for weights --weights OUT) recognises it as a copy of what was audited" in said


def test_frames_that_stay_behind_are_told(several: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "release", several, tmp_path / "out")
    assert code == 0
    assert "Left behind: 10 further frames, pages or slices of 5 files (a.png: 2, b.gif: 2, c.tif: 2," in out
    assert "--frames all" in out
    _, out, _ = answer(capsys, "release", several, tmp_path / "again", "--json")
    assert json.loads(out)["frames_left"] == dict.fromkeys(FRAMES, 2)
    every = release(several, tmp_path / "all", frames="all")
    assert (every.images, every.frames_left) == (3 * len(FRAMES) + 2, {})
    one = release(tmp_path / "all", tmp_path / "one")
    assert not one.frames_left


def test_only_a_jpeg_of_several_pictures_is_a_stack(several: Path) -> None:
    """An ordinary JPEG keeps its rows whatever frames are asked for."""
    manifest = load_manifest(several)
    assert uncovered_frames(manifest, "axial") == dict.fromkeys(FRAMES, 2)
    table = load_manifest(several, ImageOptions(frames="all")).table
    assert table["path"].value_counts()["e.jpg"] == 3
    assert table.loc[table["path"] == "one.jpg", "frame"].isna().all()


@pytest.mark.parametrize(
    ("source", "out", "more", "said"),
    [
        ("set", "set/out", (), "lies inside SOURCE"),
        ("set", ".", (), "holds SOURCE"),
        ("table.csv", "set/out", (), "lies inside set"),
        ("table.csv", "set/deep/out", (), "lies inside set"),
        ("names.csv", "set/out", ("--image-root", "set"), "lies inside --image-root"),
    ],
)
def test_nothing_is_written_into_or_around_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source, out, more, said
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("set").mkdir()
    for k, image in enumerate(pictures(2)):
        image.save(f"set/{k}.png")
    Path("table.csv").write_text("image,path\n0,set/0.png\n1,set/1.png\n")
    Path("names.csv").write_text("image,path\n0,0.png\n1,1.png\n")
    before = sorted(tmp_path.rglob("*"))
    assert said in refusal(capsys, "release", source, out, *more)
    assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.setattr("memorisk.audits.release.export.write_clean_set", None)  # refused before any work
    with pytest.raises(InputError, match=said):
        release(source, out, **({"image_root": Path(more[1])} if more else {}))


def test_a_table_s_images_are_written_beside_them(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    pictures(1)[0].save(tmp_path / "set" / "0.png")
    (tmp_path / "table.csv").write_text("image,path\n0,set/0.png\n")
    assert release(tmp_path / "table.csv", tmp_path / "out").images == 1
