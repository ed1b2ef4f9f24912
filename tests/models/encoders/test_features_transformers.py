"""Networks of transformers: strict, from safetensors, without the folder's code, without the network."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memorisk.models.encoders.feature_sources import parse_source
from memorisk.models.encoders.networks import Encoder, open_encoder
from memorisk.runs.errors import InputError, MissingExtraError

transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
GREY = (20, 20, 1)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **named: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)


def vit(folder: Path, pooler: bool, **record: Any) -> Any:
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)
    torch.manual_seed(0)
    model = transformers.ViTModel(config, add_pooling_layer=pooler).eval()
    model.save_pretrained(folder)
    if record:
        (folder / "preprocessor_config.json").write_text(json.dumps(record))
    return model


def opened(folder: Path, end: str = "", **given: Any) -> Encoder:
    return open_encoder(parse_source(f"transformers:{folder}{end}"), given.pop("stored", GREY), **given)


def asked(encoder: Encoder, x: torch.Tensor) -> np.ndarray:
    with torch.inference_mode():
        return encoder.load()[0](x).numpy()


def test_the_pooled_output_where_it_was_trained(tmp_path: Path) -> None:
    model = vit(tmp_path / "net", True, image_mean=[0.5] * 3, image_std=[0.25] * 3, size={"height": 32, "width": 32})
    found = opened(tmp_path / "net")
    assert (found.preprocessing.size, found.preprocessing.mean) == ((32, 32), (0.5, 0.5, 0.5))
    assert (found.name, found.weights, found.state) == ("transformers:net", "the folder's", "pretrained")
    assert found.notes == ("Images are stored at 20 x 20 pixels and enlarged to 32 x 32: that adds no detail.",)
    x = torch.randn(3, 3, 32, 32)
    np.testing.assert_allclose(asked(found, x), model(pixel_values=x).pooler_output.detach().numpy(), atol=1e-6)
    assert found.load()[1] == []


def test_a_pooling_layer_that_is_not_in_the_file_is_not_used(tmp_path: Path, capfd) -> None:
    model = vit(tmp_path / "net", False)
    capfd.readouterr()
    found = opened(tmp_path / "net")
    x = torch.randn(2, 3, 32, 32)
    expected = model(pixel_values=x).last_hidden_state[:, 0].detach().numpy()
    np.testing.assert_allclose(asked(found, x), expected, atol=1e-6)
    assert "the pooling layer is not in the file" in found.load()[1][0]
    assert any("ImageNet's is used" in note for note in found.notes)
    assert "".join(capfd.readouterr()) == ""


def test_clip_gives_its_projected_image(tmp_path: Path) -> None:
    sides = {"image_size": 16, "patch_size": 8}
    words = {"vocab_size": 30, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.CLIPConfig(vision_config=SMALL | sides, text_config=SMALL | words, projection_dim=5)
    model = transformers.CLIPModel(config).eval()
    model.save_pretrained(tmp_path / "clip")
    found = opened(tmp_path / "clip", normalise="0.5/0.25")
    assert found.preprocessing.size == (16, 16)
    x = torch.randn(2, 3, 16, 16)
    expected = model.get_image_features(pixel_values=x)
    expected = expected if isinstance(expected, torch.Tensor) else expected.pooler_output
    np.testing.assert_allclose(asked(found, x), expected.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["ResNet", "ConvNext"])
def test_convolutions(tmp_path: Path, kind: str) -> None:
    config = getattr(transformers, f"{kind}Config")(hidden_sizes=[4, 8], depths=[1, 1], num_stages=2)
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path / "net")
    found = opened(tmp_path / "net", size=40)
    assert asked(found, torch.randn(2, 3, 40, 40)).shape == (2, 8)


def test_another_size_is_given_and_said(tmp_path: Path) -> None:
    vit(tmp_path / "net", True, size=32, crop_size=24, image_mean=0.5, image_std=0.5)
    assert opened(tmp_path / "net").preprocessing.size == (24, 24)
    assert opened(tmp_path / "net", size=48).preprocessing.size == (48, 48)
    found = opened(tmp_path / "net", size=48)
    assert any("images of 48 x 48 pixels and was trained at 32 x 32" in note for note in found.notes)
    assert asked(found, torch.randn(1, 3, 48, 48)).shape == (1, 16)


def test_random_ones_say_so(tmp_path: Path) -> None:
    vit(tmp_path / "net", True)
    (tmp_path / "net" / "model.safetensors").unlink()
    found, other = opened(tmp_path / "net", "@none"), opened(tmp_path / "net", "@none", seed=1)
    assert found.notes[0].startswith("RANDOM WEIGHTS: transformers:net was never trained")
    assert (found.state, found.weights) == ("random", "random (seed 0)")
    assert found.identity == opened(tmp_path / "net", "@none").identity != other.identity
    with pytest.raises(InputError, match="holds no safetensors file"):
        opened(tmp_path / "net")


def test_what_identifies_it(tmp_path: Path) -> None:
    vit(tmp_path / "net", True)
    first = opened(tmp_path / "net")
    config = tmp_path / "net" / "config.json"
    config.write_text(config.read_text().replace('"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-05'))
    assert opened(tmp_path / "net").identity != first.identity


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vit(tmp_path / "net", True)
    weights = tmp_path / "net" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        opened(tmp_path / "net").load()
    from safetensors.torch import load_file, save_file

    weights.write_bytes(whole)
    tensors = load_file(weights)
    gone = next(name for name in tensors if "layernorm_before.weight" in name or "norm1.weight" in name)
    save_file({k: v for k, v in tensors.items() if k != gone}, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match="1 tensors are missing or of another shape"):
        opened(tmp_path / "net").load()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no config\.json"):
        opened(tmp_path / "empty")
    (tmp_path / "net" / "preprocessor_config.json").write_text("[1]")
    with pytest.raises(InputError, match=r"preprocessor_config\.json of transformers:net cannot be read"):
        opened(tmp_path / "net")


def test_no_code_of_a_folder_is_run(tmp_path: Path) -> None:
    marker, folder = tmp_path / "ran", tmp_path / "net"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    own = {"AutoConfig": "own.C", "AutoModel": "own.M"}
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": own}))
    (folder / "own.py").write_text(f"open({str(marker)!r}, 'w')\n")
    with pytest.raises(InputError, match="without running the folder's code, which is never done"):
        opened(folder)
    assert not marker.exists()


def test_a_network_that_masks_at_random_is_refused(tmp_path: Path) -> None:
    config = transformers.ViTMAEConfig(**SMALL, image_size=32, patch_size=8, mask_ratio=0.75)
    transformers.ViTMAEModel(config).save_pretrained(tmp_path / "mae")
    with pytest.raises(InputError, match="gives other features at each call"):
        opened(tmp_path / "mae").load()


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vit(tmp_path / "net", True)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="needs transformers, which is not installed: pip install"):
        opened(tmp_path / "net")


def test_the_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="could not be downloaded: the Hugging Face hub cannot be reached"):
        open_encoder(parse_source("transformers:facebook/dinov2-small@default"), GREY)
