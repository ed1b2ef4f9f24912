"""The very model that is to be released: what an attacker finds in it, and whether the twins speak for it.

An audit of another recipe is not an audit of this model. The given split says which images it was trained on; the
twins, trained on halves of those, are the references of offline LiRA and RMIA (METHODS section 1, "Attacks").

The intervals are over patients: the question is what this file shows, and it was trained once. What a model that saw
neither side loses on members and on test images, from the same references, is the control: where it tells them apart
they differ by more than membership, and the attacks cannot be read.

A given model whose losses are not those of one more twin is *another model* (METHODS section 6): better ones, too,
since what it gained may be what it remembers. Its twins' lists do not speak for it; its own attacks do.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from torch import nn

from memorisk.audits.classifier.attack_numbers import (
    ALL,
    CONTROL,
    AttackRow,
    BesideTwins,
    Replication,
    TargetAudit,
    TargetVerdict,
)
from memorisk.audits.classifier.evidence import WHOLE, Evidence, Items
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.classifier.planning.plan import Parts, Plan
from memorisk.audits.classifier.tables.attacks import AttackScores, attack_row
from memorisk.audits.classifier.target.order import check_order, one_hot_answers, one_hot_labels
from memorisk.audits.classifier.twins.trainings import Recipe, score_passes
from memorisk.images.store import ImageStore
from memorisk.models.classifiers.specs import auto_model, model_spec
from memorisk.models.classifiers.zoo import create_model, takes_any_size
from memorisk.models.released_weights import released_sha256
from memorisk.models.weight_files import head_and_stem, read_state_dict
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError, listed, one_line
from memorisk.scores.lira import lira_scores
from memorisk.scores.rmia import rmia_scores, split_population
from memorisk.scores.twin_attacks import MEMBER, NEITHER, NON_MEMBER, Access
from memorisk.statistics.intervals.means import prediction_error
from memorisk.statistics.verdicts.scales import find_scale
from memorisk.training.engine.data import build_targets
from memorisk.training.engine.predict import predict_augmented, predict_logits

ROUNDING = 1e-9  # a model among the twins that all agree is one of them, whatever its logarithm rounds to
MIN_REFERENCES = 3
MOST_TRIED = 1000
"""Number of training images on which the model is tried beforehand: a minute of a ResNet-50 at 224 px on a core."""
HEAD_KEPT = "comes from the file"  # what load_weights says of a head that it took as it was
_COINS = 51  # the random stream that picks one twin a seed for images that neither saw


def audit_target(
    store: ImageStore, plan: Plan, recipe: Recipe, evidence: Evidence, options: ClassifierOptions
) -> TargetAudit:
    """Attack the given model and compare it with the twins.

    Returns:
        Rows of the loss attack, offline LiRA and offline RMIA on the model's members against the test part, over all
        classes and class by class, with intervals over groups; the control's; accuracy and loss on both parts; and
        whether the model is one more twin.

    Raises:
        InputError: The file does not match the network, or its classes are not those of the images.
    """
    checksum = file_sha256(options.target) if options.target and options.target.is_file() else None
    model = open_target(store, plan, recipe, options)
    own = _scores(model, store, plan, recipe, options)
    split, one = plan.items.split, plan.items.whole
    every, control, classes = attack_target(own, evidence, split != "test", split == "test", options.attack_gate)
    own, evidence = {k: v[one] for k, v in own.items()}, evidence.select(one)
    member, test = split[one] != "test", split[one] == "test"
    replication = compare_with_twins(own, evidence, member, test)
    attacks = {row.attack: row.numbers for row in every}
    return TargetAudit(
        file=options.target.name if options.target else "",
        sha256=checksum,
        tensors_sha256=released_sha256(model),
        n_members=int(member.sum()),
        n_non_members=int(test.sum()),
        accuracy_members=float(own["correct"][member].mean()),
        accuracy_test=float(own["correct"][test].mean()),
        loss_members=float(own["loss"][member].mean()),
        loss_test=float(own["loss"][test].mean()),
        attacks=attacks,
        control=control.numbers,
        classes=tuple(classes),
        replication=replication,
        verdict=TargetVerdict(
            replicated=replication.replicated, aucs={name: numbers.auc.estimate for name, numbers in attacks.items()}
        ),
    )


def target_losses(store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions) -> dict[str, np.ndarray]:
    """Compute loss, margin and correctness of every item under the given model, [I] each.

    Raises:
        InputError: As `audit_target`.
    """
    return _scores(open_target(store, plan, recipe, options), store, plan, recipe, options)


def _scores(
    model: nn.Module, store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions
) -> dict[str, np.ndarray]:
    """Compute loss, margin and correctness of every item under an opened model."""
    logits = predict_logits(model, store.images, None, recipe.train, recipe.device, normalisation=recipe.normalisation)
    _refuse_not_finite(logits, store.manifest.images, options)
    order, passes = _class_order(plan.parts.classes, options), None
    if options.score_augmentations:
        augmented = predict_augmented(
            model,
            store.images,
            recipe.train,
            recipe.device,
            passes=options.score_augmentations,
            normalisation=recipe.normalisation,
        )
        passes = np.stack([reorder(one, order) for one in augmented])
    return score_passes(reorder(logits, order), passes, plan, recipe.targets)


def attack_target(
    own: dict[str, np.ndarray], evidence: Evidence, member: np.ndarray, test: np.ndarray, gate: float
) -> tuple[list[AttackRow], AttackRow, list[AttackRow]]:
    """Return the rows of every attack on the model: over all classes, of the control over all, and class by class.

    Args:
        own: Loss and margin of the model, [I].
        evidence: The twins.
        member: Whether the model was trained on each item, [I].
        test: Whether each item is a test image, which was not trained on, [I].
        gate: The AUC that ``p_auc`` is about.
    """
    scores = target_scores(own, evidence, member, test) | {CONTROL: unseen_score(evidence, test)}
    parts = (ALL, *sorted(set(evidence.items.label) - {WHOLE}))
    rows = target_rows(scores, evidence.items, member, test, gate, parts)
    control = next(row for row in rows if row.attack == CONTROL and row.label == ALL)
    attacks = [row for row in rows if row.attack != CONTROL]
    return [row for row in attacks if row.label == ALL], control, [row for row in attacks if row.label != ALL]


def target_rows(
    scores: Mapping[str, np.ndarray],
    items: Items,
    member: np.ndarray,
    test: np.ndarray,
    gate: float,
    parts: Sequence[str],
    *,
    access: Access = Access.PROBABILITIES,
    control_level: float = 0.95,
) -> list[AttackRow]:
    """Measure every score of the model on every part of the items.

    Args:
        scores: Scores of the items by name, [I] each, higher = more likely a member; NaN for items without one.
        items: Scored items.
        member: Whether the model was trained on each item, [I].
        test: Whether each item is a test image, which was not trained on, [I].
        gate: The AUC that ``p_auc`` is about.
        parts: Classes, and ``ALL``.
        access: Access to the model that the scores need.
        control_level: Confidence level of the interval of the control.
    """
    rows: list[AttackRow] = []
    for name, score in scores.items():
        ok = np.isfinite(score)
        role = np.where(ok & member, MEMBER, np.where(ok & test, NON_MEMBER, NEITHER)).astype(np.int8)
        control = name == CONTROL
        attack = AttackScores(name, score[None], role[None], np.zeros(1, dtype=int), control=control, access=access)
        for part in parts:
            keep = items.whole if part == ALL else items.label == part
            level = control_level if control else 0.95
            rows.append(attack_row(attack, str(part), keep, items.group, gate, level=level))
    return rows


def unseen_score(evidence: Evidence, test: np.ndarray) -> np.ndarray:
    """Return the score of the control, minus the mean loss of models that did not see the image, [I].

    Args:
        evidence: The twins.
        test: Whether each item is a test image, [I].
    """
    _, logp = unseen_references(evidence, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # images that every twin saw have no reference
        return np.nanmean(logp, axis=0)


def target_scores(
    own: dict[str, np.ndarray], evidence: Evidence, member: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Return scores of the model's images, higher = more likely a member, [I]; NaN for images without a score.

    Every image gets one reference per seed that did not see it: for members the twin that left it out, for test
    images one of the two by a fair coin, so that the number of references does not tell members apart.

    Args:
        own: Loss and margin of the model, [I].
        evidence: The twins.
        member: Whether the model was trained on each item, [I].
        test: Whether each item is a test image, which was not trained on, [I].
    """
    margin, logp = unseen_references(evidence, test)
    scores = {"loss_threshold": -own["loss"]}
    if len(evidence.seeds) < MIN_REFERENCES:
        return scores
    # The rule on sixteen models is about online LiRA and target-among-K; here only OUT references are used.
    scores["lira_offline"] = lira_scores(
        own["margin"], None, margin, mode="offline", variance="pooled_residual", allow_small=True
    )
    groups = evidence.items.group
    population = np.zeros(len(test), dtype=bool)
    population[test] = split_population(groups[test], seed=0)
    rmia = rmia_scores(
        np.where(population, np.nan, -own["loss"]),
        None,
        logp,
        -own["loss"][population],
        logp[:, population],
        mode="offline",
        offline_a=find_scale(evidence.scale).rmia_offline_a,
        log=True,
    )
    scores["rmia_offline"] = rmia
    return scores


def unseen_references(evidence: Evidence, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return margins and log-probabilities by one model per seed that did not see the image, [S, I]; else NaN."""
    sign = evidence.sign.astype(np.int8).copy()
    coins = np.random.default_rng(_COINS).choice(np.array([-1, 1], dtype=np.int8), size=sign.shape)
    sign[:, test] = coins[:, test]
    margin = np.where(sign > 0, evidence.margin_b, np.where(sign < 0, evidence.margin_a, np.nan))
    loss = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    return margin, -loss


def compare_with_twins(
    own: dict[str, np.ndarray], evidence: Evidence, member: np.ndarray, test: np.ndarray
) -> Replication:
    """Test whether the model's losses, on members and on test images, and its accuracy are those of one more twin.

    Prediction intervals for one more model from S seeds (`prediction_error`), of losses on the logarithmic scale,
    since they are positive and vary by factors; 95 % for the three together (Bonferroni). A twin's members are the
    images that it was trained on. The twins are trained on half the images, so that a somewhat better target is
    expected: that makes it another model, and the interval says so. A generator has no accuracy, and is compared by its
    losses.

    Args:
        own: Loss of the model, of a classifier also correctness, [I].
        evidence: The twins.
        member: Whether the model was trained on each item, [I].
        test: Whether none of the models was trained on each item, [I].
    """
    k = 2 * len(evidence.seeds)
    loss, correct, member_rows = (
        np.concatenate([getattr(evidence, f"{name}_a"), getattr(evidence, f"{name}_b")])
        for name in ("loss", "correct", "member")
    )
    least = np.finfo(np.float64).tiny
    parts = {
        "loss_members": (own["loss"][member].mean(), [row[s].mean() for row, s in zip(loss, member_rows, strict=True)]),
        "loss": (own["loss"][test].mean(), loss[:, test].mean(axis=1)),
    }
    if "correct" in own:
        parts["accuracy"] = (own["correct"][test].mean(), correct[:, test].mean(axis=1))
    tail = 0.05 / (2 * len(parts))
    comparisons: dict[str, BesideTwins] = {}
    for name, (value, each) in parts.items():
        twins = np.asarray(each, dtype=np.float64)
        scaled = twins if name == "accuracy" else np.log(np.maximum(twins, least))
        error, freedom = prediction_error(scaled.reshape(2, -1))
        half = float(scipy.stats.t.ppf(1 - tail, freedom) * error)
        low, high = scaled.mean() - half, scaled.mean() + half
        if name == "accuracy":
            low, high = max(low, 0.0), min(high, 1.0)
        else:
            low, high = np.exp(low), np.exp(high)
        comparisons[name] = BesideTwins(
            target=float(value),
            twins=float(twins.mean()),
            low=float(low),
            high=float(high),
            within=bool(low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING)),
        )
    return Replication(**comparisons, replicated=all(part.within for part in comparisons.values()), n_models=k)


def check_target(store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions) -> None:
    """Load the model that is to be released and try it on images that it was trained on, before any training.

    A model whose outputs are in another order than the classes answers as badly as one that knows nothing; the user has
    to name the order of the outputs of a model that does not beat guessing, since its answers do not show it.

    Raises:
        InputError: The file does not match the network, its classes are not those of the images, its outputs are not
            finite, or they fit the classes better in another order.
    """
    model = open_target(store, plan, recipe, options)
    rows = _rows_to_try(plan)
    logits = predict_logits(model, store.images, rows, recipe.train, recipe.device, normalisation=recipe.normalisation)
    _refuse_not_finite(logits, store.manifest.images[rows], options)
    order, head, classes = _class_order(plan.parts.classes, options), recipe.targets.head, plan.parts.classes
    answers = one_hot_answers(reorder(logits, order), head)
    truth = one_hot_labels(recipe.targets.values[rows], head, len(classes))
    check = check_order(answers, truth, plan.parts.groups[rows])
    file, what = one_line(options.target.name if options.target else "", 80), _measure(head)
    tried = f"--target {file}, tried on {len(rows):,} images that it was trained on"
    if check.another:
        place = range(len(classes)) if order is None else order
        output = np.argsort([place[column] for column in check.best])
        names = ",".join(classes[number] for number in output)
        raise InputError(
            f"{tried}: with its outputs in the order {listed(_in_file_order(classes, order), 4)} its {what} is "
            f"{check.given_index:.2f}, in another order {check.best_index:.2f} (0 is guessing, 1 is best): if that is "
            f"the order of its outputs, name it by --target-classes {one_line(names)}"
        )
    if not check.fits and options.target_classes is None:
        raise InputError(
            f"{tried}: its {what} is {check.given_index:.2f} (0 is guessing, 1 is best), and no other order of its "
            "outputs is surely better, so that it does not show their order: give the pixels as it was trained on "
            "them (--size, --resize, --channels, --normalise); if it is as bad as that, name the order by "
            f"--target-classes {one_line(','.join(classes))}"
        )


def _measure(head: str) -> str:
    """Name the index of an order (`order`) in words."""
    return "Youden's index, mean over classes," if head != "multi" else "mean rank of a finding's images less others',"


def _in_file_order(classes: list[str], order: list[int] | None) -> list[str]:
    """Return the names of the classes in the order of the file's outputs."""
    return classes if order is None else [classes[number] for number in np.argsort(order)]


def _rows_to_try(plan: Plan) -> np.ndarray:
    """Return the rows of at most `MOST_TRIED` images of the model's training, as many of each label as there are."""
    rows = np.flatnonzero(np.isin(plan.parts.part.astype(str), ("train", "canary")))
    shuffled = np.random.default_rng(0).permutation(rows)
    label = pd.Series(plan.parts.labels[shuffled].astype(str))
    turn = np.asarray(label.groupby(label).cumcount())
    return np.sort(shuffled[np.argsort(turn, kind="stable")[:MOST_TRIED]])


def _refuse_not_finite(logits: np.ndarray, images: np.ndarray, options: ClassifierOptions) -> None:
    """Refuse a model that gives no number.

    Raises:
        InputError: An output is NaN or infinite.
    """
    bad = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(bad):
        raise InputError(
            f"--target {one_line(options.target.name if options.target else '', 80)}: outputs for {len(bad):,} of "
            f"{len(logits):,} images are not finite numbers, the first for {one_line(images[bad[0]], 60)}: the file is "
            "of a training that diverged, or the images are scaled otherwise than in its training (--normalise)"
        )


def check_target_file(parts: Parts, options: ClassifierOptions) -> None:
    """Refuse, before images are decoded, a file that cannot be the model that is to be released.

    The network is compared where its name is known, and the images' size where its tensors depend on it. What only
    decoded images show, their channels and those that cannot be read, is taken from the file.

    Raises:
        InputError: The file does not exist, cannot be read, or does not match the network or the classes, or the order
            of its outputs names other classes.
    """
    _class_order(parts.classes, options)
    side, name = options.size, options.one_model
    if name == "auto" and side is not None and options.train is None:
        name = auto_model(side)
    file = _read_target(options)
    if name == "auto" or (side is None and not takes_any_size(name)):
        return
    side = side or model_spec(name).image_size
    outputs, channels = head_and_stem(create_model(name, num_classes=2, image_size=side, weights="none", seed=0), file)
    if not options.skip_unreadable or outputs is None:
        outputs = build_targets(parts.labels, options.head, classes=parts.classes).n_outputs
    if options.channels != "auto" or channels is None:
        channels = 3 if options.channels == "auto" else options.channels
    _load_target(options, name, outputs=outputs, channels=channels, side=side)


def open_target(store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions) -> nn.Module:
    """Load the model that is to be released.

    Raises:
        InputError: The file does not match the network, or its classes are not those of the images.
    """
    _read_target(options)
    model = _load_target(
        options,
        options.one_model if recipe.own else recipe.model,
        outputs=recipe.targets.n_outputs,
        channels=store.images.shape[-1],
        side=store.images.shape[1],
    )
    _class_order(plan.parts.classes, options)
    return model


def _read_target(options: ClassifierOptions) -> Path:
    """Return the file of the model that is to be released, with the tensors that it must have.

    Raises:
        InputError: The file does not exist, or holds no tensors by name.
    """
    assert options.target is not None
    if options.train is not None and options.one_model == "auto":
        raise InputError("--target with your own --train function: name the target's network with --model, too")
    if not options.target.is_file():
        raise InputError(f"--target {options.target} is not a file: name the weights of the model to be released")
    try:
        read_state_dict(options.target)
    except InputError as error:
        raise InputError(f"--target: {error}") from error
    return options.target


def _load_target(options: ClassifierOptions, name: str, *, outputs: int, channels: int, side: int) -> nn.Module:
    """Load the file of the model that is to be released into its network.

    Raises:
        InputError: It does not match the network.
    """
    assert options.target is not None
    notes: list[str] = []
    try:
        model = create_model(
            name,
            num_classes=outputs,
            in_chans=channels,
            image_size=side,
            weights=options.target,
            seed=0,
            on_note=notes.append,
        )
    except InputError as error:
        raise InputError(
            f"--target: {error}; name its network by --model; models of a network that memorisk does not build are "
            "audited from their losses (docs/losses.md)"
        ) from error
    # Pre-trained weights may be made to fit; the model that is to be released must be what the file says it is.
    changed = [note for note in notes if not note.endswith(HEAD_KEPT)]
    if changed or not notes:
        what = changed[0] if changed else "the file has no classifier head"
        raise InputError(f"--target {options.target.name} does not match {one_line(name, 60)}: {one_line(what)}")
    return model


def reorder(logits: np.ndarray, order: list[int] | None) -> np.ndarray:
    """Return the model's outputs in the order of the audit's classes.

    Args:
        logits: Outputs of the model, [N, k]; a binary head has one, the logit of its second class.
        order: The model's number of each class; None where the orders are the same.
    """
    if order is None:
        return logits
    if logits.shape[1] == 1:
        return logits if order == [0, 1] else -logits
    return logits[:, order]


def _class_order(classes: list[str], options: ClassifierOptions) -> list[int] | None:
    """Return the model's output for each class of the audit (`ordered_classes`); None where the orders agree."""
    if options.target_classes is None:
        return None
    names = [n.strip() for n in options.target_classes.split(",")]
    if sorted(names) != sorted(classes):
        odd = sorted(set(names) ^ set(classes)) or [n for n in names if names.count(n) > 1]
        where = "is on one side only" if len(set(names)) == len(names) else "is named twice"
        raise InputError(
            f"--target-classes must name the {len(classes)} classes of the images in the model's order; "
            f"{one_line(odd[0], 60)!r} {where}"
        )
    return [names.index(c) for c in classes]
