"""Labels that are lists: numbers or names of classes, and marks of 0 and 1 for each class."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorisk.images.columns import label_texts
from memorisk.images.sources.dataset_items import item_label
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError
from tests.images.making import write
from tests.images.test_sources_shards import png

NAMES = ("mass", "nodule", "fluid", "scar")
POSITIONS = ["1|2", "none", "0", "0|1|2|3"]
MARKS = [[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize(
    "values",
    [
        MARKS,
        [[bool(mark) for mark in row] for row in MARKS],
        [[float(mark) for mark in row] for row in MARKS],
        [np.array(row) for row in MARKS],
        [[str(mark) for mark in row] for row in MARKS],
        [str(row) for row in MARKS],
        ["|".join(map(str, row)) for row in MARKS],
        [str(np.array(row, float)) for row in MARKS],
        [str(tuple(row)) for row in MARKS],
        [str([bool(mark) for mark in row]) for row in MARKS],
        [f"tensor({row})" for row in MARKS],
        [f"tensor({[float(mark) for mark in row]}, dtype=torch.float64)" for row in MARKS],
        [repr(np.array(row, np.int8)) for row in MARKS],
        [[mark or -1 for mark in row] for row in MARKS],
        [[mark or None for mark in row] for row in MARKS],
    ],
)
def test_marks_are_the_classes_that_are_1(values: list) -> None:
    assert label_texts(values, None, "labels", "t") == POSITIONS
    assert label_texts([*values, None], NAMES, "labels", "t") == [
        *(
            "mass|nodule" if row == "0|1" else "|".join(NAMES[int(j)] for j in row.split("|")) if row != "none" else row
            for row in POSITIONS
        ),
        "",
    ]


@pytest.mark.parametrize(
    ("values", "names", "expected"),
    [
        ([[0, 1], [2], []], NAMES, ["mass|nodule", "fluid", "none"]),
        ([[0, 1], [0, 1], [0]], ("no", "yes"), ["no|yes", "no|yes", "no"]),
        ([[0, 1], [0, 1]], NAMES, ["mass|nodule", "mass|nodule"]),  # numbers of classes: no marks of four
        ([[1, 1], [0]], None, ["1", "0"]),  # boxes: a class twice
        ([[0], [1], [0]], None, ["0", "1", "0"]),
        ([[-1], [2]], NAMES, ["", "fluid"]),
        ([[1, 0], [0, 1]], None, ["0", "1"]),
        (["a|b", "b"], None, ["a|b", "b"]),
        (["true|false", "false|true"], None, ["true|false", "false|true"]),
        (["(0, 1", "1, 0)"], None, ["(0, 1", "1, 0)"]),
        (["1,0", "0,5"], None, ["1,0", "0,5"]),
        ([["x", "y"], ["y"]], None, ["x|y", "y"]),
        ([1, 0, None], NAMES, ["nodule", "mass", ""]),
    ],
)
def test_other_lists_are_the_classes_they_hold(values: list, names: tuple | None, expected: list[str]) -> None:
    assert label_texts(values, names, "labels", "t") == expected


def test_a_number_of_no_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"column labels holds class 4, of 4 \(0 to 3\)"):
        label_texts([[4], [0, 1]], NAMES, "labels", "t")


def _files(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(4):
        (folder / f"{k}.png").write_bytes(png(k))
    return folder


@pytest.mark.parametrize("named", [True, False])
def test_every_source_reads_marks_as_positions(tmp_path: Path, named: bool) -> None:
    names = [*NAMES] if named else None
    expected = [
        row if row == "none" or not named else "|".join(NAMES[int(j)] for j in row.split("|")) for row in POSITIONS
    ]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.table(
        {"image": pa.array([{"bytes": png(k), "path": f"{k}.png"} for k in range(4)], kind), "label": pa.array(MARKS)}
    )
    described = {"_type": "ClassLabel", "names": names} if named else {"_type": "Value", "dtype": "int64"}
    features = {"image": {"_type": "Image"}, "label": {"_type": "Sequence", "feature": described}}
    (tmp_path / "shards").mkdir()
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(rows.replace_schema_metadata(metadata), tmp_path / "shards" / "data.parquet")
    assert load_manifest(tmp_path / "shards").labels.tolist() == expected
    assert [item_label(row, names, 0, "t") for row in MARKS] == expected
    if not named:
        folder = _files(tmp_path / "table")
        pd.DataFrame({"file": [f"{k}.png" for k in range(4)], "label": MARKS}).to_parquet(folder / "t.parquet")
        assert load_manifest(folder / "t.parquet").labels.tolist() == expected
        lines = [json.dumps({"file_name": f"{k}.png", "label": row}) for k, row in enumerate(MARKS)]
        write(folder / "metadata.jsonl", "\n".join(lines).encode())
        (folder / "t.parquet").unlink()
        assert load_manifest(folder).labels.tolist() == expected
        np.savez(tmp_path / "a.npz", images=np.zeros((4, 3, 3), np.uint8), labels=np.array(MARKS))
        assert load_manifest(tmp_path / "a.npz").labels.tolist() == expected


def test_lists_of_images_in_a_row_are_refused_in_one_line(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    images = [[{"bytes": png(k), "path": None}] for k in range(3)]
    rows = pa.table({"views": pa.array(images, kind), "label": ["a", "b", "a"]})
    pq.write_table(rows, tmp_path / "data.parquet")
    for source in (tmp_path, tmp_path / "data.parquet"):
        with pytest.raises(InputError, match="column views holds a list of images in each row: write one row for each"):
            load_manifest(source)
