"""Augmented copies of images: they train a copy detector, which must recognise them (METHODS section 3).

=============  =================================================================  ========  ==========
operation      drawn                                                              weak, p   strong, p
=============  =================================================================  ========  ==========
rotation       2 to 20 degrees either way                                         .7        1
scale          one factor for both sides: .8 to 1.2 weak, .6 to 1.4 strong        .5        1
mirror         left to right                                                      .5        .6
upside_down    top to bottom                                                      .5        .6
bias_field     ten coefficients within +-.3                                       .4        .8
log_gamma      .01 to .1 either way                                               .4        .8
noise          a standard deviation of .005 to .05 of the range of grey           .3        .8
blur           a standard deviation of .4 to 1 stored pixel                       .2        .8
motion         any line, weighted anyhow along it, 5 pixels of 224 to each side   .2        .7
=============  =================================================================  ========  ==========

Operations act in this order. Where METHODS is silent: a flip is drawn for each axis by itself; "the rest at .7-.8" is
as in the published code (motion .7, the others .8), as is that the strong scale is drawn always; the noise's .05 is its
largest standard deviation; motion is a smear (TorchIO's, in k-space, is that of a scanner), as long as the published
code's largest shift; the scale keeps the proportions, where the published code draws each side's; and the result is cut
to [0, 1], which the pixels of an image cannot leave.

A copy must differ from its source. So magnitudes are uniform from a tenth of their largest value up (blur: from .4,
below which 8-bit images do not change), and not from 0; where nothing was drawn, one operation is, each equally likely;
and a copy in the integers of its source that turned out equal to it is drawn again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from memorisk.images.alterations.graded import checked_rows
from memorisk.images.alterations.operations import mirror
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.workload import CountProgress
from memorisk.training.detectors.contrastive.operations import (
    N_COEFFICIENTS,
    bias_field,
    blur,
    log_gamma,
    motion,
    noise,
    turn_and_scale,
    upside_down,
)

OPERATIONS = ("rotation", "scale", "mirror", "upside_down", "bias_field", "log_gamma", "noise", "blur", "motion")
_PARAMETERS = {"forced": 1, "degrees": 1, "factor": 1, "coefficients": N_COEFFICIENTS, "log_gamma": 1} | {
    "deviation": 1, "sigma": 1, "angle": 1, "direction": 1,
}  # fmt: skip
_SMALLEST_SHARE = 0.1  # of the largest magnitude
_SMALLEST_BLUR = 0.4
_SMALLEST_SIDE = 4  # a blur reflects three pixels
_STREAM = 3003  # keeps the draws of copies apart from other uses of a seed
_TRIES = 16
_LISTED = 5
_PIXELS_PER_BLOCK = 1 << 21


@dataclass(frozen=True)
class AugmentationDraws:
    """Random draws for a batch of images."""

    uniform: torch.Tensor
    """Uniform draws, [b, 27] in [0, 1), float64: one for each operation, then those that set magnitudes."""
    normal: torch.Tensor
    """Standard normal draws, [k, C, H, W], for the images that get noise, in their order."""


@dataclass(frozen=True, kw_only=True)
class CopyAugmentation:
    """Settings that make copies: a probability for each operation, and its largest magnitude."""

    name: str
    """Name of the strength, "weak" or "strong"."""
    probability: tuple[float, ...]
    """Probability of each of `OPERATIONS`."""
    scale: float
    """Largest change of size, as a share."""
    degrees: float = 20.0
    """Largest rotation, in degrees."""
    coefficients: float = 0.3
    """Largest coefficient of the bias field."""
    log_gamma: float = 0.1
    """Largest natural logarithm of gamma."""
    deviation: float = 0.05
    """Largest standard deviation of the noise, for pixels in [0, 1]."""
    sigma: float = 1.0
    """Largest standard deviation of the blur, in stored pixels."""

    def apply(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Make a copy of each image.

        Args:
            x: Images, [b, C, H, W], floating point in [0, 1].
            generator: Source of the draws, on its device; no other random state is touched.

        Returns:
            Copies of the images, of the same shape, on the same device, in [0, 1].

        Raises:
            InputError: The shape is not a batch of images, or images are too small.
            MissingExtraError: kornia is not installed.
        """
        return self.transform(x, self.draw(tuple(x.shape), generator))

    def draw(self, shape: Sequence[int], generator: torch.Generator) -> AugmentationDraws:
        """Draw the random numbers that `transform` uses for a batch [b, C, H, W].

        Raises:
            InputError: The shape is not a batch of images, or images are too small.
        """
        if len(shape) != 4 or min(shape[2:]) < _SMALLEST_SIDE:
            raise InputError(
                f"copies are made of images [b, C, H, W] of {_SMALLEST_SIDE} pixels a side or more, not {list(shape)}"
            )
        columns = len(OPERATIONS) + sum(_PARAMETERS.values())
        where = generator.device
        uniform = torch.rand(shape[0], columns, generator=generator, dtype=torch.float64, device=where)
        noisy = int(self._acting(uniform)[:, OPERATIONS.index("noise")].sum())
        return AugmentationDraws(uniform, torch.randn(noisy, *shape[1:], generator=generator, device=where))

    def transform(self, x: torch.Tensor, draws: AugmentationDraws) -> torch.Tensor:
        """Make the copies that the draws define; an image's copy depends on its own draws only.

        Args:
            x: Images, [b, C, H, W], floating point in [0, 1].
            draws: Random draws from `draw`, for as many images.
        """
        acting: dict[str, torch.Tensor] = dict(zip(OPERATIONS, self._acting(draws.uniform).T, strict=True))  # each [b]
        values = {name: v.to(x.device, x.dtype) for name, v in self._magnitudes(draws.uniform, acting).items()}
        resampled = acting["rotation"] | acting["scale"]
        x = _apply_where(resampled, x, turn_and_scale, values["degrees"], values["factor"])
        x = _apply_where(acting["mirror"], x, mirror)
        x = _apply_where(acting["upside_down"], x, upside_down)
        x = _apply_where(acting["bias_field"], x, bias_field, values["coefficients"])
        x = _apply_where(acting["log_gamma"], x, log_gamma, values["log_gamma"])
        normal = draws.normal.to(x.device, x.dtype)
        x = _apply_where(
            acting["noise"], x, lambda some, deviation: noise(some, deviation, normal), values["deviation"]
        )
        x = _apply_where(acting["blur"], x, blur, values["sigma"])
        x = _apply_where(acting["motion"], x, motion, values["angle"], values["direction"])
        return x.clamp(0, 1)

    def only(self, operation: str) -> "CopyAugmentation":
        """Return the same magnitudes, with one operation that always acts and no other.

        Raises:
            InputError: The operation does not exist.
        """
        if operation not in OPERATIONS:
            raise unknown_name("operation", operation, OPERATIONS)
        return replace(self, name=operation, probability=tuple(float(name == operation) for name in OPERATIONS))

    def _acting(self, uniform: torch.Tensor) -> torch.Tensor:
        """Draw which operations act on which image, [b, 9]; at least one."""
        acting = uniform[:, : len(OPERATIONS)] < uniform.new_tensor(self.probability)
        forced = (uniform[:, len(OPERATIONS)] * len(OPERATIONS)).long()
        one = torch.nn.functional.one_hot(forced, len(OPERATIONS)).bool()
        return torch.where(acting.any(dim=1, keepdim=True), acting, one)

    def _magnitudes(self, uniform: torch.Tensor, acting: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Compute the parameter of each operation, [b] or [b, 10]; rotation and scale that do not act have 0 and 1."""
        parts = uniform[:, len(OPERATIONS) :].split(list(_PARAMETERS.values()), dim=1)
        drawn = dict(zip(_PARAMETERS, parts, strict=True))
        u = {name: value.squeeze(1) if value.shape[1] == 1 else value for name, value in drawn.items()}
        return {
            "degrees": _signed_magnitude(u["degrees"], self.degrees) * acting["rotation"],
            "factor": 1 + _signed_magnitude(u["factor"], self.scale) * acting["scale"],
            "coefficients": (2 * u["coefficients"] - 1) * self.coefficients,
            "log_gamma": _signed_magnitude(u["log_gamma"], self.log_gamma),
            "deviation": self.deviation * (_SMALLEST_SHARE + (1 - _SMALLEST_SHARE) * u["deviation"]),
            "sigma": self.sigma * (_SMALLEST_BLUR + (1 - _SMALLEST_BLUR) * u["sigma"]),
            "angle": 360 * u["angle"],
            "direction": 2 * u["direction"] - 1,
        }


STRENGTHS = {
    "weak": CopyAugmentation(name="weak", probability=(0.7, 0.5, 0.5, 0.5, 0.4, 0.4, 0.3, 0.2, 0.2), scale=0.2),
    "strong": CopyAugmentation(name="strong", probability=(1, 1, 0.6, 0.6, 0.8, 0.8, 0.8, 0.8, 0.7), scale=0.4),
}
"""Augmentations by name, as METHODS section 3 has them."""


def load_strength(name: str) -> CopyAugmentation:
    """Return the augmentation of a strength.

    Args:
        name: Name of the strength, "weak" or "strong".

    Raises:
        InputError: The name is neither of them.
    """
    if name not in STRENGTHS:
        raise unknown_name("strength of augmentation", name, STRENGTHS)
    return STRENGTHS[name]


def augmented_copies(
    images: np.ndarray,
    rows: np.ndarray | Sequence[int],
    strength: str | CopyAugmentation,
    *,
    seed: int,
    block: int | None = None,
    out: np.ndarray | None = None,
    progress: CountProgress | None = None,
) -> np.ndarray:
    """Make one augmented copy of each chosen image, in the integers of its source, and never equal to it.

    The copy of a row is decided by (seed, row) and its pixels alone: neither the block nor the other rows change
    it. It is computed in float64.

    Args:
        images: Images, uint8 or uint16 [N, H, W, C], an array or a memory map, of which a block is read at a time.
        rows: Rows of the images to copy, [n]; a row that occurs twice has the same copy twice.
        strength: Strength of the copies, "weak" or "strong", or an augmentation.
        seed: Random seed of the draws.
        block: Number of images at a time; by default as many as hold two million pixels.
        out: Array [n, H, W, C] to write to, such as a memory map; else a new one.
        progress: Function called with copies done and their number.

    Returns:
        Copies of the images, [n, H, W, C], of the type of ``images``.

    Raises:
        InputError: The images, rows or block are invalid; or an image has one value only, or no draw changes it, so
            that no copy of it can be recognised. The message names its row.
        MissingExtraError: kornia is not installed.
    """
    chosen = checked_rows(images, rows)
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")
    augmentation = load_strength(strength) if isinstance(strength, str) else strength
    size = max(1, _PIXELS_PER_BLOCK // int(np.prod(images.shape[1:]))) if block is None else block
    if size < 1:
        raise InputError(f"block is {block}; it must be at least 1")
    copies = np.empty((len(chosen), *images.shape[1:]), images.dtype) if out is None else out
    if copies.shape != (len(chosen), *images.shape[1:]) or copies.dtype != images.dtype:
        raise InputError(f"out is {copies.dtype} {copies.shape}; needed is {images.dtype} with one image per row")
    for start in range(0, len(chosen), size):
        some = chosen[start : start + size]
        copies[start : start + size] = _copies(images, some, augmentation, seed)
        if progress is not None:
            progress(start + len(some), len(chosen))
    return copies


def blank_rows(images: np.ndarray, rows: np.ndarray | Sequence[int]) -> np.ndarray:
    """Find the rows whose image has one value only in each channel, so that no detector can recognise a copy of it."""
    chosen = np.asarray(rows, dtype=np.int64)
    blank = [row for row in chosen if _is_blank(images[row])]
    return np.array(blank, dtype=np.int64)


def operations_without_effect(images: np.ndarray, strength: str | CopyAugmentation) -> tuple[str, ...]:
    """Find operations that change no pixel of any of these images, each tried alone at magnitudes that it may have.

    Examples are a flip of symmetric images, or log-gamma of images of 0 and 255. A copy for which only such an
    operation is drawn is drawn again, and a report should not name it.

    Args:
        images: Images, uint8 or uint16 [n, H, W, C]; a sample is enough.
        strength: Strength or augmentation that sets the magnitudes.
    """
    augmentation = load_strength(strength) if isinstance(strength, str) else strength
    x = _as_floats(images)
    without_effect = []
    for name, probability in zip(OPERATIONS, augmentation.probability, strict=True):
        changed = augmentation.only(name).apply(x, torch.Generator().manual_seed(0))
        if probability and np.array_equal(_as_integers(changed, images.dtype), images):
            without_effect.append(name)
    return tuple(without_effect)


def _copies(images: np.ndarray, rows: np.ndarray, augmentation: CopyAugmentation, seed: int) -> np.ndarray:
    """Make copies of a block, drawn again where they equal their sources."""
    source = np.ascontiguousarray(images[rows])
    blank = rows[[_is_blank(image) for image in source]]
    if len(blank):
        raise InputError(f"{_rows_phrase(blank)} one grey level only: no copy can be recognised, leave such images out")
    x, copies, pending = _as_floats(source), source.copy(), np.arange(len(rows))
    shape = (1, *x.shape[1:])
    for attempt in range(_TRIES):
        each = [augmentation.draw(shape, _generator(seed, int(rows[i]), attempt)) for i in pending]
        draws = AugmentationDraws(torch.cat([d.uniform for d in each]), torch.cat([d.normal for d in each]))
        augmented = augmentation.transform(x[torch.from_numpy(pending)], draws)
        copies[pending] = _as_integers(augmented, images.dtype)
        same = (copies[pending] == source[pending]).reshape(len(pending), -1).all(axis=1)
        pending = pending[same]
        if not len(pending):
            return copies
    raise InputError(
        f"{_rows_phrase(rows[pending])} copies equal to the image in {_TRIES} draws: leave such images out"
    )


def _generator(seed: int, row: int, attempt: int) -> torch.Generator:
    sequence = np.random.SeedSequence(seed, spawn_key=(_STREAM, 0, row, attempt))
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def _apply_where(chosen: torch.Tensor, x: torch.Tensor, operation, *numbers: torch.Tensor) -> torch.Tensor:
    """Apply the operation to the chosen images [b], and leave the others as they are."""
    rows = chosen.nonzero()[:, 0].to(x.device)
    if not len(rows):
        return x
    return x.index_copy(0, rows, operation(x[rows], *(value[rows] for value in numbers)))


def _signed_magnitude(uniform: torch.Tensor, largest: float) -> torch.Tensor:
    """Map uniform draws to magnitudes from a tenth of the largest to all of it, of either sign."""
    signed = 2 * uniform - 1
    return torch.where(signed < 0, -1.0, 1.0) * largest * (_SMALLEST_SHARE + (1 - _SMALLEST_SHARE) * signed.abs())


def _as_floats(images: np.ndarray) -> torch.Tensor:
    """Convert [n, H, W, C] in integers to [n, C, H, W] in [0, 1], float64."""
    top = np.iinfo(images.dtype).max
    return torch.from_numpy(np.moveaxis(images, -1, 1).astype(np.float64) / top)


def _as_integers(x: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    return np.moveaxis(np.rint(x.cpu().numpy() * np.iinfo(dtype).max).astype(dtype), 1, -1)


def _is_blank(image: np.ndarray) -> bool:
    return bool((image == image[:1, :1]).all())


def _rows_phrase(rows: np.ndarray) -> str:
    """Return the subject and verb of a sentence about rows."""
    first = ", ".join(str(row) for row in rows[:_LISTED]) + (", ..." if len(rows) > _LISTED else "")
    return f"the image in row {first} has" if len(rows) == 1 else f"the {len(rows)} images in rows {first} have"
