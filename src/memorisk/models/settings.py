"""Settings of models, without loading anything heavy: kinds of detectors, diffusion sampling, sizes of a GAN.

They serve Python, the command line and YAML at once. Kinds of detectors have the names that a user types.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from memorisk.runs.errors import InputError, one_line, plural, unknown_name
from memorisk.runs.options import grouped
from memorisk.runs.settings import check_counts, check_types

COPY_DETECTOR = "copy"
LATENT_DETECTOR_KINDS = ("lcmem", "siamese", "siamese-ntxent")
DETECTOR_KINDS = (COPY_DETECTOR, *LATENT_DETECTOR_KINDS)
DEFAULT_DETECTOR = "default"
"""Name of the copy detector that comes with memorisk; a folder of that name is ``./default``."""
DEFAULT_COMPARISONS = (DEFAULT_DETECTOR, "default:views", "default:places", "details")
"""Comparisons that an audit of a synthetic set makes by ``default``: whole images, windows and turned views of training
images with the whole of synthetic ones (crops, turned copies), windows at the same place (regions that were pasted),
and details of thumbnails (noise)."""
DIFFUSION_KINDS = ("dit", "denoiser")
"""Kinds of generators that draw an image in many steps; a denoiser has no folder of its own."""
DIFFUSION_SETTINGS = ("sampler", "sampling_steps", "guidance")
"""Settings that only a diffusion model has."""
UNET_SIZES: Mapping[str, tuple[int, ...]] = {"tiny": (16, 32), "small": (32, 64, 64), "medium": (64, 128, 128, 256)}
"""Channels at each resolution of the named U-Nets; each resolution is half of the one before."""
DIT_SIZES: Mapping[str, tuple[int, int, int]] = {
    "tiny": (128, 4, 4),
    "small": (192, 6, 6),
    "S": (384, 12, 6),
    "B": (768, 12, 12),
    "L": (1024, 24, 16),
    "XL": (1152, 28, 16),
}
"""Width, blocks and heads of each size of a DiT; S, B, L and XL are the paper's (table 1)."""
GAN_SIDES = (8, 16, 32, 64, 128, 256, 512, 1024)
_START = 4
_WIDEST = {"style": 1 << 14, "mapping_layers": 1 << 6, "features": 1 << 20, "features_max": 1 << 14}
"""Largest numbers, far above any published network; larger ones are refused before memory is reserved."""


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig:
    """Configuration of a generator: its images, and its inputs."""

    kind: str
    """Kind of the generator, one of `memorisk.models.generators.generators.GENERATOR_KINDS`."""
    name: str
    """Name for a report."""
    size: tuple[int, int]
    """Height and width of its images in pixels."""
    channels: int
    """Number of channels of its images, 1 or 3."""
    conditioned_on: str = "none"
    """Kind of the condition: ``none``, ``class`` (a number from 0) or ``vector`` (a pseudo-condition)."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers; empty where images have none."""
    class_counts: tuple[int, ...] = ()
    """Number of training images of each class."""
    condition_dim: int = 0
    """Length of a condition that is a vector."""
    conditioning: str = ""
    """Source of such vectors, as ``prediction-label``."""
    latent: str = "pixels"
    """Space in which it draws: ``pixels``, or the latents of an autoencoder, by its name."""
    steps: int = 0
    """Number of steps of its training."""
    n_training: int = 0
    """Number of different images that it was trained on."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of its kind, in the form of JSON."""


Sampler = Literal["ddim", "dpm-solver", "ddpm"]


@grouped("generator", essential="sampling_steps")
@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """Options of drawing from a diffusion model; a GAN and a user's own function take none of them but ``batch``."""

    sampler: Sampler = "ddim"
    """Sampler of a diffusion model: ddim (deterministic), dpm-solver (++, second order) or ddpm."""

    sampling_steps: int = 50
    """Sampling steps of a diffusion model; dpm-solver needs fewer, ddpm as many as the training had noise levels."""

    guidance: float = 1.0
    """Classifier-free guidance of a diffusion model: 1 is none; more follows the condition more closely."""

    batch: int = 64
    """Images drawn at a time. On a CPU the images do not depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        check_counts(self, sampling_steps=1, batch=1)
        if not 0 <= self.guidance < float("inf"):
            raise InputError(f"guidance is {self.guidance}; it must be 0 or more, and 1 is none")

    def sampling(self) -> "SamplingOptions":
        """Return these settings without those of a command that inherits them."""
        return SamplingOptions(**{f.name: getattr(self, f.name) for f in fields(SamplingOptions)})

    def of_kind(self, kind: str) -> "SamplingOptions":
        """Return these settings as a kind of generator takes them, the others at their defaults.

        Commands whose settings are for generators of several kinds use it.

        Args:
            kind: Kind of the generator: ``dit``, ``gan`` or ``function``.
        """
        return self.sampling() if kind == "dit" else SamplingOptions(batch=self.batch)

    def settings_of(self, kind: str) -> dict[str, Any]:
        """Return the settings by name, without those that a kind of generator does not use.

        Args:
            kind: Kind of the generator: ``dit``, ``gan`` or ``function``.
        """
        unknown = () if kind == "dit" else DIFFUSION_SETTINGS
        return {name: value for name, value in asdict(self).items() if name not in unknown}

    def refuse_diffusion(self, name: str) -> None:
        """Refuse the settings of diffusion models for another generator.

        Args:
            name: Name of the generator.

        Raises:
            InputError: A setting of `DIFFUSION_SETTINGS` differs from its default.
        """
        for setting in DIFFUSION_SETTINGS:
            if (value := getattr(self, setting)) != getattr(SamplingOptions, setting):
                raise InputError(
                    f"{setting} is {value}, and {one_line(name, 60)} is not a diffusion model of memorisk, which alone "
                    f"has it: leave {setting} out"
                )


def parse_size(text: str) -> tuple[int, int, int, int]:
    """Return width, blocks, heads and patch of a size such as ``XL/2``.

    Raises:
        InputError: The size is of another form, or its name is unknown.
    """
    name, slash, patch = text.partition("/")
    if not (slash and patch.isascii() and patch.isdecimal() and int(patch) > 0):
        raise InputError(
            f"{one_line(text, 40)!r} is not a size of a DiT: give NAME/PATCH, as XL/2 or tiny/4, with one of "
            f"{', '.join(DIT_SIZES)}"
        )
    if name not in DIT_SIZES:
        raise unknown_name("size of a DiT", one_line(name, 40), DIT_SIZES)
    return *DIT_SIZES[name], int(patch)


def check_latent(latent: str) -> None:
    """Refuse a space to draw in that is neither pixels nor the latents of an autoencoder.

    Args:
        latent: Name of the space, as `memorisk.training.generators.options.GeneratorOptions.latent`.

    Raises:
        InputError: The space is such a one.
    """
    if latent != "pixels" and not latent.startswith("autoencoder:"):
        raise InputError(f"latent is {latent!r}; it must be pixels, autoencoder:FOLDER or autoencoder:NAME@default")


@dataclass(frozen=True, kw_only=True)
class GanSpec:
    """Size of a GAN's images, and the widths of its networks."""

    size: int
    """Side of the images in pixels, one of `GAN_SIDES`."""
    channels: int
    """Number of channels of the images, 1 or 3."""
    style: int
    """Length of z and w."""
    mapping_layers: int
    """Number of layers from z to w."""
    features: int
    """Number of feature maps times the side in pixels."""
    features_max: int
    """Largest number of feature maps of a layer."""

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> "GanSpec":
        """Read a specification from JSON.

        Raises:
            InputError: Something is missing, unknown or out of range.
        """
        names = {field.name for field in fields(cls)}
        if set(numbers) != names or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers.values()):
            raise InputError(
                f"a GAN is described by whole numbers: {', '.join(sorted(names))}; not {one_line(numbers)}"
            )
        spec = cls(**numbers)
        spec.validate()
        return spec

    def validate(self) -> None:
        """Check every value that can be wrong.

        Raises:
            InputError: The GAN cannot draw such images, or a width is below 1.
        """
        if self.size not in GAN_SIDES or self.channels not in (1, 3):
            sides = ", ".join(map(str, GAN_SIDES))
            raise InputError(
                f"images have {self.size} pixels a side and {plural(self.channels, 'channel', 'channels')}; a GAN "
                f"takes squares of {sides} pixels (a size resizes them) with 1 or 3 channels"
            )
        for name in ("style", "mapping_layers", "features", "features_max"):
            if not 1 <= getattr(self, name) <= _WIDEST[name]:
                raise InputError(f"{name} of a GAN is {getattr(self, name)}; it must lie from 1 to {_WIDEST[name]:,}")

    @property
    def sides(self) -> tuple[int, ...]:
        """Return the sides of the blocks: 4, 8, ..., size."""
        return tuple(_START << k for k in range((self.size // _START).bit_length()))

    def width(self, side: int) -> int:
        """Return the number of feature maps at a side."""
        return max(1, min(self.features // side, self.features_max))

    @property
    def styles(self) -> int:
        """Count the w that an image takes: one per layer, and one for the last image."""
        return 2 * len(self.sides)

    @property
    def noise_sides(self) -> tuple[int, ...]:
        """Return the side of the noise of each layer."""
        return tuple(side for k, side in enumerate(self.sides) for _ in range(1 if k == 0 else 2))
