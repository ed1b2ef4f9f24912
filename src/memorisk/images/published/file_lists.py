"""Published sets with text lists of files: CelebA and ImageNet-LT (both in paper 004, table 1).

CelebA (Liu et al. 2015): aligned faces of celebrities, 40 attributes, many images of one person.
``img_align_celeba/000001.jpg``, ... (also in ``Img/``), ``list_attr_celeba.txt``, ``identity_CelebA.txt`` (also in
``Anno/``) and ``list_eval_partition.txt`` (also in ``Eval/``); the lists also in Kaggle's form, as CSV of the same
names. Group: the celebrity. Kaggle's copy lacks the list of identities. Without it the person in an image is unknown,
so the reader requires it.

ImageNet-LT (Liu et al. 2019): a long-tailed part of ImageNet, 1,000 classes, no identities.
``ImageNet_LT_train.txt``, ``ImageNet_LT_val.txt`` and ``ImageNet_LT_test.txt`` (lines of a path and a class number,
as ``train/n01440764/n01440764_762.JPEG 0``; also in a folder ``ImageNet_LT``) next to ImageNet's ``train/`` and
``val/``, which may also be flat or lie deeper (``ILSVRC/Data/CLS-LOC/``). The test part is ImageNet's validation
part. A data set without identities is for copy detection only.
"""

import re
from pathlib import Path

import pandas as pd

from memorisk.images.columns import NO_FINDING, texts
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.files import FileFinder, plain_stem, refuse_escape, walk_files
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import PublishedSet, Rows, read_columns
from memorisk.runs.errors import InputError, listed, one_line

CELEBA_ATTRIBUTES = 40
_CELEBA_ATTRIBUTE_LIST, _CELEBA_IDENTITY_LIST, _CELEBA_PARTITION_LIST = (
    "list_attr_celeba",
    "identity_CelebA",
    "list_eval_partition",
)
_CELEBA_IMAGES = "img_align_celeba"
_CELEBA_SPLITS = {"0": "train", "1": "val", "2": "test"}
_IMAGENET_LT_LISTS = {f"ImageNet_LT_{split}.txt": split for split in ("train", "val", "test")}
_IMAGENET_LT_FIRST = "ImageNet_LT_train.txt"
_IMAGENET_LT_LINE = re.compile(r"(\S+/(n[0-9]{8})/\S+)\s+([0-9]+)")


def _celeba(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the aligned images, by the name in the lists.

    Raises:
        InputError: A list is missing, the lists name different images, or a list has an unknown value.
    """
    attributes = _celeba_attributes(_celeba_list(root, _CELEBA_ATTRIBUTE_LIST))
    ids = [str(name) for name in attributes.index]
    people = _celeba_column(root, _CELEBA_IDENTITY_LIST, ids)
    rows = Rows(ids, _CELEBA_ATTRIBUTE_LIST, _celeba_labels(attributes), people)
    rows.files = [plain_stem(name) for name in ids]
    rows.split = _celeba_splits(root, draft, ids)
    rows.notes.append(
        f"Label: the attributes that are 1 in {_CELEBA_ATTRIBUTE_LIST}, joined by |. Group: the celebrity of "
        f"{_CELEBA_IDENTITY_LIST} ({len(set(people)):,} of them)."
    )
    return rows


def _celeba_holds(folder: Path) -> bool:
    """Return whether a folder has the aligned images and a list."""
    images = any(place.is_dir() for base in (folder, folder / "Img") for place in base.glob(f"{_CELEBA_IMAGES}*"))
    return images and any(
        _celeba_find(folder, name) is not None
        for name in (_CELEBA_ATTRIBUTE_LIST, _CELEBA_IDENTITY_LIST, _CELEBA_PARTITION_LIST)
    )


def _celeba_find(root: Path, name: str) -> Path | None:
    """Return a list by its name without suffix, in the folder or in those of the official archive."""
    places = [root / below / f"{name}{end}" for below in ("", "Anno", "Eval") for end in (".txt", ".csv")]
    return next((place for place in places if place.is_file()), None)


def _celeba_list(root: Path, name: str) -> Path:
    """Return the file of a list.

    Raises:
        InputError: The file does not exist.
    """
    path = _celeba_find(root, name)
    if path is None:
        lacks = "; Kaggle's copy lacks it" if name == _CELEBA_IDENTITY_LIST else ""
        raise InputError(
            f"celeba: there is no {name}.txt (or .csv) in {one_line(root)}, its Anno or its Eval{lacks}; get it from "
            "the official release and put it there"
        )
    return path


def _celeba_attributes(path: Path) -> pd.DataFrame:
    """Read the attributes by image, as text; the official text has the number of images above the names.

    Raises:
        InputError: The file cannot be read, has another number of attributes, or a value is not 1, 0 or -1.
    """
    if path.suffix == ".csv":
        table = read_columns(path, ("image_id",)).set_index("image_id")
    else:
        table = _read_spaced_table(path, header=1)
    if table.shape[1] != CELEBA_ATTRIBUTES or not len(table):
        raise InputError(
            f"{path.name}: {len(table):,} images with {table.shape[1]} attributes; the official list has "
            f"{CELEBA_ATTRIBUTES} attributes"
        )
    strange = set(table.to_numpy().ravel().tolist()) - {"1", "0", "-1"}
    if strange:
        raise InputError(f"{path.name}: an attribute is {one_line(min(texts(strange)), 40)!r}, not 1 or -1")
    return table


def _celeba_labels(attributes: pd.DataFrame) -> list[str]:
    """Return the names of the attributes that are 1, joined by ``|``, of each image."""
    names = [str(name) for name in attributes.columns]
    ones = (attributes.to_numpy() == "1").tolist()
    return ["|".join(name for name, one in zip(names, row, strict=True) if one) or NO_FINDING for row in ones]


def _read_spaced_table(path: Path, header: int | None) -> pd.DataFrame:
    """Read a table of text values in columns separated by blanks; rows longer than the header begin with an index.

    Raises:
        InputError: The file cannot be read in this form.
    """
    try:
        return pd.read_csv(path, sep=r"\s+", header=header, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: cannot be read as the official list ({one_line(error, 120)})") from None


def _celeba_column(root: Path, name: str, ids: list[str]) -> list[str]:
    """Return the one value that a list has for each image.

    Raises:
        InputError: The list is absent, cannot be read, or does not name every image once.
    """
    path = _celeba_list(root, name)
    if path.suffix == ".csv":
        table = read_columns(path, ("image_id",))
        keys, values = texts(table["image_id"]), texts(table.drop(columns="image_id").iloc[:, 0])
    else:
        table = _read_spaced_table(path, header=None)
        if table.shape[1] != 2:
            raise InputError(f"{path.name}: {table.shape[1]} columns; the official list has an image and a number")
        keys, values = texts(table[0]), texts(table[1])
    of_image = dict(zip(keys, values, strict=True))
    if len(of_image) != len(keys):
        raise InputError(f"{path.name}: names some images twice; get it anew")
    absent = [image for image in ids if not of_image.get(image)]
    if absent:
        raise InputError(f"{path.name}: says nothing of {len(absent):,} of {len(ids):,} images ({listed(absent, 3)})")
    return [of_image[image] for image in ids]


def _celeba_splits(root: Path, draft: Draft, ids: list[str]) -> list[str] | None:
    """Return the official split of each image; None where its list is absent.

    Raises:
        InputError: A part is not 0, 1 or 2, or the list does not name every image.
    """
    if _celeba_find(root, _CELEBA_PARTITION_LIST) is None:
        draft.notes.append(f"No official split: {_CELEBA_PARTITION_LIST} is not in the folder.")
        return None
    parts = _celeba_column(root, _CELEBA_PARTITION_LIST, ids)
    if strange := sorted(set(parts) - set(_CELEBA_SPLITS)):
        raise InputError(
            f"{_CELEBA_PARTITION_LIST}: a part is {one_line(strange[0], 40)!r}, not 0 (train), 1 (val) or 2 (test)"
        )
    draft.notes.append(
        f"Split: {_CELEBA_PARTITION_LIST}, 0 is train, 1 is val, 2 is test; no celebrity is in two of them."
    )
    return [_CELEBA_SPLITS[part] for part in parts]


CELEBA = PublishedSet(
    name="celeba",
    expected=f"{_CELEBA_IMAGES}/ and {_CELEBA_ATTRIBUTE_LIST}.txt",
    group_from=_CELEBA_IDENTITY_LIST,
    group_fallback="get that list anew",
    holds=_celeba_holds,
    rows=_celeba,
    prefer=f"{_CELEBA_IMAGES}*",
    n_images=202_599,
)


def _imagenet_lt(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the lines of the lists; the column ``class`` has the list's number."""
    lines = _imagenet_lt_lines(root, draft)
    paths, wnids, numbers, split = ([line[i] for line in lines] for i in range(4))
    rows = Rows([plain_stem(path.rsplit("/", 1)[-1]) for path in paths], labels=wnids, split=split)
    rows.placed, rows.extra = _imagenet_lt_placed(root, paths, options), pd.DataFrame({"class": numbers})
    rows.notes.append(
        "Label: the WordNet id, the image's folder in the lists. Group: none is published; each image is its own. "
        "Split: the three lists; test is ImageNet's validation part."
    )
    return rows


def _imagenet_lt_list(folder: Path, name: str) -> Path | None:
    return next((place for place in (folder / name, folder / "ImageNet_LT" / name) if place.is_file()), None)


def _imagenet_lt_lines(root: Path, draft: Draft) -> list[tuple[str, str, str, str]]:
    """Return the path, WordNet id, class number and split of every line of the lists.

    Raises:
        InputError: A list cannot be read, a line has another form, or a class has two numbers.
    """
    entries: list[tuple[str, str, str, str]] = []
    for name, split in _IMAGENET_LT_LISTS.items():
        path = _imagenet_lt_list(root, name)
        if path is None:
            draft.notes.append(f"{name} is not in the folder; its images are left out.")
            continue
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({one_line(error, 120)})") from None
        matched = [_IMAGENET_LT_LINE.fullmatch(line.strip()) for line in lines if line.strip()]
        if None in matched:
            line = [line for line in lines if line.strip()][matched.index(None)]
            raise InputError(
                f"{name}: {one_line(line, 80)!r} is not a line of the official list (train/n01440764/NAME.JPEG 0)"
            )
        entries += [(m[1], m[2], m[3], split) for m in matched if m is not None]
    pairs = {(wnid, number) for _, wnid, number, _ in entries}
    if len(pairs) != len({wnid for wnid, _ in pairs}) or len(pairs) != len({number for _, number in pairs}):
        raise InputError("imagenet-lt: a class has two numbers, or a number two classes; get the lists anew")
    return entries


def _imagenet_lt_placed(root: Path, paths: list[str], options: ImageOptions) -> list[str | None]:
    """Return the file of each line, where the list says or anywhere below by its name.

    Raises:
        InputError: A path leads out of the folder, or a name fits several files.
    """
    follow = options.follow_links
    finder = FileFinder(root, lambda: walk_files(root, follow_links=follow).files, follow_links=follow)
    placed = [finder.find(path) or finder.find(path.rsplit("/", 1)[-1]) for path in paths]
    refuse_escape(finder.escaping, "imagenet-lt", "follow_links accepts links that are meant")
    if finder.ambiguous:
        raise InputError(
            f"imagenet-lt: {len(finder.ambiguous):,} images have several files ({listed(finder.ambiguous, 2)}); keep "
            "one of each"
        )
    return placed


IMAGENET_LT = PublishedSet(
    name="imagenet-lt",
    expected=_IMAGENET_LT_FIRST,
    holds=lambda folder: _imagenet_lt_list(folder, _IMAGENET_LT_FIRST) is not None,
    rows=_imagenet_lt,
    n_images=185_846,
)
