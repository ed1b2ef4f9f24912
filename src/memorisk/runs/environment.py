"""Environment of a run: versions, device, threads. It holds no host name, user or path."""

import os
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from memorisk.runs.errors import InputError, one_line
from memorisk.runs.user_code.plugins import plugin_versions

if TYPE_CHECKING:
    import torch

LIBRARIES = ("memorisk", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "torch", "timm", "pillow", "pydicom")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries and plug-ins that numbers depend on, without absent ones."""
    by_library = {name: _installed_version(name) for name in LIBRARIES}
    installed = {name: version for name, version in by_library.items() if version}
    return {"python": platform.python_version()} | installed | plugin_versions()


@cache
def _installed_version(name: str) -> str | None:
    """Return the version of a library; None where it is absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, str | int]:
    """Describe the machine in the words that a benchmark needs: system, processor architecture, cores."""
    return {"system": platform.system(), "architecture": platform.machine(), "cores": available_cores()}


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the bytes that this process may still take, by the system and a container's limit; None if unknown."""
    limits = []
    system = _numbers(Path("/proc/meminfo"))
    if "MemAvailable:" in system:
        limits.append(1024 * system["MemAvailable:"])
    for folder, limit, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, now = (int(Path(folder, name).read_text(encoding="ascii")) for name in (limit, used))
        except (OSError, ValueError):  # the file is absent, or holds "max"
            continue
        limits.append(max(most - now + _numbers(Path(folder, "memory.stat")).get("inactive_file", 0), 0))
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(limits, default=None)


def _numbers(file: Path) -> dict[str, int]:
    """Return the first number of each line, by the line's first word; empty where the file is absent."""
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}


def check_device_name(device: str) -> str:
    """Refuse a name that no device has, before torch is loaded.

    Args:
        device: Name of a device, as for `check_device`.

    Returns:
        Name as messages quote it.

    Raises:
        InputError: The device is unknown.
    """
    name = one_line(repr(device), 60)
    if not re.fullmatch(r"auto|(cpu|cuda)(:\d+)?", device):
        raise InputError(f"unknown device {name}; it must be auto, cpu, cuda, cuda:0, ...")
    return name


def check_device(device: "str | torch.device") -> "torch.device":
    """Return the device, if memorisk knows it and this machine has it.

    Args:
        device: Name of a device: cpu, cuda, cuda:1 and so on, or auto for a GPU where there is one.

    Raises:
        InputError: The device is unknown, or the machine lacks it.
    """
    name = check_device_name(str(device))
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    where = torch.device(device)
    if where.type == "cuda" and (where.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name} is not there: torch finds {torch.cuda.device_count()} GPUs; use cpu")
    return where
