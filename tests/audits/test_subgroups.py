"""Subgroups by columns: the level of a patient, bins, and columns that are refused."""

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.subgroups import subgroups
from memorisk.runs.errors import InputError

PATIENTS = [f"p{i}" for i in range(40)]


def _table(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"image": [f"i{i}" for i in range(40)], "group": PATIENTS, **columns})


def test_a_patient_has_the_value_of_most_images() -> None:
    table = pd.DataFrame({"sex": ["F", "F", "M", "M", "F", ""] + ["M"] * 14 + ["F"] * 14})
    patients = ["a", "a", "a", "b", "b", "c"] + [f"p{i}" for i in range(28)]
    column = subgroups(table, patients, ["sex"])[0]
    assert column.level_of["a"] == "F"
    assert column.level_of["b"] == "F", "equally frequent: the first in order"
    assert "c" not in column.level_of
    assert column.of(["a", "c", "elsewhere"]).tolist() == ["F", "", ""]
    assert (column.n_unknown, column.n_several) == (1, 2)


def test_levels_that_differ_in_capitals_are_one() -> None:
    column = subgroups(_table(sex=["F", "f", "F", " M "] * 10), PATIENTS, ["sex"])[0]
    assert column.levels == ("F", "M")


@pytest.mark.parametrize("age", ["26", "26,0", "26Y", "26 years", "026Y", "26.0"])
def test_ages_are_read_as_people_write_them(age: str) -> None:
    column = subgroups(_table(age=[age, "60"] * 20), PATIENTS, ["age:40,"])[0]
    assert column.of(PATIENTS[:2]).tolist() == ["below 40", "40 and above"]


def test_words_for_unknown_values_are_no_level() -> None:
    column = subgroups(_table(sex=["F", "M", "unknown", "-"] * 10), PATIENTS, ["sex"])[0]
    assert column.levels == ("F", "M")
    assert column.n_unknown == 20


def test_levels_have_the_one_form_of_labels_and_their_order() -> None:
    column = subgroups(_table(site=[" 2 ", "10"] * 20), PATIENTS, ["site"])[0]
    assert column.levels == ("2", "10"), "numbers in order of value"
    column = subgroups(_table(site=[2.0, 10.0] * 20), PATIENTS, ["site"])[0]
    assert column.levels == ("2", "10"), "a column with a gap is read as numbers with a decimal point"


def test_a_number_of_bins_divides_patients_evenly() -> None:
    ages = np.arange(40) + 20
    column = subgroups(_table(age=ages), PATIENTS, ["age:4"])[0]
    counts = pd.Series(column.of(PATIENTS)).value_counts()
    assert set(counts) == {10}
    assert column.levels == ("below 30", "30 to below 40", "40 to below 50", "50 and above")


def test_codes_are_bins_of_their_own_however_unevenly_they_are_spread() -> None:
    column = subgroups(_table(sexcode=[1] * 26 + [2] * 14), PATIENTS, ["sexcode:2"])[0]
    assert column.levels == ("below 2", "2 and above")
    assert column.of([PATIENTS[0], PATIENTS[-1]]).tolist() == ["below 2", "2 and above"]


def test_edges_divide_and_ages_of_dicom_are_numbers() -> None:
    ages = ["017Y", "018Y", "045Y", "030M"] * 10
    column = subgroups(_table(PatientAge=ages), PATIENTS, ["PatientAge:18,40"])[0]
    assert column.levels == ("below 18", "18 to below 40", "40 and above")
    assert column.of(PATIENTS[:4]).tolist() == ["below 18", "18 to below 40", "40 and above", "below 18"]


def test_a_column_whose_name_has_a_colon_is_that_column() -> None:
    column = subgroups(_table(**{"scan:2": list("ab") * 20}), PATIENTS, ["scan:2"])[0]
    assert column.levels == ("a", "b")


@pytest.mark.parametrize(
    ("by", "columns", "words"),
    [
        ("sexx", {"sex": list("FM") * 20}, "Did you mean 'sex'"),
        ("group", {}, "names images or patients"),
        ("label", {"label": list("ab") * 20}, "compared anyway"),
        ("record", {"record": PATIENTS}, "40 levels, and 30 are the most; join levels"),
        ("age", {"age": range(40)}, "give bins, as age:4"),
        ("sex", {"sex": ["F"] * 40}, "the one level 'F'"),
        ("sex", {"sex": [""] * 40}, "no value"),
        ("sex", {"sex": ["F", "female", "M", "M"] * 10}, "'F' and 'female' look like one"),
        ("site", {"site": [str(i % 20) for i in range(40)]}, "no level has 10 patients"),
        ("sex:2", {"sex": list("FM") * 20}, "bins need numbers"),
        ("age:1", {"age": range(40)}, "a number of bins from 2"),
        ("age:60,40", {"age": range(40)}, "ascending order"),
        ("age:old", {"age": range(40)}, "a number of bins from 2"),
    ],
)
def test_useless_columns_are_refused(by: str, columns: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        subgroups(_table(**columns), PATIENTS, [by])
