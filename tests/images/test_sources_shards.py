"""Data sets of the ``datasets`` library as sources: Arrow and Parquet files in its layouts, written with pyarrow."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import count_frames, read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store, manifest_sources
from memorisk.images.store_writer import process_count
from memorisk.runs.errors import InputError

CLASSES = {"_type": "ClassLabel", "names": ["benign", "malignant"]}
FEATURES = {"image": {"_type": "Image"}, "label": CLASSES, "patient_id": {"_type": "Value", "dtype": "string"}}


def png(seed: int, side: int = 8) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def table(first: int, n: int, *, features: dict[str, Any] | None = FEATURES, **columns: list[Any]) -> pa.Table:
    """Rows as the library writes them; the images' names are those of a folder of files."""
    rows = range(first, first + n)
    given: dict[str, Any] = {
        "image": pa.array(
            [{"bytes": png(i), "path": f"p{i // 2}_{i}.png"} for i in rows],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "label": pa.array([i % 2 for i in rows], pa.int64()),
        "patient_id": [f"p{i // 2}" for i in rows],
        **columns,
    }
    found = pa.table({name: values for name, values in given.items() if values is not None})
    if features is None:
        return found
    return found.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def save(folder: Path, *tables: pa.Table, split: str | None = None) -> Path:
    """As ``Dataset.save_to_disk``: streams of Arrow, named by ``state.json``."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-{len(tables):05d}.arrow" for i in range(len(tables))]
    for name, rows in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=3)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": n} for n in names], "_split": split}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def shards(folder: Path, **rows: pa.Table) -> Path:
    """Parquet with several row groups, as on the hub: ``data/train-00000-of-00002.parquet``."""
    (folder / "data").mkdir(parents=True)
    for name, content in rows.items():
        pq.write_table(content, folder / "data" / f"{name.replace('_', '-')}.parquet", row_group_size=4)
    return folder


def files(folder: Path, n: int) -> Path:
    """The same images as a folder of files."""
    folder.mkdir()
    for i in range(n):
        (folder / f"p{i // 2}_{i}.png").write_bytes(png(i))
    return folder


def rows(manifest: Manifest) -> list[tuple[str, str, str]]:
    return list(zip(manifest.images.tolist(), manifest.labels.tolist(), manifest.groups.tolist(), strict=True))


def test_saved_data_sets_are_the_images_of_a_folder(tmp_path: Path) -> None:
    saved = save(tmp_path / "saved", table(0, 7), table(7, 5))
    manifest = load_manifest(saved)
    assert rows(manifest)[:3] == [
        ("p0_0.png", "benign", "p0"),
        ("p0_1.png", "malignant", "p0"),
        ("p1_2.png", "benign", "p1"),
    ]
    assert manifest.splits is None
    assert manifest.table["frame"].tolist() == [*range(7), *range(5)]
    assert manifest.notes == ("Columns: images are image, label is label, group is patient_id.",)
    options = ImageOptions(store=tmp_path / "cache", group_from="^(p[0-9]+)_")
    plain = build_store(load_manifest(files(tmp_path / "files", 12), options), options)
    store = build_store(load_manifest(saved, options), options)
    of_file = dict(zip(plain.manifest.images, plain.pixel_hashes, strict=True))
    assert dict(zip(store.manifest.images, store.pixel_hashes, strict=True)) == of_file
    assert store.manifest.groups.tolist() == manifest.groups.tolist()  # the pattern is searched in the images' names


def test_splits_of_a_saved_dictionary_and_of_the_hub(tmp_path: Path) -> None:
    both = tmp_path / "both"
    save(both / "train", table(0, 6))
    save(both / "validation", table(6, 4))
    (both / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation"]}))
    hub = shards(
        tmp_path / "hub",
        train_00000_of_00002=table(0, 5),
        train_00001_of_00002=table(5, 1),
        validation_00000_of_00001=table(6, 4),
    )
    one, other = load_manifest(both), load_manifest(hub)
    assert rows(one) == rows(other)
    assert one.images.tolist()[-1] == "validation/p4_9.png"
    assert one.splits is not None
    assert other.splits is not None
    assert one.splits.tolist() == other.splits.tolist() == ["train"] * 6 + ["val"] * 4
    options = ImageOptions(store=tmp_path / "cache")
    assert build_store(one, options).pixel_hashes.tolist() == build_store(other, options).pixel_hashes.tolist()
    converted = tmp_path / "converted"
    for split, content in {"train": table(0, 6), "test": table(6, 4)}.items():
        (converted / "default" / split).mkdir(parents=True)
        pq.write_table(content, converted / "default" / split / "0000.parquet")
    splits = load_manifest(converted).splits
    assert splits is not None
    assert sorted(splits.tolist()) == ["test"] * 4 + ["train"] * 6


def test_any_order_reads_the_same_pixels(tmp_path: Path) -> None:
    shards(tmp_path / "hub", train=table(0, 11))
    save(tmp_path / "saved", table(0, 11))
    wanted = [read_image(tmp_path / "files" / f"p{i // 2}_{i}.png") for i in range(11) if files_once(tmp_path, 11)]
    for path in (tmp_path / "hub/data/train.parquet", tmp_path / "saved/data-00000-of-00001.arrow"):
        assert count_frames(path) == 11
        for i in (*range(11), *reversed(range(11)), 0, 10, 5, 4, 9, 1):
            assert np.array_equal(read_image(path, member="image", frame=i), wanted[i])
        for frame in (11, -1):
            with pytest.raises(InputError, match=f"has rows 0 to 10, not {frame}"):
                read_image(path, member="image", frame=frame)


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = shards(tmp_path / "hub", train=table(0, 90)) / "data" / "train.parquet"
    manifest = load_manifest(path)
    assert [process_count(asked, manifest_sources(manifest)) for asked in (None, 1, 2, 99)] == [1, 1, 2, 6]
    one, two = (ImageOptions(store=tmp_path / name) for name in ("one", "two"))
    shared = build_store(manifest, two, processes=2).pixel_hashes.tolist()
    assert shared == build_store(manifest, one, processes=1).pixel_hashes.tolist()


def test_the_librarys_own_cache_is_a_data_set(tmp_path: Path) -> None:
    folder = save(tmp_path / "cache", table(0, 4))
    (folder / "state.json").unlink()
    (folder / "data-00000-of-00001.arrow").rename(folder / "skin-validation.arrow")
    (folder / "cache-0123456789abcdef.arrow").write_bytes((folder / "skin-validation.arrow").read_bytes())  # of a map()
    manifest = load_manifest(folder)
    assert manifest.n == 4
    assert set(manifest.table["split"]) == {"val"}


def files_once(tmp_path: Path, n: int) -> bool:
    return bool((tmp_path / "files").is_dir() or files(tmp_path / "files", n))


def test_labels_ids_and_columns(tmp_path: Path) -> None:
    features = FEATURES | {
        "findings": {"_type": "Sequence", "feature": CLASSES},
        "site": {"_type": "ClassLabel", "names": ["a", "b"]},
    }
    content = table(
        0,
        4,
        features=features,
        label=[1, None, -1, 0],
        findings=[[0, 1], [], [1], [0]],
        site=[0, 1, 0, 1],
        image_id=["x", "y", "z", "w"],
        age=[1, None, 3, 4],
        thumbnail=[b"a", b"b", b"c", b"d"],
    )
    path = tmp_path / "one.parquet"
    pq.write_table(content, path)
    manifest = load_manifest(path)
    assert manifest.images.tolist() == ["x", "y", "z", "w"]
    assert manifest.labels.tolist() == ["malignant", "", "", "benign"]
    assert manifest.table["age"].tolist() == [1, None, 3, 4]
    assert not {"thumbnail", "findings"} & set(manifest.table)
    several = load_manifest(path, ImageOptions(label_column="findings", group_column="site"))
    assert several.labels.tolist() == ["benign|malignant", "none", "malignant", "benign"]
    assert several.groups.tolist() == ["a", "b", "a", "b"]
    pq.write_table(table(0, 4, features=features, label=None, site=[0, 1, 0, 1], coarse=[0, 0, 1, 1]), path)
    assert load_manifest(path).labels.tolist() == ["a", "b", "a", "b"]  # the only column of classes
    pq.write_table(table(0, 4, features=FEATURES, label=[0, 1, 2, 0]), path)
    with pytest.raises(InputError, match=r"column label holds class 2, of 2 \(0 to 1\)"):
        load_manifest(path)


def test_classes_of_a_card_where_the_files_say_nothing(tmp_path: Path) -> None:
    hub = shards(tmp_path / "hub", train_00000_of_00001=table(0, 4, features=None))
    assert load_manifest(hub).labels.tolist() == ["0", "1", "0", "1"]
    card = "---\ndataset_info:\n  features:\n  - name: label\n    dtype:\n      class_label:\n        names:\n"
    (hub / "README.md").write_text(f"{card}          '0': nv\n          '1': mel\n---\n# Skin\n")
    assert load_manifest(hub).labels.tolist() == ["nv", "mel", "nv", "mel"]


def test_columns_of_images_are_chosen(tmp_path: Path) -> None:
    mask = [{"bytes": png(100 + i), "path": None} for i in range(4)]
    path = tmp_path / "pairs.parquet"
    pq.write_table(table(0, 4, mask=mask, raw=[png(i) for i in range(4)]), path)
    with pytest.raises(InputError, match=r"several columns hold images \(image, mask\); name one with image_column"):
        load_manifest(path)
    for column, first in (("image", 0), ("mask", 100)):
        options = ImageOptions(image_column=column, store=tmp_path / "cache")
        assert (
            build_store(load_manifest(path, options), options).images[0].tobytes()
            == np.asarray(Image.open(io.BytesIO(png(first)))).tobytes()
        )
    raw = ImageOptions(image_column="raw", layout="shards", store=tmp_path / "cache")
    assert len(build_store(load_manifest(path, raw), raw).images) == 4
    with pytest.raises(InputError, match=r"column label is of type int64, not images .*cast_column"):
        load_manifest(path, ImageOptions(image_column="label", layout="shards"))
    with pytest.raises(InputError, match="frames all is for files"):
        load_manifest(path, ImageOptions(image_column="mask", frames="all"))


def test_images_beside_the_shards_stay_inside(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    files_in = folder / "pictures"
    folder.mkdir()
    files(files_in, 4)
    paths = [f"pictures/p{i // 2}_{i}.png" for i in range(3)] + [str(files_in / "p1_3.png")]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    content = table(0, 4, image=pa.array([{"bytes": None, "path": p} for p in paths], kind))
    pq.write_table(content, folder / "train.parquet")
    manifest = load_manifest(folder / "train.parquet")
    assert manifest.table["path"].tolist() == [f"pictures/p{i // 2}_{i}.png" for i in range(4)]
    options = ImageOptions(store=tmp_path / "cache")
    assert build_store(manifest, options).images[3].tobytes() == read_image(files_in / "p1_3.png").tobytes()
    for path in ("../secret.png", "/etc/hostname"):
        bad = pa.array([{"bytes": None, "path": p} for p in [*paths[:3], path]], kind)
        pq.write_table(table(0, 4, image=bad), folder / "train.parquet")
        with pytest.raises(InputError, match="1 path leads out of the folder"):
            load_manifest(folder / "train.parquet")
    missing = pa.array([{"bytes": None, "path": "none.png"}, *[{"bytes": png(1), "path": None}] * 3], kind)
    pq.write_table(table(0, 4, image=missing), folder / "train.parquet")
    with pytest.raises(InputError, match="1 images are neither in the data set nor in one file below"):
        load_manifest(folder / "train.parquet")
    elsewhere = table(0, 4, image=pa.array([{"bytes": None, "path": Path(p).name} for p in paths], kind))
    (tmp_path / "rows").mkdir()
    pq.write_table(elsewhere, tmp_path / "rows" / "train.parquet")
    options = ImageOptions(store=tmp_path / "cache", image_root=files_in)
    store = build_store(load_manifest(tmp_path / "rows" / "train.parquet", options), options)
    assert store.images[3].tobytes() == read_image(files_in / "p1_3.png").tobytes()


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    bomb = io.BytesIO()
    Image.new("L", (3000, 3000)).save(bomb, "PNG")
    bad = [
        None,
        {"bytes": b"", "path": ""},
        {"bytes": b"#!/bin/sh", "path": "a.png"},
        {"bytes": png(1)[:60], "path": ""},
    ]
    bad += [{"bytes": b"PK\x03\x04" + b"\0" * 60, "path": "b.npz"}, {"bytes": bomb.getvalue(), "path": "c.png"}]
    path = tmp_path / "bad.parquet"
    pq.write_table(table(0, 6, image=pa.array(bad, kind)), path)
    options = ImageOptions(skip_unreadable=True, store=tmp_path / "cache", max_pixels=1_000_000)
    reasons = ["holds no image"] * 2 + ["not an image of a known kind", "cannot be read", "known kind", "3,000 x 3,000"]
    for row, what in enumerate(reasons):
        with pytest.raises(InputError, match=what) as error:
            read_image(path, member="image", frame=row, max_pixels=options.max_pixels)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="6 of 6 images cannot be read"):
        build_store(load_manifest(path, options), options)
    good = [{"bytes": png(1), "path": ""}] * 2
    pq.write_table(table(0, 4, image=pa.array([*good, *bad[2:4]], kind)), path)
    store = build_store(load_manifest(path, options), options)
    assert (store.manifest.n, len(store.skipped)) == (2, 2)


def test_other_kinds_of_images_in_rows(tmp_path: Path) -> None:
    deep = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    tiff, grey = io.BytesIO(), io.BytesIO()
    Image.fromarray(deep).save(tiff, "TIFF")
    Image.fromarray(deep).save(grey, "PNG")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [{"bytes": data.getvalue(), "path": None} for data in (tiff, grey)]
    path = tmp_path / "deep.parquet"
    pq.write_table(table(0, 2, image=pa.array(values, kind)), path)
    for row in (0, 1):
        assert np.array_equal(read_image(path, member="image", frame=row, depth=16)[..., 0], deep)
    values[0]["bytes"] = tiff.getvalue()[:40]
    pq.write_table(table(0, 2, image=pa.array(values, kind)), path)
    with pytest.raises(InputError, match=r"deep\.parquet \(row 0\)"):
        read_image(path, member="image", frame=0)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    several = tmp_path / "several"
    for name in ("small", "large"):
        (several / name).mkdir(parents=True)
        pq.write_table(table(0, 4), several / name / "train.parquet")
    with pytest.raises(InputError, match=r"several data sets \(large, small\); give the folder or file of one"):
        load_manifest(several)
    mixed = shards(tmp_path / "mixed", train=table(0, 4))
    (mixed / "logo.png").write_bytes(png(1))
    with pytest.raises(InputError, match=r"image files \(1\) and .* choose with --layout: folder or shards"):
        load_manifest(mixed)
    assert load_manifest(mixed, ImageOptions(layout="shards")).n == 4
    assert load_manifest(mixed, ImageOptions(layout="folder")).n == 1
    other = shards(tmp_path / "other", a=table(0, 4), b=table(0, 4, age=[1, 2, 3, 4]))
    with pytest.raises(InputError, match="has other columns than"):
        load_manifest(other)
    for changed, what in [
        ({"_data_files": [{"filename": "../x.arrow"}]}, "no such file lies in its folder"),
        ({"_data_files": [{"filename": "x.arrow"}]}, r"1 of its files are absent \(x.arrow\)"),
        ({"_data_files": []}, "no images"),
        ({"_data_files": 3}, "not what dataset.save_to_disk writes"),
        ({"_data_files": [], "_indices_data_files": [{"filename": "i"}]}, "flatten_indices"),
    ]:
        saved = tmp_path / "saved"
        saved.mkdir(exist_ok=True)
        (saved / "dataset_info.json").write_text("{}")
        (saved / "state.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=what):
            load_manifest(saved)
    (saved / "state.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        load_manifest(saved)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    saved = save(tmp_path / "saved", table(0, 4))
    (saved / "data-00000-of-00001.arrow").rename(tmp_path / "elsewhere.arrow")
    (saved / "data-00000-of-00001.arrow").symlink_to(tmp_path / "elsewhere.arrow")
    with pytest.raises(InputError, match="leads out of the folder"):
        load_manifest(saved)
    assert load_manifest(saved, ImageOptions(follow_links=True)).n == 4


def test_damaged_arrow_is_refused_at_every_byte_that_matters(tmp_path: Path) -> None:
    """Offsets of a batch that point anywhere: a clean refusal or pixels, never a crash."""
    path = save(tmp_path / "saved", table(0, 3)) / "data-00000-of-00001.arrow"
    whole = path.read_bytes()
    places = np.random.default_rng(0).integers(0, len(whole), 50).tolist()
    found = []
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            load_manifest(path)
            read_image(path, member="image", frame=1)
        except InputError as error:
            found.append(str(error))
    assert 0 < len(found) < len(places)
    assert not any("\n" in said for said in found)


def test_damaged_parquet_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    """Of a column whose type in the footer is another, Arrow ends the process when it is asked for statistics."""
    path = tmp_path / "a.parquet"
    pq.write_table(table(0, 4), path)
    whole = path.read_bytes()
    found = []
    for place in range(len(whole) - 900, len(whole) - 8, 19):
        path.write_bytes(whole[:place] + b"\0" + whole[place + 1 :])
        try:
            load_manifest(path)
            read_image(path, member="image", frame=1)
        except InputError as error:
            found.append(str(error))
    assert found
    assert not any("\n" in said for said in found)


def test_the_library_itself_writes_what_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        image=datasets.Image(),
        label=datasets.ClassLabel(names=["benign", "malignant"]),
        patient_id=datasets.Value("string"),
    )
    folder = files(tmp_path / "files", 6)
    paths = [str(folder / f"p{i // 2}_{i}.png") for i in range(6)]
    made = datasets.Dataset.from_dict(
        {"image": paths, "label": [i % 2 for i in range(6)], "patient_id": [f"p{i // 2}" for i in range(6)]},
        features=features,
    )
    datasets.DatasetDict(train=made.select([4, 2, 0]), test=made.select([5])).save_to_disk(tmp_path / "saved")
    (tmp_path / "hub" / "data").mkdir(parents=True)
    made.to_parquet(tmp_path / "hub" / "data" / "train-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"6 paths lead out of the folder .* give image_root"):
        load_manifest(tmp_path / "hub")  # to_parquet leaves the pictures where they are
    saved, hub = load_manifest(tmp_path / "saved"), load_manifest(tmp_path / "hub", ImageOptions(image_root=folder))
    assert rows(saved) == [
        ("train/p2_4.png", "benign", "p2"),
        ("train/p1_2.png", "benign", "p1"),
        ("train/p0_0.png", "benign", "p0"),
        ("test/p2_5.png", "malignant", "p2"),
    ]
    options = ImageOptions(store=tmp_path / "cache")
    hashes = build_store(hub, options).pixel_hashes.tolist()
    assert hashes == build_store(load_manifest(folder, options), options).pixel_hashes.tolist()
    assert build_store(saved, options).pixel_hashes.tolist() == [hashes[i] for i in (4, 2, 0, 5)]
