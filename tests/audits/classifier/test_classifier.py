"""The classifier audit end to end on the built-in digits, small."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import scipy.special
import yaml
from PIL import Image

from memorisk.audits.classifier.evidence import evidence_from_table
from memorisk.audits.classifier.options import options_from
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.planning.plan import draw_parts, make_plan
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.sources.registry import load_manifest
from memorisk.report.numbers import to_row
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.workload import Cost
from memorisk.training.classifiers.jobs import LOGITS
from tests.audits.conftest import SMALL
from tests.counting import counted

TABLES = ("scores", "per_image", "per_group", "per_class", "attacks", "manifest")
COLUMNS = {
    "per_image": ["image", "label", "group", "split", "M", "p_value", "flagged"],
    "per_class": [
        *("label", "n", "frequency", "mean", "median", "trimmed_mean", "low", "high", "tier", "smallest_list"),
        "flagged",
    ],
}


def files(folder):
    """Every result file of a run by name; the log alone holds times."""
    names = [f"{t}.parquet" for t in TABLES] + ["verdict.json", "summary.json", "report.html"]
    return {name: (folder / name).read_bytes() for name in names}


def test_a_run_leaves_what_the_design_names(small_run):
    for name in TABLES:
        assert (small_run / f"{name}.parquet").is_file()
    for name, columns in COLUMNS.items():
        assert set(columns) <= set(pd.read_parquet(small_run / f"{name}.parquet").columns)
    assert len(list((small_run / "weights").glob("*.safetensors"))) == 6
    assert not list((small_run / "checkpoints").iterdir())
    assert small_run.stat().st_mode & 0o777 == 0o700
    verdict = json.loads((small_run / "verdict.json").read_text())
    assert verdict["schema"] == 2
    assert verdict["status"] in ("pass", "fail", "undecided")
    assert verdict["gate"] == "high"
    assert set(verdict["tiers"]) == {str(d) for d in range(10)}
    assert {"why", "flagged_groups", "level", "not_scored", "aucs", "seeds", "data_hash", "versions"} <= set(verdict)
    assert yaml.safe_load((small_run / "config.yaml").read_text())["images"] == "digits"


def test_every_image_outside_the_test_part_is_scored_and_no_test_image_is_a_member(small_run):
    scores = pd.read_parquet(small_run / "scores.parquet")
    images = pd.read_parquet(small_run / "per_image.parquet")
    assert not scores.loc[scores["split"] == "test", "member"].any()
    scored = images["M"].notna()
    assert (images.loc[scored, "split"] == "canary").all()
    assert scored.sum() >= (images["split"] == "canary").sum() - 10  # at most one without a partner per class
    # M is the mean over seeds of the loss without the image less the loss with it
    one = images.loc[scored, "image"].iloc[7]
    rows = scores[scores["image"] == one].astype({"role": str})
    gap = [
        g.loc[~g["member"], "loss"].item() - g.loc[g["member"], "loss"].item()
        for _, g in rows.groupby("seed")
        if g["member"].sum() == 1
    ]
    assert images.loc[images["image"] == one, "M"].item() == pytest.approx(np.mean(gap), rel=1e-12)


def test_the_same_command_gives_the_same_bytes_and_trains_nothing_twice(small_run, tmp_path):
    before = files(small_run)
    stamp = {p.name: p.stat().st_mtime_ns for p in (small_run / LOGITS).iterdir()}
    audit_classifier("digits", out=small_run, **SMALL)
    assert files(small_run) == before
    assert {p.name: p.stat().st_mtime_ns for p in (small_run / LOGITS).iterdir()} == stamp
    afresh = tmp_path / "again"
    audit_classifier("digits", out=afresh, **SMALL | {"processes": 2})
    assert files(afresh) == before


@pytest.mark.thorough
def test_adding_seeds_trains_only_the_new_ones(small_run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(small_run, out)
    old = {p.name: p.stat().st_mtime_ns for p in (out / LOGITS).iterdir()}
    audit_classifier("digits", out=out, **SMALL | {"models": 8})
    now = {p.name: p.stat().st_mtime_ns for p in (out / LOGITS).iterdir()}
    assert len([name for name in now if not name.endswith(".checksum")]) == 8
    assert {k: now[k] for k in old} == old
    fresh = tmp_path / "fresh"
    audit_classifier("digits", out=fresh, **SMALL | {"models": 8})
    assert files(out) == files(fresh)


def test_another_recipe_in_the_same_folder_is_refused_and_changes_nothing(small_run):
    before = files(small_run)
    with pytest.raises(InputError, match="holds a run with"):
        audit_classifier("digits", out=small_run, **SMALL | {"epochs": 5})
    assert files(small_run) == before


def test_seeds_differ_scores_differ(small_run, tmp_path):
    other = audit_classifier("digits", out=tmp_path / "o", **SMALL | {"seeds": (1, 2, 3), "models": None})
    mine = pd.read_parquet(small_run / "per_image.parquet")
    assert isinstance(other, Result)
    assert not np.allclose(mine["M"].fillna(0), other.per_image["M"].fillna(0))


@pytest.mark.parametrize("settings", [{"design": "matched"}, {"protocol": "paper"}])
def test_the_other_designs_score_the_canary_part_only(tmp_path, settings):
    result = audit_classifier("digits", out=tmp_path / "r", **SMALL | settings | {"models": 4})
    assert isinstance(result, Result)
    evidence = evidence_from_table(pd.read_parquet(tmp_path / "r" / "scores.parquet"))
    scored = (evidence.sign != 0).any(axis=0)
    assert set(evidence.items.split[scored]) == {"canary"}
    assert 0.1 < scored.mean() < 0.2
    assert result.summary["not_scored_images"] > 0.5 * result.summary["n_images"]
    if "protocol" in settings:
        assert evidence.design == "paper"
        assert "published form" in result.summary["form"]
        assert evidence.member_a.sum() > evidence.member_b.sum()


def test_pseudonyms_stand_everywhere_and_nowhere_an_id(tmp_path):
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"0123456789abcdef")
    out = tmp_path / "r"
    audit_classifier(
        "digits", out=out, **SMALL | {"models": 4}, pseudonymise=True, pseudonym_key=key, discard_weights=True
    )
    for path in out.rglob("*"):
        if path.is_file():
            assert b"digit-0" not in path.read_bytes(), path.name
    for name in ("scores", "per_image", "per_group", "manifest"):
        text = pd.read_parquet(out / f"{name}.parquet").astype(str).to_csv()
        assert "digit-" not in text
    assert not list((out / "weights").iterdir())
    # logits lie in the order of the pseudonyms: scored so, they give the losses of the table
    scores, manifest = pd.read_parquet(out / "scores.parquet"), pd.read_parquet(out / "manifest.parquet")
    label = manifest["label"].astype(int).to_numpy()
    for (seed, _), table in scores.groupby(["seed", "role"], observed=True):
        loss = pd.Series(table["loss"].to_numpy(), index=table["image"].astype(str))[manifest["image"]].to_numpy()
        read = [np.load(path).astype(float) for path in (out / LOGITS).glob(f"{seed}-*.npy")]
        own = [scipy.special.logsumexp(z, axis=1) - z[np.arange(len(z)), label] for z in read]
        assert min(np.abs(one - loss).max() for one in own) < 1e-6
    options = options_from({**SMALL, "models": 4})
    images = load_manifest("digits", options)
    drawn = make_plan(images, draw_parts(images, [], options, 0), options)
    guessed = dict(zip(Pseudonyms(key.read_bytes()).names(images.images), drawn.parts.part, strict=True))
    share = np.mean([guessed[image] == part for image, part in manifest[["image", "part"]].itertuples(index=False)])
    chance = (manifest["part"].value_counts(normalize=True) ** 2).sum()
    assert abs(share - chance) < 0.05
    before = files(out)
    audit_classifier("digits", out=out, **SMALL | {"models": 4}, pseudonymise=True, pseudonym_key=key,
                     discard_weights=True)  # fmt: skip
    assert files(out) == before
    key.write_bytes(b"another key of sixteen bytes")
    with pytest.raises(InputError, match="holds a run with key_hash = "):
        audit_classifier("digits", out=out, **SMALL | {"models": 4}, pseudonymise=True, pseudonym_key=key,
                         discard_weights=True)  # fmt: skip


def test_a_dry_run_counts_what_the_run_then_does(tmp_path):
    plan = audit_classifier("digits", out=tmp_path / "r", **SMALL, dry_run=True)
    assert isinstance(plan, DryRun)
    assert not (tmp_path / "r").exists()
    with counted() as found:
        result = audit_classifier("digits", out=tmp_path / "r", **SMALL)
    assert found.cost(tmp_path / "r", bytes_images=1232 * 8 * 8) == plan.cost
    assert plan.cost.trainings == 6
    shown = repr(plan)
    assert len(shown) < 1300
    assert "6 models (as named): 6 trainings, about" in shown
    assert "no pass: this audit cannot pass" in shown
    assert "could pass: no\n" in shown
    assert "<li>could pass: no</li>" in plan._repr_html_()
    assert isinstance(result, Result)
    assert plan.parts["canary"] == result.summary["n_canary"]
    seen = pd.read_parquet(tmp_path / "r" / "scores.parquet").groupby(["seed", "role"])["member"].sum().unstack()
    assert plan.cost.images_trained == SMALL["epochs"] * 2 * seen.max(axis=1).sum()  # twins have as many slots
    again = audit_classifier("digits", out=tmp_path / "r", **SMALL, dry_run=True)
    assert isinstance(again, DryRun)
    assert again.cost == Cost(bytes_images=1232 * 8 * 8, pairs=plan.cost.pairs)  # patients are compared again
    classes = pd.DataFrame([to_row(row) for row in plan.classes]).set_index("label")
    found = result.per_class.set_index("label").loc[classes.index]
    for column in ("n", "n_groups_scored", "n_test_groups"):
        pd.testing.assert_series_equal(classes[column], found[column], check_dtype=False)
    # alone a class has the smallest level: what could be listed then can be listed in the run, and perhaps more
    assert (classes["smallest_list"] >= found["smallest_list"]).all()
    assert found["testable"][classes["testable"]].all()
    assert plan.seconds is not None
    assert plan.seconds > 0


def test_a_dry_run_tells_of_a_split_that_decides_nothing_before_it_asks_for_models(tmp_path):
    folder = tmp_path / "set"
    for k in range(24):
        place = folder / ("test" if k % 3 == 0 else "train") / "ab"[k % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (8, 8), dtype=np.uint8)).save(place / f"{k}.png")
    plan = audit_classifier(folder, out=tmp_path / "run", **SMALL | {"models": 4, "splits": "given"}, dry_run=True)
    assert isinstance(plan, DryRun)
    assert "--splits given-random" in plan.notes[0]
    assert "no patient ids" in plan.notes[1]
    assert "whether one person has two ids could not be seen" in plan.notes[2]
    assert "at least 3 seeds" in plan.notes[3]


def test_the_placebo_adds_its_trainings_and_says_what_it_saw(tmp_path):
    result = audit_classifier("digits", out=tmp_path / "r", **SMALL | {"models": 4, "placebo": 2})
    assert isinstance(result, Result)
    assert len(list((tmp_path / "r" / LOGITS).glob("*.npy"))) == 4 + 2 * 4
    placebo = result.summary["placebo"]
    assert placebo["n_repeats"] == 2
    assert 0 <= placebo["all"]["share"] <= 1
    assert placebo["all"]["low"] < 0.05 < placebo["all"]["high"]
    with pytest.raises(InputError, match="balanced or matched"):
        audit_classifier("digits", out=tmp_path / "p", **SMALL | {"models": 4, "placebo": 1, "protocol": "paper"})


def test_what_was_left_out_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    found = audit_classifier("digits", out=tmp_path / "run", sample=600, models=2, epochs=1, processes=1)
    assert found.verdict["left_out"] == {"n_skipped": 0, "n_missing": 0, "n_not_sampled": 632}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "632 images were left out by the requested sample." in page
