"""PNG, JPEG, GIF, WebP, BMP, JPEG 2000 and PPM."""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from tests.hostile.commands import HostileInput, cuts, image, patched
from tests.images.making import png_bytes

HUGE = 2**31 - 1


def saved(image: Image.Image, kind: str, **settings: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_declaring(width: int, height: int, bits: int, colours: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    pixels = png_chunk(b"IDAT", zlib.compress(bytes(1 << 16)))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + pixels + png_chunk(b"IEND", b"")


def png_bomb(side: int, samples: int) -> bytes:
    colours = {1: 0, 3: 2, 4: 6}[samples]
    packer, row = zlib.compressobj(9), bytes(1 + samples * side)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", pixels) + png_chunk(b"IEND", b"")


def rasters() -> Iterator[HostileInput]:
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    colour, grey = Image.fromarray(noise), Image.fromarray(noise[..., 0])
    png = png_bytes([bytes(range(8))] * 8, 8, 8, 0)
    for bits, colours in ((8, 0), (16, 0), (8, 2), (8, 6)):
        for side in ((0, 8), (HUGE, HUGE), (65_535, 65_535), (10_001, 10_001), (9_000, 9_000)):
            yield image(
                "PNG: size that is a lie",
                f"{side[0]} x {side[1]}, {bits} bits, type {colours}",
                ".png",
                png_declaring(*side, bits, colours),
            )
    for samples in (1, 3, 4):
        yield image("PNG: bomb", f"{samples} samples", ".png", lambda s=samples: png_bomb(9_000, s))
    text = zlib.compress(bytes(1 << 28), 9)
    for name, chunk in (("zTXt", b"k\0\0" + text), ("iCCP", b"k\0\0" + text), ("iTXt", b"k\0\1\0\0\0" + text)):
        yield HostileInput(
            "PNG: bomb",
            f"packed text {name}",
            lambda f, n=name, c=chunk: image("", "", ".png", png[:33] + png_chunk(n.encode(), c) + png[33:]).make(f),
            (0, 1, 2),
        )  # the pixels are sound, and Pillow bounds or leaves out such text
    frames = png[:33] + png_chunk(b"acTL", struct.pack(">II", HUGE, 0)) + png[33:]
    yield HostileInput(
        "PNG: size that is a lie", "2**31 frames", image("", "", ".png", frames, "--frames", "all").make, (0, 1, 2)
    )
    whole = {
        "PNG": (".png", png),
        "JPEG": (".jpg", saved(colour, "JPEG")),
        "GIF": (".gif", saved(grey, "GIF")),
        "WebP": (".webp", saved(colour, "WEBP")),
        "BMP": (".bmp", saved(colour, "BMP")),
        "JPEG 2000": (".jp2", saved(colour, "JPEG2000")),
        "PPM": (".ppm", saved(colour, "PPM")),
    }
    for kind, (suffix, data) in whole.items():
        for place, cut in cuts(data, (0, 1, 3, 9, 17, 21, 25, 40, len(data) // 2)):
            yield image(f"{kind}: cut", f"after {place} bytes", suffix, cut)
    jpeg = whole["JPEG"][1]
    frame = jpeg.index(b"\xff\xc0") + 5
    for height, width in ((65_535, 65_535), (0, 16), (16, 0), (65_500, 1_500)):
        size = struct.pack(">HH", height, width)
        yield image("JPEG: size that is a lie", f"{width} x {height}", ".jpg", patched(jpeg, frame, size))
    many = saved(colour, "JPEG", progressive=True)
    scan = many.index(b"\xff\xda", many.index(b"\xff\xda") + 2)
    end = many.index(b"\xff\xda", scan + 2)
    scans = patched(many[:scan] + many[scan:end] * 3_000 + many[end:], many.index(b"\xff\xc2") + 5, b"\x10\0\x10\0")
    yield image("JPEG: bomb", "3,000 scans of 4,096 x 4,096 pixels", ".jpg", scans)
    for width, height in ((65_535, 65_535), (0, 0)):
        size = struct.pack("<HH", width, height)
        lie = patched(whole["GIF"][1], 6, size)
        codes = (2,) if width else (0, 1, 2)  # a screen of no size takes that of its frame
        yield HostileInput(
            "GIF: size that is a lie", f"{width} x {height}", image("", "", ".gif", lie).make, (1, *codes)
        )
    canvas = b"RIFF\0\1\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6 + bytes(232)
    yield image("WebP: size that is a lie", "16 million x 16 million", ".webp", canvas)
    for width, height in ((HUGE, HUGE), (HUGE, 1), (1, -HUGE), (0, 0), (40_000, 2_400)):
        size = struct.pack("<ii", width, height)
        yield image("BMP: size that is a lie", f"{width} x {height}", ".bmp", patched(whole["BMP"][1], 18, size))
    packed = struct.pack("<2sIHHIIiiHHIIIIII", b"BM", 0, 0, 0, 1078, 40, 9_000, 9_000, 1, 8, 1, 0, 0, 0, 256, 0)
    yield image("BMP: bomb", "81 million pixels in runs", ".bmp", packed + bytes(1024) + b"\xff\1" * 5_000 + b"\0\1")
    codestream = whole["JPEG 2000"][1].index(b"\xff\x4f\xff\x51") + 8
    for width, height in ((2**32 - 1, 2**32 - 1), (60_000, 60_000), (9_900, 9_900)):
        data = patched(whole["JPEG 2000"][1], codestream, struct.pack(">II", width, height))
        header = data.index(b"ihdr") + 4
        yield image(
            "JPEG 2000: size that is a lie",
            f"{width} x {height}",
            ".jp2",
            patched(data, header, struct.pack(">II", height, width)),
        )
    tiles = patched(whole["JPEG 2000"][1], codestream + 16, struct.pack(">II", 1, 1))
    yield HostileInput(  # OpenJPEG decodes the tile that is there and leaves the others black
        "JPEG 2000: size that is a lie", "tiles of one pixel", image("", "", ".jp2", tiles).make, (0, 1, 2)
    )
    for size in (b"99999 99999", b"9" * 5_000 + b" 1", b"-1 8", b"0 0", b"9999 9999", b"8 x"):
        yield image("PPM: size that is a lie", size[:12].decode(), ".ppm", b"P6\n" + size + b"\n255\n" + bytes(99))
