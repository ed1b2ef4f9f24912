"""``memorisk images check --out``: look at a set, and write a run folder with its tables and a page."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.audits.image_set.mending import Mending, mend, refuse_place, write_mended
from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.page import check_page
from memorisk.audits.image_set.pictures import set_pictures
from memorisk.audits.image_set.tables import FOUND, copy_sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.runner import REPORT, Audit, run_audit
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions, image_options
from memorisk.images.pixels import PIXEL_HASH
from memorisk.images.set_check.check import ImageCheck, check_images
from memorisk.images.sources.registry import load_manifest
from memorisk.report.page import render_page
from memorisk.report.result import to_storable
from memorisk.runs.checksums import remove_recorded
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json, write_table, write_text
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import Progress, no_progress

SUMMARY, TABLES, MANIFEST = "check.json", "tables", "manifest.parquet"


@dataclass(frozen=True)
class CheckedSet:
    """Check of a set of images, and what can be mended in it."""

    check: ImageCheck
    mending: Mending | None
    """Mended table; None where none was requested."""


def check_set(
    source: str,
    options: CheckOptions,
    *,
    out: Path | None = None,
    mended: Path | None = None,
    progress: Progress = no_progress,
) -> CheckedSet:
    """Look at every image of a set once, compare all pairs, and write the findings.

    Args:
        source: Images as `load_manifest` takes them.
        options: Settings of reading, of comparing and of the page.
        out: Run folder: new, empty, or that of an earlier check, which is written again; None writes nothing.
        mended: New CSV file for the mended table; None writes none.
        progress: Called with (stage, done, total).

    Returns:
        Findings of the check, with ``pseudonymise`` under pseudonyms, and the mended table.

    Raises:
        InputError: The source or the pseudonym key cannot be read, or the folder cannot be used; nothing was written.
    """
    options.validate()
    if mended is not None:
        if options.pseudonymise:
            raise InputError("--mend writes the ids of the images: leave --pseudonymise out")
        refuse_place(mended, source)
    if out is None:
        names = Pseudonyms.from_options(options)
        manifest, check = _look(source, options, names, progress)
        check = _hidden_paths(check, names)
    else:
        audit = ImageSetCheck(out, options, {"images": source}, {"the images": source})
        manifest, check = run_audit(audit, progress)
    mending = None
    if mended is not None:
        mending = mend(manifest, check)
        write_mended(mending, mended)
    return CheckedSet(check, mending)


def _look(source: str, options: CheckOptions, names: Pseudonyms, progress: Progress) -> tuple[Manifest, ImageCheck]:
    """Look at every image of a set, under pseudonyms where the options ask for them."""
    reading = image_options(options)
    manifest = _hidden_ids(load_manifest(source, reading), names)
    looking = partial(progress, "looking at images")
    return manifest, check_images(manifest, reading, turned=options.turned, near=options.near, progress=looking)


class ImageSetCheck(Audit[tuple[Manifest, ImageCheck], tuple[Manifest, ImageCheck], tuple[Manifest, ImageCheck]]):
    """Check of a set of images before any training."""

    kind = "images"
    options: CheckOptions

    def read(self, names: Pseudonyms, progress: Progress) -> tuple[Manifest, ImageCheck]:
        """Look at every image."""
        return _look(self.given["images"], self.options, names, progress)

    def identity(self, evidence: tuple[Manifest, ImageCheck]) -> dict[str, Any]:
        """Return nothing: another set may be checked in the same folder."""
        return {}

    def write(
        self, run: RunFolder, evidence: tuple[Manifest, ImageCheck], names: Pseudonyms, progress: Progress
    ) -> tuple[Manifest, ImageCheck]:
        """Write tables, the page and, last, the summary."""
        (manifest, check), options = evidence, self.options
        sets = copy_sets(check, manifest)
        pictures = None
        if options.gallery and not options.redact:
            pictures = set_pictures(sets, manifest, image_options(options))
        check, sets = _hidden_paths(check, names), _hidden_column(sets, names)
        page = render_page(check_page(check, sets, pictures, redact=options.redact))
        remove_recorded(run / SUMMARY)
        if names.key is None:
            stored = options.size is None and options.channels == ImageOptions.channels  # the viewer changes others
            manifest.save(run / MANIFEST, **{PIXEL_HASH: check.pixel_hashes if stored else ""})
        else:  # the viewer shows no picture of a run under pseudonyms: what an earlier one listed goes as well
            remove_recorded(run / MANIFEST)
        folder = run.subfolder(TABLES)
        write_table(folder / "sets.parquet", to_storable(sets, "sets"), recorded=True)
        for name in FOUND:
            write_table(folder / f"{name}.parquet", to_storable(getattr(check, name), name), recorded=True)
        write_text(run / REPORT, page)
        write_json(run / SUMMARY, check.summary(), recorded=True)
        return manifest, check


def _hidden_ids(manifest: Manifest, names: Pseudonyms) -> Manifest:
    """Put images and groups under pseudonyms, sorted by them; notes name files and columns, and are left out."""
    if names.key is None:
        return manifest
    table = manifest.table.assign(image=names.names(manifest.images), group=names.names(manifest.groups))
    ordered = table.sort_values("image", kind="stable").reset_index(drop=True)
    doubts = tuple(doubt.without_ids for doubt in manifest.id_doubts)
    return replace(manifest, table=ordered, name=names.source(manifest.name), notes=(), id_doubts=doubts)


def _hidden_paths(found: ImageCheck, names: Pseudonyms) -> ImageCheck:
    """Put the paths in the findings under pseudonyms."""
    with_paths = [name for name in FOUND if "path" in getattr(found, name)]
    return replace(found, **{name: _hidden_column(getattr(found, name), names) for name in with_paths})


def _hidden_column(table: pd.DataFrame, names: Pseudonyms) -> pd.DataFrame:
    """Put the column of paths under pseudonyms; a table without ids is sorted by them."""
    if names.key is None or not len(table):
        return table
    hidden = table.assign(path=names.names(table["path"]))
    return hidden if "image" in table else hidden.sort_values("path", kind="stable").reset_index(drop=True)
