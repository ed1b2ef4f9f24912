"""Subgroups in the audit of a synthetic set: who is copied more, by class, without numbers of a few people."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.release import set_descriptions
from memorisk.audits.release.integrity import open_finished_audit
from memorisk.audits.synthetic.foreseen import Counted, Foresight, JudgedPair
from memorisk.audits.synthetic.options import SyntheticOptions
from memorisk.audits.synthetic.page import synthetic_page
from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
from memorisk.audits.synthetic.subgroups import more_copied, subgroup_table, training_subgroups
from memorisk.images.manifest import Manifest
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.synthetic.making import N_TRAIN, parts, store_of

COPIED = 16
GROUPS = [f"patient-{row:04d}" for row in range(N_TRAIN + 200)]
SEX = np.where(np.arange(N_TRAIN) < 40, "F", "M")
"""The first 40 training patients are women, and the first 16 of these are copied."""
SITE = np.where(np.arange(N_TRAIN) % 30 == 0, "rare", "common")
"""Site of the patients, four of whom are of the rare one, one of these a copied woman."""


def sets(folder: Path) -> dict[str, Any]:
    """Training images with columns, held-out ones, and a set with noised copies of 16 women."""
    train, held, synthetic = parts()
    moved = train[:COPIED].astype(int) + np.random.default_rng(5).integers(-6, 7, train[:COPIED].shape)
    synthetic = np.concatenate([synthetic[COPIED:], np.clip(moved, 0, 255).astype(np.uint8)])
    ours = store_of(train, folder, "train", groups=GROUPS[:N_TRAIN])
    ours.manifest.table["sex"], ours.manifest.table["site"] = SEX, SITE
    return {
        "train": ours,
        "synthetic": store_of(synthetic, folder, "set"),
        "held_out": store_of(held, folder, "held", groups=GROUPS[N_TRAIN : N_TRAIN + len(held)]),
        "detector": "pixels",
        "plants": 2,
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A folder with a cache of its own."""
    folder = tmp_path_factory.mktemp("by")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield folder


@pytest.fixture(scope="module")
def of_women(place: Path) -> Result:
    found = audit_synthetic(**sets(place), by=("sex", "site"), out=place / "run")
    assert isinstance(found, Result)
    return found


def test_the_level_that_is_copied_is_called_so(of_women: Result) -> None:
    table = of_women.tables["subgroups"].set_index(["column", "level"])
    assert table.loc[("sex", "F"), "more_exposed"]
    assert not table.loc[("sex", "M"), "more_exposed"]
    assert table.loc[("sex", "F"), "n_copied"] >= COPIED
    assert table.loc[("sex", "F"), "difference_low"] > 0.1
    reason = next(one for one in of_women.reasons if one["code"] == "subgroup-copied-more")
    assert (reason["column"], reason["level"], reason["bears_on"]) == ("sex", "F", "limit")
    assert f"copies of {reason['n_copied']} of 40 training patients with sex F" in reason["text"]
    assert reason["plain"].endswith("copies of patients with sex F more often than of others")
    assert of_women.verdict["subgroups"][0]["level"] == "F"


def test_the_copied_are_the_people_whom_a_clean_set_would_leave_out(of_women: Result, place: Path) -> None:
    table = of_women.tables["subgroups"]
    with open_finished_audit(place / "run") as run:
        figures = {figure.name: figure.value for figure in set_descriptions.describe_synthetic(run).figures}
    assert figures["to_leave_out_people"] == table.loc[table["column"] == "sex", "n_copied"].sum()


def test_a_level_of_few_patients_is_named_nowhere(of_women: Result, place: Path) -> None:
    table = of_women.tables["subgroups"].set_index(["column", "level"])
    few = table.loc[("site", "(1 level of fewer than 10 patients)")]
    assert np.isnan(few["n_patients"])
    assert np.isnan([few["n_copied"], few["share"], few["p"]]).all()
    assert np.isnan(table.loc[("site", "common"), "difference"]), "it would say what holds of the few"
    pages = [render_page(synthetic_page(of_women)), render_page(synthetic_page(of_women, redact=True))]
    for page in pages:
        assert "Is one subgroup copied more?" in page
        assert "are copied, a share that is" in page
        assert "of the same class" not in page, "no image has one"
        assert "site rare" not in page
    assert "patient-0000" in pages[0]
    assert "patient-0" not in pages[1]
    assert "rare" not in (place / "run" / "verdict.json").read_text()


def test_pseudonyms_change_no_count(of_women: Result, place: Path) -> None:
    hidden = audit_synthetic(**sets(place), by=("sex", "site"), out=place / "hidden", pseudonymise=True)
    assert isinstance(hidden, Result)
    pd.testing.assert_frame_equal(hidden.tables["subgroups"], of_women.tables["subgroups"])
    assert "patient-0000" not in set(hidden.per_group["group"])


def test_a_column_that_compares_nothing_is_refused_before_the_work(place: Path) -> None:
    for by, message in (
        ("age", "unknown column of by 'age'"),
        ("group", "names images or patients"),
        ("sex:3", "bins need numbers"),
    ):
        with pytest.raises(InputError, match=message):
            audit_synthetic(**sets(place), by=(by,), out=place / "refused")
    assert not (place / "refused").exists()


def test_a_dry_run_says_which_share_would_be_noticed(place: Path) -> None:
    plan = audit_synthetic(**sets(place), by=("sex", "site"), out=place / "planned", dry_run=True)
    assert isinstance(plan, SyntheticPlan)
    women, men, common, few = plan.subgroups
    assert (women.subgroup, women.n_patients, men.n_patients, few.n_patients) == ("sex F", 40, 80, None)
    assert "rare" not in few.subgroup
    assert all(0.05 < level.noticeable_share < 0.3 for level in (women, men))
    assert np.isnan([common.noticeable_share, few.noticeable_share]).all()
    assert len(plan.tables[0].frame) == 4
    without = audit_synthetic(**sets(place), out=place / "planned", dry_run=True)
    assert isinstance(without, SyntheticPlan)
    assert without.tables == []


def test_without_columns_there_is_no_table(place: Path) -> None:
    found = audit_synthetic(**sets(place), out=place / "plain")
    assert isinstance(found, Result)
    assert "subgroups" not in {**found.tables, **found.verdict}
    assert "Is one subgroup" not in render_page(synthetic_page(found))


def test_a_judgement_foresees_no_count_of_dismissed_patients(of_women: Result) -> None:
    """A dismissed pair may be of the subgroup: the foreseen verdict does not repeat the run's numbers of it."""
    counted = Counted(frozenset(), {}, frozenset(), frozenset(), (), ())
    pair = JudgedPair(*of_women.tables["review"].loc[0, ["synthetic_image", "training_image", "patient"]])
    foresight = Foresight(of_women.summary, counted, SyntheticOptions())
    assert any("patients with sex F" in why for why in foresight.verdict((), ()).why)
    assert not any("patients with sex F" in why for why in foresight.verdict((), (pair,)).why)


def manifest(n: int, **columns: object) -> Manifest:
    """A manifest of one image per patient."""
    names = [f"p{row:04d}" for row in range(n)]
    table = pd.DataFrame({"image": names, "path": names, "group": [f"{name}-x" for name in names], **columns})
    return Manifest(table.astype(object), None, "made")


def test_a_class_that_is_copied_does_not_make_a_level_copied_more() -> None:
    rng, n = np.random.default_rng(0), 600
    rare = rng.random(n) < 0.2
    site = np.where(rng.random(n) < np.where(rare, 0.7, 0.1), "x", "y")
    train = manifest(n, label=np.where(rare, "rare", "common"), site=site)
    copied = train.groups[rare & (rng.random(n) < 0.3)]
    columns = training_subgroups(train, ("site",))
    table = subgroup_table(train, columns, copied)
    by_level = table.set_index("level")
    assert by_level.loc["x", "share"] > 3 * by_level.loc["y", "share"]
    assert not more_copied(table)
    copied = train.groups[(site == "x") & (rng.random(n) < 0.2)]
    (one,) = more_copied(subgroup_table(train, columns, copied))
    assert (one.level, one.within_class) == ("x", True)
    ours = train.groups[site == "x"]
    assert (one.n_patients, one.n_copied_patients) == (len(ours), np.isin(ours, copied).sum())


def test_a_patient_of_several_images_counts_once_with_the_commonest_class_and_level() -> None:
    train = manifest(60, label=["a", "b"] * 30, sex=["F"] * 30 + ["M"] * 30)
    train.table["group"] = [f"p{row // 2}" for row in range(60)]
    table = subgroup_table(train, training_subgroups(train, ("sex",)), {"p0", "p29"}).set_index("level")
    assert table["n_patients"].tolist() == [15, 15]
    assert table["n_copied"].tolist() == [1, 1]
    assert table["n_compared"].tolist() == [15, 15], "of equally frequent classes all take the same one"
