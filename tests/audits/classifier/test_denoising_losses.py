"""Losses of generators: the verdict of classifiers in standard deviations of unseen gaps, and no word of an answer."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.comparison import compare
from memorisk.audits.classifier.denoising_losses import denoising_evidence
from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.classifier.options import LossesOptions
from memorisk.audits.classifier.pages.strips import read_strips
from memorisk.audits.classifier.result import ClassifierSummary, DenoisingUtility
from memorisk.audits.classifier.tables.utility import denoising_utility
from memorisk.cli.main import main
from memorisk.report.figures.glance import STRIP_WIDTH
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from tests.audits.made_evidence import twin_evidence

OF_ANSWERS = re.compile(r"\bnats?\b|accura|right answer|model's answer|Feldman", re.IGNORECASE)
"""Words that are of classifiers alone."""
PATIENT = "p0030"


def errors(
    *, n: int = 160, n_test: int = 60, n_seeds: int = 12, levels: int = 2, gap: float = 0.0, seed: int = 0
) -> pd.DataFrame:
    """Errors of twins by noise level, of another size at each; one patient remembered at the first by ``gap`` SD."""
    rng = np.random.default_rng(seed)
    ids = np.arange(n + n_test)
    canary = ids < n
    difficulty = rng.gamma(3.0, 0.05, (levels, len(ids))) + 0.1
    rows = []
    for s in range(n_seeds):
        in_a = canary & (rng.permutation(len(ids)) % 2 == 0)
        for level in range(levels):
            spread = 0.01 * 4.0**-level
            half = spread * rng.standard_normal(len(ids)) / 2
            for role, member, sign in (("A", in_a, -1), ("B", canary & ~in_a, 1)):
                loss = difficulty[level] + sign * half
                if level == 0:
                    loss[30] += gap * spread * ~member[30]
                rows.append(
                    pd.DataFrame(
                        {
                            "image": [f"i{i:04d}" for i in ids],
                            "group": [f"p{i:04d}" for i in ids],
                            "sex": np.where(ids % 3 == 0, "f", "m"),
                            "split": np.where(canary, "canary", "test"),
                            "seed": s,
                            "role": role,
                            "member": member,
                            "loss": loss,
                            "level": f"t{level}",
                            "trivial": 1.0 + 1e-9 * ids,
                        }
                    )
                )
    return pd.concat(rows, ignore_index=True)


def audited(table: pd.DataFrame, folder: Path, **settings: object) -> Result:
    """Audit a table as a generator's."""
    table.to_parquet(folder / "errors.parquet")
    return audit_losses(folder / "errors.parquet", out=folder / "run", of="generator", **settings)


def test_every_text_of_a_generators_run_is_in_standard_deviations(tmp_path: Path, capsys) -> None:
    errors(gap=8.0).to_parquet(tmp_path / "errors.parquet")
    run = str(tmp_path / "run")
    assert main(["audit", "losses", str(tmp_path / "errors.parquet"), "--of", "generator", "--out", run, "--by", "sex"])
    main(["statement", run, "--out", str(tmp_path / "statement"), "--page", str(tmp_path / "officer.html")])
    main(["audit", "patient", run, PATIENT, "--out", str(tmp_path / "patient.html")])
    terminal = capsys.readouterr()
    texts = {"terminal": terminal.out, "errors": terminal.err}
    files = [tmp_path / name for name in ("run/report.html", "officer.html", "patient.html")]
    files += [tmp_path / "run" / "verdict.json", *sorted((tmp_path / "statement").iterdir())]
    texts |= {path.name: path.read_text("utf-8") for path in files}
    assert {name: OF_ANSWERS.findall(text) for name, text in texts.items() if OF_ANSWERS.search(text)} == {}
    for name in ("terminal", "report.html", "model-card.md", "privacy-statement.json"):
        assert re.search(r"\bSD\b", texts[name]), name
    assert "Audit of a generator" in texts["report.html"]
    assert "THIS PATIENT IS REMEMBERED" in texts["terminal"]
    assert "tells their images from new ones in" in re.sub(r"\s+", " ", texts["officer.html"])


def test_one_odd_test_image_hides_nobody(tmp_path: Path) -> None:
    """Errors of one test image that differ by hundreds of SD between twins: the unit stays that of the others."""
    table = errors(gap=8.0)
    odd = (table["image"] == "i0200") & (table["level"] == "t0")
    table.loc[odd, "loss"] = 5 + 2 * np.random.default_rng(1).standard_normal(odd.sum())
    result = audited(table, tmp_path)
    assert result.per_group.loc[result.per_group["flagged"], "group"].tolist() == [PATIENT]
    assert result.status == "fail"


def test_a_planted_patient_is_found_and_a_generator_that_remembers_nobody_passes(tmp_path: Path) -> None:
    for name in ("planted", "honest"):
        (tmp_path / name).mkdir()
    planted = audited(errors(gap=8.0), tmp_path / "planted")
    assert planted.per_group.loc[planted.per_group["flagged"], "group"].tolist() == [PATIENT]
    assert planted.status == "fail"
    large = errors(n=500, n_test=150, n_seeds=16, levels=1)
    honest = audited(large, tmp_path / "honest")
    assert (honest.status, honest.verdict["rule"]["notice"]) == ("pass", NOISE_ERROR.notice)
    summary = ClassifierSummary.read(Result.load(tmp_path / "honest" / "run").summary)
    assert isinstance(summary.utility, DenoisingUtility)
    assert summary.utility.explained == pytest.approx(1 - large.loc[large["split"] == "test", "loss"].mean())
    assert summary.units.loss_scale is NOISE_ERROR
    assert set(honest.per_image) & {"fz_memorization", "fz_standard_error"} == set()
    assert set(honest.attacks) & {"auc_rounded", "auc_label_alone"} == set()
    assert set(honest.attacks["access"]) == {"weights"}
    scores = pd.read_parquet(tmp_path / "honest" / "run" / "scores.parquet")
    assert not {"p_true", "correct"} & set(scores)
    np.testing.assert_array_equal(scores["margin"], -scores["loss"])


def test_gaps_of_unseen_images_have_the_standard_deviation_one_in_any_unit() -> None:
    table = errors(levels=3)
    evidence, _, n_levels = denoising_evidence(table)
    unseen = evidence.gap[:, evidence.items.split == "test"]
    assert n_levels == 3
    assert np.sqrt(unseen.var(axis=1, ddof=1).mean()) == pytest.approx(1.0)
    factor = table["level"].map({"t0": 1000.0, "t1": 3.0, "t2": 0.01})
    other, *_ = denoising_evidence(table.assign(loss=table["loss"] * factor))
    np.testing.assert_allclose(other.gap, evidence.gap, rtol=1e-9)
    one, _, n_levels = denoising_evidence(table[table["level"] == "t0"].drop(columns=["level", "trivial"]))
    assert n_levels == 1
    assert set(one.items.label) == {"all images"}


def test_the_strip_of_a_remembered_image_shows_the_difference(tmp_path: Path) -> None:
    """Errors differ by hundreds of SD between images: an axis from 0 would show one dot."""
    audited(errors(gap=8.0), tmp_path)
    strip = read_strips(tmp_path / "run", ["i0030", "i0031"], NOISE_ERROR)["all images", "i0030"]
    places = {
        kind: [float(x) for x in re.findall(rf'class="{kind}" cx="([0-9.]+)"', strip.svg)]
        for kind in ("seen", "unseen")
    }
    assert np.mean(places["unseen"]) - np.mean(places["seen"]) > 0.4 * STRIP_WIDTH
    assert min(*places["seen"], *places["unseen"]) == 0.0


def test_models_that_explain_no_noise_and_models_of_which_nothing_is_known_do_not_pass(tmp_path: Path) -> None:
    for name, table in (
        ("nothing-learned", errors(levels=1).assign(trivial=lambda t: 0.1 + 1e-6 * t.index)),
        ("learning-unknown", errors(levels=1).drop(columns="trivial")),
    ):
        (tmp_path / name).mkdir()
        found = audited(table, tmp_path / name)
        reason = next(one for one in found.reasons if one["code"] == name)
        assert found.status != "pass"
        assert reason["units"]["scale"] == NOISE_ERROR.name
    assert "column trivial" in reason["remedy"]


def test_the_limit_of_what_models_explain_is_too_high_in_one_of_forty_audits() -> None:
    """Images of a patient are alike, models differ: both are units."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(25), 4)
    above = []
    for _ in range(2000):
        error = 0.8 + 0.1 * rng.standard_normal(25)[group] + 0.02 * rng.standard_normal((16, 1))
        error = error + 0.05 * rng.standard_normal((16, 100))
        limit = denoising_utility(error, np.ones(100), group).explained_low
        assert limit is not None
        above.append(limit > 0.2)
    assert 0.015 < np.mean(above) < 0.05
    assert denoising_utility(np.ones((4, 4)), np.ones(4), [1, 1, 1, 1]).beats_guessing is None
    assert denoising_utility(np.full((4, 6), 1.1), np.ones(6), range(6)).beats_guessing is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[~((t["level"] == "t1") & (t["image"] == "i0003"))], "levels t0 and t1 hold different images"),
        (lambda t: t.drop(index=t.index[-1]), "has 219 rows for 220 images"),
        (lambda t: t.assign(level=t["level"].where(t["image"] != "i0003")), "column level is empty in some rows"),
        (lambda t: t.assign(trivial=1.0), "column trivial holds one value for all images"),
        (lambda t: t.assign(trivial=0.0), "column trivial holds values that are not numbers above 0"),
        (lambda t: t.assign(trivial=1e300), "column trivial holds values that are not numbers above 0 and at most"),
        (
            lambda t: t.assign(loss=t["loss"].where(t.index != t.index[9], 1e300)),
            r"first 1e\+300 for image 'i0009', seed 0, role A, level t0: a sum of squares",
        ),
        (lambda t: t.assign(loss=t["loss"] - 1), "not finite numbers of at least 0.*an error is needed"),
        (lambda t: t.assign(loss=t.groupby(["image", "level"])["loss"].transform("mean")), "gives? .* the same loss"),
        (
            lambda t: t.assign(loss=t["loss"].where((t["level"] != "t1") | (t["split"] != "test"), 0.01)),
            "give each unseen image the same loss at level 2 of 2: score each by its own weights, with all digits, or",
        ),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused_with_the_way_out(change, message: str) -> None:
    with pytest.raises(InputError, match=message):
        denoising_evidence(change(errors(n_seeds=2)))


def test_runs_in_different_units_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "generator").mkdir()
    audited(errors(levels=1, n_seeds=3), tmp_path / "generator")
    write_scores(tmp_path / "scores.parquet", twin_evidence(sizes={"a": 20}, n_seeds=3))
    audit_losses(tmp_path / "scores.parquet", out=tmp_path / "classifier")
    with pytest.raises(InputError, match=r"losses in nats and .* in SD: compare two runs of classifiers"):
        compare(tmp_path / "classifier", tmp_path / "generator" / "run")


def test_settings_name_the_scale() -> None:
    assert LossesOptions(of="generator").loss_scale is NOISE_ERROR
    with pytest.raises(InputError, match="must be a number of SD above 0"):
        LossesOptions(of="generator", notice=0.0).validate()
    with pytest.raises(InputError, match=r"unknown of 'gan'\. Known: classifier, generator"):
        LossesOptions(of="gan").validate()  # pyright: ignore[reportArgumentType]


def test_two_generators_compare_by_patients_and_attacks_without_a_difference_of_m(tmp_path: Path, capsys) -> None:
    """One SD is the spread of a run's own unseen gaps: numbers in two such units do not subtract."""
    for name, seed in (("first", 0), ("second", 1)):
        (tmp_path / name).mkdir()
        audited(errors(n=60, n_test=40, n_seeds=4, levels=1, gap=8.0 * seed, seed=seed), tmp_path / name)
    runs = [str(tmp_path / name / "run") for name in ("first", "second")]
    found = compare(*runs)
    for table in (found.per_class, found.per_group):
        assert table[["difference", "low", "high"]].isna().all(axis=None)
    assert np.isfinite(found.per_class[["mean_first", "mean_second"]]).all(axis=None)
    assert len(found.aucs)
    assert "do not subtract" in found.notes[0]
    assert not any("notices less" in note for note in found.notes)
    assert main(["compare", *runs, "--out", str(tmp_path / "compared")]) == 0
    page = re.sub(r"\s+", " ", (tmp_path / "compared" / "report.html").read_text())
    for text in (capsys.readouterr().out, page):
        assert "surely" not in text
        assert "Difference" not in text
        assert "do not subtract" in text
