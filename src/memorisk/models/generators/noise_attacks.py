"""Published membership scores of a diffusion model, each of one given model and of nothing else.

Every score is a function of a `Denoiser`, images, their ids and their conditions, and is higher for a member. The
authors chose times, norms and weights on members of their own models; here they are arguments, times in terms of
alpha_bar (the share of the image in the variance), since schedules differ: `Denoiser.nearest_time` finds the time of
the attacked model. Defaults are the published values on the published schedule (`LINEAR`, of Ho et al. 2020, or
`SCALED_LINEAR`, of Stable Diffusion). An audit that chooses others must choose them on people that it does not score.

Where the authors' code leaves out a root or has a sum in place of a mean, ranks and AUC are the same. Papers 000 to 004
have no such attack; paper 004 (section 4.7) names membership inference as a risk that its filter leaves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import pi, sqrt

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from memorisk.models.generators.denoiser import Denoiser, check_images, levels, part_of
from memorisk.models.generators.noise_losses import noise_losses, rows_per_pass
from memorisk.models.generators.perceptron import linear_schedule
from memorisk.runs.errors import InputError
from memorisk.scores.noise_errors import joined_losses
from memorisk.scores.twin_attacks import Access

FloatArray = NDArray[np.float64]
Images = np.ndarray | torch.Tensor

LINEAR = linear_schedule().numpy()
"""Alpha_bar at the 1,000 times of the linear schedule of Ho et al. 2020."""
SCALED_LINEAR = np.cumprod(1 - np.linspace(sqrt(0.00085), sqrt(0.012), 1000) ** 2)
"""Alpha_bar at the 1,000 times of Stable Diffusion's schedule."""
SECMI_SHARES = tuple(LINEAR[0:111:10].tolist())
"""Alpha_bar along the steps of SecMI."""
CLID_SHARES = tuple(SCALED_LINEAR[[485, 495, 505]].tolist())
"""Alpha_bar at the times of CLiD."""


@dataclass(frozen=True)
class NoiseAttack:
    """One membership score of a diffusion model."""

    name: str
    """Name of the score in tables and on the command line."""
    source: str
    """Paper, section and equation of the score."""
    function: Callable[..., FloatArray]
    """Function of a denoiser, images, ids and conditions (or None) that returns scores [N], higher = more likely a
    member."""
    access: Access = Access.WEIGHTS
    """Access to the attacked model that the score needs; predictions of noise are computed with its weights."""
    needs_condition: bool = False
    """Whether the score is defined for conditional models alone."""
    passes: int = 1
    """Number of passes of the network for each image, at most, at the default settings."""


def loss(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    times: Sequence[int] | None = None,
    weights: ArrayLike | None = None,
    pairs: int = 8,
    block: int | None = None,
) -> FloatArray:
    """Compute minus the weighted loss, ``-sum_l w_l loss_l(x)``, of losses by `noise_losses`.

    Matsumoto et al. (2023) take one time and one draw in their white-box attack, and report that intermediate times
    tell most. The loss-based attack of Hu and Pang (2023) is the same. Weights and draws are memorisk's own (METHODS
    section 7).

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N], which give their noise.
        conditions: Conditions, [N, ...], or None.
        times: Times of the levels, [L]; by default `memorisk.models.generators.denoiser.levels`.
        weights: Weights of the levels, [L], as from `memorisk.scores.noise_errors.level_weights`; by default 1 / L.
        pairs: Number of antithetic pairs of draws.
        block: Number of rows in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other.
    """
    chosen = levels(denoiser) if times is None else np.asarray(times)
    shares = np.full(len(chosen), 1 / len(chosen)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != chosen.shape:
        raise InputError(f"weights are of shape {shares.shape} for {len(chosen)} levels: give one to each level")
    return -joined_losses(noise_losses(denoiser, images, ids, chosen, pairs, block, conditions), shares)


def pia(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    alpha_bar: float = float(LINEAR[200]),
    p: float = 4,
    block: int | None = None,
) -> FloatArray:
    """Compute PIA: minus the p-norm of e_0 - e(sqrt(a_t) x + sqrt(1 - a_t) e_0, t), where e_0 = e(x, 0).

    The model's own prediction at its first time takes the place of noise (Kong et al. 2024, equation 9): two passes,
    nothing drawn. The authors use t = 200 and p = 4 for DDPM, t = 500 for Stable Diffusion. Their code leaves out the
    root of the norm. The code of CDI (Dubinski et al. 2025) takes p = 5.

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N]; they do not matter.
        conditions: Conditions, [N, ...], or None.
        alpha_bar: Share of the image in the variance at the attacked time.
        p: Order of the norm.
        block: Number of images in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other.
    """
    t = denoiser.nearest_time(alpha_bar)

    def score(x: torch.Tensor, condition: torch.Tensor | None) -> torch.Tensor:
        return -_proximal_error(denoiser, x, denoiser.predict_noise(x, 0, condition), t, condition, p)

    return _scores(denoiser, images, ids, conditions, block, score)


def pian(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    alpha_bar: float = float(LINEAR[200]),
    p: float = 4,
    mean_size: float = sqrt(2 / pi),
    block: int | None = None,
) -> FloatArray:
    """Compute PIAN: `pia` with e_0 scaled to the mean size of normal noise.

    Two variants are public. The paper (Kong et al. 2024, equation 10; so the code of CDI) scales e_0 to a mean
    absolute value of sqrt(pi / 2); the authors' code scales it to sqrt(2 / pi), that of a standard normal, which is
    the default.

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N]; they do not matter.
        conditions: Conditions, [N, ...], or None.
        alpha_bar: Share of the image in the variance at the attacked time.
        p: Order of the norm.
        mean_size: Mean absolute value to which e_0 is scaled.
        block: Number of images in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other.
    """
    t = denoiser.nearest_time(alpha_bar)

    def score(x: torch.Tensor, condition: torch.Tensor | None) -> torch.Tensor:
        noise = denoiser.predict_noise(x, 0, condition)
        size = noise.abs().mean(dim=tuple(range(1, x.ndim)), keepdim=True)
        return -_proximal_error(denoiser, x, noise * (mean_size / size), t, condition, p)

    return _scores(denoiser, images, ids, conditions, block, score)


def secmi(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    path: Sequence[float] = SECMI_SHARES,
    block: int | None = None,
) -> FloatArray:
    """Compute SecMI-stat: minus the t-error, ``-|psi(phi(x~_t)) - x~_t|^2``, without drawing noise.

    phi is a step of DDIM to the next time, psi the step back, and x~_t the image after the steps to t (Duan et al.
    2023). The paper measures at t = 100 by steps of 10: 0, 10, ..., 100, then to 110 and back.
    Two variants are public: the authors' code, called with 100, stops at 90, then steps to 100 and back
    (``LINEAR[0:101:10]``); CDI's code is the paper's. One pass of the network per step.

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N]; they do not matter.
        conditions: Conditions, [N, ...], or None.
        path: Shares of the image in the variance along the steps, falling; the error is measured at the last but one.
            Where the schedule has one time for several, that time counts once.
        block: Number of images in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other, or the schedule has fewer than two times on the path.
    """
    times = sorted({denoiser.nearest_time(share) for share in path})
    if len(times) < 2:
        raise InputError(
            f"the path of SecMI has {len(times)} times of this schedule, and the error needs two: give a longer path"
        )

    def score(x: torch.Tensor, condition: torch.Tensor | None) -> torch.Tensor:
        for t, target in pairwise(times[:-1]):
            x = _ddim_step(denoiser, x, t, target, condition)
        forth = _ddim_step(denoiser, x, times[-2], times[-1], condition)
        back = _ddim_step(denoiser, forth, times[-1], times[-2], condition)
        return -(back - x).square().flatten(1).sum(dim=1)

    return _scores(denoiser, images, ids, conditions, block, score)


def sima(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    alpha_bar: float = float(LINEAR[100]),
    p: float = 4,
    block: int | None = None,
) -> FloatArray:
    """Compute SimA: minus the p-norm of e(x, t), the noise that the model sees in an image without any.

    One pass, nothing drawn (Rao et al. 2025, "Score-based membership inference on diffusion models"). The authors'
    code leaves out the root of the norm and reports the best of t = 0, 10, ..., 200, which is a choice on members; the
    default is the middle. Two more variants are public and not here: the norm of e(x_t, t) of the noised image
    (``Epsilon`` in their code), and SimA-MC, its Monte Carlo form.

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N]; they do not matter.
        conditions: Conditions, [N, ...], or None.
        alpha_bar: Share of the image in the variance at the attacked time.
        p: Order of the norm.
        block: Number of images in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other.
    """
    t = denoiser.nearest_time(alpha_bar)

    def score(x: torch.Tensor, condition: torch.Tensor | None) -> torch.Tensor:
        return -_norm(denoiser.predict_noise(x, t, condition), p)

    return _scores(denoiser, images, ids, conditions, block, score)


def clid(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None = None,
    *,
    alpha_bar: Sequence[float] = CLID_SHARES,
    pairs: int = 8,
    block: int | None = None,
) -> FloatArray:
    """Compute CLiD: the loss without a condition minus the loss with the image's own, on the same noise.

    I(x, c) = E_(t, e) [|e(x_t, t, none) - e|^2 - |e(x_t, t, c) - e|^2] (Zhai et al. 2024, equation 13), as a mean over
    numbers. The authors take three times around the middle of Stable Diffusion, one draw each. Their attacks add more:
    CLiD_th a weighted sum with the loss, and CLiD_vec a classifier, both trained on a shadow model; and as further
    conditions thirds of the caption (their ``mia_CLiD_clip``) or captions without their important words
    (``mia_CLiD_impt``). The discrepancy by itself is CLiD_th at a weight of 1 with "none" alone.

    With guidance, e(x_t, t, c) is the guided prediction; the paper has none.

    Args:
        denoiser: Denoiser of the attacked model.
        images: Images, [N, c, ...].
        ids: Ids of the images, [N], which give their noise.
        conditions: Conditions, [N, ...].
        alpha_bar: Share of the image in the variance at each attacked time, [L].
        pairs: Number of antithetic pairs of draws.
        block: Number of rows in a pass of the network.

    Returns:
        Scores, [N].

    Raises:
        InputError: The inputs do not fit each other, or conditions are missing.
    """
    if conditions is None:
        raise InputError("CLiD compares a model with and without its condition: give one condition to each image")
    times = sorted({denoiser.nearest_time(share) for share in alpha_bar})
    without, own = (noise_losses(denoiser, images, ids, times, pairs, block, c) for c in (None, conditions))
    return (without - own).mean(axis=0)


NOISE_ATTACKS: Mapping[str, NoiseAttack] = {
    attack.name: attack
    for attack in (
        NoiseAttack(
            "loss",
            "Matsumoto et al. 2023, white-box attack; levels joined as in METHODS section 7",
            loss,
            passes=160,
        ),
        NoiseAttack("pia", "Kong et al. 2024, equation 9", pia, passes=2),
        NoiseAttack("pian", "Kong et al. 2024, equation 10, scaled as in the authors' code", pian, passes=2),
        NoiseAttack("secmi", "Duan et al. 2023, t-error", secmi, passes=len(SECMI_SHARES)),
        NoiseAttack("sima", "Rao et al. 2025, norm of e(x, t)", sima),
        NoiseAttack("clid", "Zhai et al. 2024, section 3.3, equation 13", clid, needs_condition=True, passes=96),
    )
}
"""Registered scores by name, in the order of reports."""


def _scores(
    denoiser: Denoiser,
    images: Images,
    ids: Sequence[str],
    conditions: torch.Tensor | None,
    block: int | None,
    score: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor],
) -> FloatArray:
    """Score images block by block, [N]."""
    check_images(images, ids, conditions)
    size, device = rows_per_pass(block, images.shape[1:]), denoiser.device
    scores = np.empty(len(images), dtype=np.float64)
    with denoiser.measuring():
        for begin in range(0, len(images), size):
            end = min(begin + size, len(images))
            condition = None if conditions is None else conditions[begin:end].to(device)
            scores[begin:end] = score(part_of(images, begin, end, device), condition).cpu().numpy()
    return scores


def _proximal_error(
    denoiser: Denoiser, x: torch.Tensor, noise: torch.Tensor, t: int, condition: torch.Tensor | None, p: float
) -> torch.Tensor:
    """Compute the p-norm between noise and the prediction of it, [b]."""
    return _norm(noise - denoiser.predict_noise(denoiser.noised(x, noise, t), t, condition), p)


def _ddim_step(
    denoiser: Denoiser, x_t: torch.Tensor, t: int, target: int, condition: torch.Tensor | None
) -> torch.Tensor:
    """Step from one time to another without drawing noise (Song et al. 2021, equation 12 at sigma 0)."""
    noise = denoiser.predict_noise(x_t, t, condition)
    return denoiser.noised(denoiser.image_of(x_t, noise, t), noise, target)


def _norm(values: torch.Tensor, p: float) -> torch.Tensor:
    """Compute the p-norm of each image, [b]."""
    return torch.linalg.vector_norm(values.flatten(1), ord=p, dim=1)
