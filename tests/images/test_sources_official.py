"""Published data sets in their official layouts: what all readers have in common."""

from pathlib import Path

import pytest

from memorisk.images.manifest import leaking_groups
from memorisk.images.options import ImageOptions
from memorisk.images.published.registry import OFFICIAL, load_official
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import manifest_sources
from memorisk.runs.errors import InputError
from tests.commands import answer, refusal
from tests.images.official_trees import LAYOUTS as FIRST_LAYOUTS
from tests.images.official_trees import SIDES, ham, notes_of, pictures
from tests.images.official_trees_objects import OBJECT_LAYOUTS, OBJECT_SIDES
from tests.images.official_trees_pairs import PAIR_LAYOUTS, SCAN

LAYOUTS = FIRST_LAYOUTS | PAIR_LAYOUTS | OBJECT_LAYOUTS


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout(name: str, tmp_path: Path) -> None:
    """What all have in common: files that can be read, the data set's name, no extra folder taken for data."""
    make, n = LAYOUTS[name]
    make(tmp_path / "set")
    manifest = load_manifest(f"{name}:{tmp_path / 'set'}")
    assert (manifest.n, manifest.name) == (n, name)
    assert set(manifest.table["dataset"]) == {name}
    side = (SIDES | OBJECT_SIDES | {"ct-rate": SCAN[0]}).get(name, 4)
    for source in manifest_sources(manifest):
        assert read_image(source.file, member=source.member, frame=source.frame).shape[:2] == (side, side)
    assert leaking_groups(manifest) == {}
    assert "Label: " in notes_of(manifest)
    assert "Group: " in notes_of(manifest)
    spelt = load_manifest(f"{name.upper().replace('-', '_')}:{tmp_path / 'set'}")
    assert spelt.table.equals(manifest.table)
    assert load_official(f"{name}:{tmp_path / 'set'}", ImageOptions()) is not None


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_or_two_levels_too_high_is_found(name: str, tmp_path: Path) -> None:
    LAYOUTS[name][0](tmp_path / "archive/deep ")
    direct = load_manifest(f"{name}:{tmp_path / 'archive/deep '}")
    for above, below in ((tmp_path / "archive", "deep "), (tmp_path, "archive/deep ")):
        manifest = load_manifest(f"{name}:{above}")
        assert manifest.table.equals(direct.table)
        assert f"found in the folder {below} below" in manifest.notes[0]
    LAYOUTS[name][0](tmp_path / "archive/other")
    with pytest.raises(InputError, match=r"holds several such data sets \(deep , other\); name one of them"):
        load_manifest(f"{name}:{tmp_path / 'archive'}")


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("ham10000", "HAM10000_images_part_1"),
        ("chestxray14", "images_002/images"),
        ("kvasir-capsule", "labelled_images/Polyp"),
        ("odir5k", "preprocessed_images"),
        ("retinal-oct", "train/CNV"),
        ("celeba", "img_align_celeba"),
        ("imagenet-lt", "train"),
        ("mimic-cxr", "files/p10"),
        ("nih-cxr-lt", "images"),
        ("isic2020", "train"),
        ("ct-rate", "CT-RATE"),
    ],
)
def test_too_low_is_refused_with_the_way_out(name: str, below: str, tmp_path: Path) -> None:
    root = LAYOUTS[name][0](tmp_path / "set")
    with pytest.raises(InputError, match=f"is a part of the data set; give {name}:") as caught:
        load_manifest(f"{name}:{root / below}")
    way_out = str(caught.value).rpartition("give ")[2]
    assert load_manifest(way_out).n == LAYOUTS[name][1]


@pytest.mark.parametrize("name", LAYOUTS)
def test_neither_folder_nor_data(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name}: the folder .* does not exist"):
        load_manifest(f"{name}:{tmp_path / 'absent'}")
    (tmp_path / "papers").mkdir()
    with pytest.raises(InputError, match=f"{name}: .* does not hold .* \\(it holds papers\\); name the folder"):
        load_manifest(f"{name}:{tmp_path}")
    for options, said in (
        (ImageOptions(group_column="x", label_from="y"), "group_column and label_from cannot be set"),
        (ImageOptions(layout="folder"), "layout cannot be set"),
    ):
        with pytest.raises(InputError, match=f"{name}: {said}, .* without '{name}:'"):
            load_manifest(f"{name}:{tmp_path}", options)


def test_names_and_paths_with_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "ham10000:set", "a/1.png", "b/2.png")
    assert load_manifest("ham10000:set").labels.tolist() == ["a", "b"]
    monkeypatch.setenv("HOME", str(tmp_path))
    ham(tmp_path / "mine")
    assert load_manifest("ham10000:~/mine").n == 3
    for source, said in (
        ("ham1000:set", r"unknown data set before the colon \(and the path does not exist\): 'ham1000'.*'ham10000'\?"),
        ("ham10000:", "ham10000: the text after the colon is missing; give ham10000:FOLDER"),
        ("medmnist: ", "medmnist: the text after the colon is missing; give medmnist:NAME"),
        (r"C:\images", "the file or folder does not exist"),
        ("absent/ham10000:x", "the file or folder does not exist"),
        ("a\nb:c", "the file or folder does not exist"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            load_manifest(source)
        assert "\n" not in str(caught.value)
    assert set(OFFICIAL) == {*LAYOUTS, "medmnist"}


def test_on_the_command_line_and_in_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"ham10000:{ham(tmp_path / 'set')}"
    code, out, err = answer(capsys, "images", "check", source)
    assert code in (0, 1), err
    assert "3 images" in out
    assert "ham1000" in refusal(capsys, "images", "check", f"ham1000:{tmp_path}")
    command = ("audit", "classifier", source, "--out", tmp_path / "run", "--sample", 7, "--print-config")
    code, out, err = answer(capsys, *command)
    assert code == 0, err
    assert f"images: {source}" in out
    assert "sample: 7" in out
    (tmp_path / "s.yaml").write_text(out, encoding="utf-8")
    assert answer(capsys, "--config", tmp_path / "s.yaml", "audit", "classifier", "--print-config")[1] == out
