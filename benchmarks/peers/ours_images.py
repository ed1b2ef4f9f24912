"""memorisk's side of the cases about images: self-influence, duplicates, features of a detector."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from networks import checkpoints, cnn2

from memorisk.images.copies.duplicates import details, near_pairs, positions
from memorisk.images.copies.near_copies import thumbnails
from memorisk.models.classifiers.small_networks import SqueezeNet
from memorisk.models.classifiers.specs import CAFFE_MEAN
from memorisk.models.classifiers.zoo import create_model
from memorisk.scores.distances import fit_measure, pairwise
from memorisk.scores.influence import self_influence

Arrays = dict[str, np.ndarray]
Call = Callable[[], Arrays]
Prepare = Callable[[Arrays], Call]


def influence(data: Arrays) -> Call:
    """TracInCP, copy of the network and self-check included."""
    model, states = cnn2(), checkpoints(data)
    images, labels, rates = data["images"], data["labels"], data["lrs"].tolist()
    return lambda: {"score": self_influence(model, images, labels, states, rates).values}


def duplicates(data: Arrays, turned: bool) -> Call:
    """Thumbnails and all pairs from 0.95, the search of `images.copies.duplicates` by itself."""

    def run() -> Arrays:
        """Both sets."""
        found: Arrays = {}
        for part in ("ham10000", "nih"):
            small = thumbnails(data[f"{part}.images"])
            laid = [details(other) for other in positions(small)] if turned else ()
            pairs = near_pairs(details(small), threshold=0.95, laid=laid)
            found |= {f"{part}.first": pairs.first, f"{part}.second": pairs.second, f"{part}.score": pairs.similarity}
            found[f"{part}.thumbnails"] = small
        return found

    return run


def features(data: Arrays) -> Call:
    """The SqueezeNet of memorisk on the same weights, and the pairs with a cosine of 0.9 or more."""
    weights = str(data["weights"])
    model = create_model("squeezenet1_1_caffe", num_classes=2, weights=weights, seed=0).eval()
    assert isinstance(model, SqueezeNet)
    mean = 255 * torch.tensor(CAFFE_MEAN).view(1, 3, 1, 1)

    def run() -> Arrays:
        """Both sets, 32 images at a time."""
        found: Arrays = {}
        for part in ("ham10000", "nih"):
            x, vectors = data[f"{part}.images"], []
            with torch.no_grad():
                for start in range(0, len(x), 32):
                    batch = torch.from_numpy(x[start : start + 32]).permute(0, 3, 1, 2).float() - mean
                    vectors.append(model.forward_features(batch).mean(dim=(2, 3)).numpy())
            values = np.concatenate(vectors)
            cosine = 1 - pairwise(values, values, fit_measure("cosine", values))
            first, second = np.nonzero(np.triu(cosine >= 0.9, 1))
            found |= {f"{part}.first": first, f"{part}.second": second, f"{part}.score": cosine[first, second]}
            found[f"{part}.features"] = values
        return found

    return run


CASES: dict[str, Prepare] = {
    "influence": influence,
    "near_pairs": partial(duplicates, turned=False),
    "near_pairs_turned": partial(duplicates, turned=True),
    "features": features,
}
EXPLAINED: dict[str, Callable[[Arrays], np.ndarray]] = {}
