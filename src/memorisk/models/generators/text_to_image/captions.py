"""Tokenizer and text encoder of a pipeline (CLIP; Radford et al. 2021), from its local folder.

``tokenizer/`` and ``text_encoder/`` are those that transformers writes. Reading them runs no code and uses no network:
classes are the two that are named here, weights are safetensors, and loading is strict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.pipeline_folder import read_config
from memorisk.models.hub import CONFIG, fill_network, quiet
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError, MissingExtraError, one_line
from memorisk.runs.files import fingerprint

TEXT_ENCODER, TOKENIZER = "text_encoder", "tokenizer"
_WEIGHTS, _TOKENIZER_CONFIG = "model.safetensors", "tokenizer_config.json"
_MODEL_TYPE = "clip_text_model"
_LARGEST = {
    "vocab_size": 1 << 20, "hidden_size": 1 << 13, "intermediate_size": 1 << 15, "num_hidden_layers": 64,
    "num_attention_heads": 256, "max_position_embeddings": 1 << 12, "projection_dim": 1 << 13,
}  # fmt: skip
"""Largest sizes of a text encoder, far above published ones; larger ones are refused before memory is reserved."""
_OLD_PREFIX, _OLD_TENSOR = "text_model.", "embeddings.position_ids"
_PURPOSE = "a generator of captions"


@dataclass(frozen=True, kw_only=True)
class CaptionFolder:
    """Tokenizer and text encoder of a folder, without weights; other processes receive it.

    Attributes:
        folder: Folder of the pipeline.
        name: Name of the pipeline in messages.
        config: Arguments of `transformers.CLIPTextConfig`.
        content: Fingerprint of the files of both.
    """

    folder: Path
    name: str
    config: Mapping[str, Any]
    content: str

    @property
    def width(self) -> int:
        """Return the number of values per token."""
        return int(self.config["hidden_size"])

    def tokens(self, captions: Sequence[str]) -> torch.Tensor:
        """Turn captions into numbers of tokens, cut or filled to one length, [n, T] int64.

        Args:
            captions: Captions; the empty one is the condition that means none.

        Raises:
            InputError: The tokenizer cannot be read, or does not belong to the text encoder.
        """
        title = f"tokenizer of {self.name}"
        try:
            with quiet("transformers"):
                from transformers import CLIPTokenizer

                tokenizer: Any = CLIPTokenizer.from_pretrained(str(self.folder / TOKENIZER), local_files_only=True)
                length = min(int(tokenizer.model_max_length), int(self.config["max_position_embeddings"]))
                encoded = tokenizer(list(captions), padding="max_length", truncation=True, max_length=length)
            tokens = torch.tensor(encoded["input_ids"], dtype=torch.int64).view(len(captions), length)
        except Exception as error:  # transformers and tokenizers each raise their own kinds
            raise InputError(f"{title} cannot be read: {one_line(error, 120)}") from None
        if tokens.numel() and int(tokens.max()) >= int(self.config["vocab_size"]):
            raise InputError(f"{title} has tokens that its text encoder does not know: the folder mixes two pipelines")
        return tokens

    def load_encoder(self) -> Any:
        """Load the text encoder, float32, frozen and in evaluation mode.

        Raises:
            InputError: It cannot be built, or a tensor is missing, unknown, of another shape or not finite.
        """
        title, file = f"text encoder of {self.name}", self.folder / TEXT_ENCODER / _WEIGHTS
        try:
            tensors = {name.removeprefix(_OLD_PREFIX): value for name, value in load_file(file).items()}
        except Exception as error:  # safetensors raises its own kinds
            raise InputError(f"{title} cannot be loaded from safetensors: {one_line(error, 120)}") from None
        tensors.pop(_OLD_TENSOR, None)  # the numbers from 0, which earlier versions saved
        try:
            with quiet("transformers"), seeded(0):
                from transformers import CLIPTextConfig, CLIPTextModel

                network: Any = CLIPTextModel(CLIPTextConfig(**self.config)).float()
        except Exception as error:  # transformers and PyTorch each raise their own kinds
            raise InputError(f"{title} cannot be built from its configuration: {one_line(error, 120)}") from None
        own = {name.removeprefix(_OLD_PREFIX): name for name in network.state_dict()}
        fill_network(network, {own.get(name, name): value for name, value in tensors.items()}, title)
        return network.eval().requires_grad_(False)


def read_captions(folder: Path, name: str) -> CaptionFolder:
    """Read tokenizer and text encoder of a pipeline without their weights.

    Args:
        folder: Folder of the pipeline.
        name: Name of the pipeline in messages.

    Raises:
        InputError: A file is missing, names code, is of another class, or is pickled.
        MissingExtraError: transformers is not installed.
    """
    try:
        version("transformers")
    except PackageNotFoundError:
        raise MissingExtraError("transformers", "transformers", _PURPOSE) from None
    config = read_config(folder / TEXT_ENCODER / CONFIG, name)
    if config.get("model_type") != _MODEL_TYPE:
        raise InputError(
            f"{name}: its text encoder is of type {one_line(config.get('model_type'), 60)}, and memorisk reads "
            f"{_MODEL_TYPE}"
        )
    read_config(folder / TOKENIZER / _TOKENIZER_CONFIG, name)
    own = {key: config[key] for key in (*_LARGEST, *_OTHERS) if key in config}
    if not all(isinstance(own.get(key, 1), int) and 0 < own.get(key, 1) <= most for key, most in _LARGEST.items()):
        sizes = ", ".join(f"{key} {most:,}" for key, most in _LARGEST.items())
        raise InputError(f"{name}: {CONFIG} of its text encoder needs whole numbers from 1 to at most {sizes}")
    if not {"vocab_size", "hidden_size", "max_position_embeddings"} <= set(own):
        raise InputError(f"{name}: {CONFIG} of its text encoder needs vocab_size, hidden_size, max_position_embeddings")
    weights = folder / TEXT_ENCODER / _WEIGHTS
    if not weights.is_file():
        raise InputError(
            f"{name} has no {TEXT_ENCODER}/{_WEIGHTS}, and pickled weights are not read: save it once more by "
            "diffusers, with safe_serialization"
        )
    files = [weights, *sorted(file for file in (folder / TOKENIZER).iterdir() if file.is_file())]
    content = fingerprint(own, [[file.name, file_sha256(file)] for file in files], length=32)
    return CaptionFolder(folder=folder, name=name, config=own, content=content)


_OTHERS = ("hidden_act", "layer_norm_eps", "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id")
"""Settings of a text encoder that its output depends on, besides its sizes."""
