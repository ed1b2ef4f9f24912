"""Sources that a user names: digits, a folder, a table, arrays, a published data set, a URL, or several.

Each layout has its module; they meet in ``images.layouts.draft_steps``, where labels, groups, frames and checks are
the same.

A source at a URL is copied to a private folder, which is then read like any folder, table or array. The images of a
table lie next to it unless ``image_root`` names another place, so its whole folder is copied; for arrays and a
published data set (``ham10000:s3://...``) the named path is copied. Several sources by commas are copied one by one.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

from memorisk.images.layouts.arrays import load_arrays
from memorisk.images.layouts.draft_steps import refuse_unused
from memorisk.images.layouts.folders import load_folder
from memorisk.images.layouts.shards import DICT, INFO, STATE, Shard, is_shard, load_shards, saved_shards
from memorisk.images.layouts.tables import load_table
from memorisk.images.manifest import Manifest, drop_labels, sample_manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.digits import digits_manifest
from memorisk.images.published.registry import load_official
from memorisk.images.readers.registry import SHARDS, file_format, file_head, unknown_kind
from memorisk.images.sources.joined import join_manifests
from memorisk.images.sources.places import nowhere, several_sources
from memorisk.images.volumes import is_volume_member
from memorisk.runs.errors import InputError, MemoriskError, listed, one_line
from memorisk.runs.storage.filesystem import Storage
from memorisk.runs.storage.locations import url_of
from memorisk.runs.storage.mirror import TABLES, local_source, name_url_in_error

GENERATED, GENERATED_TABLE, UNFINISHED_TABLE = "generate.json", "manifest.csv", "drawn.csv"
"""Names of files in a folder of ``memorisk generate``: the last file of a finished one, its table of classes, and the
table of an unfinished one."""
_PUBLISHED = re.compile(r"([A-Za-z][A-Za-z0-9_-]+:)(?=[A-Za-z][A-Za-z0-9+.-]+://)")
_OF_FOLDERS = frozenset((*TABLES, ".gz"))  # idx files, too: MNIST's labels lie next to its images
_TABLES = frozenset((".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".pq"))


def load_manifest(source: str | Path, options: ImageOptions | None = None) -> Manifest:
    """Return the manifest of a source; no pixel is decoded.

    Args:
        source: Name of a source: ``"digits"`` (built in; a folder of that name is ``"./digits"``), a folder (class
            folders, DICOM tree, NIfTI volumes, a set that ``memorisk generate`` made), a CSV, TSV or Parquet table,
            arrays (npz in MedMNIST's layout or plain, npy, HDF5, idx), or a published data set as ``NAME:FOLDER``
            (``images.published.registry``); or several of these by commas (``images.sources.joined``); each also at a
            URL (``s3://BUCKET/FOLDER``). A path that exists is a path, colon and comma or not.
        options: Options by which images are found, labelled, grouped and sampled.

    Returns:
        Checked manifest; ``notes`` list what was guessed, ``skipped`` what was left out.

    Raises:
        InputError: The source does not exist, it holds no images, or a row cannot be trusted (duplicate ids, paths that
            leave the folder, a group without information, files that are missing).
        MissingExtraError: DICOM or NIfTI is read without the extra ``medical``.
    """
    options = options or ImageOptions()
    options.validate()
    if not isinstance(source, (str, os.PathLike)):
        if isinstance(source, tuple | list):
            first = source[0] if isinstance(source, tuple) and source else source
            raise InputError(
                f"the images are a {type(source).__name__}; of (X, y, groups), X must be an array of [n, h, w] or "
                f"[n, h, w, c], and it is {_described(first)}: numpy.stack makes an array of images of one size"
            )
        what = "None" if source is None else f"an object of type {one_line(type(source).__name__, 60)}"
        raise InputError(
            f"the images are {what}, no source; name a folder, table or file, or a published data set; of a data set "
            "in Python with len() and items by number memorisk.save_dataset makes a folder"
        )
    manifest = drop_labels(_load(source, _local_options(options)), options.drop_label)
    if options.frames == "volume":
        _refuse_other_than_volumes(manifest)
    return manifest if options.sample is None else sample_manifest(manifest, options.sample, options.sample_seed)


def _refuse_other_than_volumes(manifest: Manifest) -> None:
    """Refuse other images where volumes are to be read.

    Raises:
        InputError: Some images are none.
    """
    members = manifest.table["member"].tolist() if "member" in manifest.table else [None] * manifest.n
    other = [image for image, one in zip(manifest.images, members, strict=True) if not is_volume_member(one)]
    if other:
        raise InputError(
            f"{one_line(manifest.name)}: frames volume reads a folder of NIfTI files or of DICOM series, or a table of "
            f"NIfTI files; {len(other):,} of {manifest.n:,} images are none ({listed(other, 3)})"
        )


def _described(value: object) -> str:
    """Describe the value given in place of an array."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of {len(shape)} dimensions"
    return f"a {one_line(type(value).__name__, 60)}" + (f" of {len(value):,}" if isinstance(value, list) else "")


def _load(source: str | Path, options: ImageOptions) -> Manifest:
    """Return the whole manifest of a source.

    Raises:
        InputError: The same errors as `load_manifest`.
        MissingExtraError: DICOM or NIfTI is read without the extra ``medical``.
    """
    if source == "digits":
        if Path(source).exists():
            raise InputError(
                "digits names the built-in data, and there is a folder or file digits here: write ./digits"
            )
        refuse_unused(options, "digits")
        return digits_manifest()
    if (copy := _local_copy(source, options)) is not None:
        try:
            return _load(copy[1], options)
        except MemoriskError as error:
            raise name_url_in_error(error, copy[0], source) from None
    path = Path(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        is_folder = is_file = False
    if is_folder and options.layout == "auto" and (path / GENERATED).is_file():
        generated = load_table(path / GENERATED_TABLE, options, quoted=True)
        return replace(generated, name=path.resolve().name or "images")
    if is_folder and options.layout in ("auto", "shards") and _is_saved(path):
        return load_shards(path, saved_shards(path), options, path.resolve().name or "images")
    if is_folder:
        if options.layout == "auto" and (path / UNFINISHED_TABLE).is_file() and (path / "images").is_dir():
            raise InputError(f"{one_line(path)} is a set that is not all drawn: memorisk generate resumes it")
        return load_folder(path, options)
    if not is_file:
        if len(parts := several_sources(str(source))) > 1:
            return join_manifests([_load(part, options) for part in parts])
        if (official := load_official(str(source), options)) is not None:
            return official
        raise nowhere(source)
    return _load_file(path, options)


def _is_saved(folder: Path) -> bool:
    """Return whether ``save_to_disk`` of the ``datasets`` library wrote a folder."""
    return (folder / DICT).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def _local_options(options: ImageOptions) -> ImageOptions:
    """Return the options with local copies of ``image_root`` and ``labels_csv`` where they are URLs.

    Raises:
        InputError: A URL leads to nothing.
        MemoriskError: The storage does not answer.
    """
    places = {"image_root": options.image_root, "labels_csv": options.labels_csv}
    urls = {name: value for name, value in places.items() if value is not None and url_of(value)}
    return replace(options, **{n: local_source(v, options.store) for n, v in urls.items()}) if urls else options


def _local_copy(source: str | Path, options: ImageOptions) -> tuple[Path, str | Path] | None:
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
    whole = not head and options.image_root is None and (suffix in _OF_FOLDERS or "idx" in Path(url).name)
    local = local_source(url, options.store, whole_folder=whole)
    return local, f"{head}{local}" if head else local


def _load_file(path: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of a file.

    Raises:
        InputError: The file is a single image, or not a known kind of source.
    """
    if options.layout not in ("auto", "table", "arrays", "shards"):
        raise InputError(f"layout {options.layout} is for a folder; {one_line(path)} is a file")
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    file_type = file_format(path)
    of_shards = file_type is not None and file_type.module == SHARDS and options.layout in ("auto", "shards")
    if of_shards and (options.layout == "shards" or not is_parquet or is_shard(path, options)):
        return load_shards(path.parent, [Shard(path.name, "")], options, path.stem)
    named_table = path.suffix.lower() in _TABLES and options.layout != "arrays"
    if is_parquet or named_table or options.layout == "table":
        return load_table(path, options)
    if file_type is not None and file_type.kind == "arrays":
        return load_arrays(path, options)
    if file_type is not None:
        raise InputError(f"{one_line(path)} is one {file_type.name} image; give its folder, or a table of images")
    raise InputError(
        f"{one_line(path)}: neither a table (CSV, TSV, Parquet) nor arrays (npz, npy, HDF5, idx), but "
        f"{unknown_kind(file_head(path))}; layout table reads it as CSV"
    )
