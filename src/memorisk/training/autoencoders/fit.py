"""One training of an autoencoder with a Kullback-Leibler term, as latent diffusion uses it (paper 004, section 3.1).

    loss = mean |x - D(z)| + kl_weight mean KL(q(z|x) || N(0, 1)),   z ~ q(z|x) = N(mean, variance)

Pixels are scaled to [-1, 1]; each mean is over all numbers of a batch. The mean absolute error on the validation
images, reconstructed from the posterior mean, chooses the epoch. The loss has neither an adversarial nor a perceptual
term: reconstructions are smooth, and no network that was trained on other images takes part. Everything random derives
from (seed, epoch, step), so that a killed training continues to the same bytes.

`measure_reconstruction` compares it, on images that chose nothing, with a resizing that keeps as many numbers. A
patient's figure is the mean over the patient's images; the interval is a t over patients.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import autoencoder_class
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.hub import quiet
from memorisk.models.provenance import TrainingRecord
from memorisk.runs.errors import InputError
from memorisk.runs.files import fingerprint, fsync_folder
from memorisk.runs.workload import Progress
from memorisk.scores.reconstruction import psnr, ssim
from memorisk.statistics.intervals.means import two_way_interval
from memorisk.training.autoencoders.options import AutoencoderOptions
from memorisk.training.engine.data import Division
from memorisk.training.engine.devices import autocast, exact_products, place
from memorisk.training.engine.epoch_training import EpochSetup, EpochTraining, limit_validation
from memorisk.training.engine.loop import Bounds, check_early_stopping
from memorisk.training.engine.optimization import batch_order, step_seeds
from memorisk.training.engine.pixels import Normalisation, PixelSource

MOST_VALIDATED = 2000
_HALF = Normalisation((0.5,), (0.5,))
_LOG_VARIANCE = -6.0
_NOT_OF_THE_RESULT = ("device", "checkpoint_seconds")


class AutoencoderTraining(EpochTraining):
    """A training of an autoencoder, checked and on its device.

    Args:
        store: The images with their manifest.
        division: Rows that train and rows that choose the epoch.
        options: Settings of the training.

    Raises:
        InputError: The images are not squares whose side can be halved often enough.
        MissingExtraError: diffusers is not installed.
    """

    options: AutoencoderOptions

    def __init__(self, store: ImageStore, division: Division, options: AutoencoderOptions) -> None:
        height, width, channels = store.shape
        factor = options.downsampling
        if height != width or height % factor or height < 2 * factor:
            raise InputError(
                f"images are stored at {height} x {width} pixels; an autoencoder takes squares, a multiple of {factor} "
                f"and at least {2 * factor} pixels a side: name a size, as in 64"
            )
        chosen, what = division.rows["validation"], "The epoch is chosen on"
        self.store, self.rows = store, division.rows["training"]
        self.validation, self.notes = limit_validation(chosen, MOST_VALIDATED, options.seed, what)
        check_early_stopping(self.rows, self.validation, options.patience)
        super().__init__(options)
        self.network = new_autoencoder(options.architecture(height, channels), options.seed)
        place(self.network, self.device)
        how = [self.precision, self.device.type, str(torch.__version__), store.images.shape[1:]]
        pixels = [store.pixel_hashes[rows].tolist() for rows in (self.rows, self.validation)]
        self.key = fingerprint([recipe(options), *how], pixels, length=32)

    @property
    def setup(self) -> EpochSetup:
        """Return what the loop of epochs needs."""
        return EpochSetup(
            tensors=self.network.state_dict(),
            trained=self.network.parameters(),
            options=self.options.steps,
            slots=len(self.rows),
            figures={"error": -1},
            patience=self.options.patience,
            measured_at_start=False,
        )

    def look(self) -> dict[str, float]:
        """Measure how well the network renders the validation images."""
        return {"error": self.error(self.validation)}

    @cached_property
    def source(self) -> PixelSource:
        """Pixels of the training rows, scaled to [-1, 1]."""
        images, device = self.store.images, self.device
        return PixelSource(images, self.rows, device=device, dtype=torch.float32, normalisation=_HALF)

    def losses(self, reseed: Callable[[int], None], epoch: int, bounds: Bounds) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch of an epoch."""
        network, options = self.network.train(), self.options
        order = batch_order(options.seed, epoch, len(self.rows))
        slots = [order[begin:end] for begin, end in bounds]
        seeds = step_seeds(options.seed, epoch, len(bounds))
        for step_seed, x in zip(seeds, self.source.batches(slots), strict=True):
            reseed(step_seed)
            with autocast(self.device, self.precision):
                posterior = network.encode(x).latent_dist
                noise = torch.randn(posterior.mean.shape, device=self.device, dtype=posterior.mean.dtype)
                rendered = network.decode(posterior.mean + posterior.std * noise).sample
            numbers = posterior.mean[0].numel()
            yield (rendered.float() - x).abs().mean() + options.kl_weight * posterior.kl().float().mean() / numbers

    def error(self, rows: np.ndarray) -> float:
        """Return the mean absolute error of pixels in [0, 1], rendered from the posterior mean; float64 over images."""
        total = 0.0
        for begin in range(0, len(rows), self.block):
            rendered, wanted = self.rendered(rows[begin : begin + self.block])
            total += float(np.abs(rendered.astype(np.float64) - wanted).sum())
        return total / (len(rows) * int(np.prod(self.store.images.shape[1:])))

    @property
    def block(self) -> int:
        """Number of images that are rendered at a time."""
        side = self.store.shape[0]
        return max(1, min(256, (1 << 20) // side**2))

    def rendered(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return images rendered from their posterior mean, in full precision, and the images as they are.

        Args:
            rows: Rows of the store, few enough to be held at once.

        Returns:
            Rendered and original images, [n, C, h, w] float32 in [0, 1] each.
        """
        images = np.asarray(self.store.images[rows])
        wanted = np.moveaxis(images, -1, 1).astype(np.float32) / float(np.iinfo(images.dtype).max)
        self.network.eval()
        with torch.inference_mode(), exact_products(self.device):
            x = torch.from_numpy(wanted).to(self.device).contiguous(memory_format=torch.channels_last) * 2 - 1
            decoded = self.network.decode(self.network.encode(x).latent_dist.mode()).sample
        return ((decoded.float() + 1) / 2).clamp(0, 1).cpu().numpy(), wanted

    def latents(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield posterior means [n, c, h, w] of images, a block at a time."""
        source = PixelSource(self.store.images, rows, device=self.device, dtype=torch.float32, normalisation=_HALF)
        self.network.eval()
        for x in source.batches(torch.arange(len(rows)).split(self.block)):
            with torch.inference_mode(), exact_products(self.device):
                mode = self.network.encode(x).latent_dist.mode()
            yield mode.float().cpu().numpy()


def recipe(options: AutoencoderOptions) -> dict[str, Any]:
    """Return every setting that the weights depend on, by name."""
    settings = {field.name: getattr(options, field.name) for field in fields(AutoencoderOptions)}
    return {name: value for name, value in settings.items() if name not in _NOT_OF_THE_RESULT} | {
        "block_channels": options.widths
    }


def new_autoencoder(architecture: dict[str, Any], seed: int) -> Any:
    """Build an AutoencoderKL, its weights drawn from a seed.

    Each residual block begins as the identity, and the posterior with a variance of exp(-6): the first steps learn from
    the image and not from noise.

    Args:
        architecture: Configuration of the network, as `AutoencoderOptions.architecture` gives it.
        seed: Random seed of the weights.

    Raises:
        MissingExtraError: diffusers is not installed.
    """
    kind = autoencoder_class("training an autoencoder")
    with quiet("diffusers"), seeded(seed):
        network = kind(**architecture)
    with torch.no_grad():
        for block in network.modules():
            if type(block).__name__ == "ResnetBlock2D":
                block.conv2.weight.zero_()
                block.conv2.bias.zero_()
        log_variance = slice(architecture["latent_channels"], None)
        network.quant_conv.weight[log_variance] = 0
        network.quant_conv.bias[log_variance] = _LOG_VARIANCE
    return network


def save_autoencoder(network: Any, folder: Path, seen: TrainingRecord, *, scaling_factor: float) -> None:
    """Write a folder that `diffusers.AutoencoderKL.from_pretrained` opens; it takes its name when it is whole.

    Args:
        network: The autoencoder.
        folder: Folder to write, not there yet or left by an earlier try.
        seen: The images that it was trained and chosen on.
        scaling_factor: Factor that brings latents to a deviation of 1.
    """
    building = folder.with_name(f".{folder.name}.building")
    for old in (building, folder):
        shutil.rmtree(old, ignore_errors=True)
    network.register_to_config(scaling_factor=scaling_factor)
    with quiet("diffusers"):
        network.cpu().to(memory_format=torch.contiguous_format).save_pretrained(building, safe_serialization=True)
    seen.save(building)
    building.chmod(0o700)
    for file in building.iterdir():
        file.chmod(0o600)
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())
    building.replace(folder)
    fsync_folder(folder.parent)


def baseline_side(numbers: int, channels: int, side: int) -> int:
    """Return the side in pixels of the largest square image with at most so many numbers, no larger than the image.

    Args:
        numbers: Number of values of a latent.
        channels: Number of channels of the image.
        side: Side of the image, in pixels.
    """
    return max(1, min(side, int(np.sqrt(numbers / channels))))


def resize_and_restore(images: np.ndarray, side: int) -> np.ndarray:
    """Make images smaller and as large again, bilinear with antialias.

    Args:
        images: Images, [n, C, h, w] float32.
        side: Side of the small images, in pixels.
    """
    x = torch.from_numpy(images)
    small = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, x.shape[2:], mode="bilinear", antialias=True, align_corners=False).numpy()


def measure_reconstruction(
    training: AutoencoderTraining, parts: dict[str, np.ndarray], groups: np.ndarray, numbers: int, progress: Progress
) -> dict[str, Any]:
    """Measure PSNR and SSIM of each part.

    Args:
        training: Training with the weights that are kept.
        parts: Rows of the store, by part.
        groups: Patient of each image, [N].
        numbers: Number of values of a latent.
        progress: Function called with (stage, done, total).

    Returns:
        ``{part: {"psnr" | "ssim": {"autoencoder", "bilinear", "difference"}}}``, each an `Interval` over patients.
    """
    side, _, channels = training.store.shape
    levels = int(np.iinfo(training.store.images.dtype).max) + 1
    small, quality = baseline_side(numbers, channels, side), {}
    for done, (part, rows) in enumerate(parts.items()):
        progress("rendering images", done, len(parts))
        figures: dict[tuple[str, str], list[np.ndarray]] = {}
        for begin in range(0, len(rows), training.block):
            rendered, wanted = training.rendered(rows[begin : begin + training.block])
            for name, candidate in (("autoencoder", rendered), ("bilinear", resize_and_restore(wanted, small))):
                figures.setdefault(("psnr", name), []).append(psnr(candidate, wanted, levels=levels))
                figures.setdefault(("ssim", name), []).append(ssim(candidate, wanted))
        values = {key: np.concatenate(blocks) for key, blocks in figures.items()}
        quality[part] = {measure: _compare_with_baseline(values, measure, groups[rows]) for measure in ("psnr", "ssim")}
    progress("rendering images", len(parts), len(parts))
    return quality


def _compare_with_baseline(
    values: dict[tuple[str, str], np.ndarray], measure: str, groups: np.ndarray
) -> dict[str, Any]:
    """Estimate both figures and their difference, with intervals over patients."""
    ours, other = values[measure, "autoencoder"], values[measure, "bilinear"]
    each = {"autoencoder": ours, "bilinear": other, "difference": ours - other}
    return {name: asdict(two_way_interval(patient_means(figures, groups)[:, None])) for name, figures in each.items()}


def patient_means(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the mean of each patient's images, [G].

    Args:
        values: Values to average, [n].
        groups: Patient of each value, [n].
    """
    _, codes = np.unique(groups.astype(str), return_inverse=True)
    return np.bincount(codes, values) / np.bincount(codes)
