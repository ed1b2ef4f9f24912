"""Kvasir-Capsule, ODIR-5K and Retinal OCT as published: what is missing, unlisted, twice or elsewhere."""

from collections import Counter
from pathlib import Path

import pytest

from memorisk.images.published.sets import KVASIR_CLASSES
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.official_trees import kvasir, notes_of, oct_, odir_eyes, odir_patients, pictures, rows_of


def test_kvasir_capsule(tmp_path: Path) -> None:
    manifest = load_manifest(f"kvasir-capsule:{kvasir(tmp_path)}")
    assert rows_of(manifest, "image", "label", "group", "split") == [
        ("04a78ef00c5245e0_894", "Blood - fresh", "04a78ef00c5245e0", "train"),
        ("7ad22d50cd354276_9331", "Polyp", "7ad22d50cd354276", "test"),
        ("7ad22d50cd354276_9332", "Polyp", "7ad22d50cd354276", "test"),
        ("04a78ef00c5245e0_12", "Ampulla of Vater", "04a78ef00c5245e0", ""),
    ]
    assert "11 of the 14 classes have no image here: Angiectasia, Blood - hematin" in notes_of(manifest)
    assert "1 images are in neither" in notes_of(manifest)
    inside = load_manifest(f"kvasir-capsule:{tmp_path / 'labelled_images'}")
    assert inside.images.tolist() == manifest.images.tolist()
    assert inside.splits is None
    assert len(set(KVASIR_CLASSES)) == 14


def test_kvasir_capsule_that_cannot_be_trusted(tmp_path: Path) -> None:
    kvasir(tmp_path)
    for name, said in (
        ("labelled_images/Polyps/a_1.jpg", r"class folder of Polyps/a_1\.jpg in kvasir-capsule: 'Polyps'.*'Polyp'\?"),
        ("labelled_images/stray_1.jpg", "class folder of stray_1.jpg in kvasir-capsule: ''"),
        ("labelled_images/Ulcer/frame9.jpg", r"1 files have no video in their name \(Ulcer/frame9\.jpg\)"),
        ("labelled_images/Ulcer/7ad22d50cd354276_9331.jpg", r"more than once \(7ad22d50cd354276_9331\)"),
    ):
        pictures(tmp_path, name)
        with pytest.raises(InputError, match=said):
            load_manifest(f"kvasir-capsule:{tmp_path}")
        (tmp_path / name).unlink()
    write(tmp_path / "official_splits/split_1.csv", b"filename,label\n04a78ef00c5245e0_894.jpg,Blood\n")
    with pytest.raises(InputError, match=r"04a78ef00c5245e0_894 is in both split_0\.csv and split_1\.csv"):
        load_manifest(f"kvasir-capsule:{tmp_path}")
    (tmp_path / "official_splits/split_1.csv").unlink()
    assert load_manifest(f"kvasir-capsule:{tmp_path}").splits is None


def test_odir5k_by_eye(tmp_path: Path) -> None:
    manifest = load_manifest(f"odir5k:{odir_eyes(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group") == [
        ("0_right", "preprocessed_images/0_right.jpg", "Normal", "0"),
        ("0_left", "preprocessed_images/0_left.jpg", "Cataract", "0"),
        ("1_right", "preprocessed_images/1_right.jpg", "Glaucoma|Myopia", "1"),
    ]
    assert "3 images are here; the paper's 1,008 canaries imply 6,720" in notes_of(manifest)
    assert Counter(manifest.skipped["reason"]) == {"a second file of a listed image": 3, "not listed in full_df.csv": 1}
    assert manifest.table["Patient Age"].tolist() == [69, 69, 57]
    table = tmp_path / "full_df.csv"
    whole = table.read_text(encoding="utf-8")
    for changed, said in (
        (whole.replace("['N']", "[]"), r"labels of row 1 is '\[\]'; official are lists such as \['N'\]"),
        (whole.replace("['C']", "['X']"), r"labels of row 2 is \"\['X'\]\""),
        (whole.replace(",0_left.jpg\n", ",0_right.jpg\n"), r"more than once \(0_right\)"),
        (whole.replace(",1_right.jpg\n", ",9_right.jpg\n"), r"1 of 3 images have no file .*9_right"),
    ):
        assert changed != whole
        table.write_text(changed, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            load_manifest(f"odir5k:{tmp_path}")


def test_odir5k_by_patient(tmp_path: Path) -> None:
    manifest = load_manifest(f"odir5k:{odir_patients(tmp_path)}")
    assert rows_of(manifest, "image", "label", "group", "eye") == [
        ("0_left", "Cataract", "0", "left"),
        ("0_right", "Cataract", "0", "right"),
        ("1_left", "Glaucoma|Myopia", "1", "left"),
        ("1_right", "Glaucoma|Myopia", "1", "right"),
    ]
    assert "the patient's, which both eyes share" in notes_of(manifest)
    table = tmp_path / "annotations.csv"
    whole = table.read_text()
    table.write_text(whole.replace("0,0,0,1,0,0,0,0", "0,0,0,0,0,0,0,0"))
    with pytest.raises(InputError, match=r"annotations\.csv: 1 patients have no class \(0\)"):
        load_manifest(f"odir5k:{tmp_path}")
    table.write_text(whole)
    write(tmp_path / "b.csv", whole.encode())
    with pytest.raises(InputError, match=r"several tables of images \(annotations\.csv, b\.csv\); keep one"):
        load_manifest(f"odir5k:{tmp_path}")


def test_odir5k_as_an_excel_sheet_is_refused_with_the_way_out(tmp_path: Path) -> None:
    odir_patients(tmp_path / "ODIR-5K")
    (tmp_path / "ODIR-5K/annotations.csv").unlink()
    write(tmp_path / "ODIR-5K/data.xlsx", b"PK")
    with pytest.raises(InputError, match=r"data\.xlsx is an Excel sheet, which is not read; save it as CSV"):
        load_manifest(f"odir5k:{tmp_path}")


def test_retinal_oct(tmp_path: Path) -> None:
    manifest = load_manifest(f"retinal-oct:{oct_(tmp_path / 'OCT2017 ')}")
    assert rows_of(manifest, "image", "label", "group") == [
        ("CNV-1016042-1", "CNV", "1016042"),
        ("CNV-1016042-2", "CNV", "1016042"),
        ("DME-1016042-1", "DME", "1016042"),
        ("DME-30521-1", "DME", "30521"),
        ("NORMAL-4872585-1", "NORMAL", "4872585"),
    ]
    assert "train alone, as in the paper (test not read)" in notes_of(manifest)
    assert "1 numbers occur in several classes and are taken as one patient each." in notes_of(manifest)
    assert "5 images are here; the paper says 84,452." in manifest.notes
    test = load_manifest(f"retinal-oct:{tmp_path / 'OCT2017 ' / 'test'}")
    assert test.images.tolist() == ["CNV-53018-1", "CNV-53018-2", "DME-11053-1"]
    assert "train" not in notes_of(test)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train/CNV/DME-5-1.jpeg", r"1 files lie in another class than they say \(CNV/DME-5-1\.jpeg\)"),
        ("train/CNV/5.jpeg", r"1 files have no patient in their name \(CNV/5\.jpeg\)"),
        ("train/DRUSE/DRUSE-5-1.jpeg", r"unknown class folder in retinal-oct: 'DRUSE'. Did you mean 'DRUSEN'\?"),
        ("train/CNV-5-1.jpeg", "unknown class folder in retinal-oct: ''"),
    ],
)
def test_retinal_oct_that_cannot_be_trusted(name: str, said: str, tmp_path: Path) -> None:
    pictures(oct_(tmp_path), name)
    with pytest.raises(InputError, match=said):
        load_manifest(f"retinal-oct:{tmp_path}")
