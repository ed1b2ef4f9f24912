"""Small inputs under the names that the pages use, made here: invented people, nobody's images.

A person is a pattern of shades; each image of a person is that pattern, moved in brightness, with noise. Used by
`recipes/run_docs.py`; `.ci/readme.py` and `recipes/first_screens.py` take single pieces.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SIDE = 32
STUDY = """
protocol: paper
seeds: [123, 456]
settings: {epochs: 1}
architectures: {CNN: {model: small_cnn}}
datasets: {digits: {images: digits}}
"""
"""Settings of a study of paper 000 that is done in seconds."""
EXPORT = (
    "import torch; from torch import nn; net = nn.Sequential(nn.Flatten(), nn.Linear({pixels}, 8), nn.ReLU(), "
    "nn.Linear(8, 3)); torch.onnx.export(net.eval(), (torch.zeros(2, 1, {side}, {side}),), '{name}', dynamo=True, "
    "dynamic_shapes=({{0: torch.export.Dim('n', min=1, max=4096)}},), external_data=False, verbose=False)"
)


def person(number: int, image: int, side: int = SIDE, channels: int = 1) -> np.ndarray:
    """An image of a person: uint8 ``[side, side]``, or with three channels."""
    own, now = np.random.default_rng([number]), np.random.default_rng([number, image])
    shades = own.uniform(40, 200, (4, 4, channels)).repeat(side // 4, 0).repeat(side // 4, 1)
    pixels = shades * now.uniform(0.9, 1.1) + now.normal(0, 8, shades.shape)
    return np.squeeze(pixels.clip(0, 255).astype(np.uint8))


def people(
    folder: Path, numbers: Sequence[int], images: int = 2, classes: Sequence[str] = (), channels: int = 1
) -> None:
    """Images of people, named ``00000012_001.png``, in folders of classes where there are any."""
    for number in numbers:
        place = folder / classes[number % len(classes)] if classes else folder
        place.mkdir(parents=True, exist_ok=True)
        for k in range(images):
            pixels = person(number, k, channels=channels)
            if classes:
                pixels = np.where(np.arange(SIDE)[:, None] < 4, pixels.T, pixels.T // (1 + number % len(classes))).T
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number:08}_{k:03}.png")


def onnx_net(file: Path, side: int) -> None:
    """A network of one grey image, exported."""
    code = EXPORT.format(pixels=side * side, side=side, name=file.name)
    subprocess.run(["python", "-c", code], cwd=file.parent, check=True, capture_output=True)


def slice_of(pixels: np.ndarray, patient: str) -> Dataset:
    """A slice with a patient."""
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = generate_uid()
    data.PatientID = patient
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 16
    data.HighBit, data.PixelRepresentation = 15, 0
    data.PixelData = pixels.tobytes()
    data["PixelData"].VR = "OW"
    return data


def _made(*commands: str) -> Callable[[Path], None]:
    """What finished commands leave, run in a folder where the stand-ins lie."""

    def make(place: Path) -> None:
        """Run them beside the place."""
        for command in commands:
            typed = command.format(out=place.name)
            done = subprocess.run(["bash", "-c", typed], cwd=place.parent, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1) or not place.exists():
                raise RuntimeError(f"{typed}\n{done.stdout}{done.stderr}")

    return make


def _png(place: Path) -> None:
    Image.fromarray(person(900, 0, side=64)).save(place)


_BRIEF = "--epochs 1 --models 4 --fail-on never"
_PATIENTS = "--group-from '^(\\d+)_'"
STAND_INS: dict[str, Callable[[Path], None]] = {
    "labelled": lambda place: people(place, range(80), classes=("benign", "malignant")),
    "coloured": lambda place: people(place, range(160), classes=("df", "akiec", "nv", "mel"), channels=3),
    "train": lambda place: people(place, range(60)),
    "others": lambda place: people(place, range(100, 170)),
    "more": lambda place: people(place, range(200, 270)),
    "atlas": lambda place: people(place, range(300, 420), images=3),
    "synthetic": lambda place: people(place, range(500, 560), images=1),
    "probes": lambda place: people(place, range(600, 660), images=1),
    "image.png": _png,
    "net.onnx": lambda place: onnx_net(place, SIDE),
    "run": _made(f"memorisk audit classifier labelled {_PATIENTS} --out {{out}} --models 6 --epochs 1 --fail-on never"),
    "run-two": _made(
        f"memorisk audit classifier labelled {_PATIENTS} --out {{out}} --models 6 --epochs 2 --fail-on never"
    ),
    "detector": _made(
        f"memorisk train detector atlas {_PATIENTS} --backbone small_cnn@none --epochs 1 --frozen-epochs 0 "
        "--out {out}"
    ),
    "lcmem": _made(
        f"memorisk train detector atlas {_PATIENTS} --kind lcmem --encoder pixels:32 --backbone small_cnn@none "
        "--epochs 1 --stage2-epochs 1 --sample-normalisation 1 --out {out}"
    ),
    "generator": _made(
        f"memorisk train generator train {_PATIENTS} --steps 20 --snapshot-every 10 --keep-snapshots --out {{out}}"
    ),
    "autoencoder": _made(f"memorisk train autoencoder atlas {_PATIENTS} --epochs 1 --out {{out}}"),
    "losses.parquet": _made(f"python {Path(__file__).with_name('losses_sklearn.py')} {{out}}"),
}
NEEDS = {
    "run": ("labelled",),
    "run-two": ("labelled",),
    "detector": ("atlas",),
    "lcmem": ("atlas",),
    "generator": ("train",),
    "autoencoder": ("atlas",),
}


def stand_in(name: str, folder: Path) -> Path:
    """The stand-in of that name in a folder of all of them, made on first use."""
    place = folder / name
    if not place.exists():
        for other in NEEDS.get(name, ()):
            stand_in(other, folder)
        folder.mkdir(parents=True, exist_ok=True)
        STAND_INS[name](place)
    return place
