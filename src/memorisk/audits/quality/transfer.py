"""Train on synthetic, test on real: the trainings of ``memorisk quality --classifier``.

For each seed one network is trained on synthetic images and one on as many real ones (all of the smaller set, a
random part of the larger one), by the same recipe, and both predict the held-out real images. A training that is done
leaves its scores in ``classifiers/``; the same command continues with the next.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
import torch

from memorisk.audits.comparison.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.quality.options import QualityOptions
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import auto_model, model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, MemoriskError, listed
from memorisk.runs.files import file_fingerprint, fingerprint, put_back, put_in_order, read_array, write_array
from memorisk.runs.workload import Cost, Progress, total
from memorisk.statistics.quality.transfer import TransferFigure, balanced_accuracy, compare_training, mean_auc
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.joint_jobs import fit_cost
from memorisk.training.engine.data import training_labels
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import Normalisation, choose_normalisation
from memorisk.training.engine.predict import predict_logits

FOLDER = "classifiers"
ARMS = ("synthetic", "real")


@dataclass(frozen=True, eq=False)
class TransferData:
    """Images and targets of the trainings and of their test."""

    stores: dict[str, ImageStore]
    """Images by arm."""
    rows: dict[str, np.ndarray]
    """Rows of the images of each arm's training, as many of both."""
    targets: dict[str, np.ndarray]
    """Numbers of the classes, for all images of each arm's store."""
    held: ImageStore
    held_targets: np.ndarray
    classes: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]
    """Classes of the real images that no image of an arm's training has, by arm."""


def prepare_transfer(sets: Sets, seed: int) -> TransferData:
    """Number the labels of the three sets, and choose as many training images on both sides.

    Args:
        sets: Images with a held-out set.
        seed: Seed of the draw of the part of the larger set.

    Raises:
        InputError: A set has no labels, several to an image, labels that training images do not have, or one label to
            all images of a training.
    """
    assert sets.held is not None
    parts = {"synthetic": sets.synthetic, "real": sets.train, "held-out": sets.held}
    labels = {}
    for what, store in parts.items():
        labels[what] = np.asarray(training_labels(store.manifest, "single")).astype(str)
        if n := int((labels[what] == "").sum()):
            raise InputError(
                f"{n:,} of {len(labels[what]):,} {what} images have no label, which a classifier needs: give folders "
                "of classes, or a table with the column label"
            )
    classes = tuple(sorted(set(labels["real"])))
    if len(classes) < 2:
        raise InputError("all training images have the same label: a classifier needs two")
    for what in ("synthetic", "held-out"):
        if unknown := sorted(set(labels[what]) - set(classes)):
            raise InputError(f"{what} images have labels that no training image has: {listed(unknown)}")
    number = {name: i for i, name in enumerate(classes)}
    targets = {what: np.array([number[v] for v in names], dtype=np.int64) for what, names in labels.items()}
    n = min(len(targets[arm]) for arm in ARMS)
    rng = np.random.default_rng(seed)
    rows = {arm: np.sort(rng.choice(len(targets[arm]), n, replace=False)) for arm in ARMS}
    missing = {}
    for arm in ARMS:
        there = set(labels[arm][rows[arm]])
        if len(there) < 2:
            raise InputError(
                f"all {n:,} {arm} images to train on have the label {listed(sorted(there))}: a classifier needs two; "
                "give images of more classes, or leave the classifier out"
            )
        missing[arm] = tuple(sorted(set(classes) - there))
    stores = {arm: parts[arm] for arm in ARMS}
    return TransferData(stores, rows, targets, sets.held, targets["held-out"], classes, missing)


def run_transfer(data: TransferData, options: QualityOptions, folder: Path, progress: Progress) -> pd.DataFrame:
    """Train the networks that are not trained yet, and compare them.

    Args:
        data: Data of `prepare_transfer`.
        options: Settings with network, epochs and seeds.
        folder: Folder in which scores are kept.
        progress: Called with (stage, done, total).

    Returns:
        One row per measure: ``measure``, and estimate, low and high of ``synthetic``, ``real`` and ``difference``,
        ``n_train``, ``n_test``, ``n_patients``, ``n_trainings``, ``classifier``; of each arm ``missing_ARM``, the
        classes that it was not shown, in words, and ``one_answer_ARM``, how many of its trainings answer one class for
        every image.

    Raises:
        MemoriskError: A training failed; those that are done are kept.
    """
    name = _network(data, options)
    seeds = range(options.seed, options.seed + options.classifier_seeds)
    scores: dict[str, list[np.ndarray]] = {arm: [] for arm in ARMS}
    done = 0
    for arm in ARMS:
        for seed in seeds:
            progress(f"training on {arm} images", done, 2 * len(seeds))
            scores[arm].append(_trained_scores(data, arm, seed, name, options, folder))
            done += 1
    progress("training", done, 2 * len(seeds))
    patients = data.held.manifest.groups.astype(str)
    rows = []
    for measure, of in (("balanced accuracy", balanced_accuracy), ("AUC", mean_auc)):
        outcome = compare_training(
            np.stack(scores["synthetic"]), np.stack(scores["real"]), data.held_targets, patients, of,
            level=options.level,
        )  # fmt: skip
        rows.append(
            {
                "measure": measure,
                **_describe("synthetic", outcome.synthetic),
                **_describe("real", outcome.real),
                **_describe("difference", outcome.difference),
                "n_train": len(data.rows["real"]),
                "n_test": len(data.held_targets),
                "n_patients": len(np.unique(patients)),
                "n_trainings": len(seeds),
                "classifier": name,
                **{f"missing_{arm}": listed(data.missing[arm]) if data.missing[arm] else "" for arm in ARMS},
                **{f"one_answer_{arm}": sum(_one_answer(outcome) for outcome in scores[arm]) for arm in ARMS},
            }
        )
    return pd.DataFrame(rows)


def transfer_cost(data: TransferData, options: QualityOptions) -> Cost:
    """Count the work of all trainings, finished ones too: of both arms, each predicting the held-out images."""
    spec = model_spec(_network(data, options))
    train = resolve_options(TrainOptions(epochs=options.classifier_epochs, batch_size=options.batch_size), spec)
    fitted = total([fit_cost(len(data.rows[arm]), train) for arm in ARMS])
    n_queries, scores = len(ARMS) * len(data.held.images), len(data.classes) * np.dtype(np.float64).itemsize
    return (fitted + Cost(images_passed=n_queries, bytes_outputs=n_queries * scores)) * options.classifier_seeds


def check_transfer(data: TransferData, options: QualityOptions) -> None:
    """Refuse a network that does not exist or whose weights cannot be found, before anything is written.

    Raises:
        InputError: The network is unknown, or its weights cannot be found.
    """
    name = _network(data, options)
    _new_job(data, name, options, options.seed)


def _network(data: TransferData, options: QualityOptions) -> str:
    name = options.classifier or "auto"
    return auto_model(int(data.held.images.shape[1])) if name == "auto" else name


def _new_job(data: TransferData, name: str, options: QualityOptions, seed: int) -> torch.nn.Module:
    _, height, _, channels = data.held.images.shape
    return create_model(
        name,
        num_classes=len(data.classes),
        in_chans=int(channels),
        image_size=int(height),
        weights=options.classifier_weights,
        seed=seed,
    )


def _trained_scores(
    data: TransferData, arm: str, seed: int, name: str, options: QualityOptions, folder: Path
) -> np.ndarray:
    """Return [n, k] probabilities of the held-out images by one network; from its file where it was trained before."""
    spec, store, rows = model_spec(name), data.stores[arm], data.rows[arm]
    train = resolve_options(TrainOptions(epochs=options.classifier_epochs, batch_size=options.batch_size), spec)
    normalisation = _normalisation(data, name)
    images = (store.pixel_hashes[rows].tolist(), data.held.pixel_hashes.tolist())
    weights = options.classifier_weights
    weights = file_fingerprint(weights) if weights and Path(weights).is_file() else weights
    how = (repr(train), repr(normalisation), weights, options.threads)
    key = fingerprint(name, seed, *images, data.targets[arm][rows], how)
    order = Pseudonyms.from_options(options).order(data.held.manifest.images)
    key = key if order is None else fingerprint(key, order)
    file = folder / f"{arm}-{seed}-{key}.npy"
    if is_intact(file):
        return put_back(read_array(file), order, axis=0)
    device, checkpoint = check_device(options.device), folder / f"{arm}-{seed}-{key}.safetensors"
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        model = _new_job(data, name, options, seed)
        fit(
            model, store.images, data.targets[arm], rows, train, seed=seed, device=device, checkpoint=checkpoint,
            normalisation=normalisation,
        )  # fmt: skip
        logits = predict_logits(model, data.held.images, None, train, device, normalisation=normalisation)
    finally:
        torch.set_num_threads(before)
    if not np.isfinite(logits).all():
        raise MemoriskError("the trained network gives logits that are NaN or infinite: try pre-trained weights")
    scores = scipy.special.softmax(logits.astype(np.float64), axis=1)
    write_array(file, put_in_order(scores, order, axis=0), recorded=True)
    remove_recorded(checkpoint)
    return scores


def _normalisation(data: TransferData, name: str) -> Normalisation | None:
    """Return one normalisation for both arms: the network's own, or that of the real training images."""
    spec = model_spec(name)
    return choose_normalisation(data.stores["real"].images, spec.normalise, spec)


def _one_answer(scores: np.ndarray) -> bool:
    """Return whether scores [n, k] are largest for the same class in every image."""
    return len(np.unique(scores.argmax(axis=1))) == 1


def _describe(arm: str, found: TransferFigure) -> dict[str, float]:
    return {arm: found.estimate, f"{arm}_low": found.low, f"{arm}_high": found.high}
