"""``memorisk quality`` end to end on digits: report, resuming, refusals, train on synthetic and test on real."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from memorisk.audits.quality import transfer
from memorisk.audits.quality.run import assess_quality
from memorisk.runs.folder import read_config
from tests.commands import answer, refusal


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Real threes and eights in training and test patients of two images, and jittered ones as if generated."""
    root = tmp_path_factory.mktemp("digits")
    data = load_digits()
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(np.isin(data.target, (3, 8)))[:180]
    table = []
    for place, row in enumerate(rows):
        pixels = (data.images[row] * 15).astype(np.uint8)
        patient = place // 2
        split = "test" if patient % 3 == 0 else "train"
        made = split == "train" and place % 2
        if made:
            noisy = np.clip(np.roll(pixels, 1, axis=1) + rng.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)
            folder = root / "made" / str(data.target[row])
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noisy).save(folder / f"{place}.png")
        Image.fromarray(pixels).save(root / f"{place}.png")
        table.append({"image": f"{place}.png", "label": str(data.target[row]), "group": f"p{patient}", "split": split})
    pd.DataFrame(table).to_csv(root / "real.csv", index=False)
    return root


def test_the_command_writes_figures_and_says_nothing_of_privacy(digits, tmp_path, capsys):
    out = tmp_path / "run"
    command = ("quality", digits / "real.csv", digits / "made", "--held-out-split", "test", "--out", out)
    code, text, _ = answer(capsys, *command, "--features", "pixels", "pca:4")
    assert code == 0
    assert {line.split()[0] for line in text.splitlines() if "pca:4" in line} >= {"FID", "KID"}
    assert "Held-out real" in text
    assert "QUALITY IS NOT PRIVACY" in text
    found = json.loads((out / "quality.json").read_text())
    assert {row["features"] for row in found["quality"]} == {"pixels", "pca:4"}
    assert found["numbers"]["training_patients"] == 60
    assert len(pd.read_parquet(out / "tables" / "quality.parquet")) == 16
    page = (out / "report.html").read_text()
    assert "Quality is not privacy" in page
    assert "p17" not in page
    assert out.stat().st_mode & 0o777 == 0o700
    before = (out / "quality.json").read_bytes()
    assert answer(capsys, *command, "--features", "pixels", "pca:4")[0] == 0
    assert (out / "quality.json").read_bytes() == before
    assert "seed" in refusal(capsys, *command, "--features", "pixels", "pca:4", "--seed", 2)
    assert "is a run of quality" in refusal(capsys, "report", out)


def test_a_pseudonymised_run_names_no_file_and_no_patient(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    how = {"held_out_split": "test", "features": "pixels", "figures": "FID"}
    plain = assess_quality(digits / "real.csv", digits / "made", out=tmp_path / "plain", **how)
    hidden = assess_quality(digits / "real.csv", digits / "made", out=tmp_path / "run", pseudonymise=True, **how)
    pd.testing.assert_frame_equal(hidden.figures, plain.figures)
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert config.count("path-") >= 3
    assert read_config(tmp_path / "run")["train"] == str(digits / "real.csv")
    for file in (tmp_path / "run").rglob("*.*"):
        if file.is_file():
            data = file.read_bytes()
            assert not [text for text in (str(digits), "real.csv", "p17") if text.encode() in data], file


def test_train_on_synthetic_goes_on_where_it_stopped(digits, tmp_path, monkeypatch):
    how = {"held_out_split": "test", "figures": "FID", "classifier": "small_cnn", "classifier_epochs": 3}
    how |= {"classifier_seeds": 2, "batch_size": 16, "out": tmp_path / "run"}
    found = assess_quality(digits / "real.csv", digits / "made", **how)
    assert list(found.transfer["measure"]) == ["balanced accuracy", "AUC"]
    row = found.transfer.iloc[1]
    assert (row["n_train"], row["n_test"], row["n_patients"], row["n_trainings"]) == (60, 60, 30, 2)
    assert row["difference"] == pytest.approx(row["synthetic"] - row["real"])
    kept = sorted((tmp_path / "run" / "classifiers").glob("*.npy"))
    assert len(kept) == 4
    bytes_before = kept[1].read_bytes()
    kept[1].unlink()
    trained = []
    real_fit = transfer.fit
    monkeypatch.setattr(transfer, "fit", lambda *a, **k: trained.append(k["seed"]) or real_fit(*a, **k))
    again = assess_quality(digits / "real.csv", digits / "made", **how)
    assert len(trained) == 1
    assert kept[1].read_bytes() == bytes_before
    pd.testing.assert_frame_equal(again.transfer, found.transfer)


def test_a_class_that_is_missing_and_networks_of_one_answer_are_told(digits, tmp_path, capsys, monkeypatch):
    real = pd.read_csv(digits / "real.csv", dtype=str)
    third = (real["split"] == "train") & (np.arange(len(real)) % 5 == 0)
    real.loc[third, "label"] = "5"
    real.to_csv(digits / "three.csv", index=False)
    always = np.tile(np.float32([3, 0, 0]), (60, 1))
    monkeypatch.setattr(transfer, "fit", lambda *a, **k: None)
    monkeypatch.setattr(transfer, "predict_logits", lambda *a, **k: always)
    command = ["quality", digits / "three.csv", digits / "made", "--held-out-split", "test", "--figures", "FID"]
    command += ["--classifier", "small_cnn", "--classifier-seeds", 1]
    code, text, error = answer(capsys, *command, "--out", tmp_path / "run")
    assert code == 0, error
    page = (tmp_path / "run" / "report.html").read_text()
    for said in (
        "No synthetic image that was trained on has the label 5",
        "Of the 1 network trained on real images 1 gave every held-out image the same class",
    ):
        assert said in text
        assert said in page
    assert "1 training of each on 60 images" in page


def test_a_synthetic_set_of_one_class_is_refused(digits, tmp_path, capsys):
    (tmp_path / "made").mkdir()
    shutil.copytree(digits / "made" / "3", tmp_path / "made" / "3")
    command = ("quality", digits / "real.csv", tmp_path / "made", "--held-out-split", "test", "--figures", "FID")
    said = refusal(capsys, *command, "--classifier", "small_cnn", "--out", tmp_path / "run")
    assert "synthetic images to train on have the label 3: a classifier needs two" in said
    assert not (tmp_path / "run").exists()


def test_saved_features_and_the_plan(digits, tmp_path, capsys):
    rng = np.random.default_rng(1)
    for name, n in (("real", 180), ("made", 60)):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(n, 3)).astype(np.float32))
    real = pd.read_csv(digits / "real.csv")
    ids = real["image"].to_numpy().astype(str)
    np.savez(tmp_path / "real.npz", features=np.load(tmp_path / "real.npy"), image=ids)
    command = ("quality", digits / "real.csv", digits / "made", "--held-out-split", "test")
    saved = ("--features", tmp_path / "real.npz", "--synthetic-features", tmp_path / "made.npy")
    code, text, _ = answer(capsys, *command, *saved, "--out", tmp_path / "a", "--figures", "FID", "KID", "--json")
    assert code == 0
    assert [row["figure"] for row in json.loads(text)["quality"]] == ["FID", "KID"]
    code, text, _ = answer(capsys, *command, "--out", tmp_path / "b", "--dry-run")
    assert code == 0
    assert "images: training 120, synthetic 60, held out 60" in text
    assert not (tmp_path / "b").exists()
    code, text, _ = answer(capsys, *command, "--out", tmp_path / "b", "--print-config")
    assert code == 0
    assert "classifier_seeds: 3" in text


def test_refusals_write_nothing(digits, tmp_path, capsys):
    out = tmp_path / "run"
    command = ("quality", digits / "real.csv", digits / "made", "--out", out)
    assert "figures names 'FID' twice" in refusal(capsys, *command, "--figures", "FID", "FID")
    assert "Did you mean 'KID'" in refusal(capsys, *command, "--figures", "KIDD")
    assert "held-out real images" in refusal(capsys, *command, "--classifier", "auto")
    assert "belongs to a file of features" in refusal(capsys, *command, "--synthetic-features", digits / "real.csv")
    trained = (*command, "--held-out-split", "test", "--figures", "FID", "--classifier", "small_cnn")
    assert "nowhere.pth" in refusal(capsys, *trained, "--classifier-weights", "nowhere.pth")
    inside = ("quality", digits / "real.csv", digits / "made", "--out", digits / "made" / "x")
    assert "lies inside" in refusal(capsys, *inside)
    assert not out.exists()
    code, text, _ = answer(capsys, *command, "--figures", "FID")
    assert code == 0
    assert "No held-out images were given, so the figures cannot be judged" in text
