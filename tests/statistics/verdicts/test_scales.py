"""Scales of losses: the gates, the noise and the words of a generator's are what they are said to be."""

from dataclasses import fields

import numpy as np
import pytest
import scipy

from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.levels import ATTACK_GATE
from memorisk.statistics.verdicts.scales import (
    CROSS_ENTROPY,
    NOISE_ERROR,
    SCALES,
    cases_told_apart,
    find_scale,
)
from memorisk.statistics.verdicts.tiers import reaches_gate, tier
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import decide


def drawn_auc(gap: float) -> float:
    """AUC of the comparison with one twin: normal gaps of members, shifted, and of others."""
    rng = np.random.default_rng(4)
    members, others = gap + rng.standard_normal(10**6), rng.standard_normal(10**6)
    return float((members > others).mean())


def test_a_generators_high_tier_begins_where_a_twin_reaches_the_gate_of_attacks() -> None:
    assert drawn_auc(NOISE_ERROR.high) == pytest.approx(ATTACK_GATE, abs=0.002)
    ratio = CROSS_ENTROPY.moderate / CROSS_ENTROPY.high
    assert NOISE_ERROR.moderate / NOISE_ERROR.high == pytest.approx(ratio, abs=0.002)


def test_a_gap_is_worded_by_how_often_the_larger_one_is_a_members() -> None:
    for gap in (0.5, 1.0, 2.0):
        assert cases_told_apart(gap) == f"{100 * drawn_auc(gap):.0f} of 100 cases"


def test_the_notice_of_both_scales_is_as_much_evidence() -> None:
    """A gap of g nats is evidence of g nats; a shift of g standard deviations is one of g^2 / 2 on average."""
    gap = NOISE_ERROR.notice + np.random.default_rng(0).standard_normal(10**6)
    log_ratio = scipy.stats.norm.logpdf(gap, NOISE_ERROR.notice) - scipy.stats.norm.logpdf(gap)
    assert log_ratio.mean() == pytest.approx(CROSS_ENTROPY.notice, abs=0.01)


def test_the_noise_of_a_generators_plan_has_the_standard_deviation_one() -> None:
    variance = NOISE_ERROR.noise**2 * np.exp(2 * NOISE_ERROR.spread**2) * scipy.stats.t(NOISE_ERROR.tails).var()
    assert variance == pytest.approx(1.0)


def test_tiers_and_gates_are_those_of_the_scale() -> None:
    assert (tier(0.33, 40), tier(0.33, 40, NOISE_ERROR)) == ("HIGH", "MODERATE")
    assert reaches_gate(0.33, "high")
    assert not reaches_gate(0.33, "high", NOISE_ERROR)
    row = {"label": ["a"], "low": [0.33], "high": [0.5], "tier": ["HIGH"], "flagged": [0], "room": [9.0]}
    row |= {"noticeable_gap": [1.0], "notice_power": [0.99]}
    units = {name: UnitNames("patient", "patients", name) for name in SCALES}
    assert decide(row, units=units["nats"], n_seeds=8).status == "fail"
    assert decide(row, units=units["spreads"], n_seeds=8).status == "undecided"
    assert "contains 0.358" in " ".join(decide(row, units=units["spreads"], n_seeds=8).why)


def test_scales_differ_in_every_number_and_word_but_the_notice() -> None:
    same = [
        one.name for one in fields(CROSS_ENTROPY) if getattr(CROSS_ENTROPY, one.name) == getattr(NOISE_ERROR, one.name)
    ]
    assert same == ["notice"]
    with pytest.raises(InputError, match=r"unknown scale of losses 'nat'\. Did you mean 'nats'"):
        find_scale("nat")
