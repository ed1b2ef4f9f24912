"""Autoencoders and the latents that they give: `command` trains one, `latent_store` keeps what it encodes."""
