"""PSNR and SSIM, held to their definitions."""

import numpy as np
import pytest

from memorisk.scores.reconstruction import psnr, ssim


def test_psnr_is_its_definition_and_finite_for_what_is_exact() -> None:
    wanted = np.random.default_rng(0).random((3, 1, 6, 5)).astype(np.float32)
    found = wanted + np.array([0.1, 0.01, 0.0], np.float32)[:, None, None, None]
    np.testing.assert_allclose(psnr(found, wanted)[:2], [20.0, 40.0], atol=1e-3)
    assert psnr(found, wanted)[2] == pytest.approx(10 * np.log10(12 * 255**2))
    assert psnr(wanted, wanted, levels=65536)[0] == pytest.approx(10 * np.log10(12 * 65535**2))


def naive_ssim(x: np.ndarray, y: np.ndarray) -> float:
    """Wang et al. 2004, equation 13, pixel by pixel: an 11 x 11 Gaussian window over the mirrored image."""
    offset = np.arange(-5, 6)
    line = np.exp(-(offset**2) / (2 * 1.5**2))
    window = np.outer(line, line) / line.sum() ** 2
    padded = [np.pad(image, 5, mode="reflect") for image in (x, y)]
    values = []
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a, b = (image[i : i + 11, j : j + 11] for image in padded)
            mean_a, mean_b = (window * a).sum(), (window * b).sum()
            var_a, var_b = (window * (a - mean_a) ** 2).sum(), (window * (b - mean_b) ** 2).sum()
            both = (window * (a - mean_a) * (b - mean_b)).sum()
            upper = (2 * mean_a * mean_b + 0.01**2) * (2 * both + 0.03**2)
            values.append(upper / ((mean_a**2 + mean_b**2 + 0.01**2) * (var_a + var_b + 0.03**2)))
    return float(np.mean(values))


def test_ssim_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    wanted = rng.random((2, 3, 12, 14))
    found = np.clip(wanted + rng.normal(0, 0.1, wanted.shape), 0, 1)
    expected = [np.mean([naive_ssim(found[i, c], wanted[i, c]) for c in range(3)]) for i in range(2)]
    np.testing.assert_allclose(ssim(found, wanted), expected, rtol=1e-10)
    np.testing.assert_allclose(ssim(wanted, wanted), 1.0)
