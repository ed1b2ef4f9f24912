"""Five classifiers of the same images, each trained without one fold of the patients (paper 004, section 4.3).

They end in a sigmoid per class: two classes have one output, several have one against the rest each, trained with
binary cross entropy. The outputs of a classifier that is done are kept in a file; a killed one continues.
"""

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from memorisk.images.copies.duplicates import linked_groups
from memorisk.images.splits import merge_linked
from memorisk.images.stacked_images import StackedImages
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.runs.checksums import is_intact, remove_recorded
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError, MemoriskError, one_line, plural
from memorisk.runs.files import fingerprint, read_array, write_array
from memorisk.runs.workload import Progress
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.data import SEPARATOR, Targets, build_targets, dataset_groups
from memorisk.training.engine.devices import limited_threads
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import Normalisation, choose_normalisation
from memorisk.training.engine.predict import predict_logits
from memorisk.training.generators.options import FOLDS, PseudoOptions

_NORMALISATION_IMAGES = 4096


@dataclass(frozen=True, eq=False)
class FoldData:
    """Images of the five classifiers, with labels and folds."""

    images: np.ndarray | StackedImages
    """Images of the store, [N, H, W, C]."""
    rows: np.ndarray
    """Rows of the different training images, [n], rising."""
    targets: Targets
    """Targets of these images, ``values`` [n] or [n, k]."""
    labels: np.ndarray
    """Labels of these images as text, [n]."""
    groups: np.ndarray
    """Patient of each image, [n]; patients who share an image are one."""
    fold: np.ndarray
    """Fold in which each image is left out, [n]."""
    key: str
    """Hash of the data of the store."""

    @property
    def onehot(self) -> np.ndarray:
        """One-hot labels, [n, k] float32, 1 at a class of the image; one column for two classes."""
        return self.targets.values.reshape(len(self.rows), -1).astype(np.float32)

    @property
    def several(self) -> bool:
        """Return whether images may have several labels at once, or none."""
        return _has_several_labels(self.labels)


def fold_data(store: ImageStore, rows: np.ndarray, seed: int | None) -> FoldData:
    """Collect the labels of the training images, and the fold of each.

    Args:
        store: The images with their manifest.
        rows: Rows of the training images; may repeat.
        seed: Random seed of the division; None where no classifier is trained, and all images are in one fold.

    Raises:
        InputError: Labels are missing, all are the same, or patients are fewer than five.
    """
    chosen = np.unique(np.asarray(rows, dtype=np.int64))
    manifest = store.manifest
    labels = manifest.labels[chosen].astype(str)
    if not (labels != "").any():
        raise InputError(
            f"{one_line(manifest.name)} has no labels, and pseudo-conditions are a classifier's: give labels_csv, "
            "label_column or label_from"
        )
    alone = not _has_several_labels(labels) and len(set(labels.tolist())) <= 2
    targets = build_targets(labels, "binary" if alone else "multi")  # which refuses a single class
    named = dataset_groups(manifest)
    groups = merge_linked(named, linked_groups(store.pixel_hashes, named)).astype(str)[chosen]
    fold = np.zeros(len(chosen), dtype=np.int64) if seed is None else patient_folds(labels, groups, seed)
    return FoldData(store.images, chosen, targets, labels, groups, fold, store.data_hash)


def patient_folds(labels: np.ndarray, groups: np.ndarray, seed: int) -> np.ndarray:
    """Assign a fold from 0 to 4 to each image, [n]: a patient is in one, each class as evenly spread as patients allow.

    Args:
        labels: Labels of the images, [n] str; classes of fewer than five images are spread as one.
        groups: Patient of each image, [n] str.
        seed: Random seed of the division.

    Raises:
        InputError: Patients are fewer than five.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    if (n := len(set(groups.tolist()))) < FOLDS:
        raise InputError(f"there are {plural(n, 'training patient', 'training patients')}; {FOLDS} folds need as many")
    _, stratum, count = np.unique(labels, return_inverse=True, return_counts=True)
    stratum[count[stratum] < FOLDS] = -1
    fold = np.empty(len(labels), dtype=np.int64)
    splitter = StratifiedGroupKFold(n_splits=FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings(action="ignore"):  # the rare ones together may still be fewer than folds
        for number, (_, left_out) in enumerate(splitter.split(np.zeros(len(labels)), stratum, groups)):
            fold[left_out] = number
    return fold


def fold_outputs(data: FoldData, options: PseudoOptions, folder: Path, progress: Progress) -> np.ndarray:
    """Train the five classifiers, or read their outputs.

    Args:
        data: Data from `fold_data`.
        options: Settings of the training.
        folder: Folder of their outputs, and of the state of a training in progress; created if missing.
        progress: Function called with (stage, done, total).

    Returns:
        Sigmoid outputs for every training image, [5, n, k] float32, of the classifier without fold 0, 1, ...

    Raises:
        InputError: The network does not take these images, or does not exist.
        MemoriskError: A training failed; classifiers that are done are kept.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    recipe = fold_recipe(data, options)
    with limited_threads(options.threads):
        outputs = [_train_or_read(number, data, recipe, options, folder, progress) for number in range(FOLDS)]
    return np.stack(outputs)


@dataclass(frozen=True)
class FoldRecipe:
    """Settings of the training of each of the five classifiers."""

    train: TrainOptions
    """Settings of the training, filled in."""
    normalisation: Normalisation | None
    """Scaling of its pixels."""


def fold_recipe(data: FoldData, options: PseudoOptions) -> FoldRecipe:
    """Build the settings of the classifiers of some images.

    Args:
        data: Data from `fold_data`.
        options: Settings of the training.

    Raises:
        InputError: The network does not exist.
    """
    spec = model_spec(options.conditioning_network)
    head = "binary" if data.targets.head == "binary" else "multi"
    train = resolve_options(TrainOptions(epochs=options.conditioning_epochs, head=head), spec)
    measured = data.rows[np.linspace(0, len(data.rows) - 1, min(len(data.rows), _NORMALISATION_IMAGES)).astype(int)]
    return FoldRecipe(train, choose_normalisation(np.take(data.images, measured, axis=0), train.normalise, spec))


def fold_seed(number: int, options: PseudoOptions) -> int:
    """Return the seed of one classifier.

    Args:
        number: Number of the classifier, from 0.
        options: Settings of the training.
    """
    return int(fingerprint("pseudo-conditions", options.seed, number), 16) % (1 << 32)


def fold_file(number: int, data: FoldData, recipe: FoldRecipe, options: PseudoOptions, folder: Path) -> Path:
    """Return the file of the outputs of one classifier.

    Args:
        number: Number of the classifier, from 0.
        data: Data from `fold_data`.
        recipe: Settings from `fold_recipe`.
        options: Settings of the training.
        folder: Folder of the outputs of all five.
    """
    settings = [options.conditioning_network, options.conditioning_weights, asdict(recipe.train), recipe.normalisation]
    settings += [options.threads]
    key = fingerprint(data.key, settings, fold_seed(number, options), data.rows, data.targets.values, data.fold)
    return folder / f"fold-{number}-{key}.npy"


def _train_or_read(
    number: int,
    data: FoldData,
    recipe: FoldRecipe,
    options: PseudoOptions,
    folder: Path,
    progress: Progress,
) -> np.ndarray:
    """Return the outputs [n, k] of the classifier without one fold, from its file if that exists."""
    train, normalisation = recipe.train, recipe.normalisation
    stage, epochs = f"classifier {number + 1} of {FOLDS}", train.epochs or 0
    seed, file = fold_seed(number, options), fold_file(number, data, recipe, options, folder)
    if is_intact(file):
        return read_array(file)
    _, height, _, channels = data.images.shape
    model = create_model(
        options.conditioning_network,
        num_classes=data.targets.n_outputs,
        in_chans=int(channels),
        image_size=int(height),
        weights=options.conditioning_weights,
        seed=seed,
    )
    values = np.zeros((len(data.images), *data.targets.values.shape[1:]), dtype=np.float32)
    values[data.rows] = data.targets.values
    checkpoint, device = file.with_suffix(".safetensors"), check_device(options.device)
    progress(stage, 0, epochs)
    fit(
        model,
        data.images,
        values,
        data.rows[data.fold != number],
        train,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        checkpoint_seconds=options.checkpoint_seconds,
        on_epoch=lambda done, _: progress(stage, done, epochs),
        normalisation=normalisation,
    )
    logits = predict_logits(model, data.images, data.rows, train, device, normalisation=normalisation)
    if not np.isfinite(logits).all():
        raise MemoriskError(f"{stage} gives outputs that are NaN or infinite: take another conditioning_network")
    outputs = (1 / (1 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    write_array(file, outputs, recorded=True)
    remove_recorded(checkpoint)
    return outputs


def _has_several_labels(labels: np.ndarray) -> bool:
    """Return whether images may have several labels at once, or none."""
    return any(SEPARATOR in label or not label for label in labels.tolist())
