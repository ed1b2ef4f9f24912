"""What the loop of diffusion transformers needs in order to train a U-Net of a folder's configuration."""

import torch

from memorisk.images.columns import text
from memorisk.images.manifest import Manifest
from memorisk.images.store import ImageStore
from memorisk.models.generators.unet import UNetFolder
from memorisk.runs.errors import InputError, listed, one_line, unknown_name


def refuse_untrainable(unet: UNetFolder, shape: tuple[int, int, int]) -> None:
    """Refuse a configuration that the loop does not train as its own training did.

    Args:
        unet: Configuration of the folder.
        shape: Channels, height and width of the images.

    Raises:
        InputError: Its images have another shape, or it has dropout or a variance that is learnt in another way.
    """
    if unet.shape != shape:
        drawn, own = (" x ".join(map(str, of)) for of in (unet.shape, shape))
        raise InputError(
            f"U-Net {unet.name} draws {drawn} values, and these images have {own}: give --size and --channels of its "
            "training"
        )
    if unet.config.get("dropout"):
        raise InputError(
            f"U-Net {unet.name} has dropout, whose draws twins do not share: train them with your own --train, or name "
            "a copy of the folder with dropout 0 as --network"
        )
    outputs, variance = unet.config.get("out_channels", 3), unet.noise.get("variance_type", "fixed_small")
    prediction = unet.noise.get("prediction_type", "epsilon")
    learnt = variance == "learned_range" and prediction == "epsilon"
    if outputs != (2 if learnt else 1) * shape[0] or variance == "learned":
        raise InputError(
            f"U-Net {unet.name} has {outputs} output channels for {shape[0]} of the images, prediction_type "
            f"{one_line(prediction, 40)} and variance_type {one_line(variance, 40)}, which is not trained here: train "
            "twins with your own --train"
        )


def captions_of(manifest: Manifest, column: str) -> list[str]:
    """Return the caption of each image, [N]; the empty one where it is missing.

    Args:
        manifest: The images.
        column: Column of the captions.

    Raises:
        InputError: The column does not exist, or holds no caption.
    """
    table = manifest.table
    if column not in table:
        raise unknown_name("caption_column", one_line(column, 60), [str(name) for name in table.columns])
    captions = [text(value) for value in table[column]]
    if not any(captions):
        raise InputError(f"caption_column {one_line(column, 60)} holds no caption: name the column of the captions")
    return captions


def class_numbers(store: ImageStore, classes: tuple[str, ...]) -> torch.Tensor | None:
    """Return the number of each image's class, [N] int64; None for a network without classes.

    Args:
        store: The images; of several labels the first counts.
        classes: Names of the classes in the order of their numbers.

    Raises:
        InputError: An image has a class that the network does not know.
    """
    if not classes:
        return None
    number = {one: place for place, one in enumerate(classes)}
    first = [str(label).split("|")[0] for label in store.manifest.labels]
    unknown = next((label for label in first if label not in number), None)
    if unknown is not None:
        raise InputError(
            f"the U-Net has no class {one_line(unknown, 60)!r}, which the images have; its classes are "
            f"{listed(classes)}: label the images so, or name the classes by id2label in its model_index.json"
        )
    return torch.tensor([number[label] for label in first], dtype=torch.int64)
