"""Each published attack equals its authors' formula, written out anew, in whichever form the network is given."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from memorisk.models.generators.denoiser import Denoiser, levels
from memorisk.models.generators.noise_attacks import LINEAR, NOISE_ATTACKS, SCALED_LINEAR, NoiseAttack
from memorisk.models.generators.noise_losses import hashed_noise
from memorisk.runs.errors import InputError
from memorisk.scores.twin_attacks import Access
from tests.models.generators.small_denoisers import ALPHA_BAR, FORMS, epsilon, images, names

A = ALPHA_BAR.numpy()
N = 5
CONDITION = torch.tensor([0.0, 1.0, -1.0, 0.5, 0.2])


def e(x: np.ndarray, t: int, condition: float | None = None) -> np.ndarray:
    """Noise that the network predicts of one image."""
    given = () if condition is None else (torch.tensor([condition]),)
    return epsilon(torch.from_numpy(x)[None], torch.tensor([t]), *given)[0].numpy()


def naive_pia(x: np.ndarray, c: float | None, t: int = 200, p: float = 4) -> float:
    """Kong et al. 2024, equation 9."""
    noise = e(x, 0, c)
    return float((np.abs(noise - e(A[t] ** 0.5 * x + (1 - A[t]) ** 0.5 * noise, t, c)) ** p).sum() ** (1 / p))


def naive_pian(x: np.ndarray, c: float | None, t: int = 200, p: float = 4, *, paper: bool = False) -> float:
    """Equation 10: N sqrt(pi / 2) e_0 / |e_0|_1; the authors' code has sqrt(2 / pi) there."""
    noise = e(x, 0, c)
    noise = x.size * (np.pi / 2 if paper else 2 / np.pi) ** 0.5 * noise / np.abs(noise).sum()
    return float((np.abs(noise - e(A[t] ** 0.5 * x + (1 - A[t]) ** 0.5 * noise, t, c)) ** p).sum() ** (1 / p))


def naive_secmi(x: np.ndarray, c: float | None, steps: Sequence[int] = range(0, 111, 10)) -> float:
    """Duan et al. 2023, in the coordinates y = x / sqrt(a) and p = sqrt(1 / a - 1) of the ODE of DDIM."""

    def step(x_t: np.ndarray, t: int, target: int) -> np.ndarray:
        y = x_t / A[t] ** 0.5 + ((1 / A[target] - 1) ** 0.5 - (1 / A[t] - 1) ** 0.5) * e(x_t.astype(np.float32), t, c)
        return y * A[target] ** 0.5

    *path, last, beyond = steps
    for t, target in zip(path, [*path[1:], last], strict=True):
        x = step(x, t, target)
    return float(((step(step(x, last, beyond), beyond, last) - x) ** 2).sum())


def naive_sima(x: np.ndarray, c: float | None, t: int = 100, p: float = 4) -> float:
    """Rao et al. 2025: the norm of e(x, t), x without noise."""
    return float((np.abs(e(x, t, c)) ** p).sum() ** (1 / p))


def naive_loss_at(x: np.ndarray, name: str, c: float | None, t: int, draws: int) -> float:
    """Loss of one image at one time."""
    noises = [hashed_noise(name, draw, x.shape).numpy() for draw in range(draws)]
    errors = [((e(A[t] ** 0.5 * x + (1 - A[t]) ** 0.5 * n, t, c) - n) ** 2).mean() for n in noises]
    return float(np.mean(errors))


def scores(name: str, form: str = "epsilon", conditions: torch.Tensor | None = None, **settings: object) -> np.ndarray:
    return NOISE_ATTACKS[name].function(FORMS[form], images(N), names(N), conditions, **settings)


NAIVE: dict[str, Callable[..., float]] = {
    "pia": naive_pia,
    "pian": naive_pian,
    "secmi": naive_secmi,
    "sima": naive_sima,
}


@pytest.mark.parametrize("conditions", [None, CONDITION])
@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("form", FORMS)
def test_a_deterministic_attack_equals_its_formula_in_every_form(
    form: str, name: str, conditions: torch.Tensor | None
) -> None:
    given = [None] * N if conditions is None else conditions.tolist()
    expected = [-NAIVE[name](x, c) for x, c in zip(images(N).numpy(), given, strict=True)]
    found = scores(name, form, conditions, block=2)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert np.ptp(expected) > 0.1 * np.abs(expected).max()  # images differ by far more than the tolerance


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_is_the_weighted_sum_over_levels(form: str) -> None:
    weights, times = [3.0, 0.5], [40, 300]
    expected = [
        -sum(w * naive_loss_at(x, name, None, t, 4) for w, t in zip(weights, times, strict=True))
        for x, name in zip(images(N).numpy(), names(N), strict=True)
    ]
    np.testing.assert_allclose(scores("loss", form, times=times, weights=weights, pairs=2), expected, rtol=2e-4)


def test_the_loss_takes_all_levels_alike_where_no_weights_are_given() -> None:
    times = levels(FORMS["epsilon"])
    x, name = images(N).numpy()[1], names(N)[1]
    expected = -np.mean([naive_loss_at(x, name, None, int(t), 2) for t in times])
    assert scores("loss", pairs=1)[1] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_clid_is_the_mean_of_the_differences_of_the_losses(form: str) -> None:
    times = [30, 400]
    expected = []
    for x, name, c in zip(images(N).numpy(), names(N), CONDITION.tolist(), strict=True):
        apart = [naive_loss_at(x, name, None, t, 4) - naive_loss_at(x, name, c, t, 4) for t in times]
        expected.append(np.mean(apart))
    found = scores("clid", form, CONDITION, alpha_bar=[float(A[t]) for t in times], pairs=2)
    np.testing.assert_allclose(found, expected, rtol=5e-4, atol=1e-6)
    assert found[0] == pytest.approx(0, abs=1e-6)  # the condition 0 shifts nothing


def test_variants_that_are_public_are_settings() -> None:
    x = images(N).numpy()
    paper = scores("pian", mean_size=(np.pi / 2) ** 0.5)
    np.testing.assert_allclose(paper, [-naive_pian(v, None, paper=True) for v in x], rtol=1e-4)
    code = scores("secmi", path=LINEAR[0:101:10].tolist())
    np.testing.assert_allclose(code, [-naive_secmi(v, None, range(0, 101, 10)) for v in x], rtol=2e-3)
    cdi = scores("pia", p=5, alpha_bar=float(A[500]))
    np.testing.assert_allclose(cdi, [-naive_pia(v, None, 500, 5) for v in x], rtol=1e-4)
    second = scores("sima", p=2, alpha_bar=float(A[0]))
    np.testing.assert_allclose(second, [-naive_sima(v, None, 0, 2) for v in x], rtol=1e-4)


def test_published_times_are_carried_to_another_schedule_by_their_signal() -> None:
    half = Denoiser(lambda x_t, t: epsilon(x_t, 2 * t), ALPHA_BAR[::2])  # the same network on every other time
    x, ids = images(N), names(N)
    for name in NAIVE:
        np.testing.assert_allclose(NOISE_ATTACKS[name].function(half, x, ids), scores(name), rtol=1e-3)


def test_schedules_are_the_published_ones() -> None:
    np.testing.assert_allclose(LINEAR, A)
    diffusers = pytest.importorskip("diffusers")
    stable = diffusers.DDPMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    np.testing.assert_allclose(SCALED_LINEAR, stable.alphas_cumprod.numpy(), rtol=1e-4)


def test_a_network_that_learnt_its_members_by_heart_gives_them_the_higher_scores() -> None:
    """The optimal denoiser of the members alone: a softmax over them (the sign of every attack)."""
    members, others = images(6, (1, 4, 4)), images(6, (1, 4, 4), seed=9)

    def by_heart(x_t: torch.Tensor, t: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        a, s = ((v[:, None]).float() for v in (ALPHA_BAR[t] ** 0.5, (1 - ALPHA_BAR[t]) ** 0.5))
        flat = x_t.flatten(1)
        logits = -((flat[:, None] - a[:, None] * members.flatten(1)[None]) ** 2).sum(dim=2) / (2 * s**2)
        best = torch.softmax(logits, dim=1) @ members.flatten(1)
        if condition is not None:  # the condition names the member
            best = torch.where(condition[:, None] >= 0, members.flatten(1)[condition.clamp(min=0)], best)
        return ((flat - a * best) / s).view_as(x_t)

    denoiser = Denoiser(by_heart, ALPHA_BAR)
    x, ids = torch.cat([members, others]), names(12)
    condition = torch.cat([torch.arange(6), torch.arange(6)])
    for attack in NOISE_ATTACKS.values():
        if attack.name == "pian":
            continue  # a prediction of no noise has no direction to scale
        found = attack.function(denoiser, x, ids, condition if attack.needs_condition else None)
        assert np.mean(found[:6, None] > found[None, 6:]) > 0.9, attack.name


def test_every_attack_says_its_source_and_access() -> None:
    assert list(NOISE_ATTACKS) == ["loss", "pia", "pian", "secmi", "sima", "clid"]
    for name, attack in NOISE_ATTACKS.items():
        assert attack.name == name
        assert attack.source
        assert attack.access is Access.WEIGHTS
    assert [attack.name for attack in NOISE_ATTACKS.values() if attack.needs_condition] == ["clid"]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="give one condition to each image"):
        scores("clid")
    with pytest.raises(InputError, match="give one to each level"):
        scores("loss", times=[1, 2], weights=[1.0])
    with pytest.raises(InputError, match="1 times of this schedule"):
        scores("secmi", path=[0.9, 0.9])
    for name in ("pia", "sima"):
        with pytest.raises(InputError, match="between 0 and 1"):
            scores(name, alpha_bar=1.5)
    for name in NAIVE:
        with pytest.raises(InputError, match="1 ids for 5 images"):
            NOISE_ATTACKS[name].function(FORMS["epsilon"], images(N), names(1))
        with pytest.raises(InputError, match="block is 0"):
            scores(name, block=0)


@pytest.mark.parametrize("attack", NOISE_ATTACKS.values(), ids=lambda attack: attack.name)
def test_the_stated_number_of_passes_is_the_number_of_passes(attack: NoiseAttack) -> None:
    rows: list[int] = []

    def counted(x: torch.Tensor, t: torch.Tensor, *condition: torch.Tensor) -> torch.Tensor:
        rows.append(len(x))
        return epsilon(x, t, *condition)

    denoiser = Denoiser(counted, ALPHA_BAR, "epsilon", null=FORMS["epsilon"].null)
    attack.function(denoiser, images(N), names(N), CONDITION if attack.needs_condition else None)
    assert sum(rows) == N * attack.passes
