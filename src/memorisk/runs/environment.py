"""What a run ran on: versions, device, threads. No host name, no user, no path."""

import os
import platform
from importlib import metadata

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
