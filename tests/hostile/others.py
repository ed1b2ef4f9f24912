"""Settings in YAML, tables of losses, links and devices, weights."""

import gzip
import io
import json
import os
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.arrays import npy_head, write_zip
from tests.hostile.commands import OUT, HostileInput, audit, cuts, sound_images


def yaml_files() -> Iterator[HostileInput]:
    def laughs(open_: str, close: str, first: str, levels: int = 9) -> str:
        """Aliases of aliases."""
        lines = [f"a0: &a0 {first}"]
        for k in range(1, levels + 1):
            inner = ", ".join(f"{'' if open_ == '[' else f'k{i}: '}*a{k - 1}" for i in range(9))
            lines.append(f"a{k}: &a{k} {open_}{inner}{close}")
        return "\n".join([*lines, f"models: *a{levels}", ""])

    odd = {
        "billion laughs of lists": laughs("[", "]", "[lol, lol]"),
        "billion laughs of maps": laughs("{", "}", "{x: lol}"),
        "twenty levels": laughs("[", "]", "lol", 20),
        "merges of merges": "a0: &a0 {x: 1}\n"
        + "\n".join(f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 9)}], y{k}: 1}}" for k in range(1, 12)),
        "a list that contains itself": "models: &a [*a]\n",
        "a map that contains itself": "models: &a {b: *a}\n",
        "lists in lists": "models: " + "[" * 100_000,
        "maps in maps": "a: " + "{a: " * 100_000,
        "dashes": "- " * 100_000,
        "two of one name": "models: 2\nmodels: 4\n",
        "Python objects": "models: !!python/object/apply:os.system ['true']\n",
        "a number of 100,000 hexadecimal digits": "models: 0x" + "f" * 100_000,
        "a number of base 60": "models: 1" + ":59" * 100_000,
        "a day that does not exist": "models: 2026-99-99\n",
        "10 MiB": "# " + "x" * (10 << 20),
        "a thousand documents": "---\nmodels: 2\n" * 1000,
        "tabs": "models:\t- 2\n\t- 3\n",
        "an unknown anchor": "models: *nobody\n",
        "a list": "- 1\n- 2\n",
        "text": "models",
        "an unknown setting": "modls: 2\n",
        "zeros": "\0" * 100,
        "a tag": "models: !x 2\n",
        "infinity": "models: .inf\n",
        "NaN": "lr: .nan\n",
        "100,000 keys": "\n".join(f"k{k}: 1" for k in range(60_000)),
        "100,000 anchors": "\n".join(f"k{k}: &a{k} 1" for k in range(40_000)),
        "an unfinished quote": 'models: "2\n',
        "a key that is a list": "? [1, 2]\n: 3\n",
    }
    for name, text in odd.items():

        def make(folder: Path, text: str = text) -> list[str]:
            """A file of settings."""
            (folder / "settings.yaml").write_text(text, encoding="utf-8")
            return audit("digits", "--config", folder / "settings.yaml")

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
    yield HostileInput(
        "YAML",
        "bytes that are no text",
        lambda f: ((f / "s.yaml").write_bytes(b"\xff\xfe\xfd"), audit("digits", "--config", f / "s.yaml"))[1],
    )
    for device in ("/dev/zero", "/dev/urandom", "/dev/null"):
        yield HostileInput(
            "links and devices", f"--config {device}", lambda f, d=device: audit("digits", "--config", d)
        )


def losses_tables() -> Iterator[HostileInput]:
    rows = [
        {"image": f"{split}{k}", "label": "xy"[k % 2], "split": split, "seed": seed, "role": role}
        | {"member": split == "canary" and (k // 2 + (role == "B")) % 2 == 0, "loss": 0.5}
        for seed in range(4)
        for role in "AB"
        for split in ("canary", "test")
        for k in range(24)
    ]
    table = pd.DataFrame(rows)
    csv = table.to_csv(index=False)
    lines = csv.splitlines()

    def losses(kind: str, name: str, data: bytes | Callable[[], bytes], file: str = "t.csv") -> HostileInput:
        """A table of losses."""

        def make(folder: Path) -> list[str]:
            """Write it."""
            (folder / file).write_bytes(data() if callable(data) else data)
            return ["audit", "losses", str(folder / file), "--out", OUT]

        return HostileInput(kind, name, make)

    for column in ("loss", "image", "label"):
        again = "\n".join([f"{lines[0]},{column}", *(f"{line},1" for line in lines[1:])]).encode()
        yield losses("tables: columns", f"losses, two of the name {column}", again)
    wide = "\n".join([lines[0] + "".join(f",logit:{k}" for k in range(200_000)), *lines[1:3]]).encode()
    yield losses("tables: columns", "losses, 200,000 classes", wide)
    for value in ("nan", "inf", "-inf", "", "x", "9" * 400):
        yield losses("losses", f"a loss of {value[:9]!r}", csv.replace("0.5", value, 1).encode())
    yield losses(
        "tables: bomb",
        "losses, gzip",
        lambda: gzip.compress((lines[0] + "\n").encode() + (lines[1] + "\n").encode() * 12_000_000, 6),
    )
    yield losses("losses", "half a line", csv[: len(csv) // 2].rsplit(",", 1)[0].encode())
    yield losses("losses", "empty", b"")
    yield losses("losses", "zeros", bytes(4096))
    out = io.BytesIO()
    table.to_parquet(out)
    for place, cut in cuts(out.getvalue(), (4, 8, 100, 1000, len(out.getvalue()) - 1)):
        yield losses("losses", f"Parquet after {place} bytes", cut, "t.parquet")
    rows = 40_000_000
    same = pa.table(
        {
            "model": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["m"]),
            "loss": pa.array(np.zeros(rows, np.float32)),
        }
    )

    def bomb() -> bytes:
        """Equal rows."""
        out = io.BytesIO()
        pq.write_table(same, out, compression="zstd")
        return out.getvalue()

    yield losses("Parquet: bomb", "losses, 40 million equal rows", bomb, "t.parquet")
    for device in ("/dev/zero", "/dev/null", "/"):
        yield HostileInput(
            "links and devices", f"losses {device}", lambda f, d=device: ["audit", "losses", d, "--out", OUT]
        )


def links() -> Iterator[HostileInput]:
    def linked(name: str, target: str, where: str) -> HostileInput:
        """A link to something that is no image, or is none's end."""

        def make(folder: Path) -> list[str]:
            """Make the link."""
            root = sound_images(folder / "set")
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
                return audit(root / "t.csv", "--follow-links")
            if where == "labels":
                return audit(root, "--labels-csv", aim)
            if where == "source":
                return audit(aim)
            (root / "a" / f"x{where}").symlink_to(aim)
            return ["images", "check", str(root), "--follow-links"]

        # in a folder it is a file that is not read, which images check counts; a table names it as an image
        return HostileInput("links and devices", name, make, (2,) if where in ("table", "labels", "source") else (1,))

    for target in ("/dev/zero", "/dev/urandom", "/dev/full", "pipe", "socket"):
        for where in (".png", ".bin", ".dcm", "table", "labels", "source"):
            yield linked(f"{target} {where}", target, where)
    for loop in ("itself", "the folder above", "nothing"):

        def make(folder: Path, loop: str = loop) -> list[str]:
            """A link that leads round, or nowhere."""
            root = sound_images(folder / "set")
            link = root / "a" / "x.png"
            link.symlink_to({"itself": link, "the folder above": root, "nothing": root / "gone.png"}[loop])
            return ["images", "check", str(root), "--follow-links"]

        yield HostileInput("links and devices", f"a link to {loop}", make, (0,) if loop == "the folder above" else (1,))


def weights_files() -> Iterator[HostileInput]:
    def weights(name: str, file: str, write: Callable[[Path], object]) -> HostileInput:
        """Weights for a small network."""

        def make(folder: Path) -> list[str]:
            """Write them."""
            write(folder / file)
            return audit("digits", "--model", "small_cnn", "--weights", folder / file)

        return HostileInput("weights", name, make)

    def zeros(path: Path, head: bytes) -> None:
        """An archive whose member unpacks to 1 GiB."""
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(
                "archive/data.pkl" if path.suffix == ".pt" else "conv.weight.npy", "w", force_zip64=True
            ) as stream,
        ):
            stream.write(head)
            for _ in range(64):
                stream.write(bytes(1 << 24))

    yield weights("npz, a bomb", "w.npz", lambda p: zeros(p, npy_head((1 << 28,), "<f4")))
    yield weights("npz, a lie", "w.npz", lambda p: write_zip(p, {"conv.weight.npy": npy_head((10**12,), "<f4")}))
    yield weights("PyTorch, a bomb", "w.pt", lambda p: zeros(p, b""))
    yield weights("PyTorch, code", "w.pt", lambda p: p.write_bytes(b"\x80\x02cos\nsystem\nX\4\0\0\0true\x85R."))
    for size in (2**63 - 1, 2**40, 10**6, 0):
        yield weights(
            f"safetensors, a header of {size} bytes",
            "w.safetensors",
            lambda p, s=size: p.write_bytes(struct.pack("<Q", s) + b"{}"),
        )
    lie = json.dumps({"w": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}}).encode()
    yield weights("safetensors, a lie", "w.safetensors", lambda p: p.write_bytes(struct.pack("<Q", len(lie)) + lie))
