"""Forward pass of a diffusion transformer for sampling: the same network, less work.

`diffusers.DiTTransformer2DModel` computes at every step and in every block the values that depend on the time and the
condition alone: a sinusoid, a network of two layers and six vectors per block that scale, shift and gate (adaLN). This
module computes these for many steps at once, and once for all images of a condition; the three products of attention
are one. Tests compare the result with the network's own forward pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

GROUP_NUMBERS = 1 << 16
"""Largest number of tokens times width computed at once on a CPU: fewer leave it waiting, more leave its caches."""

Block = torch.Tensor
"""Shift, scale + 1 and gate of attention, then of the feed-forward part, [s, m, 6, d]; s steps, m conditions."""


@dataclass(frozen=True, eq=False)
class Modulations:
    """Scales, shifts and gates at some steps, for some conditions."""

    blocks: tuple[Block, ...]
    """Modulations of each block."""
    final: torch.Tensor
    """Shift and scale + 1 before the output, [s, m, 2, d]."""

    def at(self, step: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Return the modulations of one step: [m, 6, d] of each block, [m, 2, d] before the output."""
        return tuple(block[step] for block in self.blocks), self.final[step]

    @classmethod
    def side_by_side(cls, parts: "Sequence[Modulations]") -> "Modulations":
        """Join the modulations of several conditions."""
        blocks = zip(*(part.blocks for part in parts), strict=True)
        final = torch.cat([part.final for part in parts], dim=1)
        return cls(tuple(torch.cat(block, dim=1) for block in blocks), final)


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights of a block: products as (weight, bias)."""

    qkv: tuple[torch.Tensor, torch.Tensor | None]
    out: tuple[torch.Tensor, torch.Tensor]
    up: tuple[torch.Tensor, torch.Tensor]
    down: tuple[torch.Tensor, torch.Tensor]
    modulation: nn.Linear
    embedding: Any
    eps: tuple[float, float]


class CachedForward:
    """Forward pass of a network with cached modulations.

    Args:
        network: Transformer (DiTTransformer2DModel); the weights of its products q, k, v are copied (a sixth of a
            block), the rest is used as it is. Training it later does not change the copies.
    """

    def __init__(self, network: Any) -> None:
        config = network.config
        self.heads, self.patch = int(config.num_attention_heads), int(config.patch_size)
        self.outputs = int(network.out_channels)
        embed = network.pos_embed
        self.grid = int(embed.height)
        self.first = embed.proj.weight.flatten(1).t()  # [c p p, d]
        self.positions = embed.pos_embed[0] + embed.proj.bias  # [n, d]
        self.blocks = [_weights(block) for block in network.transformer_blocks]
        self.last_modulation, self.last = network.proj_out_1, network.proj_out_2
        self.last_eps = float(network.norm_out.eps)

    @property
    def group(self) -> int:
        """Return the number of images computed at once on a CPU: bytes do not depend on an image's place in a group."""
        inputs, hidden = self.first.shape
        most = max(1, GROUP_NUMBERS // (self.grid**2 * hidden))
        return (
            most if rows_are_independent(most, self.grid**2, hidden, self.heads, inputs, self.last.out_features) else 1
        )

    def times(self, timesteps: torch.Tensor) -> torch.Tensor:
        """Compute embeddings of times: [S] to [S, depth, d]."""
        embeddings = []
        for block in self.blocks:
            emb = block.embedding
            wave = emb.time_proj(timesteps).to(emb.timestep_embedder.linear_1.weight.dtype)
            embeddings.append(emb.timestep_embedder(wave))
        return torch.stack(embeddings, dim=1)

    def conditions(self, labels: torch.Tensor) -> torch.Tensor:
        """Compute embeddings of conditions: [m] int64 or [m, k] float32 to [m, depth, d]."""
        return torch.stack([block.embedding.class_embedder(labels) for block in self.blocks], dim=1)

    def modulations(self, times: torch.Tensor, conditions: torch.Tensor) -> Modulations:
        """Compute the modulations of every pair of a time and a condition.

        Args:
            times: Embeddings of times, [s, depth, d], from `times`.
            conditions: Embeddings of conditions, [m, depth, d], from `conditions`.
        """
        s, m, d = len(times), len(conditions), times.shape[-1]
        active = F.silu(times[:, None] + conditions[None])  # [s, m, depth, d]
        blocks = []
        for k, block in enumerate(self.blocks):
            modulation = block.modulation(active[:, :, k].reshape(s * m, d)).view(s, m, 6, d)
            modulation[:, :, [1, 4]] += 1
            blocks.append(modulation)
        final = self.last_modulation(active[:, :, 0].reshape(s * m, d)).view(s, m, 2, d)
        final[:, :, 1] += 1
        return Modulations(tuple(blocks), final)

    def __call__(self, x: torch.Tensor, blocks: tuple[torch.Tensor, ...], final: torch.Tensor) -> torch.Tensor:
        """Evaluate the network once.

        Args:
            x: Noisy images or latents, [m, c, h, w].
            blocks: Modulations of each block, [m, 6, d]: `Modulations.at`.
            final: Modulations before the output, [m, 2, d].

        Returns:
            Outputs of the network, [m, outputs, h, w].
        """
        m, n, p = len(x), self.grid, self.patch
        patches = x.view(m, -1, n, p, n, p).permute(0, 2, 4, 1, 3, 5).clone(memory_format=torch.contiguous_format)
        hidden = patches.view(m, n * n, -1) @ self.first + self.positions
        for weights, modulation in zip(self.blocks, blocks, strict=True):
            shift, scale, gate, shift_2, scale_2, gate_2 = modulation.unbind(1)
            normed = _modulated(hidden, scale, shift, weights.eps[0])
            hidden = torch.addcmul(hidden, gate[:, None], F.linear(self._attention(normed, weights), *weights.out))
            normed = _modulated(hidden, scale_2, shift_2, weights.eps[1])
            inner = _activation(F.linear(normed, *weights.up))
            hidden = torch.addcmul(hidden, gate_2[:, None], F.linear(inner, *weights.down))
        out = self.last(_modulated(hidden, final[:, 1], final[:, 0], self.last_eps))
        out = out.view(m, n, n, p, p, self.outputs).permute(0, 5, 1, 3, 2, 4)
        return out.reshape(m, self.outputs, n * p, n * p)

    def _attention(self, x: torch.Tensor, weights: _Weights) -> torch.Tensor:
        """Compute the heads of attention, before the product that mixes them: [m, n, d]."""
        m, n, d = x.shape
        qkv = F.linear(x, *weights.qkv).view(m, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(m, n, d)


@lru_cache
def rows_are_independent(images: int, tokens: int, hidden: int, heads: int, inputs: int, outputs: int) -> bool:
    """Return whether every layer gives an image the same bytes at any place of a group, with any other images.

    Kernels for matrices may treat rows at an edge in another order of additions. A kernel for an activation computes
    the
    last numbers of an array, fewer than it takes at once, by another approximation. The function tests the kernels of
    this
    machine, on noise, once for every shape.

    Args:
        images: Number of images in a group.
        tokens: Number of tokens of an image.
        hidden: Width of the network.
        heads: Number of heads of its attention.
        inputs: Number of values of a patch.
        outputs: Number of outputs of a patch.
    """
    noise = torch.Generator().manual_seed(0)

    def apart(x: torch.Tensor, layer: Any) -> bool:
        """Compare the outputs with those of the rows moved by one, and of the first row among zeros."""
        alone = torch.zeros_like(x)
        alone[0] = x[0]
        outputs = layer(x)
        same = torch.equal(layer(x.roll(1, 0)), outputs.roll(1, 0)) and torch.equal(layer(alone)[0], outputs[0])
        return same

    shapes = [(inputs, hidden), (hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)]
    for n_in, n_out in [*shapes, (hidden, outputs)]:
        x = torch.randn(images, tokens, n_in, generator=noise)
        weight, bias = torch.randn(n_out, n_in, generator=noise), torch.randn(n_out, generator=noise)
        if not apart(x, lambda x, w=weight, b=bias: F.linear(x, w, b)):
            return False
    if not apart(torch.randn(images, tokens, 4 * hidden, generator=noise), _activation):
        return False
    qkv = torch.randn(images, heads, tokens, 3 * hidden // heads, generator=noise)
    return apart(qkv, lambda x: F.scaled_dot_product_attention(*x.chunk(3, dim=-1)))


def _activation(x: torch.Tensor) -> torch.Tensor:
    """Return the activation of the feed-forward part."""
    return F.gelu(x, approximate="tanh")


def _modulated(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, eps: float) -> torch.Tensor:
    """Apply LayerNorm without weights, then scale and shift [m, d]; a single condition takes one pass."""
    if len(scale) == 1:
        return F.layer_norm(x, (x.shape[-1],), scale[0], shift[0], eps)
    return torch.addcmul(shift[:, None], F.layer_norm(x, (x.shape[-1],), eps=eps), scale[:, None])


def _product(layer: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    return layer.weight, layer.bias


def _weights(block: Any) -> _Weights:
    """Return the weights of a block of diffusers."""
    attention = block.attn1
    parts = (attention.to_q, attention.to_k, attention.to_v)
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    return _Weights(
        qkv=(torch.cat([part.weight for part in parts]), bias),
        out=_product(attention.to_out[0]),
        up=_product(block.ff.net[0].proj),
        down=_product(block.ff.net[2]),
        modulation=block.norm1.linear,
        embedding=block.norm1.emb,
        eps=(float(block.norm1.norm.eps), float(block.norm3.eps)),
    )
