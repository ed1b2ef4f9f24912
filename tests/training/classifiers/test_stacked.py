"""Networks trained as one stack are the networks that `fit` trains alone."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.stacked import fit_stacked, stacking_obstacle
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits
from tests.reordered_sums import ReorderedSums
from tests.thorough import thorough
from tests.training.classifiers.test_frozen import rounding_bound
from tests.training.helpers import Digits, NoisyNet

RNG = np.random.default_rng(1)
ROWS = [RNG.permutation(1797)[:97] for _ in range(3)]  # a remainder of one joins the batch before
SEEDS = [3, 3, 8]


def networks(name: str = "small_cnn", dtype: torch.dtype = torch.float32) -> list[nn.Module]:
    return [create_model(name, num_classes=10, in_chans=1, image_size=8, seed=seed).to(dtype) for seed in SEEDS]


@pytest.mark.parametrize(
    ("name", "weighted"),
    [("small_cnn", False), ("small_cnn", True), thorough("small_resnet", False), ("small_resnet", True)],
)
def test_equals_one_after_another(digits: Digits, name: str, weighted: bool) -> None:
    """In float64, where rounding cannot hide a difference of method."""
    options = TrainOptions(epochs=2, lr=1e-3, batch_size=32, class_weights=weighted)
    together, alone = networks(name, torch.float64), networks(name, torch.float64)
    logs = fit_stacked(together, digits.images, digits.labels, ROWS, options, seeds=SEEDS)
    atol = rounding_bound(options, 97, torch.float64)
    for k, model in enumerate(alone):
        log = fit(model, digits.images, digits.labels, ROWS[k], options, seed=SEEDS[k])
        for a, b in zip(together[k].parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=atol)
        np.testing.assert_allclose(logs[k].losses, log.losses, atol=atol)
        assert (logs[k].steps, logs[k].epochs, logs[k].n_images) == (log.steps, log.epochs, log.n_images)
        assert logs[k].normalisation == log.normalisation


@pytest.mark.parametrize("sums", [nullcontext, ReorderedSums])
def test_float32_agrees_in_what_is_scored(digits: Digits, sums: Callable[[], AbstractContextManager[object]]) -> None:
    """What rounding leaves in a logit is small beside the difference of twins, in any order of the sums.

    By SGD: where rounding turns the sign of a vanishing gradient, Adam moves a weight by a whole step.
    """
    quick = TrainOptions(epochs=2, lr=1e-2, optimizer="sgd")
    together, alone = networks(), networks()
    with sums():
        fit_stacked(together, digits.images, digits.labels, ROWS, quick, seeds=SEEDS)
    for k, model in enumerate(alone):
        fit(model, digits.images, digits.labels, ROWS[k], quick, seed=SEEDS[k])
    stacked, single = ([predict_logits(m, digits.images, None, quick) for m in each] for each in (together, alone))
    gap = max(float(np.abs(a - b).max()) for a, b in zip(stacked, single, strict=True))
    assert float(np.abs(single[0] - single[1]).max()) > 100 * gap


def test_a_killed_stack_goes_on_to_the_same_bytes(digits: Digits, tmp_path: Path) -> None:
    options, file = TrainOptions(epochs=3, lr=1e-3), tmp_path / "stack.safetensors"
    undisturbed, resumed = networks(), networks()
    fit_stacked(undisturbed, digits.images, digits.labels, ROWS, options, seeds=SEEDS)

    class Killed(Exception):
        pass

    def kill(epoch: int, loss: float) -> None:
        if epoch == 2:
            raise Killed

    with pytest.raises(Killed):
        fit_stacked(
            networks(), digits.images, digits.labels, ROWS, options,
            seeds=SEEDS, checkpoint=file, checkpoint_seconds=0, on_epoch=kill,
        )  # fmt: skip
    logs = fit_stacked(resumed, digits.images, digits.labels, ROWS, options, seeds=SEEDS, checkpoint=file)
    assert logs[0].resumed_from == 2
    for a, b in zip(undisturbed, resumed, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    with pytest.raises(InputError, match="belongs to another training"):
        fit_stacked(networks(), digits.images, digits.labels, ROWS, options, seeds=[1, 1, 2], checkpoint=file)


def test_what_cannot_be_stacked_says_why(digits: Digits, quick: TrainOptions) -> None:
    net = networks()[0]
    assert stacking_obstacle(net, quick) == ""
    assert "running statistics" in stacking_obstacle(NoisyNet(), quick)
    assert "dropout" in stacking_obstacle(nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(2, 2)), quick)
    assert stacking_obstacle(nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(2, 2)), quick) == ""
    assert "augmented" in stacking_obstacle(net, TrainOptions(augment="hflip"))
    assert "fp16" in stacking_obstacle(net, TrainOptions(precision="fp16"))
    with seeded(0), pytest.raises(InputError, match="NoisyNet cannot be trained stacked: it keeps running statistics"):
        fit_stacked([NoisyNet()], digits.images, digits.labels, ROWS[:1], quick, seeds=[0])


def test_refusals(digits: Digits, quick: TrainOptions) -> None:
    def refuse(said: str, models: list[nn.Module], rows: list[np.ndarray], seeds: list[int]) -> None:
        with pytest.raises(InputError, match=said):
            fit_stacked(models, digits.images, digits.labels, rows, quick, seeds=seeds)

    refuse("no model to train", [], [], [])
    refuse("equally many images", networks(), [*ROWS[:2], ROWS[2][:50]], SEEDS)
    refuse("one each is needed", networks(), ROWS[:2], SEEDS)
    other = create_model("small_cnn", num_classes=11, in_chans=1, image_size=8, seed=0)
    refuse("must have one architecture", [networks()[0], other], ROWS[:2], SEEDS[:2])
    few = [create_model("small_cnn", num_classes=4, in_chans=1, image_size=8, seed=s) for s in SEEDS]
    refuse("gives 4 logits", few, ROWS, SEEDS)
    with pytest.raises(MemoriskError, match="the loss of model 0 became"):
        fit_stacked(networks(), digits.images, digits.labels, ROWS, TrainOptions(epochs=3, lr=1e30), seeds=SEEDS)
