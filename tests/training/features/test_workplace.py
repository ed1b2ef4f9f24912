"""Where searches run: what a killed command left is removed, and nothing that is in use."""

import os
import time
from pathlib import Path

from memorisk.runs.arrays import ABANDONED_SECONDS
from memorisk.runs.locks import folder_lock
from memorisk.training.features.compute_backend import _remove_abandoned


def test_what_is_in_use_is_not_taken_for_abandoned_whatever_the_clock_says(tmp_path: Path) -> None:
    for name in ("held", "left", "young"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "table.npy").write_bytes(b"x")
    for name in ("held", "left"):
        os.utime(tmp_path / name, (time.time() - ABANDONED_SECONDS - 60,) * 2)
    with folder_lock(tmp_path, name="held.lock"):
        _remove_abandoned(tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["held", "young"]
    _remove_abandoned(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["young"]
