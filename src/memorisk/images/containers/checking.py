"""The one door: which parser a file needs, and what it says."""

from pathlib import Path

from memorisk.images.containers.jpeg import jpeg_surplus
from memorisk.images.containers.npy import HEAD, npy_surplus
from memorisk.images.containers.parsing import SurplusError
from memorisk.images.containers.png import png_surplus
from memorisk.images.containers.safetensors import is_safetensors, tensor_surplus

UNCHECKED = "a format that may hold more than one image (PNG, JPEG and npy are checked)"
"""What is said of a file of any other format."""
_PNG, _JPEG, _NPY = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\x93NUMPY"


def surplus(path: Path, *, depth: int = 16, walk: bool = True) -> str | None:
    """Name what an image file holds besides one image.

    Args:
        path: PNG, JPEG or npy; any other format is named, because it cannot be checked.
        depth: Bits of a value that an audit saw, 8 or 16.
        walk: Walk through the coded data of a JPEG, too, some 2 MB a second.

    Returns:
        A phrase such as "text (tEXt)"; None for a file that holds pixels alone.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
        try:
            if head.startswith(_NPY):
                npy_surplus(head, path.stat().st_size, depth=depth)
            elif head.startswith(_PNG):
                png_surplus(head + file.read(), depth=depth)
            elif head.startswith(_JPEG):
                jpeg_surplus(head + file.read(), walk=walk)
            else:
                return UNCHECKED
        except SurplusError as error:
            return str(error)
    return None


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
