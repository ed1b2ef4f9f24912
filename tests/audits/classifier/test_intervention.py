"""Interventions end to end on a small coloured set: what is trained, what is said, and what is refused."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.classifier.evidence import evidence_from_table
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.retraining import interventions as intervention
from memorisk.audits.classifier.retraining.intervention_effects import COLUMNS, TABLE, _recall_columns
from memorisk.audits.classifier.retraining.interventions import FOLDER, IMAGES, RERUN, rerun_seed
from memorisk.audits.classifier.run import audit_classifier
from memorisk.audits.rendering import load_result, render_again
from memorisk.images.alterations import interventions
from memorisk.images.alterations.interventions import Intervention
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.statistics.retraining import INSUFFICIENT, LARGER, NOT_LARGER
from memorisk.training.classifiers.jobs import LOGITS
from tests.audits.made_evidence import twin_evidence
from tests.commands import answer, environment, memorisk, refusal
from tests.thorough import thorough

SIZES = {"plain": 60, "sky": 60, "moss": 40}
RECIPE = {"models": 8, "epochs": 40, "lr": 0.003, "processes": 1, "split_seed": 3}
QUICK = RECIPE | {"models": 6, "epochs": 2}
TRAINED_IN = {"training": 6, "intervention": 12}
ON_MOSS = {"intervene": "grayscale", "classes": ["moss"]}


def coloured(sizes=SIZES, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Noise; red where it is plain, blue where it is sky or moss: those two can only be learned by heart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(list(sizes), list(sizes.values()))
    images = rng.integers(0, 120, (len(labels), 8, 8, 3)).astype(np.uint8)
    for i, label in enumerate(labels):
        images[i, ..., 0 if label == "plain" else 2] += 60
    return images, labels


def saved(path, images, labels):
    np.savez(path, images=images, labels=labels)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("set") / "colours.npz", *coloured())


@pytest.fixture(scope="module")
def finished(source, tmp_path_factory):
    """A run with moss in grey: baseline, changed, re-run."""
    out = tmp_path_factory.mktemp("moss") / "run"
    return out, audit_classifier(source, out=out, **RECIPE, **ON_MOSS)


def row(result: Result, label: str) -> pd.Series:
    return result.tables[TABLE].set_index("label").loc[label]


def changed_folder(run):
    found = [p for p in (run / FOLDER).iterdir() if p.name != RERUN]
    assert len(found) == 1
    return found[0]


def results(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.suffix in (".parquet", ".npy", ".html") or p.name in ("summary.json", "verdict.json")
    }


def test_a_class_that_was_learned_by_heart_is_told_by_its_grey_and_forgotten(finished):
    run, result = finished
    table = result.tables[TABLE]
    assert list(table.columns) == list(COLUMNS)
    assert table["label"].tolist() == ["moss", "plain", "sky"]  # changed ones first
    assert table["targeted"].tolist() == [True, False, False]
    moss, plain = row(result, "moss"), row(result, "plain")
    assert moss["before"] > 0.2
    assert moss["after"] < 0.05
    assert moss["high"] < 0
    assert moss["reading"] == LARGER
    assert abs(moss["noise"]) < abs(moss["difference"]) / 2
    assert moss["recall_after"] == 1.0 > moss["recall_before"]  # the shortcut
    images = result.per_image[(result.per_image["label"] == "moss") & np.isfinite(result.per_image["M"])]
    assert moss["paper_before"] == pytest.approx(images["M"].mean())  # over images: algorithm 1
    change = moss["paper_after"] - moss["paper_before"]
    assert moss["paper_percent"] == pytest.approx(100 * change / moss["paper_before"])
    assert moss["paper_cohens_d"] < 0
    assert moss["paired_dz_high"] < 0
    assert plain["reading"] == NOT_LARGER
    assert np.isnan(plain["images_changed"])
    assert (moss["images_changed"], moss["n_groups"], moss["n_seeds"]) == (1.0, 34, 4)
    assert moss["before"] == pytest.approx(result.per_class.set_index("label").loc["moss", "mean"])
    summary = result.summary["intervention"]
    assert summary["classes"] == ["moss"]
    assert summary["n_images_changed"] == 40
    assert summary["n_trainings"] == 16
    assert any("shortcut" in w for w in summary["warnings"])
    assert any("selection" in w for w in summary["warnings"])
    assert any("X-rays" in w for w in summary["warnings"])
    assert not list(run.rglob(IMAGES))  # no pictures are left behind


def test_the_result_comes_back_as_it_was_saved_and_its_page_and_line_tell_it(finished, source, capsys):
    run, result = finished
    again = load_result(run)
    pd.testing.assert_frame_equal(again.tables[TABLE], result.tables[TABLE])
    assert again.summary == result.summary
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "What changes when a class loses what distinguishes it" in page
    assert "Retraining alone" in page
    assert "shortcut to their label" in page
    render_again(run, redact=True, out=run.parent / "redacted.html")
    assert "Retraining alone" in (run.parent / "redacted.html").read_text(encoding="utf-8")
    flags = [f for k, v in RECIPE.items() for f in (f"--{k.replace('_', '-')}", v)]
    code, out, err = answer(
        capsys, "audit", "classifier", source, "--out", run, *flags, "--intervene", "grayscale", "--classes", "moss"
    )
    assert (code, err) == (1, "")
    assert result.summary["intervention"]["sentences"][0] in out


def test_the_changed_models_are_those_of_an_audit_of_images_changed_by_hand(source, tmp_path):
    recipe = QUICK | {"epochs": 8, "normalise": "none"}  # an audit of other images would scale its pixels by those
    audit_classifier(source, out=tmp_path / "run", **recipe, **ON_MOSS)
    images, labels = coloured()
    for i in np.flatnonzero(labels == "moss"):  # all of them: training, canary and test
        images[i] = np.asarray(Image.fromarray(images[i]).convert("L"))[..., None]
    audit_classifier(saved(tmp_path / "grey.npz", images, labels), out=tmp_path / "r", **recipe)
    by_hand = pd.read_parquet(tmp_path / "r" / "scores.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(changed_folder(tmp_path / "run") / "scores.parquet"), by_hand)


def test_the_baseline_is_what_it_is_without_an_intervention(finished, source, tmp_path):
    run, _ = finished
    audit_classifier(source, out=tmp_path / "r", **RECIPE)
    for name in ("scores", "per_image", "per_class", "attacks"):
        assert (run / f"{name}.parquet").read_bytes() == (tmp_path / "r" / f"{name}.parquet").read_bytes(), name


def test_the_rerun_keeps_the_halves_and_changes_the_start(finished):
    run, _ = finished
    before, again, changed = (
        evidence_from_table(pd.read_parquet(f / "scores.parquet"))
        for f in (run, run / FOLDER / RERUN, changed_folder(run))
    )
    for other in (again, changed):
        np.testing.assert_array_equal(other.sign, before.sign)
        np.testing.assert_array_equal(other.items.image, before.items.image)
        np.testing.assert_array_equal(other.seeds, before.seeds)
        assert not np.allclose(other.loss_a, before.loss_a)
    starts = {p.name.split("-")[0] for p in (run / FOLDER / RERUN / LOGITS).iterdir()}
    assert starts == {str(rerun_seed(int(s))) for s in before.seeds}
    assert not starts & {str(s) for s in before.seeds}


@pytest.mark.thorough
def test_a_killed_run_goes_on_to_the_same_result(source, tmp_path, monkeypatch):
    """Stopped at each of several trainings; half-written files of a kill in the middle of a write are cleared."""
    whole = tmp_path / "whole"
    audit_classifier(source, out=whole, **QUICK, **ON_MOSS)
    run = tmp_path / "stopped"
    for stop_at in (8, 5, 8):  # in the changed models; in them again; in the third of the re-run

        def stop(stage, done, total, left=[stop_at], seen={}):  # noqa: B006 - counts over the calls
            trained = TRAINED_IN.get(stage, 0) * done // max(total, 1)
            if trained > seen.setdefault(stage, 0):
                seen[stage] = trained
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            audit_classifier(source, out=run, progress=stop, **QUICK, **ON_MOSS)
        assert not (run / "verdict.json").exists()
        for folder in (run / FOLDER).iterdir():
            (folder / ".images.npy.xyz.part").write_bytes(b"half of an array")
    kept = {p: p.stat().st_mtime_ns for p in (run / FOLDER).rglob("*.npy") if p.name != IMAGES}
    assert len(kept) == 6 + 2
    audit_classifier(source, out=run, **QUICK, **ON_MOSS)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept  # nothing is trained twice
    assert results(run) == results(whole)
    assert not list(run.rglob("*.part"))


@pytest.mark.thorough
def test_kill_9_while_the_changed_models_train_loses_nothing(source, tmp_path, capsys, monkeypatch):
    cache = tmp_path / "cache"
    settings = RECIPE | {"models": 6, "epochs": 12}
    flags = [f for k, v in settings.items() for f in (f"--{k.replace('_', '-')}", v)]
    command = ["audit", "classifier", source, "--out", tmp_path / "run", *flags]
    command += ["--intervene", "grayscale", "--classes", "moss", "--fail-on", "never"]
    run = subprocess.Popen(memorisk(*command), env=environment(cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    begun = time.monotonic()
    while run.poll() is None and not any((tmp_path / "run").glob(f"{FOLDER}/*/{LOGITS}/*.npy")):
        assert time.monotonic() - begun < 120
        time.sleep(0.005)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert run.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "run").rglob(IMAGES))) == 1
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob(f"{LOGITS}/*.npy")}
    monkeypatch.setenv("MEMORISK_CACHE", str(cache))
    code, _, err = answer(capsys, *command)
    assert (code, err) == (0, "")
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert len(list((tmp_path / "run").rglob(f"{LOGITS}/*.npy"))) == 18
    assert not list((tmp_path / "run").rglob(IMAGES))


@pytest.mark.thorough
def test_more_seeds_and_other_classes_train_only_what_is_new(source, tmp_path):
    run = tmp_path / "run"
    audit_classifier(source, out=run, **QUICK)  # the baseline first, the intervention later
    audit_classifier(source, out=run, **QUICK, **ON_MOSS)
    first = {p: p.stat().st_mtime_ns for p in run.rglob(f"{LOGITS}/*.npy")}
    assert len(first) == 18
    left = changed_folder(run) / IMAGES
    left.write_bytes(b"pictures of a run that was killed")
    audit_classifier(source, out=run, **QUICK | {"models": 8}, intervene="edges-only", classes=["sky", "moss"])
    assert not left.exists()
    now = list(run.rglob(f"{LOGITS}/*.npy"))
    assert len(now) == 18 + 2 + 8 + 2  # baseline, edges, re-run
    assert {p: p.stat().st_mtime_ns for p in first} == first


def test_an_intervention_that_does_nothing_is_not_larger_than_retraining(tmp_path, monkeypatch):
    """One bit of one pixel: the models differ from the baseline by chance alone."""

    def one_bit(images):
        changed = images.copy()
        changed[:, 0, 0, 0] ^= 1
        return changed

    null = Intervention("one-bit", one_bit, "one bit flipped", "flipped already")
    monkeypatch.setattr(interventions, "INTERVENTIONS", {"one-bit": null})
    tables = []
    for seed in range(2):
        images = saved(tmp_path / f"{seed}.npz", *coloured(seed=seed))
        result = audit_classifier(
            images,
            out=tmp_path / str(seed),
            **RECIPE | {"models": 6, "epochs": 12},
            intervene="one-bit",
            classes=list(SIZES),
        )
        tables.append(result.tables[TABLE])
    table = pd.concat(tables)
    assert len(table) == 6
    assert (table["difference"] != 0).all()  # it was trained on other images
    assert (table["reading"] == LARGER).sum() == 0  # expected: 0.5 % of 6
    held = (table["low"] <= 0) & (table["high"] >= 0)
    assert held.sum() >= 5  # 95 % of 6 expected; fewer than 5 in 3 % where intervals hold their level


@pytest.mark.parametrize("settings", [thorough({"design": "matched"}), {"protocol": "paper"}])
def test_the_other_designs_retrain_both_roles_too(source, tmp_path, settings):
    quick = QUICK | {"models": 4}
    result = audit_classifier(source, out=tmp_path / "r", **quick, **ON_MOSS, **settings)
    assert len(list((tmp_path / "r").rglob(f"{LOGITS}/*.npy"))) == 12
    moss = row(result, "moss")
    assert np.isfinite(moss["difference"])
    assert moss["reading"].startswith(INSUFFICIENT)
    assert "--" not in "".join(result.summary["intervention"]["sentences"])
    assert any("fewer than 3 seeds" in w for w in result.summary["intervention"]["warnings"])


def test_pseudonyms_stand_in_the_score_tables_too(source, tmp_path):
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"0123456789abcdef")
    run = tmp_path / "r"
    audit_classifier(source, out=run, **QUICK, **ON_MOSS, pseudonymise=True, pseudonym_key=key)
    names = set(pd.read_parquet(run / "scores.parquet")["image"])
    for folder in (changed_folder(run), run / FOLDER / RERUN):
        assert set(pd.read_parquet(folder / "scores.parquet")["image"]) == names


def test_a_plan_counts_the_trainings_and_writes_nothing(source, tmp_path):
    plan = audit_classifier(source, out=tmp_path / "r", **QUICK, **ON_MOSS, dry_run=True)
    bare = audit_classifier(source, out=tmp_path / "r", **QUICK, dry_run=True)
    assert isinstance(plan, DryRun)
    assert isinstance(bare, DryRun)
    assert not (tmp_path / "r").exists()
    assert bare.cost.trainings == 6
    assert plan.cost.trainings == 18
    assert plan.bytes_until_the_end == 160 * 8 * 8 * 3
    assert bare.bytes_until_the_end == 0


def test_by_default_the_classes_below_five_per_cent_are_changed(tmp_path):
    sizes = {"plain": 150, "sky": 130, "moss": 13, "fern": 2}  # fern is too small to be audited
    path = saved(tmp_path / "rare.npz", *coloured(sizes))
    result = audit_classifier(path, out=tmp_path / "r", **QUICK | {"models": 2}, intervene="colour-only")
    summary = result.summary["intervention"]
    assert summary["classes"] == ["moss"]
    assert summary["left_out"] == ["fern"]
    assert summary["n_images_changed"] == 13
    with pytest.raises(InputError, match="fern has too few groups to be audited"):
        audit_classifier(path, out=tmp_path / "f", **QUICK, intervene="colour-only", classes=["fern"])


def test_joined_findings_are_changed_with_every_class_they_name(tmp_path):
    images, labels = coloured()
    joined = np.where(np.arange(len(labels)) % 5 == 0, np.char.add(labels, "|moss"), labels)
    joined = np.where(joined == "moss|moss", "moss", joined)
    path = saved(tmp_path / "joined.npz", images, joined)
    result = audit_classifier(path, out=tmp_path / "r", **QUICK | {"models": 2}, head="multi", **ON_MOSS)
    summary = result.summary["intervention"]
    assert summary["n_images_changed"] == sum("moss" in label for label in joined.tolist()) > 40


def grey(n=90):
    return np.repeat(np.random.default_rng(1).integers(0, 256, (n, 8, 8, 1)).astype(np.uint8), 3, axis=-1)


@pytest.mark.parametrize("channels", ["auto", 3])
@pytest.mark.parametrize("classes", [None, ["b"]])
def test_grey_images_are_refused_before_anything_is_trained(tmp_path, channels, classes):
    path = saved(tmp_path / "grey.npz", grey(), np.array(["a"] * 60 + ["b"] * 30))
    named = {} if classes is None else {"classes": classes}
    if channels == 3 and classes is None:
        match = "name those to change with --classes"
    else:
        match = "are grey already.*: a difference|are grey already, so a difference"
    for dry_run in (False, True):
        with pytest.raises(InputError, match=match):
            audit_classifier(
                path, out=tmp_path / "r", **QUICK, intervene="grayscale", channels=channels, dry_run=dry_run, **named
            )
    assert not (tmp_path / "r").exists()


def test_a_class_of_which_hardly_an_image_changes_is_refused_and_named(tmp_path):
    images, labels = grey(), np.array(["a"] * 60 + ["b"] * 30)
    images[:60, ..., 0] //= 2  # a is coloured
    images[60, 0, 0] = (255, 0, 0)  # one image of b, 3 %
    path = saved(tmp_path / "s.npz", images, labels)
    with pytest.raises(InputError, match=r"only 1 of 30 images of class b \(29 images are grey already\)"):
        audit_classifier(path, out=tmp_path / "r", **QUICK, intervene="grayscale", classes=["a", "b"])
    images[61, 0, 0] = (255, 0, 0)  # two, 7 %
    path = saved(tmp_path / "t.npz", images, labels)
    result = audit_classifier(path, out=tmp_path / "t", **QUICK | {"models": 2}, intervene="grayscale", classes=["b"])
    assert row(result, "b")["images_changed"] == pytest.approx(2 / 30)
    assert row(result, "b")["pixels_changed"] == pytest.approx(2 / 30 / 64)


@pytest.mark.thorough
def test_pneumoniamnist_and_the_chest_x_rays_are_refused_as_no_ops(shared_data, tmp_path, capsys):
    """In every form they can be stored in: one channel, or three equal ones."""
    pneumonia = shared_data / "pneumoniamnist_imbalanced" / "data" / "pneumoniamnist.npz"
    chest = shared_data / "nih_cxr14_64" / "NIH1000"
    sets = {pneumonia: (["0"], []), chest: (["1_abnormal"], ["--group-from", r"(\d+)_"])}
    for path, (classes, flags) in sets.items():
        if not path.exists():
            pytest.skip(f"{path.name} is not beside this checkout")
        for channels in ("auto", "3"):
            line = refusal(
                capsys,
                *("audit", "classifier", path, "--out", tmp_path / "r", "--intervene", "grayscale"),
                *("--classes", *classes, "--channels", channels, "--processes", 1, *flags),
            )
            assert "changes no pixel of" in line
            assert "grey already" in line
            assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"intervene": "greyscale"}, "Did you mean 'grayscale'"),
        ({"intervene": "grayscale", "classes": ["mos"]}, "Did you mean 'moss'"),
        ({"intervene": "grayscale"}, "fewer than 5% of the images: name those to change with --classes, of moss"),
        ({"classes": ["moss"]}, "name that with intervene"),
        ({"intervene": "blur", "classes": []}, "at least one class"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(source, tmp_path, settings, match):
    with pytest.raises(InputError, match=match) as refused:
        audit_classifier(source, out=tmp_path / "r", **QUICK, **settings)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "r").exists()


def test_classes_are_a_tuple_however_they_are_given():
    for given in ("moss", ["moss"], ("moss",)):
        assert options_from({"intervene": "blur", "classes": given}).classes == ("moss",)
    assert ClassifierOptions().intervene is None


@pytest.mark.thorough
def test_a_damaged_or_foreign_array_of_changed_images_is_written_again(source, tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    audit_classifier(source, out=whole, **QUICK, **ON_MOSS)
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    folder = changed_folder(run)
    next(iter((folder / LOGITS).glob("*.npy"))).unlink()
    np.save(folder / IMAGES, np.zeros((3, 8, 8, 3), np.uint8))
    audit_classifier(source, out=run, **QUICK, **ON_MOSS)
    assert results(run) == results(whole)


def test_the_seeds_of_the_rerun_are_apart_from_those_of_other_seeds():
    seeds = [*range(2000), 123456, (1 << 32) - 1]
    again = {rerun_seed(s) for s in seeds}
    assert len(again) == len(seeds)
    assert all(0 <= s < 1 << 32 for s in again)
    assert intervention.rerun_seed(123) == rerun_seed(123)


def test_two_recalls_differ_by_at_most_one():
    """Student's t knows no bounds: two of three patients gained, with an interval that t carries beyond 1."""
    evidence = twin_evidence(sizes={"a": 6}, n_test=3, n_seeds=3)
    wrong, test = np.zeros(evidence.correct_a.shape, dtype=bool), np.flatnonzero(evidence.items.split == "test")
    right = wrong.copy()
    right[:, test[:2]] = True
    before, after = (replace(evidence, correct_a=c, correct_b=c) for c in (wrong, right))
    found = _recall_columns(before, after, np.ones(len(evidence.items), dtype=bool))
    assert found["recall_difference"] == pytest.approx(2 / 3)
    assert found["recall_high"] == 1.0
    assert -1.0 <= found["recall_low"] < 0
