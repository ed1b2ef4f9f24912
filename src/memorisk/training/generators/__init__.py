"""Generators of images: `command` trains one, `fit` chooses its kind, `generation` makes a set with it.

`diffusion_training` and `gan_training` are the two kinds, `pseudo_conditions` the conditionings of paper 004.
"""
