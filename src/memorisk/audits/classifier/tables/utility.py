"""Utility of the audited models on the test part: a model that learned nothing has nothing to remember."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from memorisk.audits.classifier.evidence import WHOLE, Evidence
from memorisk.audits.classifier.result import ClassUtility, DenoisingUtility, FindingsUtility


def utility_on_test(evidence: Evidence) -> FindingsUtility | ClassUtility:
    """Compute accuracy on the test part, plain and balanced, mean over models, and the share of the commonest class.

    The lower 97.5 % limit of the balanced accuracy is over test groups (normal, classes independent) and models; it and
    ``beats_guessing`` are None where images have several labels, since guessing has no such rate there. A class with
    one test group has no such limit: it is minus infinity, and ``beats_guessing`` is None. With rows of all findings
    together the models' loss is compared with that of naming each finding by its frequency
    (`_loss_beside_frequencies`).
    """
    if (evidence.items.label == WHOLE).any():
        return _loss_beside_frequencies(evidence)
    test = evidence.items.split == "test"
    label, group = evidence.items.label[test].astype(str), evidence.items.group[test].astype(str)
    every = np.concatenate([evidence.correct_a, evidence.correct_b])[:, test].astype(np.float64)
    correct = every.mean(axis=0)
    classes, number = np.unique(label, return_inverse=True)
    means, variances = [], []
    for c in range(len(classes)):
        own = number == c
        unit = np.unique(group[own], return_inverse=True)[1]
        rates = np.bincount(unit, weights=correct[own]) / np.bincount(unit)
        means.append(float(correct[own].mean()))
        variances.append(float(rates.var(ddof=1) / len(rates)) if len(rates) > 1 else float("inf"))
    balanced = float(np.mean(means))
    of_model = np.mean([every[:, number == c].mean(axis=1) for c in range(len(classes))], axis=0)
    between = float(of_model.var(ddof=1) / len(of_model))  # models are units too, also where each tells its own noise
    several = len(set(evidence.items.image[test])) < len(label)
    spread = np.sqrt(sum(variances) / len(classes) ** 2 + between)
    low = None if several else balanced - float(scipy.stats.norm.ppf(0.975)) * spread
    return ClassUtility(
        test_accuracy=float(correct.mean()),
        test_balanced_accuracy=balanced,
        balanced_accuracy_low=low,
        chance=1 / len(classes),
        beats_guessing=None if low is None or np.isinf(low) else bool(low > 1 / len(classes)),
        majority_share=float(np.bincount(number).max() / len(label)),
        n_classes=len(classes),
    )


def _loss_beside_frequencies(evidence: Evidence) -> FindingsUtility:
    """Return the loss over a test image's findings, and of naming each by its frequency outside the test part.

    ``beats_guessing`` says whether the lower 97.5 % limit of the mean difference lies above 0: normal, over test groups
    (of unequal size: residuals added up within each) and models.
    """
    items = evidence.items
    whole, findings = items.label == WHOLE, sorted(set(items.label.tolist()) - {WHOLE})
    images, place = np.unique(items.image.astype(str), return_inverse=True)
    present = np.zeros((len(images), len(findings)), dtype=bool)
    number = {name: i for i, name in enumerate(findings)}
    present[place[~whole], [number[name] for name in items.label[~whole]]] = True
    test, other = whole & (items.split == "test"), whole & (items.split != "test")
    share = (present[place[other]].sum(axis=0) + 0.5) / (other.sum() + 1)  # Jeffreys: never 0, never 1
    guessed = -np.where(present[place[test]], np.log(share), np.log1p(-share)).sum(axis=1)
    gain = guessed - np.concatenate([evidence.loss_a, evidence.loss_b])[:, test]  # [K, J]
    each = gain.mean(axis=0)
    unit = np.unique(items.group[test].astype(str), return_inverse=True)[1]
    residual = np.bincount(unit, weights=each - each.mean())
    n_units = len(residual)
    over_groups = (residual**2).sum() / len(each) ** 2 * n_units / max(n_units - 1, 1)
    over_models = gain.mean(axis=1).var(ddof=1) / len(gain)
    low = float(each.mean() - scipy.stats.norm.ppf(0.975) * np.sqrt(over_groups + over_models)) if n_units > 1 else None
    right = np.concatenate([evidence.correct_a, evidence.correct_b])[:, test]
    _, counts = np.unique(present[place[test]], axis=0, return_counts=True)
    return FindingsUtility(
        test_accuracy=float(right.mean()),
        majority_share=float(counts.max() / test.sum()),
        n_classes=len(findings),
        loss_test=float((guessed - each).mean()),
        loss_guessing=float(guessed.mean()),
        beats_guessing=None if low is None else bool(low > 0),
    )


def denoising_utility(error: ArrayLike, trivial: ArrayLike, group: ArrayLike) -> DenoisingUtility:
    """Compare the errors of generators on images with those of a trivial prediction.

    The explained share of model k is ``1 - sum_j error_kj / sum_j trivial_j``. The limit is normal, over groups (of
    unequal size: residuals of the ratio added up within each) and models; of one model over groups alone.

    Args:
        error: Errors of K models on J images, [K, J].
        trivial: Errors of a trivial prediction, such as the noise's mean, [J], above 0.
        group: Group of each image, [J].

    Returns:
        Explained share with its limit; no limit with one group.

    Example:
        >>> error = np.full((4, 6), 0.5) + 0.01 * np.arange(24).reshape(4, 6)
        >>> found = denoising_utility(error, np.ones(6), list("abcdef"))
        >>> round(found.explained, 3), found.beats_guessing
        (0.385, True)
    """
    errors, least = np.asarray(error, dtype=np.float64), np.asarray(trivial, dtype=np.float64)
    of_models = 1 - errors.sum(axis=1) / least.sum()
    explained = float(of_models.mean())
    unit = np.unique(np.asarray(group), return_inverse=True)[1]
    residual = np.bincount(unit, weights=least - errors.mean(axis=0) - explained * least)
    n_units, n_models = len(residual), len(of_models)
    if n_units < 2:
        return DenoisingUtility(explained=explained, explained_low=None, beats_guessing=None)
    over_groups = (residual**2).sum() / least.sum() ** 2 * n_units / (n_units - 1)
    over_models = float(of_models.var(ddof=1)) / n_models if n_models > 1 else 0.0
    low = explained - float(scipy.stats.norm.ppf(0.975)) * float(np.sqrt(over_groups + over_models))
    return DenoisingUtility(explained=explained, explained_low=low, beats_guessing=bool(low > 0))
