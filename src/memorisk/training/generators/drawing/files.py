"""The files of a generated set: pictures, what was written so far, and the table of all.

A picture is written under a temporary name and renamed; its hash is then appended to a list on which a later run of the
same command relies: a picture that does not have its hash, or none, is drawn again.
"""

import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.images.exports.clean_set import encode_png
from memorisk.runs.files import read_table, write_table
from memorisk.runs.formats.csv_tables import csv_line, write_csv

IMAGES, TABLE, CSV, DRAWN = "images", "manifest.parquet", "manifest.csv", "drawn.csv"
COLUMNS = ("image", "path", "label", "seed", "source", "attempt", "sha256")


def path_of(image: str) -> str:
    """Of its picture, below the set's folder."""
    return f"{IMAGES}/{image}.png"


def write_images(folder: Path, names: list[str], images: np.ndarray) -> dict[str, str]:
    """Write pictures and then their hashes to the list.

    Args:
        folder: Of the set; its folder of images is there.
        names: [n] ids.
        images: [n, H, W, C] uint8.

    Returns:
        The SHA-256 of each file, by id.
    """
    hashes = {}
    for name, image in zip(names, images, strict=True):
        data, target = encode_png(image), folder / path_of(name)
        temporary = target.with_name(f".{target.name}.part")
        temporary.write_bytes(data)
        temporary.chmod(0o600)
        temporary.replace(target)
        hashes[name] = hashlib.sha256(data).hexdigest()
    handle = os.open(folder / DRAWN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write("".join(f"\n{csv_line(entry)}" for entry in hashes.items()))  # a torn line ends here
    return hashes


def images_there(folder: Path, names: list[str]) -> dict[str, str]:
    """SHA-256 by id of those images that are there as they were written, of ``names`` [n]."""
    known: dict[str, str] = {}
    if (folder / TABLE).is_file():
        table = read_table(folder / TABLE)
        known |= dict(zip(table["image"].tolist(), table["sha256"].tolist(), strict=True))
    if (folder / DRAWN).is_file():
        lines = (line.partition(",") for line in (folder / DRAWN).read_text(encoding="utf-8").splitlines())
        known |= {name: digest for name, _, digest in lines if digest}
    found = {}
    for name in names:
        file = folder / path_of(name)
        if name in known and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == known[name]:
            found[name] = known[name]
    return found


def table_of(plan: pd.DataFrame, hashes: dict[str, str]) -> pd.DataFrame:
    """The set's table, a row an image: its class as ``label``, and as ``source`` the training image it belongs to."""
    names = plan["image"].tolist()
    added = {
        "path": [path_of(name) for name in names],
        "label": plan["class"].tolist(),
        "sha256": [hashes[name] for name in names],
    }
    return pd.DataFrame({name: added[name] if name in added else plan[name].tolist() for name in COLUMNS})


def write_tables(folder: Path, table: pd.DataFrame) -> None:
    """Write the table as Parquet and as CSV."""
    write_table(folder / TABLE, table)
    write_csv(folder / CSV, table)
