"""From the losses of twins by noise level to a score table."""

import numpy as np

from memorisk.audits.classifier.evidence import Evidence, stack_evidence
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.scores.noise_errors import joined_losses, level_weights
from memorisk.statistics.verdicts.scales import NOISE_ERROR


def unseen_weights(plan: Plan, losses_a: np.ndarray, losses_b: np.ndarray) -> np.ndarray:
    """Compute the weights of the levels from the images that no twin saw, [L].

    Args:
        plan: Parts, designs and scored items.
        losses_a: Losses under A of each pair, [S, L, N].
        losses_b: Losses under B, [S, L, N].

    Raises:
        InputError: No level tells the models of a pair apart.
    """
    return level_weights(losses_a, losses_b, plan.parts.part == "test")


def generator_evidence(plan: Plan, losses_a: np.ndarray, losses_b: np.ndarray, weights: np.ndarray) -> Evidence:
    """Join the losses of the levels into one score table, in standard deviations of unseen gaps.

    Args:
        plan: Parts, designs and scored items.
        losses_a: Losses under A of each pair, [S, L, N].
        losses_b: Losses under B, [S, L, N].
        weights: Weights of the levels, [L].
    """
    joined_a, joined_b = (joined_losses(losses[:, :, plan.item_row], weights) for losses in (losses_a, losses_b))
    size, unknown = len(plan.parts.part), np.zeros(len(plan.items), dtype=bool)

    def columns(rows: np.ndarray, loss: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of a model that saw these rows."""
        member = np.zeros(size, dtype=bool)
        member[rows] = True
        return {"loss": loss, "margin": -loss, "correct": unknown, "member": member[plan.item_row]}

    halves = (
        (columns(design.rows_a, a), columns(design.rows_b, b))
        for design, a, b in zip(plan.designs, joined_a, joined_b, strict=True)
    )
    return stack_evidence(plan.items, plan.design, [design.seed for design in plan.designs], halves, scale=NOISE_ERROR)
