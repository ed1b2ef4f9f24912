"""A diffusion transformer that draws images, and its folder.

It holds ``transformer/`` and ``scheduler/`` (and ``vae/`` where it draws latents) as diffusers writes them, of vectors
``conditions.npz``, of a training that is known ``seen.parquet`` and ``origin.json`` (and in ``vae/`` those of the
autoencoder), and ``generator.json``, written last. Where there are an autoencoder and classes,
``model_index.json`` makes it a pipeline, too, which `diffusers.DiTPipeline.from_pretrained` opens; its guidance above 1
takes 1000 for "no class", whatever the table holds, so that it is right for tables of 1,000 classes alone.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file

from memorisk.images.store import ImageStore
from memorisk.models.autoencoders.autoencoders import check_library, load_autoencoder, quiet_diffusers
from memorisk.models.autoencoders.latents_seen import TrainedOn, joined, read_trained_on
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.detectors.folder import Seen
from memorisk.models.generators.conditions import CONDITIONS, Conditions
from memorisk.models.generators.diffusion_sampling import DiffusionSampler, drawn_side
from memorisk.models.generators.dit.diffusers_weights import CONFIG, WEIGHTS, fill, read_tensors
from memorisk.models.generators.dit.network import adapt_conditions, spec_of
from memorisk.models.generators.dit.weights import SCHEDULER, TRANSFORMER, VAE, build, read_architecture
from memorisk.models.generators.generators import DESCRIPTION, Draw, GeneratorConfig, check_draw, save_description
from memorisk.models.generators.sampling_options import SamplingOptions
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path, read_json, write_json
from memorisk.runs.fingerprint import fingerprint

SCHEDULER_CONFIG = "scheduler_config.json"


@dataclass(frozen=True, eq=False)
class DiTGenerator:
    """A `memorisk.models.generators.generators.Generator` that draws by a diffusion transformer.

    Attributes:
        network: A DiTTransformer2DModel; where it goes on learning, this generator does, too.
        config: What it makes.
        scheduler: Of diffusers, with the configuration of its training.
        vae: The AutoencoderKL whose latents it draws, or None for pixels.
        known: Conditions of its training images.
        seen: The images that it was trained and chosen on.
        vae_seen: Those that its autoencoder was.
    """

    network: Any
    config: GeneratorConfig
    scheduler: Any
    vae: Any | None = None
    known: Conditions | None = None
    seen: TrainedOn | None = None
    vae_seen: TrainedOn | None = None

    def __post_init__(self) -> None:
        config, spec = self.config, spec_of(self.network)
        side = drawn_side(spec, self.vae)
        if config.size != (side, side):
            raise InputError(
                f"{one_line(config.name, 60)} draws {side} x {side} pixels, and its description says "
                f"{config.size[0]} x {config.size[1]}"
            )
        given = (spec.rows, spec.condition_dim, spec.channels if self.vae is None else config.channels)
        if given != (max(len(config.classes), 1), config.condition_dim, config.channels):
            raise InputError(
                f"{one_line(config.name, 60)} and its description differ in classes, conditions or channels"
            )

    @cached_property
    def source(self) -> str:
        """Fingerprint of the weights, and of the noise they were trained with; taken once, as they are then."""
        parts = {TRANSFORMER: self.network} | ({} if self.vae is None else {VAE: self.vae})
        tensors = [
            [part, name, fingerprint(t.detach().cpu().numpy())]
            for part, module in parts.items()
            for name, t in sorted(module.state_dict().items())
        ]
        noise = {k: v for k, v in _as_ddim(self.scheduler, pixels=self.vae is None).items() if not k.startswith("_")}
        return fingerprint(tensors, noise, length=32)

    @property
    def conditions(self) -> np.ndarray | None:
        """[N, k] float32 of its training images, where it keeps them."""
        return None if self.known is None else self.known.values

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """As `memorisk.models.generators.generators.Generator.sample`; the network stays on the device.

        Raises:
            InputError: A draw that is not of this generator's conditions, more steps than its training had times, or
                guidance without a condition to keep to.
        """
        how = how or SamplingOptions()
        how.validate()
        given, where = check_draw(self.config, draw), check_device(device)
        self._check_guidance(how.guidance)
        network = self.network.to(where)
        decoder = None if self.vae is None else self.vae.to(where)
        return DiffusionSampler(network, self.scheduler, decoder, self.config.channels, how, where).draw(given)

    def seen_parts(self, store: ImageStore) -> Seen | None:
        """Which images of a store it or its autoencoder was trained or chosen on; None where that is not known."""
        return None if self.seen is None else joined(self.seen.parts(store), self.vae_seen, store)

    def _check_guidance(self, guidance: float) -> None:
        """Refuse guidance that a generator cannot have."""
        if guidance == 1:
            return
        name, recipe = one_line(self.config.name, 60), self.config.details.get("recipe", {})
        if self.config.conditioned_on == "none":
            raise InputError(f"guidance is {guidance}, and {name} has no condition to keep to: leave it at 1")
        if recipe.get("drop_condition", None) == 0:
            raise InputError(
                f"guidance is {guidance}, and {name} was trained with drop_condition 0: it never drew without a "
                "condition, which guidance needs; leave it at 1"
            )


def save_dit(
    network: Any,
    folder: Path,
    config: GeneratorConfig,
    *,
    scheduler: Any,
    vae: Any | None = None,
    conditions: Conditions | None = None,
    seen: TrainedOn | None = None,
    vae_seen: TrainedOn | None = None,
) -> None:
    """Write a generator's folder, private, each file atomically, its description last.

    Args:
        network: Of `memorisk.models.generators.dit.network.new_dit`.
        folder: Made if it is not there; one that was begun is written again.
        config: What it makes, of kind ``dit``.
        scheduler: Of diffusers, with the configuration of its training.
        vae: The AutoencoderKL whose latents it draws; None for pixels.
        conditions: Of its training images, for vectors.
        seen: The images that it was trained and chosen on.
        vae_seen: Those that its autoencoder was.

    Raises:
        InputError: Network and description do not fit each other.
    """
    DiTGenerator(network, config, scheduler, vae)  # checks that they fit
    parts = {TRANSFORMER: network} | ({} if vae is None else {VAE: vae})
    for path in (folder, *(folder / name for name in (*parts, SCHEDULER))):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name, module in parts.items():
        _save_module(module, folder / name)
    if vae_seen is not None:
        vae_seen.save(folder / VAE)
    write_json(folder / SCHEDULER / SCHEDULER_CONFIG, _as_ddim(scheduler, pixels=vae is None))
    if vae is not None and config.conditioned_on == "class":
        write_json(folder / "model_index.json", _index(config))
    if conditions is not None:
        conditions.save(folder)
    if seen is not None:
        seen.save(folder)
    save_description(folder, config)


def load_dit(folder: Path, config: GeneratorConfig) -> DiTGenerator:
    """A generator from its folder.

    Args:
        folder: What `save_dit` wrote.
        config: Its description.

    Raises:
        InputError: It is damaged: a file or tensor is missing, unknown, of another shape or not finite.
        MissingExtraError: diffusers is not there.
    """
    check_library("a diffusion transformer")
    said = one_line(config.name, 60)
    architecture = read_architecture(folder / TRANSFORMER, said)
    tensors = read_tensors(folder / TRANSFORMER, said)
    with seeded(0):
        network = build(architecture, said)
        adapt_conditions(network, config.condition_dim)
    fill(network, tensors, said)
    vae = load_autoencoder(folder / VAE, f"autoencoder of {said}") if (folder / VAE / CONFIG).is_file() else None
    if (vae is None) != (config.latent == "pixels"):
        raise InputError(f"{said} draws {one_line(config.latent, 60)}, and its folder says otherwise: {VAE} is amiss")
    known = Conditions.load(folder) if (folder / CONDITIONS).is_file() else None
    if known is not None and known.dimension != config.condition_dim:
        raise InputError(
            f"{CONDITIONS} of {said} has {known.dimension} numbers a row, and it takes {config.condition_dim}"
        )
    network.eval().requires_grad_(False)
    scheduler, seen = _scheduler(folder / SCHEDULER, said), [read_trained_on(part) for part in (folder, folder / VAE)]
    return DiTGenerator(network, config, scheduler, vae, known, *seen)


def _save_module(module: Any, folder: Path) -> None:
    """As diffusers has it: ``config.json`` and one safetensors file."""
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in module.state_dict().items()}
    with atomic_path(folder / WEIGHTS) as temporary:
        save_file(tensors, temporary)
    write_json(folder / CONFIG, _named(module))


def _named(part: Any) -> dict[str, Any]:
    """The configuration of a part of diffusers, with its class."""
    import diffusers

    return {"_class_name": type(part).__name__, "_diffusers_version": diffusers.__version__, **_public(part.config)}


def _public(config: Any) -> dict[str, Any]:
    return {name: value for name, value in dict(config).items() if not name.startswith("_")}


def _as_ddim(scheduler: Any, *, pixels: bool) -> dict[str, Any]:
    """The configuration of a training as that of a DDIMScheduler, which a pipeline of diffusers starts with."""
    with quiet_diffusers():
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler

        return _named(DDIMScheduler.from_config(dict(scheduler.config), clip_sample=pixels)) | {
            name: value for name, value in _public(scheduler.config).items() if name == "variance_type"
        }


def _scheduler(folder: Path, said: str) -> Any:
    """Of ``scheduler_config.json``."""
    try:
        with quiet_diffusers():
            from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

            return DDPMScheduler.from_config(_public(read_json(folder / SCHEDULER_CONFIG)))
    except Exception as error:  # diffusers, json and the disk each raise their own kinds
        raise InputError(f"{SCHEDULER_CONFIG} of {said} cannot be used: {one_line(error, 120)}") from None


def _index(config: GeneratorConfig) -> dict[str, Any]:
    """What makes a folder a DiTPipeline."""
    import diffusers

    return {
        "_class_name": "DiTPipeline",
        "_diffusers_version": diffusers.__version__,
        "id2label": {str(number): name for number, name in enumerate(config.classes)},
        SCHEDULER: ["diffusers", "DDIMScheduler"],
        TRANSFORMER: ["diffusers", "DiTTransformer2DModel"],
        VAE: ["diffusers", "AutoencoderKL"],
    }
