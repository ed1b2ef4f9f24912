"""``memorisk images check --out``: look at a set, and write a run folder with its tables and a page."""

from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.page import check_page
from memorisk.audits.image_set.pictures import set_pictures
from memorisk.audits.image_set.tables import FOUND, copy_sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.manifest import Manifest
from memorisk.images.options import image_options
from memorisk.images.set_check import ImageCheck, check_images
from memorisk.images.sources.registry import load_manifest, path_sources, refuse_overlap
from memorisk.report.page import render_page
from memorisk.report.result import to_storable
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import announced, check_out_folder, open_run
from memorisk.runs.workload import Progress, no_progress

REPORT, SUMMARY, TABLES, MANIFEST = "report.html", "check.json", "tables", "manifest.parquet"


def check_set(
    source: str,
    options: CheckOptions,
    *,
    out: Path | None = None,
    progress: Progress = no_progress,
) -> ImageCheck:
    """Look at every image of a set once, compare all pairs, and write what was found.

    Args:
        source: What `load_manifest` takes.
        options: How images are read and compared, and what the page shows.
        out: Run folder: new, empty, or that of an earlier check, which is written again; None writes nothing.
        progress: Called with (stage, done, total).

    Returns:
        What was found; with ``pseudonymise`` under pseudonyms.

    Raises:
        InputError: The source or the pseudonym key cannot be read, or the folder cannot be used; nothing was written.
    """
    options.validate()
    names = Pseudonyms.from_options(options)
    if out is not None:
        refuse_overlap(out, path_sources({"the images": source}))
        check_out_folder(out, {}, identity=[])
    reading = image_options(options)
    with nullcontext(progress) if out is None else announced(out, "images", progress) as noted:
        manifest = _hidden_ids(load_manifest(source, reading), names)
        found = check_images(
            manifest,
            reading,
            turned=options.turned,
            near=options.near,
            progress=lambda done, total: noted("looking at images", done, total),
        )
    if out is None:
        return _hidden_paths(found, names)
    sets = copy_sets(found, manifest)
    pictures = set_pictures(sets, manifest, reading) if options.gallery and not options.redact else None
    found, sets = _hidden_paths(found, names), _hidden_column(sets, names)
    page = render_page(check_page(found, sets, pictures, redact=options.redact))
    config = {"images": source, "out": str(out), **asdict(options), "run": {"audit": "images"}}
    with open_run(out, names.knowing(config).settings(config), identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        remove_recorded(run / SUMMARY)
        if names.key is None:
            manifest.save(run / MANIFEST)
        else:  # the viewer shows no picture of a run under pseudonyms: what an earlier one listed goes as well
            remove_recorded(run / MANIFEST)
        folder = run.subfolder(TABLES)
        write_table(folder / "sets.parquet", to_storable(sets, "sets"), recorded=True)
        for name in FOUND:
            write_table(folder / f"{name}.parquet", to_storable(getattr(found, name), name), recorded=True)
        write_text(run / REPORT, page)
        write_json(run / SUMMARY, found.summary(), recorded=True)
        run.log("finished")
    return found


def _hidden_ids(manifest: Manifest, names: Pseudonyms) -> Manifest:
    """Put images and groups under pseudonyms, sorted by them; notes name files and columns, and are left out."""
    if names.key is None:
        return manifest
    table = manifest.table.assign(image=names.names(manifest.images), group=names.names(manifest.groups))
    ordered = table.sort_values("image", kind="stable").reset_index(drop=True)
    doubts = tuple(doubt.without_ids for doubt in manifest.id_doubts)
    return replace(manifest, table=ordered, name=names.source(manifest.name), notes=(), id_doubts=doubts)


def _hidden_paths(found: ImageCheck, names: Pseudonyms) -> ImageCheck:
    """Put the paths in what was found under pseudonyms."""
    with_paths = [name for name in FOUND if "path" in getattr(found, name)]
    return replace(found, **{name: _hidden_column(getattr(found, name), names) for name in with_paths})


def _hidden_column(table: pd.DataFrame, names: Pseudonyms) -> pd.DataFrame:
    """Put the column of paths under pseudonyms; a table without ids is sorted by them."""
    if names.key is None or not len(table):
        return table
    hidden = table.assign(path=names.names(table["path"]))
    return hidden if "image" in table else hidden.sort_values("path", kind="stable").reset_index(drop=True)
