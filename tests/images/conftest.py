"""A store's options in a folder of the test, and what it decodes."""

from pathlib import Path

import pytest

from memorisk.images import pixels
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image


@pytest.fixture
def options(tmp_path):
    return ImageOptions(store=tmp_path / "cache")


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded in this process, in order."""
    seen = []

    def counting(path, **how):
        seen.append(Path(path).name)
        return read_image(path, **how)

    monkeypatch.setattr(pixels, "read_image", counting)
    return seen
