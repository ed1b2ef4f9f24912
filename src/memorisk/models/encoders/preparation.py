"""Pixels of a batch on their way into a network: channels, size, normalisation, in this order, on the device."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from memorisk.models.blackbox.preprocessing import Preprocessing


def preparation(
    preprocessing: Preprocessing | None, device: torch.device, dtype: torch.dtype
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What turns pixels in [0, 1], [b, c, H, W], into what the network sees, channels last.

    Grey images are repeated where the network has more channels; resizing is bilinear with antialias.

    Args:
        preprocessing: Of the network; None leaves pixels as they are.
        device: Where the pixels are.
        dtype: Of the pixels.
    """
    if preprocessing is None:
        return lambda x: x.contiguous(memory_format=torch.channels_last)
    size, channels = preprocessing.size, preprocessing.channels
    mean = torch.tensor(preprocessing.mean, device=device, dtype=dtype)[:, None, None]
    std = torch.tensor(preprocessing.std, device=device, dtype=dtype)[:, None, None]
    as_they_are = not any(preprocessing.mean) and all(value == 1 for value in preprocessing.std)

    def prepare(x: torch.Tensor) -> torch.Tensor:
        """Channels, size, normalisation."""
        if x.shape[1] == 1 and channels > 1:
            x = x.expand(-1, channels, -1, -1)
        if x.shape[2:] != size:
            x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
        return (x if as_they_are else (x - mean) / std).contiguous(memory_format=torch.channels_last)

    return prepare
