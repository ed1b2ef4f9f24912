"""Twins made by the user's own training function."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.options import options_from
from memorisk.audits.classifier.reasons import NothingLearned
from memorisk.audits.classifier.run import audit_classifier
from memorisk.cli.main import main
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.runs.files import file_fingerprint
from memorisk.runs.user_code.functions import load_named
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, NOISE_ERROR
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.training.classifiers.jobs import LOGITS
from tests.commands import plain_images

RECIPES = Path(__file__).resolve().parents[3] / "recipes"

MODULE = '''
import numpy as np
import torch
from torch import nn


def ridge(x, y, k):
    """The linear map that fits one-hot labels best: quick, and without any draw."""
    flat = torch.cat([x.flatten(1), torch.ones(len(x), 1)], 1)
    wanted = flat.T @ nn.functional.one_hot(y, k).float()
    weights = torch.linalg.solve(flat.T @ flat + 0.1 * torch.eye(flat.shape[1]), wanted)
    layer = nn.Linear(flat.shape[1] - 1, k)
    with torch.no_grad():
        layer.weight.copy_(5 * weights[:-1].T)
        layer.bias.copy_(5 * weights[-1])
    return nn.Sequential(nn.Flatten(), layer)


def train(images, labels, *, val_images, val_labels, seed, device, num_classes, keep="", lr="1"):
    if keep:
        np.savez(f"{keep}/{seed}-{len(list(__import__('os').listdir(keep)))}.npz", images=images, labels=labels,
                 val_images=val_images, val_labels=val_labels, lr=lr)
    assert images.flags.writeable and type(images) is np.ndarray
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    return ridge(x, torch.from_numpy(labels), num_classes)


def train_dataset(dataset, *, val_dataset, seed, device, **settings):
    x, y = zip(*dataset)
    assert x[0].dtype == torch.uint8 and x[0].shape[0] == 1 and len(val_dataset) > 0
    return ridge(torch.stack(x).float() / 255, torch.tensor(np.array(y)), 10)


def breaks(images, labels, **rest):
    raise ZeroDivisionError("nothing to\\nshare")


def leaves(images, labels, **rest):
    raise SystemExit(5)


def returns_a_dict(images, labels, **rest):
    return {}


def gives_too_few(images, labels, **rest):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(3))


def takes_too_little(images, labels, *, seed):
    return None


class Misfit(nn.Module):
    def forward(self, x):
        return x @ x[0, 0, 0, :3]


def misfits(images, labels, **rest):
    return Misfit()


def breaks_soon(images, labels, *, begun, good="0", num_classes, **rest):
    from pathlib import Path
    from uuid import uuid4
    done = len(list(Path(begun).iterdir()))
    (Path(begun) / str(uuid4())).touch()
    if done < int(good):
        return train(images, labels, num_classes=num_classes, **rest)
    raise ValueError("my bug")
'''
FAILING = {"breaks": "raise ZeroDivisionError", "leaves": "raise SystemExit", "misfits": "x @ x[0"}
"""Lines on which functions fail."""
TINY = {"models": 2, "processes": 1, "python_path": "."}


@pytest.fixture
def mine(tmp_path, monkeypatch) -> str:
    """A module of one's own in the current folder, which a test has to name."""
    name = f"my_recipe_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_the_function_is_given_its_twins_half_and_a_validation_part_that_nobody_else_has(mine, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    found = audit_classifier(
        "digits", out="run", train=f"{mine}:train", train_settings={"keep": str(kept), "lr": "3e-4"}, **TINY
    )
    assert isinstance(found, Result)
    *given, control = [np.load(f) for f in sorted(kept.iterdir())]
    assert len(given) == 2
    assert (control["images"] == given[0]["images"]).all()
    assert (control["labels"] == (given[0]["labels"] + 1) % 10).all()
    assert (control["val_labels"] == given[0]["val_labels"]).all()
    assert all(str(g["lr"]) == "3e-4" for g in given)
    rows = [{i.tobytes() for i in g["images"]} for g in given]
    validation = [{i.tobytes() for i in g["val_images"]} for g in given]
    assert validation[0] == validation[1]
    assert not validation[0] & (rows[0] | rows[1])
    assert found.summary["n_validation"] == len(given[0]["val_images"]) > 0
    scores = pd.read_parquet(tmp_path / "run" / "scores.parquet").astype({"role": str, "split": str})
    for g, role in zip(given, "AB", strict=True):
        assert len(g["images"]) == scores.loc[scores["role"] == role, "member"].sum()
    manifest = pd.read_parquet(tmp_path / "run" / "manifest.parquet")
    val = set(manifest.loc[manifest["part"] == "val", "image"])
    assert len(val) == found.summary["n_validation"]
    assert not val & set(scores["image"].astype(str))
    assert abs(len(val) / (len(val) + found.summary["n_canary"]) - 0.1) < 0.02
    assert "partners cannot share batch slots" in " ".join(found.summary["notes"])
    assert found.summary["model"] == f"{mine}:train"
    assert found.summary["training"] == {
        "function": f"{mine}:train",
        "settings": {"keep": str(kept), "lr": "3e-4"},
        "file_hash": file_fingerprint(tmp_path / f"{mine}.py"),
    }


@pytest.mark.thorough
def test_a_function_that_takes_datasets_makes_the_same_twins(mine):
    arrays = audit_classifier("digits", out="a", train=f"{mine}:train", **TINY)
    datasets = audit_classifier("digits", out="d", train=f"{mine}:train_dataset", **TINY)
    assert isinstance(arrays, Result)
    assert isinstance(datasets, Result)
    pd.testing.assert_frame_equal(arrays.per_image, datasets.per_image)


def test_a_changed_text_trains_again_and_the_same_one_does_not(mine, tmp_path):
    settings = {"out": "run", "train": f"{mine}:train", **TINY}
    audit_classifier("digits", **settings)
    first = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run" / LOGITS).glob("*.npy")}
    audit_classifier("digits", **settings)
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "run" / LOGITS).glob("*.npy")} == first
    (tmp_path / f"{mine}.py").write_text(MODULE.replace("5 * weights", "7 * weights"))
    audit_classifier("digits", **settings)
    after = [p for p in (tmp_path / "run" / LOGITS).glob("*.npy") if p.name not in first]
    assert len(after) == 3
    before = [np.load(tmp_path / "run" / LOGITS / name) for name in first]
    ratios = {round(float(np.median(abs(np.load(p) / q)).item()), 3) for p in after for q in before}
    assert 1.4 in ratios  # 7 / 5: the changed text made them


@pytest.mark.thorough
def test_the_placebo_has_a_validation_part_too(mine, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    settings = {"train": f"{mine}:train", "train_settings": {"keep": str(kept)}, "placebo": 1, **TINY}
    audit_classifier("digits", out="run", **settings)
    assert len(list(kept.iterdir())) == 5
    assert all(len(np.load(f)["val_images"]) for f in kept.iterdir())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("epochs", 1),
        ("batch_size", 8),
        ("lr", 0.1),
        ("optimizer", "sgd"),
        ("schedule", "step"),
        ("weight_decay", 0.1),
        ("class_weights", True),
        ("augment", "hflip"),
        ("normalise", "none"),
        ("precision", "bf16"),
        ("model", "resnet18"),
        ("weights", "none"),
    ],
)
def test_settings_of_the_built_in_training_are_refused_beside_ones_own(setting, value):
    given = {"train": "mine:train", setting: value}
    with pytest.raises(InputError, match=rf"^{setting} is of the built-in training, .* \(--train-settings.{setting} V"):
        options_from(given)
    if setting in ("model", "normalise"):  # which the target's network has
        kept = getattr(options_from(given | {"target": "released.safetensors"}), setting)
        assert kept == ((value,) if setting == "model" else value)
    assert options_from({"train": "mine:train", "head": "binary", "device": "cpu", "threads": 2}).head == "binary"


def command(*arguments: str) -> int:
    given = ["--models", "2", "--processes", "1", "--out", "run", "--python-path", ".", *arguments]
    return main(["audit", "classifier", "digits", *given])


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        ("no_such_module:train", (), "module no_such_module is missing"),
        ("{mine}:trian", (), "Did you mean 'train'"),
        ("{mine}", (), "not of the form module:function"),
        (":train", (), "not of the form module:function"),
        ("{mine}:train", ("--train-settings.rl", "3"), "unknown setting of"),
        ("{mine}:train", ("--train-settings.seed", "3"), "memorisk gives"),
        (
            "{mine}:takes_too_little",
            (),
            "cannot be called with (images, labels, *, val_images, val_labels, seed, device)",
        ),
    ],
)
def test_a_function_that_does_not_fit_is_refused_in_one_line(mine, tmp_path, capsys, function, settings, message):
    assert command("--train", function.format(mine=mine), *settings) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "run").exists()


def test_a_module_that_fails_to_import_is_told_by_its_own_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "broken_recipe.py").write_text("raise RuntimeError('no licence')")
    assert command("--train", "broken_recipe:train") == 2
    assert "RuntimeError: no licence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("breaks", "failed with ZeroDivisionError: nothing to\\nshare ({mine}.py, line {line}); 2 other jobs were not"),
        ("leaves", "failed with SystemExit: 5 ({mine}.py, line {line})"),
        ("misfits", "({mine}.py, line {line}); 2 other jobs were not finished"),
        ("returns_a_dict", "returned dict; it must return a torch.nn.Module"),
        ("gives_too_few", "gives logits of shape"),
    ],
)
def test_what_fails_in_the_users_code_is_told_in_one_line_and_exits_with_3(mine, capsys, function, message):
    assert command("--train", f"{mine}:{function}") == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    lines = MODULE.splitlines()
    at = {name: i for i, line in enumerate(lines, 1) for name, text in FAILING.items() if text in line}
    assert message.format(mine=mine, line=at.get(function)) in error


@pytest.mark.parametrize("processes", [1, 2])
def test_what_fails_at_first_is_not_tried_again_with_every_seed(mine, tmp_path, processes):
    """Two at a time may both have begun when the first fails."""
    begun = tmp_path / "begun"
    begun.mkdir()
    settings = {**TINY, "models": 8, "processes": processes, "train_settings": {"begun": str(begun)}}
    with pytest.raises(MemoriskError, match=r"^the first job failed: .*; 8 other jobs were not finished$"):
        audit_classifier("digits", out="run", train=f"{mine}:breaks_soon", **settings)
    assert 1 <= len(list(begun.iterdir())) <= 2 * processes


def test_what_fails_after_a_success_leaves_the_others_alone(mine, tmp_path):
    begun = tmp_path / "begun"
    begun.mkdir()
    settings = {**TINY, "models": 4, "train_settings": {"begun": str(begun), "good": "1"}}
    with pytest.raises(MemoriskError, match=r"^4 of 5 jobs failed, the first with: "):
        audit_classifier("digits", out="run", train=f"{mine}:breaks_soon", **settings)
    assert len(list(begun.iterdir())) == 5


@pytest.mark.thorough
def test_the_recipe_of_the_docs_runs_from_its_folder_in_two_processes(tmp_path):
    """As the installed command does: without the current folder on Python's own path."""
    out = tmp_path / "run"
    code = "import sys; from memorisk.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = [
        "audit",
        "classifier",
        "digits",
        "--train",
        "own_training:train",
        "--python-path",
        ".",
        "--train-settings.epochs",
        "2",
    ]
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments, "--models", "2", "--processes", "2", "--out", str(out)],
        cwd=RECIPES,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    result = Result.load(out)
    assert result.summary["utility"]["test_accuracy"] > 3 * result.summary["utility"]["majority_share"]
    assert len(list((out / "weights").glob("*.safetensors"))) == 2


def test_a_plan_says_when_the_duration_will_be_known(mine, capsys):
    later = "an estimate appears once the first training is done"
    planned = audit_classifier("digits", out="run", train=f"{mine}:train", dry_run=True, **TINY)
    assert f"3 trainings, {later}" in repr(planned)
    assert command("--train", f"{mine}:train", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert later in printed


@pytest.mark.parametrize(
    ("own", "scale", "options"),
    [
        (True, CROSS_ENTROPY, "--train-settings; its models are scored on images in [0, 1]"),
        (True, NOISE_ERROR, "--train-settings; its models are scored on images in [-1, 1]"),
        (False, CROSS_ENTROPY, "--epochs, --lr, --model, --weights"),
    ],
)
def test_the_cure_of_models_that_learned_nothing_names_settings_of_their_training(own, scale, options):
    units = UnitNames(scale=scale.name)
    reason = NothingLearned(utility="0.3", trained_here=True, own_function=own, units=units)
    assert reason.remedy == f"the training that the released model really had ({options})"


READING = (
    "explain run --features before --out 1", "explain run --features features.npy --out 2",
    "explain run --probes --out 3", "report run --redact", "compare run run", "statement run --out stated",
    "release run weights.safetensors", "gate run --weights mine.py", "view run --port 65536",
    "--config run/config.yaml audit classifier --dry-run",
)  # fmt: skip
"""Commands that read a finished run, and name no function."""


def test_a_run_of_somebody_else_runs_no_code(mine, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    audit_classifier(plain_images(tmp_path / "set"), out="run", train=f"{mine}:train", **TINY)
    n_images = len(pd.read_parquet("run/manifest.parquet"))
    np.save("features.npy", np.random.default_rng(0).normal(size=(n_images, 4)))
    module, ran = Path(f"{mine}.py"), tmp_path / "ran"
    module.write_text(f"open({str(ran)!r}, 'w').close()\n{module.read_text()}")
    monkeypatch.delitem(sys.modules, mine)
    refusals = {}
    for words in READING:
        capsys.readouterr()
        main(words.split())
        refusals[words] = capsys.readouterr().err
        assert not ran.exists(), words
    for words in READING[:3:2]:  # look at networks, which only the function makes
        assert refusals[words].count("\n") == 1
        assert f"by the function {mine}:train" in refusals[words]
        assert "use features of a named network or of a file" in refusals[words]
    assert Path("2/explain.json").is_file()
    load_named(f"{mine}:train", "--train", ".")
    assert ran.exists()
