"""Order, seeds, batches and learning rates are functions of what they are said to be functions of."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memorisk.runs.errors import InputError
from memorisk.training.engine.optimization import batch_bounds, batch_order, learning_rate, step_seeds


@given(seed=st.integers(0, 2**40), epoch=st.integers(0, 500), n=st.integers(1, 300))
def test_order_is_a_permutation_that_repeats(seed: int, epoch: int, n: int) -> None:
    order = batch_order(seed, epoch, n)
    assert sorted(order.tolist()) == list(range(n))
    assert torch.equal(order, batch_order(seed, epoch, n))


def test_order_changes_with_seed_and_epoch() -> None:
    orders = {tuple(batch_order(seed, epoch, 50).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_slot_visits_every_position() -> None:
    """Over many epochs the mean position of a slot is that of a uniform draw, within four standard errors."""
    n, epochs = 20, 2000
    position = np.empty((epochs, n))
    for epoch in range(epochs):
        position[epoch, batch_order(7, epoch, n).numpy()] = np.arange(n)
    standard_error = np.sqrt((n**2 - 1) / 12 / epochs)
    assert np.abs(position.mean(axis=0) - (n - 1) / 2).max() < 4 * standard_error


def test_step_seeds_depend_on_step_not_on_their_number() -> None:
    many = step_seeds(3, 4, 100)
    assert many[:7] == step_seeds(3, 4, 7)
    assert len(set(many)) == 100
    assert not set(many) & set(step_seeds(3, 5, 100))
    assert not set(many) & set(step_seeds(4, 4, 100))
    assert all(0 <= seed < 2**63 for seed in many)


def test_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        batch_order(-1, 0, 10)


@given(n=st.integers(2, 400), size=st.integers(2, 70))
def test_batches_cover_all_slots_and_none_is_alone(n: int, size: int) -> None:
    bounds = batch_bounds(n, size)
    assert [slot for start, stop in bounds for slot in range(start, stop)] == list(range(n))
    lengths = [stop - start for start, stop in bounds]
    assert min(lengths) >= 2
    assert max(lengths) <= size + 1
    assert lengths[:-1] == [size] * (len(lengths) - 1)
    assert len(bounds) == max(1, -(-n // size) - (n % size == 1 and n > size))


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_images_are_refused(n: int) -> None:
    with pytest.raises(InputError, match="at least 2 images"):
        batch_bounds(n, 64)


def test_cosine_is_torchs() -> None:
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    for epoch in range(30):
        # torch updates its rate by a recursion, which drifts by a few units in the last place
        assert learning_rate("cosine", 3e-4, epoch, 30) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        scheduler.step()
    assert learning_rate("constant", 3e-4, 29, 30) == 3e-4


@pytest.mark.parametrize(("epochs", "tenth", "hundredth"), [(300, 150, 225), (40, 20, 30), (5, 3, 4), (1, None, None)])
def test_steps_are_huangs(epochs: int, tenth: int | None, hundredth: int | None) -> None:
    """Huang et al. (2018): 300 epochs, divided by ten at 50 % and again at 75 %."""
    rates = [learning_rate("step", 0.1, epoch, epochs) for epoch in range(epochs)]
    assert rates == pytest.approx(
        [0.1 if tenth is None or e < tenth else 0.01 if e < (hundredth or 0) else 0.001 for e in range(epochs)]
    )


def test_exponential_is_torchs_schedule_stepped_each_epoch() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    for epoch in range(30):
        assert learning_rate("exponential", 1e-4, epoch, 30) == pytest.approx(scheduler.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        scheduler.step()
