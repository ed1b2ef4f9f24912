"""Autoencoders of images: `autoencoders` opens one, `latents` encodes."""
