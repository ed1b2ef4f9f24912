"""What every peer and memorisk are given: the same arrays, from real images where there are some, in files of arrays.

* membership: 66 small networks (32 hidden units) on scikit-learn's digits, a tenth of the labels wrong, as 33 twin
  pairs, each network on one half of the images; model A of the first pair is attacked, its twin left out; 400 images
  that no model saw are RMIA's population.
* influence: CNN-2 of paper 002 on images of noise, random weights, two checkpoints.
* neighbours: clustered vectors, 512 columns, some references among the queries exactly.
* quality, memorization, copies: images of DATA; without it, digits, and no copies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from networks import cnn2

from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.scores.memorization import logit_margin
from memorisk.training.features.matrix import load_features

Arrays = dict[str, np.ndarray]
SQUEEZENET = "weights_squeezenet_imagenet/squeezenet11_features_derived_oihw.npz"
NIH = r"(\d{8})_\d{3}"


@dataclass(frozen=True)
class Given:
    """What the inputs are made of."""

    data: Path | None
    """Folder of data sets."""
    small: bool
    """A quick run, whose numbers mean nothing."""


def membership(given: Given) -> Arrays:
    """Statistic phi, probability of the true label under a target and 64 references, each of which saw half of them."""
    from sklearn.datasets import load_digits

    x, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(x)) < 0.1
    labels = np.where(wrong, rng.integers(0, 10, len(x)), labels)
    order = rng.permutation(len(x))
    scored, population = order[400:700] if given.small else order[400:1200], order[:400]
    pairs = 9 if given.small else 33
    first = rng.random((pairs, len(scored))) < 0.5
    member = np.stack([first, ~first], axis=1).reshape(2 * pairs, -1)
    logits = _networks(x / 16, labels, scored, member, 40 if given.small else 150)
    phi = np.stack([logit_margin(one, labels) for one in logits])
    log_p = -np.logaddexp(0.0, -phi)
    kept = [0, *range(2, 2 * pairs)]  # not the target's twin
    exact = np.exp(logits - logits.max(axis=2, keepdims=True))
    shares = exact / exact.sum(axis=2, keepdims=True)
    return {
        "logits": logits[kept][:, scored],
        "shares": shares[kept][:, scored],
        "labels": labels[scored],
        "phi": phi[kept][:, scored],
        "p": np.exp(log_p)[kept][:, scored],
        "member": member[[0, *range(2, 2 * pairs)]],
        "population_p": np.exp(log_p)[kept][:, population],
        "population_loss": -log_p[0, population],
    }


def _networks(x: np.ndarray, labels: np.ndarray, scored: np.ndarray, member: np.ndarray, steps: int) -> np.ndarray:
    """[K, N, 10] logits of all networks on all images, trained side by side by Adam on the whole of their halves."""
    generator = torch.Generator().manual_seed(0)
    k, inputs, y = len(member), torch.from_numpy(x).float(), torch.from_numpy(labels)
    shapes = ((k, 64, 32), (k, 1, 32), (k, 32, 10), (k, 1, 10))
    weights = [(torch.randn(shape, generator=generator) * shape[1] ** -0.5).requires_grad_() for shape in shapes]
    optimiser = torch.optim.Adam(weights, lr=0.02)
    saw = torch.from_numpy(member).float()
    some, targets = inputs[scored].expand(k, -1, -1), y[scored].expand(k, -1)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(_forward(weights, some).transpose(1, 2), targets, reduction="none")
        optimiser.zero_grad()
        ((loss * saw).sum() / saw[0].sum()).backward()
        optimiser.step()
    with torch.no_grad():
        return _forward(weights, inputs.expand(k, -1, -1)).double().numpy()


def _forward(weights: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weights[0] + weights[1]) @ weights[2] + weights[3]


def influence(given: Given) -> Arrays:
    """Images of noise [N, 3, 32, 32], labels, two checkpoints of CNN-2 and their learning rates."""
    rng = np.random.default_rng(0)
    n = 16 if given.small else 48
    found: Arrays = {
        "images": rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8),
        "labels": np.arange(n) % 10,
        "lrs": np.array([0.1, 0.02]),
    }
    for s in range(2):
        torch.manual_seed(s)
        found |= {f"checkpoint{s}.{name}": value.numpy() for name, value in cnn2().state_dict().items()}
    return found


def neighbours(given: Given) -> Arrays:
    """Queries and references of 512 columns about 40 centres; every eighth query is a reference."""
    rng = np.random.default_rng(0)
    n = 256 if given.small else 3072
    centres = 4 * rng.normal(size=(40, 512))
    queries, references = ((centres[rng.integers(0, 40, m)] + rng.normal(size=(m, 512))) for m in (n, 2 * n))
    queries[::8] = references[: len(queries[::8])]
    return {"queries": queries.astype(np.float32), "references": references.astype(np.float32)}


def quality(given: Given) -> Arrays:
    """Features of real images, and of others with noise of half a standard deviation on every second one."""
    values = _features(given, 200 if given.small else 2000)
    rng = np.random.default_rng(1)
    real, other = values[::2], values[1::2].copy()
    other[::2] += rng.normal(scale=0.5 * values.std(axis=0), size=other[::2].shape)
    return {"real": real, "synthetic": other}


def memorization(given: Given) -> Arrays:
    """Features of training and of test images, and three sets: honest, with copies (a tenth), drawn together.

    Honest are further real images. Of the copies, every second one is exact, the others are off by a twentieth of a
    standard deviation. Drawn together are further real images a fifth of the way to the training images' mean.
    """
    values = _features(given, 400 if given.small else 2000)
    rng = np.random.default_rng(2)
    n = len(values) // 4
    train, test, honest = values[: 2 * n], values[2 * n : 3 * n], values[3 * n : 4 * n]
    copies = honest.copy()
    k = n // 10
    copies[:k] = train[rng.permutation(len(train))[:k]]
    copies[:k:2] += rng.normal(scale=0.05 * values.std(axis=0), size=copies[:k:2].shape)
    sets = {
        "train": train,
        "test": test,
        "honest": honest,
        "copies": copies,
        "drawn_together": honest + 0.2 * (train.mean(axis=0) - honest),
    }
    return sets | _cells(sets)


def _cells(sets: Arrays) -> Arrays:
    """What C_T is asked of: 64 principal components at most, three cells of k-means, fitted on training images."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA

    pca = PCA(n_components=min(64, *sets["train"].shape), random_state=0).fit(sets["train"])
    reduced = {name: pca.transform(values) for name, values in sets.items()}
    cells = KMeans(n_clusters=3, n_init=10, random_state=0).fit(reduced["train"])
    found = {f"reduced.{name}": values for name, values in reduced.items()}
    return found | {f"cell.{name}": cells.predict(values) for name, values in reduced.items()}


def _features(given: Given, n: int) -> np.ndarray:
    """[n, d] float64: SqueezeNet of HAM10000, or pixels of digits without DATA."""
    rng = np.random.default_rng(3)
    if given.data is None:
        from sklearn.datasets import load_digits

        values = load_digits(return_X_y=True)[0]
    else:
        store = _store(given.data / "ham10000_224", 224, None, n)
        values = load_features(store, f"squeezenet1_1_caffe@{given.data / SQUEEZENET}").values
    return np.asarray(values, dtype=np.float64)[rng.permutation(len(values))[:n]]


def copies(given: Given) -> Arrays:
    """Real images of different lesions or patients, and seven kinds of copies (`images.alterations.plants`)."""
    if given.data is None:
        return {}
    rng = np.random.default_rng(4)
    n, planted = (40, 2) if given.small else (150, 20)
    found: Arrays = {"weights": np.array(str(given.data / SQUEEZENET))}
    for name, folder, size, pattern in (
        ("ham10000", "ham10000_224", 224, None),
        ("nih", "nih_cxr14_64/NIH1000", 64, NIH),
    ):
        store = _store(given.data / folder, size, pattern, n)
        images = [np.broadcast_to(image, (size, size, 3)) for image in np.asarray(store.images)]
        sources, kinds = list(range(len(images))), ["original"] * len(images)
        for number, (kind, how) in enumerate(PLANT_KINDS.items()):
            for source in range(number * planted, (number + 1) * planted):
                made = plant_copy(how, np.ascontiguousarray(images[source]), np.ascontiguousarray(images[-1]), rng)
                if made is not None:
                    images.append(made.pixels)
                    sources.append(source)
                    kinds.append(kind)
        found |= {
            f"{name}.images": np.stack(images),
            f"{name}.source": np.array(sources),
            f"{name}.kind": np.array(kinds),
        }
    return found


def _store(folder: Path, size: int, pattern: str | None, n: int) -> ImageStore:
    """Some images of a folder, of different patients, drawn at random."""
    options = ImageOptions(size=size, group_from=pattern, skip_unreadable=True)
    manifest = load_manifest(folder, options)
    rows = np.unique(manifest.groups, return_index=True)[1]
    return build_store(manifest.subset(np.sort(np.random.default_rng(5).permutation(rows)[:n])), options)


INPUTS: dict[str, Callable[[Given], Arrays]] = {
    one.__name__: one for one in (membership, influence, neighbours, quality, memorization, copies)
}
"""Every group of inputs by name."""
