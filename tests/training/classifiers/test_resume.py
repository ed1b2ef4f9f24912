"""A training that was killed and goes on ends with the same bytes as one that was not."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.models.classifiers.zoo import seeded
from memorisk.runs.errors import InputError
from memorisk.training.classifiers.fit import FitLog, fit
from memorisk.training.engine.options import TrainOptions
from tests.thorough import thorough
from tests.training.helpers import Digits, NoisyNet, weights_of

ROWS = np.random.default_rng(0).permutation(1797)[:150]
EPOCHS = 5


class Killed(Exception):
    pass


def train(digits: Digits, checkpoint: Path | None, *, kill_after: int = 0, **changed: object) -> tuple[bytes, FitLog]:
    with seeded(0):
        model = NoisyNet()

    def on_epoch(epoch: int, loss: float) -> None:
        if epoch == kill_after:
            raise Killed

    options = TrainOptions(**{"epochs": EPOCHS, "lr": 1e-2, **changed})
    log = fit(
        model, digits.images, digits.labels, ROWS, options,
        seed=1, checkpoint=checkpoint, checkpoint_seconds=0, on_epoch=on_epoch,
    )  # fmt: skip
    return weights_of(model), log


@pytest.mark.parametrize("optimizer", ["adam", thorough("adamw"), thorough("sgd"), thorough("nesterov")])
def test_stopped_at_any_epoch_ends_the_same(digits: Digits, tmp_path: Path, optimizer: str) -> None:
    undisturbed, log = train(digits, None, optimizer=optimizer)
    for epoch in range(1, EPOCHS + 1):
        file = tmp_path / f"{epoch}.safetensors"
        with pytest.raises(Killed):
            train(digits, file, kill_after=epoch, optimizer=optimizer)
        resumed, after = train(digits, file, optimizer=optimizer)
        assert resumed == undisturbed
        assert after.losses == log.losses
        assert after.resumed_from == epoch
    assert log.resumed_from == 0


def test_stopped_twice_ends_the_same(digits: Digits, tmp_path: Path) -> None:
    undisturbed, _ = train(digits, None)
    for epoch in (1, 4):
        with pytest.raises(Killed):
            train(digits, tmp_path / "c.safetensors", kill_after=epoch)
    assert train(digits, tmp_path / "c.safetensors")[0] == undisturbed


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
from sklearn.datasets import load_digits
from memorisk.models.classifiers.zoo import seeded
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.options import TrainOptions
from tests.training.helpers import NoisyNet

data = load_digits()
images = np.round(data.images * (255 / 16)).astype(np.uint8)[..., None]
with seeded(0):
    model = NoisyNet()
steps = 0

def count(module, x):
    global steps
    steps += module.training
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

model.conv.register_forward_pre_hook(count)
rows = np.random.default_rng(0).permutation(1797)[:150]
fit(model, images, data.target, rows, TrainOptions(epochs=5, lr=1e-2), seed=1,
    checkpoint=Path(sys.argv[1]), checkpoint_seconds=0)
"""


@pytest.mark.parametrize("step", [2, thorough(11)])
def test_kill_9_in_the_middle_of_an_epoch(digits: Digits, tmp_path: Path, step: int) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        file = tmp_path / "c.safetensors"
        root = Path(__file__).resolve().parents[3]
        done = subprocess.run([sys.executable, "-c", KILLED, str(file), str(step)], cwd=root, check=False)
        assert done.returncode == -signal.SIGKILL
        assert file.exists() == (step > 3)
        resumed, log = train(digits, file)
        assert log.resumed_from == (step - 1) // 3
        assert resumed == train(digits, None)[0]
        assert sorted(p.name for p in tmp_path.iterdir()) == ["c.safetensors", "c.safetensors.checksum"]
    finally:
        torch.set_num_threads(threads)


def test_a_checkpoint_of_another_training_is_refused(digits: Digits, tmp_path: Path) -> None:
    file = tmp_path / "c.safetensors"
    train(digits, file)
    for changed in ({"lr": 2e-2}, {"epochs": 6}, {"class_weights": True}):
        with pytest.raises(InputError, match="belongs to another training"):
            train(digits, file, **changed)
    other = Digits(digits.images, (digits.labels + 1) % 10, digits.features)
    with pytest.raises(InputError, match="belongs to another training"):
        train(other, file)


def test_a_damaged_checkpoint_is_trained_anew(digits: Digits, tmp_path: Path) -> None:
    file = tmp_path / "c.safetensors"
    train(digits, file)
    file.write_bytes(file.read_bytes()[:-10])
    assert train(digits, file)[0] == train(digits, None)[0]


def test_checkpoints_are_as_rare_as_asked(digits: Digits, tmp_path: Path, quick: TrainOptions) -> None:
    for seconds, written in ((3600.0, False), (0.0, True)):
        file = tmp_path / f"{written}.safetensors"
        with seeded(0):
            model = NoisyNet()
        fit(model, digits.images, digits.labels, ROWS, quick, seed=1, checkpoint=file, checkpoint_seconds=seconds)
        assert file.exists() == written
