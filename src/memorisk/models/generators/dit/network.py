"""Diffusion transformers (Peebles and Xie, "Scalable Diffusion Models with Transformers", 2023), as in diffusers.

The network is `diffusers.DiTTransformer2DModel`. diffusers builds it with PyTorch's own random weights; here it begins
as the paper's code does (section 3.2, adaLN-Zero): every block is the identity and the output is 0. In diffusers, each
block keeps a timestep embedding and a class table of its own, where the paper's code shares one: they begin alike, as
weights of the paper do once converted.

diffusers drops labels in every block independently, and while training only. This module turns its dropping off: the
training draws which rows lose their condition, once per row, by giving the null label (`null_labels`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from memorisk.models.autoencoder import check_library
from memorisk.models.classifiers.zoo import seeded
from memorisk.models.generators.generators import CONDITION_KINDS
from memorisk.models.hub import quiet
from memorisk.models.settings import parse_size
from memorisk.runs.errors import InputError, MissingExtraError, unknown_name

_PURPOSE = "a diffusion transformer"
_EMBEDDING_STD = 0.02


@dataclass(frozen=True, kw_only=True)
class DiTSpec:
    """Specification of a diffusion transformer."""

    hidden: int
    """Width of the transformer."""
    depth: int
    """Number of blocks."""
    heads: int
    """Number of heads of its attention."""
    patch: int
    """Side in pixels (or numbers of a latent) of the patch that becomes one token."""
    side: int
    """Side in pixels (or numbers of a latent) of the network's images."""
    channels: int
    """Number of channels that it draws."""
    conditioned_on: str = "none"
    """Kind of the condition: ``none``, ``class`` or ``vector``."""
    classes: int = 0
    """Number of classes of a network that is conditioned on the class."""
    condition_dim: int = 0
    """Length of a condition that is a vector."""
    learn_sigma: bool = False
    """Whether it also gives a variance besides the noise, which doubles the channels of its output."""

    @classmethod
    def named(cls, size: str, *, side: int, channels: int, **more: Any) -> "DiTSpec":
        """Return the specification of a named size.

        Args:
            size: Size such as ``XL/2`` or ``tiny/4``: a name of `memorisk.models.settings.DIT_SIZES` and the patch.
            side: Side in pixels, or in numbers of a latent.
            channels: Number of channels of its images.
            **more: Further fields of the specification.

        Raises:
            InputError: The size is unknown, or values do not fit each other.
        """
        hidden, depth, heads, patch = parse_size(size)
        spec = cls(hidden=hidden, depth=depth, heads=heads, patch=patch, side=side, channels=channels, **more)
        spec.validate()
        return spec

    def validate(self) -> None:
        """Check that the values fit each other.

        Raises:
            InputError: The values do not.
        """
        for name in ("hidden", "depth", "heads", "patch", "side", "channels"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} of a DiT is {getattr(self, name)}; it must be a whole number of at least 1")
        if self.side % self.patch:
            raise InputError(
                f"a patch of {self.patch} does not divide {self.side} a side (of the latent, or of the image where "
                f"there is none): choose a patch or a size that does"
            )
        if self.hidden % self.heads or self.hidden % 4:
            raise InputError(f"a width of {self.hidden} must be a multiple of 4 and of its {self.heads} heads")
        if self.conditioned_on not in CONDITION_KINDS:
            raise unknown_name("condition", self.conditioned_on, CONDITION_KINDS)
        needed = {"none": "", "class": "classes", "vector": "condition_dim"}[self.conditioned_on]
        for name in ("classes", "condition_dim"):
            if (getattr(self, name) > 0) != (name == needed) or getattr(self, name) < 0:
                raise InputError(
                    f"{name} is {getattr(self, name)} of a DiT that is conditioned on {self.conditioned_on}"
                )

    @property
    def tokens(self) -> int:
        """Count the patches of an image or latent."""
        return (self.side // self.patch) ** 2

    @property
    def rows(self) -> int:
        """Count the rows of its class table without the null one: one where it is not conditioned on the class."""
        return max(self.classes, 1)

    @property
    def outputs(self) -> int:
        """Count the channels of its output."""
        return self.channels * (2 if self.learn_sigma else 1)


class VectorEmbedding(nn.Module):
    """Embedding of a condition that is a vector, in the place of diffusers' class table: Linear, SiLU, Linear.

    A row with a missing number (NaN) has no condition: a learned vector takes its place.

    Args:
        condition_dim: Length of a condition.
        hidden: Width of the transformer.
    """

    def __init__(self, condition_dim: int, hidden: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(condition_dim, hidden)
        self.linear_2 = nn.Linear(hidden, hidden)
        self.null = nn.Parameter(torch.zeros(hidden))

    def forward(self, conditions: torch.Tensor) -> torch.Tensor:
        """Map [b, k] conditions to [b, hidden]."""
        missing = conditions.isnan().any(dim=1, keepdim=True)
        filled = torch.where(missing, 0.0, conditions).to(self.linear_1.weight.dtype)
        embedding = self.linear_2(nn.functional.silu(self.linear_1(filled)))
        return torch.where(missing, self.null.to(embedding.dtype), embedding)


def new_dit(spec: DiTSpec, seed: int) -> Any:
    """Build a network with random weights, as the paper begins.

    Linear layers and patches: Xavier uniform, biases 0; timestep and condition embeddings: normal with a deviation of
    0.02, alike in every block; modulations (adaLN) of the blocks and of the output, and the output itself: 0.

    Args:
        spec: Specification of the network.
        seed: Random seed of the weights.

    Returns:
        Network (`diffusers.DiTTransformer2DModel`), float32, called as ``network(x [b, c, h, w], timestep [b],
        class_labels=labels)``: labels [b] int64 of classes (all 0 where there are none), or [b, k] float32 of vectors;
        `null_labels` for rows without a condition.

    Raises:
        InputError: The values of the specification do not fit each other.
        MissingExtraError: diffusers is not installed.
    """
    spec.validate()
    with seeded(seed):
        network = build_transformer(architecture(spec))
        adapt_conditions(network, spec.condition_dim)
        _initialise(network)
    return network.float().train()


def null_labels(spec: DiTSpec, n: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return labels of ``n`` rows without a condition: [n] int64, or [n, k] float32 of a network of vectors."""
    if spec.conditioned_on == "vector":
        return torch.full((n, spec.condition_dim), math.nan, device=device)
    return torch.full((n,), spec.rows, dtype=torch.int64, device=device)


def spec_of(network: Any) -> DiTSpec:
    """Read the specification off a network; a table of one class is a network without conditions."""
    config = network.config
    embedder = network.transformer_blocks[0].norm1.emb.class_embedder
    vector = isinstance(embedder, VectorEmbedding)
    classes = 0 if vector or config.num_embeds_ada_norm == 1 else int(config.num_embeds_ada_norm)
    return DiTSpec(
        hidden=config.num_attention_heads * config.attention_head_dim,
        depth=config.num_layers,
        heads=config.num_attention_heads,
        patch=config.patch_size,
        side=config.sample_size,
        channels=config.in_channels,
        conditioned_on="vector" if vector else "class" if classes else "none",
        classes=classes,
        condition_dim=embedder.linear_1.in_features if vector else 0,
        learn_sigma=network.out_channels == 2 * config.in_channels,
    )


def architecture(spec: DiTSpec) -> dict[str, Any]:
    """Return the arguments from which diffusers builds it."""
    return {
        "num_attention_heads": spec.heads,
        "attention_head_dim": spec.hidden // spec.heads,
        "in_channels": spec.channels,
        "out_channels": spec.outputs,
        "num_layers": spec.depth,
        "sample_size": spec.side,
        "patch_size": spec.patch,
        "num_embeds_ada_norm": spec.rows,
    }


def build_transformer(config: Mapping[str, Any]) -> Any:
    """Build a DiTTransformer2DModel from a configuration as diffusers does; its own dropping of labels is off.

    Raises:
        MissingExtraError: diffusers is not installed.
    """
    check_library(_PURPOSE)
    try:
        with quiet("diffusers"):
            from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel
    except ImportError:
        raise MissingExtraError("diffusers", "generative", _PURPOSE) from None
    with quiet("diffusers"):
        network: Any = DiTTransformer2DModel(**config)
    for block in network.transformer_blocks:
        block.norm1.emb.class_embedder.dropout_prob = 0.0
    return network


def adapt_conditions(network: Any, condition_dim: int) -> None:
    """Put embeddings of vectors of this length in the place of the class tables; of length 0, leave these."""
    if condition_dim:
        for block in network.transformer_blocks:
            block.norm1.emb.class_embedder = VectorEmbedding(condition_dim, network.inner_dim)


def init_conditions(network: Any) -> None:
    """Draw new random embeddings of conditions, alike in every block."""
    first = network.transformer_blocks[0].norm1.emb.class_embedder
    for name, value in first.named_parameters():
        nn.init.zeros_(value) if name.endswith("bias") else nn.init.normal_(value, std=_EMBEDDING_STD)
    for block in network.transformer_blocks[1:]:
        block.norm1.emb.class_embedder.load_state_dict(first.state_dict())


def _initialise(network: Any) -> None:
    """Initialise as `new_dit` says."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight.view(len(module.weight), -1))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    init_conditions(network)
    first = network.transformer_blocks[0].norm1.emb.timestep_embedder
    for layer in (first.linear_1, first.linear_2):
        nn.init.normal_(layer.weight, std=_EMBEDDING_STD)
    for block in network.transformer_blocks:
        block.norm1.emb.timestep_embedder.load_state_dict(first.state_dict())
        _zero(block.norm1.linear)
    _zero(network.proj_out_1)
    _zero(network.proj_out_2)


def _zero(layer: nn.Linear) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
