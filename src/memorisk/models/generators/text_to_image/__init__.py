"""Parts of text-to-image generators of Stable Diffusion's shape (Rombach et al. 2022), from a local folder.

`captions` reads tokenizer and text encoder, `network` joins the encoder with its U-Net, `lora` adds adapters to one.
"""
