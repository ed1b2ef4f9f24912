"""An attack of a package beside memorisk."""

import numpy as np

from memorisk.scores.twin_attacks import AttackSpec


def loss_ratio(loss_target: np.ndarray, loss_twin: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the twin's loss divided by the target's, which is larger for members.

    Args:
        loss_target: Losses of the target in nats, one row per seed and one column per image, [S, N]; NaN where none.
        loss_twin: Losses of its twin, [S, N].

    Returns:
        Scores, [S, N].
    """
    smallest = 1e-3
    return np.log((loss_twin + smallest) / (loss_target + smallest))


attack = AttackSpec(
    name="loss_ratio",
    title="Ratio of the losses",
    uses_twin=True,
    control=False,
    function=loss_ratio,
    min_seeds=1,
)
