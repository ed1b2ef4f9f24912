"""The two losses of a copy detector, over a batch of images and one augmented copy of each (paper 003, section 3.2.2).

Each of the 2b embeddings is an anchor z_i; its positive z_i+ is the other embedding of its image; its negatives are
those of all other images, but for images of its own group: another X-ray of a patient is no stranger, and pushing it
away teaches a detector to overlook what copies of a patient share (METHODS section 3, "Same-group images masked out of
the negatives"). An anchor without a negative takes no part.

* ``triplet``: ``max(0, m + d(z_i, z_i+) - d(z_i, z_n))`` (equation 2), d Euclidean between embeddings at length 1, z_n
  the nearest negative (batch-hard; the positive is the only one), averaged over the anchors where it is above 0. Length
  and average are pytorch-metric-learning's, which the published code uses; the paper says neither. At their own length
  the embeddings of all images fell together within a few epochs on NIH's chest X-rays.
* ``infonce``: ``-log(exp(s(z_i, z_i+) / t) / (exp(s(z_i, z_i+) / t) + sum_n exp(s(z_i, z_n) / t)))`` (equations 3 and
  4), s the cosine, averaged over the anchors. It is computed as pytorch-metric-learning's SupConLoss, which with one
  positive is its NTXentLoss to rounding, and at 256 embeddings 200 times as fast.
"""

from collections.abc import Callable
from typing import Any

import torch

from memorisk.runs.errors import MissingExtraError, unknown_name
from memorisk.training.detectors.contrastive.options import MARGIN, MEASURES, TEMPERATURE

MetricLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(embeddings of images [b, d], of their copies [b, d], groups [b] of whole numbers) -> the loss []."""


def metric_loss(name: str, *, margin: float = MARGIN, temperature: float = TEMPERATURE) -> MetricLoss:
    """A loss by name.

    Args:
        name: "triplet" or "infonce".
        margin: m, of the triplet loss; two embeddings are at most 2 apart.
        temperature: t, of InfoNCE.

    Raises:
        InputError: Another name.
        MissingExtraError: pytorch-metric-learning is not installed.
    """
    if name not in MEASURES:
        raise unknown_name("loss", name, MEASURES)
    library = _library()
    if name == "infonce":
        return _infonce(library.SupConLoss(temperature=temperature))
    return _triplet(library.TripletMarginLoss(margin=margin, distance=_exact_euclidean()))


def negatives(groups: torch.Tensor) -> torch.Tensor:
    """Which embeddings may be a negative of which: [2b, 2b], False within a group.

    Args:
        groups: [b] of whole numbers; images, then copies, are in this order.
    """
    both = groups.repeat(2)
    return both[:, None] != both[None, :]


def _infonce(loss: Any) -> MetricLoss:
    """InfoNCE with one positive each."""

    def infonce(images: torch.Tensor, copies: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """Mean over the anchors that have a negative."""
        strangers = negatives(groups)
        anchors = strangers.any(dim=1).nonzero()[:, 0]
        of_pair, other = strangers.nonzero(as_tuple=True)
        return loss(torch.cat([images, copies]), indices_tuple=(anchors, _counterpart(anchors, groups), of_pair, other))

    return infonce


def _triplet(loss: Any) -> MetricLoss:
    """Triplet margin with the nearest negative each."""

    def triplet(images: torch.Tensor, copies: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
        """Mean over the anchors whose triplet is violated."""
        embeddings, strangers = torch.cat([images, copies]), negatives(groups)
        with torch.no_grad():
            distance = loss.distance(embeddings).masked_fill(~strangers, float("inf"))
            nearest = distance.argmin(dim=1)
        anchors = strangers.any(dim=1).nonzero()[:, 0]
        return loss(embeddings, indices_tuple=(anchors, _counterpart(anchors, groups), nearest[anchors]))

    return triplet


def _counterpart(anchors: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """The other embedding of each anchor's image."""
    return (anchors + len(groups)) % (2 * len(groups))


def _library() -> Any:
    """pytorch-metric-learning's losses."""
    try:
        from pytorch_metric_learning import losses
    except ImportError:
        raise MissingExtraError("pytorch-metric-learning", "detectors", "training a detector") from None
    return losses


def _exact_euclidean() -> Any:
    """Euclidean distances by differences: the form by products loses those between near-copies."""
    from pytorch_metric_learning.distances import LpDistance

    class Exact(LpDistance):
        """Of embeddings at length 1."""

        def compute_mat(self, query_emb: torch.Tensor, ref_emb: torch.Tensor) -> torch.Tensor:
            """All pairs."""
            return torch.cdist(query_emb, ref_emb, compute_mode="donot_use_mm_for_euclid_dist")

    return Exact(normalize_embeddings=True)
