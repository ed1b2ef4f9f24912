"""How the logits of a head are spread: paper 004's figure 6, of all pairs, and of the set beside them.

Pairs of images of one patient, of two patients, and of a synthetic and a training image, counted exactly
(`memorisk.scores.pairs`). The pairs of two patients are the null of the last.
"""

from dataclasses import dataclass

import numpy as np

from memorisk.audits.synthetic.measuring import FeatureTables
from memorisk.audits.synthetic.sets import Sets
from memorisk.scores import pairs
from memorisk.scores.pairs import Head
from memorisk.scores.similarity import HeadSimilarity

SAME, OTHER, SET = "same identity", "two identities", "synthetic, training"
BINS = 48
_SAMPLE = 4096  # pairs that the ends of the bins are read from


@dataclass(frozen=True, eq=False)
class Spread:
    """Pairs by their logit."""

    edges: np.ndarray
    """[b + 1]; what lies beyond is counted in the outermost bins."""
    counts: dict[str, np.ndarray]
    """[b] by kind of pair; nothing of pairs of one patient where nobody has two images."""
    itself: float
    """Logit of an image and itself."""
    above_itself: int
    """Pairs of two patients that reach it: with as many the detector does not see an exact copy."""


def logit_spread(similarity: HeadSimilarity, found: FeatureTables, sets: Sets) -> Spread:
    """Count the pairs of real images, training and held out alike, and those of the set with the training images.

    Args:
        similarity: Of the detector, whose search looks at all pairs.
        found: Its features.
        sets: For the patients.
    """
    real = np.concatenate([found.train, found.held])
    names = [sets.train.manifest.groups.astype(str)]
    if sets.held is not None:
        names.append(np.char.add("held out: ", sets.held.manifest.groups.astype(str)))
    groups = np.concatenate(names)
    head, search = similarity.head, similarity.search
    edges = _edges(head, real, found.synthetic)
    wide = np.array([-np.inf, *edges[1:-1], np.inf])
    between = search.survey(real, None, head, edges=wide, threshold=head.bias, limit=0, exclude_same=groups)
    beside = search.survey(found.synthetic, found.train, head, edges=wide).counts
    assert between.counts is not None
    assert between.pairs is not None
    assert beside is not None
    counts = {OTHER: between.counts, SET: beside}
    if len(np.unique(groups)) < len(groups):
        everything = search.survey(real, None, head, edges=wide).counts
        assert everything is not None
        counts[SAME] = everything - between.counts
    return Spread(edges, counts, head.bias, between.pairs.count)


def _edges(head: Head, real: np.ndarray, synthetic: np.ndarray) -> np.ndarray:
    """Bins between a low and a high logit of random pairs, with the logit 0 on an edge."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(len(real), size=(2, _SAMPLE))
    made, beside = rng.integers(len(synthetic), size=_SAMPLE), rng.integers(len(real), size=_SAMPLE)
    seen = [
        pairs.rowwise(real[one], real[other], head.weight, head.bias),
        pairs.rowwise(synthetic[made], real[beside], head.weight, head.bias),
    ]
    low = min(float(np.quantile(np.concatenate(seen), 0.001)), -1.0)
    high = max(head.bias, float(np.max(np.concatenate(seen))), 1.0)
    step = (high - low) / BINS
    return step * np.arange(np.floor(low / step), np.ceil(high / step) + 1)
