"""Numbers are written as JSON and read back: the same values, the keys of older versions, nothing of another type."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from memorisk.report.numbers import INLINE, OMITTED, Key, from_json, to_json
from memorisk.runs.files import read_json, write_json
from memorisk.statistics.intervals.shares import Proportion, clopper_pearson


@dataclass(frozen=True, kw_only=True)
class Counts:
    n_train_images: int
    n_held_images: int | None


@dataclass(frozen=True, kw_only=True)
class Listing:
    n_listed: int
    p_ahead: float
    n_singled: int | None = None


@dataclass(frozen=True, kw_only=True)
class Numbers:
    units: Literal["patients", "images"]
    sets: Annotated[Counts, INLINE]
    level: float
    listing: Annotated[Listing | None, INLINE]
    bound_share: Annotated[float, Key("copies_bound")]
    recall: Proportion | None
    by_kind: Mapping[str, Proportion]
    shape: tuple[int, int]
    notes: tuple[str, ...] = ()
    thresholds: tuple[float, ...] | float | None = None
    promise: Annotated[str, OMITTED] = ""


def numbers(**changes: Any) -> Numbers:
    half = clopper_pearson(5, 10)
    known: dict[str, Any] = {
        "units": "patients",
        "sets": Counts(n_train_images=3, n_held_images=None),
        "level": 0.05,
        "listing": Listing(n_listed=1, p_ahead=0.5, n_singled=0),
        "bound_share": 0.25,
        "recall": half,
        "by_kind": {"exact": half, "mirrored": clopper_pearson(9, 10)},
        "shape": (8, 9),
    }
    return Numbers(**known | changes)


def test_keys_stand_in_the_order_of_the_fields():
    assert list(to_json(numbers())) == [
        "units", "n_train_images", "n_held_images", "level", "n_listed", "p_ahead", "n_singled", "copies_bound",
        "recall", "by_kind", "shape", "notes", "thresholds",
    ]  # fmt: skip
    assert to_json(numbers(promise="all"))["promise"] == "all"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"listing": None},
        {"recall": None, "by_kind": {}},
        {"notes": ("one", "two"), "promise": "all", "thresholds": (0.5, 1.0)},
        {"thresholds": 0.5},
        {"sets": Counts(n_train_images=3, n_held_images=2), "level": np.float64(0.1)},
    ],
)
def test_what_was_written_is_read_back(changes, tmp_path):
    before = numbers(**changes)
    write_json(tmp_path / "numbers.json", to_json(before))
    after = from_json(Numbers, read_json(tmp_path / "numbers.json"))
    assert after == before
    assert to_json(after) == to_json(before)


def test_a_group_of_keys_that_are_all_null_is_none():
    written = to_json(numbers(listing=None))
    assert [written[key] for key in ("n_listed", "p_ahead", "n_singled")] == [None] * 3
    assert from_json(Numbers, written).listing is None


def test_null_is_nan_where_a_number_is_meant():
    written = to_json(numbers(bound_share=nan))
    assert written["copies_bound"] is None
    assert isnan(from_json(Numbers, written).bound_share)


def test_keys_that_older_versions_did_not_write_take_their_default():
    written = to_json(numbers(notes=("one",)))
    for key in ("notes", "thresholds", "n_singled"):
        del written[key]
    found = from_json(Numbers, written)
    assert found.notes == ()
    assert found.listing == Listing(n_listed=1, p_ahead=0.5)
    del written["copies_bound"]
    with pytest.raises(KeyError, match="copies_bound"):
        from_json(Numbers, written)


def test_keys_of_other_versions_are_not_read():
    assert from_json(Numbers, to_json(numbers()) | {"of_a_newer_one": [1]}) == numbers()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("units", "people"),
        ("n_train_images", "3"),
        ("n_train_images", True),
        ("n_train_images", None),
        ("level", "low"),
        ("recall", 0.5),
        ("by_kind", [0.5]),
        ("notes", 2),
        ("thresholds", {}),
    ],
)
def test_a_value_of_another_type_is_refused(key, value):
    with pytest.raises(TypeError, match="Proportion" if key == "recall" else key):
        from_json(Numbers, to_json(numbers()) | {key: value})
