"""Heads trained together are the heads that `fit` trains alone."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
import torch

from memorisk.models.classifiers.zoo import create_model
from memorisk.models.network_parts import freeze_trunk, head_module
from memorisk.runs.errors import InputError
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.linear_heads import fit_heads, new_head, trunk_features
from memorisk.training.engine.optimization import batch_order
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.predict import predict_logits
from tests.reordered_sums import ReorderedSums
from tests.rounding import SoftmaxRegression, gamma
from tests.training.helpers import Digits

RNG = np.random.default_rng(0)
ROWS = [RNG.permutation(1797)[:150] for _ in range(4)]
SEEDS = [3, 3, 8, 9]  # the first two are twins


def rounding_bound(options: TrainOptions, n: int, dtype: torch.dtype) -> float:
    """How far Adam can carry one rounding error of a gradient of order one: lr u / eps a step, eps = 1e-8."""
    steps = (options.epochs or 0) * -(-n // options.batch_size)
    return steps * (options.lr or 0.0) * torch.finfo(dtype).eps / 1e-8


@pytest.mark.parametrize("head", ["single", "binary", "multi"])
@pytest.mark.parametrize("weighted", [False, True])
def test_heads_equal_those_trained_alone(digits: Digits, head: str, weighted: bool) -> None:
    """In float64, where rounding cannot hide a difference of method."""
    odd = digits.labels % 2
    targets = {"single": digits.labels, "binary": odd, "multi": np.stack([odd, digits.labels > 4], axis=1).astype(int)}[
        head
    ]
    n_outputs = {"single": 10, "binary": 1, "multi": 2}[head]
    features = torch.from_numpy(digits.features)
    options = TrainOptions(epochs=4, lr=1e-2, head=head, class_weights=weighted, batch_size=32)
    heads = fit_heads(features, targets, ROWS, options, n_outputs=n_outputs, seeds=SEEDS)
    atol = rounding_bound(options, 150, torch.float64)
    assert atol < 1e-7
    for k, (rows, seed) in enumerate(zip(ROWS, SEEDS, strict=True)):
        alone = new_head(64, n_outputs, seed, dtype=torch.float64)
        log = fit(alone, features, targets, rows, options, seed=seed)
        torch.testing.assert_close(heads.weight[k], alone.weight.detach(), rtol=0, atol=atol)
        torch.testing.assert_close(heads.bias[k], alone.bias.detach(), rtol=0, atol=atol)
        np.testing.assert_allclose(heads.losses[:, k], log.losses, atol=atol)
    assert float((heads.weight[0] - heads.weight[1]).abs().max()) > 100 * atol


def test_empty_slots_are_filled_alike_alone_and_together(digits: Digits) -> None:
    """150 images in 170 slots: as many steps as 170 images, and the same heads either way."""
    features = torch.from_numpy(digits.features)
    options = TrainOptions(epochs=2, lr=1e-2, batch_size=32)
    heads = fit_heads(features, digits.labels, ROWS, options, n_outputs=10, seeds=SEEDS, slots=170)
    alone = new_head(64, 10, SEEDS[0], dtype=torch.float64)
    log = fit(alone, features, digits.labels, ROWS[0], options, seed=SEEDS[0], slots=170)
    assert (log.steps, log.n_images) == (2 * 6, 150)
    atol = rounding_bound(options, 170, torch.float64)
    torch.testing.assert_close(heads.weight[0], alone.weight.detach(), rtol=0, atol=atol)
    in_order = [np.r_[ROWS[0], ROWS[0]][batch_order(SEEDS[0], epoch, 150, 170)] for epoch in (0, 1)]
    assert all(len(set(rows)) == 150 for rows in in_order)


@pytest.mark.parametrize("sums", [nullcontext, ReorderedSums])
def test_float32_agrees_to_the_rounding_of_its_steps(
    digits: Digits, sums: Callable[[], AbstractContextManager[object]]
) -> None:
    """By SGD: Adam divides a vanishing gradient by its own size, and no bound below its step holds for that."""
    features = torch.from_numpy(digits.features).float()
    options = TrainOptions(epochs=5, lr=1e-3, optimizer="sgd", schedule="constant", batch_size=64)
    with sums():
        heads = fit_heads(features, digits.labels, ROWS, options, n_outputs=10, seeds=SEEDS)
    logits = heads.logits(features)
    assert logits.shape == (4, 1797, 10)
    alone = new_head(64, 10, SEEDS[2])
    start = float(torch.cat([value.detach().flatten() for value in alone.parameters()]).norm())
    fit(alone, features, digits.labels, ROWS[2], options, seed=SEEDS[2])
    bound = SoftmaxRegression(digits.features, 10, 64, steps=5 * 3, lr=1e-3, start=start, dtype=torch.float32)
    apart = np.abs(logits[2] - predict_logits(alone, features, None, options)).max()
    assert apart <= 2 * bound.output_error  # each of the two may be wrong by that
    assert np.abs(logits[2] - logits[3]).max() > 100 * bound.output_error


@pytest.mark.parametrize("name", ["test_vit", "test_resnet", "small_resnet", "resnet20_cifar"])
def test_trunk_features_are_what_the_head_sees(name: str) -> None:
    """In float64; features and logits are kept in float32, and that rounding alone may be seen."""
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    model = create_model(name, num_classes=5, image_size=32, seed=0).double()
    options = TrainOptions()
    features = trunk_features(model, images, options)
    assert model.training
    head = head_module(model)
    assert features.shape == (6, head.in_features)
    with torch.no_grad():
        logits = head(features.double())
        kept = gamma(2, torch.float32) * (features.double().abs() @ head.weight.abs().t() + logits.abs())
        assert ((logits - torch.from_numpy(predict_logits(model, images, None, options))).abs() <= kept).all()


def test_a_frozen_trunk_with_batch_normalisation_trains_alone_as_together(digits: Digits) -> None:
    """Its statistics stay: the head trained on images is the head trained on the trunk's features.

    By SGD, as above. What rounding leaves is small beside what the training did.
    """
    model = create_model("test_resnet", num_classes=10, in_chans=1, image_size=32, weights="none", seed=0)
    freeze_trunk(model)
    images = np.kron(digits.images, np.ones((1, 4, 4, 1), dtype=np.uint8))[:200]
    before = {k: v.clone() for k, v in model.state_dict().items() if "running" in k or "num_batches" in k}
    assert before, "a network with batch normalisation is needed here"
    options = TrainOptions(epochs=3, lr=1e-2, batch_size=32, optimizer="sgd")
    rows = np.arange(150)
    features = trunk_features(model, images, options, "cpu")
    start = head_module(model)
    head = torch.nn.Linear(start.in_features, 10)
    head.load_state_dict(start.state_dict())
    begun = start.weight.detach().clone()
    fit(head, features, digits.labels[:200], rows, options, seed=1)
    fit(model, images, digits.labels[:200], rows, options, seed=1)
    after = model.state_dict()
    for name, value in before.items():
        assert torch.equal(after[name], value), name
    moved = float((head.weight - begun).detach().abs().max())
    torch.testing.assert_close(head_module(model).weight, head.weight, rtol=0, atol=moved / 100)


def test_put_gives_a_network_the_trained_head(digits: Digits, quick: TrainOptions) -> None:
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)
    features = trunk_features(model, digits.images, quick)
    heads = fit_heads(features, digits.labels, ROWS, quick, n_outputs=10, seeds=SEEDS)
    heads.put(model, 3)
    predicted = predict_logits(model, digits.images, None, quick)
    np.testing.assert_allclose(predicted, heads.logits(features)[3], atol=1e-5)


def test_a_frozen_specification_trains_its_head_alone(digits: Digits, quick: TrainOptions) -> None:
    model = create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=0)
    freeze_trunk(model)
    before = [value.clone() for value in model.features.parameters()]
    head = head_module(model).weight.detach().clone()
    fit(model, digits.images, digits.labels, ROWS[0], quick, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.features.parameters(), strict=True))
    assert not torch.equal(head, head_module(model).weight)


def test_refusals(digits: Digits, quick: TrainOptions) -> None:
    features = torch.from_numpy(digits.features)

    def refuse(said: str, rows: list[np.ndarray], seeds: list[int], options: TrainOptions = quick, n: int = 10) -> None:
        with pytest.raises(InputError, match=said):
            fit_heads(features, digits.labels, rows, options, n_outputs=n, seeds=seeds)

    refuse("augment is not possible", ROWS, SEEDS, TrainOptions(epochs=1, lr=1.0, augment="hflip"))
    refuse("4 lists of rows for 2 seeds", ROWS, SEEDS[:2])
    refuse("0 lists of rows", [], [])
    refuse("equally many images; here are 149 to 150", [ROWS[0], ROWS[1][:-1]], [0, 1])
    refuse("there are 1797 images", [np.array([0, 1797])], [0])
    refuse("gives 9 logits", ROWS, SEEDS, n=9)
    refuse("resolve_options", ROWS, SEEDS, TrainOptions())
    refuse("at least 2 images", [np.array([1])], [0])
    with pytest.raises(InputError, match="augment is not possible"):
        trunk_features(torch.nn.Linear(2, 2), digits.images, TrainOptions(augment="hflip"))
    with pytest.raises(InputError, match="not one linear layer"):
        trunk_features(torch.nn.Conv2d(1, 1, 1), digits.images, quick)
