"""Autoencoders and their latents: `command` trains one, `latent_store` keeps what it encodes."""
