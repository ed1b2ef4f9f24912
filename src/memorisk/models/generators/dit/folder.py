"""Generators that draw images by a diffusion transformer, and their folders.

A generator's folder holds ``transformer/`` and ``scheduler/`` (and ``vae/`` where it draws latents) as diffusers writes
them. A generator of vectors has ``conditions.npz``, and one whose training is known ``seen.parquet`` and
``origin.json`` (and in ``vae/`` those of the autoencoder). ``generator.json`` is written last. Where there are an
autoencoder and classes, ``model_index.json`` makes it a pipeline, too, which
`diffusers.DiTPipeline.from_pretrained` opens; its guidance above 1 takes 1000 for "no class", whichever table it has,
so that it is right for tables of 1,000 classes alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.autoencoder import check_library, load_autoencoder
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.conditions import CONDITIONS, Conditions
from memorisk.models.generators.dit.network import adapt_conditions, spec_of
from memorisk.models.generators.dit.sampling import DiffusionSampler, image_side
from memorisk.models.generators.dit.weights import (
    SCHEDULER,
    TRANSFORMER,
    VAE,
    build_from_config,
    find_dit,
    read_architecture,
)
from memorisk.models.generators.generators import DESCRIPTION, Draw, check_draw, save_description
from memorisk.models.hub import CONFIG, WEIGHTS, fill_network, quiet, read_tensors
from memorisk.models.provenance import SeenImages, TrainingRecord, join_seen, read_training_record
from memorisk.models.settings import GeneratorConfig, SamplingOptions
from memorisk.models.weight_files import save_weights
from memorisk.runs.environment import check_device
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line
from memorisk.runs.files import fingerprint, read_json, write_json

SCHEDULER_CONFIG = "scheduler_config.json"


@dataclass(frozen=True, eq=False)
class DiTGenerator:
    """A `memorisk.models.generators.generators.Generator` that draws by a diffusion transformer.

    Attributes:
        network: Transformer (DiTTransformer2DModel); where it continues to learn, this generator does, too.
        config: Configuration of the generator.
        scheduler: Scheduler of diffusers, with the configuration of its training.
        vae: Autoencoder (AutoencoderKL) whose latents it draws, or None for pixels.
        known: Conditions of its training images.
        seen: Record of the images that it was trained and chosen on.
        vae_seen: Record of the images that its autoencoder was trained and chosen on.
    """

    network: Any
    config: GeneratorConfig
    scheduler: Any
    vae: Any | None = None
    known: Conditions | None = None
    seen: TrainingRecord | None = None
    vae_seen: TrainingRecord | None = None

    def __post_init__(self) -> None:
        config, spec = self.config, spec_of(self.network)
        side = image_side(spec, self.vae)
        if config.size != (side, side):
            raise InputError(
                f"{one_line(config.name, 60)} draws {side} x {side} pixels, and its description says "
                f"{config.size[0]} x {config.size[1]}"
            )
        architecture = (spec.rows, spec.condition_dim, spec.channels if self.vae is None else config.channels)
        if architecture != (max(len(config.classes), 1), config.condition_dim, config.channels):
            raise InputError(
                f"{one_line(config.name, 60)} and its description differ in classes, conditions or channels"
            )

    @cached_property
    def source(self) -> str:
        """Return the fingerprint of the weights and of the noise they were trained with, computed once."""
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
        """Return the conditions of its training images, [N, k] float32, where it keeps them."""
        return None if self.known is None else self.known.values

    def sample(self, draw: Draw, how: SamplingOptions | None = None, *, device: str = "auto") -> np.ndarray:
        """Draw as `memorisk.models.generators.generators.Generator.sample`; the network stays on the device.

        Raises:
            InputError: The draw does not fit this generator's conditions, there are more steps than its training had
            times, or
            guidance lacks a condition.
        """
        how = how or SamplingOptions()
        how.validate()
        checked, where = check_draw(self.config, draw), check_device(device)
        self.check_guidance(how.guidance)
        network = self.network.to(where)
        decoder = None if self.vae is None else self.vae.to(where)
        return DiffusionSampler(network, self.scheduler, decoder, self.config.channels, how, where).draw(checked)

    def seen_parts(self, store: ImageStore) -> SeenImages | None:
        """Return which images of a store it or its autoencoder was trained or chosen on; None if not known."""
        return None if self.seen is None else join_seen(self.seen.parts(store), self.vae_seen, store)

    def check_guidance(self, guidance: float) -> None:
        """Refuse guidance that the generator cannot have.

        Args:
            guidance: Scale of the guidance; 1 for none.

        Raises:
            InputError: The generator has no condition, or was never trained without one.
        """
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
    seen: TrainingRecord | None = None,
    vae_seen: TrainingRecord | None = None,
) -> None:
    """Write a generator's folder, private, each file atomically, its description last.

    Args:
        network: Network of `memorisk.models.generators.dit.network.new_dit`.
        folder: Folder of the generator; it is made if it is missing, and one that was begun is written again.
        config: Configuration of the generator, of kind ``dit``.
        scheduler: Scheduler of diffusers, with the configuration of its training.
        vae: Autoencoder (AutoencoderKL) whose latents it draws; None for pixels.
        conditions: Conditions of its training images, for vectors.
        seen: Record of the images that it was trained and chosen on.
        vae_seen: Record of the images that its autoencoder was trained and chosen on.

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
    write_json(folder / SCHEDULER / SCHEDULER_CONFIG, _as_ddim(scheduler, pixels=vae is None), recorded=True)
    if vae is not None and config.conditioned_on == "class":
        write_json(folder / "model_index.json", _index(config))
    if conditions is not None:
        conditions.save(folder)
    if seen is not None:
        seen.save(folder)
    save_description(folder, config)


def load_dit(folder: Path, config: GeneratorConfig) -> DiTGenerator:
    """Load a generator from its folder.

    Args:
        folder: Folder that `save_dit` wrote.
        config: Configuration that `read_description` read from it.

    Raises:
        InputError: The folder is damaged: a file or tensor is missing, unknown, of another shape or not finite.
        MissingExtraError: diffusers is not installed.
    """
    check_library("a diffusion transformer")
    title = one_line(config.name, 60)
    network = _read_network(folder / TRANSFORMER, title, config.condition_dim)
    vae = load_autoencoder(folder / VAE, f"autoencoder of {title}") if (folder / VAE / CONFIG).is_file() else None
    if (vae is None) != (config.latent == "pixels"):
        raise InputError(f"{title} draws {one_line(config.latent, 60)}, and its folder says otherwise: {VAE} is amiss")
    conditions = Conditions.load(folder) if (folder / CONDITIONS).is_file() else None
    if conditions is not None and conditions.dimension != config.condition_dim:
        raise InputError(
            f"{CONDITIONS} of {title} has {conditions.dimension} numbers a row, and it takes {config.condition_dim}"
        )
    scheduler, records = (
        _scheduler(folder / SCHEDULER, title),
        [read_training_record(part) for part in (folder, folder / VAE)],
    )
    return DiTGenerator(network, config, scheduler, vae, conditions, *records)


def load_pipeline(folder: Path) -> DiTGenerator:
    """Load a generator from a folder of diffusers that holds no description of memorisk's.

    Args:
        folder: Folder of a pipeline, with ``transformer/`` and ``scheduler/``, and ``vae/`` where it draws latents. Its
            classes have the names of ``model_index.json``, else their numbers.

    Raises:
        InputError: The folder is of another pipeline, or damaged.
        MissingExtraError: diffusers is not installed.
    """
    check_library("a diffusion transformer")
    source = find_dit(str(folder))
    root, title = source.transformer.parent, f"DiT {source.name}"
    network = _read_network(source.transformer, title, 0)
    vae = None if source.vae is None else load_autoencoder(source.vae, f"autoencoder of {title}")
    spec = spec_of(network)
    side = image_side(spec, vae)
    config = GeneratorConfig(
        kind="dit",
        name=source.name,
        size=(side, side),
        channels=spec.channels if vae is None else int(vae.config.out_channels),
        conditioned_on=spec.conditioned_on,
        classes=class_names(root, spec.classes),
        latent="pixels" if vae is None else f"autoencoder of {source.name}",
    )
    return DiTGenerator(network, config, _scheduler(root / SCHEDULER, title), vae)


def _read_network(folder: Path, title: str, condition_dim: int) -> Any:
    """Read a whole transformer, frozen and in evaluation mode.

    Raises:
        InputError: It is missing or damaged.
    """
    architecture = read_architecture(folder, title)
    tensors = read_tensors(folder, title)
    with seeded(0):
        network = build_from_config(architecture, title)
        adapt_conditions(network, condition_dim)
    fill_network(network, tensors, title)
    return network.eval().requires_grad_(False)


def class_names(root: Path, n: int) -> tuple[str, ...]:
    """Return the names of a pipeline's classes, or their numbers where it has no name for each.

    Args:
        root: Folder of a pipeline of diffusers.
        n: Number of its classes.
    """
    try:
        names = read_json(root / "model_index.json")["id2label"]
        return tuple(str(names[str(number)]) for number in range(n))
    except CONTENT_ERRORS:
        return tuple(map(str, range(n)))


def _save_module(module: Any, folder: Path) -> None:
    """Save in the form of diffusers: ``config.json`` and one safetensors file."""
    save_weights(folder / WEIGHTS, module)
    write_json(folder / CONFIG, _class_config(module), recorded=True)


def _class_config(part: Any) -> dict[str, Any]:
    """Return the configuration of a part of diffusers, with its class."""
    import diffusers

    return {"_class_name": type(part).__name__, "_diffusers_version": diffusers.__version__, **_public(part.config)}


def _public(config: Any) -> dict[str, Any]:
    return {name: value for name, value in dict(config).items() if not name.startswith("_")}


def _as_ddim(scheduler: Any, *, pixels: bool) -> dict[str, Any]:
    """Return a training's configuration as that of a DDIMScheduler, which a pipeline of diffusers starts with."""
    with quiet("diffusers"):
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler

        return _class_config(DDIMScheduler.from_config(dict(scheduler.config), clip_sample=pixels)) | {
            name: value for name, value in _public(scheduler.config).items() if name == "variance_type"
        }


def _scheduler(folder: Path, title: str) -> Any:
    """Read a scheduler from ``scheduler_config.json``."""
    try:
        config = read_json(folder / SCHEDULER_CONFIG)
    except CONTENT_ERRORS as error:
        raise InputError(f"{SCHEDULER_CONFIG} of {title} cannot be used: {one_line(error, 120)}") from None
    return read_scheduler(config, title)


def read_scheduler(config: Mapping[str, Any], title: str) -> Any:
    """Build the schedule of a training, a `diffusers.DDPMScheduler`, from the configuration of a scheduler.

    Args:
        config: Content of ``scheduler_config.json``.
        title: Name of the network in messages.

    Raises:
        InputError: The configuration cannot be used.
    """
    try:
        with quiet("diffusers"):
            from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

            return DDPMScheduler.from_config(_public(config))
    except Exception as error:  # diffusers raises many kinds
        raise InputError(f"{SCHEDULER_CONFIG} of {title} cannot be used: {one_line(error, 120)}") from None


def _index(config: GeneratorConfig) -> dict[str, Any]:
    """Return the index that makes a folder a DiTPipeline."""
    import diffusers

    return {
        "_class_name": "DiTPipeline",
        "_diffusers_version": diffusers.__version__,
        "id2label": {str(number): name for number, name in enumerate(config.classes)},
        SCHEDULER: ["diffusers", "DDIMScheduler"],
        TRANSFORMER: ["diffusers", "DiTTransformer2DModel"],
        VAE: ["diffusers", "AutoencoderKL"],
    }
