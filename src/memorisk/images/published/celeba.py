"""CelebA (Liu et al. 2015) as published: aligned faces of celebrities, 40 attributes, many images of one person.

``img_align_celeba/000001.jpg``, ... (also in ``Img/``), ``list_attr_celeba.txt``, ``identity_CelebA.txt`` (also in
``Anno/``) and ``list_eval_partition.txt`` (also in ``Eval/``); the lists also in Kaggle's form, as CSV of the same
names. Paper 004, table 1. Group: the celebrity. Kaggle's copy lacks the list of identities; without it nobody can say
whose image is whose, so it is asked for.
"""

from pathlib import Path

import pandas as pd

from memorisk.images.columns import NO_FINDING, texts
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.paths import plain_stem
from memorisk.images.published.layout import (
    OfficialFiles,
    draft_table,
    find_root,
    leave_out_missing,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

N_IMAGES = 202_599
N_ATTRIBUTES = 40
_ATTRIBUTES, _IDENTITIES, _PARTITION = "list_attr_celeba", "identity_CelebA", "list_eval_partition"
_IMAGES = "img_align_celeba"
_SPLITS = {"0": "train", "1": "val", "2": "test"}


def load_celeba(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of CelebA's aligned images.

    Args:
        folder: The folder with ``img_align_celeba`` and the lists (or their folders ``Img``, ``Anno``, ``Eval``), or
            one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the name in the lists, ``label`` the attributes that are 1, joined by ``|``, ``group`` the
        celebrity's number, ``split`` the official one where its list is there.

    Raises:
        InputError: A list or images are missing, the lists name different images, or a value is none of theirs.
    """
    notes: list[str] = []
    root = find_root(folder, "celeba", _holds, f"{_IMAGES}/ and {_ATTRIBUTES}.txt", notes)
    draft = Draft(table=pd.DataFrame(), root=root, name="celeba", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = _IDENTITIES, "get that list anew"
    attributes = _attributes(_list(root, _ATTRIBUTES))
    ids = [str(name) for name in attributes.index]
    people = _column(root, _IDENTITIES, ids)
    files = OfficialFiles.below(root, options, draft.name)
    stems = [plain_stem(name) for name in ids]
    placed = files.place(stems, draft.name, prefer=f"{_IMAGES}*")
    files.skip_others(draft, _ATTRIBUTES, ids, placed)
    columns = {"image": ids, "path": placed, "label": _labels(attributes), "group": people}
    columns |= {"dataset": [draft.name] * len(ids)} | _splits(root, draft, ids)
    draft_table(draft, columns, pd.DataFrame(index=range(len(ids))))
    leave_out_missing(draft, options)
    draft.notes.append(
        f"Label: the attributes that are 1 in {_ATTRIBUTES}, joined by |. Group: the celebrity of {_IDENTITIES} "
        f"({len(set(people)):,} of them)."
    )
    note_count(draft, N_IMAGES)
    note_skipped(draft)
    return finish(draft, options)


def _holds(folder: Path) -> bool:
    """Whether a folder has the aligned images and a list."""
    images = any(place.is_dir() for base in (folder, folder / "Img") for place in base.glob(f"{_IMAGES}*"))
    return images and any(_find(folder, name) is not None for name in (_ATTRIBUTES, _IDENTITIES, _PARTITION))


def _find(root: Path, name: str) -> Path | None:
    """A list by its name without suffix, in the folder or in those of the official archive."""
    places = [root / below / f"{name}{end}" for below in ("", "Anno", "Eval") for end in (".txt", ".csv")]
    return next((place for place in places if place.is_file()), None)


def _list(root: Path, name: str) -> Path:
    """The file of a list.

    Raises:
        InputError: It is not there.
    """
    found = _find(root, name)
    if found is None:
        lacks = "; Kaggle's copy lacks it" if name == _IDENTITIES else ""
        raise InputError(
            f"celeba: there is no {name}.txt (or .csv) in {one_line(root)}, its Anno or its Eval{lacks}; get it from "
            "the official release and put it there"
        )
    return found


def _attributes(path: Path) -> pd.DataFrame:
    """Attributes by image, as text; the official text has the number of images above the names.

    Raises:
        InputError: It cannot be read, has not the official attributes' number, or a value is not 1, 0 or -1.
    """
    if path.suffix == ".csv":
        table = read_columns(path, ("image_id",)).set_index("image_id")
    else:
        table = _spaced(path, header=1)
    if table.shape[1] != N_ATTRIBUTES or not len(table):
        raise InputError(
            f"{path.name}: {len(table):,} images with {table.shape[1]} attributes; the official list has "
            f"{N_ATTRIBUTES} attributes"
        )
    strange = set(table.to_numpy().ravel().tolist()) - {"1", "0", "-1"}
    if strange:
        raise InputError(f"{path.name}: an attribute is {one_line(min(texts(strange)), 40)!r}, not 1 or -1")
    return table


def _labels(attributes: pd.DataFrame) -> list[str]:
    """The names of the attributes that are 1, joined by ``|``, of each image."""
    names = [str(name) for name in attributes.columns]
    ones = (attributes.to_numpy() == "1").tolist()
    return ["|".join(name for name, one in zip(names, row, strict=True) if one) or NO_FINDING for row in ones]


def _spaced(path: Path, header: int | None) -> pd.DataFrame:
    """A table whose columns are set apart by blanks, all values text; rows longer than the header begin with an index.

    Raises:
        InputError: It cannot be read so.
    """
    try:
        return pd.read_csv(path, sep=r"\s+", header=header, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"{path.name}: cannot be read as the official list ({one_line(error, 120)})") from None


def _column(root: Path, name: str, ids: list[str]) -> list[str]:
    """The one value that a list has for each image.

    Raises:
        InputError: The list is absent, cannot be read, or does not name every image once.
    """
    path = _list(root, name)
    if path.suffix == ".csv":
        table = read_columns(path, ("image_id",))
        keys, values = texts(table["image_id"]), texts(table.drop(columns="image_id").iloc[:, 0])
    else:
        table = _spaced(path, header=None)
        if table.shape[1] != 2:
            raise InputError(f"{path.name}: {table.shape[1]} columns; the official list has an image and a number")
        keys, values = texts(table[0]), texts(table[1])
    found = dict(zip(keys, values, strict=True))
    if len(found) != len(keys):
        raise InputError(f"{path.name}: names some images twice; get it anew")
    absent = [image for image in ids if not found.get(image)]
    if absent:
        raise InputError(f"{path.name}: says nothing of {len(absent):,} of {len(ids):,} images ({listed(absent, 3)})")
    return [found[image] for image in ids]


def _splits(root: Path, draft: Draft, ids: list[str]) -> dict[str, list[str]]:
    """The official split of each image; nothing where its list is absent.

    Raises:
        InputError: A part is not 0, 1 or 2, or the list does not name every image.
    """
    if _find(root, _PARTITION) is None:
        draft.notes.append(f"No official split: {_PARTITION} is not in the folder.")
        return {}
    parts = _column(root, _PARTITION, ids)
    if strange := sorted(set(parts) - set(_SPLITS)):
        raise InputError(f"{_PARTITION}: a part is {one_line(strange[0], 40)!r}, not 0 (train), 1 (val) or 2 (test)")
    draft.notes.append(f"Split: {_PARTITION}, 0 is train, 1 is val, 2 is test; no celebrity is in two of them.")
    return {"split": [_SPLITS[part] for part in parts]}
