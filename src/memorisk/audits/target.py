"""The very model that is to be released: what an attacker finds in it, and whether the twins speak for it.

An audit of another recipe is not an audit of this model. The given split says which images it was trained on; the
twins, trained on halves of those, are the references of offline LiRA and RMIA (METHODS section 1, "Attacks").
"""

from typing import Any

import numpy as np
from scipy import stats
from torch import nn

from memorisk.audits.classifier_jobs import Recipe, score_passes
from memorisk.audits.evidence import Evidence
from memorisk.audits.options import ClassifierOptions
from memorisk.audits.plan import Plan
from memorisk.images.store import ImageStore
from memorisk.models.weights import tensors_of
from memorisk.models.zoo import create_model
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError, one_line
from memorisk.scores.lira import lira_scores
from memorisk.scores.rmia import rmia_scores, split_population
from memorisk.statistics.jackknife import JackknifeInterval
from memorisk.statistics.roc import auc_jackknife
from memorisk.training.predict import predict_augmented, predict_logits

MIN_REFERENCES = 3
HEAD_KEPT = "comes from the file"  # what load_weights says of a head that it took as it was
_COINS = 51  # the random stream that picks one twin a seed for images that neither saw


def audit_target(
    store: ImageStore, plan: Plan, recipe: Recipe, evidence: Evidence, options: ClassifierOptions
) -> dict[str, Any]:
    """Attack the given model and compare it with the twins.

    Returns:
        AUC with interval (over groups) of the loss attack, offline LiRA and offline RMIA on the model's members
        against the test part; accuracy and loss on both; and the replication check.

    Raises:
        InputError: The file does not match the network, or its classes are not those of the images.
    """
    checksum = file_sha256(options.target) if options.target and options.target.is_file() else None
    model = check_target(store, plan, recipe, options)
    logits = predict_logits(model, store.images, None, recipe.train, recipe.device, normalisation=recipe.normalisation)
    order, passes = _class_order(plan, options), None
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
    own = score_passes(reorder(logits, order), passes, plan, recipe.targets)
    one = plan.items.whole
    own, items, evidence = {k: v[one] for k, v in own.items()}, plan.items.select(one), evidence.select(one)
    member, test = items.split != "test", items.split == "test"
    scores = target_scores(own, evidence, member, test)
    attacks = {name: _auc(score, member, test, items.group) for name, score in scores.items()}
    replication = replicates(own, evidence, test)
    return {
        "file": options.target.name if options.target else "",
        "sha256": checksum,
        "tensors_sha256": tensors_of(options.target),
        "n_members": int(member.sum()),
        "n_non_members": int(test.sum()),
        "accuracy_members": float(own["correct"][member].mean()),
        "accuracy_test": float(own["correct"][test].mean()),
        "loss_members": float(own["loss"][member].mean()),
        "loss_test": float(own["loss"][test].mean()),
        "attacks": attacks,
        "replication": replication,
        "verdict": {"replicated": replication["replicated"], "aucs": {k: v["auc"] for k, v in attacks.items()}},
    }


def target_scores(
    own: dict[str, np.ndarray], evidence: Evidence, member: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Scores of the model's images, higher = more likely a member, [I]; NaN where an image cannot be scored.

    Every image gets one reference per seed that did not see it: for members the twin that left it out, for test
    images one of the two by a fair coin, so that the number of references does not tell members apart.

    Args:
        own: Loss and margin of the model, [I].
        evidence: The twins.
        member: [I] trained on.
        test: [I] not trained on.
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
        log=True,
    )
    scores["rmia_offline"] = rmia
    return scores


def unseen_references(evidence: Evidence, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Margins and log-probabilities under one model a seed that did not see the image, [S, I]; NaN where both did."""
    sign = evidence.sign.astype(np.int8).copy()
    coins = np.random.default_rng(_COINS).choice(np.array([-1, 1], dtype=np.int8), size=sign.shape)
    sign[:, test] = coins[:, test]
    margin = np.where(sign > 0, evidence.margin_b, np.where(sign < 0, evidence.margin_a, np.nan))
    loss = np.where(sign > 0, evidence.loss_b, np.where(sign < 0, evidence.loss_a, np.nan))
    return margin, -loss


def replicates(own: dict[str, np.ndarray], evidence: Evidence, test: np.ndarray) -> dict[str, Any]:
    """Whether the model's test loss and accuracy lie within the twins' own spread.

    A 95 % prediction interval for one more model from K: mean +- t(K - 1) sd sqrt(1 + 1/K), cut at what a loss and an
    accuracy can be. The twins are trained on half the images, so a somewhat better target is expected; the interval
    does not know that.
    """
    found: dict[str, Any] = {}
    for name, column, top in (("loss", "loss", float("inf")), ("accuracy", "correct", 1.0)):
        twins = np.concatenate(
            [getattr(evidence, f"{column}_a")[:, test], getattr(evidence, f"{column}_b")[:, test]]
        ).mean(axis=1)
        k = len(twins)
        half = float(stats.t.ppf(0.975, k - 1) * twins.std(ddof=1) * np.sqrt(1 + 1 / k))
        value, centre = float(own[column][test].mean()), float(twins.mean())
        found[name] = {
            "target": value,
            "twins": centre,
            "low": max(centre - half, 0.0),
            "high": min(centre + half, top),
            "within": bool(centre - half <= value <= centre + half),
        }
    return found | {
        "replicated": all(found[n]["within"] for n in ("loss", "accuracy")),
        "n_models": 2 * len(evidence.seeds),
    }


def _auc(score: np.ndarray, member: np.ndarray, test: np.ndarray, group: np.ndarray) -> dict[str, Any]:
    ok = np.isfinite(score)
    interval: JackknifeInterval = auc_jackknife(
        score[ok & member], group[ok & member], score[ok & test], group[ok & test]
    )
    return {
        "auc": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "n_members": int((ok & member).sum()),
        "n_non_members": int((ok & test).sum()),
        "n_groups": interval.n_groups,
    }


def check_target(store: ImageStore, plan: Plan, recipe: Recipe, options: ClassifierOptions) -> nn.Module:
    """Load the model that is to be released; done before any training, and again when it is scored.

    Raises:
        InputError: The file does not match the network, or its classes are not those of the images.
    """
    assert options.target is not None
    if not options.target.is_file():
        raise InputError(f"--target {options.target} is no file: name the weights of the model to be released")
    if recipe.own and options.model == "auto":
        raise InputError("--target with your own --train function: name the target's network with --model, too")
    name = options.model if recipe.own else recipe.model
    notes: list[str] = []
    model = create_model(
        name,
        num_classes=recipe.targets.n_outputs,
        in_chans=store.images.shape[-1],
        image_size=store.images.shape[1],
        weights=options.target,
        seed=0,
        on_note=notes.append,
    )
    # Pre-trained weights may be made to fit; the model that is to be released must be what the file says it is.
    changed = [note for note in notes if not note.endswith(HEAD_KEPT)]
    if changed or not notes:
        what = changed[0] if changed else "the file has no classifier head"
        raise InputError(f"--target {options.target.name} does not match {one_line(name, 60)}: {one_line(what)}")
    _class_order(plan, options)
    return model


def reorder(logits: np.ndarray, order: list[int] | None) -> np.ndarray:
    """The model's outputs in the order of the audit's classes.

    Args:
        logits: [N, k]; a binary head has one, the logit of its second class.
        order: The model's number of each class; None where the orders are the same.
    """
    if order is None:
        return logits
    if logits.shape[1] == 1:
        return logits if order == [0, 1] else -logits
    return logits[:, order]


def _class_order(plan: Plan, options: ClassifierOptions) -> list[int] | None:
    """The model's output for each class of the audit (sorted names); None where the orders are the same."""
    if options.target_classes is None:
        return None
    names = [n.strip() for n in options.target_classes.split(",")]
    if sorted(names) != plan.parts.classes:
        odd = sorted(set(names) ^ set(plan.parts.classes)) or [n for n in names if names.count(n) > 1]
        where = "is on one side only" if len(set(names)) == len(names) else "is named twice"
        raise InputError(
            f"--target-classes must name the {len(plan.parts.classes)} classes of the images in the model's order; "
            f"{one_line(odd[0], 60)!r} {where}"
        )
    return [names.index(c) for c in plan.parts.classes]
