"""Inputs made to do harm, for the command line: bombs, lying headers, cut files, values that are no pixels, odd paths.

`hostile_inputs` gives them all, each a recipe that writes its files into a folder and says which command meets them.
`run_hostile` runs one in a process of its own and tells what became of it.
"""

import gzip
import io
import json
import os
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tifffile
from PIL import Image

from tests.images.making import png_bytes

Make = Callable[[Path], list[str]]
OUT = "OUT"
"""Stands for the folder of results in a command."""
HUGE = 2**31 - 1


@dataclass(frozen=True)
class HostileInput:
    """One input and the command that meets it."""

    kind: str
    """What is hostile, for tables of results."""
    name: str
    make: Make
    """Writes the files into a folder and gives the arguments of memorisk."""
    codes: tuple[int, ...] = (2,)
    """Exit codes that are right: 2 refused; 1 counted as a problem by ``images check``; 0 where it does no harm."""


def hostile_inputs() -> list[HostileInput]:
    """All of them, always the same."""
    found = [
        *_rasters(), *_tiffs(), *_niftis(), *_dicoms(), *_numpy(), *_hdf5(), *_idx(), *_shards(), *_csvs(), *_json(),
        *_yaml(), *_losses(), *_links(), *_weights(),
    ]  # fmt: skip
    names = [(i.kind, i.name) for i in found]
    assert len(set(names)) == len(names)
    return found


# --- the commands ----------------------------------------------------------------------------------------------------


def _good(root: Path, n: int = 6) -> Path:
    """Two classes of small sound images."""
    for label in "ab":
        (root / label).mkdir(parents=True)
        for k in range(n):
            noise = np.random.default_rng(100 * (label == "b") + k).integers(0, 255, (8, 8), np.uint8)
            Image.fromarray(noise).save(root / label / f"{k}.png")
    return root


def _audit(source: object, *more: object) -> list[str]:
    return ["audit", "classifier", str(source), "--dry-run", "--size", "8", "--out", OUT, *map(str, more)]


_turn = [0]


def _image(kind: str, name: str, suffix: str, data: bytes | Callable[[], bytes], *more: str) -> HostileInput:
    """A bad image among good ones; every third is met by another command."""
    _turn[0] += 1
    turn = _turn[0] % 3

    def make(folder: Path) -> list[str]:
        """Write the images."""
        root = _good(folder / "set")
        for path in (root.glob("*/*.png") if suffix in (".dcm", ".nii", ".nii.gz") else ()):
            path.unlink()
        (root / "a" / f"bad{suffix}").write_bytes(data() if callable(data) else data)
        if turn == 0:
            return ["images", "check", str(root), *more]
        if turn == 1 or more:
            return _audit(root, *more)
        return ["audit", "synthetic", str(root), str(_good(folder / "made")), "--size", "8", "--out", OUT]

    return HostileInput(kind, name, make, (1, 2) if turn == 0 else (2,))


def _source(kind: str, name: str, file: str, write: Callable[[Path], object], *more: str) -> HostileInput:
    """A file that is the source itself."""

    def make(folder: Path) -> list[str]:
        """Write it."""
        write(folder / file)
        return _audit(folder / file, *more)

    return HostileInput(kind, name, make)


def _cuts(data: bytes, places: tuple[int, ...]) -> Iterator[tuple[int, bytes]]:
    """What is left of a file that ends at each of some places."""
    return ((place, data[:place]) for place in places if place < len(data))


# --- images ----------------------------------------------------------------------------------------------------------


def _saved(image: Image.Image, kind: str, **settings: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def _patched(data: bytes, place: int, new: bytes) -> bytes:
    return data[:place] + new + data[place + len(new) :]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png_declaring(width: int, height: int, bits: int, colours: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    pixels = _chunk(b"IDAT", zlib.compress(bytes(1 << 16)))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + pixels + _chunk(b"IEND", b"")


def _png_bomb(side: int, samples: int) -> bytes:
    colours = {1: 0, 3: 2, 4: 6}[samples]
    packer, row = zlib.compressobj(9), bytes(1 + samples * side)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _rasters() -> Iterator[HostileInput]:
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    colour, grey = Image.fromarray(noise), Image.fromarray(noise[..., 0])
    png = png_bytes([bytes(range(8))] * 8, 8, 8, 0)
    for bits, colours in ((8, 0), (16, 0), (8, 2), (8, 6)):
        for side in ((0, 8), (HUGE, HUGE), (65_535, 65_535), (10_001, 10_001), (9_000, 9_000)):
            yield _image(
                "PNG: size that is a lie", f"{side[0]} x {side[1]}, {bits} bits, type {colours}", ".png",
                _png_declaring(*side, bits, colours),
            )  # fmt: skip
    for samples in (1, 3, 4):
        yield _image("PNG: bomb", f"{samples} samples", ".png", lambda s=samples: _png_bomb(9_000, s))
    text = zlib.compress(bytes(1 << 28), 9)
    for name, chunk in (("zTXt", b"k\0\0" + text), ("iCCP", b"k\0\0" + text), ("iTXt", b"k\0\1\0\0\0" + text)):
        yield HostileInput(
            "PNG: bomb", f"packed text {name}",
            lambda f, n=name, c=chunk: _image("", "", ".png", png[:33] + _chunk(n.encode(), c) + png[33:]).make(f),
            (0, 1, 2),
        )  # fmt: skip  # the pixels are sound, and Pillow bounds or leaves out such text
    frames = png[:33] + _chunk(b"acTL", struct.pack(">II", HUGE, 0)) + png[33:]
    yield HostileInput("PNG: size that is a lie", "2**31 frames", _image("", "", ".png", frames, "--frames", "all").make, (0, 1, 2))
    whole = {
        "PNG": (".png", png), "JPEG": (".jpg", _saved(colour, "JPEG")), "GIF": (".gif", _saved(grey, "GIF")),
        "WebP": (".webp", _saved(colour, "WEBP")), "BMP": (".bmp", _saved(colour, "BMP")),
        "JPEG 2000": (".jp2", _saved(colour, "JPEG2000")), "PPM": (".ppm", _saved(colour, "PPM")),
    }  # fmt: skip
    for kind, (suffix, data) in whole.items():
        for place, cut in _cuts(data, (0, 1, 3, 9, 17, 21, 25, 40, len(data) // 2)):
            yield _image(f"{kind}: cut", f"after {place} bytes", suffix, cut)
    jpeg = whole["JPEG"][1]
    frame = jpeg.index(b"\xff\xc0") + 5
    for height, width in ((65_535, 65_535), (0, 16), (16, 0), (65_500, 1_500)):
        size = struct.pack(">HH", height, width)
        yield _image("JPEG: size that is a lie", f"{width} x {height}", ".jpg", _patched(jpeg, frame, size))
    many = _saved(colour, "JPEG", progressive=True)
    scan = many.index(b"\xff\xda", many.index(b"\xff\xda") + 2)
    end = many.index(b"\xff\xda", scan + 2)
    scans = _patched(many[:scan] + many[scan:end] * 3_000 + many[end:], many.index(b"\xff\xc2") + 5, b"\x10\0\x10\0")
    yield _image("JPEG: bomb", "3,000 scans of 4,096 x 4,096 pixels", ".jpg", scans)
    for width, height in ((65_535, 65_535), (0, 0)):
        size = struct.pack("<HH", width, height)
        yield _image("GIF: size that is a lie", f"{width} x {height}", ".gif", _patched(whole["GIF"][1], 6, size))
    canvas = b"RIFF\0\1\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6 + bytes(232)
    yield _image("WebP: size that is a lie", "16 million x 16 million", ".webp", canvas)
    for width, height in ((HUGE, HUGE), (HUGE, 1), (1, -HUGE), (0, 0), (40_000, 2_400)):
        size = struct.pack("<ii", width, height)
        yield _image("BMP: size that is a lie", f"{width} x {height}", ".bmp", _patched(whole["BMP"][1], 18, size))
    packed = struct.pack("<2sIHHIIiiHHIIIIII", b"BM", 0, 0, 0, 1078, 40, 9_000, 9_000, 1, 8, 1, 0, 0, 0, 256, 0)
    yield _image("BMP: bomb", "81 million pixels in runs", ".bmp", packed + bytes(1024) + b"\xff\1" * 5_000 + b"\0\1")
    codestream = whole["JPEG 2000"][1].index(b"\xff\x4f\xff\x51") + 8
    for width, height in ((2**32 - 1, 2**32 - 1), (60_000, 60_000), (9_900, 9_900)):
        data = _patched(whole["JPEG 2000"][1], codestream, struct.pack(">II", width, height))
        header = data.index(b"ihdr") + 4
        yield _image(
            "JPEG 2000: size that is a lie", f"{width} x {height}", ".jp2",
            _patched(data, header, struct.pack(">II", height, width)),
        )  # fmt: skip
    tiles = _patched(whole["JPEG 2000"][1], codestream + 16, struct.pack(">II", 1, 1))
    yield _image("JPEG 2000: size that is a lie", "tiles of one pixel", ".jp2", tiles)
    for size in (b"99999 99999", b"9" * 5_000 + b" 1", b"-1 8", b"0 0", b"9999 9999", b"8 x"):
        yield _image("PPM: size that is a lie", size[:12].decode(), ".ppm", b"P6\n" + size + b"\n255\n" + bytes(99))


def _tiff(values: np.ndarray, **settings: object) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, values, **settings)
    return out.getvalue()


def _tag(data: bytes, code: int) -> int:
    """Where the entry of a tag begins in a little-endian TIFF of one page."""
    first = struct.unpack("<I", data[4:8])[0]
    count = struct.unpack("<H", data[first : first + 2])[0]
    return next(p for k in range(count) if struct.unpack("<H", data[(p := first + 2 + 12 * k) :][:2])[0] == code)


_NO_PIXELS = {"NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf}


def _tiffs() -> Iterator[HostileInput]:
    plain = _tiff(np.random.default_rng(0).integers(0, 255, (16, 16), np.uint8))
    for kind in ("<f2", "<f4", "<f8"):
        for name, value in _NO_PIXELS.items():
            values = np.random.default_rng(0).random((8, 8)).astype(kind)
            values[3, 4] = value
            yield _image("TIFF: pixels that are no numbers", f"{name} in {kind}", ".tif", _tiff(values))
            if kind == "<f4":
                packed = _tiff(values, compression="zlib")
                yield _image("TIFF: pixels that are no numbers", f"{name}, compressed", ".tif", packed)
    for place, cut in _cuts(plain, (1, 3, 4, 7, 8, 9, 10, 20, 40, 80, 150, len(plain) - 100, len(plain) - 1)):
        yield _image("TIFF: cut", f"after {place} bytes", ".tif", cut)
    for code, name in ((256, "width"), (257, "height"), (258, "bits"), (277, "samples"), (278, "rows"), (279, "bytes")):
        entry = _tag(plain, code)
        for value in (0, 65_535, 2**32 - 1):
            lie = _patched(plain, entry + 2, struct.pack("<HII", 4, 1, value))
            yield HostileInput(
                "TIFF: header that is a lie", f"{name} {value}", _image("", "", ".tif", lie).make, (0, 1, 2)
            )  # rows and bytes of a strip may be anything where the pixels are all there
        lie = _patched(plain, entry + 4, struct.pack("<II", 2**32 - 1, 8))
        yield HostileInput(
            "TIFF: header that is a lie", f"2**32 values of {name}", _image("", "", ".tif", lie).make, (0, 1, 2)
        )
    first = struct.unpack("<I", plain[4:8])[0]
    after = first + 2 + 12 * struct.unpack("<H", plain[first : first + 2])[0]
    loop = _patched(plain, after, struct.pack("<I", first))
    yield HostileInput("TIFF: header that is a lie", "pages in a circle", _image("", "", ".tif", loop, "--frames", "all").make, (0, 1, 2))
    yield _image("TIFF: bomb", "81 million pixels of zero", ".tif", lambda: _tiff(np.zeros((9_000, 9_000), np.uint8), compression="zlib"))
    tiles = _patched(_patched(plain, _tag(plain, 256) + 2, struct.pack("<HII", 4, 1, 9_000)), _tag(plain, 257) + 2, struct.pack("<HII", 4, 1, 9_000))
    yield _image("TIFF: bomb", "81 million pixels in no bytes", ".tif", _patched(tiles, _tag(tiles, 279) + 8, bytes(4)))


def _nifti(values: np.ndarray, kind: int, shape: tuple[int, ...] | None = None, offset: float = 352.0, **more: float) -> bytes:
    shape = shape or values.shape
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into(f"<{1 + len(shape)}h", head, 40, len(shape), *(s if -32768 <= s < 32768 else -1 for s in shape))
    struct.pack_into("<hh", head, 70, kind, 8 * values.dtype.itemsize)
    struct.pack_into("<8f", head, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<3f", head, 108, offset, more.get("slope", 1.0), more.get("inter", 0.0))
    head[344:348] = b"n+1\0"
    return bytes(head) + values.tobytes()


def _gzip_of(head: bytes, zeros: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 24)
    parts = [packer.compress(head), *(packer.compress(block) for _ in range(zeros >> 24))]
    return b"".join([*parts, packer.flush()])


def _niftis() -> Iterator[HostileInput]:
    values = np.random.default_rng(0).integers(0, 99, (8, 8, 8)).astype("<i2")
    plain = _nifti(values, 4)
    for kind, code in (("<f4", 16), ("<f8", 64)):
        for name, value in _NO_PIXELS.items():
            bad = values.astype(kind)
            bad[2, 3, 4] = value
            yield _image("NIfTI: voxels that are no numbers", f"{name} in {kind}", ".nii", _nifti(bad, code))
            packed = gzip.compress(_nifti(bad, code))
            yield _image("NIfTI: voxels that are no numbers", f"{name} in {kind}, gzipped", ".nii.gz", packed)
    for place, cut in _cuts(plain, (3, 40, 70, 108, 200, 343, 347, 351, 352, 360, len(plain) - 1)):
        yield _image("NIfTI: cut", f"after {place} bytes", ".nii", cut)
        yield _image("NIfTI: cut", f"after {place} bytes, gzipped", ".nii.gz", gzip.compress(cut))
    packed = gzip.compress(plain)
    for place, cut in _cuts(packed, (2, 9, 12, 30, len(packed) // 2, len(packed) - 9)):
        yield _image("NIfTI: cut", f"gzip after {place} bytes", ".nii.gz", cut)
    lies = {
        "1,000 to the third": _nifti(values, 4, (1000, 1000, 1000)), "32,767 to the third": _nifti(values, 4, (32767,) * 3),
        "a side of 0": _nifti(values, 4, (8, 0, 8)), "a negative side": _nifti(values, 4, (8, -8, 8)),
        "voxels at 1e30": _nifti(values, 4, offset=1e30), "voxels at NaN": _nifti(values, 4, offset=np.nan),
        "voxels before the file": _nifti(values, 4, offset=-1e9), "a type that does not exist": _nifti(values, 999),
        "complex voxels": _nifti(values.astype("<c8"), 32), "an extension of 2 GiB": _patched(_nifti(values, 4, offset=2e9), 348, b"\1\0\0\0\xf0\xff\xff\x7f"),
    }  # fmt: skip
    for name, data in lies.items():
        yield _image("NIfTI: header that is a lie", name, ".nii", data)
        yield _image("NIfTI: header that is a lie", f"{name}, gzipped", ".nii.gz", gzip.compress(data))
    for slope in (np.inf, np.nan, 3e38):
        lie = _nifti(values, 4, slope=slope)
        yield HostileInput("NIfTI: header that is a lie", f"a slope of {slope}", _image("", "", ".nii", lie).make, (0, 1, 2))
    for name, shape, kind, width in (("bytes", (1000, 1000, 1000), 2, 1), ("floats", (800, 800, 800), 64, 8), ("16 bits", (1000, 1000, 900), 4, 2)):
        head = _nifti(np.zeros(0, f"u{width}"), kind, shape)
        size = int(np.prod(shape)) * width
        yield _image("NIfTI: bomb", f"zeros, {name}", ".nii.gz", lambda h=head, s=size: _gzip_of(h, min(s, 1 << 30)))


def _dicoms() -> Iterator[HostileInput]:
    import pydicom

    from tests.images.dicom_making import dicom

    stored = np.random.default_rng(0).integers(0, 999, (8, 8)).astype(np.uint16)

    def written(data: pydicom.Dataset) -> bytes:
        """A data set as a file."""
        out = io.BytesIO()
        pydicom.dcmwrite(out, data, enforce_file_format=True)
        return out.getvalue()

    def of(stored: np.ndarray = stored, **elements: object) -> bytes:
        """A data set with other elements than it should have."""
        return written(dicom(stored, **elements))

    plain = of()
    for place, cut in _cuts(plain, (3, 100, 131, 132, 140, 160, 200, 250, 300, 340, 380, 420, len(plain) - 140, len(plain) - 1)):
        yield _image("DICOM: cut", f"after {place} bytes", ".dcm", cut)
    for name, elements in {
        "65,535 x 65,535": {"Rows": 65535, "Columns": 65535}, "no rows": {"Rows": 0}, "9,000 x 9,000": {"Rows": 9000, "Columns": 9000},
        "65,535 samples": {"SamplesPerPixel": 65535}, "no samples": {"SamplesPerPixel": 0}, "2**31 frames": {"NumberOfFrames": str(HUGE)},
        "-1 frames": {"NumberOfFrames": "-1"}, "64 bits": {"BitsAllocated": 64, "BitsStored": 64}, "7 bits": {"BitsAllocated": 7},
        "no bits": {"BitsAllocated": 0, "BitsStored": 0}, "an unknown photometric": {"PhotometricInterpretation": "XYZ"},
    }.items():  # fmt: skip
        codes = (0, 1, 2) if name == "-1 frames" else (2,)  # taken for one frame, which it is
        made = _image("", "", ".dcm", lambda e=elements: of(**e), *(("--frames", "all") if "frames" in name else ())).make
        yield HostileInput("DICOM: header that is a lie", name, made, (1, *codes))
    for keyword, kind, bits in (("FloatPixelData", "<f4", 32), ("DoubleFloatPixelData", "<f8", 64)):
        for name, value in _NO_PIXELS.items():

            def no_number(keyword: str = keyword, kind: str = kind, bits: int = bits, value: float = value) -> bytes:
                """Pixels as floats."""
                data = dicom(stored)
                del data.PixelData
                pixels = stored.astype(kind)
                pixels[3, 4] = value
                setattr(data, keyword, pixels.tobytes())
                data.BitsAllocated = bits
                for gone in ("BitsStored", "HighBit", "PixelRepresentation"):
                    delattr(data, gone)
                return written(data)

            yield _image("DICOM: pixels that are no numbers", f"{name} in {keyword}", ".dcm", no_number)

    def deflated(rows: int, cut: int = 0) -> bytes:
        """A deflated data set of zeros."""
        data = dicom(np.zeros((rows, 10_000), np.uint16))
        data.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
        whole = written(data)
        return whole[: len(whole) - cut]

    yield _image("DICOM: bomb", "deflated", ".dcm", lambda: deflated(20_000))
    yield _image("DICOM: cut", "deflated", ".dcm", lambda: deflated(10, 40))
    pixels = plain.rindex(b"\xe0\x7f\x10\0")
    yield _image("DICOM: header that is a lie", "pixels of 4 GiB", ".dcm", _patched(plain, pixels + 8, b"\xf0\xff\xff\xff"))
    yield _image("DICOM: header that is a lie", "pixels of no end", ".dcm", _patched(plain, pixels + 8, b"\xff\xff\xff\xff"))
    item = b"\x08\0\x40\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff"
    at = plain.index(b"\x08\0\x16\0UI")
    yield _image("DICOM: header that is a lie", "100,000 sequences in each other", ".dcm", plain[:at] + item * 100_000)
    for syntax in ("RLELossless", "JPEGBaseline8Bit", "JPEG2000Lossless", "JPEGLosslessSV1", "JPEGLSLossless"):

        def encapsulated(syntax: str = syntax, lie: int = 9_000) -> bytes:
            """A few bytes that are said to be a large compressed frame."""
            data = dicom(stored, Rows=lie, Columns=lie)
            data.file_meta.TransferSyntaxUID = getattr(pydicom.uid, syntax)
            data.PixelData = pydicom.encaps.encapsulate([bytes(64) + b"\xff\xd8\xff\xd9" * 4])
            data["PixelData"].VR = "OB"
            return written(data)

        yield _image("DICOM: bomb", f"{syntax} of 81 million pixels", ".dcm", encapsulated)


# --- arrays ----------------------------------------------------------------------------------------------------------

_PIXELS = np.random.default_rng(0).integers(0, 255, (12, 8, 8), np.uint8)


def _npy_head(shape: object, descr: str = "|u1", fortran: bool = False) -> bytes:
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text


def _zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _array_bytes(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, values, allow_pickle=True)
    return out.getvalue()


def _numpy() -> Iterator[HostileInput]:
    good, labels = _array_bytes(_PIXELS), _array_bytes(np.arange(12) % 2)
    lies = {
        "a thousand million images": _npy_head((10**9, 28, 28)), "negative sides": _npy_head((-1, 8, 8)), "10**30 images": _npy_head((10**30, 8, 8)),
        "no pixels": _npy_head((10**9, 0, 8)), "objects": _npy_head((12, 8, 8), "|O"), "text without a letter": _npy_head((12, 8, 8), "<U0"),
        "text of 10**9 letters": _npy_head((12,), "<U999999999"), "no shape": _npy_head("x"), "Fortran's order": _npy_head((10**9, 8, 8), fortran=True),
        "a code that does not exist": _npy_head((12, 8, 8), "|z9"), "a header that calls": b"\x93NUMPY\x01\0\x20\0__import__('os').system('true')",
        "lists in lists": b"\x93NUMPY\x01\0\x20\x4e" + b"(" * 20_000, "a header of 4 GiB": b"\x93NUMPY\x02\0\xff\xff\xff\xff" + bytes(99),
    }  # fmt: skip
    for name, head in lies.items():
        yield _source("npy: header that is a lie", name, "x.npy", lambda p, h=head: p.write_bytes(h + bytes(768)))
        members = {"images.npy": head + bytes(768), "labels.npy": labels}
        yield _source("npz: header that is a lie", name, "x.npz", lambda p, m=members: _zip_of(p, m))
        if name not in ("no pixels",):
            members = {"images.npy": good, "labels.npy": head + bytes(768)}
            yield _source("npz: header that is a lie", f"{name}, of labels", "x.npz", lambda p, m=members: _zip_of(p, m))
    for kind in ("<f2", "<f4", "<f8"):
        for name, value in _NO_PIXELS.items():
            values = np.random.default_rng(0).random((12, 8, 8)).astype(kind)
            values[5, 3, 4] = value
            members = {"images.npy": _array_bytes(values), "labels.npy": labels}
            yield _source("npy, npz: pixels that are no numbers", f"{name} in {kind}, npz", "x.npz", lambda p, m=members: _zip_of(p, m))
            if kind == "<f4":
                yield _source("npy, npz: pixels that are no numbers", f"{name} in {kind}, npy", "x.npy", lambda p, v=values: p.write_bytes(_array_bytes(v)))
    for place, cut in _cuts(good, (5, 6, 7, 8, 9, 20, 60, 127, 128, 200, len(good) - 1)):
        yield _source("npy: cut", f"after {place} bytes", "x.npy", lambda p, c=cut: p.write_bytes(c))

    def cut_zip(place: int) -> Callable[[Path], None]:
        """A zip archive that ends early."""

        def write(path: Path) -> None:
            """Write it."""
            _zip_of(path, {"images.npy": good, "labels.npy": labels})
            path.write_bytes(path.read_bytes()[:place])

        return write

    for place in (3, 10, 30, 60, 300, -1, -22, -60):
        yield _source("npz: cut", f"at {place}", "x.npz", cut_zip(place))
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

        yield _source("npz: bomb", f"images, {name}", "x.npz", lambda p, b=bomb: b(p, "images.npy", _npy_head((zeros >> 10, 32, 32))))
        yield _source("npz: bomb", f"images of a pixel, {name}", "x.npz", lambda p, b=bomb: b(p, "images.npy", _npy_head((zeros, 1, 1))))
        yield _source("npz: bomb", f"labels, {name}", "x.npz", lambda p, b=bomb: b(p, "labels.npy", _npy_head((12, zeros // 12))))
        yield _source("npz: bomb", f"groups, {name}", "x.npz", lambda p, b=bomb: b(p, "groups.npy", _npy_head((12, zeros // 12))))
    yield _source("npz: path tricks", "a member above the folder", "x.npz", lambda p: _zip_of(p, {"../../images.npy": good}))
    yield _source("npz: path tricks", "a member at the root", "x.npz", lambda p: _zip_of(p, {"/etc/images.npy": good, "/etc/x.npy": good}))


def _hdf5() -> Iterator[HostileInput]:
    def file(path: Path, name: str = "images", **created: object) -> None:
        """A file with one data set beside labels."""
        with h5py.File(path, "w") as target:
            target.create_dataset(name, **created)  # type: ignore[arg-type]
            target["labels"] = np.arange(12) % 2

    many = {"shape": (10**9, 28, 28), "dtype": "u1"}
    for name, created in {
        "contiguous": {}, "chunks": {"chunks": (64, 28, 28)}, "gzip": {"chunks": (64, 28, 28), "compression": "gzip"},
        "lzf": {"chunks": (64, 28, 28), "compression": "lzf"}, "shuffle": {"chunks": (1, 28, 28), "shuffle": True},
        "fill value": {"chunks": (64, 28, 28), "fillvalue": 7}, "no end": {"chunks": (64, 28, 28), "maxshape": (None, 28, 28)},
    }.items():  # fmt: skip
        yield _source("HDF5: images never written", f"10**9, {name}", "x.h5", lambda p, c=created: file(p, **many, **c))
        few = {"shape": (12, 8, 8), "dtype": "u1"} | ({**created, "chunks": (1, 8, 8)} if created else {}) | ({"maxshape": (None, 8, 8)} if "maxshape" in created else {})
        yield _source("HDF5: images never written", f"12, {name}", "x.h5", lambda p, c=few: file(p, **c))

    def labels_only(path: Path, **created: object) -> None:
        """Sound images, labels as asked."""
        with h5py.File(path, "w") as target:
            target["images"] = _PIXELS
            target.create_dataset("labels", **created)  # type: ignore[arg-type]

    wide = {"shape": (12, 10**9), "dtype": "u1"}
    yield _source("HDF5: images never written", "labels of 10**9 columns", "x.h5", lambda p: labels_only(p, **wide))
    yield _source("HDF5: images never written", "labels in chunks", "x.h5", lambda p: labels_only(p, **wide, chunks=(1, 10**6)))

    def chunk_bomb(path: Path, filters: int = 1) -> None:
        """A chunk that deflate makes 1 GiB of."""
        with h5py.File(path, "w") as target:
            data = target.create_dataset("images", shape=(12, 8, 8), dtype="u1", chunks=(12, 8, 8), compression="gzip")
            data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(1 << 30), 9))
            target["labels"] = np.arange(12) % 2

    yield _source("HDF5: bomb", "a chunk of 1 GiB", "x.h5", chunk_bomb)

    def zeros(path: Path) -> None:
        """Zeros, written."""
        with h5py.File(path, "w") as target:
            data = target.create_dataset("images", shape=(64, 4096, 4096), dtype="u1", chunks=(1, 4096, 4096), compression="gzip", compression_opts=9)
            packed = zlib.compress(bytes(1 << 24), 9)
            for k in range(64):
                data.id.write_direct_chunk((k, 0, 0), packed)
            target["labels"] = np.arange(64) % 2

    yield _source("HDF5: bomb", "1 GiB of zeros", "x.h5", zeros)

    def twice(path: Path) -> None:
        """Deflated two times."""
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((12, 8, 8))
        created.set_deflate(9)
        created.set_deflate(9)
        with h5py.File(path, "w") as target:
            space = h5py.h5s.create_simple((12, 8, 8))
            data = h5py.Dataset(h5py.h5d.create(target.id, b"images", h5py.h5t.NATIVE_UINT8, space, created))
            data[:] = _PIXELS
            target["labels"] = np.arange(12) % 2

    yield _source("HDF5: bomb", "deflated twice", "x.h5", twice)
    for kind in ("<f4", "<f8"):
        for name, value in _NO_PIXELS.items():
            values = np.random.default_rng(0).random((12, 8, 8)).astype(kind)
            values[5, 3, 4] = value
            yield _source("HDF5: pixels that are no numbers", f"{name} in {kind}", "x.h5", lambda p, v=values: file(p, data=v))

    def outside(path: Path, how: str) -> None:
        """Images that lie in another file."""
        other = path.with_name("other.h5")
        file(other, data=_PIXELS)
        with h5py.File(path, "w") as target:
            if how == "virtual":
                layout = h5py.VirtualLayout(shape=(12, 8, 8), dtype="u1")
                layout[:] = h5py.VirtualSource(str(other), "images", shape=(12, 8, 8))
                target.create_virtual_dataset("images", layout)
            elif how == "external":
                target.create_dataset("images", shape=(12, 8, 8), dtype="u1", external=[("/etc/passwd", 0, 768)])
            elif how == "link":
                target["images"] = h5py.ExternalLink(str(other), "images")
            else:
                target["images"] = h5py.SoftLink("/images")

    for how in ("virtual", "external", "link", "circle"):
        yield _source("HDF5: path tricks", how, "x.h5", lambda p, h=how: outside(p, h))

    def deep(path: Path) -> None:
        """Groups in groups."""
        with h5py.File(path, "w") as target:
            group = target
            for _ in range(3_000):
                group = group.create_group("g")

    yield _source("HDF5: path tricks", "3,000 groups in each other", "x.h5", deep)

    def one_text(path: Path) -> None:
        """Labels whose values all refer to one long text."""
        with h5py.File(path, "w") as target:
            target["images"] = np.zeros((2_000, 4, 4), np.uint8) + np.arange(2_000, dtype=np.uint8)[:, None, None]
            target.create_dataset("labels", shape=(2_000,), dtype=h5py.string_dtype())
            target["labels"][0] = "x" * 4_000_000
        data = path.read_bytes()
        with h5py.File(path, "r") as target:
            place = target["labels"].id.get_offset()
        path.write_bytes(_patched(data, place, data[place : place + 16] * 2_000))

    yield _source("HDF5: bomb", "8 GB of one text", "x.h5", one_text)

    def cut(path: Path, place: float) -> None:
        """A file that ends early."""
        file(path, data=_PIXELS)
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * place)])

    for place in (0.003, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield _source("HDF5: cut", f"at {place}", "x.h5", lambda p, a=place: cut(p, a))


def _idx() -> Iterator[HostileInput]:
    good = struct.pack(">BBBBIII", 0, 0, 8, 3, *_PIXELS.shape) + _PIXELS.tobytes()
    for place, cut in _cuts(good, (4, 5, 9, 15, 16, 17, len(good) - 1)):
        yield _source("idx: cut", f"after {place} bytes", "x-images-idx3-ubyte", lambda p, c=cut: p.write_bytes(c))
        yield _source("idx: cut", f"after {place} bytes, gzipped", "x-images-idx3-ubyte.gz", lambda p, c=cut: p.write_bytes(gzip.compress(c)))
    for shape in ((2**32 - 1,) * 3, (10**9, 1, 1), (12, 0, 8), (12, 65_535, 65_535)):
        lie = struct.pack(">BBBBIII", 0, 0, 8, 3, *shape) + bytes(768)
        yield _source("idx: header that is a lie", str(shape), "x-images-idx3-ubyte", lambda p, c=lie: p.write_bytes(c))
        yield _source("idx: header that is a lie", f"{shape}, gzipped", "x-images-idx3-ubyte.gz", lambda p, c=lie: p.write_bytes(gzip.compress(c)))
    bomb = struct.pack(">BBBBIII", 0, 0, 8, 3, 1 << 20, 32, 32)
    yield _source("idx: bomb", "1 GiB of zeros", "x-images-idx3-ubyte.gz", lambda p: p.write_bytes(_gzip_of(bomb, 1 << 30)))

    def labels(path: Path) -> None:
        """Sound images and labels that unpack to 1 GiB."""
        path.write_bytes(good)
        path.with_name("x-labels-idx1-ubyte").write_bytes(_gzip_of(struct.pack(">BBBBI", 0, 0, 8, 1, 1 << 30), 1 << 30))

    yield _source("idx: bomb", "labels", "x-images-idx3-ubyte", labels)
    yield _source("records: cut", "CIFAR-10", "data_batch_1.bin", lambda p: p.write_bytes(bytes(3073 * 2 + 5)))
    for name in ("cifar10", "cifar100", "stl10", "svhn", "mnist"):

        def make(folder: Path, name: str = name) -> list[str]:
            """A published set of which every file is a few bytes of rubbish."""
            for file in ("data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin", "train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin", "train_32x32.mat", "test_32x32.mat", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
                (folder / file).write_bytes(b"MATLAB 5.0 MAT-file" + bytes(120) + b"\0\1IM" + b"\xff" * 64)
            return _audit(f"{name}:{folder}")

        yield HostileInput("records: cut", f"{name}, all files", make)


# --- tables ----------------------------------------------------------------------------------------------------------


def _shard_table(images: list[bytes]) -> pa.Table:
    return pa.table({"image": [{"bytes": data, "path": None} for data in images], "label": [str(k % 2) for k in range(len(images))]})


def _shards() -> Iterator[HostileInput]:
    sound = [png_bytes([bytes([k] * 8)] * 8, 8, 8, 0) for k in range(12)]
    bad = np.random.default_rng(0).random((8, 8)).astype("<f4")
    bad[1, 1] = np.nan
    inside = {"a PNG of 65,535 x 65,535": _png_declaring(65_535, 65_535, 8, 0), "a TIFF with NaN": _tiff(bad), "no image": b"x" * 99, "an archive": b"PK\3\4" + bytes(99), "a bomb": _gzip_of(_nifti(np.zeros(0, "u1"), 2, (1000, 1000, 1000)), 1 << 28)}  # fmt: skip
    for name, data in inside.items():
        table = _shard_table([*sound, data])
        yield _source("Parquet, Arrow: images in rows", name, "x.parquet", lambda p, t=table: pq.write_table(t, p))
        yield _source("Parquet, Arrow: images in rows", f"{name}, Arrow", "x.arrow", lambda p, t=table: _arrow(p, t))

    def cut(path: Path, place: float, write: Callable[[Path, pa.Table], object]) -> None:
        """A file that ends early."""
        write(path, _shard_table(sound))
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * place)])

    for place in (0.01, 0.2, 0.5, 0.8, 0.99):
        yield _source("Parquet, Arrow: cut", f"at {place}", "x.parquet", lambda p, a=place: cut(p, a, lambda q, t: pq.write_table(t, q)))
        yield _source("Parquet, Arrow: cut", f"at {place}, Arrow", "x.arrow", lambda p, a=place: cut(p, a, _arrow))
    rows = 40_000_000
    same = pa.table({"image": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["a.png"]), "label": pa.array(np.zeros(rows, bool))})
    yield _source("Parquet: bomb", "40 million equal rows", "x.parquet", lambda p: pq.write_table(same, p, compression="zstd"))
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000, np.int8)), ["x" * 2_000_000])
    yield _source("Parquet: bomb", "8 GB of one text", "x.parquet", lambda p: pq.write_table(pa.table({"image": [f"{k}.png" for k in range(4_000)], "label": long}), p, compression="zstd"))
    yield _source("Parquet: bomb", "1 GiB in a value", "x.parquet", lambda p: pq.write_table(pa.table({"image": ["a.png", "b.png"], "label": ["x" * (1 << 30), "y"]}), p, compression="zstd", use_dictionary=False))
    wide = pa.table([pa.array(["a.png"])] * 40_000, names=["image", *(f"c{k}" for k in range(39_999))])
    yield _source("tables: columns", "40,000 in Parquet", "x.parquet", lambda p: pq.write_table(wide, p))
    doubled = pa.table([pa.array(["a.png"])] * 3, names=["image", "label", "label"])
    yield _source("tables: columns", "two of one name in Parquet", "x.parquet", lambda p: pq.write_table(doubled, p))


def _arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _table(kind: str, name: str, file: str, content: bytes | Callable[[], bytes], *more: str) -> HostileInput:
    """A table beside images ``a/0.png`` and so on; every other one joins it as labels."""
    _turn[0] += 1
    joined = _turn[0] % 2 == 0 and not more

    def make(folder: Path) -> list[str]:
        """Write it."""
        root = _good(folder / "set")
        table = root / file if not joined else folder / file
        table.write_bytes(content() if callable(content) else content)
        return _audit(root, "--labels-csv", table) if joined else _audit(table, *more)

    return HostileInput(kind, name, make)


def _csvs() -> Iterator[HostileInput]:
    rows = [f"{label}/{k}.png,{label}" for label in "ab" for k in range(6)]
    good = "\n".join(["image,label", *rows]).encode()
    for n in (33_000, 200_000):
        for separator, suffix in ((",", ".csv"), ("\t", ".tsv"), (";", ".csv")):
            wide = separator.join(["image", "label", *(f"c{k}" for k in range(n))]).encode()
            for name, line in (("empty rows", b""), ("full rows", separator.join(["a/0.png", "a", *["1"] * n]).encode())):
                yield _table("tables: columns", f"{n:,} in {suffix}, {separator!r}, {name}", f"t{suffix}", wide + b"\n" + line + b"\n" + line)
    for header in ("image,label,label", "image,image,label", "image,label,x,x", "\ufeffimage,label,image", '"image",label,image', "path,label,path"):
        again = "\n".join([header, *(f"{r},z,z"[: len(r) + 2 * (header.count(",") - 1)] for r in rows)]).encode()
        yield _table("tables: columns", f"two of one name: {header!r}", "t.csv", again)
        yield _table("tables: columns", f"two of one name: {header!r}, gzipped", "t.csv", gzip.compress(again))
    first = b"image,label\n"
    yield _table("tables: bomb", "gzip of one value", "t.csv", lambda: _gzip_of(first, 1 << 30))
    yield _table("tables: bomb", "gzip of many lines", "t.csv", lambda: gzip.compress(first + b"a/0.png,a\n" * 30_000_000, 6))
    yield _table("tables: bomb", "gzip of empty lines", "t.csv", lambda: gzip.compress(first + b"\n" * (1 << 29), 6))
    short = ",".join(["image", "label", *(f"c{k}" for k in range(30_000))]).encode() + b"\n" + b"a\n" * 100_000
    yield _table("tables: bomb", "rows far shorter than the header", "t.csv", short)
    yield _table("tables: bomb", "a first line without an end", "t.csv", b"a" * (1 << 25))
    for place, cut in _cuts(gzip.compress(good), (3, 12, 20, 40)):
        yield _table("tables: cut", f"gzip after {place} bytes", "t.csv", cut)
    odd = {
        "UTF-16": good.decode().encode("utf-16"), "bytes that are no text": first + b"\xff\xfe\xfd,a\n", "an open quote": first + b'"a/0.png,a\n' + b"x\n" * 9,
        "rows longer than the header": b"image,label\n" + b"a/0.png,a,1\n" * 3, "zeros": bytes(4096), "empty": b"", "a header alone": first,
        "an open quote of 20 MB": first + b'"' + b"x\n" * 10_000_000,
    }  # fmt: skip
    for name, data in odd.items():
        yield _table("tables: cut", name, "t.csv", data)
    for value in ("../../../etc/passwd", "/etc/passwd", "a/../../../etc/passwd", "C:\\Windows\\x.png", "..\\..\\x.png", "/dev/zero", "a/\0.png", "~/x.png", "file:///etc/passwd", "\\\\host\\x", "a/0.png/../../../x", "."):
        listed = "\n".join(["image,label", *rows, f"{value},a"]).encode()
        yield _table("tables: path tricks", repr(value), "t.csv", listed, "--group-column", "image")


def _json() -> Iterator[HostileInput]:
    lines = [{"file_name": f"{label}/{k}.png", "label": label} for label in "ab" for k in range(6)]
    good = "\n".join(map(json.dumps, lines)).encode()
    odd = {
        "lists in lists": b'{"image": "a/0.png", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "objects in objects": b'{"a":' * 200_000,
        "one name twice": b'{"image": "a/0.png", "label": "a", "label": "b"}\n', "a number of 10,000 digits": b'{"image": ' + b"9" * 10_000 + b"}",
        "a line that is a list": b'{"image": "a/0.png"}\n[1, 2]\n', "40,000 names": json.dumps({f"c{k}": k for k in range(40_000)}).encode(),
        "other names in each line": b"\n".join(b'{"c%d": 1}' % k for k in range(32_000)), "no end": b'{"image": "a/0.png"', "no UTF-8": b'{"image": "\xff"}',
    }  # fmt: skip
    for name, data in odd.items():
        yield _table("JSON lines", name, "t.jsonl", data)
    for name, data in (("cut", good[:-9]), ("one name twice", good.replace(b'"label"', b'"file_name"')), ("another folder", good.replace(b"a/0", b"../../a/0"))):

        def make(folder: Path, data: bytes = data) -> list[str]:
            """A folder with metadata."""
            root = _good(folder / "set")
            (root / "metadata.jsonl").write_bytes(data)
            return _audit(root)

        yield HostileInput("JSON lines", f"metadata, {name}", make)


def _yaml() -> Iterator[HostileInput]:
    def laughs(open_: str, close: str, first: str, levels: int = 9) -> str:
        """Aliases of aliases."""
        lines = [f"a0: &a0 {first}"]
        for k in range(1, levels + 1):
            inner = ", ".join(f"{'' if open_ == '[' else f'k{i}: '}*a{k - 1}" for i in range(9))
            lines.append(f"a{k}: &a{k} {open_}{inner}{close}")
        return "\n".join([*lines, f"models: *a{levels}", ""])

    odd = {
        "billion laughs of lists": laughs("[", "]", "[lol, lol]"), "billion laughs of maps": laughs("{", "}", "{x: lol}"),
        "twenty levels": laughs("[", "]", "lol", 20), "merges of merges": "a0: &a0 {x: 1}\n" + "\n".join(f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 9)}], y{k}: 1}}" for k in range(1, 12)),
        "a list that contains itself": "models: &a [*a]\n", "a map that contains itself": "models: &a {b: *a}\n", "lists in lists": "models: " + "[" * 100_000,
        "maps in maps": "a: " + "{a: " * 100_000, "dashes": "- " * 100_000, "two of one name": "models: 2\nmodels: 4\n", "Python objects": "models: !!python/object/apply:os.system ['true']\n",
        "a number of 100,000 hexadecimal digits": "models: 0x" + "f" * 100_000, "a number of base 60": "models: 1" + ":59" * 100_000, "a day that does not exist": "models: 2026-99-99\n",
        "10 MiB": "# " + "x" * (10 << 20), "a thousand documents": "---\nmodels: 2\n" * 1000, "tabs": "models:\t- 2\n\t- 3\n", "an unknown anchor": "models: *nobody\n", "a list": "- 1\n- 2\n",
        "text": "models", "an unknown setting": "modls: 2\n", "zeros": "\0" * 100, "a tag": "models: !x 2\n", "infinity": "models: .inf\n", "NaN": "lr: .nan\n",
        "100,000 keys": "\n".join(f"k{k}: 1" for k in range(60_000)), "100,000 anchors": "\n".join(f"k{k}: &a{k} 1" for k in range(40_000)), "an unfinished quote": 'models: "2\n', "a key that is a list": "? [1, 2]\n: 3\n",
    }  # fmt: skip
    for name, text in odd.items():

        def make(folder: Path, text: str = text) -> list[str]:
            """A file of settings."""
            (folder / "settings.yaml").write_text(text, encoding="utf-8")
            return _audit("digits", "--config", folder / "settings.yaml")

        yield HostileInput("YAML", name, make)
        if "laughs" in name or "contains itself" in name or name in ("merges of merges", "lists in lists"):

            def study(folder: Path, text: str = text) -> list[str]:
                """A study's file."""
                (folder / "study.yaml").write_text(text, encoding="utf-8")
                return ["study", "rare-distinctive", "--config", str(folder / "study.yaml"), "--out", OUT]

            yield HostileInput("YAML", f"{name}, of a study", study)

            def finished(folder: Path, text: str = text) -> list[str]:
                """A run's own settings."""
                (folder / "run").mkdir()
                (folder / "run" / "config.yaml").write_text(text, encoding="utf-8")
                return ["report", str(folder / "run")]

            yield HostileInput("YAML", f"{name}, of a run", finished)
    yield HostileInput("YAML", "bytes that are no text", lambda f: ((f / "s.yaml").write_bytes(b"\xff\xfe\xfd"), _audit("digits", "--config", f / "s.yaml"))[1])
    for device in ("/dev/zero", "/dev/urandom", "/dev/null"):
        yield HostileInput("links and devices", f"--config {device}", lambda f, d=device: _audit("digits", "--config", d))


def _losses() -> Iterator[HostileInput]:
    table = pd.DataFrame({"model": [f"m{k // 8}" for k in range(64)], "image": [f"i{k % 8}" for k in range(64)], "label": "x", "role": "canary", "loss": 0.5, "included": [(k + k // 8) % 2 for k in range(64)]})  # fmt: skip
    csv = table.to_csv(index=False)
    lines = csv.splitlines()

    def losses(kind: str, name: str, data: bytes | Callable[[], bytes], file: str = "t.csv") -> HostileInput:
        """A table of losses."""

        def make(folder: Path) -> list[str]:
            """Write it."""
            (folder / file).write_bytes(data() if callable(data) else data)
            return ["audit", "losses", str(folder / file), "--out", OUT]

        return HostileInput(kind, name, make)

    for column in ("loss", "image", "model"):
        again = "\n".join([f"{lines[0]},{column}", *(f"{line},1" for line in lines[1:])]).encode()
        yield losses("tables: columns", f"losses, two of the name {column}", again)
    wide = "\n".join([lines[0] + "".join(f",logit:{k}" for k in range(200_000)), *lines[1:3]]).encode()
    yield losses("tables: columns", "losses, 200,000 classes", wide)
    for value in ("nan", "inf", "-inf", "", "x", "9" * 400):
        yield losses("losses", f"a loss of {value[:9]!r}", csv.replace("0.5", value, 1).encode())
    yield losses("tables: bomb", "losses, gzip", lambda: gzip.compress((lines[0] + "\n").encode() + (lines[1] + "\n").encode() * 12_000_000, 6))
    yield losses("losses", "half a line", csv[: len(csv) // 2].rsplit(",", 2)[0].encode())
    yield losses("losses", "empty", b"")
    yield losses("losses", "zeros", bytes(4096))
    out = io.BytesIO()
    table.to_parquet(out)
    for place, cut in _cuts(out.getvalue(), (4, 8, 100, 1000, len(out.getvalue()) - 1)):
        yield losses("losses", f"Parquet after {place} bytes", cut, "t.parquet")
    rows = 40_000_000
    same = pa.table({"model": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["m"]), "loss": pa.array(np.zeros(rows, np.float32))})

    def bomb() -> bytes:
        """Equal rows."""
        out = io.BytesIO()
        pq.write_table(same, out, compression="zstd")
        return out.getvalue()

    yield losses("Parquet: bomb", "losses, 40 million equal rows", bomb, "t.parquet")
    for device in ("/dev/zero", "/dev/null", "/"):
        yield HostileInput("links and devices", f"losses {device}", lambda f, d=device: ["audit", "losses", d, "--out", OUT])


# --- links, devices, weights -------------------------------------------------------------------------------------------


def _links() -> Iterator[HostileInput]:
    def linked(name: str, target: str, where: str) -> HostileInput:
        """A link to something that is no image, or is none's end."""

        def make(folder: Path) -> list[str]:
            """Make the link."""
            root = _good(folder / "set")
            if target == "pipe":
                os.mkfifo(folder / "pipe")
            if target == "socket":
                with socket.socket(socket.AF_UNIX) as listening:
                    os.chdir(folder)
                    listening.bind("socket")
            aim = Path(target) if target.startswith("/") else folder / target
            if where == "table":
                (root / "x.png").symlink_to(aim)
                rows = "".join(f"{label}/{k}.png,{label}\n" for label in "ab" for k in range(6))
                (root / "t.csv").write_text(f"image,label\n{rows}x.png,a\n")
                return _audit(root / "t.csv", "--follow-links")
            if where == "labels":
                return _audit(root, "--labels-csv", aim)
            if where == "source":
                return _audit(aim)
            (root / "a" / f"x{where}").symlink_to(aim)
            return ["images", "check", str(root), "--follow-links"]

        # in a folder it is a file that is not read, which images check counts as a problem; a table names it as an image
        return HostileInput("links and devices", name, make, (2,) if where in ("table", "labels", "source") else (1,))

    for target in ("/dev/zero", "/dev/urandom", "/dev/full", "pipe", "socket"):
        for where in (".png", ".bin", ".dcm", "table", "labels", "source"):
            yield linked(f"{target} {where}", target, where)
    for loop in ("itself", "the folder above", "nothing"):

        def make(folder: Path, loop: str = loop) -> list[str]:
            """A link that leads round, or nowhere."""
            root = _good(folder / "set")
            link = root / "a" / "x.png"
            link.symlink_to({"itself": link, "the folder above": root, "nothing": root / "gone.png"}[loop])
            return ["images", "check", str(root), "--follow-links"]

        yield HostileInput("links and devices", f"a link to {loop}", make, (0,) if loop == "the folder above" else (1,))


def _weights() -> Iterator[HostileInput]:
    def weights(name: str, file: str, write: Callable[[Path], object]) -> HostileInput:
        """Weights for a small network."""

        def make(folder: Path) -> list[str]:
            """Write them."""
            write(folder / file)
            return _audit("digits", "--model", "small_cnn", "--weights", folder / file)

        return HostileInput("weights", name, make)

    def zeros(path: Path, head: bytes) -> None:
        """An archive whose member unpacks to 1 GiB."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("archive/data.pkl" if path.suffix == ".pt" else "conv.weight.npy", "w", force_zip64=True) as stream:
            stream.write(head)
            for _ in range(64):
                stream.write(bytes(1 << 24))

    yield weights("npz, a bomb", "w.npz", lambda p: zeros(p, _npy_head((1 << 28,), "<f4")))
    yield weights("npz, a lie", "w.npz", lambda p: _zip_of(p, {"conv.weight.npy": _npy_head((10**12,), "<f4")}))
    yield weights("PyTorch, a bomb", "w.pt", lambda p: zeros(p, b""))
    yield weights("PyTorch, code", "w.pt", lambda p: p.write_bytes(b"\x80\x02cos\nsystem\nX\4\0\0\0true\x85R."))
    for size in (2**63 - 1, 2**40, 10**6, 0):
        yield weights(f"safetensors, a header of {size} bytes", "w.safetensors", lambda p, s=size: p.write_bytes(struct.pack("<Q", s) + b"{}"))
    lie = json.dumps({"w": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    yield weights("safetensors, a lie", "w.safetensors", lambda p: p.write_bytes(struct.pack("<Q", len(lie)) + lie))
