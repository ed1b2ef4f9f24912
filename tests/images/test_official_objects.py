"""CIFAR-100, STL-10 and SVHN as published, against what torchvision's own loaders make of the same bytes."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.official_trees_objects import cifar100, stl10, svhn, values


def pixels(manifest: Manifest, tmp_path: Path) -> np.ndarray:
    return build_store(manifest, ImageOptions(store=tmp_path / "cache")).images


def test_cifar100(tmp_path: Path) -> None:
    root = cifar100(tmp_path / "cifar-100-binary")
    manifest = load_manifest(f"cifar100:{tmp_path}")
    wanted = np.concatenate([values(0, 6, 3072), values(1, 3, 3072)]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(pixels(manifest, tmp_path), wanted)
    assert manifest.labels.tolist()[:3] == ["0", "10", "20"]
    write(root / "fine_label_names.txt", "\n".join(f"f{i}" for i in range(100)).encode())
    write(root / "coarse_label_names.txt", "\n".join(f"c{i}" for i in range(20)).encode())
    named = load_manifest(f"cifar100:{root}")
    assert named.labels.tolist() == ["f0", "f10", "f20", "f30", "f40", "f50", "f0", "f10", "f20"]
    assert named.table["coarse"].tolist()[1] == "c1"
    assert named.images.tolist()[-1] == "test/00002"
    write(root / "fine_label_names.txt", b"one two")
    with pytest.raises(InputError, match=r"names 2 classes .*, not 100"):
        load_manifest(f"cifar100:{root}")
    (root / "fine_label_names.txt").unlink()
    write(root / "train.bin", b"x" * 4000)
    with pytest.raises(InputError, match="no multiple of the 3,074 of a record of CIFAR-100"):
        load_manifest(f"cifar100:{root}")


def test_stl10(tmp_path: Path) -> None:
    data = values(0, 4, 3, 96, 96)
    stl10(tmp_path)
    manifest = load_manifest(f"stl10:{tmp_path}")
    torchvisions = np.transpose(data, (0, 1, 3, 2))  # [n, c, h, w], as torchvision.datasets.STL10 turns it
    assert np.array_equal(pixels(manifest, tmp_path), np.moveaxis(torchvisions, 1, -1))
    assert manifest.labels.tolist() == ["airplane", "truck", "car", "bird"]
    assert any("unlabeled_X.bin" in note for note in manifest.notes)
    for labels, what in ((bytes([1, 2]), "2 labels, for 4 images"), (bytes([1, 2, 3, 11]), "the label 10, of 10")):
        write(tmp_path / "train_y.bin", labels)
        with pytest.raises(InputError, match=what):
            load_manifest(f"stl10:{tmp_path}")


def test_svhn(tmp_path: Path) -> None:
    data = values(0, 32, 32, 3, 5)
    svhn(tmp_path)
    manifest = load_manifest(f"svhn:{tmp_path}")
    assert manifest.labels.tolist() == ["0", "1", "2", "9", "1"]
    assert np.array_equal(pixels(manifest, tmp_path), np.moveaxis(data, 3, 0))
    whole = (tmp_path / "train_32x32.mat").read_bytes()
    savemat(tmp_path / "test_32x32.mat", {"X": data[..., 0], "y": np.ones((5, 1))})
    with pytest.raises(InputError, match=r"test_32x32\.mat: holds .*none of SVHN's"):
        load_manifest(f"svhn:{tmp_path}")
    (tmp_path / "test_32x32.mat").unlink()
    for broken in (whole[:300], b"", b"MATLAB" * 50):
        write(tmp_path / "train_32x32.mat", broken)
        with pytest.raises(InputError) as error:
            load_manifest(f"svhn:{tmp_path}")
        assert "\n" not in str(error.value)


def test_pickles_are_refused_with_the_way_out(tmp_path: Path) -> None:
    python = tmp_path / "cifar-100-python"
    python.mkdir()
    for name in ("train", "test", "meta"):
        write(python / name, b"\x80\x02}q\x01.")
    for source in (f"cifar100:{tmp_path}", f"cifar100:{python}", str(tmp_path), str(python)):
        with pytest.raises(InputError, match=r"pickled.*binary version.*memorisk\.save_dataset"):
            load_manifest(source)
    other = tmp_path / "stl"
    other.mkdir()
    write(other / "train_X.bin", b"x")
    with pytest.raises(InputError, match=r"no images in this folder .*; is it stl10:FOLDER\?"):
        load_manifest(other)
