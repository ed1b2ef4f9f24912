"""Diffusion transformers: `network` is the network, `weights` opens published ones, `folder` is a generator.

`sampling` draws images; `forward` is the network's pass for sampling with less work.
"""
