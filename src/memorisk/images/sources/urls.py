"""Sources that are URLs: brought over into a private copy, which is then read like any folder, table or array.

A table's images lie beside it unless ``image_root`` says where, so that of a table its whole folder comes over; of
arrays and of a published data set (``ham10000:s3://...``) what is named. Several sources by commas come one by one.
"""

import re
from dataclasses import replace
from pathlib import Path

from memorisk.images.options import ImageOptions
from memorisk.runs.storage.mirror import TABLES, local_source
from memorisk.runs.storage.storage import Storage
from memorisk.runs.storage.urls import url_of

_PUBLISHED = re.compile(r"([A-Za-z][A-Za-z0-9_-]+:)(?=[A-Za-z][A-Za-z0-9+.-]+://)")
_BESIDE = frozenset((*TABLES, ".gz"))  # idx files, too: MNIST's labels lie beside its images


def local_options(options: ImageOptions) -> ImageOptions:
    """The options with local copies of ``image_root`` and ``labels_csv`` where they are URLs.

    Raises:
        InputError: A URL names nothing.
        MemoriskError: The storage does not answer.
    """
    named = {"image_root": options.image_root, "labels_csv": options.labels_csv}
    urls = {name: value for name, value in named.items() if value is not None and url_of(value)}
    return replace(options, **{n: local_source(v, options.store) for n, v in urls.items()}) if urls else options


def local_images(source: str | Path, options: ImageOptions) -> tuple[Path, str | Path] | None:
    """The local copy of a source, and what to read instead of the source.

    Returns:
        None where the source is no URL, or several sources by commas, of which each is asked for by itself.

    Raises:
        InputError: The URL names nothing, or names of its files lead out of the copy.
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
