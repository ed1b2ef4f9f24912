"""A detector: a network that gives alike images nearly the same numbers, and its folder on the disk.

The copy detector of paper 003, equation 1, is here: ``h(x) = g(f(x))``, a backbone f up to its head and one linear
layer g to 128. Siamese detectors over latents are in `memorisk.models.lcmem`; `load_detector` opens either.

A folder holds ``weights.safetensors``, ``detector.json`` (how it was made, and how pixels reach it) and
``seen.parquet``: hashes of the images and patients that it was trained and chosen on, which say whether an audit may
use it (METHODS section 5: a detector must have been trained on neither the training nor the held-out images of the
generator, or on both alike). No id, no path, no pixel is in it; the hashes of patients are keyed by the data set, but
short ids can be tried one by one, so treat a detector as confidential as its training data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.detector_kinds import COPY, KINDS
from memorisk.models.features import RANDOM, parse_source
from memorisk.models.features_encoders import Encoder, Stored, Trunk, check_channels, open_encoder
from memorisk.models.parts import head_names
from memorisk.models.preparation import preparation
from memorisk.models.preprocessing import Preprocessing
from memorisk.models.weights import read_state_dict
from memorisk.models.zoo import create_model, seeded
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line, unknown_name
from memorisk.runs.files import atomic_path, plain, read_json, read_table, write_json, write_table
from memorisk.runs.fingerprint import fingerprint

if TYPE_CHECKING:
    from memorisk.models.lcmem import LatentDetector

DIMENSION = 128
CONFIG, WEIGHTS, SEEN = "detector.json", "weights.safetensors", "seen.parquet"
_PIXELS_PER_BATCH = 1 << 22
_LARGEST_BATCH = 256
_LISTED = 3


class DetectorNetwork(nn.Module):
    """A backbone up to its head, and a linear layer.

    Args:
        trunk: From [b, C, h, w] to [b, d].
        projection: From [b, d] to the embedding.
    """

    def __init__(self, trunk: nn.Module, projection: nn.Linear) -> None:
        super().__init__()
        self.trunk = trunk
        self.projection = projection

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, h, w] normalised to [b, 128]."""
        return self.projection(self.trunk(x))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Its live parameters and buffers by name, without those of the backbone's own head, which has no part."""
        inner = getattr(self.trunk, "network", None)
        heads = () if inner is None else tuple(f"trunk.network.{name}." for name in head_names(inner))
        return {name: t for name, t in self.state_dict().items() if not (heads and name.startswith(heads))}

    def trained(self) -> Iterator[nn.Parameter]:
        """The parameters that a training moves, those of the backbone first."""
        names = self.tensors()
        return (parameter for name, parameter in self.named_parameters() if name in names)


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """What ``detector.json`` says."""

    kind: str
    """One of `KINDS`."""
    backbone: str
    """The network, as `memorisk.models.specs` or timm names it."""
    weights: str
    """What it started from, named for what it is: a file's name, a tag, or that it was random."""
    weights_fingerprint: str
    """Of these weights."""
    preprocessing: Preprocessing
    """Of its input."""
    stored: tuple[int, int, int]
    """Height, width and channels that its training images were stored in: hashes of other sizes do not compare."""
    depth: int
    """Bits a pixel of them."""
    dimension: int
    """Numbers of an embedding."""
    measure: str
    """The distance that its loss is about, by its name in `memorisk.scores.distances`."""
    loss: str
    """"triplet" or "infonce"; of the Siamese kinds "bce", "ntxent" or "bce + ntxent"."""
    protocol: str
    """"paper" or "corrected"."""
    recipe: Mapping[str, Any]
    """Every setting of its training, seeds among them."""
    departures: tuple[str, ...]
    """Where the training is not as METHODS has it, a sentence each: the published code's own ways."""
    best_epoch: int
    """Whose weights these are; 0 for a detector that was not trained."""
    data_hash: str
    """Of the store it was trained from."""
    groups_given: bool
    """Whether it was known whose each image is."""
    versions: Mapping[str, str]
    """Of the libraries."""


@dataclass(frozen=True)
class Seen:
    """Which images of a set a detector has seen."""

    part: np.ndarray
    """[N] of str: "training", "validation" (chose its epoch), or "" for images and patients that it never met."""
    pixels_compared: bool
    """Whether images could be compared by their pixels; else only their patients' ids were."""


@dataclass(frozen=True, eq=False)
class Detector:
    """A copy detector, ready to be asked."""

    network: DetectorNetwork
    """In evaluation mode."""
    config: DetectorConfig
    """How it was made."""
    seen: pd.DataFrame
    """``part, pixel_hash, group_hash`` of each image that it was trained or chosen on."""

    def embed(self, images: np.ndarray, *, device: str | torch.device = "auto", batch: int | None = None) -> np.ndarray:
        """The embedding of images, float32 throughout; not normalised to length 1.

        Args:
            images: uint8 or uint16 [N, H, W, C] of any size: they are resized to the network's.
            device: Where to compute; "auto" is a GPU where there is one.
            batch: Images at a time.

        Returns:
            [N, 128] float32.

        Raises:
            InputError: No images, or colours for a network of grey ones.
        """
        config = self.config
        return embed_images(
            self.network, images, config.preprocessing, config.dimension, config.backbone, device=device, batch=batch
        )

    def seen_parts(self, store: ImageStore) -> Seen:
        """Which images of a store, or other images of whose patients, this detector was trained or chosen on.

        Images are compared by pixels where they are stored as the detector's were, and always by patient (images of no
        known patient by their own id).

        Args:
            store: The images.
        """
        return seen_parts(self.config, self.seen, store)

    @property
    def head(self) -> None:
        """None: it compares by the measure that its configuration names."""
        return None

    @property
    def calibration(self) -> None:
        """None."""
        return None

    def save(self, folder: str | Path) -> None:
        """Write the detector to a folder, private and atomic, the configuration last."""
        save_detector(folder, self.network.tensors(), self.seen, self.config)


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
    """Vectors of images by any network, float32 throughout.

    Args:
        network: From prepared pixels [b, C, h, w] to [b, d]; moved to the device.
        images: uint8 or uint16 [N, H, W, C] of any size.
        preprocessing: Of the network.
        dimension: d.
        name: What the network is called where it does not take the images.
        device: Where to compute; "auto" is a GPU where there is one.
        batch: Images at a time.

    Returns:
        [N, d] float32.

    Raises:
        InputError: No images, or colours for a network of grey ones.
    """
    if images.ndim != 4 or images.dtype not in (np.uint8, np.uint16):
        raise InputError(f"images are {images.dtype} {images.shape}; needed are uint8 or uint16 [N, H, W, C]")
    height, width = preprocessing.size
    check_channels(name, images.shape[1:], preprocessing.channels)
    where, top = check_device(device), float(np.iinfo(images.dtype).max)
    size = batch or max(1, min(_LARGEST_BATCH, _PIXELS_PER_BATCH // (height * width)))
    prepare = preparation(preprocessing, where, torch.float32)
    network.to(where).eval()
    found = np.empty((len(images), dimension), np.float32)
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with torch.inference_mode(), exact:
        for start in range(0, len(images), size):
            raw = torch.from_numpy(np.array(images[start : start + size])).to(where)
            x = raw.to(torch.float32).div_(top).movedim(-1, 1)
            found[start : start + size] = network(prepare(x)).cpu().numpy()
    return found


def seen_parts(config: DetectorConfig, seen: pd.DataFrame, store: ImageStore) -> Seen:
    """Which images of a store a detector met.

    Args:
        config: Of the detector.
        seen: ``part, pixel_hash, group_hash`` of each image that it was trained or chosen on.
        store: The images.
    """
    alike = tuple(store.images.shape[1:]) == config.stored
    alike &= store.images.dtype.itemsize * 8 == config.depth
    groups = group_hashes(store.manifest.groups, config.data_hash)
    part = np.full(len(groups), "", dtype=object)
    for name in ("validation", "training"):  # an image that was both counts as trained on
        known = seen.loc[seen["part"] == name]
        met = np.isin(groups, known["group_hash"].tolist())
        if alike:
            met |= np.isin(store.pixel_hashes.astype(str), known["pixel_hash"].tolist())
        part[met] = name
    return Seen(part, alike)


def save_detector(
    folder: str | Path, tensors: Mapping[str, torch.Tensor], seen: pd.DataFrame, config: DetectorConfig
) -> None:
    """Write weights, hashes and configuration to a folder, private and atomic, the configuration last.

    Args:
        folder: Made if it is not there.
        tensors: Of the network, by name.
        seen: As for `seen_parts`.
        config: Of the detector.
    """
    target = Path(folder)
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain_tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    with atomic_path(target / WEIGHTS) as temporary:
        save_file(plain_tensors, temporary)
    write_table(target / SEEN, seen)
    write_json(target / CONFIG, {"format": 1, **plain(asdict(config))})


def group_hashes(groups: np.ndarray, key: str) -> np.ndarray:
    """[N] hashes of patients' ids, keyed so that two data sets do not share them.

    Args:
        groups: [N] str.
        key: Of the data set.
    """
    names, index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    return np.array([fingerprint(key, name, length=32) for name in names], dtype=object)[index]


def open_backbone(
    text: str,
    stored: Stored,
    *,
    size: int | None = None,
    normalise: str | None = None,
    seed: int = 0,
    books: Path | None = None,
) -> Encoder:
    """The backbone that a user names, for images of one stored shape; nothing is built yet.

    Args:
        text: A network and its weights, as in ``resnet50@FILE``, ``squeezenet1_1_caffe@FILE``, ``resnet50@default``
            (downloads) or ``resnet50@none`` (random).
        stored: Height, width and channels of the images.
        size: Pixels a side that the network gets; by default what it was trained at, for memorisk's own what is stored.
        normalise: As for `memorisk.models.preprocessing.preprocessing_from`, where it is not the published one.
        seed: Of random weights.
        books: Cache folder where hashes of weights are remembered.

    Raises:
        InputError: It is no network by name, or it cannot be had.
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
    """A backbone with a new linear layer, drawn from a seed by torch's own rule.

    Args:
        trunk: From [b, C, h, w] to features [b, d]; it is not copied.
        preprocessing: Of its input.
        dimension: Numbers of an embedding.
        seed: Of the layer.

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
    """A detector from its folder, every tensor matched by name and shape. Nothing is downloaded.

    Args:
        folder: What `Detector.save` or ``memorisk train detector`` wrote.

    Raises:
        InputError: There is none, or its files are damaged, incomplete or of another kind.
    """
    path = Path(folder)
    config = read_config(path)
    if config.kind != COPY:
        from memorisk.models.lcmem import load_latent_detector

        return load_latent_detector(path)
    channels, size = config.preprocessing.channels, max(config.preprocessing.size)
    bare = create_model(config.backbone, num_classes=2, in_chans=channels, image_size=size, weights=RANDOM, seed=0)
    network = new_network(Trunk(bare), config.preprocessing, config.dimension, 0)
    put_tensors(network.tensors(), read_state_dict(path / WEIGHTS), path)
    return Detector(network.eval(), config, read_seen(path))


def read_seen(folder: Path) -> pd.DataFrame:
    """``part, pixel_hash, group_hash`` of each image that a detector was trained or chosen on.

    Raises:
        InputError: The file is missing or damaged.
    """
    try:
        return read_table(folder / SEEN).loc[:, ["part", "pixel_hash", "group_hash"]]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{one_line(folder / SEEN)} cannot be read: {one_line(error, 120)}") from None


def read_config(folder: Path) -> DetectorConfig:
    """What ``detector.json`` says; of a Siamese detector a `memorisk.models.lcmem.LatentConfig`.

    Raises:
        InputError: There is none, or it is of another kind or form.
    """
    file = folder / CONFIG
    if not file.is_file():
        raise InputError(f"{one_line(folder)} holds no detector: there is no {CONFIG} in it")
    try:
        found = read_json(file)
        kind = found["kind"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{one_line(file)} is no description of a detector: {one_line(error, 120)}") from None
    if kind not in KINDS:
        raise unknown_name("kind of detector", kind, KINDS)
    form = _form(kind)
    names = [field.name for field in fields(form)]
    absent = [name for name in names if name not in found]
    if absent or found.get("format") != 1:
        what = f"it lacks {', '.join(absent)}" if absent else f"its format is {found.get('format')}"
        raise InputError(f"{one_line(file)} is not of this version of memorisk: {what}")
    how = found["preprocessing"]
    try:
        preprocessing = Preprocessing(tuple(how["size"]), how["channels"], tuple(how["mean"]), tuple(how["std"]))
        given: dict[str, Any] = {name: tuple(v) if isinstance(v := found[name], list) else v for name in names}
        given["preprocessing"] = preprocessing
        return form(**given)
    except (KeyError, TypeError) as error:
        raise InputError(f"{one_line(file)} is damaged: {one_line(error, 120)}") from None


def _form(kind: str) -> type[DetectorConfig]:
    """What the configuration of a kind holds."""
    if kind == COPY:
        return DetectorConfig
    from memorisk.models.lcmem import LatentConfig

    return LatentConfig


def put_tensors(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Copy tensors into a network's if every one is there, fits and is finite.

    Args:
        wanted: The live tensors by name.
        found: What a file holds.
        folder: Of the file, for the message.

    Raises:
        InputError: They do not.
    """
    wrong = [f"{name} is missing" for name in wanted if name not in found]
    wrong += [f"{name} is unknown" for name in found if name not in wanted]
    both = [name for name in wanted if name in found]
    wrong += [
        f"{n} is {list(found[n].shape)}, not {list(wanted[n].shape)}" for n in both if found[n].shape != wanted[n].shape
    ]
    wrong += [f"{n} is not finite" for n in both if not torch.isfinite(found[n]).all()]
    if wrong:
        more = f"; {len(wrong)} in all" if len(wrong) > _LISTED else ""
        raise InputError(f"{one_line(folder / WEIGHTS)} does not fit its {CONFIG}: {'; '.join(wrong[:_LISTED])}{more}")
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(found[name])
