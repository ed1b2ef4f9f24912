"""The user's own training of a diffusion generator: its arguments, and losses by what it returns.

``function(images, *, seed, device, **settings)`` returns ``(network, scheduler)`` in the form of diffusers, or an
object with ``loss(images, noise, level)`` (`OwnLoss`); see docs/own-training.md. What it returns is tried on two images
at once, so that a fault is known after one training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from memorisk.images.store import ImageStore
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.denoiser import LEAST_NOISE, LEAST_SIGNAL, Denoiser, levels
from memorisk.models.generators.noise_losses import hashed_noise
from memorisk.runs.errors import UserCodeError, one_line
from memorisk.training.engine.user_training import (
    CallForm,
    RowDataset,
    load_function,
    names_parameter,
    wants_dataset,
)
from memorisk.training.generators.batches import RowImages

CHECKPOINT_FOLDER = "checkpoint_folder"
CALL_FORM = CallForm(
    arrays=("images",), named=("seed", "device"), dataset_named=("seed", "device"), optional=CHECKPOINT_FOLDER
)
"""Arguments of a function that trains a generator."""
FORMS = "(network, scheduler), or an object with loss(images, noise, level), is needed"
_TIMES = 1000
_TRIED = 2
_TOLERANCE = 0.01  # a GPU may choose other kernels for one image than for two


@dataclass(frozen=True, kw_only=True)
class OwnRecipe:
    """Training of every twin of an audit by the user's function.

    Attributes:
        function: Name of the function, ``module:function``.
        settings: Settings of the user.
        file_hash: Fingerprint of the text of its file.
        levels: Number of noise levels at which an image is scored.
        draws: Number of antithetic pairs of noise at each level.
    """

    function: str
    settings: Mapping[str, str]
    file_hash: str
    levels: int
    draws: int
    steps: ClassVar[int] = 1
    """Number of steps that a progress counts for one training, which shows its end alone."""


def _even_levels() -> torch.Tensor:
    """Return shares of the image in the variance, falling, even in the log of signal over noise, [T] float64."""
    high, low = -2 * np.log(LEAST_NOISE), np.log(LEAST_SIGNAL / (1 - LEAST_SIGNAL))
    rounding = 1e-9  # keeps both ends inside the range in which `levels` chooses
    return torch.sigmoid(torch.linspace(high - rounding, low + rounding, _TIMES, dtype=torch.float64))


@dataclass(frozen=True, eq=False)
class OwnLoss(Denoiser):
    """The user's object with ``loss(images, noise, level)``, as the network of a denoiser.

    ``loss`` returns the mean squared error of the predicted noise of each image, [b].
    """

    alpha_bar: torch.Tensor = field(default_factory=_even_levels)
    where: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of the images and noise that the object receives."""

    @property
    def device(self) -> torch.device:
        """Return the device of the training."""
        return self.where

    def noise_errors(
        self, x: torch.Tensor, noise: torch.Tensor, times: torch.Tensor, condition: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the loss of each image at each time, [b, L]; arguments as for `Denoiser.noise_errors`.

        Raises:
            UserCodeError: The object returns no tensor of one number per image.
        """
        model: Any = self.network
        losses = []
        for time in times.tolist():
            loss = model.loss(x.clone(), noise.clone(), float(self.alpha_bar[time]))
            shape = list(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            if shape != [len(x)]:
                raise UserCodeError(f"loss returned {shape} for {len(x)} images: return a tensor, one number per image")
            losses.append(loss.to(x))
        return torch.stack(losses, dim=1)


def train_own(
    recipe: OwnRecipe,
    store: ImageStore,
    rows: np.ndarray,
    *,
    negatives: bool = False,
    seed: int,
    device: str,
    python_path: tuple[Path, ...],
    checkpoint_folder: Path,
    tried: RowImages,
) -> Denoiser:
    """Run the user's function, and try what it returns.

    Args:
        recipe: Function and settings.
        store: The images.
        rows: Rows to train on, in slot order.
        negatives: Whether the function receives the negatives of the images.
        seed: Random seed, the same for both twins of a pair.
        device: Device to train on.
        python_path: Folders in which the user's module is searched.
        checkpoint_folder: Folder for the state of the training, where the function names one among its parameters.
        tried: Images on which the result is tried, in the range of the scores.

    Returns:
        Denoiser of the trained network, in evaluation mode.

    Raises:
        InputError: The function's file has another text than when the run began.
        UserCodeError: The function returned something else, or losses that are not usable.
    """
    name = recipe.function
    function = load_function(name, CALL_FORM, recipe.settings, python_path, recipe.file_hash)
    named: dict[str, Any] = {}
    if names_parameter(function, CHECKPOINT_FOLDER):
        checkpoint_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        named[CHECKPOINT_FOLDER] = checkpoint_folder
    source, rows = (_negatives(store.images, rows), np.arange(len(rows))) if negatives else (store.images, rows)
    # asarray: an indexed memory map is a plain array already, although its type does not show it
    images = RowDataset(source, rows) if wants_dataset(function) else np.asarray(source[rows])
    with seeded(seed):  # a function that seeds nothing still makes twins that start alike
        value = function(images, seed=seed, device=device, **named, **recipe.settings)
    denoiser = open_own(value, torch.device(device), name)
    _try(denoiser, tried, recipe.levels, name)
    return denoiser


def _negatives(images: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the negatives of some images, bright where they are dark."""
    return np.iinfo(images.dtype).max - np.asarray(images[rows])


def open_own(value: Any, device: torch.device, name: str) -> Denoiser:
    """Open the user's own diffusion model as a predictor of noise.

    Args:
        value: ``(network, scheduler)``, or an object with ``loss``; a module is moved to the device.
        device: Device that computes.
        name: Name of the function or argument that it comes from, in messages.

    Raises:
        UserCodeError: It is neither of the two.
        InputError: The scheduler has no noise levels.
    """
    if isinstance(value, tuple) and len(value) == 2 and callable(value[0]):
        network, scheduler = value
        if not hasattr(scheduler, "alphas_cumprod"):
            raise UserCodeError(
                f"{name} gives a {type(scheduler).__name__} as scheduler, which has no alphas_cumprod: {FORMS}"
            )
        return Denoiser.from_scheduler(_ready(network, device), scheduler)
    if callable(getattr(value, "loss", None)):
        return OwnLoss(_ready(value, device), where=device)
    raise UserCodeError(f"{name} gives {one_line(type(value).__name__, 60)}: {FORMS}")


def _ready(model: Any, device: torch.device) -> Any:
    """Put a module on the device in evaluation mode; leave another object as it is."""
    return model.to(device).eval() if isinstance(model, nn.Module) else model


def _try(denoiser: Denoiser, images: RowImages, n_levels: int, name: str) -> None:
    """Refuse losses that are not numbers, or are not a function of image, noise and level alone.

    Raises:
        UserCodeError: They are not usable.
        InputError: The network returns another shape, or its schedule has fewer levels.
    """
    times = torch.from_numpy(levels(denoiser, n_levels)).to(denoiser.device)
    (x,) = images.batches([torch.arange(_TRIED)])
    x = x.to(denoiser.device)
    noise = torch.stack([hashed_noise(f"tried-{i}", 0, images.shape) for i in range(_TRIED)]).to(denoiser.device)
    with denoiser.measuring():
        together = denoiser.noise_errors(x, noise, times)
        alone = denoiser.noise_errors(x[:1], noise[:1], times)
    bad = torch.nonzero(~torch.isfinite(together))
    if len(bad):
        image, level = bad[0].tolist()
        share = float(denoiser.alpha_bar[times[level]])
        raise UserCodeError(
            f"{name}: the loss of a training image is {float(together[image, level])} at level {share:.2g}: the "
            "training diverged, or the loss divides by 0"
        )
    if not torch.allclose(together[:1], alone, rtol=_TOLERANCE, atol=1e-6):
        raise UserCodeError(
            f"{name}: the loss of an image changes from one call to the next: let it use the noise that it receives "
            "and no other image of the batch, in evaluation mode"
        )
