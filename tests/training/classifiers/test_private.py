"""DP-SGD: clipping per image, noise of its own, Poisson-sampled slots, and a resumed training that ends the same."""

import copy
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.runs.errors import InputError, MemoriskError
from memorisk.statistics.privacy.accounting import rdp_epsilon
from memorisk.training.classifiers import private
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.private import (
    Privacy,
    cross_check,
    fit_private,
    noise_seeds,
    per_image_loss,
    poisson_slots,
    privacy_of,
    spent_epsilon,
)
from memorisk.training.classifiers.regimes import prepare_regime
from memorisk.training.engine.optimization import batch_bounds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import choose_normalisation
from tests.thorough import thorough
from tests.training.helpers import weights_of

N = 60
OPTIONS = TrainOptions(
    regime=("dp-full",), epsilon=(8,), epochs=2, lr=0.1, batch_size=20, optimizer="sgd", normalise="dataset",
    schedule="constant",
)  # fmt: skip
QUIET = Privacy(epsilon=8, delta=1e-5, noise_multiplier=0.0, clip=0.5, sampling_rate=1 / 3, steps=6)
LOUD = replace(QUIET, noise_multiplier=1.0)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 255, (N, 16, 16, 3), dtype=np.uint8), rng.integers(0, 3, N)


def network(name: str = "small_resnet", options: TrainOptions = OPTIONS) -> nn.Module:
    model = create_model(name, num_classes=3, in_chans=3, image_size=16, seed=0)
    prepare_regime(model, options, seed=0)
    return model


def trained(data: tuple[np.ndarray, np.ndarray], name: str = "small_resnet", **given: object) -> nn.Module:
    options = given.pop("options", OPTIONS)
    assert isinstance(options, TrainOptions)
    model = network(name, options)
    settings = {"seed": 1, "noise_seed": 2, "privacy": LOUD} | given
    fit_private(model, *data, np.arange(N), options, **settings)  # pyright: ignore[reportArgumentType]
    return model


def naive(data: tuple[np.ndarray, np.ndarray], model: nn.Module, options: TrainOptions, privacy: Privacy) -> nn.Module:
    """DP-SGD at noise 0 as it is defined: one gradient an image by autograd, clipped over all tensors together."""
    images, targets = data
    norm = choose_normalisation(images, "dataset")
    assert norm is not None
    x = (torch.from_numpy(images).float() / 255 - torch.tensor(norm.mean)) / torch.tensor(norm.std)
    x, y = x.movedim(-1, 1).contiguous(), torch.from_numpy(targets)
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.train()
    velocity = [torch.zeros_like(p) for p in parameters]
    n_steps = len(batch_bounds(N, options.batch_size))
    for epoch in range(options.epochs or 0):
        for slots in poisson_slots(1, epoch, N, n_steps, privacy.sampling_rate):
            total = [torch.zeros_like(p) for p in parameters]
            for i in slots.tolist():
                loss = nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1])
                own = torch.autograd.grad(loss, parameters)
                size = torch.sqrt(sum((g**2).sum() for g in own))
                for t, g in zip(total, own, strict=True):
                    t += g * min(1.0, privacy.clip / (float(size) + 1e-6))
            with torch.no_grad():
                for p, t, v in zip(parameters, total, velocity, strict=True):
                    v.mul_(0.9).add_(t / options.batch_size)
                    p -= (options.lr or 0) * v
    return model


@pytest.mark.parametrize(
    ("name", "ghost"),
    [
        ("small_resnet", True),
        ("small_resnet", False),
        ("small_vit", True),
        thorough("small_vit", False),
        thorough("small_cnn", True),
        thorough("small_cnn", False),
    ],
)
def test_ghost_and_per_image_clipping_are_the_definition(data: tuple, name: str, ghost: bool) -> None:
    ours = trained(data, name, privacy=QUIET, ghost=ghost)
    theirs = naive(data, network(name), OPTIONS, QUIET)
    start = network(name)
    for (key, a), b, s in zip(ours.named_parameters(), theirs.parameters(), start.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-6), key
        if a.requires_grad:
            assert not torch.equal(a, s), key


@pytest.mark.parametrize(
    "name", [thorough("resnet18"), "resnet50_gn", thorough("mobilenetv3_small_050"), thorough("convnext_atto")]
)
def test_networks_of_timm_train_and_are_themselves_again(data: tuple, name: str) -> None:
    """They add to a layer's output in place, hold activations within norms, and permute: all of it must be survived."""
    images = np.repeat(np.repeat(data[0], 2, axis=1), 2, axis=2)[:12]
    options = replace(OPTIONS, epochs=1, batch_size=6)
    model = create_model(name, num_classes=3, weights="none", image_size=32, seed=0)
    prepare_regime(model, options, seed=0)
    layout = [key for key, _ in model.named_parameters()]
    before = [p.detach().clone() for p in model.parameters()]
    fit_private(model, images, data[1][:12], np.arange(12), options, seed=1, noise_seed=2, privacy=LOUD)
    assert [key for key, _ in model.named_parameters()] == layout
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert all(m == p.requires_grad for m, p in zip(moved, model.parameters(), strict=True))


class Permuting(nn.Module):
    """A network that hands a convolution images with their channels last, as ConvNeXt and SAM do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.embed(x.movedim(1, -1)).movedim(-1, 1))
        return self.head(torch.relu(x).mean(dim=(2, 3)))


def test_channels_in_last_place_are_clipped_as_defined(data: tuple) -> None:
    with seeded(0):
        ours = Permuting()
    theirs = copy.deepcopy(ours)
    fit_private(ours, *data, np.arange(N), OPTIONS, seed=1, noise_seed=2, privacy=QUIET)
    naive(data, theirs, OPTIONS, QUIET)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-6)


def test_adapters_are_clipped_as_defined(data: tuple) -> None:
    options = replace(OPTIONS, regime=("dp-lora",))
    ours = trained(data, "small_vit", options=options, privacy=QUIET)
    theirs = naive(data, network("small_vit", options), options, QUIET)
    for (key, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-6), key


def test_noise_has_the_stated_size_on_every_trained_tensor(data: tuple) -> None:
    options = replace(OPTIONS, epochs=1, lr=1.0, batch_size=N)
    privacy = Privacy(epsilon=8, delta=1e-5, noise_multiplier=3.0, clip=0.5, sampling_rate=1.0, steps=1)
    quiet = trained(data, options=options, privacy=replace(privacy, noise_multiplier=0.0))
    loud = trained(data, options=options, privacy=privacy)
    drawn = (
        torch.cat([(a - b).flatten() for a, b in zip(loud.parameters(), quiet.parameters(), strict=True)]).detach() * N
    )
    expected, n = 3.0 * 0.5, drawn.numel()
    assert abs(float(drawn.mean())) < 5 * expected / n**0.5
    assert float(drawn.std()) == pytest.approx(expected, rel=5 / (2 * n) ** 0.5)


def test_the_same_seeds_give_the_same_bytes_and_other_noise_another_model(data: tuple) -> None:
    first, again, other = (weights_of(trained(data, noise_seed=s)) for s in (2, 2, 3))
    assert first == again
    assert first != other
    assert weights_of(trained(data, seed=5)) != first


def test_nothing_of_opacus_is_left_on_the_network(data: tuple) -> None:
    model = trained(data)
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    assert not any(hasattr(p, name) for p in model.parameters() for name in ("grad_sample", "_norm_sample"))


def test_a_training_that_cannot_begin_leaves_the_network_as_it_was(
    data: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    names = [name for name, _ in model.named_modules()]
    monkeypatch.setattr(private, "build_optimizer", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit_private(model, *data, np.arange(N), OPTIONS, seed=1, noise_seed=2, privacy=LOUD)
    assert [name for name, _ in model.named_modules()] == names
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())


def test_global_random_state_is_left_alone(data: tuple) -> None:
    before = torch.random.get_rng_state()
    trained(data)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_killed_private_training_ends_the_same(data: tuple, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(epoch: int, loss: float) -> None:
        raise Killed

    options = replace(OPTIONS, optimizer="adam", lr=1e-2)
    file = tmp_path / "c.safetensors"
    undisturbed = weights_of(trained(data, options=options))
    with pytest.raises(Killed):
        trained(data, options=options, checkpoint=file, checkpoint_seconds=0, on_epoch=kill)
    assert weights_of(trained(data, options=options, checkpoint=file)) == undisturbed
    with pytest.raises(InputError, match="belongs to another training"):
        trained(data, options=options, checkpoint=file, noise_seed=9)


def test_a_step_in_which_nobody_was_sampled_is_noise_alone(data: tuple) -> None:
    privacy = replace(LOUD, sampling_rate=1e-9)
    assert all(len(s) == 0 for s in poisson_slots(1, 0, N, 3, 1e-9))
    model = trained(data, privacy=privacy)
    assert all(not torch.equal(a, b) for a, b in zip(model.parameters(), network().parameters(), strict=True))
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def test_slots_are_sampled_each_by_itself() -> None:
    slots = poisson_slots(0, 0, 500, 2000, 0.1)
    sizes = np.array([len(s) for s in slots])
    assert sizes.mean() == pytest.approx(50, abs=4 * (45 / 2000) ** 0.5)
    assert sizes.var() == pytest.approx(45, rel=0.15)  # binomial, where fixed batches have none
    counts = np.bincount(torch.cat(slots).numpy(), minlength=500)
    assert abs(counts - 200).max() < 6 * 180**0.5
    assert [s.tolist() for s in poisson_slots(0, 0, 500, 5, 0.1)] == [s.tolist() for s in slots[:5]]
    assert poisson_slots(0, 1, 500, 5, 0.1)[0].tolist() != slots[0].tolist()


def test_noise_depends_on_its_own_seed_alone() -> None:
    assert noise_seeds(1 << 100, 0, 3) == noise_seeds(1 << 100, 0, 3)
    assert len({*noise_seeds(1, 0, 50), *noise_seeds(1, 1, 50), *noise_seeds(2, 0, 50)}) == 150


@pytest.mark.parametrize(
    ("head", "targets"),
    [
        ("single", torch.tensor([0, 2])),
        ("binary", torch.tensor([0.0, 1.0])),
        ("multi", torch.tensor([[1.0, 0, 1]] * 2)),
    ],
)
def test_losses_of_images_average_to_the_objective(head: str, targets: torch.Tensor) -> None:
    from memorisk.training.engine.optimization import objective

    logits = torch.tensor([[0.3, -1.0, 2.0], [0.1, 0.2, 0.3]])[:, : 1 if head == "binary" else 3]
    each = per_image_loss(head)(logits, targets)
    assert each.shape == (2,)
    assert torch.allclose(each.mean(), objective(head, None)(logits, targets))


def test_fit_refuses_a_private_regime(data: tuple) -> None:
    with pytest.raises(InputError, match="trained by fit_private"):
        fit(network(), *data, np.arange(N), OPTIONS, seed=0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_opacus_accountant_finds_what_ours_does(epsilon: float) -> None:
    privacy = privacy_of(1216, replace(OPTIONS, epochs=8, batch_size=64, epsilon=(epsilon,)))
    assert cross_check(privacy) == pytest.approx(epsilon, abs=2e-3)
    with pytest.raises(MemoriskError, match="Opacus' accountant finds epsilon"):
        cross_check(replace(privacy, noise_multiplier=0.9 * privacy.noise_multiplier))


RECIPES = [(1216, 64, 8), (60, 20, 2), (50_000, 512, 30), (400, 400, 60)]
BUDGETS = [8.0, 1.0, 0.1, 50.0]


@pytest.mark.parametrize(
    ("n", "batch", "epochs", "epsilon"),
    [
        (*recipe, budget) if i == k else thorough(*recipe, budget)
        for i, recipe in enumerate(RECIPES)
        for k, budget in enumerate(BUDGETS)
    ],
)
def test_own_accounting_stands_in_for_opacus(monkeypatch, n: int, batch: int, epochs: int, epsilon: float) -> None:
    private_options = replace(OPTIONS, epochs=epochs, batch_size=batch, epsilon=(epsilon,))
    asked = privacy_of.__wrapped__(n, private_options)
    spent = (asked.noise_multiplier, asked.sampling_rate, asked.steps, asked.delta)
    theirs = spent_epsilon(*spent)
    assert theirs <= epsilon
    for name in ("opacus.accountants.analysis.rdp", "opacus.accountants.analysis"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(private, "rdp_epsilon", counted := Mock(wraps=rdp_epsilon))
    assert spent_epsilon(*spent) == pytest.approx(theirs, rel=1e-9)
    assert counted.called
    assert privacy_of.__wrapped__(n, private_options) == asked


def test_the_promise_counts_every_step(data: tuple) -> None:
    privacy = privacy_of(N, OPTIONS)
    assert (privacy.steps, privacy.sampling_rate) == (6, 1 / 3)
    more = privacy_of(N, replace(OPTIONS, epochs=20))
    assert (
        more.noise_multiplier
        > privacy.noise_multiplier
        > privacy_of(N, replace(OPTIONS, epsilon=(16,))).noise_multiplier
    )
    with pytest.raises(InputError, match="is not private"):
        privacy_of(N, TrainOptions(epochs=2))
