"""Controls of attacks on a released generator: comparisons that cannot show what it remembers (METHODS section 7).

Attacks are published on members and non-members from different sources, where they succeed without any memory: a
classifier that never sees the model reaches an AUC of 0.87 there (CopyMark). Three controls therefore come with every
attack, and each must have an AUC whose interval contains 0.5:

* *blind*: a probe of the images alone, without any model;
* *twins that saw neither side*: their loss on patients that they did not see (`classifier.target.attacks`), and each
  published attack on the twins of one pair, where memorisk trained them and their weights are kept;
* *permuted membership*: the generator's loss where membership is exchanged among the patients of each class. It is at
  0.5 but for a class that is more frequent among members, and otherwise tests the computation alone.

The intervals of the first two kinds hold together at 95 % (Bonferroni): the probe has one half of the 5 %, and all
attacks on twins the other, so that chance alone fails a control in 5 % of audits.
The blind probe is judged under the null: its limits lie as far from its AUC as chance takes a probe without signal
from 0.5 (`statistics.memorization.probes.chance_band`). An interval about the AUC itself is so wide near 1 that a
probe with an AUC of 0.98 would count as chance. Where the band of chance is wider than `WIDEST_BAND`, the probe could
not look.
"""

import numpy as np

from memorisk.audits.classifier.attack_numbers import (
    ALL,
    CONTROL_LEVEL,
    PERMUTED,
    AttackAuc,
    AttackCounts,
    AttackNumbers,
    SureRate,
)
from memorisk.audits.classifier.tables.attacks import AttackScores, attack_row
from memorisk.scores.twin_attacks import MEMBER, NON_MEMBER
from memorisk.statistics.memorization.probes import N_FOLDS, chance_band, fold_auroc, out_of_fold_scores, probe_folds

WIDEST_BAND = 0.25
"""Largest distance from 0.5 that chance may give a blind probe: beyond it, sources that differ plainly look alike."""
CELLS = 8
"""Number of cells of a thumbnail along each side."""
_AT_ONCE = 1024
_PERMUTATIONS = 32
_STREAM = 54  # keeps the permutations apart from other random streams


def image_features(images: np.ndarray) -> np.ndarray:
    """Describe each image by a thumbnail and by its grey values, [N, d].

    The thumbnail has mean and standard deviation of the pixels in each cell of a grid. The standard deviation of all
    pixels, the mean difference of neighbours and the deciles show contrast, sharpness and noise, which differ between
    sources and which a small thumbnail does not have.

    Args:
        images: Images, [N, H, W, C]; may be on the disk.
    """
    edges = [np.linspace(0, side, min(CELLS, side) + 1).astype(int)[:-1] for side in images.shape[1:3]]

    def sums(values: np.ndarray) -> np.ndarray:
        """Add up the values in each cell."""
        return np.add.reduceat(np.add.reduceat(values, edges[0], axis=1), edges[1], axis=2)

    features = []
    for begin in range(0, len(images), _AT_ONCE):
        x = np.asarray(images[begin : begin + _AT_ONCE], dtype=np.float64)
        n = sums(np.ones_like(x[:1]))
        mean = sums(x) / n
        spread = np.sqrt(np.maximum(sums(np.square(x)) / n - np.square(mean), 0))
        steps = [np.abs(np.diff(x, axis=axis)).mean(axis=(1, 2)) for axis in (1, 2) if x.shape[axis] > 1]
        deciles = np.quantile(x, np.linspace(0, 1, 11), axis=(1, 2))
        parts = [mean, spread, x.std(axis=(1, 2)), *steps, np.moveaxis(deciles, 0, 1)]
        features.append(np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1))
    return np.concatenate(features)


def blind_control(features: np.ndarray, member: np.ndarray, label: np.ndarray, group: np.ndarray) -> AttackNumbers:
    """Measure how well the images alone tell members from others, by a logistic regression on other patients.

    Scaling and regression are fitted on the other folds; a patient's score is the mean over the images.

    Args:
        features: Features of the images, [N, d], from `image_features`.
        member: Whether each image is a member, [N].
        label: Class of each image, [N].
        group: Patient of each image, [N].

    Returns:
        AUC with the band of chance about it (`statistics.memorization.probes`); NaN where either side has too few
        patients for the probe to find anything.
    """
    patients, first, place = np.unique(group.astype(str), return_index=True, return_inverse=True)
    truth = member[first]
    counts = AttackCounts(
        n_members=int(truth.sum()), n_non_members=int((~truth).sum()), n_groups=len(patients),
        n_member_groups=int(truth.sum()), n_non_member_groups=int((~truth).sum()), n_models=1, n_seeds=1,
    )  # fmt: skip
    numbers = {"rate": SureRate(), "counts": counts, "conditional": True, "control": True}
    few = min(counts.n_members, counts.n_non_members)
    if few < N_FOLDS or chance_band(counts.n_members, counts.n_non_members, CONTROL_LEVEL) > WIDEST_BAND:
        note = "not measurable: with so few patients chance alone gives a probe of the images any AUC"
        return AttackNumbers(auc=AttackAuc(), note=note, **numbers)
    fold = probe_folds(member, label, group)
    scores = out_of_fold_scores(features, member, fold)
    of_patients = np.bincount(place, scores) / np.bincount(place)
    estimate = fold_auroc(of_patients, truth, patients, fold[first], level=CONTROL_LEVEL)[0].estimate
    band = chance_band(counts.n_members, counts.n_non_members, CONTROL_LEVEL)
    limits = {"low": max(estimate - band, 0.0), "high": min(estimate + band, 1.0)}
    return AttackNumbers(auc=AttackAuc(estimate=estimate, **limits), **numbers)


def permuted_control(score: np.ndarray, member: np.ndarray, label: np.ndarray, group: np.ndarray) -> AttackNumbers:
    """Measure an attack whose membership is permuted among the patients of each class.

    Args:
        score: Score of each patient, [G].
        member: Whether each patient is a member, [G].
        label: Class of each patient, [G].
        group: Id of each patient, [G].

    Returns:
        AUC, mean over permutations, with an interval over patients and permutations.
    """
    rng, role = np.random.default_rng(_STREAM), np.where(member, MEMBER, NON_MEMBER).astype(np.int8)
    roles = np.tile(role, (_PERMUTATIONS, 1))
    for name in np.unique(label.astype(str)):
        own = np.flatnonzero(label.astype(str) == name)
        for row in roles:
            row[own] = role[rng.permutation(own)]
    attack = AttackScores(PERMUTED, np.tile(score, (_PERMUTATIONS, 1)), roles, np.arange(_PERMUTATIONS), control=True)
    return attack_row(attack, ALL, np.ones(len(score), dtype=bool), group, 0.5, level=CONTROL_LEVEL).numbers
