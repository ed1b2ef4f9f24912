"""Networks that predict noise, v, x0 or EDM's image are one predictor of noise; levels are spread over the schedule."""

import itertools
import math
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from memorisk.models.generators.denoiser import LEAST_NOISE, LEAST_SIGNAL, Denoiser, levels
from memorisk.models.generators.dit.network import null_labels
from memorisk.runs.errors import InputError
from tests.models.generators.small_denoisers import ALPHA_BAR, FORMS, epsilon, image, images, velocity
from tests.models.small_dit import noise_of_training, small_dit, small_spec

SHAPES = [(2, 4, 5), (2, 3, 4, 5)]
"""An image and a volume."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_network_predicts_the_same_noise(form: str, shape: tuple[int, ...]) -> None:
    x_t, t = images(4, shape), torch.tensor([0, 40, 300, 999])
    condition = torch.tensor([0.0, 1.0, -1.0, 0.5])
    tolerance = {"atol": 2e-4, "rtol": 1e-4}  # at t = 0 an x0 in float32 is divided by a spread of 0.01
    torch.testing.assert_close(FORMS[form].predict_noise(x_t, t), epsilon(x_t, t), **tolerance)
    expected = epsilon(x_t, t, condition)
    torch.testing.assert_close(FORMS[form].predict_noise(x_t, t, condition), expected, **tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_network_that_knows_the_image_makes_no_error(shape: tuple[int, ...]) -> None:
    """The conversions against the definitions: each network gives the truth of its kind."""
    x, e, t = images(3, shape), images(3, shape, seed=1), torch.tensor([5, 200, 900])
    a, s = (ALPHA_BAR[t] ** 0.5).float(), ((1 - ALPHA_BAR[t]) ** 0.5).float()
    a, s = (v.view(-1, *[1] * len(shape)) for v in (a, s))
    truth = {"epsilon": e, "v_prediction": a * e - s * x, "sample": x, "sigma": x}
    error_of_one = {"epsilon": a**0, "v_prediction": a**2, "sample": (a / s) ** 2, "sigma": (a / s) ** 2}
    for prediction, answer in truth.items():
        denoiser = Denoiser(lambda *_, answer=answer: answer, ALPHA_BAR, prediction)
        assert float(denoiser.noise_error(x, e, t).max()) < 1e-9, prediction
        amiss = Denoiser(lambda *_, answer=answer: answer + 1, ALPHA_BAR, prediction)
        torch.testing.assert_close(amiss.noise_error(x, e, t), error_of_one[prediction].flatten(), rtol=1e-3, atol=0)


def test_a_network_of_edm_receives_the_image_with_noise_of_its_level() -> None:
    received: list[torch.Tensor] = []

    def network(y: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        received.extend([y, sigma])
        return torch.zeros_like(y)

    x, e = images(2), images(2, seed=1)
    sigmas = torch.tensor([0.01, 0.5, 20.0])
    denoiser = Denoiser.from_sigmas(network, sigmas)
    error = denoiser.noise_error(x, e, torch.tensor([1, 2]))
    y, sigma = received
    torch.testing.assert_close(sigma, torch.tensor([0.5, 20.0]))
    torch.testing.assert_close(y, x + sigma[:, None, None, None] * e)
    torch.testing.assert_close(error, (y / sigma[:, None, None, None] - e).square().mean(dim=(1, 2, 3)))


def test_the_error_is_the_mean_square_of_each_image() -> None:
    x, e, denoiser = images(3), images(3, seed=1), FORMS["epsilon"]
    for k, t in enumerate([0, 123, 999]):
        a, s = math.sqrt(float(ALPHA_BAR[t])), math.sqrt(1 - float(ALPHA_BAR[t]))
        expected = float((epsilon(a * x[k : k + 1] + s * e[k : k + 1], torch.tensor([t])) - e[k]).square().mean())
        assert float(denoiser.noise_error(x, e, t)[k]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_errors_at_several_times_are_those_at_each(form: str, shape: tuple[int, ...]) -> None:
    x, e, times = images(3, shape), images(3, shape, seed=1), torch.tensor([500, 0, 30, 999])
    condition, denoiser = torch.tensor([0.0, 1.0, -1.0]), FORMS[form]
    before = (x.clone(), e.clone())
    errors = denoiser.noise_errors(x, e, times, condition)
    for k, t in enumerate(times.tolist()):
        torch.testing.assert_close(errors[:, k], denoiser.noise_error(x, e, t, condition))
    assert torch.equal(x, before[0])
    assert torch.equal(e, before[1])


def test_guidance_is_the_published_mixture() -> None:
    x_t, t, condition = images(2), torch.tensor([10, 500]), torch.tensor([1.0, -2.0])
    guided = Denoiser(epsilon, ALPHA_BAR, guidance=3.0)
    without, with_condition = epsilon(x_t, t), epsilon(x_t, t, condition)
    expected = without + 3 * (with_condition - without)
    torch.testing.assert_close(guided.predict_noise(x_t, t, condition), expected)
    torch.testing.assert_close(guided.predict_noise(x_t, t), without)


def test_a_null_condition_is_given_to_a_network_that_needs_one() -> None:
    def needs(x_t: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        return epsilon(x_t, t, condition[:, 0])

    x_t, t = images(3), 77
    denoiser = Denoiser(needs, ALPHA_BAR, null=torch.tensor([[0.25, 9.0]]))
    expected = epsilon(x_t, torch.full((3,), t), torch.full((3,), 0.25))
    torch.testing.assert_close(denoiser.predict_noise(x_t, t), expected)


@pytest.mark.parametrize("wrap", [lambda y: (y, "more"), lambda y: SimpleNamespace(sample=y)])
def test_outputs_of_diffusers_are_unpacked(wrap: Any) -> None:
    x_t, t = images(2), torch.tensor([3, 4])
    wrapped = Denoiser(lambda x, time: wrap(epsilon(x, time)), ALPHA_BAR)
    torch.testing.assert_close(wrapped.predict_noise(x_t, t), epsilon(x_t, t))


@pytest.mark.parametrize(
    ("prediction_type", "network"), [("epsilon", epsilon), ("v_prediction", velocity), ("sample", image)]
)
def test_a_scheduler_of_diffusers_agrees(prediction_type: str, network: Any) -> None:
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.DDPMScheduler(prediction_type=prediction_type, clip_sample=False)
    denoiser = Denoiser.from_scheduler(network, scheduler)
    x, e, t = images(3), images(3, seed=1), torch.tensor([0, 250, 999])
    x_t = denoiser.noised(x, e, t)
    torch.testing.assert_close(x_t, scheduler.add_noise(x, e, t))
    for k, time in enumerate(t.tolist()):
        row = x_t[k : k + 1]
        answer = network(row, t[k : k + 1])
        rendered = scheduler.step(answer, time, row, generator=torch.Generator()).pred_original_sample
        a, s = denoiser.alpha_bar[time].sqrt().float(), (1 - denoiser.alpha_bar[time]).sqrt().float()
        predicted = denoiser.predict_noise(row, time)
        torch.testing.assert_close((row - s * predicted) / a, rendered, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("learn_sigma", [False, True])
def test_a_diffusion_transformer_is_called_by_place(learn_sigma: bool) -> None:
    spec = small_spec("class", learn_sigma=learn_sigma)
    network = small_dit(spec)
    denoiser = Denoiser.from_scheduler(network, noise_of_training(), null=null_labels(spec, 1))
    x_t, t, labels = images(3, (3, 10, 10)), torch.tensor([0, 50, 900]), torch.tensor([2, 0, 1])
    for condition, given in ((labels, labels), (None, torch.full((3,), spec.classes))):
        output = network(x_t, timestep=t, class_labels=given, return_dict=False)[0][:, :3]
        torch.testing.assert_close(denoiser.predict_noise(x_t, t, condition), output, rtol=0, atol=0)


def test_a_prediction_is_read_of_a_scheduler_that_has_no_configuration() -> None:
    """Schedulers of MONAI have it as an attribute, a string of an enumeration."""
    kind = Enum("Kind", {"V": "v_prediction"}, type=str)
    of_monai = SimpleNamespace(alphas_cumprod=ALPHA_BAR, prediction_type=kind.V)
    assert Denoiser.from_scheduler(epsilon, of_monai).prediction == "v_prediction"


def test_a_scheduler_without_shares_is_refused() -> None:
    with pytest.raises(InputError, match=r"SimpleNamespace has no alphas_cumprod.*from_sigmas"):
        Denoiser.from_scheduler(epsilon, SimpleNamespace(config=SimpleNamespace()))


@pytest.mark.parametrize("share", [[0.1, 0.5], [0.5, 0.5], [1.0, 0.5], [0.5, -0.1], [], [[0.5], [0.4]]])
def test_a_schedule_that_does_not_fall_is_refused(share: Any) -> None:
    with pytest.raises(InputError, match="is not a schedule"):
        Denoiser(epsilon, torch.tensor(share, dtype=torch.float64))


def test_an_unknown_prediction_and_an_answer_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match="v_prediction"):
        Denoiser(epsilon, ALPHA_BAR, "score")
    with pytest.raises(InputError, match=r"answers \[2, 2, 2, 5\] to images of \[2, 2, 4, 5\]"):
        Denoiser(lambda x, t: x[:, :, ::2], ALPHA_BAR).predict_noise(images(2), 5)


def test_measuring_turns_dropout_off_and_restores_each_part() -> None:
    network = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(5, 5))
    network[1].eval()
    denoiser = Denoiser(lambda x, t: network(x), ALPHA_BAR)
    assert denoiser.device.type == "cpu"
    direct = Denoiser(network, ALPHA_BAR)
    with direct.measuring():
        x = torch.ones(1, 1, 1, 5)
        assert torch.equal(network(x), network[1](x))
        assert torch.is_inference_mode_enabled()
    assert [part.training for part in network.modules()] == [True, True, False]


def test_the_nearest_time_is_that_of_the_same_signal_over_noise() -> None:
    denoiser = FORMS["epsilon"]
    for t in (0, 1, 200, 999):
        assert denoiser.nearest_time(float(ALPHA_BAR[t])) == t
    short = Denoiser(epsilon, ALPHA_BAR[::100])
    assert short.nearest_time(float(ALPHA_BAR[190])) == 2
    with pytest.raises(InputError, match="between 0 and 1"):
        short.nearest_time(1.0)


def test_levels_are_an_even_grid_in_the_log_of_signal_over_noise() -> None:
    denoiser = FORMS["epsilon"]
    chosen = levels(denoiser, 10)
    log_snr = np.log(ALPHA_BAR.numpy() / (1 - ALPHA_BAR.numpy()))[chosen]
    assert chosen[0] == 0
    assert np.all(np.diff(chosen) > 0)
    assert float(ALPHA_BAR[chosen[-1]]) >= LEAST_SIGNAL > float(ALPHA_BAR[chosen[-1] + 1])
    assert np.abs(log_snr - np.linspace(log_snr[0], log_snr[-1], 10)).max() < 0.4  # steps of 0.8 at the first times


def test_levels_leave_out_noise_below_half_a_grey_level() -> None:
    sigmas = torch.logspace(math.log10(0.0005), 2, 500)
    chosen = levels(Denoiser.from_sigmas(epsilon, sigmas))
    assert float(sigmas[chosen[0]]) >= LEAST_NOISE > float(sigmas[chosen[0] - 1])


@pytest.mark.parametrize("n", [1, 3, 4, 6])
def test_levels_of_a_short_schedule_are_distinct_and_nearest_in_total(n: int) -> None:
    share = torch.tensor([0.999, 0.998, 0.99, 0.4, 0.1, 0.02, 0.0])
    denoiser = Denoiser(epsilon, share)
    usable = denoiser.log_snr[:6]
    grid = np.linspace(usable[0], usable[-1], n)

    def distance(choice: tuple[int, ...]) -> float:
        return float(np.abs(usable[list(choice)] - grid).sum())

    best = min(itertools.combinations(range(6), n), key=distance)
    assert levels(denoiser, n).tolist() == list(best)


def test_more_levels_than_times_are_refused() -> None:
    with pytest.raises(InputError, match="7 levels are requested of a schedule with 6 usable times"):
        levels(Denoiser(epsilon, torch.tensor([0.999, 0.998, 0.99, 0.4, 0.1, 0.02, 0.0])), 7)
