"""Which images stand in which step of a training, and what is drawn for them: a function of (seed, step) alone.

Images are shuffled anew at every pass (`memorisk.training.engine.order.batch_order`), and passes follow each other
without a gap, so that every step has a whole batch and every image has been seen as often as any other, but for one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from memorisk.training.engine.order import batch_order

_DRAWS = 2  # beside the order and the step seeds of `order`


@dataclass(frozen=True)
class StepDraw:
    """What is random in a step, for its whole batch.

    Attributes:
        flip: [b] bool, which images are mirrored.
        drop: [b] bool, which lose their condition.
        times: [b] int64, how much noise they get.
        seed: Of the noise.
    """

    flip: torch.Tensor
    drop: torch.Tensor
    times: torch.Tensor
    seed: int


class StepPlan:
    """The batches of a training.

    Args:
        seed: Of the training.
        n: Images, at least as many as ``batch_size``.
        batch_size: Of a step.
        drop: Share of the rows that lose their condition.
        times: Noise levels.
    """

    def __init__(self, seed: int, n: int, batch_size: int, *, drop: float, times: int) -> None:
        self.seed, self.n, self.batch_size, self.drop, self.times = seed, n, batch_size, drop, times
        self._order = lru_cache(maxsize=2)(lambda epoch: batch_order(seed, epoch, n))

    def slots(self, step: int) -> torch.Tensor:
        """Positions of the images of a step, [b] int64; of two passes where one ends in it."""
        begin, found, needed = step * self.batch_size, [], self.batch_size
        while needed:
            epoch, place = divmod(begin, self.n)
            part = self._order(epoch)[place : place + needed]
            found.append(part)
            begin, needed = begin + len(part), needed - len(part)
        return found[0] if len(found) == 1 else torch.cat(found)

    def draw(self, step: int) -> StepDraw:
        """What is random in a step."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_DRAWS, step))
        seed = int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator, b = torch.Generator().manual_seed(seed), self.batch_size
        flip = torch.rand(b, generator=generator) < 0.5
        drop = torch.rand(b, generator=generator) < self.drop
        return StepDraw(flip, drop, torch.randint(self.times, (b,), generator=generator), seed)


def draw_noise(seed: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Normal noise of a step, drawn on its device.

    Args:
        seed: As `StepDraw` has it.
        shape: Of the whole batch.
        device: Where.
    """
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(seed), device=device)
