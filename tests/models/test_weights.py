"""Weights load strictly from each kind of file, and files that would run code are refused."""

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.layers.pos_embed import resample_abs_pos_embed, resample_abs_pos_embed_nhwc
from timm.models import adapt_input_conv
from timm.models.vision_transformer_sam import VisionTransformerSAM
from torch import nn
from torch.torch_version import TorchVersion

from memorisk.models.classifiers.zoo import create_model
from memorisk.models.network_parts import head_module
from memorisk.models.weight_files import load_weights, read_state_dict, save_weights
from memorisk.runs.errors import InputError

State = dict[str, torch.Tensor]


def network(seed: int, **changed: object) -> nn.Module:
    given = {"name": "resnet20_cifar", "num_classes": 4, "image_size": 32, "weights": "none", **changed}
    return create_model(**given, seed=seed)


def write_npz(path: Path, state: State) -> None:
    np.savez(path, **{name: value.numpy() for name, value in state.items()})


WRITERS: dict[str, Callable[[Path, State], None]] = {
    "w.safetensors": lambda path, state: save_file(state, path),
    "w.pth": lambda path, state: torch.save(state, path),
    "legacy.th": lambda path, state: torch.save(state, path, _use_new_zipfile_serialization=False),
    "w.npz": write_npz,
    "no-suffix-that-tells": lambda path, state: torch.save(OrderedDict(state), path),
    "state_dict.pt": lambda path, state: torch.save({"state_dict": state, "best_prec1": 91.8, "epoch": 3}, path),
    "model.ckpt": lambda path, state: torch.save({"model": state, "args": {"lr": 0.1}}, path),
    "parallel.pth": lambda path, state: torch.save({f"module.{n}": t for n, t in state.items()}, path),
    "compiled.bin": lambda path, state: torch.save({f"_orig_mod.module.{n}": t for n, t in state.items()}, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file(name: str, tmp_path: Path) -> None:
    saved, model = network(0), network(1)
    WRITERS[name](tmp_path / name, saved.state_dict())
    notes: list[str] = []
    load_weights(model, tmp_path / name, on_note=notes.append)
    for key, value in saved.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key
    assert notes == ["the head (linear) comes from the file"]


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    saved = network(0).to(memory_format=torch.channels_last)
    save_weights(tmp_path / "w.safetensors", saved, {"seed": "0"})
    model = create_model("resnet20_cifar", num_classes=4, weights=tmp_path / "w.safetensors", seed=9)
    for key, value in saved.state_dict().items():
        assert torch.equal(model.state_dict()[key], value), key


def test_what_does_not_match_is_listed_and_nothing_is_loaded(tmp_path: Path) -> None:
    state = network(0).state_dict()
    state["layer1.0.conv1.weights"] = state.pop("layer1.0.conv1.weight")
    state["bn1.weight"] = torch.ones(17)
    save_file(state, tmp_path / "w.safetensors")
    model = network(1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError) as caught:
        load_weights(model, tmp_path / "w.safetensors")
    message = str(caught.value)
    assert "w.safetensors does not fit CifarResNet" in message
    assert "missing: layer1.0.conv1.weight;" in message
    assert "unexpected: layer1.0.conv1.weights;" in message
    assert "wrong shape: bn1.weight [17] instead of [16]" in message
    assert "\n" not in message
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_long_lists_are_cut(tmp_path: Path) -> None:
    save_file({"only": torch.ones(1)}, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"missing: conv1.weight, .*\.\.\. \(95 in all\); unexpected: only$"):
        load_weights(network(0), tmp_path / "w.safetensors")


@pytest.mark.parametrize("outputs", [7, 0])
def test_another_head_stays_as_initialised_and_is_said(outputs: int, tmp_path: Path) -> None:
    saved = network(0, num_classes=outputs or 4).state_dict()
    if not outputs:
        saved = {name: value for name, value in saved.items() if not name.startswith("linear.")}
    save_file(saved, tmp_path / "w.safetensors")
    model, notes = network(1), []
    head = model.linear.weight.clone()
    load_weights(model, tmp_path / "w.safetensors", on_note=notes.append)
    assert torch.equal(model.linear.weight, head)
    assert torch.equal(model.conv1.weight, saved["conv1.weight"])
    held = "the file's has 7 outputs" if outputs else "the file has none"
    assert notes == [f"the head (linear) is new and randomly initialised: {held}"]


def test_counters_of_old_files_are_filled(tmp_path: Path) -> None:
    state = {n: t for n, t in network(0).state_dict().items() if not n.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "w.pth")
    model = network(1)
    load_weights(model, tmp_path / "w.pth")
    assert torch.equal(model.conv1.weight, state["conv1.weight"])


@pytest.mark.parametrize("name", ["resnet20_cifar", "test_resnet"])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_stem_is_adapted_as_timm_does(name: str, channels: int, tmp_path: Path) -> None:
    saved = network(0, name=name)
    save_weights(tmp_path / "w.safetensors", saved)
    model, notes = network(1, name=name, in_chans=channels), []
    load_weights(model, tmp_path / "w.safetensors", on_note=notes.append)
    stem = "conv1" if name == "resnet20_cifar" else "conv1.0"
    expected = adapt_input_conv(channels, saved.get_submodule(stem).weight.detach().clone())
    assert torch.equal(model.get_submodule(stem).weight, expected)
    assert f"the stem ({stem}) was adapted from 3 to {channels} channels" in notes


def test_positions_of_a_transformer_are_resized_and_said(tmp_path: Path) -> None:
    saved = network(0, name="test_vit", image_size=64)
    save_weights(tmp_path / "w.safetensors", saved)
    model, notes = network(1, name="test_vit", image_size=32), []
    load_weights(model, tmp_path / "w.safetensors", on_note=notes.append)
    expected = resample_abs_pos_embed(saved.pos_embed, [2, 2], num_prefix_tokens=1)
    torch.testing.assert_close(model.pos_embed, expected)
    assert notes[0] == "names and sizes were converted by timm's filter for VisionTransformer"


def small_sam(size: int, seed: int) -> VisionTransformerSAM:
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        model = VisionTransformerSAM(
            img_size=size, embed_dim=32, depth=2, num_heads=2, num_classes=3, neck_chans=16,
            global_attn_indexes=(1,), window_size=2, use_abs_pos=True, use_rel_pos=True,
        )  # fmt: skip
        for name, value in model.named_parameters():
            if "pos" in name:
                nn.init.normal_(value)  # zeros would hide what resizing does
    model.pretrained_cfg = {"classifier": "head.fc", "first_conv": "patch_embed.proj"}
    return model


def test_a_whole_sam_gives_its_trunk(tmp_path: Path) -> None:
    """Names as in Meta's file (image_encoder, mlp.lin1), a decoder beside it, another image size."""
    saved = small_sam(128, 0)
    state = {
        f"image_encoder.{name}".replace("mlp.fc", "mlp.lin"): value
        for name, value in saved.state_dict().items()
        if not name.startswith("head.")
    }
    torch.save({**state, "mask_decoder.iou_token.weight": torch.ones(1, 8)}, tmp_path / "sam.pth")
    model, notes = small_sam(64, 1), []
    load_weights(model, tmp_path / "sam.pth", on_note=notes.append)
    assert torch.equal(model.blocks[0].mlp.fc1.weight, saved.blocks[0].mlp.fc1.weight)
    torch.testing.assert_close(model.pos_embed, resample_abs_pos_embed_nhwc(saved.pos_embed, [4, 4]))
    relative = saved.blocks[1].attn.rel_pos_h  # [2 * 8 - 1, d] to [2 * 4 - 1, d]
    expected = nn.functional.interpolate(relative.t()[None], size=7, mode="linear")[0].t()
    torch.testing.assert_close(model.blocks[1].attn.rel_pos_h, expected)
    assert notes[0].endswith("image_encoder are taken, left out: mask decoder (1)")
    assert notes[1].endswith("3 tables of positions resized")  # absolute, and height and width of the global block
    assert "the head (head.fc) is new" in notes[2]


class Payload:
    """What a hostile checkpoint holds: an object that runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_a_pytorch_that_can_be_got_around_reads_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = network(0).state_dict()
    torch.save(state, tmp_path / "w.pth")
    save_file(dict(state), tmp_path / "w.safetensors")
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.9.1+cpu"))
    with pytest.raises(
        InputError, match=r"w\.pth: in PyTorch 2\.9\.1.*CVE-2026-24747.*2\.10 or newer, or give safetensors"
    ):
        read_state_dict(tmp_path / "w.pth")
    assert read_state_dict(tmp_path / "w.safetensors").keys() == state.keys()
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.10.0"))
    assert read_state_dict(tmp_path / "w.pth").keys() == state.keys()


@pytest.mark.parametrize("kind", ["zip", "legacy", "pickle", "npz"])
def test_a_pickle_payload_is_refused_and_does_not_run(kind: str, tmp_path: Path) -> None:
    file, trap = tmp_path / "w.pth", tmp_path / "ran"
    content = {"state_dict": {"conv1.weight": torch.ones(1)}, "extra": Payload(trap)}
    if kind == "pickle":
        file.write_bytes(pickle.dumps(content))
    elif kind == "npz":
        with file.open("wb") as stream:
            np.savez(stream, weight=np.array([Payload(trap)], dtype=object))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(InputError) as caught:
        read_state_dict(file)
    assert "w.pth" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not trap.exists()
    if kind != "npz":
        assert "would run code" in str(caught.value)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "legacy.th", "w.npz"])
def test_truncated_files_are_refused(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, network(0).state_dict())
    whole = (tmp_path / name).read_bytes()
    for keep in (0, 1, 8, 12, len(whole) // 2, len(whole) - 100):
        (tmp_path / name).write_bytes(whole[:keep])
        with pytest.raises(InputError, match=name) as caught:
            read_state_dict(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_files_without_tensors_are_refused(tmp_path: Path) -> None:
    for content, said in (
        ([torch.ones(1)], "no named tensors"),
        ({}, "no named tensors"),
        ({"conv": torch.ones(1), "lr": 0.1}, "entries that are not tensors: lr"),
    ):
        torch.save(content, tmp_path / "w.pth")
        with pytest.raises(InputError, match=said):
            read_state_dict(tmp_path / "w.pth")
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as archive:
        archive.writestr("readme.txt", "not weights")
    with pytest.raises(InputError, match=r"w\.pth"):
        read_state_dict(tmp_path / "w.pth")


def test_a_file_name_cannot_break_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a\nb\u202e.pth"
    file.write_bytes(b"nonsense")
    with pytest.raises(InputError) as caught:
        read_state_dict(file)
    assert str(caught.value).isprintable()


def test_head_module_of_a_network_without_one() -> None:
    with pytest.raises(InputError, match="not one linear layer"):
        head_module(nn.Conv2d(1, 1, 1))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "is HDF5, as Keras writes it"),
        (b"\x93NUMPY\x01\x00" + bytes(64), "is a single NumPy array"),
        (b"\x1f\x8b\x08" + bytes(64), "is compressed by gzip"),
        (b"no weights at all", "is damaged, or of a format that is not read"),
    ],
)
def test_another_format_is_named_with_those_that_are_read(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "w.h5").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_state_dict(tmp_path / "w.h5")
    assert str(caught.value).startswith(f"weights file w.h5 {what}: read are safetensors, ")
    assert "run code" not in str(caught.value)
