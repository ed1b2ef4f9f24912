"""Labels, groups and splits from a table (``labels_csv``), joined to the images of a draft.

The rows of the table name images by path, file name, name without suffix, id, or for DICOM by SOP instance uid; a DICOM
series, study or patient uid may name all its images. The column is the one the options name, else among the usual ones
the one that matches most images.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from memorisk.images.columns import (
    USUAL_NAMES,
    Role,
    label_column,
    label_values,
    pick,
    plain_name,
    read_described,
    shown_names,
    texts,
)
from memorisk.images.identity import normal_id, normal_ids
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.files import plain_stem
from memorisk.images.manifest import RESERVED
from memorisk.images.options import ImageOptions
from memorisk.runs.errors import InputError, listed, one_line, plural, unknown_name

_SHARED_NAMES = ("SeriesInstanceUID", "StudyInstanceUID", "PatientID")


def join_labels(draft: Draft, options: ImageOptions) -> None:
    """Add to a draft's rows the label and, where the table has them, group, split and other columns.

    Raises:
        InputError: The table has no label or no column that names images; rows of one image disagree; or a name fits
            several files.
    """
    assert options.labels_csv is not None
    source = str(options.labels_csv)
    table = read_described(options.labels_csv)
    column = label_column(table, options.label_column, source)
    if column is None:
        raise InputError(
            f"{one_line(source)}: no label column among {listed([str(c) for c in table.columns], 12)}; name one with "
            "label_column"
        )
    key, rows = _best_key(draft, table, options.image_column, source, label=column)
    draft.table["label"] = one_each(rows, label_values(table, column, source), "label", texts(table[key]), source)
    matched = [of_image[0] for of_image in rows if of_image]
    draft.notes.append(
        f"Label: column {one_line(column, 60)} of {one_line(options.labels_csv.name)}, joined by {one_line(key, 60)}: "
        f"{len(matched):,} of {len(rows):,} "
        f"images have a row, {len(set(matched)):,} of {len(table):,} rows an image."
    )
    take_columns(draft, table, rows, options, used={key, column}, key=key, source=source)


def _best_key(
    draft: Draft, table: pd.DataFrame, column: str | None, source: str, *, label: str
) -> tuple[str, list[list[int]]]:
    """Return the column that names the images, and for each image the rows of the table that name it.

    Raises:
        InputError: No column names an image, or a name fits several files.
    """
    names = [str(c) for c in table.columns]
    if column is not None and column not in names:
        raise unknown_name(f"image column of {one_line(source)}:", column, shown_names(names))
    usual = {*USUAL_NAMES["path"], *USUAL_NAMES["image"]}
    shared = {plain_name(name): name for name in _SHARED_NAMES if name in draft.names}
    single = _index(draft)
    best: tuple[int, str, list[list[int]], list[str]] | None = None
    for name in [column] if column is not None else names:
        plain = plain_name(name)
        if name == label or (column is None and plain not in usual and plain not in shared):
            continue
        if plain in shared:
            rows, doubtful = _match_shared(texts(table[name]), draft.names[shared[plain]]), []
        else:
            rows, doubtful = _match_single(texts(table[name]), single, len(draft.table))
        count = sum(bool(r) for r in rows) + len(doubtful)
        if best is None or count > best[0]:
            best = (count, name, rows, doubtful)
    if best is None or not best[0]:
        tried = "none of its columns has a usual name" if best is None else f"column {one_line(best[1])} matches none"
        raise InputError(
            f"{one_line(source)}: names none of the {len(draft.table):,} images ({tried}); name the column of file "
            "names or ids with image_column"
        )
    if best[3]:
        raise InputError(
            f"{one_line(source)}: {len(best[3]):,} names fit several files ({listed(best[3])}); give paths below the "
            "source instead"
        )
    return best[1], best[2]


def _index(draft: Draft) -> dict[str, list[int]]:
    """Return the rows of every name of an image: id, path, file name, each without suffix, SOP instance uid."""
    rows_of: dict[str, list[int]] = {}
    uids = draft.names.get("SOPInstanceUID", [""] * len(draft.table))
    rows = zip(draft.table["image"].tolist(), draft.table["path"].tolist(), uids, strict=True)
    several = draft.table["path"].duplicated().any()  # images of one array file: the file's name identifies none
    for row, (image, path, uid) in enumerate(rows):
        last = path.rsplit("/", 1)[-1]
        folder = path[: len(path) - len(last)]
        of_file = () if several else (path, folder + plain_stem(last), last, plain_stem(last))
        for name in {normal_id(n) for n in (image, *of_file, uid, _without_zeros(image) if several else "") if n}:
            rows_of.setdefault(name, []).append(row)
    return rows_of


def _without_zeros(image: str) -> str:
    """Return the id of an array's image as a plain number: ``0012`` is 12."""
    return str(int(image)) if image.isdecimal() else ""


def _match_single(values: Iterable[str], index: dict[str, list[int]], n: int) -> tuple[list[list[int]], list[str]]:
    """Return for each image the table rows that name it, and the names that fit several images."""
    rows: list[list[int]] = [[] for _ in range(n)]
    doubtful = []
    for row, value in enumerate(values):
        name = normal_id(value.replace("\\", "/")).removeprefix("./")
        images = index.get(name) or index.get(name.rsplit("/", 1)[-1]) or index.get(plain_stem(name.rsplit("/", 1)[-1]))
        if images and len(images) > 1:
            doubtful.append(value)
        elif images:
            rows[images[0]].append(row)
    return rows, doubtful


def _match_shared(values: Iterable[str], owners: list[str]) -> list[list[int]]:
    """Return for each image the table rows that name its series, study or patient."""
    of_value: dict[str, list[int]] = {}
    for row, value in enumerate(normal_ids(values)):
        if value:
            of_value.setdefault(value, []).append(row)
    return [of_value.get(owner, []) for owner in normal_ids(owners)]


def one_each(rows: list[list[int]], values: list[str], role: str, keys: list[str], source: str) -> list[str]:
    """Return the one value of each image, empty where it has no row.

    Args:
        rows: Rows of a table that describe each image; rows that agree count as one.
        values: Value of each row.
        role: Name of the role: label, group, split or dataset.
        keys: Name of the image in each row.
        source: Name of the table.

    Raises:
        InputError: Rows of one image have different values.
    """
    values = normal_ids(values)
    torn = {keys[r[0]]: sorted({values[i] for i in r}) for r in rows if len({values[i] for i in r}) > 1}
    if torn:
        conflicts = [f"{key}: {' and '.join(spelling or '(empty)' for spelling in of)}" for key, of in torn.items()]
        raise InputError(
            f"{one_line(source)}: {plural(len(torn), 'image has', 'images have')} several rows with different {role}s "
            f"({listed(conflicts)}); give each one row{' (several findings joined by |)' if role == 'label' else ''}"
        )
    return [values[r[0]] if r else "" for r in rows]


def take_columns(
    draft: Draft,
    table: pd.DataFrame,
    rows: list[list[int]],
    options: ImageOptions,
    *,
    used: set[str],
    key: str,
    source: str,
) -> None:
    """Add group, split, data set and further columns from a table's rows to a draft.

    Args:
        draft: Draft whose rows get the columns.
        table: Table with the columns.
        rows: Rows of the table for each row of the draft; for further columns the first one counts.
        options: Options that name columns.
        used: Names of columns that have been taken.
        key: Name of the column that names the images.
        source: Name of the table.

    Raises:
        InputError: Rows of one image disagree.
    """
    roles: dict[Role, str | None] = {
        "group": options.group_column,
        "split": options.split_column,
        "dataset": options.dataset_column,
    }
    for role, chosen_name in roles.items():
        if chosen_name is None and (role in draft.table or (role == "group" and options.group_from is not None)):
            continue
        column = pick([c for c in table.columns if str(c) not in used], role, chosen_name, source)
        if column is None:
            continue
        draft.table[role] = one_each(rows, texts(table[column]), role, texts(table[key]), source)
        used.add(column)
        if role == "group":
            draft.doubts.clear()
            draft.headers.clear()  # they belong to other ids
            draft.group_from, draft.group_fallback = (
                f"column {one_line(column, 60)}",
                "name another group_column or a group_from",
            )
        draft.notes.append(f"{role.capitalize()}: column {one_line(column, 60)} of {one_line(Path(source).name)}.")
    for name in [str(c) for c in table.columns if str(c) not in used]:
        values = texts(table[name])
        column_name = f"user_{name}" if name in RESERVED or name in draft.table else name
        draft.table[column_name] = [values[of_image[0]] if of_image else "" for of_image in rows]
