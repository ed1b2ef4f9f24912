"""MNIST and Fashion-MNIST by path."""

import gzip
import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.mnist import FASHION_MNIST_CLASSES
from memorisk.images.readers.idx import open_idx
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.official_trees import idx, mnist, mnist_arrays, notes_of, rows_of


def _pixels(manifest: Manifest) -> np.ndarray:
    return build_store(manifest, ImageOptions()).images[..., 0]


def _expected() -> tuple[np.ndarray, np.ndarray]:
    (train, train_labels), (test, test_labels) = mnist_arrays("train"), mnist_arrays("t10k")
    return np.concatenate([train, test]), np.concatenate([train_labels, test_labels])


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
def test_every_spelling_reads_as_it_was_written(dotted: bool, gzipped: bool, tmp_path: Path) -> None:
    pixels, labels = _expected()
    root = mnist(tmp_path / "MNIST/raw", dotted=dotted, gzipped=gzipped)
    digits = load_manifest(f"mnist:{root}")
    ids = [*(f"train/{i:05d}" for i in range(5)), *(f"test/{i:05d}" for i in range(3))]
    splits = ["train"] * 5 + ["test"] * 3
    assert rows_of(digits, "image", "label", "group", "split") == list(
        zip(ids, map(str, labels), ids, splits, strict=True)
    )
    assert digits.table["frame"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    np.testing.assert_array_equal(_pixels(digits), pixels)
    assert not digits.groups_given
    assert "8 images are here; the official release has 70,000." in digits.notes
    clothes = load_manifest(f"fashion-mnist:{tmp_path}")
    assert clothes.labels.tolist() == [FASHION_MNIST_CLASSES[label] for label in labels]
    assert "found in the folder MNIST/raw below" in clothes.notes[0]
    np.testing.assert_array_equal(_pixels(clothes), pixels)


def test_packed_and_unpacked_side_by_side(tmp_path: Path) -> None:
    """As torchvision leaves them: the unpacked ones are read."""
    mnist(mnist(tmp_path), gzipped=True)
    manifest = load_manifest(f"mnist:{tmp_path}")
    assert set(manifest.table["path"]) == {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"}
    assert "Read: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images" in notes_of(manifest)


def test_rows_in_any_order_and_a_sample(tmp_path: Path) -> None:
    manifest = load_manifest(f"mnist:{mnist(tmp_path, gzipped=True)}")
    order = [7, 0, 4, 2, 6, 1]
    np.testing.assert_array_equal(_pixels(manifest.subset(order)), _expected()[0][order])
    assert load_manifest(f"mnist:{tmp_path}", ImageOptions(sample=3)).n == 3


def test_one_part_alone_is_read_and_said(tmp_path: Path) -> None:
    root = mnist(tmp_path)
    (root / "train-images-idx3-ubyte").unlink()
    manifest = load_manifest(f"mnist:{root}")
    assert set(manifest.table["split"]) == {"test"}
    assert (
        "No train-images-idx3-ubyte is there; train-labels-idx1-ubyte lies there without them: the official train "
        "part is not read." in manifest.notes
    )
    (root / "train-labels-idx1-ubyte").unlink()
    assert "No train-images-idx3-ubyte is there: the official train part" in notes_of(load_manifest(f"mnist:{root}"))
    (root / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte has no labels next to it; put t10k-labels-idx1-ub"):
        load_manifest(f"mnist:{root}")
    (root / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match=r"does not hold train-images-idx3-ubyte\(\.gz\) or t10k-images-idx3-ubyte"):
        load_manifest(f"mnist:{root}")


IMAGES, LABELS = mnist_arrays("train")
BROKEN = {
    "truncated": ("images", idx(IMAGES)[:-1], r"ends within the array \(its header declares 5 x 28 x 28, 3,920 bytes"),
    "longer": ("images", idx(IMAGES) + b"\0", r"continues after the array .* and more are there\)"),
    "labels as images": ("images", idx(LABELS), r"declares 1 dimensions of uint8, not the 3 .* \(magic number 2051\)"),
    "images as labels": ("labels", idx(IMAGES), r"declares 3 dimensions of uint8, not the 1 .* \(magic number 2049\)"),
    "another type": ("images", b"\0\0\x0d\3" + idx(IMAGES)[4:], "declares 3 dimensions of float32"),
    "wrong magic": ("images", b"<html>" + idx(IMAGES), r"does not begin as an idx file does \(3c 68 74 6d\)"),
    "an unknown type": ("images", b"\0\0\7\3" + idx(IMAGES)[4:], "does not begin as an idx file does"),
    "header cut": ("images", idx(IMAGES)[:9], "does not begin as an idx file does"),
    "empty": ("labels", b"", "does not begin as an idx file does"),
    "huge": ("images", struct.pack(">BBBBIII", 0, 0, 8, 3, *[2**32 - 1] * 3), r"a decompression bomb|not 28 x 28"),
    "other sides": ("images", idx(IMAGES[:, :14]), "holds images of 14 x 28 pixels, not 28 x 28"),
    "a label above 9": ("labels", idx(np.array([1, 2, 10, 3, 11])), "has the label 10 for image 2; those of mnist are"),
    "fewer labels": ("labels", idx(LABELS[:4]), r"has 4 labels for the 5 images of train-images"),
    "no images": ("images", idx(IMAGES[:0]), r"has 5 labels for the 0 images of train-images"),
}


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_get_one_line(what: str, gzipped: bool, tmp_path: Path) -> None:
    kind, content, said = BROKEN[what]
    root = mnist(tmp_path, gzipped=gzipped)
    name = "train-images-idx3-ubyte" if kind == "images" else "train-labels-idx1-ubyte"
    write(root / (f"{name}.gz" if gzipped else name), gzip.compress(content) if gzipped else content)
    with pytest.raises(InputError, match=said) as caught:
        load_manifest(f"mnist:{root}")
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:-20], "a broken gzip file .* get it anew"),
        (lambda packed: packed[:12], "a broken gzip file .* get it anew"),
        (lambda packed: packed[:-8] + b"\0" * 4 + packed[-4:], r"a broken gzip file \(CRC check failed"),
        (lambda packed: packed[:60] + b"\xff" * 60 + packed[120:], "a broken gzip file .* get it anew"),
    ],
)
def test_broken_gzip_gets_one_line(damage, said: str, tmp_path: Path) -> None:
    path = mnist(tmp_path, gzipped=True) / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=said):
        load_manifest(f"mnist:{tmp_path}")


def test_a_gzip_bomb_is_read_no_further_than_declared(tmp_path: Path) -> None:
    path = write(tmp_path / "bomb.gz", gzip.compress(idx(IMAGES) + bytes(50_000_000)))
    tracemalloc.start()
    with pytest.raises(InputError, match="continues after the array"):
        open_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_the_two_data_sets_are_told_apart_by_their_counts(tmp_path: Path) -> None:
    """Ten thousand images with a thousand of each class are Fashion-MNIST's; with one more and one less, MNIST's."""
    labels = np.repeat(np.arange(10), 1000)
    write(tmp_path / "t10k-images-idx3-ubyte", idx(np.zeros((10_000, 28, 28), np.uint8)))
    write(tmp_path / "t10k-labels-idx1-ubyte", idx(labels))
    assert load_manifest(f"fashion-mnist:{tmp_path}").n == 10_000
    with pytest.raises(InputError, match=r"mnist: .* has equally many of each class, as fashion-mnist and not mnist"):
        load_manifest(f"mnist:{tmp_path}")
    labels[0] = 1
    write(tmp_path / "t10k-labels-idx1-ubyte", idx(labels))
    assert load_manifest(f"mnist:{tmp_path}").n == 10_000
    with pytest.raises(InputError, match=re.escape("give mnist:FOLDER if that is meant")):
        load_manifest(f"fashion-mnist:{tmp_path}")


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    elsewhere, root = mnist(tmp_path / "elsewhere"), tmp_path / "set"
    root.mkdir()
    for file in elsewhere.iterdir():
        (root / file.name).symlink_to(file)
    with pytest.raises(InputError, match=r"2 paths lead out of the folder .* follow_links accepts them"):
        load_manifest(f"mnist:{root}")
    assert load_manifest(f"mnist:{root}", ImageOptions(follow_links=True)).n == 8


def test_the_real_test_part(shared_data: Path) -> None:
    folder = shared_data / "mnist_t10k"
    if not folder.is_dir():
        pytest.skip("MNIST is not among the real image sets here")
    manifest = load_manifest(f"mnist:{folder}")
    raw = np.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:], np.uint8)
    counts = [int((manifest.labels == str(digit)).sum()) for digit in range(10)]
    assert (manifest.n, counts) == (10_000, np.bincount(raw).tolist())
    assert "train-labels-idx1-ubyte.gz lies there without them" in manifest.notes[0]
    pixels = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())[16:], np.uint8)
    rows = [9_999, 0, 5_000]
    np.testing.assert_array_equal(_pixels(manifest.subset(rows)), pixels.reshape(-1, 28, 28)[rows])
    assert read_image(folder / "t10k-images-idx3-ubyte.gz", frame=17).shape == (28, 28, 1)
