"""Kvasir-Capsule (Smedsrud et al. 2021) as published: frames of capsule videos, 14 classes, 43 videos.

``labelled_images/<Class>/<video>_<frame>.jpg``; folders are known in the archive's spelling (``Blood - fresh``) and in
that of its parts (``blood_fresh``). Group: the video. ``official_splits/split_0.csv`` and ``split_1.csv``
(``filename,label``) are the two official folds, of 11 classes; only their file names are used, since they call some
classes otherwise.
"""

from pathlib import Path

import pandas as pd

from memorisk.images.columns import plain_name
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.paths import plain_stem
from memorisk.images.published.layout import (
    OfficialFiles,
    column_texts,
    draft_table,
    find_root,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line, unknown_name

CLASSES = (
    *("Ampulla of Vater", "Angiectasia", "Blood - fresh", "Blood - hematin", "Erosion", "Erythema", "Foreign body"),
    *(
        "Ileocecal valve",
        "Lymphangiectasia",
        "Normal clean mucosa",
        "Polyp",
        "Pylorus",
        "Reduced mucosal view",
        "Ulcer",
    ),
)
N_IMAGES = 47_238
_IMAGES = "labelled_images"
_FOLDS = {"split_0.csv": "train", "split_1.csv": "test"}
_BY_PLAIN = {plain_name(name): name for name in CLASSES}


def load_kvasir_capsule(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of Kvasir-Capsule's labelled images.

    Args:
        folder: The folder with ``labelled_images``, that folder itself, or one above.
        options: How images are read later.

    Returns:
        ``image`` is the file's name without suffix, ``label`` the class as in ``CLASSES``, ``group`` the video,
        ``split`` the official fold (0 is train, 1 is test) where both files are there.

    Raises:
        InputError: A folder is no class, a name has no video, or an image is in two classes.
    """
    notes: list[str] = []
    root = find_root(folder, "kvasir-capsule", _holds, f"{_IMAGES}/<Class>", notes)
    place = root / _IMAGES if (root / _IMAGES).is_dir() else root
    draft = Draft(table=pd.DataFrame(), root=place, name="kvasir-capsule", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "video in the file names", "get the images under their official names"
    files = OfficialFiles.below(place, options, draft.name).files
    ids = [plain_stem(file.rsplit("/", 1)[-1]) for file in files]
    unnamed = [file for file, image in zip(files, ids, strict=True) if not image.partition("_")[0] or "_" not in image]
    if unnamed:
        raise InputError(
            f"{draft.name}: {len(unnamed):,} files have no video in their name ({listed(unnamed)}); official names are "
            "<video>_<frame>.jpg"
        )
    columns = {"image": ids, "path": files, "label": [_class(file) for file in files]}
    columns |= {"group": [image.partition("_")[0] for image in ids], "dataset": [draft.name] * len(ids)}
    splits = _splits(root, draft, ids)
    draft_table(draft, columns | ({"split": splits} if splits else {}), pd.DataFrame(index=range(len(ids))))
    draft.notes.append("Label: the class folder. Group: the video, the file's name up to the first underscore.")
    absent = [name for name in CLASSES if name not in set(columns["label"])]
    if absent:
        draft.notes.append(f"{len(absent)} of the 14 classes have no image here: {listed(absent, 14)}.")
    note_count(draft, N_IMAGES)
    note_skipped(draft)
    return finish(draft, options)


def _holds(folder: Path) -> bool:
    """Whether a folder has labelled_images, or two class folders."""
    if (folder / _IMAGES).is_dir():
        return True
    try:
        return sum(plain_name(p.name) in _BY_PLAIN and p.is_dir() for p in folder.iterdir()) >= 2
    except OSError:
        return False


def _class(file: str) -> str:
    """The class of a file by its folder.

    Raises:
        InputError: The folder is no class.
    """
    own = file.split("/")[-2] if "/" in file else ""
    if plain_name(own) not in _BY_PLAIN:
        where = f"class folder of {one_line(file, 120)} in kvasir-capsule:"
        raise unknown_name(where, own, CLASSES)
    return _BY_PLAIN[plain_name(own)]


def _splits(root: Path, draft: Draft, ids: list[str]) -> list[str]:
    """The official fold of each image, empty where it is in neither; [] where a file is absent.

    Raises:
        InputError: A file cannot be read, or an image is in both.
    """
    places = [root / "official_splits", root]
    found = {name: next((p / name for p in places if (p / name).is_file()), None) for name in _FOLDS}
    if not all(found.values()):
        draft.notes.append(f"No official split: {' and '.join(_FOLDS)} are not both in the folder.")
        return []
    of_image: dict[str, str] = {}
    for name, path in found.items():
        assert path is not None
        for value in column_texts(read_columns(path, ("filename",)), "filename"):
            image = plain_stem(value.rsplit("/", 1)[-1])
            if of_image.setdefault(image, _FOLDS[name]) != _FOLDS[name]:
                raise InputError(f"{draft.name}: {one_line(image)} is in both {' and '.join(_FOLDS)}; get them anew")
    splits = [of_image.get(image, "") for image in ids]
    draft.notes.append(
        f"Split: split_0.csv is train, split_1.csv is test, the two official folds; {splits.count(''):,} images are in "
        "neither (the official files leave out the three rarest classes)."
    )
    return splits
