"""Published data sets in their official layouts, in miniature; what is missing, unlisted, twice or elsewhere."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.audits.options import ClassifierOptions
from memorisk.audits.plan import draw_parts
from memorisk.images.manifest import Manifest, leaking_groups
from memorisk.images.official_chestxray14 import FINDINGS
from memorisk.images.official_kvasir_capsule import CLASSES
from memorisk.images.official_medmnist import FLAT, SOLID
from memorisk.images.options import ImageOptions
from memorisk.images.readers import read_image
from memorisk.images.source_official import OFFICIAL, load_official
from memorisk.images.sources import load_manifest
from memorisk.runs.errors import InputError
from tests.commands import answer, refusal
from tests.images.making import write


def _pictures(root: Path, *names: str) -> None:
    for k, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), k % 256, np.uint8)).save(path, "PNG" if name.endswith("png") else "JPEG")


def _rows(manifest: Manifest, *names: str) -> list[tuple]:
    return list(zip(*(manifest.table[name].tolist() for name in names), strict=True))


def _notes(manifest: Manifest) -> str:
    return " ".join(manifest.notes)


def ham(root: Path) -> Path:
    _pictures(root / "HAM10000_images_part_1", "ISIC_0024306.jpg", "ISIC_0024307.jpg")
    _pictures(root / "HAM10000_images_part_2", "ISIC_0029306.jpg")
    rows = ["HAM_1,ISIC_0024306,nv,histo,45.0,male,back", "HAM_1,ISIC_0029306,nv,histo,,male,back"]
    rows += ["HAM_2,ISIC_0024307,df,consensus,60.0,female,face"]
    header = "lesion_id,image_id,dx,dx_type,age,sex,localization"
    write(root / "HAM10000_metadata.csv", "\n".join([header, *rows, ""]).encode())
    return root


def chest(root: Path, table: str = "Data_Entry_2017.csv") -> Path:
    names = [f"0000000{p}_00{k}.png" for p, n in ((1, 3), (2, 2), (3, 2)) for k in range(n)]
    labels = ["Cardiomegaly", "Cardiomegaly|Emphysema", "No Finding", "No Finding", "Hernia", "Effusion|Mass", "Mass"]
    for k, name in enumerate(names):
        _pictures(root / f"images_{k + 1:03d}" / "images", name)
    header = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    header += "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
    rows = [
        f"{name},{label},{name[-5]},{int(name[:8])},058Y,M,PA,2682,2749,.143,.143,"
        for name, label in zip(names, labels, strict=True)
    ]
    write(root / table, "\n".join([header, *rows, ""]).encode())
    write(root / "train_val_list.txt", "\n".join(n for n in names if n[7] != "3").encode())
    write(root / "test_list.txt", "\n".join(n for n in names if n[7] == "3").encode())
    return root


def kvasir(root: Path) -> Path:
    images = root / "labelled_images"
    _pictures(images / "Polyp", "7ad22d50cd354276_9331.jpg", "7ad22d50cd354276_9332.jpg")
    _pictures(images / "Blood - fresh", "04a78ef00c5245e0_894.jpg")
    _pictures(images / "ampulla_of_vater", "04a78ef00c5245e0_12.jpg")
    write(root / "official_splits/split_0.csv", b"filename,label\n04a78ef00c5245e0_894.jpg,Blood\n")
    polyps = b"7ad22d50cd354276_9331.jpg,Polyp\n7ad22d50cd354276_9332.jpg,Polyp\n"
    write(root / "official_splits/split_1.csv", b"filename,label\n" + polyps)
    return root


def odir_eyes(root: Path) -> Path:
    _pictures(root / "preprocessed_images", "0_left.jpg", "0_right.jpg", "1_right.jpg")
    _pictures(root / "ODIR-5K/ODIR-5K/Training Images", "0_left.jpg", "0_right.jpg", "1_left.jpg", "1_right.jpg")
    header = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,Right-Diagnostic Keywords,"
    header += "N,D,G,C,A,H,M,O,filepath,labels,target,filename"
    start = "0,69,Female,0_left.jpg,0_right.jpg,cataract,normal fundus,0,0,0,1,0,0,0,0,../input/"
    rows = [f"""{start}0_right.jpg,['N'],"[1, 0, 0, 0, 0, 0, 0, 0]",0_right.jpg"""]
    rows += [f"""{start}0_left.jpg,['C'],"[0, 0, 0, 1, 0, 0, 0, 0]",0_left.jpg"""]
    start = "1,57,Male,1_left.jpg,1_right.jpg,myopia，glaucoma,myopia,0,0,1,0,0,0,1,0,../input/"
    rows += [f"""{start}1_right.jpg,"['M', 'G']","[0, 0, 1, 0, 0, 0, 1, 0]",1_right.jpg"""]
    write(root / "full_df.csv", "\n".join([header, *rows, ""]).encode())
    return root


def odir_patients(root: Path) -> Path:
    _pictures(root / "ODIR-5K_Training_Dataset", "0_left.jpg", "0_right.jpg", "1_left.jpg", "1_right.jpg")
    header = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,Right-Diagnostic Keywords,"
    rows = ["0,69,Female,0_left.jpg,0_right.jpg,cataract,normal fundus,0,0,0,1,0,0,0,0"]
    rows += ["1,57,Male,1_left.jpg,1_right.jpg,myopia,glaucoma,0,0,1,0,0,0,1,0"]
    write(root / "annotations.csv", "\n".join([header + "N,D,G,C,A,H,M,O", *rows, ""]).encode())
    return root


def oct_(root: Path) -> Path:
    _pictures(root / "train/CNV", "CNV-1016042-1.jpeg", "CNV-1016042-2.jpeg")
    _pictures(root / "train/DME", "DME-1016042-1.jpeg", "DME-30521-1.jpeg")
    _pictures(root / "train/NORMAL", "NORMAL-4872585-1.jpeg")
    _pictures(root / "test/CNV", "CNV-53018-1.jpeg", "CNV-53018-2.jpeg")
    _pictures(root / "test/DME", "DME-11053-1.jpeg")
    return root


LAYOUTS = {
    "ham10000": (ham, 3),
    "chestxray14": (chest, 5),
    "kvasir-capsule": (kvasir, 4),
    "odir5k": (odir_eyes, 3),
    "retinal-oct": (oct_, 5),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout(name: str, tmp_path: Path) -> None:
    """What all have in common: files that can be read, the data set's name, no extra folder taken for data."""
    make, n = LAYOUTS[name]
    make(tmp_path / "set")
    manifest = load_manifest(f"{name}:{tmp_path / 'set'}")
    assert (manifest.n, manifest.name) == (n, name)
    assert set(manifest.table["dataset"]) == {name}
    assert all(read_image(manifest.file(row)).shape[:2] == (4, 4) for row in range(n))
    assert leaking_groups(manifest) == {}
    assert "Label: " in _notes(manifest)
    assert "Group: " in _notes(manifest)
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
    with pytest.raises(InputError, match=f"{name}: there is no folder"):
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
    _pictures(tmp_path / "ham10000:set", "a/1.png", "b/2.png")
    assert load_manifest("ham10000:set").labels.tolist() == ["a", "b"]
    monkeypatch.setenv("HOME", str(tmp_path))
    ham(tmp_path / "mine")
    assert load_manifest("ham10000:~/mine").n == 3
    for source, said in (
        ("ham1000:set", r"unknown data set before the colon \(and there is no such path\): 'ham1000'.*'ham10000'\?"),
        ("ham10000:", "ham10000: nothing stands after the colon; give ham10000:FOLDER"),
        ("medmnist: ", "medmnist: nothing stands after the colon; give medmnist:NAME"),
        (r"C:\images", "there is no such file or folder"),
        ("absent/ham10000:x", "there is no such file or folder"),
        ("a\nb:c", "there is no such file or folder"),
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


def test_ham10000(tmp_path: Path) -> None:
    manifest = load_manifest(f"ham10000:{ham(tmp_path)}")
    assert _rows(manifest, "image", "path", "label", "group") == [
        ("ISIC_0024306", "HAM10000_images_part_1/ISIC_0024306.jpg", "nv", "HAM_1"),
        ("ISIC_0029306", "HAM10000_images_part_2/ISIC_0029306.jpg", "nv", "HAM_1"),
        ("ISIC_0024307", "HAM10000_images_part_1/ISIC_0024307.jpg", "df", "HAM_2"),
    ]
    assert manifest.table["age"].tolist()[::2] == [45, 60]
    assert "3 images are here; the official release has 10,015." in manifest.notes
    (tmp_path / "HAM10000_metadata.csv").rename(tmp_path / "HAM10000_metadata")
    assert load_manifest(f"ham10000:{tmp_path}").table.equals(manifest.table)


def test_ham10000_as_kaggle_unpacks_it_and_with_other_images(tmp_path: Path) -> None:
    """The same pictures in a second folder in lower case, and the challenge's test images: not those of the table."""
    ham(tmp_path)
    _pictures(tmp_path / "ham10000_images_part_1", "ISIC_0024306.jpg", "ISIC_0024307.jpg")
    _pictures(tmp_path / "ISIC2018_Task3_Test_Images", "ISIC_0034524.jpg")
    manifest = load_manifest(f"ham10000:{tmp_path}")
    assert set(manifest.table["path"].str.split("/").str[0]) == {"HAM10000_images_part_1", "HAM10000_images_part_2"}
    assert Counter(manifest.skipped["reason"]) == {
        "a second file of a listed image": 2,
        "not listed in HAM10000_metadata.csv": 1,
    }
    assert (
        "1 left out, not listed in HAM10000_metadata.csv: ISIC2018_Task3_Test_Images/ISIC_0034524.jpg."
        in manifest.notes
    )
    _pictures(tmp_path / "HAM10000_images_part_3", "ISIC_0024306.jpg")
    with pytest.raises(InputError, match=r"1 images have several files \(ISIC_0024306: .*\); keep one of each"):
        load_manifest(f"ham10000:{tmp_path}")


def test_ham10000_that_cannot_be_trusted(tmp_path: Path) -> None:
    table = ham(tmp_path) / "HAM10000_metadata.csv"
    whole = table.read_text()
    (tmp_path / "HAM10000_images_part_2/ISIC_0029306.jpg").unlink()
    with pytest.raises(InputError, match=r"1 of 3 images have no file .*\(ISIC_0029306\); unpack all .*skip_missing$"):
        load_manifest(f"ham10000:{tmp_path}")
    manifest = load_manifest(f"ham10000:{tmp_path}", ImageOptions(skip_missing=True))
    assert manifest.n == 2
    assert manifest.skipped.to_dict("records") == [{"path": "ISIC_0029306", "reason": "no such file"}]
    for changed, said in (
        (whole.replace("0029306", "0024306"), "1 image ids occur more than once"),
        (whole.replace(",df,", ",dff,"), r"unknown label in HAM10000_metadata.csv: 'dff'. Did you mean 'df'\?"),
        (whole.replace("lesion_id", "lesion"), "no column lesion_id among lesion, image_id"),
        (whole.replace("HAM_2", "HAM_1"), "the column lesion_id is 'HAM_1' for all 3 images"),
        (whole.partition("\n")[0] + "\n", "the table has no rows"),
        (whole.replace("0024306", "9").replace("0024307", "8").replace("0029306", "../7"), "3 of 3 images .* there$"),
    ):
        table.write_text(changed)
        skip = "more than once" not in said and "for all 3" not in said
        if not skip:
            _pictures(tmp_path / "HAM10000_images_part_2", "ISIC_0029306.jpg")
        with pytest.raises(InputError, match=said):
            load_manifest(f"ham10000:{tmp_path}", ImageOptions(skip_missing=skip))


def test_links_that_leave_the_folder_are_refused(tmp_path: Path) -> None:
    ham(tmp_path / "set")
    kept = tmp_path / "set/HAM10000_images_part_2"
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(InputError, match=r"leads out of the folder .*follow_links accepts them"):
        load_manifest(f"ham10000:{tmp_path / 'set'}")
    assert load_manifest(f"ham10000:{tmp_path / 'set'}", ImageOptions(follow_links=True)).n == 3


def test_chestxray14(tmp_path: Path) -> None:
    manifest = load_manifest(f"chestxray14:{chest(tmp_path)}")
    assert _rows(manifest, "image", "label", "group", "split") == [
        ("00000001_000.png", "Cardiomegaly", "1", "train"),
        ("00000001_001.png", "Cardiomegaly|Emphysema", "1", "train"),
        ("00000002_001.png", "Hernia", "2", "train"),
        ("00000003_000.png", "Effusion|Mass", "3", "test"),
        ("00000003_001.png", "Mass", "3", "test"),
    ]
    assert manifest.table["path"].tolist()[2] == "images_005/images/00000002_001.png"
    assert "2 left out, No Finding: 00000001_002.png, 00000002_000.png." in manifest.notes
    assert "the first-listed is not the main one" in _notes(manifest)
    assert not any(str(column).startswith("Unnamed") for column in manifest.table)
    chest(tmp_path, "Data_Entry_2017_v2020.csv")
    assert "Data_Entry_2017_v2020.csv" in _notes(load_manifest(f"chestxray14:{tmp_path}"))


def test_chestxray14_first_and_multi_and_sampled(tmp_path: Path) -> None:
    """The rule in order: "No Finding" out, then the first-listed finding, then the sample, stratified by it."""
    findings = [*FINDINGS[:4], "No Finding"]
    rows, names = [], []
    for k in range(200):
        label = findings[k % 5]
        label = f"{label}|Hernia" if k % 10 == 0 else label
        names.append(f"{k // 2:08d}_{k % 2:03d}.png")
        rows.append(f"{names[-1]},{label},0,{k // 2}")
    _pictures(tmp_path / "images_001/images", *names)
    header = "Image Index,Finding Labels,Follow-up #,Patient ID"
    write(tmp_path / "Data_Entry_2017.csv", "\n".join([header, *rows, ""]).encode())
    options = ClassifierOptions(sample=80, head="first")
    manifest = load_manifest(f"chestxray14:{tmp_path}", options)
    assert manifest.n == 80
    parts = draw_parts(manifest, [], options, 0)
    assert Counter(parts.labels) == dict.fromkeys(FINDINGS[:4], 20)
    assert "Hernia" not in parts.labels
    assert manifest.notes[-1].startswith("Sample: 80 of 160 images")
    multi = draw_parts(manifest, [], ClassifierOptions(head="multi"), 0)
    assert {label for value in multi.labels for label in str(value).split("|")} == {*FINDINGS[:4], "Hernia"}
    with pytest.raises(InputError, match="say --head multi, or --head first"):
        draw_parts(manifest, [], ClassifierOptions(), 0)


def test_chestxray14_that_cannot_be_trusted(tmp_path: Path) -> None:
    table = chest(tmp_path) / "Data_Entry_2017.csv"
    whole = table.read_text()
    (tmp_path / "images_003/images/00000001_002.png").unlink()
    assert load_manifest(f"chestxray14:{tmp_path}").n == 5, "an image that is left out anyway need not be there"
    (tmp_path / "images_005/images/00000002_001.png").unlink()
    with pytest.raises(InputError, match=r"1 of 5 images have no file .*00000002_001\.png"):
        load_manifest(f"chestxray14:{tmp_path}")
    skip = ImageOptions(skip_missing=True)
    lists = tmp_path / "test_list.txt"
    lists.write_text(lists.read_text() + "\n00000001_000.png\n")
    with pytest.raises(InputError, match=r"00000001_000\.png is in both train_val_list\.txt and test_list\.txt"):
        load_manifest(f"chestxray14:{tmp_path}", skip)
    lists.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match=r"test_list\.txt: cannot be read"):
        load_manifest(f"chestxray14:{tmp_path}", skip)
    lists.unlink()
    manifest = load_manifest(f"chestxray14:{tmp_path}", skip)
    assert manifest.splits is None
    assert "No official split: " in _notes(manifest)
    table.write_text(whole.replace("Hernia", "Hernai"))
    with pytest.raises(InputError, match=r"unknown label in Data_Entry_2017\.csv: 'Hernai'\. Did you mean 'Hernia'"):
        load_manifest(f"chestxray14:{tmp_path}", skip)
    table.write_text(re.sub(r"png,[^,]*,", "png,No Finding,", whole))
    with pytest.raises(InputError, match=r"every image of Data_Entry_2017\.csv is labelled 'No Finding'"):
        load_manifest(f"chestxray14:{tmp_path}", skip)


def test_findings_out_of_order_are_not_called_alphabetical(tmp_path: Path) -> None:
    table = chest(tmp_path) / "Data_Entry_2017.csv"
    table.write_text(table.read_text().replace("Effusion|Mass", "Mass|Effusion"))
    manifest = load_manifest(f"chestxray14:{tmp_path}")
    assert "alphabet" not in _notes(manifest)
    assert "Mass|Effusion" in manifest.labels


def test_kvasir_capsule(tmp_path: Path) -> None:
    manifest = load_manifest(f"kvasir-capsule:{kvasir(tmp_path)}")
    assert _rows(manifest, "image", "label", "group", "split") == [
        ("04a78ef00c5245e0_894", "Blood - fresh", "04a78ef00c5245e0", "train"),
        ("7ad22d50cd354276_9331", "Polyp", "7ad22d50cd354276", "test"),
        ("7ad22d50cd354276_9332", "Polyp", "7ad22d50cd354276", "test"),
        ("04a78ef00c5245e0_12", "Ampulla of Vater", "04a78ef00c5245e0", ""),
    ]
    assert "11 of the 14 classes have no image here: Angiectasia, Blood - hematin" in _notes(manifest)
    assert "1 images are in neither" in _notes(manifest)
    inside = load_manifest(f"kvasir-capsule:{tmp_path / 'labelled_images'}")
    assert inside.images.tolist() == manifest.images.tolist()
    assert inside.splits is None
    assert len(set(CLASSES)) == 14


def test_kvasir_capsule_that_cannot_be_trusted(tmp_path: Path) -> None:
    kvasir(tmp_path)
    for name, said in (
        ("labelled_images/Polyps/a_1.jpg", r"class folder of Polyps/a_1\.jpg in kvasir-capsule: 'Polyps'.*'Polyp'\?"),
        ("labelled_images/stray_1.jpg", "class folder of stray_1.jpg in kvasir-capsule: ''"),
        ("labelled_images/Ulcer/frame9.jpg", r"1 files have no video in their name \(Ulcer/frame9\.jpg\)"),
        ("labelled_images/Ulcer/7ad22d50cd354276_9331.jpg", r"more than once \(7ad22d50cd354276_9331\)"),
    ):
        _pictures(tmp_path, name)
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
    assert _rows(manifest, "image", "path", "label", "group") == [
        ("0_right", "preprocessed_images/0_right.jpg", "Normal", "0"),
        ("0_left", "preprocessed_images/0_left.jpg", "Cataract", "0"),
        ("1_right", "preprocessed_images/1_right.jpg", "Glaucoma|Myopia", "1"),
    ]
    assert "3 images are here; the paper's 1,008 canaries imply 6,720" in _notes(manifest)
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
    assert _rows(manifest, "image", "label", "group", "eye") == [
        ("0_left", "Cataract", "0", "left"),
        ("0_right", "Cataract", "0", "right"),
        ("1_left", "Glaucoma|Myopia", "1", "left"),
        ("1_right", "Glaucoma|Myopia", "1", "right"),
    ]
    assert "the patient's, which both eyes share" in _notes(manifest)
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
    assert _rows(manifest, "image", "label", "group") == [
        ("CNV-1016042-1", "CNV", "1016042"),
        ("CNV-1016042-2", "CNV", "1016042"),
        ("DME-1016042-1", "DME", "1016042"),
        ("DME-30521-1", "DME", "30521"),
        ("NORMAL-4872585-1", "NORMAL", "4872585"),
    ]
    assert "train alone, as in the paper (test not read)" in _notes(manifest)
    assert "1 numbers occur in several classes and are taken as one patient each." in _notes(manifest)
    assert "5 images are here; the paper says 84,452." in manifest.notes
    test = load_manifest(f"retinal-oct:{tmp_path / 'OCT2017 ' / 'test'}")
    assert test.images.tolist() == ["CNV-53018-1", "CNV-53018-2", "DME-11053-1"]
    assert "train" not in _notes(test)


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
    _pictures(oct_(tmp_path), name)
    with pytest.raises(InputError, match=said):
        load_manifest(f"retinal-oct:{tmp_path}")


def _medmnist(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        images, labels = np.full((4, 2, 2), k, np.uint8), np.arange(4).reshape(-1, 1) % 2
        arrays = {f"{s}_{n}": v for s in ("train", "val", "test") for n, v in (("images", images), ("labels", labels))}
        np.savez(folder / f"{name}.npz", **arrays)


def test_medmnist_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MEDMNIST_ROOT", raising=False)
    with pytest.raises(InputError, match=r"no file dermamnist\.npz in .*/\.medmnist; get it from medmnist\.com"):
        load_manifest("medmnist:dermamnist")
    _medmnist(tmp_path / ".medmnist", "dermamnist_224")
    manifest = load_manifest("medmnist:dermamnist")
    assert (manifest.n, manifest.name) == (12, "dermamnist_224")
    assert manifest.splits is not None
    assert Counter(manifest.splits) == {"train": 4, "val": 4, "test": 4}
    assert "no patients are published" in manifest.notes[-1]
    _medmnist(tmp_path / ".medmnist", "dermamnist_64")
    with pytest.raises(
        InputError, match=r"dermamnist_64\.npz, dermamnist_224\.npz are in .*; name one, as medmnist:derma"
    ):
        load_manifest("medmnist:dermamnist")
    _medmnist(tmp_path / ".medmnist", "dermamnist")
    manifest = load_manifest("medmnist:DermaMNIST")
    assert manifest.name == "dermamnist"
    assert (
        manifest.notes[-1] == "Other sizes are there, too (dermamnist_64.npz, dermamnist_224.npz): name one to read it."
    )
    assert load_manifest("medmnist:dermamnist_64").name == "dermamnist_64"
    monkeypatch.setenv("MEDMNIST_ROOT", str(tmp_path / "root"))
    _medmnist(tmp_path / "root", "dermamnist_128")
    assert load_manifest("medmnist:dermamnist").name == "dermamnist_128", "the first place that has it"
    _medmnist(tmp_path / "given", "bloodmnist")
    assert load_manifest(f"medmnist:bloodmnist@{tmp_path / 'given'}").n == 12
    with pytest.raises(InputError, match=r"no file dermamnist\.npz in .*/given; there are bloodmnist\.npz; get it"):
        load_manifest(f"medmnist:dermamnist@{tmp_path / 'given'}")


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("dermanist", r"unknown MedMNIST data set 'dermanist'\. Did you mean 'dermamnist'\?"),
        ("nodulemnist3d", "nodulemnist3d holds volumes, and images are two-dimensional here; choose among pathmnist"),
        ("dermamnist_256", r"unknown size of dermamnist: '256'.* Known: 64, 128, 224"),
        ("dermamnist@", "no folder after '@'; give medmnist:dermamnist@FOLDER"),
    ],
)
def test_medmnist_names_that_are_refused(rest: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_manifest(f"medmnist:{rest}")
    assert (len(set(FLAT)), len(set(SOLID))) == (12, 6)


def test_medmnist_takes_groups_from_a_table(tmp_path: Path) -> None:
    """Patients that are known from elsewhere can be joined, as for any file of arrays."""
    _medmnist(tmp_path, "bloodmnist")
    rows = [f"{s}/{k},l{k},p{k // 2}" for s in ("train", "val", "test") for k in range(4)]
    write(tmp_path / "who.csv", "\n".join(["image,label,patient", *rows, ""]).encode())
    options = ImageOptions(labels_csv=tmp_path / "who.csv")
    manifest = load_manifest(f"medmnist:bloodmnist@{tmp_path}", options)
    assert set(manifest.groups) == {"p0", "p1"}


def test_the_real_ham10000_subset(shared_data: Path) -> None:
    """A part of the data set at 224 px, its metadata whole."""
    with pytest.raises(InputError, match="of 10,015 images have no file"):
        load_manifest(f"ham10000:{shared_data / 'ham10000_224'}")
    manifest = load_manifest(f"ham10000:{shared_data / 'ham10000_224'}", ImageOptions(skip_missing=True))
    assert len(manifest.classes) == 7
    assert manifest.n + len(manifest.skipped) >= 10_015
    assert read_image(manifest.file(0)).shape == (224, 224, 3)
