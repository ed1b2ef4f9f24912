"""Losses of a diffusion model on images, by noise level, on noise that is the same for every model.

The loss of an image x at time t is l(x; t, e) = mean |e - e(x_t, t)|^2, the mean squared error of the predicted noise,
averaged over draws of e. The noise is a function of the image's id and the number of the draw alone: it depends neither
on the other images nor on the order of the work, so that losses of two models, or of one at two times, are compared
draw by draw. Draws come in antithetic pairs, e and -e, in whose mean the terms that are odd in e cancel.
`memorisk.scores.noise_errors` joins the levels.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from memorisk.models.generators.denoiser import Denoiser, check_images, part_of
from memorisk.runs.errors import InputError, one_line

_LARGEST_BLOCK = 1024
_NUMBERS_PER_BLOCK = 1 << 20


def hashed_noise(image_id: str, draw: int, shape: Sequence[int]) -> torch.Tensor:
    """Draw the normal noise of an image: a function of its id and the number of the draw alone.

    The id's SHA-256 is the key of a random stream, of which pair k has the k-th part; draws 2 k and 2 k + 1 are e and
    -e of that pair. The stream is NumPy's Philox, the same on every machine, and its normal distribution, the same in
    every release that does not change it (NEP 19).

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
    noise = torch.from_numpy(_pairs_of(image_id, draw // 2 + 1, shape)[-1])
    return -noise if draw % 2 else noise


def noise_losses(
    denoiser: Denoiser,
    images: np.ndarray | torch.Tensor,
    ids: Sequence[str],
    times: Sequence[int] | np.ndarray,
    pairs: int = 8,
    block: int | None = None,
    conditions: torch.Tensor | None = None,
) -> np.ndarray:
    """Compute the loss of each image at each level: the mean squared error of its noise, over hashed draws.

    Every level of an image has the same draws. A pass of the network holds rows of several images, draws and levels,
    so that passes are as full for few images as for many; memory does not grow with the images.

    Args:
        denoiser: Denoiser, on the device that computes.
        images: Images as the network was trained on them, [N, c, h, w] or [N, c, d, h, w] floating; slices are read.
        ids: Ids of the images, [N].
        times: Times of the levels, [L], as from `memorisk.models.generators.denoiser.levels`.
        pairs: Number of antithetic pairs of draws.
        block: Number of rows in a pass of the network; by default up to 1,024, of a million numbers.
        conditions: Conditions of the images, [N, ...], or None.

    Returns:
        Losses, [L, N] float64.

    Raises:
        InputError: Images, ids, times and conditions do not fit each other.
    """
    check_images(images, ids, conditions)
    t_of = _checked_times(times, denoiser)
    shape = tuple(images.shape[1:])
    block = rows_per_pass(block, shape)
    if pairs < 1:
        raise InputError(f"pairs is {pairs}; it must be at least 1")
    device, per_image = denoiser.device, 2 * pairs
    noise = _ImageNoise(ids, pairs, shape)
    losses = torch.empty(len(images), len(t_of), dtype=torch.float64, device=device)
    pending, complete = torch.empty(0, len(t_of), device=device), 0
    with denoiser.measuring():
        for draw in _blocks(len(images) * per_image, max(1, block // len(t_of))):
            image = draw // per_image
            first, end = int(image[0]), int(image[-1]) + 1
            x = part_of(images, first, end, device)[(image - first).to(device)]
            e = noise.of_images(first, end, device)[(draw - per_image * first).to(device)]
            condition = None if conditions is None else conditions[image.to(conditions.device)].to(device)
            errors = [denoiser.noise_errors(x, e, t.to(device), condition) for t in t_of.split(block)]
            pending = torch.cat([pending, torch.cat(errors, dim=1)])
            ready = len(pending) // per_image  # images of which every draw is computed
            table = pending[: ready * per_image].unflatten(0, (ready, per_image))
            losses[complete : complete + ready] = table.double().mean(dim=1)
            pending, complete = pending[ready * per_image :], complete + ready
    return losses.T.cpu().numpy()


def _blocks(n: int, size: int) -> Iterator[torch.Tensor]:
    """Yield the numbers from 0 to n - 1 in blocks."""
    for begin in range(0, n, size):
        yield torch.arange(begin, min(begin + size, n))


def rows_per_pass(block: int | None, shape: Sequence[int]) -> int:
    """Return the number of rows in a pass of the network.

    Args:
        block: Requested number; None for up to 1,024, of a million numbers.
        shape: Shape of an image.

    Raises:
        InputError: The number is below 1.
    """
    if block is not None and block < 1:
        raise InputError(f"block is {block}; it must be at least 1")
    return block or max(1, min(_LARGEST_BLOCK, _NUMBERS_PER_BLOCK // int(np.prod(shape))))


def _pairs_of(image_id: str, pairs: int, shape: Sequence[int]) -> np.ndarray:
    """Draw the first noise of each of an image's pairs, [pairs, ...] float32."""
    key = np.frombuffer(hashlib.sha256(image_id.encode()).digest()[:16], dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key)).standard_normal((pairs, *shape), dtype=np.float32)


def _checked_times(times: Any, denoiser: Denoiser) -> torch.Tensor:
    """Return the times of levels, [L] int64.

    Raises:
        InputError: One of them is not a time of the schedule.
    """
    values, last = np.asarray(times), len(denoiser.alpha_bar) - 1
    whole = values.ndim == 1 and values.dtype.kind in "iu" and len(values) > 0
    if not whole or int(values.min()) < 0 or int(values.max()) > last:
        raise InputError(f"times of levels are {one_line(times, 60)}: give whole numbers from 0 to {last}")
    return torch.from_numpy(values.astype(np.int64))


class _ImageNoise:
    """Hashed noise of the images of consecutive passes; what two passes share is drawn once.

    Args:
        ids: Ids of the images.
        pairs: Number of antithetic pairs of each image.
        shape: Shape of an image.
    """

    def __init__(self, ids: Sequence[str], pairs: int, shape: tuple[int, ...]) -> None:
        self.ids, self.pairs, self.shape = ids, pairs, shape
        self.latest: dict[int, torch.Tensor] = {}

    def of_images(self, first: int, end: int, device: torch.device) -> torch.Tensor:
        """Return the noise of every draw of some images, [(end - first) 2 pairs, ...].

        Args:
            first: Place of the first image.
            end: Place after the last one.
            device: Device that computes.
        """
        self.latest = {k: self.latest[k] if k in self.latest else self._draws(k, device) for k in range(first, end)}
        return torch.cat(list(self.latest.values()))

    def _draws(self, k: int, device: torch.device) -> torch.Tensor:
        """Return the noise of every draw of an image, [2 pairs, ...]."""
        e = torch.from_numpy(_pairs_of(self.ids[k], self.pairs, self.shape)).to(device)
        return torch.stack([e, -e], dim=1).flatten(0, 1)
