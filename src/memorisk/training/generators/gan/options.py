"""The settings of a GAN of the StyleGAN2 kind with adaptive augmentation; docs/generators-gan.md says what they do.

Defaults are the papers' (Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN", and "Training
generative adversarial networks with limited data") but for the widths, which a CPU can train at 32 pixels; the
papers' are 512 for style and channels_max, 32768 for channels and 8 mapping layers.
"""

from dataclasses import dataclass
from typing import Literal

from memorisk.models.generators.stylegan2.spec import GanSpec
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import check_types

AUGMENTS = ("ada", "fixed", "none")
AUGMENTATIONS = "bgc"
GAN_LR, GAN_BATCH_SIZE = 2.5e-3, 32
"""What a GAN takes where learning rate and batch size are left open."""
SAFE_PROBABILITY = 0.8
"""Above it augmentations leak into what the generator draws (Karras et al. 2020b, section 2.2)."""
_R1_GAMMA = 0.0002


@dataclass(frozen=True, kw_only=True)
class GanSettings:
    """What a GAN is told beside what all generators are."""

    gan_style: int = 64
    """Of a GAN: numbers of its latents z and w."""

    gan_mapping_layers: int = 2
    """Of a GAN: layers of the mapping network from z to w."""

    gan_channels: int = 1024
    """Of a GAN: feature maps times pixels a side, as 32 maps at 32 pixels."""

    gan_channels_max: int = 64
    """Of a GAN: most feature maps of a layer."""

    gan_r1: float | None = None
    """Of a GAN: weight gamma of the R1 penalty; by default 0.0002 times pixels of an image over images of a batch."""

    gan_r1_every: int = 16
    """Of a GAN: steps from one R1 penalty to the next (lazy regularisation)."""

    gan_path: float = 2.0
    """Of a GAN: weight of the path length penalty; 0 trains without it."""

    gan_path_every: int = 8
    """Of a GAN: steps from one path length penalty to the next."""

    gan_style_mixing: float = 0.9
    """Of a GAN: share of images drawn in training from two styles, from a layer on the second."""

    gan_augment: Literal["ada", "fixed", "none"] = "ada"
    """Of a GAN: augmentation of what the discriminator sees: ada (its probability adapts), fixed or none."""

    gan_augmentations: str = AUGMENTATIONS
    """Of a GAN: which: letters of b (blitting: flips, turns, whole pixels), g (geometry) and c (colour)."""

    gan_augment_p: float = 0.0
    """Of a GAN: probability of each augmentation at the start (ada) or throughout (fixed), at most 0.8."""

    gan_augment_target: float = 0.6
    """Of a GAN: the share r_t = E[sign(D(real))] at which ada holds the discriminator."""

    gan_augment_images: int = 500_000
    """Of a GAN: images in which ada could move the probability from 0 to 1; fewer for a short training."""

    gan_ema_images: int = 10_000
    """Of a GAN: half-life of the averaged generator in images, at most 5 % of the images seen so far."""

    gan_truncation: float = 1.0
    """Of a GAN: when images are drawn, w = mean + truncation (w - mean); 1 is none, less is less varied."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.gan_augment not in AUGMENTS:
            raise unknown_name("gan_augment", self.gan_augment, AUGMENTS)
        letters = self.gan_augmentations
        if not letters or len(set(letters)) < len(letters) or set(letters) - set(AUGMENTATIONS):
            raise InputError(f"gan_augmentations is {letters!r}; it must be letters of {AUGMENTATIONS}, each once")
        for name in ("style", "mapping_layers", "channels", "channels_max", "r1_every", "path_every", "ema_images"):
            self._check(f"gan_{name}", 1, float("inf"))
        self._check("gan_augment_images", 1, float("inf"))
        self._check("gan_augment_p", 0, SAFE_PROBABILITY)
        for name in ("gan_augment_target", "gan_style_mixing", "gan_truncation"):
            self._check(name, 0, 1)
        self._check("gan_path", 0, float("inf"))
        self._check("gan_r1", 0, float("inf"))

    def r1_gamma(self, pixels: int, batch: int) -> float:
        """Weight of the R1 penalty: the given one, or 0.0002 pixels / batch (Karras et al. 2020b, appendix C).

        Args:
            pixels: Of an image, height times width.
            batch: Images a step.
        """
        return _R1_GAMMA * pixels / batch if self.gan_r1 is None else self.gan_r1

    def gan_spec(self, size: int, channels: int) -> GanSpec:
        """Of both networks.

        Args:
            size: Pixels a side of the images.
            channels: Of the images.

        Raises:
            InputError: A GAN does not draw such images.
        """
        spec = GanSpec(
            size=size,
            channels=channels,
            style=self.gan_style,
            mapping_layers=self.gan_mapping_layers,
            features=self.gan_channels,
            features_max=self.gan_channels_max,
        )
        spec.validate()
        return spec

    def _check(self, name: str, least: float, most: float) -> None:
        """Refuse a number outside its bounds."""
        value = getattr(self, name)
        if value is not None and not (least <= value <= most and value < float("inf")):
            bounds = f"at least {least}" if most == float("inf") else f"between {least} and {most}"
            raise InputError(f"{name} is {value}; it must be {bounds}")
