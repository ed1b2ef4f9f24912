"""Networks stopped early in a stack are those that `fit_early` stops alone, whoever else leaves the stack."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.training.classifiers import early_stopping
from memorisk.training.classifiers.early_stopping import fit_early, fit_early_stacked
from memorisk.training.engine.loop import EarlyStoppingLog
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Normalisation, choose_normalisation
from tests.reordered_sums import ReorderedSums
from tests.rounding import SoftmaxRegression, exact_outputs, gamma
from tests.thorough import thorough
from tests.training.helpers import Digits, NoisyNet, weights_of

VALIDATION = np.arange(300, 500)
SEEDS = [1, 2, 3, 4, 1]
HOW = TrainOptions(epochs=40, lr=1e-3, schedule="constant", batch_size=64)
FAST = replace(HOW, lr=3e-3)

Sums = Callable[[], AbstractContextManager[object]]
SUMS = [nullcontext, thorough(ReorderedSums)]  # as other processors add


def networks(name: str, dtype: torch.dtype = torch.float32) -> list[nn.Module]:
    return [create_model(name, num_classes=10, in_chans=1, image_size=8, seed=seed).to(dtype) for seed in SEEDS]


def canaries(digits: Digits) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Images with a marked copy of a canary a network behind them, and the rows of each network."""
    marked = digits.images[[5, 17, 40, 80, 120]].copy()
    marked[:, 1:4, 1:4] = 255
    rows = [
        np.where(np.arange(300) == canary, 1797 + k, np.arange(300)) for k, canary in enumerate([5, 17, 40, 80, 120])
    ]
    labels = np.concatenate([digits.labels, digits.labels[[5, 17, 40, 80, 120]]])
    return np.concatenate([digits.images, marked]), labels, rows


def stacked(
    digits: Digits, models: list[nn.Module], options: TrainOptions = HOW, **changed: object
) -> list[EarlyStoppingLog]:
    images, labels, rows = canaries(digits)
    given = {"seeds": SEEDS, "patience": 3, **changed}
    return fit_early_stacked(models, images, labels, rows, VALIDATION, options, **given)


def gap_of_the_lowest(log: EarlyStoppingLog) -> float:
    """How much lower the validation loss of the epoch that is kept is than any other."""
    first, second = sorted(log.validation)[:2]
    return second - first


def flat(model: nn.Module) -> torch.Tensor:
    """All weights in a row."""
    return torch.cat([value.detach().flatten() for value in model.parameters()])


def normalised(images: np.ndarray, scale: Normalisation | None) -> torch.Tensor:
    """Pixels as a network gets them, [n, 1, 8, 8] in float64."""
    assert scale is not None
    x = torch.from_numpy(images).double() / 255
    return ((x - torch.tensor(scale.mean)) / torch.tensor(scale.std)).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp1", HOW),
        thorough("cnn1", FAST),
        thorough("mlp1", TrainOptions(epochs=14, lr=0.1, schedule="step", optimizer="nesterov", weight_decay=1e-4)),
        thorough("mlp1", TrainOptions(epochs=14, lr=3e-3, optimizer="adamw")),
    ],
)
def test_equals_one_after_another(digits: Digits, name: str, options: TrainOptions) -> None:
    """In float64, where rounding cannot hide a difference of method; not all stop at one epoch."""
    images, labels, rows = canaries(digits)
    together, alone = networks(name, torch.float64), networks(name, torch.float64)
    logs = stacked(digits, together, options)
    for k, model in enumerate(alone):
        log = fit_early(model, images, labels, rows[k], VALIDATION, options, seed=SEEDS[k], patience=3)
        assert gap_of_the_lowest(log) > 2e-6  # below that rounding would decide
        assert (logs[k].best_epoch, logs[k].stopped) == (log.best_epoch, log.stopped)
        np.testing.assert_allclose(logs[k].losses, log.losses, atol=1e-6)
        np.testing.assert_allclose(logs[k].validation, log.validation, atol=1e-6)
        assert not together[k].training
        for a, b in zip(together[k].parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
    if options.schedule == "constant":
        assert len({len(log.losses) for log in logs}) > 1


class Linear(nn.Sequential):
    """A convex problem, in which rounding is carried on by a known factor."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        with seeded(seed):
            super().__init__(nn.Flatten(), nn.Linear(64, 10, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, thorough(torch.float64)])
@pytest.mark.parametrize("sums", SUMS)
def test_differs_by_no_more_than_the_rounding_of_its_steps(digits: Digits, dtype: torch.dtype, sums: Sums) -> None:
    """In any order of the sums. A network of several layers has no such bound: it is compared in float64 above."""
    options = TrainOptions(epochs=6, lr=1e-4, schedule="constant", batch_size=64, optimizer="sgd")
    images, labels, rows = canaries(digits)
    scale = choose_normalisation(images, options.normalise)
    pixels = normalised(images, scale).flatten(1).numpy()
    together, alone = ([Linear(seed, dtype) for seed in SEEDS] for _ in range(2))
    start = max(float(flat(model).norm()) for model in alone)
    bound = SoftmaxRegression(pixels, 10, 64, steps=6 * 5, lr=1e-4, start=start, dtype=dtype)
    atol = 2 * bound.loss_error  # each of the two may be wrong by that
    with sums():
        logs = stacked(digits, together, options)
    for k, model in enumerate(alone):
        log = fit_early(model, images, labels, rows[k], VALIDATION, options, seed=SEEDS[k], patience=3)
        np.testing.assert_allclose(logs[k].losses, log.losses, rtol=0, atol=atol)
        np.testing.assert_allclose(logs[k].validation, log.validation, rtol=0, atol=atol)
        assert float((flat(together[k]) - flat(model)).norm()) <= 2 * bound.weight_error
        assert gap_of_the_lowest(log) > 2 * atol
        assert logs[k].best_epoch == log.best_epoch
    twins = float((flat(together[0]) - flat(together[4])).norm())
    assert dtype == torch.float32 or twins > 100 * bound.weight_error  # another canary would be noticed


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", ["adam", thorough("sgd")])
def test_leaving_changes_nothing_for_the_rest(digits: Digits, monkeypatch: pytest.MonkeyPatch, optimizer: str) -> None:
    options = TrainOptions(
        epochs=40, lr=0.3 if optimizer == "sgd" else 1e-3, schedule="constant", optimizer=optimizer
    )  # fmt: skip
    sizes: list[int] = []
    shrink = early_stopping._EarlyStoppedStack.shrink

    def watched(stack: early_stopping._EarlyStoppedStack, numbers: list[int]) -> None:
        shrink(stack, numbers)
        sizes.append(len(stack.numbers))
        assert all(len(value) == len(stack.numbers) for value in stack.parameters.values())

    monkeypatch.setattr(early_stopping._EarlyStoppedStack, "shrink", watched)
    shrunk, whole = networks("mlp1", torch.float64), networks("mlp1", torch.float64)
    logs = stacked(digits, shrunk, options)
    assert len(set(sizes)) > 1, sizes
    assert sizes == sorted(sizes, reverse=True)
    monkeypatch.setattr(early_stopping._EarlyStoppedStack, "shrink", lambda stack, numbers: None)
    others = stacked(digits, whole, options)
    for log, other, a, b in zip(logs, others, shrunk, whole, strict=True):
        assert log.best_epoch == other.best_epoch
        np.testing.assert_allclose(log.losses, other.losses, atol=1e-9)
        np.testing.assert_allclose(log.validation, other.validation, atol=1e-9)
        for x, y in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=1e-9)


@pytest.mark.thorough
def test_one_that_has_stopped_may_diverge(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone it would have ended before; in the stack it must neither end nor change the others."""
    undisturbed, disturbed = networks("mlp1", torch.float64), networks("mlp1", torch.float64)
    logs = stacked(digits, undisturbed)
    run_epoch, spoilt = early_stopping._EarlyStoppedStack.run_epoch, []

    def spoil(stack: early_stopping._EarlyStoppedStack, epoch: int, going: list[int]) -> dict[int, float]:
        for number in set(stack.numbers) - set(going):
            spoilt.append(number)
            for value in stack.parameters.values():
                value.data[stack.numbers.index(number)] = float("nan")
        return run_epoch(stack, epoch, going)

    monkeypatch.setattr(early_stopping._EarlyStoppedStack, "run_epoch", spoil)
    assert stacked(digits, disturbed) == logs
    assert spoilt
    assert [weights_of(m) for m in disturbed] == [weights_of(m) for m in undisturbed]


@pytest.mark.parametrize(
    ("name", "dtype"), [("mlp1", torch.float32), thorough("cnn1", torch.float32), thorough("mlp1", torch.float64)]
)
@pytest.mark.parametrize("sums", SUMS)
def test_on_epoch_sees_those_that_are_trained(digits: Digits, name: str, dtype: torch.dtype, sums: Sums) -> None:
    """Their validation losses are the exact ones, to the rounding of the logits, which are kept in float32."""
    models = networks(name, dtype)
    images, labels, _ = canaries(digits)
    x = normalised(images, choose_normalisation(images, HOW.normalise))[VALIDATION]
    seen: dict[int, list[tuple[float, float]]] = {k: [] for k in range(5)}

    def look(epoch: int, trained: dict[int, nn.Module]) -> None:
        for k, model in trained.items():
            assert model is models[k]
            assert not model.training
            logits, error = exact_outputs(model, x, dtype)
            error += gamma(1, torch.float32) * (logits.abs() + error)
            losses = nn.functional.cross_entropy(logits, torch.from_numpy(labels[VALIDATION]), reduction="none")
            seen[k].append((float(losses.mean()), float(2 * error.amax(dim=1).mean())))  # slopes add up to 2 at most
            assert len(seen[k]) == epoch

    with sums():
        logs = stacked(digits, models, replace(HOW, epochs=6), on_epoch=look)
    for k, log in enumerate(logs):
        exact, bound = np.array(seen[k]).T
        assert (np.abs(exact - log.validation) <= bound).all()
        change = float(np.abs(np.diff(log.validation)).min())
        assert dtype == torch.float32 or bound.max() < change / 100  # another epoch's weights would be noticed


def test_refusals(digits: Digits) -> None:
    images, labels, rows = canaries(digits)

    def refuse(said: str, models: list[nn.Module], options: TrainOptions = HOW, **changed: object) -> None:
        given = {"images": images, "targets": labels, "rows_list": rows, "validation_rows": VALIDATION, **changed}
        with pytest.raises(InputError, match=said):
            fit_early_stacked(models, options=options, **{"seeds": SEEDS, **given})

    refuse("not trained on", networks("mlp1"), validation_rows=rows[0][:4])
    refuse("patience is 0", networks("mlp1"), patience=0)
    refuse("running statistics", [NoisyNet() for _ in SEEDS])
    refuse("augmented", networks("mlp1"), TrainOptions(epochs=2, lr=1e-3, augment="hflip"))
    refuse("one each is needed", networks("mlp1")[:4])
    refuse("one each is needed", networks("mlp1"), seeds=SEEDS[:4])
    refuse("no model to train", [], rows_list=[], seeds=[])
    refuse("targets for", networks("mlp1"), targets=labels[:-1])
    refuse("epochs or lr are not set", networks("mlp1"), TrainOptions(lr=1e-3))
    with pytest.raises(MemoriskError, match="the loss of model 0 became"):
        stacked(digits, networks("mlp1"), TrainOptions(epochs=3, lr=1e30, schedule="constant"))
