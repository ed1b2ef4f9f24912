"""Pixels on their way to a network: chosen rows, on the device, as floats, normalised.

Images stay in the integers they are stored in, ``[N, H, W, C]``, until their batch is needed; the conversion costs far
less than a training step, and memory does not grow with it. A permuted view of such a batch is a channels-last tensor,
which the convolution kernels of both CPU and GPU prefer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from memorisk.images.stacked import StackedImages
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.runs.errors import InputError

Images = np.ndarray | torch.Tensor | StackedImages

_RANGE = {torch.uint8: 255.0, torch.uint16: 65535.0}
_SHARE_OF_FREE_MEMORY = 0.5
_AHEAD = 2
_COUNTED_AT_ONCE = 1 << 20  # values; each takes 8 bytes while it is counted


@dataclass(frozen=True)
class Normalisation:
    """Per-channel mean and standard deviation of pixels scaled to [0, 1]: the network sees ``(x - mean) / std``."""

    mean: tuple[float, ...]
    """Mean of each channel."""

    std: tuple[float, ...]
    """Standard deviation of each channel."""


def dataset_normalisation(images: Images) -> Normalisation:
    """Mean and deviation of each channel over *all* the images given, so that every model of an audit shares them.

    Counted by value in integers, hence exact and independent of order. A constant channel keeps a deviation of one
    grey level: it is centred and not blown up.

    Args:
        images: uint8 or uint16, [N, H, W, C].
    """
    array = np.asarray(images.cpu() if isinstance(images, torch.Tensor) else images)
    top = 255 if array.dtype == np.uint8 else 65535
    counts = np.zeros((array.shape[-1], top + 1), dtype=np.int64)
    rows = max(1, _COUNTED_AT_ONCE // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array), rows):
        chunk = array[start : start + rows]
        for channel in range(array.shape[-1]):
            counts[channel] += np.bincount(chunk[..., channel].ravel(), minlength=top + 1)
    level = np.arange(top + 1) / top
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ level
    variance = (share * (level - mean[:, None]) ** 2).sum(axis=1)
    std = np.maximum(np.sqrt(variance), 1 / top)
    return Normalisation(tuple(mean.tolist()), tuple(std.tolist()))


def model_normalisation(spec: ModelSpec, channels: int) -> Normalisation:
    """The mean and deviation an architecture was pre-trained with; averaged over colours for grey images."""
    if channels == len(spec.mean):
        return Normalisation(spec.mean, spec.std)
    mean, std = sum(spec.mean) / len(spec.mean), sum(spec.std) / len(spec.std)
    return Normalisation((mean,) * channels, (std,) * channels)


def choose_normalisation(images: Images, normalise: str | None, spec: ModelSpec | None = None) -> Normalisation | None:
    """The normalisation that ``TrainOptions.normalise`` names, or None where inputs are features and not pixels.

    Raises:
        InputError: for "model" without a specification.
    """
    if images.ndim == 2:
        return None
    channels = int(images.shape[-1])
    if normalise == "none":
        return Normalisation((0.0,) * channels, (1.0,) * channels)
    if normalise == "model":
        if spec is None:
            raise InputError("normalise is 'model', and no model specification was given; use 'dataset'")
        return model_normalisation(spec, channels)
    return dataset_normalisation(images)


def check_images(images: Images) -> None:
    """Refuse anything but uint8 or uint16 pixels [N, H, W, C] or floating-point features [N, d]."""
    dtype = _torch_dtype(images)
    if images.ndim == 2 and dtype.is_floating_point:
        return
    if images.ndim != 4 or dtype not in _RANGE:
        raise InputError(
            f"images are {dtype} of shape {tuple(images.shape)}; "
            "needed are uint8 or uint16 [N, H, W, C], or floating-point features [N, d]"
        )


def _torch_dtype(images: Images) -> torch.dtype:
    return images.dtype if isinstance(images, torch.Tensor) else torch.from_numpy(np.empty(0, images.dtype)).dtype


class PixelSource:
    """Batches of chosen rows, converted on the device.

    Where the pixels are held: for a CPU where they are (an array may be a memory map on the disk); for a GPU, there, if
    they are there already or take at most half of its free memory; otherwise batches are gathered by a thread ahead of
    the training and copied from pinned memory. Stacked images are gathered from their parts.
    """

    def __init__(
        self,
        images: Images,
        rows: np.ndarray,
        *,
        device: torch.device,
        dtype: torch.dtype,
        normalisation: Normalisation | None,
    ) -> None:
        check_images(images)
        self.device, self.dtype = device, dtype
        self.rows = torch.from_numpy(np.array(rows, dtype=np.int64))
        if len(self.rows) and (int(self.rows.min()) < 0 or int(self.rows.max()) >= len(images)):
            raise InputError(
                f"rows run from {int(self.rows.min())} to {int(self.rows.max())}; there are {len(images)} images"
            )
        self.held: torch.Tensor | None = None
        self.array: np.ndarray | None = None
        if isinstance(images, torch.Tensor) and images.device.type == device.type:
            self.held = images
        elif device.type == "cuda" and images.nbytes <= _SHARE_OF_FREE_MEMORY * torch.cuda.mem_get_info(device)[0]:
            self.held = torch.as_tensor(np.ascontiguousarray(images)).to(device)
        else:
            host = images.cpu() if isinstance(images, torch.Tensor) else images
            self.array = cast(np.ndarray, host) if isinstance(host, StackedImages) else np.asarray(host)
        self.shift, self.scale = _shift_and_scale(normalisation, _torch_dtype(images), device, dtype)

    def batches(self, slots: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """For each tensor of slots (positions in ``rows``), its batch: [b, C, H, W] or [b, d], normalised."""
        if self.held is not None:
            rows = self.rows[torch.cat(list(slots))].to(self.held.device)  # one transfer for all batches
            for chosen in rows.split([len(chosen) for chosen in slots]):
                yield self.convert(_pick(self.held, chosen))
        elif self.device.type == "cuda":
            for raw in _ahead(self._gather_pinned, slots):
                yield self.convert(raw)
        else:
            for chosen in slots:
                yield self.convert(self._gather(chosen))

    def convert(self, raw: torch.Tensor) -> torch.Tensor:
        """Stored values to what the network sees: ``(x / range - mean) / std``, a channels-last [b, C, H, W]."""
        x = raw.to(self.device, non_blocking=True).to(self.dtype)
        if self.shift is None or self.scale is None:
            return x
        return x.sub_(self.shift).mul_(self.scale).movedim(-1, 1)

    def _gather(self, chosen: torch.Tensor) -> torch.Tensor:
        assert self.array is not None
        return torch.from_numpy(np.take(self.array, self.rows[chosen].numpy(), axis=0))

    def _gather_pinned(self, chosen: torch.Tensor) -> torch.Tensor:
        return self._gather(chosen).pin_memory()


def _pick(held: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """``held[rows]``; 16 bits are gathered as signed ones, for which every device has a kernel."""
    return held.view(torch.int16)[rows].view(torch.uint16) if held.dtype == torch.uint16 else held[rows]


def _shift_and_scale(
    normalisation: Normalisation | None, stored: torch.dtype, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Mean and reciprocal deviation in stored units, so that a batch needs one subtraction and one product."""
    if normalisation is None or stored.is_floating_point:
        return None, None
    top = _RANGE[stored]
    mean = torch.tensor(normalisation.mean, dtype=torch.float64) * top
    std = torch.tensor(normalisation.std, dtype=torch.float64) * top
    return mean.to(device, dtype), (1 / std).to(device, dtype)


def _ahead(gather: Callable[[torch.Tensor], torch.Tensor], slots: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Results of ``gather`` in order, each computed in a thread up to two batches before it is asked for."""
    with ThreadPoolExecutor(1) as pool:
        waiting: list[Future[torch.Tensor]] = []
        for chosen in slots:
            waiting.append(pool.submit(gather, chosen))
            if len(waiting) > _AHEAD:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()
