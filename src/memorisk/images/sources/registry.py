"""From what a user names to a manifest: built-in digits, a folder, a table, arrays, a published data set, or several.

Each kind of source has its module; they meet in ``images.sources.draft``, where labels, groups, frames and checks
are the same.

Several sources are joined by commas (``celeba:A,nih-cxr-lt:B,table.csv``), each read by its own rules. LCMem (paper
004) trains on several data sets at once. Ids and groups get the data set's name before them, so that patient 17 of
one and celebrity 17 of another stay two people; the column ``dataset`` names each image's data set, and what draws
pairs by data set uses it. Who is in two of the sources under two names is not known, but for a study that lies in
both, which is a doubt; two names of one collection of images are refused.

A source at a URL is brought over into a private copy, which is then read like any folder, table or array. A table's
images lie beside it unless ``image_root`` names another place, so that of a table its whole folder comes over; of
arrays and of a published data set (``ham10000:s3://...``) what is named. Several sources by commas come one by one.

`refuse_overlap` and its siblings know where the images of a source lie, what may not be written there, and which
generated images may not be read from there unnoticed.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path, PurePath

import pandas as pd

from memorisk.images.identity import IdDoubt
from memorisk.images.manifest import BUILTIN, RESERVED, Manifest, drop_labels, sample_manifest, shared_study_doubts
from memorisk.images.options import ImageOptions
from memorisk.images.published.mnist import digits_manifest
from memorisk.images.published.registry import load_official
from memorisk.images.readers.registry import SHARDS, file_format, file_head, unknown_kind
from memorisk.images.sources.arrays import load_arrays
from memorisk.images.sources.draft import refuse_unused
from memorisk.images.sources.folders import load_folder
from memorisk.images.sources.places import nowhere, several_sources
from memorisk.images.sources.shards import Shard, is_saved, is_shard, load_shards, saved_shards
from memorisk.images.sources.tables import load_table
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, MemoriskError, listed, one_line
from memorisk.runs.storage.filesystem import Storage
from memorisk.runs.storage.locations import path_of, url_of
from memorisk.runs.storage.mirror import TABLES, local_source, name_url_in_error

_SAME_PEOPLE = (("chestxray14", "nih-cxr-lt"),)
"""Data sets of the same patients, whose numbers would be told apart by the data set's name."""


def join_manifests(manifests: list[Manifest]) -> Manifest:
    """One manifest of several.

    Args:
        manifests: Each with its own root; one without a column ``dataset`` is called by its name.

    Returns:
        Rows in the order given. ``image`` and ``group`` are ``<data set>/<as it was>``, also where nothing would
        collide, so that adding a source renames nobody; ``path`` is relative to the folder above all roots; a column
        that a source lacks is empty there.

    Raises:
        InputError: Two have a data set of one name, are of the same patients, or lie on different drives.
    """
    tables = [_with_name(manifest) for manifest in manifests]
    names = [list(dict.fromkeys(table["dataset"])) for table in tables]
    flat = [name for part in names for name in part]
    twice = sorted({name for name in flat if flat.count(name) > 1})
    if twice:
        raise InputError(
            f"two of the sources hold a data set called {listed([one_line(t, 60) for t in twice])}; give each folder a "
            "name of its own, or a table with a column dataset"
        )
    for pair in _SAME_PEOPLE:
        if set(pair) <= set(flat):
            raise InputError(
                f"{' and '.join(pair)} are images of the same patients under one numbering; give one of them"
            )
    root = _common_root(manifests)
    for table, manifest in zip(tables, manifests, strict=True):
        if manifest.root is not None and root is not None:
            above = os.path.relpath(_real(manifest.root), root)
            table["path"] = [
                path if path.startswith(BUILTIN) else os.path.normpath(os.path.join(above, path)).replace(os.sep, "/")  # noqa: PTH118
                for path in table["path"]
            ]
    stacked = _stacked(tables)
    counts = [f"{len(t):,} of {one_line(m.name)}" for t, m in zip(tables, manifests, strict=True)]
    note = (
        f"Data sets: {', '.join(counts)}. Ids and groups have the data set's name before them: one id in two sources "
        "is two people."
    )
    joined = Manifest(
        table=stacked,
        root=root,
        name="+".join(manifest.name for manifest in manifests),
        notes=(note, *(f"{m.name}: {text}" for m in manifests for text in m.notes)),
        skipped=_skipped(manifests),
        id_doubts=tuple(
            replace(doubt, ids=tuple(f"{m.name}: {names}" for names in doubt.ids))
            for m in manifests
            for doubt in m.id_doubts
        )
        + _doubts_across([replace(m, table=t) for m, t in zip(manifests, tables, strict=True)]),
    )
    joined.validate()
    return joined


def _doubts_across(manifests: list[Manifest]) -> tuple[IdDoubt, ...]:
    """Doubt the ids of studies that lie in several sources, once each."""
    pairs = combinations(manifests, 2)
    return tuple(dict.fromkeys(doubt for pair in pairs for doubt in shared_study_doubts(*pair)))


def _with_name(manifest: Manifest) -> pd.DataFrame:
    """A manifest's table with its data set's name before ids and groups."""
    table = manifest.table.copy()
    names = table["dataset"].tolist() if "dataset" in table else [""] * len(table)
    table["dataset"] = [name or manifest.name for name in names]
    for column in ("image", "group"):
        table[column] = [f"{name}/{value}" for name, value in zip(table["dataset"], table[column], strict=True)]
    return table


def _stacked(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables one below the other, our columns first, as text where a source lacks them."""
    table = pd.concat(tables, ignore_index=True)
    own = [column for column in RESERVED if column in table]
    for column in own:
        if column != "frame":
            table[column] = [value if isinstance(value, str) else "" for value in table[column]]
    if "frame" in table:
        table["frame"] = pd.array([None if pd.isna(v) else int(v) for v in table["frame"]], dtype="Int64")
    return table.reindex(columns=[*own, *[c for c in table.columns if c not in RESERVED]])


def _common_root(manifests: list[Manifest]) -> Path | None:
    """The folder above the roots of all.

    Raises:
        InputError: There is none.
    """
    roots = [str(_real(manifest.root)) for manifest in manifests if manifest.root is not None]
    try:
        return Path(os.path.commonpath(roots)) if roots else None
    except ValueError:
        raise InputError("the sources lie on different drives; put them below one folder") from None


def _real(root: Path) -> Path:
    return Path(os.path.realpath(root))


def _skipped(manifests: list[Manifest]) -> pd.DataFrame:
    """List what was left out of each manifest, with its name."""
    parts = [m.skipped.assign(path=[f"{m.name}/{path}" for path in m.skipped["path"]]) for m in manifests]
    return pd.concat(parts, ignore_index=True)


_PUBLISHED = re.compile(r"([A-Za-z][A-Za-z0-9_-]+:)(?=[A-Za-z][A-Za-z0-9+.-]+://)")
_BESIDE = frozenset((*TABLES, ".gz"))  # idx files, too: MNIST's labels lie beside its images


def local_options(options: ImageOptions) -> ImageOptions:
    """The options with local copies of ``image_root`` and ``labels_csv`` where they are URLs.

    Raises:
        InputError: A URL names nothing.
        MemoriskError: The storage does not answer.
    """
    places = {"image_root": options.image_root, "labels_csv": options.labels_csv}
    urls = {name: value for name, value in places.items() if value is not None and url_of(value)}
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


GENERATED, GENERATED_TABLE, UNFINISHED_TABLE = "generate.json", "manifest.csv", "drawn.csv"
"""Files of a folder of ``memorisk generate``: the last of a finished one, its table of classes, and what one that is
not finished has."""
_TABLES = frozenset((".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".pq"))


def load_manifest(source: str | Path, options: ImageOptions | None = None) -> Manifest:
    """The manifest of a source; no pixel is decoded.

    Args:
        source: ``"digits"`` (built in; a folder of that name is ``"./digits"``), a folder (class folders, DICOM tree,
            NIfTI volumes, a set that ``memorisk generate`` made), a CSV, TSV or Parquet table, arrays (npz in
            MedMNIST's layout or plain, npy, HDF5, idx), or a published data set as ``NAME:FOLDER``
            (``images.published.registry``); or several of these by commas (``images.sources.registry``); each also at a
            URL (``s3://BUCKET/FOLDER``, ``images.sources.registry``). A path that exists is a path, colon and comma
            or not.
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
    manifest = drop_labels(_load(source, local_options(options)), options.drop_label)
    return manifest if options.sample is None else sample_manifest(manifest, options.sample, options.sample_seed)


def _described(value: object) -> str:
    """Say what stands in the place of an array."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of {len(shape)} dimensions"
    return f"a {one_line(type(value).__name__, 60)}" + (f" of {len(value):,}" if isinstance(value, list) else "")


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
            raise name_url_in_error(error, copy[0], source) from None
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
        if options.layout == "auto" and (path / UNFINISHED_TABLE).is_file() and (path / "images").is_dir():
            raise InputError(f"{one_line(path)} is a set that is not all drawn: memorisk generate goes on with it")
        return load_folder(path, options)
    if not is_file:
        if len(parts := several_sources(str(source))) > 1:
            return join_manifests([_load(part, options) for part in parts])
        if (official := load_official(str(source), options)) is not None:
            return official
        raise nowhere(source)
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


Source = str | Path | Manifest | ImageStore


def refuse_overlap(out: str | Path, sources: Mapping[str, Source | None], *, called: str = "OUT") -> None:
    """Refuse a folder for results inside a folder of images, or around one: inputs are never written to.

    Args:
        out: The folder for results.
        sources: By what they are called.
        called: What the folder is called.

    Raises:
        InputError: It is one.
    """
    target = Path(out).resolve()
    for what, source in sources.items():
        for place in source_places(source):
            if place.is_dir() and target.is_relative_to(place):
                raise InputError(f"{called} {one_line(str(out))} lies inside {what}: name a folder outside the images")
            if place.exists() and place.is_relative_to(target):
                raise InputError(f"{called} {one_line(str(out))} holds {what}: name a folder that does not")


def refuse_among(out: str | Path, manifest: Manifest, *, called: str = "OUT") -> None:
    """Refuse a folder for results inside a folder in which images of a manifest lie: a table names them anywhere.

    Args:
        out: The folder for results.
        manifest: Of the images.
        called: What the folder is called.

    Raises:
        InputError: It is one.
    """
    if manifest.root is None:
        return
    target, root = Path(out).resolve(), manifest.root.resolve()
    for folder in sorted({os.path.dirname(str(path)) for path in manifest.table["path"].unique()}):  # noqa: PTH120
        if target.is_relative_to((root / folder).resolve()):
            raise InputError(
                f"{called} {one_line(str(out))} lies inside {one_line(folder or root.name)}, which holds images of "
                f"{one_line(manifest.name)}: name a folder outside the images"
            )


def path_sources(sources: Mapping[str, object]) -> dict[str, Source | None]:
    """Select the sources that were named by text: images in memory lie where they were once read from, or nowhere.

    Args:
        sources: By what they are called; arrays, manifests and stores among them.
    """
    return {what: source for what, source in sources.items() if isinstance(source, str | Path)}


def refuse_generated_within(source: str | Path, manifest: Manifest) -> None:
    """Refuse a folder of ``memorisk generate`` inside a bigger folder of images: its images would count as patients'.

    A generated set that is named itself is meant, alone or beside others by commas.

    Args:
        source: As it was named.
        manifest: Of it.

    Raises:
        InputError: There is one.
    """
    places = [place for place in source_places(source) if place.is_dir()]
    if manifest.root is None or not places:
        return
    inner = {PurePath(path).parent for path in manifest.table["path"].unique()}
    root = manifest.root.resolve()
    for folder in sorted(root / above for own in inner for above in {own, *own.parents}):
        if any(place in folder.parents for place in places) and _is_generated(folder):
            raise InputError(
                f"{one_line(folder)} was drawn by memorisk generate and lies inside the images: those it holds would "
                "count as patients' images; move it out, or name it alone to train on it"
            )


def source_places(source: Source | None) -> list[Path]:
    """Return where the images of a source lie; of several sources and of ``NAME:FOLDER`` the folders.

    Args:
        source: As for `memorisk.load_manifest`, its manifest or its store.
    """
    if isinstance(source, ImageStore | Manifest):
        root = source.manifest.root if isinstance(source, ImageStore) else source.root
        return [] if root is None else [root.resolve()]
    if source is None:
        return []
    parts = [str(source)] if Path(source).exists() or url_of(source) else several_sources(str(source))
    return [place.resolve() for part in parts if (place := _place(part)) is not None]


def _place(part: str) -> Path | None:
    """Return the path of a source, of a ``file://`` URL, or of ``NAME:FOLDER``; None if it is not on this machine."""
    if (url := url_of(part)) is not None:
        return path_of(url)
    name = part if Path(part).exists() else part.partition(":")[2]
    return Path(name) if name else None


def _is_generated(folder: Path) -> bool:
    """Return whether ``memorisk generate`` made it, or has begun to."""
    return (folder / GENERATED).is_file() or ((folder / UNFINISHED_TABLE).is_file() and (folder / "images").is_dir())
