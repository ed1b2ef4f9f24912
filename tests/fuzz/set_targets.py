"""Data sets as others write them: folders and files of the ``datasets`` library, and folders with metadata."""

import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from memorisk.images.layouts.files import is_within
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import manifest_sources
from tests.fuzz.folders import of_folder
from tests.fuzz.image_targets import dicom_seeds, nifti_seeds, raster_seeds, tiff_seeds
from tests.fuzz.packing import inside_any
from tests.fuzz.target import Target

import_module("memorisk.images.readers.shards")  # now, while imports are instrumented

_SMALL = 1 << 22  # pixels
_CARD = """---
dataset_info:
  features:
  - name: image
    dtype: image
  - name: label
    dtype:
      class_label:
        names:
          '0': benign
          '1': malignant
---
# Pictures
"""


def saved_set(folder: Path) -> Path:
    """As ``DatasetDict.save_to_disk`` writes it: streams of Arrow and JSON."""
    import json

    from tests.images.test_sources_shards import save, table

    save(folder / "set" / "train", table(0, 4), table(4, 2), split="train")
    save(folder / "set" / "test", table(6, 2), split="test")
    (folder / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    return folder / "set"


def hub_set(folder: Path) -> Path:
    """Parquet as on the hub, with and without features of its own, and a card."""
    from tests.images.test_sources_shards import table

    (folder / "set" / "data").mkdir(parents=True)
    for name, rows, kind in (("train", table(0, 3, features=None), "none"), ("test", table(3, 2), "zstd")):
        pq.write_table(rows, folder / "set" / "data" / f"{name}-00000-of-00001.parquet", compression=kind)
    (folder / "set" / "README.md").write_text(_CARD)
    return folder / "set"


def metadata_set(folder: Path) -> Path:
    """A folder of pictures with metadata of every kind."""
    root = folder / "set"
    for k, name in enumerate(("train/a.png", "train/deep/b.png", "test/c.png")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), 60 * k, np.uint8)).save(root / name)
    (root / "train/metadata.csv").write_text("file_name,label,patient_id,age\na.png,nv,007,50\ndeep/b.png,mel,8,\n")
    (root / "test/metadata.jsonl").write_text('{"file_name": "c.png", "label": "nv", "patient_id": 9, "box": [1]}\n')
    deep = pd.DataFrame({"file_name": ["b.png"], "label": ["mel"], "patient_id": [8]})
    deep.to_parquet(root / "train/deep/metadata.parquet", index=False)
    return root


def ask_set(folder: Path) -> None:
    """The manifest, and the first images and the last of it."""
    manifest = load_manifest(folder)
    manifest.validate()
    sources = manifest_sources(manifest)
    real = str(folder.resolve())
    for source in [*sources[:4], *sources[4:][-1:]]:
        assert is_within(real, str(Path(source.file).resolve())), source.file
        read_image(source.file, member=source.member, frame=source.frame, max_pixels=_SMALL)


def row_seeds(folder: Path) -> list[bytes]:
    """Image files of several kinds: what a row holds."""
    found = []
    for make in (raster_seeds, tiff_seeds, dicom_seeds, nifti_seeds):
        (folder / make.__name__).mkdir()
        found += make(folder / make.__name__)[::3]
    return found


def ask_row(data: bytes, folder: Path) -> None:
    """An image of a row of Arrow or Parquet, beside a row that has none."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array([{"bytes": data, "path": "a.png"}, {"bytes": b"", "path": ""}], kind)})
    if zlib.crc32(data) % 2:
        file = folder / "rows.parquet"
        pq.write_table(table, file, compression="none", use_dictionary=False)
    else:
        file = folder / "rows.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    source = manifest_sources(load_manifest(file))[0]
    read_image(source.file, member=source.member, frame=source.frame, max_pixels=_SMALL)


def set_targets() -> Sequence[Target]:
    """Every layout of data sets that are not plain folders or tables."""
    saved = ("dataset_dict.json", *(f"train/{n}" for n in ("state.json", "dataset_info.json")))
    saved = (*saved, "train/data-00000-of-00002.arrow", "test/data-00000-of-00001.arrow")
    hub = ("README.md", "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet")
    beside = ("train/metadata.csv", "test/metadata.jsonl", "train/deep/metadata.parquet")
    return (
        of_folder("saved", "a data set on disk: Arrow, its JSON files", saved_set, saved, ask_set),
        of_folder("hub", "Parquet shards of images, a card", hub_set, hub, ask_set),
        of_folder("metadata", "metadata.csv, .jsonl, .parquet beside images", metadata_set, beside, ask_set),
        Target("rows", "image files in rows of Arrow and Parquet", row_seeds, ask_row, inside_any),
    )
