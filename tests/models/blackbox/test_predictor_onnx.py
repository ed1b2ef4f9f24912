"""ONNX files: the network's own probabilities, in the batches and order that a file takes; one line for the rest."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from memorisk.models.blackbox.predictors import load_predictor
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.runs.errors import InputError, MissingExtraError
from tests.models.small_models import CLASSES, HALF, SIZE, expected, images, small

pytest.importorskip("onnx", reason="the extra memorisk[onnx] is not installed")
pytest.importorskip("onnxruntime", reason="the extra memorisk[onnx] is not installed")

import onnx

from tests.models.small_onnx import move_outside, write_onnx


def load(file: Path, **changed: object) -> object:
    return load_predictor(file, **{"preprocessing": HALF, "threads": 1, **changed})


def refused(file: Path, said: str, **changed: object) -> str:
    with pytest.raises(InputError, match=said) as caught:
        load(file, **changed)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "note"),
    [
        ({}, ""),
        ({"batch": 4}, "4 images at a time"),
        ({"batch": 1}, "1 images at a time"),
        ({"channels_last": True}, "channels last"),
        ({"channels_last": True, "batch": 3}, "channels last"),
        ({"sides": ("h", "w"), "channels": "c"}, ""),
        ({"sides": (None, None)}, ""),
        ({"kind": onnx.TensorProto.DOUBLE}, "float64"),
        ({"out": "Softmax"}, ""),
        ({"more_outputs": ("c",)}, "of the outputs c, g, g is read"),
    ],
)
def test_the_networks_own_probabilities(written: dict, note: str, tmp_path: Path) -> None:
    predictor, x = load(write_onnx(tmp_path / "m.onnx", small(), **written)), images(7)
    for part in (x, x[:1], x[2:4]):
        np.testing.assert_allclose(predictor.probabilities(part), expected(small(), part), atol=1e-5)
    told = predictor.describe()
    assert note in " ".join(told["notes"])
    assert bool(told["notes"]) == bool(note)
    assert told["output"] == ("probabilities" if "out" in written else "logits")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]
    assert str(tmp_path) not in str(told)


def test_a_sigmoid_becomes_two_columns(tmp_path: Path) -> None:
    x = images(5)
    predictor = load(write_onnx(tmp_path / "m.onnx", small(1), out="Sigmoid"))
    with torch.no_grad():
        one = torch.sigmoid(small(1)(torch.from_numpy(x)).double()).numpy()
    np.testing.assert_allclose(predictor.probabilities(x), np.concatenate([1 - one, one], axis=1), atol=1e-6)
    assert (predictor.n_classes, predictor.describe()["columns"]) == (2, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_one_network_in_two_forms_gives_one_answer(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    example = (torch.zeros(2, 3, SIZE, SIZE),)
    torch.onnx.export(
        small(), example, tmp_path / "m.onnx", dynamo=True, dynamic_shapes=shapes, external_data=True, verbose=False
    )
    x = images(6)
    forms = [
        load(tmp_path / "m.onnx"),
        load("tests.models.small_models:plain"),
    ]
    answers = [form.probabilities(x) for form in forms]
    for answer in answers:
        np.testing.assert_allclose(answer, expected(small(), x), atol=1e-5)
    assert list(forms[0].describe()["data"]) == ["m.onnx.data"]


def beside(tmp_path: Path, location: str, **written: object) -> tuple[Path, bytes]:
    """An ONNX file in a folder of its own, and the bytes that belong into the other file."""
    folder = tmp_path / "model"
    folder.mkdir()
    file = write_onnx(folder / "m.onnx", small(), **written)
    proto = onnx.load(file)
    data = move_outside(proto, location)
    file.write_bytes(proto.SerializeToString())
    return file, data


@pytest.mark.parametrize("location", ["w.bin", "data/w.bin"])
def test_data_in_its_own_folder_are_read(location: str, tmp_path: Path) -> None:
    file, data = beside(tmp_path, location)
    (file.parent / location).parent.mkdir(exist_ok=True)
    (file.parent / location).write_bytes(data)
    x = images(3)
    np.testing.assert_allclose(load(file).probabilities(x), expected(small(), x), atol=1e-5)
    assert list(load(file).describe()["data"]) == [location]


@pytest.mark.parametrize(
    "location", ["../w.bin", "../model/w.bin", "/etc/hostname", "C:\\w.bin", "..\\w.bin", "*/_ORT"]
)
def test_data_outside_its_folder_are_refused(location: str, tmp_path: Path) -> None:
    file, data = beside(tmp_path, location)
    for place in (tmp_path, file.parent):
        (place / "w.bin").write_bytes(data)
    said = refused(file, "outside its own folder")
    assert location in said


def test_data_behind_a_link_are_refused(tmp_path: Path) -> None:
    file, data = beside(tmp_path, "w.bin")
    (tmp_path / "secret.bin").write_bytes(data)
    (file.parent / "w.bin").symlink_to(tmp_path / "secret.bin")
    refused(file, r"keeps weights in w\.bin, outside its own folder")
    (file.parent / "w.bin").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.bin").write_bytes(data)
    (file.parent / "data").symlink_to(tmp_path / "other")
    proto = onnx.load(file, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = "data/w.bin"
    file.write_bytes(proto.SerializeToString())
    refused(file, r"keeps weights in data/w\.bin, outside its own folder")


def test_data_outside_are_found_wherever_a_tensor_may_stand(tmp_path: Path) -> None:
    """In a branch of a node, where only a walk through all graphs sees them."""
    proto = onnx.load(write_onnx(tmp_path / "m.onnx", small()))
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["v"], value=proto.graph.initializer[0])],
        "branch",
        [],
        [onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, None)],
    )
    tensor = inner.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../w.bin")
    condition = onnx.helper.make_node("Constant", [], ["yes"], value_int=1)
    cast = onnx.helper.make_node("Cast", ["yes"], ["really"], to=onnx.TensorProto.BOOL)
    branch = onnx.helper.make_node("If", ["really"], ["unused"], then_branch=inner, else_branch=inner)
    proto.graph.node.extend([condition, cast, branch])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    refused(tmp_path / "m.onnx", r"keeps weights in \.\./w\.bin, outside")


def test_data_that_are_missing_or_too_short(tmp_path: Path) -> None:
    file, data = beside(tmp_path, "w.bin")
    refused(file, r"w\.bin, which is not in the same folder")
    (file.parent / "w.bin").write_bytes(data[:-1])
    refused(file, r"w\.bin, which is too short")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"domain": "mine.ops"}, r"custom operators, .*: mine\.ops\.Relu;"),
        ({"opset": 99}, "is of ONNX opset 99; the installed onnx knows 1 to"),
        ({"second_input": True}, r"its inputs: image tensor\(float\) \[n, 3, 12, 12\]; age tensor\(float\) \[n, 1\]"),
        ({"sides": (SIZE, 30)}, r"m\.onnx cannot be loaded by onnxruntime .*Load model from m\.onnx failed"),
        ({"channels": 1}, r"takes images \[n, 1, 12, 12\]"),
        ({"kind": onnx.TensorProto.UINT8}, r"takes tensor\(uint8\)"),
    ],
)
def test_files_that_are_refused(written: dict, said: str, tmp_path: Path) -> None:
    refused(write_onnx(tmp_path / "m.onnx", small(), **written), said)


def test_files_without_images_or_without_classes(tmp_path: Path) -> None:
    for shape, said in ((["n", 3, SIZE], "must have one input, images of rank 4"), (["n", 3, SIZE, SIZE], "no output")):
        image, answer = (
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, of)
            for name, of in (("image", shape), ("answer", None))
        )
        graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["image"], ["answer"])], "g", [image], [answer])
        proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        refused(tmp_path / "m.onnx", said)


def test_what_is_declared_otherwise_than_the_file_has_it(tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "m.onnx", small())
    refused(file, r"declares \[n, 3, 16, 16\]", preprocessing=preprocessing_from("half", 16, 3))
    refused(file, r"declares \[n, 1, 12, 12\]", preprocessing=preprocessing_from("half", SIZE, 1))
    refused(file, f"gives {CLASSES} classes, not 3", num_classes=3)
    refused(file, "must be cpu", device="gpu")
    free = write_onnx(tmp_path / "free.onnx", small(), sides=("h", "w"))
    refused(free, r"failed on images \[2, 3, 40, 40\]", preprocessing=preprocessing_from("half", 40, 3))


def test_damaged_files_give_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = write_onnx(tmp_path / "m.onnx", small())
    whole = file.read_bytes()
    no_text = whole.replace(b"image", b"im\x9cge")
    for content in (b"", b"nonsense\n", whole[: len(whole) // 2], whole[:-20], whole[20:], b"\x08\x09", no_text):
        file.write_bytes(content)
        refused(file, r"m\.onnx")
    assert capfd.readouterr() == ("", "")


def test_a_card_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    told = load(write_onnx(tmp_path / "m.onnx", small()), device="cuda").describe()
    assert told["device"] == "cpu"
    assert told["notes"] == ["cuda was requested; the installed onnxruntime has none: on the processor"]


@pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
def test_the_extra_is_named_where_it_is_missing(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_onnx(tmp_path / "m.onnx", small())
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memorisk\[onnx\]'"):
        load(file)


def test_the_session_is_made_once_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import onnxruntime

    made, session = [], onnxruntime.InferenceSession

    def counting(*args: object, **options: object) -> object:
        made.append(args[1].intra_op_num_threads)
        return session(*args, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", counting)
    predictor = load(write_onnx(tmp_path / "m.onnx", small()))
    for _ in range(3):
        predictor.probabilities(images(2))
    assert made == [1]
    assert capfd.readouterr() == ("", "")
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]
