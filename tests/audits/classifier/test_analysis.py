"""From a score table to a verdict: planted truth is found, nothing where nothing is, and each refusal is told."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.analysis import analyse, class_findings
from memorisk.audits.classifier.attack_numbers import BesideTwins, Replication, TargetAudit
from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.reasons import OtherModel
from memorisk.audits.classifier.tables.classes import gaps_elsewhere
from memorisk.report.page import render_page
from memorisk.report.verdict_forms import FORMS
from memorisk.scores.memorization import feldman_zhang
from memorisk.statistics.intervals.means import these_groups_interval
from memorisk.statistics.memorization.sign_flips import scaled_gaps, typical_error
from memorisk.statistics.multiple_testing.lists import benjamini_hochberg
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from memorisk.statistics.verdicts.units import UnitNames
from tests.audits.made_evidence import twin_evidence
from tests.statistics.memorization.test_sign_flips import naive
from tests.thorough import thorough

OPTIONS = AnalysisOptions()
CONTEXT = Context(design="balanced")


@pytest.fixture(scope="module")
def planted() -> Evidence:
    """A rare class that is memorized, a common one that is not."""
    return twin_evidence(sizes={"rare": 16, "common": 60}, planted={"rare": 1.5}, group_size=2, seed=1)


@pytest.fixture(scope="module")
def result(planted):
    return analyse(planted, OPTIONS, CONTEXT)


def _learned(evidence):
    """The same losses from models that predict nearly every image."""
    return replace(evidence, correct_a=evidence.loss_a < 3, correct_b=evidence.loss_b < 3)


def test_a_planted_class_is_found_and_the_other_is_not(result):
    classes = result.per_class.set_index("label")
    assert classes.loc["rare", "flagged"] > 8
    assert classes.loc["rare", "tier"] == "HIGH"
    assert classes.loc["common", "flagged"] == 0
    assert classes.loc["common", "low"] < 0 < classes.loc["common", "high"]
    assert classes["testable"].all()
    assert result.status == "fail"
    assert any("patients are flagged" in why for why in result.verdict["why"])


def test_the_tables_are_the_definitions(planted, result):
    """Each column against the plainest form of what METHODS says it is."""
    sign, gap, items = planted.sign, planted.loss_b - planted.loss_a, planted.items
    images = result.per_image
    for i in np.flatnonzero(items.split == "canary")[::7]:
        by_hand = np.mean([sign[s, i] * gap[s, i] for s in range(8) if sign[s, i]])
        row = images[images["image"] == items.image[i]].iloc[0]
        assert row["M"] == pytest.approx(by_hand, rel=1e-12)
        assert row["M"] == pytest.approx(row["loss_unseen"] - row["loss_seen"], rel=1e-9)
    assert images.loc[images["split"] == "test", "M"].isna().all()
    fz = feldman_zhang(np.r_[planted.correct_a, planted.correct_b], np.r_[planted.member_a, planted.member_b])
    canary = items.split == "canary"
    np.testing.assert_array_equal(images["fz_memorization"][canary], fz.memorization[canary])
    for label, table in result.per_group.groupby("label"):
        own = images[(images["label"] == label) & images["M"].notna()].groupby("group")["M"]
        mine = table.set_index("group")
        np.testing.assert_allclose(mine["M"], own.max()[mine.index])
        np.testing.assert_allclose(mine["M_mean"], own.mean()[mine.index])
        assert (mine["n_images"] == 2).all()
        np.testing.assert_allclose(mine["adjusted"], benjamini_hochberg(mine["p_value"], 0.1).adjusted)
        groups = [
            [np.mean((sign * gap)[s, items.group == g]) for s in range(8)] for g in sorted(mine.index)
        ]  # each canary group has a partner in every seed here
        interval = these_groups_interval(groups)
        row = result.per_class.set_index("label").loc[label]
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((interval.estimate, interval.low, interval.high))
        assert row["n_groups_scored"] * 2 == row["n_scored"]
        assert row["n"] == row["n_scored"] + 2 * row["n_test_groups"]
        assert row["frequency"] == row["n"] / len(items)
    flagged = set(result.per_group.loc[result.per_group["flagged"], "group"])
    assert set(images.loc[images["flagged"], "group"]) == flagged
    assert result.per_class["flagged"].sum() == len(flagged)


def test_a_groups_p_value_is_the_share_of_all_flips_that_reach_it():
    """Over all groups of its class, scored and unseen, all 2^S flips, the observed one counted."""
    evidence = twin_evidence(sizes={"a": 8}, n_test=5, n_seeds=3, group_size=2)
    groups = class_findings(evidence, OPTIONS, CONTEXT)[0].groups
    assert not groups["flagged"].any()  # who is listed leaves the null
    gap, group, canary = evidence.gap, evidence.items.group.astype(str), evidence.items.split == "canary"
    by_hand = naive(gap[:, canary], evidence.sign[:, canary], group[canary], gap[:, ~canary], group[~canary])
    assert len(groups) == len(by_hand) == 8
    for _, row in groups.iterrows():
        assert row["p_value"] == pytest.approx(by_hand[row["group"]], abs=1e-12)


def test_gaps_elsewhere_are_the_scaled_gaps_of_all_other_classes():
    evidence = twin_evidence(sizes={"a": 6, "b": 4, "c": 9}, n_test=3, n_seeds=4, spread=True, group_size=2)
    items = evidence.items
    elsewhere = gaps_elsewhere(evidence)
    scaled = {}
    for label in elsewhere:
        of_class = items.label == label
        gap = np.where(items.split == "test", 1, evidence.sign)[:, of_class] * evidence.gap[:, of_class]
        scaled[label] = dict(zip(items.image[of_class], scaled_gaps(gap, typical_error(gap)).T, strict=True))
    for label, others in elsewhere.items():
        groups = [f"canary-{g}" for g in range({"a": 6, "b": 4, "c": 9}[label])] + [f"test-{g}" for g in range(3)]
        by_hand = [
            [gap for other in scaled if other != label for image, gap in scaled[other].items() if f"-{group}-" in image]
            for group in groups
        ]
        np.testing.assert_allclose(others.sums.T, [np.broadcast_to(sum(gaps), 4) for gaps in by_hand], atol=1e-12)
        assert others.sizes.tolist() == [len(gaps) for gaps in by_hand]
    assert (elsewhere["c"].sums[:, 6:9] == 0).all()  # three patients of one class
    assert gaps_elsewhere(twin_evidence(sizes={"a": 6, "b": 4}, n_test=3, n_seeds=4)) == {}
    assert gaps_elsewhere(replace(evidence, items=replace(items, label=np.where(items.label == "a", WHOLE, "b")))) == {}


def test_memory_that_is_spread_thinly_over_classes_is_listed():
    """A gap about as large as the noise of an image, in each of a patient's 12 images of six classes."""
    listed = {0.0: 0, 0.25: 0}
    for gap in listed:
        for seed in range(3):
            classes = dict.fromkeys("abcdef", 20)
            evidence = twin_evidence(sizes=classes, n_test=10, group_size=2, spread=True, seed=seed)
            of_one = evidence.items.group == "canary-7"
            loss_a, loss_b = (
                np.where(of_one & ~member, loss + gap, loss)
                for loss, member in ((evidence.loss_a, evidence.member_a), (evidence.loss_b, evidence.member_b))
            )
            spread = replace(evidence, loss_a=loss_a, loss_b=loss_b)
            groups = pd.concat(f.groups for f in class_findings(spread, OPTIONS, CONTEXT, advise=False))
            listed[gap] += groups.loc[groups["flagged"], "group"].eq("canary-7").any()
    assert listed == {0.0: 0, 0.25: 3}


def test_nothing_memorized_gives_uniform_p_values_in_rare_and_common_classes():
    """Share of p <= .05 over fresh tables: .05 +- 2 sqrt(.0475 (1/m + 1/n) / repeats), m canary and n test groups."""
    repeats, sizes, n_test = 30, {"rare": 10, "common": 50}, 20
    small = dict.fromkeys(sizes, 0)
    listed = 0
    for repeat in range(repeats):
        evidence = twin_evidence(sizes=sizes, n_test=n_test, n_seeds=5, group_size=2, seed=100 + repeat)
        findings = class_findings(evidence, OPTIONS, CONTEXT)
        for found in findings:
            small[str(found.row["label"])] += int((found.groups["p_value"] <= 0.05).sum())
        listed += any(found.groups["flagged"].any() for found in findings)
    for label, m in sizes.items():
        band = 2 * np.sqrt(0.0475 * (1 / m + 1 / n_test) / repeats)
        assert abs(small[label] / (m * repeats) - 0.05) < band, label
    assert listed / repeats < 0.1 + 2 * np.sqrt(0.09 / repeats)


def exchanged(evidence: Evidence) -> Evidence:
    """The twins' losses under each other's name; who was trained on what stays."""
    return replace(evidence, loss_a=evidence.loss_b, loss_b=evidence.loss_a)


@pytest.mark.thorough
def test_exchanging_the_two_loss_columns_negates_everything(planted):
    context = replace(CONTEXT)
    first, second = (class_findings(e, OPTIONS, context) for e in (planted, exchanged(planted)))
    one, other = (analyse(e, OPTIONS, context) for e in (planted, exchanged(planted)))
    np.testing.assert_array_equal(one.per_image["M"], -other.per_image["M"])
    np.testing.assert_allclose(one.summary["null"]["members"], -np.array(other.summary["null"]["members"])[::-1])
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.table, -b.table)
        assert (a.row["mean"], a.row["low"], a.row["high"]) == pytest.approx(
            (-b.row["mean"], -b.row["high"], -b.row["low"]), abs=1e-12
        )
    aucs = [r.attacks[r.attacks["label"] == "(all)"].set_index("attack")["auc"] for r in (one, other)]
    assert aucs[0]["differential"] == pytest.approx(1 - aucs[1]["differential"], abs=1e-12)
    # The pool of the null is symmetric: p of an image against the mirrored one's counts the other tail.
    alone = twin_evidence(sizes={"a": 12}, n_test=6, n_seeds=4)
    p, mirrored = (class_findings(e, OPTIONS, context)[0].groups for e in (alone, exchanged(alone)))
    total = p["p_value"].to_numpy() + mirrored["p_value"].to_numpy()
    np.testing.assert_allclose(total, 1 + 1 / ((12 + 6) * 16), atol=1e-12)  # the observed one is in both tails


def test_the_paper_design_has_ranks_for_p_values():
    """p = (1 + #{L_ind - L_cand of class test images >= M}) / (n_c + 1), no flips."""
    evidence = twin_evidence(sizes={"a": 20}, n_test=15, n_seeds=3)
    paper = replace(
        evidence,
        design="paper",
        loss_a=np.where(evidence.items.split == "canary", 0.6, 1.0) * evidence.loss_a,
        member_a=np.broadcast_to(evidence.items.split == "canary", evidence.member_a.shape),
        member_b=np.zeros_like(evidence.member_b),
    )
    found = analyse(paper, OPTIONS, replace(CONTEXT, design="paper", protocol="paper"))
    gap = (paper.loss_b - paper.loss_a).mean(axis=0)
    null = gap[paper.items.split == "test"]
    groups = found.per_group.set_index("group")
    for i in np.flatnonzero(paper.items.split == "canary"):
        by_hand = (1 + np.sum(null >= gap[i])) / (len(null) + 1)
        assert groups.loc[paper.items.group[i], "p_value"] == pytest.approx(by_hand)
    assert found.summary["form"].startswith("the published form")
    assert not found.attacks["attack"].str.startswith(("lira", "rmia")).any()


def test_a_class_that_is_not_auditable_leaves_the_others_audited():
    evidence = twin_evidence(sizes={"a": 20, "tiny": 4}, n_test=8, n_seeds=4, planted={"a": 1.0})
    tiny = evidence.items.label == "tiny"
    items = replace(evidence.items, split=np.where(tiny, "train", evidence.items.split))
    forced = replace(evidence, items=items, member_a=evidence.member_a | tiny, member_b=evidence.member_b | tiny)
    found = analyse(forced, OPTIONS, replace(CONTEXT, not_auditable=["tiny"]))
    classes = found.per_class.set_index("label")
    assert classes.loc["tiny", "why_not"] == "not auditable: too few groups to split"
    assert classes.loc["tiny", "tier"] == "insufficient evidence"
    assert not classes.loc["tiny", "testable"]
    assert classes.loc["a", "flagged"] > 0
    assert found.verdict["not_scored"]["not_auditable"] == ["tiny"]
    assert found.verdict["not_scored"]["not_scored_images"] == 12
    quiet = twin_evidence(sizes={"a": 60, "tiny": 4}, n_test=40, n_seeds=6)
    items = replace(quiet.items, split=np.where(quiet.items.label == "tiny", "train", quiet.items.split))
    tiny = quiet.items.label == "tiny"
    quiet = replace(quiet, items=items, member_a=quiet.member_a | tiny, member_b=quiet.member_b | tiny)
    assert analyse(quiet, OPTIONS, replace(CONTEXT, not_auditable=["tiny"])).status == "undecided"


def test_a_split_that_is_not_random_has_no_p_values_and_cannot_pass():
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    passed = analyse(evidence, OPTIONS, CONTEXT)
    assert passed.status == "pass"
    assert "no attack that was tried reaches AUC 0.6 (0.5 is guessing): the nearest, " in passed.verdict["why"][-1]
    found = analyse(evidence, OPTIONS, replace(CONTEXT, random_split=False))
    assert found.per_group["p_value"].isna().all()
    assert found.per_image["p_value"].isna().all()
    assert not found.per_class["testable"].any()
    assert found.status == "undecided"
    assert "--splits given-random" in found.verdict["what_would_decide"][0]
    few = analyse(evidence.of_seeds(np.array([0, 1])), OPTIONS, replace(CONTEXT, random_split=False))
    ways = few.verdict["what_would_decide"]
    assert "--splits given-random" in ways[0]  # before models are trained that would decide nothing
    assert ways[1] == "losses of about 6 models, 2 more than these"
    assert "not known to be random" in few.verdict["why"][0]


def test_canaries_that_do_not_look_like_test_images_have_no_p_values():
    evidence = twin_evidence(sizes={"a": 60, "b": 60}, n_test=30)
    shifted = (evidence.items.label == "a") & (evidence.items.split == "test")
    harder = replace(evidence, loss_a=evidence.loss_a + shifted, loss_b=evidence.loss_b + shifted)
    found = analyse(harder, OPTIONS, CONTEXT)
    classes = found.per_class.set_index("label")
    assert classes.loc["a", "prerequisite_p"] < 0.01
    assert "differ from test images" in classes.loc["a", "why_not"]
    assert classes.loc["b", "why_not"] == ""
    assert found.per_group.loc[found.per_group["label"] == "a", "p_value"].isna().all()
    assert found.per_group.loc[found.per_group["label"] == "b", "p_value"].notna().all()
    assert found.status == "undecided"


def test_multi_label_images_are_items_under_each_finding():
    """An image with two findings has an M for each; its patient is tested in each class."""
    evidence = twin_evidence(sizes={"a": 30}, n_test=12, n_seeds=5, planted={"a": 1.0})
    items = evidence.items
    twice = replace(items, label=np.full(len(items), "b", dtype=object))
    both = replace(
        items, **{n: np.r_[getattr(items, n), getattr(twice, n)] for n in ("image", "label", "group", "split")}
    )
    names = [f"{kind}_{half}" for kind in ("loss", "margin", "correct", "member") for half in "ab"]
    flat = {n: np.c_[getattr(evidence, n), getattr(evidence, n)] for n in names}
    found = analyse(replace(evidence, items=both, **flat), OPTIONS, CONTEXT)
    assert found.summary["n_images"] == 42
    assert found.summary["n_canary"] == 30
    assert len(found.per_image) == 84
    a, b = (found.per_class[found.per_class["label"] == c].drop(columns="label").iloc[0] for c in "ab")
    pd.testing.assert_series_equal(a, b, check_names=False)
    assert a["frequency"] == 1.0  # every image has the finding
    assert found.per_image.groupby("image")["M"].nunique().max() == 1


def test_seeds_in_which_a_patient_had_no_partner_are_left_out():
    evidence = twin_evidence(sizes={"a": 20}, n_test=10, n_seeds=4)
    first = evidence.items.group == "a-canary-0"
    never = evidence.items.group == "a-canary-1"
    both = evidence.member_a | evidence.member_b
    alone = np.where(np.arange(4)[:, None] < 2, first, False) | never
    joined = replace(evidence, member_a=evidence.member_a | (alone & both), member_b=evidence.member_b | (alone & both))
    found = analyse(joined, OPTIONS, CONTEXT)
    images = found.per_image.set_index("group")
    assert images.loc["a-canary-0", "n_seeds"] == 2
    assert images.loc["a-canary-0", "M"] == pytest.approx(np.mean((evidence.sign * evidence.gap)[2:, first]))
    assert np.isnan(images.loc["a-canary-1", "M"])
    assert found.verdict["not_scored"]["without_partner"] == 1
    assert found.verdict["not_scored"]["not_scored_images"] == 1
    assert "a-canary-1" not in set(found.per_group["group"])


def test_the_verdict_file_says_all_that_a_pipeline_needs(result):
    verdict = result.verdict
    assert set(verdict) == {
        *(
            "schema",
            "audit",
            "audited",
            "gate",
            "status",
            "reasons",
            "why",
            "what_would_decide",
            "tiers",
            "flagged_groups",
            "level",
        ),
        *(
            "not_scored",
            "aucs",
            "design",
            "protocol",
            "n_models",
            "seeds",
            "data_hash",
            "target",
            "versions",
            "left_out",
            "rule",
            "noticeable",
            "checks",
        ),
    }
    assert verdict["schema"] == 2
    rule = {
        "form": FORMS["classifier"],
        "level": 0.1,
        "correction": "bh",
        "power": 0.9,
        "notice": 2.0,
        "attack_gate": 0.6,
    }
    assert verdict["rule"] == rule
    largest = result.per_class["noticeable_gap"].max()
    assert verdict["noticeable"]["gap"] == (largest if np.isfinite(largest) else None)
    assert verdict["n_models"] == 16
    assert verdict["tiers"] == {"rare": "HIGH", "common": "LOW"}
    assert verdict["aucs"]["independent_loss"]["control"]
    assert sum(not a["control"] for a in verdict["aucs"].values()) == 8


def test_without_a_gate_the_status_still_says_what_was_found(planted):
    found = analyse(planted, AnalysisOptions(fail_on="never"), CONTEXT)
    assert (found.verdict["gate"], found.status) == ("never", "fail")


def test_a_given_model_unlike_its_twins_does_not_pass_by_them():
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    better = BesideTwins(target=0.011, twins=0.2, low=0.1, high=0.4, within=False)
    target = TargetAudit(replication=Replication(replicated=False, loss_members=better))
    found = analyse(evidence, OPTIONS, replace(CONTEXT, model="small_cnn", target=target))
    assert found.status == "undecided"
    assert found.verdict["why"] == [
        "the given model is another model than the twins (its loss on what it was trained on is 0.011, one more twin's "
        "0.1 to 0.4): only the attacks on it speak for it"
    ]
    target = TargetAudit(replication=Replication(replicated=True, loss_members=better))
    assert analyse(evidence, OPTIONS, replace(CONTEXT, target=target)).status == "pass"


def test_losses_of_generators_are_compared_by_their_difference_in_sd():
    beside = BesideTwins(target=74_500.0, twins=74_600.0, low=74_598.5, high=74_601.5, within=False)
    reason = OtherModel(outside=(beside,), names=("test loss",), units=UnitNames(scale=NOISE_ERROR.name))
    assert "(its test loss less the twins' mean is -100 SD, one more twin's -1.5 to 1.5 SD)" in reason.text


def test_everybody_a_little_memorized_fails_by_the_attacks():
    """No mean near the tier, nobody on a list, and yet attacks tell who was in the training."""
    quiet = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80, n_seeds=6))
    member = [np.where(quiet.items.split == "canary", m, False) for m in (quiet.member_a, quiet.member_b)]
    lower = [np.maximum(v - 0.09 * m, 1e-4) for v, m in zip((quiet.loss_a, quiet.loss_b), member, strict=True)]
    margin = [-v - np.log(-np.expm1(-v)) for v in lower]
    steady = replace(quiet, loss_a=lower[0], loss_b=lower[1], margin_a=margin[0], margin_b=margin[1])
    found = analyse(steady, OPTIONS, CONTEXT)
    assert (found.per_class["high"] < 0.3).all()
    assert found.status == "fail"
    told = "an attack tells who was in the training (AUC 0.5 is guessing): "
    assert any(reason.startswith(told) for reason in found.verdict["why"])
    lenient = analyse(steady, AnalysisOptions(attack_gate=0.95), CONTEXT)
    assert not any(reason.startswith(told) for reason in lenient.verdict["why"])
    assert found.verdict["rule"]["attack_gate"] == 0.6


def test_the_page_says_what_a_flag_means_in_the_words_of_METHODS(result):
    page = render_page(classifier_page(result))
    text = " ".join(page.replace("\u00a0", " ").split())
    for words in (
        "its loss gap exceeds what retraining and the other canaries do to unseen images of its class",
        "not what an attacker without the twin can see",
        "handle it as personal data",
    ):
        assert words in text
    assert "Rank correlation of M with the success of the loss attack" in text


def test_models_that_learned_nothing_pass_nothing():
    evidence = twin_evidence(sizes={"a": 150, "b": 150}, n_test=80)
    assert analyse(_learned(evidence), OPTIONS, CONTEXT).status == "pass"
    coin = np.random.default_rng(0).random((2, *evidence.loss_a.shape)) < 0.5
    found = analyse(replace(evidence, correct_a=coin[0], correct_b=coin[1]), OPTIONS, CONTEXT)
    assert found.status == "undecided"
    assert "not surely better than guessing on unseen images" in found.verdict["why"][0]
    assert "losses of the models that it makes" in found.what_would_decide[0]
    here = replace(CONTEXT, training={"epochs": 3})
    found = analyse(replace(evidence, correct_a=coin[0], correct_b=coin[1]), OPTIONS, here)
    assert "(--epochs, --lr, --model, --weights)" in found.what_would_decide[0]


def test_without_patient_ids_a_pass_needs_that_nobody_has_two_images():
    """Images of a patient on both sides of the split: the unseen ones are remembered, too, and hide it."""
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    unknown = replace(CONTEXT, groups_given=False)
    found = analyse(evidence, OPTIONS, unknown)
    assert found.status == "undecided"
    assert found.verdict["why"][0].startswith("no patient ids were given")
    assert "--one-image-per-patient" in found.verdict["what_would_decide"][0]
    partly = analyse(evidence, OPTIONS, replace(CONTEXT, n_without_group=7))
    assert partly.status == "undecided"
    assert partly.verdict["why"][0].startswith("7 images have no patient id: a patient with images in training")
    passed = analyse(evidence, replace(OPTIONS, one_image_per_patient=True), unknown)
    assert passed.status == "pass"
    assert passed.verdict["why"][-1].startswith("no patient has two images, as the user stated")


def test_patients_without_a_partner_leave_it_undecided():
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    alone = evidence.items.group == evidence.items.group[evidence.items.split == "canary"][0]
    both = replace(evidence, member_a=evidence.member_a | alone, member_b=evidence.member_b | alone)
    found = analyse(both, OPTIONS, CONTEXT)
    assert found.status == "undecided"
    assert found.verdict["not_scored"]["without_partner"] == 1
    assert "1 patient (1 image) had no partner" in found.verdict["why"][0]
    alone = analyse(both, replace(OPTIONS, one_image_per_patient=True), replace(CONTEXT, groups_given=False))
    assert "1 image had no partner" in alone.verdict["why"][0]


@pytest.mark.parametrize("planted", [thorough(None), {"a": 0.5}, thorough({"a": 4.0})])
def test_level_and_correction_change_lists_and_no_verdict(planted):
    """A stricter list is shorter, and no way to pass: whatever is asked for, the verdict and its reasons stand."""
    evidence = _learned(twin_evidence(sizes={"a": 60, "b": 60}, n_test=30, planted=planted))
    asked = [(0.001, "bh"), (0.1, "bh"), (0.5, "bh"), (0.1, "by"), (0.02, "bh-within")]
    found = {(q, how): analyse(evidence, AnalysisOptions(level=q, correction=how), CONTEXT) for q, how in asked}
    said = {(r.status, *r.verdict["why"], *r.verdict["what_would_decide"]) for r in found.values()}
    assert len(said) == 1
    if planted:
        lengths = [found[level, "bh"].per_class["flagged"].sum() for level in (0.001, 0.1, 0.5)]
        assert lengths == sorted(lengths)
        assert lengths[0] < lengths[-1]
    for result in found.values():
        assert result.per_class["verdict_flagged"].tolist() == found[0.1, "bh"].per_class["flagged"].tolist()


@pytest.mark.thorough
def test_a_stricter_notice_never_passes_what_a_looser_one_does_not():
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    statuses = [analyse(evidence, AnalysisOptions(notice=n), CONTEXT).status for n in (0.3, 0.6, 1.0, 2.0, 8.0)]
    assert statuses == sorted(statuses, key=["undecided", "pass"].index)
    assert set(statuses) == {"undecided", "pass"}


def test_few_models_pass_nobody_and_name_the_models_that_would():
    evidence = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80, n_seeds=4, seed=1))
    found = analyse(evidence, OPTIONS, CONTEXT)
    assert found.status == "undecided"
    assert "to flag a single patient, even a strongly remembered one" in found.verdict["why"][0]
    assert found.verdict["noticeable"]["gap"] is None
    models = int(found.per_class["models_needed"].max())
    assert found.verdict["what_would_decide"] == [f"losses of about {models} models, {models - 8} more than these"]
    more = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80, n_seeds=models // 2, seed=1))
    assert analyse(more, OPTIONS, CONTEXT).status == "pass"


def _as_paper(evidence: Evidence, drift: float) -> Evidence:
    """The same losses as of a candidate on T + C, better than the independent model by ``drift`` on every image."""
    members = np.broadcast_to(evidence.items.split == "canary", evidence.member_a.shape)
    # the loss of an image under the model that saw it is the candidate's
    swap = evidence.sign < 0
    loss_a, loss_b = (
        np.where(swap, *pair) for pair in ((evidence.loss_b, evidence.loss_a), (evidence.loss_a, evidence.loss_b))
    )
    none = np.zeros_like(evidence.member_b)
    return replace(evidence, design="paper", loss_a=loss_a, loss_b=loss_b + drift, member_a=members, member_b=none)


def test_in_the_paper_design_what_unseen_images_gain_is_subtracted():
    """A candidate better by 0.4 everywhere remembers nobody; one that is better by 0.4 on its own images does."""
    context = replace(CONTEXT, design="paper", protocol="paper")
    quiet = _learned(twin_evidence(sizes={"a": 60, "b": 60}, n_test=30, n_seeds=4))
    found = analyse(_as_paper(quiet, 0.4), OPTIONS, context)
    assert (found.per_class["low"] > 0.3).all()  # the published column
    assert (found.per_class["excess_high"] < 0.3).all()
    assert found.per_class["test_mean"].tolist() == pytest.approx([0.4, 0.4], abs=0.05)
    assert found.status == "undecided"  # without flips one patient has no room on the list
    assert "to flag a single patient, even a strongly remembered one" in found.verdict["why"][0]
    loud = _learned(twin_evidence(sizes={"a": 60, "b": 60}, n_test=30, n_seeds=4, planted={"a": 1.0}))
    assert analyse(_as_paper(loud, 0.0), OPTIONS, context).status == "fail"


def test_losses_that_do_not_confirm_who_was_trained_on_what_are_named(planted):
    """Members of a table may be made up; those of a training here are not."""
    nothing = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80))
    a_little = _learned(twin_evidence(sizes={"a": 150, "b": 150}, n_test=80, planted={"a": 0.05}))
    cases = [
        (nothing, CONTEXT, True),
        (a_little, CONTEXT, False),
        (planted, CONTEXT, False),
        (nothing, replace(CONTEXT, model="small_cnn"), False),
    ]
    for evidence, context, is_named in cases:
        result = analyse(evidence, OPTIONS, context)
        codes = [reason["code"] for reason in result.verdict["reasons"]]
        assert ("members-unconfirmed" in codes) == is_named
    assert analyse(nothing, OPTIONS, CONTEXT).status == "pass"
