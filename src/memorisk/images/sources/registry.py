"""From what a user names to a manifest: built-in digits, a folder, a table, arrays, a published data set, or several.

Each kind of source has its module; they meet in ``images.sources.draft``, where labels, groups, frames and checks are
the same.
"""

import os
from dataclasses import replace
from pathlib import Path

from memorisk.images.decoding.formats import SHARDS, file_format
from memorisk.images.digits import digits_manifest
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.sampling import sample_manifest
from memorisk.images.sources.arrays import load_arrays
from memorisk.images.sources.draft import refuse_unused
from memorisk.images.sources.folders import load_folder
from memorisk.images.sources.official import load_official
from memorisk.images.sources.several import join_manifests, several_sources
from memorisk.images.sources.shard_folders import Shard, is_saved, is_shard, saved_shards
from memorisk.images.sources.shards import load_shards
from memorisk.images.sources.tables import load_table
from memorisk.images.sources.urls import local_images, local_options
from memorisk.runs.errors import InputError, MemoriskError, one_line
from memorisk.runs.storage.mirror import as_url_says

GENERATED, GENERATED_TABLE, UNFINISHED = "generate.json", "manifest.csv", "drawn.csv"
"""Files of a folder of ``memorisk generate``: the last of a finished one, its table of classes, and what one that is
not finished has."""
_TABLES = frozenset((".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".pq"))


def load_manifest(source: str | Path, options: ImageOptions | None = None) -> Manifest:
    """The manifest of a source; no pixel is decoded.

    Args:
        source: ``"digits"`` (built in; a folder of that name is ``"./digits"``), a folder (class folders, DICOM tree,
            NIfTI volumes, a set that ``memorisk generate`` made), a CSV, TSV or Parquet table, arrays (npz in
            MedMNIST's layout or plain, npy, HDF5, idx), or a published data set as ``NAME:FOLDER``
            (``images.sources.official``); or several of these by commas (``images.sources.several``); each also at a
            URL (``s3://BUCKET/FOLDER``, ``images.sources.urls``). A path that exists is a path, colon and comma or not.
        options: How images are found, labelled and grouped, and how many of them are drawn.

    Returns:
        The manifest, checked; ``notes`` say what was guessed, ``skipped`` what was left out.

    Raises:
        InputError: There is no such source, it holds no images, or a row cannot be trusted (duplicate ids, paths that
            leave the folder, a group that says nothing, files that are missing).
        MissingExtraError: DICOM or NIfTI without the extra ``medical``.
    """
    options = options or ImageOptions()
    options.validate()
    if not isinstance(source, (str, os.PathLike)):
        what = "None" if source is None else f"an object of type {one_line(type(source).__name__, 60)}"
        raise InputError(
            f"the images are {what}, no source; name a folder, table or file, or a published data set; of a data set "
            "in Python with len() and items by number memorisk.save_dataset makes a folder"
        )
    manifest = _load(source, local_options(options))
    return manifest if options.sample is None else sample_manifest(manifest, options.sample, options.sample_seed)


def _load(source: str | Path, options: ImageOptions) -> Manifest:
    """The whole manifest of a source.

    Raises:
        InputError: As `load_manifest`.
        MissingExtraError: DICOM or NIfTI without the extra ``medical``.
    """
    if str(source) == "digits":
        refuse_unused(options, "digits")
        return digits_manifest()
    if (copy := local_images(source, options)) is not None:
        try:
            return _load(copy[1], options)
        except MemoriskError as error:
            raise as_url_says(error, copy[0], source) from None
    path = Path(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        is_folder = is_file = False
    if is_folder and options.layout == "auto" and (path / GENERATED).is_file():
        generated = load_table(path / GENERATED_TABLE, options, quoted=True)
        return replace(generated, name=path.resolve().name or "images")
    if is_folder and options.layout in ("auto", "shards") and is_saved(path):
        return load_shards(path, saved_shards(path), options, path.resolve().name or "images")
    if is_folder:
        if options.layout == "auto" and (path / UNFINISHED).is_file() and (path / "images").is_dir():
            raise InputError(f"{one_line(path)} is a set that is not all drawn: memorisk generate goes on with it")
        return load_folder(path, options)
    if not is_file:
        if len(parts := several_sources(str(source))) > 1:
            return join_manifests([_load(part, options) for part in parts])
        if (official := load_official(str(source), options)) is not None:
            return official
        raise InputError(f"{one_line(source)}: there is no such file or folder (the built-in images are called digits)")
    return _load_file(path, options)


def _load_file(path: Path, options: ImageOptions) -> Manifest:
    """The manifest of a file.

    Raises:
        InputError: It is a single image, or no known kind of source.
    """
    if options.layout not in ("auto", "table", "arrays", "shards"):
        raise InputError(f"layout {options.layout} is for a folder; {one_line(path)} is a file")
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    found = file_format(path)
    of_shards = found is not None and found.module == SHARDS and options.layout in ("auto", "shards")
    if of_shards and (options.layout == "shards" or not is_parquet or is_shard(path, options)):
        return load_shards(path.parent, [Shard(path.name, "")], options, path.stem)
    named_table = path.suffix.lower() in _TABLES and options.layout != "arrays"
    if is_parquet or named_table or options.layout == "table":
        return load_table(path, options)
    if found is not None and found.kind == "arrays":
        return load_arrays(path, options)
    if found is not None:
        raise InputError(f"{one_line(path)} is one {found.name} image; give its folder, or a table of images")
    raise InputError(
        f"{one_line(path)}: neither a table (CSV, TSV, Parquet) nor arrays (npz, npy, HDF5, idx); layout table reads "
        "it as CSV"
    )
