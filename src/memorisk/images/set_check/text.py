"""An image check as plain lines of text: problems first, then the other results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memorisk.images.pixels import FEW_LEVELS
from memorisk.images.readers.suffixes import KIND_BY_SUFFIX, suffix
from memorisk.runs.errors import file_and_image, one_line, plural

if TYPE_CHECKING:
    from memorisk.images.set_check.check import ImageCheck

_Row = dict[str, Any]
_UNLABELLED = ", but no image has a label: these images cannot be audited for what a classifier remembers"


def render_text(check: ImageCheck, *, shown: int = 20) -> list[str]:
    """Return the lines of a check for a terminal or a file.

    Args:
        check: Result of the check.
        shown: Length of the longest listing of one kind; the rest is counted.

    Returns:
        Lines without line breaks or control characters in them, whatever the names of files and labels hold.
    """
    wrong = ", ".join(f"{what}: {count:,}" for what, count in check.problems.items() if count)
    crossing, splits, sizes = (_rows(table) for table in (check.crossing_groups, check.splits, check.sizes))
    return [
        f"{one_line(check.name)}: {plural(check.n, 'image', 'images')}, "
        f"{plural(len(check.classes), 'class', 'classes')}, {plural(len(check.groups), 'group', 'groups')}",
        (f"problems found - {wrong}" if wrong else f"no problems found{'' if _labelled(check) else _UNLABELLED}")
        + _across_groups(check),
        *(f"note: {one_line(note)}" for note in (*check.notes, *(doubt.words for doubt in check.id_doubts))),
        *(f"note: {note}" for note in (*missing_data_notes(check), *frame_notes(check))),
        *_listing("unreadable", _rows(check.unreadable), shown, lambda r: f"{_file(r)}: {_text(r['reason'])}"),
        *_listing("not read", _rows(check.not_read), shown, lambda r: f"{_text(r['path'])}: {_text(r['reason'])}"),
        *_listing("further frames", _rows(check.frames_left), shown, lambda r: f"{_text(r['path'])}: {r['frames']:,}"),
        *_listing("empty (all pixels the same)", _rows(check.empty), shown, _file),
        *_listing(
            f"fewer than {FEW_LEVELS} of 256 grey levels (--window percentile shows each image by its own range)",
            _rows(check.few_levels),
            shown,
            lambda r: f"{_file(r)}: {r['levels']} levels",
        ),
        *_listing("groups in several of the given splits", crossing, shown, _crossing_group),
        *_copies(check, shown),
        *_near(check, shown),
        *(f"note: {sentence}" for sentence in (check.near_rule.words, *check.near_rule.not_looked_for)),
        *_classes(check),
        *_groups(check),
        *_listing("given splits", splits, shown, lambda r: f"{_text(r['split'])}: {_counts(r)}"),
        *_listing(f"sizes (width x height{' x depth' if 'depth' in check.sizes else ''})", sizes, shown, _size),
    ]


def _across_groups(check: ImageCheck) -> str:
    """Return the addition to the headline where images of two groups are nearly the same."""
    confirmed = check.near.loc[check.near["confirmed"].astype(bool), "across"].tolist()
    n = sum("group" in roles.split(", ") for roles in confirmed)
    if not n:
        return ""
    pairs = "1 pair of images of different groups is" if n == 1 else f"{n:,} pairs of images of different groups are"
    return f"; but {pairs} nearly the same (below): one person under two ids, or a copy"


def missing_data_notes(check: ImageCheck) -> list[str]:
    """List the missing data, and the checks that were therefore impossible."""
    notes = []
    if len(check.groups) == check.n > 1:
        notes.append(
            "no two images share a group: patients who cross splits could not be looked for (--group-from, "
            "--group-column)"
        )
    if not _labelled(check):
        notes.append("no image has a label, which an audit needs (--labels-csv, --label-column, --label-from)")
    return notes


def frame_notes(check: ImageCheck) -> list[str]:
    """List the frames that are not among the images, and the option that reads them."""
    n, files = sum(check.frames_left["frames"].tolist()), len(check.frames_left)
    if not n:
        return []
    whose = f"of {plural(files, 'file was', 'files were')} not looked at"
    if "depth" in check.sizes:
        return [f"{plural(n, 'further volume', 'further volumes')} {whose}; write each volume to a file of its own"]
    frames = plural(n, "further frame, page or slice", "further frames, pages or slices")
    nifti = any(KIND_BY_SUFFIX.get(suffix(str(path))) == "nifti" for path in check.frames_left["path"].tolist())
    whole = ", and --frames volume reads each NIfTI file as one image" if nifti else ""
    return [f"{frames} {whose}; --frames all reads them, too{whole}"]


def _labelled(check: ImageCheck) -> bool:
    """Return whether any image has a label."""
    return any(row["label"] for row in _rows(check.classes))


def _file(row: _Row) -> str:
    return file_and_image(str(row["path"]), str(row["image"]))


def _rows(table: Any) -> list[_Row]:
    return table.to_dict("records")


def _text(value: object) -> str:
    return one_line(value, 100)


def _listing(title: str, rows: Sequence[_Row], shown: int, line: Callable[[_Row], str]) -> list[str]:
    if not rows:
        return []
    count = len(rows)
    more = [f"  ... and {count - shown:,} more"] if count > shown else []
    return [f"{title}: {count:,}", *(f"  {line(row)}" for row in rows[:shown]), *more]


def _counts(row: _Row) -> str:
    return f"{plural(row['images'], 'image', 'images')}, {plural(row['groups'], 'group', 'groups')}"


def _size(row: _Row) -> str:
    sides = " x ".join(str(row[side]) for side in ("width", "height", "depth") if side in row)
    return f"{sides}, {'colour' if row['colour'] else 'grey'}: {row['images']:,}"


def _crossing_group(row: _Row) -> str:
    return f"{_text(row['group'])}: {plural(row['images'], 'image', 'images')} in {_text(row['splits'])}"


def _copies(check: ImageCheck, shown: int) -> list[str]:
    rows = _rows(check.duplicates)
    sets = [list(of) for _, of in groupby(rows, key=lambda r: r["copy"])]
    if not sets:
        return []
    kinds = [of[0]["kind"] for of in sets]
    counted = " and ".join(f"{kinds.count(kind):,} of equal {kind}" for kind in ("bytes", "pixels") if kind in kinds)
    n_sets = plural(len(sets), "set", "sets")
    lines = [f"equal images: {n_sets} ({counted}), {len(rows) - len(sets):,} more images than need be"]
    for of in sorted(sets, key=lambda of: -_crossings(of[0]["across"]))[:shown]:
        copies = " = ".join(_place(r["image"], r["label"], r["group"], r["split"]) for r in of[:4])
        more = f" and {len(of) - 4:,} more" if len(of) > 4 else ""
        lines.append(f"  {copies}{more}{_across(of[0]['across'])}")
    lines += [f"  ... and {len(sets) - shown:,} more sets"] if len(sets) > shown else []
    return lines + [_split_copies(row) for row in _rows(check.split_copies)]


def _split_copies(row: _Row) -> str:
    split, other, n = _text(row["split"]), _text(row["also_in"]), row["images"]
    if split == other:
        return f"  {split} holds {plural(n, 'image', 'images')} a second time"
    return f"  {plural(n, f'image of {split} is', f'images of {split} are')} also in {other}"


def _near(check: ImageCheck, shown: int) -> list[str]:
    """List confirmed pairs, then pairs that only look alike, both most similar first."""
    rows = _rows(check.near)
    sure = [row for row in rows if row["confirmed"]]
    cut = check.near_found - len(rows)
    lines = _near_pairs("nearly the same", sure, shown)
    lines += _near_pairs("alike in a thumbnail, not the same as stored", [r for r in rows if not r["confirmed"]], shown)
    return [*lines, f"  ... and {cut:,} more pairs look alike and were not compared as stored"] if cut else lines


def _near_pairs(title: str, rows: Sequence[_Row], shown: int) -> list[str]:
    """List pairs whose images differ in label, group or split, and count the others, which are expected."""
    across = [row for row in rows if row["across"]]
    heading = [f"{title}: {len(rows):,}"] if rows else []
    others = len(rows) - len(across)
    within = [f"  {plural(others, 'pair', 'pairs')} of the same label, group and split"] if others else []
    return [*heading, *_listing(title, across, shown, _near_pair)[1:], *within]


def _near_pair(row: _Row) -> str:
    a, b = (_place(*(row[f"{what}_{side}"] for what in ("image", "label", "group", "split"))) for side in "ab")
    return f"{a} ~ {b} {row['similarity']:.3f}{_across(row['across'])}"


def _place(image: str, label: str, group: str, split: str) -> str:
    where: Iterable[str] = (_text(label) or "no label", _text(split), "" if group == image else f"group {_text(group)}")
    return f"{_text(image)} ({', '.join(part for part in where if part)})"


def _crossings(across: str) -> int:
    return len(across.split(", ")) if across else 0


def _across(across: str) -> str:
    return f": across {across.replace(', ', ' and ')}" if across else ""


def _classes(check: ImageCheck) -> list[str]:
    lines = ["classes:"]
    for r in _rows(check.classes):
        why = "no label" if r["label"] == "" else "too small to split: joins training only"
        groups = f"{plural(r['groups'], 'group', 'groups')}, the largest of {r['largest_group']:,}"
        note = "" if r["auditable"] else f"; {why}"
        images = f"{plural(r['images'], 'image', 'images')} ({r['share']:.1%})"
        lines.append(f"  {_text(r['label']) or '(none)'}: {images}, {groups}{note}")
    return lines


def _groups(check: ImageCheck) -> list[str]:
    sizes, labels = check.groups["images"].tolist(), check.groups["labels"].tolist()
    if max(sizes) == 1:
        return ["groups: each image is its own"]
    alone, mixed = sizes.count(1), sum(n > 1 for n in labels)
    of = f"groups: {len(sizes):,}, the largest of {max(sizes):,} images"
    return [f"{of}; {plural(alone, 'holds', 'hold')} one image, {mixed:,} more than one label"]
