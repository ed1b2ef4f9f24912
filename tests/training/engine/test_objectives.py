"""Losses against their formulas, and the stacked forms against the single ones."""

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.training.engine.optimization import (
    balancing_weights,
    check_outputs,
    objective,
    stacked_objective,
    target_tensor,
)

RNG = np.random.default_rng(0)


def test_cross_entropy_is_the_formula() -> None:
    logits, y, w = RNG.normal(size=(6, 4)), np.array([0, 1, 1, 3, 0, 2]), np.array([1.0, 0.5, 2.0, 3.0])
    nll = np.array([np.log(np.exp(z).sum()) - z[t] for z, t in zip(logits, y, strict=True)])
    x, t = torch.from_numpy(logits), torch.from_numpy(y)
    assert float(objective("single", None)(x, t)) == pytest.approx(nll.mean(), rel=1e-12)
    weighted = (w[y] * nll).sum() / w[y].sum()
    assert float(objective("first", torch.from_numpy(w))(x, t)) == pytest.approx(weighted, rel=1e-12)


def test_binary_and_multi_are_the_formula() -> None:
    z, y, w = RNG.normal(size=(6, 3)), RNG.integers(0, 2, (6, 3)).astype(float), np.array([1.0, 4.0, 0.5])
    p = 1 / (1 + np.exp(-z))
    losses = -(w * y * np.log(p) + (1 - y) * np.log(1 - p))
    x, t, weight = torch.from_numpy(z), torch.from_numpy(y), torch.from_numpy(w)
    assert float(objective("multi", weight)(x, t)) == pytest.approx(losses.mean(), rel=1e-12)
    assert float(objective("binary", weight[:1])(x[:, :1], t[:, 0])) == pytest.approx(losses[:, 0].mean(), rel=1e-12)


@pytest.mark.parametrize("head", ["single", "binary", "multi"])
@pytest.mark.parametrize("weighted", [False, True])
def test_stacked_losses_are_the_single_ones(head: str, weighted: bool) -> None:
    n_models, batch, k = 3, 5, 1 if head == "binary" else 4
    logits = torch.from_numpy(RNG.normal(size=(n_models, batch, k)))
    shape = (n_models, batch, k) if head == "multi" else (n_models, batch)
    y = torch.from_numpy(RNG.integers(0, k if head == "single" else 2, shape))
    y = y if head == "single" else y.double()
    weights = torch.from_numpy(RNG.uniform(0.5, 2, (n_models, k))) if weighted else None
    got = stacked_objective(head, weights)(logits, y)
    each = [objective(head, None if weights is None else weights[i])(logits[i], y[i]) for i in range(n_models)]
    torch.testing.assert_close(got, torch.stack(each), rtol=1e-12, atol=0)


def test_balancing_weights_give_each_class_the_same_total() -> None:
    targets = torch.tensor([0] * 8 + [2] * 2)
    weights = balancing_weights(targets, "single", 4)
    assert weights[1] == weights[3] == 0
    totals = weights * torch.bincount(targets, minlength=4)
    assert totals.tolist() == [5.0, 0.0, 5.0, 0.0]


def test_balancing_weights_of_labels() -> None:
    targets = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    assert balancing_weights(targets, "multi", 3).tolist() == [3.0, 1.0, 1.0]
    assert balancing_weights(targets[:, 0], "binary", 1).tolist() == [3.0]


@pytest.mark.parametrize(
    ("targets", "head"),
    [
        (np.array([0.0, 1.0]), "single"),
        (np.array([[0, 1]]), "single"),
        (np.array([0, -1]), "single"),
        (np.array([0, 2]), "binary"),
        (np.array([[0, 1]]), "binary"),
        (np.array([0, 1]), "multi"),
        (np.array([[0.0, np.nan]]), "multi"),
    ],
)
def test_targets_that_do_not_fit_the_head_are_refused(targets: np.ndarray, head: str) -> None:
    with pytest.raises(InputError, match=f"targets of a {head} head"):
        target_tensor(targets, head, torch.float32)


def test_too_few_outputs_are_refused_and_spare_ones_are_not() -> None:
    y = torch.tensor([0, 4])
    check_outputs(7, y, "single")
    with pytest.raises(InputError, match="gives 4 logits; classes up to 4 need 5"):
        check_outputs(4, y, "single")
    with pytest.raises(InputError, match="needs 1"):
        check_outputs(2, torch.zeros(3), "binary")
    with pytest.raises(InputError, match="needs 2"):
        check_outputs(3, torch.zeros(5, 2), "multi")
