"""Sampling from any predictor of noise, for generators that have no sampler of their own: DDIM and DDPM.

From normal noise x_T, each step predicts the image, cuts it to [-1, 1], and goes to the next time s with the noise that
belongs to the cut image (Song et al. 2021, equations 12 and 16):

    x = cut((x_t - sqrt(1 - a_t) e(x_t)) / sqrt(a_t)),   e = (x_t - sqrt(a_t) x) / sqrt(1 - a_t),
    x_s = sqrt(a_s) x + sqrt(1 - a_s - v) e + sqrt(v) z.

v is 0 for DDIM, and (1 - a_s) (1 - a_t / a_s) / (1 - a_t) for DDPM, whose new noise z lets later steps correct earlier
ones. With the predicted noise in place of e, small networks draw next to nothing of what they remember.

Every image has noise of its own, drawn on the CPU from its seed. The last bits of an image may depend on the others
of its batch; a caller that needs the same bytes again draws the same batches.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
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

_NEW_NOISE = {"ddim": False, "ddpm": True}
"""Whether each sampler adds new noise in its steps."""


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
        if how.sampler not in _NEW_NOISE or how.guidance != 1:
            raise InputError(f"{name} draws by {' or '.join(_NEW_NOISE)} without guidance: leave the others out")
        if how.sampling_steps > n_times:
            raise InputError(f"sampling_steps is {how.sampling_steps}, and {name} has {n_times} times: ask for fewer")
        where = check_device(device)
        self.network.to(where)
        height, width = self.config.size
        images = np.empty((len(checked), height, width, self.config.channels), dtype=np.uint8)
        times = np.linspace(n_times - 1, 0, how.sampling_steps).round().astype(np.int64)
        for begin in range(0, len(checked), how.batch):
            part = slice(begin, begin + how.batch)
            x = self._images(checked.rows(part), times, where, new_noise=_NEW_NOISE[how.sampler])
            if not bool(torch.isfinite(x).all()):
                raise InputError(f"{name} draws images that are not of finite numbers: its training diverged")
            pixels = ((x / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)
            images[part] = pixels.permute(0, 2, 3, 1).cpu().numpy()
        return images

    def _images(self, draw: Draw, times: np.ndarray, device: torch.device, *, new_noise: bool) -> torch.Tensor:
        """Carry noise through all steps, [b, c, h, w]."""
        shape, share = (self.config.channels, *self.config.size), self.denoiser.alpha_bar
        generators = [torch.Generator().manual_seed(int(seed)) for seed in draw.seeds]

        def normal() -> torch.Tensor:
            """Draw the next normal numbers of every image."""
            return torch.stack([torch.randn(shape, generator=g) for g in generators]).to(device)

        x = image = normal()
        condition: Any = None if draw.labels is None else torch.from_numpy(draw.labels).to(device)
        with self.denoiser.measuring():
            for now, later in pairwise([*times.tolist(), times[-1]]):
                a, b = float(share[now]), float(share[later])
                image = self.denoiser.image_of(x, self.denoiser.predict_noise(x, now, condition), now).clamp(-1, 1)
                variance = (1 - b) * (1 - a / b) / (1 - a) if new_noise else 0.0
                noise = (x - math.sqrt(a) * image) / math.sqrt(1 - a)
                x = math.sqrt(b) * image + math.sqrt(max(0.0, 1 - b - variance)) * noise
                if variance:
                    x = x + math.sqrt(variance) * normal()
        return image

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return None: its file does not say which images it was trained on."""
        return None
