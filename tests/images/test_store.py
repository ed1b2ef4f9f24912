"""The image store: right pixels, decoded once, known by their content (faults: `test_store_faults.py`)."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.images import file_hashes
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store, manifest_sources
from memorisk.images.store_writer import process_count, row_blocks
from memorisk.runs.errors import InputError
from tests.images.store_making import naive, write_images


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
    monkeypatch.setattr(file_hashes, "_MIN_AGE_NS", -(10**12))  # files written just now may be remembered
    manifest = write_images(tmp_path / "in", 30)
    first = build_store(manifest, options)
    assert sorted(set(decoded)) == [f"{i:04d}.png" for i in range(30)]
    assert len(decoded) == 30 + 16  # each once, and the probes
    decoded.clear()
    monkeypatch.setattr(file_hashes, "file_sha256", lambda path: pytest.fail("a file was read again"))
    again = build_store(manifest, options)
    relabelled = build_store(replace(manifest, table=manifest.table.assign(label="one")), options)
    assert not decoded
    assert first.folder == again.folder == relabelled.folder
    assert relabelled.manifest.labels.tolist() == ["one"] * 30


def test_a_store_goes_to_another_process_without_its_pixels(tmp_path, options):
    store = build_store(write_images(tmp_path / "in", 30), options, processes=1)
    sent, whole = pickle.dumps(store), pickle.dumps(replace(store, images=np.array(store.images)))
    assert len(whole) - len(sent) >= store.images.nbytes
    there = pickle.loads(sent)
    assert isinstance(there.images, np.memmap)
    np.testing.assert_array_equal(there.images, store.images)
    assert there.data_hash == store.data_hash
    part = replace(store, images=store.images[:3])  # what is no longer the whole file travels as it is
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part)).images, store.images[:3])


def test_content_makes_the_key(tmp_path, options, decoded, monkeypatch):
    monkeypatch.setattr(file_hashes, "_MIN_AGE_NS", -(10**12))
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
    monkeypatch.setattr(file_hashes, "_MIN_AGE_NS", -(10**12))
    file = tmp_path / "array.npy"
    np.save(file, np.zeros((20, 4, 4), dtype=np.uint8))
    before = file.stat()
    known = file_hashes.content_fingerprints([str(file)], tmp_path)
    np.save(file, np.ones((20, 4, 4), dtype=np.uint8))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_hashes.content_fingerprints([str(file)], tmp_path) != known


def test_files_touched_just_now_are_not_remembered(tmp_path, monkeypatch):
    file = tmp_path / "a.bin"
    file.write_bytes(b"a")
    calls = []
    monkeypatch.setattr(file_hashes, "file_sha256", lambda path: calls.append(path) or "f")
    assert file_hashes.content_fingerprints([str(file)], tmp_path) == {str(file): "f"}
    file_hashes.content_fingerprints([str(file)], tmp_path)
    assert len(calls) == 2
    assert file_hashes.content_fingerprints([str(tmp_path / "none")], tmp_path) == {str(tmp_path / "none"): "absent"}


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
    with pytest.raises(InputError, match=r"differ in size.*give --size"):
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
    from memorisk.images.readers import arrays as readers_arrays

    pixels = np.random.default_rng(0).integers(0, 256, (300, 6, 6)).astype(np.uint8)
    np.savez_compressed(tmp_path / "set.npz", train_images=pixels)
    names = [str(i) for i in range(300)]
    table = pd.DataFrame({"image": names, "path": "set.npz", "label": "a", "group": names, "member": "train_images"})
    table["frame"] = pd.array(range(300), dtype="Int64")
    opened, whole = [], readers_arrays._npz_rows
    monkeypatch.setattr(readers_arrays, "_npz_rows", lambda *a: opened.append(a) or whole(*a))
    manifest = Manifest(table, tmp_path, "set")
    assert process_count(2, manifest_sources(manifest)) == 1  # one stream, one process
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
    assert process_count(8, sources) == 3
    assert process_count(None, sources) == 1
    assert process_count(None, sources * 100) <= 3
    with pytest.raises(InputError, match="at least 1"):
        process_count(0, sources)


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
    assert file_hashes.cache_folder(None) == tmp_path / "xdg" / "memorisk"


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


@pytest.mark.thorough
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
    from memorisk.images.published.digits import digits_manifest

    manifest = digits_manifest()
    store = build_store(manifest, options)
    assert store.images.shape == (manifest.n, 8, 8, 1)
    np.testing.assert_array_equal(store.images, naive_frames(manifest))
    assert build_store(manifest, replace(options, size=16)).images.shape == (manifest.n, 16, 16, 1)


def test_a_folder_named_as_the_builtin_digits_is_not_passed_over(tmp_path, monkeypatch, options):
    """The built-in data would be audited in its place."""
    monkeypatch.chdir(tmp_path)
    n_built_in = load_manifest("digits", options).n
    for label in "ab":
        Path("digits", label).mkdir(parents=True)
        Image.new("L", (8, 8), 9).save(Path("digits", label, "0.png"))
    with pytest.raises(InputError, match=r"names the built-in data, .* write \./digits$"):
        load_manifest("digits", options)
    assert load_manifest("./digits", options).n == load_manifest(Path("digits"), options).n == 2 < n_built_in


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


def test_images_that_were_exchanged_in_a_store_are_decoded_again(tmp_path, caplog):
    options = ImageOptions(store=tmp_path / "cache")
    manifest = write_images(tmp_path / "set", 20)
    whole = build_store(manifest, options, processes=1)
    images = np.array(whole.images)
    other = np.clip(images.astype(int) + np.random.default_rng(3).integers(-3, 4, images.shape), 0, 255)
    np.save(whole.folder / "images.npy", other.astype(np.uint8))
    shutil.rmtree(tmp_path / "cache" / "checksums", ignore_errors=True)
    again = build_store(manifest, options, processes=1)
    np.testing.assert_array_equal(again.images, images)
    assert f"{whole.folder / 'images.npy'} is not what was written" in caplog.text


def test_a_store_under_the_name_of_another_is_decoded_again(tmp_path):
    options = ImageOptions(store=tmp_path / "cache")
    first, second = (
        build_store(write_images(tmp_path / name, 6, seed=seed), options, processes=1)
        for name, seed in (("a", 1), ("b", 2))
    )
    images = np.array(second.images)
    shutil.rmtree(second.folder)
    shutil.copytree(first.folder, second.folder)
    again = build_store(write_images(tmp_path / "b", 6, seed=2), options, processes=1)
    np.testing.assert_array_equal(again.images, images)
