"""Two runs compared: differences by hand, intervals, what is missing, and the page."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from memorisk.audits.classifier.comparison import _seed_difference, compare
from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.classifier.pages.comparison import comparison_page, direction_of_change
from memorisk.audits.rendering import load_result
from memorisk.cli.main import main
from memorisk.report.page import render_page
from memorisk.report.verdict_forms import FORMS
from memorisk.runs.errors import InputError
from memorisk.statistics.intervals.means import two_way_interval
from tests.audits.made_evidence import twin_evidence
from tests.thorough import thorough

SIZES = {"a": 24, "b": 40}


def make_run(folder, *, seed=0, n_seeds=4, planted=None, sizes=SIZES, group_size=2, change=lambda t: t, **settings):
    """A finished run on a simulated score table; ids depend on the sizes only, so that runs can be compared."""
    evidence = twin_evidence(sizes=sizes, n_test=12, n_seeds=n_seeds, planted=planted, group_size=group_size, seed=seed)
    folder.mkdir()
    write_scores(folder / "made.parquet", evidence)
    table = pd.read_parquet(folder / "made.parquet").astype(
        dict.fromkeys(("image", "label", "group", "split", "role"), str)
    )
    change(table).to_parquet(folder / "table.parquet")
    audit_losses(folder / "table.parquet", out=folder / "run", **settings)
    return folder / "run"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Before, after a defence that halves what class a's images leave, and the same with more seeds."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "before": make_run(folder / "before", planted={"a": 1.2, "b": 0.1}),
        "after": make_run(folder / "after", seed=1, planted={"a": 0.1, "b": 0.1}),
        "more": make_run(folder / "more", seed=2, n_seeds=6, planted={"a": 0.1, "b": 0.1}),
    }


def group_gaps(run) -> pd.DataFrame:
    """Mean over a patient's images of the signed gap, one column a seed, by hand from the score table."""
    table = pd.read_parquet(run / "scores.parquet").astype({"role": str, "label": str, "group": str, "image": str})
    rows = table[table["split"].astype(str) == "canary"]
    signed = rows.assign(v=np.where(rows["member"], -rows["loss"], rows["loss"]))
    one = signed.groupby(["label", "group", "image", "seed"])["v"].sum()
    return one.groupby(["label", "group", "seed"]).mean().unstack()


def test_differences_are_those_of_the_score_tables(runs):
    found = compare(runs["before"], runs["after"])
    first, second = group_gaps(runs["before"]), group_gaps(runs["after"])
    for row in found.per_class.to_dict("records"):
        a, b = first.loc[row["label"]], second.loc[row["label"]]
        interval = two_way_interval((b - a).to_numpy())
        assert row["n_groups"] == len(a) == SIZES[row["label"]]
        assert row["mean_first"] == pytest.approx(a.to_numpy().mean())
        assert row["mean_second"] == pytest.approx(b.to_numpy().mean())
        assert (row["difference"], row["low"], row["high"]) == pytest.approx(
            (b.to_numpy().mean() - a.to_numpy().mean(), interval.low, interval.high)
        )
    patients = found.per_group.set_index(["label", "group"])
    assert len(patients) == sum(SIZES.values())
    for key in (("a", "a-canary-3"), ("b", "b-canary-39")):
        a, b = first.loc[key].to_numpy(), second.loc[key].to_numpy()
        own = [stats.t.interval(0.95, 3, scale=stats.sem(x))[1] for x in (a, b)]  # half lengths of each run's mean
        half = np.sqrt(own[0] ** 2 + own[1] ** 2)
        mine = patients.loc[key]
        assert (mine["M_first"], mine["M_second"]) == pytest.approx((a.mean(), b.mean()))
        assert (mine["difference"], mine["low"], mine["high"]) == pytest.approx(
            (b.mean() - a.mean(), b.mean() - a.mean() - half, b.mean() - a.mean() + half)
        )
    assert found.notes == [
        "the runs name the same images and groups and read other files: other pixels, or other losses"
    ]
    n_flagged = found.per_group.groupby("label")["flagged_first"].sum()
    assert found.per_class["testable_first"].tolist() == [True, False]  # no patient of class b could have been flagged
    np.testing.assert_array_equal(found.per_class["flagged_first"], [n_flagged["a"], np.nan])


def test_a_defence_that_works_is_seen_and_nothing_else(runs):
    table = compare(runs["before"], runs["after"]).per_class
    assert direction_of_change(table, -1).tolist() == [True, False]
    assert not direction_of_change(table, 1).any()
    turned = compare(runs["after"], runs["before"]).per_class
    np.testing.assert_allclose(turned["difference"], -table["difference"])
    np.testing.assert_allclose(turned["low"], -table["high"])


@pytest.mark.parametrize(("made_by", "words"), [("synthetic", r" \(it is a run of audit synthetic\)"), (None, "")])
def test_runs_of_other_audits_are_told_what_is_compared(runs, tmp_path, made_by, words):
    other = tmp_path / "other"
    result = load_result(runs["before"])
    result.replace(verdict={**result.verdict, "audit": made_by, "schema": FORMS["synthetic"]}).save(other)
    (other / "config.yaml").write_text("out: other\n")
    with pytest.raises(InputError, match=rf"other holds no scores .*patients{words}: compare takes two runs"):
        compare(runs["before"], other)


def test_a_run_against_itself_gives_0(runs):
    found = compare(runs["before"], runs["before"])
    for column in ("difference", "low", "high"):
        assert (found.per_class[column] == 0).all()
    assert (found.per_group["difference"] == 0).all()
    assert found.notes == []
    assert (found.aucs["auc_first"] == found.aucs["auc_second"]).all()


def test_runs_with_other_numbers_of_seeds_pair_patients_only(runs):
    found = compare(runs["before"], runs["more"])
    assert any("4 and 6 seeds: patients are paired, seeds are not" in note for note in found.notes)
    assert (found.per_class["n_seeds"] == 4).all()
    row = found.per_class.set_index("label").loc["a"]
    assert row["low"] < row["difference"] < row["high"] < 0


def test_what_the_runs_could_notice_is_told(runs, tmp_path):
    eight = make_run(tmp_path / "eight", n_seeds=8, planted={"a": 0.1})
    notes = compare(runs["before"], eight).notes
    assert any("would have noticed a patient's gap of no size, the second from" in note for note in notes)
    assert not any("would have noticed" in note for note in compare(runs["before"], runs["before"]).notes)


def test_classes_patients_and_designs_that_differ_are_told(runs, tmp_path):
    def as_paper(table):
        role = table["role"].map({"A": "candidate", "B": "independent"})
        return table.assign(role=role, member=(table["split"] == "canary") & (role == "candidate"))

    other = make_run(tmp_path / "o", sizes={"a": 10, "c": 12}, change=as_paper)
    found = compare(runs["before"], other)
    assert found.per_class["label"].tolist() == ["a"]
    assert found.per_class["n_groups"].tolist() == [10]
    assert "class b: not scored in the second run" in found.notes
    assert "class c: not scored in the first run" in found.notes
    assert any(note.startswith("the designs differ (balanced, paper)") for note in found.notes)
    regrouped = make_run(tmp_path / "r", change=lambda t: t.assign(group="x" + t["group"]))
    with pytest.raises(InputError, match="share no class"):
        compare(runs["before"], regrouped)
    with pytest.raises(InputError, match="not a run folder"):
        compare(runs["before"], tmp_path)


def test_the_tables_and_the_page_are_saved(runs, tmp_path, capsys):
    out = tmp_path / "compared"
    assert main(["compare", str(runs["before"]), str(runs["after"]), "--out", str(out)]) == 0
    assert "difference" in capsys.readouterr().out
    found = compare(runs["before"], runs["after"])
    for name in ("per_class", "per_group", "aucs"):
        pd.testing.assert_frame_equal(pd.read_parquet(out / f"{name}.parquet"), getattr(found, name), check_dtype=False)
    saved = json.loads((out / "comparison.json").read_text())
    assert [row["label"] for row in saved["per_class"]] == ["a", "b"]
    page = (out / "report.html").read_text()
    assert "The second run remembers 1 of 2 classes surely less than the first" in page
    assert "a-canary-3" in page
    assert out.stat().st_mode & 0o777 == 0o700
    before = (out / "report.html").read_bytes()
    found.save(out)  # a comparison may be made again
    assert (out / "report.html").read_bytes() == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("kept")
    assert main(["compare", str(runs["before"]), str(runs["after"]), "--out", str(tmp_path / "full")]) == 2
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_redacted_run_leaves_its_ids_out_of_the_page(runs, tmp_path):
    hidden = make_run(tmp_path / "h", planted={"a": 0.1}, redact=True)
    compare(runs["before"], hidden).save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "canary-" not in page
    assert "Ids are left out" in page


def test_hostile_names_are_data(tmp_path):
    bad = "<script>document.title='hacked'</script>\u202e"
    change = lambda t: t.replace({"label": {"a": bad}}).assign(group=bad + t["group"])  # noqa: E731
    first = make_run(tmp_path / "1", change=change)
    second = make_run(tmp_path / "2", change=change, seed=1)
    compare(first, second).save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script>document" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize(("first", "second"), [(3, 3), thorough(3, 8), (8, 8)])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_a_patients_interval_covers_its_difference(first, second, noise):
    """Alike or unlike spreads, 2,000 patients: never under 95 %, 3 sd of the simulation allowed; not the whole line."""
    rng = np.random.default_rng(first)
    hits = []
    for _ in range(2000):
        _, low, high = _seed_difference(rng.normal(0.2, noise, first), rng.normal(0.5, 0.1, second))
        hits.append(low <= 0.3 <= high)
    assert 0.95 - 3 * np.sqrt(0.0475 / 2000) < np.mean(hits) < 0.99


def test_one_seed_on_a_side_gives_no_interval():
    difference, low, high = _seed_difference(np.array([0.5, np.nan]), np.array([0.2, 0.4]))
    assert difference == pytest.approx(-0.2)
    assert np.isnan([low, high]).all()


def test_what_could_not_be_tested_is_never_shown_as_none_flagged(runs):
    found = compare(runs["before"], runs["after"])

    def shown(**tested: bool) -> int:
        table = found.per_class.assign(**{f"testable_{run}": value for run, value in tested.items()})
        return render_page(comparison_page(replace(found, per_class=table))).count("not tested")

    assert shown(first=True, second=True) == 0
    in_tables = len(found.per_class) + min(200, len(found.per_group))
    assert shown(first=False, second=True) == in_tables + 1  # and of the whole run


@pytest.mark.parametrize("name", ["per_class", "scores"])
def test_a_run_that_was_changed_since_is_not_compared(runs, tmp_path, name):
    shutil.copytree(runs["after"], tmp_path / "after")
    table = tmp_path / "after" / f"{name}.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(InputError, match=rf"after: {name}\.parquet is not what the run wrote"):
        compare(runs["before"], tmp_path / "after")
