"""``metadata.csv`` of a clean set: file names and labels, in exactly one form, so that nothing else fits into it."""

import csv
import io
from collections.abc import Sequence

from memorisk.runs.formats.csv_tables import csv_line, unquote_formulas

MANIFEST, FILE_NAME, LABEL = "metadata.csv", "file_name", "label"


def manifest_bytes(names: Sequence[str], labels: Sequence[str]) -> bytes:
    """Write ``metadata.csv`` of a clean set.

    Args:
        names: File names, [n].
        labels: [n]; all empty for a set without labels.
    """
    columns = [FILE_NAME, LABEL] if any(labels) else [FILE_NAME]
    rows = (row[: len(columns)] for row in zip(names, labels, strict=True))
    return "".join(f"{csv_line(values)}\n" for values in (columns, *rows)).encode()


def read_manifest_bytes(data: bytes) -> dict[str, str] | None:
    """Read ``metadata.csv`` of a clean set.

    Args:
        data: The file.

    Returns:
        Labels by file name; None for a file that no clean set has.
    """
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
        labels = {row[0]: unquote_formulas(row[1]) if len(rows[0]) == 2 else "" for row in rows[1:]}
    except (ValueError, IndexError, csv.Error):
        return None
    return labels if manifest_bytes(list(labels), list(labels.values())) == data else None
