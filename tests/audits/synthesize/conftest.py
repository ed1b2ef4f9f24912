"""Folders of real images, and one loop over them that many tests read."""

from pathlib import Path

import pytest

from memorisk.audits.synthesize.run import synthesize
from memorisk.report.result import Result
from tests.audits.synthesize.making import HERE, OF, write_folders
from tests.commands import own_cache

N = 60


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory):
    """The sets in folders, and a cache of their own."""
    folder = tmp_path_factory.mktemp("synthesize")
    with own_cache(folder):
        write_folders(folder)
        yield folder


@pytest.fixture(scope="session")
def made(place: Path) -> Result:
    """The whole thing, once, in ``out``: a generator that copies, a filter, and an auditor that took no part."""
    return run(place, "out", images=N)


def run(place: Path, out: str, generator=f"{HERE}:copying", new: str | None = "new", **settings) -> Result:
    """A loop over the folders."""
    calibration = {} if new is None else {"calibration": str(place / new)}
    found = synthesize(place / "train", place / out, generator=generator, seed=1, **calibration, **OF | settings)
    assert isinstance(found, Result)
    return found
