"""Self-influence of images (TracInCP): exact squared gradient norms, where possible without a gradient per image.

The one part of ``scores`` that needs a network, and hence PyTorch; every other score takes arrays. Start with
`tracin`; `passes` plans and runs a batch, `parameter_uses` and `gradient_norms` hold the short ways.
"""

from memorisk.scores.influence.inputs import LOSSES
from memorisk.scores.influence.tracin import SelfInfluence, evenly_spaced_checkpoints, self_influence

__all__ = ["LOSSES", "SelfInfluence", "evenly_spaced_checkpoints", "self_influence"]
