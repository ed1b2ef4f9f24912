"""Losses by level equal their definition, on noise that is a function of the image's id and the draw alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.noise_losses import hashed_noise, noise_losses
from memorisk.runs.errors import InputError
from tests.models.generators.small_denoisers import ALPHA_BAR, FORMS, epsilon, images, names

TIMES = [3, 40, 250]


def naive(x: torch.Tensor, ids: list[str], pairs: int, condition: torch.Tensor | None = None) -> np.ndarray:
    """The definition, one draw at a time."""
    losses = np.zeros((len(TIMES), len(x)))
    for level, t in enumerate(TIMES):
        a, s = float(ALPHA_BAR[t]) ** 0.5, (1 - float(ALPHA_BAR[t])) ** 0.5
        for i in range(len(x)):
            for draw in range(2 * pairs):
                e = hashed_noise(ids[i], draw, x.shape[1:])[None]
                given = () if condition is None else (condition[i : i + 1],)
                predicted = epsilon(a * x[i : i + 1] + s * e, torch.tensor([t]), *given)
                losses[level, i] += float((predicted - e).square().mean()) / (2 * pairs)
    return losses


@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 3, 4, 5)])
@pytest.mark.parametrize("form", FORMS)
def test_losses_are_those_of_the_definition_in_every_form(form: str, shape: tuple[int, ...]) -> None:
    x, ids = images(5, shape), names(5)
    losses = noise_losses(FORMS[form], x, ids, TIMES, pairs=2)
    assert losses.shape == (3, 5)
    assert losses.dtype == np.float64
    np.testing.assert_allclose(losses, naive(x, ids, 2), rtol=2e-4)


def test_conditions_belong_to_their_images() -> None:
    x, ids, condition = images(4), names(4), torch.tensor([0.0, 1.0, -1.0, 2.0])
    losses = noise_losses(FORMS["epsilon"], x, ids, TIMES, pairs=2, block=7, conditions=condition)
    np.testing.assert_allclose(losses, naive(x, ids, 2, condition), rtol=1e-5)
    assert np.abs(losses - noise_losses(FORMS["epsilon"], x, ids, TIMES, pairs=2)).max() > 0.01


@pytest.mark.parametrize("block", [1, 2, 3, 5, 12, 13, 1000])
def test_no_pass_holds_more_rows_than_the_block_and_the_block_changes_nothing(block: int) -> None:
    rows: list[int] = []

    def counted(x_t: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        rows.append(len(x_t))
        return epsilon(x_t, t, condition)

    x, ids, condition = images(3), names(3), torch.tensor([0.0, 1.0, -1.0])
    losses = noise_losses(Denoiser(counted, ALPHA_BAR), x, ids, TIMES, pairs=2, block=block, conditions=condition)
    np.testing.assert_allclose(losses, naive(x, ids, 2, condition), rtol=1e-5)
    assert sum(rows) == 3 * 4 * 3  # images, draws, levels
    assert max(rows) <= block
    full = min(block // 3 * 3 or block, 36)  # whole draws, or a part of the levels
    assert sum(n == full for n in rows) >= len(rows) // 2


def test_an_image_has_the_same_losses_whatever_the_others_are() -> None:
    x, ids = images(4), names(4)
    losses = noise_losses(FORMS["epsilon"], x, ids, TIMES)
    chosen = [2, 0]
    alone = noise_losses(FORMS["epsilon"], x[chosen], [ids[k] for k in chosen], TIMES)
    np.testing.assert_allclose(alone, losses[:, chosen], rtol=1e-6)
    renamed = noise_losses(FORMS["epsilon"], x, [f"{name}'" for name in ids], TIMES)
    assert np.abs(renamed - losses).min() > 0


def test_no_images_have_no_losses() -> None:
    assert noise_losses(FORMS["epsilon"], images(0), [], TIMES).shape == (3, 0)


def test_images_in_a_mapped_file_are_read_by_slices(tmp_path: Path) -> None:
    x = images(5)
    np.save(tmp_path / "x.npy", x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    losses = noise_losses(FORMS["epsilon"], mapped, names(5), np.array(TIMES), block=3)
    np.testing.assert_allclose(losses, noise_losses(FORMS["epsilon"], x, names(5), TIMES), rtol=1e-6)


def test_dropout_does_not_count_and_goes_on_afterwards() -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.Dropout(0.5))

    class Timed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    denoiser = Denoiser(Timed(), ALPHA_BAR)
    first, second = (noise_losses(denoiser, images(2), names(2), TIMES) for _ in range(2))
    assert np.array_equal(first, second)
    assert network[1].training


def test_noise_is_normal_and_pairs_are_antithetic() -> None:
    shape = (3, 40, 50)
    draws = [hashed_noise("a", draw, shape) for draw in range(6)]
    assert all(torch.equal(draws[k], -draws[k + 1]) for k in (0, 2, 4))
    assert all(noise.dtype == torch.float32 and noise.shape == shape for noise in draws)
    fields = torch.stack([*draws[::2], hashed_noise("b", 0, shape)]).flatten(1)
    assert fields.mean(dim=1).abs().max() < 4 / 6000**0.5
    assert (fields.var(dim=1) - 1).abs().max() < 4 * (2 / 6000) ** 0.5
    assert (torch.corrcoef(fields) - torch.eye(4)).abs().max() < 4 / 6000**0.5
    assert float((fields.abs() > 1.96).float().mean()) == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / 24000) ** 0.5)


def test_noise_is_the_same_on_every_machine_and_whatever_was_drawn_before() -> None:
    torch.manual_seed(1)
    np.random.default_rng(1).normal()
    assert [round(v, 5) for v in hashed_noise("patient 1", 0, (1, 2, 2)).flatten().tolist()] == FIRST
    assert [round(v, 5) for v in hashed_noise("patient 1", 4, (1, 2, 2)).flatten().tolist()] == THIRD_PAIR
    assert torch.equal(hashed_noise("ü", 2, (1, 2, 2)), hashed_noise("ü", 2, (1, 2, 2)))


FIRST = [-0.13284, -1.53779, 0.73466, 0.32771]
THIRD_PAIR = [0.50011, 1.14434, -0.00505, -0.51181]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((2, 1, 4, 4), np.uint8)}, r"images are uint8 of shape \[2, 1, 4, 4\]"),
        ({"images": torch.zeros(2, 4, 4)}, r"give floating \[N, c, h, w\]"),
        ({"ids": ["a"]}, "1 ids for 2 images"),
        ({"conditions": torch.zeros(3)}, "3 conditions for 2 images"),
        ({"times": [0, 1000]}, "whole numbers from 0 to 999"),
        ({"times": [-1]}, "whole numbers from 0 to 999"),
        ({"times": [0.5]}, "whole numbers from 0 to 999"),
        ({"times": []}, "whole numbers from 0 to 999"),
        ({"pairs": 0}, "pairs is 0"),
        ({"block": 0}, "block is 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    settings = {"images": images(2), "ids": names(2), "times": TIMES} | change
    with pytest.raises(InputError, match=message) as refused:
        noise_losses(FORMS["epsilon"], **settings)
    assert "\n" not in str(refused.value)
