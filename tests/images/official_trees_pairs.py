"""The six data sets of paper 004 in their official layouts, in miniature."""

import gzip
import json
from pathlib import Path

import numpy as np

from memorisk.images.published.mimic_cxr import MIMIC_FINDINGS, MIMIC_LT_CLASSES, NIH_CXR_LT_CLASSES
from tests.images.dicom_making import dicom
from tests.images.making import write
from tests.images.official_trees import pictures

ATTRIBUTES = [f"Attribute_{k}" for k in range(40)]


def _csv(path: Path, header: str, *rows: str) -> None:
    content = "\n".join([header, *rows, ""]).encode()
    write(path, gzip.compress(content) if path.suffix == ".gz" else content)


def celeba(root: Path) -> Path:
    names = [f"{k:06d}.jpg" for k in range(1, 6)]
    pictures(root / "img_align_celeba", *names)
    marks = {name: [k, k + 5] for k, name in enumerate(names)} | {names[4]: []}
    rows = [f"{n} " + " ".join(" 1" if k in marks[n] else "-1" for k in range(40)) for n in names]
    write(root / "list_attr_celeba.txt", "\n".join([str(len(names)), " ".join(ATTRIBUTES), *rows, ""]).encode())
    people = ["2880", "2880", "17", "17", "9"]
    write(root / "identity_CelebA.txt", "".join(f"{n} {p}\n" for n, p in zip(names, people, strict=True)).encode())
    parts = "00112"
    write(root / "list_eval_partition.txt", "".join(f"{n} {p}\n" for n, p in zip(names, parts, strict=True)).encode())
    return root


def celeba_as_kaggle_has_it(root: Path) -> Path:
    """The lists as CSV, the images one folder deeper."""
    names = [f"{k:06d}.jpg" for k in range(1, 4)]
    pictures(root / "img_align_celeba" / "img_align_celeba", *names)
    header = ",".join(["image_id", *ATTRIBUTES])
    _csv(root / "list_attr_celeba.csv", header, *(f"{n},1," + ",".join(["-1"] * 39) for n in names))
    _csv(root / "list_eval_partition.csv", "image_id,partition", *(f"{n},{k}" for k, n in enumerate(names)))
    return root


def imagenet_lt(root: Path) -> Path:
    lists = {
        "train": ["train/n01440764/n01440764_762.JPEG 0", "train/n01443537/n01443537_16403.JPEG 1"],
        "val": ["train/n01440764/n01440764_3778.JPEG 0"],
        "test": ["val/n01443537/ILSVRC2012_val_00023869.JPEG 1"],
    }
    for part, lines in lists.items():
        write(root / f"ImageNet_LT_{part}.txt", "\n".join(lines).encode())
        pictures(root, *(line.split()[0] for line in lines))
    return root


STUDIES = [("10000032", "50414267"), ("10000032", "53189527"), ("10000764", "57375967")]


def mimic(root: Path) -> Path:
    """Two JPEGs of one patient, a DICOM file of another; the tables gzipped but for one."""
    rows = [("aa11-bb", *STUDIES[0]), ("cc22-dd", *STUDIES[1]), ("ee33-ff", *STUDIES[2])]
    for (image, person, study), end in zip(rows, ("jpg", "jpg", "dcm"), strict=True):
        file = f"files/p{person[:2]}/p{person}/s{study}/{image}.{end}"
        if end == "jpg":
            pictures(root, file)
        else:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            dicom(np.arange(16, dtype=np.uint8).reshape(4, 4)).save_as(root / file, enforce_file_format=True)
    release = root / "mimic-cxr-2.0.0"
    _csv(
        Path(f"{release}-metadata.csv.gz"),
        "dicom_id,subject_id,study_id,ViewPosition,Rows",
        *(f"{i},{p},{s},PA,4" for i, p, s in rows),
    )
    splits = ("train", "train", "validate")
    _csv(
        Path(f"{release}-split.csv"),
        "dicom_id,study_id,subject_id,split",
        *(f"{i},{s},{p},{split}" for (i, p, s), split in zip(rows, splits, strict=True)),
    )
    marks = [{"Edema": "1.0", "Pneumonia": "1.0", "Fracture": "-1.0"}, {"Edema": "0.0"}]
    _csv(
        Path(f"{release}-chexpert.csv.gz"),
        ",".join(["subject_id", "study_id", *MIMIC_FINDINGS]),
        *(",".join([*ids, *(m.get(f, "") for f in MIMIC_FINDINGS)]) for ids, m in zip(STUDIES[:2], marks, strict=True)),
    )
    return root


def _one_hot(classes: tuple[str, ...], one: str) -> str:
    return ",".join(str(int(name == one)) for name in classes)


def mimic_lt(root: Path) -> Path:
    """The same folder with two tables of the long-tailed benchmark."""
    mimic(root)
    header = "subject_id,study_id,dicom_id,path," + ",".join(MIMIC_LT_CLASSES)
    for part, k, label in (("train", 0, "Tortuous Aorta"), ("balanced-val", 2, "Edema")):
        person, study = STUDIES[k]
        image = ("aa11-bb", "cc22-dd", "ee33-ff")[k]
        row = f"{person},{study},{image},files/x.jpg,{_one_hot(MIMIC_LT_CLASSES, label)}"
        _csv(root / f"labels/mimic-cxr-lt_single-label_{part}.csv", header, row)
    return root


def nih_lt(root: Path) -> Path:
    labels = {
        "train": {"00000001_000.png": "Hernia", "00000001_001.png": "No Finding"},
        "balanced-val": {"00000002_000.png": "Mass"},
        "balanced-test": {"00000003_000.png": "Pneumomediastinum"},
        "test": {"00000003_000.png": "Pneumomediastinum", "00000013_004.png": "Hernia"},
    }
    for part, of_image in labels.items():
        rows = [f"{image},{_one_hot(NIH_CXR_LT_CLASSES, label)}" for image, label in of_image.items()]
        _csv(root / f"LongTailCXR/nih-cxr-lt_single-label_{part}.csv", "id," + ",".join(NIH_CXR_LT_CLASSES), *rows)
        pictures(root / "images", *of_image)
    return root


def isic2020(root: Path) -> Path:
    ids = [f"ISIC_000000{k}" for k in range(6)]
    pictures(root / "train", *(f"{name}.jpg" for name in ids))
    rows = [
        f"{n},IP_{k // 2},male,45.0,torso,unknown,{'malignant' if k == 4 else 'benign'},{int(k == 4)}"
        for k, n in enumerate(ids)
    ]
    header = "image_name,patient_id,sex,age_approx,anatom_site_general_challenge,diagnosis,benign_malignant,target"
    _csv(root / "ISIC_2020_Training_GroundTruth.csv", header, *rows)
    pairs = [f"{ids[0]},{ids[1]}", f"{ids[1]},{ids[5]}"]
    _csv(root / "ISIC_2020_Training_Duplicates.csv", "image_name_1,image_name_2", *pairs)
    return root


SCAN = (5, 5, 9)  # stored voxels of a volume: to the left, to the back, to the head (LPS)


def scan(patient: int, *, seed: int = 0) -> np.ndarray:
    """A volume of Hounsfield units."""
    return np.random.default_rng([patient, seed]).integers(-1200, 1200, SCAN).astype(np.int16)


def mask() -> np.ndarray:
    """Two findings of a volume: one with instances 1 (slices 2 to 4) and 2 (slice 4), one with an instance on 6."""
    marks = np.zeros((2, *SCAN), np.uint8)
    marks[0, :2, :2, 2:5] = 1
    marks[0, :3, :3, 3] = 1
    marks[0, 4:, 4:, 4] = 2
    marks[1, 2, :4, 6] = 1
    return marks


def ct_rate(root: Path) -> Path:
    """Three volumes of two patients; of the one of the test part no mask is published."""
    import nibabel

    lps = np.diag([-1.0, -1.0, 2.0, 1.0])
    names = {"train_1_a_1.nii.gz": "train", "train_1_b_1.nii.gz": "train", "valid_7_a_2.nii.gz": "val"}
    names |= {"train_9_a_1.nii.gz": "test"}
    entries: dict[str, list[dict]] = {"train": [], "val": [], "test": []}
    for k, (name, split) in enumerate(names.items()):
        part, number, series, _ = name.split("_")
        place = root / "CT-RATE/dataset" / f"{part}_fixed" / f"{part}_{number}" / f"{part}_{number}_{series}"
        place.mkdir(parents=True)
        nibabel.save(nibabel.Nifti1Image(scan(int(number), seed=k), lps), place / name)
        findings = {"0": "a nodule", "1": "an effusion"}
        entry = {"name": name, "findings": findings, "categories": {"0": "2d", "1": "2e"}, "shape": list(SCAN)}
        entries[split].append(entry)
        masks = root / "ReXGroundingCT/segmentations"
        masks.mkdir(parents=True, exist_ok=True)
        if split != "test":
            nibabel.save(nibabel.Nifti1Image(mask(), np.eye(4)), masks / name)
    write(root / "ReXGroundingCT/dataset.json", json.dumps(entries).encode())
    return root


PAIR_LAYOUTS = {
    "celeba": (celeba, 5),
    "imagenet-lt": (imagenet_lt, 4),
    "mimic-cxr": (mimic, 3),
    "nih-cxr-lt": (nih_lt, 5),
    "isic2020": (isic2020, 4),
    "ct-rate": (ct_rate, 18),
}
