"""Suffixes of image files by kind.

A folder is searched by suffix; the reader of a file is chosen by its content (``registry``).
"""

from pathlib import PurePosixPath

from memorisk.images.readers.registry import Kind

KIND_BY_SUFFIX: dict[str, Kind] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".webp", ".tif", ".tiff"), "raster"),
    **dict.fromkeys((".jp2", ".j2k", ".pbm", ".pgm", ".ppm", ".pnm"), "raster"),
    **dict.fromkeys((".dcm", ".dicom"), "dicom"),
    **dict.fromkeys((".nii", ".nii.gz"), "nifti"),
}


def suffix(path: str) -> str:
    """Return a file's suffix in lower case; ``.nii.gz`` counts as one."""
    lower = path.lower()
    return ".nii.gz" if lower.endswith(".nii.gz") else PurePosixPath(lower).suffix
