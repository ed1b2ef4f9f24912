"""Text-to-image pipelines of a local folder: the same network as diffusers', and no code of the folder is run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from memorisk.models.generators.released import open_released
from memorisk.models.generators.unet import read_unet
from memorisk.runs.errors import InputError
from tests.models.generators.test_unet import Hostile, edit
from tests.models.small_text_to_image import CAPTIONS, LENGTH, text_to_image_folder

pytest.importorskip("transformers")
UNET, TEXT, TOKENS, VAE = (
    "unet/config.json",
    "text_encoder/config.json",
    "tokenizer/tokenizer_config.json",
    "vae/config.json",
)
INDEX, NOISE = "model_index.json", "scheduler/scheduler_config.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_to_image_folder(tmp_path_factory.mktemp("pipeline") / "sd")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""

    return Path(shutil.copytree(whole, tmp_path / "sd"))


def predictions(folder: Path) -> torch.Tensor:
    """What the released network predicts for four captions, and for none."""
    released = open_released(folder, "unet")
    assert released.captions is not None
    x = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    tokens = released.captions.tokens(CAPTIONS)
    denoiser = released.denoiser
    return torch.stack([denoiser.predict_noise(x, 30, tokens), denoiser.predict_noise(x, 30)])


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_it_predicts_noise_of_captions_as_diffusers_own_pipeline_does(tmp_path: Path, prediction: str) -> None:
    from diffusers import StableDiffusionPipeline

    folder = text_to_image_folder(tmp_path / "sd", prediction=prediction)
    released, own = open_released(folder, "unet"), StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    assert (released.shape, released.latent, released.classes) == ((4, 4, 4), f"autoencoder:{folder / 'vae'}", ())
    x = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    a = own.scheduler.alphas_cumprod[30]
    for texts, found in zip((list(CAPTIONS), [""] * 4), predictions(folder), strict=True):
        with torch.no_grad():
            states = own.encode_prompt(texts, "cpu", 1, False)[0]
            output = own.unet(x, torch.full((4,), 30), encoder_hidden_states=states).sample
        expected = output if prediction == "epsilon" else a.sqrt() * output + (1 - a).sqrt() * x
        assert torch.allclose(found, expected, atol=1e-5)
    with_captions, without = predictions(folder)
    assert not torch.allclose(with_captions, without, atol=1e-3)


def test_folders_of_earlier_versions_give_the_same(folder: Path) -> None:
    """Tensors had a prefix and held the numbers of the positions; tokenizers had two files."""
    before = predictions(folder)
    weights = folder / "text_encoder" / "model.safetensors"
    tensors = {f"text_model.{name}": value for name, value in load_file(weights).items()}
    save_file({**tensors, "text_model.embeddings.position_ids": torch.arange(LENGTH)[None]}, weights)
    tokens = folder / "tokenizer" / "tokenizer.json"
    model = json.loads(tokens.read_text())["model"]
    tokens.unlink()
    (folder / "tokenizer" / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "tokenizer" / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    assert torch.equal(predictions(folder), before)


def test_long_captions_are_cut_and_short_ones_filled(folder: Path) -> None:
    captions = read_unet(folder).captions
    assert captions is not None
    tokens = captions.tokens(["lung " * 40, "", "LUNG"])
    assert tokens.shape == (3, LENGTH)
    assert tokens[0].tolist() == [0, *[tokens[2, 1]] * (LENGTH - 2), 1]
    assert tokens[1].tolist() == [0, *[1] * (LENGTH - 1)]


def test_the_identity_follows_the_text_encoder(folder: Path) -> None:
    before = read_unet(folder).identity
    weights = folder / "text_encoder" / "model.safetensors"
    save_file({name: value + 1 for name, value in load_file(weights).items()}, weights)
    assert read_unet(folder).identity != before


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (INDEX, {"_class_name": "StableDiffusionXLPipeline"}, "names the pipeline StableDiffusionXLPipeline"),
        (INDEX, {"text_encoder": ["own", "Encoder"]}, r"names the text_encoder \['own', 'Encoder'\]"),
        (INDEX, {"tokenizer": ["own", "Words"]}, r"names the tokenizer \['own', 'Words'\]"),
        (INDEX, {"unet": ["diffusers", "UNet2DModel"]}, r"names the network \['diffusers', 'UNet2DModel'\]"),
        (INDEX, {"vae": ["own", "Network"]}, r"names the vae"),
        (UNET, {"_class_name": "UNet2DModel"}, "its network is of class UNet2DModel"),
        (UNET, {"addition_embed_type": "text_time"}, "has addition_embed_type, a further input"),
        (UNET, {"transformer_layers_per_block": 10**9}, "at most 16 layers_per_block"),
        (UNET, {"cross_attention_dim": 32}, "takes 32 values per token, and its text encoder gives 16"),
        (UNET, {"auto_map": {"AutoModel": "own.Network"}}, r"names code of its folder \(auto_map\)"),
        (TEXT, {"auto_map": {"AutoModel": "own.Network"}}, r"names code of its folder \(auto_map\)"),
        (TOKENS, {"auto_map": {"AutoTokenizer": "own.Words"}}, r"names code of its folder \(auto_map\)"),
        (VAE, {"auto_map": {"AutoModel": "own.Network"}}, r"names code of its folder \(auto_map\)"),
        (VAE, {"_class_name": "own.Network"}, "its vae is of class own.Network"),
        (TEXT, {"model_type": "bert"}, "its text encoder is of type bert"),
        (TEXT, {"num_hidden_layers": 10**9}, "whole numbers from 1 to at most"),
        (TEXT, {"num_hidden_layers": 2}, "is missing"),
        (TEXT, {"num_attention_heads": 5}, "cannot be built from its configuration"),
        (TEXT, {"vocab_size": None}, "needs vocab_size"),
        (NOISE, {"_class_name": "KarrasVeScheduler"}, "its scheduler is of class KarrasVeScheduler"),
    ],
)
def test_what_a_folder_must_not_say_is_refused_in_one_line(
    folder: Path, file: str, values: dict[str, Any], message: str
) -> None:
    edit(folder / file, **values)
    with pytest.raises(InputError, match=message) as error:
        open_released(folder, "unet")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "file"),
    [
        ("unet", "diffusion_pytorch_model.safetensors"),
        ("vae", "diffusion_pytorch_model.safetensors"),
        ("text_encoder", "model.safetensors"),
    ],
)
def test_code_and_pickled_weights_of_every_part_are_refused_and_run_nothing(folder: Path, part: str, file: str) -> None:
    code = folder / part / "own.py"
    code.write_text("raise SystemExit('code of the folder ran')\n")
    with pytest.raises(InputError, match="no code of a folder is run"):
        open_released(folder, "unet")
    code.unlink()
    weights = folder / part / file
    weights.unlink()
    torch.save({"conv_in.weight": Hostile()}, weights.with_suffix(".bin"))
    torch.save({"conv_in.weight": Hostile()}, folder / part / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled weights are not read"):
        open_released(folder, "unet")


def test_damaged_tokens_and_tokens_of_another_encoder_are_refused(folder: Path) -> None:
    weights = folder / "text_encoder" / "model.safetensors"
    tensors = load_file(weights)
    name = "embeddings.token_embedding.weight"
    save_file({**tensors, name: tensors[name][:5].contiguous()}, weights)
    edit(folder / TEXT, vocab_size=5)
    with pytest.raises(InputError, match="has tokens that its text encoder does not know"):
        open_released(folder, "unet").captions.tokens(["lung"])  # pyright: ignore[reportOptionalMemberAccess]
    (folder / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="tokenizer of U-Net sd cannot be read"):
        open_released(folder, "unet")
