"""A folder with the sets, and one filter of them that many tests read."""

from pathlib import Path

import pytest

from memorisk.audits.filter.run import filter_synthetic
from memorisk.report.result import Result
from tests.audits.filter.making import OF, write_folders
from tests.commands import own_cache
from tests.drawings import whole_drawings

ONE_KIND = {"plant_kinds": ("exact",)}


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory):
    """The sets in folders, the working directory, and a cache of their own."""
    folder = tmp_path_factory.mktemp("filter")
    with own_cache(folder):
        write_folders(folder)
        yield folder


@pytest.fixture(scope="session")
def filtered(place: Path) -> Result:
    """The whole thing, once, in ``out``."""
    with whole_drawings():
        return run(place, "out", families=("noise:0.1",), gallery=True, plant_kinds=())


def run(place: Path, out: str, new: str | None = "new", made: str = "set", **settings) -> Result:
    """A filter of the folders, whose audit plants one kind of copies unless others are given."""
    calibration = {} if new is None else {"calibration": str(place / new)}
    found = filter_synthetic(place / "train", place / made, place / out, **calibration, **OF | ONE_KIND | settings)
    assert isinstance(found, Result)
    return found
