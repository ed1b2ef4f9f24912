"""Self-influence of images (TracInCP): exact squared gradient norms, where possible without a gradient per image.

The one part of ``scores`` that needs a network, and hence PyTorch; every other score takes arrays.
"""

from memorisk.scores.influence.epochs import evenly_spaced_checkpoints
from memorisk.scores.influence.losses import LOSSES
from memorisk.scores.influence.measure import self_influence
from memorisk.scores.influence.result import SelfInfluence

__all__ = ["LOSSES", "SelfInfluence", "evenly_spaced_checkpoints", "self_influence"]
