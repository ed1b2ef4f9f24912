"""Tables as sources: columns guessed and named, files found without leaving the folder, labels joined to folders."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.images.columns import label_values, text, with_numbers
from memorisk.images.layouts import tables
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.digits import digits_manifest
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


def _csv(root: Path, content: str, name: str = "table.csv") -> Path:
    return write(root / name, content.encode())


def _columns(manifest: Manifest, *names: str) -> list[tuple]:
    return list(zip(*(manifest.table[name].tolist() for name in names), strict=True))


def test_columns_are_guessed_and_said(tmp_path: Path) -> None:
    _pictures(tmp_path / "pics", "A1.png", "A2.png")
    path = _csv(tmp_path, "lesion_id,Image ID,dx,age,code\nL1,A1,nv,50,007\nL2,A2,mel,,008\n")
    manifest = load_manifest(path)
    assert _columns(manifest, "image", "path", "label", "group") == [
        ("A1", "pics/A1.png", "nv", "L1"),
        ("A2", "pics/A2.png", "mel", "L2"),
    ]
    assert manifest.notes == ("Columns: group is lesion_id, image is Image ID, label is dx, path is Image ID.",)
    assert manifest.table["age"].tolist()[0] == 50
    assert manifest.table["age"].isna().tolist() == [False, True]
    assert manifest.table["code"].tolist() == ["007", "008"]


def test_columns_that_are_named(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png", "2.png", "3.png")
    path = _csv(
        tmp_path, "label,who,file,what,part,source\n7,p,1.png,a,Training,x\n8,q,2.png,b,valid,x\n9,p,3.png,,dev2,y\n"
    )
    options = ImageOptions(label_column="what", group_column="who", split_column="part", dataset_column="source")
    manifest = load_manifest(path, options)
    assert manifest.labels.tolist() == ["a", "b", ""]
    assert manifest.groups.tolist() == ["p", "q", "p"]
    assert manifest.splits is not None
    assert manifest.splits.tolist() == ["train", "val", "dev2"]
    assert manifest.table["dataset"].tolist() == ["x", "x", "y"]
    assert manifest.table["user_label"].tolist() == [7, 8, 9]  # the table's own column of that name is kept
    with pytest.raises(InputError, match=r"unknown group column of table.csv: 'whom'. Did you mean 'who'"):
        load_manifest(path, ImageOptions(group_column="whom"))


def test_an_id_and_a_path_apart(tmp_path: Path) -> None:
    _pictures(tmp_path / "d", "x.png", "y.png")
    manifest = load_manifest(_csv(tmp_path, "id,filepath,label\none,d/x.png,a\ntwo,./d//y.png,b\n"))
    assert _columns(manifest, "image", "path") == [("one", "d/x.png"), ("two", "d/y.png")]


def test_delimiters_byte_order_marks_and_quotes(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png", "2.png")
    for delimiter in ",;\t":
        content = '\ufeffimage;label\n1.png;"a ""b"" \n<i>c;d,e"\n2.png;z\n'.replace(";", delimiter)
        manifest = load_manifest(_csv(tmp_path, content))
        assert manifest.labels.tolist() == [f'a "b" \n<i>c{delimiter}d,e', "z"]
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_manifest(write(tmp_path / "latin.csv", "image,label\n1.png,Größe\n".encode("latin-1")))


def test_values_stay_as_they_are_written(tmp_path: Path) -> None:
    _pictures(tmp_path, "007.png", "008.png")
    manifest = load_manifest(_csv(tmp_path, "image,label,patient\n007,NA,0001\n008,None,0002\n"))
    assert manifest.images.tolist() == ["007", "008"]
    assert manifest.labels.tolist() == ["NA", "None"]
    assert manifest.groups.tolist() == ["0001", "0002"]
    table = pd.DataFrame({"image": [7, 8], "label": [0.0, 1.0], "patient": [1.0, None], "path": ["007.png", "008.png"]})
    table.to_parquet(tmp_path / "t.parquet")
    manifest = load_manifest(tmp_path / "t.parquet")
    assert _columns(manifest, "image", "label", "group") == [("7", "0", "1"), ("8", "1", "8")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (float("nan"), ""),
        (pd.NA, ""),
        (3.0, "3"),
        (3.5, "3.5"),
        (True, "True"),
        (b"a", "a"),
        (np.int8(2), "2"),
    ],
)
def test_values_as_text(value: object, expected: str) -> None:
    assert text(value) == expected


def test_codes_stay_text_and_numbers_become_numbers() -> None:
    assert with_numbers(pd.Series(["1", "-2.5", "3e2"])).tolist() == [1, -2.5, 300]
    assert with_numbers(pd.Series(["1", ""])).isna().tolist() == [False, True]
    for codes in (["007", "1"], ["1", "x"], ["", ""], ["1,5", "2"], ["nan", "1"]):
        assert with_numbers(pd.Series(codes)).tolist() == codes


@pytest.mark.parametrize(
    "written",
    [
        b"sep=;\r\nfile;label;patient\r\n1.png;a;007\r\n2.png;b;008\r\n",
        b'"sep=;"\nfile;label;patient\n1.png;a;007\n2.png;b;008\n',
        "\ufeffSEP=^\nfile^label^patient\n1.png^a^007\n2.png^b^008\n".encode(),
        "file\tlabel\tpatient\r\n1.png\ta\t007\r\n2.png\tb\t008\r\n".encode("utf-16"),
        "file;label;patient\n1.png;a;007\n2.png;b;008\n".encode("utf-16-le"),
        "sep=;\nfile;label;patient\n1.png;a;007\n2.png;b;008\n".encode("utf-16-be"),
        b"file|label|patient\n1.png|a|007\n2.png|b|008\n",
        b"file;label;patient;note, of a person, in words\n1.png;a;007;\n2.png;b;008;x, y\n",
        b",file,label,patient\n0,1.png,a,007\n1,2.png,b,008\n",
    ],
)
def test_tables_as_spreadsheets_write_them(tmp_path: Path, written: bytes) -> None:
    _pictures(tmp_path, "1.png", "2.png")
    manifest = load_manifest(write(tmp_path / "table.csv", written))
    assert _columns(manifest, "path", "label", "group") == [("1.png", "a", "007"), ("2.png", "b", "008")]


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("Export of 2026;;\nfile;label;patient\n1.png;a;7\n", r"line 1 \(Export of 2026;;\) names 1 of 3 columns"),
        ("# made by hand\nfile,label\n1.png,a\n", r"line 1 \(# made by hand\) names 1 of 2 columns"),
        ("sep=;\nTitle\nfile;label;patient\n1.png;a;7\n", r"line 2 \(Title\) names 1 of 3 columns"),
        ("Title,of,,,\nfile,label,patient,age,sex\n1.png,a,7,8,f\n", "line 1 .* names 2 of 5 columns"),
    ],
)
def test_a_title_above_the_columns_is_named(tmp_path: Path, written: str, line: str) -> None:
    with pytest.raises(InputError, match=f"{line}; the line of the columns' names must be the first"):
        load_manifest(_csv(tmp_path, written))


def test_the_line_in_another_encoding_is_named(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png")
    with pytest.raises(InputError, match=r"line 3 is not UTF-8 text; save it as UTF-8"):
        load_manifest(write(tmp_path / "table.csv", "file,label\n1.png,a\n2.png,Läsion\n".encode("cp1252")))


def test_rows_of_one_image_that_agree_are_merged(tmp_path: Path) -> None:
    root = _pictures(tmp_path, "1.png", "2.png", "3.png")
    rows = "file,label,patient,x\n1.png,a,P1,0\n2.png,b,P2,5\n2.png,b ,P2,6\n3.png,a,P3,1\n"
    manifest = load_manifest(_csv(tmp_path, rows))
    assert _columns(manifest, "image", "label", "group", "x") == [
        *(("1.png", "a", "P1", 0), ("2.png", "b", "P2", 5), ("3.png", "a", "P3", 1)),
    ]
    assert "4 rows describe 3 images; rows of one image agree and are merged." in manifest.notes
    joined = load_manifest(root, ImageOptions(labels_csv=tmp_path / "table.csv", layout="folder"))
    assert joined.groups.tolist() == manifest.groups.tolist()
    write(tmp_path / "metadata.csv", rows.replace("file", "file_name").encode())
    assert load_manifest(root, ImageOptions(layout="folder")).groups.tolist() == manifest.groups.tolist()


@pytest.mark.parametrize(
    ("column", "role", "values"),
    [("label", "labels", "b c"), ("patient", "groups", "P2 P9"), ("split", "splits", "train test")],
)
def test_rows_of_one_image_that_disagree_are_refused(tmp_path: Path, column: str, role: str, values: str) -> None:
    root = _pictures(tmp_path, "1.png", "2.png")
    rows = [{"file": f, "label": "b", "patient": f"P{f[0]}", "split": "train"} for f in ("1.png", "2.png", "2.png")]
    for row, value in zip(rows[1:], values.split(), strict=True):
        row[column] = value
    what = rf"1 image has several rows with different {role} \(2.png: {' and '.join(sorted(values.split()))}\)"
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    pd.DataFrame(rows).rename(columns={"file": "file_name"}).to_csv(tmp_path / "metadata.csv", index=False)
    for source, options in (
        (tmp_path / "table.csv", ImageOptions()),
        (root, ImageOptions(labels_csv=tmp_path / "table.csv")),
        (root, ImageOptions()),
    ):
        with pytest.raises(InputError, match=what):
            load_manifest(source, options)


@pytest.mark.parametrize("above", ["C:\\Users\\x\\data", r"\\srv\share\img", "/nowhere/alice/data"])
def test_paths_of_another_machine_get_the_way_out(tmp_path: Path, above: str) -> None:
    root = _pictures(tmp_path, "img/1.png", "img/2.png")
    mark = "/" if above.startswith("/") else "\\"
    rows = "".join(f"{above}{mark}{name}.png,a\n" for name in (1, 2))
    with pytest.raises(InputError, match=r"give image_root, the folder that their beginning .* means") as error:
        load_manifest(_csv(root, f"path,label\n{rows}"))
    assert f" {above} means" in str(error.value)
    shorter = rows.replace(above + mark, "")
    assert load_manifest(_csv(root, f"path,label\n{shorter}"), ImageOptions(image_root=root / "img")).n == 2


def test_names_in_capital_letters_get_the_way_out(tmp_path: Path) -> None:
    _pictures(tmp_path, "img/1.png")
    with pytest.raises(InputError, match="names of files count capital and small letters"):
        load_manifest(_csv(tmp_path, "path,label\nIMG\\1.PNG,a\n"))


def test_several_columns_of_zeros_and_ones() -> None:
    table = pd.DataFrame({"A": ["1", "0", "0", "1.0"], "B": ["1", "1", "", "-1"], "C": ["0", "0", "False", "2"]})
    assert label_values(table, "A, B", "t") == ["A|B", "B", "none", "A"]
    with pytest.raises(InputError, match="column C holds '2', not 0 or 1"):
        label_values(table, "A,C", "t")
    with pytest.raises(InputError, match="unknown label column of t: 'D'"):
        label_values(table, "A,D", "t")


def test_paths_of_other_machines_are_found_by_their_end(tmp_path: Path) -> None:
    _pictures(tmp_path, "train/p1/view1.png", "train/p2/view1.png", "images_001/images/00000001_000.png")
    path = _csv(tmp_path, "path,label\nSet-v1/train/p1/view1.png,a\ntrain\\p2\\view1.png,b\n00000001_000.png,c\n")
    expected = ["train/p1/view1.png", "train/p2/view1.png", "images_001/images/00000001_000.png"]
    assert load_manifest(path).table["path"].tolist() == expected
    for value, what in [
        ("view1.png", r"1 names fit several files .*\(view1.png\)"),
        ("p3/view1.png", "1 of 1 rows have no file"),
    ]:
        with pytest.raises(InputError, match=what):
            load_manifest(_csv(tmp_path, f"path,label\n{value},a\n"))
    with pytest.raises(InputError, match="different names lead to one file"):
        load_manifest(_csv(tmp_path, "path,label\nimages/00000001_000.png,a\n00000001_000,b\n"))


def test_composed_and_decomposed_names_are_the_same(tmp_path: Path) -> None:
    _pictures(tmp_path / "d", "Zu\u0308rich.png")
    assert load_manifest(_csv(tmp_path, "image,label\nZ\u00fcrich,a\n")).table["path"].tolist() == [
        "d/Zu\u0308rich.png"
    ]


@pytest.mark.parametrize(
    "value",
    ["../secret.png", "a/../../secret.png", "/etc/passwd", "{outside}/secret.png", "..\\secret.png", "C:\\secret.png"],
)
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, value: str) -> None:
    _pictures(tmp_path, "secret.png", "set/inside.png")
    path = _csv(tmp_path / "set", "path,label\n" + value.format(outside=tmp_path) + ",a\ninside.png,b\n")
    with pytest.raises(InputError, match=r"1 path leads out of the folder .*; give image_root"):
        load_manifest(path, ImageOptions(skip_missing=True))


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    _pictures(tmp_path, "outside/secret.png", "set/inside.png")
    (tmp_path / "set" / "link.png").symlink_to(tmp_path / "outside" / "secret.png")
    (tmp_path / "set" / "folder").symlink_to(tmp_path / "outside")
    for value in ("link.png", "folder/secret.png"):
        path = _csv(tmp_path / "set", f"path,label\n{value},a\n")
        with pytest.raises(InputError, match="leads out of the folder"):
            load_manifest(path)
        assert read_image(load_manifest(path, ImageOptions(follow_links=True)).file(0)).max() == 0


def test_paths_within_the_folder_may_take_any_form(tmp_path: Path) -> None:
    _pictures(tmp_path, "a/1.png", "b/2.png")
    path = _csv(tmp_path, f"path,label\n{tmp_path}/a/1.png,x\na/../b/2.png,y\n")
    assert load_manifest(path).table["path"].tolist() == ["a/1.png", "b/2.png"]
    elsewhere = _csv(tmp_path / "tables", "path,label\na/1.png,x\nb/2.png,y\n")
    assert load_manifest(elsewhere, ImageOptions(image_root=tmp_path)).n == 2
    with pytest.raises(InputError, match=r"image_root .* is not a folder"):
        load_manifest(elsewhere, ImageOptions(image_root=tmp_path / "absent"))


def test_missing_files_are_refused_or_counted(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png")
    path = _csv(tmp_path, "image,label\n1,a\n2,b\n3,c\n")
    with pytest.raises(InputError, match=r"2 of 3 rows have no file .*\(2, 3\).*or skip_missing"):
        load_manifest(path)
    manifest = load_manifest(path, ImageOptions(skip_missing=True))
    assert manifest.images.tolist() == ["1"]
    assert manifest.skipped.to_dict("records") == [{"path": i, "reason": "no such file"} for i in "23"]
    assert "2 rows of the table have no file and are left out." in manifest.notes
    with pytest.raises(InputError, match="2 of 2 rows have no file"):
        load_manifest(_csv(tmp_path, "image,label\n8,a\n9,b\n"), ImageOptions(skip_missing=True))


def test_groups_that_say_nothing_are_refused(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png", "2.png", "3.png")
    for value, what in (("", "empty"), ("ANON", "'ANON'")):
        path = _csv(tmp_path, f"image,patient,site\n1,{value},x\n2,{value},y\n3,{value},y\n")
        with pytest.raises(InputError, match=f"column patient is {what} for all 3 images.*group_column=image"):
            load_manifest(path)
        assert load_manifest(path, ImageOptions(group_column="image")).groups.tolist() == ["1", "2", "3"]
        assert load_manifest(path, ImageOptions(group_column="site")).groups.tolist() == ["x", "y", "y"]
    partly = load_manifest(_csv(tmp_path, "image,patient\n1,2\n2,\n3,\n"))
    assert partly.groups.tolist() == ["2", "2 (alone)", "3"]  # not the group of another
    assert "2 images have no group; each is its own." in partly.notes
    assert partly.groups_given
    assert partly.n_without_group == 2


@pytest.mark.parametrize("value", ["NA", "N/A", "nan", "NaN", "<NA>", "None", "null", "Unknown", "-", "?"])
def test_an_id_that_means_none_makes_no_person(tmp_path: Path, value: str) -> None:
    _pictures(tmp_path, *(f"{k}.png" for k in range(1, 5)))
    path = _csv(tmp_path, f"image,patient\n1,p\n2,p\n3,{value}\n4,{value}\n")
    with pytest.raises(InputError, match=r"^2 images have the patient id .* looks like none .* leave such ids empty"):
        load_manifest(path)
    left_empty = load_manifest(_csv(tmp_path, "image,patient\n1,p\n2,p\n3,\n4,\n"))
    assert left_empty.groups.tolist() == ["p", "p", "3", "4"]
    assert left_empty.n_without_group == 2


def test_tables_that_cannot_be_used(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png")
    for content, what in [
        ("", "the table is empty"),
        ("image,label\n", "the table has no rows"),
        ("a,b\n1,2\n", r"no column that names images among a, b; name it with image_column, and"),
        ("image,label\n1,a\n1,b\n", r"1 image has several rows with different labels \(1: a and b\)"),
        ('image,label\n1,"a\n', "cannot be read as a table"),
        ("image,label\n1,a,b,c\n1,a\n", "rows have more values than its header has names"),
        ("image,label,image\n1,a,2\n", "several columns are called 'image'"),
    ]:
        with pytest.raises(InputError, match=what) as error:
            load_manifest(_csv(tmp_path, content))
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="cannot be read as a table"):
        load_manifest(write(tmp_path / "a.parquet", b"PAR1 and then nothing"))


def test_hostile_column_names_stay_on_one_line(tmp_path: Path) -> None:
    _pictures(tmp_path, "1.png", "2.png")
    hostile = "<i>\npatient\u202e"
    path = _csv(tmp_path, f'image,"{hostile}",label\n1,p,a\n2,q,b\n')
    manifest = load_manifest(path, ImageOptions(group_column=hostile))
    assert manifest.groups.tolist() == ["p", "q"]
    assert all(note.isprintable() for note in manifest.notes)
    assert hostile in load_manifest(path).table
    with pytest.raises(InputError) as error:
        load_manifest(path, ImageOptions(group_column="patients"))
    assert str(error.value).isprintable()


def test_a_saved_manifest_is_a_source(tmp_path: Path) -> None:
    digits = digits_manifest()
    digits.save(tmp_path / "digits.parquet")
    again = load_manifest(tmp_path / "digits.parquet")
    pd.testing.assert_frame_equal(again.table, digits.table)
    assert again.file(3) == digits.file(3)


def test_ham10000_by_its_metadata(shared_data: Path) -> None:
    path = shared_data / "ham10000_224" / "HAM10000_metadata.csv"
    with pytest.raises(InputError, match=r"7,154 of 10,015 rows have no file"):
        load_manifest(path)
    manifest = load_manifest(path, ImageOptions(skip_missing=True))
    counts = manifest.table["label"].value_counts().to_dict()
    assert counts == {"nv": 1200, "bkl": 583, "mel": 491, "bcc": 264, "akiec": 183, "vasc": 80, "df": 60}
    assert len(set(manifest.groups)) == 2861
    assert len(manifest.skipped) == 7154
    assert {"dx_type", "age", "sex", "localization"} <= set(manifest.table.columns)
    other = load_manifest(shared_data / "ham10000_224" / "xla_metadata.csv", ImageOptions(skip_missing=True))
    assert other.n == 2861
    assert other.classes == ["0.0", "1.0"]


# --- labels joined to a folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a/1.png", "a/1", "1.png", "1", "elsewhere/1.png", "./a/1.png", "a\\1.png"])
def test_labels_joined_by_any_name_of_the_file(tmp_path: Path, key: str) -> None:
    root = _pictures(tmp_path / "set", "a/1.png", "b/2.png")
    table = _csv(
        tmp_path, f"file,label,patient_id,age,Split\n{key},mel,P1,30,train\n2,nv,P2,,test\nabsent,nv,P3,9,test\n"
    )
    manifest = load_manifest(root, ImageOptions(labels_csv=table))
    assert _columns(manifest, "label", "group", "split", "age") == [
        ("mel", "P1", "train", "30"),
        ("nv", "P2", "test", ""),
    ]
    assert manifest.notes[0] == (
        "Label: column label of table.csv, joined by file: 2 of 2 images have a row, 2 of 3 rows an image."
    )


def test_images_without_a_row_have_no_label_even_in_class_folders(tmp_path: Path) -> None:
    root = _pictures(tmp_path / "set", "a/1.png", "b/2.png")
    manifest = load_manifest(root, ImageOptions(labels_csv=_csv(tmp_path, "image,label\n1,x\n")))
    assert manifest.labels.tolist() == ["x", ""]


def test_the_column_that_matches_most_is_the_key(tmp_path: Path) -> None:
    root = _pictures(tmp_path / "set", "1.png", "2.png", "3.png")
    table = _csv(tmp_path, "id,image,label\n3,1,a\n10,2,b\n11,3,c\n")
    assert load_manifest(root, ImageOptions(labels_csv=table)).labels.tolist() == ["a", "b", "c"]
    by_id = load_manifest(root, ImageOptions(labels_csv=table, image_column="id"))
    assert by_id.labels.tolist() == ["", "", "a"]


def test_joins_that_are_in_doubt_are_refused(tmp_path: Path) -> None:
    root = _pictures(tmp_path / "set", "a/1.png", "b/1.png", "b/2.png")
    for content, what in [
        ("image,label\n1,x\n", r"1 names fit several files \(1\); give paths"),
        ("image,label\n2,x\n2.png,y\n", r"several rows with different labels \(2: x and y\)"),
        ("image,label\n7,x\n", "names none of the 3 images"),
        ("strange,label\n2,x\n", "none of its columns has a usual name.*image_column"),
        ("image,other\n2,x\n", "no label column among image, other"),
    ]:
        with pytest.raises(InputError, match=what):
            load_manifest(root, ImageOptions(labels_csv=_csv(tmp_path, content)))
    twice = load_manifest(root, ImageOptions(labels_csv=_csv(tmp_path, "image,label\n2,x\nb/2.png,x\n")))
    assert twice.labels.tolist() == ["", "", "x"]
    with pytest.raises(InputError, match="the file does not exist"):
        load_manifest(root, ImageOptions(labels_csv=tmp_path / "absent.csv"))


def test_ham10000_as_a_folder_with_joined_labels(shared_data: Path) -> None:
    folder = shared_data / "ham10000_224"
    assert load_manifest(folder).classes == []
    manifest = load_manifest(folder, ImageOptions(labels_csv=folder / "HAM10000_metadata.csv"))
    table = load_manifest(folder / "HAM10000_metadata.csv", ImageOptions(skip_missing=True))
    joined = dict(zip(manifest.table["path"], zip(manifest.labels, manifest.groups, strict=True), strict=True))
    direct = dict(zip(table.table["path"], zip(table.labels, table.groups, strict=True), strict=True))
    assert joined == direct


def test_a_table_of_absolute_paths_may_lie_anywhere(tmp_path: Path) -> None:
    _pictures(tmp_path, "images/a/1.png", "images/b/2.png", "secret.png", "elsewhere/3.png")
    rows = f"path,label\n{tmp_path}/images/a/1.png,x\n{tmp_path}/images/b/2.png,y\n"
    found = load_manifest(_csv(tmp_path / "tables", rows))
    assert found.table["path"].tolist() == ["a/1.png", "b/2.png"]
    assert found.root == tmp_path / "images"
    assert any("Every path is absolute" in note for note in found.notes)
    with pytest.raises(InputError, match=r"1 of 3 rows have no file below .*/images \("):  # not found by its end
        load_manifest(_csv(tmp_path / "tables", f"{rows}{tmp_path}/images/c/1.png,x\n"))
    mixed = _csv(tmp_path / "tables", f"{rows}../secret.png,x\n")
    with pytest.raises(InputError, match=r"3 paths lead out of the folder .* or every path as an absolute one"):
        load_manifest(mixed)
    (tmp_path / "images" / "link.png").symlink_to(tmp_path / "elsewhere" / "3.png")
    with pytest.raises(InputError, match="1 path leads out of the folder"):
        load_manifest(_csv(tmp_path / "tables", f"{rows}{tmp_path}/images/link.png,x\n"))


def test_an_absolute_path_below_the_root_is_not_looked_for_by_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pictures(tmp_path, "a/1.png", "b/2.png")
    monkeypatch.setattr(tables, "walk_files", lambda *_, **__: pytest.fail("the folder was searched"))
    rows = f"path,label\n{tmp_path}/a/1.png,x\n{tmp_path}/nowhere/2.png,y\n"
    with pytest.raises(InputError, match=r"1 of 2 rows have no file below .*nowhere/2.png"):
        load_manifest(_csv(tmp_path, rows), ImageOptions(image_root=tmp_path))


def test_labels_that_say_nothing_are_left_out_on_request_and_told_otherwise(tmp_path: Path) -> None:
    _pictures(tmp_path, *(f"{n}.png" for n in range(5)))
    path = _csv(tmp_path, "image,label\n0,a\n1,NaN\n2,-|b\n3,-\n4,\n")
    as_it_is = load_manifest(path)
    assert as_it_is.n == 5
    assert {note.partition(",")[0] for note in as_it_is.notes if "looks like none" in note} == {
        "1 images have the label NaN",
        "2 images have the label -",
    }
    found = load_manifest(path, ImageOptions(drop_label=("-", "NaN")))
    assert found.images.tolist() == ["0", "2", "4"]
    assert found.labels.tolist() == ["a", "b", ""]
    assert found.skipped["path"].tolist() == ["1.png", "3.png"]
    assert not len(found.unread), "they are images that can be read"
    assert load_manifest(path, ImageOptions(drop_label=("", "-"))).images.tolist() == ["0", "1", "2"]
    with pytest.raises(InputError, match="drop_label c: no image has this label; those there are: -, NaN, a, b"):
        load_manifest(path, ImageOptions(drop_label=("c",)))
    with pytest.raises(InputError, match="leaves out every image"):
        load_manifest(path, ImageOptions(drop_label=("", "-", "NaN", "a", "b")))
