"""A pass over marks gives what burning each mark into every probe and asking for each alone gives, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from memorisk.audits.feature import mark_answers
from memorisk.audits.feature.mark_answers import ask_about_marks, label_probabilities
from memorisk.images.alterations.marks import Mark, burn, letter, pattern
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import InputError
from memorisk.scores.marks import kl_divergence, mean_log_kl

N, CLASSES = 300, 4


class Linear:
    """A softmax of random weights; answers depend on every pixel."""

    name, n_classes = "linear", CLASSES

    def __init__(self, given: Preprocessing) -> None:
        inputs = given.channels * given.size[0] * given.size[1]
        self.weights = np.random.default_rng(5).normal(size=(inputs, CLASSES)) / np.sqrt(inputs)
        self.asked = 0

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """[n, K]."""
        self.asked += 1
        logits = x.reshape(len(x), -1).astype(np.float64) @ self.weights
        values = np.exp(logits - logits.max(axis=1, keepdims=True))
        return values / values.sum(axis=1, keepdims=True)

    def describe(self) -> dict:
        """Nothing."""
        return {}


def case(channels: int, dtype: type) -> tuple[Preprocessing, np.ndarray, Mark, list[Mark]]:
    """Probes of two batches, and marks of several shapes, places and opacities."""
    rng = np.random.default_rng(0)
    given = Preprocessing((12, 14), channels, (0.4,) * channels, (0.3,) * channels)
    images = rng.integers(0, np.iinfo(dtype).max, (N, 12, 14, channels), dtype=dtype, endpoint=True)
    holed = Mark("holed", rng.random((3, 4), dtype=np.float32), rng.integers(0, 2, (3, 4)).astype(np.float32))
    controls = [
        letter("T"), letter("A").at(0.5), replace(letter("E"), place="bottom-right"), holed,
        pattern((12, 14), seed=1, place=(0, 0)), pattern((1, 1), seed=2, place="centre"),
    ]  # fmt: skip
    if channels == 3:
        controls.append(Mark("coloured", rng.random((2, 5, 3), dtype=np.float32), np.ones((2, 5), np.float32)))
    return given, images, letter("A"), controls


@pytest.mark.parametrize(("channels", "dtype"), [(1, np.uint8), (3, np.uint8), (1, np.uint16)])
@pytest.mark.parametrize("block", [1, 3 * 256 * CLASSES, 1 << 18])
def test_answers_are_those_of_every_mark_by_itself(channels, dtype, block, monkeypatch) -> None:
    monkeypatch.setattr(mark_answers, "BLOCK", block)
    given, images, mark, controls = case(channels, dtype)
    model, before = Linear(given), images.copy()
    found = ask_about_marks(model, given, images, mark, controls, draws=2)
    assert model.asked == 2 * (3 + len(controls) + 2)  # clean, mark, opacity 0, controls, draws: in two batches
    np.testing.assert_array_equal(images, before)
    pixels = images.astype(np.float32) / np.float32(np.iinfo(dtype).max)

    def naive(which: Mark | None) -> np.ndarray:
        """Batch by batch, as matrix products round by their size."""
        parts = (pixels[i : i + 256] for i in range(0, N, 256))
        return np.concatenate(
            [model.probabilities(given.apply(part if which is None else burn(part, which))) for part in parts]
        )

    clean, marked = naive(None), naive(mark)
    np.testing.assert_array_equal(found.mark, kl_divergence(clean, marked))
    np.testing.assert_allclose(found.shift, (marked - clean).mean(axis=0), atol=1e-15)
    for j, control in enumerate(controls):
        alone = kl_divergence(clean, naive(control))
        assert found.controls[j] == pytest.approx(mean_log_kl(alone), rel=1e-13)
        assert found.controls_mean[j] == pytest.approx(alone.mean(), rel=1e-13)
    assert found.transparent == 0
    rng, start = np.random.default_rng([0, 2]), 0
    for part in (pixels[:256], pixels[256:]):
        for draw in range(2):
            patched = part.copy()
            patched[:, 1:6, 1:6] = rng.random((len(part), 5, 5, 1), dtype=np.float32)
            expected = kl_divergence(clean[start : start + len(part)], model.probabilities(given.apply(patched)))
            np.testing.assert_array_equal(found.random[draw, start : start + len(part)], expected)
        start += len(part)


def test_probabilities_of_a_label_with_the_mark_and_with_random_patches() -> None:
    given, images, mark, _ = case(1, np.uint8)
    model = Linear(given)
    marked, random = label_probabilities(model, given, images, mark, 2)
    pixels = images.astype(np.float32) / np.float32(255)
    np.testing.assert_allclose(marked, model.probabilities(given.apply(burn(pixels, mark)))[:, 2], rtol=1e-12)
    assert (random != marked).all()


def test_inputs_are_put_back_when_a_model_fails() -> None:
    given, images, mark, _ = case(1, np.uint8)
    pixels = images[:4].astype(np.float32) / np.float32(255)
    patched, stamp = mark_answers._PatchedBatch(given, pixels), mark_answers._Stamp(mark, given)

    def fail() -> None:
        with patched.burnt(stamp):
            assert (patched.x != given.apply(pixels)).any()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    np.testing.assert_array_equal(patched.x, given.apply(pixels))


def test_marks_that_do_not_fit_are_refused_before_the_model_is_asked() -> None:
    given, images, mark, controls = case(1, np.uint8)
    model = Linear(given)
    for wrong, message in (
        (pattern((13, 5), seed=0), "does not fit"),
        (Mark("coloured", np.ones((2, 5, 3), np.float32), np.ones((2, 5), np.float32)), "has colours"),
    ):
        with pytest.raises(InputError, match=message):
            ask_about_marks(model, given, images, mark, [*controls, wrong])
    assert model.asked == 0
