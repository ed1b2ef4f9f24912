"""Activations of all layers of a network in one pass: forward hooks, pooled, streamed into one array per layer.

Paper 000, A.9; METHODS section 1, "Where is it stored?". Pooling: mean over space of feature maps; mean over the patch
tokens of transformers and, as a layer of its own, their CLS token. Only the pooled vectors are kept, so that memory
does not grow with the images beyond them (and not even with them where they go to the disk).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from memorisk.models.network_parts import head_names
from memorisk.runs.environment import check_device
from memorisk.runs.errors import InputError
from memorisk.runs.workload import CountProgress
from memorisk.statistics.memorization.probes import CLS
from memorisk.training.engine.devices import exact_products, place
from memorisk.training.engine.pixels import Images, Normalisation, PixelSource, check_images
from memorisk.training.engine.predict import predict_batch_size

_BATCH = 32  # hidden tokens of a ViT-B at 224 px take 20 MB per image


@dataclass(frozen=True)
class Layer:
    """Place of a hook in a network."""

    name: str
    """Name of the module in the network."""
    width: int | None
    """Number of channels, where the network names it; it distinguishes [b, C, H, W] from [b, H, W, C]."""


@dataclass(frozen=True)
class Activations:
    """Pooled activations of every layer."""

    layers: dict[str, np.ndarray]
    """Activations by layer, [n, d] float32, in the order of the network; on the disk where a folder was given."""
    chosen: str
    """Rule that chose the layers, in words."""


def choose_layers(model: nn.Module) -> tuple[list[Layer], str]:
    """Choose the layers: timm's own list of stages or blocks, else convolutions and linear layers in order.

    The classifier head is left out: its output is the loss by another name.

    Returns:
        Layers in order, and the rule that chose them.

    Raises:
        InputError: The network has neither of them.
    """
    modules = dict(model.named_modules())
    record = getattr(model, "feature_info", None)
    entries: list[Any] = list(getattr(record, "info", record) or [])
    layers = [Layer(str(e["module"]), e.get("num_chs")) for e in entries if e.get("module") in modules]
    if layers:
        return layers, "the stages or blocks that timm lists for the network (feature_info)"
    blocks = getattr(model, "blocks", None)
    if isinstance(blocks, (nn.Sequential, nn.ModuleList)) and len(blocks) and hasattr(model, "cls_token"):
        width = getattr(model, "embed_dim", None)
        return [Layer(f"blocks.{i}", width) for i in range(len(blocks))], "the transformer blocks"
    heads = set(head_names(model))
    kinds = (nn.Conv1d, nn.Conv2d, nn.Linear)
    layers = [Layer(n, None) for n, m in modules.items() if isinstance(m, kinds) and n not in heads]
    if not layers:
        raise InputError(f"{type(model).__name__} has no convolution and no linear layer to look at")
    return layers, "every convolution and linear layer but the head"


def extract_activations(
    model: nn.Module,
    images: Images,
    rows: np.ndarray,
    *,
    normalisation: Normalisation | None = None,
    device: str | torch.device = "cpu",
    layers: list[Layer] | None = None,
    folder: Path | None = None,
    batch_size: int | None = None,
    progress: CountProgress | None = None,
) -> Activations:
    """Compute pooled activations of chosen images in every layer: one forward pass, evaluation mode, float32.

    Args:
        model: The network; its mode is restored and its hooks are removed, also on error.
        images: Images, uint8 or uint16 [N, H, W, C].
        rows: Rows of the chosen images, [n].
        normalisation: Scaling of the pixels in the network's training; by default pixels in [0, 1].
        device: Device to compute on.
        layers: Layers to read; by default those of ``choose_layers``.
        folder: Folder to keep the arrays in, memory-mapped, instead of in memory.
        batch_size: Number of images at once; by default at most 32.
        progress: Function called with images done and their number.

    Returns:
        Activations, [n, d] float32 per layer; a layer that the forward pass does not call is left out.

    Raises:
        InputError: Rows are missing, images do not fit, or no layer was called.
    """
    check_images(images)
    if images.ndim != 4 or not len(rows):
        raise InputError(f"{len(rows)} images of shape {tuple(images.shape[1:])}; pixels [H, W, C] of some are needed")
    chosen, words = choose_layers(model) if layers is None else (layers, "the layers named")
    channels = int(images.shape[-1])
    normalisation = normalisation or Normalisation((0.0,) * channels, (1.0,) * channels)
    where = check_device(device)
    source = PixelSource(images, rows, device=where, dtype=torch.float32, normalisation=normalisation)
    size = batch_size or min(_BATCH, predict_batch_size(images))
    sink = _Sink(len(rows), folder)
    place(model, where)
    was_training = model.training
    model.eval()
    try:
        with _hooks(model, chosen, sink), torch.inference_mode(), exact_products(where):
            for x in source.batches(torch.arange(len(rows)).split(size)):
                model(x)
                sink.at += len(x)
                if progress is not None:
                    progress(sink.at, len(rows))
    finally:
        model.train(was_training)
    if not sink.arrays:
        raise InputError(f"none of {len(chosen)} layers of {type(model).__name__} was called: name others")
    names = [n for layer in chosen for n in (layer.name, layer.name + CLS) if n in sink.arrays]
    return Activations({n: sink.arrays[n] for n in names}, words)


class _Sink:
    """One array per layer, created when its width is known and filled batch by batch."""

    def __init__(self, n: int, folder: Path | None) -> None:
        self.n, self.folder, self.at = n, folder, 0
        self.arrays: dict[str, np.ndarray] = {}

    def put(self, name: str, value: torch.Tensor) -> None:
        """Write a batch [b, d] of one layer; where a layer is called more than once the last call remains."""
        batch = value.detach().float().cpu().numpy()
        if name not in self.arrays:
            self.arrays[name] = self._new((self.n, batch.shape[1]))
        self.arrays[name][self.at : self.at + len(batch)] = batch

    def _new(self, shape: tuple[int, int]) -> np.ndarray:
        if self.folder is None:
            return np.empty(shape, dtype=np.float32)
        path = self.folder / f"layer-{len(self.arrays)}.npy"
        return np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)


@contextmanager
def _hooks(model: nn.Module, layers: list[Layer], sink: _Sink) -> Iterator[None]:
    """Attach hooks to the layers, and remove them on leaving."""
    last = str(getattr(model, "output_fmt", "")) == "NHWC"
    prefix = int(getattr(model, "num_prefix_tokens", 0) or 0) if hasattr(model, "cls_token") else 0
    modules = dict(model.named_modules())
    handles = []
    try:
        for layer in layers:
            if layer.name not in modules:
                raise InputError(f"{type(model).__name__} has no layer {layer.name!r}")

            def hook(module: nn.Module, given: Any, output: Any, layer: Layer = layer) -> None:
                """Write the pooled output of the layer into the sink."""
                for name, value in pooled(layer, output, prefix=prefix, channels_last=last):
                    sink.put(name, value)

            handles.append(modules[layer.name].register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


def pooled(
    layer: Layer, output: Any, *, prefix: int = 0, channels_last: bool = False
) -> Iterator[tuple[str, torch.Tensor]]:
    """Pool one layer's output: (name, [b, d]) once, or twice where it has a CLS token.

    Args:
        layer: Layer of the output.
        output: Output [b, C, H, W], [b, H, W, C], [b, T, d] or [b, d]; of a tuple the first tensor is used.
        prefix: Number of tokens before the patches' own, the CLS token first.
        channels_last: Whether 4-dimensional outputs are [b, H, W, C].
    """
    if isinstance(output, (tuple, list)):
        output = next((o for o in output if isinstance(o, torch.Tensor)), None)
    if not isinstance(output, torch.Tensor) or output.ndim < 2:
        return
    if output.ndim == 2:
        yield layer.name, output
    elif output.ndim == 3:
        yield layer.name, output[:, prefix:].mean(dim=1)
        if prefix:
            yield layer.name + CLS, output[:, 0]
    else:
        width = layer.width
        at_end = channels_last or (width is not None and output.shape[-1] == width != output.shape[1])
        channel = output.ndim - 1 if at_end else 1
        yield layer.name, output.mean(dim=[d for d in range(1, output.ndim) if d != channel])
