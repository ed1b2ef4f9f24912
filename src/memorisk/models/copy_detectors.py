"""Detectors of copies: the network of paper 003, its folder on the disk, and its embedding as features.

A detector gives alike images nearly the same numbers. This module has the copy detector of paper 003, equation 1:
``h(x) = g(f(x))``, a backbone f up to its head and one linear layer g to 128. Siamese detectors over latents are in
`memorisk.models.lcmem`; `load_detector` opens either. `memorisk.models.provenance` describes their folders.

``detector:FOLDER`` names a detector as a source of features, ``default`` the one that comes with memorisk, in
``models/default_detector``. The features of a Siamese detector are those that its head compares, always in float32:
in bfloat16 they would keep three digits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.classifiers.zoo import create_model, seeded
from memorisk.models.encoders.feature_sources import (
    DEFAULT_DETECTOR_FOLDER,
    RANDOM,
    FeatureSource,
    parse_source,
)
from memorisk.models.encoders.networks import (
    Encoder,
    StoredShape,
    Trunk,
    check_channels,
    open_encoder,
    preparation,
    size_notes,
)
from memorisk.models.network_parts import head_names
from memorisk.models.provenance import (
    EARLIER,
    ORIGIN,
    WEIGHTS,
    DetectorConfig,
    SeenImages,
    TrainingRecord,
    copy_tensors,
    join_seen,
    match_seen,
    read_config,
    read_seen,
    read_training_record,
    save_detector,
)
from memorisk.models.settings import COPY_DETECTOR, DEFAULT_DETECTOR
from memorisk.models.weight_files import read_state_dict
from memorisk.models.windows import WindowedNetwork, source_grid
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import file_fingerprint
from memorisk.scores.distances import Neighbours, fit_measure, nearest

if TYPE_CHECKING:
    from memorisk.models.lcmem import LatentDetector

DIMENSION = 128
_PIXELS_PER_BATCH = 1 << 22
_LARGEST_BATCH = 256
_CODE = 1  # part of the identity: a change of what a detector computes makes new features


class DetectorNetwork(nn.Module):
    """A backbone up to its head, and a linear layer.

    Args:
        trunk: Backbone from [b, C, h, w] to [b, d].
        projection: Linear layer from [b, d] to the embedding.
    """

    def __init__(self, trunk: nn.Module, projection: nn.Linear) -> None:
        super().__init__()
        self.trunk = trunk
        self.projection = projection

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [b, C, h, w] normalised to [b, 128]."""
        return self.projection(self.trunk(x))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return its live parameters and buffers by name, without those of the backbone's unused head."""
        inner = getattr(self.trunk, "network", None)
        heads = () if inner is None else tuple(f"trunk.network.{name}." for name in head_names(inner))
        return {name: t for name, t in self.state_dict().items() if not (heads and name.startswith(heads))}

    def trained(self) -> Iterator[nn.Parameter]:
        """Return the parameters that a training moves, those of the backbone first."""
        names = self.tensors()
        return (parameter for name, parameter in self.named_parameters() if name in names)


class SourceSearch(ABC):
    """Search for the most likely sources of images, which all detectors have."""

    @property
    @abstractmethod
    def compared_by(self) -> str:
        """Return the measure of its embeddings, by its name in `memorisk.scores.distances`."""

    @abstractmethod
    def embed(self, images: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None) -> np.ndarray:
        """Embed images, [N, d]."""

    def nearest(
        self, queries: np.ndarray, references: np.ndarray, k: int = 1, *, device: str = "auto", batch: int | None = None
    ) -> Neighbours:
        """Search the most likely sources of images among others: the nearest by the detector's measure.

        The measure is fitted on the references alone. A head, where there is one, is not used.

        Args:
            queries: Images whose sources are searched, [Q, H, W, C] uint8 or uint16, of any size.
            references: Images that may be sources, [N, h, w, c], of any size.
            k: Number of sources of each query.
            device: Device that embeds; "auto" is a GPU where there is one.
            batch: Number of images at a time.

        Returns:
            Neighbours with ``indices`` [Q, k], rows of the references, nearest first, and ``distances`` [Q, k]; -1 and
            inf where
            there are fewer than k references.

        Raises:
            InputError: As `embed` and `memorisk.scores.distances.fit_measure`; or k is below 1.
        """
        query_features, reference_features = (
            self.embed(images, device=device, batch=batch) for images in (queries, references)
        )
        return nearest(query_features, reference_features, fit_measure(self.compared_by, reference_features), k)


@dataclass(frozen=True, eq=False)
class Detector(SourceSearch):
    """A copy detector, ready for use."""

    network: DetectorNetwork
    """Network in evaluation mode."""
    config: DetectorConfig
    """Configuration of the detector."""
    seen: pd.DataFrame
    """Table with ``part, pixel_hash, group_hash`` of each image that it was trained or chosen on."""
    earlier: TrainingRecord | None = None
    """Record of the detector that it began with; None where it began with none, or that one has seen no image."""

    def embed(self, images: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None) -> np.ndarray:
        """Embed images, float32 throughout; the embeddings are not normalised to length 1.

        Args:
            images: Images, uint8 or uint16 [N, H, W, C] of any size: they are resized to the network's.
            device: Device that computes; "auto" is a GPU where there is one.
            batch: Number of images at a time.

        Returns:
            Embeddings of the images, [N, 128] float32.

        Raises:
            InputError: The input holds no images, or colours for a network of grey ones.
        """
        config = self.config
        return embed_images(
            self.network, images, config.preprocessing, config.dimension, config.backbone, device=device, batch=batch
        )

    @property
    def compared_by(self) -> str:
        """Return the measure of its configuration."""
        return self.config.measure

    def seen_parts(self, store: ImageStore) -> SeenImages:
        """Return which images of a store, or whose patients' other images, this detector was trained or chosen on.

        Images are compared by pixels where they are stored as the detector's were, and always by patient (images
        without a
        known patient by their own id).

        Args:
            store: Store of the images.
        """
        return join_seen(match_seen(self.config, self.seen, store), self.earlier, store)

    @property
    def training_record(self) -> TrainingRecord | None:
        """Return the record of its images, here and earlier, for a network that begins with it; None without images."""
        how = self.config
        if self.seen.empty and self.earlier is None:
            return None
        return TrainingRecord(self.seen, how.data_hash, how.stored, how.depth, how.groups_given, self.earlier)

    @property
    def head(self) -> None:
        """Return None: it compares by the measure that its configuration names."""
        return None

    @property
    def calibration(self) -> None:
        """Return None: a copy detector is not calibrated."""
        return None

    def save(self, folder: str | Path) -> None:
        """Write the detector to a folder, private and atomic, the configuration last."""
        save_detector(folder, self.network.tensors(), self.seen, self.config, self.earlier)


def embed_images(
    network: nn.Module,
    images: np.ndarray,
    preprocessing: Preprocessing,
    dimension: int,
    name: str,
    *,
    device: str | torch.device = "auto",
    batch: int | None = None,
) -> np.ndarray:
    """Compute vectors of images by any network, float32 throughout.

    Args:
        network: Network from prepared pixels [b, C, h, w] to [b, d]; it is moved to the device.
        images: Images, uint8 or uint16 [N, H, W, C] of any size.
        preprocessing: Preprocessing of the network's input.
        dimension: Length d of a vector.
        name: Name of the network in messages.
        device: Device that computes; "auto" is a GPU where there is one.
        batch: Number of images at a time.

    Returns:
        Vectors of the images, [N, d] float32.

    Raises:
        InputError: Images are of another type or shape, or in colours for a network of grey ones.
    """
    if not hasattr(images, "ndim"):
        raise InputError(f"images are a {type(images).__name__}; needed is an array [N, H, W, C] (numpy.stack)")
    if images.ndim != 4 or images.shape[3] not in (1, 3) or images.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"images are {images.dtype} {images.shape}; needed are uint8 or uint16 [N, H, W, C], C 1 or 3 (grey "
            "images get it by images[..., None]; a fourth channel, transparency, is left out by images[..., :3])"
        )
    height, width = preprocessing.size
    check_channels(name, images.shape[1:], preprocessing.channels)
    where, top = check_device(device), float(np.iinfo(images.dtype).max)
    size = batch or max(1, min(_LARGEST_BATCH, _PIXELS_PER_BATCH // (height * width)))
    prepare = preparation(preprocessing, where, torch.float32)
    network.to(where).eval()
    vectors = np.empty((len(images), dimension), np.float32)
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with torch.inference_mode(), exact:
        for start in range(0, len(images), size):
            raw = torch.from_numpy(np.array(images[start : start + size])).to(where)
            x = raw.to(torch.float32).div_(top).movedim(-1, 1)
            vectors[start : start + size] = network(prepare(x)).cpu().numpy()
    return vectors


def open_backbone(
    text: str,
    stored: StoredShape,
    *,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    books: Path | None = None,
) -> Encoder:
    """Open the backbone that a user names, for images of one stored shape; nothing is built yet.

    Args:
        text: Name of a network and its weights, as in ``resnet50@FILE``, ``squeezenet1_1_caffe@FILE``,
            ``resnet50@default`` (downloads) or ``resnet50@none`` (random).
        stored: Height, width and channels of the images.
        size: Side in pixels of the network's input; by default that of its training, for memorisk's own the stored one.
        normalise: Normalisation as for `memorisk.models.blackbox.preprocessing.preprocessing_from`, where it is not the
            published one.
        seed: Random seed of random weights.
        books: Cache folder that remembers hashes of weights.

    Raises:
        InputError: The text names no network, or the network cannot be opened.
    """
    source = parse_source(text)
    if source.kind != "network":
        raise InputError(
            f"a detector's backbone is a network of timm or memorisk with its weights, as in resnet50@FILE; "
            f"{one_line(source.shown, 60)} is none (CLIP and DINOv2 are timm's vit_base_patch16_clip_224 and "
            "vit_small_patch14_dinov2)"
        )
    return open_encoder(source, stored, size=size, normalise=normalise, seed=seed, books=books)


def new_network(trunk: nn.Module, preprocessing: Preprocessing, dimension: int, seed: int) -> DetectorNetwork:
    """Extend a backbone by a new linear layer, drawn from a seed by torch's own rule.

    Args:
        trunk: Backbone from [b, C, h, w] to features [b, d]; it is not copied.
        preprocessing: Preprocessing of its input.
        dimension: Length of an embedding.
        seed: Random seed of the layer.

    Raises:
        InputError: The backbone gives no features of such images.
    """
    trunk.eval()
    x = torch.zeros(2, preprocessing.channels, *preprocessing.size)
    try:
        with torch.inference_mode():
            features = trunk(x)
    except (RuntimeError, AttributeError, AssertionError, TypeError, ValueError) as error:
        raise InputError(
            f"the backbone gives no features of images {list(x.shape[1:])}: {one_line(error, 160)}"
        ) from None
    if features.ndim != 2:
        raise InputError(f"the backbone gives features of shape {list(features.shape)}; needed is a vector an image")
    with seeded(seed):
        network = DetectorNetwork(trunk, nn.Linear(features.shape[1], dimension))
    network.requires_grad_(False)
    for parameter in network.trained():
        parameter.requires_grad_(True)
    return network


def load_detector(folder: str | Path) -> "Detector | LatentDetector":
    """Load a detector from its folder, every tensor matched by name and shape. Nothing is downloaded.

    Args:
        folder: Folder that `Detector.save` or ``memorisk train detector`` wrote; or the word ``default``, the copy
            detector that comes with memorisk. A folder of that name is ``./default`` or a `Path`.

    Raises:
        InputError: The detector does not exist, or its files are damaged, incomplete or of another kind.

    Example:
        >>> import numpy as np
        >>> images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
        >>> load_detector("default").nearest(images // 2, images).indices[:, 0].tolist()
        [0, 1, 2]
    """
    path = DEFAULT_DETECTOR_FOLDER if folder == DEFAULT_DETECTOR else Path(folder)
    config = read_config(path)
    if config.kind != COPY_DETECTOR:
        from memorisk.models.lcmem import load_latent_detector

        return load_latent_detector(path)
    channels, size = config.preprocessing.channels, max(config.preprocessing.size)
    bare = create_model(config.backbone, num_classes=2, in_chans=channels, image_size=size, weights=RANDOM, seed=0)
    network = new_network(Trunk(bare), config.preprocessing, config.dimension, 0)
    copy_tensors(network.tensors(), read_state_dict(path / WEIGHTS), path)
    return Detector(network.eval(), config, read_seen(path), _read_earlier(path) if config.earlier else None)


def _read_earlier(folder: Path) -> TrainingRecord:
    """Read the record of the detector that this one began with.

    Raises:
        InputError: The record is missing or damaged.
    """
    record = read_training_record(folder / EARLIER)
    if record is None:
        raise InputError(f"{one_line(folder)} holds no whole detector: there is no {EARLIER}/{ORIGIN} in it")
    return record


def open_detector(source: FeatureSource, stored: StoredShape, *, size: int | None, normalise: str | None) -> Encoder:
    """Open the encoder of a detector, whose folder has all settings; it is loaded only when used.

    Args:
        source: Source of kind "detector".
        stored: Height, width and channels of the images.
        size: Side in pixels, which must be None: the detector has its own.
        normalise: Normalisation, which must be None: the detector has its own.

    Raises:
        InputError: The folder holds no detector, the caller sets another size or normalisation, or the images are
        colours for a
        detector of grey ones.
    """
    if size is not None or normalise is not None:
        raise InputError(f"{source.shown}: a detector has its own size and normalisation; leave them out")
    folder = source.folder
    config = read_config(folder)
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"{one_line(folder)} holds no whole detector: there is no {WEIGHTS} in it")
    preprocessing, latents = config.preprocessing, _latents(folder, config)
    check_channels(source.shown, stored, preprocessing.channels)
    content = file_fingerprint(folder / WEIGHTS)
    made_for = preprocessing.size[0] if preprocessing.size[0] == preprocessing.size[1] else None
    grid = source_grid(source.parts, source.as_copies)
    what = config.loss if latents is None else f"{config.kind}, {config.loss}"

    @cache
    def load() -> tuple[nn.Module, Sequence[str]]:
        """Load the detector's network."""
        network = load_detector(folder).network
        return network if grid is None else WindowedNetwork(network, grid), ()

    if config.published:
        name = DEFAULT_DETECTOR if source.comes_with_memorisk else source.shown  # whichever windows it compares
        notes = [published_sentence(name, config.published)]
    else:
        notes = [f"{source.shown} was trained by {what} ({config.protocol} protocol) from {config.backbone}."]
    notes += config.departures
    if stored != config.stored and not config.published:
        trained, here = (" x ".join(map(str, shape)) for shape in (config.stored, stored))
        notes.append(f"Its training images were stored as {trained}, these are {here}.")
    return Encoder(
        name=f"{source.shown} ({config.backbone}, {what})",
        weights=(
            f"version {config.published['version']}"
            if config.published
            else f"{config.backbone} from {config.weights}, epoch {config.best_epoch}"
        ),
        state="trained",
        preprocessing=preprocessing,
        identity={
            "code": _CODE,
            "architecture": f"detector of {config.backbone}",
            "library": dict(config.versions).get("timm", ""),
            "weights": content,
            "preprocessing": preprocessing.describe(),
            "torch": str(torch.__version__),
            **({} if latents is None else {"latents": latents}),
            **({} if grid is None else {"windows": grid.describe()}),
        },
        weights_fingerprint=content,
        load=load,
        mixed=latents is None,
        notes=(*notes, *size_notes(stored, preprocessing.size, made_for, trained=True)),
    )


def published_sentence(name: str, published: Mapping[str, str]) -> str:
    """Describe a published detector, and the people in its training images.

    Args:
        name: Name of the detector.
        published: Entry ``published`` of its `DetectorConfig`.
    """
    return (
        f"{name} is the copy detector that comes with memorisk (version {published['version']}, "
        f"{published['licence']}), trained on {published['data']}."
    )


def _latents(folder: Path, config: DetectorConfig) -> dict[str, Any] | None:
    """Describe what a Siamese detector's latents depend on; None for a detector that looks at pixels by itself."""
    if config.kind == COPY_DETECTOR:
        return None
    from memorisk.models.latents import load_encoder
    from memorisk.models.lcmem import ENCODER

    return dict(load_encoder(folder / ENCODER).identity)
