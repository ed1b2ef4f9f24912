"""The settings of a generator's training and of ``memorisk train generator``; docs/generators.md has what they do.

The settings of a GAN of the StyleGAN2 kind with adaptive augmentation; docs/generators-gan.md says what they do.

Defaults are the papers' (Karras et al. 2020, "Analyzing and improving the image quality of StyleGAN", and "Training
generative adversarial networks with limited data") but for the widths, which a CPU can train at 32 pixels; the
papers' are 512 for style and channels_max, 32768 for channels and 8 mapping layers.

Settings of pseudo-conditions: what makes them. They hold for Python, the command line and YAML at once.

The settings of ``memorisk generate``: a frozen dataclass for Python, the command line and YAML at once.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.models.settings import GanSpec, SamplingOptions
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.settings import FunctionOptions, check_types
from memorisk.training.engine.options import PRECISIONS, PartOptions

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


CONDITIONINGS = ("label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label")
"""Paper 004, table 3, in its order."""
FOLDS = 5
_SEEDS = 1 << 32


@dataclass(frozen=True, kw_only=True)
class PseudoOptions:
    """How a training image gets a vector of its own."""

    conditioning_protocol: Literal["corrected", "paper"] = "corrected"
    """Whose prediction an image's condition is: corrected is the classifier that saw none of its patient's images,
    paper the first fold's for every image, four fifths of which it was trained on."""

    conditioning_network: str = "small_cnn"
    """The five classifiers: any network of `train classifier`."""

    conditioning_weights: str | None = None
    """What they start from: a file, "default" or a tag to download by name; random if not given."""

    conditioning_epochs: int | None = None
    """Of their training; by default the architecture's (30)."""

    conditioning_noise: float = 0.1
    """Standard deviation of what label-noise adds to a label of 0 and 1; the paper does not give its own."""

    seed: int = 0
    """Of the folds, the classifiers and the noise."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 60.0
    """Least time between two writes of a classifier's state, from which a killed training goes on."""

    @classmethod
    def of(cls, options: Any) -> "PseudoOptions":
        """These settings of those of a command that has them, or some of them."""
        names = (field.name for field in fields(PseudoOptions))
        found = PseudoOptions(**{name: getattr(options, name) for name in names if hasattr(options, name)})
        found.validate()
        return found

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        check_types(self)
        if self.conditioning_protocol not in ("corrected", "paper"):
            raise unknown_name("conditioning_protocol", self.conditioning_protocol, ("corrected", "paper"))
        if self.conditioning_epochs is not None and self.conditioning_epochs < 1:
            raise InputError(
                f"conditioning_epochs is {self.conditioning_epochs}; it must be a whole number of at least 1"
            )
        if not 0 < self.conditioning_noise < float("inf"):
            raise InputError(f"conditioning_noise is {self.conditioning_noise}; it must be above 0")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise InputError(f"checkpoint_seconds is {self.checkpoint_seconds}; it must be 0 or more")


TRAINED_KINDS = ("dit", "gan")
DIT_LR, DIT_BATCH_SIZE = 1e-4, 32
"""What a diffusion transformer takes where learning rate and batch size are left open."""
_NOT_OF_THE_RESULT = ("device", "checkpoint_seconds", "keep_snapshots")


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions(GanSettings, PseudoOptions):
    """How one generator is trained. What is said of a DiT has no effect on a GAN, and the other way round."""

    kind: Literal["dit", "gan"] = "dit"
    """dit: a diffusion transformer; gan: of the StyleGAN2 kind, without classes."""

    network: str = "tiny/4"
    """Of a DiT: size (tiny, small, S, B, L, XL) and the side of a patch in pixels or numbers of a latent, as in
    XL/2."""

    weights: str | None = None
    """Of a DiT: what it starts from: a run of train generator, a file, a folder of diffusers, or NAME@default, which
    downloads, as in facebook/DiT-XL-2-256@default; random if not given."""

    latent: str = "pixels"
    """Of a DiT: what it draws: pixels, or the latents of autoencoder:FOLDER or autoencoder:NAME@default."""

    conditioned_on: Literal["auto", "none", "class", "vector"] = "auto"
    """Of a DiT: nothing, the class, or a pseudo-condition; auto is a pseudo-condition where conditioning is named, the
    class where images have several, nothing elsewhere."""

    conditioning: Literal["label-noise", "prediction", "prediction-label", "ensemble", "ensemble-label"] | None = None
    """Of a DiT: what a pseudo-condition is made of: noise or the outputs of classifiers that are trained first on the
    same images (the fold that did not see an image, or the mean of five), with the label or without."""

    drop_condition: float = 0.1
    """Of a DiT: share of the rows that lose their condition in a step, so that images can be drawn with guidance."""

    learn_sigma: bool | None = None
    """Of a DiT: whether the variance of a step back is learnt, too; by default what weights have, and not."""

    noise_schedule: Literal["linear", "cosine"] = "linear"
    """Of a DiT: how noise grows: linear, as its paper has it and pretrained weights expect, or cosine, with which small
    images are learnt in about half the steps."""

    steps: int = 10_000
    """Updates of the weights."""

    batch_size: int | None = None
    """Images a step, of all GPUs together; by default 32."""

    lr: float | None = None
    """Learning rate: 1e-4 of a DiT (a tiny one learns faster with 1e-3), 2.5e-3 of a GAN."""

    warmup: int = 0
    """Of a DiT: steps in which the learning rate rises to lr; then it stays."""

    weight_decay: float = 0.0
    """Of a DiT: of AdamW."""

    clip: float = 1.0
    """Of a DiT: norm to which the gradient of a step is clipped; 0 does not."""

    ema: float = 0.9999
    """Of a DiT: decay of the averaged weights, which draw; after t steps at most (1 + t) / (10 + t)."""

    flip: bool = False
    """Mirror half of the images of each step, left to right."""

    snapshot_every: int = 1000
    """Steps from one look at the generator to the next: held-out loss, and what watches it."""

    keep_snapshots: bool = False
    """Keep the generator of every look in snapshots/, each as large as the last one."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Arithmetic of the training; auto is bf16 on a GPU that has it, fp32 elsewhere. Held-out loss is in fp32."""

    seed: int = 0
    """Of the weights, the order, the noise and the flips."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; results depend on it."""

    checkpoint_seconds: float = 60.0
    """Least time between two writes of the training's state, from which a killed one goes on; one follows each look."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        GanSettings.validate(self)
        PseudoOptions.validate(self)
        schedules = ("linear", "cosine")
        for name, known in (("kind", TRAINED_KINDS), ("precision", PRECISIONS), ("noise_schedule", schedules)):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name in ("steps", "snapshot_every", "batch_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{name} is {value}; it must be a whole number of at least 1")
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise InputError(f"lr is {self.lr}; it must be above 0")
        for name in ("warmup", "weight_decay", "clip"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        for name in ("ema", "drop_condition"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be from 0 to below 1")
        self._check_condition()

    def _check_condition(self) -> None:
        """Check what the generator is conditioned on."""
        wanted, source = self.conditioned_on, self.conditioning
        if wanted not in ("auto", "none", "class", "vector"):
            raise unknown_name("conditioned_on", wanted, ("auto", "none", "class", "vector"))
        if source is not None and source not in CONDITIONINGS:
            raise unknown_name("conditioning", source, CONDITIONINGS)
        if self.kind == "gan" and (wanted in ("class", "vector") or source is not None):
            raise InputError("a GAN is trained without conditions here: leave conditioned_on and conditioning out")
        if source is not None and wanted in ("none", "class"):
            raise InputError(
                f"conditioning {source} is a vector, and conditioned_on is {wanted}: leave one of them out"
            )

    @property
    def images_a_step(self) -> int:
        """Batch size, filled in."""
        return self.batch_size or (GAN_BATCH_SIZE if self.kind == "gan" else DIT_BATCH_SIZE)

    @property
    def learning_rate(self) -> float:
        """Learning rate, filled in."""
        return self.lr or (GAN_LR if self.kind == "gan" else DIT_LR)

    def recipe(self) -> dict[str, Any]:
        """Every setting that the weights depend on, filled in, without those of the other kind."""
        given = {field.name: getattr(self, field.name) for field in fields(GeneratorOptions)}
        given |= {"batch_size": self.images_a_step, "lr": self.learning_rate}
        other = list(_DIT_ONLY) if self.kind == "gan" else [name for name in given if name.startswith("gan_")]
        other += [] if self.conditioning else [name for name in given if name.startswith("conditioning_")]
        return {name: value for name, value in given.items() if name not in (*_NOT_OF_THE_RESULT, *other)}


_DIT_ONLY = (
    *("network", "weights", "latent", "conditioned_on", "conditioning", "drop_condition", "learn_sigma"),
    *("noise_schedule", "warmup", "weight_decay", "clip", "ema"),
)


@dataclass(frozen=True, kw_only=True)
class TrainGeneratorOptions(PartOptions, GeneratorOptions):
    """Everything that `memorisk train generator` can be told."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        PartOptions.validate(self)
        GeneratorOptions.validate(self)

    @property
    def generator(self) -> GeneratorOptions:
        """Of the training alone."""
        return GeneratorOptions(**{field.name: getattr(self, field.name) for field in fields(GeneratorOptions)})


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(SamplingOptions, FunctionOptions):
    """Everything that `memorisk generate` can be told."""

    images: int | None = None
    """How many to make; with --paired one to each training image if not given."""

    seed: int = 0
    """Of the set: each image's own seed follows from it and the image's number."""

    balance: Literal["classes", "training"] = "classes"
    """As many images of every class, or as the training images are divided among the classes."""

    paired: bool = False
    """An image to each training image's condition, of a generator that learned from pseudo-conditions."""

    only: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)] = ()
    """Make only these images of the set, by id (synthetic-000017), the same to the byte; into another OUT."""

    device: str = "auto"
    """cpu, cuda, or auto: a GPU when there is one."""

    threads: int = 1
    """Threads on a CPU; the last bits of an image may depend on it."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        SamplingOptions.validate(self)
        if self.images is not None and self.images < 1:
            raise InputError(f"images is {self.images}; it must be a whole number of at least 1")
        if not 0 <= self.seed < _SEEDS:
            raise InputError(f"seed is {self.seed}; it must lie between 0 and {_SEEDS - 1}")
        if self.balance not in ("classes", "training"):
            raise unknown_name("balance", self.balance, ("classes", "training"))
        if self.threads < 1:
            raise InputError(f"threads is {self.threads}; it must be a whole number of at least 1")
        if len(set(self.only)) < len(self.only):
            raise InputError("only names an image twice: name each once")
