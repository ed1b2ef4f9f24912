"""DICOM through pydicom: uncompressed, RLE, JPEG (baseline, extended, lossless, LS) and JPEG 2000.

Rules: the middle frame (number of frames // 2) of a multi-frame file unless the caller names one, or all slices of a
volume: the frames of a file, or the files of a series (`memorisk.images.volumes`), in their order.
Grey: modality LUT or rescale, then the window (``images.readers.greys`` has the order), MONOCHROME1 inverted last.
Colour: YBR becomes RGB, PALETTE COLOR becomes RGB, no window; deeper colour is taken at its full range of stored bits.
Overlays and colour profiles are left out. Only the bits of a stored value that the file declares count: BitsStored of
them, the highest being HighBit (PS3.5 8.1.1), whatever codec carried it; a palette is scaled by the bits that its
entries need.
Libraries of permissive licences decode compressed frames in a fixed order, so that
two machines with the same libraries give the same pixels: Pillow for baseline JPEG, GDCM for JPEG Lossless and
JPEG-LS, OpenJPEG for JPEG 2000, pydicom for RLE. Extended JPEG of 12 bits needs pylibjpeg-libjpeg (GPL), which
memorisk does not install, and is refused without it.

GDCM and OpenJPEG run in a child process. GDCM is the only decoder of its kinds with a permissive licence, and a broken
stream can make it end its process (an uncaught C++ exception); OpenJPEG may write outside its memory
(CVE-2025-54874). A run must outlive one bad file: the child process is started when the first such file is met,
receives one frame at a time, and is started anew if it died. It ends with the process that started it.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import zlib
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.readers import jpeg_markers
from memorisk.images.readers.greys import (
    GreySlice,
    frame_orientation,
    grey_image,
    grey_volume,
    refuse_not_finite,
    stretch,
    table_limit,
    to_depth,
    to_greys,
)
from memorisk.images.readers.limits import SLICES, check_size
from memorisk.images.readers.raster import open_image, refuse_cut_short
from memorisk.images.readers.registry import ReadOptions
from memorisk.images.volumes import check_volume, from_standard, is_volume_member, volume_files
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.processes import SAFE_ENVIRONMENT, safe_command
from memorisk.runs.size_limits import check_unpacked

DECODERS = {"gdcm": "GDCM", "pylibjpeg": "OpenJPEG"}
"""Names of the libraries that decode in the child process, by pydicom's name of their plugin."""
_CHILD_TIMEOUT_S = (
    300.0  # a frame takes milliseconds to a few seconds; a decoder in an endless loop must not hold the run
)
_CHILD_CODE = "from memorisk.images.readers.dicom import answer_requests; answer_requests()"
_LOCK = threading.Lock()
_children: dict[int, subprocess.Popen[bytes]] = {}
_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_DECODERS = (  # part of the transfer syntax' name, pydicom's plugins in the order they are tried
    ("JPEG 2000", ("pylibjpeg", "pillow")),
    ("JPEG Baseline", ("pillow", "pylibjpeg")),
    ("JPEG Extended", ("pillow", "pylibjpeg")),
    ("JPEG", ("gdcm", "pylibjpeg")),
)
_DEFLATED = b"1.2.840.10008.1.2.1.99"
_RECENT_SYNTAXES = {
    "1.2.840.10008.1.2.8.1": "Deflated Image Frame Compression",
    "1.2.840.10008.1.2.4.110": "JPEG XL Lossless",
    "1.2.840.10008.1.2.4.111": "JPEG XL JPEG Recompression",
    "1.2.840.10008.1.2.4.112": "JPEG XL",
}
"""Transfer syntaxes that pydicom's dictionary may lack, by UID."""
_AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_MOST_SAMPLES = 4
"""Largest number of values of a pixel in DICOM's history (PS3.3 C.7.6.3.1.1; four in retired colour spaces)."""


def decode_in_child(path: Path, frame: int, plugin: str) -> np.ndarray:
    """Return the stored values of one frame, decoded in the child process.

    Args:
        path: Path of a DICOM file.
        frame: Index of the frame.
        plugin: Name of a plugin, one of `DECODERS`.

    Returns:
        Values ``[h, w]`` or ``[h, w, 3]``, as pydicom returns them.

    Raises:
        InputError: The decoder refused the frame, died of it, or took too long.
    """
    with _LOCK:
        child = _child()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            request = {"path": os.fsencode(path.absolute()).hex(), "frame": frame, "plugin": plugin}
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            if not select.select([child.stdout], [], [], _CHILD_TIMEOUT_S)[0]:
                raise InputError(
                    f"{one_line(path)}: the decoder ({DECODERS[plugin]}) did not finish in {_CHILD_TIMEOUT_S:.0f} "
                    "seconds"
                )
            reply = json.loads(child.stdout.readline() or b"null")
            if reply is None:
                raise BrokenPipeError
            data = child.stdout.read(reply.get("bytes", 0))
        except BaseException as error:
            _end(child)
            if isinstance(error, OSError | ValueError):
                raise InputError(f"{one_line(path)}: the decoder ({DECODERS[plugin]}) broke down on it") from None
            raise
    if "error" in reply:
        raise InputError(reply["error"])
    return np.frombuffer(data, dtype=reply["dtype"]).reshape(reply["shape"])


def answer_requests() -> None:
    """Decode, as the child process, the frames requested on standard input, until it closes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the decoder prints must not mix with the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            values = _decode(Path(os.fsdecode(bytes.fromhex(request["path"]))), request["frame"], request["plugin"])
            head: dict[str, Any] = {"dtype": values.dtype.str, "shape": values.shape, "bytes": values.nbytes}
            body = values.tobytes()
        except Exception as error:  # the caller reports it
            head, body = {"error": one_line(" ".join(str(error).split()), 150)}, b""
        replies.write(json.dumps(head).encode() + b"\n" + body)
        replies.flush()


def _decode(path: Path, frame: int, plugin: str) -> np.ndarray:
    pixel_array = pydicom_module().pixels.pixel_array
    values = pixel_array(dataset(path), index=frame, decoding_plugin=plugin, correct_unused_bits=False)
    return np.ascontiguousarray(values)


def _child() -> subprocess.Popen[bytes]:
    """Return the child process of this process (a forked copy of it must not share one)."""
    child = _children.get(os.getpid())
    if child is None or child.poll() is not None:
        if not _children:
            atexit.register(_end_all)
        environment = {**os.environ, **SAFE_ENVIRONMENT, "OMP_NUM_THREADS": "1"}
        child = subprocess.Popen(
            safe_command(_CHILD_CODE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _children[os.getpid()] = child
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child process and close its pipes."""
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # what could not be written to a dead process
                continue
    _children.pop(os.getpid(), None)


def _end_all() -> None:
    child = _children.get(os.getpid())
    if child is not None:
        _end(child)


def pydicom_module() -> Any:
    """Return the library pydicom, imported when the first DICOM file is met.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        import pydicom
        import pydicom.pixels
    except ImportError:
        raise MissingExtraError("pydicom", "medical", "reading DICOM") from None
    return pydicom


def read(path: Path, how: ReadOptions) -> np.ndarray:
    """Read one frame, ``[h, w, c]``, or a volume, ``[h, w, d]``, uint8 or uint16.

    The module's docstring explains how values are mapped.

    Raises:
        InputError: A file has no pixels or no such frame, is too large, or its pixels cannot be decoded; or slices of a
            volume differ in size, or are not grey.
    """
    pydicom_module()
    if is_volume_member(how.member):
        return _read_volume(path, how)
    data = dataset(path)
    n = frame_count(data)
    frame = n // 2 if how.frame is None else how.frame
    if not 0 <= frame < n:
        raise InputError(f"{one_line(path)}: has frames 0 to {n - 1}, not {frame}")
    values = _stored_values(data, frame, path, how.max_pixels)
    photometric = _photometric(data)
    if photometric == "PALETTE COLOR":
        return _palette(values, data, how.depth)
    if values.ndim == 3:
        return _colour(values, data, how)
    if not photometric.startswith("MONOCHROME"):
        raise InputError(f"{one_line(path)}: one channel of photometric interpretation {one_line(photometric)!r}")
    return grey_image(values, data, frame, how.window, how.depth)[..., None]


def _stored_values(data: Any, frame: int, path: Path, max_pixels: int) -> np.ndarray:
    """Return the stored values of a frame, ``[h, w]`` or ``[h, w, 3]``, after every check of its header."""
    rows, columns = _whole(data, "Rows"), _whole(data, "Columns")
    check_size(path, columns, rows, max_pixels, stored=path.stat().st_size)
    if not 1 <= (samples := _whole(data, "SamplesPerPixel", 1)) <= _MOST_SAMPLES:
        raise InputError(f"{one_line(path)}: SamplesPerPixel is {samples}; a pixel has 1 to {_MOST_SAMPLES} values")
    values = _decoded(data, frame, path, max_pixels)
    refuse_not_finite(values, f"{one_line(path)}: frame {frame}" if frame_count(data) > 1 else one_line(path))
    return values


def _photometric(data: Any) -> str:
    return str(data.get("PhotometricInterpretation", "")).strip()


def _read_volume(path: Path, how: ReadOptions) -> np.ndarray:
    """Read the slices of a volume ``[h, w, d]``: the frames of a file, or the files of a series in their order.

    The middle slice declares the window of all.

    Raises:
        InputError: Slices differ in size, are not grey, or are too few or too many.
    """
    files = [Path(file) for file in volume_files(path, how.member)]
    places = [(file, 0) for file in files]
    if len(files) == 1:
        places = [(path, frame) for frame in range(frame_count(dataset(path)))]
    slices: list[GreySlice] = []
    for file, frame in places:
        data = dataset(file)
        values = _stored_values(data, frame, file, how.max_pixels)
        if values.ndim != 2 or not _photometric(data).startswith("MONOCHROME"):
            raise InputError(f"{one_line(file)}: is in colour, and volumes are grey (--frames middle reads a slice)")
        if slices and values.shape != slices[0].values.shape:
            raise InputError(f"{one_line(file)}: its size differs from that of the first slice, {one_line(path)}")
        if len(places) * values.size > SLICES * how.max_pixels:
            raise InputError(
                f"{one_line(path)}: has {len(places):,} slices of {values.shape[1]} x {values.shape[0]} pixels, more "
                f"than {SLICES} times the {how.max_pixels:,} pixels allowed in a frame; raise max_pixels if it is right"
            )
        slices.append(GreySlice.of(values, data, frame))
    check_volume(one_line(path), (*slices[0].values.shape, len(slices)))
    file, frame = places[len(places) // 2]
    data = dataset(file)
    greys = grey_volume(slices, data, frame, how.window, how.depth)
    return np.ascontiguousarray(from_standard(_standard(greys, frame_orientation(data, frame))))


def _standard(slices: np.ndarray, orientation: tuple[float, ...]) -> np.ndarray:
    """Turn slices [n, rows, columns] to the nearest standard orientation, [x, y, z] to the right, the front, the head.

    Args:
        slices: Slices in the order of their places along the normal.
        orientation: Direction of a row and of a column (PS3.3 C.7.6.2.1.1), which run to the patient's left, back and
            head; without it the slices are taken as axial ones.
    """
    along_row, along_column = np.array(orientation or _AXIAL, dtype=np.float64).reshape(2, 3)
    directions = np.stack([np.cross(along_row, along_column), along_column, along_row])  # of the three stored axes
    directions = directions * [-1, -1, 1]  # left and back become right and front
    world = max(permutations(range(3)), key=lambda order: sum(abs(directions[k, order[k]]) for k in range(3)))
    turned = slices.transpose(np.argsort(world))
    backward = [axis for axis in range(3) if directions[world.index(axis), axis] < 0]
    return np.flip(turned, axis=tuple(backward))


def count_frames(path: Path) -> int:
    """Return the number of frames; 1 where the file does not declare it."""
    pydicom_module()
    return frame_count(dataset(path))


def dataset(path: Path) -> Any:
    """Parse a file with pixels; the last one is kept, so that the frames of a stack need one parsing."""
    status = path.stat()
    return _parsed(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1)
def _parsed(path: Path, size: int, modified: int) -> Any:
    refuse_deflate_bomb(path)
    data = pydicom_module().dcmread(path, force=True)
    if not any(keyword in data for keyword in _PIXELS):
        raise InputError(
            f"{one_line(path)}: a DICOM file without pixels, or cut short before them ({content_name(data)})"
        )
    return data


def content_class(data: Any) -> Any:
    """Return the SOP class; that of the file where the data set names none, as in a DICOMDIR."""
    return data.get("SOPClassUID") or getattr(data, "file_meta", {}).get("MediaStorageSOPClassUID")


def content_name(data: Any) -> str:
    """Name the content of a data set by its SOP class, as in ``RT Plan Storage``."""
    uid = content_class(data)
    return one_line(getattr(uid, "name", uid), 80) if uid else "no SOP class"


def frame_count(data: Any) -> int:
    """Return the number of frames that a data set declares; 1 where it declares none.

    Raises:
        InputError: The value is not a whole number.
    """
    return max(1, _whole(data, "NumberOfFrames", 1))


def _whole(data: Any, keyword: str, default: int | None = None) -> int:
    value = None
    try:
        value = data.get(keyword)
        if value in (None, "") and default is not None:
            return default
        return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, AttributeError):
        value_shown = "absent" if value is None else one_line(value, 40)
        raise InputError(f"{one_line(getattr(data, 'filename', 'DICOM'))}: {keyword} is {value_shown}") from None


def _decoded(data: Any, frame: int, path: Path, max_pixels: int) -> np.ndarray:
    """Return the stored values of one frame, ``[h, w]`` or ``[h, w, 3]`` (RGB), in native byte order."""
    pixel_array = pydicom_module().pixels.pixel_array
    syntax = _transfer_syntax(data)
    name = _decodable(syntax, path)
    precision = None
    if syntax.is_encapsulated:
        precision = _check_codestream(data, frame, path, max_pixels)
    else:
        _refuse_short(data, path)
    problems = []
    for plugin in _plugins(syntax):
        try:
            if plugin in DECODERS:
                values = decode_in_child(path, frame, plugin)
            else:
                values = np.asarray(pixel_array(data, index=frame, decoding_plugin=plugin, correct_unused_bits=False))
        except Exception as error:  # a decoder's own exceptions; the next one may know the file
            problems.append(_short(error, path))
        else:
            return stored_bits(values.astype(values.dtype.newbyteorder("="), copy=False), data, precision, path)
    hint = "; 12 bits need pylibjpeg-libjpeg (GPL)" if "Extended" in name else ""
    raise InputError(f"{one_line(path)}: pixels cannot be decoded ({name}: {problems[0]}{hint})")


def _decodable(syntax: Any, path: Path) -> str:
    """Return the name of a transfer syntax.

    Raises:
        InputError: No decoder exists for it, as for video, JPIP and syntaxes newer than the library.
    """
    name = _RECENT_SYNTAXES.get(str(syntax), getattr(syntax, "name", str(syntax)))
    try:
        pydicom_module().pixels.get_decoder(syntax)
    except (NotImplementedError, ValueError):
        raise InputError(
            f"{one_line(path)}: {one_line(name, 60)} is not decoded; convert it to Explicit VR Little Endian"
        ) from None
    return name


def _refuse_short(data: Any, path: Path) -> None:
    """Refuse uncompressed pixels of fewer bytes than the header declares.

    Raises:
        InputError: The pixels have fewer bytes.
    """
    if "PixelData" not in data:
        return
    sides = _whole(data, "Rows") * _whole(data, "Columns") * _whole(data, "SamplesPerPixel", 1) * frame_count(data)
    needed, stored = -(-sides * _whole(data, "BitsAllocated", 8) // 8), len(data.PixelData)
    subsampled = str(data.get("PhotometricInterpretation", "")).strip().endswith("_422")
    if stored < (-(-2 * needed // 3) if subsampled else needed):
        raise InputError(f"{one_line(path)}: cut short: it holds {stored:,} of the {needed:,} bytes of its pixels")


def stored_bits(values: np.ndarray, data: Any, precision: int | None, path: Path) -> np.ndarray:
    """Return decoded values without the bits that do not belong to them (PS3.5 8.1.1).

    ``value = (word >> (HighBit + 1 - BitsStored)) & (2**BitsStored - 1)``, with its sign where values are signed. The
    bits outside, overlays of older files among them, may be anything. A codec that was given the BitsStored bits
    alone returns them in place.

    Args:
        values: Whole numbers as decoded, any shape; floats have no such bits and are returned as they are.
        data: DICOM data set.
        precision: Number of bits of a value in the compressed stream; None for all bits of the type.
        path: Path of the file, for the message.

    Returns:
        Values of the same shape and type.

    Raises:
        InputError: HighBit does not fit the bits.
    """
    width = 8 * values.dtype.itemsize
    decoded, stored = precision or width, _whole(data, "BitsStored", width)
    if values.dtype.kind not in "iu" or not 0 < stored < decoded:
        return values
    high = _whole(data, "HighBit", stored - 1)
    if not stored - 1 <= high < decoded:
        raise InputError(
            f"{one_line(path)}: HighBit is {high}, and BitsStored {stored} of {decoded} bits; HighBit lies from "
            f"{stored - 1} to {decoded - 1}"
        )
    return np.right_shift(np.left_shift(values, width - 1 - high), width - stored)


def _plugins(syntax: Any) -> list[str]:
    """Return the decoders in the order they are tried; "" is pydicom's own.

    Raises:
        MissingExtraError: None of them is installed.
    """
    decoders = next((plugins for part, plugins in _DECODERS if part in syntax.name), None)
    if not syntax.is_encapsulated or decoders is None:
        return [""]
    available = pydicom_module().pixels.get_decoder(syntax).available_plugins
    plugins = [plugin for plugin in decoders if plugin in available]
    if not plugins:
        library = {"gdcm": "python-gdcm", "pylibjpeg": "pylibjpeg-openjpeg"}.get(decoders[0], decoders[0])
        raise MissingExtraError(library, "medical", f"reading DICOM of {syntax.name}")
    return plugins


def _short(error: Exception, path: Path) -> str:
    text = (
        str(error)
        .removeprefix(f"{one_line(path)}: ")
        .replace("Unable to decode as exceptions were raised by all available plugins:", "")
    )
    return one_line(" ".join(text.split()), 150)


def _transfer_syntax(data: Any) -> Any:
    """Return the transfer syntax; where the file lacks one, the one by which pydicom could parse it."""
    meta = getattr(data, "file_meta", None)
    uid = meta.get("TransferSyntaxUID") if meta is not None else None
    if uid:
        return uid
    library = pydicom_module()
    implicit, little = getattr(data, "original_encoding", (True, True))
    uid = library.uid.ImplicitVRLittleEndian if implicit else library.uid.ExplicitVRLittleEndian
    uid = uid if little is not False else library.uid.ExplicitVRBigEndian
    if meta is None:
        data.file_meta = library.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = uid
    return uid


def _palette(values: np.ndarray, data: Any, depth: int) -> np.ndarray:
    """Map PALETTE COLOR through its table, at the full range of the bits that the table's entries need."""
    entries, first, bits = (int(v) for v in data.RedPaletteColorLookupTableDescriptor)
    entries = entries or 1 << 16
    if values.dtype.kind == "i" and first >= 1 << 15:  # written as unsigned where a signed value was meant
        first -= 1 << 16
    places = np.arange(first, first + entries, dtype=np.int64)
    table = np.asarray(pydicom_module().pixels.apply_color_lut(places[None], data))[0, :, :3]
    rows = np.clip(values.astype(np.int64) - first, 0, entries - 1)
    return stretch(table[rows], 0, table_limit(table, bits), depth)


def _colour(values: np.ndarray, data: Any, how: ReadOptions) -> np.ndarray:
    """Map colours to RGB; deeper than 8 bits at the full range of the stored bits, or by the window ``percentile``."""
    bits = _whole(data, "BitsStored", 8)
    if values.dtype == np.uint8 and bits == 8:
        return to_depth(values, how.depth)
    if how.window == "percentile":
        return to_greys(values.astype(np.float64), how.window, how.depth)
    low = -(1 << (bits - 1)) if values.dtype.kind == "i" else 0
    return stretch(values, low, low + (1 << bits) - 1, how.depth)


def refuse_deflate_bomb(path: Path) -> None:
    """Refuse a deflated data set that inflates beyond what its size allows: pydicom inflates it whole.

    Raises:
        InputError: The data set inflates beyond that.
    """
    with path.open("rb") as file:
        head = file.read(4096)
        if _DEFLATED not in head:
            return
        stored = path.stat().st_size
        file.seek(_after_meta(head))
        inflater, total = zlib.decompressobj(-zlib.MAX_WBITS), 0
        while chunk := file.read(1 << 20):
            while chunk and not inflater.eof:
                total += len(inflater.decompress(chunk, 1 << 24))
                chunk = inflater.unconsumed_tail
                check_unpacked(path, "the deflated data set", total, stored)


def _after_meta(head: bytes) -> int:
    """Return where the data set begins: after the elements of group 0002, always explicit and little-endian."""
    place = 132
    while head[place : place + 2] == b"\x02\0":
        if head[place + 4 : place + 6] in (b"OB", b"OW", b"UN", b"SQ", b"UT"):
            place += 12 + int.from_bytes(head[place + 8 : place + 12], "little")
        else:
            place += 8 + int.from_bytes(head[place + 6 : place + 8], "little")
    return place


def _check_codestream(data: Any, frame: int, path: Path, max_pixels: int) -> int | None:
    """Check the declarations of a compressed frame, which decoders trust: its size, and for JPEG that it ends.

    Returns:
        Number of bits of a value in the stream; None where it declares none.
    """
    from pydicom.encaps import get_frame

    try:
        stream = get_frame(data.PixelData, frame, number_of_frames=frame_count(data))
    except Exception:  # broken encapsulation: the decoders say what is wrong with it
        return None
    if jpeg_markers.is_jpeg(stream) and not jpeg_markers.has_end(stream):
        raise InputError(f"{one_line(path)}: a truncated JPEG frame (it has no end marker)")
    size = jpeg_markers.declared_size(stream)
    if size is not None:
        check_size(path, size[0], size[1], max_pixels)
    if "JPEG Baseline" in _transfer_syntax(data).name:
        refuse_cut_short(open_image(stream, path), stream, path)
    return jpeg_markers.declared_precision(stream)
