"""LoRA of a U-Net: the network that diffusers makes of base and file, every tensor used, others refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from memorisk.models.generators.released import open_released
from memorisk.models.generators.text_to_image.lora import adapters_of, add_adapters, read_lora, sizes_of
from memorisk.models.generators.unet import inner_unet, load_unet, read_adapted
from memorisk.models.released_weights import released_sha256, write_released
from memorisk.runs.errors import InputError
from tests.models.generators.test_unet import Hostile
from tests.models.small_text_to_image import CAPTIONS, lora_file, text_to_image_folder

pytest.importorskip("transformers")
pytest.importorskip("peft")
LAYER = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
A, B = f"unet.{LAYER}.lora_A.weight", f"unet.{LAYER}.lora_B.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_to_image_folder(tmp_path_factory.mktemp("pipeline") / "sd")


@pytest.fixture(scope="module")
def lora(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lora_file(tmp_path_factory.mktemp("lora"), base)


def predicted(base: Path, lora: Path | None) -> torch.Tensor:
    released = open_released(base, "unet", lora)
    assert released.captions is not None
    x = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    return released.denoiser.predict_noise(x, 30, released.captions.tokens(CAPTIONS))


def by_diffusers(base: Path, lora: Path) -> torch.Tensor:
    from diffusers import StableDiffusionPipeline

    own: Any = StableDiffusionPipeline.from_pretrained(base, safety_checker=None)
    own.load_lora_weights(lora.parent, weight_name=lora.name)
    x = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = own.encode_prompt(list(CAPTIONS), "cpu", 1, False)[0]
        return own.unet(x, torch.full((4,), 30), encoder_hidden_states=states).sample


@pytest.mark.parametrize("metadata", [True, False])
def test_base_and_file_predict_as_diffusers_with_both_does(base: Path, tmp_path: Path, metadata: bool) -> None:
    """Alpha is that of the metadata, and the rank without any."""
    file = lora_file(tmp_path, base, metadata=metadata)
    found = predicted(base, file)
    assert torch.allclose(found, by_diffusers(base, file), atol=1e-5)
    assert not torch.allclose(found, predicted(base, None), atol=1e-2)
    assert set(sizes_of(read_lora(file)).values()) == {(2, 3.0 if metadata else 1.0)}


def test_the_file_of_the_release_is_the_same_network(base: Path, lora: Path, tmp_path: Path) -> None:
    released = open_released(base, "unet", lora)
    out = tmp_path / "out.safetensors"
    write_released(out, released.network)
    assert set(load_file(out)) == set(load_file(lora))
    assert torch.allclose(predicted(base, out), predicted(base, lora), atol=1e-6)
    assert torch.allclose(by_diffusers(base, out), predicted(base, lora), atol=1e-5)
    assert released.base_sha256 == released_sha256(open_released(base, "unet").network)
    assert open_released(base, "unet").base_sha256 is None


def test_names_of_earlier_versions_and_alpha_of_a_tensor(base: Path, lora: Path, tmp_path: Path) -> None:
    tensors = load_file(lora)
    old = {k.replace("lora_A", "lora.down").replace("lora_B", "lora.up"): v for k, v in tensors.items()}
    layers = {k.removesuffix(".lora_A.weight") for k in tensors if k.endswith(".lora_A.weight")}
    save_file({**old, **{f"{layer}.alpha": torch.tensor(6.0) for layer in layers}}, tmp_path / "old.safetensors")
    assert torch.equal(predicted(base, tmp_path / "old.safetensors"), predicted(base, lora))


def test_adapters_of_the_start_change_nothing_and_are_alone_trained(base: Path, lora: Path) -> None:
    unet = read_adapted(base, lora)
    assert unet.adapted is not None
    network, _ = load_unet(base)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    adapters = add_adapters(inner_unet(network), unet.adapted.sizes)
    for adapter in adapters.values():
        adapter.begin()
        assert float(adapter.down.detach().std()) > 0
    layer = inner_unet(network).get_submodule(LAYER)
    assert torch.equal(layer.weight, before[f"unet.{LAYER}.weight"])  # pyright: ignore[reportArgumentType]
    trained = {id(value) for value in network.parameters() if value.requires_grad}
    assert trained == {id(value) for adapter in adapters.values() for value in adapter.parameters()}
    assert adapters_of(inner_unet(network)) == adapters


def test_the_identity_follows_base_and_sizes_and_not_the_weights(base: Path, lora: Path, tmp_path: Path) -> None:
    identity = read_adapted(base, lora).identity
    with safe_open(lora, "pt") as opened:
        metadata = opened.metadata()
    save_file({k: v + 1 for k, v in load_file(lora).items()}, tmp_path / "a.safetensors", metadata)
    assert read_adapted(base, tmp_path / "a.safetensors").identity == identity
    assert read_adapted(base, lora_file(tmp_path, base, alpha=4)).identity != identity
    assert read_adapted(base, lora_file(tmp_path, base, rank=3, alpha=9)).identity != identity


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unet.conv_out.lora_C.weight": torch.zeros(1)}, "unet.conv_out.lora_C.weight is unknown"),
        ({"text_encoder.layer.lora_A.weight": torch.zeros(2, 3)}, "text_encoder.layer.lora_A.weight is unknown"),
        ({f"unet.{LAYER}.lora_magnitude_vector": torch.zeros(8)}, "lora_magnitude_vector is unknown"),
        ({B: None}, "to_q: up is missing"),
        ({A: torch.full((2, 8), torch.nan)}, "lora_A.weight is not finite"),
        ({A: torch.zeros(3, 8)}, r"has A \[3, 8\] and B \[8, 2\], which do not fit each other"),
        ({A: torch.zeros(2, 9)}, r"to_q is \[2, 9\] and \[8, 2\] for weights \[8, 8\]"),
        ({f"unet.{LAYER}.alpha": torch.zeros(2)}, r"alpha is \[2\] and not one number"),
        (
            {"unet.elsewhere.lora_A.weight": torch.zeros(2, 8), "unet.elsewhere.lora_B.weight": torch.zeros(8, 2)},
            "does not fit the U-Net of its base: unet.elsewhere is unknown",
        ),
        (
            {"unet.conv_act.lora_A.weight": torch.zeros(2, 8), "unet.conv_act.lora_B.weight": torch.zeros(8, 2)},
            "unet.conv_act is unknown",
        ),
    ],
)  # fmt: skip
def test_every_other_tensor_is_refused_by_name(
    base: Path, lora: Path, tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    tensors = {name: value for name, value in {**load_file(lora), **changes}.items() if value is not None}
    save_file(tensors, tmp_path / "changed.safetensors")
    with pytest.raises(InputError, match=message) as error:
        open_released(base, "unet", tmp_path / "changed.safetensors")
    assert "\n" not in str(error.value)


def test_other_formulas_and_other_files_are_refused(base: Path, lora: Path, tmp_path: Path) -> None:
    tensors, file = load_file(lora), tmp_path / "file.safetensors"
    for settings in ({"use_dora": True}, {"use_rslora": True}, {"alpha_pattern": {"to_q": 3}}):
        described = json.dumps({f"unet.{name}": value for name, value in settings.items()})
        save_file(tensors, file, {"lora_adapter_metadata": described})
        with pytest.raises(InputError, match=f"has {next(iter(settings))}, and memorisk reads"):
            open_released(base, "unet", file)
    save_file(tensors, file, {"lora_adapter_metadata": "{"})
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        open_released(base, "unet", file)
    torch.save({A: Hostile()}, file)
    with pytest.raises(InputError, match="pickled weights are not read"):
        open_released(base, "unet", file)
    save_file({}, file)
    with pytest.raises(InputError, match="holds no tensors"):
        open_released(base, "unet", file)
    with pytest.raises(InputError, match="does not exist"):
        open_released(base, "unet", tmp_path / "nothing.safetensors")
