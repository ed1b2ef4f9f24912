"""Squared norms of per-image gradients: from a layer's input and output gradient, or from a gradient per image.

The short way takes a layer's input ``a`` and the gradient ``g`` of its output. Every function takes what a layer
saw and returns [b] in float64, one number per image. Rows of a may be windows or tokens of an image, ``k`` blocks
of rows per image, in the images' order: the functions fold these back into the image first.

The long way computes one gradient per image. It is the definition, and it serves where no short way holds.
"""

import warnings
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

BUDGET = 1 << 22
"""Numbers that an intermediate array may hold (16 MB in float32): images are taken in pieces below it."""
_FEW = 64  # numbers per patch: below, patches copied out and one product beat a call of the library for every image
METHODS = ("vmap", "loop")
_GRADIENT_NUMBERS = 1 << 25  # numbers in the gradients of the images that vmap takes at once (128 MB in float32)


def image_chunks(b: int, numbers: int) -> Iterator[slice]:
    """Cut b images into slices, each of as many images as fit the budget at this many numbers per image."""
    step = max(1, BUDGET // max(numbers, 1))
    return (slice(i, min(i + step, b)) for i in range(0, b, step))


def squared_norms(per_image: torch.Tensor) -> torch.Tensor:
    """Sum the squares of each image's numbers, in float64 (a million squares in float32 lose four digits): [b]."""
    return torch.linalg.vector_norm(per_image.reshape(len(per_image), -1), dim=1, dtype=torch.float64).square()


def linear_weight(a: torch.Tensor, g: torch.Tensor, b: int) -> torch.Tensor:
    """Compute ``||sum_t g_t a_t^T||^2`` of a linear layer: a [b k, ..., d], g [b k, ..., m] to [b].

    With one row per image it is ``||a||^2 ||g||^2``. With more it is ``sum_{t,s} (a_t . a_s)(g_t . g_s)``, by Gram
    matrices where T (d + m) is below d m, else by the product itself.
    """
    rows_a, rows_g = a.reshape(b, -1, a.shape[-1]), g.reshape(b, -1, g.shape[-1])
    t, d, m = rows_a.shape[1], rows_a.shape[2], rows_g.shape[2]
    if t == 1:
        return squared_norms(rows_a) * squared_norms(rows_g)
    return _products(rows_a.transpose(1, 2), rows_g.transpose(1, 2), gram=t * (d + m) < d * m)


def _products(a: torch.Tensor, g: torch.Tensor, gram: bool) -> torch.Tensor:
    """Compute ``||g a^T||^2`` of a [b, d, t] and g [b, m, t], by [t, t] Gram matrices or directly: [b]."""
    b, (d, t), m = len(a), a.shape[1:], g.shape[1]
    norms = a.new_empty(b, dtype=torch.float64)
    for part in image_chunks(b, 2 * t * t if gram else d * m):
        if gram:
            product = (a[part].transpose(1, 2) @ a[part]) * (g[part].transpose(1, 2) @ g[part])
            norms[part] = product.sum(dim=(1, 2), dtype=torch.float64).clamp(min=0)
        else:
            norms[part] = squared_norms(g[part] @ a[part].transpose(1, 2))
    return norms


def linear_bias(g: torch.Tensor, b: int) -> torch.Tensor:
    """Compute ``||sum_t g_t||^2``: g [b k, ..., m] to [b]."""
    return squared_norms(g.reshape(b, -1, g.shape[-1]).sum(dim=1))


def channel_sums(values: torch.Tensor, b: int) -> torch.Tensor:
    """Compute the squared norm of the channels' sums over an image's positions: [b k, C, ...] to [b]."""
    folded = values.reshape(b, -1, values.shape[1], values[0, 0].numel())
    return squared_norms(folded.sum(dim=(1, 3)))


def trailing_sums(values: torch.Tensor, b: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Compute the squared norm of the sum over an image's positions: [b k, ..., *shape] to [b].

    The weights have the trailing ``shape``.
    """
    return squared_norms(values.reshape(b, -1, *shape).sum(dim=1))


def broadcast_sums(values: torch.Tensor, b: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Compute the squared norm of the sum over the axes along which weights of ``shape`` were broadcast.

    The batch axis is kept: [b k, ...] to [b].
    """
    padded = (1,) * (values.ndim - len(shape)) + tuple(shape)
    folded = values.reshape(b, -1, *values.shape[1:])
    axes = (1, *(axis + 1 for axis in range(1, values.ndim) if padded[axis] == 1))
    return squared_norms(folded.sum(dim=axes))


def embedding_weight(index: torch.Tensor, g: torch.Tensor, b: int, padding_idx: int | None) -> torch.Tensor:
    """Compute ``sum_v ||sum_{t: index_t = v} g_t||^2`` of an embedding: index [b k, ...], g [b k, ..., d] to [b]."""
    rows_index, rows_g = index.reshape(b, -1), g.reshape(b, -1, g.shape[-1])
    if padding_idx is not None:
        rows_g = rows_g * (rows_index != padding_idx)[..., None]
    size = int(rows_index.max()) + 1
    image = torch.arange(b, device=index.device)[:, None]
    keys, place = torch.unique(rows_index + image * size, return_inverse=True)
    sums = rows_g.new_zeros(len(keys), rows_g.shape[-1]).index_add_(0, place.reshape(-1), rows_g.flatten(0, 1))
    return rows_g.new_zeros(b, dtype=torch.float64).index_add_(0, keys // size, squared_norms(sums))


def convolution_weight(
    a: torch.Tensor,
    g: torch.Tensor,
    weight: torch.Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> torch.Tensor:
    """Compute ``||sum_p g_p u_p^T||^2`` of a 2-D convolution, u_p the patch of a at position p, group by group: [b].

    Args:
        a: Input of the layer, [b, C, H, W].
        g: Gradient of the output, [b, m, h, w].
        weight: Kernels, [m, C / groups, kh, kw]; only their shape matters.
        stride: Steps between patches in pixels, two numbers as for a convolution.
        padding: Zeros on both sides of each axis, two numbers.
        dilation: Distance between the kernel's pixels, two numbers.
        groups: Number of groups of channels.

    P positions, K = C kh kw / groups numbers per patch and M = m / groups outputs cost ``P K M`` by the product itself
    and ``P^2 (K + M)`` by the Gram matrices of positions; the cheaper is taken.
    """
    b, m = g.shape[:2]
    kernel = tuple(weight.shape)
    size = kernel[1] * kernel[2] * kernel[3]
    positions, outputs = g.shape[2] * g.shape[3], m // groups
    gram = positions * (size + outputs) < size * outputs
    pointwise = kernel[2:] == (1, 1) and stride == (1, 1) and padding == (0, 0)
    if not gram and not pointwise and size > _FEW and a.device.type == "cpu":
        return _one_by_one(a, g, weight, stride, padding, dilation, groups)
    norms = a.new_empty(b, dtype=torch.float64)
    for part in image_chunks(b, groups * size * positions):
        patches = _patches(a[part], kernel, g.shape[2:], stride, padding, dilation)
        grouped = patches.reshape(-1, size, positions)  # [pieces * groups, K, P]
        squared = _products(grouped, g[part].reshape(-1, outputs, positions), gram)
        norms[part] = squared.reshape(-1, groups).sum(dim=1)
    return norms


def _one_by_one(
    a: torch.Tensor,
    g: torch.Tensor,
    weight: torch.Tensor,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> torch.Tensor:
    """Use the library's own weight gradient, one image at a time: on a CPU three times as fast as copied patches."""
    norms = a.new_empty(len(a), dtype=torch.float64)
    settings = (None, stride, padding, dilation, False, (0, 0), groups, (False, True, False))
    for i in range(len(a)):
        own = torch.ops.aten.convolution_backward(g[i : i + 1], a[i : i + 1], weight, *settings)[1]
        norms[i] = torch.linalg.vector_norm(own, dtype=torch.float64).square()
    return norms


def _patches(
    a: torch.Tensor,
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> torch.Tensor:
    """View every patch that the kernel sees: [b, C, kh, kw, h, w]."""
    if padding != (0, 0):
        a = F.pad(a, (padding[1], padding[1], padding[0], padding[0]))
    batch, channel, row, column = a.stride()
    strides = (batch, channel, row * dilation[0], column * dilation[1], row * stride[0], column * stride[1])
    return a.as_strided((*a.shape[:2], kernel[2], kernel[3], *out), strides, a.storage_offset())


def squares_by_loop(
    model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Compute ``||grad_p (direction_i . logits_i)||^2`` of every image i and named parameter p.

    The function makes one backward pass per image.

    Args:
        model: Network in evaluation mode.
        x: Input of the network, [b, ...].
        direction: Direction at the logits, [b, k].
        names: Names of parameters that require a gradient.

    Returns:
        Squared norms by name, [b] float64 each.
    """
    own = dict(model.named_parameters())
    chosen = [own[name] for name in names]
    squared = {name: torch.zeros(len(x), dtype=torch.float64) for name in names}
    for i in range(len(x)):
        logits = model(x[i : i + 1]).reshape(1, -1)
        if not logits.requires_grad:
            continue
        gradients = torch.autograd.grad(logits, chosen, grad_outputs=direction[i : i + 1], allow_unused=True)
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is not None:
                dense = gradient.to_dense() if gradient.is_sparse else gradient
                squared[name][i] = torch.linalg.vector_norm(dense, dtype=torch.float64).square()
    return squared


def squares_by_vmap(
    model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Compute the same with torch.func, in chunks of images whose gradients fit a fixed memory.

    Not every network allows it.
    """
    own = {name: p.detach() for name, p in model.named_parameters()}
    chosen = {name: own[name] for name in names}

    def projected(weights: dict[str, torch.Tensor], image: torch.Tensor, towards: torch.Tensor) -> torch.Tensor:
        """Compute one image's logits along its direction."""
        return (functional_call(model, weights, (image[None],)).reshape(-1) * towards).sum()

    def squares(
        weights: dict[str, torch.Tensor], image: torch.Tensor, towards: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Compute squared gradient norms of one image, by the name of the weight."""
        gradients = grad(projected)(weights, image, towards)
        return {name: g.square().sum(dtype=torch.float64) for name, g in gradients.items()}

    numbers = sum(p.numel() for p in chosen.values())
    with torch.no_grad():  # grad() computes its own; without this the outer graph would be kept as well
        chunk = max(1, _GRADIENT_NUMBERS // max(numbers, 1))
        by_name = vmap(squares, in_dims=(None, 0, 0), chunk_size=chunk)(chosen, x, direction)
    return {name: value.cpu() for name, value in by_name.items()}


def per_image_squares(
    method: str, model: nn.Module, x: torch.Tensor, direction: torch.Tensor, names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Compute the squared norms by the method "vmap" or "loop"."""
    if method == "loop":
        return squares_by_loop(model, x, direction, names)
    with warnings.catch_warnings():  # about operations that vmap takes one image at a time: slower, not wrong
        warnings.filterwarnings("ignore", message="There is a performance drop")
        return squares_by_vmap(model, x, direction, names)
