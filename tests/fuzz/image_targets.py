"""Readers of images, arrays and tables, and the sources above them."""

import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from memorisk.images.manifest import BUILTIN
from memorisk.images.options import ImageOptions
from memorisk.images.readers.arrays import array_shapes
from memorisk.images.readers.registry import CIFAR10_RECORDS, FORMATS, count_frames, read_image, sniff
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import MemoriskError
from tests.fuzz.packing import inside_any, inside_gzip, inside_zip, whole_png
from tests.fuzz.target import Target

for _format in FORMATS:  # now, while imports are instrumented; readers are imported when their first file is met
    import_module(_format.module)
for _library in ("nibabel", "pydicom", "pydicom.pixels", "tifffile", "PIL.JpegImagePlugin", "PIL.PngImagePlugin"):
    import_module(_library)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
_WINDOWS = ("declared", "percentile", "full")
_SMALL = 1 << 22  # pixels: most inputs stay quick; one in sixteen meets the real limit


def _choice(data: bytes, n: int, of: int = 0) -> int:
    """A number below n that belongs to the data."""
    return zlib.crc32(data, of) % n


def _checked(path: Path, data: bytes, *, member: str | None = None, frame: int | None = None) -> np.ndarray:
    """An image, read as the data themselves choose, and held to what ``read_image`` promises."""
    depth = (8, 16)[_choice(data, 2)]
    more = {} if _choice(data, 16, 1) == 0 else {"max_pixels": _SMALL}
    image = read_image(path, member=member, frame=frame, depth=depth, window=_WINDOWS[_choice(data, 3, 2)], **more)
    assert image.dtype == (np.uint8 if depth == 8 else np.uint16), image.dtype
    assert image.ndim == 3, image.shape
    assert image.shape[2] in (1, 3), image.shape
    assert image.size, image.shape
    return image


def ask_image(data: bytes, folder: Path) -> None:
    """The image, the number of frames and the last frame."""
    path = folder / "input"
    path.write_bytes(data)
    refused = None
    try:
        _checked(path, data)
    except MemoriskError as error:
        refused = error
    frames = count_frames(path)
    assert isinstance(frames, int)
    if frames > 1 and _choice(data, 4, 3) == 0:
        _checked(path, data, frame=frames - 1)
    if refused is not None:
        raise refused


def ask_arrays(data: bytes, folder: Path) -> None:
    """Each array's first and last image, and the source with and without labels."""
    path = folder / "input"
    path.write_bytes(data)
    found = sniff(data[:352])
    if found is None or found.kind != "arrays":
        ask_image(data, folder)
        return
    manifest = load_manifest(path, ImageOptions())
    assert manifest.n >= 1
    shapes = array_shapes(path)
    for name, (shape, _) in list(shapes.items())[:3]:
        if shape:
            _checked(path, data, member=name or None, frame=shape[0] - 1 if _choice(data, 2, 4) else 0)


def ask_records(data: bytes, folder: Path) -> None:
    """Records of CIFAR-10."""
    path = folder / "input"
    path.write_bytes(data)
    _checked(path, data, member=CIFAR10_RECORDS, frame=_choice(data, 3))


def _table(suffix: str) -> Callable[[bytes, Path], Any]:
    """A table of that suffix beside two pictures."""

    def ask(data: bytes, folder: Path) -> None:
        """The manifest, guessed and with named columns."""
        for name, grey in (("a.png", 10), ("b.png", 200)):
            (folder / name).write_bytes(_png(np.full((2, 2), grey, np.uint8)))
        path = folder / f"table{suffix}"
        path.write_bytes(data)
        more: dict[str, Any] = {"skip_missing": True} if _choice(data, 2) else {}
        manifest = load_manifest(path, ImageOptions(**more))
        manifest.validate()
        for row in range(min(manifest.n, 4)):
            file = manifest.file(row)
            assert file.startswith(BUILTIN) or folder.resolve() in Path(file).resolve().parents, file

    return ask


def ask_labels(data: bytes, folder: Path) -> None:
    """A folder of pictures whose labels a table has."""
    images = folder / "images"
    images.mkdir()
    for name, grey in (("a.png", 10), ("b.png", 200)):
        (images / name).write_bytes(_png(np.full((2, 2), grey, np.uint8)))
    table = folder / "labels.csv"
    table.write_bytes(data)
    load_manifest(images, ImageOptions(labels_csv=table)).validate()


def ask_generated(data: bytes, folder: Path) -> None:
    """A folder of memorisk generate whose table was changed."""
    for name, grey in (("a.png", 10), ("b.png", 200)):
        (folder / name).write_bytes(_png(np.full((2, 2), grey, np.uint8)))
    (folder / "generate.json").write_bytes(data if _choice(data, 2) else b"{}")
    (folder / "manifest.csv").write_bytes(data)
    load_manifest(folder).validate()


def ask_published(data: bytes, folder: Path) -> None:
    """Published data sets whose table was changed: which one, the first byte says."""
    trees = _trees()
    name, make, table = trees[data[0] % len(trees)] if data else trees[0]
    root = make(folder / "set")
    (root / table).write_bytes(data[1:])
    load_manifest(f"{name}:{root}").validate()


def _trees() -> list[tuple[str, Callable[[Path], Path], str]]:
    from tests.images import official_trees as trees
    from tests.images import official_trees_pairs as pairs

    return [
        ("ham10000", trees.ham, "HAM10000_metadata.csv"),
        ("chestxray14", trees.chest, "Data_Entry_2017.csv"),
        ("kvasir-capsule", trees.kvasir, "official_splits/split_0.csv"),
        ("odir5k", trees.odir_eyes, "full_df.csv"),
        ("celeba", pairs.celeba, "identity_CelebA.txt"),
        ("celeba", pairs.celeba, "list_attr_celeba.txt"),
        ("isic2020", pairs.isic2020, "ISIC_2020_Training_GroundTruth.csv"),
    ]


def _png(values: np.ndarray) -> bytes:
    return _as(Image.fromarray(values), "PNG")


def _as(image: Image.Image, kind: str, **settings: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def _pictures() -> list[Image.Image]:
    """Small cuts of real images in every mode; noise where the real ones are not there."""
    found = sorted(SHARED.glob("ham10000_224/**/*.jpg"))[:1] + sorted(SHARED.glob("nih_cxr14_64/**/*.png"))[:1]
    if not found:
        noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
        return [Image.fromarray(noise), Image.fromarray(noise[..., 0])]
    return [Image.open(file).convert("RGB").resize((24, 20)) for file in found]


def raster_seeds(folder: Path) -> list[bytes]:
    """A picture as every raster format and mode."""
    seeds = []
    for image in _pictures():
        grey = image.convert("L")
        deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 200)
        seeds += [
            _as(m, "PNG") for m in (image, grey, deep, image.convert("P"), image.convert("RGBA"), grey.convert("1"))
        ]
        seeds += [_as(m, "JPEG", quality=60) for m in (image, grey, image.convert("CMYK"))]
        seeds += [
            _as(
                image, "JPEG", progressive=True, exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
            )
        ]
        seeds += [_as(image.convert("P"), "GIF"), _as(image, "GIF", save_all=True, append_images=[image.rotate(90)])]
        seeds += [_as(image, "WEBP"), _as(image, "WEBP", lossless=True), _as(image, "BMP"), _as(grey, "BMP")]
        seeds += [_as(image, "JPEG2000"), _as(grey, "JPEG2000"), _as(deep, "JPEG2000")]
        seeds += [_as(image, "PPM"), _as(grey, "PPM"), _as(deep, "PPM"), b"P2\n3 2\n255\n1 2 3 4 5 6\n"]
    return seeds


def tiff_seeds(folder: Path) -> list[bytes]:
    """TIFF of many kinds: types, compressions, tiles, pages, planes, byte orders."""
    import tifffile

    picture = np.asarray(_pictures()[0])
    seeds = []
    kinds: list[tuple[np.ndarray, dict[str, Any]]] = [
        (picture, {}),
        (picture[..., 0], {"byteorder": ">"}),
        (picture[..., 0].astype(np.uint16) * 256, {"compression": "zlib"}),
        (picture[..., 0].astype(np.float32), {}),
        (picture[..., 0].astype(np.int16), {"photometric": "miniswhite"}),
        (picture.transpose(2, 0, 1).copy(), {"photometric": "rgb", "planarconfig": "separate"}),
        (np.stack([picture[..., 0]] * 3), {"photometric": "minisblack"}),
        (np.tile(picture, (2, 2, 1)), {"tile": (16, 16), "compression": "zlib", "bigtiff": True}),
    ]
    for k, (values, how) in enumerate(kinds):
        file = folder / f"{k}.tif"
        byteorder, big = how.pop("byteorder", "<"), how.pop("bigtiff", False)
        with tifffile.TiffWriter(file, byteorder=byteorder, bigtiff=big) as out:
            out.write(values, **how)
        seeds.append(file.read_bytes())
    for kind in ("tiff_lzw", "packbits", "jpeg", "tiff_deflate"):
        seeds.append(_as(_pictures()[0], "TIFF", compression=kind))
    seeds += [_as(_pictures()[0].convert("P"), "TIFF"), _as(_pictures()[0].convert("1"), "TIFF", compression="group4")]
    return seeds


def dicom_seeds(folder: Path) -> list[bytes]:
    """The small files of pydicom's collection, compressed ones among them, and some made here."""
    from tests.images.dicom_making import dicom, items, lut, save

    grey = np.arange(48, dtype=np.uint16).reshape(6, 8) * 80
    made = [
        dicom(grey, bits=12, RescaleSlope=2, RescaleIntercept=-1000, WindowCenter=40, WindowWidth=400),
        dicom(grey.astype(np.int16), photometric="MONOCHROME1"),
        dicom(np.stack([grey, grey[::-1]]).astype(np.uint8)),
        dicom(np.stack([grey.astype(np.uint8)] * 3, axis=-1), photometric="RGB"),
        dicom(grey, VOILUTSequence=items(lut(np.arange(256), 0, 8))),
    ]
    files = [save(data, folder / f"{k}.dcm") for k, data in enumerate(made)]
    real = (f for f in sorted(SHARED.glob("dicom_pydicom/test_files/**/*")) if f.is_file() and f.suffix != ".txt")
    files += [f for f in real if f.stat().st_size < 16_000]
    return [file.read_bytes() for file in files]


def nifti_seeds(folder: Path) -> list[bytes]:
    """Volumes of several types and shapes, plain and gzipped, both versions."""
    import nibabel as nib

    values = (np.random.default_rng(0).integers(0, 4000, (5, 6, 7))).astype(np.int16)
    rgb = np.zeros((3, 4, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    turned = np.array([[0, 1, 0, 0], [0, 0, -2, 0], [3, 0, 0, 0], [0, 0, 0, 1]])
    seeds = []
    for k, (kind, array, affine) in enumerate([
        (nib.Nifti1Image, values, np.eye(4)),
        (nib.Nifti2Image, values.astype(np.float32), turned),
        (nib.Nifti1Image, values[..., None].repeat(2, -1), turned),
        (nib.Nifti1Image, rgb, np.eye(4)),
        (nib.Nifti1Image, values[..., 0].astype(np.uint8), np.eye(4)),
    ]):  # fmt: skip
        file = folder / f"{k}.nii"
        image = kind(array, affine)
        image.header["cal_max"] = 1000
        nib.save(image, file)
        seeds += [file.read_bytes(), gzip.compress(file.read_bytes(), mtime=0)]
    return seeds


def array_seeds(folder: Path) -> list[bytes]:
    """npy, npz, HDF5 and idx, plain and packed."""
    import h5py

    rng = np.random.default_rng(0)
    bytes_, floats = rng.integers(0, 256, (4, 5, 6), np.uint8), rng.random((4, 5, 6, 3), np.float32)
    seeds = []
    for array in (bytes_, floats, bytes_.astype(np.int16), np.asfortranarray(bytes_), floats > 0.5):
        out = io.BytesIO()
        np.save(out, array)
        seeds.append(out.getvalue())
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, images=bytes_, labels=np.arange(4) % 2, patient=np.array(["p", "p", "q", "r"]))
        seeds.append(out.getvalue())
        out = io.BytesIO()
        save(
            out,
            **{
                f"{s}_{w}": v
                for s in ("train", "val", "test")
                for w, v in (("images", bytes_), ("labels", [[0], [1], [1], [0]]))
            },
        )
        seeds.append(out.getvalue())
    for settings in ({}, {"compression": "gzip", "chunks": (2, 5, 6)}):
        file = folder / "a.h5"
        with h5py.File(file, "w") as out_file:
            out_file.create_dataset("images", data=bytes_, **settings)
            out_file.create_dataset("labels", data=np.array([b"a", b"b", b"a", b"b"]))
            out_file.create_group("more")["deep"] = floats
        seeds.append(file.read_bytes())
    idx = b"\0\0\x08\x03" + np.array(bytes_.shape, ">u4").tobytes() + bytes_.tobytes()
    return [
        *seeds,
        idx,
        gzip.compress(idx, mtime=0),
        b"\0\0\x0d\x03" + np.array([1, 2, 2], ">u4").tobytes() + bytes(16),
    ]


def record_seeds(folder: Path) -> list[bytes]:
    """Three records."""
    return [np.random.default_rng(0).integers(0, 256, 3 * 3073, np.uint8).tobytes()]


_ROWS = {"image": ["a.png", "b.png"], "label": ["x", "y"], "patient": ["p", "q"], "split": ["train", "test"]}


def text_seeds(folder: Path) -> list[bytes]:
    """CSV with the usual names, other delimiters, quotes, an own manifest's columns."""
    own = "image,path,label,group,split,member,frame\na,a.png,x|y,p,train,,\nb,b.png,y,q,,axial,0\n"
    plain = pd.DataFrame(_ROWS).to_csv(index=False)
    quoted = 'file;class;note\n"a.png";"x;1";"two\nlines"\nb.png;y;\n'
    hot = "image_id,A,B\na,1,0\nb,0.0,TRUE\n"
    seeds = [own, plain, quoted, hot, plain.replace(",", "\t"), "\ufeff" + plain, "path\nbuiltin:digits\n../a.png\n"]
    return [*(s.encode() for s in seeds), gzip.compress(plain.encode(), mtime=0)]


def parquet_seeds(folder: Path) -> list[bytes]:
    """Parquet of text, numbers, dates, lists and missing values."""
    tables = [
        pd.DataFrame(_ROWS),
        pd.DataFrame(_ROWS | {"frame": [0, None], "t": pd.to_datetime(["2020-01-01", None]), "v": [[1], [2, 3]]}),
        pd.DataFrame({"path": ["a.png", None], "label": pd.Categorical(["u", "v"]), "patient": [1.0, 2.5]}),
    ]
    seeds = []
    for table in tables:
        for kind in ("zstd", None, "snappy"):
            out = io.BytesIO()
            table.to_parquet(out, index=False, compression=kind)
            seeds.append(out.getvalue())
    return seeds


def published_seeds(folder: Path) -> list[bytes]:
    """The tables of published data sets, in miniature."""
    seeds = []
    for k, (_, make, table) in enumerate(_trees()):
        root = make(folder / str(k))
        seeds.append(bytes([k]) + (root / table).read_bytes())
    return seeds


def image_targets() -> Sequence[Target]:
    """Every reader of images and tables."""
    return (
        Target("raster", "PNG, JPEG, GIF, WebP, BMP, JPEG 2000, PGM, PPM", raster_seeds, ask_image, whole_png),
        Target("tiff", "TIFF and BigTIFF, tiles, pages, compressed", tiff_seeds, ask_image),
        Target("dicom", "DICOM, compressed ones too", dicom_seeds, ask_image),
        Target("nifti", "NIfTI-1 and -2, gzipped or not", nifti_seeds, ask_image, inside_gzip),
        Target("arrays", "npy, npz, HDF5, idx: images, labels, groups", array_seeds, ask_arrays, inside_any),
        Target("records", "records of CIFAR-10", record_seeds, ask_records),
        Target("csv", "CSV, TSV, gzipped: a manifest", text_seeds, _table(".csv"), inside_gzip),
        Target("parquet", "Parquet: a manifest", parquet_seeds, _table(".parquet")),
        Target("labels", "a table of labels beside a folder", text_seeds, ask_labels),
        Target("generated", "a folder of memorisk generate", text_seeds, ask_generated),
        Target("published", "tables of published data sets", published_seeds, ask_published),
        Target("zip", "npz, changed inside their members", array_seeds, ask_arrays, inside_zip),
    )
