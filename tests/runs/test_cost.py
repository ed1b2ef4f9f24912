"""Costs: sums, what is unknown, what is a bound, and the lines of the terminal."""

import pytest

from memorisk.runs.workload import COST_LABELS, Cost, total


def test_costs_add_up_and_keep_what_is_not_certain() -> None:
    first = Cost(trainings=2, steps=10, images_trained=None, at_most=("steps",))
    second = Cost(trainings=1, steps=5, images_trained=3, pairs=7, about=("pairs",))
    wanted = Cost(trainings=3, steps=15, images_trained=None, pairs=7, at_most=("steps",), about=("pairs",))
    assert first + second == second + first == total([first, second]) == wanted
    assert first * 3 == first + first + first
    assert total([]) == Cost()


def test_every_number_is_shown_as_what_it_is() -> None:
    cost = Cost(trainings=2, steps=1000, images_trained=None, at_most=("steps",))
    assert [line.split() for line in cost.lines()] == [
        ["2", "trainings"],
        ["at", "most", "1,000", "steps", "of", "optimisers"],
        ["unknown", "images", "forward", "and", "backward,", "repeats", "counted"],
    ]
    assert cost.as_json() == {
        **dict.fromkeys(COST_LABELS, 0), "trainings": 2, "steps": 1000, "images_trained": None,
        "at_most": ["steps"], "about": [],
    }  # fmt: skip


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no minutes"):
        Cost(at_most=("minutes",))
