"""Probes of layers: can activations tell which images a model memorized more than the rest of their class?

Layer-wise probes of paper 000, A.9; METHODS section 1, "Where is it stored?". The label is "M above its class
median"; a logistic regression and a network with one hidden layer of min(256, d) units predict it in 5 folds,
stratified on class x label, features standardised on each fold's training part.

What is ours: M comes from other seeds than the probed model (its caller's duty: the noise of a model's own loss is
written all over its activations); folds keep a patient's images together; and the AUROC has an interval, a
delete-one-group jackknife of the pairs right *within* folds. Scores of different folds come from different probes;
comparing them across folds would add those probes' intercepts to the noise.

The jackknife takes the out-of-fold scores as given, and its variance is doubled. Every image tests one probe and
trains the others: with i and j in different folds, what j teaches about i comes back as what i teaches about j, so
that each accident of the sample counts twice. Without any signal this doubles the variance of a score that is
linear in the training images; simulated, intervals without the factor contain 0.5 in 80 to 90 % of repeats, with it
in 96 to 98 %. With a strong signal the probes hardly differ between folds, and the interval is wider than it need
be.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, plural, unknown_name
from memorisk.statistics.jackknife import JackknifeInterval, jackknife, unavailable
from memorisk.statistics.placements import group_deleted_auc

FloatArray = NDArray[np.float64]

PROBE_KINDS = ("logistic", "mlp")
CLS = " (CLS)"
"""Ending of the layer that holds the CLS tokens of a layer of patches."""
HIDDEN = 256
N_FOLDS = 5
VARIANCE_FACTOR = 2.0
"""Factor on the jackknife's variance, since images test one probe and train the others (see above)."""


@dataclass(frozen=True)
class Probe:
    """Result of one probe of one layer."""

    auroc: JackknifeInterval
    """Share of (high, low) pairs of a fold in the right order, over all folds; interval over groups (see above)."""
    fold_mean: float
    """The paper's column: mean over folds of the fold's AUROC."""
    fold_sd: float
    """Standard deviation over folds."""
    n_images: int
    """Number of images probed."""
    n_groups: int
    """Independent units: their groups."""
    n_features: int
    """Width of the layer."""


def above_class_median(m: ArrayLike, label: ArrayLike) -> NDArray[np.bool_]:
    """Return whether M lies above the median of its class, `[n]`; the image at the median does not.

    Args:
        m: `[n]` memorization.
        label: `[n]` class of each image.

    Raises:
        InputError: Lengths differ, or M is not finite.

    Example:
        >>> above_class_median([0.1, 0.2, 0.3], ["a", "a", "a"]).tolist()
        [False, False, True]
    """
    values, index = np.asarray(m, dtype=np.float64), np.unique(np.asarray(label), return_inverse=True)[1]
    if values.shape != index.shape or values.ndim != 1:
        raise InputError(f"m and label have shapes {values.shape} and {index.shape}; give one of each per image")
    if not np.isfinite(values).all():
        raise InputError("M must be finite to be compared with its class median: leave out images without it")
    medians = np.array([np.median(values[index == c]) for c in range(int(index.max(initial=-1)) + 1)])
    return values > medians[index]


def permuted_within_class(high: ArrayLike, label: ArrayLike, *, seed: int = 0) -> NDArray[np.bool_]:
    """The labels shuffled among the images of each class, `[n]`: a probe of these has an AUROC of 0.5 but for luck.

    Args:
        high: `[n]` label.
        label: `[n]` class.
        seed: Seed of the shuffle.
    """
    values, classes = np.asarray(high, dtype=bool), np.unique(np.asarray(label), return_inverse=True)[1]
    order = np.argsort(classes, kind="stable")
    shuffled = values.copy()
    shuffled[order] = values[np.lexsort((np.random.default_rng(seed).random(len(values)), classes))]
    return shuffled


def probe_folds(
    high: ArrayLike, label: ArrayLike, group: ArrayLike, *, n_folds: int = N_FOLDS, seed: int = 0
) -> NDArray[np.intp]:
    """The fold in which each image is tested, `[n]`: stratified on class x label, a group in one fold only.

    Args:
        high: `[n]` the label of the probe.
        label: `[n]` class.
        group: `[n]` patient.
        n_folds: Folds.
        seed: Seed of the shuffle.

    Raises:
        InputError: Lengths differ, one value of the label only, or fewer groups than folds on a side.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    y, classes, groups = np.asarray(high, dtype=bool), np.asarray(label).astype(str), np.asarray(group).astype(str)
    if not y.shape == classes.shape == groups.shape or y.ndim != 1:
        raise InputError(
            f"high, label and group have shapes {y.shape}, {classes.shape}, {groups.shape}; give one of each per image"
        )
    fewest = min(len(np.unique(groups[y])), len(np.unique(groups[~y])))
    if fewest < n_folds:
        raise InputError(
            f"{fewest} groups have images above (or below) their class median; {n_folds} folds need as many"
        )
    strata = np.unique(np.char.add(classes, np.where(y, "\0high", "\0low")), return_inverse=True)[1]
    fold = np.empty(len(y), dtype=np.intp)
    splitter = StratifiedGroupKFold(n_splits=n_folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings(action="ignore"):  # a class of fewer images than folds cannot be in each of them
        for number, (_, test) in enumerate(splitter.split(np.zeros(len(y)), strata, groups)):
            fold[test] = number
    return fold


def out_of_fold_scores(
    features: ArrayLike, high: ArrayLike, fold: ArrayLike, *, kind: str = "logistic", seed: int = 0
) -> FloatArray:
    """Score of each image by the probe that was trained on the other folds, `[n]`; higher = more likely high.

    Features are centred and scaled by the training part of each fold; a constant feature stays 0.

    Args:
        features: `[n, d]` activations of one layer.
        high: `[n]` label.
        fold: `[n]` fold of each image.
        kind: "logistic" (scikit-learn's defaults, up to 1,000 iterations) or "mlp" (one hidden layer of min(256, d)
            units, scikit-learn's defaults).
        seed: Seed of the probe's own start.

    Raises:
        InputError: Shapes differ, a feature is not finite, an unknown kind, or a training part with one label.
    """
    if kind not in PROBE_KINDS:
        raise unknown_name("probe", kind, PROBE_KINDS)
    x, y, folds = np.asarray(features), np.asarray(high, dtype=bool), np.asarray(fold)
    if x.ndim != 2 or not len(x) == len(y) == len(folds):
        raise InputError(f"features {x.shape}, labels {y.shape} and folds {folds.shape} do not fit; one row per image")
    if not np.isfinite(x).all():
        who = plural(int((~np.isfinite(x)).any(axis=1).sum()), "image has", "images have")
        raise InputError(f"{who} activations that are not finite")
    scores = np.empty(len(x))
    for number in np.unique(folds):
        test = folds == number
        if len(np.unique(y[~test])) < 2:
            raise InputError(f"all images outside fold {number} are on one side of their class median: use fewer folds")
        scores[test] = _fit_and_score(x[~test], y[~test], x[test], kind, seed)
    return scores


def probe(
    features: ArrayLike,
    high: ArrayLike,
    group: ArrayLike,
    fold: ArrayLike,
    *,
    kind: str = "logistic",
    seed: int = 0,
    level: float = 0.95,
) -> Probe:
    """Fit one probe of one layer.

    Null: whether M is high does not depend on the activations; the AUROC is then 0.5. The interval is over patients.

    Args:
        features: `[n, d]` activations.
        high: `[n]` label, from ``above_class_median``.
        group: `[n]` patient.
        fold: `[n]`, from ``probe_folds``.
        kind: "logistic" or "mlp".
        seed: Seed of the probe's own start.
        level: Confidence level of the interval.

    Raises:
        InputError: As ``out_of_fold_scores``.
    """
    scores = out_of_fold_scores(features, high, fold, kind=kind, seed=seed)
    interval, folds = fold_auroc(scores, high, group, fold, level=level)
    return Probe(
        auroc=interval,
        fold_mean=float(np.mean(folds)) if len(folds) else float("nan"),
        fold_sd=float(np.std(folds, ddof=1)) if len(folds) > 1 else float("nan"),
        n_images=len(scores),
        n_groups=len(np.unique(np.asarray(group))),
        n_features=int(np.shape(features)[1]),
    )


def fold_auroc(
    scores: ArrayLike, high: ArrayLike, group: ArrayLike, fold: ArrayLike, *, level: float = 0.95
) -> tuple[JackknifeInterval, FloatArray]:
    """`sum over folds of right pairs / sum over folds of pairs`, ties one half, and each fold's own AUROC.

    Args:
        scores: `[n]` out-of-fold scores.
        high: `[n]` label.
        group: `[n]` patient; each in one fold.
        fold: `[n]`.
        level: Confidence level of the interval.

    Returns:
        The AUROC with its delete-one-group interval (on the logit), and the AUROC of each fold that has both sides.

    Raises:
        InputError: A score is NaN.
    """
    values, y, folds = np.asarray(scores, dtype=np.float64), np.asarray(high, dtype=bool), np.asarray(fold)
    ids, index = np.unique(np.asarray(group), return_inverse=True)
    right, pairs, disjoint = 0.0, 0.0, 0
    gone_right, gone_pairs = np.zeros(len(ids)), np.zeros(len(ids))
    each = []
    for number in np.unique(folds):
        in_fold = folds == number
        n_high, n_low = int(y[in_fold].sum()), int((~y[in_fold]).sum())
        if not n_high or not n_low:
            continue
        result = group_deleted_auc(values[in_fold], y[in_fold].astype(np.int8), index[in_fold], len(ids))
        pairs_left = (n_high - result.members) * (n_low - result.non_members)
        each.append(result.auc)
        right, pairs, disjoint = right + result.auc * n_high * n_low, pairs + n_high * n_low, disjoint + result.pairs
        gone_right += result.auc * n_high * n_low - np.where(pairs_left > 0, result.deleted, 0.0) * pairs_left
        gone_pairs += n_high * n_low - pairs_left
    if not each:
        return unavailable("no fold has images on both sides of the median", len(ids)), np.array([])
    remaining_pairs = pairs - gone_pairs
    deleted = np.divide(
        right - gone_right, remaining_pairs, out=np.full(len(ids), right / pairs), where=remaining_pairs > 0
    )
    highs, lows = np.bincount(index, weights=y), np.bincount(index, weights=~y)
    kind = np.where(lows > 0, np.where(highs > 0, 2, 0), 1)
    deleted = deleted.mean() + np.sqrt(VARIANCE_FACTOR) * (deleted - deleted.mean())
    return jackknife(right / pairs, deleted, kind, scale="logit", pairs=disjoint, level=level), np.array(each)


def chance_band(n_positive: int, n_negative: int, level: float = 0.95, *, n_folds: int = N_FOLDS) -> float:
    """Bound the distance of an out-of-fold AUROC without signal from 0.5: half the width of a band around 0.5.

    Half-width ``z sqrt(2 (n + F) / (12 n1 n0))``, at most 0.5, for n1 and n0 images with and without the label, n in
    all, in F even folds. The AUROC of one fold varies as the rank test says, by ``(n/F + 1) / (12 (n1/F) (n0/F))``,
    and the mean of F folds by an F-th of that: ``(n + F) / (12 n1 n0)``. It is doubled because the scores are out of
    fold (see the module): each accident of the labels is counted where an image is tested and where it trains.

    Simulated with logistic probes (labels shuffled within classes, 120 to 375 images of 40 to 150 patients, 300 repeats
    a design), 94 to 98 % lie inside with 16 to 512 features, correlated or not. Doubling may be too much: with a
    single feature, and with four in seven classes, more than 99 % lie inside; none of ten designs had fewer than 94 %.

    Args:
        n_positive: Images with the label.
        n_negative: Images without it.
        level: Share of repeats inside.
        n_folds: Folds.

    Raises:
        InputError: A count below 1, fewer images than folds, or a level outside 0 to 1.
    """
    n = n_positive + n_negative
    if min(n_positive, n_negative) < 1 or not 1 <= n_folds <= n:
        raise InputError(
            f"{n_positive} images with the label and {n_negative} without, in {n_folds} folds: give at least one of "
            "each, and as many images as folds"
        )
    if not 0 < level < 1:
        raise InputError(f"level is {level}; it must lie between 0 and 1")
    sd = np.sqrt(VARIANCE_FACTOR * (n + n_folds) / (12 * n_positive * n_negative))
    return float(min(scipy.stats.norm.ppf((1 + level) / 2) * sd, 0.5))


def _fit_and_score(train: NDArray[Any], y: NDArray[np.bool_], test: NDArray[Any], kind: str, seed: int) -> FloatArray:
    """Standardise by the training part, fit, score the test part; scikit-learn's own estimators."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    x = scaler.fit_transform(np.asarray(train, dtype=np.float64))
    with warnings.catch_warnings(action="ignore"):  # not converged: the paper stops at the same number of iterations
        if kind == "logistic":
            model = LogisticRegression(max_iter=1000, random_state=seed).fit(x, y)
            return model.decision_function(scaler.transform(np.asarray(test, dtype=np.float64)))
        network = MLPClassifier(hidden_layer_sizes=(min(HIDDEN, x.shape[1]),), random_state=seed).fit(x, y)
    probability = np.asarray(network.predict_proba(scaler.transform(np.asarray(test, dtype=np.float64))))
    return probability[:, 1]
