"""FusedAdam is torch's Adam, to the byte, and Kingma and Ba's, to rounding."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from memorisk.runs.errors import InputError
from memorisk.training.engine.optimization import FusedAdam, build_optimizer
from memorisk.training.engine.options import TrainOptions

SHAPES = [(3, 2, 3, 3), (3,), (5, 7)]


def parameters_and_gradients(steps: int) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.randn(s, generator=generator) for s in SHAPES]
    parameters[0] = parameters[0].to(memory_format=torch.channels_last)
    return parameters, [[torch.randn(s, generator=generator) for s in SHAPES] for _ in range(steps)]


@pytest.mark.parametrize(("decay", "betas"), [(0.0, (0.9, 0.999)), (0.1, (0.9, 0.999)), (0.0, (0.0, 0.99))])
def test_same_bytes_as_torchs_adam(decay: float, betas: tuple[float, float]) -> None:
    parameters, gradients = parameters_and_gradients(6)
    mine = [p.clone().requires_grad_() for p in parameters]
    theirs = [p.clone().requires_grad_() for p in parameters]
    ours = FusedAdam(mine, lr=0.01, weight_decay=decay, betas=betas)
    reference = torch.optim.Adam(theirs, lr=0.01, weight_decay=decay, betas=betas, fused=True)
    for step, gradient in enumerate(gradients):
        for optimizer, values in ((ours, mine), (reference, theirs)):
            optimizer.zero_grad()
            for parameter, g in zip(values, gradient, strict=True):
                parameter.grad = g.clone()
            optimizer.param_groups[0]["lr"] = 0.01 / (step + 1)
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_formula() -> None:
    parameters, gradients = parameters_and_gradients(4)
    value = parameters[2].double().requires_grad_()
    naive, m, v = value.detach().numpy().copy(), np.zeros((5, 7)), np.zeros((5, 7))
    optimizer = FusedAdam([value], lr=0.01)
    for step, gradient in enumerate(gradients, start=1):
        value.grad = gradient[2].double()
        optimizer.step()
        g = value.grad.numpy()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        naive -= 0.01 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(value.detach().numpy(), naive, rtol=1e-10)


def test_parameters_without_gradient_stay() -> None:
    still, moved = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = FusedAdam([still, moved], lr=0.1)
    moved.grad = torch.ones(2)
    optimizer.step()
    assert still.tolist() == [1, 1]
    assert moved.tolist() != [1, 1]


def test_by_name() -> None:
    parameter = [torch.ones(1, requires_grad=True)]
    assert isinstance(build_optimizer(parameter, TrainOptions(lr=1.0)), FusedAdam)
    assert isinstance(build_optimizer(parameter, TrainOptions(lr=1.0, optimizer="adamw")), torch.optim.AdamW)
    sgd = build_optimizer(parameter, TrainOptions(lr=1.0, optimizer="sgd"))
    assert sgd.param_groups[0]["momentum"] == 0.9
    assert not sgd.param_groups[0]["nesterov"]
    with pytest.raises(InputError, match="nothing to train"):
        build_optimizer([], TrainOptions(lr=1.0))


def test_nesterov_is_sutskevers() -> None:
    """v = 0.9 v + g, w = w - lr (g + 0.9 v), with the decay in g (Sutskever et al. 2013, as PyTorch writes it)."""
    parameters, gradients = parameters_and_gradients(4)
    value = parameters[2].double().requires_grad_()
    naive, v = value.detach().numpy().copy(), np.zeros((5, 7))
    optimizer = build_optimizer([value], TrainOptions(lr=0.1, optimizer="nesterov", weight_decay=1e-2))
    for gradient in gradients:
        value.grad = gradient[2].double()
        g = value.grad.numpy() + 1e-2 * naive
        optimizer.step()
        v = 0.9 * v + g
        naive -= 0.1 * (g + 0.9 * v)
    np.testing.assert_allclose(value.detach().numpy(), naive, rtol=1e-10)


def test_a_training_loads_neither_torchs_compiler_nor_timm() -> None:
    """Each would cost every process of an audit seconds."""
    script = (
        "import sys, numpy as np\n"
        "from memorisk.models.classifiers.zoo import create_model\n"
        "from memorisk.training.classifiers.fit import fit\n"
        "from memorisk.training.engine.options import TrainOptions\n"
        "model = create_model('small_cnn', num_classes=2, in_chans=1, image_size=8, seed=0)\n"
        "images = np.random.default_rng(0).integers(0, 255, (4, 8, 8, 1)).astype(np.uint8)\n"
        "fit(model, images, np.array([0, 1, 0, 1]), np.arange(4), TrainOptions(epochs=1, lr=1e-3), seed=0)\n"
        "print([m for m in ('torch._dynamo', 'timm', 'torchvision') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
