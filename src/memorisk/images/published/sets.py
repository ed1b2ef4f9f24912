"""Table of published sets: one row per set, and the functions for what a row cannot express.

HAM10000 (Tschandl et al. 2018): dermatoscopic images, 7 classes, several images of one lesion.
``HAM10000_metadata.csv`` (also without suffix, or ``.tab``), ``HAM10000_images_part_1/`` and ``_part_2/`` with
``ISIC_*.jpg``. Label: ``dx``. Group: ``lesion_id``; the patients were not published.

ChestX-ray14 (Wang et al. 2017): chest radiographs, 14 findings, many images of one patient. ``Data_Entry_2017.csv``
or ``Data_Entry_2017_v2020.csv``; ``images_001/images/`` to ``images_012/images/`` (or one folder) with
``00000001_000.png``; ``train_val_list.txt`` and ``test_list.txt``. METHODS section 1: "No Finding" is left out, then
the first-listed finding is taken (``--head first``), *then* a stratified 50,000 (``--sample 50000``). This reader keeps
all findings, joined by ``|``, for ``--head multi``.

ISIC-2020 (Rotemberg et al. 2021): dermatoscopic images, benign or malignant, several of one patient.
``ISIC_2020_Training_GroundTruth_v2.csv`` or ``ISIC_2020_Training_GroundTruth.csv`` (Kaggle: ``train.csv``),
``train/`` with ``ISIC_*.jpg`` or ``.dcm`` and ``ISIC_2020_Training_Duplicates.csv``: pairs of identical lesions, of
which the second image is left out, as paper 004's number of images implies (33,126 - 425 = 32,701). The column
``duplicate`` names the images that were left out in favour of this one. Group: ``patient_id``. The labels of the test
images are not published.

Kvasir-Capsule (Smedsrud et al. 2021): frames of capsule videos, 14 classes, 43 videos.
``labelled_images/<Class>/<video>_<frame>.jpg``; folders are recognised in the archive's spelling (``Blood - fresh``)
and in that of its parts (``blood_fresh``). Group: the video. ``official_splits/split_0.csv`` and ``split_1.csv``
(``filename,label``) are the two official folds, of 11 classes; only their file names are used, since they name some
classes differently.

Retinal OCT (Kermany et al. 2018, "OCT2017"): cross-sections of the retina, 4 classes, several of one patient.
``train/<CLASS>/<CLASS>-<patient>-<n>.jpeg``, next to ``test/`` and ``val/``. The paper uses the training folder only
(84,452 images), which is read by default; another one is read when the user names it (``retinal-oct:OCT2017/test``).
Group: the patient's number. The names give it within a class; the same number in two classes is taken as one
patient, which at worst keeps two people on the same side of a split.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from memorisk.images.columns import plain_name
from memorisk.images.layouts.draft import Draft
from memorisk.images.layouts.files import plain_stem
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import (
    OfficialFiles,
    PublishedSet,
    Rows,
    column_texts,
    listed_splits,
    read_columns,
    table_rows,
)
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

HAM10000 = PublishedSet(
    name="ham10000",
    expected="HAM10000_metadata.csv",
    tables=("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab"),
    image="image_id",
    label="dx",
    group="lesion_id",
    classes=("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc"),
    group_from="column lesion_id",
    group_fallback="get the metadata table anew",
    prefer="HAM10000_images_part_*",
    rule="Label: dx of {table}. Group: lesion_id; the patients are not published.",
    n_images=10_015,
)
_ISIC_DUPLICATES = "ISIC_2020_Training_Duplicates.csv"
KVASIR_CLASSES = (
    *("Ampulla of Vater", "Angiectasia", "Blood - fresh", "Blood - hematin", "Erosion", "Erythema", "Foreign body"),
    *("Ileocecal valve", "Lymphangiectasia", "Normal clean mucosa", "Polyp", "Pylorus", "Reduced mucosal view"),
    "Ulcer",
)
_KVASIR_CLASS = {plain_name(name): name for name in KVASIR_CLASSES}
_KVASIR_IMAGES = "labelled_images"
OCT_CLASSES = ("CNV", "DME", "DRUSEN", "NORMAL")
_OCT_NAME = re.compile(r"([A-Za-z]+)-([0-9]+)-([0-9]+)")


def _chestxray14(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the table's rows with the official split, and a note on the meaning of "first-listed"."""

    def read(path: Path) -> list[str]:
        """Read the words of a list."""
        try:
            return path.read_text(encoding="utf-8-sig").split()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path.name}: cannot be read ({one_line(error, 120)})") from None

    def late_notes(draft: Draft) -> Iterable[str]:
        """Yield notes on how labels and groups were read, and whether findings are in alphabetical order."""
        several = [label.split("|") for label in draft.table["label"].tolist() if "|" in label]
        yield (
            f"Label: Finding Labels of {rows.source} without {CHESTXRAY14.left_out!r}, as listed, joined by | "
            f"({len(several):,} images have several): --head first takes the first, --head multi all. Group: Patient "
            "ID."
        )
        if several and all(findings == sorted(findings) for findings in several):
            yield "Findings are listed in the order of the alphabet: the first-listed is not the main one."

    rows = table_rows(CHESTXRAY14, root)
    rows.late_notes = late_notes
    lists = {root / "train_val_list.txt": "train", root / "test_list.txt": "test"}
    rows.split = listed_splits(draft, rows.images, lists, read)
    if rows.split is not None:
        draft.notes.append("Split: train_val_list.txt is train, test_list.txt is test; the official split, by patient.")
    return rows


CHESTXRAY14 = PublishedSet(
    name="chestxray14",
    expected="Data_Entry_2017.csv",
    tables=("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv"),
    image="Image Index",
    label="Finding Labels",
    group="Patient ID",
    classes=(
        *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia"),
        *("Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax"),
    ),
    left_out="No Finding",
    group_from="column Patient ID",
    group_fallback="get the table anew",
    rows=_chestxray14,
)


def _isic2020(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the table's rows without the second ones of identical lesions."""
    rows = table_rows(ISIC2020, root, _isic2020_table(root))
    files = OfficialFiles.below(root, options, draft.name, kinds=("raster", "dicom"))
    # Kaggle gives both forms: the JPEGs are read where there are any.
    jpegs = [file for file in files.files if not file.lower().endswith((".dcm", ".dicom"))]
    draft.kind = "raster" if jpegs else "dicom"
    chosen = OfficialFiles.of(root, jpegs or files.files)
    rows.placed = chosen.place(rows.images, draft.name, prefer="train*")
    chosen.skip_others(draft, rows.source, rows.images, rows.placed)
    if n_left_out := len(files.files) - len(chosen.files):
        draft.notes.append(f"{n_left_out:,} DICOM files are not read, because the JPEGs are.")
    copies = _isic2020_copies(root, draft, dict(zip(rows.images, rows.groups or (), strict=True)))
    left_for: dict[str, list[str]] = {}
    for second, first in copies.items():
        left_for.setdefault(first, []).append(second)
    assert rows.extra is not None
    rows.extra["duplicate"] = ["|".join(left_for.get(image, [])) for image in rows.images]
    rows.keep = [image not in copies for image in rows.images]
    rows.reason = f"the second image of an identical lesion ({_ISIC_DUPLICATES})"
    rows.n_images = ISIC2020.n_images - len(copies)
    return rows


def _isic2020_table(folder: Path) -> Path | None:
    """Return the official table, or Kaggle's, recognised by its columns since other sets have a train.csv, too."""
    official = next((folder / name for name in ISIC2020.tables if (folder / name).is_file()), None)
    kaggle = folder / "train.csv"
    if official is not None or not kaggle.is_file():
        return official
    try:
        read_columns(kaggle, (ISIC2020.image, ISIC2020.group, ISIC2020.label))
    except InputError:
        return None
    return kaggle


def _isic2020_copies(root: Path, draft: Draft, patient: dict[str, str]) -> dict[str, str]:
    """Return the image that is left out for each that stays: ``{left out: kept}``, from the official pairs.

    Raises:
        InputError: A pair names an image that the table lacks.
    """
    path = root / _ISIC_DUPLICATES
    if not path.is_file():
        draft.notes.append(
            f"{_ISIC_DUPLICATES} is not in the folder: it lists 425 pairs of identical lesions, whose second images "
            "are otherwise left out; they stay here."
        )
        return {}
    table = read_columns(path, ("image_name_1", "image_name_2"))
    pairs = list(zip(column_texts(table, "image_name_1"), column_texts(table, "image_name_2"), strict=True))
    unknown = [image for pair in pairs for image in pair if image not in patient]
    if unknown:
        raise InputError(f"{_ISIC_DUPLICATES}: {len(unknown):,} images are not in the table ({listed(unknown, 3)})")
    copies: dict[str, str] = {}
    for first, second in pairs:
        while first in copies:  # already left out: its own first copy replaces it
            first = copies[first]
        if first != second and second not in copies:
            copies[second] = first
    apart = sum(patient[first] != patient[second] for second, first in copies.items())
    draft.notes.append(
        f"{len(copies):,} images show the same lesion as another one ({_ISIC_DUPLICATES}) and are left out; the column "
        f"duplicate names them next to the image that stays. In {apart:,} of these pairs the two have different "
        "patient ids."
    )
    return copies


ISIC2020 = PublishedSet(
    name="isic2020",
    expected="ISIC_2020_Training_GroundTruth.csv",
    tables=("ISIC_2020_Training_GroundTruth_v2.csv", "ISIC_2020_Training_GroundTruth.csv"),
    image="image_name",
    label="benign_malignant",
    group="patient_id",
    classes=("benign", "malignant"),
    group_from="column patient_id",
    group_fallback="get the table anew",
    rule="Label: benign_malignant of {table}. Group: patient_id. No split is published.",
    holds=lambda folder: _isic2020_table(folder) is not None,
    rows=_isic2020,
    kind=None,
    n_images=33_126,
)


def _kvasir_capsule(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the labelled images, with video and frame from their names and the class from their folder."""
    draft.root = root / _KVASIR_IMAGES if (root / _KVASIR_IMAGES).is_dir() else root
    files = OfficialFiles.below(draft.root, options, draft.name).files
    ids = [_stem(file) for file in files]
    unnamed = [file for file, image in zip(files, ids, strict=True) if not image.partition("_")[0] or "_" not in image]
    if unnamed:
        raise InputError(
            f"{draft.name}: {len(unnamed):,} files have no video in their name ({listed(unnamed)}); official names are "
            "<video>_<frame>.jpg"
        )
    labels = []
    for file in files:
        own = _class_folder(file)
        if plain_name(own) not in _KVASIR_CLASS:
            where = f"class folder of {one_line(file, 120)} in kvasir-capsule:"
            raise unknown_name(where, own, KVASIR_CLASSES)
        labels.append(_KVASIR_CLASS[plain_name(own)])
    rows = Rows(ids, "", labels, [image.partition("_")[0] for image in ids], placed=files)
    rows.split = _kvasir_splits(root, draft, ids)
    rows.notes = ["Label: the class folder. Group: the video, the file's name up to the first underscore."]
    if absent := [name for name in KVASIR_CLASSES if name not in set(labels)]:
        rows.notes.append(f"{len(absent)} of the 14 classes have no image here: {listed(absent, 14)}.")
    return rows


def _kvasir_holds(folder: Path) -> bool:
    """Return whether a folder has labelled_images, or two class folders."""
    if (folder / _KVASIR_IMAGES).is_dir():
        return True
    try:
        return sum(plain_name(p.name) in _KVASIR_CLASS and p.is_dir() for p in folder.iterdir()) >= 2
    except OSError:
        return False


def _kvasir_splits(root: Path, draft: Draft, ids: list[str]) -> list[str] | None:
    """Return the official fold of each image, empty where it is in neither; None where a file is absent."""
    lists = {}
    for name, split in {"split_0.csv": "train", "split_1.csv": "test"}.items():
        below = root / "official_splits" / name
        lists[below if below.is_file() else root / name] = split
    splits = listed_splits(
        draft, ids, lists, lambda path: [_stem(v) for v in column_texts(read_columns(path, ("filename",)), "filename")]
    )
    if splits is not None:
        draft.notes.append(
            f"Split: split_0.csv is train, split_1.csv is test, the two official folds; {splits.count(''):,} images "
            "are in neither (the official files leave out the three rarest classes)."
        )
    return splits


def _stem(file: str) -> str:
    return plain_stem(file.rsplit("/", 1)[-1])


def _class_folder(file: str) -> str:
    return file.split("/")[-2] if "/" in file else ""


KVASIR_CAPSULE = PublishedSet(
    name="kvasir-capsule",
    expected=f"{_KVASIR_IMAGES}/<Class>",
    group_from="video in the file names",
    group_fallback="get the images under their official names",
    holds=_kvasir_holds,
    rows=_kvasir_capsule,
    n_images=47_238,
)


def _retinal_oct(root: Path, draft: Draft, options: ImageOptions) -> Rows:
    """Return the training images, or those of the folder of classes that the user named."""
    draft.root = place = root / "train" if _oct_has_classes(root / "train") else root
    files = OfficialFiles.below(place, options, draft.name).files
    labels = [_class_folder(file) for file in files]
    for label in labels:
        if label not in OCT_CLASSES:
            raise unknown_name("class folder in retinal-oct:", label, OCT_CLASSES)
    ids = [_stem(file) for file in files]
    patients = _oct_patients(files, ids, labels)
    classes = Counter(patient for patient, _ in set(zip(patients, labels, strict=True)))
    others = [name for name in ("test", "val") if place != root and (root / name).is_dir()]
    unread = f" ({' and '.join(others)} not read)" if others else ""
    rows = Rows(ids, "", labels, patients, placed=files, n_images=None if place != root else 0)
    rows.notes.append(
        (f"Images: the folder train alone, as in the paper{unread}. " if place != root else "")
        + "Label: the class folder. Group: the patient's number in the file's name; "
        f"{sum(n > 1 for n in classes.values()):,} numbers occur in several classes and are taken as one patient each."
    )
    return rows


def _oct_has_classes(folder: Path) -> bool:
    return sum((folder / name).is_dir() for name in OCT_CLASSES) >= 2


def _oct_patients(files: list[str], ids: list[str], labels: list[str]) -> list[str]:
    """Return the patient's number of each file.

    Raises:
        InputError: A name is not CLASS-PATIENT-NUMBER, or its class is not its folder.
    """
    matches = [_OCT_NAME.fullmatch(image) for image in ids]
    strange = [file for file, m in zip(files, matches, strict=True) if m is None]
    if strange:
        raise InputError(
            f"retinal-oct: {len(strange):,} files have no patient in their name ({listed(strange)}); official names "
            "are CLASS-PATIENT-NUMBER.jpeg"
        )
    parts = [m.groups() for m in matches if m is not None]
    moved = [f for f, p, label in zip(files, parts, labels, strict=True) if p[0].upper() != label]
    if moved:
        raise InputError(f"retinal-oct: {len(moved):,} files lie in another class than they say ({listed(moved)})")
    return [patient for _, patient, _ in parts]


RETINAL_OCT = PublishedSet(
    name="retinal-oct",
    expected=f"train/ or class folders {', '.join(OCT_CLASSES)}",
    group_from="patient's number",
    group_fallback="get the images under their official names",
    holds=lambda folder: _oct_has_classes(folder / "train") or _oct_has_classes(folder),
    rows=_retinal_oct,
    n_images=84_452,  # paper 000, A.6
    count_note="the paper says {n:,}",
)
