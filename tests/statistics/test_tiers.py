import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.tiers import reaches, tier


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


def test_reaching_a_gate_is_being_in_its_tier_or_a_higher_one():
    order = ["LOW", "MODERATE", "HIGH"]
    for mean in (-1.0, 0.0999, 0.1, 0.2, 0.3, 0.3001, 4.0):
        for gate in ("moderate", "high"):
            assert reaches(mean, gate) == (order.index(tier(mean, 10)) >= order.index(gate.upper()))
    assert not reaches(float("nan"), "high")
    with pytest.raises(InputError, match=r"unknown gate 'hihg'\. Did you mean 'high'"):
        reaches(0.2, "hihg")
