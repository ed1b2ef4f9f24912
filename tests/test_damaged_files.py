"""What fuzzing found, each as its smallest input: one clear line, whatever the file holds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from memorisk.audits.losses import read_scores
from memorisk.audits.rendering import load_result, render_again
from memorisk.images.sources import load_manifest
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_table


def not_utf8(path: Path) -> Path:
    """A Parquet table whose text is none: pandas decodes a value when it is looked at, long after the file was read."""
    values = pa.array([b"a.png", b"\xff\xfe.png"], pa.binary())
    pq.write_table(
        pa.table({"path": pa.StringArray.from_buffers(2, *values.buffers()[1:3]), "label": ["x", "y"]}), path
    )
    return path


def test_text_that_is_no_utf8_is_met_when_a_table_is_read(tmp_path):
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "a.png")
    table = not_utf8(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="Invalid UTF8"):
        read_table(table)
    for read in (load_manifest, read_scores):
        with pytest.raises(InputError, match="Invalid UTF8"):
            read(table)


def test_a_table_of_a_run_that_is_no_parquet_any_more(tmp_path):
    Result(per_image=pd.DataFrame({"image": ["a"]}), verdict={"status": "pass"}).save(tmp_path)
    (tmp_path / "config.yaml").write_text("images: digits\n")
    (tmp_path / "per_image.parquet").write_bytes((tmp_path / "per_image.parquet").read_bytes()[:-9] + b"PAR1")
    for read in (load_result, render_again):
        with pytest.raises(InputError, match="issue the run's command again"):
            read(tmp_path)
