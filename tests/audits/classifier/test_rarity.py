"""From runs to the paper's tables: cells, layouts, and what cannot be measured said in words."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu, spearmanr

from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses
from memorisk.runs.errors import InputError
from memorisk.scores.memorization import memorization
from memorisk.studies.rare_distinctive.rarity import class_table, rarity_across, rarity_table, table_one
from memorisk.studies.rare_distinctive.rarity_cells import cell_from_run, make_cell
from tests.audits.made_evidence import twin_evidence

HAM = {"akiec": 49, "mel": 167, "bkl": 165, "df": 18, "bcc": 77, "nv": 1006, "vasc": 21}
TABLE_5 = {  # paper 000: ViT and MedSAM
    "ViT": {"akiec": 2.56, "mel": 1.95, "bkl": 1.51, "df": 0.87, "bcc": 0.73, "nv": 0.13, "vasc": 0.12},
    "MedSAM": {"akiec": 0.69, "mel": 0.47, "bkl": 0.59, "df": 1.90, "bcc": 0.67, "nv": 0.09, "vasc": 0.31},
}


def cell(architecture, dataset="HAM10000", sizes=HAM, means=None, seeds=2, seed=0, scale=1, **given):
    """Canaries of given class means; within a class M sums to them exactly in every seed."""
    rng = np.random.default_rng(seed)
    sizes = {name: max(n // scale, 1) for name, n in sizes.items()}
    label = np.repeat(list(sizes), list(sizes.values()))
    noise = rng.normal(size=(seeds, len(label)))
    means = means or {name: -0.3 * np.log(n / sum(sizes.values())) + 0.1 * rng.normal() for name, n in sizes.items()}
    for name in sizes:
        noise[:, label == name] += means[name] - noise[:, label == name].mean(axis=1, keepdims=True)
    frequency = {name: n / sum(sizes.values()) for name, n in sizes.items()}
    ids = np.arange(len(label))
    columns = {"frequency": frequency, "m": noise, "image": ids, "label": label, "group": ids} | given
    return make_cell(architecture, dataset, **columns)


def test_table_5_of_the_paper_comes_back_in_its_layout():
    cells = [cell(name, means=means) for name, means in TABLE_5.items()]
    table = class_table(cells, sort_by="ViT")
    assert table.columns.tolist() == ["class", "frequency", "n", "ViT", "MedSAM"]
    assert table["class"].tolist() == ["akiec", "mel", "bkl", "df", "bcc", "nv", "vasc"]
    assert table["n"].tolist() == [49, 167, 165, 18, 77, 1006, 21]
    np.testing.assert_allclose(table["ViT"], [2.56, 1.95, 1.51, 0.87, 0.73, 0.13, 0.12])
    assert (100 * table["frequency"]).round(1).tolist() == [3.3, 11.1, 11.0, 1.2, 5.1, 66.9, 1.4]
    assert class_table(cells, sort_by="MedSAM")["class"].iloc[0] == "df"


def test_table_1_is_laid_out_as_printed_with_ours_beside():
    cells = [cell(a, d, scale=4, seed=i) for a in ("ViT", "MAE") for i, d in enumerate(("HAM10000", "Kvasir"))]
    table = rarity_table(cells, draws=99)
    wide = table_one(table)
    assert wide.columns.tolist() == ["architecture", "HAM10000", "Kvasir"]
    assert wide["architecture"].tolist() == ["ViT", "MAE"]
    first, row = cells[0], table.iloc[0]
    each = [spearmanr(first.frequency, m).statistic for m in first.m]
    assert wide.loc[0, "HAM10000"] == f"{np.mean(each):.3f} ± {np.std(each, ddof=1):.3f}"
    assert row["paper_p"] == 1e-10
    assert row["class_rho"] == pytest.approx(spearmanr(first.classes["frequency"], first.classes["mean"]).statistic)
    assert row["class_smallest_p"] == pytest.approx(2 / 2520)  # mel and bkl are equally frequent
    assert row["rho_low"] < row["paper_rho"] < row["rho_high"]
    rare = first.classes["frequency"] < 0.05
    scipys = mannwhitneyu(first.classes["mean"][rare], first.classes["mean"][~rare], method="exact")
    assert row["mw_p_two_sided"] == pytest.approx(scipys.pvalue)
    assert row["mw_smallest_p"] == pytest.approx(1 / 35)
    assert np.isnan(row["mw_low"])
    assert "3 rare and 4 common classes" in row["why"]


def test_across_cells_the_units_are_data_sets_and_classes():
    sets = ("a", "b", "c", "d")
    cells = [cell(n, d, scale=4, seed=i) for n in ("r", "v", "m") for i, d in enumerate(sets)]
    balanced = cell("r", "oct", {"x": 50, "y": 60, "z": 70})
    found = rarity_across([*cells, balanced], draws=199)
    signs = found[found["statistic"] == "sign test of mean rho"]
    assert signs["form"].tolist() == ["paper", "ours"]
    assert signs["n_units"].tolist() == [12, 4]
    assert signs["p_one_sided"].tolist() == pytest.approx([2**-12, 0.0625])
    assert signs["smallest_one_sided"].tolist() == pytest.approx([2**-12, 0.0625])
    assert signs["why"].tolist() == ["no class below 5 % was scored: oct"] * 2
    ours = found[(found["form"] == "ours") & (found["unit"] == "class within data set")]
    assert ours["n_units"].tolist() == [31, 31]
    assert ours["n_rows"].tolist() == [12 * 7 + 3] * 2
    assert (ours["high"] < 0).all()
    assert ours["p_two_sided"].tolist() == pytest.approx([1 / 200] * 2)
    paper = found[found["statistic"].str.startswith("M ~ frequency")]
    assert paper["scope"].tolist() == ["all cells", "r", "v", "m"]
    assert paper["var_class"].notna().all()
    ranks = found[found["statistic"].str.startswith("Mann-Whitney")]
    assert len(ranks) == 13
    assert ranks["why"].iloc[-1].startswith("no rare (below 5 %) class")
    assert np.isnan(ranks["p_two_sided"].iloc[-1])


def test_a_data_set_whose_rare_class_was_not_scored_does_not_vote():
    """Its rare class was too small to be split: nothing was measured of rarity there."""
    sizes = {"a": 200, "b": 150}
    shares = {"a": 0.55, "b": 0.42, "rare": 0.03}
    unscored = cell("r", "small", sizes, frequency=shares)
    assert not unscored.rare_scored
    found = rarity_across([cell("r", "HAM10000", scale=4), unscored], draws=99)
    signs = found[found["statistic"] == "sign test of mean rho"]
    assert signs["n_units"].tolist() == [1, 1]
    assert signs["why"].tolist() == ["no class below 5 % was scored: small"] * 2


def test_what_is_not_scored_is_left_out_and_said():
    full = cell("r", scale=4)
    holed = full.m.copy()
    holed[0, full.label == "mel"] = np.nan
    holed[:, full.label == "df"] = np.nan
    frequency = dict(zip(full.classes["label"], full.classes["frequency"], strict=True))
    part = cell("r", scale=4, frequency=frequency, m=holed)
    assert part.m.shape == (2, len(full.label) - 4)
    row = part.classes.set_index("label").loc["df"]
    assert row["n"] == 0
    assert np.isnan(row["mean"])
    mel = full.label == "mel"
    assert part.classes.set_index("label").loc["mel", "mean"] == pytest.approx(full.m[1, mel].mean())
    table = rarity_table([part], draws=99)
    assert table.loc[0, "n_classes"] == 6
    assert "1 of 7 classes have no scored image" in table.loc[0, "why"]
    assert class_table([part], sort_by="r")["class"].iloc[-1] == "df"
    single = rarity_table([cell("r", scale=4, seeds=1)], draws=99).loc[0]
    assert np.isnan(single["paper_sd"])
    assert "one seed" in single["why"]


def test_cells_that_do_not_belong_together_are_refused():
    with pytest.raises(InputError, match="no cells"):
        rarity_table([])
    with pytest.raises(InputError, match="two runs of r on HAM10000"):
        rarity_table([cell("r"), cell("r")])
    with pytest.raises(InputError, match="of different images"):
        rarity_across([cell("r"), cell("v", sizes=HAM | {"nv": 900})])
    with pytest.raises(InputError, match="class 'df' has no frequency"):
        cell("r", frequency={name: 0.1 for name in HAM if name != "df"})
    with pytest.raises(InputError, match="nothing to relate"):
        cell("r", m=np.full((2, sum(HAM.values())), np.nan))


@pytest.mark.parametrize("design", ["balanced", "matched", "paper"])
def test_cells_from_runs_of_every_design(tmp_path, design):
    sizes = {"common": 30, "less": 12, "rare": 3}
    evidence = twin_evidence(
        sizes=sizes, n_test=4, n_seeds=3, planted={"rare": 1.0}, shared=6 if design != "balanced" else 0
    )
    write_scores(tmp_path / "scores.parquet", evidence)
    if design == "paper":
        table = pd.read_parquet(tmp_path / "scores.parquet")
        table["role"] = table["role"].astype(str).map({"A": "candidate", "B": "independent"})
        canary = table["split"] == "canary"
        table.loc[canary, "member"] = table.loc[canary, "role"] == "candidate"
        table.to_parquet(tmp_path / "scores.parquet")
    audit_losses(tmp_path / "scores.parquet", out=tmp_path / "run", fail_on="never")
    found = cell_from_run(tmp_path / "run", architecture="small")
    assert found.design == design
    assert (found.architecture, found.dataset) == ("small", "scores")
    canary = evidence.items.split == "canary"
    order = np.argsort(found.image)
    names = evidence.items.image[canary].astype(str)
    sign = np.ones(evidence.gap.shape) if design == "paper" else evidence.sign
    expected = memorization(evidence.gap[:, canary], sign[:, canary])
    kept = np.isin(names, found.image)
    np.testing.assert_allclose(np.nanmean(found.m, axis=0)[order], expected[kept][np.argsort(names[kept])])
    total = len(evidence.items)
    per_class = (evidence.items.label == "rare").sum()
    rare = found.classes.set_index("label").loc["rare"]
    assert rare["frequency"] == pytest.approx(per_class / total)
    assert rare["n"] == (found.label == "rare").sum() <= 3
    assert len(rarity_across([found], draws=9)) > 3


def test_a_run_of_the_digits(small_run):
    found = cell_from_run(small_run)
    assert found.dataset == "digits"
    assert len(found.classes) == 10
    assert found.m.shape[0] == 3
    table = rarity_table([found], draws=199)
    assert table.loc[0, "n_rare"] == (found.classes["frequency"] < 0.05).sum() > 0
    assert np.isfinite(
        table.loc[0, ["paper_rho", "rho_low", "image_p", "class_low", "mw_p_two_sided"]].astype(float)
    ).all()
    assert table.loc[0, "class_p"] >= table.loc[0, "class_smallest_p"]
    across = rarity_across([found], draws=199)
    assert across["n_units"].iloc[:2].tolist() == [1, 1]
    assert across["smallest_one_sided"].iloc[:2].tolist() == [0.5, 0.5]
    assert class_table([found], sort_by=found.architecture).shape == (10, 4)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError):
        cell_from_run(tmp_path)
