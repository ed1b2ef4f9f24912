"""CelebA and ImageNet-LT as published: lists in two forms, identities or none."""

from pathlib import Path

import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.official_trees import notes_of, pictures, rows_of
from tests.images.official_trees_pairs import ATTRIBUTES, celeba, celeba_as_kaggle_has_it, imagenet_lt


def test_celeba(tmp_path: Path) -> None:
    manifest = load_manifest(f"celeba:{celeba(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group", "split") == [
        ("000001.jpg", "img_align_celeba/000001.jpg", "Attribute_0|Attribute_5", "2880", "train"),
        ("000002.jpg", "img_align_celeba/000002.jpg", "Attribute_1|Attribute_6", "2880", "train"),
        ("000003.jpg", "img_align_celeba/000003.jpg", "Attribute_2|Attribute_7", "17", "val"),
        ("000004.jpg", "img_align_celeba/000004.jpg", "Attribute_3|Attribute_8", "17", "val"),
        ("000005.jpg", "img_align_celeba/000005.jpg", "none", "9", "test"),
    ]
    assert "5 images are here; the official release has 202,599." in manifest.notes
    assert "the celebrity of identity_CelebA (3 of them)" in notes_of(manifest)
    assert len(ATTRIBUTES) == 40


def test_celeba_in_the_folders_of_the_archive_and_without_a_split(tmp_path: Path) -> None:
    whole = load_manifest(f"celeba:{celeba(tmp_path)}")
    for folder, moved in (
        ("Img", "img_align_celeba"),
        ("Anno", "list_attr_celeba.txt"),
        ("Anno", "identity_CelebA.txt"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / moved).rename(tmp_path / folder / moved)
    (tmp_path / "list_eval_partition.txt").unlink()
    pictures(tmp_path / "Img/img_celeba", "000001.jpg")
    manifest = load_manifest(f"celeba:{tmp_path}")
    assert rows_of(manifest, "image", "label", "group") == rows_of(whole, "image", "label", "group")
    assert manifest.table["path"].tolist()[0] == "Img/img_align_celeba/000001.jpg"
    assert manifest.splits is None
    assert manifest.skipped["reason"].tolist() == ["a second file of a listed image"]


def test_celeba_from_kaggle_asks_for_the_identities(tmp_path: Path) -> None:
    celeba_as_kaggle_has_it(tmp_path)
    with pytest.raises(InputError, match=r"no identity_CelebA\.txt \(or \.csv\) .*; Kaggle's copy lacks it; get it"):
        load_manifest(f"celeba:{tmp_path}")
    for name, content in (
        ("identity_CelebA.txt", "000001.jpg 5\n000002.jpg 5\n000003.jpg 6\n"),
        ("identity_CelebA.csv", "image_id,identity\n000001.jpg,5\n000002.jpg,5\n000003.jpg,6\n"),
    ):
        (tmp_path / name).write_text(content)
        manifest = load_manifest(f"celeba:{tmp_path}")
        (tmp_path / name).unlink()
        assert rows_of(manifest, "image", "label", "group", "split") == [
            ("000001.jpg", "Attribute_0", "5", "train"),
            ("000002.jpg", "Attribute_0", "5", "val"),
            ("000003.jpg", "Attribute_0", "6", "test"),
        ]


def test_celeba_that_cannot_be_trusted(tmp_path: Path) -> None:
    celeba(tmp_path)
    for name, old, new, said in (
        ("identity_CelebA.txt", "000003.jpg 17\n", "", r"says nothing of 1 of 5 images \(000003\.jpg\)"),
        ("identity_CelebA.txt", "000003.jpg", "000002.jpg", "names some images twice"),
        (
            "identity_CelebA.txt",
            "000003.jpg 17",
            "000003.jpg 17 x",
            "identity_CelebA.txt: cannot be read as the official",
        ),
        ("identity_CelebA.txt", " 17\n", " 2880\n", "is '2880' for all"),
        ("list_eval_partition.txt", "000005.jpg 2", "000005.jpg 3", r"a part is '3', not 0 \(train\)"),
        ("list_attr_celeba.txt", "000002.jpg -1", "000002.jpg 7", "an attribute is '7', not 1 or -1"),
        ("list_attr_celeba.txt", "Attribute_39", "", "5 images with 39 attributes; the official list has 40"),
    ):
        whole = (tmp_path / name).read_text()
        changed = whole.replace(old, new)
        if said.startswith("is '2880'"):
            changed = changed.replace(" 9\n", " 2880\n")
        assert changed != whole
        (tmp_path / name).write_text(changed)
        with pytest.raises(InputError, match=said):
            load_manifest(f"celeba:{tmp_path}")
        (tmp_path / name).write_text(whole)
    (tmp_path / "img_align_celeba/000004.jpg").unlink()
    with pytest.raises(InputError, match=r"1 of 5 images have no file .*000004\.jpg"):
        load_manifest(f"celeba:{tmp_path}")
    assert load_manifest(f"celeba:{tmp_path}", ImageOptions(skip_missing=True)).n == 4


def test_imagenet_lt(tmp_path: Path) -> None:
    manifest = load_manifest(f"imagenet-lt:{imagenet_lt(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group", "split", "class") == [
        ("n01440764_762", "train/n01440764/n01440764_762.JPEG", "n01440764", "n01440764_762", "train", 0),
        ("n01443537_16403", "train/n01443537/n01443537_16403.JPEG", "n01443537", "n01443537_16403", "train", 1),
        ("n01440764_3778", "train/n01440764/n01440764_3778.JPEG", "n01440764", "n01440764_3778", "val", 0),
        (
            *("ILSVRC2012_val_00023869", "val/n01443537/ILSVRC2012_val_00023869.JPEG", "n01443537"),
            *("ILSVRC2012_val_00023869", "test", 1),
        ),
    ]
    assert not manifest.groups_given
    assert "4 images are here; the official release has 185,846." in manifest.notes


def test_imagenet_lt_below_other_folders_and_with_a_flat_validation_part(tmp_path: Path) -> None:
    imagenet_lt(tmp_path)
    deep = tmp_path / "ILSVRC/Data/CLS-LOC"
    deep.mkdir(parents=True)
    (tmp_path / "train").rename(deep / "train")
    (deep / "val").mkdir()
    (tmp_path / "val/n01443537/ILSVRC2012_val_00023869.JPEG").rename(deep / "val/ILSVRC2012_val_00023869.JPEG")
    (tmp_path / "ImageNet_LT").mkdir()
    for path in tmp_path.glob("*.txt"):
        path.rename(tmp_path / "ImageNet_LT" / path.name)
    (tmp_path / "ImageNet_LT/ImageNet_LT_val.txt").unlink()
    manifest = load_manifest(f"imagenet-lt:{tmp_path}")
    assert manifest.table["path"].tolist() == [
        "ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_762.JPEG",
        "ILSVRC/Data/CLS-LOC/train/n01443537/n01443537_16403.JPEG",
        "ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00023869.JPEG",
    ]
    assert "ImageNet_LT_val.txt is not in the folder; its images are left out." in manifest.notes


def test_imagenet_lt_that_cannot_be_trusted(tmp_path: Path) -> None:
    imagenet_lt(tmp_path)
    for name, content, said in (
        ("train", "n01440764_762.JPEG 0", r"'n01440764_762.JPEG 0' is not a line of the official list"),
        ("val", "train/n01440764/n01440764_3778.JPEG 5", "a class has two numbers, or a number two classes"),
        ("val", "train/n01440764/n01440764_1.JPEG 0", r"1 of 4 images have no file .*n01440764_1\)"),
        ("val", "train/n01440764/n01440764_762.JPEG 0", r"more than once \(n01440764_762\)"),
        ("val", "../train/n01440764/n01440764_762.JPEG 0", "leads out of the folder"),
    ):
        path = tmp_path / f"ImageNet_LT_{name}.txt"
        whole = path.read_text()
        path.write_text(content)
        with pytest.raises(InputError, match=said):
            load_manifest(f"imagenet-lt:{tmp_path}")
        path.write_text(whole)
