"""MIMIC-CXR, the long-tailed chest X-ray sets and ISIC-2020 as published."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.dicom_making import dicom
from tests.images.official_trees import notes_of, pictures, rows_of
from tests.images.official_trees_pairs import isic2020, mimic, mimic_lt, nih_lt


def test_mimic_cxr(tmp_path: Path) -> None:
    manifest = load_manifest(f"mimic-cxr:{mimic(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group", "split", "study_id", "ViewPosition") == [
        (
            *("aa11-bb", "files/p10/p10000032/s50414267/aa11-bb.jpg", "Edema|Pneumonia"),
            *("10000032", "train", 50414267, "PA"),
        ),
        ("cc22-dd", "files/p10/p10000032/s53189527/cc22-dd.jpg", "none", "10000032", "train", 53189527, "PA"),
        ("ee33-ff", "files/p10/p10000764/s57375967/ee33-ff.dcm", "", "10000764", "val", 57375967, "PA"),
    ]
    assert "lists 3 images; the official release has 377,110" in notes_of(manifest)
    assert "1 images have no row there" in notes_of(manifest)
    assert read_image(tmp_path / manifest.table["path"].tolist()[2]).max() > 0


def test_mimic_cxr_prefers_jpegs_and_goes_without_split_and_labels(tmp_path: Path) -> None:
    mimic(tmp_path)
    pictures(tmp_path / "files/p10/p10000764/s57375967", "ee33-ff.jpg", "index.jpg")
    for path in (*tmp_path.glob("*split*"), *tmp_path.glob("*chexpert*")):
        path.unlink()
    manifest = load_manifest(f"mimic-cxr:{tmp_path}")
    assert manifest.table["path"].str.endswith(".jpg").all()
    assert manifest.splits is None
    assert set(manifest.labels) == {""}
    assert "Label: none, mimic-cxr-2.0.0-chexpert.csv is not in the folder." in manifest.notes
    assert "2 other image files are not listed" in notes_of(manifest)


def test_mimic_cxr_lt(tmp_path: Path) -> None:
    manifest = load_manifest(f"mimic-cxr:{mimic_lt(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group", "split", "part") == [
        (
            *("aa11-bb", "files/p10/p10000032/s50414267/aa11-bb.jpg", "Tortuous Aorta"),
            *("10000032", "train", "train"),
        ),
        ("ee33-ff", "files/p10/p10000764/s57375967/ee33-ff.dcm", "Edema", "10000764", "val", "balanced-val"),
    ]
    assert "The tables of balanced-test, test are not in the folder" in notes_of(manifest)


def test_mimic_cxr_that_cannot_be_trusted(tmp_path: Path) -> None:
    table = mimic(tmp_path) / "mimic-cxr-2.0.0-metadata.csv.gz"
    whole = gzip.decompress(table.read_bytes()).decode()
    for changed, said in (
        (
            whole.replace("aa11-bb,10000032", "aa11-bb,10000033"),
            r"1 images lie elsewhere than .* \(files/p10/p10000032",
        ),
        (whole.replace("subject_id", "subject"), "no column subject_id among dicom_id, subject"),
        (whole.replace("aa11-bb", "xx-yy"), r"1 of 3 images have no file .*xx-yy"),
        (whole.replace("cc22-dd,10000032,53189527", "aa11-bb,10000032,50414267"), r"more than once \(aa11-bb\)"),
    ):
        assert changed != whole
        table.write_bytes(gzip.compress(changed.encode()))
        with pytest.raises(InputError, match=said):
            load_manifest(f"mimic-cxr:{tmp_path}")
    table.write_bytes(gzip.compress(whole.encode())[:40])
    with pytest.raises(InputError, match=r"metadata\.csv\.gz: cannot be read as a table"):
        load_manifest(f"mimic-cxr:{tmp_path}")
    table.write_bytes(gzip.compress(whole.encode()))
    split = tmp_path / "mimic-cxr-2.0.0-split.csv"
    split.write_text(split.read_text().replace("validate", "trial"))
    with pytest.raises(InputError, match="a split is 'trial', not one of train, validate, test"):
        load_manifest(f"mimic-cxr:{tmp_path}")


def test_nih_cxr_lt(tmp_path: Path) -> None:
    manifest = load_manifest(f"nih-cxr-lt:{nih_lt(tmp_path)}")
    assert rows_of(manifest, "image", "label", "group", "split", "part") == [
        ("00000001_000.png", "Hernia", "1", "train", "train"),
        ("00000001_001.png", "No Finding", "1", "train", "train"),
        ("00000002_000.png", "Mass", "2", "val", "balanced-val"),
        ("00000003_000.png", "Pneumomediastinum", "3", "test", "balanced-test|test"),
        ("00000013_004.png", "Hernia", "13", "test", "test"),
    ]
    assert "5 images are here; paper 004 says 84,158." in manifest.notes
    pictures(tmp_path / "images", "00000099_000.png")
    assert "1 left out, not listed in the tables" in notes_of(load_manifest(f"nih-cxr-lt:{tmp_path}"))


def test_nih_cxr_lt_that_cannot_be_trusted(tmp_path: Path) -> None:
    tables = nih_lt(tmp_path) / "LongTailCXR"
    train = tables / "nih-cxr-lt_single-label_train.csv"
    whole = train.read_text()
    image = "00000001_000.png"
    for changed, said in (
        (whole.replace(f"{image},0", f"{image},1"), r"1 images have not exactly one class \(00000001_000\.png\)"),
        (whole.replace(image, "00000002_000.png"), r"1 images are in two splits or classes \(00000002_000\.png\)"),
        (whole.replace(image, "first.png"), r"1 ids have no patient in them \(first\.png\)"),
        (whole.replace(image, "00000001_007.png"), r"1 of 5 images have no file .*00000001_007"),
        (whole.replace("Tortuous Aorta", "Aorta"), "no column Tortuous Aorta among"),
        (
            whole.replace("id,", "part,id,").replace("\n0", "\nx,0"),
            "has a column part, which the official table has not",
        ),
    ):
        assert changed != whole
        train.write_text(changed)
        with pytest.raises(InputError, match=said):
            load_manifest(f"nih-cxr-lt:{tmp_path}")


def test_isic2020(tmp_path: Path) -> None:
    """Of three images of one lesion the first stays, and names the others; the counts are the paper's."""
    manifest = load_manifest(f"isic2020:{isic2020(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group", "duplicate", "age_approx") == [
        ("ISIC_0000000", "train/ISIC_0000000.jpg", "benign", "IP_0", "ISIC_0000001|ISIC_0000005", 45),
        ("ISIC_0000002", "train/ISIC_0000002.jpg", "benign", "IP_1", "", 45),
        ("ISIC_0000003", "train/ISIC_0000003.jpg", "benign", "IP_1", "", 45),
        ("ISIC_0000004", "train/ISIC_0000004.jpg", "malignant", "IP_2", "", 45),
    ]
    assert "In 1 of these pairs the two have different patient ids." in notes_of(manifest)
    assert "2 left out, the second image of an identical lesion" in notes_of(manifest)
    assert manifest.splits is None
    (tmp_path / "ISIC_2020_Training_Duplicates.csv").unlink()
    whole = load_manifest(f"isic2020:{tmp_path}")
    assert whole.n == 6
    assert "lists 425 pairs of identical lesions" in notes_of(whole)


def test_isic2020_as_kaggle_has_it_and_as_dicom(tmp_path: Path) -> None:
    isic2020(tmp_path)
    (tmp_path / "ISIC_2020_Training_GroundTruth.csv").rename(tmp_path / "train.csv")
    (tmp_path / "jpeg").mkdir()
    (tmp_path / "train").rename(tmp_path / "jpeg/train")
    (tmp_path / "train").mkdir()
    for k in range(6):
        pixels = dicom(np.full((4, 4), 40 * k + 3, np.uint8))
        pixels.save_as(tmp_path / f"train/ISIC_000000{k}.dcm", enforce_file_format=True)
    manifest = load_manifest(f"isic2020:{tmp_path}")
    assert manifest.table["path"].tolist()[0] == "jpeg/train/ISIC_0000000.jpg"
    assert "6 DICOM files are not read, because the JPEGs are." in manifest.notes
    for path in (tmp_path / "jpeg/train").iterdir():
        path.unlink()
    manifest = load_manifest(f"isic2020:{tmp_path}")
    assert manifest.table["path"].tolist()[0] == "train/ISIC_0000000.dcm"


def test_isic2020_that_cannot_be_trusted(tmp_path: Path) -> None:
    table = isic2020(tmp_path) / "ISIC_2020_Training_GroundTruth.csv"
    whole = table.read_text()
    pairs = tmp_path / "ISIC_2020_Training_Duplicates.csv"
    for changed, said in (
        (whole.replace(",malignant", ",malignat"), "unknown label .*'malignat'"),
        (whole.replace("ISIC_0000003", "ISIC_0000009"), r"1 of 4 images have no file .*ISIC_0000009"),
        (whole.replace("patient_id", "patient"), "does not hold|no column patient_id"),
    ):
        table.write_text(changed)
        with pytest.raises(InputError, match=said):
            load_manifest(f"isic2020:{tmp_path}")
    table.write_text(whole)
    pairs.write_text("image_name_1,image_name_2\nISIC_0000000,ISIC_0000077\n")
    with pytest.raises(InputError, match=r"Duplicates.csv: 1 images are not in the table \(ISIC_0000077\)"):
        load_manifest(f"isic2020:{tmp_path}")
    assert load_manifest(f"isic2020:{isic2020(tmp_path)}", ImageOptions(skip_missing=True)).n == 4
