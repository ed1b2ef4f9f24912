"""Made images of many kinds, each person in one: what they share is more than what tells them apart."""

from collections.abc import Callable

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

Kind = Callable[[np.random.Generator], np.ndarray]
SIZE = 64


def _field(rng: np.random.Generator, rough: float = 1.2, size: int = SIZE) -> np.ndarray:
    """[s, s] in 0 to 1: smooth shapes under finer ones."""
    scales = np.array([1.0, 2.0, 4.0, 9.0]) * size / SIZE
    field = np.sum([gaussian_filter(rng.normal(size=(size, size)), s) * s**rough for s in scales], axis=0)
    return (field - field.min()) / (field.max() - field.min())


def _radius(size: int = SIZE) -> np.ndarray:
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    return np.hypot(y, x) / size * 2


def grey(rng: np.random.Generator) -> np.ndarray:
    """Nothing shared."""
    return _field(rng)


def anatomy(rng: np.random.Generator) -> np.ndarray:
    """A strong common structure at nearly one place, faint details of one's own."""
    y = np.mgrid[:SIZE, :SIZE][0] - rng.normal(SIZE / 2, 1.5)
    return np.clip(np.sin(y / 2.5) * 0.4 + 0.5 + 0.15 * (_field(rng) - 0.5), 0, 1)


def masked(rng: np.random.Generator) -> np.ndarray:
    """One mask for all, and burned-in text."""
    made = np.where((_radius() < 0.8) & (np.mgrid[:SIZE, :SIZE][0] > 12), _field(rng), 0.0)
    made[2:8, 4:30:3] = 1.0
    return made


def framed(rng: np.random.Generator) -> np.ndarray:
    """Frames of widths that differ, black or white."""
    made, (top, left) = _field(rng), rng.integers(0, 12, 2)
    edge = float(rng.integers(2))
    made[:top], made[SIZE - top :], made[:, :left], made[:, SIZE - left :] = edge, edge, edge, edge
    return made


def blurred(rng: np.random.Generator) -> np.ndarray:
    """Sharp to very soft."""
    return gaussian_filter(_field(rng), rng.uniform(0, 4))


def coloured(rng: np.random.Generator) -> np.ndarray:
    """Three channels, hardly any texture."""
    tint = rng.uniform(0.5, 1.0, 3)
    return (_field(rng, 1.8)[..., None] * 0.4 + 0.5) * tint


def tiny(rng: np.random.Generator) -> np.ndarray:
    """Twelve pixels a side."""
    return _field(rng, size=12)


def round_field(rng: np.random.Generator) -> np.ndarray:
    """A round field on black whose radius and place differ."""
    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2 + rng.normal(0, 2, 2)[:, None, None]
    return np.where(np.hypot(y, x) < rng.uniform(20, 31), _field(rng), 0.0)


def fan(rng: np.random.Generator) -> np.ndarray:
    """An ultrasound's sector, in three shapes."""
    y, x = np.mgrid[:SIZE, :SIZE]
    wide = (0.5, 0.7, 0.9)[rng.integers(3)]
    return np.where(np.abs(np.arctan2(x - SIZE / 2, y + 6.0)) < wide, _field(rng), 0.0)


def two_views(rng: np.random.Generator) -> np.ndarray:
    """Two clusters, the rare one of twenty."""
    y, x = np.mgrid[:SIZE, :SIZE]
    shared = np.sin(x / 3.0) if rng.random() < 0.05 else np.sin(y / 3.0)
    return np.clip(0.5 + 0.3 * shared + 0.3 * (_field(rng) - 0.5), 0, 1)


def sparse(rng: np.random.Generator) -> np.ndarray:
    """Mostly black, a bright spot here and there."""
    made = np.zeros((SIZE, SIZE))
    for y, x in rng.integers(4, SIZE - 4, (3, 2)):
        made[y - 3 : y + 3, x - 3 : x + 3] += 1.0
    return gaussian_filter(made, 1.5) + 0.02 * _field(rng)


def noisy(rng: np.random.Generator) -> np.ndarray:
    """Grain over faint shapes, of strengths that differ by ten."""
    return 0.4 * _field(rng) + rng.uniform(0.03, 0.3) * rng.random((SIZE, SIZE))


KINDS: tuple[Kind, ...] = (
    grey, anatomy, masked, framed, blurred, coloured, tiny, round_field, fan, two_views, sparse, noisy
)  # fmt: skip


def people(kind: Kind, n: int, seed: int) -> list[np.ndarray]:
    """An image [h, w, c] uint8 of each of n people."""
    rng = np.random.default_rng(seed)
    made = [np.clip(kind(rng), 0, 1) for _ in range(n)]
    return [np.uint8(image * 255).reshape(*image.shape[:2], -1) for image in made]


def paler(image: np.ndarray) -> np.ndarray:
    """A copy at half size and back, of less contrast."""
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    small = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.BILINEAR)
    back = np.asarray(small.resize(picture.size, Image.Resampling.BILINEAR))
    return np.uint8(back * 0.8 + 20).reshape(image.shape)
