"""Generators of images. Start with `generators`, which opens one of any kind.

`dit` holds diffusion transformers, `text_to_image` the parts of generators of captions, `stylegan2_generator` with
`stylegan2_networks` a GAN,
`conditions` the pseudo-conditions of images (paper 004). `denoiser` turns any diffusion network into a predictor of
noise; `noise_losses` and `noise_attacks` measure it on images.
"""
