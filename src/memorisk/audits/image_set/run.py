"""``memorisk images check --out``: look at a set, and write a run folder with its tables and a page."""

from dataclasses import asdict
from pathlib import Path

from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.page import check_page
from memorisk.audits.image_set.pictures import set_pictures
from memorisk.audits.image_set.tables import FOUND, copy_sets
from memorisk.images.options import image_options
from memorisk.images.set_check import ImageCheck, check_images
from memorisk.images.sources.registry import load_manifest, path_sources, refuse_overlap
from memorisk.report.page import render_page
from memorisk.report.result import to_storable
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import check_out_folder, open_run
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
        What was found.

    Raises:
        InputError: The source cannot be read, or the folder cannot be used; nothing was written.
    """
    options.validate()
    if out is not None:
        refuse_overlap(out, path_sources({"the images": source}))
        check_out_folder(out, {}, identity=[])
    reading = image_options(options)
    manifest = load_manifest(source, reading)
    found = check_images(
        manifest,
        reading,
        turned=options.turned,
        near=options.near,
        progress=lambda done, total: progress("looking at images", done, total),
    )
    if out is None:
        return found
    sets = copy_sets(found, manifest)
    pictures = set_pictures(sets, manifest, reading) if options.gallery and not options.redact else None
    page = render_page(check_page(found, sets, pictures, redact=options.redact))
    config = {"images": source, "out": str(out), **asdict(options), "run": {"audit": "images"}}
    with open_run(out, config, identity=["run"]) as run:
        run.log("started", versions=versions(), machine=machine())
        (run / SUMMARY).unlink(missing_ok=True)
        write_table(run / MANIFEST, manifest.table)
        folder = run.subfolder(TABLES)
        write_table(folder / "sets.parquet", to_storable(sets, "sets"))
        for name in FOUND:
            write_table(folder / f"{name}.parquet", to_storable(getattr(found, name), name))
        write_text(run / REPORT, page)
        write_json(run / SUMMARY, found.summary())
        run.log("finished")
    return found
