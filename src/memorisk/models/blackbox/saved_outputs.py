"""Outputs of a model that cannot be moved, saved on its own machine: an ``.npz`` of its answers to the probes.

The owner of the model calls `write_saved_outputs`; the auditor opens the file as `SavedOutputs`. Arrays are read a
block of images at a time, whatever their size.
"""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.models.blackbox.predictors import OutputReader
from memorisk.runs.errors import ARRAY_ERRORS, InputError, one_line
from memorisk.runs.files import atomic_path, file_fingerprint

ARRAY_SHAPES: dict[str, str] = {
    "clean": "nK",
    "marked": "nK",
    "controls": "CnK",
    "transparent": "nK",
    "references_clean": "RnK",
    "references_marked": "RnK",
    "references_controls": "RCnK",
}
"""Arrays by name, and what their axes count: images n, classes K, controls C, reference models R."""

REQUIRED_ARRAYS = ("clean", "marked", "controls")
_REFERENCES = ("references_clean", "references_marked", "references_controls")
_WORDS = {"n": "images", "K": "classes", "C": "controls", "R": "reference models"}
_BLOCK = 1 << 22
"""Numbers that are read at a time."""


@dataclass(frozen=True)
class SavedOutputs:
    """Answers from a file, checked in whole when it is opened and given as probabilities.

    Every array is turned into float64 probabilities [n, K] in the same way: as logits or as probabilities, decided
    once on ``clean``.
    """

    path: Path
    """Path of the file of saved outputs."""

    shapes: dict[str, tuple[int, ...]]
    """Shape of each array that is there."""

    kind: str
    """"logits" or "probabilities"."""

    decided: str
    """"declared", or on how many answers it was seen."""

    columns: int
    """Number of columns in the file; 1 for a sigmoid's."""

    extra: dict[str, str] = field(default_factory=dict)
    """Fingerprint of the file."""

    @classmethod
    def read(cls, path: str | Path, *, output: str = "auto") -> "SavedOutputs":
        """Open a file and check all of it.

        Args:
            path: An ``.npz``, as `write_saved_outputs` or ``numpy.savez`` writes it; arrays named as in `ARRAY_SHAPES`.
            output: "logits", "probabilities", or "auto" to tell from ``clean``.

        Raises:
            InputError: No such file, no archive of arrays of floating-point numbers, arrays that are missing, unknown
                or of sizes that do not fit each other, NaN or infinite values, or values that are not what they were
                taken for.
        """
        file = Path(path)
        if not file.is_file():
            raise InputError(f"file of saved outputs {one_line(path)} does not exist")
        shapes = _shapes(file)
        reader = OutputReader(f"{file.name}: clean", output)
        for name in sorted(shapes, key=list(ARRAY_SHAPES).index):
            reader.name = f"{one_line(file.name, 80)}: {name}"
            for block in _blocks(file, name):
                reader.read(block)
        kind = reader.kind or "logits"
        fingerprint = {"fingerprint": file_fingerprint(file)}
        return cls(file, shapes, kind, reader.decided, shapes["clean"][1], fingerprint)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def n_images(self) -> int:
        """Number of probe images n."""
        return self.shapes["clean"][0]

    @property
    def n_classes(self) -> int:
        """Number of classes K; two for a sigmoid."""
        return max(self.columns, 2)

    @property
    def n_controls(self) -> int:
        """Control marks C."""
        return self.shapes["controls"][0]

    @property
    def n_references(self) -> int:
        """Number of reference models R; 0 without them."""
        return self.shapes["references_clean"][0] if "references_clean" in self.shapes else 0

    @property
    def has_transparent(self) -> bool:
        """Return whether there are answers to the mark at opacity 0."""
        return "transparent" in self.shapes

    def clean(self) -> np.ndarray:
        """Return the probabilities [n, K] of the unmarked probes."""
        return next(self._images("clean"))

    def marked(self) -> np.ndarray:
        """Return the probabilities [n, K] of the probes with the mark."""
        return next(self._images("marked"))

    def transparent(self) -> np.ndarray | None:
        """Return the probabilities [n, K] of the probes with the mark at opacity 0; None if they were not saved."""
        return next(self._images("transparent")) if self.has_transparent else None

    def controls(self) -> Iterator[np.ndarray]:
        """Return the probabilities [n, K] of the probes, one control mark after another."""
        return self._images("controls")

    def references_clean(self) -> Iterator[np.ndarray]:
        """Return the probabilities [n, K] of the unmarked probes, one reference model after another."""
        return self._images("references_clean")

    def references_marked(self) -> Iterator[np.ndarray]:
        """Return the probabilities [n, K] of the marked probes, one reference model after another."""
        return self._images("references_marked")

    def references_controls(self) -> Iterator[np.ndarray]:
        """Return the probabilities [n, K], C control marks of the first reference model, then of the next."""
        return self._images("references_controls")

    def describe(self) -> dict[str, Any]:
        """Return the kind, file and sizes; no absolute paths."""
        return {
            "kind": "saved outputs",
            "name": one_line(self.name, 120),
            "file": one_line(self.name, 120),
            **self.extra,
            "output": self.kind,
            "output_decided": self.decided,
            "classes": self.n_classes,
            "columns": self.columns,
            "images": self.n_images,
            "controls": self.n_controls,
            "references": self.n_references,
            "transparent": self.has_transparent,
        }

    def _images(self, name: str) -> Iterator[np.ndarray]:
        """Yield the parts [n, K] of an array, one after another; nothing if it is not there."""
        if name not in self.shapes:
            return
        reader = OutputReader(f"{one_line(self.name, 80)}: {name}", self.kind)
        waiting: list[np.ndarray] = []
        rows = 0
        for block in _blocks(self.path, name):
            start = 0
            while start < len(block):
                part = block[start : start + self.n_images - rows]
                waiting.append(reader.read(part))
                rows, start = rows + len(part), start + len(part)
                if rows == self.n_images:
                    yield np.concatenate(waiting)
                    waiting, rows = [], 0


def write_saved_outputs(
    path: str | Path,
    *,
    clean: np.ndarray,
    marked: np.ndarray,
    controls: np.ndarray,
    transparent: np.ndarray | None = None,
    references_clean: np.ndarray | None = None,
    references_marked: np.ndarray | None = None,
    references_controls: np.ndarray | None = None,
    output: str = "auto",
    compress: bool = False,
) -> None:
    """Save a model's answers for `SavedOutputs`, atomically; all logits or all probabilities.

    Args:
        path: The ``.npz`` to write; its folder must exist.
        clean: Answers to the unmarked probes, [n, K].
        marked: Answers to the probes with the mark, [n, K].
        controls: Answers to the probes with each control mark, [C, n, K].
        transparent: Answers to the probes with the mark at opacity 0, [n, K].
        references_clean: Answers of models that never saw the mark to the unmarked probes, [R, n, K].
        references_marked: Answers of these models to the probes with the mark, [R, n, K].
        references_controls: Answers of these models to the probes with each control mark, [R, C, n, K].
        output: "logits" or "probabilities" where the numbers leave it open; the file does not record it.
        compress: A smaller file, slower to read.

    Raises:
        InputError: Arrays that `SavedOutputs.read` would refuse, or another suffix than ``.npz``.
    """
    by_name = {
        "clean": clean, "marked": marked, "controls": controls, "transparent": transparent,
        "references_clean": references_clean, "references_marked": references_marked,
        "references_controls": references_controls,
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in by_name.items() if value is not None}
    target = Path(path)
    if target.suffix != ".npz":
        raise InputError(f"saved outputs are an .npz file; {one_line(target.name, 80)} is named otherwise")
    _check_shapes({name: (value.shape, value.dtype) for name, value in arrays.items()}, one_line(target.name, 80))
    reader = OutputReader(target.name, output)
    for name in sorted(arrays, key=list(ARRAY_SHAPES).index):
        reader.name = f"{one_line(target.name, 80)}: {name}"
        reader.read(arrays[name].reshape(-1, arrays[name].shape[-1]))
    packed = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w", packed) as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays, after checking names, types and sizes against each other."""
    title = one_line(file.name, 80)
    headers: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if name not in ARRAY_SHAPES or name in headers or not member.endswith(".npy"):
                    raise InputError(
                        f"{title} holds {one_line(member, 60)}, once each of {', '.join(ARRAY_SHAPES)} may be there: "
                        "leave other arrays out"
                    )
                with archive.open(member) as stream:
                    headers[name] = _header(stream)[:2]
    except ARRAY_ERRORS as error:
        raise InputError(
            f"{title} cannot be read as an .npz of arrays: {one_line(error, 120)}; save it again"
        ) from error
    return _check_shapes(headers, title)


def _check_shapes(headers: dict[str, tuple[tuple[int, ...], np.dtype]], title: str) -> dict[str, tuple[int, ...]]:
    missing = [name for name in REQUIRED_ARRAYS if name not in headers]
    if missing:
        raise InputError(f"{title} lacks {', '.join(missing)}; it must hold {', '.join(REQUIRED_ARRAYS)}")
    absent = [name for name in _REFERENCES if name not in headers]
    if 0 < len(absent) < len(_REFERENCES):
        raise InputError(f"{title} lacks {', '.join(absent)}: references need all of {', '.join(_REFERENCES)}")
    sizes: dict[str, tuple[int, str]] = {}
    for name in sorted(headers, key=list(ARRAY_SHAPES).index):
        shape, dtype = headers[name]
        axes = ARRAY_SHAPES[name]
        if dtype.kind != "f":
            held = "objects" if dtype.hasobject else one_line(dtype, 40)
            raise InputError(f"{title}: {name} holds {held}; it must hold floating-point logits or probabilities")
        if len(shape) != len(axes) or 0 in shape:
            raise InputError(f"{title}: {name} is {list(shape)}; it must be [{', '.join(axes)}], each 1 or more")
        for axis, size in zip(axes, shape, strict=True):
            expected, where = sizes.setdefault(axis, (size, name))
            if size != expected:
                raise InputError(
                    f"{title}: {name} has {size} {_WORDS[axis]}, {where} has {expected}; they must be the same"
                )
    return {name: shape for name, (shape, _) in headers.items()}


def _header(stream: Any) -> tuple[tuple[int, ...], np.dtype, bool]:
    """Return the shape, type and whether the order is Fortran's, from the start of a ``.npy``."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return shape, dtype, fortran


def _blocks(file: Path, name: str) -> Iterator[np.ndarray]:
    """Yield an array's rows [m, K], in order, so many at a time that memory stays small."""
    title = one_line(file.name, 80)
    try:
        with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as stream:
            shape, dtype, fortran = _header(stream)
            columns = shape[-1]
            rows = int(np.prod(shape[:-1], dtype=np.int64))
            if fortran and len(shape) > 1:
                whole = np.frombuffer(_exactly(stream, rows * columns * dtype.itemsize), dtype).reshape(shape[::-1])
                yield whole.T.reshape(rows, columns)
                return
            step = max(1, _BLOCK // columns)
            for start in range(0, rows, step):
                count = min(step, rows - start)
                yield np.frombuffer(_exactly(stream, count * columns * dtype.itemsize), dtype).reshape(count, columns)
    except ARRAY_ERRORS as error:
        raise InputError(f"{title}: {name} is damaged: {one_line(error, 120)}; save it again") from error


def _exactly(stream: Any, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("it ends too early")
    return data
