"""Following the advice of undecided audits decides them, as `recipes/advice_truth.py` counts at length."""

import runpy
from pathlib import Path

import pytest

RECIPE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "recipes" / "advice_truth.py"))


@pytest.mark.thorough
def test_more_models_and_more_held_out_people_decide() -> None:
    name = "8 models, 400 patients"
    outcomes = [RECIPE["followed_classifier"](RECIPE["CLASSIFIERS"][name], seed) for seed in range(2)]
    outcomes.append(RECIPE["followed_set"](RECIPE["OF_SETS"]["300 beside 60"], 3))
    followed = [outcome for outcome in outcomes if outcome is not None]
    assert {"models"} <= {words for words, _ in followed}
    assert "undecided" not in {status for _, status in followed}


def test_the_table_counts_what_became_of_each_advice() -> None:
    outcomes = [("a", "models", "pass"), ("a", "models", "undecided"), ("b", "plants", "fail")]
    assert RECIPE["table"](outcomes)[2:] == ["| a | models | 2 | 1 | 0 | 1 |", "| b | plants | 1 | 0 | 1 | 0 |"]
