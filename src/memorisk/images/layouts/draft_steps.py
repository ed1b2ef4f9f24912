"""Steps from a draft to a checked manifest, the same for every layout.

In order: labels from a table, label and group from patterns in file names, frames of stacks, groups for the images
that have none, splits, columns, checks.
"""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from memorisk.images.columns import canonical_split, texts
from memorisk.images.identity import (
    header_doubts,
    id_doubts,
    look_alikes,
    normal_ids,
    normal_label,
    refuse_placeholders,
    shared_object_doubts,
)
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.label_tables import join_labels
from memorisk.images.layouts.patient_folders import label_patients, patient_folder_doubts
from memorisk.images.manifest import ALONE, RESERVED, STUDY, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.readers.headers import frame_count, is_stack, is_volume
from memorisk.images.volumes import VOLUME, volumes_note
from memorisk.runs.errors import InputError, listed, one_line, plural

_COLUMNS = ("image_column", "path_column", "label_column", "group_column", "split_column", "dataset_column")


def finish_draft(draft: Draft, options: ImageOptions) -> Manifest:
    """Return the checked manifest of a draft.

    Raises:
        InputError: The draft has no images, duplicate ids, a pattern that does not match, or a group without
            information, or :func:`memorisk.images.layouts.label_tables.join_labels` refuses it.
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
    _leave_out_patient_labels(draft, options)
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
        labels_left_out=draft.labels_left_out,
    )
    manifest.validate()
    return manifest


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
    if role == "group":
        _refuse_cut_numbers(pattern, which, [m for m in matches if m], source)
    if failed:
        raise InputError(
            f"{one_line(source)}: {role}_from '{one_line(pattern, 100)}' finds nothing in {len(failed):,} of "
            f"{len(paths):,} names ({listed(failed)}): give a pattern that finds it in the names of all files"
        )
    return values


def _refuse_cut_numbers(pattern: str, which: str | int, matches: list[re.Match[str]], source: str) -> None:
    """Refuse ids that end in the middle of a number and become one id: 'p([0-9])' reads p10 and p11 as 1.

    A pattern that matches the digits which follow leaves them out on purpose.

    Raises:
        InputError: Some ids are cut, and fewer of them are different than of the whole numbers.
    """
    wholes: dict[str, set[str]] = {}
    for match in matches:
        value, rest = match.group(which) or "", match.string[match.end() :]
        if value[-1:].isdigit() and match.end() == match.end(which):
            wholes.setdefault(value, set()).add(value + rest[: len(rest) - len(rest.lstrip("0123456789"))])
    cut = {value: whole for value, whole in wholes.items() if len(whole) > 1}
    if cut:
        value, whole = min(cut.items())
        raise InputError(
            f"{one_line(source)}: group_from '{one_line(pattern, 100)}' ends in the middle of numbers, so that "
            f"{listed(sorted(whole))} become one group, {one_line(value, 40)}: match the whole number, as in "
            r"'(\d+)', or outside the group the digits that do not belong to an id, as in '(\d{4})\d*'"
        )


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
        objects = {STUDY: texts(draft.table[STUDY])} if STUDY in draft.table else {}
        draft.doubts += shared_object_doubts(draft.headers | objects, own)
        draft.doubts += header_doubts(own, draft.headers)


def _leave_out_patient_labels(draft: Draft, options: ImageOptions) -> None:
    """Leave out labels that are patients, which would be published as classes; doubt folders that look like patients.

    A user who gives a pattern or a table for the labels has decided what a class is.
    """
    if "label" not in draft.table:
        return
    labels, images = texts(draft.table["label"]), draft.table["image"].tolist()
    if "group" in draft.table:
        patients = [g if g != i else "" for g, i in zip(draft.table["group"].tolist(), images, strict=True)]
        if not label_patients(labels, patients):
            return
        draft.labels_left_out = (
            "the labels name the patients and were left out; name the classes by --label-column, --labels-csv or "
            "--label-from"
        )
        draft.notes.append(f"{draft.labels_left_out[0].upper()}{draft.labels_left_out[1:]}.")
    elif draft.labels_from_folders and options.label_from is None and (doubts := patient_folder_doubts(labels)):
        draft.doubts += doubts
        draft.labels_left_out = f"{doubts[0].why}: {doubts[0].what_would_decide}"
    else:
        return
    draft.table["label"] = ""


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
    if options.frames == "volume":
        _take_volumes(draft)
        return
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


def _take_volumes(draft: Draft) -> None:
    """Take each NIfTI file as one image; `memorisk.images.layouts.dicom_series` has joined the series of DICOM."""
    if draft.kind == "dicom":
        return
    volumes = [draft.kind == "nifti" or is_volume(draft.root, path) for path in draft.table["path"].tolist()]
    draft.table["member"] = [VOLUME if volume else "" for volume in volumes]
    if any(volumes):
        draft.notes.append(volumes_note(sum(volumes), "NIfTI file", "NIfTI files"))


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
