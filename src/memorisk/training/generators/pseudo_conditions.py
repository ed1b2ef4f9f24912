"""The five conditionings of paper 004, table 3: one vector for each training image, which a generator learns from.

``label-noise``        c + e, e ~ N(0, sigma^2) drawn once for each image and kept; c is 0 and 1
``prediction``         p: sigmoid outputs of one classifier
``prediction-label``   (p, c)
``ensemble``           mean of p over the five classifiers
``ensemble-label``     (mean of p, c)

The paper does not name the classifier of ``prediction`` ("classifiers trained ... in a five-fold setup"). Here it is
the one that saw no image of the patient; protocol ``paper`` has one classifier for all images, four fifths of which it
was trained on: its outputs for those depend more on the images themselves. Of the five in an ensemble four saw the
image, in either protocol. The classifiers are measured on the patients they did not see, and on the others.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.images.store import ImageStore
from memorisk.models.generators.conditions import Conditions
from memorisk.runs.files import fingerprint, json_value, write_json
from memorisk.runs.settings import check_choice
from memorisk.runs.workload import Progress, no_progress
from memorisk.statistics.jackknife import JackknifeInterval, Scale, jackknife
from memorisk.statistics.roc import auc_jackknife
from memorisk.training.generators.fold_classifiers import FoldData, fold_data, fold_outputs
from memorisk.training.generators.options import CONDITIONINGS, FOLDS, Conditioning, PseudoOptions

_LISTED = 4


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of five classifiers on images with one label each; intervals over patients."""

    unseen: JackknifeInterval
    """Share of images answered right by the classifier that did not see the patient."""
    seen: JackknifeInterval
    """Same share for the four classifiers that were trained on the image."""
    gain: JackknifeInterval
    """Difference of ``unseen`` to the share of the commonest class, on the same images."""
    majority: float
    """Share of the commonest class."""
    n_images: int
    """Number of images measured."""


@dataclass(frozen=True, eq=False)
class FoldQuality:
    """Figures of five classifiers; patients are the units."""

    accuracy: Accuracy | None
    """Accuracy; None where images have several labels."""
    auc: dict[str, JackknifeInterval]
    """AUC of each class against the rest, on unseen images; a class whose positives all have one patient has the limits
    0 and 1."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Notes for the report, one sentence each."""
        notes = []
        if (figures := self.accuracy) is not None:
            notes.append(
                f"Accuracy of the classifiers on patients they did not see: {_percent(figures.unseen)}, of "
                f"{figures.n_images:,} images of {figures.unseen.n_groups:,} patients (95 % over patients); always "
                f"answering the commonest class: {100 * figures.majority:.1f} %; on images they were trained on: "
                f"{_percent(figures.seen)}."
            )
            if figures.gain.low <= 0:
                notes.append(
                    "Answering each image with its likeliest class, they are not surely right more often than the "
                    "commonest class alone would be."
                )
                if self.auc:
                    notes.append(
                        "AUC asks something else: whether images of a class get a higher probability of it than "
                        "others do. That can be so where the likeliest class hardly ever changes, and is what "
                        "conditions carry."
                    )
        aucs = sorted(self.auc.items(), key=lambda item: item[1].estimate)
        listed = ", ".join(f"{name} {_auc(figures)}" for name, figures in aucs[:_LISTED])
        more = f", the lowest {_LISTED} of {len(aucs)} classes" if len(aucs) > _LISTED else ""
        if aucs:
            notes.append(f"AUC on patients they did not see (95 % over patients){more}: {listed}.")
        return tuple(notes)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON holds them."""
        accuracy = None if self.accuracy is None else asdict(self.accuracy)
        return {"accuracy": accuracy, "auc_unseen": {name: asdict(auc) for name, auc in self.auc.items()}}


def fold_quality(data: FoldData, outputs: np.ndarray) -> FoldQuality:
    """Measure five classifiers.

    Args:
        data: Data that they were trained on.
        outputs: Outputs of the classifiers, [5, n, k].
    """
    rows = np.arange(len(data.rows))
    unseen = outputs[data.fold, rows]  # [n, k]
    truth = data.onehot > 0.5
    names = data.targets.classes[1:] if data.targets.head == "binary" else data.targets.classes
    auc = {}
    for column, name in enumerate(names):
        positive = truth[:, column]
        if positive.any() and not positive.all():
            sides = (unseen[positive, column], data.groups[positive], unseen[~positive, column], data.groups[~positive])
            auc[name] = auc_jackknife(*sides)
    return FoldQuality(None if data.several else _accuracy(data, outputs, truth), auc)


def _accuracy(data: FoldData, outputs: np.ndarray, truth: np.ndarray) -> Accuracy:
    """Estimate the share of right answers; ``truth`` [n, k]."""
    right = np.stack([_correct_answers(one, truth) for one in outputs])  # [5, n]
    unseen = right[data.fold, np.arange(len(data.rows))]
    trained = (right.sum(axis=0) - unseen) / (len(outputs) - 1)
    classes, counts = np.unique(data.labels, return_counts=True)
    commonest = (data.labels == classes[counts.argmax()]).astype(np.float64)
    return Accuracy(
        unseen=_mean(unseen, data.groups, "logit"),
        seen=_mean(trained, data.groups, "logit"),
        gain=_mean(unseen - commonest, data.groups, "difference"),
        majority=float(commonest.mean()),
        n_images=len(commonest),
    )


def _mean(values: np.ndarray, groups: np.ndarray, scale: Scale) -> JackknifeInterval:
    """Estimate the mean of [n] values, each patient left out in turn."""
    of = np.unique(groups, return_inverse=True)[1]
    count, total = np.bincount(of), np.bincount(of, values)
    deleted = (total.sum() - total) / (count.sum() - count)
    trials = len(count) if scale == "logit" else None
    return jackknife(float(values.mean()), deleted, np.zeros(len(count)), scale=scale, pairs=trials)


def _correct_answers(outputs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mark right answers, [n] float: 1 where the answer of [n, k] outputs is the class of the image."""
    if outputs.shape[1] == 1:
        return ((outputs[:, 0] > 0.5) == truth[:, 0]).astype(np.float64)
    return (outputs.argmax(axis=1) == truth.argmax(axis=1)).astype(np.float64)


def _percent(found: JackknifeInterval) -> str:
    return f"{100 * found.estimate:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f} %)"


def _auc(found: JackknifeInterval) -> str:
    return f"{found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})"


__all__ = ["CONDITIONINGS", "Conditions", "PseudoOptions", "pseudo_conditions"]
QUALITY = "classifiers.json"


def pseudo_conditions(
    store: ImageStore, rows: np.ndarray, options: Any, *, which: str, folder: Path, progress: Progress = no_progress
) -> Conditions:
    """Build one vector for each training image.

    Args:
        store: The images with their manifest.
        rows: Rows of the training images; an image that repeats has one condition.
        options: Settings, `PseudoOptions`, or those of a command that has some of these.
        which: Kind of the conditions, one of `CONDITIONINGS`.
        folder: Folder of the classifiers' outputs, for other conditionings of the same images, too.
        progress: Function called with (stage, done, total).

    Returns:
        Conditions with one row for each different image, in the order of the store.

    Raises:
        InputError: Settings are unknown, images have fewer than two classes, or patients are fewer than five.
        MemoriskError: A training failed; what is done is kept.
    """
    check_choice("conditioning", which, Conditioning)
    settings = PseudoOptions.of(options)
    data = fold_data(store, rows, None if which == "label-noise" else settings.seed)
    images = store.manifest.images[data.rows].astype(str)
    if which == "label-noise":
        values = data.onehot + settings.conditioning_noise * _noise(images, data.onehot.shape[1], settings.seed)
        notes = (
            f"Labels of 0 and 1 with normal noise of standard deviation {settings.conditioning_noise:g}, drawn once "
            "for each image; the paper does not give its own.",
        )
        return Conditions(values, images, data.labels, which, (*notes, _condition_names(data)))
    outputs = fold_outputs(data, settings, folder, progress)
    quality = fold_quality(data, outputs)
    write_json(folder / QUALITY, json_value(quality.as_dict()))
    values, note = _predict_conditions(which, outputs, data, settings)
    if which.endswith("-label"):
        values = np.concatenate([values, data.onehot], axis=1)
        note = f"{note} The label follows as 0 and 1."
    return Conditions(values, images, data.labels, which, (note, _condition_names(data), *quality.sentences))


def _predict_conditions(
    which: str, outputs: np.ndarray, data: FoldData, options: PseudoOptions
) -> tuple[np.ndarray, str]:
    """Choose the classifiers' outputs for each image, [n, k], and describe which classifiers gave them."""
    five = f"{FOLDS} classifiers ({options.conditioning_network}), each trained without one fold of the patients"
    if which.startswith("ensemble"):
        return outputs.mean(axis=0), f"The mean of {five}: all but one were trained on the image."
    if options.conditioning_protocol == "paper":
        return outputs[0], f"The first of {five}: it was trained on the images of the other folds (protocol paper)."
    return outputs[data.fold, np.arange(len(data.rows))], f"Of {five}, the one that saw none of the patient's images."


def _noise(images: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Draw standard normal noise, [n, k], each image's a function of the seed and its id alone."""
    drawn = [np.random.default_rng(int(fingerprint("label-noise", seed, name), 16)).normal(size=k) for name in images]
    return np.stack(drawn).astype(np.float32)


def _condition_names(data: FoldData) -> str:
    """Name the numbers of a condition."""
    if data.targets.head == "binary":
        return f"One number: {data.targets.classes[1]} against {data.targets.classes[0]}."
    return f"A number each of {', '.join(data.targets.classes)}."
