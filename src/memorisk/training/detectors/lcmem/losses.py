"""What a Siamese detector learns from: pairs by their probability, and by how they lie among all images of a batch.

    loss = a BCE(logit, positive) + (1 - a) NT-Xent,   a = 0.8

The paper's equation 3 has the two weights the other way round; its ablation (table 4) and its code have them like this
(METHODS section 4). Both terms are over one batch of b pairs, that is 2b images.

**NT-Xent.** Every image i of a positive pair is an anchor, the other one of its pair, p, the positive:

    -log(exp(s(i, p) / t) / (exp(s(i, p) / t) + sum over n of exp(s(i, n) / t))),   t = 0.07

averaged over the anchors, s the cosine of their features. The negatives n are all other images of the batch, those of
negative pairs too, but for images of the anchor's identity and for images with the same pixels; in the paper's form no
one is left out but i and p. An anchor without a negative takes no part.
"""

import torch
import torch.nn.functional as F

from memorisk.training.detectors.lcmem.options import BCE_SHARE, TEMPERATURE


def nt_xent(
    features: torch.Tensor, positive: torch.Tensor, identity: torch.Tensor, *, temperature: float = TEMPERATURE
) -> torch.Tensor:
    """NT-Xent over the images of a batch of pairs.

    Args:
        features: [2b, d]: the first images of the pairs, then the second.
        positive: [b] bool.
        identity: [2b] whole numbers; images with the same one are never negatives of each other. The paper's form: a
            number for each pair.
        temperature: t.

    Returns:
        [], 0 where no anchor has a negative.
    """
    b = len(positive)
    z = F.normalize(features.float(), dim=1)
    partner = torch.arange(2 * b, device=z.device).roll(b)
    anchors = positive.repeat(2).nonzero()[:, 0]
    similar = z[anchors] @ z.T / temperature  # [a, 2b]
    negative = identity[anchors, None] != identity[None, :]
    others = similar.masked_fill(~negative, -torch.inf)
    alike = similar.gather(1, partner[anchors, None])  # [a, 1]
    each = torch.logsumexp(torch.cat([alike, others], dim=1), dim=1) - alike[:, 0]
    able = negative.any(dim=1)
    return each[able].mean() if bool(able.any()) else each.sum() * 0


def pair_loss(
    features: torch.Tensor,
    logits: torch.Tensor | None,
    positive: torch.Tensor,
    identity: torch.Tensor,
    *,
    bce_share: float = BCE_SHARE,
    temperature: float = TEMPERATURE,
) -> torch.Tensor:
    """The joint loss of a batch of pairs.

    Args:
        features: [2b, d] as for `nt_xent`.
        logits: [b] of the pairs; None where there is no head.
        positive: [b] bool.
        identity: [2b] as for `nt_xent`.
        bce_share: a; 1 is binary cross-entropy alone, 0 NT-Xent alone.
        temperature: t.
    """
    loss = features.new_zeros((), dtype=torch.float32)
    if bce_share > 0:
        assert logits is not None
        loss = loss + bce_share * F.binary_cross_entropy_with_logits(logits.float(), positive.float())
    if bce_share < 1:
        loss = loss + (1 - bce_share) * nt_xent(features, positive, identity, temperature=temperature)
    return loss
