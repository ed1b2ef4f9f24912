"""Volumes: a NIfTI file, a DICOM series and a DICOM file of frames as one image [H, W, D]."""

from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.pixels import hash_pixels
from memorisk.images.readers.registry import read_image
from memorisk.images.set_check.check import check_images, render_text
from memorisk.images.sources.registry import load_manifest
from memorisk.images.stacked_images import MiddleSlices
from memorisk.images.store import build_store
from memorisk.images.volumes import is_volume, middle_slice, middle_slices, resize_volume, volume_member
from memorisk.runs.errors import InputError
from tests.images.dicom_making import dicom, save, with_elements

nib = pytest.importorskip("nibabel")
pytest.importorskip("pydicom")

BODY = np.random.default_rng(0).integers(0, 4096, (10, 12, 9)).astype(np.int16)
"""Values by patient: [left to right, back to front, feet to head]."""
DIRECTIONS = {
    "axial": ((1, 0, 0), (0, 1, 0)),
    "coronal": ((1, 0, 0), (0, 0, -1)),
    "sagittal": ((0, 1, 0), (0, 0, -1)),
    "axial from below": ((-1, 0, 0), (0, 1, 0)),
}
"""Directions of a row and of a column, to the left, the back and the head."""


def _nifti(path: Path, values: np.ndarray = BODY, affine: np.ndarray | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(values, np.eye(4) if affine is None else affine), path)
    return path


def _seen(body: np.ndarray) -> np.ndarray:
    """The volume as it should be read, voxel by voxel: [front to back, right to left, feet to head]."""
    right, front, head = body.shape
    return np.array(
        [[[body[right - 1 - c, front - 1 - r, z] for z in range(head)] for c in range(right)] for r in range(front)]
    )


def _voxel(place: np.ndarray) -> int:
    """The value at a place in millimetres to the left, the back and the head, where voxel [9, 11, 0] is the origin."""
    left, back, head = np.rint(place).astype(int)
    return BODY[9 - left, 11 - back, head]


def _series(folder: Path, plane: str, *, shuffled: bool = True, geometry: bool = True, **elements: object) -> Path:
    """Write the body as slices of a plane, one file each, named in no order of theirs."""
    along_row, along_column = (np.array(direction) for direction in DIRECTIONS[plane])
    normal = np.cross(along_row, along_column)
    box = np.array([10, 12, 9])
    counts = [int(np.abs(axis @ box)) for axis in (normal, along_column, along_row)]
    origin = sum(np.where(axis < 0, -axis * (box - 1), 0) for axis in (normal, along_column, along_row))
    names = np.random.default_rng(1).permutation(counts[0]) if shuffled else np.arange(counts[0])
    for n in range(counts[0]):
        corner = origin + n * normal
        pixels = [
            [_voxel(corner + r * along_column + c * along_row) for c in range(counts[2])] for r in range(counts[1])
        ]
        places = {
            "ImagePositionPatient": [float(v) for v in corner],
            "ImageOrientationPatient": [float(v) for v in (*along_row, *along_column)],
        }
        of_series = {"SeriesInstanceUID": "1.2.3", "StudyInstanceUID": "1.2", "InstanceNumber": n + 1}
        given = {"PatientID": "A"} | of_series | (places if geometry else {}) | elements
        save(dicom(np.array(pixels, np.uint16), bits=12, **given), folder / f"IM{names[n]}")
    return folder


FULL = ImageOptions(frames="volume", window="full")


def test_a_nifti_file_is_arranged_as_axial_slices_are_seen(tmp_path: Path) -> None:
    volume = read_image(_nifti(tmp_path / "a.nii.gz"), member="volume", window="full", depth=16)
    low, high = BODY.min(), BODY.max()
    np.testing.assert_array_equal(volume, np.rint((_seen(BODY) - float(low)) / (high - low) * 65535))
    for z in (0, 8):
        of_slice = read_image(tmp_path / "a.nii.gz", member="axial", frame=z, window="full", depth=16)
        np.testing.assert_array_equal(volume[..., z], of_slice[..., 0])


def test_a_nifti_file_is_turned_to_the_standard_orientation(tmp_path: Path) -> None:
    turned = np.array([[0, 0, 1, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])  # stored: to the back, head, right
    other = _nifti(tmp_path / "b.nii", BODY[:, ::-1].transpose(1, 2, 0), turned)
    same = read_image(_nifti(tmp_path / "a.nii"), member="volume")
    np.testing.assert_array_equal(read_image(other, member="volume"), same)


@pytest.mark.parametrize("plane", list(DIRECTIONS))
def test_a_series_of_any_plane_is_the_volume_that_a_nifti_file_is(tmp_path: Path, plane: str) -> None:
    manifest = load_manifest(_series(tmp_path / "scan" / "p1", plane).parent, FULL)
    assert manifest.n == 1
    assert manifest.images.tolist() == ["p1"]
    assert manifest.groups.tolist() == ["A"]
    volume = read_image(manifest.file(0), member=manifest.table["member"].iloc[0], window="full", depth=16)
    np.testing.assert_array_equal(volume, np.rint(_seen(BODY) / 4095 * 65535))


def test_a_series_without_places_is_ordered_by_its_numbers(tmp_path: Path) -> None:
    manifest = load_manifest(_series(tmp_path / "p1", "axial", geometry=False), FULL)
    volume = read_image(manifest.file(0), member=manifest.table["member"].iloc[0], window="full", depth=16)
    np.testing.assert_array_equal(volume, np.rint(_seen(BODY) / 4095 * 65535))


def test_a_file_of_frames_is_a_volume(tmp_path: Path) -> None:
    frames = _seen(BODY).transpose(2, 0, 1).astype(np.uint16)
    save(dicom(frames, bits=12, PatientID="A", SeriesInstanceUID="1.2.3"), tmp_path / "scan" / "IM1")
    manifest = load_manifest(tmp_path / "scan", FULL)
    assert manifest.table["member"].tolist() == ["volume"]
    volume = read_image(manifest.file(0), member="volume", window="full", depth=16)
    np.testing.assert_array_equal(volume, np.rint(_seen(BODY) / 4095 * 65535))
    assert check_images(manifest, FULL).frames_left.empty


def test_the_middle_slice_declares_the_window_and_percentiles_are_of_all_voxels(tmp_path: Path) -> None:
    _series(tmp_path / "declared", "axial", WindowCenter=2048, WindowWidth=1025)
    _series(tmp_path / "plain", "axial")
    values = _seen(BODY).astype(float)
    for name, low, high in (
        ("declared", 2048 - 0.5 - 512, 2048 - 0.5 + 512),
        ("plain", np.percentile(BODY, 0.5), np.percentile(BODY, 99.5)),
    ):
        manifest = load_manifest(tmp_path / name, FULL)
        volume = read_image(manifest.file(0), member=manifest.table["member"].iloc[0])
        np.testing.assert_array_equal(volume, np.rint(np.clip((values - low) / (high - low), 0, 1) * 255))


def test_monochrome1_is_inverted_and_padding_counts_in_no_percentile(tmp_path: Path) -> None:
    _series(tmp_path / "inverted", "axial", PhotometricInterpretation="MONOCHROME1")
    _series(tmp_path / "padded", "axial", PixelPaddingValue=0, PixelPaddingRangeLimit=2000)
    values, counted = _seen(BODY).astype(float), BODY[BODY > 2000]
    ends = {"inverted": np.percentile(BODY, [0.5, 99.5]), "padded": np.percentile(counted, [0.5, 99.5])}
    for name, (low, high) in ends.items():
        manifest = load_manifest(tmp_path / name, FULL)
        volume = read_image(manifest.file(0), member=manifest.table["member"].iloc[0], window="percentile")
        expected = np.rint(np.clip((values - low) / (high - low), 0, 1) * 255)
        np.testing.assert_array_equal(volume, 255 - expected if name == "inverted" else expected)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ImagePositionPatient": [0.0, 0.0, 3.0]}, "several slices at one place"),
        ({"ImageOrientationPatient": [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]}, "several sizes or directions"),
        ({"PatientID": "B"}, "several patients"),
    ],
)
def test_a_series_that_is_no_stack_is_left_out_and_named(tmp_path: Path, change: dict, reason: str) -> None:
    root = _series(tmp_path / "data" / "good", "axial").parent
    _series(root / "bad", "axial", shuffled=False, SeriesInstanceUID="1.2.4", StudyInstanceUID="1.3")
    own = {
        "PatientID": "A",
        "SeriesInstanceUID": "1.2.4",
        "StudyInstanceUID": "1.3",
        "ImagePositionPatient": [0.0, 0.0, 0.0],
        "ImageOrientationPatient": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    }
    save(dicom(np.zeros((12, 10), np.uint16), bits=12, **(own | change)), root / "bad" / "IM0")
    manifest = load_manifest(root, FULL)
    assert manifest.images.tolist() == ["good"]
    assert reason in manifest.unread["reason"].iloc[0]
    assert "1 DICOM series left out" in " ".join(manifest.notes)


def test_a_single_slice_is_no_volume(tmp_path: Path) -> None:
    save(dicom(np.zeros((12, 10), np.uint16), PatientID="A", SeriesInstanceUID="1.9"), tmp_path / "IM0")
    with pytest.raises(InputError, match="a single slice, where volumes are read"):
        load_manifest(tmp_path, FULL)


def test_every_file_of_a_series_is_in_the_key_of_its_store(tmp_path: Path) -> None:
    options = ImageOptions(frames="volume", size=8, store=tmp_path / "cache")
    root = _series(tmp_path / "p1", "axial", shuffled=False)
    first = build_store(load_manifest(root, options), options)
    assert first.images.shape == (1, 8, 8, 8)
    changed = dicom(
        np.zeros((12, 10), np.uint16),
        bits=12,
        PatientID="A",
        SeriesInstanceUID="1.2.3",
        StudyInstanceUID="1.2",
        ImagePositionPatient=[0.0, 0.0, 5.0],
        ImageOrientationPatient=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    )
    save(changed, root / "IM5")
    second = build_store(load_manifest(root, options), options)
    assert second.key != first.key
    assert second.pixel_hashes[0] != first.pixel_hashes[0]


def test_volumes_are_stored_as_cubes(tmp_path: Path) -> None:
    for name in "ab":
        _nifti(tmp_path / "data" / f"{name}.nii.gz", BODY if name == "a" else BODY[::-1])
    options = ImageOptions(frames="volume", size=8, store=tmp_path / "cache")
    store = build_store(load_manifest(tmp_path / "data", options), options)
    assert store.shape == (8, 8, 8)
    assert store.images.dtype == np.uint8
    np.testing.assert_array_equal(store.images[1], store.images[0][:, ::-1])  # mirrored left to right
    assert store.pixel_hashes[0] == hash_pixels(store.images[0])
    assert build_store(load_manifest(tmp_path / "data", options), options).key == store.key
    with pytest.raises(InputError, match="every volume is brought to a cube"):
        build_store(store.manifest, ImageOptions(frames="volume", store=tmp_path / "cache"))


def test_a_resized_volume_keeps_what_is_linear() -> None:
    ramp = np.broadcast_to(np.arange(16, dtype=np.uint8) * 10, (12, 20, 16))
    small = resize_volume(np.ascontiguousarray(ramp), 8)
    assert small.shape == (8, 8, 8)
    assert (small == small[0, 0]).all()  # nothing changes across the other axes
    np.testing.assert_allclose(small[0, 0, 1:-1], np.arange(8)[1:-1] * 20 + 5, atol=1)
    assert resize_volume(small, 8) is small


def test_which_arrays_are_volumes() -> None:
    volume = np.arange(8**3, dtype=np.uint16).reshape(8, 8, 8)
    assert is_volume(volume.shape)
    assert not is_volume((8, 8, 3))
    np.testing.assert_array_equal(middle_slice(volume), volume[:, :, 4:5])
    slices = MiddleSlices(np.stack([volume, volume + 1]))
    np.testing.assert_array_equal(slices[3:6], np.stack(middle_slices(volume + 1)))
    np.testing.assert_array_equal(
        slices.take(np.array([4, 0])), np.stack([volume[4][..., None] + 1, volume[:, :, 4:5]])
    )


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (BODY[:7], "7 x 12 x 9 voxels; a volume has at least 8 along each side"),
        (np.where(BODY > 4000, np.nan, BODY).astype(np.float32), "voxels are NaN or infinite"),
        (np.zeros((9, 9, 9), [("R", "u1"), ("G", "u1"), ("B", "u1")]), "coloured voxels"),
    ],
)
def test_a_nifti_file_that_is_no_grey_volume_is_refused(tmp_path: Path, values: np.ndarray, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_image(_nifti(tmp_path / "a.nii", values), member="volume")


def test_slices_of_a_series_must_be_there_and_alike(tmp_path: Path) -> None:
    for n, shape in enumerate([(9, 9), (9, 8)]):
        save(dicom(np.zeros(shape, np.uint16)), tmp_path / f"IM{n}")
    with pytest.raises(InputError, match="its size differs from that of the first slice"):
        read_image(tmp_path / "IM0", member=volume_member(["IM1"]))
    with pytest.raises(InputError, match="does not list the files of a volume"):
        read_image(tmp_path / "IM0", member="volume:nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path / "IM0", member=volume_member(["IM9"]))


def test_the_check_states_what_is_read_as_a_volume(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        _nifti(tmp_path / f"{name}.nii.gz", BODY if name != "c" else BODY[:, ::-1])
    _nifti(tmp_path / "d.nii.gz", np.stack([BODY, BODY], axis=-1))
    text = "\n".join(render_text(check_images(tmp_path, frames="volume")))
    assert "4 NIfTI files are read as volumes, each as one image" in text
    assert "sizes (width x height x depth): 1\n  10 x 12 x 9, grey: 4" in text
    assert "1 further volume of 1 file was not looked at" in text  # the second volume of d
    assert "equal images: 1 set" in text
    of_slices = "\n".join(render_text(check_images(tmp_path)))
    assert "sizes (width x height): 1\n  10 x 12, grey: 4" in of_slices
    assert "--frames volume" in of_slices


def test_images_that_are_no_volumes_are_refused_by_name(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(
        InputError, match=r"frames volume reads a folder of NIfTI files.*1 of 1 images are none \(a.png"
    ):
        load_manifest(tmp_path, FULL)
    with pytest.raises(InputError, match="frames volume reads"):
        load_manifest("digits", FULL)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"size": 7}, "a volume has at least 8 voxels a side"),
        ({"slice_plane": "coronal"}, "slice_plane coronal is for slices"),
        ({"resize": "pad"}, "resize pad is for slices"),
        ({"channels": 3}, "channels 3 is for slices"),
    ],
)
def test_settings_of_slices_are_refused(settings: dict, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        ImageOptions(frames="volume", **settings).validate()


def test_the_shared_functional_groups_give_the_direction_of_frames(tmp_path: Path) -> None:
    along_row, along_column = DIRECTIONS["sagittal"]
    stored = _seen(BODY)[:, ::-1].transpose(1, 2, 0)[
        :, ::-1
    ]  # [right to left reversed = left.., head to feet, to back]
    plane = with_elements(ImageOrientationPatient=[float(v) for v in (*along_row, *along_column)])
    groups = [with_elements(PlaneOrientationSequence=[plane])]
    data = dicom(np.ascontiguousarray(stored.astype(np.uint16)), bits=12, PatientID="A", SeriesInstanceUID="1.2.3")
    data.SharedFunctionalGroupsSequence = groups
    save(data, tmp_path / "IM1")
    volume = read_image(tmp_path / "IM1", member="volume", window="full", depth=16)
    np.testing.assert_array_equal(volume, np.rint(_seen(BODY) / 4095 * 65535))
