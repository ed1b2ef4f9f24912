"""The losses of detectors: two for a copy detector, and one for a Siamese detector over pairs.

A copy detector learns from a batch of images and one augmented copy of each (paper 003, section 3.2.2). Each of the 2b
embeddings is an anchor z_i; its positive z_i+ is the other embedding of its image; its negatives are those of all other
images, except images of its own group: another X-ray of a patient is not a different person, and pushing it away
teaches a detector to overlook what copies of a patient share (METHODS section 3, "Same-group images masked out of the
negatives"). An anchor without a negative takes no part.

* ``triplet``: ``max(0, m + d(z_i, z_i+) - d(z_i, z_n))`` (equation 2), d Euclidean between embeddings at length 1, z_n
  the nearest negative (batch-hard; the positive is the only one), averaged over the anchors where it is above 0. Length
    and average are pytorch-metric-learning's, which the published code uses; the paper names neither. At their own
  length the embeddings of all images fell together within a few epochs on NIH's chest X-rays.
* ``infonce``: ``-log(exp(s(z_i, z_i+) / t) / (exp(s(z_i, z_i+) / t) + sum_n exp(s(z_i, z_n) / t)))`` (equations 3 and
  4), s the cosine, averaged over the anchors. It is computed as pytorch-metric-learning's SupConLoss, which with one
  positive is its NTXentLoss to rounding, and at 256 embeddings 200 times as fast.

A Siamese detector learns pairs by their probability, and by their place among all images of a batch:

    loss = a BCE(logit, positive) + (1 - a) NT-Xent,   a = 0.8

The paper's equation 3 has the two weights the other way round; its ablation (table 4) and its code have them like this
(METHODS section 4). Both terms are over one batch of b pairs, that is 2b images.

**NT-Xent.** Every image i of a positive pair is an anchor, the other one of its pair, p, the positive:

    -log(exp(s(i, p) / t) / (exp(s(i, p) / t) + sum over n of exp(s(i, n) / t))),   t = 0.07

averaged over the anchors, s the cosine of their features. The negatives n are all other images of the batch, those of
negative pairs too, except images of the anchor's identity and images with the same pixels; in the paper's form only i
and p are left out. An anchor without a negative takes no part.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from memorisk.runs.errors import MissingExtraError, unknown_name
from memorisk.training.detectors.options import BCE_SHARE, INFONCE_TEMPERATURE, MARGIN, MEASURES, NT_XENT_TEMPERATURE

MetricLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Function from (embeddings of images [b, d], of their copies [b, d], groups [b] of whole numbers) to the loss []."""


def metric_loss(name: str, *, margin: float = MARGIN, temperature: float = INFONCE_TEMPERATURE) -> MetricLoss:
    """Build a loss by name.

    Args:
        name: Name of the loss, "triplet" or "infonce".
        margin: Margin m of the triplet loss; two embeddings are at most 2 apart.
        temperature: Temperature t of InfoNCE.

    Raises:
        InputError: The name is neither of them.
        MissingExtraError: pytorch-metric-learning is not installed.
    """
    if name not in MEASURES:
        raise unknown_name("loss", name, MEASURES)
    library = _library()
    if name == "infonce":
        return _infonce(library.SupConLoss(temperature=temperature))
    return _triplet(library.TripletMarginLoss(margin=margin, distance=_exact_euclidean()))


def negatives(groups: torch.Tensor) -> torch.Tensor:
    """Mark the pairs of embeddings that may be negatives of each other: [2b, 2b], False within a group.

    Args:
        groups: Group of each image, [b] of whole numbers; images, then copies, are in this order.
    """
    both = groups.repeat(2)
    return both[:, None] != both[None, :]


def _infonce(loss: Any) -> MetricLoss:
    """Build InfoNCE with one positive per anchor."""

    def infonce(images: torch.Tensor, copies: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """Average the loss over the anchors that have a negative."""
        strangers = negatives(groups)
        anchors = strangers.any(dim=1).nonzero()[:, 0]
        of_pair, other = strangers.nonzero(as_tuple=True)
        return loss(torch.cat([images, copies]), indices_tuple=(anchors, _positive_of(anchors, groups), of_pair, other))

    return infonce


def _triplet(loss: Any) -> MetricLoss:
    """Build the triplet margin loss with the nearest negative of each anchor."""

    def triplet(images: torch.Tensor, copies: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """Average the loss over the anchors whose triplet is violated."""
        embeddings, strangers = torch.cat([images, copies]), negatives(groups)
        with torch.no_grad():
            distance = loss.distance(embeddings).masked_fill(~strangers, float("inf"))
            nearest = distance.argmin(dim=1)
        anchors = strangers.any(dim=1).nonzero()[:, 0]
        return loss(embeddings, indices_tuple=(anchors, _positive_of(anchors, groups), nearest[anchors]))

    return triplet


def _positive_of(anchors: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the place of the other embedding of each anchor's image."""
    return (anchors + len(groups)) % (2 * len(groups))


def _library() -> Any:
    """Import the losses of pytorch-metric-learning."""
    try:
        from pytorch_metric_learning import losses
    except ImportError:
        raise MissingExtraError("pytorch-metric-learning", "detectors", "training a detector") from None
    return losses


def _exact_euclidean() -> Any:
    """Build Euclidean distances by differences: the form by products loses those between near-copies."""
    from pytorch_metric_learning.distances import LpDistance

    class Exact(LpDistance):
        """Distance of embeddings at length 1."""

        def compute_mat(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
            """Compute the distances of all pairs."""
            return torch.cdist(query_emb, ref_emb, compute_mode="donot_use_mm_for_euclid_dist")

    return Exact(normalize_embeddings=True)


def nt_xent(
    features: torch.Tensor, positive: torch.Tensor, identity: torch.Tensor, *, temperature: float = NT_XENT_TEMPERATURE
) -> torch.Tensor:
    """Compute NT-Xent over the images of a batch of pairs.

    Args:
        features: Features of the images, [2b, d]: the first images of the pairs, then the second.
        positive: Whether each pair is positive, [b] bool.
        identity: Identity of each image, [2b] whole numbers; images with the same one are never negatives of each
            other. The paper's form has one number for each pair.
        temperature: Temperature t of the loss.

    Returns:
        Loss [], 0 where no anchor has a negative.
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
    temperature: float = NT_XENT_TEMPERATURE,
) -> torch.Tensor:
    """Compute the joint loss of a batch of pairs.

    Args:
        features: Features of the images, [2b, d], as for `nt_xent`.
        logits: Logits of the pairs, [b]; None where the network has no head.
        positive: Whether each pair is positive, [b] bool.
        identity: Identity of each image, [2b], as for `nt_xent`.
        bce_share: Weight a; 1 is binary cross-entropy alone, 0 NT-Xent alone.
        temperature: Temperature t of NT-Xent.
    """
    loss = features.new_zeros((), dtype=torch.float32)
    if bce_share > 0:
        assert logits is not None
        loss = loss + bce_share * F.binary_cross_entropy_with_logits(logits.float(), positive.float())
    if bce_share < 1:
        loss = loss + (1 - bce_share) * nt_xent(features, positive, identity, temperature=temperature)
    return loss
