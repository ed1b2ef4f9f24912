"""``files.parquet``: every file that an audit read, and every one that it did not, by the set it belongs to.

A statement compares what is to be released with this listing, byte by byte (docs/release.md).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.exports.listing import COLUMNS, empty_listing
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table, write_table

FILES, PART = "files.parquet", "part"


def write_listing(folder: Path, sets: Mapping[str, ImageStore | None], names: Pseudonyms | None = None) -> None:
    """Write the listing of an audit's sets into its run folder.

    Args:
        folder: The run folder.
        sets: Images by part: training, generated, held out; None for a part that is not there.
        names: Hide the paths where the run hides ids; None for a run that hides none.
    """
    listed = [store.files.assign(**{PART: part}) for part, store in sets.items() if store is not None]
    table = pd.concat([empty_listing().assign(**{PART: ""}), *listed], ignore_index=True).loc[:, [PART, *COLUMNS]]
    write_table(folder / FILES, table if names is None else table.assign(path=names.names(table["path"])))


def read_listing(folder: Path, part: str) -> pd.DataFrame:
    """Read the listing of one set of a run.

    Args:
        folder: The run folder.
        part: The set.

    Returns:
        `memorisk.images.exports.listing.COLUMNS`.

    Raises:
        InputError: An earlier memorisk wrote the run, without a listing.
    """
    if not (folder / FILES).is_file():
        raise InputError(
            f"{one_line(folder)} has no {FILES}: an earlier memorisk wrote it; issue the run's command again"
        )
    table = read_table(folder / FILES)
    rows = np.flatnonzero(table[PART].to_numpy(dtype=object) == part)
    return table.take(rows).loc[:, list(COLUMNS)].reset_index(drop=True)
