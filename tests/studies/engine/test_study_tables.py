"""Tables 1 to 11 and figures 1 to 8 from finished runs: their numbers, the paper's layouts, and what is missing."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk.audits.classifier.explanations.run import explain
from memorisk.audits.classifier.run import audit_classifier
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.files import read_json, read_table, write_json, write_table
from memorisk.statistics.effect_sizes import percent_change
from memorisk.studies.engine.number_texts import (
    change_text,
    effect_size_text,
    plain_number,
    power_of_ten,
    regime_name,
    share_text,
    signed_number,
    thousands_text,
)
from memorisk.studies.engine.tables import MOST_ROWS, StudyTable, escape_markdown, markdown_table, tables_markdown
from memorisk.studies.rare_distinctive.class_tables import weights_name
from memorisk.studies.rare_distinctive.intervention_tables import smallest_budgets
from memorisk.studies.rare_distinctive.page import rarity_page
from memorisk.studies.rare_distinctive.rarity import rarity_across, rarity_table
from memorisk.studies.rare_distinctive.rarity_cells import cell_from_run
from memorisk.studies.rare_distinctive.results import LAYOUT, StudyRuns
from memorisk.studies.rare_distinctive.study import StudyResult
from memorisk.studies.rare_distinctive.tables import study_tables
from tests.commands import class_folders
from tests.report.chromium import Chromium, find_chromium

pytestmark = pytest.mark.usefixtures("drawn")

QUICK = {"processes": 1, "fail_on": "never"}
CNN, RESNET = "small_cnn", "small_resnet"
PLAIN, HOSTILE = "digits", "two|<b>\nclasses"
PATIENTS = [f"p{patient:02}_{view}.png" for patient in range(16) for view in range(2)]
NAMES = [f"table_{k}" for k in range(1, 12)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two architectures on the digits, one on images of patients, an intervention, explanations and a defence."""
    root = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(root / "cache"))
        changed = {"intervene": "edges-only", "classes": ("3", "8")}
        audit_classifier("digits", out=root / "cnn", model=CNN, models=4, epochs=2, sample=600, **changed, **QUICK)
        audit_classifier("digits", out=root / "resnet", model=RESNET, models=4, epochs=1, sample=600, **QUICK)
        images = class_folders(root / "set", ["benign", "malignant"], PATIENTS)
        own = {"group_from": r"(.*)_", "model": CNN, "models": 6, "epochs": 2, "lr": 0.01}
        audit_classifier(images, out=root / "patients", **own, **QUICK)
        explain(root / "cnn", features=["before"], permutations=99)
        explain(root / "patients", features=["before"], probes=True, permutations=99)
        regimes = {
            "regime": ("full", "dp-full"),
            "epsilon": (8, 1),
            "model": CNN,
            "models": 4,
            "epochs": 2,
            "sample": 600,
        }
        memorisk.audit_defences("digits", out=root / "defence", **regimes, **QUICK)
    return root


@pytest.fixture(scope="module")
def runs(root: Path) -> StudyRuns:
    return StudyRuns(
        cells={(CNN, PLAIN): root / "cnn", (RESNET, PLAIN): root / "resnet", (CNN, HOSTILE): root / "patients"},
        defences={PLAIN: root / "defence"},
        protocol="corrected",
        bases={(PLAIN, "3"): "Structure"},
        failed={"gone, small_cnn": "out of memory"},
    )


@pytest.fixture(scope="module")
def tables(runs: StudyRuns) -> dict[str, StudyTable]:
    found = study_tables(runs, draws=99)
    assert [table.name for table in found] == NAMES
    return {table.name: table for table in found}


@pytest.fixture(scope="module")
def html(runs: StudyRuns, tables: dict[str, StudyTable]) -> str:
    return render_page(rarity_page(runs, list(tables.values())))


def one(frame: pd.DataFrame, **where: object) -> pd.Series:
    """The row of a frame with these values."""
    chosen = frame
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_numbers_are_printed_as_the_paper_prints_them():
    assert (signed_number(1.33), signed_number(-0.25), signed_number(-0.001), signed_number(0.466, 3)) == (
        "+1.33",
        "−0.25",
        "+0.00",
        "+0.466",
    )
    assert (signed_number(float("nan")), signed_number(None), plain_number(0.6994, 3)) == ("n/a", "n/a", "0.699")
    pairs = ((0.36, 3.07), (1.38, 0.51), (1.45, -1.31), (-1.45, 0.09))  # table 6
    assert [change_text(b, a, percent_change(b, a)) for b, a in pairs] == ["+753%", "−63%", "−190%", "+106%"]
    assert (change_text(0.004, 0.480, 11900), effect_size_text(0.004, 0.480, 1.0)) == ("120×", "n/a")
    assert (change_text(0.004, 0.003, -25), effect_size_text(0.004, 0.003, -0.1)) == ("−25%", "−0.10")
    assert (change_text(0.0, 1.0, float("nan")), effect_size_text(1.76, 0.03, -1.16)) == ("n/a", "−1.16")
    assert change_text(1.0, 2.0, float("nan")) == "n/a"
    assert [share_text(v) for v in (0.669, 0.012, 0.0003, 0.0)] == ["66.9", "1.2", "0.03", "0.0"]
    assert [thousands_text(n) for n in (64, 50_000, 10_015)] == ["64", "50 K", "~10 K"]
    assert [power_of_ten(v) for v in (1e-4, 5e-5, 2.5e-3, float("nan"))] == ["1×10⁻⁴", "5×10⁻⁵", "2.5×10⁻³", "n/a"]
    regimes = ["full", "lora", "dp-lora-1", "dp-full-0.5", "fuller"]
    assert [regime_name(r) for r in regimes] == [
        "Full fine-tune",
        "LoRA only",
        "DP-LoRA ε=1",
        "DP-full ε=0.5",
        "fuller",
    ]
    assert regime_name("full", short=True) == "Full FT"
    assert smallest_budgets(["full", "lora", "dp-lora-8", "dp-lora-3", "dp-lora-1", "dp-full-8"]) == [
        "full", "lora", "dp-lora-1", "dp-full-8",
    ]  # fmt: skip
    assert weights_name("/home/somebody/medsam.pth") == "medsam.pth"


def test_every_column_shown_is_there_and_every_table_can_be_stored(tables: dict[str, StudyTable], tmp_path: Path):
    every = {name: table.ours for name, table in tables.items()}
    every |= {name: frame for table in tables.values() for name, frame in table.extra.items()}
    schemas = {**LAYOUT.tables, **LAYOUT.frames}
    assert set(every) == set(schemas)
    for name, frame in every.items():
        assert len(frame), name
        wanted = {s for c in schemas[name].columns for s in (c.source, *(c.interval or ()))}
        assert wanted <= set(frame.columns), name
        write_table(tmp_path / f"{name}.parquet", frame)
        assert len(read_table(tmp_path / f"{name}.parquet")) == len(frame)
    for table in tables.values():
        assert not table.why_empty
        assert len(table.paper)
        assert all(isinstance(v, str) and v for v in table.paper.to_numpy().ravel()), table.name
        write_table(tmp_path / "paper.parquet", table.paper)
        assert table.note.endswith(".")


def test_table_1_prints_rho_and_a_dash_for_sets_without_a_rare_class(tables: dict[str, StudyTable], root: Path):
    table = tables["table_1"]
    assert table.paper.columns.tolist() == ["Model", PLAIN, HOSTILE]
    cells = [cell_from_run(root / f, architecture=a, dataset=d) for f, a, d in (
        ("cnn", CNN, PLAIN), ("resnet", RESNET, PLAIN), ("patients", CNN, HOSTILE),
    )]  # fmt: skip
    ours = rarity_table(cells, draws=99)
    pd.testing.assert_frame_equal(table.ours, ours)
    row = one(ours, architecture=RESNET)
    expected = f"{row['paper_rho']:.3f} ± {row['paper_sd']:.3f}".replace("-", "−")
    assert one(table.paper, Model=RESNET)[PLAIN] == expected
    pd.testing.assert_frame_equal(table.extra["across"], rarity_across(cells, draws=99))
    assert {"cell", "data set"} <= set(table.extra["across"]["unit"])
    assert table.paper[HOSTILE].tolist() == ["– (no class below 5 % was scored)", "n/a"]
    assert any(line == "gone, small_cnn: out of memory" for line in table.missing)


def test_tables_2_and_7_are_those_of_the_explanations(tables: dict[str, StudyTable], root: Path):
    two, seven = tables["table_2"], tables["table_7"]
    assert two.paper.columns.tolist() == ["Dataset", "Spearman ρ", CNN]
    assert two.paper["Spearman ρ"].tolist() == ["raw", "within-class resid."] * 2
    assert seven.paper.columns.tolist() == ["Dataset", "Architecture", "Metric", "raw ρ", "residualised ρ"]
    assert seven.paper["Metric"].iloc[0] == "centroid_ratio"
    assert sorted(set(seven.paper["Metric"])) == ["centroid_ratio", "intra_centroid_dist", "nearest_other_class_dist"]
    saved = pd.read_parquet(root / "cnn" / "explain" / "atypicality_summary.parquet")
    centroid, pairwise = (one(saved, form=form, score="ratio") for form in ("centroid", "pairwise"))
    ours = one(two.ours, dataset=PLAIN)
    assert (ours["paper_rho"], ours["paper_p_residual"]) == (centroid["rho"], centroid["p_paper_residual"])
    assert (ours["rho_residual"], ours["low_residual"], ours["p"]) == tuple(
        pairwise[["rho_residual", "low_residual", "p"]]
    )
    printed = two.paper[two.paper["Dataset"] == PLAIN][CNN].tolist()
    assert printed == [signed_number(centroid["rho"], 3), signed_number(centroid["rho_residual"], 3)]
    assert len(seven.ours) == 6
    assert f"{PLAIN}, {RESNET}: was not explained (memorisk explain)" in seven.missing
    layers = pd.read_parquet(root / "patients" / "explain" / "distances.parquet")
    assert seven.extra["layers"]["layer"].tolist() == layers["layer"].tolist()
    np.testing.assert_array_equal(seven.extra["layers"]["high"], layers["high"])
    assert seven.extra["layers"]["number"].tolist() == list(range(1, len(layers) + 1))
    ceiling = read_json(root / "patients" / "explain" / "explain.json")["probes"]["reliability"]["ceiling"]["estimate"]
    np.testing.assert_array_equal(seven.extra["probes"]["ceiling"], np.nan if ceiling is None else ceiling)


def test_tables_3_and_6_are_those_of_the_intervention(tables: dict[str, StudyTable], root: Path):
    three, six = tables["table_3"], tables["table_6"]
    assert three.paper.columns.tolist() == ["Dataset", "Class", "Change", "d", "Basis"]
    headings = ["Dataset", "Class", "Freq. %", "Baseline", "Edges-only", "Change", "d", "Basis"]
    assert six.paper.columns.tolist() == headings
    saved = Result.load(root / "cnn").tables["intervention"].set_index("label")
    assert three.paper["Class"].tolist() == six.paper["Class"].tolist() == ["3", "8"]
    assert three.paper["Basis"].tolist() == ["Structure", "n/a"]
    images = Result.load(root / "cnn").per_image
    for label in ("3", "8"):
        row, printed = saved.loc[label], one(six.paper, Class=label)
        of_class = images[(images["label"] == label) & images["M"].notna()]["M"].mean()
        assert printed["Baseline"] == f"{of_class:+.2f}".replace("-", "−")  # over images, as table 5 and algorithm 1
        assert row["paper_before"] == pytest.approx(of_class)
        change = 100 * (row["paper_after"] - of_class) / abs(of_class)
        assert printed["Change"] == f"{change:+.0f}%".replace("-", "−")
        assert printed["d"] == f"{row['paper_cohens_d']:+.2f}".replace("-", "−")
        ours = one(three.ours, label=label)
        for column in ("difference", "low", "high", "noise", "noise_low", "excess_high", "n_groups", "reading"):
            assert ours[column] == row[column]
    assert len(six.ours) == 10
    assert not six.ours["targeted"].all()
    assert f"{PLAIN}, {RESNET}: no intervention in this run" in three.missing


def test_the_architecture_printed_is_the_one_with_the_largest_effect(runs: StudyRuns, root: Path, tmp_path: Path):
    shutil.copytree(root / "cnn", tmp_path / "other")
    path = tmp_path / "other" / "tables" / "intervention.parquet"
    table = read_table(path)
    larger = table["paper_before"] + 10 * (table["paper_after"] - table["paper_before"])
    write_table(path, table.assign(paper_after=larger, paper_percent=-77.0))
    (tmp_path / "other" / SEAL).unlink()
    both = replace(runs, cells={(CNN, PLAIN): root / "cnn", ("other", PLAIN): tmp_path / "other"}, defences={})
    three = study_tables(both, draws=9)[2]
    assert three.paper["Change"].tolist() == ["−77%", "−77%"]
    assert set(three.ours["architecture"]) == {CNN, "other"}


def test_tables_4_and_11_have_accuracy_on_members_as_printed_and_on_unseen_images_as_ours(
    tables: dict[str, StudyTable], root: Path
):
    four, eleven = tables["table_4"], tables["table_11"]
    assert four.paper.columns.tolist() == ["Dataset", "Regime", "Acc. %", "Worst-class M(x)"]
    assert eleven.paper.columns.tolist() == ["Dataset", "Regime", "Acc. %", "Mean M(x)", "Worst class", "M(x)"]
    assert four.paper["Regime"].tolist() == ["Full FT", "DP-full ε=1"]
    assert eleven.paper["Regime"].tolist() == ["Full fine-tune", "DP-full ε=8", "DP-full ε=1"]
    saved = pd.read_parquet(root / "defence" / "defence.parquet")
    for i, regime in enumerate(("full", "dp-full-8", "dp-full-1")):
        scores = pd.read_parquet(root / "defence" / regime / "scores.parquet")
        members = scores[scores["member"] & (scores["split"] == "canary")]["correct"].mean()
        images = pd.read_parquet(root / "defence" / regime / "per_image.parquet").dropna(subset=["M"])
        means = images.groupby("label", observed=True)["M"].mean()
        printed = eleven.paper.iloc[i]
        assert printed["Acc. %"] == f"{100 * members:.1f}"
        assert (printed["Worst class"], printed["M(x)"]) == (means.idxmax(), signed_number(means.max()))
        assert printed["Mean M(x)"] == signed_number(images["M"].mean())
        ours = one(eleven.ours, regime=regime)
        assert ours["accuracy_members"] == pytest.approx(members)
        assert ours["accuracy"] == saved["accuracy"].iloc[i] != members
    assert four.ours["epsilon"].tolist()[1:] == [8, 1]
    by_regime = eleven.extra["by_regime"]
    saved_class = one(Result.load(root / "defence" / "dp-full-1").per_class, label="4")
    assert one(by_regime, regime="dp-full-1", label="4")["mean"] == saved_class["mean"]
    assert four.missing == ()


def test_table_5_holds_means_over_images_as_printed_and_intervals_as_ours(tables: dict[str, StudyTable], root: Path):
    table = tables["table_5"]
    assert table.paper.columns.tolist() == ["Dataset", "Class", "Freq. %", "n", CNN, RESNET]
    images = pd.read_parquet(root / "cnn" / "per_image.parquet").dropna(subset=["M"])
    means = images.groupby("label", observed=True)["M"].agg(["mean", "size"]).sort_values("mean", ascending=False)
    printed = table.paper[table.paper["Dataset"] == PLAIN]
    assert printed["Class"].tolist() == means.index.astype(str).tolist()
    assert printed[CNN].tolist() == [signed_number(m) for m in means["mean"]]
    assert printed["n"].tolist() == [str(n) for n in means["size"]]
    assert set(table.paper[table.paper["Dataset"] == HOSTILE][RESNET]) == {"n/a"}
    saved = one(Result.load(root / "resnet").per_class, label="7")
    ours = one(table.ours, dataset=PLAIN, architecture=RESNET, label="7")
    for column in ("mean", "low", "high", "tier", "n_groups_scored"):
        assert ours[column] == saved[column]
    assert table.ours["flagged"].isna().any()  # classes that could not be tested


def test_table_8_marks_the_best_attack_and_leads_with_one_chosen_beforehand(tables: dict[str, StudyTable], root: Path):
    table = tables["table_8"]
    assert table.paper.columns.tolist() == ["Dataset", "Class", "Freq. %", "MIA AUC", "M(x)"]
    attacks = Result.load(root / "cnn").attacks
    own = attacks[attacks["label"] == "6"].set_index("attack")
    ours = one(table.ours, dataset=PLAIN, architecture=CNN, label="6")
    assert ours[["auc", "low", "high"]].tolist() == own.loc["differential", ["auc", "low", "high"]].tolist()
    best = own.loc[["loss_threshold", "confidence_ratio", "differential", "gaussian_likelihood_ratio"], "auc"].max()
    assert ours["best_auc"] == best
    assert one(table.paper, Dataset=f"{PLAIN} ({CNN})", Class="6")["MIA AUC"] == f"{best:.3f}"
    agreement = Result.load(root / "resnet").summary["agreement"]
    rows = {
        "other seeds, loss threshold": agreement["other_seeds"],
        "other seeds, loss difference": agreement["strongest"]["other_seeds"],
        "the attacked models, loss difference (paper)": agreement["strongest"]["circular"],
    }
    for form, found in rows.items():
        row = one(table.extra["agreement"], architecture=RESNET, form=form)
        assert row["spearman"] == found["spearman"]["estimate"]
    assert len(table.extra["agreement"]) == 9


def test_an_attack_that_cannot_be_measured_is_said_so(runs: StudyRuns, root: Path, tmp_path: Path):
    shutil.copytree(root / "resnet", tmp_path / "run")
    attacks = read_table(tmp_path / "run" / "attacks.parquet")
    gone = (attacks["label"] == "1").to_numpy()
    for column in ("auc", "low", "high"):
        attacks.loc[gone, column] = np.nan
    attacks.loc[gone, "note"] = "not measurable: 1 member"
    write_table(tmp_path / "run" / "attacks.parquet", attacks)
    (tmp_path / "run" / SEAL).unlink()
    table = study_tables(replace(runs, cells={(RESNET, PLAIN): tmp_path / "run"}), draws=9)[7]
    assert one(table.paper, Class="1")["MIA AUC"] == "n/a"
    assert one(table.ours, label="1")["why"] == "not measurable: 1 member"
    assert set(table.ours["why"]) == {"", "not measurable: 1 member"}
    assert "not measurable" in markdown_table(table.ours, LAYOUT.tables["table_8"].columns)


def test_table_9_counts_patients_where_they_are_named(tables: dict[str, StudyTable]):
    table = tables["table_9"]
    headings = ["Dataset", "Domain", "Classes", "Images", "Imbalance", "Rarest class"]
    assert table.paper.columns.tolist() == headings
    assert table.paper.iloc[0].tolist()[:4] == [PLAIN, "n/a", "10", "600"]
    digits, patients = (one(table.ours, dataset=d) for d in (PLAIN, HOSTILE))
    assert np.isnan(digits["n_groups"])
    assert (patients["n_groups"], patients["n_images"], patients["images_per_patient"]) == (16, 64, 4)
    assert (patients["most_images"], patients["imbalance"], patients["n_test"]) == (4, 1, 8)
    assert patients["n_scored"] == 56 == 4 * patients["n_groups_scored"]
    assert any("no patient ids were given" in line for line in table.missing)


def test_table_9_knows_the_domains_of_the_papers_data_sets(runs: StudyRuns, root: Path):
    one_cell = replace(runs, cells={(RESNET, "ChestX-ray14"): root / "resnet"}, defences={})
    assert study_tables(one_cell, draws=9)[8].paper["Domain"].tolist() == ["Radiology"]


def test_table_10_has_a_row_a_recipe(tables: dict[str, StudyTable]):
    table = tables["table_10"]
    assert table.paper.columns.tolist() == ["Architecture", "Pretraining", "Epochs", "Learning rate"]
    assert table.paper.to_numpy().tolist() == [
        [CNN, "Random initialisation", "2", "1×10⁻³"],
        [CNN, "Random initialisation", "2", "1×10⁻²"],
        [RESNET, "Random initialisation", "1", "1×10⁻³"],
    ]
    assert table.ours[["optimizer", "batch_size", "normalise", "size", "device"]].iloc[0].tolist() == [
        "adam", "64", "dataset", "as stored", "cpu",
    ]  # fmt: skip


def test_one_data_set_is_laid_out_as_in_the_paper(runs: StudyRuns, root: Path):
    single = replace(runs, cells={k: v for k, v in runs.cells.items() if k[1] == PLAIN})
    found = {t.name: t.paper.columns.tolist() for t in study_tables(single, draws=9)}
    assert found["table_2"] == ["Spearman ρ", CNN]
    assert found["table_5"] == ["Class", "Freq. %", "n", CNN, RESNET]
    assert found["table_7"] == ["Architecture", "Metric", "raw ρ", "residualised ρ"]


def test_nothing_finished_gives_eleven_empty_tables_and_a_page():
    nothing = StudyRuns(cells={}, failed={"digits, small_cnn": "no room on the disk"})
    found = study_tables(nothing)
    assert [table.name for table in found] == NAMES
    assert all(table.why_empty for table in found)
    assert all(table.paper.empty and len(table.paper.columns) for table in found if table.name != "table_10")
    shown = render_page(rarity_page(nothing, found))
    assert "no room on the disk" in shown
    assert shown.count("Empty: ") == 11
    assert "no room on the disk" in tables_markdown(found)


def test_damaged_and_absent_parts_cost_the_others_nothing(runs: StudyRuns, root: Path, tmp_path: Path):
    shutil.copytree(root / "resnet", tmp_path / "damaged")
    (tmp_path / "damaged" / "scores.parquet").write_bytes(b"half a file")
    cells = {(RESNET, PLAIN): tmp_path / "damaged", (CNN, PLAIN): root / "cnn", (CNN, "gone"): tmp_path / "gone"}
    found = study_tables(replace(runs, cells=cells, defences={PLAIN: tmp_path / "none"}), draws=9)
    assert found[0].paper["Model"].tolist() == [CNN]
    for name in (f"{PLAIN}, {RESNET}: ", "gone, small_cnn: "):
        assert sum(line.startswith(name) for line in found[0].missing) == 1
    assert "no comparison of regimes" in found[3].why_empty
    assert any(line.startswith(f"{PLAIN}, defences: ") for line in found[3].missing)


def test_an_explanation_of_other_seeds_is_not_used(runs: StudyRuns, root: Path, tmp_path: Path):
    shutil.copytree(root / "cnn", tmp_path / "run")
    explained = tmp_path / "run" / "explain"
    write_json(explained / "explain.json", read_json(explained / "explain.json") | {"seeds": [1]})
    write_seal(explained, sealed_files(explained))
    table = study_tables(replace(runs, cells={(CNN, PLAIN): tmp_path / "run"}), draws=9)[1]
    assert "no finished cell was explained" in table.why_empty
    assert f"{PLAIN}, {CNN}: was explained before its seeds or images changed: explain it again" in table.missing


def test_runs_of_one_data_set_on_other_images_are_told_apart(runs: StudyRuns, root: Path):
    mixed = replace(runs, cells={(CNN, PLAIN): root / "cnn", (RESNET, PLAIN): root / "patients"}, defences={})
    found = study_tables(mixed, draws=9)
    assert "across" not in found[0].extra
    assert any("are of different images" in line for line in found[0].missing)
    assert any("are of different images" in line for line in found[4].missing)
    assert any("others than those counted here" in line for line in found[8].missing)


def test_markdown_keeps_users_text_in_its_cell(tables: dict[str, StudyTable]):
    text = tables_markdown(list(tables.values()))
    assert [line for line in text.splitlines() if line.startswith("## ")][4].startswith("## Table 5. ")
    assert text.count("As the paper prints it:") == 11
    assert r"two\|\<b>\\nclasses" in text
    assert escape_markdown("[x](http://a) `b` *c*") == r"[x]\(http://a) \`b\` \*c\*"
    grid = [line.replace(r"\|", "") for line in text.splitlines() if line.startswith("|")]
    for before, line in pairwise(grid):
        if line.startswith("| ---"):
            assert line.count("|") == before.count("|")
    lines = markdown_table(pd.DataFrame({"a": [str(i) for i in range(MOST_ROWS + 5)]})).splitlines()
    assert len(lines) == 2 + MOST_ROWS + 2
    assert lines[-1] == "5 more rows are not shown here."


def test_the_page_holds_every_table_and_figure_and_no_id(html: str):
    for k in range(1, 12):
        assert f"Table {k}. " in html
    for name in ("1.", "2.", "3 (a).", "3 (b).", "4 (a).", "4 (b).", "5.", "6.", "8."):
        assert f"Figure {name} " in html
    assert "Images appear in reports only as the user chose" in html
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert "out of memory" in html
    assert "p03" not in html
    assert "(empty)" not in html


def test_the_page_says_which_protocol_ran(runs: StudyRuns, tables: dict[str, StudyTable]):
    paper = render_page(rarity_page(replace(runs, protocol="paper"), list(tables.values())))
    assert "the candidate has more data and more steps" in paper


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 820, 1280])
def test_nothing_sticks_out_sideways(html: str, tmp_path: Path, width: int):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    with Chromium(path) as browser:
        browser.open(tmp_path / "page.html", width=width)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
        assert browser.requests() == [(tmp_path / "page.html").resolve().as_uri()]


def test_a_study_is_shown_in_a_few_lines(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("report")
    filled = StudyTable("table_1", "Rarity <b>", pd.DataFrame({"a": ["<i>"]}), pd.DataFrame(), "")
    empty = StudyTable("table_2", "Empty", pd.DataFrame(), pd.DataFrame(), "", why_empty="no cell")
    failed = {"a, CNN": "out of memory", "b, CNN": "x"}
    found = StudyResult(runs=StudyRuns(cells={}), tables=[filled, empty], failed=failed, folder=tmp_path)
    assert repr(found) == (
        "StudyResult(2 cells are missing, 1 of 2 tables filled: a, CNN: out of memory; and 1 more in .failed; report: "
        f"{tmp_path / 'report.html'})"
    )
    shown = found._repr_html_()
    assert "Rarity &lt;b&gt;" in shown
    assert "&lt;i&gt;" in shown
    assert str(found.report_path) in shown
    assert repr(StudyResult(runs=StudyRuns(cells={}), tables=[filled], failed={})) == (
        "StudyResult(complete, 1 of 1 table filled)"
    )
