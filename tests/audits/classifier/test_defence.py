"""Regimes side by side: the table, the promise, the measured bound, and their page."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.pages.defences import defence_page
from memorisk.audits.classifier.planning import rehearsal
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.planning.rehearsal import Choice, ModelChooser, one_choice
from memorisk.audits.classifier.result import DefenceResult
from memorisk.audits.classifier.retraining import defences
from memorisk.audits.classifier.retraining.defences import DEFENCE_COLUMNS, defence_table
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import read_json
from memorisk.statistics.privacy.patient_epsilon import replace_one_epsilon
from tests.commands import answer

QUICK = {"model": "small_cnn", "models": 6, "epochs": 2, "sample": 900, "processes": 1, "fail_on": "never"}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DefenceResult]:
    folder = tmp_path_factory.mktemp("defence")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        found = memorisk.audit_defences(
            "digits", out=folder / "run", regime=("full", "dp-full"), epsilon=(8,), canary_pairs=60, **QUICK
        )
    return folder / "run", found


def test_a_row_a_regime_with_every_column(compared: tuple[Path, DefenceResult]) -> None:
    folder, found = compared
    assert found.table["regime"].tolist() == ["full", "dp-full-8"]
    assert set(DEFENCE_COLUMNS) <= set(found.table.columns)
    assert found.reference == "full"
    kept = read_json(folder / "defence.json")["regimes"]
    assert [row["regime"] for row in kept] == ["full", "dp-full-8"]
    for name in found.results:
        assert (folder / name / "report.html").is_file()


def test_the_numbers_are_those_of_the_runs(compared: tuple[Path, DefenceResult]) -> None:
    folder, found = compared
    for row in found.table.to_dict("records"):
        result = found.results[str(row["regime"])]
        best = result.per_class.sort_values("mean", ascending=False).iloc[0]
        assert (row["worst_class"], row["flagged"]) == (best["label"], None)  # two models can flag no patient
        assert row["worst_m"] == pytest.approx(best["mean"])
        assert (row["worst_m_low"], row["worst_m_high"]) == pytest.approx((best["low"], best["high"]))
        scores = pd.read_parquet(folder / str(row["regime"]) / "scores.parquet")
        test = scores[scores["split"] == "test"]
        assert row["accuracy"] == pytest.approx(test["correct"].mean())
        majority = scores[scores["split"] != "test"].drop_duplicates("image")["label"].mode()[0]
        assert row["majority"] == pytest.approx((test.drop_duplicates("image")["label"] == majority).mean())


def test_the_change_follows_one_class(compared: tuple[Path, DefenceResult]) -> None:
    full, private = compared[1].table.to_dict("records")
    assert full["reference_class"] == private["reference_class"] == full["worst_class"]
    assert np.isnan(full["change"])
    assert private["change"] == pytest.approx(private["reference_m"] - full["reference_m"], abs=1e-6)
    assert private["change_low"] < private["change"] < private["change_high"]
    assert private["change_percent"] == pytest.approx(100 * private["change"] / abs(full["reference_m"]), rel=1e-4)


def test_promise_and_bound_stand_side_by_side(compared: tuple[Path, DefenceResult]) -> None:
    full, private = compared[1].table.to_dict("records")
    assert np.isnan(full["epsilon"])
    promise = compared[1].results["dp-full-8"].summary["privacy"]["promise"]
    spent = (promise["noise_multiplier"], promise["sampling_rate"], promise["steps"], promise["delta"])
    assert private["replace_one_epsilon"] == pytest.approx(replace_one_epsilon(*spent))
    for row in (full, private):
        assert row["bound_pairs"] == 60
        assert 0 <= row["bound"] <= row["bound_largest"] < 3.2
    assert private["bound"] <= private["replace_one_epsilon"]


def test_the_page_says_who_learned_nothing(compared: tuple[Path, DefenceResult]) -> None:
    found = compared[1]
    html = render_page(defence_page(found))
    assert "What each regime costs and saves" in html
    assert "A promise is broken" not in html
    idle = found.table.assign(gain_low=-0.1)
    html = render_page(defence_page(DefenceResult(idle, found.results, "full")))
    assert "Not surely better than always answering the commonest class: full, dp-full-8" in html
    broken = found.table.assign(bound=99.0)
    assert "A promise is broken" in render_page(defence_page(DefenceResult(broken, found.results, "full")))


def test_the_report_of_one_regime_says_what_it_promises(compared: tuple[Path, DefenceResult]) -> None:
    folder, found = compared
    html = (folder / "dp-full-8" / "report.html").read_text()
    promise = found.results["dp-full-8"].summary["privacy"]["promise"]
    assert "What is promised of privacy, and what was proved" in html
    assert f"{promise['replace_one_epsilon']:.3g}" in html
    assert "60 pairs cannot prove more than" in html
    assert "they are not for release" in html
    full = (folder / "full" / "report.html").read_text()
    assert "without differential privacy" in full
    assert "they are not for release" not in full


def test_all_must_pass(compared: tuple[Path, DefenceResult]) -> None:
    found = compared[1]
    good = {name: r.replace(verdict=r.verdict | {"status": "pass"}) for name, r in found.results.items()}
    assert DefenceResult(found.table, good, "full").passed
    one: dict[str, Result] = {**good, "full": found.results["full"].replace(verdict={"status": "undecided"})}
    assert not DefenceResult(found.table, one, "full").passed


def test_the_command_goes_on_and_prints_the_table(
    compared: tuple[Path, DefenceResult], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(compared[0].parent / "cache"))
    given = [w for k, v in QUICK.items() for w in (f"--{k.replace('_', '-')}", v)]
    code, out, err = answer(
        capsys, "audit", "classifier", "digits", "--out", compared[0], "--regime", "full", "dp-full", "--epsilon", 8,
        "--canary-pairs", 60, *given,
    )  # fmt: skip
    assert code == 0, err
    assert "dp-full-8" in out
    pd.testing.assert_frame_equal(defence_table(compared[0], compared[1].results), compared[1].table)


@pytest.mark.thorough
def test_a_later_command_adds_its_regimes(
    compared: tuple[Path, DefenceResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(compared[0].parent / "cache"))
    shutil.copytree(compared[0], tmp_path / "run")
    found = memorisk.audit_defences("digits", out=tmp_path / "run", regime="dp-full", epsilon=(3,), **QUICK)
    assert found.table["regime"].tolist() == ["full", "dp-full-8", "dp-full-3"]
    # Limits of differences hold for all arms together, so that one more arm widens them.
    own = [name for name in found.table if not name.endswith(("difference_low", "difference_high"))]
    pd.testing.assert_frame_equal(found.table.iloc[:2][own], compared[1].table[own], check_dtype=False)
    low, before = (table["sure_difference_low"].iloc[1] for table in (found.table, compared[1].table))
    assert low < before
    other = QUICK | {"models": 8}
    with pytest.raises(InputError, match="full was made of other images or seeds"):
        memorisk.audit_defences("digits", out=tmp_path / "run", regime="dp-full", epsilon=(3,), **other)


def test_regimes_share_one_rehearsal_and_keep_their_own_training(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[Choice] = []

    def ten(manifest: None, parts: None, options: ClassifierOptions, *_: Any, **named: Any) -> Choice:
        """Choose ten models where no number is named, and note it."""
        chosen.append(Choice(options if options.names_models else replace(options, models=10), options.names_models))
        return chosen[-1]

    monkeypatch.setattr(rehearsal, "choose_models", ten)
    choose = one_choice()
    arms = options_from({"regime": ("full", "dp-full"), "epsilon": (8, 3)}).arms.values()
    for arm in arms:
        assert choose(None, None, arm, hopeless=False).options == replace(arm, models=10)
    assert len(chosen) == 1
    begun = replace(next(iter(arms)), models=12)  # an earlier command began this regime with a number of its own
    assert choose(None, None, begun, hopeless=False).options == begun
    assert len(chosen) == 2


def test_the_run_takes_what_its_plan_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[ModelChooser] = []

    def stopped(*given: Any, choose: ModelChooser, dry_run: bool = False) -> Any:
        """Plan nothing, and stop the run where its first audit begins."""
        chosen.append(choose)
        if dry_run:
            return object.__new__(DryRun)
        raise MemoriskError("begun")

    monkeypatch.setattr(defences, "audit_recipe", stopped)
    with pytest.raises(MemoriskError, match="begun"):
        memorisk.audit_defences("digits", out=tmp_path / "run", regime=("full", "dp-full"), epsilon=(8,), **QUICK)
    assert len(chosen) == 3
    assert len(set(chosen)) == 1


def test_what_one_regime_refuses_is_refused_before_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InputError, match="adapts attention"):
        memorisk.audit_defences("digits", out=tmp_path / "run", regime=("full", "lora"), **QUICK)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="4000 pairs of canaries are wanted"):
        memorisk.audit_classifier("digits", out=tmp_path / "run", canary_pairs=4000, **QUICK)
    assert not (tmp_path / "run").exists()
