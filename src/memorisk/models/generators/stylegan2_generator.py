"""An unconditional GAN of the StyleGAN2 kind as a generator: its folder, and its sampling.

The folder holds ``weights.safetensors`` (mapping and synthesis, averaged over the training), ``generator.json``, and
hashes of the images and patients that it was trained on (`memorisk.models.provenance`). Each image's own seed
determines z and the noise of every layer.
"""

from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.generators import DESCRIPTION, Draw, check_draw, save_description
from memorisk.models.generators.stylegan2_networks import Discriminator, GeneratorNetwork
from memorisk.models.provenance import SeenImages, TrainingRecord, read_training_record
from memorisk.models.settings import GanSpec, GeneratorConfig, SamplingOptions
from memorisk.models.weight_files import save_weights
from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line

WEIGHTS = "weights.safetensors"
NETWORK, TRUNCATION = "network", "truncation"
"""Keys in the details of a GAN's `GeneratorConfig`."""
_LISTED = 3


def new_gan(spec: GanSpec, seed: int) -> tuple[GeneratorNetwork, Discriminator]:
    """Build both networks, their weights drawn from a seed.

    Args:
        spec: Architecture of the networks.
        seed: Random seed of the weights.
    """
    spec.validate()
    with seeded(seed):
        return GeneratorNetwork(spec), Discriminator(spec)


@dataclass(frozen=True, eq=False)
class GanGenerator:
    """A GAN that draws images."""

    config: GeneratorConfig
    network: GeneratorNetwork
    seen: TrainingRecord | None = None
    """Record of the images that it was trained on; None where that is not known."""

    @property
    def source(self) -> str:
        """Return the fingerprint of its weights."""
        from memorisk.models.encoders.networks import state_fingerprint

        return f"gan {state_fingerprint(self.network)}"

    @property
    def conditions(self) -> np.ndarray | None:
        """Return None: the GAN has no conditions."""
        return None

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Draw as `memorisk.models.generators.generators.Generator.sample`.

        A CPU draws one image at a time, so that its bytes do not depend on the other images; a GPU draws ``how.batch``.

        Raises:
            InputError: The draw does not fit this generator's conditions, or settings are only for a diffusion model.
        """
        how = how or SamplingOptions()
        how.refuse_diffusion(self.config.name)
        seeds, where = check_draw(self.config, draw).seeds, check_device(device)
        network, batch = self._on(where), 1 if where.type == "cpu" else how.batch
        shape = (*self.config.size, self.config.channels)
        parts = [self._drawn(network, seeds[begin : begin + batch], where) for begin in range(0, len(seeds), batch)]
        return np.concatenate(parts) if parts else np.zeros((0, *shape), dtype=np.uint8)

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return which images of a store it was trained on; None where that is not known."""
        return None if self.seen is None else self.seen.parts(store)

    def _on(self, device: torch.device) -> GeneratorNetwork:
        """Return the network on a device; a copy where it is on another, since a training may continue with it."""
        here = next(self.network.parameters()).device
        same = here.type == device.type and (device.index is None or here.index == device.index)
        return self.network if same else deepcopy(self.network).to(device)

    def _drawn(self, network: GeneratorNetwork, seeds: np.ndarray, device: torch.device) -> np.ndarray:
        """Draw the images of some seeds, [n, H, W, C] uint8."""
        z, noises = draw_latents(network.spec, seeds)
        exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), exact:
            truncation = float(self.config.details.get(TRUNCATION, 1.0))
            images = network(z.to(device), [noise.to(device) for noise in noises], truncation=truncation)
            greys = ((images + 1) * 127.5).round_().clamp_(0, 255).to(torch.uint8)
        return greys.movedim(1, -1).cpu().numpy()


def draw_latents(spec: GanSpec, seeds: np.ndarray) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Draw the random inputs of some images, each from its own seed, on the CPU.

    Args:
        spec: Architecture of the network.
        seeds: Seeds of the images, [n] int64, from 0.

    Returns:
        Latents z [n, style], and the noise of each layer [n, 1, s, s].
    """
    rows = []
    for seed in seeds.tolist():
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(spec.style, generator=generator)
        rows.append((z, *(torch.randn(1, side, side, generator=generator) for side in spec.noise_sides)))
    z, *noises = (torch.stack(parts) for parts in zip(*rows, strict=True))
    return z, noises


def gan_config(config: GeneratorConfig, spec: GanSpec, *, truncation: float = 1.0) -> GeneratorConfig:
    """Return a description extended by the settings that a GAN needs.

    Args:
        config: Configuration of the generator.
        spec: Architecture of its networks.
        truncation: Factor of the truncation: w = mean + truncation (w - mean); 1 is none.
    """
    return replace(config, details={**config.details, NETWORK: asdict(spec), TRUNCATION: truncation})


def save_gan(
    network: GeneratorNetwork, folder: str | Path, config: GeneratorConfig, *, seen: TrainingRecord | None
) -> None:
    """Write a GAN's folder, private and atomic, the description last.

    Args:
        network: Network with the averaged weights.
        folder: Folder of the generator; it is made if it is missing, and an earlier attempt's files are overwritten.
        config: Configuration from `gan_config`.
        seen: Record of the images that it was trained on.
    """
    target = Path(folder)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    (target / DESCRIPTION).unlink(missing_ok=True)
    save_weights(target / WEIGHTS, network)
    if seen is not None:
        seen.save(target)
    save_description(target, config)


def load_gan(folder: str | Path, config: GeneratorConfig) -> GanGenerator:
    """Load a GAN from its folder, strictly.

    Args:
        folder: Folder that `save_gan` wrote.
        config: Configuration that `read_description` read from it.

    Raises:
        InputError: The description does not fit, or weights are missing, unknown, of another shape or not finite.
    """
    target, details = Path(folder), config.details
    where = f"{one_line(target / DESCRIPTION)} is not a description of a GAN"
    architecture, truncation = details.get(NETWORK), details.get(TRUNCATION, 1.0)
    if not isinstance(architecture, dict) or isinstance(truncation, bool) or not isinstance(truncation, int | float):
        raise InputError(f"{where}: details lack its network, or truncation is not a number")
    try:
        spec = GanSpec.of(architecture)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if (*config.size, config.channels) != (spec.size, spec.size, spec.channels) or config.conditioned_on != "none":
        raise InputError(f"{where}: size, channels or condition are not those of its network")
    network, _ = new_gan(spec, 0)
    _put(network, target / WEIGHTS)
    return GanGenerator(config, network.requires_grad_(False).eval(), read_training_record(target))


def _put(network: GeneratorNetwork, file: Path) -> None:
    """Load weights if every one is there, fits and is finite.

    Raises:
        InputError: The weights do not.
    """
    refuse_damaged(file)
    try:
        tensors = load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{one_line(file)} cannot be read: {one_line(error, 120)}") from None
    own = network.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    for name, value in tensors.items():
        if name not in own:
            wrong.append(f"{name} is unknown")
        elif value.shape != own[name].shape or value.dtype != own[name].dtype:
            wrong.append(f"{name} is {value.dtype} {list(value.shape)}, not float32 {list(own[name].shape)}")
        elif not torch.isfinite(value).all():
            wrong.append(f"{name} is not finite")
    if wrong:
        more = f"; {len(wrong)} in all" if len(wrong) > _LISTED else ""
        raise InputError(f"{one_line(file)} does not fit its {DESCRIPTION}: {'; '.join(wrong[:_LISTED])}{more}")
    network.load_state_dict(tensors)
