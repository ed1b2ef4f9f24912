"""Small inputs of ../shared/cases that were read wrongly: ids, tables, folders and rows of images."""

from pathlib import Path

import pytest

from memorisk.images.manifest import HIDDEN_FILE, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.conftest import SHARED

CASES = SHARED.parent / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the cases (../shared/cases) are not beside this checkout")


def _read(case: str, **options: object) -> Manifest:
    return load_manifest(CASES / case, ImageOptions(**options))


def _ids_in_doubt(manifest: Manifest) -> list[str]:
    return [names for doubt in manifest.id_doubts for names in doubt.ids]


@pytest.mark.parametrize("source", ["table.csv", "dicom"])
def test_look_alikes_are_named(source: str) -> None:
    manifest = _read(f"11-lookalike-ids/{source}")
    named = _ids_in_doubt(manifest)
    assert any("007 and 7" in names for names in named)
    assert any("ABC1" in names and "abc1" in names for names in named)
    assert any("12 and 12.0" in names for names in named)
    assert all(group == group.strip() and "\u200b" not in group for group in manifest.groups)


def test_one_study_of_two_patients_and_one_patient_of_two_issuers_are_named() -> None:
    assert _ids_in_doubt(_read("13-study-two-ids")) == ["P0 and P1", "P2 and P3", "P4 and P5", "P6 and P7"]
    doubts = _read("14-issuer").id_doubts
    assert [doubt.code for doubt in doubts] == ["IssuerOfPatientID", "PatientBirthDate", "PatientSex"]
    assert {doubt.ids for doubt in doubts} == {("1000", "1001", "1002", "1003")}
    assert _read("13-study-two-ids", dicom_group="StudyInstanceUID").id_doubts == ()


def test_class_folders_that_differ_by_case_are_noted() -> None:
    manifest = _read("28-case")
    assert manifest.classes == ["Benign", "Malignant", "benign", "malignant"]
    assert any("(Benign and benign, Malignant and malignant)" in note for note in manifest.notes)


def test_folders_of_the_system_are_left_out_and_counted() -> None:
    manifest = _read("29-eadir")
    assert manifest.classes == ["a", "b"]
    assert manifest.n == 15
    left_out = manifest.skipped.loc[manifest.skipped["reason"] == HIDDEN_FILE, "path"].tolist()
    assert {"#recycle", "$RECYCLE.BIN", "lost+found", "a/@eaDir", "b/@eaDir", "a/p0_0.png~"} <= set(left_out)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        *((name, ("Befund", "PatientNr")) for name in ("multiline", "nosep", "pipe", "quoted_sep", "sep", "utf16")),
        ("trailing_semicolon", ("Befund", "PatientNr")),
        ("comma_in_semicolon_header", ("Befund, Hauptdiagnose, Text, ICD", "PatientNr")),
    ],
)
def test_tables_of_spreadsheets_are_read(name: str, columns: tuple[str, str]) -> None:
    label, group = columns
    manifest = _read(f"32-sep-line/{name}.csv", path_column="Datei", label_column=label, group_column=group)
    assert manifest.classes == ["a", "b"]
    assert manifest.groups.tolist() == ["000", "000", "001", "001", "002", "002", "003", "003"]


@pytest.mark.parametrize("name", ["comment", "title_line", "cp1252"])
def test_the_line_of_a_table_that_is_not_read_is_named(name: str) -> None:
    with pytest.raises(InputError, match="line 1 "):
        _read(f"32-sep-line/{name}.csv", path_column="Datei")


@pytest.mark.parametrize("name", ["mixed.csv", "float_ids.parquet", "dates.csv"])
def test_ids_that_lost_their_digits_are_named(name: str) -> None:
    (doubt,) = _read(f"34-excel-scientific/{name}").id_doubts
    assert "several people may have one" in doubt.why
    assert _read("34-excel-scientific/float_nan.parquet").id_doubts == ()


@pytest.mark.parametrize("name", ["de.csv", "en.csv"])
def test_one_number_for_everybody_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"'1[.,]23457E\+11' for all 24 images"):
        _read(f"34-excel-scientific/{name}")


def test_equal_rows_merge_and_others_are_refused() -> None:
    assert _read("35-boxes/same_label.csv").n == 8
    with pytest.raises(InputError, match="different labels"):
        _read("35-boxes/other_labels.csv")
    for source, options in (("two_patients.csv", {}), ("img", {"labels_csv": CASES / "35-boxes" / "two_patients.csv"})):
        with pytest.raises(InputError, match=r"different groups \(im0.*: P0 and P9"):
            _read(f"35-boxes/{source}", **options)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("windows_abs", r"their beginning C:\\Users\\x\\data\\img means"),
        ("unc", r"their beginning \\\\srv\\share\\img means"),
        ("posix_abs", "their beginning /home/alice/data/img means"),
        ("case", "capital and small letters"),
    ],
)
def test_paths_of_another_machine_get_the_way_out(name: str, advice: str) -> None:
    with pytest.raises(InputError, match=advice):
        _read(f"35-boxes/{name}.csv")


@pytest.mark.parametrize("place", ["single", "data/train-00000-of-00001.parquet"])
def test_lists_of_images_are_one_clear_line(place: str) -> None:
    with pytest.raises(InputError, match="column images holds a list of images in each row"):
        _read(f"37-list-images/{place}")


def test_integer_classes_are_read() -> None:
    assert set(_read("43-integer-classes/set.npz").classes) == {str(number) for number in range(12)}


@pytest.mark.parametrize(("place", "n"), [("", 30), ("isic_like", 24)])
def test_masks_are_not_counted_in_silence(place: str, n: int) -> None:
    (note,) = _read(f"52-mvtec/{place}").notes
    assert note.startswith(f"{n} files are called as another image or lie in a folder of masks")


def test_every_case_is_here() -> None:
    folders = {path.name.split("-")[0] for path in Path(CASES).iterdir()}
    assert {"11", "13", "14", "28", "29", "32", "34", "35", "37", "43", "52"} <= folders
