"""Membership-inference attacks on a pair of twin models, and the control (METHODS section 1, "Attacks").

Paper 000, section A.8 names five scores over the candidate's and the independent model's losses. Each is an
``AttackSpec`` here, and adding another is one entry in ``_OWN``, of which ``ATTACKS`` is made. Two things decide what a
score may be compared with:

* a score of the target's loss alone may take as non-members whatever the *target* did not see: the twin's canaries (C2)
  and the test part (E);
* a score that also uses the *twin's* loss may take E only. The twin trained on C2, so its losses there are low for the
  very reason that the images are not the target's, and the score would recognise the twin's members, not the target's.

A score over seeds has a third: the order in which it gets the two models of each seed. For an image that was seen, that
order follows the coin of each seed. No model saw an image of E; with A first in every seed its scores would differ from
those of members wherever models differ in how sure they are. So E follows the coins of members (``attack_scores``).

Deviations from the paper: none in the scores. From single-pass losses its confidence ratio and its M are the same score
(``log p_target - log p_twin = loss_twin - loss_target``), so their ROC curves coincide; both are kept as its columns.
Losses of generators are of no probability, and have M alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.user_code.plugins import Registry

FloatArray = NDArray[np.float64]
AttackFunction = Callable[[FloatArray, FloatArray], FloatArray]

MEMBER, NON_MEMBER, NEITHER = 1, 0, -1
"""Roles of an image against one target: in its training set, admissible as not in it, left out of the
comparison."""

SPREAD_FLOOR = 1e-6
"""Smallest standard deviation of a loss over seeds, in nats: losses that are exactly equal would divide by zero."""


class Access(StrEnum):
    """Access to a model, from the least: a taxonomy as in NIST AI 100-2 (2025), section 2.1."""

    LABEL = "label alone"
    PROBABILITIES = "probabilities"
    SAMPLES = "samples"
    GRADIENTS = "gradients"
    WEIGHTS = "weights"


@dataclass(frozen=True)
class AttackSpec:
    """One membership score."""

    name: str
    """Name of the score in tables and on the command line."""
    title: str
    """Name of the score in reports."""
    uses_twin: bool
    """Whether the score needs the twin's loss; decides which non-members are admissible."""
    control: bool
    """Whether the score is a control, which must not separate members from non-members and never counts as an
    attack."""
    function: AttackFunction
    """Function of the loss of the target [S, N] and of its twin [S, N] that returns scores [S, N], higher = more likely
    a
    member."""
    min_seeds: int = 1
    """Number of seeds in which an image must be scored; with fewer, the image has no score."""
    access: Access = Access.PROBABILITIES
    """Access to the attacked model that the score needs; models that the attacker trained are the attacker's own."""
    of_answers: bool = False
    """Whether the score is defined for losses of answers alone, as a ratio of probabilities is."""
    description: str = ""
    """Description of the attack below its table; empty for none."""


@dataclass(frozen=True)
class AttackScores:
    """Scores of one attack on every target, with the role of each image for that target."""

    attack: AttackSpec
    score: FloatArray
    """Scores [S, N], higher = more likely a member; NaN where ``role`` is NEITHER or the score is undefined."""
    role: NDArray[np.int8]
    """Roles [S, N], MEMBER, NON_MEMBER or NEITHER, against model A of each seed."""


def loss_threshold(loss_target: FloatArray, loss_twin: FloatArray) -> FloatArray:
    """Compute ``-loss_target`` (Yeom et al. 2018): members have the lower loss. The twin is not used.

    Example:
        >>> loss_threshold(np.array([0.1, 2.0]), np.array([1.0, 1.0])).tolist()
        [-0.1, -2.0]
    """
    return -loss_target


def independent_loss(loss_target: FloatArray, loss_twin: FloatArray) -> FloatArray:
    """Compute ``-loss_twin``, the control: a model that saw neither side separates them only if the sides differ.

    Example:
        >>> independent_loss(np.array([0.1, 2.0]), np.array([1.0, 1.0])).tolist()
        [-1.0, -1.0]
    """
    return -loss_twin


def confidence_ratio(loss_target: FloatArray, loss_twin: FloatArray) -> FloatArray:
    """Compute ``log p_target(y) - log p_twin(y)``: the log of the ratio of the probabilities of the true label.

    Example:
        >>> confidence_ratio(np.array([0.5, 2.0]), np.array([1.0, 1.0])).tolist()
        [0.5, -1.0]
    """
    return (-loss_target) - (-loss_twin)


def differential(loss_target: FloatArray, loss_twin: FloatArray) -> FloatArray:
    """Compute ``loss_twin - loss_target``: M itself as the attack, in one seed.

    Example:
        >>> differential(np.array([0.5, 2.0]), np.array([1.0, 1.0])).tolist()
        [0.5, -1.0]
    """
    return loss_twin - loss_target


def gaussian_likelihood_ratio(loss_target: FloatArray, loss_twin: FloatArray) -> FloatArray:
    """Compute ``log N(l; mu_target, s_target) - log N(l; mu_twin, s_twin)``, l the target's loss, fitted per image.

    Means and standard deviations (ddof 1, at least ``SPREAD_FLOOR``) are those of the image's own losses over seeds;
    the scored seed is among them, as in the paper, which helps members and non-members alike. For a member the two
    Gaussians are those of models that saw it and of models that did not. For an image of E *neither* model saw it:
    both Gaussians then describe unseen losses, and the score is the chance difference of two such fits. An image of
    C2 cannot replace it, since its twin's Gaussian is of models that did see it. Hence E only, each image in the
    order of models that a member's coins give (``attack_scores``).

    This is not LiRA (``lira.py``): a few seeds give a poor variance per image, and the model attacked is one of the
    fitted models.

    Args:
        loss_target: Losses of the model that saw the image (of either, for images of E), [S, N]; NaN where not scored.
        loss_twin: Losses of its twin, [S, N].

    Returns:
        Scores, [S, N]; NaN for images scored in fewer than two seeds.
    """
    both = np.isfinite(loss_target) & np.isfinite(loss_twin)
    n = both.sum(axis=0)  # [N]
    score = np.full(loss_target.shape, np.nan)
    enough = n >= 2
    target = np.where(both, loss_target, 0.0)[:, enough]
    twin = np.where(both, loss_twin, 0.0)[:, enough]
    score[:, enough] = _log_normal(target, *_fit(target, both[:, enough])) - _log_normal(
        target, *_fit(twin, both[:, enough])
    )
    score[~both] = np.nan
    return score


def _fit(values: FloatArray, present: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    n = present.sum(axis=0)
    mean = (values * present).sum(axis=0) / n
    variance = (np.square(values - mean) * present).sum(axis=0) / (n - 1)
    return mean, np.maximum(np.sqrt(variance), SPREAD_FLOOR)


def _log_normal(values: FloatArray, mean: FloatArray, spread: FloatArray) -> FloatArray:
    return -0.5 * np.square((values - mean) / spread) - np.log(spread) - 0.5 * np.log(2 * np.pi)


_OWN: dict[str, AttackSpec] = {
    spec.name: spec
    for spec in (
        AttackSpec(
            "loss_threshold", "Loss threshold", False, False, loss_threshold,
            description="Takes an image for a member if its true class surprises the model little. Needs the model's "
            "answer only.",
        ),
        AttackSpec(
            "confidence_ratio", "Confidence ratio", True, False, confidence_ratio, of_answers=True,
            description="Compares the model's confidence with that of its twin. From single answers the same as M.",
        ),
        AttackSpec(
            "differential", "M as attack", True, False, differential,
            description="M of one pair of models: the loss of the twin minus the loss of the model.",
        ),
        AttackSpec(
            "gaussian_likelihood_ratio", "Gaussian likelihood ratio", True, False, gaussian_likelihood_ratio, 2,
            description="Asks whether the loss is more like those of models that saw the image or of models that did "
            "not; the published attack.",
        ),
        AttackSpec(
            "independent_loss", "Independent loss", True, True, independent_loss,
            description="The control: the loss of a model that saw neither side. It tells members apart only if the "
            "comparison is unfair.",
        ),
    )
}  # fmt: skip
ATTACKS = Registry("memorisk.attacks", _OWN, AttackSpec)
"""Registered scores by name, in the order of the paper's tables, the control last; then those of plug-ins."""


def attack_spec(name: str) -> AttackSpec:
    """Return the registered score of that name.

    Raises:
        InputError: No score has that name.
    """
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    return ATTACKS[name]


def attack_scores(
    attack: AttackSpec | str, loss_a: ArrayLike, loss_b: ArrayLike, sign: ArrayLike, held_out: ArrayLike
) -> AttackScores:
    """Score every image against model A of every seed, with the non-members that the attack may be compared with.

    Members are C1 (sign +1). Non-members are C2 and E for scores of the target's loss alone, E only for scores that
    use the twin's. In the ``paper`` design A is the candidate, B the independent model, and sign is +1 on all of C.

    A score that uses the twin gets, for a member in the other seeds, the model that saw it first: A or B, by the coin
    of
    that seed. An image of E gets the order of a member of the seed attacked, members taken evenly over the rows. With A
    first in every seed the models would do to E what they do to no member: where models differ by half a nat in all
    their losses and memorize no image, the interval of the Gaussian likelihood ratio leaves out 0.5 in 24 to
    79 % of audits of 2 to 16 seeds (docs/results/attack_null.md).

    Args:
        attack: Specification of a score, or its registered name.
        loss_a: Losses of model A of each seed, in nats, [S, N].
        loss_b: Losses of its twin, in nats, [S, N].
        sign: Signs, [S, N]: +1 in C1 (A saw it), -1 in C2 (B saw it), 0 where both or neither did.
        held_out: Whether each image is in E, which no model saw, [N].

    Returns:
        Scores and roles, both [S, N].

    Raises:
        InputError: Shapes differ, a loss is infinite, a sign is not -1, 0 or +1, or an image of E has a sign.
    """
    spec = attack_spec(attack) if isinstance(attack, str) else attack
    a, b, signs, test = _validated(loss_a, loss_b, sign, held_out)
    if spec.uses_twin:
        score = _seen_first(spec, a, b, signs)
        for s, row in enumerate(signs):
            score[s, test] = _seen_first(spec, a[:, test], b[:, test], _orders_of_members(signs, row, test))[s]
    else:
        score = spec.function(a, np.where(np.isfinite(a), b, np.nan))
    role = np.full(signs.shape, NEITHER, dtype=np.int8)
    role[signs > 0] = MEMBER
    role[np.broadcast_to(test, signs.shape)] = NON_MEMBER
    if not spec.uses_twin:
        role[signs < 0] = NON_MEMBER
    role[~np.isfinite(score)] = NEITHER
    return AttackScores(spec, np.where(role == NEITHER, np.nan, score), role)


def _seen_first(spec: AttackSpec, a: FloatArray, b: FloatArray, signs: NDArray[np.int8]) -> FloatArray:
    """Score with, in every seed, the model that saw the image as the target; NaN where the sign is 0."""
    used = np.isfinite(a) & np.isfinite(b) & (signs != 0)
    target, twin = np.where(signs < 0, b, a), np.where(signs < 0, a, b)
    return spec.function(np.where(used, target, np.nan), np.where(used, twin, np.nan))


def _orders_of_members(signs: NDArray[np.int8], row: NDArray[np.int8], test: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return signs ``[S, images of E]``, each column a member's of the seed ``row``; +1 if the seed has no member."""
    members = np.flatnonzero(row > 0)
    n = int(test.sum())
    if not len(members):
        return np.ones((len(signs), n), dtype=np.int8)
    return signs[:, members[np.arange(n) * len(members) // max(n, 1)]]


def _validated(
    loss_a: ArrayLike, loss_b: ArrayLike, sign: ArrayLike, held_out: ArrayLike
) -> tuple[FloatArray, FloatArray, NDArray[np.int8], NDArray[np.bool_]]:
    a, b = np.asarray(loss_a, dtype=np.float64), np.asarray(loss_b, dtype=np.float64)
    signs, test = np.asarray(sign), np.asarray(held_out, dtype=bool)
    if a.ndim != 2 or a.shape != b.shape or a.shape != signs.shape or test.shape != a.shape[1:]:
        raise InputError(
            f"losses of both twins and signs must be [seeds, images], held_out [images]; "
            f"got {a.shape}, {b.shape}, {signs.shape}, {test.shape}"
        )
    if np.isinf(a).any() or np.isinf(b).any():
        raise InputError(
            "an attack's losses must be finite (NaN where a model was not queried); compute them from logits in float64"
        )
    if not np.isin(signs, (-1, 0, 1)).all():
        raise InputError("signs must be +1 (seen by model A), -1 (seen by its twin) or 0")
    if (signs[:, test] != 0).any():
        raise InputError("a held-out image has a sign: images of the test part must be in no model's training set")
    return a, b, signs.astype(np.int8), test
