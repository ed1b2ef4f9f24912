"""The settings of a generator's training and of ``memorisk train generator``; docs/generators.md has what they do."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from memorisk.runs.errors import InputError, unknown_name
from memorisk.training.engine.options import PRECISIONS
from memorisk.training.engine.part_options import PartOptions
from memorisk.training.generators.conditions.options import CONDITIONINGS, PseudoOptions
from memorisk.training.generators.gan.options import GAN_BATCH_SIZE, GAN_LR, GanSettings

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
