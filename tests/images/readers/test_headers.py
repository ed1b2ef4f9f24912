"""Shape and depth of an image by the header of its file, against its pixels."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from memorisk.images.readers.headers import Header, image_header
from tests.images.dicom_making import dicom

ROW = np.arange(24, dtype=np.uint8).reshape(2, 12)


@pytest.mark.parametrize(
    ("kind", "bits", "deep"), [(np.uint8, 8, False), (np.uint16, 12, True), (np.uint16, 8, False), (np.int16, 16, True)]
)
def test_of_dicom_without_its_pixels(tmp_path: Path, kind: type, bits: int, deep: bool) -> None:
    data, file = dicom(ROW.astype(kind), bits=bits), tmp_path / "one.dcm"
    data.save_as(file, enforce_file_format=True)
    assert image_header(file) == Header(2, 12, deep)
    frames = dicom(np.stack([ROW.astype(kind)] * 3), bits=bits)
    frames.save_as(file, enforce_file_format=True)
    assert image_header(file) == Header(2, 12, deep)
    file.write_bytes(file.read_bytes()[: -4 * ROW.size])  # the pixels are cut short
    assert image_header(file) == Header(2, 12, deep)


@pytest.mark.parametrize(("kind", "deep"), [(np.uint8, False), (np.int16, True), (np.float32, True)])
def test_of_the_shown_plane_of_a_volume(tmp_path: Path, kind: type, deep: bool) -> None:
    for name in ("v.nii", "v.nii.gz"):
        nib.Nifti1Image(np.zeros((4, 4, 6), kind), np.eye(4)).to_filename(tmp_path / name)
        assert image_header(tmp_path / name) == Header(4, 4, deep)
        found = image_header(tmp_path / name, "sagittal@-10:10")
        assert found is not None
        assert (sorted((found.height, found.width)), found.deep) == ([4, 6], deep)


def test_of_arrays_by_their_axes_and_names(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 3, 4, 6), np.float32))
    np.savez(tmp_path / "b.npz", x=np.zeros((5, 4, 6, 3), np.uint8), y=np.zeros((2, 8, 8), np.uint16), z=np.zeros(3))
    assert image_header(tmp_path / "a.npy") == Header(4, 6, True)
    assert image_header(tmp_path / "b.npz", "x") == Header(4, 6, False)
    assert image_header(tmp_path / "b.npz", "y") == Header(8, 8, True)
    assert image_header(tmp_path / "b.npz", "z") is None
    assert image_header(tmp_path / "b.npz") is None


def test_of_raster_images_and_of_nothing(tmp_path: Path) -> None:
    Image.fromarray(ROW.astype(np.uint16)).save(tmp_path / "d.png")
    Image.fromarray(ROW).save(tmp_path / "s.png")
    (tmp_path / "t.txt").write_text("no image")
    (tmp_path / "cut.png").write_bytes((tmp_path / "s.png").read_bytes()[:20])
    assert image_header(tmp_path / "d.png") == Header(2, 12, True)
    assert image_header(tmp_path / "s.png") == Header(2, 12, False)
    assert [image_header(tmp_path / name) for name in ("t.txt", "cut.png", "none.png")] == [None] * 3
    assert image_header("builtin:digits") is None
