"""A miniature text-to-image pipeline of Stable Diffusion's shape, saved by diffusers itself."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.small_autoencoder import autoencoder

LENGTH, WIDTH = 16, 16
"""Tokens of a caption, and values per token."""
CAPTIONS = ("normal lung", "opacity", "effusion, left", "mass in the lung")


def tokenizer() -> Any:
    """Tokens are letters, but for one word."""
    transformers = pytest.importorskip("transformers")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = [
        "<|startoftext|>",
        "<|endoftext|>",
        *letters,
        *(f"{a}</w>" for a in [*letters, ","]),
        "lu",
        "lun",
        "lung</w>",
    ]
    merges = [("l", "u"), ("lu", "n"), ("lun", "g</w>")]
    vocab = {word: number for number, word in enumerate(words)}
    return transformers.CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=LENGTH)


def text_to_image(*, prediction: str = "epsilon", channels: int = 1, **config: Any) -> Any:
    """Latents of 4 x 4 x 4 for images of 16 pixels a side; random weights in every part."""
    diffusers, transformers = pytest.importorskip("diffusers"), pytest.importorskip("transformers")
    tokens = tokenizer()
    torch.manual_seed(0)
    encoder = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(tokens), hidden_size=WIDTH, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=LENGTH, bos_token_id=0, eos_token_id=1, pad_token_id=1,
        )
    )  # fmt: skip
    sizes: dict[str, Any] = {
        "sample_size": 4, "in_channels": 4, "out_channels": 4, "block_out_channels": (8, 16), "layers_per_block": 1,
        "norm_num_groups": 4, "cross_attention_dim": WIDTH, "attention_head_dim": 4,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }  # fmt: skip
    unet = diffusers.UNet2DConditionModel(**(sizes | config))
    scheduler = diffusers.PNDMScheduler(
        num_train_timesteps=200, beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.06, steps_offset=1,
        prediction_type=prediction,
    )  # fmt: skip
    return diffusers.StableDiffusionPipeline(
        vae=autoencoder(channels, scaling_factor=0.5), text_encoder=encoder, tokenizer=tokens, unet=unet,
        scheduler=scheduler, safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip


def text_to_image_folder(folder: Path, **config: Any) -> Path:
    """The same in a folder."""
    text_to_image(**config).save_pretrained(folder)
    return folder


def lora_file(folder: Path, pipeline: Path, *, rank: int = 2, alpha: int = 6, metadata: bool = True) -> Path:
    """Adapters of attention and of a convolution, as diffusers saves them: A and B are random."""
    diffusers, peft = pytest.importorskip("diffusers"), pytest.importorskip("peft")
    unet = diffusers.UNet2DConditionModel.from_pretrained(pipeline, subfolder="unet")
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=["to_q", "to_out.0", "conv1"])
    unet.add_adapter(config)
    torch.manual_seed(1)
    for name, value in unet.named_parameters():
        if "lora" in name:
            torch.nn.init.normal_(value, std=0.3)
    described = {"unet_lora_adapter_metadata": config.to_dict()} if metadata else {}
    layers = peft.get_peft_model_state_dict(unet)
    diffusers.StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=layers, **described)
    return folder / "pytorch_lora_weights.safetensors"
