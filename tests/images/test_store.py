"""The image store: right pixels, decoded once, resumable, atomic, never corrupted."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.images import cache, decoding
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers import read_image
from memorisk.images.resize import is_grey, resize_image, to_luma
from memorisk.images.rows import manifest_sources, row_blocks, usable_processes
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError, MemoriskError


def write_images(folder: Path, n: int, *, shape=(12, 10), colour=(), seed=0) -> Manifest:
    """``n`` PNG files of noise, grey but for the rows named, in two classes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(n):
        pixels = rng.integers(0, 256, (*shape, 3)).astype(np.uint8)
        Image.fromarray(pixels if i in colour else pixels[..., 0]).save(folder / f"{i:04d}.png")
    names = [f"{i:04d}" for i in range(n)]
    labels = ["even" if i % 2 == 0 else "odd" for i in range(n)]
    table = pd.DataFrame({"image": names, "path": [f"{i}.png" for i in names], "label": labels, "group": names})
    return Manifest(table, folder, "noise")


@pytest.fixture
def options(tmp_path):
    return ImageOptions(store=tmp_path / "cache")


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded in this process, in order."""
    seen = []

    def counting(path, **how):
        seen.append(Path(path).name)
        return read_image(path, **how)

    monkeypatch.setattr(decoding, "read_image", counting)
    return seen


def naive(manifest, options):
    """The definition: read, make grey what is grey, resize, give all rows the same channels."""
    images = [read_image(manifest.file(row), depth=options.depth) for row in range(manifest.n)]
    if options.channels == 1:
        images = [image[..., :1] if is_grey(image) else to_luma(image) for image in images]
    if options.size:
        images = [resize_image(image, options.size, options.resize) for image in images]
    grey = all(is_grey(image) for image in images)
    channels = (1 if grey else 3) if options.channels == "auto" else options.channels
    return np.stack(
        [image[..., :1] if channels == 1 else np.broadcast_to(image, (*image.shape[:2], 3)) for image in images]
    )


@pytest.mark.parametrize(
    ("colour", "change"),
    [
        ((), {}),
        ((3, 7), {}),
        ((3, 7), {"channels": 1}),
        ((), {"channels": 3}),
        ((3,), {"depth": 16}),
        ((3,), {"size": 8}),
        ((3,), {"size": 16, "resize": "crop"}),
        ((3,), {"size": 9, "resize": "pad", "depth": 16}),
    ],
)
def test_pixels_are_those_of_the_definition(tmp_path, options, colour, change):
    manifest = write_images(tmp_path / "in", 20, colour=colour)
    options = replace(options, **change)
    store = build_store(manifest, options)
    assert store.images.dtype == (np.uint16 if options.depth == 16 else np.uint8)
    assert isinstance(store.images, np.memmap)
    np.testing.assert_array_equal(store.images, naive(manifest, options))
    assert store.manifest.images.tolist() == manifest.images.tolist()
    assert not len(store.skipped)


def test_grey_stored_as_colour_counts_as_grey(tmp_path, options):
    manifest = write_images(tmp_path / "in", 4)
    Image.open(tmp_path / "in" / "0001.png").convert("RGB").save(tmp_path / "in" / "0001.png")
    assert build_store(manifest, options).images.shape == (4, 12, 10, 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_colour_that_the_probes_miss(tmp_path, options, processes):
    """Grey is guessed from 16 images of 120; one coloured image among the others makes the array wider on the way."""
    probes = set(np.linspace(0, 119, 16).astype(int).tolist())
    missed = next(row for row in range(60, 120) if row not in probes)
    manifest = write_images(tmp_path / "in", 120, colour=(missed,))
    store = build_store(manifest, options, processes=processes)
    assert store.images.shape[3] == 3
    np.testing.assert_array_equal(store.images, naive(manifest, options))


def test_later_runs_decode_nothing(tmp_path, options, decoded, monkeypatch):
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))  # files written just now may be remembered
    manifest = write_images(tmp_path / "in", 30)
    first = build_store(manifest, options)
    assert sorted(set(decoded)) == [f"{i:04d}.png" for i in range(30)]
    assert len(decoded) == 30 + 16  # each once, and the probes
    decoded.clear()
    monkeypatch.setattr(cache, "file_fingerprint", lambda path: pytest.fail("a file was read again"))
    again = build_store(manifest, options)
    relabelled = build_store(replace(manifest, table=manifest.table.assign(label="one")), options)
    assert not decoded
    assert first.folder == again.folder == relabelled.folder
    assert relabelled.manifest.labels.tolist() == ["one"] * 30


def test_content_makes_the_key(tmp_path, options, decoded, monkeypatch):
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))
    manifest = write_images(tmp_path / "in", 6)
    key = build_store(manifest, options).key
    file = tmp_path / "in" / "0002.png"
    before, data = file.stat(), file.read_bytes()
    os.utime(file, ns=(0, 10**18))
    decoded.clear()
    assert build_store(manifest, options).key == key
    assert not decoded  # touched, read again, found to be the same
    changed = bytearray(Image.open(file).tobytes())
    changed[0] ^= 1
    Image.frombytes("L", (10, 12), bytes(changed)).save(file)
    assert build_store(manifest, options).key != key
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert build_store(manifest, options).key == key


def test_a_change_that_keeps_size_and_modification_time_is_seen(tmp_path, options, monkeypatch):
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**12))
    file = tmp_path / "array.npy"
    np.save(file, np.zeros((20, 4, 4), dtype=np.uint8))
    before = file.stat()
    known = cache.content_fingerprints([str(file)], tmp_path)
    np.save(file, np.ones((20, 4, 4), dtype=np.uint8))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert cache.content_fingerprints([str(file)], tmp_path) != known


def test_files_touched_just_now_are_not_remembered(tmp_path, monkeypatch):
    file = tmp_path / "a.bin"
    file.write_bytes(b"a")
    calls = []
    monkeypatch.setattr(cache, "file_fingerprint", lambda path: calls.append(path) or "f")
    assert cache.content_fingerprints([str(file)], tmp_path) == {str(file): "f"}
    cache.content_fingerprints([str(file)], tmp_path)
    assert len(calls) == 2
    assert cache.content_fingerprints([str(tmp_path / "none")], tmp_path) == {str(tmp_path / "none"): "absent"}


def test_which_options_make_the_key(tmp_path, options):
    manifest = write_images(tmp_path / "in", 3, shape=(8, 8))
    keys = [
        build_store(manifest, replace(options, **change)).key
        for change in (
            {},
            {"size": 8},
            {"size": 8, "resize": "pad"},
            {"depth": 16},
            {"channels": 3},
            {"window": "full"},
        )
    ]
    assert len(set(keys)) == len(keys)
    for change in ({"skip_unreadable": True}, {"label_column": "label"}, {"resize": "pad"}):  # no size, no resizing
        assert build_store(manifest, replace(options, **change)).key == keys[0]
    reverse = manifest.subset([2, 1, 0])
    assert build_store(reverse, options).key != keys[0]


def test_two_processes_give_the_same_bytes(tmp_path):
    manifest = write_images(tmp_path / "in", 90, colour=(5,))
    stores = [build_store(manifest, ImageOptions(store=tmp_path / f"c{p}"), processes=p) for p in (1, 2)]
    files = [[(f.name, f.read_bytes()) for f in sorted(store.folder.iterdir())] for store in stores]
    assert files[0] == files[1]
    assert stores[0].data_hash == stores[1].data_hash


def test_progress_counts_up_to_all(tmp_path, options):
    seen = []
    build_store(write_images(tmp_path / "in", 50), options, progress=lambda done, n: seen.append((done, n)))
    assert seen == [(0, 50), *[(end, 50) for _, end in row_blocks(50)]]


def test_a_stopped_build_goes_on_where_it_stopped(tmp_path, options, decoded):
    manifest = write_images(tmp_path / "in", 100)
    undisturbed = build_store(manifest, replace(options, store=tmp_path / "other"))

    def stop(done, n):
        if done >= 48:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store(manifest, options, progress=stop)
    assert not list((tmp_path / "cache" / "stores").glob("*/meta.json"))
    decoded.clear()
    store = build_store(manifest, options)
    assert decoded[16:] == [f"{i:04d}.png" for i in range(48, 100)]  # after the probes
    np.testing.assert_array_equal(store.images, undisturbed.images)
    assert [f.name for f in (tmp_path / "cache" / "stores").iterdir() if f.is_dir()] == [store.key]
    assert sorted(f.name for f in store.folder.iterdir()) == sorted(f.name for f in undisturbed.folder.iterdir())


def test_rows_damaged_while_stopped_are_decoded_again(tmp_path, options, decoded):
    manifest = write_images(tmp_path / "in", 100)

    def stop(done, n):
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_store(manifest, options, progress=stop)
    folder = next((tmp_path / "cache" / "stores").glob(".*.building"))
    rows = np.load(folder / "images.npy", mmap_mode="r+")
    rows[20, 0, 0, 0] ^= 1
    rows.flush()
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"first": 96, "hash')  # a line cut short
    decoded.clear()
    store = build_store(manifest, options)
    assert decoded[16:] == [f"{i:04d}.png" for i in [*range(16, 32), *range(64, 100)]]
    np.testing.assert_array_equal(store.images, naive(manifest, options))


KILLED = """
import os, signal, sys
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.store import build_store

def kill(done, n):
    if done >= 64:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    manifest = Manifest.load(sys.argv[1], sys.argv[2], "noise")
    build_store(manifest, ImageOptions(store=sys.argv[3]), processes=2, progress=kill)
"""


def test_kill_9_with_two_processes(tmp_path, options):
    manifest = write_images(tmp_path / "in", 240)
    manifest.save(tmp_path / "manifest.parquet")
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, script, tmp_path / "manifest.parquet", tmp_path / "in", tmp_path / "cache"]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    (folder,) = (tmp_path / "cache" / "stores").glob(".*.building")
    assert len((folder / "journal.jsonl").read_text().splitlines()) >= 1 + 4  # four blocks of 16 rows were done
    np.testing.assert_array_equal(build_store(manifest, options, processes=2).images, naive(manifest, options))


def test_a_damaged_store_is_built_again(tmp_path, options):
    manifest = write_images(tmp_path / "in", 10)
    store = build_store(manifest, options)
    wanted = store.images.copy()
    with (store.folder / "images.npy").open("rb+") as file:
        file.truncate(500)
    np.testing.assert_array_equal(build_store(manifest, options).images, wanted)
    (store.folder / "meta.json").write_text("{")
    np.testing.assert_array_equal(build_store(manifest, options).images, wanted)


def test_unreadable_images_are_listed_or_left_out(tmp_path, options, decoded):
    manifest = write_images(tmp_path / "in", 40)
    for row in (3, 11, 20, 39):
        (tmp_path / "in" / f"{row:04d}.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    (tmp_path / "in" / "0011.png").unlink()
    with pytest.raises(InputError, match=r"4 of 40 images cannot be read: 0003\.png .*0011\.png .*and 1 more") as error:
        build_store(manifest, options)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "cache" / "stores").glob("*/meta.json"))
    decoded.clear()
    store = build_store(manifest, replace(options, skip_unreadable=True))
    assert len(decoded) == 16  # the probes: all else was done before
    kept = [row for row in range(40) if row not in (3, 11, 20, 39)]
    np.testing.assert_array_equal(store.images, naive(manifest.subset(kept), options))
    assert store.manifest.images.tolist() == manifest.images[kept].tolist()
    assert store.skipped["image"].tolist() == ["0003", "0011", "0020", "0039"]
    assert (store.skipped["reason"] != "").all()
    assert len(store.pixel_hashes) == 36
    decoded.clear()
    with pytest.raises(InputError, match="4 of 40"):
        build_store(manifest, options)
    assert not decoded


def test_nothing_readable(tmp_path, options):
    manifest = write_images(tmp_path / "in", 20)
    for file in (tmp_path / "in").iterdir():
        file.write_bytes(b"text")
    with pytest.raises(InputError, match="20 of 20 images cannot be read"):
        build_store(manifest, replace(options, skip_unreadable=True))


@pytest.mark.parametrize("row", [0, 41])  # among the probes or not
def test_images_of_different_size_need_a_size(tmp_path, options, row):
    manifest = write_images(tmp_path / "in", 120)
    assert (row in np.linspace(0, 119, 16).astype(int)) == (row == 0)
    Image.new("L", (5, 6)).save(tmp_path / "in" / f"{row:04d}.png")
    with pytest.raises(InputError, match=r"differ in size.*give size"):
        build_store(manifest, options)
    assert not [f for f in (tmp_path / "cache" / "stores").iterdir() if f.is_dir()]
    assert build_store(manifest, replace(options, size=8)).images.shape == (120, 8, 8, 1)


def test_the_data_hash_is_over_id_label_group_split_and_pixels(tmp_path, options):
    manifest = write_images(tmp_path / "in", 5)

    def hashed(**columns):
        return build_store(replace(manifest, table=manifest.table.assign(**columns)), options).data_hash

    elsewhere = write_images(tmp_path / "moved", 5)
    assert build_store(elsewhere, options).data_hash == hashed()
    other_pixels = build_store(write_images(tmp_path / "other", 5, seed=1), options).data_hash
    five = list("abcde")
    hashes = [hashed(), hashed(image=five), hashed(label=five), hashed(group=five), hashed(split=five), other_pixels]
    assert len(set(hashes)) == 6


def test_one_array_file_is_opened_once(tmp_path, options, monkeypatch):
    from memorisk.images import readers_arrays

    pixels = np.random.default_rng(0).integers(0, 256, (300, 6, 6)).astype(np.uint8)
    np.savez_compressed(tmp_path / "set.npz", train_images=pixels)
    names = [str(i) for i in range(300)]
    table = pd.DataFrame({"image": names, "path": "set.npz", "label": "a", "group": names, "member": "train_images"})
    table["frame"] = pd.array(range(300), dtype="Int64")
    opened, whole = [], readers_arrays._npz_rows
    monkeypatch.setattr(readers_arrays, "_npz_rows", lambda *a: opened.append(a) or whole(*a))
    manifest = Manifest(table, tmp_path, "set")
    assert usable_processes(2, manifest_sources(manifest)) == 1  # one stream, one process
    np.testing.assert_array_equal(build_store(manifest, options, processes=2).images[..., 0], pixels)
    assert len(opened) == 1


def test_sources_are_those_of_the_manifest(tmp_path):
    frames = pd.array([None, 3], dtype="Int64")
    table = pd.DataFrame(
        {"image": ["a", "b"], "path": ["x.png", "y/z.npy"], "label": "a", "group": "g", "frame": frames}
    )
    for root in (tmp_path, None):
        manifest = Manifest(table.assign(member=["", "m"]), root, "set")
        sources = manifest_sources(manifest)
        assert [s.file for s in sources] == [manifest.file(0), manifest.file(1)]
        assert [(s.member, s.frame) for s in sources] == [(None, None), ("m", 3)]


def test_processes(tmp_path):
    sources = manifest_sources(write_images(tmp_path / "in", 3))
    assert usable_processes(8, sources) == 3
    assert usable_processes(None, sources) == 1
    assert usable_processes(None, sources * 100) <= 3
    with pytest.raises(InputError, match="at least 1"):
        usable_processes(0, sources)


@pytest.mark.parametrize("n", [1, 16, 17, 1000, 5000, 100_000])
def test_blocks_cover_all_rows_once(n):
    rows = [row for first, end in row_blocks(n) for row in range(first, end)]
    assert rows == list(range(n))
    assert max(end - first for first, end in row_blocks(n)) <= 512


def test_folders_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "mine" / "cache"))
    store = build_store(write_images(tmp_path / "in", 3), ImageOptions())
    assert store.folder.parent == tmp_path / "mine" / "cache" / "stores"
    folders = [tmp_path / "mine" / "cache", store.folder.parent, store.folder]
    assert [stat.S_IMODE(f.stat().st_mode) for f in folders] == [0o700] * 3
    assert {stat.S_IMODE(f.stat().st_mode) for f in store.folder.iterdir()} == {0o600}


def test_the_default_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("MEMORISK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_folder(None) == tmp_path / "xdg" / "memorisk"


def test_a_full_disk_found_before_work(tmp_path, options, monkeypatch, decoded):
    def full(*_):
        raise OSError(28, "No space left on device")

    manifest = write_images(tmp_path / "in", 40)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(MemoriskError, match=r"no space for decoded images of .* name another folder") as error:
            build_store(manifest, options)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    assert len(decoded) == 16  # probes only
    assert not [f for f in (tmp_path / "cache" / "stores").iterdir() if f.is_dir()]
    assert build_store(manifest, options).images.shape[0] == 40


def test_a_disk_that_fills_half_way(tmp_path, options, monkeypatch):
    """Where space cannot be reserved, as on some network file systems."""
    manifest = write_images(tmp_path / "in", 100)
    written, real = [], os.pwrite

    def filling(handle, data, at):
        if len(written) >= 3:
            raise OSError(28, "No space left on device")
        written.append(at)
        return real(handle, data, at)

    with monkeypatch.context() as patch:
        patch.delattr(os, "posix_fallocate")
        patch.setattr(os, "pwrite", filling)
        with pytest.raises(MemoriskError, match="no space"):
            build_store(manifest, options)
    assert not list((tmp_path / "cache" / "stores").glob("*/meta.json"))
    np.testing.assert_array_equal(build_store(manifest, options).images, naive(manifest, options))


LIMITED = """
import resource, sys
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.store import build_store
from memorisk.runs.errors import MemoriskError

if __name__ == "__main__":
    manifest = Manifest.load(sys.argv[1], sys.argv[2], "noise")
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
    try:
        build_store(manifest, ImageOptions(store=sys.argv[3]))
    except MemoriskError as error:
        print(error)
        sys.exit(error.exit_code)
"""


def test_a_real_limit_on_file_size(tmp_path, options):
    manifest = write_images(tmp_path / "in", 100)
    manifest.save(tmp_path / "manifest.parquet")
    (tmp_path / "limited.py").write_text(LIMITED)
    command = [
        sys.executable,
        tmp_path / "limited.py",
        tmp_path / "manifest.parquet",
        tmp_path / "in",
        tmp_path / "cache",
    ]
    limited = subprocess.run(command, capture_output=True, check=False, text=True)
    assert limited.returncode == 3, limited.stderr
    assert limited.stdout.startswith("no space for decoded images")
    assert limited.stdout.count("\n") == 1
    np.testing.assert_array_equal(build_store(manifest, options).images, naive(manifest, options))


@pytest.fixture
def tmpfs(tmp_path):
    """A file system of 64 kB, where this process may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs more rights than this process has")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_real_full_disk_and_a_read_only_one(tmp_path, tmpfs):
    small, large = write_images(tmp_path / "a", 30), write_images(tmp_path / "b", 300, shape=(24, 24))
    options = ImageOptions(store=tmpfs)
    store = build_store(small, options)
    with pytest.raises(MemoriskError, match=r"decoded images of 0\.00017 GB"):
        build_store(large, options)
    np.testing.assert_array_equal(build_store(small, options).images, naive(small, options))
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    assert build_store(small, options).folder == store.folder  # a finished store needs no writing
    with pytest.raises(InputError, match=r"cannot be written to .*name another folder") as error:
        build_store(large, options)
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be made \(Not a directory\): name another"):
        build_store(write_images(tmp_path / "in", 3), ImageOptions(store=tmp_path / "file" / "cache"))


def test_two_builds_at_once_decode_once(tmp_path, options, monkeypatch):
    manifest = write_images(tmp_path / "in", 100)
    decoding_now, seen = threading.Event(), []

    def slow(path, **how):
        seen.append(path)
        decoding_now.set()
        return read_image(path, **how)

    monkeypatch.setattr(decoding, "read_image", slow)
    stores = []
    threads = [threading.Thread(target=lambda: stores.append(build_store(manifest, options))) for _ in range(2)]
    threads[0].start()
    decoding_now.wait(timeout=30)
    threads[1].start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(stores) == 2
    assert len(seen) == 100 + 16
    np.testing.assert_array_equal(stores[0].images, stores[1].images)


def test_abandoned_builds_are_removed(tmp_path, options):
    old = tmp_path / "cache" / "stores" / ".0123.building"
    new = tmp_path / "cache" / "stores" / ".4567.building"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").write_text("")
    os.utime(old / "journal.jsonl", (0, 0))
    build_store(write_images(tmp_path / "in", 3), options)
    assert not old.exists()
    assert new.exists()


MEMORY = """
import resource, sys
import pandas as pd
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.store import build_store

if __name__ == "__main__":
    n = int(sys.argv[2])
    ids = [str(i) for i in range(n)]
    table = pd.DataFrame({"image": ids, "path": sys.argv[1], "label": "a", "group": ids})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = build_store(Manifest(table, None, "one"), ImageOptions(store=sys.argv[3]), processes=1)
    assert store.images.nbytes == n * 96 * 96 * 3
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    """One image many times, 8 and 64 MB of pixels: the peaks may differ by a table's row an image, not by pixels."""
    file = tmp_path / "image.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (96, 96, 3)).astype(np.uint8)).save(file)
    (tmp_path / "memory.py").write_text(textwrap.dedent(MEMORY))
    peaks = []
    for n in (300, 2400):
        command = [sys.executable, tmp_path / "memory.py", file, str(n), tmp_path / f"cache{n}"]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 2100 * 4000  # pixels alone would be 2100 * 27,648


def test_the_builtin_digits(options):
    from memorisk.images.digits import digits_manifest

    manifest = digits_manifest()
    store = build_store(manifest, options)
    assert store.images.shape == (manifest.n, 8, 8, 1)
    np.testing.assert_array_equal(store.images, naive_frames(manifest))
    assert build_store(manifest, replace(options, size=16)).images.shape == (manifest.n, 16, 16, 1)


def naive_frames(manifest):
    return np.stack(
        [read_image(manifest.file(row), frame=int(manifest.table["frame"][row])) for row in range(manifest.n)]
    )


def test_real_chest_x_rays(shared_data, options):
    """979 RGB and 21 RGBA files, all grey inside (SOURCE.txt)."""
    files = sorted((shared_data / "nih_cxr14_64" / "NIH1000").rglob("*.png"))
    names = [f.name for f in files]
    table = pd.DataFrame({"image": names, "path": [str(f) for f in files], "label": "a", "group": names})
    store = build_store(Manifest(table, None, "nih"), options)
    assert store.images.shape == (1000, 64, 64, 1)
