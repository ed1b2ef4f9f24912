"""Trees of DICOM files, with the patient from a tag and the label from a tag or a joined table.

Files without pixels (reports, plans, DICOMDIR) and those whose pixels are not a picture of the patient (dose grids,
segmentations, parametric maps) are left out and listed with the reason. A file that should be an image and ends before
its pixels is unreadable. An image whose group tag is empty belongs to the patient of its study, failing that to its
study, failing that to its series: images of one study are never separated. With the option ``frames`` volume a series
is one image (`memorisk.images.layouts.dicom_series`).
"""

import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from memorisk.images.identity import OF_ONE_PATIENT, OF_PATIENTS
from memorisk.images.layouts.dicom_series import GEOMETRY, SliceHeader, join_series
from memorisk.images.layouts.draft import Draft
from memorisk.images.manifest import NO_PATIENT_PICTURE, STUDY
from memorisk.images.options import ImageOptions
from memorisk.images.readers.dicom import content_class, content_name, pydicom_module, refuse_deflate_bomb
from memorisk.runs.errors import InputError, listed, one_line, unknown_name

_ALWAYS = (
    *("SOPClassUID", "PatientID", "Modality", "Rows"),
    *("PatientAge", "Manufacturer", "InstitutionName", *OF_PATIENTS, *OF_ONE_PATIENT),
)
_PATIENT_GROUP = 0x0010
"""Group number of the tags that describe a patient."""
_FALLBACKS = ("StudyInstanceUID", "SeriesInstanceUID")
_MAY_SHOW = ("Image", "Raw", "Encapsulated", "Video", "Surface")
"""Words in the kinds of DICOM objects that may show a patient; plans, reports and directories without pixels do not."""
_OF_IMAGES = ("Image", "Video")
"""Words in the kinds of objects that consist of pixels: one without them was cut short, or stripped."""
_NO_PICTURES = (
    *("RTDoseStorage", "SegmentationStorage", "LabelMapSegmentationStorage", "HeightMapSegmentationStorage"),
    *("ParametricMapStorage", "RealWorldValueMappingStorage"),
)
_PIXEL_TAGS = (
    b"\xe0\x7f\x10\0",
    b"\x7f\xe0\0\x10",
    b"\xe0\x7f\x08\0",
    b"\x7f\xe0\0\x08",
    b"\xe0\x7f\x09\0",
    b"\x7f\xe0\0\x09",
)
_SHARED = ("SOPInstanceUID", "SeriesInstanceUID", "StudyInstanceUID", "PatientID")
_DESCRIPTIONS = ("PatientSex", "PatientAge", "Manufacturer", "InstitutionName")
"""Tags by which audits compare subgroups of patients; each is a column of the manifest where an image has it."""
_READ = tuple(dict.fromkeys((*_SHARED, *OF_PATIENTS, *OF_ONE_PATIENT, *_DESCRIPTIONS)))


def dicom_draft(draft: Draft, files: list[str], options: ImageOptions) -> Draft:
    """Fill a draft with rows from DICOM headers; the pixels are not read.

    Raises:
        InputError: A tag is unknown, headers cannot be read (and ``skip_unreadable`` is not set), or the group tag is
            empty or the same everywhere.
        MissingExtraError: pydicom is not installed.
    """
    pydicom_module()
    group_tag = _tag(options.dicom_group)
    tagged = options.label_column is not None and options.labels_csv is None
    label_tag = _tag(options.label_column) if tagged and options.label_column else None
    volumes = options.frames == "volume"
    tags = [group_tag, *([label_tag] if label_tag else []), *(GEOMETRY if volumes else ())]
    rows, places, broken = [], [], []
    for file in files:
        try:
            with warnings.catch_warnings(action="ignore"):  # pydicom warns of values when they are read
                header, reason = read_header(draft.root / file, tags)
                if reason:
                    draft.skip(file, reason)
                    continue
                rows.append(_row(header, file, group_tag, label_tag))
                places.append(SliceHeader.of(header))
        except Exception as error:  # pydicom raises whatever broken bytes lead to
            reason = str(error).removeprefix(f"{one_line(draft.root / file)}: ")
            broken.append((file, one_line(reason or type(error).__name__, 100)))
    _refuse_broken(draft, broken, options)
    left_out = Counter(reason for _, reason in draft.skipped if reason.startswith("no "))
    if left_out:
        reasons = [f"{n:,} {reason}" for reason, n in left_out.most_common()]
        draft.notes.append(f"{left_out.total():,} DICOM files left out: {listed(reasons, 8)}.")
    if volumes:
        rows = join_series(draft, rows, places)
    columns = [
        "image",
        "path",
        "label",
        "group",
        *(["member"] if volumes else []),
        "modality",
        *_READ,
    ]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    draft.headers = {name: table[name].tolist() for name in (*OF_PATIENTS, *OF_ONE_PATIENT)}
    draft.names = {name: table[name].tolist() for name in _SHARED}
    described = [name for name in _DESCRIPTIONS if any(table[name].tolist())]
    table = table.drop(columns=[name for name in _READ if name not in described])
    draft.finer = group_tag.group != _PATIENT_GROUP and options.group_from is None and options.group_column is None
    table[STUDY] = draft.names[STUDY]
    draft.table = table if label_tag is not None else table.drop(columns="label")
    if options.group_from is not None or not len(table):
        draft.headers.clear()
        draft.table = draft.table.drop(columns="group")
        return draft
    _settle_groups(draft, options)
    return draft


def read_header(path: Path, tags: list[Any]) -> tuple[Any, str]:
    """Return the few elements of a header that are needed, and why the file is left out (empty for an image).

    Raises:
        InputError: The file should be an image by its SOP class, or has no SOP class, and ends before its pixels.
    """
    library = pydicom_module()
    refuse_deflate_bomb(path)
    with path.open("rb") as file:
        header = library.dcmread(file, force=True, stop_before_pixels=True, specific_tags=[*_ALWAYS, *tags])
        at_pixels = file.read(4) in _PIXEL_TAGS
    name = content_name(header)
    keyword = getattr(content_class(header), "keyword", "")
    if keyword in _NO_PICTURES or (keyword and not at_pixels and not any(word in keyword for word in _MAY_SHOW)):
        return header, f"{NO_PATIENT_PICTURE} ({name})"
    deflated = getattr(header, "file_meta", {}).get("TransferSyntaxUID") == library.uid.DeflatedExplicitVRLittleEndian
    if at_pixels or (deflated and "Rows" in header):
        return header, ""
    if not keyword or "Rows" in header or any(word in keyword for word in _OF_IMAGES):
        raise InputError(f"no pixels, or cut short before them ({name})")
    return header, f"no pixels ({name})"


def _row(header: Any, file: str, group_tag: Any, label_tag: Any) -> dict[str, str]:
    """Make one row: names, group, label."""
    shared = {name: _value(header, name) for name in _READ}
    return {
        "image": file,
        "path": file,
        "label": _value(header, label_tag) if label_tag is not None else "",
        "group": _value(header, group_tag),
        "modality": _value(header, "Modality"),
        **shared,
    }


def _value(header: Any, tag: Any) -> str:
    """Return an element as text, several values joined by ``|``; empty where it is absent."""
    if tag not in header:
        return ""
    value = header[tag].value
    if value is None or isinstance(value, bytes):
        return "" if value is None else value.decode("ascii", errors="backslashreplace").strip(" \0")
    if hasattr(value, "__iter__") and not isinstance(value, str) and not hasattr(value, "original_string"):
        return "|".join(str(v).strip(" \0") for v in value)
    return str(value).strip(" \0")


def _tag(name: str) -> Any:
    """Return a tag by keyword (``PatientID``) or number (``0010,0020``).

    Raises:
        InputError: The keyword does not exist.
    """
    datadict = pydicom_module().datadict
    number = re.fullmatch(r"\(?\s*([0-9a-fA-F]{4})\s*,\s*([0-9a-fA-F]{4})\s*\)?", name)
    if number:
        return pydicom_module().tag.Tag(int(number[1], 16), int(number[2], 16))
    tag = datadict.tag_for_keyword(name)
    if tag is None:
        common = [
            "PatientID",
            "PatientName",
            "StudyInstanceUID",
            "SeriesInstanceUID",
            "AccessionNumber",
            "BodyPartExamined",
        ]
        raise unknown_name("DICOM tag", name, [*common, *sorted(k for k in datadict.keyword_dict if k)])
    return pydicom_module().tag.Tag(tag)


def _refuse_broken(draft: Draft, broken: list[tuple[str, str]], options: ImageOptions) -> None:
    """Refuse or skip files whose headers cannot be read: they are unreadable images."""
    if broken and not options.skip_unreadable:
        headers = [f"{file}: {why}" for file, why in broken]
        raise InputError(
            f"{one_line(draft.name)}: {len(broken):,} DICOM headers cannot be read ({listed(headers, 3)}); "
            "skip_unreadable leaves them out"
        )
    for file, why in broken:
        draft.skip(file, f"the header cannot be read ({why})")
    if broken:
        draft.notes.append(f"{len(broken):,} DICOM files left out: their header cannot be read.")


def _settle_groups(draft: Draft, options: ImageOptions) -> None:
    """Refuse a tag without information, and name those that have some; give images without it their study or series."""
    groups = draft.table["group"].tolist()
    counts = [
        f"{name} ({len(set(draft.names[name]) - {''}):,} values)" for name in _FALLBACKS if name != options.dicom_group
    ]
    draft.group_from = f"DICOM tag {options.dicom_group}"
    draft.group_fallback = f"name another with dicom_group: {' or '.join(counts)}"
    if len(set(groups)) == 1:
        return  # the shared check refuses it, unless a joined table brings a group of its own
    missing = groups.count("")
    if missing:
        studies, series = (draft.names[name] for name in _FALLBACKS)
        of_study = {study: group for study, group in zip(studies, groups, strict=True) if study and group}
        draft.table["group"] = [
            group or of_study.get(study) or study or one
            for group, study, one in zip(groups, studies, series, strict=True)
        ]
        draft.notes.append(
            f"{missing:,} images without {options.dicom_group} are grouped by their study or series instead."
        )
