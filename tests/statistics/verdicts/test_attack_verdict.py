"""Attacks in the verdict: what fails, what keeps a pass away, what would decide it; and how often each is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from memorisk.statistics.roc import seed_auc_jackknife, tpr_at_fpr
from memorisk.statistics.verdicts.attack_verdict import Attack, attack_findings, nearest_attack
from memorisk.statistics.verdicts.levels import ATTACK_LEVEL
from memorisk.statistics.verdicts.reasons import DOUBT, FAIL
from memorisk.statistics.verdicts.remedies import Way, advice
from memorisk.statistics.verdicts.units import UnitNames
from tests.thorough import thorough

PATIENTS = UnitNames("patient", "patients")
QUIET = Attack("Loss threshold", 0.51, 0.47, 0.55, 1.0, 0.0, 1.0, 500, 80, 16, 8, 0.3)
SURE = replace(QUIET, name="LiRA", auc=0.9, low=0.86, high=0.93, p_auc=1e-9)


def judged(*attacks, gate=0.6, n_groups=600):
    return attack_findings(attacks, gate, PATIENTS, n_groups)


def test_nothing_is_said_where_every_limit_lies_below_the_gate():
    assert judged(QUIET, replace(QUIET, name="M")) == []
    assert nearest_attack([QUIET, replace(QUIET, name="M", high=0.57)], 0.6, PATIENTS).text == (
        "no attack that was tried reaches AUC 0.6 (0.5 is guessing): the nearest, M on the audited models, has at most "
        "0.57 (500 patients, 16 attacked models)"
    )


def test_no_rounding_carries_a_number_across_the_gate():
    assert "has at most 0.598 (" in nearest_attack([replace(QUIET, high=0.598)], 0.6, PATIENTS).text
    assert "AUC 0.597 (0.55 to 0.604)" in judged(replace(QUIET, auc=0.597, low=0.55, high=0.604))[0].text
    assert "AUC 0.65, at least 0.604 where less than 0.6" in judged(replace(SURE, auc=0.65, low=0.604))[0].text
    assert "at least 5.3% of the members" in judged(replace(QUIET, tpr_low=0.053, p_tpr=1e-4))[0].text


def test_an_auc_surely_above_the_gate_fails():
    found = judged(QUIET, SURE)
    assert [f.bears_on for f in found] == [FAIL]
    assert found[0].text == (
        "an attack tells who was in the training (AUC 0.5 is guessing): LiRA on the audited models, AUC 0.90, at least "
        "0.86 where less than 0.6 is allowed (500 patients, 16 attacked models)"
    )
    assert judged(QUIET, SURE, gate=0.95) != found


def test_many_members_found_at_few_false_positives_fail_whatever_the_auc():
    found = judged(replace(QUIET, tpr_low=0.083, p_tpr=1e-4))
    assert found[0].bears_on == FAIL
    assert "at least 8% of the members found at 1 % false positives" in found[0].text
    both = judged(replace(SURE, tpr_low=0.3, p_tpr=1e-5))
    assert "AUC 0.90, at least 0.86 where less than 0.6 is allowed, and at least 30% of the members" in both[0].text


def test_failures_are_adjusted_by_holm_over_all_attacks():
    """Ten attacks with two p-values each: the smallest must be below LEVEL / 20, the next below LEVEL / 19."""
    rest = [QUIET] * 9
    held = replace(QUIET, auc=0.7, low=0.62, high=0.77, p_auc=1.01 * ATTACK_LEVEL / 20)
    assert not any(f.bears_on == FAIL for f in judged(held, *rest))
    assert [f.bears_on for f in judged(replace(held, p_auc=0.99 * ATTACK_LEVEL / 20), *rest)] == [FAIL]
    both = [
        replace(held, p_auc=0.99 * ATTACK_LEVEL / 20),
        replace(held, name="second", p_auc=0.99 * ATTACK_LEVEL / 19),
        *rest[1:],
    ]
    assert "second" in judged(*both)[0].text
    both[1] = replace(both[1], p_auc=1.01 * ATTACK_LEVEL / 19)
    assert "second" not in judged(*both)[0].text


def test_a_limit_above_the_gate_keeps_a_pass_away_and_says_what_would_decide():
    near = replace(QUIET, high=0.61)
    (found,) = judged(near)
    assert found.bears_on == DOUBT
    assert found.text == (
        "an attack may reach AUC 0.6 (0.5 is guessing): Loss threshold on the audited models, AUC 0.51 (0.47 to 0.61)"
    )
    assert judged(replace(QUIET, high=0.6)) != []  # at the gate is not below it
    not_measured = judged(replace(QUIET, auc=np.nan, low=np.nan, high=np.nan))
    assert "not measured" in not_measured[0].text
    four = [replace(near, name=f"attack {i}", high=0.61 + i / 100) for i in range(4)]
    assert judged(*four)[0].text.startswith("an attack may reach AUC 0.6 (0.5 is guessing): attack 3")
    assert judged(*four)[0].text.endswith("and 1 more")


def test_the_way_out_names_what_makes_the_interval_long():
    wide = replace(QUIET, auc=0.55, low=0.45, high=0.64)
    stretch = (np.log(0.64 / 0.36) - np.log(0.55 / 0.45)) / (np.log(0.6 / 0.4) - np.log(0.55 / 0.45))
    by_trainings = judged(replace(wide, of_trainings=1.0))[0]
    models = 2 * int(np.ceil(8 * stretch**2))
    (ways,) = by_trainings.ways
    assert (ways.best.way, ways.best.needed) == (Way.MODELS, models)
    by_patients = judged(replace(wide, of_trainings=0.0))[0]
    patients = int(np.ceil(600 * stretch**2))
    (ways,) = by_patients.ways  # all 600 of the audit, also where the attack leaves out the test part
    assert ways.best is None
    assert np.ceil(ways.remedies[0].needed) == patients
    cannot, instead = advice([ways], PATIENTS)
    assert cannot == (
        f"these data cannot decide it: not with these 600 patients (it would take about {round(patients + 49, -2):,} "
        "patients, test part included)"
    )
    assert instead == (
        "what can be shown instead: that no attack reaches AUC 0.65 (--attack-gate 0.65); up to there members may be "
        "distinguished from others, and no statement or gate takes such a pass"
    )
    assert judged(replace(wide, of_trainings=0.0), gate=0.65) == []
    at_the_gate = judged(replace(wide, auc=0.6))[0]
    assert "it would take many more patients" in advice(at_the_gate.ways, PATIENTS)[0]


def test_the_given_model_is_judged_by_class_too():
    target = replace(QUIET, of_target=True, conditional=True, n_models=1)
    rare = replace(target, label="rare", auc=0.53, low=0.41, high=0.64, n_groups=60, n_non_members=9)
    (found,) = judged(QUIET, target, rare, replace(target, label="common"))
    assert found.text == (
        "an attack may reach AUC 0.6 (0.5 is guessing): Loss threshold on class rare of the given model, AUC 0.53 "
        "(0.41 to 0.64)"
    )
    (ways,) = found.ways
    assert (ways.best.way, ways.best.label, ways.best.present) == (Way.UNSEEN, "rare", 9)
    (said,) = advice([ways], PATIENTS)
    more = int(np.ceil(ways.best.needed)) - 9
    assert said == (
        f"class rare: about {more + 9} patients that the given model never saw; {more} more than the 9 there are"
    )
    hopeless = judged(QUIET, target, replace(rare, auc=0.6))[0]
    assert advice(hopeless.ways, PATIENTS)[0].startswith(
        "these data cannot decide it: class rare: not with these 60 patients (it would take many more patients that the"
    )
    surely = replace(rare, auc=0.95, low=0.9, high=0.99, p_auc=1e-8)
    (failed,) = judged(QUIET, target, surely)
    assert "class rare of the given model, AUC 0.95, at least 0.90" in failed.text
    assert "60 patients, this one model" in failed.text


def test_an_attack_on_the_given_model_that_separates_in_reverse_is_a_doubt():
    secmi = replace(QUIET, name="SecMI", auc=0.14, low=0.09, high=0.2, of_target=True)
    (doubt,) = judged(replace(QUIET, of_target=True), secmi)
    assert doubt.bears_on is DOUBT
    assert doubt.text == (
        "an attack may separate members from others in reverse, by AUC 0.4 or less (0.5 is guessing): SecMI on the "
        "given model, AUC 0.14 (0.09 to 0.20)"
    )
    assert judged(replace(QUIET, of_target=True, low=0.41)) == []
    assert judged(replace(secmi, of_target=False)) == []  # twins: a check of their own looks at members' losses


def test_intervals_of_two_trainings_neither_fail_nor_pass_the_twins():
    (found,) = judged(replace(SURE, conditional=True, n_models=2))
    assert found.bears_on == DOUBT
    assert found.ways[0].best.needed == 6


def test_members_who_differ_otherwise_neither_fail_nor_pass():
    found = judged(replace(SURE, comparable=False), QUIET)
    assert [f.bears_on for f in found] == [DOUBT]
    assert "cannot be read" in found[0].text
    assert "drawn at random by patient" in found[0].remedy
    assert judged(replace(QUIET, comparable=False))[0].bears_on == DOUBT


def world(rng, gap, spread, n_seeds=6, canaries=120, test=60):
    """An attack's AUC over patients and trainings whose members gain N(gap, spread^2) standard deviations."""
    role = np.zeros((n_seeds, canaries + test), dtype=int)
    for row in role:
        row[rng.permutation(canaries)[: canaries // 2]] = 1
    own = np.sqrt(0.5) * rng.normal(size=canaries + test)
    group = np.arange(canaries + test)
    found = []
    for name in ("one", "two", "three"):  # three attacks on the same models
        noise = own + np.sqrt(0.5) * rng.normal(size=role.shape)
        score = noise + (gap + spread * rng.normal(size=(n_seeds, 1))) * role
        interval, rate = seed_auc_jackknife(score, role, group), tpr_at_fpr(score, role, group, 0.01, value=0.05)
        found.append(
            Attack(
                *(name, interval.estimate, interval.low, interval.high, interval.p_at_most(0.6)),
                *(rate.low, rate.p_at_most, len(group), rate.n_non_members, n_seeds, n_seeds),
            )
        )
    return found


@pytest.mark.parametrize(("gap", "wrong"), [(0.358, FAIL), (0.358, "pass"), thorough(0.0, FAIL)])
def test_both_errors_hold_their_level(gap, wrong):
    """At the gate itself, Phi(0.358 / sqrt 2) = 0.6, either claim is an error of at most LEVEL (three attacks)."""
    rng, repeats = np.random.default_rng(17), 120
    count = 0
    for _ in range(repeats):
        found = judged(*world(rng, gap, 0.2))
        count += any(f.bears_on == FAIL for f in found) if wrong == FAIL else not found
    assert count <= binom.ppf(0.999, repeats, ATTACK_LEVEL)


def test_power_where_everybody_is_found_and_where_nobody_is():
    rng, repeats = np.random.default_rng(18), 30
    strong = [judged(*world(rng, 1.2, 0.2)) for _ in range(repeats)]
    quiet = [judged(*world(rng, 0.0, 0.05, canaries=400, test=200)) for _ in range(repeats)]
    assert np.mean([any(f.bears_on == FAIL for f in found) for found in strong]) > 0.8
    assert np.mean([not found for found in quiet]) > 0.8


def test_an_audit_without_attacks_could_not_look():
    (finding,) = attack_findings([], 0.6, PATIENTS, 100)
    assert finding.bears_on == DOUBT
