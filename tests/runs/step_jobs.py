"""Jobs that tell how far they are, for processes of the tests to import."""

import time
from pathlib import Path

from memorisk.runs.steps import open_meter, written_steps

STEPS, IMAGES, LOSS = 4, 10, 0.25


def half_until_seen(job: tuple[str, str]) -> str:
    """Do half of the steps, and the rest once somebody has seen that."""
    file, seen = map(Path, job)
    with written_steps(file):
        meter = open_meter()
        assert meter is not None
        meter.begin(0, STEPS)
        meter.step(STEPS // 2, IMAGES, lambda: LOSS)
        until = time.monotonic() + 120
        while not seen.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
            meter.step(0, 0, lambda: LOSS)
        meter.step(STEPS // 2, IMAGES, lambda: LOSS)
        meter.end()
    return file.name
