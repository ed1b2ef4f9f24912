"""`memorisk train autoencoder`: a split by patient, a folder of diffusers, figures, kills, refusals."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from memorisk.cli.show.generators import _with_limits
from memorisk.models.latents import load_encoder, open_latents, save_encoder
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, read_table
from memorisk.runs.workload import no_progress
from memorisk.scores.reconstruction import psnr, ssim
from memorisk.training import run as training_run
from memorisk.training.autoencoders import fit as autoencoder_fit
from memorisk.training.autoencoders.command import train_autoencoder
from memorisk.training.autoencoders.fit import baseline_side, patient_means, resize_and_restore
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.autoencoders.options import AutoencoderOptions, TrainAutoencoderOptions
from tests.commands import answer, environment, refusal
from tests.training.small_detectors import divided_scans

diffusers = pytest.importorskip("diffusers")

QUICK = {
    "block_channels": (4, 4, 8), "epochs": 3, "batch_size": 16, "device": "cpu", "checkpoint_seconds": 0,
}  # fmt: skip
FLAGS = [
    *("--group-column", "patient", "--block-channels", 4, "--block-channels", 4, "--block-channels", 8),
    *("--epochs", 3, "--batch-size", 16, "--device", "cpu", "--checkpoint-seconds", 0),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Images with patients and a given split."""
    return divided_scans(tmp_path)


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_an_autoencoder_with_an_account_of_what_it_renders(table: Path, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    found = train_autoencoder(table, out=tmp_path / "run", group_column="patient", **QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    summary = found.summary
    assert read_json(tmp_path / "run" / "training.json") == summary
    assert all(stat.S_IMODE(f.stat().st_mode) & 0o077 == 0 for f in (tmp_path / "run").rglob("*"))
    manifest = read_table(tmp_path / "run" / "manifest.parquet")
    part = manifest.set_index("image")["split"]
    assert len(set(part[["00.png", "01.png", "02.png", "03.png"]])) == 1  # two patients with one image are one
    assert manifest["split"].value_counts().to_dict() == {n: p["images"] for n, p in summary["parts"].items()}
    assert summary["test"]["psnr"]["autoencoder"]["n_groups"] == summary["parts"]["test"]["patients"]
    errors = [row["error"] for row in summary["history"]]
    assert summary["best_epoch"] == int(np.argmin(errors)) + 1
    assert errors[-1] < errors[0]
    assert summary["baseline"] == "bilinear, 8 x 8"  # as many numbers as 4 x 4 x 4
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()

    network = diffusers.AutoencoderKL.from_pretrained(tmp_path / "run" / "autoencoder").eval().requires_grad_(False)
    rows = np.flatnonzero(manifest["split"] == "test")
    images = np.stack([np.asarray(Image.open(table.parent / name)) for name in manifest["image"].iloc[rows]])
    x = torch.from_numpy(images[:, None]).float() / 255
    with torch.inference_mode():
        mean = network.encode(x * 2 - 1).latent_dist.mode()
        rendered = ((network.decode(mean).sample + 1) / 2).clamp(0, 1).numpy()
    groups = manifest["group"].to_numpy(dtype=str)[rows]
    for measure, of in (("psnr", psnr), ("ssim", ssim)):
        figures = summary["test"][measure]
        ours, other = patient_means(of(rendered, x.numpy()), groups), of(resize_and_restore(x.numpy(), 8), x.numpy())
        assert figures["autoencoder"]["estimate"] == pytest.approx(ours.mean(), abs=1e-4)
        assert figures["bilinear"]["estimate"] == pytest.approx(patient_means(other, groups).mean(), abs=1e-6)
        assert figures["difference"]["estimate"] == pytest.approx(
            figures["autoencoder"]["estimate"] - figures["bilinear"]["estimate"]
        )
        assert figures["autoencoder"]["low"] < figures["autoencoder"]["estimate"] < figures["autoencoder"]["high"]


def test_latents_of_it_have_a_deviation_of_one_and_know_whom_it_saw(table: Path, tmp_path: Path) -> None:
    train_autoencoder(table, out=tmp_path / "run", group_column="patient", **QUICK)
    options = TrainAutoencoderOptions(group_column="patient", **QUICK)
    store, parts = training_run.open_parts(table, options, no_progress)
    encoder = open_latents(f"autoencoder:{tmp_path / 'run'}", (16, 16, 1))
    assert encoder.name == "autoencoder run (4 x 4 x 4)"
    found = load_latents(store, encoder, device="cpu")
    assert found.values[parts.rows["training"]].std() == pytest.approx(1, abs=1e-3)
    save_encoder(encoder, tmp_path / "saved")
    for one in (encoder, load_encoder(tmp_path / "saved")):
        assert one.seen is not None
        assert one.seen.parts(store).part.tolist() == [n if n != "test" else "" for n in parts.names]
    assert open_latents("pixels", (16, 16, 1)).seen is None


class Killed(Exception):
    pass


def test_interrupted_anywhere_it_ends_with_the_same_bytes(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weights(folder: Path) -> dict[str, bytes]:
        return content(folder / "autoencoder") | {"summary": (folder / "training.json").read_bytes()}

    given = {"group_column": "patient", **QUICK}
    train_autoencoder(table, out=tmp_path / "whole", **given)
    whole = weights(tmp_path / "whole")
    for epoch in (2,):

        def progress(stage: str, done: int, total: int, epoch: int = epoch) -> None:
            if stage == "training" and done * QUICK["epochs"] == epoch * total:
                raise Killed

        with pytest.raises(Killed):
            train_autoencoder(table, out=tmp_path / str(epoch), progress=progress, **given)
        assert (tmp_path / str(epoch) / "checkpoint.safetensors").is_file()
        train_autoencoder(table, out=tmp_path / str(epoch), **given)
        assert weights(tmp_path / str(epoch)) == whole

    def fails(*arguments: object, **how: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(training_run, "write_json", fails)  # all but the summary is there
        with pytest.raises(Killed):
            train_autoencoder(table, out=tmp_path / "late", **given)
    train_autoencoder(table, out=tmp_path / "late", **given)
    assert weights(tmp_path / "late") == whole
    with monkeypatch.context() as patch:
        patch.setattr(autoencoder_fit.AutoencoderTraining, "run", fails)
        (tmp_path / "whole" / "checkpoint.safetensors").touch()
        assert train_autoencoder(table, out=tmp_path / "whole", **given).summary["best_epoch"] > 0  # only read
        assert not (tmp_path / "whole" / "checkpoint.safetensors").exists()
    with pytest.raises(InputError, match="lr"):
        train_autoencoder(table, out=tmp_path / "whole", lr=1e-4, **given)


KILL = """
import os, signal, sys
from memorisk.cli.main import main
from memorisk.training.engine.loop import BestEpoch

note = BestEpoch.note

def killed(self, epoch, *given):
    note(self, epoch, *given)
    if epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)

BestEpoch.note = killed
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_killed_by_the_system_it_goes_on_to_the_same_bytes(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "autoencoder", table, *FLAGS]
    given = [sys.executable, "-c", KILL, *map(str, command), "--out", str(tmp_path / "killed")]
    found = subprocess.run(given, env=environment(tmp_path / "cache"), check=False, capture_output=True, text=True)
    assert found.returncode == -signal.SIGKILL, found.stderr
    assert (tmp_path / "killed" / "checkpoint.safetensors").is_file()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name in ("killed", "whole"):
            assert answer(capsys, *command, "--out", tmp_path / name)[0] == 0
    finally:
        torch.set_num_threads(threads)
    assert content(tmp_path / "killed" / "autoencoder") == content(tmp_path / "whole" / "autoencoder")


def test_it_stops_when_the_error_no_longer_falls(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([0.5, 0.4, 0.45, 0.41, 0.3])
    monkeypatch.setattr(autoencoder_fit.AutoencoderTraining, "error", lambda self, rows: next(errors))
    given = QUICK | {"epochs": 9, "patience": 2}
    summary = train_autoencoder(table, out=tmp_path / "run", group_column="patient", **given).summary
    assert (summary["best_epoch"], summary["stopped_early"], len(summary["history"])) == (2, True, 4)


def test_the_command_shows_what_it_did(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("train", "autoencoder", table, *FLAGS, "--splits", "given", "--split-column", "part")
    code, out, err = answer(capsys, *command, "--out", tmp_path / "run", "--dry-run")
    print(err)
    assert (code, (tmp_path / "run").exists()) == (0, False)
    assert "training: 30 images of 14 patients" in out
    assert "latents of 4 x 4 x 4" in out
    code, out, _ = answer(capsys, *command, "--out", tmp_path / "run")
    assert code == 0
    assert "test PSNR" in out
    assert "…" not in out  # whole in 80 columns
    assert "bilinear, 8 x 8" in out
    code, out, _ = answer(capsys, *command, "--out", tmp_path / "run", "--json")
    assert (code, read_json(tmp_path / "run" / "training.json")) == (0, json.loads(out))
    code, out, _ = answer(capsys, *command, "--out", tmp_path / "run", "--print-config")
    assert (code, "block_channels:" in out) == (0, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--block-channels", 8, "--block-channels", 16], "needed are 3 whole numbers"),
        (["--size", 18], "a multiple of 4 and at least 8 pixels a side"),
        (["--size", 4], "a multiple of 4 and at least 8 pixels a side"),
        (["--patience", 0], "patience is 0"),
        (["--lr", 0], "lr is 0"),
        (["--kl-weight", -1], "kl_weight is -1"),
        (["--latent-channels", 0], "latent_channels is 0"),
        (["--test-share", 0.9], "leave images to train on"),
        (["--splits", "given"], "gives no split"),
    ],
)
def test_bad_settings_are_one_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list, message: str
) -> None:
    said = refusal(
        capsys, "train", "autoencoder", table, "--group-column", "patient", "--out", tmp_path / "run", *flags
    )
    assert message in said
    assert not (tmp_path / "run").exists()


def test_widths_decide_the_groups_and_the_blocks() -> None:
    made: Callable[..., dict] = lambda **given: AutoencoderOptions(**given).architecture(64, 3)  # noqa: E731
    assert made()["block_out_channels"] == [8, 16, 32]
    assert made(downsampling=8)["block_out_channels"] == [8, 16, 32, 32]
    for widths in ((4, 4, 8), (6, 9, 12), (1, 1, 1), (64, 128, 256), (7, 5, 3), (5, 5, 5), (80, 80, 160)):
        groups = made(block_channels=widths)["norm_num_groups"]
        assert all(width % groups == 0 for width in widths)


def test_the_baseline_keeps_as_many_numbers() -> None:
    assert baseline_side(4 * 16 * 16, 1, 64) == 32
    assert baseline_side(4 * 16 * 16, 3, 64) == 18
    assert baseline_side(4 * 64 * 64, 1, 64) == 64
    flat = np.full((1, 1, 8, 8), 0.25, np.float32)
    np.testing.assert_allclose(resize_and_restore(flat, 3), flat)
    np.testing.assert_array_equal(patient_means(np.array([1.0, 3.0, 5.0]), np.array(["b", "b", "a"])), [5.0, 2.0])


def test_too_few_patients_are_told_in_place_of_limits() -> None:
    interval = {"estimate": 30.123, "low": 29.5, "high": 31.0}
    assert _with_limits(interval, 2) == "30.12 (29.50 to 31.00)"
    assert _with_limits({"estimate": -0.0451, "low": -0.05, "high": -0.04}, 3) == "-0.045 (-0.050 to -0.040)"
    for nothing in (None, float("nan")):
        assert _with_limits(interval | {"low": nothing}, 2) == "30.12 (too few patients)"
