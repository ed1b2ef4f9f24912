"""The pixels of a run's images, by part and row; and small pictures of them, kept in the run folder.

No path comes from a request: a page names a part of the run and a row of that part's own table. Where ids were
replaced, the user's key finds the images; without it they are not shown. For a run that was made with ``--redact`` the
module gives no images.
"""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.manifest import BUILTIN
from memorisk.images.options import ImageOptions, of_synthetic_images
from memorisk.images.pixels import PixelRule, Source
from memorisk.images.sources.registry import load_manifest
from memorisk.report.options import ReportOptions
from memorisk.runs.checksums import is_intact, refuse_damaged
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint, write_bytes
from memorisk.runs.folder import is_hidden, restore_paths
from memorisk.runs.locks import ANSWERS_LOCK, folder_lock
from memorisk.runs.settings import written_settings
from memorisk.view.columns import Columns

CACHE = "thumbnails"
"""Name of the folder of small pictures in a run folder, for its owner alone."""
CLASSIFIED = "images"
"""Name of the one part of a run of ``audit classifier``."""
THUMBNAIL_SIDE = 160
_COLUMNS = ("path", "member", "frame")
_WIDEST = 1600  # largest side of a picture in a page, in pixels; a larger image is shrunk


class PartImages:
    """Images of one part of a run: training, synthetic or held out.

    Args:
        table: Columns ``name``, the ids as the run writes them, and the places of the images: ``path``, and for some
            ``member`` and ``frame``.
        root: Folder that paths are relative to; None for built-in images.
        rule: Rule that decides their pixels.
    """

    def __init__(self, table: Columns, root: Path | None, rule: PixelRule) -> None:
        self.table, self.root, self.rule = table, root, rule

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.table)

    def row_of(self, name: str) -> int | None:
        """Return the row of an id; None where no row has it."""
        return self.table.row_of("name", name)

    def name(self, row: int) -> str:
        """Return the id of a row."""
        return self.table.text("name", row)

    def file(self, row: int) -> str:
        """Return the file of a row."""
        path = self.table.text("path", row)
        return path if self.root is None or path.startswith(BUILTIN) else str(self.root / path)

    def source(self, row: int) -> Source:
        """Return the place of the pixels of a row."""
        frame = self.table.text("frame", row)
        return Source(self.file(row), self.table.text("member", row) or None, int(float(frame)) if frame else None)

    def pixels(self, row: int) -> np.ndarray:
        """Read the pixels [h, w, c] uint8 or uint16, as the audit compared them.

        Raises:
            InputError: The image cannot be read, or is no longer there.
        """
        try:
            return self.rule.prepare(self.rule.read(self.source(row)))
        except OSError as error:
            raise InputError(f"the image cannot be read: {error.strerror or one_line(error, 80)}") from None


class RunImages:
    """Images of a run, each part of which is opened on its first use.

    Args:
        folder: Path of the run folder.
        config: Settings of the run, with paths restored.
        sources: Setting that names the images of each part, as in ``{"training": "train"}``.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], sources: Mapping[str, str]) -> None:
        self.folder, self.config, self.sources = folder, config, sources
        self.allowed = not config.get("redact")
        self._parts: dict[str, PartImages | str] = {}
        self._swept = False

    def part(self, part: str) -> PartImages:
        """Return the images of a part.

        Raises:
            InputError: The images may not be shown, or are not found.
        """
        if not self.allowed:
            raise InputError("this run was made with --redact: it shows no images")
        if part not in self._parts:
            try:
                self._parts[part] = self._open(part)
            except InputError as error:
                self._parts[part] = str(error)
        images = self._parts[part]
        if isinstance(images, str):
            raise InputError(images)
        return images

    def reason(self, part: str) -> str:
        """Return why the images of a part are not shown; empty where they are."""
        try:
            self.part(part)
        except InputError as error:
            return str(error)
        return ""

    def row(self, part: str, name: str) -> int | None:
        """Return the row of an id; None where it is unknown or nothing may be shown."""
        try:
            return self.part(part).row_of(name)
        except InputError:
            return None

    def thumbnail(self, part: str, row: int) -> bytes:
        """Return a small PNG, from the cache or made now.

        Raises:
            InputError: The same errors as `PartImages.pixels`.
        """
        images = self.part(part)
        name = fingerprint(self.config.get("run"), part, images.name(row), THUMBNAIL_SIDE, length=20)
        path = self.folder / CACHE / f"{name}.png"
        if is_intact(path):
            return path.read_bytes()
        picture = png(images.pixels(row), side=THUMBNAIL_SIDE)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with folder_lock(self.folder, name=ANSWERS_LOCK, wait=True):
                if not self._swept:
                    self._swept = True
                    for partial in path.parent.glob(".*.part"):  # by a viewer that was killed
                        partial.unlink(missing_ok=True)
                write_bytes(path, picture, recorded=True)
        except OSError:  # a full or a read-only disk: it is made again next time
            pass
        return picture

    def _open(self, part: str) -> PartImages:
        """Open a part.

        Raises:
            InputError: The part is not found.
        """
        setting = self.sources.get(part)
        value = None if setting is None else self.config.get(setting)
        options = self._options(part)
        split = self._split(part)
        if value is None and split is not None:
            value = self.config.get("train")
        if value is None:
            raise InputError(f"the run names no {part} images")
        if is_hidden(value):
            raise InputError(
                "the run was pseudonymised: its images are shown only on the machine and to the user that made it"
            )
        source = self._located(str(value))
        names = Pseudonyms.from_options(ReportOptions(**written_settings(ReportOptions, self.config)))
        columns_and_root = self._written(part, source, options) if names.key is None else None
        if columns_and_root is None:
            manifest = load_manifest(source, options)
            if split is not None and manifest.splits is not None:
                manifest = manifest.subset(manifest.splits == split)
            identity = manifest.table[[name for name in _COLUMNS if name in manifest.table]]
            columns_and_root = Columns.of(identity.assign(name=names.names(manifest.images))), manifest.root
        return PartImages(*columns_and_root, PixelRule.of(options))

    def _written(self, part: str, source: str, options: ImageOptions) -> tuple[Columns, Path] | None:
        """Return the manifest that the run wrote, where its files are known without reading the source again."""
        path = self.folder / (
            "manifest.parquet" if part == CLASSIFIED else f"manifests/{part.replace(' ', '_')}.parquet"
        )
        place = Path(source)
        if not path.is_file() or not (place.exists() or source == "digits"):
            return None
        refuse_damaged(path)
        root = options.image_root or (place if place.is_dir() else place.parent)
        table = Columns(path, names={"name": "image"})
        if not len(table) or "path" not in table or "name" not in table:
            return None
        first = table.text("path", 0)
        return (table, root) if first.startswith(BUILTIN) or (root / first).exists() else None

    def _options(self, part: str) -> ImageOptions:
        options = ImageOptions(**written_settings(ImageOptions, self.config))
        beside = {name: getattr(options, name) for name in ("image_root", "labels_csv")}
        located = {name: Path(self._located(str(path))) for name, path in beside.items() if path is not None}
        options = replace(options, **located)
        return of_synthetic_images(options) if part == "synthetic" else options

    def _split(self, part: str) -> str | None:
        """Return the given split of TRAIN that a part is, where it is one."""
        held = self.config.get("held_out_split")
        if held is None:
            return None
        return {"training": str(self.config.get("train_split") or "train"), "held out": str(held)}.get(part)

    def _located(self, source: str) -> str:
        """Return a source as it is found from here: paths of a run are relative to where its command was issued."""
        if Path(source).is_absolute() or Path(source).exists():
            return source
        out = Path(str(restore_paths({"out": self.config.get("out", "")})["out"]))
        if not out.is_absolute() and self.folder.parts[-len(out.parts) :] == out.parts:
            place = Path(*self.folder.parts[: len(self.folder.parts) - len(out.parts)]) / source
            if place.exists():
                return str(place)
        return source


def png(pixels: np.ndarray, *, side: int = _WIDEST) -> bytes:
    """Encode an image as PNG, shrunk to a side where it is larger; 16 bits from its darkest to its brightest value."""
    array = np.asarray(pixels)
    if array.dtype != np.uint8:
        low, high = float(array.min()), float(array.max())
        array = np.rint((array.astype(np.float64) - low) * (255 / max(high - low, 1))).astype(np.uint8)
    image = Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()
