"""Freed memory is kept: a process that frees and asks again takes no new pages from the system."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from memorisk.training.engine.devices import keep_freed_memory

def faults(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        block = np.empty(8 << 20, dtype=np.uint8)
        block[::4096] = 1
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep":
    assert keep_freed_memory()
faults(1)
print(faults(10))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator has the setting")
def test_pages_are_fetched_once() -> None:
    def run(what: str) -> int:
        done = subprocess.run([sys.executable, "-c", SCRIPT, what], capture_output=True, text=True, check=True)
        return int(done.stdout)

    pages = 10 * (8 << 20) // 4096  # what ten rounds touch
    assert run("keep") < pages / 100
