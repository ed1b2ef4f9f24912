"""What a diffusion model sees of its training images: pixels or latents in the range it draws, mirrored where asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.latents import LatentEncoder, open_latents
from memorisk.runs.errors import InputError
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.autoencoders.latent_store import load_latents
from memorisk.training.engine.pixels import Normalisation, PixelSource

_HALF = Normalisation((0.5,), (0.5,))


@dataclass(frozen=True)
class ShownImages:
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
        """For each tensor of positions among the rows, its batch.

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

    def shown(self, rows: np.ndarray, device: torch.device) -> ShownImages:
        """Some rows of them on a device; a row may repeat."""
        if self.values is None:
            images, how = self.store.images, _HALF
            given = PixelSource(images, rows, device=device, dtype=torch.float32, normalisation=how)
            return ShownImages(self.shape, given, None)
        sources = [
            None if of is None else PixelSource(of, rows, device=device, dtype=torch.float32, normalisation=None)
            for of in self.values
        ]
        assert sources[0] is not None
        return ShownImages(self.shape, sources[0], sources[1])


def view_images(
    store: ImageStore, latent: str, *, flip: bool, device: torch.device, progress: Progress = quiet
) -> ImageView:
    """Pixels, or latents that are computed once: the mean of the posterior, also of the mirrored images.

    Args:
        store: The images; squares.
        latent: ``pixels``, or the autoencoder as `memorisk.models.autoencoders.latents` names it.
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
