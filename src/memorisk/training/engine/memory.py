"""Freed memory kept for the next step.

A training step asks for the same few megabytes again and again. The C library's allocator hands such blocks back to the
system and fetches them anew, page by page; on a CPU that took up to a third of a small network's step
(benchmarks/results/training.json).
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_KEEP = 1 << 30
_LARGEST = 1 << 25  # the most that glibc takes on every version; larger blocks go back to the system at once


def keep_freed_memory() -> bool:
    """Let this process keep up to 1 GiB of freed memory, in blocks of up to 32 MiB, for itself.

    A setting of the whole process, hence for whoever owns it (a worker that trains), not for `fit`. Peak memory does
    not change: what is kept has been in use before.

    Returns:
        Whether the C library took the setting; False where it has none (anything but glibc).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return mallopt(_MMAP_THRESHOLD, _LARGEST) == 1 and mallopt(_TRIM_THRESHOLD, _KEEP) == 1
