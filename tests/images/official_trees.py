"""Published data sets in their official layouts, in miniature: trees of small files for the tests."""

import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from memorisk.images.manifest import Manifest
from tests.images.making import write


def pictures(root: Path, *names: str) -> None:
    """Small images of one grey each."""
    for k, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), k % 256, np.uint8)).save(path, "PNG" if name.endswith("png") else "JPEG")


def rows_of(manifest: Manifest, *names: str) -> list[tuple]:
    """Columns of the table, row by row."""
    return list(zip(*(manifest.table[name].tolist() for name in names), strict=True))


def notes_of(manifest: Manifest) -> str:
    """All notes as one text."""
    return " ".join(manifest.notes)


def ham(root: Path) -> Path:
    pictures(root / "HAM10000_images_part_1", "ISIC_0024306.jpg", "ISIC_0024307.jpg")
    pictures(root / "HAM10000_images_part_2", "ISIC_0029306.jpg")
    rows = ["HAM_1,ISIC_0024306,nv,histo,45.0,male,back", "HAM_1,ISIC_0029306,nv,histo,,male,back"]
    rows += ["HAM_2,ISIC_0024307,df,consensus,60.0,female,face"]
    header = "lesion_id,image_id,dx,dx_type,age,sex,localization"
    write(root / "HAM10000_metadata.csv", "\n".join([header, *rows, ""]).encode())
    return root


def chest(root: Path, table: str = "Data_Entry_2017.csv") -> Path:
    names = [f"0000000{p}_00{k}.png" for p, n in ((1, 3), (2, 2), (3, 2)) for k in range(n)]
    labels = ["Cardiomegaly", "Cardiomegaly|Emphysema", "No Finding", "No Finding", "Hernia", "Effusion|Mass", "Mass"]
    for k, name in enumerate(names):
        pictures(root / f"images_{k + 1:03d}" / "images", name)
    header = "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    header += "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
    rows = [
        f"{name},{label},{name[-5]},{int(name[:8])},058Y,M,PA,2682,2749,.143,.143,"
        for name, label in zip(names, labels, strict=True)
    ]
    write(root / table, "\n".join([header, *rows, ""]).encode())
    write(root / "train_val_list.txt", "\n".join(n for n in names if n[7] != "3").encode())
    write(root / "test_list.txt", "\n".join(n for n in names if n[7] == "3").encode())
    return root


def kvasir(root: Path) -> Path:
    images = root / "labelled_images"
    pictures(images / "Polyp", "7ad22d50cd354276_9331.jpg", "7ad22d50cd354276_9332.jpg")
    pictures(images / "Blood - fresh", "04a78ef00c5245e0_894.jpg")
    pictures(images / "ampulla_of_vater", "04a78ef00c5245e0_12.jpg")
    write(root / "official_splits/split_0.csv", b"filename,label\n04a78ef00c5245e0_894.jpg,Blood\n")
    polyps = b"7ad22d50cd354276_9331.jpg,Polyp\n7ad22d50cd354276_9332.jpg,Polyp\n"
    write(root / "official_splits/split_1.csv", b"filename,label\n" + polyps)
    return root


def odir_eyes(root: Path) -> Path:
    pictures(root / "preprocessed_images", "0_left.jpg", "0_right.jpg", "1_right.jpg")
    pictures(root / "ODIR-5K/ODIR-5K/Training Images", "0_left.jpg", "0_right.jpg", "1_left.jpg", "1_right.jpg")
    header = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,Right-Diagnostic Keywords,"
    header += "N,D,G,C,A,H,M,O,filepath,labels,target,filename"
    start = "0,69,Female,0_left.jpg,0_right.jpg,cataract,normal fundus,0,0,0,1,0,0,0,0,../input/"
    rows = [f"""{start}0_right.jpg,['N'],"[1, 0, 0, 0, 0, 0, 0, 0]",0_right.jpg"""]
    rows += [f"""{start}0_left.jpg,['C'],"[0, 0, 0, 1, 0, 0, 0, 0]",0_left.jpg"""]
    start = "1,57,Male,1_left.jpg,1_right.jpg,myopia，glaucoma,myopia,0,0,1,0,0,0,1,0,../input/"
    rows += [f"""{start}1_right.jpg,"['M', 'G']","[0, 0, 1, 0, 0, 0, 1, 0]",1_right.jpg"""]
    write(root / "full_df.csv", "\n".join([header, *rows, ""]).encode())
    return root


def odir_patients(root: Path) -> Path:
    pictures(root / "ODIR-5K_Training_Dataset", "0_left.jpg", "0_right.jpg", "1_left.jpg", "1_right.jpg")
    header = "ID,Patient Age,Patient Sex,Left-Fundus,Right-Fundus,Left-Diagnostic Keywords,Right-Diagnostic Keywords,"
    rows = ["0,69,Female,0_left.jpg,0_right.jpg,cataract,normal fundus,0,0,0,1,0,0,0,0"]
    rows += ["1,57,Male,1_left.jpg,1_right.jpg,myopia,glaucoma,0,0,1,0,0,0,1,0"]
    write(root / "annotations.csv", "\n".join([header + "N,D,G,C,A,H,M,O", *rows, ""]).encode())
    return root


def oct_(root: Path) -> Path:
    pictures(root / "train/CNV", "CNV-1016042-1.jpeg", "CNV-1016042-2.jpeg")
    pictures(root / "train/DME", "DME-1016042-1.jpeg", "DME-30521-1.jpeg")
    pictures(root / "train/NORMAL", "NORMAL-4872585-1.jpeg")
    pictures(root / "test/CNV", "CNV-53018-1.jpeg", "CNV-53018-2.jpeg")
    pictures(root / "test/DME", "DME-11053-1.jpeg")
    return root


MNIST_IMAGES = {"train": 5, "t10k": 3}
CIFAR_FILES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")


def idx(values: np.ndarray) -> bytes:
    """The idx format by its definition, for whole numbers of one byte."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()


def mnist_arrays(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and labels of a part of the miniature MNIST."""
    n = MNIST_IMAGES[part]
    rng = np.random.default_rng(n)
    return rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)


def mnist(root: Path, *, dotted: bool = False, gzipped: bool = False) -> Path:
    for part in MNIST_IMAGES:
        for kind, values in zip(("images", "labels"), mnist_arrays(part), strict=True):
            name = f"{part}-{kind}{'.' if dotted else '-'}idx{values.ndim}-ubyte"
            content = idx(values)
            write(root / (f"{name}.gz" if gzipped else name), gzip.compress(content) if gzipped else content)
    return root


def cifar_arrays(file: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels [n, 32, 32, 3] and labels of a file of the miniature CIFAR-10: two images a batch, three for the test."""
    n, rng = 2 + file.startswith("test"), np.random.default_rng(CIFAR_FILES.index(file))
    return rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)


def cifar(root: Path) -> Path:
    for file in CIFAR_FILES:
        records = (
            bytes([label]) + b"".join(image[..., c].tobytes() for c in range(3))
            for image, label in zip(*cifar_arrays(file), strict=True)
        )
        write(root / file, b"".join(records))
    names = "airplane automobile bird cat deer dog frog horse ship truck"
    write(root / "batches.meta.txt", "\n".join([*names.split(), "", ""]).encode())
    return root


LAYOUTS = {
    "ham10000": (ham, 3),
    "chestxray14": (chest, 5),
    "kvasir-capsule": (kvasir, 4),
    "odir5k": (odir_eyes, 3),
    "retinal-oct": (oct_, 5),
    "mnist": (mnist, 8),
    "fashion-mnist": (mnist, 8),
    "cifar10": (cifar, 13),
}
SIDES = {"mnist": 28, "fashion-mnist": 28, "cifar10": 32}  # the others are four pixels wide
