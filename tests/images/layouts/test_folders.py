"""Folders as sources: classes, splits, groups by pattern, links, mixed kinds, frames; and the real sets."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from memorisk.images.identity import normal_id
from memorisk.images.layouts.folders import folder_labels
from memorisk.images.manifest import HIDDEN_FILE, leaking_groups, refuse_leaking_splits, require_labels
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write


def _pictures(root: Path, *names: str) -> Path:
    for i, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(path, "PNG")
    return root


def test_class_folders(tmp_path: Path) -> None:
    _pictures(tmp_path, "cat/b.png", "cat/a.png", "dog (big)/a.png", "loose.png")
    write(tmp_path / "notes.txt", b"text")
    write(tmp_path / ".hidden.png", b"")
    write(tmp_path / "__MACOSX/cat/a.png", b"")
    manifest = load_manifest(tmp_path)
    assert manifest.images.tolist() == ["cat/a.png", "cat/b.png", "dog (big)/a.png", "loose.png"]
    assert manifest.labels.tolist() == ["cat", "cat", "dog (big)", ""]
    assert manifest.groups.tolist() == manifest.images.tolist()
    assert manifest.splits is None
    assert dict(zip(manifest.skipped["path"], manifest.skipped["reason"], strict=True)) == {
        ".hidden.png": HIDDEN_FILE,
        "__MACOSX": HIDDEN_FILE,
        "notes.txt": "text and no image",
    }
    assert "1 file left out, text and no image: notes.txt." in manifest.notes
    assert not len(manifest.unread)
    assert manifest.root == tmp_path
    assert read_image(manifest.file(0)).max() == 1


def test_a_table_beside_the_images_is_told_where_labels_are_missing(tmp_path: Path) -> None:
    root = _pictures(tmp_path / "clinic", "images/a.png", "images/b.png")
    write(root / "export.csv", b"file,finding\nimages/a.png,no\n")
    manifest = load_manifest(root)
    assert any("a table that was not read" in note and "export.csv" in note for note in manifest.notes)
    assert not len(manifest.unread)
    with pytest.raises(InputError, match=r"export\.csv may hold them: name the table in place of the folder"):
        require_labels(manifest)
    write(root / "labels.csv", b"image,label\nimages/a.png,\nimages/b.png,no\n")
    joined = load_manifest(root, ImageOptions(labels_csv=root / "labels.csv"))
    assert joined.tables_hint == ""  # a table was named


def test_a_text_is_no_image_by_its_name_and_its_beginning(tmp_path: Path) -> None:
    _pictures(tmp_path, "a.png")
    write(tmp_path / "notes.txt", b"text")
    write(tmp_path / "LICENSE", b"text")
    write(tmp_path / "scan.csv", b"P5\0\0")
    write(tmp_path / "photo.heic", b"ftypheic")
    write(tmp_path / "table", b"text")
    manifest = load_manifest(tmp_path)
    assert manifest.skipped["path"].tolist() == ["LICENSE", "notes.txt", "photo.heic", "scan.csv", "table"]
    assert manifest.unread["path"].tolist() == ["photo.heic", "scan.csv", "table"]


@pytest.mark.parametrize(
    ("files", "labels", "splits"),
    [
        (["train/a/1", "valid/a/2", "Test/b/3"], ["a", "a", "b"], ["train", "val", "test"]),
        (["set/train/a/1", "set/test/b/2"], ["a", "b"], ["train", "test"]),
        (["train/1", "test/2"], ["", ""], ["train", "test"]),
        (["dev/1", "prod/2"], ["dev", "prod"], ["", ""]),
        (["images/1", "images/2"], ["", ""], ["", ""]),
        (["images/1", "a/2"], ["images", "a"], ["", ""]),
        (["1", "2"], ["", ""], ["", ""]),
        (["train/images/1", "val/images/2"], ["", ""], ["train", "val"]),
        (["patients/a/train/b/1"], ["b"], ["train"]),
    ],
)
def test_what_a_folder_is_called_for(files: list[str], labels: list[str], splits: list[str]) -> None:
    assert folder_labels(files) == (labels, splits)


def test_labels_and_groups_by_patterns(tmp_path: Path) -> None:
    _pictures(tmp_path, "x/p1_001.png", "x/p1_002.png", "y/p2_001.png")
    groups = load_manifest(tmp_path, ImageOptions(group_from=r"(p\d)_")).groups.tolist()
    assert groups == ["p1", "p1", "p2"]
    named = ImageOptions(group_from=r"(?P<series>\d+)\.(?P<group>p)ng$", label_from=r"_(\d+)")
    with pytest.raises(InputError, match="is 'p' for all 3 images"):
        load_manifest(tmp_path, named)
    whole = load_manifest(tmp_path, ImageOptions(group_from="p[0-9]", label_from=r"_00(?P<label>\d)"))
    assert whole.groups.tolist() == ["p1", "p1", "p2"]
    assert whole.labels.tolist() == ["1", "2", "1"]
    by_path = load_manifest(tmp_path, ImageOptions(group_from="^([^/]+)/"))
    assert by_path.groups.tolist() == ["x", "x", "y"]
    with pytest.raises(InputError, match=re.escape("finds nothing in 2 of 3 names (x/p1_001.png, x/p1_002.png)")):
        load_manifest(tmp_path, ImageOptions(group_from="p2"))
    with pytest.raises(InputError, match=r"names of files alone, which lack it .* with a slash"):
        load_manifest(tmp_path, ImageOptions(group_from="(x|y)"))


def test_patterns_that_cut_numbers_short_are_refused(tmp_path: Path) -> None:
    _pictures(tmp_path, "x/p1.png", "x/p10.png", "x/p11.png", "y/p2.png")
    with pytest.raises(InputError, match=r"in the middle of numbers, so that 1, 10, 11 become one group, 1: match"):
        load_manifest(tmp_path, ImageOptions(group_from=r"p(\d)"))
    assert load_manifest(tmp_path, ImageOptions(group_from=r"p(\d+)")).groups.tolist() == ["1", "10", "11", "2"]
    on_purpose = load_manifest(tmp_path, ImageOptions(group_from=r"p(\d)\d*"))
    assert on_purpose.groups.tolist() == ["1", "1", "1", "2"]


def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    outside = _pictures(tmp_path / "outside", "secret.png")
    root = _pictures(tmp_path / "set", "a/1.png", "b/2.png")
    (root / "a" / "inside.png").symlink_to(root / "b" / "2.png")
    assert load_manifest(root).n == 3
    (root / "a" / "link.png").symlink_to(outside / "secret.png")
    (root / "c").symlink_to(outside)
    with pytest.raises(
        InputError, match=r"2 paths lead out of the folder \(a/link.png, c\); follow_links accepts them"
    ):
        load_manifest(root)
    followed = load_manifest(root, ImageOptions(follow_links=True))
    assert followed.images.tolist() == ["a/1.png", "a/inside.png", "a/link.png", "b/2.png", "c/secret.png"]


def test_links_to_folders_are_entered_once_and_loops_end(tmp_path: Path) -> None:
    root = _pictures(tmp_path / "set", "a/1.png", "b/2.png")
    (root / "a" / "up").symlink_to(root)
    manifest = load_manifest(root)
    assert manifest.images.tolist() == ["a/1.png", "b/2.png"]
    assert manifest.skipped["path"].tolist() == ["a/up"]
    assert load_manifest(root, ImageOptions(follow_links=True)).n == 2


def test_a_folder_that_is_a_link_itself_is_fine(tmp_path: Path) -> None:
    _pictures(tmp_path / "real", "a/1.png", "b/2.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    manifest = load_manifest(tmp_path / "link")
    assert manifest.labels.tolist() == ["a", "b"]
    assert read_image(manifest.file(1)).max() == 1


def test_strange_names_are_kept_as_they_are(tmp_path: Path) -> None:
    names = ["<b>/x\ny.png", '"/a\u202eb.png', "🩻/ 1 .png"]
    _pictures(tmp_path, *names)
    manifest = load_manifest(tmp_path)
    assert sorted(manifest.images) == sorted(map(normal_id, names))
    assert sorted(manifest.table["path"]) == sorted(names)
    assert manifest.classes == ['"', "<b>", "🩻"]
    assert all(note.isprintable() for note in manifest.notes)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    _pictures(tmp_path, "a/1.png")
    with open(os.fsencode(tmp_path) + b"/a/\xff.png", "wb") as file:  # noqa: PTH123
        file.write(b"x")
    with pytest.raises(InputError, match="1 file names are not UTF-8") as error:
        load_manifest(tmp_path)
    assert str(error.value).isprintable()
    manifest = load_manifest(tmp_path, ImageOptions(skip_unreadable=True))
    assert manifest.n == 1
    assert manifest.skipped["reason"].tolist() == ["the file name is not UTF-8"]


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "texts/table.csv", b"image,label\n")
    picture = _pictures(tmp_path / "one", "a.png") / "a.png"
    write(tmp_path / "strange.bin", b"strange")
    for source, what in [
        (tmp_path / "empty", "no images in this folder"),
        (
            tmp_path / "texts",
            r"no images in this folder \(1 other files\); give one of its files instead \(table.csv\)",
        ),
        (tmp_path / "strnge.bin", r"Did you mean .*strange.bin"),
        (tmp_path / "absent", r"the file or folder does not exist \(the built-in"),
        ("nul\0", "the file or folder does not exist"),
        (picture, "is one PNG image; give its folder"),
        (tmp_path / "strange.bin", "neither a table"),
    ]:
        with pytest.raises(InputError, match=what):
            load_manifest(source)
    with pytest.raises(InputError, match="layout table is for a file"):
        load_manifest(tmp_path / "one", ImageOptions(layout="table"))
    with pytest.raises(InputError, match="layout dicom is for a folder"):
        load_manifest(picture, ImageOptions(layout="dicom"))


def test_columns_without_a_table_are_refused(tmp_path: Path) -> None:
    _pictures(tmp_path, "a/1.png", "b/2.png")
    for source in (tmp_path, "digits"):
        with pytest.raises(
            InputError, match="group_column and split_column name columns of a table, and there is none"
        ):
            load_manifest(source, ImageOptions(group_column="who", split_column="part"))


def test_mixed_kinds_need_a_layout(tmp_path: Path) -> None:
    _pictures(tmp_path, "a/1.png", "b/2.png")
    write(tmp_path / "scan.nii", b"not looked at")
    with pytest.raises(InputError, match=r"several kinds \(2 raster, 1 nifti\); choose with --layout: folder or nifti"):
        load_manifest(tmp_path)
    manifest = load_manifest(tmp_path, ImageOptions(layout="folder"))
    assert manifest.n == 2
    assert manifest.skipped["reason"].tolist() == ["nifti, where the layout is folder"]


def test_a_few_files_of_another_kind_are_left_out_and_told(tmp_path: Path) -> None:
    _pictures(tmp_path, *(f"{name}/{n}.png" for name in "ab" for n in range(9)))
    for name in ("scan.nii", ".DS_Store", "Thumbs.db"):
        write(tmp_path / "a" / name, b"\x00")
    write(tmp_path / "notes.csv", b"a,b\n")
    write(tmp_path / "README.txt", b"mine")
    manifest = load_manifest(tmp_path)
    assert manifest.n == 18
    assert manifest.unread.to_dict("records") == [
        {"path": "a/scan.nii", "reason": "nifti, where the others are raster"}
    ]
    assert "1 file left out, nifti, where the others are raster: a/scan.nii." in manifest.notes
    for n in range(2):
        write(tmp_path / "b" / f"{n}.nii", b"\x00")
    with pytest.raises(InputError, match=r"several kinds \(18 raster, 3 nifti\); choose with --layout"):
        load_manifest(tmp_path)


def test_a_suffix_that_lies_does_not_hide_an_image(tmp_path: Path) -> None:
    _pictures(tmp_path, "a/1.svg", "a/noname", "b/2.png")
    write(tmp_path / "b/empty.jpg", b"")
    assert load_manifest(tmp_path).images.tolist() == ["a/1.svg", "a/noname", "b/2.png", "b/empty.jpg"]


def test_pages_of_stacks(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "stack.tif") as writer:
        for value in range(5):
            writer.write(np.full((8, 8), value, np.uint8), photometric="minisblack")
    _pictures(tmp_path, "single.png")
    write(tmp_path / "broken.tif", b"II*\0")
    plain = load_manifest(tmp_path)
    assert "frame" not in plain.table
    every = load_manifest(tmp_path, ImageOptions(frames="all", frame_step=2))
    assert every.images.tolist() == ["broken.tif", "single.png", "stack.tif#0", "stack.tif#2", "stack.tif#4"]
    assert every.groups.tolist() == ["broken.tif", "single.png", "stack.tif", "stack.tif", "stack.tif"]
    assert every.n_without_group == 5  # a file is no patient
    assert every.table["frame"].isna().tolist() == [True, True, False, False, False]
    frame = int(every.table["frame"].iloc[3])
    assert read_image(every.file(3), frame=frame).max() == 2
    middle = load_manifest(tmp_path, ImageOptions(frames="middle"))
    assert middle.table["frame"].tolist()[2] == 2
    assert load_manifest(tmp_path, ImageOptions(frames="first")).table["frame"].tolist()[2] == 0


def test_a_folder_of_volumes(tmp_path: Path) -> None:
    nib = pytest.importorskip("nibabel")
    for name in ("sub-01_T1w.nii.gz", "sub-02_T1w.nii"):
        nib.save(nib.Nifti1Image(np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6), np.eye(4)), tmp_path / name)
    one = load_manifest(tmp_path, ImageOptions(slice_plane="coronal"))
    assert one.table["member"].tolist() == ["coronal", "coronal"]
    assert "frame" not in one.table
    options = ImageOptions(frames="all", frame_step=2, slice_plane="coronal", group_from="sub-[0-9]+")
    every = load_manifest(tmp_path, options)
    assert every.images.tolist()[:2] == ["sub-01_T1w.nii.gz#0", "sub-01_T1w.nii.gz#2"]
    assert every.table["frame"].tolist() == [0, 2, 4] * 2  # the middle one of five is 2
    assert set(every.groups) == {"sub-01", "sub-02"}
    assert every.n_without_group == 0
    image = read_image(every.file(1), member=every.table["member"].iloc[1], frame=2)
    np.testing.assert_array_equal(image, read_image(one.file(0), member="coronal"))


# --- real sets ------------------------------------------------------------------------------------------------------


def test_busi(shared_data: Path) -> None:
    whole = load_manifest(shared_data / "busi_ultrasound")
    direct = load_manifest(shared_data / "busi_ultrasound" / "Dataset_BUSI_with_GT")
    for manifest in (whole, direct):
        assert {c: int((manifest.labels == c).sum()) for c in manifest.classes} == {
            "benign": 437,
            "malignant": 210,
            "normal": 133,
        }
        assert manifest.splits is None
    assert direct.images[0] == "benign/benign (1).png"
    assert whole.skipped["path"].tolist() == ["SOURCE.txt"]


def test_nih_with_its_patients_and_splits(shared_data: Path) -> None:
    manifest = load_manifest(shared_data / "nih_cxr14_64" / "NIH1000", ImageOptions(group_from=r"^(\d+)_"))
    assert manifest.n == 1000
    assert manifest.classes == ["0_normal", "1_abnormal"]
    assert manifest.splits is not None
    counts = {s: int((manifest.splits == s).sum()) for s in ("train", "val", "test")}
    assert counts == {"train": 600, "val": 200, "test": 200}
    sizes = np.unique(manifest.groups, return_counts=True)[1]
    assert (len(sizes), int((sizes > 1).sum()), int(sizes.max())) == (264, 136, 66)
    assert "00000005" in load_manifest(shared_data / "nih_cxr14_64", ImageOptions(group_from=r"^(\d+)_")).groups
    assert len(leaking_groups(manifest)) == 30
    with pytest.raises(InputError, match="30 groups are in more than one given split"):
        refuse_leaking_splits(manifest)


def test_sets_with_train_and_test_folders(shared_data: Path) -> None:
    for name, sizes in (
        ("fashion_mnist_png", {"train": 10_000, "test": 10_000}),
        ("cifar10_jpg", {"train": 5_000, "test": 2_000}),
    ):
        manifest = load_manifest(shared_data / name)
        assert len(manifest.classes) == 10
        assert manifest.splits is not None
        assert {s: int((manifest.splits == s).sum()) for s in sizes} == sizes


def test_what_systems_drives_and_editors_keep_is_no_image(tmp_path: Path) -> None:
    images = ["a/p1.png", "b.tmp/p2.png"]
    kept = [
        *(
            f"{name}/1.png"
            for name in ("~snapshot", "@tmp", "a/@SynoResource", "@SynoEAStream", "Network Trash Folder")
        ),
        *(f"{name}/1.png" for name in ("Temporary Items", "FOUND.000", "$WINDOWS.~BT", "a/__pycache__", "_gsdata_")),
        *(f"a/p1.png.{end}" for end in ("bak", "ORIG", "tmp", "part", "crdownload", "swp")),
        "a/@eaDir/p1.png/SYNOPHOTO_THUMB_M.jpg",
        "#recycle/a/x.png",
        "$RECYCLE.BIN/S-1-5/$R1.png",
        "Lost+Found/1.png",
    ]
    kept += ["a/p1.png~", "a/~$p1.png", "b/#p2.png#", "System Volume Information/1.png", "b/Picasa.ini"]
    _pictures(tmp_path, *images, *kept)
    manifest = load_manifest(tmp_path)
    assert manifest.images.tolist() == images
    assert manifest.classes == ["a", "b.tmp"]
    assert set(manifest.skipped["reason"]) == {HIDDEN_FILE}
    assert len(manifest.skipped) == len(kept)
    assert not len(manifest.unread)
    assert any(note.startswith(f"{len(kept)} files left out, {HIDDEN_FILE}") for note in manifest.notes)


@pytest.mark.parametrize(
    "masks",
    [
        ["ground_truth/bad/1_mask.png", "ground_truth/bad/2_mask.png"],
        ["masks/bad/1.png", "masks/bad/2.png"],
        ["labelsTr/1.png", "labelsTr/2.png"],
        ["bad/1_segmentation.png", "bad/2_segmentation.png"],
        ["bad/1-heatmap.png", "bad/2-heatmap.png"],
    ],
)
def test_masks_beside_images_are_noted(tmp_path: Path, masks: list[str]) -> None:
    _pictures(tmp_path, "good/0.png", "bad/1.png", "bad/2.png", *masks)
    (note,) = load_manifest(tmp_path).notes
    assert note.startswith(f"2 files are called as another image or lie in a folder of masks ({masks[0]}")


@pytest.mark.parametrize(
    "names", [["a/p1.png", "a/p1_1.png", "b/p1_2.png"], ["a/x.png", "b/x_left.png"], ["masks/1.png", "masks/2.png"]]
)
def test_images_of_one_patient_are_no_masks(tmp_path: Path, names: list[str]) -> None:
    _pictures(tmp_path, *names)
    assert load_manifest(tmp_path).notes == ()
