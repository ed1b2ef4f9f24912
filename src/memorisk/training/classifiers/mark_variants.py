"""Forms of a mark after augmentation in a training: how often the network saw it as it is, moved, mirrored or altered.

Paper 002, A.4 draws new augmentations for every batch, so that a mark burned into one image is seen in many forms.
Everything a training draws derives from (seed, epoch, step), so that these forms can be computed again afterwards: the
batch that holds the canary's slot is augmented twice, with the marked image in the slot and with the unmarked one, and
their difference is the remainder of the mark.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from memorisk.runs.errors import InputError
from memorisk.training.engine.optimization import batch_bounds, batch_order, step_seeds
from memorisk.training.engine.options import TrainOptions
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource, build_augmentation, choose_normalisation

MOST_PICTURES = 20
_TIE = 1e-6
_LEAST_ENERGY = 0.1


@dataclass(frozen=True)
class MarkVariants:
    """Forms of a mark after augmentation, in each epoch of a training."""

    same: np.ndarray
    """Whether the pixels of the mark's rectangle were exactly those before augmentation, [epochs] bool."""

    kept: np.ndarray
    """Sum over the image of squared differences between marked and unmarked, after augmentation over before, in pixels
    of [0, 1]; 0 where the mark is gone, above 1 where contrast rose or a line of it was repeated. [epochs] float64."""

    row_shift: np.ndarray
    """Shift in whole pixels downwards to the place that matches the mark best; 0 where it is gone. [epochs] int64."""

    column_shift: np.ndarray
    """Shift in whole pixels to the right to that place; 0 where the mark is gone. [epochs] int64."""

    mirrored: np.ndarray
    """Whether the mark mirrored left to right matches better than as it is, [epochs] bool."""

    pictures: np.ndarray
    """The distinct rectangles seen at the best matching places, at most 20, most frequent first, [P, h, w, C] uint8."""

    counts: np.ndarray
    """Number of epochs in which each was seen, [P] int64; the sum is less than the epochs where pictures exceed 20."""


@dataclass(frozen=True)
class ReplayedStep:
    """The step of an epoch whose batch holds the canary's slot."""

    marked: torch.Tensor
    """Input of the network, [b, C, H, W], with the marked image."""

    plain: torch.Tensor
    """Same input with the unmarked image in the slot, [b, C, H, W]."""

    at: int
    """Place of the slot in the batch."""


def mark_variants(
    images: Images,
    rows: np.ndarray,
    slot: int,
    marked: np.ndarray,
    options: TrainOptions,
    *,
    seed: int,
    epochs: int,
    normalisation: Normalisation | None,
    place: tuple[int, int],
    shape: tuple[int, int],
) -> MarkVariants:
    """Find the forms of the mark in each epoch of a training that `fit` ran on a CPU with these arguments.

    A training on a GPU draws the same; its factors of contrast are rounded differently.

    Args:
        images: Images of the set, as for `fit`, pixels [N, H, W, C].
        rows: Images trained on, in slot order; ``images[rows[slot]]`` is the unmarked canary.
        slot: Place of the canary in ``rows``.
        marked: The marked image that took that place, [H, W, C], in the type of ``images``.
        options: Settings of the training.
        seed: Random seed of the training.
        epochs: Number of epochs that ran.
        normalisation: Scaling of the pixels, as for `fit`.
        place: Row and column of the mark's rectangle, from the top left, in pixels.
        shape: Height and width of the rectangle, in pixels.

    Returns:
        The variants. Without augmentations every epoch has the mark as it is, and nothing is replayed.

    Raises:
        InputError: The images are not pixels, or slot, marked image and rectangle do not fit; the marked image differs
            from the unmarked one nowhere, or outside the rectangle; or as `fit`.
    """
    if epochs < 1:
        raise InputError(f"epochs is {epochs}; it must be at least 1")
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    before, plain = _marked_and_unmarked(images, rows, slot, marked, normalisation)
    rectangle = _rectangle(before.shape, place, shape)
    ruler = _MarkComparison(before, plain, rectangle, normalisation)
    if not options.augmentations:
        return _join_epochs([ruler.measure(before, plain)] * epochs)
    schedule = {"seed": seed, "epochs": epochs, "normalisation": normalisation}
    steps = replay(images, rows, slot, marked, options, **schedule)
    return _join_epochs([ruler.measure(step.marked[step.at], step.plain[step.at]) for step in steps])


def replay(
    images: Images,
    rows: np.ndarray,
    slot: int,
    marked: np.ndarray,
    options: TrainOptions,
    *,
    seed: int,
    epochs: int,
    normalisation: Normalisation | None,
) -> Iterator[ReplayedStep]:
    """Repeat the batch of each epoch that holds the slot, bit for bit as `fit` passed it to the network on a CPU.

    Args:
        images: Images of the set, as for `mark_variants`.
        rows: Images that were trained on, in slot order.
        slot: Place of the canary among them.
        marked: The canary with the mark.
        options: Settings of the training.
        seed: Random seed of the training.
        epochs: Number of epochs of the training.
        normalisation: Scaling of the pixels in the training.

    Raises:
        InputError: As `mark_variants`.
    """
    normalisation = normalisation or choose_normalisation(images, options.normalise)
    before, _ = _marked_and_unmarked(images, rows, slot, marked, normalisation)
    source = _source(images, rows, normalisation)
    augment = build_augmentation(options.augmentations, source)
    bounds = batch_bounds(len(rows), options.batch_size)
    for epoch in range(epochs):
        order = batch_order(seed, epoch, len(rows))
        position = int((order == slot).nonzero())
        step = next(number for number, (_, stop) in enumerate(bounds) if position < stop)
        start, stop = bounds[step]
        plain = next(source.batches([order[start:stop]]))
        with_mark = plain.clone()
        with_mark[position - start] = before
        if augment is not None:
            step_seed = step_seeds(seed, epoch, len(bounds))[step]
            plain, with_mark = augment(plain, step_seed), augment(with_mark, step_seed)
        yield ReplayedStep(with_mark, plain, position - start)


def _source(images: Images, rows: np.ndarray, normalisation: Normalisation | None) -> PixelSource:
    return PixelSource(
        images, rows, device=torch.device("cpu"), dtype=torch.float32, normalisation=normalisation
    )  # fmt: skip


def _marked_and_unmarked(
    images: Images, rows: np.ndarray, slot: int, marked: np.ndarray, normalisation: Normalisation | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the marked and the unmarked image as the network would see them unaugmented, [C, H, W] each."""
    if images.ndim != 4:
        raise InputError("a mark needs images; these are features")
    if not 0 <= slot < len(rows):
        raise InputError(f"slot is {slot}; there are {len(rows)}")
    source = _source(images, rows, normalisation)
    raw = torch.from_numpy(np.array(marked))
    stored = images.dtype if isinstance(images, torch.Tensor) else torch.from_numpy(np.empty(0, images.dtype)).dtype
    if tuple(raw.shape) != tuple(images.shape[1:]) or raw.dtype != stored:
        raise InputError(
            f"the marked image is {raw.dtype} of shape {tuple(raw.shape)}; "
            f"needed is one like the images, {stored} of shape {tuple(images.shape[1:])}"
        )
    return source.convert(raw[None])[0], next(source.batches([torch.tensor([slot])]))[0]


def _rectangle(image: torch.Size, place: tuple[int, int], shape: tuple[int, int]) -> tuple[slice, slice]:
    """Return the mark's rows and columns."""
    for start, length, side in zip(place, shape, image[1:], strict=True):
        if start < 0 or length < 1 or start + length > side:
            where = f"at {place[0]}, {place[1]} of {shape[0]} x {shape[1]} px"
            raise InputError(f"the mark's rectangle {where} does not lie within {image[1]} x {image[2]} px")
    return slice(place[0], place[0] + shape[0]), slice(place[1], place[1] + shape[1])


@dataclass(frozen=True)
class _MarkView:
    """View of the mark in one epoch."""

    same: bool
    kept: float
    row_shift: int
    column_shift: int
    mirrored: bool
    picture: np.ndarray


class _MarkComparison:
    """Comparison of the augmented mark with the mark itself.

    Args:
        before: The marked image before augmentation, [C, H, W], normalised.
        plain: The unmarked image, [C, H, W], normalised.
        rectangle: Rows and columns of the mark.
        normalisation: Scaling of both images.
    """

    def __init__(
        self,
        before: torch.Tensor,
        plain: torch.Tensor,
        rectangle: tuple[slice, slice],
        normalisation: Normalisation | None,
    ) -> None:
        assert normalisation is not None  # the images are pixels
        self.mean = torch.tensor(normalisation.mean, dtype=torch.float64)[:, None, None]
        self.std = torch.tensor(normalisation.std, dtype=torch.float64)[:, None, None]
        self.before, self.rectangle = before, rectangle
        difference = self._difference(before, plain)
        self.mark = difference[:, *rectangle]
        self.energy = float(self.mark.square().sum())
        if not self.energy:
            raise InputError("the marked image and the unmarked one are the same within the mark's rectangle")
        if float(difference.square().sum()) > self.energy * (1 + _TIE):
            raise InputError("the marked image differs from the unmarked one outside the mark's rectangle")

    def measure(self, marked: torch.Tensor, plain: torch.Tensor) -> _MarkView:
        """Measure the remainder of the mark between two augmented images, [C, H, W] each."""
        difference = self._difference(marked, plain)
        rows, columns = self.rectangle
        row, column, mirrored = _best_place(self.mark, difference, (rows.start, columns.start))
        window = marked[:, row : row + self.mark.shape[1], column : column + self.mark.shape[2]]
        pixels = ((window * self.std + self.mean).clamp(0, 1) * 255).round().to(torch.uint8)
        return _MarkView(
            same=torch.equal(marked[:, rows, columns], self.before[:, rows, columns]),
            kept=float(difference.square().sum()) / self.energy,
            row_shift=row - rows.start,
            column_shift=column - columns.start,
            mirrored=mirrored,
            picture=pixels.movedim(0, -1).contiguous().numpy(),
        )

    def _difference(self, marked: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
        """Subtract the images, in pixels of [0, 1], float64."""
        return (marked.double() - plain.double()) * self.std


def _best_place(mark: torch.Tensor, difference: torch.Tensor, place: tuple[int, int]) -> tuple[int, int, bool]:
    """Find the mark in a difference image: row and column of its rectangle, and whether it is mirrored.

    The cosine between the mark and each window of its size is 1 for a copy of any contrast. A change of contrast also
    moves the whole image by a constant, the median, which is taken off unless the mark covers half of the image;
    windows with less than a tenth of the energy of the strongest hold nothing to compare. Of equal ones the unmirrored
    and then the nearest counts: a line of the mark that is repeated at the border matches twice.

    Args:
        mark: Difference image within the mark's rectangle before augmentation, [C, h, w].
        difference: Difference image after augmentation, [C, H, W].
        place: Row and column that the mark had.
    """
    height, width = mark.shape[1:]
    if 2 * (height + 1) * (width + 1) < difference[0].numel():
        difference = difference - difference.flatten(1).median(dim=1).values[:, None, None]
    box = torch.ones(1, 1, height, width, dtype=torch.float64)
    energy = F.conv2d(difference.square().sum(dim=0)[None, None], box)[0, 0]
    if not float(energy.max()):
        return *place, False
    products = F.conv2d(difference[None], torch.stack([mark, mark.flip(2)]))[0]  # [2, H - h + 1, W - w + 1]
    cosine = products / (energy.sqrt() * mark.square().sum().sqrt())
    cosine[:, energy < _LEAST_ENERGY * energy.max()] = -torch.inf
    best = cosine >= cosine.max() - _TIE
    mirrored = not bool(best[0].any())
    rows, columns = best[int(mirrored)].nonzero(as_tuple=True)
    nearest = int(((rows - place[0]).abs() + (columns - place[1]).abs()).argmin())
    return int(rows[nearest]), int(columns[nearest]), mirrored


def _join_epochs(seen: list[_MarkView]) -> MarkVariants:
    """Join the views of all epochs, and count their pictures."""
    counted = Counter(one.picture.tobytes() for one in seen).most_common(MOST_PICTURES)
    shape = seen[0].picture.shape
    return MarkVariants(
        same=np.array([one.same for one in seen]),
        kept=np.array([one.kept for one in seen]),
        row_shift=np.array([one.row_shift for one in seen]),
        column_shift=np.array([one.column_shift for one in seen]),
        mirrored=np.array([one.mirrored for one in seen]),
        pictures=np.stack([np.frombuffer(data, np.uint8).reshape(shape) for data, _ in counted]),
        counts=np.array([count for _, count in counted]),
    )
