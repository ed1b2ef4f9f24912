"""Losses of a diffusion model on images, by noise level, on noise that is the same for every model.

The loss of an image x at time t is l(x; t, e) = mean |e - e(x_t, t)|^2, the mean squared error of the predicted noise,
averaged over draws of e. The noise is a function of the image's id and the number of the draw alone: it depends neither
on the other images nor on the order of the work, so that losses of two models, or of one at two times, are compared
draw by draw. Draws come in antithetic pairs, e and -e, in whose mean the terms that are odd in e cancel.
`memorisk.scores.noise_errors` joins the levels.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from memorisk.models.generators.denoiser import Denoiser, check_images, part_of
from memorisk.runs.errors import InputError, one_line


def hashed_noise(image_id: str, draw: int, shape: Sequence[int]) -> torch.Tensor:
    """Draw the normal noise of an image: a function of its id and the number of the draw alone.

    Draws 2 k and 2 k + 1 are e and -e. The seed is SHA-256 of the id and k; the numbers are those of NumPy's Philox
    generator, which is the same on every machine, and of its normal distribution, which is the same in every release
    that does not change it (NEP 19).

    Args:
        image_id: Id of the image.
        draw: Number of the draw, from 0.
        shape: Shape of the image.

    Returns:
        Noise of the shape, float32, on the CPU.

    Example:
        >>> bool((hashed_noise("a", 0, (2, 3)) == -hashed_noise("a", 1, (2, 3))).all())
        True
    """
    key = np.frombuffer(hashlib.sha256(f"{draw // 2}:{image_id}".encode()).digest()[:16], dtype="<u8")
    noise = np.random.Generator(np.random.Philox(key=key)).standard_normal(tuple(shape), dtype=np.float32)
    return torch.from_numpy(-noise if draw % 2 else noise)


def noise_losses(
    denoiser: Denoiser,
    images: np.ndarray | torch.Tensor,
    ids: Sequence[str],
    times: Sequence[int] | np.ndarray,
    pairs: int = 8,
    block: int = 64,
    conditions: torch.Tensor | None = None,
) -> np.ndarray:
    """Compute the loss of each image at each level: the mean squared error of its noise, over hashed draws.

    Every level of an image has the same draws. Passes of the network hold rows of several images and levels, ``block``
    each, so that they are as full for few images as for many; memory does not grow with the images.

    Args:
        denoiser: Denoiser, on the device that computes.
        images: Images as the network was trained on them, [N, c, h, w] or [N, c, d, h, w] floating; slices are read.
        ids: Ids of the images, [N].
        times: Times of the levels, [L], as from `levels`.
        pairs: Number of antithetic pairs of draws.
        block: Number of rows in a pass of the network.
        conditions: Conditions of the images, [N, ...], or None.

    Returns:
        Losses, [L, N] float64.

    Raises:
        InputError: Images, ids, times and conditions do not fit each other.
    """
    check_images(images, ids, conditions)
    t_of = _checked_times(times, denoiser)
    if pairs < 1 or block < 1:
        raise InputError(f"pairs is {pairs} and block is {block}; both must be at least 1")
    device, per_image = denoiser.device, 2 * pairs * len(t_of)
    draws = _PairDraws(ids, pairs, tuple(images.shape[1:]))
    losses = torch.empty(len(images), len(t_of), dtype=torch.float64, device=device)
    pending, complete = torch.empty(0, device=device), 0
    with denoiser.measuring():
        for begin in range(0, len(images) * per_image, block):
            rows = torch.arange(begin, min(begin + block, len(images) * per_image))
            image, draw, t = rows // per_image, rows // len(t_of), t_of[rows % len(t_of)]
            first, end = int(image[0]), int(image[-1]) + 1
            x = part_of(images, first, end, device)[(image - first).to(device)]
            condition = None if conditions is None else conditions[image.to(conditions.device)].to(device)
            error = denoiser.noise_error(x, draws.noise(draw, device), t.to(device), condition)
            pending = torch.cat([pending, error])
            ready = len(pending) // per_image  # images of which every row is computed
            table = pending[: ready * per_image].view(ready, 2 * pairs, len(t_of))
            losses[complete : complete + ready] = table.double().mean(dim=1)
            pending, complete = pending[ready * per_image :], complete + ready
    return losses.T.cpu().numpy()


def _checked_times(times: Any, denoiser: Denoiser) -> torch.Tensor:
    """Return the times of levels, [L] int64.

    Raises:
        InputError: They are no whole numbers of the schedule.
    """
    values, last = np.asarray(times), len(denoiser.alpha_bar) - 1
    whole = values.ndim == 1 and values.dtype.kind in "iu" and len(values) > 0
    if not whole or int(values.min()) < 0 or int(values.max()) > last:
        raise InputError(f"times of levels are {one_line(times, 60)}: give whole numbers from 0 to {last}")
    return torch.from_numpy(values.astype(np.int64))


class _PairDraws:
    """Hashed noise of the rows of consecutive passes; what two passes share is drawn once.

    Args:
        ids: Ids of the images.
        pairs: Number of antithetic pairs of each image.
        shape: Shape of an image.
    """

    def __init__(self, ids: Sequence[str], pairs: int, shape: tuple[int, ...]) -> None:
        self.ids, self.pairs, self.shape = ids, pairs, shape
        self.latest: dict[int, torch.Tensor] = {}

    def noise(self, draw: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return the noise of rows, [b, ...]; draws are counted over the images, and rise.

        Args:
            draw: Number of the draw of each row, image times 2 pairs plus its own, [b].
            device: Device that computes.
        """
        pair, sign = draw // 2, 1 - 2 * (draw % 2)
        first = int(pair[0])
        self.latest = {k: self._pair(k) for k in range(first, int(pair[-1]) + 1)}
        fields = torch.stack(list(self.latest.values())).to(device)
        return fields[(pair - first).to(device)] * sign.to(device).view(-1, *[1] * len(self.shape))

    def _pair(self, k: int) -> torch.Tensor:
        """Return the noise of a pair, which the pass before may have had."""
        if k in self.latest:
            return self.latest[k]
        return hashed_noise(self.ids[k // self.pairs], 2 * (k % self.pairs), self.shape)
