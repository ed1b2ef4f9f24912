"""Table 1 of a data set without a rare class, and the sentence that answers the question above the table."""

import pandas as pd
import pytest

from memorisk.report.statements.officer.words import plain_words
from memorisk.studies.engine.pages import answer_sentence
from memorisk.studies.engine.tables import fill_table
from memorisk.studies.rare_distinctive.class_tables import _printed_rho
from memorisk.studies.rare_distinctive.page import _answers, _rarity_answer
from memorisk.studies.rare_distinctive.results import LAYOUT

NAN = float("nan")
EMPTY = {name: fill_table(LAYOUT, name, ()) for name in ("table_1", "table_8")}
CELLS = pd.DataFrame(
    {
        "architecture": ["CNN", "ViT", "CNN", "ViT"],
        "dataset": ["skin", "skin", "even", "even"],
        "paper_rho": [-0.25, 0.5, 0.1, 0.2],
        "paper_sd": [0.125, NAN, 0.1, 0.1],
        "class_rho": [-0.5, 0.25, -0.75, NAN],
        "class_p": [0.01, 0.02, 0.25, NAN],
        "class_smallest_p": [0.01, 0.01, 0.25, NAN],
    }
)


def test_a_data_set_without_a_rare_class_keeps_its_place_with_a_dash_and_the_reason() -> None:
    printed = _printed_rho(CELLS, ["even"])
    assert printed.columns.tolist() == ["Model", "skin", "even"]
    assert printed["skin"].tolist() == ["\N{MINUS SIGN}0.250 ± 0.125", "0.500"]
    assert printed["even"].tolist() == ["– (no class below 5 % was scored)"] * 2
    assert _printed_rho(CELLS.iloc[:3], ["even"])["even"].tolist() == ["– (no class below 5 % was scored)", "n/a"]


def test_the_answer_counts_cells_by_their_sign_and_their_p() -> None:
    table = fill_table(LAYOUT, "table_1", CELLS)
    values = {"n_cells": 3, "n_negative": 2, "n_significant": 1, "n_possible": 2, "n_unranked": 1}
    assert _answers(EMPTY | {"table_1": table}) == {"rarity": values}
    without = CELLS.assign(class_rho=NAN)
    assert _answers(EMPTY | {"table_1": fill_table(LAYOUT, "table_1", without)}) == {}
    assert _answers(EMPTY) == {}
    (section,) = (one for one in LAYOUT.page.sections if one.id == "rarity")
    assert "in 2 of 3 cells, and in 1 of these" in answer_sentence(section, values)
    assert "in 1 of 1 cell, and" in answer_sentence(section, values | {"n_cells": 1, "n_negative": 1})


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "Shown in 1 of 3 cells. The rarer classes"),
        ({"n_significant": 0}, "Not shown. The rarer classes"),
        ({"n_significant": 0, "n_possible": 0}, "Not shown, and could not have been: it takes at least 5 scored"),
    ],
)
def test_the_page_begins_with_whether_it_was_shown_and_could_have_been(changes: dict, answer: str) -> None:
    values = {"n_cells": 3, "n_negative": 2, "n_significant": 1, "n_possible": 2, "n_unranked": 2} | changes
    section = LAYOUT.page.sections[0]
    text = plain_words(_rarity_answer(section, {section.id: values}, any_cell=True))
    assert text.startswith(answer)
    assert text.endswith("In 2 further cells scored classes do not differ in frequency and mean M, and no rank "
                         "correlation exists.")  # fmt: skip
    assert "rank" not in plain_words(_rarity_answer(section, {section.id: values | {"n_unranked": 0}}, any_cell=True))
    assert plain_words(_rarity_answer(section, {}, any_cell=True)).startswith("Cannot be answered: in no cell")
    assert _rarity_answer(section, {}, any_cell=False) == "No cell has numbers yet."


def test_attacks_are_counted_by_their_limits() -> None:
    attacks = pd.DataFrame({"low": [0.51, 0.5, 0.3, NAN], "high": [0.7, 0.8, 0.9, NAN]})
    answers = _answers(EMPTY | {"table_8": fill_table(LAYOUT, "table_8", attacks)})
    assert answers == {"attacks": {"n_measured": 3, "n_exposed": 1}}
