"""The kept set on the disk: PNG files of the decoded pixels, a table of labels, no more (`images.exports.clean_set`).

The pixels are checked to be those that were looked at. Each image gets a number for a name, in the order of the ids
that the run shows; ``manifest`` of the run says which image that is.
"""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from memorisk.audits.filter.deciding import Decision
from memorisk.audits.filter.sets import FilterSets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.decoding.decoding import PixelRule
from memorisk.images.exports.clean_set import clean_names, write_clean_set
from memorisk.images.exports.listing import read_rows
from memorisk.images.options import ImageOptions
from memorisk.images.rows import manifest_sources, usable_processes
from memorisk.runs.checksums import files_below, listed_checksum
from memorisk.runs.progress import Progress

KEPT = "kept"
_UNFINISHED = (".kept.building", ".kept.old")


@dataclass(frozen=True)
class KeptRows:
    """The kept images in the order in which they are written."""

    rows: np.ndarray
    """Their rows among all synthetic images."""
    files: np.ndarray
    """[N] file name of every synthetic image, empty for those that are not kept."""

    @classmethod
    def of(cls, sets: FilterSets, decision: Decision, names: Pseudonyms) -> "KeptRows":
        """Number the kept images by the ids that the run shows, which tell nothing of hidden ones."""
        rows = np.flatnonzero(decision.kept)
        rows = rows[np.argsort(names.names(sets.asked.images[rows]).astype(str), kind="stable")]
        files = np.full(sets.asked.n, "", dtype=object)
        files[rows] = clean_names(len(rows))
        return cls(rows, files)


def write_kept(
    out: Path, sets: FilterSets, decision: Decision, options: ImageOptions, names: Pseudonyms, progress: Progress
) -> None:
    """Write the kept images to ``out/kept``, replacing what an earlier run left there.

    Args:
        out: The run folder, held by this process.
        sets: The images.
        decision: Which are kept.
        options: How the synthetic images were read.
        names: The ids that the run shows.
        progress: Called with (stage, done, total).

    Raises:
        MemoriskError: No space is left, or an image is not what it was when it was decoded.
        InputError: A file cannot be read, or has colours of 16 bits.
    """
    rows = KeptRows.of(sets, decision, names).rows
    sources = manifest_sources(sets.asked.subset(rows))
    pixels = read_rows(sets.synthetic.files)["pixels"].to_numpy(dtype=object)
    write_clean_set(
        out / KEPT,
        sources,
        sets.asked.labels[rows].tolist(),
        PixelRule.of(options),
        decoded=pixels[decision.place[rows]].tolist(),
        processes=usable_processes(None, sources),
        progress=partial(progress, "writing kept images"),
    )


def kept_sha256(out: Path) -> str:
    """Compute what identifies the kept set as it was written: a statement of the run compares the folder with it.

    Args:
        out: The run folder.
    """
    return listed_checksum(out / KEPT, files_below(out / KEPT)).sha256


def remove_kept(out: Path) -> None:
    """Remove a kept set and what is left of unfinished ones."""
    for name in (KEPT, *_UNFINISHED):
        shutil.rmtree(out / name, ignore_errors=True)
