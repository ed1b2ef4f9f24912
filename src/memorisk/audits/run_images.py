"""Pixels of a run's images by the ids that its report shows: while the run is made, and of a finished run.

A finished run is opened by ``memorisk view`` and by ``memorisk report --gallery``. No path comes from a request: a page
names a part of the run and a row of that part's own table. Where ids were replaced, the user's key finds the images;
without it they are not shown. For a run that was made with ``--redact`` the module gives no images.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.images.manifest import BUILTIN
from memorisk.images.options import ImageOptions, of_synthetic_images
from memorisk.images.pixels import PIXEL_HASH, PixelRule, Source, hash_pixels
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore
from memorisk.images.volumes import middle_slice
from memorisk.report.options import ReportOptions
from memorisk.report.stored_columns import Columns
from memorisk.runs.checksums import refuse_damaged, remove_recorded
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import read_table
from memorisk.runs.folder import RunFolder, is_hidden, restore_paths
from memorisk.runs.settings import written_settings

CLASSIFIED = "images"
"""Name of the one part of a run of ``audit classifier``."""
TRAIN, SYNTHETIC, HELD_OUT = "training", "synthetic", "held out"
"""Names of the parts that other runs compare."""
OTHER = "other real"
"""Name of the images in further parts of TRAIN, of which the pixels alone are compared."""
EXTRACTION, DRAWN = "extraction", "extraction/images"
"""Folders of an audit of a generator: its extraction, and the images that were drawn, which are its synthetic part."""
SOURCES: Mapping[str, str] = {TRAIN: "train", SYNTHETIC: "synthetic", HELD_OUT: "held_out"}
"""Setting that names the images of each compared part."""
CLASSIFIED_SOURCES: Mapping[str, str] = {CLASSIFIED: "images"}
_COLUMNS = ("path", "member", "frame")


def manifest_file(part: str) -> str:
    """Return the path of the manifest of a part within the run folder."""
    return "manifest.parquet" if part == CLASSIFIED else f"manifests/{part.replace(' ', '_')}.parquet"


def write_manifests(run: RunFolder, stores: Mapping[str, ImageStore | None], names: Pseudonyms) -> None:
    """Write the manifest of each part, with the hashes by which a finished run knows its images again.

    Args:
        run: Run folder.
        stores: Images of each part; the manifest of a part without images is removed.
        names: Pseudonyms of the run.
    """
    run.subfolder("manifests")
    for part, store in stores.items():
        path = run / manifest_file(part)
        if store is None:
            remove_recorded(path)
        else:
            names.manifest(store.hashed_manifest()).save(path)


class NamedImages(Protocol):
    """Images of one part of a run, by the ids that its report shows."""

    def pixels_of(self, name: str, *, whole: bool = False) -> np.ndarray:
        """Return the pixels [h, w, c] uint8 or uint16 of an id, as the audit compared them.

        Args:
            name: Id of the image.
            whole: Whether to return all voxels [H, W, D] of a volume; else its middle slice.
        """
        ...


Parts = Callable[[str], NamedImages]
"""Function that returns the images of a part."""


class StoredImages:
    """Images of a store, while a run is made.

    Args:
        store: Store with the pixels.
        names: Pseudonyms that the report is written with.
    """

    def __init__(self, store: ImageStore, names: Pseudonyms) -> None:
        self.store = store
        self._row = {str(name): row for row, name in enumerate(names.names(store.manifest.images))}

    def pixels_of(self, name: str, *, whole: bool = False) -> np.ndarray:
        """Return the pixels of an id, as `NamedImages.pixels_of`."""
        pixels = np.array(self.store.images[self._row[name]])
        return pixels if whole else middle_slice(pixels)


def parts_of(stores: Mapping[str, ImageStore], names: Pseudonyms) -> Parts:
    """Return the images of stores by part.

    Args:
        stores: Store of each part.
        names: Pseudonyms that the report is written with.
    """
    return lambda part: StoredImages(stores[part], names)


class PartImages:
    """Images of one part of a run: training, synthetic or held out.

    Args:
        table: Columns ``name``, the ids as the run writes them, the places of the images (``path``, and for some
            ``member`` and ``frame``), and where the run wrote them the hashes of their pixels.
        root: Folder that paths are relative to; None for built-in images.
        rule: Rule that decides their pixels.
        names: Pseudonyms of the run, by whose key the hashes of pixels are written, too.
    """

    def __init__(self, table: Columns, root: Path | None, rule: PixelRule, names: Pseudonyms) -> None:
        self.table, self.root, self.rule, self.names = table, root, rule, names

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

    def pixels(self, row: int, *, whole: bool = False) -> np.ndarray:
        """Read the pixels [h, w, c] uint8 or uint16, as the audit compared them.

        Args:
            row: Row of the image.
            whole: Whether to return all voxels [H, W, D] of a volume; else its middle slice.

        Raises:
            InputError: The image cannot be read, is no longer there, or is another one than the run compared.
        """
        try:
            pixels = self.rule.prepare(self.rule.read(self.source(row)))
        except OSError as error:
            raise InputError(f"the image cannot be read: {error.strerror or one_line(error, 80)}") from None
        recorded = self.table.text(PIXEL_HASH, row)
        if recorded and self.names.names([hash_pixels(pixels)])[0] != recorded:
            raise InputError("the image has changed since the run read it")
        return pixels if whole else middle_slice(pixels)

    def pixels_of(self, name: str, *, whole: bool = False) -> np.ndarray:
        """Return the pixels of an id, as `NamedImages.pixels_of`.

        Raises:
            InputError: As `pixels`.
        """
        row = self.row_of(name)
        if row is None:
            raise InputError(f"image {one_line(name)} is no longer among them")
        try:
            return self.pixels(row, whole=whole)
        except InputError as error:
            raise InputError(f"{one_line(self.file(row))}: {error}") from None


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
        if value is None and part == SYNTHETIC and (self.folder / DRAWN).is_dir():
            value = str((self.folder / DRAWN).absolute())
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
            ids = names.names(manifest.images)
            identity = identity.assign(name=ids, **{PIXEL_HASH: self._recorded_hashes(part, ids)})
            columns_and_root = Columns.of(identity), manifest.root
        return PartImages(*columns_and_root, PixelRule.of(options), names)

    def _recorded_hashes(self, part: str, ids: np.ndarray) -> list[str]:
        """Return the hashes of pixels that the run wrote of these ids; empty where it wrote none."""
        path = self.folder / manifest_file(part)
        if not path.is_file():
            return [""] * len(ids)
        refuse_damaged(path)
        table = read_table(path)
        recorded = dict(zip(table["image"], table[PIXEL_HASH], strict=True)) if PIXEL_HASH in table else {}
        return [str(recorded.get(name, "")) for name in ids]

    def _written(self, part: str, source: str, options: ImageOptions) -> tuple[Columns, Path] | None:
        """Return the manifest that the run wrote, where its files are known without reading the source again."""
        path = self.folder / manifest_file(part)
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
        return of_synthetic_images(options) if part == SYNTHETIC else options

    def _split(self, part: str) -> str | None:
        """Return the given split of TRAIN that a part is, where it is one."""
        held = self.config.get("held_out_split")
        if held is None:
            return None
        return {TRAIN: str(self.config.get("train_split") or "train"), HELD_OUT: str(held)}.get(part)

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
