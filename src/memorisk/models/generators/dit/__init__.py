"""Diffusion transformers: `network` is the network, `weights` reads published ones."""
