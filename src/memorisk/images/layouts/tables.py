"""CSV, TSV and Parquet tables with one row per image.

The files are searched for below ``image_root``, or in the folder of the table: HAM10000's metadata names images by id,
the pictures lie in a folder next to it. A path that leaves that folder is refused, because a relative path does not
define where it begins. A table in which every path is absolute does, and may name any folder. Rows without a
file are refused or, on request, counted.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pandas as pd

from memorisk.images.columns import Role, label_column, label_values, pick, read_described, texts, with_numbers
from memorisk.images.identity import normal_ids
from memorisk.images.layouts.cached_tables import noted_root
from memorisk.images.layouts.draft import Draft, keep_user_columns
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.layouts.files import FileFinder, refuse_escape, walk_files
from memorisk.images.layouts.label_tables import one_each
from memorisk.images.manifest import BUILTIN, REQUIRED, Manifest, split_doubts
from memorisk.images.options import ImageOptions
from memorisk.images.readers.registry import file_format
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.runs.errors import InputError, listed, one_line


def load_table(path: Path, options: ImageOptions, *, quoted: bool | None = None) -> Manifest:
    """Read the manifest of a table.

    Args:
        path: Path of the table.
        options: Options by which images are found, labelled and grouped.
        quoted: Whether memorisk wrote the table (`memorisk.images.columns.read_described`).

    Raises:
        InputError: No column names the images, files are missing or outside the folder, or
            :func:`memorisk.images.layouts.draft_steps.finish_draft` refuses the table.
    """
    described, doubts = split_doubts(read_described(path, quoted=quoted))
    if not len(described):
        raise InputError(f"{one_line(path.name)}: no images (the table has no rows)")
    root = options.image_root or noted_root(path, described, options.store) or path.parent
    if not root.is_dir():
        raise InputError(f"image_root {one_line(root)} is not a folder")
    draft = Draft(table=pd.DataFrame(), root=root, name=path.stem)
    roles = _roles(described, options, path.name, draft)
    files = normal_ids(texts(described[roles["path"]]))
    above = _folder_above(files, root) if options.image_root is None else None
    if above is not None:
        draft.root = above
        draft.notes.append("Every path is absolute: the images are read where the table names them.")
    draft.table = _table(described, roles, files, path.name)
    paths = _located(files, draft, options, search=above is None)
    _leave_out_missing(draft, paths, options)
    _merge_rows(draft)
    if roles.get("group") == "group":  # else the doubts of a manifest that was kept concern other ids
        draft.doubts += doubts
    if "group" in draft.table:
        own = one_line(roles["image"], 60)
        draft.group_from = f"column {one_line(roles['group'], 60)}"
        draft.group_fallback = (
            f"name another group_column, give a group_from, or group_column={own} to make each image its own"
        )
    return finish_draft(draft, options)


def _roles(described: pd.DataFrame, options: ImageOptions, source: str, draft: Draft) -> dict[str, str]:
    """Return the role of each column, and note what was guessed.

    Raises:
        InputError: No column names the images.
    """
    columns = [str(c) for c in described.columns]
    names: dict[Role, str | None] = {
        "path": options.path_column,
        "image": options.image_column,
        "group": options.group_column,
        "split": options.split_column,
        "dataset": options.dataset_column,
    }
    roles: dict[str, str] = {}
    for role, name in names.items():
        chosen = pick(columns, role, name, source)
        if chosen is not None and not (role == "group" and options.group_from is not None):
            roles[role] = chosen
    if options.image_column is not None and options.path_column is None:
        roles.pop("path", None)
    label = label_column(described, options.label_column, source)
    if label is not None and options.labels_csv is None and options.label_from is None:
        roles["label"] = label
    if "image" not in roles and "path" not in roles:
        raise InputError(
            f"{one_line(source)}: no column that names images among {listed(columns, 12)}; name it with image_column, "
            "and where no column is called label or patient, theirs with label_column and group_column"
        )
    roles.setdefault("path", roles.get("image", ""))
    roles.setdefault("image", roles["path"])
    draft.notes.append(
        "Columns: " + ", ".join(f"{role} is {one_line(name, 60)}" for role, name in sorted(roles.items())) + "."
    )
    return roles


def _table(described: pd.DataFrame, roles: dict[str, str], files: list[str], source: str) -> pd.DataFrame:
    """Return the draft's table: roles by their own names, other columns kept."""
    table = pd.DataFrame({"image": normal_ids(texts(described[roles["image"]])), "path": files})
    if "label" in roles:
        table["label"] = label_values(described, roles["label"], source)
    for role in ("group", "split", "dataset"):
        if role in roles:
            table[role] = texts(described[roles[role]])
    used = set(roles.values())
    if set(REQUIRED) <= set(described.columns):  # our own form: its frame and member are ours, too
        if "member" in described:
            table["member"] = texts(described["member"])
            used.add("member")
        if "frame" in described:
            table["frame"] = _frames(texts(described["frame"]), source)
            used.add("frame")
    extra = {str(c): with_numbers(pd.Series(described[c])) for c in described.columns if str(c) not in used}
    return keep_user_columns(table, extra)


def _frames(values: list[str], source: str) -> pd.Series:
    try:
        return pd.Series(pd.array([int(v) if v else None for v in values], dtype="Int64"))
    except ValueError:
        raise InputError(f"{one_line(source)}: the column frame holds something other than whole numbers") from None


def _folder_above(files: list[str], root: Path) -> Path | None:
    """Return the folder above all files of a table that names each by an absolute path; None where one is relative.

    The result is None, too, where all of them lie below ``root``.
    """
    if not all(os.path.isabs(file) and "\0" not in file for file in files):  # noqa: PTH117 (a table may be long)
        return None
    above = Path(os.path.commonpath([os.path.dirname(os.path.normpath(file)) for file in files]))  # noqa: PTH120
    inside = any(above.is_relative_to(base) for base in (root.absolute(), Path(os.path.realpath(root))))
    return None if inside or not above.is_dir() else above


def _located(values: list[str], draft: Draft, options: ImageOptions, *, search: bool = True) -> list[str | None]:
    """Return the relative path of each row's file, None where it has none; ``search`` also tries the end of its path.

    Raises:
        InputError: A path leaves the folder, a name fits several files, or two names fit one.
    """
    follow = options.follow_links
    finder = FileFinder(draft.root, lambda: _image_files(draft.root, follow) if search else (), follow_links=follow)
    places: dict[str, str | None] = {}
    for value in values:
        if value not in places:
            places[value] = value if value.startswith(BUILTIN) else finder.find(value)
    refuse_escape(
        finder.escaping,
        draft.name,
        _other_machine(finder.escaping)
        or "give image_root if the images lie elsewhere, or every path as an absolute one; follow_links if links out "
        "of the folder are meant",
    )
    if finder.ambiguous:
        raise InputError(
            f"{one_line(draft.name)}: {len(finder.ambiguous):,} names fit several files below {one_line(draft.root)} "
            f"({listed(finder.ambiguous)}); give paths instead"
        )
    by_file: dict[str, list[str]] = {}
    for value, file in places.items():
        if file is not None:
            by_file.setdefault(file, []).append(value)
    shared = [" and ".join(v) for file, v in by_file.items() if len(v) > 1 and not file.startswith(BUILTIN)]
    if shared:
        raise InputError(f"{one_line(draft.name)}: different names lead to one file ({listed(shared)}); give paths")
    return [places[value] for value in values]


def _other_machine(paths: list[str]) -> str:
    """Advise on absolute paths that do not exist here, as from Windows or another machine; empty for any other."""
    kinds = (PurePosixPath, PureWindowsPath)
    kind = next((kind for kind in kinds if all(kind(path).is_absolute() for path in paths)), None)
    if not paths or kind is None or any(os.path.exists(path) for path in paths):  # noqa: PTH110
        return ""
    folders = [kind(path).parent for path in paths]
    above = next(
        (place for place in (folders[0], *folders[0].parents) if all(map(partial(_below, place), folders))), ""
    )
    return (
        f"give image_root, the folder that their beginning {one_line(above, 120)} means, and leave that beginning "
        "out of the table: these are paths of another machine"
    )


def _below(place: PurePath, folder: PurePath) -> bool:
    return folder.is_relative_to(place)


def _image_files(root: Path, follow_links: bool) -> Iterator[str]:
    """Yield the image files below a folder: by their suffix, or by their content where the suffix decides nothing."""
    for file in walk_files(root, follow_links=follow_links).files:
        file_type = None if suffix(file) in KIND_BY_SUFFIX else file_format(root / file)
        if suffix(file) in KIND_BY_SUFFIX or (file_type is not None and file_type.kind != "arrays"):
            yield file


def _leave_out_missing(draft: Draft, paths: list[str | None], options: ImageOptions) -> None:
    """Set the paths; rows without a file are refused, or left out and listed.

    Raises:
        InputError: Files are missing and ``skip_missing`` is not set, or all are missing.
    """
    missing = [i for i, file in enumerate(paths) if file is None]
    images = draft.table["image"].tolist()
    if len(missing) == len(paths) or (missing and not options.skip_missing):
        way = "give image_root if they lie elsewhere" + ("" if len(missing) == len(paths) else ", or skip_missing")
        if _differ_by_case(draft.table["path"].iloc[missing].tolist(), draft.root, options.follow_links):
            way = "names of files count capital and small letters: write them in the table as they are on the disk"
        raise InputError(
            f"{one_line(draft.name)}: {len(missing):,} of {len(paths):,} rows have no file below "
            f"{one_line(draft.root)} ({listed([images[i] for i in missing])}); {way}"
        )
    draft.table["path"] = [file or "" for file in paths]
    if missing:
        for i in missing:
            draft.skip(images[i], "no such file")
        draft.table = draft.table.drop(index=missing).reset_index(drop=True)
        draft.notes.append(f"{len(missing):,} rows of the table have no file and are left out.")


def _differ_by_case(names: list[str], root: Path, follow_links: bool) -> bool:
    """Return whether a name differs from that of a file only by capital letters."""
    relative = {name.replace("\\", "/").casefold() for name in names if not os.path.isabs(name)}  # noqa: PTH117
    return bool(relative) and any(file.casefold() in relative for file in _image_files(root, follow_links))


def _merge_rows(draft: Draft) -> None:
    """Keep one of several equal rows that describe one image, as in a table of boxes.

    Raises:
        InputError: Rows of one image have different labels, groups, splits or data sets.
    """
    table = draft.table
    places = [column for column in ("path", "member", "frame") if column in table]
    numbers = table.groupby(places, sort=False, dropna=False).ngroup().to_numpy()
    rows: list[list[int]] = [[] for _ in range(int(numbers.max(initial=-1)) + 1)]
    for row, number in enumerate(numbers.tolist()):
        rows[number].append(row)
    if len(rows) == len(table):
        return
    for role in ("label", "group", "split", "dataset"):
        if role in table:
            one_each(rows, texts(table[role]), role, table["image"].tolist(), draft.name)
    draft.notes.append(f"{len(table):,} rows describe {len(rows):,} images; rows of one image agree and are merged.")
    draft.table = table.iloc[[of_image[0] for of_image in rows]].reset_index(drop=True)
