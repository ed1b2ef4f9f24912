"""Labels from a table, joined to files that were found on the disk.

The table's rows name images by path, file name, name without suffix, id, or for DICOM by SOP instance uid; a DICOM
series, study or patient uid may stand for all its images. The column is the one the options name, else among the
usual ones the one that matches most images.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

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
from memorisk.images.manifest import RESERVED
from memorisk.images.options import ImageOptions
from memorisk.images.paths import composed, plain_stem
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, unknown_name

if TYPE_CHECKING:
    from memorisk.images.sources.draft import Draft

_SHARED_NAMES = ("SeriesInstanceUID", "StudyInstanceUID", "PatientID")


def join_labels(draft: "Draft", options: ImageOptions) -> None:
    """Give a draft's rows label, and where the table has them group, split and other columns.

    Raises:
        InputError: The table has no label or no column that names images; it names one image twice with two labels; or
            a name fits several files.
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
    labels = label_values(table, column, source)
    chosen = _one_each(rows, labels, texts(table[key]), source)
    draft.table["label"] = ["" if row is None else labels[row] for row in chosen]
    matched = [row for row in chosen if row is not None]
    draft.notes.append(
        f"Label: column {one_line(column, 60)} of {one_line(options.labels_csv.name)}, joined by {one_line(key, 60)}: "
        f"{len(matched):,} of {len(chosen):,} "
        f"images have a row, {len(set(matched)):,} of {len(table):,} rows an image."
    )
    take_columns(draft, table, chosen, options, used={key, column}, source=source)


def _best_key(
    draft: "Draft", table: pd.DataFrame, given: str | None, source: str, *, label: str
) -> tuple[str, list[list[int]]]:
    """The column that names the images, and for each image the rows of the table that name it.

    Raises:
        InputError: No column names an image, or a name fits several files.
    """
    names = [str(c) for c in table.columns]
    if given is not None and given not in names:
        raise unknown_name(f"image column of {one_line(source)}:", given, shown_names(names))
    usual = {*USUAL_NAMES["path"], *USUAL_NAMES["image"]}
    shared = {plain_name(name): name for name in _SHARED_NAMES if name in draft.names}
    single = _index(draft)
    best: tuple[int, str, list[list[int]], list[str]] | None = None
    for name in [given] if given is not None else names:
        plain = plain_name(name)
        if name == label or (given is None and plain not in usual and plain not in shared):
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


def _index(draft: "Draft") -> dict[str, list[int]]:
    """Every name of every image: id, path, file name, each without suffix, SOP instance uid."""
    found: dict[str, list[int]] = {}
    uids = draft.names.get("SOPInstanceUID", [""] * len(draft.table))
    rows = zip(draft.table["image"].tolist(), draft.table["path"].tolist(), uids, strict=True)
    several = draft.table["path"].duplicated().any()  # images of one array file: the file's name says nothing
    for row, (image, path, uid) in enumerate(rows):
        last = path.rsplit("/", 1)[-1]
        folder = path[: len(path) - len(last)]
        of_file = () if several else (path, folder + plain_stem(last), last, plain_stem(last))
        for name in {composed(n) for n in (image, *of_file, uid, _without_zeros(image) if several else "") if n}:
            found.setdefault(name, []).append(row)
    return found


def _without_zeros(image: str) -> str:
    """The id of an array's image as a plain number: ``0012`` is 12."""
    return str(int(image)) if image.isdecimal() else ""


def _match_single(values: Iterable[str], index: dict[str, list[int]], n: int) -> tuple[list[list[int]], list[str]]:
    """For each image the table rows that name it; and the names that fit several images."""
    rows: list[list[int]] = [[] for _ in range(n)]
    doubtful = []
    for row, value in enumerate(values):
        name = composed(value.strip().replace("\\", "/")).removeprefix("./")
        images = index.get(name) or index.get(name.rsplit("/", 1)[-1]) or index.get(plain_stem(name.rsplit("/", 1)[-1]))
        if images and len(images) > 1:
            doubtful.append(value)
        elif images:
            rows[images[0]].append(row)
    return rows, doubtful


def _match_shared(values: Iterable[str], owners: list[str]) -> list[list[int]]:
    """For each image the table rows that name its series, study or patient."""
    of_value: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        if value.strip():
            of_value.setdefault(value.strip(), []).append(row)
    return [of_value.get(owner, []) for owner in owners]


def _one_each(rows: list[list[int]], labels: list[str], keys: list[str], source: str) -> list[int | None]:
    """The one table row of each image, or None.

    Raises:
        InputError: Rows of one image have different labels.
    """
    torn = {keys[r[0]]: sorted({labels[i] for i in r}) for r in rows if len({labels[i] for i in r}) > 1}
    if torn:
        shown = [f"{key}: {' and '.join(found)}" for key, found in torn.items()]
        raise InputError(
            f"{one_line(source)}: {len(torn):,} images have several rows with different labels ({listed(shown)}); "
            "give each one row (several findings joined by |)"
        )
    return [r[0] if r else None for r in rows]


def take_columns(
    draft: "Draft", table: pd.DataFrame, chosen: list[int | None], options: ImageOptions, used: set[str], source: str
) -> None:
    """Group, split, data set and further columns of a table's rows.

    Args:
        draft: Whose rows get them.
        table: The table.
        chosen: For each row of the draft the table's, or None.
        options: Which columns are named.
        used: Columns that have been taken.
        source: The table's name.
    """
    roles: dict[Role, str | None] = {
        "group": options.group_column,
        "split": options.split_column,
        "dataset": options.dataset_column,
    }
    for role, given in roles.items():
        if given is None and (role in draft.table or (role == "group" and options.group_from is not None)):
            continue
        column = pick([c for c in table.columns if str(c) not in used], role, given, source)
        if column is None:
            continue
        values = [v.strip() for v in texts(table[column])]
        draft.table[role] = ["" if row is None else values[row] for row in chosen]
        used.add(column)
        if role == "group":
            draft.group_from, draft.group_fallback = (
                f"column {one_line(column, 60)}",
                "name another group_column or a group_from",
            )
        draft.notes.append(f"{role.capitalize()}: column {one_line(column, 60)} of {one_line(Path(source).name)}.")
    for name in [str(c) for c in table.columns if str(c) not in used]:
        values = texts(table[name])
        kept = f"user_{name}" if name in RESERVED or name in draft.table else name
        draft.table[kept] = ["" if row is None else values[row] for row in chosen]
