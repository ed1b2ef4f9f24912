"""Early stopping leaves the very weights that a training of that many epochs has."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.scores.memorization import cross_entropy
from memorisk.training.classifiers.early_stopping import fit_early
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits
from tests.training.helpers import Digits, NoisyNet, weights_of

HOW = TrainOptions(epochs=60, lr=3e-3, schedule="constant", batch_size=64)
ROWS, VALIDATION = np.arange(300), np.arange(300, 500)


def network() -> torch.nn.Module:
    return create_model("mlp1", num_classes=10, in_chans=1, image_size=8, seed=0)


def test_the_best_epochs_weights_and_no_others(digits: Digits) -> None:
    labels = digits.labels.astype(np.int64)
    model = network()
    log = fit_early(model, digits.images, labels, ROWS, VALIDATION, HOW, seed=1, patience=5)
    assert log.stopped
    assert len(log.validation) == len(log.losses) == log.best_epoch + 5
    assert log.validation[log.best_epoch - 1] == min(log.validation)
    assert not model.training
    same = network()
    short = TrainOptions(epochs=log.best_epoch, lr=3e-3, schedule="constant", batch_size=64)
    found = fit(same, digits.images, labels, ROWS, short, seed=1)
    np.testing.assert_allclose(found.losses, log.losses[: log.best_epoch], rtol=1e-6)
    for name, value in same.state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-6, atol=1e-7)
    logits = predict_logits(model, digits.images, VALIDATION, HOW)
    assert cross_entropy(logits, labels[VALIDATION]).mean() == pytest.approx(min(log.validation), rel=1e-5)


def test_all_epochs_run_where_patience_lasts(digits: Digits) -> None:
    short = TrainOptions(epochs=2, lr=1e-3, schedule="constant")
    log = fit_early(network(), digits.images, digits.labels.astype(np.int64), ROWS, VALIDATION, short, seed=1)
    assert not log.stopped
    assert len(log.losses) == 2


def test_misuse_is_refused(digits: Digits) -> None:
    labels = digits.labels.astype(np.int64)
    with pytest.raises(InputError, match="not trained on"):
        fit_early(network(), digits.images, labels, ROWS, ROWS[:3], HOW, seed=1)
    with pytest.raises(InputError, match="not trained on"):
        fit_early(network(), digits.images, labels, ROWS, ROWS[:0], HOW, seed=1)
    with pytest.raises(InputError, match="patience is 0"):
        fit_early(network(), digits.images, labels, ROWS, VALIDATION, HOW, seed=1, patience=0)


class Killed(Exception):
    pass


def noisy(seed: int = 0) -> torch.nn.Module:
    with seeded(seed):
        return NoisyNet()


NOISY = TrainOptions(epochs=12, lr=1.0, schedule="constant", batch_size=64)


def test_killed_at_any_epoch_it_ends_the_same(digits: Digits, tmp_path: Path) -> None:
    """Before the best epoch, at it, between it and the end, and at the end itself; twice in a row, too."""
    given = (digits.images, digits.labels, ROWS, VALIDATION, NOISY)
    undisturbed = noisy()
    log = fit_early(undisturbed, *given, seed=1, patience=2)
    best, last = log.best_epoch, len(log.losses)
    assert 1 < best < last < 12, log
    for number, kills in enumerate([(1,), (best - 1,), (best,), (best + 1,), (last,), (1, best, best + 1, last)]):
        file, seen = tmp_path / f"{number}.safetensors", []
        for kill in kills:

            def on_epoch(epoch: int, model: torch.nn.Module, kill: int = kill, seen: list[int] = seen) -> None:
                seen.append(epoch)
                if epoch == kill:
                    raise Killed

            with pytest.raises(Killed):
                fit_early(noisy(), *given, seed=1, patience=2, checkpoint=file, checkpoint_seconds=0, on_epoch=on_epoch)
        resumed = noisy()
        again = fit_early(
            resumed, *given, seed=1, patience=2, checkpoint=file, checkpoint_seconds=0,
            on_epoch=lambda epoch, model, seen=seen: seen.append(epoch),
        )  # fmt: skip
        assert weights_of(resumed) == weights_of(undisturbed)
        assert again == log
        assert sorted(set(seen)) == list(range(1, last + 1))  # at least once each


def test_a_checkpoint_of_all_epochs_holds_everything(digits: Digits, tmp_path: Path) -> None:
    """Killed after the last checkpoint was written and before the weights were read: no epoch is left to run."""
    given = (digits.images, digits.labels, ROWS, VALIDATION, TrainOptions(epochs=4, lr=0.1, schedule="constant"))
    first, second = noisy(), noisy()
    file = tmp_path / "c.safetensors"
    log = fit_early(first, *given, seed=1, checkpoint=file, checkpoint_seconds=0)
    again = fit_early(second, *given, seed=1, checkpoint=file, on_epoch=lambda epoch, model: pytest.fail("an epoch"))
    assert again == log
    assert weights_of(second) == weights_of(first)


KILLED = """
import os, signal, sys
import numpy as np
import torch
torch.set_num_threads(1)
from sklearn.datasets import load_digits
from memorisk.training.classifiers.early_stopping import fit_early
from tests.training.classifiers.test_early_stopping import NOISY, ROWS, VALIDATION, noisy

data, model, steps = load_digits(), noisy(), 0
images = np.round(data.images * (255 / 16)).astype(np.uint8)[..., None]

def count(module, x):
    global steps
    steps += module.training
    if steps == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

model.conv.register_forward_pre_hook(count)
fit_early(model, images, data.target, ROWS, VALIDATION, NOISY, seed=1, patience=2, checkpoint=sys.argv[1],
          checkpoint_seconds=0)
"""


@pytest.mark.thorough
def test_kill_9_in_the_middle_of_an_epoch(digits: Digits, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        file, models = tmp_path / "c.safetensors", (noisy(), noisy())
        root = Path(__file__).resolve().parents[3]
        done = subprocess.run([sys.executable, "-c", KILLED, str(file), "33"], cwd=root, check=False)
        assert done.returncode == -signal.SIGKILL
        assert sorted(p.name for p in tmp_path.iterdir()) == ["c.safetensors", "c.safetensors.checksum"]
        given = (digits.images, digits.labels, ROWS, VALIDATION, NOISY)
        logs = [
            fit_early(m, *given, seed=1, patience=2, checkpoint=c) for m, c in zip(models, (file, None), strict=True)
        ]
        assert logs[0] == logs[1]
        assert weights_of(models[0]) == weights_of(models[1])
    finally:
        torch.set_num_threads(threads)


def test_who_looks_changes_nothing(digits: Digits) -> None:
    """The network is in evaluation mode while it is looked at; draws and gradients made meanwhile leave no trace."""
    given = (digits.images, digits.labels, ROWS, VALIDATION, TrainOptions(epochs=3, lr=0.1))
    modes: list[bool] = []

    def look(epoch: int, model: torch.nn.Module) -> None:
        modes.extend(part.training for part in model.modules())
        model(torch.rand(2, 1, 8, 8)).sum().backward()

    seen, unseen = noisy(), noisy()
    logs = fit_early(seen, *given, seed=1, on_epoch=look), fit_early(unseen, *given, seed=1)
    assert not any(modes)
    assert len(modes) == 3 * len(list(seen.modules()))
    assert logs[0] == logs[1]
    assert weights_of(seen) == weights_of(unseen)


def test_a_frozen_trunk_keeps_its_statistics(digits: Digits) -> None:
    model = noisy()
    model.requires_grad_(False)
    model.get_submodule("head").requires_grad_(True)
    before = model.get_buffer("norm.running_mean").clone()
    short = TrainOptions(epochs=3, lr=0.1, schedule="constant")
    fit_early(model, digits.images, digits.labels, ROWS, VALIDATION, short, seed=1)
    assert torch.equal(model.get_buffer("norm.running_mean"), before)


def test_a_checkpoint_of_another_training_is_refused(digits: Digits, tmp_path: Path) -> None:
    short, file = TrainOptions(epochs=2, lr=1e-3), tmp_path / "c.safetensors"
    given = {"seed": 1, "checkpoint": file, "checkpoint_seconds": 0.0}
    fit_early(noisy(), digits.images, digits.labels, ROWS, VALIDATION, short, **given)
    for patience, validation in ((3, VALIDATION), (10, VALIDATION[:-1])):
        with pytest.raises(InputError, match="belongs to another training"):
            fit_early(noisy(), digits.images, digits.labels, ROWS, validation, short, patience=patience, **given)
    with pytest.raises(InputError, match="belongs to another training"):
        fit(noisy(), digits.images, digits.labels, ROWS, short, **given)


class Overflows(NoisyNet):
    """Its logits are not finite in evaluation mode in the chosen calls."""

    def __init__(self, wrong: set[int]) -> None:
        super().__init__()
        self.wrong, self.asked = wrong, -1  # the first question only counts its logits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = super().forward(x)
        if self.training:
            return logits
        self.asked += 1
        return logits * float("nan") if self.asked in self.wrong else logits


def test_a_validation_loss_that_is_not_finite(digits: Digits) -> None:
    given = (digits.images, digits.labels, ROWS, VALIDATION, TrainOptions(epochs=6, lr=1e-3))
    log = fit_early(Overflows({1, 3}), *given, seed=1)
    assert np.isinf(log.validation).tolist() == [True, False, True, False, False, False]
    assert log.validation[log.best_epoch - 1] == min(log.validation)
    with pytest.raises(MemoriskError, match="no validation loss of 3 epochs was finite"):
        fit_early(Overflows(set(range(100))), *given, seed=1, patience=3)
    with pytest.raises(InputError, match="epochs or lr are not set"):
        fit_early(noisy(), *given[:-1], TrainOptions(lr=1e-3), seed=1)
