"""Detectors that the benchmark trains: on which patients, with what left behind, compared with which others."""

from pathlib import Path

import pandas as pd
import pytest

import memorisk
from memorisk.audits.rendering import render_again
from memorisk.cli.show.benchmarks import show_benchmark
from memorisk.runs.errors import InputError
from memorisk.studies.detectors.benchmark import benchmark_detectors, plan_benchmark
from memorisk.studies.detectors.cells import read_backbone
from memorisk.studies.detectors.results import Benchmark
from tests.counting import counted

pytest.importorskip("kornia")
pytest.importorskip("pytorch_metric_learning")

SETTINGS = {
    "sample": 200, "backbones": ("mlp1@none",), "losses": ("none", "triplet", "infonce"), "measures": ("cosine",),
    "strengths": ("weak",), "specificity": 0.8, "epochs": 2, "frozen_epochs": 0, "batch_size": 25, "lr": 1e-3,
}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Benchmark]:
    out = tmp_path_factory.mktemp("trained") / "run"
    return out, benchmark_detectors("digits", out=out, **SETTINGS)


def test_detectors_have_seen_the_train_and_validation_parts_alone(trained: tuple[Path, Benchmark]) -> None:
    out, found = trained
    assert found.complete
    split = pd.read_parquet(out / "split.parquet")
    folders = sorted((out / "detectors").iterdir())
    assert len(folders) == 2
    job = found.detectors[0].measured[0].job
    for folder in folders:
        detector = memorisk.load_detector(folder)
        seen = detector.seen_parts(job.store()).part
        assert (seen == split["part"].map({"train": "training", "validation": "validation"}).fillna("")).all()
        assert detector.config.recipe["epochs"] == 2
        assert 1 <= detector.config.best_epoch <= 2


def test_losses_and_training_are_compared(trained: tuple[Path, Benchmark]) -> None:
    tables = {t.name: t for t in trained[1].tables}
    assert list(tables["table_3"].paper) == ["Model", "Pretrain", "p-value", "Triplet Mean", "InfoNCE Mean"]
    pairs = tables["trained"].ours[["first", "second"]].to_numpy().tolist()
    assert pairs == [["mlp1 (random, Triplet)", "mlp1 (random, untrained)"],
                     ["mlp1 (random, InfoNCE)", "mlp1 (random, untrained)"]]  # fmt: skip
    assert {"measures_none", "measures_triplet", "measures_infonce"} <= set(tables)
    page = (trained[0] / "report.html").read_text()
    for title in ("Figure 1: network", "Figure 2: measures, Triplet", "Figure 4: measures, InfoNCE"):
        assert title in page


def test_each_trained_detector_is_named_with_its_folder(
    trained: tuple[Path, Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    out, found = trained
    table = {t.name: t for t in found.tables}["folders"].ours.set_index("detector")["features"]
    show_benchmark(found, out, as_json=False)
    printed, page = capsys.readouterr().out, (out / "report.html").read_text()
    assert len(table) == 2
    for name, features in table.items():
        folder = out / features.removeprefix("detector:")
        loss = memorisk.load_detector(folder).config.loss
        assert f", {loss})" in str(name).lower()
        assert f"{name}: --features detector:{folder}\n" in printed
        assert features in page
        assert read_backbone(f"detector:{folder}").detector("none").lower().endswith(f" by {loss}, untrained)")


def test_reports_of_audits_send_on_to_the_benchmarks_own(trained: tuple[Path, Benchmark]) -> None:
    with pytest.raises(InputError, match=r"is a run of bench detectors, not of an audit: .*--tables-only"):
        render_again(trained[0])


def test_a_measure_is_added_without_another_training(trained: tuple[Path, Benchmark]) -> None:
    out, _ = trained
    times = {p: p.stat().st_mtime_ns for p in (out / "detectors").rglob("*") if p.is_file()}
    found = benchmark_detectors("digits", out=out, **SETTINGS | {"measures": ("cosine", "cityblock")})
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert len(found.tables[0].ours) == 3
    assert {m.measure for m in found.detectors[1].measured} == {"cosine", "cityblock"}


def test_a_detector_that_has_seen_the_test_patients_is_not_judged_on_them(
    trained: tuple[Path, Benchmark], tmp_path: Path
) -> None:
    folder = next((trained[0] / "detectors").iterdir())
    change = {"backbones": ("pixels", f"detector:{folder}"), "losses": ("none",), "split_seed": 5}
    found = benchmark_detectors("digits", out=tmp_path / "b", **SETTINGS | change)
    (why,) = found.failed.values()
    assert "has seen" in why
    assert len(found.board.rows) == 1
    same = benchmark_detectors("digits", out=tmp_path / "c", **SETTINGS | change | {"split_seed": 0})
    assert same.complete
    brought, own = same.detectors[1], trained[1].detectors
    shares = {d.share("cosine", "weak", "test") for d in own if d.loss != "none"}
    assert brought.share("cosine", "weak", "test") in shares


def test_a_benchmark_with_trainings_does_what_its_plan_counted(tmp_path: Path) -> None:
    asked = {**SETTINGS, "losses": ("infonce",), "sample": 120, "epochs": 1}
    plan = plan_benchmark("digits", out=tmp_path / "r", **asked)
    with counted() as found:
        benchmark_detectors("digits", out=tmp_path / "r", **asked)
    seen = (found.trainings, found.steps, found.images_trained)
    assert seen == (plan.cost.trainings, plan.cost.steps, plan.cost.images_trained) == (1, 3, 2 * plan.images["train"])
    assert plan.cost.at_most == ("steps", "images_trained", "images_passed")
    assert plan.cost.images_passed is not None
    assert 0.9 * plan.cost.images_passed <= found.images_passed <= plan.cost.images_passed + 4 * 2
