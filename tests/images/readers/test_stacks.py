"""Files of several images: none is left out without a word."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tifffile
from PIL import Image

from memorisk.images.options import ImageOptions
from memorisk.images.readers.headers import uncovered_frames
from memorisk.images.readers.registry import count_frames
from memorisk.images.sources.registry import load_manifest

FRAMES = [Image.fromarray(np.full((8, 8), 40 * i, np.uint8)) for i in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A page's worth of every kind, and five of some."""
    for name in ("a.gif", "a.png", "a.webp"):
        FRAMES[0].save(tmp_path / name, save_all=True, append_images=FRAMES[1:])
    FRAMES[0].save(tmp_path / "one.png")
    tifffile.imwrite(tmp_path / "a.tif", np.stack([np.asarray(f) for f in FRAMES]), photometric="minisblack")
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "left"), [({}, 16), ({"frames": "first"}, 16), ({"frames": "all"}, 0), ({"frame_step": 2}, 10)]
)
def test_what_is_left_out_is_counted(folder: Path, settings: dict, left: int) -> None:
    if "frame_step" in settings:
        settings = settings | {"frames": "all"}
    manifest = load_manifest(folder, ImageOptions(**settings))
    files = {p: count_frames(folder / p) for p in ("a.gif", "a.png", "a.webp", "a.tif", "one.png")}
    assert files == {"a.gif": 5, "a.png": 5, "a.webp": 5, "a.tif": 5, "one.png": 1}
    rows = manifest.table["path"].value_counts()
    assert uncovered_frames(manifest, "axial") == {p: n - rows[p] for p, n in files.items() if n > rows[p]}
    assert sum(files.values()) - manifest.n == left or settings.get("frame_step") == 2


def test_what_rows_of_parquet_leave_out_is_counted(folder: Path) -> None:
    rows = [{"bytes": (folder / name).read_bytes(), "path": None} for name in ("one.png", "a.gif", "a.tif")]
    place = folder / "hub" / "data" / "train-00000-of-00001.parquet"
    place.parent.mkdir(parents=True)
    pd.DataFrame({"image": rows}).to_parquet(place)
    manifest = load_manifest(folder / "hub")
    assert uncovered_frames(manifest, "axial") == {manifest.table["path"].iloc[0]: 2 * (len(FRAMES) - 1)}
