"""The score table: its file, its checks, its matrices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.analysis import design_checks
from memorisk.audits.classifier.evidence import (
    WHOLE,
    Context,
    Evidence,
    evidence_from_table,
    largest_loss,
    write_scores,
)
from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.checks import COULD_NOT_LOOK, NOTHING, Check
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, NOISE_ERROR
from tests.audits.made_evidence import twin_evidence


@pytest.fixture
def table(tmp_path):
    evidence = twin_evidence(sizes={"a": 6, "b": 4}, n_test=3, n_seeds=3)
    write_scores(tmp_path / "scores.parquet", evidence)
    return pd.read_parquet(tmp_path / "scores.parquet")


@pytest.mark.parametrize("shared", [0, 2])
def test_a_written_table_reads_back_the_same(tmp_path, shared):
    evidence = twin_evidence(sizes={"a": 6, "b": 4}, n_test=3, n_seeds=3, shared=shared)
    write_scores(tmp_path / "s.parquet", evidence)
    back = evidence_from_table(pd.read_parquet(tmp_path / "s.parquet"))
    order = np.argsort(evidence.items.image.astype(str))
    assert back.design == evidence.design
    assert (back.items.image == evidence.items.image[order]).all()
    for name in ("loss_a", "loss_b", "margin_a", "correct_b", "member_a", "member_b"):
        assert (getattr(back, name) == getattr(evidence, name)[:, order]).all()
    assert (back.sign == evidence.sign[:, order]).all()
    write_scores(tmp_path / "t.parquet", evidence)
    assert (tmp_path / "s.parquet").read_bytes() == (tmp_path / "t.parquet").read_bytes()


def test_margin_and_correctness_are_read_from_the_loss_when_absent(table):
    full = evidence_from_table(table)
    bare = evidence_from_table(table.drop(columns=["margin", "correct", "p_true"]))
    np.testing.assert_allclose(bare.margin_a, full.margin_a, rtol=1e-12)
    assert (bare.correct_b == full.correct_b).all()


def test_rows_may_come_in_any_order_and_without_groups(table):
    shuffled = table.sample(frac=1, random_state=3)
    assert (evidence_from_table(shuffled).loss_a == evidence_from_table(table).loss_a).all()
    alone = evidence_from_table(table.drop(columns="group"))
    assert (alone.items.group == alone.items.image).all()


def with_value(table: pd.DataFrame, column: str, value: float) -> pd.DataFrame:
    """Return the table with another value in the tenth row."""
    table = table.copy()
    table.loc[table.index[9], column] = value
    return table


def test_the_largest_loss_is_where_a_gap_of_one_unit_is_lost_in_sums_of_squares() -> None:
    limit = largest_loss(np.array([0.1, 0.2]), CROSS_ENTROPY)
    assert (0.9 * limit) ** 2 + 1 > (0.9 * limit) ** 2
    assert (1.5 * limit) ** 2 + 1 == (1.5 * limit) ** 2
    errors = np.array([0.0, 1e-6, 3e-6, 1e300])
    assert largest_loss(errors, NOISE_ERROR) == pytest.approx(3e-6 * limit)
    assert largest_loss(np.zeros(3), NOISE_ERROR) == limit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="loss"), "lacks the column loss"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(split="holdout"), "'holdout'; allowed are train, canary, test"),
        (lambda t: t.assign(role="C"), "allowed are A, B"),
        (lambda t: t[t["role"] == "A"], "each seed needs two models"),
        (lambda t: t.assign(loss=np.nan), "losses are not finite"),
        (lambda t: t.assign(loss=-1.0), "losses are not finite"),
        (
            lambda t: with_value(t, "loss", 1e300),
            r"1 value of column loss is too large, the first 1e\+300 for image '.*', seed \d+, role [AB]: a sum of "
            r"squares of 64-bit numbers with values above 6\.7e\+07 loses",
        ),
        (lambda t: with_value(t, "loss", 1e8), r"first 1e\+08 for image"),
        (lambda t: with_value(t, "margin", -1e200), r"1 value of column margin is too large, the first -1e\+200 for"),
        (
            lambda t: with_value(t, "margin", np.inf),
            r"not finite numbers, the first for image '.*', seed \d, role [AB]",
        ),
        (lambda t: t.assign(member=2), "needs true or false"),
        (lambda t: t.iloc[1:], "exactly one row"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "exactly one row"),
        (lambda t: t.assign(member=True), "seen by none"),
        (lambda t: t[t["split"] != "test"], "no image has split 'test'"),
        (lambda t: t.assign(member=t["split"] == "canary"), "nothing to compare"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_line(table, change, message):
    plain = table.astype(dict.fromkeys(("image", "label", "group", "split", "role"), str))
    with pytest.raises(InputError, match=message) as error:
        evidence_from_table(change(plain))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("part", ["canary", "test"])
def test_one_image_of_two_patients_is_refused_under_any_labels(table: pd.DataFrame, part: str) -> None:
    """It is in the training and in the null at once, or one person is counted as two."""
    plain = table.astype(dict.fromkeys(("image", "label", "group", "split", "role"), str))
    of_a = plain.loc[(plain["label"] == "a") & (plain["split"] == "canary"), "image"].iloc[0]
    of_b = plain.loc[(plain["label"] == "b") & (plain["split"] == part), "image"].iloc[0]
    with pytest.raises(InputError, match=f"^image '{of_b}' has more than one group: it needs the same in every row$"):
        evidence_from_table(plain.assign(image=plain["image"].replace(of_a, of_b)))


def test_a_patient_on_both_sides_of_a_split_is_refused_across_classes(tmp_path: Path) -> None:
    """Both models saw such a patient: the gap of an image holds nothing of what the other image taught."""
    spread = twin_evidence(sizes={"a": 6, "b": 6}, n_test=3, n_seeds=3, spread=True)
    assert evidence_from_table(_read_back(tmp_path, spread)).sign.any()
    of_b = (spread.items.label == "b") & (spread.items.split == "canary")
    one = np.flatnonzero(of_b & (spread.items.group == spread.items.group[of_b][0]))
    exchanged = {f"member_{half}": getattr(spread, f"member_{half}").copy() for half in "ab"}
    for member in exchanged.values():
        member[1, one] = ~member[1, one]
    with pytest.raises(InputError, match=f"^group '{spread.items.group[one[0]]}' has images on both sides of one seed"):
        evidence_from_table(_read_back(tmp_path, replace(spread, **exchanged)))


def test_a_patient_whom_every_model_saw_has_no_canary(table: pd.DataFrame) -> None:
    plain = table.astype(dict.fromkeys(("image", "label", "group", "split", "role"), str))
    in_all = plain.loc[plain["split"] == "canary", "image"].iloc[0]
    group = plain.loc[(plain["split"] == "canary") & (plain["image"] != in_all), "group"].iloc[0]
    rows = plain["image"] == in_all
    plain = plain.assign(
        split=plain["split"].mask(rows, "train"), member=plain["member"] | rows, group=plain["group"].mask(rows, group)
    )
    with pytest.raises(InputError, match=f"^group '{group}' has images of split canary and train"):
        evidence_from_table(plain)


def _read_back(folder: Path, evidence: Evidence) -> pd.DataFrame:
    """Write and read a score table."""
    write_scores(folder / "scores.parquet", evidence)
    return pd.read_parquet(folder / "scores.parquet")


def test_a_ceiling_in_one_class_is_a_doubt_though_another_class_has_larger_losses() -> None:
    """As of findings, whose losses lie below the sum over all of them."""
    evidence = twin_evidence(sizes={"a": 60, "b": 60})
    own = evidence.items.label == "a"
    ceiling = np.quantile(evidence.loss_a[:, own], 0.98)

    def clipped(loss: np.ndarray) -> np.ndarray:
        return np.where(own, np.minimum(loss, ceiling), loss + ceiling)

    def outcome(one: Evidence) -> Check:
        checks = design_checks(one, Context(design="balanced"))
        return next(check for check in checks if check.name == "clipped-losses")

    assert outcome(evidence).outcome == NOTHING
    check = outcome(replace(evidence, loss_a=clipped(evidence.loss_a), loss_b=clipped(evidence.loss_b)))
    assert (check.outcome, check.reason) == (COULD_NOT_LOOK, "losses-at-ceiling")
    assert check.numbers["ceiling"] == ceiling


def test_a_row_of_all_findings_is_there_for_every_image_or_for_none(table):
    """Attacks use these rows alone, so that images without one took no part; without any test image they broke off."""
    of_all = table.assign(label=WHOLE)
    assert evidence_from_table(pd.concat([table, of_all])).items.whole.sum() == table["image"].nunique()
    for rows in (of_all["split"] != "test", of_all["image"] != of_all["image"].iloc[0]):
        with pytest.raises(InputError, match=r"no row of the label '\(all findings\)', which others have"):
            evidence_from_table(pd.concat([table, of_all[rows]]))


def test_a_class_may_not_have_the_name_of_all_classes(table):
    """Its attacks were left out: a row of that name is of all classes."""
    with pytest.raises(InputError, match=r"column label holds '\(all\)', the name of all classes together"):
        evidence_from_table(table.assign(label=table["label"].astype(str).replace("a", "(all)")))
