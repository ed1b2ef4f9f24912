"""CIFAR-10's binary version by path."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.arrays import CIFAR10
from memorisk.images.readers.records import count_frames as count_records
from memorisk.images.readers.registry import CIFAR10_RECORDS, count_frames, read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.official_trees import CIFAR_FILES, cifar, cifar_arrays, notes_of, rows_of


def _pixels(manifest: Manifest) -> np.ndarray:
    return build_store(manifest, ImageOptions()).images


def test_it_reads_as_it_was_written(tmp_path: Path) -> None:
    arrays = [cifar_arrays(file) for file in CIFAR_FILES]
    labels = np.concatenate([labels for _, labels in arrays])
    manifest = load_manifest(f"cifar10:{cifar(tmp_path / 'cifar-10-batches-bin')}")
    ids = [*(f"train/{i:05d}" for i in range(10)), *(f"test/{i:05d}" for i in range(3))]
    named = [CIFAR10.classes[label] for label in labels]
    assert rows_of(manifest, "image", "label", "group", "split") == list(
        zip(ids, named, ids, ["train"] * 10 + ["test"] * 3, strict=True)
    )
    assert rows_of(manifest, "path", "member", "frame")[3] == ("data_batch_2.bin", CIFAR10_RECORDS, 1)
    np.testing.assert_array_equal(_pixels(manifest), np.concatenate([pixels for pixels, _ in arrays]))
    assert "13 images are here; the official release has 60,000." in manifest.notes
    deep = read_image(manifest.file(12), member=CIFAR10_RECORDS, frame=2, depth=16)
    np.testing.assert_array_equal(deep, arrays[-1][0][2].astype(np.uint16) * 257)


def test_the_first_bytes_of_a_batch_decide_nothing(tmp_path: Path) -> None:
    """A label and pixels may look like any format: what the row says goes before."""
    for head in (b"\0\0\x08\x01\0\0", b"\x02\0\0\0\x04\0\0\0", b"\0\xff\xd8\xff", b"\x08\0OBOB"):
        batch = head + bytes(3073 - len(head))
        write(cifar(tmp_path) / "data_batch_1.bin", batch)
        manifest = load_manifest(f"cifar10:{tmp_path}")
        expected = np.moveaxis(np.frombuffer(batch[1:], np.uint8).reshape(3, 32, 32), 0, -1)
        image = read_image(manifest.file(0), member=CIFAR10_RECORDS, frame=0)
        np.testing.assert_array_equal(image, expected)


def test_one_part_alone_is_read_and_said(tmp_path: Path) -> None:
    root = cifar(tmp_path)
    (root / "test_batch.bin").unlink()
    (root / "batches.meta.txt").unlink()
    manifest = load_manifest(f"cifar10:{root}")
    assert (manifest.n, set(manifest.table["split"])) == (10, {"train"})
    assert "No test_batch.bin is there: the official test part is not read." in manifest.notes
    (root / "data_batch_3.bin").unlink()
    with pytest.raises(InputError, match=r"lacks data_batch_3\.bin of the five batches .*; unpack cifar-10-binary"):
        load_manifest(f"cifar10:{root}")
    cifar(root)
    for k in range(1, 6):
        (root / f"data_batch_{k}.bin").unlink()
    manifest = load_manifest(f"cifar10:{root}")
    assert manifest.images.tolist() == ["test/00000", "test/00001", "test/00002"]
    assert "data_batch_5.bin is there: the official train part is not read" in notes_of(manifest)


def test_the_python_version_is_refused_unread(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harmed",))

    folder = tmp_path / "archive/cifar-10-batches-py"
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"):
        write(folder / name, pickle.dumps(Harm()))
    for named in (folder, tmp_path):
        with pytest.raises(InputError, match=r"holds the Python version, whose files are pickled .* binary version"):
            load_manifest(f"cifar10:{named}")
    assert not (tmp_path / "harmed").exists()
    cifar(tmp_path / "archive/cifar-10-batches-bin")
    assert load_manifest(f"cifar10:{tmp_path}").n == 13, "the binary version beside it is read"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("test_batch.bin", bytes(3072), r"test_batch\.bin: has 3,072 bytes, no multiple of the 3,073 of a record"),
        (
            "data_batch_5.bin",
            bytes(2 * 3074),
            r"has 6,148 bytes, no multiple .*; it is cut off or another file",
        ),
        ("data_batch_1.bin", b"", r"has 0 bytes, no multiple"),
        ("data_batch_2.bin", bytes(3073) + b"\x0a" + bytes(3072), r"has the label 10 in record 1; those of CIFAR-10"),
        ("batches.meta.txt", b"apple\naquarium_fish\n", r"names apple, aquarium_fish, not airplane, automobile"),
        ("batches.meta.txt", b"\xff\xfe" * 9000, r"batches\.meta\.txt names "),
        ("batches.meta.txt", b"", r"names nothing, not airplane"),
    ],
)
def test_files_that_do_not_fit_get_one_line(file: str, content: bytes, said: str, tmp_path: Path) -> None:
    write(cifar(tmp_path) / file, content)
    with pytest.raises(InputError, match=said) as caught:
        load_manifest(f"cifar10:{tmp_path}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_records_that_are_not_there(tmp_path: Path) -> None:
    path = cifar(tmp_path) / "test_batch.bin"
    assert count_records(path) == 3
    for frame in (None, -1, 3):
        with pytest.raises(InputError, match=f"has images 0 to 2, not {frame}"):
            read_image(path, member=CIFAR10_RECORDS, frame=frame)
    with pytest.raises(InputError, match="max_pixels"):
        read_image(path, member=CIFAR10_RECORDS, frame=0, max_pixels=1000)
    with pytest.raises(InputError, match="the file does not exist"):
        read_image(tmp_path / "absent.bin", member=CIFAR10_RECORDS, frame=0)
    write(path, b"\x01" + bytes(99))
    with pytest.raises(InputError, match="not an image of a known kind"):
        count_frames(path)


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    root = cifar(tmp_path / "set")
    (root / "test_batch.bin").rename(tmp_path / "test_batch.bin")
    (root / "test_batch.bin").symlink_to(tmp_path / "test_batch.bin")
    with pytest.raises(InputError, match=r"1 path leads out of the folder \(test_batch\.bin\)"):
        load_manifest(f"cifar10:{root}")
    assert load_manifest(f"cifar10:{root}", ImageOptions(follow_links=True)).n == 13
