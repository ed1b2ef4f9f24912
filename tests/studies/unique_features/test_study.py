"""The whole study on built-in digits: what it trains, goes on with, refuses, and lays out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import ttest_1samp

from memorisk.report.blocks import Figure
from memorisk.report.columns import column_numbers
from memorisk.runs.errors import InputError
from memorisk.statistics.memorization.mark_rank import rank_mark
from memorisk.studies.unique_features import study as study_module
from memorisk.studies.unique_features.page import remembered_figure
from memorisk.studies.unique_features.plan import INFLUENCE, RANDOM, REFERENCE, Arm
from memorisk.studies.unique_features.results import StudyAnswers
from memorisk.studies.unique_features.study import UniqueResult, plan_unique, study_unique_features
from tests.commands import answer, refusal
from tests.studies.unique_features.conftest import CONFIG, changed, little

PLAIN, BOTH = Arm("Digits", "mlp1"), Arm("Digits", "mlp1", "dropout+augmentation")


def written(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_it_trains_what_the_plan_counts(studied: tuple[Path, UniqueResult], tmp_path: Path) -> None:
    out, result = studied
    plan = plan_unique(CONFIG, out=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    # 2 bases; 19 references; 4 canaries x 2 runs; 5 + 5 by influence; 1 + 1 marked again; 4 + 4 that start alike
    assert plan.cost.trainings == sum(plan.trainings.values())
    assert plan.cost.at_most == ("steps", "images_trained", "images_passed")
    assert plan.trainings[PLAIN] == 2 + 19 + 8 + 10 + 2 + 8
    assert plan.trainings[BOTH] == 19 + 10
    assert len(list((out / "results").glob("*.npz"))) == sum(plan.trainings.values())
    assert len(result.reading.answers) == sum(plan.trainings.values())
    assert result.complete


def test_tables_have_the_papers_columns(studied: tuple[Path, UniqueResult]) -> None:
    tables = {t.name: t for t in studied[1].tables}
    assert list(tables["table_1"].paper) == [
        "IMAGE ID", "D_t", "MODEL", "Average(P(y|x_u))", "Average(P(y|x_r))", "M_w",
    ]  # fmt: skip
    assert list(tables["table_2"].paper) == ["ID", "D_t", "MODEL", "M"]
    assert tables["table_2"].paper["ID"].tolist()[-1] == "AVG."
    assert list(tables["table_3"].paper) == ["D_t", "MODEL", "REGULARISATION", "M"]
    assert tables["table_3"].paper["REGULARISATION"].tolist() == ["Dropout & Data Augmentation"]
    assert not [t.name for t in tables.values() if t.why_empty]


def test_a_star_stands_for_the_papers_bold(studied: tuple[Path, UniqueResult]) -> None:
    """p < 0.05 of one-tailed t-tests: of M over probes, of M_w over the images of the label."""
    tables, reading = {t.name: t for t in studied[1].tables}, studied[1].reading
    white = [a for a in reading.of(PLAIN, RANDOM) if a.training.run == 0]
    p_white = {}
    for one in white:
        image = str(one.training.job.rows[one.training.job.canary])
        p_white[image] = ttest_1samp(one.arrays["white"][0], 0, alternative="greater").pvalue
    for row in tables["table_1"].paper.to_dict("records"):
        assert row["M_w"].endswith("*") == (p_white[row["IMAGE ID"]] < 0.05)
    models = reading.rows(PLAIN, INFLUENCE)
    p_black = dict(zip(models["image"].astype(str), models["p_welch"], strict=True))
    shown = [row for row in tables["table_2"].paper.to_dict("records") if row["ID"] != "AVG."]
    assert shown
    for row in shown:
        assert row["M"].endswith("*") == (p_black[row["ID"]] < 0.05)


def test_canaries_are_tested_against_their_own_references(studied: tuple[Path, UniqueResult]) -> None:
    reading = studied[1].reading
    for arm in (PLAIN, BOTH):
        references = reading.of(arm, REFERENCE)
        assert len(references) == 19
        told = ([float(r.arrays["statistic"]) for r in references], [r.arrays["controls"] for r in references])
        own = reading.of(arm, INFLUENCE)
        expected = rank_mark(
            [float(a.arrays["statistic"]) for a in own], [a.arrays["controls"] for a in own], *told, level=0.05
        )
        row = next(r for r in (_ours(studied, "table_2") + _ours(studied, "table_3")) if _is(r, arm))
        assert (row["m"], row["p"]) == pytest.approx((expected.m, expected.p_references), abs=1e-9)
        one = rank_mark([float(own[0].arrays["statistic"])], [own[0].arrays["controls"]], *told, level=0.05)
        assert reading.rows(arm, INFLUENCE).iloc[0]["p"] == one.p_references == one.p


def test_m_w_is_compared_on_the_very_same_images(studied: tuple[Path, UniqueResult]) -> None:
    reading: StudyAnswers = studied[1].reading
    answer_ = reading.of(PLAIN, RANDOM)[0]
    row = reading.rows(PLAIN, RANDOM).iloc[0]
    theirs = [
        r.arrays["white"][:, answer_.arrays["white_slots"]].astype(float).mean() for r in reading.of(PLAIN, REFERENCE)
    ]
    own = answer_.arrays["white"].astype(float).mean()
    assert row["m_w"] == pytest.approx(own)
    assert row["m_w_references"] == pytest.approx(np.mean(theirs))
    assert row["p_white"] == pytest.approx((1 + sum(t >= own for t in theirs)) / 20)


def test_a_difference_of_regularisers_is_a_difference_of_differences(studied: tuple[Path, UniqueResult]) -> None:
    reading = studied[1].reading
    row = _ours(studied, "table_3")[0]
    means = [np.mean([a.t for a in reading.of(arm, role)]) for arm in (BOTH, PLAIN) for role in (INFLUENCE, REFERENCE)]
    assert row["change"] == pytest.approx(means[0] - means[1] - (means[2] - means[3]))
    assert row["change_low"] < row["change"] < row["change_high"]


def test_variants_of_the_mark_are_logged(studied: tuple[Path, UniqueResult]) -> None:
    reading = studied[1].reading
    assert (column_numbers(reading.rows(PLAIN, INFLUENCE), "same") == 1).all()
    assert (column_numbers(reading.rows(BOTH, INFLUENCE), "same") < 1).all()
    for answer_ in reading.of(BOTH, INFLUENCE):
        n = int(answer_.arrays["best_epoch"])
        assert {len(answer_.arrays[f"variant_{w}"]) for w in ("same", "kept", "rows", "columns", "mirrored")} == {n}
        assert set(answer_.arrays["variant_rows"].tolist()) <= {0, -1}


def test_going_on_trains_nothing_again_and_writes_the_same(studied: tuple[Path, UniqueResult]) -> None:
    out, _ = studied
    before = written(out)
    times = {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}
    study_unique_features(CONFIG, out=out)
    after = written(out)
    for told in (before, after):
        del told["log.jsonl"], told[".lock"]  # they hold times
    assert before == after
    assert times == {p: p.stat().st_mtime_ns for p in (out / "results").iterdir()}


def test_more_canaries_add_only_their_own(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study_unique_features(little(), out=out)
    before = set((out / "results").glob("*.npz"))
    more = little()
    more["settings"]["references"] = 4
    found = study_unique_features(more, out=out)
    after = set((out / "results").glob("*.npz"))
    assert before < after
    assert len(after - before) == 2
    assert len(found.reading.of(PLAIN, REFERENCE)) == 4


def test_a_finished_report_is_not_replaced_by_less(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study_unique_features(little(), out=out)
    before = written(out)
    for change in ({"epochs": 1}, {"references": 1}):
        less = little()
        less["settings"] |= change
        for tables_only in (False, True):
            with pytest.raises(InputError, match="finished study of 5 models, of which"):
                study_unique_features(less, out=out, tables_only=tables_only)
    assert written(out) == before


def test_probes_are_no_training_images(studied: tuple[Path, UniqueResult]) -> None:
    data = studied[1].reading.sets["Digits"]
    assert data.probes_left_out > 0  # both are drawn from the same digits
    assert not set(data.probes.pixel_hashes) & set(data.store.pixel_hashes)
    assert len(data.probes.images) == 30


def test_probes_that_are_all_trained_on_are_refused(tmp_path: Path) -> None:
    config = little()
    config["datasets"]["Digits"]["sample"] = None
    with pytest.raises(InputError, match="that no model is trained on"):
        study_unique_features(config, out=tmp_path / "s")


def test_more_canaries_than_images_are_refused(tmp_path: Path) -> None:
    config = changed({"random": 500})
    with pytest.raises(InputError, match="random is 500, and there are"):
        study_unique_features(config, out=tmp_path / "s")


def test_with_few_references_nobody_is_found_alone(tmp_path: Path) -> None:
    found = study_unique_features(little(), out=tmp_path / "s")
    row = {t.name: t for t in found.tables}["table_2"].ours.iloc[0]
    assert "found" not in row
    assert np.isnan(row["below_all"])


def test_networks_that_learned_nothing_are_told(tmp_path: Path) -> None:
    study_unique_features(little(training={"mlp1": {"lr": 1e-9}}), out=tmp_path / "s")
    assert "Networks that learned nothing" in (tmp_path / "s" / "report.html").read_text()


def test_numbers_as_they_are_written_and_no_key_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "study.yaml", tmp_path / "s"
    text = yaml.safe_dump(little())
    file.write_text(text + "training: {mlp1: {lr: 3e-4, batch_size: 64}}\n")
    code, planned, _ = answer(capsys, "study", "unique-features", "--config", file, "--out", out, "--dry-run")
    assert (code, "5 trainings" in planned) == (0, True)
    file.write_text(text + "training: {mlp1: {lr: fast}}\n")
    assert "lr is 'fast'" in refusal(capsys, "study", "unique-features", "--config", file, "--out", out)
    file.write_text(text + text)
    assert "stands twice" in refusal(capsys, "study", "unique-features", "--config", file, "--out", out)
    file.write_text(text.replace("references", "mark_scales"))
    said = refusal(capsys, "study", "unique-features", "--config", file, "--out", out)
    assert "Did you mean 'mark_scale'?" in said


def test_other_questions_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "s"
    study_unique_features(little(), out=out)
    before = written(out)
    other = little()
    other["settings"]["mark"] = "E"
    with pytest.raises(InputError, match="mark = A, now asked: E"):
        study_unique_features(other, out=out)
    assert written(out) == before


def test_tables_only_trains_nothing_and_tells_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not there"):
        study_unique_features(little(), out=tmp_path / "none", tables_only=True)
    out = tmp_path / "s"
    study_unique_features(little(), out=out)
    for path in (out / "results").iterdir():
        path.unlink()
    found = study_unique_features(little(), out=out, tables_only=True)
    assert not list((out / "results").iterdir())
    assert all(t.why_empty for t in found.tables)


def test_what_fails_is_told_and_costs_the_others_nothing(tmp_path: Path) -> None:
    config = little(training={"cnn1": {"lr": 1e30}})
    config["datasets"]["Digits"]["networks"] = ["mlp1", "cnn1"]
    found = study_unique_features(config, out=tmp_path / "s")
    assert not found.complete
    assert list(found.failed) == ["Digits, cnn1, none"]
    assert "lower the learning rate" in found.failed["Digits, cnn1, none"]
    assert len(found.reading.rows(PLAIN, INFLUENCE)) == 2
    page = (tmp_path / "s" / "report.html").read_text()
    assert "Not everything is finished" in page


def test_a_network_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = little()
    config["datasets"]["Digits"]["networks"] = ["mlp1", "cnn2"]  # 8 px are too few for it
    with pytest.raises(InputError, match="too small for cnn2"):
        study_unique_features(config, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_without_references_the_rank_is_among_controls(tmp_path: Path) -> None:
    found = study_unique_features(little(protocol="paper"), out=tmp_path / "s")
    row = found.reading.rows(PLAIN, INFLUENCE).iloc[0]
    assert row["method"] == "controls"
    assert row["p"] == row["p_controls"]
    assert "m" not in {t.name: t for t in found.tables}["table_2"].ours


def test_the_page_has_every_figure_and_no_image_unasked(studied: tuple[Path, UniqueResult], tmp_path: Path) -> None:
    page = (studied[0] / "report.html").read_text()
    for number in ("Figure 3(a)", "Figure 3(b)", "Figure 3(c)", "Figure 4", "Figures 5 and 6"):
        assert number in page
    assert "data:image/png" not in page
    config = little()
    config["settings"]["gallery"] = True
    study_unique_features(config, out=tmp_path / "s")
    shown = (tmp_path / "s" / "report.html").read_text()
    assert shown.count("data:image/png") == 2
    assert "Mark: <bdi" in shown
    config["settings"]["redact"] = True
    study_unique_features(config, out=tmp_path / "s")
    hidden = (tmp_path / "s" / "report.html").read_text()
    assert "data:image/png" not in hidden
    assert "Mark: " not in hidden


def test_every_model_is_a_row(studied: tuple[Path, UniqueResult]) -> None:
    table = pd.read_parquet(studied[0] / "tables" / "models.parquet")
    assert len(table) == 76  # all but the two whose answers are the self-influence of every image
    assert table["transparent"].max() < 1e-9


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "study.yaml", tmp_path / "s"
    file.write_text(yaml.safe_dump(little()))
    code, planned, _ = answer(capsys, "study", "unique-features", "--config", file, "--out", out, "--dry-run")
    assert (code, out.exists()) == (0, False)
    assert "5 trainings" in planned
    code, printed, _ = answer(capsys, "study", "unique-features", "--config", file, "--out", out)
    assert code == 0
    assert "Table 2. M, black box" in printed
    file.write_text(yaml.safe_dump(changed({"marks": "A"})))
    said = refusal(capsys, "study", "unique-features", "--config", file, "--out", tmp_path / "t")
    assert "marks" in said
    assert not (tmp_path / "t").exists()


def test_a_defect_in_reading_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> None:
        raise RuntimeError("defect")

    monkeypatch.setattr(study_module, "read_answers", broken)
    with pytest.raises(RuntimeError, match="defect"):
        study_unique_features(little(), out=tmp_path / "s")


def _ours(studied: tuple[Path, UniqueResult], name: str) -> list[dict]:
    return json.loads({t.name: t for t in studied[1].tables}[name].ours.to_json(orient="records", double_precision=15))


def _is(row: dict, arm: Arm) -> bool:
    return row["regulariser"] == ("none" if arm.regulariser == "none" else "Dropout & Data Augmentation")


def test_the_first_figure_shows_what_the_mark_changed() -> None:
    black = pd.DataFrame({"dataset": ["Digits"], "network": ["MLP-1"], "m": [0.5], "m_low": [0.25], "m_high": [0.75]})
    white = black.drop(columns=["m", "m_low", "m_high"]).assign(excess=-1.0, excess_low=-2.0, excess_high=0.5)
    (figure,) = remembered_figure(white, black)
    assert isinstance(figure, Figure)
    assert "M, answers alone: 1 of 1 intervals lie above 0. M_w, label known: 0 of 1" in str(figure.alternative)
    assert remembered_figure(white.drop(columns=["excess", "excess_low", "excess_high"]), black.head(0)) == []
    (alone,) = remembered_figure(white.head(0), black)
    assert isinstance(alone, Figure)
    assert "M_w" not in alone.svg
