"""CT-RATE's chest CT volumes as 2D slices chosen by ReXGroundingCT's masks (Hamamci 2024, Baharoon 2025).

``dataset/train_fixed/train_1/train_1_a/train_1_a_1.nii.gz`` (and ``valid_fixed``) of CT-RATE, and of ReXGroundingCT
``dataset.json`` next to ``segmentations/train_1_a_1.nii.gz``, somewhere below one folder. The label is all findings
that the masks mark on the slice. Slices without a mark "are not guaranteed to be healthy". Group: the patient,
``train_1`` of ``train_1_a_1.nii.gz``. No slice is written: a row names a volume and a slice, which the NIfTI reader
turns as radiologists see it. Greys: -1,000 to 1,000 Hounsfield units, CT-RATE's own range (the paper names no range).

Paper 004, appendix A: "for each finding instance" one representative slice, and "a single slice without any labeled
findings for each abnormal slice". The paper does not name the slices. This module takes the instance's axial slice with
the most marked voxels (the lowest of several), and slices without a mark spread evenly over all such slices.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memorisk.images.columns import NO_FINDING
from memorisk.images.file_hashes import content_fingerprints
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.draft_steps import finish_draft
from memorisk.images.layouts.files import plain_stem
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import OfficialFiles, draft_table, find_root, note_skipped
from memorisk.images.readers.nifti import declared_plane, open_volume
from memorisk.images.readers.registry import decoding
from memorisk.runs.environment import available_cores
from memorisk.runs.errors import InputError, listed, one_line, unknown_name
from memorisk.runs.executors.pool import run_jobs
from memorisk.runs.files import fingerprint, read_json, write_json
from memorisk.runs.storage.locations import cache_folder

FINDINGS = {
    "1a": "Bronchial wall thickening",
    "1b": "Bronchiectasis",
    "1c": "Emphysema",
    "1d": "Septal thickening",
    "1e": "Micronodules",
    "1f": "Other non-focal",
    "2a": "Linear opacities",
    "2b": "Atelectasis or consolidation",
    "2c": "Ground-glass opacity",
    "2d": "Pulmonary nodules or masses",
    "2e": "Pleural effusion or thickening",
    "2f": "Honeycombing",
    "2g": "Pneumothorax",
    "2h": "Other focal",
}
"""Names of ReXGroundingCT's categories, non-focal (1) and focal (2)."""
HOUNSFIELD_RANGE = (-1000.0, 1000.0)
PAPER_SLICES = 27_683  # paper 004, table 1
_NAME = re.compile(r"((train|valid)_[0-9]+)_[a-z]+_[0-9]+\.nii\.gz")
_TABLE, _MASKS = "dataset.json", "segmentations"
_SPLITS = ("train", "val", "test")
_FORMAT = 1  # part of the name under which chosen slices are kept: under another rule the masks are read again
_MIN_VOLUMES_FOR_PROCESSES = 4


@dataclass(frozen=True)
class FindingSlices:
    """Slices to take of one volume, as ``images.readers.nifti`` counts axial ones (from the feet up)."""

    slices: list[int]
    """Slice of each image; slices with marks come first, both kinds in order."""
    findings: list[list[int]]
    """Findings (first axis of the mask) that each image shows; empty for slices without a mark."""
    instances: int
    """Number of instances over all findings; several instances on one slice share an image."""


def choose_slices(areas: np.ndarray, owners: np.ndarray) -> FindingSlices:
    """Choose the slices to take.

    Args:
        areas: Number of marked voxels of each instance on each slice, [instances, slices].
        owners: Number of the finding to which each instance belongs, [instances].
    """
    n = areas.shape[1]
    best = sorted({int(row.argmax()) for row in areas})
    owners_shown = [sorted({int(owner) for owner in owners[areas[:, at] > 0]}) for at in best]
    free = np.flatnonzero(~(areas > 0).any(axis=0)) if len(areas) else np.arange(n)
    n_others = min(len(best), len(free))
    others = [int(free[int((k + 0.5) * len(free) / n_others)]) for k in range(n_others)]
    return FindingSlices(best + others, owners_shown + [[] for _ in others], len(areas))


@dataclass(frozen=True)
class AxialPlace:
    """Place of a volume's axial slices among its stored voxels."""

    shape: tuple[int, int, int]
    axis: int
    """Stored axis that runs from the feet to the head, or back."""
    downwards: bool
    """Whether the axis runs from the head to the feet."""


def axial_place(volume: Path) -> AxialPlace:
    """Return the place of a volume's axial slices, from its header.

    Raises:
        InputError: The file is not a volume.
        MissingExtraError: nibabel is not installed.
    """
    with open_volume(volume) as image:
        from nibabel.orientations import io_orientation

        shape, places = [int(n) for n in image.shape], io_orientation(image.affine)
    axes = np.flatnonzero(places[:, 0] == 2)
    if len(shape) < 3 or len(axes) != 1:
        raise InputError(f"{one_line(volume)}: is not a volume with three axes of space")
    return AxialPlace((shape[0], shape[1], shape[2]), int(axes[0]), bool(places[axes[0], 1] < 0))


def read_marked(mask: Path, place: AxialPlace) -> FindingSlices:
    """Choose the slices of a volume by a mask ``[findings, x, y, z]`` (or of one finding ``[x, y, z]``).

    Every value above zero is an instance of its finding. The mask has the volume's voxels, one by one. The orientation
    in its own header is not used, since its first axis is not an axis of space.

    Raises:
        InputError: Mask and volume differ in shape, or the mask holds other values than whole numbers.
    """
    with open_volume(mask) as marks:
        shape = tuple(int(n) for n in marks.shape)
        if shape[-3:] != place.shape or len(shape) > 4:
            raise InputError(
                f"{one_line(mask)}: a mask of shape {' x '.join(map(str, shape))} does not fit the volume's "
                f"{' x '.join(map(str, place.shape))}; get both of the same release"
            )
        areas, owners = _areas(_layers(marks, shape, mask), place)
    return choose_slices(areas[:, ::-1] if place.downwards else areas, owners)


def _layers(marks: Any, shape: tuple[int, ...], mask: Path) -> Iterator[np.ndarray]:
    """Yield the mask ``[findings, x, y]`` at each z, in order, so that a packed file is read through once.

    Raises:
        InputError: The mask holds other values than whole numbers of at least zero.
    """
    for z in range(shape[-1]):
        layer = np.asarray(marks.dataobj[..., z]).reshape(-1, *shape[-3:-1])
        if layer.dtype.kind != "u" and not ((layer >= 0) & (layer == np.floor(layer))).all():
            raise InputError(f"{one_line(mask)}: holds other values than the whole numbers of instances")
        yield layer


def _areas(layers: Iterator[np.ndarray], place: AxialPlace) -> tuple[np.ndarray, np.ndarray]:
    """Return the marked voxels of each instance on each slice of the axial axis, and the finding of each instance."""
    by_instance: dict[tuple[int, int], np.ndarray] = {}
    n = place.shape[place.axis]
    for z, layer in enumerate(layers):
        findings, x, y = np.nonzero(layer)
        at = (x, y, np.full_like(x, z))[place.axis]
        values = layer[findings, x, y].astype(np.int64)
        codes, which = np.unique(findings << 32 | values, return_inverse=True)
        for k, code in enumerate(codes.tolist()):
            area = by_instance.setdefault((code >> 32, code & 0xFFFFFFFF), np.zeros(n, np.int64))
            area += np.bincount(at[which == k], minlength=n)
    keys = sorted(by_instance)
    areas = np.array([by_instance[key] for key in keys]).reshape(len(keys), n)
    return areas, np.array([finding for finding, _ in keys], dtype=np.int64)


def load_ct_rate(folder: Path, options: ImageOptions) -> Manifest:
    """Return the manifest of the slices.

    Reading thousands of masks takes hours. The cache folder keeps the slices that each mask chooses, one file per mask,
    so that each is read once and an interrupted reading continues from there.

    Args:
        folder: Path of a folder with both downloads below it, or of one above it.
        options: Options of reading. ``skip_missing`` leaves out volumes whose file is absent, ``skip_unreadable`` those
            whose header or mask cannot be read; ``window`` other than declared replaces the range of greys.

    Returns:
        Manifest: ``image`` is ``train_1_a_1#SLICE`` (counted from the feet), ``label`` the marked findings joined by
        ``|`` or ``none``, ``group`` the patient, ``split`` ReXGroundingCT's.

    Raises:
        InputError: Files are missing or cannot be read, a name has no patient, or the options choose other slices.
        MissingExtraError: nibabel is not installed.
    """
    if options.frames != "auto" or options.slice_plane != "axial":
        raise InputError("ct-rate: frames and slice_plane cannot be set, the masks choose axial slices; leave them out")
    notes: list[str] = []
    root = find_root(folder, "ct-rate", _holds, f"{_TABLE} beside {_MASKS}/ and CT-RATE's volumes", notes)
    draft = Draft(table=pd.DataFrame(), root=root, name="ct-rate", notes=notes, kind="nifti")
    table = _grounding(root)
    assert table is not None
    scans = _placed(_scans(table, draft), root, table, draft, options)
    rows = [row for scan, marked in _chosen(scans, draft, options) for row in _rows(scan, marked)]
    columns = {name: [row[name] for row in rows] for name in ("image", "path", "label", "group", "split", "frame")}
    columns["member"] = [declared_plane("axial", *HOUNSFIELD_RANGE)] * len(rows)
    draft_table(draft, columns | {"dataset": [draft.name] * len(rows)}, pd.DataFrame(index=range(len(rows))))
    draft.table["frame"] = pd.array(draft.table["frame"].tolist(), dtype="Int64")
    _one_split(draft)
    _note_rules(draft)
    note_skipped(draft)
    return finish_draft(draft, options)


@dataclass(frozen=True)
class _Scan:
    """Volume of the table with its mask."""

    name: str
    split: str
    findings: dict[str, str]
    volume: str = ""
    mask: str = ""

    @property
    def patient(self) -> str:
        return self.name.split("_")[0] + "_" + self.name.split("_")[1]


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        return []


def _grounding(folder: Path) -> Path | None:
    """Return ReXGroundingCT's table, in the folder or in one of its subfolders."""
    return next(
        (p / _TABLE for p in (folder, *_children(folder)) if (p / _TABLE).is_file() and (p / _MASKS).is_dir()), None
    )


def _has_volumes(folder: Path, depth: int = 3) -> bool:
    """Return whether a CT-RATE volume, or a folder of the release, lies in the folder or up to some levels below it."""
    if any(next(folder.glob(f"{part}_*_*_*.nii.gz"), None) for part in ("train", "valid")):
        return True
    below = [p for p in _children(folder) if p.name != _MASKS]
    has_parts = any(p.name in ("train_fixed", "valid_fixed", "train", "valid") for p in below)
    return has_parts or (depth > 1 and any(_has_volumes(p, depth - 1) for p in below))


def _holds(folder: Path) -> bool:
    """Return whether a folder has both downloads, and none below it has both."""
    both = _grounding(folder) is not None and _has_volumes(folder)
    return both and not any(_grounding(p) is not None and _has_volumes(p) for p in _children(folder))


def _scans(table: Path, draft: Draft) -> list[_Scan]:
    """Return the volumes that the table lists, each once.

    Raises:
        InputError: The file is not the official table, a name has no patient, or a category is unknown.
    """
    try:
        content = json.loads(table.read_text(encoding="utf-8"))
        listing = [(split, entry) for split in _SPLITS for entry in content.get(split, [])]
        scans = [_Scan(str(entry["name"]), split, _categories(entry)) for split, entry in listing]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{_TABLE}: is not ReXGroundingCT's table of train, val and test ({one_line(error, 120)})"
        ) from None
    strange = [scan.name for scan in scans if not _NAME.fullmatch(scan.name)]
    if strange or not scans:
        raise InputError(
            f"{_TABLE}: {len(strange):,} volumes have no patient in their name ({listed(strange, 3)}); official ones "
            "are such as train_1_a_1.nii.gz"
        )
    for code in {code for scan in scans for code in scan.findings.values()}:
        if code not in FINDINGS:
            raise unknown_name(f"category in {_TABLE}:", code, FINDINGS)
    once = {scan.name: scan for scan in reversed(scans)}
    if len(once) < len(scans):
        draft.notes.append(f"{len(scans) - len(once):,} volumes are listed in several splits; the first counts.")
    return sorted(once.values(), key=lambda scan: scan.name)


def _categories(entry: dict[str, Any]) -> dict[str, str]:
    """Return the category of each finding, by its place in the mask."""
    return {str(key): str(value) for key, value in entry["categories"].items()}


def _placed(scans: list[_Scan], root: Path, table: Path, draft: Draft, options: ImageOptions) -> list[_Scan]:
    """Return the scans whose mask and volume exist.

    Raises:
        InputError: A volume is missing and ``skip_missing`` is not set, all are missing, or it is of the first release.
    """
    masks = table.parent / _MASKS
    below = OfficialFiles.below(root, options, draft.name, kinds=("nifti",)).files
    apart = f"{masks.relative_to(root).as_posix()}/"
    volumes = OfficialFiles.of(root, [file for file in below if not file.startswith(apart)])
    places = volumes.place([scan.name for scan in scans], draft.name, prefer="*_fixed")
    usable, missing, first = [], [], []
    for scan, place in zip(scans, places, strict=True):
        mask = apart + scan.name
        if mask not in below:
            draft.skip(scan.name, f"no mask of it in {_MASKS} (those of the test part are not published)")
        elif place is None:
            missing.append(scan.name)
        elif {"train", "valid"} & set(place.split("/")[:-1]):
            first.append(place)
        else:
            usable.append(_Scan(scan.name, scan.split, scan.findings, str(root / place), str(root / mask)))
    if first:
        raise InputError(
            f"ct-rate: {len(first):,} volumes are of the first release ({listed(first, 1)}), whose values are not in "
            "Hounsfield units; get train_fixed and valid_fixed"
        )
    if missing and not (options.skip_missing and usable):
        way = ", or leave them out by skip_missing" if usable else ""
        raise InputError(
            f"ct-rate: {len(missing):,} of {len(usable) + len(missing):,} volumes with a mask have no file below "
            f"{one_line(root)} ({listed(missing, 3)}); get them{way}"
        )
    for name in missing:
        draft.skip(name, "no such file")
    return usable


def _chosen(scans: list[_Scan], draft: Draft, options: ImageOptions) -> list[tuple[_Scan, FindingSlices]]:
    """Return the slices of each scan, from the cache or from its mask.

    Raises:
        InputError: A mask or a header cannot be read and ``skip_unreadable`` is not set.
    """
    cache = cache_folder(options.store)
    processes = available_cores() if len(scans) >= _MIN_VOLUMES_FOR_PROCESSES else 1
    contents = content_fingerprints([scan.mask for scan in scans], cache, processes=processes)
    folder = cache / "mask_slices"
    folder.mkdir(mode=0o700, exist_ok=True)
    jobs = [(scan.volume, scan.mask, contents[scan.mask], str(folder)) for scan in scans]
    answers = run_jobs(_choose, jobs, processes=processes)
    failed = [answer for answer in answers if isinstance(answer, str)]
    if failed and not (options.skip_unreadable and len(failed) < len(scans)):
        raise InputError(
            f"ct-rate: {len(failed):,} of {len(scans):,} volumes or masks cannot be read, the first "
            f"{one_line(failed[0])}; get them anew, or leave them out by skip_unreadable"
        )
    for scan, answer in zip(scans, answers, strict=True):
        if isinstance(answer, str):
            draft.skip(scan.name, "volume or mask cannot be read")
    return [(s, answer) for s, answer in zip(scans, answers, strict=True) if isinstance(answer, FindingSlices)]


def _choose(job: tuple[str, str, str, str]) -> FindingSlices | str:
    """Return the slices of one scan, or the reason why they cannot be chosen."""
    volume, mask, content, folder = job
    try:
        with decoding(Path(volume)):
            place = axial_place(Path(volume))
        book = Path(folder) / f"{fingerprint(_FORMAT, content, asdict(place), length=32)}.json"
        stored = _stored_slices(book)
        return stored if stored is not None else _read(Path(mask), place, book)
    except InputError as error:
        reason = str(error).removeprefix(f"{one_line(Path(volume))}: ").removeprefix(f"{one_line(Path(mask))}: ")
        return f"{Path(mask).name}: {reason}"


def _stored_slices(book: Path) -> FindingSlices | None:
    try:
        return FindingSlices(**read_json(book))
    except (OSError, ValueError, TypeError):  # not there, or cut short: the mask is read
        return None


def _read(mask: Path, place: AxialPlace, book: Path) -> FindingSlices:
    with decoding(mask):
        marked = read_marked(mask, place)
    write_json(book, asdict(marked))
    return marked


def _rows(scan: _Scan, marked: FindingSlices) -> list[dict[str, Any]]:
    """Return one row for each slice.

    Raises:
        InputError: The mask has a finding that the table does not list.
    """
    rows = []
    for at, findings in zip(marked.slices, marked.findings, strict=True):
        unlisted = [finding for finding in findings if str(finding) not in scan.findings]
        if unlisted:
            raise InputError(f"ct-rate: the mask of {scan.name} has a finding {unlisted[0]} that {_TABLE} has not")
        label = "|".join(sorted({FINDINGS[scan.findings[str(finding)]] for finding in findings})) or NO_FINDING
        image = f"{plain_stem(scan.name)}#{at}"
        rows.append({"image": image, "path": scan.volume, "label": label, "frame": at})
        rows[-1] |= {"group": scan.patient, "split": scan.split}
    return rows


def _one_split(draft: Draft) -> None:
    """Make paths relative to the folder, and put each patient in one split: ReXGroundingCT's was drawn by scan."""
    table = draft.table
    table["path"] = [Path(path).relative_to(draft.root).as_posix() for path in table["path"]]
    groups, splits = table["group"].tolist(), table["split"].tolist()
    splits_of: dict[str, set[str]] = {}
    for group, split in zip(groups, splits, strict=True):
        splits_of.setdefault(group, set()).add(split)
    crossing = sorted(group for group, splits in splits_of.items() if len(splits) > 1)
    if crossing:
        table["split"] = ["train" if len(splits_of[g]) > 1 else s for g, s in zip(groups, splits, strict=True)]
        draft.notes.append(
            f"Split: {len(crossing):,} patients are in several parts of ReXGroundingCT ({listed(crossing, 3)}); they "
            "count as train here, in whole."
        )


def _note_rules(draft: Draft) -> None:
    """Note how slices, labels, groups and greys are chosen."""
    n = len(draft.table)
    free = draft.table["label"].tolist().count(NO_FINDING)
    draft.notes += [
        f"Images: {n:,} axial slices, {n - free:,} that show the most of an instance of a finding (one of several "
        f"instances is enough) and {free:,} without a mark, spread evenly over each volume; they need not be healthy.",
        "Label: the categories of all findings marked on the slice, joined by |, or none. Group: the patient, "
        "train_1 of train_1_a_1.nii.gz. Split: ReXGroundingCT's.",
        f"Greys: {HOUNSFIELD_RANGE[0]:,.0f} to {HOUNSFIELD_RANGE[1]:,.0f} Hounsfield units, as CT-RATE itself "
        "(--window percentile or full replaces it).",
    ]
    if n != PAPER_SLICES:
        draft.notes.append(f"{n:,} slices are here; paper 004 says {PAPER_SLICES:,}.")
