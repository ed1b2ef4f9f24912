"""Which images stand in which step, and what is drawn for them."""

import numpy as np
import pytest
import torch

from memorisk.training.engine.optimization import batch_order
from memorisk.training.generators.batches import StepPlan, draw_noise


@pytest.mark.parametrize(("n", "size"), [(10, 4), (4, 4), (7, 3)])
def test_passes_follow_each_other_without_a_gap(n: int, size: int) -> None:
    plan = StepPlan(3, n, size, drop=0.1, times=1000)
    steps = 3 * n
    found = torch.cat([plan.slots(step) for step in range(steps)])
    assert len(found) == steps * size
    assert torch.equal(found, torch.cat([batch_order(3, epoch, n) for epoch in range(3 * size)]))
    again = StepPlan(3, n, size, drop=0.1, times=1000)
    assert torch.equal(again.slots(steps - 1), found[-size:])  # without those before


def test_a_step_draws_the_same_whenever_it_is_asked_and_others_draw_otherwise() -> None:
    plan = StepPlan(0, 50, 40, drop=0.25, times=1000)
    draws = [plan.draw(step) for step in range(200)]
    assert torch.equal(StepPlan(0, 50, 40, drop=0.25, times=1000).draw(7).times, draws[7].times)
    assert not torch.equal(StepPlan(1, 50, 40, drop=0.25, times=1000).draw(7).times, draws[7].times)
    assert len({draw.seed for draw in draws}) == 200
    rows = 200 * 40
    for found, share in ((torch.stack([d.flip for d in draws]), 0.5), (torch.stack([d.drop for d in draws]), 0.25)):
        assert abs(float(found.float().mean()) - share) < 4 * np.sqrt(share * (1 - share) / rows)
    times = torch.stack([draw.times for draw in draws]).flatten()
    assert times.min() < 10
    assert times.max() > 989
    assert abs(float(times.float().mean()) - 499.5) < 4 * 1000 / np.sqrt(12 * rows)
    noise = draw_noise(draws[0].seed, (40, 1, 8, 8), torch.device("cpu"))
    assert abs(float(noise.std()) - 1) < 0.05
