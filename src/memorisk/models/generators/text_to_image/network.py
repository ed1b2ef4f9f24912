"""U-Net with the text encoder of its pipeline, as one network that takes the tokens of a caption as its condition."""

from typing import Any

import torch
from torch import nn


class CaptionedUNet(nn.Module):
    """U-Net that is conditioned on captions.

    It is called as a network of classes is, with the tokens of the captions in place of their numbers: each different
    caption of a batch is encoded once. The text encoder stays frozen and in evaluation mode.

    Args:
        unet: `diffusers.UNet2DConditionModel`.
        text_encoder: `transformers.CLIPTextModel`.
    """

    def __init__(self, unet: Any, text_encoder: Any) -> None:
        super().__init__()
        self.unet, self.text_encoder = unet, text_encoder.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "CaptionedUNet":
        """Set the mode of the U-Net alone."""
        super().train(mode)
        self.text_encoder.eval()
        return self

    def forward(self, sample: torch.Tensor, timestep: Any, class_labels: torch.Tensor, return_dict: bool = True) -> Any:
        """Predict from noised latents [b, c, h, w], times [b] and tokens [b, T]; answers as diffusers' network."""
        captions, place = torch.unique(class_labels, dim=0, return_inverse=True)
        with torch.no_grad():
            states = self.text_encoder(input_ids=captions).last_hidden_state
        return self.unet(sample, timestep, encoder_hidden_states=states[place], return_dict=return_dict)
