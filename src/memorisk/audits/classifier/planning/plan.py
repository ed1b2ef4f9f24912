"""Plan of an audit: the parts, the designs, the trainings and their cost."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.audits.classifier.attack_numbers import ALL
from memorisk.audits.classifier.evidence import WHOLE, Items
from memorisk.audits.classifier.options import ClassifierOptions, TwinOptions
from memorisk.audits.pseudonyms import draw_seed
from memorisk.images.manifest import Manifest, refuse_leaking_splits, require_labels
from memorisk.images.splits import NOT_AUDITABLE, merge_linked, small_classes, split_by_group
from memorisk.models.classifiers.specs import names_file
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.runs.files import file_fingerprint
from memorisk.runs.folder import CONFIG, WEIGHTS_HASH, read_config
from memorisk.runs.storage.mirror import local_source
from memorisk.training.classifiers.twins import TwinDesign, paper_design, placebo_design, twin_design
from memorisk.training.engine.data import ordered_classes, training_labels

SHARES = (0.7, 0.15, 0.15)  # paper 000, A.1
VALIDATION = "val"
_TRAIN_NAMES, _TEST_NAMES = ("train", "training"), ("test", "testing")


@dataclass(frozen=True)
class Parts:
    """Parts of an audit, with the images of each.

    Attributes:
        part: Part of each image, [N]: "train", "canary", "test" or "val" (validation of the user's own training; in no
            model).
        labels: Label that training uses, [N] ("a|b" for a multi-label head).
        groups: Group of each image, [N], those that share an identical image merged.
        classes: The classes, in the order of `ordered_classes`.
        too_small: Classes too small to split; they join training only.
        random: The parts come from one random split by group, so that the test part is a null.
        head: Head of the models, as in `TrainOptions`; of "multi" each finding of an image is an item.
    """

    part: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    classes: list[str]
    too_small: list[str]
    random: bool
    head: str = "single"

    def rows(self, name: str) -> np.ndarray:
        """Return the image rows of one part."""
        return np.flatnonzero(self.part == name)


@dataclass(frozen=True)
class Plan:
    """A whole audit, ready to run.

    Attributes:
        design: "balanced", "matched" or "paper".
        parts: Training, canary and test part.
        designs: Designs, one per seed.
        items: Scored items, each an image under a label.
        item_row: Image of each item, [I].
        item_class: Class number of each item, [I]; -1 for all findings together.
    """

    design: str
    parts: Parts
    designs: list[TwinDesign]
    items: Items
    item_row: np.ndarray
    item_class: np.ndarray


def draw_parts(manifest: Manifest, linked: list[tuple[str, str]], options: ClassifierOptions, seed: int) -> Parts:
    """Draw T, C and E by group, or take the given split.

    Raises:
        InputError: A label is missing, findings are joined and no head was chosen, or a group crosses the given split,
            alone or with another that shares an identical image with it.
    """
    require_labels(manifest)
    labels = training_labels(manifest, options.head)
    classes = ordered_classes(name for label in labels for name in str(label).split("|"))
    for reserved, what in ((WHOLE, "findings"), (ALL, "classes")):
        if reserved in classes:
            raise InputError(
                f"{one_line(manifest.name)} has a class {reserved!r}, the name of all {what} together: rename it"
            )
    if len(classes) < 2 and options.head != "multi":
        one = f"{one_line(manifest.name)} holds one class ({one_line(classes[0], 60)}): two are needed"
        raise InputError(f"{one}{manifest.tables_hint}")
    if options.head == "binary" and len(classes) != 2:
        raise InputError(f"a binary head needs two classes, {one_line(manifest.name)} holds {len(classes)}")
    groups = merge_linked(manifest.groups, linked)
    if options.splits == "redraw" and options.target is None:
        parts = _redraw(labels, groups, classes, options, draw_seed(options, seed))
    else:
        parts = given_parts(manifest, labels, groups, classes, options)
    return replace(parts, head=options.head)


def _redraw(labels: np.ndarray, groups: np.ndarray, classes: list[str], options: ClassifierOptions, seed: int) -> Parts:
    shares = (0.0, SHARES[0] + SHARES[1], SHARES[2]) if options.chosen_design == "balanced" else SHARES
    part = split_by_group(labels, groups, fractions=shares, seed=seed)
    too_small = small_classes(labels, groups, fractions=shares)
    part[part == NOT_AUDITABLE] = "train"
    if options.train is not None:
        part = _carve_validation(part, labels, groups, from_part="canary" if shares[0] == 0 else "train", seed=seed)
    return Parts(part, labels, groups, classes, too_small, random=True)


def given_parts(
    manifest: Manifest, labels: np.ndarray, groups: np.ndarray, classes: list[str], options: TwinOptions
) -> Parts:
    """Take the given split: its training images are divided between the twins, and its test images are the null.

    Args:
        manifest: The images.
        labels: Label that training uses, [N].
        groups: Group of each image, [N].
        classes: The classes.
        options: Design, and whether the split was drawn at random.

    Raises:
        InputError: A split is missing, it lacks a part, or a group crosses it.
    """
    if manifest.splits is None:
        raise InputError(
            f"{one_line(manifest.name)} gives no split; --splits given and --target need one (train, val, test): name "
            "it with --split-column or put the class folders into train and test folders"
        )
    refuse_leaking_splits(manifest, groups)
    lower = np.array([str(s).lower() for s in manifest.splits], dtype=object)
    part = np.full(len(lower), VALIDATION, dtype=object)
    train, test = np.isin(lower, _TRAIN_NAMES), np.isin(lower, _TEST_NAMES)
    if not train.any() or not test.any():
        names = listed(sorted(set(manifest.splits)))
        raise InputError(f"the given split of {one_line(manifest.name)} needs train and test images; it has {names}")
    part[train], part[test] = "canary", "test"
    if options.chosen_design != "balanced":
        shares, seed = (SHARES[0] / 0.85, SHARES[1] / 0.85, 0.0), draw_seed(options, options.split_seed)
        inner = split_by_group(labels[train], groups[train], fractions=shares, seed=seed)
        part[train] = np.where(inner == "canary", "canary", "train")
    return Parts(part, labels, groups, classes, [], random=options.splits == "given-random")


def _carve_validation(
    part: np.ndarray, labels: np.ndarray, groups: np.ndarray, *, from_part: str, seed: int
) -> np.ndarray:
    """Set a tenth of a part aside, by group, for the user's own training to stop or choose on; it is never scored."""
    rows = np.flatnonzero(part == from_part)
    inner = split_by_group(labels[rows], groups[rows], fractions=(0.0, 0.9, 0.1), seed=seed + 1)
    carved = part.copy()
    carved[rows[inner == "test"]] = VALIDATION
    return carved


def make_plan(manifest: Manifest, parts: Parts, options: TwinOptions) -> Plan:
    """Make the designs for every seed, and the items to score.

    Args:
        manifest: The images.
        parts: Training, canary and test part.
        options: Design and seeds.

    Raises:
        InputError: There is nothing to score.
    """
    canaries, shared = parts.rows("canary"), parts.rows("train")
    if not len(canaries) or not len(parts.rows("test")):
        raise InputError(
            f"{one_line(manifest.name)}: no class is large enough to be split into canaries and test images; classes "
            "need at least 7 groups each"
        )
    design = options.chosen_design
    designs = []
    for seed in options.chosen_seeds:
        if design == "paper":
            designs.append(paper_design(manifest.n, canaries, shared, seed=seed))
        else:
            drawn = twin_design(parts.labels, parts.groups, canaries, shared, seed=draw_seed(options, seed))
            designs.append(replace(drawn, seed=seed))
    if not any(d.sign.any() for d in designs):
        raise InputError(
            f"{one_line(manifest.name)}: no group outside the test part has a partner, so nothing can be "
            "compared; use finer groups, or --design paper"
        )
    items, rows, numbers = _items(manifest, parts)
    return Plan(design, parts, designs, items, rows, numbers)


def make_placebo(manifest: Manifest, parts: Parts, options: ClassifierOptions, *, seed: int) -> tuple[Plan, np.ndarray]:
    """Return the same audit of canaries that no model sees: decoys in their slots, on a fresh split.

    ``balanced`` has no T to take decoys from: here C gets as many images as E, the rest of the pool are the decoys.

    Returns:
        The plan, and [S, I] the signs that the design would have given its items.
    """
    balanced = options.chosen_design == "balanced"
    drawn = draw_seed(options, seed)
    part = split_by_group(parts.labels, parts.groups, fractions=SHARES, seed=drawn)
    part[part == NOT_AUDITABLE] = "train"
    if options.train is not None:  # the user's function stops on a validation part here too
        part = _carve_validation(part, parts.labels, parts.groups, from_part="train", seed=drawn)
    fresh = replace(parts, part=part, random=True)
    canaries, train = fresh.rows("canary"), fresh.rows("train")
    designs = []
    for own in _placebo_seeds(options, seed):
        secret = draw_seed(options, own)
        design = placebo_design(parts.labels, parts.groups, canaries, train, seed=secret, balanced=balanced)
        designs.append(replace(design, seed=own))
    items, rows, numbers = _items(manifest, fresh)
    keep = items.split != "train"
    plan = Plan(options.chosen_design, fresh, designs, items.select(keep), rows[keep], numbers[keep])
    return plan, np.stack([d.sign[rows[keep]] for d in designs])


def _placebo_seeds(options: ClassifierOptions, seed: int) -> list[int]:
    """Return the seeds of the trainings of one placebo repeat, apart from those of the audit and of other repeats."""
    return np.random.SeedSequence([seed, 31]).generate_state(len(options.chosen_seeds)).astype(int).tolist()


def _items(manifest: Manifest, parts: Parts) -> tuple[Items, np.ndarray, np.ndarray]:
    """Choose what is scored: each image under its label, or each finding and all together; no validation images."""
    number = {WHOLE: -1, **{c: i for i, c in enumerate(parts.classes)}}
    rows, names = [], []
    for row in np.flatnonzero(parts.part != VALIDATION):
        for name in [*str(parts.labels[row]).split("|"), WHOLE] if parts.head == "multi" else [parts.labels[row]]:
            rows.append(row)
            names.append(name)
    at = np.array(rows, dtype=np.intp)
    label = np.array(names, dtype=object)
    items = Items(manifest.images[at], label, parts.groups[at], parts.part[at].astype(object))
    return items, at, np.array([number[n] for n in names], dtype=np.int64)


def weights_identity(folder: Path, options: ClassifierOptions) -> dict[str, str]:
    """Return the hash of the file that trainings start from, as images have one; empty where no file is named.

    A finished run needs no weights: where the file is gone, the hash is the one that the run folder holds.

    Args:
        folder: The run folder; need not exist.
        options: Settings of the audit.
    """
    if options.weights is None or not names_file(options.weights):
        return {}
    file = local_source(options.weights)
    if file.is_file():
        return {WEIGHTS_HASH: file_fingerprint(file)}
    written = read_config(folder)["run"] if (folder / CONFIG).is_file() else {}
    return {WEIGHTS_HASH: written[WEIGHTS_HASH]} if WEIGHTS_HASH in written else {}


def identity(folder: Path, options: ClassifierOptions, data_hash: str, training: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a later command may not change in a run folder."""
    return {
        "data_hash": data_hash,
        **weights_identity(folder, options),
        "design": options.chosen_design,
        "splits": options.splits,
        "split_seed": options.split_seed,
        "threads": options.threads,
        "pseudonymise": options.pseudonymise,
        "training": training,
        **({"score_augmentations": options.score_augmentations} if options.score_augmentations else {}),
    }
