"""A copy detector before its first step: the backbone's weights, a new linear layer, and how it will be trained."""

from dataclasses import dataclass, fields
from typing import Any

from memorisk.images.store import ImageStore
from memorisk.models.detectors.detectors import DetectorConfig, DetectorNetwork, new_network, open_backbone
from memorisk.models.encoders.networks import Encoder
from memorisk.runs.environment import versions
from memorisk.runs.errors import one_line
from memorisk.runs.files import plain
from memorisk.training.detectors.contrastive.options import DetectorOptions

DEPARTURES = (
    "Other images of a patient count as negatives, as in the published code.",
    "Batches are not shuffled, as in the published code: an image meets the same others in every epoch.",
    "The epoch was chosen by a loss whose positives are the very same images, as in the published code.",
    "While the backbone is frozen its normalisation statistics move and its dropout acts, as in the published code.",
)
"""What ``protocol="paper"`` takes over from the published code where the paper is silent."""


@dataclass(frozen=True)
class Start:
    """A detector before its first step."""

    network: DetectorNetwork
    encoder: Encoder
    config: DetectorConfig
    notes: tuple[str, ...]


def untrained(store: ImageStore, options: DetectorOptions) -> Start:
    """The detector that a training starts from: the backbone's weights, and a linear layer drawn from the seed.

    Args:
        store: The images.
        options: Of the training.

    Raises:
        InputError: The backbone cannot be had.
    """
    _, height, width, channels = (int(n) for n in store.images.shape)
    stored, books = (height, width, channels), store.folder.parent.parent
    encoder = open_backbone(
        options.backbone,
        stored,
        size=options.network_size,
        normalise=options.normalise,
        seed=options.seed,
        books=books if books.is_dir() else None,
    )
    trunk, loading = encoder.load()
    network = new_network(trunk, encoder.preprocessing, options.dimension, options.seed)
    config = DetectorConfig(
        kind="copy",
        backbone=encoder.name,
        weights=encoder.weights,
        weights_fingerprint=encoder.weights_fingerprint,
        preprocessing=encoder.preprocessing,
        stored=stored,
        depth=store.images.dtype.itemsize * 8,
        dimension=options.dimension,
        measure=options.measure,
        loss=options.loss,
        protocol=options.protocol,
        recipe=_recipe(options),
        departures=DEPARTURES if options.protocol == "paper" else (),
        best_epoch=0,
        data_hash=store.data_hash,
        groups_given=store.manifest.groups_given,
        versions=versions(),
    )
    weights = tuple(f"Weights of {encoder.name}: {one_line(note, 300)}." for note in loading)
    return Start(network, encoder, config, (*encoder.notes, *weights))


def frozen_throughout(options: DetectorOptions) -> tuple[str, ...]:
    """That the backbone is never trained, where no epoch is left for it."""
    if options.frozen_epochs < options.epochs:
        return ()
    return (
        f"The backbone stayed frozen: in the first {options.frozen_epochs:,} epochs the linear layer is trained alone, "
        f"and there were {options.epochs:,} in all. Set more epochs or fewer frozen_epochs to train the backbone.",
    )


def _recipe(options: DetectorOptions) -> dict[str, Any]:
    """Every setting but where and how often it is kept; weights by their name only."""
    left_out = ("backbone", "device", "checkpoint_seconds")
    given = {field.name: getattr(options, field.name) for field in fields(DetectorOptions)}
    recipe = {name: value for name, value in given.items() if name not in left_out}
    return plain(recipe | {"batch_size": options.images_a_step, "optimizer": "adamw", "decay": 0.99})
