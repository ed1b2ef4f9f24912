"""A DICOM tree as a source: whose image, which label, what is left out and why."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.manifest import Manifest, shared_study_doubts
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError, MissingExtraError
from tests.images.dicom_making import dicom, save
from tests.images.making import write

pydicom = pytest.importorskip("pydicom")
STORED = np.arange(64, dtype=np.uint16).reshape(8, 8)


def _tree(root: Path, patients: list[str], **elements: object) -> Path:
    """Three studies of two images each; file names without suffix, as scanners write them."""
    for i in range(6):
        data = dicom(
            STORED + i,
            PatientID=patients[i],
            StudyInstanceUID=f"1.2.{i // 2}",
            SeriesInstanceUID=f"1.2.{i // 2}.{i}",
            Modality="CR",
            **elements,
        )
        data.SOPInstanceUID = data.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{i}"
        save(data, root / f"study{i // 2}" / f"IM{i}")
    return root


def test_patients_are_groups(tmp_path: Path) -> None:
    manifest = load_manifest(_tree(tmp_path, ["A", "A", "B", "B", "A", "C"]))
    assert manifest.images.tolist()[0] == "study0/IM0"
    assert manifest.groups.tolist() == ["A", "A", "B", "B", "A", "C"]
    assert manifest.labels.tolist() == [""] * 6
    assert set(manifest.table["modality"]) == {"CR"}
    assert read_image(manifest.file(5)).shape == (8, 8, 1)


@pytest.mark.parametrize(
    ("patients", "element", "values", "why"),
    [
        (
            "AABBCC",
            "IssuerOfPatientID",
            ["X", "", "X", "X", "", ""],
            "1 patient id has an issuer in some images and none",
        ),
        ("AABBCC", "PatientName", ["Doe^J", "Roe^J", "Li", "Li", "Wu", ""], "1 patient id has several names"),
        ("AABBCC", "PatientSex", ["M", "F", "M", "O", "", "F"], "1 patient id has several sexes"),
        ("AABBCC", "SeriesInstanceUID", ["1.1", "1.2", "1.2", "1.3", "1.4", "1.5"], "1 series has images of several"),
        (
            "AABBCC",
            "SOPInstanceUID",
            ["1.1", "1.2", "1.2", "1.3", "1.4", "1.5"],
            "1 SOP instance has images of several",
        ),
        ("AABBCC", "FrameOfReferenceUID", ["1.1", "1.1", "1.1", "", "", ""], "1 frame of reference has images of sev"),
        ("AABBCC", "FrameOfReferenceUID", ["1.2.840.10008.1.4.1.1"] * 6, ""),
        ("AABBCC", "PatientName", ["Doe^J", "DOE^J^^", "Doe^J=道", "ANON", "", "unknown"], ""),
        ("AABBCC", "PatientBirthDate", ["19500101", "1950.01.01", "", "19610101", "", ""], ""),
        ("AABBCC", "IssuerOfPatientID", ["H1", "h1", "H2", "H2", "", ""], ""),
    ],
)
def test_each_header_that_contradicts_a_patient_id_is_a_doubt(
    tmp_path: Path, patients: str, element: str, values: list[str], why: str
) -> None:
    root = _tree(tmp_path, list(patients), SpecificCharacterSet="ISO_IR 192")
    for i, value in enumerate(values):
        path = root / f"study{i // 2}" / f"IM{i}"
        data = pydicom.dcmread(path)
        setattr(data, element, value)
        data.save_as(path)
    manifest = load_manifest(root)
    assert [doubt.why.startswith(why) for doubt in manifest.id_doubts] == [True] * bool(why)
    assert not {"PatientName", "FrameOfReferenceUID", "SOPInstanceUID"} & set(manifest.table)


def test_tags_that_describe_patients_are_columns_where_images_have_them(tmp_path: Path) -> None:
    elements = {"PatientSex": "F", "PatientAge": "045Y", "InstitutionName": "St. John"}
    table = load_manifest(_tree(tmp_path / "described", ["A", "A", "B", "B", "C", "C"], **elements)).table
    assert {name: set(table[name]) for name in elements} == {name: {value} for name, value in elements.items()}
    assert "Manufacturer" not in table
    assert not {"PatientSex", "PatientAge"} & set(load_manifest(_tree(tmp_path / "plain", ["A"] * 3 + ["B"] * 3)).table)


def test_headers_that_contradict_a_patient_id_are_named(tmp_path: Path) -> None:
    assert load_manifest(_tree(tmp_path / "plain", ["A", "A", "B", "B", "C", "C"])).id_doubts == ()
    (shared,) = load_manifest(_tree(tmp_path / "shared", ["A", "B", "C", "C", "D", "D"])).id_doubts
    assert shared.why.startswith("1 study has images of several patient ids")
    assert shared.ids == ("A and B",)
    root = _tree(tmp_path / "torn", ["A", "A", "B", "B", "C", "C"], IssuerOfPatientID="X", PatientBirthDate="19500101")
    for study, element, value in (
        (0, "IssuerOfPatientID", "Y"),
        (1, "PatientBirthDate", "19600101"),
        (2, "PatientBirthDate", ""),
    ):
        path = root / f"study{study}" / f"IM{2 * study}"
        data = pydicom.dcmread(path)
        setattr(data, element, value)
        data.save_as(path)
    issuers, birth_dates = load_manifest(root).id_doubts
    assert "several issuers" in issuers.why
    assert issuers.ids == ("A",)
    assert "several birth dates" in birth_dates.why
    assert birth_dates.ids == ("B",)
    write(tmp_path / "own.csv", b"PatientID,patient,label\nA,1,x\nB,2,x\nC,3,y\n")
    assert load_manifest(root, ImageOptions(labels_csv=tmp_path / "own.csv", group_column="patient")).id_doubts == ()
    assert load_manifest(root, ImageOptions(dicom_group="StudyInstanceUID")).id_doubts == ()


def test_a_kept_manifest_remembers_what_headers_contradict(tmp_path: Path) -> None:
    root = _tree(tmp_path / "torn", ["A", "B", "C", "C", "D", "D"], PatientBirthDate="19500101")
    data = pydicom.dcmread(root / "study1" / "IM2")
    data.PatientBirthDate = "19600101"
    data.save_as(root / "study1" / "IM2")
    manifest = load_manifest(root)
    assert len(manifest.id_doubts) == 2
    manifest.save(tmp_path / "kept.parquet")
    assert Manifest.load(tmp_path / "kept.parquet", root).id_doubts == manifest.id_doubts
    again = load_manifest(tmp_path / "kept.parquet", ImageOptions(image_root=root))
    assert set(again.id_doubts) == set(manifest.id_doubts)
    assert pickle.loads(pickle.dumps(build_store(again, ImageOptions()))).manifest.id_doubts == again.id_doubts
    own = load_manifest(tmp_path / "kept.parquet", ImageOptions(image_root=root, group_from="IM(.)"))
    assert [doubt.why for doubt in own.id_doubts] == [
        "3 studies have images of several patient ids, perhaps of one person"
    ]


def test_a_study_in_two_sources_is_a_doubt(tmp_path: Path) -> None:
    one = load_manifest(_tree(tmp_path / "one", ["A", "A", "B", "B", "C", "C"]))
    other = load_manifest(_tree(tmp_path / "other", ["D", "D", "B", "B", "", ""]))
    (doubt,) = shared_study_doubts(one, other)
    assert doubt.ids == ("A and D", "1.2.2 and C")  # an image without an id stands under its study
    (across,) = load_manifest(f"{tmp_path / 'one'},{tmp_path / 'other'}").id_doubts
    assert across.why.startswith("3 studies have images of several patient ids")
    apart = _tree(tmp_path / "apart", ["A", "", "B", "", "C", "C"])
    assert load_manifest(apart).groups.tolist() == ["A", "A", "B", "B", "C", "C"]  # a study never comes apart


def test_another_tag_by_keyword_or_number(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["A"] * 6)
    for tag in ("StudyInstanceUID", "0020,000D", "(0020, 000d)"):
        assert load_manifest(root, ImageOptions(dicom_group=tag)).groups.tolist() == [f"1.2.{i // 2}" for i in range(6)]
    with pytest.raises(InputError, match=r"unknown DICOM tag 'PatientId'. Did you mean 'PatientID'"):
        load_manifest(root, ImageOptions(dicom_group="PatientId"))


@pytest.mark.parametrize("patient", ["", "ANONYMOUS"])
def test_a_tag_that_says_nothing_is_refused_with_the_fallback(tmp_path: Path, patient: str) -> None:
    root = _tree(tmp_path, [patient] * 6)
    with pytest.raises(InputError) as error:
        load_manifest(root)
    message = str(error.value)
    assert f"DICOM tag PatientID is {repr(patient) if patient else 'empty'} for all 6 images" in message
    assert "StudyInstanceUID (3 values) or SeriesInstanceUID (6 values)" in message


def test_images_without_the_tag_stay_with_their_study(tmp_path: Path) -> None:
    manifest = load_manifest(_tree(tmp_path, ["A", "A", "", "", "B", "B"]))
    assert manifest.groups.tolist() == ["A", "A", "1.2.1", "1.2.1", "B", "B"]
    assert "2 images without PatientID are grouped by their study or series instead." in manifest.notes


def test_labels_by_tag_by_folder_and_by_table(tmp_path: Path) -> None:
    root = _tree(
        tmp_path / "tree", ["A", "A", "B", "B", "C", "C"], BodyPartExamined="CHEST", ImageType=["ORIGINAL", "PRIMARY"]
    )
    assert load_manifest(root, ImageOptions(label_column="BodyPartExamined")).classes == ["CHEST"]
    assert load_manifest(root, ImageOptions(label_column="ImageType")).classes == ["ORIGINAL|PRIMARY"]
    assert load_manifest(root, ImageOptions(label_from=r"([^/]+)/[^/]+$")).classes == ["study0", "study1", "study2"]
    tables = {
        "SOPInstanceUID": [f"1.2.3.{i}" for i in range(6)],
        "file": [f"study{i // 2}/IM{i}" for i in range(6)],
        "image": [f"IM{i}" for i in range(6)],
        "SeriesInstanceUID": [f"1.2.{i // 2}.{i}" for i in range(6)],
    }
    for key, values in tables.items():
        rows = "".join(f"{value},{'ab'[i % 2]}\n" for i, value in enumerate(values))
        table = write(tmp_path / "t.csv", f"{key},finding\n{rows}".encode())
        manifest = load_manifest(root, ImageOptions(labels_csv=table))
        assert manifest.labels.tolist() == list("ababab"), key
        assert manifest.groups.tolist() == list("AABBCC")
    patients = write(tmp_path / "p.csv", b"patient_id,finding,site\nA,x,1\nB,y,2\nC,x,3\n")
    manifest = load_manifest(root, ImageOptions(labels_csv=patients))
    assert manifest.labels.tolist() == list("xxyyxx")
    assert manifest.table["site"].tolist() == list("112233")


def test_a_joined_table_may_bring_the_patients_that_the_files_lack(tmp_path: Path) -> None:
    root = _tree(tmp_path / "tree", ["ANONYMOUS"] * 6)
    rows = "".join(f"1.2.3.{i},a,P{i // 3}\n" for i in range(6))
    table = write(tmp_path / "t.csv", f"SOPInstanceUID,label,who\n{rows}".encode())
    manifest = load_manifest(root, ImageOptions(labels_csv=table, group_column="who"))
    assert manifest.groups.tolist() == ["P0"] * 3 + ["P1"] * 3
    by_name = load_manifest(root, ImageOptions(labels_csv=table, group_from=r"IM(\d)"))
    assert by_name.groups.tolist() == list("012345")


def test_files_that_are_no_pictures_are_left_out_with_the_reason(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["A", "A", "B", "B", "C", "C"])
    plan = dicom(STORED)
    plan.SOPClassUID = pydicom.uid.RTPlanStorage
    for keyword in ("PixelData", "Rows", "Columns"):
        delattr(plan, keyword)
    save(plan, root / "plan.dcm")
    mask = dicom(STORED)
    mask.SOPClassUID = pydicom.uid.SegmentationStorage
    save(mask, root / "mask.dcm")
    raw = dicom(STORED)
    raw.SOPClassUID = pydicom.uid.RawDataStorage
    for keyword in ("PixelData", "Rows", "Columns"):
        delattr(raw, keyword)
    save(raw, root / "raw.dcm")
    directory = dicom(STORED)
    for keyword in ("PixelData", "SOPClassUID"):
        delattr(directory, keyword)
    directory.file_meta.MediaStorageSOPClassUID = pydicom.uid.MediaStorageDirectoryStorage
    save(directory, root / "DICOMDIR")
    write(root / "readme.txt", b"text")
    manifest = load_manifest(root)
    assert manifest.n == 6
    assert dict(zip(manifest.skipped["path"], manifest.skipped["reason"], strict=True)) == {
        "DICOMDIR": "no picture of a patient (Media Storage Directory Storage)",
        "readme.txt": "text and no image",
        "mask.dcm": "no picture of a patient (Segmentation Storage)",
        "plan.dcm": "no picture of a patient (RT Plan Storage)",
        "raw.dcm": "no pixels (Raw Data Storage)",
    }
    assert manifest.unread["path"].tolist() == ["raw.dcm"]
    for path in root.glob("study*/*"):
        path.unlink()
    with pytest.raises(InputError, match=r"no images .*left out"):
        load_manifest(root)


def test_headers_that_cannot_be_read_are_unreadable_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _tree(tmp_path, ["A", "A", "B", "B", "C", "C"])
    deflated = dicom(STORED)
    deflated.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    whole = save(deflated, root / "study0" / "IM0").read_bytes()
    write(root / "study0" / "IM0", whole[:-60] + b"\xff" * 60)
    with pytest.raises(InputError, match=r"1 DICOM headers cannot be read \(study0/IM0: .*skip_unreadable"):
        load_manifest(root)
    manifest = load_manifest(root, ImageOptions(skip_unreadable=True))
    assert manifest.n == 5
    assert "1 DICOM files left out: their header cannot be read." in manifest.notes
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(MissingExtraError, match=r"memorisk\[medical\]"):
        load_manifest(root)


def test_a_file_that_ends_before_its_pixels_is_an_unreadable_image(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["A", "A", "B", "B", "C", "C"])
    whole = (root / "study0" / "IM0").read_bytes()
    pixels = whole.rindex(b"\xe0\x7f\x10\0")
    for end in range(140, pixels, 7):  # within the preamble it is no DICOM file
        write(root / "study0" / "IM0", whole[:end])
        with pytest.raises(InputError, match=r"1 DICOM headers cannot be read \(study0/IM0: .*skip_unreadable"):
            load_manifest(root)
    manifest = load_manifest(root, ImageOptions(skip_unreadable=True))
    assert manifest.n == 5
    assert manifest.unread["path"].tolist() == ["study0/IM0"]


def test_frames_of_a_multi_frame_file(tmp_path: Path) -> None:
    frames = np.stack([STORED + 10 * k for k in range(4)])
    for name in "ab":
        save(dicom(frames, PatientID=name, WindowCenter=50, WindowWidth=100), tmp_path / f"{name}.dcm")
    assert "frame" not in load_manifest(tmp_path).table
    every = load_manifest(tmp_path, ImageOptions(frames="all"))
    assert every.images.tolist()[:4] == ["a.dcm#0", "a.dcm#1", "a.dcm#2", "a.dcm#3"]
    assert every.groups.tolist() == ["a"] * 4 + ["b"] * 4
    middle = read_image(every.file(2), frame=int(every.table["frame"].iloc[2]))
    np.testing.assert_array_equal(middle, read_image(tmp_path / "a.dcm"))


def test_class_folders_of_dicom_with_pictures_beside_need_a_layout(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["A", "A", "B", "B", "C", "C"])
    write(root / "preview.png", b"not looked at")
    with pytest.raises(InputError, match="several kinds"):
        load_manifest(root)
    manifest = load_manifest(root, ImageOptions(layout="dicom"))
    assert manifest.n == 6
    assert manifest.skipped["path"].tolist() == ["preview.png"]


def test_real_trees(shared_data: Path) -> None:
    with pytest.raises(InputError, match=r"55 DICOM headers cannot be read .*no pixels, or cut short before them"):
        load_manifest(shared_data / "dicom_pydicom")  # its files of several kinds were stripped of their pixels
    manifest = load_manifest(shared_data / "dicom_pydicom", ImageOptions(skip_unreadable=True))
    assert manifest.n == 86
    assert {"1CT1", "4MR1", "77654033"} <= set(manifest.groups)
    reasons = manifest.skipped["reason"].tolist()
    for part in (
        "RT Plan Storage",
        "Basic Text SR Storage",
        "Media Storage Directory",
        "Segmentation",
        "RT Dose",
        "of a kind that is not read",
    ):
        assert any(part in reason for reason in reasons), part
    assert not [p for p in manifest.table["path"] if "DICOMDIR" in p]
    kcr = load_manifest(shared_data / "dicom_kcr")
    assert kcr.n == 1
    assert read_image(kcr.file(0)).shape == (512, 512, 1)
