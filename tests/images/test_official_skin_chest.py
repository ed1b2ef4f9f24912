"""HAM10000 and ChestX-ray14 as published: what is missing, unlisted, twice or elsewhere."""

import re
from collections import Counter
from pathlib import Path

import pytest

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import draw_parts
from memorisk.images.options import ImageOptions
from memorisk.images.published.sets import CHESTXRAY14
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.official_trees import (
    chest,
    ham,
    notes_of,
    pictures,
    rows_of,
)


def test_ham10000(tmp_path: Path) -> None:
    manifest = load_manifest(f"ham10000:{ham(tmp_path)}")
    assert rows_of(manifest, "image", "path", "label", "group") == [
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
    pictures(tmp_path / "ham10000_images_part_1", "ISIC_0024306.jpg", "ISIC_0024307.jpg")
    pictures(tmp_path / "ISIC2018_Task3_Test_Images", "ISIC_0034524.jpg")
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
    pictures(tmp_path / "HAM10000_images_part_3", "ISIC_0024306.jpg")
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
            pictures(tmp_path / "HAM10000_images_part_2", "ISIC_0029306.jpg")
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
    assert rows_of(manifest, "image", "label", "group", "split") == [
        ("00000001_000.png", "Cardiomegaly", "1", "train"),
        ("00000001_001.png", "Cardiomegaly|Emphysema", "1", "train"),
        ("00000002_001.png", "Hernia", "2", "train"),
        ("00000003_000.png", "Effusion|Mass", "3", "test"),
        ("00000003_001.png", "Mass", "3", "test"),
    ]
    assert manifest.table["path"].tolist()[2] == "images_005/images/00000002_001.png"
    assert "2 left out, No Finding: 00000001_002.png, 00000002_000.png." in manifest.notes
    assert any("of Data_Entry_2017.csv without 'No Finding', as listed" in note for note in manifest.notes)
    assert "the first-listed is not the main one" in notes_of(manifest)
    assert not any(str(column).startswith("Unnamed") for column in manifest.table)
    chest(tmp_path, "Data_Entry_2017_v2020.csv")
    assert "Data_Entry_2017_v2020.csv" in notes_of(load_manifest(f"chestxray14:{tmp_path}"))


def test_chestxray14_first_and_multi_and_sampled(tmp_path: Path) -> None:
    """The rule in order: "No Finding" out, then the first-listed finding, then the sample, stratified by it."""
    findings = [*CHESTXRAY14.classes[:4], "No Finding"]
    rows, names = [], []
    for k in range(200):
        label = findings[k % 5]
        label = f"{label}|Hernia" if k % 10 == 0 else label
        names.append(f"{k // 2:08d}_{k % 2:03d}.png")
        rows.append(f"{names[-1]},{label},0,{k // 2}")
    pictures(tmp_path / "images_001/images", *names)
    header = "Image Index,Finding Labels,Follow-up #,Patient ID"
    write(tmp_path / "Data_Entry_2017.csv", "\n".join([header, *rows, ""]).encode())
    options = ClassifierOptions(sample=80, head="first")
    manifest = load_manifest(f"chestxray14:{tmp_path}", options)
    assert manifest.n == 80
    parts = draw_parts(manifest, [], options, 0)
    assert Counter(parts.labels) == dict.fromkeys(CHESTXRAY14.classes[:4], 20)
    assert "Hernia" not in parts.labels
    assert manifest.notes[-1].startswith("Sample: 80 of 160 images")
    multi = draw_parts(manifest, [], ClassifierOptions(head="multi"), 0)
    assert {label for value in multi.labels for label in str(value).split("|")} == {*CHESTXRAY14.classes[:4], "Hernia"}
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
    assert "No official split: " in notes_of(manifest)
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
    assert "alphabet" not in notes_of(manifest)
    assert "Mass|Effusion" in manifest.labels


def test_the_real_ham10000_subset(shared_data: Path) -> None:
    """A part of the data set at 224 px, its metadata whole."""
    with pytest.raises(InputError, match="of 10,015 images have no file"):
        load_manifest(f"ham10000:{shared_data / 'ham10000_224'}")
    manifest = load_manifest(f"ham10000:{shared_data / 'ham10000_224'}", ImageOptions(skip_missing=True))
    assert len(manifest.classes) == 7
    assert manifest.n + len(manifest.skipped) >= 10_015
    assert read_image(manifest.file(0)).shape == (224, 224, 3)
