"""Pixels on their way to a network: chosen rows, on the device, as floats, normalised and augmented.

Images stay in the integers they are stored in, ``[N, H, W, C]``, until their batch is needed; the conversion costs far
less than a training step, and memory does not grow with it. A permuted view of such a batch is a channels-last tensor,
which the convolution kernels of both CPU and GPU prefer.

Augmentations are batched and on the device. The draws for slot j of a step derive from (seed, epoch, step) on the
CPU, so that twins, and CPU and GPU, draw alike. Plain transforms need no library. ``contrast`` and ``shift1`` are those
of paper 002, A.4: "We randomly adjust the contrast by a factor of 0.2 and we apply random cropping (27, 27) so that we
ensure we do not remove the unique features from the image".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.images.stacked_images import StackedImages
from memorisk.models.classifiers.specs import ModelSpec
from memorisk.runs.errors import InputError, unknown_name
from memorisk.training.engine.options import AUGMENTATION_NAMES

Images = np.ndarray | torch.Tensor | StackedImages

_RANGE = {torch.uint8: 255.0, torch.uint16: 65535.0}
_SHARE_OF_FREE_MEMORY = 0.5
_COPIED_BYTES = 1 << 28
"""Bytes of images that are copied to a device in one step."""
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
    """Compute mean and deviation of each channel over *all* given images, so that every model of an audit shares them.

    They are counted by value in integers, hence exact and independent of order. A constant channel keeps a deviation of
    one grey level: it is centred but not amplified.

    Args:
        images: Images, uint8 or uint16, [N, H, W, C].
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
    """Return the mean and deviation an architecture was pre-trained with; averaged over colours for grey images."""
    if channels == len(spec.mean):
        return Normalisation(spec.mean, spec.std)
    mean, std = sum(spec.mean) / len(spec.mean), sum(spec.std) / len(spec.std)
    return Normalisation((mean,) * channels, (std,) * channels)


def choose_normalisation(images: Images, normalise: str | None, spec: ModelSpec | None = None) -> Normalisation | None:
    """Return the normalisation that ``TrainOptions.normalise`` names, or None where inputs are features, not pixels.

    Raises:
        InputError: The value is "model" and no specification is given.
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

    The pixels are held in one of three places. For a CPU they stay in place (an array may be a memory map on the disk).
    For a GPU they are held there, if they are there already or take at most half of its free memory; otherwise a thread
    gathers batches ahead of the training, and they are copied from pinned memory. Stacked images are gathered from
    their parts.
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
            self.held = _on_device(images, device)
        else:
            host = images.cpu() if isinstance(images, torch.Tensor) else images
            self.array = cast(np.ndarray, host) if isinstance(host, StackedImages) else np.asarray(host)
        self.shift, self.scale = _shift_and_scale(normalisation, _torch_dtype(images), device, dtype)

    def batches(self, slots: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """Yield the batch of each tensor of slots (positions in ``rows``): [b, C, H, W] or [b, d], normalised."""
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
        """Convert stored values to the network's input: ``(x / range - mean) / std``, a channels-last [b, C, H, W]."""
        x = raw.to(self.device, non_blocking=True).to(self.dtype)
        if self.shift is None or self.scale is None:
            return x
        return x.sub_(self.shift).mul_(self.scale).movedim(-1, 1)

    def _gather(self, chosen: torch.Tensor) -> torch.Tensor:
        assert self.array is not None
        return torch.from_numpy(np.take(self.array, self.rows[chosen].numpy(), axis=0))

    def _gather_pinned(self, chosen: torch.Tensor) -> torch.Tensor:
        return self._gather(chosen).pin_memory()


def _on_device(images: Images, device: torch.device) -> torch.Tensor:
    """Copy images to a device, block by block: arrays are often read-only, of which PyTorch makes no tensor."""
    held = torch.empty(tuple(images.shape), dtype=_torch_dtype(images), device=device)
    step = max(1, _COPIED_BYTES * len(images) // max(images.nbytes, 1))
    for first in range(0, len(images), step):
        block = images[first : first + step]
        held[first : first + step] = block if isinstance(block, torch.Tensor) else torch.tensor(np.asarray(block))
    return held


def _pick(held: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return ``held[rows]``; 16 bits are gathered as signed ones, for which every device has a kernel."""
    return held.view(torch.int16)[rows].view(torch.uint16) if held.dtype == torch.uint16 else held[rows]


def _shift_and_scale(
    normalisation: Normalisation | None, stored: torch.dtype, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return mean and reciprocal deviation in stored units, so that a batch needs one subtraction and one product."""
    if normalisation is None or stored.is_floating_point:
        return None, None
    top = _RANGE[stored]
    mean = torch.tensor(normalisation.mean, dtype=torch.float64) * top
    std = torch.tensor(normalisation.std, dtype=torch.float64) * top
    return mean.to(device, dtype), (1 / std).to(device, dtype)


def _ahead(gather: Callable[[torch.Tensor], torch.Tensor], slots: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield results of ``gather`` in order, each computed in a thread up to two batches before it is needed."""
    with ThreadPoolExecutor(1) as pool:
        waiting: list[Future[torch.Tensor]] = []
        for chosen in slots:
            waiting.append(pool.submit(gather, chosen))
            if len(waiting) > _AHEAD:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


Augmentation = Callable[[torch.Tensor, int], torch.Tensor]
Transform = Callable[[torch.Tensor, torch.Generator], torch.Tensor]

AUGMENTATIONS: dict[str, Transform] = {}
_ROTATION_DEGREES = 20.0
_SMALLEST_CROP = 0.8
_CONTRAST = 0.2
_SAMPLE = 32


def augmentation(name: str) -> Callable[[Transform], Transform]:
    """Register a transform ``(x [b, C, H, W], generator on the CPU) -> x`` under a name."""

    def register(transform: Transform) -> Transform:
        """Keep a transform under the name."""
        assert name in AUGMENTATION_NAMES, name
        AUGMENTATIONS[name] = transform
        return transform

    return register


@augmentation("hflip")
def hflip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror left to right with probability one half."""
    return _flip(x, generator, dim=3)


@augmentation("vflip")
def vflip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror top to bottom with probability one half."""
    return _flip(x, generator, dim=2)


@augmentation("rotate")
def rotate(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Turn by an angle uniform in +-20 degrees, bilinear, the border continued by reflection."""
    angle = (torch.rand(len(x), generator=generator) * 2 - 1) * (_ROTATION_DEGREES * torch.pi / 180)
    aspect = x.shape[2] / x.shape[3]
    theta = torch.zeros(len(x), 2, 3)
    theta[:, 0, 0], theta[:, 0, 1] = angle.cos(), -angle.sin() * aspect
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin() / aspect, angle.cos()
    return _warp(x, theta)


@augmentation("crop")
def crop(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Enlarge a square part of 80 to 100 % of the side, placed uniformly, to the full size."""
    scale = _SMALLEST_CROP + (1 - _SMALLEST_CROP) * torch.rand(len(x), generator=generator)
    shift = (torch.rand(len(x), 2, generator=generator) * 2 - 1) * (1 - scale)[:, None]
    theta = torch.zeros(len(x), 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = scale
    theta[:, :, 2] = shift
    return _warp(x, theta)


@augmentation("contrast")
def contrast(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Spread values about each channel's own mean by a factor uniform in 0.8 to 1.2, one for each image.

    The formula is ``(x - mean) f + mean`` as in tf.image.random_contrast. It is affine, so that it does the same to
    normalised pixels; nothing is clipped.
    """
    factor = 1 - _CONTRAST + 2 * _CONTRAST * torch.rand(len(x), generator=generator)
    mean = x.mean(dim=(2, 3), keepdim=True)
    return (x - mean) * factor.to(x.device, x.dtype)[:, None, None, None] + mean


@augmentation("shift1")
def shift1(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Cut a part one pixel smaller in each direction, from one of its four places, and put it back at the top left.

    The edge is repeated in the remaining row and column: the size does not change, and nothing one pixel from the
    border is lost (27 x 27 of 28 x 28).
    """
    height, width = x.shape[2:]
    if min(height, width) < 2:
        raise InputError(f"augmentation 'shift1' needs at least 2 px a side; these images have {height} x {width}")
    offset = torch.randint(2, (len(x), 2), generator=generator)
    row = (torch.arange(height).clamp(max=height - 2) + offset[:, :1]).to(x.device)
    column = (torch.arange(width).clamp(max=width - 2) + offset[:, 1:]).to(x.device)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    return x.movedim(1, -1)[image, row[:, :, None], column[:, None, :]].movedim(-1, 1)  # channels stay last in memory


def build_augmentation(names: Sequence[str], source: PixelSource) -> Augmentation | None:
    """Chain the named transforms, one after another; None for none.

    Each is tried on up to 32 of the images first: one that changes none of their pixels is refused, since a report
    would name an augmentation that never took place.

    Raises:
        InputError: A name is unknown, the inputs are not images, or a transform has no effect.
    """
    if not names:
        return None
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown_name("augmentation", name, AUGMENTATIONS)
    sample = next(source.batches([torch.arange(min(_SAMPLE, len(source.rows)))]))
    if sample.ndim != 4:
        raise InputError("augmentation needs images; these are features")
    for name in names:
        if torch.equal(AUGMENTATIONS[name](sample, torch.Generator().manual_seed(0)), sample):
            raise InputError(f"augmentation {name!r} changes no pixel of these images: leave it out")
    transforms = [AUGMENTATIONS[name] for name in names]

    def augment(x: torch.Tensor, seed: int) -> torch.Tensor:
        """Apply the transforms in their order, all drawn from one seed."""
        generator = torch.Generator().manual_seed(seed)
        for transform in transforms:
            x = transform(x, generator)
        return x

    return augment


def _flip(x: torch.Tensor, generator: torch.Generator, dim: int) -> torch.Tensor:
    chosen = (torch.rand(len(x), generator=generator) < 0.5).to(x.device)
    return torch.where(chosen[:, None, None, None], x.flip(dim), x)


def _warp(x: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    grid = F.affine_grid(theta.to(x.device, x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
