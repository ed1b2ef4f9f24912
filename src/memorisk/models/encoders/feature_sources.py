"""Sources of features: one string names a network, pixels, or a file of features. It is read in this one place.

==================================  ===========================================================================
``resnet50@weights.safetensors``    a network by its name in `models.classifiers.specs` or timm (with or without
                                    ``timm:``), its weights a file, ``default``, a timm tag (downloads), or ``none``
``transformers:FOLDER``             a network of transformers from a folder (``config.json``, safetensors);
                                    ``transformers:NAME@default`` downloads, ``transformers:FOLDER@none`` is random
``default``                         the copy detector that comes with memorisk: its embedding
``default:views``, ``default:places``  the same of windows and turned views of each image
                                    (`memorisk.models.windows`), for crops, turned copies and pasted regions
``detector:FOLDER``                 a detector that memorisk trained (`memorisk.models.copy_detectors`)
``details``                         details of a 32 x 32 thumbnail without coarse shading (`images.copies.duplicates`)
``pixels``, ``pixels:32``           pixels in [0, 1], as they are stored or resized to 32 x 32
``pca:16``, ``pca:16:32``           16 principal components of those, fitted on reference images only;
                                    ``pca:16@FILE.npz`` applies what was fitted and saved before
``FILE.npy``, ``.npz``, ``.parquet``  existing numbers, matched to the images by id
==================================  ===========================================================================

Reading a string builds nothing, loads no library of networks where none is named, and touches no network.

A file of features has one row per image, in an array or a table: ``.npy`` [N, d]; ``.npz`` with one
array [N, d], or ``features``, and, to match by id, ``image``; ``.parquet`` with numeric columns and, to match by id, a
column ``image``. Without ids rows are those of the images in their order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from memorisk.images.copies.duplicates import SIDE
from memorisk.images.sources.places import refuse_missing
from memorisk.models.classifiers.specs import SPECS, ModelSpec, is_download, model_spec, names_file, timm_names
from memorisk.models.settings import DEFAULT_DETECTOR
from memorisk.runs.errors import ARRAY_ERRORS, InputError, listed, one_line, unknown_name
from memorisk.runs.files import check_characters, read_array, read_table
from memorisk.runs.size_limits import check_arrays
from memorisk.runs.storage.mirror import local_source
from memorisk.runs.user_code.plugins import Registry
from memorisk.scores.parts import PLACES, VIEWS, Comparison

SUFFIXES = (".npy", ".npz", ".parquet")
IMAGE, FEATURES, GROUP = "image", "features", "group"
RANDOM, DEFAULT, DETAILS = "none", "default", "details"
WEIGHTS_OTHERWISE = "weights are a file, default to download them, or none for random ones"
"""Way out of an error about weights that do not exist."""
DEFAULT_DETECTOR_FOLDER = Path(__file__).parents[1] / "default_detector"
"""Folder of the detector that comes with memorisk."""
_PREFIXES = ("timm", "transformers", "detector", "pixels", "pca")
ENCODERS: Registry[Any] = Registry("memorisk.encoders", dict.fromkeys(_PREFIXES), object)
"""Kinds of features by the prefix before the colon; those of other packages return an `Encoder`."""


@dataclass(frozen=True)
class SavedFeatures:
    """Features from a file, in the order of the requested images.

    Attributes:
        values: Features of the images, [N, d], of the type they are saved in.
        by_id: Whether rows were matched by id; else the file has none, and rows were taken in their order.
        left_over: Number of rows of the file that belong to none of the images.
    """

    values: np.ndarray
    by_id: bool
    left_over: int


def is_feature_file(name: str) -> bool:
    """Return whether a name of features is that of a file: by its suffix, so that a missing file is refused as such."""
    return name.lower().endswith(SUFFIXES)


def read_features(path: str | Path, images: np.ndarray) -> np.ndarray:
    """Read the features of a run's images from a file: the values of `read_saved`."""
    return read_saved(path, images, order="the run's order").values


def read_saved(path: str | Path, images: np.ndarray, *, order: str = "the order of the images") -> SavedFeatures:
    """Read the features of these images from a file.

    Args:
        path: Path of a ``.npy``, ``.npz`` or ``.parquet`` file; nothing in it is executed.
        images: Ids of the images, [N], in their order.
        order: Name of this order in the message about a file without ids that does not fit it.

    Returns:
        Features [N, d], rows in the order of ``images``; a ``.npy`` file stays on the disk.

    Raises:
        InputError: The file is missing, damaged or of another shape, or lacks images or names one twice.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"feature file {one_line(path)} does not exist")
    try:
        ids, values = _read(file)
    except ARRAY_ERRORS as error:
        raise InputError(f"features {one_line(path)} cannot be read: {one_line(error, 120)}") from None
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InputError(
            f"features {one_line(path)} are {values.dtype} of shape {values.shape}; needed are numbers, one row per "
            "image"
        )
    if ids is None:
        if len(values) != len(images):
            raise InputError(
                f"features {one_line(path)} have {len(values):,} rows for {len(images):,} images: give one row per "
                f"image in {order}, or a column 'image'"
            )
        return SavedFeatures(values, by_id=False, left_over=0)
    if len(ids) != len(values):
        raise InputError(f"features {one_line(path)} have {len(values):,} rows and {len(ids):,} ids")
    return SavedFeatures(values[_places(file, ids, images)], by_id=True, left_over=len(ids) - len(images))


def _places(file: Path, ids: np.ndarray, images: np.ndarray) -> np.ndarray:
    index = pd.Index(ids)
    if not index.is_unique:
        raise InputError(f"features {one_line(file)} name {one_line(index[index.duplicated()][0], 60)!r} twice")
    place = index.get_indexer(pd.Index(images.astype(str)))
    missing = images[place < 0]
    if len(missing):
        raise InputError(f"features {one_line(file)} lack {len(missing):,} images: {listed([str(m) for m in missing])}")
    return place


def _read(file: Path) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the ids (or None) and the values."""
    if file.suffix.lower() == ".npy":
        return None, read_array(file, mmap=True)
    if file.suffix.lower() == ".npz":
        check_arrays(file)
        with np.load(file, allow_pickle=False) as archive:
            names = [n for n in archive.files if n not in (IMAGE, GROUP)]
            if FEATURES not in names and len(names) != 1:
                raise ValueError(f"it holds {listed(names)}; one array is needed, or one called features")
            values = archive[FEATURES if FEATURES in names else names[0]]
            ids = archive[IMAGE] if IMAGE in archive.files else None
            if not isinstance(values, np.ndarray) or not isinstance(ids, np.ndarray | None):
                raise ValueError("a member of it is not an array")
            return (None if ids is None else check_characters(ids).astype(str)), values
    table = read_table(file)
    ids = table.pop(IMAGE).astype(str).to_numpy() if IMAGE in table else None
    text = [str(c) for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    if text:
        raise ValueError(f"column {listed(text)} holds no numbers; leave it out (ids belong in a column 'image')")
    return ids, table.to_numpy(dtype=np.float64)


SourceKind = Literal["network", "transformers", "detector", "pixels", "pca", "saved", "plugin"]


@dataclass(frozen=True, kw_only=True)
class FeatureSource:
    """Source of features, as `parse_source` reads it."""

    text: str
    """Text as the user typed it."""
    kind: SourceKind
    """Kind of source."""
    name: str
    """Name of a network; folder or name of one of transformers; folder of a detector, or "default"; path of saved
    features;
    else the kind."""
    weights: str | None = None
    """Weights: a file, "default" or a tag to download, "none" for random ones; for PCA the file of a fit; None if not
    named."""
    side: int | None = None
    """Side in pixels that pixels are resized to; None as they are stored."""
    components: int | None = None
    """Number of principal components."""
    parts: Comparison | None = None
    """Windows that are embedded and how they are compared; None for whole images."""
    as_copies: bool = False
    """Whether images are compared as copies of others alone, of which fewer windows are read."""

    @property
    def is_details(self) -> bool:
        """Return whether it gives details of thumbnails."""
        return self.kind == "pixels" and self.name == DETAILS

    @property
    def by_parts(self) -> bool:
        """Return whether vectors are compared by `memorisk.scores.parts`, whichever measure others have."""
        return self.is_details or self.parts is not None

    @property
    def comes_with_memorisk(self) -> bool:
        """Return whether it is the detector ``default``, which each machine has where memorisk is installed."""
        return self.kind == "detector" and self.text.partition(":")[0] == DEFAULT_DETECTOR

    @property
    def folder(self) -> Path:
        """Return the folder of a detector, or of a network of transformers."""
        return DEFAULT_DETECTOR_FOLDER if self.comes_with_memorisk else Path(self.name)

    @property
    def shown(self) -> str:
        """Return the name for a report: files and folders by their names alone, since a path may name people."""
        if self.kind == "saved":
            return Path(self.name).name
        if self.comes_with_memorisk:
            return self.text
        if self.kind == "detector":
            return f"detector:{Path(self.name).resolve().name}"
        name = self.text if self.weights is None else self.text[: -len(self.weights) - 1]
        if self.kind == "transformers" and Path(self.name).is_dir():
            name = f"transformers:{Path(self.name).resolve().name}"
        return name if self.weights is None else f"{name}@{Path(self.weights).name}"


def split_name(named_text: str) -> tuple[str, str]:
    """Split ``TEXT=NAME``; the name is empty where the text has none, or where what holds "=" is a path.

    Args:
        named_text: Encoder as the user named it.
    """
    text = named_text.strip()
    head, equals, tail = (part.strip() for part in named_text.rpartition("="))
    if not equals or not head or not tail or Path(named_text).exists() or Path(named_text.partition("@")[2]).is_file():
        return text, ""
    return head, tail


def refuse_missing_sources(named_texts: Iterable[str]) -> None:
    """Refuse sources of features whose files or folders do not exist, all of them in one line.

    Args:
        named_texts: Sources as the user named them, as for `split_name`.

    Raises:
        InputError: A file or folder does not exist.
    """
    refuse_missing(filter(None, map(_named_path, named_texts)), WEIGHTS_OTHERWISE)


def _named_path(named_text: str) -> str | None:
    """Return the file or folder that a source names by its form; None where it names none."""
    text = split_name(named_text)[0]
    head, at, weights = text.partition("@")
    if at and not Path(text).exists():
        return weights if weights and names_file(weights) else None
    kind, colon, rest = head.partition(":")
    if colon and kind in ("detector", "transformers"):
        return rest
    return text if is_feature_file(text) else None


def parse_source(source: str | Path, *, names_weights: bool = True) -> FeatureSource:
    """Read the source that computes features.

    Args:
        source: Name of the source, as in the table at the head of this module; a path is that of saved features.
        names_weights: Whether the source must name the weights of a network; False where another option does.

    Raises:
        InputError: A kind or name is unknown (the message names the nearest), weights are missing or not named, or
            numbers are not valid or below 1.
    """
    text = str(source)
    if text == DEFAULT_DETECTOR:
        return FeatureSource(text=text, kind="detector", name=text)
    prefix, colon, rest = text.partition(":")
    if text == DETAILS:
        return FeatureSource(text=text, kind="pixels", name=text, side=SIDE)
    if prefix == DEFAULT_DETECTOR and colon:
        if rest not in (VIEWS, PLACES):
            raise unknown_name("windows of the detector default", one_line(rest, 60), (VIEWS, PLACES))
        return FeatureSource(text=text, kind="detector", name=prefix, parts=VIEWS if rest == VIEWS else PLACES)
    head = prefix.partition("@")[0]
    if head == "transformers" and colon:
        return _transformers(text)
    if head == "detector" and colon:
        folder = text.removeprefix("detector:")
        if not Path(folder).is_dir():
            raise InputError(f"folder {one_line(folder)} of a detector does not exist")
        return FeatureSource(text=text, kind="detector", name=folder)
    if head in ("pixels", "pca"):
        return _pixels(text, head)
    if head != "timm" and is_feature_file(text) and ("@" not in text or Path(text).is_file()):
        if not Path(text).is_file():
            raise InputError(f"feature file {one_line(text)} does not exist")
        return FeatureSource(text=text, kind="saved", name=text)
    name, at, weights = text.partition("@")
    if head in ENCODERS.more:
        return FeatureSource(text=text, kind="plugin", name=head, weights=weights if at else None)
    if ":" in name and head != "timm":
        raise unknown_name("kind of features", one_line(head, 60), ENCODERS)
    if not name.removeprefix("timm:"):
        raise InputError(f"features {one_line(text, 80)!r} name no network; as in timm:resnet50@default")
    _known_network(name)
    check_network(name, weights if at else None if names_weights else "none")
    return FeatureSource(text=text, kind="network", name=name, weights=weights)


def check_network(name: str, weights: str | Path | None) -> ModelSpec:
    """Refuse a network that does not exist or whose weights are missing or not named; nothing is built.

    Args:
        name: Name of the network, as for `memorisk.models.classifiers.specs.model_spec`.
        weights: Weights: a file, "default" or a tag to download, "none" for random ones; None where none are named.

    Returns:
        Specification of the network.

    Raises:
        InputError: The network is such a one.
    """
    spec = model_spec(name)
    title = one_line(name, 60)
    if weights is None or weights == "":
        raise InputError(
            f"features of {title} need its pre-trained weights: {title}@FILE, {title}@default to download them, or "
            f"{title}@none for random ones"
        )
    if weights != RANDOM and not is_download(weights, spec) and not local_source(weights).is_file():
        raise InputError(f"weights file {one_line(weights)} for {title} does not exist")
    return spec


def check_feature_network(name: str, weights: str | Path | None) -> ModelSpec:
    """Refuse a network for features that does not exist or whose weights are not named; nothing is built.

    Args:
        name: Name of the network, as for `feature_network`.
        weights: File of its weights, ``default`` or ``none``.

    Raises:
        InputError: The network or weights file does not exist, or weights are not named.
    """
    if weights is None:
        check_network(name, "none")
        raise InputError(
            f"features of {one_line(name, 60)} need its pre-trained weights: name their file with --feature-weights, "
            "'default' to download them, or 'none' for random ones"
        )
    return check_network(name, weights)


def _known_network(name: str) -> None:
    try:
        model_spec(name)
    except InputError:
        if name.startswith("timm:") or "." in name:
            raise  # its own message is about the name or the tag
        others = [DEFAULT_DETECTOR, DETAILS, "pixels", "pca:16", "transformers:FOLDER", "detector:FOLDER"]
        raise unknown_name("features", one_line(name, 60), [*others, *SPECS, *sorted(timm_names().networks)]) from None


def _transformers(text: str) -> FeatureSource:
    rest = text.removeprefix("transformers:")
    name, at, weights = (rest, "", "") if Path(rest).is_dir() else rest.rpartition("@")
    if not at:
        name, weights = rest, ""
    if weights not in ("", DEFAULT, RANDOM):
        raise InputError(
            f"{one_line(text, 80)}: a folder of transformers holds its own weights; after @ give 'default' (the "
            "hub, by name) or 'none' (random ones)"
        )
    if not name:
        raise InputError("transformers: needs a folder with config.json and safetensors, or a name and @default")
    is_folder = Path(name).is_dir()
    if weights == DEFAULT and is_folder:
        raise InputError(f"transformers:{one_line(name, 60)} is a folder, which is not downloaded: leave @default out")
    if weights != DEFAULT and not is_folder:
        raise InputError(
            f"folder {one_line(name, 60)} does not exist; transformers:{one_line(name, 60)}@default looks for this "
            "name on the hub"
        )
    return FeatureSource(text=text, kind="transformers", name=name, weights=weights or None)


def _pixels(text: str, kind: str) -> FeatureSource:
    """Read ``pixels[:SIDE]`` or ``pca:K[:SIDE][@FILE]``."""
    title = one_line(text, 80)
    plain, at, weights = text.partition("@")
    numbers = plain.split(":")[1:]
    allowed = {"pixels": (0, 1), "pca": (1, 2)}[kind]
    if not allowed[0] <= len(numbers) <= allowed[1] or not all(n.isdecimal() and int(n) > 0 for n in numbers):
        form = "pixels or pixels:SIDE" if kind == "pixels" else "pca:K or pca:K:SIDE"
        raise InputError(f"features {title!r} are not of the form {form}, with whole numbers of at least 1")
    if kind == "pixels":
        if at:
            raise InputError(f"features {title!r}: pixels have no weights, leave out what follows @")
        side = int(numbers[0]) if numbers else None
        return FeatureSource(text=text, kind="pixels", name="pixels", side=side)
    if at and not Path(weights).is_file():
        raise InputError(f"file {one_line(weights)} of a fitted PCA does not exist")
    return FeatureSource(
        text=text,
        kind="pca",
        name="pca",
        weights=weights if at else None,
        components=int(numbers[0]),
        side=int(numbers[1]) if len(numbers) > 1 else None,
    )
