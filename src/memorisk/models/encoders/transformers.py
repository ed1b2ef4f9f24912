"""Networks of the transformers library as encoders: from a local folder, or by name from the hub on request.

No code in a folder is run (``trust_remote_code`` is never set), and weights are read from safetensors only. Loading is
strict but for the pooling layer, which checkpoints of classifiers lack: it would be random, so the class token (or the
mean of the patches) is taken in its place, with a note.
"""

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.images.file_hashes import content_fingerprints
from memorisk.models.blackbox.preprocessing import Preprocessing, preprocessing_from
from memorisk.models.classifiers.specs import IMAGENET_MEAN, IMAGENET_STD
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.encoders.feature_sources import DEFAULT, RANDOM, FeatureSource
from memorisk.models.encoders.networks import (
    Encoder,
    StoredShape,
    check_channels,
    random_note,
    size_notes,
    state_fingerprint,
)
from memorisk.models.hub import quiet_hub
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.files import fingerprint

_CODE = 1  # part of the identity: a change of what is computed makes new features
_FILES = ("config.json", "preprocessor_config.json", "model*.safetensors", "model.safetensors.index.json")
_FALLBACK_SIDE = 224


def open_transformers(
    source: FeatureSource,
    stored: StoredShape,
    *,
    size: int | None,
    normalise: str | None,
    seed: int,
    books: Path | None,
) -> Encoder:
    """Open the encoder of a network of transformers.

    Features are ``get_image_features`` where the network has it (CLIP and its kin: the projected image), else its
    pooled output, else the class token, else the mean over patches.

    Args:
        source: Source of the kind "transformers".
        stored: Height, width and channels of the images.
        size: Side in pixels; by default that of ``preprocessor_config.json``, else ``config.json``, else 224.
        normalise: Normalisation as for `preprocessing_from`; by default that of ``preprocessor_config.json``, else
            ImageNet's.
        seed: Random seed of random weights.
        books: Cache folder of hashes, as for `memorisk.models.encoders.networks.open_encoder`.

    Raises:
        MissingExtraError: The library is not installed.
        InputError: The library itself knows no network of images in the folder, or the network cannot be loaded.
    """
    version = _library().__version__
    folder = _downloaded(source.name) if source.weights == DEFAULT else Path(source.name)
    title = one_line(source.shown.partition("@")[0], 80)
    config = _config(folder, title)
    record = _record(folder / "preprocessor_config.json", title)
    vision = getattr(config, "vision_config", None) or config
    channels = int(getattr(vision, "num_channels", 3) or 3)
    check_channels(title, stored, channels)
    made_for = _first_side(getattr(vision, "image_size", None))
    side = size or _first_side(record.get("crop_size") if record.get("do_center_crop", True) else None)
    side = side or _first_side(record.get("size")) or made_for or _FALLBACK_SIDE
    is_random = source.weights == RANDOM
    preprocessing, assumed = _preprocessing(record, side, channels, normalise)
    notes = [random_note(title)] if is_random else size_notes(stored, (side, side), made_for, trained=True)
    if assumed and not is_random:
        notes.append(f"{title} has no preprocessor_config.json with a mean: {assumed} is used.")

    @cache
    def load() -> tuple[nn.Module, list[str]]:
        """Build the network once; return it and the notes on its weights."""
        return _loaded(folder, config, title, None if not is_random else seed, (channels, side, side))

    content = state_fingerprint(load()[0]) if is_random else _folder_fingerprint(folder, title, books)
    return Encoder(
        name=title,
        weights=f"random (seed {seed})" if is_random else "the hub's, by name" if source.weights else "the folder's",
        state="random" if is_random else "pretrained",
        preprocessing=preprocessing,
        identity={
            "code": _CODE,
            "architecture": type(config).__name__,
            "library": f"transformers {version}",
            "weights": content,
            "preprocessing": preprocessing.describe(),
            "torch": str(torch.__version__),
        },
        weights_fingerprint=content,
        load=load,
        notes=tuple(notes),
    )


class PooledFeatures(nn.Module):
    """A network of transformers as one that gives one vector per image.

    Args:
        network: Network, which is not copied.
        pooler: Whether its pooled output was trained.
    """

    def __init__(self, network: Any, *, pooler: bool) -> None:
        super().__init__()
        self.network: Any = network
        self.pooler = pooler
        config = getattr(network.config, "vision_config", None) or network.config
        self.side = _first_side(getattr(config, "image_size", None))
        self.patch = _first_side(getattr(config, "patch_size", None))
        ask = network.get_image_features if hasattr(network, "get_image_features") else network.forward
        self.resizes = "interpolate_pos_encoding" in inspect.signature(ask).parameters

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, h, w] to [b, d]."""
        more = {"interpolate_pos_encoding": True} if self.resizes and x.shape[-1] != self.side else {}
        if hasattr(self.network, "get_image_features"):
            outputs = self.network.get_image_features(pixel_values=x, **more)
            return outputs if isinstance(outputs, torch.Tensor) else outputs.pooler_output
        outputs = self.network(pixel_values=x, **more)
        pooled = getattr(outputs, "pooler_output", None)
        if self.pooler and pooled is not None:
            return pooled.flatten(1)
        tokens = outputs.last_hidden_state
        if tokens.ndim == 4:
            return tokens.mean(dim=(2, 3))
        patches = (x.shape[-2] // self.patch) * (x.shape[-1] // self.patch) if self.patch else tokens.shape[1]
        return tokens[:, 0] if tokens.shape[1] > patches else tokens.mean(dim=1)


def _library() -> Any:
    try:
        return import_module("transformers")  # its types say nothing here, and reading them takes a type checker long
    except ImportError:
        raise MissingExtraError("transformers", "transformers", "features of transformers:...") from None


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the library's own reports and progress bars; memorisk reports what matters."""
    logging = _library().utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _config(folder: Path, title: str) -> Any:
    if not (folder / "config.json").is_file():
        raise InputError(f"{title} has no config.json: it is not a folder of transformers")
    try:
        with _quietly():
            return _library().AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library raises its own kinds, and asks for trust in some of them
        reason = one_line(error, 160)
        raise InputError(
            f"{title} is not a network that transformers knows without running the folder's code, which is never done: "
            f"{reason}"
        ) from None


def _record(file: Path, title: str) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it is not a table")
    except (OSError, ValueError) as error:
        raise InputError(f"preprocessor_config.json of {title} cannot be read: {one_line(error, 100)}") from None
    return record


def _first_side(size: Any) -> int | None:
    """Return the side in pixels from any form of a size: a number, a pair, {height, width}, {shortest_edge}."""
    if isinstance(size, dict):
        size = next((size[key] for key in ("height", "shortest_edge", "longest_edge") if key in size), None)
    if isinstance(size, (list, tuple)):
        size = size[0] if size else None
    return int(size) if isinstance(size, (int, float)) and size >= 1 else None


def _preprocessing(
    record: dict[str, Any], side: int, channels: int, normalise: str | None
) -> tuple[Preprocessing, str]:
    """Return the preprocessing, and the assumption made for it."""
    if normalise is not None:
        return preprocessing_from(normalise, side, channels), ""
    mean, std, assumed = record.get("image_mean"), record.get("image_std"), ""
    if record.get("do_normalize") is False:
        mean, std = (0.0,) * channels, (1.0,) * channels
    elif not mean or not std:
        mean, std, assumed = IMAGENET_MEAN[:channels], IMAGENET_STD[:channels], "ImageNet's"
    try:
        values = [
            tuple(float(v) for v in (what if isinstance(what, (list, tuple)) else [what])) for what in (mean, std)
        ]
    except (TypeError, ValueError):
        raise InputError(f"preprocessor_config.json has no numbers as mean: {one_line(mean, 60)}") from None
    mean, std = (value * channels if len(value) == 1 else value for value in values)
    return Preprocessing((side, side), channels, mean, std), assumed


def _loaded(
    folder: Path, config: Any, title: str, seed: int | None, shape: tuple[int, int, int]
) -> tuple[nn.Module, list[str]]:
    """Return the module in evaluation mode, float32, and notes for a reader on its loading."""
    library, notes, pooler = _library(), [], True
    try:
        with _quietly():
            if seed is not None:
                with seeded(seed):
                    network = library.AutoModel.from_config(config, trust_remote_code=False).float()
            else:
                network, info = library.AutoModel.from_pretrained(
                    folder,
                    config=config,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
                pooler = _check_loading(info, title, notes)
    except InputError:
        raise
    except Exception as error:  # the library, torch and safetensors each raise their own kinds
        raise InputError(f"{title} cannot be loaded from safetensors: {one_line(error, 160)}") from None
    module = PooledFeatures(network, pooler=pooler).eval()
    _check_repeats(module, title, shape)
    return module, notes


def _check_loading(info: dict[str, Any], title: str, notes: list[str]) -> bool:
    """Return whether the pooled output was trained.

    Raises:
        InputError: Anything else is missing or has another shape.
    """
    missing = sorted(info["missing_keys"])
    other = [key for key in missing if "pooler." not in key]
    wrong = [str(key) for key in info["mismatched_keys"]]
    if other or wrong:
        keys = ", ".join(one_line(key, 80) for key in [*other, *wrong][:5])
        raise InputError(f"{title}: {len(other) + len(wrong)} tensors are missing or of another shape: {keys}")
    if missing:
        notes.append("the pooling layer is not in the file; the class token, or the mean of patches, is taken instead")
    if n_unused := len(info["unexpected_keys"]):
        notes.append(f"{n_unused} tensors of other parts are left out")
    return not missing


def _check_repeats(module: nn.Module, title: str, shape: tuple[int, int, int]) -> None:
    """Evaluate the same input twice: some networks mask or drop patches at random in evaluation, too.

    Raises:
        InputError: The answers differ, or the network fails.
    """
    x = torch.linspace(-1, 1, shape[0] * shape[1] * shape[2]).reshape(1, *shape)
    try:
        with torch.inference_mode(), seeded(0):
            first, second = module(x), module(x)
    except Exception as error:  # each network raises its own kinds
        raise InputError(f"{title} gives no features of images {list(shape)}: {one_line(error, 160)}") from None
    if not torch.allclose(first, second, rtol=1e-4, atol=1e-5):
        raise InputError(f"{title} gives other features at each call (it masks or drops at random): it cannot be used")


def _folder_fingerprint(folder: Path, title: str, books: Path | None) -> str:
    files = sorted({file for pattern in _FILES for file in folder.glob(pattern)} | set(folder.glob("*.safetensors")))
    if not any(file.suffix == ".safetensors" for file in files):
        raise InputError(f"{title} holds no safetensors file; other kinds of weights are not read (or use @none)")
    contents = content_fingerprints([str(file) for file in files], books)
    return fingerprint([[file.name, contents[str(file)]] for file in files], length=32)


def _downloaded(name: str) -> Path:
    """Return the folder of the hub's cache that holds a network's configuration and safetensors, nothing else of it."""
    from huggingface_hub import snapshot_download

    title = one_line(name, 80)
    with quiet_hub() as reachable:
        try:
            return Path(snapshot_download(name, allow_patterns=list(_FILES), local_files_only=not reachable))
        except Exception as error:  # the hub's client and the network each raise their own kinds
            where = one_line(error, 160) if reachable else "the Hugging Face hub cannot be reached, nor is it cached"
            raise InputError(
                f"transformers:{title} could not be downloaded: {where}; download it where there is a network and name "
                "the folder"
            ) from None
