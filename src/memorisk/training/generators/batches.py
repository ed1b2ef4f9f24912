"""The images that a generator sees in each step of its training.

Images are pixels or latents in the range that the network draws, mirrored if the settings request it. They are shuffled
anew at every pass (`training.engine.optimization.batch_order`), and passes follow each other without a gap, so that
every step has a whole batch and the numbers of views of two images differ by at most one. The draws of a step are a
function of (seed, step) alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.images.volumes import is_volume
from memorisk.models.latents import LatentEncoder, open_latents
from memorisk.models.settings import check_latent
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.engine.optimization import batch_order
from memorisk.training.engine.pixels import Normalisation, PixelSource

_HALF = Normalisation((0.5,), (0.5,))


@dataclass(frozen=True)
class RowImages:
    """Rows of a store as the input of a network, x [b, c, h, w] or [b, 1, d, h, w] float32 on the device.

    Attributes:
        shape: Channels, height and width of one image; of a volume 1, depth, height and width.
        source: Source of the images as they are.
        mirrored: Source of their mirror images; None where pixels are mirrored when they are needed.
    """

    shape: tuple[int, ...]
    source: PixelSource
    mirrored: PixelSource | None

    def batches(
        self, slots: Sequence[torch.Tensor], flips: Sequence[torch.Tensor] | None = None
    ) -> Iterator[torch.Tensor]:
        """Yield the batch of each tensor of positions among the rows.

        Args:
            slots: Positions of each batch, [b] int64 each.
            flips: Whether each image is mirrored, [b] bool per batch; none by default.
        """
        if flips is None:
            for x in self.source.batches(slots):
                yield x.reshape(-1, *self.shape)
            return
        if self.mirrored is None:
            for x, flip in zip(self.source.batches(slots), flips, strict=True):
                yield torch.where(flip.to(x.device)[:, None, None, None], x.flip(-1), x).reshape(-1, *self.shape)
            return
        for x, other, flip in zip(self.source.batches(slots), self.mirrored.batches(slots), flips, strict=True):
            yield torch.where(flip.to(x.device)[:, None], other, x).view(-1, *self.shape)


@dataclass(frozen=True)
class ImageView:
    """The images of a store as pixels in [-1, 1] or as latents, before rows are chosen.

    Attributes:
        store: The images with their manifest.
        encoder: Encoder of the latents; None for pixels.
        values: Latents, [N, d], and those of mirrored images where needed; None for pixels.
    """

    store: ImageStore
    encoder: LatentEncoder | None
    values: tuple[np.ndarray, np.ndarray | None] | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a drawn image or latent."""
        height, width, channels = self.store.shape
        return (channels, height, width) if self.encoder is None else self.encoder.latent_shape

    @property
    def _shown_shape(self) -> tuple[int, ...]:
        """Shape of an image as the network sees it: the depth of a volume is an axis, and not channels."""
        return (1, *self.shape) if self.encoder is None and is_volume(self.store.shape) else self.shape

    def shown(self, rows: np.ndarray, device: torch.device) -> RowImages:
        """Return some rows of the images on a device; a row may repeat."""
        if self.values is None:
            images, how = self.store.images, _HALF
            source = PixelSource(images, rows, device=device, dtype=torch.float32, normalisation=how)
            return RowImages(self._shown_shape, source, None)
        sources = [
            None if of is None else PixelSource(of, rows, device=device, dtype=torch.float32, normalisation=None)
            for of in self.values
        ]
        assert sources[0] is not None
        return RowImages(self._shown_shape, sources[0], sources[1])


def view_images(
    store: ImageStore, latent: str, *, flip: bool, device: torch.device, progress: Progress = no_progress
) -> ImageView:
    """Open pixels, or compute latents once: the mean of the posterior, also of the mirrored images.

    Args:
        store: The images, which are squares.
        latent: Name of the space: ``pixels``, or the autoencoder as `memorisk.models.latents` names it.
        flip: Whether images are mirrored.
        device: Device on which latents are computed.
        progress: Function called with (stage, done, total).

    Raises:
        InputError: The images are not squares, or the autoencoder does not exist.
        MissingExtraError: diffusers is not installed.
    """
    height, width, channels = store.shape
    if height != width:
        raise InputError(
            f"images are stored at {height} x {width} pixels; a diffusion transformer takes squares: name a size, as "
            "in 64"
        )
    if latent == "pixels":
        return ImageView(store, None, None)
    check_latent(latent)
    encoder = open_latents(latent, (height, width, channels), size=height, books=store.folder.parent.parent)
    values = _latents(store, encoder, device, progress)
    return ImageView(store, encoder, (values, _latents(_mirror(store), encoder, device, progress) if flip else None))


def _latents(store: ImageStore, encoder: LatentEncoder, device: torch.device, progress: Progress) -> np.ndarray:
    """Compute the latents, [N, d] float32."""
    values = load_latents(store, encoder, device=device, progress=progress).values
    return values.reshape(len(values), -1)


def _mirror(store: ImageStore) -> ImageStore:
    """Return the store of the mirrored images; nothing is copied."""
    hashes = [fingerprint("mirrored", name, length=32) for name in store.pixel_hashes.tolist()]
    return replace(store, images=store.images[:, :, ::-1], pixel_hashes=np.array(hashes, dtype=object))


_DRAWS = 2  # random stream in addition to the order and the step seeds of `optimization`


@dataclass(frozen=True)
class StepDraw:
    """Random draws of a step, for its whole batch.

    Attributes:
        flip: Whether each image is mirrored, [b] bool.
        drop: Whether each image loses its condition, [b] bool.
        times: Noise level of each image, [b] int64.
        seed: Random seed of the noise.
    """

    flip: torch.Tensor
    drop: torch.Tensor
    times: torch.Tensor
    seed: int


class StepPlan:
    """Plan of the batches of a training.

    Args:
        seed: Random seed of the training.
        n: Number of images, at least ``batch_size``.
        batch_size: Number of images of a step.
        drop: Share of the rows that lose their condition.
        times: Number of noise levels.
        slots: Number of places in a pass, where a twin has more images (`batch_order`).
    """

    def __init__(self, seed: int, n: int, batch_size: int, *, drop: float, times: int, slots: int = 0) -> None:
        self.seed, self.batch_size, self.drop, self.times = seed, batch_size, drop, times
        self.n_slots = max(n, slots)
        self._order = lru_cache(maxsize=2)(lambda epoch: batch_order(seed, epoch, n, self.n_slots))

    def slots(self, step: int) -> torch.Tensor:
        """Return positions of the images of a step, [b] int64; of two passes where one ends in it."""
        begin, parts, needed = step * self.batch_size, [], self.batch_size
        while needed:
            epoch, place = divmod(begin, self.n_slots)
            part = self._order(epoch)[place : place + needed]
            parts.append(part)
            begin, needed = begin + len(part), needed - len(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def draw(self, step: int) -> StepDraw:
        """Draw the random numbers of a step."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_DRAWS, step))
        seed = int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator, b = torch.Generator().manual_seed(seed), self.batch_size
        flip = torch.rand(b, generator=generator) < 0.5
        drop = torch.rand(b, generator=generator) < self.drop
        return StepDraw(flip, drop, torch.randint(self.times, (b,), generator=generator), seed)


def draw_noise(seed: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Draw the normal noise of a step, on its device.

    Args:
        seed: Seed of the noise, from `StepDraw`.
        shape: Shape of the whole batch.
        device: Device to draw on.
    """
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(seed), device=device)
