"""Pixel scores against their definitions."""

import numpy as np
import pytest
from scipy.ndimage import correlate1d

from memorisk.runs.errors import InputError
from memorisk.studies.pairs.similarity import WINDOW, pixel_scores

RNG = np.random.default_rng(0)
ONE, OTHER = (RNG.integers(0, 256, (7, 20, 18, 3), dtype=np.uint8) for _ in range(2))


def similarity(x: np.ndarray, y: np.ndarray) -> float:
    """SSIM of one channel, as Wang et al. (2004) define it: Gaussian of 11 taps and deviation 1.5, border reflected."""
    taps = np.exp(-0.5 * (np.arange(-(WINDOW // 2), WINDOW // 2 + 1) / 1.5) ** 2)
    taps /= taps.sum()

    def smooth(a: np.ndarray) -> np.ndarray:
        return correlate1d(correlate1d(a, taps, axis=0, mode="mirror"), taps, axis=1, mode="mirror")

    a, b = x.astype(float), y.astype(float)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    ma, mb = smooth(a), smooth(b)
    va, vb, cov = smooth(a * a) - ma**2, smooth(b * b) - mb**2, smooth(a * b) - ma * mb
    return float((((2 * ma * mb + c1) * (2 * cov + c2)) / ((ma**2 + mb**2 + c1) * (va + vb + c2))).mean())


def test_mse_is_on_the_scale_of_8_bits() -> None:
    expected = [-np.mean((a.astype(float) - b) ** 2) for a, b in zip(ONE, OTHER, strict=True)]
    assert np.allclose(pixel_scores("mse", ONE, OTHER), expected, rtol=1e-12)
    deep, other = (a.astype(np.uint16) * 257 for a in (ONE, OTHER))
    assert np.allclose(pixel_scores("mse", deep, other), expected, rtol=1e-9)


def test_ncc_is_pearsons_correlation_and_nothing_of_one_value() -> None:
    flat = ONE.copy()
    flat[2] = 9
    found = pixel_scores("ncc", flat, OTHER)
    expected = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(ONE, OTHER, strict=True)]
    assert np.isnan(found[2])
    assert np.allclose(np.delete(found, 2), np.delete(expected, 2), rtol=1e-10)


def test_ssim_is_that_of_its_definition() -> None:
    pytest.importorskip("kornia")
    near = np.clip(ONE.astype(int) + RNG.integers(-9, 9, ONE.shape), 0, 255).astype(np.uint8)
    for other in (OTHER, near):
        expected = [
            np.mean([similarity(a[..., c], b[..., c]) for c in range(3)]) for a, b in zip(ONE, other, strict=True)
        ]
        assert np.allclose(pixel_scores("ssim", ONE, other), expected, atol=2e-5)
    assert np.allclose(pixel_scores("ssim", ONE, ONE), 1.0, atol=1e-5)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: pixel_scores(name, ONE, OTHER) for name in ("mse", "ncc")}
    monkeypatch.setattr("memorisk.studies.pairs.similarity._AT_ONCE", 1)
    for name, values in whole.items():
        assert np.array_equal(pixel_scores(name, ONE, OTHER), values)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be compared pixel by pixel"):
        pixel_scores("mse", ONE, OTHER[:3])
    with pytest.raises(InputError, match="window of 11"):
        pixel_scores("ssim", ONE[:, :5], OTHER[:, :5])
