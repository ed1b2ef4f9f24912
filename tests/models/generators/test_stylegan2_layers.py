"""Layers of StyleGAN2 against their definitions, one image at a time, in float64, with their second derivatives."""

import numpy as np
import pytest
import scipy.signal
import torch
import torch.nn.functional as F

from memorisk.models.generators.stylegan2_networks import (
    EqualConv,
    EqualLinear,
    StyledConv,
    activate,
    enlarge,
    low_pass,
    modulated_conv,
    smooth,
)

LINE = np.array([1.0, 3.0, 3.0, 1.0]) / 8
PLANE = LINE[:, None] * LINE


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def naive_modulated(x: torch.Tensor, weight: torch.Tensor, style: torch.Tensor, *, demodulate: bool, up: bool):
    """Section 2.2, word by word: weights of its own for each image; upsampling by zeros and scipy's convolution."""
    images = []
    for image, scales in zip(x, style, strict=True):
        own = weight * scales[None, :, None, None]
        if demodulate:
            own = own / (own.square().sum(dim=(1, 2, 3), keepdim=True) + 1e-8).sqrt()
        if not up:
            images.append(F.conv2d(image[None], own, padding=1)[0])
            continue
        side = image.shape[-1]
        spread = np.zeros((len(image), 2 * side, 2 * side))
        spread[:, ::2, ::2] = image.numpy()
        maps = [
            np.sum([scipy.signal.convolve2d(s, w) for s, w in zip(spread, filters.numpy(), strict=True)], axis=0)
            for filters in own
        ]  # [2 side + 2] each, of which the last row and column are zeros
        smoothed = [scipy.signal.convolve2d(m[:-1, :-1], 4 * PLANE)[2:-2, 2:-2] for m in maps]
        images.append(torch.from_numpy(np.stack(smoothed)))
    return torch.stack(images)


@pytest.mark.parametrize("demodulate", [True, False])
@pytest.mark.parametrize("up", [False, True])
def test_modulated_convolution_is_a_convolution_of_each_image_with_its_own_weights(demodulate: bool, up: bool) -> None:
    x, weight, style = drawn(3, 4, 6, 6), drawn(5, 4, 3, 3, seed=1), drawn(3, 4, seed=2)
    kernel = low_pass().double() if up else None
    found = modulated_conv(x, weight, style, demodulate=demodulate, kernel=kernel)
    torch.testing.assert_close(found, naive_modulated(x, weight, style, demodulate=demodulate, up=up))


def test_demodulated_outputs_keep_a_deviation_of_one() -> None:
    x = drawn(8, 16, 32, 32)
    found = modulated_conv(x, drawn(16, 16, 3, 3, seed=1), 10 * drawn(8, 16, seed=2))[..., 1:-1, 1:-1]
    deviation = found.std(dim=(2, 3))
    assert float(deviation.min()) > 0.8
    assert float(deviation.max()) < 1.2


def test_sixteen_bit_styles_of_any_size_do_not_overflow() -> None:
    x, weight, style = drawn(2, 8, 4, 4).half(), drawn(8, 8, 3, 3, seed=1), 1e6 * drawn(2, 8, seed=2)
    with torch.autocast("cpu", dtype=torch.float16):
        found = modulated_conv(x, weight.float(), style.float())
    wanted = naive_modulated(x.double(), weight, style, demodulate=True, up=False)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), wanted, rtol=0.01, atol=0.02)


@pytest.mark.parametrize(("padding", "stride", "crop"), [(2, 1, (1, 1)), (1, 2, (2, 2))])
def test_the_filter_is_scipys(padding: int, stride: int, crop: tuple[int, int]) -> None:
    x = drawn(2, 3, 8, 8)
    found = smooth(x, low_pass().double(), padding=padding, stride=stride)
    full = np.stack([[scipy.signal.convolve2d(c, PLANE) for c in image] for image in x.numpy()])
    inner = full[..., crop[0] : full.shape[-2] - crop[0], crop[1] : full.shape[-1] - crop[1]]
    np.testing.assert_allclose(found.numpy(), inner[..., ::stride, ::stride], atol=1e-12)


def test_images_are_enlarged_as_scipy_does() -> None:
    x = drawn(2, 3, 5, 5)
    found = enlarge(x, low_pass().double()).numpy()
    wanted = scipy.signal.upfirdn(2 * LINE, x.numpy(), up=2, axis=-1)[..., 1:-1]
    wanted = scipy.signal.upfirdn(2 * LINE, wanted, up=2, axis=-2)[..., 1:-1, :]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    flat = enlarge(torch.ones(1, 1, 6, 6), low_pass())
    torch.testing.assert_close(flat[..., 2:-2, 2:-2], torch.ones(1, 1, 8, 8))


def test_halving_layers_smooth_before_they_skip_pixels() -> None:
    torch.manual_seed(0)
    x = drawn(2, 3, 8, 8)
    for kernel, crop in ((3, 1), (1, 2)):
        layer = EqualConv(3, 4, kernel, down=True, active=False).double()
        full = np.stack([[scipy.signal.convolve2d(c, PLANE) for c in image] for image in x.numpy()])
        smoothed = torch.from_numpy(full[..., crop:-crop, crop:-crop])
        wanted = F.conv2d(smoothed, layer.weight / (3 * kernel**2) ** 0.5, stride=2)
        assert wanted.shape == (2, 4, 4, 4)
        torch.testing.assert_close(layer(x), wanted)


def test_equalised_layers_scale_their_weights_and_their_rate() -> None:
    torch.manual_seed(0)
    layer, x = EqualLinear(6, 4, rate=0.01, bias=1.0, active=True), torch.randn(3, 6)
    raw = x @ layer.weight.t() * 0.01 / 6**0.5 + 1
    torch.testing.assert_close(layer(x), torch.where(raw > 0, raw, 0.2 * raw) * 2**0.5)
    assert float(layer.weight.detach().std()) == pytest.approx(100, rel=0.4)
    wide = EqualConv(64, 64, 3)
    assert float(wide.weight.detach().std()) == pytest.approx(1, rel=0.02)


def test_the_activation_is_clamped_in_sixteen_bits_alone() -> None:
    x = torch.tensor([1e4, -1e4])
    assert activate(x.half()).tolist() == [256, -256]
    assert float(activate(x)[0]) == pytest.approx(1e4 * 2**0.5)


def test_noise_enters_by_its_learnt_strength() -> None:
    torch.manual_seed(0)
    layer = StyledConv(3, 4, 5)
    x, w, noise = torch.randn(2, 3, 4, 4), torch.randn(2, 5), torch.randn(2, 1, 4, 4)
    torch.testing.assert_close(layer(x, w, noise), layer(x, w, 0 * noise), rtol=0, atol=0)
    with torch.no_grad():
        layer.strength.fill_(0.5)
    raw = modulated_conv(x, layer.weight / 27**0.5, layer.affine(w))
    torch.testing.assert_close(layer(x, w, noise), activate(raw + 0.5 * noise))


@pytest.mark.parametrize("up", [False, True])
def test_second_derivatives_are_right(up: bool) -> None:
    kernel = low_pass().double() if up else None

    def convolved(x: torch.Tensor, weight: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        return modulated_conv(x, weight, style, kernel=kernel)

    given = [t.requires_grad_() for t in (drawn(2, 2, 3, 3), drawn(2, 2, 3, 3, seed=1), drawn(2, 2, seed=2))]
    assert torch.autograd.gradgradcheck(convolved, given, fast_mode=True)
