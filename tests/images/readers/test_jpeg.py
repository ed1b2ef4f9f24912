"""JPEG: colours as Adobe writes them, and no truncated file passes for a whole one."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from memorisk.images.readers import jpeg_markers
from memorisk.images.readers.registry import read_image
from memorisk.runs.errors import InputError
from tests.images.making import write


def _gradient() -> np.ndarray:
    y, x = np.mgrid[:100, :120]
    return np.stack([x * 2, y * 2, x + y], axis=-1).astype(np.uint8)


def _encoded(**options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(_gradient()).save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("cyan", "magenta", "yellow", "black"),
    [(0, 0, 0, 0), (255, 0, 0, 0), (0, 255, 255, 0), (0, 0, 0, 255), (51, 102, 153, 51)],
)
def test_cmyk_as_adobe_writes_it(tmp_path: Path, cyan: int, magenta: int, yellow: int, black: int) -> None:
    picture = Image.new("CMYK", (16, 16), (cyan, magenta, yellow, black))
    picture.save(tmp_path / "a.jpg", quality=100, subsampling=0)
    assert b"Adobe" in (tmp_path / "a.jpg").read_bytes()  # inverted, as Photoshop does
    image = read_image(tmp_path / "a.jpg")
    expected = [(255 - v) * (255 - black) / 255 for v in (cyan, magenta, yellow)]
    assert image.shape == (16, 16, 3)
    assert np.abs(image.reshape(-1, 3).mean(axis=0) - expected).max() < 2.5  # a JPEG of quality 100 is not exact


def test_grey_has_one_channel(tmp_path: Path) -> None:
    Image.fromarray(_gradient()[..., 0]).save(tmp_path / "a.jpg")
    assert read_image(tmp_path / "a.jpg").shape == (100, 120, 1)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_blocks": 4}])
@pytest.mark.parametrize("end", [b"", b"\xff\xd9"])
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path, options: dict, end: bytes) -> None:
    data = _encoded(**options)
    whole = read_image(write(tmp_path / "whole.jpg", data)).astype(int)
    path = tmp_path / "cut.jpg"
    for cut in range(30, len(data) - 20, 17):
        write(path, data[:cut] + end)
        try:
            image = read_image(path)
        except InputError:
            continue
        # one block at the very end may be lost unseen; half an image may not
        assert (np.abs(image - whole).max(axis=-1) > 8).sum() <= 16 * 16, (cut, len(data))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 4}])
def test_a_whole_image_of_that_very_grey_is_read(tmp_path: Path, options: dict) -> None:
    for colour in (127, 128):
        Image.new("RGB", (64, 48), (colour,) * 3).save(tmp_path / "a.jpg", quality=95, **options)
        assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - colour).max() <= 1


def test_every_whole_real_jpeg_is_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "ham10000_224" / "images").glob("*.jpg"))[::40]
    for path in paths:
        with Image.open(path) as picture:
            np.testing.assert_array_equal(read_image(path), np.asarray(picture.convert("RGB")))


def test_bytes_after_the_end_do_no_harm(tmp_path: Path) -> None:
    data = _encoded(progressive=True)
    whole = read_image(write(tmp_path / "a.jpg", data))
    np.testing.assert_array_equal(read_image(write(tmp_path / "b.jpg", data + b"trailing")), whole)


def test_what_the_markers_say() -> None:
    baseline, progressive = _encoded(), _encoded(progressive=True)
    assert jpeg_markers.declared_size(baseline) == jpeg_markers.declared_size(progressive) == (120, 100)
    assert jpeg_markers.scans(baseline) == 1
    assert jpeg_markers.scans(progressive) > 1
    assert not jpeg_markers.scans_missing(baseline)
    assert not jpeg_markers.scans_missing(progressive)
    last = progressive.rfind(b"\xff\xda")
    assert jpeg_markers.scans_missing(progressive[:last] + b"\xff\xd9")
    assert jpeg_markers.has_end(baseline)
    assert not jpeg_markers.has_end(baseline[:-2])
    buffer = io.BytesIO()
    Image.fromarray(_gradient()).save(buffer, "JPEG2000", no_jp2=True)
    assert jpeg_markers.declared_size(buffer.getvalue()) == (120, 100)
    assert jpeg_markers.declared_size(b"neither") is None
