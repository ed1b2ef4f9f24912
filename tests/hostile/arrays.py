"""Files of arrays: npy, npz, HDF5, idx and records."""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np

from tests.hostile.commands import NO_PIXELS, HostileInput, audit, cuts, gzip_of, patched, source, source_without_labels

PIXELS = np.random.default_rng(0).integers(0, 255, (16, 8, 8), np.uint8)


def npy_head(shape: object, descr: str = "|u1", fortran: bool = False) -> bytes:
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text


def write_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def array_bytes(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, values, allow_pickle=True)
    return out.getvalue()


def numpy_files() -> Iterator[HostileInput]:
    good, labels = array_bytes(PIXELS), array_bytes(np.arange(16) % 2)
    lies = {
        "a thousand million images": npy_head((10**9, 28, 28)),
        "negative sides": npy_head((-1, 8, 8)),
        "10**30 images": npy_head((10**30, 8, 8)),
        "no pixels": npy_head((10**9, 0, 8)),
        "objects": npy_head((16, 8, 8), "|O"),
        "text without a letter": npy_head((16, 8, 8), "<U0"),
        "text of 10**9 letters": npy_head((16,), "<U999999999"),
        "no shape": npy_head("x"),
        "Fortran's order": npy_head((10**9, 8, 8), fortran=True),
        "a code that does not exist": npy_head((16, 8, 8), "|z9"),
        "a header that calls": b"\x93NUMPY\x01\0\x20\0__import__('os').system('true')",
        "lists in lists": b"\x93NUMPY\x01\0\x20\x4e" + b"(" * 20_000,
        "a header of 4 GiB": b"\x93NUMPY\x02\0\xff\xff\xff\xff" + bytes(99),
    }
    for name, head in lies.items():
        yield source("npy: header that is a lie", name, "x.npy", lambda p, h=head: p.write_bytes(h + bytes(768)))
        members = {"images.npy": head + bytes(768), "labels.npy": labels}
        yield source("npz: header that is a lie", name, "x.npz", lambda p, m=members: write_zip(p, m))
        if name not in ("no pixels",):
            members = {"images.npy": good, "labels.npy": head + bytes(768)}
            yield source(
                "npz: header that is a lie", f"{name}, of labels", "x.npz", lambda p, m=members: write_zip(p, m)
            )
    for kind in ("<f2", "<f4", "<f8"):
        for name, value in NO_PIXELS.items():
            values = np.random.default_rng(0).random((16, 8, 8)).astype(kind)
            values[5, 3, 4] = value
            members = {"images.npy": array_bytes(values), "labels.npy": labels}
            yield source(
                "npy, npz: pixels that are no numbers",
                f"{name} in {kind}, npz",
                "x.npz",
                lambda p, m=members: write_zip(p, m),
            )
            if kind == "<f4":
                yield source_without_labels(
                    "npy, npz: pixels that are no numbers",
                    f"{name} in {kind}, npy",
                    "x.npy",
                    lambda p, v=values: p.write_bytes(array_bytes(v)),
                )
    for place, cut in cuts(good, (5, 6, 7, 8, 9, 20, 60, 127, 128, 200, len(good) - 1)):
        yield source("npy: cut", f"after {place} bytes", "x.npy", lambda p, c=cut: p.write_bytes(c))

    def cut_zip(place: int) -> Callable[[Path], None]:
        """A zip archive that ends early."""

        def write(path: Path) -> None:
            """Write it."""
            write_zip(path, {"images.npy": good, "labels.npy": labels})
            path.write_bytes(path.read_bytes()[:place])

        return write

    for place in (3, 10, 30, 60, 300, -1, -22, -60):
        yield source("npz: cut", f"at {place}", "x.npz", cut_zip(place))
    zeros = 1 << 30
    for method, name in ((zipfile.ZIP_DEFLATED, "deflate"), (zipfile.ZIP_BZIP2, "bzip2")):

        def bomb(path: Path, member: str, head: bytes, method: int = method) -> None:
            """A member of zeros, written as a stream."""
            with zipfile.ZipFile(path, "w", method) as archive:
                for other, data in (("images.npy", good), ("labels.npy", labels)):
                    if other != member:
                        archive.writestr(other, data)
                with archive.open(member, "w", force_zip64=True) as stream:
                    stream.write(head)
                    for _ in range(zeros >> 24):
                        stream.write(bytes(1 << 24))

        yield source(
            "npz: bomb",
            f"images, {name}",
            "x.npz",
            lambda p, b=bomb: b(p, "images.npy", npy_head((zeros >> 10, 32, 32))),
        )
        yield source(
            "npz: bomb",
            f"images of a pixel, {name}",
            "x.npz",
            lambda p, b=bomb: b(p, "images.npy", npy_head((zeros, 1, 1))),
        )
        yield source(
            "npz: bomb", f"labels, {name}", "x.npz", lambda p, b=bomb: b(p, "labels.npy", npy_head((16, zeros // 16)))
        )
        yield source(
            "npz: bomb", f"groups, {name}", "x.npz", lambda p, b=bomb: b(p, "groups.npy", npy_head((16, zeros // 16)))
        )
    above = source_without_labels("", "", "x.npz", lambda p: write_zip(p, {"../../images.npy": good})).make
    # a member's name is only a name: nothing is unpacked into a folder
    yield HostileInput("npz: path tricks", "a member above the folder", above, (0, 1))
    yield source(
        "npz: path tricks",
        "a member at the root",
        "x.npz",
        lambda p: write_zip(p, {"/etc/images.npy": good, "/etc/x.npy": good}),
    )


def hdf5_files() -> Iterator[HostileInput]:
    def file(path: Path, name: str = "images", **created: object) -> None:
        """A file with one data set beside labels."""
        with h5py.File(path, "w") as target:
            target.create_dataset(name, **created)  # type: ignore[arg-type]
            target["labels"] = np.arange(16) % 2

    many = {"shape": (10**9, 28, 28), "dtype": "u1"}
    for name, created in {
        "contiguous": {},
        "chunks": {"chunks": (64, 28, 28)},
        "gzip": {"chunks": (64, 28, 28), "compression": "gzip"},
        "lzf": {"chunks": (64, 28, 28), "compression": "lzf"},
        "shuffle": {"chunks": (1, 28, 28), "shuffle": True},
        "fill value": {"chunks": (64, 28, 28), "fillvalue": 7},
        "no end": {"chunks": (64, 28, 28), "maxshape": (None, 28, 28)},
    }.items():
        yield source("HDF5: images never written", f"10**9, {name}", "x.h5", lambda p, c=created: file(p, **many, **c))
        few = (
            {"shape": (16, 8, 8), "dtype": "u1"}
            | ({**created, "chunks": (1, 8, 8)} if created else {})
            | ({"maxshape": (None, 8, 8)} if "maxshape" in created else {})
        )
        yield source("HDF5: images never written", f"16, {name}", "x.h5", lambda p, c=few: file(p, **c))

    def labels_only(path: Path, **created: object) -> None:
        """Sound images, labels as asked."""
        with h5py.File(path, "w") as target:
            target["images"] = PIXELS
            target.create_dataset("labels", **created)  # type: ignore[arg-type]

    wide = {"shape": (16, 10**9), "dtype": "u1"}
    yield source("HDF5: images never written", "labels of 10**9 columns", "x.h5", lambda p: labels_only(p, **wide))
    yield source(
        "HDF5: images never written", "labels in chunks", "x.h5", lambda p: labels_only(p, **wide, chunks=(1, 10**6))
    )

    def chunk_bomb(path: Path, filters: int = 1) -> None:
        """A chunk that deflate makes 1 GiB of."""
        with h5py.File(path, "w") as target:
            data = target.create_dataset("images", shape=(16, 8, 8), dtype="u1", chunks=(16, 8, 8), compression="gzip")
            data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(1 << 30), 9))
            target["labels"] = np.arange(16) % 2

    yield source("HDF5: bomb", "a chunk of 1 GiB", "x.h5", chunk_bomb)

    def zeros(path: Path) -> None:
        """Zeros, written."""
        with h5py.File(path, "w") as target:
            data = target.create_dataset(
                "images",
                shape=(64, 4096, 4096),
                dtype="u1",
                chunks=(1, 4096, 4096),
                compression="gzip",
                compression_opts=9,
            )
            packed = zlib.compress(bytes(1 << 24), 9)
            for k in range(64):
                data.id.write_direct_chunk((k, 0, 0), packed)
            target["labels"] = np.arange(64) % 2

    yield source("HDF5: bomb", "1 GiB of zeros", "x.h5", zeros)

    def twice(path: Path) -> None:
        """Deflated two times."""
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((16, 8, 8))
        created.set_deflate(9)
        created.set_deflate(9)
        with h5py.File(path, "w") as target:
            space = h5py.h5s.create_simple((16, 8, 8))
            data = h5py.Dataset(h5py.h5d.create(target.id, b"images", h5py.h5t.NATIVE_UINT8, space, created))
            data[:] = PIXELS
            target["labels"] = np.arange(16) % 2

    yield source("HDF5: bomb", "deflated twice", "x.h5", twice)
    for kind in ("<f4", "<f8"):
        for name, value in NO_PIXELS.items():
            values = np.random.default_rng(0).random((16, 8, 8)).astype(kind)
            values[5, 3, 4] = value
            yield source(
                "HDF5: pixels that are no numbers", f"{name} in {kind}", "x.h5", lambda p, v=values: file(p, data=v)
            )

    def outside(path: Path, how: str) -> None:
        """Images that lie in another file."""
        other = path.with_name("other.h5")
        file(other, data=PIXELS)
        with h5py.File(path, "w") as target:
            if how == "virtual":
                layout = h5py.VirtualLayout(shape=(16, 8, 8), dtype="u1")
                layout[:] = h5py.VirtualSource(str(other), "images", shape=(16, 8, 8))
                target.create_virtual_dataset("images", layout)
            elif how == "external":
                target.create_dataset("images", shape=(16, 8, 8), dtype="u1", external=[("/etc/passwd", 0, 1024)])
            elif how == "link":
                target["images"] = h5py.ExternalLink(str(other), "images")
            else:
                target["images"] = h5py.SoftLink("/images")

    for how in ("virtual", "external", "link", "circle"):
        yield source("HDF5: path tricks", how, "x.h5", lambda p, h=how: outside(p, h))

    def deep(path: Path) -> None:
        """Groups in groups."""
        with h5py.File(path, "w") as target:
            group = target
            for _ in range(3_000):
                group = group.create_group("g")

    yield source("HDF5: path tricks", "3,000 groups in each other", "x.h5", deep)

    def one_text(path: Path) -> None:
        """Labels whose values all refer to one long text."""
        with h5py.File(path, "w") as target:
            target["images"] = np.zeros((2_000, 4, 4), np.uint8) + np.arange(2_000, dtype=np.uint8)[:, None, None]
            target.create_dataset("labels", shape=(2_000,), dtype=h5py.string_dtype())
            target["labels"][0] = "x" * 4_000_000
        data = path.read_bytes()
        with h5py.File(path, "r") as target:
            place = target["labels"].id.get_offset()
        path.write_bytes(patched(data, place, data[place : place + 16] * 2_000))

    yield source("HDF5: bomb", "8 GB of one text", "x.h5", one_text)

    def cut(path: Path, place: float) -> None:
        """A file that ends early."""
        file(path, data=PIXELS)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * place)])

    for place in (0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield source("HDF5: cut", f"at {place}", "x.h5", lambda p, a=place: cut(p, a))


def idx_files() -> Iterator[HostileInput]:
    good = struct.pack(">BBBBIII", 0, 0, 8, 3, *PIXELS.shape) + PIXELS.tobytes()
    for place, cut in cuts(good, (4, 5, 9, 15, 16, 17, len(good) - 1)):
        yield source("idx: cut", f"after {place} bytes", "x-images-idx3-ubyte", lambda p, c=cut: p.write_bytes(c))
        yield source(
            "idx: cut",
            f"after {place} bytes, gzipped",
            "x-images-idx3-ubyte.gz",
            lambda p, c=cut: p.write_bytes(gzip.compress(c)),
        )
    for shape in ((2**32 - 1,) * 3, (10**9, 1, 1), (16, 0, 8), (16, 65_535, 65_535)):
        lie = struct.pack(">BBBBIII", 0, 0, 8, 3, *shape) + bytes(768)
        yield source("idx: header that is a lie", str(shape), "x-images-idx3-ubyte", lambda p, c=lie: p.write_bytes(c))
        yield source(
            "idx: header that is a lie",
            f"{shape}, gzipped",
            "x-images-idx3-ubyte.gz",
            lambda p, c=lie: p.write_bytes(gzip.compress(c)),
        )
    bomb = struct.pack(">BBBBIII", 0, 0, 8, 3, 1 << 20, 32, 32)
    yield source(
        "idx: bomb", "1 GiB of zeros", "x-images-idx3-ubyte.gz", lambda p: p.write_bytes(gzip_of(bomb, 1 << 30))
    )

    def labels(path: Path) -> None:
        """Sound images and labels that unpack to 1 GiB."""
        path.write_bytes(good)
        path.with_name("x-labels-idx1-ubyte").write_bytes(gzip_of(struct.pack(">BBBBI", 0, 0, 8, 1, 1 << 30), 1 << 30))

    yield source("idx: bomb", "labels", "x-images-idx3-ubyte", labels)
    yield source("records: cut", "CIFAR-10", "data_batch_1.bin", lambda p: p.write_bytes(bytes(3073 * 2 + 5)))
    for name in ("cifar10", "cifar100", "stl10", "svhn", "mnist"):

        def make(folder: Path, name: str = name) -> list[str]:
            """A published set of which every file is a few bytes of rubbish."""
            for file in (
                "data_batch_1.bin",
                "test_batch.bin",
                "train.bin",
                "test.bin",
                "train_X.bin",
                "train_y.bin",
                "test_X.bin",
                "test_y.bin",
                "train_32x32.mat",
                "test_32x32.mat",
                "train-images-idx3-ubyte",
                "train-labels-idx1-ubyte",
            ):
                (folder / file).write_bytes(b"MATLAB 5.0 MAT-file" + bytes(120) + b"\0\1IM" + b"\xff" * 64)
            return audit(f"{name}:{folder}")

        yield HostileInput("records: cut", f"{name}, all files", make)
