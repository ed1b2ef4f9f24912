"""Autoencoders and their latents: `command` trains one, `latent_store` keeps encoded images."""
