"""The verdict rule of METHODS, row by row."""

import math

import numpy as np
import pandas as pd
import pytest

from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.class_reasons import models_remedy, power_sentence
from memorisk.statistics.verdicts.reasons import FAIL, SUPPORT, Gravity, Reason, Words
from memorisk.statistics.verdicts.remedies import Ways
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.statistics.verdicts.verdict import COLUMNS, decide

NAN = float("nan")


class Failure(Reason, bears_on=FAIL):
    text = Words("an attack")


class Support(Reason, bears_on=SUPPORT):
    text = Words("no copy was drawn")


class Doubt(Reason):
    text = Words("an attack")

    @Words
    def remedy(self):
        return "" if self.ways else "a way"


class EarlyDoubt(Doubt, gravity=Gravity.FIRST):
    text, remedy = Words("no split"), Words("a split")


def row(label="a", low=0.0, high=0.05, tier="LOW", flagged=0, room=8.0, noticeable_gap=1.0, notice_power=0.95, **more):
    found = {"label": label, "low": low, "high": high, "tier": tier, "flagged": flagged}
    return found | {"room": room, "noticeable_gap": noticeable_gap, "notice_power": notice_power, **more}


UNTESTED = {"room": NAN, "noticeable_gap": NAN, "notice_power": NAN}


def verdict(*rows, gate="high", **more):
    return decide(pd.DataFrame(rows), gate, **more)


def test_pass_needs_every_upper_limit_below_the_gate_and_nobody_flagged():
    found = verdict(row("a", 0.01, 0.29, "MODERATE"), row("b", -0.2, 0.0))
    assert found.status == "pass"
    assert found.what_would_decide == []
    assert found.tiers == {"a": "MODERATE", "b": "LOW"}
    assert found.why == [
        "no group is flagged",
        "a single group with a gap of 1 nat or more would have been noticed in at least four of five cases (class a, "
        "where least is noticed). At 1 nat training on an image makes its right answer 2.7 times as probable. Smaller "
        "gaps may be missed, and gaps that few of the trainings share",
        "the mean gap M of every class is below 0.3 nats, by the upper limit of its interval",
    ]


def test_no_rounding_carries_a_number_across_the_gate():
    assert "interval, 0.3002" in verdict(row(low=0.3002, high=0.5)).why[0]
    assert "0.1 to 0.3002 nats, contains 0.3" in verdict(row(low=0.1, high=0.3002)).why[0]
    assert "(room on the list 1.99, 2 needed)" in verdict(row(room=1.99)).why[0]
    assert (
        "with a gap of at least 2.42 nats; a pass needs 2.41" in verdict(row(noticeable_gap=2.42), notice=2.41).why[0]
    )


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
    assert found.why == ["class bad: its mean gap M is above 0.3 nats, by the lower limit of its interval, 0.4"]


def test_reasons_are_one_a_class_the_gravest_first_and_in_the_reader_s_words():
    found = verdict(
        row("few", flagged=1),
        row("many", flagged=7),
        row("above", 0.4, 0.6, "HIGH"),
        row("both", 0.9, 1.2, "HIGH", flagged=2),
        units=UnitNames("patient", "patients"),
    )
    assert found.why[:-1] == [
        "class both: its mean gap M is above 0.3 nats, by the lower limit of its interval, 0.9, and 2 patients are "
        "flagged",
        "class above: its mean gap M is above 0.3 nats, by the lower limit of its interval, 0.4",
        "class many: 7 patients are flagged",
        "class few: 1 patient is flagged",
    ]


@pytest.mark.parametrize("gate", ["high", "moderate"])
def test_flagged_groups_fail(gate):
    found = verdict(row("a", flagged=1), row("b", flagged=3), gate=gate)
    assert found.status == "fail"
    assert found.why == [
        "class b: 3 groups are flagged",
        "class a: 1 group is flagged",
        "at most 10 % of the flagged groups are expected to be so by chance, and where no group is remembered at most "
        "10 % of audits flag any",
    ]
    assert found.what_would_decide == ["more models, which tell chance from memorization"]
    assert verdict(row(flagged=True), gate=gate).status == "fail"


def test_far_more_flags_than_chance_explains_ask_for_another_model_not_for_more():
    few, many = (verdict(row("a", flagged=4), row("b", flagged=n), units=UnitNames("image", "images")) for n in (5, 6))
    assert few.what_would_decide[0].startswith("more models, which tell chance from memorization")
    assert few.status == many.status == "fail"
    assert many.what_would_decide == [
        "leave the flagged images out, mend their labels, or train with a defence (docs/defences.md)"
    ]
    of_generator = verdict(row("a", flagged=4), row("b", flagged=6), units=UnitNames("image", "images", "spreads"))
    assert of_generator.what_would_decide == [
        "leave the flagged images out, remove duplicates (memorisk images check), or train with fewer steps or "
        "parameters; audit generator --dose shows what repetition does"
    ]


def test_a_failure_elsewhere_is_told_even_where_others_are_undecided():
    found = verdict(row("a", **UNTESTED), row("b", flagged=2))
    assert found.status == "fail"
    assert [reason.code for reason in found.reasons] == ["class-fails", "flagged-by-chance"]


def test_insufficient_evidence_never_passes():
    found = verdict(row("a"), row("rare", -0.1, 0.01, "insufficient evidence", n_groups_scored=4))
    assert found.status == "undecided"
    assert found.why == ["class rare: insufficient evidence (4 scored groups, 10 needed)"]
    assert found.what_would_decide == ["class rare: at least 10 scored groups (4 now), by moving some from other parts"]


def test_a_class_with_too_few_patients_is_no_matter_of_models():
    rare = row("rare", -0.1, 0.01, "insufficient evidence", n_groups_scored=4, n_test_groups=1, n_groups=5)
    assert verdict(row("a"), rare).what_would_decide == [
        "these data cannot decide it: class rare: not with these 5 groups (it would take about 10 scored groups of it, "
        "and others in the test part)",
        "what can be shown instead: the other classes, in a set without class rare or with it joined to another class; "
        "alone, the audit then reports nothing on its groups",
    ]
    enough = rare | {"n_groups": 30}
    assert "--design balanced" in verdict(enough, design="matched").what_would_decide[0]
    assert "at least 10 scored groups (4 now)" in verdict(enough).what_would_decide[0]


def test_what_supports_a_pass_is_reported_with_it_and_only_then():
    passed, failed = (verdict(row(flagged=n), findings=[Support()]) for n in (0, 1))
    assert passed.status == "pass"
    assert passed.why[-1] == "no copy was drawn"
    assert failed.status == "fail"
    assert "no copy was drawn" not in failed.why


def test_few_groups_do_not_fail_by_their_limit_either():
    """Three scored images: an interval of so few does not cover, so its lower limit fails nobody; a list does."""
    few = row("rare", 0.5, 0.9, "insufficient evidence", n_groups_scored=3)
    assert verdict(few).status == "undecided"
    assert verdict(few | {"tier": "HIGH", "n_groups_scored": 10}).status == "fail"
    assert verdict(few | {"flagged": 1}).why[:1] == ["class rare: 1 group is flagged"]


def test_a_class_that_cannot_be_tested_is_not_zero_memorized():
    found = verdict(row("a"), row("rare", **UNTESTED, why_not="not auditable: too few groups", n_test_groups=1))
    assert found.status == "undecided"
    assert found.why == ["class rare cannot be tested: not auditable: too few groups"]
    assert "no list of groups was possible" in verdict(row(**UNTESTED)).why[0]


@pytest.mark.parametrize(
    ("room", "gap", "notice", "status", "words"),
    [
        (2.0, 2.0, 2.0, "pass", "with a gap of 2 nats or more would have been noticed"),
        (
            1.99,
            0.5,
            2.0,
            "undecided",
            "the models, with 130 groups scored or in the test part, are too few to flag a single group",
        ),
        (5.0, 2.38, 2.0, "undecided", "only with a gap of at least 2.4 nats; a pass needs 2"),
        (5.0, 2.38, 3.0, "pass", "2.4 nats or more"),
        (5.0, 1.19, 1.0, "undecided", "only with a gap of at least 1.2 nats"),
        (5.0, math.inf, 100.0, "undecided", "no gap of a single group up to 16 nats"),
    ],
)
def test_a_pass_needs_that_a_single_group_would_have_been_noticed(room, gap, notice, status, words):
    counts = {"n_groups_scored": 100, "n_test_groups": 30}
    found = verdict(row(), row("b", room=room, noticeable_gap=gap, models_needed=20, **counts), notice=notice)
    assert found.status == status
    assert words in found.why[1 if status == "pass" else 0]
    assert found.what_would_decide == ["about 20 models (--models 20)"] * (status == "undecided")
    assert verdict(row(low=0.4, high=0.5), row("b", room=room, noticeable_gap=gap)).status == "fail"


@pytest.mark.parametrize(("power", "status"), [(0.9, "pass"), (0.898, "undecided"), (NAN, "undecided")])
def test_a_pass_notices_what_is_asked_for_in_nine_of_ten_cases(power, status):
    """In four of five alone, one in five of the patients that a pass is about would be passed over."""
    found = verdict(row(noticeable_gap=1.9, notice_power=power))
    assert found.status == status
    if power == 0.898:
        assert "with a gap of 2 nats would have been noticed in 89 of 100 cases" in found.why[0]
        assert "and a pass needs 90" in found.why[0]


def test_what_would_have_been_noticed_is_told_in_words_that_explain_themselves():
    units = UnitNames("patient", "patients")
    told = power_sentence(4.0, (0.834, 0.79, 0.86), units, "a")
    assert told.startswith("a single patient with a gap of 4 nats or more would have been noticed in at least four of")
    assert "(class a, where least is noticed; simulated: 83 of 100, 79 to 86)" in told
    assert "its right answer 55 times as probable" in told  # exp(4)
    for none in (math.nan, math.inf):
        told = power_sentence(none, None, units, "a")
        assert told == "in class a a single patient can go unnoticed, even if strongly remembered"


def test_without_flips_more_models_are_not_asked_for():
    """Room is level / C (n_test + 1) / m there, whatever the number of models."""
    seen = row("b", room=0.02, noticeable_gap=math.inf, n_test_groups=20)
    assert verdict(seen, flips=False).what_would_decide == [
        "the design balanced in place of this one (--design balanced), which scores every patient outside the test part"
    ]
    assert "design" not in verdict(seen).what_would_decide[0]
    roomy = row("b", room=2.0, noticeable_gap=5.0, n_test_groups=2099)
    assert "many more groups, test part included" in verdict(roomy, flips=False).what_would_decide[0]


def test_where_no_number_of_models_would_do_a_smaller_claim_is_offered():
    for models in ({}, {"models_needed": NAN}):
        assert verdict(row(noticeable_gap=5.0, n_groups=40, **models), n_seeds=8).what_would_decide == [
            "these data cannot decide it: class a: not with up to 64 models, by the spread of these trainings, and not "
            "with these 40 groups (it would take many more groups, test part included)",
            "what can be shown instead: that a single group with a gap of 6 nats or more would be noticed (--notice "
            "6); smaller gaps are then left open, and no statement or gate takes such a pass",
        ]
    for gaps in ([math.inf], [5.0, math.inf]):  # of which no smaller claim settles the last
        rows = [row(str(gap), noticeable_gap=gap) for gap in gaps]
        (nothing,) = verdict(*rows, n_seeds=8).what_would_decide
        assert nothing.startswith("these data cannot decide it: class ")
    assert verdict(row(noticeable_gap=5.0), n_seeds=2).what_would_decide[0].startswith("about 6 models (--models 6)")


def test_the_classes_share_the_largest_number_of_models_with_what_it_costs():
    rows = [row("a", noticeable_gap=5.0, models_needed=20), row("b", noticeable_gap=5.0, models_needed=24)]
    weak = Doubt(ways=(Ways((models_remedy(32),)),))
    assert verdict(*rows, n_seeds=8).what_would_decide == [
        "about 24 models (--models 24): the same command trains 8 more in addition, which takes about 0.5 times as "
        "long as these did"
    ]
    found = verdict(*rows, n_seeds=8, findings=[weak])
    assert len(found.why) == 3
    assert found.what_would_decide == [
        "about 32 models (--models 32): the same command trains 16 more in addition, which takes about as long as "
        "these did"
    ]
    assert [(one.way, one.needed) for one in found.remedies] == [("models", 32)]
    assert verdict(*rows, n_seeds=8, elsewhere=True).what_would_decide == [
        "losses of about 24 models, 8 more than these"
    ]


def test_models_are_not_advised_first_where_they_would_decide_nothing():
    hopeless, hopeful = row("a", noticeable_gap=5.0), row("b", noticeable_gap=5.0, models_needed=24)
    cannot, instead, models = verdict(hopeful, hopeless, n_seeds=8).what_would_decide
    assert cannot.startswith("these data cannot decide it")
    assert instead.startswith("what can be shown instead")
    assert models.startswith("once that is settled, for the other reasons: about 24 models (--models 24)")


def test_the_models_for_a_shorter_interval_follow_from_its_length():
    """From 0 to 0.36 about 0.18: two thirds of the length end at the gate, which take 9 / 4 of the seeds."""
    (remedy,) = verdict(row(low=0.0, high=0.36), n_seeds=7).remedies
    assert remedy.needed == 2 * 17
    assert verdict(row(low=0.0, high=0.4), n_seeds=8).remedies == []  # 66 models are more than any audit takes


def test_both_doubts_of_a_class_are_told():
    found = verdict(row("a", 0.2, 0.4, "MODERATE", **UNTESTED))
    assert len(found.why) == len(found.what_would_decide) == 2
    assert found.why[0] == "class a: the interval of its mean gap M, 0.2 to 0.4 nats, contains 0.3"


def test_doubts_stand_by_tier_then_by_how_many_were_scored():
    rows = [
        row("few", 0.0, 0.5, "LOW", n_groups_scored=20),
        row("small", 0.0, 0.5, "insufficient evidence", n_groups_scored=3),
        row("many", 0.0, 0.5, "LOW", n_groups_scored=90),
        row("middle", 0.0, 0.5, "MODERATE", n_groups_scored=15),
        row("worst", 0.1, 0.9, "HIGH", n_groups_scored=12),
    ]
    told = verdict(*rows)
    assert [why.split(":")[0] for why in told.why] == [
        f"class {n}" for n in ("worst", "middle", "many", "few", "small")
    ]


def test_nothing_audited_is_undecided():
    found = decide(pd.DataFrame(columns=list(COLUMNS)))
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


@pytest.mark.parametrize(("low", "high", "status"), [(-0.15, -0.14, "undecided"), (-0.1, -0.01, "pass")])
def test_a_mean_far_below_zero_is_no_pass(low, high, status):
    """No training makes models worse on what they saw; twice the half-interval below 0 is no chance either."""
    found = verdict(row(low=low, high=high))
    assert found.status == status
    assert ("is surely below 0 (-0.15 to -0.14 nats)" in found.why[0]) == (status == "undecided")
    assert ("exchanged" in "".join(found.what_would_decide)) == (status == "undecided")


def test_a_mean_that_few_groups_carry_below_zero_is_not_called_the_classs():
    below = row(low=-0.15, high=-0.14)
    assert "mean-below-zero" in [reason.code for reason in verdict(below | {"high_over_groups": -0.01}).reasons]
    assert "mean-below-zero" not in [reason.code for reason in verdict(below | {"high_over_groups": 0.01}).reasons]


def test_no_verdict_depends_on_the_order_of_classes():
    rng = np.random.default_rng(0)
    rows = [row(str(i), low, low + rng.random() * 0.3) for i, low in enumerate(rng.uniform(-0.2, 0.5, 6))]
    statuses = {verdict(*rng.permutation(np.array(rows, dtype=object))).status for _ in range(10)}
    assert len(statuses) == 1


def test_more_evidence_never_turns_a_pass_into_anything_else():
    """Lowering an upper limit, or the lower one with it, keeps a pass; raising a lower limit keeps a failure."""
    for high in np.linspace(0.0, 0.6, 13):
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
        assert "--models 6" in found.what_would_decide[0]
    assert decide(pd.DataFrame([above]), n_seeds=3).status == "fail"
    assert decide(pd.DataFrame([row()]), n_seeds=3).status == "pass"
    flagged = decide(pd.DataFrame([above | {"flagged": 2}]), n_seeds=n_seeds)
    assert flagged.status == "fail"
    assert [reason.code for reason in flagged.reasons] == ["class-fails", "flagged-by-chance"]


def test_what_must_be_settled_first_is_told_first():
    early, late = EarlyDoubt(), Doubt()
    found = decide(pd.DataFrame([row(high=0.5)]), n_seeds=2, findings=[late, early])
    assert (found.why[0], found.why[-1]) == ("no split", "an attack")
    assert found.what_would_decide[0] == "a split"
    assert "--models 6" in found.what_would_decide[1]
    failed = decide(pd.DataFrame([row() | {"flagged": 2}]), findings=[late, early])
    assert [failed.why[i] for i in (0, 1, -1)] == ["class a: 2 groups are flagged", "no split", "an attack"]
    assert [failed.what_would_decide[i] for i in (0, -1)] == ["a split", "a way"]
    assert failed.what_would_decide[1].startswith("more models, which tell chance from memorization")


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
    found = verdict(here, findings=[Failure() if other == "fail" else Doubt()])
    assert found.status == status
    assert "an attack" in found.why
    assert (found.what_would_decide[-1:] == ["a way"]) == (other == "undecided")
