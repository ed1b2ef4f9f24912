"""The page of ``memorisk images check``: copies side by side, the gravest first; unread files; labels, splits."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from memorisk.audits.comparison.pictures import MOST_AT_A_GLANCE
from memorisk.audits.image_set.pictures import MOST_IMAGES, MOST_SETS, CopyPicture
from memorisk.audits.image_set.tables import NEAR
from memorisk.images.set_check.check import DOUBTS, ImageCheck
from memorisk.images.set_check.text import frame_notes, missing_data_notes
from memorisk.report.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Fact,
    Facts,
    Figure,
    Gallery,
    Name,
    Page,
    Panel,
    Paragraph,
    Section,
    Steps,
    Strong,
    Table,
    Text,
    Thumbnail,
    data_uri,
    number,
    words,
)
from memorisk.report.columns import column_numbers, column_texts, count, largest_first
from memorisk.report.figures.intervals import series_plot
from memorisk.report.glance import counts_of
from memorisk.runs.errors import plural

_SIDE = 320
MOST_LABELS = 8
"""Number of labels in the figure of the first screen."""
_WAYS = {
    "unreadable": "Leave files out that cannot be read (--skip-unreadable), or mend them.",
    "not read": "Look at the files that were not read: they may hold images.",
    "empty": "Leave images out whose pixels are all the same.",
    DOUBTS: "Do what the notes below say of each: until then no audit of these images passes.",
    "groups across splits": "Put all images of a patient into one split.",
    "sets of equal images across labels": "Decide which label is right: a model can only memorize the other.",
    "sets of equal images across groups": "Give both images one patient id, or leave one out; until then an audit of a "
    "classifier counts both patients as one.",
    "sets of equal images across splits": "Leave the copy out of one split: it is no unseen image.",
    "pairs nearly the same across labels": "Look at near copies with two labels: one of them is wrong.",
    "pairs nearly the same across splits": "Look at near copies in two splits: the later one is no unseen image.",
}
"""Remedy of each kind of problem."""
WHAT = {"bytes": "equal files", "pixels": "equal pixels", NEAR: "nearly the same"}
"""Wording of the equality in a set of copies, by its kind."""


def check_page(
    check: ImageCheck, sets: pd.DataFrame, pictures: Mapping[str, CopyPicture] | None, *, redact: bool = False
) -> Page:
    """Lay out the findings of a check.

    Args:
        check: Findings of the check.
        sets: Table of `tables.copy_sets`.
        pictures: Pictures by image id; None for a page without.
        redact: Whether to leave out ids; pictures are None then.
    """
    return Page(
        title=["Images: ", "[redacted]" if redact else Name(check.name)],
        lead=_lead(check, sets, pictures),
        sections=[
            Section("Copies side by side", _copies(sets, pictures, redact), "copies"),
            *(
                [Section("Alike at a glance, and not the same", alike, "alike")]
                if (alike := _alike(check, redact))
                else []
            ),
            Section("What could not be read", unread_tables(vars(check), redact=redact), "unread"),
            Section("Labels", label_table(check.classes), "labels"),
            Section("Patients and splits", _splits(check, redact), "splits"),
            Section("Sizes and files", _files(check, redact), "files"),
            Section("How images were compared", _how(check, redact), "how"),
        ],
        redacted=redact,
    )


def _lead(check: ImageCheck, sets: pd.DataFrame, pictures: Mapping[str, CopyPicture] | None) -> list[Block]:
    """Name the problems that would spoil an audit, show images per label and the first copies, and the counts."""
    unread = len(check.unreadable) + len(check.not_read)
    facts = Facts(
        [
            Fact("Images", count(check.n), f"{count(unread)} could not be read"),
            Fact("Labels", count(len(check.classes))),
            Fact("Patients or other groups", count(len(check.groups))),
            Fact("Sets of copies", count(sets["set"].nunique()), plural(len(sets), "image", "images")),
        ]
    )
    return [problem_box(check.problems), Panel([*_labels(check), *_first_copies(sets, pictures)]), facts]


def _labels(check: ImageCheck) -> list[Block]:
    """Draw the number of images of the largest labels."""
    table = largest_first(check.classes, "images").head(MOST_LABELS)
    if not len(table):
        return []
    labels, sizes = column_texts(table, "label"), column_numbers(table, "images")
    return [
        Figure(
            svg=series_plot(labels, {"images": counts_of(sizes)}, x_title="Images"),
            title="Images by label",
            caption="",
            alternative=f"{'; '.join(f'{label}: {count(n)}' for label, n in zip(labels, sizes, strict=True))}.",
        )
    ]


def _first_copies(sets: pd.DataFrame, pictures: Mapping[str, CopyPicture] | None) -> list[Block]:
    """Show the images of the gravest sets of copies."""
    if pictures is None or not len(sets):
        return []
    first = [row for row in sets.sort_values("set", kind="stable").to_dict("records") if str(row["image"]) in pictures]
    items = [
        Thumbnail(
            data_uri=data_uri(pictures[str(row["image"])].pixels, side=_SIDE),
            caption=[f"set {row['set']}", Name(str(row["image"]))],
            alternative="Image of a set of copies, named below",
        )
        for row in first[:MOST_AT_A_GLANCE]
    ]
    return [Gallery(items=items, caption="Copies, the gravest first")]


def problem_box(problems: Mapping[str, int]) -> Callout:
    """Name the problems that would spoil an audit, and their remedies.

    Args:
        problems: Counts by kind, as `ImageCheck.problems` returns them.
    """
    steps = [
        [Strong(f"{what[0].upper()}{what[1:]}: {count(n)}."), f" {_WAYS.get(what, '')}"]
        for what, n in problems.items()
        if n
    ]
    if not steps:
        body: list[Block] = [Paragraph("Nothing was found that would spoil an audit of these images.")]
        return Callout("pass", "No problems found", body)
    return Callout("fail", "These images would spoil an audit as they are", [Steps(steps)])


def _copies(sets: pd.DataFrame, pictures: Mapping[str, CopyPicture] | None, redact: bool) -> list[Block]:
    """Show each set of copies, those across patients, splits and labels first."""
    if not len(sets):
        return [Paragraph("No two images are equal or nearly the same.")]
    n, crossing = len(set(sets["set"].tolist())), sets["across"] != ""
    summary = (
        f"{plural(n, 'set', 'sets')} of copies, {count(sets.loc[crossing, 'set'].nunique())} of "
        "them across patients, splits or labels: these come first. In a set every two images were found to be a pair."
    )
    blocks: list[Block] = [Paragraph(summary)]
    if pictures is not None:
        blocks.append(
            Paragraph("A picture is enlarged by a click or by the space bar, and closed likewise or by Escape.")
        )
        for _, rows in sets.loc[sets["set"] <= MOST_SETS].groupby("set", sort=True):
            blocks.append(_gallery(rows, pictures))
        if (more := max(sets["set"].tolist()) - MOST_SETS) > 0:
            blocks.append(Paragraph(f"{plural(more, 'further set is', 'further sets are')} only in the table."))
    elif not redact:
        blocks.append(Paragraph("Pictures were left out, as was asked for."))
    columns = [
        number("set", "Set", "count"),
        *([] if redact else [words("image", "Image", row=True), words("path", "File")]),
        words("label", "Label"),
        *([] if redact else [words("group", "Patient or group")]),
        words("split", "Split"),
        words("kind", "What is equal"),
        words("across", "Across"),
        number("similarity", "Similarity"),
    ]
    table = Table(
        frame=sets.assign(kind=[WHAT[kind] for kind in sets["kind"]]),
        columns=columns,
        caption="Images in sets of copies.",
        elsewhere="tables/sets.parquet",
        visible_rows=10,
    )
    return [*blocks, Details("All sets as a table", [table], printed=False) if pictures else table]


def _gallery(rows: pd.DataFrame, pictures: Mapping[str, CopyPicture]) -> Gallery:
    """Show one set: its images, and after each near copy its difference to the first."""
    records = rows.to_dict("records")
    items = []
    for record in records[:MOST_IMAGES]:
        picture, image = pictures[str(record["image"])], str(record["image"])
        items.append(
            Thumbnail(
                data_uri=data_uri(picture.pixels, side=_SIDE),
                caption=_caption(record),
                alternative=f"Image {len(items) + 1} of the set, named below",
            )
        )
        if picture.difference is not None:
            caption = (
                f"difference to the first, {picture.factor} times brighter"
                if picture.factor > 1
                else ("difference to the first" if picture.difference.any() else "nothing differs")
            )
            moved = ["once the first is mirrored or turned"] if picture.moved else []
            items.append(
                Thumbnail(
                    data_uri=data_uri(picture.difference, side=_SIDE),
                    caption=[caption, *moved],
                    alternative=f"How {image} differs from the first image of the set",
                )
            )
    first = records[0]
    across = f", across {str(first['across']).replace(', ', ' and ').replace('group', 'patient or group')}"
    alike = f" (similarity {first['similarity']:.3f})" if first["kind"] == NEAR else ""
    more = f"; {len(records) - MOST_IMAGES} more in the table" if len(records) > MOST_IMAGES else ""
    caption = f"Set {first['set']}: {WHAT[str(first['kind'])]}{alike}{across if first['across'] else ''}{more}."
    return Gallery(items=items, caption=caption)


def _caption(record: Mapping[Hashable, Any]) -> list[Text]:
    """Name an image, its label, patient and split, as far as there are any."""
    parts: list[Text] = [Name(str(record["image"]))]
    parts += [["label ", Name(str(record["label"]))]] if record["label"] else []
    parts += [["of ", Name(str(record["group"]))]] if record["group"] != record["image"] else []
    return parts + ([["split ", Name(str(record["split"]))]] if record["split"] else [])


def _alike(check: ImageCheck, redact: bool) -> list[Block]:
    """List pairs whose thumbnails are alike and whose pixels do not confirm it."""
    pairs = check.near.loc[~check.near["confirmed"].astype(bool)]
    if not len(pairs):
        return []
    note = Paragraph(
        "The thumbnails of these pairs are alike, and their details are not. They are no copies; one person may have "
        "two images here, or two ids."
    )
    if redact:
        return [note, Paragraph(f"{plural(len(pairs), 'pair', 'pairs')}; ids are left out.")]
    columns = [
        words("image_a", "Image", row=True),
        words("image_b", "The other"),
        number("similarity", "Similarity"),
        words("across", "Across"),
    ]
    table = Table(frame=pairs, columns=columns, caption="Pairs, most alike first.", elsewhere="tables/near.parquet",
                  visible_rows=10)  # fmt: skip
    return [note, table]


def unread_tables(found: Mapping[str, Any], *, redact: bool) -> list[Block]:
    """List the files of which nothing is known.

    Args:
        found: The tables ``unreadable``, ``not_read``, ``empty`` and ``few_levels`` of an `ImageCheck`.
        redact: Whether to count them only.
    """
    unreadable, not_read = found["unreadable"], found["not_read"]
    if redact:
        counts = f"{plural(len(unreadable), 'image', 'images')} could not be read, "
        return [Paragraph(f"{counts}{plural(len(not_read), 'file', 'files')} were not looked at; names are left out.")]
    return [
        Table(
            frame=unreadable,
            columns=[words("path", "File", row=True), words("reason", "Why", wide=True)],
            caption="Images that cannot be read.",
            empty="Every image could be read.",
            elsewhere="tables/unreadable.parquet",
        ),
        Table(
            frame=not_read,
            columns=[words("path", "File", row=True), words("reason", "Why", wide=True)],
            caption="Files and rows that may hold images and were not read.",
            empty="No other file may hold an image.",
            elsewhere="tables/not_read.parquet",
        ),
        Table(
            frame=found["empty"],
            columns=[words("path", "File", row=True), words("label", "Label")],
            caption="Images of which all pixels are the same.",
            empty="No image is empty.",
            elsewhere="tables/empty.parquet",
        ),
        Table(
            frame=found["few_levels"],
            columns=[
                words("path", "File", row=True),
                words("label", "Label"),
                number("levels", "Grey levels of 256", "count"),
            ],
            caption="Images of few grey levels: --window percentile shows each by its own range of values.",
            empty="No image has few grey levels.",
            elsewhere="tables/few_levels.parquet",
        ),
    ]


def label_table(classes: pd.DataFrame) -> list[Block]:
    """Count images of each label, the commonest first.

    Args:
        classes: Table of the labels of an `ImageCheck`.
    """
    classes = classes.sort_values("images", ascending=False, kind="stable")
    table = Table(
        frame=classes.assign(label=[label or "(none)" for label in classes["label"]]),
        columns=[
            words("label", "Label", row=True),
            number("images", "Images", "count"),
            number("share", "Share", "percent"),
            number("groups", "Patients or groups", "count"),
            number("largest_group", "Images of the largest", "count"),
            Column(source="auditable", heading="Large enough to be audited", format="yes_no"),
        ],
        caption="Labels, the commonest first.",
        elsewhere="tables/classes.parquet",
    )
    return [table]


def _splits(check: ImageCheck, redact: bool) -> list[Block]:
    """List the given splits and what is in two of them; count patients and their images."""
    sizes = check.groups["images"].tolist()
    largest = f"{plural(len(sizes), 'patient or other group', 'patients or other groups')}, at most "
    blocks: list[Block] = [Paragraph(f"{largest}{plural(max(sizes), 'image', 'images')} of one.")]
    if not len(check.splits):
        return [*blocks, Paragraph("No splits are given.")]
    blocks.append(
        Table(
            frame=check.splits,
            columns=[words("split", "Split", row=True), number("images", "Images", "count"),
                     number("groups", "Patients or groups", "count")],
            caption="Given splits.",
        )
    )  # fmt: skip
    if len(check.split_copies):
        columns = [words("split", "Split", row=True), words("also_in", "Also in"), number("images", "Images", "count")]
        blocks.append(Table(frame=check.split_copies, columns=columns, caption="Images that are in a split twice, or "
                            "in two splits."))  # fmt: skip
    columns = [*([] if redact else [words("group", "Patient or group", row=True)]), words("splits", "Splits"),
               number("images", "Images", "count")]  # fmt: skip
    return [
        *blocks,
        Table(
            frame=check.crossing_groups,
            columns=columns,
            caption="Patients with images in several splits.",
            empty="No patient has images in two splits.",
            elsewhere="tables/crossing_groups.parquet",
        ),
    ]


def _files(check: ImageCheck, redact: bool) -> list[Block]:
    """Count sizes; list files that hold more than their image."""
    table = Table(
        frame=check.sizes.assign(colour=["colour" if colour else "grey" for colour in check.sizes["colour"]]),
        columns=[
            number("width", "Width", "count"),
            number("height", "Height", "count"),
            *([number("depth", "Depth", "count")] if "depth" in check.sizes else []),
            words("colour", "Colour"),
            number("images", "Images", "count"),
        ],
        caption="Sizes in pixels, the commonest first.",
        elsewhere="tables/sizes.parquet",
        visible_rows=10,
    )
    blocks: list[Block] = [table, *(Paragraph(Name(note)) for note in frame_notes(check))]
    if redact or not len(check.frames_left):
        return blocks
    frames = Table(
        frame=check.frames_left,
        columns=[words("path", "File", row=True), number("frames", "Frames that were not looked at", "count")],
        caption="Files with more frames, pages or slices than were looked at.",
        elsewhere="tables/frames_left.parquet",
        visible_rows=10,
    )
    return [*blocks, frames]


def _how(check: ImageCheck, redact: bool) -> list[Block]:
    """Name the rule by which images are copies, the copies that were not looked for, and assumptions."""
    rules = [check.near_rule.words, *check.near_rule.not_looked_for]
    notes = [] if redact else [*check.notes, *missing_data_notes(check)]
    doubts = [(doubt.without_ids if redact else doubt).words for doubt in check.id_doubts]
    return [Steps([Name(text) for text in (*rules, *notes, *doubts)])]
