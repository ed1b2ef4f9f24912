"""The two losses against equations 2 to 4 of paper 003 written out in loops."""

import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.training.detectors.metric_losses import metric_loss
from memorisk.training.detectors.options import MEASURES

pytest.importorskip("pytorch_metric_learning")

GROUPS = {
    "all alone": [0, 1, 2, 3, 4, 5],
    "several of a patient": [0, 0, 1, 2, 2, 2],
    "two patients": [7, 7, 7, 7, 3, 3],
    "one patient": [4, 4, 4, 4, 4, 4],
}


def naive(name: str, images: torch.Tensor, copies: torch.Tensor, groups: list[int]) -> torch.Tensor:
    """Equations 2 to 4, an anchor at a time."""
    z = [*images, *copies]
    if name == "triplet":
        z = [vector / vector.norm() for vector in z]
    of = [(i, g) for i, g in enumerate(groups)] * 2
    terms = []
    for anchor, (image, group) in enumerate(of):
        positive = next(z[j] for j, (i, _) in enumerate(of) if i == image and j != anchor)
        strangers = [z[j] for j, (_, g) in enumerate(of) if g != group]
        if not strangers:
            continue
        if name == "triplet":
            nearest = min(strangers, key=lambda other, a=anchor: float((z[a] - other).detach().norm()))
            term = 0.05 + (z[anchor] - positive).norm() - (z[anchor] - nearest).norm()
            if float(term.detach()) > 0:
                terms.append(term)
        else:
            s = [torch.cosine_similarity(z[anchor], other, dim=0) / 0.5 for other in (positive, *strangers)]
            terms.append(-torch.log(s[0].exp() / sum(value.exp() for value in s)))
    return torch.stack(terms).mean() if terms else 0 * (images.sum() + copies.sum())


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_losses_and_gradients_are_the_equations(name: str, groups: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    copies = images + 2 * torch.randn(6, 8, generator=generator, dtype=torch.float64)
    given = [[t.clone().requires_grad_() for t in (images, copies)] for _ in range(2)]
    found = metric_loss(name)(*given[0], torch.tensor(groups))
    expected = naive(name, *given[1], groups)
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-9, abs=1e-12)
    if len(set(groups)) > 1:
        assert float(found.detach()) > 0
    found.backward()
    expected.backward()
    for ours, theirs in zip(given[0], given[1], strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", MEASURES)
def test_images_of_one_group_do_not_push_each_other(name: str) -> None:
    images = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    images[1] = images[0] + 1e-3  # two nearly equal images of one patient
    copies = images + 0.01
    masked = metric_loss(name)(images, copies, torch.tensor([0, 0, 1, 2]))
    unmasked = metric_loss(name)(images, copies, torch.arange(4))
    assert float(masked) < float(unmasked)


@pytest.mark.parametrize("name", MEASURES)
def test_a_batch_without_a_negative_has_no_loss_and_no_nan(name: str) -> None:
    images = torch.randn(3, 8, requires_grad=True)
    loss = metric_loss(name)(images, images.detach() + 0.1, torch.zeros(3, dtype=torch.long))
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.equal(images.grad, torch.zeros(3, 8))


@pytest.mark.parametrize("name", MEASURES)
def test_exact_copies_have_finite_gradients(name: str) -> None:
    images = torch.ones(4, 8, requires_grad=True)
    metric_loss(name)(images, images * 1.0, torch.arange(4)).backward()
    assert torch.isfinite(images.grad).all()


def test_near_copies_keep_their_distance() -> None:
    angle = 1e-3 * torch.arange(80, dtype=torch.float64)[:, None]
    turned = angle + 1e-6
    images, copies = (5 * torch.cat([a.cos(), a.sin()], dim=1).float() for a in (angle, turned))
    loss = metric_loss("triplet")(images, copies, torch.arange(80))  # distances by products are off by 3e-4
    nearest = (1e-3 * 2 + (1e-3 - 1e-6) * 158) / 160  # the two at the ends have one neighbour on the wrong side
    assert float(loss) == pytest.approx(0.05 + 1e-6 - nearest, rel=2e-5)


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown loss 'triplets'. Did you mean 'triplet'"):
        metric_loss("triplets")
