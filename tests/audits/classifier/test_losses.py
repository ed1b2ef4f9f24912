"""Losses of models trained elsewhere: the same verdict as for memorisk's own, and one line for a bad table."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses, read_scores, with_losses
from memorisk.cli.main import main
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.made_evidence import twin_evidence
from tests.thorough import thorough

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "losses_sklearn.py"
TEXT = ("image", "label", "group", "split", "role")


@pytest.fixture
def table(tmp_path) -> pd.DataFrame:
    """A score table with one class that is memorized."""
    evidence = twin_evidence(sizes={"a": 24, "b": 40}, n_test=12, n_seeds=4, planted={"a": 1.0}, group_size=2)
    write_scores(tmp_path / "made.parquet", evidence)
    return pd.read_parquet(tmp_path / "made.parquet").astype(dict.fromkeys(TEXT, str))


def test_an_audits_own_scores_give_its_own_tables(small_run, tmp_path):
    found = audit_losses(small_run / "scores.parquet", out=tmp_path / "run")
    before = Result.load(small_run)
    for name in ("per_class", "per_group", "per_image", "attacks"):
        mine, theirs = getattr(found, name), getattr(before, name)
        keys = [c for c in ("label", "image", "group", "attack") if c in mine]
        pd.testing.assert_frame_equal(*(t.sort_values(keys, ignore_index=True) for t in (mine, theirs)))
    for name in ("status", "why", "tiers", "flagged_groups", "not_scored", "aucs", "seeds"):
        assert found.verdict[name] == before.verdict[name]
    pd.testing.assert_frame_equal(Result.load(tmp_path / "run").per_class, found.per_class)
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_model_that_stands_twice_or_says_one_thing_is_refused(table, tmp_path):
    """No gap could be noticed in them: such tables passed, with a noticeable gap of 0.25 nats."""
    a, b = ((table["seed"] == table["seed"].min()) & (table["role"] == role) for role in sorted(set(table["role"])))
    twice = table.copy()
    order = ["image", "label"]
    twice.loc[b.to_numpy(), "loss"] = twice[b][order].merge(table[a][[*order, "loss"]], on=order)["loss"].to_numpy()
    constant = table.assign(loss=np.where(b, 0.5, table["loss"]))
    for wrong, said in (
        (
            twice,
            r"model A of seed \d+ and model B of seed \d+ have the same loss for each of the \d+ images: score every",
        ),
        (constant, r"model B of seed \d+ has the loss 0\.5 for each of the \d+ images: give losses, not a constant"),
    ):
        wrong.drop(columns=["margin"]).to_parquet(tmp_path / "wrong.parquet")
        with pytest.raises(InputError, match=said):
            audit_losses(tmp_path / "wrong.parquet", out=tmp_path / "none")
        assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", [float, int, bool])
def test_errors_in_place_of_losses_are_refused(table, tmp_path, kind):
    wrong = table.drop(columns=["margin", "correct"]).assign(loss=(table["loss"] > np.log(2)).astype(kind))
    wrong.to_parquet(tmp_path / "errors.parquet")
    said = r"column loss holds nothing but 0 and 1 for model A of seed 0, as errors do: give .* in nats, or logits"
    with pytest.raises(InputError, match=said):
        audit_losses(tmp_path / "errors.parquet", out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_losses_rounded_to_one_decimal_are_losses(table, tmp_path):
    table.drop(columns=["margin"]).assign(loss=table["loss"].round(1)).to_parquet(tmp_path / "rounded.parquet")
    assert audit_losses(tmp_path / "rounded.parquet", out=tmp_path / "run").status


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("losses_sklearn", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    monkeypatch.setattr(recipe, "SEEDS", range(3))
    recipe.main(str(tmp_path / "losses.parquet"))
    assert main(["audit", "losses", str(tmp_path / "losses.parquet"), "--out", str(tmp_path / "run")]) in (0, 1)
    found = Result.load(tmp_path / "run")
    assert found.summary["n_images"] == 1797
    assert found.summary["n_models"] == 6
    assert found.summary["not_scored_images"] == 0  # every canary has a partner
    control = found.attacks[(found.attacks["label"] == "(all)") & found.attacks["control"]].iloc[0]
    assert control["low"] < 0.5 < control["high"]
    assert found.per_class["mean"].mean() > 0


def as_csv(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


def test_csv_and_parquet_are_the_same_table(table, tmp_path):
    found = audit_losses(tmp_path / "made.parquet", out=tmp_path / "p")
    again = audit_losses(as_csv(table, tmp_path / "t.csv"), out=tmp_path / "c")
    for name in ("per_class", "per_group", "attacks"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(again, name), rtol=1e-9)


@pytest.mark.parametrize("kind", ["boolean", "str", "int8", "object"])
def test_members_may_be_written_in_every_form(table, tmp_path, kind):
    table.astype({"member": kind}).to_parquet(tmp_path / "other.parquet")
    stages = []
    found = audit_losses(tmp_path / "other.parquet", out=tmp_path / "o", progress=lambda *stage: stages.append(stage))
    pd.testing.assert_frame_equal(
        found.per_group, audit_losses(tmp_path / "made.parquet", out=tmp_path / "p").per_group
    )
    assert stages


@pytest.mark.parametrize("separator", [",", ";"])
def test_ids_and_names_of_a_csv_stay_text(tmp_path, separator):
    text = "image,label,group,loss\n007,NA,,0.5\n008,None,0012,0.25\n"
    (tmp_path / "t.csv").write_text(text.replace(",", separator))
    table = read_scores(tmp_path / "t.csv")
    assert table["image"].tolist() == ["007", "008"]
    assert table["label"].tolist() == ["NA", "None"]
    assert table["group"].tolist() == [None, "0012"]
    assert table["loss"].tolist() == [0.5, 0.25]


def test_a_row_without_a_group_is_its_own(table, tmp_path):
    alone = table.assign(group=table["image"])
    empty = table.assign(group=table["image"].where(table["label"] != "a", ""))
    results = [
        audit_losses(as_csv(t, tmp_path / f"{i}.csv"), out=tmp_path / str(i)) for i, t in enumerate([alone, empty])
    ]
    pd.testing.assert_frame_equal(results[0].per_group, results[1].per_group)


def test_logits_are_turned_into_losses(tmp_path):
    logits = np.random.default_rng(0).normal(0, 4, (50, 3))
    label = np.random.default_rng(1).choice(["x", "y", "z"], 50)
    frame = pd.DataFrame({"image": np.arange(50).astype(str), "label": label})
    made = with_losses(frame.assign(**{f"logit:{c}": logits[:, i] for i, c in enumerate("xyz")}))
    number = np.array(["xyz".index(c) for c in label])
    logp = log_softmax(logits, axis=1)[np.arange(50), number]
    np.testing.assert_allclose(made["loss"], -logp, rtol=1e-12)
    np.testing.assert_allclose(made["margin"], logp - np.log1p(-np.exp(logp)), rtol=1e-6)
    assert (made["correct"] == (logits.argmax(1) == number)).all()
    with pytest.raises(InputError, match="label without a logit column 'w'"):
        with_losses(made.drop(columns=["loss"]).assign(label="w"))


def test_a_multi_label_table_has_a_row_a_finding(table, tmp_path):
    """Half of the images get a second finding with losses of its own."""
    second = table[table["label"] == "b"].assign(label="c")
    second["loss"] = second["loss"] * 1.1
    both = pd.concat([table, second], ignore_index=True).drop(columns=["margin", "correct", "p_true"])
    found = audit_losses(as_csv(both, tmp_path / "m.csv"), out=tmp_path / "run")
    classes = found.per_class.set_index("label")
    assert classes.loc["b", "n_scored"] == classes.loc["c", "n_scored"] == 80
    images = table["image"].nunique()
    assert found.summary["n_images"] == images
    assert classes.loc["c", "frequency"] == classes.loc["b", "frequency"] == (80 + 24) / images
    assert classes["frequency"].sum() > 1  # shares of images, of which some have two findings
    assert len(found.per_image) == both[["image", "label"]].drop_duplicates().shape[0]


def test_candidate_and_independent_are_the_published_design(table, tmp_path):
    role = table["role"].map({"A": "candidate", "B": "independent"})
    member = (table["split"] == "canary") & (role == "candidate")
    paper = table.assign(role=role, member=member)
    found = audit_losses(as_csv(paper, tmp_path / "p.csv"), out=tmp_path / "run")
    assert found.verdict["design"] == "paper"
    assert "published" in found.summary["form"]
    rows = paper[(paper["split"] == "canary") & (paper["label"] == "a")]
    by_hand = rows.pivot_table(index=["image", "seed"], columns="role", values="loss")
    m = (by_hand["independent"] - by_hand["candidate"]).groupby("image").mean()
    mine = found.per_image.dropna(subset=["M"])
    mine = mine[mine["label"] == "a"].set_index("image")["M"]
    np.testing.assert_allclose(mine[m.index], m, rtol=1e-9)
    assert not found.attacks["attack"].str.startswith(("lira", "rmia")).any()


def test_counts_are_those_of_the_table_when_it_lists_no_shared_images(table, tmp_path):
    shared = table[table["split"] == "canary"].copy()
    shared["image"], shared["group"] = shared["image"] + "-t", shared["group"] + "-t"
    whole = pd.concat([table, shared.assign(split="train", member=True)], ignore_index=True)
    with_them = audit_losses(as_csv(whole, tmp_path / "w.csv"), out=tmp_path / "w")
    without = audit_losses(as_csv(table, tmp_path / "o.csv"), out=tmp_path / "o")
    assert with_them.verdict["design"] == "matched"
    a, b = (r.per_class.set_index("label") for r in (with_them, without))
    assert a.loc["a", "n"] == 2 * 48 + 24
    assert b.loc["a", "n"] == 48 + 24
    assert a.loc["a", "frequency"] == (2 * 48 + 24) / (2 * 128 + 48)
    assert b.loc["a", "frequency"] == (48 + 24) / (128 + 48)
    assert any("lists no image that all models saw" in note for note in without.summary["notes"])
    assert not any("lists no image" in note for note in with_them.summary["notes"])
    assert with_them.summary["not_scored_images"] == 128
    np.testing.assert_allclose(a["mean"], b["mean"], rtol=1e-9)


def test_without_a_random_split_there_are_no_p_values(table, tmp_path):
    found = audit_losses(tmp_path / "made.parquet", out=tmp_path / "run", random_split=False)
    assert found.per_group["p_value"].isna().all()
    assert found.status != "pass"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="member"), "lacks the column member"),
        (lambda t: t.assign(loss="high"), "losses are not finite"),
        (lambda t: t.assign(label=""), "has no label"),
        (lambda t: t.assign(seed="first"), "it needs whole numbers"),
        (lambda t: t.assign(member="yes"), "it needs true or false"),
        (lambda t: t.iloc[5:], "exactly one row"),
        (lambda t: t.assign(group="one patient"), "belong on one side"),
        (lambda t: t.drop(columns="loss").assign(**{"logit:a": 1.0}), "logits of one class"),
        (lambda t: t.drop(columns="loss").assign(**{"logit:a": 1.0, "logit:b": "x"}), "is not a finite number"),
        (lambda t: t.drop(columns="loss").assign(**{"logit:a": 1.0, "logit:c": 2.0}), "label without a logit column"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(margin=-t["margin"]), "margin contradicts column loss"),
        (lambda t: t.assign(margin=t["margin"].sample(frac=1, random_state=0).to_numpy()), "margin contradicts"),
        (lambda t: t.assign(loss=t["margin"] - t["margin"].min(), margin=t["loss"]), "correct contradicts column loss"),
        (lambda t: t.assign(correct=t["loss"] > np.log(2)), "correct contradicts column loss"),
    ],
)
def test_a_bad_table_ends_in_one_line_and_leaves_nothing(table, tmp_path, capsys, change, message):
    file = as_csv(change(table), tmp_path / "bad.csv")
    assert main(["audit", "losses", str(file), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "content", [b"", b"PAR1 and no more", b"\xff\xfe\x00\x01", b'a,b\n"1,2\n3,4,5\n', b"\x00" * 64]
)
def test_a_file_that_is_no_table_is_refused(tmp_path, capsys, content):
    (tmp_path / "bad").write_bytes(content)
    assert main(["audit", "losses", str(tmp_path / "bad"), "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["audit", "losses", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "is not a file" in capsys.readouterr().err


def test_ids_are_replaced_where_asked(table, tmp_path):
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"0123456789abcdef")
    audit_losses(tmp_path / "made.parquet", out=tmp_path / "run", pseudonymise=True, pseudonym_key=key)
    for path in filter(Path.is_file, (tmp_path / "run").rglob("*")):
        assert b"a-canary-" not in path.read_bytes(), path.name
    for name in ("scores", "per_image", "per_group", "tables/patients"):
        assert "a-canary-" not in pd.read_parquet(tmp_path / "run" / f"{name}.parquet").astype(str).to_csv()


def test_a_patient_under_two_forms_of_an_id_is_on_one_side(table, tmp_path):
    """Such ids passed, where equal ones are refused."""
    one, other = (table.loc[table["split"] == part, "group"].iloc[0] for part in ("canary", "test"))
    refused = "has images of split canary and test"
    for written in (f" {one}", f"{one}\u200b", f"{one}\0", f"\ufeff{one}\t"):
        table.assign(group=table["group"].replace(other, written)).to_parquet(tmp_path / "forms.parquet")
        with pytest.raises(InputError, match=refused):
            audit_losses(tmp_path / "forms.parquet", out=tmp_path / "run")
    table.assign(group=table["group"].replace(other, "ANONYMOUS")).to_parquet(tmp_path / "nobody.parquet")
    with pytest.raises(InputError, match="the patient id ANONYMOUS, which looks like none"):
        audit_losses(tmp_path / "nobody.parquet", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("hidden", ["", "pseudonymise", thorough("redact")])
def test_ids_that_look_alike_keep_a_pass_away(tmp_path, hidden):
    evidence = twin_evidence(sizes={"a": 200, "b": 200}, n_test=200, n_seeds=8, seed=2, group_size=2)
    write_scores(tmp_path / "made.parquet", evidence)
    made = pd.read_parquet(tmp_path / "made.parquet").astype(dict.fromkeys(TEXT, str)).assign(correct=True)
    one, other = (made.loc[made["split"] == part, "group"].iloc[0] for part in ("canary", "test"))
    settings = {hidden: True} if hidden else {}
    if not hidden:
        made.to_parquet(tmp_path / "learned.parquet")
        assert audit_losses(tmp_path / "learned.parquet", out=tmp_path / "plain").status == "pass"
    made.assign(group=made["group"].replace(other, one.upper())).to_parquet(tmp_path / "alike.parquet")
    alike = audit_losses(tmp_path / "alike.parquet", out=tmp_path / "alike", **settings)
    assert alike.status == "undecided"
    assert any("1 set of patient ids looks alike" in why for why in alike.verdict["why"])
    named = any(f"({one.upper()} and {one})" in note for note in alike.summary["notes"])
    assert named == (not hidden)


def test_a_train_image_that_some_model_did_not_see_is_refused(table, tmp_path):
    """One wrong word took the one memorized patient out of the list: the audit passed."""
    one = table["image"] == table.loc[table["split"] == "canary", "image"].iloc[0]
    table.assign(split=np.where(one, "train", table["split"])).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(InputError, match=r"has split 'train', which every model was trained on, and some"):
        audit_losses(tmp_path / "wrong.parquet", out=tmp_path / "run")


@pytest.mark.parametrize(
    ("gaps", "status"),
    [(2 * [8.0] + 6 * [0.0], "fail"), (4 * [4.0, -4.0], "undecided")],
    ids=["two seeds", "roles exchanged in half"],
)
def test_a_patient_with_uneven_gaps_keeps_a_pass_away(tmp_path, gaps, status):
    """Both passed, beside the sentence that a gap of 0.3 nats would have been noticed."""
    evidence = twin_evidence(sizes={"a": 200}, n_test=200, n_seeds=8, seed=2)
    write_scores(tmp_path / "made.parquet", evidence)
    made = pd.read_parquet(tmp_path / "made.parquet")
    one = made["image"] == made.loc[made["split"] == "canary", "image"].iloc[0]
    added = dict(zip(sorted(set(made["seed"])), gaps, strict=True))
    away = made["seed"].map(added).to_numpy()
    made["loss"] += np.where(one & ~made["member"] & (away > 0), away, 0.0)
    made["loss"] += np.where(one & made["member"] & (away < 0), -away, 0.0)
    made.to_parquet(tmp_path / "uneven.parquet")
    found = audit_losses(tmp_path / "uneven.parquet", out=tmp_path / "run", one_image_per_patient=True)
    assert found.status == status
    (check,) = (check for check in found.verdict["checks"] if check["name"] == "uneven-gaps")
    unlisted = status == "undecided"  # whoever is on the list needs no further check
    assert ((check["outcome"], check["reason"]) == ("noticed", "some-trainings-remember")) == unlisted
    assert found.per_group["uneven"].sum() == unlisted


def test_a_patient_with_reversed_losses_is_named_in_place_of_the_class(tmp_path):
    """The class was called surely below 0, and nothing pointed to the patient."""
    evidence = twin_evidence(sizes={"a": 80}, n_test=40, n_seeds=10, seed=2)
    write_scores(tmp_path / "made.parquet", evidence)
    made = pd.read_parquet(tmp_path / "made.parquet")
    one = made.loc[made["split"] == "canary", "image"].iloc[0]
    made["loss"] += np.where((made["image"] == one) & made["member"], 6.0, 0.0)
    made.to_parquet(tmp_path / "reversed.parquet")
    found = audit_losses(tmp_path / "reversed.parquet", out=tmp_path / "run", one_image_per_patient=True)
    codes = [reason["code"] for reason in found.verdict["reasons"]]
    assert found.status == "undecided"
    assert "reversed-patients" in codes
    assert not {"mean-below-zero", "some-trainings-remember", "little-power"} & set(codes)
    (reason,) = (reason for reason in found.reasons if reason["code"] == "reversed-patients")
    assert reason["n_groups"] == 1
    assert 5 < reason["largest_gap"] < 7
    patient = made.loc[made["image"] == one, "group"].iloc[0]
    assert found.per_group.loc[found.per_group["reversed"], "group"].tolist() == [patient]
    assert found.per_class["high"].iloc[0] < 0 < found.per_class["high_over_groups"].iloc[0]


def test_a_class_with_one_test_patient_says_that_they_are_too_few(tmp_path):
    """Of one patient no spread is known: that the models learned nothing does not follow."""
    one_of_b = twin_evidence(sizes={"a": 24, "b": 40}, n_test=12, n_seeds=4)
    items = one_of_b.items
    keep = ~((items.label == "b") & (items.split == "test"))
    keep[np.flatnonzero(~keep)[0]] = True
    write_scores(tmp_path / "made.parquet", one_of_b)
    table = pd.read_parquet(tmp_path / "made.parquet").astype(dict.fromkeys(TEXT, str))
    table = table[table["image"].isin(items.image[keep])]
    table.to_parquet(tmp_path / "few.parquet")
    found = audit_losses(tmp_path / "few.parquet", out=tmp_path / "run")
    codes = [reason["code"] for reason in found.verdict["reasons"]]
    assert "few-test-groups" in codes
    assert "nothing-learned" not in codes
    assert "at least two patients of each class in the test part" in found.what_would_decide
