import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.levels import share_words
from memorisk.statistics.verdicts.tiers import format_against_gates, reaches_gate, tier


@pytest.mark.parametrize(
    ("mean", "n_groups", "expected"),
    [
        (0.31, 10, "HIGH"),
        (0.3, 10, "MODERATE"),
        (0.1, 10, "MODERATE"),
        (0.0999, 500, "LOW"),
        (-2.0, 10, "LOW"),
        (5.0, 9, "insufficient evidence"),
        (float("nan"), 50, "insufficient evidence"),
    ],
)
def test_tiers_of_methods(mean, n_groups, expected):
    assert tier(mean, n_groups) == expected


@pytest.mark.parametrize(
    ("value", "gates", "told"),
    [
        (0.5983, (0.6,), "0.598"),
        (0.59999, (0.6,), "0.59999"),
        (0.6, (0.6,), "0.60"),
        (0.6004, (0.6,), "0.6004"),
        (0.604, (0.6, 0.61), "0.604"),
        (0.51, (0.6,), "0.51"),
        (0.5983, (), "0.60"),
        (-0.002, (0.0,), "-0.002"),
        (float("nan"), (0.6,), "nan"),
        (float("inf"), (0.6,), "inf"),
        (0.1 + 0.2, (0.3,), "0.30000000000000004"),
    ],
)
def test_a_number_is_read_on_its_side_of_the_gate(value, gates, told):
    assert format_against_gates(value, *gates) == told
    assert format_against_gates(1.9996, 2.0, digits=3, kind="g") == "1.9996"


def test_reaching_a_gate_is_being_in_its_tier_or_a_higher_one():
    order = ["LOW", "MODERATE", "HIGH"]
    for mean in (-1.0, 0.0999, 0.1, 0.2, 0.3, 0.3001, 4.0):
        for gate in ("moderate", "high"):
            assert reaches_gate(mean, gate) == (order.index(tier(mean, 10)) >= order.index(gate.upper()))
    assert not reaches_gate(float("nan"), "high")
    with pytest.raises(InputError, match=r"unknown gate 'hihg'\. Did you mean 'high'"):
        reaches_gate(0.2, "hihg")


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.8, "four of five cases"),
        (0.9, "nine of ten cases"),
        (1 - 0.8, "one of five cases"),  # not the number 0.2
        (0.05, "one of 20 cases"),
        (1 / 3, "one of three cases"),
        (0.87, "87 % of cases"),
        (0.999, "99.9 % of cases"),
        (0.0, "0 % of cases"),
        (1.0, "100 % of cases"),
    ],
)
def test_a_share_in_words_is_the_share(share, words):
    assert share_words(share) == words
