"""Twins of a generator made by the user's own training function."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits

from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.generator.options import options_from
from memorisk.audits.generator.run import audit_generator
from memorisk.cli.main import main
from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.noise_losses import noise_losses
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import file_fingerprint
from memorisk.runs.user_code.functions import load_named

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "own_generator.py"

MODULE = '''
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn


def schedule(last=0.02):
    beta = torch.linspace(1e-4, last, 1000, dtype=torch.float64)
    return SimpleNamespace(alphas_cumprod=torch.cumprod(1 - beta, 0), config=SimpleNamespace(prediction_type="epsilon"))


class Nearest(nn.Module):
    """Predicts the noise by the softly nearest training image: remembers all of them, without any training."""

    def __init__(self, images):
        super().__init__()
        self.register_buffer("x", torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1)
        self.register_buffer("alpha_bar", schedule().alphas_cumprod.float())

    def forward(self, x_t, t):
        a = self.alpha_bar[t].view(-1, 1, 1, 1)
        own, y = self.x.flatten(1), x_t.flatten(1)
        far = (y[:, None] - a.sqrt().flatten(1)[:, None] * own).square().sum(2) / (2 * (1 - a.flatten(1)))
        image = (torch.softmax(-far, 1) @ own).view_as(x_t)
        return 0.5 * (x_t - a.sqrt() * image) / (1 - a).sqrt()


class Loss:
    """The same network as an object with a loss, at the levels that it is asked for."""

    def __init__(self, network):
        self.network, self.asked = network, []

    def loss(self, images, noise, level):
        time = int((self.network.alpha_bar - level).abs().argmin())
        a = self.network.alpha_bar[time]
        x_t = a.sqrt() * images + (1 - a).sqrt() * noise
        predicted = self.network(x_t, torch.full((len(images),), time))
        return (predicted - noise).square().flatten(1).mean(1)


def train(images, *, seed, device, keep="", power="1"):
    if keep:
        np.savez(f"{keep}/{seed}-{len(list(Path(keep).iterdir()))}.npz", images=images, first=torch.rand(1).item())
    assert images.dtype == np.uint8 and images.flags.writeable and type(images) is np.ndarray
    return Nearest(images), schedule()


def train_dataset(dataset, *, seed, device, **settings):
    x = torch.stack([dataset[i] for i in range(len(dataset))])
    assert x.dtype == torch.uint8 and x.shape[1:] == (1, 8, 8)
    return train(x.permute(0, 2, 3, 1).numpy().copy(), seed=seed, device=device)


def train_loss(images, *, seed, device):
    return Loss(Nearest(images))


def resumes(images, *, seed, device, checkpoint_folder, stop=""):
    state = checkpoint_folder / "state"
    done = state.read_text() if state.exists() else ""
    state.write_text(done + "x")
    if stop and not done:
        raise KeyboardInterrupt
    if stop:
        (Path(stop) / checkpoint_folder.name).write_text(done)
    return Nearest(images), schedule()


def breaks(images, **rest):
    raise ZeroDivisionError("nothing to\\nshare")


def returns_a_network(images, **rest):
    return Nearest(images)


def returns_no_scheduler(images, **rest):
    return Nearest(images), 7


def misshaped(images, **rest):
    return (lambda x_t, t: x_t[..., :3]), schedule()


def one_number(images, **rest):
    class Mean(Loss):
        def loss(self, images, noise, level):
            return super().loss(images, noise, level).mean()
    return Mean(Nearest(images))


def draws_noise(images, **rest):
    class Own(Loss):
        def loss(self, images, noise, level):
            return super().loss(images, torch.randn_like(noise), level)
    return Own(Nearest(images))


def looks_at_the_batch(images, **rest):
    class Batch(Loss):
        def loss(self, images, noise, level):
            losses = super().loss(images, noise, level)
            return losses / losses.sum()
    return Batch(Nearest(images))


def diverged(images, **rest):
    return (lambda x_t, t: x_t * torch.nan), schedule()


def short_schedule(images, **rest):
    few = schedule()
    few.alphas_cumprod = few.alphas_cumprod[::500]
    return Nearest(images), few


def schedule_of_the_images(images, **rest):
    return Nearest(images), schedule(0.02 + 1e-5 * float(images.mean()))


def takes_too_little(images, *, seed):
    return None
'''
SMALL = {"sample": 240, "levels": 4, "draws": 1, "models": 6, "processes": 1}
TINY = {**SMALL, "python_path": "."}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of one's own in the current folder, which a test has to name."""
    name = f"my_generator_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def command(*arguments: str) -> int:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    return main(["audit", "generator", "digits", "--out", "run", *flags, *arguments])


def test_each_twin_gets_its_half_and_both_begin_alike(mine: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    settings = {"keep": str(kept)}
    result = audit_generator("digits", out="run", train=f"{mine}:train", train_settings=settings, **TINY)
    assert isinstance(result, Result)
    in_turn = sorted(kept.iterdir(), key=lambda file: int(file.stem.partition("-")[2]))
    *files, control = [np.load(file) for file in in_turn]
    assert len(files) == 6
    assert (control["images"] == 255 - files[0]["images"]).all()
    scores = pd.read_parquet("run/scores.parquet").astype({"role": str, "split": str})
    assert scores["split"].eq("test").any()
    for seed, pair in zip(sorted(set(scores["seed"])), (files[:2], files[2:4], files[4:]), strict=True):
        shown = [len(one["images"]) for one in pair]
        own = scores[scores["seed"] == seed]
        assert shown == [own.loc[own["role"] == role, "member"].sum() for role in "AB"]
        assert pair[0]["first"] == pair[1]["first"]  # draws of a function that seeds nothing
    assert files[0]["first"] != files[2]["first"]
    seen = scores[scores["split"] == "canary"].groupby("member")["loss"].mean()
    assert seen[True] < seen[False] - 1  # in standard deviations of unseen gaps: this training remembers
    assert result.summary["training"] == {
        "function": f"{mine}:train", "settings": settings, "levels": 4, "draws": 1,
        "file_hash": file_fingerprint(tmp_path / f"{mine}.py"),
        "level_weights": result.summary["training"]["level_weights"],
    }  # fmt: skip
    assert result.summary["model"] == f"{mine}:train"
    assert "own training function" in " ".join(result.summary["notes"])
    assert len(list(Path("run/weights").glob("*.safetensors"))) == 6


def test_losses_are_errors_of_the_kept_network_at_levels_of_its_schedule(mine: str) -> None:
    audit_generator("digits", out="run", train=f"{mine}:train", **{**TINY, "models": 2})
    own = load_named(f"{mine}:Nearest", "--train", ".")
    manifest = pd.read_parquet("run/manifest.parquet")
    x = torch.from_numpy(load_digits().images.astype(np.float32))[:, None]
    for file in Path("run/weights").glob("*.safetensors"):
        state = load_file(file)
        network = own(np.zeros((len(state["x"]), 8, 8, 1), dtype=np.uint8))
        network.load_state_dict(state)
        denoiser = Denoiser(network, state["alpha_bar"].double())
        times = levels(denoiser, 4)
        shares, losses = (np.load(f"run/losses/{file.stem}{end}.npy") for end in ("-levels", ""))
        assert np.allclose(shares, denoiser.alpha_bar.numpy()[times])
        rows = [int(image.partition("-")[2]) for image in manifest["image"][:3]]
        pixels = (x[rows] * 255 / 16).round() / 127.5 - 1
        expected = noise_losses(denoiser, pixels, manifest["image"][:3].tolist(), times, 1)
        assert np.allclose(losses[:, :3], expected, rtol=1e-3)


def test_an_object_with_a_loss_and_a_dataset_score_as_the_network_does(mine: str, tmp_path: Path) -> None:
    runs = {}
    for name in ("train", "train_dataset", "train_loss"):
        audit_generator("digits", out=name, train=f"{mine}:{name}", **{**TINY, "models": 2})
        files = sorted(file for file in Path(name, "losses").glob("*.npy") if "levels" not in file.name)
        runs[name] = sorted(np.load(file).tobytes() for file in files)
    assert runs["train"] == runs["train_dataset"]
    shares = np.load(next(Path("train_loss/losses").glob("*-levels.npy")))
    log_snr = np.log(shares) - np.log1p(-shares)
    assert np.allclose(np.diff(log_snr), np.diff(log_snr)[0], atol=0.02)  # even over the whole usable range
    assert np.allclose(log_snr[[0, -1]], [2 * np.log(255), np.log(0.01 / 0.99)], atol=1e-6)
    own = sys.modules[mine]
    generator = torch.Generator().manual_seed(0)
    network = own.Nearest(np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1)).astype(np.uint8))
    x, level = torch.randn(3, 1, 8, 8, generator=generator), float(own.schedule().alphas_cumprod[300])
    e = torch.randn(3, 1, 8, 8, generator=generator)
    of_network = Denoiser(network, own.schedule().alphas_cumprod).noise_error(x, e, 300)
    assert torch.allclose(own.Loss(network).loss(x, e, level), of_network, rtol=1e-4)
    assert noise_losses(Denoiser(network, own.schedule().alphas_cumprod), x, list("abc"), [300], 1).shape == (1, 3)


@pytest.mark.thorough
def test_a_changed_text_trains_again_in_the_same_folder_and_the_same_one_does_not(mine: str, tmp_path: Path) -> None:
    settings = {"out": "run", "train": f"{mine}:train", **TINY, "models": 2}
    audit_generator("digits", **settings)
    first = {file.name: file.stat().st_mtime_ns for file in Path("run/losses").glob("*.npy")}
    audit_generator("digits", **settings)
    assert {file.name: file.stat().st_mtime_ns for file in Path("run/losses").glob("*.npy")} == first
    (tmp_path / f"{mine}.py").write_text(MODULE.replace("return 0.5 *", "return 0.4 *"))
    audit_generator("digits", **settings)
    assert len(list(Path("run/losses").glob("*.npy"))) == 2 * len(first)


@pytest.mark.thorough
def test_a_killed_training_finds_its_checkpoint_folder_which_goes_when_it_is_done(mine: str, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    settings = {"train": f"{mine}:resumes", "train_settings": {"stop": str(seen)}, **TINY, "models": 2}
    for killed in (True, True, True, False):  # in each twin, and in the control
        if killed:
            with pytest.raises(KeyboardInterrupt):
                audit_generator("digits", out="run", **settings)
        else:
            audit_generator("digits", out="run", **settings)
    assert [file.read_text() for file in seen.iterdir()] == ["x", "x", "x"]
    assert not list(Path("run/checkpoints").iterdir())


def test_a_dry_run_runs_nothing_of_the_module(mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    module = Path(f"{mine}.py")
    module.write_text(f"open({str(ran)!r}, 'w').close()\n{module.read_text()}")
    plan = audit_generator("digits", out="run", train=f"{mine}:train", dry_run=True, **TINY)
    assert isinstance(plan, DryRun)
    assert (plan.cost.trainings, plan.cost.steps, plan.seconds) == (7, None, None)
    assert "an estimate appears once the first training is done" in repr(plan)
    assert command("--train", f"{mine}:train", "--dry-run") == 0
    assert f"{mine}:train" in capsys.readouterr().out
    assert not ran.exists()
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "setting", ["kind=dit", "steps=9", "batch_size=8", "lr=0.1", "ema=0.5", "flip=1", "network=S/2", "latent=x"]
)
def test_settings_of_the_built_in_training_are_refused_with_ones_own(setting: str) -> None:
    name, _, text = setting.partition("=")
    value = {"steps": int, "batch_size": int, "lr": float, "ema": float, "flip": bool}.get(name, str)(text)
    given = {"train": "mine:train", name: value}
    with pytest.raises(InputError, match=rf"^{name} is of the built-in training, .* \(--train-settings.{name} V"):
        options_from(given)
    if name == "kind":  # with a target it is the target's
        assert options_from(given | {"target": "folder"}).kind == "dit"
    with pytest.raises(InputError, match="name it with --train"):
        options_from({"train_settings": {"a": "b"}})


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        ("no_such_module:train", (), "module no_such_module is missing"),
        ("{mine}:trian", (), "Did you mean 'train'"),
        ("{mine}", (), "not of the form module:function"),
        ("{mine}:train", ("--train-settings.rl", "3"), "unknown setting of"),
        ("{mine}:train", ("--train-settings.seed", "3"), "memorisk gives images, seed, device itself"),
        ("{mine}:takes_too_little", (), "cannot be called with (images, *, seed, device) and your settings"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_in_one_line(
    mine: str, capsys: pytest.CaptureFixture[str], function: str, settings: tuple[str, ...], message: str
) -> None:
    assert command("--train", function.format(mine=mine), *settings) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("breaks", "failed with ZeroDivisionError: nothing to\\nshare ({mine}.py, line {line}); 6 other jobs were not"),
        ("returns_a_network", "gives Nearest: (network, scheduler), or an object with loss(images, noise, level), is"),
        ("returns_no_scheduler", "gives a int as scheduler, which has no alphas_cumprod"),
        ("misshaped", "the network answers [8, 1, 8, 3] to images of [8, 1, 8, 8]: it must keep their shape"),
        ("one_number", "loss returned [] for 2 images: return a tensor, one number per image"),
        ("draws_noise", "the loss of an image changes from one call to the next: let it use the noise"),
        ("looks_at_the_batch", "the loss of an image changes from one call to the next"),
        ("diverged", "the loss of a training image is nan at level 1: the training diverged"),
        ("short_schedule", "4 levels are requested of a schedule with 2 usable"),
        ("schedule_of_the_images", "the twins have different noise schedules"),
    ],
)
def test_what_fails_in_the_users_code_is_one_line_after_one_training(
    mine: str, capsys: pytest.CaptureFixture[str], function: str, message: str
) -> None:
    assert command("--train", f"{mine}:{function}") == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    line = next(i for i, text in enumerate(MODULE.splitlines(), 1) if "raise ZeroDivisionError" in text)
    assert message.format(mine=mine, line=line) in error
    if function != "schedule_of_the_images":
        assert "the first job failed" in error
        assert not list(Path("run/losses").glob("*.npy"))


def test_pseudonyms_and_redaction_leave_no_id(mine: str, tmp_path: Path) -> None:
    audit_generator("digits", out="run", train=f"{mine}:train", pseudonymise=True, redact=True, **TINY)
    for path in Path("run").rglob("*"):
        if path.is_file():
            assert b"digit-" not in path.read_bytes(), path
            assert str(tmp_path).encode() not in path.read_bytes(), path


@pytest.mark.thorough
def test_two_processes_leave_what_one_leaves(mine: str) -> None:
    for out, processes in (("one", 1), ("two", 2)):
        audit_generator("digits", out=out, train=f"{mine}:train", **{**TINY, "processes": processes})
    for name in ("scores.parquet", "verdict.json", "per_image.parquet"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_the_recipe_of_the_docs_runs(tmp_path: Path) -> None:
    settings = {"steps": "40", "batch_size": "16"}
    result = audit_generator(
        "digits", out=tmp_path / "run", train="own_generator:train", train_settings=settings,
        **{**SMALL, "sample": 120, "models": 2, "levels": 2}, python_path=RECIPE.parent,
    )  # fmt: skip
    assert isinstance(result, Result)
    page = Path(RECIPE.parents[1], "docs", "generator-audit.md").read_text()
    assert RECIPE.read_text().partition("\n\n\n")[2].strip() in page
