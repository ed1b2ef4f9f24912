"""Principal components of pixels: fitted on reference images only, kept, applied to any others.

Fitting is `memorisk.training.features.pca.fit_pixel_pca`; here is what it gives.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

from memorisk.runs.damaged import NO_ARRAYS
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.files import atomic_path
from memorisk.runs.fingerprint import fingerprint
from memorisk.runs.formats.bounds import check_arrays

_KEYS = ("mean", "directions", "variance", "total_variance", "n_fitted", "shape", "side")


@dataclass(frozen=True, eq=False)
class PixelPca:
    """Principal components of pixels x in [0, 1]: features are ``(x - mean) @ directions.T``, not whitened.

    Attributes:
        mean: [D] float64, D = h w C, in the order of storage.
        directions: [K, D] float64, orthonormal, by falling variance; in each the entry of largest magnitude is positive
            (the first of them where several are as large), so that a sign does not depend on the machine.
        variance: [K] of the reference images along each direction, with n - 1.
        total_variance: Over all directions.
        n_fitted: Reference images.
        shape: Height, width and channels of the pixels after resizing.
        side: Pixels a side they were resized to; None as they are stored.
    """

    mean: np.ndarray
    directions: np.ndarray
    variance: np.ndarray
    total_variance: float
    n_fitted: int
    shape: tuple[int, int, int]
    side: int | None

    @property
    def components(self) -> int:
        """K."""
        return len(self.directions)

    @property
    def explained(self) -> float:
        """Share of the reference images' variance that the components hold, at most 1."""
        return min(1.0, float(self.variance.sum() / self.total_variance)) if self.total_variance else 1.0

    @cached_property
    def fingerprint(self) -> str:
        """Hash of what is applied."""
        return fingerprint(self.mean, self.directions, list(self.shape), self.side, length=32)

    def save(self, path: str | Path) -> None:
        """Write it as ``.npz``, atomically and with private permissions; nothing is pickled."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                mean=self.mean,
                directions=self.directions,
                variance=self.variance,
                total_variance=self.total_variance,
                n_fitted=self.n_fitted,
                shape=self.shape,
                side=self.side or 0,
            )

    @classmethod
    def load(cls, path: str | Path) -> "PixelPca":
        """Read what :meth:`save` wrote.

        Raises:
            InputError: The file is missing, damaged or something else.
        """
        try:
            check_arrays(path)
            with np.load(path, allow_pickle=False) as archive:
                found = {key: archive[key] for key in _KEYS}
            loaded = cls(
                mean=found["mean"].astype(np.float64),
                directions=found["directions"].astype(np.float64),
                variance=found["variance"].astype(np.float64),
                total_variance=float(found["total_variance"]),
                n_fitted=int(found["n_fitted"]),
                shape=(int(found["shape"][0]), int(found["shape"][1]), int(found["shape"][2])),
                side=int(found["side"]) or None,
            )
            width = int(np.prod(loaded.shape))
            if loaded.mean.shape != (width,) or loaded.directions.shape != (len(loaded.variance), width):
                raise ValueError("its arrays do not fit together")
            if not (np.isfinite(loaded.mean).all() and np.isfinite(loaded.directions).all()):
                raise ValueError("it holds values that are not finite")
        except NO_ARRAYS as error:
            raise InputError(f"fitted PCA {one_line(path)} cannot be read: {one_line(error, 120)}") from None
        return loaded


class PixelProjection(nn.Module):
    """A fitted PCA as a module.

    Args:
        fitted: What was fitted.
    """

    mean: torch.Tensor
    directions: torch.Tensor

    def __init__(self, fitted: PixelPca) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(fitted.mean))
        self.register_buffer("directions", torch.from_numpy(fitted.directions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[b, C, h, w] float64 in [0, 1] to [b, K]."""
        return (x.movedim(1, -1).flatten(1) - self.mean) @ self.directions.T
