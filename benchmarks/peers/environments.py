"""An environment for each peer: made of its pinned requirements, removed when its cases are done.

A requirements file may begin with ``# shared: torch torchvision``: these are not installed again (PyTorch with CUDA is
6 GB) but linked from the environment that runs the benchmark, in a folder of links that a ``.pth`` file names, so that
pip sees them as installed. Nothing is written there: pip does not remove what lies outside its own environment.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"


@contextmanager
def environment(name: str, folder: Path) -> Iterator[Path]:
    """The interpreter of a peer's own environment; this one's where the peer has no requirements file.

    Args:
        name: Of the peer.
        folder: Where to make it; removed on leaving.

    Raises:
        RuntimeError: pip could not install it; the message is pip's last line.
    """
    requirements = REQUIREMENTS / f"{name}.txt"
    if not requirements.exists():
        yield Path(sys.executable)
        return
    home = folder / name
    try:
        python = _make(home, requirements)
        yield python
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _make(home: Path, requirements: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = home / "bin" / "python"
    text = requirements.read_text("utf-8")
    constraints: list[str] = []
    if shared := re.search(r"^# shared: (.+)$", text, re.MULTILINE):
        linked = closure(shared[1].split())
        _link(home, linked)
        pinned = home / "shared.txt"
        pinned.write_text("".join(f"{name}=={metadata.version(name)}\n" for name in linked), "utf-8")
        constraints = ["-c", str(pinned)]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *constraints, "-r", str(requirements)])
    if bare := re.findall(r"^# without its dependencies: (\S+)$", text, re.MULTILINE):
        _run([*pip, "--no-deps", *bare])
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError([line for line in done.stderr.splitlines() if line.startswith("ERROR")][-1])


def closure(names: list[str]) -> list[str]:
    """Distributions and all they need that is installed here (CUDA's parts are extras), less NumPy, which peers pin."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key in ("numpy", "setuptools"):
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.append(key)
        needs = [need.strip() for need in needs if "extra ==" not in need or need.startswith("nvidia-")]
        waiting += [re.split(r"[^\w.-]", need)[0] for need in needs]
    return sorted(found)


def _link(home: Path, names: list[str]) -> None:
    links = home / "shared"
    links.mkdir()
    for name in names:
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in ("..", "__pycache__")}:
            target = Path(str(metadata.distribution(name).locate_file(top)))
            if target.exists() and not (links / top).exists():
                (links / top).symlink_to(target.resolve())
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "shared.pth").write_text(f"{links.resolve()}\n", "utf-8")
