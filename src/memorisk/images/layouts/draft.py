"""A manifest in the making: the rows of a source, and the steps that every source shares.

In order: labels from a table, label and group from patterns in file names, frames of stacks, groups for the images
that have none, splits, columns, checks.

The rows of a table of labels name images by path, file name, name without suffix, id, or for DICOM by SOP instance
uid; a DICOM series, study or patient uid may name all its images. The column is the one the options name, else
among the usual ones the one that matches most images.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from memorisk.images.columns import (
    USUAL_NAMES,
    Role,
    canonical_split,
    label_column,
    label_values,
    pick,
    plain_name,
    read_described,
    shown_names,
    texts,
)
from memorisk.images.identity import (
    IdDoubt,
    header_doubts,
    id_doubts,
    look_alikes,
    normal_id,
    normal_ids,
    normal_label,
    refuse_placeholders,
    study_doubts,
)
from memorisk.images.layouts.files import plain_stem
from memorisk.images.manifest import ALONE, RESERVED, STUDY, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.headers import frame_count, is_stack, is_volume
from memorisk.images.readers.registry import Kind
from memorisk.runs.errors import InputError, listed, one_line, plural, unknown_name

_SHARED_NAMES = ("SeriesInstanceUID", "StudyInstanceUID", "PatientID")


def join_labels(draft: "Draft", options: ImageOptions) -> None:
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
    draft: "Draft", table: pd.DataFrame, column: str | None, source: str, *, label: str
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


def _index(draft: "Draft") -> dict[str, list[int]]:
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
    draft: "Draft",
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


@dataclass
class Draft:
    """Rows of a source before the shared steps."""

    table: pd.DataFrame
    """Table with columns image and path, any of label, group, split, dataset, member, frame, and the source's own."""
    root: Path
    name: str
    notes: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of each file or row that was left out."""
    group_from: str = ""
    """Source of the group column, in words."""
    group_fallback: str = ""
    """Option to suggest when that column is empty or the same everywhere."""
    kind: Kind | None = None
    """Kind of all files, where that is known; otherwise each file is examined."""
    called: list[str] | None = None
    """Texts in which patterns are searched, one for each row; None for the paths."""
    doubts: list[IdDoubt] = field(default_factory=list)
    """Doubts about the identity of people, including those of a manifest that was kept."""
    headers: dict[str, list[str]] = field(default_factory=dict)
    """Values of the DICOM tags of which a patient has one value, by tag; each list is as long as the table."""
    finer: bool = False
    """Whether groups are smaller than patients, because the user named such a tag."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Further names by which a table may call the rows, such as SOPInstanceUID; each list is as long as the table."""

    def skip(self, path: str, reason: str) -> None:
        """Note a file or row that is left out."""
        self.skipped.append((path, reason))


def finish_draft(draft: Draft, options: ImageOptions) -> Manifest:
    """Return the checked manifest of a draft.

    Raises:
        InputError: The draft has no images, duplicate ids, a pattern that does not match, or a group without
            information, or :func:`memorisk.images.layouts.draft.join_labels` refuses it.
    """
    if draft.table.empty:
        reasons = Counter(reason for _, reason in draft.skipped).most_common(3)
        why = "; ".join(f"{n:,} left out: {reason}" for reason, n in reasons)
        raise InputError(f"{one_line(draft.name)}: no images{f' ({why})' if why else ''}")
    if options.labels_csv is not None:
        join_labels(draft, options)
    _apply_patterns(draft, options)
    _settle_names(draft)
    _refuse_empty_group(draft)
    _settle_identity(draft)
    if "member" not in draft.table or "frame" not in draft.table:
        _expand_frames(draft, options)
    _fill_groups(draft)
    _note_shared_groups(draft)
    _name_splits(draft)
    manifest = Manifest(
        table=_ordered(draft.table),
        root=draft.root,
        name=draft.name,
        notes=tuple(draft.notes),
        skipped=pd.DataFrame(draft.skipped, columns=["path", "reason"], dtype=object),
        id_doubts=tuple(dict.fromkeys(draft.doubts)),
    )
    manifest.validate()
    return manifest


_COLUMNS = ("image_column", "path_column", "label_column", "group_column", "split_column", "dataset_column")


def refuse_unused(options: ImageOptions, source: str, allowed: tuple[str, ...] = ()) -> None:
    """Refuse columns named for a source without any, which would be ignored in silence.

    Raises:
        InputError: A column is named, and no joined table could have it.
    """
    unused = [name for name in _COLUMNS if getattr(options, name) is not None and name not in allowed]
    if unused and options.labels_csv is None:
        raise InputError(
            f"{one_line(source)}: {' and '.join(unused)} name columns of a table, and there is none; give it as "
            "labels_csv, or use label_from and group_from (for DICOM dicom_group)"
        )


def _apply_patterns(draft: Draft, options: ImageOptions) -> None:
    """Set label and group by regular expressions on the files' names."""
    paths = draft.table["path"].tolist() if draft.called is None else draft.called
    if options.label_from is not None:
        draft.table["label"] = _matched(options.label_from, "label", paths, paths, draft.name)
    if options.group_from is not None:
        names = paths if "/" in options.group_from else [p.rsplit("/", 1)[-1] for p in paths]
        draft.table["group"] = _matched(options.group_from, "group", names, paths, draft.name)
        draft.group_from = f"pattern '{one_line(options.group_from, 100)}'"
        draft.group_fallback = "change the pattern, or leave it out to make each image its own group"


def _matched(pattern: str, role: str, names: list[str], paths: list[str], source: str) -> list[str]:
    """Match a pattern in each name: its group called ``role``, else its first group, else the whole match.

    Raises:
        InputError: Some names do not match; the first are listed.
    """
    compiled = re.compile(pattern)
    which = role if role in compiled.groupindex else (1 if compiled.groups else 0)
    matches = [compiled.search(name) for name in names]
    values = [(m.group(which) or "") if m else "" for m in matches]
    failed = [path for path, value in zip(paths, values, strict=True) if not value]
    if failed and names is not paths and all(compiled.search(path) for path in paths):
        raise InputError(
            f"{one_line(source)}: {role}_from '{one_line(pattern, 100)}' was looked for in the names of files alone, "
            f"which lack it ({listed(failed)}): a pattern with a slash is looked for in the whole path"
        )
    if failed:
        raise InputError(
            f"{one_line(source)}: {role}_from '{one_line(pattern, 100)}' finds nothing in {len(failed):,} of "
            f"{len(paths):,} names ({listed(failed)}): give a pattern that finds it in the names of all files"
        )
    return values


def _settle_names(draft: Draft) -> None:
    """Give ids, labels and splits their one form, and note classes that differ by their form alone."""
    table = draft.table
    for column in ("image", "group", "split", "dataset"):
        if column in table:
            table[column] = normal_ids(texts(table[column]))
    if "label" not in table:
        return
    table["label"] = [normal_label(label) for label in texts(table["label"])]
    if alike := look_alikes(part for label in table["label"] for part in label.split("|")):
        draft.notes.append(
            f"{plural(len(alike), 'set of classes differs', 'sets of classes differ')} by case, leading zeros, "
            f"punctuation, alphabet or the form of numbers alone ({listed([' and '.join(names) for names in alike])}): "
            "each name counts as a class of its own; write a class in one way if they are one."
        )


def _settle_identity(draft: Draft) -> None:
    """Refuse patient ids that are placeholders, and note doubts about the identity of people.

    Raises:
        InputError: Some ids are placeholders.
    """
    if "group" not in draft.table:
        return
    groups, images = draft.table["group"].tolist(), draft.table["image"].tolist()
    patients = [group for group, image in zip(groups, images, strict=True) if group not in ("", image)]
    refuse_placeholders(patients, ", or take the ids from elsewhere (--group-column, --group-from, --dicom-group)")
    draft.doubts += id_doubts(patients)
    if not draft.finer:
        own = [group if group != image else "" for group, image in zip(groups, images, strict=True)]
        draft.doubts += study_doubts(texts(draft.table[STUDY]), own) if STUDY in draft.table else []
        draft.doubts += header_doubts(own, draft.headers)


def _refuse_empty_group(draft: Draft) -> None:
    """Refuse a group that is empty or the same for all images: it does not separate patients.

    Raises:
        InputError: The group is such a one; the message names the remedy.
    """
    if "group" not in draft.table or len(draft.table) < 2:
        return
    values = set(draft.table["group"])
    if len(values) == 1:
        value = next(iter(values))
        what = "empty" if value == "" else f"{one_line(value, 60)!r}"
        raise InputError(
            f"{one_line(draft.name)}: the {draft.group_from or 'group'} is {what} for all {len(draft.table):,} images, "
            f"so it cannot tell whose they are; {draft.group_fallback or 'give another group_column or group_from'}"
        )


def _expand_frames(draft: Draft, options: ImageOptions) -> None:
    """Choose the frames of stacks; with ``all`` a row becomes one row per frame, all in the group of their file."""
    paths = draft.table["path"].tolist()
    volumes = [draft.kind == "nifti" if draft.kind else is_volume(draft.root, path) for path in paths]
    if any(volumes):
        draft.table["member"] = [options.slice_plane if volume else "" for volume in volumes]
    if options.frames == "auto":
        return
    frames = [_chosen_frames(draft.root / p, v, options) for p, v in zip(paths, volumes, strict=True)]
    if options.frames == "all" and "group" not in draft.table:
        draft.table["group"] = draft.table["image"]
    table = draft.table.loc[draft.table.index.repeat([len(chosen) for chosen in frames])].reset_index(drop=True)
    flat = [frame for chosen in frames for frame in chosen]
    if options.frames == "all":
        table["image"] = [i if f is None else f"{i}#{f}" for i, f in zip(table["image"].tolist(), flat, strict=True)]
        draft.notes.append(f"{len(paths):,} files gave {len(table):,} frames; those of a file share its group.")
    if any(frame is not None for frame in flat):
        table["frame"] = pd.array(flat, dtype="Int64")
    draft.table = table


def _chosen_frames(path: Path, volume: bool, options: ImageOptions) -> list[int | None]:
    """Return the frames to take of one file; ``[None]`` leaves it to the reader's rule."""
    if not is_stack(path, volume=volume):
        return [None]
    if options.frames == "first":
        return [0]
    n = frame_count(path, volume=volume, plane=options.slice_plane)
    if n is None:  # unreadable files keep one row: the store refuses or counts them, with the reason
        return [None]
    if options.frames == "middle":
        return [n // 2]
    if n == 1:
        return [None]
    return list(range((n // 2) % options.frame_step, n, options.frame_step))


def _fill_groups(draft: Draft) -> None:
    """Make an image without a group its own group; its name must differ from the names of other groups."""
    images = draft.table["image"].tolist()
    if "group" not in draft.table:
        draft.table["group"] = images
        return
    groups = texts(draft.table["group"])
    given_groups = set(groups)
    missing = groups.count("")
    if missing:
        own = [image if image not in given_groups else f"{image}{ALONE}" for image in images]
        groups = [group or alone for group, alone in zip(groups, own, strict=True)]
        draft.notes.append(f"{missing:,} images have no group; each is its own.")
    draft.table["group"] = groups


def _note_shared_groups(draft: Draft) -> None:
    """Note groups of several data sets, which count as one person: the table may intend it, or number them anew."""
    if "dataset" not in draft.table:
        return
    pairs = set(zip(texts(draft.table["group"]), texts(draft.table["dataset"]), strict=True))
    shared = sorted(group for group, n in Counter(group for group, _ in pairs).items() if n > 1)
    if shared:
        draft.notes.append(
            f"{len(shared):,} groups occur in several data sets and are taken as one person each "
            f"({listed(shared, 3)}); give them different ids if they are not."
        )


def _name_splits(draft: Draft) -> None:
    """Give splits their usual names; an empty column is dropped."""
    if "split" not in draft.table:
        return
    splits = [canonical_split(value) for value in texts(draft.table["split"])]
    if any(splits):
        draft.table["split"] = splits
    else:
        draft.table = draft.table.drop(columns="split")


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Order the columns: the manifest's own first, as text; then the source's, in their order."""
    table = table.reset_index(drop=True)
    if "label" not in table:
        table["label"] = ""
    own = [c for c in RESERVED if c in table]
    for column in own:
        if column != "frame":
            table[column] = texts(table[column])
    return table.reindex(columns=[*own, *[c for c in table.columns if c not in RESERVED]])


def keep_user_columns(table: pd.DataFrame, extra: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Add a source's other columns to a draft's table, renamed ``user_<name>`` where the name is ours."""
    for name, values in extra.items():
        column_name = name
        while column_name in RESERVED or column_name in table:
            column_name = f"user_{column_name}"
        table[column_name] = values.array
    return table
