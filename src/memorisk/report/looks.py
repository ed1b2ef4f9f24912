"""A result as a notebook shows it: its verdict and classes, the images it flags, and plots of its numbers.

Plots draw on axes of matplotlib and return them; matplotlib, and the readers of images, load only when needed.
For a run with ``--redact`` the module never shows an id or an image. For one with ``--pseudonymise`` it shows neither
images nor paths: its folder does not record which these are.
"""

import html
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from memorisk.report.blocks import Table
from memorisk.report.cells import cell_text
from memorisk.report.columns import booleans, column_numbers, column_texts, rows
from memorisk.report.first_screen import first_screen
from memorisk.report.flagged import NOT_TESTED, classes_tested
from memorisk.report.result import ID_COLUMNS, Result
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.runs.files import read_table
from memorisk.runs.folder import is_hidden, read_config
from memorisk.runs.settings import written_settings
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, find_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = frozenset((".parquet", ".arrow"))
"""Endings of files that hold many images as rows, as files of arrays do."""
_MOST_ROWS, _MOST_IMAGES, _TITLE = 30, 24, 30
_IDS = (*ID_COLUMNS, "patient", "synthetic_image", "training_image", "synthetic_path", "training_path")
_SETS = {"image": "images", "training": "train", "synthetic": "synthetic"}
"""Setting that names the place of images, by their name in tables."""


def result_html(result: Result) -> str:
    """Return the first screen of a result as HTML. Text of users is escaped.

    Args:
        result: Result of any audit.
    """
    screen, escape = first_screen(result), html.escape
    parts = [f"<p><strong>{escape(screen.headline)}</strong></p>"]
    for heading, sentences in screen.lists.items():
        if sentences:
            parts += [f"<p>{escape(heading)}</p>", _html_list(sentences[:_MOST_ROWS])]
    parts.append(_html_list([f"{f.label}: {f.value}{f.note and f' ({f.note})'}" for f in screen.facts]))
    parts += map(_html_table, screen.tables)
    if (report := result.report_path) is not None:
        parts.append(f"<p>Report: <code>{escape(str(report))}</code></p>")
    return f"<div>{''.join(parts)}</div>"


def _html_list(texts: Sequence[str]) -> str:
    """Write texts as a list."""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>"


def _html_table(table: Table) -> str:
    """Write the first rows of a table in the formats of its columns; numbers are aligned right."""
    aligned = [f' style="text-align:{"right" if column.numeric else "left"}"' for column in table.columns]
    head = "".join(f"<th{at}>{c.heading}</th>" for c, at in zip(table.columns, aligned, strict=True))
    body = ""
    for row in table.frame.head(_MOST_ROWS).to_dict("records"):
        cells = (html.escape(cell_text(row, column)) for column in table.columns)
        body += f"<tr>{''.join(f'<td{at}>{cell}</td>' for cell, at in zip(cells, aligned, strict=True))}</tr>"
    n_more = len(table.frame) - _MOST_ROWS
    more = f"<p>{n_more} more rows in <code>{table.elsewhere}</code></p>" if n_more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def flagged_images(result: Result) -> pd.DataFrame:
    """List what an audit flags, worst first, with the files where they are known.

    Each row is an image (``image``; for a synthetic set a pair, ``synthetic_image`` and ``training_image``), not a
    patient: reports count patients, which ``group`` (for a synthetic set ``patient``) names.
    ``frame["group"].nunique()`` is the count of a report.

    All scored images of a flagged patient are listed, also those with little evidence of their own: ``p_value`` is an
    image's own, ``group_p_value`` the patient's. ``image`` is the id; for arrays it is the row as text, with leading
    zeros (``"007"``). ``path`` opens the file. It is empty where an image has no file of its own: arrays, rows of
    Parquet.

    Args:
        result: Result of a classifier (its images of flagged patients, by M), of a synthetic set (its pairs, most
            similar first), or of a filter (rejected images).

    Returns:
        Table of the images. Where it is empty because no patient could have been flagged, the function gives a
        `UserWarning`, and ``frame.attrs["why_empty"]`` keeps its sentence. Where some classes were not tested, a
        `UserWarning` names them, and ``frame.attrs["not_tested"]`` keeps that sentence.

    Raises:
        InputError: The result is of another audit.
    """
    table = result.per_image
    if "review" in result.tables:
        pairs = result.tables["review"]
        flagged = rows(pairs, [judgement != "dismiss" for judgement in column_texts(pairs, "verdict")])
    elif "flagged" in table:
        flagged = rows(table, booleans(table, "flagged"))
        flagged = flagged.sort_values(["M", "image"], ascending=[False, True], kind="stable")
        flagged = _with_group_p(flagged, result.per_group)
    elif "kept" in table:
        flagged = rows(table, ~booleans(table, "kept"))
    else:
        raise InputError(f"this is a result of audit {result.verdict.get('audit')}, which flags no images")
    flagged = flagged.reset_index(drop=True)
    if result.redacted:
        flagged = flagged.drop(columns=[name for name in _IDS if name in flagged])
    elif result.folder is not None:
        flagged = _with_paths(flagged, result.folder)
    for name, why in _untested(result, len(flagged)).items():
        flagged.attrs[name] = why
        warnings.warn(why, UserWarning, stacklevel=3)  # at the line that calls `Result.flagged`
    return flagged


def _untested(result: Result, n_flagged: int) -> dict[str, str]:
    """Describe the set, or the classes, in which no patient could have been flagged; empty where that is not known."""
    if "review" in result.tables and not n_flagged and result.verdict.get("n_listed", 0) is None:
        return {"why_empty": f"{NOT_TESTED}: no list of patients was possible with so few held-out ones"}
    classes = result.per_class
    if not len(classes) or "testable" not in classes:
        return {}
    untested = rows(classes, ~classes_tested(classes))
    if not len(untested):
        return {}
    why = next((text for text in column_texts(untested, "why_not") if text), "")
    why = f" ({one_line(why, 200)})" if why else ""
    if len(untested) == len(classes) and not n_flagged:
        return {"why_empty": f"{NOT_TESTED}: no patient could have been flagged in any class{why}"}
    names = listed([one_line(name, 60) for name in column_texts(untested, "label")])
    were = "was" if len(untested) == 1 else "were"
    return {"not_tested": f"{len(untested)} of {len(classes)} classes {were} not tested: {names}{why}"}


def _with_group_p(table: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Return a table of images with the p-value of each one's patient, where the run has it."""
    if not {"label", "group", "p_value"} <= set(groups) or not {"label", "group"} <= set(table):
        return table
    of = dict(
        zip(zip(groups["label"], groups["group"], strict=True), column_numbers(groups, "p_value").tolist(), strict=True)
    )
    mine = [of.get(pair, np.nan) for pair in zip(table["label"], table["group"], strict=True)]
    table = table.copy()
    place = list(table.columns).index("p_value") + 1 if "p_value" in table else len(table.columns)
    table.insert(place, "group_p_value", np.array(mine, dtype=float))
    return table


def _with_paths(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Return a table with a column of paths for each column of ids whose files the run names."""
    config = read_config(folder)
    if config.get("pseudonymise"):
        return table
    for column, manifest, setting, name in (
        ("image", "manifest.parquet", "images", "path"),
        ("synthetic_image", "manifests/synthetic.parquet", "synthetic", "synthetic_path"),
        ("training_image", "manifests/training.parquet", "train", "training_path"),
    ):
        if column not in table or name in table or not (folder / manifest).is_file():
            continue
        listed = read_table(folder / manifest)
        files = dict(zip(column_texts(listed, "image"), column_texts(listed, "path"), strict=True))
        place = _files_folder(config, setting)
        paths = [files.get(image, "") for image in column_texts(table, column)]
        paths = ["" if Path(p).suffix in _ROWS else p for p in paths]
        table = table.assign(**{name: [str(place / p) if p and (place / p).is_file() else p for p in paths]})
    return table


def _files_folder(config: Mapping[str, Any], setting: str) -> Path:
    """Return the folder to which the paths of a run's manifest are relative."""
    from memorisk.images.layouts.cached_tables import TABLE, written_root

    if config.get("image_root"):
        return Path(str(config["image_root"]))
    place = Path(str(config.get(setting)))
    if place.is_dir():
        return place
    if place.name == TABLE and place.is_file():
        return written_root(place, read_table(place)) or place.parent
    return place.parent


def show_patient(result: Result, patient: str, *, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
    """Show the images of a patient: for a classifier with their M, for a synthetic set next to the similar ones.

    Args:
        result: Result as `Result.load` or an audit returned it.
        patient: Id of a patient, as ``group`` of its tables; for a classifier also the id of one image, shown alone.
        axes: Axes for the images, one each; a new figure where none are given.

    Returns:
        Axes that were drawn on.

    Raises:
        InputError: The result has no patient of that id, the run hides ids or images, or the images are gone.
    """
    patient = str(patient)
    if result.folder is None:
        raise InputError("this result has no run folder, which tells where its images are: read it with Result.load")
    config = read_config(result.folder)
    hidden = "redact" if result.redacted else "pseudonymise" if config.get("pseudonymise") else None
    if hidden is not None or any(is_hidden(config.get(name)) for name in _SETS.values()):
        raise InputError(f"this run was made with {hidden or 'pseudonymise'}: it shows no images")
    if "images" in config:
        is_patient = "group" in result.per_image and patient in column_texts(result.per_image, "group")
        is_image = not is_patient and patient in column_texts(result.per_image, "image")
        wanted = _rows_of(result.per_image, "image" if is_image else "group", patient, result)
        order = wanted.sort_values("M", ascending=False, kind="stable") if "M" in wanted else wanted
        values = column_numbers(order, "M") if "M" in order else np.empty(0)
        whose = column_texts(order, "group") if "group" in order else [patient] * len(order)
        patients = dict(zip(column_texts(order, "image"), whose, strict=True))
        titles = {image: _image_title(image, who) for image, who in patients.items()}
        for image, m in zip(column_texts(order, "image"), values, strict=False):
            score = "not scored" if np.isnan(m) else f"M = {m:.2f}"
            titles[image] = f"{_image_title(image, patients[image])}\n{score}"
        pixels = _pixels(config, "images", list(dict.fromkeys(order["image"]))[:_MOST_IMAGES])
    elif "train" in config:
        _rows_of(result.per_group, "group", patient, result)
        pairs = result.tables.get("review", pd.DataFrame(columns=["patient"]))
        pairs = rows(pairs, [who == patient for who in column_texts(pairs, "patient")])
        nearest = rows(result.per_group, [who == patient for who in column_texts(result.per_group, "group")])
        table = pairs if len(pairs) else nearest
        real = list(dict.fromkeys(column_texts(table, "training_image")))[: _MOST_IMAGES // 2]
        generated = list(dict.fromkeys(column_texts(table, "synthetic_image")))[: _MOST_IMAGES // 2]
        pixels = {f"training {name}": one for name, one in _pixels(config, "train", real).items()}
        pixels |= {f"synthetic {name}": one for name, one in _pixels(config, "synthetic", generated).items()}
        titles = {name: "\n".join(_wrapped(name)) for name in pixels}
    elif "file" in config:
        raise InputError(
            f"{one_line(result.folder)} rests on a table of losses, which names no files of images: look for "
            "the image of that id where the losses were computed"
        )
    else:
        raise InputError(f"{one_line(result.folder)} names no images of patients to show")
    return _draw_images([(titles.get(name, name), one) for name, one in pixels.items()], axes)


def _image_title(image: str, patient: str) -> str:
    """Name an image by its file's name below its patient, where that is another name; long names are wrapped."""
    lines = _wrapped(PurePath(image).name or image)
    return "\n".join(lines if patient in (image, "") else [one_line(patient, _TITLE), *lines])


def _wrapped(name: str) -> list[str]:
    """Return a name on a few lines that do not reach into the next image."""
    return textwrap.wrap(one_line(name, _TITLE * 3), _TITLE, break_on_hyphens=False) or [""]


def _rows_of(table: pd.DataFrame, column: str, patient: str, result: Result) -> pd.DataFrame:
    """Return the rows of a patient.

    Raises:
        InputError: The table has no row of the patient.
    """
    names = column_texts(table, column) if column in table else []
    patient_rows = rows(table, [who == patient for who in names])
    if not len(patient_rows):
        raise InputError(
            f"{one_line(patient, 60)!r} is not a patient of {one_line(result.folder or '')}; among them are "
            f"{listed(sorted(set(names)), 4)}"
        )
    return patient_rows


def _pixels(config: Mapping[str, Any], setting: str, images: Sequence[str]) -> dict[str, np.ndarray]:
    """Read images by id again from the place where the run had them.

    Raises:
        InputError: The images are gone.
    """
    from memorisk.images.options import ImageOptions, of_synthetic_images
    from memorisk.images.pixels import PixelRule
    from memorisk.images.sources.registry import load_manifest
    from memorisk.images.store import manifest_sources
    from memorisk.images.volumes import middle_slice

    names = {field.name for field in fields(ImageOptions)}
    options = ImageOptions(**written_settings(ImageOptions, {k: v for k, v in config.items() if k in names}))
    options = of_synthetic_images(options) if setting == "synthetic" else options
    manifest = load_manifest(str(config[setting]), options)
    place = {image: row for row, image in enumerate(manifest.images)}
    if gone := [image for image in images if image not in place]:
        raise InputError(f"{one_line(config[setting], 120)} has no image {one_line(gone[0], 60)} any more")
    sources = manifest_sources(manifest.subset(np.array([place[image] for image in images], dtype=np.int64)))
    rule = PixelRule.of(options)
    return {image: middle_slice(rule.read(source)) for image, source in zip(images, sources, strict=True)}


def _draw_images(pixels: Sequence[tuple[str, np.ndarray]], axes: "Sequence[Axes] | None") -> "list[Axes]":
    """Draw each image on axes of its own, below its title."""
    if axes is None:
        from matplotlib import pyplot as plt

        across = min(6, max(1, len(pixels)))
        down = -(-len(pixels) // across)
        _, grid = plt.subplots(down, across, figsize=(2.2 * across, 2.7 * down), squeeze=False, layout="constrained")
        axes = list(grid.flat)
        for spare in axes[len(pixels) :]:
            spare.set_axis_off()
    drawn = list(axes)[: len(pixels)]
    for place, (title, image) in zip(drawn, pixels, strict=False):
        grey = image.shape[2] == 1
        limit = np.iinfo(image.dtype).max if image.dtype == np.uint8 else int(image.max()) or 1
        place.imshow(image[..., 0] if grey else image / limit, cmap="gray" if grey else None, vmin=0, vmax=limit)
        place.set_axis_off()
        place.set_title("\n".join(one_line(line, 48) for line in title.split("\n")), fontsize=8, parse_math=False)
    return drawn


def _axes(ax: "Axes | None") -> "Axes":
    """Return the axes that were given, or new ones."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]


def plot_classes(result: Result, ax: "Axes | None" = None) -> "Axes":
    """Draw the mean memorization of each class with its interval, the rarest class first.

    Dashed lines mark the beginning of the tiers MODERATE and HIGH.

    Args:
        result: Result of a classifier's audit.
        ax: Axes to draw on; new axes where none are given.

    Raises:
        InputError: The result has no memorization of classes.
    """
    from memorisk.report.figures.sheet import colour

    table = result.per_class
    if not {"label", "mean", "low", "high"} <= set(table):
        raise _lacks(result, "memorization of classes", "plot_distances")
    if "n" in table:
        table = table.sort_values("n", kind="stable")
    mean, low, high = (column_numbers(table, name) for name in ("mean", "low", "high"))
    ax = _axes(ax)
    place = np.arange(len(table))
    ax.hlines(place, low, high, color=colour("blue"), linewidth=2)
    ax.plot(mean, place, "o", color=colour("blue"))
    ax.axvline(0, color=colour("muted"), linewidth=0.8)
    for begins in sorted(find_scale(result.summary.get("scale", CROSS_ENTROPY.name)).gates.values()):
        ax.axvline(begins, color=colour("muted"), linewidth=0.8, linestyle="--")
    counts = [f"  n = {n:,.0f}" for n in column_numbers(table, "n")] if "n" in table else [""] * len(table)
    names = [one_line(name, 30) for name in column_texts(table, "label")]
    ax.set_yticks(place, [f"{name}{n}" for name, n in zip(names, counts, strict=True)])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.invert_yaxis()
    ax.set_xlabel("Mean memorization M, with 95 % interval")
    return ax


def plot_roc(result: Result, ax: "Axes | None" = None) -> "Axes":
    """Draw the ROC curve of each attack, on logarithmic axes.

    Args:
        result: Result of a classifier's audit.
        ax: Axes to draw on; new axes where none are given.

    Raises:
        InputError: The result has no attacks.
    """
    from memorisk.report.figures.sheet import DASHES, SERIES, colour

    curves: Mapping[str, Mapping[str, Sequence[float]]] = result.summary.get("roc") or {}
    if not curves:
        raise _lacks(result, "attacks with ROC curves", "plot_distances")
    ax = _axes(ax)
    smallest = 1.0
    for i, (name, curve) in enumerate(curves.items()):
        fpr, tpr = np.asarray(curve["fpr"], dtype=float), np.asarray(curve["tpr"], dtype=float)
        smallest = min(smallest, *(v[v > 0].min(initial=1.0) for v in (fpr, tpr)))
        look = {"color": colour(SERIES[i % len(SERIES)]), "linestyle": DASHES[(i + i // len(SERIES)) % len(DASHES)]}
        ax.step(fpr, tpr, where="post", label=name.replace("_", " "), **look)
    ends = [smallest, 1.0]
    ax.plot(ends, ends, color=colour("muted"), linewidth=0.8, linestyle=":", label="guessing")
    ax.set(xscale="log", yscale="log", xlim=(smallest, 1), ylim=(smallest, 1.15))
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    ax.legend(fontsize=8)
    return ax


def plot_distances(result: Result, ax: "Axes | None" = None) -> "Axes":
    """Draw how near a synthetic set comes to training and to held-out patients, by the first detector.

    Args:
        result: Result of the audit of a synthetic set.
        ax: Axes to draw on; new axes where none are given.

    Raises:
        InputError: The result has no distances.
    """
    from memorisk.report.figures.sheet import colour

    if "real_images" not in result.tables:
        raise _lacks(result, "distances", "plot_classes")
    units = "images" if result.summary.get("units") == "images" else "patients"
    pools = {f"training {units}": column_numbers(result.per_group, "distance")}
    if (held := result.tables.get("held_out")) is not None and len(held):
        first = column_texts(held, "detector")[0]
        held = rows(held, [name == first for name in column_texts(held, "detector")])
        pools[f"held-out {units}"] = column_numbers(held, "distance")
    finite_pools = {name: values[np.isfinite(values)] for name, values in pools.items()}
    every = np.concatenate(list(finite_pools.values()))
    edges = np.histogram_bin_edges(every, bins=40)
    ax = _axes(ax)
    for (name, values), ink in zip(finite_pools.items(), ("red", "blue"), strict=False):
        ax.stairs(np.histogram(values, edges)[0] / max(len(values), 1), edges, color=colour(ink), label=name)
    ax.set(xlabel="Distance to the nearest synthetic image", ylabel="Share")
    ax.legend(fontsize=8)
    return ax


def _lacks(result: Result, what: str, other: str) -> InputError:
    audit = result.verdict.get("audit") or "another kind"
    return InputError(f"a result of audit {audit} has no {what}; {other} may be what you want")
