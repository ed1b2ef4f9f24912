"""Arrays as sources: MedMNIST's layout and others, partners beside, several findings; the real files."""

import struct
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (12, 4, 4), dtype=np.uint8)
LABELS = np.arange(12).reshape(-1, 1) % 3


def _row(manifest: Manifest, row: int) -> np.ndarray:
    at = manifest.table.iloc[row]
    return read_image(manifest.file(row), member=at["member"], frame=int(at["frame"]))[..., 0]


def test_the_layout_of_medmnist(tmp_path: Path) -> None:
    parts = {"train": slice(0, 6), "val": slice(6, 8), "test": slice(8, 12)}
    arrays = {f"{s}_{k}": v[rows] for s, rows in parts.items() for k, v in (("images", IMAGES), ("labels", LABELS))}
    np.savez_compressed(tmp_path / "set.npz", **arrays)
    manifest = load_manifest(tmp_path / "set.npz")
    assert manifest.images.tolist()[:2] == ["train/0", "train/1"]
    assert manifest.splits is not None
    assert Counter(manifest.splits) == {"train": 6, "val": 2, "test": 4}
    assert manifest.labels.tolist() == [str(v) for v in LABELS.ravel()]
    for row in (0, 5, 6, 11):
        np.testing.assert_array_equal(_row(manifest, row), IMAGES[row])


@pytest.mark.parametrize(
    "names", [("x_train", "y_train", "x_test", "y_test"), ("TRAIN_X", "TRAIN_Y", "TEST_X", "TEST_Y")]
)
def test_the_names_of_keras(tmp_path: Path, names: tuple[str, ...]) -> None:
    values = (IMAGES[:8], LABELS[:8, 0], IMAGES[8:], LABELS[8:, 0])
    np.savez(tmp_path / "set.npz", **dict(zip(names, values, strict=True)))
    manifest = load_manifest(tmp_path / "set.npz")
    assert manifest.splits is not None
    assert Counter(manifest.splits) == {"train": 8, "test": 4}
    assert manifest.labels.tolist() == [str(v) for v in LABELS.ravel()]


@pytest.mark.parametrize("kind", ["npz", "h5"])
def test_plain_arrays_with_groups_and_ids(tmp_path: Path, kind: str) -> None:
    arrays = {
        "images": IMAGES,
        "labels": np.array(["nv", "mél"] * 6),
        "patient_ids": np.arange(12) // 2,
        "ids": np.array([f"i{k}" for k in range(12)]),
    }
    path = tmp_path / f"set.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = [v.encode() for v in values.tolist()] if values.dtype.kind == "U" else values
    manifest = load_manifest(path)
    assert manifest.images.tolist() == arrays["ids"].tolist()
    assert manifest.labels.tolist() == arrays["labels"].tolist()
    assert manifest.groups.tolist() == [str(v) for v in arrays["patient_ids"]]
    assert manifest.splits is None
    np.testing.assert_array_equal(_row(manifest, 7), IMAGES[7])


def test_arrays_that_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", scans=IMAGES, other=IMAGES, dx=LABELS[:, 0], who=np.arange(12) // 3)
    options = ImageOptions(image_column="scans", label_column="dx", group_column="who")
    manifest = load_manifest(tmp_path / "set.npz", options)
    assert manifest.labels.tolist() == [str(v) for v in LABELS.ravel()]
    assert len(set(manifest.groups)) == 4
    with pytest.raises(InputError, match=r"no array of images among .*name one with image_column"):
        load_manifest(tmp_path / "set.npz")
    with pytest.raises(InputError, match=r"unknown array in set.npz: 'scan'. Did you mean 'scans'"):
        load_manifest(tmp_path / "set.npz", ImageOptions(image_column="scan"))


def test_several_findings(tmp_path: Path) -> None:
    marks = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    np.savez(tmp_path / "set.npz", images=IMAGES[:3], labels=marks)
    assert load_manifest(tmp_path / "set.npz").labels.tolist() == ["0|2", "none", "1"]
    np.savez(tmp_path / "bad.npz", images=IMAGES[:3], labels=marks * 0.5)
    with pytest.raises(InputError, match=r"labels of shape \(3, 3\) are neither"):
        load_manifest(tmp_path / "bad.npz")


def test_partners_of_npy_and_idx_files(tmp_path: Path) -> None:
    np.save(tmp_path / "my_images.npy", IMAGES)
    np.save(tmp_path / "my_labels.npy", LABELS)
    np.save(tmp_path / "my_groups.npy", np.arange(12) // 2)
    manifest = load_manifest(tmp_path / "my_images.npy")
    assert manifest.labels.tolist() == [str(v) for v in LABELS.ravel()]
    assert len(set(manifest.groups)) == 6
    np.testing.assert_array_equal(_row(manifest, 11), IMAGES[11])
    content = struct.pack(">BBBBIII", 0, 0, 8, 3, 12, 4, 4) + IMAGES.tobytes()
    write(tmp_path / "t-images-idx3-ubyte", content)
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 12) + LABELS.astype(np.uint8).tobytes()
    write(tmp_path / "t-labels-idx1-ubyte", labels)
    assert load_manifest(tmp_path / "t-images-idx3-ubyte").labels.tolist() == [str(v) for v in LABELS.ravel()]
    np.save(tmp_path / "my_labels.npy", LABELS[:5])
    with pytest.raises(InputError, match="5 values, for 12 images"):
        load_manifest(tmp_path / "my_images.npy")


def test_labels_joined_to_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    table = write(tmp_path / "t.csv", b"id,label,patient\n0,a,p\n11,b,q\n")
    manifest = load_manifest(tmp_path / "x.npy", ImageOptions(labels_csv=table))
    assert manifest.labels.tolist() == ["a", *[""] * 10, "b"]
    assert manifest.groups.tolist()[::11] == ["p", "q"]


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "short.npz", images=IMAGES, labels=LABELS[:5])
    np.savez(tmp_path / "same.npz", images=IMAGES, groups=np.zeros(12))
    np.savez(tmp_path / "volume.npz", images=np.zeros((2, 8, 8, 8), np.uint8))
    np.savez(tmp_path / "ids.npz", images=IMAGES, ids=np.zeros(12))
    np.savez(tmp_path / "none.npz", images=IMAGES[:0])
    write(tmp_path / "broken.npz", b"PK\x03\x04 and then nothing")
    write(tmp_path / "broken.h5", b"\x89HDF\r\n\x1a\n and then nothing")
    write(tmp_path / "broken.npy", b"\x93NUMPY and then nothing")
    np.savez(tmp_path / "pickled.npz", images=IMAGES, labels=np.array([{}] * 12, dtype=object))
    for name, what in [
        ("short.npz", r"the array labels has shape \(5, 1\), for 12 images"),
        ("same.npz", "array of groups is '0' for all 12 images"),
        ("volume.npz", "holds no images"),
        ("ids.npz", "occur more than once"),
        ("none.npz", "no images"),
        ("pickled.npz", "pickled Python objects"),
        ("broken.npz", "broken npz"),
        ("broken.h5", "cannot be read"),
        ("broken.npy", "cannot be read"),
    ]:
        with pytest.raises(InputError, match=what):
            load_manifest(tmp_path / name)


@pytest.mark.parametrize("name", ["a.npy", "a-images-idx3-ubyte"])
def test_images_without_a_pixel_are_refused_before_a_row_is_made_of_each(tmp_path: Path, name: str) -> None:
    if name == "a.npy":
        np.save(tmp_path / name, np.empty((1 << 30, 2, 0), np.uint8))
    else:
        (tmp_path / name).write_bytes(bytes.fromhex("00000803 40000001 00000002 00000000"))
    with pytest.raises(InputError, match="images without a pixel"):
        load_manifest(tmp_path / name)


def test_real_arrays(shared_data: Path) -> None:
    manifest = load_manifest(shared_data / "pneumoniamnist_imbalanced" / "data" / "pneumoniamnist.npz")
    counts = Counter(zip(manifest.splits, manifest.labels, strict=True))  # type: ignore[arg-type]
    assert counts == {
        ("train", "0"): 388,
        ("train", "1"): 3494,
        ("val", "0"): 135,
        ("val", "1"): 389,
        ("test", "0"): 234,
        ("test", "1"): 390,
    }
    mnist = load_manifest(shared_data / "mnist_t10k" / "t10k-images-idx3-ubyte.gz")
    assert (mnist.n, mnist.labels.tolist()[:4]) == (10_000, ["7", "2", "1", "0"])
    for name in ("squeezenet11_features_derived_oihw.npz", "squeezenet_weights_tf_dim_ordering_tf_kernels_notop.h5"):
        with pytest.raises(InputError, match="no array of images"):
            load_manifest(shared_data / "weights_squeezenet_imagenet" / name)


def test_a_named_array_is_the_split_as_the_help_promises(tmp_path):
    splits = np.array(["train", "train", "validation", "test"])
    np.savez(tmp_path / "a.npz", images=np.arange(16, dtype=np.uint8).reshape(4, 2, 2), part=splits)
    assert load_manifest(tmp_path / "a.npz").splits is None
    manifest = load_manifest(tmp_path / "a.npz", ImageOptions(split_column="part"))
    assert manifest.splits is not None
    assert manifest.splits.tolist() == ["train", "train", "val", "test"]
    with pytest.raises(InputError, match="fold"):
        load_manifest(tmp_path / "a.npz", ImageOptions(split_column="fold"))
    np.save(tmp_path / "a.npy", np.zeros((4, 2, 2), np.uint8))
    with pytest.raises(InputError, match=r"holds one array, and split_column names another: give an npz"):
        load_manifest(tmp_path / "a.npy", ImageOptions(split_column="part"))
