"""What `memorisk release` says of what stays behind, and where it does not write."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
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
    assert "`statement RUN --images OUT` (for weights --weights OUT) accepts it as what was audited" in said


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


def test_an_image_that_cannot_be_read_leaves_nothing_behind(several: Path, tmp_path: Path) -> None:
    (several / "broken.png").write_bytes((several / "one.png").read_bytes()[:200])
    with pytest.raises(InputError, match="1 image of 8 cannot be read"):
        release(several, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [several]


def test_images_that_nobody_dismissed_stay_behind(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv("runs/copies/review.csv", dtype=str, keep_default_na=False)
    named = set(table["synthetic_image"])
    assert len(named) == 16
    _, out, _ = answer(capsys, "release", "copies", tmp_path / "clean", "--without", "runs/copies")
    assert "134 images and metadata.csv written" in out
    assert out.count("(the review names it)") == 16
    assert "overlooks again what it overlooked" in out
    kept = sorted(file for file in Path("copies").iterdir() if file.name not in named)
    written = sorted((tmp_path / "clean").glob("*.png"))
    for mine, theirs in zip(written, kept, strict=True):
        assert np.array_equal(np.asarray(Image.open(mine)), np.asarray(Image.open(theirs)))
    assert "is not what any of these runs looked at" in refusal(
        capsys, "statement", "runs/copies", "--images", tmp_path / "clean", "--out", tmp_path / "told"
    )

    run = tmp_path / "run"
    run.mkdir()
    shutil.copy("runs/copies/review.csv", run)
    same = table.loc[table["synthetic_image"] == "copies0003_0.png"]
    same.assign(verdict="dismiss", by="A", reason="another person").to_csv(run / "reviewed.csv", index=False)
    found = release("copies", tmp_path / "judged", without=run)
    assert set(found.suspicious) == named - {"copies0003_0.png"}
    assert found.images == 150 - 15
    alone = release("copies", tmp_path / "alone", without=run / "reviewed.csv")
    assert (alone.images, alone.suspicious) == (150, [])


def test_images_stay_behind_by_their_content_and_not_by_their_name(runs: Path, tmp_path: Path) -> None:
    """In a set that is numbered anew, the names of the copies belong to other images."""
    named = set(pd.read_csv("runs/copies/review.csv", dtype=str)["synthetic_image"])
    files, anew = sorted(Path("copies").iterdir()), tmp_path / "anew"
    anew.mkdir()
    for file, place in zip(files, [*files[1:], files[0]], strict=True):
        shutil.copy(file, anew / place.name)
    shutil.copy(Path("copies") / min(named), anew / "twice.png")
    found = release(anew, tmp_path / "out", without="runs/copies")
    copies = {(Path("copies") / name).read_bytes() for name in named}
    assert {(anew / name).read_bytes() for name in found.suspicious} == copies
    assert (found.images, len(found.suspicious)) == (150 + 1 - 17, 17)
    (anew / found.suspicious[0]).unlink()
    (anew / "twice.png").unlink()
    with pytest.raises(InputError, match="has no image with the pixels of 'copies"):
        release(anew, tmp_path / "less", without="runs/copies")


def test_a_set_that_was_changed_after_its_audit_is_not_released(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = sorted(Path("train").glob("*.png"))
    drawn = sorted(Path("clean").glob("*.png"))
    first = drawn[0].read_bytes()
    out = tmp_path / "out"
    try:
        drawn[0].write_bytes(people[0].read_bytes())
        assert "is not an image that the audit compared" in refusal(capsys, "release", "runs/clean", out)
    finally:
        drawn[0].write_bytes(first)
    extra = Path("clean", "zz.png")
    try:
        extra.write_bytes(first)
        assert f"holds {len(drawn) + 1} images, and the audit compared {len(drawn)}" in refusal(
            capsys, "release", "runs/clean", out
        )
    finally:
        extra.unlink()
    assert not list(tmp_path.iterdir())
    assert release("runs/clean", out).images == len(drawn)


@pytest.mark.parametrize(
    ("source", "without", "why"),
    [
        ("clean", "runs/copies", "which the review names: give the set that was audited"),
        ("copies", "runs/quality", "holds no review.csv"),
        ("copies", "nowhere.csv", "nowhere.csv"),
        ("copies", "runs/copies/pairs.csv", "the file or folder does not exist"),
        ("copies", "table.csv", "is not a review.csv"),
    ],
)
def test_a_review_of_something_else_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, without: str, why: str
) -> None:
    if without == "table.csv":
        without = str(tmp_path / without)
        Path(without).write_text("image,label\na.png,x\n")
    assert why in refusal(capsys, "release", source, tmp_path / "clean", "--without", without)
    assert not (tmp_path / "clean").exists()


def test_nothing_is_written_where_the_review_names_every_image(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for row in range(16):
        shutil.copy(f"copies/copies{row:04d}_0.png", few)
    assert "nothing is left to release" in refusal(
        capsys, "release", few, tmp_path / "clean", "--without", "runs/copies"
    )
    assert not (tmp_path / "clean").exists()


def test_a_run_of_relative_paths_names_the_folder_in_which_it_was_made(runs: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^the run names its files \S+, which is not in .*: give the command in the"):
        release(runs / "runs" / "clean", tmp_path / "out")
