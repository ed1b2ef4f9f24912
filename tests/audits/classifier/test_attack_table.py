"""The attacks of an audit: roles, references, the control, and whom the loss attack finds."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from memorisk.audits.classifier.evidence import Evidence, margin_of_loss
from memorisk.audits.classifier.tables.attacks import (
    ALL,
    attack_table,
    attacks_for_verdict,
    of_label,
    paper_attacks,
    reference_attacks,
    without_trainings,
)
from memorisk.scores.lira import lira_scores
from memorisk.scores.rmia import rmia_scores
from memorisk.scores.twin_attacks import ATTACKS, MEMBER, NON_MEMBER
from memorisk.statistics.roc import seed_auc_jackknife
from memorisk.statistics.thresholds import youden_by_folds
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from tests.audits.made_evidence import twin_evidence

TWINS = tuple(ATTACKS)


@pytest.fixture(scope="module")
def planted() -> Evidence:
    return twin_evidence(sizes={"a": 24, "b": 40}, n_test=20, planted={"a": 1.0}, group_size=2)


@pytest.fixture(scope="module")
def table(planted):
    return attack_table(planted)


def test_each_attack_stands_for_all_classes_and_for_each(table, planted):
    rows, curves, _ = table
    names = (*TWINS, "lira_offline", "rmia_offline", "lira_online", "rmia_online")
    assert list(dict.fromkeys(rows["attack"])) == list(names)
    assert set(curves) == set(names)
    assert rows.groupby("attack")["label"].apply(list).map(tuple).unique().tolist() == [(ALL, "a", "b")]
    assert not rows[["label", "attack"]].duplicated().any()


def test_the_aucs_are_means_over_seeds_of_plain_aucs(table, planted):
    rows = table[0].set_index(["attack", "label"])
    items, sign = planted.items, np.concatenate([planted.sign, -planted.sign])  # model A of each seed, then model B
    test, a = items.split == "test", items.label == "a"
    losses = np.concatenate([planted.loss_a, planted.loss_b])
    for name, target, others in (
        ("loss_threshold", -losses, (sign < 0) | test),  # C2 and E
        ("differential", np.roll(losses, 8, axis=0) - losses, np.broadcast_to(test, sign.shape)),  # E only
    ):
        for label, own in ((ALL, np.ones(len(items), dtype=bool)), ("a", a)):
            by_hand = []
            for s in range(16):
                used = own & ((sign[s] > 0) | others[s])
                by_hand.append(roc_auc_score(sign[s, used] > 0, target[s, used]))
            row = rows.loc[(name, label)]
            assert row["auc"] == pytest.approx(np.mean(by_hand))
            assert row["low"] < row["auc"] < row["high"]
    of_a = sign[:, a & (items.split == "canary")]
    assert rows.loc[("loss_threshold", "a"), "n_members"] == round((of_a > 0).sum(axis=1).mean())
    assert rows.loc[("loss_threshold", "a"), "n_non_members"] == round((of_a < 0).sum(axis=1).mean() + 40)
    assert rows.loc[("differential", "a"), "n_non_members"] == 40


def test_references_are_the_other_seeds_and_the_population_is_the_test_part(planted):
    found = {a.name: a for a in reference_attacks(planted)}
    sign, test, s = planted.sign, planted.items.split == "test", 3
    others = [t for t in range(8) if t != s]
    seen = lambda a, b: np.stack([np.where(sign[t] > 0, a[t], np.where(sign[t] < 0, b[t], np.nan)) for t in others])  # noqa: E731
    scored = sign[s] != 0
    lira = lira_scores(
        np.where(scored, planted.margin_a[s], np.nan),
        seen(planted.margin_a, planted.margin_b),
        seen(planted.margin_b, planted.margin_a),
        mode="online",
    )
    np.testing.assert_allclose(found["lira_online"].score[s, scored], lira[scored])
    rmia = rmia_scores(
        np.where(scored, -planted.loss_a[s], np.nan),
        None,
        -seen(planted.loss_b, planted.loss_a),
        -planted.loss_a[s, test],
        -np.concatenate([planted.loss_a[others][:, test], planted.loss_b[others][:, test]]),
        mode="offline",
        log=True,
    )
    np.testing.assert_allclose(found["rmia_offline"].score[s, scored], rmia[scored])
    of_b, both = {a.name: a for a in reference_attacks(planted.mirrored)}, np.concatenate([sign, -sign])
    for attack in found.values():
        np.testing.assert_array_equal(attack.score[8:], of_b[attack.name].score[:8])
        assert attack.seed.tolist() == [*planted.seeds] * 2
        assert (attack.role[both > 0] == MEMBER).all()
        assert (attack.role[both < 0] == NON_MEMBER).all()
        assert not np.isin(attack.role[:, test], (MEMBER, NON_MEMBER)).any()  # nobody of the population is scored
        assert np.isnan(attack.score[:, test]).all()


@pytest.mark.parametrize(
    ("n_seeds", "expected"),
    [(1, set()), (2, set()), (3, {"offline"}), (7, {"offline"}), (8, {"offline", "online"})],
)
def test_reference_attacks_need_enough_seeds(n_seeds, expected):
    evidence = twin_evidence(sizes={"a": 10}, n_test=6, n_seeds=n_seeds)
    assert {a.name for a in reference_attacks(evidence)} == {f"{n}_{m}" for n in ("lira", "rmia") for m in expected}
    fewer = set(TWINS) - {"gaussian_likelihood_ratio"}
    assert {a.name for a in paper_attacks(evidence)} == (fewer if n_seeds == 1 else set(TWINS))
    assert reference_attacks(replace(evidence, design="paper")) == []


def test_what_is_defined_for_answers_alone_is_no_attack_on_losses_of_generators():
    evidence = twin_evidence(sizes={"a": 10}, n_test=6, n_seeds=4)
    assert [a.name for a in paper_attacks(evidence, NOISE_ERROR)] == [n for n in TWINS if n != "confidence_ratio"]
    rows, curves, _ = attack_table(evidence, scale=NOISE_ERROR)
    assert "confidence_ratio" not in {*rows["attack"], *curves}


@pytest.mark.thorough
def test_without_memorization_no_attack_finds_anybody_and_the_control_passes():
    """Mean AUC over fresh tables within 2 sd of one half; the interval of the control contains it in 95 % of tables."""
    aucs: dict[str, list[float]] = {}
    passed = []
    for repeat in range(20):
        rows = attack_table(twin_evidence(sizes={"a": 20}, n_test=14, group_size=2, seed=repeat))[0]
        rows = rows[rows["label"] == ALL].set_index("attack")
        for name, value in rows["auc"].items():
            aucs.setdefault(str(name), []).append(value)
        control = rows.loc["independent_loss"]
        assert control["control"]
        passed.append(control["low"] <= 0.5 <= control["high"])
        assert ("and does" in control["note"]) == passed[-1]
    for name, values in aucs.items():
        assert abs(np.mean(values) - 0.5) < 2 * np.std(values, ddof=1) / np.sqrt(20) + 1e-12, name
    assert np.mean(passed) >= 0.95 - 2 * np.sqrt(0.0475 / 20)


def test_the_control_says_when_members_differ_before_training(planted):
    canary = planted.items.split == "canary"
    unfair = replace(planted, loss_a=planted.loss_a + 2 * canary, loss_b=planted.loss_b + 2 * canary)
    rows = attack_table(unfair)[0].set_index(["attack", "label"])
    assert "does not contain 0.5" in rows.loc[("independent_loss", ALL), "note"]


def test_rates_that_cannot_be_measured_are_not_given(table):
    rows = table[0].set_index(["attack", "label"])
    assert rows["tpr_at_01pct"].isna().all()
    assert rows["tpr_at_1pct"].isna().all()
    assert "at least 1,000 needed" in rows.loc[("loss_threshold", ALL), "note"]
    large = twin_evidence(sizes={"a": 700}, n_test=700, n_seeds=2, planted={"a": 1.0})
    loss = attack_table(large)[0].set_index(["attack", "label"]).loc[("loss_threshold", ALL)]
    rates = []
    losses = np.concatenate([large.loss_a, large.loss_b])
    for sign, score in zip(np.concatenate([large.sign, -large.sign]), -losses, strict=True):
        others = np.sort(score[(sign < 0) | (large.items.split == "test")])[::-1]
        assert len(others) >= 1000
        rates.append((score[sign > 0] > others[len(others) // 100]).mean())
    assert loss["tpr_at_1pct"] == pytest.approx(np.mean(rates))


def test_success_is_an_accusation_at_a_threshold_from_other_folds(table, planted):
    """Shares of the members with large and small M whom the loss attack accuses, M from the other seeds."""
    agreement = table[2].other_seeds
    sign, items = planted.sign, planted.items
    high, low = [], []
    for s in range(8):
        used = (sign[s] != 0) | (items.split == "test")
        members = sign[s] > 0
        found = youden_by_folds(-planted.loss_a[s, used], members[used], items.group[used].astype(str))
        accused = dict(zip(np.flatnonzero(used), found.accused, strict=True))
        for i in np.flatnonzero(members):
            m = np.mean([sign[t, i] * (planted.loss_b - planted.loss_a)[t, i] for t in range(8) if t != s])
            (high if m > 0.3 else low if m <= 0.1 else []).append(accused[i])
    assert (agreement.n_high, agreement.n_low) == (len(high), len(low))
    assert agreement.success_high == pytest.approx(np.mean(high))
    assert agreement.success_low == pytest.approx(np.mean(low))
    assert agreement.difference.estimate == pytest.approx(np.mean(high) - np.mean(low))
    rho = agreement.spearman
    assert rho.low < rho.estimate < rho.high


def test_by_the_strongest_attack_of_the_paper_m_agrees_with_itself():
    """Nobody memorized, hard images noisier: the loss threshold says something else than the loss difference, M."""
    rng = np.random.default_rng(2)
    evidence = twin_evidence(sizes={"a": 300}, n_test=150, n_seeds=4)
    hard = rng.random(450) < 0.3
    noise = rng.normal(size=(2, 4, 450)) * np.where(hard, 1.0, 0.05)
    losses = np.where(hard, 4.0, 0.5) + noise.clip(-3, 3) + np.where(hard, 0.0, 0.2)
    both = attack_table(replace(evidence, loss_a=losses[0].clip(0.01), loss_b=losses[1].clip(0.01)))[2]
    assert both.circular.difference.estimate < 0.3
    assert both.strongest.circular.difference.estimate > 0.5
    assert both.strongest.circular.difference.low > both.strongest.other_seeds.difference.high


def test_one_seed_has_no_agreement():
    assert attack_table(twin_evidence(sizes={"a": 10}, n_test=6, n_seeds=1))[2] is None


def test_a_class_with_one_patient_a_side_is_noted_and_not_a_failure():
    rows, _, agreement = attack_table(twin_evidence(sizes={"a": 2}, n_test=1, n_seeds=3))
    assert not rows["auc"].isna().all()
    assert ((rows["low"] <= rows["auc"]) & (rows["auc"] <= rows["high"]))[rows["auc"].notna()].all()
    assert agreement is None or np.isfinite(agreement.other_seeds.n_high)


def test_references_are_left_out_with_their_training(planted):
    """LiRA and RMIA without a training: it is attacked by nobody, and is nobody's reference."""
    eight = twin_evidence(sizes={"a": 24, "b": 40}, n_test=20, planted={"a": 1.0}, group_size=2, n_seeds=5)
    found = without_trainings(eight, {name: of_label(eight, name) for name in (ALL, "a", "b")})
    assert set(found) == {(f"{n}_offline", label) for n in ("lira", "rmia") for label in (ALL, "a", "b")}
    kept = np.array([0, 1, 3, 4])  # without the third
    for attack in reference_attacks(eight.of_seeds(kept)):
        by_hand = [roc_auc_score(r[r >= 0], s[r >= 0]) for s, r in zip(attack.score, attack.role, strict=True)]
        assert found[attack.name, ALL][2].auc == pytest.approx(np.mean(by_hand))
        assert len(found[attack.name, ALL]) == 5
    assert {len(left) for left in without_trainings(planted, {ALL: planted.items.whole}).values()} == {8}
    three = twin_evidence(sizes={"a": 24}, n_test=20, n_seeds=3)
    assert without_trainings(three, {ALL: three.items.whole}) == {}


def test_online_references_are_shared_and_their_interval_says_so():
    """The table's limits are those with each part left out, where trainings that differ widen them."""
    evidence = twin_evidence(sizes={"a": 100}, n_test=20, planted={"a": 0.3})
    for memory in (0.0, 3.0):  # what the members of the first two seeds gain
        loss = [np.where(member, own * np.exp(-memory * (np.arange(8) < 2)[:, None]), own) for own, member in (
            (evidence.loss_a, evidence.member_a), (evidence.loss_b, evidence.member_b))]  # fmt: skip
        margin = [margin_of_loss(own) for own in loss]
        uneven = replace(evidence, loss_a=loss[0], loss_b=loss[1], margin_a=margin[0], margin_b=margin[1])
        row = attack_table(uneven)[0].set_index(["attack", "label"]).loc[("lira_online", ALL)]
        attack = next(a for a in reference_attacks(uneven) if a.name == "lira_online")
        of_attack = (attack.score, attack.role, uneven.items.group)
        left = without_trainings(uneven, {ALL: uneven.items.whole})["lira_online", ALL]
        shared = seed_auc_jackknife(*of_attack, seed=attack.seed, without=left)
        assert (row["auc"], row["low"], row["high"]) == (shared.estimate, shared.low, shared.high)
        alone = seed_auc_jackknife(*of_attack, seed=attack.seed)
        assert row["auc"] == alone.estimate
        assert shared.high - shared.low >= (alone.high - alone.low) * (1 - 1e-9)


def test_the_verdict_gets_every_attack_that_is_no_control_and_can_be_read(table, planted):
    rows, titles = table[0], {"lira_offline": "LiRA (offline)"}
    found = attacks_for_verdict(rows, None, True, titles)
    assert len(found) == len(TWINS) - 1 + 4  # without the control, with LiRA and RMIA
    assert all(a.comparable and not a.of_target and not a.label for a in found)
    assert {a.name for a in found} >= {"LiRA (offline)", "rmia offline", "loss threshold"}
    lira = next(a for a in found if a.name == "LiRA (offline)")
    row = rows.set_index(["attack", "label"]).loc[("lira_offline", ALL)]
    assert (lira.auc, lira.low, lira.n_models) == (row["auc"], row["low"], 16)
    # Where the test part may be of other data, only attacks between halves that a coin made can be read.
    coins = {"LiRA (offline)", "rmia offline", "lira online", "rmia online"}
    not_random = attacks_for_verdict(rows, None, False, titles)
    assert {a.name for a in not_random if a.comparable} == coins
    canary = planted.items.split == "canary"
    unfair = replace(planted, loss_a=planted.loss_a + 2 * canary, loss_b=planted.loss_b + 2 * canary)
    failing = attacks_for_verdict(attack_table(unfair)[0], None, True, titles)
    assert {a.name for a in failing if a.comparable} == coins


def test_the_gate_is_what_the_p_values_are_about(planted):
    rows = attack_table(planted, 0.55)[0].set_index(["attack", "label"])
    stricter = attack_table(planted, 0.9)[0].set_index(["attack", "label"])
    loss = ("loss_threshold", ALL)
    assert rows.loc[loss, "p_auc"] < stricter.loc[loss, "p_auc"]
    assert rows.loc[loss, "auc"] == stricter.loc[loss, "auc"]


def test_coarser_answers_leave_what_the_same_attack_finds_in_them(planted):
    """Two decimals and the label alone: the attack of the table, on answers that were made coarse by hand."""
    rows = attack_table(planted)[0].set_index(["attack", "label"])
    canary = planted.items.split == "canary"
    for column, answers in (
        ("auc_rounded", lambda loss, correct: np.clip(np.round(np.exp(-loss), 2), 0.005, 0.995)),
        ("auc_label_alone", lambda loss, correct: np.where(correct, 0.75, 0.25)),
    ):
        p_a, p_b = answers(planted.loss_a, planted.correct_a), answers(planted.loss_b, planted.correct_b)
        by_hand = []
        for own, member in ((p_a, planted.member_a), (p_b, planted.member_b)):
            for score, seen in zip(np.log(own), member, strict=True):
                by_hand.append(roc_auc_score(seen & canary, score))
        assert rows.loc[("loss_threshold", ALL), column] == pytest.approx(np.mean(by_hand))
    assert np.isnan(rows.loc[("independent_loss", ALL), "auc_label_alone"])
    assert set(rows["access"]) == {"probabilities"}
    lira = rows.loc[("lira_online", ALL)]
    assert lira["auc_label_alone"] < lira["auc"]
