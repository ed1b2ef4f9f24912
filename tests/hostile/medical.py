"""TIFF, NIfTI and DICOM."""

import gzip
import io
import struct
from collections.abc import Iterator

import numpy as np
import tifffile

from tests.hostile.commands import NO_PIXELS, HostileInput, cuts, gzip_of, image, patched
from tests.hostile.rasters import HUGE


def tiff_bytes(values: np.ndarray, **settings: object) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, values, **settings)
    return out.getvalue()


def tag_place(data: bytes, code: int) -> int:
    """Where the entry of a tag begins in a little-endian TIFF of one page."""
    first = struct.unpack("<I", data[4:8])[0]
    count = struct.unpack("<H", data[first : first + 2])[0]
    return next(p for k in range(count) if struct.unpack("<H", data[(p := first + 2 + 12 * k) :][:2])[0] == code)


def tiffs() -> Iterator[HostileInput]:
    plain = tiff_bytes(np.random.default_rng(0).integers(0, 255, (16, 16), np.uint8))
    for kind in ("<f2", "<f4", "<f8"):
        for name, value in NO_PIXELS.items():
            values = np.random.default_rng(0).random((8, 8)).astype(kind)
            values[3, 4] = value
            yield image("TIFF: pixels that are no numbers", f"{name} in {kind}", ".tif", tiff_bytes(values))
            if kind == "<f4":
                packed = tiff_bytes(values, compression="zlib")
                yield image("TIFF: pixels that are no numbers", f"{name}, compressed", ".tif", packed)
    for place, cut in cuts(plain, (1, 3, 4, 7, 8, 9, 10, 20, 40, 80, 150, len(plain) - 100, len(plain) - 1)):
        yield image("TIFF: cut", f"after {place} bytes", ".tif", cut)
    for code, name in ((256, "width"), (257, "height"), (258, "bits"), (277, "samples"), (278, "rows"), (279, "bytes")):
        entry = tag_place(plain, code)
        for value in (0, 65_535, 2**32 - 1):
            lie = patched(plain, entry + 2, struct.pack("<HII", 4, 1, value))
            yield HostileInput(
                "TIFF: header that is a lie", f"{name} {value}", image("", "", ".tif", lie).make, (0, 1, 2)
            )  # rows and bytes of a strip may be anything where the pixels are all there
        lie = patched(plain, entry + 4, struct.pack("<II", 2**32 - 1, 8))
        yield HostileInput(
            "TIFF: header that is a lie", f"2**32 values of {name}", image("", "", ".tif", lie).make, (0, 1, 2)
        )
    first = struct.unpack("<I", plain[4:8])[0]
    after = first + 2 + 12 * struct.unpack("<H", plain[first : first + 2])[0]
    loop = patched(plain, after, struct.pack("<I", first))
    yield HostileInput(
        "TIFF: header that is a lie",
        "pages in a circle",
        image("", "", ".tif", loop, "--frames", "all").make,
        (0, 1, 2),
    )
    yield image(
        "TIFF: bomb",
        "81 million pixels of zero",
        ".tif",
        lambda: tiff_bytes(np.zeros((9_000, 9_000), np.uint8), compression="zlib"),
    )
    tiles = patched(
        patched(plain, tag_place(plain, 256) + 2, struct.pack("<HII", 4, 1, 9_000)),
        tag_place(plain, 257) + 2,
        struct.pack("<HII", 4, 1, 9_000),
    )
    yield image(
        "TIFF: bomb", "81 million pixels in no bytes", ".tif", patched(tiles, tag_place(tiles, 279) + 8, bytes(4))
    )


def nifti_bytes(
    values: np.ndarray, kind: int, shape: tuple[int, ...] | None = None, offset: float = 352.0, **more: float
) -> bytes:
    shape = shape or values.shape
    head = bytearray(352)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into(f"<{1 + len(shape)}h", head, 40, len(shape), *(s if -32768 <= s < 32768 else -1 for s in shape))
    struct.pack_into("<hh", head, 70, kind, 8 * values.dtype.itemsize)
    struct.pack_into("<8f", head, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<3f", head, 108, offset, more.get("slope", 1.0), more.get("inter", 0.0))
    head[344:348] = b"n+1\0"
    return bytes(head) + values.tobytes()


def niftis() -> Iterator[HostileInput]:
    values = np.random.default_rng(0).integers(0, 99, (8, 8, 8)).astype("<i2")
    plain = nifti_bytes(values, 4)
    for kind, code in (("<f4", 16), ("<f8", 64)):
        for name, value in NO_PIXELS.items():
            bad = values.astype(kind)
            bad[2, 3, 4] = value
            yield image("NIfTI: voxels that are no numbers", f"{name} in {kind}", ".nii", nifti_bytes(bad, code))
            packed = gzip.compress(nifti_bytes(bad, code))
            yield image("NIfTI: voxels that are no numbers", f"{name} in {kind}, gzipped", ".nii.gz", packed)
    for place, cut in cuts(plain, (3, 40, 70, 108, 200, 343, 347, 351, 352, 360, len(plain) - 1)):
        yield image("NIfTI: cut", f"after {place} bytes", ".nii", cut)
        yield image("NIfTI: cut", f"after {place} bytes, gzipped", ".nii.gz", gzip.compress(cut))
    packed = gzip.compress(plain)
    for place, cut in cuts(packed, (2, 9, 12, 30, len(packed) // 2, len(packed) - 9)):
        yield image("NIfTI: cut", f"gzip after {place} bytes", ".nii.gz", cut)
    lies = {
        "1,000 to the third": nifti_bytes(values, 4, (1000, 1000, 1000)),
        "32,767 to the third": nifti_bytes(values, 4, (32767,) * 3),
        "a side of 0": nifti_bytes(values, 4, (8, 0, 8)),
        "a negative side": nifti_bytes(values, 4, (8, -8, 8)),
        "voxels at 1e30": nifti_bytes(values, 4, offset=1e30),
        "voxels at NaN": nifti_bytes(values, 4, offset=np.nan),
        "voxels before the file": nifti_bytes(values, 4, offset=-1e9),
        "a type that does not exist": nifti_bytes(values, 999),
        "complex voxels": nifti_bytes(values.astype("<c8"), 32),
        "an extension of 2 GiB": patched(nifti_bytes(values, 4, offset=2e9), 348, b"\1\0\0\0\xf0\xff\xff\x7f"),
    }
    for name, data in lies.items():
        yield image("NIfTI: header that is a lie", name, ".nii", data)
        yield image("NIfTI: header that is a lie", f"{name}, gzipped", ".nii.gz", gzip.compress(data))
    for slope in (np.inf, np.nan, 3e38):
        lie = nifti_bytes(values, 4, slope=slope)
        yield HostileInput(
            "NIfTI: header that is a lie", f"a slope of {slope}", image("", "", ".nii", lie).make, (0, 1, 2)
        )
    for name, shape, kind, width in (
        ("bytes", (1000, 1000, 1000), 2, 1),
        ("floats", (800, 800, 800), 64, 8),
        ("16 bits", (1000, 1000, 900), 4, 2),
    ):
        head = nifti_bytes(np.zeros(0, f"u{width}"), kind, shape)
        size = int(np.prod(shape)) * width
        yield image("NIfTI: bomb", f"zeros, {name}", ".nii.gz", lambda h=head, s=size: gzip_of(h, min(s, 1 << 30)))


def dicoms() -> Iterator[HostileInput]:
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
    for place, cut in cuts(
        plain, (3, 100, 131, 132, 140, 160, 200, 250, 300, 340, 380, 420, len(plain) - 140, len(plain) - 1)
    ):
        yield image("DICOM: cut", f"after {place} bytes", ".dcm", cut)
    for name, elements in {
        "65,535 x 65,535": {"Rows": 65535, "Columns": 65535},
        "no rows": {"Rows": 0},
        "9,000 x 9,000": {"Rows": 9000, "Columns": 9000},
        "65,535 samples": {"SamplesPerPixel": 65535},
        "no samples": {"SamplesPerPixel": 0},
        "2**31 frames": {"NumberOfFrames": str(HUGE)},
        "-1 frames": {"NumberOfFrames": "-1"},
        "64 bits": {"BitsAllocated": 64, "BitsStored": 64},
        "7 bits": {"BitsAllocated": 7},
        "no bits": {"BitsAllocated": 0, "BitsStored": 0},
        "an unknown photometric": {"PhotometricInterpretation": "XYZ"},
    }.items():
        codes = (0, 1, 2) if name == "-1 frames" else (2,)  # taken for one frame, which it is
        made = image(
            "", "", ".dcm", lambda e=elements: of(**e), *(("--frames", "all") if "frames" in name else ())
        ).make
        yield HostileInput("DICOM: header that is a lie", name, made, (1, *codes))
    for keyword, kind, bits in (("FloatPixelData", "<f4", 32), ("DoubleFloatPixelData", "<f8", 64)):
        for name, value in NO_PIXELS.items():

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

            yield image("DICOM: pixels that are no numbers", f"{name} in {keyword}", ".dcm", no_number)

    def deflated(rows: int, cut: int = 0) -> bytes:
        """A deflated data set of zeros."""
        data = dicom(np.zeros((rows, 10_000), np.uint16))
        data.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
        whole = written(data)
        return whole[: len(whole) - cut]

    yield image("DICOM: bomb", "deflated", ".dcm", lambda: deflated(20_000))
    yield image("DICOM: cut", "deflated", ".dcm", lambda: deflated(10, 40))
    pixels = plain.rindex(b"\xe0\x7f\x10\0")
    longer = image("", "", ".dcm", patched(plain, pixels + 8, b"\xf0\xff\xff\xff")).make
    # all pixels that the rows and columns need are there
    yield HostileInput("DICOM: header that is a lie", "pixels of 4 GiB", longer, (0, 1, 2))
    yield image(
        "DICOM: header that is a lie", "pixels of no end", ".dcm", patched(plain, pixels + 8, b"\xff\xff\xff\xff")
    )
    item = b"\x08\0\x40\x11SQ\0\0\xff\xff\xff\xff\xfe\xff\0\xe0\xff\xff\xff\xff"
    at = plain.index(b"\x08\0\x16\0UI")
    yield image("DICOM: header that is a lie", "100,000 sequences in each other", ".dcm", plain[:at] + item * 100_000)
    for syntax in ("RLELossless", "JPEGBaseline8Bit", "JPEG2000Lossless", "JPEGLosslessSV1", "JPEGLSLossless"):

        def encapsulated(syntax: str = syntax, lie: int = 9_000) -> bytes:
            """A few bytes that are said to be a large compressed frame."""
            data = dicom(stored, Rows=lie, Columns=lie)
            data.file_meta.TransferSyntaxUID = getattr(pydicom.uid, syntax)
            data.PixelData = pydicom.encaps.encapsulate([bytes(64) + b"\xff\xd8\xff\xd9" * 4])
            data["PixelData"].VR = "OB"
            return written(data)

        yield image("DICOM: bomb", f"{syntax} of 81 million pixels", ".dcm", encapsulated)
