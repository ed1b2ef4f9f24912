"""Conditions of training images: kept as they are, private, refused where they are none."""

import stat
from pathlib import Path

import numpy as np
import pytest

from memorisk.models.generators.conditions import CONDITIONS, Conditions
from memorisk.runs.errors import InputError

NAMES = ["a/1.png", "ü 2", "3"]


def conditions() -> Conditions:
    values = np.random.default_rng(0).normal(size=(3, 2))
    return Conditions(values, np.array(NAMES), np.array(["x", "", "x|y"]), "label-noise", ("One.", "Two."))


def test_a_file_gives_back_what_was_saved_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    given = conditions()
    given.save(tmp_path)
    first = (tmp_path / CONDITIONS).read_bytes()
    given.save(tmp_path)
    found = Conditions.load(tmp_path)
    assert (tmp_path / CONDITIONS).read_bytes() == first
    assert stat.S_IMODE((tmp_path / CONDITIONS).stat().st_mode) == 0o600
    assert found.values.dtype == np.float32
    assert np.array_equal(found.values, given.values)
    assert found.images.tolist() == NAMES
    assert found.labels.tolist() == ["x", "", "x|y"]
    assert (found.conditioning, found.notes, found.dimension, len(found)) == ("label-noise", ("One.", "Two."), 2, 3)


def test_rows_are_chosen_with_their_names(tmp_path: Path) -> None:
    found = conditions().rows(np.array([2, 0, 2]))
    assert found.images.tolist() == ["3", "a/1.png", "3"]
    assert np.array_equal(found.values, conditions().values[[2, 0, 2]])


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_values_without_a_row_an_image_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="give a row of numbers"):
        Conditions(np.zeros(shape), np.array(NAMES), np.array(NAMES), "prediction")


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        Conditions(np.array([[np.nan]]), np.array(["1"]), np.array([""]), "prediction")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no conditions\.npz"):
        Conditions.load(tmp_path)
    for damage in (b"PK\x03\x04 torn", b""):
        (tmp_path / CONDITIONS).write_bytes(damage)
        with pytest.raises(InputError, match="is not a table of conditions"):
            Conditions.load(tmp_path)


def test_pickled_names_are_not_read(tmp_path: Path) -> None:
    names = np.array(NAMES, dtype=object)
    with (tmp_path / CONDITIONS).open("wb") as file:
        np.savez(file, values=np.zeros((3, 1)), images=names, labels=names, conditioning="x", notes=names)
    with pytest.raises(InputError, match="is not a table of conditions"):
        Conditions.load(tmp_path)
