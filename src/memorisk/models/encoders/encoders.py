"""What features of an image are computed by, named in one string and read in this one place.

==================================  ===========================================================================
``resnet50@weights.safetensors``    a network by its name in `models.classifiers.specs` or timm (with or without
                                    ``timm:``), its weights a file, ``default`` or a timm tag (downloads), or ``none``
``transformers:FOLDER``             a network of the transformers library from a folder (``config.json``, safetensors);
                                    ``transformers:NAME@default`` downloads, ``transformers:FOLDER@none`` is random
``detector:FOLDER``                 a copy detector of memorisk's (`memorisk.models.detectors.detectors`): its embedding
``pixels``, ``pixels:32``           pixels in [0, 1], as they are stored or resized to 32 x 32
``pca:16``, ``pca:16:32``           16 principal components of those, fitted on reference images only;
                                    ``pca:16@FILE.npz`` applies what was fitted and saved before
``FILE.npy``, ``.npz``, ``.parquet``  numbers that are there already, matched to the images by id
==================================  ===========================================================================

Reading a string builds nothing, loads no library of networks where none is named, and touches no network.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memorisk.models.classifiers.specs import SPECS, ModelSpec, model_spec
from memorisk.models.classifiers.zoo import is_download
from memorisk.models.encoders.saved import is_feature_file
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.storage.mirror import local_source

Kind = Literal["network", "transformers", "detector", "pixels", "pca", "saved"]
RANDOM, DEFAULT = "none", "default"
_PREFIXES = ("timm", "transformers", "detector", "pixels", "pca")


@dataclass(frozen=True, kw_only=True)
class FeatureSource:
    """What features are computed by, as `parse_source` read it."""

    text: str
    """As it was typed."""
    kind: Kind
    """Who computes."""
    name: str
    """Of a network; the folder or name of one of transformers; the folder of a detector; the path of saved features;
    else the kind."""
    weights: str | None = None
    """A file, "default" or a tag to download, "none" for random ones; of PCA the file of a fit; None if not named."""
    side: int | None = None
    """Pixels a side that pixels are resized to; None as they are stored."""
    components: int | None = None
    """Principal components."""

    @property
    def shown(self) -> str:
        """As it may stand in a report: files and folders by their names, since a path may name people."""
        if self.kind == "saved":
            return Path(self.name).name
        if self.kind == "detector":
            return f"detector:{Path(self.name).resolve().name}"
        name = self.text if self.weights is None else self.text[: -len(self.weights) - 1]
        if self.kind == "transformers" and Path(self.name).is_dir():
            name = f"transformers:{Path(self.name).resolve().name}"
        return name if self.weights is None else f"{name}@{Path(self.weights).name}"


def parse_source(source: str | Path) -> FeatureSource:
    """Read what features are computed by.

    Args:
        source: As the table at the head of this module; a path is that of saved features.

    Raises:
        InputError: An unknown kind or name (the nearest is named), weights that are not there or not named, or numbers
            that are none or below 1.
    """
    text = str(source)
    prefix, colon, _ = text.partition(":")
    head = prefix.partition("@")[0]
    if head == "transformers" and colon:
        return _transformers(text)
    if head == "detector" and colon:
        folder = text.removeprefix("detector:")
        if not Path(folder).is_dir():
            raise InputError(f"there is no folder {one_line(folder)} of a detector")
        return FeatureSource(text=text, kind="detector", name=folder)
    if head in ("pixels", "pca"):
        return _pixels(text, head)
    if head != "timm" and is_feature_file(text) and ("@" not in text or Path(text).is_file()):
        if not Path(text).is_file():
            raise InputError(f"there is no feature file {one_line(text)}")
        return FeatureSource(text=text, kind="saved", name=text)
    name, at, weights = text.partition("@")
    if ":" in name and head != "timm":
        raise unknown_name("kind of features", one_line(head, 60), _PREFIXES)
    if not name.removeprefix("timm:"):
        raise InputError(f"features {one_line(text, 80)!r} name no network; as in timm:resnet50@default")
    _known_network(name)
    check_network(name, weights if at else None)
    return FeatureSource(text=text, kind="network", name=name, weights=weights)


def check_network(name: str, weights: str | Path | None) -> ModelSpec:
    """Refuse a network that does not exist or whose weights nobody named or are not there; nothing is built.

    Args:
        name: As for `memorisk.models.classifiers.specs.model_spec`.
        weights: A file, "default" or a tag to download, "none" for random ones; None where none are named.

    Returns:
        What is known of the network.

    Raises:
        InputError: It is such a network.
    """
    spec = model_spec(name)
    said = one_line(name, 60)
    if weights is None or weights == "":
        raise InputError(
            f"features of {said} need its pre-trained weights: {said}@FILE, {said}@default to download them, or "
            f"{said}@none for random ones"
        )
    if weights != RANDOM and not is_download(weights, spec) and not local_source(weights).is_file():
        raise InputError(f"there is no weights file {one_line(weights)} for {said}")
    return spec


def _known_network(name: str) -> None:
    try:
        model_spec(name)
    except InputError:
        if name.startswith("timm:") or "." in name:
            raise  # its own message is about the name or the tag
        import timm

        others = ["pixels", "pca:16", "transformers:FOLDER", "detector:FOLDER"]
        raise unknown_name("features", one_line(name, 60), [*others, *SPECS, *timm.list_models()]) from None


def _transformers(text: str) -> FeatureSource:
    rest = text.removeprefix("transformers:")
    name, at, weights = (rest, "", "") if Path(rest).is_dir() else rest.rpartition("@")
    if not at:
        name, weights = rest, ""
    if weights not in ("", DEFAULT, RANDOM):
        raise InputError(
            f"{one_line(text, 80)}: a folder of transformers holds its own weights; after @ may stand 'default' (the "
            "hub, by name) or 'none' (random ones)"
        )
    if not name:
        raise InputError("transformers: needs a folder with config.json and safetensors, or a name and @default")
    is_folder = Path(name).is_dir()
    if weights == DEFAULT and is_folder:
        raise InputError(f"transformers:{one_line(name, 60)} is a folder, which is not downloaded: leave @default out")
    if weights != DEFAULT and not is_folder:
        raise InputError(
            f"there is no folder {one_line(name, 60)}; transformers:{one_line(name, 60)}@default looks for this name "
            "on the hub"
        )
    return FeatureSource(text=text, kind="transformers", name=name, weights=weights or None)


def _pixels(text: str, kind: str) -> FeatureSource:
    """``pixels[:SIDE]`` or ``pca:K[:SIDE][@FILE]``."""
    said = one_line(text, 80)
    plain, at, weights = text.partition("@")
    numbers = plain.split(":")[1:]
    wanted = {"pixels": (0, 1), "pca": (1, 2)}[kind]
    if not wanted[0] <= len(numbers) <= wanted[1] or not all(n.isdecimal() and int(n) > 0 for n in numbers):
        form = "pixels or pixels:SIDE" if kind == "pixels" else "pca:K or pca:K:SIDE"
        raise InputError(f"features {said!r} are not of the form {form}, with whole numbers of at least 1")
    if kind == "pixels":
        if at:
            raise InputError(f"features {said!r}: pixels have no weights, leave out what follows @")
        side = int(numbers[0]) if numbers else None
        return FeatureSource(text=text, kind="pixels", name="pixels", side=side)
    if at and not Path(weights).is_file():
        raise InputError(f"there is no file {one_line(weights)} of a fitted PCA")
    return FeatureSource(
        text=text,
        kind="pca",
        name="pca",
        weights=weights if at else None,
        components=int(numbers[0]),
        side=int(numbers[1]) if len(numbers) > 1 else None,
    )
