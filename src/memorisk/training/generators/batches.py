"""What a generator sees of its training images, and in which step.

Images are pixels or latents in the range that the network draws, mirrored where asked. They are shuffled anew at every
pass (`training.engine.optimization.batch_order`), and passes follow each other without a gap, so that every step has a
whole batch and every image has been seen as often as any other, but for one. What is drawn for a step is a function of
(seed, step) alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.latents import LatentEncoder, open_latents
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint
from memorisk.runs.workload import Progress, no_progress
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.engine.optimization import batch_order
from memorisk.training.engine.pixels import Normalisation, PixelSource

_HALF = Normalisation((0.5,), (0.5,))


@dataclass(frozen=True)
class RowImages:
    """Rows of a store as a network sees them, x [b, c, h, w] float32 on the device.

    Attributes:
        shape: Channels, height and width of one.
        source: Of the images as they are.
        mirrored: Of their mirror images; None where pixels are mirrored when they are needed.
    """

    shape: tuple[int, int, int]
    source: PixelSource
    mirrored: PixelSource | None

    def batches(
        self, slots: Sequence[torch.Tensor], flips: Sequence[torch.Tensor] | None = None
    ) -> Iterator[torch.Tensor]:
        """Give the batch of each tensor of positions among the rows.

        Args:
            slots: [b] int64 each.
            flips: Which are mirrored, [b] bool each; none by default.
        """
        if flips is None:
            for x in self.source.batches(slots):
                yield x.view(-1, *self.shape) if x.ndim == 2 else x
            return
        if self.mirrored is None:
            for x, flip in zip(self.source.batches(slots), flips, strict=True):
                yield torch.where(flip.to(x.device)[:, None, None, None], x.flip(-1), x)
            return
        for x, other, flip in zip(self.source.batches(slots), self.mirrored.batches(slots), flips, strict=True):
            yield torch.where(flip.to(x.device)[:, None], other, x).view(-1, *self.shape)


@dataclass(frozen=True)
class ImageView:
    """The images of a store as pixels in [-1, 1] or as latents, before rows are chosen.

    Attributes:
        store: The images.
        encoder: What makes latents of them; None for pixels.
        values: [N, d] latents, and of mirrored images where those are asked for.
    """

    store: ImageStore
    encoder: LatentEncoder | None
    values: tuple[np.ndarray, np.ndarray | None] | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of what is drawn."""
        _, height, width, channels = (int(n) for n in self.store.images.shape)
        return (channels, height, width) if self.encoder is None else self.encoder.latent_shape

    def shown(self, rows: np.ndarray, device: torch.device) -> RowImages:
        """Some rows of them on a device; a row may repeat."""
        if self.values is None:
            images, how = self.store.images, _HALF
            given = PixelSource(images, rows, device=device, dtype=torch.float32, normalisation=how)
            return RowImages(self.shape, given, None)
        sources = [
            None if of is None else PixelSource(of, rows, device=device, dtype=torch.float32, normalisation=None)
            for of in self.values
        ]
        assert sources[0] is not None
        return RowImages(self.shape, sources[0], sources[1])


def view_images(
    store: ImageStore, latent: str, *, flip: bool, device: torch.device, progress: Progress = no_progress
) -> ImageView:
    """Pixels, or latents that are computed once: the mean of the posterior, also of the mirrored images.

    Args:
        store: The images; squares.
        latent: ``pixels``, or the autoencoder as `memorisk.models.latents` names it.
        flip: Whether images are mirrored.
        device: Where latents are computed.
        progress: Called with (stage, done, total).

    Raises:
        InputError: No squares, or no such autoencoder.
        MissingExtraError: diffusers is not there.
    """
    _, height, width, channels = (int(n) for n in store.images.shape)
    if height != width:
        raise InputError(
            f"images are stored at {height} x {width} pixels; a diffusion transformer takes squares: name a size, as "
            "in 64"
        )
    if latent == "pixels":
        return ImageView(store, None, None)
    if not latent.startswith("autoencoder:"):
        raise InputError(f"latent is {latent!r}; it must be pixels, autoencoder:FOLDER or autoencoder:NAME@default")
    encoder = open_latents(latent, (height, width, channels), size=height, books=store.folder.parent.parent)
    values = _latents(store, encoder, device, progress)
    return ImageView(store, encoder, (values, _latents(_mirror(store), encoder, device, progress) if flip else None))


def _latents(store: ImageStore, encoder: LatentEncoder, device: torch.device, progress: Progress) -> np.ndarray:
    """[N, d] float32."""
    values = load_latents(store, encoder, device=device, progress=progress).values
    return values.reshape(len(values), -1)


def _mirror(store: ImageStore) -> ImageStore:
    """The store of the mirrored images; nothing is copied."""
    hashes = [fingerprint("mirrored", name, length=32) for name in store.pixel_hashes.tolist()]
    return replace(store, images=store.images[:, :, ::-1], pixel_hashes=np.array(hashes, dtype=object))


_DRAWS = 2  # beside the order and the step seeds of `order`


@dataclass(frozen=True)
class StepDraw:
    """Random draws of a step, for its whole batch.

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
        """Draw what is random in a step."""
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
