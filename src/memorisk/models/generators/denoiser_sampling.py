"""Sampling from any predictor of noise by DDIM, for generators that have no sampler of their own.

From x_T, normal noise, each step predicts the image, x = (x_t - sqrt(1 - a_t) e) / sqrt(a_t), cuts it to [-1, 1], and
noises it again with the same e at the next time (Song et al. 2021, equation 12, without new noise):

    x_s = sqrt(a_s) x + sqrt(1 - a_s) e.

Every image has its own first noise, drawn on the CPU from its seed. The last bits of an image may depend on the others
of its batch; a caller that needs the same bytes again draws the same batches.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.generators import Draw, check_draw
from memorisk.models.provenance import SeenImages
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint


@dataclass(frozen=True, eq=False)
class DenoiserGenerator:
    """Generator of pixels that draws by a predictor of noise.

    Attributes:
        network: Network whose weights draw.
        denoiser: The same network as a predictor of noise.
        config: Configuration, with the size of its images.
    """

    network: nn.Module
    denoiser: Denoiser
    config: GeneratorConfig

    @cached_property
    def source(self) -> str:
        """Return the fingerprint of its weights and of its noise schedule."""
        weights = sorted(self.network.state_dict().items())
        tensors = [[name, fingerprint(value.detach().cpu().numpy())] for name, value in weights]
        return fingerprint(tensors, self.denoiser.alpha_bar.numpy(), self.denoiser.prediction, length=32)

    @property
    def conditions(self) -> np.ndarray | None:
        """Return None: it keeps no vectors of its training images."""
        return None

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Draw as `memorisk.models.generators.generators.Generator.sample`, a batch at a time.

        Raises:
            InputError: The draw does not fit, the sampler is another one, there are more steps than times, or a drawn
                image is not of finite numbers.
        """
        how, checked = how or SamplingOptions(), check_draw(self.config, draw)
        name, n_times = one_line(self.config.name, 60), len(self.denoiser.alpha_bar)
        if how.sampler != "ddim" or how.guidance != 1:
            raise InputError(f"{name} draws by ddim without guidance: leave sampler and guidance out")
        if how.sampling_steps > n_times:
            raise InputError(f"sampling_steps is {how.sampling_steps}, and {name} has {n_times} times: ask for fewer")
        where = check_device(device)
        self.network.to(where)
        height, width = self.config.size
        images = np.empty((len(checked), height, width, self.config.channels), dtype=np.uint8)
        times = np.linspace(n_times - 1, 0, how.sampling_steps).round().astype(np.int64)
        for begin in range(0, len(checked), how.batch):
            part = slice(begin, begin + how.batch)
            x = self._images(checked.rows(part), times, where)
            if not bool(torch.isfinite(x).all()):
                raise InputError(f"{name} draws images that are not of finite numbers: its training diverged")
            pixels = ((x / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)
            images[part] = pixels.permute(0, 2, 3, 1).cpu().numpy()
        return images

    def _images(self, draw: Draw, times: np.ndarray, device: torch.device) -> torch.Tensor:
        """Carry noise through all steps, [b, c, h, w]."""
        shape = (self.config.channels, *self.config.size)
        generators = [torch.Generator().manual_seed(int(seed)) for seed in draw.seeds]
        x = torch.stack([torch.randn(shape, generator=g) for g in generators]).to(device)
        condition: Any = None if draw.labels is None else torch.from_numpy(draw.labels).to(device)
        with self.denoiser.measuring():
            for now, later in zip(times, [*times[1:], None], strict=True):
                noise = self.denoiser.predict_noise(x, int(now), condition)
                image = self.denoiser.image_of(x, noise, int(now)).clamp(-1, 1)
                x = image if later is None else self.denoiser.noised(image, noise, int(later))
        return x

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return None: its file does not say which images it was trained on."""
        return None
