"""A Siamese detector is trained in two stages, goes on where it was killed, and chooses its epoch by other patients."""

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import memorisk
from memorisk.models.latents import open_latents
from memorisk.models.lcmem import LatentDetector, by_sample
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.statistics.pairs.identity_pairs import negative_pairs, pair_weights, positive_pairs
from memorisk.training.autoencoders.latent_store import load_latents, read_latents
from memorisk.training.detectors.lcmem.fit import StageTraining, fit_lcmem
from memorisk.training.detectors.lcmem.inputs import PairData
from memorisk.training.detectors.lcmem.validation import (
    embed_validation_rows,
    similarity,
    validation_pairs,
    weighted_quantile,
)
from memorisk.training.engine import epoch_training
from tests.models.small_autoencoder import autoencoder_folder
from tests.training.siamese import TINY, latents_of, parts, patients

FILES = ("weights.safetensors", "detector.json", "seen.parquet", "history.json", "encoder/encoder.json")


def content(folder: Path) -> dict[str, bytes]:
    """What both stages left."""
    return {
        f"{stage}/{name}": (folder / stage / name).read_bytes() for stage in ("stage1", "detector") for name in FILES
    }


def test_two_stages_learn_who_is_who(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    rows, validation = parts(latents)
    options = replace(TINY, epochs=6)
    fitted = fit_lcmem(latents, rows, validation, latents.groups, options, tmp_path / "run")
    first = fitted["stage1"].history
    best = fitted["stage1"].best_epoch
    assert first[best]["auc"] == max(row["auc"] for row in first[1:])
    assert first[best]["auc"] > 0.9
    assert all(row["recall"] is None for row in first)
    second = fitted["detector"]
    sums = [row["auc"] + row["recall"] for row in second.history[1:]]
    assert second.best_epoch == 1 + int(np.argmax(sums))
    loaded = memorisk.load_detector(tmp_path / "run" / "detector")
    assert isinstance(loaded, LatentDetector)
    assert (loaded.config.stage, loaded.config.best_epoch) == (2, second.best_epoch)
    before = memorisk.load_detector(tmp_path / "run" / "stage1")
    images = patients(tmp_path).images
    u = {name: one.detector.embed(images, device="cpu") for name, one in fitted.items()}
    assert not np.array_equal(u["stage1"], u["detector"])
    np.testing.assert_array_equal(u["stage1"], before.embed(images, device="cpu"))
    np.testing.assert_array_equal(u["detector"], loaded.embed(images, device="cpu"))
    for stage, kept in (("stage1", before), ("detector", loaded)):  # stage 2 leaves stage 1 as it was
        assert np.array_equal(fitted[stage].detector.embed(images, device="cpu"), kept.embed(images, device="cpu"))
    assert loaded.calibration is not None
    assert loaded.calibration["identities"] == 8
    assert set(loaded.seen["part"]) == {"training", "validation"}


def test_the_kept_weights_are_those_of_the_best_epoch(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    rows, validation = parts(latents)
    fitted = fit_lcmem(latents, rows, validation, latents.groups, replace(TINY, epochs=3, stages=1), tmp_path)
    detector = fitted["detector"].detector
    z = torch.from_numpy(np.array(latents.values[validation]))
    u, score = embed_validation_rows(detector.branch, z), similarity(detector.branch)
    own = latents.groups[validation].astype(str)
    positive = positive_pairs(own)
    negative = negative_pairs(own, positive, seed=0)
    scores = np.concatenate([score(u[p.first], u[p.second]) for p in (positive, negative)])
    weights = np.concatenate([pair_weights(own[p.first]) for p in (positive, negative)])
    auc = roc_auc_score(np.arange(len(scores)) < len(positive), scores, sample_weight=weights)
    assert fitted["detector"].history[fitted["detector"].best_epoch]["auc"] == pytest.approx(auc, abs=1e-12)


def test_twice_the_same_bytes_also_when_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latents = latents_of(patients(tmp_path))
    given = (latents, *parts(latents), latents.groups, TINY)
    fit_lcmem(*given, tmp_path / "whole")
    stops = ["training, stage 1", "training, stage 2"]

    def stopped(stage: str, done: int, total: int) -> None:
        if stage in stops and done:
            stops.remove(stage)
            raise MemoriskError("stopped")

    for _ in range(2):
        with pytest.raises(MemoriskError, match="stopped"):
            fit_lcmem(*given, tmp_path / "run", stopped)
    fit_lcmem(*given, tmp_path / "run", stopped)
    assert content(tmp_path / "run") == content(tmp_path / "whole")
    assert not (tmp_path / "run" / "detector" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(epoch_training, "run_epochs", lambda *a, **k: pytest.fail("trained again"))
    fit_lcmem(*given, tmp_path / "run")
    with pytest.raises(InputError, match="holds a detector that was trained otherwise"):
        fit_lcmem(latents, *parts(latents), latents.groups, replace(TINY, lr=0.5), tmp_path / "run")


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from memorisk.training.engine import epoch_training
from memorisk.training.detectors.lcmem.fit import fit_lcmem
from tests.training.siamese import TINY, latents_of, parts, patients
root, kill = Path(sys.argv[1]), sys.argv[2]
kept = root / "run" / "detector" / "checkpoint.safetensors"
latents = latents_of(patients(root))
def killed(stage, done, total):
    if stage == kill and kept.is_file():
        os.kill(os.getpid(), signal.SIGKILL)
fit_lcmem(latents, *parts(latents), latents.groups, TINY, root / "run", killed)
"""


@pytest.mark.thorough
def test_killed_it_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    fit_lcmem(latents, *parts(latents), latents.groups, TINY, tmp_path / "whole")
    died = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "training, stage 2"], capture_output=True, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert (tmp_path / "run" / "detector" / "checkpoint.safetensors").is_file()
    fit_lcmem(latents, *parts(latents), latents.groups, TINY, tmp_path / "run")
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_stage_one_may_do_some_of_what_stage_two_does(tmp_path: Path) -> None:
    """One image of a pair always, the other in about half of the pairs; and only what was named."""
    latents = latents_of(patients(tmp_path))
    data = PairData.build(latents, *parts(latents), latents.groups, ignore=False)
    plain, flipped = (
        StageTraining.first(data, replace(TINY, stage1_augment=how, sample_normalisation=1.0).filled())
        for how in ("none", "flip")
    )
    batch = plain.sampler.batches(0, plain.batches, plain.size)[0]
    x, moved = (one._normalised(batch, torch.Generator().manual_seed(1)) for one in (plain, flipped))
    same = (x - moved).abs().amax(dim=(1, 2, 3)) < 1e-6
    mirrored = (x.flip(3) - moved).abs().amax(dim=(1, 2, 3)) < 1e-6
    assert (same | mirrored).all()
    assert mirrored.any()
    assert same[: len(batch)].any()
    with pytest.raises(InputError, match="operation of stage1_augment"):
        replace(TINY, stage1_augment="noise,sharpen").filled()


def test_mild_augmentation_changes_stage_one_only_where_it_is_asked_for(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    data = PairData.build(latents, *parts(latents), latents.groups, ignore=False)
    plain, mild = (
        StageTraining.first(data, replace(TINY, stage1_augment=how, sample_normalisation=1.0).filled())  # pyright: ignore
        for how in ("none", "mild")
    )
    batch = plain.sampler.batches(0, plain.batches, plain.size)[0]
    x, moved = (one._normalised(batch, torch.Generator().manual_seed(1)) for one in (plain, mild))
    rows = np.concatenate([batch.first, batch.second])
    torch.testing.assert_close(x, by_sample(torch.from_numpy(np.array(latents.values[rows]))))
    assert ((x - moved).abs().amax(dim=(1, 2, 3)) > 0).all()
    assert float((x * moved).mean() / x.square().mean()) > 0.8


def test_patience_ends_a_stage(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    options = replace(TINY, stages=1, epochs=30, patience=1, lr=1e-7)
    found = fit_lcmem(latents, *parts(latents), latents.groups, options, tmp_path / "run")["detector"]
    assert len(found.history) - 1 == found.best_epoch + 1 < 31


def test_a_loss_that_is_no_number_ends_the_training(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    with pytest.raises(MemoriskError, match="became"):
        fit_lcmem(latents, *parts(latents), latents.groups, replace(TINY, lr=1e30), tmp_path / "run")
    assert not (tmp_path / "run" / "stage1" / "detector.json").exists()


def test_without_identities_copies_are_recognised(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path, n=36, each=1))
    options = replace(TINY, kind="siamese-ntxent", bce_share=0.0, identities="ignore", stages=1, epochs=4)
    found = fit_lcmem(latents, *parts(latents), latents.groups, options, tmp_path / "run")["detector"]
    assert found.detector.head is None
    aucs = [row["auc"] for row in found.history]
    assert aucs[found.best_epoch] == max(aucs[1:]) > aucs[0]
    assert found.history[1]["recall"] is not None
    data = PairData.build(latents, *parts(latents), latents.groups, ignore=False)
    assert "two augmentations of one image, not a patient" in StageTraining.first(data, TINY.filled()).notes[0]


def test_batches_shrink_and_that_is_said(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    training = StageTraining.first(
        PairData.build(latents, *parts(latents), latents.groups, ignore=False), replace(TINY, batch_size=512).filled()
    )
    assert training.size == 32  # 16 patients
    assert "batches are of 32 pairs and not of 512: 16 identities have a positive pair" in training.notes[-1]


def test_several_data_sets_are_normalised_each_by_itself(tmp_path: Path) -> None:
    store = patients(tmp_path, datasets=2)
    latents = latents_of(store)
    data = PairData.build(latents, *parts(latents), latents.groups, ignore=False)
    set_of, mean, std = data.statistics
    for number in (0, 1):
        own = latents.values[set_of == number]
        assert mean[number, 0] == pytest.approx(own.mean(), rel=1e-6)
        assert std[number, 0] == pytest.approx(own.std(), rel=1e-6)
    fit_lcmem(latents, *parts(latents), latents.groups, replace(TINY, epochs=1, stages=1), tmp_path / "run")


def test_patients_who_share_an_image_are_never_told_apart(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    hashes = latents.hashes.copy()
    hashes[3] = hashes[0]  # an image of patient001 is one of patient000
    data = PairData.build(replace(latents, hashes=hashes), *parts(latents), latents.groups, ignore=False)
    assert len(np.unique(data.identity[:6])) == 1
    hashes[-1] = hashes[0]
    with pytest.raises(InputError, match="in the training and the validation part"):
        PairData.build(replace(latents, hashes=hashes), *parts(latents), latents.groups, ignore=False)


def test_given_latents_have_one_stage(tmp_path: Path) -> None:
    latents = latents_of(patients(tmp_path))
    np.savez(
        tmp_path / "given.npz",
        latents=latents.values,
        image=latents.ids.astype(str),
        group=latents.groups.astype(str),
    )
    given = read_latents(tmp_path / "given.npz")
    with pytest.raises(InputError, match="train with --stages 1"):
        fit_lcmem(given, *parts(given), given.groups, TINY, tmp_path / "run")
    options = replace(TINY, stages=1, epochs=1)
    found = fit_lcmem(given, *parts(given), given.groups, options, tmp_path / "run")["detector"].detector
    assert found.embed_latents(given.values[:3], device="cpu").shape == (3, 16)
    with pytest.raises(InputError, match="given"):
        found.embed(np.zeros((1, 16, 16, 1), np.uint8))


def test_a_weighted_quantile_is_that_of_repeated_values() -> None:
    values, weight = np.array([3.0, 1.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])
    repeated = np.sort(np.repeat(values, weight.astype(int)))
    for share in (0.1, 0.2, 0.5, 0.55, 1.0):
        assert weighted_quantile(values, weight, share) == repeated[int(np.ceil(share * 10)) - 1]


def test_validation_pairs_count_every_identity_alike() -> None:
    identity = np.repeat(["a", "b", "c"], [20, 3, 1])
    found = validation_pairs(np.arange(24), identity, None, seed=0)
    own = identity[found.positive.first]
    assert (own == "a").sum() == 50  # of 190
    assert found.weight[own == "a"].sum() == pytest.approx(found.weight[own == "b"].sum())
    assert (identity[found.negative.first] != identity[found.negative.second]).all()
    assert found.n_identities == 2


def test_over_an_autoencoder_the_folder_is_whole(tmp_path: Path) -> None:
    store = patients(tmp_path)
    folder = autoencoder_folder(tmp_path / "autoencoder")
    encoder = open_latents(f"autoencoder:{folder}", (16, 16, 1), size=32)
    latents = load_latents(store, encoder, device="cpu")
    assert latents.values.shape[1:] == (4, 8, 8)
    options = replace(TINY, epochs=1, stage2_epochs=1)
    fitted = fit_lcmem(latents, *parts(latents), latents.groups, options, tmp_path / "run")
    before = fitted["detector"].detector.embed(store.images, device="cpu")
    shutil.rmtree(folder)
    found = memorisk.load_detector(tmp_path / "run" / "detector")
    np.testing.assert_array_equal(found.embed(store.images, device="cpu"), before)
    assert isinstance(found, LatentDetector)
    np.testing.assert_allclose(found.embed_latents(latents.values, device="cpu"), before, atol=1e-5)
