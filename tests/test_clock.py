"""A clock that is set back, or forward, while a run is under way: the same results, nothing mistaken."""

import itertools
import json
import os
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import memorisk
from memorisk.runs import folder as folder_module
from tests.commands import plain_images
from tests.test_faults import RESULT, result_bytes
from tests.thorough import thorough

SETTINGS = {"models": 2, "epochs": 2, "processes": 1, "fail_on": "never"}
YEAR = 365 * 86400


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return plain_images(tmp_path_factory.mktemp("clock") / "set", per_class=40)


@pytest.fixture(scope="module")
def undisturbed(images, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    memorisk.audit_classifier(images, out=folder / "run", store=folder, **SETTINGS)
    return result_bytes(folder / "run")


def clock(monkeypatch: pytest.MonkeyPatch, begin: float, step: float) -> None:
    """A clock that shows another time at each look, going by ``step`` seconds."""
    looks = itertools.count()

    def shows() -> float:
        return begin + step * next(looks)

    class Moving(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromtimestamp(1_000_000_000, tz) + timedelta(seconds=shows() - begin)

    monkeypatch.setattr(time, "time", shows)
    monkeypatch.setattr(time, "time_ns", lambda: int(shows() * 1e9))
    monkeypatch.setattr(folder_module, "datetime", Moving)


@pytest.mark.parametrize(("begin", "step"), [(0.0, -60.0), thorough(4e9, 40 * 86400.0)])
def test_a_run_that_goes_on_at_another_time(images, undisturbed, tmp_path, monkeypatch, begin, step):
    """Half of the work is done, its files are of another time than the clock now shows, and the clock runs wild."""

    def stops(stage: str, done: int, total: int) -> None:
        if stage == "training" and any((tmp_path / "run" / "logits").glob("*.npy")):
            raise Stopped

    with pytest.raises(Stopped):
        memorisk.audit_classifier(images, out=tmp_path / "run", store=tmp_path, progress=stops, **SETTINGS)
    done = list((tmp_path / "run" / "logits").glob("*.npy"))
    assert done
    stamps = {file: file.stat().st_ino for file in done}
    with monkeypatch.context() as patch:
        clock(patch, begin, step)
        for file in tmp_path.rglob("*"):
            os.utime(file, (time.time() + YEAR, time.time() + YEAR))
        memorisk.audit_classifier(images, out=tmp_path / "run", store=tmp_path, **SETTINGS)
    assert {file: file.stat().st_ino for file in done} == stamps, "a training that was done was done again"
    assert result_bytes(tmp_path / "run") == undisturbed
    events = [json.loads(line)["event"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert events[-1] == "finished"
    assert events.count("started") == 2
    assert set(RESULT) <= {p.name for p in (tmp_path / "run").iterdir()}


def test_an_image_that_was_changed_is_read_again_whatever_time_it_bears(images, tmp_path):
    """The modification time set back to what it was: only the time of that change tells."""
    from memorisk.images.file_hashes import content_fingerprints

    file = tmp_path / "a.png"
    source = sorted(images.rglob("*.png"))
    file.write_bytes(source[0].read_bytes())
    os.utime(file, (0, 0))
    first = content_fingerprints([str(file)], tmp_path)
    same_size = bytes(b ^ 1 for b in source[0].read_bytes())
    file.write_bytes(same_size)
    os.utime(file, (0, 0))
    assert content_fingerprints([str(file)], tmp_path) != first
