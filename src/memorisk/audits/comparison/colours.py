"""Colours of a generated set: an image can lie in them unseen by all that compares luma or averages channels.

Near copies, the second look and planted copies see grey. Two checks see the rest:

* *Real images are grey* (no pixel's channels differ by more than `COLOUR_NOISE`). A generated image of more colour
  shows what no real image has, and what no comparison with them can rule out: it is counted.
* *Any coloured set*: the single channels and the differences of two channels, in either sign, of each generated image
  are compared with luma and differences of each training image, as near copies are. Thumbnails and fine details of
  these planes follow `near_copies`; its rule is learned from all planes of real images, so that its threshold is one
  for different people in whatever planes. A difference of two channels is free of any grey picture.

Not covered: an image that is spread over channels in other proportions below a picture of strong colours of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil

import numpy as np

from memorisk.audits.comparison.sets import Sets
from memorisk.images.copies.duplicates import LUMA
from memorisk.images.copies.near_copies import RULE_IMAGES, CopyRule, copy_rule, near_copies_between, thumbnails
from memorisk.images.store import ImageStore
from memorisk.images.volumes import is_volume
from memorisk.runs.workload import Progress

COLOUR_NOISE = 2
"""Most that the channels of a grey pixel differ by, of 255: JPEG rounds two differences of colour to whole numbers, of
which a half is at most 0.89 in blue and 0.70 in red."""
_OF_TRAINING: list[list[float]] = [[*LUMA], [1, -1, 0], [1, 0, -1], [0, 1, -1]]
_OF_SYNTHETIC = [[1, 0, 0], [0, 1, 0], [0, 0, 1], *_OF_TRAINING[1:], [-1, 1, 0], [-1, 0, 1], [0, -1, 1]]
_OF_REAL = [_OF_TRAINING[0], *_OF_SYNTHETIC]


@dataclass(frozen=True, eq=False)
class Colours:
    """Findings in the colours of a generated set."""

    n_unlike_real: int = 0
    """Number of synthetic images of more colour than noise, where all real images are grey."""
    alike: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Similarity of the planes of each pair of a synthetic image and a training image that it holds in its colours."""
    could_not_look: bool = False
    """Whether planes of colour could not be compared, or not all of them."""


NO_COLOURS = Colours()


class _Planes(Sequence[np.ndarray]):
    """Planes [h, w, 1] of images: each image's, one after the other."""

    def __init__(self, images: Sequence[np.ndarray] | np.ndarray, rows: np.ndarray, weights: list[list[float]]) -> None:
        self.images, self.rows, self.weights = images, rows, np.array(weights, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.rows) * len(self.weights)

    def __getitem__(self, at: int) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        row, plane = divmod(int(at), len(self.weights))
        return (np.asarray(self.images[self.rows[row]]).astype(np.float32) @ self.weights[plane])[..., None]


def compared_planes(sets: Sets) -> tuple[int, bool]:
    """Count the pairs of planes that `look_at_colours` compares.

    Returns:
        The number, and whether it is an upper bound: blank planes are compared with nothing while the rule is learned.
    """
    coloured, rule_planes = len(_coloured(sets.synthetic)), len(_OF_REAL) * len(_rule_rows(sets))
    if not coloured:
        return 0, False
    pairs = coloured * len(_OF_SYNTHETIC) * len(sets.train.images) * len(_OF_TRAINING)
    return pairs + rule_planes * (rule_planes - 1) // 2, len(_coloured(sets.real)) < len(sets.real.images)


def look_at_colours(sets: Sets, known: frozenset[tuple[int, int]], progress: Progress) -> Colours:
    """Look for training images in the colours of synthetic ones.

    Args:
        sets: Images of all parts, with as many channels.
        known: Rows of synthetic and training images that are nearly identical in luma.
        progress: Called with (stage, done, total).
    """
    synthetic, train = sets.synthetic.images, sets.train.images
    coloured = _coloured(sets.synthetic)
    if not len(coloured):
        return NO_COLOURS
    noise = COLOUR_NOISE * (257 if synthetic.dtype == np.uint16 else 1)
    grey = _channel_spread(sets.real).max() <= noise
    n_unlike_real = int((_channel_spread(sets.synthetic) > noise).sum()) if grey else 0
    rule = _rule(sets, len(coloured), progress)
    if rule.chance.similarity is None:
        return Colours(n_unlike_real, could_not_look=True)
    ours = _Planes(synthetic, coloured, _OF_SYNTHETIC)
    theirs = _Planes(train, np.arange(len(train)), _OF_TRAINING)
    small, small_real = (
        thumbnails(planes, progress=partial(progress, "looking at colours")) for planes in (ours, theirs)
    )
    counted = partial(progress, "looking for near copies in colours")
    near = near_copies_between(small, small_real, rule, ours.__getitem__, theirs.__getitem__, progress=counted)[1]
    confirmed = near.only(near.confirmed)
    images = coloured[confirmed.first // len(_OF_SYNTHETIC)].tolist()
    pairs = zip(images, (confirmed.second // len(_OF_TRAINING)).tolist(), confirmed.similarity.tolist(), strict=True)
    alike: dict[tuple[int, int], float] = {}
    for image, real, similarity in pairs:  # the most similar planes of a pair come first
        if (image, real) not in known:
            alike.setdefault((image, real), similarity)
    return Colours(n_unlike_real, alike, near.n_pairs > len(near.first))


def _coloured(store: ImageStore) -> np.ndarray:
    """Return the rows of images whose channels differ."""
    shape = store.images.shape[1:]
    return np.zeros(0, dtype=np.intp) if is_volume(shape) or shape[2] != 3 else np.flatnonzero(_channel_spread(store))


def _channel_spread(store: ImageStore) -> np.ndarray:
    """Return the largest difference between channels of one pixel, of each image, [N]."""
    return np.array(
        [int(np.ptp(np.asarray(image).astype(np.int32), axis=2).max()) for image in store.images], dtype=np.int64
    )


def _rule_rows(sets: Sets) -> np.ndarray:
    """Return rows of real images of different pixels, as many as a search over all pairs of their planes allows."""
    rows, most = np.unique(sets.real.pixel_hashes.astype(str), return_index=True)[1], RULE_IMAGES // len(_OF_REAL)
    return np.sort(rows if len(rows) <= most else np.random.default_rng(0).permutation(np.sort(rows))[:most])


def _rule(sets: Sets, n_synthetic: int, progress: Progress) -> CopyRule:
    """Learn how alike planes of two different people are."""
    real = sets.real
    held_out = np.arange(len(real.images)) >= len(sets.train.images)
    people = np.char.add(np.where(held_out, "held out: ", "training: "), real.manifest.groups.astype(str))
    n_people, rows = len(np.unique(people)), _rule_rows(sets)
    planes = _Planes(real.images, rows, _OF_REAL)
    return copy_rule(
        thumbnails(planes, progress=partial(progress, "looking at colours")),
        np.repeat(people[rows], len(_OF_REAL)),
        planes.__getitem__,
        laid="mirrored",
        ids_given=sets.groups_given,
        compared_with=ceil(n_synthetic * n_people / len(np.unique(people[rows]))),
        progress=partial(progress, "learning how alike two people are in colours"),
    )
