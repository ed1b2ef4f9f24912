"""Who is asked about whom: known patients are no test patients, given splits are kept, data sets stay apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.runs.errors import InputError
from memorisk.studies.pairs.detectors import read_detector
from memorisk.studies.pairs.division import TEST, TRAINING, VALIDATION, Division, divide, part_pairs
from memorisk.studies.pairs.options import BenchReidOptions
from tests.studies.pairs.conftest import GROUPS, patients, small_detector, stored, two_sets


def division(source: Path, *contenders: str, **options: Any) -> Division:
    told = BenchReidOptions(detectors=("mse",), **options)
    images = {k: v for k, v in options.items() if k in ("group_from", "split_column", "group_column", "dataset_column")}
    return divide(stored(source, **images), [read_detector(text) for text in ("mse", *contenders)], told)


def test_each_patient_is_in_one_part(people: Path) -> None:
    found = division(people, **GROUPS)
    for patient in np.unique(found.groups.astype(str)):
        assert len(set(found.part[found.groups == patient])) == 1
    assert (found.patients(VALIDATION), found.patients(TEST)) == (7, 17)  # 30 % of 24 and the others
    assert division(people, **GROUPS, split_seed=1).part.tolist() != found.part.tolist()


def test_patients_whom_a_detector_knows_are_placed_by_what_it_knows(people: Path, tmp_path: Path) -> None:
    store = stored(people, **GROUPS)
    rows = {g: np.flatnonzero(store.manifest.groups == g) for g in ("p000", "p001", "p002", "p006")}
    first = small_detector(tmp_path / "a", store, {"training": rows["p000"][:1], "validation": rows["p001"]})
    second = small_detector(tmp_path / "b", store, {"validation": np.r_[rows["p000"], rows["p002"]]})
    found = division(people, str(first), f"{second}=second", **GROUPS)
    placed = {g: set(found.part[found.groups == g]) for g in rows}
    assert placed == {"p000": {TRAINING}, "p001": {VALIDATION}, "p002": {VALIDATION}, "p006": {TEST}}
    assert found.patients(VALIDATION) == 2  # what detectors were chosen on is the validation part
    assert found.patients(TEST) == 21
    assert any("none of them is a test patient" in note for note in found.notes)


def test_without_patients_detectors_know_images_by_their_pixels(tmp_path: Path) -> None:
    source = patients(tmp_path / "images", [1] * 12)
    store = stored(source)
    found = division(source, str(small_detector(tmp_path / "d", store, {"training": np.arange(3)})))
    assert (found.part == TRAINING).tolist() == [True] * 3 + [False] * 9
    assert any("were not given" in note for note in found.notes)


def given(root: Path, splits: dict[str, str]) -> Path:
    folder = patients(root / "images", [2] * len(splits))
    rows = [
        {"image": f"images/{p.name}", "patient": p.name[:4], "split": splits[p.name[:4]]}
        for p in sorted(folder.iterdir())
    ]
    pd.DataFrame(rows).to_csv(root / "table.csv", index=False)
    return root / "table.csv"


def test_a_given_split_is_kept_and_known_test_patients_are_refused(tmp_path: Path) -> None:
    names = [f"p{i:03}" for i in range(12)]
    splits = dict(zip(names, ["train"] * 2 + ["val"] * 4 + ["test"] * 6, strict=True))
    table = given(tmp_path, splits)
    columns = {"group_column": "patient", "split_column": "split"}
    found = division(table, **columns)
    assert found.how == "given"
    assert {g: found.part[found.groups == g][0] for g in names[1:3]} == {"p001": TRAINING, "p002": VALIDATION}
    store = stored(table, **columns)
    known = small_detector(tmp_path / "d", store, {"training": np.flatnonzero(store.manifest.groups == "p007")})
    with pytest.raises(InputError, match=r"d was trained or chosen on 1 patient of the test split.*leave_out_seen"):
        division(table, str(known), **columns)
    left = division(table, str(known), leave_out_seen=True, **columns)
    assert left.patients(TEST) == 5
    assert set(left.part[left.groups == "p007"]) == {""}
    chosen = small_detector(tmp_path / "v", store, {"training": np.flatnonzero(store.manifest.groups == "p003")})
    assert any("v was trained on 1 validation patient:" in n for n in division(table, str(chosen), **columns).notes)


def test_a_split_that_a_patient_straddles_names_the_way_out(tmp_path: Path) -> None:
    folder = patients(tmp_path / "images", [2] * 6)
    rows = [{"image": f"images/{p.name}", "patient": p.name[:4], "split": ["val", "test"][i % 2]}
            for i, p in enumerate(sorted(folder.iterdir()))]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    columns = {"group_column": "patient", "split_column": "split"}
    with pytest.raises(InputError, match="splits redraw"):
        division(tmp_path / "table.csv", **columns)
    assert division(tmp_path / "table.csv", splits="redraw", **columns).how == "drawn"


def test_blank_images_are_left_out_and_identical_ones_keep_patients_together(tmp_path: Path) -> None:
    folder = patients(tmp_path / "images", [3] * 10)
    Image.fromarray(np.full((16, 16), 7, np.uint8)).save(folder / "p000_0.png")
    (folder / "p002_0.png").write_bytes((folder / "p001_0.png").read_bytes())
    (folder / "p003_1.png").write_bytes((folder / "p003_0.png").read_bytes())
    found = division(folder, **GROUPS)
    assert found.part[0] == ""
    assert found.patients(VALIDATION) + found.patients(TEST) == 9
    pairs = [p for part in (VALIDATION, TEST) for p in part_pairs(found, part, found.names, seed=0)]
    # Two patients who share an image have 15 pairs as one, less the identical one; p000 has one pair left, p003 two.
    assert sum(len(p.weight) for p in pairs) == 14 + 1 + 2 + 6 * 3
    assert sum(p.identical for p in pairs) == 2


def test_data_sets_stay_apart(tmp_path: Path) -> None:
    found = division(two_sets(tmp_path), group_column="group", dataset_column="dataset")
    assert found.names == ["chest", "skin"]
    assert found.repeated(TEST, "skin") == 0
    assert found.patients(VALIDATION, "skin") == 7
    (pairs,) = part_pairs(found, TEST, found.names, seed=0)
    assert pairs.dataset == "chest"
    for kind in ("negative", "negative_paper"):
        some = pairs.pairs[kind]
        assert set(found.datasets[some.second]) == {"chest"}
        assert (found.groups[some.first] != found.groups[some.second]).all()
        assert np.array_equal(some.first, pairs.pairs["positive"].first)
    assert np.isclose(pairs.weight.sum(), pairs.n_identities)


def test_a_data_set_without_a_split_among_others_is_drawn(tmp_path: Path) -> None:
    table = two_sets(tmp_path)
    frame = pd.read_csv(table)
    patient = pd.factorize(frame["group"])[0]
    frame["split"] = np.where(frame["dataset"] == "skin", "", np.where(patient % 2, "val", "test"))
    frame.to_csv(table, index=False)
    columns = {"group_column": "group", "dataset_column": "dataset", "split_column": "split"}
    found = division(table, **columns)
    assert found.patients(TEST, "chest") == 12
    assert (found.patients(VALIDATION, "skin"), found.patients(TEST, "skin")) == (7, 17)
    assert any("drawn by patient there" in note for note in found.notes)
    assert division(table, splits="given", **columns).names == ["chest"]


def test_too_few_patients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two are needed to tell them apart"):
        division(patients(tmp_path / "images", [3] * 2), **GROUPS)
