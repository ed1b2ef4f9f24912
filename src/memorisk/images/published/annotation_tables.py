"""Published sets with one table of images, labels and groups: HAM10000, ChestX-ray14, ISIC-2020, ODIR-5K.

HAM10000 (Tschandl et al. 2018): dermatoscopic images, 7 classes, several images of one lesion.
``HAM10000_metadata.csv`` (also without suffix, or ``.tab``), ``HAM10000_images_part_1/`` and ``_part_2/`` with
``ISIC_*.jpg``. Label: ``dx``. Group: ``lesion_id``; who the patient is was not published.

ChestX-ray14 (Wang et al. 2017): chest radiographs, 14 findings, many images of one patient. ``Data_Entry_2017.csv``
or ``Data_Entry_2017_v2020.csv``; ``images_001/images/`` to ``images_012/images/`` (or one folder) with
``00000001_000.png``; ``train_val_list.txt`` and ``test_list.txt``. METHODS section 1: "No Finding" goes out, then
the first-listed finding (``--head first``), *then* a stratified 50,000 (``--sample 50000``); all findings are kept
here, joined by ``|``, for ``--head multi``.

ISIC-2020 (Rotemberg et al. 2021): dermatoscopic images, benign or malignant, several of one patient.
``ISIC_2020_Training_GroundTruth_v2.csv`` or ``ISIC_2020_Training_GroundTruth.csv`` (Kaggle: ``train.csv``),
``train/`` with ``ISIC_*.jpg`` or ``.dcm`` and ``ISIC_2020_Training_Duplicates.csv``: pairs of identical lesions, of
which the second image is left out, as paper 004's number of images implies (33,126 - 425 = 32,701). Group:
``patient_id``.

ODIR-5K (Peking University 2019): colour fundus images of both eyes of a patient, 8 classes. Two tables are read.
Per eye: Kaggle's ``full_df.csv`` with ``preprocessed_images/`` (``ID``, ``labels`` as ``['N']``, ``filename``). Per
patient: the official annotation saved as CSV (``ID``, ``Left-Fundus``, ``Right-Fundus``, ``N`` to ``O``) with
``Training Images/``; its labels are the patient's, so both eyes have them. The official file is an Excel sheet,
which is not read: it must be saved as CSV. Group: the patient.
"""

import re
from pathlib import Path

import pandas as pd

from memorisk.images.columns import label_values, read_described
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.published.layout import (
    OfficialFiles,
    check_labels,
    column_texts,
    draft_table,
    find_root,
    leave_out,
    leave_out_missing,
    note_count,
    note_skipped,
    read_columns,
)
from memorisk.images.sources.draft import Draft, finish_draft
from memorisk.images.sources.files import plain_stem
from memorisk.runs.errors import InputError, listed, one_line

HAM10000_CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
HAM10000_N_IMAGES = 10_015
_HAM10000_TABLES = ("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab")


def load_ham10000(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of HAM10000.

    Args:
        folder: The folder with the metadata table, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the ISIC id, ``label`` dx, ``group`` lesion_id; the other columns of the table are kept.

    Raises:
        InputError: The table or images are missing, or a label is unknown.
    """
    notes: list[str] = []
    root = find_root(
        folder, "ham10000", lambda place: _ham10000_table(place) is not None, "HAM10000_metadata.csv", notes
    )
    path = _ham10000_table(root)
    assert path is not None
    table = read_columns(path, ("image_id", "lesion_id", "dx"))
    draft = Draft(table=pd.DataFrame(), root=root, name="ham10000", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column lesion_id", "get the metadata table anew"
    ids, labels = column_texts(table, "image_id"), column_texts(table, "dx")
    check_labels(labels, HAM10000_CLASSES, path.name)
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(ids, draft.name, prefer="HAM10000_images_part_*")
    files.skip_others(draft, path.name, ids, placed)
    columns = {"image": ids, "path": placed, "label": labels, "group": column_texts(table, "lesion_id")}
    draft_table(
        draft, {**columns, "dataset": [draft.name] * len(ids)}, table.drop(columns=["image_id", "lesion_id", "dx"])
    )
    leave_out_missing(draft, options)
    draft.notes.append(f"Label: dx of {path.name}. Group: lesion_id; the patients are not published.")
    note_count(draft, HAM10000_N_IMAGES)
    note_skipped(draft)
    return finish_draft(draft, options)


def _ham10000_table(folder: Path) -> Path | None:
    return next((folder / name for name in _HAM10000_TABLES if (folder / name).is_file()), None)


NO_FINDING = "No Finding"
CHESTXRAY14_FINDINGS = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis", "Hernia"),
    *("Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax"),
)
_CHESTXRAY14_TABLES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
_CHESTXRAY14_LISTS = {"train_val_list.txt": "train", "test_list.txt": "test"}
_CHESTXRAY14_USED = ("Image Index", "Finding Labels", "Patient ID")


def load_chestxray14(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ChestX-ray14 without the images of "No Finding".

    Args:
        folder: The folder with the table of findings, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the Image Index, ``label`` the findings joined by ``|`` as listed, ``group`` the Patient ID,
        ``split`` the official one where both lists are there; the other columns of the table are kept.

    Raises:
        InputError: The table or images are missing, or a finding is unknown.
    """
    notes: list[str] = []
    root = find_root(
        folder, "chestxray14", lambda place: _chestxray14_table(place) is not None, "Data_Entry_2017.csv", notes
    )
    path = _chestxray14_table(root)
    assert path is not None
    table = read_columns(path, _CHESTXRAY14_USED)
    draft = Draft(table=pd.DataFrame(), root=root, name="chestxray14", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column Patient ID", "get the table anew"
    ids, labels = column_texts(table, "Image Index"), column_texts(table, "Finding Labels")
    check_labels(labels, (*CHESTXRAY14_FINDINGS, NO_FINDING), path.name)
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(ids, draft.name)
    files.skip_others(draft, path.name, ids, placed)
    columns = {"image": ids, "path": placed, "label": labels, "group": column_texts(table, "Patient ID")}
    splits = _chestxray14_splits(root, draft, ids)
    columns |= {"dataset": [draft.name] * len(ids)} | ({"split": splits} if splits else {})
    draft_table(draft, columns, table.drop(columns=list(_CHESTXRAY14_USED)))
    leave_out(draft, [label != NO_FINDING for label in labels], NO_FINDING)
    if draft.table.empty:
        raise InputError(f"{draft.name}: every image of {path.name} is labelled {NO_FINDING!r}, which is left out")
    leave_out_missing(draft, options)
    _chestxray14_note_rules(draft, path.name)
    note_skipped(draft)
    return finish_draft(draft, options)


def _chestxray14_table(folder: Path) -> Path | None:
    return next((folder / name for name in _CHESTXRAY14_TABLES if (folder / name).is_file()), None)


def _chestxray14_splits(root: Path, draft: Draft, ids: list[str]) -> list[str]:
    """The official split of each image, empty where it is in neither list; [] where a list is absent.

    Raises:
        InputError: An image is in both lists, or a list cannot be read.
    """
    if not all((root / name).is_file() for name in _CHESTXRAY14_LISTS):
        draft.notes.append(f"No official split: {' and '.join(_CHESTXRAY14_LISTS)} are not both in the folder.")
        return []
    of_image: dict[str, str] = {}
    for name, split in _CHESTXRAY14_LISTS.items():
        try:
            lines = (root / name).read_text(encoding="utf-8-sig").split()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({one_line(error, 120)})") from None
        for image in lines:
            if of_image.setdefault(image, split) != split:
                raise InputError(
                    f"{draft.name}: {one_line(image)} is in both {' and '.join(_CHESTXRAY14_LISTS)}; get them anew"
                )
    draft.notes.append("Split: train_val_list.txt is train, test_list.txt is test; the official split, by patient.")
    return [of_image.get(image, "") for image in ids]


def _chestxray14_note_rules(draft: Draft, table: str) -> None:
    """Say what the labels and groups are, and what "first-listed" means in this table."""
    several = [label.split("|") for label in draft.table["label"].tolist() if "|" in label]
    draft.notes.append(
        f"Label: Finding Labels of {table} without {NO_FINDING!r}, as listed, joined by | ({len(several):,} images "
        "have several): --head first takes the first, --head multi all. Group: Patient ID."
    )
    if several and all(findings == sorted(findings) for findings in several):
        draft.notes.append("Findings are listed in the order of the alphabet: the first-listed is not the main one.")


ISIC2020_N_IMAGES = 33_126
_ISIC2020_TABLES = ("ISIC_2020_Training_GroundTruth_v2.csv", "ISIC_2020_Training_GroundTruth.csv")
_ISIC2020_DUPLICATES = "ISIC_2020_Training_Duplicates.csv"
_ISIC2020_KAGGLE = "train.csv"
_ISIC2020_USED = ("image_name", "patient_id", "benign_malignant")


def load_isic2020(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ISIC-2020's training images without the second ones of identical lesions.

    Args:
        folder: The folder with the table and the images, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the ISIC id, ``label`` benign or malignant, ``group`` the patient; ``duplicate`` names the
        images left out for this one, and the other columns of the table are kept. There is no split: the labels of
        the test images are not published.

    Raises:
        InputError: The table or images are missing, a label is unknown, or a duplicate is no image of the table.
    """
    notes: list[str] = []
    root = find_root(folder, "isic2020", lambda place: _isic2020_table(place) is not None, _ISIC2020_TABLES[1], notes)
    path = _isic2020_table(root)
    assert path is not None
    table = read_columns(path, _ISIC2020_USED)
    draft = Draft(table=pd.DataFrame(), root=root, name="isic2020", notes=notes)
    draft.group_from, draft.group_fallback = "column patient_id", "get the table anew"
    ids, labels = column_texts(table, "image_name"), column_texts(table, "benign_malignant")
    people = column_texts(table, "patient_id")
    check_labels(labels, ("benign", "malignant"), path.name)
    files = OfficialFiles.below(root, options, draft.name, kinds=("raster", "dicom"))
    placed = _isic2020_placed(files, draft, ids, path.name)
    copies = _isic2020_copies(root, draft, dict(zip(ids, people, strict=True)))
    columns = {"image": ids, "path": placed, "label": labels, "group": people, "dataset": [draft.name] * len(ids)}
    extra = table.drop(columns=list(_ISIC2020_USED))
    left_for: dict[str, list[str]] = {}
    for second, first in copies.items():
        left_for.setdefault(first, []).append(second)
    extra["duplicate"] = ["|".join(left_for.get(image, [])) for image in ids]
    draft_table(draft, columns, extra)
    leave_out(
        draft,
        [image not in copies for image in ids],
        f"the second image of an identical lesion ({_ISIC2020_DUPLICATES})",
    )
    leave_out_missing(draft, options)
    draft.notes.append(f"Label: benign_malignant of {path.name}. Group: patient_id. No split is published.")
    note_count(draft, ISIC2020_N_IMAGES - len(copies))
    note_skipped(draft)
    return finish_draft(draft, options)


def _isic2020_table(folder: Path) -> Path | None:
    """The official table, or Kaggle's, which is known by its columns since others have a train.csv, too."""
    official = next((folder / name for name in _ISIC2020_TABLES if (folder / name).is_file()), None)
    kaggle = folder / _ISIC2020_KAGGLE
    if official is not None or not kaggle.is_file():
        return official
    try:
        read_columns(kaggle, _ISIC2020_USED)
    except InputError:
        return None
    return kaggle


def _isic2020_placed(files: OfficialFiles, draft: Draft, ids: list[str], table: str) -> list[str | None]:
    """The file of each image: the JPEGs where there are any (Kaggle gives both forms), else the DICOM files."""
    jpegs = [file for file in files.files if not file.lower().endswith((".dcm", ".dicom"))]
    draft.kind = "raster" if jpegs else "dicom"
    chosen = OfficialFiles.of(files.root, jpegs or files.files)
    placed = chosen.place(ids, draft.name, prefer="train*")
    chosen.skip_others(draft, table, ids, placed)
    left = len(files.files) - len(chosen.files)
    if left:
        draft.notes.append(f"{left:,} DICOM files lie beside the JPEGs, which are read.")
    return placed


def _isic2020_copies(root: Path, draft: Draft, patient: dict[str, str]) -> dict[str, str]:
    """The image that goes out for each that stays: ``{left out: kept}``, from the official pairs.

    Raises:
        InputError: A pair names an image that the table has not.
    """
    path = root / _ISIC2020_DUPLICATES
    if not path.is_file():
        draft.notes.append(
            f"{_ISIC2020_DUPLICATES} is not in the folder: it lists 425 pairs of identical lesions, whose second "
            "images are otherwise left out; they stay here."
        )
        return {}
    table = read_columns(path, ("image_name_1", "image_name_2"))
    pairs = list(zip(column_texts(table, "image_name_1"), column_texts(table, "image_name_2"), strict=True))
    unknown = [image for pair in pairs for image in pair if image not in patient]
    if unknown:
        raise InputError(f"{_ISIC2020_DUPLICATES}: {len(unknown):,} images are not in the table ({listed(unknown, 3)})")
    copies: dict[str, str] = {}
    for first, second in pairs:
        while first in copies:  # a pair of one that went out already: what stayed for it stays for both
            first = copies[first]
        if first != second and second not in copies:
            copies[second] = first
    apart = sum(patient[first] != patient[second] for second, first in copies.items())
    draft.notes.append(
        f"{len(copies):,} images show the same lesion as another one ({_ISIC2020_DUPLICATES}) and are left out; the "
        "column "
        f"duplicate names them beside the image that stays. In {apart:,} of these pairs the two have different "
        "patient ids."
    )
    return copies


ODIR5K_CLASSES = {
    **{"N": "Normal", "D": "Diabetes", "G": "Glaucoma", "C": "Cataract"},
    **{"A": "AMD", "H": "Hypertension", "M": "Myopia", "O": "Other"},
}
ODIR5K_PAPER_IMAGES = 6_720  # what the paper's 1,008 canaries imply (METHODS section 1)
_ODIR5K_PER_EYE = ("ID", "filename", "labels")
_ODIR5K_PER_PATIENT = ("ID", "Left-Fundus", "Right-Fundus", *ODIR5K_CLASSES)
_ODIR5K_EXPECTED = "full_df.csv, or the annotation sheet saved as CSV"


def load_odir5k(folder: Path, options: ImageOptions) -> Manifest:
    """The manifest of ODIR-5K.

    Args:
        folder: The folder with ``full_df.csv`` or the annotation as CSV, or one above it.
        options: ``skip_missing`` goes on without images whose file is absent.

    Returns:
        ``image`` is the file's name without suffix, ``label`` as in ``ODIR5K_CLASSES`` (several joined by ``|`` in
        the order N D G C A H M O), ``group`` the patient's ID; the other columns of the table are kept.

    Raises:
        InputError: No such table (an Excel sheet is named with the way out), images are missing, or a label is unknown.
    """
    notes: list[str] = []
    try:
        root = find_root(folder, "odir5k", lambda place: bool(_odir5k_tables(place)), _ODIR5K_EXPECTED, notes)
    except InputError as error:
        raise _odir5k_excel_error(folder) or error from None
    path = _odir5k_tables(root)[0]
    if len(_odir5k_tables(root)) > 1 and path.name != "full_df.csv":
        raise InputError(
            f"odir5k: several tables of images ({listed([p.name for p in _odir5k_tables(root)])}); keep one"
        )
    draft = Draft(table=pd.DataFrame(), root=root, name="odir5k", notes=notes, kind="raster")
    draft.group_from, draft.group_fallback = "column ID", "get the table anew"
    table = read_described(path)
    per_eye = set(_ODIR5K_PER_EYE) <= set(table.columns)
    table, labels = _odir5k_rows_of_eyes(table, path.name) if per_eye else _odir5k_rows_of_patients(table, path.name)
    names = column_texts(table, "filename")
    files = OfficialFiles.below(root, options, draft.name)
    placed = files.place(names, draft.name, prefer="preprocessed_images" if per_eye else "Training Images")
    files.skip_others(draft, path.name, names, placed)
    columns = {"image": [plain_stem(n) for n in names], "path": placed, "label": labels}
    columns |= {"group": column_texts(table, "ID"), "dataset": [draft.name] * len(names)}
    draft_table(draft, columns, table.drop(columns=["ID", "filename"]))
    leave_out_missing(draft, options)
    rule = "labels, one for each eye" if per_eye else "N to O, the patient's, which both eyes share"
    draft.notes.append(f"Label: {rule} ({path.name}). Group: ID, the patient.")
    if len(draft.table) != ODIR5K_PAPER_IMAGES:
        draft.notes.append(
            f"{len(draft.table):,} images are here; the paper's 1,008 canaries imply {ODIR5K_PAPER_IMAGES:,}, which "
            "is no release's number (7,000 of 3,500 patients; 6,392 in full_df.csv)."
        )
    note_skipped(draft)
    return finish_draft(draft, options)


def _odir5k_tables(folder: Path) -> list[Path]:
    """The CSV files of a folder that have the columns of either form, full_df.csv first."""
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".csv" and p.is_file())
    except OSError:
        return []
    fit = [p for p in found if any(set(form) <= _csv_header(p) for form in (_ODIR5K_PER_EYE, _ODIR5K_PER_PATIENT))]
    return sorted(fit, key=lambda p: (p.name != "full_df.csv", p.name))


def _csv_header(path: Path) -> set[str]:
    """The columns of a CSV by its first line, none where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            line = file.readline()
    except OSError:
        return set()
    return {name.strip('"') for name in line.rstrip("\r\n").split(max(",;\t", key=line.count))}


def _odir5k_excel_error(folder: Path) -> InputError | None:
    """The way out where the annotation is there as an Excel sheet alone."""
    sheets = [p for pattern in ("*.xlsx", "*/*.xlsx", "*/*/*.xlsx") for p in sorted(folder.glob(pattern))]
    if not sheets:
        return None
    return InputError(
        f"odir5k: {one_line(sheets[0])} is an Excel sheet, which is not read; save it as CSV (UTF-8) beside it, with "
        "its columns ID, Left-Fundus, Right-Fundus and N to O"
    )


def _odir5k_rows_of_eyes(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows and labels of the table per eye.

    Raises:
        InputError: A label is not a list of the eight letters.
    """
    values = column_texts(table, "labels")
    for row, value in enumerate(values):
        if not re.fullmatch(r"\['[NDGCAHMO]'(, *'[NDGCAHMO]')*\]", value):
            raise InputError(
                f"{one_line(source)}: labels of row {row + 1} is {one_line(value, 60)!r}; official are lists such as "
                f"['N'] of {', '.join(ODIR5K_CLASSES)}"
            )
    return table, [_odir5k_label(re.findall("[A-Z]", value)) for value in values]


def _odir5k_rows_of_patients(table: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[str]]:
    """A row an eye and its label from the table per patient.

    Raises:
        InputError: A class column holds something other than 0 and 1, or a patient has no class.
    """
    labels = [_odir5k_label(value.split("|")) for value in label_values(table, ",".join(ODIR5K_CLASSES), source)]
    without = [i for i, label in zip(column_texts(table, "ID"), labels, strict=True) if not label]
    if without:
        raise InputError(
            f"{one_line(source)}: {len(without):,} patients have no class ({listed(without)}); mend the table"
        )
    sides = [table.assign(filename=table[f"{side}-Fundus"], eye=side.lower()) for side in ("Left", "Right")]
    both = pd.concat(sides, keys=range(2)).swaplevel().sort_index(kind="stable")  # left, right of each patient
    return both.reset_index(drop=True), [label for label in labels for _ in sides]


def _odir5k_label(letters: list[str]) -> str:
    """Class names of letters, in the order N D G C A H M O."""
    return "|".join(name for letter, name in ODIR5K_CLASSES.items() if letter in letters)
