"""From the losses of twins by noise level to a score table, and how well the twins denoise what they never saw."""

import numpy as np
import scipy

from memorisk.audits.classifier.evidence import Evidence, stack_evidence
from memorisk.audits.classifier.plan import Plan
from memorisk.audits.classifier.result import DenoisingUtility
from memorisk.scores.noise_errors import joined_losses, level_weights


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
    return stack_evidence(plan.items, plan.design, [design.seed for design in plan.designs], halves)


def denoising_utility(
    losses: np.ndarray, guesses: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> DenoisingUtility:
    """Compare the twins' losses on images that they never saw with those of a trivial prediction.

    The lower limit is over groups (of unequal size: residuals added up within each) and models, both normal.

    Args:
        losses: Losses on unseen images, [K, L, J].
        guesses: Losses of the trivial prediction on the same images (`twin_jobs.guessed_losses`), [L, J].
        weights: Weights of the levels, [L].
        groups: Patient of each image, [J].
    """
    model, trivial = joined_losses(losses, weights), joined_losses(guesses, weights)  # [K, J], [J]
    share = (trivial - model) / trivial.mean()
    each = share.mean(axis=0)
    unit = np.unique(groups.astype(str), return_inverse=True)[1]
    residual = np.bincount(unit, weights=each - each.mean())
    n = len(residual)
    explained = float(each.mean())
    if n < 2:
        return DenoisingUtility(explained=explained, explained_low=None, beats_guessing=None)
    of_groups = (residual**2).sum() / len(each) ** 2 * n / (n - 1)
    of_models = share.mean(axis=1).var(ddof=1) / len(share)
    low = explained - float(scipy.stats.norm.ppf(0.975) * np.sqrt(of_groups + of_models))
    return DenoisingUtility(explained=explained, explained_low=low, beats_guessing=low > 0)
