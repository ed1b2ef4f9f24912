"""Tables of images: CSV, TSV, JSON lines, Parquet and Arrow with images in their rows."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.commands import HostileInput, audit, cuts, gzip_of, sound_images, source, table_of_images
from tests.hostile.medical import nifti_bytes, tiff_bytes
from tests.hostile.rasters import png_declaring
from tests.images.making import png_bytes


def shard_table(images: list[bytes]) -> pa.Table:
    return pa.table(
        {"image": [{"bytes": data, "path": None} for data in images], "label": [str(k % 2) for k in range(len(images))]}
    )


def shards() -> Iterator[HostileInput]:
    sound = [png_bytes([bytes([k] * 8)] * 8, 8, 8, 0) for k in range(12)]
    bad = np.random.default_rng(0).random((8, 8)).astype("<f4")
    bad[1, 1] = np.nan
    inside = {
        "a PNG of 65,535 x 65,535": png_declaring(65_535, 65_535, 8, 0),
        "a TIFF with NaN": tiff_bytes(bad),
        "no image": b"x" * 99,
        "an archive": b"PK\3\4" + bytes(99),
        "a bomb": gzip_of(nifti_bytes(np.zeros(0, "u1"), 2, (1000, 1000, 1000)), 1 << 28),
    }
    for name, data in inside.items():
        table = shard_table([*sound, data])
        yield source("Parquet, Arrow: images in rows", name, "x.parquet", lambda p, t=table: pq.write_table(t, p))
        yield source(
            "Parquet, Arrow: images in rows", f"{name}, Arrow", "x.arrow", lambda p, t=table: write_arrow(p, t)
        )

    def cut(path: Path, place: float, write: Callable[[Path, pa.Table], object]) -> None:
        """A file that ends early."""
        write(path, shard_table(sound))
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * place)])

    for place in (0.01, 0.2, 0.5, 0.8, 0.99):
        yield source(
            "Parquet, Arrow: cut",
            f"at {place}",
            "x.parquet",
            lambda p, a=place: cut(p, a, lambda q, t: pq.write_table(t, q)),
        )
        yield source("Parquet, Arrow: cut", f"at {place}, Arrow", "x.arrow", lambda p, a=place: cut(p, a, write_arrow))
    rows = 40_000_000
    same = pa.table(
        {
            "image": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["a.png"]),
            "label": pa.array(np.zeros(rows, bool)),
        }
    )
    yield source(
        "Parquet: bomb", "40 million equal rows", "x.parquet", lambda p: pq.write_table(same, p, compression="zstd")
    )
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000, np.int8)), ["x" * 2_000_000])
    yield source(
        "Parquet: bomb",
        "8 GB of one text",
        "x.parquet",
        lambda p: pq.write_table(
            pa.table({"image": [f"{k}.png" for k in range(4_000)], "label": long}), p, compression="zstd"
        ),
    )
    yield source(
        "Parquet: bomb",
        "512 MiB in a value",
        "x.parquet",
        lambda p: pq.write_table(
            pa.table({"image": ["a.png", "b.png"], "label": ["x" * (1 << 29), "y"]}),
            p,
            compression="zstd",
            use_dictionary=False,
        ),
    )
    wide = pa.table([pa.array(["a.png"])] * 40_000, names=["image", *(f"c{k}" for k in range(39_999))])
    yield source("tables: columns", "40,000 in Parquet", "x.parquet", lambda p: pq.write_table(wide, p))
    doubled = pa.table([pa.array(["a.png"])] * 3, names=["image", "label", "label"])
    yield source("tables: columns", "two of one name in Parquet", "x.parquet", lambda p: pq.write_table(doubled, p))


def write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def csvs() -> Iterator[HostileInput]:
    rows = [f"{label}/{k}.png,{label}" for label in "ab" for k in range(6)]
    good = "\n".join(["image,label", *rows]).encode()
    for n in (33_000, 200_000):
        for separator, suffix in ((",", ".csv"), ("\t", ".tsv"), (";", ".csv")):
            wide = separator.join(["image", "label", *(f"c{k}" for k in range(n))]).encode()
            for name, line in (
                ("empty rows", b""),
                ("full rows", separator.join(["a/0.png", "a", *["1"] * n]).encode()),
            ):
                yield table_of_images(
                    "tables: columns",
                    f"{n:,} in {suffix}, {separator!r}, {name}",
                    f"t{suffix}",
                    wide + b"\n" + line + b"\n" + line,
                )
    for header in (
        "image,label,label",
        "image,image,label",
        "image,label,x,x",
        "\ufeffimage,label,image",
        '"image",label,image',
        "path,label,path",
    ):
        again = "\n".join([header, *(f"{r},z,z"[: len(r) + 2 * (header.count(",") - 1)] for r in rows)]).encode()
        yield table_of_images("tables: columns", f"two of one name: {header!r}", "t.csv", again)
        yield table_of_images("tables: columns", f"two of one name: {header!r}, gzipped", "t.csv", gzip.compress(again))
    first = b"image,label\n"
    yield table_of_images("tables: bomb", "gzip of one value", "t.csv", lambda: gzip_of(first, 1 << 30))
    yield table_of_images(
        "tables: bomb", "gzip of many lines", "t.csv", lambda: gzip.compress(first + b"a/0.png,a\n" * 30_000_000, 6)
    )
    yield table_of_images(
        "tables: bomb", "gzip of empty lines", "t.csv", lambda: gzip.compress(first + b"\n" * (1 << 29), 6)
    )
    short = ",".join(["image", "label", *(f"c{k}" for k in range(30_000))]).encode() + b"\n" + b"a\n" * 100_000
    yield table_of_images("tables: bomb", "rows far shorter than the header", "t.csv", short)
    yield table_of_images("tables: bomb", "a first line without an end", "t.csv", b"a" * (1 << 25))
    for place, cut in cuts(gzip.compress(good), (3, 12, 20, 40)):
        yield table_of_images("tables: cut", f"gzip after {place} bytes", "t.csv", cut)
    odd = {
        "UTF-16": good.decode().encode("utf-16"),
        "bytes that are no text": first + b"\xff\xfe\xfd,a\n",
        "an open quote": first + b'"a/0.png,a\n' + b"x\n" * 9,
        "rows longer than the header": b"image,label\n" + b"a/0.png,a,1\n" * 3,
        "zeros": bytes(4096),
        "empty": b"",
        "a header alone": first,
        "an open quote of 20 MB": first + b'"' + b"x\n" * 10_000_000,
    }
    for name, data in odd.items():
        yield table_of_images("tables: cut", name, "t.csv", data)
    for value in (
        "../../../etc/passwd",
        "/etc/passwd",
        "a/../../../etc/passwd",
        "C:\\Windows\\x.png",
        "..\\..\\x.png",
        "/dev/zero",
        "a/\0.png",
        "~/x.png",
        "file:///etc/passwd",
        "\\\\host\\x",
        "a/0.png/../../../x",
        ".",
    ):
        listed = "\n".join(["image,label", *rows, f"{value},a"]).encode()
        yield table_of_images("tables: path tricks", repr(value), "t.csv", listed, "--group-column", "image")


def json_lines() -> Iterator[HostileInput]:
    lines = [{"file_name": f"{label}/{k}.png", "label": label} for label in "ab" for k in range(6)]
    good = "\n".join(map(json.dumps, lines)).encode()
    odd = {
        "lists in lists": b'{"image": "a/0.png", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "objects in objects": b'{"a":' * 200_000,
        "one name twice": b'{"image": "a/0.png", "label": "a", "label": "b"}\n',
        "a number of 10,000 digits": b'{"image": ' + b"9" * 10_000 + b"}",
        "a line that is a list": b'{"image": "a/0.png"}\n[1, 2]\n',
        "40,000 names": json.dumps({f"c{k}": k for k in range(40_000)}).encode(),
        "other names in each line": b"\n".join(b'{"c%d": 1}' % k for k in range(32_000)),
        "no end": b'{"image": "a/0.png"',
        "no UTF-8": b'{"image": "\xff"}',
    }
    for name, data in odd.items():
        yield table_of_images("JSON lines", name, "t.jsonl", data)
    for name, data in (
        ("cut", good[:-9]),
        ("one name twice", good.replace(b'"label"', b'"file_name"')),
        ("another folder", good.replace(b"a/0", b"../../a/0")),
    ):

        def make(folder: Path, data: bytes = data) -> list[str]:
            """A folder with metadata."""
            root = sound_images(folder / "set")
            (root / "metadata.jsonl").write_bytes(data)
            return audit(root)

        yield HostileInput("JSON lines", f"metadata, {name}", make)
