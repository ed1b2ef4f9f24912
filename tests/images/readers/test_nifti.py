"""NIfTI: slices of a plane, turned to one orientation, with greys that compare over the volume."""

import gzip
import logging
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.readers.nifti import count_frames as count_slices
from memorisk.images.readers.nifti import declared_plane
from memorisk.images.readers.registry import count_frames, read_image
from memorisk.runs.errors import InputError

nib = pytest.importorskip("nibabel")

RNG = np.random.default_rng(0)
SHAPE = (5, 6, 7)  # right, anterior, superior
VALUES = RNG.integers(0, 4000, SHAPE).astype(np.int16)


def _save(path: Path, values: np.ndarray, affine: np.ndarray | None = None, **header: float) -> Path:
    image = nib.Nifti1Image(values, np.eye(4) if affine is None else affine)
    for key, value in header.items():
        image.header[key] = value
    nib.save(image, path)
    return path


def _window(values: np.ndarray, low: float, high: float, top: int = 255) -> np.ndarray:
    return np.rint(np.clip((values.astype(float) - low) / (high - low), 0, 1) * top)


def _seen(volume: np.ndarray, plane: str, index: int) -> np.ndarray:
    """A slice as radiologists see it, pixel by pixel: anterior or superior first, the patient's right at the left."""
    right, anterior, superior = volume.shape
    if plane == "axial":
        return np.array(
            [[volume[right - 1 - c, anterior - 1 - r, index] for c in range(right)] for r in range(anterior)]
        )
    if plane == "coronal":
        return np.array(
            [[volume[right - 1 - c, index, superior - 1 - r] for c in range(right)] for r in range(superior)]
        )
    return np.array([[volume[index, c, superior - 1 - r] for c in range(anterior)] for r in range(superior)])


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize(("plane", "n"), [("axial", 7), ("coronal", 6), ("sagittal", 5)])
def test_slices_of_each_plane(tmp_path: Path, plane: str, n: int, suffix: str) -> None:
    path = _save(tmp_path / f"a{suffix}", VALUES)
    low, high = np.percentile(VALUES, 0.5), np.percentile(VALUES, 99.5)
    assert count_slices(path, plane) == n
    for index in (0, 1, n - 1):
        expected = _window(_seen(VALUES, plane, index), low, high)
        np.testing.assert_array_equal(read_image(path, member=plane, frame=index)[..., 0], expected)
    middle = read_image(path, member=plane)
    np.testing.assert_array_equal(middle, read_image(path, member=plane, frame=n // 2))
    with pytest.raises(InputError, match=f"{plane} slices 0 to {n - 1}, not {n}"):
        read_image(path, member=plane, frame=n)


@pytest.mark.parametrize("codes", ["LPS", "RAS", "PIR", "SLA", "IRP"])
def test_the_stored_orientation_does_not_matter(tmp_path: Path, codes: str) -> None:
    straight = nib.Nifti1Image(VALUES, np.diag([2.0, 3.0, 4.0, 1.0]))
    transform = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(straight.affine), nib.orientations.axcodes2ornt(codes)
    )
    turned = straight.as_reoriented(transform)
    assert "".join(nib.aff2axcodes(turned.affine)) == codes
    nib.save(turned, tmp_path / "turned.nii.gz")
    nib.save(straight, tmp_path / "straight.nii")
    for plane in ("axial", "coronal", "sagittal"):
        assert count_slices(tmp_path / "turned.nii.gz", plane) == count_slices(tmp_path / "straight.nii", plane)
        a = read_image(tmp_path / "turned.nii.gz", member=plane, frame=2)
        np.testing.assert_array_equal(a, read_image(tmp_path / "straight.nii", member=plane, frame=2))


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_broken_sform_gives_way_to_the_qform_or_is_refused(tmp_path: Path, value: float) -> None:
    path = _save(tmp_path / "a.nii", VALUES, np.diag([-1.0, 1, 1, 1]), qform_code=1, sform_code=1)
    expected = read_image(path)
    rows = 280  # byte of the first of the three rows of the sform
    data = bytearray(path.read_bytes())
    data[rows : rows + 48] = np.full(12, value, "<f4").tobytes()
    path.write_bytes(data)
    np.testing.assert_array_equal(read_image(path), expected)
    data[252:254] = b"\0\0"  # the code of the qform
    path.write_bytes(data)
    with pytest.raises(InputError, match="header does not say how the volume lies"):
        read_image(path)


def test_the_declared_range_the_full_range_and_scaled_values(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.nii", VALUES, cal_min=500.0, cal_max=1500.0)
    axial = _seen(VALUES, "axial", 3)
    np.testing.assert_array_equal(read_image(path)[..., 0], _window(axial, 500, 1500))
    np.testing.assert_array_equal(
        read_image(path, window="full", depth=16)[..., 0], _window(axial, VALUES.min(), VALUES.max(), 65535)
    )
    scaled = nib.Nifti1Image(VALUES, np.eye(4))
    scaled.header.set_slope_inter(2.0, -1000.0)
    nib.save(scaled, tmp_path / "b.nii")
    stored = np.asanyarray(nib.load(tmp_path / "b.nii").dataobj)
    low, high = np.percentile(stored, 0.5), np.percentile(stored, 99.5)
    np.testing.assert_array_equal(read_image(tmp_path / "b.nii")[..., 0], _window(_seen(stored, "axial", 3), low, high))


def test_the_first_volume_of_a_series_and_a_single_slice(tmp_path: Path) -> None:
    series = np.stack([VALUES, VALUES[::-1]], axis=-1)
    path = _save(tmp_path / "a.nii.gz", series)
    np.testing.assert_array_equal(read_image(path), read_image(_save(tmp_path / "b.nii", VALUES)))
    flat = _save(tmp_path / "c.nii", VALUES[:, :, 0])
    assert count_frames(flat) == 1
    assert read_image(flat).shape == (6, 5, 1)


def test_colour_and_values_that_are_not_finite(tmp_path: Path) -> None:
    colour = RNG.integers(0, 256, (*SHAPE, 3), dtype=np.uint8)
    voxels = colour.view([("R", "u1"), ("G", "u1"), ("B", "u1")])[..., 0]
    path = _save(tmp_path / "a.nii", voxels)
    expected = np.stack([_seen(colour[..., c], "axial", 3) for c in range(3)], axis=-1)
    np.testing.assert_array_equal(read_image(path), expected)
    holes = VALUES.astype(np.float32)
    holes[0, 0, 3], holes[1, 1, 3] = np.nan, np.inf
    for name in ("b.nii", "b.nii.gz"):
        with pytest.raises(InputError, match=rf"{name}: 2 voxels are NaN or infinite"):
            read_image(_save(tmp_path / name, holes))


def test_the_content_decides_and_nifti_2_is_read(tmp_path: Path) -> None:
    plain = _save(tmp_path / "a.nii", VALUES)
    expected = read_image(plain)
    (tmp_path / "lie.nii.gz").write_bytes(plain.read_bytes())
    (tmp_path / "lie.nii").write_bytes(gzip.compress(plain.read_bytes()))
    nib.save(nib.Nifti2Image(VALUES, np.eye(4)), tmp_path / "two.nii.gz")
    for name in ("lie.nii.gz", "lie.nii", "two.nii.gz"):
        np.testing.assert_array_equal(read_image(tmp_path / name), expected, err_msg=name)


def test_what_is_no_volume_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.nii", VALUES)
    with pytest.raises(InputError, match=r"unknown plane 'axal'. Did you mean 'axial'"):
        read_image(path, member="axal")
    with pytest.raises(InputError, match="more than 10 times the 20 pixels"):
        read_image(path, max_pixels=20)
    data = path.read_bytes()
    (tmp_path / "cut.nii").write_bytes(data[:-50])
    with pytest.raises(InputError, match=r"cut\.nii"):
        read_image(tmp_path / "cut.nii")
    (tmp_path / "cut.nii.gz").write_bytes(gzip.compress(data)[:-60])
    with pytest.raises(InputError, match=r"cut\.nii\.gz"):
        read_image(tmp_path / "cut.nii.gz")
    with pytest.raises(InputError, match="no greys"):
        read_image(_save(tmp_path / "c.nii", VALUES.astype(np.complex64)))


def test_a_row_may_declare_its_greys(tmp_path: Path) -> None:
    path = _save(tmp_path / "a.nii", VALUES, cal_min=500.0, cal_max=1500.0)
    axial = _seen(VALUES, "axial", 3)
    member = declared_plane("axial", -100.0, 2500.5)
    assert member == "axial@-100:2500.5"
    np.testing.assert_array_equal(read_image(path, member=member, frame=3)[..., 0], _window(axial, -100, 2500.5))
    full = read_image(path, member=member, frame=3, window="full")
    np.testing.assert_array_equal(full, read_image(path, member="axial", frame=3, window="full"))
    for wrong in ("axial@5:5", "axial@a:b", "axial@1"):
        with pytest.raises(InputError, match="is not PLANE@LOW:HIGH"):
            read_image(path, member=wrong)


def test_what_is_odd_in_a_header_is_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a command: Python itself prints what nobody takes
    path = _save(tmp_path / "a.nii", VALUES)
    data = bytearray(path.read_bytes())
    data[254:256] = b"\x99\x11"  # sform_code: nibabel sets it to 0 and logs it
    path.write_bytes(data)
    assert read_image(path).shape == (6, 5, 1)
    assert capfd.readouterr() == ("", "")
