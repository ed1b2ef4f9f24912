"""Small DICOM files made by hand."""

from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRBigEndian, ExplicitVRLittleEndian, generate_uid


def dicom(
    stored: np.ndarray, *, photometric: str = "MONOCHROME2", bits: int | None = None, **elements: object
) -> Dataset:
    """A data set of one frame ``[h, w]`` or ``[h, w, 3]`` or of frames ``[n, h, w]``, little-endian, uncompressed."""
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = generate_uid()
    colour = stored.ndim == 3 and stored.shape[-1] == 3
    frames = stored.ndim == 3 and not colour
    data.Rows, data.Columns = stored.shape[1:3] if frames else stored.shape[:2]
    if frames:
        data.NumberOfFrames = len(stored)
    data.SamplesPerPixel = 3 if colour else 1
    if colour:
        data.PlanarConfiguration = 0
    data.PhotometricInterpretation = photometric
    data.BitsAllocated = stored.dtype.itemsize * 8
    data.BitsStored = bits or data.BitsAllocated
    data.HighBit = data.BitsStored - 1
    data.PixelRepresentation = int(stored.dtype.kind == "i")
    data.PixelData = stored.tobytes() + b"\0" * (stored.nbytes % 2)
    data["PixelData"].VR = "OB" if data.BitsAllocated == 8 else "OW"
    for keyword, value in elements.items():
        setattr(data, keyword, value)
    return data


def save(data: Dataset, path: Path) -> Path:
    """Write a data set as a proper DICOM file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)
    return path


def save_big_endian(data: Dataset, path: Path) -> Path:
    """The same data set, its bytes exchanged."""
    stored = np.frombuffer(data.PixelData, f"<u{data.BitsAllocated // 8}")
    data.PixelData = stored.astype(f">u{data.BitsAllocated // 8}").tobytes()
    data.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
    pydicom.dcmwrite(path, data, enforce_file_format=True)
    return path


def lut(values: np.ndarray, first: int, bits: int) -> Dataset:
    """An item of a modality or VOI LUT sequence, its table as words."""
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(values) % 65536, first & 0xFFFF, bits])
    item.add_new("LUTData", "OW", values.astype("<u2").tobytes())
    return item


def items(*datasets: Dataset) -> Sequence:
    """A sequence."""
    return Sequence(datasets)


def with_elements(**elements: object) -> Dataset:
    """An item with some elements."""
    item = Dataset()
    for keyword, value in elements.items():
        setattr(item, keyword, value)
    return item
