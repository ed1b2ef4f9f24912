"""Weights by name from the Hugging Face hub, and weights of diffusers' networks.

Without a network connection, weights come from the hub's cache or are refused at once. diffusers' networks have
safetensors, or the PyTorch files of older folders. No code in a folder is run: a PyTorch file is read with
``weights_only=True``, which gives tensors or refuses. Loading is strict: a tensor that is missing, unknown, of another
shape or not finite is refused.
"""

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file

from memorisk.models.weight_files import read_state_dict
from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.errors import InputError, one_line

_SECONDS = 5.0
_PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY")
CONFIG, WEIGHTS, PYTORCH = "config.json", "diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.bin"
_SAFE = (WEIGHTS, f"{WEIGHTS}.index.json", "diffusion_pytorch_model-*.safetensors")
_OLD = (PYTORCH, f"{PYTORCH}.index.json", "diffusion_pytorch_model-*.bin")
_LISTED = 3


@contextmanager
def quiet_hub() -> Iterator[bool]:
    """Silence the hub's client, and let it use only its cache where the hub cannot be reached.

    The client itself would try ten times, for a minute, and print a line for each trial.

    Yields:
        Whether the hub can be reached.
    """
    from huggingface_hub import constants

    logger = logging.getLogger("huggingface_hub")
    level, offline = logger.level, constants.HF_HUB_OFFLINE
    reachable = not offline and _reachable(constants.ENDPOINT)
    logger.setLevel(logging.CRITICAL)
    constants.HF_HUB_OFFLINE = not reachable
    try:
        yield reachable
    finally:
        constants.HF_HUB_OFFLINE = offline
        logger.setLevel(level)


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Silence the own reports and progress bars of diffusers or transformers; memorisk reports what matters.

    Args:
        library: Name of the library.
    """
    messages = import_module(f"{library}.utils.logging")
    level = messages.get_verbosity()
    messages.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        messages.set_verbosity(level)


def _reachable(endpoint: str) -> bool:
    """Return whether a server answers there; a proxy counts as an answer."""
    if any(os.environ.get(name) for name in _PROXIES):
        return True
    address = urlsplit(endpoint)
    port = address.port or (80 if address.scheme == "http" else 443)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True


def weight_files(folder: Path) -> list[Path]:
    """List the names of a network's weight files: safetensors with their index, else PyTorch's with theirs."""
    kinds = ([file for pattern in kind for file in folder.glob(pattern)] for kind in (_SAFE, _OLD))
    return sorted(next((files for files in kinds if any(file.suffix != ".json" for file in files)), []))


def read_tensors(folder: Path, title: str) -> dict[str, torch.Tensor]:
    """Read the tensors of a folder, of one file or of several with their index; safetensors come before PyTorch's.

    Args:
        folder: Folder of a network.
        title: Name of the network in messages.

    Raises:
        InputError: The files do not exist, or one cannot be read.
    """
    files = weight_files(folder)
    if not files:
        raise missing_weights(title)
    safe = any(file.suffix == ".safetensors" for file in files)
    name = WEIGHTS if safe else PYTORCH
    try:
        if (folder / name).is_file():
            names = [name]
        else:
            index = json.loads((folder / f"{name}.index.json").read_text(encoding="utf-8"))
            names = sorted({Path(str(file)).name for file in index["weight_map"].values()})
        read = load_file if safe else read_state_dict
        for file in names:
            refuse_damaged(folder / file)
        return {tensor: t for file in names for tensor, t in read(folder / file).items()}
    except InputError as error:  # PyTorch's, which says what is wrong
        raise InputError(f"{title} cannot be loaded: {error}") from None
    except Exception as error:  # safetensors and json each raise their own kinds
        kind = "safetensors" if safe else "PyTorch files"
        raise InputError(f"{title} cannot be loaded from {kind}: {one_line(error, 160)}") from None


def missing_weights(title: str) -> InputError:
    """Return the error of a folder without weights that can be read."""
    return InputError(
        f"{title} holds neither {WEIGHTS} nor {PYTORCH}, and other kinds of weights are not read: save it once more by "
        "diffusers, with safe_serialization"
    )


def fill_network(network: Any, tensors: Mapping[str, torch.Tensor], title: str, *, new: tuple[str, ...] = ()) -> None:
    """Put weights into a network, as float32.

    Args:
        network: Network that receives the weights.
        tensors: Tensors by name.
        title: Name of the network in messages.
        new: Parts of names whose tensors keep their values.

    Raises:
        InputError: A tensor is missing, unknown, of another shape or not finite.
    """
    own = network.state_dict()
    needed = {name: t for name, t in own.items() if not any(part in name for part in new)}
    wrong = [f"{name} is missing" for name in needed if name not in tensors]
    wrong += [f"{name} is unknown" for name in tensors if name not in needed]
    for name in sorted(set(needed) & set(tensors)):
        if needed[name].shape != tensors[name].shape:
            wrong.append(f"{name} is {list(tensors[name].shape)} and not {list(needed[name].shape)}")
        elif not torch.isfinite(tensors[name]).all():
            wrong.append(f"{name} is not finite")
    refuse_mismatch(wrong, title)
    network.load_state_dict({**own, **{name: t.float() for name, t in tensors.items()}})


def refuse_mismatch(wrong: list[str], title: str, whole: str = "its configuration") -> None:
    """Refuse in one line the tensors that do not fit, if any.

    Args:
        wrong: Clauses on the tensors that do not fit.
        title: Name of the network in messages.
        whole: Name of what they do not fit.

    Raises:
        InputError: A tensor does not fit.
    """
    if wrong:
        more = f"; {len(wrong)} in all" if len(wrong) > _LISTED else ""
        raise InputError(f"{title} does not fit {whole}: {'; '.join(wrong[:_LISTED])}{more}")


def download_folder(name: str, parts: tuple[str, ...], title: str, more: tuple[str, ...] = ()) -> Path:
    """Download the folder of the hub's cache that holds networks.

    PyTorch files come only for parts without safetensors.

    Args:
        name: Name on the hub.
        parts: Folders of networks in it, "" for its root; missing ones are left out.
        title: Name of the networks in messages.
        more: Further files to download.

    Raises:
        InputError: The folder could not be downloaded.
    """
    from huggingface_hub import snapshot_download

    with quiet_hub() as reachable:

        def download(files: list[str]) -> Path:
            """Download some files, or find them in the cache; return their folder."""
            return Path(snapshot_download(name, allow_patterns=files, local_files_only=not reachable))

        try:
            root = download([*more, *(_inside(part, file) for part in parts for file in (CONFIG, *_SAFE))])
            old = [part for part in parts if (root / part / CONFIG).is_file() and not weight_files(root / part)]
            return download([_inside(part, file) for part in old for file in _OLD]) if old else root
        except Exception as error:  # the hub's client and the network each raise their own kinds
            where = one_line(error, 160) if reachable else "the Hugging Face hub cannot be reached, nor is it cached"
            raise InputError(
                f"{title} could not be downloaded: {where}; download it where there is a network and name the folder"
            ) from None


def _inside(part: str, file: str) -> str:
    return f"{part}/{file}" if part else file
