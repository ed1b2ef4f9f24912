"""U-Nets of diffusers in pixels (`diffusers.UNet2DModel`; Ho et al. 2020), from a folder or of a named size.

A folder is that of a DDPM or DDIM pipeline of diffusers: ``unet/`` with ``config.json`` and safetensors, ``scheduler/``
and ``model_index.json``. That of a StableDiffusionPipeline holds ``vae/``, ``text_encoder/`` and ``tokenizer/`` as
well: its `diffusers.UNet2DConditionModel` draws latents and is conditioned on captions (`text_to_image`). Reading a
folder runs no code of it, and one that holds any is refused (`pipeline_folder`). Loading is strict.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.autoencoder import DIFFUSERS_CLASS, check_library
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.dit.folder import SCHEDULER_CONFIG, class_names, read_scheduler
from memorisk.models.generators.dit.weights import SCHEDULER, VAE
from memorisk.models.generators.pipeline_folder import INDEX, read_config, read_index, refuse_class, refuse_pickled
from memorisk.models.generators.text_to_image.captions import TEXT_ENCODER, TOKENIZER, CaptionFolder, read_captions
from memorisk.models.generators.text_to_image.lora import AdaptedBase, adapter_tensors, adapters_of, read_lora, sizes_of
from memorisk.models.generators.text_to_image.network import CaptionedUNet
from memorisk.models.hub import CONFIG, fill_network, quiet, read_tensors, weight_files
from memorisk.models.settings import UNET_SIZES
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint

UNET = "unet"
_CLASS, _PIPELINES, _SCHEDULERS = "UNet2DModel", ("DDPMPipeline", "DDIMPipeline"), ("DDPMScheduler", "DDIMScheduler")
_CAPTIONED, _TEXT_TO_IMAGE = "UNet2DConditionModel", "StableDiffusionPipeline"
_PARTS: Mapping[str, tuple[list[str], ...]] = {
    UNET: (["diffusers", _CAPTIONED],),
    VAE: (["diffusers", DIFFUSERS_CLASS],),
    TEXT_ENCODER: (["transformers", "CLIPTextModel"],),
    TOKENIZER: (["transformers", "CLIPTokenizer"], ["transformers", "CLIPTokenizerFast"]),
}
"""Classes of the parts of a text-to-image pipeline that are read; its safety checker is not."""
_DRAWING = ("PNDMScheduler", "DPMSolverMultistepScheduler", "EulerDiscreteScheduler", "EulerAncestralDiscreteScheduler",
            "LMSDiscreteScheduler", "UniPCMultistepScheduler", "HeunDiscreteScheduler")  # fmt: skip
"""Further schedulers of text-to-image pipelines, whose configuration holds the noise of the training."""
_NOT_READ = ("encoder_hid_dim", "addition_embed_type", "class_embed_type", "num_class_embeds", "time_cond_proj_dim",
             "dual_cross_attention", "class_embeddings_concat")  # fmt: skip
"""Settings of a U-Net of captions that name a further input, such as those of SDXL."""
_MOST_BLOCKS, _MOST_LAYERS, _MOST_CHANNELS, _MOST_TIMES = 10, 16, 8192, 100_000
_PURPOSE = "a U-Net"


@dataclass(frozen=True, kw_only=True)
class UNetFolder:
    """Configuration of a U-Net and of the noise of its training, without weights; other processes receive it.

    Attributes:
        name: Name of the folder.
        config: Arguments of `diffusers.UNet2DModel`.
        noise: Configuration of its scheduler.
        classes: Names of its classes in the order of their numbers; empty without class embeddings.
        captions: Tokenizer and text encoder of one that is conditioned on captions; None for others.
        adapted: Base of a LoRA with the sizes of its adapters, which alone are trained; None for a whole network.
    """

    name: str
    config: Mapping[str, Any]
    noise: Mapping[str, Any]
    classes: tuple[str, ...] = field(default=())
    captions: CaptionFolder | None = None
    adapted: AdaptedBase | None = None

    @property
    def identity(self) -> str:
        """Return the fingerprint of configuration and noise, of the text encoder, and of a LoRA's base and sizes."""
        more: list[Any] = [] if self.captions is None else [self.captions.content]
        more += [] if self.adapted is None else [self.adapted.content, dict(self.adapted.sizes)]
        return fingerprint(dict(self.config), dict(self.noise), list(self.classes), *more)

    @property
    def latent(self) -> str:
        """Return the space in which it draws, as `memorisk.models.latents.open_latents` takes it."""
        return "pixels" if self.captions is None else f"autoencoder:{self.captions.folder / VAE}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of its images."""
        side = self.config["sample_size"]
        height, width = (side, side) if isinstance(side, int) else side
        return (self.config["in_channels"], height, width)

    def scheduler(self) -> Any:
        """Build the schedule of its training, a `diffusers.DDPMScheduler`."""
        return read_scheduler(self.noise, f"U-Net {self.name}")


def read_unet(folder: Path) -> UNetFolder:
    """Read the configuration of a U-Net from the folder of its pipeline.

    Args:
        folder: Folder of a DDPM, DDIM or text-to-image pipeline of diffusers.

    Raises:
        InputError: The folder does not exist, holds code, or is of another pipeline, network or scheduler.
        MissingExtraError: diffusers is not installed.
    """
    check_library(_PURPOSE)
    name = one_line(folder.resolve().name, 60)
    if not folder.is_dir():
        raise InputError(f"folder {one_line(folder)} of a U-Net does not exist: name that of a pipeline of diffusers")
    title = f"U-Net {name}"
    captioned = _is_captioned(read_index(folder, title), title)
    config = _checked_config(read_config(folder / UNET / CONFIG, title), title, captioned=captioned)
    noise = read_config(folder / SCHEDULER / SCHEDULER_CONFIG, title)
    refuse_class(noise, SCHEDULER, (*_SCHEDULERS, *(_DRAWING if captioned else ())), title)
    times = noise.get("num_train_timesteps", 1000)
    if not isinstance(times, int) or not 1 <= times <= _MOST_TIMES:
        raise InputError(
            f"U-Net {name}: {SCHEDULER_CONFIG} has {one_line(times, 40)} training times: 1 to {_MOST_TIMES:,} are read"
        )
    n = config.get("num_class_embeds") or 0
    public = {key: value for key, value in noise.items() if not key.startswith("_")}
    captions = _read_captions(folder, title, config) if captioned else None
    unet = UNetFolder(name=name, config=config, noise=public, classes=class_names(folder, n), captions=captions)
    unet.scheduler()
    return unet


def read_adapted(folder: Path, lora: Path) -> UNetFolder:
    """Read the configuration of a U-Net whose adapters alone are trained, as those of a LoRA.

    Args:
        folder: Folder of the base, as for `read_unet`.
        lora: File of the LoRA, whose ranks and scales count here, and not its weights.

    Raises:
        InputError: As `read_unet`; or the file cannot be read.
        MissingExtraError: A library that the network needs is not installed.
    """
    unet = read_unet(folder)
    content = fingerprint([[file.name, file_sha256(file)] for file in weight_files(folder / UNET)], length=32)
    return replace(unet, adapted=AdaptedBase(folder=folder, content=content, sizes=sizes_of(read_lora(lora))))


def inner_unet(network: nn.Module) -> nn.Module:
    """Return the U-Net of a network of `build_unet`, without a text encoder."""
    return network.unet if isinstance(network, CaptionedUNet) else network


def trained_part(network: nn.Module) -> nn.Module:
    """Return the adapters of a network as a file holds them; the network itself where it has none."""
    adapters = adapters_of(inner_unet(network))
    return adapter_tensors(adapters) if adapters else network


def load_unet(folder: Path) -> tuple[Any, UNetFolder]:
    """Load a U-Net with its weights, frozen and in evaluation mode.

    Args:
        folder: Folder of a DDPM, DDIM or text-to-image pipeline of diffusers.

    Returns:
        Network and its configuration; a `CaptionedUNet` where it is conditioned on captions.

    Raises:
        InputError: As `read_unet`; or weights are missing, pickled, or do not fit the configuration.
        MissingExtraError: diffusers is not installed.
    """
    unet = read_unet(folder)
    title = f"U-Net {unet.name}"
    refuse_pickled(folder / UNET, title)
    tensors = read_tensors(folder / UNET, title)
    with seeded(0):
        network = build_unet(unet.config, title, unet.captions)
    fill_network(inner_unet(network), tensors, title)
    return network.eval().requires_grad_(False), unet


def size_config(size: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the configuration of a named size for images.

    Args:
        size: Name of the size, one of `UNET_SIZES`.
        shape: Channels, height and width of the images.

    Raises:
        InputError: The size is unknown, or the images cannot be halved so often.
    """
    if size not in UNET_SIZES:
        raise unknown_name("size of a U-Net (or folder of a pipeline)", one_line(size, 60), UNET_SIZES)
    blocks, (channels, height, width) = UNET_SIZES[size], shape
    factor = 2 ** (len(blocks) - 1)
    if height % factor or width % factor:
        raise InputError(
            f"a U-Net of size {size} halves images {len(blocks) - 1} times, and these have {height} x {width} pixels: "
            f"give --size, a multiple of {factor}"
        )
    n = len(blocks)
    return {
        "sample_size": height if height == width else [height, width],
        "in_channels": channels,
        "out_channels": channels,
        "block_out_channels": list(blocks),
        "layers_per_block": 1 if size == "tiny" else 2,
        "norm_num_groups": 8,
        "down_block_types": ["DownBlock2D"] * (n - 1) + ["AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D"] + ["UpBlock2D"] * (n - 1),
    }


def build_unet(config: Mapping[str, Any], title: str, captions: CaptionFolder | None = None) -> Any:
    """Build a network with random weights, and pass one image through it.

    Args:
        config: Arguments of `diffusers.UNet2DModel`, or of `diffusers.UNet2DConditionModel` with ``captions``.
        title: Name of the network in messages.
        captions: Text encoder of a network that is conditioned on captions, which has the weights of its folder.

    Raises:
        InputError: The network cannot be built, or does not keep the shape of its images.
        MissingExtraError: diffusers is not installed.
    """
    check_library(_PURPOSE)
    encoder = None if captions is None else captions.load_encoder()
    try:
        with quiet("diffusers"):
            network: Any = _unet_class(captioned=captions is not None)(**config)
        unet = UNetFolder(name=title, config=config, noise={})
        if captions is None:
            label = None if network.class_embedding is None else torch.zeros(1, dtype=torch.int64)
        else:
            network, label = CaptionedUNet(network, encoder), torch.zeros(1, 2, dtype=torch.int64)
        with torch.inference_mode():
            answer = network(torch.zeros(1, *unet.shape), torch.zeros(1, dtype=torch.int64), label).sample
    except Exception as error:  # diffusers and PyTorch each raise their own kinds
        raise InputError(f"{title} cannot be built from its configuration: {one_line(error, 160)}") from None
    channels, *sides = unet.shape
    if tuple(answer.shape[2:]) != tuple(sides) or answer.shape[1] not in (channels, 2 * channels):
        raise InputError(
            f"{title} answers {list(answer.shape[1:])} to images of {list(unet.shape)}: it must keep their shape"
        )
    return network.float()


def _unet_class(*, captioned: bool) -> Any:
    """Return the class of a network."""
    with quiet("diffusers"):
        if captioned:
            from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

            return UNet2DConditionModel
        from diffusers.models.unets.unet_2d import UNet2DModel

        return UNet2DModel


def _is_captioned(index: Mapping[str, Any], title: str) -> bool:
    """Return whether an index is that of a text-to-image pipeline; one of no kind that is read is refused.

    Raises:
        InputError: The index names another pipeline, or a class that is not read.
    """
    pipeline, pipelines = index.get("_class_name", _PIPELINES[0]), (*_PIPELINES, _TEXT_TO_IMAGE)
    if pipeline not in pipelines:
        raise InputError(
            f"{title}: {INDEX} names the pipeline {one_line(pipeline, 60)}, and memorisk reads "
            f"{' and '.join(pipelines)}"
        )
    captioned = pipeline == _TEXT_TO_IMAGE
    for part, classes in (_PARTS if captioned else {UNET: (["diffusers", _CLASS],)}).items():
        if index.get(part, classes[0]) not in classes:
            what, (library, name) = "network" if part == UNET else part, classes[0]
            raise InputError(
                f"{title}: {INDEX} names the {what} {one_line(index[part], 80)}, and memorisk reads {library}' {name}"
            )
    return captioned


def _read_captions(folder: Path, title: str, config: Mapping[str, Any]) -> CaptionFolder:
    """Read the parts of a text-to-image pipeline besides its U-Net.

    Raises:
        InputError: One cannot be read, or does not belong to the U-Net.
    """
    refuse_class(read_config(folder / VAE / CONFIG, title), VAE, (DIFFUSERS_CLASS,), title)
    refuse_pickled(folder / VAE, f"autoencoder of {title}")
    captions = read_captions(folder, title)
    if config.get("cross_attention_dim", 1280) != captions.width:
        raise InputError(
            f"{title} takes {one_line(config.get('cross_attention_dim', 1280), 40)} values per token, and its text "
            f"encoder gives {captions.width}: the folder mixes two pipelines"
        )
    return captions


def _checked_config(config: Mapping[str, Any], title: str, *, captioned: bool) -> dict[str, Any]:
    """Return the arguments of the network; a configuration of another version may hold further settings.

    Raises:
        InputError: It is of another class, or its sizes are not whole numbers within bounds.
    """
    refuse_class(config, "network", (_CAPTIONED if captioned else _CLASS,), title)
    parameters = set(inspect.signature(_unet_class(captioned=captioned).__init__).parameters) - {"self"}
    own = {key: value for key, value in config.items() if key in parameters}
    side, channels = own.get("sample_size"), own.get("block_out_channels", ())
    sides = [side] if isinstance(side, int) else side if isinstance(side, list) and len(side) == 2 else [None]
    sizes = [*sides, own.get("in_channels", 3), *(channels if isinstance(channels, list) else [None])]
    own = ({"in_channels": 4, "out_channels": 4} if captioned else {"in_channels": 3}) | own
    bounds = {"layers_per_block": _MOST_LAYERS, "num_class_embeds": _MOST_TIMES, "num_train_timesteps": _MOST_TIMES}
    bounds |= {"transformer_layers_per_block": _MOST_LAYERS, "cross_attention_dim": _MOST_CHANNELS} if captioned else {}
    small = all(isinstance(own.get(key) or 1, int) and (own.get(key) or 1) <= most for key, most in bounds.items())
    if not small or len(sizes) > _MOST_BLOCKS or not all(isinstance(n, int) and 0 < n <= _MOST_CHANNELS for n in sizes):
        raise InputError(
            f"{title}: {CONFIG} needs sample_size, in_channels and block_out_channels, whole numbers from 1 to "
            f"{_MOST_CHANNELS:,}, and at most {_MOST_LAYERS} layers_per_block"
        )
    if captioned:
        further = next((key for key in _NOT_READ if own.get(key)), None)
        if further is not None:
            raise InputError(f"{title} has {further}, a further input: a U-Net of captions alone is read")
    elif own.get("class_embed_type") is not None:
        raise InputError(
            f"{title} embeds {one_line(own['class_embed_type'], 40)}: a table of classes, or none, is read"
        )
    return own
