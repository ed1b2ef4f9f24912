"""The losses of StyleGAN2: logistic, R1, path length (Karras et al. 2020, section 3 and appendix B).

Both penalties are means of squared gradients, and are trained by a gradient of that. They are computed in float32 and
only every so many steps ("lazy regularisation"), then with that many times their weight.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


def generator_loss(fake: torch.Tensor) -> torch.Tensor:
    """Non-saturating: mean of log(1 + exp(-D(fake))).

    Args:
        fake: [b] logits.
    """
    return F.softplus(-fake).mean()


def discriminator_loss(fake: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Mean of log(1 + exp(D(fake))) and of log(1 + exp(-D(real))), summed.

    Args:
        fake: [b] logits.
        real: [b] logits.
    """
    return F.softplus(fake).mean() + F.softplus(-real).mean()


def r1_penalty(discriminate: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> torch.Tensor:
    """Squared norm of the gradient of each logit by its image (Mescheder et al. 2018): [b], to be trained on.

    Logits of a group depend on all of its images through their deviation, so that an image's gradient is that of the
    sum of logits.

    Args:
        discriminate: Images to logits [b], augmentation included.
        images: Real, [b, c, h, w].
    """
    images = images.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(discriminate(images).sum(), images, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3))


def path_lengths(
    synthesise: Callable[[torch.Tensor], torch.Tensor], styles: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """How far an image moves with its styles: |J^T y|, y of variance 1 / (h w), [b], to be trained on.

    The square is averaged over the layers, each of which has a w of its own.

    Args:
        synthesise: Styles [b, n, style] to images [b, c, h, w], each of its own row.
        styles: Of each layer, with their graph.
        noise: Normal numbers, [b, c, h, w].
    """
    images = synthesise(styles)
    y = noise / math.sqrt(images.shape[2] * images.shape[3])
    (gradient,) = torch.autograd.grad((images * y).sum(), styles, create_graph=True)
    return gradient.square().sum(dim=2).mean(dim=1).sqrt()
