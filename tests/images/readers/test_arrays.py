"""Arrays: one image of many, the same from npy, npz, HDF5 and idx, with greys by the range of the whole array."""

import gzip
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from memorisk.images.readers.registry import count_frames, read_image
from memorisk.runs.errors import InputError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (9, 6, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (9, 6, 7, 3), dtype=np.uint8)


def _stored(folder: Path, values: np.ndarray) -> list[tuple[Path, str | None]]:
    """The same array in every kind of file."""
    np.save(folder / "a.npy", values)
    np.savez(folder / "plain.npz", images=values, labels=np.zeros(len(values)))
    np.savez_compressed(folder / "packed.npz", images=values, labels=np.zeros(len(values)))
    np.savez_compressed(folder / "fortran.npz", images=np.asfortranarray(values), labels=np.zeros(3))
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("scan/images", data=values, chunks=(2, *values.shape[1:]), compression="gzip")
        file["labels"] = np.zeros(len(values))
    return [
        (folder / "a.npy", None),
        (folder / "plain.npz", "images"),
        (folder / "packed.npz", "images"),
        (folder / "fortran.npz", "images"),
        (folder / "a.h5", "scan/images"),
    ]


@pytest.mark.parametrize("values", [GREY, COLOUR], ids=["grey", "colour"])
def test_every_container_gives_the_same_image_in_any_order(tmp_path: Path, values: np.ndarray) -> None:
    for path, member in _stored(tmp_path, values):
        for index in (3, 4, 8, 0, 7, 7, 2):  # on, back, again
            image = read_image(path, member=member, frame=index)
            np.testing.assert_array_equal(image, values[index].reshape(*values.shape[1:3], -1), err_msg=path.name)


def test_channels_first_and_alpha(tmp_path: Path) -> None:
    np.save(tmp_path / "first.npy", np.moveaxis(COLOUR, -1, 1))
    np.testing.assert_array_equal(read_image(tmp_path / "first.npy", frame=5), COLOUR[5])
    rgba = RNG.integers(0, 256, (2, 4, 5, 4), dtype=np.uint8)
    rgba[..., 3] = RNG.choice([0, 90, 100, 255], (2, 4, 5))
    np.save(tmp_path / "alpha.npy", rgba)
    product = rgba[1, ..., :3].astype(int) * rgba[1, ..., 3:].astype(int)
    np.testing.assert_array_equal(read_image(tmp_path / "alpha.npy", frame=1), (2 * product + 255) // 510)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_a_fourth_modality_is_not_taken_for_alpha(tmp_path: Path, kind: type) -> None:
    largest = 1 if kind is np.float32 else np.iinfo(kind).max
    scans = (RNG.random((2, 16, 16, 4)) * largest).astype(kind)
    np.save(tmp_path / "scans.npy", scans)
    with pytest.raises(InputError, match=r"fourth channel of image 0 holds a picture.*three channels, or one of"):
        read_image(tmp_path / "scans.npy", frame=0)
    np.save(tmp_path / "one.npy", scans[..., 3])
    assert read_image(tmp_path / "one.npy", frame=0).shape == (16, 16, 1)


def test_a_mask_with_soft_edges_is_alpha(tmp_path: Path) -> None:
    rows, columns = np.mgrid[:28, :28] - 13.5
    alpha = np.clip(255 * (13 - np.hypot(rows, columns)), 0, 255).astype(np.uint8)
    image = np.dstack([np.full((28, 28, 3), 200, np.uint8), alpha])
    np.save(tmp_path / "masked.npy", image[None])
    assert read_image(tmp_path / "masked.npy", frame=0).max() == 200


def test_idx_plain_and_gzipped(tmp_path: Path) -> None:
    content = struct.pack(">BBBBIII", 0, 0, 8, 3, *GREY.shape) + GREY.tobytes()
    (tmp_path / "a-images-idx3-ubyte").write_bytes(content)
    (tmp_path / "a-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
    for path in sorted(tmp_path.iterdir()):
        assert count_frames(path) == 9
        np.testing.assert_array_equal(read_image(path, frame=8)[..., 0], GREY[8])
    (tmp_path / "cut").write_bytes(content[:-1])
    with pytest.raises(InputError, match="ends within the array"):
        read_image(tmp_path / "cut", frame=0)


def _by_hand(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.rint(np.clip((values.astype(float) - low) / (high - low), 0, 1) * 255)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (RNG.random((4, 5, 6)), 0, 1),
        (RNG.random((4, 5, 6)).astype(np.float32) * 0.2, 0, 1),
        (RNG.integers(0, 256, (4, 5, 6)), 0, 255),
        (RNG.integers(0, 256, (4, 5, 6)).astype(np.float32), 0, 255),
        (RNG.integers(0, 2, (4, 5, 6)).astype(bool), 0, 1),
        (np.r_[RNG.integers(0, 4000, 119), 4000].reshape(4, 5, 6).astype(np.uint16), 0, 4095),
        (np.r_[RNG.integers(0, 60000, 119), 60000].reshape(4, 5, 6).astype(np.uint16), 0, 65535),
        (np.r_[-1000, RNG.integers(-999, 2999, 118), 3000].reshape(4, 5, 6).astype(np.int16), -1000, 3000),
        (np.r_[-1.0, RNG.random(118), 1.0].reshape(4, 5, 6), -1, 1),
    ],
    ids=["unit", "dark unit", "int 255", "float 255", "bool", "12 bits", "16 bits", "signed", "float"],
)
def test_greys_go_by_the_whole_array(tmp_path: Path, values: np.ndarray, low: float, high: float) -> None:
    for path, member in _stored(tmp_path, values):
        for index in range(4):
            image = read_image(path, member=member, frame=index)
            np.testing.assert_array_equal(image[..., 0], _by_hand(values[index], low, high), err_msg=path.name)


def test_windows_that_are_asked_for(tmp_path: Path) -> None:
    values = np.r_[RNG.integers(0, 4000, 119), 4000].reshape(4, 5, 6).astype(np.uint16)
    np.save(tmp_path / "a.npy", values)
    full = read_image(tmp_path / "a.npy", frame=2, window="full", depth=16)
    np.testing.assert_array_equal(full[..., 0], values[2])
    low, high = np.percentile(values, 0.5), np.percentile(values, 99.5)
    shown = read_image(tmp_path / "a.npy", frame=2, window="percentile")
    np.testing.assert_array_equal(shown[..., 0], _by_hand(values[2], low, high))


class _Payload:
    def __reduce__(self) -> tuple:
        return os.system, ("touch memorisk-was-here",)


def test_pickled_objects_are_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    payload = np.array([_Payload(), _Payload()], dtype=object)
    np.save(tmp_path / "a.npy", payload, allow_pickle=True)
    np.savez(tmp_path / "a.npz", images=payload)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(payload))
    for name in ("a.npy", "a.npz", "b.npy"):
        with pytest.raises(InputError, match=r"pickled|known kind"):
            read_image(tmp_path / name, frame=0)
    assert not (tmp_path / "memorisk-was-here").exists()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=GREY, other=GREY, volume=np.zeros((2, 8, 8, 8), np.uint8))
    np.savez(tmp_path / "text.npz", images=np.array(["a", "b"]))
    for name, options, what in [
        ("a.npz", {"frame": 0}, "holds 3 arrays .*name one"),
        ("a.npz", {"member": "image", "frame": 0}, "Did you mean 'images'"),
        ("a.npz", {"member": "images", "frame": 9}, "images 0 to 8, not 9"),
        ("a.npz", {"member": "images"}, "images 0 to 8, not None"),
        ("a.npz", {"member": "images", "frame": -1}, "images 0 to 8, not -1"),
        ("a.npz", {"member": "volume", "frame": 0}, r"shape \(2, 8, 8, 8\) holds no images"),
        ("a.npz", {"member": "images", "frame": 0, "max_pixels": 41}, "more than the 41 allowed"),
        ("text.npz", {"frame": 0}, "are no pixels"),
    ]:
        with pytest.raises(InputError, match=what):
            read_image(tmp_path / name, **options)


def test_a_header_that_promises_more_than_the_file_holds(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 28, 28)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", header.getvalue() + bytes(28 * 28))
    with pytest.raises(InputError, match="more than the file holds"):
        read_image(tmp_path / "a.npz", member="images", frame=5)
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with pytest.raises(InputError, match="cannot be read"):
        read_image(tmp_path / "a.npy", frame=0)


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", images=GREY)
    first = read_image(tmp_path / "a.npz", frame=1)
    np.savez_compressed(tmp_path / "a.npz", images=255 - GREY)
    os.utime(tmp_path / "a.npz", ns=(1, 1))
    np.testing.assert_array_equal(read_image(tmp_path / "a.npz", frame=1), 255 - first)


def test_hdf5_never_leads_to_other_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["images"] = GREY
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("secret.h5", "images")
        layout = h5py.VirtualLayout(shape=GREY.shape, dtype=np.uint8)
        layout[...] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "images", shape=GREY.shape)
        file.create_virtual_dataset("virtual", layout)
        file["group/loop"] = file["/"]
        file["group/own"] = GREY
    np.testing.assert_array_equal(read_image(tmp_path / "a.h5", frame=0)[..., 0], GREY[0])
    for member in ("linked", "virtual"):
        with pytest.raises(InputError, match="unknown array"):
            read_image(tmp_path / "a.h5", member=member, frame=0)


def test_real_arrays(shared_data: Path) -> None:
    npz = shared_data / "pneumoniamnist_imbalanced" / "data" / "pneumoniamnist.npz"
    with np.load(npz, allow_pickle=False) as arrays:
        images = arrays["val_images"]
    for index in (0, 500, 523):
        np.testing.assert_array_equal(read_image(npz, member="val_images", frame=index)[..., 0], images[index])
    idx = shared_data / "mnist_t10k" / "t10k-images-idx3-ubyte.gz"
    raw = gzip.decompress(idx.read_bytes())
    expected = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)
    np.testing.assert_array_equal(read_image(idx, frame=9999)[..., 0], expected[9999])
