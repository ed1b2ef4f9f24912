"""ImageNet-LT (Liu et al. 2019): a long-tailed part of ImageNet, 1,000 classes, no identities.

``ImageNet_LT_train.txt``, ``ImageNet_LT_val.txt`` and ``ImageNet_LT_test.txt`` (lines of a path and a class number, as
``train/n01440764/n01440764_762.JPEG 0``; also in a folder ``ImageNet_LT``) beside ImageNet's ``train/`` and ``val/``,
which may also be flat or lie deeper (``ILSVRC/Data/CLS-LOC/``). The test part is ImageNet's validation part. Paper
004, table 1: a data set without identities, for copy detection only.
"""

import re
from pathlib import Path

import pandas as pd

from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.paths import FileFinder, plain_stem, refuse_escape
from memorisk.images.published.layout import draft_table, find_root, leave_out_missing, note_count, note_skipped
from memorisk.images.sources.draft import Draft, finish
from memorisk.images.sources.walk import walk_files
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError, one_line

N_IMAGES = 185_846
_LISTS = {f"ImageNet_LT_{split}.txt": split for split in ("train", "val", "test")}
_FIRST = "ImageNet_LT_train.txt"
_LINE = re.compile(r"(\S+/(n[0-9]{8})/\S+)\s+([0-9]+)")


def load_imagenet_lt(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ImageNet-LT.

    Args:
        folder: The folder with the lists, or one above it; the images lie below it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the file's name without suffix, ``label`` the WordNet id of its folder (``n01440764``), ``split``
        the list; each image is its own group. The column ``class`` has the list's number.

    Raises:
        InputError: The training list or images are missing, a line is none of the lists', or two lines disagree.
    """
    notes: list[str] = []
    root = find_root(folder, "imagenet-lt", lambda place: _list(place, _FIRST) is not None, _FIRST, notes)
    draft = Draft(table=pd.DataFrame(), root=root, name="imagenet-lt", notes=notes, kind="raster")
    lines = _lines(root, draft)
    paths = [path for path, *_ in lines]
    ids = [plain_stem(path.rsplit("/", 1)[-1]) for path in paths]
    placed = _placed(root, paths, options)
    columns = {"image": ids, "path": placed, "label": [wnid for _, wnid, _, _ in lines]}
    columns |= {"split": [split for *_, split in lines], "dataset": [draft.name] * len(ids)}
    draft_table(draft, columns, pd.DataFrame({"class": [number for _, _, number, _ in lines]}))
    leave_out_missing(draft, options)
    draft.notes.append(
        "Label: the WordNet id, the image's folder in the lists. Group: none is published; each image is its own. "
        "Split: the three lists; test is ImageNet's validation part."
    )
    note_count(draft, N_IMAGES)
    note_skipped(draft)
    return finish(draft, options)


def _list(folder: Path, name: str) -> Path | None:
    return next((place for place in (folder / name, folder / "ImageNet_LT" / name) if place.is_file()), None)


def _lines(root: Path, draft: Draft) -> list[tuple[str, str, str, str]]:
    """Path, WordNet id, class number and split of every line of the lists.

    Raises:
        InputError: A list cannot be read, a line is none, or a class has two numbers.
    """
    found: list[tuple[str, str, str, str]] = []
    for name, split in _LISTS.items():
        path = _list(root, name)
        if path is None:
            draft.notes.append(f"{name} is not in the folder; its images are left out.")
            continue
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({one_line(error, 120)})") from None
        matched = [_LINE.fullmatch(line.strip()) for line in lines if line.strip()]
        if None in matched:
            line = [line for line in lines if line.strip()][matched.index(None)]
            raise InputError(
                f"{name}: {one_line(line, 80)!r} is no line of the official list (train/n01440764/NAME.JPEG 0)"
            )
        found += [(m[1], m[2], m[3], split) for m in matched if m is not None]
    pairs = {(wnid, number) for _, wnid, number, _ in found}
    if len(pairs) != len({wnid for wnid, _ in pairs}) or len(pairs) != len({number for _, number in pairs}):
        raise InputError("imagenet-lt: a class has two numbers, or a number two classes; get the lists anew")
    return found


def _placed(root: Path, paths: list[str], options: ImageOptions) -> list[str | None]:
    """The file of each line, where the list says or anywhere below by its name.

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
