"""Weights in one form: the bytes of a file follow from the tensors of the network that ran, and hold nothing else.

The file is safetensors with one header: names, types, shapes and places in compact JSON, larger types first and then
by name, as the format's own library writes it, without metadata. A network's tensors have the types and shapes in which
it computes, so that nothing of the file that it was loaded from is left: neither imaginary parts, nor bits that were
rounded away, nor tensors that the network does not have. Batch normalisation's counters of steps, which no output
depends on, are zero.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memorisk.models.network_parts import StateDict
from memorisk.runs.errors import InputError
from memorisk.runs.files import atomic_path

_ALIGNED = 8
"""Number of bytes of which tensors begin at a multiple; spaces fill the header."""
_TYPES = {
    torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32", torch.bfloat16: "BF16",
    torch.float16: "F16", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of types in the format, in the order in which its library lays tensors out."""


def released_sha256(model: nn.Module) -> str | None:
    """Compute the SHA-256 of the only file under which a network's weights can be released.

    Args:
        model: Network, as it ran.

    Returns:
        Hash of the file; None for a network with a NaN in its weights, whose bits are arbitrary, or a type without a
        name.
    """
    tensors = _ran(model)
    if any(value.dtype not in _TYPES or bool(torch.isnan(value).any()) for value in tensors.values()):
        return None
    digest = hashlib.sha256()
    for part in _file_parts(tensors):
        digest.update(part)
    return digest.hexdigest()


def write_released(path: Path, model: nn.Module) -> None:
    """Write the file of a network's weights.

    Args:
        path: Path of a new file.
        model: Network, as it ran.

    Raises:
        InputError: Its weights cannot be released (`released_sha256`).
    """
    if released_sha256(model) is None:
        raise InputError(
            "the weights hold a NaN, whose bits can say anything, or numbers that safetensors does not have"
        )
    with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
        file.writelines(_file_parts(_ran(model)))


def _ran(model: nn.Module) -> StateDict:
    """Return the parameters and buffers of a network, without what no output depends on."""
    return {
        name: torch.zeros_like(value) if name.endswith("num_batches_tracked") else value
        for name, value in model.state_dict().items()
    }


def _file_parts(tensors: StateDict) -> Iterator[bytes]:
    """Yield the bytes of a file: the length of the header, the header, each tensor."""
    types, header, place = list(_TYPES), dict[str, Any](), 0
    names = sorted(tensors, key=lambda name: (types.index(tensors[name].dtype), name))
    for name in names:
        value = tensors[name]
        end = place + value.numel() * value.element_size()
        header[name] = {"dtype": _TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        value = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield value.view(torch.uint8).numpy().tobytes() if value.numel() else b""
