"""The check of a set of images: everything planted is found, and what is known of real sets."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.pixels import FEW_LEVELS, few_levels_note, grey_levels
from memorisk.images.set_check.check import check_images
from memorisk.images.set_check.text import render_text
from memorisk.images.sources.registry import load_manifest
from memorisk.images.splits import merge_linked
from memorisk.images.store import build_store


def picture(seed, size=(40, 48)):
    rng = np.random.default_rng(seed)
    field = gaussian_filter(rng.normal(size=size), 1.5)
    return np.uint8(255 * (field - field.min()) / (field.max() - field.min()))


@pytest.fixture
def planted(tmp_path):
    """46 images of two classes, in patients and splits, with one fault of each kind."""
    rows = []

    def add(name, pixels, label, group, split):
        Image.fromarray(pixels).save(tmp_path / name)
        rows.append({"image": name, "path": name, "label": label, "group": group, "split": split})

    for i in range(10):
        add(f"{i}.png", picture(i), "a", f"p{i}", "train")
    for i in range(30):  # enough people to tell how alike two of them can be
        add(f"other{i}.png", picture(100 + i), "a", f"q{i}", "train")
    add("bytes.png", picture(0), "a", "p10", "test")  # 0.png again: other patient, other split
    add("pixels.png", np.stack([picture(1)] * 3, axis=-1), "b", "p1", "train")  # 1.png as RGB: other label
    add("near.png", np.uint8(picture(2) * 0.8 + 20), "b", "p11", "train")  # 2.png, paler: other label and patient
    add("black.png", np.zeros((40, 48), np.uint8), "a", "p12", "train")
    add("white.png", np.full((30, 30), 255, np.uint8), "a", "p13", "train")
    add("broken.png", picture(20), "a", "p3", "test")  # p3 is in train as well
    (tmp_path / "broken.png").write_bytes((tmp_path / "broken.png").read_bytes()[:300])
    return Manifest(pd.DataFrame(rows), tmp_path, "planted", notes=("a note",))


def test_everything_planted_is_found(planted):
    check = check_images(planted)
    assert check.unreadable["image"].tolist() == ["broken.png"]
    assert check.empty["image"].tolist() == ["black.png", "white.png"]
    copies = check.duplicates.groupby("copy")
    assert [sorted(rows["image"]) for _, rows in copies] == [["0.png", "bytes.png"], ["1.png", "pixels.png"]]
    assert copies["kind"].first().tolist() == ["bytes", "pixels"]
    assert copies["across"].first().tolist() == ["group, split", "label"]
    (near,) = check.near.to_dict("records")
    assert (near["image_a"], near["image_b"], near["across"]) == ("2.png", "near.png", "label, group")
    assert near["similarity"] > 0.99
    assert near["confirmed"]
    assert check.near_found == 1
    assert check.near_rule.chance.n_people == 41  # who has an image that is neither black, white nor broken
    assert check.crossing_groups.to_dict("records") == [{"group": "p3", "splits": "test, train", "images": 2}]
    classes = check.classes.set_index("label")
    assert classes.loc["a"].to_dict() == {
        "images": 44, "share": 44 / 46, "groups": 43, "largest_group": 2, "auditable": True
    }  # fmt: skip
    assert classes.loc["b", ["images", "groups", "auditable"]].tolist() == [2, 2, False]
    assert check.splits.to_dict("records") == [
        {"split": "test", "images": 2, "groups": 2},
        {"split": "train", "images": 44, "groups": 43},
    ]
    assert check.split_copies.to_dict("records") == [
        {"split": "test", "also_in": "train", "images": 1},
        {"split": "train", "also_in": "test", "images": 1},
        {"split": "train", "also_in": "train", "images": 1},
    ]
    assert check.sizes.to_dict("records") == [
        {"height": 40, "width": 48, "colour": False, "images": 44},
        {"height": 30, "width": 30, "colour": False, "images": 1},
    ]
    groups = check.groups.set_index("group")
    assert groups.loc["p1"].tolist() == [2, 2]
    assert len(groups) == 44
    assert merge_linked(planted.groups, check.linked)[40] == "p0"
    assert not check.ok
    assert {what: count for what, count in check.problems.items() if count} == {
        "unreadable": 1,
        "empty": 2,
        "groups across splits": 1,
        "sets of equal images across labels": 1,
        "sets of equal images across groups": 1,
        "sets of equal images across splits": 1,
        "pairs nearly the same across labels": 1,
    }
    assert "group" in near["across"]
    assert render_text(check)[1].endswith(
        "; but 1 pair of images of different groups is nearly the same (below): one person under two ids, or a copy"
    )


def test_a_clean_set_is_ok(tmp_path):
    for i in range(8):
        Image.fromarray(picture(i)).save(tmp_path / f"{i}.png")
    names = [f"{i}.png" for i in range(8)]
    table = pd.DataFrame({"image": names, "path": names, "label": "a", "group": names})
    check = check_images(Manifest(table, tmp_path, "clean"))
    assert check.ok
    assert not check.linked
    assert "no problems found" in render_text(check)
    assert "groups: each image is its own" in render_text(check)
    assert not len(check.splits)


def test_what_may_be_an_image_and_was_not_read_is_a_problem(tmp_path):
    for seed, name in enumerate(("a/0.png", "b/1.png")):
        (tmp_path / name).parent.mkdir()
        Image.fromarray(picture(seed)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "Thumbs.db").write_bytes(b"\xd0\xcf\0")
    assert check_images(tmp_path).ok
    (tmp_path / "a" / "2.heic").write_bytes(b"\0\0\0\x18ftypheic")
    check = check_images(tmp_path)
    assert check.problems["not read"] == 1
    lines = render_text(check)
    assert lines[1] == "problems found - not read: 1"
    assert "  a/2.heic: of a kind that is not read" in lines


def test_frames_that_are_not_looked_at_are_counted_and_listed(tmp_path):
    pictures = [Image.fromarray(picture(k)) for k in range(6)]
    frames = {"save_all": True, "append_images": pictures[2:4]}
    pictures[0].save(tmp_path / "frames.png", **frames)
    pictures[1].save(tmp_path / "frames.gif", **frames)
    pictures[4].save(tmp_path / "one.gif")
    pictures[5].save(tmp_path / "one.png")
    check = check_images(tmp_path)
    assert check.frames_left.to_dict("records") == [
        {"path": "frames.gif", "frames": 2}, {"path": "frames.png", "frames": 2},
    ]  # fmt: skip
    assert json.loads(json.dumps(check.to_dict()))["frames_left"] == check.frames_left.to_dict("records")
    lines = render_text(check)
    note = "note: 4 further frames, pages or slices of 2 files were not looked at; --frames all reads them, too"
    assert {note, "further frames: 2", "  frames.gif: 2"} <= {*lines}
    assert check.ok  # it spoils no audit
    assert not len(check_images(tmp_path, frames="all").frames_left)


def test_a_set_without_labels_is_not_called_fit_for_an_audit(tmp_path):
    for i in range(2):
        Image.fromarray(picture(i)).save(tmp_path / f"{i}.png")
    table = pd.DataFrame({"image": ["0", "1"], "path": ["0.png", "1.png"], "label": "", "group": ["0", "1"]})
    lines = render_text(check_images(Manifest(table, tmp_path, "bare")))
    assert "no problems found" not in lines
    assert lines[1].startswith("no problems found, but no image has a label: these images cannot be audited for what")


def manifest_of(tmp_path, pictures):
    """Images of one class, each of its own patient."""
    names = [f"{i:02}.png" for i in range(len(pictures))]
    for name, pixels in zip(names, pictures, strict=True):
        Image.fromarray(pixels).save(tmp_path / name)
    table = pd.DataFrame({"image": names, "path": names, "label": "a", "group": [f"p{name[:2]}" for name in names]})
    return Manifest(table, tmp_path, "set")


def test_near_copies_across_groups_alone_are_a_remark(tmp_path):
    pictures = [picture(i) for i in range(40)]
    check = check_images(manifest_of(tmp_path, [*pictures, np.uint8(pictures[0] * 0.9)]))
    assert check.near["across"].tolist() == ["group"]
    assert check.near["confirmed"].tolist() == [True]
    assert check.ok


def test_of_few_people_nothing_is_called_nearly_the_same(tmp_path):
    pictures = [picture(i) for i in range(5)]
    check = check_images(manifest_of(tmp_path, [*pictures, np.uint8(pictures[0] * 0.9)]))
    assert not len(check.near)
    assert any("Only identical pixels count as copies: 6 people are too few" in line for line in render_text(check))


def test_the_most_alike_pairs_are_listed_first_whatever_they_cross(tmp_path):
    pictures = [picture(i, (64, 80)) for i in range(40)]
    noise = np.random.default_rng(0).integers(-12, 13, (64, 80))
    noised = np.uint8(np.clip(pictures[3].astype(int) + noise, 0, 255))
    manifest = manifest_of(tmp_path, [*pictures, noised, np.uint8(pictures[7] * 0.9)])
    manifest.table.loc[manifest.table["image"] == "40.png", "label"] = "b"
    check, another = check_images(manifest), manifest.table["image"] == "41.png"
    assert check.near[["image_a", "image_b"]].to_numpy().tolist() == [["07.png", "41.png"], ["03.png", "40.png"]]
    lines = render_text(check)
    at = lines.index("nearly the same: 2")
    assert lines[at + 1].startswith("  07.png")
    assert lines[at + 2].startswith("  03.png")
    assert lines[at + 2].endswith(": across label and group")
    same = replace(manifest, table=manifest.table.assign(group=manifest.table["group"].mask(another, "g07")))
    same.table.loc[same.table["image"] == "07.png", "group"] = "g07"
    lines = render_text(check_images(same))
    at = lines.index("nearly the same: 2")
    assert lines[at + 1].startswith("  03.png")
    assert lines[at + 2] == "  1 pair of the same label, group and split"


def test_turned_copies_on_request(tmp_path):
    pictures = [picture(i) for i in range(40)]
    manifest = manifest_of(tmp_path, [*pictures, pictures[0][:, ::-1]])
    assert not len(check_images(manifest).near)
    assert len(check_images(manifest, turned=True).near) == 1


def test_processes_change_nothing(planted):
    one, two = check_images(planted, processes=1), check_images(planted, processes=2)
    assert one.to_dict() == two.to_dict()


def test_the_dictionary_is_json(planted):
    check = check_images(planted)
    read = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert read["images"] == 46
    assert read["near"][0]["fine"] is None  # 40 pixels a side: no finer than a thumbnail
    assert read["near_expected"] == 0.01
    assert 0.5 < read["near_threshold"] < 0.99
    assert read["ok"] is False
    assert read["problems"] == check.problems
    assert read["linked"] == [["p0", "p10"]]
    assert read["unreadable"][0]["image"] == "broken.png"
    assert len(read["duplicates"]) == 4


def test_the_text_says_it_all(planted):
    text = "\n".join(render_text(check_images(planted)))
    for part in (
        "planted: 46 images, 2 classes, 44 groups",
        "note: a note",
        "broken.png: ",
        "0.png (a, train, group p0) = bytes.png (a, test, group p10): across group and split",
        "1.png (a, train, group p1) = pixels.png (b, train, group p1): across label",
        "train holds 1 image a second time",
        "1 image of test is also in train",
        "2.png (a, train, group p2) ~ near.png (b, train, group p11) ",
        "p3: 2 images in test, train",
        "too small to split: joins training only",
        "48 x 40, grey: 44",
        "note: Two images count as nearly the same from a similarity of 0.",
    ):
        assert part in text


def test_long_listings_are_cut_and_counted(tmp_path):
    names = [f"{i}.png" for i in range(30)]
    for name in names:
        (tmp_path / name).write_bytes(b"none")
    table = pd.DataFrame({"image": names, "path": names, "label": "a", "group": names})
    lines = render_text(check_images(Manifest(table, tmp_path, "broken")), shown=4)
    start = lines.index("unreadable: 30")
    assert lines[start + 5] == "  ... and 26 more"


def test_hostile_names_stay_on_their_line(tmp_path):
    names = ["a\nb<script>.png", "c\u202egnp.png", "d😀.png"]
    for i, name in enumerate(names):
        Image.fromarray(picture(0 if i < 2 else 1)).save(tmp_path / name)
    table = pd.DataFrame(
        {"image": names, "path": names, "label": ["x\ny", "z\x1b[31m", "x\ny"], "group": ["g\r", "h", "i"]}
    )
    lines = render_text(check_images(Manifest(table, tmp_path, "evil\nname")))
    assert lines[0].startswith("evil\\nname")
    assert all(line.isprintable() for line in lines)
    assert any("a\\nb<script>.png" in line and "\\u202e" in line for line in lines)


@pytest.mark.thorough
def test_busi_has_one_image_under_two_labels(shared_data):
    check = check_images(shared_data / "busi_ultrasound" / "Dataset_BUSI_with_GT")
    assert check.n == 780
    found = check.duplicates[check.duplicates["across"].str.contains("label")]
    assert sorted(path.rsplit("/")[-1] for path in found["path"]) == ["benign (433).png", "malignant (145).png"]
    assert not check.ok
    assert len(check.linked) == 1
    assert any("benign (433).png (benign) = " in line and "across label" in line for line in render_text(check))


def test_nih_has_thirty_patients_across_its_splits(shared_data):
    options = ImageOptions(group_from=r"^(\d+)_")
    check = check_images(shared_data / "nih_cxr14_64" / "NIH1000", options)
    wanted = {}  # the definition, from the folders themselves
    for file in (shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"):
        wanted.setdefault(file.name.split("_")[0], set()).add(file.parent.parent.name)
    wanted = sorted(patient for patient, splits in wanted.items() if len(splits) > 1)
    assert check.crossing_groups["group"].tolist() == wanted
    assert len(wanted) == 30
    assert "groups in several of the given splits: 30" in render_text(check)
    assert len(check.groups) == 264
    assert int((check.groups["labels"] > 1).sum()) == 68
    assert not len(check.duplicates)


def test_pneumoniamnist_has_its_copies(shared_data):
    check = check_images(shared_data / "pneumoniamnist_imbalanced" / "data" / "pneumoniamnist.npz")
    copies = {(r["split"], r["also_in"]): r["images"] for r in check.split_copies.to_dict("records")}
    assert copies["train", "train"] == 17
    assert copies["val", "train"] == 8
    text = render_text(check)
    assert "  train holds 17 images a second time" in text
    assert "  8 images of val are also in train" in text


@pytest.mark.parametrize("bits", [8, 10, 12])
def test_values_of_few_bits_in_files_of_16_are_named(tmp_path, bits):
    for i in range(8):
        values = picture(i).astype(np.uint16) << 8 >> (16 - bits)
        Image.fromarray(values).save(tmp_path / f"{i}.png")
    check = check_images(tmp_path)
    assert check.few_levels["levels"].max() <= 1 + (1 << (bits - 8))
    assert len(check.few_levels) + len(check.empty) == 8
    assert f"fewer than {FEW_LEVELS} of 256 grey levels" in "\n".join(render_text(check)) or len(check.empty) == 8
    (note,) = few_levels_note(build_store(load_manifest(tmp_path), ImageOptions()).images, "images")
    assert note.startswith("8 of 8 images span fewer than 32 of 256 grey levels")
    assert check_images(tmp_path, window="percentile").few_levels.empty


@pytest.mark.parametrize("shape", [(8, 8), (40, 50)])
@pytest.mark.parametrize("stray", [0, 65535])
def test_stray_pixels_do_not_hide_few_levels(shape, stray):
    """One bright pixel let values of 12 bits in files of 16 pass for a whole range."""
    values = np.random.default_rng(0).integers(1000, 4096, (*shape, 1)).astype(np.uint16)
    alone = grey_levels(values)
    values[0, : max(1, values.size // 100)] = stray
    assert grey_levels(values) <= alone <= 13 < FEW_LEVELS
    values[: shape[0] // 2] = 60000
    assert grey_levels(values) > FEW_LEVELS


def test_levels_are_those_of_eight_bits():
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    assert (grey_levels(ramp), grey_levels(ramp.astype(np.uint16) * 257)) == (253, 253)  # three values of 256 may stray
    assert grey_levels(np.full((1, 1, 1), 7, np.uint8)) == 1
    assert grey_levels(np.zeros((0, 0, 1), np.uint8)) == 0


def test_sixteen_levels_over_the_whole_range_are_not_few(tmp_path):
    values = np.tile(np.arange(16, dtype=np.uint8) * 17, (16, 1))
    Image.fromarray(values).save(tmp_path / "a.png")
    assert check_images(tmp_path).few_levels.empty
