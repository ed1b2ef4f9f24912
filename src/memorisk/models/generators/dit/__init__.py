"""Diffusion transformers: `network` is the network, `folder` reads published weights and a generator's own.

`sampling` draws images; `forward` is the network's pass for sampling with less work.
"""
