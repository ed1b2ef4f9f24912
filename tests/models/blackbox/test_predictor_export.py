"""Torch exports: the network's own probabilities, and nothing of the file is run as code."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import nn

from memorisk.models.blackbox.predictors import load_predictor
from memorisk.models.blackbox.preprocessing import preprocessing_from
from memorisk.runs.errors import InputError
from tests.models.small_models import HALF, SIZE, expected, images, small, write_export
from tests.models.test_weights import Payload
from tests.thorough import thorough

Change = Callable[[dict[str, Any]], None]


def load(file: Path) -> object:
    return load_predictor(file, preprocessing=HALF)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("export") / "small.pt2", small())


def rewrite(source: Path, target: Path, change: Change | None = None, **more: bytes) -> Path:
    """The same archive with its graph changed, and entries added or replaced."""
    entries = dict(more)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            root, _, inner = name.partition("/")
            data = entries.pop(inner, old.read(name))
            if inner == "models/model.json" and change is not None:
                program = json.loads(data)
                change(program)
                data = json.dumps(program).encode()
            new.writestr(name, data)
        for inner, data in entries.items():
            new.writestr(f"{root}/{inner}", data)
    return target


@pytest.mark.parametrize(("dynamic", "batch"), [(True, 2), (False, 3), (False, 1)])
def test_the_networks_own_probabilities(dynamic: bool, batch: int, tmp_path: Path) -> None:
    file = write_export(tmp_path / "m.pt2", small(), dynamic=dynamic, batch=batch)
    predictor, x = load(file), images(7)
    loaded = torch.export.load(file).module()
    for part in (x, x[:1], x[2:4]):
        np.testing.assert_allclose(predictor.probabilities(part), expected(small(), part), atol=1e-6)
    with torch.no_grad():
        same = loaded(torch.from_numpy(x[:batch])).double().softmax(1).numpy()
    np.testing.assert_allclose(predictor.probabilities(x[:batch]), same, atol=1e-6)
    assert bool(predictor.describe()["notes"]) is not dynamic
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.pt2"]
    assert str(tmp_path) not in str(predictor.describe())


@pytest.mark.parametrize("name", ["test_vit", thorough("test_convnext"), thorough("test_efficientnet")])
def test_networks_of_timm(name: str, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        sized = {"img_size": 64} if "vit" in name else {}
        model = timm.create_model(name, num_classes=4, **sized).eval()
    declared = preprocessing_from("imagenet", 64, 3)
    predictor = load_predictor(write_export(tmp_path / "m.pt2", model, size=64), preprocessing=declared)
    x = images(3, declared)
    np.testing.assert_allclose(predictor.probabilities(x), expected(model, x), atol=1e-5)


def test_of_several_outputs_the_first_of_rank_two(tmp_path: Path) -> None:
    predictor, x = load(write_export(tmp_path / "m.pt2", small(form="two"))), images(3)
    np.testing.assert_allclose(predictor.probabilities(x), expected(small(), x), atol=1e-6)
    assert predictor.describe()["notes"] == ["of 2 outputs the one at place 2 is read: the first of rank 2"]


def test_the_weights_and_the_callers_images_stay_as_they_are(tmp_path: Path) -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2).mean((2, 3))

    x = images(4)
    before = x.copy()
    first = load(write_export(tmp_path / "m.pt2", InPlace())).probabilities(x)
    np.testing.assert_array_equal(x, before)
    assert first.shape == (4, 3)


@pytest.mark.parametrize(
    ("size", "channels", "said"),
    [(SIZE + 1, 3, "declares \\[n, 3, 13, 13\\]"), (SIZE, 1, "declares \\[n, 1, 12, 12\\]")],
)
def test_another_shape_than_declared(exported: Path, size: int, channels: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_predictor(exported, preprocessing=preprocessing_from("half", size, channels))


def test_training_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exported in training mode"):
        load(write_export(tmp_path / "m.pt2", small().train()))


def nodes(program: dict[str, Any]) -> list[dict[str, Any]]:
    return program["graph_module"]["graph"]["nodes"]


def target(name: str) -> Change:
    return lambda program: nodes(program)[0].update(target=name)


def version(program: dict[str, Any]) -> None:
    program["schema_version"]["major"] = 9


def nested(program: dict[str, Any]) -> None:
    nodes(program)[0]["inputs"][0]["arg"] = {"as_custom_obj": {"name": "x", "class_fqn": "os.system"}}


def object_input(program: dict[str, Any]) -> None:
    specs = program["graph_module"]["signature"]["input_specs"]
    specs[0] = {"custom_obj": {"arg": {"name": "p", "class_fqn": "q"}, "custom_obj_name": "o"}}


def no_graph(program: dict[str, Any]) -> None:
    del program["graph_module"]["graph"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *[(target(name), "not one of ATen's operators") for name in (
            "torch.ops.mine.relu.default", "torch.load", "torch.hub.load", "_operator.methodcaller", "os.system",
            "torch.ops.aten.__class__.mro", "torch.ops.aten.save.default", "torch.ops.aten.from_file.default",
            "torch.ops.higher_order.cond", "math.__loader__.load_module", "#mine:op",
        )],
        (version, "export schema 9"),
        (nested, "as_custom_obj"),
        (object_input, "takes custom obj beside images"),
        (no_graph, "damaged"),
    ],
)  # fmt: skip
def test_graphs_that_are_refused(exported: Path, change: Change, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load(rewrite(exported, tmp_path / "m.pt2", change))
    assert "\n" not in str(caught.value)


def test_code_in_a_graphs_text_is_never_run(exported: Path, tmp_path: Path) -> None:
    """Guards and size expressions are Python to torch.export.load; example inputs are a pickle."""
    trap = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"

    def change(program: dict[str, Any]) -> None:
        program["guards_code"] = [code]
        graph = program["graph_module"]["graph"]
        for meta in graph["tensor_values"].values():
            for side in meta["sizes"]:
                if "as_expr" in side:
                    side["as_expr"]["expr_str"] = code
        for node in graph["nodes"]:
            node["metadata"] = {"custom": code, "nn_module_stack": code}

    torch.save(Payload(trap), tmp_path / "payload")
    pickled = (tmp_path / "payload").read_bytes()
    file = rewrite(exported, tmp_path / "m.pt2", change, **{"data/sample_inputs/model.pt": pickled})
    predictor, x = load(file), images(3)
    np.testing.assert_allclose(predictor.probabilities(x), expected(small(), x), atol=1e-6)
    assert not trap.exists()


@pytest.mark.parametrize(
    "entry",
    [
        "data/weights/model.pt",
        "data/constants/custom_obj_0",
        "data/constants/opaque_obj_0",
        "data/aotinductor/model/a.so",
    ],
)
def test_pickled_and_compiled_parts_are_refused(exported: Path, entry: str, tmp_path: Path) -> None:
    torch.save(Payload(tmp_path / "ran"), tmp_path / "payload")
    file = rewrite(exported, tmp_path / "m.pt2", **{f"data/{entry}": (tmp_path / "payload").read_bytes()})
    with pytest.raises(InputError, match="is refused: beside the network it holds"):
        load(file)
    assert not (tmp_path / "ran").exists()


def test_a_pickled_weight_is_refused(exported: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(exported) as archive:
        name = next(n for n in archive.namelist() if n.endswith("model_weights_config.json"))
        config = json.loads(archive.read(name))
    config["config"]["conv.weight"]["use_pickle"] = True
    entries = {"data/weights/model_weights_config.json": json.dumps(config).encode()}
    with pytest.raises(InputError, match=r"conv\.weight is a pickled object"):
        load(rewrite(exported, tmp_path / "m.pt2", **entries))


@pytest.mark.filterwarnings("ignore:.*jit:FutureWarning")
def test_archives_of_another_kind(exported: Path, tmp_path: Path) -> None:
    scripted = tmp_path / "scripted.pt2"
    torch.jit.trace(small(), torch.zeros(1, 3, SIZE, SIZE)).save(scripted)
    pickled = tmp_path / "pickled.pt2"
    torch.save({"net": Payload(tmp_path / "ran")}, pickled)
    for file in (scripted, pickled):
        with pytest.raises(InputError, match="TorchScript or pickled objects"):
            load(file)
    packed = tmp_path / "packed.pt2"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(InputError, match="doubled or packed"):
        load(packed)
    assert not (tmp_path / "ran").exists()


def test_damaged_files_give_one_line(exported: Path, tmp_path: Path) -> None:
    whole, file = exported.read_bytes(), tmp_path / "m.pt2"
    for keep in (0, 10, len(whole) // 2, len(whole) - 30):
        file.write_bytes(whole[:keep])
        with pytest.raises(InputError, match=r"m\.pt2") as caught:
            load(file)
        assert "\n" not in str(caught.value)
    shutil.copy(exported, file)
    with pytest.raises(InputError, match="damaged"):
        load(rewrite(exported, file, **{"data/weights/weight_0": b"1234"}))
    with pytest.raises(InputError, match="damaged"):
        load(rewrite(exported, file, **{"models/model.json": b"[" * 100_000}))
