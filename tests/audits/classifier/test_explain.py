"""A finished run looked into: its own numbers again, every design, features of every kind, nothing of it changed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import memorisk
from memorisk.audits.classifier.evidence import evidence_from_table
from memorisk.audits.classifier.explanations.probes import choose_probe_sample
from memorisk.audits.classifier.explanations.run import FOLDER, PAGE, SUMMARY, explain
from memorisk.audits.classifier.finished_run import open_finished
from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.store import ImageStore
from memorisk.models.encoders.feature_sources import read_features
from memorisk.runs.checksums import SEAL
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_array
from memorisk.scores.atypicality import centroid_atypicality, pairwise_atypicality
from memorisk.statistics.association import residualise
from memorisk.training.engine.predict import predict_logits
from tests.audits.classifier.test_compare import make_run
from tests.commands import answer, class_folders, entries, refusal

TINY = {"models": 6, "epochs": 3, "processes": 1, "fail_on": "never", "lr": 0.01}
QUICK = {"permutations": 99}
NAMES = [f"p{patient:02}_{view}.png" for patient in range(16) for view in range(2)]


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    """Two classes of sixteen patients with two images each."""
    return class_folders(tmp_path_factory.mktemp("images") / "set", ["benign", "malignant"], NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory, images) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    audit_classifier(images, out=out, group_from=r"(.*)_", **TINY)
    return out


def store_of(run: Path) -> ImageStore:
    return open_finished(run, device="cpu").store


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in entries(folder) if (folder / name).is_file()}


def test_a_run_is_opened_as_it_was(small_run):
    """The plan, the images, M and the models are those of the run: its models give the logits it left."""
    found = open_finished(small_run, device="cpu")
    job = found.jobs()[1][0]
    logits = predict_logits(found.trained(job), found.store.images, None, job.options, normalisation=job.normalisation)
    np.testing.assert_allclose(logits, read_array(job.logits_file), atol=1e-5)
    before = predict_logits(found.before(job), found.store.images, None, job.options, normalisation=job.normalisation)
    assert np.abs(before - logits).max() > 0.1
    assert found.store.manifest.images[found.item_row].tolist() == found.evidence.items.image.tolist()
    assert found.store.manifest.labels[found.item_row].tolist() == found.evidence.items.label.tolist()


def test_numbers_are_those_of_the_score_table_and_the_features(small_run, tmp_path):
    """An array by row number: both forms and rho by hand, and nothing of the run is changed."""
    before = content(small_run)
    store = store_of(small_run)
    flat = store.images.reshape(len(store.images), -1).astype(np.float64)
    np.save(tmp_path / "pixels.npy", flat)
    found = explain(small_run, features=[tmp_path / "pixels.npy"], out=tmp_path / "out", **QUICK)
    assert content(small_run) == before

    table = pd.read_parquet(tmp_path / "out" / "atypicality.parquet")
    pd.testing.assert_frame_equal(table, found.atypicality, check_dtype=False)
    saved = pd.read_parquet(small_run / "per_image.parquet").set_index("image")
    assert len(table) == saved["M"].notna().sum() > 900
    np.testing.assert_allclose(table["M"], saved["M"].loc[table["image"]], atol=1e-12)
    evidence = evidence_from_table(read_scores(small_run / "scores.parquet"))
    place = pd.Index(store.manifest.images).get_indexer(evidence.items.image)
    every = pairwise_atypicality(flat[place], evidence.items.label, evidence.items.group)
    rows = pd.Index(evidence.items.image).get_indexer(table["image"])
    np.testing.assert_allclose(table["intra"], every.intra[rows], atol=1e-12)
    np.testing.assert_allclose(table["nearest_other"], every.nearest_other[rows], atol=1e-12)
    paper = centroid_atypicality(flat[place[rows]], table["label"].to_numpy())
    np.testing.assert_allclose(table["centroid_ratio"], paper.ratio, atol=1e-12)
    assert set(table["reason"]) == {""}

    main = found.associations.set_index(["form", "score"])
    for key, column in ((("pairwise", "ratio"), "ratio"), (("centroid", "intra"), "centroid_intra")):
        row, label = main.loc[key], table["label"].to_numpy()
        assert row["rho"] == pytest.approx(stats.spearmanr(table[column], table["M"]).statistic)
        inner = stats.spearmanr(residualise(table[column], label), residualise(table["M"], label))
        assert row["rho_residual"] == pytest.approx(inner.statistic)
        assert row["p_paper_residual"] == pytest.approx(max(inner.pvalue, 1e-10))
        assert row["low_residual"] < row["rho_residual"] < row["high_residual"]
        assert row["smallest_p"] == 0.01
        assert row["n"] == row["n_groups"] == len(table)  # the digits have no patients
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert entries(tmp_path / "out") == ["atypicality.parquet", "atypicality_summary.parquet", PAGE, SUMMARY, SEAL]


def test_m_of_the_probes_comes_from_the_other_seeds(small_run):
    evidence = evidence_from_table(read_scores(small_run / "scores.parquet"))
    found = choose_probe_sample(evidence, int(evidence.seeds[1]))
    sign, gap = evidence.sign, evidence.gap
    scored = [0, 2]
    for i in np.flatnonzero(found.members)[:50]:
        assert sign[1, i] == 1
        values = [sign[s, i] * gap[s, i] for s in scored if sign[s, i]]
        assert found.m[i] == pytest.approx(np.mean(values))
    assert found.compared.sum() == (np.isfinite(found.m) & (sign[1] != 0) & (evidence.items.split == "canary")).sum()
    with pytest.raises(InputError, match="no seed 5"):
        choose_probe_sample(evidence, 5)


def test_probes_ceiling_distances_and_page(run, tmp_path):
    before = content(run)
    found = memorisk.explain(run, features=("before",), probes=True, out=tmp_path / "out", **QUICK)
    assert content(run) == before
    layers = found.layers
    assert layers is not None
    assert layers.distances["layer"].tolist() == ["features.0", "features.3", "hidden_layer"]
    assert len(layers.probes) == 6
    assert layers.probes["n_groups"].eq(layers.summary.n_groups_probed).all()
    assert layers.probes["auroc"].between(0, 1).all()
    assert layers.distances[["high", "low"]].gt(0).all().all()
    assert layers.summary.n_probed * 2 == layers.summary.n_compared
    assert layers.reliability.n_seeds == 2
    assert layers.summary.seed not in layers.summary.other_seeds
    page = (tmp_path / "out" / PAGE).read_text()
    top = found.atypicality.sort_values("ratio")["image"].iloc[-1]
    for text in ("Where is it stored?", "Probes by layer", "hidden_layer", "random weights", f"{top}<"):
        assert text in page
    saved = json.loads((tmp_path / "out" / SUMMARY).read_text())
    assert saved["probes"]["reliability"]["n_seeds"] == 2
    assert "probes.parquet" in entries(tmp_path / "out")
    assert not [e for e in entries(tmp_path / "out") if e.startswith(".")]  # activations are personal data, too
    explain(run, out=tmp_path / "out", **QUICK)  # what is no longer asked for goes
    assert entries(tmp_path / "out") == ["atypicality.parquet", "atypicality_summary.parquet", PAGE, SUMMARY, SEAL]


@pytest.mark.parametrize("design", ["matched", "paper"])
def test_every_design(design, images, tmp_path):
    audit_classifier(images, out=tmp_path / "run", design=design, group_from=r"(.*)_", **TINY)
    found = explain(tmp_path / "run", **QUICK)
    assert found.summary.design == design
    assert found.summary.n_scored < found.summary.n_reference / 2  # classes are all of their images
    assert len(found.atypicality) == found.summary.n_scored
    assert (tmp_path / "run" / FOLDER / PAGE).is_file()
    with pytest.raises(InputError, match="5 folds need as many"):
        explain(tmp_path / "run", probes=True, **QUICK)


def test_pseudonyms_stay_and_features_come_by_the_users_own_ids(images, tmp_path, monkeypatch):
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_bytes(b"a secret of sixteen bytes")
    out = tmp_path / "run"
    audit_classifier(
        images, out=out, group_from=r"(.*)_", pseudonymise=True, pseudonym_key=key, discard_weights=True, **TINY
    )
    store = store_of(out)
    flat = store.images.reshape(len(store.images), -1)
    table = pd.DataFrame(flat.astype(float), columns=[f"f{i}" for i in range(flat.shape[1])])
    table["image"] = store.manifest.images
    table.sample(frac=1, random_state=0).to_parquet(tmp_path / "own.parquet")
    found = explain(out, features=[tmp_path / "own.parquet"], **QUICK)
    assert set(found.atypicality["image"]) <= set(pd.read_parquet(out / "scores.parquet")["image"].astype(str))
    text = "".join((out / FOLDER / name).read_text() for name in (PAGE, SUMMARY))
    text += "".join(pd.read_parquet(p).to_csv() for p in (out / FOLDER).glob("*.parquet"))
    assert found.atypicality["image"].iloc[0] in text
    assert ".png" not in text
    assert not any(f"p{k:02}" in text for k in range(16))
    written = [p for p in out.rglob("*") if p.suffix in (".yaml", ".json", ".jsonl", ".html")]
    assert len(written) >= 6
    for place in (str(images), str(tmp_path), f'"{images.name}"', f">{images.name}<", f": {images.name}\n"):
        assert not [p.name for p in written if place in p.read_text()], place
    np.save(tmp_path / "same.npy", flat.astype(float))
    again = explain(out, features=[tmp_path / "same.npy"], out=tmp_path / "again", **QUICK)
    np.testing.assert_allclose(again.atypicality["ratio"], found.atypicality["ratio"])
    with pytest.raises(InputError, match=r"weights of seed 123 are gone \(the run was made with --discard-weights\)"):
        explain(out, features=[tmp_path / "own.parquet"], probes=True, **QUICK)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another user"))
        with pytest.raises(InputError, match="does not tell where its images are: look into it where the run was made"):
            explain(out, features=[tmp_path / "own.parquet"], **QUICK)
    key.write_bytes(b"another secret of sixteen")
    with pytest.raises(InputError, match=r"another pseudonym key, .*: put the pseudonym key it was made with back"):
        explain(out, features=[tmp_path / "own.parquet"], **QUICK)


def test_images_that_changed_or_moved(images, tmp_path):
    shutil.copytree(images, tmp_path / "set")
    audit_classifier(tmp_path / "set", out=tmp_path / "run", group_from=r"(.*)_", redact=True, **TINY)
    (tmp_path / "set").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="set"):
        explain(tmp_path / "run", **QUICK)
    with pytest.raises(InputError, match="lies inside the run's images"):
        explain(tmp_path / "run", images=tmp_path / "moved", out=tmp_path / "moved" / "why", **QUICK)
    assert not (tmp_path / "moved" / "why").exists()
    explain(tmp_path / "run", images=tmp_path / "moved", **QUICK)
    assert ".png" not in (tmp_path / "run" / FOLDER / PAGE).read_text()  # --redact
    (tmp_path / "moved" / "benign" / "p03_1.png").unlink()
    with pytest.raises(InputError, match="are not those of"):
        explain(tmp_path / "run", images=tmp_path / "moved", **QUICK)


def test_feature_files(tmp_path):
    images = np.array(["a", "b", "c"], dtype=object)
    values = np.arange(6.0).reshape(3, 2) + 1
    np.savez(tmp_path / "one.npz", anything=values)
    np.savez(tmp_path / "ids.npz", features=values, image=np.array(["c", "a", "b"]))
    pd.DataFrame({"x": [1.0, 2, 3], "y": [4, 5, 6]}).to_parquet(tmp_path / "rows.parquet")
    assert (read_features(tmp_path / "one.npz", images) == values).all()
    assert (read_features(tmp_path / "ids.npz", images) == values[[1, 2, 0]]).all()
    assert read_features(tmp_path / "rows.parquet", images).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert len(read_features(tmp_path / "ids.npz", images[:2])) == 2  # more images than the run has are no harm

    def refuse(name: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_features(tmp_path / name, images)

    np.save(tmp_path / "few.npy", values[:2])
    np.save(tmp_path / "flat.npy", values[:, 0])
    np.save(tmp_path / "objects.npy", values.astype(object))
    np.savez(tmp_path / "two.npz", a=values, b=values)
    np.savez(tmp_path / "twice.npz", features=values, image=np.array(["a", "b", "b"]))
    np.savez(tmp_path / "others.npz", features=values, image=np.array(["a", "b", "d"]))
    pd.DataFrame({"image": images, "name": images, "x": 1.0}).to_parquet(tmp_path / "text.parquet")
    (tmp_path / "broken.parquet").write_text("no table")
    refuse("few.npy", "2 rows for 3 images: give one row per image in the run's order, or a column 'image'")
    refuse("flat.npy", r"shape \(3,\)")
    refuse("objects.npy", "cannot be read")
    refuse("two.npz", "one array is needed")
    refuse("twice.npz", "name 'b' twice")
    refuse("others.npz", "lack 1 images: c")
    refuse("text.parquet", "column name holds no numbers")
    refuse("broken.parquet", "cannot be read")
    refuse("none.npy", "feature file .* does not exist")


def test_what_is_refused_writes_nothing(run, tmp_path):
    before = content(run)
    spoilt = np.random.default_rng(0).normal(size=(64, 3))
    spoilt[5] = 0
    np.save(tmp_path / "zero.npy", spoilt)
    for settings, message in (
        ({"features": ["nosuchnet"]}, "unknown model"),
        ({"features": ["resnet10t"]}, "'none' for random ones"),
        ({"features": ["x.npy"]}, "feature file .* does not exist"),
        ({"features": []}, "no features are named"),
        ({"features": [tmp_path / "zero.npy"]}, r"1 feature rows are all zero.* \(rows 5, "),
        ({"feature_weights": "none"}, "is for a named network"),
        ({"features": ["resnet10t", "small_cnn"], "feature_weights": "w.pth"}, "look at one at a time"),
        (
            {"features": [tmp_path / "zero.npy", tmp_path.parent / tmp_path.name / "sub" / "zero.npy"]},
            "feature file .* does not exist",
        ),
        ({"probes": True, "probe_seed": 7}, "no seed 7"),
        ({"device": "cuda:77"}, "is not there"),
        ({"permutations": 0}, "permutations is 0"),
    ):
        with pytest.raises(InputError, match=message):
            explain(run, **(QUICK | settings))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("kept")
    with pytest.raises(InputError, match="holds other files"):
        explain(run, out=tmp_path / "full", **QUICK)
    with pytest.raises(InputError, match="not a run folder"):
        explain(tmp_path, out=tmp_path / "o", **QUICK)
    losses = make_run(tmp_path / "l")
    with pytest.raises(InputError, match="no run of audit classifier"):
        explain(losses, **QUICK)
    assert content(run) == before
    assert not (losses / FOLDER).exists()


def test_models_of_ones_own_training_cannot_be_built_but_their_images_can_be_looked_at(images, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\n"
        "def train(images, labels, *, val_images, val_labels, seed, device):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(images[0].size, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    audit_classifier(
        images,
        out=tmp_path / "run",
        train="mine:train",
        python_path=[tmp_path],
        **{k: TINY[k] for k in ("models", "processes")},
    )
    np.save(tmp_path / "own.npy", np.random.default_rng(0).normal(size=(64, 5)))
    found = explain(tmp_path / "run", features=["own.npy"], **QUICK)
    assert found.summary.features == ("own.npy",)
    for settings in ({}, {"features": ["own.npy"], "probes": True}):
        with pytest.raises(InputError, match="trained its models by the function mine:train"):
            explain(tmp_path / "run", **(QUICK | settings))


def test_the_command(capsys, run, tmp_path):
    out = tmp_path / "out"
    weights = ("--features", "before", "small_resnet", "--feature-weights", "none")
    code, shown, err = answer(capsys, "explain", run, *weights, "--out", out)
    assert (code, err) == (0, "")
    assert "Rho within" in shown
    assert "small_resnet" in shown
    assert str(out / PAGE) in shown.replace("\n", "")
    code, shown, _ = answer(capsys, "explain", run, *weights, "--out", out, "--json")
    assert code == 0
    found = json.loads(shown)
    assert found["features"] == ["before", "small_resnet"]
    assert len(found["associations"]) == 12
    assert "--feature-weights" in refusal(capsys, "explain", run, "--features", "resnet10t")
    assert "not a run folder" in refusal(capsys, "explain", tmp_path)
