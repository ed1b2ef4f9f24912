"""The image store when it is stopped, killed, damaged, out of space, or built twice at once."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from memorisk.images import pixels
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError, MemoriskError
from tests.images.store_making import naive, write_images


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

    monkeypatch.setattr(pixels, "read_image", slow)
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
