"""The joint loss of a batch of pairs, held to its definition and to pytorch-metric-learning."""

import math

import numpy as np
import pytest
import torch

from memorisk.training.detectors.metric_losses import nt_xent, pair_loss


def batch(b: int = 6, d: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features of b pairs, half of them positive; identity 0 is in two of them."""
    generator = torch.Generator().manual_seed(2)
    features = torch.rand(2 * b, d, generator=generator, dtype=torch.float32)
    positive = torch.arange(b) < b // 2
    identity = torch.tensor([0, 1, 0, 3, 4, 5, 0, 1, 0, 6, 7, 1])
    return features, positive, identity


def naive(features: np.ndarray, positive: np.ndarray, identity: np.ndarray, t: float) -> float:
    """By the formula, an image at a time."""
    b, z = len(positive), features / np.linalg.norm(features, axis=1, keepdims=True)
    found = []
    for i in range(2 * b):
        if not positive[i % b]:
            continue
        partner = (i + b) % (2 * b)
        alike = math.exp(float(z[i] @ z[partner]) / t)
        others = [math.exp(float(z[i] @ z[n]) / t) for n in range(2 * b) if identity[n] != identity[i]]
        if others:
            found.append(-math.log(alike / (alike + sum(others))))
    return float(np.mean(found))


def test_nt_xent_is_its_definition() -> None:
    features, positive, identity = batch()
    wanted = naive(features.double().numpy(), positive.numpy(), identity.numpy(), 0.07)
    assert float(nt_xent(features, positive, identity)) == pytest.approx(wanted, rel=1e-5)


def test_an_image_of_the_anchors_identity_is_no_negative() -> None:
    features, _, identity = batch()
    moved = features.clone()
    moved[2] = -features[2]  # an image of identity 0 in another pair
    only = torch.tensor([True] + [False] * 5)
    assert torch.equal(nt_xent(features, only, identity), nt_xent(moved, only, identity))
    strangers = torch.arange(6).repeat(2)  # the paper's form: a number for each pair
    assert not torch.equal(nt_xent(features, only, strangers), nt_xent(moved, only, strangers))


def test_the_papers_form_is_pytorch_metric_learnings() -> None:
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, _, _ = batch()
    numbers = torch.arange(6).repeat(2)
    wanted = losses.NTXentLoss(temperature=0.07)(features, numbers)
    found = nt_xent(features, torch.ones(6, dtype=torch.bool), numbers)
    assert float(found) == pytest.approx(float(wanted), rel=1e-5)


def test_without_a_negative_nothing_is_learnt() -> None:
    features = torch.rand(4, 3, requires_grad=True)
    loss = nt_xent(features, torch.ones(2, dtype=torch.bool), torch.zeros(4, dtype=torch.int64))
    loss.backward()
    assert float(loss.detach()) == 0
    assert features.grad is not None
    assert torch.equal(features.grad, torch.zeros_like(features))


@pytest.mark.parametrize("share", [0.0, 0.8, 1.0])
def test_the_joint_loss_weighs_both(share: float) -> None:
    features, positive, identity = batch()
    logits = torch.linspace(-1, 1, 6)
    bce = float(np.mean(np.log1p(np.exp(np.where(positive, -logits.numpy(), logits.numpy())))))
    wanted = share * bce + (1 - share) * float(nt_xent(features, positive, identity))
    assert float(pair_loss(features, logits, positive, identity, bce_share=share)) == pytest.approx(wanted, rel=1e-5)
