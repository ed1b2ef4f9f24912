"""Images made by formulas: they show no person, need no licence, and are unlimited in number.

A detector of copies can be trained on them alone, and a test can use kinds of images that no set at hand has. Eight
kinds, each grey with values in [0, 1]:

===============  =====================================================================================================
`dead_leaves`    opaque shapes of power-law sizes that hide one another (Lee, Mumford and Huang 2001)
`fractal`        the attractor of a random iterated function system, as in FractalDB (Kataoka et al. 2020)
`noise`          Gaussian noise with a spectrum 1/f^a or of one band, stretched in one direction
`layers`         wavy layers with soft or sharp edges, as tissue in section
`cells`          Voronoi cells: their values, their walls, or both
`blobs`          a sum of soft shapes of either sign
`waves`          a sum of straight and circular waves
`threads`        curved lines of varying width, as vessels
===============  =====================================================================================================

An image mixes one to three of them: added, blended through a mask of noise, or set into a field that leaves the rest
dark, as an aperture does. Half of the images are grey, the others coloured by a palette or channel by channel.
Everything random derives from (seed, index).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from scipy import ndimage
from scipy.spatial import KDTree

from memorisk.runs.errors import InputError

Kind = Callable[[np.random.Generator, int], np.ndarray]
_LEAST_SIDE = 8
_STREAM = 2400  # keeps these draws apart from other uses of a seed
_SHARES = (0.25, 0.1, 0.15, 0.13, 0.1, 0.12, 0.05, 0.1)  # of each kind, in their order


def procedural_images(n: int, *, seed: int, side: int = 96, first: int = 0) -> np.ndarray:
    """Make the images of the numbers ``first`` to ``first + n - 1``.

    Args:
        n: Number of images.
        seed: Seed of all draws.
        side: Number of pixels a side, at least 8.
        first: Number of the first image; an image of one number is the same in every call.

    Returns:
        Images, uint8 [n, side, side, 3].

    Raises:
        InputError: A number is negative, or the side too small.
    """
    if n < 0 or first < 0 or seed < 0 or side < _LEAST_SIDE:
        raise InputError(f"n is {n}, first {first}, seed {seed}, side {side}; needed are 0 or more, side {_LEAST_SIDE}")
    images = [procedural_image(seed, first + i, side) for i in range(n)]
    return np.stack(images) if images else np.empty((0, side, side, 3), np.uint8)


def procedural_image(seed: int, index: int, side: int = 96) -> np.ndarray:
    """Make one image, [side, side, 3] uint8, decided by (seed, index, side)."""
    rng = np.random.default_rng((_STREAM, seed, index))
    grey = _grey(rng, side)
    form = rng.random()
    if form < 0.5:
        colours = np.repeat(grey[..., None], 3, axis=2)
    elif form < 0.8:
        palette = rng.random((rng.integers(2, 5), 3))
        stops = np.linspace(0, 1, len(palette))
        colours = np.stack([np.interp(grey, stops, palette[:, c]) for c in range(3)], axis=2)
        if rng.random() < 0.5:
            colours = colours + rng.uniform(0.1, 0.4) * (_grey(rng, side)[..., None] - 0.5) * rng.random(3)
    else:
        mixing = rng.random() * np.eye(3) + 0.4 * rng.random((3, 3))
        colours = np.stack([grey, _grey(rng, side), _grey(rng, side)], axis=2) @ mixing
    return np.rint(np.clip(colours, 0, 1) * 255).astype(np.uint8)


def dead_leaves(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw opaque shapes that hide one another, [side, side] in [0, 1]."""
    y, x = _coordinates(side)
    n = int(np.exp(rng.uniform(np.log(20), np.log(250))))
    radii = _power_law(rng, n, rng.uniform(0.02, 0.08), rng.uniform(0.3, 0.9), rng.uniform(2, 3.2))
    if rng.random() < 0.5:
        radii = np.sort(radii)[::-1]
    textured, sloped = rng.random() < 0.5, rng.random() < 0.3
    texture = noise(rng, side) if textured else None
    image = np.full((side, side), rng.random())
    for radius in radii:
        centre = rng.uniform(-1.1, 1.1, 2)
        box = _box(centre, 2.2 * radius, side)
        distance = _shape(rng, centre, radius, y[box], x[box])
        value = np.full(distance.shape, rng.random())
        if texture is not None:
            value = value + rng.uniform(0, 0.5) * (texture[box] - 0.5)
        elif sloped:
            slopes = rng.normal(0, 0.5, 2)
            value = value + slopes[0] * (y[box] - centre[0]) + slopes[1] * (x[box] - centre[1])
        image[box] = np.where(distance < 1, value, image[box])
    return np.clip(image, 0, 1)


def fractal(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw the attractor of a random iterated function system by 1,500 points that move 40 times.

    The image is [side, side] in [0, 1].
    A system whose points cover less than a twentieth of the image is drawn again, eight times at most.
    """
    counts = np.zeros((side, side))
    for _ in range(8):
        n = rng.integers(2, 6)
        rotations, sizes, directions = np.linalg.svd(rng.uniform(-1, 1, (n, 2, 2)))
        maps = rotations @ (np.clip(sizes, 0.1, 0.85)[:, :, None] * directions)
        shifts = rng.uniform(-1, 1, (n, 2))
        weights = np.abs(np.linalg.det(maps)) + 0.02
        points, orbit = rng.uniform(-1, 1, (1500, 2)), []
        for step in range(40):
            chosen = rng.choice(n, len(points), p=weights / weights.sum())
            points = np.einsum("nij,nj->ni", maps[chosen], points) + shifts[chosen]
            if step >= 10:
                orbit.append(points)
        low, high = np.percentile(orbit[0], [2, 98], axis=0)
        scale = max(float((high - low).max()), 1e-3)
        places = ((np.concatenate(orbit) - (low + high) / 2) / scale * 0.9 + 0.5) * side
        inside = places[((places >= 0) & (places < side)).all(axis=1)].astype(int)
        counts = np.bincount(inside[:, 1] * side + inside[:, 0], minlength=side * side).reshape(side, side)
        if (counts > 0).mean() > 0.05:
            break
    return _stretched(ndimage.gaussian_filter(np.log1p(counts), rng.uniform(0.3, 1.2)))


def noise(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw Gaussian noise with a spectrum 1/f^a or of one band, [side, side] in [0, 1]."""
    down, across = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    angle, stretch = rng.uniform(0, np.pi), np.exp(rng.normal(0, 0.6))
    along = np.cos(angle) * across + np.sin(angle) * down
    athwart = (np.cos(angle) * down - np.sin(angle) * across) * stretch
    frequency = np.hypot(along, athwart)
    frequency[0, 0] = 1
    amplitude = frequency ** -rng.uniform(0.4, 3.2)
    if rng.random() < 0.3:
        centre = np.exp(rng.uniform(np.log(0.03), np.log(0.3)))
        amplitude = np.exp(-0.5 * ((frequency - centre) / (centre * rng.uniform(0.1, 0.6))) ** 2)
    amplitude[0, 0] = 0
    drawn = rng.standard_normal((2, side, side // 2 + 1))
    return _stretched(np.fft.irfft2((drawn[0] + 1j * drawn[1]) * amplitude, s=(side, side)))


def layers(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw wavy layers, lying or upright, smooth or speckled, [side, side] in [0, 1]."""
    y, x = _coordinates(side)
    depths = np.sort(rng.uniform(-1, 1, rng.integers(3, 14)))
    values = rng.random(len(depths) + 1)
    common = _curve(rng, x[:1]) * rng.uniform(0, 0.3)
    sharpness = np.exp(rng.uniform(np.log(5), np.log(80)))
    image = np.full((side, side), values[0])
    for depth, value in zip(depths, values[1:], strict=True):
        below = _step((y - depth - common - _curve(rng, x[:1]) * rng.uniform(0, 0.06)) * sharpness)
        image = image * (1 - below) + value * below
    if rng.random() < 0.6:
        image = image * (1 + rng.uniform(0.1, 0.8) * (noise(rng, side) - 0.5))
    return np.clip(image.T if rng.random() < 0.5 else image, 0, 1)


def cells(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw Voronoi cells, straight or bent: their walls, their values, or both, [side, side] in [0, 1]."""
    y, x = _coordinates(side)
    n = int(np.exp(rng.uniform(np.log(8), np.log(150))))
    seeds = rng.uniform(-1.1, 1.1, (n, 2))
    if rng.random() < 0.5:
        y, x = y + 0.08 * _curve(rng, x + y), x + 0.08 * _curve(rng, x - y)
    neighbours = KDTree(seeds).query(np.stack([y.ravel(), x.ravel()], axis=1), k=2)
    distance, nearest = (np.asarray(part) for part in neighbours)
    wall = (distance[:, 1] - distance[:, 0]).reshape(side, side)
    values = rng.random(n)[nearest[:, 0]].reshape(side, side)
    form = rng.integers(3)
    if form == 0:
        return _stretched(wall)
    return values if form == 1 else values * np.clip(wall / np.percentile(wall, 20), 0, 1)


def blobs(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw a sum of soft shapes of either sign, [side, side] in [0, 1]."""
    y, x = _coordinates(side)
    image = np.zeros((side, side))
    for _ in range(rng.integers(3, 60)):
        centre, radius = rng.uniform(-1, 1, 2), np.exp(rng.uniform(np.log(0.05), np.log(0.6)))
        box = _box(centre, 3 * radius, side)
        distance = _shape(rng, centre, radius, y[box], x[box])
        image[box] += rng.normal() * np.exp(-(np.minimum(distance, 30) ** rng.uniform(1.5, 6)))
    return _stretched(image)


def waves(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw a sum of one to four straight or circular waves, bent a little, [side, side] in [0, 1]."""
    y, x = _coordinates(side)
    image = np.zeros((side, side))
    for _ in range(rng.integers(1, 5)):
        angle, cycles = rng.uniform(0, np.pi), np.exp(rng.uniform(0, np.log(20)))
        if rng.random() < 0.6:
            along = np.cos(angle) * x + np.sin(angle) * y
        else:
            along = np.hypot(x - rng.normal(0, 0.6), y - rng.normal(0, 0.6))
        phase = np.pi * cycles * (along + 0.1 * _curve(rng, y - x)) + rng.uniform(0, 2 * np.pi)
        image += rng.normal() * np.sin(phase)
    return _stretched(image)


def threads(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw curved lines of varying width, [side, side] in [0, 1]."""
    image = np.zeros((side, side))
    for _ in range(rng.integers(3, 25)):
        length = rng.integers(20, 120)
        bend = np.cumsum(rng.normal(0, 0.08, length))
        angles = rng.uniform(0, 2 * np.pi) + np.cumsum(0.1 * bend)
        steps = 0.025 * np.stack([np.sin(angles), np.cos(angles)], axis=1)
        places = ((rng.uniform(-1, 1, 2) + np.cumsum(steps, axis=0) + 1) / 2 * side).astype(int)
        places = places[((places >= 0) & (places < side)).all(axis=1)]
        width, line = rng.uniform(0.5, 3) * side / 96, np.zeros((side, side))
        line[places[:, 0], places[:, 1]] = 1
        image += ndimage.gaussian_filter(line, width) * width * rng.uniform(0.5, 1.5)
    return _stretched(image)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.__name__: kind for kind in (dead_leaves, fractal, noise, layers, cells, blobs, waves, threads)}
)
"""The eight kinds by name."""


def _grey(rng: np.random.Generator, side: int) -> np.ndarray:
    """Mix one to three kinds and change their tone, [side, side] in [0, 1]."""
    image, form = _any(rng, side), rng.random()
    if form < 0.35:
        image = _stretched(rng.uniform(0.3, 1) * image + rng.uniform(0.3, 1) * _any(rng, side))
    elif form < 0.5:
        mask = _step(8 * (noise(rng, side) - rng.uniform(0.3, 0.7)))
        image = image * mask + _any(rng, side) * (1 - mask)
    elif form < 0.62:
        y, x = _coordinates(side)
        edge = _shape(rng, rng.normal(0, 0.2, 2), rng.uniform(0.4, 0.9), y, x) - 1
        outside = _step(edge * rng.uniform(4, 40))
        image = image * (1 - outside) + rng.uniform(0, 0.5) * _any(rng, side) * outside
    if rng.random() < 0.4:
        image = image ** np.exp(rng.normal(0, 0.5))
    if rng.random() < 0.3:
        image = 1 - image
    if rng.random() < 0.3:
        image = ndimage.gaussian_filter(image, np.exp(rng.uniform(np.log(0.5), np.log(3))) * side / 96)
    return image


def _any(rng: np.random.Generator, side: int) -> np.ndarray:
    """Draw a kind, and an image of it."""
    kinds = list(KINDS.values())
    return kinds[rng.choice(len(kinds), p=_SHARES)](rng, side)


def _coordinates(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the pixels' centres, [side, side] each, from -1 to 1."""
    places = (np.arange(side) + 0.5) / side * 2 - 1
    y, x = np.meshgrid(places, places, indexing="ij")
    return y, x


def _box(centre: np.ndarray, radius: float, side: int) -> tuple[slice, slice]:
    """Return the pixels within ``radius`` of a centre, both in coordinates from -1 to 1."""
    low = np.clip(np.floor((centre - radius + 1) / 2 * side), 0, side).astype(int)
    high = np.clip(np.ceil((centre + radius + 1) / 2 * side), 0, side).astype(int)
    return slice(low[0], high[0]), slice(low[1], high[1])


def _shape(rng: np.random.Generator, centre: np.ndarray, radius: float, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a distance that is 1 on the edge of an ellipse, a rectangle, a lobed shape or a polygon, shaped as `y`."""
    angle, aspect = rng.uniform(0, np.pi), np.exp(rng.normal(0, 0.35))
    u = (np.cos(angle) * (x - centre[1]) + np.sin(angle) * (y - centre[0])) / radius * aspect
    v = (np.cos(angle) * (y - centre[0]) - np.sin(angle) * (x - centre[1])) / radius / aspect
    form = rng.integers(4)
    if form == 0:
        return np.hypot(u, v)
    if form == 1:
        return 1.1 * np.maximum(np.abs(u), np.abs(v))
    phase = np.arctan2(v, u)
    if form == 2:
        lobes = np.arange(2, 6)
        sizes, phases = rng.normal(size=4) / lobes, rng.uniform(0, 2 * np.pi, 4)
        edge = 1 + 0.3 * sum(s * np.cos(k * phase + p) for k, s, p in zip(lobes, sizes, phases, strict=True))
        return np.hypot(u, v) / np.maximum(edge, 0.2)
    corner = 2 * np.pi / rng.integers(3, 7)
    return 1.3 * np.hypot(u, v) * np.cos(phase % corner - corner / 2)


def _curve(rng: np.random.Generator, along: np.ndarray) -> np.ndarray:
    """Draw a smooth random curve over places from -1 to 1: seven waves whose sizes fall with their number."""
    number = np.arange(1, 8)
    sizes = rng.standard_normal(7) / number ** rng.uniform(1, 2)
    phases, pace = rng.uniform(0, 2 * np.pi, 7), np.pi * rng.uniform(0.3, 1)
    waves = [s * np.sin(pace * k * along + p) for k, s, p in zip(number, sizes, phases, strict=True)]
    return np.sum(waves, axis=0)


def _power_law(rng: np.random.Generator, n: int, least: float, most: float, exponent: float) -> np.ndarray:
    """Draw [n] numbers with a density that falls as a power, between two bounds."""
    power = 1 - exponent
    return (most**power + rng.random(n) * (least**power - most**power)) ** (1 / power)


def _step(x: np.ndarray) -> np.ndarray:
    """Return a soft step from 0 to 1."""
    return 1 / (1 + np.exp(-np.clip(x, -50, 50)))


def _stretched(x: np.ndarray) -> np.ndarray:
    """Stretch an image: its percentiles 0.5 and 99.5 become 0 and 1, and values beyond are clipped."""
    low, high = np.percentile(x, [0.5, 99.5])
    return np.clip((x - low) / (high - low + 1e-9), 0, 1)
