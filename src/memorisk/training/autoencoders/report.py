"""What an autoencoder renders of images that chose nothing, beside a resizing that keeps as many numbers.

A patient's figure is the mean over the patient's images; the interval is a t over patients.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.runs.progress import Progress
from memorisk.scores.reconstruction import psnr, ssim
from memorisk.statistics.intervals import two_way_interval
from memorisk.training.autoencoders.fit import AutoencoderTraining


def baseline_side(numbers: int, channels: int, side: int) -> int:
    """Pixels a side of the largest square image with at most so many numbers, and no larger than the image.

    Args:
        numbers: Of a latent.
        channels: Of the image.
        side: Of the image.
    """
    return max(1, min(side, int(np.sqrt(numbers / channels))))


def resized(images: np.ndarray, side: int) -> np.ndarray:
    """Images made smaller and as large again, bilinear with antialias.

    Args:
        images: [n, C, h, w] float32.
        side: Pixels of the small ones.
    """
    x = torch.from_numpy(images)
    small = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    return F.interpolate(small, x.shape[2:], mode="bilinear", antialias=True, align_corners=False).numpy()


def measure_reconstruction(
    training: AutoencoderTraining, parts: dict[str, np.ndarray], groups: np.ndarray, numbers: int, progress: Progress
) -> dict[str, Any]:
    """PSNR and SSIM of each part.

    Args:
        training: With the weights that are kept.
        parts: Rows by part.
        groups: [N] whose each image is.
        numbers: Of a latent.
        progress: Called with (stage, done, total).

    Returns:
        ``{part: {"psnr" | "ssim": {"autoencoder", "bilinear", "difference"}}}``, an `Interval` over patients each.
    """
    _, side, _, channels = (int(n) for n in training.store.images.shape)
    levels = int(np.iinfo(training.store.images.dtype).max) + 1
    small, found = baseline_side(numbers, channels, side), {}
    for done, (part, rows) in enumerate(parts.items()):
        progress("rendering images", done, len(parts))
        figures: dict[tuple[str, str], list[np.ndarray]] = {}
        for begin in range(0, len(rows), training.block):
            rendered, wanted = training.rendered(rows[begin : begin + training.block])
            for name, made in (("autoencoder", rendered), ("bilinear", resized(wanted, small))):
                figures.setdefault(("psnr", name), []).append(psnr(made, wanted, levels=levels))
                figures.setdefault(("ssim", name), []).append(ssim(made, wanted))
        values = {key: np.concatenate(blocks) for key, blocks in figures.items()}
        found[part] = {measure: _compared(values, measure, groups[rows]) for measure in ("psnr", "ssim")}
    progress("rendering images", len(parts), len(parts))
    return found


def _compared(values: dict[tuple[str, str], np.ndarray], measure: str, groups: np.ndarray) -> dict[str, Any]:
    """Each of the two and their difference, over patients."""
    ours, other = values[measure, "autoencoder"], values[measure, "bilinear"]
    each = {"autoencoder": ours, "bilinear": other, "difference": ours - other}
    return {name: asdict(two_way_interval(of_patients(figures, groups)[:, None])) for name, figures in each.items()}


def of_patients(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The mean of each patient's images, [G].

    Args:
        values: [n].
        groups: [n] whose each is.
    """
    _, codes = np.unique(groups.astype(str), return_inverse=True)
    return np.bincount(codes, values) / np.bincount(codes)
