"""Settings of ``memorisk audit generator``, for Python, the command line and YAML at once."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from memorisk.audits.classifier.options import TwinOptions
from memorisk.models.settings import UNET_SIZES
from memorisk.runs.errors import InputError
from memorisk.runs.options import grouped
from memorisk.runs.settings import check_counts, check_finite, settings_of
from memorisk.statistics.verdicts.scales import NOISE_ERROR, LossScale
from memorisk.training.engine.options import OwnTrainingOptions
from memorisk.training.generators.options import DIT_BATCH_SIZE, DIT_LR, GAN_BATCH_SIZE, GAN_LR, GanSettings

_DEFAULTS: dict[str, tuple[int, int, float]] = {
    "tiny": (1_500, 64, 1e-3),
    "dit": (10_000, DIT_BATCH_SIZE, DIT_LR),
    "unet": (10_000, DIT_BATCH_SIZE, DIT_LR),
    "gan": (10_000, GAN_BATCH_SIZE, GAN_LR),
}
"""Steps, images per step and learning rate of each kind."""
_NETWORKS = {"tiny": "tiny/4", "dit": "tiny/4", "unet": "small", "gan": "tiny/4"}
"""Network of each kind by default; the tiny one has no size, and that of a GAN is in `GanSettings`."""
GAN_SETTINGS = tuple(field.name for field in fields(GanSettings))
"""Settings that only a GAN has."""
OF_KINDS = {
    "network": ("dit", "unet"),
    "latent": ("dit",),
    "noise_schedule": ("dit", "unet"),
    "ema": ("dit", "unet"),
    "guidance": ("dit", "unet"),
    "caption_column": ("unet",),
    "caption_words": ("unet",),
    "lora": ("unet",),
    "target": ("tiny", "dit", "unet"),
    "levels": ("tiny", "dit", "unet"),
    "draws": ("tiny", "dit", "unet"),
    **dict.fromkeys(GAN_SETTINGS, ("gan",)),
}
"""Settings that only some kinds have."""

_BUILT_IN = {"kind", "network", "latent", "noise_schedule", "steps", "batch_size", "lr", "ema", "flip", *GAN_SETTINGS}
"""Settings of the built-in training; with ``train``, ``kind`` is that of the target."""

LEAST_DRAWN = 100
"""Least number of images that an extraction draws."""

WORKER_MODULES = ("memorisk.training.generators.twins.jobs", "memorisk.images.pixels")
"""Modules that the processes of an audit import, once for all of them."""


@grouped(
    "training",
    essential="kind network steps dose target extract",
    design="dose levels draws target guidance extract",
)
@dataclass(frozen=True, kw_only=True)
class GeneratorAuditOptions(TwinOptions, OwnTrainingOptions, GanSettings):
    """Settings of `memorisk audit generator`."""

    VOLUMES = True

    kind: Literal["tiny", "dit", "unet", "gan"] = "tiny"
    """Generator whose twins are trained: tiny (a small diffusion network for images of a few hundred pixels), dit or
    gan (those of `train generator`) or unet (UNet2DModel of diffusers). By your own code: --train."""

    network: str | None = None
    """DiT: size (tiny, small, S, B, L, XL) and side of a patch in pixels or latent numbers, as in XL/2; by default
    tiny/4. U-Net: tiny, small, medium, or a folder of diffusers, whose configuration the twins have without its
    weights; by default that of target, else small."""

    latent: str = "pixels"
    """DiT: space in which it draws: pixels, or the latents of autoencoder:FOLDER or autoencoder:NAME@default."""

    caption_column: str | None = None
    """U-Net that is conditioned on captions (folder of a StableDiffusionPipeline): column of the captions of the
    images."""

    caption_words: bool = False
    """Measure which words of the captions lower the loss of training images by more than that of test images; one more
    loss of --target per image and word."""

    noise_schedule: Literal["linear", "cosine"] = "linear"
    """DiT, U-Net of a named size: noise schedule, as in `train generator`."""

    steps: int | None = None
    """Number of training steps of each twin; by default 1,500 (tiny) or 10,000."""

    batch_size: int | None = None
    """Images per step; by default 64 (tiny) or 32, and at most half of a twin's images."""

    lr: float | None = None
    """Learning rate; by default 1e-3 (tiny), 1e-4 (dit, unet) or 2.5e-3 (gan)."""

    ema: float = 0.9999
    """DiT, U-Net: decay of the averaged weights, which are scored."""

    flip: bool = False
    """Mirror half of the images of each step, left to right."""

    target: Path | None = None
    """Generator to be released; the given split tells which images it was trained on. The weights of a tiny network as
    one file, or the folder of a DiT of `train generator` or of diffusers, or of a U-Net of diffusers, also one
    of captions and latents (a StableDiffusionPipeline)."""

    lora: Path | None = None
    """LoRA to be released, on the U-Net of --target: its file of safetensors. The twins begin with that base, too, and
    train adapters alone."""

    guidance: float = 1.0
    """Scale of classifier-free guidance at which --target is released, as 7.5: its loss there is one more attack. 1 is
    none."""

    extract: int | None = None
    """Draw so many images from --target, and audit whether they copy a patient of its training, against test patients;
    at least 100."""

    dose: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = ()
    """Repeat the images of ten patients so many times in the training of the twin that sees them, as 4 16 64: from how
    many repetitions on does this recipe remember? Such an audit does not pass, since its twins are not the recipe's."""

    levels: int = 10
    """Number of noise levels at which each image is scored, even in the log of signal over noise."""

    draws: int = 8
    """Number of pairs of noise, e and -e, at each level."""

    def validate(self) -> None:
        """Check every value that can be wrong by itself.

        Raises:
            InputError: A value is outside what its field allows.
        """
        TwinOptions.validate(self)
        GanSettings.validate(self)
        if len(set(self.dose)) < len(self.dose) or min(self.dose, default=2) < 2:
            doses = " ".join(map(str, self.dose))
            raise InputError(f"dose is {doses}; give different numbers of at least 2, as 4 16 64")
        check_counts(self, steps=1, batch_size=2, levels=1, draws=1)
        if self.dose and self.target is not None:
            raise InputError("dose repeats images in the training of the twins, and not in that of target: give one")
        if self.extract is not None and self.target is None:
            raise InputError("extract draws images from the generator that is to be released: name it with target")
        if self.extract is not None and self.extract < LEAST_DRAWN:
            raise InputError(
                f"extract is {self.extract}; of fewer than {LEAST_DRAWN} images hardly any copy is one: draw more, as "
                "1000"
            )
        if self.frames == "volume" and (self.kind != "tiny" or self.target is not None):
            raise InputError(
                "frames volume: twins of volumes are trained by your own function (train) or are of kind tiny, without "
                "a target (leave kind and target out)"
            )
        check_finite(self, "lr")
        check_finite(self, "guidance", zero=True)
        self._refuse_unfit_release()
        if not 0 <= self.ema < 1:
            raise InputError(f"ema is {self.ema}; it must be from 0 to below 1")
        self.check_own_training(_BUILT_IN - ({"kind"} if self.target else set()))
        for name, kinds in OF_KINDS.items():
            if self.kind not in kinds and getattr(self, name) != getattr(GeneratorAuditOptions, name):
                raise InputError(f"{name} is no setting of kind {self.kind}: name it with kind {' or '.join(kinds)}")
        if self.noise_schedule != "linear" and self.unet_folder is not None:
            raise InputError("noise_schedule is that of the U-Net's folder: leave it out")

    def _refuse_unfit_release(self) -> None:
        """Refuse settings of the released generator that do not fit each other.

        Raises:
            InputError: They do not.
        """
        if self.guidance != 1 and self.target is None:
            raise InputError("guidance is that of the generator that is to be released: name it with target")
        if self.caption_words and (self.target is None or self.caption_column is None):
            raise InputError("caption_words are those of the released generator: name target and caption_column")
        if self.caption_words and self.pseudonymise:
            raise InputError(
                "caption_words shows words of captions, which may name people: leave it or pseudonymise out"
            )
        if self.lora is None:
            return
        if self.target is None:
            raise InputError("lora holds the adapters of a U-Net: name the folder of its base with target")
        if self.network is not None:
            raise InputError("twins of a LoRA begin with its base, which target names: leave network out")
        if self.extract is not None:
            raise InputError("memorisk draws no images from a LoRA: leave extract out")

    @property
    def gan_settings(self) -> GanSettings | None:
        """Return the settings of a GAN; None for other kinds."""
        if self.kind != "gan" or self.train is not None:
            return None
        return GanSettings(**{name: getattr(self, name) for name in GAN_SETTINGS})

    @property
    def chosen_network(self) -> str:
        """Network of the twins, filled in."""
        return self.network or _NETWORKS[self.kind]

    @property
    def unet_folder(self) -> Path | None:
        """Folder whose configuration the twins have; None for other kinds, and for a named size."""
        if self.kind != "unet":
            return None
        if self.network is None:
            return self.target
        return None if self.network in UNET_SIZES else Path(self.network)

    @property
    def chosen_steps(self) -> int:
        """Number of training steps, filled in."""
        return self.steps or _DEFAULTS[self.kind][0]

    def images_a_step(self, n_trained: int) -> int:
        """Return the number of images per step: as given, or the kind's, but no more than half of a twin's.

        Args:
            n_trained: Number of images of all twins together.
        """
        return self.batch_size or max(2, min(_DEFAULTS[self.kind][1], n_trained // 4))

    @property
    def learning_rate(self) -> float:
        """Learning rate, filled in."""
        return self.lr or _DEFAULTS[self.kind][2]

    @property
    def loss_scale(self) -> LossScale:
        """Scale of the losses."""
        return NOISE_ERROR


def options_from(settings: dict[str, Any]) -> GeneratorAuditOptions:
    """Return options from keyword names, with a "did you mean" for one that does not exist.

    With ``target`` the given split is the only one that tells which images were in its training.

    Raises:
        InputError: A name is unknown, or a value is not allowed.
    """
    options = settings_of(GeneratorAuditOptions, settings)
    drawn_anew = options.target is not None and options.splits == "redraw"
    return replace(options, splits="given") if drawn_anew else options
