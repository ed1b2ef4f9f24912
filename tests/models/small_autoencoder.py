"""A miniature AutoencoderKL, saved by diffusers itself."""

from pathlib import Path
from typing import Any

import pytest
import torch

from memorisk.models.classifiers.zoo import seeded


def autoencoder(channels: int = 1, **settings: Any) -> Any:
    """Three blocks (a latent of a quarter of the side), random weights; needs diffusers."""
    diffusers = pytest.importorskip("diffusers")
    sizes = {"in_channels": channels, "out_channels": channels, "latent_channels": 4, "sample_size": 16}
    blocks = {"down_block_types": ["DownEncoderBlock2D"] * 3, "up_block_types": ["UpDecoderBlock2D"] * 3}
    layout = {"block_out_channels": [4, 4, 8], "norm_num_groups": 2, "layers_per_block": 1}
    with seeded(3):
        return diffusers.AutoencoderKL(**(sizes | blocks | layout | settings)).eval().requires_grad_(False)


def autoencoder_folder(folder: Path, channels: int = 1, **settings: Any) -> Path:
    """The same in a folder."""
    autoencoder(channels, **settings).save_pretrained(folder)
    return folder


def posterior_mean(network: Any, x: torch.Tensor) -> torch.Tensor:
    """What diffusers gives for images in [0, 1], by its own classes."""
    with torch.inference_mode():
        return network.encode(x * 2 - 1).latent_dist.mode()
