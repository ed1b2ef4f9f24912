"""Sources at a URL: copied to a private folder, which is then read like any folder, table or array.

The images of a table lie next to it unless ``image_root`` names another place, so its whole folder is copied; for
arrays and a published data set (``ham10000:s3://...``) the named path is copied. Several sources by commas are copied
one by one.
"""

import re
from dataclasses import replace
from pathlib import Path

from memorisk.images.options import ImageOptions
from memorisk.runs.storage.filesystem import Storage
from memorisk.runs.storage.locations import url_of
from memorisk.runs.storage.mirror import TABLES, local_source

_PUBLISHED = re.compile(r"([A-Za-z][A-Za-z0-9_-]+:)(?=[A-Za-z][A-Za-z0-9+.-]+://)")
_BESIDE = frozenset((*TABLES, ".gz"))  # idx files, too: MNIST's labels lie next to its images


def local_options(options: ImageOptions) -> ImageOptions:
    """Return the options with local copies of ``image_root`` and ``labels_csv`` where they are URLs.

    Raises:
        InputError: A URL leads to nothing.
        MemoriskError: The storage does not answer.
    """
    places = {"image_root": options.image_root, "labels_csv": options.labels_csv}
    urls = {name: value for name, value in places.items() if value is not None and url_of(value)}
    return replace(options, **{n: local_source(v, options.store) for n, v in urls.items()}) if urls else options


def local_images(source: str | Path, options: ImageOptions) -> tuple[Path, str | Path] | None:
    """Copy a source to this machine, and return the copy and the source to read in its place.

    Returns:
        Local copy and new source; None where the source is not a URL, or is several sources by commas, which are
        copied one by one.

    Raises:
        InputError: The URL leads to nothing, or names of its files lead out of the copy.
        MemoriskError: The storage does not answer, or the disk is full.
    """
    text = str(source)
    published = _PUBLISHED.match(text) if isinstance(source, str) else None
    head = published[1] if published else ""
    place = text[len(head) :] if isinstance(source, str) else source
    url = url_of(place)
    if url is None or ("," in text and Storage(url).kind() is None):
        return None
    suffix = Path(url).suffix.lower()
    beside = not head and options.image_root is None and (suffix in _BESIDE or "idx" in Path(url).name)
    local = local_source(url, options.store, beside=beside)
    return local, f"{head}{local}" if head else local
