"""Functions and named networks become predictors that are loaded once and only asked."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from memorisk.models.blackbox.predictors import load_predictor, predict_in_batches
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.models.classifiers.zoo import create_model
from memorisk.models.weight_files import save_weights
from memorisk.runs.errors import InputError
from tests.models import small_models
from tests.models.small_models import CLASSES, HALF, SIZE, expected, images, small

HERE = "tests.models.small_models"
X = images(2)


def load(function: str, **changed: object) -> object:
    return load_predictor(f"{HERE}:{function}", **{"preprocessing": HALF, **changed})


def test_a_function_gives_the_networks_own_probabilities_and_is_called_once() -> None:
    small_models.BUILT.clear()
    predictor, x = load("plain"), images(7)
    for part in (x, x[:1], x[3:5]):
        got = predictor.probabilities(part)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, expected(small(), part), atol=1e-6)
    assert small_models.BUILT == ["plain"]
    assert predictor.n_classes == CLASSES
    assert predictor.probabilities(x[:0]).shape == (0, CLASSES)
    told = predictor.describe()
    assert told["kind"] == "function"
    assert told["network"] == "Small"
    assert (told["output"], told["output_decided"]) == ("logits", "from the first 6 answers")
    assert told["preprocessing"] == HALF.describe()
    assert str(Path.cwd()) not in str(told)


def test_softmax_and_sigmoid_are_told_from_logits() -> None:
    x = images(4)
    np.testing.assert_allclose(load("softmax").probabilities(x), expected(small(), x), atol=1e-6)
    assert load("softmax").describe()["output"] == "probabilities"
    one, logit = load("sigmoid"), load("binary_logit")
    assert (one.describe()["output"], logit.describe()["output"]) == ("probabilities", "logits")
    assert one.n_classes == 2
    np.testing.assert_allclose(one.probabilities(x), logit.probabilities(x), atol=1e-6)


@pytest.mark.parametrize(("function", "form"), [("array_function", "array"), ("tensor_function", "tensor")])
def test_callables_take_tensors_or_arrays(function: str, form: str) -> None:
    predictor = load(function, num_classes=CLASSES)
    assert predictor.describe()["given"] == form
    assert predictor.probabilities(images(3)).shape == (3, CLASSES)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nothing_there", "unknown function"),
        ("with_argument", "must take none"),
        ("failing", r"RuntimeError: no file\\nhere"),
        ("a_word", "returned str"),
        ("rank_three", r"shape \[6, 2, 2\]"),
        ("labels", "not labels"),
        ("broken", "NaN or infinite"),
        ("one_row", r"shape \[1, 3\] for 2 images|shape \[1, 3\] for 6 images"),
        ("dropping", "dropout or batch statistics are on"),
    ],
)
def test_functions_that_are_refused(function: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load(function)
    assert "\n" not in str(caught.value)


def test_a_decision_is_held_to_in_later_batches() -> None:
    bright = HALF.apply(np.ones((2, SIZE, SIZE, 3), np.float32))
    predictor = load("changes_mind")
    assert predictor.describe()["output"] == "probabilities"
    predictor.probabilities(images(2))
    with pytest.raises(InputError, match="taken for probabilities from the first 6 answers"):
        predictor.probabilities(bright)
    with pytest.raises(InputError, match="gives 4 classes, and gave 3 before"):
        load("grows").probabilities(bright)


@pytest.mark.parametrize(
    "x",
    [
        images(2)[:, :1],
        images(2)[:, :, :5],
        images(2).astype(np.float64),
        images(2)[0],
        images(2).transpose(0, 2, 3, 1),
    ],
    ids=["channels", "height", "type", "rank", "order"],
)
def test_what_is_not_preprocessed_as_declared_is_refused(x: np.ndarray) -> None:
    with pytest.raises(InputError, match="the declared preprocessing gives float32"):
        load("plain").probabilities(x)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_classes": 4}, "gives 5 classes, not 4"),
        ({"num_classes": 1}, "2 or more"),
        ({"output": "softmax"}, "auto, logits, probabilities"),
        ({"threads": 0}, "1 or more"),
        ({"device": "gpu"}, "must be auto, cpu"),
        ({"device": "cuda:63"}, "is not there"),
        ({"weights": "w.pth"}, "holds its own weights"),
        ({"preprocessing": preprocessing_from("half", SIZE, 1)}, r"failed on a batch \[6, 1, 12, 12\]"),
    ],
)
def test_settings_that_do_not_fit(changed: dict, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load("plain", **changed)
    assert "\n" not in str(caught.value)


def test_threads_are_those_asked_for_only_while_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, before = [], torch.get_num_threads()

    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return x.mean((2, 3))

    monkeypatch.setattr(small_models, "plain", Counting)
    load("plain", threads=before + 1)
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def named(tmp_path: Path, **changed: object) -> object:
    given = {"preprocessing": preprocessing_from("half", 32, 3), "weights": tmp_path / "w.safetensors", **changed}
    return load_predictor("resnet20_cifar", **given)


def test_a_named_network_takes_its_classes_from_the_file(tmp_path: Path) -> None:
    model = create_model("resnet20_cifar", num_classes=7, image_size=32, weights="none", seed=3).eval()
    save_weights(tmp_path / "w.safetensors", model)
    predictor = named(tmp_path)
    x = images(3, preprocessing_from("half", 32, 3))
    np.testing.assert_allclose(predictor.probabilities(x), expected(model, x), atol=1e-6)
    told = predictor.describe()
    assert told["network"] == "resnet20_cifar"
    assert told["file"] == "w.safetensors"
    assert told["notes"] == ["the head (linear) comes from the file"]
    assert str(tmp_path) not in str(told)
    with pytest.raises(InputError, match="has a head of 7 classes, not 6"):
        named(tmp_path, num_classes=6)
    with pytest.raises(InputError, match="for 3 channels; the preprocessing declares 1"):
        named(tmp_path, preprocessing=preprocessing_from("half", 32, 1))
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_named_network_without_its_head_or_file_is_refused(tmp_path: Path) -> None:
    state = create_model("resnet20_cifar", num_classes=7, weights="none", seed=3).state_dict()
    save_file({n: v for n, v in state.items() if not n.startswith("linear.")}, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="holds no classifier head of resnet20_cifar"):
        named(tmp_path)
    for weights, said in (
        (None, "without weights"),
        ("default", "without weights"),
        ("gone.pth", "gone.pth does not exist"),
    ):
        with pytest.raises(InputError, match=said):
            named(tmp_path, weights=weights)
    with pytest.raises(InputError, match="unknown model 'resnet20_cifra'"):
        load_predictor("resnet20_cifra", preprocessing=HALF)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".pkl", ".safetensors", ".npz", ".h5"])
def test_files_that_are_no_model_are_refused_unopened(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"m{suffix}").write_bytes(b"never read")
    with pytest.raises(
        InputError, match=r"not hold a whole model|arrays, no model|not a model of a known kind"
    ) as caught:
        load_predictor(tmp_path / f"m{suffix}", preprocessing=HALF)
    assert "\n" not in str(caught.value)


def test_a_program_of_torch_export_is_refused_with_the_ways_out(tmp_path: Path) -> None:
    said = r"^m\.pt2 is a program of torch\.export, which is not read: export the network to ONNX .* module:function"
    with pytest.raises(InputError, match=said):
        load_predictor(tmp_path / "m.pt2", preprocessing=HALF)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model file .*gone\.onnx does not exist"):
        load_predictor(tmp_path / "gone.onnx", preprocessing=HALF)


def test_a_misspelt_file_is_no_unknown_network() -> None:
    with pytest.raises(InputError, match=r"model file net\.onx does not exist; its name would end with \.onnx"):
        load_predictor("net.onx", preprocessing=HALF)


@pytest.mark.parametrize("size", [1, 4, 7, 9])
def test_batches_of_the_only_allowed_size(size: int) -> None:
    sizes = []

    def ask(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return x * 2

    x = np.arange(7.0)[:, None]
    np.testing.assert_array_equal(predict_in_batches(ask, x, size), x * 2)
    assert set(sizes) == {size}
