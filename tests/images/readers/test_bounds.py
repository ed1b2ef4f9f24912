"""What a file may declare: held against the file before memory is allocated, and the values that are no pixels."""

import gzip
import os
import struct
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from memorisk.images import file_hashes
from memorisk.images.columns import read_csv, read_described
from memorisk.images.layouts.files import walk_files
from memorisk.images.options import ImageOptions
from memorisk.images.readers.limits import FREE_PIXELS, check_count, check_size
from memorisk.images.readers.registry import count_frames, read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs import size_limits
from memorisk.runs.errors import InputError
from memorisk.runs.size_limits import MAX_COLUMNS, GzipStream, check_archive, check_table, check_unpacked

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 4, 5), dtype=np.uint8)


def test_a_size_is_held_against_the_pixels_allowed_and_the_bytes_stored() -> None:
    path = Path("x.png")
    check_size(path, 4096, 4096, FREE_PIXELS, stored=1)  # small images may be as empty as they like
    check_size(path, 8192, 8192, 10**8, stored=8192 * 8192 // 100 + 1)
    with pytest.raises(InputError, match=r"more than 100 for each byte .*bomb"):
        check_size(path, 8192, 8192, 10**8, stored=8192 * 8192 // 100 - 1)
    with pytest.raises(InputError, match="more than the 100 allowed"):
        check_size(path, 101, 1, 100)
    with pytest.raises(InputError, match="declares 0 x 5 pixels"):
        check_size(path, 0, 5, 100)


def test_bytes_cells_and_images_are_held_against_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(10))
    check_unpacked(path, "it", size_limits.FREE_BYTES, 1)
    check_unpacked(path, "it", size_limits.FREE_BYTES * 10, size_limits.FREE_BYTES // 10 + 1)
    with pytest.raises(InputError, match="bomb"):
        check_unpacked(path, "it", size_limits.FREE_BYTES + 1, 10)
    with zipfile.ZipFile(path.with_suffix(".npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10_000))
    check_archive(path.with_suffix(".npz"))
    check_table(path, 10, MAX_COLUMNS, 10)
    with pytest.raises(InputError, match="32,769 columns, more than"):
        check_table(path, 1, MAX_COLUMNS + 1, 10**9)
    with pytest.raises(InputError, match="the table of 100,000,000 x 2 cells"):
        check_table(path, 10**8, 2, 10**6)
    check_count(path, 10, "frames")
    with pytest.raises(InputError, match="declares 11 frames, and the file has 10 bytes"):
        check_count(path, 11, "frames")


@pytest.mark.parametrize("read", ["read", "read1", "seek", "all"])
def test_gzip_ends_where_it_may_go_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    monkeypatch.setattr(size_limits, "FREE_BYTES", 1000)
    content = RNG.integers(0, 256, 5000, dtype=np.uint8).tobytes()
    (tmp_path / "sound.gz").write_bytes(gzip.compress(content, mtime=0))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(1_000_000), mtime=0))
    with GzipStream(tmp_path / "sound.gz") as stream:
        assert stream.read() == content
        stream.seek(10)
        assert stream.read(5) == content[10:15]
    ways = {
        "read": lambda s: s.read(999_999),
        "read1": lambda s: [s.read1(8192) for _ in range(200)],
        "seek": lambda s: s.seek(999_999),
        "all": lambda s: s.read(),
    }
    with GzipStream(tmp_path / "bomb.gz") as stream, pytest.raises(InputError, match="decompression bomb"):
        ways[read](stream)


def test_hdf5_that_was_not_written_in_whole(tmp_path: Path) -> None:
    """A header of 10**9 images took 14 GB and more."""
    for chunks in (None, (64, 28, 28)):
        path = tmp_path / f"{chunks is None}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("images", shape=(10**9, 28, 28), dtype="u1", chunks=chunks)
        with pytest.raises(InputError, match=r"of which 0 of 15,625,000 chunks were|more than were written"):
            load_manifest(path)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("images", shape=PIXELS.shape, dtype="u1", chunks=(1, 4, 5))
        data[:5] = PIXELS[:5]
    with pytest.raises(InputError, match="5 of 6 chunks were written; HDF5 would make up the rest"):
        load_manifest(tmp_path / "x.h5")


def test_an_hdf5_chunk_that_unpacks_to_more_than_its_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorisk.images.readers.arrays.FREE_BYTES", 1_000_000)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("images", shape=PIXELS.shape, dtype="u1", chunks=PIXELS.shape, compression="gzip")
        data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(10_000_000), 9))
    with pytest.raises(InputError, match="unpacks to more than its shape"):
        read_image(tmp_path / "x.h5", member="images", frame=0)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_image_of_an_array_with_values_that_are_no_pixels(tmp_path: Path, suffix: str, value: float) -> None:
    values = PIXELS.astype(np.float32)
    values[2, 3, 4] = value
    path = tmp_path / f"x{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".npz":
        np.savez(path, images=values)
    else:
        with h5py.File(path, "w") as file:
            file["images"] = values
    manifest = load_manifest(path)
    with pytest.raises(InputError, match=r"1 of 6 images cannot be read: .*image 2 holds 1 values that are NaN"):
        build_store(manifest, ImageOptions(store=tmp_path / "store"))
    store = build_store(manifest, ImageOptions(store=tmp_path / "store", skip_unreadable=True))
    assert store.manifest.images.tolist() == ["0", "1", "3", "4", "5"]
    assert store.skipped["image"].tolist() == ["2"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_a_tiff_with_values_that_are_no_pixels(tmp_path: Path, value: float, compression: str | None) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = RNG.random((6, 7)).astype(np.float32)
    tifffile.imwrite(tmp_path / "sound.tif", values, compression=compression)
    assert read_image(tmp_path / "sound.tif").shape == (6, 7, 1)
    values[1, 2] = value
    tifffile.imwrite(tmp_path / "x.tif", values, compression=compression)
    with pytest.raises(InputError, match=r"x\.tif holds 1 values that are NaN or infinite"):
        read_image(tmp_path / "x.tif")


def test_a_volume_of_zeros_that_gzip_packed_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """It took 2.6 GB."""
    nibabel = pytest.importorskip("nibabel")
    head = nibabel.Nifti1Image(np.zeros((2, 2, 2), np.int16), np.eye(4)).to_bytes()[:352]
    head = head[:40] + struct.pack("<4h", 3, 1000, 1000, 500) + head[48:]
    (tmp_path / "x.nii.gz").write_bytes(gzip.compress(head + bytes(10_000_000), mtime=0))
    with pytest.raises(InputError, match="decompression bomb"):
        read_image(tmp_path / "x.nii.gz")
    (tmp_path / "x.nii").write_bytes(head + bytes(1000))
    with pytest.raises(InputError, match="more than the file holds"):
        read_image(tmp_path / "x.nii")


def test_frames_that_no_file_of_its_size_has(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "x.png")
    data = (tmp_path / "x.png").read_bytes()
    chunk = b"acTL" + struct.pack(">II", 2**31 - 1, 0)
    packed = struct.pack(">I", 8) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "x.png").write_bytes(data[:33] + packed + data[33:])
    with pytest.raises(InputError, match="frames, and the file has"):
        count_frames(tmp_path / "x.png")


def test_a_table_of_200_000_columns(tmp_path: Path) -> None:
    """It took 1.5 GB."""
    (tmp_path / "x.csv").write_text(",".join(f"c{k}" for k in range(200_000)) + "\n")
    for read in (read_described, read_csv):
        with pytest.raises(InputError, match="has 200,000 columns, more than the 32,768"):
            read(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b"image,label,label\na,b,c\n"),
        ("x.tsv", b"image\tlabel\timage\na\tb\tc\n"),
        ("x.csv", b'"image",image\na,b\n'),
        ("x.csv", gzip.compress(b"image,image\na,b\n", mtime=0)),
        ("x.jsonl", b'{"image": "a", "image": "b"}\n'),
    ],
)
def test_two_columns_of_one_name(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"several columns are called '(image|label)'|'image' occurs twice"):
        read_described(tmp_path / name)


def test_columns_without_a_name_may_be_several(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("image,label,,\na,b,,\n")  # as spreadsheets write empty columns
    assert read_described(tmp_path / "x.csv")["label"].tolist() == ["b"]


def test_rows_that_are_far_shorter_than_the_header(tmp_path: Path) -> None:
    header = ",".join(f"c{k}" for k in range(30_000))
    (tmp_path / "x.csv").write_text(header + "\n" + "a\n" * 100_000)
    with pytest.raises(InputError, match="100,001 x 30,000 cells"):
        read_described(tmp_path / "x.csv")
    lines = "".join(f'{{"c{k}": 1}}\n' for k in range(20_000))
    (tmp_path / "x.jsonl").write_text(lines)
    with pytest.raises(InputError, match="cells"):
        read_described(tmp_path / "x.jsonl")


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_a_link_to_what_has_no_end(tmp_path: Path, target: str) -> None:
    """It was read for ever."""
    os.mkfifo(tmp_path / "pipe")
    root = tmp_path / "set"
    root.mkdir()
    Image.new("L", (4, 4)).save(root / "a.png")
    (root / "x.png").symlink_to(target if target.startswith("/") else tmp_path / target)
    walk = walk_files(root, follow_links=True)
    assert walk.files == ["a.png"]
    assert walk.skipped == [("x.png", "not a regular file")]
    with pytest.raises(InputError, match="is not a file"):
        read_image(root / "x.png")
    assert file_hashes.content_fingerprints([str(root / "x.png")], None) == {str(root / "x.png"): "absent"}
    (root / "t.csv").write_text("image,label\na.png,u\nx.png,v\n")
    manifest = load_manifest(root / "t.csv", ImageOptions(follow_links=True))
    with pytest.raises(InputError, match=r"x\.png \(is not a file\)"):
        build_store(manifest, ImageOptions(store=tmp_path / "store"))
    with pytest.raises(InputError, match="is not a file"):
        read_described(root / "x.png")


@pytest.mark.parametrize("name", ["x.png", "x.tif", "x.nii", "x.dcm", "x.npz"])
def test_a_kept_failure_names_no_other_data_set(tmp_path: Path, name: str) -> None:
    """A store is found by the content of its files; the reasons in it are read for every data set that has them."""
    heads = {
        "x.png": b"\x89PNG\r\n\x1a\n",
        "x.tif": b"II*\0",
        "x.nii": b"",
        "x.dcm": bytes(128) + b"DICM",
        "x.npz": b"PK\3\4",
    }
    options = ImageOptions(store=tmp_path / "store")
    for owner in ("first", "second"):
        root = tmp_path / owner
        root.mkdir()
        (root / name).write_bytes(heads[name] + bytes(40))
        Image.new("L", (4, 4)).save(root / "a.png")
        (root / "t.csv").write_text(f"image,label\na.png,u\n{name},v\n")
        manifest = load_manifest(root / "t.csv")
        with pytest.raises(InputError, match="1 of 2 images cannot be read") as refused:
            build_store(manifest, ImageOptions(store=options.store, skip_unreadable=False))
        build_store(manifest, ImageOptions(store=options.store, skip_unreadable=True))  # which keeps the reason
        assert str(tmp_path) not in str(refused.value)


def png_of(rows: list[bytes], width: int, height: int, bits: int = 8, colour: int = 0, interlaced: int = 0) -> bytes:
    """Write a PNG of some rows, each with its filter byte, in two parts of compressed data."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">2I5B", width, height, bits, colour, 0, 0, interlaced)
    packed = zlib.compress(b"".join(rows))
    parts = chunk(b"IDAT", packed[:7]) + chunk(b"IDAT", packed[7:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + parts + chunk(b"IEND", b"")


@pytest.mark.parametrize(("bits", "colour", "values"), [(8, 0, 1), (1, 0, 1), (16, 0, 1), (8, 2, 3), (16, 6, 4)])
@pytest.mark.parametrize("fill", [b"\x00", b"\x7f"], ids=["black", "grey"])
def test_png_whose_stream_ends_early_is_refused_and_black_rows_are_not(
    tmp_path: Path, bits: int, colour: int, values: int, fill: bytes
) -> None:
    """Twelve of 32 rows were read as an image whose other rows are black."""
    row = b"\0" + fill * (-(-20 * bits * values // 8))
    path = tmp_path / "a.png"
    path.write_bytes(png_of([row] * 32, 20, 32, bits, colour))
    assert read_image(path).shape[:2] == (32, 20)
    path.write_bytes(png_of([row] * 12, 20, 32, bits, colour))
    with pytest.raises(InputError, match="a truncated PNG"):
        read_image(path)


@pytest.mark.parametrize(("width", "height"), [(20, 32), (1, 1), (5, 1), (3, 9)])
def test_interlaced_png_whose_stream_ends_early_is_refused(tmp_path: Path, width: int, height: int) -> None:
    starts = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = [
        b"\0" + bytes([9] * len(range(x, width, dx)))
        for y, x, dy, dx in starts
        for _ in range(y, height, dy)
        if x < width
    ]
    path = tmp_path / "a.png"
    path.write_bytes(png_of(rows, width, height, interlaced=1))
    assert (read_image(path) == 9).all()
    for n in {len(rows) - 1, len(rows) // 2, 1} - {len(rows)}:
        path.write_bytes(png_of(rows[:n], width, height, interlaced=1))
        with pytest.raises(InputError, match="truncated"):
            read_image(path)
