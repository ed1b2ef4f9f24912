"""A manifest in the making: what a source found, and the steps that every source shares.

In order: labels from a table (``images.sources.labels``), label and group from patterns in file names, frames of
stacks, groups for the images that have none, splits, columns, checks.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from memorisk.images.columns import canonical_split, texts
from memorisk.images.decoding.formats import Kind
from memorisk.images.manifest import RESERVED, Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sources.labels import join_labels
from memorisk.images.stacks import frames_in, is_stack, is_volume
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line


@dataclass
class Draft:
    """Rows of a source before the shared steps."""

    table: pd.DataFrame
    """Columns image and path, any of label, group, split, dataset, member, frame, and the source's own."""
    root: Path
    name: str
    notes: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of what was left out."""
    group_from: str = ""
    """Where the group column came from, in words."""
    group_fallback: str = ""
    """What to name as a way out when that turns out empty or the same everywhere."""
    kind: Kind | None = None
    """What all files are, where that is known; otherwise each is looked at."""
    called: list[str] | None = None
    """What patterns are searched in, a name for each row; None for the paths."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Further names by which a table may call the rows, as SOPInstanceUID; a list as long as the table each."""

    def skip(self, path: str, reason: str) -> None:
        """Note a file or row that is left out."""
        self.skipped.append((path, reason))


def finish(draft: Draft, options: ImageOptions) -> Manifest:
    """The manifest of a draft, checked.

    Raises:
        InputError: No images, duplicate ids, a pattern that does not match, a group that says nothing, or what
            :func:`memorisk.images.sources.labels.join_labels` refuses.
    """
    if draft.table.empty:
        reasons = Counter(reason for _, reason in draft.skipped).most_common(3)
        why = "; ".join(f"{n:,} left out: {reason}" for reason, n in reasons)
        raise InputError(f"{one_line(draft.name)}: no images{f' ({why})' if why else ''}")
    if options.labels_csv is not None:
        join_labels(draft, options)
    _apply_patterns(draft, options)
    _refuse_empty_group(draft)
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
    )
    manifest.validate()
    return manifest


_COLUMNS = ("image_column", "path_column", "label_column", "group_column", "split_column", "dataset_column")


def refuse_unused(options: ImageOptions, source: str, allowed: tuple[str, ...] = ()) -> None:
    """Refuse columns named for a source that has none, which would be passed over in silence.

    Raises:
        InputError: A column is named, and no table is joined that could have it.
    """
    unused = [name for name in _COLUMNS if getattr(options, name) is not None and name not in allowed]
    if unused and options.labels_csv is None:
        raise InputError(
            f"{one_line(source)}: {' and '.join(unused)} name columns of a table, and there is none; give it as "
            "labels_csv, or use label_from and group_from (for DICOM dicom_group)"
        )


def _apply_patterns(draft: Draft, options: ImageOptions) -> None:
    """Label and group by regular expressions on the files' names."""
    paths = draft.table["path"].tolist() if draft.called is None else draft.called
    if options.label_from is not None:
        draft.table["label"] = _matched(options.label_from, "label", paths, paths, draft.name)
    if options.group_from is not None:
        names = paths if "/" in options.group_from else [p.rsplit("/", 1)[-1] for p in paths]
        draft.table["group"] = _matched(options.group_from, "group", names, paths, draft.name)
        draft.group_from = f"pattern '{one_line(options.group_from, 100)}'"
        draft.group_fallback = "change the pattern, or leave it out to make each image its own group"


def _matched(pattern: str, role: str, names: list[str], paths: list[str], source: str) -> list[str]:
    """What a pattern finds in each name: its group called ``role``, else its first group, else the whole match.

    Raises:
        InputError: Some names do not match; the first are listed.
    """
    compiled = re.compile(pattern)
    which = role if role in compiled.groupindex else (1 if compiled.groups else 0)
    found = [compiled.search(name) for name in names]
    values = [(m.group(which) or "") if m else "" for m in found]
    failed = [path for path, value in zip(paths, values, strict=True) if not value]
    if failed:
        raise InputError(
            f"{one_line(source)}: {role}_from '{one_line(pattern, 100)}' finds nothing in {len(failed):,} of "
            f"{len(paths):,} names ({listed(failed)})"
        )
    return values


def _refuse_empty_group(draft: Draft) -> None:
    """A group that is empty or the same for all images says nothing about whose they are.

    Raises:
        InputError: It is so; the way out is named.
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
    """Choose the frames of stacks; with ``all`` a row becomes one for each frame, all in the group of their file."""
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
    """Frames to take of one file; ``[None]`` leaves it to the reader's rule."""
    if not is_stack(path, volume=volume):
        return [None]
    if options.frames == "first":
        return [0]
    n = frames_in(path, volume=volume, plane=options.slice_plane)
    if n is None:  # unreadable files keep one row: the store refuses or counts them, with the reason
        return [None]
    if options.frames == "middle":
        return [n // 2]
    if n == 1:
        return [None]
    return list(range((n // 2) % options.frame_step, n, options.frame_step))


def _fill_groups(draft: Draft) -> None:
    """An image without a group is its own; its name must not be that of another's group."""
    images = draft.table["image"].tolist()
    if "group" not in draft.table:
        draft.table["group"] = images
        return
    groups = texts(draft.table["group"])
    known = set(groups)
    missing = groups.count("")
    if missing:
        own = [image if image not in known else f"{image} (alone)" for image in images]
        groups = [group or alone for group, alone in zip(groups, own, strict=True)]
        draft.notes.append(f"{missing:,} images have no group; each is its own.")
    draft.table["group"] = groups


def _note_shared_groups(draft: Draft) -> None:
    """Say that a group of several data sets is taken as one person: the table may mean it so, or have numbered anew."""
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
    """Splits by their usual names; the column goes if it is empty."""
    if "split" not in draft.table:
        return
    splits = [canonical_split(value) for value in texts(draft.table["split"])]
    if any(splits):
        draft.table["split"] = splits
    else:
        draft.table = draft.table.drop(columns="split")


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """The manifest's own columns first, as text; then the source's, in their order."""
    table = table.reset_index(drop=True)
    if "label" not in table:
        table["label"] = ""
    own = [c for c in RESERVED if c in table]
    for column in own:
        if column != "frame":
            table[column] = texts(table[column])
    return table.reindex(columns=[*own, *[c for c in table.columns if c not in RESERVED]])


def keep_user_columns(table: pd.DataFrame, extra: Mapping[str, pd.Series]) -> pd.DataFrame:
    """A draft's table with a source's other columns beside it, renamed ``user_<name>`` where the name is ours."""
    for name, values in extra.items():
        kept = name
        while kept in RESERVED or kept in table:
            kept = f"user_{kept}"
        table[kept] = values.array
    return table
