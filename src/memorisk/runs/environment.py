"""What a run ran on: versions, device, threads. No host name, no user, no path."""

import os
import platform
from importlib import metadata
from pathlib import Path

LIBRARIES = ("memorisk", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "torch", "timm", "pillow", "pydicom")


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that the numbers depend on; absent ones are left out."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """The machine in the words a benchmark needs: system, processor architecture, cores."""
    return {"system": platform.system(), "architecture": platform.machine(), "cores": available_cores()}


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes that this process may still take, by the system and by a container's limit; None where neither tells."""
    found = []
    known = _numbers(Path("/proc/meminfo"))
    if "MemAvailable:" in known:
        found.append(1024 * known["MemAvailable:"])
    for folder, limit, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, now = (int(Path(folder, name).read_text(encoding="ascii")) for name in (limit, used))
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
        found.append(max(most - now + _numbers(Path(folder, "memory.stat")).get("inactive_file", 0), 0))
    if not found and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(found, default=None)


def _numbers(file: Path) -> dict[str, int]:
    """The first number of each line, by the line's first word; nothing where the file is not there."""
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
