"""The second look at a pair: does a copy lie on its source, by which transform, and how similar are the two there?

A detector's embedding gives candidates. Here the pixels of each pair are laid over one another:

1. *Details.* Both images are laid on a canvas of `SIDE` pixels a side, their borders kept. A Gaussian of `BLUR` of
   the side is subtracted, and the rest is divided by its local spread, so that blur, brightness and contrast of a
   copy change little.
2. *Poses.* Eight positions (quarter turns, mirrored and not), each scaled by `SCALES` and turned further
   by `TURNS`, are compared at `COARSE` pixels a side at all shifts up to half of it at once (a product of Fourier
   transforms). The best one is refined. Of several sources whose poses were found, those of the largest correlations
   are worth a refinement (`Pose.agreement`).
3. *Refinement.* OpenCV's `findTransformECC` (Evangelidis and Psarakis 2008) makes the pose an affine transform. It is
   kept where it raises the similarity.
4. *Similarity.* Over windows w of `WINDOWS` of the side, at all places, let r_w be the correlation of the details in
   it, and a_w the share of the copy that it covers. The *strength* of each size of windows is the largest
   ``sqrt(a_w) atanh(r_w)``: Fisher's ``atanh(r)`` of n independent pixels has a standard deviation of about
   ``1 / sqrt(n)``, so a region that was pasted or left free counts by its size. The similarity is tanh of the
   largest strength: the correlation that would weigh as much over the whole image. `statistics.copies.alignments`
   learns how large each strength is by chance, for each size by itself.

A volume is laid on a volume in the same way, voxel by voxel: the eight mirrorings along its three axes are compared at
all shifts along them. Turns and scales are not tried; the refinement reaches turns of some 20 degrees and crops to 80 %
of the side from there. Dividing the spectra by their magnitude, as phase correlation does, finds no further copies (the
spectrum of details is nearly flat already), and fewer of those that are turned.

Steps and constants were chosen on four real sets (`recipes/alignment.py`). Keypoints with RANSAC were not tried.
`statistics.copies.alignments` learns from held-out people how similar two different people are by this measure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import acos, atan2, cos, degrees, radians, sin

import cv2
import numpy as np
import scipy
from numpy.typing import NDArray

from memorisk.images.volumes import AXES, is_volume, middle_slice, resize_volume
from memorisk.runs.errors import InputError

SIDE = 64
"""Pixels a side of the canvas."""
COARSE = 32
"""Pixels a side of the canvas on which poses are compared."""
VOXELS = 32
"""Largest side of the canvas of a volume: one of fewer voxels is compared as it is, at all steps."""
BLUR = 0.02
"""Width of the Gaussian as a share of the side: coarser structure, which people share, is subtracted."""
SCALES = (1.0, 0.85, 0.72, 1.18)
"""Side of the copy's view in the source, relative to the source's."""
TURNS = (10.0, -10.0, 20.0, -20.0)
"""Degrees beyond a quarter turn. At 5 degrees off, a detail at the border of the coarse canvas moves by 1.4 pixels."""
TURNED_SCALES = (1.0, 0.85)
"""Scales that are tried with the turns of `TURNS`."""
WINDOWS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
"""Sides of the windows, as shares of the canvas."""
_NOISE_FLOOR = 0.001
"""Share of the mean square of details that is added to that of each window: a window without details shows nothing."""
SHARED_PART = 0.5
"""Share of the mean square of a pixel's details above which the mean over people counts as most of them."""
FEWEST_SHARING = 30
"""Fewest images from which `shared_pixels` learns: the mean of 30 independent values exceeds the share by chance in
fewer than one pixel of ten thousand."""
LARGEST_CORRELATION = 1 / (1 + _NOISE_FLOOR)
"""Correlation of two equal windows with as many details as the image has on average; larger ones are cut to it."""
_SPREAD_FLOOR = 0.1  # of the mean square of details: flat regions stay flat
_CLIP = 3.0
_STEPS = {2: 32, 3: 16}  # of windows along the canvas of an image and of a volume
_ORDER = [1, 0, 2]  # of the axes of an array (rows, columns, slices) by coordinates x, y, z
_ECC = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, 1e-4)
_ECC_BLURS = (9, 3)  # pixels a side of the Gaussian: first as wide as a coarse pose may be off, then for the details
_VOLUME_STAGES = ((1.7, 2, 15), (0.8, 1, 5))  # width of the same Gaussians, voxels between places, and most steps
_STILL = 0.01  # voxels: a smaller step ends a stage
_MOST_CONDITION = 1e10  # of the normal equations: details along one axis alone fix no transform
_SCALE_LIMITS = (0.5, 2.0)
_MOST_STRETCH = 1.5
_MIN_DEGREES, _MIN_SHARE = 1.0, 0.02  # below, words say nothing of a turn, a scale or a shift


@dataclass(frozen=True, eq=False)
class Alignment:
    """Alignment of a copy on its source."""

    matrix: NDArray[np.float64]
    """Transform, [2, 3]: ``matrix @ (x, y, 1)`` is the place in the source of the pixel (x, y) of the copy. Centres of
    pixels are whole numbers, the first one (0, 0), x to the right and y down, as in OpenCV. Of volumes [3, 4], with z
    along the slices."""
    overlap: float
    """Share of the copy's pixels that lie on pixels of the source that are compared."""
    strengths: tuple[float, ...]
    """Largest ``sqrt(a) atanh(r)`` over the windows of each of `WINDOWS`."""
    agreeing: float
    """Share of the copy that the strongest window covers; 1 where the whole image is the strongest."""
    copy_shape: tuple[int, ...]
    """Height and width of the copy in pixels; of a volume also its slices."""
    source_shape: tuple[int, ...]

    @property
    def similarity(self) -> float:
        """Return the tanh of the largest strength, between 0 and 1."""
        return float(np.tanh(max(*self.strengths, 0.0)))

    @property
    def mirrored(self) -> bool:
        """Return whether the copy is a mirror image; of a volume, along any axis."""
        return bool(self._flips.any()) if self._of_volumes else bool(np.linalg.det(self._linear) < 0)

    @property
    def turn(self) -> float:
        """Return the degrees, counterclockwise, by which the source is turned, after a mirroring if `mirrored`.

        Of a volume the degrees are about any axis, and not negative.
        """
        if self._of_volumes:
            u, _, vt = np.linalg.svd(self._linear * np.where(self._flips, -1, 1))
            return degrees(acos(np.clip((np.trace(u @ vt) - 1) / 2, -1, 1)))
        linear = self._linear * ([-1, 1] if self.mirrored else [1, 1])
        u, _, vt = np.linalg.svd(linear)
        rotation = u @ vt
        angle = degrees(atan2(rotation[1, 0], rotation[0, 0]))
        return -angle if self.mirrored else angle

    @property
    def scale(self) -> float:
        """Return the side of the copy's view relative to the source's: 0.8 for a window of 80 % of either side."""
        part = abs(float(np.linalg.det(self._linear))) * np.prod(self.copy_shape) / np.prod(self.source_shape)
        return float(part ** (1 / len(self.matrix)))

    @property
    def words(self) -> str:
        """Describe what was done to the source; "as it lies" where nothing was done."""
        turn, scale = self.turn, self.scale
        parts = ["mirrored"] if self.mirrored else []
        if self._of_volumes:
            axes = [name for axis, name in enumerate(AXES) if self._flips[_ORDER[axis]]]
            parts = [f"mirrored {' and '.join(axes)}"] if axes else []
        if not self._of_volumes and self.mirrored and abs(turn) > 180 - _MIN_DEGREES:
            parts = ["mirrored top to bottom"]
        elif abs(turn) >= _MIN_DEGREES:
            parts.append(f"turned by {turn:.0f} degrees")
        if scale < 1 - _MIN_SHARE:
            parts.append(f"{scale:.0%} of {'each' if self._of_volumes else 'either'} side")
        elif scale > 1 + _MIN_SHARE:
            parts.append(f"shrunk to {1 / scale:.0%}")
        elif max(abs(shift) for shift in self._shift) > _MIN_SHARE:
            parts.append("moved")
        if self.agreeing < 1:
            parts.append(f"most alike in {self.agreeing:.0%} of the {'voxels' if self._of_volumes else 'area'}")
        return ", ".join(parts) or "as it lies"

    @property
    def _of_volumes(self) -> bool:
        return len(self.matrix) == 3

    @property
    def _linear(self) -> NDArray[np.float64]:
        return self.matrix[:, :-1]

    @property
    def _flips(self) -> NDArray[np.bool_]:
        """Return along which of x, y and z a volume is mirrored: no refinement reaches a right angle."""
        return np.diag(self._linear) < 0

    @property
    def _shift(self) -> NDArray[np.float64]:
        """Return the shift from the source's centre to the copy's centre, as shares of the source's sides (x, y, z)."""
        order = _ORDER[: len(self.matrix)]
        copy, source = np.array(self.copy_shape)[order], np.array(self.source_shape)[order]
        return (self.matrix @ [*(copy - 1) / 2, 1] - (source - 1) / 2) / source


@dataclass(frozen=True, eq=False)
class SourceDetails:
    """Details of an image, or of a volume, ready to be compared."""

    shape: tuple[int, ...]
    """Height and width of the image; of a volume also its slices."""
    to_canvas: NDArray[np.float64]
    """Transform from the image's pixels to those of the canvas, [3, 3]; of a volume [4, 4]."""
    fine: NDArray[np.float32]
    """Fine details of the image, [SIDE, SIDE]; of a volume [S, S, S] with S of `VOXELS` at most."""
    inside: NDArray[np.bool_]
    """Whether the pixel of the canvas is compared: the image covers it and is not left out there, as `fine`."""
    spectrum: NDArray[np.complex64]
    """Fourier transform of the coarse details, which have length 1, [1.5 COARSE, 0.75 COARSE + 1]; of a volume, whose
    coarse details are the fine ones, [1.5 S, 1.5 S, 0.75 S + 1]."""

    @property
    def nbytes(self) -> int:
        """Return the memory that the details take."""
        return self.fine.nbytes + self.inside.nbytes + self.spectrum.nbytes


@dataclass(frozen=True, eq=False)
class Pose:
    """Place of a copy on its source, from which an alignment is refined."""

    matrix: NDArray[np.float64]
    """Transform from the copy's canvas to the source's, [3, 3]; of volumes [4, 4]."""
    agreement: float
    """Measure of how well the copy lies there, which ranks sources: from `find_pose` the correlation of the coarse
    details, above 0; from `unmoved_pose` the largest strength."""


@dataclass(frozen=True, eq=False)
class CopyDetails:
    """Details of an image that may be a copy, in every pose."""

    plain: SourceDetails
    spectra: NDArray[np.complex64]
    """Conjugate Fourier transforms of the coarse details in each pose, [poses, ...] as `SourceDetails.spectrum`."""


def shared_pixels(images: Iterable[np.ndarray]) -> NDArray[np.bool_]:
    """Find the pixels whose details are mostly the same in all images: they align with any image.

    With details d of one pixel, these are the pixels with ``mean(d)^2 > SHARED_PART mean(d^2)``.

    Args:
        images: Real images of different people, each as in `source_details`, all of one shape.

    Returns:
        Mask of the canvas, [SIDE, SIDE] or of a volume [S, S, S]; False everywhere for fewer than `FEWEST_SHARING`
        images, whose means are too uncertain.

    Raises:
        InputError: The pixels have another type or shape.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> images = rng.integers(0, 255, (40, 64, 64, 1)).astype(np.uint8)
        >>> images[:, :8] = images[0, :8]
        >>> shared = shared_pixels(images)
        >>> int(shared[:4].sum()), int(shared[10:].sum())
        (256, 0)
    """
    n, total, square = 0, np.zeros(()), np.zeros(())
    for image in images:
        fine = _details(image)[0].fine.astype(np.float64)
        n, total, square = n + 1, total + fine, square + fine**2
    if n < FEWEST_SHARING:
        return np.zeros(total.shape, bool)
    return total**2 > SHARED_PART * n * square


def source_details(image: np.ndarray, shared: NDArray[np.bool_] | None = None) -> SourceDetails:
    """Compute the details of an image.

    Args:
        image: Image, uint8 or uint16 [h, w, c] with c 1 or 3; colours are averaged. Or a volume [H, W, D].
        shared: Mask of `shared_pixels`, which are left out; None to leave none out.

    Raises:
        InputError: The pixels have another type or shape.
    """
    plain, coarse = _details(image)
    if shared is None or not shared.any():
        return plain
    left_out = shared
    if shared.ndim == 2:
        left_out = cv2.resize(shared.astype(np.float32), (COARSE, COARSE), interpolation=cv2.INTER_AREA) > 0.5
    return replace(
        plain,
        fine=np.where(shared, np.float32(0), plain.fine),
        inside=plain.inside & ~shared,
        spectrum=_spectra(np.where(left_out, np.float32(0), coarse)[None])[0],
    )


def copy_details(image: np.ndarray) -> CopyDetails:
    """Compute the details of an image in every pose; arguments and errors are those of `source_details`."""
    plain, coarse = _details(image)
    if coarse.ndim == 3:
        moved = [np.flip(coarse, axes) for axes in _mirrorings()]
    else:
        moved = [cv2.warpAffine(coarse, pose[:2], (COARSE, COARSE)) for pose in _poses()]
    return CopyDetails(plain, np.conj(_spectra(np.stack(moved))))


def lay(source: np.ndarray, matrix: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Lay a source on its copy: return what it shows at each pixel of the copy, linear between pixels.

    Borders are repeated.

    Args:
        source: Source of the copy, [h, w, c] or [H, W, D] uint8 or uint16.
        matrix: Transform `Alignment.matrix`, [2, 3] or [3, 4].
        shape: Height and width of the copy in pixels; of a volume also its slices.

    Returns:
        Pixels [height, width, c] or voxels [height, width, slices] in the source's type.
    """
    if len(matrix) == 3:
        values = _placed(source.astype(np.float32), matrix, shape, mode="nearest")
        return np.rint(values).astype(source.dtype)
    laid = cv2.warpAffine(
        np.ascontiguousarray(source), matrix, (shape[1], shape[0]), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    return laid.reshape(shape[0], shape[1], source.shape[2])


def laid_slice(source: np.ndarray, matrix: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Lay a source on its copy, as `lay`; of a volume return the middle slice of what it shows.

    Args:
        source: Source of the copy, [h, w, c], or a volume [H, W, D] with the sides of its copy.
        matrix: Transform `Alignment.matrix`.
        shape: Height, width and channels of the copy, or of its middle slice.

    Returns:
        Pixels [height, width, c] in the source's type.
    """
    return middle_slice(lay(source, matrix, source.shape if len(matrix) == 3 else shape[:2]))


def align(copy: np.ndarray, source: np.ndarray) -> Alignment | None:
    """Find the transform by which a copy lies on its source.

    Args:
        copy: Image that may be a copy, uint8 or uint16 [h, w, c] with c 1 or 3, or a volume [H, W, D].
        source: Image that may be the source, of the same form; the two may differ in type, and images in shape.

    Returns:
        The best alignment, whatever its similarity; None where an image has no details.

    Raises:
        InputError: The pixels have another type or shape, or one is a volume and the other none, or of other sides.

    Example:
        >>> image = np.random.default_rng(0).integers(0, 255, (64, 64, 1)).astype(np.uint8)
        >>> align(image[:, ::-1], image).words
        'mirrored'
    """
    moved, details = copy_details(copy), source_details(source)
    if moved.plain.fine.shape != details.fine.shape:
        raise InputError(f"a copy of {copy.shape} cannot be laid on {source.shape}: volumes to align have equal sides")
    return align_details(moved, details)


def align_details(copy: CopyDetails, source: SourceDetails) -> Alignment | None:
    """Align a copy and a source, as `align` does, from details that were computed before."""
    poses = find_pose(copy, source), unmoved_pose(copy, source)
    return best_alignment(refine(copy, source, pose) for pose in poses if pose is not None)


def best_alignment(alignments: Iterable[Alignment | None]) -> Alignment | None:
    """Choose the most similar alignment, the first of several equal ones; None without an alignment."""
    return max((one for one in alignments if one is not None), key=lambda one: one.similarity, default=None)


def refine(copy: CopyDetails, source: SourceDetails, first: Pose) -> Alignment | None:
    """Refine the alignment from a pose; None where the pose leaves no details to compare."""
    pose = first.matrix
    overlay = _overlay(copy.plain, source, pose)
    if overlay is None:
        return None
    refined = _refined(copy.plain, source, pose)
    better = None if refined is None else _overlay(copy.plain, source, refined)
    if refined is not None and better is not None and better.strength > overlay.strength:
        pose, overlay = refined, better
    matrix = np.linalg.inv(source.to_canvas) @ pose @ copy.plain.to_canvas
    shapes = copy.plain.shape, source.shape
    return Alignment(matrix[:-1], overlay.overlap, overlay.strengths, overlay.agreeing, *shapes)


def _details(image: np.ndarray) -> tuple[SourceDetails, NDArray[np.float32]]:
    """Return the fine details of an image or a volume, and the coarse ones: [COARSE, COARSE]; of a volume the fine."""
    of_volume = image.ndim == 3 and is_volume(image.shape)
    channels = image.ndim == 3 and (of_volume or image.shape[2] in (1, 3))
    if not channels or image.dtype not in (np.uint8, np.uint16) or not image.size:
        raise InputError(
            f"images to align are uint8 or uint16 [h, w, 1 or 3] or [H, W, D], not {image.dtype} {image.shape}"
        )
    if of_volume:
        side = min(max(image.shape), VOXELS)
        canvas = resize_volume(image, side).astype(np.float32)
        inside = np.ones(canvas.shape, bool)
        fine = _flattened(canvas, inside)
        to_canvas = _scaled(side / np.array(image.shape)[_ORDER])
        return SourceDetails(image.shape, to_canvas, fine, inside, _spectra(fine[None])[0]), fine
    plane = image.astype(np.float32).mean(axis=2)
    coarse = _flattened(*_canvas(plane, COARSE)[:2])
    canvas, inside, to_canvas = _canvas(plane, SIDE)
    plain = SourceDetails(plane.shape, to_canvas, _flattened(canvas, inside), inside, _spectra(coarse[None])[0])
    return plain, coarse


def _scaled(factors: NDArray) -> NDArray[np.float64]:
    """Return the transform [d + 1, d + 1] of pixels to those of a canvas of so many times as many along each axis."""
    matrix = np.diag([*factors, 1.0])
    matrix[:-1, -1] = factors / 2 - 0.5
    return matrix


def _canvas(plane: NDArray, side: int) -> tuple[NDArray, NDArray[np.bool_], NDArray[np.float64]]:
    """Lay an image [h, w] in the middle of a square.

    Returns:
        Square, mask of where the image lies in it, and the matrix [3, 3] from the image's pixels to the square's.
    """
    height, width = plane.shape
    factor = side / max(height, width)
    rows, columns = max(1, round(height * factor)), max(1, round(width * factor))
    by_area = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    row, column = (side - rows) // 2, (side - columns) // 2
    canvas, inside = np.zeros((side, side), np.float32), np.zeros((side, side), bool)
    canvas[row : row + rows, column : column + columns] = cv2.resize(plane, (columns, rows), interpolation=by_area)
    inside[row : row + rows, column : column + columns] = True
    x, y = columns / width, rows / height
    return canvas, inside, np.array([[x, 0, x / 2 - 0.5 + column], [0, y, y / 2 - 0.5 + row], [0, 0, 1.0]])


def _flattened(canvas: NDArray, inside: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the details, divided by their local spread; zeros for an image without details."""
    weight, sigma = inside.astype(np.float32), max(BLUR * len(canvas), 0.8)
    rest = (canvas - _blurred(canvas * weight, sigma) / np.maximum(_blurred(weight, sigma), 1e-6)) * weight
    total = float((rest**2).sum() / weight.sum())
    if total < 1e-6 * max(1.0, float(np.abs(canvas).max())) ** 2:
        return np.zeros_like(canvas)
    local = _blurred(rest**2, 2 * sigma) / np.maximum(_blurred(weight, 2 * sigma), 1e-6)
    flat = rest / np.sqrt(local + _SPREAD_FLOOR * total)
    return np.clip(flat, -_CLIP, _CLIP).astype(np.float32)


def _blurred(values: NDArray, sigma: float) -> NDArray:
    if values.ndim == 3:
        return scipy.ndimage.gaussian_filter(values, sigma, mode="constant")
    return cv2.GaussianBlur(values, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)


def _spectra(details: NDArray) -> NDArray[np.complex64]:
    """Return the Fourier transforms of details [n, ...], each divided by its length; zeros stay zeros.

    Their size is one in which shifts up to half of the side do not wrap around.
    """
    axes = tuple(range(1, details.ndim))
    values = details / np.maximum(np.sqrt((details**2).sum(axis=axes, keepdims=True)), 1e-9)
    return scipy.fft.rfftn(values.astype(np.float32), [n + n // 2 for n in details.shape[1:]], axes=axes)


def _mirrorings() -> list[tuple[int, ...]]:
    """Return the axes of an array along which a volume is mirrored in each position."""
    return [tuple(axis for axis in range(3) if flips[axis]) for flips in product((False, True), repeat=3)]


def _volume_poses(side: int) -> NDArray[np.float64]:
    """Return the transforms [8, 4, 4] of the mirrorings, about the centre."""
    poses = np.repeat(np.eye(4)[None], 8, axis=0)
    for pose, axes in zip(poses, _mirrorings(), strict=True):
        for axis in (_ORDER[axis] for axis in axes):
            pose[axis, axis], pose[axis, 3] = -1, side - 1
    return poses


@lru_cache(maxsize=1)
def _poses() -> NDArray[np.float64]:
    """Return the transforms [poses, 3, 3] from the copy's coarse canvas to the source's, about the centre."""
    centre, poses = (COARSE - 1) / 2, []
    for mirror in (1, -1):
        for quarter in range(4):
            turned = [(turn, scale) for turn in TURNS for scale in TURNED_SCALES]
            for turn, scale in [*((0.0, scale) for scale in SCALES), *turned]:
                angle = radians(90 * quarter + turn)
                linear = scale * np.array([[mirror * cos(angle), -sin(angle)], [mirror * sin(angle), cos(angle)]])
                poses.append(np.vstack([np.c_[linear, centre - linear @ [centre, centre]], [0, 0, 1]]))
    return np.stack(poses)


def find_pose(copy: CopyDetails, source: SourceDetails) -> Pose | None:
    """Find the pose with the largest correlation; None where nothing correlates."""
    d = source.fine.ndim
    side = COARSE if d == 2 else len(source.fine)
    most = side // 2
    products = scipy.fft.irfftn(copy.spectra * source.spectrum, [side + most] * d, axes=range(1, d + 1))
    shifts = np.r_[-most : most + 1]
    near = products[:, *np.ix_(*[shifts] * d)]
    pose, *steps = np.unravel_index(int(near.argmax()), near.shape)
    agreement = float(near[pose, *steps])
    if agreement <= 0:
        return None
    matrix = (_poses() if d == 2 else _volume_poses(side))[pose].copy()
    matrix[:d, d] += shifts[steps][_ORDER[:d]]
    enlarge = _scaled(np.full(d, len(source.fine) / side))
    return Pose(enlarge @ matrix @ np.linalg.inv(enlarge), agreement)


def unmoved_pose(copy: CopyDetails, source: SourceDetails) -> Pose | None:
    """Return the pose of a copy that lies as its source does; None where it leaves no details to compare.

    A region that was pasted at its own place is a small part of the image, and the rest may lie better elsewhere.
    """
    unmoved = np.eye(source.fine.ndim + 1)
    overlay = _overlay(copy.plain, source, unmoved)
    return None if overlay is None else Pose(unmoved, overlay.strength)


def _refined(copy: SourceDetails, source: SourceDetails, pose: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Refine to an affine transform; None where that does not converge, or to a transform that no copy would have."""
    refined = (_refined_image if source.fine.ndim == 2 else _refined_volume)(copy, source, pose)
    if refined is None or not np.isfinite(refined).all():
        return None
    stretches = np.linalg.svd(refined[:-1, :-1], compute_uv=False)
    large, small = stretches.max(), stretches.min()
    if small < _SCALE_LIMITS[0] or large > _SCALE_LIMITS[1] or large > _MOST_STRETCH * small:
        return None
    return refined


def _refined_image(copy: SourceDetails, source: SourceDetails, pose: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Refine a pose [3, 3] by OpenCV's ECC."""
    pose_found = pose[:2].astype(np.float32)
    try:
        for blur in _ECC_BLURS:
            inside = source.inside.astype(np.uint8)
            _, pose_found = cv2.findTransformECC(
                copy.fine, source.fine, pose_found, cv2.MOTION_AFFINE, _ECC, inside, blur
            )
    except cv2.error:
        return None
    return np.vstack([pose_found.astype(np.float64), [0, 0, 1]])


def _refined_volume(
    copy: SourceDetails, source: SourceDetails, pose: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Refine a pose [4, 4] as ECC does, by steps of Gauss and Newton (inverse compositional), up to a gain."""
    centre, refined = (len(copy.fine) - 1) / 2, pose
    about = np.eye(4)
    about[:3, 3] = centre
    for blur, apart, most_steps in _VOLUME_STAGES:
        one, other = (_blurred(details.fine, blur) for details in (copy, source))
        every = (slice(None, None, apart),) * 3
        slopes = np.stack([np.gradient(one, axis=axis)[every] for axis in _ORDER]).astype(np.float64)
        one, inside = one[every], copy.inside[every]
        places = np.stack(np.meshgrid(*(apart * np.arange(n) - centre for n in one.shape), indexing="ij"))[_ORDER]
        places = np.concatenate([places, np.ones_like(places[:1])])  # x, y, z, 1
        steepest = (slopes[:, None] * places[None]).reshape(12, -1)
        normal = steepest @ steepest.T
        if not np.linalg.cond(normal) < _MOST_CONDITION:
            return None
        for _ in range(most_steps):
            laid = _placed(other, refined @ np.diag([apart, apart, apart, 1]), one.shape)
            both = np.where(inside, laid, 0).astype(np.float64)  # 0 outside of the source
            length = float((both**2).sum())
            if not length > 0:
                return None
            rest = np.where(both != 0, float((both * one).sum()) / length * both - one, 0)
            step = np.linalg.solve(normal, steepest @ rest.ravel()).reshape(3, 4)
            change = about @ np.vstack([np.eye(3, 4) + step, [0, 0, 0, 1]]) @ np.linalg.inv(about)
            if not np.abs(np.linalg.det(change)) > _SCALE_LIMITS[0] ** 3:
                return None
            refined = refined @ np.linalg.inv(change)
            if np.abs(step @ [centre, centre, centre, 1]).max() < _STILL:
                break
    return refined


def _placed(values: NDArray, matrix: NDArray[np.float64], shape: tuple[int, ...], mode: str = "constant") -> NDArray:
    """Return what a canvas or a source shows at each place of a copy of this shape, linear; 0 outside of it."""
    if values.ndim == 2:
        return cv2.warpAffine(values, matrix[:2], shape[::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    linear, shift = matrix[:3, :3][np.ix_(_ORDER, _ORDER)], matrix[:3, 3][_ORDER]
    return scipy.ndimage.affine_transform(values, linear, shift, output_shape=shape, order=1, mode=mode)


@dataclass(frozen=True)
class _Overlay:
    """Similarity of the details in one pose."""

    strengths: tuple[float, ...]
    """Largest strength for each size of windows, as in `Alignment`."""
    agreeing: float
    overlap: float

    @property
    def strength(self) -> float:
        """Return the largest strength over all windows."""
        return max(self.strengths)


def _overlay(copy: SourceDetails, source: SourceDetails, pose: NDArray[np.float64]) -> _Overlay | None:
    """Compare details in one pose; None without details."""
    side, axes = len(copy.fine), tuple(range(1, copy.fine.ndim + 1))
    if np.array_equal(pose, np.eye(copy.fine.ndim + 1)):
        laid, there = source.fine, source.inside
    else:
        laid = _placed(source.fine, pose, copy.fine.shape)
        there = _placed(source.inside.astype(np.float32), pose, copy.fine.shape) > 0.5
    both, total = there & copy.inside, int(copy.inside.sum())
    one, other = copy.fine.astype(np.float64) * both, laid.astype(np.float64) * both
    n = int(both.sum())
    floors = _NOISE_FLOOR * (one**2).sum() / max(n, 1), _NOISE_FLOOR * (other**2).sum() / max(n, 1)
    if not min(floors) > 0:
        return None
    sums = np.zeros((4, *(side + 1 for _ in axes)))
    inner = np.stack([one * other, one**2, other**2, both])
    for axis in axes:
        inner = inner.cumsum(axis=axis)
    sums[:, *(slice(1, None) for _ in axes)] = inner
    strengths, covered = [], []
    for share in WINDOWS:
        product_sums, first, second, count = _window_sums(
            sums, round(share * side), max(1, side // _STEPS[copy.fine.ndim])
        )
        scale = np.sqrt(np.maximum(first, 0) + floors[0] * count) * np.sqrt(np.maximum(second, 0) + floors[1] * count)
        r = np.divide(product_sums, scale, out=np.zeros_like(product_sums), where=count >= 1)
        strength = np.sqrt(count / total) * np.arctanh(np.clip(r, -LARGEST_CORRELATION, LARGEST_CORRELATION))
        at = int(strength.argmax())
        strengths.append(float(strength.flat[at]))
        covered.append(1.0 if share == 1 else float(count.flat[at] / total))
    return _Overlay(tuple(strengths), covered[int(np.argmax(strengths))], n / total)


def _window_sums(sums: NDArray, side: int, step: int) -> NDArray:
    """Return the sums over all windows of a side, from the cumulative sums [4, ...] that begin with zeros."""
    first, last = slice(None, -side, step), slice(side, None, step)
    total = np.zeros(())
    for low in product((False, True), repeat=sums.ndim - 1):
        corner = sums[:, *(first if at else last for at in low[::-1])]
        total = total - corner if sum(low) % 2 else total + corner
    return total
