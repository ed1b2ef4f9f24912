"""Detectors of a benchmark, each with a name and a way to compare two images; the baselines of paper 004's table 2.

The paper names methods, and of DINOv3 "the smallest, pooled"; it does not name the checkpoints of the others. The
names here are published ones of the usual size. Another checkpoint is given by its file with the method's name
behind it, as in ``resnet50@byol.safetensors=BYOL``, and then takes the row's place. A baseline that is not at hand
is listed with what the user can give to have it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from memorisk.images.file_hashes import content_fingerprints
from memorisk.models.encoders.feature_sources import refuse_missing_sources, split_name
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import fingerprint
from memorisk.runs.storage.locations import cache_folder
from memorisk.studies.engine.encoders import shown_name
from memorisk.studies.pairs.options import PairBenchOptions
from memorisk.training.detectors.pair_detectors import PairDetector, open_pair_detector

PIXELS, UNSUPERVISED, FOUNDATION, SPECIFIC = "Pixel-wise", "Unsupervised", "Foundation models", "Task-specific"


@dataclass(frozen=True)
class Baseline:
    """One row of table 2."""

    name: str
    """Name of the method, as the table has it."""
    section: str
    """Section of the table."""
    text: str | None = None
    """Source that computes it, as ``--detectors`` takes it; None where that is a file or folder only the user has."""
    hub: str | None = None
    """Place where its weights are published by name; None where none are needed or published."""
    give: str = ""
    """Advice on what to give to have it."""


def _network(name: str, network: str, tag: str) -> Baseline:
    """Return a network of timm's with published weights."""
    return Baseline(name, FOUNDATION, f"{network}@{tag}", f"timm/{network}.{tag}", f"{network}@FILE={name}")


TABLE_2 = (
    Baseline("MSE", PIXELS, "mse"),
    Baseline("NCC", PIXELS, "ncc"),
    Baseline("SSIM", PIXELS, "ssim"),
    Baseline("Random", UNSUPERVISED, "random"),
    Baseline(
        "Siamese + NT-Xent (no identities)", UNSUPERVISED,
        give="the folder of `memorisk train detector --kind siamese-ntxent` without identities, "
        "=Siamese + NT-Xent (no identities) behind it",
    ),
    Baseline("BYOL", FOUNDATION, give="resnet50@FILE=BYOL"),
    _network("CLIP", "vit_large_patch14_clip_224", "openai"),
    _network("ConvNeXt", "convnext_large", "fb_in22k_ft_in1k"),
    Baseline(
        "data2vec", FOUNDATION, "transformers:facebook/data2vec-vision-base@default", "facebook/data2vec-vision-base",
        "transformers:FOLDER=data2vec",
    ),
    _network("Inception", "inception_v3", "tv_in1k"),
    _network("MAE", "vit_large_patch16_224", "mae"),
    Baseline("SwAV", FOUNDATION, give="resnet50@FILE=SwAV"),
    _network("DINOv2", "vit_large_patch14_dinov2", "lvd142m"),
    _network("DINOv3", "vit_small_patch16_dinov3", "lvd1689m"),
    Baseline(
        "Siamese", SPECIFIC, give="the folder of `memorisk train detector --kind siamese`, =Siamese behind it"
    ),
    Baseline(
        "Siamese + NT-Xent", SPECIFIC,
        give="the folder of `memorisk train detector --kind siamese-ntxent`, =Siamese + NT-Xent behind it",
    ),
)  # fmt: skip
_SECTIONS = {baseline.name.lower(): baseline.section for baseline in TABLE_2}
_ORDER = (PIXELS, UNSUPERVISED, FOUNDATION, SPECIFIC)


def section_of(name: str, otherwise: str) -> str:
    """Return the section of table 2 that holds a method of this name.

    Args:
        name: Name of a detector.
        otherwise: Section where the table has no method of that name.
    """
    return _SECTIONS.get(name.lower(), otherwise)


def section_place(section: str) -> int:
    """Return the place of a section in the table."""
    return _ORDER.index(section)


def available_baselines(names: Iterable[str], *, download: bool) -> tuple[list[str], dict[str, str]]:
    """Return the baselines of table 2 that the user has not given already.

    Args:
        names: Names of the detectors that the user gave.
        download: Whether published weights may be fetched.

    Returns:
        Baselines at hand, as ``--detectors`` takes them, and advice on what to give for the others, by name.
    """
    lower_names = {name.lower() for name in names}
    texts, missing = [], {}
    for baseline in TABLE_2:
        if baseline.name.lower() in lower_names:
            continue
        if baseline.text is not None and (baseline.hub is None or download or _in_cache(baseline.hub)):
            texts.append(f"{baseline.text}={baseline.name}")
            continue
        fetched = f", or --download for {baseline.text}" if baseline.text else ""
        missing[baseline.name] = f"--detectors {baseline.give}{fetched}"
    return texts, missing


def _in_cache(repository: str) -> bool:
    """Return whether the hub's cache on this machine holds its weights."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repository, "model.safetensors"), str)


PIXEL_NAMES = {"mse": "MSE", "ncc": "NCC", "ssim": "SSIM"}
RANDOM = "random"
_RANDOM_SOURCE = "inception_v3@none"  # the paper's: an untrained Inception-v3
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class BenchmarkDetector:
    """A detector of the benchmark."""

    name: str
    """Name in the tables."""
    text: str
    """Text as the user typed it, without its name."""
    pixel: str | None
    """"mse", "ncc" or "ssim"; None where vectors are compared."""
    detector: PairDetector | None
    """Detector that computes and compares vectors; None for pixels."""

    @property
    def section(self) -> str:
        """Return the section of table 2 that the detector belongs to."""
        if self.pixel is not None:
            return PIXELS
        assert self.detector is not None
        if self.detector.detector is not None:
            return section_of(self.name, SPECIFIC)
        random = self.detector.source.weights == "none" or self.detector.source.kind in ("pixels", "pca")
        return section_of(self.name, UNSUPERVISED if random else FOUNDATION)

    @property
    def compares(self) -> str:
        """Describe how it compares images."""
        if self.pixel is not None:
            return {
                "mse": "minus the mean squared difference of pixels, on the scale of 8 bits",
                "ncc": "correlation of pixels",
                "ssim": "structural similarity of pixels, a Gaussian window of 11",
            }[self.pixel]
        assert self.detector is not None
        if self.detector.head is not None:
            return "logit of its head"
        if self.detector.measure in ("cosine", "correlation"):
            return f"{self.detector.measure} similarity of {self.detector.source.shown}"
        return f"minus the {self.detector.measure} distance of {self.detector.source.shown}"

    @property
    def has_head(self) -> bool:
        """Return whether it gives a probability."""
        return self.detector is not None and self.detector.head is not None

    def key(self, options: PairBenchOptions, device: str) -> str:
        """Return the key of everything that decides its scores: weights by their content, not by their path."""
        content: dict[str, Any] = {"format": _FORMAT, "measure": options.measure, "pixel": self.pixel}
        if self.detector is not None:
            source = self.detector.source
            content |= {
                "size": options.network_size,
                "precision": options.precision,
                "device": torch.device(device).type,
            }
            weights = (
                source.folder if source.kind in ("transformers", "detector", "saved") else Path(source.weights or "")
            )
            name = source.text.partition("@")[0] if source.kind == "network" else source.kind
            if source.weights and not weights.is_file():
                name = source.text
            held = _contents(weights, options)
            content |= {"name": name if held else source.text, "files": held, "domain": self.detector.domain}
        return fingerprint(content)


def _contents(path: Path, options: PairBenchOptions) -> list[list[str]]:
    """Return names and hashes of a file or of all files of a folder; an empty list where there is neither."""
    if str(path) in ("", "."):
        return []
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else []
    held = content_fingerprints([str(p) for p in files], cache_folder(options.store))
    return [[str(p.relative_to(path)) if path.is_dir() else "", held[str(p)]] for p in files]


def read_detector(named_text: str, *, measure: str = "auto") -> BenchmarkDetector:
    """Return a detector as it is named on the command line.

    Args:
        named_text: ``mse``, ``ncc``, ``ssim``, ``random``, a folder of a detector, or a source of features
            (`memorisk.models.encoders.feature_sources`); the text behind the last ``=`` is its name.
        measure: Distance of encoders; "auto" is cosine. Detectors have their own.

    Raises:
        InputError: The detector does not exist, or its files are damaged.
    """
    text, name = split_name(named_text)
    low = text.lower()
    if low in PIXEL_NAMES:
        return BenchmarkDetector(name or PIXEL_NAMES[low], low, low, None)
    if low == RANDOM:
        return BenchmarkDetector(name or "Random", low, None, open_pair_detector(_RANDOM_SOURCE, measure=measure))
    detector = open_pair_detector(text, measure="auto")
    if measure != "auto" and detector.detector is None:
        detector = open_pair_detector(text, measure=measure)
    return BenchmarkDetector(name or shown_name(detector.source), text, None, detector)


def read_detectors(options: PairBenchOptions) -> tuple[list[BenchmarkDetector], dict[str, str]]:
    """Return all detectors of a benchmark, and what to give to have the baselines that are not at hand.

    Args:
        options: Options of the benchmark.

    Raises:
        InputError: A detector cannot be opened, two have one name, or the reference is not among them.
    """
    refuse_missing_sources(options.detectors)
    detectors = [read_detector(text, measure=options.measure) for text in options.detectors]
    missing: dict[str, str] = {}
    if options.baselines == "table2":
        texts, missing = available_baselines([c.name for c in detectors], download=options.download)
        detectors += [read_detector(text, measure=options.measure) for text in texts]
    names = [c.name for c in detectors]
    for name in names:
        if [n.lower() for n in names].count(name.lower()) > 1:
            raise InputError(
                f"two detectors would be called {one_line(name, 80)} in the tables: name them, as in "
                "runs/a/detector=First runs/b/detector=Second"
            )
    if options.reference is not None and options.reference not in names:
        raise InputError(f"reference is {one_line(options.reference, 80)}; it must be one of {one_line(names, 200)}")
    return detectors, missing
