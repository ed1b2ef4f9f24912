"""The attacks of paper 000, A.8: formulas, admissible non-members, and 0.5 when nothing is memorized."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from memorisk.runs.errors import InputError
from memorisk.scores.twin_attacks import (
    ATTACKS,
    MEMBER,
    NEITHER,
    NON_MEMBER,
    SPREAD_FLOOR,
    attack_scores,
    attack_spec,
    gaussian_likelihood_ratio,
)
from memorisk.statistics.roc import auc, seed_auc_jackknife
from tests.thorough import thorough

ATTACKING = [name for name, spec in ATTACKS.items() if not spec.control]


def twin_losses(rng, *, seeds=6, canaries=300, held_out=200, memorized=0.0, model_sd=0.0):
    """Losses of twins on canaries halved anew per seed, and on a test part; ``memorized`` nats less where seen.

    ``model_sd``: of what each model adds to all its losses.
    """
    n = canaries + held_out
    sign = np.zeros((seeds, n), dtype=int)
    for row in sign:
        row[:canaries] = rng.permutation(np.arange(canaries) % 2) * 2 - 1
    difficulty = rng.gamma(2.0, 1.0, n)
    shared = rng.normal(0, 0.4, (seeds, n))  # twins share their initialisation and batch order
    loss_a = difficulty + 5 + shared + rng.normal(0, 0.4, (seeds, n)) - memorized * (sign > 0)
    loss_b = difficulty + 5 + shared + rng.normal(0, 0.4, (seeds, n)) - memorized * (sign < 0)
    if model_sd:
        loss_a, loss_b = (loss + model_sd * rng.standard_normal((seeds, 1)) for loss in (loss_a, loss_b))
    return loss_a, loss_b, sign, np.arange(n) >= canaries


def test_every_attack_is_registered_under_its_own_name():
    assert list(ATTACKS) == [
        "loss_threshold",
        "confidence_ratio",
        "differential",
        "gaussian_likelihood_ratio",
        "independent_loss",
    ]
    assert [name for name, spec in ATTACKS.items() if spec.control] == ["independent_loss"]
    assert [name for name, spec in ATTACKS.items() if not spec.uses_twin] == ["loss_threshold"]
    with pytest.raises(InputError, match="Did you mean 'loss_threshold'"):
        attack_spec("loss_treshold")


def test_simple_scores_are_their_formulas():
    loss_a, loss_b, sign, held_out = twin_losses(np.random.default_rng(0), seeds=1)
    c1, c2 = sign[0] > 0, sign[0] < 0
    p_a, p_b = np.exp(-loss_a[0]), np.exp(-loss_b[0])
    by_name = {name: attack_scores(name, loss_a, loss_b, sign, held_out) for name in ATTACKS}
    np.testing.assert_array_equal(by_name["loss_threshold"].score[0], -loss_a[0])
    for mask in (c1, held_out):
        np.testing.assert_allclose(by_name["confidence_ratio"].score[0][mask], np.log(p_a / p_b)[mask], rtol=1e-9)
        np.testing.assert_array_equal(by_name["differential"].score[0][mask], (loss_b - loss_a)[0][mask])
        np.testing.assert_array_equal(by_name["independent_loss"].score[0][mask], -loss_b[0][mask])
    assert np.isnan(by_name["differential"].score[0][c2]).all()
    # From single-pass losses the paper's confidence ratio is M: the two columns must show the same AUC.
    role = by_name["differential"].role[0]
    aucs = [
        auc(by_name[n].score[0][role == 1], by_name[n].score[0][role == 0])
        for n in ("confidence_ratio", "differential")
    ]
    assert aucs[0] == pytest.approx(aucs[1], abs=1e-12)


def test_twin_attacks_take_non_members_from_the_test_part_only():
    loss_a, loss_b, sign, held_out = twin_losses(np.random.default_rng(1))
    sign[0, :5] = 0  # without a partner in seed 0: both twins saw them
    for name, spec in ATTACKS.items():
        role = attack_scores(name, loss_a, loss_b, sign, held_out).role
        assert (role[sign > 0] == MEMBER).all()
        assert (role[:, held_out] == NON_MEMBER).all()
        assert (role[sign < 0] == (NEITHER if spec.uses_twin else NON_MEMBER)).all()
        assert (role[0, :5] == NEITHER).all()


def test_twin_attack_on_c2_would_measure_the_twin():
    """Why E only: with C2 as non-members the control itself separates the sides."""
    rng = np.random.default_rng(2)
    loss_a, loss_b, sign, held_out = twin_losses(rng, memorized=1.0)
    group = np.arange(sign.shape[1])
    control = attack_scores("independent_loss", loss_a, loss_b, sign, held_out)
    assert seed_auc_jackknife(control.score, control.role, group).contains(0.5)
    loose = replace(ATTACKS["independent_loss"], uses_twin=False)
    wrong = attack_scores(loose, loss_a, loss_b, sign, held_out)
    assert seed_auc_jackknife(wrong.score, wrong.role, group).high < 0.5


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_memorized_gives_half_and_memorized_gives_more(name):
    rng = np.random.default_rng(3)
    nulls = []
    for _ in range(200):
        s = attack_scores(name, *twin_losses(rng, seeds=4))
        nulls.append(np.mean([auc(x[r == 1], x[r == 0]) for x, r in zip(s.score, s.role, strict=True)]))
    assert abs(np.mean(nulls) - 0.5) < 2 * np.std(nulls, ddof=1) / np.sqrt(len(nulls))
    found = attack_scores(name, *twin_losses(rng, memorized=1.0))
    interval = seed_auc_jackknife(found.score, found.role, np.arange(found.score.shape[1]))
    assert interval.contains(0.5) if name == "independent_loss" else interval.low > 0.5


@pytest.mark.parametrize("seeds", [2, 3, thorough(8)])
@pytest.mark.parametrize("name", ATTACKS)
def test_models_that_differ_in_all_losses_are_no_membership(name, seeds):
    """The share of intervals that leave out 0.5 where nobody is memorized: nominal 5 %, and two sd of 120 tables."""
    rng = np.random.default_rng(7)
    outside = []
    for _ in range(120):
        found = attack_scores(name, *twin_losses(rng, seeds=seeds, canaries=60, held_out=40, model_sd=1.0))
        outside.append(not seed_auc_jackknife(found.score, found.role, np.arange(100)).contains(0.5))
    assert np.mean(outside) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 120)


def test_an_image_of_the_test_part_gets_the_models_in_the_order_of_a_member():
    loss_a, loss_b, sign, held_out = twin_losses(np.random.default_rng(8), seeds=4, canaries=40, held_out=25)
    seen = np.where(sign < 0, loss_b, loss_a)
    unseen = np.where(sign < 0, loss_a, loss_b)
    got = attack_scores("gaussian_likelihood_ratio", loss_a, loss_b, sign, held_out).score
    own = gaussian_likelihood_ratio(seen, unseen)
    np.testing.assert_array_equal(got[sign > 0], own[sign > 0])
    for s in range(4):
        members = np.flatnonzero(sign[s] > 0)
        for i in range(25):
            order = sign[:, members[i * len(members) // 25]]
            x = 40 + i
            first, second = (
                np.where(order < 0, loss_b[:, x], loss_a[:, x]),
                np.where(order < 0, loss_a[:, x], loss_b[:, x]),
            )
            assert order[s] == 1
            assert got[s, x] == pytest.approx(gaussian_likelihood_ratio(first[:, None], second[:, None])[s, 0])
    everyone = attack_scores("gaussian_likelihood_ratio", loss_a, loss_b, np.where(held_out, 0, 1) + 0 * sign, held_out)
    np.testing.assert_array_equal(everyone.score, gaussian_likelihood_ratio(loss_a, loss_b))  # the paper's design


def test_gaussian_likelihood_ratio_is_the_naive_one():
    rng = np.random.default_rng(4)
    loss_a, loss_b, sign, held_out = twin_losses(rng, seeds=5, canaries=20, held_out=10)
    sign[2, 3] = 0
    loss_b[1, 25] = np.nan
    got = attack_scores("gaussian_likelihood_ratio", loss_a, loss_b, sign, held_out)
    checked = 0
    assert np.isfinite(got.score[:, held_out]).sum() >= 48  # all but the seed that was not asked, and its image's
    for x in range(20):
        seen, unseen = [], []
        for s in range(5):
            if sign[s, x] == 0 or np.isnan(loss_b[s, x]):
                continue
            first, second = (loss_b, loss_a) if sign[s, x] < 0 else (loss_a, loss_b)
            seen.append((s, first[s, x]))
            unseen.append(second[s, x])
        values = [v for _, v in seen]
        for s, value in seen:
            expected = norm.logpdf(value, np.mean(values), np.std(values, ddof=1)) - norm.logpdf(
                value, np.mean(unseen), np.std(unseen, ddof=1)
            )
            if got.role[s, x] != NEITHER:
                assert got.score[s, x] == pytest.approx(expected, rel=1e-10)
                checked += 1
    assert checked == np.isfinite(got.score[:, ~held_out]).sum() > 40
    assert np.isnan(got.score[2, 3])
    assert np.isnan(got.score[1, 25])


def test_gaussian_likelihood_ratio_needs_two_seeds_and_survives_equal_losses():
    one = gaussian_likelihood_ratio(np.ones((1, 3)), np.zeros((1, 3)))
    assert np.isnan(one).all()
    equal = gaussian_likelihood_ratio(np.full((3, 1), 0.25), np.full((3, 1), 0.5))
    expected = norm.logpdf(0.25, 0.25, SPREAD_FLOOR) - norm.logpdf(0.25, 0.5, SPREAD_FLOOR)
    np.testing.assert_allclose(equal, expected)


def test_exchanging_the_twins_attacks_the_other_model():
    loss_a, loss_b, sign, held_out = twin_losses(np.random.default_rng(5), memorized=0.5)
    for name in ATTACKING:
        assert ((attack_scores(name, loss_b, loss_a, -sign, held_out).role == MEMBER) == (sign < 0)).all()
    one = attack_scores("differential", loss_a, loss_b, sign, held_out).score
    other = attack_scores("differential", loss_b, loss_a, -sign, held_out).score
    np.testing.assert_array_equal(other[:, held_out], -one[:, held_out])
    np.testing.assert_array_equal(other[sign < 0], (loss_a - loss_b)[sign < 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, s, e: (a[:, :-1], b, s, e), "must be .seeds, images."),
        (lambda a, b, s, e: (np.where(a > 6, np.inf, a), b, s, e), "must be finite"),
        (lambda a, b, s, e: (a, b, s * 2, e), "signs must be"),
        (lambda a, b, s, e: (a, b, s, ~e), "held-out image has a sign"),
    ],
)
def test_bad_input_is_one_clear_error(change, message):
    with pytest.raises(InputError, match=message) as caught:
        attack_scores("differential", *change(*twin_losses(np.random.default_rng(6))))
    assert "\n" not in str(caught.value)
