"""A generator that is to be released, as a predictor of noise: one file of weights, or a folder.

Loading is strict and runs no code of the file or folder (`memorisk.models.weight_files`, `memorisk.models.hub`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.denoiser_sampling import DenoiserGenerator
from memorisk.models.generators.dit.folder import DiTGenerator, load_pipeline
from memorisk.models.generators.dit.network import null_labels, spec_of
from memorisk.models.generators.generators import DESCRIPTION, Generator, load_generator
from memorisk.models.generators.perceptron import NoisePerceptron, new_perceptron, perceptron_denoiser
from memorisk.models.generators.text_to_image.captions import CaptionFolder
from memorisk.models.generators.text_to_image.lora import load_adapters
from memorisk.models.generators.unet import inner_unet, load_unet
from memorisk.models.hub import fill_network
from memorisk.models.released_weights import released_sha256
from memorisk.models.settings import GeneratorConfig
from memorisk.models.weight_files import read_state_dict
from memorisk.runs.errors import InputError, one_line

_INPUT = "enter.weight"  # tensor of a small network that is as wide as an image has values


@dataclass(frozen=True, eq=False)
class ReleasedGenerator:
    """Generator that is to be released."""

    network: nn.Module
    """Network that draws, whose weights are released; of a LoRA its adapters."""
    denoiser: Denoiser
    """The same network as a predictor of noise, with the base of a LoRA."""
    latent: str
    """Space in which it draws, as `memorisk.training.generators.batches.view_images` takes it."""
    shape: tuple[int, ...]
    """Channels, height and width of what it draws; the number of values alone for a small network."""
    classes: tuple[str, ...] = ()
    """Names of its classes, in the order of their numbers; empty for a generator without conditions."""
    captions: CaptionFolder | None = None
    """Tokenizer of its captions, whose tokens are its condition; None for a generator without captions."""
    base_sha256: str | None = None
    """SHA-256 of the only file under which the base of a LoRA can be released; None for a whole network."""
    own: Generator | None = None
    """The same generator with a sampler of its own; None for one that draws by its denoiser."""

    def check_guidance(self, guidance: float, name: str) -> None:
        """Refuse guidance that the generator cannot have.

        Args:
            guidance: Scale of the guidance, another one than 1.
            name: Name of the generator in messages.

        Raises:
            InputError: It has no condition, or no value for none; or it was never trained without a condition.
        """
        if self.denoiser.null is None or not (self.classes or self.captions):
            why = "predicts nothing without a class" if self.classes else "has no condition to keep to"
            raise InputError(f"guidance is {guidance:g}, and {name} {why}: leave it at 1")
        if isinstance(self.own, DiTGenerator):
            self.own.check_guidance(guidance)

    def drawing(self, name: str, shape: tuple[int, int, int]) -> Generator:
        """Return the generator as one that draws images.

        Args:
            name: Name for a report.
            shape: Height, width and channels of its images.

        Raises:
            InputError: It draws from captions.
        """
        if self.captions is not None:
            raise InputError(f"{name} draws from captions, of which memorisk draws no images: leave --extract out")
        if self.own is not None:
            return self.own
        height, width, channels = shape
        config = GeneratorConfig(
            kind="denoiser",
            name=name,
            size=(height, width),
            channels=channels,
            conditioned_on="class" if self.classes else "none",
            classes=self.classes,
        )
        generator: Any = DenoiserGenerator(self.network, self.denoiser, config)
        return generator  # pyright takes no cached_property for a protocol's property


def open_released(place: Path, kind: str, lora: Path | None = None) -> ReleasedGenerator:
    """Open a generator by the place of its weights.

    Args:
        place: File of weights of a small network, or folder of a diffusion transformer: as `train generator` writes it
            (the run's or its ``generator``), or of a pipeline of diffusers; of a U-Net that of a pipeline, also of one
            that is conditioned on captions.
        kind: Kind of the generator: ``tiny``, ``dit`` or ``unet``.
        lora: File of the adapters of a U-Net, whose base the folder is.

    Raises:
        InputError: The place does not exist, is of another kind or damaged, or the generator takes conditions that its
            images do not show.
        MissingExtraError: A library that the kind needs is not installed.
    """
    name = one_line(place.name, 60)
    if not place.exists():
        raise InputError(f"the file or folder {one_line(place)} of a generator does not exist")
    if kind == "tiny":
        if not place.is_file():
            raise InputError(
                f"{name} is a folder, and a tiny generator is one file of weights: name it, or kind dit or unet"
            )
        return _tiny(place, name)
    if not place.is_dir():
        raise InputError(f"{name} is a file, and a generator of kind {kind} is a folder: name its folder, or kind tiny")
    return _unet(place, lora) if kind == "unet" else _transformer(place, name)


def _tiny(file: Path, name: str) -> ReleasedGenerator:
    """Open a small network; its file says for how many values."""
    tensors = read_state_dict(file)
    first = tensors.get(_INPUT)
    if first is None or first.ndim != 2:
        raise InputError(f"{name} holds no tiny generator: it has no tensor {_INPUT} of two dimensions")
    network: NoisePerceptron = new_perceptron(first.shape[1], seed=0)
    fill_network(network, tensors, name)
    network.eval().requires_grad_(False)
    return ReleasedGenerator(network, perceptron_denoiser(network), "pixels", (first.shape[1],))


def _transformer(folder: Path, name: str) -> ReleasedGenerator:
    """Open a diffusion transformer of a folder."""
    root = next((root for root in (folder, folder / "generator") if (root / DESCRIPTION).is_file()), None)
    generator = load_pipeline(folder) if root is None else load_generator(root)
    if not isinstance(generator, DiTGenerator):
        raise InputError(f"{name} is a {generator.config.kind}, and a diffusion transformer is needed")
    spec = spec_of(generator.network)
    if spec.conditioned_on == "vector":
        raise InputError(
            f"{name} is conditioned on vectors, which are not known for test images: name a generator of classes, or "
            "one without conditions"
        )
    denoiser = transformer_denoiser(generator)
    latent = "pixels" if generator.vae is None else f"autoencoder:{root or folder}"
    shape = (spec.channels, spec.side, spec.side)
    drawing: Any = generator  # pyright takes no cached_property for a protocol's property
    return ReleasedGenerator(generator.network, denoiser, latent, shape, generator.config.classes, own=drawing)


def transformer_denoiser(generator: DiTGenerator) -> Denoiser:
    """Return a diffusion transformer of classes or of no condition as a predictor of noise, called without a class.

    Args:
        generator: Generator; one of vectors has no such value.
    """
    spec = spec_of(generator.network)
    null = null_labels(spec, 1) if spec.classes else torch.zeros(1, dtype=torch.int64)
    return Denoiser.from_scheduler(generator.network, generator.scheduler, null=null)


def _unet(folder: Path, lora: Path | None) -> ReleasedGenerator:
    """Open a U-Net of a folder.

    One with classes needs the class of each image, and has no value for none; of captions the empty one means none.
    """
    network, unet = load_unet(folder)
    released, base = network, None
    if lora is not None:
        base = released_sha256(network)
        released = load_adapters(inner_unet(network), lora)
    null = None if unet.captions is None else unet.captions.tokens([""])
    denoiser = Denoiser.from_scheduler(network, unet.scheduler(), null=null)
    return ReleasedGenerator(released, denoiser, unet.latent, unet.shape, unet.classes, unet.captions, base)
