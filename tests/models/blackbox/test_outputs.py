"""Answers become probabilities in one way, decided once; what fits neither is refused."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from memorisk.models.blackbox.predictors import OutputReader
from memorisk.runs.errors import InputError

DRAWS = np.random.default_rng(0).normal(size=(7, 4)) * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logits_are_softmaxed_in_double(dtype: type) -> None:
    reader = OutputReader("net")
    raw = DRAWS.astype(dtype)
    np.testing.assert_allclose(reader.read(raw), softmax(raw.astype(np.float64), axis=1), atol=1e-12)
    assert (reader.kind, reader.decided, reader.n_classes) == ("logits", "from the first 7 answers", 4)
    assert reader.read(raw * 1e4 if dtype != np.float16 else raw).dtype == np.float64


def test_probabilities_are_kept_and_renormalised() -> None:
    reader = OutputReader("net")
    given = softmax(DRAWS, axis=1).astype(np.float32)
    out = reader.read(given)
    np.testing.assert_allclose(out, given, atol=1e-6)
    np.testing.assert_allclose(out.sum(1), 1, atol=1e-15)
    assert reader.kind == "probabilities"
    np.testing.assert_allclose(reader.read(given * 1.0005).sum(1), 1, atol=1e-15)


def test_one_column_becomes_two() -> None:
    logits = DRAWS[:, :1]
    both = np.concatenate([expit(-logits), expit(logits)], axis=1)
    np.testing.assert_allclose(OutputReader("net").read(logits), both, atol=1e-12)
    np.testing.assert_allclose(OutputReader("net").read(expit(logits)), both, atol=1e-12)
    assert OutputReader("net").n_classes is None


def test_the_decision_never_changes() -> None:
    reader = OutputReader("net")
    reader.read(DRAWS)
    np.testing.assert_allclose(reader.read(softmax(DRAWS, axis=1)), softmax(softmax(DRAWS, axis=1), axis=1))
    reader = OutputReader("net")
    reader.read(softmax(DRAWS, axis=1))
    with pytest.raises(
        InputError, match=r"taken for probabilities from the first 7 answers\) from -.*give logits as output"
    ):
        reader.read(DRAWS)
    with pytest.raises(InputError, match=r"whose rows miss 1 by up to 0\.01"):
        reader.read(softmax(DRAWS, axis=1) * 1.01)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (np.zeros(3), r"shape \[3\]"),
        (np.zeros((3, 2, 1)), r"shape \[3, 2, 1\]"),
        (np.zeros((3, 0)), r"shape \[3, 0\]"),
        (np.zeros((3, 2), np.int64), "int64 answers"),
        (np.array([[1, np.nan], [1, 2]]), "NaN or infinite values for 1 of 2"),
        (np.array([[1, -np.inf], [1, 2]]), "NaN or infinite"),
        (np.full((3, 4), 0.9), "give output, probabilities or logits"),
        (softmax(DRAWS, axis=1) + 1e-3, "rounded probabilities"),
    ],
)
def test_refusals(raw: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        OutputReader("net").read(raw)
    assert "\n" not in str(caught.value)


def test_another_number_of_classes_and_another_word() -> None:
    reader = OutputReader("net")
    reader.read(DRAWS)
    with pytest.raises(InputError, match="gives 3 classes, and gave 4 before"):
        reader.read(DRAWS[:, :3])
    with pytest.raises(InputError, match="auto, logits, probabilities"):
        OutputReader("net", "logit")


def test_what_is_declared_holds() -> None:
    np.testing.assert_allclose(OutputReader("net", "logits").read(np.full((2, 4), 0.9)), 0.25)
    with pytest.raises(InputError, match="miss 1"):
        OutputReader("net", "probabilities").read(np.full((2, 4), 0.9))
    with pytest.raises(InputError, match=r"from 0.5 to 1.5; they must lie in \[0, 1\]"):
        OutputReader("net", "probabilities").read(np.array([[0.5], [1.5]]))
