"""The verdict rule of METHODS, row by row."""

import math

import numpy as np
import pandas as pd
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.multiple import smallest_list
from memorisk.statistics.verdict import Finding, Units, decide

NAN = float("nan")


def row(label="a", low=0.0, high=0.05, tier="LOW", flagged=0, testable=True, **more):
    return {"label": label, "low": low, "high": high, "tier": tier, "flagged": flagged, "testable": testable, **more}


def verdict(*rows, gate="high", **more):
    return decide(pd.DataFrame(rows), gate, **more)


def test_pass_needs_every_upper_limit_below_the_gate_and_nobody_flagged():
    found = verdict(row("a", 0.01, 0.29, "MODERATE"), row("b", -0.2, 0.0))
    assert found.status == "pass"
    assert found.what_would_decide == []
    assert found.tiers == {"a": "MODERATE", "b": "LOW"}
    assert found.why == ["the upper limit of every class (2) is below 0.3 and no group is flagged"]


@pytest.mark.parametrize(
    ("low", "high", "gate", "status"),
    [
        (0.0, 0.29, "high", "pass"),
        (0.0, 0.3, "high", "undecided"),
        (0.3, 0.5, "high", "undecided"),
        (0.301, 0.5, "high", "fail"),
        (0.0, 0.29, "moderate", "undecided"),
        (0.0, 0.099, "moderate", "pass"),
        (0.0, 0.1, "moderate", "undecided"),
        (0.1, 0.2, "moderate", "fail"),
        (2.0, 3.0, "moderate", "fail"),
        (NAN, NAN, "high", "undecided"),
    ],
)
def test_one_class_against_the_gate(low, high, gate, status):
    found = verdict(row(low=low, high=high), gate=gate)
    assert found.status == status
    assert bool(found.what_would_decide) == (status == "undecided")


def test_one_class_above_fails_all_however_many_are_below():
    found = verdict(*(row(f"c{i}") for i in range(20)), row("bad", 0.4, 0.6, "HIGH"))
    assert found.status == "fail"
    assert found.why == ["class bad: the lower limit of its mean M, 0.4, is above 0.3"]


def test_reasons_are_one_a_class_the_gravest_first_and_in_the_reader_s_words():
    found = verdict(
        row("few", flagged=1),
        row("many", flagged=7),
        row("above", 0.4, 0.6, "HIGH"),
        row("both", 0.9, 1.2, "HIGH", flagged=2),
        units=Units("patient", "patients"),
    )
    assert found.why == [
        "class both: the lower limit of its mean M, 0.9, is above 0.3, and 2 patients are flagged",
        "class above: the lower limit of its mean M, 0.4, is above 0.3",
        "class many: 7 patients are flagged",
        "class few: 1 patient is flagged",
    ]


@pytest.mark.parametrize("gate", ["high", "moderate"])
def test_flagged_groups_fail(gate):
    found = verdict(row("a", flagged=1), row("b", flagged=3), gate=gate)
    assert found.status == "fail"
    assert found.why == ["class b: 3 groups are flagged", "class a: 1 group is flagged"]
    assert verdict(row(flagged=True), gate=gate).status == "fail"


def test_a_failure_elsewhere_is_told_even_where_others_are_undecided():
    found = verdict(row("a", testable=False), row("b", flagged=2))
    assert found.status == "fail"
    assert found.why == ["class b: 2 groups are flagged"]


def test_insufficient_evidence_never_passes():
    found = verdict(row("a"), row("rare", -0.1, 0.01, "insufficient evidence", n_groups_scored=4))
    assert found.status == "undecided"
    assert found.why == ["class rare: insufficient evidence (4 scored groups, 10 needed)"]
    assert "more groups of it, to at least 10 scored" in found.what_would_decide[0]


def test_a_class_that_cannot_be_tested_is_not_zero_memorized():
    found = verdict(row("a"), row("rare", testable=False, why_not="shortest list 20 of 12 groups", n_test_groups=1))
    assert found.status == "undecided"
    assert found.why == ["class rare cannot be tested: shortest list 20 of 12 groups"]
    # q (n_test + 1) 2^S >= 1 with q = 0.1 and one test group: 2^S >= 5.
    assert "at least 3 seeds" in found.what_would_decide[0]
    assert "at least 4 seeds" in verdict(row(testable=False, n_test_groups=1), q=0.05).what_would_decide[0]
    assert "at least 1 seed of" in verdict(row(testable=False, n_test_groups=99)).what_would_decide[0]
    assert "more seeds" in verdict(row(testable=False)).what_would_decide[0]


def test_seeds_that_would_decide_are_enough_and_no_more():
    for n_test in (0, 1, 2, 4, 7, 30):
        said = verdict(row(testable=False, n_test_groups=n_test)).what_would_decide[0]
        seeds = int(said.split("at least ")[1].split(" seed")[0])
        assert smallest_list(50, 0.1, n_test, 2**seeds) <= 50
        if seeds > 1:
            assert smallest_list(50, 0.1, n_test, 2 ** (seeds - 1)) > 50


def test_both_doubts_of_a_class_are_told():
    found = verdict(row("a", 0.2, 0.4, "MODERATE", testable=False))
    assert len(found.why) == len(found.what_would_decide) == 2
    assert found.why[0] == "class a: the interval of its mean M, 0.2 to 0.4, holds 0.3"


def test_nothing_audited_is_undecided():
    found = decide(pd.DataFrame(columns=["label", "low", "high", "tier", "flagged", "testable"]))
    assert found.status == "undecided"
    assert found.why == ["no class was audited"]


def test_no_gate_passes_everything():
    with pytest.raises(InputError, match="gate"):
        verdict(row("a", 1.0, 2.0, "HIGH", flagged=5), gate="never")


def test_a_mapping_of_columns_will_do():
    found = decide({k: [v] for k, v in row().items()})
    assert found.status == "pass"


def test_labels_are_data():
    found = verdict(row("a\n<b>\u202e", flagged=1))
    assert "\n" not in found.why[0]
    assert "\u202e" not in found.why[0]


def test_no_verdict_depends_on_the_order_of_classes():
    rng = np.random.default_rng(0)
    rows = [row(str(i), low, low + rng.random() * 0.3) for i, low in enumerate(rng.uniform(-0.2, 0.5, 6))]
    statuses = {verdict(*rng.permutation(np.array(rows, dtype=object))).status for _ in range(10)}
    assert len(statuses) == 1


def test_more_evidence_never_turns_a_pass_into_anything_else():
    """Lowering an upper limit, or the lower one with it, keeps a pass; raising a lower limit keeps a failure."""
    for high in np.linspace(-0.1, 0.6, 15):
        here = verdict(row(low=-0.2, high=high)).status
        below = verdict(row(low=-0.2, high=high - 0.05)).status
        assert not (here == "pass" and below != "pass")
        assert math.isnan(high) or here != "fail"


def test_misfits_are_refused():
    with pytest.raises(InputError, match=r"unknown gate 'hgh'\. Did you mean 'high'"):
        decide(pd.DataFrame([row()]), "hgh")
    with pytest.raises(InputError, match="lacks low, tier"):
        decide(pd.DataFrame([row()]).drop(columns=["low", "tier"]))


@pytest.mark.parametrize("n_seeds", [1, 2])
def test_with_few_seeds_no_limit_of_a_class_counts(n_seeds):
    """Two trainings differ whatever they saw: the drift moves every M of a class, so its limits decide nothing."""
    above, below = row("a", 0.36, 0.5, "HIGH"), row("b", -0.2, -0.1, "LOW")
    for rows in ([above], [below], [above, below]):
        found = decide(pd.DataFrame(rows), n_seeds=n_seeds)
        assert found.status == "undecided"
        assert "two trainings differ" in found.why[0]
        assert "at least 3 seeds" in found.what_would_decide[0]
    assert decide(pd.DataFrame([above]), n_seeds=3).status == "fail"
    assert decide(pd.DataFrame([row()]), n_seeds=3).status == "pass"
    flagged = decide(pd.DataFrame([above | {"flagged": 2}]), n_seeds=n_seeds)
    assert flagged.status == "fail"
    assert flagged.why == ["class a: 2 groups are flagged"]


@pytest.mark.parametrize(
    ("own", "other", "status"),
    [
        ("pass", "fail", "fail"),
        ("pass", "undecided", "undecided"),
        ("undecided", "fail", "fail"),
        ("undecided", "undecided", "undecided"),
        ("fail", "undecided", "fail"),
        ("fail", "fail", "fail"),
    ],
)
def test_what_other_parts_of_the_audit_find_counts(own, other, status):
    """A failure elsewhere fails; a doubt elsewhere keeps a pass away; both are told beside the classes' reasons."""
    here = row(low=0.4, high=0.5) if own == "fail" else row(high=0.5 if own == "undecided" else 0.05)
    found = verdict(here, findings=[Finding(other, "an attack", "a way" if other == "undecided" else "")])
    assert found.status == status
    assert "an attack" in found.why
    assert (found.what_would_decide[-1:] == ["a way"]) == (other == "undecided")
