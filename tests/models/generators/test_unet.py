"""U-Nets of diffusers' folders: the same network as diffusers draws with, and no code of a folder is run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.models.generators.released import open_released
from memorisk.models.generators.unet import build_unet, load_unet, read_unet, size_config
from memorisk.models.settings import UNET_SIZES
from memorisk.runs.errors import InputError

SMALL = {
    "sample_size": 8, "in_channels": 1, "out_channels": 1, "block_out_channels": (8, 16), "layers_per_block": 1,
    "norm_num_groups": 4, "down_block_types": ("DownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "UpBlock2D"),
}  # fmt: skip


def pipeline(folder: Path, *, prediction: str = "epsilon", **config: Any) -> Path:
    """A folder as diffusers itself saves it."""
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    torch.manual_seed(0)
    network = UNet2DModel(**{**SMALL, **config})
    scheduler = DDPMScheduler(num_train_timesteps=200, beta_schedule="squaredcos_cap_v2", prediction_type=prediction)
    DDPMPipeline(network, scheduler).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pipeline(tmp_path / "ddpm")


def edit(file: Path, **values: object) -> None:
    """Change a configuration; None takes a value out."""
    config = {**json.loads(file.read_text()), **values}
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_it_predicts_the_noise_as_diffusers_own_network_and_scheduler_do(tmp_path: Path, prediction: str) -> None:
    from diffusers import DDPMPipeline

    folder = pipeline(tmp_path / "ddpm", prediction=prediction)
    released, own = open_released(folder, "unet"), DDPMPipeline.from_pretrained(folder)
    assert (released.shape, released.latent, released.classes) == ((1, 8, 8), "pixels", ())
    generator = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(2, 1, 8, 8, generator=generator) for _ in range(2))
    t = torch.tensor([20, 150])
    x_t = own.scheduler.add_noise(x, noise, t)
    a = own.scheduler.alphas_cumprod[t].view(-1, 1, 1, 1)
    with torch.no_grad():
        output = own.unet(x_t, t).sample
    noise_of = {
        "epsilon": output,
        "v_prediction": a.sqrt() * output + (1 - a).sqrt() * x_t,
        "sample": (x_t - a.sqrt() * output) / (1 - a).sqrt(),
    }
    assert len(released.denoiser.alpha_bar) == 200
    assert torch.allclose(released.denoiser.predict_noise(x_t, t), noise_of[prediction], atol=1e-4)


def test_classes_have_the_names_of_the_index_or_their_numbers(tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "classes", num_class_embeds=3)
    assert open_released(folder, "unet").classes == ("0", "1", "2")
    edit(folder / "model_index.json", id2label={"0": "normal", "1": "effusion", "2": "mass"})
    released = open_released(folder, "unet")
    assert released.classes == ("normal", "effusion", "mass")
    x = torch.randn(2, 1, 8, 8)
    first, second = (released.denoiser.predict_noise(x, 9, torch.tensor([n, n])) for n in (0, 1))
    assert not torch.allclose(first, second)


def test_a_configuration_is_read_without_weights(folder: Path) -> None:
    unet = read_unet(folder)
    for file in (folder / "unet").glob("*.safetensors"):
        file.unlink()
    assert read_unet(folder) == unet
    assert read_unet(folder).identity == unet.identity
    edit(folder / "scheduler" / "scheduler_config.json", beta_end=0.03)
    assert read_unet(folder).identity != unet.identity
    with pytest.raises(InputError, match="and pickled weights are not read"):
        load_unet(folder)


@pytest.mark.parametrize("size", UNET_SIZES)
def test_named_sizes_fit_the_images(size: str) -> None:
    config = size_config(size, (3, 16, 16))
    network = build_unet(config, size)
    assert network.config.block_out_channels == list(UNET_SIZES[size])
    with pytest.raises(InputError, match="give --size, a multiple of"):
        size_config(size, (1, 17, 17))
    with pytest.raises(InputError, match="Did you mean 'small'"):
        size_config("smal", (1, 16, 16))


class Hostile:
    """An object that runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return (pytest.fail, ("code of the file ran",))


UNET, NOISE, INDEX = "unet/config.json", "scheduler/scheduler_config.json", "model_index.json"


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (UNET, {"auto_map": {"AutoModel": "own.Network"}}, r"config.json names code of its folder \(auto_map\)"),
        (INDEX, {"auto_map": {"AutoModel": "own.Network"}}, r"model_index.json names code of its folder"),
        (UNET, {"_class_name": "own.Network"}, "its network is of class own.Network, and memorisk reads UNet2DModel"),
        (UNET, {"_class_name": "UNet2DConditionModel"}, "its network is of class UNet2DConditionModel"),
        (INDEX, {"_class_name": ["own", "Pipeline"]}, r"names the pipeline \['own', 'Pipeline'\]"),
        (INDEX, {"unet": ["own", "Network"]}, r"names the network \['own', 'Network'\]"),
        (NOISE, {"_class_name": "KarrasVeScheduler"}, "its scheduler is of class KarrasVeScheduler"),
        (NOISE, {"num_train_timesteps": 10**9}, "training times: 1 to"),
        (NOISE, {"beta_schedule": "own"}, "cannot be used"),
        (UNET, {"down_block_types": ["own.Block", "DownBlock2D"]}, "cannot be built from its configuration"),
        (UNET, {"block_out_channels": [8, 10**9]}, "whole numbers from 1 to 8,192"),
        (UNET, {"layers_per_block": 10**9}, "at most 16 layers_per_block"),
        (UNET, {"sample_size": None}, "needs sample_size"),
        (UNET, {"class_embed_type": "identity"}, "embeds identity: a table of classes"),
        (UNET, {"block_out_channels": [8, 32]}, "does not fit its configuration"),
        (UNET, {"out_channels": 3}, r"answers \[3, 8, 8\] to images of \[1, 8, 8\]"),
    ],
)
def test_what_a_folder_must_not_say_is_refused_in_one_line(
    folder: Path, file: str, values: dict[str, object], message: str
) -> None:
    edit(folder / file, **values)
    with pytest.raises(InputError, match=message) as error:
        open_released(folder, "unet")
    assert "\n" not in str(error.value)


def test_code_and_pickled_or_damaged_weights_are_refused_and_run_nothing(folder: Path) -> None:
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    code = folder / "unet" / "own.py"
    code.write_text("raise SystemExit('code of the folder ran')\n")
    with pytest.raises(InputError, match=r"holds code \(own.py\), and no code of a folder is run"):
        open_released(folder, "unet")
    code.unlink()
    tensors = load_file(weights)
    torch.save({"conv_in.weight": Hostile()}, weights.with_suffix(".bin"))
    assert open_released(folder, "unet").shape == (1, 8, 8)  # safetensors are read, and nothing else
    for changed, message in (
        ({**tensors, "more": torch.zeros(1)}, "more is unknown"),
        ({**tensors, "conv_in.bias": torch.zeros(3)}, "conv_in.bias is"),
        ({**tensors, "conv_in.bias": torch.full((8,), torch.nan)}, "conv_in.bias is not finite"),
        ({name: tensor for name, tensor in tensors.items() if name != "conv_in.bias"}, "conv_in.bias is missing"),
    ):
        save_file(changed, weights)
        with pytest.raises(InputError, match=message):
            open_released(folder, "unet")
    weights.write_bytes(weights.read_bytes()[:40])
    with pytest.raises(InputError, match="cannot be loaded from safetensors"):
        open_released(folder, "unet")
    weights.unlink()
    with pytest.raises(InputError, match="pickled weights are not read"):
        open_released(folder, "unet")
    (folder / UNET).write_text("{")
    with pytest.raises(InputError, match=r"config\.json cannot be read"):
        open_released(folder, "unet")
    with pytest.raises(InputError, match="is a file, and a generator of kind unet is a folder"):
        open_released(folder / INDEX, "unet")
