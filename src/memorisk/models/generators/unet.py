"""U-Nets of diffusers in pixels (`diffusers.UNet2DModel`; Ho et al. 2020), from a folder or of a named size.

A folder is that of a DDPM or DDIM pipeline of diffusers: ``unet/`` with ``config.json`` and safetensors, ``scheduler/``
and ``model_index.json``. Reading it runs no code of it, and a folder that holds any is refused: Python files, classes
that diffusers does not have, ``auto_map``, pickled weights in place of safetensors. Loading is strict.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from memorisk.models.autoencoder import check_library, quiet_diffusers
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.dit.folder import SCHEDULER_CONFIG, class_names, read_scheduler
from memorisk.models.generators.dit.weights import SCHEDULER
from memorisk.models.hub import CONFIG, WEIGHTS, fill_network, read_tensors, weight_files
from memorisk.models.settings import UNET_SIZES
from memorisk.runs.errors import CONTENT_ERRORS, InputError, one_line, unknown_name
from memorisk.runs.files import fingerprint, read_json

UNET, INDEX = "unet", "model_index.json"
_CLASS, _PIPELINES, _SCHEDULERS = "UNet2DModel", ("DDPMPipeline", "DDIMPipeline"), ("DDPMScheduler", "DDIMScheduler")
_CODE = ("*.py", "*/*.py")
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
    """

    name: str
    config: Mapping[str, Any]
    noise: Mapping[str, Any]
    classes: tuple[str, ...] = field(default=())

    @property
    def identity(self) -> str:
        """Return the fingerprint of configuration and noise."""
        return fingerprint(dict(self.config), dict(self.noise), list(self.classes))

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
        folder: Folder of a DDPM or DDIM pipeline of diffusers.

    Raises:
        InputError: The folder does not exist, holds code, or is of another pipeline, network or scheduler.
        MissingExtraError: diffusers is not installed.
    """
    check_library(_PURPOSE)
    name = one_line(folder.resolve().name, 60)
    if not folder.is_dir():
        raise InputError(f"folder {one_line(folder)} of a U-Net does not exist: name that of a pipeline of diffusers")
    _refuse_code(folder, name)
    config = _checked_config(_read(folder / UNET / CONFIG, name), name)
    noise = _read(folder / SCHEDULER / SCHEDULER_CONFIG, name)
    _refuse_class(noise, SCHEDULER, _SCHEDULERS, name)
    times = noise.get("num_train_timesteps", 1000)
    if not isinstance(times, int) or not 1 <= times <= _MOST_TIMES:
        raise InputError(
            f"U-Net {name}: {SCHEDULER_CONFIG} has {one_line(times, 40)} training times: 1 to {_MOST_TIMES:,} are read"
        )
    n = config.get("num_class_embeds") or 0
    public = {key: value for key, value in noise.items() if not key.startswith("_")}
    unet = UNetFolder(name=name, config=config, noise=public, classes=class_names(folder, n))
    unet.scheduler()
    return unet


def load_unet(folder: Path) -> tuple[Any, UNetFolder]:
    """Load a U-Net with its weights, frozen and in evaluation mode.

    Args:
        folder: Folder of a DDPM or DDIM pipeline of diffusers.

    Returns:
        Network and its configuration.

    Raises:
        InputError: As `read_unet`; or weights are missing, pickled, or do not fit the configuration.
        MissingExtraError: diffusers is not installed.
    """
    unet = read_unet(folder)
    title = f"U-Net {unet.name}"
    if not any(file.suffix == ".safetensors" for file in weight_files(folder / UNET)):
        raise InputError(
            f"{title} has no {WEIGHTS}, and pickled weights are not read: save it once more by diffusers, with "
            "safe_serialization"
        )
    tensors = read_tensors(folder / UNET, title)
    with seeded(0):
        network = build_unet(unet.config, title)
    fill_network(network, tensors, title)
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


def build_unet(config: Mapping[str, Any], title: str) -> Any:
    """Build a network with random weights, and pass one image through it.

    Args:
        config: Arguments of `diffusers.UNet2DModel`.
        title: Name of the network in messages.

    Raises:
        InputError: The network cannot be built, or does not keep the shape of its images.
        MissingExtraError: diffusers is not installed.
    """
    check_library(_PURPOSE)
    with quiet_diffusers():
        from diffusers.models.unets.unet_2d import UNet2DModel
    try:
        with quiet_diffusers():
            network: Any = UNet2DModel(**config)
        unet = UNetFolder(name=title, config=config, noise={})
        label = None if network.class_embedding is None else torch.zeros(1, dtype=torch.int64)
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


def _refuse_code(folder: Path, name: str) -> None:
    """Refuse a folder with Python files, or whose index names classes that diffusers does not have.

    Raises:
        InputError: It holds code.
    """
    code = next((file for pattern in _CODE for file in sorted(folder.glob(pattern))), None)
    if code is not None:
        raise InputError(
            f"U-Net {name} holds code ({one_line(code.name, 60)}), and no code of a folder is run: remove it"
        )
    index = _read(folder / INDEX, name) if (folder / INDEX).is_file() else {}
    pipeline = index.get("_class_name", _PIPELINES[0])
    if pipeline not in _PIPELINES:
        raise InputError(
            f"U-Net {name}: {INDEX} names the pipeline {one_line(pipeline, 60)}, and memorisk reads "
            f"{' and '.join(_PIPELINES)}"
        )
    part = index.get(UNET, ["diffusers", _CLASS])
    if part != ["diffusers", _CLASS]:
        raise InputError(
            f"U-Net {name}: {INDEX} names the network {one_line(part, 80)}, and memorisk reads diffusers' {_CLASS}"
        )


def _read(file: Path, name: str) -> dict[str, Any]:
    """Read a configuration, which names no code.

    Raises:
        InputError: It is missing, is not a JSON object, or names code.
    """
    try:
        config = read_json(file)
    except CONTENT_ERRORS as error:
        raise InputError(f"U-Net {name}: {file.name} cannot be read: {one_line(error, 120)}") from None
    if not isinstance(config, dict):
        raise InputError(f"U-Net {name}: {file.name} is not a JSON object")
    if "auto_map" in config:
        raise InputError(f"U-Net {name}: {file.name} names code of its folder (auto_map), which is not run: remove it")
    return config


def _refuse_class(config: Mapping[str, Any], part: str, known: tuple[str, ...], name: str) -> None:
    """Refuse a part of another class.

    Raises:
        InputError: The class is unknown.
    """
    if config.get("_class_name") not in known:
        name_of_class = one_line(config.get("_class_name"), 60)
        raise InputError(
            f"U-Net {name}: its {part} is of class {name_of_class}, and memorisk reads {' and '.join(known)}"
        )


def _checked_config(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the arguments of the network; a configuration of another version may hold further settings.

    Raises:
        InputError: It is of another class, or its sizes are not whole numbers within bounds.
    """
    _refuse_class(config, "network", (_CLASS,), name)
    with quiet_diffusers():
        from diffusers.models.unets.unet_2d import UNet2DModel
    parameters = set(inspect.signature(UNet2DModel.__init__).parameters) - {"self"}
    own = {key: value for key, value in config.items() if key in parameters}
    side, channels = own.get("sample_size"), own.get("block_out_channels", ())
    sides = [side] if isinstance(side, int) else side if isinstance(side, list) and len(side) == 2 else [None]
    sizes = [*sides, own.get("in_channels", 3), *(channels if isinstance(channels, list) else [None])]
    own = {"in_channels": 3, **own}
    bounds = {"layers_per_block": _MOST_LAYERS, "num_class_embeds": _MOST_TIMES, "num_train_timesteps": _MOST_TIMES}
    small = all(isinstance(own.get(key) or 1, int) and (own.get(key) or 1) <= most for key, most in bounds.items())
    if not small or len(sizes) > _MOST_BLOCKS or not all(isinstance(n, int) and 0 < n <= _MOST_CHANNELS for n in sizes):
        raise InputError(
            f"U-Net {name}: {CONFIG} needs sample_size, in_channels and block_out_channels, whole numbers from 1 to "
            f"{_MOST_CHANNELS:,}, and at most {_MOST_LAYERS} layers_per_block"
        )
    if own.get("class_embed_type") is not None:
        raise InputError(
            f"U-Net {name} embeds {one_line(own['class_embed_type'], 40)}: a table of classes, or none, is read"
        )
    return own
