"""Tables of pandas with a column of files, written into the cache folder.

The text of a table is unchanged, and the files stay where they are. The user of the program typed the paths, so they
may lead anywhere: below the current folder where they are relative, as everywhere in Python. Only a table of the cache
folder has that right, for the folder that memorisk noted in it; the paths of every other table stay inside its own
folder.
"""

import os
from pathlib import Path

import pandas as pd

from memorisk.images.columns import pick, texts
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.runs.files import fingerprint, write_table
from memorisk.runs.storage.locations import cache_folder

TABLE = "table.parquet"
_PLACE, _ROOT = "tables", "memorisk_root"


def save_table(
    table: pd.DataFrame,
    *,
    store: Path | None = None,
    image_root: str | Path | None = None,
    path_column: str | None = None,
    image_column: str | None = None,
) -> Path:
    """Write a table into the cache folder, where `memorisk.load_manifest` reads it.

    Args:
        table: Table with a column of files; a named index is a column, too.
        store: Folder of the cache, as the setting of that name.
        image_root: Folder as the setting of that name; with it the table is written as it is.
        path_column: Name of a column, as the setting of that name.
        image_column: Name of a column, as the setting of that name.

    Returns:
        Path of the table, in a folder named by its content.

    Raises:
        InputError: The table has no rows, two columns of one name, no column that names images, or files on several
            drives.
    """
    if table.index.name is not None and str(table.index.name) not in map(str, table.columns):
        table = table.reset_index()
    columns = [str(column) for column in table.columns]
    if not len(table):
        raise InputError("the table of images has no rows")
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise InputError(f"the table of images: several columns are called {one_line(twice[0], 60)!r}; rename them")
    written = pd.DataFrame({name: texts(table.iloc[:, i].tolist()) for i, name in enumerate(columns)})
    column = image_column if image_column is not None and path_column is None else None
    column = column or pick(columns, "path", path_column, "the table") or pick(columns, "image", None, "the table")
    if column is None or column not in columns:
        raise InputError(
            f"the table of images: no column that names files among {listed(columns, 12)}; name one with path_column"
        )
    root = None
    if image_root is None:
        root, written[column] = _rooted(written[column].tolist())
    key = fingerprint([root, columns, *(written[name].tolist() for name in columns)], length=32)
    folder = cache_folder(store) / _PLACE / key
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written.attrs = {} if root is None else {_ROOT: root}
    try:
        if not (folder / TABLE).is_file():
            write_table(folder / TABLE, written)
    except UnicodeEncodeError:
        raise InputError("the table of images: a name in it is not UTF-8, which no table holds; rename it") from None
    return folder / TABLE


def _rooted(files: list[str]) -> tuple[str, list[str]]:
    """Return the folder above all files of a table, and the files below it, as typed where that leads to them.

    Raises:
        InputError: The files have no folder in common.
    """
    here = os.getcwd()  # noqa: PTH109
    relative = any(not os.path.isabs(file.strip()) for file in files)  # noqa: PTH117
    full = [os.path.abspath(file.strip()) for file in files]  # noqa: PTH100
    try:
        root = os.path.commonpath([*(os.path.dirname(file) for file in full), *([here] if relative else [])])  # noqa: PTH120
    except ValueError:
        raise InputError("the files of the table lie on different drives; put them below one folder") from None
    return root, full if relative and root != here else files


def noted_root(path: Path, table: pd.DataFrame, store: Path | None) -> Path | None:
    """Return the folder that contains the files of a table of the cache folder; None for any other table.

    Args:
        path: Path of the table.
        table: Table as it was read.
        store: Folder of the cache, as the setting of that name.
    """
    root = written_root(path, table)
    if root is None:
        return None
    return root if path.parents[2].resolve() == cache_folder(store).resolve() else None


def written_root(path: Path, table: pd.DataFrame) -> Path | None:
    """Return the folder that `save_table` noted in a table, for callers that only name files; None without a note.

    Args:
        path: Path of the table; the cache folder may have changed since.
        table: Table as it was read.
    """
    root = table.attrs.get(_ROOT)
    of_cache = path.name == TABLE and path.parent.parent.name == _PLACE
    return Path(root) if isinstance(root, str) and of_cache else None
