"""Features that another process computes: waited for as long as it gets further, computed once more where it hangs."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.training.features import cache as feature_cache
from memorisk.training.features.matrix import load_features
from tests.training.feature_images import png_folder

HANGS = """
import os, signal, sys
from memorisk.images.options import ImageOptions
from memorisk.training.features import cache as feature_cache, matrix as feature_matrix
write = feature_cache._write
def once(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGSTOP)
feature_cache._write = once
options = ImageOptions(store=sys.argv[2])
feature_matrix.load_features(sys.argv[1], "pixels", options=options, batch=8, device="cpu", processes=1)
"""


@pytest.mark.thorough
def test_one_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder, options = png_folder(tmp_path / "set", 12), ImageOptions(store=tmp_path / "cache")
    how = {"options": options, "batch": 8, "device": "cpu", "processes": 1}
    monkeypatch.setattr(feature_cache, "STALL_SECONDS", 1.0)
    with subprocess.Popen([sys.executable, "-c", HANGS, str(folder), str(options.store)]) as child:
        os.waitpid(child.pid, os.WUNTRACED)
        found = load_features(folder, "pixels", **how)
        assert "features are computed once more: " in caplog.text
        assert f"is in use by process {child.pid} on " in caplog.text
        assert list((tmp_path / "cache" / "features").glob(".*.building"))  # its own stays as it is
        os.kill(child.pid, signal.SIGCONT)  # it stops again after the second batch
        os.waitpid(child.pid, os.WUNTRACED)
        monkeypatch.setattr(feature_cache, "STALL_SECONDS", 60.0)
        threading.Timer(0.5, os.kill, (child.pid, signal.SIGCONT)).start()
        began = time.monotonic()
        later = load_features(folder, "pixels", **how)
        assert time.monotonic() - began > 0.4  # it was waited for
        assert child.wait(20) == 0
    assert (found.computed, later.computed) == (10, 0)  # two images of the twelve are copies
    assert np.array_equal(found.values, later.values)
