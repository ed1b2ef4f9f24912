"""A small vision transformer: timm's class at a size that trains on a CPU.

It has what LoRA adapts, attention with ``qkv`` and ``proj``, and neither batch normalisation nor dropout.
"""

from torch import nn

from memorisk.runs.errors import InputError

_PATCHES = 8
_WIDTH, _DEPTH, _HEADS = 96, 4, 3


def small_vit(num_classes: int, in_chans: int, image_size: int) -> nn.Module:
    """64 patches, width 96, 4 blocks of 3 heads: 0.47 million parameters for three channels.

    Args:
        num_classes: Number of logits.
        in_chans: Channels of an image.
        image_size: Pixels a side, a multiple of 8.

    Raises:
        InputError: The image cannot be cut into 8 x 8 patches.
    """
    if image_size % _PATCHES:
        raise InputError(f"images of {image_size} px cannot be cut into {_PATCHES} x {_PATCHES} patches: use --size 64")
    from timm.models.vision_transformer import VisionTransformer  # timm takes seconds to import

    model = VisionTransformer(
        img_size=image_size,
        patch_size=image_size // _PATCHES,
        in_chans=in_chans,
        num_classes=num_classes,
        embed_dim=_WIDTH,
        depth=_DEPTH,
        num_heads=_HEADS,
    )
    setattr(model, "head_name", "head")  # noqa: B010 (modules type every attribute as a tensor)
    setattr(model, "stem_name", "patch_embed.proj")  # noqa: B010
    return model
