"""Saved outputs: what is written is read as probabilities, a block at a time; what does not fit gives one line."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, softmax

from memorisk.models.blackbox import saved_outputs
from memorisk.models.blackbox.saved_outputs import SavedOutputs, write_saved_outputs
from memorisk.runs.errors import InputError

N, K, C, R = 6, 4, 3, 2
SHAPES = {
    "clean": (N, K), "marked": (N, K), "controls": (C, N, K), "transparent": (N, K), "references_clean": (R, N, K),
    "references_marked": (R, N, K), "references_controls": (R, C, N, K),
}  # fmt: skip


def arrays(*, dtype: type = np.float32, classes: int = K) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: (3 * rng.normal(size=(*shape[:-1], classes))).astype(dtype) for name, shape in SHAPES.items()}


def required(**changed: np.ndarray) -> dict[str, np.ndarray]:
    whole = arrays()
    return {**{name: whole[name] for name in ("clean", "marked", "controls")}, **changed}


def check(saved: SavedOutputs, wanted: dict[str, np.ndarray]) -> None:
    """Every array as its naive form."""
    np.testing.assert_allclose(saved.clean(), wanted["clean"], atol=1e-12)
    np.testing.assert_allclose(saved.marked(), wanted["marked"], atol=1e-12)
    np.testing.assert_allclose(saved.transparent(), wanted["transparent"], atol=1e-12)
    np.testing.assert_allclose(list(saved.controls()), wanted["controls"], atol=1e-12)
    np.testing.assert_allclose(list(saved.references_clean()), wanted["references_clean"], atol=1e-12)
    np.testing.assert_allclose(list(saved.references_marked()), wanted["references_marked"], atol=1e-12)
    flat = wanted["references_controls"].reshape(-1, *wanted["clean"].shape)
    np.testing.assert_allclose(list(saved.references_controls()), flat, atol=1e-12)


@pytest.mark.parametrize("block", [1, 9, 1 << 22])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_round_trip(dtype: type, compress: bool, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_outputs, "_BLOCK", block)
    given = arrays(dtype=dtype)
    write_saved_outputs(tmp_path / "o.npz", **given, compress=compress)
    saved = SavedOutputs.read(tmp_path / "o.npz")
    check(saved, {name: softmax(value.astype(np.float64), axis=-1) for name, value in given.items()})
    assert (saved.n_images, saved.n_classes, saved.n_controls, saved.n_references) == (N, K, C, R)
    told = saved.describe()
    assert (told["output"], told["file"]) == ("logits", "o.npz")
    assert str(tmp_path) not in str(told)
    assert [entry.name for entry in tmp_path.iterdir()] == ["o.npz"]


def test_probabilities_and_sigmoids(tmp_path: Path) -> None:
    given = {name: softmax(value, axis=-1) for name, value in arrays(dtype=np.float64).items()}
    np.savez(tmp_path / "o.npz", **given)
    saved = SavedOutputs.read(tmp_path / "o.npz")
    assert saved.kind == "probabilities"
    check(saved, given)
    one = {name: expit(value) for name, value in arrays(dtype=np.float64, classes=1).items()}
    np.savez_compressed(tmp_path / "o.npz", **one)
    saved = SavedOutputs.read(tmp_path / "o.npz")
    assert (saved.n_classes, saved.columns) == (2, 1)
    check(saved, {name: np.concatenate([1 - value, value], axis=-1) for name, value in one.items()})


def test_without_what_is_optional_and_in_fortrans_order(tmp_path: Path) -> None:
    given = {name: np.asfortranarray(value) for name, value in required().items()}
    np.savez(tmp_path / "o.npz", **given)
    saved = SavedOutputs.read(tmp_path / "o.npz")
    np.testing.assert_allclose(list(saved.controls()), softmax(given["controls"].astype(np.float64), axis=-1))
    assert (saved.n_references, saved.has_transparent, saved.transparent()) == (0, False, None)
    assert list(saved.references_clean()) == list(saved.references_controls()) == []


ROW = np.zeros((N, K), np.float32)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clean": ROW, "marked": ROW}, "lacks controls"),
        (required(marked=ROW[:5]), "marked has 5 images, clean has 6"),
        (required(marked=ROW[:, :3]), "marked has 3 classes, clean has 4"),
        (required(controls=ROW), r"controls is \[6, 4\]; it must be \[C, n, K\]"),
        (required(controls=np.zeros((0, N, K), np.float32)), "each 1 or more"),
        (required(clean=ROW.astype(np.int64)), "clean holds int64"),
        (required(clean=ROW.astype(complex)), "clean holds complex128"),
        (required(clean=np.full((N, K), np.nan)), "clean gives NaN or infinite values for 6 of 6"),
        (required(controls=np.full((C, N, K), np.inf)), "controls gives NaN"),
        (required(other=ROW), r"holds other\.npy"),
        (required(references_clean=np.zeros((R, N, K), np.float32)), "lacks references_marked, references_controls"),
        (required(clean=np.full((N, K), 0.25)), r"taken for probabilities from the first 6 answers"),
    ],
)
def test_refusals(given: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", **given)
    with pytest.raises(InputError, match=said) as caught:
        SavedOutputs.read(tmp_path / "o.npz")
    assert "\n" not in str(caught.value)
    assert "o.npz" in str(caught.value)
    if "other" not in given and "controls" in given:
        with pytest.raises(InputError, match=said):
            write_saved_outputs(tmp_path / "p.npz", **given)
    assert not (tmp_path / "p.npz").exists()


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_objects_are_refused_and_do_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    np.savez(tmp_path / "o.npz", **required(clean=np.array([[Trap(trap)]], dtype=object)))
    with pytest.raises(InputError, match="clean holds objects"):
        SavedOutputs.read(tmp_path / "o.npz")
    (tmp_path / "o.npz").write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(InputError, match=r"cannot be read as an \.npz"):
        SavedOutputs.read(tmp_path / "o.npz")
    assert not trap.exists()


@pytest.mark.parametrize("compress", [False, True])
def test_damaged_files_give_one_line(compress: bool, tmp_path: Path) -> None:
    file = tmp_path / "o.npz"
    write_saved_outputs(file, **required(), compress=compress)
    whole = file.read_bytes()
    spoiled = bytearray(whole)
    for start in range(150, 200):
        spoiled[start] ^= 255
    for content in (b"", whole[: len(whole) // 2], whole[:-10], bytes(spoiled)):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"o\.npz") as caught:
            SavedOutputs.read(file)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"file of saved outputs .* does not exist"):
        SavedOutputs.read(tmp_path / "gone.npz")
    with pytest.raises(InputError, match=r"are an \.npz file"):
        write_saved_outputs(tmp_path / "o.npy", **required())
