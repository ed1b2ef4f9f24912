"""Networks side by side: the same halves and seeds, the paired differences, the answer, and what is refused."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk.audits.arms import NETWORKS
from memorisk.audits.classifier.comparison import compare
from memorisk.audits.classifier.pages.networks import network_page, network_screen
from memorisk.audits.classifier.result import DefenceResult
from memorisk.audits.classifier.retraining import defences
from memorisk.audits.classifier.retraining.defences import DEFENCE_COLUMNS, defence_table
from memorisk.models.classifiers.zoo import create_model
from memorisk.report.page import render_page
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_json
from memorisk.statistics.intervals.means import paired_share_difference
from memorisk.statistics.intervals.shares import clopper_pearson
from tests.commands import answer

QUICK = {"models": 6, "epochs": 1, "sample": 500, "processes": 1, "fail_on": "never"}
SMALL, LARGE = "small_cnn", "cnn1"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DefenceResult]:
    folder = tmp_path_factory.mktemp("networks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        found = memorisk.audit_defences("digits", out=folder / "run", model=(LARGE, SMALL), **QUICK)
    return folder / "run", found


def test_networks_are_in_order_of_their_parameters(compared: tuple[Path, DefenceResult]) -> None:
    folder, found = compared
    assert found.table["network"].tolist() == [SMALL, LARGE]  # named the other way round
    assert found.reference == SMALL
    for row in found.table.to_dict("records"):
        network = create_model(str(row["network"]), num_classes=10, in_chans=1, image_size=8, weights=None, seed=0)
        assert row["parameters"] == sum(p.numel() for p in network.parameters())
        assert (folder / str(row["network"]) / "report.html").is_file()
    assert [row["network"] for row in read_json(folder / "networks.json")["networks"]] == [SMALL, LARGE]
    assert set(DEFENCE_COLUMNS) - {"regime"} <= set(found.table.columns)


def test_networks_share_parts_halves_and_seeds(compared: tuple[Path, DefenceResult]) -> None:
    folder = compared[0]
    own, other = (pd.read_parquet(folder / name / "scores.parquet") for name in (SMALL, LARGE))
    for column in ("seed", "role", "image", "group", "label", "split", "member"):
        assert own[column].tolist() == other[column].tolist()
    assert not np.allclose(own["loss"], other["loss"])


def test_the_differences_are_paired_over_patients(compared: tuple[Path, DefenceResult]) -> None:
    folder, found = compared
    before, row = found.table.to_dict("records")
    assert np.isnan(before["m_difference"])
    assert row["m_difference"] == pytest.approx(row["mean_m"] - before["mean_m"], abs=1e-9)
    by_class = compare(folder / SMALL, folder / LARGE).per_class
    weights = by_class["n_groups"] / by_class["n_groups"].sum()
    assert row["m_difference"] == pytest.approx((weights * by_class["difference"]).sum(), abs=1e-9)
    assert row["m_difference_low"] < row["m_difference"] < row["m_difference_high"]


def test_shares_are_those_of_the_patients_and_their_difference_is_paired(
    compared: tuple[Path, DefenceResult],
) -> None:
    folder, found = compared
    rng = np.random.default_rng(1)
    results = {}
    sure = {}
    for name, p in ((SMALL, 0.1), (LARGE, 0.3)):
        table = found.results[name].tables["patients"].sort_values("group").reset_index(drop=True)
        sure[name] = rng.random(len(table)) < p
        shuffled = table.assign(auc=np.where(sure[name], 0.95, 0.6), flagged=sure[name]).sample(frac=1, random_state=3)
        results[name] = found.results[name].replace(tables={"patients": shuffled})
    before, row = defence_table(folder, results, NETWORKS).to_dict("records")
    share = clopper_pearson(int(sure[LARGE].sum()), len(sure[LARGE]))
    for name in ("flagged", "sure"):
        ends = [row[f"{name}_share{end}"] for end in ("", "_low", "_high")]
        assert ends == pytest.approx([share.estimate, share.low, share.high])
        paired = paired_share_difference(sure[LARGE], sure[SMALL])
        ends = [row[f"{name}_difference{end}"] for end in ("", "_low", "_high")]
        assert ends == pytest.approx([paired.estimate, paired.low, paired.high])
    for name, of in ((SMALL, before), (LARGE, row)):
        curve = found.results[name].summary["patient_auc"]
        at = int(np.searchsorted(curve["auc"], 0.9))
        assert of["sure_chance"] == curve["chance"][at]
    assert pd.isna(before["sure_difference"])


def test_no_share_is_shown_where_nothing_was_tested(compared: tuple[Path, DefenceResult]) -> None:
    found = compared[1]
    assert np.isnan(found.table["flagged_share"].to_numpy(dtype=float)).all()  # with six models no list is possible
    sentences = " ".join(map(str, network_screen(found).sentences))
    assert "it was not tested which images are flagged" in sentences


def test_limits_hold_for_all_networks_together(compared: tuple[Path, DefenceResult], tmp_path: Path) -> None:
    folder, found = compared
    shutil.copytree(folder, tmp_path / "run")
    shutil.copytree(folder / LARGE, tmp_path / "run" / "other")
    three = defence_table(tmp_path / "run", {**found.results, "other": found.results[LARGE]}, NETWORKS)
    two = found.table.iloc[1]
    width = float(three["m_difference_high"].iloc[1] - three["m_difference_low"].iloc[1])
    assert width > 1.05 * float(two["m_difference_high"] - two["m_difference_low"])


@pytest.mark.parametrize(
    ("limits", "headline", "words"),
    [
        ((0.1, 0.3), "The larger network remembers more", "surely above"),
        ((-0.3, -0.1), "The larger network remembers less", "surely below"),
        ((-0.1, 0.2), "neither surely more nor surely less", "not surely"),
    ],
)
def test_the_answer_follows_the_interval(
    compared: tuple[Path, DefenceResult], limits: tuple[float, float], headline: str, words: str
) -> None:
    found = compared[1]
    table = found.table.assign(
        m_difference=[np.nan, sum(limits) / 2],
        m_difference_low=[np.nan, limits[0]],
        m_difference_high=[np.nan, limits[1]],
    )
    screen = network_screen(replace(found, table=table))
    assert headline in screen.headline
    assert words in str(screen.sentences[0])
    assert headline in render_page(network_page(replace(found, table=table)))


def test_networks_of_one_size_are_not_called_larger(compared: tuple[Path, DefenceResult]) -> None:
    found = compared[1]
    assert network_screen(replace(found, table=found.table.assign(parameters=7))).headline == (
        "The networks are of one size"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": (SMALL, SMALL)}, "model names the same one twice"),
        ({"model": ("resnet50", "timm:resnet50")}, "model names the same one twice"),
        ({"model": (SMALL, "auto")}, "name each network"),
        ({"model": ()}, "model is empty"),
        ({"model": (SMALL, LARGE), "regime": ("full", "lora")}, "2 networks and 2 regimes are too many"),
        ({"model": (SMALL, LARGE), "regime": "dp-full", "epsilon": (8, 3)}, "2 networks and 2 regimes are too many"),
        ({"model": (SMALL, LARGE), "weights": "a.safetensors"}, "fit one network, and 2 are compared"),
        ({"model": (SMALL, LARGE), "weights": "default"}, "weights"),
        ({"model": (SMALL, LARGE), "target": "a.safetensors"}, "target is a file of one network"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything(
    settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=message):
        memorisk.audit_defences("digits", out=tmp_path / "run", **(QUICK | settings))
    assert not (tmp_path / "run").exists()


def test_one_audit_has_one_network(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one audit has one network; audit_defences compares several"):
        memorisk.audit_classifier("digits", out=tmp_path / "run", model=(SMALL, LARGE), **QUICK)


@pytest.mark.thorough
def test_a_killed_comparison_goes_on(
    compared: tuple[Path, DefenceResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(compared[0].parent / "cache"))
    whole, begun = defences.audit_recipe, []

    def killed(images: Any, folder: Path, *given: Any, dry_run: bool = False, **named: Any) -> Any:
        """End the second network's audit before it begins."""
        if not dry_run and begun:
            raise MemoriskError("killed")
        begun.extend([] if dry_run else [folder])
        return whole(images, folder, *given, dry_run=dry_run, **named)

    monkeypatch.setattr(defences, "audit_recipe", killed)
    with pytest.raises(MemoriskError, match="killed"):
        memorisk.audit_defences("digits", out=tmp_path / "run", model=(LARGE, SMALL), **QUICK)
    monkeypatch.setattr(defences, "audit_recipe", whole)
    trained = {f: f.stat().st_mtime_ns for f in (tmp_path / "run" / LARGE).rglob("*.npy")}
    assert trained
    found = memorisk.audit_defences("digits", out=tmp_path / "run", model=(LARGE, SMALL), **QUICK)
    assert {f: f.stat().st_mtime_ns for f in trained} == trained
    pd.testing.assert_frame_equal(found.table, compared[1].table)


@pytest.mark.thorough
def test_a_later_network_joins_and_a_regime_does_not(
    compared: tuple[Path, DefenceResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(compared[0].parent / "cache"))
    out = tmp_path / "run"
    shutil.copytree(compared[0], out)
    with pytest.raises(InputError, match="holds another kind of run"):
        memorisk.audit_defences("digits", out=out, regime=("full", "lora"), **QUICK)
    with pytest.raises(InputError, match="name the network that joins them"):
        memorisk.audit_defences("digits", out=out, **QUICK)
    with pytest.raises(InputError, match="holds several networks side by side: name one of cnn1, small_cnn"):
        compare(out, out)
    found = memorisk.audit_defences("digits", out=out, model="small_resnet", **QUICK)
    assert sorted(found.table["network"]) == [LARGE, SMALL, "small_resnet"]
    assert found.table["parameters"].is_monotonic_increasing


def test_the_command_plans_and_compares_all(
    compared: tuple[Path, DefenceResult], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(compared[0].parent / "cache"))
    given = [w for k, v in QUICK.items() for w in (f"--{k.replace('_', '-')}", v)]
    command = ("audit", "classifier", "digits", "--out", compared[0], "--model", LARGE, SMALL, *given)
    code, out, err = answer(capsys, *command, "--dry-run")
    assert code == 0, err
    assert f"network: {LARGE}" in out
    assert f"network: {SMALL}" in out
    code, out, err = answer(capsys, *command)
    assert code == 0, err
    assert "By chance" in out
