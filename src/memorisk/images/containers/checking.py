"""The one door: which parser a file needs, and what it says."""

from collections.abc import Callable
from pathlib import Path

from memorisk.images.containers.jpeg import jpeg_surplus
from memorisk.images.containers.npy import npy_surplus
from memorisk.images.containers.parsing import SurplusError
from memorisk.images.containers.png import png_surplus
from memorisk.images.containers.safetensors import is_safetensors, tensor_surplus

_IMAGES: tuple[tuple[bytes, Callable[[bytes], None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", png_surplus),
    (b"\xff\xd8\xff", jpeg_surplus),
    (b"\x93NUMPY", npy_surplus),
)
"""First bytes of the image formats that can be checked, and their parsers."""


def surplus(path: Path) -> str | None:
    """Name what an image file holds besides one image.

    Args:
        path: PNG, JPEG or npy; any other format is named, because it cannot be checked.

    Returns:
        A phrase such as "text (tEXt)"; None for a file that holds pixels alone.

    Raises:
        OSError: The file cannot be read.
    """
    data = path.read_bytes()
    parse = next((parser for first, parser in _IMAGES if data.startswith(first)), None)
    if parse is None:
        return "a format that may hold more than one image (PNG, JPEG and npy are checked)"
    return _named(parse, data)


def weights_surplus(path: Path) -> list[str]:
    """Name everything that a safetensors file holds besides tensors.

    Args:
        path: The file, known by its content or its name; files of other formats are not looked into.

    Returns:
        A phrase each; none for tensors alone, and for other formats.

    Raises:
        OSError: The file cannot be read.
    """
    if not is_safetensors(path):
        return []
    with path.open("rb") as file:
        try:
            return tensor_surplus(file, path.stat().st_size)
        except SurplusError as error:
            return [str(error)]


def _named(parse: Callable[[bytes], None], data: bytes) -> str | None:
    try:
        parse(data)
    except SurplusError as error:
        return str(error)
    return None
