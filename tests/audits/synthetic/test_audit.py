"""The audit of a synthetic set from folders to the verdict: copies are listed, nothing else passes for proof."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.sets import further_parts_note, select_rows
from memorisk.audits.comparison.terms import TrainingUnread
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic import run as audit_module
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.audits.synthetic.reasons import FramesLeft, NoHeldOut, TrainingTransparent
from memorisk.audits.synthetic.result import SyntheticNumbers, SyntheticSummary
from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
from memorisk.audits.synthetic.verdict import synthetic_verdict
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.copies.near_copies import ORIENTATIONS, orientations
from memorisk.models.encoders.feature_sources import DEFAULT_DETECTOR_FOLDER
from memorisk.models.settings import DEFAULT_COMPARISONS
from memorisk.report.first_screen import first_screen
from memorisk.report.numbers import from_json, to_json
from memorisk.report.result import Result
from memorisk.report.verdict_forms import FORMS
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_bytes
from memorisk.statistics.copies.planted_copies import fewest_plants
from memorisk.statistics.intervals.shares import clopper_pearson
from tests.audits.synthetic.making import N_HELD, N_SYNTHETIC, N_TRAIN, parts, store_of, write_sets
from tests.commands import answer, entries, refusal

COPIED = 16
SMALL = {"detector": "pixels", "plants": 2}
KEPT = ("exact", "flipped", "noised")
PASSES = {"detector": "pixels", "recall": 0.2, "plants": 12, "plant_kinds": KEPT}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a clean set and one with noised copies of 16 patients, and a cache of their own."""
    folder = tmp_path_factory.mktemp("synthetic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.chdir(folder)
        for name, copied in (("clean", 0), ("copies", COPIED)):
            (folder / name).mkdir()
            write_sets(folder / name, copied, noise=6)
        yield folder


def verdict_of(numbers: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return synthetic_verdict(from_json(SyntheticNumbers, numbers), synthetic_options(settings))


def run(name: str, out: str, held: bool = True, **settings) -> Result:
    given = {"held_out": f"{name}/held.npz"} if held else {}
    found = audit_synthetic(f"{name}/train.npz", f"{name}/set.npz", out=out, **given, **SMALL | settings)
    assert isinstance(found, Result)
    return found


@pytest.fixture(scope="module")
def copies(place: Path) -> Result:
    return run("copies", "runs/copies")


def test_copied_patients_are_listed_with_the_images_that_expose_them(copies: Result) -> None:
    listed = set(copies.per_group.loc[copies.per_group["listed"], "group"])
    planted = {f"patient-{row:04d}" for row in range(COPIED)}
    assert copies.status == "fail"
    assert planted <= listed
    assert len(listed - planted) <= 2
    v = copies.verdict
    assert (v["n_train_patients"], v["n_synthetic"], v["n_held_patients"]) == (N_TRAIN, N_SYNTHETIC, N_HELD)
    assert v["n_ahead"] >= COPIED
    assert v["p_ahead"] < 0.05
    assert v["n_certain_copies"] == 0
    exposed = copies.tables["exposures"]
    of_copies = exposed[exposed["group"].isin(planted)]
    assert len(of_copies) == COPIED
    assert set(of_copies["image"]) == set(copies.per_image["image"].tail(COPIED))
    assert copies.per_image.set_index("image")["exposes"][of_copies["image"]].all()
    assert "listed as nearer to the set" in v["why"][0]


def test_a_summary_is_read_back(copies: Result) -> None:
    assert to_json(from_json(SyntheticSummary, copies.summary)) == copies.summary


def test_the_detector_that_comes_with_memorisk_compares_where_none_is_named(place: Path) -> None:
    found = run("copies", "runs/default", detector=())
    summary = from_json(SyntheticSummary, found.summary)
    assert not summary.numbers.comparison.weak_features
    assert tuple(by.features.source for by in summary.detectors) == DEFAULT_COMPARISONS
    assert [by.measure.partition(" of ")[0] for by in summary.detectors[1:]] == ["distance"] * 3
    page = Path("runs/default/report.html").read_text()
    assert page.count("is the copy detector that comes with memorisk") == 1
    assert "no image of any person was in its training" in page
    assert page.count("0 of 120 training patients and 0 of 99 held-out ones") == 1
    for file in Path("runs/default").rglob("*"):
        assert not file.is_file() or str(DEFAULT_DETECTOR_FOLDER.parent).encode() not in file.read_bytes()


def test_images_of_another_kind_do_not_pass(place: Path) -> None:
    """Every image a copy, inverted: no planted copy is, so that nothing else tells."""
    train = np.load("clean/train.npz")["images"]
    np.savez("inverted.npz", images=255 - train[:40])
    found = audit_synthetic("clean/train.npz", "inverted.npz", held_out="clean/held.npz", out="runs/inverted", **PASSES)
    assert isinstance(found, Result)
    assert (found.status, found.verdict["n_synthetic_far"]) == ("undecided", 40)
    assert [why for why in found.verdict["why"] if "as no planted copy is" in why]


def test_descriptive_columns_single_out_the_copies(copies: Result) -> None:
    own, rest = copies.per_image.tail(COPIED), copies.per_image.head(N_SYNTHETIC - COPIED)
    assert own["second_ratio"].max() < 0.6 < rest["second_ratio"].median()
    assert own["nearer_than_new"].max() < 0.05
    assert (own["p_listed"] == 1 / (N_HELD + 1)).all()
    assert own["nearest_group"].tolist() == [f"patient-{row:04d}" for row in range(COPIED)]
    assert (own["distance"] < own["second_distance"]).all()
    train = copies.tables["real_images"].query("part == 'training'")
    assert len(train) == N_TRAIN
    by_group = train.groupby("group")["distance"].min()
    np.testing.assert_array_equal(by_group[copies.per_group["group"]], copies.per_group["distance"])


def test_a_clean_set_lists_nobody_and_is_not_passed_by_a_weak_detector(place: Path) -> None:
    found = run("clean", "runs/clean")
    v = found.verdict
    assert (found.status, v["n_listed"], v["n_certain_copies"]) == ("undecided", 0, 0)
    assert v["recall"]["trials"] == v["n_plants"] == 14
    assert set(v["recall_by_kind"]) == set(found.tables["kinds"].query("required")["kind"])
    assert any("too few planted copies were noticed of 7 of 7 planted kinds" in why for why in v["why"])
    assert any("trained to find copies" in way for way in v["what_would_decide"])
    assert found.tables["plants"].query("kind == 'exact'")["distance"].eq(0).all()


def test_a_pass_needs_power_and_says_what_it_covers(place: Path) -> None:
    found = run("clean", "runs/passed", **PASSES)
    v = found.verdict
    assert found.status == "pass", v["why"]
    assert (v["schema"], v["n_singled"], v["fewest_copied"]) == (FORMS["synthetic"], 0, 1)
    assert "about 3 kinds of copies, each by itself: exact, flipped, noised; tried, not required: " in v["why"][0]
    assert "rotated (0 of 3 noticed)" in v["why"][0]
    assert "if a random training patient had been copied in one of these ways, the copy would have been" in v["why"][3]
    assert f"with probability at least {v['recall_by_kind']['noised']['low']:.2f} (of the weakest kind" in v["why"][3]
    assert 0 < v["copies_bound"] < 1
    assert "tried, not required: rotated" in Path("runs/passed/report.html").read_text()
    numbers = found.summary["numbers"]
    earlier = {key: value for key, value in numbers.items() if key != "also_tried"}
    assert "not tried: rotated, jpeg, cropped, pasted" in verdict_of(earlier, {"recall": 0.2})["why"][0]

    def doubts(changed: dict, **settings) -> list[str]:
        verdict = verdict_of(numbers | changed, {"recall": 0.2} | settings)
        assert verdict["status"] == "undecided"
        assert len(verdict["why"]) == len(verdict["what_would_decide"]) == 1
        return [*verdict["why"], *verdict["what_would_decide"]]

    assert "must reach 60 %" in doubts({}, recall=0.6)[0]
    singled = doubts({"n_singled": 2, "n_singled_patients": 1})
    assert "2 synthetic images are singled out: nearer to 1 training patient than chance" in singled[0]
    assert "a judgement of these pairs (memorisk view RUN" in singled[1]
    many = {"jpeg": asdict(clopper_pearson(0, 60))}
    gone = doubts({"recall_by_kind": {}, "plant_kinds": ["jpeg"]})
    assert "could be copied in this way: jpeg" in gone[0]
    blind = doubts({"recall_by_kind": numbers["recall_by_kind"] | many, "plant_kinds": [*KEPT, "jpeg"]})
    assert "too few planted copies were noticed of 1 of 4 planted kinds: jpeg (0 of 60)" in blind[0]
    assert blind[1].startswith("--detector default, which is trained to find copies")
    assert "not with more --plants" in blind[1]
    assert "a pass about no other kinds than exact, flipped, noised (--plant-kinds exact flipped noised)" in blind[1]
    assert blind[1].endswith("copies that are jpeg may then be in the set, and memorisk gate asks for them")
    more = {"recall_by_kind": numbers["recall_by_kind"] | many, "plant_kinds": ["jpeg"], "held_out_for_kinds": 198}
    said = doubts(more)[1]
    assert "--held-out with about 198 patients that the generator never saw; 99 more than the 99 there are" in said
    assert "no copies were planted (the settings request none)" in doubts({"recall": None}, plants=0)[0]
    assert "no training image could be copied" in doubts({"recall": None})[0]
    near = {"near_p": 0.02, "n_near_train": 9, "n_near_held": 0}
    assert "nearly identical synthetic image, as it is or mirrored (p 0.02)" in doubts(near)[0]
    assert (
        "5 training patients and 0 held-out" in doubts(near | {"near_p": 0.077, "n_near_train": 5, "n_near_held": 0})[0]
    )
    for alike in ({"near_p": 0.6, "n_near_train": 9, "n_near_held": 5}, {"near_p": None, "n_near_held": 5}):
        said = doubts(alike)  # nobody's image is so near by chance: the parts are not what they are said to be
        assert "5 held-out patients have a nearly identical synthetic image" in said[0]
        assert "TRAIN and the held-out images be exchanged" in said[0]
    dark = doubts({"n_synthetic_blank": 2})
    assert "2 synthetic images show next to nothing (fewer than 3 grey levels of 256)" in dark[0]
    assert "images check" in dark[1]
    assert "1 training image shows next to nothing" in doubts({"n_train_blank": 1})[0]
    assert "1 training image holds a picture under or in transparent pixels" in doubts({"n_train_hiding": 1})[0]
    form = doubts({"n_other_forms": {"crop": 2}})
    assert "2 synthetic images are nearly identical to training images which --resize crop brings to size" in form[0]
    assert form[1].startswith("--resize crop")
    assert "training images with inverted greys" in doubts({"n_other_forms": {"inverted": 2}})[0]
    cropped = verdict_of(numbers | {"train_cropped": True}, {"recall": 0.2})
    assert cropped["status"] == "pass"
    assert any("only the centre was compared (--resize crop)" in said for said in cropped["why"])
    colour = doubts({"n_synthetic_coloured": 2})
    assert "2 synthetic images have colour, and all real images are grey" in colour[0]
    assert colour[1].startswith("--channels 1")
    assert "2 synthetic images show a training image in a single channel" in doubts({"n_synthetic_hiding": 2})[0]
    half = numbers["n_synthetic"] // 2
    assert verdict_of(numbers | {"n_synthetic_far": half}, {"recall": 0.2})["status"] == "pass"
    assert "lie farther from the training images than 90 % of held-out" in doubts({"n_synthetic_far": half + 1})[0]
    of_parts = {"p_value": 0.001, "share": 0.98, "expected": 0.52, "across": 0.6, "across_expected": 0.4}
    of_parts |= {"n_groups": 219, "draws": 999}
    apart, close = ({"unlike": of_parts | {"together": together}} for together in (False, True))
    assert "98 % of nearest neighbours lie in the same part" in doubts(apart)[0]
    assert "60 % of these leads where a random split has 40 %" in doubts(close)[0]
    assert verdict_of(numbers | close | {"p_ahead": 0.01}, {})["status"] == "fail"
    copied = {"n_certain_copies": 1, "p_ahead": 0.01}
    assert any("nearer to the set than every held-out one" in said for said in verdict_of(numbers | copied, {})["why"])
    beside_others = verdict_of(numbers | apart | copied, {})
    assert beside_others["status"] == "fail"
    assert "the very pixels of a training image" in beside_others["why"][0]
    assert "98 % of nearest neighbours lie in the same part" in beside_others["why"][1]
    assert len(beside_others["why"]) == 2
    assert "--one-image-per-patient" in doubts({"patients_known": False})[1]
    assert doubts({"patients_known": False, "n_without_patient": 1})[0].startswith("1 image has no patient id: ")
    ids = {"id_doubt": "ids look alike", "id_doubt_way": "one id"}
    assert doubts(ids) == ["ids look alike", "one id"]
    assert "whom the detector was trained on cannot be seen" in doubts({"detector_unseen": True})[0]
    assert "2 files or images of the synthetic set were not read" in doubts({"n_synthetic_unread": 2})[0]
    assert "1 file or image of the training set was not read: copies" in doubts({"n_train_unread": 1})[0]
    assert "1 are different: an export that went wrong?" in doubts({"n_synthetic_distinct": 1})[0]
    assert "2 synthetic images have the very pixels of a held-out image" in doubts({"n_held_copies": 2})[0]
    for reason in (
        {"n_listed_at_verdict": 1},
        {"n_certain_copies": 1},
        {"p_ahead": 0.05, "n_ahead": 5},
        near | {"near_p": 0.01},
    ):
        assert verdict_of(numbers | reason, {})["status"] == "fail"
    assert numbers["one_image_each"] == ""
    one_each = verdict_of(numbers | {"one_image_each": "By one image each."}, {"recall": 0.2})
    assert one_each["status"] == "pass"
    assert one_each["why"][-1].startswith("By one image each. The list of patients compares each")
    void = verdict_of(numbers | apart | {"n_listed_at_verdict": 90}, {})
    assert void["status"] == "undecided"
    assert "not alike" in void["why"][0]
    assert "90 training patients are listed" in void["why"][1]
    assert "ids look alike" in verdict_of(numbers | apart | {"n_listed_at_verdict": 90} | ids, {})["why"]
    certain = verdict_of(numbers | apart | {"n_certain_copies": 1}, {})
    assert certain["status"] == "fail"
    assert verdict_of(numbers, {"recall": 0.2, "fail_on": "never"})["gate"] == "never"
    exact = numbers | {"n_certain_copies": 1}
    assert len(verdict_of(exact, {"recall": 0.2})["what_would_decide"]) == 1  # the mended set may pass
    left = verdict_of(exact | {"patients_known": False, "n_train_unread": 1}, {"recall": 0.9999})["what_would_decide"]
    assert "memorisk release SET CLEAN --without RUN" in left[0]
    assert "also a set without copies could not be decided, because too few of the copies that were hidden" in left[1]
    assert "--one-image-per-patient" in left[2]
    assert "because 1 training file was not read" in left[3]
    assert len(left) == 4
    assert sum("not alike" in way for way in certain["what_would_decide"]) == 0
    assert len(set(certain["what_would_decide"])) == len(certain["what_would_decide"])


def test_a_detector_that_is_blind_to_one_planted_kind_cannot_pass(place: Path) -> None:
    """However many plants there are: most are found, and none of the kind that the set may hold."""
    many = {"plants": 60, "recall": 0.5}
    found = run("clean", "runs/blind", plant_kinds=("rotated", "noised", "exact"), **many)
    v = found.verdict
    assert (v["n_plants"], v["plant_kinds"]) == (180, ["exact", "rotated", "noised"])
    assert v["recall"]["low"] > 0.5 > v["recall_by_kind"]["rotated"]["high"]
    assert found.status == "undecided"
    assert "noticed of 1 of 3 planted kinds: rotated" in v["why"][0]
    way = v["what_would_decide"][0]
    assert way.startswith("--detector default")
    assert way.index("not with more --plants") < way.index("--plant-kinds exact noised")
    assert v["copies_bound"] == 1
    seen = run("clean", "runs/seen", plant_kinds=("noised", "exact"), **many)
    assert seen.status == "pass", seen.verdict["why"]
    least = seen.verdict["recall_by_kind"]["noised"]["low"]
    assert seen.verdict["copies_bound"] == clopper_pearson(0, N_SYNTHETIC, 0.95).high / least
    assert "tried, not required: flipped (" in seen.verdict["why"][0]
    with pytest.raises(InputError, match=r"with plants = 120, now asked: 60 \(plant_kinds was \['n"):
        run("clean", "runs/seen", plant_kinds=("exact",), **many)
    with pytest.raises(InputError, match="unknown kind of copy 'flip'\\. Did you mean 'flipped'"):
        run("clean", "runs/unknown", plant_kinds=("flip",))


def test_a_run_folder_among_the_images_is_refused(place: Path) -> None:
    images = place / "folder"
    images.mkdir()
    with pytest.raises(InputError, match="lies inside SYNTHETIC"):
        audit_synthetic("train.npz", images, out=images / "run")


def test_without_held_out_images_there_are_distances_only(place: Path) -> None:
    found = run("copies", "runs/alone", held=False)
    v = found.verdict
    assert found.status == "undecided"
    assert v["n_listed"] is v["p_ahead"] is v["shortest_list"] is v["recall"] is None
    in_doubt = verdict_of(found.summary["numbers"] | {"id_doubt": "ids look alike", "id_doubt_way": "one id"}, {})
    assert (in_doubt["why"][-1], in_doubt["what_would_decide"][-1]) == ("ids look alike", "one id")
    assert found.per_group["p_value"].isna().all()
    assert found.per_image["p_listed"].isna().all()
    assert not found.per_group["listed"].any()
    assert "held_out" not in found.tables
    assert "--held-out with 100 patients or more" in v["what_would_decide"][0]
    page = Path("runs/alone/report.html").read_text()
    assert "No list is possible" in page
    assert "can be listed or cleared" in page


def test_pixel_identical_copies_fail_whatever_the_statistics_say(place: Path) -> None:
    train, held, synthetic = parts()
    synthetic[4], synthetic[5], train[9], synthetic[6] = train[3], held[2], 0, 0  # the last is blank, and no copy
    for name, given in (("with", store_of(held, place, "held")), ("without", None)):
        found = audit_synthetic(
            store_of(train, place, "train"), store_of(synthetic, place, "set"), held_out=given,
            out=f"runs/certain-{name}", **SMALL,
        )  # fmt: skip
        assert found.verdict["status"] == "fail"
        assert found.verdict["n_certain_copies"] == 1
        assert "1 synthetic image has the very pixels of a training image" in found.verdict["why"][0]
        assert found.per_image.loc[found.per_image["identical"], "image"].tolist() == ["set-0004"]
        assert found.per_group.loc[found.per_group["identical"], "group"].tolist() == ["train-0003"]
        assert found.verdict["n_held_copies"] == (1 if given else 0)
        pairs = found.tables["pairs"].query("identical")
        assert pairs["real_image"].tolist() == ["train-0003", *(["held-0002"] if given else [])]
    page = Path("runs/certain-with/report.html").read_text()
    assert page.count("Copies for certain") == 1
    assert "Apart from the copies above, which need no statistics, no training image is listed" in page


def test_pixels_of_a_further_part_fail_and_its_images_take_no_other_part(place: Path) -> None:
    train, both, synthetic = parts(n_held=N_HELD + 10)
    held, further = both[:N_HELD], both[N_HELD:]
    further[9] = synthetic[6] = 0  # blank, and no copy
    whole = store_of(np.concatenate([train, held, further]), place, "all")
    split = ["train"] * N_TRAIN + ["test"] * N_HELD + ["val"] * 7 + ["extra"] * 2 + [""]
    whole = replace(whole, manifest=replace(whole.manifest, table=whole.manifest.table.assign(split=split)))

    def audit(made: np.ndarray, out: str) -> Result:
        found = audit_synthetic(whole, store_of(made, place, "set"), held_out_split="test", out=out, **PASSES)
        assert isinstance(found, Result)
        return found

    none = audit(synthetic, "runs/further-none")
    apart = audit_synthetic(
        select_rows(whole, np.arange(N_TRAIN)), store_of(synthetic, place, "set"), out="runs/further-apart",
        held_out=select_rows(whole, np.arange(N_TRAIN, N_TRAIN + N_HELD)), **PASSES,
    )  # fmt: skip
    assert none.verdict.pop("n_other_parts", None) is None
    parts_read = none.verdict.pop("other_parts")
    assert parts_read == {"extra": 2, "val": 7, "without a split": 1}
    assert none.verdict == apart.verdict  # the same numbers and reasons, but for the parts that were looked at
    note = further_parts_note(parts_read, pixels_compared=True)
    assert [str(one) for one in first_screen(none).notes].count(note) == 1
    assert Path("runs/further-none/report.html").read_text().count("TRAIN holds 10 images in further parts") == 1
    synthetic[1], synthetic[2], synthetic[3] = further[0], np.rot90(further[5]), further[8][:, ::-1]
    found = audit(synthetic, "runs/further")
    assert found.status == "fail"
    assert "it holds an image of a person in the data" in Path("runs/further/report.html").read_text()
    (reason,) = [one for one in found.reasons if one["code"] == "other-part-pixels"]
    assert reason["bears_on"] == "fail"
    assert "3 synthetic images have the very pixels of an image in a further part of TRAIN" in reason["text"]
    assert "(extra: 1, val: 2)" in reason["text"]
    assert found.verdict["other_copies"] == {"extra": 1, "val": 2}
    assert (found.verdict["n_certain_copies"], found.verdict["n_held_copies"]) == (0, 0)
    assert any("further part of TRAIN" in way for way in found.what_would_decide)
    pairs = found.tables["pairs"].query("identical").sort_values("image")
    assert pairs["part"].tolist() == ["further part val", "further part val", "further part extra"]
    assert pairs["real_image"].tolist() == [f"all-{N_TRAIN + N_HELD + row:04d}" for row in (0, 5, 8)]
    for image, row, how in zip(pairs["image"], (0, 5, 8), pairs["orientation"], strict=True):
        turned = list(orientations(synthetic[int(image[-4:])]))[ORIENTATIONS.index(how)]
        assert np.array_equal(turned, further[row])


def test_turned_and_mirrored_copies_are_certain_and_nobodys_where_a_held_out_image_gives_them(place: Path) -> None:
    train, held, synthetic = parts()
    for row, image in enumerate(orientations(train[3])):
        synthetic[row] = image
    held[7] = train[5][:, ::-1]
    synthetic[10], synthetic[11] = train[5], np.rot90(train[5])
    found = audit_synthetic(
        store_of(train, place, "train"), store_of(synthetic, place, "set"), held_out=store_of(held, place, "held"),
        out="runs/turned", **SMALL,
    )  # fmt: skip
    v = found.verdict
    assert (v["status"], v["n_certain_copies"], v["n_shared_pixels"], v["n_held_copies"]) == ("fail", 8, 2, 0)
    assert "8 synthetic images have the very pixels of a training image, as it is, mirrored or turned" in v["why"][0]
    pairs = found.tables["pairs"].query("identical and not in_both").sort_values("image")
    assert set(pairs["real_image"]) == {"train-0003"}
    for image, how in zip(pairs["image"], pairs["orientation"], strict=True):
        made = synthetic[int(image[-4:])]
        assert np.array_equal(list(orientations(made))[ORIENTATIONS.index(how)], train[3])


def test_pages_that_were_not_read_are_not_passed(place: Path) -> None:
    train, held, synthetic = parts()
    made = place / "pages"
    made.mkdir()
    for row, image in enumerate(synthetic):
        Image.fromarray(image.squeeze()).save(made / f"s{row:04d}.png")
    hidden = [Image.fromarray(image.squeeze()) for image in (synthetic[0], *train[:3])]
    hidden[0].save(made / "s0000.tif", save_all=True, append_images=hidden[1:])
    real = {"held_out": store_of(held, place, "held"), **PASSES}
    found = audit_synthetic(store_of(train, place, "train"), made, out="runs/pages", **real)
    assert (found.status, found.verdict["n_synthetic_frames_left"]) == ("undecided", 3)
    assert any("3 of synthetic files" in why for why in found.verdict["why"])
    assert any("--frames all" in way for way in found.verdict["what_would_decide"])
    every = audit_synthetic(store_of(train, place, "train"), made, out="runs/every", frames="all", **real)
    assert (every.status, every.verdict["n_certain_copies"], every.verdict["n_synthetic_frames_left"]) == ("fail", 3, 0)


def test_an_image_of_both_parts_is_nobodys_copy_and_held_out_copies_are_a_doubt(place: Path) -> None:
    train, held, synthetic = parts()
    held[7], synthetic[1] = train[5], train[5]
    synthetic[2] = held[11]
    found = audit_synthetic(
        store_of(train, place, "train"), store_of(synthetic, place, "set"), held_out=store_of(held, place, "held"),
        out="runs/both", **PASSES,
    )  # fmt: skip
    v = found.verdict
    assert (v["n_held_shared_images"], v["n_held_shared_patients"], v["n_held_patients"]) == (1, 1, N_HELD - 1)
    assert (v["n_certain_copies"], v["n_shared_pixels"], v["n_held_copies"]) == (0, 1, 1)
    assert v["status"] == "undecided"
    assert any("very pixels of a held-out image" in why for why in v["why"])


def test_saved_features_have_no_power_and_cannot_pass(place: Path) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("train", N_TRAIN), ("set", N_SYNTHETIC), ("held", N_HELD)):
        np.savez(place / f"f-{name}.npz", features=rng.normal(size=(n, 3)))
    found = run("clean", "runs/saved", features="f-train.npz", synthetic_features=Path("f-set.npz"),
                held_out_features=Path("f-held.npz"), detector=())  # fmt: skip
    v = found.verdict
    assert (found.status, v["recall"], v["n_plants"]) == ("undecided", None, 0)
    assert any("features were computed elsewhere" in why for why in v["why"])
    assert "no known copies could be added" in Path("runs/saved/report.html").read_text()


def test_a_run_folder_holds_everything_and_is_private(place: Path, copies: Result) -> None:
    held = entries(place / "runs" / "copies")
    for name in ("config.yaml", "log.jsonl", "per_image.parquet", "per_group.parquet", "verdict.json", "report.html"):
        assert name in held
    assert {f"manifests/{n}.parquet" for n in ("training", "synthetic", "held_out")} <= set(held)
    tables = ("alignments", "clusters", "detectors", "exposures", "held_out", "kinds", "pairs", "plants",
              "real_images", "review", "singled_out")  # fmt: skip
    assert [name for name in held if name.startswith("tables/")] == [f"tables/{t}.parquet" for t in tables]
    assert (place / "runs" / "copies").stat().st_mode & 0o777 == 0o700
    again = Result.load(place / "runs" / "copies")
    assert again.verdict == copies.verdict
    pd.testing.assert_frame_equal(again.per_image, copies.per_image)


def test_the_same_command_writes_the_same_bytes_and_goes_on_after_a_kill(
    place: Path, copies: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place / "runs" / "copies"
    kept = place / "runs" / "kept"
    shutil.copytree(first, kept)
    shutil.rmtree(first)
    shutil.rmtree(place / "cache" / "features")

    def killed(*arguments, **settings):
        raise KeyboardInterrupt

    for what in ("measure_distances", "analyse_synthetic", "write_report"):
        with monkeypatch.context() as patch:
            patch.setattr(audit_module, what, killed)
            with pytest.raises(KeyboardInterrupt):
                run("copies", "runs/copies")
        assert not (first / "report.html").exists()
    run("copies", "runs/copies")
    last = [json.loads(line) for line in (first / "log.jsonl").read_text().splitlines()]
    assert [line["features_computed"] for line in last if line["event"] == "started"] == [0, 0, 0]
    names = [n for n in entries(kept) if (kept / n).is_file() and n not in ("log.jsonl", ".lock")]
    assert names == [n for n in entries(first) if (first / n).is_file() and n not in ("log.jsonl", ".lock")]
    for name in names:
        assert (kept / name).read_bytes() == (first / name).read_bytes(), name
    with pytest.raises(InputError, match="holds a run with seed = 0, now asked: 1"):
        run("copies", "runs/copies", seed=1)


def test_redacted_and_pseudonymised_runs_name_nobody(place: Path, copies: Result) -> None:
    def ids(result: Result) -> set[str]:
        found = set(result.per_image["image"]) | set(result.per_group["group"])
        return found | set(result.tables["real_images"]["image"]) | set(result.tables["real_images"]["group"])

    known = {name for name in ids(copies) if "patient" in name}
    assert len(known) == N_TRAIN + N_HELD
    page = Path("runs/copies/report.html").read_text()
    assert sum(name in page for name in known) >= COPIED
    run("copies", "runs/redacted", redact=True, gallery=True)
    redacted = Path("runs/redacted/report.html").read_text()
    assert not any(name in redacted for name in known)
    assert "data:image/png" not in redacted
    write_bytes(key := Path("key"), b"a secret of sixteen bytes")
    hidden = run("copies", "runs/hidden", pseudonymise=True, pseudonym_key=key, gallery=True)
    assert hidden.verdict["n_listed"] == copies.verdict["n_listed"]
    assert "data:image/png" in Path("runs/hidden/report.html").read_text()
    for file in Path("runs/hidden").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            tables = pd.read_parquet(file).to_csv().encode() if file.suffix == ".parquet" else b""
            assert not any(name.encode() in content + tables for name in known), file
    assert not ids(copies) & ids(hidden)
    both = [r.per_group.sort_values("distance")["distance"].to_numpy() for r in (copies, hidden)]
    np.testing.assert_array_equal(*both)
    assert hidden.per_group["group"].is_monotonic_increasing
    # the plants of `copies` are what anybody draws from seed and names: they guess as many patients as chance
    guessed, drawn = (
        result.tables["plants"].query("required")[["kind", "group"]].drop_duplicates() for result in (copies, hidden)
    )
    guesses = guessed.assign(group=Pseudonyms(key.read_bytes()).names(guessed["group"]))
    assert len(guesses) == len(drawn) == 2 * len(PLANT_KINDS)
    assert len(guesses.merge(drawn)) <= 2


def test_the_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("audit", "synthetic", "copies/train.npz", "copies/set.npz", "--held-out", "copies/held.npz", "--plants", 2,
             "--features", "pixels")  # fmt: skip
    kinds = ("--plant-kinds", "jpeg", "exact", "--dry-run", "--json", "--out", "runs/kinds")
    assert json.loads(answer(capsys, *given, *kinds)[1])["plants"] == 4
    assert "Did you mean 'jpeg'" in refusal(capsys, *given, "--out", "runs/kinds", "--plant-kinds", "jpg")
    code, out, _ = answer(capsys, *given, "--out", "runs/copies")
    assert code == 1
    assert "NOT READY FOR RELEASE" in out
    assert "Patients listed: " in out
    code, out, _ = answer(capsys, *given, "--out", "runs/copies", "--json", "--fail-on", "never")
    assert (code, json.loads(out)["status"], json.loads(out)["gate"]) == (0, "fail", "never")
    code, out, _ = answer(capsys, *given, "--out", "runs/dry", "--dry-run", "--json")
    plan = json.loads(out)
    assert (code, plan["plants"], plan["plant_patients"], plan["shortest_list"]) == (0, 14, 14, 12)
    assert plan["images"] == {"training": N_TRAIN, "synthetic": N_SYNTHETIC, "held out": N_HELD}
    assert plan["cost"]["bytes_images"] == 64 * (N_TRAIN + N_SYNTHETIC + N_HELD)
    assert plan["further_plants"] == 8  # digits have no colours
    assert plan["cost"]["bytes_features"] == 4 * 64 * (N_TRAIN + N_SYNTHETIC + N_HELD + 14 + 8)
    assert not (place / "runs" / "dry").exists()
    code, out, _ = answer(capsys, *given, "--out", "runs/dry", "--dry-run")
    assert "shortest list of patients: 12" in out
    assert "compared: 8 x 8 grey pixels of 8 bits; a pass is about these, and memorisk release writes no others" in out
    assert "The first generated file holds" not in out
    smaller = answer(capsys, *given, "--out", "runs/dry", "--dry-run", "--size", "4")[1]
    assert "compared: 4 x 4 grey pixels of 8 bits; a pass is about these" in smaller
    assert "The first generated file holds 8 x 8 grey pixels of 8 bits: give settings that keep what" in smaller
    assert "could pass: no" in out
    assert "too few copies are planted of" in out
    assert f"--plants {fewest_plants(0.8)} can reach it" in out.replace("\n", " ")
    code, out, _ = answer(capsys, *given[:4], "--dry-run", "--json", "--out", "runs/dry")
    assert json.loads(out)["lacking"][0] == NoHeldOut().text
    enough = (*given[:-4], "--plants", 40, "--features", "pixels", "--out", "runs/dry", "--dry-run", "--json")
    assert json.loads(answer(capsys, *enough)[1])["lacking"] == []
    code, out, _ = answer(capsys, *given, "--out", "runs/config", "--print-config")
    (place / "settings.yaml").write_text(out)
    assert answer(capsys, "audit", "synthetic", "--config", "settings.yaml", "--dry-run")[0] == 0


def test_a_dry_run_names_files_that_the_audit_will_not_have_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for part, n in (("train", 12), ("made", 12), ("held", 12)):
        (tmp_path / part).mkdir()
        for number in range(n):
            pages = [Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)) for _ in range(2)]
            pages[0].save(tmp_path / part / f"{number}.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "train" / "broken.png").write_bytes(b"no image")
    folders = (tmp_path / "train", tmp_path / "made", "--held-out", tmp_path / "held", "--out", tmp_path / "run")
    _, out, _ = answer(capsys, "audit", "synthetic", *folders, "--skip-unreadable", "--dry-run", "--json")
    lacking = json.loads(out)["lacking"]
    assert TrainingUnread(n_files=1).text in lacking
    assert FramesLeft(n_synthetic=12, n_training=12).text in lacking


def test_the_command_with_several_detectors_pairs_and_a_review(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("audit", "synthetic", "copies/train.npz", "copies/set.npz", "--held-out", "copies/held.npz", "--plants", 2,
             "--detector", "pixels", "--detector", "pixels:4")  # fmt: skip
    code, out, _ = answer(capsys, *given, "--out", "runs/several")
    assert code == 1
    assert "pairs to look at: memorisk view runs/several, or fill runs/several/review.csv" in out
    code, out, _ = answer(capsys, *given, "--out", "runs/dry", "--dry-run", "--json")
    assert (json.loads(out)["features"], json.loads(out)["shortest_list"]) == (
        "pixels, euclidean; pixels:4, euclidean", 24,
    )  # fmt: skip
    table = pd.read_csv("runs/several/review.csv", dtype=str, keep_default_na=False)
    images = pd.read_parquet("runs/several/manifests/training.parquet")["image"]
    pd.DataFrame({"synthetic_image": table["synthetic_image"], "training_image": images[: len(table)]}).to_csv(
        "pairs.csv", index=False
    )
    table.loc[0, ["verdict", "by", "reason"]] = ("dismiss", "A", "no")
    table.to_csv("judged.csv", index=False)
    more = ("--paired", "pairs.csv", "--review", "judged.csv")
    code, out, _ = answer(capsys, *given, *more, "--out", "runs/paired")
    assert "MemRate: not known (" in out
    assert "1 pair was dismissed by a person" in out
    code, out, _ = answer(capsys, *given, *more, "--out", "runs/config", "--print-config")
    (place / "several.yaml").write_text(out)
    code, out, _ = answer(capsys, "audit", "synthetic", "--config", "several.yaml", "--dry-run", "--json")
    assert (code, json.loads(out)["features"]) == (0, "pixels, euclidean; pixels:4, euclidean")
    both = refusal(capsys, *given, "--out", "runs/both", "--features", "pixels")
    assert "--features and --measure" in both or "leave features and measure out" in both


def test_images_that_could_not_be_read_are_listed_and_keep_a_pass_away(place: Path) -> None:
    from PIL import Image

    train, held, synthetic = parts()
    (place / "pictures").mkdir()
    for row, image in enumerate(synthetic):
        Image.fromarray(image[..., 0]).save(place / "pictures" / f"{row:03d}.png")
    (place / "pictures" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    given = {"held_out": store_of(held, place, "held"), **PASSES}
    ours = store_of(train, place, "train")
    with pytest.raises(InputError, match=r"broken\.png"):
        audit_synthetic(ours, place / "pictures", out="runs/unread", one_image_per_patient=True, **given)
    found = audit_synthetic(
        ours, place / "pictures", out="runs/unread", one_image_per_patient=True, skip_unreadable=True, **given
    )
    assert isinstance(found, Result)
    assert found.verdict["n_synthetic_unread"] == 1
    assert found.status == "undecided"
    assert "1 file or image of the synthetic set was not read" in found.verdict["why"][0]
    unread = found.tables["unread"]
    assert unread["part"].tolist() == ["synthetic"]
    assert "broken" in unread["image"][0]
    assert unread["image"][0] in Path("runs/unread/report.html").read_text()


def test_training_images_that_were_not_read_keep_a_pass_away_and_texts_beside_them_do_not(place: Path) -> None:
    from PIL import Image

    train, held, synthetic = parts()
    (place / "trained").mkdir()
    for row, image in enumerate(train):
        Image.fromarray(image[..., 0]).save(place / "trained" / f"{row:03d}.png")
    (place / "trained" / "SOURCE.txt").write_text("where these come from")
    given = {"held_out": store_of(held, place, "held"), "one_image_per_patient": True, **PASSES}
    ours = store_of(synthetic, place, "set")
    assert audit_synthetic(place / "trained", ours, out="runs/whole", **given).status == "pass"
    (place / "trained" / "more.heic").write_bytes(b"\0\0\0\x18ftypheic")
    found = audit_synthetic(place / "trained", ours, out="runs/without", **given)
    assert isinstance(found, Result)
    assert (found.status, found.verdict["n_train_unread"]) == ("undecided", 1)
    assert "1 file or image of the training set was not read: copies of these are not found" in found.verdict["why"][0]
    assert found.tables["unread"][["part", "image"]].to_numpy().tolist() == [["training", "more.heic"]]
    (place / "trained" / "more.heic").unlink()
    masked = np.zeros((*train[0].shape[:2], 2), np.uint8)
    masked[..., 0], masked[2:6, 2:6, 1] = train[0][..., 0], 255
    Image.fromarray(masked).save(place / "trained" / "000.png")
    plan = audit_synthetic(place / "trained", ours, out="runs/masked", dry_run=True, **given)
    assert isinstance(plan, SyntheticPlan)
    assert plan.lacking == (TrainingTransparent(n_images=1).text,)
    dropped = audit_synthetic(
        place / "trained", ours, out="runs/dropped", label_from=r"(\d+)", drop_label=("000",), **given
    )
    assert isinstance(dropped, Result)
    assert (dropped.status, dropped.verdict["n_train_unread"]) == ("undecided", 1)
    assert dropped.tables["unread"][["part", "image"]].to_numpy().tolist() == [["training", "000.png"]]


def test_the_command_refuses_in_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("audit", "synthetic", "copies/train.npz", "copies/set.npz", "--out", "runs/refused")
    assert "has no given split" in refusal(capsys, *given, "--held-out-split", "test")
    both = refusal(capsys, *given, "--held-out", "copies/held.npz", "--held-out-split", "test")
    assert "--held-out-split" in both
    assert "120 patients are in training and held out" in refusal(capsys, *given, "--held-out", "copies/train.npz")
    assert "does not exist" in refusal(capsys, *given, "--held-out", "nowhere.npz")
    assert "Did you mean" in refusal(capsys, *given, "--measure", "euclidian")
    assert not (place / "runs" / "refused").exists()


def test_reports_are_rendered_again(place: Path, copies: Result, capsys: pytest.CaptureFixture[str]) -> None:
    report, plain = (place / "runs" / "copies" / name for name in ("report.html", "report-without-images.html"))
    before = report.read_text()
    assert answer(capsys, "report", "runs/copies", "--out", "again.html")[0] == 0
    assert answer(capsys, "report", "runs/copies")[1] == f"{plain.relative_to(place)}\n"
    assert plain.read_bytes() == (place / "again.html").read_bytes()
    assert report.read_text() == before
    assert ("data:image/png" in before, "data:image/png" in plain.read_text()) == (True, False)
    report.write_bytes(plain.read_bytes())
    assert answer(capsys, "report", "runs/copies")[1] == f"{report.relative_to(place)}\n"
    assert report.read_bytes() == plain.read_bytes()
    report.write_text(before)
    plain.unlink()
    code, written, told = answer(capsys, "report", "runs/copies", "--redact", "--out", "redacted.html")
    assert (code, written) == (0, "redacted.html\n")
    assert "Only redacted.html leaves out ids and images: pass on that file alone" in told
    assert "patient-0003" not in (place / "redacted.html").read_text()


def test_classes_are_counted_where_both_sides_have_them(place: Path) -> None:
    train, held, synthetic = parts()
    synthetic[:COPIED] = train[:COPIED]
    stores = [
        store_of(images, place, name, labels=np.arange(len(images)) % 3)
        for name, images in (("train", train), ("set", synthetic), ("held", held))
    ]
    found = audit_synthetic(stores[0], stores[1], held_out=stores[2], out="runs/classes", plants=0, detector="pixels")
    assert found.per_class["label"].tolist() == ["0", "1", "2"]
    assert found.per_class["n_training"].sum() == N_TRAIN
    assert found.per_class["n_synthetic"].sum() == N_SYNTHETIC
    assert found.per_class["n_exposing"].sum() == found.verdict["n_exposing"]
    assert not len(run("copies", "runs/copies").per_class)


@pytest.mark.thorough
def test_chest_x_rays_by_patient(place: Path, shared_data: Path) -> None:
    """Real patients with many images, split at random by patient; one compressed copy of each of thirty."""
    from PIL import Image

    files = sorted((shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"))
    pixels = np.stack([np.asarray(Image.open(f).convert("L").resize((64, 64))) for f in files])[..., None]
    patients = np.array([f.name.split("_")[0] for f in files])
    order = np.random.default_rng(0).permutation(np.unique(patients))
    trained = np.isin(patients, order[:132])
    rng = np.random.default_rng(1)
    ours = np.flatnonzero(trained)
    one, other = rng.choice(ours, (2, 300))
    synthetic = np.rint(0.5 * pixels[one] + 0.5 * pixels[other]).astype(np.uint8)
    copied = [rng.choice(np.flatnonzero(patients == p)) for p in order[:30]]
    for row, source in enumerate(copied):
        synthetic[row] = np.clip(pixels[source].astype(int) + rng.integers(-8, 9, (64, 64, 1)), 0, 255)
    found = audit_synthetic(
        store_of(pixels[trained], place, "nih", groups=patients[trained]), store_of(synthetic, place, "made"),
        held_out=store_of(pixels[~trained], place, "new", groups=patients[~trained]), out="runs/nih", plants=4,
        detector="pixels:32",
    )  # fmt: skip
    assert found.verdict["status"] == "fail"
    ahead = set(found.per_group.loc[found.per_group["ahead"], "group"])
    assert len(set(order[:30]) & ahead) >= 27
    assert found.verdict["n_near_train"] >= 25
    assert found.verdict["n_near_held"] <= 3
