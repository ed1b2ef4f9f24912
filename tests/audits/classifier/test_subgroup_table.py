"""Subgroups and single patients in an audit: who is more exposed, by class, without numbers of a few people."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk import audit_classifier
from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.evidence import WHOLE, Context, Evidence, Items, margin_of_loss
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.pages.audit import classifier_page, first_screen
from memorisk.audits.classifier.pages.people import subgroup_facts
from memorisk.audits.classifier.tables.attacks import ALL
from memorisk.audits.classifier.tables.subgroups import ScoredPatients
from memorisk.audits.subgroups import subgroups
from memorisk.report.first_screen import MOST_FACTS
from memorisk.report.flagged import NOT_TESTED
from memorisk.report.page import render_page
from memorisk.report.result import Result, redact
from memorisk.runs.errors import InputError
from tests.audits.made_evidence import twin_evidence


def remembered(evidence: Evidence, patients: np.ndarray, gap: float) -> Evidence:
    """Return the evidence with the losses of some patients higher, in nats, under models that did not see them."""
    own = np.isin(evidence.items.group, patients) * gap
    losses = {
        f"loss_{half}": getattr(evidence, f"loss_{half}") + own * ~getattr(evidence, f"member_{half}") for half in "ab"
    }
    margins = {f"margin_{half}": margin_of_loss(losses[f"loss_{half}"]) for half in "ab"}
    return replace(evidence, **losses, **margins)


@pytest.fixture(scope="module")
def of_women() -> Result:
    """Audit in which women are remembered, and a few patients are of another site."""
    evidence = twin_evidence(sizes={"a": 90, "b": 150}, n_test=40)
    patients = np.unique(evidence.items.group)
    table = pd.DataFrame({"sex": np.where(np.arange(len(patients)) % 3 == 0, "F", "M")})
    table["site"] = np.where(np.arange(len(patients)) % 50 == 0, "rare", "common")
    evidence = remembered(evidence, patients[::3], 0.15)
    columns = subgroups(table, patients, ("sex", "site"))
    return analyse(evidence, AnalysisOptions(), Context(design="balanced", columns=columns))


def test_the_level_that_is_remembered_is_called_so(of_women: Result) -> None:
    table = of_women.tables["subgroups"].set_index(["column", "level"])
    assert table.loc[("sex", "F"), "more_exposed"]
    assert not table.loc[("sex", "M"), "more_exposed"]
    assert table.loc[("sex", "F"), "difference_low"] > 0
    assert table.loc[("sex", "F"), "auc_low"] > table.loc[("sex", "M"), "auc_high"]
    reason = next(one for one in of_women.reasons if one["code"] == "subgroup-more-exposed")
    assert (reason["column"], reason["level"]) == ("sex", "F")
    assert reason["bears_on"] == "limit"
    assert "patients with sex F are remembered more than others with the same diagnosis" in reason["plain"]


def test_a_level_of_few_patients_has_no_number_and_is_not_told_by_the_others(of_women: Result) -> None:
    table = of_women.tables["subgroups"].set_index(["column", "level"])
    assert ("site", "rare") not in table.index
    few = table.loc[("site", "(1 level of fewer than 10 patients)")]
    assert np.isnan(few["n_patients"])
    assert np.isnan(few["mean"])
    assert np.isnan(few["auc"])
    assert np.isnan(table.loc[("site", "common"), "difference"]), "it would tell about the few"
    assert np.isnan(table.loc[("site", "common"), "n_flagged"]), "all flagged patients less these would, too"
    assert table.loc[("sex", "F"), "n_flagged"] + table.loc[("sex", "M"), "n_flagged"] == len(
        set(of_women.per_group.loc[of_women.per_group["flagged"], "group"])
    )


def test_a_class_that_is_common_in_a_level_does_not_make_it_more_exposed() -> None:
    evidence = twin_evidence(sizes={"a": 80, "b": 160}, n_test=40)
    in_a = np.unique(evidence.items.group[evidence.items.label == "a"])
    evidence = remembered(evidence, in_a, 0.3)
    rng, patients = np.random.default_rng(0), np.unique(evidence.items.group)
    odds = np.where(np.isin(patients, in_a), 0.7, 0.1)
    columns = subgroups(
        pd.DataFrame({"site": np.where(rng.random(len(patients)) < odds, "x", "y")}), patients, ("site",)
    )
    result = analyse(evidence, AnalysisOptions(), Context(design="balanced", columns=columns))
    table = result.tables["subgroups"].set_index("level")
    assert table.loc["x", "mean"] > table.loc["y", "mean"] + 0.1
    assert not table["more_exposed"].any()


def test_a_level_above_the_gate_fails_the_audit() -> None:
    evidence = twin_evidence(sizes={"a": 200}, n_test=40)
    patients = np.unique(evidence.items.group)
    evidence = remembered(evidence, patients[::5], 0.6)
    columns = subgroups(pd.DataFrame({"sex": ["F", "M", "M", "M", "M"] * 48}), patients, ("sex",))
    result = analyse(evidence, AnalysisOptions(fail_on="moderate"), Context(design="balanced", columns=columns))
    assert "subgroup-above-gate" in {one["code"] for one in result.reasons}
    assert result.status == "fail"


def test_a_redacted_page_names_no_patient_and_the_page_answers_both_questions(of_women: Result) -> None:
    page = render_page(classifier_page(of_women))
    assert "Is one subgroup remembered more?" in page
    assert "How surely single patients are found" in page
    section = page[page.index('id="subgroups"') :].partition("</section>")[0]
    assert "not given, since fewer than 10 remain" in section
    assert "not tested" not in section
    assert "a-canary-0" in page
    hidden = render_page(classifier_page(redact(of_women), redact=True))
    assert "Is one subgroup remembered more?" in hidden
    assert "a-canary-" not in hidden


def test_the_first_screen_counts_the_levels_that_are_remembered_more(of_women: Result) -> None:
    (fact,) = subgroup_facts(of_women)
    assert (fact.value, fact.note) == ("1", "of 2 compared, by sex")
    assert fact in first_screen(of_women).facts[:MOST_FACTS]
    assert subgroup_facts(redact(of_women)) == [fact]
    table = of_women.tables["subgroups"]
    blind = of_women.replace(tables={**of_women.tables, "subgroups": table.assign(p=np.nan, more_exposed=False)})
    assert subgroup_facts(blind)[0].value == NOT_TESTED, "0 would look like a finding"


def test_without_columns_there_is_no_table_of_subgroups(of_women: Result) -> None:
    result = analyse(twin_evidence(sizes={"a": 40}, n_test=20), AnalysisOptions(), Context(design="balanced"))
    assert "subgroups" not in result.tables
    assert "Is one subgroup" not in render_page(classifier_page(result))
    assert len(result.tables["patients"]) == 40


def test_a_result_lists_its_patients(of_women: Result) -> None:
    patients = of_women.patients()
    assert len(patients) == 240
    assert set(patients.loc[patients["by_sex"] == "F", "group"]) <= set(of_women.per_group["group"])
    with pytest.raises(InputError, match="only audit classifier and audit losses"):
        Result().patients()


def test_the_curve_of_patients_is_that_of_their_table(of_women: Result) -> None:
    table, curve = of_women.tables["patients"], of_women.summary["patient_auc"]
    for auc, share in zip(curve["auc"], curve["share"], strict=True):
        assert share == pytest.approx((table["auc"] >= auc - 1e-9).mean(), abs=1e-6)
    assert curve["worst"]["auc"] == table["auc"].iloc[0]
    assert curve["worst"]["low"] == table["auc_low"].iloc[0]


def test_the_paper_design_has_no_null_of_single_patients() -> None:
    evidence = replace(twin_evidence(sizes={"a": 40}, n_test=20), design="paper")
    canary = evidence.items.split == "canary"
    evidence = replace(evidence, member_a=evidence.member_a | canary, member_b=evidence.member_b & ~canary)
    result = analyse(evidence, AnalysisOptions(), Context(design="paper"))
    assert result.summary["patient_auc"] is None
    assert result.tables["patients"]["auc_p"].isna().all()


def test_patients_of_several_images_and_findings_count_once() -> None:
    """Values are by hand: a patient's images are averaged, and the class mean of each is taken off."""
    items = Items(*(np.array(v, dtype=object) for v in (
        ["i", "j", "k", "i", "j", "k"],
        ["x", "y", "y", WHOLE, WHOLE, WHOLE],
        ["p", "p", "q"] * 2,
        ["canary"] * 6,
    )))  # fmt: skip
    member_a = np.array([[1, 1, 0, 1, 1, 0], [0, 0, 1, 0, 0, 1]], dtype=bool)
    loss_a = np.where(member_a, 1.0, [[3.0, 2.0, 5.0] * 2] * 2)
    loss_b = np.where(~member_a, 1.0, [[3.0, 2.0, 5.0] * 2] * 2)
    evidence = Evidence(
        items, np.arange(2), "balanced", loss_a, loss_b, margin_of_loss(loss_a), margin_of_loss(loss_b),
        loss_a < 2, loss_b < 2, member_a, ~member_a,
    )  # fmt: skip
    scored = ScoredPatients.of(evidence)
    assert scored.patient.tolist() == ["p", "q"]
    assert scored.gaps.tolist() == [[1.5, 1.5], [4.0, 4.0]]
    assert scored.label.tolist() == ["x", "y"], "of equally frequent classes the rarer one"
    assert scored.excess.tolist() == [((2 - 2) + (1 - 2.5)) / 2, 4 - 2.5]
    assert scored.loss_seen.tolist() == [[1.0, 1.0]] * 2
    assert scored.loss_unseen.tolist() == [[2.5, 5.0]] * 2


def test_the_plan_foresees_what_a_level_would_have_to_differ_by(tmp_path) -> None:
    """The noticeable difference of the plan, with the noise that it assumes; a level of few patients has none."""
    rng = np.random.default_rng(0)
    for i in range(120):
        path = tmp_path / "set" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(path)
    sex = ["F" if i % 3 else "M" for i in range(120)]
    site = ["rare" if i % 20 == 0 else "common" for i in range(120)]
    files = [f"{'ab'[i % 2]}/{i}.png" for i in range(120)]
    table = pd.DataFrame({"image": files, "label": list("ab") * 60, "group": files, "sex": sex, "site": site})
    table.to_csv(tmp_path / "set" / "table.csv", index=False)
    settings = {"models": 16, "epochs": 1, "model": "small_cnn", "one_image_per_patient": True, "by": ("sex", "site")}
    plan = audit_classifier(tmp_path / "set" / "table.csv", out=tmp_path / "run", dry_run=True, **settings)
    by_name = {row.subgroup: row for row in plan.subgroups}
    assert 0 < by_name["sex F"].noticeable < by_name["sex M"].noticeable * 1.5
    assert by_name["site rare"].n_patients is None
    assert np.isnan(by_name["site common"].noticeable)
    assert any("Subgroups" in shown.caption for shown in plan.tables)
    with pytest.raises(InputError, match="Did you mean 'sex'"):
        audit_classifier(tmp_path / "set" / "table.csv", out=tmp_path / "run", **settings | {"by": ("sexe",)})
    assert not (tmp_path / "run").exists()


def write_losses(path, evidence: Evidence, **columns: object):
    """Write a score table with further columns of images."""
    rows = []
    for s, seed in enumerate(evidence.seeds):
        for role, half in (("A", "a"), ("B", "b")):
            rows.append(
                pd.DataFrame(
                    {
                        "image": evidence.items.image,
                        "label": evidence.items.label,
                        "group": evidence.items.group,
                        "split": evidence.items.split,
                        "seed": seed,
                        "role": role,
                        "member": getattr(evidence, f"member_{half}")[s],
                        "loss": getattr(evidence, f"loss_{half}")[s],
                        **columns,
                    }
                )
            )
    pd.concat(rows).to_csv(path, index=False)
    return path


def test_audit_losses_compares_a_column_of_its_table(tmp_path) -> None:
    evidence = twin_evidence(sizes={"a": 60}, n_test=20)
    patients = np.unique(evidence.items.group)
    evidence = remembered(evidence, patients[:30], 0.3)
    sex = np.where(np.isin(evidence.items.group, patients[:30]), "F", "M")
    file = write_losses(tmp_path / "losses.csv", evidence, sex=sex)
    result = audit_losses(file, out=tmp_path / "run", by=("sex",))
    table = Result.load(tmp_path / "run").tables["subgroups"].set_index("level")
    assert table.loc["F", "more_exposed"]
    assert set(result.attacks["label"]) >= {ALL}
    with pytest.raises(InputError, match=r"unknown column of by 'age'\. Known: sex"):
        audit_losses(file, out=tmp_path / "other", by=("age",))
    assert not (tmp_path / "other").exists()
