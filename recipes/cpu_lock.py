"""A lock without PyTorch and NVIDIA's libraries, for machines that have no GPU.

    python recipes/cpu_lock.py locks/core.txt            # everything else, with its hashes
    python recipes/cpu_lock.py locks/core.txt --torch    # torch and torchvision by version, for PyTorch's own index

`Dockerfile` uses both.
"""

import re
import sys
from pathlib import Path

TORCH = ("torch", "torchvision")
_LEFT_OUT = re.compile(r"(torch|torchvision|triton|nvidia-.*|cuda-.*)$")
_START = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;]+)")


def entries(text: str) -> list[tuple[str, str, str]]:
    """Name, version and lines of each package of a lock."""
    found = []
    for lines in re.split(r"^(?=[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?==)", text, flags=re.MULTILINE)[1:]:
        start = _START.match(lines)
        assert start is not None
        found.append((start[1].lower(), start[2], lines))
    return found


def main() -> None:
    """Print what is asked."""
    path, *flags = sys.argv[1:]
    found = entries(Path(path).read_text("utf-8"))
    if flags == ["--torch"]:
        print(*(f"{name}=={version}" for name, version, _ in found if name in TORCH), sep="\n")
    else:
        print("".join(lines for name, _, lines in found if not _LEFT_OUT.match(name)), end="")


if __name__ == "__main__":
    main()
