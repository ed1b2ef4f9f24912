"""The five conditionings of paper 004, table 3: a vector of each training image, which a generator learns from.

``label-noise``        c + e, e ~ N(0, sigma^2) drawn once for each image and kept; c is 0 and 1
``prediction``         p: sigmoid outputs of one classifier
``prediction-label``   (p, c)
``ensemble``           mean of p over the five classifiers
``ensemble-label``     (mean of p, c)

Which classifier ``prediction`` is, the paper does not say ("classifiers trained ... in a five-fold setup"). Here it is
the one that saw no image of the patient; protocol ``paper`` has one classifier for all images, four fifths of which it
was trained on: what it says of those holds more of the images themselves. Of the five in an ensemble four saw the
image, whatever the protocol.
"""

from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.runs.errors import unknown_name
from memorisk.runs.files import plain, write_json
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.progress import Progress, quiet
from memorisk.training.generators.conditions.folds import FoldData, fold_data, fold_outputs
from memorisk.training.generators.conditions.options import CONDITIONINGS, FOLDS, PseudoOptions
from memorisk.training.generators.conditions.quality import fold_quality

__all__ = ["CONDITIONINGS", "Conditions", "PseudoOptions", "pseudo_conditions"]
QUALITY = "classifiers.json"


def pseudo_conditions(
    store: ImageStore, rows: np.ndarray, options: Any, *, which: str, folder: Path, progress: Progress = quiet
) -> Conditions:
    """A vector of each training image.

    Args:
        store: The images.
        rows: Of the training images; an image that repeats has one condition.
        options: `PseudoOptions`, or settings of a command that has some of these.
        which: One of `CONDITIONINGS`.
        folder: Where the classifiers leave their outputs, for other conditionings of the same images, too.
        progress: Called with (stage, done, total).

    Returns:
        A row a different image, in the order of the store.

    Raises:
        InputError: Unknown settings, images without two classes, or fewer than five patients.
        MemoriskError: A training broke; what is done is kept.
    """
    if which not in CONDITIONINGS:
        raise unknown_name("conditioning", which, CONDITIONINGS)
    given = PseudoOptions.of(options)
    data = fold_data(store, rows, None if which == "label-noise" else given.seed)
    images = store.manifest.images[data.rows].astype(str)
    if which == "label-noise":
        values = data.onehot + given.conditioning_noise * _noise(images, data.onehot.shape[1], given.seed)
        notes = (
            f"Labels of 0 and 1 with normal noise of standard deviation {given.conditioning_noise:g}, drawn once for "
            "each image; the paper does not give its own.",
        )
        return Conditions(values, images, data.labels, which, (*notes, _named(data)))
    outputs = fold_outputs(data, given, folder, progress)
    quality = fold_quality(data, outputs)
    write_json(folder / QUALITY, plain(quality.as_dict()))
    values, said = _predicted(which, outputs, data, given)
    if which.endswith("-label"):
        values = np.concatenate([values, data.onehot], axis=1)
        said = f"{said} The label follows as 0 and 1."
    return Conditions(values, images, data.labels, which, (said, _named(data), *quality.sentences))


def _predicted(which: str, outputs: np.ndarray, data: FoldData, options: PseudoOptions) -> tuple[np.ndarray, str]:
    """[n, k] what classifiers say of each image, and whose word it is."""
    five = f"{FOLDS} classifiers ({options.conditioning_network}), each trained without one fold of the patients"
    if which.startswith("ensemble"):
        return outputs.mean(axis=0), f"The mean of {five}: all but one were trained on the image."
    if options.conditioning_protocol == "paper":
        return outputs[0], f"The first of {five}: it was trained on the images of the other folds (protocol paper)."
    return outputs[data.fold, np.arange(len(data.rows))], f"Of {five}, the one that saw none of the patient's images."


def _noise(images: np.ndarray, k: int, seed: int) -> np.ndarray:
    """[n, k] standard normal, each image's a function of the seed and its id alone."""
    drawn = [np.random.default_rng(int(fingerprint("label-noise", seed, name), 16)).normal(size=k) for name in images]
    return np.stack(drawn).astype(np.float32)


def _named(data: FoldData) -> str:
    """What the numbers of a condition are about."""
    if data.targets.head == "binary":
        return f"One number: {data.targets.classes[1]} against {data.targets.classes[0]}."
    return f"A number each of {', '.join(data.targets.classes)}."
