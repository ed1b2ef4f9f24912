"""Weights from files: safetensors, PyTorch (tensors only), NumPy archives. They are loaded strictly.

Strictly means that everything but the classifier head must match by name and shape; mismatches are listed and nothing
is loaded. Every change that makes a file fit (a new head, a stem summed over colours, positions resized, the trunk
taken out of a whole SAM or open_clip file) is noted. A PyTorch file is read with ``weights_only=True``: a file that
would run code is refused, and so is every such file by a PyTorch whose check can be evaded.
"""

import pickle
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.torch_version import TorchVersion

from memorisk.models.network_parts import StateDict, WholeFile, head_names, stem_names, take_trunk, whole_file
from memorisk.runs.checksums import refuse_damaged
from memorisk.runs.errors import ARRAY_ERRORS, InputError, one_line
from memorisk.runs.files import FETCH_LFS, LFS_POINTER, atomic_path
from memorisk.runs.size_limits import check_archive, check_arrays
from memorisk.runs.storage.mirror import local_source

Note = Callable[[str], None]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
_LISTED = 5
_SAFE = TorchVersion("2.10.0")
"""First version of PyTorch whose ``weights_only`` keeps its promise."""
READ_FORMATS = "safetensors, NumPy .npz, and PyTorch .pt, .pth, .th, .bin and .ckpt (tensors only)"
"""Formats that are read, in words."""
_OTHERS = {
    b"\x89HDF\r\n\x1a\n": "is HDF5, as Keras writes it",
    b"\x93NUMPY": "is a single NumPy array",
    b"\x1f\x8b": "is compressed by gzip",
}


def read_state_dict(path: str | Path) -> StateDict:
    """Read tensors by name from a file; its content shows its kind.

    A file at a URL is downloaded first (`memorisk.runs.storage.mirror`). Wrappers (``state_dict``,
    ``model_state_dict``, ``model``, ``net``) are opened.

    Raises:
        InputError: The file is missing, unreadable, would run code when loaded, or holds no tensors.
    """
    file = local_source(path)
    if not file.is_file():
        raise InputError(f"weights file {one_line(path)} does not exist")
    refuse_damaged(file)
    with file.open("rb") as stream:
        start = stream.read(len(LFS_POINTER))
    if start[8:9] == b"{":
        return _read_safetensors(file)
    if start[:2] == b"PK" and _is_numpy_archive(file):
        return _read_numpy(file)
    _refuse_other_formats(file, start)
    return _read_torch(file)


def load_weights(model: nn.Module, path: str | Path, *, on_note: Note | None = None, trained: bool = False) -> None:
    """Load a file into a network.

    The head is taken from the file where its shape is the network's, else it stays as initialised. A stem for another
    number of channels is adapted as timm does (summed for one channel, repeated and rescaled for others); positions of
    a
    vision transformer for another image size are resized; older names are converted by timm's own filter. From SAM's,
    MedSAM's and open_clip's files the image trunk is taken (`memorisk.models.network_parts`).

    Args:
        model: Network, changed in place only if everything fits.
        path: Path of the file, as for `read_state_dict`.
        on_note: Function that is called with a sentence for each change that makes the file fit.
        trained: Whether the file is this very network's, head and all: a new head would answer at random.

    Raises:
        InputError: As `read_state_dict`, or if names or shapes outside the head do not match, or a whole file has a
        tensor of
        no known part, or the head of a trained network does not; they are listed.
    """
    note = on_note or (lambda text: None)
    own = model.state_dict()
    file = Path(path).name
    tensors = _strip_prefixes(read_state_dict(path), own)
    kind = whole_file(tensors, own)
    if kind is not None:
        tensors = take_trunk(tensors, kind, file, note)
    if _mismatch(model, own, _adapt_stem(model, tensors, own, _silent)):
        tensors = _convert(model, tensors, own, note, kind)
    tensors = _adapt_stem(model, tensors, own, note)
    tensors = _fill_counters(tensors, own)
    problem = _mismatch(model, own, tensors)
    if problem:
        which = f" ({kind.trunk[:-1]} of a file as {kind.name} has it)" if kind is not None else ""
        raise InputError(f"weights file {one_line(file)}{which} does not fit {type(model).__name__}: {problem}")
    if trained and (problem := _head_mismatch(model, own, tensors)):
        raise InputError(f"weights file {one_line(file)} does not fit the head of {type(model).__name__}: {problem}")
    tensors = _settle_head(model, tensors, own, note)
    model.load_state_dict(tensors)


def head_and_stem(model: nn.Module, path: str | Path) -> tuple[int | None, int | None]:
    """Read the numbers of outputs and channels of a file's own head and stem, before it is loaded.

    Args:
        model: Network of the architecture, with any number of classes.
        path: Path of the file, as for `read_state_dict`.

    Returns:
        Outputs of the file's head and channels of its stem; None where the file or the architecture names none.

    Raises:
        InputError: As `read_state_dict`.
    """
    tensors = _strip_prefixes(read_state_dict(path), model.state_dict())
    head = [tensors[key] for key in _head_keys(model, tensors) if key.endswith(("weight", "bias"))]
    stems = [tensors[f"{name}.weight"] for name in stem_names(model) if f"{name}.weight" in tensors]
    return (
        max((value.shape[0] for value in head if value.ndim), default=None),
        next((value.shape[1] for value in stems if value.ndim == 4), None),
    )


def save_weights(
    path: str | Path,
    weights: nn.Module | Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
    *,
    recorded: bool = True,
) -> None:
    """Write a network's parameters and buffers, or named tensors, as safetensors, atomically.

    A user's module may keep other things than tensors in its state, which are left out. safetensors refuses tensors
    that share memory (tied weights, views): each name gets its own copy.

    Args:
        path: File to write.
        weights: Network, or tensors by name, on any device.
        metadata: Texts by name, for the header.
        recorded: Whether to write a record of the file's checksum, too (`atomic_path`).
    """
    memories: set[int] = set()
    tensors = {}
    for name, value in (weights.state_dict() if isinstance(weights, nn.Module) else weights).items():
        if isinstance(value, torch.Tensor):
            tensor = value.detach().cpu().contiguous()
            memory = tensor.untyped_storage().data_ptr()
            tensors[name] = tensor.clone() if memory in memories else tensor
            memories.add(memory)
    with atomic_path(path, recorded=recorded) as temporary:
        save_file(tensors, temporary, metadata=None if metadata is None else dict(metadata))


def _refuse_other_formats(file: Path, start: bytes) -> None:
    """Refuse by its first bytes a file that is neither a zip archive, a pickle, nor an old tar archive."""
    if not start or start == LFS_POINTER:
        raise InputError(f"weights file {one_line(file.name)} is {FETCH_LFS if start else 'empty'}")
    other_format = next((what for magic, what in _OTHERS.items() if start.startswith(magic)), None)
    if other_format is None and (start[:2] == b"PK" or start[:1] == b"\x80" or tarfile.is_tarfile(file)):
        return
    raise InputError(
        f"weights file {one_line(file.name)} {other_format or 'is damaged, or of a format that is not read'}: "
        f"read are {READ_FORMATS}; save the tensors by name as safetensors"
    )


def _read_safetensors(file: Path) -> StateDict:
    try:
        return load_file(file)
    except (SafetensorError, ValueError) as error:
        raise InputError(f"weights file {one_line(file.name)} is damaged: {one_line(error, 120)}") from error


def _is_numpy_archive(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


def _read_numpy(file: Path) -> StateDict:
    try:
        check_arrays(file)
        with np.load(file, allow_pickle=False) as archive:
            return {name: torch.from_numpy(archive[name]) for name in archive.files}
    except ARRAY_ERRORS as error:
        raise InputError(
            f"weights file {one_line(file.name)} cannot be read as arrays of numbers: {one_line(error, 120)}"
        ) from error


def _read_torch(file: Path) -> StateDict:
    if TorchVersion(torch.__version__) < _SAFE:
        raise InputError(
            f"weights file {one_line(file.name)}: in PyTorch {torch.__version__} a crafted file of this kind runs code "
            "in spite of weights_only=True (CVE-2026-24747): install PyTorch 2.10 or newer, or give safetensors"
        )
    try:
        if zipfile.is_zipfile(file):
            check_archive(file)
        with warnings.catch_warnings(action="ignore"):  # torch's warnings about old formats do not concern the user
            content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"weights file {one_line(file.name)} is refused: it is damaged, or loading it would run code "
            "from the file; save its state_dict() alone, or as safetensors"
        ) from error
    except (SafetensorError, AttributeError, *ARRAY_ERRORS) as error:
        raise InputError(f"weights file {one_line(file.name)} cannot be read: {one_line(error, 120)}") from error
    return _unwrap(content, file)


def _unwrap(content: Any, file: Path) -> StateDict:
    """Return the tensors inside a checkpoint's wrapper."""
    for _ in _WRAPPERS:
        if not isinstance(content, Mapping):
            break
        inner = next((content[w] for w in _WRAPPERS if isinstance(content.get(w), Mapping)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"weights file {one_line(file.name)} holds no named tensors")
    strange = [str(name) for name, value in content.items() if not isinstance(value, torch.Tensor)]
    if strange:
        raise InputError(f"weights file {one_line(file.name)} holds entries that are not tensors: {_listing(strange)}")
    return {str(name): value for name, value in content.items()}


def _strip_prefixes(tensors: StateDict, own: StateDict) -> StateDict:
    """Remove prefixes that wrappers put before every name, unless the network's own names begin so."""
    changed = True
    while changed:
        changed = False
        for prefix in _PREFIXES:
            if tensors and all(n.startswith(prefix) for n in tensors) and not any(n.startswith(prefix) for n in own):
                tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
                changed = True
    return tensors


def _fill_counters(tensors: StateDict, own: StateDict) -> StateDict:
    """Add batch normalisation's step counters, which files before PyTorch 0.4.1 lack and no output depends on."""
    counters = {n: t for n, t in own.items() if n.endswith("num_batches_tracked") and n not in tensors}
    return {**tensors, **counters}


def _head_keys(model: nn.Module, state: Mapping[str, Any]) -> list[str]:
    prefixes = tuple(f"{name}." for name in head_names(model))
    return [name for name in state if prefixes and name.startswith(prefixes)]


def _mismatch(model: nn.Module, own: StateDict, tensors: StateDict) -> str:
    """Describe in one line what does not match outside the head; empty if all does."""
    heads = {*_head_keys(model, own), *_head_keys(model, tensors)}
    return _differences(
        {name: value for name, value in own.items() if name not in heads},
        {name: value for name, value in tensors.items() if name not in heads},
    )


def _head_mismatch(model: nn.Module, own: StateDict, tensors: StateDict) -> str:
    """Describe in one line what does not match in the head; empty if all does."""
    ours, theirs = _head_keys(model, own), _head_keys(model, tensors)
    return _differences({name: own[name] for name in ours}, {name: tensors[name] for name in theirs})


def _differences(own: StateDict, tensors: StateDict) -> str:
    """Describe in one line how the tensors of a file differ from a network's; empty if they fit."""
    counters = {name for name in own if name.endswith("num_batches_tracked")}
    missing = [name for name in own if name not in tensors and name not in counters]
    unexpected = [name for name in tensors if name not in own]
    shapes = [
        f"{name} {list(tensors[name].shape)} instead of {list(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    parts = (("missing", missing), ("unexpected", unexpected), ("wrong shape", shapes))
    return "; ".join(f"{label}: {_listing(names)}" for label, names in parts if names)


def _listing(names: list[str]) -> str:
    listing = ", ".join(one_line(name, 80) for name in names[:_LISTED])
    return listing + (f", ... ({len(names)} in all)" if len(names) > _LISTED else "")


def _settle_head(model: nn.Module, tensors: StateDict, own: StateDict, note: Note) -> StateDict:
    """Take the file's head where it fits, else the network's own; note either way."""
    keys = _head_keys(model, own)
    file_keys = _head_keys(model, tensors)
    if not keys:
        return tensors
    name = ", ".join(head_names(model))
    if set(file_keys) == set(keys) and all(tensors[key].shape == own[key].shape for key in keys):
        note(f"the head ({name}) comes from the file")
        return tensors
    outputs = max((tensors[key].shape[0] for key in file_keys if tensors[key].ndim), default=0)
    held = f"the file's has {outputs} outputs" if file_keys else "the file has none"
    note(f"the head ({name}) is new and randomly initialised: {held}")
    rest = {key: value for key, value in tensors.items() if key not in file_keys}
    return {**rest, **{key: own[key] for key in keys}}


def _adapt_stem(model: nn.Module, tensors: StateDict, own: StateDict, note: Note) -> StateDict:
    """Fit the first convolution to another number of channels, by timm's rule."""
    adapted = dict(tensors)
    for name in stem_names(model):
        key = f"{name}.weight"
        if key not in tensors or key not in own or tensors[key].ndim != 4:
            continue
        have, need = tensors[key].shape, own[key].shape
        if have[1] != need[1] and (have[0], *have[2:]) == (need[0], *need[2:]) and have[1] == 3:
            from timm.models import adapt_input_conv

            adapted[key] = adapt_input_conv(need[1], tensors[key])
            note(f"the stem ({name}) was adapted from {have[1]} to {need[1]} channels")
    return adapted


def _convert(model: nn.Module, tensors: StateDict, own: StateDict, note: Note, kind: WholeFile | None) -> StateDict:
    """Convert names and sizes by timm's own filter for the architecture, and SAM's positions to the image size.

    Tensors that do not fit afterwards either are returned with the file's own names and sizes; the trunk of a whole
    file
    has its positions resized, so that the reported mismatch is the one that matters.
    """
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is None or not type(model).__module__.startswith("timm."):
        return tensors
    try:
        converted = dict(convert(dict(tensors), model))
    except (KeyError, RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return tensors  # the mismatch is then reported in the file's own names
    resized = {name: _resize_position(name, value, own.get(name), converted) for name, value in converted.items()}
    if _mismatch(model, own, _adapt_stem(model, resized, own, _silent)):
        return tensors if kind is None else resized
    left_out = len(tensors) - len(resized)
    more = f", {left_out} tensors of other parts left out" if left_out > 0 else ""
    positions = sum(value is not converted[name] for name, value in resized.items())
    more += f", {positions} tables of positions resized" if positions else ""
    note(f"names and sizes were converted by timm's filter for {type(model).__name__}{more}")
    return resized


def _resize_position(name: str, value: torch.Tensor, own: torch.Tensor | None, tensors: StateDict) -> torch.Tensor:
    """Resize SAM's absolute positions [1, h, w, d] (bicubic) and relative ones [2s - 1, d] (linear), as SAM does.

    Relative positions are resized only where s is a side of the file's own grid, that is in blocks of global attention;
    those of another size stay as they are, and are refused as a mismatch.
    """
    if own is None or value.shape == own.shape or value.ndim != own.ndim or value.shape[-1] != own.shape[-1]:
        return value
    if name == "pos_embed" and value.ndim == 4:
        from timm.layers.pos_embed import resample_abs_pos_embed_nhwc

        return resample_abs_pos_embed_nhwc(value, [own.shape[1], own.shape[2]])
    grid = tensors["pos_embed"].shape if "pos_embed" in tensors and tensors["pos_embed"].ndim == 4 else (0, 0, 0, 0)
    side = {"rel_pos_h": grid[1], "rel_pos_w": grid[2]}.get(name.rpartition(".")[2])
    if side is not None and value.ndim == 2 and value.shape[0] == 2 * side - 1:
        resized = nn.functional.interpolate(value.t()[None], size=own.shape[0], mode="linear")
        return resized[0].t().contiguous()
    return value


def _silent(text: str) -> None:
    """Ignore a note."""
