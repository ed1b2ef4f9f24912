"""A smaller data set drawn from a large one, stratified by class: paper 000, A.6, took 50,000 of ChestX-ray14.

Images are drawn, as in the paper, not patients: a patient may lose images, but those that stay keep their group, so
that no patient comes to lie on both sides of a split.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from memorisk.images.manifest import Manifest
from memorisk.images.wording import listed
from memorisk.runs.errors import InputError

_STREAM = 31  # keeps the random stream of samples apart from those of splits, pairing and training


def sample_sizes(counts: np.ndarray, n: int) -> np.ndarray:
    """Images to draw of each class: shares in proportion, rounded by largest remainders so that they add up to n.

    ``sizes_c = floor(n counts_c / N)``, and one more for the classes with the largest remainders (the first of equal
    ones), until ``sum(sizes) = n``; hence ``|sizes_c - n counts_c / N| < 1`` and ``sizes_c <= counts_c``.

    Args:
        counts: Images of each class, whole numbers [k], N in all.
        n: Images to draw, at most N.

    Returns:
        Whole numbers [k].

    Raises:
        InputError: n is negative or larger than N.
    """
    counts = np.asarray(counts, dtype=np.int64)
    total = int(counts.sum())
    if not 0 <= n <= total:
        raise InputError(f"a sample of {n:,} cannot be drawn from {total:,} images")
    products = [n * int(count) for count in counts]  # exact: Python's whole numbers do not overflow
    sizes = np.array([product // total for product in products], dtype=np.int64)
    remainders = [product % total for product in products]
    order = sorted(range(len(products)), key=lambda c: -remainders[c])
    sizes[order[: n - int(sizes.sum())]] += 1
    return sizes


def sample_manifest(manifest: Manifest, n: int, seed: int = 0) -> Manifest:
    """A random sample of a manifest's images, stratified by (first-listed) label; its rows keep their order.

    The draw depends on the ids, the labels and the seed, not on the order of the rows. Classes keep their shares
    within one image (`sample_sizes`); a class whose share is below half an image may lose all of them, which is noted.

    Args:
        manifest: Images; several findings joined by ``|`` count for the first. Images without a label are a stratum.
        n: How many to draw; at least as many as there are gives the manifest as it is, with a note.
        seed: Decides the draw.

    Returns:
        The manifest of the images drawn, with a note that says the rule.

    Raises:
        InputError: n is below 1.
    """
    if n < 1:
        raise InputError(f"sample is {n}; give a whole number of at least 1")
    if n >= manifest.n:
        note = f"All {manifest.n:,} images are kept: no more than the {n:,} of the sample asked for."
        return replace(manifest, notes=(*manifest.notes, note))
    first = np.array([label.split("|", 1)[0] for label in manifest.labels], dtype=object)
    classes = sorted(set(first))
    counts = Counter(first)
    sizes = sample_sizes(np.array([counts[c] for c in classes]), n)
    by_id = np.argsort(manifest.images.astype(str), kind="stable")
    rng = np.random.default_rng([_STREAM, seed])
    drawn = [
        rng.choice(by_id[first[by_id] == c], size=size, replace=False) for c, size in zip(classes, sizes, strict=True)
    ]
    rows = np.sort(np.concatenate(drawn))
    lost = [c or "(no label)" for c, size in zip(classes, sizes, strict=True) if not size]
    gone = f" No image of {listed(lost)} was drawn." if lost else ""
    note = (
        f"Sample: {n:,} of {manifest.n:,} images, stratified by first-listed label, drawn by image with seed {seed}: "
        f"{_torn(manifest.groups, rows):,} groups lost some of their images, none is on both sides of a split.{gone}"
    )
    sampled = manifest.subset(rows)
    return replace(sampled, notes=(*manifest.notes, note), n_not_sampled=manifest.n - n)


def _torn(groups: np.ndarray, rows: np.ndarray) -> int:
    """How many groups lost some images, but not all."""
    before, after = Counter(groups), Counter(groups[rows])
    return sum(after[group] < before[group] for group in after)
