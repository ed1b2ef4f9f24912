"""Folders of any layout: each file is counted once, as an image or as what was left out, or one line says why not."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from memorisk.images.identity import normal_label
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError


def encoded(kind: str) -> bytes:
    """A small picture."""
    out = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(out, kind)
    return out.getvalue()


READABLE = (encoded("PNG"), encoded("JPEG"), encoded("GIF"))
CONTENTS = (*READABLE, b"", b"patient,label\n1,2\n", READABLE[0][:40])
FOLDERS = ("nv", "MEL", "train", "test", "images", ".hidden", "__MACOSX", "a b", "\u00e9", "e\u0301", "x.png", "\u5f20")
STEMS = (
    *("a", "A", "scan.1", "..x", ".seen", "w\u00e4rme", "wa\u0308rme", "\u202egnp", " lead", "trail ", "a\nb", "-rf"),
    *("x" * 120, "%s{0}", "train", "0", "\U0001f468\u200d\U0001f469", "broken\udcff"),
)
SUFFIXES = (".png", ".PNG", ".jpg", ".JPeG", ".Tif", "", ".txt", ".png.txt", ".csv", ".", ".dat")
RASTER = (".png", ".jpg", ".jpeg", ".tif")
LINKS = ("a file", "a folder", "itself", "nothing", "outside")
place = st.lists(st.sampled_from(FOLDERS), max_size=3)
entry = st.tuples(place, st.sampled_from(STEMS), st.sampled_from(SUFFIXES), st.sampled_from(CONTENTS))
link = st.tuples(place, st.sampled_from(STEMS), st.sampled_from(SUFFIXES), st.sampled_from(LINKS))
layouts = st.tuples(st.lists(entry, max_size=9), st.lists(link, max_size=2) | st.just([]))


@contextmanager
def laid_out(layout: tuple[list, list]) -> Iterator[Path]:
    """A folder with these files and links; what a disk cannot hold is left out."""
    with tempfile.TemporaryDirectory() as above:
        root = Path(above) / "set"
        root.mkdir()
        (Path(above) / "outside.png").write_bytes(READABLE[0])
        for kind, entries in enumerate(layout):
            for folders, stem, suffix, what in entries:
                path = root.joinpath(*folders, stem + suffix)
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError:
                    continue
                if os.path.lexists(path):
                    continue
                path.symlink_to(_target(root, path, what)) if kind else path.write_bytes(what)
        yield root


def _target(root: Path, path: Path, what: str) -> Path:
    """Where a link leads."""
    files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    found = {"a file": files[0] if files else path, "a folder": root, "itself": path, "nothing": root / "gone.png"}
    return found.get(what, root.parent / "outside.png")


SYSTEMS = ("__macosx", "thumbs.db", "desktop.ini")


def counted(root: Path) -> tuple[set[str], set[str]]:
    """All that must be counted, by its relative path, and the links that lead out of the folder."""
    there, out = set(), set()
    for above, folders, files in os.walk(root):
        hidden = {name for name in (*folders, *files) if name.startswith(".") or name.lower() in SYSTEMS}
        there |= {(Path(above) / name).relative_to(root).as_posix() for name in hidden}  # a folder of these is one
        folders[:] = [name for name in folders if name not in hidden]
        linked = [name for name in folders if (Path(above) / name).is_symlink()]
        for name in (*files, *linked):
            path = Path(above) / name
            if name not in hidden:
                there.add(path.relative_to(root).as_posix())
                real = os.path.realpath(path)
                out |= {str(path)} if path.is_symlink() and not real.startswith(os.path.realpath(root)) else set()
    return there, out


def is_hidden(name: str) -> bool:
    """Whether the last part of a path is hidden, or a system's."""
    last = name.rpartition("/")[2]
    return last.startswith(".") or last.lower() in SYSTEMS


def is_readable(path: Path) -> bool:
    """Whether the file, or what a link leads to, is one of the whole pictures."""
    return path.is_file() and path.read_bytes() in READABLE


def manifest_or_line(root: Path, options: ImageOptions | None = None) -> Manifest | str:
    """The manifest, or why there is none."""
    line = ""
    try:
        manifest = load_manifest(root, options)
    except InputError as refusal:
        manifest, line = None, str(refusal)
    if manifest is None:
        assert line.isprintable()
        return line
    manifest.validate()
    return manifest


def check_refusal(root: Path, line: str, there: set[str], out: set[str]) -> None:
    """A folder is refused for a reason that it has."""
    odd = [name for name in there if not name.isascii() and "\udcff" in name]
    if out:
        assert "out of the folder" in line
    elif odd and "not UTF-8" in line:
        return
    else:
        assert "no images" in line, line
        plain = [n for n in there if n not in odd and not (root / n).is_dir() and not is_hidden(n)]
        assert not any(name.lower().endswith(RASTER) or is_readable(root / name) for name in plain)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(layouts)
def test_every_file_of_a_folder_is_counted_once(layout: tuple[list, list]) -> None:
    with laid_out(layout) as root:
        there, out = counted(root)
        found = manifest_or_line(root)
        if isinstance(found, str):
            check_refusal(root, found, there, out)
            return
        assert not out
        paths = found.table["path"].tolist()
        assert sorted([*paths, *found.skipped["path"]]) == sorted(there)
        assert {name for name in there if is_readable(root / name) and not is_hidden(name)} <= set(paths)
        for path, label, split in zip(
            paths, found.labels, [""] * found.n if found.splits is None else found.splits, strict=True
        ):
            assert label in ("", *map(normal_label, path.split("/")[-2:-1]))
            assert split in ("", "train", "test")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(layouts)
def test_what_cannot_be_read_is_said_and_the_rest_is_there(layout: tuple[list, list]) -> None:
    with laid_out((layout[0], [])) as root:
        options = ImageOptions(store=root.parent / "cache", size=4, skip_unreadable=True)
        found = manifest_or_line(root, options)
        if isinstance(found, str):
            return
        good = {p for p in found.table["path"] if is_readable(root / p)}
        if not good:
            with pytest.raises(InputError, match="images cannot be read"):
                build_store(found, options, processes=1)
            return
        store = build_store(found, options, processes=1)
        assert set(store.manifest.table["path"]) == good
        assert store.images.shape[:3] == (len(good), 4, 4)
        assert set(store.skipped["path"]) == set(found.table["path"]) - good
        if len(good) < found.n:
            with pytest.raises(InputError, match=f"{found.n - len(good)} of {found.n} images cannot be read"):
                build_store(found, ImageOptions(store=root.parent / "cache", size=4), processes=1)


cells = st.sampled_from(
    ["a.png", "nv/a.png", "a", "./a.PNG", "..\\a.png", "../outside.png", "", " ", "gone", "1", "x|y"]
)
columns = st.permutations(["file_name", "image", "path", "label", "patient_id", "split", "Label", ""]).map(
    lambda c: c[:4]
)
tables = st.tuples(columns, st.lists(st.lists(cells, min_size=4, max_size=4), max_size=5))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    layouts, tables, st.sampled_from(["metadata.csv", "metadata.jsonl", "metadata.parquet", "labels.csv", "own.tsv"])
)
def test_a_table_beside_the_images_is_taken_or_refused(layout: tuple[list, list], table: tuple, name: str) -> None:
    rows = pd.DataFrame(table[1], columns=table[0], dtype=object)
    with laid_out((layout[0], [])) as root:
        path = root / name
        if path.exists():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if name.endswith(".parquet"):
            rows.to_parquet(path)
        elif name.endswith(".jsonl"):
            rows.to_json(path, orient="records", lines=True)
        else:
            rows.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
        there, _ = counted(root)
        beside = manifest_or_line(root, ImageOptions(labels_csv=path) if name == "labels.csv" else None)
        if isinstance(beside, Manifest):
            described = {name} if name.startswith("metadata") and "file_name" in table[0] else set()
            assert sorted([*beside.table["path"], *beside.skipped["path"]]) == sorted(there - described)
        alone = manifest_or_line(path, ImageOptions(skip_missing=True))
        if isinstance(alone, Manifest):
            assert alone.n + len(alone.skipped) == len(rows)
            assert all(root.resolve() in Path(alone.file(row)).resolve().parents for row in range(alone.n))
