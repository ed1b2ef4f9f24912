"""Settings of ``memorisk train generator`` and ``memorisk generate``, for Python, the command line and YAML at once.

docs/generators.md describes those of a diffusion model, docs/generators-gan.md those of a GAN. The GAN's defaults
are the papers' (Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN", and "Training generative
adversarial networks with limited data") except for the widths, which a CPU can train at 32 pixels; the papers' are 512
for style and channels_max, 32768 for channels and 8 mapping layers.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from memorisk.models.settings import GanSpec, SamplingOptions, check_latent, parse_size
from memorisk.runs.errors import InputError
from memorisk.runs.options import Balance, CheckpointSeconds, Device, Paired, Precision, Threads, Words, grouped
from memorisk.runs.settings import check_counts, check_finite, check_seeds, check_types
from memorisk.runs.user_code.functions import FunctionOptions
from memorisk.training.engine.options import PartOptions

AUGMENTATIONS = "bgc"
GAN_LR, GAN_BATCH_SIZE = 2.5e-3, 32
"""Learning rate and batch size of a GAN where they are left open."""
SAFE_PROBABILITY = 0.8
"""Probability above which augmentations leak into the drawn images (Karras et al. 2020b, section 2.2)."""
R1_EVERY, PATH_EVERY = 16, 8
"""Numbers of steps between two R1 and two path length penalties (Karras et al. 2020a, "lazy regularization")."""
AUGMENT_TARGET = 0.6
"""Target of adaptive augmentation for r_t = E[sign(D(real))] (Karras et al. 2020b, section 3)."""
GAN_LOSSES = ("critic", "nearest draw")
"""Losses of an image under a GAN, in the place of those at noise levels."""
_R1_GAMMA = 0.0002


@grouped("training")
@dataclass(frozen=True, kw_only=True)
class GanSettings:
    """Settings of a GAN and its augmentation."""

    gan_style: int = 64
    """GAN: dimension of the latents z and w."""

    gan_mapping_layers: int = 2
    """GAN: layers of the mapping network from z to w."""

    gan_channels: int = 1024
    """GAN: feature maps times the side in pixels; 1024 gives 32 maps at 32 pixels."""

    gan_channels_max: int = 64
    """GAN: most feature maps of a layer."""

    gan_r1: float | None = None
    """GAN: weight gamma of the R1 penalty; by default 0.0002 x pixels per image / batch size."""

    gan_path: float = 2.0
    """GAN: weight of the path length penalty; 0 trains without it."""

    gan_style_mixing: float = 0.9
    """GAN: share of training images drawn with style mixing (two styles, the second from a random layer on)."""

    gan_augment: Literal["ada", "fixed", "none"] = "ada"
    """GAN: augmentation of the discriminator's input: ada (adaptive probability), fixed or none."""

    gan_augmentations: str = AUGMENTATIONS
    """GAN: kinds of augmentation, one or several: b (flips, 90-degree rotations, shifts), g (geometry), c (colour)."""

    gan_augment_p: float = 0.0
    """GAN: initial (ada) or constant (fixed) probability of each augmentation, at most 0.8."""

    gan_augment_images: int = 500_000
    """GAN: images over which ada could raise the probability from 0 to 1; use fewer for a short training."""

    gan_ema_images: int = 10_000
    """GAN: half-life of the averaged generator in images, at most 5 % of the images seen so far."""

    gan_truncation: float = 1.0
    """GAN: truncation of the drawn images, w = mean + truncation (w - mean); 1 is none, less gives less variety."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        letters = self.gan_augmentations
        if not letters or len(set(letters)) < len(letters) or set(letters) - set(AUGMENTATIONS):
            raise InputError(f"gan_augmentations is {letters!r}; it must be letters of {AUGMENTATIONS}, each once")
        for name in ("style", "mapping_layers", "channels", "channels_max", "augment_images", "ema_images"):
            self._check(f"gan_{name}", 1, float("inf"))
        self._check("gan_augment_p", 0, SAFE_PROBABILITY)
        for name in ("gan_style_mixing", "gan_truncation"):
            self._check(name, 0, 1)
        self._check("gan_path", 0, float("inf"))
        self._check("gan_r1", 0, float("inf"))

    def r1_gamma(self, pixels: int, batch: int) -> float:
        """Return the weight of the R1 penalty: as given, or 0.0002 pixels / batch (Karras et al. 2020b, appendix C).

        Args:
            pixels: Number of pixels of an image, height times width.
            batch: Number of images per step.
        """
        return _R1_GAMMA * pixels / batch if self.gan_r1 is None else self.gan_r1

    def gan_spec(self, size: int, channels: int) -> GanSpec:
        """Return the specification of both networks.

        Args:
            size: Side of the images, in pixels.
            channels: Number of channels of the images.

        Raises:
            InputError: A GAN cannot draw such images.
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


Conditioning = Literal["label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label"]
CONDITIONINGS = get_args(Conditioning)
"""Conditionings of paper 004, table 3, in its order."""
FOLDS = 5


@grouped("training")
@dataclass(frozen=True, kw_only=True)
class PseudoOptions:
    """Settings of pseudo-conditions, one vector for each training image."""

    conditioning_protocol: Literal["corrected", "paper"] = "corrected"
    """Classifier that gives an image's condition: one that saw none of the patient's images (corrected), or the first
    fold's for every image, which saw four fifths of them in training (paper)."""

    conditioning_network: str = "small_cnn"
    """Network of the five classifiers: any of `train classifier`."""

    conditioning_weights: str | None = None
    """Initial weights of the classifiers: a file, "default" or a tag to download by name; by default random."""

    conditioning_epochs: int | None = None
    """Epochs of the classifiers; by default the architecture's (30)."""

    conditioning_noise: float = 0.1
    """Standard deviation of the noise that label-noise adds to a label of 0 or 1; the paper gives none."""

    seed: int = 0
    """Random seed for folds, classifiers and noise."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 60.0

    @classmethod
    def of(cls, options: Any) -> "PseudoOptions":
        """Take these settings from those of a command that has them, or some of them."""
        names = (field.name for field in fields(PseudoOptions))
        settings = PseudoOptions(**{name: getattr(options, name) for name in names if hasattr(options, name)})
        settings.validate()
        return settings

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        check_counts(self, conditioning_epochs=1, threads=1)
        check_finite(self, "conditioning_noise")
        check_finite(self, "checkpoint_seconds", zero=True)
        check_seeds(self, "seed")


DIT_LR, DIT_BATCH_SIZE = 1e-4, 32
"""Learning rate and batch size of a diffusion transformer where they are left open."""
_NOT_OF_THE_RESULT = ("device", "checkpoint_seconds", "keep_snapshots")


@grouped(
    "training",
    essential="kind network weights latent conditioned_on steps batch_size lr snapshot_every precision device",
)
@dataclass(frozen=True, kw_only=True)
class GeneratorOptions(GanSettings, PseudoOptions):
    """Settings of one training of a generator. Those of a DiT have no effect on a GAN, nor those of a GAN on a DiT."""

    kind: Literal["dit", "gan"] = "dit"
    """dit: a diffusion transformer; gan: a StyleGAN2 without classes."""

    network: str = "tiny/4"
    """DiT: size (tiny, small, S, B, L, XL) and side of a patch in pixels or latent numbers, as in XL/2."""

    weights: str | None = None
    """DiT: initial weights: a run of `train generator`, a file, a folder of diffusers, or NAME@default, which
    downloads, as in facebook/DiT-XL-2-256@default; by default random."""

    latent: str = "pixels"
    """DiT: space in which it draws: pixels, or the latents of autoencoder:FOLDER or autoencoder:NAME@default."""

    conditioned_on: Literal["auto", "none", "class", "vector"] = "auto"
    """DiT: condition on nothing, the class, or a pseudo-condition (vector); auto: a pseudo-condition with
    --conditioning, otherwise the class if there are several, otherwise nothing."""

    conditioning: Conditioning | None = None
    """DiT: kind of pseudo-condition: label and noise, or the outputs of classifiers trained first on the same images
    (the one that did not see the image, or the mean of five), with the label or without."""

    drop_condition: float = 0.1
    """DiT: share of the images per step that lose their condition, so that images can be drawn with guidance."""

    learn_sigma: bool | None = None
    """DiT: also learn the variance of the denoising steps; by default as in --weights, otherwise no."""

    noise_schedule: Literal["linear", "cosine"] = "linear"
    """DiT: noise schedule: linear, as in the paper and in pretrained weights, or cosine, which learns small images in
    about half the steps."""

    steps: int = 10_000
    """Number of training steps."""

    batch_size: int | None = None
    """Images per step, over all GPUs together; by default 32."""

    lr: float | None = None
    """Learning rate; by default 1e-4 for a DiT (a tiny one learns faster with 1e-3), 2.5e-3 for a GAN."""

    warmup: int = 0
    """DiT: steps over which the learning rate rises to lr; then it is constant."""

    weight_decay: float = 0.0
    """DiT: weight decay of AdamW."""

    clip: float = 1.0
    """DiT: norm to which gradients are clipped; 0 for no clipping."""

    ema: float = 0.9999
    """DiT: decay of the averaged weights, which draw the images; after t steps at most (1 + t) / (10 + t)."""

    flip: bool = False
    """Mirror half of the images of each step, left to right."""

    snapshot_every: int = 1000
    """Steps between two evaluations of the generator: held-out loss, and --watch."""

    keep_snapshots: bool = False
    """Keep the generator of every evaluation in snapshots/. Each is as large as the final one."""

    precision: Precision = "auto"

    seed: int = 0
    """Random seed for initial weights, order, noise and flips."""

    device: Device = "auto"

    threads: Threads = 1

    checkpoint_seconds: CheckpointSeconds = 60.0

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        GanSettings.validate(self)
        PseudoOptions.validate(self)
        check_counts(self, steps=1, snapshot_every=1, batch_size=1)
        check_finite(self, "lr")
        check_finite(self, "warmup", "weight_decay", "clip", zero=True)
        for name in ("ema", "drop_condition"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be from 0 to below 1")
        if self.kind == "dit":
            parse_size(self.network)
            check_latent(self.latent)
        self._check_condition()

    def _check_condition(self) -> None:
        """Check the conditioning of the generator."""
        wanted, source = self.conditioned_on, self.conditioning
        if self.kind == "gan" and (wanted in ("class", "vector") or source is not None):
            raise InputError("a GAN is trained without conditions here: leave conditioned_on and conditioning out")
        if source is not None and wanted in ("none", "class"):
            raise InputError(
                f"conditioning {source} is a vector, and conditioned_on is {wanted}: leave one of them out"
            )

    @property
    def images_a_step(self) -> int:
        """Number of images per step, filled in."""
        return self.batch_size or (GAN_BATCH_SIZE if self.kind == "gan" else DIT_BATCH_SIZE)

    @property
    def learning_rate(self) -> float:
        """Initial learning rate, filled in."""
        return self.lr or (GAN_LR if self.kind == "gan" else DIT_LR)

    def recipe(self) -> dict[str, Any]:
        """Return every setting that the weights depend on, filled in, without those of the other kind."""
        settings = {field.name: getattr(self, field.name) for field in fields(GeneratorOptions)}
        settings |= {"batch_size": self.images_a_step, "lr": self.learning_rate}
        other = list(_DIT_ONLY) if self.kind == "gan" else [name for name in settings if name.startswith("gan_")]
        other += [] if self.conditioning else [name for name in settings if name.startswith("conditioning_")]
        return {name: value for name, value in settings.items() if name not in (*_NOT_OF_THE_RESULT, *other)}


_DIT_ONLY = (
    *("network", "weights", "latent", "conditioned_on", "conditioning", "drop_condition", "learn_sigma"),
    *("noise_schedule", "warmup", "weight_decay", "clip", "ema"),
)


@dataclass(frozen=True, kw_only=True)
class TrainGeneratorOptions(PartOptions, GeneratorOptions):
    """All settings of ``memorisk train generator``."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        GeneratorOptions.validate(self)

    @property
    def generator(self) -> GeneratorOptions:
        """Return the settings of the training alone."""
        return GeneratorOptions(**{field.name: getattr(self, field.name) for field in fields(GeneratorOptions)})


@grouped("generator", essential="images seed balance paired device", where="threads")
@dataclass(frozen=True, kw_only=True)
class GenerateOptions(SamplingOptions, FunctionOptions):
    """All settings of ``memorisk generate``."""

    images: int | None = None
    """Number of images to draw; with --paired by default one for each training image."""

    seed: int = 0
    """Random seed for the set; each image's seed follows from it and the image's number."""

    balance: Balance = "classes"

    paired: Paired = False

    only: Words = ()
    """Draw only these images of the set again, by id (synthetic-000017), identical to the byte, into another OUT."""

    device: Device = "auto"

    threads: int = 1
    """Number of CPU threads. The last bits of an image may depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        SamplingOptions.validate(self)
        check_counts(self, images=1, threads=1)
        check_seeds(self, "seed")
        if len(set(self.only)) < len(self.only):
            raise InputError("only names an image twice: name each once")
